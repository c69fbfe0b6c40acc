"""Runs a scheduled kernel with NumPy: the slow, obvious reading of what a kernel means."""

from __future__ import annotations

import math
import struct
from collections.abc import Sequence
from typing import Any

import numpy as np

from pyframe import dtypes as dt
from pyframe.graph import view as views
from pyframe.graph.program import Apply, Expr, Load, Param, Program, Step, Valid
from pyframe.ops.op import REGISTRY

_STORAGE = {"f32": np.float32, "f16": np.float16, "i32": np.int32, "u32": np.uint32}


def storage_dtype(d: dt.dtype) -> np.dtype:
    """The NumPy dtype of a value in a device buffer."""
    return np.dtype(_STORAGE[d.storage]) if d.storage else d.numpy


def pack_params(params: Sequence[tuple[int, dt.dtype]], values: Sequence[Any], size: int) -> bytes:
    """The scalars in the layout that kernels read: a 32-bit word each."""
    out = bytearray(size)
    for (offset, d), v in zip(params, values, strict=True):
        if d.storage == "f32":
            struct.pack_into("<f", out, offset, _to_f32(v))
        elif d.storage == "f16":
            out[offset : offset + 2] = np.float16(v).tobytes()
        elif d.storage == "u32":
            struct.pack_into("<I", out, offset, int(v) & 0xFFFFFFFF)
        else:
            struct.pack_into("<i", out, offset, ((int(v) + 2**31) & 0xFFFFFFFF) - 2**31)
    return bytes(out)


def _to_f32(v: Any) -> float:
    with np.errstate(over="ignore"):
        return float(np.float32(v))


def _load_param(params: bytes, offset: int, d: dt.dtype) -> Any:
    s = storage_dtype(d)
    return np.frombuffer(params, s, 1, offset)[0].astype(d.numpy)


@np.errstate(all="ignore")
def run_step(program: Program, step: Step, buffers: Sequence[np.ndarray], params: bytes) -> None:
    """Run one step of `program` on byte buffers."""
    kernel = program.kernels[step.kernel]
    arrays = [buffers[s] for s in step.slots]
    operands = [_evaluate(e, arrays, params, step.param_offset) for e in kernel.operands]
    if kernel.body == "map":
        out = operands[0]
    else:
        fn: Any = REGISTRY[kernel.body].numpy
        out = fn(*operands, *kernel.attrs)
    n = math.prod(kernel.shape)
    target = arrays[-1].view(storage_dtype(kernel.dtype))
    target[:n] = np.asarray(out).astype(kernel.dtype.numpy).reshape(-1)


def _evaluate(e: Expr, arrays: list[np.ndarray], params: bytes, base: int) -> np.ndarray:
    values: list[Any] = []
    for i in e.code:
        if isinstance(i, Load):
            flat = arrays[i.binding].view(storage_dtype(i.dtype))
            values.append(views.read(flat, i.tracker).astype(i.dtype.numpy, copy=False))
        elif isinstance(i, Param):
            values.append(_load_param(params, base + 4 * i.word, i.dtype))
        elif isinstance(i, Valid):
            n = math.prod(i.tracker[0].shape)
            values.append(views.read(np.ones(_extent(i.tracker, n), np.bool_), i.tracker))
        else:
            values.append(_apply(i, [values[a] for a in i.args]))
    return np.broadcast_to(values[-1], e.shape)


def _extent(tracker: views.Tracker, n: int) -> int:
    v = tracker[0]
    return max(n, v.offset + sum((m - 1) * s for m, s in zip(v.shape, v.strides, strict=True)) + 1)


def _apply(i: Apply, args: list[Any]) -> Any:
    fn: Any = REGISTRY[i.op].numpy
    if i.index is not None:
        v = i.index[0]
        n = max(_extent(i.index, 1), math.prod(v.shape))
        values = fn(*[np.ravel(a)[0] for a in args], (n,))
        return views.read(np.ascontiguousarray(values), i.index)
    return np.asarray(fn(*args, *i.attrs)).astype(i.dtype.numpy, copy=False)
