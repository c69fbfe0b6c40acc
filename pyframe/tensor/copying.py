"""How tensors are pickled, copied, and given memory of their own."""

from __future__ import annotations

import copy as copying
from typing import Any

import numpy as np

from pyframe.core import dtypes as dt, view as views
from pyframe.core.devices import device as Device
from pyframe.core.modes import no_grad
from pyframe.core.node import Storage
from pyframe.tensor.construction import from_host, upload
from pyframe.tensor.tensor import Tensor
from pyframe.tensor.view_chain import cut, undone


def _rebuild(
    kind: Any, array: np.ndarray, device: str, needs_grad: bool, dtype: dt.dtype
) -> Tensor:
    if array.flags.c_contiguous:
        source = upload(array, Device(device), dtype)
    else:
        source = from_host(array, dtype).to(Device(device))
    return handle(kind, source, needs_grad)


def handle(kind: Any, source: Tensor, needs_grad: bool) -> Tensor:
    """A leaf of a class, another handle on the memory of `source`."""
    out: Tensor = Tensor.__new__(kind)
    out._node, out._storage, out._needs_grad = source._node, source._storage, needs_grad
    out._view_chain, out._viewed_writes = source._view_chain, source._viewed_writes
    return out


def reduce_ex(self: Tensor, protocol: Any) -> Any:
    """For pickle: the value as an array, and where and as what it is to be made again."""
    array = np.array(self._host())
    made = (type(self), array, str(self.device), self.requires_grad, self.dtype)
    return _rebuild, made, self.__dict__ or None


def shallow_copy(self: Tensor) -> Tensor:
    """A leaf of the same memory."""
    out = handle(type(self), self._alias(), self.requires_grad)
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
        out = handle(type(self), cut(source, self._view_chain), self._needs_grad)
    memo[id(self)] = out
    if self.grad is not None:
        out.grad = self.grad.__deepcopy__(memo)
    out.__dict__.update(copying.deepcopy(self.__dict__, memo))
    return out


def own_storage(x: Tensor) -> Tensor:
    """A lazy tensor's value in a storage of its own: values never change, so nothing is copied."""
    part = undone(x._storage.node, x._view_chain) is None
    beside = x.dtype is x._storage.node.dtype and views.is_contiguous(x._index_map())
    if (part and not beside) or not x.device.lazy:
        with no_grad():
            return x.clone()
    out = x._alias()
    x._storage.node.shared = True
    out._storage = Storage(x._storage.node)
    out._viewed_writes = 0
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

    array: object = None if self.device.always_lazy else self._storage.node.data
    while isinstance(array, np.ndarray):
        array = array.base
    return isinstance(getattr(array, "obj", array), mmap)
