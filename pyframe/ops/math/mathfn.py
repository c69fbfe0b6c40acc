"""NumPy functions behind ops where NumPy lacks them or differs from PyTorch."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, TypeAlias

import numpy as np

from pyframe.codegen.numpy import elementwise as lowering
from pyframe.graph.functions import AS241_A, AS241_B, AS241_C, AS241_D, AS241_E, AS241_F

Array: TypeAlias = np.ndarray
BLOCK = 1 << 14  # elements whose float64 temporaries stay in the cache


def in_blocks(fn: Callable[..., Any]) -> Callable[..., Any]:
    """`fn` of each element of arrays of one float dtype: large ones part by part, each of them in
    the cache."""

    def run(*xs: Array) -> Any:
        shape = np.broadcast_shapes(*[np.shape(x) for x in xs])
        size = math.prod(shape)
        if size <= 2 * BLOCK:
            return fn(*xs)
        flat = [np.broadcast_to(x, shape).reshape(-1) if np.ndim(x) else x for x in xs]
        out = np.empty(size, xs[-1].dtype)
        for i in range(0, size, BLOCK):
            out[i : i + BLOCK] = fn(*[x[i : i + BLOCK] if np.ndim(x) else x for x in flat])
        return out.reshape(shape)

    return run


def where(condition: Array, a: Array, b: Array) -> Any:
    """np.where, for many elements by the bits as `lowering.where`: the same time for any mask."""
    bits = lowering.BITS.get(a.dtype.itemsize)
    if condition.size < 4096 or a.dtype != b.dtype or a.dtype.kind == "b" or bits is None:
        return np.where(condition, a, b)
    kind, a, b = a.dtype, a.view(bits), b.view(bits)
    out = (a ^ b) & np.negative(condition.view(np.int8)).astype(bits)
    whole = np.broadcast_shapes(out.shape, b.shape) == out.shape
    return np.bitwise_xor(out, b, out if whole else None).view(kind)


def keep_int(fn: Callable[[Array], Array]) -> Callable[[Array], Array]:
    """`fn` on floats; integers are round already."""
    return lambda x: fn(x) if x.dtype.kind == "f" else np.array(x)


def sign(x: Array) -> Any:
    if x.dtype.kind != "f":
        return np.sign(x) if x.dtype.kind != "b" else np.array(x)
    return np.subtract(x > 0, x < 0, dtype=x.dtype)  # 0 for NaN


def signbit(x: Array) -> Any:
    return np.signbit(x) if x.dtype.kind == "f" else np.less(x, 0)


def _bits(x: Any) -> int:
    return 8 * np.asarray(x).dtype.itemsize


def left_shift(a: Array, b: Array) -> Any:
    """a << b, where a shift by less than 0 or by all bits and more leaves 0."""
    out = (b < 0) | (b >= _bits(b))
    return np.where(out, 0, np.left_shift(a, np.where(out, 0, b)))


def right_shift(a: Array, b: Array) -> Any:
    """a >> b, where a shift by less than 0 or by all bits and more leaves the sign, or 0."""
    last = _bits(b) - (np.asarray(a).dtype.kind == "i")
    return np.right_shift(a, np.where((b < 0) | (b > last), last, b))


def _check_zero(name: str, b: Any) -> None:
    if np.asarray(b).dtype.kind in "iu" and np.any(np.equal(b, 0)):
        raise RuntimeError(f"{name}: ZeroDivisionError: integer division by zero")


def _whole_quotient(a: Array, b: Array, round: Callable[..., Any]) -> Any:
    """round(a / b) of float32 in float64, which is exact; None where it may be none of them.

    Unless a / b is whole it is further from any whole number than float64 rounds it, below 2^28.
    """
    if a.dtype != np.float32 or b.dtype != np.float32:
        return None
    q = np.asarray(np.divide(a, b, dtype=np.float64))
    round(q, out=q)
    small = np.abs(q).max(initial=0) < 1 << 28  # not if one is NaN
    return q if small and np.isfinite(b).all() else None


@in_blocks
def _floor_divide(a: Array, b: Array) -> Any:
    q = _whole_quotient(a, b, np.floor)
    if q is not None:
        return q
    # NumPy gives nan for x // 0, PyTorch inf
    return np.where(np.equal(b, 0), np.true_divide(a, b), np.floor_divide(a, b))


@in_blocks
def _fmod(a: Array, b: Array) -> Any:
    q = _whole_quotient(a, b, np.trunc)
    return np.fmod(a, b) if q is None else np.copysign(a - q * b, a)


@in_blocks
def _remainder(a: Array, b: Array) -> Any:
    q = _whole_quotient(a, b, np.floor)
    return np.remainder(a, b) if q is None else np.copysign(a - q * b, b)


def _divided(name: str, of_floats: Callable[..., Any], of_ints: Callable[..., Any]) -> Any:
    def run(a: Array, b: Array) -> Any:
        _check_zero(name, b)
        return (of_floats if b.dtype.kind == "f" else of_ints)(a, b)

    return run


floor_divide = _divided("floor_divide", _floor_divide, np.floor_divide)
remainder = _divided("remainder", _remainder, np.remainder)
fmod = _divided("fmod", _fmod, np.fmod)


def power(a: Array, b: Array) -> Any:
    a, b = np.asarray(a), np.asarray(b)
    if b.ndim == 0 and a.dtype.kind == "f":  # x ** 3 is 33 times slower than x * x * x
        if b == 2:
            return a * a
        if b == 3:
            return a * a * a
        if b == 0.5:
            return np.sqrt(a)
    if a.dtype.kind in "iu" and np.any(b < 0):
        inverse = np.where(np.abs(a) == 1, a ** (np.abs(b) % 2), 0)
        return np.where(b < 0, inverse, np.power(a, np.maximum(b, 0)))
    if a.dtype.kind == "b":
        return a | ~b
    return np.power(a, b)


def isnan(x: Array) -> Any:
    return np.isnan(x) if x.dtype.kind in "fc" else np.zeros(np.shape(x), bool)


def isinf(x: Array) -> Any:
    return np.isinf(x) if x.dtype.kind in "fc" else np.zeros(np.shape(x), bool)


def _bound(calls: Callable[..., Any]) -> Callable[..., Any]:
    """A function of `bound` of one float operand, called at once."""

    def run(x: Array) -> Any:
        out = np.empty(x.shape, x.dtype)
        for fn, args in calls([x], (), out, np.empty):
            fn(*args)
        return out

    return run


_sigmoid, erf_single = _bound(lowering.sigmoid), in_blocks(_bound(lowering.erf))


def sigmoid(x: Array) -> Any:
    return _sigmoid(x) if x.dtype.kind == "f" else 1 / (1 + np.exp(-x))


def horner(coefficients: tuple[float, ...], x: Array) -> Any:
    """The polynomial whose coefficients begin with that of the highest power."""
    out = np.full(np.shape(x), coefficients[0], x.dtype)
    for c in coefficients[1:]:
        out *= x
        out += x.dtype.type(c)
    return out


# erf of float64, |x| <= 1: x T(x^2) / U(x^2) of S. Moshier's Cephes (https://netlib.org/cephes)
ERF_T = (9.60497373987051638749e0, 9.00260197203842689217e1, 2.23200534594684319226e3,
         7.00332514112805075473e3, 5.55923013010394962768e4)  # fmt: skip
ERF_U = (1.0, 3.35617141647503099647e1, 5.21357949780152679795e2, 4.59432382970980127987e3,
         2.26290000613890934246e4, 4.92673942608635921086e4)  # fmt: skip


# --- random numbers: Philox4x32-10 (Salmon et al. 2011, https://doi.org/10.1145/2063384.2063405)


_LOW = np.uint64(0xFFFFFFFF)
_MULTIPLIERS = np.array([[0xD2511F53], [0xCD9E8D57]], np.uint64)
_WEYL = np.arange(10, dtype=np.uint64)[:, None, None] * np.array(
    [[0x9E3779B9], [0xBB67AE85]], np.uint64
)
_AT_ONCE = 1 << 15  # counters that stay in the cache


def philox(k0: int, k1: int, draw: int, first: int, blocks: int) -> Array:
    """uint32 (blocks, 4): the random words of counters (first + i, 0, draw, 0), key (k0, k1)."""
    out = np.empty((blocks, 4), np.uint32)
    keys = (np.array([[k0], [k1]], np.uint64) + _WEYL) & _LOW
    for at in range(0, blocks, _AT_ONCE):
        n = min(_AT_ONCE, blocks - at)
        x = np.empty((2, n), np.uint64)  # words 0 and 2, which are multiplied; y: words 1 and 3
        x[0] = np.arange(first + at, first + at + n, dtype=np.uint64) & _LOW
        x[1] = draw
        y = np.zeros((2, n), np.uint64)
        for key in keys:
            product = x * _MULTIPLIERS
            x = np.right_shift(product, 32)[::-1]
            x ^= y
            x ^= key
            product &= _LOW
            y = product[::-1]
        out[at : at + n, 0::2], out[at : at + n, 1::2] = x.T, y.T
    return out


def philox_block(k0: int, k1: int, draw: int) -> tuple[int, int, int, int]:
    """The first row of `philox`, in Python's ints: for four words that is six times faster."""
    a, b, c, d = 0, 0, draw, 0
    for _ in range(10):
        p, q = a * 0xD2511F53, c * 0xCD9E8D57
        a, b = q >> 32 ^ b ^ k0, q & 0xFFFFFFFF
        c, d = p >> 32 ^ d ^ k1, p & 0xFFFFFFFF
        k0, k1 = k0 + 0x9E3779B9 & 0xFFFFFFFF, k1 + 0xBB67AE85 & 0xFFFFFFFF
    return a, b, c, d


def philox_bits(k0: Array, k1: Array, draw: Array, shape: tuple[int, ...]) -> Array:
    n = math.prod(shape)
    words = philox(int(k0), int(k1), int(draw), 0, (n + 3) // 4)
    return words.reshape(-1)[:n].reshape(shape)


def _exact_log(x: Array) -> Array:
    """log of float64 > 0 from exactly rounded operations only: the same bits on every machine."""
    m, e = np.frexp(x)
    small = m < math.sqrt(0.5)
    m = np.where(small, m * 2, m)
    e = np.where(small, e - 1, e).astype(np.float64)
    s = (m - 1) / (m + 1)
    z = s * s
    series = np.zeros_like(z)
    for k in range(21, 0, -2):
        series = series * z + 1 / k
    return e * 0.6931471805599453 + 2 * s * series


def normal_from_bits(bits: Array) -> Array:
    """float32 standard normal quantiles of (bits >> 9 + 1/2) / 2^23, from exactly rounded
    operations: initial weights are the same bits on every machine and in the page."""
    out = np.empty(bits.size, np.float32)
    flat = bits.reshape(-1)
    for i in range(0, bits.size, BLOCK):
        p = ((flat[i : i + BLOCK] >> 9).astype(np.float64) + 0.5) * 2.0**-23
        out[i : i + BLOCK] = quantile(p - 0.5, np.minimum(p, 1 - p), _exact_log)
    return out.reshape(bits.shape)


def quantile(q: Array, tail: Array, log: Callable[[Array], Array] = np.log) -> Any:
    """float64 standard normal quantiles of p = q + 1/2, where `tail` is the lesser of p and 1 - p.

    Wichura's AS241 (PPND16, https://doi.org/10.2307/2347330), with + - * / sqrt and `log` only.
    """
    q, tail = np.asarray(q), np.asarray(tail)
    out = np.asarray(q * ratio(0.180625 - q * q, AS241_A, AS241_B))
    far = np.abs(q) > 0.425
    if far.any():
        t = np.sqrt(-log(tail[far]))
        outer = ratio(t - 1.6, AS241_C, AS241_D)
        if (t > 5).any():
            outer = np.where(t <= 5, outer, ratio(t - 5, AS241_E, AS241_F))
        out[far] = np.where(q[far] < 0, -outer, outer)
    return out


def ratio(x: Array, a: tuple[float, ...], b: tuple[float, ...]) -> Any:
    """Of two polynomials."""
    return horner(a, x) / horner(b, x)
