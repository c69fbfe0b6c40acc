"""Routines as bound NumPy calls: products, convolutions, pooling and softmax for compiled plans.

Each function takes (inputs, attrs, out, workers) and gives phases, done one after the other; a
phase is a list of calls for each worker. Memory that they need is allocated once, here. None: it
has nothing better than the op's function.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

import numpy as np

from pyframe.codegen.numpy.bound import Call, ufunc_call
from pyframe.core.view import window_count

Array: TypeAlias = np.ndarray
Shape = tuple[int, ...]
Phases = list[list[list[Call]]]


class Threaded(list):
    """The work of a phase that `whole` does as well, with BLAS's own threads."""

    whole: list[Call]


def at_once(
    phases: Callable[..., Phases | None], inputs: int, infer: Any, slow: Callable[..., Any]
) -> Callable[..., Any]:
    """An op's NumPy function: the calls of its phases, made at once; `slow` where it has none."""

    def run(*args: Any) -> Any:
        out = np.empty(*infer(*args))
        found = phases(args[:inputs], args[inputs:], out, 1)
        if found is None:
            return slow(*args)
        for phase in found:
            for calls in phase:
                for fn, operands in calls:
                    fn(*operands)
        return out

    return run


COLUMNS = 1 << 18  # elements of the columns of some images, which the L2 cache holds
WORTH = 1 << 16  # elements of a result from which threads pay
PRODUCT = 1 << 22  # multiplications from which they pay


def shares(n: int, workers: int) -> list[range]:
    """0 .. n-1 in as many pieces as there are workers, or n."""
    k = max(min(n, workers), 1)
    return [range(n * w // k, n * (w + 1) // k) for w in range(k)]


def matmul(xs: Sequence[Array], attrs: Any, out: Array, workers: int) -> Phases | None:
    a, b = xs
    if a.dtype == np.float16:  # adds up in float32
        wide = [np.empty(x.shape, np.float32) for x in (a, b, out)]
        calls = [(np.copyto, (w, x)) for w, x in zip(wide, (a, b), strict=False)]
        return [[[*calls, (np.matmul, tuple(wide)), (np.copyto, (out, wide[2]))]]]
    if a.dtype == np.bool_:
        return None
    batch = math.prod(out.shape[:-2])
    worth = out.size * a.shape[-1] >= PRODUCT and workers > 1
    if batch == 1 and worth and a.dtype.kind == "f":
        m, n = out.shape[-2:]
        split = Threaded(
            [(np.matmul, (a[..., s.start : s.stop, :], b, out[..., s.start : s.stop, :]))]
            if m >= n
            else [(np.matmul, (a, b[..., s.start : s.stop], out[..., s.start : s.stop]))]
            for s in shares(max(m, n), workers)
        )
        split.whole = [(np.matmul, (a, b, out))]
        return [split]
    if batch == 1 or not worth:
        return [[[(np.matmul, (a, b, out))]]]
    a, b = (np.broadcast_to(x, (*out.shape[:-2], *x.shape[-2:])) for x in (a, b))
    at = max(range(out.ndim - 2), key=lambda d: out.shape[d])
    work = []
    for share in shares(out.shape[at], workers):
        part = (slice(None),) * at + (slice(share.start, share.stop),)
        work.append([(np.matmul, (a[part], b[part], out[part]))])
    return [work]


# --- convolution


def _windows(x: Array, at: int, kernel: Shape, stride: Shape, dilation: Shape) -> Array:
    """A view of windows over the last dims: the kernel's dims are put before dim `at`, the
    positions stay last."""
    k = len(kernel)
    count = window_count(x.shape[-k:], kernel, stride, dilation)
    s = x.strides[-k:]
    return np.lib.stride_tricks.as_strided(
        x,
        (*x.shape[:at], *kernel, *x.shape[at:-k], *count),
        (
            *x.strides[:at], *[a * d for a, d in zip(s, dilation, strict=True)],
            *x.strides[at:-k], *[a * t for a, t in zip(s, stride, strict=True)],
        ),
    )  # fmt: skip


def _placed(size: int, n: int, before: int, step: int) -> tuple[slice, slice]:
    """Where elements 0 .. n-1 go, at before + i * step, in `size` places: (places, elements)."""
    first = max((step - 1 - before) // step, 0)
    last = min((size - 1 - before) // step, n - 1)
    if last < first:
        return slice(0, 0), slice(0, 0)
    return slice(before + first * step, before + last * step + 1, step), slice(first, last + 1)


def _convolve(
    x: Array, rows: Array, out: Array, sizes: Shape, before: Shape, step: Shape, kernel: Shape,
    stride: Shape, dilation: Shape, groups: int, workers: int,
) -> list[list[Call]]:  # fmt: skip
    """The products of `rows` (groups, O/groups, C/groups * kernel) with the columns of x, laid out
    over `sizes` at `before` and every `step`, for some images at a time."""
    n, c = x.shape[:2]
    o = out.shape[1]
    count = out.shape[2:]
    length, depth = math.prod(count), c // groups * math.prod(kernel)
    work = []
    for share in shares(n, workers):
        images = max(min(len(share), COLUMNS // max(groups * depth * length, 1)), 1)
        padded = np.zeros((images, c, *sizes), x.dtype)
        columns = np.empty((images, c, *kernel, *count), x.dtype)
        places, elements = zip(*map(_placed, sizes, x.shape[2:], before, step), strict=True)
        windows = _windows(padded, 2, kernel, stride, dilation)
        calls: list[Call] = []
        for i in range(share.start, share.stop, images):
            m = min(images, share.stop - i)
            cols = columns[:m].reshape(m, groups, depth, length)
            target = out[i : i + m].reshape(m, groups, o // groups, length)
            calls += [
                (np.copyto, (padded[(slice(m), slice(None), *places)],
                             x[(slice(i, i + m), slice(None), *elements)])),
                (np.copyto, (columns[:m], windows[:m])),
                (np.matmul, (rows, cols, target)),
            ]  # fmt: skip
        work.append(calls)
    return work


def conv(xs: Sequence[Array], attrs: Any, out: Array, workers: int) -> Phases | None:
    x, w = xs
    stride, padding, dilation, groups = attrs
    if x.dtype.kind != "f" or x.dtype == np.float16 or not out.size or not w.size:
        return None
    copied = np.empty(w.shape, w.dtype)
    rows = copied.reshape(groups, w.shape[0] // groups, -1)
    sizes = tuple(n + 2 * p for n, p in zip(x.shape[2:], padding, strict=True))
    ones = (1,) * len(stride)
    return [
        [[(np.copyto, (copied, w))]],
        _convolve(
            x, rows, out, sizes, padding, ones, w.shape[2:], stride, dilation, groups, workers
        ),
    ]  # fmt: skip


def conv_input(xs: Sequence[Array], attrs: Any, out: Array, workers: int) -> Phases | None:
    """A convolution of the dilated, padded gradient with the flipped, transposed weight."""
    g, w = xs
    spatial, stride, padding, dilation, groups = attrs
    if g.dtype.kind != "f" or g.dtype == np.float16 or not out.size or not g.size or not w.size:
        return None
    if math.prod(stride) > 1:  # most of what it would multiply is 0
        return _spread(g, w, out, stride, padding, dilation, groups, workers)
    o, c, *kernel = w.shape
    flip = (slice(None), slice(None), *[slice(None, None, -1)] * len(kernel))
    turned = w[flip].reshape(groups, o // groups, c, *kernel).swapaxes(1, 2)
    turned = np.lib.stride_tricks.as_strided(  # of w's own memory: reshape may have copied
        w[flip],
        turned.shape,
        (w.strides[0] * (o // groups), w.strides[1], w.strides[0], *w[flip].strides[2:]),
    )
    copied = np.empty(turned.shape, w.dtype)
    spans = [d * (k - 1) for d, k in zip(dilation, kernel, strict=True)]
    sizes = tuple(n + s for n, s in zip(spatial, spans, strict=True))
    before = tuple(s - p for s, p in zip(spans, padding, strict=True))
    ones = (1,) * len(kernel)
    return [
        [[(np.copyto, (copied, turned))]],
        _convolve(
            g, copied.reshape(groups, c, -1), out, sizes, before, stride, tuple(kernel), ones,
            dilation, groups, workers,
        ),
    ]  # fmt: skip


def _spread(
    g: Array, w: Array, out: Array, stride: Shape, padding: Shape, dilation: Shape, groups: int,
    workers: int,
) -> Phases | None:  # fmt: skip
    """conv_input as products that give columns, for some images at a time, whose windows add up."""
    n, o, *count = g.shape
    kernel, spatial = w.shape[2:], out.shape[2:]
    length, depth = math.prod(count), w.shape[1] * math.prod(kernel)
    copied = np.empty(w.shape, w.dtype)
    rows = copied.reshape(groups, o // groups, depth).swapaxes(1, 2)
    inner = tuple(slice(p, p + m) for p, m in zip(padding, spatial, strict=True))
    sizes = tuple(m + 2 * p for m, p in zip(spatial, padding, strict=True))
    work = []
    for share in shares(n, workers):
        images = max(min(len(share), COLUMNS // max(groups * depth * length, 1)), 1)
        padded = np.empty((images, out.shape[1], *sizes), g.dtype)
        columns = np.empty((images, groups, depth, length), g.dtype)
        taps = columns.reshape(images, out.shape[1], *kernel, *count)
        calls: list[Call] = []
        for i in range(share.start, share.stop, images):
            m = min(images, share.stop - i)
            rhs = g[i : i + m].reshape(m, groups, o // groups, length)
            if not np.may_share_memory(rhs, g):
                return None
            calls += [(np.matmul, (rows, rhs, columns[:m])), (padded.fill, (0,))]
            for place in np.ndindex(*kernel):
                into = padded[(slice(m), slice(None), *map(_at, place, count, stride, dilation))]
                calls.append((np.add, (into, taps[(slice(m), slice(None), *place)], into)))
            calls.append((np.copyto, (out[i : i + m], padded[(slice(m), slice(None), *inner)])))
        work.append(calls)
    return [[[(np.copyto, (copied, w))]], work]


def conv_weight(xs: Sequence[Array], attrs: Any, out: Array, workers: int) -> Phases | None:
    """Each worker adds up the products of its images; these sums are added at the end."""
    g, x = xs
    kernel, stride, padding, dilation, groups = attrs
    if g.dtype.kind != "f" or g.dtype == np.float16 or not out.size or not g.size:
        return None
    n, o, *count = g.shape
    c = x.shape[1]
    length, depth = math.prod(count), c // groups * math.prod(kernel)
    parts = shares(n, workers)
    sums = np.empty((len(parts), groups, o // groups, depth), g.dtype)
    sizes = tuple(m + 2 * p for m, p in zip(x.shape[2:], padding, strict=True))
    inner = tuple(slice(p, p + m) for p, m in zip(padding, x.shape[2:], strict=True))
    work = []
    for share, total in zip(parts, sums, strict=True):
        images = max(min(len(share), COLUMNS // max(groups * depth * length, 1)), 1)
        product = np.empty(total.shape, g.dtype)
        calls: list[Call] = []
        memory: dict[int, Any] = {}
        for i in range(share.start, share.stop, images):
            m = min(images, share.stop - i)
            if m not in memory:
                padded = np.zeros((c, m, *sizes), g.dtype)
                windows = _windows(padded, 1, kernel, stride, dilation)
                windows = windows[tuple(slice(k) for k in (c, *kernel, m, *count))]
                columns = np.empty(windows.shape, g.dtype)
                memory[m] = padded, windows, columns, np.empty((o, m, *count), g.dtype)
            padded, windows, columns, grads = memory[m]
            first = i == share.start
            calls += [
                (np.copyto, (padded[(slice(None), slice(None), *inner)],
                             x[i : i + m].swapaxes(0, 1))),
                (np.copyto, (columns, windows)),
                (np.copyto, (grads, g[i : i + m].swapaxes(0, 1))),
                (np.matmul, (grads.reshape(groups, o // groups, m * length),
                             columns.reshape(groups, depth, m * length).swapaxes(1, 2),
                             total if first else product)),
            ]  # fmt: skip
            if not first:
                calls.append((np.add, (total, product, total)))
        work.append(calls)
    return [work, [[(np.add.reduce, (sums, 0, g.dtype, out.reshape(sums.shape[1:])))]]]


# --- pooling


def _at(i: int, size: int, stride: int, dilation: int) -> slice:
    return slice(i * dilation, i * dilation + (size - 1) * stride + 1, stride)


def max_pool(xs: Sequence[Array], attrs: Any, out: Array, workers: int) -> Phases | None:
    """The maximum over one dim of the window after the other."""
    (x,) = xs
    kernel, stride, dilation = attrs
    k = len(kernel)
    lead = x.shape[:-k]
    if not out.size or not lead:
        return None
    work = []
    at = max(range(len(lead)), key=lambda d: lead[d])
    for share in shares(lead[at], workers if x.size >= WORTH else 1):
        part = (slice(None),) * at + (slice(share.start, share.stop),)
        source = x[part]
        calls: list[Call] = []
        for d in range(k):
            axis = source.ndim - k + d
            size = out.shape[axis]
            shape = (*source.shape[:axis], size, *source.shape[axis + 1 :])
            target = out[part] if d == k - 1 else np.empty(shape, x.dtype)
            views = [
                source[(slice(None),) * axis + (_at(i, size, stride[d], dilation[d]),)]
                for i in range(kernel[d])
            ]
            calls.append(
                ufunc_call(np.maximum, views[:2], target) if len(views) > 1
                else (np.copyto, (target, views[0]))
            )  # fmt: skip
            calls += [ufunc_call(np.maximum, (target, v), target) for v in views[2:]]
            source = target
        work.append(calls)
    return [work]


def max_pool_input(xs: Sequence[Array], attrs: Any, out: Array, workers: int) -> Phases | None:
    """Each gradient goes to the first of the largest elements of its window."""
    g, x, y = xs
    kernel, stride, dilation = attrs
    k = len(kernel)
    count = g.shape[-k:]
    apart = all(d * (m - 1) < s for d, m, s in zip(dilation, kernel, stride, strict=True))
    if not g.size or not apart or g.ndim == k or g.dtype.kind != "f":
        return None
    covered = all(
        s == m and d == 1 and n == c * s
        for s, m, d, n, c in zip(stride, kernel, dilation, x.shape[-k:], count, strict=True)
    )
    bits = np.dtype(f"i{g.dtype.itemsize}")
    work = []
    for share in shares(g.shape[0], workers if x.size >= WORTH else 1):
        part = slice(share.start, share.stop)
        grad, largest, into = g[part], y[part], out[part]
        hit, nan, left = (np.empty(grad.shape, bool) for _ in range(3))
        value = np.empty(grad.shape, g.dtype)
        routed = value.view(bits)
        calls: list[Call] = [(left.fill, (True,))]
        if not covered:
            calls.append((into.fill, (0,)))
        for place in np.ndindex(*kernel):
            at = tuple(map(_at, place, count, stride, dilation))
            calls += [
                (np.copyto, (value, x[part][(..., *at)])),
                (np.equal, (value, largest, hit)),
                (np.not_equal, (value, value, nan)),
                (np.logical_or, (hit, nan, hit)),
                (np.logical_and, (hit, left, hit)),
                (np.logical_xor, (left, hit, left)),
                (np.multiply, (grad.view(bits), hit, routed)),
                (np.copyto, (into[(..., *at)], value)),
            ]
        work.append(calls)
    return [work]


# --- rows


TERMS = 256  # numbers side by side that one product adds up, at most
BLOCK = 64  # rows that each product adds up where they are more than twice as many
FEW = 16  # sums that are added up without float64
WIDE = 2048  # numbers of a row to which the next rows are added: they stay in cache
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
        wide = max(min(WIDE // m, n // BLOCK), 1)
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
    if not product or x.shape[-1] > (BLOCK * TERMS if PRODUCTS else FEW):
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
    if n <= FEW or sums.dtype == np.float64:
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


def _rows(xs: Sequence[Array], dim: int, out: Array, workers: int, log: bool) -> Phases | None:
    (x,) = xs
    if x.dtype.kind != "f" or x.dtype == np.float16 or not x.size:
        return None
    if dim % x.ndim == x.ndim - 1 and x.flags.c_contiguous:
        x, out, dim = x.reshape(-1, x.shape[-1]), out.reshape(-1, x.shape[-1]), 1
    rest = [d for d in range(x.ndim) if d != dim % x.ndim]
    at = max(rest, key=lambda d: x.shape[d], default=None)
    n = 1 if at is None else x.shape[at]
    step = max((WORTH * n) // x.size, 1)
    work = []
    for share in shares(n, workers if x.size >= WORTH else 1):
        calls: list[Call] = []
        scratch: dict[int, tuple[Array, Array]] = {}
        for i in range(share.start, share.stop, step):
            m = min(step, share.stop - i)
            part = () if at is None else (slice(None),) * at + (slice(i, i + m),)
            source, y = x[part], out[part]
            if m not in scratch:
                row = np.empty([1 if d == dim % x.ndim else s for d, s in enumerate(y.shape)],
                               x.dtype)  # fmt: skip
                scratch[m] = row, np.empty(y.shape if log else (0,), x.dtype)
            row, exp = scratch[m]
            exp = exp if log else y
            calls += [
                (np.maximum.reduce, (source, dim, None, row, True)),
                (np.subtract, (source, row, y)),
                (np.exp, (y, exp)),
                *sum_calls(exp, (dim % x.ndim,), row, np.empty),
            ]
            calls += [(np.log, (row, row)), (np.subtract, (y, row, y))] if log else [
                (np.divide, (y, row, y))
            ]  # fmt: skip
        work.append(calls)
    return [work]


def softmax(xs: Sequence[Array], attrs: Any, out: Array, workers: int) -> Phases | None:
    return _rows(xs, attrs[0], out, workers, False)


def log_softmax(xs: Sequence[Array], attrs: Any, out: Array, workers: int) -> Phases | None:
    return _rows(xs, attrs[0], out, workers, True)
