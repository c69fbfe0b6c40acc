"""In-place writes through views: what a view chain cut from a tensor is put back into it."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from pyframe.core import dtypes as dt, view as views
from pyframe.core.dispatch import apply, provide
from pyframe.core.op import ROUTINE, Op
from pyframe.ops.api.batching_rules import BatchedCall, batched_chain
from pyframe.ops.index.rows import put_rows
from pyframe.ops.math.elementwise import where
from pyframe.ops.shape import movement as mv
from pyframe.tensor import Tensor, upload


def _put_numpy(base: np.ndarray, value: np.ndarray, chain: Any) -> np.ndarray:
    out = np.array(base, order="C")
    part = _np_cut(out, chain)
    if not part.size or np.may_share_memory(part, out):
        part[...] = value
    else:  # the view is none in this memory order: find the positions that it shows
        indices = np.arange(out.size).reshape(out.shape)
        out.reshape(-1)[_np_cut(indices, chain)] = value
    return out


def _np_cut(x: np.ndarray, chain: Any) -> np.ndarray:
    for op, attrs in chain:
        if op.in_memory:
            x = np.ascontiguousarray(x)
        x = op.numpy(x, *attrs)
    return x


def _put_by_views(base: Tensor, value: Tensor, chain: Any) -> Tensor:
    """`base` with `value` where the view that `chain` cut from it is."""
    if not chain:
        return value
    (op, attrs), rest = chain[0], chain[1:]
    if op.put is not None:
        inner = value if not rest else _put_by_views(apply(op, (base,), attrs), value, rest)
        return op.put(base, inner)
    repeats = op is mv.expand_op and math.prod(attrs[0]) != base.numel()
    if repeats or any(op.overlaps for op, _ in chain):
        return _put_by_indices(base, value, chain)
    inner = value if not rest else _put_by_views(apply(op, (base,), attrs), value, rest)
    if op is mv.slice_op:
        starts, sizes, strides = attrs
        if 0 in sizes:
            return base
        shape = base.shape
        inside = base.new_ones((), dtype=dt.bool_).expand(sizes)
        written = mv.unslice(inside, shape, starts, strides)
        return where(written, mv.unslice(inner, shape, starts, strides), base)
    if op is mv.reshape_op:
        return mv.reshape(inner, base.shape)
    if op is mv.permute_op:
        return mv.permute(inner, mv.inverse_order(attrs[0]))
    if op is mv.expand_op:
        return mv.reshape(inner, base.shape)
    if op is mv.diagonal_op:
        shape = base.shape
        size = views.diagonal_shape(shape, *attrs)
        hot = base.new_ones(size, dtype=dt.bool_)
        return where(mv.undiagonal(hot, shape, *attrs), mv.undiagonal(inner, shape, *attrs), base)
    raise RuntimeError(f"in-place write through a view made by {op.name}; clone() it first")


def _put_by_indices(base: Tensor, value: Tensor, chain: Any) -> Tensor:
    shape = base.shape
    indices = _np_cut(np.arange(math.prod(shape)).reshape(shape), chain)
    index = upload(np.ascontiguousarray(indices).reshape(-1), base.device)
    out = apply(put_rows, (mv.reshape(base, (-1, 1)), index, mv.reshape(value, (-1, 1))))
    return mv.reshape(out, shape)


def _cut(g: Tensor, chain: Any) -> Tensor:
    for op, attrs in chain:
        g = apply(op, (mv.contiguous(g) if op.in_memory else g,), attrs)
    return g


def _put_batched(c: BatchedCall) -> Tensor:
    base, value = c.all()
    chain = batched_chain(c.attrs[0], c.nodes[0], c.size)
    return apply(c.op, (base.contiguous(), value), (chain,))


put_op = Op(
    "put", ROUTINE, "base value", "chain",
    infer=lambda base, value, chain: (base.shape, base.dtype),
    numpy=_put_numpy, fallback=_put_by_views,
    base=lambda g, chain: apply(put_op, (g, _cut(g, chain) * 0), (chain,)),
    value=lambda g, chain: _cut(g, chain), batch=_put_batched,
)  # fmt: skip


provide(PUT=put_op)
