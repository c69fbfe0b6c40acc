"""DenseNet (arXiv 1608.06993), as torchvision.models.densenet."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Sequence
from typing import Any

import pyframe.nn.functional as F
from pyframe import cat, nn
from pyframe.nn import init
from pyframe.tensor import Tensor
from pyframe.utils.checkpoint import checkpoint
from pyframe.vision.models._api import builder, start

__all__ = ["DenseNet", "densenet121", "densenet161", "densenet169", "densenet201"]


class _DenseLayer(nn.Module):
    """New features (N, growth_rate, H, W) of all that the layers before gave."""

    def __init__(
        self, channels: int, growth_rate: int, bn_size: int, drop_rate: float, efficient: bool
    ) -> None:
        super().__init__()
        between = bn_size * growth_rate
        self.norm1 = nn.BatchNorm2d(channels)
        self.relu1 = nn.ReLU(inplace=True)
        self.conv1 = nn.Conv2d(channels, between, 1, bias=False)
        self.norm2 = nn.BatchNorm2d(between)
        self.relu2 = nn.ReLU(inplace=True)
        self.conv2 = nn.Conv2d(between, growth_rate, 3, padding=1, bias=False)
        self.drop_rate = float(drop_rate)
        self.memory_efficient = efficient

    def _load_from_state_dict(self, state_dict: Any, prefix: str, *args: Any) -> None:
        for key in list(state_dict):  # the names that files made before 2018 have: norm.1.weight
            name = key.removeprefix(prefix)
            if name != key and name.startswith(("norm.", "conv.")):
                state_dict[prefix + name.replace(".", "", 1)] = state_dict.pop(key)
        super()._load_from_state_dict(state_dict, prefix, *args)

    def _bottleneck(self, *features: Tensor) -> Tensor:
        return self.conv1(self.relu1(self.norm1(cat(features, 1))))

    def forward(self, input: Tensor | Sequence[Tensor]) -> Tensor:
        """The features as one tensor or as a list of those of each layer."""
        features = [input] if isinstance(input, Tensor) else input
        if self.memory_efficient and any(f.requires_grad for f in features):
            x = checkpoint(self._bottleneck, *features, use_reentrant=False)
        else:
            x = self._bottleneck(*features)
        x = self.conv2(self.relu2(self.norm2(x)))
        return F.dropout(x, self.drop_rate, self.training) if self.drop_rate > 0 else x


class _DenseBlock(nn.ModuleDict):
    """Layers that each get what all before gave; the result has all of it."""

    def __init__(self, layers: int, channels: int, growth_rate: int, *options: Any) -> None:
        super().__init__()
        for i in range(layers):
            layer = _DenseLayer(channels + i * growth_rate, growth_rate, *options)
            self.add_module(f"denselayer{i + 1}", layer)

    def forward(self, init_features: Tensor) -> Tensor:
        """(N, C, H, W) to (N, C + layers * growth_rate, H, W)."""
        features = [init_features]
        for layer in self.values():
            features.append(layer(features))
        return cat(features, 1)


class _Transition(nn.Sequential):
    """Half of the channels, half of the height and width."""

    def __init__(self, channels: int) -> None:
        super().__init__()
        self.norm = nn.BatchNorm2d(channels)
        self.relu = nn.ReLU(inplace=True)
        self.conv = nn.Conv2d(channels, channels // 2, 1, bias=False)
        self.pool = nn.AvgPool2d(2, 2)


class DenseNet(nn.Module):
    """Blocks of `block_config` layers each, for images (N, 3, H, W) from 29 pixels on.

    `memory_efficient` computes features anew in backward instead of keeping them.

    Args:
        growth_rate: How many channels each layer adds.
        num_init_features: The channels of the first convolution.
        bn_size: The channels between a layer's two convolutions, as a multiple of `growth_rate`.
        drop_rate: The probability of a zero in what a layer adds, in training.
    """

    def __init__(
        self, growth_rate: int = 32, block_config: Sequence[int] = (6, 12, 24, 16),
        num_init_features: int = 64, bn_size: int = 4, drop_rate: float = 0,
        num_classes: int = 1000, memory_efficient: bool = False,
    ) -> None:  # fmt: skip
        super().__init__()
        channels = num_init_features
        self.features = nn.Sequential(
            OrderedDict(
                conv0=nn.Conv2d(3, channels, 7, stride=2, padding=3, bias=False),
                norm0=nn.BatchNorm2d(channels),
                relu0=nn.ReLU(inplace=True),
                pool0=nn.MaxPool2d(3, stride=2, padding=1),
            )
        )
        for i, layers in enumerate(block_config, 1):
            block = _DenseBlock(layers, channels, growth_rate, bn_size, drop_rate, memory_efficient)
            self.features.add_module(f"denseblock{i}", block)
            channels += layers * growth_rate
            if i < len(block_config):
                self.features.add_module(f"transition{i}", _Transition(channels))
                channels //= 2
        self.features.add_module("norm5", nn.BatchNorm2d(channels))
        self.classifier = nn.Linear(channels, num_classes)
        start(self, init.kaiming_normal_)
        init.zeros_(self.classifier.bias)

    def forward(self, x: Tensor) -> Tensor:
        """Logits (N, num_classes) of images `x`."""
        x = F.adaptive_avg_pool2d(F.relu(self.features(x)), (1, 1))
        return self.classifier(x.flatten(1))


densenet121 = builder("densenet121", DenseNet, 32, (6, 12, 24, 16), 64)
densenet161 = builder("densenet161", DenseNet, 48, (6, 12, 36, 24), 96)
densenet169 = builder("densenet169", DenseNet, 32, (6, 12, 32, 32), 64)
densenet201 = builder("densenet201", DenseNet, 32, (6, 12, 48, 32), 64)
