"""QR, eigenvalues, singular values, and what they give: pseudo-inverses, ranks, least squares.

NumPy computes the decompositions: see `factor`. Their gradients are PyTorch's, from
https://arxiv.org/abs/1909.10140 (QR, singular values) and https://arxiv.org/abs/1701.00392.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from pyframe.core import dtypes as dt
from pyframe.core.dispatch import apply, results_of
from pyframe.core.modes import mode
from pyframe.core.op import EXTERN, Op
from pyframe.ops.api import check
from pyframe.ops.api.public import public
from pyframe.ops.api.results import QR, SVD, Eig, Eigh, Geqrf, Lstsq, OldQR, OldSVD
from pyframe.ops.index import masks
from pyframe.ops.linalg import matrices
from pyframe.ops.linalg.factor import by_upper, solve_any, triangular
from pyframe.ops.linalg.matmul import matmul, sum_over
from pyframe.ops.linalg.matrices import Array, Shape, block, float_matrix, ratio, with_diagonal
from pyframe.ops.math import elementwise as el
from pyframe.ops.math.complex import adjoint, conj, real
from pyframe.ops.random import draws as random
from pyframe.ops.reduce import reductions as reduce
from pyframe.ops.shape import movement as mv
from pyframe.ops.shape.join import cat
from pyframe.tensor import Tensor

# --- QR


def _np_qr(a: Array, mode: str) -> tuple[Array, ...]:
    if mode == "r":
        return (np.linalg.qr(a, "r"),)
    if mode == "raw":  # NumPy gives LAPACK's columns as rows
        packed, tau = np.linalg.qr(a, "raw")
        return np.swapaxes(packed, -1, -2), tau
    q, r = np.linalg.qr(a, mode)
    return q, r


def _qr_shapes(a: Shape, mode: str) -> tuple[Shape, ...]:
    *lead, m, n = a
    k = min(m, n)
    if mode == "r":
        return ((*lead, k, n),)
    if mode == "raw":
        return a, (*lead, k)
    k = m if mode == "complete" else k
    return (*lead, m, k), (*lead, k, n)


def _qr_grad(g: tuple[Tensor, ...], y: tuple[Tensor, ...], mode: str) -> Tensor:
    """Square, tall and (with the right part V = Q^H Y of R) wide matrices; for `complete`, square
    and wide ones."""
    if mode in ("r", "raw"):
        raise RuntimeError(
            "The derivative of linalg.qr depends on Q, which is not computed when mode='r'. "
            "Please use linalg.qr(A, mode='reduced') if you are going to require gradients"
            if mode == "r"
            else "the derivative for 'geqrf' is not implemented; use linalg.qr"
        )
    (gq, gr), (q, r) = g, y
    m, n = q.shape[-2], r.shape[-1]
    if mode == "complete" and m > n:
        raise RuntimeError(
            "The QR decomposition is not differentiable when mode='complete' and nrows > ncols. "
            "Please use linalg.qr(A, mode='reduced')"
        )
    rest = None
    if n > m:
        v, gv = mv.narrow(r, -1, m, n - m), mv.narrow(gr, -1, m, n - m)
        r, gr = mv.narrow(r, -1, 0, m), mv.narrow(gr, -1, 0, m)
        gq = gq + matmul(matmul(q, v), adjoint(gv))
        rest = matmul(q, gv)
    middle = matmul(gr, adjoint(r)) - matmul(adjoint(q), gq)
    middle = matrices.twice_lower(adjoint(middle))  # of the upper triangle
    out = by_upper(gq + matmul(q, middle), r)
    return out if rest is None else cat([out, rest], -1)


qr_op = matrices.of_matrix("linalg_qr", _qr_shapes, _np_qr, _qr_grad)


def linalg_qr(A: Tensor, mode: str = "reduced") -> QR:
    """Q with orthonormal columns and upper triangular R, A = Q R: (m, k) and (k, n) with
    k = min(m, n); mode 'complete' gives (m, m) and (m, n), 'r' no Q. On the GPU the host
    computes it."""
    float_matrix("linalg.qr", A)
    if mode not in ("reduced", "complete", "r"):
        raise RuntimeError(
            f"qr received unrecognized mode '{mode}' but expected one of 'reduced' (default), 'r', "
            "or 'complete'"
        )
    parts = results_of(qr_op, (A,), (mode,))
    if mode == "r":
        return QR(A.new_zeros(0), parts[0])
    return QR(*parts)


def qr(input: Tensor, some: bool = True) -> OldQR:
    """`linalg.qr` under its old name; `some=False` is mode 'complete'."""
    return OldQR(*linalg_qr(input, "reduced" if some else "complete"))


def geqrf(input: Tensor) -> Geqrf:
    """LAPACK's form of QR: R above, Householder vectors below the diagonal, and their factors; for
    `householder_product` and `ormqr`. Not differentiable. On the GPU the host computes it."""
    float_matrix("geqrf", input, what="input")
    return Geqrf(*results_of(qr_op, (input,), ("raw",)))


def _reflectors(name: str, a: Tensor, tau: Tensor) -> tuple[Tensor, Tensor]:
    """V and T with H_1 … H_k = I - V T V^H, T = (I + diag(tau) triu(V^H V, 1))^-1 diag(tau):
    R. Schreiber, C. Van Loan, "A storage-efficient WY representation" (1989)."""
    float_matrix(name, a, what="input")
    check.same_dtype(name, a, tau)
    m, n = a.shape[-2:]
    if tau.ndim != a.ndim - 1 or tau.shape[:-1] != a.shape[:-2] or tau.shape[-1] > min(m, n):
        raise RuntimeError(
            f"{name}: tau should have shape {list(a.shape[:-2])} and at most {min(m, n)} elements "
            f"in its last dim for an input of shape {list(a.shape)}, got {list(tau.shape)}"
        )
    k = tau.shape[-1]
    v = masks.tril(block(a, m, k), -1) + block(matrices.eye_like(a, m), m, k)
    gram = masks.triu(matmul(adjoint(v), v), 1)
    return v, triangular(mv.unsqueeze(tau, -1) * gram, mv.diag_embed(tau), True, True)


def householder_product(A: Tensor, tau: Tensor) -> Tensor:
    """The first n columns of the product of k reflectors, whose vectors stand below the diagonal
    of A (…, m, n) and whose factors are tau (…, k)."""
    v, t = _reflectors("linalg.householder_product", A, tau)
    m, n = A.shape[-2:]
    if m < n:
        raise RuntimeError(
            "linalg.householder_product: input.shape[-2] must be greater than or equal to "
            f"input.shape[-1], got {list(A.shape)}"
        )
    eye = block(matrices.eye_like(A, m), m, n)
    return eye - matmul(matmul(v, t), adjoint(block(v, n, v.shape[-1])))


def ormqr(
    input: Tensor, tau: Tensor, other: Tensor, left: bool = True, transpose: bool = False
) -> Tensor:
    """Q other, or other Q (`left=False`), with the whole Q of `geqrf` or (`transpose`) its
    adjoint."""
    v, t = _reflectors("ormqr", input, tau)
    check.same_dtype("ormqr", input, other)
    if other.ndim != input.ndim or other.shape[:-2] != input.shape[:-2]:
        raise RuntimeError(
            f"ormqr: batch dimensions of other {list(other.shape)} must equal those of input "
            f"{list(input.shape)}"
        )
    d = -2 if left else -1
    if other.shape[d] != input.shape[-2]:
        raise RuntimeError(
            f"ormqr: other.shape[{d}] must be equal to input.shape[-2], got {list(other.shape)} "
            f"and {list(input.shape)}"
        )
    t = adjoint(t) if transpose else t
    if left:
        return other - matmul(v, matmul(t, matmul(adjoint(v), other)))
    return other - matmul(matmul(matmul(other, v), t), adjoint(v))


# --- eigenvalues and singular values


def _host_la(fn: Callable[..., Any], what: str, *args: Any) -> Any:
    try:
        return fn(*args)
    except np.linalg.LinAlgError as e:
        raise matrices.LinAlgError(
            f"{what}: The algorithm failed to converge because the input matrix is "
            f"ill-conditioned, has too many repeated values or contains inf or nan ({e})"
        ) from None


def _svd_shapes(a: Shape, full: bool | None) -> tuple[Shape, ...]:
    """Those of U, S and V^H; without `full` the shape of S alone."""
    *lead, m, n = a
    k = min(m, n)
    if full is None:
        return ((*lead, k),)
    return (*lead, m, m if full else k), (*lead, k), (*lead, n if full else k, n)


def _np_svd(a: Array, full: bool | None) -> tuple[Array, ...]:
    if full is None:
        return (_host_la(np.linalg.svd, "linalg.svdvals", a, False, False),)
    u, s, vh = _host_la(np.linalg.svd, "linalg.svd", a, full)
    return u, s.astype(a.dtype, copy=False), vh


def _skew(x: Tensor) -> Tensor:
    return x - adjoint(x)


def _svd_grad(g: tuple[Tensor, ...], y: tuple[Tensor, ...], full: bool) -> Tensor:
    """PyTorch's svd_backward; of full matrices the first k columns count."""
    (gu, gs, gvh), (u, s, vh) = g, y
    m, n, k = u.shape[-2], vh.shape[-1], s.shape[-1]
    if full:
        gu, u = mv.narrow(gu, -1, 0, k), mv.narrow(u, -1, 0, k)
        gvh, vh = mv.narrow(gvh, -2, 0, k), mv.narrow(vh, -2, 0, k)
    s, gs = real(s), real(gs)
    row, column = mv.unsqueeze(s, -2), mv.unsqueeze(s, -1)
    gaps = with_diagonal(row * row - column * column, s * 0 + 1)
    left, right = matmul(adjoint(u), gu), matmul(vh, adjoint(gvh))
    middle = ratio(_skew(left) * row + column * _skew(right), gaps)
    new = gs.to(u.dtype)
    if u.is_complex():
        new = new + ratio(matrices.main_diagonal(_skew(left)), s * 2)
    middle = with_diagonal(middle, new)
    out = matmul(matmul(u, middle), vh)
    if m > k:
        apart = ratio(gu - matmul(u, left), row)
        out = out + matmul(apart, vh)
    if n > k:
        apart = ratio(gvh - matmul(adjoint(right), vh), column)
        out = out + matmul(u, apart)
    return out


svd_op = matrices.of_matrix("linalg_svd", _svd_shapes, _np_svd, _svd_grad)


def _no_driver(name: str, driver: Any) -> None:
    if driver is not None:
        raise RuntimeError(
            f"{name}: keyword argument `driver=` is only supported on CUDA inputs with cuSOLVER "
            "backend; leave it out"
        )


def linalg_svd(A: Tensor, full_matrices: bool = True, *, driver: str | None = None) -> SVD:
    """U (m, m), S (k) in descending order and Vh (n, n) with A = U S Vh; without `full_matrices`
    U is (m, k), Vh (k, n), k = min(m, n). On the GPU the host computes it.

    A gradient of U or Vh needs distinct singular values."""
    float_matrix("linalg.svd", A)
    _no_driver("linalg.svd", driver)
    u, s, vh = results_of(svd_op, (A,), (full_matrices,))
    return SVD(u, real(s), vh)


def svdvals(A: Tensor, *, driver: str | None = None) -> Tensor:
    """The singular values (…, k), in descending order. On the GPU the host computes them."""
    float_matrix("linalg.svdvals", A)
    _no_driver("linalg.svdvals", driver)
    if mode.grad and A.requires_grad:
        return real(results_of(svd_op, (A,), (False,))[1])
    return real(results_of(svd_op, (A,), (None,))[0])


def svd(input: Tensor, some: bool = True, compute_uv: bool = True) -> OldSVD:
    """U, S, V with input = U S V^H; without `compute_uv` U and V are zeros."""
    float_matrix("svd", input, what="input")
    if compute_uv:
        u, s, vh = linalg_svd(input, not some)
        return OldSVD(u, s, adjoint(vh))
    *lead, m, n = input.shape
    u = input.new_zeros(*lead, m, m)
    v = input.new_zeros(*lead, n, n)
    return OldSVD(u, svdvals(input), v)


def _np_eigh(a: Array, how: tuple[str, bool]) -> tuple[Array, ...]:
    uplo, with_vectors = how
    if not with_vectors:
        return (_host_la(np.linalg.eigvalsh, "linalg.eigvalsh", a, uplo),)
    values, vectors = _host_la(np.linalg.eigh, "linalg.eigh", a, uplo)
    return values.astype(a.dtype, copy=False), vectors


def _eigh_grad(g: tuple[Tensor, ...], y: tuple[Tensor, ...], how: tuple[str, bool]) -> Tensor:
    (gvalues, gvectors), (values, v) = g, y
    values = real(values)
    gaps = gaps_of(values)
    middle = ratio(matmul(adjoint(v), gvectors), gaps)
    middle = with_diagonal(middle, real(gvalues).to(v.dtype))
    return matmul(matmul(v, middle), adjoint(v))


def gaps_of(values: Tensor) -> Tensor:
    """values[j] - values[i] at (i, j), and 1 on the diagonal."""
    gaps = mv.unsqueeze(values, -2) - mv.unsqueeze(values, -1)
    return with_diagonal(gaps, values * 0 + 1)


eigh_op = matrices.of_matrix(
    "linalg_eigh", lambda a, how: (a[:-1], a) if how[1] else (a[:-1],), _np_eigh, _eigh_grad
)


def _eigh(name: str, a: Tensor, uplo: str, with_vectors: bool = True) -> list[Tensor]:
    float_matrix(name, a, True)
    if not isinstance(uplo, str) or uplo.upper() not in ("L", "U"):
        raise RuntimeError(f"{name}: Expected UPLO argument to be 'L' or 'U', but got {uplo}")
    values, *vectors = results_of(eigh_op, (a,), ((uplo.upper(), with_vectors),))
    return [real(values), *vectors]


def eigh(A: Tensor, UPLO: str = "L") -> Eigh:
    """The eigenvalues (…, n), ascending, and eigenvectors (columns) of Hermitian matrices, of which
    the triangle UPLO is read. On the GPU the host computes them.

    A gradient of the vectors needs distinct eigenvalues."""
    return Eigh(*_eigh("linalg.eigh", A, UPLO))


def eigvalsh(A: Tensor, UPLO: str = "L") -> Tensor:
    """The eigenvalues of Hermitian matrices, ascending. On the GPU the host computes them."""
    return _eigh("linalg.eigvalsh", A, UPLO, mode.grad and A.requires_grad)[0]


def _eig_grad(g: tuple[Tensor, ...], y: tuple[Tensor, ...], how: None) -> Tensor:
    """https://arxiv.org/abs/1701.00392, eq. 4.77, for vectors of norm 1."""
    (gvalues, gvectors), (values, v) = g, y
    inner = matmul(adjoint(v), gvectors)
    along = mv.unsqueeze(real(matrices.main_diagonal(inner)), -2)
    middle = inner - matmul(adjoint(v), v) * along
    middle = with_diagonal(ratio(middle, conj(gaps_of(values))), gvalues)
    return solve_any(adjoint(v), matmul(middle, adjoint(v)))


eig_op = matrices.of_matrix(
    "linalg_eig", lambda a, how: (a[:-1], a),
    lambda a, how: _host_la(np.linalg.eig, "linalg.eig", a), _eig_grad, lambda d: d.to_complex(),
)  # fmt: skip


def _eig(name: str, a: Tensor) -> tuple[Tensor, ...]:
    float_matrix(name, a, True)
    return results_of(eig_op, (a,), (None,))


def eig(A: Tensor) -> Eig:
    """The complex eigenvalues (…, n) and eigenvectors (columns, of norm 1); on the CPU, as complex
    numbers are. A gradient of the vectors needs distinct eigenvalues."""
    return Eig(*_eig("linalg.eig", A))


def eigvals(A: Tensor) -> Tensor:
    """The complex eigenvalues (…, n); on the CPU."""
    return _eig("linalg.eigvals", A)[0]


# --- pseudo-inverse, rank, least squares


def _np_pinv(a: Array, atol: Array, rtol: Array, hermitian: bool) -> Array:
    if hermitian:
        s, v = _host_la(np.linalg.eigh, "linalg.pinv", a)
        left, right, size = v, matrices.np_adjoint(v), np.abs(s)
    else:
        u, s, vh = _host_la(np.linalg.svd, "linalg.pinv", a, False)
        left, right, size = matrices.np_adjoint(vh), matrices.np_adjoint(u), s
    if not a.size:
        return np.zeros((*a.shape[:-2], a.shape[-1], a.shape[-2]), a.dtype)
    bound = np.maximum(atol[..., None], rtol[..., None] * size.max(-1, keepdims=True))
    scale = np.where(size > bound, 1 / np.where(s == 0, 1, s), 0)
    return (left * scale[..., None, :]) @ right


def _pinv_grad(g: Tensor, y: Tensor, a: Tensor) -> Tensor:
    """G. Golub, V. Pereyra, "The differentiation of pseudo-inverses and nonlinear least squares
    problems whose variables separate" (1973), eq. 4.12, for a constant rank."""
    yh, gh = adjoint(y), adjoint(g)
    first = matmul(matmul(gh, y), yh)
    second = matmul(matmul(yh, y), gh)
    out = first - matmul(a, matmul(y, first)) + second - matmul(matmul(second, y), a)
    return out - matmul(matmul(yh, g), yh)


pinv_op = Op(
    "linalg_pinv", EXTERN, "a atol rtol", "hermitian",
    infer=lambda a, atol, rtol, h: ((*a.shape[:-2], a.shape[-1], a.shape[-2]), a.dtype),
    numpy=_np_pinv, a=_pinv_grad,
)  # fmt: skip


def _tolerances(name: str, a: Tensor, atol: Any, rtol: Any) -> tuple[Tensor, Tensor]:
    """Both as tensors; by default no atol, and rtol = eps * max(m, n) where there is no atol."""
    d = a.dtype.to_real()
    default = dt.finfo(d).eps * max(a.shape[-2:])
    for key, value in (("atol", atol), ("rtol", rtol)):
        if isinstance(value, Tensor) and value.dtype.category == dt.COMPLEX:
            raise RuntimeError(f"{name}: {key} tensor of complex type is not supported.")

    def as_tensor(value: Any) -> Tensor:
        if isinstance(value, Tensor):
            return value.detach().to(device=a.device, dtype=d)
        return a.new_full((), float(value), dtype=d)

    absolute = as_tensor(0.0 if atol is None else atol)
    if rtol is None:
        return absolute, el.where(el.gt(absolute, 0), 0.0, as_tensor(default))
    return absolute, as_tensor(rtol)


def pinv(
    A: Tensor, rcond: Any = None, hermitian: bool = False, *, atol: Any = None, rtol: Any = None
) -> Tensor:
    """The pseudo-inverses (…, n, m) of matrices (…, m, n); singular values up to
    max(atol, rtol * the largest) count as 0. On the GPU the host computes them."""
    float_matrix("linalg.pinv", A, hermitian)
    return _pinv("linalg.pinv", A, atol, rcond if rtol is None else rtol, hermitian)


def _pinv(name: str, a: Tensor, atol: Any, rtol: Any, hermitian: bool) -> Tensor:
    return apply(pinv_op, (a, *_tolerances(name, a, atol, rtol)), (hermitian,))


def pinverse(input: Tensor, rcond: float = 1e-15) -> Tensor:
    """`linalg.pinv` under its old name."""
    return pinv(input, rtol=rcond)


def matrix_rank(
    A: Tensor, tol: Any = None, hermitian: bool = False, *, atol: Any = None, rtol: Any = None
) -> Tensor:
    """The int64 number of singular values above max(atol, rtol * the largest), where rtol is
    max(m, n) * eps by default. On the GPU the host computes them."""
    float_matrix("linalg.matrix_rank", A, hermitian)
    if tol is not None:
        atol, rtol = tol, 0.0
    absolute, relative = _tolerances("linalg.matrix_rank", A, atol, rtol)
    A = A.detach()
    if 0 in A.shape[-2:]:
        return A.new_zeros(A.shape[:-2], dtype=dt.int64)
    s = el.abs(eigvalsh(A)) if hermitian else svdvals(A)
    bound = el.maximum(absolute, relative * reduce.amax(s, -1))
    return el.gt(s, mv.unsqueeze(bound, -1)).to(dt.int64).sum(-1)


def lstsq(A: Tensor, B: Tensor, rcond: Any = None, *, driver: str | None = None) -> Lstsq:
    """The X of the smallest norm with the smallest |A X - B|, as pinv(A) B; what the LAPACK driver
    of that name ('gelsy', 'gels', 'gelsd' or 'gelss') does not give is empty. On the GPU the host
    computes it."""
    name = "linalg.lstsq"
    float_matrix(name, A)
    check.same_dtype(name, A, B)
    driver = "gelsy" if driver is None else driver
    if driver not in ("gels", "gelsy", "gelsd", "gelss"):
        raise RuntimeError(
            f"{name}: parameter `driver` should be one of (gels, gelsy, gelsd, gelss), got "
            f"{driver!r}"
        )
    vector = B.ndim == 1 or (A.ndim - 1 == B.ndim and B.shape == A.shape[:-1])
    if not B.ndim:
        raise RuntimeError(
            f"{name}: input.dim() must be greater or equal to other.dim(), got {list(B.shape)}"
        )
    b = mv.unsqueeze(B, -1) if vector else B
    matrices.rows_fit(name, A, b)
    m, n = A.shape[-2:]
    rtol = dt.finfo(A.dtype).eps * max(m, n) if rcond is None else rcond
    solution = matmul(_pinv(name, A, 0.0, rtol, False), b)
    rank = A.new_zeros(0, dtype=dt.int64)
    values = A.new_zeros(0, dtype=A.dtype.to_real())
    residuals = real(mv.nothing_of(solution, (0,)))
    if driver != "gels":
        rank = matrix_rank(A, rtol=rtol)
    if driver in ("gelsd", "gelss"):
        values = svdvals(A.detach())
    if m > n and (driver == "gels" or (values.numel() and el.eq(rank, n).all().item())):
        residuals = sum_over(reduce.absolute_square(matmul(A, solution) - b), -2)
    if vector:
        solution = mv.squeeze(solution, -1)
    return Lstsq(solution, residuals, rank, values)


def _lowrank(a: Tensor, q: int, niter: int, mean: Tensor | None) -> tuple[Tensor, Tensor, Tensor]:
    """N. Halko, P. Martinsson, J. Tropp, "Finding structure with randomness" (2009), 4.4, 5.1."""
    if mean is not None:
        a = a - mean
    m, n = a.shape[-2:]
    tall = m >= n
    a = a if tall else adjoint(a)
    r = random.randn((min(m, n), q), device=a.device).to(a.dtype)
    basis = linalg_qr(matmul(a, r)).Q
    for _ in range(niter):
        basis = linalg_qr(matmul(adjoint(a), basis)).Q
        basis = linalg_qr(matmul(a, basis)).Q
    u, s, vh = linalg_svd(matmul(adjoint(basis), a), False)
    u, v = matmul(basis, u), adjoint(vh)
    return (u, s, v) if tall else (v, s, u)


def svd_lowrank(
    A: Tensor, q: int | None = 6, niter: int | None = 2, M: Tensor | None = None
) -> tuple[Tensor, Tensor, Tensor]:
    """U, S, V with U S V^H close to A (or A - M), of rank q at most, by random projection."""
    float_matrix("svd_lowrank", A)
    q, niter = 6 if q is None else q, 2 if niter is None else niter
    if not 0 <= q <= min(A.shape[-2:]):
        raise ValueError(
            f"svd_lowrank: q(={q}) must be non-negative integer and not greater than "
            f"min(m, n)={min(A.shape[-2:])}"
        )
    return _lowrank(A, q, niter, None if M is None else mv.broadcast_to(M, A.shape))


def pca_lowrank(
    A: Tensor, q: int | None = None, center: bool = True, niter: int = 2
) -> tuple[Tensor, Tensor, Tensor]:
    """`svd_lowrank` of A, its columns centered to mean 0 if `center`; q is 6, m or n by
    default, whichever is least."""
    float_matrix("pca_lowrank", A)
    m, n = A.shape[-2:]
    q = min(6, m, n) if q is None else q
    if not 0 <= q <= min(m, n):
        raise ValueError(
            f"q(={q}) must be non-negative integer and not greater than min(m, n)={min(m, n)}"
        )
    if niter < 0:
        raise ValueError(f"niter(={niter}) must be non-negative integer")
    return _lowrank(A, q, niter, reduce.mean(A, -2, True) if center else None)


public(
    globals(), both="qr geqrf orgqr=householder_product ormqr svd pinverse",
    functions="svd_lowrank pca_lowrank", out_exact="ormqr qr", float32="""eig eigh eigvals
    eigvalsh geqrf householder_product linalg_qr linalg_svd lstsq matrix_rank ormqr pinverse qr
    svd svdvals""",
)  # fmt: skip
