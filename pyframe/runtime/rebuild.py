"""How each replay makes the results of a captured call anew: tensors with their history, and the
containers and objects that hold them.

A *template* is what is known of a result when the run is over; once it is known where its tensors
come from it becomes a *maker*, which each replay calls with what it has computed.
"""

from __future__ import annotations

import copy
import weakref
from collections import deque
from collections.abc import Callable, Iterator
from types import FunctionType
from typing import Any, NamedTuple

import numpy as np

from pyframe.core import dispatch as _dispatch, grad_node as _grad_node
from pyframe.core.grad_node import GradNode, Port
from pyframe.core.symbolic import SymbolicScalar, evaluate
from pyframe.runtime.observe import Observer
from pyframe.runtime.places import attributes, is_plain, slots_of
from pyframe.tensor import Tensor


class HistoryError(Exception):
    """No replay can make what the function returns, or writes to, or the history of it."""


class Call(NamedTuple):
    """One replay: what the makers make results of."""

    args: list[Tensor]
    computed: list[Tensor]  # each has memory that this replay has filled
    history: list[Any]  # the steps of the backward pass that are made already


Maker = Callable[[Call], Any]
Source = Callable[[Tensor], Maker]  # where replays take a tensor from
Template = Callable[[Source], Maker]

# --- where a tensor comes from


def from_argument(x: Tensor, args: list[Tensor]) -> Maker:
    """A result that is an argument, or a view of one."""
    fit = [
        i for i, a in enumerate(args)
        if x is a
        or (a._storage is x._storage and x._view_chain[: len(a._view_chain)] == a._view_chain)
    ]  # fmt: skip
    if not fit:
        raise HistoryError("returns or keeps a part of an argument's memory that is not its own")
    i = next((i for i in fit if x is args[i]), fit[0])
    if x is args[i]:
        return lambda call: call.args[i]
    chain, tracked = x._view_chain, x.requires_grad  # its gradients go to the argument

    def make(call: Call) -> Tensor:
        a = call.args[i]
        return _view(a if tracked else a._alias(), chain[len(a._view_chain) :])

    return make


def from_outside(x: Tensor) -> Maker:
    """A tensor that was there before the run. Where `x` was a handle that the run made of its
    memory, each replay makes another one."""
    ref, memory, chain = weakref.ref(x), weakref.ref(x._storage), x._view_chain

    def make(call: Call) -> Tensor | None:
        found, storage = ref(), memory()
        if found is None and storage is not None:
            found = _dispatch.new(storage.node)
            found._storage = storage
            return _view(found, chain)
        return found

    return make


def from_run(k: int, chain: Any, step: int | None, node: Any) -> Maker:
    """A view of the k-th value that the replay computes. Its history is a step that the replay has
    made, or `node`, which is the same in each call."""
    if step is None and node is None:
        return lambda call: _view(call.computed[k], chain)

    def make(call: Call) -> Tensor:
        x = _view(call.computed[k], chain)._alias()
        x._grad_fn = node if step is None else call.history[step]
        return x

    return make


def _view(x: Tensor, chain: Any) -> Tensor:
    for op, attrs in chain:
        x = _dispatch.apply(op, (x,), attrs)
    return x


# --- what holds the tensors


def template(value: Any, o: Observer, tensors: list[Tensor]) -> Template:
    """How replays make a result, or what the run has put somewhere, anew. Collects its tensors.
    HistoryError if no replay can make it."""
    if isinstance(value, Tensor):
        tensors.append(value)
        return lambda source: source(value)
    if type(value) is SymbolicScalar:
        return lambda source: lambda call: evaluate(value)
    if o.has(value) or o.is_constant(value):
        ref = o.reference(value)
        return lambda source: lambda call: ref()
    if isinstance(value, (tuple, frozenset)) or type(value) in (list, set):
        return _sequence(value, o, tensors)
    if isinstance(value, (list, set, deque)):  # one with fields or options of its own
        return _refilled(value, o, tensors)
    return _object(value, o, tensors)


def _sequence(value: Any, o: Observer, tensors: list[Tensor]) -> Template:
    kind = type(value)
    inner = [template(v, o, tensors) for v in value]
    build: Any = (lambda parts: kind(*parts)) if hasattr(value, "_fields") else kind

    def fill(source: Source) -> Maker:
        makers = [t(source) for t in inner]
        return lambda call: build([make(call) for make in makers])

    return fill


def _refilled(value: Any, o: Observer, tensors: list[Tensor]) -> Template:
    inner = template(list(value), o, tensors)
    empty = copy.copy(value)
    empty.clear()

    def fill(source: Source) -> Maker:
        items = inner(source)

        def make(call: Call) -> Any:
            out: Any = copy.copy(empty)
            (out.update if isinstance(out, set) else out.extend)(items(call))
            return out

        return make

    return fill


def _object(value: Any, o: Observer, tensors: list[Tensor]) -> Template:
    """A dict, or an object that is nothing but its attributes and slots."""
    slots = slots_of(value)
    own = value if isinstance(value, dict) else attributes(value)
    if isinstance(value, (FunctionType, Iterator, np.ndarray)) or not (slots or is_plain(value)):
        raise HistoryError(f"returns or keeps a {type(value).__name__}, which no replay makes anew")
    items = {k: template(v, o, tensors) for k, v in own.items()}
    held = {k: template(getattr(value, k), o, tensors) for k in slots}
    blank = copy.copy(value)
    space: Callable[[Any], Any] = (lambda x: x) if own is value else attributes
    space(blank).update(dict.fromkeys(items))
    for k in held:
        object.__setattr__(blank, k, None)

    def fill(source: Source) -> Maker:
        item_makers = {k: t(source) for k, t in items.items()}
        slot_makers = {k: t(source) for k, t in held.items()}

        def make(call: Call) -> Any:
            out = copy.copy(blank)
            space(out).update({k: m(call) for k, m in item_makers.items()})
            for k, m in slot_makers.items():
                object.__setattr__(out, k, m(call))
            return out

        return make

    return fill


# --- the history of the results


def history_of(tensors: list[Tensor], first: int) -> list[GradNode]:
    """The steps of the backward pass that were made since step `first`, each after those that it
    leads to. HistoryError where a replay can't make one."""
    found: dict[int, GradNode] = {}
    stack = [x.grad_fn for x in tensors]
    while stack:
        n = stack.pop()
        if n is None or n.seq <= first:
            continue
        if not n.replays or (n.extra is not None and n.extra.packed):
            raise HistoryError(f"returns a result of {n.name()}, which no replay makes anew")
        if n.saved is not None and id(n) not in found:
            found[id(n)] = n
            stack.extend(e for e in n.edges if isinstance(e, GradNode))
    return sorted(found.values(), key=lambda n: n.seq)


class History:
    """The steps that replays make, by number, and the arguments that they lead to."""

    def __init__(self, steps: list[GradNode], args: list[Tensor]) -> None:
        self.steps = steps
        # by id: a step may be an object of a user's class, with an equality of its own
        self._number = {id(n): k for k, n in enumerate(steps)}
        self._argument = {id(x._grad_fn or x): i for i, x in enumerate(args)}

    def number(self, n: Any) -> int | None:
        """Which step of a replay `n` is; None if it is not one that replays make."""
        return self._number.get(id(n))

    def makers(self, source: Source) -> list[Maker]:
        """What makes each step, where the tensors that it has saved come from `source`."""
        return [self._maker(n, source) for n in self.steps]

    def _edge(self, e: Any) -> Maker:
        """Where a step leads: to a step before it, to an argument or what that was computed by, to
        a leaf from outside, or to nothing."""
        k = self._number.get(id(e))
        if k is not None:
            return lambda call: call.history[k]
        i = self._argument.get(id(e))
        if i is not None:
            return lambda call: call.args[i]._grad_fn or call.args[i]
        if isinstance(e, Tensor):
            ref = weakref.ref(e)
            return lambda call: ref()
        e = cleared(e)
        return lambda call: e

    def _maker(self, n: GradNode, source: Source) -> Maker:
        if isinstance(n, Port):
            node, index = self._edge(n.edges[0]), n.index
            return lambda call: node(call).port(index)
        kind, op, specs, extra = type(n), n.op, n.specs, n.extra
        attrs = getattr(n, "attrs", ())
        context = {} if kind is GradNode else vars(n)  # of a Function: what its forward has set
        edges = [self._edge(e) for e in n.edges]
        saved = [(source(e[0]), e[2:]) if type(e) is tuple else e for e in n.saved or ()]

        def make(call: Call) -> GradNode:
            out = kind.__new__(kind)
            out.seq, out.op, out.attrs = _grad_node.next_seq(), op, attrs
            out.specs, out.extra = specs, extra
            out.edges, out.saved = [edge(call) for edge in edges], []
            if context:
                vars(out).update(context, ports=[None] * len(context["results"]))
            for e in saved:
                if type(e) is tuple:
                    x = e[0](call)
                    out.saved.append((x, x._storage.version, *e[1]))
                else:
                    out.saved.append(evaluate(e))
            return out

        return make


def cleared(n: Any) -> Any:
    """A step that the backward pass has freed, without the leaves that it has led to; any other
    one as it is."""
    if type(n) is not GradNode or n.saved is not None:
        return n
    out = GradNode.__new__(GradNode)
    out.seq, out.op, out.attrs, out.specs, out.extra = n.seq, n.op, n.attrs, n.specs, None
    out.edges, out.saved = [None] * len(n.edges), None
    return out
