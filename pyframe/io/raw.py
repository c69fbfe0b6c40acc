"""The elements of arrays as the bytes of files, a piece at a time: what is read or written takes
its own size in memory and some megabytes."""

from __future__ import annotations

import math
import sys
from collections.abc import Callable, Iterable, Iterator
from typing import IO, Any, TypeVar

import numpy as np

from pyframe.core import dtypes as dt
from pyframe.tensor import Tensor, fetch_all, from_host

T = TypeVar("T")
PIECE = 1 << 20  # bytes that are read or written at once
GROUP = 1 << 26  # bytes that are fetched from a GPU with one wait
_NATIVE = "<" if sys.byteorder == "little" else ">"


def read(file: IO[bytes], d: dt.dtype, shape: tuple[int, ...], order: str = "<") -> Tensor:
    """A CPU tensor of the next elements of a file, in the byte order "<" or ">". EOFError where it
    ends before."""
    readinto: Callable[[Any], int] = file.readinto  # type: ignore[attr-defined]
    return _filled(readinto, d, shape, order)


def pages(file: IO[bytes]) -> np.ndarray:
    """The bytes of a file, as they lie on the disk: written to, a page is a copy of this process.
    Who holds the array, or a part of it, keeps the pages."""
    import mmap

    return np.frombuffer(mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_COPY), np.uint8)


def mapped(memory: np.ndarray, d: dt.dtype, shape: tuple[int, ...], order: str = "<") -> Tensor:
    """A CPU tensor on the bytes `memory` themselves; on a copy where they are not what is
    calculated with: bfloat16 (float32 in memory), bools, a foreign byte order, odd addresses."""
    aligned = memory.ctypes.data % d.numpy.itemsize == 0
    if aligned and order == _NATIVE and d.narrow is None and d is not dt.bool_ and memory.size:
        return from_host(memory.view(d.numpy).reshape(shape), d)
    at = 0

    def readinto(piece: memoryview) -> int:
        nonlocal at
        piece[:] = memory.data[at : at + len(piece)]
        at += len(piece)
        return len(piece)

    return _filled(readinto, d, shape, order)


def _filled(
    readinto: Callable[[Any], int], d: dt.dtype, shape: tuple[int, ...], order: str
) -> Tensor:
    count = math.prod(shape)
    if d.narrow is None:
        array = np.empty(count, d.numpy)
        memory = array.view(np.uint8).data
        for at in range(0, len(memory), PIECE):
            _fill(readinto, memory[at : at + PIECE], at, len(memory))
        if order != _NATIVE:
            array.byteswap(inplace=True)
        if d is dt.bool_:  # any byte but 0 is true
            np.not_equal(array.view(np.uint8), 0, out=array)
    else:  # bfloat16 is the upper half of a float32
        array = np.zeros(count, np.float32)
        halves = array.view(np.uint16)[sys.byteorder == "little" :: 2]
        piece = np.empty(min(count, PIECE // 2), f"{order}u2")
        for at in range(0, count, PIECE // 2):
            part = piece[: count - at]
            _fill(readinto, part.view(np.uint8).data, 2 * at, 2 * count)
            halves[at : at + len(part)] = part
    return from_host(array.reshape(shape), d)


def _fill(readinto: Callable[[Any], int], memory: memoryview, before: int, total: int) -> None:
    got = 0
    while got < len(memory):
        n = readinto(memory[got:])
        if not n:
            raise EOFError(f"the data ends after {before + got} bytes, expected {total}")
        got += n


def pieces(array: np.ndarray, d: dt.dtype) -> Iterator[bytes]:
    """The elements of an array that holds the dtype `d`, row by row, little-endian."""
    stored = array.dtype.newbyteorder("<")
    parts = np.nditer(
        array, ["external_loop", "buffered", "zerosize_ok"], [["readonly"]], [stored],
        order="C", casting="equiv", buffersize=PIECE // stored.itemsize,
    )  # fmt: skip
    for part in parts if array.size else ():
        x: Any = part
        if d.narrow is not None:
            x = (x.view("<u4") >> np.uint32(16)).astype("<u2")
        yield x.tobytes()


def groups(sized: Iterable[tuple[T, int]], most: int) -> list[list[T]]:
    """Things, each with its bytes, in groups of at most `most` bytes, in their order; a larger one
    is alone. Of none it is one group, an empty one."""
    out: list[list[T]] = [[]]
    size = 0
    for x, nbytes in sized:
        if out[-1] and size + nbytes > most:
            out.append([])
            size = 0
        out[-1].append(x)
        size += nbytes
    return out


def hosts(tensors: Iterable[Tensor]) -> Iterator[np.ndarray]:
    """The values of tensors, one after the other; a GPU is waited for once a group."""
    group: list[Tensor] = []
    size = 0
    for x in tensors:
        if group and (size + x.nbytes > GROUP or x.device is not group[0].device):
            yield from fetch_all(group)
            group, size = [], 0
        group.append(x.detach())
        size += x.nbytes
    yield from fetch_all(group)
