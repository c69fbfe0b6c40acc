"""Reductions, scans and what sorts."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

import pyframe as pf
from pyframe.nn import functional as F
from pyframe.onnx.table import op
from pyframe.onnx.values import Host, ints, whole
from pyframe.tensor import Tensor


def _reduction(name: str, function: Callable[[Tensor, list[int], bool], Tensor]) -> None:
    """A row that takes axes as an attribute or an input."""

    @op(name)
    def reduced(
        x: Tensor, axes: Host | None = None, *, keepdims: int, noop_with_empty_axes: int = 0
    ) -> Tensor:
        dims = [] if axes is None else ints(axes)
        if not dims and noop_with_empty_axes:
            return function(x.unsqueeze(0), [0], False)
        return function(x, dims or [*range(x.ndim)], bool(keepdims)) if x.ndim else function(
            x.unsqueeze(0), [0], False
        )  # fmt: skip


def _sum(x: Tensor, dims: list[int], keepdim: bool) -> Tensor:
    return x.sum(dims, keepdim=keepdim, dtype=x.dtype)


def _extreme(largest: bool) -> Callable[[Tensor, list[int], bool], Tensor]:
    def found(x: Tensor, dims: list[int], keepdim: bool) -> Tensor:
        if x.dtype is pf.bool:
            return found(x.to(pf.uint8), dims, keepdim).bool()
        if 0 in x.shape:
            if x.dtype.is_floating_point:
                end = -math.inf if largest else math.inf
            else:
                end = pf.iinfo(x.dtype).min if largest else pf.iinfo(x.dtype).max
            kept = [i % x.ndim for i in dims]
            full = [1 if i in kept else n for i, n in enumerate(x.shape)]
            shape = full if keepdim else [n for i, n in enumerate(x.shape) if i not in kept]
            return pf.full(shape, end, dtype=x.dtype, device=x.device)
        return pf.amax(x, dims, keepdim) if largest else pf.amin(x, dims, keepdim)

    return found


def _prod(x: Tensor, dims: list[int], keepdim: bool) -> Tensor:
    for i in sorted((i % x.ndim for i in dims), reverse=True):
        x = pf.prod(x, i, keepdim, dtype=x.dtype)
    return x


def _wide(x: Tensor) -> Tensor:
    """Ints as the widest floats that the device has."""
    return x.double() if x.device.type == "cpu" else x.float()


def _mean(x: Tensor, dims: list[int], keepdim: bool) -> Tensor:
    if x.dtype.is_floating_point:
        return x.mean(dims, keepdim=keepdim)
    return _wide(x).mean(dims, keepdim=keepdim).to(x.dtype)


def _log_sum_exp(x: Tensor, dims: list[int], keepdim: bool) -> Tensor:
    floats = x if x.dtype.is_floating_point else _wide(x)
    return pf.logsumexp(floats, dims, keepdim).to(x.dtype)


def _root(x: Tensor, dims: list[int], keepdim: bool) -> Tensor:
    return pf.sqrt(_sum(x * x, dims, keepdim)).to(x.dtype)


_reduction("ReduceSum", _sum)
_reduction("ReduceMean", _mean)
_reduction("ReduceMax", _extreme(True))
_reduction("ReduceMin", _extreme(False))
_reduction("ReduceProd", _prod)
_reduction("ReduceL1", lambda x, dims, keepdim: _sum(pf.abs(x), dims, keepdim))
_reduction("ReduceL2", _root)
_reduction("ReduceLogSum", lambda x, dims, keep: pf.log(_sum(x, dims, keep)).to(x.dtype))
_reduction("ReduceLogSumExp", _log_sum_exp)
_reduction("ReduceSumSquare", lambda x, dims, keepdim: _sum(x * x, dims, keepdim))


def _position(name: str, function: Any) -> None:
    @op(name)
    def found(x: Tensor, *, axis: int, keepdims: int, select_last_index: int = 0) -> Tensor:
        if select_last_index:
            return x.shape[axis] - 1 - function(x.flip(axis), axis, bool(keepdims))
        return function(x, axis, bool(keepdims))


_position("ArgMax", pf.argmax)
_position("ArgMin", pf.argmin)


def _over(x: Tensor, axis: int, version: int, function: Callable[[Tensor, int], Tensor]) -> Tensor:
    """Before version 13 all dims from `axis` on counted as one."""
    if version >= 13:
        return function(x, axis)
    return function(x.flatten(axis % x.ndim) if x.ndim else x, -1).reshape(x.shape)


def _hardmax(x: Tensor, axis: int) -> Tensor:
    if 0 in x.shape:
        return x
    return pf.zeros_like(x).scatter(axis, x.argmax(axis, True), 1)


def _along(name: str, function: Any) -> None:
    @op(name)
    def found(x: Tensor, *, axis: int, version: int) -> Tensor:
        return _over(x, axis, version, function)


_along("Softmax", F.softmax)
_along("LogSoftmax", F.log_softmax)
_along("Hardmax", _hardmax)


def _scan(name: str, function: Any, one: int) -> None:
    @op(name)
    def found(x: Tensor, axis: Host, *, exclusive: int, reverse: int) -> Tensor:
        dim = whole(axis) % x.ndim
        x = x.flip(dim) if reverse else x
        found = function(x, dim, dtype=x.dtype)
        if exclusive:
            first = pf.full_like(x.narrow(dim, 0, 1), one)
            found = pf.cat([first, found.narrow(dim, 0, x.shape[dim] - 1)], dim)
        return found.flip(dim) if reverse else found


_scan("CumSum", pf.cumsum, 0)
_scan("CumProd", pf.cumprod, 1)


@op("TopK")
def top_k(x: Tensor, k: Host, *, axis: int = -1, largest: int = 1, sorted: int = 1) -> Any:
    (n,) = ints(k)
    found, places = pf.sort(x, dim=axis, descending=bool(largest), stable=True)
    return found.narrow(axis, 0, n), places.narrow(axis, 0, n)


@op("Unique")
def unique(x: Host, *, axis: int | None = None, sorted: int = 1) -> Any:
    found, first, inverse, counts = np.unique(
        x, return_index=True, return_inverse=True, return_counts=True, axis=axis
    )
    inverse = inverse.ravel()
    if not sorted:
        order = np.argsort(first)
        found = np.take(found, order, 0 if axis is None else axis)
        first, counts = first[order], counts[order]
        inverse = np.argsort(order)[inverse]
    return found, first, inverse, counts.astype(np.int64)


@op("LpNormalization")
def lp_normalization(x: Tensor, *, axis: int, p: int) -> Tensor:
    size = pf.sqrt((x * x).sum(axis, True)) if p == 2 else pf.abs(x).sum(axis, True)
    return pf.where(size == 0, 0, x / size)
