# Made by scripts/make_stubs; what it says is changed where the function is written.
"""What is in `pyframe.special` and written nowhere."""

from typing import Any

from pyframe.core.dtypes import dtype
from pyframe.tensor import Tensor

def airy_ai(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """torch.special.airy_ai. SciPy computes it, on the GPU too (the values go there)."""

def bessel_j0(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """torch.special.bessel_j0. SciPy computes it, on the GPU too (the values go there)."""

def bessel_j1(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """torch.special.bessel_j1. SciPy computes it, on the GPU too (the values go there)."""

def bessel_y0(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """torch.special.bessel_y0. SciPy computes it, on the GPU too (the values go there)."""

def bessel_y1(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """torch.special.bessel_y1. SciPy computes it, on the GPU too (the values go there)."""

def chebyshev_polynomial_t(input: Any, n: Any, *, out: Tensor | None = None) -> Tensor:
    """torch.special.chebyshev_polynomial_t, of degree n; either may be a number.

    On the GPU the host computes it. It has no gradient.
    """

def chebyshev_polynomial_u(input: Any, n: Any, *, out: Tensor | None = None) -> Tensor:
    """torch.special.chebyshev_polynomial_u, of degree n; either may be a number.

    On the GPU the host computes it. It has no gradient.
    """

def chebyshev_polynomial_v(input: Any, n: Any, *, out: Tensor | None = None) -> Tensor:
    """torch.special.chebyshev_polynomial_v, of degree n; either may be a number.

    On the GPU the host computes it. It has no gradient.
    """

def chebyshev_polynomial_w(input: Any, n: Any, *, out: Tensor | None = None) -> Tensor:
    """torch.special.chebyshev_polynomial_w, of degree n; either may be a number.

    On the GPU the host computes it. It has no gradient.
    """

def digamma(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """digamma(input), of each element, broadcast; torch.digamma."""

def entr(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """-x log(x): 0 at 0, and -inf below."""

def erf(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """erf(input), of each element, broadcast; torch.erf."""

def erfc(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """erfc(input), of each element, broadcast; torch.erfc."""

def erfcx(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """erfcx(input), of each element, broadcast; torch.erfcx."""

def erfinv(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """erfinv(input), of each element, broadcast; torch.erfinv."""

def exp2(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """exp2(input), of each element, broadcast; torch.exp2."""

def expit(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """sigmoid(input), of each element, broadcast; torch.sigmoid."""

def expm1(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """expm1(input), of each element, broadcast; torch.expm1."""

def gammainc(input: Tensor, other: Tensor, *, out: Tensor | None = None) -> Tensor:
    """The regularised lower incomplete gamma function; differentiable by `other`. The
    host computes it, of values on the GPU too.
    """

def gammaincc(input: Tensor, other: Tensor, *, out: Tensor | None = None) -> Tensor:
    """The regularised upper incomplete gamma function: 1 - igamma, see there."""

def gammaln(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """lgamma(input), of each element, broadcast; torch.lgamma."""

def hermite_polynomial_h(input: Any, n: Any, *, out: Tensor | None = None) -> Tensor:
    """torch.special.hermite_polynomial_h, of degree n; either may be a number.

    On the GPU the host computes it. It has no gradient.
    """

def hermite_polynomial_he(input: Any, n: Any, *, out: Tensor | None = None) -> Tensor:
    """torch.special.hermite_polynomial_he, of degree n; either may be a number.

    On the GPU the host computes it. It has no gradient.
    """

def i0(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """The modified Bessel function of the first kind and order 0."""

def i0e(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """i0e(input), of each element, broadcast; torch.i0e."""

def i1(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """The modified Bessel function of the first kind and order 1."""

def i1e(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """i1e(input), of each element, broadcast; torch.i1e."""

def laguerre_polynomial_l(input: Any, n: Any, *, out: Tensor | None = None) -> Tensor:
    """torch.special.laguerre_polynomial_l, of degree n; either may be a number.

    On the GPU the host computes it. It has no gradient.
    """

def legendre_polynomial_p(input: Any, n: Any, *, out: Tensor | None = None) -> Tensor:
    """torch.special.legendre_polynomial_p, of degree n; either may be a number.

    On the GPU the host computes it. It has no gradient.
    """

def log1p(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """log1p(input), of each element, broadcast; torch.log1p."""

def log_ndtr(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """log(ndtr(x)), where that underflows too."""

def log_softmax(
    input: Tensor,
    dim: int | None = None,
    dtype: dtype | type | None = None,
    *,
    out: Tensor | None = None,
) -> Tensor:
    """log(softmax(x)) over a dim, without overflow."""

def logit(input: Tensor, eps: float | None = None, *, out: Tensor | None = None) -> Tensor:
    """log(x / (1 - x)), of x limited to [eps, 1 - eps] if `eps` is given."""

def logsumexp(
    input: Tensor, dim: Any, keepdim: bool = False, *, out: Tensor | None = None
) -> Tensor:
    """log(sum(exp(x))) over dims, without overflow; ints give floats."""

def modified_bessel_i0(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """The modified Bessel function of the first kind and order 0."""

def modified_bessel_i1(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """The modified Bessel function of the first kind and order 1."""

def modified_bessel_k0(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """torch.special.modified_bessel_k0. SciPy computes it, on the GPU too (the values go there)."""

def modified_bessel_k1(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """torch.special.modified_bessel_k1. SciPy computes it, on the GPU too (the values go there)."""

def multigammaln(input: Tensor, p: int, *, out: Tensor | None = None) -> Tensor:
    """log of the multivariate gamma function of dimension p; torch.mvlgamma."""

def ndtr(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """The standard normal distribution function: erfc(-x / sqrt(2)) / 2."""

def ndtri(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """ndtri(input), of each element, broadcast; torch.ndtri."""

def polygamma(n: int, input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """The n-th derivative of digamma (DLMF 5.15): (-1)^(n+1) n! zeta(n + 1, x)."""

def psi(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """digamma(input), of each element, broadcast; torch.digamma."""

def round(input: Tensor, *, decimals: int = 0, out: Tensor | None = None) -> Tensor:
    """The nearest number with `decimals` digits after the point (before it if negative)."""

def scaled_modified_bessel_k0(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """torch.special.scaled_modified_bessel_k0. SciPy computes it, on the GPU too (the values go there)."""

def scaled_modified_bessel_k1(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """torch.special.scaled_modified_bessel_k1. SciPy computes it, on the GPU too (the values go there)."""

def shifted_chebyshev_polynomial_t(input: Any, n: Any, *, out: Tensor | None = None) -> Tensor:
    """torch.special.shifted_chebyshev_polynomial_t, of degree n; either may be a number.

    On the GPU the host computes it. It has no gradient.
    """

def shifted_chebyshev_polynomial_u(input: Any, n: Any, *, out: Tensor | None = None) -> Tensor:
    """torch.special.shifted_chebyshev_polynomial_u, of degree n; either may be a number.

    On the GPU the host computes it. It has no gradient.
    """

def shifted_chebyshev_polynomial_v(input: Any, n: Any, *, out: Tensor | None = None) -> Tensor:
    """torch.special.shifted_chebyshev_polynomial_v, of degree n; either may be a number.

    On the GPU the host computes it. It has no gradient.
    """

def shifted_chebyshev_polynomial_w(input: Any, n: Any, *, out: Tensor | None = None) -> Tensor:
    """torch.special.shifted_chebyshev_polynomial_w, of degree n; either may be a number.

    On the GPU the host computes it. It has no gradient.
    """

def sinc(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """sin(pi x) / (pi x), 1 at 0."""

def softmax(
    input: Tensor,
    dim: int | None = None,
    dtype: dtype | type | None = None,
    *,
    out: Tensor | None = None,
) -> Tensor:
    """exp(x) / sum(exp(x)) over a dim."""

def spherical_bessel_j0(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """The spherical Bessel function of order 0: sin(x) / x, 1 at 0."""

def xlog1py(input: Any, other: Any, *, out: Tensor | None = None) -> Tensor:
    """input * log1p(other), 0 where input is 0 and other is no NaN; either may be a number."""

def xlogy(input: Any, other: Any, *, out: Tensor | None = None) -> Tensor:
    """input * log(other), 0 where input is 0 and other is no NaN; either may be a number."""

def zeta(input: Tensor | complex, other: Tensor | complex, *, out: Tensor | None = None) -> Tensor:
    """zeta(input, other), of each element, broadcast; torch.zeta."""
