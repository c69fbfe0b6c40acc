"""ConvNeXt (arXiv 2201.03545), as torchvision.models.convnext."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import NamedTuple

import pyframe.nn.functional as F
from pyframe import full, nn
from pyframe.nn import init
from pyframe.tensor import Tensor
from pyframe.vision.models._api import builder, check_setting, start
from pyframe.vision.ops.misc import Conv2dNormActivation, Permute, StochasticDepth, Type

__all__ = ["ConvNeXt", "convnext_base", "convnext_large", "convnext_small", "convnext_tiny"]


class LayerNorm2d(nn.LayerNorm):
    """Layer norm over the channels of (N, C, H, W)."""

    def forward(self, x: Tensor) -> Tensor:
        """(N, C, H, W), each pixel normalized."""
        x = x.permute(0, 2, 3, 1)
        x = F.layer_norm(x, self.normalized_shape, self.weight, self.bias, self.eps)
        return x.permute(0, 3, 1, 2)


class CNBlock(nn.Module):
    """A 7x7 convolution within each channel, two linear layers, and the input beside them."""

    def __init__(
        self, dim: int, layer_scale: float, stochastic_depth_prob: float,
        norm_layer: Type | None = None,
    ) -> None:  # fmt: skip
        super().__init__()
        norm = norm_layer or partial(nn.LayerNorm, eps=1e-6)
        self.block = nn.Sequential(
            nn.Conv2d(dim, dim, 7, padding=3, groups=dim), Permute([0, 2, 3, 1]), norm(dim),
            nn.Linear(dim, 4 * dim), nn.GELU(), nn.Linear(4 * dim, dim), Permute([0, 3, 1, 2]),
        )  # fmt: skip
        self.layer_scale = nn.Parameter(full((dim, 1, 1), layer_scale))
        self.stochastic_depth = StochasticDepth(stochastic_depth_prob, "row")

    def forward(self, input: Tensor) -> Tensor:
        """(N, dim, H, W) to the same shape."""
        return self.stochastic_depth(self.layer_scale * self.block(input)) + input


class CNBlockConfig(NamedTuple):
    """A stage: its channels, those of the next (None: it is the last), how many blocks."""

    input_channels: int
    out_channels: int | None
    num_layers: int


class ConvNeXt(nn.Module):
    """The stages of `block_setting` for images (N, 3, H, W) from 32 pixels on.

    Blocks start at `layer_scale` and are dropped while training with a probability that grows to
    `stochastic_depth_prob`.
    """

    def __init__(
        self, block_setting: Sequence[CNBlockConfig], stochastic_depth_prob: float = 0.0,
        layer_scale: float = 1e-6, num_classes: int = 1000, block: Type | None = None,
        norm_layer: Type | None = None,
    ) -> None:  # fmt: skip
        super().__init__()
        check_setting("block_setting", block_setting, CNBlockConfig, "CNBlockConfig")
        block = block or CNBlock
        norm = norm_layer or partial(LayerNorm2d, eps=1e-6)
        first, last = block_setting[0].input_channels, block_setting[-1]
        layers: list[nn.Module] = [
            Conv2dNormActivation(
                3, first, 4, 4, 0, norm_layer=norm, activation_layer=None, bias=True
            )
        ]
        total, made = sum(s.num_layers for s in block_setting), 0
        for channels, after, number in block_setting:
            stage = []
            for _ in range(number):
                drop = stochastic_depth_prob * made / (total - 1.0)
                stage.append(block(channels, layer_scale, drop))
                made += 1
            layers.append(nn.Sequential(*stage))
            if after is not None:
                layers.append(nn.Sequential(norm(channels), nn.Conv2d(channels, after, 2, 2)))
        self.features = nn.Sequential(*layers)
        self.avgpool = nn.AdaptiveAvgPool2d(1)
        out = last.out_channels or last.input_channels
        self.classifier = nn.Sequential(norm(out), nn.Flatten(1), nn.Linear(out, num_classes))
        draw = partial(init.trunc_normal_, std=0.02)
        start(self, draw, draw)

    def forward(self, x: Tensor) -> Tensor:
        """Logits (N, num_classes) of images `x`."""
        return self.classifier(self.avgpool(self.features(x)))


def _setting(channels: int, third: int) -> list[CNBlockConfig]:
    numbers = (3, 3, third, 3)
    widths = [channels * 2**i for i in range(4)]
    return [CNBlockConfig(*row) for row in zip(widths, [*widths[1:], None], numbers, strict=True)]


convnext_tiny = builder("convnext_tiny", ConvNeXt, _setting(96, 9), stochastic_depth_prob=0.1)
convnext_small = builder("convnext_small", ConvNeXt, _setting(96, 27), stochastic_depth_prob=0.4)
convnext_base = builder("convnext_base", ConvNeXt, _setting(128, 27), stochastic_depth_prob=0.5)
convnext_large = builder("convnext_large", ConvNeXt, _setting(192, 27), stochastic_depth_prob=0.5)
