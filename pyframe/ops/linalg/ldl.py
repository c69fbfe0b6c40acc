"""LDL decompositions of symmetric matrices, and the linear equations that they solve."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from pyframe.core import dtypes as dt
from pyframe.core.dispatch import apply, results_of
from pyframe.core.op import ROUTINE, Op
from pyframe.ops.api import check
from pyframe.ops.api.results import LDLFactor, LDLFactorEx
from pyframe.ops.linalg import matrices
from pyframe.ops.linalg.matrices import Array, float_matrix, integer, refuse
from pyframe.ops.math import elementwise as el, promotion
from pyframe.tensor import Tensor


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
    "linalg_ldl_solve", ROUTINE, "ld pivots b", "hermitian", numpy=_np_ldl_solve,
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
    check.refuse(
        el.logical_or(el.eq(pivots, 0), far),
        f"linalg.ldl_solve: Pivots must satisfy 1 <= |pivot| <= {LD.shape[-1]}; pass the result of "
        "ldl_factor",
    )
    return apply(ldl_solve_op, (LD, pivots, B), (hermitian,))
