"""Gather and scatter in WebAssembly: of rows, and of elements along a dim.

One loop does all: for (o, j, i) the index names a row r, and something is done with the place
(o, r, i) of what is indexed and the value at (o, j, i). An index out of range traps.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from pyframe.codegen.wasm.assembler import F32, F32X4, F64, I32, I64, Assembler, Value
from pyframe.codegen.wasm.encoder import OP, Module
from pyframe.codegen.wasm.routines import SCRATCH, At, Call, Routine

Action = Callable[[Assembler, Value, Value, Value], None]  # with a place, a value and their bytes

_TYPES = {"f4": F32, "f8": F64, "i4": I32, "i8": I64}
_UFUNCS = {"sum": "add", "prod": "mul", "amax": "max", "amin": "min"}
_NARROW = 16  # columns up to which sums of rows in float32 are kept in float64, as NumPy does


def build(module: Module) -> None:
    """Add the functions to a module."""
    _indexed(module, "take", lambda f, place, value, n: _move(f, value, place, n))
    _indexed(module, "put", _move)
    _indexed(module, "add_rows", _add_row)
    _indexed(module, "add_wide", _add_wide)
    for kind, type in _TYPES.items():
        for how, name in _UFUNCS.items():
            if type in (F32, F64) or name in ("add", "mul"):
                _indexed(module, f"{how}_{kind}", _combine(type, name))
    f = Assembler(module, "fill", "i32 i32", export=True)
    f.fill(f.params[0], 0, f.params[1])
    f = Assembler(module, "copy", "i32 i32 i32", export=True)
    f.copy(*f.params)
    f = Assembler(module, "demote", "i32 i32 i32", export=True)
    to, source, n = f.params
    with f.count(0, n * 4, 4) as at:
        f.store(to + at, f.load(F64, source + at * 2).to("f32.demote_f64"))


def _move(f: Assembler, to: Value, source: Value, nbytes: Value) -> None:
    with f.when(nbytes.equals(4)):
        f.store(to, f.load(I32, source))
        f.otherwise()
        with f.when(nbytes.equals(8)):
            f.store(to, f.load(I64, source))
            f.otherwise()
            f.copy(to, source, nbytes)


def _combine(type: str, name: str) -> Action:
    def action(f: Assembler, place: Value, value: Value, nbytes: Value) -> None:
        with f.count(0, nbytes, 8 if type in (F64, I64) else 4) as x:
            f.store(place + x, f.load(type, place + x).op(name, f.load(type, value + x)))

    return action


def _add_row(f: Assembler, place: Value, value: Value, nbytes: Value) -> None:
    whole = f.local(nbytes & -16)
    with f.count(0, whole, 16) as x:
        f.store(place + x, f.load(F32X4, place + x) + f.load(F32X4, value + x))
    with f.count(whole, nbytes, 4) as x:
        f.store(place + x, f.load(F32, place + x) + f.load(F32, value + x))


def _add_wide(f: Assembler, place: Value, value: Value, nbytes: Value) -> None:
    with f.count(0, nbytes, 4) as x:
        at = f.local(place + x * 2)
        f.store(at, f.load(F64, at) + f.load(F32, value + x).to("f64.promote_f32"))


def _indexed(module: Module, name: str, action: Action) -> None:
    f = Assembler(module, name, "i32 " * 18, export=True)
    place, index, value, outer, m, inner, rows, wide, nbytes, *strides = f.params
    places, indices, values = strides[:3], strides[3:6], strides[6:]
    row = f.local()
    with f.count(0, outer) as o, f.count(0, m) as j, f.count(0, inner) as i:
        at = f.local(_place(index, (o, j, i), indices))
        with f.when(wide):
            number = f.load(I64, at)
            with f.when(number.op("ge_u", rows.to("i64.extend_i32_u"), type=I32)):
                f.code += OP["unreachable"]
            row.set(number.to("i32.wrap_i64"))
            f.otherwise()
            row.set(f.load(I32, at))
            with f.when(row.op("ge_u", rows)):
                f.code += OP["unreachable"]
        here = f.local(_place(place, (o, row, i), places))
        action(f, here, f.local(_place(value, (o, j, i), values)), nbytes)


def _place(start: Value, at: Sequence[Value], strides: Sequence[Value]) -> Value:
    for i, stride in zip(at, strides, strict=True):
        start = start + i * stride
    return start


# --- plans

Arrays = Sequence[np.ndarray]
Strides = tuple[int, int, int]


def _call(
    function: str, place: int, index: int, value: int, x: np.ndarray, sizes: Strides, rows: int,
    nbytes: int, *strides: Strides,
) -> Call:  # fmt: skip
    """A call on operands by number; `x` is the index."""
    wide = int(x.dtype.itemsize == 8)
    flat = [s for three in strides for s in three]
    return Call(function, (At(place), At(index), At(value), *sizes, rows, wide, nbytes, *flat))


def _is_index(x: np.ndarray) -> bool:
    return x.dtype in (np.int32, np.int64)


def _has_whole_rows(*arrays: np.ndarray) -> bool:
    return all(x.shape[1] == 1 or x.strides[1] == x.itemsize for x in arrays)


def _of_rows(
    function: str, place: int, index: int, value: int, place_row: int, x: np.ndarray, rows: int,
    values: np.ndarray,
) -> Call:  # fmt: skip
    nbytes = values.shape[1] * values.itemsize
    return _call(
        function, place, index, value, x, (1, len(x), 1), rows, nbytes, (0, place_row, 0),
        (0, x.strides[0], 0), (0, values.strides[0], 0),
    )  # fmt: skip


def take_rows(inputs: Arrays, attrs: tuple[Any, ...], out: np.ndarray) -> Routine | None:
    """The routine of `take_rows`, of rows that lie in line each."""
    x, index = inputs
    if not _is_index(index) or not _has_whole_rows(x):
        return None
    return Routine((_of_rows("take", 0, 1, 2, x.strides[0], index, len(x), out),))


def put_rows(inputs: Arrays, attrs: tuple[Any, ...], out: np.ndarray) -> Routine | None:
    """The routine of `put_rows`, of a contiguous base and of rows that lie in line each."""
    base, index, source = inputs
    if not _is_index(index) or not _has_whole_rows(source) or not base.flags.c_contiguous:
        return None
    put = _of_rows("put", 3, 1, 2, out.strides[0], index, len(out), source)
    return Routine((Call("copy", (At(3), At(0), out.nbytes)), put))


def add_rows(inputs: Arrays, attrs: tuple[Any, ...], out: np.ndarray) -> Routine | None:
    """The routine of `add_rows`, of rows that lie in line each; it adds in the index's order."""
    index, source = inputs
    kind = source.dtype.str[1:]
    if not _is_index(index) or not _has_whole_rows(source) or kind not in _TYPES:
        return None
    rows, width = out.shape
    if kind == "f4" and width <= _NARROW:
        nbytes = 8 * out.size
        add = _of_rows("add_wide", SCRATCH, 0, 1, 8 * width, index, rows, source)
        fill = Call("fill", (At(SCRATCH), nbytes))
        return Routine((fill, add, Call("demote", (At(2), At(SCRATCH), out.size))), nbytes)
    name = "add_rows" if kind == "f4" else f"sum_{kind}"
    add = _of_rows(name, 2, 0, 1, out.strides[0], index, rows, source)
    return Routine((Call("fill", (At(2), out.nbytes)), add))


def _three(x: np.ndarray, shape: tuple[int, ...], dim: int) -> Strides | None:
    """The strides of x, cut to `shape` beside `dim`, as (outer, dim, inner); None: these don't
    collapse."""
    part = x[tuple(slice(n if d != dim else None) for d, n in enumerate(shape))]
    outer, inner = part.shape[:dim], part.shape[dim + 1 :]
    found = part.reshape(int(np.prod(outer)), part.shape[dim], int(np.prod(inner)))
    if part.size and not np.may_share_memory(found, x):
        return None
    return found.strides[0], found.strides[1], found.strides[2]


def _along(
    function: str, place: int, index: int, value: int, arrays: Arrays, dim: int
) -> Call | None:
    """A call on what is indexed, the index and the values."""
    indexed, x, _ = arrays
    strides = [_three(a, x.shape, dim) for a in arrays]
    if not _is_index(x) or indexed.itemsize not in (4, 8) or None in strides:
        return None
    shape = x.shape
    sizes = int(np.prod(shape[:dim])), shape[dim], int(np.prod(shape[dim + 1 :]))
    return _call(
        function, place, index, value, x, sizes, indexed.shape[dim], indexed.itemsize,
        *[s for s in strides if s],
    )  # fmt: skip


def take_along(inputs: Arrays, attrs: tuple[Any, ...], out: np.ndarray) -> Routine | None:
    """The routine of `take_along`."""
    call = _along("take", 0, 1, 2, (*inputs, out), attrs[0])
    return call and Routine((call,))


def reorder(inputs: Arrays, attrs: tuple[Any, ...], out: np.ndarray) -> Routine | None:
    """The routine of `reorder`."""
    return take_along(inputs, (1,), out)


def put_along(inputs: Arrays, attrs: tuple[Any, ...], out: np.ndarray) -> Routine | None:
    """The routine of `put_along`, of a contiguous base."""
    return _into_copy("put", inputs, attrs[0], out)


def reduce_along(inputs: Arrays, attrs: tuple[Any, ...], out: np.ndarray) -> Routine | None:
    """The routine of `reduce_along`, of a contiguous base; it reduces in the index's order."""
    kind, how = out.dtype.str[1:], attrs[1]
    if kind not in _TYPES or (kind[0] == "i" and how not in ("sum", "prod")):
        return None
    return _into_copy(f"{how}_{kind}", inputs, attrs[0], out)


def add_along(inputs: Arrays, attrs: tuple[Any, ...], out: np.ndarray) -> Routine | None:
    """The routine of `add_along`: see `reduce_along`."""
    return reduce_along(inputs, (*attrs, "sum"), out)


def _into_copy(function: str, inputs: Arrays, dim: int, out: np.ndarray) -> Routine | None:
    base, index, source = inputs
    call = _along(function, 3, 1, 2, (out, index, source), dim)
    if call is None or not base.flags.c_contiguous:
        return None
    return Routine((Call("copy", (At(3), At(0), out.nbytes)), call))
