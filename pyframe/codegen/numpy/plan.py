"""A Program made into a list of calls: the CPU's way to run the same step many times.

`CpuPlan.bind` walks the kernels once. What a compiler has a form for becomes launches of compiled
functions, which one call runs many of. The rest becomes bound NumPy calls on views that exist
already (`kernels.py`), cut into blocks that stay in cache (`blocks.py`), with temporaries in
scratch memory (`memory.py`); large ones are shared out over a pool of threads (`threads.py`).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from pyframe.codegen.lanes.compiler import CpuCompiler, ErrorFlagArg, Launches, ScratchArg
from pyframe.codegen.lanes.program import UnsupportedKernelError
from pyframe.codegen.numpy.elementwise import Call
from pyframe.codegen.numpy.kernels import StepLowering
from pyframe.codegen.numpy.memory import Array, ScratchPool, SymbolicArrayRef, address
from pyframe.codegen.numpy.threads import CompiledStage, Stage, blas, default_threads, share_out
from pyframe.core.host_memory import aligned
from pyframe.graph.program import TEMP, Kernel, Program

# what a word is an address in; the slots follow
NOTHING, FAULT, MEMORY, PARAMS, SIZES, SLOTS = range(6)
PARAM = 8  # bytes that a scalar has for compiled functions, and complex ones alone need more


class CpuPlan:
    """A compiled Program. `arrays[i]` is the flat memory of slot i, once bound."""

    formulas: Any = None  # of a SizedPlan

    def __init__(
        self, program: Program, threads: int | None = None, compiler: CpuCompiler | None = None
    ) -> None:
        self.program, self.compiler = program, compiler
        self.threads = threads or default_threads()
        self.arrays: list[Array] = []
        self.calls: list[Call] = []
        self.stages: list[list[Stage | CompiledStage]] = []  # of each step
        self.blas = blas()
        self.blas_threads = 0  # that a run takes, if these are not as many as BLAS has
        self.by_numpy = True  # whether there are NumPy calls
        regions = [aligned(n) for n in program.regions]
        self.own: list[Array | None] = [
            regions[s.region][s.offset : s.offset + s.nbytes]
            if s.region >= 0
            else self._room(i) if s.kind == TEMP else None
            for i, s in enumerate(program.slots)
        ]  # fmt: skip
        self._make_params()
        self.by_offset = {offset: i for i, (offset, _) in enumerate(program.params)}
        self.registers = ScratchPool()
        self.code: Launches | None = None
        self.alone = False  # whether products have all threads, and nothing else takes any
        self.memory = aligned(0)  # for those routines that want some
        self.fault, self.may_fail = np.zeros(1, np.int64), False
        self.functions: list[Any] = []  # the compiled ones, as their compiler prints them
        self.function_of: dict[Kernel, int] = {}
        self.unsupported: dict[Kernel, str] = {}  # what runs through NumPy, and why
        self.bound: set[int] = set()  # the slots whose arrays NumPy calls are bound to
        # where addresses in the others stand in the table, and how far behind their start these are
        self.places: dict[int, list[tuple[int, int]]] = {}

    def _make_params(self) -> None:
        """Memory for the scalars, which have no values yet."""
        params = self.program.params
        self.params = aligned(PARAM * len(params))
        self.scalars = [
            self.params[PARAM * i : PARAM * i + d.numpy.itemsize].view(d.numpy).reshape(())
            if d.numpy.itemsize <= PARAM
            else np.empty((), d.numpy)
            for i, (_, d) in enumerate(params)
        ]
        self.values: list[Any] | None = None

    def _room(self, slot: int) -> Array:
        """Memory of a slot."""
        return aligned(self.program.slots[slot].nbytes)

    def bind(self, arrays: Sequence[Array | None]) -> None:
        """Fix the memory of the slots: C-contiguous arrays, or None for one of the plan's own."""
        self.arrays = []
        for slot, (own, given) in enumerate(zip(self.own, arrays, strict=True)):
            if given is None:
                self.arrays.append(self._room(slot) if own is None else own)
            else:
                self.arrays.append(given.reshape(-1))
        self.bound.clear()
        self.stages = []
        for step in self.program.steps:
            self.stages.append([])
            StepLowering(self, step, self.stages[-1]).build()
        self._load(self.loaded)
        self._link()

    @property
    def loaded(self) -> list[CompiledStage]:
        """The launches."""
        return [s for some in self.stages for s in some if isinstance(s, CompiledStage)]

    def compiled(self, kernel: Kernel) -> int:
        """The number of the compiled function of a kernel without a routine; -1 if it has none."""
        if self.compiler is None or kernel in self.unsupported:
            return -1
        found = self.function_of.get(kernel)
        if found is None:
            try:
                printed = self.compiler.printed(kernel)
            except UnsupportedKernelError as error:
                self.unsupported[kernel] = str(error)
                return -1
            found = self.function_of[kernel] = len(self.functions)
            self.functions.append(printed)
        return found

    def run(self, values: Sequence[Any] = ()) -> None:
        """Compute everything; `values` are the scalars in the order of `program.params`."""
        if not self.arrays and self.program.slots:
            self.bind([None] * len(self.program.slots))
        if values != self.values:
            self.values = list(values)
            for scalar, value in zip(self.scalars, self.values, strict=True):
                scalar[()] = value
        if self.blas_threads:
            self.blas.set(self.blas_threads)  # type: ignore[union-attr]
        try:
            if self.by_numpy:
                with np.errstate(all="ignore"):
                    self._make_calls()
            else:
                self._make_calls()
            if self.may_fail and self.fault[0]:
                self.fault[0] = 0
                raise RuntimeError("a routine found a fault that NumPy does not know")
        except Exception:
            for stage in self.loaded:
                if stage.check is not None:
                    fn, xs = stage.check
                    fn(
                        *[
                            x.at(self.start(x.binding)) if type(x) is SymbolicArrayRef else x
                            for x in xs
                        ]
                    )
            raise
        finally:
            if self.blas_threads:
                self.blas.set(self.blas.threads)  # type: ignore[union-attr]

    def _make_calls(self) -> None:
        for f, args in self.calls:
            f(*args)

    def moves(self, slot: int) -> bool:
        """Whether the memory of a slot may be another one in each run: see `move`."""
        return slot not in self.bound and slot in self.places

    def move(self, slot: int, array: Array) -> None:
        """Let a slot lie in `array`, which is C-contiguous and which the caller keeps, from now
        on."""
        at = address(array)
        table = self.code.table  # type: ignore[union-attr]
        for word, offset in self.places[slot]:
            table[word] = at + offset

    def start(self, slot: int) -> int:
        """Where a slot lies now."""
        if not self.moves(slot):
            return int(address(self.arrays[slot]))
        word, offset = self.places[slot][0]
        return int(self.code.table[word]) - offset  # type: ignore[union-attr]

    def _load(self, stages: list[CompiledStage]) -> None:
        """Have the compiled functions loaded, and write down what they work on."""
        self.places.clear()
        if self.compiler is None or not stages:
            return
        self.code = self.compiler.load(self.functions, [s.launch for s in stages])
        self.memory = aligned(scratch_bytes(stages))
        own = map(address, (self.fault, self.memory, self.params))
        where = [0, *own, 0, *map(address, self.arrays)]
        words = self.words(stages, [])
        for n, (kind, offset) in enumerate(words):
            if kind >= SLOTS:
                self.places.setdefault(kind - SLOTS, []).append((n, offset))
        self.code.table[: len(words)] = [where[kind] + n for kind, n in words]

    def words(self, stages: Sequence[CompiledStage], sizes: list[Any]) -> list[tuple[int, Any]]:
        """The words of launches: of each its kind and a number. `sizes` grows by what their last
        bindings hold."""
        words = []
        for s in stages:
            for w in s.words:
                words.append((NOTHING, w) if type(w) is int else self._word(w))
            for b in s.buffers:
                if type(b) is tuple:
                    words.append((SIZES, 8 * len(sizes)))
                    sizes += b
                else:
                    words.append((SLOTS + b, 0) if type(b) is int else (NOTHING, address(b)))
            if s.launch.function >= 0:
                words.append((PARAMS, PARAM * s.params))
        return words

    def _word(self, w: Any) -> tuple[int, Any]:
        """A word of a routine that is no plain number."""
        if isinstance(w, SymbolicArrayRef):
            return SLOTS + w.binding, w.offset
        if isinstance(w, ErrorFlagArg):
            self.may_fail = True
            return FAULT, 0
        if isinstance(w, ScratchArg):
            return MEMORY, 0
        if isinstance(w, int):
            return NOTHING, w
        return NOTHING, address(w) if isinstance(w, np.ndarray) else int(w.address)

    def _link(self) -> None:
        """Make calls of the stages."""
        stages = [s for step in self.stages for s in step]
        self._choose_threads(stages)
        self.calls, _ = self._calls_of(stages, 0)

    def _choose_threads(self, stages: Sequence[Any]) -> None:
        """Say how many threads BLAS takes.

        BLAS's own threads wait for work by spinning, which keeps ours from running: so a plan has
        one or the other. Where only products gain much from threads, BLAS's are faster.
        """
        ours = [s for s in stages if isinstance(s, Stage)]
        compiled = len(ours) < len(stages)
        alone = not compiled and any(s.product for s in ours) and all(
            len(s.work) == 1 or s.whole is not None for s in ours
        )  # fmt: skip
        threads = self.threads if alone else 1
        most = threads if self.blas is None else self.blas.threads
        launched = [s.launch.routine for s in stages if isinstance(s, CompiledStage)]
        runs = bool(ours) or any(name.startswith("blas.") for name in launched)
        shared = compiled or any(len(s.work) > 1 for s in ours)
        # where nothing of ours runs beside it, BLAS may stay as it is
        other = runs and threads != most and (shared or self.threads < most)
        self.blas_threads = threads if other else 0
        self.alone, self.by_numpy = alone, bool(ours)

    @property
    def steps(self) -> list[list[Call]]:
        """The calls of each step, to be made apart."""
        out, first = [], 0
        for stages in self.stages:
            calls, first = self._calls_of(stages, first)
            out.append(calls)
        return out

    def _calls_of(self, stages: Sequence[Any], first: int) -> tuple[list[Call], int]:
        """The calls of some stages, and the number of the launch after them: `first` is that of the
        first one. Launches that follow each other are one call."""
        calls: list[Call] = []
        end = first
        for s in [*stages, None]:
            if isinstance(s, CompiledStage):
                end += 1
                continue
            if first < end:
                calls.append((self.code.run, (first, end)))  # type: ignore[union-attr]
            first = end
            calls += [] if s is None else self._calls(s)
        return calls, end

    def _calls(self, stage: Stage) -> list[Call]:
        if self.alone and stage.whole is not None:
            return stage.whole
        if len(stage.work) <= 1:
            return stage.work[0] if stage.work else []
        return [(share_out, (self.threads, stage.work))]


def scratch_bytes(stages: Sequence[Any]) -> int:
    """The bytes of memory that routines want."""
    some = [w for s in stages if isinstance(s, CompiledStage) for w in s.words]
    return max([w.nbytes for w in some if isinstance(w, ScratchArg)], default=0)
