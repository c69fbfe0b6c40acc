"""The IDX format of the MNIST files: http://yann.lecun.com/exdb/mnist/ (at its end)."""

from __future__ import annotations

import gzip
import math
import os
import stat
import sys
import zlib
from pathlib import Path
from typing import BinaryIO, cast

import numpy as np

_TYPES = {0x08: ">u1", 0x09: ">i1", 0x0B: ">i2", 0x0C: ">i4", 0x0D: ">f4", 0x0E: ">f8"}
_MAX_DIMS = 32  # NumPy 1's bound
_GZIP = b"\x1f\x8b"
_INFLATED = 1032  # bytes at most from one of gzip: two bits stand for 258 bytes
_CHUNK = 1 << 20


def read_idx(path: str | os.PathLike[str]) -> np.ndarray:
    """The array in an IDX file, plain or gzip, in the machine's byte order.

        0 0 type ndim | ndim big-endian uint32 sizes | the elements, big-endian

    Raises ValueError for a file that is not IDX, is truncated, or goes on after its elements. No
    more is read, or inflated, than the header announces.
    """
    path = Path(path)
    with open(path, "rb") as file:
        status = os.fstat(file.fileno())
        size = status.st_size if stat.S_ISREG(status.st_mode) else math.inf  # a pipe may have any
        start = file.peek(2)[:2]
        if start == _GZIP:
            unzipped = gzip.GzipFile(fileobj=file)
            try:
                return _read(cast(BinaryIO, unzipped), path, size, _INFLATED)
            except (EOFError, gzip.BadGzipFile, zlib.error) as error:
                raise ValueError(
                    f"{path}: the gzip data is truncated or corrupt after {unzipped.tell()} bytes "
                    f"of what is in it ({error}); delete the file and get it again"
                ) from None
        if path.suffix == ".gz":
            raise ValueError(
                f"{path}: not a gzip file: it starts with {start.hex(' ') or 'nothing'}, expected "
                "1f 8b; if it is IDX already, take .gz off its name"
            )
        return _read(file, path, size, 1)


def _read(file: BinaryIO, path: Path, size: float, inflated: int) -> np.ndarray:
    """The array in a file of `size` bytes on the disk, each of which gives at most `inflated`."""
    start = file.read(4)
    if len(start) < 4 or start[:2] != b"\0\0":
        raise ValueError(
            f"{path}: not an IDX file: it starts with {start.hex(' ') or 'nothing'}, expected "
            "00 00, a type and a number of dims"
        )
    kind, ndim = start[2], start[3]
    if kind not in _TYPES:
        known = ", ".join(f"{k:02x}" for k in _TYPES)
        raise ValueError(f"{path}: unknown IDX type {kind:02x}, expected one of {known}")
    header = 4 + 4 * ndim
    sizes = file.read(header - 4)
    if 4 + len(sizes) < header:
        raise ValueError(
            f"{path}: truncated: {4 + len(sizes)} bytes, expected {header} for a header of {ndim} "
            "dims"
        )
    shape = np.frombuffer(sizes, ">u4").tolist()
    dtype = np.dtype(_TYPES[kind])
    count = math.prod(shape) * dtype.itemsize
    expected = f"expected {header + count} for {dtype.name} of shape {shape}"
    if size * inflated < header + count:
        most = "" if inflated == 1 else f" of gzip, in which at most {size * inflated} can be"
        raise ValueError(f"{path}: truncated: {size} bytes{most}, {expected}")
    if ndim > _MAX_DIMS or math.prod(n or 1 for n in shape) * dtype.itemsize > sys.maxsize:
        raise ValueError(f"{path}: the shape {shape} is too large for this machine")
    data = bytearray()  # it grows with what is there: a header alone takes no memory
    while chunk := file.read(min(count - len(data), _CHUNK)):
        data += chunk
    if len(data) < count:
        raise ValueError(f"{path}: truncated: {header + len(data)} bytes, {expected}")
    if file.read(1):
        seen = size if inflated == 1 and size < math.inf else f"more than {header + count}"
        raise ValueError(f"{path}: trailing bytes: {seen} bytes, {expected}")
    array = np.frombuffer(data, dtype).reshape(shape)
    if not dtype.isnative:
        array = array.byteswap(inplace=True).view(dtype.newbyteorder("="))
    return array
