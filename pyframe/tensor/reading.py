"""The values of tensors, of several with one wait for the device."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from pyframe.core.modes import mark_uncacheable, mode
from pyframe.core.trace import flush_cpu
from pyframe.tensor.view_chain import cut_array

if TYPE_CHECKING:
    from pyframe.core.node import Node
    from pyframe.tensor.tensor import Tensor


def host(self: Tensor) -> np.ndarray:
    """The value of a tensor: its memory on the CPU, a copy of it elsewhere."""
    if mode.capture is not None:
        mode.capture.read(self)  # ends it: what is read may decide what is done next
    mark_uncacheable()
    node = self._value()
    if not node.device.is_lazy:
        return _data(self, node)
    return node.device.executor.fetch([self])[0]


def to_shared_array(self: Tensor) -> np.ndarray:
    """`host` for who keeps the array: on the CPU others may write to this memory from now on."""
    array = host(self)
    # before what is recorded is computed: another thread must record nothing in between
    self._storage.aliased_outside = self._storage.aliased_outside or True
    flush_cpu()
    return array


async def host_async(self: Tensor) -> np.ndarray:
    """`host` that gives the thread back while it waits."""
    if mode.capture is not None:
        mode.capture.read(self)
    node = self._value()
    if not node.device.is_lazy:
        return _data(self, node)
    return (await node.device.executor.fetch_async([self]))[0]


def _data(x: Tensor, node: Node) -> Any:
    """The memory of a value on the CPU. A capture records views; what is read within one without
    its end is a constant's."""
    data: Any = node.data
    if data is None:
        data = cut_array(x._storage.node.data, x._view_chain)
    return data


def gather_begin(tensors: Sequence[Tensor]) -> Callable[[], Awaitable[list[np.ndarray]]]:
    """Ask for the values that several tensors of one device have now; what it returns waits for
    them, and does not keep later work from starting."""
    if tensors and tensors[0].device.is_lazy:
        begun: Callable[[], Awaitable[list[np.ndarray]]]
        begun = tensors[0].device.executor.fetch_begin(tensors)
        return begun
    values = [t._host().copy() for t in tensors]

    async def finish() -> list[np.ndarray]:
        return values

    return finish


def fetch_all(tensors: Sequence[Tensor]) -> list[np.ndarray]:
    """The values of several tensors, with one wait for those on the GPU; those of the CPU are
    their memory."""
    lazy = _lazy(tensors)
    arrays = iter(lazy[0].device.executor.fetch(lazy) if lazy else ())
    return [next(arrays) if t.device.is_lazy else t._host() for t in tensors]


async def gather_async(tensors: Sequence[Tensor]) -> list[np.ndarray]:
    """The values of several tensors, with one wait for those on the GPU."""
    lazy = _lazy(tensors)
    arrays = iter(await lazy[0].device.executor.fetch_async(lazy) if lazy else ())
    return [next(arrays) if t.device.is_lazy else t._host() for t in tensors]


def _lazy(tensors: Sequence[Tensor]) -> list[Tensor]:
    """Those of the tensors that are to be fetched, which ends a capture."""
    lazy = [t for t in tensors if t.device.is_lazy]
    for t in lazy:
        if mode.capture is not None:
            mode.capture.read(t)
    return lazy
