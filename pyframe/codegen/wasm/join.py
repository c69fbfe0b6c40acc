"""Tensors after one another, in WebAssembly."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from pyframe.codegen.wasm.assembler import Assembler
from pyframe.codegen.wasm.encoder import Module
from pyframe.codegen.wasm.routines import At, Call, Routine


def build(module: Module) -> None:
    """Add the function to a module."""
    f = Assembler(module, "copy_rows", "i32 " * 6, export=True)
    to, x, rows, nbytes, to_row, x_row = f.params
    with f.count(0, rows):
        f.copy(to, x, nbytes)
        to.add(to_row)
        x.add(x_row)


def cat(inputs: Sequence[np.ndarray], attrs: tuple[Any, ...], out: np.ndarray) -> Routine | None:
    """The routine of `cat1`, `cat2`, …, of inputs of which lies in line what is copied at once."""
    dim, calls, offset = attrs[0], [], 0
    rows = math.prod(out.shape[:dim])
    row = out.nbytes // rows
    for i, x in enumerate(inputs):
        part = x.reshape(rows, x.size // rows)
        nbytes = part.shape[1] * x.itemsize
        apart = part.shape[1] > 1 and part.strides[1] != x.itemsize
        if nbytes and (apart or not np.may_share_memory(part, x)):
            return None
        calls.append(
            Call("copy_rows", (At(len(inputs), offset), At(i), rows, nbytes, row, part.strides[0]))
        )
        offset += nbytes
    return Routine(tuple(calls))
