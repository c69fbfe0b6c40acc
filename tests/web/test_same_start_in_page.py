"""The page starts from the same bits as a program here, and loses as much in its first steps."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from same_start import weights_and_losses
from test_same_start import digits

SOURCE = Path(__file__).parent.parent / "same_start.py"


@pytest.mark.parametrize("device", ["cpu", "gpu"])
def test_same_start_in_the_page(python_page: Any, device: str) -> None:
    python_page.put("same_start.py", SOURCE.read_text())
    weights, losses = json.loads(weights_and_losses(digits(), "cpu"))
    page_weights, page_losses = json.loads(
        python_page.run(
            f"import digits, same_start\nsame_start.weights_and_losses(digits, {device!r})"
        )
    )
    assert page_weights == weights
    np.testing.assert_allclose(page_losses, losses, rtol=1e-4)
