"""Tensors made from what Python and NumPy hold, copied or in the same memory."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from pyframe.core import devices as _device, dispatch as _dispatch, dtypes as dt, op as _op
from pyframe.core.devices import device as Device
from pyframe.core.modes import mode
from pyframe.core.node import Node
from pyframe.core.symbolic import SymbolicArray, SymbolicScalar
from pyframe.tensor.tensor import Tensor, new


def from_numpy(array: np.ndarray) -> Tensor:
    """A CPU tensor that shares memory with `array`. TypeError for a dtype pyframe lacks.

    >>> import numpy as np
    >>> pf.from_numpy(np.array([1, 2]))
    tensor([1, 2])
    """
    if not isinstance(array, np.ndarray):
        raise TypeError(f"expected np.ndarray (got {type(array).__name__})")
    if array.dtype.byteorder not in "=|" and array.dtype.newbyteorder("=") != array.dtype:
        raise ValueError("from_numpy: the array has foreign byte order; use .astype first")
    d = dt.dtype.from_numpy(array.dtype)
    if type(array) is SymbolicArray:
        out = upload(array.array, _device.cpu, d)
        read_again(out, array.source, True)
        return out
    out = from_host(array, d)
    out._storage.aliased_outside = True
    return out


def from_host(array: np.ndarray, d: dt.dtype) -> Tensor:
    """`from_numpy` of an array that nobody else writes to, in which values of dtype `d` are held
    (bfloat16 in a float32)."""
    if array.flags.c_contiguous:
        return new(Node(None, (), (), array.shape, d, _device.cpu, array))
    # in the order of memory, seen through a view, as all results lie
    order = tuple(sorted(range(array.ndim), key=lambda i: -abs(array.strides[i])))
    lying = array.transpose(order)
    return _dispatch.view_in_order(
        new(Node(None, (), (), lying.shape, d, _device.cpu, lying)), order
    )


def read_again(x: Tensor, make: Callable[[], np.ndarray], shares: bool = False) -> None:
    """Within a capture: each replay reads again the array that `x` was made of."""
    if mode.capture is not None:
        mode.capture.bind_host_array(x, make, shares)


def tensor(
    data: Any, *, dtype: dt.dtype | None = None, device: Device | str | None = None,
    requires_grad: bool = False,
) -> Tensor:  # fmt: skip
    """A new tensor with a copy of `data` (numbers, nested sequences, an array or a tensor).

    Floats take the default dtype, ints int64, bools bool, unless `dtype` says otherwise.

    Args:
        device: Where it is; the default device.
        requires_grad: Whether gradients of it are wanted.

    >>> pf.tensor([[1, 2], [3, 4]], dtype=pf.float32)
    tensor([[1., 2.],
            [3., 4.]])
    """
    target = Device(device) if device is not None else None
    dtype = dt.of_argument("tensor", dtype)
    if isinstance(data, Tensor):
        out = data.detach()
        out = out.to(target or out.device, dtype or out.dtype)
        if out._storage is data._storage:
            out = out.clone().detach()
    else:
        target = target or _device.get_default_device()
        if type(data) is SymbolicScalar:
            one = new(_op.const(data, dtype or dt.of_scalar(data), target))
            out = _dispatch.apply(_op.REGISTRY["copy"], (one,))
        else:
            array = _host_array(data.array if type(data) is SymbolicArray else data, dtype)
            out = upload(array, target, dtype)
            if type(data) is SymbolicArray:
                read_again(out, lambda: _host_array(data.source(), dtype))
    if requires_grad:
        out.requires_grad_()
    return out


def _host_array(data: Any, dtype: dt.dtype | None) -> np.ndarray:
    if isinstance(data, (np.ndarray, np.generic)):
        array = np.asarray(data)
        return array if dtype is None else _as(array, dtype)
    if isinstance(data, (list, tuple)):
        data = _unwrap(data)
    elif isinstance(data, (str, bytes)):
        raise TypeError(f"tensor: invalid data type {type(data).__name__!r}; expected numbers")
    try:
        array = np.asarray(data)
        if array.dtype == object:
            odd = [type(v).__name__ for v in array.flat if not isinstance(v, (int, float))]
            if odd:
                raise RuntimeError(
                    f"tensor: Could not infer dtype of {odd[0]}; expected numbers in nested "
                    "sequences of equal length"
                )
            if dtype is None or dtype.category < dt.FLOAT:
                raise ValueError("Overflow: an int of more than 64 bits")
            array = array.astype(np.float64)
        if array.dtype.kind not in "biufc":
            raise ValueError(f"it holds {array.dtype}")
        if dtype is None and array.dtype == np.uint64 and not _holds_numpy(data):
            raise ValueError("Overflow: an int beyond int64; say dtype=pf.uint64")
    except ValueError as e:
        raise ValueError(
            f"tensor: can't make a tensor of {type(data).__name__}: expected numbers in nested "
            f"sequences of equal length ({e})"
        ) from None
    if dtype is not None:
        if not _holds_numpy(data):
            _check_fit(array, dtype)
        return _as(array, dtype)
    if array.dtype.kind == "f" and not _holds_numpy(data):
        with np.errstate(over="ignore"):
            return array.astype(dt.get_default_dtype().numpy)
    if array.dtype.kind == "c" and not _holds_numpy(data):
        return array.astype(dt.get_default_dtype().to_complex().numpy)
    if array.dtype.kind == "i" and not _holds_numpy(data):
        return array.astype(np.int64)
    return array


def _check_fit(array: np.ndarray, d: dt.dtype) -> None:
    """What Python numbers may not become: TypeError, or RuntimeError for overflow of an int."""
    if array.dtype.kind == "c" and d.category != dt.COMPLEX:
        raise TypeError(f"tensor: must be real number, not complex, for {d.name}")
    if d.category == dt.INTEGER and array.dtype.kind in "iuf" and array.size:
        for extreme in (array.min(), array.max()):
            dt.convert_scalar(extreme.item(), d)


def _as(array: np.ndarray, d: dt.dtype) -> np.ndarray:
    if array.dtype.kind == "c" and d.category != dt.COMPLEX:
        array = array.real
    with np.errstate(over="ignore"):
        array = array.astype(d.numpy)
    return array if d.narrow is None else d.narrow(array)


def _unwrap(data: Any) -> Any:
    """Nested sequences with tensors inside, as NumPy can read them."""
    if isinstance(data, Tensor):
        return data.tolist()
    if isinstance(data, (list, tuple)):
        return [_unwrap(x) for x in data]
    return data


def _holds_numpy(data: Any) -> bool:
    while isinstance(data, (list, tuple)) and data:
        data = data[0]
    return isinstance(data, (np.ndarray, np.generic))


def as_tensor(
    data: Any, dtype: dt.dtype | None = None, device: Device | str | None = None
) -> Tensor:
    """`data` as a tensor, sharing memory with an array or tensor where nothing changes.

    Args:
        dtype, device: What it must have; by default as it comes.

    >>> x = pf.tensor([1, 2])
    >>> pf.as_tensor(x) is x
    True
    """
    if isinstance(data, Tensor):
        return data.to(device or data.device, dtype or data.dtype)
    if isinstance(data, np.ndarray) and _device.resolve(device) is _device.cpu:
        out = from_numpy(data)
        return out if dtype is None else out.to(dtype)
    return tensor(data, dtype=dtype, device=device)


def upload(array: np.ndarray, target: Device, d: dt.dtype | None = None) -> Tensor:
    """A tensor on `target` with a copy of a host array (in which a value of dtype `d` is held)."""
    d = d or dt.dtype.from_numpy(array.dtype)
    if not target.is_lazy:
        out = new(Node(None, (), (), array.shape, d, target, np.array(array, order="C")))
    else:
        _dispatch.check_dtype("to", d, target)
        out = new(Node(None, (), (), array.shape, d, target, target.executor.upload(array, d)))
    if mode.capture is not None:
        mode.capture.made(out)
    return out
