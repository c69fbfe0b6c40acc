"""pf.compile: a function's ops are recorded once, and what they became is replayed.

A capture records on the CPU too. What it reads from outside is found by storage: the tensors among
the arguments, and the function's state (parameters, moments, counters), which a replay updates
where it lies. Python itself does not run in a replay.
"""

from __future__ import annotations

import contextlib
import functools
import gc
import sys
import threading
import warnings
import weakref
from collections import OrderedDict
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from pyframe import dtypes as dt
from pyframe.backend.base import Limits
from pyframe.devices import cpu, device as Device
from pyframe.graph.interpret import pack_params
from pyframe.graph.node import Node, Storage
from pyframe.graph.program import INPUT, OUTPUT, TEMP, Program
from pyframe.graph.schedule import schedule, toposort
from pyframe.ops import op as _op
from pyframe.ops.op import CONST, GradNode, mode
from pyframe.tensor import Tensor

_CAPTURING = threading.RLock()

MAX_CAPTURES = 8  # of one function, kept for the next calls
LARGE = 1 << 18  # bytes of an argument from which a copy is worth avoiding
MAX_MISSES = 32  # captures in a row that were never replayed, before a function runs eagerly

HOST = Limits(
    storage_buffers=1 << 20, binding_bytes=1 << 62, buffer_bytes=1 << 62, float16=True, host=True
)


class Capture:
    """What a function did while it ran with its ops only recorded."""

    def __init__(self) -> None:
        self.pending: list[weakref.ref[Storage]] = []  # storages made or written to
        self.written: dict[int, tuple[Storage, Node]] = {}  # and what they held before
        self.touched: list[weakref.ref[Tensor]] = []  # on the CPU: they need their arrays again
        self.tensors: dict[
            int, tuple[Tensor, Storage, bool]
        ] = {}  # from outside, as they were used
        self.constants: dict[int, Storage] = {}  # of tensors made from host data on the way
        self.grads: dict[int, tuple[Tensor, Tensor | None, bool]] = {}  # leaf, before, was read
        self.guards: list[tuple[Callable[[], Any], Any]] = []
        self.modules: dict[int, tuple[Any, bool]] = {}
        self.live: dict[int, Callable[[], Any]] = {}  # by const node: its value from now on
        self.kept: list[Any] = []  # whose ids are keys above
        self.broken = ""  # why it cannot be replayed
        self.first = _op.next_seq()  # of the history that is made in here

    # --- what the recording code tells

    def saw(self, x: Tensor) -> None:
        """`x`, which has its value, is an operand."""
        made = x._steps or x._grad_fn is not None or id(x._storage) in self.constants
        if not made:
            self.tensors.setdefault(id(x), (x, x._storage, x._needs_grad))

    def made(self, x: Tensor) -> None:
        """`x` was made here, of data that does not come from a tensor."""
        self.constants[id(x._storage)] = x._storage

    def touch_grad(self, leaf: Tensor, read: bool) -> None:
        """`leaf.grad` is about to be read or replaced."""
        self.grads.setdefault(id(leaf), (leaf, leaf.grad, read))

    def watch(self, get: Callable[[], Any]) -> Any:
        """What `get()` gives; another value later means another capture."""
        value = get()
        self.guards.append((get, value))
        return value

    def scalar(self, get: Callable[[], Any], dtype: dt.dtype, device: Device) -> Tensor:
        """A 0-d tensor whose value is asked for at each replay."""
        node = Node(CONST, (), (get(),), (), dtype, device)
        self.live[id(node)] = get
        self.kept.append(node)
        return _op.new(node)

    def read(self, x: Tensor) -> None:
        """The value of `x` is needed now."""
        if id(x._storage) in self.constants and id(x._storage) not in self.written:
            return
        self.give_up("reads the value of a tensor")

    def give_up(self, why: str) -> None:
        """What was recorded runs now, and the rest of the function eagerly."""
        self.broken = f"{_user_line()} {why}"
        self.finish()

    def undo(self) -> None:
        """Let everything be as before the capture."""
        for storage, node in self.written.values():
            storage.node = node
        for leaf, grad, _ in self.grads.values():
            leaf.grad = grad
        _renew(self)

    def finish(self) -> None:
        """Compute what was recorded, as if the ops had run one by one."""
        mode.capture = None
        _run_eagerly(self)

    def alive(self) -> list[Storage]:
        """The storages that something still holds and that have no value yet."""
        for s, before in self.written.values():
            if s.node is not before and s.node.data is not None:  # written from another's value
                self.copy(s)
        found = {id(s): s for s in (ref() for ref in self.pending) if s is not None}
        out = [s for s in found.values() if s.node.data is None]
        nodes: set[int] = set()
        for s in out:  # each has memory of its own
            if id(s.node) in nodes:
                self.copy(s)
            nodes.add(id(s.node))
        return out

    def replaced(self) -> list[tuple[Storage, Node]]:
        """The storages from outside that were written to, and what they held before."""
        return [
            (s, n)
            for s, n in self.written.values()
            if n.data is not None and id(s) not in self.constants
        ]

    def copy(self, s: Storage) -> None:
        n = s.node
        s.node = Node(_op.REGISTRY["copy"], (n,), (), n.shape, n.dtype, n.device)
        self.pending.append(weakref.ref(s))


def _user_line() -> str:
    """The line outside of pyframe that runs now, as 'file.py:12'."""
    here = str(Path(__file__).resolve().parent.parent)
    frame: Any = sys._getframe(1)
    while frame is not None and frame.f_code.co_filename.startswith(here):
        frame = frame.f_back
    return f"{frame.f_code.co_filename}:{frame.f_lineno}" if frame is not None else "a line"


def _run_eagerly(capture: Capture) -> None:
    """Give every storage of a capture its value."""
    roots = capture.alive()
    for d in {s.node.device for s in roots if s.node.device.type != "cpu"}:
        d.backend.pending.extend(weakref.ref(s) for s in roots if s.node.device is d)
        d.backend.flush()
    nodes = [s.node for s in roots if s.node.device.type == "cpu"]
    with np.errstate(all="ignore"):
        for n in toposort(nodes):
            if n.data is None:
                n.data = _value(n)
    for n in nodes:
        n.inputs = ()
    for storage, before in capture.written.values():
        if before.device.type == "cpu" and before.data is not None:
            _put_back(storage, before, storage.node.data)
    _renew(capture)


def _value(n: Node) -> Any:
    if n.op is CONST:
        return dt.convert_scalar(n.attrs[0], n.dtype)
    fn: Any = n.op.numpy  # type: ignore[union-attr]
    data = np.asarray(fn(*[i.data for i in n.inputs], *n.attrs))
    return data if data.dtype == n.dtype.numpy else data.astype(n.dtype.numpy)


def _put_back(storage: Storage, before: Node, data: np.ndarray) -> None:
    """On the CPU a tensor keeps its memory, which NumPy arrays and views may share."""
    if data is not before.data:
        np.copyto(before.data, data)
    if storage.node is not before:
        storage.node.data, storage.node.inputs = before.data, ()


def _renew(capture: Capture) -> None:
    """Let the tensors of the CPU that a capture has touched show their storages' arrays."""
    for ref in capture.touched:
        x = ref()
        if x is not None and x._storage.node.data is not None:
            node = x._storage.node
            if x._steps:
                data = node.data
                for op, attrs in x._steps:
                    data = op.numpy(data, *attrs)  # type: ignore[misc]
                node = Node(None, (), (), data.shape, node.dtype, node.device, data)
            x._node, x._stamp = node, x._storage.version


# --- the arguments and results of a call


def _flatten(value: Any, tensors: list[Tensor]) -> Any:
    """A hashable picture of `value`, with its tensors collected in order.

    Raises TypeError for what could change without being noticed."""
    if isinstance(value, Tensor):
        tensors.append(value)
        n = value._node
        if not value._steps:
            return n.shape, n.dtype, n.device, value.requires_grad
        whole = value._storage.node.shape
        return n.shape, n.dtype, n.device, value.requires_grad, whole, value._steps
    if isinstance(value, float):
        return type(value), value.hex()  # 0.0 and -0.0 are equal
    if value is None or isinstance(value, (int, str, bytes, dt.dtype, Device)):
        return type(value), value
    if isinstance(value, (list, tuple)):
        return type(value), *[_flatten(v, tensors) for v in value]
    if isinstance(value, dict):
        return dict, *[(k, _flatten(v, tensors)) for k, v in value.items()]
    if isinstance(value, (set, np.ndarray, np.generic)):
        raise TypeError(f"an argument is a {type(value).__name__}; make it a tensor")
    return _Same(value)


class _Same:
    """Equal only for the same object, which it keeps alive."""

    __slots__ = ("value",)

    def __init__(self, value: Any) -> None:
        self.value = value

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Same) and other.value is self.value

    def __hash__(self) -> int:
        return id(self.value)


def _rebuild(value: Any, make: Callable[[Tensor], Any]) -> Any:
    """`value` with each of its tensors replaced by what `make` gives."""
    if isinstance(value, Tensor):
        return make(value)
    if isinstance(value, tuple) and hasattr(value, "_fields"):
        return type(value)(*[_rebuild(v, make) for v in value])
    if isinstance(value, (list, tuple)):
        return type(value)(_rebuild(v, make) for v in value)
    if isinstance(value, dict):
        return {k: _rebuild(v, make) for k, v in value.items()}
    return value


# --- one device's part of a capture, ready to run


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
        for s in [*[s for _, s, _ in capture.tensors.values()], *made]:
            owner.setdefault(id(before.get(id(s), s.node)), s)
        nodes = list({id(s.node): s.node for s in roots}.values())
        order = toposort(nodes)
        given = [n for n in order if n.data is not None and n.op is not CONST]
        in_place = {
            id(before[id(s)]): s.node
            for s in roots
            if id(s) in before and id(before[id(s)]) not in sources
        }
        limits = HOST if host else self.device.backend.limits
        movable = None if host else {id(n) for n in given if id(n) not in sources}
        self.program, inputs, constants = schedule(
            order, nodes, limits, in_place, movable, capture.live
        )
        self.values = [n.attrs[0] for n in constants]
        live = [(i, capture.live.get(id(n))) for i, n in enumerate(constants)]
        self.live = [(i, get) for i, get in live if get is not None]
        self.arguments = [(i, *sources[id(n)], n) for i, n in enumerate(inputs) if id(n) in sources]
        self.states = []
        for i, n in enumerate(inputs):
            if id(n) not in sources:
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
        for i, get in self.live:
            value = get()
            if value != self.values[i]:
                self.values[i], out = value, True
        return out

    def settle(self, data: Sequence[Any]) -> None:
        """Give the captured tensors what the first run computed."""
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


class _HostPart(_Part):
    """Runs with NumPy, on the memory of the tensors themselves."""

    def __init__(self, *args: Any) -> None:
        super().__init__(*args)
        from pyframe.backend.cpu_plan import Plan

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
        self.changed()
        self.plan.run(self.values)
        for data, array in self.moved_out:
            np.copyto(data, array)
        return [array.copy() for array in self.results]

    def ready(self) -> bool:
        """Whether every state is still where it was."""
        return all(st.storage.node.data is st.data for st in self.states)


class _DevicePart(_Part):
    """Runs on a GPU. Parameters and their like are moved beside each other where the Program
    updates them together."""

    def __init__(self, *args: Any) -> None:
        super().__init__(*args)
        backend = self.backend = self.device.backend
        slots, regions = self.program.slots, self.program.regions
        self.buffers: list[Any] = [None] * len(slots)
        for st in self.states:
            self.buffers[st.slot] = st.data
        fresh = {slot for _, slot in self.fresh}
        self.whole = [self.region(r, n) for r, n in enumerate(regions)]
        own = [i for i, s in enumerate(slots) if s.kind == TEMP and s.region < 0]
        for i, buffer in zip(own, backend.scratch([slots[i].nbytes for i in own]), strict=True):
            self.buffers[i] = buffer
        for i, s in enumerate(slots):
            if s.region >= 0:
                self.place(i, self.whole[s.region])
            elif s.kind == OUTPUT and i not in fresh:
                self.buffers[i] = backend.alloc(s.nbytes)
        self.loaded = backend.loaded(self.program)
        self.handles = [None if b is None else b.handle for b in self.buffers]
        self.params = pack_params(self.program.params, self.values, self.program.param_bytes)

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
        return self.backend.alloc(nbytes)

    def place(self, i: int, whole: Any) -> None:
        """Put slot `i` into its region, with what it holds."""
        s = self.program.slots[i]
        old = self.buffers[i]
        if old is not None and old.whole is whole:
            return
        new = self.buffers[i] = self.backend.slice(whole, s.offset, s.nbytes)
        for st in self.states:
            if st.slot == i:
                self.backend.copy(new, old, min(s.nbytes, old.nbytes))
                st.data = st.node.data = new
                if st.storage.node.data is old:
                    st.storage.node.data = new

    def memory(self, slot: int, n: Node) -> Any:
        return self.buffers[slot]

    def run(self, args: Sequence[tuple[Node, Node]]) -> list[Any]:
        with self.backend.lock:  # threads take turns
            return self.run_alone(args)

    def run_alone(self, args: Sequence[tuple[Node, Node]]) -> list[Any]:
        backend, handles = self.backend, self.handles
        for slot, arg, _, _ in self.arguments:
            handles[slot] = args[arg][1].data.handle
        out = []
        for _, slot in self.fresh:
            buffer = self.buffers[slot]
            if buffer is None:
                buffer = backend.alloc(self.program.slots[slot].nbytes)
                handles[slot] = buffer.handle
            out.append(buffer)
        if self.changed():
            self.params = pack_params(self.program.params, self.values, self.program.param_bytes)
        backend._run(self.loaded, handles, self.params)
        for data, slot, _ in self.back:
            backend.copy(data, self.buffers[slot], self.program.slots[slot].nbytes)
        for i, (_, slot) in enumerate(self.fresh):
            if self.buffers[slot] is not None:  # its place is taken again by the next run
                out[i] = backend.alloc(self.program.slots[slot].nbytes)
                backend.copy(out[i], self.buffers[slot], self.program.slots[slot].nbytes)
        return out

    def ready(self) -> bool:
        """Bring back states that something else has written meanwhile."""
        for st in self.states:
            node = st.storage.node
            if node.data is st.data and not node.shared:
                continue
            if node.data is None or node.shape != st.node.shape:
                return False
            size = self.program.slots[st.slot].nbytes
            if node.data is st.data:  # others hold this value: they keep it, in a copy
                if not st.written:
                    continue
                node.data = self.backend.alloc(size)
                self.backend.copy(node.data, st.data, size)
            else:
                self.backend.copy(st.data, node.data, size)
            n = st.node
            st.storage.node = Node(None, (), (), n.shape, n.dtype, n.device, st.data)
        return True


# --- a captured call


class _Guard(NamedTuple):
    tensors: list[tuple[weakref.ref[Tensor], Storage, bool]]
    grads: list[tuple[weakref.ref[Tensor], Tensor | None]]
    modules: list[tuple[Any, bool]]
    others: list[tuple[Callable[[], Any], Any]]

    def holds(self) -> bool:
        """Whether what the capture relied on is as it was."""
        for ref, storage, needs_grad in self.tensors:
            x = ref()
            if x is None or x._storage is not storage or x._needs_grad is not needs_grad:
                return False
        for ref, grad in self.grads:
            leaf = ref()
            if leaf is None or (leaf.grad is None) != (grad is None):
                return False
            if grad is not None and leaf.grad is not grad:
                return False
        for module, training in self.modules:
            if module.training is not training:
                return False
        return all(get() == value for get, value in self.others)


class _BadIndexError(Exception):
    """An index is out of range."""


def _is_small(n: Node) -> bool:
    """Whether `n` takes little to compute apart from all else."""
    return len(toposort([n])) < 100 and not any(
        m.data is None and m.op is not CONST and m.op.kind == _op.ROUTINE  # type: ignore[union-attr]
        for m in toposort([n])
    )


class _Replay:
    """What a call was captured as."""

    def __init__(
        self, capture: Capture, args: list[Tensor], nodes: list[tuple[Node, Node]], result: Any
    ) -> None:
        """`nodes`: of each argument before the call, its own and that of its storage."""
        gc.collect()  # what only a cycle of dead objects holds would be computed
        returned: list[Tensor] = []
        _rebuild(result, returned.append)
        for x in returned:  # what is made of host data is made again by each call
            if id(x._storage) in capture.constants and x._storage.node.data is not None:
                capture.copy(x._storage)
                capture.touched.append(weakref.ref(x))
        roots = capture.alive()
        grads = [(leaf, leaf.grad) for leaf, _, _ in capture.grads.values()]
        position = {id(x._storage): i for i, x in enumerate(args)}
        sources: dict[int, tuple[int, bool]] = {}
        for i, (own, whole) in enumerate(nodes):
            if own.data is not None:
                sources[id(own)] = i, False
            sources[id(whole)] = i, True
        kept = {id(g._storage) for _, g in grads if g is not None}
        kept |= {id(s) for s, _ in capture.replaced()} - position.keys()
        history = _history(returned, capture.first)
        saved = [e[0] for n in history for e in n.saved or () if type(e) is tuple]
        fresh = {id(x._storage) for x in [*returned, *saved]} | position.keys()
        fresh &= {id(s) for s in roots} - kept
        self.parts: list[Any] = []
        self.made: list[Storage] = []
        by_device: dict[Any, list[Storage]] = {}
        guard = cpu.backend.guard
        for s in roots:
            early = guard is not None and s is guard.flag._storage and _is_small(s.node)
            by_device.setdefault("guard" if early else s.node.device, []).append(s)
        self.guarded = guard if "guard" in by_device else None
        for _, some in sorted(by_device.items(), key=lambda item: item[0] != "guard"):
            kind = _HostPart if some[0].node.device is cpu else _DevicePart
            part = kind(capture, some, sources, fresh)
            part.settle(part.run(nodes))
            self.parts.append(part)
            if self.guarded is not None:
                self.look()
            self.made += [s for s, _ in part.fresh]
        self.specs = [(s.node.shape, s.node.dtype, s.node.device) for s in self.made]
        # arguments that are written to: which of the results, and whose
        self.overwritten = [(k, position[id(s)]) for k, s in enumerate(self.made)
                            if id(s) in position]  # fmt: skip
        for k, i in self.overwritten:
            self.overwrite(self.made[k], nodes[i][1], self.made[k].node.data)
        self.written = [s for s, _ in capture.replaced() if id(s) not in position]
        place = {id(s): k for k, s in enumerate(self.made)}

        def source(x: Tensor) -> Any:
            i = position.get(id(x._storage))
            if i is not None:
                return _Given(i, x._steps, x is args[i])
            k = place.get(id(x._storage))
            return x if k is None else _Made(k, x._steps, number.get(id(x._grad_fn), x._grad_fn))

        number = {id(n): k for k, n in enumerate(history)}
        self.result = _rebuild(result, source)
        leads = {id(x._grad_fn or x): i for i, x in enumerate(args)}
        self.history = [_Step.of(n, number, leads, source) for n in history]
        mine = {id(x) for x in args}
        self.grads = [(weakref.ref(leaf), g) for leaf, g in grads if id(leaf) not in mine]
        self.arg_grads = [(i, g) for leaf, g in grads for i, x in enumerate(args) if x is leaf]
        read = [(weakref.ref(x), old) for x, old, was_read in capture.grads.values() if was_read]
        seen = [
            (weakref.ref(x), s, needs)
            for x, s, needs in capture.tensors.values()
            if id(x) not in mine
        ]
        capture.tensors.clear()
        capture.grads.clear()
        self.guard = _Guard(
            [x for x in seen if x[0]() is not None], read,
            list(capture.modules.values()), capture.guards,
        )  # fmt: skip
        self.kept = [capture.kept, capture.constants]
        _renew(capture)
        self.hits = 0
        self.on_device = any(part.device.type != "cpu" for part in self.parts)

    @staticmethod
    def overwrite(storage: Storage, old: Node, data: Any) -> None:
        """Let an argument's storage hold what was written to it."""
        if old.device.type == "cpu":
            np.copyto(old.data, data)
            data = old.data
        storage.node = Node(None, (), (), old.shape, old.dtype, old.device, data)

    def look(self) -> None:
        """Whether the indices are good: on the CPU this is computed before all else."""
        flag = self.guarded and self.guarded.flag._storage.node.data
        if flag is not None and flag[()]:
            flag[...] = 0
            raise _BadIndexError

    def ready(self) -> bool:
        return self.guard.holds() and all(part.ready() for part in self.parts)

    def __call__(self, args: list[Tensor]) -> Any:
        nodes = [(x._node, x._storage.node) for x in args]
        data = []
        for part in self.parts:
            data += part.run(nodes)
            if part is self.parts[0]:
                self.look()
        for s in self.written:
            s.version += 1
        for k, i in self.overwritten:
            storage = args[i]._storage
            self.overwrite(storage, storage.node, data[k])
            storage.version += 1
        for ref, g in self.grads:
            leaf = ref()
            if leaf is not None:
                leaf.grad = g
        for i, g in self.arg_grads:
            args[i].grad = g
        self.hits += 1
        bases = [
            _op.new(Node(None, (), (), *spec, d)) for spec, d in zip(self.specs, data, strict=True)
        ]
        made: list[Any] = []
        for step in self.history:
            made.append(step.make(args, bases, made))
        return _results(self.result, args, bases, made)


class _Given(NamedTuple):
    """A result that is an argument, or a view of one."""

    number: int
    steps: Any
    itself: bool


class _Made(NamedTuple):
    """A result that the call makes, or a view of it."""

    number: int
    steps: Any
    history: Any


def _results(value: Any, args: list[Tensor], bases: list[Tensor], history: list[Any]) -> Any:
    """The results of a call from the picture that its capture made of them."""
    if isinstance(value, _Given):
        x = args[value.number]
        return x if value.itself else _cut(x._alias(), value.steps[len(x._steps) :])
    if isinstance(value, _Made):
        x = _cut(bases[value.number], value.steps)
        if value.history is not None:
            x = x._alias()
            h = value.history
            x._grad_fn = history[h] if type(h) is int else h
        return x
    if isinstance(value, tuple) and hasattr(value, "_fields"):
        return type(value)(*[_results(v, args, bases, history) for v in value])
    if isinstance(value, (list, tuple)):
        return type(value)(_results(v, args, bases, history) for v in value)
    if isinstance(value, dict):
        return {k: _results(v, args, bases, history) for k, v in value.items()}
    return value


class _Step(NamedTuple):
    """A step of the backward pass of what a call returns, to be made again for each call."""

    node: GradNode
    edges: list[Any]  # for each: a leaf, a _Number of this history, a _Given argument, or None
    saved: list[Any]

    @classmethod
    def of(
        cls, n: GradNode, number: dict[int, int], leads: dict[int, int],
        source: Callable[[Tensor], Any],
    ) -> _Step:  # fmt: skip
        def edge(e: Any) -> Any:
            if id(e) in number:
                return number[id(e)]
            return _Given(leads[id(e)], (), True) if id(e) in leads else e

        def entry(e: Any) -> Any:
            return (source(e[0]),) if type(e) is tuple else e

        return cls(n, [edge(e) for e in n.edges], [entry(e) for e in n.saved or ()])

    def make(self, args: list[Tensor], bases: list[Tensor], made: list[Any]) -> GradNode:
        out = GradNode.__new__(GradNode)
        n = self.node
        out.seq, out.op, out.attrs, out.specs = _op.next_seq(), n.op, n.attrs, n.specs
        out.hooks, out.retained = n.hooks, None
        out.edges = []
        for e in self.edges:
            if type(e) is int:
                e = made[e]
            elif type(e) is _Given:
                x = args[e.number]
                e = x._grad_fn or x
            out.edges.append(e)
        out.saved = []
        for e in self.saved:
            if type(e) is tuple:
                x = _results(e[0], args, bases, made)
                e = x, x._storage.version
            out.saved.append(e)
        return out


def _history(tensors: list[Tensor], first: int) -> list[GradNode]:
    """The steps of the backward pass made since step `first`, each after those it leads to."""
    found: dict[int, GradNode] = {}
    stack = [x.grad_fn for x in tensors]
    while stack:
        n = stack.pop()
        if type(n) is GradNode and n.seq > first and n.saved is not None and id(n) not in found:
            found[id(n)] = n
            stack.extend(e for e in n.edges if isinstance(e, GradNode))
    return sorted(found.values(), key=lambda n: n.seq)


def _cut(x: Tensor, steps: Any) -> Tensor:
    for op, attrs in steps:
        x = _op.apply(op, (x,), attrs)
    return x


# --- the function that the user calls


class Compiled:
    """A function whose calls are captured once and then replayed; see `compile`."""

    def __init__(self, fn: Callable[..., Any]) -> None:
        self.fn = fn
        self.replays: OrderedDict[Any, list[_Replay]] = OrderedDict()
        self.eager = ""  # why it always runs eagerly
        self.misses = 0
        self.lock = threading.RLock()
        functools.update_wrapper(self, fn, updated=())

    def __repr__(self) -> str:
        return f"<compiled {getattr(self.fn, '__qualname__', type(self.fn).__name__)}>"

    def __get__(self, obj: Any, owner: Any = None) -> Any:
        return self if obj is None else functools.partial(self, obj)

    def __getattr__(self, name: str) -> Any:
        if name == "fn":
            raise AttributeError(name)
        return getattr(self.fn, name)  # of a compiled module: parameters, train, …

    @property
    def programs(self) -> list[Program]:
        """The Programs of all captures, the latest used last."""
        return [p.program for some in self.replays.values() for r in some for p in r.parts]

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Replay the call, or capture it if it is the first of its kind."""
        if self.eager or mode.capture is not None:
            return self.fn(*args, **kwargs)
        tensors: list[Tensor] = []
        try:
            key = self.key(args, kwargs, tensors)
        except TypeError as e:
            self.give_up(f"{e}")
            return self.fn(*args, **kwargs)
        with self.lock:
            some = self.replays.get(key, ())
            if some:
                _flush(tensors)
            # a replay on a GPU, and every capture, changes state that all threads share
            alone = contextlib.nullcontext() if some and not some[0].on_device else _CAPTURING
            with alone:
                for replay in some:
                    if replay.ready():
                        try:
                            return replay(tensors)
                        except _BadIndexError:
                            return self.fn(*args, **kwargs)  # it says what is wrong, and where
            with _CAPTURING:
                for replay in some:  # another thread's capture is over now
                    if replay.ready():
                        return self(*args, **kwargs)
                return self.capture(key, tensors, args, kwargs)

    def key(self, args: Any, kwargs: Any, tensors: list[Tensor]) -> Any:
        """What must be equal for a call to be replayed; collects the tensors."""
        key = [_flatten(a, tensors) for a in args]
        if kwargs:
            key += [(k, _flatten(v, tensors)) for k, v in kwargs.items()]
        ids = [id(x._storage) for x in tensors]
        if len(set(ids)) < len(ids):
            key.append([ids.index(i) for i in ids].__repr__())
        return mode.grad, dt.get_default_dtype(), *key

    def capture(self, key: Any, tensors: list[Tensor], args: Any, kwargs: Any) -> Any:
        _flush(None)
        nodes = [(x._node, x._storage.node) for x in tensors]
        capture = mode.capture = Capture()
        try:
            result = self.fn(*args, **kwargs)
        except BaseException:
            if not capture.broken:
                capture.finish()
            raise
        finally:
            mode.capture = None
        if capture.broken:
            self.give_up(capture.broken)
            return result
        try:
            replay = _Replay(capture, tensors, nodes, result)
        except _BadIndexError:
            capture.undo()
            return self.fn(*args, **kwargs)
        except BaseException:
            capture.undo()
            raise
        self.keep(key, replay)
        return result

    def keep(self, key: Any, replay: _Replay) -> None:
        """Remember a capture, and forget the oldest ones."""
        some = self.replays.setdefault(key, [])
        self.replays.move_to_end(key)
        self.misses = 0 if any(r.hits for r in some) else self.misses + 1
        some.insert(0, replay)
        while sum(map(len, self.replays.values())) > MAX_CAPTURES:
            first = next(iter(self.replays))
            self.replays[first].pop()
            if not self.replays[first]:
                del self.replays[first]
        if self.misses > MAX_MISSES:
            self.replays.clear()
            self.give_up(
                f"of the last {MAX_MISSES} captures none could be replayed: its arguments that "
                "are no tensors, or what it reads from outside, change with every call"
            )

    def give_up(self, why: str) -> None:
        self.eager = why
        warnings.warn(f"pf.compile: {self!r} runs eagerly: {why}", RuntimeWarning, stacklevel=4)


def _flush(tensors: list[Tensor] | None) -> None:
    """Compute what is recorded on the GPUs, of the tensors or at all."""
    devices = Device._known.values() if tensors is None else {x.device for x in tensors}
    for d in list(devices):
        if d.type != "cpu" and "backend" in d.__dict__:
            d.backend.flush()


def compile(fn: Callable[..., Any] | None = None) -> Any:
    """`fn` captured at its first call and replayed at the next ones, which run no Python.

    It may be a whole training step, with backward() and optimizer.step(). Arguments may be tensors
    (in lists, tuples and dicts too): calls with other shapes, dtypes or devices, other Python
    arguments, or modules in another mode are captured apart. Tensors from outside keep being read
    and written; so are learning rates and other hyperparameters of optimizers. Where `fn` reads a
    value in the middle, it runs eagerly, and a RuntimeWarning names the line. Other effects of the
    Python code (a counter, a list that grows) happen at captures alone, and each `.grad` stays the
    same tensor from call to call.
    """
    return compile if fn is None else Compiled(fn)


@contextlib.contextmanager
def outside() -> Iterator[None]:
    """Within it nothing is captured: for state that is made once."""
    capture, mode.capture = mode.capture, None
    try:
        yield
        if capture is not None:
            _flush(None)
    finally:
        mode.capture = capture
