"""Reverse-mode differentiation: the walk back through the GradNodes that ops recorded."""

from __future__ import annotations

import heapq
from collections.abc import Callable, Sequence
from typing import Any

from pyframe.autograd.function import Function
from pyframe.autograd.gradcheck import gradcheck, gradgradcheck
from pyframe.ops.op import GradNode, mode
from pyframe.tensor import Tensor, grad_enabled, own_storage

__all__ = ["Function", "RemovableHandle", "backward", "grad", "gradcheck", "gradgradcheck"]


class RemovableHandle:
    """What registering a hook returns: `remove()` takes the hook off again."""

    def __init__(self, hooks: list[Callable[..., Any]], hook: Callable[..., Any]) -> None:
        self._hooks, self._hook = hooks, hook
        hooks.append(hook)

    def remove(self) -> None:
        """Take the hook off; a second call does nothing."""
        if self._hook in self._hooks:
            self._hooks.remove(self._hook)

    def __enter__(self) -> RemovableHandle:
        return self

    def __exit__(self, *exc: object) -> None:
        self.remove()


def backward(
    tensors: Tensor | Sequence[Tensor],
    grad_tensors: Any = None,
    retain_graph: bool | None = None,
    create_graph: bool = False,
    inputs: Tensor | Sequence[Tensor] | None = None,
) -> None:
    """Add the gradients of `tensors` to `.grad` of the leaves (or of `inputs` only)."""
    roots = [tensors] if isinstance(tensors, Tensor) else list(tensors)
    if inputs is None:
        wanted = None
    else:
        wanted = [inputs] if isinstance(inputs, Tensor) else list(inputs)
        if not wanted:
            raise RuntimeError("'inputs' argument to backward() cannot be empty.")
    found = _walk(roots, _seeds(roots, grad_tensors), retain_graph, create_graph, wanted)
    if wanted is not None:
        for x, g in zip(wanted, found, strict=True):
            if g is not None:
                _accumulate(x, g, create_graph, False)


def grad(
    outputs: Tensor | Sequence[Tensor],
    inputs: Tensor | Sequence[Tensor],
    grad_outputs: Any = None,
    retain_graph: bool | None = None,
    create_graph: bool = False,
    allow_unused: bool | None = None,
    is_grads_batched: bool = False,
    materialize_grads: bool = False,
) -> tuple[Any, ...]:
    """The gradients of `outputs` with respect to `inputs`, without touching `.grad`."""
    if is_grads_batched:
        raise TypeError("grad: is_grads_batched is not supported; call grad once per gradient")
    roots = [outputs] if isinstance(outputs, Tensor) else list(outputs)
    wanted = [inputs] if isinstance(inputs, Tensor) else list(inputs)
    for x in wanted:
        if not x.requires_grad:
            raise RuntimeError("One of the differentiated Tensors does not require grad")
    found = _walk(roots, _seeds(roots, grad_outputs), retain_graph, create_graph, wanted)
    if materialize_grads:
        found = [x.detach() * 0 if g is None else g for x, g in zip(wanted, found, strict=True)]
    elif not allow_unused and any(g is None for g in found):
        raise RuntimeError(
            "One of the differentiated Tensors appears to not have been used in the graph. Set "
            "allow_unused=True if this is the desired behavior."
        )
    return tuple(found)


def _seeds(roots: list[Tensor], grads: Any) -> list[Tensor]:
    if grads is None or isinstance(grads, Tensor):
        grads = [grads] * len(roots)
    if len(grads) != len(roots):
        raise RuntimeError(f"got {len(roots)} tensors and {len(grads)} gradients")
    out = []
    for x, g in zip(roots, grads, strict=True):
        if not x.requires_grad:
            raise RuntimeError(
                "element 0 of tensors does not require grad and does not have a grad_fn"
            )
        if g is None:
            if x.numel() != 1:
                raise RuntimeError("grad can be implicitly created only for scalar outputs")
            from pyframe.ops.creation import ones_like

            g = ones_like(x)
        elif g._node.shape != x._node.shape:
            raise RuntimeError(
                f"Mismatch in shape: grad_output has a shape of {list(g.shape)} and output has a "
                f"shape of {list(x.shape)}."
            )
        out.append(g)
    return out


def _leads_to(roots: list[Any], wanted: list[Tensor]) -> set[int]:
    """ids of the GradNodes from which some wanted tensor can be reached."""
    goals = {id(x if x.grad_fn is None else x.grad_fn) for x in wanted}
    useful: set[int] = set()
    order: list[Any] = []
    seen: set[int] = set()
    stack = [r for r in roots if isinstance(r, GradNode)]
    while stack:
        node = stack.pop()
        if id(node) in seen:
            continue
        seen.add(id(node))
        order.append(node)
        stack.extend(e for e in node.edges if isinstance(e, GradNode))
    for node in sorted(order, key=lambda n: n.seq):
        if any(e is not None and (id(e) in goals or id(e) in useful) for e in node.edges):
            useful.add(id(node))
    return useful


def _walk(
    roots: list[Tensor],
    seeds: list[Tensor],
    retain_graph: bool | None,
    create_graph: bool,
    wanted: list[Tensor] | None,
) -> list[Any]:
    """Walk back from `roots`. A node was made after all that it depends on, so visiting by
    falling sequence number is a topological order."""
    retain = create_graph if retain_graph is None else retain_graph
    starts = [x.grad_fn or x for x in roots]
    useful = None if wanted is None else _leads_to(starts, wanted)
    slots: dict[int, list[int]] = {}
    results: list[Any] = [None] * len(wanted or ())
    for i, x in enumerate(wanted or ()):
        slots.setdefault(id(x.grad_fn or x), []).append(i)
    pending: dict[int, Tensor] = {}
    fresh: set[int] = set()  # targets whose gradient no one else can hold
    leaves: dict[int, Tensor] = {}
    heap: list[tuple[int, GradNode]] = []

    def send(target: Any, g: Tensor, is_fresh: bool) -> None:
        key = id(target)
        old = pending.get(key)
        if is_fresh or old is not None:
            fresh.add(key)
        if old is None:
            if isinstance(target, GradNode):
                heapq.heappush(heap, (-target.seq, target))
            else:
                leaves[key] = target
            pending[key] = g
        else:
            pending[key] = old + g

    with grad_enabled(create_graph):
        for start, g in zip(starts, seeds, strict=True):
            send(start, g, False)
        while heap:
            node = heapq.heappop(heap)[1]
            g = pending.pop(id(node))
            for hook in node.hooks or ():
                replaced = hook(g)
                g = g if replaced is None else replaced
            if node.retained is not None and wanted is None:
                owner = node.retained()
                if owner is not None:
                    _accumulate(owner, g, create_graph, False)
            for i in slots.get(id(node), ()):
                results[i] = g
            if useful is not None and id(node) not in useful:
                continue
            node_vjp = node.vjp
            for i, edge in enumerate(node.edges):
                if edge is None:
                    continue
                if useful is not None and id(edge) not in useful and id(edge) not in slots:
                    continue
                part = node_vjp(i, g)
                if part is not None:  # a user's Function may return anything
                    send(edge, part, type(node) is GradNode and part._storage is not g._storage)
            if not retain:
                node.saved = None
        for key, leaf in leaves.items():
            g = pending[key]
            for hook in leaf._hooks or ():
                replaced = hook(g)
                g = g if replaced is None else replaced
            if wanted is None:
                _accumulate(leaf, g, create_graph, key in fresh and not leaf._hooks)
            for i in slots.get(key, ()):
                results[i] = g
    return results


def _accumulate(x: Tensor, g: Tensor, create_graph: bool, fresh: bool) -> None:
    """Add to `.grad`; `fresh` says that nothing else holds `g`'s memory."""
    if mode.capture is not None:
        mode.capture.touch_grad(x, True)
    if x.grad is not None:
        with grad_enabled(create_graph):
            x.grad = x.grad + g if create_graph else x.grad.add_(g)
        return
    if create_graph:
        x.grad = g
        return
    if x.device.lazy:
        g = own_storage(g)
    elif not fresh or g._steps or not g._node.data.flags.c_contiguous:
        with grad_enabled(False):  # gradients share no memory with each other, nor with a view
            g = g.clone()
    x.grad = g.detach() if g.requires_grad else g
