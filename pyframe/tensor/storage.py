"""What a tensor shares with its views: the bytes, their address, and where in them it starts."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from pyframe.core.devices import device as Device
from pyframe.core.modes import mode
from pyframe.core.node import ADDRESS_ESCAPED, Storage
from pyframe.core.sizes import DynamicShapeError, is_symbolic
from pyframe.core.trace import flush_cpu

if TYPE_CHECKING:
    from pyframe.tensor.tensor import Tensor


class UntypedStorage:
    """The memory that a tensor shares with its views, in bytes.

    Args:
        storage: what the tensor keeps its memory in.

    >>> len(pf.zeros(4).untyped_storage())
    16
    """

    __slots__ = ("_storage",)

    def __init__(self, storage: Storage) -> None:
        self._storage = storage

    @property
    def device(self) -> Device:
        return self._storage.node.device

    def nbytes(self) -> int:
        """Bytes of the whole memory."""
        array = self._array()
        if array is None:
            node = self._storage.node
            return int(np.prod(node.shape, dtype=np.int64)) * node.dtype.itemsize
        low, high = bounds(array)
        return (high - low) // array.itemsize * self._storage.node.dtype.itemsize

    size = nbytes

    def __len__(self) -> int:
        return self.nbytes()

    def _array(self) -> np.ndarray | None:
        node = self._storage.node
        return None if node.device.is_lazy or node.data is None else node.data

    def data_ptr(self) -> int:
        """The address of the first byte; on the GPU a number that only tells storages apart."""
        if not self.device.is_lazy:
            self._storage.aliased_outside = ADDRESS_ESCAPED
            flush_cpu()
        return self.place()

    def place(self) -> int:
        """`data_ptr` for who writes nothing there."""
        array = self._array()
        if array is None:
            return 0 if self.device.kind == "meta" else id(self._storage)
        return bounds(array)[0]

    def __eq__(self, other: object) -> bool:
        return isinstance(other, UntypedStorage) and other._storage is self._storage

    def __hash__(self) -> int:
        return hash(id(self._storage))

    def __repr__(self) -> str:
        return f"<pyframe.UntypedStorage of {self.nbytes()} bytes on {self.device}>"

    def tolist(self) -> list[int]:
        """The bytes, as ints."""
        array = self._array()
        if array is None:
            raise TypeError(f"UntypedStorage.tolist: on {self.device}; use .cpu() on the tensor")
        return list(np.ascontiguousarray(array).tobytes())


def bounds(array: np.ndarray) -> tuple[int, int]:
    """The addresses of the first byte of an array's elements and after the last."""
    low = high = array.ctypes.data
    if array.size == 0:
        return low, low
    for n, s in zip(array.shape, array.strides, strict=True):
        low, high = (low + (n - 1) * s, high) if s < 0 else (low, high + (n - 1) * s)
    return low, high + array.itemsize


def untyped_storage(self: Tensor) -> UntypedStorage:
    """The memory behind this tensor: equal for a tensor and its views."""
    if mode.capture is not None and is_symbolic((self.shape, self._storage.node.shape)):
        raise DynamicShapeError("it asks for the memory of a tensor")
    return UntypedStorage(self._storage)


def data_ptr(self: Tensor) -> int:
    """The address of the first element; on the GPU a number that only tells places apart."""
    if not self.device.is_lazy:
        self._storage.aliased_outside = ADDRESS_ESCAPED
        flush_cpu()
    return address(self)


def address(self: Tensor) -> int:
    """`data_ptr` for who writes nothing there."""
    node = self._value()
    if node.data is not None and not node.device.is_lazy:
        return int(node.data.ctypes.data) if node.data.size else 0
    if self.is_meta:
        return 0
    return id(self._storage) + storage_offset(self) * self.itemsize


def is_set_to(self: Tensor, tensor: Tensor) -> bool:
    """Whether both are the same view of the same memory."""
    return (
        address(self) == address(tensor)
        and self.shape == tensor.shape
        and self.stride() == tensor.stride()
    )


def storage_offset(self: Tensor) -> int:
    """How many elements of the storage lie before the first one."""
    node = self._node
    if mode.capture is not None:
        mode.capture.placed()
        node = self._value()
    if node.data is not None and not node.device.is_lazy:
        start = untyped_storage(self).place()
        return int(node.data.ctypes.data - start) // node.data.itemsize if node.data.size else 0
    return self._index_map()[-1].offset
