"""What fuses: which values get a buffer at all, and which of them share a kernel.

Elementwise chains and movement join the kernel that consumes them. A value gets a buffer if a live
tensor needs it, if it is the result of a reduction or routine, or if computing it again would cost
more than storing it. Such values are then gathered into groups over one index space: softmax is a
group with two reductions, a product takes its bias and activation along.
"""

from __future__ import annotations

import heapq
import math
from collections.abc import Mapping, Sequence
from typing import Any

from pyframe.core import view as views
from pyframe.core.limits import Limits
from pyframe.core.node import Node
from pyframe.core.op import CONST, ELEMENTWISE, MOVEMENT, REDUCTION, REGISTRY, ROUTINE
from pyframe.graph.program import Apply, Expr, Load, Param, Reduce, Result, Valid

MAX_CODE = 200  # instructions in one expression: beyond it a value is stored instead
RECOMPUTE = 4  # instructions that it is cheaper to run again than to store a value
MAX_ROW = 100  # instructions and views in a kernel that folds: compilers are slow with long loops
SMALL = 1 << 12  # elements of which it does not matter how they are walked
ONE_GROUP = 1 << 17  # elements that one workgroup may reduce to a scalar by itself
LOOPED = 1 << 10  # elements a result: in a longer reduction no op with a loop of its own


def structure(order: Sequence[Node], roots: Sequence[Node]) -> tuple[Any, ...]:
    """What decides the Program: ops, attributes, shapes, dtypes and links, but no values."""
    number = {id(n): i for i, n in enumerate(order)}
    nodes = tuple(
        (n.shape, n.dtype)
        if n.data is not None and n.op is not CONST
        else (CONST, n.dtype)
        if n.op is CONST
        else (n.op, n.attrs, n.shape, n.dtype, *[number[id(i)] for i in n.inputs])
        for n in order
    )
    return nodes, tuple(number[id(n)] for n in roots)


class _UnfitError(Exception):
    """A node cannot join a kernel."""


class Group:
    """A kernel in the making: nodes computed side by side over one index space.

    `axes` are folded inside it; `rest`, if given, are the others, folded to scalars on a second
    level. A member varies over all axes, over those not folded, or over none.
    """

    def __init__(self, number: int, space: tuple[int, ...], stored: set[int]) -> None:
        self.number, self.space, self.stored = number, space, stored
        self.whole = tuple(d for d, n in enumerate(space) if n != 1)
        self.axes: tuple[int, ...] = ()
        self.rest: tuple[int, ...] = ()
        self.members: list[Node] = []
        self.routine: Node | None = None
        self.operands: tuple[Expr, ...] = ()
        self.code: list[Any] = []
        self.memo: dict[Any, int] = {}
        self.values: dict[int, tuple[int, views.IndexMap]] = {}  # of members, and where they lie
        self.buffers: dict[int, Node] = {}  # what it loads, in the order of its bindings
        self.scalars: dict[Any, Node] = {}
        self.before = 0  # bits of the groups that must run earlier

    def state(self) -> tuple[Any, ...]:
        return (
            self.axes, self.rest, self.members[:], self.routine, self.operands, self.code[:],
            self.memo.copy(), self.values.copy(), self.buffers.copy(), self.scalars.copy(),
            self.before,
        )  # fmt: skip

    def restore(self, state: tuple[Any, ...]) -> None:
        (
            self.axes, self.rest, self.members, self.routine, self.operands, self.code,
            self.memo, self.values, self.buffers, self.scalars, self.before,
        ) = state  # fmt: skip

    @property
    def size(self) -> int:
        return math.prod(self.space)

    @property
    def kept(self) -> tuple[int, ...]:
        """The axes that are not folded on the first level."""
        return tuple(d for d in self.whole if d not in self.axes)

    def domain(self, size: int) -> tuple[int, ...]:
        """The axes over which a value of `size` elements varies here."""
        for axes in (self.whole, self.kept, ()):
            if math.prod(self.space[d] for d in axes) == size:
                return axes
        raise _UnfitError

    def moves(self, shape: tuple[int, ...], domain: tuple[int, ...]) -> Any:
        """The movement that shows a value of `shape` over the whole space."""
        kept = tuple(n if d in domain else 1 for d, n in enumerate(self.space))
        moves = None if kept == self.space else ((views.expand, (self.space,)), None)
        return moves if kept == shape else ((views.reshape, (kept,)), moves)

    def add(self, n: Node) -> None:
        """Compute `n` here too. Raises _UnfitError, and leaves half of the work behind."""
        kind = n.op.kind if n.op is not None else ELEMENTWISE
        if kind == ROUTINE:
            if self.members:
                raise _UnfitError
            self.routine = n
            self.operands = tuple(self.operand(x) for x in n.inputs)
            at, moves = self.emit(Result(n.dtype)), None
        elif kind == REDUCTION:
            assert n.op is not None
            x = n.inputs[0]
            domain = self.domain(math.prod(x.shape))
            at = self.value(x, self.moves(x.shape, domain))
            axes = self.fold(n, domain)
            at = self.emit(Reduce(n.op.name, at, axes, n.dtype))
            moves = self.moves(n.shape, tuple(d for d in domain if d not in axes))
        else:
            moves = self.moves(n.shape, self.domain(math.prod(n.shape)))
            at = self.value(n, moves, True)
        self.values[id(n)] = at, track(n.shape, moves)
        self.members.append(n)
        if len(self.code) > 2 * MAX_CODE:
            raise _UnfitError

    def fold(self, n: Node, domain: tuple[int, ...]) -> tuple[int, ...]:
        """The axes of the space that reduction `n` of a value over `domain` folds."""
        shape, named = n.inputs[0].shape, n.attrs[0]
        there = [d for d, size in enumerate(shape) if size != 1]
        if [self.space[d] for d in domain] != [shape[d] for d in there]:
            raise _UnfitError
        axes = tuple(h for h, t in zip(domain, there, strict=True) if t in named)
        if not axes:
            return ()
        if domain == self.whole:
            if self.axes and self.axes != axes:
                raise _UnfitError
            self.axes = axes
        elif axes != domain:
            raise _UnfitError  # a second level ends in a scalar
        else:
            self.rest = axes
        return axes

    def emit(self, instruction: Any) -> int:
        found = self.memo.get(instruction)
        if found is None:
            found = self.memo[instruction] = len(self.code)
            self.code.append(instruction)
        return found

    def operand(self, x: Node) -> Expr:
        """The code of a routine's operand, over its own index."""
        code, memo = self.code, self.memo
        self.code, self.memo = [], {}
        try:
            last = self.value(x, None)
            if last != len(self.code) - 1:  # the value must be the last instruction
                self.code.append(Apply("copy", (last,), (), x.dtype))
            return Expr(x.shape, tuple(self.code), x.dtype)
        finally:
            self.code, self.memo = code, memo

    def value(self, n: Node, moves: Any, top: bool = False) -> int:
        """The instruction that gives `n` at the index that `moves` make of the space's."""
        key = (id(n), moves)
        found = self.memo.get(key)
        if found is None:
            found = self.memo[key] = self.compute(n, moves, top)
        return found

    def compute(self, n: Node, moves: Any, top: bool) -> int:
        if n.op is CONST:
            return self.param(n, id(n))
        member = self.values.get(id(n))
        if member is not None:
            if not same_places(track(n.shape, moves), member[1]):
                raise _UnfitError
            return member[0]
        if n.data is not None or (id(n) in self.stored and not top):
            self.buffers[id(n)] = n
            binding = list(self.buffers).index(id(n))
            return self.emit(Load(binding, track(n.shape, moves), n.dtype))
        op = n.op
        assert op is not None
        if op.kind == MOVEMENT:
            inside = ((op.view, n.attrs), moves)
            inner = self.value(n.inputs[0], inside)
            fill = _fill(n)
            if fill is not None and not (fill == 0 and isinstance(self.code[inner], Load)):
                valid = self.emit(Valid(track(n.inputs[0].shape, inside)))
                node = Node(CONST, (), (fill,), (), n.dtype, n.device)
                other = self.param(node, (fill, n.dtype))
                return self.emit(Apply("where", (valid, inner, other), (), n.dtype))
            return inner
        args = tuple(self.value(i, _broadcast(i, n, moves)) for i in n.inputs)
        index = track(n.shape, moves) if getattr(op, "uses_index", False) else None
        attrs = () if index is not None else n.attrs
        return self.emit(Apply(op.name, args, attrs, n.dtype, index))

    def param(self, n: Node, key: Any) -> int:
        self.scalars.setdefault(key, n)
        return self.emit(Param(list(self.scalars).index(key), n.dtype))


def track(shape: tuple[int, ...], moves: Any) -> views.IndexMap:
    """The index map of a value of `shape` after `moves`, innermost first."""
    t = views.contiguous(shape)
    while moves is not None:
        (view, attrs), moves = moves
        t = view(t, *attrs)
    return t


def same_places(a: views.IndexMap, b: views.IndexMap) -> bool:
    """Whether two index maps over one space send each index to the same place."""
    if len(a) > 1 or len(b) > 1:
        return a == b
    (x,), (y,) = a, b
    return (x.mask, x.offset, x.shape) == (y.mask, y.offset, y.shape) and all(
        n == 1 or s == t for n, s, t in zip(x.shape, x.strides, y.strides, strict=True)
    )


def _broadcast(i: Node, n: Node, moves: Any) -> Any:
    return moves if i.shape == n.shape else ((views.expand, (n.shape,)), moves)


def _fill(movement: Node) -> Any:
    """What is at the positions that a movement adds around its operand; None if it adds none."""
    op = movement.op
    assert op is not None
    return movement.attrs[op.attrs.index("value")] if "value" in op.attrs else None


# --- which values get a buffer


class Values:
    """The nodes to compute, and which of them are stored rather than computed where they are
    used."""

    def __init__(self, order: Sequence[Node], roots: Sequence[Node], limits: Limits) -> None:
        self.order, self.limits = order, limits
        self.stored = {id(n) for n in roots if n.data is None}
        self.cost: dict[int, int] = {}  # instructions that computing it inside a consumer takes
        self.leaves: dict[int, frozenset[int]] = {}  # the buffers that this reads
        self.looping: set[int] = set()  # what has a loop in it when it is computed in a consumer
        users: dict[int, int] = {}
        for n in order:
            if n.data is None:
                for i in n.inputs:
                    users[id(i)] = users.get(id(i), 0) + 1
        again = 1 if limits.host else RECOMPUTE
        kinds = {id(n): n.op.kind for n in order if n.data is None and n.op is not None}
        heavy = {i for i, kind in kinds.items() if kind in (REDUCTION, ROUTINE)}
        for n in order:
            if n.data is None and n.op is not CONST:
                self.bound(n, self.most(n))
                if id(n) in heavy:
                    routine = kinds[id(n)] == ROUTINE
                    long = not routine and _is_long(n.inputs[0].shape, n.shape)
                    for i in n.inputs if routine or long else ():
                        base = _computed_base(i)
                        # what a routine reads often is computed once, by what makes its operands
                        if base is None or id(base) in self.stored:
                            continue
                        looping = id(base) in self.looping and not limits.host
                        often = self.leaves[id(base)] & heavy and self.cost[id(base)] > 2
                        if looping or (routine and (limits.host or often)):
                            self.store(base, n)
                    self.stored.add(id(n))
            self.note(n)
            cost = self.cost[id(n)]
            shared = users.get(id(n), 0) > 1 and cost > again
            if kinds.get(id(n)) == ELEMENTWISE and (shared or cost > MAX_CODE):
                self.stored.add(id(n))
                self.note(n)

    def most(self, n: Node) -> int:
        """How many buffers a kernel for `n` alone may read."""
        return self.limits.storage_buffers - 1

    def note(self, n: Node) -> None:
        own = frozenset((id(n),))
        if n.data is not None and n.op is not CONST:
            self.cost[id(n)], self.leaves[id(n)] = 1, own
        elif n.op is CONST:
            self.cost[id(n)], self.leaves[id(n)] = 1, frozenset()
        elif id(n) in self.stored:
            self.cost[id(n)], self.leaves[id(n)] = 1, own
        else:
            moves = n.op is not None and n.op.kind == MOVEMENT
            step = 1 if not moves else 0 if _fill(n) is None else 3
            cost = step + sum(self.cost[id(i)] for i in n.inputs)
            self.cost[id(n)] = min(cost, 10**6)
            self.leaves[id(n)] = self.reads(n)
            if _loops(n) or any(id(i) in self.looping for i in n.inputs):
                self.looping.add(id(n))
            return
        self.looping.discard(id(n))

    def reads(self, n: Node) -> frozenset[int]:
        """The buffers that a kernel for `n` loads."""
        return frozenset().union(*[self.leaves[id(i)] for i in n.inputs])

    def bound(self, n: Node, most: int) -> None:
        """Store some of what `n` is computed from, until it reads at most `most` buffers."""
        while len(self.reads(n)) > most:
            for i in sorted(n.inputs, key=lambda i: -len(self.leaves[id(i)])):
                base = _computed_base(i)
                if base is not None and id(base) not in self.stored:
                    self.store(base, n)
                    break
            else:
                return

    def store(self, base: Node, until: Node) -> None:
        self.stored.add(id(base))
        for n in self.order:
            if n is until:
                return
            if n.data is None and n.op is not CONST:
                self.note(n)


def _loops(i: Any) -> bool:
    """Whether the GPU computes this Node or Apply with a loop."""
    op = REGISTRY[i.op] if isinstance(i, Apply) else i.op
    return getattr(op, "loops", None) == i.dtype.category


def _is_long(shape: Sequence[int], result: Sequence[int]) -> bool:
    """Whether a reduction of `shape` to `result` is too long for loops within its loop: Mesa's
    software driver counts the rounds of all of them (see ROUNDS in codegen/wgsl/printer.py)."""
    return math.prod(shape) > LOOPED * math.prod(result)


def _computed_base(n: Node) -> Node | None:
    """The value that movement shows, if it is still to be computed."""
    while n.data is None and n.op is not None and n.op.kind == MOVEMENT:
        n = n.inputs[0]
    return None if n.data is not None or n.op is CONST else n


# --- which values share a kernel


class Grouping:
    def __init__(
        self, values: Values, roots: Sequence[Node], limits: Limits, in_place: Mapping[int, Node]
    ) -> None:
        self.values, self.limits = values, limits
        self.roots = {id(n) for n in roots}
        self.replacing = {id(n) for n in in_place.values()}
        self.position = {id(n): i for i, n in enumerate(values.order)}
        self.groups: list[Group | None] = []
        self.home: dict[int, Group] = {}  # of each stored node
        self.readers: dict[int, list[Group]] = {}  # of each buffer
        self.users: dict[int, set[int]] = {}  # of each buffer: the stored nodes that read it
        todo = [n for n in values.order if id(n) in values.stored]
        for n in todo:
            for leaf in values.reads(n):
                self.users.setdefault(leaf, set()).add(id(n))
        for n in todo:
            self.place(n)

    def place(self, n: Node) -> None:
        leaves = self.values.reads(n)
        makers = list({id(g): g for g in map(self.home.get, leaves) if g is not None}.values())
        makers.sort(key=lambda g: -g.number)
        near = {id(g): g for leaf in leaves for g in self.readers.get(leaf, ())[-4:]}
        others = [g for g in near.values() if g not in makers and self.groups[g.number] is g]
        if math.prod(n.shape) == 1 and n.op is not None and n.op.kind == ELEMENTWISE:
            others += [g for g in self.groups if g is not None and g.size == 1][-1:]
        for g in [*makers, *others]:
            if self.suits(g, n, g in makers) and self.try_add(g, n):
                for other in makers:
                    now = self.groups[g.number]  # a union puts another group in its place
                    if other is not g and self.groups[other.number] is other and now is not None:
                        self.try_union(now, other)
                return
        whole = n.inputs[0].shape if n.op is not None and n.op.kind == REDUCTION else n.shape
        group = Group(len(self.groups), whole, self.values.stored)
        self.groups.append(group)
        group.add(n)
        self.settle(group)

    def suits(self, g: Group, n: Node, made_here: bool) -> bool:
        """Whether computing `n` in `g` too is worth it."""
        kind = n.op.kind if n.op is not None else ELEMENTWISE
        size = math.prod(n.shape)
        if not g.size:  # an empty space, over which nothing may be computed
            return False
        if kind == ROUTINE or (id(n) in self.replacing and (g.axes or g.routine is not None)):
            return False
        if kind == REDUCTION:
            size = math.prod(n.inputs[0].shape)
            if g.routine is not None:
                return False
            if size == g.size and not g.axes:
                axes = tuple(d for d, m in enumerate(n.inputs[0].shape) if d in n.attrs[0])
                return n.inputs[0].shape == g.space and self.balanced(g.space, axes)
            if size != g.size:
                return bool(g.axes) and g.size <= ONE_GROUP
            return True
        if g.routine is not None:
            return made_here and size == g.size
        if g.axes and size == g.size:
            return self.balanced(g.space, g.axes) and (made_here or g.size <= ONE_GROUP)
        return size == g.size or made_here

    def balanced(self, space: tuple[int, ...], axes: tuple[int, ...]) -> bool:
        """Whether a map over `space` loses little when it is walked row by row."""
        whole = [d for d, n in enumerate(space) if n != 1]
        by_rows = bool(whole) and whole[-1] in axes
        if self.limits.host:
            return by_rows
        rows = math.prod(n for d, n in enumerate(space) if d not in axes)
        return math.prod(space) <= SMALL or (by_rows and rows >= 64)

    def try_add(self, g: Group, n: Node) -> bool:
        before = g.state()
        try:
            g.add(n)
            self.check(g)
        except _UnfitError:
            g.restore(before)
            return False
        self.settle(g)
        return True

    def try_union(self, a: Group, b: Group) -> bool:
        if a.routine or b.routine or a.size != b.size:
            return False
        if (a.axes or b.axes) and not self.balanced(a.space, a.axes or b.axes):
            return False
        if self.replacing & {id(n) for g in (a, b) for n in g.members} and (a.axes or b.axes):
            return False
        merged = Group(a.number, (a if a.axes else b).space, self.values.stored)
        bits = (1 << a.number) | (1 << b.number)
        try:
            for n in sorted([*a.members, *b.members], key=lambda n: self.position[id(n)]):
                merged.add(n)
            self.check(merged, bits)
        except _UnfitError:
            return False
        self.groups[b.number] = None
        for g in self.groups:
            if g is not None and g.before & bits:
                g.before |= bits
        self.settle(merged, a, b)
        return True

    def check(self, g: Group, own: int = 0) -> None:
        """Raises _UnfitError if `g` binds too much, or must run both before and after another."""
        own = own or 1 << g.number
        inside = {id(n) for n in g.members}
        written = sum(
            id(n) in self.roots or not self.users.get(id(n), set()) <= inside for n in g.members
        )
        if len(g.buffers) + max(written, 1) > self.limits.storage_buffers:
            raise _UnfitError
        weight = len(g.code) + sum(len(t) for t in map(index_map_of, g.code) if t)
        if g.axes and len(g.members) > 1 and not self.limits.host:
            long = _is_long(g.space, [g.space[d] for d in g.kept])
            if weight > MAX_ROW or (
                long and any(isinstance(i, Apply) and _loops(i) for i in g.code)
            ):
                raise _UnfitError
        for leaf in g.buffers:
            home = self.home.get(leaf)
            if home is not None and not own >> home.number & 1 and home.before & own:
                raise _UnfitError

    def settle(self, g: Group, *replaced: Group) -> None:
        """Note what `g` now computes, reads and must wait for."""
        self.groups[g.number] = g
        for n in g.members:
            self.home[id(n)] = g
        g.before = 0
        for leaf in g.buffers:
            home = self.home.get(leaf)
            if home is not None:
                g.before |= 1 << home.number | home.before
            readers = self.readers.setdefault(leaf, [])
            readers[:] = [r for r in readers if r not in replaced and r is not g] + [g]
        bit = 1 << g.number
        for other in self.groups:
            if other is not None and other.before & bit:
                other.before |= g.before

    def after(self, first: Group, then: Group) -> bool:
        """Have `then` run after `first`, if nothing forbids it."""
        if first is then:
            return True
        bit = 1 << then.number
        if first.before & bit:
            return False
        then.before |= 1 << first.number | first.before
        for other in self.groups:
            if other is not None and other.before & bit:
                other.before |= then.before
        return True

    def join(self, same: list[Group]) -> None:
        """Let the first of the groups do the work of all; none of them waits for another."""
        first, *others = same
        bits = sum(1 << g.number for g in same)
        for g in others:
            first.before |= g.before
            self.groups[g.number] = None
        for other in self.groups:
            if other is not None and other.before & bits:
                other.before |= bits | first.before

    def ordered(self) -> list[Group]:
        """The groups, each after what it must wait for, otherwise as the program was written."""
        left = [g for g in self.groups if g is not None]
        waits = {g.number: g.before for g in left}
        first = {g.number: min(self.position[id(n)] for n in g.members) for g in left}
        done, out = 0, []
        alive = sum(1 << g.number for g in left)
        heap = [(first[g.number], g.number) for g in left if not waits[g.number] & alive]
        heapq.heapify(heap)
        seen = {number for _, number in heap}
        while heap:
            _, number = heapq.heappop(heap)
            g = self.groups[number]
            assert g is not None
            out.append(g)
            done |= 1 << number
            for other in left:
                if other.number not in seen and not waits[other.number] & alive & ~done:
                    seen.add(other.number)
                    heapq.heappush(heap, (first[other.number], other.number))
        assert len(out) == len(left), "kernels wait for one another"
        return out


def index_map_of(i: Any) -> Any:
    return i.index if isinstance(i, Apply) else getattr(i, "index_map", None)
