"""Operators of onnxruntime's own that exported language models need."""

from __future__ import annotations

from typing import Any

import pyframe as pf
from pyframe.nn import functional as F
from pyframe.onnx.table import CONTRIB, op
from pyframe.onnx.values import Host, whole
from pyframe.tensor import Tensor


@op("MatMulNBits", CONTRIB)
def mat_mul_n_bits(
    a: Tensor, b: Tensor, scales: Tensor, zeros: Tensor | None = None,
    groups: Tensor | None = None, bias: Tensor | None = None, *, K: int, N: int, bits: int = 4,
    block_size: int, accuracy_level: int = 0,
) -> Tensor:  # fmt: skip
    """A product with a weight of 2, 4 or 8 bits, whose blocks have a scale and a zero point."""
    if groups is not None:
        raise NotImplementedError("MatMulNBits with an order of groups (g_idx)")
    blocks = -(-K // block_size)
    whole_numbers = _unpacked(b.reshape(N, -1), bits, blocks * block_size)
    weight = whole_numbers.reshape(N, blocks, block_size)
    if zeros is None:
        middle: Any = 1 << (bits - 1)
    elif zeros.dtype is pf.uint8:
        middle = _unpacked(zeros.reshape(N, -1), bits, blocks).reshape(N, blocks, 1)
    else:
        middle = zeros.reshape(N, blocks, 1).float()
    weight = (weight - middle) * scales.reshape(N, blocks, 1).float()
    return F.linear(a, weight.reshape(N, -1)[:, :K].to(a.dtype), bias)


def _unpacked(packed: Tensor, bits: int, count: int) -> Tensor:
    """Rows of bytes as rows of numbers, the low bits first."""
    whole_bytes = packed.to(pf.int32)
    parts = [(whole_bytes >> shift) & ((1 << bits) - 1) for shift in range(0, 8, bits)]
    return pf.stack(parts, -1).flatten(1)[:, :count].float()


@op("FusedMatMul", CONTRIB)
def fused_mat_mul(
    a: Tensor, b: Tensor, *, alpha: float = 1.0, transA: int = 0, transB: int = 0
) -> Tensor:
    a = a.transpose(-1, -2) if transA else a
    return alpha * (a @ (b.transpose(-1, -2) if transB else b))


@op("Gelu", CONTRIB)
def gelu(x: Tensor) -> Tensor:
    return F.gelu(x)


op("BiasGelu", CONTRIB)(lambda x, bias: F.gelu(x + bias))


@op("FastGelu", CONTRIB)
def fast_gelu(x: Tensor, bias: Tensor | None = None) -> Tensor:
    return F.gelu(x if bias is None else x + bias, approximate="tanh")


op("QuickGelu", CONTRIB)(lambda x, *, alpha=1.702: x * pf.sigmoid(alpha * x))


@op("SimplifiedLayerNormalization")
@op("SimplifiedLayerNormalization", CONTRIB)
def simplified_layer_norm(
    x: Tensor, scale: Tensor, *, axis: int = -1, epsilon: float = 1e-5, stash_type: int = 1
) -> Tensor:
    return F.rms_norm(x, tuple(x.shape[axis % x.ndim :]), scale, epsilon)


@op("SkipSimplifiedLayerNormalization", CONTRIB)
def skip_simplified_layer_norm(
    x: Tensor, skip: Tensor, scale: Tensor, bias: Tensor | None = None, *, epsilon: float = 1e-5
) -> Any:
    total = x + skip if bias is None else x + skip + bias
    return F.rms_norm(total, tuple(scale.shape), scale, epsilon), None, None, total


@op("SkipLayerNormalization", CONTRIB)
def skip_layer_norm(
    x: Tensor, skip: Tensor, scale: Tensor, shift: Tensor | None = None,
    bias: Tensor | None = None, *, epsilon: float = 1e-5,
) -> Any:  # fmt: skip
    total = x + skip if bias is None else x + skip + bias
    return F.layer_norm(total, tuple(scale.shape), scale, shift, epsilon), None, None, total


def rotated(x: Tensor, cos: Tensor, sin: Tensor, interleaved: int) -> Tensor:
    """(B, H, T, D) turned by angles (B, 1, T, d / 2), in its first d numbers."""
    d = 2 * cos.shape[-1]
    turned, rest = x[..., :d], x[..., d:]
    if interleaved:
        a, b = turned[..., ::2], turned[..., 1::2]
        found = pf.stack([a * cos - b * sin, b * cos + a * sin], -1).flatten(-2)
    else:
        a, b = turned.chunk(2, -1)
        found = pf.cat([a * cos - b * sin, b * cos + a * sin], -1)
    return pf.cat([found, rest], -1)


@op("RotaryEmbedding", CONTRIB)
def rotary_embedding(
    x: Tensor, positions: Tensor, cos: Tensor, sin: Tensor, *, interleaved: int = 0,
    num_heads: int = 0, rotary_embedding_dim: int = 0, scale: float = 1.0,
    is_packed_batching: int = 0,
) -> Tensor:  # fmt: skip
    flat = x.ndim == 3
    if flat:
        width = x.shape[2] // num_heads if num_heads else 2 * cos.shape[-1]
        x = x.unflatten(2, (-1, width)).transpose(1, 2)
    steps = pf.arange(x.shape[2], device=x.device)
    at = positions.long()
    at = at.reshape(1, 1) + steps if at.numel() == 1 else at  # (B, T)
    found = rotated(x, cos[at][:, None], sin[at][:, None], interleaved)
    return found.transpose(1, 2).flatten(2) if flat else found


def _heads(x: Tensor, count: int) -> Tensor:
    """(B, T, H * D) as (B, H, T, D)."""
    return x.unflatten(2, (count, -1)).transpose(1, 2)


@op("GroupQueryAttention", CONTRIB)
def group_query_attention(
    query: Tensor, key: Tensor | None, value: Tensor | None, past_key: Tensor | None,
    past_value: Tensor | None, lengths: Tensor, total: Host, cos: Tensor | None = None,
    sin: Tensor | None = None, positions: Tensor | None = None, bias: Tensor | None = None, *,
    num_heads: int, kv_num_heads: int, scale: float = 0.0, do_rotary: int = 0,
    rotary_interleaved: int = 0, local_window_size: int = -1, softcap: float = 0.0,
) -> Any:  # fmt: skip
    """Attention over what is kept of earlier steps; `lengths` are those of keys, less one."""
    if softcap:
        raise NotImplementedError("GroupQueryAttention with softcap")
    if key is None or value is None:  # one tensor has all three
        width = query.shape[2] // (num_heads + 2 * kv_num_heads)
        some = kv_num_heads * width
        query, key, value = query.split([num_heads * width, some, some], 2)
    q, k, v = _heads(query, num_heads), _heads(key, kv_num_heads), _heads(value, kv_num_heads)
    batch, steps = q.shape[0], q.shape[2]
    new = pf.arange(steps, device=q.device)
    begin = (lengths.reshape(-1, 1).long() + 1 - steps).clamp(min=0)
    at = begin + new  # (B, T): where the new keys lie
    if do_rotary and cos is not None and sin is not None:
        angle = at if positions is None else positions.long()
        how = (cos[angle][:, None], sin[angle][:, None], rotary_interleaved)
        q, k = rotated(q, *how), rotated(k, *how)
    kept = 0 if past_key is None else past_key.shape[2]
    length = max(kept, whole(total))
    found = []
    for old, fresh in ((past_key, k), (past_value, v)):
        base = pf.zeros_like(fresh[:, :, :0]) if old is None else old
        room = F.pad(base, (0, 0, 0, length - kept))
        found.append(room.scatter(2, at[:, None, :, None].expand(fresh.shape), fresh))
    places = pf.arange(length, device=q.device)
    seen = places <= at[:, :, None]  # (B, T, keys)
    if local_window_size > 0:
        seen = seen & (places > at[:, :, None] - local_window_size)
    mask = seen[:, None]
    if bias is not None:
        mask = pf.where(mask, bias, -pf.inf)
    y = F.scaled_dot_product_attention(
        q,
        found[0],
        found[1],
        attn_mask=mask,
        scale=scale or None,
        enable_gqa=num_heads != kv_num_heads,
    )
    return (y.transpose(1, 2).reshape(batch, steps, -1), *found)


@op("MultiHeadAttention", CONTRIB)
def multi_head_attention(
    query: Tensor, key: Tensor, value: Tensor, bias: Tensor | None = None,
    key_padding: Tensor | None = None, scores: Tensor | None = None, *, num_heads: int,
    scale: float = 0.0, unidirectional: int = 0,
) -> Tensor:  # fmt: skip
    if bias is not None:
        query, key, value = (x + b for x, b in zip((query, key, value), bias.chunk(3), strict=True))
    q, k, v = (_heads(x, num_heads) for x in (query, key, value))
    mask = scores
    if key_padding is not None:
        if key_padding.ndim != 2:
            raise NotImplementedError("MultiHeadAttention with a mask that is not (batch, keys)")
        seen = (key_padding != 0)[:, None, None]
        mask = seen if mask is None else pf.where(seen, mask, -pf.inf)
    y = F.scaled_dot_product_attention(
        q, k, v, attn_mask=mask, is_causal=bool(unidirectional), scale=scale or None
    )
    return y.transpose(1, 2).flatten(2)
