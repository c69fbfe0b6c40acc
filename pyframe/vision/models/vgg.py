"""VGG (arXiv 1409.1556), as torchvision.models.vgg."""

from __future__ import annotations

from functools import partial
from typing import Any

from pyframe import nn
from pyframe.nn import init
from pyframe.vision.models._api import Classifier, builder, start

__all__ = [
    "VGG", "vgg11", "vgg11_bn", "vgg13", "vgg13_bn", "vgg16", "vgg16_bn", "vgg19", "vgg19_bn",
]  # fmt: skip

# Channels of the convolutions, in groups between which the image is halved
cfgs = {
    "A": ([64], [128], [256] * 2, [512] * 2, [512] * 2),
    "B": ([64] * 2, [128] * 2, [256] * 2, [512] * 2, [512] * 2),
    "D": ([64] * 2, [128] * 2, [256] * 3, [512] * 3, [512] * 3),
    "E": ([64] * 2, [128] * 2, [256] * 4, [512] * 4, [512] * 4),
}


class VGG(Classifier):
    """`features` and three linear layers for images (N, 3, H, W) from 32 pixels on."""

    def __init__(
        self, features: nn.Module, num_classes: int = 1000, init_weights: bool = True,
        dropout: float = 0.5,
    ) -> None:  # fmt: skip
        super().__init__()
        self.features = features
        self.avgpool = nn.AdaptiveAvgPool2d((7, 7))
        self.classifier = nn.Sequential(
            nn.Linear(512 * 7 * 7, 4096), nn.ReLU(inplace=True), nn.Dropout(dropout),
            nn.Linear(4096, 4096), nn.ReLU(inplace=True), nn.Dropout(dropout),
            nn.Linear(4096, num_classes),
        )  # fmt: skip
        if init_weights:
            start(self, linear=partial(init.normal_, std=0.01))


def _vgg(cfg: str, batch_norm: bool, **options: Any) -> VGG:
    layers: list[nn.Module] = []
    before = 3
    for group in cfgs[cfg]:
        for channels in group:
            layers.append(nn.Conv2d(before, channels, 3, padding=1))
            if batch_norm:
                layers.append(nn.BatchNorm2d(channels))
            layers.append(nn.ReLU(inplace=True))
            before = channels
        layers.append(nn.MaxPool2d(2, 2))
    return VGG(nn.Sequential(*layers), **options)


vgg11 = builder("vgg11", _vgg, "A", False)
vgg11_bn = builder("vgg11_bn", _vgg, "A", True)
vgg13 = builder("vgg13", _vgg, "B", False)
vgg13_bn = builder("vgg13_bn", _vgg, "B", True)
vgg16 = builder("vgg16", _vgg, "D", False)
vgg16_bn = builder("vgg16_bn", _vgg, "D", True)
vgg19 = builder("vgg19", _vgg, "E", False)
vgg19_bn = builder("vgg19_bn", _vgg, "E", True)
