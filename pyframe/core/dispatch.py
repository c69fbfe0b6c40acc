"""`apply`, the one way to call an op: it computes or records the result, and notes the gradient."""

from __future__ import annotations

import contextlib
import contextvars
import threading
import weakref
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from pyframe.core import dtypes as dt, host_memory, op as _op
from pyframe.core.devices import cpu, device as Device, flush
from pyframe.core.grad_node import GradNode, split
from pyframe.core.limits import Limits
from pyframe.core.modes import mark_uncacheable, mode, set_inference
from pyframe.core.node import LazyNode, Node, is_array, lazy_node, may_change
from pyframe.core.op import EXTERN, MOVEMENT, REGISTRY, Op, PermutedLayout
from pyframe.core.sizes import size_hints
from pyframe.core.trace import MAX_INPUT_BYTES, MAX_NODES, flush_cpu, lazy_policy, trace
from pyframe.core.view import inverse_order, stride_order

if TYPE_CHECKING:
    from pyframe.tensor import Tensor


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
    return dispatch(op, inputs, attrs, nodes, shape, dtype, device)


Op.run = apply


def results_of(op: Op, inputs: tuple[Any, ...], attrs: tuple[Any, ...] = ()) -> tuple[Tensor, ...]:
    """`apply` for an op with several results."""
    shapes = op.results(*[x._node.shape for x in inputs], *attrs)  # type: ignore[misc]
    return split(apply(op, inputs, attrs), shapes)


def dispatch(
    op: Op, inputs: tuple[Any, ...], attrs: tuple[Any, ...], nodes: tuple[Node, ...],
    shape: tuple[int, ...], dtype: dt.dtype, device: Device,
) -> Tensor:  # fmt: skip
    """The end of `apply`, once the nodes of the inputs and the type of the result are known: the
    op is carried out in one of the ways below."""
    if op.by_fallback and mode.grad and dtype.category >= dt.FLOAT:
        some = [inputs[i] for i in op.by_fallback]
        if any(type(x) is not Node and x.requires_grad for x in some):
            return op.fallback(*inputs, *attrs)  # type: ignore[misc]
    if op.preserves_order:
        for x in inputs:
            if type(x) is not Node and type(x._view_chain) is PermutedLayout:
                return run_in_order(op, inputs, attrs, nodes, shape, dtype, device)
    return handler_on(device)(op, inputs, attrs, nodes, shape, dtype, device)


def run_in_order(
    op: Op, inputs: tuple[Any, ...], attrs: tuple[Any, ...], nodes: tuple[Node, ...],
    shape: tuple[int, ...], dtype: dt.dtype, device: Device, order: tuple[int, ...] | None = (),
) -> Tensor:  # fmt: skip
    """Run an elementwise op with an output stride order (None: row-major), by default PyTorch's.
    Where that is not row-major, the op runs on permuted operands and a view permutes the
    result back."""
    way = handler_on(device)
    if order == ():
        order = result_order(shape, *[x for x in inputs if type(x) is not Node])
    composed = op.numpy is None and not device.is_lazy
    if order is None or composed or (mode.capture is not None and not mode.capture.orders):
        return _row_major(way(op, inputs, attrs, nodes, shape, dtype, device))
    grad, mode.grad = mode.grad, False
    try:
        lying = inputs
        if mode.capture is None:
            nodes = tuple([n if not n.shape else _lying(n, order) for n in nodes])
        else:
            lying = tuple([x if type(x) is Node else permute_to(x, order) for x in inputs])
            nodes = tuple([x if type(x) is Node else x._value() for x in lying])
        size = tuple([shape[d] for d in order])
        out = view_in_order(_row_major(way(op, lying, attrs, nodes, size, dtype, device)), order)
    finally:
        mode.grad = grad
    if op.differentiable and mode.grad:
        record_grad_node(op, inputs, attrs, out)
    return out


def _lying(n: Node, order: tuple[int, ...]) -> Node:
    """`permute_to` of a value."""
    shape: tuple[int, ...] = n.shape
    make = lazy_node if type(n) is LazyNode else Node
    if make is Node and not n.device.is_lazy:
        data = n.data
        if len(shape) < len(order):
            data = data[(None,) * (len(order) - len(shape))]
            size = data.shape
            n = Node(REGISTRY["reshape"], (n,), (size,), size, n.dtype, n.device, data)
        data = data.transpose(order)
        return Node(_op.PERMUTE, (n,), (order,), data.shape, n.dtype, n.device, data)
    back = n.op is _op.PERMUTE and n.attrs == (inverse_order(order),)
    if back and (make is not Node or n.data is None):
        return n.inputs[0]
    shape = (1,) * (len(order) - len(shape)) + shape
    size = tuple([shape[d] for d in order])
    if shape != n.shape:
        n = make(REGISTRY["reshape"], (n,), (shape,), shape, n.dtype, n.device)
    return make(_op.PERMUTE, (n,), (order,), size, n.dtype, n.device)


def result_order(shape: tuple[int, ...], *operands: Tensor) -> tuple[int, ...] | None:
    """The order of the dims of an elementwise result in memory; None for row-major."""
    for x in operands:
        if type(x._view_chain) is PermutedLayout:
            now = all(map(is_materialized, operands))  # any unit will do
            lie = [(x._node.shape, x._node.data.strides if now else x.stride()) for x in operands]
            return stride_order(shape, tuple(lie))
    return None


def order_of(x: Tensor) -> tuple[int, ...] | None:
    """The order of the dims in memory of what is made like `x`; None for row-major."""
    return result_order(x._node.shape, x)


def permute_to(x: Tensor, order: tuple[int, ...]) -> Tensor:
    """`x`, which may have fewer dims, with its dims in this order."""
    shape = x._node.shape
    if not shape:
        return x
    if x._view_chain == ((_op.PERMUTE, (inverse_order(order),)),):  # all of its memory
        out = tensor_from_node(x._storage.node)
        out._storage = x._storage
        return out
    if len(shape) < len(order):
        x = apply(REGISTRY["reshape"], (x,), ((1,) * (len(order) - len(shape)) + shape,))
    return apply(_op.PERMUTE, (x,), (order,))


def copy_to_order(order: tuple[int, ...] | None, x: Tensor) -> Tensor:
    """`x` copied, so that its dims lie in memory in `order`; None for row-major."""
    n = x._value()
    return run_in_order(REGISTRY["copy"], (x,), (), (n,), n.shape, n.dtype, n.device, order)


def view_in_order(lying: Tensor, order: tuple[int, ...]) -> Tensor:
    """The new tensor whose memory `lying` is, with its dims in this order; no view to autograd."""
    out, back = lying, (inverse_order(order),)
    if out._view_chain:
        out = apply(_op.PERMUTE, (lying,), back)
        out._base = out._base_fn = out._creation = None
        return out
    n = out._node
    shape = tuple([n.shape[d] for d in back[0]])
    if is_materialized(out):
        data = n.data.transpose(back[0])
        out._node = Node(_op.PERMUTE, (n,), back, shape, n.dtype, n.device, data)
    else:
        make = lazy_node if type(n) is LazyNode else Node
        out._node = make(_op.PERMUTE, (n,), back, shape, n.dtype, n.device)
    out._view_chain, out._view_version = PermutedLayout(((_op.PERMUTE, back),)), out._storage.writes
    out._alias_changed()
    return out


def _row_major(out: Tensor) -> Tensor:
    """A new result, whose memory is in row-major order, whatever NumPy made of its operands."""
    if type(out._node) is not LazyNode:
        data = out._node.data
        if type(data) is np.ndarray and not data.flags.c_contiguous:
            out._node.data = np.ascontiguousarray(data)
    return out


def handler_on(device: Device) -> Callable[..., Tensor]:
    """The function that runs ops on `device` now: eagerly, lazily, or as the Interceptor says."""
    if mode.counts:
        return run_counted
    recorder = mode.capture
    if recorder is not None:
        return recorder.run
    return run_lazy if device.is_lazy else run_eager


def run_counted(
    op: Op, inputs: tuple[Any, ...], attrs: tuple[Any, ...], nodes: tuple[Node, ...],
    shape: tuple[int, ...], dtype: dt.dtype, device: Device,
) -> Tensor:  # fmt: skip
    """For the graph of a file: RuntimeError for a result that the host has no memory for."""
    if not (op.alias or device.is_lazy):
        dt.check_room(*size_hints(shape), itemsize=dtype.itemsize)
    mode.counts = False
    way = handler_on(device)
    mode.counts = True
    return way(op, inputs, attrs, nodes, shape, dtype, device)


def run_eager(
    op: Op, inputs: tuple[Any, ...], attrs: tuple[Any, ...], nodes: tuple[Node, ...],
    shape: tuple[int, ...], dtype: dt.dtype, device: Device,
) -> Tensor:  # fmt: skip
    """On the CPU: NumPy computes it now, or it is recorded, see `_try_record`."""
    fn = op.numpy
    if fn is None:
        return run_decomposition(op, inputs, attrs)
    least = lazy_policy.least
    if len(nodes) == 2 and type(fn) is np.ufunc and not attrs:  # most calls: with few steps
        a, b = nodes
        if type(a) is not LazyNode and type(b) is not LazyNode:
            x, y = a.data, b.data
            if x.size < least and y.size < least:
                try:  # no call of suppress
                    data = _quiet.run(fn, x, y)
                except RuntimeError:  # in a finalizer, see `eval_numpy`
                    data = None
                if type(data) is np.ndarray and data.dtype is dtype.numpy and dtype.narrow is None:
                    out = tensor_from_array(data, shape, dtype, device)
                    if mode.grad and op.differentiable:
                        record_grad_node(op, inputs, attrs, out)
                    return out
    for n in nodes:
        if type(n) is LazyNode or n.data.size >= least:
            x = y = data = None  # `is_aliased_outside` counts who holds the array
            later = _try_record(op, inputs, attrs, nodes, shape, dtype, device)
            if later is not None:
                return later
            break
    mark_uncacheable()
    data = eval_numpy(op, [n.data for n in nodes], attrs, shape, dtype)
    if op.alias:
        out = tensor_from_node(Node(op, nodes, attrs, shape, dtype, device, data))
        if not data.size or np.may_share_memory(data, inputs[0]._node.data):
            out._share(inputs[0], op, attrs)
        else:
            out._node = out._storage.node = Node(None, (), (), shape, dtype, device, data)
            if not data.flags.writeable:
                out._node.data = data.copy()
    else:
        out = tensor_from_array(data, shape, dtype, device)
    if op.differentiable and mode.grad:
        record_grad_node(op, inputs, attrs, out)
    return out


def eval_numpy(
    op: Op, arrays: list[Any], attrs: tuple[Any, ...], shape: tuple[int, ...], dtype: dt.dtype
) -> Any:
    """What NumPy gives for an op: an array of this dtype, row-major unless it is a view."""
    fn: Any = op.numpy
    try:
        if len(arrays) == 2 and not attrs:
            x, y = arrays
            if (
                x.nbytes >= host_memory.MIN_POOLED_BYTES
                and type(fn) is np.ufunc
                and x.dtype == y.dtype == dtype.numpy
            ):
                data = _quiet.run(fn, x, y, out=host_memory.empty(shape, dtype.numpy))
            else:
                data = _quiet.run(fn, x, y)
        else:
            data = _quiet.run(fn, *arrays, *attrs)
    except RuntimeError:
        if not _quiet.entered():
            raise
        # a finalizer calls this op within another one's NumPy
        with np.errstate(all="ignore"):
            data = fn(*arrays, *attrs)
    except ValueError:
        dt.check_room(*shape, itemsize=dtype.itemsize)
        raise
    if type(data) is not np.ndarray:
        data = np.asarray(data)
    if not op.alias:
        if type(fn) is not np.ufunc and not data.flags.c_contiguous:
            data = np.ascontiguousarray(data)
        if data.dtype is not dtype.numpy and data.dtype != dtype.numpy:
            data = _quiet.run(data.astype, dtype.numpy)  # float16 may overflow
        if dtype.narrow is not None:
            data = dtype.narrow(data)
    return data


def should_record(x: Tensor) -> bool:
    """Whether an op on `x`, of the CPU, may be recorded."""
    n = x._node
    return mode.records and (
        type(n) is LazyNode or (n.data.size >= lazy_policy.least and has_cpu_compiler())
    )


def _try_record(
    op: Op, inputs: tuple[Any, ...], attrs: tuple[Any, ...], nodes: tuple[Node, ...],
    shape: tuple[int, ...], dtype: dt.dtype, device: Device,
) -> Tensor | None:  # fmt: skip
    """Record an op of the CPU that has recorded operands or large ones, if that may be: where a
    compiler is at hand, it runs with others in one Program, see runtime/host.py."""
    if not mode.records or not has_cpu_compiler():
        return None
    some = mode.subgraph_recorder is not None
    for n in nodes:
        if not n.dtype.cpu_compilable:
            return None
        if type(n) is LazyNode:
            some = True
    if op.alias:
        if not some or op.view is None:
            return None
    elif not some and (dtype.category != dt.FLOAT or nodes[0].dtype.category != dt.FLOAT):
        return None
    elif op.kind == EXTERN and op.lower_extern is None and op.routine is None:
        return None  # NumPy's own, which may refuse values
    if not dtype.cpu_compilable or (shape and max(shape) > 1 << 40):  # there is no room
        return None
    if op.prefers_decomposition:
        return None if dtype.itemsize < 4 else run_decomposition(op, inputs, attrs)
    if not some and op.kind != EXTERN and any(map(may_change, inputs, nodes)):
        return None  # a copy would take as long as the op
    with device.executor.lock:
        here = mode.trace
        if here is None or not here.open:
            here = trace()
        node = here.record(op, inputs, nodes, attrs, shape, dtype, device)
        out = tensor_from_node(node)
        if op.alias:
            out._share(inputs[0], op, attrs)
        else:
            here.waiting.append(weakref.ref(out._storage))
            if len(here.nodes) + here.inside > MAX_NODES or here.held > MAX_INPUT_BYTES:
                flush_cpu()
    if op.differentiable and mode.grad:
        record_grad_node(op, inputs, attrs, out)
    return out


def run_lazy(
    op: Op, inputs: tuple[Any, ...], attrs: tuple[Any, ...], nodes: tuple[Node, ...],
    shape: tuple[int, ...], dtype: dt.dtype, device: Device,
) -> Tensor:  # fmt: skip
    """On a lazy device, or within a capture: a Node says what is to be computed. What such a Node
    can't say is computed in another way."""
    if not device.is_lazy:
        if op.numpy is None or (op.prefers_decomposition and not device.backend.limits.calls):
            return run_decomposition(op, inputs, attrs)
    else:
        if op.kind == EXTERN and not runs_kernel(op, device, dtype):
            if op.fallback is not None and op.decomposes_when_called:
                return run_decomposition(op, inputs, attrs)
            replays = op.runs_on_host and mode.capture is not None and mode.capture.replays
            if not (op.fallback or replays or device.wide):
                return run_on_host(op, inputs, attrs, shape, dtype)
        check_dtype(op.name, dtype, device)
        most = max(shape if mode.capture is None else size_hints(shape), default=0)
        if most > 0x7FFFFFFF and not device.wide:
            raise RuntimeError(
                f"{op.name}: a result of shape {list(shape)} is too large for '{device}', "
                "which counts places in 32 bits; expected less than 2147483648 along each dim"
            )
    out = tensor_from_node(Node(op, nodes, attrs, shape, dtype, device))
    if op.alias:
        out._share(inputs[0], op, attrs)
    elif mode.capture is not None:
        mode.capture.due(out._storage)
    else:
        pending = device.executor.pending
        pending.append(weakref.ref(out._storage))
        if len(pending) > MAX_PENDING:
            device.executor.flush()
    if op.differentiable and mode.grad:
        record_grad_node(op, inputs, attrs, out)
    return out


def run_on_host(
    op: Op, inputs: tuple[Any, ...], attrs: tuple[Any, ...], shape: tuple[int, ...], dtype: dt.dtype
) -> Tensor:
    """An op that the GPU has no kernel for: NumPy computes it, and the result goes back."""
    tensors = [x if type(x) is not Node else tensor_from_node(x) for x in inputs]
    device = tensors[0].device
    if mode.capture is not None:
        mode.capture.read(tensors[0], op.name)
    check_dtype(op.name, dtype, device)
    data = _quiet.run(op.numpy, *device.executor.fetch(tensors), *attrs)
    data = np.asarray(data).astype(dtype.numpy, copy=False).reshape(shape)
    data = data if dtype.narrow is None else dtype.narrow(data)
    out = tensor_from_node(
        Node(None, (), (), shape, dtype, device, device.executor.upload(data, dtype))
    )
    if op.differentiable and mode.grad:
        record_grad_node(op, inputs, attrs, out)
    return out


def run_decomposition(op: Op, inputs: tuple[Any, ...], attrs: tuple[Any, ...]) -> Tensor:
    """In other ops, with the gradient that the op itself declares; a tensor of its own memory."""
    tensors = [x for x in inputs if type(x) is not Node]
    records, mode.grad = mode.grad, mode.grad and not op.differentiable
    try:
        out: Tensor = op.fallback(*inputs, *attrs)  # type: ignore[misc]
        if op.kind != MOVEMENT and any(x._storage is out._storage for x in tensors):
            out = apply(REGISTRY["copy"], (out,))
    finally:
        mode.grad = records
    if records and op.differentiable and any(x.requires_grad for x in tensors):
        out = out._alias()  # a view may be an input as it is
        out._grad_fn = GradNode(op, inputs, attrs, out)
    return out


def eval_on_arrays(
    op: Op, arrays: Sequence[np.ndarray], dtypes: Sequence[dt.dtype], attrs: tuple[Any, ...]
) -> Any:
    """What NumPy gives for the op: by its `numpy`, else by its slow definition on the CPU."""
    if op.numpy is not None:
        return op.numpy(*arrays, *attrs)
    xs = [
        tensor_from_node(Node(None, (), (), a.shape, d, cpu, np.ascontiguousarray(a)))
        for a, d in zip(arrays, dtypes, strict=True)
    ]
    before = mode.capture, mode.grad, mode.autocast
    mode.capture, mode.grad, mode.autocast = None, False, None
    try:
        return op.fallback(*xs, *attrs)._node.data  # type: ignore[misc]
    finally:
        mode.capture, mode.grad, mode.autocast = before


def record_grad_node(op: Op, inputs: tuple[Any, ...], attrs: tuple[Any, ...], out: Tensor) -> None:
    """Let the gradient of `out` go to the inputs, if one of them asks for it."""
    for x in inputs:
        if type(x) is not Node and (
            x._needs_grad or (x._grad_fn is not None if x._base is None else x.requires_grad)
        ):
            if out._node.dtype.category >= dt.FLOAT:
                out._grad_fn = GradNode(op, inputs, attrs, out)
            return


class _IgnoreFpErrors(threading.local):
    """`run(fn, *args)` calls NumPy with its warnings off: floats overflow to inf and divide to
    nan silently, as PyTorch's do."""

    def __init__(self) -> None:
        # Entering a context is much cheaper than np.errstate, which is made anew at each use.
        context = contextvars.Context()
        before = np.geterr()
        context.run(np.seterr, all="ignore")
        self.context = context
        self.run: Callable[..., Any] = context.run
        if np.geterr() != before:  # NumPy 1 keeps the state per thread
            np.seterr(**before)
            self.run = np.errstate(all="ignore")(lambda fn, *args: fn(*args))

    def entered(self) -> bool:
        """Whether this runs within a `run` of the same thread, so that there can be no other."""
        try:
            self.context.run(bool)
        except RuntimeError:
            return True
        return False


_quiet = _IgnoreFpErrors()

MAX_PENDING = 5000  # recorded results before a flush bounds the memory that they hold


def is_eager(device: Device) -> bool:
    """Whether ops on `device` have their value at once, and are not recorded."""
    return mode.capture is None and not device.is_lazy


def can_read_value(x: Tensor) -> bool:
    """Whether the value of `x` may be looked at, and nobody has to be told; where the CPU has only
    recorded it, looking has it computed."""
    mark_uncacheable()
    return mode.capture is None and not x._node.device.is_lazy


def is_materialized(x: Tensor) -> bool:
    """Whether the value of `x` is there, in memory of the host."""
    return mode.capture is None and is_array(x._node)


def peek_array(x: Tensor) -> Any:
    """The array of a value that is at hand, for who decides something by it; None where it is
    not, or where other values will take the same way."""
    return x._node.data if mode.subgraph_recorder is None and is_materialized(x) else None


def runs_kernel(op: Op, device: Device, dtype: dt.dtype = dt.float32) -> bool:
    """Whether `device` runs the op's kernel for a result of `dtype`, not its slow definition."""
    return device.is_lazy and has_kernel(op, dtype)


def has_kernel(op: Op, dtype: dt.dtype) -> bool:
    """Whether GPUs have a kernel of the op for a result of `dtype`."""
    if op.kernel is None:
        return False
    return dtype.category != dt.COMPLEX or (not isinstance(op.kernel, str) and op.kernel.moves)


def lowers(
    op: Op, nodes: Sequence[Node], attrs: tuple[Any, ...], dtype: dt.dtype, limits: Limits
) -> bool:
    """Whether a GPU's recorded op becomes others where its graph is scheduled, for the GPU or for a
    page's CPU: see graph/lower.py."""
    if op.fallback is None or op.kind != EXTERN:
        return False
    if not limits.host:
        return not has_kernel(op, dtype)
    if op.routine is None or op.prefers_decomposition:  # no NumPy is there
        return True
    other = dtype is not dt.float32 and op.kernel is None
    return other or (op.is_product is not None and op.is_product(*nodes, *attrs))


def check_dtype(what: str, dtype: dt.dtype, device: Device) -> None:
    """TypeError if `device` has no such dtype."""
    if not device.wide:
        if dtype.storage is None:
            raise TypeError(
                f"{what}: device '{device}' has no {dtype.name}; use "
                f"{'complex64' if dtype.is_complex else 'float32'}, "
                "or move the tensor to the CPU with .cpu() first"
            )
        if dtype is dt.float16 and not device.backend.limits.float16:
            raise TypeError(
                f"{what}: device '{device}' ({device.backend.adapter}) has no float16; use float32"
            )


tensor_from_node: Callable[[Node], Tensor] = None  # type: ignore[assignment]  # see tensor/tensor.py
tensor_from_array: Callable[..., Tensor] = None  # type: ignore[assignment]  # the same, of an array
has_cpu_compiler: Callable[[], bool] = None  # type: ignore[assignment]  # see runtime/cpu.py


def install_callbacks(**declared: Any) -> None:
    """Take what core calls and modules above it declare: `tensor_from_node` and
    `tensor_from_array`, which make a tensor with memory of its own, `has_cpu_compiler`, whether
    recorded work of the CPU can be compiled, and the names at the end of op.py. Nothing else in
    core is set from above."""
    for name, value in declared.items():
        home = (
            globals()
            if name in ("tensor_from_node", "tensor_from_array", "has_cpu_compiler")
            else vars(_op)
        )
        if home[name] is not None:
            raise ValueError(f"{name} is declared twice")
        home[name] = value


@contextlib.contextmanager
def suspend_capture() -> Iterator[None]:
    """Within it nothing is captured: for state that is made once, and of normal tensors."""
    capture, mode.capture = mode.capture, None
    inference = set_inference(False)
    try:
        yield
        if capture is not None:
            flush()
    finally:
        mode.capture = capture
        set_inference(inference)
