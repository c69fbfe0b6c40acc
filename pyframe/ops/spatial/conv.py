"""Convolution and its transpose in any number of spatial dims.

The three products of a convolution (its result, the gradients of its input and its weight) are
ops of their own, each linear in both operands, so that their gradients are one another.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from pyframe.codegen.numpy import routines
from pyframe.core import dtypes as dt
from pyframe.core.dispatch import apply
from pyframe.core.op import EXTERN, Op
from pyframe.core.sizes import is_symbolic, is_symbolic_size, size_hint, statically_equal, sym_max
from pyframe.core.view import window_count
from pyframe.ops.api import check
from pyframe.ops.api.batching_rules import BatchedCall, into_dim, out_of_dim
from pyframe.ops.linalg.matmul import MAX_THREAD_COLUMNS, matmul, matmul_op, sum_over
from pyframe.ops.math.complex import conj
from pyframe.ops.math.elementwise import add, copy
from pyframe.ops.reduce.reductions import sum as sum_
from pyframe.ops.shape import movement as mv
from pyframe.ops.spatial import sliding
from pyframe.tensor import Tensor

Shape = tuple[int, ...]
TILE = 64  # rows and columns of a product that a workgroup computes
TILE_SHARING_IMAGES = 4  # images: fewer share no tile
BUSY_WORKGROUPS = 128  # workgroups that keep a GPU busy
FEW_CHANNELS = 2  # channels of a group, of which a product would leave most of a tile empty
product: Any = matmul_op.numpy  # float16 is added up in float32


def _pad_np(x: np.ndarray, padding: Shape, value: float = 0) -> np.ndarray:
    if not any(padding):
        return x
    widths = ((0, 0),) * (x.ndim - len(padding)) + tuple((p, p) for p in padding)
    return mv.np_pad(x, widths, value)


def _columns(x: np.ndarray, kernel: Shape, stride: Shape, dilation: Shape, groups: int) -> Any:
    """(N, C, *spatial) -> (N, groups, C/groups * prod(kernel), prod(positions))."""
    k = len(kernel)
    win = sliding.np_sliding_windows(x, kernel, stride, dilation)
    n, c, *count = win.shape[: 2 + k]
    win = np.moveaxis(win, range(2, 2 + k), range(2 + k, 2 + 2 * k))  # kernel, then positions
    return win.reshape(n, groups, c // groups * math.prod(kernel), math.prod(count))


def _conv_np(
    x: np.ndarray, w: np.ndarray, stride: Shape, padding: Shape, dilation: Shape, groups: int
) -> np.ndarray:
    kernel = w.shape[2:]
    x = _pad_np(x, padding)
    count = window_count(x.shape[2:], kernel, stride, dilation)
    cols = _columns(x, kernel, stride, dilation, groups)
    rows = w.reshape(groups, w.shape[0] // groups, math.prod(w.shape[1:]))
    return product(rows, cols).reshape((x.shape[0], w.shape[0], *count))


def _conv_input_np(
    g: np.ndarray, w: np.ndarray, spatial: Shape, stride: Shape, padding: Shape, dilation: Shape,
    groups: int,
) -> np.ndarray:  # fmt: skip
    if g.dtype == np.float16:  # what overlaps is added up in float32
        g, w = g.astype(np.float32), w.astype(np.float32)
        out = _conv_input_np(g, w, spatial, stride, padding, dilation, groups)
        return out.astype(np.float16)
    kernel, count, n = w.shape[2:], g.shape[2:], g.shape[0]
    rows = w.reshape(groups, w.shape[0] // groups, math.prod(w.shape[1:])).swapaxes(1, 2)
    cols = product(rows, g.reshape(n, groups, g.shape[1] // groups, math.prod(count)))
    cols = cols.reshape(n, groups * w.shape[1], *kernel, *count)
    padded = tuple(s + 2 * p for s, p in zip(spatial, padding, strict=True))
    out = np.zeros((n, groups * w.shape[1], *padded), g.dtype)
    for at, part in sliding.np_taps(out, kernel, stride, dilation, count):
        part += cols[(slice(None), slice(None), *at)]
    inner = tuple(slice(p, p + s) for p, s in zip(padding, spatial, strict=True))
    return np.ascontiguousarray(out[(..., *inner)])


def _conv_weight_np(
    g: np.ndarray, x: np.ndarray, kernel: Shape, stride: Shape, padding: Shape, dilation: Shape,
    groups: int,
) -> np.ndarray:  # fmt: skip
    cols = _columns(_pad_np(x, padding), kernel, stride, dilation, groups)
    rows = g.reshape(g.shape[0], groups, g.shape[1] // groups, math.prod(g.shape[2:]))
    out = product(rows, cols.swapaxes(2, 3)).sum(0)
    return out.reshape(g.shape[1], x.shape[1] // groups, *kernel)


def _pad(x: Tensor, padding: Shape, value: Any = 0) -> Tensor:
    return mv.pad(x, ((0, 0),) * (x.ndim - len(padding)) + tuple((p, p) for p in padding), value)


def window_columns(
    x: Tensor, kernel: Shape, stride: Shape, padding: Shape, dilation: Shape, groups: int,
    positions_last: bool,
) -> Tensor:  # fmt: skip
    """The columns of a convolution as a view: the product's kernel reads straight through it."""
    k = len(kernel)
    # (N, C, *positions, *kernel)
    win = sliding.sliding_windows(_pad(x, padding), kernel, stride, dilation)
    n, c = win.shape[:2]
    count = win.shape[2 : 2 + k]
    win = mv.reshape(win, (n, groups, c // groups, *count, *kernel))
    at, ker = list(range(3, 3 + k)), list(range(3 + k, 3 + 2 * k))
    rows, p = c // groups * math.prod(kernel), math.prod(count)
    if positions_last:
        return mv.reshape(mv.permute(win, (0, 1, 2, *ker, *at)), (n, groups, rows, p))
    return mv.reshape(mv.permute(win, (0, 1, *at, 2, *ker)), (n, groups, p, rows))


def _conv_by_views(
    x: Tensor, w: Tensor, stride: Shape, padding: Shape, dilation: Shape, groups: int
) -> Tensor:
    kernel, o = w.shape[2:], w.shape[0]
    (shape, _) = _conv_infer(x._node, w._node, stride, padding, dilation, groups)
    cols = window_columns(x, kernel, stride, padding, dilation, groups, True)
    rows = mv.reshape(w, (1, groups, o // groups, math.prod(w.shape[1:])))
    if o // groups <= FEW_CHANNELS:
        return _summed(mv.unsqueeze(rows, -1), mv.unsqueeze(cols, 2), -2).reshape(shape)
    n, _, r, p = cols.shape
    if (
        is_symbolic(cols.shape)
        or n < TILE_SHARING_IMAGES
        or 7 * n * -(-p // TILE) < 8 * -(-n * p // TILE)
    ):
        return matmul(rows, cols).reshape(shape)
    cols = mv.permute(cols, (1, 2, 0, 3)).reshape((groups, r, n * p))  # images share tiles
    out = matmul(rows, cols).reshape((groups, o // groups, n, p))
    return copy(mv.permute(out, (2, 0, 1, 3))).reshape(shape)


def _summed(x: Tensor, y: Tensor, *dims: int) -> Tensor:
    """The sum of x * y over dims, without a product: each result is added up by itself."""
    dtype = x.dtype
    if dtype.itemsize == 2 and dtype.category == dt.FLOAT:
        x, y = x.to(dt.float32), y.to(dt.float32)
    return sum_over(x * y, *dims).to(dtype)


def _conv_input_by_views(
    g: Tensor, w: Tensor, spatial: Shape, stride: Shape, padding: Shape, dilation: Shape,
    groups: int,
) -> Tensor:  # fmt: skip
    """A convolution of the dilated, padded gradient with the flipped, transposed weight, where it
    is not several that are spared the zeros."""
    kernel = w.shape[2:]
    dilation = tuple(1 if m == 1 else d for m, d in zip(kernel, dilation, strict=True))
    common = tuple(map(math.gcd, stride, dilation))
    if max(common) > 1:
        return _conv_input_of_some(g, w, spatial, stride, padding, dilation, groups, common)
    steps = max(stride) > 1 == max(dilation)
    if steps and all(k < s for k, s in zip(kernel, stride, strict=True)):
        return _conv_input_apart(g, w, spatial, stride, padding, groups)
    if steps:
        return _conv_input_by_phases(g, w, spatial, stride, padding, groups)
    return _conv_input_together(g, w, spatial, stride, padding, dilation, groups)


def _conv_input_together(
    g: Tensor, w: Tensor, spatial: Shape, stride: Shape, padding: Shape, dilation: Shape,
    groups: int,
) -> Tensor:  # fmt: skip
    """Where a stride s and a dilation d have no common divisor tap s * q + j adds to results
    d * j + s * v alone, counted with the padding: the sum over q of g[v - d * q] * w[s * q + j].
    That is one convolution for all j, whose results are put to their places."""
    (n, o, *count), (_, c, *kernel), k = g.shape, w.shape, len(spatial)
    taps, ways, first = _over(kernel, stride), tuple(map(min, kernel, stride)), []
    around, ends = [], []
    for i, m, f, s, p, d, t, j in zip(
        spatial, count, kernel, stride, padding, dilation, taps, ways, strict=True
    ):
        first.append(sym_max(-((d * (j - 1) - p) // s), 0))
        last = sym_max(-(-(i + p) // s), first[-1] + 1)
        around.append((d * (t - 1) - first[-1], last - m))
        ends.append((0, t * j - f))
    w = mv.pad(w, ((0, 0), (0, 0), *ends)).reshape((groups, o // groups, c, *_pairs(taps, ways)))
    starts = (0, 0, 0, *_pairs([t - 1 for t in taps], (0,) * k))
    w = mv.slice_(w, starts, w.shape, (1, 1, 1, *_pairs((-1,) * k, (1,) * k)))
    w = mv.permute(w, (0, *range(4, 4 + 2 * k, 2), 2, 1, *range(3, 3 + 2 * k, 2)))
    w = w.reshape((groups * math.prod(ways) * c, o // groups, *taps))
    g = mv.pad(g, ((0, 0), (0, 0), *around))
    out = _conv_by_views(g, w, (1,) * k, (0,) * k, dilation, groups)
    if max(stride) == 1:
        return out
    out = out.reshape((n, groups, *ways, c, *out.shape[2:]))
    out = mv.permute(out, (0, 1, k + 2, *_pairs(range(2, k + 2), range(k + 3, 2 * k + 3))))
    places = zip(spatial, stride, padding, dilation, first, ways, strict=True)
    for at, (i, s, p, d, v, j) in enumerate(places, 3):
        before, after = out.shape[:at], out.shape[at + 2 :]
        shape, end = (*before, i, *after), (0,) * len(after)
        steps = (1,) * at + (s,) + (1,) * len(after)
        parts = [
            mv.unslice(mv.select(out, at, x), shape, (0,) * at + (s * v + d * x - p, *end), steps)
            for x in range(j)
        ]
        out = functools.reduce(add, parts)
    return out.reshape((n, groups * c, *spatial))


def _conv_input_of_some(
    g: Tensor, w: Tensor, spatial: Shape, stride: Shape, padding: Shape, dilation: Shape,
    groups: int, common: Shape,
) -> Tensor:  # fmt: skip
    """Where the windows start and their taps lie at multiples of a number, all else is zeros."""
    first, count = _over(padding, common), []
    for n, p, f, at in zip(spatial, padding, common, first, strict=True):
        count.append(sym_max(-(-(n + p) // f) - at, 1))
    stride = tuple(s // f for s, f in zip(stride, common, strict=True))
    dilation = tuple(d // f for d, f in zip(dilation, common, strict=True))
    out = _conv_input_by_views(g, w, tuple(count), stride, first, dilation, groups)
    out = mv.dilate(out, common)
    widths = []
    for n, m, p, f, at in zip(spatial, out.shape[2:], padding, common, first, strict=True):
        widths.append((at * f - p, n - m - at * f + p))
    return copy(mv.pad(out, ((0, 0), (0, 0), *widths)))


def _conv_input_apart(
    g: Tensor, w: Tensor, spatial: Shape, stride: Shape, padding: Shape, groups: int
) -> Tensor:
    """Of windows that do not touch: what each adds, with zeros in between."""
    (n, o, *count), (_, c, *kernel), k = g.shape, w.shape, len(spatial)
    p = math.prod(count)
    rows = mv.transpose(w.reshape((groups, o // groups, c * math.prod(kernel))), 1, 2)
    cols = mv.permute(g.reshape((n, groups, o // groups, p)), (1, 2, 0, 3))
    out = matmul(rows, cols.reshape((groups, o // groups, n * p)))
    out = out.reshape((groups, c, *kernel, n, *count))
    places = _pairs(range(3 + k, 3 + 2 * k), range(2, 2 + k))
    out = mv.permute(out, (2 + k, 0, 1, *places))
    gaps = [(0, s - m) for m, s in zip(kernel, stride, strict=True)]
    out = mv.pad(out, ((0, 0),) * 3 + tuple(w for gap in gaps for w in ((0, 0), gap)))
    whole = [m * s for m, s in zip(count, stride, strict=True)]
    widths = [(-q, m + q - t) for q, m, t in zip(padding, spatial, whole, strict=True)]
    return copy(mv.pad(out.reshape((n, groups * c, *whole)), ((0, 0), (0, 0), *widths)))


def _conv_input_by_phases(
    g: Tensor, w: Tensor, spatial: Shape, stride: Shape, padding: Shape, groups: int
) -> Tensor:
    """Results that are a stride apart take the same taps of the kernel: along each dim, result
    s * t + a is the sum over q of g[t + (a + p) // s - q] * w[s * q + (a + p) % s]."""
    n, c, k = g.shape[0], w.shape[1], len(spatial)
    m, taps = g.shape[1] // groups, _over(w.shape[2:], stride)
    count = _over(spatial, stride)
    whole = tuple(t * s for t, s in zip(count, stride, strict=True))
    win = _phases_of_windows(g, count, taps, stride, padding)
    win = win.reshape((n, groups, m, *count, *_pairs(taps, stride)))
    w = _phases_of_weight(w, taps, stride, padding).reshape((groups, m, c, *_pairs(taps, stride)))
    at, tap, phase = range(3, 3 + k), range(3 + k, 3 + 3 * k, 2), range(4 + k, 4 + 3 * k, 2)
    w_tap, w_phase = range(3, 3 + 2 * k, 2), range(4, 4 + 2 * k, 2)
    r, p = m * math.prod(taps), math.prod(count)
    if c <= FEW_CHANNELS:
        win = mv.permute(win, (0, 1, 2, *tap, *_pairs(at, phase)))
        w = mv.permute(w, (0, 2, 1, *w_tap, *w_phase)).reshape(
            (groups, c, r, *_pairs((1,) * k, stride))
        )
        w = mv.expand(w, (groups, c, r, *_pairs(count, stride))).reshape((1, groups, c, r, *whole))
        out = _summed(win.reshape((n, groups, 1, r, *whole)), w, 3)
    else:
        phases = math.prod(stride)
        win = mv.permute(win, (*phase, 1, 2, *tap, 0, *at)).reshape((phases, groups, r, n * p))
        w = mv.permute(w, (*w_phase, 0, 2, 1, *w_tap)).reshape((phases, groups, c, r))
        out = matmul(w, win).reshape((*stride, groups, c, n, *count))
        places = _pairs(range(k + 3, 2 * k + 3), range(k))
        out = copy(mv.permute(out, (k + 2, k, k + 1, *places)))
    out = out.reshape((n, groups * c, *whole))
    if statically_equal(whole, tuple(spatial)):
        return out
    return copy(mv.slice_(out, (0,) * (k + 2), (n, groups * c, *spatial), (1,) * (k + 2)))


def _phases_of_windows(
    g: Tensor, count: Shape, taps: Shape, stride: Shape, padding: Shape
) -> Tensor:
    """(N, O, *count, *sizes): what `taps` of each of `count` results take for each phase, the last
    tap first. With each element of `g` a stride long that is a window."""
    n, o, *spatial = g.shape
    widths = [
        (t - 1 - p // s, m + -(-p // s) - i)
        for m, t, s, p, i in zip(count, taps, stride, padding, spatial, strict=True)
    ]
    g = mv.pad(g, ((0, 0), (0, 0), *widths))
    g = mv.reshape(g, (n, o, *_pairs(g.shape[2:], (1,) * len(taps))))
    g = mv.expand(g, (n, o, *_pairs(g.shape[2::2], stride)))
    g = g.reshape((n, o, *[a * b for a, b in zip(g.shape[2::2], stride, strict=True)]))
    first = [p % s for p, s in zip(padding, stride, strict=True)]
    sizes = [(m + t - 1) * s for m, t, s in zip(count, taps, stride, strict=True)]
    g = mv.slice_(g, (0, 0, *first), (n, o, *sizes), (1,) * g.ndim)
    size = tuple(t * s for t, s in zip(taps, stride, strict=True))
    return sliding.sliding_windows(g, size, stride, (1,) * len(taps))


def _phases_of_weight(w: Tensor, taps: Shape, stride: Shape, padding: Shape) -> Tensor:
    """(O, C, *[tap, phase]): along each dim of the kernel its taps, the last one first, and the
    phases from that of the first result on."""
    size = [t * s for t, s in zip(taps, stride, strict=True)]
    widths = [(0, a - b) for a, b in zip(size, w.shape[2:], strict=True)]
    w = mv.pad(w, ((0, 0), (0, 0), *widths))
    w = w.reshape((*w.shape[:2], *_pairs(taps, stride)))
    for d, (s, p) in enumerate(zip(stride, padding, strict=True)):
        at = 3 + 2 * d  # of the phases
        w = mv.flip(w, at - 1)
        if p % s:
            before, after = w.shape[:at], w.shape[at:]
            twice = mv.expand(mv.unsqueeze(w, at), (*before, 2, *after))
            w = mv.part(twice.reshape((*before, 2 * s, *after[1:])), at, p % s, s)
    return w


def _over(a: Sequence[int], b: Sequence[int]) -> Shape:
    """a / b, dim by dim and rounded up."""
    return tuple(-(-x // y) for x, y in zip(a, b, strict=True))


def _pairs(a: Sequence[int], b: Sequence[int]) -> Shape:
    """a0, b0, a1, b1, …"""
    return tuple(x for pair in zip(a, b, strict=True) for x in pair)


def _conv_weight_by_views(
    g: Tensor, x: Tensor, kernel: Shape, stride: Shape, padding: Shape, dilation: Shape,
    groups: int,
) -> Tensor:  # fmt: skip
    """Of as many images as a product can take one after the other, then the sum of those."""
    n, o = g.shape[:2]
    if max(o, x.shape[1]) // groups <= FEW_CHANNELS:
        cols = window_columns(x, kernel, stride, padding, dilation, groups, True)
        rows = g.reshape((n, groups, o // groups, 1, math.prod(g.shape[2:])))
        out = _summed(rows, mv.unsqueeze(cols, 2), 0, -1)
        return out.reshape((o, x.shape[1] // groups, *kernel))
    cols = window_columns(x, kernel, stride, padding, dilation, groups, False)
    p, r = cols.shape[2:]
    apart = _images_apart(n, p, groups * -(-(o // groups) // TILE) * -(-r // TILE))
    each = n // apart
    rows = g.reshape((apart, each, groups, o // groups, p))
    rows = mv.permute(rows, (0, 2, 3, 1, 4)).reshape((apart, groups, o // groups, each * p))
    cols = mv.transpose(cols.reshape((apart, each, groups, p, r)), 1, 2)
    out = matmul(rows, cols.reshape((apart, groups, each * p, r)))
    return sum_(out, 0).reshape((o, x.shape[1] // groups, *kernel))


def _images_apart(n: int, positions: int, tiles: int) -> int:
    """Into how many parts n images are cut whose products are added up: few enough that there is
    little to add, as many as keep a GPU busy and its loops short."""
    if is_symbolic(n):
        return n
    wanted = max(
        -(-n * size_hint(positions) // MAX_THREAD_COLUMNS),
        -(-BUSY_WORKGROUPS // max(size_hint(tiles), 1)),
    )
    return next((d for d in range(min(wanted, n), n + 1) if d and n % d == 0), 1)


def _conv_infer(
    x: Any, w: Any, stride: Shape, padding: Shape, dilation: Shape, groups: int
) -> tuple[Shape, dt.dtype]:
    padded = tuple(n + 2 * p for n, p in zip(x.shape[2:], padding, strict=True))
    count = window_count(padded, w.shape[2:], stride, dilation)
    return (x.shape[0], w.shape[0], *count), x.dtype


def _input_infer(g: Any, w: Any, spatial: Shape, *a: Any) -> tuple[Shape, dt.dtype]:
    return (g.shape[0], w.shape[1] * a[-1], *spatial), g.dtype


def _weight_infer(g: Any, x: Any, kernel: Shape, *a: Any) -> tuple[Shape, dt.dtype]:
    return (g.shape[1], x.shape[1] // a[-1], *kernel), g.dtype


def _routine(slow: Any, infer: Any, lower: Any) -> dict[str, Any]:
    return {
        "infer": infer, "lower_extern": lower, "routine": f"conv.{lower.__name__}",
        "numpy": routines.at_once(lower, 2, infer, slow),
    }  # fmt: skip


def _batched(a: int, b: int, out: int) -> Callable[[BatchedCall], Tensor]:
    """The batching rule. Where each example has a weight of its own they are groups of one
    convolution: the batch goes into the dims `a`, `b` and `out` of the inputs and the result, those
    of channels."""

    def rule(c: BatchedCall) -> Tensor:
        if b == 0 and not c.flags[1]:  # one weight for all: more images
            x, w = c.xs
            y = apply(c.op, (mv.reshape(x, (-1, *x.shape[2:])), w), c.attrs)
            return mv.reshape(y, (c.size, *c.shape))
        x, w = c.all()
        attrs = (*c.attrs[:-1], c.attrs[-1] * c.size)
        return out_of_dim(apply(c.op, (into_dim(x, a), into_dim(w, b)), attrs), out, c.size)

    return rule


conv_op = Op(
    "conv", EXTERN, "x w", "stride padding dilation groups", fallback=_conv_by_views,
    batch=_batched(1, 0, 1), flops=lambda x, out: 2 * math.prod(out) * math.prod(x[1][1:]),
    **_routine(_conv_np, _conv_infer, routines.conv),
    x=lambda g, w, x_spec, stride, padding, dilation, groups: apply(
        conv_input_op, (g, conj(w)), (x_spec.shape[2:], stride, padding, dilation, groups)),
    w=lambda g, x, w_spec, stride, padding, dilation, groups: apply(
        conv_weight_op, (g, conj(x)), (w_spec.shape[2:], stride, padding, dilation, groups)),
)  # fmt: skip
conv_op.is_product = lambda x, w, stride, padding, *_: (
    math.prod(w.shape[2:]) == max(stride) == 1 and not any(padding)
)
conv_input_op = Op(
    "conv_input", EXTERN, "g_ w", "spatial stride padding dilation groups",
    fallback=_conv_input_by_views, batch=_batched(1, 0, 1),
    flops=lambda x, out: 2 * math.prod(x[0]) * math.prod(x[1][1:]),
    **_routine(_conv_input_np, _input_infer, routines.conv_input),
    g_=lambda g, w, stride, padding, dilation, groups: apply(
        conv_op, (g, conj(w)), (stride, padding, dilation, groups)),
    w=lambda g, g_, w_spec, stride, padding, dilation, groups: apply(
        conv_weight_op, (conj(g_), g), (w_spec.shape[2:], stride, padding, dilation, groups)),
)  # fmt: skip
conv_weight_op = Op(
    "conv_weight", EXTERN, "g_ x", "kernel stride padding dilation groups",
    fallback=_conv_weight_by_views, batch=_batched(1, 1, 0),
    flops=lambda x, out: 2 * math.prod(x[0]) * math.prod(out[1:]),
    **_routine(_conv_weight_np, _weight_infer, routines.conv_weight),
    g_=lambda g, x, stride, padding, dilation, groups: apply(
        conv_op, (conj(x), g), (stride, padding, dilation, groups)),
    x=lambda g, g_, x_spec, stride, padding, dilation, groups: apply(
        conv_input_op, (conj(g_), g), (x_spec.shape[2:], stride, padding, dilation, groups)),
)  # fmt: skip


def each(value: Any, k: int, name: str) -> Shape:
    """An int or a sequence of k ints (or of one) as k ints."""
    try:
        out = tuple(v if is_symbolic_size(v) else v.__index__() for v in value)
    except TypeError:
        try:
            out = (value if is_symbolic_size(value) else value.__index__(),)
        except (AttributeError, TypeError):
            raise TypeError(f"{name} must be an int or {k} ints, got {value!r}") from None
    except AttributeError:
        raise TypeError(f"{name} must be ints, got {value!r}") from None
    if len(out) == 1:
        out *= k
    if len(out) != k:
        raise RuntimeError(f"{name} must be an int or {k} ints, got {value!r}")
    return out


def _operands(
    name: str, k: int, input: Tensor, weight: Tensor, bias: Tensor | None, stride: Any,
    dilation: Any, groups: int, channels: int,
) -> tuple[Tensor, Shape, Shape]:  # fmt: skip
    """The input with its batch dim, stride and dilation; `channels` is the dim of the weight that
    says how many channels result."""
    x = mv.unsqueeze(input, 0) if input.ndim == k + 1 else input
    if x.ndim != k + 2 or weight.ndim != k + 2:
        raise RuntimeError(
            f"{name}: expected {k + 1}D (unbatched) or {k + 2}D (batched) input and {k + 2}D "
            f"weight, but got input of size {list(input.shape)} and weight {list(weight.shape)}"
        )
    stride, dilation = each(stride, k, f"{name}: stride"), each(dilation, k, f"{name}: dilation")
    if min(stride) <= 0 or min(dilation) <= 0 or groups <= 0:
        raise RuntimeError(f"{name}: non-positive stride, dilation or groups is not supported")
    if x.dtype is not weight.dtype or (bias is not None and bias.dtype is not weight.dtype):
        check.weight_dtype(name, x, weight, bias)
    if x.dtype is dt.bool_:
        raise RuntimeError(f"{name}: not implemented for bool; use .float() first")
    out, size = weight.shape[:2]
    expected = size * groups
    if channels:
        expected, out = out, size * groups
    if x.shape[1] != expected or weight.shape[0] % groups:
        raise RuntimeError(
            f"{name}: given groups={groups}, weight of size {list(weight.shape)}, expected "
            f"input{list(input.shape)} to have {expected} channels, but got "
            f"{x.shape[1]} channels instead{_other_place(input, expected, k)}"
        )
    if 0 in weight.shape[2:]:
        raise RuntimeError(f"{name}: kernel size should be greater than zero")
    if bias is not None and bias.shape != (out,):
        raise RuntimeError(
            f"{name}: expected bias to be 1-dimensional with {out} elements, but got bias of size "
            f"{list(bias.shape)}"
        )
    return x, stride, dilation


def _other_place(input: Tensor, channels: int, k: int) -> str:
    """Where the channels of an input seem to be, in words of a message."""
    if input.shape[-1] == channels:
        at = input.ndim - k - 1  # of the channels
        order = (*range(at), input.ndim - 1, *range(at, input.ndim - 1))
        return f"; its last dim has {channels}: where channels come last, give x.permute{order}"
    if channels == 1 and input.ndim == k + 1:
        return "; for a batch without a dim of channels give x.unsqueeze(1)"
    return ""


def _finished(out: Tensor, bias: Tensor | None, unbatched: bool, k: int) -> Tensor:
    if bias is not None:
        out = out + mv.reshape(bias, (-1,) + (1,) * k)
    return mv.squeeze(out, 0) if unbatched else out


def conv(
    name: str, k: int, input: Tensor, weight: Tensor, bias: Tensor | None, stride: Any,
    padding: Any, dilation: Any, groups: int,
) -> Tensor:  # fmt: skip
    """conv1d/2d/3d with PyTorch's arguments and errors."""
    x, stride, dilation = _operands(
        name, k, input, weight, bias, stride, dilation, groups, channels=0
    )
    kernel = weight.shape[2:]
    if isinstance(padding, str):
        x, padding = _named_padding(name, x, padding, kernel, stride, dilation)
    padding = each(padding, k, f"{name}: padding")
    if min(padding) < 0:
        raise RuntimeError(f"{name}: negative padding is not supported, got {list(padding)}")
    for n, p, m, d in zip(x.shape[2:], padding, kernel, dilation, strict=True):
        if n + 2 * p < d * (m - 1) + 1:
            raise RuntimeError(
                f"{name}: Calculated padded input size per channel: "
                f"{[a + 2 * b for a, b in zip(x.shape[2:], padding, strict=True)]}. Kernel "
                f"size: {list(kernel)}. Kernel size can't be greater than actual input size"
            )
    out = apply(conv_op, (x, weight), (stride, padding, dilation, groups))
    return _finished(out, bias, input.ndim == k + 1, k)


def conv_transpose(
    name: str, k: int, input: Tensor, weight: Tensor, bias: Tensor | None, stride: Any,
    padding: Any, output_padding: Any, groups: int, dilation: Any,
) -> Tensor:  # fmt: skip
    """conv_transpose1d/2d/3d: the gradient of a convolution's input, with PyTorch's arguments."""
    x, stride, dilation = _operands(
        name, k, input, weight, bias, stride, dilation, groups, channels=1
    )
    padding = each(padding, k, f"{name}: padding")
    extra = each(output_padding, k, f"{name}: output_padding")
    if min(padding) < 0 or min(extra) < 0:
        raise RuntimeError(
            f"{name}: negative padding is not supported, got padding {list(padding)} and "
            f"output_padding {list(extra)}"
        )
    if any(e >= max(s, d) for e, s, d in zip(extra, stride, dilation, strict=True)):
        raise RuntimeError(
            f"{name}: output padding must be smaller than either stride or dilation, but got "
            f"output_padding: {list(extra)} stride: {list(stride)} dilation: {list(dilation)}"
        )
    # A convolution of the result must have the input's size: what is over is cut or added after
    over = any(e >= s for e, s in zip(extra, stride, strict=True))
    inner = (0,) * k if over else padding
    size = tuple(
        (n - 1) * s - 2 * p + d * (m - 1) + (0 if over else e) + 1
        for n, s, p, d, m, e in zip(
            x.shape[2:], stride, inner, dilation, weight.shape[2:], extra, strict=True
        )
    )
    last = tuple(n + e - 2 * p for n, e, p in zip(size, extra, padding, strict=True))
    if min(last if over else size) <= 0:
        raise RuntimeError(
            f"{name}: given input size per channel: {list(x.shape[2:])}. Calculated output size "
            f"per channel: {list(last if over else size)}. Output size is too small"
        )
    out = apply(conv_input_op, (x, weight), (size, stride, inner, dilation, groups))
    if over:
        cut = tuple((-p, e - p) for p, e in zip(padding, extra, strict=True))
        out = mv.pad(out, ((0, 0), (0, 0), *cut))
    return _finished(out, bias, input.ndim == k + 1, k)


def _named_padding(
    name: str, x: Tensor, padding: str, kernel: Shape, stride: Shape, dilation: Shape
) -> tuple[Tensor, Shape]:
    k = len(kernel)
    if padding == "valid":
        return x, (0,) * k
    if padding != "same":
        raise RuntimeError(f"{name}: padding must be ints, 'valid' or 'same', got {padding!r}")
    if any(s != 1 for s in stride):
        raise RuntimeError(f"{name}: padding='same' is not supported for strided convolutions")
    total = [d * (m - 1) for d, m in zip(dilation, kernel, strict=True)]
    extra = ((0, 0), (0, 0), *((0, t % 2) for t in total))
    return mv.pad(x, extra), tuple(t // 2 for t in total)
