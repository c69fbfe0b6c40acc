"""Memory shared with other libraries: buffers, and DLPack both ways (`pyframe.tensor.dlpack`)."""

from __future__ import annotations

from typing import Any

import numpy as np

from pyframe.core import dtypes as dt
from pyframe.tensor.construction import from_host, from_numpy, tensor
from pyframe.tensor.tensor import Tensor


def dlpack_device(self: Tensor) -> tuple[int, int]:
    """DLPack's kind and number of the device: (1, 0) for the CPU, (15, n) for a GPU."""
    return (15, self.device.index or 0) if self.is_cuda else (1, 0)


def to_dlpack(
    self: Tensor, *, stream: Any = None, max_version: tuple[int, int] | None = None,
    dl_device: tuple[int, int] | None = None, copy: bool | None = None,
) -> Any:  # fmt: skip
    """The DLPack capsule of this tensor's memory, which stays as long as the capsule's user.

    BufferError for a tensor that requires grad, and for what has to be copied if `copy` is False:
    bfloat16 (four bytes here), memory in reverse, which PyTorch can't take, and a tensor of the
    GPU, which only `dl_device=(1, 0)` moves.
    """
    from pyframe.tensor import dlpack

    return dlpack.given(self, stream, max_version, dl_device, copy)


def from_dlpack(ext_tensor: Any, *, device: Any = None, copy: bool | None = None) -> Tensor:
    """A CPU tensor that shares memory with an array of the DLPack protocol, or with a capsule.

    It is copied if `copy`, and where it must be: bfloat16 (with `copy=False` a BufferError), and
    for `device`. Memory that its library calls read-only is not written to: RuntimeError.
    """
    from pyframe.tensor import dlpack

    array, is_bfloat16 = dlpack.taken(ext_tensor, device, copy)
    out = from_host(array, dt.bfloat16) if is_bfloat16 else from_numpy(array)
    return out if device is None else out.to(device)


def frombuffer(
    buffer: Any, *, dtype: dt.dtype, count: int = -1, offset: int = 0, requires_grad: bool = False
) -> Tensor:
    """A 1-d CPU tensor that shares memory with a Python buffer; offset is in bytes."""
    size = memoryview(buffer).nbytes
    if not size:
        raise ValueError(f"frombuffer: both buffer length ({size}) and count must not be 0")
    if not 0 <= offset < size:
        raise ValueError(f"frombuffer: offset ({offset}) must be within the buffer of {size} bytes")
    if dtype.narrow is not None:
        raise TypeError(f"frombuffer: NumPy has no {dtype.name}; read int16 and convert")
    left = (size - offset) // dtype.itemsize
    if count > left or (count < 0 and (size - offset) % dtype.itemsize):
        raise ValueError(
            f"frombuffer: {count if count > 0 else 'all'} elements of {dtype.itemsize} bytes don't "
            f"fit {size - offset} bytes"
        )
    out = from_numpy(np.frombuffer(buffer, dtype.numpy, count, offset))
    return out.requires_grad_(requires_grad)


def asarray(
    obj: Any, *, dtype: dt.dtype | None = None, device: Any = None, copy: bool | None = None,
    requires_grad: bool = False,
) -> Tensor:  # fmt: skip
    """A tensor of a tensor, an array, a buffer or numbers, sharing memory where nothing changes
    unless `copy`; ValueError where `copy=False` can't hold."""
    if isinstance(obj, Tensor):
        out = obj.detach()
    elif isinstance(obj, (np.ndarray, np.generic)):
        out = from_numpy(np.asarray(obj))
    elif hasattr(obj, "__dlpack__"):
        out = from_dlpack(obj)
    elif isinstance(obj, (bytes, bytearray, memoryview)):
        out = frombuffer(obj, dtype=dtype or dt.get_default_dtype())
    else:
        if copy is False:
            raise ValueError("asarray: can't alias an arbitrary sequence; copy=None copies it")
        return tensor(obj, dtype=dtype, device=device, requires_grad=requires_grad)
    source = out
    out = out.to(device if device is not None else out.device, dtype or out.dtype)
    if copy and out._storage is source._storage:
        out = out.clone()
    if copy is False and out._storage is not source._storage:
        raise ValueError("asarray: can't alias with another device or dtype; copy=None copies it")
    return out.detach().requires_grad_(requires_grad)
