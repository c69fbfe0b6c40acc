"""One Program for all recorded graphs that differ in numbers alone.

What was recorded knows only the sizes of its own call. But two graphs with the same ops and links,
whose shapes and attributes have other ints in the same places, are of one kind; and what these ints
have to do with each other shows when there are three. A `GeneralProgram` says each int as a formula
of few sizes. It is for those graphs whose ints are what the formulas give: so a formula that was
guessed wrongly fits no other graph, and does no harm.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import combinations_with_replacement, product
from operator import attrgetter
from typing import Any, NamedTuple, TypeGuard

from pyframe.core.limits import Limits
from pyframe.core.lru import LruCache
from pyframe.core.node import Node, Size
from pyframe.core.op import CONST
from pyframe.core.sizes import (
    MIN_SYMBOLIC_SIZE,
    DynamicShapeError,
    ShapeEnv,
    SymbolicSize,
    use_shape_guards,
)
from pyframe.graph.program import Program
from pyframe.graph.schedule import schedule
from pyframe.runtime import debug

STATIC_PROGRAMS = 2  # graphs of a kind that are planned as they are
MAX_PATTERNS = 3  # of a kind
MAX_FAILURES = 2  # to make some
MAX_SIZES = 6  # of a pattern
MAX_BASE_FORMULAS = 16  # formulas that others are made of
MAX_KINDS = 256  # that are remembered
MAX_KERNELS = 512  # of the Programs for many graphs

Observations = tuple[int, ...]  # an int in each of the graphs that were seen


class PlannedProgram(NamedTuple):
    """A Program for a graph, and the nodes that its inputs and scalars are."""

    program: Program
    inputs: list[int]  # positions in the recorded order
    constants: list[Any]  # positions, or the constant Node itself
    numbers: tuple[Any, ...] = ()  # the sizes that kernels read
    grids: tuple[int, ...] = ()  # the workgroups of the dispatches, where one is for many graphs

    @classmethod
    def of(
        cls, order: Sequence[Node], program: Program, inputs: Sequence[Node],
        constants: Sequence[Node],
    ) -> PlannedProgram:  # fmt: skip
        """What was scheduled for a graph in this order."""
        at = {id(n): i for i, n in enumerate(order)}
        own = [Node(CONST, (), c.attrs, (), c.dtype, c.device) for c in constants]
        places = [at.get(id(c), n) for c, n in zip(constants, own, strict=True)]
        return cls(program, [at[id(n)] for n in inputs], places)


class _NoFormulaError(Exception):
    """An int that no formula gives."""

    def __init__(self, column: Observations) -> None:
        self.column = column


def split_ints(key: Any) -> tuple[Any, list[int]]:
    """The kind of a graph, which is its `graph_key` without the ints of shapes and attributes; and
    these ints."""
    found: list[int] = []

    def kind(x: Any) -> Any:
        if type(x) is int:
            found.append(x)
            return int
        return (type(x), *map(kind, x)) if isinstance(x, tuple) else x

    nodes, roots = key
    kinds = [
        (n[0], kind(n[1]), kind(n[2]), *n[3:]) if len(n) > 2 else (kind(n[0]), n[1]) for n in nodes
    ]
    return (tuple(kinds), roots), found


class GeneralProgram:
    """A Program for many graphs of a kind."""

    def __init__(
        self, order: Sequence[Node], roots: Sequence[Node], seen: list[list[int]], fit: Any,
        limits: Limits,
    ) -> None:  # fmt: skip
        """`seen` are the ints of graphs of the kind, those of the present one last."""
        from pyframe.codegen.numpy.sized import SymbolicPlans  # which takes a while to import

        columns = list(zip(*seen, strict=True))
        symbols: list[Observations] = []
        while True:
            now = [column[-1] for column in symbols]
            self.sizes = ShapeEnv(now)
            try:
                with use_shape_guards(self.sizes.guards):
                    made = _SymbolicGraph(self.sizes, symbols, columns, order)
                    nodes = [made.nodes[id(n)] for n in roots]
                    program, inputs, constants = schedule(made.order, nodes, limits)
                    self.general, read, grids = fit(program, self._look)
                break
            except _NoFormulaError as error:
                symbols.append(error.column)
                if len(symbols) > MAX_SIZES or error.column[-1] < MIN_SYMBOLIC_SIZE:
                    raise
        self.places = [columns.index(column) for column in symbols]
        self.formulas = made.formulas
        self.expected = self.sizes.function(self.formulas)
        self.holds = self.sizes.holds(self.sizes.guards.asked)
        self.numbers, self.grids = self.sizes.function(read), self.sizes.function(grids)
        self.plans = SymbolicPlans(self.general, self.sizes)
        self.plan = PlannedProgram.of(made.order, self.general, inputs, constants)
        own = [c.attrs[0] for c in self.plan.constants if _is_formula(c)]
        self.values = self.sizes.function(own)

    def _look(self) -> None:
        if self.sizes.guards.wanted():
            raise DynamicShapeError("a number is asked for")

    def planned(self, numbers: list[int]) -> PlannedProgram | None:
        """The Program for a graph of the kind with these ints; None if it is not for such."""
        now = tuple([numbers[p] for p in self.places])
        try:
            if (
                min(now, default=MIN_SYMBOLIC_SIZE) < MIN_SYMBOLIC_SIZE
                or self.expected(*now) != tuple(numbers)
                or not self.holds(*now)
            ):
                return None
        except ArithmeticError:
            return None
        self.sizes.set(now)
        values = iter(self.values(*now))
        constants = [
            Node(CONST, (), (next(values),), (), c.dtype, c.device) if _is_formula(c) else c
            for c in self.plan.constants
        ]
        program, read, grids = self.plans.at_present(), self.numbers(*now), self.grids(*now)
        return self.plan._replace(program=program, constants=constants, numbers=read, grids=grids)


def _is_formula(constant: Any) -> TypeGuard[Node]:
    """Whether it is a node that lowering has made of sizes."""
    return isinstance(constant, Node) and type(constant.attrs[0]) is SymbolicSize


class _SymbolicGraph:
    """The nodes of a graph with formulas for its ints."""

    def __init__(
        self,
        sizes: ShapeEnv,
        symbols: list[Observations],
        columns: list[Observations],
        order: Sequence[Node],
    ) -> None:
        self.sizes, self.columns = sizes, columns
        self.samples = list(zip(*symbols, strict=True)) or [()] * len(columns[0])
        self.known: dict[Observations, Any] = dict(zip(symbols, sizes.symbols(), strict=True))
        self.formulas: list[Any] = []
        self.nodes: dict[int, Node] = {}
        for n in order:
            self.nodes[id(n)] = n if n.op is CONST else self.node(n)
        self.order = [self.nodes[id(n)] for n in order]

    def node(self, n: Node) -> Node:
        if n.data is not None:
            return Node(None, (), (), Size(self.several(n.shape)), n.dtype, n.device, n.data)
        inputs = tuple([self.nodes[id(i)] for i in n.inputs])
        attrs = self.several(n.attrs)
        assert n.op is not None
        if n.op.infer is not None:
            shape, _ = n.op.infer(*inputs, *attrs)
            for x in shape:
                self.learn(x)
        return Node(n.op, inputs, attrs, Size(self.several(n.shape)), n.dtype, n.device)

    def several(self, x: Any) -> Any:
        """The same with formulas for ints."""
        if type(x) is int:
            return self.next()
        if not isinstance(x, tuple):
            return x
        parts = [self.several(v) for v in x]
        return type(x)(*parts) if hasattr(x, "_fields") else type(x)(parts)

    def next(self) -> Any:
        """The formula of the next int."""
        column = self.columns[len(self.formulas)]
        found = column[0] if len(set(column)) == 1 else self.fitting(column)
        self.formulas.append(found)
        return found

    def learn(self, x: Any) -> None:
        """Know a formula by what it gives."""
        if type(x) is SymbolicSize:
            number = self.sizes.function([x])
            self.known.setdefault(tuple([number(*now)[0] for now in self.samples]), x)

    def fitting(self, column: Observations) -> Any:
        """A formula that gives these ints: one that is known, or a multiple of one or of two, with
        a number or another one that is known added to it."""
        found = self.known.get(column)
        if found is not None:
            return found
        known = list(self.known.items())[:MAX_BASE_FORMULAS]
        terms = known[:]
        for (c, a), (d, b) in combinations_with_replacement(known, 2):
            terms.append((tuple([x * y for x, y in zip(c, d, strict=True)]), a * b))
        for c, a in terms:
            times, rest = _line(c, column)
            if times:
                self.known[column] = found = a * times + rest
                return found
        for (c, a), (d, b) in product(known, known):
            times, rest = _line(d, tuple([y - x for x, y in zip(c, column, strict=True)]))
            if times:
                self.known[column] = found = a + b * times + rest
                return found
        raise _NoFormulaError(column)


def _line(x: Observations, y: Observations) -> tuple[int, int]:
    """The ints a and b with y = a * x + b; a is 0 if there are none."""
    k = next((k for k in range(1, len(x)) if x[k] != x[0]), 0)
    if not k or (y[k] - y[0]) % (x[k] - x[0]):
        return 0, 0
    a = (y[k] - y[0]) // (x[k] - x[0])
    b = y[0] - a * x[0]
    return (a, b) if all(a * p + b == q for p, q in zip(x, y, strict=True)) else (0, 0)


class _GraphFamily:
    """What is known of graphs that differ in numbers alone."""

    def __init__(self) -> None:
        self.seen: list[list[int]] = []  # the ints of the latest ones
        self.patterns: list[GeneralProgram] = []
        self.failures = 0
        self.kernels = 0  # of the Programs for many


class GraphFamilies:
    """The kinds of graphs that an executor has met."""

    def __init__(self, unload: Callable[[Program], None]) -> None:
        self.known: LruCache[Any, _GraphFamily] = LruCache(
            MAX_KINDS, MAX_KERNELS, attrgetter("kernels"),
            lambda kind: [*map(unload, [p.general for p in kind.patterns])],
        )  # fmt: skip

    def planned(
        self, graph: Any, order: Sequence[Node], roots: Sequence[Node], fit: Any, limits: Limits
    ) -> PlannedProgram | None:
        """A Program for a graph that is recorded for the first time, where one for many fits.
        `graph` is its `graph_key`."""
        key, numbers = split_ints(graph)
        kind = self.known.get(key) or _GraphFamily()
        self.known.put(key, kind)
        for p in kind.patterns:
            found = p.planned(numbers)
            if found is not None:
                return found
        if numbers in kind.seen:  # it differs in what may be written over
            return None
        kind.seen.append(numbers)
        del kind.seen[: -STATIC_PROGRAMS - 2]
        enough = len(kind.patterns) >= MAX_PATTERNS or kind.failures >= MAX_FAILURES
        if len(kind.seen) <= STATIC_PROGRAMS or enough:
            return None
        try:
            made = GeneralProgram(order, roots, kind.seen, fit, limits)
        except (Exception, DynamicShapeError) as error:  # planned as they are, all of them can be
            debug.unsized(error)
            kind.seen.clear()
            kind.failures += 1
            return None
        kind.patterns.append(made)
        kind.kernels += len(made.general.kernels)
        return made.planned(numbers)
