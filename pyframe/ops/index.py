"""Indexing: every form is row gather and row scatter after some movement."""

from __future__ import annotations

import functools
import math
from types import EllipsisType
from typing import Any, Literal, overload

import numpy as np

from pyframe.core import dtypes as dt, view as views
from pyframe.core.devices import device as Device
from pyframe.core.dispatch import apply
from pyframe.core.op import ROUTINE, Constants, Grid, KernelCall, KernelFile, Op, in_a_line
from pyframe.ops import check, elementwise as el, movement as mv
from pyframe.ops.autocast import autocast
from pyframe.ops.public import public
from pyframe.ops.reduce import amax, amin, limit_of, prod, sum as sum_
from pyframe.tensor import Tensor, normalize_dim, tensor, upload


def _take_numpy(x: np.ndarray, index: np.ndarray) -> np.ndarray:
    return np.take(x, _checked(index, x.shape[0]), 0)


def _checked(index: np.ndarray, rows: int) -> np.ndarray:
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
    places = _checked(index, rows)
    if source.shape[1] <= 16:
        for into, column in zip(out.T, source.T, strict=True):
            if source.dtype.kind == "f":
                into[...] = np.bincount(places, column, rows)
            else:
                np.add.at(into, places, column)
        return out
    order = np.argsort(places, kind="stable")
    ordered = places[order]
    starts = np.flatnonzero(np.r_[True, ordered[1:] != ordered[:-1]])
    counts = np.diff(np.r_[starts, len(order)])
    if counts.max() > 64:
        out[ordered[starts]] = np.add.reduceat(source[order], starts, axis=0)
        return out
    while starts.size:
        at = order[starts]
        out[places[at]] += source[at]
        starts, counts = starts[counts > 1] + 1, counts[counts > 1] - 1
    return out


def _put_rows_numpy(base: np.ndarray, index: np.ndarray, source: np.ndarray) -> np.ndarray:
    out = np.array(base)
    out[_checked(index, base.shape[0])] = source
    return out


def _plan(call: KernelCall) -> tuple[Constants, Grid]:
    """One thread for each element of the result (D, B)."""
    rows = call.operands[0][0]  # of x, of index or of base
    count = call.operands[1][0]  # of index or of source
    size = math.prod(call.shape)
    consts: Constants = {"D": rows, "B": call.shape[1], "COUNT": count, "SIZE": size}
    return consts, in_a_line(-(-size // 256))


take_rows = Op(  # x (D, B), index (n,) -> (n, B)
    "take_rows", ROUTINE, "x index",
    infer=lambda x, index: ((index.shape[0], x.shape[1]), x.dtype),
    numpy=_take_numpy, kernel=KernelFile("take_rows.wgsl", _plan),
    x=lambda g, index, x_spec: apply(add_rows, (index, g), (x_spec.shape[0],)),
)  # fmt: skip


MANY = 1 << 18  # indices whose rows one thread of the GPU's kernel may add: see codegen.ROUNDS


def _few(index: Any) -> bool:
    """Whether each result may look at all indices, instead of sorting them."""
    return bool(index.shape[0] <= 1024)


def _segments(index: Tensor, rows: int) -> tuple[Tensor, Tensor]:
    """(rows + 1) bounds and the places of the indices in order: of row d those between its bounds.
    An index out of range is in none."""
    from pyframe.ops.sort import order_of, search_op

    order = order_of(index.to(dt.int32).reshape(1, -1)).reshape(-1)
    ordered = apply(take_rows, (index.to(dt.int32).reshape(-1, 1), order)).reshape(1, -1)
    bounds = apply(search_op, (ordered, el.iota((1, rows + 1), index.device)))
    return bounds.reshape(-1), order


def _add_rows_by_kernels(index: Tensor, source: Tensor, rows: int) -> Tensor:
    if _few(index):
        return apply(add_few_rows, (index, source), (rows,))
    n = index._node.shape[0]
    if n > MANY:
        parts = [slice(i, i + MANY) for i in range(0, n, MANY)]
        return functools.reduce(
            el.add, [_add_rows_by_kernels(index[p], source[p], rows) for p in parts]
        )
    return apply(add_segments, (*_segments(index, rows), source))


def _put_rows_by_kernels(base: Tensor, index: Tensor, source: Tensor) -> Tensor:
    if _few(index):
        return apply(put_few_rows, (base, index, source))
    bounds, order = _segments(index, base._node.shape[0])
    first, end = bounds[:-1], bounds[1:]
    last = apply(take_rows, (order.reshape(-1, 1), el.maximum(end - 1, 0))).reshape(-1)
    return el.where(el.gt(end, first).reshape(-1, 1), apply(take_rows, (source, last)), base)


def _add_segments_numpy(bounds: np.ndarray, order: np.ndarray, source: np.ndarray) -> np.ndarray:
    index = np.repeat(np.arange(len(bounds) - 1), np.diff(bounds))
    return _add_rows_numpy(index, source[order[bounds[0] : bounds[-1]]], len(bounds) - 1)


_add: dict[str, Any] = {
    "inputs": "index source", "attrs": "rows", "numpy": _add_rows_numpy,
    "infer": lambda index, source, rows: ((rows, source.shape[1]), source.dtype),
}  # fmt: skip
_put: dict[str, Any] = {
    "inputs": "base index source", "numpy": _put_rows_numpy,
    "infer": lambda base, index, source: (base.shape, base.dtype),
}  # fmt: skip
add_rows = Op(  # index (n,), source (n, B) -> (rows, B): row d is the sum of sources with index d
    "add_rows", ROUTINE, **_add, fallback=_add_rows_by_kernels,
    source=lambda g, index: apply(take_rows, (g, index)),
)  # fmt: skip
put_rows = Op(  # base (D, B), index (n,), source (n, B): a copy of base, the last of equals wins
    "put_rows", ROUTINE, **_put, fallback=_put_rows_by_kernels,
    base=lambda g, index: apply(
        put_rows, (g, index, g.new_zeros(index._node.shape[0], g._node.shape[1]))
    ),
    source=lambda g, index: apply(take_rows, (g, index)),
)  # fmt: skip
add_few_rows = Op("add_few_rows", ROUTINE, **_add, kernel=KernelFile("add_rows.wgsl", _plan))
put_few_rows = Op("put_few_rows", ROUTINE, **_put, kernel=KernelFile("put_rows.wgsl", _plan))
add_segments = Op(  # bounds (rows + 1,), order (n,), source (n, B) -> (rows, B)
    "add_segments", ROUTINE, "bounds order source", numpy=_add_segments_numpy,
    infer=lambda bounds, order, source: ((bounds.shape[0] - 1, source.shape[1]), source.dtype),
    kernel=KernelFile("segments.wgsl", _plan),
)  # fmt: skip


def _check_index(
    name: str, index: Tensor, rows: int, wrap: bool = True, error: type[Exception] = IndexError
) -> Tensor:
    """`index` with negatives counted from the end (if `wrap`); `error` where it is out of range."""
    if index.dtype.category != dt.INTEGER:
        raise IndexError(
            f"{name}: expected an integer index (int32 or int64), got {index.dtype.name}"
        )
    least = -rows if wrap else 0
    if index.device.lazy:
        check.later(
            el.logical_or(el.lt(index, least), el.ge(index, rows)),
            f"{name}: index out of range for size {rows}; expected {least} to {rows - 1}",
            error,
        )
        return el.where(el.lt(index, 0), index + rows, index) if wrap else index
    data = index._node.data
    if data.size:
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
    if index.device.lazy:
        if not check.is_new(index, n, ignore):  # as a loss and metrics check their targets
            return index
        bad = el.logical_or(el.lt(index, 0), el.ge(index, n))
        if ignore is not None and not 0 <= ignore < n:
            bad = el.logical_and(bad, el.ne(index, ignore))
        check.later(bad, message + of, error, index)
        return index
    data = index._node.data
    if ignore is not None:
        data = data[data != ignore]
    if data.size and (data.min() < 0 or data.max() >= n):
        seen = data.min() if data.min() < 0 else data.max()
        raise error(f"{message}, got {seen}{of}")
    return index


# --- along a dim: an index for each element

UFUNCS: dict[str, Any] = {
    "sum": np.add, "prod": np.multiply, "amax": np.maximum, "amin": np.minimum,
}  # fmt: skip


def np_places(index: np.ndarray, shape: tuple[int, ...], dim: int) -> np.ndarray:
    """Flat positions in `shape` of the elements that `index` names along a dim."""
    step = math.prod(shape[dim + 1 :])
    flat = _checked(index, shape[dim])
    flat = flat * step if step > 1 else flat
    starts = _starts if index.size <= 1 << 16 else _starts.__wrapped__
    return flat + starts(index.shape, shape, dim)


@functools.lru_cache(256)
def _starts(counts: tuple[int, ...], shape: tuple[int, ...], dim: int) -> Any:
    """Flat positions in `shape` of the rows along `dim` that `counts` index."""
    steps, grid = views.row_major(shape), np.ogrid[tuple(slice(n) for n in counts)]
    return sum(i * k for d, (i, k) in enumerate(zip(grid, steps, strict=True)) if d != dim)


def _put_along_numpy(
    base: np.ndarray, index: np.ndarray, source: np.ndarray, dim: int
) -> np.ndarray:
    out = np.array(base, order="C")
    out.reshape(-1)[np_places(index, base.shape, dim)] = source
    return out


def _reduce_along_numpy(
    base: np.ndarray, index: np.ndarray, source: np.ndarray, dim: int, how: str
) -> np.ndarray:
    out = np.array(base, order="C")
    flat = np_places(index, base.shape, dim)
    UFUNCS[how].at(out.reshape(-1), flat.reshape(-1), source.reshape(-1))
    return out


take_along = Op(  # x, index -> the shape of index
    "take_along", ROUTINE, "x index", "dim",
    infer=lambda x, index, dim: (index.shape, x.dtype),
    numpy=lambda x, index, dim: np.take(x, np_places(index, x.shape, dim)),
    fallback=lambda x, index, dim: _take_by_rows(x, index, dim),
    x=lambda g, x_spec, index, dim: apply(
        reduce_along, (g.new_zeros(x_spec.shape), index, g), (dim, "sum")
    ),
)  # fmt: skip
put_along = Op(  # a copy of base with source at the places of index, the last of equals
    "put_along", ROUTINE, "base index source", "dim",
    infer=lambda base, *_: (base.shape, base.dtype),
    numpy=_put_along_numpy,
    fallback=lambda base, index, source, dim: _put_by_winners(base, index, source, dim),
    base=lambda g, index, dim: apply(
        put_along, (g, index, g.new_zeros(index._node.shape)), (dim,)
    ),
    source=lambda g, index, dim: apply(take_along, (g, index), (dim,)),
)  # fmt: skip
reduce_along = Op(  # base reduced with the sources whose index names its places
    "reduce_along", ROUTINE, "base index source", "dim how",
    infer=lambda base, *_: (base.shape, base.dtype),
    numpy=_reduce_along_numpy,
    fallback=lambda *args: _reduce_by_comparing(*args),
    base=lambda g, y, base, index, source, dim, how: _reduced_grads(
        g, y, base, index, source, dim, how)[0](),
    source=lambda g, y, base, index, source, dim, how: _reduced_grads(
        g, y, base, index, source, dim, how)[1](),
)  # fmt: skip


def _take_by_rows(x: Tensor, index: Tensor, dim: int) -> Tensor:
    shape, ishape = x._node.shape, index._node.shape
    if ishape[dim] == 1 and x.dtype is not dt.bool_:  # a sum that fuses with what comes before
        part = mv.slice_(x, (0,) * len(shape), (*ishape[:dim], shape[dim], *ishape[dim + 1 :]))
        return sum_(el.where(_one_hot_along(index, dim, shape[dim]), part, 0), dim, True).to(
            x.dtype
        )
    flat = _flat_index(index, dim, shape).reshape(-1)
    return apply(take_rows, (x.reshape(-1, 1), flat)).reshape(ishape)


def _compared(index: Tensor, dim: int, rows: int) -> Tensor:
    """(.., rows, n, ..): whether index j along the dim names row i."""
    return el.eq(mv.unsqueeze(index, dim), el.places(rows, index.ndim - dim, index.device))


def _fitted(x: Tensor, like: Tensor, value: Any) -> Tensor:
    """`x` with `value` behind each dim, in the shape of `like`."""
    sizes = zip(like._node.shape, x._node.shape, strict=True)
    return mv.pad(x, tuple((0, n - m) for n, m in sizes), value)


def _put_by_winners(base: Tensor, index: Tensor, source: Tensor, dim: int) -> Tensor:
    """The last index that names a place, found by comparing, says what is put there."""
    n = index._node.shape[dim]
    order = el.places(n, index.ndim - 1 - dim, index.device)
    hit = _compared(index, dim, base._node.shape[dim])
    winner = amax(el.where(hit, order, -1), dim + 1)
    chosen = _take_by_rows(source, el.maximum(winner, 0), dim)
    if source.dtype is dt.bool_:
        return el.where(_fitted(el.ge(winner, 0), base, False), _fitted(chosen, base, False), base)
    return el.where(_fitted(el.ge(winner, 0), base, False), _fitted(chosen, base, 0), base)


def _neutral(how: str, x: Tensor) -> Any:
    """What changes nothing when it is joined with elements of `x`."""
    if how in ("sum", "prod"):
        return int(how == "prod")
    return limit_of(x, -1 if how == "amax" else 1)


def _reduce_by_comparing(base: Tensor, index: Tensor, source: Tensor, dim: int, how: str) -> Tensor:
    neutral = _neutral(how, base)
    hit = _compared(index, dim, base._node.shape[dim])
    picked = el.where(hit, mv.unsqueeze(source, dim), neutral)
    if how == "sum":
        return base + _fitted(sum_(picked, dim + 1, dtype=base.dtype), base, 0)
    if how == "prod":
        return base * _fitted(prod(picked, dim + 1, dtype=base.dtype), base, 1)
    extreme, choose = (amax, el.maximum) if how == "amax" else (amin, el.minimum)
    return choose(base, _fitted(extreme(picked, dim + 1), base, neutral))


def _reduced_grads(
    g: Tensor, y: Tensor, base: Tensor, index: Tensor, source: Tensor, dim: int, how: str
) -> Any:
    """How the gradients of base and of source are computed; equal extremes share theirs, and of
    a product with one zero only that zero has a gradient."""

    def at(x: Tensor) -> Tensor:
        return apply(take_along, (x, index), (dim,))

    def joined(a: Tensor, b: Tensor, how: str = "sum") -> Tensor:
        return apply(reduce_along, (a, index, b), (dim, how))

    if how == "sum":
        return lambda: g, lambda: at(g)
    d = base.dtype
    if how == "prod":
        none, none_here = el.eq(base, 0), el.eq(source, 0)
        zeros = joined(none.to(d), none_here.to(d))
        rest = joined(el.where(none, 1, base), el.where(none_here, 1, source), "prod")
        alone, whole = (
            el.where(el.eq(zeros, 1), rest, 0) * g,
            el.where(el.eq(zeros, 0), rest, 0) * g,
        )
        return (
            lambda: el.where(none, alone, whole / el.where(none, 1, base)),
            lambda: el.where(none_here, at(alone), at(whole) / el.where(none_here, 1, source)),
        )
    hit, hit_here = el.eq(base, y).to(d), el.eq(source, at(y)).to(d)
    share = g / joined(hit, hit_here)
    return lambda: share * hit, lambda: at(share) * hit_here


def _index_along(name: str, input: Tensor, dim: int, index: Tensor) -> tuple[Tensor, Tensor, int]:
    """Input and index with at least one dim, the dim; torch's checks of their shapes."""
    if not isinstance(index, Tensor) or (index.dtype not in (dt.int64, dt.int32) and index.numel()):
        seen = index.dtype.name if isinstance(index, Tensor) else type(index).__name__
        raise RuntimeError(f"{name}(): Expected dtype int32/int64 for index, got {seen}")
    d = normalize_dim(dim, input.ndim)
    x = input if input.ndim else mv.reshape(input, (1,))
    i = index if index.ndim else mv.reshape(index, (1,))
    if not i.numel():
        return x, i, d
    if x.ndim != i.ndim:
        raise RuntimeError(
            f"{name}(): Index tensor must have the same number of dimensions as self tensor, got "
            f"index {list(index.shape)}, self {list(input.shape)}"
        )
    for k, (n, m) in enumerate(zip(x._node.shape, i._node.shape, strict=True)):
        if k != d and m > n:
            raise RuntimeError(
                f"{name}(): Size does not match at dimension {k} expected index "
                f"{list(index.shape)} to be no larger than self {list(input.shape)} apart from "
                f"dimension {d}"
            )
    return x, _check_index(name, i, x._node.shape[d], False, RuntimeError), d


def gather(input: Tensor, dim: int, index: Tensor, *, sparse_grad: bool = False) -> Tensor:
    """out[i][j] = input[index[i][j]][j] for dim 0, and so on; torch.gather.

    RuntimeError for an index out of range; on the GPU when a value is next read.
    """
    x, i, d = _index_along("gather", input, dim, index)
    if not i.numel():
        return mv.nothing_of(x, index._node.shape)
    out = gathered(x, d, i)
    return out if index.ndim else out.reshape(())


def gathered(input: Tensor, d: int, index: Tensor) -> Tensor:
    """`gather` of places that are known to be right."""
    if not input.ndim or not index.numel():
        return gather(input, d, index)
    if input.device.lazy and index._node.shape[d] == 1:  # with its gradient part of other kernels
        return _take_by_rows(input, index, d)
    return apply(take_along, (input, index), (d,))


def take_along_dim(input: Tensor, indices: Tensor, dim: int | None = None) -> Tensor:
    """`gather` whose index is broadcast against the other dims; without a dim, of all elements.

    IndexError for an index out of range; on the GPU when a value is next read.
    """
    if indices.dtype.category != dt.INTEGER:
        raise RuntimeError(
            f"take_along_dim(): dtype of indices should be Long but got {indices.dtype.name}"
        )
    if dim is None:
        return take_along_dim(input.reshape(-1), indices.reshape(-1), 0)
    if input.ndim != indices.ndim:
        raise RuntimeError(
            "take_along_dim(): input and indices should have the same number of dimensions, but "
            f"got {input.ndim} and {indices.ndim}"
        )
    d = normalize_dim(dim, input.ndim)
    shape, ishape = list(input._node.shape), list(indices._node.shape)
    if not shape:
        return gather(input, 0, indices)
    whole = list(el.broadcast("take_along_dim", (*shape[:d], 1, *shape[d + 1 :]),
                              (*ishape[:d], 1, *ishape[d + 1 :])))  # fmt: skip
    x = mv.expand(input, (*whole[:d], shape[d], *whole[d + 1 :]))
    indices = _check_index("take_along_dim", indices, shape[d])
    return gather(x, d, mv.expand(indices, (*whole[:d], ishape[d], *whole[d + 1 :])))


def _source(name: str, x: Tensor, i: Tensor, src: Any) -> Tensor:
    """The part of `src` (a number: expanded) that the index uses."""
    if not isinstance(src, Tensor):
        if dt.of_scalar(src).category > max(x.dtype.category, dt.INTEGER) and x.dtype.category < 2:
            src = int(src)
        return mv.expand(tensor(src, dtype=x.dtype, device=x.device), i._node.shape)
    if src.dtype is not x.dtype:
        raise RuntimeError(
            f"{name}(): Expected self.dtype to be equal to src.dtype, got {x.dtype.name} and "
            f"{src.dtype.name}"
        )
    src = src if src.ndim else mv.reshape(src, (1,))
    if src.ndim != i.ndim or any(
        m > n for n, m in zip(src._node.shape, i._node.shape, strict=False)
    ):
        raise RuntimeError(
            f"{name}(): Expected index {list(i.shape)} to be no larger than src {list(src.shape)}"
        )
    return mv.slice_(src, (0,) * src.ndim, i._node.shape)


def scatter(
    input: Tensor, dim: int, index: Tensor, src: Any = None, *, value: Any = None,
    reduce: str | None = None,
) -> Tensor:  # fmt: skip
    """`input` with src[i][j] (or a number) put at [index[i][j]][j] (dim 0), and so on; of equal
    places the last wins. `reduce`: 'add' or 'multiply'.

    RuntimeError for an index out of range; on the GPU when a value is next read.
    """
    given = value if src is None else src
    if given is None:
        raise TypeError("scatter(): expected src or value")
    if reduce is not None:
        hows = {"add": "sum", "multiply": "prod"}
        if reduce not in hows:
            raise RuntimeError(f"reduce argument must be either add or multiply, got {reduce!r}")
        return _reduced_into("scatter", input, dim, index, given, hows[reduce])
    x, i, d = _index_along("scatter", input, dim, index)
    if not i.numel():
        return input.clone()
    out = apply(put_along, (x, i, _source("scatter", x, i, given)), (d,))
    return out if input.ndim else out.reshape(())


def _reduced_into(
    name: str, input: Tensor, dim: int, index: Tensor, src: Any, how: str, include: bool = True
) -> Tensor:
    x, i, d = _index_along(name, input, dim, index)
    if not i.numel():
        return input.clone()
    source = _source(name, x, i, src)
    if x.dtype is dt.bool_:
        how = {"sum": "amax", "prod": "amin"}.get(how, how)
        x, source = x.to(dt.int32), source.to(dt.int32)
    mean, how = how == "mean", "sum" if how == "mean" else how
    ones = None
    if mean or not include:
        ones = i.new_ones(i._node.shape, dtype=dt.int32)
        own = x.new_full(x._node.shape, int(include), dtype=dt.int32)
        count = apply(reduce_along, (own, i, ones), (d, "sum"))
    if not include:
        x = el.where(el.gt(count, 0), _neutral(how, x), x)
    out = apply(reduce_along, (x, i, source), (d, how))
    if mean:
        count = el.maximum(count, 1)
        out = out / count if out.dtype.category >= dt.FLOAT else el.floor_divide(out, count)
    return out.to(input.dtype).reshape(input._node.shape)


def scatter_add(input: Tensor, dim: int, index: Tensor, src: Tensor) -> Tensor:
    """`input` with src[i][j] added at [index[i][j]][j] (dim 0), and so on; deterministic.

    RuntimeError for an index out of range; on the GPU when a value is next read.
    """
    return _reduced_into("scatter_add", input, dim, index, src, "sum")


def scatter_reduce(
    input: Tensor, dim: int, index: Tensor, src: Tensor, reduce: str, *, include_self: bool = True
) -> Tensor:
    """`scatter` that joins what meets at a place, with what `input` has there unless
    `include_self=False`; reduce: 'sum', 'prod', 'mean', 'amax' or 'amin'.

    RuntimeError for an index out of range; on the GPU when a value is next read.
    """
    if reduce not in (*UFUNCS, "mean"):
        raise RuntimeError(
            f"reduce argument must be either sum, prod, mean, amax or amin, got {reduce!r}"
        )
    return _reduced_into("scatter_reduce", input, dim, index, src, reduce, include_self)


_SEGMENTS = {"sum": "sum", "mean": "sum", "prod": "prod", "max": "amax", "min": "amin",
             "amax": "amax", "amin": "amin"}  # fmt: skip


def segment_reduce(
    data: Tensor, reduce: str, *, lengths: Tensor | None = None, indices: Tensor | None = None,
    offsets: Tensor | None = None, axis: int = 0, unsafe: bool = False, initial: Any = None,
) -> Tensor:  # fmt: skip
    """Each run of elements along an axis joined into one, of the `lengths` (*, S) given, or from
    each of `offsets` (*, S + 1) to the next; reduce: 'sum', 'mean', 'prod', 'max' or 'min'.
    `axis` must be the last dim of either. An empty run gives `initial`, or what changes nothing
    (of a mean NaN). RuntimeError where lengths don't sum to the size, unless `unsafe`."""
    from pyframe.ops.scan import cumsum, diff
    from pyframe.ops.sort import searchsorted

    name = "segment_reduce"
    d = normalize_dim(axis, data.ndim)
    if reduce not in _SEGMENTS:
        raise RuntimeError(f"{name}: unsupported reduction {reduce!r}; expected {list(_SEGMENTS)}")
    if indices is not None:
        raise RuntimeError(f"{name}(): indices based reduction is not supported yet.")
    given = offsets if lengths is None else lengths
    if given is None:
        raise RuntimeError(f"{name}(): Either lengths or offsets must be defined.")
    check.floats(name, data)
    if given.dtype not in (dt.int32, dt.int64):
        raise NotImplementedError(f"{name}: lengths and offsets are ints, got {given.dtype.name}")
    if given.ndim != d + 1 or given._node.shape[:d] != data._node.shape[:d] or not given.numel():
        raise RuntimeError(
            f"{name}(): Expected axis to be the last dimension of lengths or offsets, after the "
            f"dims of data before it, but got axis {axis}, {list(given.shape)} and data "
            f"{list(data.shape)}"
        )
    n = data._node.shape[d]
    counts = diff(given) if lengths is None else given
    if not unsafe and lengths is not None:
        check.refuse(el.lt(lengths, 0), f"{name}(): lengths contains negative value!")
        message = f"{name}(): Expected all rows of lengths along axis to sum to {n} when !unsafe."
        check.refuse(el.ne(sum_(lengths, -1), n), message)
    whole = lengths is not None
    ends = cumsum(given, -1) if whole else mv.narrow(given, d, 1, given.shape[d] - 1)
    runs = ends._node.shape[d]
    places = mv.expand(el.iota((n,), data.device).to(ends.dtype), (*ends._node.shape[:d], n))
    of = searchsorted(ends, places.contiguous(), right=True)  # those that no run has: `runs`
    if lengths is None:
        of = el.where(el.lt(places, mv.narrow(given, d, 0, 1)), runs, of)
    rest = data._node.shape[d + 1 :]
    of = mv.expand(mv.reshape(of, (*of._node.shape, *(1,) * len(rest))), data._node.shape)
    shape = (*data._node.shape[:d], runs + 1, *rest)
    how = _SEGMENTS[reduce]
    start = data.new_full(shape, _neutral(how, data))
    out = mv.narrow(_reduced_into(name, start, d, of, data, how), d, 0, runs)
    if reduce == "mean":
        counts = mv.reshape(counts, (*counts._node.shape, *(1,) * len(rest)))
        if initial is None:
            return out / counts.to(data.dtype)
        return (out + initial) / el.maximum(counts, 1).to(data.dtype)
    if initial is None:
        return out
    if how in ("amax", "amin"):
        return el.where((el.lt if how == "amax" else el.gt)(out, initial), initial, out)
    return out + initial if how == "sum" else out * initial


def _one_hot_along(index: Tensor, d: int, size: int) -> Tensor:
    return el.eq(index, el.places(size, index.ndim - 1 - d, index.device))


def _flat_index(index: Tensor, d: int, shape: tuple[int, ...]) -> Tensor:
    """Flat positions in `shape` of the elements that `index` along `d` names."""
    out = index * math.prod(shape[d + 1 :])
    for i, m in enumerate(index._node.shape):
        if i != d and m > 1:
            place = el.places(m, index.ndim - 1 - i, index.device)
            out = out + place * math.prod(shape[i + 1 :])
    return out


# --- slices of a dim that a vector names


def _vector(name: str, x: Tensor, dim: int, index: Tensor, wrap: bool = False) -> Any:
    """(`x` with at least one dim, that dim, the index as a checked vector)."""
    if not isinstance(index, Tensor) or index.ndim > 1:
        raise IndexError(f"{name}(): Index is supposed to be a vector (or a 0-d tensor)")
    if index.dtype not in (dt.int64, dt.int32):
        raise RuntimeError(
            f"{name}(): Expected dtype int32/int64 for index, got {index.dtype.name}"
        )
    d = normalize_dim(dim, x.ndim)
    x = x if x.ndim else mv.reshape(x, (1,))
    return x, d, _check_index(name, mv.ravel(index), x._node.shape[d], wrap)


def _first(x: Tensor, d: int) -> Tensor:
    """The dim first, the others joined: (n, B)."""
    moved = mv.movedim(x, d, 0) if d else x
    shape = moved._node.shape
    return mv.reshape(moved, (shape[0], math.prod(shape[1:])))


def _back(rows: Tensor, like: Tensor, d: int) -> Tensor:
    """The inverse of `_first`, in the shape of `like` (but for the size of the dim)."""
    shape = like._node.shape
    out = mv.reshape(rows, (rows._node.shape[0], *shape[:d], *shape[d + 1 :]))
    return mv.movedim(out, 0, d) if d else out


def index_select(input: Tensor, dim: int, index: Tensor) -> Tensor:
    """The slices of a dim that the 1-d `index` names, in its order.

    IndexError for an index out of range; on the GPU when a value is next read.
    """
    x, d, index = _vector("index_select", input, dim, index)
    out = _back(apply(take_rows, (_first(x, d), index)), x, d)
    return out if input.ndim else out.reshape(())


def _slices(name: str, x: Tensor, d: int, index: Tensor, source: Tensor) -> Tensor:
    """`source` as rows, checked against the slices of `x` that the index names."""
    if not isinstance(source, Tensor):
        raise TypeError(f"{name}(): expected a Tensor as source, got {type(source).__name__}")
    if source.dtype is not x.dtype:
        raise RuntimeError(
            f"{name}(): self and source expected to have the same dtype, but got (self) "
            f"{x.dtype.name} and (source) {source.dtype.name}"
        )
    want = (*x._node.shape[:d], index.numel(), *x._node.shape[d + 1 :])
    if source._node.shape != want and not (source.numel() == 1 == math.prod(want)):
        raise IndexError(
            f"{name}(): expected source of shape {list(want)} for {index.numel()} indices along "
            f"dim {d} of {list(x.shape)}, got {list(source.shape)}"
        )
    return _first(mv.reshape(source, want), d)


def index_add(input: Tensor, dim: int, index: Tensor, source: Tensor, *, alpha: Any = 1) -> Tensor:
    """`input` with alpha * source's slices added at the places that `index` names.

    IndexError for an index out of range; on the GPU when a value is next read.
    """
    x, d, index = _vector("index_add", input, dim, index)
    rows = _slices("index_add", x, d, index, source)
    el.check_factor("index_add", "alpha", alpha, x)
    total = apply(add_rows, (index, rows), (x._node.shape[d],))
    out = x + _back(total if alpha == 1 else (total * alpha).to(x.dtype), x, d)
    return out.reshape(input._node.shape)


def index_copy(input: Tensor, dim: int, index: Tensor, source: Tensor) -> Tensor:
    """`input` with source's slices at the places that `index` names; the last of equals wins.

    IndexError for an index out of range; on the GPU when a value is next read.
    """
    x, d, index = _vector("index_copy", input, dim, index)
    rows = _slices("index_copy", x, d, index, source)
    out = apply(put_rows, (_first(x, d), index, rows))
    return _back(out, x, d).reshape(input._node.shape)


def index_fill(input: Tensor, dim: int, index: Tensor, value: Any) -> Tensor:
    """`input` with a number (or 0-d tensor) in the slices that `index` names.

    IndexError for an index out of range; on the GPU when a value is next read.
    """
    x, d, index = _vector("index_fill", input, dim, index, wrap=True)
    check.one_value("index_fill", value, input.dtype)
    ones = x.new_ones(index.numel(), 1, dtype=dt.int32)
    count = apply(add_rows, (index, ones), (x._node.shape[d],))
    mask = el.gt(count, 0).reshape((x._node.shape[d], *(1,) * (x.ndim - 1 - d)))
    return masked_fill(x, mask, value).reshape(input._node.shape)


def index_reduce(
    input: Tensor, dim: int, index: Tensor, source: Tensor, reduce: str, *,
    include_self: bool = True,
) -> Tensor:  # fmt: skip
    """`input` joined with source's slices at the places that `index` names, as `scatter_reduce`;
    reduce: 'prod', 'mean', 'amax' or 'amin'.

    IndexError for an index out of range; on the GPU when a value is next read.
    """
    if reduce not in ("prod", "mean", "amax", "amin"):
        raise RuntimeError(
            f"index_reduce(): Expected reduce to be one of prod, mean, amax or amin, got {reduce!r}"
        )
    x, d, index = _vector("index_reduce", input, dim, index)
    _slices("index_reduce", x, d, index, source)
    each = mv.reshape(index, (index.numel(), *(1,) * (x.ndim - 1 - d)))
    source = mv.reshape(source, (*x._node.shape[:d], index.numel(), *x._node.shape[d + 1 :]))
    out = _reduced_into("index_reduce", x, d, mv.expand(each, source._node.shape), source, reduce,
                        include_self)  # fmt: skip
    return out.reshape(input._node.shape)


# --- flat positions


def take(input: Tensor, index: Tensor) -> Tensor:
    """The elements at flat positions, in the shape of `index`.

    IndexError for an index out of range; on the GPU when a value is next read.
    """
    if not isinstance(index, Tensor) or index.dtype not in (dt.int64, dt.int32):
        raise RuntimeError("take(): Expected a long tensor for index")
    if not input.numel() and index.numel():
        raise IndexError("take(): tried to take from an empty tensor")
    flat = _check_index("take", index, input.numel()).reshape(index.numel())
    out = apply(take_rows, (input.reshape(input.numel(), 1), flat))
    return out.reshape(index._node.shape)


def put(input: Tensor, index: Tensor, source: Tensor, accumulate: bool = False) -> Tensor:
    """`input` with source's elements at flat positions (added if `accumulate`).

    IndexError for an index out of range; on the GPU when a value is next read.
    """
    if not isinstance(index, Tensor) or index.dtype not in (dt.int64, dt.int32):
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
    flat = _check_index("put_", index, input.numel()).reshape(index.numel())
    base, values = input.reshape(input.numel(), 1), source.reshape(index.numel(), 1)
    if accumulate:
        out = base + apply(add_rows, (flat, values), (input.numel(),))
    else:
        out = apply(put_rows, (base, flat, values))
    return out.reshape(input._node.shape)


def unravel_index(indices: Tensor, shape: Any) -> tuple[Tensor, ...]:
    """The index of each dim of `shape`, of flat positions."""
    sizes = mv.as_ints("unravel_index", (shape,))
    if not isinstance(indices, Tensor) or indices.dtype.category != dt.INTEGER:
        raise TypeError("unravel_index(): expected an integer tensor 'indices'")
    if any(n < 0 for n in sizes):
        raise RuntimeError(f"unravel_index(): 'shape' cannot have negative values, got {sizes}")
    if indices.numel() and not math.prod(sizes):
        raise RuntimeError(f"unravel_index(): no index lies in a tensor of shape {list(sizes)}")
    out, rest = [], indices
    for n in reversed(sizes):
        n = n or 1
        out.append(el.remainder(rest, n))
        rest = el.floor_divide(rest, n)
    return tuple(reversed(out))


@overload
def nonzero(input: Tensor, *, as_tuple: Literal[False] = False) -> Tensor: ...
@overload
def nonzero(input: Tensor, *, as_tuple: Literal[True]) -> tuple[Tensor, ...]: ...
def nonzero(input: Tensor, *, as_tuple: bool = False) -> Any:
    """The indices of nonzero elements: int64 (n, ndim), or one tensor a dim. Reads the values."""
    found = np.nonzero(np.atleast_1d(input._host()))
    parts = [upload(i.astype(np.int64, copy=False), input.device) for i in found]
    if as_tuple:
        return tuple(parts)
    if input.ndim == 0:
        return upload(np.zeros((len(found[0]), 0), np.int64), input.device)
    return mv.stack(parts, 1)


def argwhere(input: Tensor) -> Tensor:
    """`nonzero` under NumPy's name."""
    return nonzero(input)


def nonzero_static(input: Tensor, *, size: int, fill_value: int = -1) -> Tensor:
    """The first `size` rows of `nonzero`, filled up with `fill_value`."""
    from pyframe.ops.sort import search_op

    if size < 0:
        raise RuntimeError(f"nonzero_static: 'size' must be an non-negative integer, got {size}")
    if not input.numel() or not input.ndim:
        return input.new_full((size, input.ndim), fill_value, dtype=dt.int64)
    seen = _running_count(el.ne(mv.ravel(input), 0))
    which = el.iota((1, size), input.device) + 1
    flat = apply(search_op, (seen.reshape(1, -1), which)).reshape(-1)  # the first that has so many
    columns = []
    for step, n in zip(views.row_major(input._node.shape), input._node.shape, strict=True):
        columns.append(el.remainder(el.floor_divide(flat, step), n))
    return el.where(el.le(which.reshape(-1, 1), seen[-1]), mv.stack(columns, 1), fill_value)


def _running_count(mask: Tensor) -> Tensor:
    """int32: how many of a vector of bools are true, up to each."""
    from pyframe.ops.scan import cumsum

    return cumsum(mask, 0, dtype=dt.int32)


def _bool_mask(name: str, mask: Tensor) -> Tensor:
    if not isinstance(mask, Tensor) or mask.dtype is not dt.bool_:
        seen = mask.dtype.name if isinstance(mask, Tensor) else type(mask).__name__
        raise RuntimeError(f"{name} only supports boolean masks, but got {seen}")
    return mask


def masked_fill(input: Tensor, mask: Tensor, value: Any) -> Tensor:
    """`input` with `value` (a number or a 0-d tensor) where the bool `mask` holds."""
    _bool_mask("masked_fill", mask)
    check.one_value("masked_fill", value, input.dtype)
    if isinstance(value, Tensor):
        if value.dtype.category > input.dtype.category and not value.device.lazy:
            return masked_fill(input, mask, value.item())
        value = value.to(input.device, input.dtype)
    elif input.dtype.category < dt.of_scalar(value).category:
        value = dt.convert_scalar(value, input.dtype).item()
    return el.where(mask, value, input)


def masked_select(input: Tensor, mask: Tensor) -> Tensor:
    """The elements where `mask` holds, as a vector. Reads the mask."""
    _bool_mask("masked_select", mask)
    input, mask = mv.broadcast_tensors(input, mask)
    return getitem(input, mask)


def masked_scatter(input: Tensor, mask: Tensor, source: Tensor) -> Tensor:
    """`input` with source's elements, in order, where the bool `mask` holds."""
    _bool_mask("masked_scatter_", mask)
    if source.dtype is not input.dtype:
        raise RuntimeError(
            f"masked_scatter: expected self and source to have same dtypes but got "
            f"{input.dtype.name} and {source.dtype.name}"
        )
    input, mask = mv.broadcast_tensors(input, mask)
    if not input.numel():
        return input.clone()
    seen, few = _running_count(mask.reshape(-1)), source.numel()
    n = "as many" if mask.device.lazy else seen[-1].item()
    message = f"masked_scatter: expected at least {n} elements in source, as mask has, got {few}"
    check.refuse(el.gt(seen[-1], few), message)
    if not few:
        return input.clone()
    place = el.clamp(seen - 1, 0, few - 1)
    values = apply(take_rows, (source.reshape(few, 1), place)).reshape(input._node.shape)
    return el.where(mask, values, input)


def tril_mask(shape: tuple[int, ...], diagonal: int, device: Any) -> Tensor:
    """Which elements of (..., rows, columns) lie on or below a diagonal."""
    rows, columns = shape[-2:]
    return el.le(el.iota((columns,), device), el.iota((rows, 1), device) + diagonal)


def _matrices(name: str, x: Tensor) -> Tensor:
    if x.ndim < 2:
        raise RuntimeError(f"{name}: input tensor must have at least 2 dimensions, got {x.ndim}")
    return x


def _zero(x: Tensor) -> Any:
    return False if x.dtype is dt.bool_ else 0


def tril(input: Tensor, diagonal: int = 0) -> Tensor:
    """The lower triangle of matrices; zeros above `diagonal`."""
    shape = _matrices("tril", input)._node.shape
    return el.where(tril_mask(shape, diagonal, input.device), input, _zero(input))


def triu(input: Tensor, diagonal: int = 0) -> Tensor:
    """The upper triangle of matrices; zeros below `diagonal`."""
    shape = _matrices("triu", input)._node.shape
    return el.where(tril_mask(shape, diagonal - 1, input.device), _zero(input), input)


def fill_diagonal_(self: Tensor, fill_value: Any, wrap: bool = False) -> Tensor:
    """Write a number to the main diagonal of a matrix (or of equal dims) in place; `wrap` starts
    anew below the square of a tall matrix."""
    shape = self._node.shape
    if len(shape) < 2 or (len(shape) > 2 and len(set(shape)) > 1):
        raise RuntimeError(
            "fill_diagonal_: expected a matrix, or more dims all of equal length, got shape "
            f"{list(shape)}"
        )
    flat = el.iota(shape, self.device)
    hit = el.eq(el.remainder(flat, sum(views.row_major(shape))), 0)
    if not wrap and len(shape) == 2:
        hit = el.logical_and(hit, el.lt(flat, shape[1] * shape[1]))
    return self._overwrite(masked_fill(self, hit, fill_value))


def _triangle(name: str, find: Any) -> Any:
    def run(
        row: int, col: int, offset: int = 0, *, dtype: dt.dtype = dt.int64, device: Any = "cpu",
        layout: Any = None,
    ) -> Tensor:  # fmt: skip
        if row < 0 or col < 0:
            raise RuntimeError(f"{name}: row and col must be non-negative, got {row}, {col}")
        if not isinstance(dtype, dt.dtype) or dtype not in (dt.int64, dt.int32):
            raise RuntimeError(f"{name}: not implemented for {dtype}; expected int32 or int64")
        found = np.stack(find(row, offset, col)).astype(dtype.numpy)
        return upload(found, Device(device))

    run.__name__ = run.__qualname__ = name
    run.__doc__ = f"(2, n): the rows and columns of the elements that {name[:4]} keeps."
    return run


tril_indices = _triangle("tril_indices", np.tril_indices)
triu_indices = _triangle("triu_indices", np.triu_indices)


# --- x[...]


def _parse(x: Tensor, key: Any) -> tuple[Tensor, dict[int, Tensor]]:
    """Apply the basic part of an index as views; return it and the tensors left, by dim."""
    cuts: list[tuple[int, int, int]] = []  # start, size and step for each dim of x
    shape: list[int] = []  # of the view
    tensors: dict[int, Tensor] = {}
    for i in _masks_as_indices(x, _items(x, key)):
        if i is None or isinstance(i, np.ndarray):
            if i is not None:
                tensors[len(shape)] = upload(i, x.device)
            shape.append(1)
            continue
        d = len(cuts)
        n = x._node.shape[d]
        if isinstance(i, slice):
            a, b, k = _slice(i, n)
            cuts.append((a, max(-((a - b) // k), 0), k))
        elif isinstance(i, Tensor):
            tensors[len(shape)] = i
            cuts.append((0, n, 1))
        elif -n <= i < n:
            cuts.append((i % n, 1, 1))
            continue
        else:
            raise IndexError(
                f"index {i} is out of bounds for dimension {d} with size {n}; "
                f"expected {-n} to {n - 1}"
            )
        shape.append(cuts[-1][1])
    if any(c != (0, n, 1) for c, n in zip(cuts, x._node.shape, strict=True)):
        starts, sizes, steps = zip(*cuts, strict=True)
        x = mv.slice_(x, starts, sizes, steps)
    if tuple(shape) != x._node.shape:  # dims of size 1 come and go, which is a view always
        x = apply(mv.reshape_op, (x,), (tuple(shape),))
    return x, tensors


_PARTS = (Tensor, slice, list, tuple, EllipsisType, type(None))


def _items(x: Tensor, key: Any) -> list[Any]:
    """The parts of an index in their normal form, `...` written out as slices."""
    if isinstance(key, list) and len(key) < 32 and any(isinstance(i, _PARTS) for i in key):
        key = tuple(key)  # PyTorch reads x[[[0, 1], [1, 2]]] as x[[0, 1], [1, 2]]
    items = [_normalize(i, x) for i in (key if isinstance(key, tuple) else (key,))]
    used = 0
    for i in items:
        if isinstance(i, Tensor) and i.dtype is dt.bool_:
            used += i.ndim
        elif i is not None and i is not Ellipsis and not isinstance(i, bool):
            used += 1
    if used > x.ndim:
        raise IndexError(
            f"too many indices for tensor of dimension {x.ndim}: got {used} for shape "
            f"{list(x.shape)}"
        )
    if _count(items, Ellipsis) > 1:
        raise IndexError("an index can only have a single ellipsis ('...')")
    if not _count(items, Ellipsis):
        items.append(Ellipsis)
    at = next(i for i, v in enumerate(items) if v is Ellipsis)
    items[at : at + 1] = [slice(None)] * (x.ndim - used)
    return items


def _masks_as_indices(x: Tensor, items: list[Any]) -> list[Any]:
    """Each mask as the positions where it holds, one tensor a dim. A bool by itself covers no dim:
    it becomes an array that picks all or nothing of a new dim."""
    out: list[Any] = []
    d = 0
    for i in items:
        if isinstance(i, bool) or (isinstance(i, Tensor) and i.dtype is dt.bool_ and not i.ndim):
            out.append(np.zeros(int(bool(i)), np.int64))
        elif isinstance(i, Tensor) and i.dtype is dt.bool_:
            covered = x._node.shape[d : d + i.ndim]
            if i._node.shape != covered:
                raise IndexError(
                    f"The shape of the mask {list(i.shape)} does not match the shape "
                    f"{list(covered)} of the dims that it indexes, in a tensor of shape "
                    f"{list(x.shape)}"
                )
            out += [part.to(x.device) for part in nonzero(i, as_tuple=True)]
            d += i.ndim
        else:
            out.append(i)
            d += i is not None
    return out


def _count(items: list[Any], what: Any) -> int:
    return len([i for i in items if i is what])


def _slice(s: slice, n: int) -> tuple[int, int, int]:
    if s.step is not None and s.step.__index__() <= 0:
        raise ValueError("step must be greater than zero; use flip to reverse")
    return s.indices(n)


def _normalize(i: Any, x: Tensor) -> Any:
    if i is None or isinstance(i, (bool, EllipsisType)):
        return i
    if isinstance(i, np.bool_):
        return bool(i)
    if isinstance(i, slice):
        return slice(*[v.item() if isinstance(v, Tensor) else v for v in (i.start, i.stop, i.step)])
    if isinstance(i, Tensor):
        if i.dtype is dt.uint8:
            i = i.to(dt.bool_)
        if i.dtype not in (dt.int64, dt.int32, dt.bool_):
            raise IndexError(
                "tensors used as indices must be long, int, byte or bool tensors, got "
                f"{i.dtype.name}"
            )
        if i.ndim == 0 and i.dtype is not dt.bool_ and not i.device.lazy:
            return int(i.item())
        return i if i.device is x.device else i.to(x.device)
    if isinstance(i, (list, range, np.ndarray)):
        index = tensor(list(i) if isinstance(i, range) else i, device=x.device)
        return index if index.numel() else index.to(dt.int64)
    try:
        return i.__index__()
    except AttributeError:
        raise IndexError(
            f"only integers, slices (`:`), ellipsis (`...`), None and long or bool tensors are "
            f"valid indices (got {type(i).__name__})"
        ) from None


def _rows(x: Tensor, tensors: dict[int, Tensor]) -> tuple[Any, ...]:
    """(x with the indexed dims first, flat row index, its shape, where the result's dims go)."""
    dims = list(tensors)
    sizes = [x._node.shape[d] for d in dims]
    checked = [_check_index("index", i, n) for i, n in zip(tensors.values(), sizes, strict=True)]
    try:
        shape = el.broadcast("shape mismatch: indexing tensors", *[i._node.shape for i in checked])
    except RuntimeError as e:
        raise IndexError(str(e)) from None
    flat = None
    for i, n in zip(checked, sizes, strict=True):
        flat = i if flat is None else flat * n + i
    assert flat is not None
    flat = mv.expand(flat, shape)
    rest = [d for d in range(x.ndim) if d not in dims]
    adjacent = dims == list(range(dims[0], dims[-1] + 1))
    place = dims[0] if adjacent else 0
    moved = mv.permute(x, (*dims, *rest)) if dims + rest != list(range(x.ndim)) else x
    return moved, flat.reshape(-1), shape, place, dims + rest, math.prod(sizes)


def getitem(x: Tensor, key: Any) -> Tensor:
    """x[key]: ints, slices, None and ... give views; tensors, lists and masks give copies.

    IndexError for an index out of range; on the GPU when a value is next read.
    """
    shape = x._node.shape
    if type(key) is int and shape and -shape[0] <= key < shape[0]:
        return mv.select(x, 0, key)
    if isinstance(key, Tensor) and key.dtype is dt.bool_ and key.ndim:
        covered, rest = shape[: key.ndim], shape[key.ndim :]
        if key._node.shape == covered:  # the places of a mask are in range
            n = math.prod(covered)
            found = nonzero(mv.reshape(key, (n,)), as_tuple=True)[0].to(x.device)
            rows = apply(take_rows, (mv.reshape(x, (n, math.prod(rest))), found))
            return mv.reshape(rows, (found._node.shape[0], *rest))
    whole = x
    x, tensors = _parse(x, key)
    if not tensors:
        return mv.apply(mv.reshape_op, (x,), (x._node.shape,)) if x is whole else x
    moved, flat, shape, place, _, rows = _rows(x, tensors)
    rest = moved._node.shape[len(tensors) :]
    flat_rows = moved.reshape(rows, math.prod(rest))
    out = apply(take_rows, (flat_rows, flat)).reshape((*shape, *rest))
    if place:
        out = mv.movedim(out, list(range(len(shape))), list(range(place, place + len(shape))))
    return out


def setitem(x: Tensor, key: Any, value: Any) -> None:
    """x[key] = value, in place, seen by all that share the memory.

    IndexError for an index out of range; on the GPU when a value is next read.
    """
    if (
        isinstance(key, Tensor)
        and key.dtype is dt.bool_
        and key._node.shape == x._node.shape[: key.ndim]
        and (not isinstance(value, Tensor) or value.numel() == 1)
    ):  # x[mask] = number needs no positions
        mask = key.to(x.device).reshape((*key.shape, *(1,) * (x.ndim - key.ndim)))
        if isinstance(value, Tensor):
            value = value.to(x.device, x.dtype).reshape(())
        x._overwrite(el.where(mask, value, x).to(x.dtype))
        return
    part, tensors = _parse(x, key)
    if isinstance(value, (bool, int, float, complex)):
        value = dt.convert_scalar(value, x.dtype)  # RuntimeError where it does not fit
    if not isinstance(value, Tensor):
        value = tensor(value, dtype=x.dtype, device=x.device)
    value = value.to(x.device)
    if not tensors:
        if value.ndim > part.ndim:  # leading dims of size 1 don't count
            shape = value._node.shape
            ones = next((d for d, n in enumerate(shape) if n != 1), len(shape))
            value = mv.reshape(value, shape[min(ones, len(shape) - part.ndim) :])
        check.no_overlap("setitem", part, value)
        part._overwrite(value.to(x.dtype))
        return
    if value.dtype is not x.dtype:
        raise RuntimeError(
            "Index put requires the source and destination dtypes match, got "
            f"{x.dtype.name} for the destination and {value.dtype.name} for the source; convert "
            f"the source with .to({x.dtype})"
        )
    check.no_overlap("setitem", part, value)
    part._overwrite(_with_rows(part, tensors, value, accumulate=False))


def _with_rows(part: Tensor, tensors: dict[int, Tensor], value: Tensor, accumulate: bool) -> Tensor:
    moved, flat, shape, place, order, rows = _rows(part, tensors)
    rest = moved._node.shape[len(tensors) :]
    whole = (*rest[:place], *shape, *rest[place:])
    while value.ndim > len(whole) and value._node.shape[0] == 1:
        value = mv.squeeze(value, 0)
    try:
        value = mv.expand(value, whole)
    except RuntimeError:
        raise RuntimeError(
            f"shape mismatch: value tensor of shape {list(value.shape)} cannot be broadcast to "
            f"indexing result of shape {list(whole)}"
        ) from None
    if place:
        value = mv.movedim(value, list(range(place, place + len(shape))), list(range(len(shape))))
    source = value.reshape(math.prod(shape), math.prod(rest))
    base = moved.reshape(rows, math.prod(rest))
    if accumulate:
        out = base + apply(add_rows, (flat, source), (rows,))
    else:
        out = apply(put_rows, (base, flat, source))
    out = out.reshape(moved._node.shape)
    return (
        mv.permute(out, mv.inverse_order(tuple(order))) if order != list(range(len(order))) else out
    )


def index_put(input: Tensor, indices: Any, values: Tensor, accumulate: bool = False) -> Tensor:
    """A copy of `input` with `values` at `indices` (added to what is there if `accumulate`).

    IndexError for an index out of range; on the GPU when a value is next read.
    """
    if values.dtype is not input.dtype:
        raise RuntimeError(
            "Index put requires the source and destination dtypes match, got "
            f"{input.dtype.name} for the destination and {values.dtype.name} for the source."
        )
    key = tuple(slice(None) if i is None else i for i in indices)
    if not key:
        raise RuntimeError("index_put: at least one index is required")
    part, tensors = _parse(input, key)
    return _with_rows(part, tensors, values.to(input.device), accumulate)


# --- views with something else in their place


def _with_view(name: str, input: Tensor, src: Tensor, steps: Any, shape: Any) -> Tensor:
    if src._node.shape != tuple(shape):
        raise RuntimeError(
            f"{name}: expected src to have a size equal to the slice of self, {list(shape)}, got "
            f"{list(src.shape)}"
        )
    return apply(mv.put_op, (input, src.to(input.dtype)), (tuple(steps),))


def _steps_to(view: Tensor, input: Tensor) -> Any:
    return view._view_chain[len(input._view_chain) :]


def diagonal_scatter(
    input: Tensor, src: Tensor, offset: int = 0, dim1: int = 0, dim2: int = 1
) -> Tensor:
    """A copy of `input` with `src` as that diagonal."""
    part = mv.diagonal(input.detach(), offset, dim1, dim2)
    return _with_view("diagonal_scatter", input, src, _steps_to(part, input), part._node.shape)


def select_scatter(input: Tensor, src: Tensor, dim: int, index: int) -> Tensor:
    """A copy of `input` with `src` at `index` of a dim."""
    part = mv.select(input.detach(), dim, index)
    return _with_view("select_scatter", input, src, _steps_to(part, input), part._node.shape)


def slice_scatter(
    input: Tensor, src: Tensor, dim: int = 0, start: int | None = None, end: int | None = None,
    step: int = 1,
) -> Tensor:  # fmt: skip
    """A copy of `input` with `src` at start:end:step of a dim."""
    d = normalize_dim(dim, input.ndim)
    if not input.ndim:
        raise IndexError("slice_scatter(): a 0-dim tensor has no dim to slice")
    part = getitem(input.detach(), (*(slice(None),) * d, slice(start, end, step)))
    return _with_view("slice_scatter", input, src, _steps_to(part, input), part._node.shape)


PUBLIC = public(
    globals(),
    both="""index_select gather scatter scatter_add scatter_reduce index_add index_copy index_fill
    index_reduce take take_along_dim put nonzero argwhere nonzero_static masked_fill masked_select
    masked_scatter tril triu index_put diagonal_scatter select_scatter slice_scatter""",
    methods="fill_diagonal_",
    functions="tril_indices triu_indices unravel_index segment_reduce",
    inplace="""masked_fill masked_scatter tril triu scatter scatter_add scatter_reduce index_add
    index_copy index_fill index_reduce index_put put""",
    out_exact="""gather index_add index_copy index_select masked_select scatter scatter_add
    slice_scatter take take_along_dim tril triu""",
    out_apart="gather index_select masked_select take take_along_dim",
    inplace_functions="index_put",
)
autocast(
    globals(),
    cpu_widest="index_copy",
    gpu_widest="index_put scatter_add",
)
