"""Pooling, as torch.nn.modules.pooling: of (N, C, *spatial) or (C, *spatial)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar

from pyframe.nn import functional as F
from pyframe.nn.modules.fields import FieldModule, Kind, layer
from pyframe.nn.modules.utils import each
from pyframe.tensor import Tensor

__all__ = [
    "AdaptiveAvgPool1d", "AdaptiveAvgPool2d", "AdaptiveAvgPool3d", "AdaptiveMaxPool1d",
    "AdaptiveMaxPool2d", "AdaptiveMaxPool3d", "AvgPool1d", "AvgPool2d", "AvgPool3d",
    "FractionalMaxPool2d", "FractionalMaxPool3d", "LPPool1d", "LPPool2d", "LPPool3d", "MaxPool1d",
    "MaxPool2d", "MaxPool3d", "MaxUnpool1d", "MaxUnpool2d", "MaxUnpool3d",
]  # fmt: skip


@layer()
class _Windows(FieldModule, Kind):
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
    """The largest element of each window of one dim: (N, C, L) or (C, L) -> (N, C, L'). Sizes and
    arguments are MaxPool2d's, with one number for each dim of space.

    >>> nn.MaxPool1d(2)(pf.tensor([[1.0, 3.0, 2.0, 0.0]]))
    tensor([[3., 2.]])
    """


@layer(F.max_pool2d)
class MaxPool2d(_MaxPoolNd):
    """The largest element of each window: (N, C, H, W) or (C, H, W) -> (N, C, H', W'), where H' =
    ⌊(H + 2 padding - dilation (kernel_size - 1) - 1) / stride⌋ + 1, and W' likewise.

    Args:
        kernel_size: the size of a window, as all below an int or a tuple of one for each dim.
        stride: how far windows lie apart; None is kernel_size, so that they lie beside each other.
        padding: how many elements of -inf are added at both ends of each dim, at most half a
            window.
        dilation: how far the elements of a window lie apart.
        return_indices: whether to give (values, places), int64 places in each plane, H * W elements
            in a row, as MaxUnpool2d takes them.
        ceil_mode: whether H' is rounded up, so that a last window may reach over the end.

    Raises:
        RuntimeError: when called, if `padding` is more than half a window, or H' would be 0.

    >>> nn.MaxPool2d(2)(pf.arange(16.0).reshape(1, 4, 4)).tolist()
    [[[5.0, 7.0], [13.0, 15.0]]]
    """


@layer(F.max_pool3d)
class MaxPool3d(_MaxPoolNd):
    """The largest element of each window of three dims: (N, C, D, H, W), or without N ->
    (N, C, D', H', W'). Sizes and arguments are MaxPool2d's, with three numbers.

    >>> nn.MaxPool3d(2)(pf.randn(1, 3, 4, 6, 8)).shape
    pyframe.Size([1, 3, 2, 3, 4])
    """


class _MaxUnpoolNd(_Windows):
    """A max pooling undone: each element where its index says, zeros elsewhere."""

    def forward(  # type: ignore[override]
        self, input: Tensor, indices: Tensor, output_size: Sequence[int] | None = None
    ) -> Tensor:
        """The pooled values and their indices -> (N, C, *output_size)."""
        sizes = self.kernel_size, self.stride, self.padding
        return self._function(input, indices, *sizes, output_size)


class MaxUnpool1d(_MaxUnpoolNd, k=1, function=F.max_unpool1d):
    """MaxPool1d undone: (N, C, L') -> (N, C, L). Arguments are MaxUnpool2d's.

    >>> values, places = nn.MaxPool1d(2, return_indices=True)(pf.tensor([[1.0, 3.0, 2.0, 0.0]]))
    >>> nn.MaxUnpool1d(2)(values, places)
    tensor([[0., 3., 2., 0.]])
    """


class MaxUnpool2d(_MaxUnpoolNd, k=2, function=F.max_unpool2d):
    """MaxPool2d undone, as far as can be: each element goes where its index says, zeros stand
    elsewhere. (N, C, H', W') or (C, H', W') -> (N, C, H, W), H = (H' - 1) stride - 2 padding +
    kernel_size.

    Called as layer(values, places), which MaxPool2d gives with `return_indices`, and with an
    `output_size` (H, W) where another size of those that are pooled to H' is meant. Arguments are
    those that MaxPool2d had.

    Args:
        kernel_size, stride, padding: those of the MaxPool2d.

    Raises:
        RuntimeError: when called with a place outside the output; on a GPU when a value is next
            read.
        ValueError: when called with an `output_size` that isn't near enough.

    >>> values, places = nn.MaxPool2d(2, return_indices=True)(pf.arange(4.0).reshape(1, 2, 2))
    >>> nn.MaxUnpool2d(2)(values, places).tolist()
    [[[0.0, 0.0], [0.0, 3.0]]]
    """


class MaxUnpool3d(_MaxUnpoolNd, k=3, function=F.max_unpool3d):
    """MaxPool3d undone: (N, C, D', H', W') -> (N, C, D, H, W). Arguments are MaxUnpool2d's.

    >>> values, places = nn.MaxPool3d(2, return_indices=True)(pf.randn(1, 1, 4, 4, 4))
    >>> nn.MaxUnpool3d(2)(values, places).shape
    pyframe.Size([1, 1, 4, 4, 4])
    """


@layer(F.avg_pool1d, "(N, C, L) or (C, L).")
class AvgPool1d(_Windows, k=1):
    """The mean of each window of one dim: (N, C, L) or (C, L) -> (N, C, L'). Sizes and arguments
    are AvgPool2d's, with one number for each dim of space; there is no `divisor_override`.

    >>> nn.AvgPool1d(2)(pf.tensor([[1.0, 3.0, 2.0, 0.0]]))
    tensor([[2., 1.]])
    """

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
    """The mean of each window: (N, C, H, W) or (C, H, W) -> (N, C, H', W'), where H' =
    ⌊(H + 2 padding - kernel_size) / stride⌋ + 1, and W' likewise.

    Args:
        kernel_size: the size of a window, as all below an int or a tuple of one for each dim.
        stride: how far windows lie apart; None is kernel_size, so that they lie beside each other.
        padding: how many zeros are added at both ends of each dim, at most half a window.
        ceil_mode: whether H' is rounded up, so that a last window may reach over the end.
        count_include_pad: whether those zeros count as elements.
        divisor_override: what sums are divided by instead of the number of elements.

    Raises:
        RuntimeError: when called, if `padding` is more than half a window, or H' would be 0.

    >>> nn.AvgPool2d(2)(pf.arange(16.0).reshape(1, 4, 4)).tolist()
    [[[2.5, 4.5], [10.5, 12.5]]]
    """


@layer(F.avg_pool3d)
class AvgPool3d(_AvgPool):
    """The mean of each window of three dims: (N, C, D, H, W), or without N -> (N, C, D', H', W').
    Sizes and arguments are AvgPool2d's, with three numbers.

    >>> nn.AvgPool3d(2)(pf.randn(1, 3, 4, 6, 8)).shape
    pyframe.Size([1, 3, 2, 3, 4])
    """


@layer()
class _LPPoolNd(FieldModule, Kind):
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
    """The p-norm of each window of one dim: (N, C, L) or (C, L) -> (N, C, L'). Formula and
    arguments are LPPool2d's.

    >>> nn.LPPool1d(2, 2)(pf.tensor([[3.0, 4.0, 6.0, 8.0]]))
    tensor([[ 5., 10.]])
    """


class LPPool2d(_LPPoolNd, function=F.lp_pool2d):
    """A p-norm of each window: (Σ xᵖ)^(1/p), (N, C, H, W) or (C, H, W) -> (N, C, H', W'), where H'
    = ⌊(H - kernel_size) / stride⌋ + 1, and W' likewise.

    Args:
        norm_type: p, 1 for the sum of each window; towards inf it is the largest element.
        kernel_size: the size of a window, an int or a tuple of one for each dim.
        stride: how far windows lie apart; None is kernel_size, so that they lie beside each other.
        ceil_mode: whether H' is rounded up, so that a last window may reach over the end.

    >>> nn.LPPool2d(2, 2)(pf.ones(1, 4, 4)).tolist()
    [[[2.0, 2.0], [2.0, 2.0]]]
    """


class LPPool3d(_LPPoolNd, function=F.lp_pool3d):
    """The p-norm of each window of three dims: (N, C, D, H, W), or without N -> (N, C, D', H', W').
    Formula and arguments are LPPool2d's, with three numbers.

    >>> nn.LPPool3d(2, 2)(pf.randn(1, 3, 4, 6, 8).abs()).shape
    pyframe.Size([1, 3, 2, 3, 4])
    """


class _Largest(FieldModule):
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
    """The largest element of windows that begin at random steps, so that sizes shrink by any ratio
    (arXiv 1412.6071): (N, C, H, W) or (C, H, W) -> (N, C, *output_size).

    Args:
        kernel_size: the size of a window, an int or a tuple of one for each dim.
        output_size: the size of the result, an int or a tuple.
        output_ratio: the same as a share of the input's, between 0 and 1. One of the two is given.
        return_indices: whether to give (values, places), int64 places in each plane.

    Raises:
        ValueError: both of `output_size` and `output_ratio` are given, or none, or a ratio is out
            of range.

    >>> nn.FractionalMaxPool2d(2, output_ratio=0.75)(pf.randn(1, 3, 8, 12)).shape
    pyframe.Size([1, 3, 6, 9])
    """


@layer(F.fractional_max_pool3d)
class FractionalMaxPool3d(_FractionalMaxPoolNd, k=3):
    """The largest element of windows that begin at random steps: (N, C, D, H, W), or without N ->
    (N, C, *output_size). Arguments are FractionalMaxPool2d's, with three numbers.

    >>> nn.FractionalMaxPool3d(2, output_size=(3, 5, 6))(pf.randn(1, 3, 4, 8, 8)).shape
    pyframe.Size([1, 3, 3, 5, 6])
    """


@layer()
class _AdaptiveMaxPoolNd(_Largest):
    """The largest element of each of `output_size` bins."""

    output_size: Any
    return_indices: bool = False
    __shown__ = ("output_size",)


@layer(F.adaptive_max_pool1d)
class AdaptiveMaxPool1d(_AdaptiveMaxPoolNd):
    """The largest element of each of `output_size` bins: (N, C, L) or (C, L) ->
    (N, C, output_size). Bins and arguments are AdaptiveMaxPool2d's.

    >>> nn.AdaptiveMaxPool1d(2)(pf.tensor([[1.0, 3.0, 2.0, 0.0]]))
    tensor([[3., 2.]])
    """


@layer(F.adaptive_max_pool2d)
class AdaptiveMaxPool2d(_AdaptiveMaxPoolNd):
    """The largest element of each bin: (N, C, H, W) or (C, H, W) -> (N, C, *output_size), whatever
    H and W. Bin i of n is elements ⌊i H / n⌋ to ⌈(i + 1) H / n⌉ - 1 of a dim.

    Args:
        output_size: how many bins a dim has, an int or a tuple of one for each dim, in which None
            leaves a dim's size.
        return_indices: whether to give (values, places), int64 places in each plane.

    >>> nn.AdaptiveMaxPool2d((2, None))(pf.randn(1, 3, 7, 9)).shape
    pyframe.Size([1, 3, 2, 9])
    """


@layer(F.adaptive_max_pool3d)
class AdaptiveMaxPool3d(_AdaptiveMaxPoolNd):
    """The largest element of each bin: (N, C, D, H, W), or without N -> (N, C, *output_size). Bins
    and arguments are AdaptiveMaxPool2d's, with three numbers.

    >>> nn.AdaptiveMaxPool3d(2)(pf.randn(1, 3, 4, 7, 9)).shape
    pyframe.Size([1, 3, 2, 2, 2])
    """


@layer()
class _AdaptiveAvgPoolNd(FieldModule):
    """The mean of each of `output_size` bins."""

    output_size: Any

    def forward(self, input: Tensor) -> Tensor:
        """(N, C, *output_size)."""
        raise NotImplementedError


@layer(F.adaptive_avg_pool1d)
class AdaptiveAvgPool1d(_AdaptiveAvgPoolNd):
    """The mean of each of `output_size` bins: (N, C, L) or (C, L) -> (N, C, output_size). Bins are
    AdaptiveAvgPool2d's.

    >>> nn.AdaptiveAvgPool1d(2)(pf.tensor([[1.0, 3.0, 2.0, 0.0]]))
    tensor([[2., 1.]])
    """


@layer(F.adaptive_avg_pool2d)
class AdaptiveAvgPool2d(_AdaptiveAvgPoolNd):
    """The mean of each bin: (N, C, H, W) or (C, H, W) -> (N, C, *output_size), whatever H and W.
    Bin i of n is elements ⌊i H / n⌋ to ⌈(i + 1) H / n⌉ - 1 of a dim.

    Args:
        output_size: how many bins a dim has, an int or a tuple of one for each dim, in which None
            leaves a dim's size. 1 gives the mean of each channel.

    >>> nn.AdaptiveAvgPool2d(1)(pf.randn(1, 3, 7, 9)).shape
    pyframe.Size([1, 3, 1, 1])
    """


@layer(F.adaptive_avg_pool3d)
class AdaptiveAvgPool3d(_AdaptiveAvgPoolNd):
    """The mean of each bin: (N, C, D, H, W), or without N -> (N, C, *output_size). Bins are
    AdaptiveAvgPool2d's, with three numbers.

    >>> nn.AdaptiveAvgPool3d((1, 2, None))(pf.randn(1, 3, 4, 7, 9)).shape
    pyframe.Size([1, 3, 1, 2, 9])
    """
