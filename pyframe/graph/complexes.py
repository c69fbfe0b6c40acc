"""Complex numbers (c64): primitives and functions of them as expressions of their parts.

Kernels of real numbers never see this; one of c64 has a pair of f32 wherever a number would be.
Formulas are C's (C99, annex G) where the parts are finite; branch cuts are those of NumPy.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from pyframe.graph import functions as f, mathematics as m, scalar as s
from pyframe.graph.scalar import COMPLEX, Scalar, complex, function, im, re, select


def _means(*names: str) -> Callable[[Any], Any]:
    """Decorates what the primitives or functions of these names are of c64."""

    def declare(fn: Any) -> Any:
        COMPLEX.update(dict.fromkeys(names, fn))
        return fn

    return declare


def _parts(z: Scalar) -> tuple[Scalar, Scalar]:
    return re(z), im(z)


def _each(op: Callable[..., Scalar]) -> Callable[..., Scalar]:
    """An operation on the real and on the imaginary parts."""
    return lambda *zs: complex(op(*map(re, zs)), op(*map(im, zs)))


def conj(z: Scalar) -> Scalar:
    """The complex conjugate."""
    return complex(re(z), -im(z))


# --- arithmetic

COMPLEX["add"] = _each(lambda a, b: a + b)
COMPLEX["sub"] = _each(lambda a, b: a - b)
COMPLEX["neg"] = _each(lambda a: -a)
COMPLEX["eq"] = lambda a, b: s.eq(re(a), re(b)) & s.eq(im(a), im(b))
COMPLEX["ne"] = lambda a, b: s.ne(re(a), re(b)) | s.ne(im(a), im(b))
COMPLEX["isnan"] = lambda z: s.ne(re(z), re(z)) | s.ne(im(z), im(z))
COMPLEX["isinf"] = lambda z: s.eq(s.abs(re(z)), math.inf) | s.eq(s.abs(im(z)), math.inf)


@_means("mul")
@function
def complex_mul(a: Scalar, b: Scalar) -> Scalar:
    """a * b."""
    (x, y), (u, v) = _parts(a), _parts(b)
    return complex(x * u - y * v, x * v + y * u)


@_means("div")
@function
def complex_div(a: Scalar, b: Scalar) -> Scalar:
    """a / b, scaled by the larger part of b (Smith 1962)."""
    (x, y), (u, v) = _parts(a), _parts(b)
    wide = s.abs(u) >= s.abs(v)
    large, small = select(wide, u, v), select(wide, v, u)
    ratio = select(s.eq(large, 0.0), small, small / large)
    scale = 1.0 / (large + small * ratio)
    p, q = select(wide, x, y), select(wide, y, x)
    other = q - p * ratio
    return complex((p + q * ratio) * scale, select(wide, other, -other) * scale)


@_means("abs")
def complex_abs(z: Scalar) -> Scalar:
    """|z|."""
    return m.hypot(re(z), im(z))


def angle(z: Scalar) -> Scalar:
    """The angle between z and 1."""
    return m.atan2(im(z), re(z))


def polar(size: Scalar, angle: Scalar) -> Scalar:
    """size * exp(i * angle)."""
    return complex(size * m.cos(angle), size * m.sin(angle))


# --- powers, exponentials and logarithms


@_means("sqrt")
@function
def complex_sqrt(z: Scalar) -> Scalar:
    """The square root, whose real part is at least 0."""
    x, y = _parts(z)
    large = s.sqrt(0.5 * (m.hypot(x, y) + s.abs(x)))
    small = select(s.eq(large, 0.0), 0.0, s.abs(y) * 0.5 / large)
    right = x >= 0.0
    return complex(select(right, large, small), f.copysign(select(right, small, large), y))


@_means("rsqrt")
def complex_rsqrt(z: Scalar) -> Scalar:
    """1 / sqrt(z)."""
    return 1.0 / s.sqrt(z)


@_means("exp")
@function
def complex_exp(z: Scalar) -> Scalar:
    """e^z."""
    x, y = _parts(z)
    return complex(m.exp(x) * m.cos(y), _sine_times(m.exp(x), y))


def _sine_times(size: Scalar, y: Scalar) -> Scalar:
    """size * sin(y), which is 0 of y = 0 whatever the size."""
    return select(s.eq(y, 0.0), y, size * m.sin(y))


@_means("exp2")
def complex_exp2(z: Scalar) -> Scalar:
    """2^z."""
    return m.exp(z * math.log(2))


@_means("expm1")
@function
def complex_expm1(z: Scalar) -> Scalar:
    """e^z - 1."""
    x, y = _parts(z)
    half = m.sin(0.5 * y)
    return complex(m.expm1(x) * m.cos(y) - 2.0 * half * half, _sine_times(m.exp(x), y))


@_means("log")
@function
def complex_log(z: Scalar) -> Scalar:
    """log|z| + i angle(z); near |z| = 1 by way of |z|^2 - 1."""
    x, y = s.abs(re(z)), s.abs(im(z))
    large, small = s.maximum(x, y), s.minimum(x, y)
    near = 0.5 * m.log1p((large - 1.0) * (large + 1.0) + small * small)
    return complex(select((large > 0.7) & (large < 1.5), near, m.log(m.hypot(x, y))), angle(z))


def _log_to(base: float) -> Callable[[Scalar], Scalar]:
    return lambda z: _each(lambda part: part * (1 / math.log(base)))(m.log(z))


COMPLEX["log2"], COMPLEX["log10"] = _log_to(2), _log_to(10)


@_means("log1p")
@function
def complex_log1p(z: Scalar) -> Scalar:
    """log(1 + z)."""
    x, y = _parts(z)
    small = (s.abs(x) < 0.5) & (s.abs(y) < 0.5)
    near = 0.5 * m.log1p(x * (2.0 + x) + y * y)
    far = m.log(complex(1.0 + x, y))
    return complex(select(small, near, re(far)), im(far))


@_means("pow")
@function
def complex_pow(a: Scalar, b: Scalar) -> Scalar:
    """a to the power of b, exp(b log(a)); of a = 0 it is 0, but for b = 0."""
    found = m.exp(b * m.log(a))
    found = select(s.eq(b, 2), a * a, select(s.eq(b, 1), a, found))
    found = select(s.eq(a, 0) & (re(b) > 0.0), 0, found)
    return select(s.eq(b, 0), 1, found)


# --- trigonometry; what turns by i is the same of the hyperbolic functions


@_means("sinh")
@function
def complex_sinh(z: Scalar) -> Scalar:
    """sinh(z)."""
    x, y = _parts(z)
    return complex(m.sinh(x) * m.cos(y), _sine_times(m.cosh(x), y))


@_means("cosh")
@function
def complex_cosh(z: Scalar) -> Scalar:
    """cosh(z)."""
    x, y = _parts(z)
    return complex(m.cosh(x) * m.cos(y), _sine_times(m.sinh(x), y))


@_means("tanh")
@function
def complex_tanh(z: Scalar) -> Scalar:
    """tanh(z), from tanh(x), tan(y) and 1 - tanh(x)^2 = 1 / cosh(x)^2."""
    x, y = _parts(z)
    t, u, c = m.tanh(x), m.tan(y), 1.0 / m.cosh(x)
    below = 1.0 / (1.0 + t * t * u * u)
    return complex(t * (1.0 + u * u) * below, u * c * c * below)


def _root(x: Scalar, y: Scalar) -> Scalar:
    """sqrt(x + i y), where the sign of y = 0 says which one."""
    return s.sqrt(complex(x, y))


@_means("asinh")
@function
def complex_asinh(z: Scalar) -> Scalar:
    """The inverse of sinh; this and the next two by Kahan's formulas (1987)."""
    x, y = _parts(z)
    a, b = _root(1.0 + y, -x), _root(1.0 - y, x)
    real = m.asinh(re(a) * im(b) - re(b) * im(a))
    return complex(real, m.atan2(y, re(a) * re(b) - im(a) * im(b)))


@_means("acosh")
@function
def complex_acosh(z: Scalar) -> Scalar:
    """The inverse of cosh."""
    a, b = _root(re(z) - 1.0, im(z)), _root(re(z) + 1.0, im(z))
    return complex(m.asinh(re(a) * re(b) + im(a) * im(b)), 2.0 * m.atan2(im(a), re(b)))


@_means("acos")
@function
def complex_acos(z: Scalar) -> Scalar:
    """The inverse of cos."""
    a, b = _root(1.0 - re(z), -im(z)), _root(1.0 + re(z), im(z))
    return complex(2.0 * m.atan2(re(a), re(b)), m.asinh(re(b) * im(a) - im(b) * re(a)))


@_means("atanh")
@function
def complex_atanh(z: Scalar) -> Scalar:
    """The inverse of tanh, which is odd."""
    left = re(z) < 0.0
    x, y = s.abs(re(z)), select(left, -im(z), im(z))
    near = 1.0 - x
    real = 0.25 * m.log1p(4.0 * x / (near * near + y * y))
    imag = -0.5 * m.atan2(-2.0 * y, near * (1.0 + x) - y * y)
    return complex(f.copysign(real, re(z)), select(left, -imag, imag))


def _turned(of: Callable[[Scalar], Scalar]) -> Callable[[Scalar], Scalar]:
    """of(i z) / i."""

    def run(z: Scalar) -> Scalar:
        found = of(complex(-im(z), re(z)))
        return complex(im(found), -re(found))

    return run


COMPLEX["sin"], COMPLEX["tan"] = _turned(m.sinh), _turned(m.tanh)
COMPLEX["asin"], COMPLEX["atan"] = _turned(m.asinh), _turned(m.atanh)
COMPLEX["cos"] = lambda z: m.cosh(complex(-im(z), re(z)))
