"""Special functions, as torch.special. SciPy computes the rarer ones (the extra `special`)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pyframe import ops as _ops
from pyframe.ops.math import special as _special

_OWN = """entr erfcx i0e i1 i1e log_ndtr ndtr ndtri spherical_bessel_j0 xlog1py zeta polygamma
modified_bessel_i0=i0 modified_bessel_i1=i1"""
_SHARED = """digamma erf erfc erfinv exp2 expit=sigmoid expm1 gammainc=igamma gammaincc=igammac
gammaln=lgamma i0 log1p log_softmax logit logsumexp multigammaln=mvlgamma psi=digamma round sinc
softmax xlogy"""


def _listed() -> dict[str, Any]:
    found: dict[str, Any] = {**_special.HOSTED, **_special.POLYNOMIALS}
    for names, where in ((_OWN, vars(_special)), (_SHARED, _ops.METHODS)):
        for token in names.split():
            name, _, other = token.partition("=")
            found[name] = where[other or name]
    return found


globals().update(_ops.as_functions(_listed()))
__all__ = sorted(_listed())

if TYPE_CHECKING:
    from pyframe._stubs.special import *
else:

    def __getattr__(name: str) -> Any:
        raise AttributeError(f"module 'pyframe.special' has no attribute {name!r}")
