"""Rows of pointwise and special functions."""

from __future__ import annotations

from typing import Any

from .row import Row, binary, bools, ints, normal, positive, unary, value


def special(name: str, *specs: Any, **kw: Any) -> Row:
    """special.`name` of its operands."""
    registered = {"modified_bessel_k0": "scipy", "legendre_polynomial_p": "polynomial"}.get(name)
    row = f"{registered}:{name}" if registered else name
    return Row(row, lambda t, F, x, *r: getattr(t.special, name)(x, *r),
               specs or (normal(4, 5),), **kw)  # fmt: skip


def inside(name: str, **kw: Any) -> Row:
    """A function of numbers between -1 and 1."""
    return Row(name, lambda t, F, x: getattr(t, name)(t.tanh(x) * 0.9), (normal(4, 5),), **kw)


ROWS: tuple[Row, ...] = (
    # trigonometry
    inside("asin", tol=5), inside("acos", tol=5), inside("atanh", tol=5),
    unary("sinh"), unary("cosh"), unary("asinh"),
    Row("acosh", lambda t, F, x: t.acosh(x + 1), (positive(4, 5),), tol=3),
    value("asinh:large", lambda t, F, x: t.asinh(x * 1e6)),
    value("sinh:large", lambda t, F, x: t.sinh(x * 30), tol=3),
    binary("atan2"), binary("hypot"), unary("sinc", tol=3), unary("deg2rad"), unary("rad2deg"),
    value("atan2:axes", lambda t, F, x, y: t.atan2(x.float(), y.float()), ints(-1, 2, 20),
        ints(-1, 2, 20)),
    # parts and signs
    unary("frac"), unary("positive"), unary("sgn", grad=False), unary("signbit", grad=False),
    Row("exponent_of:frexp", lambda t, F, x: t.frexp(x).mantissa),
    value("exponent_of", lambda t, F, x: t.frexp(x * 100).exponent),
    Row("ldexp", lambda t, F, x, n: t.ldexp(x, n), (normal(4, 5), ints(0, 5, 5))),
    value("ldexp:far", lambda t, F, x, n: t.ldexp(t.cat([x * 1e-30, x * 0]), n), normal(4, 5),
        ints(140, 200, 5)),
    value("ldexp:float16", lambda t, F, x, n: t.ldexp(x.half(), n), normal(4, 5), ints(-5, 5, 5),
        cpu=True),
    binary("copysign"),
    Row("copysign:number", lambda t, F, x: t.copysign(x, -2)),
    Row("nextafter", lambda t, F, x, y: t.nextafter(x, y), (normal(4, 5), normal(5))),
    Row("round:decimals", lambda t, F, x: t.round(x, decimals=2)),
    value("nan_to_num", lambda t, F, x: t.nan_to_num(t.log(t.floor(x)), nan=3.0, neginf=-2.0)),
    value("heaviside", lambda t, F, x, y: t.heaviside(t.floor(x), y), normal(4, 5), normal(5)),
    binary("fmax"), binary("fmin"), unary("angle", grad=False), unary("isreal", grad=False),
    # limits
    binary("clamp_min"), binary("clamp_max"),
    *[Row(f"{name}:of_infinite_gradient", lambda t, F, x, fn=fn: t.sqrt(fn(t, F, x)),
          (normal(4, 5),), second=False) for name, fn in {
        "maximum": lambda t, F, x: t.maximum(x, t.zeros_like(x)),
        "minimum": lambda t, F, x: -t.minimum(x, t.zeros_like(x)),
        "softshrink": lambda t, F, x: F.softshrink(x, 0.3).clamp(min=0)}.items()],
    Row("clamp:tensors", lambda t, F, x, a, b: t.clamp(x, a, b), (normal(9, 5), normal(5),
        normal(9, 1))),
    Row("clamp_max:number", lambda t, F, x: x.clamp_max(0.3)),
    # ints
    value("gcd", lambda t, F, x, y: t.gcd(x, y), ints(-40, 40, 30), ints(-9, 9, 30)),
    value("lcm", lambda t, F, x, y: t.lcm(x, y), ints(-40, 40, 30), ints(-9, 9, 30)),
    value("bitwise_left_shift", lambda t, F, x, y: x << y, ints(-9, 9, 30), ints(0, 9, 30)),
    value("bitwise_right_shift", lambda t, F, x, y: x >> y, ints(-99, 99, 30), ints(0, 9, 30)),
    value("bitwise_right_shift:uint8", lambda t, F, x, y: x.to(t.uint8) >> y.to(t.uint8),
        ints(0, 255, 30), ints(0, 9, 30)),
    # arithmetic
    Row("rsub", lambda t, F, x, y: t.rsub(x, y, alpha=2), (normal(4, 5), normal(5))),
    Row("lerp:tensor", lambda t, F, x, y, w: t.lerp(x, y, w), (normal(4, 5), normal(5), normal(5))),
    value("where:numbers", lambda t, F, c: t.where(c, 1.0, 2), bools(4, 5)),
    binary("logaddexp"), binary("logaddexp2"),
    Row("xlogy", lambda t, F, x, y: t.xlogy(x, y), (normal(4, 5), positive(5))),
    value("xlogy:zero", lambda t, F, x, y: t.xlogy(t.floor(x) * 0, y), normal(4, 5), normal(5)),
    special("xlog1py", normal(4, 5), positive(5)),
    Row("logit", lambda t, F, x: t.logit(t.sigmoid(x)), tol=5),
    Row("logit:eps", lambda t, F, x: t.logit(x, eps=0.2), (positive(4, 5),)),
    special("entr", positive(4, 5)),
    # the gamma function and its kin
    Row("lgamma", lambda t, F, x: t.lgamma(x * 4), (positive(4, 5),)),
    Row("lgamma:negative", lambda t, F, x: t.lgamma(x * 3), tol=30, second=False),
    Row("digamma", lambda t, F, x: t.digamma(x * 4), (positive(4, 5),), tol=3),
    value("digamma:negative", lambda t, F, x: t.digamma(x * 3), tol=30),
    Row("polygamma", lambda t, F, x: t.polygamma(2, x), (positive(4, 5),), tol=5),
    value("polygamma:negative", lambda t, F, x: t.polygamma(1, t.floor(x) + 0.3), tol=30),
    Row("zeta", lambda t, F, x: t.special.zeta(2.5, x), (positive(4, 5),), tol=5),
    # the error function's kin
    unary("erfc"), Row("erfc:tail", lambda t, F, x: t.erfc(x * 3), (positive(20),), tol=3,
                       second=False),
    special("erfcx", tol=3), inside("erfinv", tol=5),
    special("ndtr"), special("log_ndtr", tol=3),
    Row("log_ndtr:tail", lambda t, F, x: t.special.log_ndtr(x - 9), (normal(9),), tol=3),
    Row("ndtri", lambda t, F, x: t.special.ndtri(t.sigmoid(x)), tol=5),
    # Bessel functions
    special("i0e"), special("i1e"), special("i1"), unary("i0"),
    Row("i0e:large", lambda t, F, x: t.special.i0e(x * 20), tol=3),
    Row("i1e:large", lambda t, F, x: t.special.i1e(x * 20), tol=3, second=False),
    special("spherical_bessel_j0", grad=False, tol=3),
    special("modified_bessel_k0", positive(4, 5), grad=False),
    special("legendre_polynomial_p", normal(4, 5), ints(0, 6, 5), grad=False, tol=3),
    Row("igamma", lambda t, F, a, x: t.igamma(a, x), (ints(1, 5, 4, 5), positive(5)), tol=5),
    Row("igamma:upper", lambda t, F, a, x: t.igammac(a, x), (ints(1, 5, 4, 5), positive(5)), tol=5),
)  # fmt: skip
