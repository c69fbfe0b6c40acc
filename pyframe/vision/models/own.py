"""Models that torchvision does not have: LeNet and UNet."""

from __future__ import annotations

import itertools
from collections.abc import Sequence

from pyframe import cat, nn
from pyframe.tensor import Tensor
from pyframe.vision.models._api import builder

__all__ = ["LeNet", "UNet", "lenet", "unet"]


class LeNet(nn.Module):
    """Two convolutions and three linear layers for images (N, in_channels, 28, 28)."""

    def __init__(self, num_classes: int = 10, in_channels: int = 1) -> None:
        super().__init__()
        self.features = nn.Sequential(
            nn.Conv2d(in_channels, 6, 5, padding=2), nn.Tanh(), nn.AvgPool2d(2),  # (N, 6, 14, 14)
            nn.Conv2d(6, 16, 5), nn.Tanh(), nn.AvgPool2d(2),  # (N, 16, 5, 5)
        )  # fmt: skip
        self.classifier = nn.Sequential(
            nn.Linear(400, 120), nn.Tanh(), nn.Linear(120, 84), nn.Tanh(),
            nn.Linear(84, num_classes),
        )  # fmt: skip

    def forward(self, x: Tensor) -> Tensor:
        """Logits (N, num_classes) of images `x`."""
        return self.classifier(self.features(x).flatten(1))


lenet = builder("lenet", LeNet)


class UNet(nn.Module):
    """Logits (N, num_classes, H, W) for each pixel of images (N, in_channels, H, W).

    Each of `channels` but the last is a level, half as large as the one before; so H and W are
    multiples of 2 ** (len(channels) - 1).
    """

    def __init__(
        self, in_channels: int = 1, num_classes: int = 2,
        channels: Sequence[int] = (64, 128, 256, 512, 1024),
    ) -> None:  # fmt: skip
        super().__init__()
        pairs = list(itertools.pairwise(channels))
        self.inc = _twice(in_channels, channels[0])
        self.down = nn.ModuleList([_twice(a, b) for a, b in pairs])
        self.pool = nn.MaxPool2d(2)
        self.up = nn.ModuleList([nn.ConvTranspose2d(b, a, 2, stride=2) for a, b in pairs[::-1]])
        self.merge = nn.ModuleList([_twice(2 * a, a) for a, _ in pairs[::-1]])
        self.outc = nn.Conv2d(channels[0], num_classes, 1)

    def forward(self, x: Tensor) -> Tensor:
        """`x` (N, in_channels, H, W) to (N, num_classes, H, W)."""
        step = 2 ** len(self.down)
        if x.shape[-2] % step or x.shape[-1] % step:
            raise ValueError(
                f"UNet: expected a height and width that are multiples of {step}, got "
                f"{list(x.shape)}"
            )
        levels = [self.inc(x)]
        for down in self.down:
            levels.append(down(self.pool(levels[-1])))
        x = levels.pop()
        for up, merge in zip(self.up, self.merge, strict=True):
            x = merge(cat((levels.pop(), up(x)), 1))
        return self.outc(x)


def _twice(in_channels: int, out_channels: int) -> nn.Sequential:
    layers: list[nn.Module] = []
    for c in (in_channels, out_channels):
        layers += [
            nn.Conv2d(c, out_channels, 3, padding=1, bias=False),
            nn.BatchNorm2d(out_channels),
            nn.ReLU(inplace=True),
        ]
    return nn.Sequential(*layers)


unet = builder("unet", UNet)
