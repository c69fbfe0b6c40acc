"""Gather and scatter along a dim: the index names a position for each element."""

from __future__ import annotations

import functools
import math
from typing import Any

import numpy as np

from pyframe.core import dtypes as dt, view as views
from pyframe.core.dispatch import apply, is_materialized
from pyframe.core.modes import mode
from pyframe.core.op import EXTERN, Op
from pyframe.ops.api.batching_rules import along_dim
from pyframe.ops.api.public import public
from pyframe.ops.index.rows import checked_index, np_checked, take_rows
from pyframe.ops.math import elementwise as el, promotion
from pyframe.ops.reduce.reductions import amax, amin, limit_of, prod, sum as sum_
from pyframe.ops.shape import movement as mv
from pyframe.tensor import Tensor, normalize_dim, tensor
from pyframe.tensor.memory_format import contiguous_format

UFUNCS: dict[str, Any] = {
    "sum": np.add, "prod": np.multiply, "amax": np.maximum, "amin": np.minimum,
}  # fmt: skip


def np_positions(index: np.ndarray, shape: tuple[int, ...], dim: int) -> np.ndarray:
    """Flat positions in `shape` of the elements that `index` names along a dim."""
    step = math.prod(shape[dim + 1 :])
    flat = np_checked(index, shape[dim])
    flat = flat * step if step > 1 else flat
    starts = _starts if index.size <= 1 << 16 else _starts.__wrapped__
    return flat + starts(index.shape, shape, dim)


@functools.lru_cache(256)
def _starts(counts: tuple[int, ...], shape: tuple[int, ...], dim: int) -> Any:
    """Flat positions in `shape` of the rows along `dim` that `counts` index."""
    steps, grid = views.row_major_strides(shape), np.ogrid[tuple(slice(n) for n in counts)]
    return sum(i * k for d, (i, k) in enumerate(zip(grid, steps, strict=True)) if d != dim)


def _put_along_numpy(
    base: np.ndarray, index: np.ndarray, source: np.ndarray, dim: int
) -> np.ndarray:
    out = np.array(base, order="C")
    out.reshape(-1)[np_positions(index, base.shape, dim)] = source
    return out


def _reduce_along_numpy(
    base: np.ndarray, index: np.ndarray, source: np.ndarray, dim: int, how: str
) -> np.ndarray:
    out = np.array(base, order="C")
    flat = np_positions(index, base.shape, dim)
    UFUNCS[how].at(out.reshape(-1), flat.reshape(-1), source.reshape(-1))
    return out


def _joined_along(base: Tensor, index: Tensor, source: Tensor, dim: int, how: str) -> Tensor:
    """`reduce_along`, or for sums `add_along`, whose gradient needs no values."""
    if how == "sum":
        return apply(add_along, (base, index, source), (dim,))
    return apply(reduce_along, (base, index, source), (dim, how))


def _take_by_rows(x: Tensor, index: Tensor, dim: int) -> Tensor:
    shape, ishape = x.shape, index.shape
    if ishape[dim] == 1 and x.dtype is not dt.bool_:  # a sum that fuses with what comes before
        part = mv.slice_(x, (0,) * len(shape), (*ishape[:dim], shape[dim], *ishape[dim + 1 :]))
        hot = el.eq(index, el.dim_indices(shape[dim], index.ndim - 1 - dim, index.device))
        return sum_(el.where(hot, part, 0), dim, True).to(x.dtype)
    flat = _flat_index(index, dim, shape).reshape(-1)
    return apply(take_rows, (x.reshape(-1, 1), flat)).reshape(ishape)


def _compared(index: Tensor, dim: int, rows: int) -> Tensor:
    """(.., rows, n, ..): whether index j along the dim names row i."""
    return el.eq(mv.unsqueeze(index, dim), el.dim_indices(rows, index.ndim - dim, index.device))


def _fitted(x: Tensor, like: Tensor, value: Any) -> Tensor:
    """`x` with `value` behind each dim, in the shape of `like`."""
    sizes = zip(like.shape, x.shape, strict=True)
    return mv.pad(x, tuple((0, n - m) for n, m in sizes), value)


def _put_by_winners(base: Tensor, index: Tensor, source: Tensor, dim: int) -> Tensor:
    """The last index that names a place, found by comparing, says what is put there."""
    n = index.shape[dim]
    order = el.dim_indices(n, index.ndim - 1 - dim, index.device)
    hit = _compared(index, dim, base.shape[dim])
    winner = amax(el.where(hit, order, -1), dim + 1)
    chosen = _take_by_rows(source, el.maximum(winner, 0), dim)
    if source.dtype is dt.bool_:
        return el.where(_fitted(el.ge(winner, 0), base, False), _fitted(chosen, base, False), base)
    return el.where(_fitted(el.ge(winner, 0), base, False), _fitted(chosen, base, 0), base)


def neutral_of(how: str, x: Tensor) -> Any:
    """What changes nothing when it is joined with elements of `x`."""
    if how in ("sum", "prod"):
        return int(how == "prod")
    return limit_of(x, -1 if how == "amax" else 1)


def _reduce_by_comparing(base: Tensor, index: Tensor, source: Tensor, dim: int, how: str) -> Tensor:
    neutral = neutral_of(how, base)
    hit = _compared(index, dim, base.shape[dim])
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
        return _joined_along(a, index, b, dim, how)

    d = base.dtype
    if how == "prod":
        none, none_here = el.eq(base, 0), el.eq(source, 0)
        zeros = joined(none.to(d), none_here.to(d))
        rest = joined(el.where(none, 1, base), el.where(none_here, 1, source), "prod")
        alone, whole = (el.where(el.eq(zeros, n), rest, 0) * g for n in (1, 0))
        return (
            lambda: el.where(none, alone, whole / el.where(none, 1, base)),
            lambda: el.where(none_here, at(alone), at(whole) / el.where(none_here, 1, source)),
        )
    hit, hit_here = el.eq(base, y).to(d), el.eq(source, at(y)).to(d)
    share = g / joined(hit, hit_here)
    return lambda: share * hit, lambda: at(share) * hit_here


take_along = Op(  # x, index -> the shape of index
    "take_along", EXTERN, "x index", "dim", fallback=_take_by_rows, batch=along_dim,
    infer=lambda x, index, dim: (index.shape, x.dtype), routine="index.take_along",
    numpy=lambda x, index, dim: np.take(x, np_positions(index, x.shape, dim)),
    x=lambda g, x_spec, index, dim: apply(
        add_along, (g.new_zeros(x_spec.shape), index, g), (dim,)
    ),
)  # fmt: skip
put_along = Op(  # a copy of base with source at its indices, the last of equals
    "put_along", EXTERN, "base index source", "dim", fallback=_put_by_winners, batch=along_dim,
    infer=lambda base, *_: (base.shape, base.dtype), numpy=_put_along_numpy,
    routine="index.put_along",
    base=lambda g, index, dim: apply(
        put_along, (g, index, g.new_zeros(index.shape)), (dim,)
    ),
    source=lambda g, index, dim: apply(take_along, (g, index), (dim,)),
)  # fmt: skip
add_along = Op(  # base with source added at its indices
    "add_along", EXTERN, "base index source", "dim", batch=along_dim, routine="index.add_along",
    infer=lambda base, *_: (base.shape, base.dtype),
    numpy=functools.partial(_reduce_along_numpy, how="sum"),
    fallback=functools.partial(_reduce_by_comparing, how="sum"),
    base=lambda g: g, source=lambda g, index, dim: apply(take_along, (g, index), (dim,)),
)  # fmt: skip
reduce_along = Op(  # base reduced with the sources that the index assigns to its elements
    "reduce_along", EXTERN, "base index source", "dim how", batch=along_dim,
    infer=lambda base, *_: (base.shape, base.dtype), routine="index.reduce_along",
    numpy=_reduce_along_numpy, fallback=_reduce_by_comparing,
    base=lambda g, y, base, index, source, dim, how: _reduced_grads(
        g, y, base, index, source, dim, how)[0](),
    source=lambda g, y, base, index, source, dim, how: _reduced_grads(
        g, y, base, index, source, dim, how)[1](),
)  # fmt: skip


def _index_along(name: str, input: Tensor, dim: int, index: Tensor) -> tuple[Tensor, Tensor, int]:
    """Input and index with at least one dim, the dim; torch's checks of their shapes."""
    if index.dtype not in (dt.int64, dt.int32) and index.numel():
        raise RuntimeError(
            f"{name}(): Expected dtype int32/int64 for index, got {index.dtype.name}"
        )
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
    for k, (n, m) in enumerate(zip(x.shape, i.shape, strict=True)):
        if k != d and m > n:
            raise RuntimeError(
                f"{name}(): Size does not match at dimension {k} expected index "
                f"{list(index.shape)} to be no larger than self {list(input.shape)} apart from "
                f"dimension {d}"
            )
    return x, checked_index(name, i, x.shape[d], False, RuntimeError), d


def gather(input: Tensor, dim: int, index: Tensor, *, sparse_grad: bool = False) -> Tensor:
    """out[i][j] = input[index[i][j]][j] for dim 0, and so on; torch.gather."""
    x, i, d = _index_along("gather", input, dim, index)
    if not i.numel():
        return mv.nothing_of(x, index.shape)
    out = gathered(x, d, i)
    return out if index.ndim else out.reshape(())


def gathered(input: Tensor, d: int, index: Tensor) -> Tensor:
    """`gather` of indices that are known to be right."""
    if not input.ndim or not index.numel():
        return gather(input, d, index)
    # where it is recorded it becomes, with its gradient, a part of other kernels
    if index.shape[d] == 1 and not is_materialized(input):
        return _take_by_rows(input, index, d)
    return apply(take_along, (input, index), (d,))


def take_along_dim(input: Tensor, indices: Tensor, dim: int | None = None) -> Tensor:
    """`gather` whose index is broadcast against the other dims; without a dim, of all elements."""
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
    shape, ishape = list(input.shape), list(indices.shape)
    if not shape:
        return gather(input, 0, indices)
    whole = list(promotion.broadcast("take_along_dim", (*shape[:d], 1, *shape[d + 1 :]),
                              (*ishape[:d], 1, *ishape[d + 1 :])))  # fmt: skip
    x = mv.expand(input, (*whole[:d], shape[d], *whole[d + 1 :]))
    indices = checked_index("take_along_dim", indices, shape[d])
    if mode.grad and input.requires_grad:  # a copy: the user's may be written to
        indices = indices.clone()
    return gather(x, d, mv.expand(indices, (*whole[:d], ishape[d], *whole[d + 1 :])))


def _source(name: str, x: Tensor, i: Tensor, src: Any) -> Tensor:
    """The part of `src` (a number: expanded) that the index uses."""
    if not isinstance(src, Tensor):
        src = tensor(el.fitted(src, x.dtype), dtype=x.dtype, device=x.device)
        return mv.expand(src, i.shape)
    if src.dtype is not x.dtype:
        raise RuntimeError(
            f"{name}(): Expected self.dtype to be equal to src.dtype, got {x.dtype.name} and "
            f"{src.dtype.name}"
        )
    src = src if src.ndim else mv.reshape(src, (1,))
    if src.ndim != i.ndim or any(m > n for n, m in zip(src.shape, i.shape, strict=False)):
        raise RuntimeError(
            f"{name}(): Expected index {list(i.shape)} to be no larger than src {list(src.shape)}"
        )
    return mv.slice_(src, (0,) * src.ndim, i.shape)


def _untouched(input: Tensor, src: Any) -> Tensor:
    """`input` after an empty index: the gradient of `src` is 0, not missing."""
    if mode.grad and isinstance(src, Tensor) and src.requires_grad:
        input = input - src.reshape(-1)[:0].sum()  # -0 - 0 is -0
    return input.clone(memory_format=contiguous_format)


def scatter(
    input: Tensor, dim: int, index: Tensor, src: Any = None, *, value: Any = None,
    reduce: str | None = None,
) -> Tensor:  # fmt: skip
    """`input` with src[i][j] (or a number) put at [index[i][j]][j] (dim 0), and so on; of equal
    places the last wins. `reduce`: 'add' or 'multiply'."""
    given = value if src is None else src
    if given is None:
        raise TypeError("scatter(): expected src or value")
    if reduce is not None:
        hows = {"add": "sum", "multiply": "prod"}
        if reduce not in hows:
            raise RuntimeError(f"reduce argument must be either add or multiply, got {reduce!r}")
        return reduced_into("scatter", input, dim, index, given, hows[reduce])
    x, i, d = _index_along("scatter", input, dim, index)
    if not i.numel():
        return _untouched(input, given)
    out = apply(put_along, (x, i, _source("scatter", x, i, given)), (d,))
    return out if input.ndim else out.reshape(())


def reduced_into(
    name: str, input: Tensor, dim: int, index: Tensor, src: Any, how: str, include: bool = True
) -> Tensor:
    x, i, d = _index_along(name, input, dim, index)
    if not i.numel():
        return _untouched(input, src)
    source = _source(name, x, i, src)
    if x.dtype is dt.bool_:
        how = {"sum": "amax", "prod": "amin"}.get(how, how)
        x, source = x.to(dt.int32), source.to(dt.int32)
    mean, how = how == "mean", "sum" if how == "mean" else how
    ones = None
    if mean or not include:
        ones = i.new_ones(i.shape, dtype=dt.int32)
        own = x.new_full(x.shape, int(include), dtype=dt.int32)
        count = apply(add_along, (own, i, ones), (d,))
    if not include:
        x = el.where(el.gt(count, 0), neutral_of(how, x), x)
    out = _joined_along(x, i, source, d, how)
    if mean:
        count = el.maximum(count, 1)
        out = out / count if out.dtype.category >= dt.FLOAT else el.floor_divide(out, count)
    return out.to(input.dtype).reshape(input.shape)


def scatter_add(input: Tensor, dim: int, index: Tensor, src: Tensor) -> Tensor:
    """`input` with src[i][j] added at [index[i][j]][j] (dim 0), and so on; deterministic."""
    return reduced_into("scatter_add", input, dim, index, src, "sum")


def scatter_reduce(
    input: Tensor, dim: int, index: Tensor, src: Tensor, reduce: str, *, include_self: bool = True
) -> Tensor:
    """`scatter` that joins what meets at a place, with what `input` has there unless
    `include_self=False`; reduce: 'sum', 'prod', 'mean', 'amax' or 'amin'."""
    if reduce not in (*UFUNCS, "mean"):
        raise RuntimeError(
            f"reduce argument must be either sum, prod, mean, amax or amin, got {reduce!r}"
        )
    return reduced_into("scatter_reduce", input, dim, index, src, reduce, include_self)


def _flat_index(index: Tensor, d: int, shape: tuple[int, ...]) -> Tensor:
    """Flat positions in `shape` of the elements that `index` along `d` names."""
    out = index * math.prod(shape[d + 1 :])
    for i, m in enumerate(index.shape):
        if i != d and m > 1:
            position = el.dim_indices(m, index.ndim - 1 - i, index.device)
            out = out + position * math.prod(shape[i + 1 :])
    return out


public(
    globals(), both="gather take_along_dim", inplace="scatter scatter_add scatter_reduce",
    out_exact="gather scatter scatter_add take_along_dim", out_apart="gather take_along_dim",
    rows="scatter scatter_add scatter_reduce",
    gpu_widest="scatter_add", out_of_range="""gather=RuntimeError scatter=RuntimeError
    scatter_add=RuntimeError scatter_reduce=RuntimeError take_along_dim""",
)  # fmt: skip
