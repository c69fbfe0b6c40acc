"""Nets and data that Python and exported programs train alike; also read by the page's Python."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

import pyframe as pf
from pyframe import nn, optim
from pyframe.core.devices import device as Device


def mlp(optimizer: Callable[..., Any], seed: int = 0, **options: Any) -> pf.Model:
    """Smooth, with dropout: what the devices compute stays together."""
    pf.manual_seed(seed)
    net = nn.Sequential(nn.Linear(20, 32), nn.Tanh(), nn.Dropout(0.2), nn.BatchNorm1d(32),
                        nn.Linear(32, 5))  # fmt: skip
    return pf.Model(net, nn.CrossEntropyLoss(), optimizer(net.parameters(), **options),
                    metrics=["accuracy"])  # fmt: skip


def convolutional(seed: int = 0) -> pf.Model:
    """As the net of digits.py, without its kinks and ties."""
    pf.manual_seed(seed)
    net = nn.Sequential(
        nn.LayerNorm((1, 12, 12), elementwise_affine=False), nn.Conv2d(1, 4, 3), nn.GELU(),
        nn.AvgPool2d(2), nn.Conv2d(4, 8, 3), nn.SiLU(), nn.Flatten(), nn.Dropout(0.25),
        nn.Linear(72, 10),
    )  # fmt: skip
    optimizer = optim.AdamW(net.parameters(), lr=3e-3, weight_decay=0.02)
    return pf.Model(net, nn.CrossEntropyLoss(), optimizer, metrics=["accuracy"])


def batches(shape: tuple[int, ...], classes: int, n: int = 8) -> list[Any]:
    """(x, y) arrays: random numbers, and random classes."""
    rng = np.random.default_rng(1)
    return [(rng.normal(size=shape).astype(np.float32), rng.integers(0, classes, shape[0]))
            for _ in range(n)]  # fmt: skip


def rate(step: int) -> float:
    """A learning rate that is another at each step."""
    return 0.01 * (0.6 + 0.4 * math.cos(step / 7))


def by_python(
    model: pf.Model, data: list[Any], device: str, steps: int, rates: Any = None
) -> list[float]:
    """The loss of each step, with a learning rate for each."""
    model.to(Device(device))
    out = []
    for i in range(steps):
        model.optimizer.param_groups[0]["lr"] = rates[i] if rates else rate(i)
        x, y = (pf.from_numpy(a).to(device) for a in data[i % len(data)])
        out.append(model.train_on_batch((x, y))["loss"])
    return out


class Block(nn.Module):
    """Attention and a feedforward part, as in a small GPT."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.width = width
        self.before, self.after = nn.LayerNorm(width), nn.LayerNorm(width)
        self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.feed = nn.Sequential(nn.Linear(width, 4 * width), nn.GELU(),
                                  nn.Linear(4 * width, width))  # fmt: skip

    def forward(self, x: pf.Tensor) -> pf.Tensor:
        """(N, T, width) -> the same."""
        n, t, width = x.shape
        q, k, v = (
            a.reshape(n, t, 2, width // 2).transpose(1, 2)
            for a in self.qkv(self.before(x)).split(self.width, 2)
        )
        y = nn.functional.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.out(y.transpose(1, 2).reshape(n, t, width))
        return x + self.feed(self.after(x))


class Gpt(nn.Module):
    """Letters in, scores of the next letters out, as cross_entropy takes them."""

    def __init__(self, letters: int = 11, length: int = 6, width: int = 16) -> None:
        super().__init__()
        self.letters, self.places = nn.Embedding(letters, width), nn.Embedding(length, width)
        self.block = Block(width)
        self.end = nn.Linear(width, letters)

    def forward(self, x: pf.Tensor) -> pf.Tensor:
        """(N, T) -> (N, letters, T)."""
        places = self.places(pf.arange(x.shape[1], device=x.device))
        return self.end(self.block(self.letters(x) + places)).transpose(1, 2)


def gpt() -> pf.Model:
    """A GPT of one block."""
    pf.manual_seed(0)
    net = Gpt()
    optimizer = optim.AdamW(net.parameters(), lr=3e-3, weight_decay=0.01)
    return pf.Model(net, nn.CrossEntropyLoss(), optimizer)


def letters(n: int = 4) -> list[Any]:
    """Batches of 8 texts of 6 letters, each with what follows."""
    rng = np.random.default_rng(2)
    texts = rng.integers(0, 11, (n, 8, 7))
    return [(t[:, :-1], t[:, 1:]) for t in texts]


def classic() -> pf.Model:
    """Convolutions with kinks and largest values, as they are everywhere."""
    pf.manual_seed(0)
    net = nn.Sequential(
        nn.Conv2d(1, 4, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2), nn.Conv2d(4, 8, 3, padding=1),
        nn.ReLU(), nn.MaxPool2d(2), nn.Flatten(), nn.Linear(72, 16), nn.ReLU(), nn.Linear(16, 10),
    )  # fmt: skip
    return pf.Model(net, nn.CrossEntropyLoss(), optim.Adam(net.parameters(), lr=1e-3))


class Gan(pf.Model):
    """Two networks with an optimizer each."""

    def training_step(self, batch: Any) -> Any:
        """(real samples, noise) -> the losses of both."""
        real, noise = batch
        make, judge = self.net["make"], self.net["judge"]
        fake = make(noise)
        loss = nn.functional.softplus
        judged = loss(-judge(real)).mean() + loss(judge(fake.detach())).mean()
        self.minimize(judged, self.optimizer["judge"])
        made = loss(-judge(fake)).mean()
        self.minimize(made, self.optimizer["make"])
        return {"judge_loss": judged, "make_loss": made}

    def validation_step(self, batch: Any) -> Any:
        """How real the samples look."""
        return {"score": self.net["judge"](batch[0]).mean()}


class Both(nn.ModuleDict):
    """What makes samples and what judges them."""

    def forward(self, x: pf.Tensor) -> pf.Tensor:
        """(N, 3) -> (N, 1)."""
        return self["judge"](x)


def gan() -> Gan:
    """One whose samples are 3 numbers, made of 2."""
    pf.manual_seed(0)
    net = Both({"make": nn.Linear(2, 3), "judge": nn.Linear(3, 1)})
    optimizers = {
        "make": optim.Adam(net["make"].parameters(), lr=0.02),
        "judge": optim.SGD(net["judge"].parameters(), lr=0.1, momentum=0.5),
    }
    return Gan(net, optimizer=optimizers)
