"""Matrix products."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from pyframe import dtypes as dt
from pyframe.ops import bound_routines, movement as mv
from pyframe.ops.elementwise import broadcast, mul
from pyframe.ops.op import ROUTINE, Op, Shader, apply
from pyframe.ops.public import public
from pyframe.tensor import Tensor


def _infer(a: Any, b: Any) -> tuple[tuple[int, ...], dt.dtype]:
    if a.dtype is not b.dtype:
        raise RuntimeError(
            f"matmul: expected both operands to have the same dtype, but got {a.dtype.name} and "
            f"{b.dtype.name}; convert one with .to(dtype)"
        )
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
    if a.dtype == np.bool_:
        raise RuntimeError("matmul: not implemented for bool")
    if a.dtype == np.float16:  # accumulate in float32
        return np.matmul(a.astype(np.float32), b.astype(np.float32)).astype(np.float16)
    return np.matmul(a, b)


def _plan(out: tuple[int, ...], shapes: Any) -> tuple[dict[str, int], tuple[int, int, int]]:
    """TX x TY threads compute 4 x 4 results each: as many as the matrix has work for."""
    batch, m, n, k = math.prod(out[:-2]), out[-2], out[-1], shapes[0][-1]
    ty = min(16, _power_of_two(-(-m // 4)))
    tx = min(16 if ty > 8 else 32, _power_of_two(-(-n // 4)))
    grid = (-(-n // (4 * tx)), -(-m // (4 * ty)), batch)
    return {"M": m, "N": n, "K": k, "TX": tx, "TY": ty}, grid


def _power_of_two(n: int) -> int:
    return 1 << (n - 1).bit_length()


matmul_op = Op(
    "matmul", ROUTINE, "a b", infer=_infer, numpy=_numpy, kernel=Shader("matmul.wgsl", _plan),
    phases=bound_routines.matmul,
    a=lambda g, b: matmul(g, mv.transpose(b, -1, -2)),
    b=lambda g, a: matmul(mv.transpose(a, -1, -2), g),
)  # fmt: skip


# x (n, i), w (o, i) -> (n, o): matmul(x, w.T) whose gradient of w is no transposed view
linear_op = Op(
    "linear", ROUTINE, "x w", infer=lambda x, w: ((x.shape[0], w.shape[0]), x.dtype),
    fallback=lambda x, w: matmul(x, mv.transpose(w, 0, 1)),
    x=lambda g, w: matmul(g, w), w=lambda g, x: matmul(mv.transpose(g, 0, 1), x),
)  # fmt: skip


def linear(x: Tensor, w: Tensor) -> Tensor:
    """(*, in) and (out, in) -> (*, out)."""
    lead = x._node.shape[:-1]
    flat = x if len(lead) == 1 else x.reshape(math.prod(lead), x._node.shape[-1])
    out = apply(linear_op, (flat, w))
    return out if len(lead) == 1 else out.reshape((*lead, w._node.shape[0]))


def matmul(input: Tensor, other: Tensor) -> Tensor:
    """The matrix product, batched and broadcast over leading dims; vectors as in torch.matmul."""
    for x in (input, other):
        if not isinstance(x, Tensor):
            raise TypeError(f"matmul: expected Tensors, got {type(x).__name__}")
    if input.ndim == 0 or other.ndim == 0:
        raise RuntimeError(
            "both arguments to matmul need to be at least 1D, but they are "
            f"{input.ndim}D and {other.ndim}D"
        )
    a = mv.unsqueeze(input, 0) if input.ndim == 1 else input
    b = mv.unsqueeze(other, 1) if other.ndim == 1 else other
    if a.ndim > 2 and b.ndim == 2:  # one large product instead of a batch of small ones
        lead = a._node.shape[:-1]
        out = _product(a.reshape(math.prod(lead), a._node.shape[-1]), b)
        out = out.reshape((*lead, b._node.shape[-1]))
    else:
        out = _product(a, b)
    if other.ndim == 1:
        out = mv.squeeze(out, -1)
    return mv.squeeze(out, -1 if other.ndim == 1 else -2) if input.ndim == 1 else out


def _product(a: Tensor, b: Tensor) -> Tensor:
    if not a.device.always_lazy:
        return apply(matmul_op, (a, b))
    shape, _ = _infer(a._node, b._node)  # the kernel takes one batch dim: views make it so
    return apply(matmul_op, (_as_batch(a, shape[:-2]), _as_batch(b, shape[:-2]))).reshape(shape)


def _as_batch(x: Tensor, batch: tuple[int, ...]) -> Tensor:
    last = x._node.shape[-2:]
    return mv.expand(x, (*batch, *last)).reshape((math.prod(batch), *last))


def mm(input: Tensor, mat2: Tensor) -> Tensor:
    """The product of two matrices."""
    if input.ndim != 2 or mat2.ndim != 2:
        raise RuntimeError(f"mm: expected two matrices, got {input.ndim}-d and {mat2.ndim}-d")
    return matmul(input, mat2)


def bmm(input: Tensor, mat2: Tensor) -> Tensor:
    """The products of two batches of matrices of equal length."""
    if input.ndim != 3 or mat2.ndim != 3 or input.shape[0] != mat2.shape[0]:
        raise RuntimeError(
            "bmm: expected two batches of matrices of equal length, got "
            f"{list(input.shape)} and {list(mat2.shape)}"
        )
    return matmul(input, mat2)


def mv_(input: Tensor, vec: Tensor) -> Tensor:
    """The product of a matrix and a vector."""
    if input.ndim != 2 or vec.ndim != 1:
        raise RuntimeError(f"mv: expected a matrix and a vector, got {input.ndim}-d, {vec.ndim}-d")
    return matmul(input, vec)


def dot(input: Tensor, tensor: Tensor) -> Tensor:
    """The inner product of two vectors of equal length."""
    if input.ndim != 1 or tensor.ndim != 1 or input.shape != tensor.shape:
        raise RuntimeError(
            "dot: expected two 1-d tensors of equal length, got "
            f"{list(input.shape)} and {list(tensor.shape)}"
        )
    return mul(input, tensor).sum()


def outer(input: Tensor, vec2: Tensor) -> Tensor:
    """The outer product of two vectors."""
    if input.ndim != 1 or vec2.ndim != 1:
        raise RuntimeError(f"outer: expected 1-d tensors, got {input.ndim}-d and {vec2.ndim}-d")
    return mul(mv.unsqueeze(input, 1), vec2)


def addmm(input: Tensor, mat1: Tensor, mat2: Tensor, *, beta: Any = 1, alpha: Any = 1) -> Tensor:
    """beta * input + alpha * mat1 @ mat2."""
    product = mm(mat1, mat2)
    product = product if alpha == 1 else product * alpha
    return product + (input if beta == 1 else input * beta)


PUBLIC = public(globals(), both="matmul mm bmm mv=mv_ dot outer addmm")
