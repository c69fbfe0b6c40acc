"""Normalization over batches, layers, groups, instances and neighbouring channels."""

from __future__ import annotations

import math
from typing import Any

from pyframe.core import dtypes as dt
from pyframe.core.dispatch import apply
from pyframe.core.modes import mode, no_grad
from pyframe.nn.functional.resample import pad
from pyframe.nn.functional.spatial import avg_pool2d
from pyframe.ops.api import check
from pyframe.ops.api.autocast import autocast
from pyframe.ops.api.layouts import declare_layout
from pyframe.ops.math import elementwise as el
from pyframe.ops.reduce import norms, reductions as rd
from pyframe.ops.shape import movement as mv
from pyframe.tensor import Tensor

__all__ = [
    "batch_norm", "group_norm", "instance_norm", "layer_norm", "local_response_norm",
    "normalize", "rms_norm",
]  # fmt: skip
TOPLEVEL = "rms_norm"  # functions of pyframe too


def _affine(
    out: Tensor, weight: Tensor | None, bias: Tensor | None, shape: tuple[int, ...], dtype: dt.dtype
) -> Tensor:
    """out * weight + bias, both of them in `shape`, as `dtype`."""
    if weight is not None:
        out = out * (weight if weight.shape == shape else mv.reshape(weight, shape))
    if bias is not None:
        out = out + (bias if bias.shape == shape else mv.reshape(bias, shape))
    return out.to(dtype)


def _kept(input: Tensor, params: tuple[Tensor | None, ...], *statistics: Tensor) -> Any:
    """Statistics in the dtype of the parameters, or of the input."""
    dtype = next((p.dtype for p in params if p is not None), input.dtype)
    return [x.to(dtype) for x in statistics]


def _standard(
    input: Tensor, dims: tuple[int, ...], eps: float, batch: bool = False
) -> tuple[Tensor, ...]:
    """((x - mean) / sqrt(var + eps), mean, var, 1 / sqrt(var + eps)) over dims, which stay as 1;
    of float16 and bfloat16 in float32. What the rounding of a mean that is 10^5 times the
    deviation adds to the variance counts in statistics that are kept, those of a `batch`."""
    x = rd.widened(input)
    n = rd.count(x, dims)
    mean = apply(rd.sum_op, (x,), (dims, True)) / n
    centered = x - mean
    if batch:
        var = rd.squares(centered, dims, True, n) / n
    else:
        var = apply(rd.sum_op, (centered * centered,), (dims, True)) / n
    rstd = el.rsqrt(var + eps)
    return centered * rstd, mean, var, rstd


def _last_dims(name: str, input: Tensor, normalized_shape: Any, **params: Any) -> tuple[int, ...]:
    """The dims to normalize over, RuntimeError where shapes don't fit."""
    shape = (normalized_shape,) if isinstance(normalized_shape, int) else tuple(normalized_shape)
    k = len(shape)
    if k == 0:
        raise RuntimeError(
            f"{name}: Expected normalized_shape to be at least 1-dimensional, i.e., containing at "
            f"least one element, but got normalized_shape = {list(shape)}"
        )
    if input.shape[-k:] != shape:
        raise RuntimeError(
            f"{name}: Given normalized_shape={list(shape)}, expected input with shape "
            f"[*, {', '.join(map(str, shape))}], but got input of size {list(input.shape)}"
        )
    for what, x in params.items():
        if x is not None and x.shape != shape:
            raise RuntimeError(
                f"{name}: Expected {what} to be of same shape as normalized_shape, but got "
                f"{what} of shape {list(x.shape)} and normalized_shape = {list(shape)}"
            )
    check.floats(name, input)
    return tuple(range(input.ndim - k, input.ndim))


def layer_norm(
    input: Tensor, normalized_shape: Any, weight: Tensor | None = None, bias: Tensor | None = None,
    eps: float = 1e-5,
) -> Tensor:  # fmt: skip
    """(x - mean) / √(var + eps) * weight + bias over the last dims (arXiv 1607.06450); see
    nn.LayerNorm.

    Args:
        normalized_shape: the sizes of those dims, also weight's and bias's.

    Raises:
        RuntimeError: shapes don't fit.

    >>> F.layer_norm(pf.tensor([1.0, 1.0, 3.0, 3.0]), (4,)).round()
    tensor([-1., -1.,  1.,  1.])
    """
    return native_layer_norm(input, normalized_shape, weight, bias, eps)[0]


def native_layer_norm(
    input: Tensor, normalized_shape: Any, weight: Tensor | None, bias: Tensor | None, eps: float
) -> tuple[Tensor, Tensor, Tensor]:
    """(layer_norm, mean, 1 / sqrt(var + eps)), statistics with the normalized dims as 1."""
    dims = _last_dims("layer_norm", input, normalized_shape, weight=weight, bias=bias)
    check.params_like("layer_norm", input, weight=weight, bias=bias)
    out, mean, _, rstd = _standard(input, dims, eps)
    out = _affine(out, weight, bias, input.shape[-len(dims) :], input.dtype)
    return out, *_kept(input, (weight, bias), mean.detach(), rstd.detach())


def rms_norm(
    input: Tensor, normalized_shape: Any, weight: Tensor | None = None, eps: float | None = None
) -> Tensor:
    """x / √(mean(x²) + eps) * weight over the last dims, of `normalized_shape` (arXiv 1910.07467);
    see nn.RMSNorm. eps is the machine epsilon of what is computed with by default, float32's for
    less. RuntimeError where shapes don't fit.
    """
    dims = _last_dims("rms_norm", input, normalized_shape, weight=weight)
    x = rd.widened(input)
    if eps is None:
        eps = dt.finfo(x.dtype).eps
    out = x * el.rsqrt(rd.mean(x * x, dims, True) + eps)
    return _affine(out, weight, None, input.shape[-len(dims) :], input.dtype)


def _check_channels(name: str, input: Tensor, n: int, **params: Tensor | None) -> None:
    check.params_like(name, input, **params)
    for what, x in params.items():
        if x is not None and x.shape != (n,):
            raise RuntimeError(
                f"{name}: {what} should contain {n} elements, one a channel, got {list(x.shape)}"
            )


def batch_norm(
    input: Tensor, running_mean: Tensor | None, running_var: Tensor | None,
    weight: Tensor | None = None, bias: Tensor | None = None, training: bool = False,
    momentum: float = 0.1, eps: float = 1e-5,
) -> Tensor:  # fmt: skip
    """(x - mean) / √(var + eps) * weight + bias for each channel of (N, C, *), with statistics of
    the batch in training, else the running ones (arXiv 1502.03167); see nn.BatchNorm2d.

    Args:
        running_mean, running_var: (C,), moved in place in training where they are given: running *
            (1 - momentum) + the batch's * momentum, its variance being the unbiased one.
        weight, bias: (C,), or None.

    Raises:
        ValueError: in training with one value a channel, or eps is not above 0.
        RuntimeError: shapes don't fit, or statistics are missing outside training.

    >>> F.batch_norm(pf.tensor([[1.0], [3.0]]), None, None, training=True).round().tolist()
    [[-1.0], [1.0]]
    """
    shape = input.shape
    if training and len(shape) > 1 and shape[0] * math.prod(shape[2:]) == 1:
        raise ValueError(
            f"batch_norm: Expected more than 1 value per channel when training, got input size "
            f"{list(shape)}"
        )
    if eps < 0 or (training and eps == 0):
        raise ValueError(f"batch_norm: eps must be positive, got {eps}")
    return native_batch_norm(
        input, weight, bias, running_mean, running_var, training, momentum, eps
    )[0]


def native_batch_norm(
    input: Tensor, weight: Tensor | None, bias: Tensor | None, running_mean: Tensor | None,
    running_var: Tensor | None, training: bool, momentum: float, eps: float,
) -> tuple[Tensor, Tensor, Tensor]:  # fmt: skip
    """(batch_norm, mean (C,), 1 / sqrt(var + eps) (C,)); empty statistics unless in training."""
    check.floats("batch_norm", input)
    shape = input.shape
    none = input.new_zeros(0)
    if len(shape) < 2:
        raise RuntimeError(f"batch_norm: expected input (N, C, *), got {list(shape)}")
    c = shape[1]
    _check_channels(
        "batch_norm", input, c, weight=weight, bias=bias, running_mean=running_mean,
        running_var=running_var,
    )  # fmt: skip
    row = (c, *(1,) * (len(shape) - 2))
    if 0 in shape:
        return _affine(input.clone(), weight, bias, row, input.dtype), none, none
    if not training:
        if running_mean is None or running_var is None:
            raise RuntimeError(
                "batch_norm: Expected running_mean and running_var to be defined when "
                "training=False; pass both, or training=True"
            )
        scale = el.rsqrt(rd.widened(running_var) + eps)
        scale = scale if weight is None else scale * weight
        out = (rd.widened(input) - mv.reshape(running_mean, row)) * mv.reshape(scale, row)
        return _affine(out, None, bias, row, input.dtype), none, none
    out, mean, var, rstd = _standard(input, (0, *range(2, len(shape))), eps, True)
    _move(running_mean, mv.reshape(mean, (c,)), momentum)
    _move(running_var, _unbiased(var, math.prod(shape) // c).reshape(c), momentum)
    kept = [mv.reshape(x.detach(), (c,)) for x in (mean, rstd)]
    out = _affine(out, weight, bias, row, input.dtype)
    return out, *_kept(input, (weight, bias, running_mean), *kept)


def _unbiased(var: Tensor, n: int) -> Tensor:
    return var.detach() * (n / (n - 1) if n > 1 else math.nan)


def _move(running: Tensor | None, value: Tensor, momentum: float) -> None:
    """Bring a running statistic nearer to `value`, in place."""
    if running is not None:
        with no_grad():
            running._overwrite(running * (1 - momentum) + value * momentum)


def instance_norm(
    input: Tensor, running_mean: Tensor | None = None, running_var: Tensor | None = None,
    weight: Tensor | None = None, bias: Tensor | None = None, use_input_stats: bool = True,
    momentum: float = 0.1, eps: float = 1e-5,
) -> Tensor:  # fmt: skip
    """batch_norm of each sample by itself (arXiv 1607.08022): (N, C, *); see nn.InstanceNorm2d.
    Running statistics may be of another float dtype than the input.

    Args:
        running_mean, running_var: (C,), moved in place with `use_input_stats`, else what is taken.
        weight, bias: (C,), or None.

    Raises:
        ValueError: a sample has one element of space.
        RuntimeError: shapes don't fit, or statistics are missing without `use_input_stats`.
    """
    shape = input.shape
    check.floats("instance_norm", running_mean, running_var)
    half = input.dtype in (dt.float16, dt.bfloat16)
    mean_now, var_now = (
        x if x is None or (half and x.dtype is dt.float32) else x.to(input.dtype)
        for x in (running_mean, running_var)
    )
    if not use_input_stats:
        if mean_now is None or var_now is None:
            raise RuntimeError(
                "instance_norm: Expected running_mean and running_var to be defined when "
                "use_input_stats is false"
            )
        return batch_norm(input, mean_now, var_now, weight, bias, False, momentum, eps)
    n = math.prod(shape[2:])
    if n == 1:
        raise ValueError(
            "instance_norm: Expected more than 1 spatial element when training, got input size "
            f"{list(shape)}"
        )
    check.floats("instance_norm", input)
    if len(shape) < 2:
        raise RuntimeError(f"instance_norm: expected input (N, C, *), got {list(shape)}")
    _check_channels(
        "instance_norm", input, shape[1], weight=weight, bias=bias, running_mean=mean_now,
        running_var=var_now,
    )  # fmt: skip
    out = input.clone()
    if 0 not in shape:
        out, mean, var, _ = _standard(input, tuple(range(2, len(shape))), eps, True)
        _move(running_mean, rd.mean(mean, 0).reshape(shape[1]), momentum)
        _move(running_var, rd.mean(_unbiased(var, n), 0).reshape(shape[1]), momentum)
    if weight is not None and mode.grad:  # PyTorch repeats it, so that the user's may be written to
        weight = weight.clone()
    return _affine(out, weight, bias, (shape[1], *(1,) * (len(shape) - 2)), input.dtype)


def group_norm(
    input: Tensor, num_groups: int, weight: Tensor | None = None, bias: Tensor | None = None,
    eps: float = 1e-5,
) -> Tensor:  # fmt: skip
    """(x - mean) / √(var + eps) over each of `num_groups` groups of the channels of (N, C, *), then
    * weight + bias, (C,), for each channel (arXiv 1803.08494); see nn.GroupNorm.

    Raises:
        RuntimeError: `num_groups` doesn't divide C, or shapes don't fit.
    """
    shape = input.shape
    if len(shape) < 2:
        raise RuntimeError(
            f"group_norm: Expected at least 2 dimensions for input tensor but received {len(shape)}"
        )
    if num_groups > 0 and shape[0] * shape[1] // num_groups * math.prod(shape[2:]) == 1:
        raise ValueError(
            "group_norm: Expected more than 1 value per channel when training, got input size "
            f"{list(shape)} in {num_groups} groups"
        )
    if num_groups < 1 or shape[1] % num_groups:
        raise RuntimeError(
            f"group_norm: Expected number of channels in input to be divisible by num_groups, but "
            f"got input of shape {list(shape)} and num_groups={num_groups}"
        )
    n, c = shape[:2]
    return native_group_norm(
        input, weight, bias, n, c, math.prod(shape[2:]), num_groups, eps
    )[0]  # fmt: skip


def native_group_norm(
    input: Tensor, weight: Tensor | None, bias: Tensor | None, N: int, C: int, HxW: int,
    group: int, eps: float,
) -> tuple[Tensor, Tensor, Tensor]:  # fmt: skip
    """(group_norm, mean (N, group), 1 / sqrt(var + eps) (N, group)) of an input (N, C, *)."""
    check.floats("group_norm", input)
    if group < 1:
        raise RuntimeError(f"native_group_norm: expected at least one group, got {group}")
    _check_channels("group_norm", input, C, weight=weight, bias=bias)
    shape = input.shape
    out, mean, _, rstd = _standard(input.reshape(N, group, C // group * HxW), (2,), eps)
    out = _affine(out.reshape(shape), weight, bias, (C, *(1,) * (len(shape) - 2)), input.dtype)
    return out, *_kept(input, (weight, bias), mv.squeeze(mean, 2), mv.squeeze(rstd, 2))


def local_response_norm(
    input: Tensor, size: int, alpha: float = 1e-4, beta: float = 0.75, k: float = 1.0
) -> Tensor:
    """x / (k + alpha * mean of x² over `size` neighbouring channels)^beta: (N, C, L, *); see
    nn.LocalResponseNorm. ValueError for fewer dims.
    """
    if input.ndim < 3:
        raise ValueError(
            f"local_response_norm: Expected 3D or higher dimensionality input (got {input.ndim} "
            "dimensions)"
        )
    if input.numel() == 0:
        return input
    n, c = input.shape[:2]
    squares = (input * input).reshape(n, 1, c, -1)
    squares = pad(squares, (0, 0, size // 2, (size - 1) // 2))
    mean = avg_pool2d(squares, (size, 1), stride=1).reshape(input.shape)
    return input / el.pow(mean * alpha + k, beta)


def normalize(
    input: Tensor, p: float = 2.0, dim: Any = 1, eps: float = 1e-12, out: Tensor | None = None
) -> Tensor:
    """x / max(‖x‖, eps) over a dim, so that vectors have the p-norm 1.

    Args:
        dim: the dim that a vector lies in, or several.
        eps: the least norm that is divided by.
        out: where the result is written to; None for a new tensor.

    >>> F.normalize(pf.tensor([3.0, 4.0]), dim=0)
    tensor([0.6000, 0.8000])
    """
    result = input / el.clamp(norms.vector_norm(input, p, dim, True), min=eps)
    return result if out is None else out._write(result)


declare_layout(globals(), rows="layer_norm rms_norm", last="batch_norm instance_norm group_norm")
autocast(
    globals(),
    float32="local_response_norm",
    gpu_float32="layer_norm native_layer_norm group_norm native_group_norm rms_norm normalize",
)
