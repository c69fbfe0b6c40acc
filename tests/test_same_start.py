"""The same seed gives the same bits to start from and the same losses, on every device."""

from __future__ import annotations

import importlib.util
import json
from pathlib import Path
from typing import Any

import numpy as np
from same_start import STEPS, weights_and_losses


def digits() -> Any:
    path = Path(__file__).parent.parent / "examples" / "digits.py"
    spec = importlib.util.spec_from_file_location("digits", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_same_start_natively(gpu: str) -> None:
    weights, losses = json.loads(weights_and_losses(digits(), "cpu"))
    gpu_weights, gpu_losses = json.loads(weights_and_losses(digits(), gpu))
    assert weights == gpu_weights
    assert len(losses) == STEPS
    assert losses[-1] < losses[0]
    np.testing.assert_allclose(gpu_losses, losses, rtol=1e-4)
