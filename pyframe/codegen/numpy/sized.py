"""CPU plans of Programs with symbolic sizes.

The first plan walks the kernels, with formulas in them, and writes down what its launches read: an
`ArgumentTable`. For other sizes that pass its guards all of that is calculated at once, and a plan
is a copy with other numbers. Only what is planned by the numbers themselves, such as
convolutions and NumPy calls, is planned again.
"""

from __future__ import annotations

import contextlib
import copy
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import accumulate
from typing import Any, NamedTuple

import numpy as np

from pyframe.codegen.lanes.compiler import CpuCompiler, Launches, ScratchArg
from pyframe.codegen.lanes.program import UnsupportedKernelError
from pyframe.codegen.numpy.kernels import StepLowering
from pyframe.codegen.numpy.memory import Array, ScratchPool, address
from pyframe.codegen.numpy.plan import FAULT, MEMORY, PARAMS, SIZES, SLOTS, CpuPlan, scratch_bytes
from pyframe.codegen.numpy.threads import CompiledStage
from pyframe.core import view as views
from pyframe.core.host_memory import aligned
from pyframe.core.sizes import (
    ShapeEnv,
    ShapeGuards,
    ShapeTemplate,
    is_symbolic,
    is_symbolic_size,
    use_shape_guards,
)
from pyframe.graph.program import Kernel, Program, index_map_of, with_index_maps

MAX_ARGUMENT_TABLES = 16  # layouts: more of them are decided too finely to be kept


class Variant(NamedTuple):
    """What was made of a kernel whose sizes change, for those that its guards let pass."""

    asked: Sequence[str]
    holds: Callable[..., bool]
    made: Any


class SymbolicPlans:
    """What the plans of one Program for many sizes share: its kernels with formulas in them, what
    they were compiled to, and memory, as one of them runs at a time."""

    def __init__(self, program: Program, sizes: ShapeEnv) -> None:
        self.general, self.kernels, self.sizes = program, program.kernels, sizes
        self.memory = ShapeTemplate(sizes, (program.slots, program.regions))
        self.variants: dict[Any, list[Variant]] = {}
        self.templates: dict[int, ShapeTemplate] = {}
        self.chained: set[int] = set()  # kernels with views behind views
        self.rooms: dict[int, Array] = {}  # of the slots that a plan has for itself; -1: routines
        self.where = np.zeros(SLOTS + len(program.slots), np.int64)  # they lie
        self.scratch: dict[tuple[int, int], Array] = {}  # of NumPy calls
        self.functions: list[Any] = []
        self.function_of: dict[Kernel, int] = {}
        self.unsupported: dict[Kernel, str] = {}
        self.fixed = [not is_symbolic((k.space, k.code, k.stores, k.routine)) for k in self.kernels]
        self.asked: dict[str, None] = {}  # what was relied on since somebody cleared it
        self.layouts: list[ArgumentTable] = []  # the latest one first

    def at_present(self) -> Program:
        """The Program with numbers for the sizes of the call at hand."""
        slots, regions = self.memory(self.sizes.now)
        kernels = SpecializedKernels(self)
        return replace(self.general, slots=slots, regions=regions, kernels=kernels)

    def function(self, key: Any, make: Callable[[], Kernel], compiler: CpuCompiler) -> Any:
        """The number of the compiled function for the sizes of the call at hand, or -1 if it has no
        form; its kernel, its units, and what its last binding holds. `make` gives the kernel."""

        def made() -> Any:
            kernel = make()
            try:
                printed = compiler.printed(kernel)
            except UnsupportedKernelError as error:
                self.unsupported[kernel] = str(error)
                return -1, kernel, 0, ()
            self.functions.append(printed._replace(units=-1))
            return len(self.functions) - 1, kernel, printed.units, printed.sizes

        return self.variant(key, made)

    def variant(self, key: Any, make: Callable[[], Any]) -> Any:
        """What `make` gives for the sizes of the call at hand: what it gave before for such that
        answer its questions alike, if there were any. `key` tells it from others."""
        known = self.variants.setdefault(key, [])
        found = next((one for one in known if one.holds(*self.sizes.now)), None)
        if found is None:
            with self.questions() as asked:
                made = make()
            found = Variant(asked, self.sizes.holds(asked), made)
            known.append(found)
        self.asked |= dict.fromkeys(found.asked)
        return found.made

    @contextlib.contextmanager
    def questions(self) -> Iterator[list[str]]:
        """Within it sizes may be asked about; at its end the list has what the capture did not rely
        on before."""
        found: list[str] = []
        with use_shape_guards(ShapeGuards(self.sizes, self.sizes.guards)) as guards:
            assert guards is not None
            before = len(guards.asked)
            yield found
        found += [*guards.asked][before:]

    def room(self, slot: int, nbytes: int) -> Array:
        """Memory of a slot, at least so much."""
        found = self.rooms.get(slot)
        if found is None or found.nbytes < nbytes:
            more = nbytes if found is None else max(nbytes, 2 * found.nbytes)
            found = self.rooms[slot] = aligned(more)
            self.where[MEMORY if slot < 0 else SLOTS + slot] = address(found)
        return found

    def kernel(self, number: int, now: Sequence[int]) -> Kernel:
        """A kernel with numbers for these sizes."""
        k = self.kernels[number]
        make = self.templates.get(number)
        if make is None:
            parts = k.space, k.code, k.stores, k.routine
            make = self.templates[number] = ShapeTemplate(self.sizes, parts)
            maps = [*map(index_map_of, k.code), *[s.index_map for s in k.stores]]
            if any(m is not None and len(m) > 1 for m in maps):
                self.chained.add(number)
        space, code, stores, routine = make(now)
        if number in self.chained:
            known = [m for m in map(index_map_of, code) if m is not None]
            code = tuple(with_index_maps(code, map(views.joined, known)))
            stores = tuple([s._replace(index_map=views.joined(s.index_map)) for s in stores])
        return Kernel(space, code, stores, k.bindings, k.params, routine)


class SpecializedKernels(Sequence[Kernel]):
    """Kernels for some sizes, made when they are looked at."""

    def __init__(self, formulas: SymbolicPlans) -> None:
        self.formulas, self.now = formulas, formulas.sizes.now

    def __len__(self) -> int:
        return len(self.formulas.kernels)

    def __getitem__(self, number: Any) -> Any:
        return self.formulas.kernel(range(len(self))[number], self.now)


class Lowered(NamedTuple):
    """A step for some sizes."""

    stages: list[Any]
    by_numbers: bool  # whether it is planned for these sizes alone
    asked: dict[str, None]  # what it relies on else
    bound: set[int]  # the slots that may not move


@dataclass
class ReplannedStep:
    """A step that is planned by numbers, and what it looked like last."""

    number: int
    fixed: bool  # whether its sizes stay: it is as it was where its slots lie as they lay
    form: Any  # its launches, and the kinds of its words
    words: slice
    sizes: int  # that come before its own
    memory: int  # bytes that its routines want


@dataclass
class ArgumentTable:
    """What the launches of a plan read, for the sizes that `holds` lets pass. Each word is the
    address of its kind and a number. `numbers` are these, then what last bindings hold, the units
    of launches, and the bytes of memory that routines want; `ends` says where each part ends."""

    holds: Callable[..., bool]
    stages: list[list[Any]]  # of the latest plan
    planned: list[ReplannedStep]
    bound: set[int]
    code: Launches | None
    launches: int  # if there is nothing else to do
    kinds: Array
    numbers: Array
    ends: Sequence[int]
    at: Array  # which of the numbers change …
    of: Array  # … and which of `wanted` they are
    wanted: Callable[..., tuple[Any, ...]]
    where: Array  # the slots of the latest plan lie
    places: dict[int, Array]  # of slots among the words


class SizedPlan(CpuPlan):
    """A plan for the sizes of the call at hand."""

    def __init__(
        self, program: Program, compiler: CpuCompiler | None, formulas: SymbolicPlans
    ) -> None:
        assert not program.regions
        self.formulas = formulas
        super().__init__(program, None, compiler)
        self.functions, self.function_of = formulas.functions, formulas.function_of
        self.unsupported = formulas.unsupported
        self.registers = ScratchPool(formulas.scratch)
        self.layout: ArgumentTable | None = None
        self.numbers = np.zeros(0, np.int64)  # of the layout, for its sizes
        self.where = formulas.where  # the slots lie
        self.lowered: dict[int, Lowered] = {}  # what is planned for these sizes

    def at(self, program: Program) -> SizedPlan:
        """One for other sizes, to be bound."""
        out = copy.copy(self)
        out.program = program
        out._make_params()
        return out

    def _room(self, slot: int) -> Array:
        return self.formulas.room(slot, self.program.slots[slot].nbytes)

    def bind(self, arrays: Sequence[Array | None]) -> None:
        f = self.formulas
        self.arrays = [
            self._room(slot) if given is None else given.reshape(-1)
            for slot, given in enumerate(arrays)
        ]
        self.where = f.where.copy()
        for slot, given in enumerate(arrays):
            if given is not None:
                self.where[SLOTS + slot] = address(given)
        self.lowered = {}
        found = next((x for x in f.layouts if x.holds(*f.sizes.now) and self._fits(x)), None)
        if found is None:
            f.layouts.insert(0, found := self._lay_out())
            del f.layouts[MAX_ARGUMENT_TABLES:]
        self._fill(found)
        self.lowered = {}

    # --- what is planned

    def _lower(self, number: int) -> Lowered:
        """A step for the sizes of the call at hand."""
        found = self.lowered.get(number)
        if found is None:
            f, stages = self.formulas, list[Any]()
            self.bound, f.asked = set(), {}
            step = self.program.steps[number]
            one = StepLowering(self, step, stages)
            if f.variant(step.kernel, f.kernels[step.kernel].has_elements):
                one.lower()
            found = Lowered(stages, one.by_numbers, f.asked, self.bound)
            self.lowered[number] = found
        return found

    def _lay_out(self) -> ArgumentTable:
        """Plan each step with formulas, or by numbers where that is the only way."""
        f = self.formulas
        asked: dict[str, None] = {}
        bound: set[int] = set()
        words, sizes, units, memory = parts = [], [], [], []  # type: ignore[var-annotated]
        kinds: list[int] = []
        planned: list[ReplannedStep] = []
        self.stages = []
        for number, step in enumerate(self.program.steps):
            stages, by_numbers, more, taken = self._lower(number)
            self.stages.append(stages)
            asked |= more
            bound |= taken
            begin, before = len(kinds), len(sizes)
            launched = [s for s in stages if isinstance(s, CompiledStage)]
            some = self.words(launched, sizes)
            kinds += [kind for kind, _ in some]
            words += [n for _, n in some]
            units += [s.launch.units for s in launched]
            if by_numbers:
                place = slice(begin, len(kinds))
                compiled = all(isinstance(s, CompiledStage) for s in stages)
                fixed = compiled and f.fixed[step.kernel]  # NumPy reads the scalars of one plan
                form, most = _form(stages, kinds[place]), scratch_bytes(stages)
                planned.append(ReplannedStep(number, fixed, form, place, before, most))
            else:
                memory += [w.nbytes for s in stages for w in s.words if isinstance(w, ScratchArg)]
        numbers = [n for part in parts for n in part]
        at = [i for i, n in enumerate(numbers) if is_symbolic_size(n)]
        wanted: dict[Any, int] = {}
        of = [wanted.setdefault(numbers[i], len(wanted)) for i in at]
        code, launches, of_words = None, [s.launch for s in self.loaded], np.array(kinds, np.intp)
        if self.compiler is not None and launches:
            code = self.compiler.load(self.functions, [x._replace(units=0) for x in launches])
        alone = len(launches) == sum(map(len, self.stages))
        self._choose_threads(self.loaded)
        return ArgumentTable(
            f.sizes.holds(asked), self.stages, planned, bound, code,
            alone * len(launches), of_words,
            _bits([0 if is_symbolic_size(n) else n for n in numbers]), [*accumulate(map(len,
            parts))],
            np.array(at, np.intp), np.array(of, np.intp), f.sizes.function(wanted), self.where,
            {kind: np.flatnonzero(of_words == kind) for kind in {*kinds}},
        )  # fmt: skip

    def _fits(self, layout: ArgumentTable) -> bool:
        """Plan by numbers what depends on them, or lies elsewhere than in the layout's latest plan;
        False if it is of another form than in the layout."""
        moved = {*(np.flatnonzero(self.where != layout.where) - SLOTS).tolist()}
        steps = self.program.steps
        new = [p for p in layout.planned
               if not (p.fixed and moved.isdisjoint(steps[p.number].slots))]  # fmt: skip
        written = []
        for p in new:
            stages, sizes = self._lower(p.number).stages, [0] * p.sizes
            launches = [s for s in stages if isinstance(s, CompiledStage)]
            words = self.words(launches, sizes)
            if _form(stages, [kind for kind, _ in words]) != p.form:
                return False
            written.append((stages, words))
        layout.stages, layout.where = layout.stages[:], self.where
        for p, (stages, words) in zip(new, written, strict=True):
            layout.numbers[p.words] = _bits([n for _, n in words])
            layout.stages[p.number], p.memory = stages, scratch_bytes(stages)
        self.stages = layout.stages
        return True

    # --- what is filled in

    def _fill(self, layout: ArgumentTable) -> None:
        """Calculate all numbers."""
        f = self.formulas
        self.layout, numbers, self.bound = layout, layout.numbers.copy(), layout.bound
        if len(layout.at):
            numbers[layout.at] = np.array(layout.wanted(*f.sizes.now), np.int64)[layout.of]
        words, sizes, units, _ = layout.ends
        self.numbers = numbers
        most = max([p.memory for p in layout.planned], default=0)
        self.memory = f.room(-1, max(most, int(numbers[units:].max(initial=0))))
        if layout.code is not None:
            where = self.where
            where[FAULT], where[PARAMS] = address(self.fault), address(self.params)
            where[MEMORY], where[SIZES] = address(self.memory), address(numbers) + 8 * words
            table = where[layout.kinds] + numbers[:words]
            self.code = layout.code.again(numbers[sizes:units], table)
        if layout.launches and self.code is not None:
            self.calls = [(self.code.run, (0, layout.launches))]
        else:
            self._link()

    def moves(self, slot: int) -> bool:
        return slot not in self.bound and SLOTS + slot in self.layout.places  # type: ignore[union-attr]

    def start(self, slot: int) -> int:
        if not self.moves(slot):
            return int(address(self.arrays[slot]))
        at = self.layout.places[SLOTS + slot][0]  # type: ignore[union-attr]
        return int(self.code.table[at]) - int(self.numbers[at])  # type: ignore[union-attr]

    def move(self, slot: int, array: Array) -> None:
        at = self.layout.places[SLOTS + slot]  # type: ignore[union-attr]
        self.code.table[at] = self.numbers[at] + address(array)  # type: ignore[union-attr]


def _bits(numbers: Sequence[int]) -> Array:
    """Words, and numbers that may be negative, as ints of 64 bits."""
    return np.array([n & 0xFFFFFFFFFFFFFFFF for n in numbers], np.uint64).view(np.int64)


def _form(stages: Sequence[Any], kinds: Sequence[int]) -> Any:
    """What stays where a step is planned by other numbers in the same way."""
    launches = [s.launch[:3] if isinstance(s, CompiledStage) else None for s in stages]
    return launches, [*kinds]
