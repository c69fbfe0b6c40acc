"""torch.nn.functional: layers, activations and losses as functions."""

from __future__ import annotations

import math
from typing import Any

from pyframe import dtypes as dt
from pyframe.ops import (
    METHODS,
    conv as _conv,
    elementwise as el,
    index as _index,
    movement as mv,
    reduce as rd,
)
from pyframe.ops.creation import rand
from pyframe.ops.elementwise import gelu as gelu, silu as silu, softplus as _softplus
from pyframe.ops.index import one_hot as one_hot
from pyframe.ops.matmul import linear as _linear, matmul
from pyframe.tensor import Tensor, normalize_dim

relu, tanh, sigmoid = METHODS["relu"], METHODS["tanh"], METHODS["sigmoid"]


def softmax(
    input: Tensor, dim: int | None = None, _stacklevel: int = 3, dtype: dt.dtype | None = None
) -> Tensor:
    """exp(x) / sum(exp(x)) over a dim."""
    return rd.softmax(input, dim, dtype)


def log_softmax(
    input: Tensor, dim: int | None = None, _stacklevel: int = 3, dtype: dt.dtype | None = None
) -> Tensor:
    """log(softmax(x)) over a dim, without overflow."""
    return rd.log_softmax(input, dim, dtype)


def softplus(input: Tensor, beta: float = 1, threshold: float = 20) -> Tensor:
    """log(1 + exp(beta * x)) / beta; x itself above `threshold`."""
    scaled = input * beta
    return el.where(el.gt(scaled, threshold), input, _softplus(scaled) / beta)


def linear(input: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
    """x @ weight.T + bias: (*, in) and (out, in) -> (*, out)."""
    if input.ndim and weight.ndim == 2 and input._node.shape[-1] != weight._node.shape[1]:
        raise RuntimeError(
            f"linear: input of shape {list(input.shape)} has {input._node.shape[-1]} features, but "
            f"weight of shape {list(weight.shape)} expects {weight._node.shape[1]}"
        )
    if input.ndim and weight.ndim == 2 and input.dtype is weight.dtype:
        out = _linear(input, weight)
    else:
        out = matmul(input, weight.mT if weight.ndim > 1 else weight)
    return out if bias is None else out + bias


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


def dropout(input: Tensor, p: float = 0.5, training: bool = True, inplace: bool = False) -> Tensor:
    """Zero each element with probability p and scale the rest by 1 / (1 - p)."""
    if not 0 <= p <= 1:
        raise ValueError(f"dropout probability has to be between 0 and 1, but got {p}")
    if not training or p == 0:
        return input
    if p == 1:
        out = input * 0.0
    else:
        keep = el.ge(rand(input._node.shape, device=input.device), p)
        out = el.where(keep, input * (1 / (1 - p)), 0.0)
    return input._write(out) if inplace else out


def layer_norm(
    input: Tensor, normalized_shape: Any, weight: Tensor | None = None, bias: Tensor | None = None,
    eps: float = 1e-5,
) -> Tensor:  # fmt: skip
    """(x - mean) / sqrt(var + eps) * weight + bias over the last dims (arXiv 1607.06450)."""
    shape = (normalized_shape,) if isinstance(normalized_shape, int) else tuple(normalized_shape)
    k = len(shape)
    if k == 0 or input._node.shape[-k:] != shape:
        raise RuntimeError(
            f"layer_norm: Given normalized_shape={list(shape)}, expected input with shape "
            f"[*, {', '.join(map(str, shape))}], but got input of size {list(input.shape)}"
        )
    for name, x in (("weight", weight), ("bias", bias)):
        if x is not None and x._node.shape != shape:
            raise RuntimeError(
                f"layer_norm: Expected {name} to be of same shape as normalized_shape, but got "
                f"{name} of shape {list(x.shape)} and normalized_shape = {list(shape)}"
            )
    dims = tuple(range(-k, 0))
    centered = input - rd.mean(input, dims, True)
    out = centered * el.rsqrt(rd.mean(centered * centered, dims, True) + eps)
    if weight is not None:
        out = out * weight
    return out if bias is None else out + bias


def embedding(input: Tensor, weight: Tensor, padding_idx: int | None = None) -> Tensor:
    """Rows of `weight` (V, D) that the ints of `input` (*) name: (*, D).

    IndexError for an index outside the table; on the GPU when a value is next read.
    """
    if weight.ndim != 2:
        raise RuntimeError(f"embedding: 'weight' must be 2-D, got shape {list(weight.shape)}")
    if input.dtype.category != dt.INTEGER:
        raise RuntimeError(
            f"embedding: Expected tensor for argument #1 'indices' to have dtype int64 or int32, "
            f"but got {input.dtype.name}"
        )
    rows, width = weight._node.shape
    flat = _checked_classes("embedding: index", input.reshape(-1), rows)
    out = _index.apply(_index.take_rows, (weight, flat)).reshape((*input._node.shape, width))
    if padding_idx is not None and weight.requires_grad:
        pad = padding_idx + rows if padding_idx < 0 else padding_idx
        frozen = el.eq(input, pad).unsqueeze(-1)
        out = el.where(frozen, out.detach(), out)
    return out


def _checked_classes(what: str, index: Tensor, n: int, ignore: int | None = None) -> Tensor:
    """`index` itself; IndexError where an element is outside 0..n-1 (and not `ignore`)."""
    message = f"{what} out of range: expected 0 to {n - 1}"
    if index.device.lazy:
        bad = el.logical_or(el.lt(index, 0), el.ge(index, n))
        if ignore is not None and not 0 <= ignore < n:
            bad = el.logical_and(bad, el.ne(index, ignore))
        _index.guard(bad, message)
        return index
    data = index._node.data
    if ignore is not None:
        data = data[data != ignore]
    if data.size and (data.min() < 0 or data.max() >= n):
        seen = data.min() if data.min() < 0 else data.max()
        raise IndexError(f"{message}, got {seen}")
    return index


def _reduce(loss: Tensor, reduction: str) -> Tensor:
    if reduction == "mean":
        return rd.mean(loss)
    if reduction == "sum":
        return rd.sum(loss)
    if reduction == "none":
        return loss
    raise ValueError(f"{reduction} is not a valid value for reduction; use 'mean', 'sum' or 'none'")


def nll_loss(
    input: Tensor, target: Tensor, weight: Tensor | None = None, size_average: Any = None,
    ignore_index: int = -100, reduce: Any = None, reduction: str = "mean",
) -> Tensor:  # fmt: skip
    """-input[target] per sample: input (N, C, *) or (C,) log-probabilities, target (N, *) or ().

    'mean' divides by the sum of the weights of the targets that are not ignored. IndexError for
    a target outside 0..C-1; on the GPU when a value is next read.
    """
    picked, w = _picked("nll_loss", input, target, weight, ignore_index)
    return _weighted(-picked, w, reduction)


def _picked(
    name: str, input: Tensor, target: Tensor, weight: Tensor | None, ignore_index: int
) -> tuple[Tensor, Tensor | None]:
    """(input at each target, the weight of each target or None where all count 1)."""
    if input.ndim == 0 or target.ndim != max(input.ndim - 1, 0):
        raise ValueError(
            f"{name}: expected target with one dim less than input (N, C, *), got input "
            f"{list(input.shape)} and target {list(target.shape)}"
        )
    c = 1 if input.ndim > 1 else 0
    n = input._node.shape[c]
    want = input._node.shape[:c] + input._node.shape[c + 1 :]
    if target._node.shape != want:
        raise ValueError(
            f"{name}: Expected input batch_size ({list(input.shape)}) to match target batch_size "
            f"({list(target.shape)}): target must be {list(want)}"
        )
    if target.dtype.category != dt.INTEGER:
        raise RuntimeError(
            f"{name}: expected target of dtype int64, got {target.dtype.name}; class indices are "
            "ints (use .long()), class probabilities have the shape of input"
        )
    if weight is not None and weight._node.shape != (n,):
        raise RuntimeError(
            f"{name}: weight tensor should be defined either for all {n} classes or no classes but "
            f"got weight tensor of shape: {list(weight.shape)}"
        )
    target = _checked_classes(f"{name}: target", target, n, ignore_index)
    # ignore_index is -100 in nearly all programs, and then no valid class is ever ignored unless
    # a target says so; only the CPU can look without waiting
    if not target.device.lazy and not (target._node.data == ignore_index).any():
        kept, safe = None, target
    else:
        kept = el.ne(target, ignore_index)
        safe = el.where(kept, target, 0)
    picked = mv.squeeze(_index.gather(input, c, mv.unsqueeze(safe, c)), c)
    if weight is None:
        return picked, None if kept is None else kept.to(input.dtype)
    w = _index.index_select(weight, 0, safe.reshape(-1)).reshape(target._node.shape)
    return picked, w if kept is None else el.where(kept, w, 0.0)


def _weighted(loss: Tensor, w: Tensor | None, reduction: str) -> Tensor:
    if w is None:
        return _reduce(loss, reduction)
    loss = el.where(el.eq(w, 0), 0.0, loss * w)
    return rd.sum(loss) / rd.sum(w) if reduction == "mean" else _reduce(loss, reduction)


def cross_entropy(
    input: Tensor, target: Tensor, weight: Tensor | None = None, size_average: Any = None,
    ignore_index: int = -100, reduce: Any = None, reduction: str = "mean",
    label_smoothing: float = 0.0,
) -> Tensor:  # fmt: skip
    """-log_softmax(input)[target]: input (N, C, *) or (C,), target class ints or probabilities.

    See https://docs.pytorch.org/docs/stable/generated/torch.nn.CrossEntropyLoss.html. IndexError
    for a target outside 0..C-1; on the GPU when a value is next read.
    """
    if not 0 <= label_smoothing <= 1:
        raise RuntimeError(f"label_smoothing must be between 0.0 and 1.0. Got: {label_smoothing}")
    c = 1 if input.ndim > 1 else 0
    logp = rd.log_softmax(input, c)
    shape = (-1,) + (1,) * (input.ndim - 1 - c)
    if target.dtype.category == dt.FLOAT:
        if target._node.shape != input._node.shape:
            raise RuntimeError(
                f"cross_entropy: class probabilities must have the shape of input "
                f"{list(input.shape)}, got {list(target.shape)}"
            )
        if label_smoothing:
            target = target * (1 - label_smoothing) + label_smoothing / input._node.shape[c]
        loss = -logp * target
        if weight is not None:
            loss = loss * mv.reshape(weight, shape)
        loss = rd.sum(loss, c)
        if reduction == "mean":
            return rd.sum(loss) / (loss.numel())
        return _reduce(loss, reduction)
    picked, w = _picked("cross_entropy", logp, target, weight, ignore_index)
    loss = _weighted(-picked, w, reduction)
    if not label_smoothing:
        return loss
    smooth = -logp if weight is None else -logp * mv.reshape(weight, shape)
    smooth = rd.sum(smooth, c)
    kept = el.ne(target, ignore_index)
    smooth = el.where(kept, smooth, 0.0)
    if reduction == "mean":
        smooth = rd.sum(smooth) / (rd.sum(kept.to(smooth.dtype)) if w is None else rd.sum(w))
    else:
        smooth = _reduce(smooth, reduction)
    return loss * (1 - label_smoothing) + smooth * (label_smoothing / input._node.shape[c])


def _same_shape(name: str, input: Tensor, target: Tensor) -> None:
    if input._node.shape != target._node.shape:
        el.broadcast(name, input._node.shape, target._node.shape)
        import warnings

        warnings.warn(
            f"Using a target size ({list(target.shape)}) that is different to the input size "
            f"({list(input.shape)}) in {name}. This will likely lead to incorrect results due to "
            "broadcasting. Please ensure they have the same size.",
            stacklevel=3,
        )


def mse_loss(input: Tensor, target: Tensor, size_average: Any = None, reduce: Any = None,
             reduction: str = "mean") -> Tensor:  # fmt: skip
    """(input - target)^2."""
    _same_shape("mse_loss", input, target)
    return _reduce(el.square(input - target), reduction)


def l1_loss(input: Tensor, target: Tensor, size_average: Any = None, reduce: Any = None,
            reduction: str = "mean") -> Tensor:  # fmt: skip
    """|input - target|."""
    _same_shape("l1_loss", input, target)
    return _reduce(el.abs(input - target), reduction)


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


def scaled_dot_product_attention(
    query: Tensor, key: Tensor, value: Tensor, attn_mask: Tensor | None = None,
    dropout_p: float = 0.0, is_causal: bool = False, scale: float | None = None,
) -> Tensor:  # fmt: skip
    """softmax(q @ k.T * scale) @ v over (..., T, head width) (arXiv 1706.03762)."""
    factor = 1 / math.sqrt(query._node.shape[-1]) if scale is None else scale
    scores = matmul(query * factor, mv.transpose(key, -1, -2))
    if is_causal:
        allowed = _index.tril_mask(scores._node.shape, 0, query.device)
        scores = el.where(allowed, scores, -math.inf)
    if attn_mask is not None:
        masked = attn_mask.dtype is dt.bool_
        scores = el.where(attn_mask, scores, -math.inf) if masked else scores + attn_mask
    return matmul(dropout(rd.softmax(scores, -1), dropout_p, dropout_p > 0), value)


def normalize(input: Tensor, p: float = 2.0, dim: int = 1, eps: float = 1e-12) -> Tensor:
    """x / max(norm(x), eps) over a dim."""
    return input / el.clamp(rd.norm(input, p, normalize_dim(dim, input.ndim), True), min=eps)
