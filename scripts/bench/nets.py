"""Nine nets of the kinds that people train: python scripts/bench/run.py --nets."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any

import numpy as np

import pyframe as pf
from pyframe.tools.bench.workloads import BATCHES, Case, Workload, Wrap, gpt, labelled, trainer
from tests.compared import import_torchvision


def tabular(fw: Any) -> Any:
    """Two hidden layers with batch norm, for rows of 32 numbers."""
    nn = fw.nn
    layers: list[Any] = []
    for a, b in ((32, 256), (256, 256)):
        layers += [nn.Linear(a, b), nn.BatchNorm1d(b), nn.ReLU()]
    return nn.Sequential(*layers, nn.Linear(256, 10))


def unet(fw: Any) -> Any:
    """Three levels of 16 to 128 channels; a class for each pixel."""
    nn: Any = fw.nn

    def twice(a: int, b: int) -> Any:
        layers: list[Any] = []
        for c in (a, b):
            layers += [nn.Conv2d(c, b, 3, padding=1, bias=False), nn.BatchNorm2d(b), nn.ReLU(True)]
        return nn.Sequential(*layers)

    class UNet(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            pairs = list(itertools.pairwise((16, 32, 64, 128)))
            self.first, self.pool = twice(3, 16), nn.MaxPool2d(2)
            self.down = nn.ModuleList(twice(a, b) for a, b in pairs)
            self.up = nn.ModuleList(nn.ConvTranspose2d(b, a, 2, 2) for a, b in pairs[::-1])
            self.merge = nn.ModuleList(twice(2 * a, a) for a, _ in pairs[::-1])
            self.last = nn.Conv2d(16, 4, 1)

        def forward(self, x: Any) -> Any:
            levels = [self.first(x)]
            for down in self.down:
                levels.append(down(self.pool(levels[-1])))
            x = levels.pop()
            for up, merge in zip(self.up, self.merge, strict=True):
                x = merge(fw.cat((levels.pop(), up(x)), 1))
            return self.last(x)

    return UNet()


def lstm(fw: Any) -> Any:
    """Two layers of 128; the next of 65 letters."""
    nn: Any = fw.nn

    class Letters(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.embed, self.out = nn.Embedding(65, 64), nn.Linear(128, 65)
            self.rnn = nn.LSTM(64, 128, 2, batch_first=True)

        def forward(self, x: Any) -> Any:
            return self.out(self.rnn(self.embed(x))[0]).flatten(0, 1)

    return Letters()


def encoder(fw: Any) -> Any:
    """A class for a text, by two layers of a transformer."""
    nn: Any = fw.nn

    class Classifier(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            layer = nn.TransformerEncoderLayer(128, 4, 512, dropout=0.0, batch_first=True)
            self.layers = nn.TransformerEncoder(layer, 2, enable_nested_tensor=False)
            self.embed, self.out = nn.Embedding(1000, 128), nn.Linear(128, 10)

        def forward(self, x: Any) -> Any:
            return self.out(self.layers(self.embed(x)).mean(1))

    return Classifier()


def published(name: str, *args: Any, **options: Any) -> Callable[[Any], Any]:
    """The maker of a net of torchvision's, which pyframe.vision has under the same names."""

    def make(fw: Any) -> Any:
        models: Any = pf.vision.models if fw is pf else import_torchvision().models
        return getattr(models, name)(*args, num_classes=10, **options)

    return make


def images(net: Callable[[Any], Any]) -> Callable[..., Workload]:
    """The maker of training steps on images; `each`: their pixels have classes."""

    def make(
        fw: Any, device: str, wrap: Wrap, shape: tuple[int, ...], each: bool = False
    ) -> Workload:
        batches = labelled(6, shape, 10)
        if each:
            rng = np.random.default_rng(7)
            batches = [(x, rng.integers(0, 4, (len(x), *shape[2:]))) for x, _ in batches]
        return trainer(fw, device, wrap, net, "Adam", batches)

    return make


def texts(net: Callable[[Any], Any], words: int, each: bool) -> Callable[..., Workload]:
    """The maker of training steps on texts; `each`: their words have classes."""

    def make(fw: Any, device: str, wrap: Wrap, shape: tuple[int, int]) -> Workload:
        rng = np.random.default_rng(8)
        classes, count = (words, shape[0] * shape[1]) if each else (10, shape[0])
        batches = [
            (rng.integers(0, words, shape), rng.integers(0, classes, count)) for _ in range(BATCHES)
        ]
        return trainer(fw, device, wrap, net, "Adam", batches)

    return make


def _net(name: str, make: Callable[..., Workload], quick: Any, **sizes: Any) -> Case:
    return Case(name.upper(), name, make, sizes, {**sizes, "shape": quick}, 0.9)


_RESNET = images(published("resnet18"))
_VIT = images(published("VisionTransformer", 32, 4, 4, 4, 128, 512))
CASES = [
    _net("tabular", images(tabular), (4, 32), shape=(256, 32)),
    _net("resnet32", _RESNET, (4, 3, 64, 64), shape=(32, 3, 32, 32)),
    _net("resnet112", _RESNET, (4, 3, 64, 64), shape=(8, 3, 112, 112)),
    _net("mobilenet", images(published("mobilenet_v2", dropout=0.0)), (4, 3, 64, 64),
         shape=(8, 3, 96, 96)),
    _net("vit", _VIT, (2, 3, 32, 32), shape=(16, 3, 32, 32)),
    _net("unet", images(unet), (1, 3, 16, 16), shape=(4, 3, 64, 64), each=True),
    _net("lstm", texts(lstm, 65, True), (2, 4), shape=(32, 32)),
    _net("encoder", texts(encoder, 1000, False), (2, 4), shape=(16, 64)),
    Case(
        "GPT2", "gpt2", gpt,
        {"batch": 8, "vocabulary": 1000, "tokens": 64, "width": 256, "layers": 2, "heads": 4},
        {"batch": 2, "vocabulary": 9, "tokens": 6, "width": 8, "layers": 1, "heads": 2}, 0.9,
    ),
]  # fmt: skip
