"""Analysis of a lane program before it is printed: uses, and where each value lives."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from pyframe.codegen.lanes import program as lanes
from pyframe.codegen.lanes.program import INDEX

UNITS = -1  # the loop over them, where others have their number
BUFFERS = -1  # what loads read and stores write, where a variable has its number

# Which values a statement reads.
_OPERANDS: dict[type, Callable[[Any], Sequence[int]]] = {
    lanes.LaneConst: lambda s: (),
    lanes.LaneParam: lambda s: (),
    lanes.Unit: lambda s: (),
    lanes.Iota: lambda s: (),
    lanes.Splat: lambda s: (s.arg,),
    lanes.Rotate: lambda s: (s.arg,),
    lanes.Lane: lambda s: (s.arg,),
    lanes.LaneOp: lambda s: s.args,
    lanes.LaneLoad: lambda s: (s.valid,) if s.valid >= 0 else (),  # and its terms
    lanes.LaneStore: lambda s: (s.arg,),
    lanes.Var: lambda s: (s.start,),
    lanes.Get: lambda s: (),
    lanes.Set: lambda s: (s.arg,),
    lanes.For: lambda s: (s.start,),
}


class Terms:
    """An index as a sum: `outer` are values from outside the loop at hand, `inner` others."""

    __slots__ = ("constant", "inner", "outer")

    def __init__(self, outer: tuple[int, ...], inner: tuple[int, ...], constant: int) -> None:
        self.outer, self.inner, self.constant = outer, inner, constant


class Liveness:
    """What is known of a function before it is printed."""

    def __init__(self, body: Sequence[Any]) -> None:
        self.depth: dict[int, int] = {}  # of the block in which a value is computed
        self.uses: dict[int, int] = {}  # how often it is read
        self.deep: set[int] = set()  # values that deeper blocks read
        self.known: dict[int, Any] = {}  # numbers of constants, splats of them too
        self.writes: dict[int, set[int]] = {}  # the variables that a loop writes, and BUFFERS
        self.terms: dict[int, Terms] = {}  # of loads and stores, by their place
        self.scalars: dict[int, int] = {}  # the scalars that masks are splats of
        self._sums: dict[int, tuple[int, int]] = {}
        self._gets: set[int] = set()
        self._natural: set[int] = set()  # indices that are not negative
        self.fixed, self.body = self._apart(body)
        self._block(self.fixed, 0)
        self.writes[UNITS] = self._block(self.body, 1)

    @staticmethod
    def _apart(body: Sequence[Any]) -> tuple[list[Any], list[Any]]:
        """The statements that give the same for each unit, and the others."""
        fixed: list[Any] = []
        rest: list[Any] = []
        found: set[int] = set()
        for s in body:
            kind = type(s)
            if kind in (lanes.LaneConst, lanes.LaneParam, lanes.Iota) or (
                kind in (lanes.Splat, lanes.Rotate, lanes.Lane, lanes.LaneOp)
                and found.issuperset(_OPERANDS[kind](s))
            ):
                found.add(s.out)
                fixed.append(s)
            else:
                rest.append(s)
        return fixed, rest

    def _use(self, value: int, depth: int) -> None:
        self.uses[value] = self.uses.get(value, 0) + 1
        if self.depth[value] != depth:
            self.deep.add(value)

    def _block(self, body: Sequence[Any], depth: int) -> set[int]:
        writes: set[int] = set()
        known, uses, depths, deep = self.known, self.uses, self.depth, self.deep
        for s in body:
            kind = type(s)
            for value in _OPERANDS[kind](s):
                value = self.scalars.get(value, value) if kind is lanes.LaneLoad else value
                uses[value] = uses.get(value, 0) + 1
                if depths[value] != depth:
                    deep.add(value)
            if kind is lanes.LaneOp:
                if s.op == "cast" and s.args[0] in known and s.type in ("i32", "i64", INDEX):
                    number = known[s.args[0]]
                    if type(number) is int and -(2**31) <= number < 2**31:
                        known[s.out] = number
                if s.type == INDEX and s.lanes == 1:
                    self._index(s)
            elif kind is lanes.LaneConst:
                known[s.out] = s.value
                if s.type == INDEX and s.value >= 0:
                    self._natural.add(s.out)
            elif kind is lanes.Splat:
                if s.arg in known:
                    known[s.out] = known[s.arg]
                elif s.type == "bool":
                    self.scalars[s.out] = s.arg
            elif kind is lanes.LaneLoad or kind is lanes.LaneStore:
                terms = self.terms[id(s)] = self._terms(s, depth)
                for value in (*terms.outer, *terms.inner):
                    self._use(value, depth)
                if kind is lanes.LaneStore:
                    writes.add(BUFFERS)
                    continue
            elif kind is lanes.Get:
                self._gets.add(s.out)
            elif kind is lanes.Unit:
                self._natural.add(s.out)
            elif kind is lanes.Set:
                writes.add(s.var)
                continue
            elif kind is lanes.For:
                depths[s.out] = depth + 1
                if s.stop not in known:
                    self._use(s.stop, depth + 1)
                if s.start in self._natural:
                    self._natural.add(s.out)
                inside = self.writes[s.out] = self._block(s.body, depth + 1)
                writes |= inside
                continue
            depths[s.out] = depth
        return writes

    def _index(self, s: lanes.LaneOp) -> None:
        if s.op == "add":
            self._sums[s.out] = s.args[0], s.args[1]
        if s.op in ("add", "mul", "div", "rem", "min", "max") and self._natural.issuperset(s.args):
            self._natural.add(s.out)

    def _terms(self, s: lanes.LaneLoad | lanes.LaneStore, depth: int) -> Terms:
        """A place as a sum, if what is computed in the loop at hand is one value at most: others
        are best computed once for all who read there."""
        constant, outer, inner = 0, [], []
        todo = [s.at]
        while todo:
            value = todo.pop()
            parts = self._sums.get(value)
            if value in self.known:
                constant += self.known[value]
            elif self.depth[value] < depth and value not in self._gets:
                outer.append(value)
            elif parts:
                todo += parts
            else:
                inner.append(value)
        if len(inner) > 1 or s.stride is None:
            return Terms((), (s.at,), 0)
        return Terms(tuple(outer), tuple(inner), constant)

    def may_offset(self, terms: Terms) -> bool:
        """Whether the constant may be an instruction's offset, which is added to an address that
        must lie in memory already."""
        return (
            terms.constant >= 0
            and self._natural.issuperset(terms.outer)
            and self._natural.issuperset(terms.inner)
        )
