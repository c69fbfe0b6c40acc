"""A kernel's code over its space, cut into blocks that stay in cache; threads share them out.

A Reduce over an axis that is cut is combined from the blocks' partial results.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from pyframe.codegen.numpy import elementwise
from pyframe.codegen.numpy.elementwise import Call
from pyframe.codegen.numpy.instructions import (
    Cached,
    acc_dtype,
    copy_result,
    is_plain,
    narrow,
    op_calls,
)
from pyframe.codegen.numpy.memory import Array, LoadView, Ranges, Shape, extent, valid, within
from pyframe.codegen.numpy.sums import sum_calls
from pyframe.codegen.numpy.threads import Stage
from pyframe.core.op import REGISTRY
from pyframe.graph import program
from pyframe.graph.program import Apply, InBounds, Kernel, Load, Reduce, ScalarParam, combine_of

if TYPE_CHECKING:
    from pyframe.codegen.numpy.kernels import StepLowering

BLOCK = 1 << 16  # elements of a block: its arrays stay in the L2 cache
MAX_BLOCKS = 1 << 12  # of a kernel: each is planned, and a plan is not to take long
MIN_PARALLEL_WORK = 1 << 20  # elements times instructions from which threads pay


class TiledKernel:
    """Code over a space, cut into blocks.

    A Reduce over an axis that is cut is combined from the blocks' partial results, and what follows
    from it takes another pass over the blocks.
    """

    def __init__(self, builder: StepLowering, kernel: Kernel) -> None:
        self.builder, self.plan = builder, builder.plan
        self.code, self.space, self.stores = program.collapsed(
            kernel.code, kernel.space, kernel.stores
        )
        self.sources: dict[int, LoadView] = {}
        self.values: dict[int, Array] = {}  # the same in all blocks
        self.homes: dict[int, Any] = {}  # of what is read where it lies: the key of that memory
        self.insides: dict[int, tuple[tuple[int, int], ...]] = {}  # where an InBounds holds
        self.shapes: list[Shape] = []
        for n, i in enumerate(self.code):
            self.shapes.append(self.prepare(n, i))
        self.targets = [
            LoadView(builder.flat(s.binding, s.dtype), *s.index_map).array for s in self.stores
        ]
        self.target_keys = [builder.keys[s.binding] for s in self.stores]

    def prepare(self, n: int, i: Any) -> Shape:
        """Bind what instruction n reads; the shape in which it varies."""
        builder = self.builder
        if isinstance(i, Load):
            key = (i.binding, i.dtype)
            source = builder.source(builder.flat(i.binding, i.dtype), i.index_map, key)
            if len(i.index_map) == 1:
                self.homes[n] = builder.keys[i.binding]
        elif isinstance(i, ScalarParam):
            self.values[n] = builder.param(i)
            return ()
        elif isinstance(i, InBounds):
            source = valid(i.index_map)
            if len(i.index_map) == 1:
                v = i.index_map[0]
                self.insides[n] = v.mask or tuple((0, m) for m in v.shape)
        elif isinstance(i, Apply) and i.index is not None:
            source = self.indexed(i)
        elif isinstance(i, Reduce):
            shape = self.shapes[i.arg] or (1,) * len(self.space)
            return tuple(1 if d in i.axes else m for d, m in enumerate(shape))
        else:
            return np.broadcast_shapes(*[self.shapes[a] for a in i.args])
        self.sources[n] = source
        return source.shape

    def scalar(self, n: int) -> Array:
        """Value n, which is one number, computed before the blocks."""
        found = self.values.get(n)
        if found is None:
            i = self.code[n]
            if n in self.sources:
                found = self.sources[n].array.reshape(-1)[:1].reshape(())
            else:
                found = np.empty((), i.dtype.numpy)
                args = [self.scalar(a) for a in i.args]
                self.builder.stages.append(Stage([op_calls(i, args, found, np.empty)]))
            self.values[n] = found
        return found

    def indexed(self, i: Apply) -> LoadView:
        """An op on flat indices, computed as a whole where its scalars have changed."""
        index_map = i.index
        assert index_map is not None
        args = [self.scalar(a) for a in i.args]
        v = index_map[0]
        n = max(math.prod(v.shape), extent(v))
        memory = np.empty(n, i.dtype.numpy)
        fill = Cached(REGISTRY[i.op].numpy, args, memory)
        self.builder.stages.append(Stage([[(fill.run, ())]]))
        return self.builder.source(memory, index_map, id(memory))

    # --- how to cut

    def build(self) -> None:
        cut, block = self.blocking()
        levels = self.levels(cut)
        work = sum(isinstance(i, (Apply, Reduce)) for i in self.code) + len(self.stores)
        threads = self.plan.threads if work * math.prod(self.space) >= MIN_PARALLEL_WORK else 1
        known: dict[int, Array] = {}
        every = [slice(0, n) for n in self.space]
        blocks = [
            tuple(r) for r in itertools.product(
                *[
                    [slice(a, min(a + block[d], n)) for a in range(0, n, block[d])]
                    if d in cut else [every[d]]
                    for d, n in enumerate(self.space)
                ]
            )
        ]  # fmt: skip
        for level in range(max(levels, default=0) + 1):
            crossing = [n for n, i in enumerate(self.code)
                     if self.crosses(i, cut) and levels[i.arg] == level]  # fmt: skip
            stores = [n for n, s in enumerate(self.stores) if levels[s.value] == level]
            inner = [n for n in stores if any(self.targets[n].shape[d] != 1 for d in cut)]
            once = [n for n in stores if n not in inner]
            partial = {n: self.partial(n, len(blocks)) for n in crossing}
            if inner or crossing:
                wanted = [self.stores[n].value for n in inner] + [
                    self.code[n].arg for n in crossing
                ]
                shared = [
                    WorkerTiles(self, blocks, w, threads, inner, known, partial, wanted).calls
                    for w in range(min(threads, len(blocks)))
                ]
                whole = list(itertools.chain.from_iterable(shared))
                self.builder.stages.append(Stage(shared, whole))
            tail: list[Call] = []
            for n in crossing:
                known[n] = self.combined(n, partial[n], tail)
            if tail:
                self.builder.stages.append(Stage([tail]))
            for n in inner:
                s = self.stores[n]
                if s.dtype is program.dtype_of(self.code[s.value]):
                    known[s.value] = self.targets[n]
            if once:
                wanted = [self.stores[n].value for n in once]
                single = WorkerTiles(self, [tuple(every)], 0, 1, once, known, {}, wanted)
                self.builder.stages.append(Stage([single.calls]))

    def blocking(self) -> tuple[tuple[int, ...], Shape]:
        """The axes to cut and the sizes of a block."""
        space, size = self.space, math.prod(self.space)
        if size <= BLOCK:
            return (), space
        reduces = [i for i in self.code if isinstance(i, Reduce) and i.axes]
        reduced = sorted({d for i in reduces for d in i.axes})
        kept = [d for d in range(len(space)) if d not in reduced]
        inner = math.prod(space[d] for d in reduced)  # elements that are not cut
        last = reduced[-1:] == [len(space) - 1]
        whole = not reduced or (last and kept and inner <= 4 * BLOCK)
        if not whole and all(combine_of(i).ufunc for i in reduces):
            kept, inner = reduced, size // inner
        block = list(space)
        cut = []
        for d in reversed(kept):
            block[d] = min(space[d], max(max(BLOCK, size // MAX_BLOCKS) // inner, 1))
            inner *= block[d]
            if block[d] < space[d]:
                cut.append(d)
                # equal blocks, and as many for each worker
                count = -(-space[d] // block[d])
                block[d] = -(-space[d] // count)
        return tuple(sorted(cut)), tuple(block)

    def crosses(self, i: Any, cut: Sequence[int]) -> bool:
        return isinstance(i, Reduce) and any(d in cut for d in i.axes)

    def levels(self, cut: Sequence[int]) -> list[int]:
        """After how many passes each value is known."""
        out: list[int] = []
        for i in self.code:
            indexed = isinstance(i, Apply) and i.index is not None
            args = () if indexed else program.operands(i)
            out.append(max((out[a] for a in args), default=0) + self.crosses(i, cut))
        return out

    def partial(self, n: int, blocks: int) -> Array:
        i = self.code[n]
        return np.empty((blocks, *self.shapes[n]), acc_dtype(i))

    def combined(self, n: int, partial: Array, calls: list[Call]) -> Array:
        i = self.code[n]
        out = np.empty(self.shapes[n], partial.dtype)
        if combine_of(i).sums:
            calls += sum_calls(partial, (0,), out[None], np.empty)
        else:
            ufunc: Any = combine_of(i).ufunc
            calls.append((ufunc.reduce, (partial, 0, partial.dtype, out)))
        if i.dtype.narrow is not None:
            calls.append((narrow, (i.dtype.narrow, out)))
        if out.dtype != i.dtype.numpy:
            rounded = np.empty(out.shape, i.dtype.numpy)
            calls.append((np.copyto, (rounded, out)))
            return rounded
        return out


class WorkerTiles:
    """The calls of one worker: its share of the blocks, one after the other."""

    def __init__(
        self, body: TiledKernel, blocks: Sequence[Ranges], worker: int, workers: int,
        stores: Sequence[int], known: dict[int, Array], partial: dict[int, Array],
        wanted: Sequence[int],
    ) -> None:  # fmt: skip
        self.body, self.worker = body, worker
        self.temporary: list[int] = []
        self.stores, self.known, self.partial = stores, known, partial
        self.calls: list[Call] = []
        self.needed = self.closure(wanted)
        self.last = self.last_uses()
        first, end = (len(blocks) * w // min(workers, len(blocks)) for w in (worker, worker + 1))
        for n in range(first, end):
            self.block(n, blocks[n])

    def closure(self, wanted: Iterable[int]) -> list[int]:
        seen: set[int] = set()
        stack = list(wanted)
        while stack:
            n = stack.pop()
            if n not in seen:
                seen.add(n)
                stack.extend(self.args(n))
        return sorted(seen)

    def args(self, n: int) -> tuple[int, ...]:
        body = self.body
        if n in self.known or n in body.values or n in body.sources:
            return ()
        return program.operands(body.code[n])

    def last_uses(self) -> dict[int, int]:
        """The last instruction that takes each value; what is stored is taken at the end."""
        out: dict[int, int] = {}
        crossing = [(n, self.body.code[n].arg) for n in self.partial]
        for n in self.needed:
            for a in self.args(n):
                out[a] = n
        for n, a in crossing:
            out[a] = max(out.get(a, 0), n)
        for s in self.stores:
            out[self.body.stores[s].value] = len(self.body.code)
        return out

    def block(self, number: int, ranges: Ranges) -> None:
        body = self.body
        self.free: list[int] = []
        self.taken = 0
        self.held: dict[int, int] = {}  # the register of a value
        values: dict[int, Array] = {}
        pending = list(self.stores)
        for n in sorted({*self.needed, *self.partial}):
            i = body.code[n]
            if n in self.partial:
                self.reduce(i, values[i.arg], self.partial[n][number], ranges)
                self.release(i.arg, n)
                continue
            if n in self.known:
                known = self.known[n]
                values[n] = known[(..., *within(known.shape, ranges))]
            elif n in body.values:
                values[n] = body.values[n]
            elif n in body.sources:
                values[n] = self.load(n, ranges)
            elif isinstance(i, Reduce) and not i.axes and combine_of(i).arg:
                values[n] = np.zeros(values[i.arg].shape, i.dtype.numpy)
            elif (same := self.renames(i)) is not None:
                values[n] = values[same]
                if same in body.homes:
                    body.homes[n] = body.homes[same]
                if same in self.held and self.last[same] == n:
                    self.held[n] = self.held.pop(same)
                elif same in self.held:  # one register, two names: neither gives it back
                    self.last[same] = len(body.code)
            else:
                args = program.operands(i)
                xs = [values[a] for a in args]
                shape = self.shape(body.shapes[n], ranges)
                out = self.direct(n, i, shape, ranges, pending)
                if out is None and isinstance(i, Apply):
                    out = self.in_place(n, i, args, xs, shape)
                if out is None:
                    out = self.take(n, shape, i.dtype.numpy)
                if isinstance(i, Reduce):
                    self.reduce(i, xs[0], out, ranges)
                    if i.dtype.narrow is not None:
                        self.calls.append((narrow, (i.dtype.narrow, out)))
                else:
                    self.calls += self.masked(i, xs, out, ranges) or op_calls(
                        i, xs, out, self.scratch
                    )
                    self.unscratch()
                values[n] = out
                for a in set(args):
                    self.release(a, n)
        self.finish(pending, values, ranges)

    def renames(self, i: Any) -> int | None:
        """The instruction whose value this one is, unchanged."""
        if isinstance(i, Reduce):
            return None if i.axes else i.arg
        return i.args[0] if REGISTRY[i.op].lower is elementwise.copy else None

    def shape(self, shape: Shape, ranges: Ranges) -> Shape:
        return tuple(
            1 if n == 1 else r.stop - r.start for n, r in zip(shape, ranges, strict=True)
        ) if shape else ()  # fmt: skip

    def masked(self, i: Apply, xs: list[Array], out: Array, ranges: Ranges) -> list[Call]:
        """A `where` on the edges of a padding: both parts are copied."""
        inside = self.body.insides.get(i.args[0]) if len(xs) == 3 else None
        if inside is None or any(x.dtype != out.dtype for x in xs[1:]):
            return []
        at = []
        for (lo, hi), r in zip(inside, ranges, strict=True):
            a, b = max(r.start, lo), min(r.stop, hi)
            at.append(slice(a - r.start, max(a, b) - r.start))
        part = out[(..., *at)]
        if xs[1].shape != out.shape or np.may_share_memory(xs[1], out):
            return []
        calls: list[Call] = [(np.copyto, (out, xs[2]))] if part.size < out.size else []
        return [*calls, (np.copyto, (part, xs[1][(..., *at)]))] if part.size else calls

    # --- registers

    def take(self, n: int, shape: Shape, dtype: np.dtype) -> Array:
        self.held[n] = index = self.grab()
        return self.body.plan.registers.get(self.worker, index, shape, dtype)

    def grab(self) -> int:
        if self.free:
            return self.free.pop()
        self.taken += 1
        return self.taken - 1

    def release(self, a: int, n: int) -> None:
        if a in self.held and self.last[a] == n:
            self.free.append(self.held.pop(a))

    def scratch(self, shape: Shape, dtype: Any) -> Array:
        """Scratch for the calls of one op."""
        index = self.grab()
        self.temporary.append(index)
        return self.body.plan.registers.get(self.worker, index, shape, np.dtype(dtype))

    def unscratch(self) -> None:
        self.free += self.temporary
        self.temporary = []

    def in_place(
        self, n: int, i: Apply, args: tuple[int, ...], xs: list[Array], shape: Shape
    ) -> Array | None:
        """The register of an operand that ends here, if a ufunc can write over it: fewer registers
        stay in cache."""
        if not is_plain(i, xs):
            return None
        for a, x in zip(args, xs, strict=True):
            if (
                a in self.held and self.last[a] == n
                and x.shape == shape and x.dtype == i.dtype.numpy
            ):  # fmt: skip
                self.held[n] = self.held.pop(a)
                return x
        return None

    # --- instructions

    def load(self, n: int, ranges: Ranges) -> Array:
        part, inside, shape = self.body.sources[n].cut(ranges)
        if inside is None:
            return part
        out = self.take(n, shape, part.dtype)
        self.calls.append((out.fill, (0,)))
        if part.size:
            self.calls.append((np.copyto, (out[(..., *inside)], part)))
        return out

    def reduce(self, i: Reduce, x: Array, out: Array, ranges: Ranges) -> None:
        shape = x.shape or (1,) * len(ranges)
        wide = tuple(
            r.stop - r.start if d in i.axes else m
            for d, (m, r) in enumerate(zip(shape, ranges, strict=True))
        )
        if x.shape != wide:
            x = np.broadcast_to(x, wide)
        combine = combine_of(i)
        if combine.ufunc is None:
            fn: Any = REGISTRY[i.op].numpy
            self.calls.append((copy_result, (fn, out, x, i.axes, True)))
        elif combine.sums:
            acc = out if out.dtype == acc_dtype(i) else self.scratch(out.shape, acc_dtype(i))
            self.calls += sum_calls(x, i.axes, acc, self.scratch)
            if acc is not out:
                self.calls.append((np.copyto, (out, acc)))
            self.unscratch()
        else:
            self.calls.append((combine.ufunc.reduce, (x, i.axes, out.dtype, out, True)))

    # --- stores

    def target(self, s: int, ranges: Ranges) -> Array:
        t = self.body.targets[s]
        return t[(..., *within(t.shape, ranges))]

    def direct(
        self, n: int, i: Any, shape: Shape, ranges: Ranges, pending: list[int]
    ) -> Array | None:
        """The place where value n is stored, if it can be computed there."""
        body = self.body
        for s in pending:
            if body.stores[s].value != n or body.stores[s].dtype is not i.dtype:
                continue
            out = self.target(s, ranges)
            key = body.target_keys[s]
            # what is read later from that memory, or by several calls, must not be overwritten
            early = isinstance(i, Reduce) or not isinstance(REGISTRY[i.op].numpy, np.ufunc)
            if out.shape != shape or any(
                self.last[a] > n - early
                for a, home in body.homes.items()
                if home == key and a in self.last
            ):
                continue
            if any(body.target_keys[t] == key for t in self.stores if t != s):
                continue
            pending.remove(s)
            return out
        return None

    def finish(self, pending: list[int], values: dict[int, Array], ranges: Ranges) -> None:
        """Copy what was not computed in its place."""
        body = self.body
        written = {body.target_keys[s] for s in pending}
        if len(pending) > 1:
            for s in pending:
                v = body.stores[s].value
                if body.homes.get(v) in written and v not in self.held:
                    old = values[v]
                    values[v] = self.take(v, old.shape, old.dtype)
                    self.calls.append((np.copyto, (values[v], old)))
        for s in pending:
            out, value = self.target(s, ranges), values[body.stores[s].value]
            if any(n == 1 != m for n, m in zip(out.shape, value.shape, strict=False)):
                # the same along axes that the store does not have, though computed for all
                value = value[tuple(slice(0, 1) if n == 1 else slice(None) for n in out.shape)]
            if out.dtype == value.dtype:
                self.calls.append((np.copyto, (out, value)))
            else:
                self.calls.append((np.copyto, (out, value, "unsafe")))
