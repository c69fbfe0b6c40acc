"""Mathematical functions of f32, written in Scalars: exp, log, sin, tanh, erf, pow and their kin.

They have no branches, and 32 bits a lane, so that they are as fast in vectors. Errors are in units
in the last place of the exact result, the largest of millions of numbers of all sizes, however
`muladd` rounds; edges are those of C. Coefficients are from the lowest power up, fitted to the
least largest relative error.
"""

from __future__ import annotations

import functools
import math

from pyframe.graph import scalar as s
from pyframe.graph.scalar import Scalar, function, muladd, select

_of_f32 = functools.partial(function, only="f32")

LOG2, LOG2E = math.log(2), 1 / math.log(2)
LOG2_HIGH, LOG2_LOW = 0.693359375, -2.12194440e-4  # times up to 15 bits the first has no error
LOG10E, LOG10_2_HIGH, LOG10_2_LOW = math.log10(math.e), 0.301025390625, 4.60503907e-6
TO_WHOLE = 12582912.0  # 1.5 * 2^23: the last bits of x + TO_WHOLE are x rounded
SIGN = 0x80000000


def _series(x: Scalar, *coefficients: float) -> Scalar:
    """A polynomial, by Horner's rule."""
    out = s.const(coefficients[-1], "f32")
    for c in coefficients[-2::-1]:
        out = muladd(out, x, c)
    return out


def _at_least(x: Scalar, low: float) -> Scalar:
    """max(x, low); NaN stays. One instruction, unlike `maximum` of two numbers that may be NaN."""
    return select(x < low, low, x)


def _at_most(x: Scalar, high: float) -> Scalar:
    return select(x > high, high, x)


def _u32(x: Scalar) -> Scalar:
    return s.bitcast(x, "u32")


def _f32(bits: Scalar) -> Scalar:
    return s.bitcast(bits, "f32")


def _of_sign(size: Scalar, x: Scalar) -> Scalar:
    """A number that is positive, or has the sign of x anyhow, with the sign of x: of -0.0 too."""
    return _f32(_u32(size) | (_u32(x) & SIGN))


@function
def whole(x: Scalar, steps: Scalar, to: Scalar) -> Scalar:
    """round(x * steps), at most 2^21; `to` is TO_WHOLE, or not far from it. Where compilers may
    reorder sums this is text of the printer's, and so is `whole_bits`."""
    return muladd(x, steps, to) - to


@function
def whole_bits(x: Scalar, steps: Scalar, to: Scalar) -> Scalar:
    """u32 whose last 21 bits are those of round(x * steps) + to - TO_WHOLE."""
    return _u32(muladd(x, steps, to))


@function
def plus_part(x: Scalar, n: Scalar, part: Scalar) -> Scalar:
    """x + n * part, where n times the parts of a number are added one after the other: compilers
    that reorder sums would add the parts."""
    return muladd(n, part, x)


def _whole_power(x: Scalar, steps: float) -> tuple[Scalar, Scalar]:
    """(n, 2^n) of n = round(x * steps), -126 <= n <= 127."""
    to = TO_WHOLE + 127
    return whole(x, steps, to), _f32(whole_bits(x, steps, to) << 23)


def _exp_rest(x: Scalar) -> tuple[Scalar, Scalar]:
    """(r, 2^n) of x = 2 n log(2) + r, |r| <= log(2): exp(x) is exp(r) times 2^n times 2^n, as no
    float may be 2^(2 n)."""
    n, scale = _whole_power(x, 0.5 * LOG2E)
    return plus_part(plus_part(x, n, -2 * LOG2_HIGH), n, -2 * LOG2_LOW), scale


def _exp_series(r: Scalar) -> Scalar:
    """exp(r) - 1, |r| <= log(2)."""
    tail = _series(r, 0.500000003, 0.166666722, 0.0416666212, 0.00833262861, 0.00138904265,
                   2.00957697e-4, 2.47811442e-5)  # fmt: skip
    return muladd(r * r, tail, r)


def _exp_parts(x: Scalar) -> tuple[Scalar, Scalar]:
    """(y, 2^n) of exp(x) = y times 2^n times 2^n, x >= -104."""
    r, scale = _exp_rest(_at_most(x, 91.0))
    return _series(r, 1.0, 1.0, 0.500000346, 0.166666141, 0.0416612683, 0.00833610318,
                   0.00141044717, 1.96116013e-4), scale  # fmt: skip


@_of_f32
def exp(x: Scalar) -> Scalar:
    """e^x. Error 2."""
    # It is 0 there, as in a masked softmax. Products too small for a normal number take processors
    # ten times as long, so they are not made for what is not asked for.
    far = x < -104.0
    y, scale = _exp_parts(select(far, 0.0, x))
    return select(far, 0.0, y * scale * scale)


def _half_exp(x: Scalar) -> Scalar:
    """e^x / 2, x >= 0, which may be finite where e^x is not."""
    y, scale = _exp_parts(x)
    return 0.5 * y * scale * scale


@_of_f32
def exp2(x: Scalar) -> Scalar:
    """2^x, without an error for whole numbers. Error 2."""
    far = x < -151.0
    y = _exp2_of_parts(_at_most(select(far, 0.0, x), 129.0), None)
    return select(far, 0.0, y)


def _exp2_of_parts(x: Scalar, low: Scalar | None) -> Scalar:
    """2^(x + low), -160 <= x <= 130."""
    n, scale = _whole_power(x, 0.5)
    r = muladd(n, -2.0, x)
    r = r if low is None else r + low
    one = _series(r, 1.0, 0.693147217, 0.240226729, 0.0555037941, 0.00961671724, 0.00133395028,
                  1.56539104e-4, 1.50303463e-5)  # fmt: skip
    return one * scale * scale


@_of_f32
def expm1(x: Scalar) -> Scalar:
    """e^x - 1. Error 1.5."""
    return _of_sign(_expm1(_at_most(_at_least(x, -104.0), 89.0)), x)


def _expm1(x: Scalar) -> Scalar:
    """The same, of -104 to 89, but for the sign of 0."""
    r, scale = _exp_rest(x)
    inverse = _f32(0x7F000000 - _u32(scale))
    return muladd(_exp_series(r), scale, scale - inverse) * scale


def _parts(x: Scalar) -> tuple[Scalar, Scalar]:
    """(m, e) of x = m * 2^e, sqrt(1/2) <= m < sqrt(2), of finite x >= 2^-126."""
    bits = _u32(x) - 0x3F3504F3
    return _f32((bits & 0x007FFFFF) + 0x3F3504F3), s.cast(s.bitcast(bits, "i32") >> 23, "f32")


def _all_parts(x: Scalar) -> tuple[Scalar, Scalar]:
    """The same of finite x > 0."""
    small = x < 2.0**-126
    m, e = _parts(select(small, x * 2.0**23, x))
    return m, e - select(small, 23.0, s.const(0.0, "f32"))


def _log_rest(f: Scalar) -> Scalar:
    """log(1 + f) - f, sqrt(1/2) <= 1 + f < sqrt(2)."""
    tail = _series(f, 0.33333313, -0.250000096, 0.200021187, -0.166679957, 0.14219551, -0.124055914,
                   0.118881746, -0.116756413, 0.067466012)  # fmt: skip
    z = f * f
    return muladd(f * z, tail, -0.5 * z)


def _log_edges(x: Scalar, y: Scalar) -> Scalar:
    """y, a logarithm of x; but -inf of 0, inf of inf, and NaN of NaN and below 0."""
    edge = select(s.eq(x, 0.0), -math.inf, s.const(math.nan, "f32"))
    return select(x > 0.0, select(x < math.inf, y, x), edge)


@_of_f32
def log(x: Scalar) -> Scalar:
    """The natural logarithm. Error 0.9."""
    m, e = _all_parts(x)
    return _log_edges(x, _log_sum(m - 1.0, e))


def _log_sum(f: Scalar, e: Scalar) -> Scalar:
    """log((1 + f) * 2^e)."""
    return muladd(e, LOG2_HIGH, f + muladd(e, LOG2_LOW, _log_rest(f)))


@_of_f32
def log2(x: Scalar) -> Scalar:
    """The logarithm to the base 2. Error 1.9."""
    m, e = _all_parts(x)
    f = m - 1.0
    return _log_edges(x, muladd(f + _log_rest(f), LOG2E, e))


@_of_f32
def log10(x: Scalar) -> Scalar:
    """The logarithm to the base 10. Error 2.1."""
    m, e = _all_parts(x)
    f = m - 1.0
    y = muladd(f + _log_rest(f), LOG10E, e * LOG10_2_LOW)
    return _log_edges(x, muladd(e, LOG10_2_HIGH, y))


@_of_f32
def log1p(x: Scalar) -> Scalar:
    """log(1 + x). Error 1.5."""
    return _log1p(x)


def _log1p(x: Scalar) -> Scalar:
    whole = 1.0 + x
    m, e = _parts(whole)
    scale = _f32(0x3F800000 + (_u32(m) - _u32(whole)))  # 2^-e
    f = select(x > 2.0**60, m - 1.0, muladd(x, scale, scale - 1.0))  # 1 + x was rounded
    y = _log_edges(whole, _log_sum(f, e))
    return _of_sign(y, x)


@_of_f32
def pow(a: Scalar, b: Scalar) -> Scalar:
    """a to the power of b, in all its cases as C's. Error 2.1."""
    size, often = s.abs(a), s.abs(b)
    whole = s.eq(b, s.trunc(b))
    odd = whole & (often < 2.0**24) & s.ne(0.5 * b, s.trunc(0.5 * b))
    grows = (size > 1.0) ^ (b < 0.0)
    limit = select(grows, math.inf, s.const(0.0, "f32"))
    at_end = s.eq(size, 0.0) | s.eq(size, math.inf) | s.eq(often, math.inf)
    y = select(at_end, limit, _power(size, b))
    y = select((a < 0.0) & ~whole & (size < math.inf), math.nan, y)
    y = _f32(_u32(y) | select(odd, _u32(a) & SIGN, 0))
    y = select(s.eq(b, 2.0), a * a, select(s.eq(b, 1.0), a, y))
    y = select(s.ne(a, a) | s.ne(b, b), math.nan, y)
    one = s.eq(a, 1.0) | s.eq(b, 0.0) | (s.eq(size, 1.0) & s.eq(often, math.inf))
    return select(one, 1.0, y)


def _high(x: Scalar) -> Scalar:
    """Its first 12 bits: a product of two such has no error."""
    return _f32(_u32(x) & 0xFFFFF000)


def _power(x: Scalar, y: Scalar) -> Scalar:
    """x^y of finite x > 0, as fdlibm's e_powf.c: log2(x) in two numbers, the first of 12 bits."""
    m, n = _all_parts(x)
    above, below = m > 1.2247449, m < 0.81649658  # there log2(m / c) for c = 1.5 or 0.75
    c = select(above, 1.5, select(below, 0.75, s.const(1.0, "f32")))
    far = above | below
    u, v = m - c, 1.0 / (m + c)
    t = u * v
    t_high = _high(t)
    sum = _high(m + c)
    t_low = v * muladd(t_high, (sum - c) - m, muladd(t_high, -sum, u))
    z = t * t
    series = _series(z, 0.6, 0.42857143, 0.33333334, 0.27272812, 0.23066075, 0.20697501)
    tail = muladd(t_low, t_high + t, z * z * series)
    square = t_high * t_high
    w_high = _high(3.0 + square + tail)
    w_low = tail - ((w_high - 3.0) - square)
    first, second = t_high * w_high, muladd(t_low, w_high, w_low * t)
    p_high = _high(first + second)
    p_low = second - (p_high - first)
    z_high = 0.9619140625 * p_high  # 2 / (3 log(2)) in two numbers
    z_low = muladd(p_low, 0.96179670, select(far, 1.5632208e-6, s.const(0.0, "f32")))
    z_low = muladd(p_high, -1.1736857e-4, z_low)
    n = select(below, n - 1.0, n)  # log2(c) is 0, or this and 0.585
    offset = select(far, 0.5849609375, s.const(0.0, "f32"))
    high = _high(((z_high + z_low) + offset) + n)
    low = z_low - (((high - n) - offset) - z_high)
    y_high = _high(y)
    q_high = y_high * high
    q_low = muladd(y - y_high, high, y * low)
    sum = q_high + q_low
    clamped = _at_most(_at_least(sum, -160.0), 130.0)
    # what is clamped has no rest; q_high may be infinite there
    rest = select(s.eq(clamped, sum), q_low - (sum - q_high), 0.0)
    return _exp2_of_parts(clamped, rest)


# pi / 2 in parts, the first of so few bits that their products with whole numbers below 2^13 have
# no error
HALF_PI = (1.5703125, 4.837512969970703125e-4, 7.5495336e-8, 2.5633441e-12)
# 2 / pi: words of 32 bits, the first of them that of 2^11
TWO_OVER_PI = (0x000A2F98, 0x36E4E441, 0x529FC275, 0x7D1F534D, 0xDC0DB629, 0x5993C439)


def _quarter(x: Scalar) -> tuple[Scalar, Scalar]:
    """(u32 k, r) of |x| = k pi / 2 + r, where of k the last two bits count; |r| < 0.81.

    Below 2^13 pi / 2 is subtracted in parts (Cody & Waite 1980). Beyond (Payne & Hanek 1983) x is a
    whole number m of 24 bits times a power of 2, of whose product with 2 / pi those bits count that
    stand for less than 4; r has an error of up to 4e-9.
    """
    size = s.abs(x)
    bits = _u32(size)
    sum = muladd(size, 2 / math.pi, TO_WHOLE)
    k, near = sum - TO_WHOLE, size
    for angle in HALF_PI:
        near = muladd(k, -angle, near)

    place = (bits >> 23) - 140  # in the bits of 2 / pi
    words = [s.const(w, "u32") for w in TWO_OVER_PI]
    for by in (2, 1):
        later = s.ne(place & 32 * by, 0)
        words = [select(later, words[n + by], words[n]) for n in range(len(words) - by)]
    first, second, third = words
    shift = place & 31
    back = 31 - shift
    first = (first << shift) | ((second >> 1) >> back)
    second = ((second << shift) | ((third >> 1) >> back)) >> 1
    mantissa = bits & 0x007FFFFF
    high = (mantissa | 0x00800000) * first
    turns = (high + (1 << 29)) >> 30
    part = s.cast(s.bitcast(high - (turns << 30), "i32"), "f32")
    more = s.cast(s.bitcast(second, "i32"), "f32") * 2.0**-31
    part = muladd(_f32(mantissa | 0x4B000000), more, part)
    far = select(size < math.inf, part * (math.pi / 2 * 2.0**-30), math.nan)

    is_far = bits >= 0x46000000
    return select(is_far, turns, _u32(sum)), select(is_far, far, near)


def _sine(r: Scalar) -> Scalar:
    z = r * r
    return muladd(r * z, _series(z, -0.166666523, 0.00833201322, -1.94954622e-4), r)


def _cosine(r: Scalar) -> Scalar:
    z = r * r
    return _series(z, 1.0, -0.5, 0.0416666415, -0.00138871158, 2.44104949e-5)


@_of_f32
def sin(x: Scalar) -> Scalar:
    """The sine. Error 2.3, and see `_quarter`."""
    k, r = _quarter(x)
    y = select(s.ne(k & 1, 0), _cosine(r), _sine(r))
    return _f32(_u32(y) ^ ((k << 30) & SIGN) ^ (_u32(x) & SIGN))


@_of_f32
def cos(x: Scalar) -> Scalar:
    """The cosine. Error 2.3, and see `_quarter`."""
    k, r = _quarter(x)
    y = select(s.ne(k & 1, 0), _sine(r), _cosine(r))
    return _f32(_u32(y) ^ (((k + 1) << 30) & SIGN))


@_of_f32
def tan(x: Scalar) -> Scalar:
    """The tangent. Error 3.5, and see `_quarter`."""
    k, r = _quarter(x)
    a, b = _sine(r), _cosine(r)
    odd = s.ne(k & 1, 0)
    y = select(odd, b, a) / select(odd, a, b)
    return _f32(_u32(y) ^ ((k << 31) & SIGN) ^ (_u32(x) & SIGN))


def _asin_parts(x: Scalar) -> tuple[Scalar, Scalar]:
    """(asin(y), whether y is sqrt((1 - |x|) / 2)), where asin(|x|) is pi / 2 - 2 asin(y); else y
    is |x| <= 1/2."""
    size = s.abs(x)
    turned = size > 0.5
    z = select(turned, muladd(size, -0.5, 0.5), size * size)
    y = select(turned, s.sqrt(z), size)
    tail = _series(z, 0.166667525, 0.0749529765, 0.0454703741, 0.0241795264, 0.0421662863)
    return muladd(y * z, tail, y), turned


@_of_f32
def asin(x: Scalar) -> Scalar:
    """The angle between -pi / 2 and pi / 2 whose sine is x. Error 2.4."""
    part, turned = _asin_parts(x)
    return _of_sign(select(turned, muladd(part, -2.0, math.pi / 2), part), x)


@_of_f32
def acos(x: Scalar) -> Scalar:
    """The angle between 0 and pi whose cosine is x. Error 1.3."""
    part, turned = _asin_parts(x)
    below = x < 0.0
    near = math.pi / 2 - select(below, -part, part)
    far = select(below, muladd(part, -2.0, math.pi), 2.0 * part)
    return select(turned, far, near)


def _atan_series(x: Scalar) -> Scalar:
    """atan(x), 0 <= x <= 1."""
    z = x * x
    tail = _series(z, -0.333332991, 0.199985482, -0.142642408, 0.109521811, -0.0840343663,
                   0.0579573591, -0.0311776126, 0.0109144808, -0.00179359384)  # fmt: skip
    return muladd(x * z, tail, x)


@_of_f32
def atan(x: Scalar) -> Scalar:
    """The angle between -pi / 2 and pi / 2 whose tangent is x. Error 2."""
    size = s.abs(x)
    turned = size > 1.0
    part = _atan_series(select(turned, 1.0 / size, size))
    return _of_sign(select(turned, math.pi / 2 - part, part), x)


@_of_f32
def atan2(y: Scalar, x: Scalar) -> Scalar:
    """The angle of the point (x, y), between -pi and pi. Error 1.9."""
    over, by = s.abs(y), s.abs(x)
    turned = over > by
    most, least = select(turned, over, by), s.minimum(over, by)
    equal = select(s.eq(most, 0.0), most, 1.0)
    part = _atan_series(select(s.eq(least, most), equal, least / most))
    part = select(turned, math.pi / 2 - part, part)
    part = select(s.bitcast(x, "i32") < 0, math.pi - part, part)
    return _of_sign(part, y)


@_of_f32
def sinh(x: Scalar) -> Scalar:
    """(e^x - e^-x) / 2. Error 2.7."""
    size = s.abs(x)
    half = _half_exp(size)
    z = x * x
    tail = _series(z, 0.166666665, 0.00833335006, 1.98361597e-4, 2.81695136e-6)
    near = muladd(size * z, tail, size)
    return _of_sign(select(size > 1.0, half - 0.25 / half, near), x)


@_of_f32
def cosh(x: Scalar) -> Scalar:
    """(e^x + e^-x) / 2. Error 2."""
    half = _half_exp(s.abs(x))
    return half + 0.25 / half


@_of_f32
def tanh(x: Scalar) -> Scalar:
    """The hyperbolic tangent. Error 2."""
    size = _at_most(s.abs(x), 10.0)  # from where on it is 1
    e = _expm1(2.0 * size)
    far = size > 0.6  # there 1 less what is small, rounded once
    part = select(far, 2.0, e) / (e + 2.0)
    return _of_sign(select(far, 1.0 - part, part), x)


@_of_f32
def asinh(x: Scalar) -> Scalar:
    """The inverse of sinh. Error 1.8."""
    size = s.abs(x)
    far = size > 1e9
    z = size * size
    y = _log1p(select(far, size, size + z / (1.0 + s.sqrt(z + 1.0))))
    return _of_sign(select(far, y + LOG2, y), x)


@_of_f32
def acosh(x: Scalar) -> Scalar:
    """The inverse of cosh, at least 0; NaN below 1. Error 1.9."""
    far = x > 1e9
    t = x - 1.0
    y = _log1p(select(far, x, t + s.sqrt(muladd(t, t, 2.0 * t))))
    return select(x < 1.0, math.nan, select(far, y + LOG2, y))


@_of_f32
def atanh(x: Scalar) -> Scalar:
    """The inverse of tanh; infinite at 1, NaN beyond. Error 2.1."""
    size = s.abs(x)
    return _of_sign(0.5 * _log1p(2.0 * size / (1.0 - size)), x)


@_of_f32
def hypot(a: Scalar, b: Scalar) -> Scalar:
    """sqrt(a^2 + b^2), where squares of large and small numbers are none of f32. Error 1.3."""
    a, b = s.abs(a), s.abs(b)
    most = select(a < b, b, a)
    large, small = most > 2.0**60, most < 2.0**-60
    scale = select(large, 2.0**-70, select(small, 2.0**100, s.const(1.0, "f32")))
    back = select(large, 2.0**70, select(small, 2.0**-100, s.const(1.0, "f32")))
    a_part, b_part = a * scale, b * scale
    size = s.sqrt(muladd(a_part, a_part, b_part * b_part)) * back
    return select(s.eq(a, math.inf) | s.eq(b, math.inf), math.inf, size)


@_of_f32
def erf(x: Scalar) -> Scalar:
    """2 / sqrt(pi) times the integral of e^(-t^2) from 0 to x. Error 6.6."""
    x = _at_most(_at_least(x, -ERF_ONE), ERF_ONE)
    z = x * x
    y = x * _series(z, *ERF_ABOVE) / _series(z, *ERF_BELOW)
    return _at_most(_at_least(y, -1.0), 1.0)


ERF_ONE = 3.86  # from here on it is 1
ERF_ABOVE = (1.12837916, 0.188244295, 0.0525161316, 0.00368646742, 2.85535707e-4, 2.09981146e-6)
ERF_BELOW = (1.0, 0.500160018, 0.113263712, 0.0148100272, 0.00114777983, 3.8637696e-5)


@_of_f32
def erfc(x: Scalar) -> Scalar:
    """1 - erf(x), in all its digits where it is small. Error 5.4."""
    size = _at_most(s.abs(x), 10.2)
    # e^(-x^2) of x^2 in two parts: rounded at once it would cost half the digits
    high = _high(size)
    r, scale = _exp_rest(-high * high)
    r = muladd(high - size, high + size, r)
    power = (_exp_series(r) + 1.0) * scale * scale
    tail = power * _series((size - 2.0) / (size + 2.0), *ERFC_SERIES) / muladd(size, 2.0, 1.0)
    return select(x < 0.0, 2.0 - tail, tail)


# e^(x^2) erfc(x) (1 + 2 x), as a polynomial of (x - 2) / (x + 2)
ERFC_SERIES = (1.27697839, -0.0927639892, -0.166031497, 0.164055503, -0.0542034659, -0.00806040076,
               0.00862851405, 0.00131307897, -0.00122609489, -3.98327687e-4)  # fmt: skip


# --- rests of divisions


@functools.partial(function, only="f32", loops=True)
def fmod(a: Scalar, b: Scalar) -> Scalar:
    """What a / b, cut towards 0, leaves; it has the sign of a. No error."""
    rest, by = s.cast(s.abs(a), "f64"), s.cast(s.abs(b), "f64")
    by = select(s.eq(by, math.inf), 2.0**128, by)
    for n in range(252, -1, -28):  # each quotient has 28 bits, its product with b 52
        part = by * 2.0**n
        rest = rest - s.trunc(rest / part) * part
    return _of_sign(s.cast(rest, "f32"), a)


@functools.partial(function, only="f32", loops=True)
def mod(a: Scalar, b: Scalar) -> Scalar:
    """What floor(a / b) leaves: it has the sign of b."""
    rest = fmod(a, b)
    return select(_across(rest, b), rest + b, rest)


@functools.partial(function, only="f32", loops=True)
def floordiv(a: Scalar, b: Scalar) -> Scalar:
    """floor(a / b), rounded once."""
    over, by = s.cast(a, "f64"), s.cast(b, "f64")
    tiny = select(s.ne(a < 0.0, b < 0.0), -0.5, s.const(0.5, "f64"))
    quotient = over / by  # f64 has digits enough to tell it from a whole number; 0 only if b is inf
    quotient = select(s.eq(quotient, 0.0) & s.ne(over, 0.0), tiny, quotient)
    no_rest = s.eq(s.abs(a), math.inf) & s.ne(b, 0.0)  # fmod is NaN
    return select(no_rest, math.nan, s.cast(s.floor(quotient), "f32"))


def _across(rest: Scalar, b: Scalar) -> Scalar:
    """Whether cutting went up: there is a rest and its sign is not the divisor's."""
    return s.ne(rest, 0.0) & s.ne(rest < 0.0, b < 0.0)
