"""Distances and similarity of vectors."""

from __future__ import annotations

import numpy as np

from pyframe.core import dtypes as dt
from pyframe.core.dispatch import apply
from pyframe.core.modes import no_grad
from pyframe.ops.api import check
from pyframe.ops.api.autocast import autocast
from pyframe.ops.index.rows import take_rows
from pyframe.ops.math import elementwise as el, promotion
from pyframe.ops.reduce import norms, reductions as rd
from pyframe.ops.shape import movement as mv
from pyframe.tensor import Tensor, normalize_dim, upload

__all__ = ["cosine_similarity", "pairwise_distance", "pdist"]
TOPLEVEL = "cosine_similarity pairwise_distance pdist"  # functions of pyframe too


def at_least(x: Tensor, low: float) -> Tensor:
    """A copy of x, no less than `low`; the gradient is that of x itself, below `low` too."""
    x = x.clone()
    with no_grad():
        x._overwrite(el.clamp(x, min=low))
    return x


def cosine_similarity(x1: Tensor, x2: Tensor, dim: int = 1, eps: float = 1e-8) -> Tensor:
    """The cosine of the angle between two tensors over a dim, norms no less than eps."""
    dtype = promotion.result_type(x1, x2)
    if dtype.category != dt.FLOAT:
        raise RuntimeError(
            "cosine_similarity: expected common dtype to be floating point, yet common dtype is "
            f"{dtype.name}; use .float() first"
        )
    a, b = mv.broadcast_tensors(x1.to(dtype), x2.to(dtype))
    d = normalize_dim(dim, a.ndim)
    unit = [x / at_least(norms.vector_norm(x, 2, d if x.ndim else (), True), eps) for x in (a, b)]
    return rd.sum(unit[0] * unit[1], d if a.ndim else ())


def pairwise_distance(
    x1: Tensor, x2: Tensor, p: float = 2.0, eps: float = 1e-6, keepdim: bool = False
) -> Tensor:
    """The p-norm of x1 - x2 + eps over the last dim."""
    return norms.vector_norm(x1 - x2 + eps, p, -1, keepdim)


def pdist(input: Tensor, p: float = 2) -> Tensor:
    """The p-norms of the differences of all pairs of rows: (N, M) -> (N * (N - 1) / 2,)."""
    if input.ndim != 2:
        raise RuntimeError(f"pdist: only supports 2D tensors, got: {input.ndim}D")
    check.floats("pdist", input)
    if p < 0:
        raise RuntimeError(f"pdist: only supports non-negative p values, got {p}")
    first, second = np.triu_indices(input.shape[0], 1)
    if not first.size:
        return rd.sum(input[:0], 1)
    rows = [
        apply(take_rows, (input, upload(i.astype(np.int64), input.device))) for i in (first, second)
    ]
    return norms.vector_norm(rows[0] - rows[1], p, 1, False)


autocast(globals(), gpu_float32="cosine_similarity pairwise_distance pdist")
