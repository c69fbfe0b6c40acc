"""Ten steps of digits.py's model; the same code runs here and in the page."""

import importlib.util
import json
from pathlib import Path
from typing import Any

import numpy as np

import pyframe as pf

STEPS = 10


def digits() -> Any:
    """The example, as a module."""
    path = Path(__file__).parent.parent / "examples" / "digits.py"
    spec: Any = importlib.util.spec_from_file_location("digits", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def weights_and_losses(digits: Any, device: str) -> str:
    """JSON of the first weights' bits and of the losses of ten steps on seeded digits."""
    model = digits.make_model()
    start = [p.detach().numpy().view(np.int32).ravel().tolist() for p in model.net.parameters()]
    model.to(device)
    data = np.random.default_rng(7)  # blobs: what is compared is arithmetic, not learning
    losses = []
    for _ in range(STEPS):
        y = data.integers(0, 10, 32)
        x = data.random((32, 1, 28, 28), np.float32) * 0.3
        x[np.arange(32), 0, y * 2 + 3, :] += 1
        images, labels = pf.from_numpy(x).to(device), pf.from_numpy(y.astype(np.int64)).to(device)
        model.optimizer.zero_grad()
        loss = model.loss(model.net(images), labels)
        loss.backward()
        model.optimizer.step()
        losses.append(loss.item())
    return json.dumps([start, losses])
