"""Damaged files: the only error is the format's own, whatever is cut off or flipped."""

from __future__ import annotations

import contextlib
import gzip
import io
import pickle
import zipfile
from collections import OrderedDict
from pathlib import Path

import numpy as np
import pytest

import pyframe as pf
from pyframe.io import SafetensorError, read_idx, safetensors

hypothesis = pytest.importorskip("hypothesis", reason="hypothesis makes the damaged files")
from hypothesis import given, settings, strategies as st  # noqa: E402

GOOD = safetensors.save(
    {
        "weight": pf.arange(6).reshape(2, 3).float(),
        "bias": pf.ones(3),
        "steps": pf.tensor(7),
        "mask": pf.tensor([True, False, True]),
    },
    {"by": "a test"},
)
HEADER = 8 + int.from_bytes(GOOD[:8], "little")
IDX = bytes([0, 0, 0x08, 2, 0, 0, 0, 2, 0, 0, 0, 3]) + bytes(range(6))
fuzz = settings(max_examples=300, deadline=None, derandomize=True, database=None)


def agrees_with_the_reference(data: bytes) -> None:
    """What we take, the reference takes, and reads the same."""
    reference = pytest.importorskip("safetensors.numpy", reason="the reference is missing")
    try:
        found = safetensors.load(data)
    except SafetensorError:
        return
    for name, array in reference.load(data).items():
        assert found[name].shape == array.shape
        if array.dtype != bool:  # its bools hold the file's bytes, which may be 2
            assert found[name].numpy().tobytes() == array.tobytes()


@fuzz
@given(st.integers(0, len(GOOD) - 1))
def test_cut_off(size: int) -> None:
    with pytest.raises(SafetensorError):
        safetensors.load(GOOD[:size])


@fuzz
@given(st.lists(st.tuples(st.integers(0, len(GOOD) - 1), st.integers(0, 255)), min_size=1))
def test_bytes_changed(changes: list[tuple[int, int]]) -> None:
    data = bytearray(GOOD)
    for place, value in changes:
        data[place] = value
    agrees_with_the_reference(bytes(data))


@fuzz
@given(st.integers(8, HEADER - 1), st.sampled_from(b'0123456789{}[]",:-.eFI UB\\'))
def test_header_rewritten(place: int, value: int) -> None:
    data = bytearray(GOOD)
    data[place] = value
    agrees_with_the_reference(bytes(data))


@fuzz
@given(st.integers(8, HEADER), st.integers(0, 40), st.binary(max_size=12))
def test_header_cut_out_and_put_in(place: int, removed: int, added: bytes) -> None:
    header = GOOD[8:place] + added + GOOD[min(place + removed, HEADER) : HEADER]
    agrees_with_the_reference(len(header).to_bytes(8, "little") + header + GOOD[HEADER:])


@fuzz
@given(st.binary(max_size=200))
def test_any_bytes(data: bytes) -> None:
    agrees_with_the_reference(data)


def torchs() -> tuple[bytes, bytes]:
    """A file as PyTorch's, and the pickle in it."""
    file = io.BytesIO()
    x = pf.arange(6.0).reshape(2, 3)
    pf.save({"x": x, "t": x.t(), "p": pf.nn.Parameter(pf.ones(2)), "n": [1, 2.5, None, (True,)],
             "o": OrderedDict(a={1}), "b": b"abc", "d": pf.float16}, file)  # fmt: skip
    with zipfile.ZipFile(file) as z:
        return file.getvalue(), z.read("archive/data.pkl")


FILE, PICKLE = torchs()


@fuzz
@given(
    st.booleans(),
    st.lists(
        st.tuples(
            st.integers(0, len(FILE)), st.integers(0, 9), st.binary(max_size=3)
            | st.sampled_from([bytes([b]) for b in b"().]}tRQbsuae012hjqr\x81\x85\x86\x90\x93"])
        ), min_size=1, max_size=4,
    ),
)  # fmt: skip
def test_pickles_and_zips(pickled: bool, changes: list[tuple[int, int, bytes]]) -> None:
    data = bytearray(PICKLE if pickled else FILE)
    for place, removed, added in changes:
        place %= len(data) + 1
        data[place : place + removed] = added
    file = io.BytesIO(bytes(data))
    if pickled:
        file = io.BytesIO()
        with zipfile.ZipFile(io.BytesIO(FILE)) as good, zipfile.ZipFile(file, "w") as z:
            for name in good.namelist():
                z.writestr(name, data if name.endswith(".pkl") else good.read(name))
        file.seek(0)
    with contextlib.suppress(RuntimeError, pickle.UnpicklingError):
        pf.load(file)


@fuzz
@given(
    st.booleans(),
    st.lists(st.tuples(st.integers(0, 60), st.integers(0, 255)), max_size=4),
    st.integers(0, 60),
)
def test_idx(
    tmp_path_factory: pytest.TempPathFactory, zipped: bool, changes: list, size: int
) -> None:
    data = bytearray(gzip.compress(IDX, mtime=0) if zipped else IDX)[:size]
    for place, value in changes:
        if place < len(data):
            data[place] = value
    path: Path = tmp_path_factory.getbasetemp() / "fuzzed-idx"
    path.write_bytes(data)
    with contextlib.suppress(ValueError):
        assert isinstance(read_idx(path), np.ndarray)
