"""Indexing by a vector: slices of a dim, and flat positions."""

from __future__ import annotations

import math
from typing import Any

from pyframe.core import dtypes as dt
from pyframe.core.dispatch import apply
from pyframe.ops.api import check
from pyframe.ops.api.public import public
from pyframe.ops.index.along import reduced_into
from pyframe.ops.index.masks import masked_fill
from pyframe.ops.index.rows import (
    add_rows,
    added,
    checked_index,
    goes_over,
    put_at,
    put_rows,
    take_rows,
)
from pyframe.ops.math import elementwise as el
from pyframe.ops.shape import movement as mv
from pyframe.tensor import Tensor, normalize_dim

# --- slices of a dim that a vector names


def _vector(name: str, x: Tensor, dim: int, index: Tensor, wrap: bool = False) -> Any:
    """(`x` with at least one dim, that dim, the index as a checked vector)."""
    if index.ndim > 1:
        raise IndexError(f"{name}(): Index is supposed to be a vector (or a 0-d tensor)")
    if index.dtype not in (dt.int64, dt.int32):
        raise RuntimeError(
            f"{name}(): Expected dtype int32/int64 for index, got {index.dtype.name}"
        )
    d = normalize_dim(dim, x.ndim)
    x = x if x.ndim else mv.reshape(x, (1,))
    return x, d, checked_index(name, mv.in_shape(index, (index.numel(),)), x.shape[d], wrap)


def _first(x: Tensor, d: int) -> Tensor:
    """The dim first, the others joined: (n, B)."""
    moved = mv.movedim(x, d, 0) if d else x
    shape = moved.shape
    return mv.in_shape(moved, (shape[0], math.prod(shape[1:])))


def _back(rows: Tensor, like: Tensor, d: int) -> Tensor:
    """The inverse of `_first`, in the shape of `like` (but for the size of the dim)."""
    shape = like.shape
    out = mv.in_shape(rows, (rows.shape[0], *shape[:d], *shape[d + 1 :]))
    return mv.movedim(out, 0, d) if d else out


def index_select(input: Tensor, dim: int, index: Tensor) -> Tensor:
    """The slices of a dim that the 1-d `index` names, in its order."""
    x, d, index = _vector("index_select", input, dim, index)
    out = _back(apply(take_rows, (_first(x, d), index)), x, d)
    return out if input.ndim else out.reshape(())


def _slices(name: str, x: Tensor, d: int, index: Tensor, source: Tensor) -> Tensor:
    """`source` as rows, checked against the slices of `x` that the index names."""
    if source.dtype is not x.dtype:
        raise RuntimeError(
            f"{name}(): self and source expected to have the same dtype, but got (self) "
            f"{x.dtype.name} and (source) {source.dtype.name}"
        )
    want = (*x.shape[:d], index.numel(), *x.shape[d + 1 :])
    if source.shape != want and not (source.numel() == 1 == math.prod(want)):
        raise IndexError(
            f"{name}(): expected source of shape {list(want)} for {index.numel()} indices along "
            f"dim {d} of {list(x.shape)}, got {list(source.shape)}"
        )
    return _first(mv.reshape(source, want), d)


def index_add(input: Tensor, dim: int, index: Tensor, source: Tensor, *, alpha: Any = 1) -> Tensor:
    """`input` with alpha * source's slices added at the places that `index` names."""
    x, d, index = _vector("index_add", input, dim, index)
    rows = _slices("index_add", x, d, index, source)
    el.check_factor("index_add", "alpha", alpha, x)
    total = added(index, rows, x.shape[d])
    out = x + _back(total if alpha == 1 else (total * alpha).to(x.dtype), x, d)
    return out.reshape(input.shape)


def index_copy(input: Tensor, dim: int, index: Tensor, source: Tensor) -> Tensor:
    """`input` with source's slices at the places that `index` names; the last of equals wins."""
    x, d, index = _vector("index_copy", input, dim, index)
    rows = _slices("index_copy", x, d, index, source)
    if index.numel() == 1 and goes_over(x, source):
        value = mv.reshape(source, (*x.shape[:d], 1, *x.shape[d + 1 :]))
        out = put_at(x, {d: index}, value)
        return out if input.ndim else out.reshape(())
    out = apply(put_rows, (_first(x, d), index, rows))
    return _back(out, x, d).reshape(input.shape)


def index_fill(input: Tensor, dim: int, index: Tensor, value: Any) -> Tensor:
    """`input` with a number (or 0-d tensor) in the slices that `index` names."""
    x, d, index = _vector("index_fill", input, dim, index, wrap=True)
    check.one_value("index_fill", value, input.dtype)
    ones = x.new_ones(index.numel(), 1, dtype=dt.int32)
    count = apply(add_rows, (index, ones), (x.shape[d],))
    mask = el.gt(count, 0).reshape((x.shape[d], *(1,) * (x.ndim - 1 - d)))
    return masked_fill(x, mask, value).reshape(input.shape)


def index_reduce(
    input: Tensor, dim: int, index: Tensor, source: Tensor, reduce: str, *,
    include_self: bool = True,
) -> Tensor:  # fmt: skip
    """`input` joined with source's slices at the places that `index` names, as `scatter_reduce`;
    reduce: 'prod', 'mean', 'amax' or 'amin'."""
    if reduce not in ("prod", "mean", "amax", "amin"):
        raise RuntimeError(
            f"index_reduce(): Expected reduce to be one of prod, mean, amax or amin, got {reduce!r}"
        )
    x, d, index = _vector("index_reduce", input, dim, index)
    _slices("index_reduce", x, d, index, source)
    each = mv.reshape(index, (index.numel(), *(1,) * (x.ndim - 1 - d)))
    source = mv.reshape(source, (*x.shape[:d], index.numel(), *x.shape[d + 1 :]))
    out = reduced_into("index_reduce", x, d, mv.expand(each, source.shape), source, reduce,
                        include_self)  # fmt: skip
    return out.reshape(input.shape)


# --- flat positions


def take(input: Tensor, index: Tensor) -> Tensor:
    """The elements at flat positions, in the shape of `index`."""
    if index.dtype not in (dt.int64, dt.int32):
        raise RuntimeError("take(): Expected a long tensor for index")
    if not input.numel() and index.numel():
        raise IndexError("take(): tried to take from an empty tensor")
    flat = checked_index("take", index, input.numel()).reshape(index.numel())
    out = apply(take_rows, (input.reshape(input.numel(), 1), flat))
    return out.reshape(index.shape)


def put(input: Tensor, index: Tensor, source: Tensor, accumulate: bool = False) -> Tensor:
    """`input` with source's elements at flat positions (added if `accumulate`)."""
    if index.dtype not in (dt.int64, dt.int32):
        raise RuntimeError("put_(): Expected a long tensor for index")
    if source.dtype is not input.dtype:
        raise RuntimeError(
            f"put_(): self and source expected to have the same dtype, but got self.dtype = "
            f"{input.dtype.name} and source.dtype = {source.dtype.name}"
        )
    if source.numel() != index.numel():
        raise IndexError(
            f"put_(): Expected source and index to have the same number of elements, but got "
            f"source.numel() = {source.numel()}, index.numel() = {index.numel()}"
        )
    if not input.numel() and index.numel():
        raise IndexError("put_(): tried to put elements into an empty tensor")
    flat = checked_index("put_", index, input.numel()).reshape(index.numel())
    base, values = input.reshape(input.numel(), 1), source.reshape(index.numel(), 1)
    if accumulate:
        out = base + added(flat, values, input.numel())
    else:
        out = apply(put_rows, (base, flat, values))
    return out.reshape(input.shape)


def unravel_index(indices: Tensor, shape: Any) -> tuple[Tensor, ...]:
    """The index of each dim of `shape`, of flat positions."""
    sizes = mv.as_ints("unravel_index", (shape,))
    if indices.dtype.category != dt.INTEGER:
        raise TypeError("unravel_index(): expected an integer tensor 'indices'")
    if any(n < 0 for n in sizes):
        raise RuntimeError(f"unravel_index(): 'shape' cannot have negative values, got {sizes}")
    if indices.numel() and not math.prod(sizes):
        raise RuntimeError(f"unravel_index(): no index lies in a tensor of shape {list(sizes)}")
    out, rest = [], indices.to(dt.int64)
    for n in reversed(sizes):
        n = n or 1
        out.append(el.remainder(rest, n))
        rest = el.floor_divide(rest, n)
    return tuple(reversed(out))


public(
    globals(), both="index_select take", inplace="index_add index_copy index_fill index_reduce put",
    functions="unravel_index", out_exact="index_add index_copy index_select take",
    out_apart="index_select take", rows="index_select index_add index_copy", like="put",
    cpu_widest="index_copy", out_of_range="""index_select index_add index_copy
    index_fill index_reduce take put""",
)  # fmt: skip
