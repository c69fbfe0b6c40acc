"""Pooling in any number of spatial dims: windows are views, what is largest in them an index."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from pyframe.codegen.numpy import routines
from pyframe.core import dtypes as dt
from pyframe.core.dispatch import apply, runs_kernel
from pyframe.core.op import EXTERN, Op
from pyframe.core.sizes import is_symbolic, statically_divides, statically_equal, sym_max
from pyframe.core.view import window_count
from pyframe.ops.api import check
from pyframe.ops.api.batching_rules import fold_batch_dim
from pyframe.ops.index.along import gather, gathered
from pyframe.ops.index.rows import checked_classes, put_few_rows, put_rows
from pyframe.ops.index.select import index_select
from pyframe.ops.math import elementwise as el
from pyframe.ops.random.draws import rand
from pyframe.ops.reduce.reductions import amax, argmax, limit_of, mean, sum as sum_
from pyframe.ops.shape import movement as mv
from pyframe.ops.spatial import sliding
from pyframe.ops.spatial.conv import each
from pyframe.ops.spatial.resample import along
from pyframe.tensor import Tensor, upload

Shape = tuple[int, ...]


def _max_pool_np(x: np.ndarray, kernel: Shape, *how: Shape) -> np.ndarray:
    return sliding.np_sliding_windows(x, kernel, *how).max(tuple(range(-len(kernel), 0)))


def _max_pool_input_np(
    g: np.ndarray, x: np.ndarray, y: np.ndarray, kernel: Shape, stride: Shape, dilation: Shape
) -> np.ndarray:
    """Each gradient goes to the first of the largest elements of its window."""
    count = g.shape[-len(kernel) :]
    out = np.zeros_like(x)
    left = np.ones(g.shape, bool)
    parts = sliding.np_taps(x, kernel, stride, dilation, count)
    grads = sliding.np_taps(out, kernel, stride, dilation, count)
    for (_, part), (_, grad) in zip(parts, grads, strict=True):
        hit = part == y
        hit |= part != part
        hit &= left
        left ^= hit
        grad += g * hit
    return out


def _flat_windows(x: Tensor, kernel: Shape, stride: Shape, dilation: Shape) -> Tensor:
    win = el.copy(sliding.sliding_windows(x, kernel, stride, dilation))
    return win.reshape((*win.shape[: -len(kernel)], math.prod(kernel)))


def _winners(x: Tensor, kernel: Shape, stride: Shape, dilation: Shape) -> Tensor:
    win = _flat_windows(x.detach(), kernel, stride, dilation)
    return el.eq(argmax(win, -1, True), el.iota((math.prod(kernel),), x.device))


def _max_pool_input_by_ops(
    g: Tensor, x: Tensor, y: Tensor, kernel: Shape, stride: Shape, dilation: Shape
) -> Tensor:
    routed = el.where(_winners(x, kernel, stride, dilation), mv.unsqueeze(g, -1), 0.0)
    routed = routed.reshape((*g.shape, *kernel))
    return sliding.fold(routed, x.shape[-len(kernel) :], stride, dilation)


def _max_pool_pick(g: Tensor, x: Tensor, kernel: Shape, stride: Shape, dilation: Shape) -> Tensor:
    win = _flat_windows(g, kernel, stride, dilation)
    return sum_(el.where(_winners(x, kernel, stride, dilation), win, 0.0), -1)


def _infer(x: Any, kernel: Shape, stride: Shape, dilation: Shape) -> tuple[Shape, Any]:
    k = len(kernel)
    return (*x.shape[:-k], *window_count(x.shape[-k:], kernel, stride, dilation)), x.dtype


def _input_infer(g: Any, x: Any, y: Any, *how: Any) -> tuple[Shape, Any]:
    return x.shape, x.dtype


max_pool_op = Op(
    "max_pool", EXTERN, "x", "kernel stride dilation", infer=_infer,
    fallback=lambda x, *how: _flat_windows(x, *how).amax(-1),
    numpy=routines.at_once(routines.max_pool, 1, _infer, _max_pool_np),
    lower_extern=routines.max_pool, prefers_decomposition=True, batch=fold_batch_dim,
    flops=lambda shapes, out: math.prod(shapes[0]),
    x=lambda g, x, y, kernel, stride, dilation: apply(
        max_pool_input_op, (g, x, y), (kernel, stride, dilation)),
)  # fmt: skip
max_pool_input_op = Op(
    "max_pool_input", EXTERN, "g_ x y_", "kernel stride dilation",
    infer=_input_infer, fallback=_max_pool_input_by_ops,
    numpy=routines.at_once(
        routines.max_pool_input, 3, _input_infer, _max_pool_input_np),
    lower_extern=routines.max_pool_input, prefers_decomposition=True, batch=fold_batch_dim,
    g_=lambda g, x, kernel, stride, dilation: _max_pool_pick(g, x, kernel, stride, dilation),
    x=None, y_=None,
)  # fmt: skip


def _checked_planes(name: str, x: Tensor, k: int) -> None:
    if x.ndim not in (k + 1, k + 2) or 0 in x.shape[x.ndim - k - 1 :]:
        raise RuntimeError(
            f"{name}: Expected {k + 1}D or {k + 2}D input tensor, where only the batch may have 0 "
            f"elements, but got {list(x.shape)}"
        )


def _pool_setup(
    name: str, k: int, x: Tensor, kernel: Any, stride: Any, padding: Any, dilation: Any,
    ceil_mode: bool,
) -> tuple[Shape, Shape, Shape, Shape, Shape]:  # fmt: skip
    """Checked arguments; how much padding there is after the end depends on ceil_mode."""
    kernel = each(kernel, k, f"{name}: kernel_size")
    if stride is None or (not isinstance(stride, int) and not len(stride)):
        stride = kernel
    stride = each(stride, k, f"{name}: stride")
    padding = each(padding, k, f"{name}: padding")
    dilation = each(dilation, k, f"{name}: dilation")
    if min(kernel) <= 0 or min(stride) <= 0 or min(dilation) <= 0:
        raise RuntimeError(
            f"{name}: kernel_size, stride and dilation must be greater than zero, but got "
            f"{list(kernel)}, {list(stride)} and {list(dilation)}"
        )
    for p, m, d in zip(padding, kernel, dilation, strict=True):
        if not 0 <= p <= ((m - 1) * d + 1) // 2:
            raise RuntimeError(
                f"{name}: pad must be non-negative and at most half of effective kernel size, but "
                f"got pad={p}, kernel_size={m} and dilation={d}"
            )
    _checked_planes(name, x, k)
    after = []
    for n, m, s, p, d in zip(x.shape[-k:], kernel, stride, padding, dilation, strict=True):
        span = n + 2 * p - d * (m - 1) - 1
        count = span // s + 1
        if ceil_mode and span % s and (count * s) < n + p:
            count += 1
        if count < 1:
            raise RuntimeError(
                f"{name}: given input size {list(x.shape)}, kernel {list(kernel)}: calculated "
                "output size is too small"
            )
        more = (count - 1) * s + d * (m - 1) + 1 - n - p
        after.append(sym_max(more, p if not ceil_mode else 0))
    return kernel, stride, padding, tuple(after), dilation


def max_pool(
    name: str, k: int, input: Tensor, kernel: Any, stride: Any, padding: Any, dilation: Any,
    ceil_mode: bool, return_indices: bool,
) -> Any:  # fmt: skip
    """max_pool1d/2d/3d with PyTorch's arguments and errors; the indices are int64."""
    kernel, stride, before, after, dilation = _pool_setup(
        name, k, input, kernel, stride, padding, dilation, ceil_mode
    )
    if input.dtype.category in (dt.BOOL, dt.COMPLEX):
        raise RuntimeError(f"{name}: not implemented for {input.dtype.name}")
    widths = ((0, 0),) * (input.ndim - k) + tuple(zip(before, after, strict=True))
    lowest = limit_of(input, -1)
    x = mv.pad(input, widths, lowest)
    out = apply(max_pool_op, (x,), (kernel, stride, dilation))
    if not return_indices:
        return out
    at = argmax(_flat_windows(x.detach(), kernel, stride, dilation), -1)
    count = out.shape[-k:]
    starts = [_range(m, x) * s - p for m, s, p in zip(count, stride, before, strict=True)]
    if any(before):  # where all is as low as the padding, the first that is no padding wins
        least: Any = np.maximum if not is_symbolic(count) else el.clamp_min
        skipped = [least(-(a // d), 0) for a, d in zip(starts, dilation, strict=True)]
        at = el.where(el.eq(out.detach(), lowest), _flat_indices(skipped, kernel, x), at)
    return out, _plane_index(at, starts, kernel, dilation, input.shape[-k:])


def _range(n: int, x: Tensor, computed: bool = False) -> Any:
    """0 to n - 1: an array of the host's, or computed if that changes."""
    if computed or is_symbolic((n,)):
        return el.cast(el.iota((n,), x.device), dt.int64)
    return np.arange(n)


def _flat_indices(along: Sequence[Any], sizes: Shape, x: Tensor) -> Tensor:
    """Flat indices in `sizes` of all combinations of indices along each dim."""
    out: Any = 0
    for d, (indices, n) in enumerate(zip(along, sizes, strict=True)):
        out = out * n + indices.reshape(-1, *[1] * (len(sizes) - 1 - d))
    return out if isinstance(out, Tensor) else upload(out.astype(np.int64), x.device)


def _plane_index(
    at: Tensor, starts: Sequence[Any], kernel: Shape, dilation: Shape, spatial: Shape
) -> Tensor:
    """Flat indices in a plane of what has the flat indices `at` in windows with these starts."""
    out = _flat_indices(starts, spatial, at)
    step = 1
    for n, m, d in zip(reversed(spatial), reversed(kernel), reversed(dilation), strict=True):
        if m > 1:
            out = out + el.remainder(at, m) * (d * step)
            at = el.floor_divide(at, m)
        step *= n
    return mv.expand(out, at.shape)


def avg_pool(
    name: str, k: int, input: Tensor, kernel: Any, stride: Any, padding: Any, ceil_mode: bool,
    count_include_pad: bool, divisor_override: int | None = None,
) -> Tensor:  # fmt: skip
    """avg_pool1d/2d/3d with PyTorch's arguments and errors."""
    kernel, stride, before, after, dilation = _pool_setup(
        name, k, input, kernel, stride, padding, 1, ceil_mode
    )
    if input.dtype.category not in (dt.INTEGER, dt.FLOAT):
        raise RuntimeError(f"{name}: not implemented for {input.dtype.name}")
    if k == 3 and any(n < m for n, m in zip(input.shape[-k:], kernel, strict=True)):
        raise RuntimeError(  # as PyTorch does in three dims alone, whatever the padding
            f"{name}: Expected input of at least the kernel's size {list(kernel)}, but got "
            f"{list(input.shape)}; pad the input first"
        )
    rounding = None if input.dtype.category == dt.FLOAT else "trunc"
    lead = ((0, 0),) * (input.ndim - k)
    widths = lead + tuple(zip(before, after, strict=True))
    dims = tuple(range(-k, 0))
    total = sum_(sliding.sliding_windows(mv.pad(input, widths), kernel, stride, dilation), dims)
    if divisor_override is not None:
        if divisor_override == 0:
            raise RuntimeError(f"{name}: divisor must be not zero")
        return el.div(total, divisor_override, rounding_mode=rounding)
    if after == before and (count_include_pad or not any(before)):
        return el.div(total, math.prod(kernel), rounding_mode=rounding)
    ones = np.ones(input.shape[-k:], input.dtype.numpy)
    inner = before if count_include_pad else (0,) * k
    ones = np.pad(ones, tuple((p, p) for p in inner), constant_values=1)
    rest = [(b - i, a - i) for b, a, i in zip(before, after, inner, strict=True)]
    ones = np.pad(ones, [(max(b, 0), max(a, 0)) for b, a in rest])
    counts = sliding.np_sliding_windows(ones, kernel, stride, dilation).sum(axis=dims)
    counts = np.ascontiguousarray(counts, input.dtype.numpy)
    return el.div(total, upload(counts, input.device, input.dtype), rounding_mode=rounding)


def lp_pool(
    name: str, k: int, input: Tensor, norm_type: float, kernel: Any, stride: Any, ceil_mode: bool
) -> Tensor:
    """(sum of x^p over a window)^(1/p); where the sum is 0, so is the gradient."""
    if norm_type == math.inf:
        return max_pool(name, k, el.abs(input), kernel, stride, 0, 1, ceil_mode, False)
    if norm_type == -math.inf:
        return -max_pool(name, k, -el.abs(input), kernel, stride, 0, 1, ceil_mode, False)
    out = avg_pool(name, k, el.pow(input, norm_type), kernel, stride, 0, ceil_mode, True)
    size = math.prod(each(kernel, k, f"{name}: kernel_size"))
    return el.pow(el.sign(out) * el.relu(el.abs(out)) * size, 1.0 / norm_type)


# --- windows that differ in size: adaptive pooling


def _adaptive(name: str, k: int, x: Tensor, output_size: Any) -> tuple[Shape, Shape, Shape]:
    """The leading dims, the sizes of a plane, and those of the result's."""
    if not isinstance(output_size, int):
        output_size = list(output_size)
        if len(output_size) >= x.ndim:
            raise ValueError(f"{name}: Input dimension should be at least {len(output_size) + 1}")
        if len(output_size) not in (1, k):
            raise RuntimeError(f"{name}: output_size must be {k} ints, got {output_size}")
        last = x.shape[x.ndim - len(output_size) :]
        output_size = [n if o is None else o for o, n in zip(output_size, last, strict=True)]
    sizes = each(output_size, k, f"{name}: output_size")
    if min(sizes) < 0:
        raise RuntimeError(
            f"{name}: elements of output_size must be greater than or equal to 0, got {list(sizes)}"
        )
    _checked_planes(name, x, k)
    check.floats(name, x)
    return x.shape[:-k], x.shape[-k:], sizes


def bins(n: int, count: int, x: Tensor) -> tuple[Any, Any]:
    """Where `count` bins that cover 0..n-1, and overlap where they must, start and end: arrays of
    the host's, or computed if sizes change."""
    dt.check_room(n, count)
    i = (
        _range(count, x)
        if not is_symbolic((n,))
        else el.cast(el.iota((count,), x.device), dt.int64)
    )
    return i * n // max(count, 1), -(-(i + 1) * n // max(count, 1))


def adaptive_avg_pool(name: str, k: int, input: Tensor, output_size: Any) -> Tensor:
    """adaptive_avg_pool1d/2d/3d: the means of as many bins as `output_size` says."""
    lead, spatial, sizes = _adaptive(name, k, input, output_size)
    if 0 in sizes or 0 in lead:
        return mv.nothing_of(input, (*lead, *sizes))
    if all(statically_divides(o, n) for n, o in zip(spatial, sizes, strict=True)):
        if all(map(statically_equal, spatial, sizes)):
            return input.clone()
        apart = [m for n, o in zip(spatial, sizes, strict=True) for m in (o, n // o)]
        return mean(mv.reshape(input, (*lead, *apart)), tuple(range(1 - 2 * k, 0, 2)))
    out = input
    for axis, (n, o) in enumerate(zip(spatial, sizes, strict=True), -k):
        start, end = (edge[:, None] for edge in bins(n, o, input))
        i = _range(n, input)
        width = end - start
        if isinstance(width, Tensor):
            width = width.to(dt.float64 if input.dtype is dt.float64 else dt.float32)
        matrix = ((i >= start) & (i < end)) / width
        out = along(out, matrix, axis)
    return out


def adaptive_max_pool(
    name: str, k: int, input: Tensor, output_size: Any, return_indices: bool
) -> Any:
    """adaptive_max_pool1d/2d/3d: the largest of as many bins as `output_size` says."""
    lead, spatial, sizes = _adaptive(name, k, input, output_size)
    if 0 in sizes or 0 in lead:
        out = mv.nothing_of(input, (*lead, *sizes))
        return (out, out.to(dt.int64)) if return_indices else out
    if all(statically_divides(o, n) for n, o in zip(spatial, sizes, strict=True)):
        kernel = tuple(n // o for n, o in zip(spatial, sizes, strict=True))
        return max_pool(name, k, input, kernel, None, 0, 1, False, return_indices)
    edges = [bins(n, o, input) for n, o in zip(spatial, sizes, strict=True)]
    kernel = tuple(n // o + 2 if isinstance(start, Tensor) else int((end - start).max())
                   for (start, end), n, o in zip(edges, spatial, sizes, strict=True))  # fmt: skip
    win = input.detach()
    for axis, ((start, end), m) in enumerate(zip(edges, kernel, strict=True), -k):
        if isinstance(start, Tensor):
            indices = el.minimum(start[:, None] + _range(m, input), end[:, None] - 1).reshape(-1)
        else:
            indices = np.minimum(start[:, None] + np.arange(m), end[:, None] - 1)  # repeats lose
            indices = upload(indices.reshape(-1), input.device)
        win = index_select(win, axis, indices)
    first = len(lead)
    order = [*range(first), *range(first, first + 2 * k, 2), *range(first + 1, first + 2 * k, 2)]
    apart = [m for pair in zip(sizes, kernel, strict=True) for m in pair]
    win = mv.permute(mv.reshape(win, (*lead, *apart)), order)
    win = mv.reshape(win, (*lead, *sizes, math.prod(kernel)))
    starts = [start for start, _ in edges]
    index = _plane_index(argmax(win, -1), starts, kernel, (1,) * k, spatial)
    plane = mv.reshape(input, (*lead, math.prod(spatial)))
    out = gathered(plane, len(lead), mv.reshape(index, (*lead, math.prod(sizes))))
    out = mv.reshape(out, (*lead, *sizes))
    return (out, index) if return_indices else out


# --- windows at random places, and the way back


def fractional_max_pool(
    name: str, k: int, input: Tensor, kernel_size: Any, output_size: Any, output_ratio: Any,
    return_indices: bool, samples: Tensor | None,
) -> Any:  # fmt: skip
    """Windows at random steps between n / m and its neighbours (https://arxiv.org/abs/1412.6071)."""
    if output_size is None:
        if output_ratio is None:
            raise ValueError(f"{name} requires specifying either an output_size or an output_ratio")
        ratios = [output_ratio] if isinstance(output_ratio, (int, float)) else list(output_ratio)
        if len(ratios) not in (1, k):
            raise ValueError(f"{name} requires output_ratio to be a number or {k} numbers")
        ratios = ratios * k if len(ratios) == 1 else ratios
        last = input.shape[-k:]
        output_size = [int(n * r) for n, r in zip(last, ratios, strict=True)]
    kernel = each(kernel_size, k, f"{name}: kernel_size")
    sizes = each(output_size, k, f"{name}: output_size")
    _checked_planes(name, input, k)
    check.floats(name, input)
    spatial = input.shape[-k:]
    if min(kernel) <= 0 or min(sizes) <= 0:
        raise RuntimeError(
            f"{name}: kernel_size and output_size must be greater than zero, but got "
            f"{list(kernel)} and {list(sizes)}"
        )
    if any(o + m - 1 > n for o, m, n in zip(sizes, kernel, spatial, strict=True)):
        raise RuntimeError(
            f"{name}: kernel {list(kernel)} is too large for input {list(spatial)} and output "
            f"{list(sizes)}: output + kernel - 1 must be at most the input size"
        )
    x = mv.unsqueeze(input, 0) if input.ndim == k + 1 else input
    batch, channels = x.shape[:2]
    if samples is None:
        samples = rand((batch, channels, k), dtype=input.dtype, device=input.device)
    else:
        given = samples.shape
        fits = len(given) == 3 and given[0] >= batch and given[1:] == (channels, k)
        if not fits or samples.dtype is not input.dtype:
            raise RuntimeError(
                f"{name}: expected _random_samples of {input.dtype.name} and shape "
                f"{[batch, channels, k]}, got {samples.dtype.name} {list(given)}"
            )
        samples = samples if given[0] == batch else samples[:batch]
    plane: Any = 0  # (N, C, *sizes, *kernel): flat indices in a plane
    for d, (n, o, m) in enumerate(zip(spatial, sizes, kernel, strict=True)):
        which = 1 - d if k == 2 else d  # PyTorch's order of the samples is width, height
        u = mv.unsqueeze(mv.select(samples, -1, which), -1)
        alpha = (n - m) / (o - 1) if o > 1 else 0.0
        i = el.iota((o,), input.device)
        start = ((i.to(u.dtype) + u) * alpha).to(dt.int64) - (u * alpha).to(dt.int64)
        start = el.where(el.eq(i, o - 1), n - m, start)
        shape = (batch, channels, *(o if j == d else 1 for j in range(k)), *(1,) * k)
        indices = mv.reshape(start, shape) + el.dim_indices(m, k - 1 - d, input.device)
        plane = plane * n + indices
    count = math.prod(kernel)
    whole = (batch, channels, *sizes, *kernel)
    plane = mv.reshape(mv.expand(plane, whole), (batch, channels, math.prod(sizes) * count))
    flat = mv.reshape(x, (batch, channels, math.prod(spatial)))
    win = mv.reshape(gather(flat.detach(), -1, plane), (batch, channels, math.prod(sizes), count))
    at = argmax(win, -1, True)
    index = mv.squeeze(gather(mv.reshape(plane, win.shape), -1, at), -1)
    lead = input.shape[:-k]
    out = mv.reshape(gather(flat, -1, index), (*lead, *sizes))
    return (out, mv.reshape(index, (*lead, *sizes))) if return_indices else out


def max_unpool(
    name: str, k: int, input: Tensor, indices: Tensor, kernel_size: Any, stride: Any,
    padding: Any, output_size: Any,
) -> Tensor:  # fmt: skip
    """The inverse of a max pooling as far as its indices tell; zeros elsewhere."""
    kernel = each(kernel_size, k, f"{name}: kernel_size")
    stride = kernel if stride is None else each(stride, k, f"{name}: stride")
    padding = each(padding, k, f"{name}: padding")
    _checked_planes(name, input, k)
    if indices.dtype is not dt.int64:
        raise RuntimeError(
            f"{name}: elements in indices should be type int64 but got: {indices.dtype.name}"
        )
    if indices.shape != input.shape:
        raise RuntimeError(
            f"{name}: Expected shape of indices to be same as that of the input tensor "
            f"({list(input.shape)}) but got indices tensor with shape: {list(indices.shape)}"
        )
    if min(stride) <= 0:
        raise RuntimeError(f"{name}: strides should be greater than zero, but got {list(stride)}")
    usual = tuple(
        (n - 1) * s + m - 2 * p
        for n, s, m, p in zip(input.shape[-k:], stride, kernel, padding, strict=True)
    )
    size = usual
    if output_size is not None:
        size = tuple(output_size)
        size = size[2:] if len(size) == k + 2 else size
        if len(size) != k:
            raise ValueError(
                f"{name}: output_size should be a sequence containing {k} or {k + 2} elements, but "
                f"it has a length of '{len(size)}'"
            )
    for d, (o, n, s) in enumerate(zip(size, usual, stride, strict=True)):
        if not n - s < o < n + s or o < 0:
            raise ValueError(
                f'{name}: invalid output_size "{list(size)}" (dim {d} must be between {n - s} and '
                f"{n + s})"
            )
    lead = input.shape[:-k]
    planes, length, area = math.prod(lead), math.prod(input.shape[-k:]), math.prod(size)
    index = checked_classes(f"{name}: index", indices.detach(), area, error=RuntimeError)
    index = mv.reshape(index, (planes, length))
    source = mv.reshape(input, (planes, length))
    if runs_kernel(put_few_rows, input.device):
        out = _unpool_planes(source, index, area)
    else:
        first = el.iota((planes, 1), input.device) * area
        base = input.new_zeros(planes * area, 1)
        flat = mv.reshape(index + first, (-1,))
        out = apply(put_rows, (base, flat, mv.reshape(source, (-1, 1))))
    return mv.reshape(out, (*lead, *size))


def _unpool_planes(source: Tensor, index: Tensor, area: int) -> Tensor:
    """(planes, length) to (planes, area): one fused pass over each plane, no scatter over all. Of
    equal indices the last wins."""
    length = source.shape[1]
    hit = el.eq(mv.unsqueeze(index, 1), el.iota((area, 1), source.device))
    rank = el.iota((length,), source.device)
    last = amax(el.where(hit, rank, -1), -1, True)
    x = mv.unsqueeze(source, 1)
    x = el.where(el.eq(last, rank), x, x - x.detach())  # the gradient goes to all of them
    return sum_(el.where(hit, x, 0.0), -1)
