"""Models of others, which scripts/get_models gets, give what onnxruntime gives."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from onnx_models import by_runtime
from processes import published

import pyframe as pf

RANDOM = np.random.default_rng(0)


def floats(*shape: int, scale: float = 1.0) -> np.ndarray:
    return (scale * RANDOM.standard_normal(shape)).astype(np.float32)


INPUTS: dict[str, list[Any]] = {
    "silero_vad": [floats(2, 576, scale=0.1), np.zeros((2, 2, 128), np.float32), 16000],
    "magika": [RANDOM.integers(0, 256, (2, 2048)).astype(np.int32)],
    "ocr_detection": [floats(1, 3, 96, 64)],
    "ocr_recognition": [floats(1, 3, 48, 96)],
    "ocr_direction": [floats(2, 3, 48, 192)],
    "basic_pitch": [floats(1, 43844, 1, scale=0.1)],
}


@pytest.fixture(scope="module")
def folder() -> Path:
    return published("onnx")


@pytest.mark.parametrize("name", INPUTS)
def test_real_models(name: str, folder: Path) -> None:
    """Eager and compiled, which is one capture: nothing in them waits for a value."""
    path = folder / f"{name}.onnx"
    net = pf.onnx.load(path)
    feeds = {n: np.asarray(v) for n, v in zip(net.input_names, INPUTS[name], strict=True)}
    want = by_runtime(path, feeds)
    args = [v if isinstance(v, int) else pf.tensor(v) for v in INPUTS[name]]
    step = pf.compile(net)
    with pf.no_grad(), warnings.catch_warnings():
        for call in (net, step, step):
            got = call(*args)
            for one, other in zip(got if len(want) > 1 else [got], want, strict=True):
                np.testing.assert_allclose(one.numpy(), other, rtol=1e-3, atol=1e-3)
    assert "1 capture" in str(step.explain()).splitlines()[0]
