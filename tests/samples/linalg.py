"""Rows of matrix products, decompositions, solvers and norms.

What is defined up to signs only (eigenvectors, singular vectors) is compared through absolute
values or products that have none.
"""

from __future__ import annotations

import math
from typing import Any

from .row import Row, bools, ints, normal


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
    Row("matmul:mv", lambda t, F, x, y: t.mv(x, y) * t.mm(x, x.T).trace(),
        (normal(3, 4), normal(4))),
    Row("matmul:spmm", lambda t, F, x, y: t.spmm(x, y), (normal(2, 3), normal(3, 2))),
    Row("matmul:ints", lambda t, F, x, y: t.matmul(x, y), (ints(-9, 9, 2, 3, 4), ints(-9, 9, 4)),
        grad=False),
    Row("matmul:vdot", lambda t, F, x, y: t.vdot(x, y) * t.inner(x, y) + t.linalg.vecdot(x, y),
        (normal(5), normal(5))),
    Row("matmul:inner", lambda t, F, x, y: t.inner(x, y), (normal(2, 3, 4), normal(5, 4))),
    Row("matmul:addmv", lambda t, F, b, x, y: t.addmv(b, x, y, beta=0.5, alpha=2),
        (normal(3), normal(3, 4), normal(4))),
    Row("matmul:addr", lambda t, F, b, x, y: t.addr(b, x, y, beta=2, alpha=0.5),
        (normal(1, 4), normal(3), normal(4))),
    Row("matmul:addr bool", lambda t, F, b, x, y: t.addr(b, x, y),
        (bools(3, 4), bools(3), bools(4)), grad=False),
    Row("matmul:addbmm", lambda t, F, b, x, y: t.addbmm(b, x, y, beta=0.5, alpha=2),
        (normal(3, 5), normal(2, 3, 4), normal(2, 4, 5))),
    Row("matmul:baddbmm", lambda t, F, b, x, y: t.baddbmm(b, x, y, beta=0, alpha=2),
        (normal(3, 5), normal(2, 3, 4), normal(2, 4, 5))),
    Row("matmul:multi_dot", lambda t, F, x, y, z: t.linalg.multi_dot([x, y, z]),
        (normal(3), normal(3, 5), normal(5, 2))),
    Row("matmul:chain", lambda t, F, x, y: t.linalg.multi_dot([x, y, x.T]),
        (normal(2, 3), normal(3, 3))),
    Row("matmul:tensordot", lambda t, F, x, y: t.tensordot(x, y, ([0, 2], [1, 0])),
        (normal(2, 3, 4), normal(4, 2, 5))),
    Row("matmul:tensordot 0", lambda t, F, x, y: t.tensordot(x, y, 0), (normal(2), normal(3, 1))),
    Row("matmul:einsum", lambda t, F, x, y: t.einsum("bij,bkj->bik", x, y),
        (normal(2, 3, 4), normal(2, 5, 4))),
    Row("matmul:einsum dots", lambda t, F, x, y: t.einsum("...ij,kj", x, y),
        (normal(2, 3, 4), normal(5, 4))),
    Row("matmul:einsum three", lambda t, F, x, y, z: t.einsum("ij,jk,k->i", x, y, z),
        (normal(2, 3), normal(3, 4), normal(4))),
    Row("matmul:einsum trace", lambda t, F, x, y: t.einsum("iij,j->j", x, y),
        (normal(3, 3, 4), normal(1))),
    Row("matmul:einsum outer", lambda t, F, x, y: t.einsum("i,j,i->ji", x, y, x),
        (normal(3), normal(4))),
    Row("matmul:einsum lists", lambda t, F, x, y: t.einsum(x, [..., 3, 5], y, [5, 1], [1, ...]),
        (normal(2, 3, 4), normal(4, 5))),
    Row("matmul:kron", lambda t, F, x, y: t.kron(x, y), (normal(2, 3), normal(3))),
    Row("matmul:cross", lambda t, F, x, y: t.linalg.cross(x, y, dim=0),
        (normal(3, 4), normal(3, 4))),
    Row("matmul:block_diag", lambda t, F, x, y, z: t.block_diag(x, y, z),
        (normal(2, 3), normal(2), normal())),
    Row("matmul:cartesian_prod", lambda t, F, x, y: t.cartesian_prod(x, y, x),
        (normal(2), normal(3))),
    Row("matmul:combinations", lambda t, F, x: t.combinations(x, 3, with_replacement=True),
        (normal(4),)),
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
    Row("linalg_row_order", lambda t, F, x: t.lu_unpack(*t.linalg.lu_factor(x)).P, (M3,),
        grad=False),
    Row("linalg_row_order:solve", lambda t, F, x, b: lu_solved(t, regular(t, x), b),
        (normal(3, 3), normal(3, 1)), cpu=True, tol=20),
    Row("linalg_solve", lambda t, F, x, b: t.linalg.solve(regular(t, x), b), (M3, normal(3, 2)),
        tol=20),
    Row("linalg_solve:vector", lambda t, F, x, b: t.linalg.solve(regular(t, x), b), (M4, normal(4)),
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
    Row("linalg_solve:tensors", lambda t, F, x, b: t.linalg.tensorsolve(x, b)
        + t.linalg.tensorinv(x.reshape(3, 2, 6), ind=2).sum(),
        (normal(2, 3, 6), normal(2, 3)), tol=50),
    Row("linalg_solve:power", lambda t, F, x: t.linalg.matrix_power(regular(t, x), -3), (M3,),
        tol=50),
    Row("linalg_det", lambda t, F, x: t.linalg.det(x), (M3,), tol=20),
    Row("linalg_cofactors", lambda t, F, x: t.linalg.det(x @ x.mT), (normal(3, 2),), tol=20,
        second=False),
    Row("linalg_slogdet", lambda t, F, x: t.linalg.slogdet(x).logabsdet, (M3,), tol=20),
    Row("linalg_slogdet:logdet", lambda t, F, x: t.logdet(definite(t, x)), (M4,), tol=20),
    Row("linalg_qr", lambda t, F, x: t.linalg.qr(x).Q.sin() @ t.linalg.qr(x).R,
        (normal(2, 4, 3),), tol=50),
    Row("linalg_qr:wide", lambda t, F, x: t.linalg.qr(x).R, (normal(3, 5),), cpu=True, tol=50),
    Row("linalg_qr:complete", lambda t, F, x: t.linalg.qr(x, "complete").Q, (M4,), cpu=True,
        tol=50),
    Row("linalg_qr:geqrf", lambda t, F, x: t.geqrf(x).a * t.geqrf(x).tau, (normal(5, 3),),
        grad=False),
    Row("linalg_qr:ormqr", lambda t, F, x, y, c: reflect(t, x.tril(-1), y, c),
        (normal(3, 2), normal(2), normal(1, 3)), tol=20),
    Row("linalg_qr:householder_product",
        lambda t, F, x, y: t.linalg.householder_product(x.tril(-1), y),
        (normal(4, 2), normal(2)), cpu=True, tol=20),
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
    Row("linalg_pinv:rank", lambda t, F, x: t.linalg.matrix_rank(x @ x.mT), (normal(2, 4, 2),),
        grad=False),
    Row("matrix_exp", lambda t, F, x: t.linalg.matrix_exp(x), (M3,), tol=20),
    Row("matrix_exp:large", lambda t, F, x: t.matrix_exp(x * 8 - 12 * eye(t, x, 3)), (M3,),
        tol=100, second=False),
    Row("linalg_ldl", lambda t, F, x: t.linalg.ldl_factor(x + x.mT).LD, (normal(3, 6, 6),),
        grad=False, tol=50),
    Row("linalg_ldl_solve",
        lambda t, F, x, b: t.linalg.ldl_solve(*t.linalg.ldl_factor(x + x.mT), b),
        (normal(3, 6, 6), normal(6, 2)), grad=False, tol=200),
    # norms
    Row("matmul:vector_norm", lambda t, F, x: norms(t, x, 1, 2, 3.5, -math.inf),
        (normal(7),), tol=10),
    Row("matmul:matrix_norm", lambda t, F, x: norms(t, x, "nuc", 1, -2), (normal(3, 4),), tol=20),
    Row("matmul:norm zero", lambda t, F, x: t.linalg.vector_norm(x * 0, dim=0)
        + sum(t.linalg.vector_norm(x * 0, p) for p in (0, 0.5, 1, 1.5, 3, math.inf)),
        (normal(3, 4),), second=False),
    Row("matmul:cond", lambda t, F, x: t.linalg.cond(regular(t, x)),
        (M3,), tol=50),
    Row("matmul:cdist", lambda t, F, x, y: t.cdist(x, y) + t.cdist(x, y, p=1.5) + t.dist(x, x + 1),
        (normal(2, 3, 4), normal(5, 4)), tol=10),
    Row("matmul:cdist by product", lambda t, F, x, y: t.cdist(
        x, y, compute_mode="use_mm_for_euclid_dist"), (normal(3, 4), normal(5, 4)), tol=20),
    Row("matmul:vander", lambda t, F, x: t.linalg.vander(x, N=4), (normal(2, 3),), tol=10),
    Row("matmul:vander down", lambda t, F, x: t.vander(x) @ t.vander(x, 2, True),
        (normal(3),), grad=False),
)  # fmt: skip
