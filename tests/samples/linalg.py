"""Rows of matrix products, decompositions, solvers and norms.

What is defined up to signs only (eigenvectors, singular vectors) is compared through absolute
values or products that have none.
"""

from __future__ import annotations

import math
from typing import Any

from .row import Row, ints, normal, value


def eye(t: Any, x: Any, n: int) -> Any:
    return t.eye(n).to(x.device, x.dtype)


def definite(t: Any, x: Any) -> Any:
    """A positive-definite matrix from any square one."""
    return x @ x.mT + 2 * eye(t, x, x.shape[-1])


def symmetric(t: Any, x: Any) -> Any:
    """Symmetric, with eigenvalues apart from each other."""
    return x + x.mT + eye(t, x, x.shape[-1]) * 4 * t.arange(x.shape[-1]).to(x.device, x.dtype)


def regular(t: Any, x: Any) -> Any:
    return x + 3 * eye(t, x, x.shape[-1])


def svd_parts(t: Any, x: Any, full: bool) -> Any:
    u, s, vh = t.linalg.svd(x, full_matrices=full)
    k = s.shape[-1]
    u, vh = u[..., :k], vh[..., :k, :]
    return (u * s.unsqueeze(-2).sin()) @ vh + (u.abs().sum() + vh.abs().sum()) * 0.1


def eig_parts(t: Any, x: Any) -> Any:
    values, vectors = (t.view_as_real(y) for y in t.linalg.eig(x))
    return t.stack([(values**3).sum(), ((vectors * vectors).sum(-1) ** 2).sum()])


def reflect(t: Any, x: Any, tau: Any, c: Any) -> Any:
    return t.ormqr(x, tau, c, left=False, transpose=True)


def norms(t: Any, x: Any, *ords: Any) -> Any:
    return t.stack([t.linalg.norm(x, ord) for ord in ords])


def lu_solved(t: Any, x: Any, b: Any) -> Any:
    lu, pivots = t.linalg.lu_factor(x)
    solve = t.linalg.lu_solve
    return solve(lu, pivots, b) + solve(lu, pivots, b, adjoint=True) * 2


M4, M3 = normal(4, 4), normal(2, 3, 3)

ROWS: tuple[Row, ...] = (
    # products
    value("matmul:ints", lambda t, F, x, y: t.matmul(x, y), ints(-9, 9, 2, 3, 4), ints(-9, 9, 4)),
    Row("matmul:multi_dot", lambda t, F, x, y, z: t.linalg.multi_dot([x, y, z]),
        (normal(3), normal(3, 5), normal(5, 2))),
    Row("matmul:einsum", lambda t, F, x, y: t.einsum("bij,bkj->bik", x, y),
        (normal(2, 3, 4), normal(2, 5, 4))),
    Row("matmul:einsum three", lambda t, F, x, y, z: t.einsum("ij,jk,k->i", x, y, z),
        (normal(2, 3), normal(3, 4), normal(4))),
    Row("matmul:einsum lists", lambda t, F, x, y: t.einsum(x, [..., 3, 5], y, [5, 1], [1, ...]),
        (normal(2, 3, 4), normal(4, 5))),
    # decompositions and solvers
    Row("linalg_cholesky", lambda t, F, x: t.linalg.cholesky(definite(t, x)), (M3,), tol=5),
    Row("linalg_cholesky:upper", lambda t, F, x: t.linalg.cholesky(definite(t, x), upper=True),
        (M3,), tol=5),
    Row("linalg_cholesky:solve", lambda t, F, x, b: t.cholesky_solve(b, regular(t, x).tril()),
        (M3, normal(3, 2)), tol=10),
    Row("linalg_cholesky:inverse", lambda t, F, x: t.cholesky_inverse(regular(t, x).triu(), True),
        (M4,), tol=10),
    Row("linalg_lu", lambda t, F, x: t.linalg.lu_factor(x).LU, (M3,), tol=20),
    Row("linalg_lu:tall", lambda t, F, x: t.linalg.lu(x).L @ t.linalg.lu(x).U.sin(),
        (normal(4, 3),), cpu=True, tol=20),
    Row("linalg_lu:wide", lambda t, F, x: t.linalg.lu(x).L.sin() @ t.linalg.lu(x).U,
        (normal(3, 4),), cpu=True, tol=20),
    Row("linalg_lu:blocks", lambda t, F, x: t.linalg.lu_factor(regular(t, x) + x).LU,
        (normal(70, 70),), tol=200),
    value("linalg_row_order", lambda t, F, x: t.lu_unpack(*t.linalg.lu_factor(x)).P, M3),
    Row("linalg_row_order:solve", lambda t, F, x, b: lu_solved(t, regular(t, x), b),
        (normal(3, 3), normal(3, 1)), cpu=True, tol=20),
    Row("linalg_solve", lambda t, F, x, b: t.linalg.solve(regular(t, x), b), (M3, normal(3, 2)),
        tol=20),
    Row("linalg_solve:right", lambda t, F, x, b: t.linalg.solve(regular(t, x), b, left=False),
        (M4, normal(2, 4)), tol=20),
    Row("linalg_inv", lambda t, F, x: t.linalg.inv(regular(t, x)), (M3,), tol=20),
    Row("linalg_solve:triangular",
        lambda t, F, x, b: t.linalg.solve_triangular(regular(t, x), b, upper=False),
        (M3, normal(3, 2)), tol=20),
    Row("linalg_solve:unit",
        lambda t, F, x, b: t.linalg.solve_triangular(
            x, b, upper=True, left=False, unitriangular=True),
        (M3, normal(2, 3)), tol=20),
    Row("linalg_det", lambda t, F, x: t.linalg.det(x), (M3,), tol=20),
    Row("linalg_cofactors", lambda t, F, x: t.linalg.det(x @ x.mT), (normal(3, 2),), tol=20,
        second=False),
    Row("linalg_slogdet", lambda t, F, x: t.linalg.slogdet(x).logabsdet, (M3,), tol=20),
    Row("linalg_qr", lambda t, F, x: t.linalg.qr(x).Q.sin() @ t.linalg.qr(x).R,
        (normal(2, 4, 3),), tol=50),
    Row("linalg_qr:wide", lambda t, F, x: t.linalg.qr(x).R, (normal(3, 5),), cpu=True, tol=50),
    Row("linalg_qr:complete", lambda t, F, x: t.linalg.qr(x, "complete").Q, (M4,), cpu=True,
        tol=50),
    Row("linalg_qr:ormqr", lambda t, F, x, y, c: reflect(t, x.tril(-1), y, c),
        (normal(3, 2), normal(2), normal(1, 3)), tol=20),
    Row("linalg_svd", lambda t, F, x: svd_parts(t, x, False), (normal(2, 4, 3),), tol=50),
    Row("linalg_svd:full", lambda t, F, x: svd_parts(t, x, True), (normal(3, 5),), cpu=True,
        tol=50),
    Row("linalg_svd:values", lambda t, F, x: t.linalg.svdvals(x), (normal(2, 3, 4),), tol=10),
    Row("linalg_eigh", lambda t, F, x: t.linalg.eigh(symmetric(t, x)).eigenvectors.abs(), (M4,),
        tol=50),
    Row("linalg_eigh:values", lambda t, F, x: t.linalg.eigvalsh(symmetric(t, x), UPLO="U"), (M3,),
        tol=10),
    Row("linalg_eig", lambda t, F, x: eig_parts(t, x), (normal(3, 3),), cpu=True, tol=50,
        second=False),
    Row("linalg_pinv", lambda t, F, x: t.linalg.pinv(x), (normal(2, 4, 3),), tol=50),
    Row("linalg_pinv:hermitian", lambda t, F, x: t.linalg.pinv(symmetric(t, x), hermitian=True),
        (M3,), tol=50),
    Row("linalg_pinv:lstsq", lambda t, F, x, b: t.linalg.lstsq(x, b).solution,
        (normal(5, 3), normal(5, 2)), tol=50),
    Row("matrix_exp", lambda t, F, x: t.linalg.matrix_exp(x), (M3,), tol=20),
    Row("matrix_exp:large", lambda t, F, x: t.matrix_exp(x * 8 - 12 * eye(t, x, 3)), (M3,),
        tol=100, second=False),
    value("linalg_ldl", lambda t, F, x: t.linalg.ldl_factor(x + x.mT).LD, normal(3, 6, 6), tol=50),
    value("linalg_ldl_solve",
        lambda t, F, x, b: t.linalg.ldl_solve(*t.linalg.ldl_factor(x + x.mT), b), normal(3, 6, 6),
        normal(6, 2), tol=200),
    # norms
    Row("matmul:vector_norm", lambda t, F, x: norms(t, x, 1, 2, 3.5, -math.inf),
        (normal(7),), tol=10),
    Row("matmul:matrix_norm", lambda t, F, x: norms(t, x, "nuc", 1, -2), (normal(3, 4),), tol=20),
    Row("matmul:norm zero", lambda t, F, x: t.linalg.vector_norm(x * 0, dim=0)
        + sum(t.linalg.vector_norm(x * 0, p) for p in (0, 0.5, 1, 1.5, 3, math.inf)),
        (normal(3, 4),), second=False),
    Row("matmul:cdist", lambda t, F, x, y: t.cdist(x, y) + t.cdist(x, y, p=1.5) + t.dist(x, x + 1),
        (normal(2, 3, 4), normal(5, 4)), tol=10),
    Row("matmul:cdist by product", lambda t, F, x, y: t.cdist(
        x, y, compute_mode="use_mm_for_euclid_dist"), (normal(3, 4), normal(5, 4)), tol=20),
)  # fmt: skip

REFUSED = r"""
t.matmul(A23, A23) -> cannot be multiplied
t.matmul(t.tensor(1.0), A23) -> at least 1D
t.matmul(A33, A33.double()) -> dtype
t.matmul(A33 > 0, A33 > 0) -> bool
t.mm(A33, FLOAT) -> matrices
t.bmm(A33[None], t.stack([A33, A33])) -> batch
t.mv(A33, A33) -> vector
t.inner(A23, A23.T) -> last dimension
t.outer(A33, FLOAT) -> 1-d
t.addmm(A33, A23, A23) -> multiplied
t.addmm(t.ones(4, 4), A33, A33) -> expand
t.dot(FLOAT > 0, FLOAT > 0) -> bool
t.addr(INT, INT[0], INT[0], beta=0.5) -> beta
t.baddbmm(A33, A33[None], A23[None]) -> Expected size
t.chain_matmul() -> one or more
t.linalg.multi_dot([A33]) -> at least 2
t.linalg.multi_dot([A33, FLOAT, A33]) -> 2D
t.tensordot(A33, A23, dims=1) -> need to match
t.tensordot(A33, A33, dims=3) -> between 0 and 2
t.tensordot(A33, A33, dims=([0, 1], [0])) -> same length
t.cross(A23.T[:2], A23.T[:2]) -> size 3
t.block_diag(A33[None]) -> 2 or fewer
t.cartesian_prod(A33) -> 1D
t.combinations(A33) -> 1D
t.combinations(FLOAT, -1) -> non-negative
t.linalg.cholesky(A23) -> square
t.linalg.inv(FLOAT) -> at least 2
t.linalg.inv(A33.half()) -> Low precision
t.linalg.solve(A33, A23) -> Incompatible
t.linalg.solve(A33, A33.double()) -> same dtype
t.linalg.solve(A33, FLOAT, left=False) -> Vector
t.linalg.solve_triangular(A33, A23, upper=True) -> Incompatible
t.linalg.lu(A33, pivot=False) -> pivoting
t.linalg.qr(A33, "some") -> reduced
t.linalg.svd(A33, driver="gesvd") -> CUDA
t.linalg.eigh(A33, "X") -> UPLO
t.linalg.lstsq(A33, A33, driver="best") -> driver
t.linalg.matrix_norm(A33, 3) -> not supported
t.linalg.matrix_norm(A33, "fro", (0, 0)) -> different
t.linalg.vector_norm(FLOAT[:0], -1) -> identity
t.linalg.norm(A33[None], 2) -> 1D or 2D
t.linalg.norm(A33.double(), dtype=t.float32) -> narrowing
t.linalg.cond(A33, 3) -> norm type
t.linalg.vander(FLOAT, N=1) -> greater than 1
t.linalg.tensorinv(A23, ind=1) -> prod
t.linalg.tensorsolve(A23, FLOAT) -> prod
t.linalg.matrix_power(A23, 2) -> square
t.linalg.householder_product(A23, FLOAT) -> shape
t.cdist(A33, A23.T) -> columns
t.cdist(A33, A33, p=-1) -> non-negative
t.pca_lowrank(A33, q=4) -> min
t.einsum("ij,jk", A33) -> operands
t.einsum("ijk", A33) -> subscripts
t.einsum("ij,jk->iz", A33, A33) -> output
t.einsum("ij,jk->ii", A33, A33) -> more than once
t.einsum("i1", A33) -> a-zA-Z
t.einsum("ii", A23) -> match
t.einsum("ij,jk", A23, A23) -> broadcast
t.einsum(A33, [0, 60]) -> range
t.linalg.cholesky(INDEFINITE) -> minor of order 2
t.linalg.inv(SINGULAR) -> singular
t.linalg.solve(t.stack([A33[:2, :2], SINGULAR]), A33[:2]) -> Batch element 1
t.linalg.svd(A33 * NAN) -> nan
t.linalg.qr(A33[:, :2].requires_grad_(), "complete").R.sum().backward() -> nrows > ncols
t.linalg.qr(A33[:, :2].requires_grad_(), "r").R.sum().backward() -> mode='r'
"""
