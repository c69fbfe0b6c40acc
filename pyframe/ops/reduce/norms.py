"""Norms of vectors, over dims."""

from __future__ import annotations

import builtins
import math
from typing import Any

from pyframe.core import dtypes as dt
from pyframe.core.dispatch import apply
from pyframe.ops.api import check
from pyframe.ops.api.public import as_public, public
from pyframe.ops.linalg import spectral
from pyframe.ops.math import elementwise as el
from pyframe.ops.reduce import reductions as reduce
from pyframe.ops.reduce.reductions import absolute_square, reduced_shape, root, widened
from pyframe.ops.shape import movement as mv
from pyframe.tensor import Tensor, normalize_dim


def norm(
    input: Tensor, p: Any = "fro", dim: Any = None, keepdim: bool = False, *,
    dtype: dt.dtype | None = None,
) -> Tensor:  # fmt: skip
    """The p-norm over dims (all by default), or the matrix norm 'fro' or 'nuc' over two.

    A norm of 0 has the gradient 0. RuntimeError for ints.
    """
    if p == "fro" and dim is not None and not isinstance(dim, int) and len(dim) > 2:
        raise RuntimeError(f"norm: 'fro' is of one or two dims, got {tuple(dim)}; p=2 of any")
    if p == "nuc":
        return _nuclear(input if dtype is None else input.to(dtype), dim, keepdim)
    if isinstance(p, str) and p != "fro":
        raise RuntimeError(f"norm: p must be a number, 'fro', 'nuc', inf or -inf, got {p!r}")
    return vector_norm(input, 2 if p in ("fro", None) else p, dim, keepdim, dtype=dtype)


def norm_except_dim(v: Tensor, pow: int = 2, dim: int = 0) -> Tensor:
    """The norms of the slices along one dim, which keeps its place, the others being 1; of all
    elements for dim=-1."""
    if dim == -1:
        return norm(v, pow)
    if not v.ndim:
        raise IndexError("norm_except_dim: Dimension specified as 0 but tensor has no dimensions")
    d = normalize_dim(dim, v.ndim)
    n = v.shape[d]
    rows = mv.reshape(mv.movedim(v, d, 0), (n, v.numel() // builtins.max(n, 1)))
    return mv.reshape(norm(rows, pow, 1), tuple(n if i == d else 1 for i in range(v.ndim)))


_svdvals = as_public("svdvals", spectral.svdvals)  # which has a rule for mixed precision


def _nuclear(x: Tensor, dim: Any, keepdim: bool) -> Tensor:
    dims = (0, 1) if dim is None else dim
    if isinstance(dims, int) or len(dims) != 2 or (dim is None and x.ndim != 2):
        raise RuntimeError(f"norm: the nuclear norm needs two dims, got dim={dim} of {x.ndim}")
    axes = [reduce.one_dim("norm", x, d) for d in dims]
    if axes[0] == axes[1]:
        raise RuntimeError(f"norm: dim {tuple(dims)} names one dim twice")
    out = reduce.sum(_svdvals(mv.movedim(x, axes, [-2, -1])), -1)
    return mv.reshape(out, reduced_shape(x.shape, tuple(axes), True)) if keepdim else out


def vector_norm(
    input: Tensor, ord: Any = 2, dim: Any = None, keepdim: bool = False, *,
    dtype: dt.dtype | None = None,
) -> Tensor:  # fmt: skip
    """sum(|x|^ord)^(1 / ord) over dims, with the limits for 0, inf and -inf.

    Subgradients are those of torch.linalg.vector_norm: 0 at 0, shared by the largest of `inf`.
    """
    if isinstance(ord, (bool, str)) or not isinstance(ord, (int, float)):
        raise RuntimeError(f"norm: the order must be a number, inf or -inf, got {ord!r}")
    check.floats_or_complex("norm", input)
    x = input if dtype is None else input.to(dtype)
    axes = reduce.axes_of("norm", x, dim)
    if ord in (math.inf, -math.inf) or ord < 0:
        reduce.no_empty("norm", x, axes, True)
    if ord == 2:
        return root(reduce.sum(absolute_square(widened(x)), axes, keepdim)).to(x.dtype.to_real())
    size = el.abs(x)
    if ord in (math.inf, -math.inf):
        return apply(reduce.max_op if ord > 0 else reduce.min_op, (size,), (axes, keepdim))
    if ord == 0:  # floor has the gradient 0
        return reduce.sum(el.where(el.eq(size, 0), el.floor(size), 1.0), axes, keepdim)
    if ord == 1:
        return reduce.sum(size, axes, keepdim)
    powers = reduce.sum(_power(widened(size), ord), axes, keepdim)
    return _power(powers, 1.0 / ord).to(size.dtype)


def _power(x: Tensor, p: float) -> Tensor:
    """x ** p of x >= 0, with the gradient 0 at 0."""
    zero = el.eq(x, 0)
    return el.where(zero, 0.0 if p > 0 else math.inf, el.pow(el.where(zero, 1.0, x), p))


def renorm(input: Tensor, p: float, dim: int, maxnorm: float) -> Tensor:
    """`input` with each slice of `dim` scaled down to a p-norm of at most `maxnorm`."""
    if isinstance(p, complex) or p <= 0:
        raise RuntimeError(f"renorm: expected a positive norm degree, got p={p}")
    if maxnorm < 0:
        raise RuntimeError(f"renorm: expected maxnorm to be >= 0 but got {maxnorm}")
    if input.ndim < 2:
        raise RuntimeError(f"renorm: input needs at least 2 dimensions, got {input.ndim}")
    d = reduce.one_dim("renorm", input, dim)
    size = vector_norm(input, p, tuple(i for i in range(input.ndim) if i != d), True)
    return input * el.where(el.gt(size, maxnorm), maxnorm / (size + 1e-7), 1.0)


public(
    globals(), both="norm", inplace="renorm", functions="norm_except_dim", out_exact="renorm",
    rows="renorm", gpu_float32="norm vector_norm renorm",
)  # fmt: skip
