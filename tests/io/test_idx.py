"""The IDX reader: every type, and every way in which a file can be bad."""

from __future__ import annotations

import gzip
import zlib
from pathlib import Path

import numpy as np
import pytest

from pyframe.io import read_idx

GOOD = bytes([0, 0, 0x08, 2, 0, 0, 0, 2, 0, 0, 0, 3]) + bytes(range(6))
ZIPPED = gzip.compress(GOOD, mtime=0)


def write(folder: Path, data: bytes, name: str = "file-idx") -> Path:
    path = folder / name
    path.write_bytes(data)
    return path


KINDS = {0x08: "u1", 0x09: "i1", 0x0B: "i2", 0x0C: "i4", 0x0D: "f4", 0x0E: "f8"}


@pytest.mark.parametrize("shape", [(3,), (2, 3), (2, 0, 4), ()])
def test_reads_every_type(tmp_path: Path, shape: tuple[int, ...]) -> None:
    for kind, dtype in KINDS.items():
        values = np.asarray(np.random.randint(0, 128, shape), dtype)
        header = bytes([0, 0, kind, len(shape)]) + np.array(shape, ">u4").tobytes()
        data = header + values.astype(f">{dtype}").tobytes()
        zipped = gzip.compress(data)
        for name, content in (("plain", data), ("file.gz", zipped), ("zipped", zipped)):
            array = read_idx(write(tmp_path, content, name))
            assert array.dtype == np.dtype(dtype)
            assert array.dtype.isnative
            assert array.flags.writeable
            np.testing.assert_array_equal(array, values)


def shaped(*shape: int) -> bytes:
    """A header of bytes alone."""
    return bytes([0, 0, 8, len(shape)]) + np.array(shape, ">u4").tobytes()


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"", "not an IDX file: it starts with nothing, expected 00 00"),
        (b"<!DOCTYPE html>", "not an IDX file: it starts with 3c 21 44 4f, expected 00 00"),
        (b"\0\0\x0a\1\0\0\0\0", "unknown IDX type 0a, expected one of 08, 09, 0b, 0c, 0d, 0e"),
        (GOOD[:10], "truncated: 10 bytes, expected 12 for a header of 2 dims"),
        (GOOD[:-2], r"truncated: 16 bytes, expected 18 for uint8 of shape \[2, 3\]"),
        (GOOD + b"12", r"trailing bytes: 20 bytes, expected 18 for uint8 of shape \[2, 3\]"),
        (b"\0\0\x0e\4" + b"\xff" * 16, f"20 bytes, expected {20 + 8 * (2**32 - 1) ** 4} "),
        (shaped(0, *[2**32 - 1] * 3), "the shape .* is too large for this machine"),
        (shaped(*[0] * 65), "the shape .* is too large for this machine"),
        (ZIPPED[:-3], "gzip data is truncated or corrupt after .* get it again"),
        (ZIPPED[:-8] + b"\0" * 8, "gzip data is truncated or corrupt"),
        (gzip.compress(b"text", mtime=0), "not an IDX file: it starts with 74 65 78 74"),
        # less than gzip could hold, so it is seen when all is inflated
        (gzip.compress(GOOD[:-2], mtime=0), "truncated: 16 bytes, expected 18 for uint8"),
    ],
)
def test_bad_files(tmp_path: Path, data: bytes, message: str) -> None:
    path = write(tmp_path, data)
    with pytest.raises(ValueError, match=f"{path}: .*{message}"):
        read_idx(path)


def bomb(start: bytes, megabytes: int) -> bytes:
    """gzip of `start` and many zeros."""
    packer = zlib.compressobj(9, wbits=31)
    zeros = bytes(1 << 20)
    return b"".join([packer.compress(start), *(packer.compress(zeros) for _ in range(megabytes))])


@pytest.mark.parametrize(
    ("start", "message"),
    [
        (b"some text", "not an IDX file: it starts with 73 6f 6d 65"),
        (b"\0\0\x07\1", "unknown IDX type 07"),
        (GOOD, r"trailing bytes: more than 18 bytes, expected 18 for uint8 of shape \[2, 3\]"),
        (shaped(1 << 16, 1 << 16),
         rf"truncated: \d+ bytes of gzip, of which at most {1 << 28} are unpacked, expected"),
        (shaped(*[0] * 65), r"the shape \[0, .* is too large for this machine"),
    ],
)  # fmt: skip
def test_no_more_is_inflated_than_is_announced(tmp_path: Path, start: bytes, message: str) -> None:
    """What memory that takes is looked at in scripts/fuzz."""
    path = write(tmp_path, bomb(start, 16), "file.gz")
    with pytest.raises(ValueError, match=f"{path}: {message}"):
        read_idx(path)


def test_much_can_be_in_a_small_gzip(tmp_path: Path) -> None:
    """The limit is gzip's own: nothing that it can hold is refused."""
    header = b"\0\0\x08\2" + np.array([1 << 10, 1 << 14], ">u4").tobytes()
    path = write(tmp_path, gzip.compress(header + bytes(1 << 24), 9), "file.gz")
    assert (1 << 24) / path.stat().st_size > 1000
    array = read_idx(path)
    assert array.shape == (1 << 10, 1 << 14)
    assert not array.any()


def test_not_gzip_and_no_file(tmp_path: Path) -> None:
    path = write(tmp_path, GOOD, "file-idx.gz")
    with pytest.raises(ValueError, match="not a gzip file: it starts with 00 00, expected 1f 8b"):
        read_idx(path)
    with pytest.raises(FileNotFoundError):
        read_idx(tmp_path / "nothing")
