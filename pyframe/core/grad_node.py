"""GradNode: one op of the tape, with its saved tensors, its edges and its hooks."""

from __future__ import annotations

import itertools
import math
import weakref
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NamedTuple

from pyframe.core import dtypes as dt, op as _op
from pyframe.core.devices import device as Device
from pyframe.core.modes import mode
from pyframe.core.node import NO_VERSION, Lasting, Node

if TYPE_CHECKING:
    from pyframe.tensor import Tensor


class TensorMeta(NamedTuple):
    """What a gradient may know of an input whose value is not kept."""

    shape: tuple[int, ...]
    dtype: dt.dtype
    device: Device


def next_seq() -> int:
    """The place of a GradNode in the order in which they were made."""
    return next(_seq)


_seq = itertools.count(1)


class NodeHooks:
    """What users hang on a step of the backward pass, or on a leaf. Most have nothing there."""

    __slots__ = ("accumulated", "hooks", "metadata", "node", "packed", "post", "pre", "retained",
                 "trace")  # fmt: skip

    def __init__(self) -> None:
        self.hooks: list[Callable[..., Any]] = []  # of the tensor: they see and replace its grad
        self.pre: list[Callable[..., Any]] = []  # of the node: (grad_outputs)
        self.post: list[Callable[..., Any]] = []  # of the node: (grad_inputs, grad_outputs)
        self.accumulated: list[Callable[..., Any]] = []  # of a leaf, after its .grad has grown
        self.retained: weakref.ref[Tensor] | None = None  # whose .grad is to be kept
        self.metadata: dict[Any, Any] = {}
        self.node: Any = None  # of a leaf: its AccumulateGrad
        self.trace = ""  # where it was recorded, in anomaly mode
        self.packed = False  # saved tensors went through hooks


class GradNode:
    """A step of the backward pass: which op ran, on what, and what it saved."""

    __slots__ = ("attrs", "edges", "extra", "op", "saved", "seq", "specs")
    replays = True  # whether a replay can make it anew, see capture/rebuild.py
    sized = True  # also where sizes change

    def __init__(
        self, op: Any, inputs: tuple[Any, ...], attrs: tuple[Any, ...], out: Tensor
    ) -> None:
        self.op = op
        self.attrs = attrs
        self.extra: NodeHooks | None = None
        self.edges: list[Any] = []
        self.saved: list[Any] | None = None
        self.specs: list[tuple[Any, ...]] = []  # the types of all inputs, and no values
        saved: list[Any] = [None] * (len(inputs) + 1)
        for x, vjp in zip(inputs, op.vjps, strict=False):
            if type(x) is Node:
                self.specs.append((x.shape, x.dtype, x.device))
                self.edges.append(None)
                continue
            n = x._node
            self.specs.append((n.shape, n.dtype, n.device))
            fn = x._grad_fn if x._base is None else x.grad_fn
            if vjp is None or (fn is None and not x._needs_grad):
                self.edges.append(None)
                continue
            self.edges.append(x if fn is None else fn)
            for j in vjp.needs:
                if saved[j] is None:
                    z = inputs[j]
                    if type(z) is Node:
                        saved[j] = _op.number_of(z)
                        continue
                    version = z._storage.version
                    if version == NO_VERSION:
                        raise inference_error()
                    saved[j] = (z, version)
            if vjp.needs_y and saved[-1] is None:
                y = out._alias()
                saved[-1] = (y, y._storage.version)
        self.saved = saved
        self.seq = next(_seq)  # last: regenerated grad_fns of views, above, come before
        if _watchers:
            notify_node_created(self)

    def name(self) -> str:
        """The op's name as PyTorch writes it, as "MulBackward0"."""
        name = self.op.name.partition(":")[0]  # of an op for some operands of another
        return f"{name.title().replace('_', '')}Backward0"

    @property
    def next_functions(self) -> tuple[tuple[Any, int], ...]:
        """For each input the step before and which of its results it is; (None, 0) for none."""
        return tuple([public_edge(e) for e in self.edges])

    @property
    def metadata(self) -> dict[Any, Any]:
        """A dict for notes of the user's."""
        return self.attach().metadata

    def attach(self) -> NodeHooks:
        """Where hooks hang; made at the first use."""
        if self.extra is None:
            self.extra = NodeHooks()
        return self.extra

    def register_hook(self, hook: Callable[..., Any]) -> Any:
        """Call `hook(grad_inputs, grad_outputs)` after this step; a tuple replaces grad_inputs."""
        return RemovableHandle(self.attach().post, hook)

    def register_prehook(self, hook: Callable[..., Any]) -> Any:
        """Call `hook(grad_outputs)` before this step; a tuple that it returns replaces them."""
        return RemovableHandle(self.attach().pre, hook)

    def __repr__(self) -> str:
        return f"<{self.name()} object at {id(self):#x}>"

    def free(self) -> None:
        """Let go of what was saved. A step that saved plain numbers alone, or what a formula made
        for itself, can be gone through again."""
        for e in self.saved or ():
            kind = (
                type(e[0]._storage) if type(e) is tuple and hasattr(e[0], "_storage") else type(e)
            )
            if kind not in _KEPT_TYPES:
                self.saved = None
                return

    def _saved(self, j: int) -> Any:
        """The saved value of input `j`, or for -1 of the result. RuntimeError if it is freed or was
        written to since; a result whose inputs are as they were is computed again instead."""
        if self.saved is None:
            raise freed_error(self.op.name)
        entry = self.saved[j]
        if type(entry) is tuple:
            x, version = entry
            if x._storage.version != version:
                inputs = [e[0] for e in self.saved[:-1] if type(e) is tuple]
                if j < 0 and len(inputs) == len(self.specs):  # all are there: compute it again
                    inputs = [self._saved(i) for i in range(len(inputs))]
                    return _op.Op.run(self.op, tuple(inputs), self.attrs)
                what = f"input '{self.op.inputs[j]}'" if j >= 0 else "the result"
                check_version(x, version, f"{what} of {self.op.name}")
        elif type(entry) is PackedSavedTensor:
            x = entry.get()
        else:
            return entry
        if j < 0 and mode.grad:
            x = x._alias()
            x._grad_fn = self
        return x

    def _results(self, vector: Tensor) -> tuple[Tensor, ...]:
        return split(vector, self.op.results(*[s[0] for s in self.specs], *self.attrs))

    def vjp(self, i: int, g: Tensor) -> Tensor:
        """The gradient for input i, given that of the result."""
        rule, single = self.op.vjps[i], self.op.results is None
        args: list[Any] = []
        for kind, j in rule.args:
            if kind == "g":
                args.append(g if single else self._results(g))
            elif kind == "input":
                args.append(self._saved(j))
            elif kind == "y":
                args.append(self._saved(-1) if single else self._results(self._saved(-1)))
            elif kind == "attr":
                args.append(self.attrs[j])
            else:
                args.append(TensorMeta(*self.specs[j]))
        grad: Tensor = rule.fn(*args)
        shape, dtype, _ = self.specs[i]
        found = grad._node.shape
        if len(found) != len(shape) or found != shape:
            grad = grad.sum_to_size(shape)
        if grad._node.dtype is not dtype:  # of a complex gradient a real input takes the real part
            real = grad._node.dtype.category == dt.COMPLEX != dtype.category
            grad = (_op.REAL(grad) if real else grad).to(dtype)
        return grad


_KEPT_TYPES = (type(None), int, float, bool, complex, Lasting)


def split(vector: Tensor, shapes: tuple[tuple[int, ...], ...]) -> tuple[Tensor, ...]:
    """The results of these shapes that lie one after the other in a vector, as views of it."""
    out, at = [], 0
    for shape in shapes:
        n = math.prod(shape)
        out.append(vector.narrow(0, at, n).reshape(shape))
        at += n
    return tuple(out)


class AccumulateGrad(GradNode):
    """The step that adds to a leaf's `.grad`, as `next_functions` shows it."""

    __slots__ = ("__weakref__", "variable")
    variable: Tensor

    def __init__(self, variable: Tensor) -> None:
        self.variable, self.edges, self.extra = variable, [], variable._attach()

    def name(self) -> str:
        return "torch::autograd::AccumulateGrad"  # PyTorch's name, which scripts look for

    def __repr__(self) -> str:
        return f"<AccumulateGrad object at {id(self):#x}>"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, AccumulateGrad) and other.variable is self.variable

    def __hash__(self) -> int:
        return hash(self.variable)


class OutputEdge(GradNode):
    """One of several results of a node, `edges[0]`: what the backward pass meets first."""

    __slots__ = ("__weakref__", "index")
    index: int

    def __init__(self, node: Any, index: int, seq: int) -> None:
        self.seq, self.op, self.index = seq, node.op, index
        self.edges, self.extra, self.saved = [node], None, []

    def __getattr__(self, name: str) -> Any:
        return getattr(self.edges[0], name)

    def name(self) -> str:
        return self.edges[0].name()

    @property
    def next_functions(self) -> tuple[tuple[Any, int], ...]:
        return self.edges[0].next_functions

    @property
    def metadata(self) -> dict[Any, Any]:
        return self.edges[0].metadata

    def register_hook(self, hook: Callable[..., Any]) -> Any:
        return self.edges[0].register_hook(hook)

    def register_prehook(self, hook: Callable[..., Any]) -> Any:
        return self.edges[0].register_prehook(hook)

    def __repr__(self) -> str:
        return repr(self.edges[0])


class ReleasedGradNode(GradNode):
    """What is left of a step whose saved tensors are gone: it leads where that led, `edges`, and
    nothing passes through it."""

    __slots__ = ("__weakref__", "was")

    def __init__(self, was: str, edges: list[Any], seq: int) -> None:
        self.was, self.edges, self.seq = was, edges, seq
        self.extra, self.saved = None, None

    def name(self) -> str:
        return self.was

    def run(self, grads: list[Tensor]) -> tuple[Any, ...]:
        raise freed_error(self.was)


def is_freed(n: GradNode) -> bool:
    """Whether the backward pass can't go through a step again: what it needs has been let go."""
    if type(n) is OutputEdge:
        return is_freed(n.edges[0])
    if n.saved is not None or type(n) is not GradNode:
        return n.saved is None and (type(n) is ReleasedGradNode or not n.replays)
    rules = [rule for e, rule in zip(n.edges, n.op.vjps, strict=False) if e is not None]
    return any(kind in ("input", "y") for rule in rules for kind, _ in rule.args)


def public_edge(e: Any) -> tuple[Any, int]:
    """An edge of the walk as a node and the number of its result."""
    if e is not None and not isinstance(e, GradNode):  # a leaf
        extra = e._attach()
        node = None if extra.node is None else extra.node()
        if node is None:
            node = AccumulateGrad(e)
            extra.node = weakref.ref(node)
        return node, 0
    return (e.edges[0], e.index) if type(e) is OutputEdge else (e, 0)


class PackedSavedTensor:
    """A saved tensor in the form that a hook of `saved_tensors_hooks` gave it."""

    __slots__ = ("found", "history", "packed", "unpack")

    def __init__(self, x: Tensor, history: Callable[..., Any], pack: Any, unpack: Any) -> None:
        with_grad, mode.grad = mode.grad, False
        try:
            self.packed = pack(x)
        finally:
            mode.grad = with_grad
        self.unpack, self.history = unpack, history
        self.found: Tensor | None = None  # until the step that asks for it is over

    def get(self) -> Tensor:
        if self.found is None:
            found = self.unpack(self.packed)
            if not hasattr(found, "_node"):
                raise TypeError(
                    "Output of saved tensor unpack_hook expected to be a Tensor, got "
                    f"{type(found).__name__}"
                )
            self.found = self.history(found)
        return self.found


def check_version(x: Tensor, version: int, what: str) -> None:
    """RuntimeError if `x` was written to since it had `version`."""
    now = x._storage.version
    if now != version:
        raise RuntimeError(
            "one of the variables needed for gradient computation has been modified by an inplace "
            f"operation: {what}, shape {list(x.shape)}, is at version {now}; "
            f"expected version {version} instead. Clone it before the in-place op"
        )


def freed_error(name: str) -> RuntimeError:
    """For a second pass through a graph whose saved tensors are gone."""
    return RuntimeError(
        "Trying to backward through the graph a second time (or directly access saved tensors "
        f"after they have already been freed): {name}. Specify retain_graph=True if you need to "
        "backward through the graph a second time"
    )


def inference_error() -> RuntimeError:
    """For an inference tensor that a gradient needs."""
    return RuntimeError(
        "Inference tensors cannot be saved for backward. Please do not use Tensors created in "
        "inference mode in computation tracked by autograd. To work around this, you can make a "
        "clone to get a normal tensor and use it in autograd, or use pf.no_grad() instead of "
        "pf.inference_mode()."
    )


def watch_nodes(watch: Callable[[GradNode], None], on: bool) -> None:
    """Show each new GradNode to `watch` from now on, or no longer: it is anomaly mode's, or that of
    saved-tensor hooks."""
    global _watchers
    others = tuple([w for w in _watchers if w is not watch])
    _watchers = (*others, watch) if on else others


def notify_node_created(node: GradNode) -> None:
    """For a node that was not made by GradNode's own `__init__`, once it is complete."""
    for watch in _watchers:
        watch(node)


_watchers: tuple[Callable[[GradNode], None], ...] = ()


changes = 0  # of hooks: a replay holds while there is none


class RemovableHandle:
    """What registering a hook returns: `remove()` takes the hook off again.

    Args:
        hooks: The list to which the hook is added.
        hook: The function.

    >>> x = pf.ones(1, requires_grad=True)
    >>> x.register_hook(lambda grad: grad * 2).remove()
    """

    def __init__(self, hooks: list[Callable[..., Any]], hook: Callable[..., Any]) -> None:
        global changes
        changes += 1
        self._hooks, self._hook = hooks, hook
        hooks.append(hook)

    def remove(self) -> None:
        """Take the hook off; a second call does nothing."""
        global changes
        if self._hook in self._hooks:
            changes += 1
            self._hooks.remove(self._hook)

    def __enter__(self) -> RemovableHandle:
        return self

    def __exit__(self, *exc: object) -> None:
        self.remove()
