"""Pooling, as torch.nn.modules.pooling: of (N, C, *spatial) or (C, *spatial)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar

from pyframe.nn import functional as F
from pyframe.nn.modules.fields import Kind, Layer, layer
from pyframe.nn.modules.utils import each
from pyframe.tensor import Tensor

__all__ = [
    "AdaptiveAvgPool1d", "AdaptiveAvgPool2d", "AdaptiveAvgPool3d", "AdaptiveMaxPool1d",
    "AdaptiveMaxPool2d", "AdaptiveMaxPool3d", "AvgPool1d", "AvgPool2d", "AvgPool3d",
    "FractionalMaxPool2d", "FractionalMaxPool3d", "LPPool1d", "LPPool2d", "LPPool3d", "MaxPool1d",
    "MaxPool2d", "MaxPool3d", "MaxUnpool1d", "MaxUnpool2d", "MaxUnpool3d",
]  # fmt: skip


@layer()
class _Windows(Layer, Kind):
    """A function of nn.functional over windows of the last dims, by default beside each other."""

    kernel_size: Any
    stride: Any = None
    padding: Any = 0
    __shown__: ClassVar[tuple[str, ...]] = ("kernel_size", "stride", "padding")

    def _check_fields(self) -> None:
        if self.stride is None:
            self.stride = self.kernel_size
        if self._k is not None:  # then they are tuples
            for name in ("kernel_size", "stride", "padding"):
                setattr(self, name, each(self, name, getattr(self, name), self._k))

    def forward(self, input: Tensor) -> Tensor:
        """(N, C, *spatial) or (C, *spatial)."""
        raise NotImplementedError


@layer()
class _MaxPoolNd(_Windows):
    """The largest element of each window."""

    dilation: Any = 1
    return_indices: bool = False
    ceil_mode: bool = False
    __shown__ = ("kernel_size", "stride", "padding", "dilation", "ceil_mode")

    def forward(self, input: Tensor) -> Tensor:  # with return_indices two of them
        """(N, C, *spatial), and int64 places in each plane with return_indices."""
        raise NotImplementedError


@layer(F.max_pool1d)
class MaxPool1d(_MaxPoolNd):
    """The largest element of each window: (N, C, L) -> (N, C, L')."""


@layer(F.max_pool2d)
class MaxPool2d(_MaxPoolNd):
    """The largest element of each window: (N, C, H, W) -> (N, C, H', W')."""


@layer(F.max_pool3d)
class MaxPool3d(_MaxPoolNd):
    """The largest element of each window: (N, C, D, H, W) -> (N, C, D', H', W')."""


class _MaxUnpoolNd(_Windows):
    """A max pooling undone: each element where its index says, zeros elsewhere."""

    def forward(  # type: ignore[override]
        self, input: Tensor, indices: Tensor, output_size: Sequence[int] | None = None
    ) -> Tensor:
        """The pooled values and their indices -> (N, C, *output_size)."""
        sizes = self.kernel_size, self.stride, self.padding
        return self._function(input, indices, *sizes, output_size)


class MaxUnpool1d(_MaxUnpoolNd, k=1, function=F.max_unpool1d):
    """MaxPool1d undone: (N, C, L') -> (N, C, L)."""


class MaxUnpool2d(_MaxUnpoolNd, k=2, function=F.max_unpool2d):
    """MaxPool2d undone: (N, C, H', W') -> (N, C, H, W)."""


class MaxUnpool3d(_MaxUnpoolNd, k=3, function=F.max_unpool3d):
    """MaxPool3d undone: (N, C, D', H', W') -> (N, C, D, H, W)."""


@layer(F.avg_pool1d, "(N, C, L) or (C, L).")
class AvgPool1d(_Windows, k=1):
    """The mean of each window: (N, C, L) -> (N, C, L')."""

    ceil_mode: bool = False
    count_include_pad: bool = True


@layer()
class _AvgPool(_Windows):
    """The mean of each window, or its sum divided by `divisor_override`."""

    ceil_mode: bool = False
    count_include_pad: bool = True
    divisor_override: int | None = None


@layer(F.avg_pool2d)
class AvgPool2d(_AvgPool):
    """The mean of each window: (N, C, H, W) -> (N, C, H', W')."""


@layer(F.avg_pool3d)
class AvgPool3d(_AvgPool):
    """The mean of each window: (N, C, D, H, W) -> (N, C, D', H', W')."""


@layer()
class _LPPoolNd(Layer, Kind):
    """(sum of x^norm_type)^(1/norm_type) of each window."""

    norm_type: float
    kernel_size: Any
    stride: Any = None
    ceil_mode: bool = False

    def forward(self, input: Tensor) -> Tensor:
        """(N, C, *spatial) or (C, *spatial)."""
        return self._function(
            input, float(self.norm_type), self.kernel_size, self.stride, self.ceil_mode
        )


class LPPool1d(_LPPoolNd, function=F.lp_pool1d):
    """The norm of each window: (N, C, L) -> (N, C, L')."""


class LPPool2d(_LPPoolNd, function=F.lp_pool2d):
    """The norm of each window: (N, C, H, W) -> (N, C, H', W')."""


class LPPool3d(_LPPoolNd, function=F.lp_pool3d):
    """The norm of each window: (N, C, D, H, W) -> (N, C, D', H', W')."""


class _Largest(Layer):
    """The largest element of each of some windows or bins."""

    def forward(self, input: Tensor) -> Tensor:  # with return_indices two of them
        """(N, C, *output_size), and int64 places in each plane with return_indices."""
        raise NotImplementedError


@layer()
class _FractionalMaxPoolNd(_Largest, Kind):
    """The largest element of windows at random steps (arXiv 1412.6071)."""

    kernel_size: Any
    output_size: Any = None
    output_ratio: Any = None
    return_indices: bool = False
    _random_samples: Tensor | None = None
    __shown__ = ()

    def _check_fields(self) -> None:
        name, k, size, ratio = type(self).__name__, self._k, self.output_size, self.output_ratio
        kernel, self.kernel_size = self.kernel_size, each(self, "kernel_size", self.kernel_size, k)
        if min(self.kernel_size) <= 0:
            raise ValueError(f"{name}: kernel_size must be greater than 0, but got {kernel}")
        if (size is None) == (ratio is None):
            raise ValueError(
                f"{name}: give one of output_size and output_ratio, got {size} and {ratio}"
            )
        if size is not None:
            self.output_size = each(self, "output_size", size, k)
        else:
            self.output_ratio = each(self, "output_ratio", ratio, k, lambda _, __, x: x)
            if not all(0 < r < 1 for r in self.output_ratio):
                raise ValueError(f"{name}: output_ratio must be between 0 and 1 (got {ratio})")


@layer(F.fractional_max_pool2d)
class FractionalMaxPool2d(_FractionalMaxPoolNd, k=2):
    """The largest element of windows at random steps: (N, C, H, W) -> (N, C, H', W')."""


@layer(F.fractional_max_pool3d)
class FractionalMaxPool3d(_FractionalMaxPoolNd, k=3):
    """The largest element of windows at random steps: (N, C, D, H, W) -> (N, C, D', H', W')."""


@layer()
class _AdaptiveMaxPoolNd(_Largest):
    """The largest element of each of `output_size` bins."""

    output_size: Any
    return_indices: bool = False
    __shown__ = ("output_size",)


@layer(F.adaptive_max_pool1d)
class AdaptiveMaxPool1d(_AdaptiveMaxPoolNd):
    """The largest element of each bin: (N, C, L) -> (N, C, output_size)."""


@layer(F.adaptive_max_pool2d)
class AdaptiveMaxPool2d(_AdaptiveMaxPoolNd):
    """The largest element of each bin: (N, C, H, W) -> (N, C, *output_size)."""


@layer(F.adaptive_max_pool3d)
class AdaptiveMaxPool3d(_AdaptiveMaxPoolNd):
    """The largest element of each bin: (N, C, D, H, W) -> (N, C, *output_size)."""


@layer()
class _AdaptiveAvgPoolNd(Layer):
    """The mean of each of `output_size` bins."""

    output_size: Any

    def forward(self, input: Tensor) -> Tensor:
        """(N, C, *output_size)."""
        raise NotImplementedError


@layer(F.adaptive_avg_pool1d)
class AdaptiveAvgPool1d(_AdaptiveAvgPoolNd):
    """The mean of each bin: (N, C, L) -> (N, C, output_size)."""


@layer(F.adaptive_avg_pool2d)
class AdaptiveAvgPool2d(_AdaptiveAvgPoolNd):
    """The mean of each bin: (N, C, H, W) -> (N, C, *output_size)."""


@layer(F.adaptive_avg_pool3d)
class AdaptiveAvgPool3d(_AdaptiveAvgPoolNd):
    """The mean of each bin: (N, C, D, H, W) -> (N, C, *output_size)."""
