"""Plain nets, one layer after the other: AlexNet, VGG and SqueezeNet."""

from __future__ import annotations

from functools import partial
from typing import Any

from pyframe import cat, nn
from pyframe.nn import init
from pyframe.tensor import Tensor
from pyframe.vision.models._api import Classifier, builder, start

__all__ = [
    "VGG", "AlexNet", "SqueezeNet", "alexnet", "squeezenet1_0", "squeezenet1_1",
    "vgg11", "vgg11_bn", "vgg13", "vgg13_bn", "vgg16", "vgg16_bn", "vgg19", "vgg19_bn",
]  # fmt: skip


class AlexNet(Classifier):
    """Five convolutions and three linear layers for images (N, 3, H, W) from 63 pixels on."""

    def __init__(self, num_classes: int = 1000, dropout: float = 0.5) -> None:
        super().__init__()
        self.features = nn.Sequential(  # (N, 3, 224, 224) to (N, 256, 6, 6)
            nn.Conv2d(3, 64, 11, stride=4, padding=2), nn.ReLU(inplace=True), nn.MaxPool2d(3, 2),
            nn.Conv2d(64, 192, 5, padding=2), nn.ReLU(inplace=True), nn.MaxPool2d(3, 2),
            nn.Conv2d(192, 384, 3, padding=1), nn.ReLU(inplace=True),
            nn.Conv2d(384, 256, 3, padding=1), nn.ReLU(inplace=True),
            nn.Conv2d(256, 256, 3, padding=1), nn.ReLU(inplace=True), nn.MaxPool2d(3, 2),
        )  # fmt: skip
        self.avgpool = nn.AdaptiveAvgPool2d((6, 6))
        self.classifier = nn.Sequential(
            nn.Dropout(dropout), nn.Linear(256 * 6 * 6, 4096), nn.ReLU(inplace=True),
            nn.Dropout(dropout), nn.Linear(4096, 4096), nn.ReLU(inplace=True),
            nn.Linear(4096, num_classes),
        )  # fmt: skip


alexnet = builder("alexnet", AlexNet)


# Channels of the convolutions, in groups between which the image is halved
cfgs = {
    "A": ([64], [128], [256] * 2, [512] * 2, [512] * 2),
    "B": ([64] * 2, [128] * 2, [256] * 2, [512] * 2, [512] * 2),
    "D": ([64] * 2, [128] * 2, [256] * 3, [512] * 3, [512] * 3),
    "E": ([64] * 2, [128] * 2, [256] * 4, [512] * 4, [512] * 4),
}


class VGG(Classifier):
    """`features` and three linear layers for images (N, 3, H, W) from 32 pixels on.

    Args:
        init_weights: Whether weights are drawn as for training; else they are the layers' own.
    """

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


class Fire(nn.Module):
    """A 1x1 convolution to few channels, and a 1x1 and a 3x3 one side by side from there."""

    def __init__(
        self, inplanes: int, squeeze_planes: int, expand1x1_planes: int, expand3x3_planes: int
    ) -> None:
        super().__init__()
        self.inplanes = inplanes
        self.squeeze = nn.Conv2d(inplanes, squeeze_planes, 1)
        self.squeeze_activation = nn.ReLU(inplace=True)
        self.expand1x1 = nn.Conv2d(squeeze_planes, expand1x1_planes, 1)
        self.expand1x1_activation = nn.ReLU(inplace=True)
        self.expand3x3 = nn.Conv2d(squeeze_planes, expand3x3_planes, 3, padding=1)
        self.expand3x3_activation = nn.ReLU(inplace=True)

    def forward(self, x: Tensor) -> Tensor:
        """(N, inplanes, H, W) to (N, expand1x1_planes + expand3x3_planes, H, W)."""
        x = self.squeeze_activation(self.squeeze(x))
        small = self.expand1x1_activation(self.expand1x1(x))
        return cat([small, self.expand3x3_activation(self.expand3x3(x))], 1)


# Of a version: the first convolution (channels, kernel), then "M" for a pooling layer and the
# channels that a Fire squeezes to, with a quarter of those that each of its halves gives.
_VERSIONS: dict[str, tuple[tuple[int, int], list[Any]]] = {
    "1_0": ((96, 7), ["M", 16, 16, 32, "M", 32, 48, 48, 64, "M", 64]),
    "1_1": ((64, 3), ["M", 16, 16, "M", 32, 32, "M", 48, 48, 64, 64]),
}


class SqueezeNet(nn.Module):
    """A net of Fires for images (N, 3, H, W) from 21 pixels on.

    Args:
        version: "1_0" or "1_1"; ValueError otherwise.
    """

    def __init__(self, version: str = "1_0", num_classes: int = 1000, dropout: float = 0.5) -> None:
        super().__init__()
        if version not in _VERSIONS:
            raise ValueError(f"Unsupported SqueezeNet version {version}: 1_0 or 1_1 expected")
        self.num_classes = num_classes
        (channels, kernel), rest = _VERSIONS[version]
        layers: list[nn.Module] = [nn.Conv2d(3, channels, kernel, 2), nn.ReLU(inplace=True)]
        for squeezed in rest:
            if squeezed == "M":
                layers.append(nn.MaxPool2d(3, 2, ceil_mode=True))
            else:
                layers.append(Fire(channels, squeezed, 4 * squeezed, 4 * squeezed))
                channels = 8 * squeezed
        self.features = nn.Sequential(*layers)
        last = nn.Conv2d(512, num_classes, 1)
        self.classifier = nn.Sequential(
            nn.Dropout(dropout), last, nn.ReLU(inplace=True), nn.AdaptiveAvgPool2d((1, 1))
        )
        start(self, init.kaiming_uniform_)
        init.normal_(last.weight, std=0.01)

    def forward(self, x: Tensor) -> Tensor:
        """Logits (N, num_classes) of images `x`."""
        return self.classifier(self.features(x)).flatten(1)


squeezenet1_0 = builder("squeezenet1_0", SqueezeNet, "1_0")
squeezenet1_1 = builder("squeezenet1_1", SqueezeNet, "1_1")
