# Made by scripts/make_stubs; what it says is changed where the function is written.
"""What is in `pyframe.linalg` and written nowhere."""

from collections.abc import Sequence
from typing import Any

from pyframe.core.dtypes import dtype
from pyframe.ops.results import (
    LU,
    QR,
    SVD,
    CholeskyEx,
    Eig,
    Eigh,
    InvEx,
    LDLFactor,
    LDLFactorEx,
    Lstsq,
    LUFactor,
    LUFactorEx,
    Slogdet,
    SolveEx,
)
from pyframe.tensor import Tensor

def cholesky(A: Tensor, *, upper: bool = False, out: Tensor | None = None) -> Tensor:
    """L (lower) with A = L L^H, or U = L^H with `upper`, of positive-definite matrices (…, n, n).

    LinAlgError for others. On the GPU the host computes it.
    """

def cholesky_ex(
    A: Tensor, *, upper: bool = False, check_errors: bool = False, out: Any = None
) -> CholeskyEx:
    """`cholesky` and, in place of an error, the order of the first minor that is not definite (0
    if all are). On the GPU the host computes it.
    """

def cond(A: Tensor, p: Any = None, *, out: Tensor | None = None) -> Tensor:
    """The condition numbers |A| |A^-1| (inf where A is singular) in one of `matrix_norm`'s norms;
    by default the largest singular value by the smallest. On the GPU the host computes it.
    """

def cross(input: Tensor, other: Tensor, *, dim: int = -1, out: Tensor | None = None) -> Tensor:
    """Cross products along `dim`, of size 3 in both, broadcast over the others."""

def det(A: Tensor, *, out: Tensor | None = None) -> Tensor:
    """The determinants of matrices (…, n, n). On the GPU the host computes them.

    The second derivative needs an invertible A.
    """

def diagonal(
    A: Tensor, *, offset: int = 0, dim1: int = -2, dim2: int = -1, out: Tensor | None = None
) -> Tensor:
    """A diagonal of matrices, as a view; by default of the last two dims."""

def eig(A: Tensor, *, out: Any = None) -> Eig:
    """The complex eigenvalues (…, n) and eigenvectors (columns, of norm 1); on the CPU, as complex
    numbers are. A gradient of the vectors needs distinct eigenvalues.
    """

def eigh(A: Tensor, UPLO: str = "L", *, out: Any = None) -> Eigh:
    """The eigenvalues (…, n), ascending, and eigenvectors (columns) of Hermitian matrices, of which
    the triangle UPLO is read. On the GPU the host computes them.

    A gradient of the vectors needs distinct eigenvalues.
    """

def eigvals(A: Tensor, *, out: Tensor | None = None) -> Tensor:
    """The complex eigenvalues (…, n); on the CPU."""

def eigvalsh(A: Tensor, UPLO: str = "L", *, out: Tensor | None = None) -> Tensor:
    """The eigenvalues of Hermitian matrices, ascending. On the GPU the host computes them."""

def householder_product(A: Tensor, tau: Tensor, *, out: Tensor | None = None) -> Tensor:
    """The first n columns of the product of k reflectors, whose vectors stand below the diagonal
    of A (…, m, n) and whose factors are tau (…, k).
    """

def inv(A: Tensor, *, out: Tensor | None = None) -> Tensor:
    """The inverses of matrices (…, n, n). LinAlgError for a singular one. On the GPU the host
    computes them.
    """

def inv_ex(A: Tensor, *, check_errors: bool = False, out: Any = None) -> InvEx:
    """`inv` and, in place of an error, the place of the first zero pivot (0: none)."""

def ldl_factor(A: Tensor, *, hermitian: bool = False, out: Any = None) -> LDLFactor:
    """`ldl_factor_ex` that raises LinAlgError for a zero in D."""

def ldl_factor_ex(
    A: Tensor, *, hermitian: bool = False, check_errors: bool = False, out: Any = None
) -> LDLFactorEx:
    """L and D of symmetric (Hermitian) matrices, A = L D L^T (L D L^H), in one matrix, LAPACK's
    int32 pivots, and the place of the first zero in D (0: none). Not differentiable. On the GPU
    the host computes it.
    """

def ldl_solve(
    LD: Tensor, pivots: Tensor, B: Tensor, *, hermitian: bool = False, out: Tensor | None = None
) -> Tensor:
    """X with A X = B from `ldl_factor(A)`. Not differentiable. On the GPU the host computes it."""

def lstsq(
    A: Tensor, B: Tensor, rcond: Any = None, *, driver: str | None = None, out: Any = None
) -> Lstsq:
    """The X of the smallest norm with the smallest |A X - B|, as pinv(A) B; what the LAPACK driver
    of that name ('gelsy', 'gels', 'gelsd' or 'gelss') does not give is empty. On the GPU the host
    computes it.
    """

def lu(A: Tensor, *, pivot: bool = True, out: Any = None) -> LU:
    """P (m, m), L (m, k), U (k, n) with A = P L U, k = min(m, n). On the GPU the host
    computes it.
    """

def lu_factor(A: Tensor, *, pivot: bool = True, out: Any = None) -> LUFactor:
    """`lu_factor_ex` that raises LinAlgError for a zero pivot."""

def lu_factor_ex(
    A: Tensor, *, pivot: bool = True, check_errors: bool = False, out: Any = None
) -> LUFactorEx:
    """A = P L U as L and U in one matrix (without L's diagonal of ones), LAPACK's int32 pivots,
    and the place of the first zero pivot (0: none). On the GPU the host computes it.
    """

def lu_solve(
    LU: Tensor,
    pivots: Tensor,
    B: Tensor,
    *,
    left: bool = True,
    adjoint: bool = False,
    out: Tensor | None = None,
) -> Tensor:
    """X with A X = B (`left=False`: X A = B; `adjoint`: A^H for A), from `lu_factor(A)`."""

def matmul(input: Tensor, other: Tensor, *, out: Tensor | None = None) -> Tensor:
    """The matrix product, batched and broadcast over leading dims; vectors as in torch.matmul."""

def matrix_exp(A: Tensor, *, out: Tensor | None = None) -> Tensor:
    """The exponentials of matrices (…, n, n), in double precision inside. On the GPU the host
    computes them.
    """

def matrix_norm(
    A: Tensor,
    ord: Any = "fro",
    dim: Any = ...,
    keepdim: bool = False,
    *,
    dtype: dtype | type | None = None,
    out: Tensor | None = None,
) -> Tensor:
    """A norm of matrices: 'fro', 'nuc' (the sum of the singular values), ±2 (the largest,
    smallest), ±1 and ±inf (the largest, smallest sum of a column, of a row). On the GPU the host
    computes the singular values.
    """

def matrix_power(A: Tensor, n: int, *, out: Tensor | None = None) -> Tensor:
    """A @ A @ … (n times); the inverse of that for a negative n."""

def matrix_rank(
    A: Tensor,
    tol: Any = None,
    hermitian: bool = False,
    *,
    atol: Any = None,
    rtol: Any = None,
    out: Tensor | None = None,
) -> Tensor:
    """The int64 number of singular values above max(atol, rtol * the largest), where rtol is
    max(m, n) * eps by default. On the GPU the host computes them.
    """

def multi_dot(tensors: Sequence[Tensor], *, out: Tensor | None = None) -> Tensor:
    """The product of matrices (the first and the last may be vectors) in the order with the fewest
    multiplications (Cormen et al., Introduction to Algorithms, 15.2).
    """

def norm(
    A: Tensor,
    ord: Any = None,
    dim: Any = None,
    keepdim: bool = False,
    *,
    dtype: dtype | type | None = None,
    out: Tensor | None = None,
) -> Tensor:
    """`matrix_norm` where two dims are named or `ord` is given for a matrix, else `vector_norm`."""

def pinv(
    A: Tensor,
    rcond: Any = None,
    hermitian: bool = False,
    *,
    atol: Any = None,
    rtol: Any = None,
    out: Tensor | None = None,
) -> Tensor:
    """The pseudo-inverses (…, n, m) of matrices (…, m, n); singular values up to
    max(atol, rtol * the largest) count as 0. On the GPU the host computes them.
    """

def qr(A: Tensor, mode: str = "reduced", *, out: Any = None) -> QR:
    """Q with orthonormal columns and upper triangular R, A = Q R: (m, k) and (k, n) with
    k = min(m, n); mode 'complete' gives (m, m) and (m, n), 'r' no Q. On the GPU the host
    computes it.
    """

def slogdet(A: Tensor, *, out: Any = None) -> Slogdet:
    """The sign of the determinant (for complex A a number on the unit circle) and the log of its
    absolute value. On the GPU the host computes them.
    """

def solve(A: Tensor, B: Tensor, *, left: bool = True, out: Tensor | None = None) -> Tensor:
    """X with A X = B (`left=False`: X A = B), for A (…, n, n) and B (…, n, k) or vectors (…, n).

    LinAlgError for a singular A. On the GPU the host computes it.
    """

def solve_ex(
    A: Tensor, B: Tensor, *, left: bool = True, check_errors: bool = False, out: Any = None
) -> SolveEx:
    """`solve` and, in place of an error, the place of the first zero pivot (0: none)."""

def solve_triangular(
    A: Tensor,
    B: Tensor,
    *,
    upper: bool,
    left: bool = True,
    unitriangular: bool = False,
    out: Tensor | None = None,
) -> Tensor:
    """X with A X = B (`left=False`: X A = B) for triangular A, of which the other half is not
    looked at; inf where A is singular. On the GPU the host computes it.
    """

def svd(
    A: Tensor, full_matrices: bool = True, *, driver: str | None = None, out: Any = None
) -> SVD:
    """U (m, m), S (k) in descending order and Vh (n, n) with A = U S Vh; without `full_matrices`
    U is (m, k), Vh (k, n), k = min(m, n). On the GPU the host computes it.

    A gradient of U or Vh needs distinct singular values.
    """

def svdvals(A: Tensor, *, driver: str | None = None, out: Tensor | None = None) -> Tensor:
    """The singular values (…, k), in descending order. On the GPU the host computes them."""

def tensorinv(A: Tensor, ind: int = 2, *, out: Tensor | None = None) -> Tensor:
    """The inverse of the linear map that `tensordot(A, ·, A.ndim - ind)` is."""

def tensorsolve(A: Tensor, B: Tensor, dims: Any = None, *, out: Tensor | None = None) -> Tensor:
    """X with tensordot(A, X, X.ndim) = B; `dims` of A are moved to its end first."""

def vander(x: Tensor, N: int | None = None, *, out: Tensor | None = None) -> Tensor:
    """(…, n) -> (…, n, N): the powers 0 to N - 1 of each element (N = n by default)."""

def vecdot(x: Tensor, y: Tensor, *, dim: int = -1, out: Tensor | None = None) -> Tensor:
    """The sums over `dim` of conj(x) * y, broadcast."""

def vector_norm(
    x: Tensor,
    ord: Any = 2,
    dim: Any = None,
    keepdim: bool = False,
    *,
    dtype: dtype | type | None = None,
    out: Tensor | None = None,
) -> Tensor:
    """(sum of |x|^ord)^(1/ord) over dims (all by default); for ord inf, -inf and 0 the largest, the
    smallest and the number of nonzero elements. The gradient at 0 is 0.
    """
