"""Convolutions, as torch.nn.modules.conv."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar

from pyframe.nn import functional as F
from pyframe.nn.modules import utils
from pyframe.nn.modules.fields import Kind
from pyframe.nn.modules.utils import LazyLayer, as_int, check_sizes, each, shown, unusual
from pyframe.tensor import Tensor

__all__ = [
    "Conv1d", "Conv2d", "Conv3d", "ConvTranspose1d", "ConvTranspose2d", "ConvTranspose3d",
    "LazyConv1d", "LazyConv2d", "LazyConv3d", "LazyConvTranspose1d", "LazyConvTranspose2d",
    "LazyConvTranspose3d",
]  # fmt: skip

_MODES = ("zeros", "reflect", "replicate", "circular")


def _check_groups(layer: Any, groups: int, **channels: int) -> None:
    for which, n in channels.items():
        if n % groups:
            name = type(layer).__name__
            raise ValueError(f"{name}: {which} must be divisible by groups: {n} % {groups}")


class _ConvNd(Kind, utils.Weighted):
    """What all convolutions share: their options, checked, and their parameters."""

    def __init__(
        self, in_channels: int, out_channels: int, kernel_size: Any, stride: Any, padding: Any,
        dilation: Any, transposed: bool, output_padding: Any, groups: int, bias: bool,
        padding_mode: str, device: Any = None, dtype: Any = None,
    ) -> None:  # fmt: skip
        super().__init__()
        name, k = type(self).__name__, self._k
        kernel = each(self, "kernel_size", kernel_size, k)
        dtype = check_sizes(
            self, dtype, in_channels=in_channels, out_channels=out_channels, kernel_size=kernel
        )
        if as_int(self, "groups", groups) <= 0:
            raise ValueError(f"{name}: groups must be a positive integer, got {groups}")
        _check_groups(self, groups, in_channels=in_channels, out_channels=out_channels)
        if isinstance(padding, str) and padding not in ("same", "valid"):
            raise ValueError(
                f"{name}: Invalid padding string {padding!r}, should be one of 'same', 'valid'"
            )
        if padding_mode not in _MODES:
            raise ValueError(
                f"{name}: padding_mode must be one of {_MODES}, but got "
                f"padding_mode={padding_mode!r}"
            )
        self.in_channels, self.out_channels = in_channels, out_channels
        self.kernel_size, self.stride = kernel, each(self, "stride", stride, k)
        self.dilation = each(self, "dilation", dilation, k)
        self.padding = padding if isinstance(padding, str) else each(self, "padding", padding, k)
        if padding == "same" and set(self.stride) != {1}:
            raise ValueError(f"{name}: padding='same' is not supported for strided convolutions")
        self.transposed, self.groups, self.padding_mode = transposed, groups, padding_mode
        self.output_padding = each(self, "output_padding", output_padding, k)
        self._reversed_padding_repeated_twice = self._sides()
        rows = out_channels if bias else None
        utils.add_parameters(self, device, dtype, weight=self._weight_shape(), bias=rows)
        self.reset_parameters()

    def _weight_shape(self) -> tuple[int, ...]:
        rows, columns = self.out_channels, self.in_channels
        if self.transposed:
            rows, columns = columns, rows
        return rows, columns // self.groups, *self.kernel_size

    def _sides(self) -> list[int]:
        """The padding as F.pad takes it: both sides of each dim, from the last one."""
        if self.padding == "valid":
            return [0, 0] * self._k
        if self.padding == "same":
            total = [d * (n - 1) for d, n in zip(self.dilation, self.kernel_size, strict=True)]
            pairs = [(t // 2, t - t // 2) for t in total]
        else:
            pairs = [(p, p) for p in self.padding]
        return [side for pair in reversed(pairs) for side in pair]

    def extra_repr(self) -> str:
        zeros, ones = (0,) * self._k, (1,) * self._k
        text = f"{self.in_channels}, {self.out_channels}, {shown(self, 'kernel_size', 'stride')}"
        text += unusual(self, padding=zeros, dilation=ones, output_padding=zeros, groups=1)
        text += ", bias=False" if self.bias is None else ""
        return text + unusual(self, padding_mode="zeros")


class _Conv(_ConvNd):
    """A convolution over `_k` spatial dims."""

    def __init__(
        self, in_channels: int, out_channels: int, kernel_size: Any, stride: Any = 1,
        padding: Any = 0, dilation: Any = 1, groups: int = 1, bias: bool = True,
        padding_mode: str = "zeros", device: Any = None, dtype: Any = None,
    ) -> None:  # fmt: skip
        super().__init__(
            in_channels, out_channels, kernel_size, stride, padding, dilation, False, 0, groups,
            bias, padding_mode, device, dtype,
        )  # fmt: skip

    def _conv_forward(self, input: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
        padding: Any = self.padding
        if self.padding_mode != "zeros":
            input = F.pad(input, self._reversed_padding_repeated_twice, self.padding_mode)
            padding = 0
        return self._function(input, weight, bias, self.stride, padding, self.dilation, self.groups)

    def forward(self, input: Tensor) -> Tensor:
        """(N, in_channels, *spatial) or (in_channels, *spatial) -> the same with out_channels."""
        return self._conv_forward(input, self.weight, self.bias)


class Conv1d(_Conv, k=1, function=F.conv1d):
    """A convolution over one dim: (N, in_channels, L) or (in_channels, L) -> (N, out_channels, L').
    Formula, arguments and attributes are Conv2d's, with one number for each dim of space instead of
    two.

    >>> nn.Conv1d(16, 33, 3, stride=2)(pf.randn(20, 16, 50)).shape
    pyframe.Size([20, 33, 24])
    """


class Conv2d(_Conv, k=2, function=F.conv2d):
    """A convolution of images (cross-correlation, strictly): output channel o at (y, x) is bias[o]
    plus the sum of weight[o] times the window of the input that begins at (stride * y, stride * x).

    (N, in_channels, H, W), or without N, gives (N, out_channels, H', W'), where H' = ⌊(H + 2
    padding - dilation (kernel_size - 1) - 1) / stride⌋ + 1, and W' likewise.

    Args:
        in_channels, out_channels: how many channels the input and the output have; `groups` divides
            both.
        kernel_size: the size of a window, as all below an int or a tuple of one for each dim.
        stride: how far windows lie apart.
        padding: how many elements are added at both ends of a dim, 'valid' for none, or 'same' for
            as many as keep the size, with stride 1.
        dilation: how far the elements of a window lie apart.
        groups: into how many groups the channels are divided, none of which sees another;
            in_channels for a filter of each channel by itself.
        bias: whether a number is added to each output channel.
        padding_mode: what is added: 'zeros', 'reflect', 'replicate' or 'circular'.

    Attributes:
        weight: (out_channels, in_channels / groups, *kernel_size), at first from U(-k, k) with k =
            1 / √(in_channels / groups * prod(kernel_size)).
        bias: (out_channels,), at first from there too; None without one.

    Raises:
        ValueError: `groups` doesn't divide both numbers of channels, padding 'same' has a stride,
            or a word is none of those above.
        RuntimeError: when called with other channels, or with less space than a window.

    >>> nn.Conv2d(16, 33, (3, 5), padding=(1, 2))(pf.randn(20, 16, 50, 100)).shape
    pyframe.Size([20, 33, 50, 100])
    """


class Conv3d(_Conv, k=3, function=F.conv3d):
    """A convolution over three dims: (N, in_channels, D, H, W), or without N ->
    (N, out_channels, D', H', W'). Formula, arguments and attributes are Conv2d's, with three
    numbers.

    >>> nn.Conv3d(4, 6, 3, stride=2)(pf.randn(2, 4, 7, 9, 11)).shape
    pyframe.Size([2, 6, 3, 4, 5])
    """


class _ConvTransposeNd(_ConvNd):
    """The transpose of a convolution over `_k` spatial dims."""

    def __init__(
        self, in_channels: int, out_channels: int, kernel_size: Any, stride: Any = 1,
        padding: Any = 0, output_padding: Any = 0, groups: int = 1, bias: bool = True,
        dilation: Any = 1, padding_mode: str = "zeros", device: Any = None, dtype: Any = None,
    ) -> None:  # fmt: skip
        if padding_mode != "zeros":
            raise ValueError(
                f'{type(self).__name__}: Only "zeros" padding mode is supported, got '
                f"{padding_mode!r}"
            )
        super().__init__(
            in_channels, out_channels, kernel_size, stride, padding, dilation, True,
            output_padding, groups, bias, padding_mode, device, dtype,
        )  # fmt: skip

    def forward(self, input: Tensor, output_size: Sequence[int] | None = None) -> Tensor:
        """(N, in_channels, *spatial) -> (N, out_channels, *spatial'); `output_size` picks one of
        the `stride` sizes that fit. ValueError for another one."""
        added = self.output_padding
        if output_size is not None:
            added = self._output_padding(input, list(output_size))
        return self._function(
            input, self.weight, self.bias, self.stride, self.padding, added, self.groups,
            self.dilation,
        )  # fmt: skip

    def _output_padding(self, input: Tensor, size: list[int]) -> tuple[int, ...]:
        name, k = type(self).__name__, self._k
        if len(size) == input.ndim:
            size = size[-k:]
        if len(size) != k:
            raise ValueError(
                f"{name}: for {input.ndim}D input, output_size must have {k} or {input.ndim} "
                f"elements (got {len(size)})"
            )
        options = zip(
            input.shape[-k:], self.stride, self.padding, self.dilation, self.kernel_size,
            strict=True,
        )  # fmt: skip
        least = [(n - 1) * s - 2 * p + d * (m - 1) + 1 for n, s, p, d, m in options]
        most = [n + s - 1 for n, s in zip(least, self.stride, strict=True)]
        if not all(a <= n <= b for a, n, b in zip(least, size, most, strict=True)):
            raise ValueError(
                f"{name}: requested an output size of {size}, but valid sizes range from {least} "
                f"to {most} (for an input of {list(input.shape)})"
            )
        return tuple(n - a for n, a in zip(size, least, strict=True))


class ConvTranspose1d(_ConvTransposeNd, k=1, function=F.conv_transpose1d):
    """A transposed convolution over one dim: (N, in_channels, L), or without N ->
    (N, out_channels, L'). Formula, arguments and attributes are ConvTranspose2d's, with one number
    for each dim of space.

    >>> nn.ConvTranspose1d(16, 33, 3, stride=2)(pf.randn(20, 16, 50)).shape
    pyframe.Size([20, 33, 101])
    """


class ConvTranspose2d(_ConvTransposeNd, k=2, function=F.conv_transpose2d):
    """A transposed convolution of images, the gradient of a Conv2d with respect to its input: each
    element adds its multiple of the kernel to a window of the output, and windows lie `stride`
    apart.

    (N, in_channels, H, W), or without N, gives (N, out_channels, H', W'), where H' = (H - 1) stride
    - 2 padding + dilation (kernel_size - 1) + output_padding + 1, and W' likewise. A call may give
    `output_size`, (H', W') or all dims, instead of `output_padding`.

    Args:
        in_channels, out_channels: how many channels the input and the output have; `groups` divides
            both.
        kernel_size: the size of a window, as all below an int or a tuple of one for each dim.
        stride: how far windows lie apart in the output.
        padding: how many elements are cut off at both ends of each dim of the output.
        output_padding: how many are added at one end: Conv2d maps `stride` sizes to the same one.
        groups: into how many groups the channels are divided, none of which sees another.
        bias: whether a number is added to each output channel.
        dilation: how far the elements of a window lie apart.
        padding_mode: 'zeros' alone.

    Attributes:
        weight: (in_channels, out_channels / groups, *kernel_size), at first from U(-k, k) with k =
            1 / √(out_channels / groups * prod(kernel_size)).
        bias: (out_channels,), at first from there too; None without one.

    Raises:
        ValueError: `groups` doesn't divide both numbers of channels, or `output_size` is out of
            reach.

    >>> up = nn.ConvTranspose2d(16, 8, 3, stride=2, padding=1)
    >>> up(pf.randn(1, 16, 6, 6)).shape, up(pf.randn(1, 16, 6, 6), output_size=(12, 12)).shape
    (pyframe.Size([1, 8, 11, 11]), pyframe.Size([1, 8, 12, 12]))
    """


class ConvTranspose3d(_ConvTransposeNd, k=3, function=F.conv_transpose3d):
    """A transposed convolution over three dims: (N, in_channels, D, H, W), or without N ->
    (N, out_channels, D', H', W'). Formula, arguments and attributes are ConvTranspose2d's, with
    three numbers.

    >>> nn.ConvTranspose3d(4, 6, 3, stride=2)(pf.randn(2, 4, 3, 4, 5)).shape
    pyframe.Size([2, 6, 7, 9, 11])
    """


# --- with in_channels taken from the first input


class _Lazy(LazyLayer):
    """What lazy convolutions share."""

    _k: ClassVar[int]
    _learned = "in_channels"

    def _begin(self, out_channels: int, bias: bool, device: Any, dtype: Any) -> None:
        me: Any = self
        dtype = check_sizes(me, dtype, out_channels=out_channels)
        me.out_channels = out_channels
        self._wait(device, dtype, bias)

    def initialize_parameters(self, input: Tensor, *args: Any, **kwargs: Any) -> None:
        """Shapes for inputs (N, in_channels, *spatial) or (in_channels, *spatial)."""
        me: Any = self
        if input.ndim not in (self._k + 1, self._k + 2):
            raise RuntimeError(
                f"Expected {self._k + 1}D (unbatched) or {self._k + 2}D (batched) input to "
                f"{type(self).__name__}, but got input of size: {list(input.shape)}"
            )
        me.in_channels = input.shape[-self._k - 1]
        _check_groups(me, me.groups, in_channels=me.in_channels, out_channels=me.out_channels)
        if self.has_uninitialized_params():
            self._materialize(me._weight_shape(), me.out_channels)


class _LazyConv(_Lazy):
    def __init__(
        self, out_channels: int, kernel_size: Any, stride: Any = 1, padding: Any = 0,
        dilation: Any = 1, groups: int = 1, bias: bool = True, padding_mode: str = "zeros",
        device: Any = None, dtype: Any = None,
    ) -> None:  # fmt: skip
        super().__init__(0, 0, kernel_size, stride, padding, dilation, groups, False, padding_mode)
        self._begin(out_channels, bias, device, dtype)


class _LazyConvTranspose(_Lazy):
    def __init__(
        self, out_channels: int, kernel_size: Any, stride: Any = 1, padding: Any = 0,
        output_padding: Any = 0, groups: int = 1, bias: bool = True, dilation: Any = 1,
        padding_mode: str = "zeros", device: Any = None, dtype: Any = None,
    ) -> None:  # fmt: skip
        super().__init__(
            0, 0, kernel_size, stride, padding, output_padding, groups, False, dilation,
            padding_mode,
        )  # fmt: skip
        self._begin(out_channels, bias, device, dtype)


class LazyConv1d(_LazyConv, Conv1d):
    """A Conv1d that learns in_channels from its first input, and is a Conv1d from then on.
    Arguments are Conv1d's, without `in_channels`.

    >>> layer = nn.LazyConv1d(6, 3)
    >>> layer(pf.randn(1, 4, 10)).shape, layer.in_channels
    (pyframe.Size([1, 6, 8]), 4)
    """

    cls_to_become = Conv1d


class LazyConv2d(_LazyConv, Conv2d):
    """A Conv2d that learns in_channels from its first input, and is a Conv2d from then on.
    Arguments are Conv2d's, without `in_channels`.

    >>> layer = nn.LazyConv2d(6, 3)
    >>> layer(pf.randn(1, 4, 10, 10)).shape, layer.in_channels
    (pyframe.Size([1, 6, 8, 8]), 4)
    """

    cls_to_become = Conv2d


class LazyConv3d(_LazyConv, Conv3d):
    """A Conv3d that learns in_channels from its first input, and is a Conv3d from then on.
    Arguments are Conv3d's, without `in_channels`.

    >>> layer = nn.LazyConv3d(6, 3)
    >>> layer(pf.randn(1, 4, 10, 10, 10)).shape, layer.in_channels
    (pyframe.Size([1, 6, 8, 8, 8]), 4)
    """

    cls_to_become = Conv3d


class LazyConvTranspose1d(_LazyConvTranspose, ConvTranspose1d):
    """A ConvTranspose1d that learns in_channels from its first input, and is a ConvTranspose1d from
    then on. Arguments are ConvTranspose1d's, without `in_channels`.

    >>> layer = nn.LazyConvTranspose1d(6, 3)
    >>> layer(pf.randn(1, 4, 10)).shape, layer.in_channels
    (pyframe.Size([1, 6, 12]), 4)
    """

    cls_to_become = ConvTranspose1d


class LazyConvTranspose2d(_LazyConvTranspose, ConvTranspose2d):
    """A ConvTranspose2d that learns in_channels from its first input, and is a ConvTranspose2d from
    then on. Arguments are ConvTranspose2d's, without `in_channels`.

    >>> layer = nn.LazyConvTranspose2d(6, 3)
    >>> layer(pf.randn(1, 4, 10, 10)).shape, layer.in_channels
    (pyframe.Size([1, 6, 12, 12]), 4)
    """

    cls_to_become = ConvTranspose2d


class LazyConvTranspose3d(_LazyConvTranspose, ConvTranspose3d):
    """A ConvTranspose3d that learns in_channels from its first input, and is a ConvTranspose3d from
    then on. Arguments are ConvTranspose3d's, without `in_channels`.

    >>> layer = nn.LazyConvTranspose3d(6, 3)
    >>> layer(pf.randn(1, 4, 10, 10, 10)).shape, layer.in_channels
    (pyframe.Size([1, 6, 12, 12, 12]), 4)
    """

    cls_to_become = ConvTranspose3d
