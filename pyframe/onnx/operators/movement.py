"""Operators that move elements, join them, and make new tensors."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

import pyframe as pf
from pyframe.nn import functional as F
from pyframe.onnx import values
from pyframe.onnx.graph import RunContext
from pyframe.onnx.table import op
from pyframe.onnx.values import Host, ints, whole
from pyframe.tensor import Tensor


@op("Shape")
def shape(x: Any, *, start: int = 0, end: int | None = None) -> Any:
    return values.sizes(x.shape[start:end])


@op("Size")
def size(x: Any) -> Any:
    return values.sizes([math.prod(x.shape)]).reshape(())


def target(shape: Any, asked: list[Any], zero: bool) -> list[Any]:
    """The shape that Reshape asks for: 0 stands for the same size."""
    return [shape[i] if type(n) is int and n == 0 and not zero else n for i, n in enumerate(asked)]


@op("Reshape")
def reshape(x: Tensor, shape: Host, *, allowzero: int = 0) -> Tensor:
    return x.reshape(target(x.shape, ints(shape), bool(allowzero)))


@op("Flatten")
def flatten(x: Tensor, *, axis: int) -> Tensor:
    axis = axis % x.ndim if axis < 0 else axis
    return x.reshape(math.prod(x.shape[:axis]), math.prod(x.shape[axis:]))


@op("Transpose")
def transpose(x: Tensor, *, perm: list[int] | None = None) -> Tensor:
    return x.permute(perm if perm is not None else [*range(x.ndim)][::-1])


@op("Squeeze")
def squeeze(x: Tensor, axes: Host | None = None) -> Tensor:
    if axes is None:
        return x.squeeze()
    axes = ints(axes)
    if any(x.shape[i] != 1 for i in axes):
        raise ValueError(f"Squeeze: of the shape {tuple(x.shape)} the dims {axes} are not all 1")
    return x.squeeze(tuple(axes))


@op("Unsqueeze")
def unsqueeze(x: Tensor, axes: Host) -> Tensor:
    ndim = x.ndim + len(ints(axes))
    places = {a % ndim for a in ints(axes)}
    return x[tuple(None if d in places else slice(None) for d in range(ndim))]


op("Concat")(lambda *xs, axis=1: pf.cat(xs, axis))


@op("Split")
def split(
    x: Tensor, split: Host | None = None, *, axis: int = 0, num_outputs: int | None = None,
    outputs: int,
) -> Any:  # fmt: skip
    if split is not None:
        values.see_end(split.size, "parts")
        return tuple(x.split(ints(split), axis))
    n = x.shape[axis]
    return tuple(x.split(max(-(-n // (num_outputs or outputs)), 1), axis))


def bounds(
    shape: Any, starts: Any, ends: Any, axes: Any, steps: Any
) -> list[tuple[int, Any, Any, Any]]:
    """(axis, start, stop, step) of a Slice, within the shape; negative steps stop at -1."""
    found = []
    starts, ends = ints(starts), ints(ends)
    axes = [*range(len(starts))] if axes is None else ints(axes)
    for axis, a, b, step in zip(
        axes, starts, ends, [1] * len(starts) if steps is None else ints(steps), strict=True
    ):
        n = shape[axis]
        a, b = (a + n if a < 0 else a), (b + n if b < 0 else b)
        if step > 0:
            a, b = min(max(a, 0), n), min(max(b, 0), n)
        else:
            a, b = min(max(a, 0), n - 1), min(max(b, -1), n - 1)
        found.append((axis, a, b, step))
    return found


@op("Slice")
def slice_(
    x: Tensor, starts: Host, ends: Host, axes: Host | None = None, steps: Host | None = None
) -> Tensor:
    for axis, start, stop, step in bounds(x.shape, starts, ends, axes, steps):
        if step < 0:
            x = x.flip(axis)
            n = x.shape[axis]
            start, stop, step = n - 1 - start, n - 1 - stop, -step
        index: list[Any] = [slice(None)] * (axis % x.ndim)
        x = x[(*index, slice(start, stop, step))]
    return x


@op("Expand")
def expand(x: Tensor, shape: Host) -> Tensor:
    return x.expand(pf.broadcast_shapes(x.shape, tuple(ints(shape))))


@op("Tile")
def tile(x: Tensor, repeats: Host, axis: Host | None = None) -> Tensor:
    if axis is None:
        return x.tile(tuple(ints(repeats)))
    times = [1] * x.ndim  # as version 1 has it: how often, along which axis
    times[whole(axis)] = whole(repeats)
    return x.tile(tuple(times))


def padded(x: Tensor, before: Any, after: Any, mode: str = "constant", value: Any = 0) -> Tensor:
    """`before` and `after` are sizes for each of the last dims; negative ones crop."""
    before, after, k = list(before), list(after), x.ndim - len(before)
    for i, (a, b) in enumerate(zip(before, after, strict=True)):
        if a < 0 or b < 0:
            n = x.shape[k + i]
            x = x.narrow(k + i, max(-a, 0), n - max(-a, 0) - max(-b, 0))
            before[i], after[i] = max(a, 0), max(b, 0)
    if not any(before) and not any(after):
        return x
    if mode == "constant":
        sizes = [n for pair in zip(before[::-1], after[::-1], strict=True) for n in pair]
        if x.dtype is pf.bool:
            return F.pad(x.to(pf.uint8), sizes, value=value).bool()
        return F.pad(x, sizes, value=value)
    torchs = {"reflect": "reflect", "edge": "replicate", "wrap": "circular"}[mode]
    used = [i for i, pair in enumerate(zip(before, after, strict=True)) if any(pair)]
    few = len(before) - used[0]  # of the last dims
    reach = [max(before[i], after[i]) < x.shape[k + i] for i in used]
    if few <= 3 and all(reach):  # views: no index is read
        sizes = [n for i in range(few) for n in (before[-1 - i], after[-1 - i])]
        spread = x.reshape(1, -1, *x.shape[x.ndim - few :])
        sums = [n + a + b for n, a, b in zip(x.shape[k:], before, after, strict=True)]
        return F.pad(spread, sizes, torchs).reshape([*x.shape[:k], *sums])
    for i, (a, b) in enumerate(zip(before, after, strict=True)):
        if a or b:
            places = np.pad(np.arange(x.shape[k + i]), (a, b), mode=mode)
            x = x.index_select(k + i, values.tensor(places, x.device))
    return x


@op("Pad")
def pad(
    x: Tensor, pads: Host | None = None, constant_value: Host | None = None,
    axes: Host | None = None, *, mode: str, value: float = 0.0, paddings: Any = None,
) -> Tensor:  # fmt: skip
    given = ints(pads if pads is not None else paddings)
    k = len(given) // 2
    before, after = [0] * x.ndim, [0] * x.ndim
    for i, axis in enumerate(range(k) if axes is None else ints(axes)):
        before[axis], after[axis] = given[i], given[k + i]
    filled = value if constant_value is None else constant_value.item()
    return padded(x, before, after, mode, filled)


@op("Trilu")
def trilu(x: Tensor, k: Host | None = None, *, upper: int) -> Tensor:
    diagonal = 0 if k is None else whole(k)
    return pf.triu(x, diagonal) if upper else pf.tril(x, diagonal)


@op("DepthToSpace")
def depth_to_space(x: Tensor, *, blocksize: int, mode: str = "DCR") -> Tensor:
    n, c, h, w = x.shape
    b = blocksize
    if mode == "CRD":
        return F.pixel_shuffle(x, b)
    x = x.reshape(n, b, b, c // (b * b), h, w).permute(0, 3, 4, 1, 5, 2)
    return x.reshape(n, c // (b * b), h * b, w * b)


@op("SpaceToDepth")
def space_to_depth(x: Tensor, *, blocksize: int, mode: str = "DCR") -> Tensor:
    n, c, h, w = x.shape
    b = blocksize
    if mode == "CRD":
        return F.pixel_unshuffle(x, b)
    x = x.reshape(n, c, h // b, b, w // b, b).permute(0, 3, 5, 1, 2, 4)
    return x.reshape(n, c * b * b, h // b, w // b)


@op("ReverseSequence")
def reverse_sequence(x: Tensor, lens: Tensor, *, batch_axis: int, time_axis: int) -> Tensor:
    n = x.shape[time_axis]
    steps = pf.arange(n, device=x.device)[:, None]
    places = pf.where(steps < lens, lens - 1 - steps, steps).long()  # (time, batch)
    places = places if time_axis == 0 else places.T
    return x.gather(time_axis, places[(..., *[None] * (x.ndim - 2))].expand(x.shape))


@op("ConstantOfShape")
def constant_of_shape(shape: Host, *, value: Any = None, run: RunContext) -> Any:
    filled = np.zeros(1, np.float32) if value is None else value
    dtype = values.dtype_of(filled)
    if dtype is None:
        values.see_room(ints(shape), filled.itemsize, values.TEXTS)
        return np.full(ints(shape), filled.item(), filled.dtype)
    return pf.full(tuple(ints(shape)), filled.item(), dtype=dtype, device=run.device)


@op("EyeLike")
def eye_like(x: Tensor, *, k: int, dtype: int | None = None) -> Tensor:
    kind = x.dtype if dtype is None else values.DTYPES[dtype]
    n, m = x.shape
    rows, columns = pf.arange(n, device=x.device), pf.arange(m, device=x.device)
    return (columns == rows[:, None] + k).to(kind)


@op("Range")
def range_(start: Host, limit: Host, delta: Host, *, run: RunContext) -> Tensor:
    a, b, step = start.item(), limit.item(), delta.item()
    dtype = values.dtype_of(start)
    n = max(-(-(b - a) // step), 0)
    if dtype is None or dtype.is_floating_point or not n:
        return (a + pf.arange(int(n), device=run.device) * step).to(dtype or pf.float32)
    return pf.arange(a, b, step, dtype=dtype, device=run.device)


def _kind(dtype: int | None, like: Any) -> pf.dtype:
    found = like.dtype if dtype is None else values.DTYPES[dtype]
    return found if found.is_floating_point else pf.float32


@op("RandomNormal")
def random_normal(
    *, shape: list[int], dtype: int, mean: float, scale: float, run: RunContext
) -> Tensor:
    return mean + scale * pf.randn(shape, dtype=values.DTYPES[dtype], device=run.device)


@op("RandomUniform")
def random_uniform(
    *, shape: list[int], dtype: int, low: float, high: float, run: RunContext
) -> Tensor:
    return low + (high - low) * pf.rand(shape, dtype=values.DTYPES[dtype], device=run.device)


@op("RandomNormalLike")
def random_normal_like(x: Tensor, *, dtype: int | None = None, mean: float, scale: float) -> Tensor:
    return mean + scale * pf.randn(x.shape, dtype=_kind(dtype, x), device=x.device)


@op("RandomUniformLike")
def random_uniform_like(x: Tensor, *, dtype: int | None = None, low: float, high: float) -> Tensor:
    return low + (high - low) * pf.rand(x.shape, dtype=_kind(dtype, x), device=x.device)


@op("Multinomial")
def multinomial(x: Tensor, *, dtype: int, sample_size: int) -> Tensor:
    drawn = pf.multinomial(F.softmax(x, -1), sample_size, replacement=True)
    return drawn.to(values.DTYPES[dtype])
