"""Gather and scatter."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

import pyframe as pf
from pyframe.nn import functional as F
from pyframe.onnx import values
from pyframe.onnx.table import op
from pyframe.onnx.values import Host, ints, whole
from pyframe.tensor import Tensor

REDUCTIONS = {"add": "sum", "mul": "prod", "max": "amax", "min": "amin"}


def wrapped(index: Tensor, n: Any) -> Tensor:
    """Indices from the end count from the beginning."""
    index = index.long()
    return pf.where(index < 0, index + n, index)


@op("Gather")
def gather(x: Tensor, index: Any, *, axis: int) -> Tensor:
    axis = axis % x.ndim
    if isinstance(index, Tensor):
        index = wrapped(index, x.shape[axis])
    elif index.ndim == 0:
        return x.select(axis, index.item())
    else:
        below = index < 0
        index = np.where(below, index + x.shape[axis], index) if below.any() else index
        index = values.tensor(index, x.device)
    found = x.index_select(axis, index.reshape(-1))
    return found.reshape((*x.shape[:axis], *index.shape, *x.shape[axis + 1 :]))


op("GatherElements")(lambda x, index, *, axis: x.gather(axis, wrapped(index, x.shape[axis])))


@op("GatherND")
def gather_nd(x: Tensor, index: Tensor, *, batch_dims: int = 0) -> Tensor:
    k, b = index.shape[-1], batch_dims
    at = [wrapped(index[..., i], x.shape[b + i]) for i in range(k)]
    batches: list[Any] = []
    for i in range(b):
        places = pf.arange(x.shape[i], device=x.device)
        batches.append(places.reshape([-1 if d == i else 1 for d in range(index.ndim - 1)]))
    return x[(*batches, *at)]


@op("Scatter ScatterElements")
def scatter_elements(
    x: Tensor, index: Tensor, updates: Tensor, *, axis: int, reduction: str = "none"
) -> Tensor:
    at = wrapped(index, x.shape[axis])
    if reduction == "none":
        return x.scatter(axis, at, updates)
    return x.scatter_reduce(axis, at, updates, REDUCTIONS[reduction])


@op("ScatterND")
def scatter_nd(x: Tensor, index: Tensor, updates: Tensor, *, reduction: str = "none") -> Tensor:
    k = index.shape[-1]
    at = pf.zeros_like(index[..., 0], dtype=pf.int64)
    for i in range(k):
        at = at * x.shape[i] + wrapped(index[..., i], x.shape[i])
    rows = x.reshape(math.prod(x.shape[:k]), -1)
    new = updates.reshape(-1, rows.shape[1])
    places = at.reshape(-1, 1).expand(new.shape)
    if reduction == "none":
        found = rows.scatter(0, places, new)
    else:
        found = rows.scatter_reduce(0, places, new, REDUCTIONS[reduction])
    return found.reshape(x.shape)


@op("TensorScatter")
def tensor_scatter(
    past: Tensor, update: Tensor, at: Tensor | None = None, *, axis: int, mode: str
) -> Tensor:
    axis, n = axis % past.ndim, update.shape[axis]
    steps = pf.arange(n, device=past.device)
    if at is None:
        at = pf.zeros(past.shape[0], dtype=pf.int64, device=past.device)
    places = at[:, None] + steps  # (batch, n)
    if mode == "circular":
        places = places % past.shape[axis]
    shape = [past.shape[0], *[1] * (past.ndim - 1)]
    shape[axis] = n
    return past.scatter(axis, places.reshape(shape).expand(update.shape), update)


@op("OneHot")
def one_hot(index: Tensor, depth: Host, choice: Tensor, *, axis: int) -> Tensor:
    (n,) = ints(depth)
    index = index.long()
    index = pf.where(index < 0, index + n, index).unsqueeze(axis)
    k = index.ndim
    places = pf.arange(n, device=index.device)
    places = places.reshape([-1 if i == axis % k else 1 for i in range(k)])
    off, on = choice.unbind()
    return pf.where(index == places, on, off)


@op("NonZero")
def non_zero(x: Tensor) -> Tensor:
    return pf.nonzero(x).T if x.ndim else pf.zeros(0, 1, dtype=pf.int64, device=x.device)


@op("Compress")
def compress(x: Tensor, condition: Tensor, *, axis: int | None = None) -> Tensor:
    if axis is None:
        x, axis = x.reshape(-1), 0
    return x.index_select(axis, pf.nonzero(condition).reshape(-1))


@op("NonMaxSuppression")
def non_max_suppression(
    boxes: Tensor, scores: Tensor, most: Host | None = None, iou: Host | None = None,
    least: Host | None = None, *, center_point_box: int,
) -> Tensor:  # fmt: skip
    from pyframe.vision.ops import nms

    count, overlap = 0 if most is None else whole(most), 0 if iou is None else iou.item()
    a, b = boxes[..., :2], boxes[..., 2:]
    if center_point_box:
        a, b = a - b / 2, a + b / 2
    corners = pf.cat([pf.minimum(a, b), pf.maximum(a, b)], -1)
    values.see_end(math.prod(scores.shape[:2]), "classes of images")
    found = []
    for i in range(scores.shape[0]):
        for j in range(scores.shape[1]):
            of = scores[i, j]
            some = pf.arange(of.shape[0], device=of.device)
            if least is not None:
                some = pf.nonzero(of > least.item()).reshape(-1)
            kept = some[nms(corners[i][some], of[some], overlap)[:count]]
            found.append(F.pad(kept[:, None], (2, 0)) + pf.tensor([i, j, 0], device=of.device))
    return pf.cat(found)
