"""pf.compile: a function's ops are recorded once, and what they became is replayed.

A capture records on the CPU too. What it reads from outside is found by storage: the tensors among
the arguments, and the function's state (parameters, moments, counters), which a replay updates
where it lies. Python itself does not run in a replay.
"""

from __future__ import annotations

import contextlib
import functools
import gc
import threading
import warnings
import weakref
from collections import OrderedDict
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from pyframe import dtypes as dt
from pyframe.devices import cpu, device as Device
from pyframe.graph.capture import Capture, flush, renew
from pyframe.graph.fuse import toposort
from pyframe.graph.node import Node, Storage
from pyframe.graph.parts import DevicePart, HostPart
from pyframe.graph.program import Program
from pyframe.ops import op as _op
from pyframe.ops.op import CONST, GradNode, mode
from pyframe.tensor import Tensor

_CAPTURING = threading.RLock()

MAX_CAPTURES = 8  # of one function, kept for the next calls
MAX_MISSES = 32  # captures in a row that were never replayed, before a function runs eagerly

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


def tree_map(value: Any, make: Callable[[Tensor], Any]) -> Any:
    """`value` with each of its tensors replaced by what `make` gives."""
    if isinstance(value, Tensor):
        return make(value)
    if isinstance(value, tuple) and hasattr(value, "_fields"):
        return type(value)(*[tree_map(v, make) for v in value])
    if isinstance(value, (list, tuple)):
        return type(value)(tree_map(v, make) for v in value)
    if isinstance(value, dict):
        return {k: tree_map(v, make) for k, v in value.items()}
    return value


# --- a captured call


class _Guard(NamedTuple):
    tensors: list[tuple[weakref.ref[Tensor], Storage, bool | None]]
    grads: list[tuple[weakref.ref[Tensor], Tensor | None]]
    modules: list[tuple[Any, bool]]
    others: list[tuple[Callable[[], Any], Any]]

    @classmethod
    def of(cls, capture: Capture, arguments: set[int]) -> _Guard:
        """What `capture` relied on, besides the tensors in `arguments`; it lets go of them all."""
        seen = [
            (weakref.ref(x), s, needs)
            for i, (x, s, needs) in capture.tensors.items()
            if i not in arguments
        ]
        read = [(weakref.ref(x), old) for x, old, was_read in capture.grads.values() if was_read]
        capture.tensors.clear()
        capture.grads.clear()
        alive = [x for x in seen if x[0]() is not None]
        return cls(alive, read, list(capture.modules.values()), capture.guards)

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


class _HistoryError(Exception):
    """No replay can make the history of what the function returns or writes to."""


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
        owners = [x if x._base is None else x._base for x in args]  # whose history a write changes
        if any(x._grad_fn is not None and x._grad_fn.seq > capture.first for x in owners):
            raise _HistoryError("writes to an argument that requires grad, as no replay can")
        gc.collect()  # what only a cycle of dead objects holds would be computed
        returned: list[Tensor] = []
        tree_map(result, returned.append)
        for x in returned:  # what is made of host data is made again by each call
            if id(x._storage) in capture.constants and x._storage.node.data is not None:
                capture.copy(x._storage)
                capture.touched.append(weakref.ref(x))
        roots = capture.alive()
        grads = [(leaf, leaf.grad) for leaf, _, _ in capture.grads.values()]
        position = {id(x._storage): i for i, x in enumerate(args)}
        kept = {id(g._storage) for _, g in grads if g is not None}
        kept |= {id(s) for s, _ in capture.replaced()} - position.keys()
        history = _history(returned, capture.first)
        saved = [e[0] for n in history for e in n.saved or () if type(e) is tuple]
        fresh = {id(x._storage) for x in [*returned, *saved]} | position.keys()
        fresh &= {id(s) for s in roots} - kept
        self.parts: list[Any] = []
        self.made: list[Storage] = []
        self._run_first(capture, roots, nodes, fresh)
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
                return _Given(i, x._steps, x is args[i], x.requires_grad)
            k = place.get(id(x._storage))
            return x if k is None else _Made(k, x._steps, number.get(id(x._grad_fn), x._grad_fn))

        number = {id(n): k for k, n in enumerate(history)}
        self.result = tree_map(result, source)
        leads = {id(x._grad_fn or x): i for i, x in enumerate(args)}
        self.history = [_Step.of(n, number, leads, source) for n in history]
        mine = {id(x) for x in args}
        self.grads = [(weakref.ref(leaf), g) for leaf, g in grads if id(leaf) not in mine]
        self.arg_grads = [(i, g) for leaf, g in grads for i, x in enumerate(args) if x is leaf]
        self.guard = _Guard.of(capture, mine)
        self.kept = [capture.kept, capture.constants]
        renew(capture)
        self.hits = 0
        self.on_device = any(part.device.type != "cpu" for part in self.parts)

    def _run_first(
        self, capture: Capture, roots: list[Storage], nodes: list[tuple[Node, Node]],
        fresh: set[int],
    ) -> None:  # fmt: skip
        """Make the Programs, one for each device, and run each of them once."""
        sources: dict[int, tuple[int, bool]] = {}
        for i, (own, whole) in enumerate(nodes):
            if own.data is not None:
                sources[id(own)] = i, False
            sources[id(whole)] = i, True
        by_device: dict[Any, list[Storage]] = {}
        guard = cpu.backend.guard
        for s in roots:
            early = guard is not None and s is guard.flag._storage and _is_small(s.node)
            by_device.setdefault("guard" if early else s.node.device, []).append(s)
        self.guarded = guard if any(guard and s is guard.flag._storage for s in roots) else None
        self.early = "guard" in by_device
        for _, some in sorted(by_device.items(), key=lambda item: item[0] != "guard"):
            kind = HostPart if some[0].node.device is cpu else DevicePart
            part = kind(capture, some, sources, fresh)
            part.settle(part.run(nodes))
            self.parts.append(part)
            if self.early:
                self.look()
            self.made += [s for s, _ in part.fresh]
        self.look()

    @staticmethod
    def overwrite(storage: Storage, old: Node, data: Any) -> None:
        """Let an argument's storage hold what was written to it."""
        if old.device.type == "cpu":
            np.copyto(old.data, data)
            data = old.data
        storage.node = Node(None, (), (), old.shape, old.dtype, old.device, data)

    def run(self, part: Any, nodes: list[tuple[Node, Node]]) -> Any:
        """What `part` computes, or the error that says what is wrong with an index."""
        try:
            return part.run(nodes)
        except IndexError:  # NumPy's own; ours tells more, and must not stay noted
            self.look()
            raise

    def look(self) -> None:
        """Raise what a check of values on the CPU found. One that takes little is made before all
        else (_BadIndexError: nothing is done yet), another one with the rest."""
        flag = self.guarded and self.guarded.flag._storage.node.data
        if flag is not None and flag[()]:
            error, message = self.guarded.errors[flag[()] - 1]  # type: ignore[union-attr]
            flag[...] = 0
            raise _BadIndexError if self.early else error(message)

    def ready(self) -> bool:
        return self.guard.holds() and all(part.ready() for part in self.parts)

    def __call__(self, args: list[Tensor]) -> Any:
        nodes = [(x._node, x._storage.node) for x in args]
        data = []
        for part in self.parts:
            data += self.run(part, nodes)
            if self.early and part is self.parts[0]:
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
        self.look()
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
    tracked: bool  # it needs gradients, which go to the argument


class _Made(NamedTuple):
    """A result that the call makes, or a view of it."""

    number: int
    steps: Any
    history: Any


def _results(value: Any, args: list[Tensor], bases: list[Tensor], history: list[Any]) -> Any:
    """The results of a call from the picture that its capture made of them."""
    if isinstance(value, _Given):
        x = args[value.number]
        if value.itself:
            return x
        return _cut(x if value.tracked else x._alias(), value.steps[len(x._steps) :])
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
            return _Given(leads[id(e)], (), True, True) if id(e) in leads else e

        def entry(e: Any) -> Any:
            return (source(e[0]),) if type(e) is tuple else e

        return cls(n, [edge(e) for e in n.edges], [entry(e) for e in n.saved or ()])

    def make(self, args: list[Tensor], bases: list[Tensor], made: list[Any]) -> GradNode:
        out = GradNode.__new__(GradNode)
        n = self.node
        out.seq, out.op, out.attrs, out.specs = _op.next_seq(), n.op, n.attrs, n.specs
        out.extra = n.extra
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
        if n is None or n.seq <= first:
            continue
        if type(n) is not GradNode or (n.extra is not None and n.extra.packed):
            raise _HistoryError(f"returns a result of {n.name()}, which no replay makes anew")
        if n.saved is not None and id(n) not in found:
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
                flush()
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
        flush()
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
        except _HistoryError as e:
            capture.finish()
            self.give_up(f"it {e}")
            return result
        except BaseException as e:
            capture.undo()
            if isinstance(e, IndexError) and cpu.backend.guard is not None:  # see `_Replay.run`
                cpu.backend.guard.look(int(cpu.backend.guard.flag._storage.node.data))
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
