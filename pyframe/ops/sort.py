"""Sorting and what follows from order: ranks, quantiles, unique values, histograms.

A stable sort is of int32 (on the CPU also int64) keys that have the order of the elements, so that
each kernel knows one dtype, NaN is the largest element and `~key` turns the order around.
"""

from __future__ import annotations

import math
from typing import Any, Literal, overload

import numpy as np

from pyframe.core import dtypes as dt
from pyframe.core.dispatch import apply
from pyframe.core.op import ROUTINE, Constants, Grid, KernelCall, KernelFile, Op, in_a_line
from pyframe.ops import check, elementwise as el, movement as mv
from pyframe.ops.autocast import autocast
from pyframe.ops.index import (
    add_rows,
    gather,
    gathered,
    np_places,
    reduce_along,
    take_along,
    take_rows,
)
from pyframe.ops.public import public
from pyframe.ops.reduce import (
    amax,
    amin,
    argmax,
    no_empty,
    one_dim,
    pick,
    sum as sum_,
)  # fmt: skip
from pyframe.ops.results import (
    HistogramddResult,
    HistogramResult,
    KthvalueResult,
    MedianResult,
    ModeResult,
    NanmedianResult,
    SortResult,
    TopkResult,
)
from pyframe.ops.scan import cummax_op, scan_along
from pyframe.tensor import Tensor, tensor, upload

RUN = 2048  # what one workgroup sorts: keys and places fill the 16 KiB that WebGPU promises
FEW = 16  # as many smallest elements are found one by one

# --- primitives, each on rows


def _key_numpy(x: np.ndarray) -> np.ndarray:
    if x.dtype.kind == "f":
        wide = np.float64 if x.dtype == np.float64 else np.float32
        bits = np.asarray(np.add(x, 0, dtype=wide)).view(
            np.int64 if wide is np.float64 else np.int32
        )
        top = np.iinfo(bits.dtype).max
        below = bits >> bits.itemsize * 8 - 1
        below &= top
        bits ^= below  # -0 + 0 is 0 already
        nan = np.isnan(x)
        if nan.any():
            bits[nan] = top
        return bits
    if x.dtype == np.uint64 or x.dtype == np.uint32:
        kind = np.dtype(f"int{x.dtype.itemsize * 8}")
        return x.view(kind) ^ np.iinfo(kind).min
    return x.astype(np.int64 if x.dtype == np.int64 else np.int32, copy=False)


def _key_infer(x: Any) -> tuple[tuple[int, ...], dt.dtype]:
    return x.shape, dt.int64 if x.dtype in (dt.int64, dt.float64, dt.uint64) else dt.int32


sort_key_op = el.op("sort_key", "x", _key_numpy, "pf_sort_key_{t}({x})")
sort_key_op.infer = _key_infer


def sort_key(x: Tensor) -> Tensor:
    """Ints in the order of the elements; equal elements have equal keys, NaN the largest int."""
    return apply(sort_key_op, (x.detach().to(dt.int32) if x.dtype is dt.bool_ else x.detach(),))


def _smallest(key: np.ndarray, first: int) -> np.ndarray | None:
    """Places of the smallest, one by one; None where the largest int is among them."""
    rest, top = key.copy(), np.iinfo(key.dtype).max
    rows = np.arange(key.shape[0])
    out = np.empty((key.shape[0], first), np.int64)
    for i in range(first):
        at = rest.argmin(1)
        if (rest[rows, at] == top).any():
            return None
        out[:, i] = at
        rest[rows, at] = top
    return out


def _packed(key: np.ndarray) -> np.ndarray | None:
    """int64 of keys and, in the low half, their places; None where the keys need more."""
    low, high = (0, 0) if key.dtype == np.int32 or not key.size else (key.min(), key.max())
    if int(high) - int(low) >= 1 << 31:
        return None
    packed = key.astype(np.int64)
    packed -= low
    packed <<= 32
    packed |= np.arange(key.shape[1])
    return packed


def _kth_numpy(key: np.ndarray, k: int) -> np.ndarray:
    packed = _packed(key)
    if packed is None:
        return _argsort_numpy(key, k)[:, k - 1 :]
    packed.partition(k - 1, axis=1)
    return packed[:, k - 1 : k] & 0xFFFFFFFF


def _argsort_numpy(key: np.ndarray, first: int) -> np.ndarray:
    """NumPy finds the smallest fast, and sorts numbers much faster than their places: each key
    takes its place along."""
    if 0 < first <= FEW and (found := _smallest(key, first)) is not None:
        return found
    packed = _packed(key)
    if packed is None:
        return np.argsort(key, axis=1, kind="stable")[:, :first]
    if 0 < first < key.shape[1]:
        packed.partition(first - 1, axis=1)
    packed = np.ascontiguousarray(packed[:, :first])
    packed.sort(axis=1)
    packed &= 0xFFFFFFFF
    return packed


def _argsort_by_runs(key: Tensor, first: int) -> Tensor:
    """Runs of up to RUN elements, each sorted by a workgroup, then merged in pairs."""
    rows, n = key._node.shape
    if rows * n == 0:
        return key[:, :first].to(dt.int64)
    runs = 1
    while runs * RUN < n:
        runs *= 2
    size = RUN if runs > 1 else n
    whole = mv.pad(key, ((0, 0), (0, runs * size - n)), np.iinfo(np.int32).max)
    order = apply(sort_runs, (whole.reshape(rows * runs, size),))
    if runs > 1:
        order = order.reshape(rows, runs, size) + el.iota((runs, 1), key.device) * size
    while runs > 1:
        runs //= 2
        order = apply(merge_runs, (whole, order.reshape(rows * runs, -1)))
    return order.reshape(rows, -1)[:, :first]


def order_of(key: Tensor, first: int | None = None, descending: bool = False) -> Tensor:
    """int64 (rows, first): the places of the first (all by default) of each row in order."""
    key = el.bitwise_not(key) if descending else key
    return apply(argsort_op, (key,), (key._node.shape[1] if first is None else first,))


def _runs_plan(call: KernelCall) -> tuple[Constants, Grid]:
    rows, n = call.shape
    consts: Constants = {"ROWS": rows, "N": n, "P": 1 << (n - 1).bit_length() if n > 1 else 2}
    return consts, in_a_line(rows)


def _merge_plan(call: KernelCall) -> tuple[Constants, Grid]:
    size, ((_, row), _) = math.prod(call.shape), call.operands
    return {"SIZE": size, "ROW": row, "L": call.shape[1] // 2}, in_a_line(-(-size // 256))


def _search_plan(call: KernelCall) -> tuple[Constants, Grid]:
    size, ((_, n), _) = math.prod(call.shape), call.operands
    return {"SIZE": size, "M": call.shape[1], "N": n}, in_a_line(-(-size // 256))


def _merge_numpy(key: np.ndarray, order: np.ndarray) -> np.ndarray:
    rows = np.repeat(key, order.shape[0] // key.shape[0], 0)
    by_key = np.argsort(np.take_along_axis(rows, order, 1), axis=1, kind="stable")
    return np.take_along_axis(order, by_key, 1)


argsort_op = Op(  # keys (rows, n) -> int64 (rows, first): places in ascending order, stable
    "argsort", ROUTINE, "key", "first", numpy=_argsort_numpy, fallback=_argsort_by_runs,
    infer=lambda key, first: ((key.shape[0], first), dt.int64),
)  # fmt: skip
kth_op = Op(  # keys (rows, n) -> int64 (rows, 1): the k-th of these places, k from 1
    "kth_place", ROUTINE, "key", "k", numpy=_kth_numpy,
    fallback=lambda key, k: order_of(key, k)[:, k - 1 :],
    infer=lambda key, k: ((key.shape[0], 1), dt.int64),
)  # fmt: skip
sort_runs = Op(  # the same as argsort, all of rows of at most RUN
    "sort_runs", ROUTINE, "key", infer=lambda key: (key.shape, dt.int64),
    numpy=lambda key: _argsort_numpy(key, key.shape[1]),
    kernel=KernelFile("sort.wgsl", _runs_plan),
)  # fmt: skip
merge_runs = Op(  # keys (rows, n), places (runs, 2 l) in sorted halves: those of sorted runs
    "merge_runs", ROUTINE, "key order", infer=lambda key, order: (order.shape, order.dtype),
    numpy=_merge_numpy, kernel=KernelFile("merge.wgsl", _merge_plan),
)  # fmt: skip


def _reorder_by_rows(x: Tensor, order: Tensor) -> Tensor:
    return apply(take_along, (x, order), (1,))


reorder = Op(  # x (rows, n), order (rows, m) of different places
    "reorder", ROUTINE, "x order", infer=lambda x, order: (order.shape, x.dtype),
    numpy=lambda x, order: np.take(x, np_places(order, x.shape, 1)), fallback=_reorder_by_rows,
    x=lambda g, order, x_spec: _put_back(g, order, x_spec.shape[1]),
)  # fmt: skip


def _put_back(g: Tensor, order: Tensor, n: int) -> Tensor:
    """(rows, n) with each element of `g` at its place, 0 elsewhere."""
    rows, m = order._node.shape
    if m == n:  # a permutation: the gradient is a gather too
        return apply(reorder, (g, order_of(order.to(dt.int32))))
    return apply(reduce_along, (g.new_zeros(rows, n), order, g), (1, "sum"))


def _search_numpy(sequence: np.ndarray, value: np.ndarray) -> np.ndarray:
    pairs = zip(sequence, value, strict=True)
    found = [np.searchsorted(s, v) for s, v in pairs]
    return np.stack(found) if found else np.zeros(value.shape, np.int64)


search_op = Op(  # keys (rows, n) in order, keys (rows, m) -> int64 (rows, m): how many are smaller
    "searchsorted", ROUTINE, "sequence value", numpy=_search_numpy,
    infer=lambda sequence, value: (value.shape, dt.int64),
    kernel=KernelFile("search.wgsl", _search_plan),
)  # fmt: skip


# --- sorting


def _as_rows(x: Tensor, d: int) -> Tensor:
    """(rows, n) with dim d last."""
    if x.ndim == 0:
        return x.reshape(1, 1)
    x = mv.movedim(x, d, -1) if d != x.ndim - 1 else x
    n = x._node.shape[-1]
    return x.reshape(math.prod(x._node.shape[:-1]), n)


def _from_rows(rows: Tensor, x: Tensor, d: int) -> Tensor:
    """What `_as_rows` undoes; dim d may have another size now."""
    if x.ndim == 0:
        return rows.reshape(())
    shape = [n for i, n in enumerate(x._node.shape) if i != d]
    out = rows.reshape(*shape, rows._node.shape[1])
    return mv.movedim(out, -1, d) if d != x.ndim - 1 else out


def _sorted_rows(
    x: Tensor, d: int, descending: bool = False, first: int | None = None
) -> tuple[Tensor, Tensor]:
    """Rows of the (first) elements in order, and of their places."""
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
    n = input._node.shape[d] if input.ndim else 1
    if not 0 <= k <= n:
        raise RuntimeError(f"topk: selected index k out of range: k={k} of {n} elements")
    values, order = _sorted_rows(input, d, largest, k)
    return TopkResult(_from_rows(values, input, d), _from_rows(order, input, d))


def _picked(kind: Any, input: Tensor, d: int, index: Tensor, keepdim: bool) -> Any:
    """kind(values, indices) for one place (rows, 1) in each row."""
    return pick(kind, input, d, _from_rows(index, input, d), keepdim)


def kthvalue(input: Tensor, k: int, dim: int = -1, keepdim: bool = False) -> KthvalueResult:
    """(values, indices) of the k-th smallest element along a dim, k from 1."""
    check.numbers("kthvalue", input)
    d = one_dim("kthvalue", input, dim)
    n = input._node.shape[d] if input.ndim else 1
    no_empty("kthvalue", input, (d,) if input.ndim else ())
    if not 1 <= k <= n:
        raise RuntimeError(f"kthvalue(): selected number k out of range for dimension {d}: {k}")
    place = apply(kth_op, (sort_key(_as_rows(input, d)),), (k,))
    return _picked(KthvalueResult, input, d, place, keepdim)


def _median(kind: Any, input: Tensor, dim: int | None, keepdim: bool) -> Any:
    name = kind.__name__
    check.numbers(name, input)
    if dim is None:
        if not input.numel():
            return input.new_full((), math.nan)
        flat = input.detach().reshape(-1)
        value = _median(kind, flat, 0, False).values
        hit = el.eq(input, value)
        if input.dtype.category == dt.FLOAT:
            hit = el.logical_or(hit, el.isnan(value))
        if not input.requires_grad:
            return value
        # the largest of what is equal: its gradient is shared among them
        return amax(el.where(hit, input, -math.inf))
    d = one_dim(name, input, dim)
    no_empty(name, input, (d,) if input.ndim else ())
    rows = _as_rows(input, d)
    n = rows._node.shape[1]
    middle, key = (n + 1) // 2, sort_key(rows)
    if input.dtype.category < dt.FLOAT:
        return _picked(kind, input, d, apply(kth_op, (key,), (middle,)), keepdim)
    nans = sum_(el.isnan(rows), 1, True)
    if kind is NanmedianResult:
        place = _reorder_by_rows(order_of(key, middle), el.maximum(n - nans - 1, 0) // 2)
    else:  # argmax finds the first NaN
        place = apply(kth_op, (key,), (middle,))
        place = el.where(el.gt(nans, 0), argmax(rows, 1, True), place)
    return _picked(kind, input, d, place, keepdim)


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
    place = el.iota((ordered._node.shape[1],), input.device)
    starts = el.where(el.ne(ordered[:, 1:], ordered[:, :-1]), place[1:], 0)
    starts = scan_along(cummax_op, mv.pad(starts, ((0, 0), (1, 0))), 1)
    last = argmax(place - starts, 1, True)  # where the first of the longest runs ends
    return _picked(ModeResult, input, d, _reorder_by_rows(order, last), keepdim)


# --- quantiles

_INTERPOLATIONS = ("linear", "lower", "higher", "midpoint", "nearest")


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
        check.refuse(el.logical_not(inside), message)
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
    n = values._node.shape[1]
    nans = sum_(el.isnan(values), 1, True)
    if skip_nan:
        last: Any = el.maximum(n - nans - 1, 0).to(q.dtype)
        rank = q.reshape(1, -1) * last
    else:  # the last element of a row with NaN is NaN
        rank = el.where(el.gt(nans, 0), n - 1.0, q.reshape(1, -1) * (n - 1.0))
    if interpolation == "nearest":
        rank = el.round_(rank)
    elif interpolation == "lower":
        rank = el.floor(rank)
    elif interpolation == "higher":
        rank = el.ceil(rank)
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
        rest = tuple(1 if i == d else m for i, m in enumerate(x._node.shape) if keepdim or i != d)
    return out.T.reshape(*q._node.shape, *rest)


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


# --- searching


def searchsorted(
    sorted_sequence: Tensor, input: Any, *, out_int32: bool = False, right: bool = False,
    side: str | None = None, sorter: Tensor | None = None,
) -> Tensor:  # fmt: skip
    """Where `input` belongs in the sorted last dim: how many elements are < (right: <=) it.

    A 1-d sequence serves values of any shape, (*, n) values (*, m).
    """
    name = "searchsorted"
    if side not in (None, "left", "right"):
        raise RuntimeError(f"{name}(): side can only be 'left' or 'right' but got {side}")
    if side == "left" and right:
        raise RuntimeError(f"{name}(): side and right can't be set to opposites, got side of left")
    right = right or side == "right"
    sequence = sorted_sequence
    if not isinstance(input, Tensor):
        check.one_value(name, input)
        if sequence.ndim != 1:
            raise RuntimeError(
                f"{name}(): input value can be a scalar only when boundaries tensor dimension is "
                f"1, got {sequence.ndim}"
            )
        input = tensor(input, device=sequence.device)
        common = el.result_type(sequence, input)
        sequence, input = sequence.to(common), input.to(common)
    if sequence.ndim == 0:
        raise RuntimeError(f"{name}(): boundaries tensor should have positive dimension")
    if sequence.dtype is not input.dtype:
        raise RuntimeError(
            f"{name}(): boundary tensor should have same dtype as the input value tensor, got "
            f"{sequence.dtype.name} and {input.dtype.name}"
        )
    check.real(name, sequence)
    if sequence.ndim > 1 and sequence._node.shape[:-1] != input._node.shape[:-1]:
        raise RuntimeError(
            f"{name}(): boundaries tensor should be 1 dimension or the first N-1 dimensions of "
            f"boundaries tensor and input value tensor must match, got {list(sequence.shape)} and "
            f"{list(input.shape)}"
        )
    if sorter is not None:
        if sorter._node.shape != sequence._node.shape:
            raise RuntimeError(
                f"{name}(): boundary and sorter must have the same size, got "
                f"{list(sequence.shape)} and {list(sorter.shape)}"
            )
        if sorter.dtype is not dt.int64:
            raise RuntimeError(f"{name}(): sorter must be int64, got {sorter.dtype.name}")
        sequence = gather(sequence, -1, sorter)
    n = sequence._node.shape[-1]
    if not n or not input.numel():
        return input.new_zeros(input._node.shape, dtype=dt.int32 if out_int32 else dt.int64)
    keys = sort_key(sequence).reshape(-1, n)
    values = sort_key(input).reshape(len(keys), -1)
    if right:  # all but those that are larger, which are smaller in the opposite order
        out = n - apply(search_op, (el.bitwise_not(mv.flip(keys, 1)), el.bitwise_not(values)))
    else:
        out = apply(search_op, (keys, values))
    out = out.reshape(input._node.shape)
    return out.to(dt.int32) if out_int32 else out


def bucketize(
    input: Any, boundaries: Tensor, *, out_int32: bool = False, right: bool = False
) -> Tensor:
    """Which bucket between the sorted 1-d `boundaries` each element falls into."""
    if boundaries.ndim != 1:
        raise RuntimeError(
            f"bucketize: boundaries tensor must be 1 dimension, got {boundaries.ndim}"
        )
    return searchsorted(boundaries, input, out_int32=out_int32, right=right)


def isin(
    elements: Any, test_elements: Any, *, assume_unique: bool = False, invert: bool = False
) -> Tensor:
    """Whether each element is one of `test_elements`."""
    if not isinstance(elements, Tensor) and not isinstance(test_elements, Tensor):
        raise TypeError("isin(): expected elements or test_elements to be a Tensor")
    device = (elements if isinstance(elements, Tensor) else test_elements).device
    common = el.result_type(elements, test_elements)
    x, test = (
        (v if isinstance(v, Tensor) else tensor(v, device=device)).detach().to(common)
        for v in (elements, test_elements)
    )
    check.real("isin", x)
    if not test.numel():
        found = x.new_zeros(x._node.shape, dtype=dt.bool_)
    else:
        ordered = sort(test.reshape(-1)).values
        place = el.minimum(searchsorted(ordered, x), test.numel() - 1)
        found = el.eq(_taken(ordered, place), x)
    return el.logical_not(found) if invert else found


def _taken(x: Tensor, index: Tensor) -> Tensor:
    """x[index] of a vector, for places that are known to be right."""
    return apply(take_rows, (x.reshape(-1, 1), index.reshape(-1))).reshape(index._node.shape)


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
        out.append(upload(where.reshape(input._node.shape if dim is None else -1), input.device))
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
    place = np.empty(len(count), np.int64)
    place[there] = np.arange(len(there))
    return there.astype(x.dtype) + low, place[above] if inverse else place, count[there]


def _runs(rows: np.ndarray, in_order: bool, inverse: bool) -> tuple[np.ndarray, ...]:
    """The different rows of those next to each other (`in_order`: once sorted), which of them each
    row is, and how often each occurs."""
    n = len(rows)
    order = np.arange(n)
    if rows.shape[1] == 1 and in_order and not inverse:
        ordered = np.sort(rows, axis=0)
    else:
        if in_order and rows.shape[1] == 1 and rows.dtype.kind != "c":
            order = _argsort_numpy(_key_numpy(rows.T), n)[0]
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


# --- counting


def bincount(input: Tensor, weights: Tensor | None = None, minlength: int = 0) -> Tensor:
    """How often (or with which weight) each of 0..max occurs in a vector of ints. Reads them."""
    if input.ndim != 1 or input.dtype.category == dt.FLOAT or input.dtype.category == dt.COMPLEX:
        raise RuntimeError(
            f"bincount only supports 1-d non-negative integral inputs, got {list(input.shape)} of "
            f"{input.dtype.name}"
        )
    if minlength < 0:
        raise RuntimeError(f"minlength should be >= 0, got {minlength}")
    data = input._host()
    if data.size and data.min() < 0:
        raise RuntimeError(f"bincount only supports non-negative values, got {data.min()}")
    if weights is not None and weights._node.shape != input._node.shape:
        raise RuntimeError(
            f"weights should be 1-d and have the same length as input: {list(input.shape)}, got "
            f"{list(weights.shape)}"
        )
    size = max(int(data.max()) + 1 if data.size else 0, minlength)
    if weights is None:
        source = input.new_ones(input._node.shape, dtype=dt.int64)
    else:
        wide = dt.float32 if input.device.always_lazy else dt.float64
        source = weights.detach() if weights.dtype is dt.float32 else weights.detach().to(wide)
    if not data.size:
        return source.new_zeros(size, dtype=dt.int64)
    return apply(add_rows, (input, source.reshape(-1, 1)), (size,)).reshape(size)


def _bounds(name: str, x: Tensor, low: Any, high: Any, widen: float) -> tuple[Tensor, Tensor]:
    """The range of a histogram: that of the values where none is given, never empty."""
    if low is not None:
        for v in (low, high):
            if not math.isfinite(v):
                raise RuntimeError(f"{name}: range of [{low}, {high}] is not finite")
        if low > high:
            raise RuntimeError(f"{name}: max must be larger than min, got {low} and {high}")
    if low is None or low == high:
        if not x.numel():
            low, high = (0.0, 1.0) if low is None else (low - widen, high + widen)
        elif not x.device.lazy:
            low, high = amin(x).item(), amax(x).item()
            if not (math.isfinite(low) and math.isfinite(high)):
                raise RuntimeError(f"{name}: range of [{low}, {high}] is not finite")
        else:
            low, high = amin(x), amax(x)
            check.later(
                el.logical_not(el.logical_and(el.isfinite(low), el.isfinite(high))),
                f"{name}: the range of the values is not finite",
                RuntimeError,
            )
            same = el.eq(low, high)
            return el.where(same, low - widen, low), el.where(same, high + widen, high)
    if low == high:
        low, high = low - widen, high + widen
    return x.new_full((), low), x.new_full((), high)


def histc(input: Tensor, bins: int = 100, min: float = 0, max: float = 0) -> Tensor:
    """How many elements fall into each of `bins` equal parts of [min, max].

    Equal min and max stand for those of the values. Elements outside count nowhere.
    """
    check.floats("histc", input)
    if bins <= 0:
        raise RuntimeError(f"histc: bins must be > 0, got {bins}")
    x = input.detach().reshape(-1)
    x = x.to(dt.float32) if x.itemsize == 2 else x
    low, high = _bounds("histc", x, min, max, 1.0)
    inside = el.logical_and(el.ge(x, low), el.le(x, high))
    place = el.minimum(el.floor((x - low) / (high - low) * bins), bins - 1)
    index = el.where(inside, place, bins).to(dt.int64)
    return _counts(index, el.where(inside, 1.0, 0.0).to(x.dtype), bins).to(input.dtype)


def _counts(index: Tensor, weight: Tensor, bins: int) -> Tensor:
    """Sums of weights by index; `bins` itself is where those go that count nowhere."""
    if not index.numel():
        return weight.new_zeros(bins)
    return apply(add_rows, (index, weight.reshape(-1, 1)), (bins + 1,)).reshape(-1)[:bins]


def _linspace(low: Tensor, high: Tensor, n: int) -> Tensor:
    """n + 1 places, computed from the nearer end, as PyTorch's linspace."""
    place = el.iota((n + 1,), low.device)
    step = (high - low) / n
    return el.where(el.lt(place, (n + 1) // 2), low + step * place, high - step * (n - place))


def _histogram(
    name: str, x: Tensor, edges: list[Tensor], weight: Tensor | None, density: bool
) -> Tensor:
    """The histogram of points (n, D)."""
    sizes = [len(e) - 1 for e in edges]
    total = math.prod(sizes)
    index: Any = 0
    inside: Any = None
    for i, e in enumerate(edges):
        column = x[:, i].contiguous()
        there = el.logical_and(el.ge(column, e[0]), el.le(column, e[-1]))
        inside = there if inside is None else el.logical_and(inside, there)
        place = el.minimum(searchsorted(e.to(x.dtype), column, right=True) - 1, sizes[i] - 1)
        index = index * sizes[i] + place
    index = el.where(inside, index, total)
    ones = x.new_ones(len(x)) if weight is None else weight.detach().reshape(-1)
    if weight is not None and weight.dtype is not x.dtype:
        raise RuntimeError(
            f"{name}: weight should have the dtype of input, {x.dtype.name}, got "
            f"{weight.dtype.name}"
        )
    if len(ones) != len(x):
        raise RuntimeError(
            f"{name}: expected a weight for each of {len(x)} points, got {len(ones)}"
        )
    hist = _counts(index, el.where(inside, ones, 0.0), total).reshape(sizes)
    if density:
        hist = hist / sum_(hist)
        for i, e in enumerate(edges):
            hist = hist / (e[1:] - e[:-1]).reshape((-1,) + (1,) * (len(edges) - 1 - i))
    return hist


def _edges(name: str, x: Tensor, bins: Any, bounds: Any) -> Tensor:
    """The edges of one dim: given ones, or those of equal parts."""
    if isinstance(bins, Tensor):
        if bins.ndim != 1 or not bins.numel():
            raise RuntimeError(
                f"{name}: bins tensor should have one dim with elements, got {list(bins.shape)}"
            )
        if bins.dtype is not x.dtype:
            raise RuntimeError(
                f"{name}: input and bins must have one dtype, got {x.dtype.name} and "
                f"{bins.dtype.name}"
            )
        return bins.detach()
    if bins <= 0:
        raise RuntimeError(f"{name}: bins must be > 0, got {bins}")
    low, high = (None, None) if bounds is None else bounds
    return _linspace(*_bounds(name, x, low, high, 0.5), bins)


def histogram(
    input: Tensor, bins: Any, *, range: Any = None, weight: Tensor | None = None,
    density: bool = False,
) -> HistogramResult:  # fmt: skip
    """(hist, bin_edges): counts between edges, which are given or cut `range` into `bins` parts."""
    check.floats("histogram", input)
    if range is not None and len(range) != 2:
        raise RuntimeError(f"histogram: range should have 2 elements, got {len(range)}")
    if weight is not None and weight._node.shape != input._node.shape:
        raise RuntimeError(
            f"histogram: weight should have the shape of input, {list(input.shape)}, got "
            f"{list(weight.shape)}"
        )
    x = input.detach().reshape(-1)
    edges = _edges("histogram", x, bins, range)
    hist = _histogram("histogram", x.reshape(-1, 1), [edges], weight, density)
    return HistogramResult(hist, edges)


def histogramdd(
    input: Tensor, bins: Any, *, range: Any = None, weight: Tensor | None = None,
    density: bool = False,
) -> HistogramddResult:  # fmt: skip
    """(hist, bin_edges) of points (*, D); bins for each of D dims, range 2 D numbers."""
    if input.ndim < 2:
        raise RuntimeError(
            f"histogramdd: input tensor should have at least 2 dims, got {input.ndim}"
        )
    x = input.detach().reshape(-1, input._node.shape[-1])
    dims = x._node.shape[1]
    each = [bins] * dims if isinstance(bins, int) else list(bins)
    if len(each) != dims:
        raise RuntimeError(f"histogramdd: expected {dims} sequences of bin edges, got {len(each)}")
    if range is not None and len(range) != 2 * dims:
        raise RuntimeError(f"histogramdd: range should have {2 * dims} elements, got {len(range)}")
    edges = [
        _edges("histogramdd", x[:, i], b, None if range is None else range[2 * i : 2 * i + 2])
        for i, b in enumerate(each)
    ]
    hist = _histogram("histogramdd", x, edges, weight, density)
    return HistogramddResult(hist, tuple(edges))


PUBLIC = public(
    globals(),
    both="""sort argsort msort topk kthvalue median nanmedian mode quantile nanquantile unique
    unique_consecutive bincount histc histogram""",
    functions="searchsorted bucketize isin histogramdd",
    out_exact="bucketize histc isin kthvalue mode msort searchsorted sort topk",
    out_apart="kthvalue",
)
autocast(
    globals(),
    cpu_float32="quantile nanquantile",
)
