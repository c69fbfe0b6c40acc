"""Named functions of Scalars, which meanings of ops call: a printer has text of its own for one, or
takes its definition from here. An `external` one has none: it stands in shaders/lib alone."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from pyframe.graph import mathematics, scalar as s
from pyframe.graph.scalar import BITS, Scalar, external, function, select

# --- the parts of a number


@function
def isnan(x: Scalar) -> Scalar:
    """Whether it is NaN, which no int is."""
    return s.ne(x, x) if x.is_float else s.const(False, "bool")


@function
def isinf(x: Scalar) -> Scalar:
    """Whether it is infinite, which no int is."""
    return s.eq(s.abs(x), math.inf) if x.is_float else s.const(False, "bool")


def signbit(x: Scalar) -> Scalar:
    """Whether the sign is set: of -0.0 too."""
    if x.is_float:
        x = _bits(x)
    return s.const(False, "bool") if x.type[0] in "ub" else x < 0


def _bits(x: Scalar) -> Scalar:
    """The bits of a float as an int of its size."""
    return s.bitcast(x, f"i{BITS[x.type]}")


@function
def sign(x: Scalar) -> Scalar:
    """-1, 0 or 1; 0 for NaN."""
    if x.type == "bool":
        return x
    if x.type[0] == "u":
        return s.minimum(x, 1)
    return select(x > 0, 1, select(x < 0, -1, s.const(0, x.type)))


@function
def copysign(a: Scalar, b: Scalar) -> Scalar:
    """|a| with the sign of b."""
    most = (1 << BITS[a.type] - 1) - 1
    return s.bitcast((_bits(a) & most) | (_bits(b) & (-most - 1)), a.type)


@function
def sort_key(x: Scalar) -> Scalar:
    """Ints in the order of the numbers: both zeros are equal, NaN is the largest."""
    if x.is_float:
        bits = _bits(x)
        most = (1 << BITS[x.type] - 1) - 1
        key = bits ^ ((bits >> BITS[x.type] - 1) & most)
        return select(isnan(x), most, select(s.eq(bits & most, 0), 0, key))
    if x.type in ("u32", "u64"):
        n = BITS[x.type]
        return s.bitcast(x ^ (1 << n - 1), f"i{n}")
    return s.cast(x, "i64" if x.type == "i64" else "i32")


@function
def exponent(x: Scalar) -> Scalar:
    """i32 e of x = m * 2^e, 0.5 <= |m| < 1; 0 of 0, NaN and what is infinite."""
    digits, bias = (23, 126) if x.type == "f32" else (52, 1022)
    small = s.abs(x) < 2.0 ** (1 - bias)
    bits = _bits(select(small, x * 2.0**64, x))
    e = (bits >> digits) & (2 * bias + 3)
    e = select(s.eq(e, 0) | s.eq(e, 2 * bias + 3), 0, e - select(small, bias + 64, _like(e, bias)))
    return s.cast(e, "i32")


def _like(x: Scalar, value: Any) -> Scalar:
    return s.const(value, x.type)


# --- arithmetic


@function
def rsqrt(x: Scalar) -> Scalar:
    """1 / sqrt(x)."""
    return 1.0 / s.sqrt(x)


def fmod(a: Scalar, b: Scalar) -> Scalar:
    """What a / b, cut towards 0, leaves."""
    return mathematics.fmod(a, b) if a.is_float else a % b


def remainder(a: Scalar, b: Scalar) -> Scalar:
    """What floor(a / b) leaves: it has the sign of b."""
    return mathematics.mod(a, b) if a.is_float else int_mod(a, b)


def floor_divide(a: Scalar, b: Scalar) -> Scalar:
    """floor(a / b)."""
    return mathematics.floordiv(a, b) if a.is_float else int_floordiv(a, b)


@function
def int_mod(a: Scalar, b: Scalar) -> Scalar:
    """`remainder` of ints."""
    rest = a % b
    return rest if a.type[0] == "u" else select(_across(rest, b), rest + b, rest)


@function
def int_floordiv(a: Scalar, b: Scalar) -> Scalar:
    """`floor_divide` of ints."""
    if a.type[0] == "u":
        return a / b
    return a / b - select(_across(a % b, b), 1, _like(a, 0))


def _across(rest: Scalar, b: Scalar) -> Scalar:
    """Whether cutting went up: there is a rest and its sign is not the divisor's."""
    return s.ne(rest, 0) & ((rest ^ b) < 0)


def power(a: Scalar, b: Scalar) -> Scalar:
    """a to the power of b; 1 / n of an int is 0 but for 1 and -1."""
    if a.type == "bool":
        return a | ~b
    return int_pow(a, b) if a.type[0] in "iu" else mathematics.pow(a, b)


int_pow = external("int_pow", loops=True)
gcd = external("gcd", loops=True)  # of ints
nextafter = external("nextafter")


def clamp(x: Scalar, low: Scalar, high: Scalar) -> Scalar:
    """`x` limited to [low, high]; NaN stays."""
    return s.minimum(s.maximum(x, low), high)


# --- shifts; by less than 0 or by all bits and more they leave 0, or the sign


@function
def shift_left(a: Scalar, b: Scalar) -> Scalar:
    """a * 2^b, modulo 2^bits."""
    if a.type == "bool":
        return a
    last = BITS[a.type] - 1
    return select(_beyond(b, last), 0, a << (b & last))


@function
def shift_right(a: Scalar, b: Scalar) -> Scalar:
    """floor(a / 2^b)."""
    if a.type == "bool":
        return a & ~b
    last = BITS[a.type] - 1
    if a.type[0] == "u":
        return select(_beyond(b, last), 0, a >> (b & last))
    return a >> select(_beyond(b, last), last, b)


def _beyond(b: Scalar, last: int) -> Scalar:
    return b > last if b.type[0] == "u" else (b < 0) | (b > last)


# --- rare ones
lgamma = external("lgamma")
digamma = external("digamma")
zeta = external("zeta", loops=True)
erfcx = external("erfcx")
erfinv = external("erfinv")
ndtri = external("ndtri")
i0e = external("i0e")
i1e = external("i1e")


# --- reductions


def lowest(type: str) -> Any:
    """What is below every number of a type: where the search for the largest begins."""
    return _ends(type)[0]


def highest(type: str) -> Any:
    """What is above every number of a type."""
    return _ends(type)[1]


def _ends(type: str) -> tuple[Any, Any]:
    if type in s.FLOATS:
        return -math.inf, math.inf
    if type == "bool":
        return False, True
    bits = BITS[type]
    return (0, (1 << bits) - 1) if type[0] == "u" else (-(1 << bits - 1), (1 << bits - 1) - 1)


@function
def wins(x: Scalar, best: Scalar) -> Scalar:
    """Whether x takes the place of the largest so far; NaN beats all."""
    if not x.is_float:
        return x > best
    return ((x > best) | isnan(x)) & ~isnan(best)


@function
def loses(x: Scalar, best: Scalar) -> Scalar:
    """Whether x takes the place of the smallest so far; NaN beats all."""
    if not x.is_float:
        return x < best
    return ((x < best) | isnan(x)) & ~isnan(best)


# --- random numbers


@function
def philox(k0: Scalar, k1: Scalar, draw: Scalar, i: Scalar) -> Scalar:
    """Word i of the stream of a key and a draw, as `philox` of mathfn.py: counter (i / 4, 0,
    draw, 0), word i % 4 of its block."""
    i = s.cast(i, "u32")
    a, b, c, d = i >> 2, _like(i, 0), draw, _like(i, 0)
    for _ in range(10):
        (p, a), (q, c) = _product(a, 0xD2511F53), _product(c, 0xCD9E8D57)
        a, b, c, d = q ^ b ^ k0, c, p ^ d ^ k1, a
        k0, k1 = k0 + 0x9E3779B9, k1 + 0xBB67AE85
    odd, high = s.ne(i & 1, 0), s.ne(i & 2, 0)
    return select(high, select(odd, d, c), select(odd, b, a))


def _product(x: Scalar, factor: int) -> tuple[Scalar, Scalar]:
    """The upper and the lower 32 bits of x * factor, from products of 16 bits."""
    low, high = x & 0xFFFF, x >> 16
    by_low, by_high = factor & 0xFFFF, factor >> 16
    middle = high * by_low + ((low * by_low) >> 16)
    other = (middle & 0xFFFF) + low * by_high
    return high * by_high + (middle >> 16) + (other >> 16), x * factor


@function
def normal(bits: Scalar) -> Scalar:
    """f32 standard normal quantile of (bits >> 9 + 1/2) / 2^23: the operations of
    `normal_from_bits` of mathfn.py, in f64, so that the bits are the same."""
    p = (s.cast(bits >> 9, "f64") + 0.5) * 2.0**-23
    q = p - 0.5
    t = s.sqrt(-_exact_log(s.minimum(p, 1 - p)))
    outer = select(t <= 5, _ratio(t - 1.6, AS241_C, AS241_D), _ratio(t - 5, AS241_E, AS241_F))
    near = q * _ratio(0.180625 - q * q, AS241_A, AS241_B)
    return s.cast(select(s.abs(q) > 0.425, select(q < 0, -outer, outer), near), "f32")


def _exact_log(x: Scalar) -> Scalar:
    """log of a normal f64 > 0 from exactly rounded operations only."""
    bits = s.bitcast(x, "i64")
    m = s.bitcast((bits & ((1 << 52) - 1)) | (1022 << 52), "f64")
    e = s.cast((bits >> 52) - 1022, "f64")
    small = m < math.sqrt(0.5)
    m, e = select(small, m * 2, m), select(small, e - 1, e)
    part = (m - 1) / (m + 1)
    z = part * part
    series = _like(z, 0.0)
    for k in range(21, 0, -2):
        series = series * z + 1 / k
    return e * 0.6931471805599453 + 2 * part * series


def _ratio(x: Scalar, a: Sequence[float], b: Sequence[float]) -> Scalar:
    return polynomial(x, a) / polynomial(x, b)


def polynomial(x: Scalar, coefficients: Sequence[float]) -> Scalar:
    """Its value at x by Horner's rule; the coefficients are from the highest power down."""
    out = _like(x, coefficients[0])
    for c in coefficients[1:]:
        out = out * x + c
    return out


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
