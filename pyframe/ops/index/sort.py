"""Sorting and what follows from order: ranks, quantiles, unique values."""

from __future__ import annotations

import math
from typing import Any, Literal, overload

import numpy as np

from pyframe.core import dtypes as dt
from pyframe.core.dispatch import apply
from pyframe.core.op import EXTERN, Op
from pyframe.ops.api import check
from pyframe.ops.api.batching_rules import fold_batch_dim
from pyframe.ops.api.public import public
from pyframe.ops.api.results import (
    KthvalueResult,
    MedianResult,
    ModeResult,
    NanmedianResult,
    SortResult,
    TopkResult,
)
from pyframe.ops.index.along import add_along, gathered, np_positions, take_along
from pyframe.ops.index.order import argsort_numpy, key_numpy, kth_op, order_of, sort_key
from pyframe.ops.math import elementwise as el
from pyframe.ops.reduce.extremes import pick
from pyframe.ops.reduce.reductions import argmax, extreme, max_op, no_empty, one_dim, sum as sum_
from pyframe.ops.reduce.scan import cummax_op, scan_along
from pyframe.ops.shape import movement as mv
from pyframe.tensor import Tensor, tensor, upload


def _reorder_by_rows(x: Tensor, order: Tensor) -> Tensor:
    return apply(take_along, (x, order), (1,))


reorder = Op(  # x (rows, n), order (rows, m) of different indices
    "reorder", EXTERN, "x order", infer=lambda x, order: (order.shape, x.dtype),
    numpy=lambda x, order: np.take(x, np_positions(order, x.shape, 1)), fallback=_reorder_by_rows,
    batch=fold_batch_dim, routine="index.reorder",
    x=lambda g, order, x_spec: _put_back(g, order, x_spec.shape[1]),
)  # fmt: skip


def _put_back(g: Tensor, order: Tensor, n: int) -> Tensor:
    """(rows, n) with each element of `g` at its place, 0 elsewhere."""
    rows, m = order.shape
    if m == n:  # a permutation: the gradient is a gather too
        return apply(reorder, (g, order_of(order.to(dt.int32))))
    return apply(add_along, (g.new_zeros(rows, n), order, g), (1,))


# --- sorting


def _as_rows(x: Tensor, d: int) -> Tensor:
    """(rows, n) with dim d last."""
    if x.ndim == 0:
        return x.reshape(1, 1)
    x = mv.movedim(x, d, -1) if d != x.ndim - 1 else x
    n = x.shape[-1]
    return x.reshape(math.prod(x.shape[:-1]), n)


def _from_rows(rows: Tensor, x: Tensor, d: int) -> Tensor:
    """What `_as_rows` undoes; dim d may have another size now."""
    if x.ndim == 0:
        return rows.reshape(())
    shape = [n for i, n in enumerate(x.shape) if i != d]
    out = rows.reshape(*shape, rows.shape[1])
    return mv.movedim(out, -1, d) if d != x.ndim - 1 else out


def _sorted_rows(
    x: Tensor, d: int, descending: bool = False, first: int | None = None
) -> tuple[Tensor, Tensor]:
    """Rows of the (first) elements in order, and of their indices."""
    rows = _as_rows(x, d)
    order = order_of(sort_key(rows), first, descending)
    return apply(reorder, (rows, order)), order


def sort(
    input: Tensor, dim: int = -1, descending: bool = False, stable: bool | None = None
) -> SortResult:
    """(values, indices) in order along a dim; always stable, NaN counts as largest."""
    if isinstance(dim, bool):  # sort(x, stable, dim, descending)
        raise TypeError("sort(): argument 'dim' must be int, not bool; write stable= by its name")
    check.real("sort", input)
    d = one_dim("sort", input, dim)
    values, order = _sorted_rows(input, d, descending)
    return SortResult(_from_rows(values, input, d), _from_rows(order, input, d))


def argsort(input: Tensor, dim: int = -1, descending: bool = False, stable: bool = False) -> Tensor:
    """The int64 indices that sort a dim; always stable, NaN counts as largest."""
    check.real("argsort", input)
    d = one_dim("argsort", input, dim)
    return _from_rows(order_of(sort_key(_as_rows(input, d)), None, descending), input, d)


def msort(input: Tensor) -> Tensor:
    """The elements in order along the first dim."""
    return sort(input, 0).values


def topk(
    input: Tensor, k: int, dim: int = -1, largest: bool = True, sorted: bool = True
) -> TopkResult:
    """(values, indices) of the k largest (or smallest) along a dim, in order."""
    check.numbers("topk", input)
    d = one_dim("topk", input, dim)
    n = input.shape[d] if input.ndim else 1
    if not 0 <= k <= n:
        raise RuntimeError(f"topk: selected index k out of range: k={k} of {n} elements")
    values, order = _sorted_rows(input, d, largest, k)
    return TopkResult(_from_rows(values, input, d), _from_rows(order, input, d))


def _picked(kind: Any, input: Tensor, d: int, index: Tensor, keepdim: bool) -> Any:
    """kind(values, indices) for an index (rows, 1) in each row."""
    return pick(kind, input, d, _from_rows(index, input, d), keepdim)


def kthvalue(input: Tensor, k: int, dim: int = -1, keepdim: bool = False) -> KthvalueResult:
    """(values, indices) of the k-th smallest element along a dim, k from 1."""
    check.numbers("kthvalue", input)
    d = one_dim("kthvalue", input, dim)
    n = input.shape[d] if input.ndim else 1
    no_empty("kthvalue", input, (d,) if input.ndim else ())
    if not 1 <= k <= n:
        raise RuntimeError(f"kthvalue(): selected number k out of range for dimension {d}: {k}")
    index = apply(kth_op, (sort_key(_as_rows(input, d)),), (k,))
    return _picked(KthvalueResult, input, d, index, keepdim)


def _median(kind: Any, input: Tensor, dim: int | None, keepdim: bool) -> Any:
    name = kind.__name__
    check.numbers(name, input)
    if dim is None:
        if not input.numel():
            missing = input.new_full((), math.nan)
            return missing + sum_(input) if input.requires_grad else missing
        flat = input.detach().reshape(-1)
        value = _median(kind, flat, 0, False).values
        hit = el.eq(input, value)
        if input.dtype.category == dt.FLOAT:
            hit = el.logical_or(hit, el.isnan(value))
        if not input.requires_grad:
            return value
        # the largest of what is equal: its gradient is shared among them
        return extreme(max_op, el.where(hit, input, -math.inf), None, False)
    d = one_dim(name, input, dim)
    no_empty(name, input, (d,) if input.ndim else ())
    rows = _as_rows(input, d)
    n = rows.shape[1]
    middle, key = (n + 1) // 2, sort_key(rows)
    if input.dtype.category < dt.FLOAT:
        return _picked(kind, input, d, apply(kth_op, (key,), (middle,)), keepdim)
    nans = sum_(el.isnan(rows), 1, True)
    if kind is NanmedianResult:
        index = _reorder_by_rows(order_of(key, middle), el.maximum(n - nans - 1, 0) // 2)
    else:  # argmax finds the first NaN
        index = apply(kth_op, (key,), (middle,))
        index = el.where(el.gt(nans, 0), argmax(rows, 1, True), index)
    return _picked(kind, input, d, index, keepdim)


@overload
def median(input: Tensor) -> Tensor: ...
@overload
def median(input: Tensor, dim: int, keepdim: bool = False) -> MedianResult: ...
def median(input: Tensor, dim: int | None = None, keepdim: bool = False) -> Any:
    """The lower median of all elements, or with `dim` (values, indices). NaN wins."""
    return _median(MedianResult, input, dim, keepdim)


@overload
def nanmedian(input: Tensor) -> Tensor: ...
@overload
def nanmedian(input: Tensor, dim: int, keepdim: bool = False) -> NanmedianResult: ...
def nanmedian(input: Tensor, dim: int | None = None, keepdim: bool = False) -> Any:
    """`median` of what is not NaN."""
    return _median(NanmedianResult, input, dim, keepdim)


def mode(input: Tensor, dim: int = -1, keepdim: bool = False) -> ModeResult:
    """(values, indices) of the most frequent element along a dim, the smallest of equals."""
    check.real("mode", input)
    d = one_dim("mode", input, dim)
    no_empty("mode", input, (d,) if input.ndim else ())
    rows = _as_rows(input, d)
    key = sort_key(rows)
    order = order_of(key)
    ordered = _reorder_by_rows(key, order)
    position = el.iota((ordered.shape[1],), input.device)
    starts = el.where(el.ne(ordered[:, 1:], ordered[:, :-1]), position[1:], 0)
    starts = scan_along(cummax_op, mv.pad(starts, ((0, 0), (1, 0))), 1)
    last = argmax(position - starts, 1, True)  # where the first of the longest runs ends
    return _picked(ModeResult, input, d, _reorder_by_rows(order, last), keepdim)


# --- quantiles

_INTERPOLATIONS = ("linear", "lower", "higher", "midpoint", "nearest")
_ROUNDED = {"lower": el.floor, "higher": el.ceil, "nearest": el.round_}


def _checked_q(name: str, input: Tensor, q: Any, interpolation: str) -> Tensor:
    """The quantiles to find as a tensor; RuntimeError for what `quantile` does not take."""
    if interpolation not in _INTERPOLATIONS:
        raise RuntimeError(
            f"{name}() interpolation must be one of {', '.join(_INTERPOLATIONS)}, but got "
            f"{interpolation!r}"
        )
    if input.dtype not in (dt.float32, dt.float64):
        raise RuntimeError(
            f"{name}() input tensor must be either float or double dtype, got {input.dtype.name}"
        )
    if not input.numel():
        raise RuntimeError(f"{name}() input tensor must be non-empty, got {list(input.shape)}")
    message = f"{name}() q must be in the range [0, 1]"
    if isinstance(q, Tensor):
        if q.ndim > 1:
            raise RuntimeError(f"{name}() q must be a scalar or 1D tensor, got {q.ndim}-d")
        check.same_dtype(f"{name}() input and q", input, q)
        if q.device is not input.device:
            raise RuntimeError(f"{name}() q must be on {input.device}, got {q.device}")
        inside = el.logical_and(el.ge(q, 0), el.le(q, 1))
        check.assert_not(el.logical_not(inside), message)
        return q
    if not 0 <= q <= 1:
        raise RuntimeError(f"{message} but got {q}")
    return tensor(q, dtype=input.dtype, device=input.device)


def _quantile(
    name: str, input: Tensor, q: Any, dim: int | None, keepdim: bool, interpolation: str,
    skip_nan: bool,
) -> Tensor:  # fmt: skip
    q = _checked_q(name, input, q, interpolation)
    x = input.reshape(-1) if dim is None else input
    d = 0 if dim is None else one_dim(name, input, dim)
    values, _ = _sorted_rows(x, d)
    n = values.shape[1]
    nans = sum_(el.isnan(values), 1, True)
    if skip_nan:
        last: Any = el.maximum(n - nans - 1, 0).to(q.dtype)
        rank = q.reshape(1, -1) * last
    else:  # the last element of a row with NaN is NaN
        rank = el.where(el.gt(nans, 0), n - 1.0, q.reshape(1, -1) * (n - 1.0))
    if interpolation in _ROUNDED:
        rank = _ROUNDED[interpolation](rank)
    below = el.floor(rank).detach()
    out = gathered(values, 1, below.to(dt.int64))
    if interpolation in ("linear", "midpoint"):
        above = gathered(values, 1, el.ceil(rank).detach().to(dt.int64))
        # at a whole rank no arithmetic, which would make NaN of equal infinities
        part = el.where(el.eq(rank, below), 0.0, above - out)
        out = out + part * (0.5 if interpolation == "midpoint" else rank - below)
    if dim is None:
        rest: tuple[int, ...] = (1,) * input.ndim if keepdim else ()
    elif x.ndim == 0:
        rest = ()
    else:
        rest = tuple(1 if i == d else m for i, m in enumerate(x.shape) if keepdim or i != d)
    return out.T.reshape(*q.shape, *rest)


def quantile(
    input: Tensor, q: Any, dim: int | None = None, keepdim: bool = False, *,
    interpolation: str = "linear",
) -> Tensor:  # fmt: skip
    """The q-quantiles (q in 0..1, a number or a vector) of all elements or along a dim.

    A vector q gives a first dim of its size. A row with NaN gives NaN.
    """
    return _quantile("quantile", input, q, dim, keepdim, interpolation, False)


def nanquantile(
    input: Tensor, q: Any, dim: int | None = None, keepdim: bool = False, *,
    interpolation: str = "linear",
) -> Tensor:  # fmt: skip
    """`quantile` of what is not NaN."""
    return _quantile("nanquantile", input, q, dim, keepdim, interpolation, True)


# --- unique values: how many there are decides the shape, so the host computes them


def _unique(
    input: Tensor, dim: int | None, in_order: bool, inverse: bool, counts: bool, name: str
) -> Any:
    x = input._host()
    d = 0 if dim is None else one_dim(name, input, dim)
    if dim is None:
        rows = x.reshape(-1, 1)
    else:
        x = x.reshape(1) if x.ndim == 0 else x
        if 0 in (rest := x.shape[:d] + x.shape[d + 1 :]):
            raise RuntimeError(
                f"{name}: There are 0 sized dimensions, and they aren't selected, so unique cannot "
                f"be applied; got {list(x.shape)}"
            )
        rows = np.moveaxis(x, d, 0).reshape(x.shape[d], math.prod(rest))
    found = _counted(x, inverse) if dim is None and in_order else None
    values, where, count = found or _runs(rows, in_order, inverse)
    if dim is not None:
        values = np.moveaxis(values.reshape(len(values), *rest), 0, d)
    out = [upload(np.ascontiguousarray(values), input.device, input.dtype)]
    if inverse:
        out.append(upload(where.reshape(input.shape if dim is None else -1), input.device))
    out += [upload(count, input.device)] if counts else []
    return tuple(out) if len(out) > 1 else out[0]


def _counted(x: np.ndarray, inverse: bool) -> tuple[np.ndarray, ...] | None:
    """What `_runs` gives, of ints in so narrow a range that they can be counted."""
    if x.dtype.kind not in "iu" or not x.size:
        return None
    low = x.min()
    if int(x.max()) - int(low) > 2 * x.size:
        return None
    above = np.subtract(x, low, dtype=np.int64, casting="unsafe").reshape(-1).astype(np.intp)
    count = np.bincount(above)
    there = np.flatnonzero(count)
    rank = np.empty(len(count), np.int64)
    rank[there] = np.arange(len(there))
    return there.astype(x.dtype) + low, rank[above] if inverse else rank, count[there]


def _runs(rows: np.ndarray, in_order: bool, inverse: bool) -> tuple[np.ndarray, ...]:
    """The different rows of those next to each other (`in_order`: once sorted), which of them each
    row is, and how often each occurs."""
    n = len(rows)
    order = np.arange(n)
    if rows.shape[1] == 1 and in_order and not inverse:
        ordered = np.sort(rows, axis=0)
    else:
        if in_order and rows.shape[1] == 1 and rows.dtype.kind != "c":
            order = argsort_numpy(key_numpy(rows.T), n)[0]
        elif in_order and n:
            order = np.lexsort(rows.T[::-1])
        ordered = rows[order]
    new = np.ones(n, bool)
    differ = ordered[1:] != ordered[:-1]
    new[1:] = differ[:, 0] if rows.shape[1] == 1 else differ.any(1)
    starts = np.flatnonzero(new)
    values = ordered[starts]
    where = np.empty(n, np.int64)
    if inverse:
        where[order] = np.cumsum(new) - 1
    count = np.diff(np.r_[starts, n]).astype(np.int64)
    return values[:, 0] if rows.shape[1] == 1 else values, where, count


@overload
def unique(
    input: Tensor, sorted: bool = True, return_inverse: Literal[False] = False,
    return_counts: Literal[False] = False, dim: int | None = None,
) -> Tensor: ...  # fmt: skip
@overload
def unique(
    input: Tensor, sorted: bool = True, *, return_inverse: Literal[True],
    return_counts: Literal[False] = False, dim: int | None = None,
) -> tuple[Tensor, Tensor]: ...  # fmt: skip
@overload
def unique(
    input: Tensor, sorted: bool = True, *, return_inverse: Literal[False] = False,
    return_counts: Literal[True], dim: int | None = None,
) -> tuple[Tensor, Tensor]: ...  # fmt: skip
@overload
def unique(
    input: Tensor, sorted: bool = True, *, return_inverse: Literal[True],
    return_counts: Literal[True], dim: int | None = None,
) -> tuple[Tensor, Tensor, Tensor]: ...  # fmt: skip
@overload
def unique(
    input: Tensor, sorted: bool = True, return_inverse: bool = False, return_counts: bool = False,
    dim: int | None = None,
) -> Any: ...  # fmt: skip
def unique(
    input: Tensor, sorted: bool = True, return_inverse: bool = False, return_counts: bool = False,
    dim: int | None = None,
) -> Any:  # fmt: skip
    """The different elements (or slices of a dim), always in order; reads the values.

    With `return_inverse` and `return_counts` a tuple: also which of them each element is, and how
    often each occurs.
    """
    return _unique(input, dim, True, return_inverse, return_counts, "unique")


@overload
def unique_consecutive(
    input: Tensor, return_inverse: Literal[False] = False,
    return_counts: Literal[False] = False, dim: int | None = None,
) -> Tensor: ...  # fmt: skip
@overload
def unique_consecutive(
    input: Tensor, *, return_inverse: Literal[True],
    return_counts: Literal[False] = False, dim: int | None = None,
) -> tuple[Tensor, Tensor]: ...  # fmt: skip
@overload
def unique_consecutive(
    input: Tensor, *, return_inverse: Literal[False] = False,
    return_counts: Literal[True], dim: int | None = None,
) -> tuple[Tensor, Tensor]: ...  # fmt: skip
@overload
def unique_consecutive(
    input: Tensor, *, return_inverse: Literal[True],
    return_counts: Literal[True], dim: int | None = None,
) -> tuple[Tensor, Tensor, Tensor]: ...  # fmt: skip
@overload
def unique_consecutive(
    input: Tensor, return_inverse: bool = False, return_counts: bool = False,
    dim: int | None = None,
) -> Any: ...  # fmt: skip
def unique_consecutive(
    input: Tensor, return_inverse: bool = False, return_counts: bool = False,
    dim: int | None = None,
) -> Any:  # fmt: skip
    """`unique` of neighbours only: the first of each run of equal elements; reads the values."""
    return _unique(input, dim, False, return_inverse, return_counts, "unique_consecutive")


public(
    globals(), both="""sort argsort msort topk kthvalue median nanmedian mode quantile
    nanquantile unique unique_consecutive""", out_exact="kthvalue mode msort sort topk",
    out_apart="kthvalue", rows="topk", like="sort argsort msort",
    cpu_float32="quantile nanquantile",
)  # fmt: skip
