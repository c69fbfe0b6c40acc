"""ResNet (arXiv 1512.03385), ResNeXt (1611.05431) and wide ResNet (1605.07146).

As torchvision.models.resnet: the stride of a bottleneck lies in its 3x3 convolution.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from pyframe import nn
from pyframe.nn import init
from pyframe.tensor import Tensor
from pyframe.vision.models._api import builder, start
from pyframe.vision.ops.misc import Type

__all__ = [
    "ResNet", "resnet18", "resnet34", "resnet50", "resnet101", "resnet152", "resnext50_32x4d",
    "resnext101_32x8d", "resnext101_64x4d", "wide_resnet50_2", "wide_resnet101_2",
]  # fmt: skip


def conv3x3(
    in_planes: int, out_planes: int, stride: int = 1, groups: int = 1, dilation: int = 1
) -> nn.Conv2d:
    """A convolution that keeps the size, but for its stride."""
    return nn.Conv2d(
        in_planes, out_planes, 3, stride, dilation, dilation=dilation, groups=groups, bias=False
    )


def conv1x1(in_planes: int, out_planes: int, stride: int = 1) -> nn.Conv2d:
    """A linear layer on channels."""
    return nn.Conv2d(in_planes, out_planes, 1, stride, bias=False)


class _ResidualBlock(nn.Module):
    """A branch, and the input (or `downsample` of it) beside it; `_layers` makes the branch's."""

    expansion: int
    relu: nn.Module

    def __init__(
        self, inplanes: int, planes: int, stride: int = 1, downsample: nn.Module | None = None,
        groups: int = 1, base_width: int = 64, dilation: int = 1, norm_layer: Type | None = None,
    ) -> None:  # fmt: skip
        super().__init__()
        norm = norm_layer or nn.BatchNorm2d
        self._layers(inplanes, planes, stride, groups, base_width, dilation, norm)
        self.downsample = downsample
        self.stride = stride

    def _branch(self, x: Tensor) -> Tensor:
        raise NotImplementedError

    def forward(self, x: Tensor) -> Tensor:
        """(N, inplanes, H, W) to (N, planes * expansion, H / stride, W / stride)."""
        beside = x if self.downsample is None else self.downsample(x)
        return self.relu(self._branch(x) + beside)


class BasicBlock(_ResidualBlock):
    """Two 3x3 convolutions."""

    expansion: int = 1

    def _layers(
        self, inplanes: int, planes: int, stride: int, groups: int, base_width: int,
        dilation: int, norm: Type,
    ) -> None:  # fmt: skip
        if groups != 1 or base_width != 64:
            raise ValueError(
                "BasicBlock only supports groups=1 and base_width=64, got "
                f"groups={groups} and base_width={base_width}"
            )
        if dilation > 1:
            raise NotImplementedError("Dilation > 1 not supported in BasicBlock")
        self.conv1 = conv3x3(inplanes, planes, stride)
        self.bn1 = norm(planes)
        self.relu = nn.ReLU(inplace=True)
        self.conv2 = conv3x3(planes, planes)
        self.bn2 = norm(planes)

    def _branch(self, x: Tensor) -> Tensor:
        return self.bn2(self.conv2(self.relu(self.bn1(self.conv1(x)))))


class Bottleneck(_ResidualBlock):
    """A 3x3 convolution on few channels between two 1x1 ones."""

    expansion: int = 4

    def _layers(
        self, inplanes: int, planes: int, stride: int, groups: int, base_width: int,
        dilation: int, norm: Type,
    ) -> None:  # fmt: skip
        width = int(planes * (base_width / 64.0)) * groups
        self.conv1 = conv1x1(inplanes, width)
        self.bn1 = norm(width)
        self.conv2 = conv3x3(width, width, stride, groups, dilation)
        self.bn2 = norm(width)
        self.conv3 = conv1x1(width, planes * self.expansion)
        self.bn3 = norm(planes * self.expansion)
        self.relu = nn.ReLU(inplace=True)

    def _branch(self, x: Tensor) -> Tensor:
        x = self.relu(self.bn1(self.conv1(x)))
        x = self.relu(self.bn2(self.conv2(x)))
        return self.bn3(self.conv3(x))


class ResNet(nn.Module):
    """Four stages of `layers` blocks each, for images (N, 3, H, W).

    `zero_init_residual` starts each branch at 0 (arXiv 1706.02677);
    `replace_stride_with_dilation` says for the last three stages whether they keep the size.

    Args:
        block: `BasicBlock` or `Bottleneck`.
        groups: How many groups the 3x3 convolutions of a Bottleneck have.
        width_per_group: The width of a group, as a part of 64.
    """

    def __init__(
        self, block: type[BasicBlock | Bottleneck], layers: Sequence[int], num_classes: int = 1000,
        zero_init_residual: bool = False, groups: int = 1, width_per_group: int = 64,
        replace_stride_with_dilation: Sequence[bool] | None = None, norm_layer: Type | None = None,
    ) -> None:  # fmt: skip
        super().__init__()
        self._norm_layer: Any = norm_layer or nn.BatchNorm2d
        self.inplanes = 64
        self.dilation = 1
        dilate = replace_stride_with_dilation or (False, False, False)
        if len(dilate) != 3:
            raise ValueError(
                "replace_stride_with_dilation should be None or a 3-element tuple, got "
                f"{replace_stride_with_dilation}"
            )
        self.groups = groups
        self.base_width = width_per_group
        self.conv1 = nn.Conv2d(3, 64, 7, stride=2, padding=3, bias=False)
        self.bn1 = self._norm_layer(64)
        self.relu = nn.ReLU(inplace=True)
        self.maxpool = nn.MaxPool2d(3, stride=2, padding=1)
        self.layer1 = self._make_layer(block, 64, layers[0], 1, False)
        self.layer2 = self._make_layer(block, 128, layers[1], 2, dilate[0])
        self.layer3 = self._make_layer(block, 256, layers[2], 2, dilate[1])
        self.layer4 = self._make_layer(block, 512, layers[3], 2, dilate[2])
        self.avgpool = nn.AdaptiveAvgPool2d((1, 1))
        self.fc = nn.Linear(512 * block.expansion, num_classes)
        start(self)
        if zero_init_residual:
            for m in self.modules():
                last = getattr(m, "bn3" if isinstance(m, Bottleneck) else "bn2", None)
                if isinstance(m, _ResidualBlock) and last.weight is not None:  # type: ignore[union-attr]
                    init.zeros_(last.weight)  # type: ignore[union-attr]

    def _make_layer(
        self, block: type[Any], planes: int, blocks: int, stride: int, dilate: bool
    ) -> nn.Sequential:
        norm, downsample, out = self._norm_layer, None, planes * block.expansion
        before = self.dilation
        if dilate:
            self.dilation, stride = self.dilation * stride, 1
        if stride != 1 or self.inplanes != out:
            downsample = nn.Sequential(conv1x1(self.inplanes, out, stride), norm(out))
        shared = self.groups, self.base_width
        stage = [block(self.inplanes, planes, stride, downsample, *shared, before, norm)]
        self.inplanes = out
        for _ in range(1, blocks):
            stage.append(block(out, planes, 1, None, *shared, self.dilation, norm))
        return nn.Sequential(*stage)

    def forward(self, x: Tensor) -> Tensor:
        """Logits (N, num_classes) of images `x`."""
        x = self.maxpool(self.relu(self.bn1(self.conv1(x))))  # (N, 64, H / 4, W / 4)
        x = self.layer4(self.layer3(self.layer2(self.layer1(x))))  # H / 32, W / 32
        return self.fc(self.avgpool(x).flatten(1))


_50, _101 = (Bottleneck, [3, 4, 6, 3]), (Bottleneck, [3, 4, 23, 3])


def _groups(groups: int, width: int) -> dict[str, int]:
    return {"groups": groups, "width_per_group": width}


resnet18 = builder("resnet18", ResNet, BasicBlock, [2, 2, 2, 2])
resnet34 = builder("resnet34", ResNet, BasicBlock, [3, 4, 6, 3])
resnet50 = builder("resnet50", ResNet, *_50)
resnet101 = builder("resnet101", ResNet, *_101)
resnet152 = builder("resnet152", ResNet, Bottleneck, [3, 8, 36, 3])
resnext50_32x4d = builder("resnext50_32x4d", ResNet, *_50, fixed=_groups(32, 4))
resnext101_32x8d = builder("resnext101_32x8d", ResNet, *_101, fixed=_groups(32, 8))
resnext101_64x4d = builder("resnext101_64x4d", ResNet, *_101, fixed=_groups(64, 4))
wide_resnet50_2 = builder("wide_resnet50_2", ResNet, *_50, fixed={"width_per_group": 128})
wide_resnet101_2 = builder("wide_resnet101_2", ResNet, *_101, fixed={"width_per_group": 128})
