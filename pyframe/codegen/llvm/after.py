"""What follows on a convolution, done to a part of its result that is still in cache.

It is any expression of elements: of the result, of arrays that lie like it, and of values that a
channel has, which are computed once, before. Such a function is compiled apart from the routines
that call it, by its address: a convolution is the same code whatever follows.

    void @kernel(ptr c, i64 c_row, i64 rows, i64 columns, ptr values, i64 value_bytes, ptr shifts)

writes over rows of `c`; each of their `values` lies so many bytes past the one before, and `shifts`
says how many bytes past `c` the other arrays lie.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

from pyframe.codegen.cpu.gemm import Tile
from pyframe.codegen.lanes.lower import meaning
from pyframe.codegen.lanes.values import LaneValue as Lanes, SsaBuilder, register
from pyframe.codegen.llvm.assembler import LlvmAssembler, LlvmValue, module
from pyframe.codegen.llvm.printer import NAME, LlvmPrinter
from pyframe.core import view as views
from pyframe.core.view import View
from pyframe.graph.program import Apply, ExternResult, Kernel, Load, ScalarParam, Store, operands

WORDS = "@after @values value_bytes @shifts"  # of a launch of what calls it


class CompiledEpilogue(NamedTuple):
    """A function, as machine code, and what it reads."""

    function: Any
    values: np.ndarray  # (values, channels), float32
    shifts: np.ndarray

    @property
    def words(self) -> dict[str, Any]:
        """The words of a launch."""
        return {
            "after": self.function, "values": self.values,
            "value_bytes": self.values.strides[0], "shifts": self.shifts,
        }  # fmt: skip


NONE = dict.fromkeys(("after", "values", "value_bytes", "shifts"), 0)


def call(f: LlvmAssembler, w: dict[str, LlvmValue], row: LlvmValue, *arguments: LlvmValue) -> None:
    """Write a call on some of c: where it begins, bytes between rows, which are those from `row`
    on of all groups, how many they are, and elements of each."""
    with f.when(w["after"].differs(0)):
        values = w["values"] + row * 4
        given = [*arguments, values, w["value_bytes"], w["shifts"]]
        listed = ", ".join(f"{x.type} {x.name}" for x in given)
        f.line(f"call void {w['after'].name}({listed})")


def text(t: Tile, code: Sequence[Any], bits: int) -> str:
    """The module of a function of this code, whose last value is written. A LaneParam stands for
    the value of a channel, a Load for the array of another binding."""
    f = LlvmAssembler(NAME, "ptr i64 i64 i64 ptr i64 ptr", linkage="", bits=bits)
    c, c_row, rows, columns, values, value_bytes, shifts = f.params
    count = sum(isinstance(i, ScalarParam) for i in code)
    apart = [f.load("i64", shifts + 8 * i.binding) for i in code if isinstance(i, Load)]
    whole = columns - columns % t.lanes
    some = f.lanes_below(columns - whole, t.lanes)
    with f.count(0, rows) as r:
        line, at = c + c_row * r, values + r * t.size
        fixed = [f.load(t.real, at + value_bytes * n).splat(t.lanes) for n in range(count)]

        def result(read: Callable[[LlvmValue], LlvmValue], place: LlvmValue) -> LlvmValue:
            others = iter([read(place + shift) for shift in apart])
            own = iter(fixed)
            return _value(f, t, code, [
                next(own) if isinstance(i, ScalarParam)
                else next(others) if isinstance(i, Load)
                else read(place)
                for i in code if not operands(i)
            ])  # fmt: skip

        with f.count(0, whole * t.size, t.bytes) as x:
            place = line + x
            f.store(place, result(lambda at: f.load(t.vector, at), place))
        with f.when(whole < columns):
            place = line + whole * t.size
            x = result(lambda at: f.load_some(t.vector, at, some, t.size), place)
            f.store_some(place, x, some, t.size)
    return module([f], bits)


def _value(f: LlvmAssembler, t: Tile, code: Sequence[Any], given: Sequence[LlvmValue]) -> LlvmValue:
    """What the code gives for these vectors, of which it takes one after the other."""
    made, printer = SsaBuilder((), -1, 0), LlvmPrinter(f)
    found: list[Lanes] = []
    left = iter(given)
    for i in code:
        if isinstance(i, Apply):
            args = [found[a] for a in i.args]
            types = tuple([a.type for a in args])
            found.append(made.expression(meaning(i.op, types, register(i.dtype)), args, {}))
        else:
            found.append(Lanes(made.new(), register(i.dtype), t.lanes, 0))
            printer.values[found[-1].id] = next(left)
    last = made.spread(found[-1], t.lanes)
    printer.statements(made.scopes[0].lines)
    return printer.values[last.id]


# --- what follows, cut in two

_DTYPES = ("float32", "bool")


class Epilogue(NamedTuple):
    """`code` is done to each element: a LaneParam stands for value number `word` of a channel, a
    Load for what number `binding` of `loads` reads, which lies like the result. `before` has the
    code of the values, of which it gives those of these numbers."""

    code: tuple[Any, ...]
    loads: tuple[Load, ...]
    before: tuple[Any, ...]
    values: tuple[int, ...]

    def values_of(
        self, space: Sequence[int], binding: int
    ) -> tuple[Sequence[Any], tuple[int, ...], Sequence[Store]]:
        """The part of a kernel that writes the values of channels, a row for each of them, to a
        binding: its code, space and stores."""
        shape = tuple([n if d == 1 else 1 for d, n in enumerate(space)])
        stores = []
        for k, n in enumerate(self.values):
            strides = tuple([int(d == 1) for d in range(len(space))])
            place = (View(shape, strides, k * space[1]),)
            stores.append(Store(binding, n, place, self.before[n].dtype))
        code = [
            i._replace(index_map=(i.index_map[0]._replace(shape=shape),))
            if isinstance(i, Load) else i
            for i in self.before
        ]  # fmt: skip
        return code, shape, stores


def epilogue(k: Kernel) -> Epilogue | None:
    """Of a kernel whose only result follows on its routine's; None if it has another form."""
    (store, *more) = k.stores
    places: list[tuple[bool, int]] = []  # of instructions: whether in `code`, and where
    code: list[Any] = []
    before: list[Any] = []
    values: list[int] = []
    loads: list[Load] = []
    given: dict[int, int] = {}  # where values of channels stand in `code`

    def at(n: int) -> int:
        deep, place = places[n]
        if deep:
            return place
        if place not in given:
            given[place] = len(code)
            code.append(ScalarParam(len(values), before[place].dtype))
            values.append(place)
        return given[place]

    for i in k.code:
        deep = isinstance(i, ExternResult)
        if (
            i.__class__ not in (ExternResult, Load, ScalarParam, Apply)
            or i.dtype.name not in _DTYPES
        ):
            return None
        if isinstance(i, Load):
            (v, *others) = i.index_map
            if others:
                return None
            along = [d for d, s in enumerate(v.strides) if s and k.space[d] > 1]
            deep = bool(along) and along != [1]
            plain = v.mask is None and i.dtype.name == "float32"
            if not plain or (deep and not views.is_contiguous((v._replace(offset=0),))):
                return None
            if deep:
                code.append(Load(len(loads), (), i.dtype))
                loads.append(i)
        elif isinstance(i, Apply):
            if i.index is not None:
                return None
            deep = any(places[a][0] for a in i.args)
            if deep:
                args = tuple([at(a) for a in i.args])
                code.append(i._replace(args=args))
            else:
                i = i._replace(args=tuple([places[a][1] for a in i.args]))
        elif deep:
            code.append(i)
        if not deep:
            before.append(i)
        places.append((deep, len(code) - 1 if deep else len(before) - 1))
    if more or places[store.value] != (True, len(code) - 1):
        return None
    if any(before[n].dtype.name != "float32" for n in values):
        return None
    return Epilogue(tuple(code), tuple(loads), tuple(before), tuple(values))
