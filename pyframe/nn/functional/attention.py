"""Attention: scaled dot products, and with several heads."""

from __future__ import annotations

import math

from pyframe.core import dtypes as dt
from pyframe.nn.functional.dropouts import dropout
from pyframe.nn.functional.linear_maps import linear
from pyframe.ops.api import check
from pyframe.ops.api.autocast import autocast
from pyframe.ops.index import masks
from pyframe.ops.linalg.matmul import matmul
from pyframe.ops.math import elementwise as el
from pyframe.ops.reduce import reductions as rd
from pyframe.ops.shape import arrange, join, movement as mv
from pyframe.tensor import Tensor

__all__ = ["multi_head_attention_forward", "scaled_dot_product_attention"]


def _expect(holds: bool, message: str) -> None:
    """AssertionError, as in PyTorch's own Python."""
    if not holds:
        raise AssertionError(message)


def scaled_dot_product_attention(
    query: Tensor, key: Tensor, value: Tensor, attn_mask: Tensor | None = None,
    dropout_p: float = 0.0, is_causal: bool = False, scale: float | None = None,
    enable_gqa: bool = False,
) -> Tensor:  # fmt: skip
    """softmax(q kᵀ * scale + mask) v (arXiv 1706.03762): of query (*, T, E), key (*, S, E) and
    value (*, S, V) -> (*, T, V), where * are batches and heads.

    Args:
        attn_mask: its shape broadcasts to (*, T, S). Of bools it says what takes part, of floats it
            is added; a query that nothing takes part in gives 0.
        dropout_p: the probability with which weights are dropped, whether in training or not.
        is_causal: whether position t sees those up to t alone; without a mask.
        scale: None for 1 / √E.
        enable_gqa: whether fewer heads (dim -3) of key and value serve several of query's.

    Raises:
        RuntimeError: shapes or dtypes don't fit, or there is a mask beside `is_causal`.

    >>> q, k, v = pf.zeros(1, 2), pf.randn(2, 2), pf.tensor([[1.0, 2.0], [3.0, 4.0]])
    >>> F.scaled_dot_product_attention(q, k, v)
    tensor([[2., 3.]])
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
    if attn_mask is not None and attn_mask.dtype.category not in (dt.BOOL, dt.FLOAT):
        raise RuntimeError(
            f"{name}: Expected attn_mask dtype to be bool or float, but got {attn_mask.dtype.name}"
        )
    for x in (key, value) if enable_gqa else ():
        if query.ndim < 3 or x.ndim < 3 or query.shape[-3] % x.shape[-3]:
            raise RuntimeError(
                f"{name}: enable_gqa needs a number of query heads (dim -3) that "
                f"is a multiple of those of key and value, got {list(query.shape)} and "
                f"{list(x.shape)}"
            )
    if scale is None:
        scale = 1 / math.sqrt(query.shape[-1] or 1)
    if query.device.is_lazy and not query.device.backend.limits.alone:
        from pyframe.ops.linalg.attention import attention  # few pages need its kernels

        out = attention(
            query, key, value, attn_mask, dropout_p, is_causal, scale, enable_gqa
        )  # fmt: skip
        if out is not None:
            return out
    product = _of_shared if enable_gqa else matmul
    scores = product(query * scale, mv.transpose(key, -1, -2))
    if is_causal:
        allowed = masks.tril_mask(scores.shape, 0, query.device)
        scores = el.where(allowed, scores, -math.inf)
    if attn_mask is None:
        weights = rd.softmax(scores, -1)
    else:
        if attn_mask.dtype is dt.bool_:
            scores = el.where(attn_mask, scores, -math.inf)
        else:
            scores = scores + attn_mask.to(scores.dtype)
        nothing = rd.all(el.eq(scores.detach(), -math.inf), -1, True)
        weights = el.where(nothing, 0.0, rd.softmax(el.where(nothing, 0.0, scores), -1))
    return product(dropout(weights, dropout_p, dropout_p > 0), value)


def _of_shared(x: Tensor, y: Tensor) -> Tensor:
    """A product in which several heads of x have one of y: their rows, which lie beside each
    other, are multiplied together, so that y is read once."""
    (*lead, heads, t, width), shared = x.shape, y.shape[-3]
    out = matmul(x.reshape(*lead, shared, heads // shared * t, width), y)
    return out.reshape(*out.shape[:-3], heads, t, y.shape[-1])


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
    """What nn.MultiheadAttention computes, which tells of shapes: (output, weights or None) of
    query (L, N, E), key and value (S, N, E), or without N.

    Args:
        embed_dim_to_check: E.
        in_proj_weight, in_proj_bias: (3 E, E) and (3 E,), of query, key and value.
        bias_k, bias_v: (1, 1, E), a key and value behind those given; None for none.
        add_zero_attn: whether a key and value of zeros stand there too.
        key_padding_mask: (N, S), True (or -inf) where a key doesn't take part.
        need_weights: whether weights are given.
        attn_mask: (L, S) or (N * num_heads, L, S), True (or -inf) where attention is forbidden.
        use_separate_proj_weight: whether q_proj_weight, k_proj_weight and v_proj_weight are taken
            instead of in_proj_weight.
        static_k, static_v: keys and values as they are after their maps, (N * heads, S, E / heads).
        average_attn_weights: whether weights are the mean over the heads.
        is_causal: says that `attn_mask` is the causal one.

    Raises:
        AssertionError, RuntimeError: shapes or options don't fit.
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
    length, n, width = query.shape
    source = key.shape[0]
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
    if mask is not None and mask.shape not in (shape, (n * num_heads, *shape)):
        raise RuntimeError(
            f"The shape of attn_mask is {list(mask.shape)}, but should be {list(shape)} or "
            f"{[n * num_heads, *shape]}"
        )
    padding = _added("key_padding_mask", key_padding_mask, query.dtype)
    if padding is not None:
        padding = padding if batched else mv.unsqueeze(padding, 0)
        _expect(
            padding.shape == (n, source),
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
        x = x.reshape(x.shape[0], n, num_heads, width // num_heads)
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
    return x.reshape(n, num_heads, x.shape[1], x.shape[2])


def _added(name: str, mask: Tensor | None, dtype: dt.dtype) -> Tensor | None:
    """A mask as what is added to the scores: -inf where a bool mask is True."""
    if mask is None or mask.dtype.category == dt.FLOAT:
        return mask
    _expect(mask.dtype is dt.bool_, f"only bool and floating types of {name} are supported")
    return el.where(mask, -math.inf, mask.new_zeros((), dtype=dtype))


autocast(globals(), lower="scaled_dot_product_attention multi_head_attention_forward")
