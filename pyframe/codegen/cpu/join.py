"""Concatenation of tensors."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from pyframe.codegen.cpu.assembler import Assembler
from pyframe.codegen.cpu.index import move
from pyframe.codegen.cpu.routines import Addr, KernelBody, KernelInvocation, LibraryCall, parts


def _copy_rows(f: Assembler, w: Any, first: Any, last: Any, part: Any) -> None:
    with f.count(first, last) as r:
        move(f, f.local(w["to"] + r * w["to_row"]), f.local(w["x"] + r * w["x_row"]), w["nbytes"])


BODIES = {"copy_rows": KernelBody("@to @x rows nbytes to_row x_row", "rows", _copy_rows)}


def cat(
    inputs: Sequence[np.ndarray], attrs: tuple[Any, ...], out: np.ndarray
) -> LibraryCall | None:
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
        to = Addr(len(inputs), offset)
        if rows == 1:
            calls.append(
                KernelInvocation("copy", (to, Addr(i), nbytes), parts(nbytes // 64, x.size))
            )
        else:
            words = to, Addr(i), rows, nbytes, row, part.strides[0]
            calls.append(KernelInvocation("copy_rows", words, parts(rows, x.size)))
        offset += nbytes
    return LibraryCall(tuple(calls))
