"""Elementwise ops lowered to bound NumPy calls that write to memory given, for compiled plans.

Each takes (inputs, attrs, out, scratch) and gives calls (function, arguments), to be made in order;
`scratch(shape, dtype)` is memory for the meantime. None: it has nothing better than the function.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

import numpy as np

from pyframe.core.dtypes import SATURATES

Array: TypeAlias = np.ndarray
Call = tuple[Callable[..., Any], tuple[Any, ...]]
Calls = list[Call] | None

BITS = {1: np.dtype(np.int8), 2: np.dtype(np.int16), 4: np.dtype(np.int32), 8: np.dtype(np.int64)}


def ufunc_call(fn: Any, args: Sequence[Array], out: Array) -> Call:
    """fn(*args) written to `out`."""
    if fn in (np.maximum, np.minimum):  # NumPy takes their `out` by name only
        return functools.partial(fn, *args, out=out), ()
    return fn, (*args, out)


@functools.lru_cache(64)
def _constant(value: float, size: int, dtype: np.dtype) -> Array:
    out = np.full(size, value, dtype)
    out.flags.writeable = False
    return out


def filled(value: float, shape: tuple[int, ...], dtype: np.dtype) -> Array:
    """A read-only array of one value. NumPy's maximum is three times faster with it than with a
    scalar."""
    n = math.prod(shape)
    return _constant(value, 1 << max(n - 1, 0).bit_length(), dtype)[:n].reshape(shape)


def of_floats(fn: Any) -> Callable[..., Calls]:
    """The calls of an op that is the ufunc `fn` for floats, and something else for ints."""

    def calls(xs: Sequence[Array], attrs: Any, out: Array, scratch: Any) -> Calls:
        return [ufunc_call(fn, xs, out)] if xs[0].dtype.kind == "f" else None

    return calls


def copy(xs: Sequence[Array], attrs: Any, out: Array, scratch: Any) -> Calls:
    return [(np.copyto, (out, xs[0]))]


def at_least(a: Array, b: Any, out: Array | None = None) -> Any:
    """np.maximum(a, b): where b is one number, NumPy's clip takes a third of its time."""
    if b.ndim == 0 and a.size >= 4096 and a.dtype.kind == "f" and b == b:
        return np.clip(a, b, np.inf, out)
    return np.maximum(a, b, out=out)


def at_most(a: Array, b: Any, out: Array | None = None) -> Any:
    """np.minimum(a, b): see `at_least`."""
    if b.ndim == 0 and a.size >= 4096 and a.dtype.kind == "f" and b == b:
        return np.clip(a, -np.inf, b, out)
    return np.minimum(a, b, out=out)


def as_one(fn: Any) -> Callable[..., Calls]:
    """The call of an op that is fn(*inputs, out)."""
    return lambda xs, attrs, out, scratch: [(fn, (*xs, out))]


def relu(xs: Sequence[Array], attrs: Any, out: Array, scratch: Any) -> Calls:
    (x,) = xs
    return [ufunc_call(np.maximum, (x, filled(0, out.shape, out.dtype)), out)]


def cast(xs: Sequence[Array], attrs: Any, out: Array, scratch: Any) -> Calls:
    (x,) = xs
    if out.dtype.kind in "iu" and x.dtype.kind == "f":
        if SATURATES:
            return None
        if out.dtype != np.int64:
            wide = scratch(out.shape, np.int64)  # wraps, as C does in PyTorch
            return [(np.copyto, (wide, x, "unsafe")), (np.copyto, (out, wide, "unsafe"))]
    return [(np.copyto, (out, x, "unsafe"))]


def where(xs: Sequence[Array], attrs: Any, out: Array, scratch: Any) -> Calls:
    """By the bits, which takes the same time for any mask: b ^ ((a ^ b) * condition)."""
    condition, a, b = xs
    bits = BITS[out.dtype.itemsize]
    if a.dtype != out.dtype or b.dtype != out.dtype:
        return None
    a, b, into = a.view(bits), b.view(bits), out.view(bits)
    differ = scratch(out.shape, bits) if np.may_share_memory(b, out) else into
    select: list[Call] = [
        (np.bitwise_xor, (a, b, differ)),
        (np.multiply, (differ, condition, differ)),
        (np.bitwise_xor, (differ, b, into)),
    ]
    if b.ndim or np.may_share_memory(b, out):
        return select
    return [(_select, (a, b, condition, into, select))]


def _select(a: Array, b: Array, condition: Array, into: Array, select: list[Call]) -> None:
    if not b:
        np.multiply(a, condition, into)
    else:
        for f, args in select:
            f(*args)


def sigmoid(xs: Sequence[Array], attrs: Any, out: Array, scratch: Any) -> Calls:
    (x,) = xs
    one = np.array(1, out.dtype)
    return [
        (np.negative, (x, out)), (np.exp, (out, out)), (np.add, (out, one, out)),
        (np.divide, (one, out, out)),
    ]  # fmt: skip


def rsqrt(xs: Sequence[Array], attrs: Any, out: Array, scratch: Any) -> Calls:
    return [(np.sqrt, (xs[0], out)), (np.divide, (np.array(1, out.dtype), out, out))]


def power(xs: Sequence[Array], attrs: Any, out: Array, scratch: Any) -> Calls:
    x, exponent = xs
    if exponent.ndim or x.dtype.kind != "f":
        return None
    return [(_power, (x, exponent, out))]


def _power(x: Array, exponent: Array, out: Array) -> None:
    if exponent == 2:
        np.multiply(x, x, out)
    elif exponent == 0.5:
        np.sqrt(x, out)
    elif exponent == 3 and not np.may_share_memory(x, out):
        np.multiply(x, x, out)
        np.multiply(out, x, out)
    else:
        np.power(x, exponent, out)


def cube(xs: Sequence[Array], attrs: Any, out: Array, scratch: Any) -> Calls:
    (x,) = xs
    square = scratch(out.shape, out.dtype) if np.may_share_memory(x, out) else out
    return [(np.multiply, (x, x, square)), (np.multiply, (square, x, out))]


# erf(x) = tanh(x * P(x^2) / Q(x^2)), fitted to the least relative error of erf (< 1.4e-7)
ERF_P = (0.0006736015248755257, 0.027982981423254297, 0.2530268287907914, 1.128379323998884)
ERF_Q = (0.012838655530330928, 0.13316346704531787, 1.0)
ERF_MOST = 20.0  # of x^2: erf is 1 in float32 long before


def erf(xs: Sequence[Array], attrs: Any, out: Array, scratch: Any) -> Calls:
    (x,) = xs
    if out.dtype != np.float32:
        return None
    square, below = scratch(out.shape, np.float32), scratch(out.shape, np.float32)
    most = filled(ERF_MOST, out.shape, out.dtype)
    calls: list[Call] = [
        (np.multiply, (x, x, square)),
        ufunc_call(np.minimum, (square, most), square),
    ]
    for into, (first, *rest) in ((below, ERF_Q), (out, ERF_P)):
        source, c = square, np.array(first, np.float32)
        for n, term in enumerate(rest):
            calls.append((np.multiply, (source, c if not n else square, into)))
            calls.append((np.add, (into, np.array(term, np.float32), into)))
            source = into
    return [
        *calls,
        (np.divide, (out, below, out)),
        (np.multiply, (out, x, out)),
        (np.tanh, (out, out)),
    ]
