"""A Program made into bound NumPy calls: the CPU's way to run the same step many times.

`Plan.bind` walks the kernels once. Each becomes calls on views that exist already, cut into blocks
that stay in cache, with temporaries in scratch memory; a run is a loop over these calls. Large
kernels are shared out over a pool of threads, always in the same way.
"""

from __future__ import annotations

import functools
import itertools
import math
import os
import sys
import threading
from collections.abc import Callable, Iterable, Sequence
from typing import Any, NamedTuple, TypeAlias

import numpy as np

from pyframe.codegen.numpy import bound
from pyframe.codegen.numpy.bound import ufunc_call
from pyframe.codegen.numpy.routines import sum_calls
from pyframe.core import dtypes as dt, view as views
from pyframe.core.op import REGISTRY, Combine
from pyframe.graph.program import (
    TEMP,
    Apply,
    Expr,
    Kernel,
    Load,
    Param,
    Program,
    Reduce,
    Result,
    Step,
    Store,
    Valid,
)  # fmt: skip

Array: TypeAlias = np.ndarray
Shape = tuple[int, ...]
Call = tuple[Callable[..., Any], tuple[Any, ...]]
Ranges = tuple[slice, ...]

BLOCK = 1 << 16  # elements of a block: its arrays stay in the L2 cache
MAX_BLOCKS = 1 << 12  # of a kernel: each is planned, and a plan is not to take long
SPLIT = 1 << 20  # elements times instructions from which threads pay


class Stage(NamedTuple):
    """Calls of each worker that may run at the same time; `whole` does the same without threads
    of ours, with those of BLAS if it is a product."""

    work: list[list[Call]]
    whole: list[Call] | None = None
    product: bool = False


class Plan:
    """A compiled Program. `arrays[i]` is the flat memory of slot i, once bound."""

    def __init__(self, program: Program, threads: int | None = None) -> None:
        self.program = program
        self.threads = threads or default_threads()
        self.arrays: list[Array] = []
        self.calls: list[Call] = []
        self.steps: list[list[Call]] = []  # the same, apart for each step
        self.blas = _blas()
        self.blas_threads = 0  # that a run takes, if these are not as many as BLAS has
        regions = [_empty(n) for n in program.regions]
        self.own: list[Array | None] = [
            regions[s.region][s.offset : s.offset + s.nbytes]
            if s.region >= 0
            else _empty(s.nbytes) if s.kind == TEMP else None
            for s in program.slots
        ]  # fmt: skip
        self.scalars = [np.empty((), d.numpy) for _, d in program.params]
        self.by_offset = {offset: i for i, (offset, _) in enumerate(program.params)}
        self.values: list[Any] | None = None
        self.registers: dict[Any, Array] = {}
        self.reg_views: dict[Any, Array] = {}

    def bind(self, arrays: Sequence[Array | None]) -> None:
        """Fix the memory of the slots: C-contiguous arrays, or None for one of the plan's own."""
        self.arrays = []
        for slot, own, given in zip(self.program.slots, self.own, arrays, strict=True):
            if given is None:
                self.arrays.append(_empty(slot.nbytes) if own is None else own)
            else:
                self.arrays.append(given.reshape(-1))
        stages: list[list[Stage]] = []
        for step in self.program.steps:
            stages.append([])
            _Builder(self, step, stages[-1]).build()
        self.steps = self._linked(stages)
        self.calls = [call for calls in self.steps for call in calls]

    def run(self, values: Sequence[Any] = ()) -> None:
        """Compute everything; `values` are the scalars in the order of `program.params`."""
        if not self.arrays and self.program.slots:
            self.bind([None] * len(self.program.slots))
        if values != self.values:
            self.values = list(values)
            for scalar, value in zip(self.scalars, self.values, strict=True):
                scalar[()] = value
        with np.errstate(all="ignore"):
            if self.blas_threads:
                self.blas.set(self.blas_threads)  # type: ignore[union-attr]
            try:
                for f, args in self.calls:
                    f(*args)
            finally:
                if self.blas_threads:
                    self.blas.set(self.blas.threads)  # type: ignore[union-attr]

    def _linked(self, steps: list[list[Stage]]) -> list[list[Call]]:
        """The stages of each step as one list.

        BLAS's own threads wait for work by spinning, which keeps ours from running: so a plan has
        one or the other. Where only products gain much from threads, BLAS's are faster.
        """
        stages = [s for step in steps for s in step]
        alone = any(s.product for s in stages) and all(
            len(s.work) == 1 or s.whole is not None for s in stages
        )
        threads = self.threads if alone else 1
        most = threads if self.blas is None else self.blas.threads
        shared = any(len(s.work) > 1 for s in stages)
        # where nothing of ours runs beside it, BLAS may stay as it is
        self.blas_threads = threads if threads != most and (shared or self.threads < most) else 0
        return [[call for s in step for call in self._calls(s, alone)] for step in steps]

    def _calls(self, stage: Stage, alone: bool) -> list[Call]:
        if alone and stage.whole is not None:
            return stage.whole
        if len(stage.work) <= 1:
            return stage.work[0] if stage.work else []
        return [(_share, (self.threads, stage.work))]

    def register(self, worker: int, index: int, shape: Shape, dtype: np.dtype) -> Array:
        """Scratch memory `index` of a worker; every kernel starts with them all free."""
        key = worker, index, shape, dtype
        found = self.reg_views.get(key)
        if found is None:
            n = math.prod(shape) * dtype.itemsize
            memory = self.registers.get((worker, index))
            if memory is None or memory.size < n:
                memory = self.registers[worker, index] = _empty(max(n, 4 * BLOCK))
            found = self.reg_views[key] = memory[:n].view(dtype).reshape(shape)
        return found


def default_threads() -> int:
    """As many as the CPUs that the process may use, or PYFRAME_THREADS."""
    given = os.environ.get("PYFRAME_THREADS")
    if given:
        return max(int(given), 1)
    if sys.platform == "emscripten":  # Pyodide can't start any
        return 1
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def _empty(nbytes: int) -> Array:
    """Uninitialised bytes at a cache line's start."""
    raw = np.empty(nbytes + 64, np.uint8)
    start = -raw.ctypes.data % 64
    return raw[start : start + nbytes]


# --- threads


class _Blas(NamedTuple):
    set: Callable[[int], Any]
    threads: int


@functools.cache
def _blas() -> _Blas | None:
    """What sets the number of threads of NumPy's BLAS, if threadpoolctl can tell."""
    try:
        from threadpoolctl import ThreadpoolController  # type: ignore[import-untyped]
    except ImportError:
        return None
    found = [c for c in ThreadpoolController().lib_controllers if c.user_api == "blas"]
    return _Blas(found[0].set_num_threads, found[0].num_threads) if len(found) == 1 else None


class _Pool:
    """Threads that wait for calls. The caller is worker 0."""

    def __init__(self, threads: int) -> None:
        self.busy = threading.Lock()
        # plain locks, held while there is nothing to do: a semaphore is some Python more
        self.go = [threading.Lock() for _ in range(threads - 1)]
        self.done = [threading.Lock() for _ in range(threads - 1)]
        self.work: list[list[Call]] = []
        self.errors: list[BaseException] = []
        for i in range(threads - 1):
            self.go[i].acquire()
            self.done[i].acquire()
            threading.Thread(target=self.serve, args=(i,), daemon=True).start()

    def serve(self, i: int) -> None:
        wait, ready = self.go[i].acquire, self.done[i].release
        with np.errstate(all="ignore"):
            while True:
                wait()
                try:
                    for f, args in self.work[i + 1]:
                        f(*args)
                except BaseException as e:
                    self.errors.append(e)
                ready()

    def run(self, work: list[list[Call]]) -> None:
        """Run all calls; an error of any worker is raised when all have ended."""
        with self.busy:
            self.work = work
            n = len(work) - 1
            for go in self.go[:n]:
                go.release()
            try:
                for f, args in work[0]:
                    f(*args)
            finally:
                for done in self.done[:n]:
                    done.acquire()
            if self.errors:
                errors, self.errors = self.errors, []
                raise errors[0]


@functools.cache
def _pool(threads: int) -> _Pool:
    return _Pool(threads)


def _share(threads: int, work: list[list[Call]]) -> None:
    _pool(threads).run(work)  # asked for each time: threads do not survive a fork


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_pool.cache_clear)


# --- a kernel


class _Source:
    """What a Load shows: `array` where it is valid, over a space of `shape` (1: no variation)."""

    def __init__(self, flat: Array, view: views.View) -> None:
        mask = view.mask or tuple((0, n) for n in view.shape)
        full = tuple(m == (0, n) for m, n in zip(mask, view.shape, strict=True))
        varies = [bool(s) or not f for s, f in zip(view.strides, full, strict=True)]
        self.shape = tuple(n if v else 1 for n, v in zip(view.shape, varies, strict=True))
        self.mask = None
        if all(full):
            lo, sizes = (0,) * len(mask), self.shape
        else:
            self.mask = tuple(m if v else (0, 1) for m, v in zip(mask, varies, strict=True))
            lo = tuple(a for a, _ in self.mask)
            sizes = tuple(max(b - a, 0) for a, b in self.mask)
        offset = view.offset + sum(a * s for a, s in zip(lo, view.strides, strict=True))
        if 0 in sizes:
            self.array = np.empty(sizes, flat.dtype)
        else:
            strides = tuple(s * flat.itemsize for s in view.strides)
            self.array = np.ndarray(sizes, flat.dtype, flat, offset * flat.itemsize, strides)

    def cut(self, ranges: Ranges) -> tuple[Array, Ranges | None, Shape]:
        """The valid part of a block, where it lies in the block (None: everywhere), its shape."""
        at = _within(self.shape, ranges)
        shape = tuple(r.stop - r.start for r in at)
        if self.mask is None:
            return self.array[(..., *at)], None, shape  # ...: never a scalar
        both = [
            (max(r.start, lo), max(min(r.stop, hi), r.start, lo))
            for r, (lo, hi) in zip(at, self.mask, strict=True)
        ]
        part = self.array[
            tuple(slice(a - lo, b - lo) for (a, b), (lo, _) in zip(both, self.mask, strict=True))
        ]
        if part.shape == shape:
            return part, None, shape
        inside = tuple(slice(a - r.start, b - r.start) for (a, b), r in zip(both, at, strict=True))
        return part, inside, shape


def _within(shape: Shape, ranges: Ranges) -> Ranges:
    """The ranges of a block in an array that is 1 where it does not vary."""
    return tuple(slice(0, 1) if n == 1 else r for n, r in zip(shape, ranges, strict=True))


class _Builder:
    """Makes the stages of one step."""

    def __init__(self, plan: Plan, step: Step, stages: list[Stage]) -> None:
        self.plan, self.step, self.stages = plan, step, stages
        self.kernel: Kernel = plan.program.kernels[step.kernel]
        self.keys = [  # equal for bindings that may share memory
            ("region", plan.program.slots[s].region) if plan.program.slots[s].region >= 0 else s
            for s in step.slots
        ]
        self.wholes = 0
        self.read_views: dict[Any, Array] = {}

    def flat(self, binding: int, dtype: dt.dtype) -> Array:
        memory = self.plan.arrays[self.step.slots[binding]]
        n = memory.nbytes // dtype.itemsize * dtype.itemsize
        if memory.dtype == dtype.numpy:
            return memory
        return memory.view(np.uint8)[:n].view(dtype.numpy)

    def param(self, i: Param) -> Array:
        return self.plan.scalars[self.plan.by_offset[self.step.param_offset + 4 * i.word]]

    def whole(self, shape: Shape, dtype: np.dtype) -> Array:
        """Memory for something that is computed as a whole before the blocks."""
        self.wholes += 1
        return self.plan.register(-1, self.wholes, shape, dtype)

    def source(self, flat: Array, index_map: views.IndexMap, key: Any) -> _Source:
        """What the index map shows; all but its last view is copied first, as a whole."""
        for i, v in enumerate(index_map[:-1]):
            found = self.read_views.get((key, index_map[: i + 1]))
            if found is None:
                part = _Source(flat, v)
                found = self.whole(v.shape, flat.dtype)
                calls: list[Call] = []
                if part.mask is not None:
                    calls.append((found.fill, (0,)))
                at = [slice(*m) for m in v.mask] if v.mask else []
                calls.append((np.copyto, (found[(..., *at)], part.array)))
                self.stages.append(Stage([calls]))
                self.read_views[key, index_map[: i + 1]] = found
            flat = found.reshape(-1)
        return _Source(flat, index_map[-1])

    def build(self) -> None:
        kernel = self.kernel
        if not math.prod(kernel.space) and not any(math.prod(_kept(s)) for s in kernel.stores):
            return
        if kernel.routine is None:
            body = _Body(self, kernel.code, kernel.space, kernel.stores, None)
            body.build()
        else:
            self.routine(kernel)

    def routine(self, kernel: Kernel) -> None:
        assert kernel.routine is not None
        name, attrs, operands, dtype = kernel.routine
        op = REGISTRY[name]
        inputs = [self.operand(e) for e in operands]
        specs = [_Spec(e.shape, e.dtype) for e in operands]
        shape, _ = op.infer(*specs, *attrs)  # type: ignore[misc]
        target = self.result_store(kernel, dtype)
        if target is None:
            result = self.whole((math.prod(shape),), dtype.numpy)
        else:
            result = self.flat(target.binding, dtype)[target.index_map[0].offset :]
            result = result[: math.prod(shape)]
        self.stages.extend(routine_stages(self.plan, op, inputs, attrs, result.reshape(shape)))
        if dtype.narrow is not None:
            self.stages.append(Stage([[(_narrow, (dtype.narrow, result))]]))
        home = None if target is None else self.keys[target.binding]
        if target is None or target.value != 0 or len(kernel.stores) > 1:
            _Body(self, kernel.code, kernel.space, kernel.stores, (result, home)).build()

    def result_store(self, kernel: Kernel, dtype: dt.dtype) -> Store | None:
        """A store in whose place the routine's result can lie before the epilogue."""
        assert kernel.routine is not None
        exprs = [i for e in kernel.routine.operands for i in e.code]
        read = {self.keys[i.binding] for i in (*kernel.code, *exprs) if isinstance(i, Load)}
        for s in kernel.stores:
            v = s.index_map[0]
            others = [t for t in kernel.stores if t is not s]
            if (
                s.dtype is dtype
                and v.shape == kernel.space
                and views.is_contiguous((v._replace(offset=0),))
                and self.keys[s.binding] not in read
                and all(self.keys[t.binding] != self.keys[s.binding] for t in others)
            ):
                return s
        return None

    def operand(self, e: Expr) -> Array:
        """An operand as an array: a view where it is only loaded, else computed to scratch."""
        if len(e.code) == 1 and isinstance(e.code[0], Load):
            i = e.code[0]
            source = self.source(self.flat(i.binding, i.dtype), i.index_map, (i.binding, i.dtype))
            if source.mask is None:
                return np.broadcast_to(source.array, e.shape)
        out = self.whole(e.shape, e.dtype.numpy)
        store = Store(-1, len(e.code) - 1, views.contiguous(e.shape), e.dtype)
        _Body(self, e.code, e.shape, (store,), None, out.reshape(-1)).build()
        return out


class _Spec(NamedTuple):
    shape: Shape
    dtype: dt.dtype


def _kept(s: Store) -> Shape:
    v = s.index_map[0]
    return tuple(n if k else 1 for n, k in zip(v.shape, v.strides, strict=True))


class _Body:
    """Code over a space, cut into blocks.

    A Reduce over an axis that is cut is folded from the blocks' partial results, and what follows
    from it takes another pass over the blocks.
    """

    def __init__(
        self,
        builder: _Builder,
        code: Sequence[Any],
        space: Shape,
        stores: Sequence[Store],
        result: tuple[Array, Any] | None,
        out: Array | None = None,  # the memory of binding -1
    ) -> None:
        self.builder, self.plan = builder, builder.plan
        self.code, self.space, self.stores = _collapsed(code, space, stores)
        self.sources: dict[int, _Source] = {}
        self.values: dict[int, Array] = {}  # the same in all blocks
        self.homes: dict[int, Any] = {}  # of what is read where it lies: the key of that memory
        self.insides: dict[int, tuple[tuple[int, int], ...]] = {}  # where a Valid holds
        self.shapes: list[Shape] = []
        for n, i in enumerate(self.code):
            self.shapes.append(self.prepare(n, i, result))
        self.targets = []
        for s in self.stores:
            flat = builder.flat(s.binding, s.dtype) if out is None else out
            self.targets.append(_Source(flat, s.index_map[0]).array)
        self.target_keys = [builder.keys[s.binding] if out is None else -1 for s in self.stores]

    def prepare(self, n: int, i: Any, result: Any) -> Shape:
        """Bind what instruction n reads; the shape in which it varies."""
        builder = self.builder
        if isinstance(i, Load):
            key = (i.binding, i.dtype)
            source = builder.source(builder.flat(i.binding, i.dtype), i.index_map, key)
            if len(i.index_map) == 1:
                self.homes[n] = builder.keys[i.binding]
        elif isinstance(i, Result):
            array, home = result
            source = _Source(array, views.contiguous(self.space)[0])
            self.homes[n] = home
        elif isinstance(i, Param):
            self.values[n] = builder.param(i)
            return ()
        elif isinstance(i, Valid):
            source = _Source(_valid(i.index_map), views.contiguous(self.space)[0])
            if len(i.index_map) == 1:
                v = i.index_map[0]
                source = _thinned(source, v)
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

    def indexed(self, i: Apply) -> _Source:
        """An op on flat indices, computed as a whole where its scalars have changed."""
        index_map = i.index
        assert index_map is not None
        args = [self.scalar(a) for a in i.args]
        v = index_map[0]
        n = max(math.prod(v.shape), _extent(v))
        memory = np.empty(n, i.dtype.numpy)
        fill = _Cached(REGISTRY[i.op].numpy, args, memory)
        self.builder.stages.append(Stage([[(fill.run, ())]]))
        return self.builder.source(memory, index_map, id(memory))

    # --- how to cut

    def build(self) -> None:
        cut, block = self.blocking()
        levels = self.levels(cut)
        work = sum(isinstance(i, (Apply, Reduce)) for i in self.code) + len(self.stores)
        threads = self.plan.threads if work * math.prod(self.space) >= SPLIT else 1
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
        self.hoist(len(blocks))
        for level in range(max(levels, default=0) + 1):
            folds = [n for n, i in enumerate(self.code)
                     if self.crosses(i, cut) and levels[i.arg] == level]  # fmt: skip
            stores = [n for n, s in enumerate(self.stores) if levels[s.value] == level]
            inner = [n for n in stores if any(self.targets[n].shape[d] != 1 for d in cut)]
            once = [n for n in stores if n not in inner]
            partial = {n: self.partial(n, len(blocks)) for n in folds}
            if inner or folds:
                wanted = [self.stores[n].value for n in inner] + [self.code[n].arg for n in folds]
                shared = [
                    _Block(self, blocks, w, threads, inner, known, partial, wanted).calls
                    for w in range(min(threads, len(blocks)))
                ]
                whole = list(itertools.chain.from_iterable(shared))
                self.builder.stages.append(Stage(shared, whole))
            tail: list[Call] = []
            for n in folds:
                known[n] = self.combined(n, partial[n], tail)
            if tail:
                self.builder.stages.append(Stage([tail]))
            for n in inner:
                s = self.stores[n]
                if s.dtype is _dtype(self.code[s.value]):
                    known[s.value] = self.targets[n]
            if once:
                wanted = [self.stores[n].value for n in once]
                single = _Block(self, [tuple(every)], 0, 1, once, known, {}, wanted)
                self.builder.stages.append(Stage([single.calls]))

    def blocking(self) -> tuple[tuple[int, ...], Shape]:
        """The axes to cut and the sizes of a block."""
        space, size = self.space, math.prod(self.space)
        if size <= BLOCK:
            return (), space
        reduces = [i for i in self.code if isinstance(i, Reduce) and i.axes]
        folded = sorted({d for i in reduces for d in i.axes})
        kept = [d for d in range(len(space)) if d not in folded]
        row = math.prod(space[d] for d in folded)
        by_rows = not folded or (folded[-1] == len(space) - 1 and kept and row <= 4 * BLOCK)
        if not by_rows and all(_combine(i).ufunc for i in reduces):
            kept, row = folded, size // row
        block = list(space)
        cut = []
        for d in reversed(kept):
            block[d] = min(space[d], max(max(BLOCK, size // MAX_BLOCKS) // row, 1))
            row *= block[d]
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
            args = [i.arg] if isinstance(i, Reduce) else getattr(i, "args", ())
            if isinstance(i, Apply) and i.index is not None:
                args = ()
            out.append(max((out[a] for a in args), default=0) + self.crosses(i, cut))
        return out

    def hoist(self, blocks: int) -> None:
        """What is one scalar is computed once, not in each block."""
        if blocks == 1:
            return
        calls: list[Call] = []
        for n, i in enumerate(self.code):
            if n in self.sources and self.sources[n].mask is None and _is_one(self.shapes[n]):
                self.values[n] = self.sources[n].array.reshape(())
            elif (
                isinstance(i, Apply)
                and n not in self.sources
                and _is_one(self.shapes[n])
                and all(a in self.values for a in i.args)
            ):
                out = self.values[n] = np.empty((), i.dtype.numpy)
                calls += op_calls(i, [self.values[a] for a in i.args], out, np.empty)
        if calls:
            self.builder.stages.append(Stage([calls]))

    def partial(self, n: int, blocks: int) -> Array:
        i = self.code[n]
        return np.empty((blocks, *self.shapes[n]), _acc(i))

    def combined(self, n: int, partial: Array, calls: list[Call]) -> Array:
        i = self.code[n]
        out = np.empty(self.shapes[n], partial.dtype)
        if _combine(i).sums:
            calls += sum_calls(partial, (0,), out[None], np.empty)
        else:
            ufunc: Any = _combine(i).ufunc
            calls.append((ufunc.reduce, (partial, 0, partial.dtype, out)))
        if i.dtype.narrow is not None:
            calls.append((_narrow, (i.dtype.narrow, out)))
        if out.dtype != i.dtype.numpy:
            narrow = np.empty(out.shape, i.dtype.numpy)
            calls.append((np.copyto, (narrow, out)))
            return narrow
        return out


def _combine(i: Reduce) -> Combine:
    found = REGISTRY[i.op].combine
    assert found is not None
    return found


def _acc(i: Reduce) -> np.dtype:
    """The dtype in which a reduction adds up."""
    return np.dtype(np.float32) if _combine(i).sums and i.dtype is dt.float16 else i.dtype.numpy


def _is_one(shape: Shape) -> bool:
    return all(n == 1 for n in shape)


def _dtype(i: Any) -> dt.dtype:
    return dt.bool_ if isinstance(i, Valid) else i.dtype


class _Block:
    """The calls of one worker: its share of the blocks, one after the other."""

    def __init__(
        self, body: _Body, blocks: Sequence[Ranges], worker: int, workers: int,
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
        i = body.code[n]
        return (i.arg,) if isinstance(i, Reduce) else i.args

    def last_uses(self) -> dict[int, int]:
        """The last instruction that takes each value; what is stored is taken at the end."""
        out: dict[int, int] = {}
        folds = [(n, self.body.code[n].arg) for n in self.partial]
        for n in self.needed:
            for a in self.args(n):
                out[a] = n
        for n, a in folds:
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
                values[n] = known[(..., *_within(known.shape, ranges))]
            elif n in body.values:
                values[n] = body.values[n]
            elif n in body.sources:
                values[n] = self.load(n, ranges)
            elif isinstance(i, Reduce) and not i.axes and _combine(i).arg:
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
                args = (i.arg,) if isinstance(i, Reduce) else i.args
                xs = [values[a] for a in args]
                shape = self.shape(body.shapes[n], ranges)
                out = self.direct(n, i, shape, ranges, pending)
                if isinstance(i, Reduce):
                    if out is None:
                        out = self.take(n, shape, i.dtype.numpy)
                    self.reduce(i, xs[0], out, ranges)
                    if i.dtype.narrow is not None:
                        self.calls.append((_narrow, (i.dtype.narrow, out)))
                else:
                    if out is None:
                        out = self.in_place(n, i, args, xs, shape)
                    if out is None:
                        out = self.take(n, shape, i.dtype.numpy)
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
        calls = REGISTRY[i.op].calls
        return i.args[0] if calls is bound.copy else None

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
        return self.body.plan.register(self.worker, index, shape, dtype)

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
        return self.body.plan.register(self.worker, index, shape, np.dtype(dtype))

    def unscratch(self) -> None:
        self.free += self.temporary
        self.temporary = []

    def in_place(
        self, n: int, i: Apply, args: tuple[int, ...], xs: list[Array], shape: Shape
    ) -> Array | None:
        """The register of an operand that ends here, if a ufunc can write over it."""
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
        combine = _combine(i)
        if combine.ufunc is None:
            fn: Any = REGISTRY[i.op].numpy
            self.calls.append((_copy_result, (fn, out, x, i.axes, True)))
        elif combine.sums:
            acc = out if out.dtype == _acc(i) else self.scratch(out.shape, _acc(i))
            self.calls += sum_calls(x, i.axes, acc, self.scratch)
            if acc is not out:
                self.calls.append((np.copyto, (out, acc)))
            self.unscratch()
        else:
            self.calls.append((combine.ufunc.reduce, (x, i.axes, out.dtype, out, True)))

    # --- stores

    def target(self, s: int, ranges: Ranges) -> Array:
        t = self.body.targets[s]
        return t[(..., *_within(t.shape, ranges))]

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


def _extent(v: views.View) -> int:
    return v.offset + sum((m - 1) * s for m, s in zip(v.shape, v.strides, strict=True)) + 1


def _valid(index_map: views.IndexMap) -> Array:
    v = index_map[0]
    ones = np.ones(max(math.prod(v.shape), _extent(v), 1), np.bool_)
    return np.ascontiguousarray(views.read(ones, index_map)).reshape(-1)


def _thinned(source: _Source, v: views.View) -> _Source:
    """A Valid as small as its mask lets it be."""
    array = source.array
    for d, n in enumerate(v.shape):
        if v.mask is None or v.mask[d] == (0, n):
            if n:
                array = array[(slice(None),) * d + (slice(0, 1),)]
            else:  # nothing is there: anything will do
                array = np.ones((*array.shape[:d], 1, *array.shape[d + 1 :]), np.bool_)
    source.array = np.ascontiguousarray(array).reshape(array.shape)
    source.shape = array.shape
    return source


def _collapsed(
    code: Sequence[Any], space: Shape, stores: Sequence[Store]
) -> tuple[list[Any], Shape, list[Store]]:
    """The same over as few axes as the index maps allow."""
    moved = [i for i in code if _index_map(i) is not None]
    index_maps = [_index_map(i) for i in moved] + [s.index_map for s in stores]
    if any(isinstance(i, Result) for i in code):
        index_maps.append(views.contiguous(space))
    sets = [
        tuple(n for n, i in enumerate(code) if isinstance(i, Reduce) and d in i.axes)
        for d in range(len(space))
    ]
    kinds = [sets.index(s) for s in sets]
    new, short, found = views.collapse(index_maps, space, kinds)
    it = iter(new)
    out: list[Any] = []
    for n, i in enumerate(code):
        if isinstance(i, (Load, Valid)):
            out.append(i._replace(index_map=next(it)))
        elif isinstance(i, Apply) and i.index is not None:
            out.append(i._replace(index=next(it)))
        elif isinstance(i, Reduce):
            axes = tuple(d for d, kind in enumerate(found) if n in sets[kind])
            out.append(i._replace(axes=axes))
        else:
            out.append(i)
    return out, short, [s._replace(index_map=next(it)) for s in stores]


def _index_map(i: Any) -> Any:
    return i.index if isinstance(i, Apply) else getattr(i, "index_map", None)


# --- ops


@functools.cache
def _resolves(fn: np.ufunc, dtypes: tuple[np.dtype, ...], out: np.dtype) -> bool:
    try:
        return fn.resolve_dtypes((*dtypes, None))[-1] == out and fn.nout == 1
    except TypeError:
        return False


def is_plain(i: Apply, xs: Sequence[Array]) -> bool:
    """Whether the op is one ufunc call."""
    fn = REGISTRY[i.op].numpy
    return (
        isinstance(fn, np.ufunc)
        and not i.attrs
        and _resolves(fn, tuple(x.dtype for x in xs), i.dtype.numpy)
    )


def op_calls(i: Apply, xs: Sequence[Array], out: Array, scratch: Any) -> list[Call]:
    """An elementwise op as calls that write to `out`, which no other operand overlaps unless it is
    one ufunc call."""
    op = REGISTRY[i.op]
    if is_plain(i, xs):
        calls = [ufunc_call(op.numpy, xs, out)]
    else:
        found = op.calls and op.calls(xs, i.attrs, out, scratch)
        calls = found or [(_copy_result, (op.numpy, out, *xs, *i.attrs))]
    return calls if i.dtype.narrow is None else [*calls, (_narrow, (i.dtype.narrow, out))]


def _narrow(fn: Any, x: Array) -> None:
    """Round what a wider type of NumPy's holds to its dtype."""
    np.copyto(x, fn(x))


def _copy_result(fn: Any, out: Array, *args: Any) -> None:
    np.copyto(out, fn(*args), casting="unsafe")


class _Cached:
    """Values of scalars alone, computed again only if these have changed."""

    def __init__(self, fn: Any, args: list[Array], out: Array) -> None:
        self.fn, self.args, self.out = fn, args, out
        self.last: Any = None

    def run(self) -> None:
        now = [a.item() for a in self.args]
        if now != self.last:
            np.copyto(self.out, self.fn(*self.args, self.out.shape), casting="unsafe")
            self.last = now


def routine_stages(
    plan: Plan, op: Any, inputs: list[Array], attrs: tuple[Any, ...], out: Array
) -> list[Stage]:
    """A routine as stages that write to `out`, which is contiguous."""
    phases = op.phases
    found = phases and phases(inputs, attrs, out, plan.threads)
    if found is None:
        found = [[[(_copy_result, (op.numpy, out, *inputs, *attrs))]]]
    wholes = [getattr(work, "whole", None) for work in found]
    return [Stage(work, w, w is not None) for work, w in zip(found, wholes, strict=True)]
