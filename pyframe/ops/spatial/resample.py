"""Resampling: padding, interpolation and grids, all of them products or gathers along dims."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from typing import Any

import numpy as np

from pyframe.core import dtypes as dt, sizes
from pyframe.core.dispatch import apply
from pyframe.core.node import Lasting
from pyframe.ops.api import check
from pyframe.ops.api.public import public
from pyframe.ops.index.rows import take_rows
from pyframe.ops.index.select import index_select
from pyframe.ops.linalg.matmul import matmul
from pyframe.ops.math import elementwise as el
from pyframe.ops.reduce.reductions import sum as sum_
from pyframe.ops.shape import join, movement as mv
from pyframe.tensor import Tensor, upload

Shape = tuple[int, ...]


def along(x: Tensor, matrix: np.ndarray | Tensor, axis: int) -> Tensor:
    """A dim of x, n elements, through a matrix (m, n), of the host if it is an array: products of
    float32 or more."""
    axis %= x.ndim
    dtype = x.dtype if x.dtype in (dt.float32, dt.float64) else dt.float32
    if isinstance(matrix, Tensor):
        m = matrix.to(dtype)
    elif matrix.shape[0] == matrix.shape[1] and (matrix == np.eye(len(matrix))).all():
        return x
    else:
        m = upload(matrix.astype(dtype.numpy), x.device)
        m._storage.__class__ = Lasting
    shape = x.shape
    rest = math.prod(shape[axis + 1 :])
    wide = x.to(dtype)
    if rest == 1:
        flat = mv.reshape(wide, (math.prod(shape[:axis]), shape[axis]))
        out = matmul(flat, mv.transpose(m, 0, 1))
    else:
        out = matmul(m, mv.reshape(wide, (math.prod(shape[:axis]), shape[axis], rest)))
    return mv.reshape(out, (*shape[:axis], m.shape[0], *shape[axis + 1 :])).to(x.dtype)


def take_indices(x: Tensor, axis: int, indices: np.ndarray) -> Tensor:
    """index_select with positions that the host knows: slices where they run evenly."""
    axis %= x.ndim
    shape = x.shape
    n, count = shape[axis], len(indices)
    if count == n and (indices == np.arange(n)).all():
        return x
    repeats = count // n if count % n == 0 else 0
    if repeats and (indices == np.arange(count) // repeats).all():
        return repeated(x, axis, repeats)
    runs: list[tuple[int, int, int]] = []  # first index, how many, step
    at = 0
    while at < count and len(runs) <= 4:
        step = int(indices[at + 1] - indices[at]) if at + 1 < count else 1
        end = at + 1
        while end < count and indices[end] - indices[end - 1] == step:
            end += 1
        runs.append((int(indices[at]), end - at, step))
        at = end
    if len(runs) > 4:
        return index_select(x, axis, upload(indices.astype(np.int64), x.device))
    return take_runs(x, axis, runs)


def take_runs(x: Tensor, axis: int, runs: list[tuple[int, int, int]]) -> Tensor:
    """Slices of a dim after each other: of each the first index, how many, and the step."""
    shape, parts = x.shape, []
    for first, size, step in runs or [(0, 0, 1)]:
        if sizes.statically_equal((first, size, step), (0, shape[axis], 1)):
            parts.append(x)
            continue
        starts = tuple(first if d == axis else 0 for d in range(x.ndim))
        counts = tuple((size if step else 1) if d == axis else m for d, m in enumerate(shape))
        steps = tuple(step or 1 if d == axis else 1 for d in range(x.ndim))
        part = mv.slice_(x, starts, counts, steps)
        parts.append(part if step else mv.expand(part, (*shape[:axis], size, *shape[axis + 1 :])))
    return parts[0] if len(parts) == 1 else join.cat(parts, axis)


def repeated(x: Tensor, axis: int, times: int) -> Tensor:
    """Each element along an axis so many times."""
    shape = x.shape
    wide = (*shape[: axis + 1], times, *shape[axis + 1 :])
    return mv.reshape(mv.expand(mv.unsqueeze(x, axis + 1), wide),
                      (*shape[:axis], times * shape[axis], *shape[axis + 1 :]))  # fmt: skip


# --- padding


def constant_pad_nd(input: Tensor, pad: Any, value: Any = 0) -> Tensor:
    """`pad` elements of `value` at both ends of the last dims; negative ones cut. A copy."""
    pad = mv.as_ints("pad", (pad,))
    check.one_value("pad", value, input.dtype)
    if input.dtype.category == dt.INTEGER and type(value) in (int, float):
        limits = np.iinfo(input.dtype.numpy)
        if not limits.min <= value <= limits.max:  # of fill_ -1 wraps; here PyTorch refuses it
            raise RuntimeError(f"pad: value {value} is beyond {input.dtype.name}")
    if len(pad) % 2 or len(pad) > 2 * input.ndim:
        raise RuntimeError(
            f"pad: length must be divisible by 2 and at most {2 * input.ndim} for input of "
            f"dimension {input.ndim}, got {len(pad)}"
        )
    widths = [(0, 0)] * input.ndim
    for i in range(len(pad) // 2):
        widths[-1 - i] = (pad[2 * i], pad[2 * i + 1])
    for d, (n, (a, b)) in enumerate(zip(input.shape, widths, strict=True)):
        if n + a + b < 0 or -a > n or -b > n:
            raise RuntimeError(
                f"pad: The input size {n}, plus negative padding {a} and {b}, resulted in a "
                f"negative output size, which is invalid. Check dimension {d} of your input"
            )
    out = mv.pad(input, tuple(widths), value)
    return out.clone() if any(min(w) < 0 for w in widths) or out is input else out


def pad(input: Tensor, pad: Any, mode: str, value: Any) -> Tensor:
    """nn.functional.pad: elements of the input itself, or of one value, around its last dims."""
    if mode == "constant":
        return constant_pad_nd(input, pad, 0 if value is None else value)
    if value:
        raise ValueError(f"pad: Padding mode '{mode}' doesn't take in value argument")
    if mode not in _INDICES:
        raise NotImplementedError(
            f"pad: Unrecognised padding mode {mode!r}; use 'constant', 'reflect', 'replicate' or "
            "'circular'"
        )
    pad = mv.as_ints("pad", (pad,))
    k = len(pad) // 2
    lead = input.ndim - k
    if len(pad) % 2 or not 1 <= k <= 3 or lead not in (1, 2):
        raise NotImplementedError(
            f"pad: mode {mode!r} pads the last 1, 2 or 3 dims of (N, C, *) or (C, *) with 2, 4 or "
            f"6 numbers, but got shape {list(input.shape)} and {len(pad)} numbers"
        )
    if mode != "circular" and 0 in input.shape[lead - 1 :]:
        raise RuntimeError(
            f"pad: Expected {k + 1}D or {k + 2}D (batch mode) tensor with possibly 0 batch size "
            f"and other non-zero dimensions for input, but got: {list(input.shape)}"
        )
    out = input
    results = [input.shape[-1 - i] + pad[2 * i] + pad[2 * i + 1] for i in range(k)]
    for i, size in enumerate(results):
        n = input.shape[-1 - i]
        a, b = pad[2 * i], pad[2 * i + 1]
        left = n + min(a, 0) + min(b, 0)
        # PyTorch lets some of the dims end empty; of what is cut away nothing can repeat
        if size < 0 or (left < 1 <= size if mode == "circular" else all(s < 1 for s in results)):
            raise RuntimeError(
                f"pad: input of size {n} at dim {-1 - i}, plus padding {a} and {b}, results in an "
                "empty dimension"
            )
        most = {"reflect": n - 1, "circular": n}.get(mode)
        if most is not None and max(a, b) > most:
            raise RuntimeError(
                f"pad: Padding size should be at most {most} for {mode!r} padding of a dimension "
                f"of size {n}, but got {a} and {b} at dim {-1 - i}"
            )
        if sizes.is_symbolic((n, a, b)) and min(a, b) >= 0:
            around = {"reflect": ((a, -1), (n - 2, -1)), "replicate": ((0, 0), (n - 1, 0)),
                      "circular": ((n - a, 1), (0, 1))}[mode]  # fmt: skip
            runs = [(around[0][0], a, around[0][1]), (0, n, 1), (around[1][0], b, around[1][1])]
            out = take_runs(out, input.ndim - 1 - i, [run for run in runs if run[1]])
        else:
            out = take_indices(out, -1 - i, _INDICES[mode](n, a, b))
    return out.clone() if out is input else out


def _circular(n: int, before: int, after: int) -> np.ndarray:
    """What is left after cutting is what repeats."""
    start, end = max(-before, 0), n - max(-after, 0)
    return start + np.arange(-max(before, 0), end - start + max(after, 0)) % max(end - start, 1)


_INDICES: dict[str, Any] = {
    "reflect": lambda n, a, b: n - 1 - np.abs(n - 1 - np.abs(np.arange(-a, n + b))),
    "replicate": lambda n, a, b: np.clip(np.arange(-a, n + b), 0, n - 1),
    "circular": _circular,
}


# --- interpolation: along each dim a gather (nearest) or a product with a matrix of weights


def _step(n: int, count: int, corners: bool, scale: float | None, kind: Any) -> Any:
    """How far apart results are in the input, in the precision in which PyTorch computes it."""
    if corners:
        return kind(n - 1) / kind(count - 1) if count > 1 else kind(0)
    return kind(1 / scale) if scale else kind(n) / kind(count)


def nearest_indices(n: int, count: int, scale: float | None, exact: bool, kind: Any) -> np.ndarray:
    """The nearest of n elements to each of `count` results."""
    dt.check_room(count)
    step = _step(n, count, False, scale, kind)
    at = (np.arange(count).astype(kind) + kind(0.5 if exact else 0)) * step
    return np.minimum(np.floor(at).astype(np.int64), n - 1)


def nearest_of_sizes(x: Tensor, n: int, count: int, scale: float | None, exact: bool) -> Tensor:
    """`nearest_indices` where sizes change: they are computed."""
    step = 1 / scale if scale else n / count
    at = (el.cast(el.iota((count,), x.device), _wide(x)) + (0.5 if exact else 0.0)) * step
    return el.cast(el.clamp_max(el.floor(at), n - 1), dt.int64)


def _wide(x: Tensor) -> dt.dtype:
    return dt.float64 if x.dtype is dt.float64 else dt.float32


def _cubic(t: np.ndarray, a: float) -> np.ndarray:
    """The cubic convolution kernel of Keys at distances t; OpenCV takes a = -0.75, PIL -0.5."""
    t = np.abs(t)
    near = ((a + 2) * t - (a + 3)) * t * t + 1
    far = ((t - 5) * t + 8) * t * a - 4 * a
    return np.where(t <= 1, near, np.where(t < 2, far, 0))


@functools.lru_cache(32)
def weights(
    mode: str, n: int, count: int, corners: bool, scale: float | None, antialias: bool, kind: Any
) -> np.ndarray:
    """The matrix (count, n) of linear or cubic interpolation, or of a filter as wide as the step
    (`antialias`; https://pytorch.org/docs/stable/generated/torch.nn.functional.interpolate.html)."""
    dt.check_room(n, count)
    step = _step(n, count, corners, scale, kind)
    i = np.arange(count).astype(kind)
    out = np.zeros((count, n), kind)
    rows = np.arange(count)
    if antialias:
        wide = max(step, kind(1))
        support = wide * (1 if mode == "linear" else 2)
        center = step * (i + kind(0.5))
        first = np.maximum((center - support + kind(0.5)).astype(np.int64), 0)
        last = np.minimum((center + support + kind(0.5)).astype(np.int64), n)
        j = np.arange(n)
        t = (j - center[:, None] + kind(0.5)) / wide
        w = np.maximum(1 - np.abs(t), 0) if mode == "linear" else _cubic(t, -0.5)
        w = np.where((j >= first[:, None]) & (j < last[:, None]), w, 0)
        out[...] = w / w.sum(1, keepdims=True)
        return out
    at = i * step if corners else step * (i + kind(0.5)) - kind(0.5)
    if mode == "linear":
        at = np.maximum(at, 0)
    low = np.minimum(np.floor(at).astype(np.int64), n - 1)
    t = np.clip(at - low, 0, 1)
    for tap in (0, 1) if mode == "linear" else (-1, 0, 1, 2):
        w = (t if tap else 1 - t) if mode == "linear" else _cubic(t - tap, -0.75)
        np.add.at(out, (rows, np.clip(low + tap, 0, n - 1)), w)
    return out


def weights_of_sizes(
    x: Tensor, mode: str, n: int, count: int, corners: bool, scale: float | None
) -> Tensor:
    """`weights` where sizes change: they are computed."""
    step = (n - 1) / (count - 1) if corners and count > 1 else 1 / scale if scale else n / count
    i = el.cast(el.dim_indices(count, 1, x.device), _wide(x))
    at = i * step if corners else (i + 0.5) * step - 0.5
    if mode == "linear":
        at = el.relu(at)
    low = el.clamp_max(el.floor(at), n - 1)
    t, low, j = el.clamp(at - low, 0.0, 1.0), el.cast(low, dt.int32), el.iota((1, n), x.device)
    parts = []
    for tap in (0, 1) if mode == "linear" else (-1, 0, 1, 2):
        w = (t if tap else 1.0 - t) if mode == "linear" else _cubic_weight(t, tap)
        parts.append(el.where(el.eq(el.clamp(low + tap, 0, n - 1), j), w, 0.0))
    return functools.reduce(el.add, parts)


# --- grids: values at places that a tensor gives


def affine_grid_generator(theta: Tensor, size: Any, align_corners: bool) -> Tensor:
    """(N, k, k + 1) affine maps as grids (N, *spatial, k) of what grid_sampler reads."""
    sizes = tuple(int(n) for n in size)
    spatial = sizes[2:]
    lines = []
    for n in spatial:
        line = np.linspace(-1, 1, n) if n > 1 else np.zeros(1)
        lines.append(line if align_corners or n < 2 else line * ((n - 1) / n))
    mesh = np.meshgrid(*lines, indexing="ij")
    base = np.stack([*reversed(mesh), np.ones(spatial)], -1).reshape(-1, len(spatial) + 1)
    points = upload(base.astype(theta.dtype.numpy), theta.device, theta.dtype)
    points._storage.__class__ = Lasting
    out = matmul(points, mv.transpose(theta, 1, 2))
    return mv.reshape(out, (sizes[0], *spatial, len(spatial)))


def _inside(at: Tensor, n: int, padding: int, corners: bool) -> Tensor:
    """Coordinates brought back into 0..n-1: by the border (1) or by reflection (2)."""
    if padding == 2:
        low, span = (0.0, n - 1.0) if corners else (-0.5, 1.0 * n)
        if span == 0:
            return at * 0.0
        away = el.abs(at - low)
        rest = el.fmod(away, span)
        even = el.eq(el.remainder(el.floor(away.detach() / span), 2.0), 0.0)
        at = el.where(even, rest + low, (span + low) - rest)
    if padding:  # no gradient at the ends themselves
        at = el.where(el.le(at, 0.0), 0.0, el.where(el.ge(at, n - 1.0), n - 1.0, at))
    return at


def _cubic_weight(t: Tensor, tap: int) -> Tensor:
    """`_cubic` at distance |t - tap| for 0 <= t <= 1, as ops."""
    a = -0.75
    d = t + 1.0 if tap == -1 else t if tap == 0 else 1.0 - t if tap == 1 else 2.0 - t
    if tap in (0, 1):
        return ((a + 2) * d - (a + 3)) * d * d + 1.0
    return ((d - 5.0) * d + 8.0) * d * a - 4 * a


def grid_sampler(
    input: Tensor, grid: Tensor, interpolation_mode: int, padding_mode: int, align_corners: bool
) -> Tensor:
    """`input` (N, C, *spatial) at `grid` (N, *out, k), in -1..1 with x first: (N, C, *out).

    interpolation_mode: 0 linear, 1 nearest, 2 cubic (2-d only); padding_mode: 0 zeros, 1 border,
    2 reflection.
    """
    k = input.ndim - 2
    if k not in (2, 3) or grid.ndim != input.ndim or grid.shape[-1] != k:
        raise RuntimeError(
            "grid_sampler(): expected 4D or 5D input and grid with same number of dimensions, the "
            f"grid's last of size {max(k, 0)}, but got input with sizes {list(input.shape)} and "
            f"grid with sizes {list(grid.shape)}"
        )
    batch, channels, *spatial = input.shape
    if grid.shape[0] != batch:
        raise RuntimeError(
            "grid_sampler(): expected grid and input to have same batch size, but got input with "
            f"sizes {list(input.shape)} and grid with sizes {list(grid.shape)}"
        )
    if 0 in spatial:
        raise RuntimeError(
            "grid_sampler(): expected input to have non-empty spatial dimensions, but input has "
            f"sizes {list(input.shape)}"
        )
    if input.dtype is not grid.dtype or input.dtype.category != dt.FLOAT:
        raise RuntimeError(
            "grid_sampler(): expected input and grid to have the same floating point dtype, but "
            f"input has {input.dtype.name} and grid has {grid.dtype.name}"
        )
    if interpolation_mode == 2 and k == 3:
        raise RuntimeError("grid_sampler(): bicubic interpolation only supports 4D input")
    if interpolation_mode not in (0, 1, 2) or padding_mode not in (0, 1, 2):
        raise ValueError(
            "grid_sampler(): expected interpolation_mode and padding_mode of 0, 1 or 2, but got "
            f"{interpolation_mode} and {padding_mode}"
        )
    area, shape = math.prod(spatial), grid.shape[1:-1]
    points = mv.reshape(grid, (batch, math.prod(shape), k))
    # Rows of channels, and a row of zeros for what is outside
    rows = mv.reshape(mv.movedim(input, 1, -1), (batch * area, channels))
    rows = mv.pad(rows, ((0, 1), (0, 0)))
    flat = mv.expand(el.iota((1, batch, 1), input.device), (1, batch, math.prod(shape)))
    ok, weight, taps = el.ge(flat, 0), None, 1
    for d, n in enumerate(spatial):
        at = mv.select(points, -1, k - 1 - d)
        at = (at + 1.0) * ((n - 1) / 2) if align_corners else ((at + 1.0) * n - 1.0) / 2.0
        position, inside, w = _taps(at, n, interpolation_mode, padding_mode, align_corners)
        taps = flat.shape[0] * position.shape[0]  # each so far with each of this dim
        whole = (taps, batch, math.prod(shape))
        flat = mv.reshape(mv.unsqueeze(flat, 1) * n + position, whole)
        ok = mv.reshape(el.logical_and(mv.unsqueeze(ok, 1), inside), whole)
        if w is not None:
            weight = w if weight is None else mv.reshape(mv.unsqueeze(weight, 1) * w, whole)
    index = mv.reshape(el.where(ok, flat, batch * area), (-1,))
    out = apply(take_rows, (rows, index))
    if weight is not None:
        values = mv.reshape(out, (taps, batch * math.prod(shape), channels))
        weight = mv.reshape(el.where(ok, weight, 0.0), (taps, batch * math.prod(shape), 1))
        out = sum_(values * weight, 0)
    elif grid.requires_grad:  # which has a gradient of zeros
        at = mv.reshape(mv.select(points, -1, 0), (-1,))
        out = out + mv.unsqueeze(el.where(el.lt(index, 0), at, 0.0), -1)
    return mv.movedim(mv.reshape(out, (batch, *shape, channels)), -1, 1).contiguous()


def _taps(at: Tensor, n: int, mode: int, padding: int, corners: bool) -> Any:
    """Neighbours along a dim (taps, *at.shape): positions, whether they are in 0..n-1, weights."""
    if mode != 2:
        at = _inside(at, n, padding, corners)
    low = el.round_(at.detach()) if mode == 1 else el.floor(at.detach())
    taps = {0: (0, 1), 1: (0,), 2: (-1, 0, 1, 2)}[mode]
    position = low + mv.reshape(el.iota((len(taps),), at.device) + taps[0], (-1, 1, 1)).to(at.dtype)
    if mode == 2:
        position = _inside(position, n, padding, corners)
    inside = el.logical_and(el.ge(position, 0.0), el.le(position, n - 1.0))
    t = at - low
    w = None
    if mode != 1:
        w = join.stack([1.0 - t, t] if mode == 0 else [_cubic_weight(t, tap) for tap in taps])
    return el.where(inside, position, 0.0).to(dt.int32), inside, w


def _of_dims(name: str, ndim: int) -> Callable[..., Tensor]:
    def run(
        input: Tensor, grid: Tensor, interpolation_mode: int, padding_mode: int, align_corners: bool
    ) -> Tensor:
        if input.ndim != ndim:
            raise RuntimeError(f"{name}: expected a {ndim}D input, got {list(input.shape)}")
        return grid_sampler(input, grid, interpolation_mode, padding_mode, align_corners)

    run.__name__ = name
    return run


grid_sampler_2d = _of_dims("grid_sampler_2d", 4)
grid_sampler_3d = _of_dims("grid_sampler_3d", 5)

public(
    globals(), functions="""affine_grid_generator constant_pad_nd grid_sampler grid_sampler_2d
    grid_sampler_3d""", cpu_float32="grid_sampler grid_sampler_2d grid_sampler_3d",
    gpu_widest="grid_sampler grid_sampler_2d grid_sampler_3d",
)  # fmt: skip
