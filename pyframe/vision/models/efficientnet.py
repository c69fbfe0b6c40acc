"""EfficientNet (arXiv 1905.11946) and EfficientNetV2 (2104.00298), as torchvision has them."""

from __future__ import annotations

import copy
import math
from collections.abc import Sequence
from functools import partial
from typing import Any

from pyframe import nn
from pyframe.nn import init
from pyframe.tensor import Tensor
from pyframe.vision.models._api import Classifier, builder, check_setting, make_divisible, start
from pyframe.vision.ops.misc import Conv2dNormActivation, SqueezeExcitation, StochasticDepth, Type

__all__ = [
    "EfficientNet", "efficientnet_b0", "efficientnet_b1", "efficientnet_b2", "efficientnet_b3",
    "efficientnet_b4", "efficientnet_b5", "efficientnet_b6", "efficientnet_b7",
    "efficientnet_v2_l", "efficientnet_v2_m", "efficientnet_v2_s",
]  # fmt: skip


class FusedMBConvConfig:
    """A stage: how much its blocks expand, kernel, stride, channels in and out, how many blocks."""

    def __init__(
        self, expand_ratio: float, kernel: int, stride: int, input_channels: int, out_channels: int,
        num_layers: int, block: Type | None = None,
    ) -> None:  # fmt: skip
        self.expand_ratio = expand_ratio
        self.kernel = kernel
        self.stride = stride
        self.input_channels = input_channels
        self.out_channels = out_channels
        self.num_layers = num_layers
        self.block = block or FusedMBConv

    @staticmethod
    def adjust_channels(channels: int, width_mult: float) -> int:
        """Times `width_mult`, a multiple of 8."""
        return make_divisible(channels * width_mult)


class MBConvConfig(FusedMBConvConfig):
    """A stage of MBConv blocks, made wider and deeper by two factors."""

    def __init__(
        self, expand_ratio: float, kernel: int, stride: int, input_channels: int, out_channels: int,
        num_layers: int, width_mult: float = 1.0, depth_mult: float = 1.0,
        block: Type | None = None,
    ) -> None:  # fmt: skip
        before, after = (
            self.adjust_channels(n, width_mult) for n in (input_channels, out_channels)
        )
        layers = math.ceil(num_layers * depth_mult)
        super().__init__(expand_ratio, kernel, stride, before, after, layers, block or MBConv)


class _Residual(nn.Module):
    """Layers, and the input beside them where it has the shape of their result."""

    def __init__(self, cnf: FusedMBConvConfig, stochastic_depth_prob: float, *layers: Any) -> None:
        super().__init__()
        if not 1 <= cnf.stride <= 2:
            raise ValueError(f"illegal stride value {cnf.stride}, expected 1 or 2")
        self.use_res_connect = cnf.stride == 1 and cnf.input_channels == cnf.out_channels
        self.block = nn.Sequential(*layers)
        self.stochastic_depth = StochasticDepth(stochastic_depth_prob, "row")
        self.out_channels = cnf.out_channels

    def forward(self, input: Tensor) -> Tensor:
        """(N, input_channels, H, W) to (N, out_channels, H / stride, W / stride)."""
        x = self.block(input)
        return self.stochastic_depth(x) + input if self.use_res_connect else x


class MBConv(_Residual):
    """A convolution within each of many channels, which are then scaled, between few."""

    def __init__(
        self, cnf: MBConvConfig, stochastic_depth_prob: float, norm_layer: Type,
        se_layer: Type = SqueezeExcitation,
    ) -> None:  # fmt: skip
        conv = partial(Conv2dNormActivation, norm_layer=norm_layer, activation_layer=nn.SiLU)
        before, after = cnf.input_channels, cnf.out_channels
        inner = cnf.adjust_channels(before, cnf.expand_ratio)
        silu = partial(nn.SiLU, inplace=True)
        super().__init__(
            cnf,
            stochastic_depth_prob,
            *([conv(before, inner, 1)] if inner != before else []),
            conv(inner, inner, cnf.kernel, cnf.stride, groups=inner),
            se_layer(inner, max(1, before // 4), activation=silu),
            conv(inner, after, 1, activation_layer=None),
        )


class FusedMBConv(_Residual):
    """A convolution to many channels, and one back."""

    def __init__(
        self, cnf: FusedMBConvConfig, stochastic_depth_prob: float, norm_layer: Type
    ) -> None:
        conv = partial(Conv2dNormActivation, norm_layer=norm_layer, activation_layer=nn.SiLU)
        before, after = cnf.input_channels, cnf.out_channels
        inner = cnf.adjust_channels(before, cnf.expand_ratio)
        if inner == before:
            layers = [conv(before, after, cnf.kernel, cnf.stride)]
        else:
            layers = [
                conv(before, inner, cnf.kernel, cnf.stride),
                conv(inner, after, 1, activation_layer=None),
            ]
        super().__init__(cnf, stochastic_depth_prob, *layers)


class EfficientNet(Classifier):
    """The stages of `inverted_residual_setting` for images (N, 3, H, W).

    Blocks are dropped while training with a probability that grows to `stochastic_depth_prob`.

    Args:
        last_channel: The channels before the last layer; None for four times those of the last
            stage.
    """

    def __init__(
        self, inverted_residual_setting: Sequence[FusedMBConvConfig], dropout: float,
        stochastic_depth_prob: float = 0.2, num_classes: int = 1000, norm_layer: Type | None = None,
        last_channel: int | None = None,
    ) -> None:  # fmt: skip
        super().__init__()
        setting = inverted_residual_setting
        check_setting("inverted_residual_setting", setting, FusedMBConvConfig, "MBConvConfig")
        norm = norm_layer or nn.BatchNorm2d
        conv = partial(Conv2dNormActivation, norm_layer=norm, activation_layer=nn.SiLU)
        layers: list[nn.Module] = [conv(3, setting[0].input_channels, stride=2)]
        total, made = sum(cnf.num_layers for cnf in setting), 0
        for cnf in setting:
            stage: list[nn.Module] = []
            one = copy.copy(cnf)
            for _ in range(cnf.num_layers):
                stage.append(one.block(one, stochastic_depth_prob * made / total, norm))
                one.input_channels, one.stride = one.out_channels, 1
                made += 1
            layers.append(nn.Sequential(*stage))
        before = setting[-1].out_channels
        last = 4 * before if last_channel is None else last_channel
        layers.append(conv(before, last, 1))
        self.features = nn.Sequential(*layers)
        self.avgpool = nn.AdaptiveAvgPool2d(1)
        self.classifier = nn.Sequential(
            nn.Dropout(dropout, inplace=True), nn.Linear(last, num_classes)
        )
        bound = 1 / math.sqrt(num_classes)
        start(self, linear=partial(init.uniform_, a=-bound, b=bound))


# The arguments of the stages' configurations; "F" has fused ones
_V1 = (
    (1, 3, 1, 32, 16, 1), (6, 3, 2, 16, 24, 2), (6, 5, 2, 24, 40, 2), (6, 3, 2, 40, 80, 3),
    (6, 5, 1, 80, 112, 3), (6, 5, 2, 112, 192, 4), (6, 3, 1, 192, 320, 1),
)  # fmt: skip
_V2 = {
    "s": (
        ("F", 1, 3, 1, 24, 24, 2), ("F", 4, 3, 2, 24, 48, 4), ("F", 4, 3, 2, 48, 64, 4),
        (4, 3, 2, 64, 128, 6), (6, 3, 1, 128, 160, 9), (6, 3, 2, 160, 256, 15),
    ),
    "m": (
        ("F", 1, 3, 1, 24, 24, 3), ("F", 4, 3, 2, 24, 48, 5), ("F", 4, 3, 2, 48, 80, 5),
        (4, 3, 2, 80, 160, 7), (6, 3, 1, 160, 176, 14), (6, 3, 2, 176, 304, 18),
        (6, 3, 1, 304, 512, 5),
    ),
    "l": (
        ("F", 1, 3, 1, 32, 32, 4), ("F", 4, 3, 2, 32, 64, 7), ("F", 4, 3, 2, 64, 96, 7),
        (4, 3, 2, 96, 192, 10), (6, 3, 1, 192, 224, 19), (6, 3, 2, 224, 384, 25),
        (6, 3, 1, 384, 640, 7),
    ),
}  # fmt: skip


def _efficientnet(width: float, depth: float, **options: Any) -> EfficientNet:
    return EfficientNet([MBConvConfig(*row, width, depth) for row in _V1], **options)


def _efficientnet_v2(size: str, **options: Any) -> EfficientNet:
    rows: Any = _V2[size]
    setting = [FusedMBConvConfig(*row[1:]) if row[0] == "F" else MBConvConfig(*row) for row in rows]
    return EfficientNet(setting, last_channel=1280, **options)


_slow = partial(nn.BatchNorm2d, eps=0.001, momentum=0.01)
_v2 = partial(nn.BatchNorm2d, eps=0.001)

efficientnet_b0 = builder("efficientnet_b0", _efficientnet, 1.0, 1.0, dropout=0.2)
efficientnet_b1 = builder("efficientnet_b1", _efficientnet, 1.0, 1.1, dropout=0.2)
efficientnet_b2 = builder("efficientnet_b2", _efficientnet, 1.1, 1.2, dropout=0.3)
efficientnet_b3 = builder("efficientnet_b3", _efficientnet, 1.2, 1.4, dropout=0.3)
efficientnet_b4 = builder("efficientnet_b4", _efficientnet, 1.4, 1.8, dropout=0.4)
efficientnet_b5 = builder("efficientnet_b5", _efficientnet, 1.6, 2.2, dropout=0.4, norm_layer=_slow)
efficientnet_b6 = builder("efficientnet_b6", _efficientnet, 1.8, 2.6, dropout=0.5, norm_layer=_slow)
efficientnet_b7 = builder("efficientnet_b7", _efficientnet, 2.0, 3.1, dropout=0.5, norm_layer=_slow)
efficientnet_v2_s = builder("efficientnet_v2_s", _efficientnet_v2, "s", dropout=0.2, norm_layer=_v2)
efficientnet_v2_m = builder("efficientnet_v2_m", _efficientnet_v2, "m", dropout=0.3, norm_layer=_v2)
efficientnet_v2_l = builder("efficientnet_v2_l", _efficientnet_v2, "l", dropout=0.4, norm_layer=_v2)
