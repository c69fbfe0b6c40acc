"""Executables: the Programs of a capture, bound to the memory that they read and write, so that
a replay runs each with one call."""

from __future__ import annotations

import copy
import math
from collections.abc import Collection, Sequence
from operator import call
from typing import Any, NamedTuple, cast

import numpy as np

from pyframe.backend.interpreter import EXPORTED_LIMITS
from pyframe.capture.capture import Capture
from pyframe.core import host_memory, sizes
from pyframe.core.limits import Limits
from pyframe.core.node import Node, Storage, toposort
from pyframe.core.op import CONST
from pyframe.core.symbolic import SymbolicScalar, evaluate, hint, leaves
from pyframe.graph.program import INPUT, OUTPUT, TEMP
from pyframe.graph.schedule import schedule
from pyframe.ops.api import deferred
from pyframe.runtime import cpu, debug
from pyframe.runtime.code import encode_params

MIN_ZERO_COPY_BYTES = 1 << 18  # bytes of an argument from which a copy is worth avoiding


class SpecializedNumberError(Exception):
    """A number that changes is part of what a kernel does, not a value that it reads."""


class Argument(NamedTuple):
    """An input that each call gives."""

    slot: int
    argument: int  # which argument it is of
    whole: bool  # of all that the argument's storage holds, not of its own elements alone
    node: Node


class StateInput:
    """An input from outside that is no argument, and the memory that the Program has for it."""

    __slots__ = ("data", "node", "slot", "storage", "written")

    def __init__(self, storage: Storage, node: Node, slot: int, written: bool) -> None:
        self.storage, self.node, self.slot, self.written = storage, node, slot, written
        self.data = node.data


class CopyBackOutput(NamedTuple):
    """A result in a slot of its own that is copied over the value that it replaces."""

    old: Any  # that value's data
    slot: int
    node: Node


class Executable:
    """The Program of one device, and what it is bound to."""

    on_cpu: Executable | None = None  # what is exported: the same as it is planned for a page's CPU

    def __init__(
        self, capture: Capture, roots: list[Storage], argument_of: dict[Node, tuple[int, bool]],
        fresh: set[Storage],
    ) -> None:  # fmt: skip
        """`roots` hold what it computes; those in `fresh` every call makes anew. `argument_of`
        gives for an argument's node which argument it is of, and whether it is the whole of its
        storage."""
        self.device = roots[0].node.device
        self.executor = self.device.executor
        self.settled = False
        self.pinned = capture.pinned
        before = dict(capture.replaced())
        nodes = list({s.node: None for s in roots})
        flag = self._flag_before(before)
        in_place = {
            id(before[s]): s.node
            for s in roots
            if s in before and (before[s] not in argument_of or s in capture.apart)
        }
        named = argument_of, flag, before, _owners(capture, before)
        limits = self.device.backend.limits
        if limits.portable and capture.sizes is None:
            order = toposort(nodes)
            recorded = [(n.op, n.attrs, n.inputs) for n in order]
            self.on_cpu = copy.copy(self)
            self.on_cpu._make(EXPORTED_LIMITS, roots, nodes, in_place, fresh, *named)
            for n, as_it_was in zip(order, recorded, strict=True):
                n.op, n.attrs, n.inputs = as_it_was
        self._make(limits, roots, nodes, in_place, fresh, *named)

    def _make(
        self, limits: Limits, roots: list[Storage], nodes: list[Node], in_place: dict[int, Node],
        fresh: set[Storage], argument_of: dict[Node, tuple[int, bool]], flag: Node | None,
        before: dict[Storage, Node], owners: dict[Node, Storage],
    ) -> None:  # fmt: skip
        """Have the Program planned, and name what it is bound to."""
        inputs, constants = self._plan(limits, nodes, in_place, argument_of, flag)
        self.numbers = [n.attrs[0] for n in constants]
        self.values = list(map(_present, self.numbers))  # the scalars of the next run
        self.live = [(i, x) for i, x in enumerate(self.numbers) if type(x) is SymbolicScalar]
        self.asked = list({fn: None for _, number in self.live for fn in leaves(number)})
        self.answers: list[Any] = []  # of `asked`, at the last run
        self._name_inputs(inputs, argument_of, flag, before, owners)
        self._name_results(roots, nodes, fresh, before)

    def _flag_before(self, before: dict[Storage, Node]) -> Node | None:
        """The flag of the checks as it was before the capture, if there are any."""
        found = self.executor.local.checks
        return found and before.get(found.flag._storage, found.flag._storage.node)

    def _plan(
        self, limits: Limits, nodes: list[Node], in_place: dict[int, Node],
        argument_of: Collection[Node], flag: Node | None,
    ) -> tuple[list[Node], list[Node]]:  # fmt: skip
        """Schedule the Program; its inputs, in the order of its slots, and its scalars."""
        order = toposort(nodes)
        for n in order:
            if n.op is not CONST and _holds_symbol(n.attrs):
                raise SpecializedNumberError(f"{n.op.name} needs")  # type: ignore[union-attr]
        given = [n for n in order if n.data is not None and n.op is not CONST]
        numbers = [n for n in order if n.op is CONST]
        own = [n for n in given if n not in argument_of and n is not flag]
        self.program, inputs, constants = schedule(
            order, nodes, limits, in_place, None if limits.host else self._movable(own),
            [id(n) for n in numbers if type(n.attrs[0]) is SymbolicScalar],
        )  # fmt: skip
        debug.graph(nodes, limits)
        return inputs, constants

    def _movable(self, states: list[Node]) -> set[int] | None:
        """The ids of the states that may be moved beside each other."""
        return None

    def _name_inputs(
        self, inputs: list[Node], argument_of: dict[Node, tuple[int, bool]], flag: Node | None,
        before: Collection[Storage], owners: dict[Node, Storage],
    ) -> None:  # fmt: skip
        """Each input is an argument, the flag of the checks, or state."""
        self.arguments: list[Argument] = []
        self.states: list[StateInput] = []
        self.flag = -1  # the slot of the checks' flag, of which each thread has its own
        self.flag_data: Any = None
        for slot, n in enumerate(inputs):
            if n in argument_of:
                self.arguments.append(Argument(slot, *argument_of[n], n))
            if n is flag:
                self.flag, self.flag_data = slot, n.data
            elif n not in argument_of:
                storage = owners.get(n) or Storage(n)
                self.states.append(StateInput(storage, n, slot, storage in before))
        self.state_in = {st.slot: st for st in self.states}

    def _name_results(
        self, roots: list[Storage], nodes: list[Node], fresh: set[Storage],
        before: dict[Storage, Node],
    ) -> None:  # fmt: skip
        """Each result is made anew by every call, or stays with its storage: where the Program
        puts it, over the value that it replaces, or in its own slot, to be copied there."""
        slot_of = dict(zip(nodes, self.program.outputs, strict=True))
        self.fresh = [(s, slot_of[s.node]) for s in roots if s in fresh]
        # the slots of arguments that are written over
        inputs = {a.slot for a in self.arguments}
        self.over = {slot for _, slot in self.fresh if slot in inputs}
        self.fixed = [(s, slot_of[s.node]) for s in roots if s not in fresh]
        self.back = [
            CopyBackOutput(before[s].data, slot, s.node)
            for s, slot in self.fixed
            if s in before and self.program.slots[slot].kind != INPUT
        ]
        copied = {r.node for r in self.back}
        self.own = [
            (s, slot)
            for s, slot in self.fixed
            if self.program.slots[slot].kind == OUTPUT and s.node not in copied
        ]

    def at_present(self) -> Executable:
        """The same for the sizes of the call at hand."""
        out = copy.copy(self)
        out.values, out.answers = list(map(_present, self.numbers)), []
        out.program = self.formulas.at_present()
        return out

    def _change_sizes(self, known: sizes.ShapeEnv | None) -> None:
        """Keep the Program with formulas for these sizes, if there are any, and make another one
        with numbers."""
        self.general, self.formulas = self.program, cast("Any", None)
        if any(not sizes.is_static(n) for s, _ in self.fixed for n in s.node.shape):
            raise SpecializedNumberError("what stays in its memory has")
        if known is None:
            return
        from pyframe.codegen.numpy.sized import SymbolicPlans  # which takes a while to import

        self.formulas = SymbolicPlans(self.general, known)
        self.program = self.formulas.at_present()

    def changed(self) -> bool:
        """Ask for the scalars that live outside, such as learning rates; whether one is new. They
        are calculated again only where one of the numbers behind them is another object."""
        answers, out = list(map(call, self.asked)), False
        if list(map(id, answers)) == list(map(id, self.answers)):
            return out
        self.answers = answers
        for i, number in self.live:
            value, old = evaluate(number), self.values[i]
            if value != old or (not value and str(value) != str(old)):  # -0.0 is another
                self.values[i], out = value, True
        return out

    def settle(self, data: Sequence[Any]) -> None:
        """Give the captured tensors what the first run computed."""
        self.settled = True
        for (s, _), d in zip(self.fresh, data, strict=True):
            s.node.data, s.node.inputs = d, ()
        replaced = {r.node: r.old for r in self.back}
        for s, slot in self.fixed:
            s.node.data, s.node.inputs = replaced.get(s.node, self.memory(slot)), ()

    def run(self, args: Sequence[tuple[Node, Node]]) -> list[Any]:
        """Run once; `args` holds each argument's node and that of its whole storage. The data of
        what every call makes anew, in the order of `fresh`."""
        raise NotImplementedError

    def memory(self, slot: int) -> Any:
        """The data of a result that has a place of its own."""
        raise NotImplementedError

    def assign(self, state: StateInput, array: np.ndarray) -> None:
        """Give a state the value of an array of the host's."""
        raise NotImplementedError

    def ready(self) -> bool:
        """Whether all states are where `run` takes them from, or can be brought there."""
        raise NotImplementedError


def _present(x: Any) -> Any:
    return sizes.size_hint(hint(x))


def _holds_symbol(attrs: Any) -> bool:
    for a in attrs:  # noqa: SIM110  a generator takes a call for each
        if type(a) is SymbolicScalar or (type(a) is tuple and _holds_symbol(a)):
            return True
    return False


def _owners(capture: Capture, before: dict[Storage, Node]) -> dict[Node, Storage]:
    """Whose value a node from outside was when the capture began."""
    owners = {n: s for s, n in capture.replaced()}
    made = [s for s in capture.constants.values() if id(s) not in capture.written]
    read = [s for _, s, _ in capture.tensors.values()]
    for s in [*read, *capture.viewed.values(), *made]:
        owners.setdefault(before.get(s, s.node), s)
    return owners


class HostExecutable(Executable):
    """Runs with compiled functions and NumPy, on the memory of the tensors themselves."""

    def __init__(self, capture: Capture, *args: Any) -> None:
        from pyframe.codegen.numpy.plan import CpuPlan  # which takes a while to import

        super().__init__(capture, *args)
        debug.kernels(self.program)
        # those that change are formulas here, and numbers in the nodes when the run is over
        given = [(a.slot, a.node) for a in self.arguments]
        given += [(st.slot, st.node) for st in self.states]
        self.shapes = {("in", slot): n.shape for slot, n in given}
        made = [(slot, s.node) for s, slot in self.fresh] + [(r.slot, r.node) for r in self.back]
        self.shapes |= {("out", slot): n.shape for slot, n in made}
        self._change_sizes(capture.sizes)
        arrays: list[Any] = [None] * len(self.program.slots)
        self.loose: list[StateInput] = []  # states that do not lie in one piece
        for st in self.states:
            if st.data.flags.c_contiguous and st.data.flags.aligned:
                arrays[st.slot] = st.data
            else:
                self.loose.append(st)
        for s, slot in self.fixed:
            if self.program.slots[slot].kind == OUTPUT and arrays[slot] is None:
                arrays[slot] = np.empty(sizes.size_hints(s.node.shape), s.node.dtype.numpy)
        self.arrays = arrays
        if cpu.compiler() is None:
            cpu.advise()
        self.plan: Any
        if self.formulas is None:
            self.plan = CpuPlan(self.program, None, cpu.compiler())
        else:
            from pyframe.codegen.numpy.sized import SizedPlan

            self.plan = SizedPlan(self.program, cpu.compiler(), self.formulas)
        # large arguments are read where they lie, for as long as the same ones come
        self.same = [
            a.node.data
            if a.node.data.nbytes >= MIN_ZERO_COPY_BYTES and a.node.data.flags.c_contiguous
            else None
            for a in self.arguments
        ]
        self.bind()
        debug.uncompiled(self.plan.unsupported.values())

    def at_present(self) -> Executable:
        out: Any = super().at_present()
        out.plan = self.plan.at(out.program)
        out.same = [None] * len(self.arguments)
        out.bind()
        return out

    def bind(self) -> None:
        """Fix the plan to its arrays, and what is copied before and after a run."""
        arrays = self.arrays[:]
        for argument, data in zip(self.arguments, self.same, strict=True):
            arrays[argument.slot] = data
        self.plan.bind(arrays)
        # arguments that are copied or stay the same, and those that are read where they lie
        self.given: list[tuple[np.ndarray, int, bool, Any]] = []
        self.moved: list[tuple[int, int, bool]] = []
        for (slot, index, whole, n), same in zip(self.arguments, self.same, strict=True):
            if self.plan.moves(slot):
                self.moved.append((slot, index, whole))
            else:
                self.given.append((self.shown("in", slot, n), index, whole, same))
        self.copied_in = [(self.shown("in", st.slot, st.node), st.data) for st in self.loose]
        self.copied_out = [
            (st.data, self.shown("in", st.slot, st.node)) for st in self.loose if st.written
        ]
        self.copied_out += [(old, self.shown("out", slot, n)) for old, slot, n in self.back]
        read = {slot for _, slot, _ in self.back}
        slots = [slot for _, slot in self.fresh]
        self.results = [
            (slot, self.shown("out", slot, s.node), self._is_handed_out(slot, read, slots))
            for s, slot in self.fresh
        ]
        self.theirs = {
            a.slot: same
            for a, same in zip(self.arguments, self.same, strict=True)
            if a.slot in self.over and same is not None
        }

    def _is_handed_out(self, slot: int, read: set[int], slots: list[int]) -> bool:
        """Whether a large result is computed where it is handed out, so that no run copies it."""
        if slot in self.over:
            return False
        large = self.program.slots[slot].nbytes >= host_memory.MIN_POOLED_BYTES
        return large and self.plan.moves(slot) and slot not in read and slots.count(slot) == 1

    def shown(self, way: str, slot: int, n: Node) -> np.ndarray:
        """A slot as the array that `n` is, which comes in or goes out."""
        shape = sizes.size_hints(self.shapes[way, slot])
        flat = self.plan.arrays[slot].reshape(-1).view(n.dtype.numpy)
        return flat[: math.prod(shape)].reshape(shape)

    def memory(self, slot: int) -> Any:
        return self.state_in[slot].data if slot in self.state_in else self.arrays[slot]

    def run(self, args: Sequence[tuple[Node, Node]]) -> list[Any]:
        plan = self.plan
        for _, index, whole, same in self.given:
            if same is not None and args[index][whole].data is not same:
                self.same = [None] * len(self.same)
                self.bind()
                break
        for array, index, whole, same in self.given:
            if same is None:
                np.copyto(array, args[index][whole].data)
        held = []  # until it has been read
        over = self.theirs.copy()
        for slot, index, whole in self.moved:
            data = args[index][whole].data
            if not (data.flags.c_contiguous and data.flags.aligned):
                data = data.copy()
                held.append(data)
            plan.move(slot, data)
            if slot in self.over:
                over[slot] = data
        for array, data in self.copied_in:
            np.copyto(array, data)
        if self.changed():
            plan.values = []  # it takes 0.0 and -0.0 for the same
        out = []
        for slot, array, handed_out in self.results:
            if handed_out:
                array = host_memory.empty(array.shape, array.dtype)
                plan.move(slot, array)
            out.append(array)
        plan.run(self.values)
        for data, array in self.copied_out:
            np.copyto(data, array)
        return [
            over[slot] if slot in over else array if handed_out else host_memory.copy(array)
            for array, (slot, _, handed_out) in zip(out, self.results, strict=True)
        ]

    def assign(self, state: StateInput, array: np.ndarray) -> None:
        np.copyto(state.data, array)

    def ready(self) -> bool:
        for st in self.states:  # noqa: SIM110  a generator takes a call for each
            if st.storage.node.data is not st.data:
                return False
        return True


class DeviceExecutable(Executable):
    """Runs on a GPU. Parameters and their like are moved beside each other where the Program
    updates them together."""

    def __init__(self, capture: Capture, *args: Any) -> None:
        super().__init__(capture, *args)
        self.backend = self.device.backend
        self.first: Any = None  # which has loaded the Program, if another one did for other sizes
        self.program, read, grids = self.executor.fitted(self.program)
        self.loaded = self.executor.loaded(self.program)
        self.numbers += read
        self.values += map(_present, read)
        if capture.sizes is not None:
            self.grid_formulas, self.grids_of = grids, capture.sizes.function(grids)
        program = self.program
        self._change_sizes(capture.sizes)
        self.most = [0] * len(program.slots)  # bytes of the temporaries, for all sizes so far
        kept = self._copies_of_shared(capture)
        self._make_buffers()
        self._prepare()
        self._name_homes()
        for n, data in kept:
            n.data = data

    def _movable(self, states: list[Node]) -> set[int] | None:
        fixed = self.executor.fixed
        return {id(n) for n in states if n.data.handle not in fixed and n not in self.pinned}

    def rebind(self) -> None:
        """Take states from where a later Program of the same call has moved them."""
        for st in self.states:
            if st.data is not st.node.data and self.program.slots[st.slot].region < 0:
                st.data = self.buffers[st.slot] = st.node.data
                self.handles[st.slot] = st.data.handle

    def _copies_of_shared(self, capture: Capture) -> list[tuple[Node, Any]]:
        """Values that are written over and held by others too, who are to keep these copies."""
        kept: dict[int, tuple[Node, Any]] = {}
        for _, n in capture.replaced():
            if n.shared and n.device is self.device and id(n) not in kept:
                data = self.executor.alloc(n.data.nbytes)
                self.executor.copy(data, n.data, n.data.nbytes)
                kept[id(n)] = n, data
        return list(kept.values())

    def _make_buffers(self) -> None:
        """A buffer for each slot, but for those that a call gives or makes anew."""
        slots, executor = self.program.slots, self.executor
        self.buffers: list[Any] = [None] * len(slots)
        for st in self.states:
            self.buffers[st.slot] = st.data
        if self.flag >= 0:
            self.buffers[self.flag] = self.flag_data
        self.regions = [self._region(r, n) for r, n in enumerate(self.program.regions)]
        self._take_temporaries()
        fresh = {slot for _, slot in self.fresh}
        for i, s in enumerate(slots):
            if s.region >= 0:
                self._place(i, self.regions[s.region])
            elif s.kind == OUTPUT and i not in fresh:
                self.buffers[i] = executor.alloc(s.nbytes)

    def _take_temporaries(self) -> None:
        """Buffers for the temporaries. Where sizes change they are as large as for the largest ones
        so far, by powers of two: so they are few, and there are bind groups for them."""
        slots, most = self.program.slots, self.most
        own = [i for i, s in enumerate(slots) if s.kind == TEMP and s.region < 0]
        for i in own:
            n = slots[i].nbytes
            changes = sizes.is_symbolic_size(self.general.slots[i].nbytes)
            most[i] = max(most[i], self.executor.grown(n) if changes else n)
        for i, buffer in zip(own, self.executor.scratch([most[i] for i in own]), strict=True):
            self.buffers[i] = buffer

    def _prepare(self) -> None:
        """What a run is given, as far as it stays from run to run."""
        program = self.program
        self.handles = [None if b is None else b.handle for b in self.buffers]
        self.params = encode_params(program.params, self.values, program.param_bytes)
        self.grids: tuple[int, ...] = ()  # of the dispatches, if sizes change
        if self.formulas is not None:
            self.grids = self.grids_of(*self.formulas.sizes.now)

    def at_present(self) -> Executable:
        out: Any = super().at_present()
        out.first = self.first or self
        out.buffers = self.buffers[:]
        out._take_temporaries()
        out._prepare()
        return out

    def _region(self, r: int, nbytes: int) -> Any:
        """The allocation of a region: the one where its states already lie, or a new one."""
        slots = self.program.slots
        inside = [st for st in self.states if slots[st.slot].region == r]
        first = inside[0].data.whole if inside else None
        there = all(
            st.data.whole is first and st.data.offset == slots[st.slot].offset for st in inside
        )
        if first is not None and first.nbytes >= nbytes and there:
            return first
        return self.executor.alloc(nbytes)

    def _place(self, i: int, whole: Any) -> None:
        """Put slot `i` into its region, with what it holds."""
        s = self.program.slots[i]
        old = self.buffers[i]
        if old is not None and old.whole is whole:
            return
        new = self.buffers[i] = self.executor.slice(whole, s.offset, s.nbytes)
        st = self.state_in.get(i)
        if st is not None:
            self.executor.copy(new, old, min(s.nbytes, old.nbytes))
            st.data = st.node.data = new
            if st.storage.node.data is old:
                st.storage.node.data = new

    def _name_homes(self) -> None:
        """Note where each run leaves the results that stay with their storages: another replay may
        have given such a storage other memory meanwhile."""
        flag = self.flag_data if self.flag >= 0 else None
        old = {r.node: r.old for r in self.back if r.old is not flag}
        self.homes = [(s, old[s.node]) for s, _ in self.fixed if s.node in old]

    def __del__(self) -> None:
        # It is unloaded when no other work is under way
        if "loaded" in self.__dict__ and self.first is None:
            self.program.loaded.pop(self.backend.name, None)
            self.executor.dead.append(self.loaded)

    def memory(self, slot: int) -> Any:
        return self.buffers[slot]

    def own_flag(self) -> Any:
        """The memory of this thread's flag."""
        node = deferred.on(self.device).flag._storage.node
        if node.data is None:
            self.executor.flush([node])
        return node.data

    def run(self, args: Sequence[tuple[Node, Node]]) -> list[Any]:
        with self.executor.lock:  # threads take turns
            return self.run_alone(args)

    def run_alone(self, args: Sequence[tuple[Node, Node]]) -> list[Any]:
        """`run` for who has the lock."""
        executor, handles, slots = self.executor, self.handles, self.program.slots
        over = {}
        for slot, index, whole, _ in self.arguments:
            data = args[index][whole].data
            if slot in self.over:
                if args[index][whole].shared:  # others hold this value: they keep it
                    old, data = data, executor.alloc(slots[slot].nbytes)
                    executor.copy(data, old, slots[slot].nbytes)
                over[slot] = data
            handles[slot] = data.handle
        flag = None
        if self.flag >= 0 and self.settled:
            flag = self.own_flag()
            handles[self.flag] = flag.handle
        out = []
        for _, slot in self.fresh:
            buffer = over.get(slot, self.buffers[slot])
            if buffer is None:
                buffer = executor.alloc(slots[slot].nbytes)
                handles[slot] = buffer.handle
            out.append(buffer)
        if self.changed():
            self.params = encode_params(self.program.params, self.values, self.program.param_bytes)
        if self.grids:
            executor.programs[id(self.loaded)] = self.program  # for profiles
        self.backend.run(self.loaded, handles, self.params, self.grids)
        for old, slot, _ in self.back:
            if flag is not None and old is self.buffers[self.flag]:
                old = flag
            executor.copy(old, self.buffers[slot], slots[slot].nbytes)
        for s, data in self.homes:
            n = s.node
            if n.data is not data and n.data is not None:  # another has moved it
                s.node = Node(None, (), (), n.shape, n.dtype, n.device, data)
        for s, slot in self.own:
            n = s.node
            if n.data is not self.buffers[slot] and n.data is not None:
                s.node = Node(None, (), (), n.shape, n.dtype, n.device, self.buffers[slot])
        for i, (_, slot) in enumerate(self.fresh):
            if self.buffers[slot] is not None:  # its place is taken again by the next run
                out[i] = executor.alloc(slots[slot].nbytes)
                executor.copy(out[i], self.buffers[slot], slots[slot].nbytes)
        return out

    def assign(self, state: StateInput, array: np.ndarray) -> None:
        data = self.executor.upload(array, state.node.dtype)
        self.executor.copy(state.data, data, state.data.nbytes)

    def ready(self) -> bool:
        """Bring back states that something else has written meanwhile."""
        for st in self.states:
            node = st.storage.node
            if node.data is st.data and not node.shared:
                continue
            if node.data is None:  # another thread has just recorded it
                self.executor.flush([node])
            if node.data is None or node.shape != st.node.shape:
                return False
            size = self.program.slots[st.slot].nbytes
            if node.data is st.data:  # others hold this value: they keep it, in a copy
                if not st.written:
                    continue
                node.data = self.executor.alloc(size)
                self.executor.copy(node.data, st.data, size)
            else:
                self.executor.copy(st.data, node.data, size)
            n = st.node
            st.storage.node = Node(None, (), (), n.shape, n.dtype, n.device, st.data)
        return True
