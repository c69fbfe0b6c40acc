"""Convolutions, pooling and resampling."""

from __future__ import annotations

import functools
import itertools
import math
from collections.abc import Iterator
from functools import reduce
from typing import Any

import numpy as np

import pyframe as pf
from pyframe.core.sizes import is_symbolic_size, statically_divides
from pyframe.nn import functional as F
from pyframe.onnx import values
from pyframe.onnx.operators.movement import padded
from pyframe.onnx.table import op
from pyframe.onnx.values import Host, ints
from pyframe.tensor import Tensor

_CONV = {1: F.conv1d, 2: F.conv2d, 3: F.conv3d}
_TRANSPOSED = {1: F.conv_transpose1d, 2: F.conv_transpose2d, 3: F.conv_transpose3d}
_MAX_POOL = {1: F.max_pool1d, 2: F.max_pool2d, 3: F.max_pool3d}
_AVG_POOL = {1: F.avg_pool1d, 2: F.avg_pool2d, 3: F.avg_pool3d}


def _known(functions: dict[int, Any], k: int) -> Any:
    if k not in functions:
        raise NotImplementedError(f"over {k} spatial dims")
    return functions[k]


def pads_of(
    auto_pad: str, pads: list[int] | None, size: Any, kernel: Any, strides: Any, dilations: Any
) -> tuple[list[int], list[int]]:
    """How much comes before and after each spatial dim."""
    k = len(kernel)
    if auto_pad in ("NOTSET", "VALID"):
        given = pads if pads is not None and auto_pad == "NOTSET" else [0] * (2 * k)
        return list(given[:k]), list(given[k:])
    before, after = [], []
    for n, f, s, d in zip(size, kernel, strides, dilations, strict=True):
        total = max((-(-n // s) - 1) * s + (f - 1) * d + 1 - n, 0)
        less = total // 2
        first = less if auto_pad == "SAME_UPPER" else total - less
        before.append(first)
        after.append(total - first)
    return before, after


@op("Conv")
def conv(
    x: Tensor, w: Tensor, b: Tensor | None = None, *, auto_pad: str = "NOTSET", group: int = 1,
    pads: Any = None, strides: Any = None, dilations: Any = None, kernel_shape: Any = None,
) -> Tensor:  # fmt: skip
    k = x.ndim - 2
    strides, dilations = strides or [1] * k, dilations or [1] * k
    before, after = pads_of(auto_pad, pads, x.shape[2:], w.shape[2:], strides, dilations)
    if before != after or min(before, default=0) < 0:
        x, before = padded(x, before, after), [0] * k
    return _known(_CONV, k)(x, w, b, strides, before, dilations, group)


@op("ConvTranspose")
def conv_transpose(
    x: Tensor, w: Tensor, b: Tensor | None = None, *, auto_pad: str = "NOTSET", group: int = 1,
    pads: Any = None, strides: Any = None, dilations: Any = None, kernel_shape: Any = None,
    output_padding: Any = None, output_shape: Any = None,
) -> Tensor:  # fmt: skip
    k = x.ndim - 2
    strides, dilations = strides or [1] * k, dilations or [1] * k
    more = output_padding or [0] * k
    whole = [
        s * (n - 1) + (f - 1) * d + 1
        for n, f, s, d in zip(x.shape[2:], w.shape[2:], strides, dilations, strict=True)
    ]
    before, after = pads_of(
        "NOTSET" if auto_pad.startswith("SAME") else auto_pad, pads, x.shape[2:], w.shape[2:],
        strides, dilations,
    )  # fmt: skip
    if auto_pad.startswith("SAME") or output_shape:
        asked = output_shape or [n * s for n, s in zip(x.shape[2:], strides, strict=True)]
        total = [n + m - a for n, m, a in zip(whole, more, asked[-k:], strict=True)]
        upper = auto_pad == "SAME_UPPER"
        before = [max(t // 2 if upper else t - t // 2, 0) for t in total]
        after = [t - b for t, b in zip(total, before, strict=True)]
    function = _known(_TRANSPOSED, k)
    fits = before == after and min(before, default=0) >= 0
    if fits and all(m < max(s, d) for m, s, d in zip(more, strides, dilations, strict=True)):
        return function(x, w, b, strides, before, more, group, dilations)
    y = function(x, w, None, strides, [0] * k, [0] * k, group, dilations)
    y = padded(y, [-n for n in before], [m - n for n, m in zip(after, more, strict=True)])
    return y if b is None else y + b.reshape(-1, *[1] * k)


@op("DeformConv")
def deform_conv(
    x: Tensor, w: Tensor, offset: Tensor, b: Tensor | None = None, mask: Tensor | None = None, *,
    group: int = 1, offset_group: int = 1, pads: Any = None, strides: Any = None,
    dilations: Any = None, kernel_shape: Any = None,
) -> Tensor:  # fmt: skip
    n, c, height, width = x.shape
    out, _, kh, kw = w.shape
    (sh, sw), (dh, dw) = strides or [1, 1], dilations or [1, 1]
    top, left = (pads or [0] * 4)[:2]
    oh, ow = offset.shape[-2:]
    moved = offset.reshape(n, offset_group, kh * kw, 2, oh, ow)
    ys = (pf.arange(oh, device=x.device) * sh - top).reshape(oh, 1)
    xs = (pf.arange(ow, device=x.device) * sw - left).reshape(1, ow)
    taps = pf.arange(kh * kw, device=x.device).reshape(-1, 1, 1)
    y = moved[:, :, :, 0] + ys + (taps // kw) * dh  # (n, offset_group, taps, oh, ow)
    z = moved[:, :, :, 1] + xs + (taps % kw) * dw
    planes = x.reshape(n * offset_group, c // offset_group, height, width)
    found = bilinear(planes, y.reshape(n * offset_group, -1), z.reshape(n * offset_group, -1))
    found = found.reshape(n, offset_group, c // offset_group, kh * kw, oh, ow)
    if mask is not None:
        found = found * mask.reshape(n, offset_group, 1, kh * kw, oh, ow)
    columns = found.reshape(n, group, c // group * kh * kw, oh * ow)
    y = (w.reshape(group, out // group, -1) @ columns).reshape(n, out, oh, ow)
    return y if b is None else y + b.reshape(-1, 1, 1)


def corners(planes: Tensor, y: Tensor, x: Tensor) -> Iterator[tuple[Tensor, Tensor, Tensor]]:
    """Of (N, C, H, W) the four values around each of (N, P) places between pixels, with their
    weights and whether they are inside."""
    n, c, height, width = planes.shape
    flat = planes.reshape(n, c, height * width)
    top, left = pf.floor(y), pf.floor(x)
    for i, j in itertools.product((0, 1), (0, 1)):
        row, column = top + i, left + j
        weight = (1 - pf.abs(y - row)) * (1 - pf.abs(x - column))
        inside = (row >= 0) & (row < height) & (column >= 0) & (column < width)
        at = (row.clamp(0, height - 1) * width + column.clamp(0, width - 1)).long()
        found = flat.gather(2, at[:, None].expand(n, c, at.shape[1]))
        yield found, weight[:, None], inside[:, None]


def bilinear(planes: Tensor, y: Tensor, x: Tensor) -> Tensor:
    """The values at places between pixels; outside there is 0."""
    return reduce(pf.add, [v * (weight * inside) for v, weight, inside in corners(planes, y, x)])


class Windows:
    """Where windows lie over the spatial dims, as ONNX counts them."""

    def __init__(
        self, x: Tensor, kernel: Any, auto_pad: str, pads: Any, strides: Any, dilations: Any,
        ceil_mode: int,
    ) -> None:  # fmt: skip
        k = len(kernel)
        self.size, self.kernel = x.shape[2:], kernel
        self.strides, self.dilations = strides or [1] * k, dilations or [1] * k
        self.before, self.after = pads_of(
            auto_pad, pads, self.size, kernel, self.strides, self.dilations
        )
        self.out = []
        for i, n in enumerate(self.size):
            s, reach = self.strides[i], self.dilations[i] * (kernel[i] - 1) + 1
            room = n + self.before[i] + self.after[i] - reach
            out = (-(-room // s) if ceil_mode else room // s) + 1
            if ceil_mode and (out - 1) * s >= n + self.before[i]:
                out -= 1
            self.out.append(out)
        #: what must come after each dim for exactly these windows
        self.end = [
            max((out - 1) * s + d * (f - 1) + 1 - n - b, 0)
            for out, s, d, f, n, b in zip(
                self.out, self.strides, self.dilations, kernel, self.size, self.before, strict=True
            )
        ]

    def plain(self) -> bool:
        """Whether pooling itself pads so."""
        exact = [
            (n + 2 * b - d * (f - 1) - 1) // s + 1
            for n, b, d, f, s in zip(
                self.size, self.before, self.dilations, self.kernel, self.strides, strict=True
            )
        ]
        half = all(2 * b <= f for b, f in zip(self.before, self.kernel, strict=True))
        return half and exact == self.out

    def taken(self, x: Tensor, i: int) -> Tensor:
        """(…, out, kernel) of a padded tensor in the place of its spatial dim i."""
        starts = np.arange(self.out[i]) * self.strides[i]
        places = starts[:, None] + np.arange(self.kernel[i]) * self.dilations[i]
        axis = i + 2
        found = x.index_select(axis, values.tensor(places.ravel(), x.device))
        return found.unflatten(axis, places.shape)

    def summed(self, x: Tensor) -> Tensor:
        """The sum over each window."""
        x = padded(x, self.before, self.end)
        for i in range(len(self.kernel)):
            x = self.taken(x, i).sum(i + 3)
        return x

    def counts(self, padding: bool) -> np.ndarray:
        """How many elements each window has, with those that pad or without."""
        total = np.ones((), np.float32)
        for i, n in enumerate(self.size):
            starts = np.arange(self.out[i]) * self.strides[i] - self.before[i]
            places = starts[:, None] + np.arange(self.kernel[i]) * self.dilations[i]
            low, high = (-self.before[i], n + self.after[i]) if padding else (0, n)
            total = np.multiply.outer(total, ((places >= low) & (places < high)).sum(1))
        return np.maximum(total, 1).astype(np.float32)


@op("MaxPool")
def max_pool(
    x: Tensor, *, kernel_shape: Any, auto_pad: str = "NOTSET", pads: Any = None,
    strides: Any = None, dilations: Any = None, ceil_mode: int = 0, storage_order: int = 0,
    outputs: int,
) -> Any:  # fmt: skip
    k = len(kernel_shape)
    of = Windows(x, kernel_shape, auto_pad, pads, strides, dilations, ceil_mode)
    function, kind = _known(_MAX_POOL, k), x.dtype
    x = x if kind.is_floating_point else x.float()
    room, before = x, of.before
    if not of.plain():
        room, before = padded(x, of.before, of.end, value=-math.inf), [0] * k
    found = function(
        room, kernel_shape, of.strides, before, of.dilations, False, return_indices=outputs > 1
    )
    if outputs == 1:
        return found.to(kind)
    found, at = found
    inside = room.shape[2:]
    first: Any = 0
    places = []
    for i in range(k)[::-1]:
        places.append(at % inside[i] - (0 if room is x else of.before[i]))
        at = at // inside[i]
    sizes = list(zip(places[::-1], of.size, strict=True))
    for place, n in sizes[::-1] if storage_order else sizes:
        first = first * n + place
    planes = pf.arange(x.shape[0] * x.shape[1], device=x.device) * math.prod(of.size)
    return found.to(kind), first + planes.reshape(*x.shape[:2], *[1] * k)


@op("AveragePool")
def average_pool(
    x: Tensor, *, kernel_shape: Any, auto_pad: str = "NOTSET", pads: Any = None,
    strides: Any = None, dilations: Any = None, ceil_mode: int = 0, count_include_pad: int = 0,
) -> Tensor:  # fmt: skip
    k = len(kernel_shape)
    of = Windows(x, kernel_shape, auto_pad, pads, strides, dilations, ceil_mode)
    if of.plain() and k in _AVG_POOL and set(of.dilations) == {1} and of.before == of.after:
        return _AVG_POOL[k](
            x, kernel_shape, of.strides, of.before, count_include_pad=bool(count_include_pad)
        )
    return of.summed(x) / values.tensor(of.counts(bool(count_include_pad)), x.device).to(x.dtype)


@op("LpPool")
def lp_pool(
    x: Tensor, *, kernel_shape: Any, p: float = 2, auto_pad: str = "NOTSET", pads: Any = None,
    strides: Any = None, dilations: Any = None, ceil_mode: int = 0,
) -> Tensor:  # fmt: skip
    of = Windows(x, kernel_shape, auto_pad, pads, strides, dilations, ceil_mode)
    return of.summed(pf.abs(x) ** p) ** (1 / p)


op("GlobalAveragePool")(lambda x: x.mean([*range(2, x.ndim)], keepdim=True))
op("GlobalMaxPool")(lambda x: pf.amax(x, [*range(2, x.ndim)], True))


@op("GlobalLpPool")
def global_lp_pool(x: Tensor, *, p: float = 2) -> Tensor:
    return (pf.abs(x) ** p).sum([*range(2, x.ndim)], keepdim=True) ** (1 / p)


@op("MaxUnpool")
def max_unpool(
    x: Tensor, at: Tensor, output_shape: Host | None = None, *, kernel_shape: Any,
    pads: Any = None, strides: Any = None,
) -> Tensor:  # fmt: skip
    k = len(kernel_shape)
    strides, pads = strides or [1] * k, pads or [0] * (2 * k)
    made = [
        (n - 1) * s - pads[i] - pads[k + i] + f
        for i, (n, s, f) in enumerate(zip(x.shape[2:], strides, kernel_shape, strict=True))
    ]
    shape = [*x.shape[:2], *made]
    flat = pf.zeros(math.prod(shape), dtype=x.dtype, device=x.device)
    found = flat.scatter(0, at.reshape(-1), x.reshape(-1)).reshape(shape)
    if output_shape is None:
        return found
    more = [n - m for n, m in zip(ints(output_shape)[2:], made, strict=True)]
    return padded(found, [0] * k, more)


@op("Col2Im")
def col2im(
    x: Tensor, image: Host, block: Host, *, dilations: Any = None, pads: Any = None,
    strides: Any = None,
) -> Tensor:  # fmt: skip
    size, kernel = ints(image), ints(block)
    k = len(size)
    strides, dilations, pads = strides or [1] * k, dilations or [1] * k, pads or [0] * (2 * k)
    full = [n + pads[i] + pads[k + i] for i, n in enumerate(size)]
    counts = [
        (n - d * (f - 1) - 1) // s + 1
        for n, d, f, s in zip(full, dilations, kernel, strides, strict=True)
    ]
    if math.prod(counts) != x.shape[2]:
        raise ValueError(f"Col2Im: expected {math.prod(counts)} blocks, got {x.shape[2]}")
    at = np.zeros((), np.int64)
    for i in range(k):
        places = np.arange(kernel[i])[:, None] * dilations[i] + np.arange(counts[i]) * strides[i]
        shape = [1] * (2 * k)
        shape[i], shape[k + i] = kernel[i], counts[i]
        at = at * full[i] + places.reshape(shape)
    n, c = x.shape[0], x.shape[1] // math.prod(kernel)
    flat = pf.zeros(n, c, math.prod(full), dtype=x.dtype, device=x.device)
    places = values.tensor(at.ravel(), x.device)
    found = flat.index_add(2, places, x.reshape(n, c, -1)).reshape(n, c, *full)
    return padded(found, [-p for p in pads[:k]], [-p for p in pads[k:]])


# --- resampling


def _coordinates(
    mode: str, n: int, out: int, scale: float, start: float, end: float, kind: Any = np.float64
) -> Any:
    """Where on the input each output lies; calculated in float32 that is the element that others
    find, who have the scale in float32 as well."""
    x = np.arange(out, dtype=kind)
    if mode == "asymmetric":
        return x / scale
    if mode == "align_corners":
        return x * ((n - 1) / (scale * n - 1)) if out > 1 else x * 0
    if mode == "tf_crop_and_resize":
        step = (end - start) * (n - 1) / (out - 1) if out > 1 else 0
        return start * (n - 1) + x * step if out > 1 else x + 0.5 * (start + end) * (n - 1)
    if mode == "half_pixel_symmetric":
        center = n / 2 * (1 - out / (scale * n))
        return center + (x + 0.5) / scale - 0.5
    if mode == "pytorch_half_pixel" and out == 1:
        return x * 0 - 0.5 + 0.5
    if mode == "tf_half_pixel_for_nn":
        return (x + 0.5) / scale
    return (x + 0.5) / scale - 0.5


def _nearest(x: Any, n: int, mode: str) -> Any:
    """Which element each is; what rounding left beside the middle of two is the middle."""
    if "round" in mode:
        middle = np.floor(x) + x.dtype.type(0.5)
        x = np.where(np.abs(x - middle) < 1e-6, middle, x)
    found = {
        "round_prefer_floor": lambda: np.ceil(x - 0.5),
        "round_prefer_ceil": lambda: np.floor(x + 0.5),
        "floor": lambda: np.floor(x),
        "ceil": lambda: np.ceil(x),
    }[mode]()
    return found.astype(np.int64).clip(0, n - 1)


def _weights(
    x: Any, n: int, cubic: float | None, scale: float, antialias: bool, exclude: bool
) -> np.ndarray:
    """The matrix (out, n) of a linear or, with a coefficient, cubic interpolation."""
    wide = max(1 / scale, 1.0) if antialias else 1.0
    reach = math.ceil((1 if cubic is None else 2) * wide)
    first = np.floor(x).astype(np.int64) - reach + 1
    places = first[:, None] + np.arange(2 * reach)
    t = np.abs(x[:, None] - places) / wide
    if cubic is None:
        weights = np.maximum(1 - t, 0)
    else:
        a = cubic
        near = ((a + 2) * t - (a + 3)) * t * t + 1
        far = ((a * t - 5 * a) * t + 8 * a) * t - 4 * a
        weights = np.where(t <= 1, near, np.where(t < 2, far, 0))
    inside = (places >= 0) & (places < n)
    if exclude:
        weights = weights * inside
    if exclude or antialias:
        weights = weights / weights.sum(1, keepdims=True)
    matrix = np.zeros((len(x), n))
    np.add.at(matrix, (np.arange(len(x))[:, None], places.clip(0, n - 1)), weights)
    return matrix.astype(np.float32)


def resized(
    x: Tensor, scales: list[float], sizes: list[int], *, mode: str, place: str = "asymmetric",
    nearest: str = "floor", cubic: float = -0.75, antialias: bool = False, exclude: bool = False,
    outside: float = 0.0, roi: Any = None,
) -> Tensor:  # fmt: skip
    """Each dim by itself: nearest takes rows, the smooth modes multiply by a matrix."""
    kind = x.dtype
    values.see_room(sizes, x.element_size())
    for i, (n, out, scale) in enumerate(zip(x.shape, sizes, scales, strict=True)):
        start, end = (roi[i], roi[len(sizes) + i]) if roi is not None else (0.0, 1.0)
        if n == out and scale == 1 and (start, end) == (0, 1):
            continue
        if mode == "nearest" and not is_symbolic_size(scale) and float(scale).is_integer():
            whole, few = int(scale), 4  # each row so often, which a few rows tell
            at = _coordinates(place, few, few * whole, scale, start, end, np.float32)
            times = place in ("asymmetric", "half_pixel")
            how = "floor" if nearest == "old" else nearest
            if times and (_nearest(at, few, how) == np.arange(few * whole) // whole).all():
                x = x.repeat_interleave(whole, i)
                continue
        n, out = int(n), int(out)
        kind_of = np.float32 if mode == "nearest" else np.float64
        at = _coordinates(place, n, out, scale, start, end, kind_of)
        if mode == "nearest":
            how = {"old": "ceil" if scale < 1 else "floor"}.get(nearest, nearest)
            places = _nearest(at, n, how)
            x = x.index_select(i, values.tensor(places, x.device))
        else:
            matrix = _weights(at, n, cubic if mode == "cubic" else None, scale, antialias, exclude)
            made = values.tensor(matrix, x.device)
            floats = x if x.dtype.is_floating_point else x.float()
            x = (floats.movedim(i, -1) @ made.to(floats.dtype).T).movedim(-1, i)
        if place == "tf_crop_and_resize":
            off = values.tensor((at < 0) | (at > n - 1), x.device)
            x = pf.where(off.reshape([-1 if d == i else 1 for d in range(x.ndim)]), outside, x)
    if x.dtype is not kind:
        low, high = pf.iinfo(kind).min, pf.iinfo(kind).max
        x = pf.round(x).clamp(low, high).to(kind)
    return x


def _times(n: Any, scale: float) -> Any:
    """A size that is scaled, in float32 as others do, who find 7 in 3 * (7 / 3)."""
    if type(n) is int:
        return math.floor(np.float32(n) * np.float32(scale))
    return math.floor(n * scale)


@op("Resize")
def resize(
    x: Tensor, roi: Host | None = None, scales: Host | None = None, sizes: Host | None = None, *,
    antialias: int = 0, axes: Any = None, coordinate_transformation_mode: str = "asymmetric",
    cubic_coeff_a: float = -0.75, exclude_outside: int = 0, extrapolation_value: float = 0.0,
    keep_aspect_ratio_policy: str = "stretch", mode: str = "nearest",
    nearest_mode: str = "floor", version: int,
) -> Tensor:  # fmt: skip
    if version < 11:  # it has no mode of its own for what is between: ceil where it gets smaller
        scales, roi, nearest_mode = roi, None, "old"
    axes = [a % x.ndim for a in axes] if axes else [*range(x.ndim)]
    ratios, wanted = [1.0] * x.ndim, list(x.shape)
    if sizes is not None and sizes.size:
        asked = ints(sizes)
        ratio = [n // x.shape[a] if statically_divides(x.shape[a], n) else n / x.shape[a]
                 for n, a in zip(asked, axes, strict=True)]  # fmt: skip
        if keep_aspect_ratio_policy != "stretch":
            one = (min if keep_aspect_ratio_policy == "not_larger" else max)(ratio)
            ratio = [one] * len(axes)
            asked = [math.floor(one * x.shape[a] + 0.5) for a in axes]
        for a, n, r in zip(axes, asked, ratio, strict=True):
            ratios[a], wanted[a] = r, n
    else:
        if scales is None:
            raise ValueError("Resize has neither sizes nor scales")
        for a, r in zip(axes, scales.tolist(), strict=True):
            ratios[a], wanted[a] = r, _times(x.shape[a], r)
    region = None
    if coordinate_transformation_mode == "tf_crop_and_resize" and roi is not None:
        region = [0.0] * x.ndim + [1.0] * x.ndim
        for j, a in enumerate(axes):
            region[a], region[x.ndim + a] = roi[j].item(), roi[len(axes) + j].item()
            if sizes is None or not sizes.size:
                share = region[x.ndim + a] - region[a]
                wanted[a] = math.floor(x.shape[a] * share * ratios[a])
    return resized(
        x, ratios, wanted, mode=mode, place=coordinate_transformation_mode, nearest=nearest_mode,
        cubic=cubic_coeff_a, antialias=bool(antialias), exclude=bool(exclude_outside),
        outside=extrapolation_value, roi=region,
    )  # fmt: skip


@op("Upsample")
def upsample(x: Tensor, scales: Host | None = None, *, mode: str, height_scale: float = 1.0,
             width_scale: float = 1.0) -> Tensor:  # fmt: skip
    by = [1.0, 1.0, height_scale, width_scale] if scales is None else np.ravel(scales).tolist()
    sizes = [_times(n, s) for n, s in zip(x.shape, by, strict=True)]
    mode = "nearest" if mode == "nearest" else "linear"
    return resized(x, by, sizes, mode=mode, nearest="old")


@op("GridSample")
def grid_sample(
    x: Tensor, grid: Tensor, *, align_corners: int, mode: str, padding_mode: str
) -> Tensor:
    mode = {"linear": "bilinear", "cubic": "bicubic"}.get(mode, mode)
    return F.grid_sample(x, grid, mode, padding_mode, bool(align_corners))


@op("RoiAlign")
def roi_align(
    x: Tensor, rois: Tensor, batch: Tensor, *, mode: str, output_height: int, output_width: int,
    sampling_ratio: int, spatial_scale: float,
    coordinate_transformation_mode: str = "output_half_pixel",
) -> Tensor:  # fmt: skip
    """Regions of the same number of samples are read at once."""
    half = coordinate_transformation_mode == "half_pixel"
    values.see_end(rois.shape[0], "regions")
    boxes = rois * spatial_scale - (0.5 if half else 0.0)
    size = boxes[:, 2:] - boxes[:, :2]  # (width, height)
    size = size if half else size.clamp(min=1.0)
    bins = size / pf.tensor([output_width, output_height], device=x.device)
    if sampling_ratio:
        grids: dict[Any, Any] = {(sampling_ratio, sampling_ratio): None}
    else:
        counts = pf.ceil(bins).long().tolist()
        grids = {(w, h): [i for i, c in enumerate(counts) if c == [w, h]] for w, h in counts}
    found: list[Any] = [None] * rois.shape[0]
    for (gw, gh), some in grids.items():
        if gw < 1 or gh < 1:  # a region without extent
            for i in some or ():
                found[i] = x.new_zeros((x.shape[1], output_height, output_width))
            continue
        index = [*range(rois.shape[0])] if some is None else some
        at = pf.tensor(index, device=x.device)
        box, step = boxes[at], bins[at]
        ys = box[:, 1:2] + _samples(output_height, gh, x) * step[:, 1:2]
        xs = box[:, 0:1] + _samples(output_width, gw, x) * step[:, 0:1]
        k, p, q = len(index), ys.shape[1], xs.shape[1]
        y, z = ys[:, :, None].expand(k, p, q), xs[:, None].expand(k, p, q)
        of = x.index_select(0, batch.long()[at])
        height, width = x.shape[2:]
        inside = (y >= -1) & (y <= height) & (z >= -1) & (z <= width)
        y, z = y.clamp(0, height - 1), z.clamp(0, width - 1)
        maxed = mode == "max"
        read = functools.partial(_greatest if maxed else bilinear, of)
        values_ = read(y.reshape(k, -1), z.reshape(k, -1)) * inside.reshape(k, 1, -1)
        parts = values_.reshape(k, -1, output_height, gh, output_width, gw)
        pooled = pf.amax(parts, [3, 5]) if maxed else parts.mean([3, 5])
        for j, i in enumerate(index):
            found[i] = pooled[j]
    if not found:
        return x.new_zeros((0, x.shape[1], output_height, output_width))
    return pf.stack(found)


def _samples(out: int, count: int, x: Tensor) -> Tensor:
    """Where samples lie along a dim, in bins."""
    places = np.arange(out)[:, None] + (np.arange(count) + 0.5) / max(count, 1)
    return values.tensor(places.ravel().astype(np.float32), x.device)


def _greatest(planes: Tensor, y: Tensor, x: Tensor) -> Tensor:
    """As `bilinear`, but of the four weighted corners the largest, as ONNX has it."""
    return pf.amax(pf.stack([v * weight for v, weight, _ in corners(planes, y, x)]), 0)


@op("MaxRoiPool")
def max_roi_pool(x: Tensor, rois: Host, *, pooled_shape: list[int], spatial_scale: float) -> Tensor:
    ph, pw = pooled_shape
    values.see_end(len(rois) * ph * pw, "cells")
    found = []
    for batch, *corners in rois.tolist():
        x1, y1, x2, y2 = (math.floor(v * spatial_scale + 0.5) for v in corners)
        h, w = max(y2 - y1 + 1, 1), max(x2 - x1 + 1, 1)
        for i, j in itertools.product(range(ph), range(pw)):
            rows = slice(max(y1 + i * h // ph, 0), max(y1 - (-(i + 1) * h // ph), 0))
            columns = slice(max(x1 + j * w // pw, 0), max(x1 - (-(j + 1) * w // pw), 0))
            part = x[int(batch), :, rows, columns]
            found.append(pf.amax(part, [1, 2]) if part.numel() else pf.zeros_like(x[0, :, 0, 0]))
    return pf.stack(found).reshape(-1, ph, pw, x.shape[1]).permute(0, 3, 1, 2)
