"""Damaged files: the only error is the format's own, whatever is cut off or flipped."""

from __future__ import annotations

import importlib
import os
import shutil
from pathlib import Path

import pytest

import pyframe as pf
from pyframe.io import SafetensorError, safetensors

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


def changed(changes: list[tuple[int, int]]) -> bytes:
    """Other bytes at some positions."""
    data = bytearray(GOOD)
    for at, value in changes:
        data[at] = value
    return bytes(data)


def headed(at: int, removed: int, added: bytes) -> bytes:
    """A header of which some bytes went and others came, with its length."""
    header = GOOD[8:at] + added + GOOD[min(at + removed, HEADER) : HEADER]
    return len(header).to_bytes(8, "little") + header + GOOD[HEADER:]


bytes_of_json = st.sampled_from(b'0123456789{}[]",:-.eFI UB\\')
DAMAGED = {
    "cut off": st.integers(0, len(GOOD) - 1).map(lambda n: GOOD[:n]),
    "bytes changed": st.lists(
        st.tuples(st.integers(0, len(GOOD) - 1), st.integers(0, 255)), min_size=1
    ).map(changed),
    "header rewritten": st.tuples(st.integers(8, HEADER - 1), bytes_of_json).map(
        lambda change: changed([change])
    ),
    "header cut out and put in": st.builds(
        headed, st.integers(8, HEADER), st.integers(0, 40), st.binary(max_size=12)
    ),
    "any bytes": st.binary(max_size=200),
}


@pytest.mark.parametrize("how", DAMAGED)
def test_damaged_weights(how: str) -> None:
    """What is taken, the reference takes, and reads the same."""
    reference = pytest.importorskip("safetensors.numpy", reason="the reference is missing")

    @settings(max_examples=300, deadline=None, derandomize=True, database=None)
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


# Tries of each family of scripts/fuzz/files.py
TRIES = {"pickles": 90, "zips": 60, "tars": 50, "packed": 20, "images": 40, "headers": 60,
         "exports": 60}  # fmt: skip


@pytest.mark.skipif(not os.path.exists("/proc/self/clear_refs"), reason="memory is Linux's to tell")
@pytest.mark.parametrize("name", TRIES)
def test_files_of_others(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing is run, opened or kept that should not be, in bounded time and memory."""
    for module in ("torch", "PIL"):
        pytest.importorskip(module, reason=f"scripts/fuzz needs {module}")
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
