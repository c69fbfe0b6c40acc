"""From a kernel's loops to a lane program.

One axis is walked `width` elements at a time, in the lanes of vectors: the one along which memory
lies, on whichever level it is. Every value is computed in the outermost loop in which all that it
needs is known, once, and as a scalar where it is the same in all lanes. Sums are kept in many
parts, in lanes and beside each other, and carried on in blocks: so their errors stay small, and
their order depends on shapes alone.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from pyframe.codegen.lanes.program import (
    INDEX,
    Const,
    For,
    Function,
    Get,
    Iota,
    Lane,
    Load as LoadLanes,
    NoFormError,
    Op,
    Param as ReadParam,
    Rotate,
    Set,
    Splat,
    Store as StoreLanes,
    Unit,
    Var,
)
from pyframe.core.dtypes import dtype as DType
from pyframe.core.op import REGISTRY
from pyframe.core.view import IndexMap
from pyframe.graph import scalar as s
from pyframe.graph.loops import Let, Loop, Nest, Write, axes_of, combine_of, nest, position, type_of
from pyframe.graph.program import Apply, Kernel, Load, Param, Reduce, Store, Valid
from pyframe.graph.scalar import Scalar

GRAIN = 1 << 16  # elements times instructions of a unit of work
MAX_UNITS = 1 << 10
SUMMED = 128  # rounds after which a sum is carried on
TINY = 4  # instructions of a reduction that is made in several parts side by side
SCATTERED = 2  # times what a load costs, a store
LEAST = 4  # lanes of a vector
PARTS = 4  # of such a reduction: an addition waits for the one before it, these don't

# How a dtype is computed with, and how it lies in memory; complex numbers have no form.
REGISTER = {"float32": "f32", "float64": "f64", "float16": "f32", "bfloat16": "f32", "bool": "bool"}
STORED = {**REGISTER, "float16": "f16"}
for _n in (8, 16, 32, 64):
    for _kind, _name in (("i", "int"), ("u", "uint")):
        REGISTER[f"{_name}{_n}"] = STORED[f"{_name}{_n}"] = f"{_kind}{_n}"
NARROW = ("float16", "bfloat16")  # registers are wider: results are rounded


class Value(NamedTuple):
    """A value, and in which of the loops that are open it is computed."""

    id: int
    type: str
    lanes: int
    depth: int


class Range(NamedTuple):
    """A part of an axis: where it begins and ends, and how many elements it may have."""

    start: Value
    stop: Value
    lengths: tuple[int, ...]


class Scope:
    """An open loop: its statements, and what is known in it."""

    def __init__(self) -> None:
        self.lines: list[Any] = []
        self.numbered: dict[Any, Value] = {}  # by what computes it
        self.values: dict[int, Value] = {}  # of the kernel's instructions


def register(d: DType | None) -> str:
    """The type that values of a dtype have in registers; that of a Valid, None, is bool."""
    if d is None:
        return "bool"
    found = REGISTER.get(d.name)
    if found is None:
        raise NoFormError(f"{d.name} has no form in registers")
    return found


def lower(kernel: Kernel, width: Callable[[set[str]], int], label: str = "") -> Function:
    """`kernel`, which is no routine, as a lane program. `width` says how many lanes vectors of
    these types are to have. NoFormError says what has no form."""
    return _Lowering(nest(kernel), kernel, width, label).function()


class _Lowering:
    def __init__(
        self, nested: Nest, kernel: Kernel, width: Callable[[set[str]], int], label: str
    ) -> None:
        self.nest, self.kernel, self.label = nested, kernel, label
        self.code, self.space = nested.code, nested.space
        self.varies = _axes_of_values(nested.code)
        self.count = 0
        self.scopes: list[Scope] = [Scope()]
        self.indices: dict[int, Value] = {}  # of the axes that are walked, in the first lane
        self.lanes = 1  # of the statements that are being made
        types = {register(type_of(i)) for i in self.code}
        types |= {register(w.dtype) for w in kernel.stores}
        self.axis, self.width = self._lane_axis(width(types))
        self.order = [
            sorted(axes, key=lambda d: (d == self.axis, d)) for axes in nested.levels
        ]  # the lane axis is the innermost of its level
        weight = len(self.code) + len(kernel.stores)
        self.work = weight * math.prod(self.space)

    # --- which axis lies in lanes

    def _lane_axis(self, width: int) -> tuple[int, int]:
        """The axis along which lanes cost least, and how many there are; (-1, 1): none."""
        ops = sum(isinstance(i, (Apply, Reduce)) for i in self.code)
        maps = [i.index_map for i in self.code if isinstance(i, Load)]
        loads = [position(m, self.space).at for m in maps]
        stores = [position(w.index_map, self.space).at for w in self.nest.stores]
        maps += [w.index_map for w in self.nest.stores]
        best, axis, lanes = float(ops + len(maps)), -1, 1
        if width == 1 or _extent(self.space, maps) >= 2**31:  # indices in lanes are 32 bits
            return axis, lanes
        for d, n in enumerate(self.space):
            grid = d in self.nest.levels[0]
            for w in [w for w in _powers(width) if w <= n]:
                cost = ops + sum(_cost(at, d, w) for at in loads)
                cost += sum(_cost(at, d, w) * SCATTERED for at in stores)
                rest = n % w if not grid else min(n % w, 4)  # which take fewer lanes, see _stages
                cost *= (n // w + rest) / n
                if cost < best or (cost == best and d != axis):
                    best, axis, lanes = cost, d, w
        return axis, lanes

    # --- statements

    def new(self) -> int:
        self.count += 1
        return self.count - 1

    def emit(
        self, key: Any, make: Callable[[int], Any], type: str, lanes: int, depth: int
    ) -> Value:
        """The value that `make` states, once for equal keys."""
        scope = self.scopes[depth]
        found = scope.numbered.get(key)
        if found is None:
            found = scope.numbered[key] = Value(self.new(), type, lanes, depth)
            scope.lines.append(make(found.id))
        return found

    def const(self, value: Any, type: str) -> Value:
        key = ("const", repr(value), type)
        return self.emit(key, lambda n: Const(n, value, type), type, 1, 0)

    def spread(self, x: Value, lanes: int) -> Value:
        """`x` in this many lanes."""
        if x.lanes == lanes:
            return x
        key = ("splat", x.id, lanes)
        return self.emit(key, lambda n: Splat(n, x.id, x.type, lanes), x.type, lanes, x.depth)

    def op(self, name: str, *args: Value, type: str = "", value: Any = None) -> Value:
        """A primitive, in as many lanes as its operands have."""
        lanes = max(a.lanes for a in args)
        args = tuple([self.spread(a, lanes) for a in args])
        from_ = args[1 if name == "select" else 0].type
        out = type or from_
        ids = tuple([a.id for a in args])
        depth = max(a.depth for a in args)
        key = (name, ids, out, value)
        return self.emit(
            key, lambda n: Op(n, name, ids, from_, out, lanes, value), out, lanes, depth
        )

    def expression(self, x: Scalar, args: Sequence[Value], seen: dict[int, Value]) -> Value:
        """The value of a Scalar for these operands; `seen` has what it shares with others."""
        found = seen.get(id(x))
        if found is None:
            found = seen[id(x)] = self._expression(x, args, seen)
        return found

    def _expression(self, x: Scalar, args: Sequence[Value], seen: dict[int, Value]) -> Value:
        if x.op == "arg":
            return args[x.value]
        if x.op == "const":
            return self.const(x.value, x.type)
        operands = [self.expression(a, args, seen) for a in x.args]
        if x.op == "call":
            body = s.inlined(x)
            if body is None:
                raise NoFormError(f"{x.value} of {x.args[0].type} has no form but in WGSL")
            return self.expression(body, operands, {})
        return self.op(x.op, *operands, type=x.type, value=x.value)

    # --- indices and positions

    def located(self, x: Scalar) -> Value:
        """A Scalar over the indices, of type index, in the first lane."""
        if x.op == "index":
            return self.indices[x.value]
        if x.op == "const":
            return self.const(x.value, x.type)
        return self.op(x.op, *[self.located(a) for a in x.args], type=x.type)

    def in_lanes(self, x: Scalar) -> Value:
        """The same in every lane: of type i32 where it differs among them."""
        if self.lanes == 1 or _linear(x, self.axis, self.lanes) == 0:
            return self.located(x)
        if x.op == "index":
            first = self.op("cast", self.indices[x.value], type="i32")
            key = ("iota", self.lanes)
            iota = self.emit(key, lambda n: Iota(n, "i32", self.lanes), "i32", self.lanes, 0)
            return self.op("add", first, iota)
        operands = [self.in_lanes(a) for a in x.args]
        narrow = [self.op("cast", v, type="i32") if v.type == INDEX else v for v in operands]
        return self.op(x.op, *narrow, type="i32" if x.type == INDEX else x.type)

    def place(self, index_map: IndexMap) -> tuple[Value, int | None, Value | None, int]:
        """Where an index map's elements lie: the first or, without a stride, all, the stride, which
        of them are there, and how many they are."""
        at, valid = position(index_map, self.space)
        exists = None if valid is None else self.in_lanes(valid)
        inside = self.lanes > 1 and self.axis in axes_of(index_map)
        stride = _linear(at, self.axis, self.lanes) if inside else 0
        if stride == 0 and (exists is None or exists.lanes == 1):
            return self.located(at), 0, exists, 1
        if exists is not None:
            exists = self.spread(exists, self.lanes)
        if stride is None:
            return self.op("cast", self.in_lanes(at), type=INDEX), None, exists, self.lanes
        return self.located(at), stride, exists, self.lanes

    # --- instructions

    def value(self, k: int) -> Value:
        """The value of instruction k, which is known."""
        for scope in reversed(self.scopes):
            found = scope.values.get(k)
            if found is not None:
                return found
        raise AssertionError(f"instruction {k} is not known here")

    def let(self, k: int) -> None:
        """Compute instruction k."""
        if any(k in scope.values for scope in self.scopes):
            return
        found = self.computed(self.code[k])
        self.scopes[found.depth].values[k] = found

    def computed(self, i: Any) -> Value:
        if isinstance(i, Load):
            return self.load(i)
        if isinstance(i, Param):
            key, type = ("param", i.word), register(i.dtype)
            form = STORED[i.dtype.name]
            return self.emit(key, lambda n: ReadParam(n, i.word, form, type), type, 1, 0)
        if isinstance(i, Valid):
            valid = position(i.index_map, self.space).valid
            return self.const(True, "bool") if valid is None else self.in_lanes(valid)
        if isinstance(i, Apply):
            return self.applied(i)
        if isinstance(i, Reduce):  # over axes of size 1
            if combine_of(i).arg:
                return self.const(0, register(i.dtype))
            return self.converted(self.value(i.arg), i.dtype)
        raise NoFormError(f"{i.__class__.__name__} has no form")

    def load(self, i: Load) -> Value:
        type, form = register(i.dtype), STORED[i.dtype.name]
        at, stride, valid, lanes = self.place(i.index_map)
        which = -1 if valid is None else valid.id
        key = ("load", i.binding, at.id, stride, which, form, lanes)
        depth = max(at.depth, 0 if valid is None else valid.depth)
        if lanes > 1:
            depth = max(depth, self.indices[self.axis].depth)
        return self.emit(
            key,
            lambda n: LoadLanes(n, i.binding, at.id, stride, which, form, type, lanes),
            type, lanes, depth,
        )  # fmt: skip

    def applied(self, i: Apply) -> Value:
        op: Any = REGISTRY[i.op]
        if op.scalar is None:
            raise NoFormError(f"{i.op} has no scalar meaning")
        args = [self.value(a) for a in i.args]
        if i.index is not None:
            flat = self.in_lanes(position(i.index, self.space).at)
            args.append(self.op("cast", flat, type="i32") if flat.type == INDEX else flat)
        types = tuple([a.type for a in args[: len(i.args)]])
        meaning = _meaning(i.op, types, register(i.dtype))
        return self.converted(self.expression(meaning, args, {}), i.dtype)

    def converted(self, x: Value, d: DType) -> Value:
        """`x` as a value of dtype `d`."""
        type = register(d)
        if x.type != type:
            x = self.op("cast", x, type=type)
        return self.op("narrow", x, value=d.name) if d.name in NARROW else x

    def write(self, w: Store) -> None:
        """A store of the kernel, behind all statements so far."""
        at, stride, _, lanes = self.place(w.index_map)
        x, type = self.value(w.value), register(w.dtype)
        if x.type != type:
            x = self.op("cast", x, type=type)
        if lanes > 1:
            x = self.spread(x, lanes)
        elif x.lanes > 1:
            x = self.lane(x, 0)
        form = STORED[w.dtype.name]
        self.scopes[-1].lines.append(StoreLanes(w.binding, at.id, stride, x.id, form, type, lanes))

    def lane(self, x: Value, at: int) -> Value:
        key = ("lane", x.id, at)
        return self.emit(key, lambda n: Lane(n, x.id, at, x.type, x.lanes), x.type, 1, x.depth)

    # --- loops

    def function(self) -> Function:
        root = self.scopes[0]
        units = self.units()
        body = tuple(root.lines)
        return Function(self.label, self.kernel.bindings, units, self.work, body)

    def units(self) -> int:
        """Make the loops of level 0; how many units of work they are cut into."""
        axes = self.order[0]
        sizes = [self.space[d] for d in axes]
        if not all(sizes):
            return 0
        grain = max(GRAIN, self.work // MAX_UNITS)
        inner = self.work
        cut, block, blocks = (
            0,
            0,
            1,
        )  # units have `block` elements of axis `cut`, one of those before
        for cut, n in enumerate(sizes):
            inner //= n
            if inner <= grain or cut == len(sizes) - 1:
                block = max(grain // max(inner, 1), 1)
                if axes[cut] == self.axis:
                    block = -(-block // (4 * self.width)) * 4 * self.width
                block = min(block, n)
                blocks = -(-n // block)
                break
        units = math.prod(sizes[:cut]) * blocks
        if not axes:
            self.statements(self.nest.body)
            return 1
        ranges: list[Range | None] = [None] * len(axes)
        if units > 1:
            u = self.emit("unit", Unit, INDEX, 1, 0)
            if blocks > 1:
                part = u if cut == 0 else self.op("rem", u, self.const(blocks, INDEX))
                u = u if cut == 0 else self.op("div", u, self.const(blocks, INDEX))
                lo = self.op("mul", part, self.const(block, INDEX))
                hi = self.op("add", lo, self.const(block, INDEX))
                if sizes[cut] % block:
                    hi = self.op("min", hi, self.const(sizes[cut], INDEX))
                ranges[cut] = Range(lo, hi, (block, sizes[cut] % block or block))
            for d in reversed(range(cut)):
                at = u if d == 0 else self.op("rem", u, self.const(sizes[d], INDEX))
                u = u if d == 0 else self.op("div", u, self.const(sizes[d], INDEX))
                self.indices[axes[d]] = at
        first = cut if units > 1 else 0
        self.walk(
            axes[first:], ranges[first:], lambda part: self.statements(self.nest.body),
            self._stages(),
        )  # fmt: skip
        return units

    def _stages(self) -> list[tuple[int, int]]:
        """How many lanes the loops over level 0 take, one after the other: where each lane walks
        the other levels, several vectors share a walk, so that memory is read in longer pieces."""
        if self.axis not in self.order[0]:
            return []
        w, n = self.width, self.space[self.axis]
        out = [(w, 1)]
        if any(isinstance(st, Loop) for st in self.nest.body) and len(self.code) <= 4 * TINY:
            out.insert(0, (w * PARTS, 1))
        rest = n % w
        least = min([*_powers(w // 2), 1], key=lambda c: rest // c + rest % c)
        return [*out, (least, 1)] if least > 1 else out

    def statements(self, body: Sequence[Any]) -> None:
        for st in body:
            if isinstance(st, Let):
                self.let(st.value)
            elif isinstance(st, Write):
                self.write(self.nest.stores[st.store])
            else:
                self.loop(st)

    def walk(
        self, axes: Sequence[int], ranges: Sequence[Range | None], body: Callable[[int], None],
        stages: Sequence[tuple[int, int]], after: Callable[[int], None] | None = None,
    ) -> None:  # fmt: skip
        """Loops over the axes, the last one innermost; `body` makes what is in them for part number
        so and so of those made side by side. `after(n)` follows the loop over axis n of the last
        ones. For `stages` see `in_vectors`."""
        d, given = axes[0], ranges[0] if ranges else None
        if len(axes) == 1 and d == self.axis:
            self.in_vectors(d, given, body, stages)
        elif len(axes) == 1:
            self.each(d, given, lambda: body(0))
        else:
            rest = ranges[1:] if ranges else ()
            self.each(d, given, lambda: self.walk(axes[1:], rest, body, stages, after))
        if after is not None:
            after(len(axes))

    def each(
        self, d: int, given: Range | None, body: Callable[[], None], step: int = 1, times: int = 0
    ) -> None:
        """A loop over axis `d`, or over a range of it; `times` is how often, if that is known."""
        if given is None:
            given, times = self.whole(d), self.space[d]
        outer, scope, n = self.indices.get(d), Scope(), self.new()
        self.scopes.append(scope)
        depth = len(self.scopes) - 1
        first = given.start if times == 1 else Value(n, INDEX, 1, depth)
        self.indices[d] = first._replace(depth=depth)
        body()
        self.scopes.pop()
        lines = self.scopes[-1].lines
        if times == 1:
            lines += scope.lines
        elif scope.lines:
            lines.append(For(n, given.start.id, given.stop.id, step, tuple(scope.lines), times))
        if outer is None:
            self.indices.pop(d, None)
        else:
            self.indices[d] = outer

    def in_vectors(
        self, d: int, given: Range | None, body: Callable[[int], None],
        stages: Sequence[tuple[int, int]],
    ) -> None:  # fmt: skip
        """A loop over the lane axis for each of `stages`: (lanes, how many such vectors side by
        side); each takes what is left of those before. Then single elements."""
        start, stop, lengths = given or self.whole(d)
        done = start
        for lanes, parts in (*stages, (1, 1)):
            step = lanes * parts
            times = {n // step for n in lengths}
            if times == {0}:
                continue
            lengths = tuple([n % step for n in lengths])
            end = stop
            if lengths != (0,) * len(lengths):
                if given is None:
                    end = self.const(self.space[d] - lengths[0], INDEX)
                else:
                    size = self.const(step, INDEX)
                    left = self.op("sub", stop, done)
                    left = self.op("mul", self.op("div", left, size), size)
                    end = self.op("add", done, left)
            self.lanes = lanes
            run = functools.partial(self.side_by_side, d, parts, body)
            self.each(d, Range(done, end, ()), run, step, times.pop() if len(times) == 1 else 0)
            self.lanes = 1
            done = end

    def whole(self, d: int) -> Range:
        """All of an axis."""
        n = self.space[d]
        return Range(self.const(0, INDEX), self.const(n, INDEX), (n,))

    def side_by_side(self, d: int, parts: int, body: Callable[[int], None]) -> None:
        """The loop's body for several vectors, one after the other."""
        first = self.indices[d]
        for k in range(parts):
            if k:
                step = self.const(k * self.lanes, INDEX)
                self.indices[d] = self.op("add", first, step)
                self.scopes[-1].values.clear()
            body(k)
        self.indices[d] = first

    # --- reductions

    def loop(self, st: Loop) -> None:
        axes = self.order[st.level]
        lanes_here = bool(axes) and axes[-1] == self.axis
        parts = 1
        if lanes_here and st.reduces and len(st.body) <= TINY:
            n = self.space[self.axis]
            parts = PARTS if n >= 2 * PARTS * self.width else 1
        accs = [_Reduction(self, k, lanes_here, parts, axes) for k in st.reduces]

        def body(part: int) -> None:
            self.statements(st.body)
            for acc in accs:
                acc.add(part)

        def after(left: int) -> None:
            for acc in accs:
                acc.carry(left)

        stages = [(self.width, parts), (self.width, 1)] if parts > 1 else [(self.width, 1)]
        block = max([acc.block for acc in accs], default=0)
        if block:
            self.walk_in_blocks(axes, block, body, stages, after)
        else:
            self.walk(axes, [], body, stages, after)
        for acc in accs:
            self.scopes[-1].values[acc.k] = acc.result()

    def walk_in_blocks(
        self, axes: Sequence[int], block: int, body: Callable[[int], None],
        stages: Sequence[tuple[int, int]], after: Callable[[int], None],
    ) -> None:  # fmt: skip
        """As `walk`, the innermost loop in blocks after which sums are carried on."""
        if len(axes) > 1:
            self.each(
                axes[0], None, lambda: self.walk_in_blocks(axes[1:], block, body, stages, after)
            )
            return
        d, n = axes[0], self.space[axes[0]]
        scope, at = Scope(), self.new()
        self.scopes.append(scope)
        start = Value(at, INDEX, 1, len(self.scopes) - 1)
        stop = self.op("add", start, self.const(block, INDEX))
        if n % block:
            stop = self.op("min", stop, self.const(n, INDEX))
        self.walk([d], [Range(start, stop, (block, n % block or block))], body, stages, after)
        self.scopes.pop()
        ends = self.const(0, INDEX).id, self.const(n, INDEX).id
        self.scopes[-1].lines.append(For(at, *ends, block, tuple(scope.lines), -(-n // block)))


class _Reduction:
    """One Reduce in the making: what its parts hold so far, in variables.

    With lanes along the axes that it walks, each part has a value a lane, and what is left over at
    the end of an axis goes to a scalar of its own.
    """

    def __init__(
        self, lowering: _Lowering, k: int, across: bool, parts: int, axes: Sequence[int]
    ) -> None:
        self.to, self.k, self.across = lowering, k, across
        i = lowering.code[k]
        self.arg, self.dtype, self.how = i.arg, i.dtype, combine_of(i)
        source = register(type_of(lowering.code[i.arg]))
        self.type = source if self.how.arg else register(i.dtype)
        if self.how.arg:
            self.axes = axes
        varies = lowering.axis in lowering.varies[i.arg]
        self.lanes = lowering.width if across else lowering.lanes if varies else 1
        start = self.how.start(self.type)
        self.start = lowering.const(start, self.type)
        self.vector = [self.begin(self.lanes) for _ in range(parts)]
        n = lowering.space[axes[-1]] if axes else 1
        left_over = across and (n % lowering.width or n < lowering.width)
        self.single = self.begin(1) if left_over else None
        self.at_end, self.block = self._carrying(axes, n, parts)
        carried = self.at_end or self.block
        self.total = self.begin(self.lanes) if carried else None

    def _carrying(self, axes: Sequence[int], n: int, parts: int) -> tuple[int, int]:
        """How sums are carried on: after the loop over the last so many axes, and the elements of a
        block of the last one (0: they aren't)."""
        space, across = self.to.space, self.across
        if not self.how.sums or self.type not in s.FLOATS:
            return 0, 0
        step = self.to.width * parts if across else 1
        rounds = -(-n // step)
        if rounds > 2 * SUMMED:
            times = 1 << max(math.isqrt(rounds).bit_length(), SUMMED.bit_length() - 1)
            return 1, times * step
        total = rounds
        for left, d in enumerate(reversed(axes[:-1]), 2):
            if total >= SUMMED // 8:
                return left - 1, 0
            total *= space[d]
        return 0, 0

    def begin(self, lanes: int) -> tuple[Value, Value | None]:
        """Variables that hold the start: the value and, for an arg reduction, where it is."""
        to = self.to

        def variable(start: Value) -> Value:
            spread = to.spread(start, lanes)
            n = to.new()
            to.scopes[-1].lines.append(Var(n, spread.id, start.type, lanes))
            return Value(n, start.type, lanes, len(to.scopes) - 1)

        if not self.how.arg:
            return variable(self.start), None
        return variable(self.start), variable(to.const(2**31 - 1, "i32"))

    def get(self, var: Value) -> Value:
        to, n = self.to, self.to.new()
        depth = len(to.scopes) - 1
        to.scopes[-1].lines.append(Get(n, var.id, var.type, var.lanes))
        return Value(n, var.type, var.lanes, depth)

    def set(self, var: Value, x: Value) -> None:
        to = self.to
        to.scopes[-1].lines.append(Set(var.id, to.spread(x, var.lanes).id))

    def add(self, part: int) -> None:
        """Take in the value at the indices at hand."""
        to = self.to
        x = to.value(self.arg)
        if x.type != self.type:
            x = to.op("cast", x, type=self.type)
        here = self.vector[part]
        if self.across and to.lanes == 1:
            assert self.single is not None
            here = self.single
        var, where = here
        if where is None:
            self.set(var, self.combined(self.get(var), x))
            return
        flat: Scalar | None = None
        for d in self.to.nest.levels[to.nest.walks[self.k]]:
            i = Scalar("index", (), INDEX, d)
            flat = i if flat is None else flat * to.space[d] + i
        assert flat is not None
        at = to.in_lanes(flat)
        at = to.op("cast", at, type="i32") if at.type == INDEX else at
        old = self.get(var), self.get(where)
        self.keep(here, self.winner(old, (x, at)))

    def keep(self, var: tuple[Value, Value | None], new: tuple[Value, Value]) -> None:
        assert var[1] is not None
        self.set(var[0], new[0])
        self.set(var[1], new[1])

    def combined(self, a: Value, x: Value) -> Value:
        return self.to.expression(_combine(self.how, self.type), [a, x], {})

    def winner(self, a: tuple[Value, Value], x: tuple[Value, Value]) -> tuple[Value, Value]:
        """Of two values and their indices those that win: at a tie the first."""
        to = self.to
        wins = self.combined(a[0], x[0])
        back = self.combined(x[0], a[0])
        earlier = to.op("lt", x[1], a[1], type="bool")
        tie = to.op("and", to.op("not", back), earlier)
        take = to.op("or", wins, tie)
        return to.op("select", take, x[0], a[0]), to.op("select", take, x[1], a[1])

    def carry(self, left: int) -> None:
        """After the loop over the last `left` axes: bring the parts to the total."""
        if self.total is None or left != self.at_end:
            return
        total = self.get(self.total[0])
        for var, _ in self.vector:
            total = self.combined(total, self.get(var))
            self.set(var, self.start)
        self.set(self.total[0], total)

    def result(self) -> Value:
        """What all parts make together."""
        if self.how.arg:
            return self.index_of_winner()
        out = self.get(self.vector[0][0])
        for var, _ in self.vector[1:]:
            out = self.combined(out, self.get(var))
        if self.total is not None:
            out = self.combined(self.get(self.total[0]), out)
        if self.across:
            out = self.of_lanes(out)
        if self.single is not None:
            out = self.combined(out, self.get(self.single[0]))
        return self.to.converted(out, self.dtype)

    def of_lanes(self, x: Value) -> Value:
        by = x.lanes // 2
        while by:
            x = self.combined(x, self.rotated(x, by))
            by //= 2
        return self.to.lane(x, 0)

    def rotated(self, x: Value, by: int) -> Value:
        key = ("rotate", x.id, by)
        return self.to.emit(
            key, lambda n: Rotate(n, x.id, by, x.type, x.lanes), x.type, x.lanes, x.depth
        )

    def index_of_winner(self) -> Value:
        to = self.to
        pairs = [(self.get(v), self.get(w)) for v, w in self.vector if w is not None]
        best = pairs[0]
        for pair in pairs[1:]:
            best = self.winner(best, pair)
        if self.across:
            by = best[0].lanes // 2
            while by:
                best = self.winner(best, (self.rotated(best[0], by), self.rotated(best[1], by)))
                by //= 2
            best = to.lane(best[0], 0), to.lane(best[1], 0)
        if self.single is not None and self.single[1] is not None:
            best = self.winner(best, (self.get(self.single[0]), self.get(self.single[1])))
        return to.converted(best[1], self.dtype)


# --- helpers


@functools.lru_cache(4096)
def _meaning(name: str, types: tuple[str, ...], out: str) -> Scalar:
    op: Any = REGISTRY[name]
    return s.meaning_of(op.scalar, types, out, "i32")


@functools.lru_cache(256)
def _combine(how: Any, type: str) -> Scalar:
    """How `how` makes one value of 'arg' 0, so far, and 'arg' 1, the next."""
    a, x = Scalar("arg", (), type, 0), Scalar("arg", (), type, 1)
    out: Scalar = how.scalar(a, x)
    return out


def _axes_of_values(code: Sequence[Any]) -> list[set[int]]:
    """The axes along which each instruction's value varies."""
    out: list[set[int]] = []
    for i in code:
        if isinstance(i, (Load, Valid)):
            out.append(axes_of(i.index_map))
        elif isinstance(i, Apply):
            axes = set().union(*[out[a] for a in i.args])
            out.append(axes if i.index is None else axes | axes_of(i.index))
        elif isinstance(i, Reduce):
            out.append(out[i.arg] - set(i.axes))
        else:
            out.append(set())
    return out


def _cost(at: Scalar, d: int, lanes: int) -> float:
    """What a vector along axis `d` costs to load, next to one whose elements lie side by side."""
    stride = _linear(at, d, lanes)
    return lanes if stride is None else 1 if stride in (0, 1) else 0.4 * lanes


def _powers(most: int) -> list[int]:
    """How many lanes vectors may have, the most first."""
    return [1 << k for k in range(most.bit_length() - 1, LEAST.bit_length() - 2, -1)]


def _extent(space: Sequence[int], maps: Sequence[IndexMap]) -> int:
    """More than any position that occurs."""
    out = math.prod(space)
    for m in maps:
        for v in m:
            size = sum(abs(n * stride) for n, stride in zip(v.shape, v.strides, strict=True))
            out = max(out, abs(v.offset) + size)
    return out


def _names(x: Scalar, d: int) -> bool:
    """Whether `x` depends on the index along axis `d`."""
    return x.value == d if x.op == "index" else any(_names(a, d) for a in x.args)


def _linear(x: Scalar, d: int, lanes: int) -> int | None:
    """By how much `x` grows from lane to lane of a vector along axis `d`; None if by no constant.

    A vector begins at a multiple of its lanes: where they are as many as divide the numbers that
    `x` is cut by, a quotient and a comparison are the same in all of them.
    """
    if x.op == "index":
        return int(x.value == d)
    if not _names(x, d):
        return 0
    steps = [_linear(y, d, lanes) for y in x.args]
    if None in steps:
        return None
    if not any(steps):
        return 0
    a, b = (steps[0] or 0), (steps[-1] or 0)
    if x.op == "add":
        return a + b
    if x.op == "mul" and x.args[1].op == "const":
        return a * int(x.args[1].value)
    if x.op in ("div", "rem", "lt", "le"):
        moving, fixed = (x.args[1], x.args[0]) if x.op == "le" else x.args
        step = b if x.op == "le" else a
        span = step * lanes
        even = span > 0 and not _divisor(moving, d, lanes) % span
        if even and not _names(fixed, d) and not _divisor(fixed, d, lanes) % span:
            return step if x.op == "rem" else 0
    return None


def _divisor(x: Scalar, d: int, lanes: int) -> int:
    """A number that divides `x` in the first lane of a vector; 0 if that is 0."""
    if x.op == "const":
        return int(x.value)
    if x.op == "index":
        return lanes if x.value == d else 1
    if x.op == "add":
        return math.gcd(*[_divisor(y, d, lanes) for y in x.args])
    if x.op == "mul":
        return math.prod([_divisor(y, d, lanes) for y in x.args])
    if x.op == "rem":
        return math.gcd(*[_divisor(y, d, lanes) for y in x.args])
    return 1
