"""A convolutional network learns in the page as it does here."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import pyframe as pf

CNN = """
import pyframe as pf
from pyframe import nn, optim
from pyframe.nn import functional as F

def losses(device, steps=3):
    pf.manual_seed(0)
    net = nn.Sequential(
        nn.Conv2d(1, 4, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2),
        nn.Conv2d(4, 8, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2),
        nn.Flatten(), nn.Linear(8 * 7 * 7, 16), nn.ReLU(), nn.Linear(16, 10),
    ).to(device)
    opt = optim.Adam(net.parameters(), lr=1e-2)

    @pf.compile
    def step(x, y):
        opt.zero_grad()
        loss = F.cross_entropy(net(x), y)
        loss.backward()
        opt.step()
        return loss.detach()

    x, y = pf.rand(4, 1, 28, 28).to(device), pf.arange(4).to(device)
    return [step(x, y).item() for _ in range(steps)]
"""


@pytest.mark.parametrize("device", ["cpu", "gpu"])
def test_a_convolutional_network_learns_in_the_page(python_page: Any, device: str) -> None:
    """Its backward pass has kernels with 65 conditions in a loop, on which Chromium's software
    adapter was lost while each of them was a branch."""
    here: dict[str, Any] = {"pf": pf}
    exec(CNN, here)
    found = python_page.run(CNN + f"losses({device!r})")
    assert found[-1] < found[0]
    np.testing.assert_allclose(found, here["losses"]("cpu"), rtol=1e-4)
