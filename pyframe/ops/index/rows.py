"""Gather and scatter of rows, dim 0 of a matrix: all indexing is made of them."""

from __future__ import annotations

import functools
import math
from typing import Any

import numpy as np

from pyframe.core import dtypes as dt
from pyframe.core.dispatch import apply, can_read_value
from pyframe.core.modes import mode
from pyframe.core.op import (
    EXTERN,
    Constants,
    Grid,
    KernelSpec,
    Op,
    ShaderTemplate,
    const,
    grid_1d,
)
from pyframe.core.sizes import size_hint
from pyframe.ops.api import check
from pyframe.ops.api.batching_rules import BatchedCall, into_dim, out_of_dim
from pyframe.ops.index.order import order_of, search_op
from pyframe.ops.math import elementwise as el
from pyframe.ops.shape import join, movement as mv
from pyframe.tensor import Tensor

Shape = tuple[int, ...]


def np_checked(index: np.ndarray, rows: int) -> np.ndarray:
    """The index as NumPy takes it, 32 bits wide in a page; IndexError where it is out of range."""
    if index.size and (index.min() < 0 or index.max() >= rows):
        bad = index[(index < 0) | (index >= rows)][0]
        raise IndexError(f"index {bad} is out of bounds for size {rows}; expected 0 to {rows - 1}")
    return index.astype(np.intp, copy=False)


def _add_rows_numpy(index: np.ndarray, source: np.ndarray, rows: int) -> np.ndarray:
    """Row sums, deterministic: a few columns one by one as NumPy counts (floats in float64), of
    more the first of each row at once, then the second, …, or in sorted segments if these are long.
    """
    out = np.zeros((rows, source.shape[1]), source.dtype)
    if not index.size:
        return out
    indices = np_checked(index, rows)
    if source.shape[1] <= 16:
        for into, column in zip(out.T, source.T, strict=True):
            if source.dtype.kind == "f":
                into[...] = np.bincount(indices, column, rows)
            else:
                np.add.at(into, indices, column)
        return out
    order = np.argsort(indices, kind="stable")
    ordered = indices[order]
    starts = np.flatnonzero(np.r_[True, ordered[1:] != ordered[:-1]])
    counts = np.diff(np.r_[starts, len(order)])
    if counts.max() > 64:
        out[ordered[starts]] = np.add.reduceat(source[order], starts, axis=0)
        return out
    while starts.size:
        at = order[starts]
        out[indices[at]] += source[at]
        starts, counts = starts[counts > 1] + 1, counts[counts > 1] - 1
    return out


def _put_rows_numpy(base: np.ndarray, index: np.ndarray, source: np.ndarray) -> np.ndarray:
    out = np.array(base)
    out[np_checked(index, base.shape[0])] = source
    return out


def _plan(call: KernelSpec) -> tuple[Constants, Grid]:
    """One thread for each element of the result (D, B)."""
    rows = call.operands[0][0]  # of x, of index or of base
    count = call.operands[1][0]  # of index or of source
    size = math.prod(call.shape)
    consts: Constants = {"D": rows, "B": call.shape[1], "COUNT": count, "SIZE": size}
    return {**consts, "NEIGHBOURS": ()}, grid_1d(-(-size // 256))


def _plan_few(call: KernelSpec) -> tuple[Constants, Grid]:
    """The same where threads look at all of the index: each for elements of one row."""
    consts, grid = _plan(call)
    return {**consts, "NEIGHBOURS": (call.shape[1],)}, grid


def _apart(index: Tensor, rows: int, size: int) -> Tensor:
    """A batch of indices of rows as those of all batches' rows, in one line."""
    first = el.mul(el.iota((size, 1), index.device), rows).to(index.dtype)
    return mv.reshape(el.add(index, first), (-1,))


def _batched(c: BatchedCall) -> Tensor:
    """Rows (dim 0 of x, base and source) by index. With one index for all, rows are longer."""
    at = c.op.inputs.index("index")
    *_, width = c.shape
    if not c.flags[at]:
        xs = [x if i == at else into_dim(x, 1) for i, x in enumerate(c.all())]
        xs[at] = c.xs[at]
        return out_of_dim(apply(c.op, tuple(xs), c.attrs), 1, c.size)
    xs = c.all()
    if c.op is take_rows and not c.flags[0]:
        index = mv.reshape(xs[1], (-1,))
        return mv.reshape(apply(c.op, (c.xs[0], index)), (c.size, *c.shape))
    rows = c.attrs[0] if c.op is add_rows else c.nodes[0].shape[0]
    joined = [_apart(x, rows, c.size) if i == at else mv.reshape(x, (-1, x.shape[-1]))
              for i, x in enumerate(xs)]  # fmt: skip
    attrs = (rows * c.size,) if c.op is add_rows else ()
    return mv.reshape(apply(c.op, tuple(joined), attrs), (c.size, *c.shape[:-1], width))


def _take_by_mask(x: Tensor, index: Tensor) -> Tensor:
    """Of each index all rows, of which the others count as 0."""
    hit = mv.unsqueeze(index, 1) == el.iota((x.shape[0],), x.device)
    return el.where(mv.unsqueeze(hit, 2), x, 0).sum(1).to(x.dtype)


def _add_by_mask(hit: Tensor, source: Tensor) -> Tensor:
    """Row d is the sum of the sources at which `hit` (rows, n) is true."""
    return el.where(mv.unsqueeze(hit, 2), source, 0).sum(1).to(source.dtype)


def _hits(index: Tensor, rows: int) -> Tensor:
    return mv.unsqueeze(el.iota((rows,), index.device), 1) == index


def _put_by_mask(base: Tensor, index: Tensor, source: Tensor) -> Tensor:
    hit = _hits(index, base.shape[0])
    last = el.where(hit, el.iota((index.shape[0],), index.device), -1).amax(1)
    return el.where(mv.unsqueeze(last >= 0, 1), _take_by_mask(source, last), base)


def _add_segments_by_mask(bounds: Tensor, order: Tensor, source: Tensor) -> Tensor:
    at = el.iota((order.shape[0],), order.device)
    hit = (mv.unsqueeze(bounds[:-1], 1) <= at) & (at < mv.unsqueeze(bounds[1:], 1))
    return _add_by_mask(hit, _take_by_mask(source, order))


take_rows = Op(  # x (D, B), index (n,) -> (n, B)
    "take_rows", EXTERN, "x index",
    infer=lambda x, index: ((index.shape[0], x.shape[1]), x.dtype),
    numpy=lambda x, index: np.take(x, np_checked(index, x.shape[0]), 0),
    fallback=_take_by_mask, kernel=ShaderTemplate("take_rows.wgsl", _plan, moves=True),
    routine="index.take_rows",
    x=lambda g, index, x_spec: apply(add_rows, (index, g), (x_spec.shape[0],)),
    batch=_batched, reads=lambda shapes, out: (math.prod(out), math.prod(shapes[1])),
)  # fmt: skip


# Indices whose rows one thread of the GPU's kernel may add: see reduction.ROUNDS
MAX_THREAD_INDICES = 1 << 18


LOOKS = 1 << 26  # of results at indices, which take a GPU as long as the kernels that sort


def _few(index: Any, shape: Shape) -> bool:
    """Whether each result of `shape` may look at all indices, instead of sorting them."""
    n = index.shape[0]
    return bool(n <= 1024) and size_hint(n * math.prod(shape)) <= LOOKS


def _segments(index: Tensor, rows: int) -> tuple[Tensor, Tensor]:
    """(rows + 1) bounds and where the indices are in order: of row d those between its bounds.
    An index out of range is in none."""
    order = order_of(index.to(dt.int32).reshape(1, -1)).reshape(-1)
    ordered = apply(take_rows, (index.to(dt.int32).reshape(-1, 1), order)).reshape(1, -1)
    bounds = apply(search_op, (ordered, el.iota((1, rows + 1), index.device)))
    return bounds.reshape(-1), order


def _add_rows_by_kernels(index: Tensor, source: Tensor, rows: int) -> Tensor:
    if _few(index, (rows, source.shape[1])):
        return apply(add_few_rows, (index, source), (rows,))
    n = index.shape[0]
    if n > MAX_THREAD_INDICES:
        parts = [slice(i, i + MAX_THREAD_INDICES) for i in range(0, n, MAX_THREAD_INDICES)]
        return functools.reduce(
            el.add, [_add_rows_by_kernels(index[p], source[p], rows) for p in parts]
        )
    return apply(add_segments, (*_segments(index, rows), source))


def _put_rows_by_kernels(base: Tensor, index: Tensor, source: Tensor) -> Tensor:
    if _few(index, base.shape):
        return apply(put_few_rows, (base, index, source))
    bounds, order = _segments(index, base.shape[0])
    first, end = bounds[:-1], bounds[1:]
    last = apply(take_rows, (order.reshape(-1, 1), el.maximum(end - 1, 0))).reshape(-1)
    return el.where(el.gt(end, first).reshape(-1, 1), apply(take_rows, (source, last)), base)


def _add_segments_numpy(bounds: np.ndarray, order: np.ndarray, source: np.ndarray) -> np.ndarray:
    index = np.repeat(np.arange(len(bounds) - 1), np.diff(bounds))
    return _add_rows_numpy(index, source[order[bounds[0] : bounds[-1]]], len(bounds) - 1)


_add: dict[str, Any] = {
    "inputs": "index source", "attrs": "rows", "numpy": _add_rows_numpy,
    "routine": "index.add_rows",
    "infer": lambda index, source, rows: ((rows, source.shape[1]), source.dtype),
}  # fmt: skip
_put: dict[str, Any] = {
    "inputs": "base index source", "numpy": _put_rows_numpy, "routine": "index.put_rows",
    "infer": lambda base, index, source: (base.shape, base.dtype),
}  # fmt: skip

add_rows = Op(  # index (n,), source (n, B) -> (rows, B): row d is the sum of sources with index d
    "add_rows", EXTERN, **_add, fallback=_add_rows_by_kernels, batch=_batched,
    flops=lambda shapes, out: math.prod(shapes[1]),
    source=lambda g, index: apply(take_rows, (g, index)),
)  # fmt: skip


def added(index: Tensor, rows: Tensor, n: int) -> Tensor:
    """n rows, each the sum of those that `index` sends there; of bools whether one is True."""
    if rows.dtype is not dt.bool_:
        return apply(add_rows, (index, rows), (n,))
    return apply(add_rows, (index, rows.to(dt.int32)), (n,)).to(dt.bool_)


put_rows = Op(  # base (D, B), index (n,), source (n, B): a copy of base, the last of equals wins
    "put_rows", EXTERN, **_put, fallback=_put_rows_by_kernels, batch=_batched,
    base=lambda g, index: apply(
        put_rows, (g, index, g.new_zeros(index.shape[0], g.shape[1]))
    ),
    source=lambda g, index: apply(take_rows, (g, index)),
)  # fmt: skip
add_few_rows = Op(
    "add_few_rows", EXTERN, **_add, kernel=ShaderTemplate("add_rows.wgsl", _plan_few, moves=True),
    fallback=lambda index, source, rows: _add_by_mask(_hits(index, rows), source),
)  # fmt: skip
put_few_rows = Op(
    "put_few_rows", EXTERN, **_put, kernel=ShaderTemplate("put_rows.wgsl", _plan_few, moves=True),
    fallback=_put_by_mask,
)  # fmt: skip
add_segments = Op(  # bounds (rows + 1,), order (n,), source (n, B) -> (rows, B)
    "add_segments", EXTERN, "bounds order source", numpy=_add_segments_numpy,
    infer=lambda bounds, order, source: ((bounds.shape[0] - 1, source.shape[1]), source.dtype),
    fallback=_add_segments_by_mask, kernel=ShaderTemplate("segments.wgsl", _plan, moves=True),
    routine="index.add_segments",
)  # fmt: skip


def put_at(x: Tensor, places: dict[int, Any], value: Tensor) -> Tensor:
    """`x` with a value, of size 1 along these dims, at one place along each: an int or a tensor of
    one. Over `x`, where nothing reads that any more, it is written alone if there is one place;
    else all of `x` is, and of a view what it is seen in: element by element, in one kernel."""
    if len(places) == 1 and goes_over(x, value) and not x._view_chain:
        ((d, i),) = places.items()
        return put_in_block(x, 0, x.shape, d, i, value)
    mask: Any = None
    for d, i in places.items():
        here = el.eq(el.dim_indices(x.shape[d], x.ndim - d - 1, x.device), i)
        mask = here if mask is None else el.logical_and(mask, here)
    return el.where(mask, value, x)


def put_in_block(x: Tensor, offset: int, block: Shape, d: int, i: Any, value: Tensor) -> Tensor:
    """`x` with a value at place `i` along dim `d` of the block of this shape that begins at element
    `offset` of it."""
    outer, inner = math.prod(block[:d]), math.prod(block[d + 1 :])
    value = mv.expand(value, (*block[:d], 1, *block[d + 1 :]))
    place = mv.reshape(i, ()) if isinstance(i, Tensor) else const(i, dt.int32, x.device)
    base = mv.reshape(x, (math.prod(x.shape),))
    return apply(
        put_row, (base, place, mv.reshape(value, (outer, inner))), (x.shape, offset, block[d])
    )


def _over_numpy(
    out: np.ndarray, place: Any, value: np.ndarray, shape: Shape, offset: int, rows: int
) -> np.ndarray:
    (outer, inner), (i,) = value.shape, np_checked(np.reshape(place, 1), rows)
    size = outer * rows * inner
    out.reshape(-1)[offset : offset + size].reshape(outer, rows, inner)[:, i] = value
    return out.reshape(shape)


def _plan_row(call: KernelSpec) -> tuple[Constants, Grid]:
    """One thread for each element of the base, or of the value."""
    _, offset, rows = call.attrs.values()
    outer, inner = call.operands[-1]
    all_of_it = len(call.operands) == 3
    size = call.operands[0][0] if all_of_it else outer * inner
    consts: Constants = {"D": rows, "B": inner, "OFFSET": offset, "END": outer, "SIZE": size}
    consts["NEIGHBOURS"] = () if all_of_it else (inner, offset)
    return consts, grid_1d(-(-size // 256))


def _put_row_by_mask(
    base: Tensor, place: Any, value: Tensor, shape: Shape, offset: int, rows: int
) -> Tensor:
    outer, inner = value.shape
    size = outer * rows * inner
    block = mv.reshape(base[offset : offset + size], (outer, rows, inner))
    hit = mv.unsqueeze(el.eq(el.iota((rows,), base.device), place), 1)
    new = mv.reshape(el.where(hit, mv.unsqueeze(value, 1), block), (size,))
    parts = [base[:offset], new, base[offset + size :]]
    whole = new if size == base.shape[0] else join.cat([p for p in parts if p.shape[0]])
    return mv.reshape(whole, shape)


# The base, in line, with a value (outer, inner) in one row of each of `outer` parts of so many rows
# that lie in line from `offset` on.
put_row = Op(
    "put_row", EXTERN, "base place value", "shape offset rows",
    numpy=lambda base, *rest: _over_numpy(np.array(base), *rest),
    infer=lambda base, place, value, shape, offset, rows: (shape, base.dtype),
    fallback=_put_row_by_mask, routine="index.put_row",
    kernel=ShaderTemplate("put_row.wgsl", _plan_row, moves=True),
)  # fmt: skip
put_row_over = Op(  # over the base: elsewhere the memory of the result stays as it is
    "put_row_over", EXTERN, "place value", "shape offset rows",
    infer=lambda place, value, shape, offset, rows: (shape, value.dtype), write_slice=_over_numpy,
    numpy=lambda place, value, shape, offset, rows: _over_numpy(
        np.zeros(math.prod(shape), value.dtype), place, value, shape, offset, rows
    ),
    fallback=lambda place, value, shape, offset, rows: _put_row_by_mask(
        value.new_zeros(math.prod(shape)), place, value, shape, offset, rows
    ),
    kernel=ShaderTemplate("put_row_over.wgsl", _plan_row, moves=True), routine="index.put_row_over",
)  # fmt: skip
put_row.over = put_row_over


def goes_over(x: Tensor, value: Tensor) -> bool:
    """Whether a value may be put over `x` in part: where there is no gradient, which would go over
    all of `x`."""
    return not (mode.grad and (x.requires_grad or value.requires_grad))


def _all_below(data: np.ndarray, n: int) -> bool:
    """Whether ints, some of them, are from 0 to n - 1: negative ones are large as unsigned ones."""
    return bool(data.view(f"u{data.itemsize}").max() < n)


def checked_index(
    name: str, index: Tensor, rows: int, wrap: bool = True, error: type[Exception] = IndexError
) -> Tensor:
    """`index` with negatives counted from the end (if `wrap`); `error` where it is out of range."""
    least = -rows if wrap else 0
    if not can_read_value(index):
        check.defer_assert(
            el.logical_or(el.lt(index, least), el.ge(index, rows)),
            f"{name}: index out of range for size {rows}; expected {least} to {rows - 1}",
            error,
        )
        return el.where(el.lt(index, 0), index + rows, index) if wrap else index
    data = index._node.data
    if data.size and not _all_below(data, rows):
        low, high = data.min(), data.max()
        if low < least or high >= rows:
            bad = low if low < least else high
            raise error(
                f"{name}: index {bad} is out of range for size {rows}; "
                f"expected {least} to {rows - 1}"
            )
        if low < 0:
            return el.where(el.lt(index, 0), index + rows, index)
    return index


def checked_classes(
    what: str, index: Tensor, n: int, ignore: int | None = None,
    error: type[Exception] = IndexError, of: str = "",
) -> Tensor:  # fmt: skip
    """`index` itself; `error` where an element is outside 0..n-1 (and not `ignore`); `of` says
    what there are n of."""
    message = f"{what} out of range: expected 0 to {n - 1}"
    if not can_read_value(index):
        if not check.is_new(index, n, ignore):  # as a loss and metrics check their targets
            return index
        bad = el.logical_or(el.lt(index, 0), el.ge(index, n))
        if ignore is not None and not 0 <= ignore < n:
            bad = el.logical_and(bad, el.ne(index, ignore))
        check.defer_assert(bad, message + of, error, index)
        return index
    data = index._node.data
    if not data.size or _all_below(data, n):
        return index
    if ignore is not None:
        data = data[data != ignore]
    if data.size and (data.min() < 0 or data.max() >= n):
        seen = data.min() if data.min() < 0 else data.max()
        raise error(f"{message}, got {seen}{of}")
    return index
