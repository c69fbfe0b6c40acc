"""Routines lowered to bound NumPy calls, for compiled plans: products, convolutions, softmax, …

Each function takes (inputs, attrs, out, workers) and gives stages, done one after the other; a
stage is a list of calls for each worker. Memory that they need is allocated once, here. None: it
has nothing better than the op's function.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

import numpy as np

from pyframe.codegen.numpy.elementwise import Call, ufunc_call
from pyframe.codegen.numpy.sums import sum_calls
from pyframe.codegen.numpy.threads import Stage
from pyframe.core.view import window_count

Array: TypeAlias = np.ndarray
Shape = tuple[int, ...]
Stages = list[Stage]


def at_once(
    stages: Callable[..., Stages | None], inputs: int, infer: Any, slow: Callable[..., Any]
) -> Callable[..., Any]:
    """An op's NumPy function: the calls of its stages, made at once; `slow` where it has none."""

    def run(*args: Any) -> Any:
        out = np.empty(*infer(*args))
        found = stages(args[:inputs], args[inputs:], out, 1)
        if found is None:
            return slow(*args)
        for stage in found:
            for calls in stage.work:
                for fn, operands in calls:
                    fn(*operands)
        return out

    return run


COLUMNS = 1 << 18  # elements of the columns of some images, which the L2 cache holds
THREADS_MIN_ELEMENTS = 1 << 16  # elements of a result from which threads pay
PRODUCT = 1 << 22  # multiplications from which they pay


def shares(n: int, workers: int) -> list[range]:
    """0 .. n-1 in as many pieces as there are workers, or n."""
    k = max(min(n, workers), 1)
    return [range(n * w // k, n * (w + 1) // k) for w in range(k)]


def matmul(xs: Sequence[Array], attrs: Any, out: Array, workers: int) -> Stages | None:
    a, b = xs
    if a.dtype == np.float16:  # adds up in float32
        wide = [np.empty(x.shape, np.float32) for x in (a, b, out)]
        calls = [(np.copyto, (w, x)) for w, x in zip(wide, (a, b), strict=False)]
        return [Stage([[*calls, (np.matmul, tuple(wide)), (np.copyto, (out, wide[2]))]])]
    if a.dtype == np.bool_:
        return None
    batch = math.prod(out.shape[:-2])
    worth = out.size * a.shape[-1] >= PRODUCT and workers > 1
    if batch == 1 and worth and a.dtype.kind == "f":
        m, n = out.shape[-2:]
        work = [
            [(np.matmul, (a[..., s.start : s.stop, :], b, out[..., s.start : s.stop, :]))]
            if m >= n
            else [(np.matmul, (a, b[..., s.start : s.stop], out[..., s.start : s.stop]))]
            for s in shares(max(m, n), workers)
        ]
        return [Stage(work, [(np.matmul, (a, b, out))], product=True)]
    if batch == 1 or not worth:
        return [Stage([[(np.matmul, (a, b, out))]])]
    a, b = (np.broadcast_to(x, (*out.shape[:-2], *x.shape[-2:])) for x in (a, b))
    at = max(range(out.ndim - 2), key=lambda d: out.shape[d])
    work = []
    for share in shares(out.shape[at], workers):
        part = (slice(None),) * at + (slice(share.start, share.stop),)
        work.append([(np.matmul, (a[part], b[part], out[part]))])
    return [Stage(work)]


# --- convolution


def _sliding_windows(x: Array, at: int, kernel: Shape, stride: Shape, dilation: Shape) -> Array:
    """A view of sliding windows over the last dims: the kernel's dims are put before dim `at`, the
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
        windows = _sliding_windows(padded, 2, kernel, stride, dilation)
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


def conv(xs: Sequence[Array], attrs: Any, out: Array, workers: int) -> Stages | None:
    x, w = xs
    stride, padding, dilation, groups = attrs
    if x.dtype.kind != "f" or x.dtype == np.float16 or not out.size or not w.size:
        return None
    copied = np.empty(w.shape, w.dtype)
    rows = copied.reshape(groups, w.shape[0] // groups, -1)
    sizes = tuple(n + 2 * p for n, p in zip(x.shape[2:], padding, strict=True))
    ones = (1,) * len(stride)
    work = _convolve(
        x, rows, out, sizes, padding, ones, w.shape[2:], stride, dilation, groups, workers
    )
    return [Stage([[(np.copyto, (copied, w))]]), Stage(work)]


def conv_input(xs: Sequence[Array], attrs: Any, out: Array, workers: int) -> Stages | None:
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
    work = _convolve(
        g, copied.reshape(groups, c, -1), out, sizes, before, stride, tuple(kernel), ones,
        dilation, groups, workers,
    )  # fmt: skip
    return [Stage([[(np.copyto, (copied, turned))]]), Stage(work)]


def _spread(
    g: Array, w: Array, out: Array, stride: Shape, padding: Shape, dilation: Shape, groups: int,
    workers: int,
) -> Stages | None:  # fmt: skip
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
    return [Stage([[(np.copyto, (copied, w))]]), Stage(work)]


def conv_weight(xs: Sequence[Array], attrs: Any, out: Array, workers: int) -> Stages | None:
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
                windows = _sliding_windows(padded, 1, kernel, stride, dilation)
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
    total = (np.add.reduce, (sums, 0, g.dtype, out.reshape(sums.shape[1:])))
    return [Stage(work), Stage([[total]])]


# --- pooling


def _at(i: int, size: int, stride: int, dilation: int) -> slice:
    return slice(i * dilation, i * dilation + (size - 1) * stride + 1, stride)


def max_pool(xs: Sequence[Array], attrs: Any, out: Array, workers: int) -> Stages | None:
    """The maximum over one dim of the window after the other."""
    (x,) = xs
    kernel, stride, dilation = attrs
    k = len(kernel)
    lead = x.shape[:-k]
    if not out.size or not lead:
        return None
    work = []
    at = max(range(len(lead)), key=lambda d: lead[d])
    for share in shares(lead[at], workers if x.size >= THREADS_MIN_ELEMENTS else 1):
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
    return [Stage(work)]


def max_pool_input(xs: Sequence[Array], attrs: Any, out: Array, workers: int) -> Stages | None:
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
    for share in shares(g.shape[0], workers if x.size >= THREADS_MIN_ELEMENTS else 1):
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
    return [Stage(work)]


# --- softmax


def _softmax(xs: Sequence[Array], dim: int, out: Array, workers: int, log: bool) -> Stages | None:
    (x,) = xs
    if x.dtype.kind != "f" or x.dtype == np.float16 or not x.size:
        return None
    if dim % x.ndim == x.ndim - 1 and x.flags.c_contiguous:
        x, out, dim = x.reshape(-1, x.shape[-1]), out.reshape(-1, x.shape[-1]), 1
    rest = [d for d in range(x.ndim) if d != dim % x.ndim]
    at = max(rest, key=lambda d: x.shape[d], default=None)
    n = 1 if at is None else x.shape[at]
    step = max((THREADS_MIN_ELEMENTS * n) // x.size, 1)
    work = []
    for share in shares(n, workers if x.size >= THREADS_MIN_ELEMENTS else 1):
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
    return [Stage(work)]


def softmax(xs: Sequence[Array], attrs: Any, out: Array, workers: int) -> Stages | None:
    return _softmax(xs, attrs[0], out, workers, False)


def log_softmax(xs: Sequence[Array], attrs: Any, out: Array, workers: int) -> Stages | None:
    return _softmax(xs, attrs[0], out, workers, True)
