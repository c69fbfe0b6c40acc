"""LeNet-5 (LeCun et al., Gradient-based learning applied to document recognition, 1998)."""

from __future__ import annotations

from pyframe import nn
from pyframe.tensor import Tensor
from pyframe.vision.models._api import builder

__all__ = ["LeNet", "lenet"]


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
        """Logits (N, num_classes)."""
        return self.classifier(self.features(x).flatten(1))


lenet = builder("lenet", LeNet)
