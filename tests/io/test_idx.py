"""The IDX reader: every type, and every way in which a file can be bad."""

from __future__ import annotations

import gzip
from pathlib import Path

import numpy as np
import pytest

from pyframe.io import read_idx

GOOD = bytes([0, 0, 0x08, 2, 0, 0, 0, 2, 0, 0, 0, 3]) + bytes(range(6))


def write(folder: Path, data: bytes, name: str = "file-idx") -> Path:
    path = folder / name
    path.write_bytes(data)
    return path


@pytest.mark.parametrize(
    ("kind", "dtype"),
    [(0x08, "u1"), (0x09, "i1"), (0x0B, "i2"), (0x0C, "i4"), (0x0D, "f4"), (0x0E, "f8")],
)
@pytest.mark.parametrize("shape", [(3,), (2, 3), (2, 0, 4), ()])
def test_reads_every_type(tmp_path: Path, kind: int, dtype: str, shape: tuple[int, ...]) -> None:
    values = np.asarray(np.random.randint(0, 128, shape), dtype)
    header = bytes([0, 0, kind, len(shape)]) + np.array(shape, ">u4").tobytes()
    data = header + values.astype(f">{dtype}").tobytes()
    for path in (write(tmp_path, data), write(tmp_path, gzip.compress(data), "file.gz")):
        array = read_idx(path)
        assert array.dtype == np.dtype(dtype)
        assert array.dtype.isnative
        assert array.flags.writeable
        np.testing.assert_array_equal(array, values)


def test_reads_gzip_under_any_name(tmp_path: Path) -> None:
    assert read_idx(write(tmp_path, gzip.compress(GOOD, mtime=0))).tolist() == [
        [0, 1, 2],
        [3, 4, 5],
    ]


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"", "not an IDX file: it starts with nothing, expected 00 00"),
        (b"<!DOCTYPE html>", "not an IDX file: it starts with 3c 21 44 4f, expected 00 00"),
        (b"\0\0\x0a\1\0\0\0\0", "unknown IDX type 0a, expected one of 08, 09, 0b, 0c, 0d, 0e"),
        (GOOD[:10], "truncated: 10 bytes, expected 12 for a header of 2 dims"),
        (GOOD[:-2], r"truncated: 16 bytes, expected 18 for uint8 of shape \[2, 3\]"),
        (GOOD + b"12", r"trailing bytes: 20 bytes, expected 18 for uint8 of shape \[2, 3\]"),
        (
            b"\0\0\x0e\4" + b"\xff" * 16,
            f"truncated: 20 bytes, expected {20 + 8 * (2**32 - 1) ** 4} ",
        ),
        (
            gzip.compress(GOOD, mtime=0)[:-3],
            "gzip data is truncated or corrupt after .* get it again",
        ),
        (gzip.compress(GOOD, mtime=0)[:-8] + b"\0" * 8, "gzip data is truncated or corrupt"),
        (gzip.compress(b"text", mtime=0), "not an IDX file: it starts with 74 65 78 74"),
    ],
)
def test_bad_files(tmp_path: Path, data: bytes, message: str) -> None:
    path = write(tmp_path, data)
    with pytest.raises(ValueError, match=f"{path}: .*{message}"):
        read_idx(path)


def test_not_gzip(tmp_path: Path) -> None:
    path = write(tmp_path, GOOD, "file-idx.gz")
    with pytest.raises(ValueError, match="not a gzip file: it starts with 00 00, expected 1f 8b"):
        read_idx(path)


def test_no_file(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        read_idx(tmp_path / "nothing")
