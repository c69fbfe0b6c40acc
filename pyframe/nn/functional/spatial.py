"""Convolution, pooling, padding and resampling."""

from __future__ import annotations

from typing import Any

from pyframe.ops import (
    conv as _conv,
    movement as mv,
)
from pyframe.ops.elementwise import gelu as gelu, silu as silu
from pyframe.ops.index import one_hot as one_hot
from pyframe.tensor import Tensor

__all__ = [
    "avg_pool1d",
    "avg_pool2d",
    "avg_pool3d",
    "conv1d",
    "conv2d",
    "conv3d",
    "max_pool1d",
    "max_pool2d",
    "max_pool3d",
    "pad",
]


def conv1d(input: Tensor, weight: Tensor, bias: Tensor | None = None, stride: Any = 1,
           padding: Any = 0, dilation: Any = 1, groups: int = 1) -> Tensor:  # fmt: skip
    """Convolution over one spatial dim: (N, C, L) with (O, C/groups, k)."""
    return _conv.conv("conv1d", 1, input, weight, bias, stride, padding, dilation, groups)


def conv2d(input: Tensor, weight: Tensor, bias: Tensor | None = None, stride: Any = 1,
           padding: Any = 0, dilation: Any = 1, groups: int = 1) -> Tensor:  # fmt: skip
    """Convolution over two spatial dims: (N, C, H, W) with (O, C/groups, kh, kw)."""
    return _conv.conv("conv2d", 2, input, weight, bias, stride, padding, dilation, groups)


def conv3d(input: Tensor, weight: Tensor, bias: Tensor | None = None, stride: Any = 1,
           padding: Any = 0, dilation: Any = 1, groups: int = 1) -> Tensor:  # fmt: skip
    """Convolution over three spatial dims."""
    return _conv.conv("conv3d", 3, input, weight, bias, stride, padding, dilation, groups)


def _max_pool(k: int) -> Any:
    name = f"max_pool{k}d"

    def run(
        input: Tensor, kernel_size: Any, stride: Any = None, padding: Any = 0, dilation: Any = 1,
        ceil_mode: bool = False, return_indices: bool = False,
    ) -> Tensor:  # fmt: skip
        if return_indices:
            raise NotImplementedError(f"{name}: return_indices=True is not supported; use False")
        return _conv.max_pool(name, k, input, kernel_size, stride, padding, dilation, ceil_mode)

    run.__name__ = run.__qualname__ = name
    run.__doc__ = f"The largest element of each window over the last {k} dim(s)."
    return run


def _avg_pool(k: int) -> Any:
    name = f"avg_pool{k}d"

    def run(
        input: Tensor, kernel_size: Any, stride: Any = None, padding: Any = 0,
        ceil_mode: bool = False, count_include_pad: bool = True,
        divisor_override: int | None = None,
    ) -> Tensor:  # fmt: skip
        return _conv.avg_pool(name, k, input, kernel_size, stride, padding, ceil_mode,
                              count_include_pad, divisor_override)  # fmt: skip

    run.__name__ = run.__qualname__ = name
    run.__doc__ = f"The mean of each window over the last {k} dim(s)."
    return run


max_pool1d, max_pool2d, max_pool3d = _max_pool(1), _max_pool(2), _max_pool(3)
avg_pool1d, avg_pool2d, avg_pool3d = _avg_pool(1), _avg_pool(2), _avg_pool(3)


def pad(input: Tensor, pad: Any, mode: str = "constant", value: float | None = None) -> Tensor:
    """`pad` elements added at both ends of the last dims: (left, right, top, bottom, …)."""
    if mode != "constant":
        raise NotImplementedError(f"pad: mode {mode!r} is not supported; use 'constant'")
    if len(pad) % 2 or len(pad) > 2 * input.ndim:
        raise RuntimeError(
            f"Padding length must be divisible by 2 and at most {2 * input.ndim} for input of "
            f"dimension {input.ndim}, got {len(pad)}"
        )
    widths = [(0, 0)] * input.ndim
    for i in range(len(pad) // 2):
        widths[-1 - i] = (int(pad[2 * i]), int(pad[2 * i + 1]))
    out = mv.pad(input, tuple(widths), value or 0)
    return out.clone() if out is input else out
