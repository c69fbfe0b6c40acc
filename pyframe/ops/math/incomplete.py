"""The incomplete gamma functions in float64, by NumPy."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from pyframe.ops.math.mathfn import Array, erfc, horner, lgamma


def _gamma_weight(a: Array, x: Array) -> Any:
    """x^a exp(-x) / gamma(a + 1), which overflows nowhere: from 10 on by Stirling's series."""
    small = a < 10
    u, r = (x - a) / a, 1 / (a * a)
    stirling = (-691 / 360360, 1 / 1188, -1 / 1680, 1 / 1260, -1 / 360, 1 / 12)
    rest = horner(stirling, r) / a + 0.5 * np.log(2 * math.pi * a)
    low = a * np.log(x) - x - lgamma(np.where(small, a + 1, 1.0))
    return np.exp(np.where(small, low, a * (np.log1p(u) - u) - rest))


def _lower_series(a: Array, x: Array) -> Any:
    """The lower one (DLMF 8.11.4), x < a + 1."""
    term, n = np.ones_like(x), 0
    total = term.copy()
    while (term > 1e-17 * total).any():
        n += 1
        term *= x / (a + n)
        total += term
    return total * _gamma_weight(a, x)


def _upper_fraction(a: Array, x: Array) -> Any:
    """The upper one, x > a + 1: a continued fraction (DLMF 8.9.2) by Lentz's method."""
    b = x + 1 - a
    c, d, n = np.full_like(b, 1e300), 1 / b, 0
    out, change = d.copy(), np.zeros_like(b)
    while (np.abs(change - 1) > 1e-16).any() and n < 5000:
        n += 1
        step = n * (a - n)
        b = b + 2
        d = 1 / (step * d + b)
        c = b + step / c
        change = c * d
        out *= change
    return out * a * _gamma_weight(a, x)


def _uniform(a: Array, x: Array) -> Any:
    """The lower one of a large a (DLMF 8.12.3 and 8.12.10)."""
    u = (x - a) / a
    eta = np.copysign(np.sqrt(2 * np.maximum(u - np.log1p(u), 0)), u)
    near = np.clip(eta, -0.3, 0.3)  # the correction is 0 farther out
    c0 = horner((1 / 25515, -139 / 777600, 1 / 2835, 1 / 864, -2 / 135, 1 / 12, -1 / 3), near)
    c1 = horner((-77 / 77760, 1 / 378, -1 / 288, -1 / 540), near)
    rest = np.exp(-0.5 * a * eta * eta) / np.sqrt(2 * math.pi * a) * (c0 + c1 / a)
    return 0.5 * erfc(-eta * np.sqrt(a / 2)) - rest, 0.5 * erfc(eta * np.sqrt(a / 2)) + rest


def _gammas(a: Array, x: Array, upper: bool) -> Any:
    a, x = (v.ravel() for v in np.broadcast_arrays(a, x))
    out = np.full(a.shape, math.nan)
    known = (a >= 0) & (x >= 0) & (a + x > 0) & ~(np.isinf(a) & np.isinf(x))
    ends = known & ((a == 0) | (x == 0) | np.isinf(a) | np.isinf(x))
    out[ends] = ((a == 0) | np.isinf(x))[ends] ^ upper
    known &= ~ends
    large = known & (a > 2e4)
    out[large] = _uniform(a[large], x[large])[upper]
    for i, how in ((known & ~large & (x < a + 1), _lower_series),
                   (known & ~large & (x >= a + 1), _upper_fraction)):  # fmt: skip
        found = how(a[i], x[i])
        out[i] = found if upper == (how is _upper_fraction) else 1 - found
    return out


def gammainc(a: Array, x: Array, upper: bool) -> Any:
    """The regularised lower or upper incomplete gamma function."""
    shape = np.broadcast_shapes(a.shape, x.shape)
    with np.errstate(all="ignore"):
        return _gammas(a.astype(np.float64), x.astype(np.float64), upper).reshape(shape)
