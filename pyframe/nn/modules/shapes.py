"""Layers that put elements elsewhere: dims joined, padding, windows, shuffles, other sizes."""

from __future__ import annotations

from typing import Any, ClassVar

import pyframe as pf
from pyframe.nn import functional as F
from pyframe.nn.modules.fields import FieldModule, Kind, OneInput, layer
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
class Flatten(FieldModule):
    """Joins the dims from start_dim to end_dim into one: (N, C, H, W) -> (N, C * H * W) by default.

    Args:
        start_dim, end_dim: the first and the last dim that are joined; negative ones count from the
            end.

    >>> nn.Flatten()(pf.randn(32, 1, 5, 5)).shape
    pyframe.Size([32, 25])
    """

    start_dim: int = 1
    end_dim: int = -1

    def forward(self, input: Tensor) -> Tensor:
        """(N, *) -> (N, prod(*)) by default."""
        if not isinstance(input, Tensor):  # an array has a method of this name too
            pf.flatten(input)
        return input.flatten(self.start_dim, self.end_dim)


@layer()
class Unflatten(FieldModule):
    """Splits a dim into several: Flatten undone.

    Args:
        dim: the dim to split.
        unflattened_size: its sizes then, a tuple or list of ints, one of which may be -1.

    Raises:
        TypeError: `unflattened_size` is something else.

    >>> nn.Unflatten(1, (2, 5, 5))(pf.randn(32, 50)).shape
    pyframe.Size([32, 2, 5, 5])
    """

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
class _PadNd(FieldModule, Kind):
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
    """Adds elements at both ends of the last dim of (*, L): `value`.

    >>> nn.ConstantPad1d(2, 9.0)(pf.tensor([[1.0, 2.0, 3.0]]))
    tensor([[9., 9., 1., 2., 3., 9., 9.]])
    """


class ConstantPad2d(_ConstantPadNd, k=2):
    """Adds elements at both ends of the last two dims of (*, H, W): `value`.

    >>> nn.ConstantPad2d((1, 0, 1, 0), 9.0)(pf.tensor([[[1.0, 2.0], [3.0, 4.0]]])).tolist()
    [[[9.0, 9.0, 9.0], [9.0, 1.0, 2.0], [9.0, 3.0, 4.0]]]
    """


class ConstantPad3d(_ConstantPadNd, k=3):
    """Adds elements at both ends of the last three dims of (*, D, H, W): `value`.

    >>> nn.ConstantPad3d(1, 9.0)(pf.randn(1, 2, 3, 4, 5)).shape
    pyframe.Size([1, 2, 5, 6, 7])
    """


class _Zero(_ConstantPadNd):
    def __init__(self, padding: Any) -> None:
        super().__init__(padding, 0.0)

    def extra_repr(self) -> str:
        return f"{self.padding}"


class ZeroPad1d(_Zero, ConstantPad1d):
    """Adds elements at both ends of the last dim of (*, L): zeros.

    >>> nn.ZeroPad1d(2)(pf.tensor([[1.0, 2.0, 3.0]]))
    tensor([[0., 0., 1., 2., 3., 0., 0.]])
    """


class ZeroPad2d(_Zero, ConstantPad2d):
    """Adds elements at both ends of the last two dims of (*, H, W): zeros.

    >>> nn.ZeroPad2d((1, 0, 1, 0))(pf.tensor([[[1.0, 2.0], [3.0, 4.0]]])).tolist()
    [[[0.0, 0.0, 0.0], [0.0, 1.0, 2.0], [0.0, 3.0, 4.0]]]
    """


class ZeroPad3d(_Zero, ConstantPad3d):
    """Adds elements at both ends of the last three dims of (*, D, H, W): zeros.

    >>> nn.ZeroPad3d(1)(pf.randn(1, 2, 3, 4, 5)).shape
    pyframe.Size([1, 2, 5, 6, 7])
    """


class _ReflectionPadNd(_PadNd):
    _mode = "reflect"


class ReflectionPad1d(_ReflectionPadNd, k=1):
    """Adds elements at both ends of the last dim of (N, C, L) or (C, L): its mirror image, in which
    the element at the edge is not repeated.

    Raises:
        RuntimeError: when called, if they are more than the dim has less one.

    >>> nn.ReflectionPad1d(2)(pf.tensor([[1.0, 2.0, 3.0]]))
    tensor([[3., 2., 1., 2., 3., 2., 1.]])
    """


class ReflectionPad2d(_ReflectionPadNd, k=2):
    """Adds elements at both ends of the last two dims of (N, C, H, W) or (C, H, W): their mirror
    image, in which the element at the edge is not repeated.

    Raises:
        RuntimeError: when called, if they are more than the dim has less one.

    >>> nn.ReflectionPad2d((1, 0, 1, 0))(pf.tensor([[[1.0, 2.0], [3.0, 4.0]]])).tolist()
    [[[4.0, 3.0, 4.0], [2.0, 1.0, 2.0], [4.0, 3.0, 4.0]]]
    """


class ReflectionPad3d(_ReflectionPadNd, k=3):
    """Adds elements at both ends of the last three dims of (N, C, D, H, W) or (C, D, H, W): their
    mirror image, in which the element at the edge is not repeated.

    Raises:
        RuntimeError: when called, if they are more than the dim has less one.

    >>> nn.ReflectionPad3d(1)(pf.randn(1, 2, 3, 4, 5)).shape
    pyframe.Size([1, 2, 5, 6, 7])
    """


class _ReplicationPadNd(_PadNd):
    _mode = "replicate"


class ReplicationPad1d(_ReplicationPadNd, k=1):
    """Adds elements at both ends of the last dim of (N, C, L) or (C, L): the element at the edge,
    repeated.

    >>> nn.ReplicationPad1d(2)(pf.tensor([[1.0, 2.0, 3.0]]))
    tensor([[1., 1., 1., 2., 3., 3., 3.]])
    """


class ReplicationPad2d(_ReplicationPadNd, k=2):
    """Adds elements at both ends of the last two dims of (N, C, H, W) or (C, H, W): the element at
    the edge, repeated.

    >>> nn.ReplicationPad2d((1, 0, 1, 0))(pf.tensor([[[1.0, 2.0], [3.0, 4.0]]])).tolist()
    [[[1.0, 1.0, 2.0], [1.0, 1.0, 2.0], [3.0, 3.0, 4.0]]]
    """


class ReplicationPad3d(_ReplicationPadNd, k=3):
    """Adds elements at both ends of the last three dims of (N, C, D, H, W) or (C, D, H, W): the
    element at the edge, repeated.

    >>> nn.ReplicationPad3d(1)(pf.randn(1, 2, 3, 4, 5)).shape
    pyframe.Size([1, 2, 5, 6, 7])
    """


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
    """Adds elements at both ends of the last dim of (N, C, L) or (C, L): what stands at the other
    end.

    Raises:
        RuntimeError: when called, if they are more than the dim has.

    >>> nn.CircularPad1d(2)(pf.tensor([[1.0, 2.0, 3.0]]))
    tensor([[2., 3., 1., 2., 3., 1., 2.]])
    """


class CircularPad2d(_CircularPadNd, k=2):
    """Adds elements at both ends of the last two dims of (N, C, H, W) or (C, H, W): what stands at
    the other end.

    Raises:
        RuntimeError: when called, if they are more than the dim has.

    >>> nn.CircularPad2d((1, 0, 1, 0))(pf.tensor([[[1.0, 2.0], [3.0, 4.0]]])).tolist()
    [[[4.0, 3.0, 4.0], [2.0, 1.0, 2.0], [4.0, 3.0, 4.0]]]
    """


class CircularPad3d(_CircularPadNd, k=3):
    """Adds elements at both ends of the last three dims of (N, C, D, H, W) or (C, D, H, W): what
    stands at the other end.

    Raises:
        RuntimeError: when called, if they are more than the dim has.

    >>> nn.CircularPad3d(1)(pf.randn(1, 2, 3, 4, 5)).shape
    pyframe.Size([1, 2, 5, 6, 7])
    """


@layer(F.fold, "(N, C * kh * kw, positions) or without N -> (N, C, *output_size).")
class Fold(OneInput):
    """Columns, each a window's elements, added up where their windows lie: Unfold backwards.

    (N, C * kh * kw, positions), or without N, gives (N, C, *output_size), where positions is the
    number of windows (kh, kw) that Unfold takes of that size. An element in several windows is
    their sum.

    Args:
        output_size: the size (H, W) of the result.
        kernel_size: the size of a window, as all below an int or a tuple of one for each dim.
        dilation: how far the elements of a window lie apart.
        padding: how many elements at both ends of each dim are left out of the result.
        stride: how far windows lie apart.

    Raises:
        RuntimeError: when called with another number of positions.

    >>> nn.Fold((2, 3), (2, 2))(pf.ones(1, 4, 2)).tolist()
    [[[[1.0, 2.0, 1.0], [1.0, 2.0, 1.0]]]]
    """

    output_size: Any
    kernel_size: Any
    dilation: Any = 1
    padding: Any = 0
    stride: Any = 1


@layer(F.unfold, "(N, C, H, W) or (C, H, W) -> (N, C * kh * kw, positions).")
class Unfold(OneInput):
    """Windows as columns (im2col): (N, C, H, W) or (C, H, W) -> (N, C * kh * kw, positions), a
    column for each of the windows (kh, kw), of which there are as many as a Conv2d has outputs.

    Args:
        kernel_size: the size of a window, as all below an int or a tuple of one for each dim.
        dilation: how far the elements of a window lie apart.
        padding: how many zeros are added at both ends of each dim.
        stride: how far windows lie apart.

    >>> nn.Unfold(2)(pf.arange(6.0).reshape(1, 2, 3)).tolist()
    [[0.0, 1.0], [1.0, 2.0], [3.0, 4.0], [4.0, 5.0]]
    """

    kernel_size: Any
    dilation: Any = 1
    padding: Any = 0
    stride: Any = 1


@layer(F.channel_shuffle)
class ChannelShuffle(OneInput):
    """The channels of (N, C, *) taken from each of `groups` groups in turn, so that groups of a
    convolution see each other's (arXiv 1707.01083). The shape stays.

    Raises:
        RuntimeError: when called with channels that `groups` doesn't divide.

    >>> nn.ChannelShuffle(2)(pf.arange(4.0).reshape(1, 4, 1)).flatten()
    tensor([0., 2., 1., 3.])
    """

    groups: int


@layer(F.pixel_shuffle, "(*, C * r^2, H, W) -> (*, C, H * r, W * r).")
class PixelShuffle(OneInput):
    """Channels as pixels: (*, C r², H, W) -> (*, C, H r, W r), r being upscale_factor. Pixel (y, x)
    is of channel c r² + r (y % r) + x % r (arXiv 1609.05158).

    Args:
        upscale_factor: how many times as high and wide the result is.

    Raises:
        RuntimeError: when called with channels that r² doesn't divide.

    >>> nn.PixelShuffle(2)(pf.arange(4.0).reshape(1, 4, 1, 1)).tolist()
    [[[[0.0, 1.0], [2.0, 3.0]]]]
    """

    upscale_factor: int


@layer(F.pixel_unshuffle, "(*, C, H * r, W * r) -> (*, C * r^2, H, W).")
class PixelUnshuffle(OneInput):
    """Pixels as channels, PixelShuffle undone: (*, C, H r, W r) -> (*, C r², H, W), r being
    downscale_factor.

    Args:
        downscale_factor: how many times less high and wide the result is.

    Raises:
        RuntimeError: when called with a height or width that r doesn't divide.

    >>> nn.PixelUnshuffle(2)(pf.randn(1, 1, 6, 4)).shape
    pyframe.Size([1, 4, 3, 2])
    """

    downscale_factor: int


@layer(F.interpolate, "(N, C, *spatial) -> (N, C, *size).")
class Upsample(OneInput):
    """An image, or what has one or three dims of space, at another size: (N, C, *spatial) ->
    (N, C, *size).

    Args:
        size: the size of the result, an int or a tuple.
        scale_factor: how many times as large it is, a number or a tuple. One of the two is given.
        mode: 'nearest', 'nearest-exact' (of pixels' centres), 'linear' of (N, C, L), 'bilinear' or
            'bicubic' of (N, C, H, W), 'trilinear' of (N, C, D, H, W), or 'area', the mean of bins.
        align_corners: whether the centres of the corners' pixels stay, rather than the outer edges;
            of the modes between 'linear' and 'trilinear' alone.
        recompute_scale_factor: whether pixels lie as far apart as the sizes say, rather than as
            `scale_factor` does, which differs where the size was rounded.

    Raises:
        ValueError: when called, if both of `size` and `scale_factor` are given, or none.
        NotImplementedError: when called, if the mode is of another number of dims.

    >>> nn.Upsample(scale_factor=2)(pf.tensor([[[1.0, 2.0]]]))
    tensor([[[1., 1., 2., 2.]]])
    """

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
    """Upsample in mode 'nearest': (N, C, H, W) -> (N, C, *size). Arguments are Upsample's.

    >>> nn.UpsamplingNearest2d(scale_factor=2)(pf.randn(1, 3, 4, 5)).shape
    pyframe.Size([1, 3, 8, 10])
    """

    def __init__(self, size: Any = None, scale_factor: Any = None) -> None:
        super().__init__(size, scale_factor)


class UpsamplingBilinear2d(Upsample):
    """Upsample in mode 'bilinear', with align_corners: (N, C, H, W) -> (N, C, *size). Arguments are
    Upsample's.

    >>> nn.UpsamplingBilinear2d(size=(2, 3))(pf.tensor([[[[0.0, 1.0], [2.0, 3.0]]]])).tolist()
    [[[[0.0, 0.5, 1.0], [2.0, 2.5, 3.0]]]]
    """

    def __init__(self, size: Any = None, scale_factor: Any = None) -> None:
        super().__init__(size, scale_factor, "bilinear", True)
