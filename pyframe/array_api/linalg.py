"""The standard's linear algebra: four functions of the namespace itself, and the extension."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pyframe as pf
from pyframe.array_api.dtypes import common, dtype_of_sums
from pyframe.core.dtypes import dtype as _DType
from pyframe.tensor import Tensor

__all__ = [
    "cholesky", "cross", "det", "diagonal", "eigh", "eigvalsh", "inv", "matmul", "matrix_norm",
    "matrix_power", "matrix_rank", "matrix_transpose", "outer", "pinv", "qr", "slogdet", "solve",
    "svd", "svdvals", "tensordot", "trace", "vecdot", "vector_norm",
]  # fmt: skip


def _of_one(fn: Callable[[Tensor], Any], doc: str) -> Any:
    """A function of pyframe.linalg that the standard has as it is."""

    def run(x: Tensor, /) -> Any:
        return fn(x)

    run.__name__ = run.__qualname__ = fn.__name__
    run.__doc__ = doc
    return run


det = _of_one(pf.linalg.det, "Determinants.")
eigh = _of_one(pf.linalg.eigh, "(eigenvalues, eigenvectors) of symmetric matrices.")
eigvalsh = _of_one(pf.linalg.eigvalsh, "Eigenvalues of symmetric matrices, from the smallest on.")
inv = _of_one(pf.linalg.inv, "Inverses.")
slogdet = _of_one(pf.linalg.slogdet, "(sign, logabsdet) of determinants.")
svdvals = _of_one(pf.linalg.svdvals, "Singular values, from the largest on.")


def matmul(x1: Tensor, x2: Tensor, /) -> Tensor:
    """The product of matrices, of stacks of them, or of vectors."""
    return pf.matmul(*common(x1, x2))


def matrix_transpose(x: Tensor, /) -> Tensor:
    """`x` with its last two axes exchanged."""
    return x.mT


def tensordot(x1: Tensor, x2: Tensor, /, *, axes: Any = 2) -> Tensor:
    """The sum of products over the last axes of `x1` and the first of `x2`, or over named pairs."""
    a, b = common(x1, x2)
    return pf.tensordot(a, b, dims=axes)


def vecdot(x1: Tensor, x2: Tensor, /, *, axis: int = -1) -> Tensor:
    """The dot product along an axis, counted from the end, with the conjugate of `x1`."""
    a, b = common(x1, x2)
    if a.shape[axis] != b.shape[axis]:
        raise ValueError(f"vecdot: sizes {a.shape[axis]} and {b.shape[axis]} along axis {axis}")
    return (a.conj() * b).sum(axis, dtype=a.dtype)


def cholesky(x: Tensor, /, *, upper: bool = False) -> Tensor:
    """The triangular factor of symmetric positive definite matrices."""
    return pf.linalg.cholesky(x, upper=upper)


def cross(x1: Tensor, x2: Tensor, /, *, axis: int = -1) -> Tensor:
    """The cross product of vectors of three."""
    return pf.linalg.cross(*common(x1, x2), dim=axis)


def diagonal(x: Tensor, /, *, offset: int = 0) -> Tensor:
    """The diagonals of matrices."""
    return pf.linalg.diagonal(x, offset=offset)


def matrix_norm(x: Tensor, /, *, keepdims: bool = False, ord: float | str | None = "fro") -> Tensor:
    """Norms of matrices: Frobenius, nuclear, or of sums or singular values."""
    return pf.linalg.matrix_norm(x, "fro" if ord is None else ord, keepdim=keepdims)


def matrix_power(x: Tensor, n: int, /) -> Tensor:
    """`n` of each matrix multiplied; inverses where it is negative."""
    return pf.linalg.matrix_power(x, n)


def matrix_rank(x: Tensor, /, *, rtol: float | Tensor | None = None) -> Tensor:
    """How many singular values are above `rtol` of the largest."""
    return pf.linalg.matrix_rank(x, rtol=rtol)


def outer(x1: Tensor, x2: Tensor, /) -> Tensor:
    """All products of elements of two vectors."""
    return pf.outer(*common(x1, x2))


def pinv(x: Tensor, /, *, rtol: float | Tensor | None = None) -> Tensor:
    """Pseudoinverses, for which singular values below `rtol` of the largest are zeros."""
    return pf.linalg.pinv(x, rtol=rtol)


def qr(x: Tensor, /, *, mode: str = "reduced") -> Any:
    """(Q, R): orthogonal and triangular factors."""
    return pf.linalg.qr(x, mode)


def solve(x1: Tensor, x2: Tensor, /) -> Tensor:
    """Solutions of linear equations; `x2` is one vector, or a stack of matrices."""
    a, b = common(x1, x2)
    if b.ndim == 1:
        return pf.linalg.solve(a, b.unsqueeze(-1)).squeeze(-1)
    if a.ndim > b.ndim:  # else PyTorch may take matrices for a stack of vectors
        b = b.reshape((1,) * (a.ndim - b.ndim) + b.shape)
    return pf.linalg.solve(a, b)


def svd(x: Tensor, /, *, full_matrices: bool = True) -> Any:
    """(U, S, Vh): singular vectors and values."""
    return pf.linalg.svd(x, full_matrices=full_matrices)


def trace(x: Tensor, /, *, offset: int = 0, dtype: _DType | None = None) -> Tensor:
    """Sums of diagonals, in the dtype of `sum`."""
    return pf.linalg.diagonal(x, offset=offset).sum(-1, dtype=dtype or dtype_of_sums(x))


def vector_norm(
    x: Tensor, /, *, axis: int | tuple[int, ...] | None = None, keepdims: bool = False,
    ord: float = 2,
) -> Tensor:  # fmt: skip
    """Norms of vectors along an axis, or of all elements of some."""
    if axis == ():
        return pf.linalg.vector_norm(x.unsqueeze(0), ord, 0)
    return pf.linalg.vector_norm(x, ord, axis, keepdim=keepdims)
