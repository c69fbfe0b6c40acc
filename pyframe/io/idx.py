"""The IDX format of the MNIST files: http://yann.lecun.com/exdb/mnist/ (at its end)."""

from __future__ import annotations

import gzip
import math
import os
import sys
import zlib
from io import BufferedReader
from pathlib import Path
from typing import BinaryIO, cast

import numpy as np

from pyframe.io.files import most_of, opened

_TYPES = {0x08: ">u1", 0x09: ">i1", 0x0B: ">i2", 0x0C: ">i4", 0x0D: ">f4", 0x0E: ">f8"}
_MAX_DIMS = 32  # NumPy 1's bound
_GZIP = b"\x1f\x8b"
_CHUNK = 1 << 20


def read_idx(path: str | os.PathLike[str]) -> np.ndarray:
    """The array in an IDX file, plain or gzip, in the machine's byte order.

        0 0 type ndim | ndim big-endian uint32 sizes | the elements, big-endian

    Raises ValueError for a file that is not IDX, is truncated, or goes on after its elements. No
    more is read, or inflated, than the header announces.

    Args:
        path: The file.
    """
    path = Path(path)
    with opened(path) as file:
        size = os.fstat(file.fileno()).st_size
        start = cast(BufferedReader, file).peek(2)[:2]
        if start == _GZIP:
            unzipped = gzip.GzipFile(fileobj=file)
            try:
                return _read(cast(BinaryIO, unzipped), path, size, most_of(size))
            except (EOFError, gzip.BadGzipFile, zlib.error) as error:
                raise ValueError(
                    f"{path}: the gzip data is truncated or corrupt after {unzipped.tell()} bytes "
                    f"of what is in it ({error}); delete the file and get it again"
                ) from None
        if path.suffix == ".gz":
            from pyframe.io.kinds import mistaken

            wrong = mistaken(file.read(100))
            hint = f"it is {wrong}" if wrong else "if it is IDX already, take .gz off its name"
            raise ValueError(
                f"{path}: not a gzip file: it starts with {start.hex(' ') or 'nothing'}, expected "
                f"1f 8b; {hint}"
            )
        return _read(file, path, size, size)


def _read(file: BinaryIO, path: Path, size: int, most: int) -> np.ndarray:
    """The array in a file of `size` bytes on the disk, which give at most `most`."""
    start = file.read(4)
    if len(start) < 4 or start[:2] != b"\0\0":
        from pyframe.io.kinds import mistaken

        wrong = mistaken(start + file.read(100))
        raise ValueError(
            f"{path}: not an IDX file: it starts with {start.hex(' ') or 'nothing'}, expected "
            f"00 00, a type and a number of dims{wrong and ': it is '}{wrong}"
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
    if most < header + count:
        packed = "" if most == size else f" of gzip, of which at most {most} are unpacked"
        raise ValueError(f"{path}: truncated: {size} bytes{packed}, {expected}")
    if ndim > _MAX_DIMS or math.prod(n or 1 for n in shape) * dtype.itemsize > sys.maxsize:
        raise ValueError(f"{path}: the shape {shape} is too large for this machine")
    data = bytearray()  # it grows with what is there: a header alone takes no memory
    while chunk := file.read(min(count - len(data), _CHUNK)):
        data += chunk
    if len(data) < count:
        raise ValueError(f"{path}: truncated: {header + len(data)} bytes, {expected}")
    if file.read(1):
        seen = size if most == size else f"more than {header + count}"
        raise ValueError(f"{path}: trailing bytes: {seen} bytes, {expected}")
    array = np.frombuffer(data, dtype).reshape(shape)
    if not dtype.isnative:
        array = array.byteswap(inplace=True).view(dtype.newbyteorder("="))
    return array
