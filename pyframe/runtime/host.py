"""The executor of the CPU's lazy traces (`_try_record` of core/dispatch.py records them).

NumPy computes a new structure, op by op, as it computes eager ops. Once a structure has come
`COMPILE_AFTER` times, or if it is a lot of work, it becomes a compiled Program. A tensor keeps its
memory: the result of an in-place write is written there.
"""

from __future__ import annotations

import threading
import weakref
from collections import Counter
from collections.abc import Callable, Sequence
from types import SimpleNamespace
from typing import Any, NamedTuple

import numpy as np

from pyframe.backend.interpreter import COMPILED_LIMITS, HOST, HostBackend
from pyframe.codegen.numpy.memory import address
from pyframe.core import host_memory
from pyframe.core.dispatch import eval_numpy
from pyframe.core.limits import Limits
from pyframe.core.lru import LruCache
from pyframe.core.node import LazyNode, Node, set_trace, trace_of
from pyframe.core.op import CONST, REGISTRY
from pyframe.core.trace import LazyTrace, has_readable_strides, lazy_policy
from pyframe.graph.program import OUTPUT
from pyframe.graph.schedule import schedule
from pyframe.runtime import cpu, debug
from pyframe.runtime.executor import Executor

COMPILE_AFTER = 2  # times that NumPy computes a structure before it is worth compiling
# Elements of its results from which that takes NumPy longer than a compiler
COMPILE_MIN_ELEMENTS = 1 << 26
MAX_PROGRAMS = 32  # compiled Programs
MAX_TEMP_BYTES = 1 << 29  # bytes of their temporaries
MAX_COUNTED_STRUCTURES = 4096  # structures that are counted


class CpuBackend(HostBackend):
    """The CPU, whose compiler is looked for when something is planned: that takes a while."""

    def __init__(self) -> None:
        super().__init__()
        del self.limits, self.adapter

    def __getattr__(self, name: str) -> Any:
        if name == "limits":
            self.limits = COMPILED_LIMITS if cpu.compiler() else HOST
        elif name == "adapter":
            self.adapter = cpu.adapter()
        else:
            raise AttributeError(name)
        return getattr(self, name)


class CpuExecutor(Executor):
    """Runs what was recorded on the CPU."""

    def __init__(self, backend: Any) -> None:
        super().__init__(backend)
        self.pending = lazy_policy.open  # type: ignore[assignment]  # whether there is anything
        # how often a structure was seen
        self._counts: LruCache[Any, int] = LruCache(MAX_COUNTED_STRUCTURES)
        self._kept: LruCache[Any, _Compiled] = LruCache(
            MAX_PROGRAMS, MAX_TEMP_BYTES, lambda c: c.nbytes
        )

    def force(self, node: Node) -> None:
        """Give a recorded node its value; nothing for who is computing it."""
        if lazy_policy.owner == threading.get_ident():
            return
        with self.lock:
            if type(node) is not LazyNode:  # another thread has computed it
                return
            trace = trace_of(node)
            if type(trace) is _Failed:
                if trace.before is not None:  # a write did not happen, which is told once
                    _materialize_node(node, trace.before)
                raise RuntimeError(trace.text)
            if trace is not None:
                self.flush_trace(trace, node)
                return
            (base,) = node.inputs
            _materialize_node(node, node.op.numpy(base.data, *node.attrs), node.inputs)  # type: ignore[union-attr, misc]

    def flush(self, extra: Sequence[Node] = ()) -> None:
        """Compute all that is recorded and still needed."""
        if lazy_policy.owner == threading.get_ident():
            return
        with self.lock:
            for trace in list(lazy_policy.open.values()):
                self.flush_trace(trace)

    def forget_programs(self) -> None:
        """Keep none; what is recorded again is compiled again."""
        with self.lock:
            self._kept.clear()
            self._counts.clear()

    def flush_trace(self, trace: LazyTrace, wanted: Node | None = None) -> None:
        """Compute what tensors hold of a trace, and the node that is asked for."""

        def work() -> None:
            roots, homes = trace.roots(wanted)
            if not roots:
                return
            graph = _Graph(trace, list(roots.values()), homes)
            try:
                self._execute_trace(graph, tuple(roots))
            except MemoryError:
                if any(type(n) is not LazyNode for n in graph.roots):  # some was written over
                    raise
                self._execute_apart(graph, tuple(roots))

        trace.compute(work)

    def _execute_trace(self, graph: _Graph, roots: tuple[int, ...]) -> None:
        index = graph.trace.index
        over = tuple(sorted([(index[i], index.get(id(old))) for i, old in graph.homes.items()]))
        key = tuple(graph.trace.key), roots, over
        found = self._kept.get(key)
        if found is None:
            seen = self._counts.get(key, 0) + 1
            self._counts.put(key, seen)
            order = _needed(graph)
            if (
                seen <= COMPILE_AFTER
                and sum([n.shape.numel() for n in order]) < COMPILE_MIN_ELEMENTS
            ):
                _compute(graph, order)
                return
            found = _Compiled(graph, self.backend.limits)
            self._kept.put(key, found)
        else:
            self._kept.move_to_end(key)
        found.run(graph)

    def _execute_apart(self, graph: _Graph, roots: tuple[int, ...]) -> None:
        """Compute all but that for which there is no memory; who reads that is told."""
        values = _values(graph, _needed(graph), MemoryError)
        found = zip(graph.roots, values, strict=True)
        done = [(n, x) for n, x in found if type(x) is not _Failed]
        failed: dict[Node, _Failed] = {}
        for n, at, x in zip(graph.roots, roots, values, strict=True):
            if type(x) is not _Failed:
                continue
            try:  # a kernel of all that one needs may take less memory
                self._execute_trace(graph._replace(roots=[n], homes={}), (at,))
            except MemoryError:
                old = graph.homes.get(id(n))
                failed[n] = x._replace(before=None if old is None else old.data)
        for n, x in failed.items():
            n.inputs = ()
            set_trace(n, x)
        _settled(graph._replace(roots=[n for n, _ in done]), [x for _, x in done])


class _Failed(NamedTuple):
    """In the place of the LazyTrace of a node for which there was no memory: what whoever asks for
    it is told, and what was in the memory that it was to be written to."""

    text: str
    before: Any = None


class _Graph(NamedTuple):
    """What is to be computed of a trace."""

    trace: LazyTrace
    roots: list[Node]
    homes: dict[int, Node]  # by id of a root: the value that it is written over


def _settled(graph: _Graph, values: Sequence[Any]) -> None:
    """Give the roots their values; what is written to a memory stays there."""
    for n, data in zip(graph.roots, values, strict=True):
        old = graph.homes.get(id(n))
        if old is not None:
            home = old.data
            if home is not data:
                np.copyto(home, data)
            data = home
        _materialize_node(n, data)


def _materialize_node(n: Node, data: Any, inputs: tuple[Node, ...] = ()) -> None:
    n.__class__ = Node
    n.data, n.inputs = data, inputs


def _memory(a: np.ndarray) -> np.ndarray:
    """All memory from the first element of an array in rows to its last."""
    steps = zip(a.shape, a.strides, strict=True)
    size = 1 + sum([(n - 1) * step for n, step in steps]) // a.itemsize
    there = {"shape": (size,), "typestr": a.dtype.str, "data": (address(a), False), "version": 3}
    return np.asarray(SimpleNamespace(__array_interface__=there, of=a))


def _see_in_memory(n: Node) -> Node:
    """Let a value in rows be a view of all their memory, which it gives."""
    data = _memory(n.data)
    memory = Node(None, (), (), data.shape, n.dtype, n.device, data)
    strides = tuple([s // data.itemsize for s in n.data.strides])
    n.op, n.inputs, n.attrs = REGISTRY["as_strided"], (memory,), (n.shape, strides, 0, ())
    n.__class__, n.data = LazyNode, None
    return memory


def _needed(graph: _Graph) -> list[Node]:
    """The nodes that the roots need, in their order."""
    index, nodes = graph.trace.index, graph.trace.nodes
    if graph.trace.calls:
        nodes = graph.trace.whole()
        index = {}
        for at, n in enumerate(nodes):
            index.setdefault(id(n), at)
    wanted = bytearray(len(nodes))
    for n in graph.roots:
        wanted[index[id(n)]] = 1
    for at in range(len(nodes) - 1, -1, -1):
        if wanted[at] and type(nodes[at]) is LazyNode:
            for i in nodes[at].inputs:
                wanted[index[id(i)]] = 1
    return [n for at, n in enumerate(nodes) if wanted[at]]


def _compute(graph: _Graph, order: list[Node]) -> None:
    """Have NumPy compute it op by op."""
    _settled(graph, _values(graph, order))


def _values(graph: _Graph, order: list[Node], passes: Any = ()) -> list[Any]:
    """The values of the roots, which NumPy computes op by op; what is not needed any more is let
    go. An error of the kinds in `passes` is the value of its node, and of what needs that."""
    uses = Counter([id(i) for n in order if type(n) is LazyNode for i in n.inputs])
    uses.update(map(id, graph.roots))
    values: dict[int, Any] = {}
    for n in order:
        if type(n) is not LazyNode:
            values[id(n)] = n.data
            continue
        op: Any = n.op
        given = [values[id(i)] for i in n.inputs]
        found = next((x for x in given if type(x) is _Failed), None) if passes else None
        try:
            values[id(n)] = found or eval_numpy(op, given, n.attrs, n.shape, n.dtype)
        except passes as error:
            what = f"{op.name}: can't allocate memory for a result of shape {list(n.shape)}"
            values[id(n)] = _Failed(f"{what}: {error}".rstrip(": "))
        for i in n.inputs:
            uses[id(i)] -= 1
            if not uses[id(i)]:
                del values[id(i)]
    return [values[id(n)] for n in graph.roots]


class _Compiled:
    """A Program for graphs of one structure, and the memory that it is bound to."""

    def __init__(self, graph: _Graph, limits: Limits) -> None:
        from pyframe.codegen.numpy.plan import CpuPlan  # which takes a while to import

        number, roots = graph.trace.index, {id(n): n for n in graph.roots}
        read = graph.trace.shown_in_part()  # the scheduler does not see that these are its memory
        in_place = {
            id(old): roots[i]
            for i, old in graph.homes.items()
            if id(old) in number and id(old) not in read
        }
        moved = map(graph.trace.nodes.__getitem__, graph.trace.moved)
        # kernels read these where they lie
        shown = [(n, n.data, n.op, n.inputs, n.attrs) for n in moved if type(n) is Node]
        order, rows = list[Node](), dict[int, Node]()
        try:
            for n, *_ in shown:
                n.__class__, n.data = LazyNode, None
            for n in _needed(graph):
                if type(n) is Node and n.op is not CONST and has_readable_strides(n.data):
                    shown.append((n, n.data, n.op, n.inputs, n.attrs))
                    order.append(_see_in_memory(n))
                    rows[id(order[-1])] = n
                order.append(n)
            program, inputs, constants = schedule(order, graph.roots, limits, in_place)
            debug.graph(graph.roots, limits)
        finally:
            for n, data, n.op, inputs_, n.attrs in shown:
                _materialize_node(n, data, inputs_)
        debug.kernels(program)
        self.rows = {slot for slot, n in enumerate(inputs) if id(n) in rows}
        self.inputs = [number[id(rows.get(id(n), n))] for n in inputs]
        self.constants = [number.get(id(n), n) for n in constants]
        self.values: list[Any] = []
        self.outputs = program.outputs
        self.plan = CpuPlan(program, compiler=cpu.compiler())
        self.arrays: list[Any] = [None] * len(program.slots)  # that the plan is bound to
        self.fixed: set[int] = set()  # slots that are copied to and from these
        self.moving: set[int] = set()  # slots that lie elsewhere in each run
        # the arrays of the last run
        self.last: list[Callable[[], Any]] = [lambda: None] * len(program.slots)
        self.bound = False

    @property
    def nbytes(self) -> int:
        """Bytes of its own memory."""
        plan = self.plan
        return sum([a.nbytes for a in plan.own if a is not None]) + plan.memory.nbytes

    def run(self, graph: _Graph) -> None:
        """Compute the roots of a graph."""
        order, slots, plan = graph.trace.nodes, self.plan.program.slots, self.plan
        arrays: list[Any] = [None] * len(slots)
        for slot, i in enumerate(self.inputs):
            data = order[i].data
            if slot in self.rows:
                data = _memory(data)
            flags = data.flags
            whole = flags.c_contiguous and flags.aligned
            arrays[slot] = data if whole else host_memory.copy(data)
        for n, slot in zip(graph.roots, self.outputs, strict=True):
            if slots[slot].kind == OUTPUT:
                arrays[slot] = host_memory.empty(n.shape, n.dtype.numpy)
        if not self.bound or not self._move(arrays):
            self._bind(arrays)
        values = [(order[c] if isinstance(c, int) else c).attrs[0] for c in self.constants]
        if values != self.values or 0.0 in values:
            plan.values = None  # it takes 0.0 and -0.0 for the same
            self.values = values
        try:
            plan.run(values)
        except BaseException:  # what was there is gone, so that it can't be computed again
            for n, slot in zip(graph.roots, self.outputs, strict=True):
                if slots[slot].kind != OUTPUT:
                    _materialize_node(n, arrays[slot])
            raise
        for slot in self.fixed.intersection(self.outputs):
            np.copyto(arrays[slot], self.arrays[slot])
        _settled(graph, [arrays[slot] for slot in self.outputs])
        for slot in self.moving:  # hold nothing that only this run had
            a = arrays[slot]
            if a is not None and self.last[slot]() is not a:
                self.arrays[slot], self.last[slot] = None, weakref.ref(a)

    def _bind(self, arrays: list[Any]) -> None:
        """Bind the plan to these arrays, but for slots that can't lie elsewhere in another run and
        will."""
        plan = self.plan
        if self.bound:
            moved = [s for s, a in enumerate(arrays) if a is not None and a is not self.arrays[s]]
            self.fixed |= {s for s in moved if not plan.moves(s)}
        own = [a if s not in self.fixed else np.empty_like(a) for s, a in enumerate(arrays)]
        plan.bind(own)
        debug.uncompiled(plan.unsupported.values())
        if not self.bound:  # a result has new memory each time
            self.bound = True
            self.fixed = {
                s
                for s in self.outputs
                if plan.program.slots[s].kind == OUTPUT and not plan.moves(s)
            }
            own = [np.empty_like(a) if s in self.fixed else a for s, a in enumerate(arrays)]
            if self.fixed:
                plan.bind(own)
        self.arrays = own
        self.moving = {s for s in range(len(own)) if plan.moves(s)}
        self._move(arrays)
        plan.arrays = [None if s in self.moving else a for s, a in enumerate(plan.arrays)]

    def _move(self, arrays: list[Any]) -> bool:
        """Let the plan work on these arrays; False where it must be bound anew."""
        plan, bound, moving = self.plan, self.arrays, self.moving
        for s, a in enumerate(arrays):
            if a is None or a is bound[s]:
                continue
            if s in moving:
                plan.move(s, a)
                bound[s] = a
            elif s not in self.fixed:
                return False
            elif plan.program.slots[s].kind != OUTPUT:
                np.copyto(bound[s], a)
        return True
