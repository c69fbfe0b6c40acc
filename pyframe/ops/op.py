"""Op: the one place where an operation is declared, and `apply`, the one way to call it.

A declaration names the inputs and attributes, says how shapes and dtypes follow (`infer`), how
NumPy computes it (`numpy`), how WGSL does (`wgsl`, `view`, or `kernel`), and one gradient per
input, as a function of what it needs, by name: `g` (gradient of the result), `y` (the result), an
input, an attribute, or `<input>_spec` (shape, dtype and device of an input whose value is not
needed). What no gradient names is not saved.
"""

from __future__ import annotations

import contextvars
import inspect
import itertools
import threading
import types
import weakref
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from pyframe import dtypes as dt
from pyframe.devices import device as Device, mode
from pyframe.graph.fed import Number, recording, seen
from pyframe.graph.node import Node

if TYPE_CHECKING:
    from pyframe.tensor import Tensor

REGISTRY: dict[str, Op] = {}

ELEMENTWISE, REDUCTION, MOVEMENT, ROUTINE = "elementwise", "reduction", "movement", "routine"


class Shader(NamedTuple):
    """A kernel written by hand: its file in shaders/, and `plan(result shape, operand shapes)`
    that gives the constants of its text and how many workgroups it takes in x, y, z."""

    file: str
    plan: Callable[..., tuple[dict[str, int], tuple[int, int, int]]]


def in_a_line(groups: int) -> tuple[int, int, int]:
    """Workgroups one after the other: along x, and where those are too many in rows along y."""
    return min(groups, 65535), -(-groups // 65535), 1


class Op:
    """An operation; `kind` is one of elementwise, reduction, movement (a view) and routine."""

    autocast: dict[str, str] | None = None  # its dtypes in mixed precision, see autocast.py

    def __init__(
        self,
        name: str,
        kind: str,
        inputs: str,
        attrs: str = "",
        *,
        numpy: Callable[..., Any] | None = None,
        infer: Callable[..., tuple[tuple[int, ...], dt.dtype]] | None = None,
        wgsl: Any = None,
        view: Callable[..., Any] | None = None,
        alias: bool = False,
        kernel: Shader | None = None,
        fallback: Callable[..., Tensor] | None = None,
        calls: Callable[..., Any] | None = None,
        phases: Callable[..., Any] | None = None,
        pieces: Callable[..., tuple[tuple[int, ...], ...]] | None = None,
        **vjps: Callable[..., Tensor],
    ) -> None:
        if name in REGISTRY:
            raise ValueError(f"op {name} is declared twice")
        self.name = self.__name__ = name
        self.kind = kind
        self.inputs = tuple(inputs.split())
        self.attrs = tuple(attrs.split())
        self.numpy = numpy
        self.infer = infer
        self.wgsl = wgsl
        self.view = view  # movement: (tracker, *attrs) -> tracker
        self.alias = alias  # the result shares memory with the input, as a PyTorch view
        self.kernel = kernel
        self.fallback = fallback  # the same, written in other ops
        # of a vector of several results, one after the other: their shapes, see factor.unpacked
        self.pieces = pieces
        self.calls, self.phases = calls, phases  # for compiled plans: see bound.py, bound_routines
        self.vjps = tuple(_Vjp(self, vjps.pop(i)) if i in vjps else None for i in self.inputs)
        self.differentiable = any(self.vjps)
        if vjps:
            raise TypeError(f"op {name}: gradients for unknown inputs {sorted(vjps)}")
        REGISTRY[name] = self

    def __repr__(self) -> str:
        return f"<op {self.name}>"

    def __get__(self, obj: Any, owner: Any = None) -> Any:
        return self if obj is None else types.MethodType(self, obj)

    def __call__(self, *inputs: Any) -> Tensor:
        return apply(self, inputs)


class _Vjp:
    """A gradient function and where each of its arguments comes from."""

    __slots__ = ("args", "fn", "needs", "needs_y")

    def __init__(self, op: Op, fn: Callable[..., Tensor]) -> None:
        self.fn = fn
        self.args: list[tuple[str, int]] = []
        for name in inspect.signature(fn).parameters:
            if name in ("g", "y"):
                self.args.append((name, 0))
            elif name in op.inputs:
                self.args.append(("input", op.inputs.index(name)))
            elif name.removesuffix("_spec") in op.inputs:
                self.args.append(("spec", op.inputs.index(name.removesuffix("_spec"))))
            elif name in op.attrs:
                self.args.append(("attr", op.attrs.index(name)))
            else:
                raise TypeError(f"op {op.name}: a gradient asks for the unknown {name!r}")
        self.needs = [i for kind, i in self.args if kind == "input"]
        self.needs_y = ("y", 0) in self.args


class Const(Op):
    """A Python number in the graph; kernels read it from a small buffer, never from their text."""


CONST = Const("const", ELEMENTWISE, "", "value")


def const(value: Any, dtype: dt.dtype, device: Device) -> Node:
    """A number in the graph, as a node of this dtype; see `Const`."""
    if type(value) is Number:
        capture = recording()
        if capture is not None:
            node: Node = capture.constant(value, dtype, device)
            return node
        value = seen(value)
    data = None
    if not device.lazy:
        data = dt.rounded(value, dtype)
    elif dtype.category == dt.INTEGER:
        fits = int(dt.convert_scalar(value, dtype))
        if dtype is dt.int64 and device.always_lazy:
            dt.check_32_bits(fits, fits)
    return Node(CONST, (), (value,), (), dtype, device, data)


def const_for_ufunc(value: float, dtype: dt.dtype, device: Device) -> Node:
    """`const`, kept for the next call: only for an op whose result never is its operand."""
    if not value or device.lazy:  # 0.0 and -0.0 are the same key
        return const(value, dtype, device)
    key = (value, type(value), dtype, device)
    node = _CONSTANTS.get(key)
    if node is None:
        node = const(value, dtype, device)
        node.data = np.asarray(node.data)  # NumPy takes it faster than a scalar
        node.data.setflags(write=False)
        if len(_CONSTANTS) >= 1000:
            _CONSTANTS.clear()
        _CONSTANTS[key] = node
    return node


_CONSTANTS: dict[Any, Node] = {}


class Spec(NamedTuple):
    """What a gradient may know of an input whose value is not kept."""

    shape: tuple[int, ...]
    dtype: dt.dtype
    device: Device


def next_seq() -> int:
    """The place of a GradNode in the order in which they were made."""
    return next(_seq)


_seq = itertools.count(1)


class Attached:
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
    replays = True  # whether a replay can make it anew, see graph/compile.py

    def __init__(
        self, op: Any, inputs: tuple[Any, ...], attrs: tuple[Any, ...], out: Tensor
    ) -> None:
        self.op = op
        self.attrs = attrs
        self.extra: Attached | None = None
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
                        saved[j] = z.attrs[0]
                        continue
                    version = z._storage.version
                    if version < 0:
                        raise inference_error()
                    saved[j] = (z, version)
            if vjp.needs_y and saved[-1] is None:
                y = out._alias()
                saved[-1] = (y, y._storage.version)
        self.saved = saved
        self.seq = next(_seq)  # now: views may have made their steps anew, and those come before
        if _watch is not None:
            _watch(self)

    def name(self) -> str:
        """The op's name as PyTorch writes it, as "MulBackward0"."""
        return f"{self.op.name.title().replace('_', '')}Backward0"

    @property
    def next_functions(self) -> tuple[tuple[Any, int], ...]:
        """For each input the step before and which of its results it is; (None, 0) for none."""
        from pyframe.autograd.graph import public_edge

        return tuple([public_edge(e) for e in self.edges])

    @property
    def metadata(self) -> dict[Any, Any]:
        """A dict for notes of the user's."""
        return self.attach().metadata

    def attach(self) -> Attached:
        """Where hooks hang; made at the first use."""
        if self.extra is None:
            self.extra = Attached()
        return self.extra

    def register_hook(self, hook: Callable[..., Any]) -> Any:
        """Call `hook(grad_inputs, grad_outputs)` after this step; a tuple replaces grad_inputs."""
        from pyframe.autograd.graph import RemovableHandle

        return RemovableHandle(self.attach().post, hook)

    def register_prehook(self, hook: Callable[..., Any]) -> Any:
        """Call `hook(grad_outputs)` before this step; a tuple that it returns replaces them."""
        from pyframe.autograd.graph import RemovableHandle

        return RemovableHandle(self.attach().pre, hook)

    def __repr__(self) -> str:
        return f"<{self.name()} object at {id(self):#x}>"

    def _saved(self, j: int) -> Any:
        if self.saved is None:
            raise freed_error(self.op.name)
        entry = self.saved[j]
        if type(entry) is tuple:
            x, version = entry
            if x._storage.version != version:
                inputs = [e[0] for e in self.saved[:-1] if type(e) is tuple]
                if j < 0 and len(inputs) == len(self.specs):  # all are there: compute it again
                    inputs = [self._saved(i) for i in range(len(inputs))]
                    return apply(self.op, tuple(inputs), self.attrs)
                what = f"input '{self.op.inputs[j]}'" if j >= 0 else "the result"
                check_version(x, version, f"{what} of {self.op.name}")
        elif type(entry) is Packed:
            x = entry.get()
        else:
            return entry
        if j < 0 and mode.grad:
            x = x._alias()
            x._grad_fn = self
        return x

    def vjp(self, i: int, g: Tensor) -> Tensor:
        """The gradient for input i, given that of the result."""
        plan = self.op.vjps[i]
        args: list[Any] = []
        for kind, j in plan.args:
            if kind == "g":
                args.append(g)
            elif kind == "input":
                args.append(self._saved(j))
            elif kind == "y":
                args.append(self._saved(-1))
            elif kind == "attr":
                args.append(self.attrs[j])
            else:
                args.append(Spec(*self.specs[j]))
        grad: Tensor = plan.fn(*args)
        shape, dtype, _ = self.specs[i]
        if grad._node.shape != shape:
            grad = grad.sum_to_size(shape)
        if grad._node.dtype is not dtype:  # of a complex gradient a real input takes the real part
            real = grad._node.dtype.category == dt.COMPLEX != dtype.category
            grad = (REAL(grad) if real else grad).to(dtype)
        return grad


class Packed:
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


# Versions: writes through `.data` are in the high bits, where a saved tensor does not look, and
# inference tensors have negative ones.
UNSEEN = 1 << 40
INFERENCE = -(1 << 120)


def check_version(x: Tensor, version: int, what: str) -> None:
    """RuntimeError if `x` was written to since it had `version`."""
    now = x._storage.version
    if (now ^ version) & (UNSEEN - 1):
        raise RuntimeError(
            "one of the variables needed for gradient computation has been modified by an inplace "
            f"operation: {what}, shape {list(x.shape)}, is at version {now & (UNSEEN - 1)}; "
            f"expected version {version & (UNSEEN - 1)} instead. Clone it before the in-place op"
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


def watch_nodes(watch: Callable[[GradNode], None] | None) -> None:
    """Show each new GradNode to `watch`: of anomaly mode and of saved-tensor hooks."""
    global _watch
    _watch = watch


_watch: Callable[[GradNode], None] | None = None


def apply(op: Op, inputs: tuple[Any, ...], attrs: tuple[Any, ...] = ()) -> Tensor:
    """Call `op` on Tensors (or `const` nodes) that already have one device and fit dtypes.

    On the CPU it is computed at once; on a lazy device a Node is recorded. Raises RuntimeError
    for mixed devices and what `op.infer` raises for shapes and dtypes that do not fit.
    """
    nodes = tuple([x if type(x) is Node else x._value() for x in inputs])
    device = nodes[0].device
    for n in nodes:
        if n.device is not device:
            raise RuntimeError(
                f"{op.name}: Expected all tensors to be on the same device, but found "
                f"{' and '.join(str(m.device) for m in nodes)}; move one with .to('{device}')"
            )
    shape, dtype = op.infer(*nodes, *attrs)  # type: ignore[misc]
    return record(op, inputs, attrs, nodes, shape, dtype, device)


def record(
    op: Op,
    inputs: tuple[Any, ...],
    attrs: tuple[Any, ...],
    nodes: tuple[Node, ...],
    shape: tuple[int, ...],
    dtype: dt.dtype,
    device: Device,
) -> Tensor:
    """The end of `apply`, once the nodes of the inputs and the type of the result are known."""
    grad = mode.grad and op.differentiable
    if (
        mode.grad and not grad and op.fallback is not None and dtype.category >= dt.FLOAT
        and any(type(x) is not Node and x.requires_grad for x in inputs)
    ):  # fmt: skip
        return op.fallback(*inputs, *attrs)  # the gradient is that of its composition
    capture = mode.capture
    if capture is None and not device.always_lazy:
        if op.numpy is None:
            return _by_fallback(op, inputs, attrs, grad)
        try:
            if len(nodes) == 2 and not attrs:
                a, b = nodes
                data = _quiet.run(op.numpy, a.data, b.data)
            else:
                data = _quiet.run(op.numpy, *[n.data for n in nodes], *attrs)
        except RuntimeError as e:
            if "already entered" not in str(e):
                raise
            # a finalizer calls this op within another one's NumPy
            with np.errstate(all="ignore"):
                data = op.numpy(*[n.data for n in nodes], *attrs)
        if type(data) is not np.ndarray:
            data = np.asarray(data)
        if not op.alias:
            if data.dtype is not dtype.numpy and data.dtype != dtype.numpy:
                data = _quiet.run(data.astype, dtype.numpy)  # float16 may overflow
            if dtype.narrow is not None:
                data = dtype.narrow(data)
        out = new(Node(None, (), (), shape, dtype, device, data))
        if op.alias:
            if not data.size or np.may_share_memory(data, inputs[0]._node.data):
                out._share(inputs[0], op, attrs)
            elif not data.flags.writeable:
                out._node.data = data.copy()
    elif capture is not None and capture.batches:
        out, example = capture.run(op, inputs, attrs)
        if not example:
            return out
        if op.alias:
            out._share(inputs[0], op, attrs)
    else:
        by_fallback = op.numpy is None
        if device.always_lazy:
            by_fallback = op.kind == ROUTINE and op.kernel is None
            if by_fallback and op.fallback is None:
                return _on_host(op, inputs, attrs, shape, dtype, grad)
        elif not dtype.on_plans or not all(n.dtype.on_plans for n in nodes):
            capture.give_up(f"computes {op.name} of {dtype.name}")
            again = [const(x.attrs[0], x.dtype, device) if type(x) is Node else x for x in inputs]
            return apply(op, tuple(again), attrs)
        if by_fallback:
            return _by_fallback(op, inputs, attrs, grad)
        if device.always_lazy:
            check_dtype(op.name, dtype, device)
            if shape and max(shape) > 0x7FFFFFFF:
                raise RuntimeError(
                    f"{op.name}: a result of shape {list(shape)} is too large for '{device}', "
                    "which counts places in 32 bits; expected less than 2147483648 along each dim"
                )
        out = new(Node(op, nodes, attrs, shape, dtype, device))
        if op.alias:
            out._share(inputs[0], op, attrs)
        elif capture is not None:
            capture.pending.append(weakref.ref(out._storage))
        else:
            pending = device.backend.pending
            pending.append(weakref.ref(out._storage))
            if len(pending) > MAX_PENDING:
                device.backend.flush()
    if grad:
        for x in inputs:
            if type(x) is not Node and (
                x._needs_grad or (x._grad_fn is not None if x._base is None else x.requires_grad)
            ):
                if dtype.category >= dt.FLOAT:
                    out._grad_fn = GradNode(op, inputs, attrs, out)
                break
    return out


def _on_host(
    op: Op, inputs: tuple[Any, ...], attrs: tuple[Any, ...], shape: tuple[int, ...],
    dtype: dt.dtype, grad: bool,
) -> Tensor:  # fmt: skip
    """An op that the GPU has no kernel for: NumPy computes it, and the result goes back."""
    tensors = [x if type(x) is not Node else new(x) for x in inputs]
    device = tensors[0].device
    if mode.capture is not None:
        mode.capture.read(tensors[0])
    check_dtype(op.name, dtype, device)
    data = _quiet.run(op.numpy, *device.backend.fetch(tensors), *attrs)
    data = np.asarray(data).astype(dtype.numpy, copy=False).reshape(shape)
    data = data if dtype.narrow is None else dtype.narrow(data)
    out = new(Node(None, (), (), shape, dtype, device, device.backend.upload(data, dtype)))
    if grad and dtype.category >= dt.FLOAT and any(x.requires_grad for x in tensors):
        out._grad_fn = GradNode(op, inputs, attrs, out)
    return out


class _Quiet(threading.local):
    """`run(fn, *args)` calls NumPy with its warnings off: floats overflow to inf and divide to
    nan silently, as PyTorch's do."""

    def __init__(self) -> None:
        # Entering a context is much cheaper than np.errstate, which is made anew at each use.
        context = contextvars.Context()
        before = np.geterr()
        context.run(np.seterr, all="ignore")
        self.run: Callable[..., Any] = context.run
        if np.geterr() != before:  # NumPy 1 keeps the state per thread
            np.seterr(**before)
            self.run = np.errstate(all="ignore")(lambda fn, *args: fn(*args))


_quiet = _Quiet()

MAX_PENDING = 5000  # recorded results before a flush bounds the memory that they hold


def _by_fallback(op: Op, inputs: tuple[Any, ...], attrs: tuple[Any, ...], grad: bool) -> Tensor:
    if not grad:
        return op.fallback(*inputs, *attrs)  # type: ignore[misc]
    before, mode.grad = mode.grad, False
    try:
        out: Tensor = op.fallback(*inputs, *attrs)  # type: ignore[misc]
    finally:
        mode.grad = before
    if any(type(x) is not Node and x.requires_grad for x in inputs):
        out = out._alias()
        out._grad_fn = GradNode(op, inputs, attrs, out)
    return out


def check_dtype(what: str, dtype: dt.dtype, device: Device) -> None:
    """TypeError if `device` has no such dtype."""
    if device.always_lazy:
        if dtype.storage is None:
            raise TypeError(
                f"{what}: device '{device}' has no {dtype.name}; use float32, "
                "or move the tensor to the CPU with .cpu() first"
            )
        if dtype is dt.float16 and not device.backend.limits.float16:
            raise TypeError(
                f"{what}: device '{device}' ({device.backend.adapter}) has no float16; use float32"
            )


# set by the modules that declare them
CAST: Any
PUT: Any
REAL: Any = None  # complex -> its real part
TO_DEVICE: Any


def new(node: Node) -> Tensor:
    """A tensor of its own for `node`."""
    raise RuntimeError("pyframe.tensor sets this")
