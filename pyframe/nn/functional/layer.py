"""Linear maps, normalization, dropout, embedding and attention."""

from __future__ import annotations

import math
from typing import Any

from pyframe import dtypes as dt
from pyframe.ops import (
    elementwise as el,
    index as _index,
    movement as mv,
    reduce as rd,
)
from pyframe.ops.creation import rand
from pyframe.ops.elementwise import gelu as gelu, silu as silu
from pyframe.ops.index import one_hot as one_hot
from pyframe.ops.matmul import linear as _linear, matmul
from pyframe.tensor import Tensor, normalize_dim

__all__ = [
    "dropout",
    "embedding",
    "layer_norm",
    "linear",
    "normalize",
    "one_hot",
    "scaled_dot_product_attention",
]


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
    flat = _index.checked_classes("embedding: index", input.reshape(-1), rows)
    out = _index.apply(_index.take_rows, (weight, flat)).reshape((*input._node.shape, width))
    if padding_idx is not None and weight.requires_grad:
        pad = padding_idx + rows if padding_idx < 0 else padding_idx
        frozen = el.eq(input, pad).unsqueeze(-1)
        out = el.where(frozen, out.detach(), out)
    return out


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
