"""Running sums, products and maxima in WebAssembly; float32 is scanned in float64, as in NumPy."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from pyframe.codegen.wasm.assembler import F32, F64, I32, I64, Assembler
from pyframe.codegen.wasm.encoder import Module
from pyframe.codegen.wasm.routines import At, Call, Routine

_TYPES = {"f4": F32, "f8": F64, "i4": I32, "i8": I64}
_KINDS = ("add", "mul", "max")


def build(module: Module) -> None:
    """Add the functions to a module."""
    for kind, type in _TYPES.items():
        for name in _KINDS:
            _scan(module, f"scan_{name}_{kind}", type, name)


def _scan(module: Module, function: str, type: str, name: str) -> None:
    f = Assembler(module, function, "i32 " * 8, export=True)
    to, x, outer, n, inner, x_outer, x_step, x_inner = f.params
    size = 8 if type in (F64, I64) else 4
    total = f.local(type=F64 if type == F32 else type)
    with f.count(0, outer) as o, f.count(0, inner) as i:
        at, into = f.local(x + o * x_outer + i * x_inner), f.local(to + (o * n * inner + i) * size)
        with f.count(0, n) as j:
            value = f.local(f.load(type, at), type)
            here = value.to("f64.promote_f32") if type == F32 else value
            if name == "max" and type in (I32, I64):
                joined = total.where(total > here, here)
            else:
                joined = total.op(name, here)
            with f.when(j):
                total.set(joined)
                f.otherwise()
                total.set(here)
            f.store(into, total.to("f32.demote_f64") if type == F32 else total)
            at.add(x_step)
            into.add(inner * size)


def _routine(name: str, inputs: Sequence[np.ndarray], out: np.ndarray) -> Routine | None:
    (x,) = inputs
    kind = x.dtype.str[1:]
    if kind not in _TYPES:
        return None
    return Routine((Call(f"scan_{name}_{kind}", (At(1), At(0), *x.shape, *x.strides)),))


def cumsum(inputs: Sequence[np.ndarray], attrs: tuple[Any, ...], out: np.ndarray) -> Routine | None:
    """The routine of `cumsum`, of any strides."""
    return _routine("add", inputs, out)


def cumprod(
    inputs: Sequence[np.ndarray], attrs: tuple[Any, ...], out: np.ndarray
) -> Routine | None:
    """The routine of `cumprod`, of any strides."""
    return _routine("mul", inputs, out)


def cummax(inputs: Sequence[np.ndarray], attrs: tuple[Any, ...], out: np.ndarray) -> Routine | None:
    """The routine of `cummax`, of any strides."""
    return _routine("max", inputs, out)
