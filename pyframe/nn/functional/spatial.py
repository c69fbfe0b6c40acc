"""Convolution, pooling, and pixels that change places."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from pyframe.ops.api.autocast import autocast
from pyframe.ops.api.layouts import declare_layout
from pyframe.ops.shape import movement as mv
from pyframe.ops.spatial import conv, pool, sliding
from pyframe.tensor import Tensor

__all__ = [
    "adaptive_avg_pool1d", "adaptive_avg_pool2d", "adaptive_avg_pool3d", "adaptive_max_pool1d",
    "adaptive_max_pool1d_with_indices", "adaptive_max_pool2d", "adaptive_max_pool2d_with_indices",
    "adaptive_max_pool3d", "adaptive_max_pool3d_with_indices", "avg_pool1d", "avg_pool2d",
    "avg_pool3d", "channel_shuffle", "conv1d", "conv2d", "conv3d", "conv_tbc", "conv_transpose1d",
    "conv_transpose2d", "conv_transpose3d", "fold", "fractional_max_pool2d",
    "fractional_max_pool2d_with_indices", "fractional_max_pool3d",
    "fractional_max_pool3d_with_indices", "lp_pool1d", "lp_pool2d", "lp_pool3d", "max_pool1d",
    "max_pool1d_with_indices", "max_pool2d", "max_pool2d_with_indices", "max_pool3d",
    "max_pool3d_with_indices", "max_unpool1d", "max_unpool2d", "max_unpool3d",
    "native_channel_shuffle", "pixel_shuffle", "pixel_unshuffle", "unfold",
]  # fmt: skip
# Functions of pyframe too; `name=other` is there by another name
TOPLEVEL = """adaptive_avg_pool1d adaptive_max_pool1d=adaptive_max_pool1d_with_indices avg_pool1d
channel_shuffle conv1d conv2d conv3d conv_tbc conv_transpose1d conv_transpose2d conv_transpose3d
max_pool1d max_pool1d_with_indices max_pool2d max_pool3d native_channel_shuffle pixel_shuffle
pixel_unshuffle"""


# --- convolution: of (N, C, *spatial) or (C, *spatial), as pooling is

_SPACES = {1: "L", 2: "H, W", 3: "D, H, W"}


def _over(*dims: int) -> Callable[[Callable[[str, int], Any]], None]:
    """Make the functions of `_pool(name, k)`, one for each number of dims: `pool1d` and so on; if
    it gives two, the second also `pool1d_with_indices`. Their docstrings have that number as {k},
    and these dims as {space}.
    """

    def make(function: Callable[[str, int], Any]) -> None:
        for k in dims:
            name = f"{function.__name__[1:]}{k}d"
            made = function(name, k)
            for run in made if isinstance(made, tuple) else (made,):
                run.__name__ = run.__qualname__ = name
                run.__doc__ = (run.__doc__ or "").format(k=k, space=_SPACES[k])
                globals()[name] = run
                name += "_with_indices"

    return make


@_over(1, 2, 3)
def _conv(name: str, k: int) -> Any:
    def run(
        input: Tensor, weight: Tensor, bias: Tensor | None = None, stride: Any = 1,
        padding: Any = 0, dilation: Any = 1, groups: int = 1,
    ) -> Tensor:  # fmt: skip
        """A convolution: (N, C, {space}) or (C, {space}) with a weight (O, C/groups, *kernel) ->
        (N, O, *spatial); see nn.Conv{k}d for sizes and arguments.

        Args:
            padding: ints, 'valid' or 'same'; zeros are added.

        Raises:
            RuntimeError: shapes don't fit.
        """
        return conv.conv(name, k, input, weight, bias, stride, padding, dilation, groups)

    return run


@_over(1, 2, 3)
def _conv_transpose(name: str, k: int) -> Any:
    def run(
        input: Tensor, weight: Tensor, bias: Tensor | None = None, stride: Any = 1,
        padding: Any = 0, output_padding: Any = 0, groups: int = 1, dilation: Any = 1,
    ) -> Tensor:  # fmt: skip
        """A transposed convolution: (N, C, {space}) or (C, {space}) with a weight
        (C, O/groups, *kernel) -> (N, O, *spatial), to stride * (size - 1) + kernel or more; see
        nn.ConvTranspose{k}d for sizes and arguments.

        Raises:
            RuntimeError: shapes don't fit.
        """
        return conv.conv_transpose(name, k, input, weight, bias, stride, padding, output_padding,
                                   groups, dilation)  # fmt: skip

    return run


def conv_tbc(input: Tensor, weight: Tensor, bias: Tensor, pad: int = 0) -> Tensor:
    """A convolution of (T, N, C) with a weight (k, C, O) over time -> (T', N, O); `pad` zeros stand
    at both ends.
    """
    x, w = mv.permute(input, (1, 2, 0)), mv.permute(weight, (2, 1, 0))
    out = conv.conv("conv_tbc", 1, x, w, bias, 1, pad, 1, 1)
    return mv.permute(out, (2, 0, 1))


# --- pooling


@_over(1, 2, 3)
def _max_pool(name: str, k: int) -> Any:
    def run(
        input: Tensor, kernel_size: Any, stride: Any = None, padding: Any = 0, dilation: Any = 1,
        ceil_mode: bool = False, return_indices: bool = False,
    ) -> Any:  # fmt: skip
        """The largest element of each window over the last {k} dim(s), and its int64 flat index in
        each plane with `return_indices`; see nn.MaxPool{k}d."""
        return pool.max_pool(name, k, input, kernel_size, stride, padding, dilation, ceil_mode,
                              return_indices)  # fmt: skip

    def both(
        input: Tensor, kernel_size: Any, stride: Any = None, padding: Any = 0, dilation: Any = 1,
        ceil_mode: bool = False, return_indices: bool = True,
    ) -> tuple[Tensor, Tensor]:  # fmt: skip
        """The largest element of each window over the last {k} dim(s), and its int64 flat index in
        each plane; see nn.MaxPool{k}d."""
        return run(input, kernel_size, stride, padding, dilation, ceil_mode, True)

    return run, both


@_over(1, 2, 3)
def _avg_pool(name: str, k: int) -> Any:
    def run(
        input: Tensor, kernel_size: Any, stride: Any = None, padding: Any = 0,
        ceil_mode: bool = False, count_include_pad: bool = True,
        divisor_override: int | None = None,
    ) -> Tensor:  # fmt: skip
        """The mean of each window over the last {k} dim(s); see nn.AvgPool{k}d."""
        return pool.avg_pool(name, k, input, kernel_size, stride, padding, ceil_mode,
                              count_include_pad, divisor_override)  # fmt: skip

    return run


@_over(1, 2, 3)
def _lp_pool(name: str, k: int) -> Any:
    def run(
        input: Tensor, norm_type: float, kernel_size: Any, stride: Any = None,
        ceil_mode: bool = False,
    ) -> Tensor:  # fmt: skip
        """(Σ x^norm_type)^(1/norm_type) of windows over {k} dim(s); see nn.LPPool{k}d."""
        return pool.lp_pool(name, k, input, norm_type, kernel_size, stride, ceil_mode)

    return run


@_over(1, 2, 3)
def _adaptive_avg_pool(name: str, k: int) -> Any:
    def run(input: Tensor, output_size: Any) -> Tensor:
        """The means of `output_size` bins over the last {k} dim(s); see nn.AdaptiveAvgPool{k}d."""
        return pool.adaptive_avg_pool(name, k, input, output_size)

    return run


@_over(1, 2, 3)
def _adaptive_max_pool(name: str, k: int) -> Any:
    def run(input: Tensor, output_size: Any, return_indices: bool = False) -> Any:
        """The largest element of each of `output_size` bins over the last {k} dim(s), and its int64
        flat index in each plane with `return_indices`; see nn.AdaptiveMaxPool{k}d."""
        return pool.adaptive_max_pool(name, k, input, output_size, return_indices)

    def both(input: Tensor, output_size: Any, return_indices: bool = True) -> tuple[Tensor, Tensor]:
        """The largest element of each of `output_size` bins over the last {k} dim(s), and its int64
        flat index in each plane; see nn.AdaptiveMaxPool{k}d."""
        return run(input, output_size, True)

    return run, both


@_over(2, 3)
def _fractional_max_pool(name: str, k: int) -> Any:
    def run(
        input: Tensor, kernel_size: Any, output_size: Any = None, output_ratio: Any = None,
        return_indices: bool = False, _random_samples: Tensor | None = None,
    ) -> Any:  # fmt: skip
        """The largest element of windows at random steps (arXiv 1412.6071); see
        nn.FractionalMaxPool{k}d. `_random_samples` in [0, 1) is (N, C, {k})."""
        return pool.fractional_max_pool(name, k, input, kernel_size, output_size, output_ratio,
                                         return_indices, _random_samples)  # fmt: skip

    def both(
        input: Tensor, kernel_size: Any, output_size: Any = None, output_ratio: Any = None,
        return_indices: bool = True, _random_samples: Tensor | None = None,
    ) -> tuple[Tensor, Tensor]:  # fmt: skip
        """The largest element of windows at random steps (arXiv 1412.6071), and its index; see
        nn.FractionalMaxPool{k}d."""
        return run(input, kernel_size, output_size, output_ratio, True, _random_samples)

    return run, both


@_over(1, 2, 3)
def _max_unpool(name: str, k: int) -> Any:
    def run(
        input: Tensor, indices: Tensor, kernel_size: Any, stride: Any = None, padding: Any = 0,
        output_size: Any = None,
    ) -> Tensor:  # fmt: skip
        """max_pool{k}d undone: each element where its int64 index says, zeros elsewhere; see
        nn.MaxUnpool{k}d."""
        return pool.max_unpool(name, k, input, indices, kernel_size, stride, padding, output_size)

    return run


if TYPE_CHECKING:
    from pyframe._stubs.spatial import *


# --- columns of windows


def _pairs(name: str, **values: Any) -> list[tuple[int, ...]]:
    out = [conv.each(v, 2, f"{name}: {what}") for what, v in values.items()]
    for what, v in zip(values, out, strict=True):
        if min(v) < (0 if what == "padding" else 1):
            raise RuntimeError(f"{name}: {what} should be greater than zero, but got {list(v)}")
    return out


def unfold(input: Tensor, kernel_size: Any, dilation: Any = 1, padding: Any = 0,
           stride: Any = 1) -> Tensor:  # fmt: skip
    """The windows of (N, C, H, W) as columns: (N, C * kh * kw, positions); see nn.Unfold."""
    kernel, dilation, padding, stride = _pairs(
        "unfold", kernel_size=kernel_size, dilation=dilation, padding=padding, stride=stride
    )
    x = mv.unsqueeze(input, 0) if input.ndim == 3 else input
    if x.ndim != 4 or 0 in x.shape[1:]:
        raise RuntimeError(
            "unfold: Expected 3D or 4D (batch mode) tensor with possibly 0 batch size and other "
            f"non-zero dimensions for input, but got: {list(input.shape)}"
        )
    _positions("unfold", x.shape[2:], kernel, dilation, padding, stride)
    out = conv.window_columns(x, kernel, stride, padding, dilation, 1, True)
    out = mv.squeeze(out, 1).contiguous()
    return mv.squeeze(out, 0) if input.ndim == 3 else out


def _positions(name: str, size: Any, kernel: Any, dilation: Any, padding: Any, stride: Any) -> Any:
    count = tuple(
        (n + 2 * p - d * (m - 1) - 1) // s + 1
        for n, m, d, p, s in zip(size, kernel, dilation, padding, stride, strict=True)
    )
    if min(count) < 1:
        raise RuntimeError(
            f"{name}: given spatial size {list(size)}, kernel_size {list(kernel)}, dilation "
            f"{list(dilation)}, padding {list(padding)} and stride {list(stride)}, the array of "
            f"sliding blocks would be {list(count)}, but its components must be at least one"
        )
    return count


def fold(input: Tensor, output_size: Any, kernel_size: Any, dilation: Any = 1, padding: Any = 0,
         stride: Any = 1) -> Tensor:  # fmt: skip
    """The transpose of `unfold`: (N, C * kh * kw, positions) added up to (N, C, *output_size); see
    nn.Fold.
    """
    size, kernel, dilation, padding, stride = _pairs(
        "fold", output_size=output_size, kernel_size=kernel_size, dilation=dilation,
        padding=padding, stride=stride,
    )  # fmt: skip
    x = mv.unsqueeze(input, 0) if input.ndim == 2 else input
    if x.ndim != 3 or 0 in x.shape[1:]:
        raise RuntimeError(
            "fold: Expected 2D or 3D (batch mode) tensor for input with possibly 0 batch size and "
            f"non-zero dimensions for input, but got: {list(input.shape)}"
        )
    count = _positions("fold", size, kernel, dilation, padding, stride)
    n, rows, length = x.shape
    if rows % math.prod(kernel) or length != math.prod(count):
        raise RuntimeError(
            f"fold: expected input of shape (N, C * {math.prod(kernel)}, {math.prod(count)}) for "
            f"output_size={list(size)} and kernel_size={list(kernel)}, but got {list(input.shape)}"
        )
    cols = mv.reshape(x, (n, rows // math.prod(kernel), *kernel, *count))
    padded = tuple(m + 2 * p for m, p in zip(size, padding, strict=True))
    out = sliding.fold(mv.permute(cols, (0, 1, 4, 5, 2, 3)), padded, stride, dilation)
    if any(padding):
        out = mv.pad(out, ((0, 0), (0, 0), *((-p, -p) for p in padding)))
    return mv.squeeze(out, 0) if input.ndim == 2 else out


# --- pixels and channels that change places


def _image(name: str, x: Tensor, least: int = 3) -> tuple[int, ...]:
    if x.ndim < least:
        raise RuntimeError(
            f"{name} expects input to have at least {least} dimensions, but got input with "
            f"{x.ndim} dimension(s)"
        )
    return x.shape


def pixel_shuffle(input: Tensor, upscale_factor: int) -> Tensor:
    """(*, C r², H, W) -> (*, C, H r, W r), r being upscale_factor (arXiv 1609.05158); see
    nn.PixelShuffle.
    """
    *lead, c, h, w = _image("pixel_shuffle", input)
    r = upscale_factor
    if r <= 0 or c % (r * r):
        raise RuntimeError(
            "pixel_shuffle expects a positive upscale_factor, and its input's 'channel' dimension "
            f"to be divisible by its square, but got upscale_factor={r} and {c} channels"
        )
    k = len(lead)
    x = mv.reshape(input, (*lead, c // (r * r), r, r, h, w))
    x = mv.permute(x, (*range(k), k, k + 3, k + 1, k + 4, k + 2))
    return mv.reshape(x, (*lead, c // (r * r), h * r, w * r)).contiguous()


def pixel_unshuffle(input: Tensor, downscale_factor: int) -> Tensor:
    """(*, C, H r, W r) -> (*, C r², H, W), r being downscale_factor: pixel_shuffle undone; see
    nn.PixelUnshuffle.
    """
    *lead, c, h, w = _image("pixel_unshuffle", input)
    r = downscale_factor
    if r <= 0 or h % r or w % r:
        raise RuntimeError(
            "pixel_unshuffle expects a positive downscale_factor that divides height and width, "
            f"but got downscale_factor={r} and an input of {h} x {w}"
        )
    k = len(lead)
    x = mv.reshape(input, (*lead, c, h // r, r, w // r, r))
    x = mv.permute(x, (*range(k), k, k + 2, k + 4, k + 1, k + 3))
    return mv.reshape(x, (*lead, c * r * r, h // r, w // r)).contiguous()


def channel_shuffle(input: Tensor, groups: int) -> Tensor:
    """Channels of (N, C, *) taken from each of `groups` groups in turn; see nn.ChannelShuffle."""
    n, c, *rest = _image("channel_shuffle", input)
    if groups <= 0 or c % groups:
        raise RuntimeError(
            "channel_shuffle: Number of groups to divide channels in must be positive, and "
            f"channels must be divisible by it, but got groups={groups} and {c} channels"
        )
    x = mv.transpose(mv.reshape(input, (n, groups, c // groups, *rest)), 1, 2)
    return mv.reshape(x, (n, c, *rest)).contiguous()


native_channel_shuffle = channel_shuffle
declare_layout(
    globals(),
    rows="conv_tbc",
    line_last="""conv1d conv_transpose1d max_pool1d_with_indices lp_pool1d adaptive_avg_pool1d
    adaptive_max_pool1d adaptive_max_pool1d_with_indices avg_pool1d fold unfold""",
    last="""conv2d conv3d conv_transpose2d conv_transpose3d max_pool2d max_pool2d_with_indices
    max_pool3d max_pool3d_with_indices avg_pool2d avg_pool3d lp_pool2d lp_pool3d
    adaptive_avg_pool2d adaptive_max_pool2d adaptive_max_pool2d_with_indices max_unpool2d
    max_unpool3d pixel_shuffle pixel_unshuffle channel_shuffle""",
)
autocast(
    globals(),
    lower="conv1d conv2d conv3d conv_tbc conv_transpose1d conv_transpose2d conv_transpose3d",
    cpu_float32="""avg_pool3d max_pool3d max_pool3d_with_indices adaptive_avg_pool3d
    adaptive_max_pool3d adaptive_max_pool3d_with_indices fractional_max_pool2d
    fractional_max_pool2d_with_indices fractional_max_pool3d fractional_max_pool3d_with_indices
    max_unpool1d max_unpool2d max_unpool3d""",
)
