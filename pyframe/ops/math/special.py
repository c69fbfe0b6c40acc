"""Special functions: ops with kernels for those that nets use, the rest computed by the host."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from pyframe.core import dtypes as dt
from pyframe.core.dispatch import apply
from pyframe.core.extras import install
from pyframe.core.op import EXTERN, Op
from pyframe.graph import functions as f, mathematics as m
from pyframe.ops.api import check
from pyframe.ops.api.batching_rules import aligned
from pyframe.ops.api.public import public
from pyframe.ops.math import elementwise as el, mathfn, promotion
from pyframe.ops.math.promotion import FLOAT
from pyframe.ops.reduce import reductions as reduce
from pyframe.ops.shape import movement as mv
from pyframe.tensor import Tensor


def _op(name: str, inputs: str = "x", **gradients: Any) -> promotion.Elementwise:
    """A function of real numbers, which has its name in `mathfn` and in graph/functions.py."""
    numpy, meaning = getattr(mathfn, name), getattr(f, name)
    return promotion.op(name, inputs, numpy, meaning, FLOAT, real=True, **gradients)


# --- the gamma function and its kin

lgamma = _op("lgamma", x=lambda g, x: g * digamma(x))
digamma = _op("digamma", x=lambda g, x: g * zeta(2.0, x))
zeta = _op("zeta", "s q", q=lambda g, s, q: g * -s * zeta(s + 1.0, q))


def polygamma(n: int, input: Tensor) -> Tensor:
    """The n-th derivative of digamma (DLMF 5.15): (-1)^(n+1) n! zeta(n + 1, x)."""
    if not isinstance(n, int) or n < 0:
        raise RuntimeError(f"polygamma(n, x) does not support negative n, got {n!r}; use n >= 0")
    if n == 0:
        return digamma(input)
    return zeta(n + 1.0, input) * ((-1.0) ** (n + 1) * math.gamma(n + 1.0))


def polygamma_method(self: Tensor, n: int) -> Tensor:
    """The n-th derivative of digamma."""
    return polygamma(n, self)


def mvlgamma(input: Tensor, p: int) -> Tensor:
    """log of the multivariate gamma function of dimension p; torch.mvlgamma."""
    if not isinstance(p, int) or p < 1:
        raise RuntimeError(f"mvlgamma: p has to be greater than or equal to 1, got {p!r}")
    if input.dtype is dt.bool_:
        raise RuntimeError("mvlgamma: not implemented for bool; use .float() first")
    less = el.iota((p,), input.device) * 0.5
    parts = lgamma(mv.unsqueeze(input, -1) - less.to(promotion.result_type(input, 0.5)))
    return reduce.sum(parts, -1) + p * (p - 1) / 4 * math.log(math.pi)


# --- the error function's kin

erfc = promotion.op(
    "erfc", "x", mathfn.erfc, m.erfc, FLOAT, real=True,
    x=lambda g, x: g * (-2.0 / math.sqrt(math.pi)) * el.exp(-x * x),
)  # fmt: skip
erfcx = _op(  # exp(x^2) * erfc(x)
    "erfcx", x=lambda g, y, x: g * (2.0 * x * y - 2.0 / math.sqrt(math.pi))
)
erfinv = _op("erfinv", x=lambda g, x: g * (0.5 * math.sqrt(math.pi)) * el.exp(el.square(erfinv(x))))
ndtri = _op("ndtri", "p", p=lambda g, y: g * math.sqrt(2 * math.pi) * el.exp(0.5 * y * y))


def ndtr(input: Tensor) -> Tensor:
    """The standard normal distribution function: erfc(-x / sqrt(2)) / 2."""
    return erfc(input * -math.sqrt(0.5)) * 0.5


def log_ndtr(input: Tensor) -> Tensor:
    """log(ndtr(x)), where that underflows too."""
    x = input * math.sqrt(0.5)
    low = el.lt(x, -1)
    # each side sees only what is its own, so that no gradient is 0 * inf
    left, right = el.where(low, x, -1.0), el.where(low, -1.0, x)
    below = el.log(erfcx(-left) * 0.5) - left * left
    return el.where(low, below, el.log1p(erfc(right) * -0.5))


# --- modified Bessel functions

i0e = _op("i0e", x=lambda g, y, x: g * (i1e(x) - el.sign(x) * y))
i1e = _op(
    "i1e", x=lambda g, y, x: g * (
        i0e(x) - y * (el.sign(x) + _inverse(x)) - el.where(el.eq(x, 0), 0.5, 0.0)),
)  # fmt: skip


def _inverse(x: Tensor) -> Tensor:
    """1 / x, and 0 for 0."""
    zero = el.eq(x, 0)
    return el.where(zero, 0.0, 1.0 / el.where(zero, 1.0, x))


def i0(input: Tensor) -> Tensor:
    """The modified Bessel function of the first kind and order 0."""
    input = el.floated(input)
    return i0e(input) * el.exp(el.abs(input))


def i1(input: Tensor) -> Tensor:
    """The modified Bessel function of the first kind and order 1."""
    input = el.floated(input)
    return i1e(input) * el.exp(el.abs(input))


# --- from logarithms and sines


def sinc(input: Tensor) -> Tensor:
    """sin(pi x) / (pi x), 1 at 0."""
    zero = el.eq(input, 0)
    x = el.where(zero, 1.0, input) * math.pi
    return el.where(zero, 1.0, el.sin(x) / x)


def spherical_bessel_j0(input: Tensor) -> Tensor:
    """The spherical Bessel function of order 0: sin(x) / x, 1 at 0."""
    zero = el.eq(input, 0)
    x = el.where(zero, 1.0, input)
    return el.where(zero, 1.0, el.where(el.isinf(x), 0.0, el.sin(x) / x))


def logit(input: Tensor, eps: float | None = None) -> Tensor:
    """log(x / (1 - x)), of x limited to [eps, 1 - eps] if `eps` is given."""
    x = el.as_float("logit", input)
    if eps is not None:
        x = el.clamp(x, eps, 1.0 - eps)
    return el.log(x / (1.0 - x))


def _times_log(name: str, log: Any, least: float, x: Any, y: Any) -> Tensor:
    """x * log(y), 0 where x is 0 and y is no NaN."""
    if not isinstance(x, Tensor) and not isinstance(y, Tensor):
        raise TypeError(f"{name}(): expected a Tensor among {type(x).__name__} and a number")
    if promotion.result_type(x, y).category == dt.COMPLEX:
        raise RuntimeError(f"{name}: not implemented for complex numbers")
    if not isinstance(x, Tensor):
        x = float(x)
        return log(y) * x if x else el.where(el.isnan(y), y, 0.0)
    if not isinstance(y, Tensor):
        y = el.new_like(x, y)
    bad = el.logical_or(el.le(y, least), el.isinf(y))
    skip = el.logical_and(el.eq(x, 0), bad)
    return x * log(el.where(skip, least + 1.0, y))


def xlogy(input: Any, other: Any) -> Tensor:
    """input * log(other), 0 where input is 0 and other is no NaN; either may be a number."""
    return _times_log("xlogy", el.log, 0.0, input, other)


def xlog1py(input: Any, other: Any) -> Tensor:
    """input * log1p(other), 0 where input is 0 and other is no NaN; either may be a number."""
    return _times_log("xlog1py", el.log1p, -1.0, input, other)


def entr(input: Tensor) -> Tensor:
    """-x log(x): 0 at 0, and -inf below."""
    x = el.as_float("entr", input)
    return el.where(el.lt(x, 0), -math.inf, el.where(el.eq(x, 0), 0.0, -xlogy(x, x)))


def logaddexp(input: Tensor, other: Tensor) -> Tensor:
    """log(exp(input) + exp(other)), without overflow."""
    return _logaddexp("logaddexp", input, other, 1.0)


def logaddexp2(input: Tensor, other: Tensor) -> Tensor:
    """log2(2^input + 2^other), without overflow."""
    return _logaddexp("logaddexp2", input, other, math.log(2))


def _logaddexp(name: str, a: Tensor, b: Tensor, unit: float) -> Tensor:
    check.floats_or_complex(name, a, b)
    if promotion.result_type(a, b).category == dt.COMPLEX:
        first = el.ge(a.real, b.real)
        top = el.where(first, a, b)
        return top + el.log1p(el.exp((el.where(first, b, a) - top) * unit)) / unit
    same = el.eq(a, b)  # also inf and inf, whose difference is NaN
    apart = el.abs(el.where(same, 0.0, a - b))
    return el.maximum(a, b) + el.log1p(el.exp(apart * -unit)) / unit


# --- what the host computes


def _by_scipy(x: np.ndarray, name: str) -> Any:
    try:
        import scipy.special
    except ImportError:
        raise RuntimeError(
            f"{name} needs SciPy, which is not installed: {install('special')}"
        ) from None
    out = getattr(scipy.special, SCIPY[name])(x.astype(np.float64))
    return out[0] if isinstance(out, tuple) else out


SCIPY = {
    "airy_ai": "airy", "bessel_j0": "j0", "bessel_j1": "j1", "bessel_y0": "y0", "bessel_y1": "y1",
    "modified_bessel_k0": "k0", "modified_bessel_k1": "k1", "scaled_modified_bessel_k0": "k0e",
    "scaled_modified_bessel_k1": "k1e",
}  # fmt: skip

scipy_op = Op("scipy", EXTERN, "x", "name", infer=lambda x, name: (x.shape, x.dtype),
              numpy=_by_scipy, batch=aligned)  # fmt: skip


def _hosted(name: str) -> Any:
    def run(input: Tensor) -> Tensor:
        return apply(scipy_op, (el.as_float(name, input),), (name,))

    run.__name__ = name
    return run


def _no_slope(g: Tensor) -> Tensor:
    raise RuntimeError("the derivative for 'igamma: input' is not implemented.")


def _gamma_slope(g: Tensor, a: Tensor, x: Tensor, upper: bool) -> Tensor:
    """DLMF 8.8.13: the derivative by x is x^(a-1) exp(-x) / gamma(a)."""
    slope = el.exp((a - 1.0) * el.log(x) - x - lgamma(a))
    return g * (-slope if upper else slope)


def _gammainc(a: np.ndarray, x: np.ndarray, upper: bool) -> Any:
    from pyframe.ops.math.incomplete import gammainc

    return gammainc(a, x, upper)


igamma_op = Op(
    "igamma", EXTERN, "a x", "upper",
    infer=lambda a, x, upper: (promotion.broadcast("igamma", a.shape, x.shape), a.dtype),
    numpy=_gammainc, batch=aligned, a=_no_slope, x=_gamma_slope,
)  # fmt: skip


def _igamma(name: str, input: Tensor, other: Tensor, upper: bool) -> Tensor:
    a, x = el.as_floats(name, input, other)
    return apply(igamma_op, (a, x), (upper,))


def igamma(input: Tensor, other: Tensor) -> Tensor:
    """The regularised lower incomplete gamma function; differentiable by `other`. The
    host computes it, of values on the GPU too.
    """
    return _igamma("igamma", input, other, False)


def igammac(input: Tensor, other: Tensor) -> Tensor:
    """The regularised upper incomplete gamma function: 1 - igamma, see there."""
    return _igamma("igammac", input, other, True)


polynomial_op = Op(
    "polynomial", EXTERN, "x n", "name",
    infer=lambda x, n, name: (promotion.broadcast(name, x.shape, n.shape), x.dtype),
    numpy=mathfn.polynomial, batch=aligned,
)  # fmt: skip


def _polynomial(name: str) -> Any:
    def run(input: Any, n: Any) -> Tensor:
        x, degree = el.as_floats(name, input, n)
        return apply(polynomial_op, (x, degree), (name,))

    run.__name__ = name
    return run


HOSTED = {name: _hosted(name) for name in SCIPY}
POLYNOMIALS = {name: _polynomial(name) for name in mathfn.FAMILIES}

public(
    globals(), both="logaddexp logaddexp2", inplace="""lgamma digamma mvlgamma erfinv igamma
    igammac polygamma=polygamma_method""", inplace_functions="erfc i0 sinc logit xlogy",
    functions="polygamma",  # polygamma(n, input); the tensor is first in the method
    like="igamma igammac", gpu_float32="erfinv",
)  # fmt: skip
