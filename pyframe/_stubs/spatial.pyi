# Made by scripts/make_stubs; what it says is changed where the function is written.
"""What is in `pyframe.nn.functional.spatial` and written nowhere."""

from typing import Any, Literal, overload

from pyframe.tensor import Tensor

def adaptive_avg_pool1d(input: Tensor, output_size: Any) -> Tensor:
    """The means of `output_size` bins over the last 1 dim(s)."""

def adaptive_avg_pool2d(input: Tensor, output_size: Any) -> Tensor:
    """The means of `output_size` bins over the last 2 dim(s)."""

def adaptive_avg_pool3d(input: Tensor, output_size: Any) -> Tensor:
    """The means of `output_size` bins over the last 3 dim(s)."""

@overload
def adaptive_max_pool1d(
    input: Tensor, output_size: Any, return_indices: Literal[False] = False
) -> Tensor:
    """The largest element of each of `output_size` bins over the last 1 dim(s);
    return_indices: (values, int64 flat index in each plane).
    """

@overload
def adaptive_max_pool1d(
    input: Tensor, output_size: Any, return_indices: Literal[True]
) -> tuple[Tensor, Tensor]: ...
@overload
def adaptive_max_pool1d(input: Tensor, output_size: Any, return_indices: bool = False) -> Any: ...
def adaptive_max_pool1d_with_indices(
    input: Tensor, output_size: Any, return_indices: bool = True
) -> tuple[Tensor, Tensor]:
    """The largest element of each of `output_size` bins over the last 1 dim(s)
    and its int64 flat index in each plane.
    """

@overload
def adaptive_max_pool2d(
    input: Tensor, output_size: Any, return_indices: Literal[False] = False
) -> Tensor:
    """The largest element of each of `output_size` bins over the last 2 dim(s);
    return_indices: (values, int64 flat index in each plane).
    """

@overload
def adaptive_max_pool2d(
    input: Tensor, output_size: Any, return_indices: Literal[True]
) -> tuple[Tensor, Tensor]: ...
@overload
def adaptive_max_pool2d(input: Tensor, output_size: Any, return_indices: bool = False) -> Any: ...
def adaptive_max_pool2d_with_indices(
    input: Tensor, output_size: Any, return_indices: bool = True
) -> tuple[Tensor, Tensor]:
    """The largest element of each of `output_size` bins over the last 2 dim(s)
    and its int64 flat index in each plane.
    """

@overload
def adaptive_max_pool3d(
    input: Tensor, output_size: Any, return_indices: Literal[False] = False
) -> Tensor:
    """The largest element of each of `output_size` bins over the last 3 dim(s);
    return_indices: (values, int64 flat index in each plane).
    """

@overload
def adaptive_max_pool3d(
    input: Tensor, output_size: Any, return_indices: Literal[True]
) -> tuple[Tensor, Tensor]: ...
@overload
def adaptive_max_pool3d(input: Tensor, output_size: Any, return_indices: bool = False) -> Any: ...
def adaptive_max_pool3d_with_indices(
    input: Tensor, output_size: Any, return_indices: bool = True
) -> tuple[Tensor, Tensor]:
    """The largest element of each of `output_size` bins over the last 3 dim(s)
    and its int64 flat index in each plane.
    """

def avg_pool1d(
    input: Tensor,
    kernel_size: Any,
    stride: Any = None,
    padding: Any = 0,
    ceil_mode: bool = False,
    count_include_pad: bool = True,
    divisor_override: int | None = None,
) -> Tensor:
    """The mean of each window over the last 1 dim(s)."""

def avg_pool2d(
    input: Tensor,
    kernel_size: Any,
    stride: Any = None,
    padding: Any = 0,
    ceil_mode: bool = False,
    count_include_pad: bool = True,
    divisor_override: int | None = None,
) -> Tensor:
    """The mean of each window over the last 2 dim(s)."""

def avg_pool3d(
    input: Tensor,
    kernel_size: Any,
    stride: Any = None,
    padding: Any = 0,
    ceil_mode: bool = False,
    count_include_pad: bool = True,
    divisor_override: int | None = None,
) -> Tensor:
    """The mean of each window over the last 3 dim(s)."""

@overload
def fractional_max_pool2d(
    input: Tensor,
    kernel_size: Any,
    output_size: Any = None,
    output_ratio: Any = None,
    return_indices: Literal[False] = False,
    _random_samples: Tensor | None = None,
) -> Tensor:
    """The largest element of windows at random steps (https://arxiv.org/abs/1412.6071);
    `_random_samples` in [0, 1) is (N, C, 2).
    """

@overload
def fractional_max_pool2d(
    input: Tensor,
    kernel_size: Any,
    output_size: Any = None,
    output_ratio: Any = None,
    *,
    return_indices: Literal[True],
    _random_samples: Tensor | None = None,
) -> tuple[Tensor, Tensor]: ...
@overload
def fractional_max_pool2d(
    input: Tensor,
    kernel_size: Any,
    output_size: Any = None,
    output_ratio: Any = None,
    return_indices: bool = False,
    _random_samples: Tensor | None = None,
) -> Any: ...
def fractional_max_pool2d_with_indices(
    input: Tensor,
    kernel_size: Any,
    output_size: Any = None,
    output_ratio: Any = None,
    return_indices: bool = True,
    _random_samples: Tensor | None = None,
) -> tuple[Tensor, Tensor]:
    """The largest element of windows at random steps (https://arxiv.org/abs/1412.6071) and its index."""

@overload
def fractional_max_pool3d(
    input: Tensor,
    kernel_size: Any,
    output_size: Any = None,
    output_ratio: Any = None,
    return_indices: Literal[False] = False,
    _random_samples: Tensor | None = None,
) -> Tensor:
    """The largest element of windows at random steps (https://arxiv.org/abs/1412.6071);
    `_random_samples` in [0, 1) is (N, C, 3).
    """

@overload
def fractional_max_pool3d(
    input: Tensor,
    kernel_size: Any,
    output_size: Any = None,
    output_ratio: Any = None,
    *,
    return_indices: Literal[True],
    _random_samples: Tensor | None = None,
) -> tuple[Tensor, Tensor]: ...
@overload
def fractional_max_pool3d(
    input: Tensor,
    kernel_size: Any,
    output_size: Any = None,
    output_ratio: Any = None,
    return_indices: bool = False,
    _random_samples: Tensor | None = None,
) -> Any: ...
def fractional_max_pool3d_with_indices(
    input: Tensor,
    kernel_size: Any,
    output_size: Any = None,
    output_ratio: Any = None,
    return_indices: bool = True,
    _random_samples: Tensor | None = None,
) -> tuple[Tensor, Tensor]:
    """The largest element of windows at random steps (https://arxiv.org/abs/1412.6071) and its index."""

def lp_pool1d(
    input: Tensor, norm_type: float, kernel_size: Any, stride: Any = None, ceil_mode: bool = False
) -> Tensor:
    """(sum of x^norm_type)^(1/norm_type) of windows over 1 dim(s)."""

def lp_pool2d(
    input: Tensor, norm_type: float, kernel_size: Any, stride: Any = None, ceil_mode: bool = False
) -> Tensor:
    """(sum of x^norm_type)^(1/norm_type) of windows over 2 dim(s)."""

def lp_pool3d(
    input: Tensor, norm_type: float, kernel_size: Any, stride: Any = None, ceil_mode: bool = False
) -> Tensor:
    """(sum of x^norm_type)^(1/norm_type) of windows over 3 dim(s)."""

@overload
def max_pool1d(
    input: Tensor,
    kernel_size: Any,
    stride: Any = None,
    padding: Any = 0,
    dilation: Any = 1,
    ceil_mode: bool = False,
    return_indices: Literal[False] = False,
) -> Tensor:
    """The largest element of each window over the last 1 dim(s);
    return_indices: (values, int64 flat index in each plane).
    """

@overload
def max_pool1d(
    input: Tensor,
    kernel_size: Any,
    stride: Any = None,
    padding: Any = 0,
    dilation: Any = 1,
    ceil_mode: bool = False,
    *,
    return_indices: Literal[True],
) -> tuple[Tensor, Tensor]: ...
@overload
def max_pool1d(
    input: Tensor,
    kernel_size: Any,
    stride: Any = None,
    padding: Any = 0,
    dilation: Any = 1,
    ceil_mode: bool = False,
    return_indices: bool = False,
) -> Any: ...
def max_pool1d_with_indices(
    input: Tensor,
    kernel_size: Any,
    stride: Any = None,
    padding: Any = 0,
    dilation: Any = 1,
    ceil_mode: bool = False,
    return_indices: bool = True,
) -> tuple[Tensor, Tensor]:
    """The largest element of each window over the last 1 dim(s)
    and its int64 flat index in each plane.
    """

@overload
def max_pool2d(
    input: Tensor,
    kernel_size: Any,
    stride: Any = None,
    padding: Any = 0,
    dilation: Any = 1,
    ceil_mode: bool = False,
    return_indices: Literal[False] = False,
) -> Tensor:
    """The largest element of each window over the last 2 dim(s);
    return_indices: (values, int64 flat index in each plane).
    """

@overload
def max_pool2d(
    input: Tensor,
    kernel_size: Any,
    stride: Any = None,
    padding: Any = 0,
    dilation: Any = 1,
    ceil_mode: bool = False,
    *,
    return_indices: Literal[True],
) -> tuple[Tensor, Tensor]: ...
@overload
def max_pool2d(
    input: Tensor,
    kernel_size: Any,
    stride: Any = None,
    padding: Any = 0,
    dilation: Any = 1,
    ceil_mode: bool = False,
    return_indices: bool = False,
) -> Any: ...
def max_pool2d_with_indices(
    input: Tensor,
    kernel_size: Any,
    stride: Any = None,
    padding: Any = 0,
    dilation: Any = 1,
    ceil_mode: bool = False,
    return_indices: bool = True,
) -> tuple[Tensor, Tensor]:
    """The largest element of each window over the last 2 dim(s)
    and its int64 flat index in each plane.
    """

@overload
def max_pool3d(
    input: Tensor,
    kernel_size: Any,
    stride: Any = None,
    padding: Any = 0,
    dilation: Any = 1,
    ceil_mode: bool = False,
    return_indices: Literal[False] = False,
) -> Tensor:
    """The largest element of each window over the last 3 dim(s);
    return_indices: (values, int64 flat index in each plane).
    """

@overload
def max_pool3d(
    input: Tensor,
    kernel_size: Any,
    stride: Any = None,
    padding: Any = 0,
    dilation: Any = 1,
    ceil_mode: bool = False,
    *,
    return_indices: Literal[True],
) -> tuple[Tensor, Tensor]: ...
@overload
def max_pool3d(
    input: Tensor,
    kernel_size: Any,
    stride: Any = None,
    padding: Any = 0,
    dilation: Any = 1,
    ceil_mode: bool = False,
    return_indices: bool = False,
) -> Any: ...
def max_pool3d_with_indices(
    input: Tensor,
    kernel_size: Any,
    stride: Any = None,
    padding: Any = 0,
    dilation: Any = 1,
    ceil_mode: bool = False,
    return_indices: bool = True,
) -> tuple[Tensor, Tensor]:
    """The largest element of each window over the last 3 dim(s)
    and its int64 flat index in each plane.
    """

def max_unpool1d(
    input: Tensor,
    indices: Tensor,
    kernel_size: Any,
    stride: Any = None,
    padding: Any = 0,
    output_size: Any = None,
) -> Tensor:
    """max_pool1d undone: each element where its int64 index says, zeros elsewhere."""

def max_unpool2d(
    input: Tensor,
    indices: Tensor,
    kernel_size: Any,
    stride: Any = None,
    padding: Any = 0,
    output_size: Any = None,
) -> Tensor:
    """max_pool2d undone: each element where its int64 index says, zeros elsewhere."""

def max_unpool3d(
    input: Tensor,
    indices: Tensor,
    kernel_size: Any,
    stride: Any = None,
    padding: Any = 0,
    output_size: Any = None,
) -> Tensor:
    """max_pool3d undone: each element where its int64 index says, zeros elsewhere."""
