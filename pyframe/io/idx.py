"""The IDX format of the MNIST files: http://yann.lecun.com/exdb/mnist/ (at its end)."""

from __future__ import annotations

import gzip
import math
import os
import zlib
from pathlib import Path

import numpy as np

_TYPES = {0x08: ">u1", 0x09: ">i1", 0x0B: ">i2", 0x0C: ">i4", 0x0D: ">f4", 0x0E: ">f8"}
_GZIP = b"\x1f\x8b"


def read_idx(path: str | os.PathLike[str]) -> np.ndarray:
    """The array in an IDX file, plain or gzip, in the machine's byte order.

        0 0 type ndim | ndim big-endian uint32 sizes | the elements, big-endian

    Raises ValueError for a file that is not IDX, is truncated, or goes on after its elements.
    """
    path = Path(path)
    data = _unzip(path)
    if len(data) < 4 or data[:2] != b"\0\0":
        raise ValueError(
            f"{path}: not an IDX file: it starts with {data[:4].hex(' ') or 'nothing'}, expected "
            "00 00, a type and a number of dims"
        )
    kind, ndim = data[2], data[3]
    if kind not in _TYPES:
        known = ", ".join(f"{k:02x}" for k in _TYPES)
        raise ValueError(f"{path}: unknown IDX type {kind:02x}, expected one of {known}")
    start = 4 + 4 * ndim
    if len(data) < start:
        raise ValueError(
            f"{path}: truncated: {len(data)} bytes, expected {start} for a header of {ndim} dims"
        )
    shape = tuple(np.frombuffer(data, ">u4", ndim, 4).tolist())
    dtype = np.dtype(_TYPES[kind])
    expected = start + math.prod(shape) * dtype.itemsize
    if len(data) != expected:
        problem = "truncated" if len(data) < expected else "trailing bytes"
        raise ValueError(
            f"{path}: {problem}: {len(data)} bytes, expected {expected} for {dtype.name} of shape "
            f"{list(shape)}"
        )
    array = np.frombuffer(data, dtype, offset=start).reshape(shape)
    return array.astype(dtype.newbyteorder("="))


def _unzip(path: Path) -> bytes:
    data = path.read_bytes()
    if data.startswith(_GZIP):
        try:
            return gzip.decompress(data)
        except (EOFError, OSError, zlib.error) as error:
            raise ValueError(
                f"{path}: the gzip data is truncated or corrupt after {len(data)} bytes ({error}); "
                "delete the file and get it again"
            ) from None
    if path.suffix == ".gz":
        raise ValueError(
            f"{path}: not a gzip file: it starts with {data[:2].hex(' ') or 'nothing'}, expected "
            "1f 8b; if it is IDX already, take .gz off its name"
        )
    return data
