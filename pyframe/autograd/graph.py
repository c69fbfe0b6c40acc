"""The graph of the backward pass: its nodes, what hooks hang on it, and what it saves."""

from __future__ import annotations

import threading
import weakref
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, NamedTuple

from pyframe.core import grad_node as _grad_node
from pyframe.core.grad_node import GradNode, PackedSavedTensor, RemovableHandle as RemovableHandle
from pyframe.core.locks import lock
from pyframe.core.modes import mode
from pyframe.core.op import REGISTRY
from pyframe.tensor import Tensor

__all__ = [
    "GradientEdge", "Node", "RemovableHandle", "disable_saved_tensors_hooks", "get_gradient_edge",
    "increment_version", "register_multi_grad_hook", "save_on_cpu", "saved_tensors_hooks",
]  # fmt: skip

Node = GradNode


class GradientEdge(NamedTuple):
    """A node and which of its results: stands for a tensor in `autograd.grad` and `backward`."""

    node: GradNode
    output_nr: int


def get_gradient_edge(tensor: Tensor) -> GradientEdge:
    """The edge that a tensor's gradient takes. RuntimeError without requires_grad."""
    if not tensor.requires_grad:
        raise RuntimeError(
            "It is not possible to get the gradient edge for a Tensor that does not require "
            "gradients."
        )
    return GradientEdge(*_grad_node.public_edge(tensor.grad_fn or tensor))


def gradient_edge_of(x: Any) -> Any:
    """Where the walk meets a tensor or a GradientEdge: a node, or a leaf itself."""
    if isinstance(x, Tensor):
        return x.grad_fn or x
    if isinstance(x, GradientEdge):
        if isinstance(x.node, _grad_node.AccumulateGrad):
            return x.node.variable
        port: Any = getattr(x.node, "port", None)
        return x.node if port is None else port(x.output_nr)
    raise RuntimeError(
        f"all inputs have to be Tensors or GradientEdges, but got {type(x).__name__}"
    )


# --- what nodes save


class saved_tensors_hooks:  # noqa: N801
    """Within it `pack_hook(tensor)` makes of each saved tensor what is kept, and
    `unpack_hook(kept)` gives the tensor back when backward asks for it."""

    _active = 0
    _lock = lock()
    _disabled = ""

    def __init__(
        self, pack_hook: Callable[[Tensor], Any], unpack_hook: Callable[[Any], Tensor]
    ) -> None:
        self.hooks = (pack_hook, unpack_hook)

    def __enter__(self) -> None:
        cls = saved_tensors_hooks
        if cls._disabled:
            raise RuntimeError(cls._disabled)
        mode.saved_hooks = (*mode.saved_hooks, self.hooks)
        with cls._lock:
            cls._active += 1
        _grad_node.watch_nodes(_pack_saved, cls._active > 0)

    def __exit__(self, *exc: object) -> None:
        cls = saved_tensors_hooks
        mode.saved_hooks = mode.saved_hooks[:-1]
        with cls._lock:
            cls._active -= 1
        _grad_node.watch_nodes(_pack_saved, cls._active > 0)


class save_on_cpu(saved_tensors_hooks):  # noqa: N801
    """Within it, what backward needs is kept in the CPU's memory."""

    def __init__(self, pin_memory: bool = False, device_type: str = "gpu") -> None:
        super().__init__(lambda x: (x.device, x.cpu()), lambda kept: kept[1].to(kept[0]))


@contextmanager
def disable_saved_tensors_hooks(error_message: str) -> Iterator[None]:
    """Within it, `saved_tensors_hooks` raise RuntimeError with this message."""
    before, saved_tensors_hooks._disabled = saved_tensors_hooks._disabled, error_message
    try:
        if mode.saved_hooks:
            raise RuntimeError(error_message)
        yield
    finally:
        saved_tensors_hooks._disabled = before


def _pack_saved(node: GradNode) -> None:
    """A new step of the backward pass keeps its tensors in the form that the hooks give them."""
    if not mode.saved_hooks or type(node) is not GradNode:  # a Function's packs its own
        return
    for j, entry in enumerate(node.saved or ()):
        if type(entry) is tuple:
            node.saved[j] = pack_saved_tensor(entry[0])  # type: ignore[index]
            node.attach().packed = True


def pack_saved_tensor(x: Tensor) -> PackedSavedTensor:
    """A saved tensor as the innermost hooks keep it."""
    pack, unpack = mode.saved_hooks[-1]
    history = _history(x.grad_fn or x) if x.requires_grad else _plain
    writes = x._storage.writes
    out = PackedSavedTensor(x, history, pack, unpack)
    if x._storage.writes != writes:
        raise RuntimeError(
            "A saved tensor pack hook is modifying its input in place. Tensors provided as input "
            "to pack hook can not be modified by in-place operations"
        )
    return out


def _plain(found: Tensor) -> Tensor:
    return found


def _history(source: Any) -> Callable[[Tensor], Tensor]:
    """What makes an unpacked tensor follow the history of the one that was packed."""

    def follow(found: Tensor) -> Tensor:
        if not mode.grad:
            return found
        out = found._alias()
        if isinstance(source, GradNode):
            out._grad_fn = source
        else:  # a leaf: a step that hands the gradient on to it
            out._grad_fn = GradNode(REGISTRY["copy"], (source,), (), out)
        return out

    return follow


def increment_version(tensor: Tensor | Sequence[Tensor]) -> None:
    """Count a write that pyframe could not see: saved values from before are refused then."""
    for x in [tensor] if isinstance(tensor, Tensor) else tensor:
        if x.is_inference():
            raise RuntimeError("Inference tensors do not track version counter.")
        x._storage.wrote()


# --- one hook for several tensors


def register_multi_grad_hook(
    tensors: Sequence[Tensor], fn: Callable[..., Any], *, mode: str = "all"
) -> Any:
    """Call `fn(grads)` once a backward has all the gradients of `tensors` that it computes (None
    for the others), or with mode="any" `fn(grad)` with the first one."""
    if mode not in ("all", "any"):
        raise ValueError(f"Expects mode to be one of ('all', 'any') but got {mode}")
    walks: weakref.WeakKeyDictionary[Any, list[Any]] = weakref.WeakKeyDictionary()

    def meet(i: int, g: Tensor) -> None:
        walk = BackwardTask.current()
        seen = walks.get(walk)
        if seen is None:
            count = sum(walk.reaches(gradient_edge_of(x)) for x in tensors)
            seen = walks[walk] = [count, [None] * len(tensors)]
        seen[0] -= 1
        seen[1][i] = g
        if mode == "any":
            if sum(x is not None for x in seen[1]) == 1:
                fn(g)
        elif not seen[0]:
            fn(seen[1])

    handles = [
        x.register_hook(lambda g, i=i: meet(i, g))  # type: ignore[misc]
        for i, x in enumerate(tensors)
    ]
    return _Handles(handles)


class _Handles(RemovableHandle):
    def __init__(self, handles: list[Any]) -> None:
        self.handles = handles

    def remove(self) -> None:
        """Take the hook off all the tensors."""
        for handle in self.handles:
            handle.remove()


class BackwardTask:
    """A backward pass that is under way."""

    _running = threading.local()

    def __init__(self, starts: list[Any], useful: set[int] | None, slots: Any) -> None:
        self.starts, self.useful, self.slots = starts, useful, slots
        self._reached: set[int] | None = None
        self.grad: Any = None  # that of the step at hand, where hooks have its saved tensors
        # Called with these at its end
        self.after: dict[Callable[[list[Any]], None], list[Any]] = {}

    def __enter__(self) -> BackwardTask:
        running = self._running.__dict__.setdefault("walks", [])
        running.append(self)
        self._casting, mode.autocast = mode.autocast, None  # gradients have the dtypes of forward
        return self

    def __exit__(self, *exc: object) -> None:
        mode.autocast = self._casting
        self._running.walks.pop()
        if exc[0] is None:
            for call, what in self.after.items():
                call(what)

    @classmethod
    def current(cls) -> BackwardTask:
        """The innermost one of this thread."""
        found: BackwardTask = cls._running.walks[-1]
        return found

    @classmethod
    def latest(cls) -> BackwardTask | None:
        """The innermost one, if there is any."""
        walks = cls._running.__dict__.get("walks")
        return walks[-1] if walks else None

    def reaches(self, x: Any) -> bool:
        """Whether it will compute the gradient of node or leaf `x`."""
        if self._reached is None:
            self._reached = set()
            stack = list(self.starts)
            while stack:
                e = stack.pop()
                if id(e) in self._reached:
                    continue
                self._reached.add(id(e))
                if isinstance(e, GradNode) and (self.useful is None or id(e) in self.useful):
                    stack.extend(n for n in e.edges if n is not None)
            if self.useful is not None:
                self._reached &= self.useful | self.slots.keys()
        return id(x) in self._reached


def attached(x: Any) -> _grad_node.NodeHooks | None:
    """What hangs on a node or on a leaf."""
    return x.extra if isinstance(x, GradNode) else x._hooks
