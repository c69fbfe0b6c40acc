"""Sums as bound NumPy calls, in blocks: what errors of long sums stay small by."""

from __future__ import annotations

import math
import sys
from typing import Any, TypeAlias

import numpy as np

from pyframe.codegen.numpy.elementwise import Call

Array: TypeAlias = np.ndarray
Shape = tuple[int, ...]

TERMS = 256  # numbers side by side that one product adds up, at most
BLOCK = 64  # rows that each product adds up where they are more than twice as many
FEW_SUMS = 16  # sums that are added up without float64
WIDE_ROW = 2048  # numbers of a row to which the next rows are added: they stay in cache
ALONE = 1 << 18  # numbers in all that one product takes: BLAS shares out larger ones, and waits
PRODUCTS = sys.platform != "emscripten"  # there NumPy has no BLAS, and its sums are faster
ONES = {np.dtype(t): np.ones(TERMS, t) for t in (np.float32, np.float64)}


def sum_calls(x: Array, axes: Shape, out: Array, scratch: Any) -> list[Call]:
    """The sum over axes, which `out` has as 1.

    Of floats in blocks, whose sums are added up in float64: NumPy adds one after the other along
    all axes but the last in memory, and errors grow with their number. With BLAS, products with
    ones take half of the time of NumPy's sums.
    """
    if x.dtype.kind not in "fc" or not x.size:
        return [(np.add.reduce, (x, axes, out.dtype, out, True))]
    if x.dtype.kind == "c":  # as pairs: inf times 1 + 0j would be NaN
        x, out = (a[..., None].view(a.real.dtype) for a in (x, out))
    if x.flags.c_contiguous and out.flags.c_contiguous and x.dtype == out.dtype:
        n, k = x.size // out.size, len(axes)
        if axes[-1] == k - 1:
            return sum_rows(x.reshape(n, -1), out.reshape(-1), scratch)
        if axes[0] == x.ndim - k:
            return sum_each(x.reshape(-1, n), out.reshape(-1), scratch)
    # what does not vary along an axis is only counted; the others come as they lie in memory
    still = [d for d, (n, s) in enumerate(zip(x.shape, x.strides, strict=True)) if n == 1 or not s]
    moving = sorted({*range(x.ndim)} - {*still}, key=lambda d: -abs(x.strides[d]))
    sizes: list[int] = []  # of neighbours together, where both or none are to be added up
    added: list[bool] = []
    step = 0
    for d in moving:
        if added and added[-1] == (d in axes) and step == x.strides[d] * x.shape[d]:
            sizes[-1] *= x.shape[d]
        else:
            sizes.append(x.shape[d])
            added.append(d in axes)
        step = x.strides[d]
    part = x.transpose(*still, *moving)[(0,) * len(still) + (...,)].reshape(sizes)
    times = math.prod(x.shape[d] for d in still if d in axes)
    in_place = (  # the last sum can be written where it belongs
        out.flags.c_contiguous and moving == sorted(moving) and all(x.shape[d] == 1 for d in still)
    )
    placed = False
    calls: list[Call] = []
    while True in added:
        todo = [i for i, a in enumerate(added) if a]
        at = todo[-1]
        short = at == len(sizes) - 1 and sizes[at] < 32 and len(todo) > 1
        if short and part[(0,) * (todo[-2] + 1)].flags.c_contiguous:
            at = todo[-2]  # of rows the whole first, then what is left of them
        rest = sizes[at + 1 :]
        left = (*sizes[:at], *rest)
        placed = in_place and len(todo) == 1 and part.itemsize <= out.itemsize
        into = out.reshape(left) if placed else scratch(left, np.result_type(part, out))
        if not rest:
            calls += sum_each(part, into, scratch)
        elif part[(0,) * (at + 1)].flags.c_contiguous:
            rows, sums = (a.reshape(*a.shape[: a.ndim - len(rest)], -1) for a in (part, into))
            calls += sum_rows(rows, sums, scratch)
        else:
            calls += sum_rows(np.moveaxis(part, at, -2), into, scratch)
        del sizes[at], added[at]
        part = _wider(into, calls, scratch) if True in added else into
    if not placed:
        order = [*still, *moving]
        part = part.reshape([1 if d in still or d in axes else x.shape[d] for d in order])
        part = part.transpose([order.index(d) for d in range(x.ndim)])
        calls.append((np.multiply, (part, np.array(times, out.dtype), out)))
    return calls


def sum_rows(x: Array, out: Array, scratch: Any) -> list[Call]:
    """(…, n, m) -> (…, m): the sum of the rows."""
    *lead, n, m = x.shape
    calls: list[Call] = []
    product = PRODUCTS and x.dtype == out.dtype and x.strides[-1] == x.itemsize
    product = product and x.strides[-2] >= m * x.itemsize
    if n <= BLOCK and not product:
        return [(np.add.reduce, (x, -2, out.dtype, out))]
    if n <= 2 * BLOCK and product:
        ones = ONES[x.dtype][:n]
        some = ALONE // n
        whole = m // some * some if m > some else 0
        if whole:
            parts = x[..., :whole].reshape(*lead, n, -1, some).swapaxes(-3, -2)
            calls.append((np.matmul, (ones, parts, out[..., :whole].reshape(*lead, -1, some))))
        if whole < m:
            calls.append((np.matmul, (ones, x[..., whole:], out[..., whole:])))
        return calls
    wide = 1
    if x.strides[-2] == m * x.strides[-1]:  # short rows count as one long row
        wide = max(min(WIDE_ROW // m, n // BLOCK), 1)
    count = n // (wide * BLOCK)
    rows, used = count * wide, count * wide * BLOCK
    sums = scratch((*lead, rows + (used < n), m), out.dtype)
    calls = sum_rows(
        x[..., :used, :].reshape(*lead, count, BLOCK, wide * m),
        sums[..., :rows, :].reshape(*lead, count, wide * m),
        scratch,
    )
    if used < n:
        calls += sum_rows(x[..., used:, :], sums[..., rows, :], scratch)
    return calls + _last(sum_rows, sums, sums.shape[-2], out, scratch)


def sum_each(x: Array, out: Array, scratch: Any) -> list[Call]:
    """(…, n) -> (…): the sum of each row."""
    product = x.dtype == out.dtype and x.strides[-1] == x.itemsize
    if not product or x.shape[-1] > (BLOCK * TERMS if PRODUCTS else FEW_SUMS):
        return [(np.add.reduce, (x, -1, out.dtype, out))]  # adds up by halves
    if x.flags.c_contiguous and out.flags.c_contiguous:
        x, out = x.reshape(-1, x.shape[-1]), out.reshape(-1)
    *lead, k, n = x.shape
    calls: list[Call] = []
    if n <= TERMS:
        ones = ONES[x.dtype][:n]
        some = ALONE // (4 * n)
        whole = k // some * some if k > some else 0
        if whole:
            parts = x[..., :whole, :].reshape(*lead, -1, some, n)
            calls.append((np.matmul, (parts, ones, out[..., :whole].reshape(*lead, -1, some))))
        if whole < k:
            calls.append((np.matmul, (x[..., whole:, :], ones, out[..., whole:])))
        return calls
    count = -(-n // TERMS)
    count = next((c for c in range(count, 2 * count) if n % c == 0), count)
    terms = n // count
    used = count * terms
    sums = scratch((*lead, k, count + (used < n)), x.dtype)
    calls = sum_each(x[..., :used].reshape(*lead, k, count, terms), sums[..., :count], scratch)
    if used < n:
        calls += sum_each(x[..., used:], sums[..., count], scratch)
    return calls + _last(sum_each, sums, sums.shape[-1], out, scratch)


def _last(add: Any, sums: Array, n: int, out: Array, scratch: Any) -> list[Call]:
    """The sum of n sums, in float64 unless they are few."""
    if n <= FEW_SUMS or sums.dtype == np.float64:
        return list(add(sums, out, scratch))
    calls: list[Call] = []
    sums, total = _wider(sums, calls, scratch), scratch(out.shape, np.float64)
    return [*calls, *add(sums, total, scratch), (np.copyto, (out, total))]


def _wider(x: Array, calls: list[Call], scratch: Any) -> Array:
    """A copy in float64."""
    if x.dtype == np.float64:
        return x
    wide: Array = scratch(x.shape, np.float64)
    calls.append((np.copyto, (wide, x)))
    return wide
