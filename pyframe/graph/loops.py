"""Loops: what a scheduled kernel does, in which order, before any language.

The axes of a kernel lie on levels: level 0 is done side by side, the others are walked for each
result, the first reduction innermost. A statement stands on the outermost level on which all that
it needs is known; so what varies less is done less often. A loop makes the reductions that it names
and runs its own statements; what follows from a reduction stands after it, maybe in a second loop
over the same axes (softmax has two).

Positions in buffers are Scalars over the indices of the axes (`position`), so that printers need to
know nothing of index maps.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Sequence
from typing import Any, NamedTuple

from pyframe.core.sizes import is_symbolic_size, statically_equal
from pyframe.core.view import IndexMap, Shape, View, unravel
from pyframe.graph import scalar as s
from pyframe.graph.program import Apply, InBounds, Kernel, Load, Reduce, Store, operands
from pyframe.graph.scalar import Scalar

INDEX = "index"  # the type of positions: an int that holds an address


class Let(NamedTuple):
    """Instruction `value` of the code is computed here."""

    value: int


class Loop(NamedTuple):
    """A walk over the axes of `level`, which makes the reductions `reduces` and runs `body`."""

    level: int
    reduces: tuple[int, ...]
    body: tuple[Let | Loop | Write, ...]


class Write(NamedTuple):
    """Store number `store` of the kernel."""

    store: int


class LoopNest(NamedTuple):
    """A kernel as loops."""

    code: Sequence[Any]  # its instructions
    stores: Sequence[Store]
    space: Shape
    levels: list[list[int]]  # the axes level by level
    at: list[int]  # on which level each instruction varies
    walks: list[int]  # the level that a Reduce walks; -1 for all else
    body: tuple[Let | Loop | Write, ...]

    def size(self, level: int) -> int:
        """How many elements a level has."""
        return math.prod(self.space[d] for d in self.levels[level])

    def level_of(self, store: Store) -> int:
        """The innermost level along which a store varies."""
        return _of_store(store, self.levels)


def levels_of(kernel: Kernel) -> list[list[int]]:
    """The axes level by level: those of the grid, then those that are reduced; the first reduction
    walks the innermost level."""
    reduced: list[tuple[int, ...]] = []
    for i in kernel.code:
        if isinstance(i, Reduce) and i.axes and i.axes not in reduced:
            reduced.append(i.axes)
    inside = {d for axes in reduced for d in axes}
    grid = [d for d in range(len(kernel.space)) if d not in inside]
    return [grid, *[list(axes) for axes in reversed(reduced)]]


def axes_of(index_map: IndexMap) -> set[int]:
    """The axes along which what an index map shows varies."""
    v = index_map[-1]
    return {
        d for d, n in enumerate(v.shape)
        if (is_symbolic_size(n) or n != 1)
        and (v.strides[d] or (v.mask is not None and not statically_equal(v.mask[d], (0, n))))
    }  # fmt: skip


def nest(kernel: Kernel) -> LoopNest:
    """`kernel`, which is no routine, as loops."""
    levels = levels_of(kernel)
    depth = {d: level for level, axes in enumerate(levels) for d in axes}
    at: list[int] = []
    walks: list[int] = []
    for i in kernel.code:
        walk = -1
        level = max([at[a] for a in operands(i)], default=0)
        if isinstance(i, (Load, InBounds)):
            level = max([depth[d] for d in axes_of(i.index_map)], default=0)
        elif isinstance(i, Apply) and i.index is not None:
            level = max([level, *[depth[d] for d in axes_of(i.index)]])
        elif isinstance(i, Reduce) and i.axes:
            walk = depth[i.axes[0]]
            level = walk - 1
        at.append(level)
        walks.append(walk)
    stores = range(len(kernel.stores))
    body = _Builder(kernel, levels, at, walks).block(0, (), stores, set())
    return LoopNest(kernel.code, kernel.stores, kernel.space, levels, at, walks, body)


def _of_store(store: Store, levels: list[list[int]]) -> int:
    used = {d for d, stride in enumerate(store.index_map[-1].strides) if stride}
    return max([level for level, axes in enumerate(levels) if used & set(axes)], default=0)


class _Builder:
    """Places instructions and stores: each as far out as it can stand, after what it needs."""

    def __init__(
        self, kernel: Kernel, levels: list[list[int]], at: list[int], walks: list[int]
    ) -> None:
        self.code: Sequence[Any] = kernel.code
        self.stores = kernel.stores
        self.levels, self.at, self.walks = levels, at, walks

    def block(
        self, level: int, values: Sequence[int], stores: Sequence[int], known: set[int]
    ) -> tuple[Any, ...]:
        """Statements that compute `values` and write `stores` where the indices of the levels up to
        `level` are known, as are the instructions `known`, to which it adds."""
        deeper = [n for n in stores if _of_store(self.stores[n], self.levels) > level]
        here = [n for n in stores if n not in deeper]
        stage: dict[int, int] = {}  # how many loops of the next level come before it

        def stage_of(k: int) -> int:
            if k not in stage:
                before = max([stage_of(a) for a in operands(self.code[k])], default=0)
                stage[k] = before + (self.walks[k] == level + 1)
            return stage[k]

        wanted = [*values, *[self.stores[n].value for n in stores]]
        last = max([stage_of(k) for k in wanted], default=0)
        walked = [k for k in sorted(stage) if self.walks[k] == level + 1 and k not in known]
        out: list[Any] = []
        for n in range(last + 1):
            reduces = [k for k in walked if stage[k] == n + 1]
            inner = [w for w in deeper if stage[self.stores[w].value] == n]
            if reduces or inner:
                args = [operands(self.code[k])[0] for k in reduces]
                for k in [*args, *[self.stores[w].value for w in inner]]:
                    self.outer(k, level, known, out)
                body = self.block(level + 1, args, inner, set(known))
                out.append(Loop(level + 1, tuple(reduces), body))
                known.update(reduces)
        for k in values:
            self.let(k, known, out)
        for n in here:
            self.let(self.stores[n].value, known, out)
        return (*out, *[Write(n) for n in here])

    def outer(self, k: int, level: int, known: set[int], out: list[Any]) -> None:
        """Compute what instruction k takes and what does not vary within `level`."""
        if k in known:
            return
        if self.at[k] <= level and not self.waits(k, known):
            self.let(k, known, out)
            return
        for a in operands(self.code[k]):
            self.outer(a, level, known, out)

    def waits(self, k: int, known: set[int]) -> bool:
        """Whether a reduction that is not made yet comes before instruction k."""
        return k not in known and (
            self.walks[k] >= 0 or any(self.waits(a, known) for a in operands(self.code[k]))
        )

    def let(self, k: int, known: set[int], out: list[Any]) -> None:
        """Compute instruction k, after all that it takes."""
        if k not in known:
            assert self.walks[k] < 0, "a reduction is made by the loop over its axes"
            for a in operands(self.code[k]):
                self.let(a, known, out)
            known.add(k)
            out.append(Let(k))


# --- positions


class Address(NamedTuple):
    """Where an index map sends the index: the position in its buffer, and whether there is an
    element (None: always). The position means nothing where there is none."""

    at: Scalar
    valid: Scalar | None


def index(d: int) -> Scalar:
    """The index along axis `d`."""
    return Scalar("index", (), INDEX, d)


@functools.lru_cache(4096)
def position(index_map: IndexMap, space: Shape) -> Address:
    """What an index map says, over the indices of `space`; what is 0 or 1 leaves no trace."""
    if any(0 in v.shape for v in index_map[:-1]):  # all is padding around nothing
        return Address(_number(0), s.const(False, "bool"))
    at: list[Scalar | None] = [index(d) if _is_long(n) else None for d, n in enumerate(space)]
    conditions: list[Scalar] = []
    for depth in reversed(range(len(index_map))):
        v = index_map[depth]
        conditions += _inside(v, at)
        if depth == 0:
            break
        shape = index_map[depth - 1].shape
        # where a mask lets an index pass its bounds, the digits need not be in range
        parts = unravel(v, shape) if v.mask is None else None
        if parts is None:
            flat = _sum(v.offset, v.strides, at)
            at = [digit(flat, shape, d) if _is_long(n) else None for d, n in enumerate(shape)]
        else:
            at = [
                _terms(offset, terms, at) if _is_long(n) else None
                for (offset, terms), n in zip(parts, shape, strict=True)
            ]
    valid = None
    for c in conditions:
        valid = c if valid is None else valid & c
    return Address(_sum(index_map[0].offset, index_map[0].strides, at), valid)


def _is_long(n: int) -> bool:
    """Whether an index along an axis of `n` elements may be another than 0."""
    return is_symbolic_size(n) or n > 1


def _number(n: int) -> Scalar:
    return s.const(n, INDEX)


def _inside(v: View, at: Sequence[Scalar | None]) -> list[Scalar]:
    """That the indices lie within the mask of a view."""
    out = []
    for (lo, hi), n, i in zip(v.mask or (), v.shape, at, strict=False):
        # Nowhere; an axis of one element has no index here
        if not is_symbolic_size(hi - lo) and lo >= hi:
            return [s.const(False, "bool")]
        if (i is not None and is_symbolic_size(lo)) or lo > 0:
            out.append(s.const(False, "bool") if i is None else i >= lo)
        if (i is not None and is_symbolic_size(n - hi)) or hi < n:
            out.append(s.const(hi > 0, "bool") if i is None else i < hi)
    return out


def _sum(offset: int, strides: Shape, at: Sequence[Scalar | None]) -> Scalar:
    """offset + the products of indices and strides."""
    out = _number(offset) if offset else None
    for i, stride in zip(at, strides, strict=True):
        if i is not None and stride:
            term = i if stride == 1 else i * stride
            out = term if out is None else out + term
    return _number(0) if out is None else out


def _terms(offset: int, terms: Any, at: Sequence[Scalar | None]) -> Scalar | None:
    """An index that `unravel` gives as a sum of terms."""
    out = _number(offset) if offset else None
    for t in terms:
        i = at[t.dim]
        if i is None:
            continue
        if t.div > 1:
            i = i / t.div
        if t.mod:
            i = i % t.mod
        if t.factor != 1:
            i = i * t.factor
        out = i if out is None else out + i
    return out


def digit(flat: Scalar, shape: Shape, d: int) -> Scalar:
    """Index d of the flat position over `shape`."""
    inner, outer = math.prod(shape[d + 1 :]), math.prod(shape[:d])
    i = flat if statically_equal(inner, 1) else flat / inner
    return i if statically_equal(outer, 1) else i % shape[d]
