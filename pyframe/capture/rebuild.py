"""How each replay makes the results of a captured call anew: tensors with their history, and the
containers and objects that hold them.

A *template* is what is known of a result when the run is over; once it is known where its tensors
come from it becomes a *maker*, which each replay calls with what it has computed.
"""

from __future__ import annotations

import copy
import itertools
import weakref
from collections import deque
from collections.abc import Callable, Collection, Iterator
from types import FunctionType
from typing import Any

import numpy as np

from pyframe.core import dispatch as _dispatch, grad_node as _grad_node
from pyframe.core.grad_node import GradNode, NodeHooks, OutputEdge, ReleasedGradNode, is_freed
from pyframe.core.modes import no_grad
from pyframe.core.node import Storage
from pyframe.core.objects import attributes, is_plain, reference, slots_of
from pyframe.core.sizes import DynamicShapeError, SymbolicSize, is_symbolic, size_hint, size_hints
from pyframe.core.symbolic import SymbolicScalar, evaluate
from pyframe.tensor import Tensor
from pyframe.tensor.view_chain import ViewChain, apply_view_chain
from pyframe.watch import Observer


class HistoryError(Exception):
    """No replay can make what the function returns, or writes to, or the history of it."""


class ReplayContext:
    """One replay: what the makers make results of."""

    __slots__ = ("args", "computed", "grads", "history", "tensors")

    def __init__(self, args: list[Tensor], grads: list[Tensor]) -> None:
        self.args = args
        self.grads = grads  # those that are made anew where they lie
        self.computed: list[Tensor] = []  # each has memory that this replay has filled
        self.history: list[Any] = []  # the steps of the backward pass that are made already
        self.tensors: dict[int, Tensor] = {}  # results that are made already, by number


OutputBuilder = Callable[[ReplayContext], Any]
MakerOf = Callable[[Tensor], OutputBuilder]  # what makes a tensor of the run in each replay
OutputRecipe = Callable[[MakerOf], OutputBuilder]

# --- where a tensor comes from


class TensorBuilders:
    """Where replays take the tensors of a run from. What the run has made, each replay makes once,
    with the base, the history and the creation metadata that it had at the end of the run."""

    def __init__(
        self, args: list[Tensor], argument: Collection[Storage], made: dict[Storage, int],
        born: Collection[int], grads: list[Tensor], history: TapeRecipe,
    ) -> None:  # fmt: skip
        """`argument`: the memory of the arguments; `made`: what each replay makes anew, by number;
        `born`: the ids of the tensors that the run has made; `grads`: those among them that each
        replay makes anew where they lie."""
        self.args, self.argument, self.made, self.born = args, argument, made, born
        self.history = history
        self._makers: dict[int, OutputBuilder] = {}
        for i, x in reversed(list(enumerate(args))):
            self._makers[id(x)] = lambda call, i=i: call.args[i]  # type: ignore[misc]
        for i, x in enumerate(grads):
            self._makers[id(x)] = lambda call, i=i: call.grads[i]  # type: ignore[misc]
        self._numbers = itertools.count()
        self._handed: set[int] = set()  # which of `made` is a result as it is

    def __call__(self, x: Tensor) -> OutputBuilder:
        """A result, or a leaf that a step of the backward pass leads to."""
        found = self._makers.get(id(x))
        if found is None:
            found = self._made(x) if id(x) in self.born else _from_outside(x)
            self._makers[id(x)] = found
        return found

    def saved(self, x: Tensor) -> OutputBuilder:
        """What a step of the backward pass has saved: it needs no base, as nobody writes to it."""
        if id(x) not in self.born or id(x) in self._makers or x._needs_grad:
            return self(x)
        return self._with_history(x, self.memory(x))

    def _made(self, x: Tensor) -> OutputBuilder:
        base, number = x._base, next(self._numbers)
        if base is None:
            bare = self.memory(x)
        elif x._storage in self.argument and id(base) not in self.born:
            bare = self._of_argument(x)
        else:
            chain = x._chain_from(base)
            if chain is None:
                raise HistoryError("returns or keeps a view of what became a part of its memory")
            bare = _cut(self(base), chain)
        create, leaf, creation = self._with_history(x, bare), x._needs_grad, x._creation
        extra = self.history.attached(x._hooks)
        behind = 0 if creation is None else x._storage.version - creation.version

        def make(call: ReplayContext) -> Tensor:
            found = call.tensors.get(number)
            if found is None:
                found = call.tensors[number] = create(call)
                found._needs_grad, found._creation = leaf, creation
                if creation is not None:
                    found._creation = creation._replace(version=found._storage.version - behind)
                if extra is not None:
                    found._hooks = extra()
            return found

        return make if not _retains(x) else _retaining(make)

    def _with_history(self, x: Tensor, bare: OutputBuilder) -> OutputBuilder:
        """The tensor that `bare` makes, as the result of a step that the replay has made, or of one
        that is the same in each call."""
        step, node = self.history.number(_step_of(x)), cleared(_step_of(x))
        if step is None and node is None:
            return bare

        def make(call: ReplayContext) -> Tensor:
            found: Tensor = bare(call)
            found._grad_fn = node if step is None else call.history[step]
            return found

        return make

    def _of_argument(self, x: Tensor) -> OutputBuilder:
        """A view of an argument, or of the base that an argument is a view of."""
        i, chain = self._argument(x, lambda a: x._base is a or x._base is a._base)
        return _cut(self(self.args[i]), chain)

    def _argument(self, x: Tensor, fits: Callable[[Tensor], bool]) -> tuple[int, ViewChain]:
        """The argument that `x` shows a part of, among those that fit, and what cuts the part."""
        for i, a in enumerate(self.args):
            n = len(a._view_chain)
            if fits(a) and x._view_chain[:n] == a._view_chain:
                return i, x._view_chain[n:]
        raise HistoryError("returns or keeps a part of an argument's memory that is not its own")

    def memory(self, x: Tensor) -> OutputBuilder:
        """Another handle on the memory of `x`, without a base or a history."""
        chain, k = x._view_chain, self.made.get(x._storage)
        if x._storage in self.argument:
            i, rest = self._argument(x, lambda a: a._storage is x._storage)
            return lambda call: _view(call.args[i]._alias(), rest)
        if k is None:
            return _from_memory(x)
        if chain or k in self._handed:
            return lambda call: _view(call.computed[k]._alias(), chain)
        self._handed.add(k)
        return lambda call: call.computed[k]


def _from_outside(x: Tensor) -> OutputBuilder:
    """A tensor that was there before the run."""
    ref, again = weakref.ref(x), _from_memory(x)

    def make(call: ReplayContext) -> Tensor | None:
        found = ref()
        return again(call) if found is None else found

    return make


def _from_memory(x: Tensor) -> OutputBuilder:
    """A handle on memory that was there before the run, or that is the same in each call."""
    ref, chain = weakref.ref(x._storage), x._view_chain

    def make(call: ReplayContext) -> Tensor | None:
        storage = ref()
        if storage is None:
            return None
        found = _dispatch.tensor_from_node(storage.node)
        found._storage = storage
        return _view(found, chain)

    return make


def _view(x: Tensor, chain: ViewChain) -> Tensor:
    """What `chain` cuts of `x`, as a tensor without a base."""
    return apply_view_chain(x, size_hints(chain))._alias() if chain else x


def _cut(whole: OutputBuilder, chain: ViewChain) -> OutputBuilder:
    """The view that `chain` cuts of a result, which is its base."""

    def make(call: ReplayContext) -> Tensor:
        x = whole(call)
        with no_grad():  # it is given the history of the run
            return apply_view_chain(x, size_hints(chain))

    return make


def _step_of(x: Tensor) -> Any:
    """The step that made `x`. A view that may not be used, as its memory was written to in a way
    that no gradient follows, keeps the one that it had: who asks for it is told."""
    try:
        return x.grad_fn
    except RuntimeError:
        return x._grad_fn


def _retains(x: Tensor) -> bool:
    extra = getattr(_step_of(x), "extra", None)
    return extra is not None and extra.retained is not None and extra.retained() is x


def _retaining(make: OutputBuilder) -> OutputBuilder:
    """What `make` gives keeps its gradient."""

    def retaining(call: ReplayContext) -> Tensor:
        x: Tensor = make(call)
        if x._grad_fn is not None:
            x._grad_fn.attach().retained = weakref.ref(x)
        return x

    return retaining


# --- what holds the tensors


def template(value: Any, o: Observer, tensors: list[Tensor]) -> OutputRecipe:
    """How replays make a result, or what the run has put somewhere, anew. Collects its tensors.
    HistoryError if no replay can make it."""
    if isinstance(value, Tensor):
        tensors.append(value)
        return lambda maker_of: maker_of(value)
    if type(value) is SymbolicScalar:
        return lambda maker_of: lambda call: evaluate(value)
    if type(value) is SymbolicSize:
        return lambda maker_of: lambda call: size_hint(value)
    if o.has(value) or o.is_constant(value):
        ref = reference(value)
        return lambda maker_of: lambda call: ref()
    if isinstance(value, (tuple, frozenset)) or type(value) in (list, set):
        return _sequence(value, o, tensors)
    if isinstance(value, (list, set, deque)):  # one with fields or options of its own
        return _refilled(value, o, tensors)
    return _object(value, o, tensors)


def _sequence(value: Any, o: Observer, tensors: list[Tensor]) -> OutputRecipe:
    kind = type(value)
    inner = [template(v, o, tensors) for v in value]
    build: Any = (lambda parts: kind(*parts)) if hasattr(value, "_fields") else kind

    def fill(maker_of: MakerOf) -> OutputBuilder:
        makers = [t(maker_of) for t in inner]
        return lambda call: build([make(call) for make in makers])

    return fill


def _refilled(value: Any, o: Observer, tensors: list[Tensor]) -> OutputRecipe:
    inner = template(list(value), o, tensors)
    empty = copy.copy(value)
    empty.clear()

    def fill(maker_of: MakerOf) -> OutputBuilder:
        items = inner(maker_of)

        def make(call: ReplayContext) -> Any:
            out: Any = copy.copy(empty)
            (out.update if isinstance(out, set) else out.extend)(items(call))
            return out

        return make

    return fill


def _object(value: Any, o: Observer, tensors: list[Tensor]) -> OutputRecipe:
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

    def fill(maker_of: MakerOf) -> OutputBuilder:
        item_makers = {k: t(maker_of) for k, t in items.items()}
        slot_makers = {k: t(maker_of) for k, t in held.items()}

        def make(call: ReplayContext) -> Any:
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
    leads to, and after what made the tensors that it has saved. HistoryError where a replay can't
    make one."""
    found: dict[int, GradNode] = {}
    stack = [_step_of(x) for x in tensors]
    while stack:
        n = stack.pop()
        if n is None or n.seq <= first or id(n) in found:
            continue
        freed = is_freed(n)
        if not freed and (not n.replays or (n.extra is not None and n.extra.packed)):
            raise HistoryError(f"returns a result of {n.name()}, which no replay makes anew")
        found[id(n)] = n
        edges = _behind(n, first) if freed else n.edges
        stack.extend(e for e in edges if isinstance(e, GradNode))
        stack.extend(_step_of(x) for x, behind in saved_by(n) if not behind)
    return sorted(found.values(), key=lambda n: n.seq)


def _behind(n: GradNode, first: int) -> list[Any]:
    """Where a step leads that is freed, past all others that are."""
    ends: dict[int, Any] = {}
    seen, stack = {id(n)}, [n]
    while stack:
        for e in stack.pop().edges:
            if e is None or id(e) in seen:
                continue
            seen.add(id(e))
            if isinstance(e, GradNode) and e.seq > first and is_freed(e):
                stack.append(e)
            else:
                ends[id(e)] = e
    return [*ends.values()]


def saved_by(n: GradNode) -> Iterator[tuple[Tensor, int]]:
    """The tensors that a step has saved, and how often each was written to since."""
    for e in n.saved or ():
        if type(e) is tuple:
            yield e[0], e[0]._storage.version - e[1]


def at_present(context: dict[str, Any]) -> dict[str, Any]:
    """What a Function's forward has set, with numbers for sizes that change."""
    return {k: v.at_present() if hasattr(type(v), "at_present") else size_hints(v)
            for k, v in context.items()}  # fmt: skip


class TapeRecipe:
    """The steps that replays make, by number, and the arguments that they lead to."""

    def __init__(self, tensors: list[Tensor], first: int, args: list[Tensor], o: Observer) -> None:
        self.steps, self.first, self.observer = history_of(tensors, first), first, o
        # by id: a step may be an object of a user's class, with an equality of its own
        self._number = {id(n): k for k, n in enumerate(self.steps)}
        self._argument = {id(x.grad_fn or x): i for i, x in enumerate(args)}

    def check_sizes(self) -> None:
        """DynamicShapeError where a step may hold sizes that change, which nobody finds."""
        for n in self.steps:
            if n.saved is not None and not n.sized and is_symbolic(n.specs):
                raise DynamicShapeError("it returns the result of a Function of sizes that change")

    def number(self, n: Any) -> int | None:
        """Which step of a replay `n` is; None if it is not one that replays make."""
        return self._number.get(id(n))

    def makers(self, tensors: TensorBuilders) -> list[OutputBuilder]:
        """What makes each step, where tensors are made by `tensors`."""
        return [self._maker(k, n, tensors) for k, n in enumerate(self.steps)]

    def _edge(self, e: Any, tensors: TensorBuilders) -> OutputBuilder:
        """Where a step leads: to a step before it, to an argument or what that was computed by, to
        a leaf, or to nothing."""
        k = self._number.get(id(e))
        if k is not None:
            return lambda call: call.history[k]
        i = self._argument.get(id(e))
        if i is not None:
            return lambda call: call.args[i].grad_fn or call.args[i]
        if isinstance(e, Tensor):
            return tensors(e)
        e = cleared(e)
        return lambda call: e

    def _saved(self, k: int, e: Any, tensors: TensorBuilders) -> OutputBuilder:
        """What step `k` has saved: a number, or a tensor with its version. One that was written to
        since is refused as in the run, whoever made it."""
        if type(e) is not tuple:
            return lambda call: size_hint(evaluate(e))
        x, behind, rest = e[0], e[0]._storage.version - e[1], e[2:]
        step = None if behind else self.number(_step_of(x))
        if step is not None and step >= k:
            raise HistoryError("has saved a tensor for backward that it gave another history")
        make = tensors.memory(x) if behind else tensors.saved(x)

        def save(call: ReplayContext) -> Any:
            found = make(call)
            return found, found._storage.version - behind, *rest

        return save

    def _maker(self, k: int, n: GradNode, tensors: TensorBuilders) -> OutputBuilder:
        if is_freed(n):
            ends = _behind(n, self.first)  # but for leaves of the run's, which nobody has
            kept = [e for e in ends if not (isinstance(e, Tensor) and id(e) in tensors.born)]
            freed_edges, name = [self._edge(e, tensors) for e in kept], n.name()
            return lambda call: ReleasedGradNode(
                name, [e(call) for e in freed_edges], _grad_node.next_seq()
            )
        extra = self.attached(n.extra)
        if isinstance(n, OutputEdge):
            node, index = self._edge(n.edges[0], tensors), n.index

            def port(call: ReplayContext) -> GradNode:
                out: GradNode = node(call).port(index)
                out.extra = None if extra is None else extra()
                return out

            return port
        kind, op, specs = type(n), n.op, n.specs
        attrs = getattr(n, "attrs", ())
        context = {} if kind is GradNode else {**vars(n)}  # of a Function: what forward has set
        changes = is_symbolic((attrs, specs))
        edges = [self._edge(e, tensors) for e in n.edges]
        saved, freed = [self._saved(k, e, tensors) for e in n.saved or ()], n.saved is None

        def make(call: ReplayContext) -> GradNode:
            out = kind.__new__(kind)
            out.seq, out.op, out.attrs = _grad_node.next_seq(), op, attrs
            out.specs, out.extra = specs, None if extra is None else extra()
            if changes:
                out.attrs, out.specs = size_hints(attrs), size_hints(specs)
            out.edges = [edge(call) for edge in edges]
            if context:
                now = at_present(context) if changes else context
                vars(out).update(now, ports=[None] * len(context["results"]))
            out.saved = None if freed else [save(call) for save in saved]
            return out

        return make

    def attached(self, extra: NodeHooks | None) -> Callable[[], NodeHooks] | None:
        """What makes anew what the run has hung on a step or a leaf. HistoryError for a hook that
        the run has made, as that may hold what is this run's alone."""
        if extra is None:
            return None
        kinds = ("hooks", "pre", "post", "accumulated")
        for hook in [hook for kind in kinds for hook in getattr(extra, kind)]:
            owner = getattr(hook, "__self__", hook)
            if not (self.observer.has(owner) or self.observer.is_constant(hook)):
                raise HistoryError("returns or keeps a tensor with a hook that it makes")

        hooks = {kind: tuple(getattr(extra, kind)) for kind in kinds}
        notes, trace = dict(extra.metadata), extra.trace

        def make() -> NodeHooks:
            out = NodeHooks()
            for kind, some in hooks.items():
                setattr(out, kind, list(some))
            out.metadata, out.trace = dict(notes), trace
            return out

        return make


def cleared(n: Any) -> Any:
    """A step from before the run without the leaves that it has led to, if it is freed; any other
    one as it is."""
    return ReleasedGradNode(n.name(), [], n.seq) if isinstance(n, GradNode) and is_freed(n) else n
