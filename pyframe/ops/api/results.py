"""The types of several results with names, as torch.return_types: tuples with fields."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, NamedTuple

from pyframe.tensor import Tensor

if TYPE_CHECKING:  # what the table says, by scripts/make_stubs
    from pyframe._stubs.results import *

# A type, the function that its repr names, its fields (`*`: several tensors), and its docstring.
_TABLE = """
MaxResult max(values, indices): The largest elements along a dim, and where they are.
MinResult min(values, indices): The smallest elements along a dim, and where they are.
AminmaxResult aminmax(min, max): The smallest and the largest elements.
CummaxResult cummax(values, indices): The largest elements so far, and where they are.
CumminResult cummin(values, indices): The smallest elements so far, and where they are.
SortResult sort(values, indices): The elements in order, and where they were.
TopkResult topk(values, indices): The largest (or smallest) elements in order, and where they are.
KthvalueResult kthvalue(values, indices): The k-th smallest elements, and where they are.
MedianResult median(values, indices): The lower medians along a dim, and where they are.
NanmedianResult nanmedian(values, indices):
    The lower medians of what is not NaN, and where they are.
ModeResult mode(values, indices): The most frequent elements, and where one of each is.
HistogramResult histogram(hist, bin_edges): Counts, and the edges that they lie between.
HistogramddResult histogramdd(hist, *bin_edges): Counts, and the edges along each dim.
FrexpResult frexp_result(mantissa, exponent): x = mantissa * 2**exponent.
CholeskyEx linalg_cholesky_ex(L, info):
    The triangle, and the order of the first minor that is not definite (0: none).
LUFactor linalg_lu_factor(LU, pivots): L and U in one matrix, and LAPACK's pivots.
LUFactorEx linalg_lu_factor_ex(LU, pivots, info):
    L and U in one matrix, the pivots, and the place of the first zero pivot (0: none).
LU linalg_lu(P, L, U): A = P L U.
LUUnpack lu_unpack(P, L, U): A = P L U; what was not asked for is empty.
SolveEx linalg_solve_ex(result, info):
    The solution, and the place of the first zero pivot (0: none).
InvEx linalg_inv_ex(inverse, info): The inverse, and the place of the first zero pivot (0: none).
TriangularSolve triangular_solve(solution, cloned_coefficient): The solution, and a copy of A.
LDLFactor linalg_ldl_factor(LD, pivots): L and D in one matrix, and LAPACK's pivots.
LDLFactorEx linalg_ldl_factor_ex(LD, pivots, info):
    L and D in one matrix, the pivots, and the place of the first zero in D (0: none).
QR linalg_qr(Q, R): A = Q R.
OldQR qr(Q, R): input = Q R.
Geqrf geqrf(a, tau): R above and Householder vectors below the diagonal, and their factors.
SVD linalg_svd(U, S, Vh): A = U diag(S) Vh.
OldSVD svd(U, S, V): input = U diag(S) V^H.
Eigh linalg_eigh(eigenvalues, eigenvectors):
    Real eigenvalues, ascending, and eigenvectors as columns.
Eig linalg_eig(eigenvalues, eigenvectors): Complex eigenvalues, and eigenvectors as columns.
Lstsq linalg_lstsq(solution, residuals, rank, singular_values):
    The solution of least squares, and what its driver gives beside it.
Slogdet linalg_slogdet(sign, logabsdet):
    The sign of the determinant, and the log of its absolute value.
"""


for _type, _name, _fields, _doc in re.findall(r"(\w+) (\w+)\((.+)\):\s+(.+)", _TABLE):
    _pairs = [
        (f, Tensor) if f[0] != "*" else (f[1:], tuple[Tensor, ...]) for f in _fields.split(", ")
    ]
    _made: Any = NamedTuple(_type, _pairs)  # type: ignore[misc]
    _made.__name__, _made.__doc__ = _name, _doc
    globals()[_type] = _made
