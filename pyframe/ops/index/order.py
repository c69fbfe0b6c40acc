"""The order of rows: keys of their elements, their stable sort, and search in what is sorted.

A stable sort is of int32 (on the CPU also int64) keys that have the order of the elements, so that
each kernel knows one dtype, NaN is the largest element and `~key` turns the order around.
"""

from __future__ import annotations

import math

import numpy as np

from pyframe.core import dtypes as dt
from pyframe.core.dispatch import apply
from pyframe.core.op import EXTERN, Constants, Grid, KernelSpec, Op, ShaderTemplate, grid_1d
from pyframe.core.sizes import statically_equal, tuning_hint
from pyframe.graph import functions as f
from pyframe.ops.api.batching_rules import fold_batch_dim
from pyframe.ops.math import elementwise as el, promotion
from pyframe.ops.shape import movement as mv
from pyframe.tensor import Tensor

RUN = 2048  # what one workgroup sorts: keys and indices fill the 16 KiB that WebGPU promises
ONE_WORKGROUP_LENGTH = 256  # of which each thread of a workgroup sorts one
FEW_SMALLEST = 16  # as many smallest elements are found one by one


def key_numpy(x: np.ndarray) -> np.ndarray:
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


sort_key_op = promotion.op(
    "sort_key", "x", key_numpy, f.sort_key,
    infer=lambda x: (
        x.shape, dt.int64 if x.dtype in (dt.int64, dt.float64, dt.uint64) else dt.int32),
)  # fmt: skip


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
    """int64 of keys and, in the low half, their indices; None where the keys need more."""
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
        return argsort_numpy(key, k)[:, k - 1 :]
    packed.partition(k - 1, axis=1)
    return packed[:, k - 1 : k] & 0xFFFFFFFF


def argsort_numpy(key: np.ndarray, first: int) -> np.ndarray:
    """NumPy finds the smallest fast, and sorts numbers much faster than their indices: each key
    takes its place along."""
    if 0 < first <= FEW_SMALLEST and (found := _smallest(key, first)) is not None:
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
    """Runs of up to RUN elements, each sorted by a workgroup, then merged in pairs; where only the
    first few are asked for runs are short, and no more of them are merged."""
    rows, n = key.shape
    if rows * n == 0:
        return key[:, :first].to(dt.int64)
    size, runs = RUN, 1
    if not statically_equal(first, n):
        size = min(RUN, max(1 << (4 * first - 1).bit_length(), ONE_WORKGROUP_LENGTH))
    while runs * size < n:
        runs *= 2
    size = size if runs > 1 else n
    whole = mv.pad(key, ((0, 0), (0, runs * size - n)), np.iinfo(np.int32).max)
    order = apply(sort_runs, (whole.reshape(rows * runs, size),))
    if runs > 1:
        order = order.reshape(rows, runs, size) + el.iota((runs, 1), key.device) * size
    while runs > 1:
        runs //= 2
        order = order.reshape(rows * 2 * runs, -1)[:, :first]
        order = apply(merge_runs, (whole, order.reshape(rows * runs, -1)))
    return order.reshape(rows, -1)[:, :first]


def order_of(key: Tensor, first: int | None = None, descending: bool = False) -> Tensor:
    """int64 (rows, first): the indices of the first (all by default) of each row in order."""
    key = el.bitwise_not(key) if descending else key
    return apply(argsort_op, (key,), (key.shape[1] if first is None else first,))


def _runs_plan(call: KernelSpec) -> tuple[Constants, Grid]:
    rows, n = call.shape
    most = max(tuning_hint(n, RUN), 2)  # a power of two for all lengths that come here
    return {"ROWS": rows, "N": n, "P": 1 << (most - 1).bit_length()}, grid_1d(rows)


def _merge_plan(call: KernelSpec) -> tuple[Constants, Grid]:
    size, ((rows, _), (runs, n)) = math.prod(call.shape), call.operands
    return {"SIZE": size, "RUNS": runs // rows, "L": n // 2}, grid_1d(-(-size // 256))


def _search_plan(call: KernelSpec) -> tuple[Constants, Grid]:
    size, ((_, n), _) = math.prod(call.shape), call.operands
    return {"SIZE": size, "M": call.shape[1], "N": n, "NEIGHBOURS": ()}, grid_1d(-(-size // 256))


def _merge_numpy(key: np.ndarray, order: np.ndarray) -> np.ndarray:
    rows = np.repeat(key, order.shape[0] // key.shape[0], 0)
    by_key = np.argsort(np.take_along_axis(rows, order, 1), axis=1, kind="stable")
    return np.take_along_axis(order, by_key, 1)


argsort_op = Op(  # keys (rows, n) -> int64 (rows, first): indices in ascending order, stable
    "argsort", EXTERN, "key", "first", numpy=argsort_numpy, fallback=_argsort_by_runs,
    batch=fold_batch_dim, routine="sort.argsort",
    infer=lambda key, first: ((key.shape[0], first), dt.int64),
)  # fmt: skip
kth_op = Op(  # keys (rows, n) -> int64 (rows, 1): the k-th of these indices, k from 1
    "kth_index", EXTERN, "key", "k", numpy=_kth_numpy, batch=fold_batch_dim,
    routine="sort.kth_index",
    fallback=lambda key, k: order_of(key, k)[:, k - 1 :],
    infer=lambda key, k: ((key.shape[0], 1), dt.int64),
)  # fmt: skip


def _by_rank(key: Tensor) -> Tensor:
    """int64 (rows, n): the places in order, from how many come before each."""
    at = el.iota((key.shape[1],), key.device)
    one, other = mv.unsqueeze(key, 2), mv.unsqueeze(key, 1)
    earlier = (other == one) & (at < mv.unsqueeze(at, 1))
    rank = ((other < one) | earlier).sum(2)
    return el.where(mv.unsqueeze(rank, 1) == mv.unsqueeze(at, 1), at, 0).sum(2)


def _merge_by_rank(key: Tensor, order: Tensor) -> Tensor:
    rows = key.repeat_interleave(order.shape[0] // key.shape[0], 0)
    by_key = _by_rank(rows.gather(1, order.to(dt.int64)))
    return order.gather(1, by_key)


sort_runs = Op(  # the same as argsort, all of rows of at most RUN
    "sort_runs", EXTERN, "key", infer=lambda key: (key.shape, dt.int64),
    numpy=lambda key: argsort_numpy(key, key.shape[1]),
    fallback=_by_rank, kernel=ShaderTemplate("sort.wgsl", _runs_plan), batch=fold_batch_dim,
    routine="sort.sort_runs",
)  # fmt: skip
merge_runs = Op(  # keys (rows, n), indices (runs, 2 l) in sorted halves: those of sorted runs
    "merge_runs", EXTERN, "key order", infer=lambda key, order: (order.shape, order.dtype),
    numpy=_merge_numpy, fallback=_merge_by_rank, kernel=ShaderTemplate("merge.wgsl", _merge_plan),
    routine="sort.merge_runs",
)  # fmt: skip


def _search_numpy(sequence: np.ndarray, value: np.ndarray) -> np.ndarray:
    pairs = zip(sequence, value, strict=True)
    found = [np.searchsorted(s, v) for s, v in pairs]
    return np.stack(found) if found else np.zeros(value.shape, np.int64)


search_op = Op(  # keys (rows, n) in order, keys (rows, m) -> int64 (rows, m): how many are smaller
    "searchsorted", EXTERN, "sequence value", numpy=_search_numpy,
    infer=lambda sequence, value: (value.shape, dt.int64),
    fallback=lambda sequence, value: (mv.unsqueeze(sequence, 1) < mv.unsqueeze(value, 2)).sum(2),
    kernel=ShaderTemplate("search.wgsl", _search_plan), batch=fold_batch_dim,
    routine="sort.searchsorted",
)  # fmt: skip
