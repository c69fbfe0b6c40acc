"""ResNets of videos (arXiv 1711.11248), as torchvision.models.video.resnet."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

from pyframe import nn
from pyframe.nn import init
from pyframe.tensor import Tensor
from pyframe.vision.models._api import filled, start

__all__ = ["VideoResNet", "mc3_18", "r2plus1d_18", "r3d_18"]


class Conv3DSimple(nn.Conv3d):
    """A convolution of 3 frames and 3x3 pixels."""

    def __init__(
        self, in_planes: int, out_planes: int, midplanes: int | None = None, stride: int = 1,
        padding: int = 1,
    ) -> None:  # fmt: skip
        super().__init__(in_planes, out_planes, 3, stride, padding, bias=False)

    @staticmethod
    def get_downsample_stride(stride: int) -> tuple[int, int, int]:
        """The steps in time, height and width."""
        return stride, stride, stride


class Conv2Plus1D(nn.Sequential):
    """One of 3x3 pixels, and one of 3 frames."""

    def __init__(
        self, in_planes: int, out_planes: int, midplanes: int, stride: int = 1, padding: int = 1
    ) -> None:
        s, p = stride, padding
        super().__init__(
            nn.Conv3d(in_planes, midplanes, (1, 3, 3), (1, s, s), (0, p, p), bias=False),
            nn.BatchNorm3d(midplanes),
            nn.ReLU(inplace=True),
            nn.Conv3d(midplanes, out_planes, (3, 1, 1), (s, 1, 1), (p, 0, 0), bias=False),
        )

    get_downsample_stride = staticmethod(Conv3DSimple.get_downsample_stride)


class Conv3DNoTemporal(nn.Conv3d):
    """One of 3x3 pixels, of each frame alone."""

    def __init__(
        self, in_planes: int, out_planes: int, midplanes: int | None = None, stride: int = 1,
        padding: int = 1,
    ) -> None:  # fmt: skip
        s, p = stride, padding
        super().__init__(in_planes, out_planes, (1, 3, 3), (1, s, s), (0, p, p), bias=False)

    @staticmethod
    def get_downsample_stride(stride: int) -> tuple[int, int, int]:
        """The steps in time, height and width."""
        return 1, stride, stride


class BasicBlock(nn.Module):
    """Two convolutions, as `conv_builder` makes them, beside the input or `downsample` of it."""

    expansion: int = 1

    def __init__(
        self, inplanes: int, planes: int, conv_builder: Callable[..., nn.Module], stride: int = 1,
        downsample: nn.Module | None = None,
    ) -> None:  # fmt: skip
        super().__init__()
        # as many weights in two parts as a whole convolution has
        mid = inplanes * planes * 27 // (inplanes * 9 + 3 * planes)
        first = conv_builder(inplanes, planes, mid, stride)
        self.conv1 = nn.Sequential(first, nn.BatchNorm3d(planes), nn.ReLU(inplace=True))
        self.conv2 = nn.Sequential(conv_builder(planes, planes, mid), nn.BatchNorm3d(planes))
        self.relu = nn.ReLU(inplace=True)
        self.downsample = downsample
        self.stride = stride

    def forward(self, x: Tensor) -> Tensor:
        """(N, inplanes, T, H, W) to (N, planes, T, H, W), each of the last divided by its step."""
        beside = x if self.downsample is None else self.downsample(x)
        return self.relu(self.conv2(self.conv1(x)) + beside)


class BasicStem(nn.Sequential):
    """A convolution of 3 frames and 7x7 pixels."""

    def __init__(self) -> None:
        conv = nn.Conv3d(3, 64, (3, 7, 7), (1, 2, 2), (1, 3, 3), bias=False)
        super().__init__(conv, nn.BatchNorm3d(64), nn.ReLU(inplace=True))


class R2Plus1dStem(nn.Sequential):
    """One of 7x7 pixels, and one of 3 frames."""

    def __init__(self) -> None:
        super().__init__(
            nn.Conv3d(3, 45, (1, 7, 7), (1, 2, 2), (0, 3, 3), bias=False),
            nn.BatchNorm3d(45),
            nn.ReLU(inplace=True),
            nn.Conv3d(45, 64, (3, 1, 1), 1, (1, 0, 0), bias=False),
            nn.BatchNorm3d(64),
            nn.ReLU(inplace=True),
        )


class VideoResNet(nn.Module):
    """Four stages of `layers` blocks each, for videos (N, 3, T, H, W).

    Args:
        block: `BasicBlock`.
        conv_makers: What makes each stage's convolutions, as `Conv3DSimple`.
        stem: What makes the first layers.
    """

    def __init__(
        self, block: type[BasicBlock], conv_makers: Sequence[Any], layers: Sequence[int],
        stem: Callable[[], nn.Module], num_classes: int = 400,
    ) -> None:  # fmt: skip
        super().__init__()
        self.inplanes = 64
        self.stem = stem()
        self.layer1 = self._make_layer(block, conv_makers[0], 64, layers[0], 1)
        self.layer2 = self._make_layer(block, conv_makers[1], 128, layers[1], 2)
        self.layer3 = self._make_layer(block, conv_makers[2], 256, layers[2], 2)
        self.layer4 = self._make_layer(block, conv_makers[3], 512, layers[3], 2)
        self.avgpool = nn.AdaptiveAvgPool3d((1, 1, 1))
        self.fc = nn.Linear(512 * block.expansion, num_classes)
        start(self, linear=partial(init.normal_, std=0.01))

    def _make_layer(
        self, block: type[BasicBlock], conv: Any, planes: int, blocks: int, stride: int
    ) -> nn.Sequential:
        downsample, out = None, planes * block.expansion
        if stride != 1 or self.inplanes != out:
            steps = conv.get_downsample_stride(stride)
            downsample = nn.Sequential(
                nn.Conv3d(self.inplanes, out, 1, steps, bias=False), nn.BatchNorm3d(out)
            )
        stage = [block(self.inplanes, planes, conv, stride, downsample)]
        self.inplanes = out
        return nn.Sequential(*stage, *(block(out, planes, conv) for _ in range(1, blocks)))

    def forward(self, x: Tensor) -> Tensor:
        """Logits (N, num_classes) of videos `x`."""
        x = self.layer4(self.layer3(self.layer2(self.layer1(self.stem(x)))))
        return self.fc(self.avgpool(x).flatten(1))


def _builder(
    name: str, makers: Sequence[Any], stem: Callable[[], nn.Module]
) -> Callable[..., VideoResNet]:
    def build(*, weights: Any = None, progress: bool = True, **options: Any) -> VideoResNet:
        model = VideoResNet(BasicBlock, makers, [2, 2, 2, 2], stem, **options)
        return filled(model, name, weights, progress)

    build.__name__ = build.__qualname__ = name
    build.__doc__ = (
        f"{name}, a VideoResNet of 18 layers. `weights` is a file, a folder with one, or a URL "
        "with a digest.\n\nArgs:\n"
        "    progress: Whether a bar shows how far the download is.\n"
        "    options: Those of the class, as `num_classes`."
    )
    return build


r3d_18 = _builder("r3d_18", [Conv3DSimple] * 4, BasicStem)
mc3_18 = _builder("mc3_18", [Conv3DSimple, *[Conv3DNoTemporal] * 3], BasicStem)
r2plus1d_18 = _builder("r2plus1d_18", [Conv2Plus1D] * 4, R2Plus1dStem)
