"""A capture's Programs, ready to run: what is fixed in them, and where all else comes from."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from pyframe.core.node import Node, Storage, toposort
from pyframe.core.op import CONST
from pyframe.core.symbolic import SymbolicScalar, evaluate, hint
from pyframe.graph.program import INPUT, OUTPUT, TEMP
from pyframe.graph.schedule import schedule
from pyframe.ops import deferred as checks
from pyframe.runtime import debug
from pyframe.runtime.capture import Capture
from pyframe.runtime.executor import pack_params

LARGE = 1 << 18  # bytes of an argument from which a copy is worth avoiding


class FixedError(Exception):
    """A number that changes is part of what a kernel does, not a value that it reads."""


def _asks(n: Node) -> bool:
    return n.op is CONST and type(n.attrs[0]) is SymbolicScalar


def _holds_number(attrs: Any) -> bool:
    return any(type(a) is SymbolicScalar or (type(a) is tuple and _holds_number(a)) for a in attrs)


class _State:
    """A value from outside that is no argument, and the memory that the Program has for it."""

    __slots__ = ("data", "node", "slot", "storage", "written")

    def __init__(self, storage: Storage, node: Node, slot: int, written: bool) -> None:
        self.storage, self.node, self.slot, self.written = storage, node, slot, written
        self.data = node.data


class _Part:
    """The Program of one device: what is fixed in it, and where all else comes from."""

    def __init__(
        self,
        capture: Capture,
        roots: list[Storage],
        sources: dict[int, tuple[int, bool]],
        fresh: set[int],
    ) -> None:
        """`sources` gives the argument that an input node is of, and whether it is the whole of
        its storage; what is in `fresh` every call makes anew."""
        self.device = roots[0].node.device
        host = self.device.type == "cpu"
        before = {id(s): n for s, n in capture.replaced()}
        owner = {id(n): s for s, n in capture.replaced()}
        made = [s for s in capture.constants.values() if id(s) not in capture.written]
        read = [s for _, s, _ in capture.tensors.values()]
        for s in [*read, *capture.viewed.values(), *made]:
            owner.setdefault(id(before.get(id(s), s.node)), s)
        nodes = list({id(s.node): s.node for s in roots}.values())
        order = toposort(nodes)
        given = [n for n in order if n.data is not None and n.op is not CONST]
        in_place = {
            id(before[id(s)]): s.node
            for s in roots
            if id(s) in before and id(before[id(s)]) not in sources
        }
        for n in order:
            if n.op is not CONST and _holds_number(n.attrs):
                raise FixedError(f"{n.op.name} needs")  # type: ignore[union-attr]
        limits = self.device.backend.limits
        found = None if host else self.device.executor.local.checks
        flag = found and before.get(id(found.flag._storage), found.flag._storage.node)
        movable = None
        if not host:
            fixed = self.device.executor.fixed
            movable = {
                id(n) for n in given
                if id(n) not in sources and n is not flag and n.data.handle not in fixed
            }  # fmt: skip
        self.program, inputs, constants = schedule(
            order, nodes, limits, in_place, movable, [id(n) for n in order if _asks(n)]
        )
        debug.graph(nodes, limits)
        if host:  # a GPU's executor prints its own
            debug.kernels(self.program)
        self.values = [hint(n.attrs[0]) for n in constants]
        self.live = [(i, n.attrs[0]) for i, n in enumerate(constants) if _asks(n)]
        self.arguments = [(i, *sources[id(n)], n) for i, n in enumerate(inputs) if id(n) in sources]
        self.states = []
        self.settled = False
        self.flag = -1  # the slot of the checks' flag, of which each thread has its own
        for i, n in enumerate(inputs):
            if n is flag:
                self.flag, self.flag_data = i, n.data
            elif id(n) not in sources:
                storage = owner.get(id(n)) or Storage(n)
                self.states.append(_State(storage, n, i, id(storage) in before))
        slot_of = dict(zip(map(id, nodes), self.program.outputs, strict=True))
        self.fresh = [(s, slot_of[id(s.node)]) for s in roots if id(s) in fresh]
        self.fixed = [(s, slot_of[id(s.node)]) for s in roots if id(s) not in fresh]
        # results that replace a value which the Program could not write over
        self.back = [
            (before[id(s)].data, slot, s.node)
            for s, slot in self.fixed
            if id(s) in before and self.program.slots[slot].kind != INPUT
        ]

    def changed(self) -> bool:
        """Ask for the values that live outside, such as learning rates."""
        out = False
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
        replaced = {id(n): old for old, _, n in self.back}
        for s, slot in self.fixed:
            s.node.data, s.node.inputs = replaced.get(id(s.node), self.memory(slot, s.node)), ()

    def run(self, args: Sequence[tuple[Node, Node]]) -> list[Any]:
        """Run once; the data of what every call makes anew, in the order of `fresh`."""
        raise NotImplementedError

    def memory(self, slot: int, n: Node) -> Any:
        """The data of a result that has a place of its own."""
        raise NotImplementedError


class HostPart(_Part):
    """Runs with NumPy, on the memory of the tensors themselves."""

    def __init__(self, *args: Any) -> None:
        super().__init__(*args)
        from pyframe.codegen.numpy.plan import Plan

        arrays: list[Any] = [None] * len(self.program.slots)
        loose = []  # states that do not lie in one piece
        for st in self.states:
            if st.data.flags.c_contiguous and st.data.flags.aligned:
                arrays[st.slot] = st.data
            else:
                loose.append(st)
        for s, slot in self.fixed:
            if self.program.slots[slot].kind == OUTPUT and arrays[slot] is None:
                arrays[slot] = np.empty(s.node.shape, s.node.dtype.numpy)
        self.arrays, self.loose = arrays, loose
        self.plan = Plan(self.program)
        # large arguments are read where they lie, for as long as the same ones come
        self.same = [
            n.data if n.data.nbytes >= LARGE and n.data.flags.c_contiguous else None
            for _, _, _, n in self.arguments
        ]
        self.bind()

    def bind(self) -> None:
        arrays = self.arrays[:]
        for (slot, _, _, _), data in zip(self.arguments, self.same, strict=True):
            arrays[slot] = data
        self.plan.bind(arrays)
        self.given = [
            (self.shown(slot, n), arg, whole, same)
            for (slot, arg, whole, n), same in zip(self.arguments, self.same, strict=True)
        ]
        self.moved_in = [(self.shown(st.slot, st.node), st.data) for st in self.loose]
        self.moved_out = [
            (st.data, self.shown(st.slot, st.node)) for st in self.loose if st.written
        ]
        self.moved_out += [(data, self.shown(slot, n)) for data, slot, n in self.back]
        self.results = [self.shown(slot, s.node) for s, slot in self.fresh]

    def shown(self, slot: int, n: Node) -> np.ndarray:
        """A slot as the array that `n` is."""
        flat = self.plan.arrays[slot].reshape(-1).view(n.dtype.numpy)
        return flat[: int(np.prod(n.shape))].reshape(n.shape)

    def memory(self, slot: int, n: Node) -> Any:
        return next((st.data for st in self.states if st.slot == slot), self.arrays[slot])

    def run(self, args: Sequence[tuple[Node, Node]]) -> list[Any]:
        for _, arg, whole, same in self.given:
            if same is not None and args[arg][whole].data is not same:
                self.same = [None] * len(self.same)
                self.bind()
                break
        for array, arg, whole, same in self.given:
            if same is None:
                np.copyto(array, args[arg][whole].data)
        for array, data in self.moved_in:
            np.copyto(array, data)
        if self.changed():
            self.plan.values = []  # it takes 0.0 and -0.0 for the same
        self.plan.run(self.values)
        for data, array in self.moved_out:
            np.copyto(data, array)
        return [array.copy() for array in self.results]

    def feed(self, st: _State, array: np.ndarray) -> None:
        """Read an array of the host's again."""
        np.copyto(st.data, array)

    def ready(self) -> bool:
        """Whether every state is still where it was."""
        return all(st.storage.node.data is st.data for st in self.states)


class DevicePart(_Part):
    """Runs on a GPU. Parameters and their like are moved beside each other where the Program
    updates them together."""

    def __init__(self, capture: Capture, *args: Any) -> None:
        super().__init__(capture, *args)
        self.backend, executor = self.device.backend, self.device.executor
        self.executor = executor
        others = {}  # who holds a value that is written over keeps it, in a copy
        for _, n in capture.replaced():
            if n.shared and n.device is self.device and id(n) not in others:
                others[id(n)] = n, executor.alloc(n.data.nbytes)
                executor.copy(others[id(n)][1], n.data, n.data.nbytes)
        slots, regions = self.program.slots, self.program.regions
        self.buffers: list[Any] = [None] * len(slots)
        for st in self.states:
            self.buffers[st.slot] = st.data
        if self.flag >= 0:
            self.buffers[self.flag] = self.flag_data
        fresh = {slot for _, slot in self.fresh}
        self.whole = [self.region(r, n) for r, n in enumerate(regions)]
        own = [i for i, s in enumerate(slots) if s.kind == TEMP and s.region < 0]
        for i, buffer in zip(own, executor.scratch([slots[i].nbytes for i in own]), strict=True):
            self.buffers[i] = buffer
        for i, s in enumerate(slots):
            if s.region >= 0:
                self.place(i, self.whole[s.region])
            elif s.kind == OUTPUT and i not in fresh:
                self.buffers[i] = executor.alloc(s.nbytes)
        self.loaded = executor.loaded(self.program)
        self.handles = [None if b is None else b.handle for b in self.buffers]
        self.params = pack_params(self.program.params, self.values, self.program.param_bytes)
        elsewhere = {id(n) for _, _, n in self.back}
        self.own = [  # results that stay where the Program puts them
            (s, slot)
            for s, slot in self.fixed
            if slots[slot].kind == OUTPUT and id(s.node) not in elsewhere
        ]
        flag = self.flag_data if self.flag >= 0 else None
        back = {id(n): data for data, _, n in self.back if data is not flag}
        self.homes = [  # and those that are copied to where they were
            (s, back[id(s.node)]) for s, _ in self.fixed if id(s.node) in back
        ]
        for n, data in others.values():
            n.data = data

    def region(self, r: int, nbytes: int) -> Any:
        """The allocation of a region: the one where its states already lie, or a new one."""
        parts = [st for st in self.states if self.program.slots[st.slot].region == r]
        first = parts[0].data.whole if parts else None
        if (
            first is not None
            and first.nbytes >= nbytes
            and all(
                st.data.whole is first and st.data.offset == self.program.slots[st.slot].offset
                for st in parts
            )
        ):
            return first
        return self.executor.alloc(nbytes)

    def place(self, i: int, whole: Any) -> None:
        """Put slot `i` into its region, with what it holds."""
        s = self.program.slots[i]
        old = self.buffers[i]
        if old is not None and old.whole is whole:
            return
        new = self.buffers[i] = self.executor.slice(whole, s.offset, s.nbytes)
        for st in self.states:
            if st.slot == i:
                self.executor.copy(new, old, min(s.nbytes, old.nbytes))
                st.data = st.node.data = new
                if st.storage.node.data is old:
                    st.storage.node.data = new

    def __del__(self) -> None:
        if "loaded" in self.__dict__:  # it is unloaded when no other work is under way
            self.program.executable.pop(self.backend.name, None)
            self.executor.dead.append(self.loaded)

    def memory(self, slot: int, n: Node) -> Any:
        return self.buffers[slot]

    def own_flag(self) -> Any:
        """The memory of this thread's flag."""
        node = checks.on(self.device).flag._storage.node
        if node.data is None:
            self.executor.flush([node])
        return node.data

    def run(self, args: Sequence[tuple[Node, Node]]) -> list[Any]:
        with self.executor.lock:  # threads take turns
            return self.run_alone(args)

    def run_alone(self, args: Sequence[tuple[Node, Node]]) -> list[Any]:
        executor, handles = self.executor, self.handles
        for slot, arg, whole, _ in self.arguments:
            handles[slot] = args[arg][whole].data.handle
        flag = None
        if self.flag >= 0 and self.settled:
            flag = self.own_flag()
            handles[self.flag] = flag.handle
        out = []
        for _, slot in self.fresh:
            buffer = self.buffers[slot]
            if buffer is None:
                buffer = executor.alloc(self.program.slots[slot].nbytes)
                handles[slot] = buffer.handle
            out.append(buffer)
        if self.changed():
            self.params = pack_params(self.program.params, self.values, self.program.param_bytes)
        self.backend.run(self.loaded, handles, self.params)
        for data, slot, _ in self.back:
            if flag is not None and data is self.buffers[self.flag]:
                data = flag
            executor.copy(data, self.buffers[slot], self.program.slots[slot].nbytes)
        for s, data in self.homes:
            n = s.node
            if n.data is not data and n.data is not None:
                s.node = Node(None, (), (), n.shape, n.dtype, n.device, data)
        for s, slot in self.own:
            n = s.node
            if n.data is not self.buffers[slot] and n.data is not None:  # another has moved it
                s.node = Node(None, (), (), n.shape, n.dtype, n.device, self.buffers[slot])
        for i, (_, slot) in enumerate(self.fresh):
            if self.buffers[slot] is not None:  # its place is taken again by the next run
                out[i] = executor.alloc(self.program.slots[slot].nbytes)
                executor.copy(out[i], self.buffers[slot], self.program.slots[slot].nbytes)
        return out

    def feed(self, st: _State, array: np.ndarray) -> None:
        """Read an array of the host's again."""
        self.executor.copy(st.data, self.executor.upload(array, st.node.dtype), st.data.nbytes)

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
