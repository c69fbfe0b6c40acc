"""Products of matrices and of vectors; sums of them, cross products, and what is made of pairs.

Everything but the two routines is a composition, so gradients and the GPU come by themselves.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from pyframe.codegen.numpy import routines
from pyframe.core import dtypes as dt
from pyframe.core.dispatch import apply, runs_kernel
from pyframe.core.limits import Limits
from pyframe.core.op import EXTERN, Op
from pyframe.core.sizes import is_symbolic_size
from pyframe.ops.api import check
from pyframe.ops.api.batching_rules import BatchedCall
from pyframe.ops.api.public import public
from pyframe.ops.index.select import index_select
from pyframe.ops.math import elementwise as el, promotion
from pyframe.ops.math.complex import adjoint, conj, imag, real, view_as_complex, view_as_real
from pyframe.ops.math.elementwise import mul
from pyframe.ops.math.promotion import broadcast
from pyframe.ops.reduce.reductions import sum_op
from pyframe.ops.shape import arrange, join, movement as mv
from pyframe.tensor import Tensor, normalize_dim, upload

# Columns that one thread of the GPU's kernel multiplies: see wgsl.reduction.ROUNDS
MAX_THREAD_COLUMNS = 1 << 14


def _infer(a: Any, b: Any) -> tuple[tuple[int, ...], dt.dtype]:
    if a.dtype is not b.dtype:
        raise RuntimeError(
            f"matmul: expected both operands to have the same dtype, but got {a.dtype.name} and "
            f"{b.dtype.name}; convert one with .to(dtype)"
        )
    if a.dtype is dt.bool_:
        raise NotImplementedError("matmul: not implemented for bool; use .int() first")
    if a.shape[-1] != b.shape[-2]:
        raise RuntimeError(
            f"matmul: mat1 and mat2 shapes cannot be multiplied ({_by(a)} and {_by(b)}): the last "
            f"dim of {list(a.shape)} must equal dim -2 of {list(b.shape)}"
        )
    batch = broadcast("matmul (batch dims)", a.shape[:-2], b.shape[:-2])
    return (*batch, a.shape[-2], b.shape[-1]), a.dtype


def _by(x: Any) -> str:
    return "x".join(str(n) for n in x.shape[-2:])


def _numpy(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    if a.dtype == np.float16:  # accumulate in float32
        return np.matmul(a.astype(np.float32), b.astype(np.float32)).astype(np.float16)
    if a.shape[-1] == 1:  # outer products: NumPy's matmul takes two to four times as long
        return np.multiply(a, b)
    return np.matmul(a, b)


def _product_batched(c: BatchedCall, a: Tensor, b: Tensor) -> Tensor:
    if c.flags[1] or max(len(n.shape) for n in c.nodes) > 2:
        a, b = c._replace(xs=[a, b]).aligned()
    return matmul(a, b)  # else the rows of all examples are one matrix


def _flops(shapes: Sequence[tuple[int, ...]], out: tuple[int, ...]) -> int:
    return 2 * math.prod(out) * shapes[0][-1]


matmul_op = Op(
    "matmul", EXTERN, "a b", infer=_infer, numpy=_numpy, kernel="product",
    fallback=lambda a, b: _by_definition(a, b),
    lower_extern=routines.matmul, routine="gemm.matmul",
    a=lambda g, b: matmul(g, adjoint(b)), b=lambda g, a: matmul(adjoint(a), g),
    batch=lambda c: _product_batched(c, *c.xs), flops=_flops,
)  # fmt: skip


# x (n, i), w (o, i) -> (n, o): matmul(x, w.T) whose gradient of w is no transposed view
linear_op = Op(
    "linear", EXTERN, "x w", infer=lambda x, w: ((x.shape[0], w.shape[0]), x.dtype),
    fallback=lambda x, w: matmul(x, mv.transpose(w, 0, 1)),
    x=lambda g, w: matmul(g, conj(w)), w=lambda g, x: matmul(mv.transpose(g, 0, 1), conj(x)),
    batch=lambda c: _product_batched(c, c.xs[0], mv.transpose(c.xs[1], -1, -2)), flops=_flops,
)  # fmt: skip


def linear(x: Tensor, w: Tensor) -> Tensor:
    """(*, in) and (out, in) -> (*, out)."""
    lead = x.shape[:-1]
    flat = x if len(lead) == 1 else x.reshape(math.prod(lead), x.shape[-1])
    out = apply(linear_op, (flat, w))
    return out if len(lead) == 1 else out.reshape((*lead, w.shape[0]))


def matmul(input: Tensor, other: Tensor) -> Tensor:
    """The matrix product, batched and broadcast over leading dims; vectors as in torch.matmul."""
    check.tensors("matmul", input, other)
    if input.ndim == 0 or other.ndim == 0:
        raise RuntimeError(
            "both arguments to matmul need to be at least 1D, but they are "
            f"{input.ndim}D and {other.ndim}D"
        )
    a = mv.unsqueeze(input, 0) if input.ndim == 1 else input
    b = mv.unsqueeze(other, 1) if other.ndim == 1 else other
    if a.ndim > 2 and b.ndim == 2:  # one large product instead of a batch of small ones
        lead = a.shape[:-1]
        out = _product(a.reshape(math.prod(lead), a.shape[-1]), b)
        out = out.reshape((*lead, b.shape[-1]))
    else:
        out = _product(a, b)
    if other.ndim == 1:
        out = mv.squeeze(out, -1)
    return mv.squeeze(out, -1 if other.ndim == 1 else -2) if input.ndim == 1 else out


def _by_definition(a: Tensor, b: Tensor) -> Tensor:
    if a.dtype.category == dt.COMPLEX:
        return _of_parts(a, b)
    return (mv.unsqueeze(a, -1) * mv.unsqueeze(b, -3)).sum(-2).to(a.dtype)


def _of_parts(a: Tensor, b: Tensor) -> Tensor:
    """A product of complex matrices as one of real matrices of twice the sizes, in which each
    number of b is ((re, im), (-im, re))."""
    x, y = real(b), imag(b)
    rows = join.stack([join.stack([x, y], -1), join.stack([-y, x], -1)], -3)
    rows = rows.reshape((*b.shape[:-2], 2 * b.shape[-2], 2 * b.shape[-1]))
    out = matmul(view_as_real(a).reshape((*a.shape[:-1], 2 * a.shape[-1])), rows)
    return view_as_complex(out.reshape((*out.shape[:-1], b.shape[-1], 2)))


def _product(a: Tensor, b: Tensor) -> Tensor:
    if not runs_kernel(matmul_op, a.device, a.dtype):
        return apply(matmul_op, (a, b))
    shape, _ = _infer(a._node, b._node)  # the kernel takes one batch dim: views make it so
    a, b = _as_batch(a, shape[:-2]), _as_batch(b, shape[:-2])
    return apply(matmul_op, (a, b)).reshape(shape)


def _in_parts(limits: Limits, a: Tensor, b: Tensor) -> Tensor | None:
    """A product cut along its shared dim, if that is better: the parts are side by side, then added
    up, in float32."""
    from pyframe.codegen.wgsl.products import parts  # what runs on the CPU alone loads no WGSL

    (batch, m, k), n = a.shape, b.shape[-1]
    some = 1 if is_symbolic_size(k) else parts(m, n, k, batch, limits)
    some = max(some, 1 if k <= MAX_THREAD_COLUMNS else -(-k // MAX_THREAD_COLUMNS))
    if some == 1:
        return None
    each = -(-k // some)
    more = some * each - k
    dtype = a.dtype
    if dtype.itemsize == 2 and dtype.category == dt.FLOAT:
        a, b = a.to(dt.float32), b.to(dt.float32)
    a = mv.pad(a, ((0, 0), (0, 0), (0, more))).reshape(batch, m, some, each)
    b = mv.pad(b, ((0, 0), (0, more), (0, 0))).reshape(batch * some, each, n)
    a = mv.transpose(a, 1, 2).reshape(batch * some, m, each)
    out = apply(matmul_op, (a, b)).reshape(batch, some, m, n)
    return sum_over(out, 1).to(dtype)


matmul_op.lowering = _in_parts


def _as_batch(x: Tensor, batch: tuple[int, ...]) -> Tensor:
    last = x.shape[-2:]
    return mv.expand(x, (*batch, *last)).reshape((math.prod(batch), *last))


def expect_ndims(name: str, what: str, *pairs: tuple[Tensor, int]) -> None:
    if any(x.ndim != n for x, n in pairs):
        raise RuntimeError(f"{name}: expected {what}, got {shapes_text(*[x for x, _ in pairs])}")


def shapes_text(*xs: Tensor) -> str:
    return " and ".join(str(list(x.shape)) for x in xs)


def mm(input: Tensor, mat2: Tensor) -> Tensor:
    """The product of two matrices."""
    check.same_dtype("mm", input, mat2)
    expect_ndims("mm", "two matrices", (input, 2), (mat2, 2))
    return matmul(input, mat2)


def bmm(input: Tensor, mat2: Tensor) -> Tensor:
    """The products of two batches of matrices of equal length."""
    check.same_dtype("bmm", input, mat2)
    expect_ndims("bmm", "two batches of matrices", (input, 3), (mat2, 3))
    if input.shape[0] != mat2.shape[0]:
        raise RuntimeError(f"bmm: expected batches of equal length, got {shapes_text(input, mat2)}")
    return matmul(input, mat2)


def mv_(input: Tensor, vec: Tensor) -> Tensor:
    """The product of a matrix and a vector."""
    check.same_dtype("mv", input, vec)
    expect_ndims("mv", "a matrix and a vector", (input, 2), (vec, 1))
    return matmul(input, vec)


def sum_over(x: Tensor, *dims: int) -> Tensor:
    """The sum over dims in the dtype of `x`."""
    axes = tuple(sorted(normalize_dim(d, x.ndim) for d in dims))
    return apply(sum_op, (x,), (axes, False)) if axes else x


def dot(input: Tensor, tensor: Tensor) -> Tensor:
    """The inner product of two vectors of equal length, without conjugation."""
    check.same_dtype("dot", input, tensor)
    if input.ndim != 1 or tensor.ndim != 1 or input.shape != tensor.shape:
        raise RuntimeError(
            f"dot: expected two 1-d tensors of equal length, got {shapes_text(input, tensor)}"
        )
    if input.dtype is dt.bool_:
        raise NotImplementedError("dot: not implemented for bool; use logical_and and any")
    return sum_over(mul(input, tensor), 0)


def vdot(input: Tensor, other: Tensor) -> Tensor:
    """`dot` with the first vector conjugated."""
    check.same_dtype("vdot", input, other)
    return dot(conj(input), other)


def vecdot(x: Tensor, y: Tensor, *, dim: int = -1) -> Tensor:
    """The sums over `dim` of conj(x) * y, broadcast."""
    check.same_dtype("linalg.vecdot", x, y)
    shape = broadcast("linalg.vecdot", x.shape, y.shape)
    d = normalize_dim(dim, len(shape)) - len(shape)
    if x.shape[d] != y.shape[d]:
        raise RuntimeError(
            f"linalg.vecdot: expected equal sizes at dim {dim}, got {shapes_text(x, y)}"
        )
    if x.dtype is dt.bool_:
        raise NotImplementedError("linalg.vecdot: not implemented for bool; use .int() first")
    return sum_over(mul(conj(x), y), d)


def outer(input: Tensor, vec2: Tensor) -> Tensor:
    """The outer product of two vectors."""
    if input.ndim != 1 or vec2.ndim != 1:
        raise RuntimeError(f"outer: expected 1-d tensors, got {input.ndim}-d and {vec2.ndim}-d")
    return mul(mv.unsqueeze(input, 1), vec2)


def _scaled_sum(input: Tensor, product: Tensor, beta: Any, alpha: Any) -> Tensor:
    """beta * input + alpha * product; with beta = 0 what `input` holds (NaN too) has no effect."""
    if product.dtype.category < dt.FLOAT:
        beta, alpha = int(beta), int(alpha)  # cut, as PyTorch does
    input = mv.expand(input, product.shape)
    if not el.is_one(alpha):
        product = product * el.fitted(alpha, product.dtype)
    if not isinstance(beta, Tensor) and beta == 0:
        return product + zeros_of(input) if input.requires_grad else product
    return product + (input if el.is_one(beta) else input * el.fitted(beta, product.dtype))


def zeros_of(x: Tensor) -> Tensor:
    """Zeros, whatever `x` holds, of which `x` is an input (with the gradient 0)."""
    return el.where(upload(np.array(False), x.device), x, 0)


def addmm(input: Tensor, mat1: Tensor, mat2: Tensor, *, beta: Any = 1, alpha: Any = 1) -> Tensor:
    """beta * input + alpha * mat1 @ mat2."""
    check.same_dtype("addmm", input, mat1, mat2)
    return _scaled_sum(input, mm(mat1, mat2), beta, alpha)


def addmv(input: Tensor, mat: Tensor, vec: Tensor, *, beta: Any = 1, alpha: Any = 1) -> Tensor:
    """beta * input + alpha * mat @ vec."""
    check.same_dtype("addmv", input, mat, vec)
    return _scaled_sum(input, mv_(mat, vec), beta, alpha)


def addr(input: Tensor, vec1: Tensor, vec2: Tensor, *, beta: Any = 1, alpha: Any = 1) -> Tensor:
    """beta * input + alpha * outer(vec1, vec2), promoted; of bools with `and` and `or`."""
    common = promotion.result_type(input, vec1, vec2)
    for key, value in (("beta", beta), ("alpha", alpha)):
        el.check_factor("addr", key, value, input, vec1, vec2)
    input, product = input.to(common), outer(vec1.to(common), vec2.to(common))
    if common is not dt.bool_:
        return _scaled_sum(input, product, beta, alpha)
    input = mv.expand(input, product.shape)
    product = product if alpha else el.logical_and(product, False)
    return el.logical_or(input, product) if beta else product


def addbmm(
    input: Tensor, batch1: Tensor, batch2: Tensor, *, beta: Any = 1, alpha: Any = 1
) -> Tensor:
    """beta * input + alpha * the sum over the batch of batch1[i] @ batch2[i]: one product."""
    _batches("addbmm", input, batch1, batch2)
    b, n, m = batch1.shape
    wide = mv.transpose(batch1, 0, 1).reshape(n, b * m)
    product = matmul(wide, batch2.reshape(b * m, batch2.shape[2]))
    return _scaled_sum(input, product, beta, alpha)


def addbmm_(
    self: Tensor, batch1: Tensor, batch2: Tensor, *, beta: Any = 1, alpha: Any = 1
) -> Tensor:
    """In-place `addbmm`; a tensor that was broadcast takes the shape of the result."""
    out = addbmm(self, batch1, batch2, beta=beta, alpha=alpha)
    if out.shape != self.shape:
        self.data = out.detach().clone()
    return self._write(out)


def baddbmm(
    input: Tensor, batch1: Tensor, batch2: Tensor, *, beta: Any = 1, alpha: Any = 1
) -> Tensor:
    """beta * input + alpha * bmm(batch1, batch2)."""
    _batches("baddbmm", input, batch1, batch2)
    return _scaled_sum(input, matmul(batch1, batch2), beta, alpha)


def _batches(name: str, input: Tensor, a: Tensor, b: Tensor) -> None:
    check.same_dtype(name, input, a, b)
    expect_ndims(name, "two batches of matrices", (a, 3), (b, 3))
    if a.shape[0] != b.shape[0] or a.shape[2] != b.shape[1]:
        raise RuntimeError(
            f"{name}: Expected size for first two dimensions of batch2 tensor to be: "
            f"[{a.shape[0]}, {a.shape[2]}] but got: [{b.shape[0]}, {b.shape[1]}]."
        )


def trace(input: Tensor) -> Tensor:
    """The sum of a matrix's diagonal."""
    if input.ndim != 2:
        raise RuntimeError(f"trace: expected a matrix, but got tensor with dim {input.ndim}")
    if input.dtype is dt.bool_:
        raise NotImplementedError("trace: not implemented for bool; use .int() first")
    return mv.diagonal(input).sum()


def kron(input: Tensor, other: Tensor) -> Tensor:
    """Kronecker's product: (a0, a1, …) and (b0, b1, …) -> (a0 b0, a1 b1, …)."""
    n = max(input.ndim, other.ndim)
    a = (1,) * (n - input.ndim) + input.shape
    b = (1,) * (n - other.ndim) + other.shape
    wide = mul(
        input.reshape(tuple(m for size in a for m in (size, 1))),
        other.reshape(tuple(m for size in b for m in (1, size))),
    )
    return wide.reshape(tuple(i * j for i, j in zip(a, b, strict=True)))


def cross(input: Tensor, other: Tensor, dim: int | None = None) -> Tensor:
    """Cross products along `dim` (by default the first of size 3), broadcast."""
    if dim is None:
        if input.shape != other.shape:
            broadcast("cross", input.shape, other.shape)
        if 3 not in input.shape:
            raise RuntimeError(f"cross: no dimension of size 3 in input, got {list(input.shape)}")
        dim = input.shape.index(3)
    return linalg_cross(input, other, dim=dim)


def linalg_cross(input: Tensor, other: Tensor, *, dim: int = -1) -> Tensor:
    """Cross products along `dim`, of size 3 in both, broadcast over the others."""
    if input.ndim != other.ndim:
        raise RuntimeError(
            "linalg.cross: inputs must have the same number of dimensions, got "
            f"{shapes_text(input, other)}"
        )
    check.same_dtype("linalg.cross", input, other)
    d = normalize_dim(dim, input.ndim)
    if input.ndim == 0 or input.shape[d] != 3 or other.shape[d] != 3:
        raise RuntimeError(
            f"linalg.cross: inputs dimension {dim} must have length 3. Got "
            f"{shapes_text(input, other)}"
        )
    (a2, a1), (b2, b1) = ([arrange.roll(x, k, d) for k in (1, 2)] for x in (input, other))
    return mul(a1, b2) - mul(a2, b1)


def block_diag(*tensors: Tensor) -> Tensor:
    """Matrices (or vectors, as rows) along the diagonal of one; zeros elsewhere."""
    xs = mv.given_tensors("block_diag", tensors)
    if not xs:
        raise RuntimeError("block_diag: expected at least one tensor")
    for i, x in enumerate(xs):
        if x.ndim > 2:
            raise RuntimeError(
                "torch.block_diag: Input tensors must have 2 or fewer dimensions. "
                f"Input {i} has {x.ndim} dimensions"
            )
        xs[i] = x.reshape((1,) * (2 - x.ndim) + x.shape)
    width = sum(x.shape[1] for x in xs)
    rows, at = [], 0
    for x in xs:
        n = x.shape[1]
        rows.append(mv.pad(x, ((0, 0), (at, width - at - n))))
        at += n
    return join.cat(rows, 0)


def cartesian_prod(*tensors: Tensor) -> Tensor:
    """All combinations of one element from each vector: (n0 n1 …, number of vectors)."""
    xs = mv.given_tensors("cartesian_prod", tensors)
    for x in xs:
        if x.ndim != 1:
            raise RuntimeError(f"cartesian_prod: Expect a 1D vector, but got shape {list(x.shape)}")
    if len(xs) == 1:
        return xs[0]
    return join.stack([mv.ravel(x) for x in arrange.meshgrid(*xs)], 1)


def combinations(input: Tensor, r: int = 2, with_replacement: bool = False) -> Tensor:
    """All subsets of `r` elements of a vector, in order: (number of subsets, r)."""
    if input.ndim != 1:
        raise RuntimeError(f"combinations: Expect a 1D vector, but got shape {list(input.shape)}")
    if r < 0:
        raise RuntimeError(f"combinations: Expect a non-negative number, but got {r}")
    if r == 0:
        return mv.nothing_of(input, (0,))
    pick = itertools.combinations_with_replacement if with_replacement else itertools.combinations
    rows = np.array(list(pick(range(input.shape[0]), r)), np.int64).reshape(-1, r)
    index = upload(rows.reshape(-1), input.device)
    return index_select(input, 0, index).reshape(rows.shape)


public(
    globals(), both="matmul mm bmm mv=mv_ dot vdot outer ger=outer addbmm kron cross trace",
    inplace="addmm addr baddbmm", inplace_functions="addmv", methods="addbmm_",
    functions="block_diag cartesian_prod combinations spmm=mm",
    out_exact="addbmm addmm addmv baddbmm bmm cross matmul mm mv", out_apart="cross",
    lower="matmul mm bmm addmm addbmm baddbmm vecdot", gpu_lower="mv_ addmv addr",
    cpu_float32="trace", gpu_widest="dot vdot cross linalg_cross",
)  # fmt: skip
