"""Products with packed weights in LLVM IR (codegen/cpu/packed.py), and how they are shared out."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from pyframe.codegen.cpu import packed as shared
from pyframe.codegen.lanes.compiler import ScratchArg
from pyframe.codegen.llvm.assembler import LlvmAssembler, cut, launched, module
from pyframe.codegen.llvm.gemm import tile_of, worth
from pyframe.codegen.llvm.routines import CpuTarget, Launches
from pyframe.codegen.numpy.memory import address_arg

# What a launch reads: units, memory and the bytes for each; the result, x, the words, scales and
# offsets; the sizes; bytes from row to row of x; a group's elements.
WORDS = "units @memory unit_bytes @c @x @words @scale @offset n m k x_row group"


def product(
    m: CpuTarget, inputs: Sequence[np.ndarray], attrs: tuple[Any, ...], out: np.ndarray
) -> Launches | None:
    """Of `packed_linear`; each unit has some rows of the weight."""
    x, words, scale, offset = inputs
    tile, (_, rows, k), (n, groups, _) = m.tiles.get(out.dtype), x.shape, words.shape
    lie = all(a.flags.c_contiguous for a in (words, scale, offset)) and x.strides[2] == x.itemsize
    ints = x.dtype == np.int8
    if tile is None or not lie or not (x.dtype == out.dtype or (ints and tile.size == 4)):
        return None
    units = max(1, min(m.threads, n // tile.columns, rows * n * k // worth(rows)))
    nbytes = -(-shared.scratch(tile, rows, k, groups, ints) // 64) * 64
    kind = shared.name("ints" if ints else "floats", *attrs)
    return [(f"packed.{kind}.{out.dtype.name}", [
        units, ScratchArg(units * nbytes), nbytes, address_arg(out), address_arg(x),
        address_arg(words),
        address_arg(scale), address_arg(offset), n, rows, k, x.strides[1], k // groups,
    ])]  # fmt: skip


def text(m: CpuTarget, name: str, dtype: np.dtype) -> str:
    """The module of a product of this name."""
    made: list[LlvmAssembler] = []
    t = m.tiles[dtype]

    def make(name: str, params: str) -> LlvmAssembler:
        made.append(LlvmAssembler(name, params))
        made[-1].dots = m.dots
        return made[-1]

    what, bits, symmetric = shared.NAMES[name]
    if what == "ints":
        found = shared.ints(make, t, bits, symmetric)
    else:
        tile = tile_of(make, t)
        found = shared.floats(make, t, lambda f, *given: f.call(tile, *given[:-1]), bits, symmetric)
    f, w, begin, end = launched(WORDS)
    with f.count(begin, end) as u:
        first, last = cut(w["n"], u, w["units"], t.columns)
        f.call(
            found, w["memory"] + w["unit_bytes"] * u, *[w[x] for x in WORDS.replace("@", "")
            .split()[3:8]], first, last, *[w[x] for x in ("n", "m", "k", "x_row", "group")],
        )  # fmt: skip
    return module([*made, f], m.bits)
