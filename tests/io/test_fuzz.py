"""Damaged files: the only error is the format's own, whatever is cut off or flipped."""

from __future__ import annotations

import gzip
import importlib
import os
import shutil
from collections.abc import Callable
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


def changed(changes: list[tuple[int, int]], good: bytes = GOOD) -> bytes:
    """Other bytes at some positions."""
    data = bytearray(good)
    for at, value in changes:
        data[at % len(data)] = value
    return bytes(data)


def headed(at: int, removed: int, added: bytes) -> bytes:
    """A header of which some bytes went and others came, with its length."""
    header = GOOD[8:at] + added + GOOD[min(at + removed, HEADER) : HEADER]
    return len(header).to_bytes(8, "little") + header + GOOD[HEADER:]


bytes_of_json = st.sampled_from(b'0123456789{}[]",:-.eFI UB\\')
CHANGES = st.lists(st.tuples(st.integers(0, len(GOOD) - 1), st.integers(0, 255)), min_size=1)
DAMAGED = {
    "cut off": st.integers(0, len(GOOD) - 1).map(lambda n: GOOD[:n]),
    "bytes changed": CHANGES.map(changed),
    "header rewritten": st.tuples(st.integers(8, HEADER - 1), bytes_of_json).map(
        lambda change: changed([change])
    ),
    "header cut out and put in": st.builds(
        headed, st.integers(8, HEADER), st.integers(0, 40), st.binary(max_size=12)
    ),
    "any bytes": st.binary(max_size=200),
}
fuzz = settings(max_examples=100, deadline=None, derandomize=True, database=None)


@pytest.mark.parametrize("how", DAMAGED)
def test_damaged_weights(how: str) -> None:
    """What is taken, the reference takes, and reads the same."""
    reference = pytest.importorskip("safetensors.numpy", reason="the reference is missing")

    @fuzz
    @given(DAMAGED[how])
    def check(data: bytes) -> None:
        try:
            found = safetensors.load(data)
        except SafetensorError:
            return
        assert how != "cut off"
        for name, array in reference.load(data).items():
            assert found[name].shape == array.shape
            if array.dtype != bool:  # its bools hold the file's bytes, which may be 2
                assert found[name].numpy().tobytes() == array.tobytes()

    check()


@pytest.mark.parametrize("pack", [bytes, gzip.compress])
def test_damaged_idx(pack: Callable[[bytes], bytes], tmp_path: Path) -> None:
    """What is read is what the header announces, to the last byte."""
    good = bytes([0, 0, 8, 2, 0, 0, 0, 2, 0, 0, 0, 3]) + bytes(range(6))
    path = tmp_path / "file"

    @fuzz
    @given(CHANGES)
    def check(changes: list[tuple[int, int]]) -> None:
        data = changed(changes, good)
        path.write_bytes(pack(data))
        try:
            found = read_idx(path)
        except ValueError as error:
            assert str(path) in str(error)  # noqa: PT017  (not each one fails)
            return
        header = 4 + 4 * data[3]
        assert list(found.shape) == np.frombuffer(data[4:header], ">u4").tolist()
        assert found.astype(found.dtype.newbyteorder(">")).tobytes() == data[header:]

    check()


# Tries of each family of files.py, language_files.py and graph_files.py in scripts/fuzz
TRIES = {"pickles": 50, "zips": 30, "tars": 25, "packed": 10, "images": 20, "headers": 30,
         "exports": 30, "gguf": 20, "gguf-headers": 30, "model-folders": 25, "tokenizers": 30,
         "templates": 20, "calls": 15, "graphs": 12}  # fmt: skip


@pytest.mark.skipif(not os.path.exists("/proc/self/clear_refs"), reason="memory is Linux's to tell")
@pytest.mark.parametrize("name", TRIES)
def test_files_of_others(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing is run, opened or kept that should not be, in bounded time and memory."""
    for module in ("torch", "PIL"):
        pytest.importorskip(module, reason=f"scripts/fuzz needs {module}")
    for module in ("gguf", "tokenizers", "jinja2"):
        pytest.importorskip(module, reason=f"files of language models need {module}")
    if name == "exports" and shutil.which("node") is None:
        pytest.skip("Node, which plays programs here, is missing")
    monkeypatch.syspath_prepend(Path(__file__).parents[2] / "scripts")
    families = importlib.import_module("fuzz.families")
    failed, good = [], 0
    for seed in range(TRIES[name]):
        try:
            good += families.case(name, seed).check(None)
        except Exception as error:
            failed.append(f"python scripts/fuzz --only {name} --seed {seed} --cases 1: {error}")
    assert not failed, "\n".join(failed)
    assert good, "some of them are whole"
