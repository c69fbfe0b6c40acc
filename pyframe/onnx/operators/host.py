"""Operators on arrays of the host: what a model computes of its inputs' sizes.

No step of it touches a device, so that a static model is one Program. Symbols of sizes stay.
"""

from __future__ import annotations

import math
from functools import partial, reduce
from typing import Any

import numpy as np

from pyframe.onnx import values
from pyframe.onnx.operators.elementwise import cast_array, identity
from pyframe.onnx.operators.movement import bounds, reshape, shape, size, squeeze, unsqueeze
from pyframe.onnx.table import host
from pyframe.onnx.values import Host, ints, whole

MAX_HOST_ELEMENTS = 65536  # elements: what is larger goes to the device


def _fits(shape: Any, *xs: Host) -> bool:
    """Whether a result of this shape is made here. MemoryError for a large one of what only the
    host has."""
    if all(x.dtype == object or values.has_dtype(x) for x in xs):
        return bool(math.prod(shape) <= MAX_HOST_ELEMENTS)
    values.see_room(shape, max(x.itemsize for x in xs), values.TEXTS)
    return True


def _broadcast(*xs: Host) -> bool:
    """The same of what all are broadcast to."""
    return _fits(np.broadcast_shapes(*(x.shape for x in xs)), *xs)


_ELEMENTWISE = {
    "Add": np.add, "Sub": np.subtract, "Mul": np.multiply, "Equal": np.equal, "Less": np.less,
    "Greater": np.greater, "LessOrEqual": np.less_equal, "GreaterOrEqual": np.greater_equal,
    "And": np.logical_and, "Or": np.logical_or, "Not": np.logical_not, "Neg": np.negative,
    "Abs": np.abs, "Floor": np.floor, "Ceil": np.ceil, "Sqrt": np.sqrt, "Round": np.round,
}  # fmt: skip
_COMPARED = ("Equal", "Less", "Greater", "LessOrEqual", "GreaterOrEqual", "And", "Or", "Not")


def _joined(function: Any, *xs: Host) -> Any:
    return reduce(function, xs) if _broadcast(*xs) else NotImplemented


def _elementwise(name: str, function: Any) -> None:
    @host(name)
    def computed(*xs: Host) -> Any:
        if any(x.dtype.kind in "UV" for x in xs) and name != "Equal":
            return NotImplemented
        if not _broadcast(*xs):
            return NotImplemented
        if name == "Sqrt" and xs[0].dtype == object:
            return NotImplemented
        found = values.boxed(function(*xs))
        if found.dtype == object:
            return found.astype(bool) if name in _COMPARED else found
        return found if name in _COMPARED else found.astype(xs[0].dtype)


for _name, _function in _ELEMENTWISE.items():
    _elementwise(_name, _function)

for _name, _same in {
    "Shape": shape, "Size": size, "Identity": identity, "Reshape": reshape, "Squeeze": squeeze,
    "Unsqueeze": unsqueeze,
}.items():  # fmt: skip
    host(_name)(_same)
for _name, _function in {"Max": np.maximum, "Min": np.minimum}.items():
    host(_name)(partial(_joined, _function))


@host("Div")
def div(a: Host, b: Host) -> Any:
    if "V" in (a.dtype.kind, b.dtype.kind) or not _broadcast(a, b):
        return NotImplemented
    if a.dtype.kind == "f" or values.type_of(a) in values.SymbolicFloat.LARGEST:
        return a / b
    if a.dtype == object or b.dtype == object:
        return a // b  # of sizes, which are positive
    return NotImplemented if (b == 0).any() else ((a - np.fmod(a, b)) // b).astype(a.dtype)


@host("Mod")
def mod(a: Host, b: Host, *, fmod: int) -> Any:
    fits = not fmod and _broadcast(a, b) and (b != 0).all()
    return a % b if fits else NotImplemented


@host("Where")
def where(condition: Host, x: Host, y: Host) -> Any:
    fits = _fits(np.broadcast_shapes(condition.shape, x.shape, y.shape), x, y)
    return np.where(condition, x, y) if fits else NotImplemented


@host("Cast")
def cast(x: Host, *, to: int, saturate: int = 1, round_mode: str = "up") -> Any:
    return (
        cast_array(x, to, saturate, round_mode) if x.size <= MAX_HOST_ELEMENTS else NotImplemented
    )


@host("Transpose")
def transpose(x: Host, *, perm: list[int] | None = None) -> Any:
    return x.transpose(perm)


@host("Concat")
def concat(*xs: Host, axis: int = 1) -> Any:
    return np.concatenate(xs, axis) if _fits([sum(x.size for x in xs)], *xs) else NotImplemented


@host("Split")
def split(
    x: Host, split: Any = None, *, axis: int = 0, num_outputs: int | None = None, outputs: int
) -> Any:
    n = x.shape[axis]
    each = max(-(-n // (num_outputs or outputs)), 1)
    ends = np.cumsum(ints(split))[:-1] if split is not None else range(each, n, each)
    return np.split(x, list(ends), axis)


@host("Slice")
def slice_(x: Host, starts: Any, ends: Any, axes: Any = None, steps: Any = None) -> Any:
    for axis, start, stop, step in bounds(x.shape, starts, ends, axes, steps):
        index: list[Any] = [slice(None)] * (axis % x.ndim)
        x = x[(*index, slice(int(start), None if stop == -1 else int(stop), step))]
    return x


@host("Gather")
def gather(x: Host, index: Host, *, axis: int) -> Any:
    shape = [*x.shape, index.size]
    shape[axis] = 1
    return np.take(x, index.astype(np.int64), axis) if _fits(shape, x) else NotImplemented


@host("Expand")
def expand(x: Host, shape: Host) -> Any:
    full = np.broadcast_shapes(x.shape, tuple(ints(shape))) if shape.dtype != object else ()
    return np.broadcast_to(x, full) if 0 < math.prod(full) <= MAX_HOST_ELEMENTS else NotImplemented


@host("Tile")
def tile(x: Host, repeats: Host) -> Any:
    fits = repeats.dtype != object and _fits([x.size, *ints(repeats)], x)
    return np.tile(x, ints(repeats)) if fits else NotImplemented


@host("ConstantOfShape")
def constant_of_shape(shape: Host, *, value: Any = None) -> Any:
    filled = np.zeros(1, np.float32) if value is None else value
    if shape.dtype == object or min(ints(shape), default=0) < 0 or not _fits(shape, filled):
        return NotImplemented
    return np.full(ints(shape), filled.item(), filled.dtype)


@host("Range")
def range_(start: Host, limit: Host, delta: Host) -> Any:
    if object in (start.dtype, limit.dtype, delta.dtype) or start.dtype.kind != "i":
        return NotImplemented
    a, b, step = start.item(), limit.item(), delta.item()
    few = step and abs((b - a) // step) <= MAX_HOST_ELEMENTS
    return np.arange(a, b, step, start.dtype) if few else NotImplemented


def _reduction(name: str, function: Any) -> None:
    @host(name)
    def reduced(x: Host, axes: Any = None, *, keepdims: int, noop_with_empty_axes: int = 0) -> Any:
        dims = tuple(ints(axes)) if axes is not None else ()
        if (not dims and noop_with_empty_axes) or x.dtype.kind not in "iuO" or not x.size:
            return NotImplemented
        found = values.boxed(function(x, axis=dims or None, keepdims=bool(keepdims)))
        return found if x.dtype == object else found.astype(x.dtype)


for _name, _function in {"Sum": np.sum, "Prod": np.prod, "Max": np.max, "Min": np.min}.items():
    _reduction(f"Reduce{_name}", _function)


@host("CumSum")
def cum_sum(x: Host, axis: Host, *, exclusive: int, reverse: int) -> Any:
    if exclusive or reverse or x.dtype.kind not in "iu":
        return NotImplemented
    return np.cumsum(x, whole(axis), dtype=x.dtype)


@host("NonZero")
def non_zero(x: Host) -> Any:
    return np.stack(np.nonzero(x)).astype(np.int64) if x.ndim else NotImplemented


@host("ScatterND")
def scatter_nd(x: Host, index: Host, updates: Host, *, reduction: str = "none") -> Any:
    if reduction != "none":
        return NotImplemented
    found = x.astype(object) if updates.dtype == object else x.copy()
    found[tuple(np.moveaxis(index, -1, 0))] = updates
    return found
