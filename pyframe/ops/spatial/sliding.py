"""Sliding windows of the last dims as views (im2col), and their sum in place (fold, or col2im)."""

from __future__ import annotations

import math
from collections.abc import Iterator

import numpy as np

from pyframe.core import view as views
from pyframe.core.dispatch import apply
from pyframe.core.op import EXTERN, Op
from pyframe.core.sizes import statically_equal
from pyframe.ops.api.batching_rules import aligned
from pyframe.ops.api.public import public
from pyframe.ops.shape import movement as mv
from pyframe.tensor import Tensor, normalize_dim

Shape = tuple[int, ...]


def np_taps(
    x: np.ndarray, size: Shape, stride: Shape, dilation: Shape, count: Shape
) -> Iterator[tuple[Shape, np.ndarray]]:
    """Each index in a window, with a view of what `count` windows over the last dims have there."""
    for at in np.ndindex(*size):
        slices = tuple(
            slice(i * d, i * d + (n - 1) * s + 1, s)
            for i, d, n, s in zip(at, dilation, count, stride, strict=True)
        )
        yield at, x[(..., *slices)]


def np_sliding_windows(x: np.ndarray, size: Shape, stride: Shape, dilation: Shape) -> np.ndarray:
    """`sliding_windows` of a host array, as a view."""
    k = len(size)
    count = views.window_count(x.shape[-k:], size, stride, dilation)
    s = x.strides
    strides = (
        *s[:-k],
        *(a * b for a, b in zip(s[-k:], stride, strict=True)),
        *(a * b for a, b in zip(s[-k:], dilation, strict=True)),
    )
    shape = (*x.shape[:-k], *count, *size)
    return np.lib.stride_tricks.as_strided(x, shape, strides)


sliding_windows_op = mv.Movement(
    "sliding_windows", "x", "size stride dilation", alias=True,
    infer=mv.like(
        lambda s, k, st, d: (
            *s[: -len(k)], *views.window_count(s[-len(k) :], k, st, d), *k
        )
    ),
    numpy=np_sliding_windows, view=views.sliding_windows, overlaps=True,
    x=lambda g, x_spec, size, stride, dilation: fold(
        g, x_spec.shape[-len(size) :], stride, dilation
    ),
)  # fmt: skip


def _np_fold(cols: np.ndarray, spatial: Shape, stride: Shape, dilation: Shape) -> np.ndarray:
    k = len(spatial)
    count, size = cols.shape[-2 * k : -k], cols.shape[-k:]
    out = np.zeros((*cols.shape[: -2 * k], *spatial), cols.dtype)
    for at, part in np_taps(out, size, stride, dilation, count):
        part += cols[(..., *at)]
    return out


def _fold_by_views(cols: Tensor, spatial: Shape, stride: Shape, dilation: Shape) -> Tensor:
    """A sum of one shifted, dilated copy per position in the window: one kernel when fused."""
    k = len(spatial)
    shape = cols.shape
    if all(d == 1 or n == 1 for n, d in zip(shape[-k:], dilation, strict=True)):
        return _fold_by_phases(cols, spatial, stride)
    lead, count, size = shape[: -2 * k], shape[-2 * k : -k], shape[-k:]
    total: Tensor | None = None
    for at in np.ndindex(*size):
        one = mv.slice_(cols, (0,) * (len(shape) - k) + at, (*lead, *count) + (1,) * k)
        one = mv.dilate(mv.reshape(one, (*lead, *count)), stride)
        before = tuple(i * d for i, d in zip(at, dilation, strict=True))
        widths = tuple(
            (b, n - b - m) for b, n, m in zip(before, spatial, one.shape[-k:], strict=True)
        )
        one = mv.pad(one, ((0, 0),) * len(lead) + widths)
        total = one if total is None else total + one
    assert total is not None
    return total


def _fold_by_phases(cols: Tensor, spatial: Shape, stride: Shape) -> Tensor:
    """Elements that are a stride apart lie at the same places in their windows: along each dim,
    element s * t + a is the sum over q of place s * q + a in window t - q."""
    k = len(spatial)
    lead, count, size = cols.shape[: -2 * k], cols.shape[-2 * k : -k], cols.shape[-k:]
    first, phases = ((0, 0),) * len(lead), tuple(range(len(lead) + k, len(lead) + 2 * k))
    taps = [-(-n // s) for n, s in zip(size, stride, strict=True)]
    whole = [-(-n // s) for n, s in zip(spatial, stride, strict=True)]
    over = [(0, t * s - n) for t, s, n in zip(taps, stride, size, strict=True)]
    cols = mv.pad(cols, (*first, *((0, 0),) * k, *over))
    total: Tensor | None = None
    for at in np.ndindex(*taps):
        begin = tuple(q * s for q, s in zip(at, stride, strict=True))
        one = mv.slice_(
            cols, (0,) * (cols.ndim - k) + begin, (*lead, *count, *stride), (1,) * cols.ndim
        )
        ends = [(q, m - q - n) for q, m, n in zip(at, whole, count, strict=True)]
        one = mv.pad(one, (*first, *ends, *((0, 0),) * k))
        total = one if total is None else total + one
    assert total is not None
    order = [d for i in phases for d in (i - k, i)]
    total = mv.permute(total, (*range(len(lead)), *order))
    total = mv.reshape(total, (*lead, *[m * s for m, s in zip(whole, stride, strict=True)]))
    return mv.slice_(total, (0,) * (len(lead) + k), (*lead, *spatial), (1,) * (len(lead) + k))


def _side_by_side(cols: Tensor, spatial: Shape) -> Tensor:
    """`fold` of windows that follow each other without a gap."""
    k, shape = len(spatial), cols.shape
    lead = len(shape) - 2 * k
    order = [d for i in range(k) for d in (lead + i, lead + k + i)]
    whole = [shape[a] * shape[b] for a, b in zip(order[::2], order[1::2], strict=True)]
    out = mv.reshape(mv.permute(cols, (*range(lead), *order)), (*shape[:lead], *whole))
    if statically_equal(tuple(whole), tuple(spatial)):
        return out
    after = [(0, n - m) for n, m in zip(spatial, whole, strict=True)]
    return mv.pad(out, (((0, 0),) * lead + tuple(after)))


fold_op = Op(
    "fold", EXTERN, "cols", "spatial stride dilation",
    infer=mv.like(lambda s, n, st, d: (*s[: -2 * len(n)], *n)),
    numpy=_np_fold, fallback=_fold_by_views, batch=aligned,
    flops=lambda shapes, out: math.prod(shapes[0]),
    cols=lambda g, cols_spec, stride, dilation: sliding_windows(
        g, cols_spec.shape[-len(stride) :], stride, dilation
    ),
)  # fmt: skip


def sliding_windows(x: Tensor, size: Shape, stride: Shape, dilation: Shape) -> Tensor:
    """Sliding windows: (..., *spatial) -> (..., *positions, *size), a view."""
    return apply(sliding_windows_op, (x,), (tuple(size), tuple(stride), tuple(dilation)))


def fold(cols: Tensor, spatial: Shape, stride: Shape, dilation: Shape) -> Tensor:
    """The transpose of `sliding_windows`: overlapping elements are added."""
    k = len(spatial)
    size = cols.shape[-k:]
    if all(n == s and (d == 1 or n == 1) for n, s, d in zip(size, stride, dilation, strict=True)):
        return _side_by_side(cols, spatial)
    return apply(fold_op, (cols,), (tuple(spatial), tuple(stride), tuple(dilation)))


def unfold(self: Tensor, dimension: int, size: int, step: int) -> Tensor:
    """Windows of a dim, `step` apart, as a view: their elements are the last dim."""
    d = normalize_dim(dimension, self.ndim)
    shape = self.shape or (1,)
    if not 0 <= size <= shape[d]:
        raise RuntimeError(
            f"maximum size for tensor at dimension {d} is {shape[d]} but size is {size}"
        )
    if step <= 0:
        raise RuntimeError(f"step is {step} but must be > 0")
    x = mv.movedim(mv.reshape(self, shape), d, -1)
    out = sliding_windows(x, (size,), (step,), (1,))
    return mv.movedim(out, -2, d) if self.ndim else mv.reshape(out, (size,))


public(globals(), methods="unfold")
