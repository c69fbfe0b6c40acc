"""From a kernel's loops to a lane program.

One axis is walked `width` elements at a time, in the lanes of vectors: the one along which memory
lies, on whichever level it is. Every value is computed in the outermost loop in which all that it
needs is known, once, and as a scalar where it is the same in all lanes. Sums are kept in many
parts, in lanes and beside each other, and carried on in blocks: so their errors stay small, and
their order depends on shapes alone.
"""

from __future__ import annotations

import collections
import functools
import math
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from pyframe.codegen.lanes.axis import MIN_LANES, choose_vector_axis, inner_axis, powers
from pyframe.codegen.lanes.program import (
    INDEX,
    For,
    LaneLoad as LoadLanes,
    LaneParam as ReadParam,
    LaneProgram,
    LaneStore as StoreLanes,
    Unit,
    UnsupportedKernelError,
)
from pyframe.codegen.lanes.reductions import Reduction
from pyframe.codegen.lanes.values import NARROW, STORED, LaneValue, LoopScope, SsaBuilder, register
from pyframe.core.dtypes import dtype as DType
from pyframe.core.op import REGISTRY
from pyframe.core.sizes import is_symbolic_size, size_hint
from pyframe.graph import program, scalar as s
from pyframe.graph.loops import Let, Loop, LoopNest, Write, axes_of, nest, position
from pyframe.graph.program import Apply, InBounds, Kernel, Load, Reduce, ScalarParam, Store
from pyframe.graph.scalar import Scalar

MAX_UNROLL = 8  # rounds of a loop that is made again: what it loads and computes stays in registers
WORK_PER_ITEM = 1 << 16  # elements times instructions of a unit of work
MAX_UNITS = 1 << 10
TINY_REDUCTION = 4  # instructions of a reduction that is made in several parts side by side
ACCUMULATORS = 4  # of such a reduction: an addition waits for the one before it, these don't


class AxisRange(NamedTuple):
    """A part of an axis: where it begins and ends, and how many elements it may have."""

    start: LaneValue
    stop: LaneValue
    lengths: tuple[int, ...]


def lower(kernel: Kernel, width: Callable[[set[str]], int], label: str = "") -> LaneProgram:
    """`kernel`, which is no routine, as a lane program. `width` says how many lanes vectors of
    these types are to have. UnsupportedKernelError says what has no form."""
    return LaneLowering(nest(kernel), kernel, width, label).function()


class LaneLowering(SsaBuilder):
    """A kernel on its way: its instructions as values, its levels as loops."""

    def __init__(
        self, nested: LoopNest, kernel: Kernel, width: Callable[[set[str]], int], label: str
    ) -> None:
        types = {register(program.dtype_of(i)) for i in nested.code}
        types |= {register(w.dtype) for w in kernel.stores}
        axis, self.width = choose_vector_axis(nested, width(types))
        super().__init__(nested.space, axis, kernel.bindings)
        self.nest, self.kernel, self.label = nested, kernel, label
        self.code = nested.code
        self.varies = _axes_of_values(nested.code)
        self.opened: dict[int, int] = {}  # the scope in which an axis is walked
        self.unrolled = 1  # up to so many rounds of the loops at hand
        self.walked = _walks(nested.body)
        # The lane axis is the innermost of its level
        self.order = [sorted(axes, key=lambda d: (d == self.axis, d)) for axes in nested.levels]
        weight = len(self.code) + len(kernel.stores)
        self.work = weight * math.prod(self.space)

    # --- instructions

    def value(self, k: int) -> LaneValue:
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
        depths = [self.opened[d] for d in self.varies[k] if d in self.opened]
        self.scopes[max(found.depth, *depths, 0)].values[k] = found

    def computed(self, i: Any) -> LaneValue:
        if isinstance(i, Load):
            return self.load(i)
        if isinstance(i, ScalarParam):
            key, type = ("param", i.word), register(i.dtype)
            form = STORED[i.dtype.name]
            return self.emit(key, lambda n: ReadParam(n, i.word, form, type), type, 1, 0)
        if isinstance(i, InBounds):
            valid = position(i.index_map, self.space).valid
            return self.const(True, "bool") if valid is None else self.in_lanes(valid)
        if isinstance(i, Apply):
            return self.applied(i)
        if isinstance(i, Reduce):  # over axes of size 1
            if program.combine_of(i).arg:
                return self.const(0, register(i.dtype))
            return self.converted(self.value(i.arg), i.dtype)
        raise UnsupportedKernelError(f"{i.__class__.__name__} has no form")

    def load(self, i: Load) -> LaneValue:
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

    def applied(self, i: Apply) -> LaneValue:
        op: Any = REGISTRY[i.op]
        if op.scalar is None:
            raise UnsupportedKernelError(f"{i.op} has no scalar meaning")
        args = [self.value(a) for a in i.args]
        if i.index is not None:
            flat = self.in_lanes(position(i.index, self.space).at)
            args.append(self.op("cast", flat, type="i32") if flat.type == INDEX else flat)
        types = tuple([a.type for a in args[: len(i.args)]])
        found = meaning(i.op, types, register(i.dtype))
        return self.converted(self.expression(found, args, {}), i.dtype)

    def converted(self, x: LaneValue, d: DType) -> LaneValue:
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

    # --- loops

    def function(self) -> LaneProgram:
        root = self.scopes[0]
        units = self.units()
        body, sizes = tuple(root.lines), tuple(self.sizes)
        bindings = self.kernel.bindings + bool(sizes)
        return LaneProgram(self.label, bindings, units, self.work, body, sizes, self.width)

    def units(self) -> int:
        """Make the loops of level 0; how many units of work they are cut into."""
        inside = inner_axis(self.nest, self.axis, self.width)
        axes = [d for d in self.order[0] if d != inside]
        sizes = [self.space[d] for d in axes]
        if not all(sizes) or (inside is not None and not self.space[inside]):
            return 0
        work = inner = size_hint(self.work)
        grain = max(WORK_PER_ITEM, work // MAX_UNITS)
        cut, block, blocks = 0, 0, 1  # units have `block` elements of axis `cut`, one of others
        for cut, n in enumerate(map(size_hint, sizes)):  # those of now: how work is cut, is free
            inner //= n
            if inner <= grain or cut == len(sizes) - 1:
                block = max(grain // max(inner, 1), 1)
                if axes[cut] == self.axis:
                    # several vectors share a walk, but not where that leaves one unit
                    least = self.width * (ACCUMULATORS if n > ACCUMULATORS * self.width else 1)
                    block = -(-block // least) * least
                block = block if is_symbolic_size(sizes[cut]) else min(block, n)
                blocks = -(-sizes[cut] // block)
                break
        units = math.prod(sizes[:cut]) * blocks
        if not axes:
            self.statements(self.nest.body)
            return 1
        ranges: list[AxisRange | None] = [None] * len(axes)
        several = is_symbolic_size(units) or units > 1
        if several:
            u = self.emit("unit", Unit, INDEX, 1, 0)
            if is_symbolic_size(blocks) or blocks > 1:
                part = u if cut == 0 else self.op("rem", u, self.const(blocks, INDEX))
                u = u if cut == 0 else self.op("div", u, self.const(blocks, INDEX))
                lo = self.op("mul", part, self.const(block, INDEX))
                hi = self.op("add", lo, self.const(block, INDEX))
                rest = sizes[cut] % block
                if is_symbolic_size(rest) or rest:
                    hi = self.op("min", hi, self.const(sizes[cut], INDEX))
                ranges[cut] = AxisRange(
                    lo, hi, (block, rest if is_symbolic_size(rest) else rest or block)
                )
            for d in reversed(range(cut)):
                at = u if d == 0 else self.op("rem", u, self.const(sizes[d], INDEX))
                u = u if d == 0 else self.op("div", u, self.const(sizes[d], INDEX))
                self.indices[axes[d]] = at
        first = cut if several else 0

        def body(part: int) -> None:
            if inside is None:
                self.statements(self.nest.body)
            else:
                self.each(inside, None, lambda: self.statements(self.nest.body))

        self.walk(axes[first:], ranges[first:], body, self._stages())
        return units

    def _stages(self) -> list[tuple[int, int]]:
        """How many lanes the loops over level 0 take, one after the other: where each lane walks
        the other levels, several vectors share a walk, so that memory is read in longer pieces."""
        if self.axis not in self.order[0]:
            return []
        w, n = self.width, self.space[self.axis]
        out = [(w, 1)]
        if (
            any(isinstance(st, Loop) for st in self.nest.body)
            and len(self.code) <= 4 * TINY_REDUCTION
        ):
            out.insert(0, (w * ACCUMULATORS, 1))
        if is_symbolic_size(n):
            return [*out, (MIN_LANES, 1)] if w > MIN_LANES else out
        rest = n % w
        least = min([*powers(w // 2), 1], key=lambda c: rest // c + rest % c)
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
        self, axes: Sequence[int], ranges: Sequence[AxisRange | None], body: Callable[[int], None],
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
        self,
        d: int,
        given: AxisRange | None,
        body: Callable[[], None],
        step: int = 1,
        times: int = 0,
    ) -> None:
        """A loop over axis `d`, or over a range of it; `times` is how often, if that is known."""
        if given is None:
            given, times = self.whole(d), _known(self.space[d])
        outer = self.indices.get(d)
        if 0 < times <= self.unrolled:
            for n in range(times):
                at = self.op("add", given.start, self.const(n * step, INDEX)) if n else given.start
                self.indices[d] = at._replace(depth=len(self.scopes) - 1)
                self.inside(d, LoopScope(self.scopes[-1]), body)
        else:
            scope, n = LoopScope(), self.new()
            self.indices[d] = LaneValue(n, INDEX, 1, len(self.scopes))
            self.inside(d, scope, body)
            if scope.lines:
                ends = given.start.id, given.stop.id
                self.scopes[-1].lines.append(For(n, *ends, step, tuple(scope.lines), times))
        if outer is None:
            self.indices.pop(d, None)
        else:
            self.indices[d] = outer

    def inside(self, d: int, scope: LoopScope, body: Callable[[], None]) -> None:
        """What is in a loop over axis `d`, or in one round of it."""
        before = self.opened.get(d, 0)
        self.opened[d] = len(self.scopes)
        self.scopes.append(scope)
        body()
        self.scopes.pop()
        self.opened[d] = before

    def in_vectors(
        self, d: int, given: AxisRange | None, body: Callable[[int], None],
        stages: Sequence[tuple[int, int]],
    ) -> None:  # fmt: skip
        """A loop over the lane axis for each of `stages`: (lanes, how many such vectors side by
        side); each takes what is left of those before. Then single elements."""
        start, stop, lengths = given or self.whole(d)
        done = start
        for lanes, parts in (*stages, (1, 1)):
            step = lanes * parts
            times = {_known(n // step, -1) for n in lengths}
            if times == {0}:
                continue
            lengths = tuple([n % step for n in lengths])
            end = stop
            if any(is_symbolic_size(n) or n for n in lengths):
                if given is None:
                    end = self.const(self.space[d] - lengths[0], INDEX)
                else:
                    size = self.const(step, INDEX)
                    left = self.op("sub", stop, done)
                    left = self.op("mul", self.op("div", left, size), size)
                    end = self.op("add", done, left)
            self.lanes = lanes
            run = functools.partial(self.side_by_side, d, parts, body)
            often = times.pop() if len(times) == 1 else 0
            self.each(d, AxisRange(done, end, ()), run, step, max(often, 0))
            self.lanes = 1
            done = end

    def whole(self, d: int) -> AxisRange:
        """All of an axis."""
        n = self.space[d]
        return AxisRange(self.const(0, INDEX), self.const(n, INDEX), (n,))

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
        if lanes_here and st.reduces and len(st.body) <= TINY_REDUCTION:
            n = self.space[self.axis]
            parts = ACCUMULATORS if is_symbolic_size(n) or n >= 2 * ACCUMULATORS * self.width else 1
        accs = [Reduction(self, k, lanes_here, parts, axes) for k in st.reduces]
        self.unrolled = MAX_UNROLL if self.walked[st.level] > 1 else 1

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
        self.unrolled = 1
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
        scope, at = LoopScope(), self.new()
        self.scopes.append(scope)
        start = LaneValue(at, INDEX, 1, len(self.scopes) - 1)
        stop = self.op("add", start, self.const(block, INDEX))
        rest = n % block
        if is_symbolic_size(rest) or rest:
            stop = self.op("min", stop, self.const(n, INDEX))
        lengths = block, rest if is_symbolic_size(rest) else rest or block
        self.walk([d], [AxisRange(start, stop, lengths)], body, stages, after)
        self.scopes.pop()
        ends = self.const(0, INDEX).id, self.const(n, INDEX).id
        times = _known(-(-n // block))
        self.scopes[-1].lines.append(For(at, *ends, block, tuple(scope.lines), times))


# --- helpers


def _known(n: Any, other: int = 0) -> int:
    """A number of rounds; `other` where it changes."""
    return other if is_symbolic_size(n) else n


@functools.lru_cache(4096)
def meaning(name: str, types: tuple[str, ...], out: str) -> Scalar:
    """What an elementwise op computes of operands of these types."""
    op: Any = REGISTRY[name]
    return s.meaning_of(op.scalar, types, out, "i32")


@functools.lru_cache(256)
def _walks(body: Sequence[Any]) -> collections.Counter[int]:
    """How often each level is walked."""
    out: collections.Counter[int] = collections.Counter()
    for st in body:
        if isinstance(st, Loop):
            out += collections.Counter([st.level]) + _walks(st.body)
    return out


def _axes_of_values(code: Sequence[Any]) -> list[set[int]]:
    """The axes along which each instruction's value varies."""
    out: list[set[int]] = []
    for i in code:
        if isinstance(i, (Load, InBounds)):
            out.append(axes_of(i.index_map))
        elif isinstance(i, Apply):
            axes = set().union(*[out[a] for a in i.args])
            out.append(axes if i.index is None else axes | axes_of(i.index))
        elif isinstance(i, Reduce):
            out.append(out[i.arg] - set(i.axes))
        else:
            out.append(set())
    return out
