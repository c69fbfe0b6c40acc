"""Determinants, powers and the exponential of matrices; norms. See `factor` and `spectral`."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from pyframe.core import dtypes as dt
from pyframe.core.dispatch import apply, results_of
from pyframe.core.op import EXTERN, Op
from pyframe.ops.api import check
from pyframe.ops.api.batching_rules import aligned
from pyframe.ops.api.public import public
from pyframe.ops.api.results import Slogdet
from pyframe.ops.linalg import matrices
from pyframe.ops.linalg.factor import inv, inv_ex, inverse_of, solve, solve_any
from pyframe.ops.linalg.matmul import matmul, sum_over, zeros_of
from pyframe.ops.linalg.matrices import Array, eye_like, float_matrix
from pyframe.ops.linalg.spectral import svdvals
from pyframe.ops.math import elementwise as el, promotion
from pyframe.ops.math.complex import adjoint, conj, imag, real
from pyframe.ops.random.creation import ones_like
from pyframe.ops.reduce import norms, reductions as reduce
from pyframe.ops.reduce.scan import cumprod
from pyframe.ops.shape import join, movement as mv
from pyframe.tensor import Tensor, normalize_dim

# --- determinants


def _np_cofactors(a: Array) -> Array:
    """det(A)^* A^-H, in double precision; of a (nearly) singular A from singular values."""
    wide = a.astype(np.complex128 if a.dtype.kind == "c" else np.float64)
    try:
        inverse = np.linalg.inv(wide)
        condition = np.linalg.norm(wide, axis=(-2, -1)) * np.linalg.norm(inverse, axis=(-2, -1))
        if (condition < 1e8).all():
            out = np.conjugate(np.linalg.det(wide))[..., None, None] * matrices.np_adjoint(inverse)
            return out.astype(a.dtype)
    except np.linalg.LinAlgError:
        pass
    u, s, vh = np.linalg.svd(wide)
    left, right = np.ones_like(s), np.ones_like(s)
    left[..., 1:] = np.cumprod(s[..., :-1], -1)
    right[..., :-1] = np.cumprod(s[..., :0:-1], -1)[..., ::-1]
    phase = np.conjugate(np.linalg.det(u) * np.linalg.det(vh))[..., None, None]
    out = phase * ((u * (left * right)[..., None, :]) @ vh)
    return out.astype(a.dtype)


def _cofactors_grad(g: Tensor, y: Tensor, a: Tensor) -> Tensor:
    """Of det(A)^* A^-H, for an invertible A."""
    total = sum_over(conj(g) * y, -2, -1)
    top = columns(total) * y - matmul(matmul(y, adjoint(g)), y)
    return top / columns(conj(apply(det_op, (a,))))


def columns(x: Tensor) -> Tensor:
    """(…) -> (…, 1, 1), to multiply matrices with."""
    return x.reshape((*x.shape, 1, 1))


cofactors_op = Op(
    "linalg_cofactors", EXTERN, "a", infer=lambda a: (a.shape, a.dtype), numpy=_np_cofactors,
    batch=aligned, a=_cofactors_grad,
)  # fmt: skip
det_op = Op(
    "linalg_det", EXTERN, "a", infer=lambda a: (a.shape[:-2], a.dtype), numpy=np.linalg.det,
    batch=aligned, a=lambda g, a: columns(g) * apply(cofactors_op, (a,)),
)  # fmt: skip


def _slogdet_grad(g: tuple[Tensor, ...], y: tuple[Tensor, ...], a: Tensor) -> Tensor:
    (gsign, glog), (sign, _) = g, y
    scale = glog
    if sign.is_complex():
        scale = real(glog) + imag(gsign * conj(sign)) * 1j
    return columns(scale) * solve_any(adjoint(a), eye_like(a, a.shape[-1]))


slogdet_op = Op(
    "linalg_slogdet", EXTERN, "a", numpy=np.linalg.slogdet, batch=matrices.batched_results,
    results=lambda a: (a[:-2], a[:-2]), a=_slogdet_grad,
)  # fmt: skip


def det(A: Tensor) -> Tensor:
    """The determinants of matrices (…, n, n). On the GPU the host computes them.

    The second derivative needs an invertible A."""
    float_matrix("linalg.det", A, True)
    return apply(det_op, (A,))


def slogdet(A: Tensor) -> Slogdet:
    """The sign of the determinant (for complex A a number on the unit circle) and the log of its
    absolute value. On the GPU the host computes them."""
    float_matrix("linalg.slogdet", A, True)
    sign, log = results_of(slogdet_op, (A,))
    return Slogdet(sign, real(log))


def logdet(input: Tensor) -> Tensor:
    """The log of the determinant: nan where that is negative."""
    sign, log = slogdet(input)
    if sign.is_complex():
        return log + el.log(sign)
    return el.where(el.lt(sign, 0), math.nan, log)


# --- powers and inverses of maps


def tensorinv(A: Tensor, ind: int = 2) -> Tensor:
    """The inverse of the linear map that `tensordot(A, ·, A.ndim - ind)` is."""
    if ind <= 0:
        raise RuntimeError(
            f"linalg.tensorinv: Expected a strictly positive integer for 'ind', got {ind}"
        )
    first, last = A.shape[:ind], A.shape[ind:]
    if math.prod(first) != math.prod(last):
        raise RuntimeError(
            "linalg.tensorinv: Expected self to satisfy the requirement prod(self.shape[ind:]) == "
            f"prod(self.shape[:ind]), but got {math.prod(last)} != {math.prod(first)}"
        )
    square = A.reshape(math.prod(first), math.prod(last))
    return inverse_of("linalg.inv", square, "linalg.inv")[0].reshape((*last, *first))


def tensorsolve(A: Tensor, B: Tensor, dims: Any = None) -> Tensor:
    """X with tensordot(A, X, X.ndim) = B; `dims` of A are moved to its end first."""
    if dims is not None:
        A = mv.movedim(A, tuple(dims), tuple(range(A.ndim - len(dims), A.ndim)))
    shape = A.shape[B.ndim :]
    n, m = math.prod(shape), math.prod(A.shape[: B.ndim])
    if n != m or m != B.numel():
        raise RuntimeError(
            "linalg.tensorsolve: Expected self to satisfy the requirement "
            "prod(self.shape[other.ndim:]) == prod(self.shape[:other.ndim]), but got "
            f"{n} != {m} for {list(A.shape)} and {list(B.shape)}"
        )
    return solve(A.reshape(n, n), B.reshape(n)).reshape(shape)


def matrix_power(A: Tensor, n: int) -> Tensor:
    """A @ A @ … (n times); the inverse of that for a negative n."""
    if A.ndim < 2 or A.shape[-1] != A.shape[-2]:
        raise RuntimeError(
            f"linalg.matrix_power: A must be batches of square matrices, got {list(A.shape)}"
        )
    if n < 0:
        A, n = inv(A), -n
    if n == 0:
        return zeros_of(A) + eye_like(A, A.shape[-1])
    if n == 1:
        return A.clone()
    half = matrix_power(A, n // 2) if n > 3 else A
    square = matmul(half, half)
    return matmul(square, A) if n & 1 else square


# --- the exponential


def _np_matrix_exp(a: Array) -> Array:
    """Scaling and squaring with a Padé approximant: N. Higham, "The scaling and squaring method for
    the matrix exponential revisited" (2005), in double precision."""
    x = a.astype(np.complex128 if a.dtype.kind == "c" else np.float64)
    if not x.size:
        return x
    norm = np.abs(x).sum(-2).max(-1)
    sane = np.isfinite(norm) & (norm > _THETA)
    squarings = np.where(sane, np.ceil(np.log2(np.where(sane, norm, 1) / _THETA)), 0).astype(int)
    x = x / np.exp2(squarings)[..., None, None]
    eye, b = np.eye(x.shape[-1]), _PADE
    x2 = x @ x
    x4 = x2 @ x2
    x6 = x2 @ x4
    u = x6 @ (b[13] * x6 + b[11] * x4 + b[9] * x2) + b[7] * x6 + b[5] * x4 + b[3] * x2 + b[1] * eye
    v = x6 @ (b[12] * x6 + b[10] * x4 + b[8] * x2) + b[6] * x6 + b[4] * x4 + b[2] * x2 + b[0] * eye
    u = x @ u
    out: Array = np.full_like(x, np.nan)
    known = np.isfinite(norm)
    out[known] = np.linalg.solve((v - u)[known], (v + u)[known])
    for i in range(int(squarings.max())):
        more = squarings > i
        out[more] = out[more] @ out[more]
    return out


_THETA = 5.371920351148152
_PADE = (
    64764752532480000.0, 32382376266240000.0, 7771770303897600.0, 1187353796428800.0,
    129060195264000.0, 10559470521600.0, 670442572800.0, 33522128640.0, 1323241920.0, 40840800.0,
    960960.0, 16380.0, 182.0, 1.0,
)  # fmt: skip


def _matrix_exp_grad(g: Tensor, a: Tensor) -> Tensor:
    """The upper right block of exp([[A^H, G], [0, A^H]])."""
    n, ah = a.shape[-1], adjoint(a)
    top, bottom = join.cat([ah, g], -1), join.cat([ah * 0, ah], -1)
    whole = apply(matrix_exp_op, (join.cat([top, bottom], -2),))
    return mv.narrow(mv.narrow(whole, -2, 0, n), -1, n, n)


matrix_exp_op = Op(
    "matrix_exp", EXTERN, "a", infer=lambda a: (a.shape, a.dtype), numpy=_np_matrix_exp,
    batch=aligned, a=_matrix_exp_grad,
)  # fmt: skip


def matrix_exp(A: Tensor) -> Tensor:
    """The exponentials of matrices (…, n, n), in double precision inside. On the GPU the host
    computes them."""
    if A.dtype in (dt.float16, dt.bfloat16):
        return matrix_exp(A.float()).to(A.dtype)
    float_matrix("linalg.matrix_exp", A, True)
    return apply(matrix_exp_op, (A,))


# --- norms


def _to_dtype(name: str, x: Tensor, dtype: dt.dtype | None) -> Tensor:
    if dtype is None:
        return x
    if dtype.category != x.dtype.category:
        raise RuntimeError(
            f"{name}: dtype should be floating point for real and complex for complex inputs, got "
            f"{dtype.name} for {x.dtype.name}"
        )
    if dt.promote_types(x.dtype, dtype) is not dtype:
        raise RuntimeError(
            f"{name}: the dtype of the input ({x.dtype.name}) should be convertible without "
            f"narrowing to the specified dtype ({dtype.name})"
        )
    return x.to(dtype)


def vector_norm(
    x: Tensor, ord: Any = 2, dim: Any = None, keepdim: bool = False, *,
    dtype: dt.dtype | None = None,
) -> Tensor:  # fmt: skip
    """(sum of |x|^ord)^(1/ord) over dims (all by default); for ord inf, -inf and 0 the largest, the
    smallest and the number of nonzero elements. The gradient at 0 is 0."""
    return norms.vector_norm(_to_dtype("linalg.vector_norm", x, dtype), ord, dim, keepdim)


def matrix_norm(
    A: Tensor, ord: Any = "fro", dim: Any = (-2, -1), keepdim: bool = False, *,
    dtype: dt.dtype | None = None,
) -> Tensor:  # fmt: skip
    """A norm of matrices: 'fro', 'nuc' (the sum of the singular values), ±2 (the largest,
    smallest), ±1 and ±inf (the largest, smallest sum of a column, of a row). On the GPU the host
    computes the singular values."""
    name = "linalg.matrix_norm"
    if A.dtype not in (dt.float16, dt.bfloat16) or A.ndim < 2:
        float_matrix(name, A)
    if not isinstance(dim, (tuple, list)) or len(dim) != 2:
        raise RuntimeError(f"{name}: dim must be a 2-tuple. Got {dim}")
    a, b = (normalize_dim(d, A.ndim) for d in dim)
    if a == b:
        raise RuntimeError(f"{name}: dims must be different. Got ({dim[0]}, {dim[1]})")
    known = ord in ("fro", "nuc") if isinstance(ord, str) else abs(ord) in (1, 2, math.inf)
    if not known:
        raise RuntimeError(
            f"{name}: Order {ord} not supported; expected 'fro', 'nuc', inf, -inf, 1, -1, 2 or -2"
        )
    if ord == "fro":
        return vector_norm(A, 2, (a, b), keepdim, dtype=dtype)
    x = mv.movedim(_to_dtype(name, A, dtype), (a, b), (-2, -1))
    if ord == "nuc" or abs(ord) == 2:
        parts = svdvals(x)
    else:
        parts = reduce.sum(el.abs(x), -2 if abs(ord) == 1 else -1)
    if ord == "nuc" or (ord > 0 and not parts.shape[-1]):
        out = reduce.sum(parts, -1)
    else:
        out = (reduce.amax if ord > 0 else reduce.amin)(parts, -1)
    if keepdim:
        for d in sorted((a, b)):
            out = mv.unsqueeze(out, d)
    return out


def norm(
    A: Tensor, ord: Any = None, dim: Any = None, keepdim: bool = False, *,
    dtype: dt.dtype | None = None,
) -> Tensor:  # fmt: skip
    """`matrix_norm` where two dims are named or `ord` is given for a matrix, else `vector_norm`."""
    if dim is not None and not isinstance(dim, int):
        dim = tuple(dim)
        if ord is not None and len(dim) not in (1, 2):
            raise RuntimeError(
                "linalg.norm: If dim is specified, it must be of length 1 or 2. Got " + str(dim)
            )
    if ord is None:
        return vector_norm(A, 2, dim, keepdim, dtype=dtype)
    if dim is None:
        if A.ndim not in (1, 2):
            raise RuntimeError(
                "linalg.norm: If dim is not specified but ord is, the input must be 1D or 2D. "
                f"Got {A.ndim}D."
            )
        dim = tuple(range(A.ndim))
    if not isinstance(dim, int) and len(dim) == 2:
        return matrix_norm(A, ord, dim, keepdim, dtype=dtype)
    return vector_norm(A, ord, dim, keepdim, dtype=dtype)


def cond(A: Tensor, p: Any = None) -> Tensor:
    """The condition numbers |A| |A^-1| (inf where A is singular) in one of `matrix_norm`'s norms;
    by default the largest singular value by the smallest. On the GPU the host computes it."""
    name = "linalg.cond"
    if p is None or p in (2, -2):
        float_matrix(name, A)
        if 0 in A.shape[-2:]:
            return A.new_zeros(A.shape[:-2], dtype=A.dtype.to_real())
        s = svdvals(A)
        first, last = mv.select(s, -1, 0), mv.select(s, -1, -1)
        return last / first if p == -2 else first / last
    known = p in ("fro", "nuc") if isinstance(p, str) else p in (1, -1, math.inf, -math.inf)
    if not known:
        raise RuntimeError(
            f"{name} got an invalid norm type: {p}; expected 'fro', 'nuc', inf, -inf, 1, -1, 2 "
            "or -2"
        )
    float_matrix(name, A, True)
    if 0 in A.shape[-2:]:
        return A.new_zeros(A.shape[:-2], dtype=A.dtype.to_real())
    inverse, info = inv_ex(A)
    singular = el.ne(info, 0)
    inverse = el.where(columns(singular), 0, inverse)
    product = matrix_norm(A, p) * matrix_norm(inverse, p)
    return el.where(singular, math.inf, product)


def dist(input: Tensor, other: Tensor, p: Any = 2) -> Tensor:
    """The p-norm of input - other, broadcast."""
    return vector_norm(input - other, p)


def cdist(
    x1: Tensor, x2: Tensor, p: float = 2.0,
    compute_mode: str | None = "use_mm_for_euclid_dist_if_necessary",
) -> Tensor:  # fmt: skip
    """The p-norms of the differences of all rows: (…, P, M) and (…, R, M) -> (…, P, R). For p = 2,
    as `compute_mode` says, by a matrix product (by default for more than 25 rows)."""
    modes = {
        None: None, "use_mm_for_euclid_dist_if_necessary": None, "use_mm_for_euclid_dist": True,
        "donot_use_mm_for_euclid_dist": False,
    }  # fmt: skip
    if compute_mode not in modes:
        raise ValueError(f"{compute_mode} is not a valid value for compute_mode")
    for i, x in enumerate((x1, x2)):
        if x.ndim < 2:
            raise RuntimeError(f"cdist only supports at least 2D tensors, X{i + 1} got: {x.ndim}D")
        if x.dtype.category != dt.FLOAT:
            raise RuntimeError(
                f"cdist only supports floating-point dtypes, X{i + 1} got: {x.dtype.name}"
            )
    check.same_dtype("cdist", x1, x2)
    if x1.shape[-1] != x2.shape[-1]:
        raise RuntimeError(
            f"X1 and X2 must have the same number of columns. X1: {x1.shape[-1]} X2: {x2.shape[-1]}"
        )
    if p < 0:
        raise RuntimeError(f"cdist only supports non-negative p values, got {p}")
    promotion.broadcast("cdist", x1.shape[:-2], x2.shape[:-2])
    by_product = modes[compute_mode]
    if by_product is None:
        by_product = x1.shape[-2] > 25 or x2.shape[-2] > 25
    if p == 2 and by_product:
        inner = matmul(x1, mv.transpose(x2, -1, -2))
        squares = (x1 * x1).sum(-1, True) + mv.unsqueeze((x2 * x2).sum(-1), -2) - inner * 2.0
        return reduce.root(el.where(el.lt(squares, 0), 0.0, squares))
    apart = mv.unsqueeze(x1, -2) - mv.unsqueeze(x2, -3)
    if not x1.shape[-1]:
        return reduce.sum(apart, -1)
    return vector_norm(apart, p, -1)


# --- the rest


def linalg_diagonal(A: Tensor, *, offset: int = 0, dim1: int = -2, dim2: int = -1) -> Tensor:
    """A diagonal of matrices, as a view; by default of the last two dims."""
    return mv.diagonal(A, offset, dim1, dim2)


def linalg_vander(x: Tensor, N: int | None = None) -> Tensor:
    """(…, n) -> (…, n, N): the powers 0 to `N` - 1 of each element (N = n by default)."""
    n = N if N is not None else x.shape[-1] if x.ndim else 1
    if n <= 1:
        raise RuntimeError(f"linalg.vander: N must be greater than 1, got {n}")
    return _powers(x if x.ndim else x.reshape(1), n)


def _powers(x: Tensor, n: int) -> Tensor:
    x = x if x.dtype.category >= dt.FLOAT else x.to(dt.int64)
    x = mv.unsqueeze(x, -1)
    rest = cumprod(mv.expand(x, (*x.shape[:-1], n - 1)), -1)
    return join.cat([ones_like(x), rest], -1)


def vander(x: Tensor, N: int | None = None, increasing: bool = False) -> Tensor:
    """(n,) -> (n, N): powers as `linalg.vander`, from N - 1 down to 0 unless `increasing`."""
    if x.ndim != 1:
        raise RuntimeError(f"vander: x must be a one-dimensional tensor, got {list(x.shape)}")
    n = x.shape[0] if N is None else N
    if n < 0:
        raise RuntimeError(f"vander: N must be non-negative, got {n}")
    out = mv.narrow(_powers(x, max(n, 1)), -1, 0, n)
    return out if increasing else mv.flip(out, -1)


public(
    globals(), both="matrix_power det slogdet logdet matrix_exp dist", functions="cdist vander",
    lower="matrix_power", float32="cdist cond tensorinv tensorsolve",
    gpu_float32="dist norm vector_norm matrix_norm",
)  # fmt: skip
