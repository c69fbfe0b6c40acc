"""MobileNetV3 (arXiv 1905.02244), as torchvision.models.mobilenetv3."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any

from pyframe import nn
from pyframe.nn import init
from pyframe.tensor import Tensor
from pyframe.vision.models._api import Classifier, builder, check_setting, make_divisible, start
from pyframe.vision.ops.misc import Conv2dNormActivation, SqueezeExcitation, Type

__all__ = ["MobileNetV3", "mobilenet_v3_large", "mobilenet_v3_small"]

_scaled = partial(SqueezeExcitation, scale_activation=nn.Hardsigmoid)


class InvertedResidualConfig:
    """A block: channels in, in between and out, whether it scales them, "RE" or "HS" (h-swish)."""

    def __init__(
        self, input_channels: int, kernel: int, expanded_channels: int, out_channels: int,
        use_se: bool, activation: str, stride: int, dilation: int, width_mult: float,
    ) -> None:  # fmt: skip
        self.input_channels = self.adjust_channels(input_channels, width_mult)
        self.kernel = kernel
        self.expanded_channels = self.adjust_channels(expanded_channels, width_mult)
        self.out_channels = self.adjust_channels(out_channels, width_mult)
        self.use_se = use_se
        self.use_hs = activation == "HS"
        self.stride = stride
        self.dilation = dilation

    @staticmethod
    def adjust_channels(channels: int, width_mult: float) -> int:
        """Times `width_mult`, a multiple of 8."""
        return make_divisible(channels * width_mult)


class InvertedResidual(nn.Module):
    """A convolution within each of many channels, which may be scaled, between few."""

    def __init__(
        self, cnf: InvertedResidualConfig, norm_layer: Type, se_layer: Type = _scaled
    ) -> None:
        super().__init__()
        if not 1 <= cnf.stride <= 2:
            raise ValueError(f"illegal stride value {cnf.stride}, expected 1 or 2")
        act = nn.Hardswish if cnf.use_hs else nn.ReLU
        conv = partial(Conv2dNormActivation, norm_layer=norm_layer, activation_layer=act)
        inner = cnf.expanded_channels
        layers: list[nn.Module] = []
        if inner != cnf.input_channels:
            layers.append(conv(cnf.input_channels, inner, 1))
        stride = 1 if cnf.dilation > 1 else cnf.stride
        layers.append(conv(inner, inner, cnf.kernel, stride, groups=inner, dilation=cnf.dilation))
        if cnf.use_se:
            layers.append(se_layer(inner, make_divisible(inner // 4)))
        layers.append(conv(inner, cnf.out_channels, 1, activation_layer=None))
        self.use_res_connect = cnf.stride == 1 and cnf.input_channels == cnf.out_channels
        self.block = nn.Sequential(*layers)
        self.out_channels = cnf.out_channels

    def forward(self, input: Tensor) -> Tensor:
        """(N, input_channels, H, W) to (N, out_channels, H / stride, W / stride)."""
        return self.block(input) + input if self.use_res_connect else self.block(input)


class MobileNetV3(Classifier):
    """The blocks of `inverted_residual_setting` for images (N, 3, H, W)."""

    def __init__(
        self, inverted_residual_setting: Sequence[InvertedResidualConfig], last_channel: int,
        num_classes: int = 1000, block: Type | None = None, norm_layer: Type | None = None,
        dropout: float = 0.2,
    ) -> None:  # fmt: skip
        super().__init__()
        setting = inverted_residual_setting
        kind = InvertedResidualConfig
        check_setting("inverted_residual_setting", setting, kind, kind.__name__)
        block = block or InvertedResidual
        norm = norm_layer or partial(nn.BatchNorm2d, eps=0.001, momentum=0.01)
        conv = partial(Conv2dNormActivation, norm_layer=norm, activation_layer=nn.Hardswish)
        last = setting[-1].out_channels
        self.features = nn.Sequential(
            conv(3, setting[0].input_channels, stride=2),
            *[block(cnf, norm) for cnf in setting],
            conv(last, 6 * last, 1),
        )
        self.avgpool = nn.AdaptiveAvgPool2d(1)
        self.classifier = nn.Sequential(
            nn.Linear(6 * last, last_channel), nn.Hardswish(inplace=True),
            nn.Dropout(dropout, inplace=True), nn.Linear(last_channel, num_classes),
        )  # fmt: skip
        start(self, linear=partial(init.normal_, std=0.01))


# The arguments of InvertedResidualConfig up to the stride. The tail, from the second to last
# stride of 2 on, is what `reduced_tail` halves and `dilated` dilates; the channels after it.
_SETTINGS: dict[str, tuple[list[Any], list[Any], int]] = {
    "large": (
        [
            (16, 3, 16, 16, False, "RE", 1), (16, 3, 64, 24, False, "RE", 2),
            (24, 3, 72, 24, False, "RE", 1), (24, 5, 72, 40, True, "RE", 2),
            (40, 5, 120, 40, True, "RE", 1), (40, 5, 120, 40, True, "RE", 1),
            (40, 3, 240, 80, False, "HS", 2), (80, 3, 200, 80, False, "HS", 1),
            (80, 3, 184, 80, False, "HS", 1), (80, 3, 184, 80, False, "HS", 1),
            (80, 3, 480, 112, True, "HS", 1), (112, 3, 672, 112, True, "HS", 1),
        ],
        [(112, 5, 672, 160, True, "HS", 2), *[(160, 5, 960, 160, True, "HS", 1)] * 2],
        1280,
    ),
    "small": (
        [
            (16, 3, 16, 16, True, "RE", 2), (16, 3, 72, 24, False, "RE", 2),
            (24, 3, 88, 24, False, "RE", 1), (24, 5, 96, 40, True, "HS", 2),
            (40, 5, 240, 40, True, "HS", 1), (40, 5, 240, 40, True, "HS", 1),
            (40, 5, 120, 48, True, "HS", 1), (48, 5, 144, 48, True, "HS", 1),
        ],
        [(48, 5, 288, 96, True, "HS", 2), *[(96, 5, 576, 96, True, "HS", 1)] * 2],
        1024,
    ),
}  # fmt: skip


def _mobilenet_v3(
    size: str, width_mult: float = 1.0, reduced_tail: bool = False, dilated: bool = False,
    **options: Any,
) -> MobileNetV3:  # fmt: skip
    body, tail, last = _SETTINGS[size]
    divider, dilation = 2 if reduced_tail else 1, 2 if dilated else 1
    setting = [InvertedResidualConfig(*[*row, 1, width_mult]) for row in body]
    for i, (before, kernel, inner, out, se, activation, stride) in enumerate(tail):
        if i:  # the tail's first block gets all channels
            before, inner = before // divider, inner // divider
        setting.append(
            InvertedResidualConfig(
                before, kernel, inner, out // divider, se, activation, stride, dilation, width_mult
            )
        )
    last = InvertedResidualConfig.adjust_channels(last // divider, width_mult)
    return MobileNetV3(setting, last, **options)


mobilenet_v3_large = builder("mobilenet_v3_large", _mobilenet_v3, "large")
mobilenet_v3_small = builder("mobilenet_v3_small", _mobilenet_v3, "small")
