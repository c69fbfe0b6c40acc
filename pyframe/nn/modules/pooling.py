"""Pooling, as torch.nn.modules.pooling: of (N, C, *spatial) or (C, *spatial)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar

from pyframe.nn import functional as F
from pyframe.nn.modules.module import Module
from pyframe.nn.modules.utils import each, shown
from pyframe.tensor import Tensor

__all__ = [
    "AdaptiveAvgPool1d", "AdaptiveAvgPool2d", "AdaptiveAvgPool3d", "AdaptiveMaxPool1d",
    "AdaptiveMaxPool2d", "AdaptiveMaxPool3d", "AvgPool1d", "AvgPool2d", "AvgPool3d",
    "FractionalMaxPool2d", "FractionalMaxPool3d", "LPPool1d", "LPPool2d", "LPPool3d", "MaxPool1d",
    "MaxPool2d", "MaxPool3d", "MaxUnpool1d", "MaxUnpool2d", "MaxUnpool3d",
]  # fmt: skip


class _Pool(Module):
    """A function of nn.functional over windows or bins of the last dims."""

    _k: ClassVar[int]  # the number of spatial dims
    _pool: ClassVar[Any]


class _MaxPoolNd(_Pool):
    """The largest element of each window."""

    def __init__(
        self, kernel_size: Any, stride: Any = None, padding: Any = 0, dilation: Any = 1,
        return_indices: bool = False, ceil_mode: bool = False,
    ) -> None:  # fmt: skip
        super().__init__()
        self.kernel_size = kernel_size
        self.stride = kernel_size if stride is None else stride
        self.padding, self.dilation = padding, dilation
        self.return_indices, self.ceil_mode = return_indices, ceil_mode

    def forward(self, input: Tensor) -> Tensor:  # with return_indices two of them
        """(N, C, *spatial), and int64 places in each plane with return_indices."""
        return self._pool(
            input, self.kernel_size, self.stride, self.padding, self.dilation, self.ceil_mode,
            self.return_indices,
        )  # fmt: skip

    def extra_repr(self) -> str:
        return shown(self, "kernel_size", "stride", "padding", "dilation", "ceil_mode")


class MaxPool1d(_MaxPoolNd):
    """The largest element of each window: (N, C, L) -> (N, C, L')."""

    _pool = staticmethod(F.max_pool1d)


class MaxPool2d(_MaxPoolNd):
    """The largest element of each window: (N, C, H, W) -> (N, C, H', W')."""

    _pool = staticmethod(F.max_pool2d)


class MaxPool3d(_MaxPoolNd):
    """The largest element of each window: (N, C, D, H, W) -> (N, C, D', H', W')."""

    _pool = staticmethod(F.max_pool3d)


class _MaxUnpoolNd(_Pool):
    """A max pooling undone: each element where its index says, zeros elsewhere."""

    def __init__(self, kernel_size: Any, stride: Any = None, padding: Any = 0) -> None:
        super().__init__()
        self.kernel_size = each(self, "kernel_size", kernel_size, self._k)
        self.stride = each(self, "stride", kernel_size if stride is None else stride, self._k)
        self.padding = each(self, "padding", padding, self._k)

    def forward(
        self, input: Tensor, indices: Tensor, output_size: Sequence[int] | None = None
    ) -> Tensor:
        """The pooled values and their indices -> (N, C, *output_size)."""
        return self._pool(input, indices, self.kernel_size, self.stride, self.padding, output_size)

    def extra_repr(self) -> str:
        return shown(self, "kernel_size", "stride", "padding")


class MaxUnpool1d(_MaxUnpoolNd):
    """MaxPool1d undone: (N, C, L') -> (N, C, L)."""

    _k, _pool = 1, staticmethod(F.max_unpool1d)


class MaxUnpool2d(_MaxUnpoolNd):
    """MaxPool2d undone: (N, C, H', W') -> (N, C, H, W)."""

    _k, _pool = 2, staticmethod(F.max_unpool2d)


class MaxUnpool3d(_MaxUnpoolNd):
    """MaxPool3d undone: (N, C, D', H', W') -> (N, C, D, H, W)."""

    _k, _pool = 3, staticmethod(F.max_unpool3d)


class _AvgPoolNd(_Pool):
    """The mean of each window."""

    def extra_repr(self) -> str:
        return shown(self, "kernel_size", "stride", "padding")


class AvgPool1d(_AvgPoolNd):
    """The mean of each window: (N, C, L) -> (N, C, L')."""

    def __init__(
        self, kernel_size: Any, stride: Any = None, padding: Any = 0, ceil_mode: bool = False,
        count_include_pad: bool = True,
    ) -> None:  # fmt: skip
        super().__init__()
        self.kernel_size = each(self, "kernel_size", kernel_size, 1)
        self.stride = each(self, "stride", kernel_size if stride is None else stride, 1)
        self.padding = each(self, "padding", padding, 1)
        self.ceil_mode, self.count_include_pad = ceil_mode, count_include_pad

    def forward(self, input: Tensor) -> Tensor:
        """(N, C, L) or (C, L)."""
        return F.avg_pool1d(
            input, self.kernel_size, self.stride, self.padding, self.ceil_mode,
            self.count_include_pad,
        )  # fmt: skip


class _AvgPool(_AvgPoolNd):
    """The mean of each window, or its sum divided by `divisor_override`."""

    def __init__(
        self, kernel_size: Any, stride: Any = None, padding: Any = 0, ceil_mode: bool = False,
        count_include_pad: bool = True, divisor_override: int | None = None,
    ) -> None:  # fmt: skip
        super().__init__()
        self.kernel_size = kernel_size
        self.stride = kernel_size if stride is None else stride
        self.padding, self.ceil_mode = padding, ceil_mode
        self.count_include_pad, self.divisor_override = count_include_pad, divisor_override

    def forward(self, input: Tensor) -> Tensor:
        """(N, C, *spatial) or (C, *spatial)."""
        return self._pool(
            input, self.kernel_size, self.stride, self.padding, self.ceil_mode,
            self.count_include_pad, self.divisor_override,
        )  # fmt: skip


class AvgPool2d(_AvgPool):
    """The mean of each window: (N, C, H, W) -> (N, C, H', W')."""

    _pool = staticmethod(F.avg_pool2d)


class AvgPool3d(_AvgPool):
    """The mean of each window: (N, C, D, H, W) -> (N, C, D', H', W')."""

    _pool = staticmethod(F.avg_pool3d)


class _LPPoolNd(_Pool):
    """(sum of x^norm_type)^(1/norm_type) of each window."""

    def __init__(
        self, norm_type: float, kernel_size: Any, stride: Any = None, ceil_mode: bool = False
    ) -> None:
        super().__init__()
        self.norm_type, self.kernel_size = norm_type, kernel_size
        self.stride, self.ceil_mode = stride, ceil_mode

    def forward(self, input: Tensor) -> Tensor:
        """(N, C, *spatial) or (C, *spatial)."""
        return self._pool(
            input, float(self.norm_type), self.kernel_size, self.stride, self.ceil_mode
        )

    def extra_repr(self) -> str:
        return shown(self, "norm_type", "kernel_size", "stride", "ceil_mode")


class LPPool1d(_LPPoolNd):
    """The norm of each window: (N, C, L) -> (N, C, L')."""

    _pool = staticmethod(F.lp_pool1d)


class LPPool2d(_LPPoolNd):
    """The norm of each window: (N, C, H, W) -> (N, C, H', W')."""

    _pool = staticmethod(F.lp_pool2d)


class LPPool3d(_LPPoolNd):
    """The norm of each window: (N, C, D, H, W) -> (N, C, D', H', W')."""

    _pool = staticmethod(F.lp_pool3d)


class _FractionalMaxPoolNd(_Pool):
    """The largest element of windows at random steps (arXiv 1412.6071)."""

    def __init__(
        self, kernel_size: Any, output_size: Any = None, output_ratio: Any = None,
        return_indices: bool = False, _random_samples: Tensor | None = None,
    ) -> None:  # fmt: skip
        super().__init__()
        name, k = type(self).__name__, self._k
        self.kernel_size = each(self, "kernel_size", kernel_size, k)
        if min(self.kernel_size) <= 0:
            raise ValueError(f"{name}: kernel_size must be greater than 0, but got {kernel_size}")
        if (output_size is None) == (output_ratio is None):
            raise ValueError(
                f"{name}: give one of output_size and output_ratio, got {output_size} and "
                f"{output_ratio}"
            )
        self.return_indices = return_indices
        self.register_buffer("_random_samples", _random_samples)
        self.output_size = self.output_ratio = None
        if output_size is not None:
            self.output_size = each(self, "output_size", output_size, k)
        else:
            self.output_ratio = each(self, "output_ratio", output_ratio, k, lambda _, __, x: x)
            if not all(0 < r < 1 for r in self.output_ratio):
                raise ValueError(
                    f"{name}: output_ratio must be between 0 and 1 (got {output_ratio})"
                )

    def forward(self, input: Tensor) -> Tensor:  # with return_indices two of them
        """(N, C, *output_size), and int64 places in each plane with return_indices."""
        return self._pool(
            input, self.kernel_size, self.output_size, self.output_ratio, self.return_indices,
            self._random_samples,
        )  # fmt: skip


class FractionalMaxPool2d(_FractionalMaxPoolNd):
    """The largest element of windows at random steps: (N, C, H, W) -> (N, C, H', W')."""

    _k, _pool = 2, staticmethod(F.fractional_max_pool2d)


class FractionalMaxPool3d(_FractionalMaxPoolNd):
    """The largest element of windows at random steps: (N, C, D, H, W) -> (N, C, D', H', W')."""

    _k, _pool = 3, staticmethod(F.fractional_max_pool3d)


class _AdaptiveMaxPoolNd(_Pool):
    """The largest element of each of `output_size` bins."""

    def __init__(self, output_size: Any, return_indices: bool = False) -> None:
        super().__init__()
        self.output_size, self.return_indices = output_size, return_indices

    def forward(self, input: Tensor) -> Tensor:  # with return_indices two of them
        """(N, C, *output_size), and int64 places in each plane with return_indices."""
        return self._pool(input, self.output_size, self.return_indices)

    def extra_repr(self) -> str:
        return shown(self, "output_size")


class AdaptiveMaxPool1d(_AdaptiveMaxPoolNd):
    """The largest element of each bin: (N, C, L) -> (N, C, output_size)."""

    _pool = staticmethod(F.adaptive_max_pool1d)


class AdaptiveMaxPool2d(_AdaptiveMaxPoolNd):
    """The largest element of each bin: (N, C, H, W) -> (N, C, *output_size)."""

    _pool = staticmethod(F.adaptive_max_pool2d)


class AdaptiveMaxPool3d(_AdaptiveMaxPoolNd):
    """The largest element of each bin: (N, C, D, H, W) -> (N, C, *output_size)."""

    _pool = staticmethod(F.adaptive_max_pool3d)


class _AdaptiveAvgPoolNd(_Pool):
    """The mean of each of `output_size` bins."""

    def __init__(self, output_size: Any) -> None:
        super().__init__()
        self.output_size = output_size

    def forward(self, input: Tensor) -> Tensor:
        """(N, C, *output_size)."""
        return self._pool(input, self.output_size)

    def extra_repr(self) -> str:
        return shown(self, "output_size")


class AdaptiveAvgPool1d(_AdaptiveAvgPoolNd):
    """The mean of each bin: (N, C, L) -> (N, C, output_size)."""

    _pool = staticmethod(F.adaptive_avg_pool1d)


class AdaptiveAvgPool2d(_AdaptiveAvgPoolNd):
    """The mean of each bin: (N, C, H, W) -> (N, C, *output_size)."""

    _pool = staticmethod(F.adaptive_avg_pool2d)


class AdaptiveAvgPool3d(_AdaptiveAvgPoolNd):
    """The mean of each bin: (N, C, D, H, W) -> (N, C, *output_size)."""

    _pool = staticmethod(F.adaptive_avg_pool3d)
