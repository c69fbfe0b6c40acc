"""What decompositions of matrices share: several results in one vector, what is refused, diagonals.

An op has one result, so a decomposition gives all of its results one after the other in a flat
vector; `cut` takes them apart.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, TypeAlias

import numpy as np

from pyframe.core import dtypes as dt
from pyframe.core.dispatch import results_of
from pyframe.core.op import EXTERN, Op
from pyframe.ops.api import check
from pyframe.ops.api.batching_rules import BatchedCall
from pyframe.ops.index import masks
from pyframe.ops.math import elementwise as el, promotion
from pyframe.ops.math.complex import adjoint, real
from pyframe.ops.shape import join, movement as mv
from pyframe.tensor import Tensor

Shape: TypeAlias = tuple[int, ...]
Array: TypeAlias = np.ndarray


class LinAlgError(RuntimeError):
    """A matrix that a function cannot take for what its elements are: singular, or not definite.

    >>> try:
    ...     pf.linalg.inv(pf.zeros(2, 2))
    ... except pf.linalg.LinAlgError:
    ...     print("singular")
    singular
    """

    __module__ = "pyframe.linalg"


def of_matrix(
    name: str, shapes: Callable[[Shape, Any], tuple[Shape, ...]], numpy: Callable[..., Any],
    vjp: Callable[..., Tensor] | None = None, dtype: Callable[[dt.dtype], dt.dtype] | None = None,
) -> Op:  # fmt: skip
    """An op of one tensor with several results of `shapes(its shape, how)`: `numpy(a, how)` gives
    them, `vjp(gradients of the results, results, how)` the gradient of `a`."""

    def infer(a: Any, how: Any) -> tuple[Shape, dt.dtype]:
        size = sum(math.prod(s) for s in shapes(a.shape, how))
        return (size,), a.dtype if dtype is None else dtype(a.dtype)

    rules: Any = {} if vjp is None else {"a": lambda g, y, how: vjp(g, y, how)}
    return Op(
        name, EXTERN, "a", "how", infer=infer, numpy=numpy, results=shapes,
        batch=batched_results, **rules,
    )  # fmt: skip


def batched_results(c: BatchedCall) -> Tensor:
    """The batching rule of ops with several results that take leading dims: those of an example
    are wanted side by side."""
    parts = results_of(c.op, c.aligned(), c.attrs)
    return join.cat([mv.reshape(p, (c.size, math.prod(p.shape[1:]))) for p in parts], 1)


def integer(x: Tensor) -> Tensor:
    """Pivots and the like, which travel with the floats of a packed vector, as int32."""
    return real(x.detach()).to(dt.int32)


def main_diagonal(x: Tensor) -> Tensor:
    """(…, m, n) -> (…, min(m, n))."""
    return mv.diagonal(x, 0, -2, -1)


def eye_like(x: Tensor, n: int) -> Tensor:
    """The identity (n, n) in the dtype of `x`, on its device."""
    return mv.on_diagonal(n, x.device).to(x.dtype)


def with_diagonal(x: Tensor, d: Tensor) -> Tensor:
    """Square matrices with another diagonal (…, n)."""
    return el.where(mv.on_diagonal(x.shape[-1], x.device), mv.unsqueeze(d, -1), x)


def ratio(a: Tensor, b: Tensor) -> Tensor:
    """a / b, and 0 for 0 / 0: what is not asked for adds nothing where it has no derivative."""
    return a / el.where(el.logical_and(el.eq(a, 0), el.eq(b, 0)), 1, b)


def twice_lower(x: Tensor) -> Tensor:
    """The lower triangle and its adjoint, the diagonal (its real part) once."""
    lower = masks.tril(x)
    return with_diagonal(lower + adjoint(lower), real(main_diagonal(x)).to(x.dtype))


def float_matrix(name: str, x: Tensor, square: bool = False, what: str = "A") -> None:
    """RuntimeError unless `x` is (…, m, n) of float32, float64 or complex numbers, with m = n if
    `square`."""
    if x.ndim < 2:
        raise RuntimeError(
            f"{name}: The input tensor {what} must have at least 2 dimensions, got {list(x.shape)}"
        )
    if square and x.shape[-1] != x.shape[-2]:
        raise RuntimeError(
            f"{name}: {what} must be batches of square matrices, but they are "
            f"{x.shape[-2]} by {x.shape[-1]} matrices"
        )
    float_only(name, x, what)


def float_only(name: str, x: Tensor, what: str = "the input") -> None:
    """RuntimeError unless `x` is of float32, float64 or complex numbers."""
    check.floats_or_complex(name, x)
    if x.dtype in (dt.float16, dt.bfloat16):
        raise RuntimeError(
            f"{name}: Low precision dtypes not supported. Got {x.dtype.name}; use .float() first"
        )


def refuse(what: str, info: Array, message: str) -> None:
    """LinAlgError for the first matrix whose `info` is not 0, if `what` names who asks."""
    if what and info.any():
        at = int(np.flatnonzero(info)[0])
        where = f"(Batch element {at}): " if info.ndim else ""
        raise LinAlgError(f"{what}: {where}{message.format(int(info.reshape(-1)[at]))}")


def each_matrix(info: Array, *stacks: Array) -> Any:
    """The matrices of stacks one by one, with their index in the batch."""
    for at in np.ndindex(*info.shape):
        yield at, *(s[at] for s in stacks)


def np_adjoint(x: Array) -> Array:
    """The conjugate transpose of the last two dims."""
    return np.conjugate(np.swapaxes(x, -1, -2))


def rows_fit(name: str, a: Tensor, b: Tensor) -> None:
    """RuntimeError unless A (…, m, n) and B (…, m, k) have as many rows, and batches broadcast."""
    if a.shape[-2] != b.shape[-2]:
        raise RuntimeError(
            f"{name}: Incompatible shapes of A and B for the equation AX = B "
            f"({a.shape[-2]}x{a.shape[-1]} and {b.shape[-2]}x{b.shape[-1]})"
        )
    promotion.broadcast(name, a.shape[:-2], b.shape[:-2])


def block(x: Tensor, rows: int, columns: int) -> Tensor:
    """The upper left (rows, columns) of matrices."""
    return mv.slice_(x, (0,) * x.ndim, (*x.shape[:-2], rows, columns))
