"""Layers that put elements elsewhere: dims joined, padding, windows, shuffles, other sizes."""

from __future__ import annotations

from typing import Any, ClassVar

import pyframe as pf
from pyframe.nn import functional as F
from pyframe.nn.modules.fields import Kind, Layer, OneInput, layer
from pyframe.nn.modules.utils import each, shown
from pyframe.tensor import Tensor

__all__ = [
    "ChannelShuffle", "CircularPad1d", "CircularPad2d", "CircularPad3d", "ConstantPad1d",
    "ConstantPad2d", "ConstantPad3d", "Flatten", "Fold", "PixelShuffle", "PixelUnshuffle",
    "ReflectionPad1d", "ReflectionPad2d", "ReflectionPad3d", "ReplicationPad1d", "ReplicationPad2d",
    "ReplicationPad3d", "Unflatten", "Unfold", "Upsample", "UpsamplingBilinear2d",
    "UpsamplingNearest2d", "ZeroPad1d", "ZeroPad2d", "ZeroPad3d",
]  # fmt: skip


@layer()
class Flatten(Layer):
    """Dims start_dim..end_dim joined into one."""

    start_dim: int = 1
    end_dim: int = -1

    def forward(self, input: Tensor) -> Tensor:
        """(N, *) -> (N, prod(*)) by default."""
        if not isinstance(input, Tensor):  # an array has a method of this name too
            pf.flatten(input)
        return input.flatten(self.start_dim, self.end_dim)


@layer()
class Unflatten(Layer):
    """A dim split into several: Flatten undone."""

    dim: int
    unflattened_size: Any

    def _check_fields(self) -> None:
        if not isinstance(self.unflattened_size, (tuple, list)):
            raise TypeError(
                "Unflatten: unflattened_size must be a tuple of ints, but found type "
                f"{type(self.unflattened_size).__name__}"
            )
        for i, n in enumerate(self.unflattened_size):
            if not isinstance(n, int):
                raise TypeError(
                    "Unflatten: unflattened_size must be a tuple of ints, but found element of "
                    f"type {type(n).__name__} at pos {i}"
                )

    def forward(self, input: Tensor) -> Tensor:
        """(*, prod(unflattened_size), *) -> (*, *unflattened_size, *)."""
        return pf.unflatten(input, self.dim, self.unflattened_size)


@layer()
class _PadNd(Layer, Kind):
    """Elements added at both ends of the last `_k` dims: an int, or (left, right, top, bottom, …).
    Negative numbers cut."""

    padding: Any
    _mode: ClassVar[str]

    def _check_fields(self) -> None:
        self.padding = each(self, "padding", self.padding, 2 * self._k)

    def forward(self, input: Tensor) -> Tensor:
        """(N, C, *spatial) or (C, *spatial)."""
        return F.pad(input, self.padding, self._mode)

    def extra_repr(self) -> str:
        return f"{self.padding}"


@layer()
class _ConstantPadNd(_PadNd):
    value: float

    def forward(self, input: Tensor) -> Tensor:
        """(*, *spatial)."""
        return F.pad(input, self.padding, "constant", self.value)

    def extra_repr(self) -> str:
        return shown(self, "padding", "value")


class ConstantPad1d(_ConstantPadNd, k=1):
    """Padding of the last dim with `value`."""


class ConstantPad2d(_ConstantPadNd, k=2):
    """Padding of the last two dims with `value`."""


class ConstantPad3d(_ConstantPadNd, k=3):
    """Padding of the last three dims with `value`."""


class _Zero(_ConstantPadNd):
    def __init__(self, padding: Any) -> None:
        super().__init__(padding, 0.0)

    def extra_repr(self) -> str:
        return f"{self.padding}"


class ZeroPad1d(_Zero, ConstantPad1d):
    """Padding of the last dim with zeros."""


class ZeroPad2d(_Zero, ConstantPad2d):
    """Padding of the last two dims with zeros."""


class ZeroPad3d(_Zero, ConstantPad3d):
    """Padding of the last three dims with zeros."""


class _ReflectionPadNd(_PadNd):
    _mode = "reflect"


class ReflectionPad1d(_ReflectionPadNd, k=1):
    """Padding of the last dim with its mirror image, whose first element is not repeated."""


class ReflectionPad2d(_ReflectionPadNd, k=2):
    """Padding of the last two dims with their mirror images."""


class ReflectionPad3d(_ReflectionPadNd, k=3):
    """Padding of the last three dims with their mirror images."""


class _ReplicationPadNd(_PadNd):
    _mode = "replicate"


class ReplicationPad1d(_ReplicationPadNd, k=1):
    """Padding of the last dim with the element at its edge."""


class ReplicationPad2d(_ReplicationPadNd, k=2):
    """Padding of the last two dims with the elements at their edges."""


class ReplicationPad3d(_ReplicationPadNd, k=3):
    """Padding of the last three dims with the elements at their edges."""


class _CircularPadNd(_PadNd):
    _mode = "circular"

    def forward(self, input: Tensor) -> Tensor:
        """(N, C, *spatial) or (C, *spatial). ValueError for another number of dims."""
        if input.ndim not in (self._k + 1, self._k + 2):
            raise ValueError(
                f"{type(self).__name__}: expected {self._k + 1}D or {self._k + 2}D input (got "
                f"{input.ndim}D input)"
            )
        return super().forward(input)


class CircularPad1d(_CircularPadNd, k=1):
    """Padding of the last dim with what stands at its other end."""


class CircularPad2d(_CircularPadNd, k=2):
    """Padding of the last two dims with what stands at their other ends."""


class CircularPad3d(_CircularPadNd, k=3):
    """Padding of the last three dims with what stands at their other ends."""


@layer(F.fold, "(N, C * kh * kw, positions) or without N -> (N, C, *output_size).")
class Fold(OneInput):
    """Columns added up where their windows lie: (N, C * kh * kw, positions) -> (N, C, H, W)."""

    output_size: Any
    kernel_size: Any
    dilation: Any = 1
    padding: Any = 0
    stride: Any = 1


@layer(F.unfold, "(N, C, H, W) or (C, H, W) -> (N, C * kh * kw, positions).")
class Unfold(OneInput):
    """Windows as columns: (N, C, H, W) -> (N, C * kh * kw, positions)."""

    kernel_size: Any
    dilation: Any = 1
    padding: Any = 0
    stride: Any = 1


@layer(F.channel_shuffle)
class ChannelShuffle(OneInput):
    """Channels of (N, C, *), `groups` groups of them, taken from each group in turn."""

    groups: int


@layer(F.pixel_shuffle, "(*, C * r^2, H, W) -> (*, C, H * r, W * r).")
class PixelShuffle(OneInput):
    """(*, C * r^2, H, W) -> (*, C, H * r, W * r) (arXiv 1609.05158)."""

    upscale_factor: int


@layer(F.pixel_unshuffle, "(*, C, H * r, W * r) -> (*, C * r^2, H, W).")
class PixelUnshuffle(OneInput):
    """(*, C, H * r, W * r) -> (*, C * r^2, H, W): PixelShuffle undone."""

    downscale_factor: int


@layer(F.interpolate, "(N, C, *spatial) -> (N, C, *size).")
class Upsample(OneInput):
    """(N, C, *spatial) at another `size`, or `scale_factor` times as large; mode: nearest,
    nearest-exact, linear, bilinear, bicubic, trilinear or area."""

    size: Any = None
    scale_factor: Any = None
    mode: str = "nearest"
    align_corners: bool | None = None
    recompute_scale_factor: bool | None = None

    def _check_fields(self) -> None:
        self.name = type(self).__name__
        if isinstance(self.scale_factor, tuple):
            self.scale_factor = tuple(map(float, self.scale_factor))
        else:
            self.scale_factor = float(self.scale_factor) if self.scale_factor else None

    def extra_repr(self) -> str:
        which = "size" if self.scale_factor is None else "scale_factor"
        return f"{which}={getattr(self, which)!r}, mode={self.mode!r}"


class UpsamplingNearest2d(Upsample):
    """Upsample in mode 'nearest': (N, C, H, W)."""

    def __init__(self, size: Any = None, scale_factor: Any = None) -> None:
        super().__init__(size, scale_factor)


class UpsamplingBilinear2d(Upsample):
    """Upsample in mode 'bilinear' with align_corners: (N, C, H, W)."""

    def __init__(self, size: Any = None, scale_factor: Any = None) -> None:
        super().__init__(size, scale_factor, "bilinear", True)
