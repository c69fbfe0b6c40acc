"""The types of several results with names, as torch.return_types: tuples with fields."""

# The annotations are objects and not strings: typing compiles each string when it is imported.
from collections.abc import Callable
from typing import Any, NamedTuple, TypeVar

from pyframe.tensor import Tensor

_T = TypeVar("_T", bound=Any)


def _of(name: str) -> Callable[[_T], _T]:
    """Give a type the name of its function, which its repr begins with."""

    def rename(kind: _T) -> _T:
        kind.__name__ = name
        return kind

    return rename


@_of("max")
class MaxResult(NamedTuple):
    """The largest elements along a dim, and where they are."""

    values: Tensor
    indices: Tensor


@_of("min")
class MinResult(NamedTuple):
    """The smallest elements along a dim, and where they are."""

    values: Tensor
    indices: Tensor


@_of("aminmax")
class AminmaxResult(NamedTuple):
    """The smallest and the largest elements."""

    min: Tensor
    max: Tensor


@_of("cummax")
class CummaxResult(NamedTuple):
    """The largest elements so far, and where they are."""

    values: Tensor
    indices: Tensor


@_of("cummin")
class CumminResult(NamedTuple):
    """The smallest elements so far, and where they are."""

    values: Tensor
    indices: Tensor


@_of("sort")
class SortResult(NamedTuple):
    """The elements in order, and where they were."""

    values: Tensor
    indices: Tensor


@_of("topk")
class TopkResult(NamedTuple):
    """The largest (or smallest) elements in order, and where they are."""

    values: Tensor
    indices: Tensor


@_of("kthvalue")
class KthvalueResult(NamedTuple):
    """The k-th smallest elements, and where they are."""

    values: Tensor
    indices: Tensor


@_of("median")
class MedianResult(NamedTuple):
    """The lower medians along a dim, and where they are."""

    values: Tensor
    indices: Tensor


@_of("nanmedian")
class NanmedianResult(NamedTuple):
    """The lower medians of what is not NaN, and where they are."""

    values: Tensor
    indices: Tensor


@_of("mode")
class ModeResult(NamedTuple):
    """The most frequent elements, and where one of each is."""

    values: Tensor
    indices: Tensor


@_of("histogram")
class HistogramResult(NamedTuple):
    """Counts, and the edges that they lie between."""

    hist: Tensor
    bin_edges: Tensor


@_of("histogramdd")
class HistogramddResult(NamedTuple):
    """Counts, and the edges along each dim."""

    hist: Tensor
    bin_edges: tuple[Tensor, ...]


@_of("frexp_result")
class FrexpResult(NamedTuple):
    """x = mantissa * 2**exponent."""

    mantissa: Tensor
    exponent: Tensor


@_of("linalg_cholesky_ex")
class CholeskyEx(NamedTuple):
    """The triangle, and the order of the first minor that is not definite (0: none)."""

    L: Tensor
    info: Tensor


@_of("linalg_lu_factor")
class LUFactor(NamedTuple):
    """L and U in one matrix, and LAPACK's pivots."""

    LU: Tensor
    pivots: Tensor


@_of("linalg_lu_factor_ex")
class LUFactorEx(NamedTuple):
    """L and U in one matrix, the pivots, and the place of the first zero pivot (0: none)."""

    LU: Tensor
    pivots: Tensor
    info: Tensor


@_of("linalg_lu")
class LU(NamedTuple):
    """A = P L U."""

    P: Tensor
    L: Tensor
    U: Tensor


@_of("lu_unpack")
class LUUnpack(NamedTuple):
    """A = P L U; what was not asked for is empty."""

    P: Tensor
    L: Tensor
    U: Tensor


@_of("linalg_solve_ex")
class SolveEx(NamedTuple):
    """The solution, and the place of the first zero pivot (0: none)."""

    result: Tensor
    info: Tensor


@_of("linalg_inv_ex")
class InvEx(NamedTuple):
    """The inverse, and the place of the first zero pivot (0: none)."""

    inverse: Tensor
    info: Tensor


@_of("triangular_solve")
class TriangularSolve(NamedTuple):
    """The solution, and a copy of A."""

    solution: Tensor
    cloned_coefficient: Tensor


@_of("linalg_ldl_factor")
class LDLFactor(NamedTuple):
    """L and D in one matrix, and LAPACK's pivots."""

    LD: Tensor
    pivots: Tensor


@_of("linalg_ldl_factor_ex")
class LDLFactorEx(NamedTuple):
    """L and D in one matrix, the pivots, and the place of the first zero in D (0: none)."""

    LD: Tensor
    pivots: Tensor
    info: Tensor


@_of("linalg_qr")
class QR(NamedTuple):
    """A = Q R."""

    Q: Tensor
    R: Tensor


@_of("qr")
class OldQR(NamedTuple):
    """input = Q R."""

    Q: Tensor
    R: Tensor


@_of("geqrf")
class Geqrf(NamedTuple):
    """R above and Householder vectors below the diagonal, and their factors."""

    a: Tensor
    tau: Tensor


@_of("linalg_svd")
class SVD(NamedTuple):
    """A = U diag(S) Vh."""

    U: Tensor
    S: Tensor
    Vh: Tensor


@_of("svd")
class OldSVD(NamedTuple):
    """input = U diag(S) V^H."""

    U: Tensor
    S: Tensor
    V: Tensor


@_of("linalg_eigh")
class Eigh(NamedTuple):
    """Real eigenvalues, ascending, and eigenvectors as columns."""

    eigenvalues: Tensor
    eigenvectors: Tensor


@_of("linalg_eig")
class Eig(NamedTuple):
    """Complex eigenvalues, and eigenvectors as columns."""

    eigenvalues: Tensor
    eigenvectors: Tensor


@_of("linalg_lstsq")
class Lstsq(NamedTuple):
    """The solution of least squares, and what its driver gives beside it."""

    solution: Tensor
    residuals: Tensor
    rank: Tensor
    singular_values: Tensor


@_of("linalg_slogdet")
class Slogdet(NamedTuple):
    """The sign of the determinant, and the log of its absolute value."""

    sign: Tensor
    logabsdet: Tensor
