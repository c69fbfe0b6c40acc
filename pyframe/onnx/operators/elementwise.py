"""Operators of each element."""

from __future__ import annotations

import math
from functools import reduce
from typing import Any

import numpy as np

import pyframe as pf
from pyframe.nn import functional as F
from pyframe.onnx import values
from pyframe.onnx.graph import RunContext
from pyframe.onnx.table import SAME, add, op, same
from pyframe.onnx.values import Host
from pyframe.tensor import Tensor

for _name in SAME:
    _function, _parameters = same(_name)
    add(_name, getattr(pf, _function, None) or getattr(F, _function), _parameters)


@op("Div")
def div(a: Tensor, b: Tensor) -> Tensor:
    return a / b if a.dtype.is_floating_point else pf.div(a, b, rounding_mode="trunc")


op("Mod")(lambda a, b, *, fmod: pf.fmod(a, b) if fmod else pf.remainder(a, b))
op("Pow")(lambda a, b: pf.pow(a, b).to(a.dtype))


for _name, _joined in {"Sum": pf.add, "Max": pf.maximum, "Min": pf.minimum}.items():
    add(_name, lambda *xs, joined=_joined: reduce(joined, xs), {})


op("Mean")(lambda *xs: reduce(pf.add, xs) / len(xs))


@op("Clip")
def clip(x: Tensor, min: Tensor | None = None, max: Tensor | None = None) -> Tensor:
    if min is None and max is None:
        return x
    return pf.clamp(x, min, max)


@op("IsInf")
def is_inf(x: Tensor, *, detect_negative: int, detect_positive: int) -> Tensor:
    found = pf.isposinf(x) if detect_positive else pf.zeros_like(x, dtype=pf.bool)
    return found | pf.isneginf(x) if detect_negative else found


@op("BitShift")
def bit_shift(x: Tensor, y: Tensor, *, direction: str) -> Tensor:
    shift = pf.bitwise_left_shift if direction == "LEFT" else pf.bitwise_right_shift
    return shift(x, y)


op("Selu")(lambda x, *, alpha, gamma: gamma * F.elu(x, alpha))


@op("PRelu")
def prelu(x: Tensor, slope: Tensor) -> Tensor:
    if slope.ndim == 1 and x.ndim > 2 and slope.shape[0] == x.shape[1] != x.shape[-1]:
        slope = slope.reshape(-1, *[1] * (x.ndim - 2))  # as version 1 has it
    return pf.where(x < 0, x * slope, x)


op("HardSigmoid")(lambda x, *, alpha, beta: pf.clamp(alpha * x + beta, 0, 1))


@op("Identity")
def identity(x: Any) -> Any:
    return x


@op("Cast")
def cast(x: Any, *, to: int | str, saturate: int = 1, round_mode: str = "up") -> Any:
    """To what tensors have no dtype for it is computed on the host."""
    number = numbered(to)
    if number in values.DTYPES and isinstance(x, Tensor):
        return x.to(values.DTYPES[number])
    return cast_array(values.array(x), number, saturate, round_mode)


def numbered(to: int | str) -> int:
    """A TensorProto.DataType, which was a string in version 1."""
    if isinstance(to, int):
        return to
    names = {"FLOAT": "float32", "DOUBLE": "float64"}
    found = next(d for d in values.TYPES if str(d) == f"pyframe.{names.get(to, to.lower())}")
    return values.TYPES[found]


@op("CastLike")
def cast_like(x: Any, like: Any, *, saturate: int = 1, round_mode: str = "up") -> Any:
    return cast(x, to=values.type_of(like), saturate=saturate, round_mode=round_mode)


def cast_array(x: Host, to: int, saturate: int = 1, round_mode: str = "up") -> Any:
    """An array as another TensorProto.DataType."""
    if to == values.STRING:
        wide = np.dtype(np.float32) if x.dtype.itemsize < 4 and x.dtype.kind in "fV" else x.dtype
        return x.astype(wide).astype(str)
    if x.dtype == object and to in (6, 7):
        return np.frompyfunc(math.trunc, 1, 1)(x)
    if x.dtype == object and to in values.SymbolicFloat.LARGEST:
        return x  # what it counts as, the step says
    dtype = values.numpy_dtype(to)
    if x.dtype.kind == "U":
        return x.astype(np.float64 if dtype.kind == "V" else dtype).astype(dtype)
    if to in values.DTYPES or x.dtype.kind == "b":
        return (x.astype(np.float32) if x.dtype.kind == "V" else x).astype(dtype)
    if not dtype.name.startswith("float"):
        return x.astype(dtype)
    from onnx import numpy_helper

    floats = x.astype(np.float32)
    if dtype.name.startswith("float8_e8m0"):
        return numpy_helper.to_float8e8m0(floats, bool(saturate), round_mode)
    if dtype.name.startswith("float8") and saturate:
        return numpy_helper.saturate_cast(floats, dtype)
    return floats.astype(dtype)


@op("BitCast")
def bit_cast(x: Any, *, to: int) -> Any:
    known = isinstance(x, Tensor) and to in values.DTYPES and x.dtype is not pf.bool
    if known and x.device.type == "cpu":
        return x.view(values.DTYPES[to])
    return values.array(x).view(values.numpy_dtype(to))


@op("Dropout")
def dropout(
    x: Tensor, ratio: Host | float = 0.5, training_mode: Host | None = None, *,
    run: RunContext, outputs: int, is_test: int = 1,
) -> Any:  # fmt: skip
    """It drops where the node says so, or the module trains."""
    p, training = float(ratio), run.training or bool(training_mode)
    if not training or p == 0:
        return (x, pf.ones_like(x, dtype=pf.bool))[:outputs]
    mask = pf.rand_like(x) >= p
    return (x * mask / (1 - p), mask)[:outputs]
