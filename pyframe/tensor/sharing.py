"""Memory that processes share: a file without a name, which each of them maps.

It is handed on as an open file, so that the system frees it with its last user, however that ends.
On Linux the file is memory; on macOS it lies in the folder for temporary files.
"""

from __future__ import annotations

import errno
import gc
import mmap
import os
import sys
import tempfile
import weakref
from collections.abc import Sequence
from typing import Any

import numpy as np

from pyframe.core.modes import mode
from pyframe.core.trace import flush_cpu
from pyframe.tensor.storage import bounds
from pyframe.tensor.tensor import Tensor
from pyframe.tensor.writing import ALONE

ALIGN = 64  # bytes


class Segment(mmap.mmap):
    """A file that is mapped, and its descriptor."""

    def __new__(cls, file: int) -> Segment:
        info = os.fstat(file)
        key = info.st_dev, info.st_ino
        if (found := _mapped.get(key)) is not None:
            os.close(file)
            return found
        more: Any = {"trackfd": False} if sys.version_info >= (3, 13) else {}
        try:
            self = super().__new__(cls, file, info.st_size, **more)
        except BaseException:
            os.close(file)
            raise
        self.file, self.address = file, np.frombuffer(self, np.uint8).ctypes.data
        return _mapped.setdefault(key, self)

    file: int
    address: int

    def __del__(self) -> None:
        os.close(self.file)


_mapped: weakref.WeakValueDictionary[tuple[int, int], Segment] = weakref.WeakValueDictionary()


def _segment(nbytes: int) -> Segment:
    if sys.platform in ("win32", "emscripten"):
        raise RuntimeError(
            f"share_memory_: tensors can't share memory between processes on {sys.platform}; send "
            "them through a queue or a pipe, which copies them"
        )
    try:
        if hasattr(os, "memfd_create"):
            file = os.memfd_create("pyframe-shared")
        else:
            with tempfile.TemporaryFile() as named:
                file = os.dup(named.fileno())
        os.truncate(file, max(nbytes, 1))
        return Segment(file)
    except OSError as error:
        if error.errno == errno.EMFILE:
            error.add_note(
                "share_memory_: each tensor that is shared by itself is an open file; share a "
                "module at once, or call multiprocessing.set_sharing_strategy('file_system'), "
                "which allows as many as the system does"
            )
        raise


def segment_of(array: Any) -> Segment | None:
    """The segment that an array lies in."""
    while isinstance(array, np.ndarray):
        array = array.base
    return array if isinstance(array, Segment) else None


def share(tensors: Sequence[Tensor]) -> None:
    """Move the memory of tensors of the CPU, with all that shows it, to one segment, unless it lies
    in one. RuntimeError for tensors on a GPU."""
    if mode.capture is not None:
        mode.capture.graph_break("calls share_memory_")
    for x in tensors:
        if x.is_cuda:
            raise RuntimeError(
                f"share_memory_: the memory of {x.device} belongs to one process; share x.cpu(), "
                "or send the tensor through a queue, which copies it"
            )
    flush_cpu()
    moves = [x for x in tensors if segment_of(x._storage.node.data) is None]
    if not moves:
        return
    # views and other handles hold arrays of their own: who knows that there are some looks for them
    seen = [x._storage for x in moves if sys.getrefcount(x._storage) > ALONE]
    handles = [*moves, *(x for x in gc.get_referrers(*seen) if isinstance(x, Tensor))]
    places: dict[Any, tuple[int, int]] = {}  # by storage, where it lay and where it is to lie
    size = 0
    for x in moves:
        if x._storage not in places:
            low, high = bounds(x._storage.node.data)
            places[x._storage] = low, size
            size += -(-(high - low) // ALIGN) * ALIGN
    segment = _segment(size)
    nodes = {node: x._storage for x in handles for node in (x._node, x._storage.node)}
    arrays = [node.data for node in nodes]  # all of them, before one has moved
    for (node, storage), old in zip(nodes.items(), arrays, strict=True):
        low, at = places[storage]
        at += old.ctypes.data - low if old.size else 0
        node.data = np.ndarray(old.shape, old.dtype, segment, at, old.strides)
        if node is storage.node:
            np.copyto(node.data, old)
            storage.aliased_outside = True
    flush_cpu()  # what another thread recorded meanwhile
