"""Whole networks as a large GPU would run them, planned without one: nothing is computed."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import pyframe as pf
import pyframe.nn.functional as F
from pyframe import Tensor, nn, optim
from pyframe.core.limits import Limits
from pyframe.runtime.offline import offline_device
from pyframe.tools.cost import Totals, totals
from pyframe.vision import models

LARGE_GPU = Limits(
    storage_buffers=32, binding_bytes=(1 << 31) - 4, buffer_bytes=1 << 40, workgroup_size=1024,
    workgroup_bytes=48 << 10, float16=True,
)  # fmt: skip


class GPT2(nn.Module):
    """GPT-2: token indices (B, T) to logits (B * T, vocabulary)."""

    def __init__(self, vocabulary: int, tokens: int, width: int, layers: int, heads: int) -> None:
        super().__init__()
        self.token, self.position = nn.Embedding(vocabulary, width), nn.Embedding(tokens, width)
        self.blocks = nn.ModuleList([BenchBlock(width, heads) for _ in range(layers)])
        self.norm = nn.LayerNorm(width)

    def forward(self, x: Tensor) -> Tensor:
        """See the class."""
        x = self.token(x) + self.position(pf.arange(x.shape[1], device=x.device))
        for block in self.blocks:
            x = block(x)
        return F.linear(self.norm(x), self.token.weight).flatten(0, 1)


class BenchBlock(nn.Module):
    """A layer of GPT-2: (B, T, width) to the same."""

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.qkv, self.mix = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

    def forward(self, x: Tensor) -> Tensor:
        """See the class."""
        b, t, c = x.shape
        parts = self.qkv(self.norm1(x)).split(c, 2)
        q, k, v = (p.reshape(b, t, self.heads, -1).transpose(1, 2) for p in parts)
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.mix(y.transpose(1, 2).reshape(b, t, c))
        return x + self.down(F.gelu(self.up(self.norm2(x))))


class Tagger(nn.Module):
    """An LSTM over indices (B, T), and a class for each of them: logits (B * T, classes)."""

    def __init__(self, vocabulary: int, width: int, layers: int, classes: int) -> None:
        super().__init__()
        self.embed = nn.Embedding(vocabulary, width)
        self.lstm = nn.LSTM(width, width, layers, batch_first=True)
        self.head = nn.Linear(width, classes)

    def forward(self, x: Tensor) -> Tensor:
        """See the class."""
        return self.head(self.lstm(self.embed(x))[0]).flatten(0, 1)


def _drawing(width: int) -> nn.Sequential:
    """Points of a plane as images (1, 28, 28): the decoder of examples/vae.py."""
    return nn.Sequential(
        nn.Linear(2, 128), nn.ReLU(), nn.Linear(128, width * 49), nn.ReLU(),
        nn.Unflatten(1, (width, 7, 7)), nn.ConvTranspose2d(width, width, 4, 2, 1), nn.ReLU(),
        nn.ConvTranspose2d(width, 1, 4, 2, 1), nn.Sigmoid(),
    )  # fmt: skip


def _autoencoder() -> nn.Sequential:
    return nn.Sequential(
        nn.Conv2d(1, 16, 4, 2, 1), nn.ReLU(), nn.Conv2d(16, 16, 4, 2, 1), nn.ReLU(),
        nn.Flatten(), nn.Linear(784, 128), nn.ReLU(), nn.Linear(128, 2), *_drawing(16),
    )  # fmt: skip


class BenchModel(NamedTuple):
    """A network and the shape of its input, of indices below `classes` if the network is of text;
    a step trains it, or without an `optimizer` it is called."""

    name: str
    net: Callable[[], nn.Module]
    shape: tuple[int, ...]
    optimizer: Any = optim.AdamW
    text: bool = False
    loss: Callable[[Tensor, Tensor], Tensor] = F.cross_entropy
    target: tuple[int, ...] = ()  # the shape of what the loss compares with; (): a class a row

    def totals(self, limits: Limits = LARGE_GPU) -> Totals:
        """What a step costs on a GPU of these limits."""
        with offline_device(limits) as device:
            net = self.net().to(device)
            dtype = pf.int64 if self.text else pf.float32
            x = pf.zeros(self.shape, dtype=dtype, device=device)
            step: Any = pf.compile(self.training(net) if self.optimizer else net.eval())
            if self.optimizer is None:
                with pf.no_grad():
                    step(x)
            else:
                rows = x.numel() if self.text else self.shape[0]
                y = pf.zeros(self.target or rows, device=device)
                step(x, y if self.target else y.long())
            return totals(step.programs, limits)

    def training(self, net: nn.Module) -> Callable[[Tensor, Tensor], Tensor]:
        """A training step of the network."""
        opt = self.optimizer(net.parameters(), lr=1e-3)

        def step(x: Tensor, y: Tensor) -> Tensor:
            opt.zero_grad()
            loss = self.loss(net(x), y)
            loss.backward()
            opt.step()
            return loss.detach()

        return step


def gpt2(layers: int) -> BenchModel:
    """GPT-2 small, or as many layers of it, trained on 4 x 1024 tokens."""
    return BenchModel(
        f"GPT-2 small, {layers} layers, 4 x 1024", lambda: GPT2(50257, 1024, 768, layers, 12),
        (4, 1024), text=True,
    )  # fmt: skip


IMAGES = (32, 3, 224, 224)
PLANS = [
    BenchModel("ResNet-18, 32 images, trained", models.resnet18, IMAGES, optim.SGD),
    BenchModel("ResNet-18, 32 images, called", models.resnet18, IMAGES, None),
    BenchModel("MobileNet v2, 32 images, trained", models.mobilenet_v2, IMAGES, optim.SGD),
    BenchModel("MobileNet v2, 32 images, called", models.mobilenet_v2, IMAGES, None),
    BenchModel(
        "autoencoder, 64 digits, trained", _autoencoder, (64, 1, 28, 28), optim.Adam,
        loss=F.binary_cross_entropy, target=(64, 1, 28, 28),
    ),
    BenchModel("autoencoder, 400 digits, called", _autoencoder, (400, 1, 28, 28), None),
    BenchModel(
        "UNet, 8 images of 128 x 128, trained", lambda: models.UNet(1, 2), (8, 1, 128, 128),
        optim.Adam, loss=F.mse_loss, target=(8, 2, 128, 128),
    ),
    BenchModel(
        "convolution 512 -> 512 of 7 x 7, batch 64, trained",
        lambda: nn.Conv2d(512, 512, 3, padding=1), (64, 512, 7, 7), optim.SGD, loss=F.mse_loss,
        target=(64, 512, 7, 7),
    ),
    BenchModel(
        "LSTM, 2 layers of 512, 32 x 64", lambda: Tagger(10000, 512, 2, 10000), (32, 64),
        text=True,
    ),
    gpt2(2),
    gpt2(12),
]  # fmt: skip
