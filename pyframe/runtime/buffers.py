"""A device's memory: a pool of buffers, and the transfers of bytes into and out of them."""

from __future__ import annotations

import gc
import weakref
from collections.abc import Sequence
from typing import Any

import numpy as np

from pyframe.backend.base import Backend, RefusedError, retry_after_reclaim
from pyframe.core import dtypes as dt
from pyframe.core.devices import OutOfMemoryError
from pyframe.core.dtypes import to_storage
from pyframe.core.locks import lock

REMEMBERED = 4  # runs of a Program whose buffers are tried again


class PooledBuffer:
    """A pooled buffer; it goes back to its shelf when its last reference dies. Or a part of one,
    which it holds."""

    __slots__ = ("handle", "nbytes", "offset", "pool", "shelf", "whole")

    def __init__(
        self, handle: Any, nbytes: int, pool: BufferPool, shelf: set[Any], whole: Any = None,
        offset: int = 0,
    ) -> None:  # fmt: skip
        self.handle, self.nbytes, self.pool, self.shelf = handle, nbytes, pool, shelf
        self.whole, self.offset = whole, offset

    def __del__(self) -> None:
        self.pool.free(self)


class BufferPool:
    """Buffers on a backend. They are whole buffers, kept by size: parts of an arena can't be bound
    for reading and for writing at once."""

    def __init__(self, backend: Backend) -> None:
        self.backend = backend
        self.stats = backend.stats
        self.lock = lock()  # one Program at a time, as they share their temporaries
        self._shelves: dict[tuple[int, str], set[Any]] = {}  # the free ones by size and kind
        this = weakref.ref(self)  # so that a device that is gone goes at once, without a collection

        def reclaim(nbytes: int) -> Exception:
            pool = this()
            return MemoryError(nbytes) if pool is None else pool.reclaim(nbytes)

        def reprint(error: RefusedError) -> list[Any]:
            pool = this()
            return [] if pool is None else pool.reprint(error)

        backend.reclaim, backend.reprint = reclaim, reprint

    # --- buffers

    def alloc(self, nbytes: int, kind: str = "") -> PooledBuffer:
        """A buffer of at least `nbytes` bytes with undefined content. Buffers of one kind are used
        again for that kind alone."""
        size = self.bucket(nbytes)
        if nbytes > self.most:
            raise OutOfMemoryError(
                f"a tensor of {nbytes} bytes is too large for this GPU ({self.backend.adapter}): "
                f"its largest buffer is {self.most} bytes; "
                "split the tensor or use device='cpu'"
            )
        shelf = self._shelf(size, kind)
        if shelf:
            with self.lock:
                if shelf:  # equal steps then find equal buffers
                    return self._take(min(shelf), size, shelf)
        return self._created(size, shelf)

    def zeros(self, nbytes: int) -> PooledBuffer | None:
        """A buffer of zeros, as a new one is, if none of its size is kept for reuse."""
        size = self.bucket(nbytes)
        shelf = self._shelf(size)
        return None if shelf or nbytes > self.most else self._created(size, shelf)

    def _created(self, size: int, shelf: set[Any]) -> PooledBuffer:
        handle = retry_after_reclaim(self.backend, self.backend.create, size)
        stats = self.stats
        stats.buffers += 1
        stats.bytes_live += size
        stats.peak_live = max(stats.peak_live, stats.bytes_live)
        stats.peak_reserved = max(stats.peak_reserved, stats.bytes_reserved)
        return PooledBuffer(handle, size, self, shelf)

    @property
    def most(self) -> int:
        """The bytes of the largest buffer that a kernel can bind."""
        return min(self.backend.limits.buffer_bytes, self.backend.limits.binding_bytes)

    def bucket(self, nbytes: int) -> int:
        """The size class of a buffer: four steps to each power of two, at least 256 bytes, at most
        what can be bound."""
        if nbytes <= 256:
            return 256
        step = 1 << max((nbytes - 1).bit_length() - 3, 8)
        return max(min(-(-nbytes // step) * step, self.most), nbytes)

    def grown(self, nbytes: int) -> int:
        """How large to make a buffer for sizes that change: by powers of two."""
        return max(min(1 << (nbytes - 1).bit_length(), self.most), nbytes)

    def _shelf(self, size: int, kind: str = "") -> set[Any]:
        """The free buffers of a size class."""
        return self._shelves.setdefault((size, kind), set())

    def _take(self, handle: Any, size: int, shelf: set[Any]) -> PooledBuffer:
        shelf.remove(handle)
        stats = self.stats
        stats.bytes_pooled -= size
        live = stats.bytes_live = stats.bytes_live + size
        if live > stats.peak_live:
            stats.peak_live = live
        return PooledBuffer(handle, size, self, shelf)

    def alloc_as_before(self, sizes: list[int], used: list[list[Any]]) -> list[PooledBuffer]:
        """Buffers of these sizes: those of one of the last runs, if all are free again, so that its
        bind groups fit once more; else any, and the run is remembered."""
        shelves = [(size, self._shelf(size)) for size in map(self.bucket, sizes)]
        for handles in reversed(used):
            if all(h in shelf for h, (_, shelf) in zip(handles, shelves, strict=True)):
                return [self._take(h, *shelf) for h, shelf in zip(handles, shelves, strict=True)]
        buffers = [self.alloc(n) for n in sizes]
        used.append([b.handle for b in buffers])
        del used[:-REMEMBERED]
        return buffers

    def slice(self, buffer: PooledBuffer, offset: int, nbytes: int) -> PooledBuffer:
        """A part of `buffer`, which it holds; `offset` is a multiple of 256."""
        handle = self.backend.slice(buffer.handle, offset, nbytes)
        return PooledBuffer(handle, nbytes, self, set(), buffer, offset)

    def free(self, buffer: PooledBuffer) -> None:
        """Give `buffer` back now, and not when its last reference dies; queued work may still use
        it."""
        handle = buffer.handle
        if handle is None:
            return
        buffer.handle = None
        if buffer.whole is not None:
            self.backend.destroy(handle)
            buffer.whole = None
            return
        self.stats.bytes_live -= buffer.nbytes
        if handle in self.backend.failed:  # it is of no use to others
            self.backend.destroy(handle)
        else:
            buffer.shelf.add(handle)
            self.stats.bytes_pooled += buffer.nbytes

    def trim(self) -> None:
        """Give the memory of pooled buffers back to the system."""
        for (size, _), shelf in self._shelves.items():
            for handle in shelf:
                self.backend.destroy(handle)
            self.stats.bytes_pooled -= size * len(shelf)
            shelf.clear()
        self.backend.trim()

    def reclaim(self, nbytes: int) -> OutOfMemoryError:
        """Give back all that is only kept for reuse, as there is no room for `nbytes`; the error to
        raise if there is none now either."""
        with self.lock:
            gc.collect()  # what only a cycle of dead objects holds
            self.forget_programs()
            kept = self.stats.bytes_pooled
            self.trim()
        sizes = nbytes, self.stats.bytes_live, kept
        asked, live, given_back = (f"{n / 2**20:.1f} MiB" for n in sizes)
        return OutOfMemoryError(
            f"the GPU ({self.backend.adapter}) has no memory for {asked} more: {live} are in use, "
            f"and {given_back} that were kept for reuse have been given back. Use a smaller batch, "
            "let go of tensors (del), or use device='cpu'"
        )

    def reprint(self, error: RefusedError) -> list[Any]:
        """What takes the place of a kernel that turned out to be refused, as Backend says."""
        return []

    def forget_programs(self) -> None:
        """Let go of buffers that recorded work keeps."""

    # --- bytes

    def write(self, buffer: PooledBuffer, data: Any) -> None:
        """Copy `data` (a C-contiguous array or bytes) to the start of `buffer`."""
        view = memoryview(data).cast("B")
        if len(view) % 4:
            view = memoryview(bytes(view) + b"\0" * (-len(view) % 4))
        if len(view):
            with self.lock:
                self.backend.write(buffer.handle, view)
        self.stats.bytes_uploaded += len(view)

    def upload(self, host: np.ndarray, d: dt.dtype) -> PooledBuffer:
        """A buffer with `host` in its storage form. OverflowError for ints beyond 32 bits."""
        data = _stored(host, d)
        # apart from results, so that a batch does not take a buffer that a step counts on
        buffer = self.alloc(len(data), "upload")
        self.write(buffer, data)
        return buffer

    def put(self, buffer: PooledBuffer, d: dt.dtype, host: np.ndarray) -> None:
        """Write `host` to the start of a buffer, in its storage form."""
        self.write(buffer, _stored(host, d))

    def copy(self, target: PooledBuffer, source: PooledBuffer, nbytes: int) -> None:
        """Copy the first bytes of one buffer to the start of another."""
        with self.lock:
            self.backend.copy(target.handle, source.handle, nbytes)

    def read(self, buffers: Sequence[tuple[PooledBuffer, int]]) -> list[bytes]:
        """The first n bytes of each (buffer, n), after all work queued so far: one stall."""
        self.stats.reads += 1
        with self.lock:  # the threads share what is mapped
            return self.backend.read([(b.handle, n) for b, n in buffers])

    async def read_async(self, buffers: Sequence[tuple[PooledBuffer, int]]) -> list[bytes]:
        """`read` that gives the thread back while it waits."""
        self.stats.reads += 1
        with self.lock:
            finish = self.backend.read_begin([(b.handle, n) for b, n in buffers])
        return await finish()

    def mark(self) -> PooledBuffer | None:
        """Queue a time stamp after all work so far: the buffer that begins with the device's ticks
        (uint64) then. None where the device has no clock."""
        buffer = self.alloc(8)
        with self.lock:
            return buffer if self.backend.mark(buffer.handle) else None


def _stored(host: np.ndarray, d: dt.dtype) -> np.ndarray:
    """The bytes of `host` as a device keeps them. OverflowError for ints beyond 32 bits."""
    if d is dt.int64 and host.size:
        dt.check_32_bits(int(host.min()), int(host.max()))
    return np.ascontiguousarray(to_storage(host, d)).reshape(-1).view(np.uint8)
