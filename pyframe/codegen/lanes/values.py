"""The builder of a lane program's values: each is computed once, in the outermost loop that knows
all its operands, and as a scalar where all lanes have the same."""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from pyframe.codegen.lanes.axis import linear
from pyframe.codegen.lanes.program import (
    INDEX,
    Iota,
    Lane,
    LaneConst,
    LaneLoad as LoadLanes,
    LaneOp,
    Splat,
    UnsupportedKernelError,
)
from pyframe.core.dtypes import dtype as DType
from pyframe.core.sizes import SymbolicSize, is_symbolic_size
from pyframe.core.view import IndexMap
from pyframe.graph import scalar as s
from pyframe.graph.loops import axes_of, position
from pyframe.graph.scalar import Scalar

# How a dtype is computed with, and how it lies in memory; complex numbers have no form.
REGISTER = {"float32": "f32", "float64": "f64", "float16": "f32", "bfloat16": "f32", "bool": "bool"}
STORED = {**REGISTER, "float16": "f16"}
for _n in (8, 16, 32, 64):
    for _kind, _name in (("i", "int"), ("u", "uint")):
        REGISTER[f"{_name}{_n}"] = STORED[f"{_name}{_n}"] = f"{_kind}{_n}"
NARROW = ("float16", "bfloat16")  # registers are wider: results are rounded


# of positions that are known; they are never negative where they are divided
FOLDED: dict[str, Callable[..., int]] = {
    "add": operator.add, "sub": operator.sub, "mul": operator.mul, "div": operator.floordiv,
    "rem": operator.mod, "min": min, "max": max, "cast": int,
}  # fmt: skip


def _cut_by_size(x: Scalar) -> bool:
    by = x.args[-1] if x.op in ("div", "rem") else None
    return by is not None and by.op == "const" and is_symbolic_size(by.value)


def _shift(by: int) -> int:
    return 31 + (by - 1).bit_length()


def _factor(by: int) -> int:
    """What a number below 2^31 is multiplied with before the shift (Granlund & Montgomery 1994)."""
    return (1 << _shift(by)) // by + 1


class LaneValue(NamedTuple):
    """A value, and in which of the loops that are open it is computed."""

    id: int
    type: str
    lanes: int
    depth: int


class LoopScope:
    """An open loop: its statements, and what is known in it. One round of an unrolled loop is part
    of `outer`, where all is stated, but has the kernel's values for itself."""

    def __init__(self, outer: LoopScope | None = None) -> None:
        self.lines: list[Any] = outer.lines if outer else []
        self.numbered: dict[Any, LaneValue] = outer.numbered if outer else {}  # by what computes it
        self.values: dict[int, LaneValue] = {}  # of the kernel's instructions


def register(d: DType) -> str:
    """The type that values of a dtype have in registers."""
    found = REGISTER.get(d.name)
    if found is None:
        raise UnsupportedKernelError(f"{d.name} has no form in registers")
    return found


class SsaBuilder:
    """What is stated so far, and the loops that are open."""

    def __init__(self, space: Sequence[int], axis: int, bindings: int) -> None:
        self.space, self.axis = tuple(space), axis  # the lane axis; -1 if there is none
        self.bindings, self.sizes = bindings, dict[SymbolicSize, int]()  # see `size`
        self.count = 0
        self.numbers: dict[int, Any] = {}  # of values that are known
        self.scopes: list[LoopScope] = [LoopScope()]
        self.indices: dict[int, LaneValue] = {}  # of the axes that are walked, in the first lane
        self.lanes = 1  # of the statements that are being made

    def new(self) -> int:
        self.count += 1
        return self.count - 1

    def emit(
        self, key: Any, make: Callable[[int], Any], type: str, lanes: int, depth: int
    ) -> LaneValue:
        """The value that `make` states, once for equal keys."""
        scope = self.scopes[depth]
        found = scope.numbered.get(key)
        if found is None:
            found = scope.numbered[key] = LaneValue(self.new(), type, lanes, depth)
            scope.lines.append(make(found.id))
        return found

    def const(self, value: Any, type_: str) -> LaneValue:
        if type(value) is SymbolicSize:
            return self.size(value, type_)
        key = ("const", repr(value), type_)
        found = self.emit(key, lambda n: LaneConst(n, value, type_), type_, 1, 0)
        self.numbers[found.id] = value
        return found

    def size(self, x: SymbolicSize, type: str) -> LaneValue:
        """A size that changes, which a binding after the kernel's own holds."""
        number = self.sizes.setdefault(x, len(self.sizes))
        at, kind = self.const(number, INDEX), "i64" if type == "i64" else INDEX
        found = self.emit(
            ("size", number, kind),
            lambda n: LoadLanes(n, self.bindings, at.id, 0, -1, "i64", kind, 1), kind, 1, 0,
        )  # fmt: skip
        return found if type == kind else self.op("cast", found, type=type)

    def spread(self, x: LaneValue, lanes: int) -> LaneValue:
        """`x` in this many lanes."""
        if x.lanes == lanes:
            return x
        key = ("splat", x.id, lanes)
        return self.emit(key, lambda n: Splat(n, x.id, x.type, lanes), x.type, lanes, x.depth)

    def op(self, name: str, *args: LaneValue, type: str = "", value: Any = None) -> LaneValue:
        """A primitive, in as many lanes as its operands have."""
        lanes = max(a.lanes for a in args)
        args = tuple([self.spread(a, lanes) for a in args])
        from_ = args[1 if name == "select" else 0].type
        out = type or from_
        ids = tuple([a.id for a in args])
        if from_ == INDEX and name in FOLDED and all(n in self.numbers for n in ids):
            return self.const(FOLDED[name](*[self.numbers[n] for n in ids]), out)
        depth = max(a.depth for a in args)
        key = (name, ids, out, value)
        return self.emit(
            key, lambda n: LaneOp(n, name, ids, from_, out, lanes, value), out, lanes, depth
        )

    def expression(
        self, x: Scalar, args: Sequence[LaneValue], seen: dict[int, LaneValue]
    ) -> LaneValue:
        """The value of a Scalar for these operands; `seen` has what it shares with others."""
        found = seen.get(id(x))
        if found is None:
            found = seen[id(x)] = self._expression(x, args, seen)
        return found

    def _expression(
        self, x: Scalar, args: Sequence[LaneValue], seen: dict[int, LaneValue]
    ) -> LaneValue:
        if x.op == "arg":
            return args[x.value]
        if x.op == "const":
            return self.const(x.value, x.type)
        operands = [self.expression(a, args, seen) for a in x.args]
        if x.op == "call":
            body = s.inlined(x)
            if body is None:
                raise UnsupportedKernelError(
                    f"{x.value} of {x.args[0].type} has no form but in WGSL"
                )
            return self.expression(body, operands, {})
        return self.op(x.op, *operands, type=x.type, value=x.value)

    # --- indices and positions

    def located(self, x: Scalar) -> LaneValue:
        """A Scalar over the indices, of type index, in the first lane."""
        if x.op == "index":
            return self.indices[x.value]
        if x.op == "const":
            return self.const(x.value, x.type)
        if _cut_by_size(x):
            return self.divided(x.op, self.located(x.args[0]), x.args[1].value)
        return self.op(x.op, *[self.located(a) for a in x.args], type=x.type)

    def divided(self, op: str, x: LaneValue, by: SymbolicSize) -> LaneValue:
        """The quotient ("div") or the remainder of a position, which is less than 2^31, and a size
        that changes: by a product, as processors divide slowly, and no vectors at all."""
        if self.axis < 0:  # then positions may be larger
            return self.op(op, x, self.op("cast", self.const(by, INDEX), type=x.type))
        wide = self.op("cast", x, type="i64")
        shift = by.sizes.atom(_shift, "31 + ({0} - 1).bit_length()", by)
        factor = by.sizes.atom(_factor, "(1 << 31 + ({0} - 1).bit_length()) // {0} + 1", by)
        product = self.op("mul", wide, self.const(factor, "i64"))
        found = self.op("cast", self.op("shr", product, self.const(shift, "i64")), type=x.type)
        if op == "div":
            return found
        size = self.op("cast", self.const(by, INDEX), type=x.type)
        return self.op("sub", x, self.op("mul", found, size))

    def in_lanes(self, x: Scalar) -> LaneValue:
        """The same in every lane: of type i32 where it differs among them."""
        if self.lanes == 1 or linear(x, self.axis, self.lanes) == 0:
            return self.located(x)
        if x.op == "index":
            first = self.op("cast", self.indices[x.value], type="i32")
            key = ("iota", self.lanes)
            iota = self.emit(key, lambda n: Iota(n, "i32", self.lanes), "i32", self.lanes, 0)
            return self.op("add", first, iota)
        if _cut_by_size(x):
            whole = self.in_lanes(x.args[0])
            whole = self.op("cast", whole, type="i32") if whole.type == INDEX else whole
            return self.divided(x.op, whole, x.args[1].value)
        operands = [self.in_lanes(a) for a in x.args]
        narrow = [self.op("cast", v, type="i32") if v.type == INDEX else v for v in operands]
        return self.op(x.op, *narrow, type="i32" if x.type == INDEX else x.type)

    def place(self, index_map: IndexMap) -> tuple[LaneValue, int | None, LaneValue | None, int]:
        """Where an index map's elements lie: the first or, without a stride, all, the stride, which
        of them are there, and how many they are."""
        at, valid = position(index_map, self.space)
        exists = None if valid is None else self.in_lanes(valid)
        inside = self.lanes > 1 and self.axis in axes_of(index_map)
        stride = linear(at, self.axis, self.lanes) if inside else 0
        if stride == 0 and (exists is None or exists.lanes == 1):
            return self.located(at), 0, exists, 1
        if exists is not None:
            exists = self.spread(exists, self.lanes)
        if stride is None:
            return self.op("cast", self.in_lanes(at), type=INDEX), None, exists, self.lanes
        return self.located(at), stride, exists, self.lanes

    def lane(self, x: LaneValue, at: int) -> LaneValue:
        key = ("lane", x.id, at)
        return self.emit(key, lambda n: Lane(n, x.id, at, x.type, x.lanes), x.type, 1, x.depth)
