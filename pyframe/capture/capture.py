"""Capture: what is recorded while a function runs once with lazy ops."""

from __future__ import annotations

import contextlib
import sys
import traceback
import weakref
from collections.abc import Callable, Iterator
from operator import call
from typing import Any

import numpy as np

from pyframe.core import dispatch as _dispatch, dtypes as dt, grad_node as _grad_node, op as _op
from pyframe.core.devices import device as Device
from pyframe.core.dispatch import apply, run_lazy
from pyframe.core.modes import mode
from pyframe.core.node import Node, Storage, toposort
from pyframe.core.op import CONST, Op
from pyframe.core.packages import PLACES
from pyframe.core.sizes import DynamicShapeError, ShapeEnv, size_hint, size_hints
from pyframe.core.symbolic import SymbolicScalar, hint
from pyframe.ops.api import deferred
from pyframe.tensor import Tensor
from pyframe.tensor.view_chain import cut_array
from pyframe.watch import line_of


class Capture:
    """What a function did while it ran with its ops only recorded. Its methods are those of
    core.modes.Interceptor, which says when each is called."""

    replays = orders = True

    def __init__(self) -> None:
        self.pending: list[weakref.ref[Storage]] = []  # storages made or written to
        # those that were written to and held a value, with what they held; and those that did not
        self.written: dict[int, tuple[Storage, Node]] = {}
        self.versions: dict[int, int] = {}  # that those had
        self.follows = False  # whether a tensor from outside has another history now
        self.rewritten: dict[int, weakref.ref[Storage]] = {}
        self.handles: list[weakref.ref[Tensor]] = []  # that need their arrays again
        # from outside, as they were used
        self.tensors: dict[int, tuple[Tensor, Storage, bool | None]] = {}
        self.viewed: dict[int, Storage] = {}  # of views, whose memory may have no other handle
        self.constants: dict[int, Storage] = {}  # of tensors made from host data on the way
        self.grads: dict[int, tuple[Tensor, Tensor | None, bool]] = {}  # leaf, before, was read
        self.asked: list[tuple[Callable[[], Any], Any, str]] = []  # get, its answer, line
        self.go_on: Callable[[], None] = lambda: None  # called where it goes on eagerly
        self.numbers: dict[Any, Node] = {}  # their const nodes, by symbolic scalar, dtype, device
        # by storage: tensors made of arrays that are read anew (their nodes, and what gives the
        # array), and whether the array is to see what is written to the tensor
        self.reread: dict[int, tuple[Node, Callable[[], np.ndarray], bool]] = {}
        self.asked_offsets = False  # whether it was asked where in its memory a view begins
        self.born: set[int] = set()  # the ids of tensors that were made here
        self.checks: deferred.DeferredAsserts | None = None  # on the CPU
        self.checked: set[tuple[Any, ...]] = set()  # (node, …) of what was checked already
        # the last work of several processes on each device: all are done, in their order
        self.collectives: dict[Device, Node] = {}
        self.pinned: set[Node] = set()  # values that one Program computes and another one reads
        # arguments that are all of their memory, and the only ones of it: they are written over
        self.apart: set[Storage] = set()
        self.unseen: dict[Node, Storage] = {}  # of those that nobody else holds
        self.locks: list[Any] = []  # held until what the run has written is settled
        self.watching = contextlib.ExitStack()  # what the run is observed by
        self.broken = ""  # why it cannot be replayed
        self.sizes: ShapeEnv | None = None  # those that are symbols
        self.settled = False  # what it recorded has its value, or is undone
        self.first = _grad_node.next_seq()  # of the history that is made in here

    def __enter__(self) -> Capture:
        return self

    def __exit__(self, *exc: object) -> None:
        self.watching.close()
        while self.locks:
            self.locks.pop().release()

    # --- what the recording code tells

    def run(
        self, op: Op, inputs: tuple[Any, ...], attrs: tuple[Any, ...], nodes: tuple[Node, ...],
        shape: tuple[int, ...], dtype: dt.dtype, device: Device,
    ) -> Tensor:  # fmt: skip
        """Record the op. Plans on the CPU know only some dtypes: another one ends the capture, as
        does a meta tensor."""
        known = device.is_lazy or all(
            [dtype.cpu_compilable, *[n.dtype.cpu_compilable for n in nodes]]
        )
        if device.kind == "meta" or not known:
            if mode.capture is self:  # else an operand that was turned over has ended it
                what = f"of {dtype.name}" if not known else "on device 'meta'"
                self.graph_break(f"computes {op.name} {what}")
            for n in nodes:
                if n.op is CONST:  # the number itself, or a tensor that is just being made of it
                    n.data = _value(n)
            return apply(op, inputs, attrs)
        return run_lazy(op, inputs, attrs, nodes, shape, dtype, device)

    def write(self, x: Tensor, value: Tensor, temporary: bool, records: bool) -> None:
        """The storage has another node; the one before is kept, to go back to or to write over."""
        storage = x._storage
        if id(storage) not in self.written:
            ref = self.rewritten.get(id(storage))
            if storage.node.data is None:
                self.rewritten[id(storage)] = weakref.ref(storage)
            elif ref is None or ref() is not storage:
                self.written[id(storage)] = storage, storage.node
                self.versions[id(storage)] = storage.version
        owner = x if x._base is None else x._base
        if records and id(owner) not in self.born:
            self.follows = True
        x._change_node(value, temporary)

    def follow(self, call: Callable[..., Any], args: Any, kwargs: dict[str, Any], out: Any) -> None:
        """Nothing is to do: `out` has its history, as in eager code."""

    def on_alias_changed(self, x: Tensor) -> None:
        """Weakly, so that temporaries die. On a GPU it has no array, but maybe symbolic sizes."""
        if self.sizes is not None or not x.device.is_lazy:
            self.handles.append(weakref.ref(x))

    def due(self, storage: Storage) -> None:
        """Weakly: what nobody holds at the end is not computed."""
        self.pending.append(weakref.ref(storage))

    def placed(self) -> None:
        """Views that begin at another place take another capture."""
        self.asked_offsets = True

    def hold(self, lock: Any) -> None:
        """Keep other threads from state that this run writes to."""
        if lock not in self.locks:
            lock.acquire()
            self.locks.append(lock)

    def on_operand(self, x: Tensor) -> None:
        """`x`, which has its value, is an operand."""
        if x._view_chain:
            self.viewed[id(x._storage)] = x._storage
        made = x._view_chain or x._grad_fn is not None or id(x._storage) in self.constants
        if not made:
            self.tensors.setdefault(id(x), (x, x._storage, x._needs_grad))

    def made(self, x: Tensor) -> None:
        """`x` was made here, of data that does not come from a tensor."""
        self.constants[id(x._storage)] = x._storage

    def on_grad_access(self, leaf: Tensor, read: bool) -> None:
        """`leaf.grad` is about to be read or replaced."""
        if id(leaf) in self.grads:
            return
        try:
            self.grads[id(leaf)] = leaf, GRAD.__get__(leaf), read
        except AttributeError:  # it is just being made
            self.born.add(id(leaf))

    def accumulate(self, leaf: Tensor) -> None:
        """Adding reads `leaf.grad`."""
        self.on_grad_access(leaf, True)

    def watch(self, get: Callable[[], Any], value: Any = None) -> Any:
        """What `get()` gives, which is `value` if that is told; another one later means another
        capture."""
        value = get() if value is None else value
        self.asked.append((get, value, user_line()))
        return value

    def constant(self, number: SymbolicScalar, dtype: dt.dtype, device: Device) -> Node:
        """A symbolic scalar in the graph: a constant that each replay evaluates again."""
        node = self.numbers.get((id(number), dtype, device))
        if node is None:
            node = Node(CONST, (), (number,), (), dtype, device)
            self.numbers[id(number), dtype, device] = node
        return node

    def bind_host_array(self, x: Tensor, make: Callable[[], np.ndarray], shares: bool) -> None:
        """`x` was made here of what `make` gives, which each replay asks for again."""
        self.reread[id(x._storage)] = x._storage.node, make, shares

    def source(self, x: Tensor) -> Callable[[], np.ndarray] | None:
        """See `bind_host_array`; a view is not what was made."""
        found = None if x._view_chain else self.reread.get(id(x._storage))
        return None if found is None else found[1]

    def check(
        self, bad: Tensor, message: str, error: type[Exception], values: Tensor | None = None
    ) -> None:
        """Raised by the next read on a GPU, by the end of the run on the CPU."""
        if bad.device.is_lazy:
            deferred.on(bad.device).check(bad, message, error, values)
        else:
            deferred.of(self, bad.device).check(bad, message, error)

    def is_first(self, what: tuple[Any, ...]) -> bool:
        """A second check would find the same."""
        known = what in self.checked
        self.checked.add(what)
        return not known

    def read(self, x: Tensor, op: str = "") -> None:
        """The value of `x` is needed now, by an `op` of the host's if it says which."""
        if id(x._storage) in self.reread:
            self.graph_break("looks at the numbers of an array that changes")
        elif id(x._storage) in self.constants and id(x._storage) not in self.written:
            return
        else:
            by = f" for {op}, which has no kernel" if op else ""
            self.graph_break(f"reads the value of a tensor{by}")

    def on_host_random(self) -> None:
        """Random numbers are about to be drawn that a replay would not draw."""
        self.graph_break("draws random numbers on the host")

    def graph_break(self, why: str) -> None:
        """What was recorded runs now, and the rest of the function eagerly; a capture for many
        sizes ends instead, for one that is of these alone."""
        where = source_location()
        if self.sizes is not None:
            raise DynamicShapeError(f"{where} {why}")
        self.broken = f"{where} {why}"
        self.finish()
        self.go_on()

    def undo(self) -> None:
        """Let everything be as before the capture."""
        for storage, node in self.written.values():
            storage.node, storage.version = node, self.versions[id(storage)]
        for leaf, grad, _ in self.grads.values():
            GRAD.__set__(leaf, grad)
        refresh_tensors(self)
        self.settled = True

    @contextlib.contextmanager
    def recording(self) -> Iterator[None]:
        """Within it ops are recorded, for what is asked about the run when it is over."""
        mode.capture = self
        try:
            yield
        finally:
            mode.capture = None

    def finish(self) -> None:
        """Compute what was recorded, as if the ops had run one by one."""
        mode.capture = None
        run_eagerly(self)
        while self.locks:
            self.locks.pop().release()
        self.settled = True
        if self.checks is not None:
            self.checks.look(int(self.checks.flag._storage.node.data))

    def alive(self) -> list[Storage]:
        """The storages that something still holds and that have no value yet."""
        found = {id(s): s for s in map(call, self.pending) if s is not None}
        for i, s in found.items():
            before = self.written[i][1] if i in self.written else None
            if s.node is not before and s.node.data is not None:  # that is another's value
                self.copy(s)
        out = [s for s in found.values() if s.node.data is None]
        if self.collectives:  # other processes wait for those that nobody here looks at
            known = set(toposort([s.node for s in out]))
            left = [n for n in self.collectives.values() if n.data is None and n not in known]
            self.unseen = {n: self.unseen.get(n) or Storage(n) for n in left}
            out += self.unseen.values()
        nodes: set[int] = set()
        for s in out:  # each has memory of its own
            if id(s.node) in nodes:
                self.copy(s)
            nodes.add(id(s.node))
        return out

    def replaced(self) -> list[tuple[Storage, Node]]:
        """The storages from outside that were written to, and what they held before."""
        return [(s, n) for s, n in self.written.values() if id(s) not in self.constants]

    def copy(self, s: Storage) -> None:
        n = s.node
        s.node = Node(_op.REGISTRY["copy"], (n,), (), n.shape, n.dtype, n.device)
        self.pending.append(weakref.ref(s))


GRAD: Any = Tensor.__dict__["grad"]  # the slot


def _grad(x: Tensor) -> Tensor | None:
    if mode.capture is not None:
        mode.capture.on_grad_access(x, True)
    found: Tensor | None = GRAD.__get__(x)
    return found


def _set_grad(x: Tensor, grad: Tensor | None) -> None:
    if mode.capture is not None:
        mode.capture.on_grad_access(x, False)
    GRAD.__set__(x, grad)


@contextlib.contextmanager
def grads_seen() -> Iterator[None]:
    """Within it, whoever reads or sets a `.grad` tells the capture."""
    Tensor.grad = property(_grad, _set_grad)  # type: ignore[assignment]
    try:
        yield
    finally:
        Tensor.grad = GRAD


def user_line(error: BaseException | None = None) -> str:
    """The line of the user's code that runs now, or that an error comes from, as 'file.py:12'."""
    found = line_of(sys._getframe(1))
    for frame, line in traceback.walk_tb(None if error is None else error.__traceback__):
        here = line_of(frame)
        if here and here[0] == frame.f_code.co_filename:
            found = here[0], line
    return f"{found[0]}:{found[1]}" if found else "a line"


def source_location() -> str:
    """The user's line, or what a program tells that runs below it: the node of a graph."""
    frame = sys._getframe(1) if PLACES else None
    while frame is not None:
        if frame.f_code in PLACES:
            return str(PLACES[frame.f_code](frame))
        frame = frame.f_back
    return user_line()


def run_eagerly(capture: Capture) -> None:
    """Give every storage of a capture its value."""
    roots = capture.alive()
    if capture.sizes is not None:
        for n in toposort([s.node for s in roots]):
            n.shape, n.attrs = size_hints(n.shape), size_hints(n.attrs)
    for w in hosted([s.node for s in roots]):
        w.device.executor.flush([w.inputs[0]])
        w.data, w.inputs = host_result(w, w.inputs[0]), ()
    for d in {s.node.device for s in roots if s.node.device.kind != "cpu"}:
        d.executor.pending.extend(weakref.ref(s) for s in roots if s.node.device is d)
        d.executor.flush()
    nodes = [s.node for s in roots if s.node.device.kind == "cpu"]
    with np.errstate(all="ignore"):
        for n in toposort(nodes):
            if n.data is None:
                n.data = _value(n)
    for n in nodes:
        n.inputs = ()
    for storage, before in capture.written.values():
        if before.device.kind == "cpu" and before.data is not None:
            _put_back(storage, before, storage.node.data)
    refresh_tensors(capture)


def hosted(roots: list[Node]) -> list[Node]:
    """What the host is to compute for GPUs, in its order."""
    return [
        n for n in toposort(roots)
        if n.data is None and n.op is not None and n.op.runs_on_host and n.device.is_lazy
    ]  # fmt: skip


def host_result(n: Node, operand: Node) -> Any:
    """What a hosted op makes of the value of its first operand, in new memory of the device."""
    executor = n.device.executor
    x = _dispatch.tensor_from_node(
        Node(None, (), (), operand.shape, operand.dtype, operand.device, operand.data)
    )
    if n.op.runs_on_host(*n.attrs) and operand.data.nbytes > executor.piece:  # type: ignore[union-attr,misc]
        out = executor.alloc(operand.data.nbytes)
        for array, put in executor.pieces(x, out):
            put(n.op.numpy(array, None, *n.attrs))  # type: ignore[union-attr,misc]
        return out
    (array,) = executor.fetch([x])
    out = np.asarray(n.op.numpy(array, None, *n.attrs))  # type: ignore[union-attr,misc]
    return executor.upload(out.astype(n.dtype.numpy, copy=False).reshape(n.shape), n.dtype)


def _value(n: Node) -> Any:
    if n.op is CONST:
        return dt.rounded(size_hint(hint(n.attrs[0])), n.dtype)
    fn: Any = n.op.numpy  # type: ignore[union-attr]
    data = np.asarray(fn(*[i.data for i in n.inputs], *size_hints(n.attrs)))
    data = data if data.dtype == n.dtype.numpy else data.astype(n.dtype.numpy)
    return data if n.dtype.narrow is None else n.dtype.narrow(data)


def _put_back(storage: Storage, before: Node, data: np.ndarray) -> None:
    """On the CPU a tensor keeps its memory, which NumPy arrays and views may share."""
    if data is not before.data:
        np.copyto(before.data, data)
    if storage.node is not before:
        storage.node.data, storage.node.inputs = before.data, ()


def refresh_tensors(capture: Capture) -> None:
    """Let the tensors that a capture has touched show what their storages hold."""
    for ref in capture.handles:
        x = ref()
        if x is None:
            continue
        if x.device.is_lazy:
            x._view_version = -1  # a view is cut again when it is asked for
        elif x._storage.node.data is not None:
            node = x._storage.node
            if x._view_chain:
                data = cut_array(node.data, x._view_chain)
                node = Node(None, (), (), data.shape, node.dtype, node.device, data)
            x._node, x._view_version = node, x._storage.writes
