"""Cholesky, LU and LDL, and the linear equations that they solve.

NumPy computes them (on the GPU the host does, and the result goes back); the rest is composed of
them. With H the conjugate transpose, the gradients are those of PyTorch
(torch/csrc/autograd/FunctionsManual.cpp), from M. Giles, "Collected matrix derivative results for
forward and reverse mode algorithmic differentiation" (2008).
"""

from __future__ import annotations

import math
from typing import Any, Literal, overload

import numpy as np

from pyframe.core import dtypes as dt
from pyframe.core.dispatch import apply, results_of
from pyframe.core.op import EXTERN, Op
from pyframe.ops.api import check
from pyframe.ops.api.public import public
from pyframe.ops.api.results import (
    LU,
    CholeskyEx,
    InvEx,
    LDLFactor,
    LDLFactorEx,
    LUFactor,
    LUFactorEx,
    LUUnpack,
    SolveEx,
    TriangularSolve,
)
from pyframe.ops.index import masks
from pyframe.ops.linalg import matrices
from pyframe.ops.linalg.matmul import matmul
from pyframe.ops.linalg.matrices import Array, Shape, block, float_matrix, integer, refuse
from pyframe.ops.math import elementwise as el, promotion
from pyframe.ops.math.complex import adjoint, real
from pyframe.ops.shape import join, movement as mv
from pyframe.tensor import Tensor

# --- Cholesky


def _np_cholesky(a: Array, what: str) -> tuple[Array, ...]:
    info = np.zeros(a.shape[:-2], a.dtype)
    try:
        out = np.linalg.cholesky(a)  # NaN passes through LAPACK unseen
        if not np.isnan(np.diagonal(out, 0, -2, -1)).any():
            return out, info
    except np.linalg.LinAlgError:
        out = np.zeros_like(a)
    for at, one in matrices.each_matrix(info, a):
        info[at] = _first_minor(one)
        if not info[at]:
            out[at] = np.linalg.cholesky(one)
    matrices.refuse(
        what, info.real, "The factorization could not be completed because the input is not "
        "positive-definite (the leading minor of order {} is not positive-definite).",
    )  # fmt: skip
    return out, info


def _first_minor(a: Array) -> int:
    """The order of the first leading minor that is not positive-definite, 0 if all are."""
    low, high = 0, a.shape[0] + 1
    while high - low > 1:
        middle = (low + high) // 2
        try:
            definite = not np.isnan(np.linalg.cholesky(a[:middle, :middle])[-1, -1])
        except np.linalg.LinAlgError:
            definite = False
        low, high = (middle, high) if definite else (low, middle)
    return high % (a.shape[0] + 1)


def _cholesky_grad(g: tuple[Tensor, ...], y: tuple[Tensor, ...], what: str) -> Tensor:
    lower = y[0]
    middle = matrices.twice_lower(matmul(adjoint(lower), g[0]))
    left = solve_any(adjoint(lower), middle)
    return adjoint(solve_any(adjoint(lower), adjoint(left))) * 0.5  # L^-H middle L^-1 / 2


cholesky_op = matrices.of_matrix(
    "linalg_cholesky", lambda a, what: (a, a[:-2]), _np_cholesky, _cholesky_grad
)


def _cholesky(name: str, a: Tensor, upper: bool, what: str) -> tuple[Tensor, Tensor]:
    float_matrix(name, a, True)
    lower, info = results_of(cholesky_op, (adjoint(a) if upper else a,), (what,))
    return (adjoint(lower) if upper else lower), info


def linalg_cholesky(A: Tensor, *, upper: bool = False) -> Tensor:
    """L (lower) with A = L L^H, or U = L^H with `upper`, of positive-definite matrices (…, n, n).

    LinAlgError for others. On the GPU the host computes it."""
    return _cholesky("linalg.cholesky", A, upper, "linalg.cholesky")[0]


def cholesky_ex(A: Tensor, *, upper: bool = False, check_errors: bool = False) -> CholeskyEx:
    """`cholesky` and, in place of an error, the order of the first minor that is not definite (0
    if all are). On the GPU the host computes it."""
    what = "linalg.cholesky_ex" if check_errors else ""
    lower, info = _cholesky("linalg.cholesky_ex", A, upper, what)
    return CholeskyEx(lower, integer(info))


def cholesky(input: Tensor, upper: bool = False) -> Tensor:
    """`linalg.cholesky` under its old name."""
    return _cholesky("cholesky", input, upper, "cholesky")[0]


def cholesky_solve(B: Tensor, L: Tensor, upper: bool = False) -> Tensor:
    """X with L L^H X = B (`upper`: L^H L X = B)."""
    float_matrix("cholesky_solve", B, what="B")
    float_matrix("cholesky_solve", L, True, "L")
    check.same_dtype("cholesky_solve", B, L)
    matrices.rows_fit("cholesky_solve", L, B)
    lower = _triangle(adjoint(L) if upper else L)
    return solve_any(adjoint(lower), solve_any(lower, B))


def _triangle(x: Tensor) -> Tensor:
    """The lower triangle, whose gradient is that of a whole matrix: PyTorch's choice."""
    lower = masks.tril(x.detach())
    return lower + (x - x.detach()) if x.requires_grad else lower


def cholesky_inverse(L: Tensor, upper: bool = False) -> Tensor:
    """(L L^H)^-1 (`upper`: (L^H L)^-1)."""
    float_matrix("cholesky_inverse", L, True, "L")
    zero = el.eq(matrices.main_diagonal(L.detach()), 0)
    what = "cholesky_inverse: a diagonal element is zero, the inversion could not be completed"
    check.assert_not(zero, f"{what} because the input matrix is singular.", matrices.LinAlgError)
    return cholesky_solve(matrices.eye_like(L, L.shape[-1]), L, upper)


# --- LU with partial pivoting


def _np_lu(a: Array) -> tuple[Array, Array, Array, Array]:
    """L and U in one matrix, LAPACK's pivots (from 1), the order of the rows, and the first zero
    pivot (from 1, or 0): G. Golub, C. Van Loan, "Matrix Computations", 3.4, in blocks."""
    lead, (m, n) = a.shape[:-2], a.shape[-2:]
    k, batch = min(m, n), math.prod(lead)
    lu = np.array(a, order="C").reshape(batch, m, n)
    pivots = np.zeros((batch, k), np.int64)
    perm = np.tile(np.arange(m), (batch, 1))
    info = np.zeros(batch, np.int64)
    each = np.arange(batch)
    for start in range(0, k, 32):
        stop = min(start + 32, k)
        panel = np.ascontiguousarray(lu[:, start:, start:stop].swapaxes(1, 2))  # rows of columns
        order = np.tile(np.arange(m - start), (batch, 1))
        for j in range(stop - start):
            column = panel[:, j, j:]
            size = np.abs(column.real) + np.abs(column.imag) if a.dtype.kind == "c" else abs(column)
            p = j + size.argmax(1)
            pivots[:, start + j] = start + 1 + p
            panel[each, :, j], panel[each, :, p] = panel[each, :, p], panel[each, :, j]
            order[each, j], order[each, p] = order[each, p], order[each, j]
            pivot = panel[:, j, j]
            if not pivot.all():
                info[(info == 0) & (pivot == 0)] = start + j + 1
                pivot = np.where(pivot == 0, 1, pivot)
            panel[:, j, j + 1 :] /= pivot[:, None]
            panel[:, j + 1 :, j + 1 :] -= panel[:, j + 1 :, j, None] * panel[:, j, None, j + 1 :]
        lu[:, start:] = np.take_along_axis(lu[:, start:], order[..., None], 1)
        perm[:, start:] = np.take_along_axis(perm[:, start:], order, 1)
        lu[:, start:, start:stop] = panel.swapaxes(1, 2)
        if stop < n:
            lower = np.tril(lu[:, start:stop, start:stop], -1) + np.eye(stop - start, dtype=a.dtype)
            lu[:, start:stop, stop:] = np.linalg.solve(lower, lu[:, start:stop, stop:])
            lu[:, stop:, stop:] -= lu[:, stop:, start:stop] @ lu[:, start:stop, stop:]
    return (
        lu.reshape(a.shape), pivots.reshape(*lead, k), perm.reshape(*lead, m), info.reshape(lead)
    )  # fmt: skip


def _np_substitute(lu: Array, perm: Array, b: Array) -> Array:
    """X with A X = B from A's LU; a zero pivot divides, to inf and nan."""
    x = np.take_along_axis(np.array(b), perm[..., None], -2)
    n = lu.shape[-1]
    for j in range(n):
        x[..., j + 1 :, :] -= lu[..., j + 1 :, j, None] * x[..., None, j, :]
    for j in reversed(range(n)):
        x[..., j, :] /= lu[..., j, j, None]
        x[..., :j, :] -= lu[..., :j, j, None] * x[..., None, j, :]
    return x


def _lu_numpy(a: Array, what: str) -> tuple[Array, ...]:
    parts = _np_lu(a)
    matrices.refuse(
        what, parts[3], "U[{0},{0}] is zero and using it on lu_solve would result in a division "
        "by zero. If you still want to perform the factorization, consider calling "
        "linalg.lu(A, pivot) or linalg.lu_factor_ex(A, pivot)",
    )  # fmt: skip
    return tuple(p.astype(a.dtype, copy=False) for p in parts)


def _lu_grad(g: tuple[Tensor, ...], y: tuple[Tensor, ...], what: str) -> Tensor:
    """PyTorch's plu_backward, of L and U in one matrix."""
    (glu, *_), (lu, _, perm, _) = g, y
    m, n = lu.shape[-2:]
    k = min(m, n)
    lower = masks.tril(block(lu, k, k), -1) + matrices.eye_like(lu, k)
    upper = masks.triu(block(lu, k, k))
    glower, gupper = masks.tril(block(glu, k, k), -1), masks.triu(block(glu, k, k))
    strict = matmul(adjoint(lower), glower)
    other = matmul(gupper, adjoint(upper))
    rest = None
    if n > k:  # A = [X | Y]: U's right part is L^-1 P^T Y
        right, gright = mv.narrow(lu, -1, k, n - k), mv.narrow(glu, -1, k, n - k)
        strict = strict - matmul(gright, adjoint(right))
        rest = triangular(adjoint(lower), gright, True, True)
    if m > k:  # L's lower part is that of P^T A times U^-1
        below, gbelow = mv.narrow(lu, -2, k, m - k), mv.narrow(glu, -2, k, m - k)
        other = other - matmul(adjoint(below), gbelow)
        rest = by_upper(gbelow, upper)
    middle = masks.tril(strict, -1) + masks.triu(other)
    out = by_upper(triangular(adjoint(lower), middle, True, True), upper)
    if rest is not None:
        out = join.cat([out, rest], -1 if n > k else -2)
    return matmul(_permutation(real(perm.detach()), lu), out)


def by_upper(x: Tensor, upper: Tensor) -> Tensor:
    """x U^-H."""
    return adjoint(triangular(upper, adjoint(x), True))


def _permutation(perm: Tensor, like: Tensor) -> Tensor:
    """P with A = P L U, for the order `perm` (…, m) of A's rows in L U."""
    rows = el.iota((perm.shape[-1], 1), perm.device)
    return el.eq(mv.unsqueeze(perm, -2), rows.to(perm.dtype)).to(like.dtype)


lu_op = matrices.of_matrix(
    "linalg_lu", lambda a, what: (a, (*a[:-2], min(a[-2:])), a[:-1], a[:-2]), _lu_numpy, _lu_grad
)


def _np_order(pivots: Array, rows: int) -> Array:
    """The order of rows that swapping row i with pivots[i] - 1, one after the other, leads to."""
    lead, k = pivots.shape[:-1], pivots.shape[-1]
    flat = pivots.reshape(math.prod(lead), k).astype(np.int64) - 1
    if flat.size and (flat.min() < 0 or flat.max() >= rows):
        raise RuntimeError(
            f"lu: pivots must be between 1 and {rows}, got {flat.min() + 1} to {flat.max() + 1}"
        )
    order = np.tile(np.arange(rows, dtype=np.int32), (flat.shape[0], 1))
    each = np.arange(flat.shape[0])
    for i in range(k):
        p = flat[:, i]
        order[each, i], order[each, p] = order[each, p], order[each, i]
    return order.reshape(*lead, rows)


row_order_op = Op(
    "linalg_row_order", EXTERN, "pivots", "rows", numpy=_np_order,
    infer=lambda pivots, rows: ((*pivots.shape[:-1], rows), dt.int32),
)  # fmt: skip


def _lu(name: str, a: Tensor, pivot: bool, what: str) -> Any:
    float_matrix(name, a)
    if not pivot:
        raise RuntimeError(f"{name}: LU without pivoting is not implemented on the CPU")
    return results_of(lu_op, (a,), (what,))


def lu_factor_ex(A: Tensor, *, pivot: bool = True, check_errors: bool = False) -> LUFactorEx:
    """A = P L U as L and U in one matrix (without L's diagonal of ones), LAPACK's int32 pivots,
    and the place of the first zero pivot (0: none). On the GPU the host computes it."""
    what = "linalg.lu_factor_ex" if check_errors else ""
    lu, pivots, _, info = _lu("linalg.lu_factor_ex", A, pivot, what)
    return LUFactorEx(lu, integer(pivots), integer(info))


def lu_factor(A: Tensor, *, pivot: bool = True) -> LUFactor:
    """`lu_factor_ex` that raises LinAlgError for a zero pivot."""
    lu, pivots, _, _ = _lu("linalg.lu_factor", A, pivot, "linalg.lu_factor")
    return LUFactor(lu, integer(pivots))


def _lower_upper(lu: Tensor) -> tuple[Tensor, Tensor]:
    m, n = lu.shape[-2:]
    k = min(m, n)
    square = matrices.eye_like(lu, max(m, k))
    lower = masks.tril(block(lu, m, k), -1) + block(square, m, k)
    return lower, masks.triu(block(lu, k, n))


def linalg_lu(A: Tensor, *, pivot: bool = True) -> LU:
    """P (m, m), L (m, k), U (k, n) with A = P L U, k = min(m, n). On the GPU the host
    computes it."""
    lu, _, perm, _ = _lu("linalg.lu", A, pivot, "")
    return LU(_permutation(real(perm.detach()), A), *_lower_upper(lu))


def lu_unpack(
    LU_data: Tensor, LU_pivots: Tensor, unpack_data: bool = True, unpack_pivots: bool = True
) -> LUUnpack:
    """P, L and U from what `lu_factor` gives; what is not asked for is empty."""
    float_matrix("lu_unpack", LU_data, what="LU_data")
    if LU_pivots.dtype is not dt.int32:
        raise RuntimeError(
            "lu_unpack: LU_pivots is expected to be a contiguous tensor of torch.int32 dtype, got "
            f"{LU_pivots.dtype.name}"
        )
    n = LU_data.shape[-2]
    outside = el.logical_or(el.lt(LU_pivots, 1), el.gt(LU_pivots, n))
    check.assert_not(outside, f"lu_unpack: LU_pivots must be between 1 and {n} inclusive")
    if LU_pivots.shape != (*LU_data.shape[:-2], min(LU_data.shape[-2:])):
        raise RuntimeError(
            f"lu_unpack: LU_pivots {list(LU_pivots.shape)} don't fit LU_data {list(LU_data.shape)}"
        )
    empty = LU_data.new_zeros(0)
    p = lower = upper = empty
    if unpack_data:
        lower, upper = _lower_upper(LU_data)
    if unpack_pivots:
        order = apply(row_order_op, (LU_pivots,), (LU_data.shape[-2],))
        p = _permutation(order, LU_data)
    return LUUnpack(p, lower, upper)


def linalg_lu_solve(
    LU: Tensor, pivots: Tensor, B: Tensor, *, left: bool = True, adjoint: bool = False
) -> Tensor:
    """X with A X = B (`left=False`: X A = B; `adjoint`: A^H for A), from `lu_factor(A)`."""
    float_matrix("linalg.lu_solve", LU, True, "LU")
    float_matrix("linalg.lu_solve", B, what="B")
    check.same_dtype("linalg.lu_solve", LU, B)
    if pivots.dtype is not dt.int32 or pivots.shape != LU.shape[:-1]:
        raise RuntimeError(
            "linalg.lu_solve: pivots should be an int32 tensor of shape "
            f"{list(LU.shape[:-1])}, got {pivots.dtype.name} {list(pivots.shape)}"
        )
    if not left:  # X A = B is A^H X^H = B^H
        return _h(linalg_lu_solve(LU, pivots, _h(B), adjoint=not adjoint))
    matrices.rows_fit("linalg.lu_solve", LU, B)
    p, lower, upper = lu_unpack(LU, pivots)
    if adjoint:
        inner = triangular(_h(lower), triangular(_h(upper), B, False), True, True)
        return matmul(p, inner)
    inner = triangular(lower, matmul(mv.transpose(p, -1, -2), B), False, True)
    return triangular(upper, inner, True)


_h = adjoint


def lu_solve(b: Tensor, LU_data: Tensor, LU_pivots: Tensor) -> Tensor:
    """`linalg.lu_solve` under its old name."""
    return linalg_lu_solve(LU_data, LU_pivots, b)


@overload
def lu(A: Tensor, pivot: bool = True, get_infos: Literal[False] = False) -> LUFactor: ...
@overload
def lu(A: Tensor, pivot: bool = True, *, get_infos: Literal[True]) -> LUFactorEx: ...
@overload
def lu(A: Tensor, pivot: bool = True, get_infos: bool = False) -> LUFactor | LUFactorEx: ...
def lu(A: Tensor, pivot: bool = True, get_infos: bool = False) -> LUFactor | LUFactorEx:
    """(LU, pivots), and info with `get_infos`: see `linalg.lu_factor_ex`."""
    out = lu_factor_ex(A, pivot=pivot)
    return out if get_infos else LUFactor(out.LU, out.pivots)


# --- linear equations


def _np_upper(a: Array, b: Array) -> Array:
    """a^-1 b of upper triangles, by halves: most of it are products."""
    h = a.shape[-1] // 2
    if h < 32:
        return np.linalg.solve(a, b)
    low = _np_upper(a[..., h:, h:], b[..., h:, :])
    top = _np_upper(a[..., :h, :h], b[..., :h, :] - a[..., :h, h:] @ low)
    return np.concatenate([top, low], -2)


def _np_solve(a: Array, b: Array, kind: str, what: str) -> tuple[Array, Array]:
    batch = np.broadcast_shapes(a.shape[:-2], b.shape[:-2])
    b = np.broadcast_to(b, (*batch, *b.shape[-2:]))  # NumPy 1 takes one dim less for vectors
    if "lower" in kind:  # reversed, it is an upper one, which elimination takes as it is
        a, b = a[..., ::-1, ::-1], b[..., ::-1, :]
    if kind:
        a = np.triu(a, 1) + np.eye(a.shape[-1], dtype=a.dtype) if "unit" in kind else np.triu(a)
    info: Any = np.zeros(batch, a.dtype)
    try:
        x = _np_upper(a, b) if kind else np.linalg.solve(a, b)
    except np.linalg.LinAlgError:
        full, _, perm, info = _np_lu(np.broadcast_to(a, (*batch, *a.shape[-2:])))
        zero = "The diagonal element {0} is zero, the inversion could not be completed"
        singular = zero if what.startswith("linalg.inv") else "The solver failed"
        matrices.refuse(what, info, f"{singular} because the input matrix is singular.")
        x = _np_substitute(full, perm, b)
    x = x[..., ::-1, :] if "lower" in kind else x
    return x, info.astype(a.dtype)


def _solve_shapes(a: Shape, b: Shape, *_: Any) -> tuple[Shape, Shape]:
    batch = promotion.broadcast("linalg.solve", a[:-2], b[:-2])
    return (*batch, *b[-2:]), batch


def _solve_grad(g: tuple[Tensor, ...], a: Tensor, kind: str) -> Tensor:
    flipped = kind.replace("lower", "?").replace("upper", "lower").replace("?", "upper")
    return _solve_info(adjoint(a), g[0], flipped)[0]


def _matrix_grad(g: tuple[Tensor, ...], y: tuple[Tensor, ...], a: Tensor, kind: str) -> Tensor:
    out = -matmul(_solve_grad(g, a, kind), adjoint(y[0]))
    if not kind:
        return out
    k = 1 if "unit" in kind else 0
    return masks.triu(out, k) if "upper" in kind else masks.tril(out, -k)


# a^-1 b, where `kind` says what of `a` counts: "", or "upper" or "lower" with "unit" or not
solve_op = Op(
    "linalg_solve", EXTERN, "a b", "kind what", numpy=_np_solve,
    results=_solve_shapes, batch=matrices.batched_results, a=_matrix_grad, b=_solve_grad,
)  # fmt: skip


def _inverse_grad(g: tuple[Tensor, ...], y: tuple[Tensor, ...]) -> Tensor:
    x = adjoint(y[0])
    return -matmul(matmul(x, g[0]), x)


inverse_op = Op(
    "linalg_inv", EXTERN, "a", "what",
    numpy=lambda a, what: _np_solve(a, np.eye(a.shape[-1], dtype=a.dtype), "", what),
    results=lambda a, *_: (a, a[:-2]), batch=matrices.batched_results, a=_inverse_grad,
)  # fmt: skip


def _solve_info(a: Tensor, b: Tensor, kind: str = "", what: str = "") -> tuple[Tensor, ...]:
    return results_of(solve_op, (a, b), (kind, what))


def solve_any(a: Tensor, b: Tensor) -> Tensor:
    """a^-1 b, inf or nan where `a` is singular."""
    return _solve_info(a, b)[0]


def triangular(a: Tensor, b: Tensor, upper: bool, unit: bool = False) -> Tensor:
    """a^-1 b where only a triangle of `a` counts; inf where its diagonal has zeros."""
    return _solve_info(a, b, ("upper" if upper else "lower") + (" unit" if unit else ""))[0]


def _solve_ex(name: str, a: Tensor, b: Tensor, left: bool, what: str) -> tuple[Tensor, Tensor]:
    float_matrix(name, a, True)
    check.same_dtype(name, a, b)
    vector = b.ndim == 1 or (a.ndim - 1 == b.ndim and b.shape == a.shape[:-1])
    if vector and not left:
        raise RuntimeError(f"{name}: Vector broadcasting of the left hand side is not supported")
    if vector:
        b = mv.unsqueeze(b, -1)
    if not left:
        a, b = mv.transpose(a, -1, -2), mv.transpose(b, -1, -2)
    matrices.rows_fit(name, a, b)
    x, info = _solve_info(a, b, "", what)
    if vector:
        return mv.squeeze(x, -1), info
    return (x if left else mv.transpose(x, -1, -2)), info


def solve(A: Tensor, B: Tensor, *, left: bool = True) -> Tensor:
    """X with A X = B (`left=False`: X A = B), for A (…, n, n) and B (…, n, k) or vectors (…, n).

    LinAlgError for a singular A. On the GPU the host computes it."""
    return _solve_ex("linalg.solve", A, B, left, "linalg.solve")[0]


def solve_ex(A: Tensor, B: Tensor, *, left: bool = True, check_errors: bool = False) -> SolveEx:
    """`solve` and, in place of an error, the place of the first zero pivot (0: none)."""
    what = "linalg.solve_ex" if check_errors else ""
    x, info = _solve_ex("linalg.solve_ex", A, B, left, what)
    return SolveEx(x, integer(info))


def inverse_of(name: str, a: Tensor, what: str) -> tuple[Tensor, ...]:
    """(a^-1, the places of the first zero pivots); LinAlgError for those where `what` names who
    asks."""
    float_matrix(name, a, True)
    return results_of(inverse_op, (a,), (what,))


def inv(A: Tensor) -> Tensor:
    """The inverses of matrices (…, n, n). LinAlgError for a singular one. On the GPU the host
    computes them."""
    return inverse_of("linalg.inv", A, "linalg.inv")[0]


def inverse(input: Tensor) -> Tensor:
    """`linalg.inv` under its old name."""
    return inv(input)


def inv_ex(A: Tensor, *, check_errors: bool = False) -> InvEx:
    """`inv` and, in place of an error, the place of the first zero pivot (0: none)."""
    x, info = inverse_of("linalg.inv_ex", A, "linalg.inv_ex" if check_errors else "")
    return InvEx(x, integer(info))


def solve_triangular(
    A: Tensor, B: Tensor, *, upper: bool, left: bool = True, unitriangular: bool = False
) -> Tensor:
    """X with A X = B (`left=False`: X A = B) for triangular A, of which the other half is not
    looked at; inf where A is singular. On the GPU the host computes it."""
    float_matrix("linalg.solve_triangular", A, True)
    float_matrix("linalg.solve_triangular", B, what="B")
    check.same_dtype("linalg.solve_triangular", A, B)
    if not left:
        A, B = mv.transpose(A, -1, -2), mv.transpose(B, -1, -2)
        upper = not upper
    matrices.rows_fit("linalg.solve_triangular", A, B)
    x = triangular(A, B, upper, unitriangular)
    return x if left else mv.transpose(x, -1, -2)


def triangular_solve(
    b: Tensor, A: Tensor, upper: bool = True, transpose: bool = False, unitriangular: bool = False
) -> TriangularSolve:
    """`linalg.solve_triangular` under its old name: (solution, a copy of A)."""
    float_matrix("triangular_solve", b, what="b")
    float_matrix("triangular_solve", A, True)
    check.same_dtype("triangular_solve", A, b)
    a = adjoint(A) if transpose else A
    x = solve_triangular(a, b, upper=upper != transpose, unitriangular=unitriangular)
    batch = x.shape[:-2]
    return TriangularSolve(x, mv.expand(A, (*batch, *A.shape[-2:])).clone())


public(
    globals(), both="cholesky cholesky_solve cholesky_inverse lu lu_solve inverse triangular_solve",
    functions="lu_unpack", out_exact="lu_solve lu_unpack triangular_solve", float32="""cholesky
    cholesky_ex cholesky_inverse cholesky_solve inv inv_ex inverse linalg_cholesky lu_solve solve
    triangular_solve""",
)  # fmt: skip


def _np_ldl(a: Array, how: tuple[bool, str]) -> tuple[Array, ...]:
    hermitian, what = how
    pivots = np.zeros(a.shape[:-1], a.dtype)
    info = np.zeros(a.shape[:-2], a.dtype)
    out = np.tril(a)
    for at, one, swaps in matrices.each_matrix(info, out, pivots):
        info[at] = _bunch_kaufman(one, swaps, hermitian)
    refuse(what, info.real, "The factorization could not be completed because D[{0},{0}] is zero.")
    return out, pivots, info


def _bunch_kaufman(a: Array, pivots: Array, hermitian: bool) -> int:
    """L D L^T (or L D L^H) in the lower triangle of `a`, with LAPACK's pivots: J. Bunch,
    L. Kaufman, "Some stable methods for calculating inertia and solving symmetric linear systems"
    (1977)."""
    flip = np.conjugate if hermitian else np.asarray
    n, k, info = a.shape[0], 0, 0

    def size(x: Any) -> Any:
        return np.abs(np.real(x)) + np.abs(np.imag(x))

    while k < n:
        if hermitian:
            a[k, k] = a[k, k].real
        step, p, own = 1, k, size(a[k, k])
        below = size(a[k + 1 :, k])
        far = k + 1 + int(below.argmax()) if k + 1 < n else k
        most = below.max() if k + 1 < n else 0
        if max(own, most) == 0 or np.isnan(own):
            info = info or k + 1
            pivots[k] = k + 1
            k += 1
            continue
        if own < _ALPHA * most:
            others = np.concatenate([size(a[far, k:far]), size(a[far + 1 :, far])]).max()
            if own >= _ALPHA * most * (most / others):
                pass
            elif size(a[far, far]) >= _ALPHA * others:
                p = far
            else:
                p, step = far, 2
        kk = k + step - 1
        if p != kk:
            a[p + 1 :, [kk, p]] = a[p + 1 :, [p, kk]]
            column, row = flip(a[kk + 1 : p, kk]).copy(), flip(a[p, kk + 1 : p]).copy()
            a[kk + 1 : p, kk], a[p, kk + 1 : p] = row, column
            a[p, kk] = flip(a[p, kk])
            a[kk, kk], a[p, p] = a[p, p], a[kk, kk]
            if step == 2:
                a[kk, k], a[p, k] = a[p, k], a[kk, k]
        if step == 1:
            x = a[k + 1 :, k].copy()
            a[k + 1 :, k + 1 :] -= np.tril(np.outer(x, flip(x)) / a[k, k])
            a[k + 1 :, k] = x / a[k, k]
            pivots[k] = p + 1
        else:
            block = np.array([[a[k, k], flip(a[k + 1, k])], [a[k + 1, k], a[k + 1, k + 1]]])
            x = a[k + 2 :, k : k + 2].copy()
            w = np.linalg.solve(block.T, x.T).T
            a[k + 2 :, k + 2 :] -= np.tril(w @ flip(x).T)
            a[k + 2 :, k : k + 2] = w
            pivots[k] = pivots[k + 1] = -(p + 1)
        k += step
    return info


_ALPHA = (1 + math.sqrt(17)) / 8


ldl_op = matrices.of_matrix("linalg_ldl", lambda a, how: (a, a[:-1], a[:-2]), _np_ldl)


def ldl_factor_ex(A: Tensor, *, hermitian: bool = False, check_errors: bool = False) -> LDLFactorEx:
    """L and D of symmetric (Hermitian) matrices, A = L D L^T (L D L^H), in one matrix, LAPACK's
    int32 pivots, and the place of the first zero in D (0: none). Not differentiable. On the GPU
    the host computes it."""
    float_matrix("linalg.ldl_factor_ex", A, True)
    what = "linalg.ldl_factor_ex" if check_errors else ""
    ld, pivots, info = results_of(ldl_op, (A,), ((hermitian, what),))
    return LDLFactorEx(ld, integer(pivots), integer(info))


def ldl_factor(A: Tensor, *, hermitian: bool = False) -> LDLFactor:
    """`ldl_factor_ex` that raises LinAlgError for a zero in D."""
    float_matrix("linalg.ldl_factor", A, True)
    parts = results_of(ldl_op, (A,), ((hermitian, "linalg.ldl_factor"),))
    return LDLFactor(parts[0], integer(parts[1]))


def _np_ldl_solve(ld: Array, pivots: Array, b: Array, hermitian: bool) -> Array:
    batch = np.broadcast_shapes(ld.shape[:-2], b.shape[:-2])
    ld = np.broadcast_to(ld, (*batch, *ld.shape[-2:]))
    pivots = np.broadcast_to(pivots, (*batch, pivots.shape[-1]))
    x = np.array(np.broadcast_to(b, (*batch, *b.shape[-2:])))
    for at in np.ndindex(*batch):
        _by_ldl(ld[at], pivots[at], x[at], hermitian)
    return x


def _by_ldl(ld: Array, pivots: Array, x: Array, hermitian: bool) -> None:
    """x = (L D L^T)^-1 x, in place."""
    flip = np.conjugate if hermitian else np.asarray
    n, k = ld.shape[0], 0
    steps = []
    while k < n:
        step = 1 if pivots[k] > 0 else 2
        last = k + step - 1
        p = abs(int(pivots[k])) - 1
        if p != last:
            x[[last, p]] = x[[p, last]]
        below = ld[k + step :, k : k + step]
        x[k + step :] -= below @ x[k : k + step]
        if step == 1:
            x[k] /= ld[k, k]
        else:
            block = np.array([[ld[k, k], flip(ld[k + 1, k])], [ld[k + 1, k], ld[k + 1, k + 1]]])
            x[k : k + 2] = np.linalg.solve(block, x[k : k + 2])
        steps.append((k, step, last, p, below))
        k += step
    for k, step, last, p, below in reversed(steps):
        x[k : k + step] -= flip(below).T @ x[k + step :]
        if p != last:
            x[[last, p]] = x[[p, last]]


ldl_solve_op = Op(
    "linalg_ldl_solve", EXTERN, "ld pivots b", "hermitian", numpy=_np_ldl_solve,
    infer=lambda ld, pivots, b, h: (
        (*promotion.broadcast("linalg.ldl_solve", ld.shape[:-2], b.shape[:-2]), *b.shape[-2:]),
        b.dtype,
    ),
)  # fmt: skip


def ldl_solve(LD: Tensor, pivots: Tensor, B: Tensor, *, hermitian: bool = False) -> Tensor:
    """X with A X = B from `ldl_factor(A)`. Not differentiable. On the GPU the host computes it."""
    float_matrix("linalg.ldl_solve", LD, True, "LD")
    float_matrix("linalg.ldl_solve", B, what="B")
    check.same_dtype("linalg.ldl_solve", LD, B)
    matrices.rows_fit("linalg.ldl_solve", LD, B)
    if pivots.dtype.category != dt.INTEGER or pivots.shape != LD.shape[:-1]:
        raise RuntimeError(
            f"linalg.ldl_solve: Expected pivots to be integers of shape {list(LD.shape[:-1])}, got "
            f"{pivots.dtype.name} {list(pivots.shape)}"
        )
    far = el.gt(el.abs(pivots), LD.shape[-1])
    check.assert_not(
        el.logical_or(el.eq(pivots, 0), far),
        f"linalg.ldl_solve: Pivots must satisfy 1 <= |pivot| <= {LD.shape[-1]}; pass the result of "
        "ldl_factor",
    )
    return apply(ldl_solve_op, (LD, pivots, B), (hermitian,))
