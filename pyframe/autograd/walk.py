"""`backward` and `grad`: the walk back through the GradNodes that ops recorded."""

from __future__ import annotations

import heapq
from collections.abc import Iterable
from typing import Any

from pyframe.autograd import repeat
from pyframe.autograd.graph import BackwardTask, GradientEdge, attached, gradient_edge_of
from pyframe.core import grad_node
from pyframe.core.dispatch import can_read_value, copy_to_order, order_of
from pyframe.core.grad_node import GradNode, NodeHooks, OutputEdge
from pyframe.core.modes import mode, set_grad_enabled
from pyframe.ops.random.creation import ones_like, zeros_like
from pyframe.tensor import Tensor, unshare_storage

anomaly: Any = None  # the module anomaly_mode, while that mode is on


def backward(
    tensors: Any, grad_tensors: Any = None, retain_graph: bool | None = None,
    create_graph: bool = False, grad_variables: Any = None, inputs: Any = None,
) -> None:  # fmt: skip
    """Add the gradients of `tensors` to `.grad` of the leaves (or of `inputs` only).

    Args:
        grad_tensors: A gradient for each, which one of one element needs not.
        retain_graph: Whether to keep what was saved, for another backward.
        create_graph: Whether gradients have gradients.
        grad_variables: An older name of `grad_tensors`.

    >>> x = pf.tensor(3.0, requires_grad=True)
    >>> pf.autograd.backward(x * x)
    >>> x.grad
    tensor(6.)
    """
    if grad_variables is not None:
        if grad_tensors is not None:
            raise RuntimeError("pass either 'grad_tensors' or the older 'grad_variables', not both")
        grad_tensors = grad_variables
    roots = _listed(tensors)
    if inputs is None:
        wanted = None
    else:
        wanted = _listed(inputs)
        if not wanted:
            raise RuntimeError("'inputs' argument to backward() cannot be empty.")
    if isinstance(grad_tensors, Tensor):
        grad_tensors = [grad_tensors]
    seeds = _seeds(roots, grad_tensors, False)
    goals = None if wanted is None else [gradient_edge_of(x) for x in wanted]
    found = _run_backward(
        [gradient_edge_of(x) for x in roots], seeds, retain_graph, create_graph, goals
    )
    for x, g in zip(wanted or (), found, strict=True):
        if g is not None and isinstance(x, Tensor):
            _accumulate(x, g, create_graph, False)
            _accumulated(x)


def grad(
    outputs: Any, inputs: Any, grad_outputs: Any = None, retain_graph: bool | None = None,
    create_graph: bool = False, only_inputs: bool = True, allow_unused: bool | None = None,
    is_grads_batched: bool = False, materialize_grads: bool = False,
) -> tuple[Tensor, ...]:  # and None for what is unused, where that is allowed  # fmt: skip
    """The gradients of `outputs` with respect to `inputs`, without touching `.grad`.

    With `is_grads_batched` each of `grad_outputs` has a first dim more, as have the results: one
    backward pass for all of its elements (see `vmap`).

    Args:
        retain_graph: Whether to keep what was saved, for another time.
        create_graph: Whether gradients have gradients.
        only_inputs: Allowed, and always so.
        allow_unused: Whether an input may have no part in it: None for it.
        materialize_grads: Whether it gets zeros then.

    >>> x = pf.tensor(3.0, requires_grad=True)
    >>> pf.autograd.grad(x * x, x)
    (tensor(6.),)
    """
    if materialize_grads and allow_unused is False:
        raise ValueError(
            "Expected allow_unused to be True or not passed when materialize_grads=True, but got: "
            "allow_unused=False."
        )
    roots, wanted = _listed(outputs), _listed(inputs)
    if not wanted:
        raise RuntimeError("`inputs` argument to `grad()` cannot be empty.")
    for x in wanted:
        if isinstance(x, Tensor) and not x.requires_grad:
            raise RuntimeError("One of the differentiated Tensors does not require grad")
    if isinstance(grad_outputs, Tensor):
        grad_outputs = [grad_outputs]
    seeds = _seeds(roots, grad_outputs, is_grads_batched)
    starts, goals = [gradient_edge_of(x) for x in roots], [gradient_edge_of(x) for x in wanted]
    if is_grads_batched:
        found = _batched(starts, seeds, retain_graph, create_graph, goals)
    else:
        found = _run_backward(starts, seeds, retain_graph, create_graph, goals)
    if materialize_grads:
        if any(g is None and not isinstance(x, Tensor) for x, g in zip(wanted, found, strict=True)):
            raise RuntimeError("materialize_grads cannot be used when the given input is an edge")
        found = [zeros_like(x) if g is None else g for x, g in zip(wanted, found, strict=True)]
    elif not allow_unused and any(g is None for g in found):
        raise RuntimeError(
            "One of the differentiated Tensors appears to not have been used in the graph. Set "
            "allow_unused=True if this is the desired behavior."
        )
    return tuple(found)


def zero_grads(leaves: Iterable[Tensor], set_to_none: bool) -> None:
    """Forget the gradients of leaves, or set them to zero."""
    for x in leaves:
        if mode.capture is not None:
            mode.capture.on_grad_access(x, not set_to_none)
        if x.grad is not None:
            if set_to_none:
                x.grad = None
            else:
                x.grad.detach_().zero_()


def _listed(x: Any) -> list[Any]:
    return [x] if isinstance(x, (Tensor, GradientEdge)) else list(x)


def _batched(
    starts: list[Any], seeds: list[Any], retain: bool | None, create_graph: bool, goals: list[Any]
) -> list[Any]:
    from pyframe.ops.api.vmap import vmap

    found: list[Any] = []

    def walk(*grads: Tensor) -> list[Tensor]:
        found[:] = _run_backward(starts, list(grads), retain, create_graph, goals)
        return [g for g in found if g is not None]

    rows = iter(vmap(walk, randomness="same")(*seeds))
    return [None if g is None else next(rows) for g in found]


def _seeds(roots: list[Any], grads: Any, batched: bool) -> list[Any]:
    """The gradients that the walk begins with, one a root: those given, or ones for a scalar."""
    grads = [None] * len(roots) if grads is None else list(grads)
    if len(grads) != len(roots):
        raise RuntimeError(f"got {len(roots)} tensors and {len(grads)} gradients")
    out = []
    for i, (x, g) in enumerate(zip(roots, grads, strict=True)):
        if isinstance(x, Tensor) and not x.requires_grad:
            raise RuntimeError(
                f"element {i} of tensors does not require grad and does not have a grad_fn; it was "
                "computed under no_grad, of detached tensors or of none that require grad"
            )
        if g is None:
            if not isinstance(x, Tensor) or x.numel() != 1:
                raise RuntimeError(
                    "grad can be implicitly created only for scalar outputs; take the mean() or "
                    "sum() first, or give gradient="
                )
            g = ones_like(x).detach()
        elif not isinstance(g, Tensor):
            raise TypeError(f"gradients can be either Tensors or None, but got {type(g).__name__}")
        elif isinstance(x, Tensor) and g.shape[batched:] != x.shape:
            raise RuntimeError(
                f"Mismatch in shape: grad_output[{i}] has a shape of {list(g.shape)} and output["
                f"{i}] has a shape of {list(x.shape)}."
            )
        if isinstance(x, Tensor) and g.dtype is not x.dtype:
            if g.is_complex() != x.is_complex():
                raise RuntimeError(
                    f"For complex Tensors, both grad_output and output are required to have the "
                    f"same dtype. Mismatch in dtype: grad_output[{i}] has a dtype of "
                    f"{g.dtype} and output[{i}] has a dtype of {x.dtype}."
                )
            g = g.to(x.dtype)
        out.append(g)
    return out


def _reachable_from(roots: list[Any], goals: set[int]) -> set[int]:
    """ids of the GradNodes from which one of the goals can be reached."""
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


def _run_backward(
    starts: list[Any], seeds: list[Tensor], retain_graph: bool | None, create_graph: bool,
    goals: list[Any] | None,
) -> list[Any]:  # fmt: skip
    """Walk back from `starts` (nodes and leaves): what arrives at each of `goals`, or, if that is
    None, to the leaves' `.grad`. A node was made after all that it depends on, so visiting by
    falling sequence number is a topological order."""
    retain = create_graph if retain_graph is None else retain_graph
    results: list[Any] = [None] * len(goals or ())
    slots: dict[int, list[int]] = {}
    for i, x in enumerate(goals or ()):
        slots.setdefault(id(x), []).append(i)
    useful = None if goals is None else _reachable_from(starts, set(slots))
    if mode.capture is not None:
        mode.capture.watch(lambda: grad_node.changes)  # a replay repeats what hooks did
    first = getattr(mode.capture, "first", 0)  # what was saved before a capture is another's
    pending: dict[int, Any] = {}
    fresh: set[int] = set()  # targets whose gradient no one else can hold
    leaves: dict[int, Tensor] = {}
    heap: list[tuple[int, GradNode]] = []
    look = anomaly is not None and anomaly.check_nan

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

    def go_back() -> None:
        for start, g in zip(starts, seeds, strict=True):
            send(start, g, False)
        node = None
        try:
            while heap:
                node = heapq.heappop(heap)[1]
                if node.seq <= first and mode.capture is not None:
                    mode.capture.graph_break("goes back through what was computed before it")
                g = pending.pop(id(node))
                extra = node.extra
                if extra is not None:
                    if extra.packed:
                        BackwardTask.current().grad = g[0] if type(g) is list else g
                    if extra.hooks:
                        g = _hooked(extra, g)
                    if extra.retained is not None and goals is None:
                        owner = extra.retained()
                        if owner is not None:
                            _accumulate(owner, g, create_graph, False)
                for i in slots.get(id(node), ()):
                    results[i] = g
                if useful is not None and id(node) not in useful:
                    continue
                if type(node) is GradNode and (extra is None or not (extra.pre or extra.post)):
                    node_vjp = node.vjp
                    for i, edge in enumerate(node.edges):
                        if edge is None:
                            continue
                        if useful is not None and id(edge) not in useful and id(edge) not in slots:
                            continue
                        part = node_vjp(i, g)
                        if look:
                            anomaly.look(node, i, part)
                        send(edge, part, part._storage is not g._storage)
                elif type(node) is OutputEdge:
                    maker, i = node.edges[0], node.index
                    if id(maker) not in pending:
                        pending[id(maker)] = [None] * len(maker.results)
                        heapq.heappush(heap, (-maker.seq, maker))
                    pending[id(maker)][i] = g
                else:
                    parts = _step(node, g, look)
                    for edge, part in zip(node.edges, parts, strict=True):
                        if edge is None or part is None:
                            continue
                        if useful is None or id(edge) in useful or id(edge) in slots:
                            send(edge, part, False)
                if not retain:
                    node.free()
                elif extra is not None and extra.packed:
                    _let_go(node)
        except Exception:
            if anomaly is not None and node is not None:
                anomaly.explain(node)
            raise

    again = None
    if goals is None and not create_graph and mode.capture is None and anomaly is None:
        again = repeat.match_cached_backward(starts, seeds)
    with set_grad_enabled(create_graph), BackwardTask(starts, useful, slots):
        found = None if again is None else again.repeated(retain)
        if found is not None:
            for leaf, g in found:
                leaves[id(leaf)], pending[id(leaf)] = leaf, g
                fresh.add(id(leaf))
        elif again is None or not again.notes:
            go_back()
        else:
            with again.subgraph_recorder(leaves, pending):
                go_back()
            fresh |= set(leaves)  # they are nobody else's
        for key, leaf in leaves.items():
            g = pending[key]
            extra = leaf._hooks
            if extra is not None:
                g = _hooked(extra, g)
            for i in slots.get(key, ()):
                results[i] = g
            if goals is None:
                if extra is not None:
                    (g,) = _replaced(extra.pre, (g,))
                _accumulate(leaf, g, create_graph, key in fresh and extra is None)
                if extra is not None:
                    for hook in list(extra.post):
                        hook((), (g,))
                    _accumulated(leaf)
    return results


def _step(node: GradNode, g: Any, look: bool) -> tuple[Any, ...]:
    """A node with hooks, or that of a Function: the gradients of all its inputs."""
    grads = tuple(g) if isinstance(g, list) else (g,)
    extra = attached(node)
    if extra is not None and extra.pre:
        grads = _replaced(extra.pre, grads)
    run: Any = getattr(node, "run", None)
    if run is not None:
        parts = run(list(grads))
    else:
        parts = tuple(
            [None if e is None else node.vjp(i, grads[0]) for i, e in enumerate(node.edges)]
        )
    if look:
        for i, part in enumerate(parts):
            anomaly.look(node, i, part)
    for hook in list(extra.post) if extra is not None else ():
        changed = hook(parts, grads)
        parts = parts if changed is None else _listed_as(changed, parts)
    return tuple(parts)


def _replaced(hooks: list[Any], grads: tuple[Any, ...]) -> tuple[Any, ...]:
    for hook in list(hooks):
        changed = hook(grads)
        grads = grads if changed is None else _listed_as(changed, grads)
    return grads


def _listed_as(changed: Any, grads: tuple[Any, ...]) -> tuple[Any, ...]:
    found = (changed,) if isinstance(changed, Tensor) else tuple(changed)
    if len(found) != len(grads):
        raise RuntimeError(
            f"hook has returned an incorrect number of values (got {len(found)}, but expected "
            f"{len(grads)})"
        )
    return found


def _hooked(extra: NodeHooks, g: Tensor) -> Tensor:
    """A tensor's gradient after the hooks that were registered on it."""
    for hook in list(extra.hooks):
        changed = hook(g)
        if changed is None:
            continue
        name = getattr(hook, "__name__", type(hook).__name__)
        if not isinstance(changed, Tensor):
            raise TypeError(f"expected Variable, but hook returned '{type(changed).__name__}'")
        if changed.dtype is not g.dtype or changed.device is not g.device:
            raise RuntimeError(
                f"hook '{name}' has changed the type of value (was {g.dtype} on {g.device}, got "
                f"{changed.dtype} on {changed.device})"
            )
        if changed.shape != g.shape:
            raise RuntimeError(f"hook '{name}' has changed the size of value")
        g = changed
    return g


def _let_go(node: GradNode) -> None:
    for entry in node.saved or ():
        x = entry[0] if type(entry) is tuple else entry
        if hasattr(x, "unpack"):
            x.found = None


def _accumulated(leaf: Tensor) -> None:
    for hook in list(leaf._hooks.accumulated) if leaf._hooks is not None else ():
        hook(leaf)


def _accumulate(x: Tensor, g: Tensor, create_graph: bool, fresh: bool) -> None:
    """Add to `.grad`; `fresh` says that nothing else holds `g`'s memory."""
    if mode.capture is not None:
        mode.capture.accumulate(x)
    if x.grad is not None:
        with set_grad_enabled(create_graph):
            x.grad = x.grad + g if create_graph else x.grad.add_(g)
        return
    if create_graph:
        x.grad = g
        return
    order = order_of(x) if x._view_chain else None
    if (g._view_chain and order_of(g) != order) or (order and not g._view_chain):
        with set_grad_enabled(False):  # it lies in memory as its leaf does
            g = copy_to_order(order, g)
    elif not can_read_value(x):
        g = unshare_storage(g)
    elif not fresh or g._view_chain:
        with set_grad_enabled(False):  # gradients share no memory with each other, nor with a view
            g = g.clone()
    x.grad = g.detach() if g.requires_grad else g
