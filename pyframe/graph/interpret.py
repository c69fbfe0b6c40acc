"""Runs a scheduled kernel, or a Scalar, with NumPy: the slow, obvious reading of what it means."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
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
from pyframe.graph.scalar import Scalar, inlined, nodes_of


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


# --- Scalars

# NumPy's types of theirs
REGISTERS = {"bool": np.dtype(np.bool_), "f32": np.dtype(np.float32), "f64": np.dtype(np.float64)}
REGISTERS |= {"c64": np.dtype(np.complex64)} | {
    f"{k}{n}": np.dtype(f"{k}{n // 8}") for k in "iu" for n in (8, 16, 32, 64)
}


def _of_kind(floats: Any, others: Any) -> Callable[..., Any]:
    return lambda x, a, b: (floats if a.dtype.kind == "f" else others)(a, b)


def _div(a: np.ndarray, b: np.ndarray) -> Any:
    """Of ints, cut towards zero; 0 where b is."""
    quotient = np.where(b == 0, 0, np.floor_divide(a, b))
    return quotient + ((np.fmod(a, b) != 0) & ((a < 0) != (b < 0)) & (b != 0))


def _cast(x: Any, a: np.ndarray) -> Any:
    to = REGISTERS[x.type]
    if a.dtype.kind == "f" and to.kind in "iu":
        return np.where(np.abs(a) < 2.0**63, a, -(2.0**63)).astype(np.int64).astype(to)
    return a.astype(to)


def _narrow(x: Any, a: np.ndarray) -> Any:
    narrow = dt.bfloat16.narrow if x.value == "bfloat16" else None
    return narrow(a) if narrow is not None else a.astype(x.value).astype(np.float32)


def _complex(x: Any, a: Any, b: Any) -> np.ndarray:
    return np.stack(np.broadcast_arrays(a, b), -1).view(np.complex64)[..., 0]


# the primitives of scalar.py: (what asks, with the result's `type` and its `value`; operands)
PRIMITIVES: dict[str, Callable[..., Any]] = {
    "neg": lambda x, a: np.negative(a), "abs": lambda x, a: np.abs(a),
    "floor": lambda x, a: np.floor(a), "ceil": lambda x, a: np.ceil(a),
    "trunc": lambda x, a: np.trunc(a), "round": lambda x, a: np.rint(a),
    "sqrt": lambda x, a: np.sqrt(a), "not": lambda x, a: np.invert(a),
    "cast": _cast, "bitcast": lambda x, a: a.view(REGISTERS[x.type]), "narrow": _narrow,
    "add": lambda x, a, b: a + b, "sub": lambda x, a, b: a - b,
    "mul": lambda x, a, b: a * b,
    "div": _of_kind(np.true_divide, _div), "rem": lambda x, a, b: np.fmod(a, b),
    "min": lambda x, a, b: np.minimum(a, b), "max": lambda x, a, b: np.maximum(a, b),
    "eq": lambda x, a, b: a == b, "ne": lambda x, a, b: a != b,
    "lt": lambda x, a, b: a < b, "le": lambda x, a, b: a <= b,
    "and": lambda x, a, b: a & b, "or": lambda x, a, b: a | b, "xor": lambda x, a, b: a ^ b,
    "shl": lambda x, a, b: a << b, "shr": lambda x, a, b: a >> b,
    "muladd": lambda x, a, b, c: a * b + c, "select": lambda x, c, a, b: np.where(c, a, b),
    "re": lambda x, a: a.real, "im": lambda x, a: a.imag, "complex": _complex,
}  # fmt: skip


@np.errstate(all="ignore")
def evaluate(
    x: Scalar, operands: Sequence[np.ndarray], index: Sequence[np.ndarray] = ()
) -> np.ndarray:
    """A Scalar's value for arrays as the operands 'arg' 0, 1, …, and as the index along each axis.
    LookupError if it calls a function without a definition."""
    values: dict[Scalar, np.ndarray] = {}
    for node in nodes_of(x):
        args = [values[a] for a in node.args]
        if node.op == "arg":
            out = operands[node.value]
        elif node.op == "index":
            out = index[node.value]
        elif node.op == "const":
            out = np.array(node.value, REGISTERS[node.type])
        elif node.op == "call":
            body = inlined(node)
            if body is None:
                raise LookupError(f"{node.value} of {node.args[0].type} has no definition")
            out = evaluate(body, args)
        else:
            out = np.asarray(PRIMITIVES[node.op](node, *args))
        values[node] = out.astype(REGISTERS[node.type], copy=False)
    return values[x]
