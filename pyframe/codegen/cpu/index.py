"""Gather and scatter: of rows, and of elements along a dim.

One loop does all: for (o, j, i) the index names a row r, and something is done with the place
(o, r, i) of what is indexed and the value at (o, j, i). Parts of the work are ranges of i where
values are taken; else of o, so that one part writes a place, in the index's order.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np

from pyframe.codegen.cpu.assembler import F32, F64, I32, I64, WORD, Assembler
from pyframe.codegen.cpu.routines import (
    SCRATCH,
    Addr,
    Arrays,
    KernelBody,
    KernelInvocation,
    LibraryCall,
    parts,
)

Action = Callable[[Assembler, Any, Any, Any], None]  # with a place, a value and their bytes

TYPES = {"f4": F32, "f8": F64, "i4": I32, "i8": I64}
UFUNCS = {"sum": "add", "prod": "mul", "amax": "max", "amin": "min"}
NARROW = 16  # columns up to which sums of rows in float32 are kept in float64, as NumPy does
_STRIDES = [f"{x}_{d}" for x in ("place", "index", "value") for d in ("outer", "row", "inner")]
_SEGMENTS = "@to @bounds @order @source rows nbytes source_row"
_WORDS = f"@place @index @value outer m inner rows wide nbytes {' '.join(_STRIDES)}"


def _indexed(action: Action, shared: str = "outer") -> KernelBody:
    def write(f: Assembler, w: Any, first: Any, last: Any, part: Any) -> None:
        number = f.local(type=I64)
        of_all = {"outer": (0, w["outer"]), "inner": (0, w["inner"]), shared: (first, last)}
        with f.count(*of_all["outer"]) as o:
            place, index, value = (f.local(w[x] + o * w[x + "_outer"]) for x in _OPERANDS)
            with f.count(0, w["m"]):
                start = of_all["inner"][0]
                named = f.local(index + w["index_inner"] * start)
                given = f.local(value + w["value_inner"] * start)

                def along(
                    type: str,
                    start: Any = start,
                    named: Any = named,
                    given: Any = given,
                    place: Any = place,
                ) -> None:
                    with f.count(*of_all["inner"]) as i:
                        number.set(f.load(type, named).cast(I64))
                        with f.when(number.op("ge_u", w["rows"].cast(I64))):
                            f.fail()
                            f.otherwise()
                            row = number.cast("word") * w["place_row"]
                            here = f.local(place + row + i * w["place_inner"])
                            action(f, here, given, w["nbytes"])
                        named.add(w["index_inner"])
                        given.add(w["value_inner"])

                with f.when(w["wide"].differs(0)):
                    along(I64)
                    f.otherwise()
                    along(I32)
                index.add(w["index_row"])
                value.add(w["value_row"])

    return KernelBody(_WORDS, shared, write)


_OPERANDS = ("place", "index", "value")


def move(f: Assembler, to: Any, source: Any, nbytes: Any) -> None:
    """Write bytes that lie elsewhere, which may be one element."""
    with f.when(nbytes.equals(4)):
        f.store(to, f.load(I32, source))
        f.otherwise()
        with f.when(nbytes.equals(8)):
            f.store(to, f.load(I64, source))
            f.otherwise()
            f.copy(to, source, nbytes)


def _take(f: Assembler, place: Any, value: Any, nbytes: Any) -> None:
    move(f, value, place, nbytes)


def _combine(
    type: str, name: str, f: Assembler, place: Any, value: Any, nbytes: Any, vectors: bool = False
) -> None:
    """What lies at a place becomes it and the value together."""
    size = 8 if type in (F64, I64) else 4
    whole, lanes = f.local(0), f.lanes(type)
    if vectors:
        whole.set(nbytes - nbytes % (size * lanes))
        vector = f"{type}x{lanes}"
        with f.count(0, whole, size * lanes) as x:
            f.store(place + x, f.load(vector, place + x).op(name, f.load(vector, value + x)))
    with f.count(whole, nbytes, size) as x:
        f.store(place + x, f.load(type, place + x).op(name, f.load(type, value + x)))


def _add_wide(f: Assembler, place: Any, value: Any, nbytes: Any) -> None:
    with f.count(0, nbytes, 4) as x:
        at = f.local(place + x * 2)
        f.store(at, f.load(F64, at) + f.load(F32, value + x).cast(F64))


def _add_narrow(f: Assembler, w: Any, first: Any, last: Any, part: Any) -> None:
    """Sums of float32 in float64: they are in no parts."""
    f.fill(w["place"], w["size"] * 8)
    _ADD_WIDE.write(f, w, first, last, part)
    with f.count(0, w["size"]) as i:
        f.store(w["to"] + i * 4, f.load(F64, w["place"] + i * 8).cast(F32))


_ADD_WIDE = _indexed(_add_wide)


@contextmanager
def _segment(f: Assembler, w: Any, d: Any, column: Any = 0) -> Iterator[Any]:
    """For each source of result d, where its row begins, or a column of that."""
    start, end = (f.local(f.load(I64, w["bounds"] + (d + n) * 8).cast(WORD)) for n in (0, 1))
    with f.count(start, end) as j:
        row = f.load(I64, w["order"] + j * 8).cast(WORD)
        yield f.local(w["source"] + row * w["source_row"] + column)


def _segments(type: str, f: Assembler, w: Any, first: Any, last: Any, part: Any) -> None:
    with f.count(first, last) as d:
        to = f.local(w["to"] + d * w["nbytes"])
        f.fill(to, w["nbytes"])
        with _segment(f, w, d) as source:
            _combine(type, "add", f, to, source, w["nbytes"], vectors=True)


def _narrow_segments(f: Assembler, w: Any, first: Any, last: Any, part: Any) -> None:
    """Sums of float32 in float64, a column after the other."""
    total = f.local(type=F64)
    with f.count(first, last) as d, f.count(0, w["nbytes"], 4) as x:
        total.set(0.0)
        with _segment(f, w, d, x) as source:
            total.add(f.load(F32, source).cast(F64))
        f.store(w["to"] + d * w["nbytes"] + x, total.cast(F32))


def _fill(f: Assembler, w: Any, first: Any, last: Any, part: Any) -> None:
    f.fill(f.local(w["to"] + first), f.local(last - first))


def _copy(f: Assembler, w: Any, first: Any, last: Any, part: Any) -> None:
    f.copy(f.local(w["to"] + first), f.local(w["x"] + first), f.local(last - first))


BODIES = {
    "take": _indexed(_take, "inner"),
    "put": _indexed(move),
    "add_narrow": KernelBody(f"{_WORDS} @to size", "outer", _add_narrow),
    "segments_narrow": KernelBody(_SEGMENTS, "rows", _narrow_segments),
    "fill": KernelBody("@to nbytes", "nbytes", _fill, grain=64),
    "copy": KernelBody("@to @x nbytes", "nbytes", _copy, grain=64),
}
for _kind, _type in TYPES.items():
    BODIES[f"add_rows_{_kind}"] = _indexed(functools.partial(_combine, _type, "add", vectors=True))
    BODIES[f"segments_{_kind}"] = KernelBody(_SEGMENTS, "rows", functools.partial(_segments, _type))
    for _how, _name in UFUNCS.items():
        if _type in (F32, F64) or _name in ("add", "mul"):
            BODIES[f"{_how}_{_kind}"] = _indexed(functools.partial(_combine, _type, _name))


# --- plans

Strides = tuple[int, int, int]


def _call(
    function: str, operands: Strides, index: np.ndarray, sizes: Strides, rows: int, nbytes: int,
    strides: Sequence[Strides], work: int,
) -> KernelInvocation:  # fmt: skip
    """A call on a place, an index and values by number; `work` elements are to be shared."""
    (outer, m, inner), (place, of_index, of_value) = sizes, strides
    takes = function == "take"
    if inner == 1:  # the longest loop is within the others
        m, inner, place = 1, m, (*place[:2], 0)
        of_index, of_value = ((x[0], 0, x[1]) for x in (of_index, of_value))
    if takes and m == inner == 1:
        outer, inner, place = 1, outer, (0, place[1], place[0])
        of_index, of_value = ((0, 0, x[0]) for x in (of_index, of_value))
    wide, at = int(index.dtype.itemsize == 8), [Addr(n) for n in operands]
    words: tuple[int | Addr, ...] = (
        *at, outer, m, inner, rows, wide, nbytes, *place, *of_index, *of_value,
    )  # fmt: skip
    return KernelInvocation(function, words, parts(inner if takes else outer, work))


def _is_index(x: np.ndarray) -> bool:
    return x.dtype in (np.int32, np.int64)


def _has_whole_rows(*arrays: np.ndarray) -> bool:
    return all(x.shape[1] == 1 or x.strides[1] == x.itemsize for x in arrays)


def _of_rows(
    function: str, operands: Strides, place_row: int, x: np.ndarray, rows: int, values: np.ndarray,
    shares: bool = False,
) -> KernelInvocation:  # fmt: skip
    """A call on whole rows of an index x; `shares`: parts of the work are columns."""
    nbytes, count = values.shape[1] * values.itemsize, 1
    if shares:  # some columns each, of whole lines of cache
        most = parts(nbytes // 128, values.size)
        count = next(n for n in range(most, 0, -1) if n == 1 or nbytes % (64 * n) == 0)
    nbytes //= count
    strides = [(nbytes, place_row, 0), (0, x.strides[0], 0), (nbytes, values.strides[0], 0)]
    return _call(function, operands, x, (count, len(x), 1), rows, nbytes, strides, values.size)


def take_rows(inputs: Arrays, attrs: tuple[Any, ...], out: np.ndarray) -> LibraryCall | None:
    """The routine of `take_rows`, of rows that lie in line each."""
    x, index = inputs
    if not _is_index(index) or not _has_whole_rows(x):
        return None
    return LibraryCall((_of_rows("take", (0, 1, 2), x.strides[0], index, len(x), out),))


def put_rows(inputs: Arrays, attrs: tuple[Any, ...], out: np.ndarray) -> LibraryCall | None:
    """The routine of `put_rows`, of a contiguous base and of rows that lie in line each."""
    base, index, source = inputs
    if not _is_index(index) or not _has_whole_rows(source) or not base.flags.c_contiguous:
        return None
    put = _of_rows("put", (3, 1, 2), out.strides[0], index, len(out), source, True)
    return LibraryCall((_copied(out), put))


def put_row(inputs: Arrays, attrs: tuple[Any, ...], out: np.ndarray) -> LibraryCall | None:
    """The routine of `put_row`, of a contiguous base."""
    base, place, value = inputs
    call = _row(3, (1, 2), place, value, attrs, out)
    if call is None or not base.flags.c_contiguous:
        return None
    return LibraryCall((_copied(out), call))


def put_row_over(inputs: Arrays, attrs: tuple[Any, ...], out: np.ndarray) -> LibraryCall | None:
    """The routine of `put_row_over`."""
    place, value = inputs
    call = _row(2, (0, 1), place, value, attrs, out)
    return call and LibraryCall((call,))


def _row(
    to: int, operands: tuple[int, int], place: np.ndarray, value: np.ndarray, attrs: Any,
    out: np.ndarray,
) -> KernelInvocation | None:  # fmt: skip
    """A call that puts rows of a value, which lie in line each, at one place of each part."""
    _, offset, rows = attrs
    (outer, inner), size = value.shape, value.itemsize
    if not _is_index(place) or not _has_whole_rows(value) or out.itemsize != size:
        return None
    nbytes = inner * size
    words = (
        Addr(to, offset * size), *map(Addr, operands), outer, 1, 1, rows,
        int(place.dtype.itemsize == 8), nbytes, rows * nbytes, nbytes, 0, 0, 0, 0,
        value.strides[0], 0, 0,
    )  # fmt: skip
    return KernelInvocation("put", words, parts(outer, value.size))


def _copied(out: np.ndarray) -> KernelInvocation:
    """Operand 0 where the result, number 3, is to lie."""
    return KernelInvocation(
        "copy", (Addr(3), Addr(0), out.nbytes), parts(out.nbytes // 64, out.size)
    )


def add_rows(inputs: Arrays, attrs: tuple[Any, ...], out: np.ndarray) -> LibraryCall | None:
    """The routine of `add_rows`, of rows that lie in line each; it adds in the index's order."""
    index, source = inputs
    kind = source.dtype.str[1:]
    if not _is_index(index) or not _has_whole_rows(source) or kind not in TYPES:
        return None
    rows, width = out.shape
    if kind == "f4" and width <= NARROW:
        add = _of_rows("add_narrow", (SCRATCH, 0, 1), 8 * width, index, rows, source)
        words = *add.arguments, Addr(2), out.size
        return LibraryCall((add._replace(arguments=words),), 8 * out.size)
    add = _of_rows(f"add_rows_{kind}", (2, 0, 1), out.strides[0], index, rows, source, True)
    return LibraryCall(
        (KernelInvocation("fill", (Addr(2), out.nbytes), parts(out.nbytes // 64, out.size)), add)
    )


def add_segments(inputs: Arrays, attrs: tuple[Any, ...], out: np.ndarray) -> LibraryCall | None:
    """The routine of `add_segments`, of rows that lie in line each; it adds in the given order."""
    bounds, order, source = inputs
    kind, (rows, width) = source.dtype.str[1:], out.shape
    whole = all(x.dtype == np.int64 and x.flags.c_contiguous for x in (bounds, order))
    if not whole or not _has_whole_rows(source) or kind not in TYPES:
        return None
    words = (Addr(3), Addr(0), Addr(1), Addr(2), rows, width * out.itemsize, source.strides[0])
    name = "narrow" if kind == "f4" and width <= NARROW else kind
    return LibraryCall((KernelInvocation(f"segments_{name}", words, parts(rows, source.size)),))


def _three(x: np.ndarray, shape: tuple[int, ...], dim: int) -> Strides | None:
    """The strides of x, cut to `shape` beside `dim`, as (outer, dim, inner); None: these don't
    collapse."""
    part = x[tuple(slice(n if d != dim else None) for d, n in enumerate(shape))]
    outer, inner = part.shape[:dim], part.shape[dim + 1 :]
    found = part.reshape(math.prod(outer), part.shape[dim], math.prod(inner))
    if part.size and not np.may_share_memory(found, x):
        return None
    return found.strides[0], found.strides[1], found.strides[2]


def _along(function: str, operands: Strides, arrays: Arrays, dim: int) -> KernelInvocation | None:
    """A call on what is indexed, the index and the values."""
    indexed, x, _ = arrays
    strides = [_three(a, x.shape, dim) for a in arrays]
    if not _is_index(x) or indexed.itemsize not in (4, 8) or None in strides:
        return None
    shape = x.shape
    sizes = math.prod(shape[:dim]), shape[dim], math.prod(shape[dim + 1 :])
    return _call(
        function, operands, x, sizes, indexed.shape[dim], indexed.itemsize,
        [s for s in strides if s], x.size,
    )  # fmt: skip


def take_along(inputs: Arrays, attrs: tuple[Any, ...], out: np.ndarray) -> LibraryCall | None:
    """The routine of `take_along`."""
    call = _along("take", (0, 1, 2), (*inputs, out), attrs[0])
    return call and LibraryCall((call,))


def reorder(inputs: Arrays, attrs: tuple[Any, ...], out: np.ndarray) -> LibraryCall | None:
    """The routine of `reorder`."""
    return take_along(inputs, (1,), out)


def put_along(inputs: Arrays, attrs: tuple[Any, ...], out: np.ndarray) -> LibraryCall | None:
    """The routine of `put_along`, of a contiguous base."""
    return _into_copy("put", inputs, attrs[0], out)


def reduce_along(inputs: Arrays, attrs: tuple[Any, ...], out: np.ndarray) -> LibraryCall | None:
    """The routine of `reduce_along`, of a contiguous base; it reduces in the index's order."""
    kind, how = out.dtype.str[1:], attrs[1]
    if kind not in TYPES or (kind[0] == "i" and how not in ("sum", "prod")):
        return None
    return _into_copy(f"{how}_{kind}", inputs, attrs[0], out)


def add_along(inputs: Arrays, attrs: tuple[Any, ...], out: np.ndarray) -> LibraryCall | None:
    """The routine of `add_along`: see `reduce_along`."""
    return reduce_along(inputs, (*attrs, "sum"), out)


def _into_copy(function: str, inputs: Arrays, dim: int, out: np.ndarray) -> LibraryCall | None:
    base, index, source = inputs
    call = _along(function, (3, 1, 2), (out, index, source), dim)
    if call is None or not base.flags.c_contiguous:
        return None
    return LibraryCall((_copied(out), call))
