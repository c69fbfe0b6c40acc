"""MobileNetV2 (arXiv 1801.04381), as torchvision.models.mobilenetv2."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

import pyframe.nn.functional as F
from pyframe import nn
from pyframe.nn import init
from pyframe.tensor import Tensor
from pyframe.vision.models._api import builder, make_divisible, start
from pyframe.vision.ops.misc import Conv2dNormActivation, Type

__all__ = ["MobileNetV2", "mobilenet_v2"]

# How much a block expands, its channels, how many blocks, the stride of the first
_SETTING = (
    (1, 16, 1, 1), (6, 24, 2, 2), (6, 32, 3, 2), (6, 64, 4, 2), (6, 96, 3, 1), (6, 160, 3, 2),
    (6, 320, 1, 1),
)  # fmt: skip


class InvertedResidual(nn.Module):
    """A 3x3 convolution within each of many channels, between few."""

    def __init__(
        self, inp: int, oup: int, stride: int, expand_ratio: int, norm_layer: Type | None = None
    ) -> None:
        super().__init__()
        if stride not in (1, 2):
            raise ValueError(f"stride should be 1 or 2 instead of {stride}")
        norm = norm_layer or nn.BatchNorm2d
        conv = partial(Conv2dNormActivation, norm_layer=norm, activation_layer=nn.ReLU6)
        hidden = round(inp * expand_ratio)
        layers: list[nn.Module] = [conv(inp, hidden, 1)] if expand_ratio != 1 else []
        layers += [
            conv(hidden, hidden, stride=stride, groups=hidden),
            nn.Conv2d(hidden, oup, 1, bias=False),
            norm(oup),
        ]
        self.stride = stride
        self.use_res_connect = stride == 1 and inp == oup
        self.conv = nn.Sequential(*layers)
        self.out_channels = oup

    def forward(self, x: Tensor) -> Tensor:
        """(N, inp, H, W) to (N, oup, H / stride, W / stride)."""
        return x + self.conv(x) if self.use_res_connect else self.conv(x)


class MobileNetV2(nn.Module):
    """Inverted residuals for images (N, 3, H, W).

    The number of channels is times `width_mult`, a multiple of `round_nearest`. A row of
    `inverted_residual_setting` is (how much a block expands, channels, blocks, stride).
    """

    def __init__(
        self, num_classes: int = 1000, width_mult: float = 1.0,
        inverted_residual_setting: Sequence[Sequence[int]] | None = None, round_nearest: int = 8,
        block: Type | None = None, norm_layer: Type | None = None, dropout: float = 0.2,
    ) -> None:  # fmt: skip
        super().__init__()
        setting = _SETTING if inverted_residual_setting is None else inverted_residual_setting
        if not setting or len(setting[0]) != 4:
            raise ValueError(
                f"inverted_residual_setting should be non-empty or a 4-element list, got {setting}"
            )
        block, norm = block or InvertedResidual, norm_layer or nn.BatchNorm2d
        conv = partial(Conv2dNormActivation, norm_layer=norm, activation_layer=nn.ReLU6)
        channels = make_divisible(32 * width_mult, round_nearest)
        self.last_channel = make_divisible(1280 * max(1.0, width_mult), round_nearest)
        features: list[nn.Module] = [conv(3, channels, stride=2)]
        for t, c, n, s in setting:
            out = make_divisible(c * width_mult, round_nearest)
            for i in range(n):
                stride = s if i == 0 else 1
                features.append(block(channels, out, stride, expand_ratio=t, norm_layer=norm))
                channels = out
        features.append(conv(channels, self.last_channel, 1))
        self.features = nn.Sequential(*features)
        self.classifier = nn.Sequential(
            nn.Dropout(dropout), nn.Linear(self.last_channel, num_classes)
        )
        start(self, linear=partial(init.normal_, std=0.01))

    def forward(self, x: Tensor) -> Tensor:
        """Logits (N, num_classes) of images `x`."""
        x = F.adaptive_avg_pool2d(self.features(x), (1, 1))
        return self.classifier(x.flatten(1))


mobilenet_v2 = builder("mobilenet_v2", MobileNetV2)
