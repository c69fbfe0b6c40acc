"""pf.compile: a function's ops are recorded once, and what they became is replayed.

A capture records on the CPU too. What it reads from outside is found by storage: the tensors among
the arguments, and the function's state (parameters, moments, counters), which a replay updates
where it lies. Python itself does not run in a replay: what it read is guarded or fed, and what it
wrote outside is written again (see observe.py and guards.py).
"""

from __future__ import annotations

import copy
import functools
import gc
import itertools
import os
import sys
import warnings
import weakref
from collections import OrderedDict, deque
from collections.abc import Callable, Iterator, Sequence
from types import FunctionType
from typing import Any, NamedTuple

import numpy as np

from pyframe.core import dispatch as _dispatch, dtypes as dt, grad_node as _grad_node, op as _op
from pyframe.core.devices import cpu, device as Device, flush, get_default_device, gone
from pyframe.core.grad_node import GradNode, Port
from pyframe.core.locks import lock
from pyframe.core.modes import mode
from pyframe.core.node import Node, Storage, toposort
from pyframe.core.op import CONST
from pyframe.core.symbolic import SymbolicArray, SymbolicScalar, evaluate, hint, is_number
from pyframe.graph.program import Program
from pyframe.runtime.capture import Capture, grads_seen, renew, user_line
from pyframe.runtime.executable import DeviceExecutable, FixedError, HostExecutable
from pyframe.runtime.guards import MISSING, VAR, Guard, Place, attributes, is_plain, shown, slots_of
from pyframe.runtime.known import WRAPPERS
from pyframe.runtime.observe import Found, Observer, observed
from pyframe.tensor import Tensor

_CAPTURING = lock()
_alive: weakref.WeakSet[Compiled] = weakref.WeakSet()

_MISSED, _EAGERLY = object(), object()  # no replay fits a call, or none could

MAX_CAPTURES = 8  # of one function, kept for the next calls
MAX_SAME = 3  # of them in a row for a number that is another each time
MAX_UNREADY = 4  # of them in a row that no replay could follow
MAX_MISSES = 32  # captures in a row that were never replayed, before a function runs eagerly

# --- the arguments and results of a call


def _flatten(value: Any, tensors: list[Tensor], numbers: list[Any]) -> Any:
    """A hashable picture of `value`, with its tensors and its numbers collected in order.

    Raises TypeError for what could change without being noticed."""
    if isinstance(value, Tensor):
        tensors.append(value)
        n = value._node
        if not value._view_chain:
            return n.shape, n.dtype, n.device, value.requires_grad
        return n.shape, n.dtype, n.device, value.requires_grad, _layout(value)
    if type(value) in (int, float):
        numbers.append(value)
        return type(value)
    if isinstance(value, float):
        return type(value), value.hex()  # 0.0 and -0.0 are equal
    if value is None or isinstance(value, (int, str, bytes, dt.dtype, Device)):
        return type(value), value
    if isinstance(value, tuple):
        return type(value), *[_flatten(v, tensors, numbers) for v in value]
    if isinstance(value, (list, dict)):  # what is in them can't be fed: they may be written to
        inside: list[Any] = []
        parts = value.items() if isinstance(value, dict) else enumerate(value)
        picture = [(k, _flatten(v, tensors, inside)) for k, v in parts]
        return type(value), *picture, *[(type(n), _exact(n)) for n in inside]
    if isinstance(value, (set, np.ndarray, np.generic)):
        raise TypeError(f"an argument is a {type(value).__name__}; make it a tensor")
    return _Same(value)


def _layout(x: Tensor) -> Any:
    """How a view lies in memory, but for where it begins."""
    if x._node.data is not None and not x._node.device.always_lazy:
        return x._node.data.strides
    index_map = x._index_map()
    return index_map[-1].strides if _is_plain_view(index_map) else _place(x)


def _is_plain_view(index_map: Any) -> bool:
    return len(index_map) == 1 and index_map[0].mask is None


def _place(x: Tensor) -> Any:
    """Which part of its memory a view is."""
    return x._storage.node.shape, x._view_chain


def _apart(x: Tensor) -> bool:
    """Whether a view's elements are copied for a replay: on the CPU they are there."""
    return bool(x._view_chain) and x._node.device.always_lazy and _is_plain_view(x._index_map())


def _exact(number: Any) -> Any:
    """What is equal for the same number alone, as 0.0 and -0.0 are not."""
    return number.hex() if type(number) is float else number


class _Same:
    """Equal only for the same object, which it does not keep alive if it can do without."""

    __slots__ = ("hash", "ref")

    def __init__(self, value: Any) -> None:
        self.hash = id(value)
        try:
            self.ref: Any = weakref.ref(value)
        except TypeError:
            self.ref = lambda: value

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, _Same):
            return False
        mine = self.ref()
        return mine is not None and other.ref() is mine

    def __hash__(self) -> int:
        return self.hash


# --- a captured call


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
        self, capture: Capture, args: list[Tensor], nodes: list[tuple[Node, Node]], result: Any,
        observer: Observer, effects: list[tuple[Place, Any]],
    ) -> None:  # fmt: skip
        """`nodes`: of each argument before the call, its own and that of its storage. `effects`:
        what the call has put where outside."""
        owners = [x if x._base is None else x._base for x in args]  # whose history a write changes
        if any(x._grad_fn is not None and x._grad_fn.seq > capture.first for x in owners):
            raise _HistoryError("writes to an argument that requires grad, as no replay can")
        returned: list[Tensor] = []
        pictures = [_picture(v, observer, returned) for v in [result, *[v for _, v in effects]]]
        if any(id(x) in capture.born and x.grad is not None for x in returned):
            raise _HistoryError("returns or keeps a tensor that has a .grad, as no replay makes")
        odd = [type(x) for x in returned if id(x) in capture.born and type(x) is not Tensor]
        if odd:
            raise _HistoryError(f"returns or keeps a {odd[0].__name__} that it makes")
        history = _history(returned, capture.first)
        saved = [e[0] for n in history for e in n.saved or () if type(e) is tuple]
        fed = [x for x in saved if id(x._storage) in capture.fed]
        for x in [*returned, *fed]:  # what is made of host data is made again by each call
            if id(x._storage) in capture.constants and x._storage.node.data is not None:
                capture.copy(x._storage)
                capture.touched(x)
        roots = capture.alive()
        before = {id(leaf): (old, was_read) for leaf, old, was_read in capture.grads.values()}
        grads = [(x, x.grad) for i, (x, _, _) in capture.grads.items() if i not in capture.born]
        position = {id(x._storage): i for i, x in enumerate(args)}
        mine = {id(x) for x in args}
        # of an argument's memory the run makes handles too: only places tell of those outside
        others = [s for _, s, _ in capture.tensors.values() if id(s) not in position]
        others += [x._storage for x in observer.tensors.values()]
        # an argument that is also found outside is the same memory in each replay, or in none
        self.outside = {id(s) for s in others}
        self.shared = [id(x._storage) if id(x._storage) in self.outside else 0 for x in args]
        views = [x for x in args if x._view_chain]
        self.places = bool(views) and (
            capture.places or any(id(x._storage) in capture.written for x in views)
        )
        kept = {id(g._storage) for _, g in grads if g is not None}
        kept |= {id(s) for s, _ in capture.replaced()} - position.keys()
        fresh = {id(x._storage) for x in [*returned, *saved]} | position.keys()
        fresh &= {id(s) for s in roots} - kept
        self.parts: list[Any] = []
        self.made: list[Storage] = []
        if any(shares and i in capture.written for i, (_, _, shares) in capture.fed.items()):
            raise FixedError("an array that is written to: it needs")
        self._run_first(capture, roots, nodes, fresh)
        self.specs = [(s.node.shape, s.node.dtype, s.node.device) for s in self.made]
        # arguments that are written to: which of the results, and whose
        self.overwritten = [(k, position[id(s)]) for k, s in enumerate(self.made)
                            if id(s) in position]  # fmt: skip
        for k, i in self.overwritten:
            self.overwrite(self.made[k], nodes[i][1], self.made[k].node.data)
        self.written = [s for s, _ in capture.replaced() if id(s) not in position]
        known = {id(s) for s in self.written}
        for _, g in grads:  # made anew in the same memory, of which a view may know the old value
            if g is not None and g._view_chain and id(g._storage) not in known:
                self.written.append(g._storage)
        place = {id(s): k for k, s in enumerate(self.made)}

        number = {id(n): k for k, n in enumerate(history)}

        def source(x: Tensor) -> _Make:
            if id(x._storage) in position:
                return _given(x, args)
            k = place.get(id(x._storage))
            if k is None and id(x._storage) in capture.constants:
                return lambda call: x  # which is the same in each call
            if k is None:
                return _outer(x)
            return _made(k, x._view_chain, number.get(id(x._grad_fn), _freed(x._grad_fn)))

        self.result, *made = [p(source) for p in pictures]
        self.effects = [(p.let_go(), m) for (p, _), m in zip(effects, made, strict=True)]
        leads = {id(x._grad_fn or x): i for i, x in enumerate(args)}
        self.history = [_step(n, number, leads, source) for n in history]
        self.grads = [(weakref.ref(leaf), g) for leaf, g in grads if id(leaf) not in mine]
        self.arg_grads = [(i, g) for leaf, g in grads for i, x in enumerate(args) if x is leaf]
        self._rely(capture, observer, mine, before)
        self.kept = capture.constants
        self.fed = [
            (part, st, make)
            for part in self.parts
            for st in part.states
            for node, make, _ in capture.fed.values()
            if node is st.node
        ]
        self.apart = [
            i
            for i in {i for p in self.parts for _, i, whole, _ in p.arguments if not whole}
            if _apart(args[i])
        ]
        renew(capture)
        self.hits = 0
        self.locks = tuple(capture.locks)
        self.on_device = any(part.device.type != "cpu" for part in self.parts)

    def _rely(
        self, capture: Capture, observer: Observer, args: set[int],
        before: dict[int, tuple[Tensor | None, bool]],
    ) -> None:  # fmt: skip
        """Make the guard: what was read besides the tensors with the ids `args`."""
        tensors = [x for x, _, _ in capture.tensors.values() if id(x) not in args]
        dying = [weakref.ref(x) for x in tensors]  # some were only handles of the run
        leaves = [x for i, (x, _, _) in capture.grads.items() if i not in capture.born]
        inputs = {id(st.node) for part in self.parts for st in part.states}
        was = {id(s): n for s, n in capture.written.values()}
        capture.tensors.clear()
        capture.viewed.clear()
        capture.grads.clear()
        del tensors
        alive = [x for x in (r() for r in dying) if x is not None]
        self.guard = observer.guard(alive, args)
        for leaf in leaves:
            old, was_read = before[id(leaf)]
            if was_read:
                used = old is not None and not inputs.isdisjoint(
                    {id(was.get(id(old._storage), old._storage.node)), id(old._node)}
                )
                self.guard.watch_grad(leaf, old, used)
        self.guard.asked += capture.asked

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
        checks = capture.checks
        for s in roots:
            early = checks is not None and s is checks.flag._storage and _is_small(s.node)
            by_device.setdefault("checks" if early else s.node.device, []).append(s)
        self.checked = checks if any(checks and s is checks.flag._storage for s in roots) else None
        self.early = "checks" in by_device
        for _, some in sorted(by_device.items(), key=lambda item: item[0] != "checks"):
            kind = HostExecutable if some[0].node.device is cpu else DeviceExecutable
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
        if self.checked is None:
            return
        flag = self.checked.flag._storage.node.data
        if flag is not None and flag[()]:
            error, message = self.checked.errors[flag[()] - 1]
            flag[...] = 0
            raise _BadIndexError if self.early else error(message)

    def ready(self, args: list[Tensor]) -> bool:
        for x, shared in zip(args, self.shared, strict=True):
            s = id(x._storage)
            if shared != (s if s in self.outside else 0):
                self.guard.missed, self.guard.why = [], "it reads an argument from outside as well"
                return False
        return self.guard.holds() and all(part.ready() for part in self.parts)

    def __call__(self, args: list[Tensor]) -> Any:
        nodes = [(x._node, x._storage.node) for x in args]
        for i in self.apart:
            n, data = args[i]._node, args[i].device.executor.apart(args[i])
            nodes[i] = Node(None, (), (), n.shape, n.dtype, n.device, data), nodes[i][1]
        for part, st, make in self.fed:
            part.feed(st, make())
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
        call = _Call(args, [], [])
        for spec, d in zip(self.specs, data, strict=True):
            call.bases.append(_dispatch.new(Node(None, (), (), *spec, d)))
        for step in self.history:
            call.history.append(step(call))
        if self.effects:
            values = [make(call) for _, make in self.effects]
            for (place, _), value in zip(self.effects, values, strict=True):
                place.put(value)
        return self.result(call)


# --- making results anew


class _Call(NamedTuple):
    """What the results of one replay are made of."""

    args: list[Tensor]
    bases: list[Tensor]  # whose memory the replay has filled
    history: list[Any]


_Make = Callable[[_Call], Any]


def _given(x: Tensor, args: list[Tensor]) -> _Make:
    """A result that is an argument, or a view of one."""
    fit = [
        i for i, a in enumerate(args)
        if x is a
        or (a._storage is x._storage and x._view_chain[: len(a._view_chain)] == a._view_chain)
    ]  # fmt: skip
    if not fit:
        raise _HistoryError("returns or keeps a part of an argument's memory that is not its own")
    i = next((i for i in fit if x is args[i]), fit[0])
    if x is args[i]:
        return lambda call: call.args[i]
    steps, tracked = x._view_chain, x.requires_grad  # its gradients go to the argument

    def make(call: _Call) -> Tensor:
        a = call.args[i]
        return _cut(a if tracked else a._alias(), steps[len(a._view_chain) :])

    return make


def _outer(x: Tensor) -> _Make:
    """A tensor from outside; where it was a handle of the run alone, another one on its memory."""
    ref, memory, steps = weakref.ref(x), weakref.ref(x._storage), x._view_chain

    def make(call: _Call) -> Tensor | None:
        found, storage = ref(), memory()
        if found is None and storage is not None:
            found = _dispatch.new(storage.node)
            found._storage = storage
            return _cut(found, steps)
        return found

    return make


def _made(k: int, steps: Any, history: Any) -> _Make:
    """A result that the call makes, or a view of it."""
    if history is None:
        return lambda call: _cut(call.bases[k], steps)

    def make(call: _Call) -> Tensor:
        x = _cut(call.bases[k], steps)._alias()
        x._grad_fn = call.history[history] if type(history) is int else history
        return x

    return make


def _picture(value: Any, o: Observer, tensors: list[Tensor]) -> Callable[[Any], _Make]:
    """How each replay makes a result (or what it puts somewhere) anew, given where its tensors,
    which are collected, come from. _HistoryError if no replay can."""
    if isinstance(value, Tensor):
        tensors.append(value)
        return lambda source: source(value)
    if type(value) is SymbolicScalar:
        return lambda source: lambda call: evaluate(value)
    if o.is_outside(value) or o.is_constant(value):
        ref = o.reference(value)
        return lambda source: lambda call: ref()
    kind = type(value)
    if isinstance(value, (tuple, frozenset)) or kind in (list, set):
        some = [_picture(v, o, tensors) for v in value]
        fields = hasattr(value, "_fields")
        build: Any = (lambda parts: kind(*parts)) if fields else kind

        def sequence(source: Any) -> _Make:
            parts = [p(source) for p in some]
            return lambda call: build([m(call) for m in parts])

        return sequence
    if isinstance(value, (list, set, deque)):  # one with fields or options of its own
        inner = _picture(list(value), o, tensors)
        empty = copy.copy(value)
        empty.clear()

        def filled(source: Any) -> _Make:
            parts = inner(source)

            def make(call: _Call) -> Any:
                out: Any = copy.copy(empty)
                (out.update if isinstance(out, set) else out.extend)(parts(call))
                return out

            return make

        return filled
    slots = slots_of(value)
    own = value if isinstance(value, dict) else attributes(value)
    if isinstance(value, (FunctionType, Iterator, np.ndarray)) or not (slots or is_plain(value)):
        raise _HistoryError(f"returns or keeps a {kind.__name__}, which no replay makes anew")
    items = {k: _picture(v, o, tensors) for k, v in own.items()}
    held = {k: _picture(getattr(value, k), o, tensors) for k in slots}
    blank = copy.copy(value)
    space: Callable[[Any], Any] = (lambda x: x) if own is value else attributes
    space(blank).update(dict.fromkeys(items))
    for k in held:
        object.__setattr__(blank, k, None)

    def mapping(source: Any) -> _Make:
        parts = {k: p(source) for k, p in items.items()}
        others = {k: p(source) for k, p in held.items()}

        def make(call: _Call) -> Any:
            out = copy.copy(blank)
            space(out).update({k: m(call) for k, m in parts.items()})
            for k, m in others.items():
                object.__setattr__(out, k, m(call))
            return out

        return make

    return mapping


def _step(
    n: GradNode, number: dict[int, int], leads: dict[int, int], source: Callable[[Tensor], _Make]
) -> _Make:
    """A step of the backward pass of what a call returns, to be made again for each call."""
    op, specs, extra = n.op, n.specs, n.extra
    kind, attrs = type(n), getattr(n, "attrs", ())
    ctx = {} if kind is GradNode else vars(n)  # of a Function: what its forward has set

    def edge(e: Any) -> _Make:
        if id(e) in number:
            k = number[id(e)]
            return lambda call: call.history[k]
        if id(e) in leads:
            i = leads[id(e)]
            return lambda call: call.args[i]._grad_fn or call.args[i]
        if isinstance(e, Tensor):
            return weakly(e)
        e = _freed(e)
        return lambda call: e

    def weakly(leaf: Tensor) -> _Make:
        ref = weakref.ref(leaf)
        return lambda call: ref()

    def entry(e: Any) -> Any:
        return (source(e[0]), e[2:]) if type(e) is tuple else e

    if isinstance(n, Port):
        node, index = edge(n.edges[0]), n.index
        return lambda call: node(call).port(index)
    edges, saved = [edge(e) for e in n.edges], [entry(e) for e in n.saved or ()]

    def make(call: _Call) -> GradNode:
        out = kind.__new__(kind)
        out.seq, out.op, out.attrs, out.specs, out.extra = (
            _grad_node.next_seq(),
            op,
            attrs,
            specs,
            extra,
        )
        out.edges = [m(call) for m in edges]
        out.saved = []
        if ctx:
            vars(out).update(ctx, ports=[None] * len(ctx["results"]))
        for e in saved:
            if type(e) is tuple:
                x = e[0](call)
                out.saved.append((x, x._storage.version, *e[1]))
            else:
                out.saved.append(evaluate(e))
        return out

    return make


def _freed(n: Any) -> Any:
    """A step of the backward pass that was freed, without the leaves that it has led to."""
    if type(n) is not GradNode or n.saved is not None:
        return n
    out = GradNode.__new__(GradNode)
    out.seq, out.op, out.attrs, out.specs, out.extra = n.seq, n.op, n.attrs, n.specs, None
    out.edges, out.saved = [None] * len(n.edges), None
    return out


def _history(tensors: list[Tensor], first: int) -> list[GradNode]:
    """The steps of the backward pass made since step `first`, each after those it leads to."""
    found: dict[int, GradNode] = {}
    stack = [x.grad_fn for x in tensors]
    while stack:
        n = stack.pop()
        if n is None or n.seq <= first:
            continue
        if not n.replays or (n.extra is not None and n.extra.packed):
            raise _HistoryError(f"returns a result of {n.name()}, which no replay makes anew")
        if n.saved is not None and id(n) not in found:
            found[id(n)] = n
            stack.extend(e for e in n.edges if isinstance(e, GradNode))
    return sorted(found.values(), key=lambda n: n.seq)


def _cut(x: Tensor, steps: Any) -> Tensor:
    for op, attrs in steps:
        x = _dispatch.apply(op, (x,), attrs)
    return x


# --- the function that the user calls


class _Gone:
    """In the place of a replay something of which is gone for good; it tells what."""

    hits, parts, locks = 0, (), ()

    def __init__(self, guard: Guard) -> None:
        self.guard = guard

    def ready(self, args: list[Tensor]) -> bool:
        return self.guard.holds()


class Compiled:
    """A function whose calls are captured once and then replayed; see `compile`."""

    def __init__(self, fn: Callable[..., Any]) -> None:
        self.fn = fn
        self.replays: OrderedDict[Any, list[_Replay]] = OrderedDict()
        self.eager = ""  # why it always runs eagerly
        self.why = ""  # the latest capture was made
        self.captured = self.replayed = 0  # calls
        self.misses = 0
        self.changes: dict[Any, int] = {}  # of places and arguments: captures in a row for them
        self.unready = 0  # captures in a row that no replay could follow
        self.asks = ""  # where it asks for types
        self.lifted: list[Place] = []  # whose values each call is given, as if they were arguments
        self.rarely: dict[Any, bool] = {}  # whether they change less often than in every call
        self.unfit: set[Any] = set()  # places that were fed, and can't be
        self.fed: dict[Any, set[int]] = {}  # by the picture of the arguments: numbers likewise
        self.numbers: list[Any] = []  # among the arguments of the present call
        self.places = False  # whether it matters where in their memory its arguments lie
        self.on_device = False  # whether replays run on a GPU
        self.lock = lock()
        _alive.add(self)
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

    def explain(self) -> str:
        """Print and return what a replay relies on, why the latest capture was made, and what runs
        eagerly and why."""
        lines = [f"{self!r}: {self.captured} captures, {self.replayed} replays"]
        if self.eager:
            lines.append(f"runs eagerly: {self.eager}")
        if self.why:
            lines.append(f"latest capture: {self.why}")
        for place in self.lifted:
            lines.append(f"fed to each replay: {place}")
        for some in self.replays.values():
            for r in some:
                lines.append(f"a capture, replayed {r.hits} times, relies on")
                lines += [f"  {line}" for line in r.guard.lines()]
        text = "\n".join(lines)
        print(text)
        return text

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Replay the call, or capture it if it is the first of its kind."""
        if self.eager or mode.capture is not None:
            return self.fn(*args, **kwargs)
        # A replay on a GPU, and every capture, changes state that all threads share. That lock
        # comes first: what is captured may call a function that another thread replays.
        with _CAPTURING if self.on_device else self.lock, self.lock:
            out, _ = self.replay(args, kwargs)
        if out is _MISSED:
            with _CAPTURING, self.lock:
                out, some = self.replay(args, kwargs)
                if out is _MISSED:
                    out = self.capture_anew(some, args, kwargs)
        return self.fn(*args, **kwargs) if out is _EAGERLY else out

    def replay(self, args: Any, kwargs: Any) -> tuple[Any, Sequence[_Replay]]:
        """What a call gives, if there is a replay for it: else _MISSED, and the captures of its
        kind; _EAGERLY if the function is to run as it is."""
        tensors: list[Tensor] = []
        try:
            key, self.numbers = self.key(args, kwargs, tensors)
        except TypeError as e:
            self.give_up(f"{e}")
            return _EAGERLY, ()
        some = self.replays.get(key, ())
        if some:
            flush()
            for replay in tuple(some):
                for lock in replay.locks:
                    lock.acquire()
                try:
                    if replay.ready(tensors):
                        self.replayed += 1
                        return replay(tensors), ()
                except _BadIndexError:
                    return _EAGERLY, ()  # it says what is wrong, and where
                finally:
                    for lock in replay.locks:
                        lock.release()
        return _MISSED, some

    def capture_anew(self, some: Sequence[_Replay], args: Any, kwargs: Any) -> Any:
        """Capture a call that no replay fits."""
        tensors: list[Tensor] = []
        key, self.numbers = self.key(args, kwargs, tensors)
        if self.settle(key, some):
            key, self.numbers = self.key(args, kwargs, tensors := [])
        if self.eager:
            return _EAGERLY
        lent = [] if self.places else [x for x in tensors if _apart(x)]
        flush()
        nodes = [x._value() for x in lent]
        for x, node in zip(lent, nodes, strict=True):  # an operand, wherever it lies
            node.data = x.device.executor.apart(x)
        try:
            with Capture() as capture:
                try:
                    return self.capture(capture, key, tensors, args, kwargs)
                except BaseException:
                    if not capture.settled:  # an interrupt came when the function was over
                        capture.finish()
                    raise
        finally:
            for node in nodes:
                node.data = None

    def key(self, args: Any, kwargs: Any, tensors: list[Tensor]) -> tuple[Any, list[Any]]:
        """What must be equal for a call to be replayed, and the numbers among the arguments;
        collects the tensors."""
        numbers: list[Any] = []
        key = [_flatten(a, tensors, numbers) for a in args]
        if kwargs:
            key += [(k, _flatten(v, tensors, numbers)) for k, v in kwargs.items()]
        for place in tuple(self.lifted):
            value = place.get()
            if isinstance(value, Tensor):
                key.append(_flatten(value, tensors, []))
            elif type(value) is np.ndarray:
                key.append((np.ndarray, value.shape, value.dtype))
            elif is_number(value) or value is None or value is MISSING:
                key.append(type(value))
            else:  # it is of another kind now, and guarded as all else
                self.lifted.remove(place)
                self.unfit.add(place.id())
                self.replays.clear()
        if self.places:
            key += [_place(x) for x in tensors if x._view_chain]
        ids = [id(x._storage) for x in tensors]
        if len(set(ids)) < len(ids):
            key.append([ids.index(i) for i in ids].__repr__())
        casting = None if mode.autocast is None else mode.autocast.key
        modes = mode.grad, mode.inference, mode.training is None, casting
        picture = *modes, dt.get_default_dtype(), get_default_device(), Device.current, *key
        fed = self.fed.get(picture, ())
        return (picture, *[None if i in fed else _exact(v) for i, v in enumerate(numbers)]), numbers

    # --- why a call is captured again

    def settle(self, key: Any, some: Sequence[_Replay]) -> bool:
        """Before another capture: note what it is for, and decide what is fed from now on. Whether
        the key is another then."""
        if some:
            found, hits = some[0].guard.missed, some[0].hits
            self.why = some[0].guard.why or "its memory is used in another way"
        else:
            found, hits = self.other_numbers(key)
            self.why = found[0][0].name if found else "first call of its kind"
        if "guards" in os.environ.get("PYFRAME_DEBUG", "").split(","):
            print(f"pyframe: {self!r} is captured: {self.why}", file=sys.stderr)
        before, self.changes = self.changes, {}
        lifted = False
        missed = {m[0].id() if isinstance(m[0], Place) else m[0][:2]: m for m in found}
        for what, (place, old, new) in missed.items():
            times = before.get(what, 0) + 1
            fits = self.can_lift(place, old, new) and what not in self.unfit
            if times < MAX_SAME - 1 or not fits:
                often = not hits or (is_number(new) and what not in self.unfit)
                self.changes[what] = times if often else 0
                if self.changes[what] >= (MAX_SAME if is_number(new) else MAX_CAPTURES):
                    self.give_up(f"{self.why}: it is another in every call")
                    return False
            elif isinstance(place, Place):
                self.lift(place, bool(hits))
                lifted = True
            else:
                self.fed.setdefault(place.picture, set()).add(place.number)
                self.rarely[what] = bool(hits)
                lifted = True
        return lifted

    def can_lift(self, place: Any, old: Any, new: Any) -> bool:
        """Whether a value that changes can be given to each call."""
        if isinstance(place, _Argument):
            return not self.asks
        if place.how == VAR or place.key is None or not place.is_writable():
            return False
        if isinstance(new, Tensor):
            return old is None or isinstance(old, Tensor)
        if self.asks:  # no SymbolicScalar has the type of a number
            return False
        if type(new) is np.ndarray:
            return old is None or type(old) is np.ndarray
        return is_number(new) and type(old) is type(new)

    def lift(self, place: Place, rarely: bool = False) -> None:
        """From now on the value at a place, which may change rarely, is given to each call."""
        if all(place.id() != p.id() for p in self.lifted):
            self.lifted.append(place.let_go())
        self.rarely[place.id()] = rarely
        self.replays.clear()

    def other_numbers(self, key: Any) -> tuple[list[Any], int]:
        """The numbers among the arguments that are others than in the latest capture, and how often
        that was replayed."""
        last = next(reversed(self.replays), None)
        if last is None or last[0] != key[0] or len(last) != len(key):
            return [], 0
        differ = [i for i in range(1, len(key)) if key[i] != last[i]]
        places = [_Argument(key[0], i - 1, f"number {i} of the arguments is another")
                  for i in differ]  # fmt: skip
        return [(p, 0, 0) for p in places], sum(r.hits for r in self.replays[last])

    def capture(
        self, capture: Capture, key: Any, tensors: list[Tensor], args: Any, kwargs: Any
    ) -> Any:
        self.captured += 1
        flush()
        nodes = [(x._node, x._storage.node) for x in tensors]
        values = [(place, place.get()) for place in self.lifted]
        fed = {place.id(): (place, _stand_in(place, v), v) for place, v in values}
        observer = Observer(self.fn, fed)
        given = self.fed.get(key[0]) or any(g is not v for _, g, v in fed.values())

        alone = True

        def go_on() -> None:  # what is left of the function may wait for other threads
            nonlocal alone
            if not given:
                capture.watching.close()
                alone = False
                self.lock.release()
                _CAPTURING.release()

        mode.capture, capture.go_on = capture, go_on
        try:
            observer.discover_arguments(args, kwargs)
            used = self.with_numbers(key, args, kwargs)
            observer.numbered = key[0] in self.fed
            observer.give()
            with capture.watching:
                capture.watching.enter_context(observed(observer))
                capture.watching.enter_context(grads_seen())
                result = self.fn(*used[0], **used[1])
        except BaseException as e:
            if capture.broken or not given or not isinstance(e, Exception):
                if not capture.broken:
                    capture.finish()
                raise
            why = f"{user_line()} can't take a number that changes ({type(e).__name__}: {e})"
        else:
            self.asks = self.asks or observer.asks
            why = observer.asks if given and not capture.broken else ""
        finally:
            mode.capture = None
            if not alone:
                _CAPTURING.acquire()
                self.lock.acquire()
            observer.take_back()
        if why:  # all is as it was before the run; what is wrong may be the function's own
            capture.undo()
            observer.undo()
            observer.restore()
            result = self.fn(*args, **kwargs)
            self.broken(why, observer, key[0])
            return result
        return self.end(key, tensors, nodes, capture, observer, result, args, kwargs)

    def with_numbers(self, key: Any, args: Any, kwargs: Any) -> Any:
        """The arguments, with a symbolic scalar for each number that is fed."""
        fed = self.fed.get(key[0])
        if not fed:
            return args, kwargs
        number = itertools.count()

        def fill(value: Any) -> Any:
            if type(value) in (int, float):
                i = next(number)
                return SymbolicScalar(lambda: self.numbers[i]) if i in fed else value
            if isinstance(value, tuple):
                parts = map(fill, value)
                return type(value)(*parts) if hasattr(value, "_fields") else type(value)(parts)
            return value

        return tuple(map(fill, args)), {k: fill(v) for k, v in kwargs.items()}

    def end(
        self, key: Any, tensors: list[Tensor], nodes: Any, capture: Capture, observer: Observer,
        result: Any, args: Any, kwargs: Any,
    ) -> Any:  # fmt: skip
        """After a captured run: keep a replay of it if there can be one."""
        if capture.broken:
            self.broken(capture.broken, observer, key[0])
            return observer.without_numbers(result)
        gc.collect(1)  # what only a cycle of dead objects of the run holds would be computed
        found = observer.finish(result)
        if found.refused or found.changed:
            capture.finish()
            self.refused(found)
            observer.settle(found.effects)
            return observer.without_numbers(result)
        self.unready = 0
        observer.restore()
        try:
            replay = _Replay(capture, tensors, nodes, result, observer, found.effects)
        except _BadIndexError:
            capture.undo()
            observer.undo()
            found.effects.clear()
            return _EAGERLY
        except (_HistoryError, RecursionError) as e:
            capture.finish()
            own = isinstance(e, _HistoryError)
            what = str(e) if own else "returns or keeps an object that holds itself"
            self.give_up(f"{_defined(self.fn)} {what}")
            return observer.without_numbers(result)
        except FixedError as e:
            capture.finish()
            self.broken(f"{e} the value of a number that changes", observer, key[0])
            return observer.without_numbers(result)
        except BaseException as e:
            capture.undo()
            if isinstance(e, IndexError) and capture.checks is not None:  # see `_Replay.run`
                capture.checks.look(int(capture.checks.flag._storage.node.data))
            raise
        finally:
            observer.settle(found.effects)
        capture.settled = True
        if replay.places and not self.places:
            self.places = True
            key, _ = self.key(args, kwargs, [])
        self.keep(key, replay)
        return observer.without_numbers(result)

    def broken(self, why: str, observer: Observer, picture: Any) -> None:
        """A run went on eagerly from some line on."""
        fed = [(i, str(p)) for i, (p, given, value) in observer.fed.items() if given is not value]
        fed += [((picture, i), f"number {i + 1} of the arguments")
                for i in self.fed.get(picture, ())]  # fmt: skip
        if fed and all(self.rarely[i] for i, _ in fed):  # it is captured for each value then
            self.unfit.update(i for i, _ in fed)
            self.lifted = [p for p in self.lifted if p.id() not in self.unfit]
            self.fed.pop(picture, None)
        else:
            self.give_up(f"{why}: {' or '.join(name for _, name in fed)}" if fed else why)

    def refused(self, found: Found) -> None:
        """No replay can follow a run: feed what it changed, or run eagerly."""
        if found.refused:
            self.give_up(found.refused)
            return
        known = {p.id() for p in self.lifted}
        places = [p for p, old, new in found.changed if self.can_lift(p, old, new)
                  and p.id() not in known]  # fmt: skip
        for p in places:
            self.lift(p)
        self.unready += 1  # what is made once is there the second time
        rest = [c for c in found.changed if c[0] not in places]
        if self.unready > (1 if rest else MAX_UNREADY):
            place, old, new = (rest or found.changed)[0]
            self.give_up(
                f"it changes {place} from {shown(old)} to {shown(new)}, as no replay would"
            )

    def keep(self, key: Any, replay: _Replay) -> None:
        """Remember a capture, and forget the oldest ones."""
        self.on_device = self.on_device or replay.on_device
        some = self.replays.setdefault(key, [])
        self.replays.move_to_end(key)
        self.misses = 0 if any(r.hits for r in some) else self.misses + 1
        some[:] = [r for r in some if not isinstance(r, _Gone)]
        some.insert(0, replay)
        place = weakref.ref(replay)

        def died() -> None:
            r = place()
            if r is not None and r in some:
                some[some.index(r)] = _Gone(r.guard)  # type: ignore[call-overload]

        replay.guard.died = died
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
        self.replays.clear()
        level, frame = 2, sys._getframe(1)  # the line that calls the function
        while (
            frame.f_back is not None
            and frame.f_code.co_filename == Compiled.give_up.__code__.co_filename
        ):
            level, frame = level + 1, frame.f_back
        text = f"pf.compile: {self!r} runs eagerly: {why}"
        hint = "; to keep it fast, pass what changes as an argument or a tensor"
        warnings.warn(text + hint, RuntimeWarning, stacklevel=level)


WRAPPERS.append(Compiled)


def _forget(d: Device) -> None:
    """Drop the captures that run on a device whose memory is gone."""
    for compiled in list(_alive):
        for key, some in list(compiled.replays.items()):
            some[:] = [r for r in some if all(part.device is not d for part in r.parts)]
            if not some:
                compiled.replays.pop(key, None)


gone.append(_forget)


def _defined(fn: Any) -> str:
    """Where a function is defined."""
    code = getattr(getattr(fn, "__func__", fn), "__code__", None)
    return f"{code.co_filename}:{code.co_firstlineno}" if code else "it"


class _Argument(NamedTuple):
    """A number among the arguments."""

    picture: Any
    number: int
    name: str


def _in_place(x: Any) -> np.ndarray:
    """The array that lies at a place, also while another thing stands for it."""
    return x.array if type(x) is SymbolicArray else x


def _stand_in(place: Place, value: Any) -> Any:
    """What a capture finds in the place of a value that is fed."""
    if type(value) is np.ndarray:
        return SymbolicArray(lambda: _in_place(place.get()), value)
    return SymbolicScalar(lambda: hint(place.get())) if is_number(value) else value


def compile(
    fn: Callable[..., Any] | None = None, *, fullgraph: bool = False, dynamic: bool | None = None,
    backend: Any = None, mode: str | None = None, options: Any = None, disable: bool = False,
) -> Any:  # fmt: skip
    """`fn` captured at its first call and replayed at the next ones, which run no Python.

    It may be a whole training step, with backward() and optimizer.step(). Arguments may be tensors
    (in lists, tuples and dicts too): calls with other shapes, dtypes or devices, or other Python
    arguments are captured apart. What the Python code reads from outside (globals, attributes,
    containers, modules) is looked at before each replay: where it is another it is captured again,
    and a number or a tensor that keeps changing is fed to each replay. What it writes outside is
    written by each replay. Where that is impossible (a tensor's value is read in the middle, a list
    grows, random numbers are drawn on the host) it runs eagerly, and a RuntimeWarning names the
    line. `explain()` tells of all this. PyTorch's options are accepted; of them `disable` alone has
    an effect.
    """
    if fn is None:
        return functools.partial(compile, disable=disable)
    return fn if disable else Compiled(fn)
