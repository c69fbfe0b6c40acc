"""How tensors are pickled, copied, given memory of their own, and share it with other libraries:
buffers, and DLPack both ways (`pyframe.tensor.dlpack`).
"""

from __future__ import annotations

import copy as copying
from typing import Any

import numpy as np

from pyframe.core import dtypes as dt, view as views
from pyframe.core.devices import device as Device
from pyframe.core.modes import no_grad
from pyframe.core.node import Storage
from pyframe.tensor.construction import from_host, from_numpy, tensor, upload
from pyframe.tensor.tensor import Tensor
from pyframe.tensor.view_chain import apply_view_chain, invert_view_chain


def _rebuild(
    kind: Any, array: np.ndarray, device: str, needs_grad: bool, dtype: dt.dtype
) -> Tensor:
    if array.flags.c_contiguous:
        source = upload(array, Device(device), dtype)
    else:
        source = from_host(array, dtype).to(Device(device))
    return leaf_alias(kind, source, needs_grad)


def leaf_alias(kind: Any, source: Tensor, needs_grad: bool) -> Tensor:
    """A leaf of a class, another handle on the memory of `source`."""
    out: Tensor = Tensor.__new__(kind)
    out._node, out._storage, out._needs_grad = source._node, source._storage, needs_grad
    out._view_chain, out._view_version = source._view_chain, source._view_version
    return out


def without_memory(
    kind: Any, shape: tuple[int, ...], strides: tuple[int, ...], dtype: dt.dtype, needs_grad: bool
) -> Tensor:
    """A leaf on device 'meta', of a class derived from Tensor."""
    last = sum((n - 1) * s for n, s in zip(shape, strides, strict=True)) if 0 not in shape else -1
    memory = tensor(0, dtype=dtype, device="meta").expand(last + 1).clone()
    return leaf_alias(kind, memory.as_strided(shape, strides).detach(), needs_grad)


def reduce_ex(self: Tensor, protocol: Any) -> Any:
    """For pickle: the value as an array, and where and as what it is to be made again."""
    if self.is_meta:
        kept = type(self), tuple(self.shape), self.stride(), self.dtype, self.requires_grad
        return without_memory, kept, self.__dict__ or None
    array = np.array(self._host())
    made = (type(self), array, str(self.device), self.requires_grad, self.dtype)
    return _rebuild, made, self.__dict__ or None


def shallow_copy(self: Tensor) -> Tensor:
    """A leaf of the same memory."""
    out = leaf_alias(type(self), self._alias(), self.requires_grad)
    out.__dict__.update(self.__dict__)
    return out


def deep_copy(self: Tensor, memo: dict[int, Any]) -> Tensor:
    """A leaf with memory of its own, which copies of its views share in the same `deepcopy`."""
    if not self.is_leaf:
        raise RuntimeError(
            "Only Tensors created explicitly by the user (graph leaves) support the deepcopy "
            "protocol at the moment; use detach().clone()"
        )
    if id(self) in memo:
        return memo[id(self)]
    storage = self._storage
    with no_grad():
        source = memo.get(id(storage))
        if source is None:  # tensors of one memory are copied to tensors of one memory
            whole = Tensor.__new__(Tensor)
            whole._node, whole._storage = storage.node, storage
            source = memo[id(storage)] = whole.clone()
        out = leaf_alias(type(self), apply_view_chain(source, self._view_chain), self._needs_grad)
    memo[id(self)] = out
    if self.grad is not None:
        out.grad = self.grad.__deepcopy__(memo)
    out.__dict__.update(copying.deepcopy(self.__dict__, memo))
    return out


def unshare_storage(x: Tensor) -> Tensor:
    """A lazy tensor's value in a storage of its own: values never change, so nothing is copied."""
    part = invert_view_chain(x._storage.node, x._view_chain) is None
    beside = x.dtype is x._storage.node.dtype and views.is_contiguous(x._index_map())
    if (part and not beside) or not x.device.lazy:
        with no_grad():
            return x.clone()
    out = x._alias()
    x._storage.node.shared = True
    out._storage = Storage(x._storage.node)
    out._view_version = 0
    out._pending()
    return out


def share_memory_(self: Tensor) -> Tensor:
    """Move the memory to where processes that get this tensor see it too, with its views. Does
    nothing if it lies there. RuntimeError on a GPU."""
    from pyframe.tensor.sharing import share

    if not is_shared(self):
        share([self])
    return self


def is_shared(self: Tensor) -> bool:
    """Whether the memory is one that processes share: see `share_memory_`."""
    from mmap import mmap

    array: object = None if self.device.is_lazy else self._storage.node.data
    while isinstance(array, np.ndarray):
        array = array.base
    return isinstance(getattr(array, "obj", array), mmap)


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

    Args:
        ext_tensor: What has `__dlpack__`, or a capsule.

    >>> import numpy as np
    >>> pf.from_dlpack(np.ones(2))
    tensor([1., 1.], dtype=pyframe.float64)
    """
    from pyframe.tensor import dlpack

    array, is_bfloat16 = dlpack.import_capsule(ext_tensor, device, copy)
    out = from_host(array, dt.bfloat16) if is_bfloat16 else from_numpy(array)
    return out if device is None else out.to(device)


def frombuffer(
    buffer: Any, *, dtype: dt.dtype, count: int = -1, offset: int = 0, requires_grad: bool = False
) -> Tensor:
    """A 1-d CPU tensor that shares memory with a Python buffer; `offset` is in bytes.

    Args:
        buffer: Bytes, a bytearray, an array.
        dtype: That of the elements in it.
        count: How many elements; -1 for all.
        requires_grad: Whether gradients are wanted.

    >>> pf.frombuffer(bytearray([1, 2, 3]), dtype=pf.uint8)
    tensor([1, 2, 3], dtype=pyframe.uint8)
    """
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
    unless `copy`; ValueError where `copy=False` can't hold.

    Args:
        obj: What it is made of.
        dtype, device: What it must have; by default as it comes.
        requires_grad: Whether gradients are wanted.

    >>> pf.asarray([1, 2])
    tensor([1, 2])
    """
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
