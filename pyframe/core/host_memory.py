"""A pool of memory for large results. Having the system map and clear fresh pages takes about as
long as an addition that fills them."""

from __future__ import annotations

import math
import os

import numpy as np

MIN_POOLED_BYTES = 1 << 20  # bytes of a result from which it pays
MAX_POOLED_BYTES = 128 << 20  # bytes that are kept while nobody holds them

_idle: dict[int, list[np.ndarray]] = {}  # by size; lists, whose append and pop are atomic


class Lease:
    """What all arrays that show some memory hold: it gives the memory back when they are gone."""

    __slots__ = ("memory",)

    def __init__(self, memory: np.ndarray) -> None:
        self.memory = memory

    @property
    def __array_interface__(self) -> dict[str, object]:
        return self.memory.__array_interface__

    def __del__(self) -> None:  # anywhere, so it takes no lock: the bound may be missed by a little
        size = self.memory.nbytes
        if size > MAX_POOLED_BYTES:
            return
        if size + sum(n * len(some) for n, some in list(_idle.items())) > MAX_POOLED_BYTES:
            _idle.clear()  # of other sizes, or of a larger program: what is in use comes back
        _idle.setdefault(size, []).append(self.memory)


def empty(shape: tuple[int, ...], dtype: np.dtype) -> np.ndarray:
    """A new array with anything in it, in memory that was another's."""
    size = math.prod(shape) * dtype.itemsize
    if size < MIN_POOLED_BYTES:
        return np.empty(shape, dtype)
    try:
        memory = _idle[size].pop()
    except LookupError:
        memory = aligned(size)
    # of the Lease and not of its own memory: views hold an owner that is not an array
    return np.asarray(Lease(memory)).view(dtype).reshape(shape)


def copy(array: np.ndarray) -> np.ndarray:
    """A copy in such memory."""
    out = empty(array.shape, array.dtype)
    np.copyto(out, array)
    return out


def aligned(nbytes: int) -> np.ndarray:
    """Uninitialised bytes at a cache line's start."""
    raw = np.empty(nbytes + 64, np.uint8)
    start = -raw.ctypes.data % 64
    return raw[start : start + nbytes]


def available() -> int:
    """How many bytes of the machine's memory nobody uses, as far as the system tells."""
    try:
        with open("/proc/meminfo", "rb") as file:
            return next(int(n.split()[1]) << 10 for n in file if n.startswith(b"MemAvailable"))
    except (OSError, StopIteration):
        pass
    try:
        return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    except (AttributeError, ValueError, OSError):
        return 1 << 34
