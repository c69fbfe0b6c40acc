"""Lowering of reductions: accumulators in lanes and parts, which are combined at the end."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from pyframe.codegen.lanes.program import INDEX, Get, Rotate, Set, Var
from pyframe.codegen.lanes.values import LaneValue, register
from pyframe.core.sizes import is_symbolic_size
from pyframe.graph import scalar as s
from pyframe.graph.program import combine_of, dtype_of
from pyframe.graph.scalar import Scalar

if TYPE_CHECKING:
    from pyframe.codegen.lanes.lower import LaneLowering

Accumulator = tuple[LaneValue, ...]  # one value; of an arg reduction also where it is
COMPENSATION_INTERVAL = 32  # numbers that are added one after the other before a sum is carried on


class Reduction:
    """One Reduce in the making: what its parts hold so far, in variables.

    With lanes along the axes that it walks, each part has a value a lane, and what is left over at
    the end of an axis goes to a scalar of its own.
    """

    def __init__(
        self, lowering: LaneLowering, k: int, across: bool, parts: int, axes: Sequence[int]
    ) -> None:
        self.to, self.k, self.across = lowering, k, across
        i = lowering.code[k]
        self.arg, self.dtype, self.how = i.arg, i.dtype, combine_of(i)
        source = register(dtype_of(lowering.code[i.arg]))
        self.type = source if self.how.arg else register(i.dtype)
        # what is read next is later among those, if lanes don't go along an axis further out
        self.ordered = list(axes) == list(lowering.nest.levels[lowering.nest.walks[k]])
        varies = lowering.axis in lowering.varies[i.arg]
        self.lanes = lowering.width if across else lowering.lanes if varies else 1
        start = self.how.start(self.type)
        self.start = lowering.const(start, self.type)
        self.vector = [self.begin(self.lanes) for _ in range(parts)]
        n = lowering.space[axes[-1]] if axes else 1
        left_over = across and (is_symbolic_size(n) or n % lowering.width or n < lowering.width)
        self.single = self.begin(1) if left_over else None
        self.at_end, self.block = self._carrying(axes, n, parts)
        carried = self.at_end or self.block
        self.totals = [self.total(self.lanes), self.total(1)] if carried else []

    def _carrying(self, axes: Sequence[int], n: int, parts: int) -> tuple[int, int]:
        """How sums are carried on: after the loop over the last so many axes, and the elements of a
        block of the last one (0: they aren't)."""
        space, across = self.to.space, self.across
        if not self.how.sums or self.type not in s.FLOATS:
            return 0, 0
        step = self.to.width * parts if across else 1
        rounds = -(-n // step)
        if is_symbolic_size(n) or rounds > 2 * COMPENSATION_INTERVAL:
            return 1, COMPENSATION_INTERVAL * step
        total = rounds
        for left, d in enumerate(reversed(axes[:-1]), 2):
            if is_symbolic_size(total) or total >= COMPENSATION_INTERVAL // 2:
                return left - 1, 0
            total *= space[d]
        return 0, 0

    def begin(self, lanes: int) -> Accumulator:
        """Variables that hold the start: the value and, for an arg reduction, where it is."""
        to = self.to
        starts = [self.start, to.const(0, "i32")] if self.how.arg else [self.start]
        return tuple([self.line(Var, to.spread(x, lanes).id, x.type, lanes) for x in starts])

    def line(self, kind: Any, of: int, type: str, lanes: int) -> LaneValue:
        """What a new line at hand gives, of a variable or of its start."""
        to, n = self.to, self.to.new()
        to.scopes[-1].lines.append(kind(n, of, type, lanes))
        return LaneValue(n, type, lanes, len(to.scopes) - 1)

    def get(self, var: LaneValue) -> LaneValue:
        return self.line(Get, var.id, var.type, var.lanes)

    def set(self, var: LaneValue, x: LaneValue) -> None:
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
        new = (x, self.index()) if self.how.arg else (x,)
        for var, value in zip(here, self.merged(self.read(here), new, self.ordered), strict=True):
            self.set(var, value)

    def index(self) -> LaneValue:
        """Where the value at hand is, among those that are reduced."""
        to = self.to
        flat: Scalar | None = None
        for d in to.nest.levels[to.nest.walks[self.k]]:
            i = Scalar("index", (), INDEX, d)
            flat = i if flat is None else flat * to.space[d] + i
        assert flat is not None
        at = to.in_lanes(flat)
        return to.op("cast", at, type="i32") if at.type == INDEX else at

    def read(self, variables: Accumulator) -> Accumulator:
        return tuple([self.get(var) for var in variables])

    def combined(self, a: LaneValue, x: LaneValue) -> LaneValue:
        return self.to.expression(_combine(self.how, self.type), [a, x], {})

    def merged(self, a: Accumulator, x: Accumulator, later: bool = False) -> Accumulator:
        """What two values make; of two with their indices those that win: at a tie the first, which
        is `a` if x comes `later`. All are ties with the start only where the first wins."""
        if not self.how.arg:
            return (self.combined(a[0], x[0]),)
        to = self.to
        take = self.combined(a[0], x[0])
        if not later:
            back = self.combined(x[0], a[0])
            earlier = to.op("lt", x[1], a[1], type="bool")
            take = to.op("or", take, to.op("and", to.op("not", back), earlier))
        return to.op("select", take, x[0], a[0]), to.op("select", take, x[1], a[1])

    def total(self, lanes: int) -> tuple[LaneValue, LaneValue]:
        """Accumulators of a compensated sum: the total and its error term."""
        return self.begin(lanes)[0], self.begin(lanes)[0]

    def carry(self, left: int) -> None:
        """After the loop over the last `left` axes: bring the parts to their total."""
        if left == self.at_end:
            for var, total in self.carried():
                self.bring(var, total)
                self.set(var, self.start)

    def carried(self) -> list[tuple[LaneValue, tuple[LaneValue, LaneValue]]]:
        """Each part with the total that it is brought to."""
        if not self.totals:
            return []
        out = [(var, self.totals[0]) for (var,) in self.vector]
        return out if self.single is None else [*out, (self.single[0], self.totals[1])]

    def bring(self, var: LaneValue, total: tuple[LaneValue, LaneValue]) -> None:
        """Add what a part holds to a total, whose rounding is noted (Knuth's two-sum)."""
        to = self.to
        old, x = self.get(total[0]), self.get(var)
        new = to.op("add", old, x)
        part = to.op("sub", new, old)
        lost = to.op("sub", old, to.op("sub", new, part))
        lost = to.op("add", lost, to.op("sub", x, part))
        self.set(total[0], new)
        self.set(total[1], to.op("add", self.get(total[1]), lost))

    def complete(self, total: tuple[LaneValue, LaneValue]) -> LaneValue:
        """A total with what was left out, which is NaN beside what is infinite."""
        to = self.to
        sum_, lost = self.get(total[0]), self.get(total[1])
        exact = to.op("eq", lost, lost, type="bool")
        return to.op("select", exact, to.op("add", sum_, lost), sum_)

    def result(self) -> LaneValue:
        """What all parts make together."""
        for var, total in self.carried():
            self.bring(var, total)
        parts = [self.read(variables) for variables in self.vector]
        if self.totals:
            parts = [(self.complete(self.totals[0]),)]
        out = functools.reduce(self.merged, parts)
        if self.across:
            by = out[0].lanes // 2
            while by:
                out = self.merged(out, tuple([self.rotated(x, by) for x in out]))
                by //= 2
            out = tuple([self.to.lane(x, 0) for x in out])
        if self.single is not None:
            rest = (self.complete(self.totals[1]),) if self.totals else self.read(self.single)
            out = self.merged(out, rest)
        return self.to.converted(out[-1], self.dtype)

    def rotated(self, x: LaneValue, by: int) -> LaneValue:
        key = ("rotate", x.id, by)
        return self.to.emit(
            key, lambda n: Rotate(n, x.id, by, x.type, x.lanes), x.type, x.lanes, x.depth
        )


@functools.lru_cache(256)
def _combine(how: Any, type: str) -> Scalar:
    """How `how` makes one value of 'arg' 0, so far, and 'arg' 1, the next."""
    a, x = Scalar("arg", (), type, 0), Scalar("arg", (), type, 1)
    out: Scalar = how.scalar(a, x)
    return out
