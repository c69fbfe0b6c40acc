"""Linear maps, normalization, dropout, embedding, distances and attention."""

from __future__ import annotations

import math
import warnings
from typing import Any

import numpy as np

from pyframe.core import dtypes as dt
from pyframe.core.dispatch import apply
from pyframe.core.modes import no_grad
from pyframe.nn.functional.activation import maybe_inplace
from pyframe.nn.functional.resample import pad
from pyframe.nn.functional.spatial import avg_pool2d
from pyframe.ops import (
    arrange,
    check,
    elementwise as el,
    extremes,
    index as _index,
    join,
    masks,
    movement as mv,
    norms,
    promotion,
    reduce as rd,
)
from pyframe.ops.autocast import autocast
from pyframe.ops.matmul import linear as _linear, matmul
from pyframe.ops.random import rand
from pyframe.ops.rows import add_rows, checked_classes, take_rows
from pyframe.ops.scan import cumsum
from pyframe.tensor import Tensor, normalize_dim, upload

__all__ = [
    "alpha_dropout", "batch_norm", "bilinear", "cosine_similarity", "dropout", "dropout1d",
    "dropout2d", "dropout3d", "embedding", "embedding_bag", "feature_alpha_dropout", "group_norm",
    "instance_norm", "layer_norm", "linear", "local_response_norm",
    "multi_head_attention_forward", "normalize", "one_hot", "pairwise_distance", "pdist",
    "rms_norm", "scaled_dot_product_attention",
]  # fmt: skip
TOPLEVEL = "bilinear cosine_similarity pairwise_distance pdist rms_norm"  # functions of pyframe too


def at_least(x: Tensor, low: float) -> Tensor:
    """A copy of x, no less than `low`; the gradient is that of x itself, below `low` too."""
    x = x.clone()
    with no_grad():
        x._overwrite(el.clamp(x, min=low))
    return x


# --- linear maps


def linear(input: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
    """x @ weight.T + bias: (*, in) and (out, in) -> (*, out)."""
    if input.ndim and weight.ndim == 2 and input._node.shape[-1] != weight._node.shape[1]:
        raise RuntimeError(
            f"linear: input of shape {list(input.shape)} has {input._node.shape[-1]} features, but "
            f"weight of shape {list(weight.shape)} expects {weight._node.shape[1]}"
        )
    if weight.ndim > 2:
        raise RuntimeError(
            f"linear: expected a weight (out, in) or (in,), got {list(weight.shape)}"
        )
    dtype = input.dtype
    if dtype is not weight.dtype or (bias is not None and bias.dtype is not dtype):
        check.weight_dtype("linear", input, weight, bias)
    if bias is not None and bias.ndim > 2:
        raise RuntimeError(f"linear: expected a bias of shape (out,), got {list(bias.shape)}")
    if input.ndim and weight.ndim == 2:
        out = _linear(input, weight)
    else:
        out = matmul(input, weight.mT if weight.ndim > 1 else weight)
    return out if bias is None else out + bias


def bilinear(input1: Tensor, input2: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
    """input1 @ weight[o] @ input2 + bias[o]: (*, a), (*, b), (out, a, b) -> (*, out)."""
    check.same_dtype("bilinear", *[x for x in (input1, input2, weight, bias) if x is not None])
    lead = input1._node.shape[:-1]
    if lead != input2._node.shape[:-1]:
        raise RuntimeError(
            "bilinear: input batch dimensions do not match: got input1 "
            f"{list(input1.shape)} and input2 {list(input2.shape)}"
        )
    if weight.ndim != 3 or weight._node.shape[1:] != (input1.shape[-1], input2.shape[-1]):
        raise RuntimeError(
            f"bilinear: expected weight (out, {input1.shape[-1]}, {input2.shape[-1]}), got "
            f"{list(weight.shape)}"
        )
    o, a, b = weight._node.shape
    if bias is not None and bias._node.shape != (o,):
        raise RuntimeError(f"bilinear: expected bias ({o},), got {list(bias.shape)}")
    n = math.prod(lead)
    left = matmul(input1.reshape(n, a), mv.permute(weight, 1, 0, 2).reshape(a, o * b))
    out = rd.sum(left.reshape(n, o, b) * input2.reshape(n, 1, b), -1).reshape(*lead, o)
    return out if bias is None else out + bias


# --- dropout


def dropped(
    name: str, input: Tensor, p: float, training: bool, inplace: bool, features: bool = False,
    alpha: bool = False,
) -> Tensor:  # fmt: skip
    """What all dropouts do: draw a mask (of whole channels with `features`) and apply it."""
    if not 0 <= p <= 1:
        raise ValueError(f"{name}: dropout probability has to be between 0 and 1, but got {p}")
    shape = input._node.shape
    if features and training and p and len(shape) < 2:
        raise RuntimeError(
            f"{name}: Feature dropout requires at least 2 dimensions in the input, got "
            f"{list(shape)}"
        )
    if not training or p == 0 or 0 in shape:
        return input
    check.floats(name, input)
    if p == 1:
        return maybe_inplace(lambda x: x * 0.0, input, inplace)
    mask_shape = (*shape[:2], *(1,) * (len(shape) - 2)) if features else shape
    keep = el.ge(rand(mask_shape, device=input.device), p)
    if not alpha:
        return maybe_inplace(lambda x: el.where(keep, x * (1 / (1 - p)), 0.0), input, inplace)
    a = 1 / math.sqrt((_ALPHA * _ALPHA * p + 1) * (1 - p))
    b = _ALPHA * a * p  # a, b: mean 0 and variance 1 stay so, see arXiv 1706.02515
    return maybe_inplace(lambda x: el.where(keep, x * a + b, b - _ALPHA * a), input, inplace)


_ALPHA = 1.7580993408473766  # minus the value that selu saturates at


def dropout(input: Tensor, p: float = 0.5, training: bool = True, inplace: bool = False) -> Tensor:
    """Zero each element with probability p and scale the rest by 1 / (1 - p)."""
    return dropped("dropout", input, p, training, inplace)


def alpha_dropout(
    input: Tensor, p: float = 0.5, training: bool = False, inplace: bool = False
) -> Tensor:
    """Dropout to the value that selu saturates at, keeping mean 0 and variance 1 (1706.02515)."""
    return dropped("alpha_dropout", input, p, training, inplace, alpha=True)


def feature_alpha_dropout(
    input: Tensor, p: float = 0.5, training: bool = False, inplace: bool = False
) -> Tensor:
    """alpha_dropout of whole channels: (N, C, *)."""
    return dropped("feature_alpha_dropout", input, p, training, inplace, True, True)


def dropout1d(
    input: Tensor, p: float = 0.5, training: bool = True, inplace: bool = False
) -> Tensor:
    """Dropout of whole channels: (N, C, L) or (C, L)."""
    if input.ndim not in (2, 3):
        raise RuntimeError(
            f"dropout1d: Expected 2D or 3D input, but received a {input.ndim}D input; "
            "use dropout for other shapes"
        )
    return _channels("dropout1d", input, p, training, inplace, input.ndim == 2)


def _channels(
    name: str, input: Tensor, p: float, training: bool, inplace: bool, alone: bool
) -> Tensor:
    if not alone:
        return dropped(name, input, p, training, inplace, True)
    out = dropped(name, mv.unsqueeze(input, 0), p, training, inplace, True)
    return input if inplace else mv.squeeze(out, 0)


def dropout2d(
    input: Tensor, p: float = 0.5, training: bool = True, inplace: bool = False
) -> Tensor:
    """Dropout of whole channels: (N, C, H, W); a 3-d input counts as (N, C, L)."""
    if input.ndim not in (3, 4):
        _deprecated("dropout2d", input, "(N, C, H, W)")
    if input.ndim == 3:
        warnings.warn(
            "dropout2d: Received a 3D input to dropout2d and assuming that channel-wise 1D dropout "
            "behavior is desired, (N, C, L); use dropout1d for that",
            stacklevel=3,
        )
    return dropped("dropout2d", input, p, training, inplace, True)


def dropout3d(
    input: Tensor, p: float = 0.5, training: bool = True, inplace: bool = False
) -> Tensor:
    """Dropout of whole channels: (N, C, D, H, W) or (C, D, H, W)."""
    if input.ndim not in (4, 5):
        _deprecated("dropout3d", input, "(N, C, D, H, W)")
    return _channels("dropout3d", input, p, training, inplace, input.ndim != 5)


def _deprecated(name: str, input: Tensor, expected: str) -> None:
    warnings.warn(
        f"{name}: Received a {input.ndim}-D input to {name}, which is deprecated; expected "
        f"{expected}, use dropout for other shapes",
        stacklevel=4,
    )


# --- normalization


def _affine(
    out: Tensor, weight: Tensor | None, bias: Tensor | None, shape: tuple[int, ...], dtype: dt.dtype
) -> Tensor:
    """out * weight + bias, both of them in `shape`, as `dtype`."""
    if weight is not None:
        out = out * (weight if weight._node.shape == shape else mv.reshape(weight, shape))
    if bias is not None:
        out = out + (bias if bias._node.shape == shape else mv.reshape(bias, shape))
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
    if input._node.shape[-k:] != shape:
        raise RuntimeError(
            f"{name}: Given normalized_shape={list(shape)}, expected input with shape "
            f"[*, {', '.join(map(str, shape))}], but got input of size {list(input.shape)}"
        )
    for what, x in params.items():
        if x is not None and x._node.shape != shape:
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
    """(x - mean) / sqrt(var + eps) * weight + bias over the last dims (arXiv 1607.06450)."""
    return native_layer_norm(input, normalized_shape, weight, bias, eps)[0]


def native_layer_norm(
    input: Tensor, normalized_shape: Any, weight: Tensor | None, bias: Tensor | None, eps: float
) -> tuple[Tensor, Tensor, Tensor]:
    """(layer_norm, mean, 1 / sqrt(var + eps)), statistics with the normalized dims as 1."""
    dims = _last_dims("layer_norm", input, normalized_shape, weight=weight, bias=bias)
    check.params_like("layer_norm", input, weight=weight, bias=bias)
    out, mean, _, rstd = _standard(input, dims, eps)
    out = _affine(out, weight, bias, input._node.shape[-len(dims) :], input.dtype)
    return out, *_kept(input, (weight, bias), mean.detach(), rstd.detach())


def rms_norm(
    input: Tensor, normalized_shape: Any, weight: Tensor | None = None, eps: float | None = None
) -> Tensor:
    """x / sqrt(mean(x^2) + eps) * weight over the last dims (arXiv 1910.07467); eps is the
    dtype's machine epsilon by default."""
    dims = _last_dims("rms_norm", input, normalized_shape, weight=weight)
    if eps is None:
        eps = dt.finfo(input.dtype).eps
    x = rd.widened(input)
    out = x * el.rsqrt(rd.mean(x * x, dims, True) + eps)
    return _affine(out, weight, None, input._node.shape[-len(dims) :], input.dtype)


def _check_channels(name: str, input: Tensor, n: int, **params: Tensor | None) -> None:
    check.params_like(name, input, **params)
    for what, x in params.items():
        if x is not None and x._node.shape != (n,):
            raise RuntimeError(
                f"{name}: {what} should contain {n} elements, one a channel, got {list(x.shape)}"
            )


def batch_norm(
    input: Tensor, running_mean: Tensor | None, running_var: Tensor | None,
    weight: Tensor | None = None, bias: Tensor | None = None, training: bool = False,
    momentum: float = 0.1, eps: float = 1e-5,
) -> Tensor:  # fmt: skip
    """(x - mean) / sqrt(var + eps) * weight + bias for each channel of (N, C, *), with statistics
    of the batch in training (which move the running ones), else the running ones (1502.03167)."""
    shape = input._node.shape
    if training and len(shape) > 1 and math.prod(shape) == shape[1]:
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
    shape = input._node.shape
    none = input.new_zeros(0)
    if 0 in shape:
        return input.clone(), none, none
    if len(shape) < 2:
        raise RuntimeError(f"batch_norm: expected input (N, C, *), got {list(shape)}")
    c = shape[1]
    _check_channels(
        "batch_norm", input, c, weight=weight, bias=bias, running_mean=running_mean,
        running_var=running_var,
    )  # fmt: skip
    row = (c, *(1,) * (len(shape) - 2))
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
    """batch_norm of each sample by itself (arXiv 1607.08022): (N, C, *)."""
    shape = input._node.shape
    if not use_input_stats:
        if running_mean is None or running_var is None:
            raise RuntimeError(
                "instance_norm: Expected running_mean and running_var to be defined when "
                "use_input_stats is false"
            )
        return batch_norm(input, running_mean, running_var, weight, bias, False, momentum, eps)
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
        "instance_norm", input, shape[1], weight=weight, bias=bias, running_mean=running_mean,
        running_var=running_var,
    )  # fmt: skip
    if 0 in shape:
        return input.clone()
    out, mean, var, _ = _standard(input, tuple(range(2, len(shape))), eps, True)
    _move(running_mean, rd.mean(mean, 0).reshape(shape[1]), momentum)
    _move(running_var, rd.mean(_unbiased(var, n), 0).reshape(shape[1]), momentum)
    return _affine(out, weight, bias, (shape[1], *(1,) * (len(shape) - 2)), input.dtype)


def group_norm(
    input: Tensor, num_groups: int, weight: Tensor | None = None, bias: Tensor | None = None,
    eps: float = 1e-5,
) -> Tensor:  # fmt: skip
    """(x - mean) / sqrt(var + eps) over each of `num_groups` groups of the channels of (N, C, *),
    then * weight + bias for each channel (arXiv 1803.08494)."""
    shape = input._node.shape
    if len(shape) < 2:
        raise RuntimeError(
            f"group_norm: Expected at least 2 dimensions for input tensor but received {len(shape)}"
        )
    if num_groups < 1 or shape[1] % num_groups:
        raise RuntimeError(
            f"group_norm: Expected number of channels in input to be divisible by num_groups, but "
            f"got input of shape {list(shape)} and num_groups={num_groups}"
        )
    if math.prod(shape) == num_groups:
        raise ValueError(
            "group_norm: Expected more than 1 value per channel when training, got input size "
            f"{list(shape)} in {num_groups} groups"
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
    _check_channels("group_norm", input, C, weight=weight, bias=bias)
    shape = input._node.shape
    out, mean, _, rstd = _standard(input.reshape(N, group, C // group * HxW), (2,), eps)
    out = _affine(out.reshape(shape), weight, bias, (C, *(1,) * (len(shape) - 2)), input.dtype)
    return out, *_kept(input, (weight, bias), mv.squeeze(mean, 2), mv.squeeze(rstd, 2))


def local_response_norm(
    input: Tensor, size: int, alpha: float = 1e-4, beta: float = 0.75, k: float = 1.0
) -> Tensor:
    """x / (k + alpha * mean of x^2 over `size` neighbouring channels)^beta: (N, C, L, *)."""
    if input.ndim < 3:
        raise ValueError(
            f"local_response_norm: Expected 3D or higher dimensionality input (got {input.ndim} "
            "dimensions)"
        )
    if input.numel() == 0:
        return input
    n, c = input._node.shape[:2]
    squares = (input * input).reshape(n, 1, c, -1)
    squares = pad(squares, (0, 0, size // 2, (size - 1) // 2))
    mean = avg_pool2d(squares, (size, 1), stride=1).reshape(input._node.shape)
    return input / el.pow(mean * alpha + k, beta)


# --- distances


def normalize(
    input: Tensor, p: float = 2.0, dim: Any = 1, eps: float = 1e-12, out: Tensor | None = None
) -> Tensor:
    """x / max(norm(x), eps) over a dim."""
    result = input / el.clamp(norms.vector_norm(input, p, dim, True), min=eps)
    return result if out is None else out._write(result)


def cosine_similarity(x1: Tensor, x2: Tensor, dim: int = 1, eps: float = 1e-8) -> Tensor:
    """The cosine of the angle between two tensors over a dim, norms no less than eps."""
    dtype = promotion.result_type(x1, x2)
    if dtype.category != dt.FLOAT:
        raise RuntimeError(
            "cosine_similarity: expected common dtype to be floating point, yet common dtype is "
            f"{dtype.name}; use .float() first"
        )
    a, b = mv.broadcast_tensors(x1.to(dtype), x2.to(dtype))
    d = normalize_dim(dim, a.ndim)
    unit = [x / at_least(norms.vector_norm(x, 2, d if x.ndim else (), True), eps) for x in (a, b)]
    return rd.sum(unit[0] * unit[1], d if a.ndim else ())


def pairwise_distance(
    x1: Tensor, x2: Tensor, p: float = 2.0, eps: float = 1e-6, keepdim: bool = False
) -> Tensor:
    """The p-norm of x1 - x2 + eps over the last dim."""
    return norms.vector_norm(x1 - x2 + eps, p, -1, keepdim)


def pdist(input: Tensor, p: float = 2) -> Tensor:
    """The p-norms of the differences of all pairs of rows: (N, M) -> (N * (N - 1) / 2,)."""
    if input.ndim != 2:
        raise RuntimeError(f"pdist: only supports 2D tensors, got: {input.ndim}D")
    check.floats("pdist", input)
    if p < 0:
        raise RuntimeError(f"pdist: only supports non-negative p values, got {p}")
    first, second = np.triu_indices(input._node.shape[0], 1)
    if not first.size:
        return rd.sum(input[:0], 1)
    rows = [
        apply(take_rows, (input, upload(i.astype(np.int64), input.device))) for i in (first, second)
    ]
    return norms.vector_norm(rows[0] - rows[1], p, 1, False)


# --- embedding


def _expect(holds: bool, message: str) -> None:
    """AssertionError, as in PyTorch's own Python."""
    if not holds:
        raise AssertionError(message)


def one_hot(input: Tensor, num_classes: int = -1) -> Tensor:
    """int64 (*, num_classes) with a 1 at each class; num_classes -1 reads the largest.

    RuntimeError for a class outside 0..num_classes-1 (on the GPU when a value is next read).
    """
    if input.dtype is not dt.int64:
        raise RuntimeError(f"one_hot: only applicable to int64 tensors, got {input.dtype.name}")
    if num_classes == -1:
        if not input.numel():
            raise RuntimeError("one_hot: can't infer the number of classes of an empty tensor")
        num_classes = int(input.max().item()) + 1
    elif num_classes < 1 and (input.numel() or num_classes < 0):
        raise RuntimeError(f"one_hot: num_classes must be positive, got {num_classes}")
    bad = el.logical_or(el.lt(input, 0), el.ge(input, num_classes))
    check.refuse(bad, f"one_hot: Class values must be from 0 to {num_classes - 1}")
    hot = el.eq(mv.unsqueeze(input, -1), el.iota((num_classes,), input.device))
    return hot.to(dt.int64)


def embedding(
    input: Tensor, weight: Tensor, padding_idx: int | None = None, max_norm: float | None = None,
    norm_type: float = 2.0, scale_grad_by_freq: bool = False, sparse: bool = False,
) -> Tensor:  # fmt: skip
    """Rows of `weight` (V, D) that the ints of `input` (*) name: (*, D).

    Rows longer than `max_norm` are shortened in `weight` itself; that of `padding_idx` gets no
    gradient; with `scale_grad_by_freq` gradients are divided by how often a row is named.
    `sparse` changes nothing: gradients are dense. IndexError for an index outside the table; on
    the GPU when a value is next read.
    """
    if padding_idx is not None:
        rows = len(weight)
        _expect(-rows <= padding_idx < rows, "Padding_idx must be within num_embeddings")
        padding_idx %= rows
    flat = checked_rows("embedding", input, weight)
    if max_norm is not None:
        renorm_rows(weight, flat, max_norm, norm_type)
    out = _rows(weight, flat, padding_idx, scale_grad_by_freq)
    return out.reshape((*input._node.shape, weight._node.shape[1]))


def checked_rows(name: str, input: Tensor, weight: Tensor) -> Tensor:
    """The ints of `input` as a vector; RuntimeError for dtypes or shapes that don't fit, and for a
    row outside the table (V, D); of `embedding` that is an IndexError."""
    if weight.ndim != 2:
        raise RuntimeError(f"{name}: 'weight' must be 2-D, got shape {list(weight.shape)}")
    if input.dtype not in (dt.int32, dt.int64):
        raise RuntimeError(
            f"{name}: Expected tensor for argument #1 'indices' to have dtype int64 or int32, "
            f"but got {input.dtype.name}"
        )
    error = RuntimeError if name == "embedding_bag" else IndexError
    rows = weight._node.shape[0]
    return checked_classes(f"{name}: index", input.reshape(-1), rows, error=error)


def _rows(weight: Tensor, flat: Tensor, padding_idx: int | None, by_freq: bool) -> Tensor:
    out = apply(take_rows, (weight, flat))
    if not weight.requires_grad:
        return out
    if by_freq:
        once = weight.new_ones(flat.numel(), 1)
        count = apply(add_rows, (flat, once), (weight._node.shape[0],))
        share = 1 / apply(take_rows, (count, flat))
        out = out.detach() + (out - out.detach()) * share
    if padding_idx is not None:
        out = el.where(mv.unsqueeze(el.eq(flat, padding_idx), -1), out.detach(), out)
    return out


def renorm_rows(weight: Tensor, flat: Tensor, max_norm: float, norm_type: float) -> None:
    """Shorten the rows that `flat` names to `max_norm`, in place."""
    with no_grad():
        once = weight.new_ones(flat.numel(), 1)
        named = apply(add_rows, (flat, once), (weight._node.shape[0],))
        norm = norms.vector_norm(weight, norm_type, 1, True)
        long = el.logical_and(el.gt(named, 0), el.gt(norm, max_norm))
        weight._overwrite(el.where(long, weight * (max_norm / (norm + 1e-7)), weight))


def _check_bags(
    input: Tensor, weight: Tensor, offsets: Tensor | None, mode: str, by_freq_or_sparse: bool,
    per_sample_weights: Tensor | None,
) -> None:  # fmt: skip
    """ValueError (NotImplementedError for weights in another mode) for what embedding_bag does not
    take."""
    name = "embedding_bag"
    if per_sample_weights is not None and per_sample_weights._node.shape != input._node.shape:
        raise ValueError(
            f"{name}: per_sample_weights {list(per_sample_weights.shape)} must have the same shape "
            f"as the input {list(input.shape)}"
        )
    if weight.ndim != 2:
        raise ValueError(f"{name}: weight has to be a 2D Tensor, got {weight.ndim}-d")
    if weight.dtype.category != dt.FLOAT:
        raise RuntimeError(f"{name}: expected a weight of a float dtype, got {weight.dtype.name}")
    check.params_like(name, weight, per_sample_weights=per_sample_weights)
    if input.ndim not in (1, 2):
        raise ValueError(f"{name}: input has to be 1D or 2D Tensor, got {input.ndim}-d")
    if input.ndim == 2 and offsets is not None:
        raise ValueError(f"{name}: if input is 2D, its rows are the bags: offsets has to be None")
    if input.ndim == 1 and (offsets is None or offsets.ndim != 1):
        seen = "None" if offsets is None else f"{offsets.ndim}-d"
        raise ValueError(f"{name}: offsets has to be a 1D Tensor for a 1D input, got {seen}")
    if mode not in ("sum", "mean", "max"):
        raise ValueError(f"{name}: mode has to be one of sum, mean or max, got {mode!r}")
    if mode == "max" and by_freq_or_sparse:
        raise ValueError(f"{name}: max mode supports neither scale_grad_by_freq nor sparse")
    if per_sample_weights is not None and mode != "sum":
        raise NotImplementedError(
            f"{name}: per_sample_weights is only supported for mode='sum' (got mode='{mode}')"
        )


def embedding_bag(
    input: Tensor, weight: Tensor, offsets: Tensor | None = None, max_norm: float | None = None,
    norm_type: float = 2, scale_grad_by_freq: bool = False, mode: str = "mean",
    sparse: bool = False, per_sample_weights: Tensor | None = None,
    include_last_offset: bool = False, padding_idx: int | None = None,
) -> Tensor:  # fmt: skip
    """The sum, mean or max of `embedding` over bags of ints: (B, L), or (n,) where bag i starts at
    offsets[i] (and ends at the next one); (B, D). An empty bag gives zeros.

    The ints of `padding_idx` count for nothing; `per_sample_weights` (mode 'sum') multiply. Mode
    'max' with offsets reads them. Otherwise as `embedding`.
    """
    _check_bags(input, weight, offsets, mode, scale_grad_by_freq or sparse, per_sample_weights)
    if padding_idx is not None:
        rows = len(weight)
        if not -rows <= padding_idx < rows:
            raise RuntimeError(
                f"embedding_bag: padding_idx must be within {rows} embeddings, got {padding_idx}"
            )
        padding_idx %= rows
    flat = checked_rows("embedding_bag", input, weight)
    if max_norm is not None:
        renorm_rows(weight, flat, max_norm, norm_type)
    picked = _rows(weight, flat, None, scale_grad_by_freq)
    kept = None if padding_idx is None else mv.unsqueeze(el.ne(flat, padding_idx), 1)
    if per_sample_weights is not None:
        picked = picked * per_sample_weights.reshape(-1, 1)
    if mode == "max":
        return _largest(picked, kept, _places(input, offsets, include_last_offset))
    count = weight.new_ones(flat.numel(), 1)
    if kept is not None:
        picked, count = el.where(kept, picked, 0.0), kept.to(weight.dtype)
    if offsets is None:
        bags, length = input._node.shape
        total = rd.sum(picked.reshape(bags, length, weight._node.shape[1]), 1)
        count = rd.sum(count.reshape(bags, length, 1), 1)
    else:
        bags = offsets.numel() - include_last_offset
        bag = _bags(offsets[:bags], flat.numel())
        total, count = [
            apply(add_rows, (bag, x), (bags,)) for x in (picked, count)
        ]  # fmt: skip
    return total / el.clamp(count, min=1) if mode == "mean" else total


def _bags(offsets: Tensor, n: int) -> Tensor:
    """int64 (n,): the bag of each place, the last one that starts at or before it."""
    if n and not offsets.numel():
        raise RuntimeError(f"embedding_bag: offsets are empty, but input has {n} elements")
    first, last = el.ne(offsets[:1], 0), el.gt(offsets, n)
    check.refuse(first, "embedding_bag: offsets[0] has to be 0, the start of the first bag")
    check.refuse(last, f"embedding_bag: an offset is greater than input's length {n}")
    one = offsets.new_ones(offsets.numel(), 1, dtype=dt.int32)
    starts = apply(add_rows, (offsets, one), (n + 1,))
    return cumsum(starts.reshape(-1), 0)[:n] - 1


def _places(input: Tensor, offsets: Tensor | None, include_last: bool) -> np.ndarray:
    """int64 (B, L): the places in the flat input of each bag, -1 behind its end."""
    if offsets is None:
        return np.arange(input.numel()).reshape(input._node.shape)
    starts = offsets._host().astype(np.int64)
    n = input.numel()
    if n and (not len(starts) or starts[0] or starts.max() > n):
        raise RuntimeError(
            f"embedding_bag: offsets have to start at 0 and not exceed input's length {n}, got "
            f"{starts.tolist()}"
        )
    ends = starts[1:] if include_last else np.append(starts[1:], n)
    starts = starts[: len(ends)]
    place = starts[:, None] + np.arange(int((ends - starts).max(initial=0)))
    return np.where(place < ends[:, None], place, -1)


def _largest(picked: Tensor, kept: Tensor | None, place: np.ndarray) -> Tensor:
    """The maxima (B, D) over the rows of `picked` at each row of `place`; 0 where there is none."""
    bags, length = place.shape
    width = picked._node.shape[1]
    if not place.size:
        return picked.new_zeros(bags, width)
    at = upload(np.maximum(place, 0).reshape(-1).astype(np.int64), picked.device)
    inside = upload(place >= 0, picked.device)
    if kept is not None:
        named = _index.index_select(kept.to(dt.int32), 0, at).reshape(bags, length)
        inside = el.logical_and(inside, el.ne(named, 0))
    rows = apply(take_rows, (picked, at)).reshape(bags, length, width)
    rows = el.where(mv.unsqueeze(inside, 2), rows, -math.inf)
    best = extremes.max(rows, 1).values  # the first of equals takes the gradient
    return el.where(mv.unsqueeze(rd.any(inside, 1), 1), best, 0.0)


# --- attention


def scaled_dot_product_attention(
    query: Tensor, key: Tensor, value: Tensor, attn_mask: Tensor | None = None,
    dropout_p: float = 0.0, is_causal: bool = False, scale: float | None = None,
    enable_gqa: bool = False,
) -> Tensor:  # fmt: skip
    """softmax(q @ k.T * scale + mask) @ v over (..., T, head width) (arXiv 1706.03762).

    A bool mask says what takes part, a float mask is added; a query that nothing takes part in
    gives 0. With `enable_gqa` fewer heads (dim -3) of key and value serve several of query's.
    """
    name = "scaled_dot_product_attention"
    check.floats(name, query, key, value)
    if not query.dtype is key.dtype is value.dtype:
        raise RuntimeError(
            f"{name}: Expected query, key, and value to have the same dtype, but got "
            f"{query.dtype.name}, {key.dtype.name} and {value.dtype.name}"
        )
    if min(query.ndim, key.ndim, value.ndim) < 2:
        raise RuntimeError(
            f"{name}: Expected query, key, and value to all be at least 2 dimensional, but got "
            f"{list(query.shape)}, {list(key.shape)} and {list(value.shape)}"
        )
    if is_causal and attn_mask is not None:
        raise RuntimeError(f"{name}: Explicit attn_mask should not be set when is_causal=True")
    if enable_gqa:
        key, value = _shared_heads(query, key), _shared_heads(query, value)
    factor = 1 / math.sqrt(query._node.shape[-1] or 1) if scale is None else scale
    scores = matmul(query * factor, mv.transpose(key, -1, -2))
    if is_causal:
        allowed = masks.tril_mask(scores._node.shape, 0, query.device)
        scores = el.where(allowed, scores, -math.inf)
    if attn_mask is None:
        weights = rd.softmax(scores, -1)
    else:
        if attn_mask.dtype is dt.bool_:
            scores = el.where(attn_mask, scores, -math.inf)
        elif attn_mask.dtype.category == dt.FLOAT:
            scores = scores + attn_mask.to(scores.dtype)
        else:
            raise RuntimeError(
                f"{name}: Expected attn_mask dtype to be bool or float, but got "
                f"{attn_mask.dtype.name}"
            )
        nothing = rd.all(el.eq(scores.detach(), -math.inf), -1, True)
        weights = el.where(nothing, 0.0, rd.softmax(el.where(nothing, 0.0, scores), -1))
    return matmul(dropout(weights, dropout_p, dropout_p > 0), value)


def _shared_heads(query: Tensor, x: Tensor) -> Tensor:
    """Each head of x as often as query has heads for it."""
    if query.ndim < 3 or x.ndim < 3 or query.shape[-3] % x.shape[-3]:
        raise RuntimeError(
            "scaled_dot_product_attention: enable_gqa needs a number of query heads (dim -3) that "
            f"is a multiple of those of key and value, got {list(query.shape)} and "
            f"{list(x.shape)}"
        )
    *lead, heads, t, width = x._node.shape
    times = query._node.shape[-3] // heads
    out = mv.expand(mv.unsqueeze(x, -3), (*lead, heads, times, t, width))
    return out.reshape(*lead, heads * times, t, width)


def multi_head_attention_forward(
    query: Tensor, key: Tensor, value: Tensor, embed_dim_to_check: int, num_heads: int,
    in_proj_weight: Tensor | None, in_proj_bias: Tensor | None, bias_k: Tensor | None,
    bias_v: Tensor | None, add_zero_attn: bool, dropout_p: float, out_proj_weight: Tensor,
    out_proj_bias: Tensor | None, training: bool = True, key_padding_mask: Tensor | None = None,
    need_weights: bool = True, attn_mask: Tensor | None = None,
    use_separate_proj_weight: bool = False, q_proj_weight: Tensor | None = None,
    k_proj_weight: Tensor | None = None, v_proj_weight: Tensor | None = None,
    static_k: Tensor | None = None, static_v: Tensor | None = None,
    average_attn_weights: bool = True, is_causal: bool = False,
) -> tuple[Tensor, Tensor | None]:  # fmt: skip
    """What nn.MultiheadAttention computes: (output, weights or None) of query (L, N, E), key and
    value (S, N, E), or without N. Masks are True (or -inf) where attention is forbidden:
    key_padding_mask (N, S), attn_mask (L, S) or (N * num_heads, L, S).

    See https://docs.pytorch.org/docs/stable/generated/torch.nn.MultiheadAttention.html.
    """
    batched = query.ndim == 3
    alike = query is key is value and not use_separate_proj_weight
    _expect(
        query.ndim in (2, 3) and key.ndim == value.ndim == query.ndim,
        "multi_head_attention_forward: query, key and value must all be (T, N, E) or all (T, E), "
        f"got {list(query.shape)}, {list(key.shape)} and {list(value.shape)}",
    )
    if not batched:
        query, key, value = [mv.unsqueeze(x, 1) for x in (query, key, value)]
    length, n, width = query._node.shape
    source = key._node.shape[0]
    _expect(
        width == embed_dim_to_check,
        f"was expecting embedding dimension of {embed_dim_to_check}, but got {width}",
    )
    _expect(width % num_heads == 0, f"embed_dim {width} not divisible by num_heads {num_heads}")
    _expect(
        key.shape[:2] == value.shape[:2] and (use_separate_proj_weight or key.shape == value.shape),
        f"key shape {list(key.shape)} does not match value shape {list(value.shape)}",
    )
    if is_causal and attn_mask is None:
        raise RuntimeError(
            "multi_head_attention_forward: Need attn_mask if specifying the is_causal hint"
        )
    only_causal = is_causal and key_padding_mask is None and not need_weights
    shape = (length, source)
    mask = None if only_causal else _added("attn_mask", attn_mask, query.dtype)
    if mask is not None and mask._node.shape not in (shape, (n * num_heads, *shape)):
        raise RuntimeError(
            f"The shape of attn_mask is {list(mask.shape)}, but should be {list(shape)} or "
            f"{[n * num_heads, *shape]}"
        )
    padding = _added("key_padding_mask", key_padding_mask, query.dtype)
    if padding is not None:
        padding = padding if batched else mv.unsqueeze(padding, 0)
        _expect(
            padding._node.shape == (n, source),
            f"key_padding_mask must be {[n, source]}, got {list(padding.shape)}",
        )

    if use_separate_proj_weight:
        projections = [q_proj_weight, k_proj_weight, v_proj_weight]
        _expect(
            all(w is not None for w in projections),
            "use_separate_proj_weight is True but a q_, k_ or v_proj_weight is None",
        )
    else:
        _expect(
            in_proj_weight is not None,
            "use_separate_proj_weight is False but in_proj_weight is None",
        )
        assert in_proj_weight is not None
        projections = list(arrange.split(in_proj_weight, width))
    if alike:  # one product
        all_three = linear(query, in_proj_weight, in_proj_bias)  # type: ignore[arg-type]
        q, k, v = arrange.split(all_three, width, -1)
    else:
        biases = [None] * 3 if in_proj_bias is None else list(arrange.split(in_proj_bias, width))
        q, k, v = [
            linear(x, w, b)  # type: ignore[arg-type]
            for x, w, b in zip((query, key, value), projections, biases, strict=True)
        ]
    _expect((bias_k is None) == (bias_v is None), "bias_k and bias_v go together, one is None")
    added = 0  # positions behind the source, which no mask forbids
    if bias_k is not None and bias_v is not None:
        _expect(static_k is None and static_v is None, "bias cannot be added to static key")
        k, v = [join.cat([x, b.repeat(1, n, 1)]) for x, b in ((k, bias_k), (v, bias_v))]
        added += 1

    def heads(x: Tensor) -> Tensor:  # (T, N, E) -> (N, heads, T, E / heads)
        x = x.reshape(x._node.shape[0], n, num_heads, width // num_heads)
        return mv.permute(x, 1, 2, 0, 3)

    q = heads(q)
    k = heads(k) if static_k is None else _static(static_k, n, num_heads, width)
    v = heads(v) if static_v is None else _static(static_v, n, num_heads, width)
    if add_zero_attn:
        k, v = [mv.pad(x, ((0, 0), (0, 0), (0, 1), (0, 0)), 0) for x in (k, v)]
        added += 1
    if mask is not None:
        lead = (1, 1) if mask.ndim == 2 else (n, num_heads)
        mask = mv.pad(mask.reshape(*lead, *shape), ((0, 0), (0, 0), (0, 0), (0, added)), 0)
    if padding is not None:
        padding = mv.pad(padding.reshape(n, 1, 1, source), ((0, 0),) * 3 + ((0, added),), 0)
        mask = padding if mask is None else mask + padding

    p = dropout_p if training else 0.0
    if need_weights:
        scores = matmul(q * math.sqrt(num_heads / width), mv.transpose(k, -1, -2))
        weights = rd.softmax(scores if mask is None else scores + mask, -1)
        weights = dropout(weights, p, p > 0)
        out = matmul(weights, v)
    else:
        out = scaled_dot_product_attention(q, k, v, mask, p, only_causal)
    out = linear(
        mv.permute(out, 2, 0, 1, 3).reshape(length, n, width), out_proj_weight, out_proj_bias
    )
    out = out if batched else mv.squeeze(out, 1)
    if not need_weights:
        return out, None
    if average_attn_weights:
        weights = rd.mean(weights, 1)
    return out, weights if batched else mv.squeeze(weights, 0)


def _static(x: Tensor, n: int, num_heads: int, width: int) -> Tensor:
    """Keys or values given as (N * heads, S, E / heads), as (N, heads, S, E / heads)."""
    _expect(
        x.ndim == 3 and x.shape[0] == n * num_heads and x.shape[2] == width // num_heads,
        f"static_k, static_v: expected ({n * num_heads}, S, {width // num_heads}), got "
        f"{list(x.shape)}",
    )
    return x.reshape(n, num_heads, x._node.shape[1], x._node.shape[2])


def _added(name: str, mask: Tensor | None, dtype: dt.dtype) -> Tensor | None:
    """A mask as what is added to the scores: -inf where a bool mask is True."""
    if mask is None or mask.dtype.category == dt.FLOAT:
        return mask
    _expect(mask.dtype is dt.bool_, f"only bool and floating types of {name} are supported")
    return el.where(mask, -math.inf, mask.new_zeros((), dtype=dtype))


autocast(
    globals(),
    lower="linear scaled_dot_product_attention multi_head_attention_forward",
    float32="local_response_norm",
    gpu_float32="""layer_norm native_layer_norm group_norm native_group_norm rms_norm normalize
    cosine_similarity pairwise_distance pdist""",
    gpu_widest="bilinear",
)
