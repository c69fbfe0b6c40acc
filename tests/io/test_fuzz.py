"""Damaged files: the only error is the format's own, whatever is cut off or flipped."""

from __future__ import annotations

import importlib
import os
import random
import shutil
from pathlib import Path

import pytest

import pyframe as pf
from pyframe.io import SafetensorError, safetensors


def test_what_is_taken_the_reference_takes() -> None:
    """And reads the same, whatever letter of a header is another."""
    reference = pytest.importorskip("safetensors.numpy", reason="the reference is missing")
    tensors = {"w": pf.arange(6.0).reshape(2, 3), "steps": pf.tensor(7), "mask": pf.ones(3).bool()}
    good, draw, taken = safetensors.save(tensors, {"by": "a test"}), random.Random(0), 0
    header = 8 + int.from_bytes(good[:8], "little")
    for _ in range(2000):
        data = bytearray(good)
        data[draw.randrange(8, header)] = draw.choice(b'0123456789{}[]",:-.eFI UB\\')
        try:
            found = safetensors.load(bytes(data))
        except SafetensorError:
            continue
        taken += 1
        for name, array in reference.load(bytes(data)).items():
            assert found[name].shape == array.shape
            if array.dtype != bool:  # its bools hold the file's bytes, which may be 2
                assert found[name].numpy().tobytes() == array.tobytes()
    assert 50 < taken < 1900


# Tries of each family of files.py, language_files.py and graph_files.py in scripts/fuzz
TRIES = {"pickles": 50, "zips": 30, "tars": 40, "packed": 10, "images": 20, "headers": 30,
         "exports": 30, "gguf": 20, "gguf-headers": 45, "model-folders": 25, "tokenizers": 30,
         "templates": 20, "calls": 15, "graphs": 12}  # fmt: skip


@pytest.mark.skipif(not os.path.exists("/proc/self/clear_refs"), reason="memory is Linux's to tell")
@pytest.mark.parametrize("name", TRIES)
def test_files_of_others(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing is run, opened or kept that should not be, in bounded time and memory."""
    for module in ("torch", "PIL", "gguf", "tokenizers", "jinja2"):
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
