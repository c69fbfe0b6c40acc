"""A Program made into a list of calls: the CPU's way to run the same step many times.

`Plan.bind` walks the kernels once. What a compiler has a form for becomes launches of compiled
functions, which one call runs many of. The rest becomes bound NumPy calls on views that exist
already (`kernels.py`), cut into blocks that stay in cache (`blocks.py`), with temporaries in
scratch memory (`memory.py`); large ones are shared out over a pool of threads (`threads.py`).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, TypeVar

import numpy as np

from pyframe.codegen.lanes.compiler import Code, Compiler, Fault, Launch, Memory
from pyframe.codegen.lanes.program import UnsupportedKernelError
from pyframe.codegen.numpy.elementwise import Call
from pyframe.codegen.numpy.kernels import Lowering
from pyframe.codegen.numpy.memory import Array, Lying, Registers, address
from pyframe.codegen.numpy.threads import CompiledStage, Stage, blas, default_threads, share_out
from pyframe.core.host_memory import aligned
from pyframe.core.sizes import Guards, Sizes, Template, asking, is_symbolic
from pyframe.graph.program import TEMP, Kernel, Program, kernel_at_present


class Sized(NamedTuple):
    """A compiled function of a kernel whose sizes change, for those that its guards let pass."""

    holds: Callable[..., bool]
    number: int  # of the function; -1: it has no form
    kernel: Kernel  # with formulas
    numbers: Callable[..., tuple[Any, ...]]  # its units, and what its last binding holds


class Bound(NamedTuple):
    """The stages of a step whose slots lie there, and the slots that may not move."""

    where: list[int]
    stages: list[Any]
    bound: set[int]


class SizedRoutine(NamedTuple):
    """A routine on operands whose sizes change, for those that its guards let pass."""

    holds: Callable[..., bool]
    store: int  # of the kernel, in whose place the result is; -1: it is planned for each size
    calls: Sequence[tuple[str, list[Any]]]  # with words that are numbers, addresses or `Lying`
    numbers: Callable[..., tuple[Any, ...]]  # all that these words have of sizes, in order


T = TypeVar("T", bound=Sized | SizedRoutine)


class Formulas:
    """What the plans of one Program for many sizes share: its kernels with formulas in them, and
    what they were compiled to."""

    def __init__(self, kernels: Sequence[Kernel], sizes: Sizes) -> None:
        self.kernels, self.sizes = kernels, sizes
        self.compiled: dict[Any, list[Sized]] = {}
        self.routines: dict[Any, list[SizedRoutine]] = {}
        self.templates: dict[int, Template] = {}
        self.memory: dict[int, Array] = {}  # of the slots that a plan has for itself; of routines
        self.scratch: dict[tuple[int, int], Array] = {}  # of NumPy calls
        self.functions: list[Any] = []
        self.function_of: dict[Kernel, int] = {}
        self.unsupported: dict[Kernel, str] = {}
        self.fixed = [not is_symbolic((k.space, k.code, k.stores, k.routine)) for k in kernels]
        self.stages: dict[int, Bound] = {}  # of steps whose sizes stay, in the last plan
        self.elements = sizes.function([math.prod(k.space) for k in kernels])  # of each kernel

    def routine(self, key: Any, make: Callable[[], Any]) -> SizedRoutine:
        """The calls of a routine for the sizes of the call at hand. `make` gives them and the store
        that its result is in the place of, or None."""

        def made() -> Any:
            store, calls = make() or (-1, [])
            words = [word for _, some in calls for word in some]
            wanted = [w.nbytes if isinstance(w, Memory) else w.offset if isinstance(w, Lying) else w
                      for w in words]  # fmt: skip
            return store, calls, self.sizes.function(wanted)

        return self._known(SizedRoutine, self.routines.setdefault(key, []), made)

    def _known(self, kind: Callable[..., T], known: list[T], make: Callable[[], Any]) -> T:
        """One of `known` that holds for the sizes of the call at hand; or another one, with the
        fields that `make` gives, for those for which the questions that it asks have the same
        answers."""
        for one in known:
            if one.holds(*self.sizes.now):
                return one
        with asking(Guards(self.sizes, self.sizes.guards)) as guards:
            assert guards is not None
            before = len(guards.asked)
            fields = make()
        known.append(kind(self.sizes.holds([*guards.asked][before:]), *fields))
        return known[-1]

    def room(self, slot: int, nbytes: int) -> Array:
        """Memory of a slot, which all plans share, as one of them runs at a time."""
        found = self.memory.get(slot)
        if found is None or found.nbytes < nbytes:
            more = nbytes if found is None else max(nbytes, 2 * found.nbytes)
            found = self.memory[slot] = aligned(more)
        return found[:nbytes]

    def kernel(self, number: int, now: Sequence[int]) -> Kernel:
        """A kernel with numbers for these sizes."""
        k = self.kernels[number]
        make = self.templates.get(number)
        if make is None:
            parts = k.space, k.code, k.stores, k.routine
            make = self.templates[number] = Template(self.sizes, parts)
        space, code, stores, routine = make(now)
        return Kernel(space, code, stores, k.bindings, k.params, routine)

    def function(self, key: Any, make: Callable[[], Kernel], compiler: Compiler) -> Sized:
        """The compiled function for the sizes of the call at hand. `make` gives the kernel, and may
        ask about sizes; `key` tells it from others."""

        def made() -> Any:
            kernel = make()
            try:
                printed = compiler.printed(kernel)
            except UnsupportedKernelError as error:
                self.unsupported[kernel] = str(error)
                return -1, kernel, self.sizes.function(())
            self.functions.append(printed._replace(units=0))
            wanted = self.sizes.function((printed.units, *printed.sizes))
            return len(self.functions) - 1, kernel, wanted

        return self._known(Sized, self.compiled.setdefault(key, []), made)


class Present(Sequence[Kernel]):
    """Kernels for some sizes, made when they are looked at."""

    def __init__(self, formulas: Formulas) -> None:
        self.formulas, self.now = formulas, formulas.sizes.now

    def __len__(self) -> int:
        return len(self.formulas.kernels)

    def __getitem__(self, number: Any) -> Any:
        return self.formulas.kernel(range(len(self))[number], self.now)


PARAM = 8  # bytes that a scalar has for compiled functions, and complex ones alone need more


class Plan:
    """A compiled Program. `arrays[i]` is the flat memory of slot i, once bound."""

    def __init__(
        self, program: Program, threads: int | None = None, compiler: Compiler | None = None,
        formulas: Formulas | None = None,
    ) -> None:  # fmt: skip
        self.program, self.compiler, self.formulas = program, compiler, formulas
        self.threads = threads or default_threads()
        self.arrays: list[Array] = []
        self.calls: list[Call] = []
        self.steps: list[list[Call]] = []  # the same, apart for each step
        self.blas = blas()
        self.blas_threads = 0  # that a run takes, if these are not as many as BLAS has
        regions = [aligned(n) for n in program.regions]
        self.own: list[Array | None] = [
            regions[s.region][s.offset : s.offset + s.nbytes]
            if s.region >= 0
            else self._room(i) if s.kind == TEMP else None
            for i, s in enumerate(program.slots)
        ]  # fmt: skip
        self.params = aligned(PARAM * len(program.params))
        self.scalars = [
            self.params[PARAM * i : PARAM * i + d.numpy.itemsize].view(d.numpy).reshape(())
            if d.numpy.itemsize <= PARAM
            else np.empty((), d.numpy)
            for i, (_, d) in enumerate(program.params)
        ]
        self.by_offset = {offset: i for i, (offset, _) in enumerate(program.params)}
        self.values: list[Any] | None = None
        self.registers = Registers(None if formulas is None else formulas.scratch)
        self.code: Code | None = None
        self.loaded: list[CompiledStage] = []  # its launches
        self.memory = aligned(0)  # for those routines that want some
        self.fault, self.may_fail = np.zeros(1, np.int64), False
        shared = formulas
        # the compiled functions, as their compiler prints them
        self.functions: list[Any] = [] if shared is None else shared.functions
        self.function_of: dict[Kernel, int] = {} if shared is None else shared.function_of
        # what runs through NumPy, and why
        self.unsupported: dict[Kernel, str] = {} if shared is None else shared.unsupported
        self.bound: set[int] = set()  # the slots whose arrays NumPy calls are bound to
        self.where: list[int] = []  # the slots lie, if sizes change
        self.elements: tuple[int, ...] = ()  # of the kernels, where their sizes change
        self.places: dict[int, list[int]] = {}  # where addresses of the others stand in the table

    def _room(self, slot: int) -> Array:
        """Memory of a slot."""
        nbytes = self.program.slots[slot].nbytes
        return aligned(nbytes) if self.formulas is None else self.formulas.room(slot, nbytes)

    def bind(self, arrays: Sequence[Array | None]) -> None:
        """Fix the memory of the slots: C-contiguous arrays, or None for one of the plan's own."""
        self.arrays = []
        for slot, (own, given) in enumerate(zip(self.own, arrays, strict=True)):
            if given is None:
                self.arrays.append(self._room(slot) if own is None else own)
            else:
                self.arrays.append(given.reshape(-1))
        self.bound.clear()
        stages: list[list[Stage | CompiledStage]] = []
        if self.formulas is None:
            for step in self.program.steps:
                stages.append([])
                Lowering(self, step, stages[-1]).build()
        else:
            self._bind_sizes(self.formulas, stages)
        self._load([s for some in stages for s in some if isinstance(s, CompiledStage)])
        self._link(stages)

    def _bind_sizes(self, f: Formulas, stages: list[list[Stage | CompiledStage]]) -> None:
        """Make the stages of each step for the sizes of the call at hand. Those of a step whose
        sizes stay are as before if its slots lie where they lay."""
        self.elements = f.elements(*f.sizes.now)
        self.where = [address(a) for a in self.arrays]
        bound = self.bound
        for number, step in enumerate(self.program.steps):
            at, known = [self.where[s] for s in step.slots], f.stages.get(number)
            if known is None or known.where != at:
                self.bound = set()
                known = Bound(at, [], self.bound)
                Lowering(self, step, known.stages).build()
                if f.fixed[step.kernel] and all(isinstance(s, CompiledStage) for s in known.stages):
                    f.stages[number] = known
            stages.append(known.stages)
            bound |= known.bound
        self.bound = bound

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

    def sized(self, key: Any, make: Callable[[], Kernel]) -> tuple[Launch, Array] | Kernel:
        """The launch of a kernel whose sizes change, and those in memory; the kernel with numbers
        if it has no form."""
        formulas, compiler = self.formulas, self.compiler
        assert formulas is not None
        assert compiler is not None
        found = formulas.function(key, make, compiler)
        if found.number < 0:
            return kernel_at_present(found.kernel)
        units, *numbers = found.numbers(*formulas.sizes.now)
        return Launch(found.number, units=units), np.array(numbers, np.int64)

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
                if self.may_fail and self.fault[0]:
                    self.fault[0] = 0
                    raise RuntimeError("a routine found a fault that NumPy does not know")
            except Exception:
                for stage in self.loaded:
                    if stage.check is not None:
                        stage.check()
                raise
            finally:
                if self.blas_threads:
                    self.blas.set(self.blas.threads)  # type: ignore[union-attr]

    def moves(self, slot: int) -> bool:
        """Whether the memory of a slot may be another one in each run: see `move`."""
        return slot not in self.bound and slot in self.places

    def move(self, slot: int, array: Array) -> None:
        """Let a slot lie in `array`, which is C-contiguous and which the caller keeps, from now
        on."""
        at = address(array)
        table = self.code.table  # type: ignore[union-attr]
        for word in self.places[slot]:
            table[word] = at

    def _load(self, stages: list[CompiledStage]) -> None:
        """Have the compiled functions loaded, and write down what they work on."""
        self.places.clear()
        self.loaded = stages  # which hold the memory of their words
        if self.compiler is None or not stages:
            return
        self.code = self.compiler.load(self.functions, [s.launch for s in stages])
        table, params = self.code.table, address(self.params)
        at = dict(enumerate(self.where))  # of slots
        fault, flat = address(self.fault), list[int]()
        sizes = [w.nbytes for s in stages for w in s.words if isinstance(w, Memory)]
        most = max(sizes, default=0)
        self.memory = aligned(most) if self.formulas is None else self.formulas.room(-1, most)
        own = address(self.memory)
        for start, stage in zip(self.code.starts, stages, strict=True):
            words = [w if type(w) is int else self._word(w, own, fault) for w in stage.words]
            for n, buffer in enumerate(stage.buffers, start):
                if isinstance(buffer, int):
                    self.places.setdefault(buffer, []).append(n)
                    if buffer not in at:
                        at[buffer] = address(self.arrays[buffer])
                    words.append(at[buffer])
                else:
                    words.append(address(buffer))
            if stage.launch.function >= 0:
                words.append(params + PARAM * stage.params)
            if self.formulas is None:
                table[start : start + len(words)] = words
            else:  # all at once, as it is done again and again
                flat += [0] * (start - len(flat))
                flat += words
        if flat:
            table[: len(flat)] = flat

    def _word(self, word: int | Array | Memory | Fault, memory: int, fault: int) -> int:
        """A word of a routine, as it stands in the table."""
        if isinstance(word, int):
            return word
        if isinstance(word, Fault):
            self.may_fail = True
            return fault
        return memory if isinstance(word, Memory) else address(word)

    def _link(self, steps: list[list[Stage | CompiledStage]]) -> None:
        """Make calls of the stages of each step.

        BLAS's own threads wait for work by spinning, which keeps ours from running: so a plan has
        one or the other. Where only products gain much from threads, BLAS's are faster.
        """
        stages = [s for step in steps for s in step]
        ours = [s for s in stages if isinstance(s, Stage)]
        compiled = len(ours) < len(stages)
        alone = not compiled and any(s.product for s in ours) and all(
            len(s.work) == 1 or s.whole is not None for s in ours
        )  # fmt: skip
        threads = self.threads if alone else 1
        most = threads if self.blas is None else self.blas.threads
        shared = compiled or any(len(s.work) > 1 for s in ours)
        # where nothing of ours runs beside it, BLAS may stay as it is
        self.blas_threads = threads if threads != most and (shared or self.threads < most) else 0
        self.steps, self.calls = [], []
        first = end = 0  # the launches since the last call of NumPy
        for step in steps:
            calls: list[Call] = []
            begin = end
            for s in step:
                if isinstance(s, CompiledStage):
                    end += 1
                    continue
                self._launched(begin, end, calls)
                self._launched(first, end, self.calls)
                made = self._calls(s, alone)
                calls += made
                self.calls += made
                first = begin = end
            self._launched(begin, end, calls)
            self.steps.append(calls)
        self._launched(first, end, self.calls)

    def _launched(self, first: int, end: int, calls: list[Call]) -> None:
        if first < end:
            calls.append((self.code.run, (first, end)))  # type: ignore[union-attr]

    def _calls(self, stage: Stage, alone: bool) -> list[Call]:
        if alone and stage.whole is not None:
            return stage.whole
        if len(stage.work) <= 1:
            return stage.work[0] if stage.work else []
        return [(share_out, (self.threads, stage.work))]
