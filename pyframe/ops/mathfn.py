"""NumPy functions behind ops where NumPy lacks them or differs from PyTorch."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, TypeAlias

import numpy as np

Array: TypeAlias = np.ndarray


def keep_int(fn: Callable[[Array], Array]) -> Callable[[Array], Array]:
    """`fn` on floats; integers are round already."""
    return lambda x: fn(x) if x.dtype.kind == "f" else np.array(x)


def sign(x: Array) -> Any:
    return np.sign(x) if x.dtype.kind != "b" else np.array(x)


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


def floor_divide(a: Array, b: Array) -> Any:
    _check_zero("floor_divide", b)
    if np.asarray(b).dtype.kind == "f":  # NumPy gives nan for x // 0, PyTorch inf
        return np.where(np.equal(b, 0), np.true_divide(a, b), np.floor_divide(a, b))
    return np.floor_divide(a, b)


def remainder(a: Array, b: Array) -> Any:
    _check_zero("remainder", b)
    return np.remainder(a, b)


def fmod(a: Array, b: Array) -> Any:
    _check_zero("fmod", b)
    return np.fmod(a, b)


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


def sigmoid(x: Array) -> Any:
    return 1 / (1 + np.exp(-x))


_exact_erf = np.vectorize(math.erf, otypes=[np.float64])

# x * P(x^2) / Q(x^2) on |x| <= 4: the rational approximation that Eigen and XLA use, < 2 ulp
ERF_P = (-2.72614225801306e-10, 2.77068142495902e-08, -2.10102402082508e-06,
         -5.69250639462346e-05, -7.34990630326855e-04, -2.95459980854025e-03,
         -1.60960333262415e-02)  # fmt: skip
ERF_Q = (-1.45660718464996e-05, -2.13374055278905e-04, -1.68282697438203e-03,
         -7.37332916720468e-03, -1.42647390514189e-02)  # fmt: skip


def _horner(coefficients: tuple[float, ...], x: Array) -> Any:
    out: Any = x.dtype.type(coefficients[0])
    for c in coefficients[1:]:
        out = out * x + x.dtype.type(c)
    return out


def erf(x: Array) -> Any:
    x = np.asarray(x)
    if x.dtype == np.float64:
        return _exact_erf(x) if x.size else x.copy()
    wide = np.clip(x.astype(np.float32, copy=False), -4, 4)
    square = np.asarray(wide * wide)
    return (wide * _horner(ERF_P, square) / _horner(ERF_Q, square)).astype(x.dtype)


# --- random numbers: Philox4x32-10 (Salmon et al. 2011, https://doi.org/10.1145/2063384.2063405)


def philox(k0: int, k1: int, draw: int, first: int, blocks: int) -> Array:
    """uint32 (blocks, 4): the random words of counters (first + i, 0, draw, 0), key (k0, k1)."""
    low = np.uint64(0xFFFFFFFF)
    shift = np.uint64(32)
    c0 = np.arange(first, first + blocks, dtype=np.uint64) & low
    c1 = np.zeros(blocks, np.uint64)
    c2 = np.full(blocks, draw, np.uint64)
    c3 = np.zeros(blocks, np.uint64)
    for _ in range(10):
        p0 = c0 * np.uint64(0xD2511F53)
        p1 = c2 * np.uint64(0xCD9E8D57)
        c0 = (p1 >> shift) ^ c1 ^ np.uint64(k0)
        c1 = p1 & low
        c2 = (p0 >> shift) ^ c3 ^ np.uint64(k1)
        c3 = p0 & low
        k0 = (k0 + 0x9E3779B9) & 0xFFFFFFFF
        k1 = (k1 + 0xBB67AE85) & 0xFFFFFFFF
    return np.stack([c0, c1, c2, c3], axis=1).astype(np.uint32)


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
    p = ((bits >> 9).astype(np.float64) + 0.5) * 2.0**-23
    return quantile(p - 0.5, np.minimum(p, 1 - p), _exact_log).astype(np.float32)


def quantile(q: Array, tail: Array, log: Callable[[Array], Array] = np.log) -> Any:
    """float64 standard normal quantiles of p = q + 1/2, where `tail` is the lesser of p and 1 - p.

    Wichura's AS241 (PPND16, https://doi.org/10.2307/2347330), with + - * / sqrt and `log` only.
    """
    r = 0.180625 - q * q
    central = q * _ratio(r, AS241_A, AS241_B)
    t = np.sqrt(-log(tail))
    near = _ratio(t - 1.6, AS241_C, AS241_D)
    far = _ratio(t - 5, AS241_E, AS241_F)
    outer = np.where(t <= 5, near, far)
    return np.where(np.abs(q) <= 0.425, central, np.where(q < 0, -outer, outer))


def _ratio(x: Array, a: tuple[float, ...], b: tuple[float, ...]) -> Any:
    return _horner(a, x) / _horner(b, x)


# coefficients from the highest power down
AS241_A = (2.5090809287301226727e3, 3.3430575583588128105e4, 6.7265770927008700853e4,
           4.5921953931549871457e4, 1.3731693765509461125e4, 1.9715909503065514427e3,
           1.3314166789178437745e2, 3.3871328727963666080e0)  # fmt: skip
AS241_B = (5.2264952788528545610e3, 2.8729085735721942674e4, 3.9307895800092710610e4,
           2.1213794301586595867e4, 5.3941960214247511077e3, 6.8718700749205790830e2,
           4.2313330701600911252e1, 1.0)  # fmt: skip
AS241_C = (7.74545014278341407640e-4, 2.27238449892691845833e-2, 2.41780725177450611770e-1,
           1.27045825245236838258e0, 3.64784832476320460504e0, 5.76949722146069140550e0,
           4.63033784615654529590e0, 1.42343711074968357734e0)  # fmt: skip
AS241_D = (1.05075007164441684324e-9, 5.47593808499534494600e-4, 1.51986665636164571966e-2,
           1.48103976427480074590e-1, 6.89767334985100004550e-1, 1.67638483018380384940e0,
           2.05319162663775882187e0, 1.0)  # fmt: skip
AS241_E = (2.01033439929228813265e-7, 2.71155556874348757815e-5, 1.24266094738807843860e-3,
           2.65321895265761230930e-2, 2.96560571828504891230e-1, 1.78482653991729133580e0,
           5.46378491116411436990e0, 6.65790464350110377720e0)  # fmt: skip
AS241_F = (2.04426310338993978564e-15, 1.42151175831644588870e-7, 1.84631831751005468180e-5,
           7.86869131145613259100e-4, 1.48753612908506148525e-2, 1.36929880922735805310e-1,
           5.99832206555887937690e-1, 1.0)  # fmt: skip
