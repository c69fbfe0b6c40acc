"""Subgraph: what library code records on the CPU, to be recorded again as one entry of a trace.

What depends on the kinds of values alone that it is given (a backward pass, an optimizer's update)
records the same ops each time. The first time they are noted, and the trace keeps one entry in
their place, a call, with the values that come in and those that go out; the next time that entry
is all that is made. The nodes in between exist only where a structure is computed that is not
compiled yet.
"""

from __future__ import annotations

import functools
import itertools
import math
import weakref
from collections.abc import Callable, Sequence
from typing import Any

from pyframe.core import dispatch as _dispatch, dtypes as dt
from pyframe.core.devices import cpu
from pyframe.core.lru import LruCache
from pyframe.core.modes import mode
from pyframe.core.node import (
    NO_VERSION,
    LazyNode,
    Node,
    is_aliased_outside,
    lazy_node,
    set_trace,
    trace_of,
)  # fmt: skip
from pyframe.core.op import CONST, const
from pyframe.core.symbolic import SymbolicScalar, evaluate, hint
from pyframe.core.trace import MAX_NODES, LazyTrace, flush_cpu, lazy_policy, trace
from pyframe.tensor.tensor import Tensor, new
from pyframe.tensor.writing import can_write_lazily

MAX_SUBGRAPHS = 128  # subgraphs of a kind
LARGEST = 1 << 16  # bytes of a value that a subgraph keeps


def can_cache_subgraph() -> bool:
    """Whether what this thread records now may become a subgraph."""
    return (
        mode.records and mode.subgraph_recorder is None and mode.capture is None
        and lazy_policy.least != math.inf and _dispatch.has_cpu_compiler()
    )  # fmt: skip


class SubgraphInputs:
    """The tensors that a subgraph is for, and what decides how ops on them are recorded."""

    __slots__ = ("exposed", "kinds", "number", "scalars", "tensors", "wide")

    def __init__(self, *what: Any) -> None:
        self.kinds: list[Any] = [dt.get_default_dtype(), *what]
        self.number: dict[int, int] = {}  # by id of their nodes
        self.tensors: list[Tensor] = []
        self.scalars: list[float] = []  # numbers that may be others each time
        self.exposed: list[int] = []  # those that are copied, as NumPy may write to them
        self.wide = False  # whether anything is recorded or large

    def add(self, x: Tensor) -> int | None:
        """Add an input and its part of the cache key. Its index; None if it can't be cached."""
        n, chain = x._node, x._view_chain
        at = self.number.get(id(n))
        if at is not None:
            if chain:
                self.kinds.append(chain)
            return at
        storage = x._storage
        if n.device is not cpu or storage.version == NO_VERSION:
            return None
        at = self.number[id(n)] = len(self.tensors)
        if type(n) is LazyNode:
            self.wide = True
        else:
            whole = storage.node if chain else n
            if type(whole) is Node and not whole.data.flags.c_contiguous:
                return None
            if n.data.size >= lazy_policy.least:
                self.wide = True
            if storage.aliased_outside and is_aliased_outside(storage):
                self.exposed.append(at)
                chain = ()
        self.tensors.append(x)
        self.kinds += (n.shape, n.dtype, type(n))
        if chain:
            self.kinds += (type(chain), chain)
        return at

    def own(self) -> list[Tensor]:
        """The tensors, copies of those that NumPy may write to."""
        for at in self.exposed:
            n = self.tensors[at]._node
            self.tensors[at] = new(Node(None, (), (), n.shape, n.dtype, cpu, n.data.copy()))
        self.exposed = []
        return self.tensors


class SubgraphCache:
    """Subgraphs by what they are of."""

    def __init__(self) -> None:
        # by hash, as a long key takes a while: (key, its subgraph or None), or () of what came once
        self._known = LruCache[int, tuple[Any, ...]](16 * MAX_SUBGRAPHS, MAX_SUBGRAPHS, bool)

    def get(self, given: SubgraphInputs) -> tuple[Subgraph | None, bool]:
        """The subgraph for what is given, or whether one is to be noted: of what comes for the
        second time. Numbers and lengths may be others each time."""
        key = tuple(given.kinds)
        try:
            number = hash(key)
        except TypeError:  # of an attribute that has none
            return None, False
        found = self._known.get(number)
        if found is None:
            self._known.put(number, ())
            return None, False
        if not found or found[0] != key:
            return None, True
        self._known.move_to_end(number)
        return found[1], False

    def put(self, given: SubgraphInputs, graph: Subgraph | None) -> None:
        """Keep what was noted."""
        key = tuple(given.kinds)
        self._known.put(hash(key), (key, graph))


class Subgraph:
    """Nodes as plain data: (op, attributes, shape, dtype, operands). An operand is a node that is
    always the same, or a number: of an input, a number that is asked for, or a node, in this
    order."""

    __slots__ = (
        "asks", "fixed", "guards", "inner", "nodes", "number", "outputs", "rest", "scalars",
        "writes",
    )  # fmt: skip

    def __init__(self) -> None:
        self.number = next(_count)
        self.nodes: list[tuple[Any, ...]] = []
        # Inputs behind views of the given tensors: (index of the tensor, depth of the view)
        self.inner: list[tuple[int, int]] = []
        self.fixed: list[Node] = []  # values that are always the same
        self.asks: list[tuple[Any, dt.dtype]] = []  # what gives the numbers
        self.guards: list[tuple[Callable[[], Any], Any]] = []  # calls, and their results
        self.outputs: list[int] = []  # the nodes that are results, then those that are written
        self.writes: list[tuple[int, int, int]] = []  # (which input, its writes, its versions)
        self.scalars: list[float] = []  # those that it is given
        self.rest: Any = None  # what the caller keeps with it

    def expand(self, values: list[Node], results: Sequence[Node]) -> list[Node]:
        """Its nodes, made of the inputs and numbers; `results` are among them. First come those
        that are always the same."""
        at = dict(zip(self.outputs, results, strict=True))
        first = len(values)
        same = [o for *_, operands in self.nodes for o in operands if type(o) is not int]
        for i, (op, attrs, shape, dtype, operands) in enumerate(self.nodes):
            inputs = tuple([values[o] if type(o) is int else o for o in operands])
            n = at.get(i)
            if n is None:
                n = lazy_node(op, inputs, attrs, shape, dtype, cpu)
            elif type(n) is LazyNode:
                n.inputs = inputs
            values.append(n)
        return same + values[first:]

    def holds(self) -> bool:
        """Whether the numbers that decided something still say the same."""
        return all(ask() == answer for ask, answer in self.guards)

    def call(self, given: SubgraphInputs) -> list[Tensor] | None:
        """Record it for what is given: its results. None where it can't be done."""
        tensors = given.own()
        nodes = [x._node for x in tensors]
        for which, depth in self.inner:
            n = _view_ancestor(tensors[which], depth)
            if n is None:
                return None
            nodes.append(n)
        for which, _, _ in self.writes:
            if not can_write_lazily(tensors[which]):
                return None
        with cpu.executor.lock:
            self.scalars[:] = given.scalars
            if not self.holds():
                return None
            here = trace()
            numbers = [const(evaluate(number), dtype, cpu) for number, dtype in self.asks]
            results = _entry(here, self, nodes, numbers, None)
            made = len(results) - len(self.writes)
            out = []
            for n in results[:made]:
                x = new(n)
                here.waiting.append(weakref.ref(x._storage))
                out.append(x)
            for n, (which, writes, versions) in zip(results[made:], self.writes, strict=True):
                x = tensors[which]
                storage, old = x._storage, x._node
                if type(old) is not LazyNode or trace_of(old) is not here:
                    here.writes(storage, old)
                here.waiting.append(weakref.ref(storage))
                x._node = storage.node = n
                storage.writes += writes
                storage.version += versions
            if len(here.nodes) + here.inside > MAX_NODES:
                flush_cpu()
        return out


def _entry(
    here: LazyTrace, graph: Subgraph, inputs: list[Node], numbers: list[Node],
    results: list[Node] | None,
) -> list[Node]:  # fmt: skip
    """Put a call into a trace: what it gives, new nodes if there are none yet."""
    index, nodes = here.index, here.nodes
    what = [graph.number]
    for n in (*inputs, *graph.fixed):
        at = index.get(id(n))
        what.append(here.operand(n) if at is None else at)
    here.note(tuple(what))
    for n in numbers:
        index[id(n)] = len(nodes)
        nodes.append(n)
    if results is None:
        results = []
        for i in graph.outputs:
            op, attrs, shape, dtype, _ = graph.nodes[i]
            n = lazy_node(op, (), attrs, shape, dtype, cpu)
            set_trace(n, here)
            results.append(n)
    first = len(nodes)
    for n in results:
        index[id(n)] = len(nodes)
        nodes.append(n)
    here.calls.append((first, graph, [*inputs, *numbers], results))
    here.inside += len(graph.nodes)
    return results


def _own_constant(n: Node) -> Node:
    """A node of the same number: that of others may be another number the next time."""
    return Node(CONST, (), n.attrs, n.shape, n.dtype, n.device, n.data)


def _view_ancestor(x: Tensor, depth: int) -> Node | None:
    """A node behind a view: what the storage holds (-1), or what it was cut from."""
    if depth < 0:
        return x._storage.node
    n = x._node
    for _ in range(depth):
        if not n.inputs:
            return None
        n = n.inputs[0]
    return n


class SubgraphRecorder:
    """While it is a thread's `mode.noting` everything is recorded, also what is small."""

    replays = True

    def __init__(self, given: SubgraphInputs) -> None:
        self.tensors = tensors = given.own()
        values = list(given.scalars)
        self.scalars = [
            SymbolicScalar(functools.partial(values.__getitem__, i)) for i in range(len(values))
        ]
        self._values = values
        self.failed = False  # something happened that can't be recorded again
        self.numbers: dict[int, tuple[Node, Any]] = {}  # nodes of numbers that are asked for
        self.guards: list[tuple[Callable[[], Any], Any]] = []
        self.before = [(x._node, x._storage.writes, x._storage.version) for x in tensors]
        with cpu.executor.lock:
            self.trace = here = trace()
            for n, _, _ in self.before:
                here.operand(n)
            self.start = len(here.nodes), len(here.key), len(here.waiting), len(here.calls)

    def __enter__(self) -> SubgraphRecorder:
        mode.subgraph_recorder = self
        lazy_policy.of_all(True)
        return self

    def __exit__(self, *exc: object) -> None:
        lazy_policy.of_all(False)
        mode.subgraph_recorder = None

    def constant(self, number: Any, dtype: dt.dtype) -> Node:
        """A number that is asked for again, as a node."""
        n = const(hint(number), dtype, cpu)
        self.numbers[id(n)] = n, number
        return n

    def watch(self, get: Callable[[], Any], answer: Any) -> Any:
        """What `get()` gives decides what is recorded."""
        self.guards.append((get, answer))
        return answer

    def apart(self, results: Sequence[Any]) -> list[Any]:
        """The results, copied where they are no new values with memory of their own."""
        taken = {id(n) for n, _, _ in self.before}
        out = []
        for x in results:
            if x is not None:
                n = x._node
                if x._view_chain or id(n) in taken or type(n) is not LazyNode:
                    x = _dispatch.copy_to_order(None, x)
                taken.add(id(x._node))
            out.append(x)
        return out

    def finish(self, results: Sequence[Tensor]) -> Subgraph | None:
        """What was recorded, in whose place there is a call now; None where that can't be."""
        with cpu.executor.lock:
            return self._finish(results)

    def _finish(self, results: Sequence[Tensor]) -> Subgraph | None:
        here = self.trace
        start, keys, waiting, calls = self.start
        if self.failed or here is not mode.trace or not here.open or len(here.calls) != calls:
            return None
        graph = Subgraph()
        graph.guards, graph.scalars = self.guards, self._values
        found = self._read(graph, here.nodes[start:])
        if found is None:
            return None
        values, numbers, inner = found
        first = len(values) - len(graph.nodes)
        at = {id(n): i - first for i, n in enumerate(values) if i >= first}
        ends = [x._node for x in results]
        storages = [x._storage for x in results]
        for which, (x, (n, writes, version)) in enumerate(
            zip(self.tensors, self.before, strict=True)
        ):
            storage = x._storage
            if x._node is not n:
                graph.writes.append((which, storage.writes - writes, storage.version - version))
                ends.append(x._node)
                storages.append(storage)
            elif storage.writes != writes:
                return None
        kept = {id(s) for s in storages}
        living = {id(s) for s in [ref() for ref in here.waiting[waiting:]] if s is not None}
        if len(kept) < len(ends) or not living <= kept:
            return None
        if any(id(x._storage) in here.written for x in results):  # over what is always the same
            return None
        for n in ends:
            if id(n) not in at or n.op.alias:  # type: ignore[union-attr]
                return None
            graph.outputs.append(at[id(n)])
        if len(set(graph.outputs)) < len(ends):
            return None
        before = here.nodes[start:], here.key[keys:], [m for m in here.moved if m >= start]
        try:
            for n in before[0]:
                here.index.pop(id(n), None)
            del here.nodes[start:], here.key[keys:], here.moved[len(here.moved) - len(before[2]) :]
            _entry(here, graph, [n for n, _, _ in self.before] + inner, numbers, ends)
        except BaseException:  # an interrupt
            here.nodes[start:], here.key[keys:] = before[0], before[1]
            here.moved = [m for m in here.moved if m < start] + before[2]
            here.index.update((id(n), start + i) for i, n in enumerate(before[0]))
            del here.calls[calls:]
            raise
        return graph

    def _read(
        self, graph: Subgraph, nodes: list[Node]
    ) -> tuple[list[Node], list[Node], list[Node]] | None:
        """Take down the nodes of the trace: all values, the numbers, the inputs behind others."""
        place: dict[int, Any] = {}
        for k, (n, _, _) in enumerate(self.before):
            place.setdefault(id(n), k)
        behind: dict[int, tuple[int, int, Node]] = {}
        for k, (n, _, _) in enumerate(self.before):
            whole = self.tensors[k]._storage.node
            if self.tensors[k]._view_chain and id(whole) not in place:
                behind.setdefault(id(whole), (k, -1, whole))
            depth = 0
            while n.inputs and (type(n) is not LazyNode or n.op.alias):  # type: ignore[union-attr]
                n, depth = n.inputs[0], depth + 1
                if id(n) not in place:
                    behind.setdefault(id(n), (k, depth, n))
        numbers = {key: n for key, (n, _) in self.numbers.items()}
        used = {id(i) for n in nodes for i in n.inputs}
        inner = [b for key, b in behind.items() if key in used]
        graph.inner = [(k, depth) for k, depth, _ in inner]
        values = [n for n, _, _ in self.before]
        for _, _, n in inner:
            place[id(n)] = len(values)
            values.append(n)
        fed: list[Node] = []
        known: dict[Any, int] = {}
        for key, n in numbers.items():
            if key not in used:
                continue
            number = self.numbers[key][1]
            asked = known.get((id(number), n.dtype))
            if asked is None:
                asked = known[id(number), n.dtype] = len(values)
                values.append(n)
                fed.append(n)
                graph.asks.append((number, n.dtype))
            place[key] = asked
        for n in nodes:
            if id(n) in place:
                continue
            op = n.op
            view = n.inputs and (type(n) is LazyNode or op.undo is not None)  # type: ignore[union-attr]
            if op is not CONST and (type(n) is LazyNode or view):
                operands = []
                for i in n.inputs:
                    p = place.get(id(i))
                    if p is None:
                        if i.op is not CONST:
                            return None
                        p = place[id(i)] = _own_constant(i)
                    operands.append(p)
                place[id(n)] = len(values)
                values.append(n)
                graph.nodes.append((op, n.attrs, n.shape, n.dtype, operands))
            elif op is CONST:
                place[id(n)] = _own_constant(n)
            elif not n.inputs and n.data.nbytes <= LARGEST:
                place[id(n)] = n
                graph.fixed.append(n)
            else:
                return None
        return values, fed, [n for _, _, n in inner]


def call_cached(what: tuple[Any, ...], fn: Callable[..., Any], *tensors: Any) -> tuple[Any, ...]:
    """fn(*tensors), of tensors and None, without their gradient. `what` and the kinds of these
    tensors decide what it records, and it gives no one's memory but its results'."""
    if not can_cache_subgraph():
        return fn(*tensors)
    given = SubgraphInputs(*what)
    at = [None if x is None else given.add(x) for x in tensors]
    unknown = any(i is None and x is not None for i, x in zip(at, tensors, strict=True))
    if unknown or not given.wide:
        return fn(*tensors)
    given.kinds += at
    graph, notes = _repeated.get(given)
    if graph is not None:
        results = graph.call(given)
        if results is not None:
            rest = iter(results)
            return tuple([next(rest) if there else None for there in graph.rest])
    if not notes:
        return fn(*tensors)
    own = given.own()
    noting = SubgraphRecorder(given)
    with noting:
        found = noting.apart(fn(*[None if i is None else own[i] for i in at]))
    graph = noting.finish([x for x in found if x is not None])
    if graph is not None:
        graph.rest = [x is not None for x in found]
    _repeated.put(given, graph)
    return tuple(found)


_repeated = SubgraphCache()
_count = itertools.count()
