"""Gather and scatter of rows in LLVM IR.

A unit takes some rows of a gather, and some columns of a scatter, which it adds in the index's
order. A row out of range is left out, and a fault.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from pyframe.codegen.lanes.compiler import Fault
from pyframe.codegen.llvm.assembler import Assembler, Value, cut, module
from pyframe.codegen.llvm.routines import Launches, Machine, Tile, Words
from pyframe.codegen.numpy.memory import address

# What a launch reads: how many units; where it notes a fault; the result, the index and the rows
# that are taken or added; how many indices, the bytes of one (4 or 8) and to the next; how many
# rows may be named; elements of a row; bytes from row to row of the result and of the rows.
WORDS = "units fault to index x n size step rows width to_row x_row".split()
_ADDRESSES = ("fault", "to", "index", "x")
NARROW = 16  # columns up to which NumPy adds float32 in float64
LEAST = 1 << 14  # elements that are worth a unit of their own


def take_rows(
    m: Machine, inputs: Sequence[np.ndarray], attrs: tuple[Any, ...], out: np.ndarray
) -> Launches | None:
    """Of `take_rows`, of rows that lie in line each."""
    x, index = inputs
    return _launch("take_rows", m, index, x, out, len(x))


def add_rows(
    m: Machine, inputs: Sequence[np.ndarray], attrs: tuple[Any, ...], out: np.ndarray
) -> Launches | None:
    """Of `add_rows`, of rows that lie in line each and are not narrow."""
    index, x = inputs
    return None if out.shape[1] <= NARROW else _launch("add_rows", m, index, x, out, len(out))


def _launch(
    name: str, m: Machine, index: np.ndarray, x: np.ndarray, out: np.ndarray, rows: int
) -> Launches | None:
    tile = _tile(m, out.dtype)
    in_line = x.shape[1] == 1 or x.strides[1] == x.itemsize
    if name == "add_rows" and out.dtype.kind != "f":
        return None
    if tile is None or x.dtype != out.dtype or index.dtype.str[1:] not in ("i4", "i8"):
        return None
    if not in_line:
        return None
    units = max(1, min(m.threads, len(index) * out.shape[1] // LEAST))
    words: Words = [
        units, Fault(), address(out), address(index), address(x), len(index), index.itemsize,
        index.strides[0], rows, out.shape[1], out.strides[0], x.strides[0],
    ]  # fmt: skip
    return [(f"index.{name}.{out.dtype.name}", words)]


def _tile(m: Machine, dtype: np.dtype) -> Tile | None:
    """The vectors of a dtype, of float32 also those of other dtypes of its size."""
    if dtype.kind == "c" or dtype.itemsize not in (4, 8):
        return None
    real = "float" if dtype.itemsize == 4 else "double"
    return Tile(real, m.bits // (8 * dtype.itemsize), 1)


def text(m: Machine, name: str, dtype: np.dtype) -> str:
    """The module of a routine."""
    tile = _tile(m, dtype)
    assert tile is not None
    return module([_rows(tile, name == "add_rows")], m.bits)


def _rows(t: Tile, adds: bool) -> Assembler:
    """The rows that an index names, taken, or those that are added to."""
    f = Assembler("kernel", "ptr ptr i64 i64", linkage="")
    words, _, begin, end = f.params
    w = f.load_words(words, WORDS, _ADDRESSES)
    row = f.local()

    def each(first: Value, last: Value, low: Value, high: Value) -> None:
        """Indices from `first` to `last`, and of their rows the elements from `low` to `high`."""
        whole = high - (high - low) % t.lanes
        tail = f.lanes_below(high - whole, t.lanes)
        with f.count(first, last) as i:
            at = w["index"] + w["step"] * i
            with f.when(w["size"].equals(8)):
                row.set(f.load("i64", at, 4))
            with f.when(w["size"].equals(4)):
                row.set(f.load("i32", at, 4).extended())
            right = (row >= 0) & (row < w["rows"])
            with f.when(right.equals(0)):
                f.store(w["fault"], f.value(1, "i64"), 8)
            with f.when(right):
                named, other = (row, i) if adds else (i, row)
                to = w["to"] + w["to_row"] * named
                source = w["x"] + w["x_row"] * other
                with f.count(low, whole, t.lanes) as e:
                    value = f.load(t.vector, source + e * t.size, t.size)
                    if adds:
                        value = f.load(t.vector, to + e * t.size, t.size) + value
                    f.store(to + e * t.size, value, t.size)
                with f.when(whole < high):
                    place = to + whole * t.size
                    value = f.load_some(t.vector, source + whole * t.size, tail, t.size)
                    if adds:
                        value = f.load_some(t.vector, place, tail, t.size) + value
                    f.store_some(place, value, tail, t.size)

    nothing, width = f.value(0, "i64"), w["width"]
    with f.count(begin, end) as u:
        if adds:
            low, high = cut(width, u, w["units"], t.lanes)
            with f.count(0, w["rows"]) as r:
                to = w["to"] + w["to_row"] * r
                f.fill(to + low * t.size, (high - low) * t.size)
            each(nothing, w["n"], low, high)
        else:
            each(*cut(w["n"], u, w["units"]), nothing, width)
    return f
