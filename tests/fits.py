"""Fits of many kinds, as lists of numbers by name; the same code runs here and in the page."""

from __future__ import annotations

import csv
import tempfile
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import numpy as np
from exported import gan

import pyframe as pf
from pyframe import nn, optim

Found = dict[str, list[float]]


def data(n: int = 40, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """(x, y): points (n, 4) of three classes."""
    rng = np.random.default_rng(seed)
    y = rng.integers(0, 3, n)
    return (rng.normal(size=(n, 4)) + y[:, None]).astype(np.float32), y


def classifier(lr: float = 0.02) -> pf.Model:
    """With dropout and three metrics, of which one alone is a mean over batches."""
    pf.manual_seed(0)
    net = nn.Sequential(nn.Linear(4, 8), nn.Tanh(), nn.Dropout(0.1), nn.Linear(8, 3))
    optimizer = optim.Adam(net.parameters(), lr=lr)
    return pf.Model(net, nn.CrossEntropyLoss(), optimizer, ["accuracy", "f1", "auroc"])


def flat(logs: dict[str, Any], start: str = "") -> Found:
    return {f"{start}{k}": list(v) if isinstance(v, list) else [v] for k, v in logs.items()}


async def options(device: str) -> Found:
    """Most options of fit at once. Validation data whose classes are wrong get worse, so that
    patience ends it and puts the weights of the first epoch back."""
    model = classifier()
    model.lr_scheduler = optim.lr_scheduler.OneCycleLR(model.optimizer, 0.05, total_steps=20)
    x, y = data()
    unseen = (x[:10], (y[:10] + 1) % 3)
    told: list[float] = []
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "logs" / "fit.csv"
        history = await model.fit_async(
            x, y, epochs=5, batch_size=8, validation_data=unseen, patience=1, clip_norm=0.5,
            accumulate=2, class_weight=[1.0, 2.0, 0.5], device=device, read_every=2,
            callbacks=[
                pf.train.CSVLogger(path),
                pf.train.LambdaCallback(on_step=lambda model, step, logs: told.append(step)),
            ],
        )  # fmt: skip
        with open(path, newline="") as file:
            rows = list(csv.DictReader(file))
    assert [float(row["val_f1"]) for row in rows] == history["val_f1"]
    assert "<th>val_auroc</th>" in history._repr_html_()
    after = await model.evaluate_async(unseen, sample_weight=[1.0] * 10)
    return {**flat(history.history), **flat(after, "after_"), "steps": sorted({*told})}


async def two_optimizers(device: str) -> Found:
    """A training_step of one's own, by fit and batch by batch."""
    rng = np.random.default_rng(0)
    pairs = [tuple(rng.normal(size=(6, n)).astype(np.float32) for n in (3, 2)) for _ in range(4)]
    model = gan()
    history = await model.fit_async(pairs, 2, device=device, validation_data=pairs[:1])
    found = flat(history.history)
    for i in range(2):
        found |= flat(await model.train_on_batch_async(pairs[0]), f"batch{i}_")
    return found


class Sides(nn.Module):
    """Of inputs by name, outputs by name."""

    def __init__(self, wide: int = 4, kinds: int = 3, narrow: int = 2) -> None:
        super().__init__()
        self.left, self.right = nn.Linear(wide, kinds), nn.Linear(narrow, 1)

    def forward(self, wide: pf.Tensor, narrow: pf.Tensor) -> dict[str, pf.Tensor]:
        return {"kind": self.left(wide), "size": self.right(narrow)}


async def by_name(device: str) -> Found:
    """Dicts of inputs, targets, losses and metrics."""
    x, y = data(20)
    pf.manual_seed(0)
    net = Sides()
    model = pf.Model(
        net, {"kind": nn.CrossEntropyLoss(), "size": nn.MSELoss()},
        optim.SGD(net.parameters(), lr=0.1), {"kind": "accuracy", "size": "r2"},
        loss_weights={"kind": 1.0, "size": 0.5},
    )  # fmt: skip
    inputs = {"wide": x, "narrow": x[:, :2].copy()}
    targets = {"kind": y, "size": x[:, 2:3].copy()}
    history = await model.fit_async((inputs, targets), 2, batch_size=8, device=device)
    found = flat(history.history)
    found |= flat(await model.evaluate_async((inputs, targets), batch_size=8), "after_")
    outputs = await model.predict_async(inputs, batch_size=8)
    return found | {k: v.reshape(-1).tolist() for k, v in outputs.items()}


async def resumed(device: str) -> Found:
    """A fit that is kept in a folder, and gone on with by another model, is as one that never
    stopped: weights and history are the same to the bit."""
    x, y = data(24)
    whole, second = classifier(), classifier(lr=1.0)
    common: dict[str, Any] = {"batch_size": 8, "device": device, "read_every": 3}
    want = await whole.fit_async(x, y, epochs=3, **common)
    with tempfile.TemporaryDirectory() as folder:
        pf.manual_seed(0)
        first = classifier()
        await first.fit_async(x, y, epochs=1, resume=folder, **common)
        assert [p.name for p in Path(folder).iterdir()] == ["step-00000003.pt"]
        pf.manual_seed(77)
        found = await second.fit_async(x, y, epochs=3, resume=folder, **common)
    assert found.history == want.history
    for mine, its in zip(whole.net.parameters(), second.net.parameters(), strict=True):
        assert await mine.tolist_async() == await its.tolist_async()
    return flat(found.history)


FITS: dict[str, Callable[[str], Awaitable[Found]]] = {
    f.__name__: f for f in (options, two_optimizers, by_name, resumed)
}
