"""`apply`, the one way to call an op: it computes, or records, and notes the gradient."""

from __future__ import annotations

import contextlib
import contextvars
import threading
import weakref
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

import numpy as np

from pyframe.core import dtypes as dt
from pyframe.core.devices import device as Device, flush
from pyframe.core.grad_node import GradNode
from pyframe.core.modes import mode, set_inference
from pyframe.core.node import Node
from pyframe.core.op import ROUTINE, Op, const

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
    return record(op, inputs, attrs, nodes, shape, dtype, device)


Op.run = apply


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
            pending = device.executor.pending
            pending.append(weakref.ref(out._storage))
            if len(pending) > MAX_PENDING:
                device.executor.flush()
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
    data = _quiet.run(op.numpy, *device.executor.fetch(tensors), *attrs)
    data = np.asarray(data).astype(dtype.numpy, copy=False).reshape(shape)
    data = data if dtype.narrow is None else dtype.narrow(data)
    out = new(Node(None, (), (), shape, dtype, device, device.executor.upload(data, dtype)))
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


def new(node: Node) -> Tensor:
    """A tensor of its own for `node`."""
    raise RuntimeError("pyframe.tensor sets this")


@contextlib.contextmanager
def outside() -> Iterator[None]:
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
