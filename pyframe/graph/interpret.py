"""The reference interpreter: runs a scheduled kernel with NumPy, slow and obvious."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from pyframe.core import dtypes as dt, view as views
from pyframe.core.dispatch import eval_on_arrays
from pyframe.core.dtypes import from_storage, storage_dtype, to_storage
from pyframe.core.op import REGISTRY
from pyframe.graph.program import (
    Apply,
    ExternResult,
    InBounds,
    Kernel,
    Load,
    Reduce,
    RowSum,
    ScalarParam,
)


def _load_param(params: bytes, offset: int, d: dt.dtype) -> Any:
    s = d.numpy if d.packed > 1 else storage_dtype(d)  # a word has the number itself
    return np.frombuffer(params, s, 1, offset)[0].astype(d.numpy)


@np.errstate(all="ignore")
def run_kernel(kernel: Kernel, arrays: list[np.ndarray], params: bytes, begin: int = 0) -> None:
    """Run a kernel on byte arrays, one a binding; its parameters begin there in `params`."""
    result = rows = None
    if kernel.routine is not None:
        name, attrs, operands, dtype = kernel.routine
        values = [
            np.broadcast_to(_evaluate(e.code, arrays, params, begin, e.shape)[-1], e.shape)
            for e in operands
        ]
        op = REGISTRY[name]
        if op.write_slice is not None:
            (store,) = kernel.stores
            made = from_storage(arrays[store.binding].view(storage_dtype(dtype)), dtype)
            made = op.write_slice(np.array(made[: math.prod(kernel.space)]), *values, *attrs)
        else:
            made = eval_on_arrays(op, values, [e.dtype for e in operands], attrs)
        result = _rounded(made, dtype).reshape(kernel.space)
        if any(isinstance(i, RowSum) for i in kernel.code):
            rows = values[0].sum(-1, keepdims=True)
    found = _evaluate(kernel.code, arrays, params, begin, kernel.space, result, rows)
    for store in kernel.stores:
        binding, value, (view, *more), dtype = store
        if 0 in store.shape:
            continue
        flat = arrays[binding].view(storage_dtype(dtype))
        if more:
            data = np.broadcast_to(found[value], kernel.space)
            flat[views.read(np.arange(len(flat)), store.index_map)] = to_storage(data, dtype)
            continue
        target = np.lib.stride_tricks.as_strided(
            flat[view.offset :], store.shape, tuple(s * flat.itemsize for s in view.strides)
        )
        data = np.asarray(found[value])
        if data.ndim:
            data = data[tuple(slice(None) if s else slice(0, 1) for s in view.strides)]
        target[...] = to_storage(data.astype(dtype.numpy, copy=False), dtype)


def _evaluate(
    code: Sequence[Any],
    arrays: list[np.ndarray],
    params: bytes,
    base: int,
    space: tuple[int, ...],
    result: Any = None,
    rows: Any = None,
) -> list[Any]:
    """The value of each instruction, broadcastable to the space."""
    values: list[Any] = []
    for i in code:
        if isinstance(i, Load):
            flat = arrays[i.binding].view(storage_dtype(i.dtype))
            values.append(from_storage(views.read(flat, i.index_map), i.dtype))
        elif isinstance(i, ScalarParam):
            values.append(_load_param(params, base + 4 * i.word, i.dtype))
        elif isinstance(i, InBounds):
            n = math.prod(i.index_map[0].shape)
            values.append(views.read(np.ones(_extent(i.index_map, n), np.bool_), i.index_map))
        elif isinstance(i, ExternResult):
            values.append(result)
        elif isinstance(i, RowSum):
            values.append(rows)
        elif isinstance(i, Reduce):
            values.append(_reduce(i, values[i.arg], space))
        else:
            values.append(_apply(i, [values[a] for a in i.args]))
    return values


def _reduce(i: Reduce, x: Any, space: tuple[int, ...]) -> Any:
    combine: Any = REGISTRY[i.op].combine
    if not i.axes:  # only axes of size 1
        return np.zeros_like(x, i.dtype.numpy) if combine.arg else x
    fn: Any = REGISTRY[i.op].numpy
    sizes = np.shape(x) or (1,) * len(space)
    # what does not vary along a reduced axis is there as often as the axis is long
    whole = np.broadcast_to(
        x, [n if d in i.axes else m for d, (n, m) in enumerate(zip(space, sizes, strict=True))]
    )
    return _rounded(fn(whole, i.axes, True), i.dtype)


def _extent(index_map: views.IndexMap, n: int) -> int:
    v = index_map[0]
    return max(n, v.offset + sum((m - 1) * s for m, s in zip(v.shape, v.strides, strict=True)) + 1)


def _apply(i: Apply, args: list[Any]) -> Any:
    fn: Any = REGISTRY[i.op].numpy
    if i.index is not None:
        v = i.index[0]
        n = max(_extent(i.index, 1), math.prod(v.shape))
        values = fn(*[np.ravel(a)[0] for a in args], (n,))
        return views.read(np.ascontiguousarray(values), i.index)
    return _rounded(fn(*args, *i.attrs), i.dtype)


def _rounded(x: Any, dtype: dt.dtype) -> np.ndarray:
    x = np.asarray(x).astype(dtype.numpy, copy=False)
    return x if dtype.narrow is None else dtype.narrow(x)
