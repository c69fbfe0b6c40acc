"""SqueezeNet (arXiv 1602.07360), as torchvision.models.squeezenet."""

from __future__ import annotations

from typing import Any

from pyframe import cat, nn
from pyframe.nn import init
from pyframe.tensor import Tensor
from pyframe.vision.models._api import builder, start

__all__ = ["SqueezeNet", "squeezenet1_0", "squeezenet1_1"]


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
    """A net of Fires for images (N, 3, H, W) from 21 pixels on."""

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
        """Logits (N, num_classes)."""
        return self.classifier(self.features(x)).flatten(1)


squeezenet1_0 = builder("squeezenet1_0", SqueezeNet, "1_0")
squeezenet1_1 = builder("squeezenet1_1", SqueezeNet, "1_1")
