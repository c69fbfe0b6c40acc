"""The lazy trace of a CPU thread: the ops that it has recorded and not computed yet."""

from __future__ import annotations

import itertools
import math
import os
import threading
import weakref
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from pyframe.core.devices import cpu
from pyframe.core.locks import lock
from pyframe.core.modes import mode
from pyframe.core.node import (
    LazyNode,
    Node,
    Storage,
    lazy_node,
    may_change,
    set_trace,
    trace_of,
)  # fmt: skip
from pyframe.core.op import CONST

if TYPE_CHECKING:
    from pyframe.core.devices import device as Device
    from pyframe.core.dtypes import dtype as DType
    from pyframe.core.op import Op

MAX_NODES = 5000  # nodes of a trace
MAX_STRIDE = 4  # elements; kernels read inputs of such inner strides in place, others are copied
MAX_INPUT_BYTES = 1 << 28  # bytes of computed inputs that a trace may keep alive


class LazyTrace:
    """The ops that a thread has recorded since it last computed some, in their order."""

    __slots__ = (
        "calls", "failed", "held", "index", "inside", "key", "moved", "nodes", "open", "waiting",
        "written",
    )  # fmt: skip

    def __init__(self) -> None:
        self.nodes: list[Node] = []  # operands first: results, and what was there already
        self.index: dict[int, int] = {}  # where each stands, by id
        self.key: list[int] = []  # what each is, as a number: together, what decides the Program
        self.moved: list[int] = []  # those that are views of others
        self.waiting: list[weakref.ref[Storage]] = []  # storages with recorded values
        # by id, storages that are written to and hold a value, with what they hold
        self.written: dict[int, tuple[weakref.ref[Storage], Node]] = {}
        # subgraphs that are recorded as one, see tensor/subgraph.py: where the results of each
        # stand, what it is, what comes in, the results
        self.calls: list[tuple[int, Any, list[Node], list[Node]]] = []
        self.inside = 0  # their nodes
        self.held = 0  # bytes of what was there already
        self.open = True
        self.failed = False

    def add(self, n: Node, what: tuple[Any, ...]) -> int:
        """Note a node, which is `what`; where it stands."""
        self.note(what)
        at = self.index[id(n)] = len(self.nodes)
        self.nodes.append(n)
        return at

    def note(self, what: tuple[Any, ...]) -> None:
        """Append the interned id of an entry to the trace's structure key."""
        number = _numbers.get(what)
        if number is None:
            if len(_numbers) >= 1 << 16:
                _numbers.clear()  # what they were is forgotten, no number comes again
            number = _numbers[what] = next(_count)
        self.key.append(number)

    def whole(self) -> list[Node]:
        """All nodes in their order, those within calls too."""
        order: list[Node] = []
        start = 0
        for at, graph, values, results in self.calls:
            order += self.nodes[start:at]
            order += graph.expand(list(values), results)
            start = at + len(results)
        return order + self.nodes[start:]

    def operand(self, n: Node) -> int:
        """Where an operand stands; of a view of all of a value, that is read where it lies."""
        at = self.index.get(id(n))
        if at is not None:
            return at
        if type(n) is LazyNode and trace_of(n) is not None:
            n.data  # noqa: B018  another thread's: it is computed
        op: Any = n.op
        if op is CONST:
            return self.add(n, (CONST, n.dtype))
        what: list[Any] = [n.shape, n.dtype]
        for x in n.inputs:  # a view has one; windows may have more elements than that
            if type(n) is LazyNode or op.undo or (op.view and n.shape.numel() >= x.shape.numel()):
                at = self.add(n, (op, n.attrs, *what, self.operand(x)))
                self.moved.append(at)
                return at
        held = self.held + n.data.nbytes
        what += map(self.operand, n.inputs)  # a view of what may be donated: the base adds no bytes
        self.held = held
        if has_readable_strides(n.data):
            what.append(n.data.strides)
        return self.add(n, tuple(what))

    def record(
        self, op: Op, inputs: Sequence[Any], nodes: tuple[Node, ...], attrs: tuple[Any, ...],
        shape: tuple[int, ...], dtype: DType, device: Device,
    ) -> Node:  # fmt: skip
        """Note the result of an op on `inputs` (tensors, or nodes of numbers), whose nodes these
        are: a new node. All that is recorded comes by here, and what others than tensors may write
        to meanwhile is copied."""
        known = self.index
        what: list[Any] = [op, attrs, shape, dtype]
        for k, i in enumerate(nodes):
            if type(i) is Node and may_change(inputs[k], i):
                i = Node(None, (), (), i.shape, i.dtype, i.device, i.data.copy())
                nodes = (*nodes[:k], i, *nodes[k + 1 :])
            at = known.get(id(i))
            what.append(self.operand(i) if at is None else at)
        n = lazy_node(op, nodes, attrs, shape, dtype, device)
        number = _numbers.get(tuple(what))  # `add` in line: this is called most
        if number is None:
            at = self.add(n, tuple(what))
        else:
            at = known[id(n)] = len(self.nodes)
            self.nodes.append(n)
            self.key.append(number)
        if op.alias:
            self.moved.append(at)
        else:
            set_trace(n, self)
        return n

    def compute(self, work: Callable[[], None]) -> None:
        """Have `work` compute the trace, which nothing is added to any more. Where an op fails,
        each value is computed by itself when it is asked for."""
        self.open = False
        lazy_policy.open.pop(id(self), None)
        records, mode.records, lazy_policy.owner = mode.records, False, threading.get_ident()
        try:
            work()
            if not self.failed:  # let go of all that it held
                self.nodes, self.index, self.waiting, self.written = [], {}, [], {}
                self.calls = []
        except Exception:
            self.failed = True
            raise
        except BaseException:  # an interrupt
            lazy_policy.open[id(self)] = self
            raise
        finally:
            mode.records, lazy_policy.owner = records, 0

    def roots(self, wanted: Node | None) -> tuple[dict[int, Node], dict[int, Node]]:
        """What tensors hold and what is asked for, by where it stands; and by id what of these is
        written over what."""
        roots: dict[int, Node] = {}
        homes: dict[int, Node] = {}
        if wanted is not None:
            roots[self.index[id(wanted)]] = wanted
        # after a failure nothing is written over that others may still need
        for ref in () if self.failed else self.waiting:
            storage = ref()
            n = None if storage is None else storage.node
            if type(n) is LazyNode and trace_of(n) is self:
                roots[self.index[id(n)]] = n
                known = self.written.get(id(storage))
                if known is not None and known[0]() is storage:
                    homes[id(n)] = known[1]
        return dict(sorted(roots.items())), homes  # whoever was first to wait for them

    def shown_in_part(self) -> set[int]:
        """The ids of values that were there already and of which others are parts."""
        moved = set(self.moved)
        found = set()
        for at, n in enumerate(self.nodes):
            if type(n) is Node and n.inputs and at not in moved:
                while n.inputs:
                    n = n.inputs[0]
                found.add(id(n))
        return found

    def writes(self, storage: Storage, old: Node) -> None:
        """Note that the memory of a storage will be written over, which `old` is: first other
        threads' traces compute what they read of it."""
        for other in list(lazy_policy.open.values()):
            if other is not self and id(old) in other.index:
                cpu.executor.flush_trace(other)
        known = self.written.get(id(storage))
        if known is None or known[0]() is not storage:
            self.written[id(storage)] = weakref.ref(storage), old


def has_readable_strides(a: np.ndarray) -> bool:
    """Whether an array is rows apart from each other, of which kernels read each element, or each
    few elements one, where they lie."""
    if a.flags.c_contiguous or not a.flags.aligned:
        return False
    size, steps = a.itemsize, a.strides
    return (
        0 < steps[-1] <= MAX_STRIDE * size and min(steps) >= 0 and not any(s % size for s in steps)
    )


_numbers: dict[tuple[Any, ...], int] = {}
_count = itertools.count()


_USUAL = math.inf if os.environ.get("PYFRAME_EAGER", "") == "1" else 1 << 14


class LazyPolicy:
    """When the CPU records, and who computes what it has recorded."""

    least: float = _USUAL
    """Elements of an operand from which an op is worth it."""

    deterministic = False  # see `use_deterministic_algorithms`
    owner = 0  # the thread that computes now
    open: dict[int, LazyTrace]

    def __init__(self) -> None:
        self.open = {}
        self._lock = lock()
        self._wanted = 0

    def of_all(self, on: bool) -> None:
        """Record also what is small, in any thread, until all who wanted it say `on` no more."""
        with self._lock:
            self._wanted += 1 if on else -1
            if on and self._wanted == 1:
                self._usual, self.least = self.least, 0
            elif not self._wanted:
                self.least = self._usual

    def usually(self, least: float) -> None:
        """Record what has so many elements."""
        with self._lock:
            self._usual = least
            if not self._wanted:
                self.least = least


lazy_policy = LazyPolicy()


def use_deterministic_algorithms(mode: bool, *, warn_only: bool = False) -> None:
    """Let the CPU compute each op when it is called, so that a loop that was killed and resumed has
    the same bits as one that was not.

    What a device computes of the same work is always the same. But with the extra `jit` the CPU
    records work outside `pf.compile` and compiles what comes again, and the last digits of a sum
    depend on how often its surroundings came before in this process. `pf.compile` and `Model.fit`
    are as fast as before.

    Args:
        mode: Whether it is so.
        warn_only: Accepted as PyTorch's, without effect: no op is without a deterministic form.

    >>> pf.use_deterministic_algorithms(True)
    >>> pf.are_deterministic_algorithms_enabled()
    True
    >>> pf.use_deterministic_algorithms(False)
    """
    lazy_policy.deterministic = bool(mode)
    lazy_policy.usually(math.inf if mode else _USUAL)
    flush_cpu()


def are_deterministic_algorithms_enabled() -> bool:
    """Whether `use_deterministic_algorithms` was asked for.

    >>> pf.are_deterministic_algorithms_enabled()
    False
    """
    return lazy_policy.deterministic


def trace() -> LazyTrace:
    """The trace of this thread, which holds the executor's lock."""
    found: LazyTrace | None = mode.trace
    if found is None or not found.open:
        found = mode.trace = LazyTrace()
        lazy_policy.open[id(found)] = found
    return found


def flush_cpu() -> None:
    """Compute what the CPU has recorded: its memory is about to be written to, or shown."""
    if lazy_policy.open or lazy_policy.owner:
        cpu.executor.flush()
