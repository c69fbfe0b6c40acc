"""Replay: a captured call as data, with its inputs, executables, effects, results and guard.
`replay_of` makes one from a recorded run."""

from __future__ import annotations

import weakref
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from operator import call, is_, sub
from sys import getrefcount
from typing import Any, NamedTuple

import numpy as np

from pyframe.capture import executable as _executable
from pyframe.capture.arguments import is_copied
from pyframe.capture.capture import GRAD, Capture, hosted, refresh_tensors
from pyframe.capture.executable import DeviceExecutable, Executable, HostExecutable, StateInput
from pyframe.capture.rebuild import (
    HistoryError,
    OutputBuilder,
    ReplayContext,
    TapeRecipe,
    TensorBuilders,
    at_present,
    saved_by,
    template,
)
from pyframe.core import dispatch as _dispatch, op as _op
from pyframe.core.devices import flush
from pyframe.core.grad_node import GradNode
from pyframe.core.modes import mode, no_grad
from pyframe.core.node import NO_VERSION, Node, Storage, toposort
from pyframe.core.op import CONST
from pyframe.core.sizes import ShapeEnv, is_symbolic, size_hints
from pyframe.ops.api.deferred import DeferredAsserts
from pyframe.tensor import Tensor
from pyframe.watch import GuardSet, Observer, Source

Operand = tuple[Node, Node]  # of an argument: its own node, and that of its storage


def operand(x: Tensor) -> Operand:
    """Of an argument as it is now: a replay may have written to it since it was looked at."""
    whole = x._storage.node
    return x._node if x._view_chain else whole, whole


# How many references are counted to what a list alone holds
_ALONE = next(map(getrefcount, [object()]))


class BadIndexError(Exception):
    """An index is out of range, and nothing was computed yet: run eagerly, it says which one."""


class RuntimeAsserts:
    """What checks of values on the CPU found, which a flag tells after the run."""

    def __init__(self, checks: DeferredAsserts | None, early: bool) -> None:
        """`early`: they are computed before all else, as they take little."""
        self.checks, self.early = checks, early

    def look(self) -> None:
        """Raise what a check found: BadIndexError where nothing is done yet."""
        if self.checks is None:
            return
        flag = self.checks.flag._storage.node.data
        if flag is not None and flag[()]:
            error, message = self.checks.errors[flag[()] - 1]
            flag[...] = 0
            raise BadIndexError if self.early else error(message)


# --- a captured call


@dataclass(eq=False)
class Replay:
    """A captured call, which runs no Python of the user's when it is run again."""

    # what is taken: arguments, and arrays of the host's that are read anew
    found_outside: list[int]  # of each argument: the id of its memory, if that is `outside` too
    outside: set[int]  # the ids of memory that the run found elsewhere than in the arguments
    copied: list[int]  # the arguments of which an executable gets a copy: views on a GPU
    reread: list[tuple[Executable, StateInput, Callable[[], np.ndarray]]]  # what gives the array
    offsets_matter: bool  # whether views that begin elsewhere in their memory take another capture

    # what is computed: executables for each device, in the order in which they run
    executables: list[Executable]
    checks: RuntimeAsserts
    specs: list[tuple[Any, Any, Any]]  # shape, dtype, device of what each run makes anew
    versions: list[tuple[int, int]]  # of what the run writes to: a number in `specs`, the version

    # what is changed, in place
    written: list[tuple[Storage, int]]  # memory from outside, and how many writes autograd minds
    # triples of a number in `specs`, that of an argument, and as above
    overwritten: list[tuple[int, int, int]]
    leaves: list[weakref.ref[Tensor]]  # from outside, whose .grad is made anew where it lies
    grads: list[Tensor]  # those of `leaves`
    argument_grads: list[tuple[int, Any]]  # arguments, and what their .grad has to be

    # what is returned, and put somewhere outside
    history: list[OutputBuilder]
    result: OutputBuilder
    effects: list[tuple[Source, OutputBuilder]]
    given: list[tuple[OutputBuilder, OutputBuilder]]  # leaves, and the .grad that they get

    guard: GuardSet  # what is relied on
    constants: dict[int, Storage]  # tensors made of the host's data, which executables read
    locks: tuple[Any, ...]  # of state that other threads write to as well, as random counters
    hits: int = 0
    sizes: ShapeEnv | None = None  # those that change, and what they are in this replay
    now: tuple[int, ...] = ()
    views: Sequence[int] = ()  # arguments that are views here, and were none in the capture
    on_device: bool = field(init=False)

    def __post_init__(self) -> None:
        self.on_device = any(e.device.kind != "cpu" for e in self.executables)

    def at(self, now: tuple[int, ...], views: set[int], before: set[int]) -> Replay:
        """The same for other sizes. `views` are the arguments that are views now, and in the
        capture those `before`."""
        assert self.sizes is not None
        self.sizes.set(now)
        bound = {id(e): e.at_present() for e in self.executables}
        return replace(
            self, executables=[*bound.values()], specs=size_hints(self.specs), now=now, hits=0,
            views=sorted(views - before), copied=sorted(views) if self.on_device else [],
            reread=[(bound[id(e)], st, array) for e, st, array in self.reread],
        )  # fmt: skip

    def ready(self, args: list[Tensor], trusted: GuardSet | None = None) -> bool:
        """Whether all that the call relies on holds, so that it may run; `guard` says what not. It
        is not asked where it is `trusted`, and all that it looks at lives."""
        for x, before in zip(args, self.found_outside, strict=True):
            now = id(x._storage)
            if before != (now if now in self.outside else 0):
                self.guard.missed, self.guard.why = [], "it reads an argument from outside as well"
                return False
        for i, ref in self.argument_grads:
            grad = args[i].grad
            if grad is not None if ref is None else grad is None or grad is not ref():
                self.guard.missed, self.guard.why = [], "an argument has another .grad"
                return False
        if not ((self.guard is trusted and trusted.alive) or self.guard.holds()):
            return False
        for e in self.executables:  # noqa: SIM110  a generator takes a call for each
            if not e.ready():
                return False
        return True

    def __call__(self, args: list[Tensor]) -> Any:
        """Run the call with other arguments: compute, change what it changes, return."""
        operands = list(map(operand, args))
        if self.copied:
            self._copy(args, operands)
        if self.sizes is not None:
            self.sizes.set(self.now)
            for i in self.views:
                operands[i] = operands[i][0], operands[i][0]
        if self.grads:
            self._leave_grads()
        for executable, state, array in self.reread:
            executable.assign(state, array())
        data = self._compute(operands)
        self._change(args, data)
        self.checks.look()
        self.hits += 1
        return self._results(args, data)

    def _copy(self, args: list[Tensor], operands: list[Operand]) -> None:
        """Give the elements of views memory of their own."""
        for i in self.copied:
            n, data = args[i]._node, args[i].device.executor.apart(args[i])
            operands[i] = Node(None, (), (), n.shape, n.dtype, n.device, data), operands[i][1]

    def _leave_grads(self) -> None:
        """A gradient that someone else holds stays as it is: it gets memory of its own."""
        held = list(map(getrefcount, self.grads))
        mine = list(map(is_, map(GRAD.__get__, map(call, self.leaves)), self.grads))
        if list(map(sub, held, mine)).count(_ALONE) == len(held):
            return
        for i, old in enumerate(self.grads):
            if held[i] - mine[i] > _ALONE:
                self.grads[i] = old._alias()
                with no_grad():
                    own = old.clone()
                old._node, old._storage, old._view_chain = own._node, own._storage, ()
        flush()

    def _compute(self, operands: list[Operand]) -> list[Any]:
        """Run the executables; the data of what is made anew."""
        data = []
        for executable in self.executables:
            try:
                data += executable.run(operands)
            except IndexError:  # NumPy's own; ours tells more, and must not stay noted
                self.checks.look()
                raise
            if self.checks.early and executable is self.executables[0]:
                self.checks.look()
        return data

    def _change(self, args: list[Tensor], data: list[Any]) -> None:
        """Let everyone see what was written; executables have written to memory from outside."""
        for storage, times in self.written:  # as `Storage.wrote`, without a call for each
            storage.writes += 1
            if storage.version != NO_VERSION:
                storage.version += times
        for k, i, times in self.overwritten:
            storage = args[i]._storage
            _put_into(storage, storage.node, data[k])
            storage.wrote(times)
        for ref, grad in zip(self.leaves, self.grads, strict=True):
            leaf = ref()
            if leaf is not None:
                leaf.grad = grad

    def _results(self, args: list[Tensor], data: list[Any]) -> Any:
        """Put the effects in their places, and return the result."""
        call = ReplayContext(args, self.grads)
        for (shape, dtype, device), d in zip(self.specs, data, strict=True):
            node = Node(None, (), (), shape, dtype, device, d)
            call.computed.append(_dispatch.tensor_from_node(node))
        for k, version in self.versions:
            call.computed[k]._storage.version = version
        for make in self.history:
            call.history.append(make(call))
        for leaf, grad in self.given:
            owner, found = leaf(call), grad(call)
            if owner is not None:
                owner.grad = found
        values = [make(call) for _, make in self.effects]
        result = self.result(call)  # numbers in it may come from what effects replace
        for (source, _), value in zip(self.effects, values, strict=True):
            source.put(value)
        return result


def _put_into(storage: Storage, old: Node, data: Any) -> None:
    """Let an argument's storage hold what was written to it, on the CPU in the same array."""
    if old.device.kind == "cpu" and data is not old.data:
        np.copyto(old.data, data)
        data = old.data
    storage.node = Node(None, (), (), old.shape, old.dtype, old.device, data)


# --- how it is made


@dataclass(eq=False)
class CapturedRun:
    """What is known of a call when its function has returned."""

    capture: Capture
    observer: Observer
    args: list[Tensor]  # the tensors among the arguments
    before: list[Operand]  # as they were before the call
    chains: list[tuple[Any, ...]]  # their memory, how they lay in it, whether they required grad
    result: Any
    effects: list[tuple[Source, Any]]  # what it has put where outside
    sizes: ShapeEnv | None = None  # those that change
    started: bool = False  # whether some of it is computed
    returned: list[Tensor] = field(default_factory=list)  # tensors that are results, or kept


class StorageRoles(NamedTuple):
    """What each piece of memory is to a call."""

    argument: dict[Storage, int]  # the number of the argument that it is of
    fresh: set[Storage]  # what each call makes anew, or puts into an argument
    roots: list[Storage]  # all that is computed


def replay_of(run: CapturedRun) -> Replay:
    """The call as it can be run again; its tensors are computed for the first time on the way.
    Raises HistoryError, SpecializedNumberError or BadIndexError where no replay can be made."""
    capture, args = run.capture, run.args
    _refuse_new_history(run)
    returned = run.returned
    templates = [template(v, run.observer, returned)
                 for v in (run.result, *[v for _, v in run.effects])]  # fmt: skip
    _refuse_new_tensors(capture, returned)
    grads = _grads(run, returned)
    with capture.recording():  # views of what was written to may have another history now
        history = TapeRecipe(returned, capture.first, args, run.observer)
        if run.sizes is not None:
            history.check_sizes()
    saved = [x for n in history.steps for x, _ in saved_by(n)]
    arrays = [x for x in saved if id(x._storage) in capture.reread]
    _compute_constants(capture, [*returned, *arrays])
    grads.keep_apart(returned, saved)
    outside = _outside(run)
    offsets_matter = _offsets_matter(run)
    roles = _roles(run, [*returned, *saved], grads)
    executables, checks = _first_run(run, roles)

    made = {s: k for k, s in enumerate(s for e in executables for s, _ in e.fresh)}
    overwritten = [(k, roles.argument[s], _writes(capture, s)) for s, k in made.items()
                   if s in roles.argument]  # fmt: skip
    specs = [(s.node.shape, s.node.dtype, s.node.device) for s in made]
    usual = NO_VERSION if mode.inference else 0
    versions = [(k, s.version) for s, k in made.items()
                if s.version != usual and s not in roles.argument]  # fmt: skip
    for s, i in roles.argument.items():
        if s in made:
            _put_into(s, run.before[i][1], s.node.data)
            s.writes += 1  # views have looked at the node that was recorded

    stay = [grad for _, grad in grads.stay]
    tensors = TensorBuilders(args, roles.argument, made, capture.born, stay, history)
    result, *values = [fill(tensors) for fill in templates]
    effects = [(source.let_go(), v) for (source, _), v in zip(run.effects, values, strict=True)]
    given = [(tensors(leaf), _NONE if g is None else tensors(g)) for leaf, g in grads.given]
    leaves = [weakref.ref(leaf) for leaf, _ in grads.stay]
    written = _written(capture, roles, stay)
    makers = history.makers(tensors)
    guard = _guard(run, executables, {id(x) for x in args})
    reread = [(e, st, array) for e in executables for st in e.states
              for node, array, _ in capture.reread.values() if node is st.node]  # fmt: skip
    read = sorted({a.argument for e in executables for a in e.arguments if not a.whole})
    if run.sizes is not None:
        settle_sizes(capture, returned)
    refresh_tensors(capture)
    return Replay(
        found_outside=[id(x._storage) if id(x._storage) in outside else 0 for x in args],
        outside=outside, copied=[i for i in read if is_copied(args[i])], reread=reread,
        offsets_matter=offsets_matter, executables=executables, checks=checks, specs=specs,
        versions=versions, written=written, overwritten=overwritten, leaves=leaves, grads=stay,
        argument_grads=grads.of_arguments, history=makers, result=result, effects=effects,
        given=given, guard=guard, constants=capture.constants, locks=tuple(capture.locks),
        sizes=run.sizes,
    )  # fmt: skip


def finish(run: CapturedRun) -> None:
    """Compute what was recorded, as no replay can follow."""
    run.capture.finish()
    if run.sizes is not None:
        settle_sizes(run.capture, run.returned)


def settle_sizes(capture: Capture, tensors: Sequence[Tensor] = ()) -> None:
    """Let the tensors of the run, and what leads back from `tensors`, have numbers for sizes."""
    for s in [s for s in map(call, capture.pending) if s is not None]:
        s.node.shape = size_hints(s.node.shape)
    for x in [x for x in map(call, capture.handles) if x is not None]:
        node = x._node
        node.shape, x._view_chain = size_hints(node.shape), size_hints(x._view_chain)
    stack: list[Any] = [x._grad_fn for x in tensors]
    seen: set[int] = set()
    while stack:
        n = stack.pop()
        if not isinstance(n, GradNode) or n.seq <= capture.first or id(n) in seen:
            continue
        seen.add(id(n))
        stack += n.edges
        for name in ("specs", "saved", "attrs"):
            if hasattr(n, name):
                setattr(n, name, size_hints(getattr(n, name)))
        if hasattr(n, "__dict__"):  # of a Function
            vars(n).update(at_present(vars(n)))


def _NONE(call: ReplayContext) -> None:  # noqa: N802
    """Makes the .grad of a leaf that has none at the end of the run."""


class Grads(NamedTuple):
    """The leaves whose .grad is another at the end of a run."""

    stay: list[tuple[Tensor, Tensor]]  # with the new one, which each replay updates in place
    given: list[tuple[Tensor, Tensor | None]]  # and which is a result like others
    of_arguments: list[tuple[int, Any]]  # what a replay relies on: arguments, and their .grad

    def keep_apart(self, returned: list[Tensor], saved: list[Tensor]) -> None:
        """What shares memory with a result is a result, which the next call must not change."""
        mine = {id(g) for _, g in self.stay}
        used = {x._storage for x in saved}
        used |= {x._storage for x in returned if id(x) not in mine}
        for leaf, grad in self.stay[:]:
            if grad._storage in used:
                self.stay.remove((leaf, grad))
                self.given.append((leaf, grad))
                returned.append(grad)


def _grads(run: CapturedRun, returned: list[Tensor]) -> Grads:
    """What the run did to the .grad of leaves; `returned` gets those that are results."""
    born, out = run.capture.born, Grads([], [], [])
    numbers = {id(x): i for i, x in enumerate(run.args)}
    for leaf, before, was_read in run.capture.grads.values():
        if id(leaf) in born:
            continue
        after, i = leaf.grad, numbers.get(id(leaf))
        if i is not None and was_read:
            out.of_arguments.append((i, None if before is None else weakref.ref(before)))
        if after is before and was_read:
            continue
        if after is None or i is not None or id(after) not in born or after.requires_grad:
            out.given.append((leaf, after))
            returned += [] if after is None else [after]
        else:
            out.stay.append((leaf, after))
    return out


_SHAPE = "changes the shape or requires_grad of a tensor from outside"


def _refuse_new_history(run: CapturedRun) -> None:
    """What was there before the run and was written to may have a history now, or another shape,
    which no replay could give it."""
    owners = [x if x._base is None else x._base for x in run.args]
    first = run.capture.first
    if any(x._grad_fn is not None and x._grad_fn.seq > first for x in owners):
        raise HistoryError("writes to an argument that requires grad, as no replay can")
    if run.capture.follows:
        raise HistoryError("writes to a tensor from outside that requires grad, as no replay can")
    known = [(x, (s, (), needs)) for x, s, needs in run.capture.tensors.values()
             if id(x) not in run.capture.born]  # fmt: skip
    for x, before in [*zip(run.args, run.chains, strict=True), *known]:
        if (x._storage, x._view_chain, x._needs_grad) != before:
            raise HistoryError(_SHAPE)
    for x, chain, needs in run.observer.tensors.values():
        if (x._view_chain, x._needs_grad) != (chain, needs):
            raise HistoryError(_SHAPE)


def _refuse_new_tensors(capture: Capture, returned: list[Tensor]) -> None:
    """A replay makes plain tensors, without a .grad."""
    born = [x for x in returned if id(x) in capture.born]
    if any(x.grad is not None for x in born):
        raise HistoryError("returns or keeps a tensor that has a .grad, as no replay makes")
    odd = [type(x) for x in born if type(x) is not Tensor]
    if odd:
        raise HistoryError(f"returns or keeps a {odd[0].__name__} that it makes")


def _compute_constants(capture: Capture, tensors: list[Tensor]) -> None:
    """Of tensors that the run has made of the host's data each call gives a copy."""
    for x in tensors:
        if id(x._storage) in capture.constants and x._storage.node.data is not None:
            capture.copy(x._storage)
            capture.on_alias_changed(x)


def _outside(run: CapturedRun) -> set[int]:
    """The ids of the memory that the run found outside: an argument that is also there is the same
    memory in each replay, or in none."""
    mine = {id(x._storage) for x in run.args}
    # of an argument's memory the run makes handles too: only sources tell of those outside
    used = {id(s) for _, s, _ in run.capture.tensors.values()} - mine
    return used | {id(x._storage) for x, _, _ in run.observer.tensors.values()}


def _offsets_matter(run: CapturedRun) -> bool:
    """Whether it matters where in their memory the views among the arguments begin."""
    views = [x for x in run.args if x._view_chain]
    written = any(id(x._storage) in run.capture.written for x in views)
    return bool(views) and (run.capture.asked_offsets or written)


def _roles(run: CapturedRun, results: list[Tensor], grads: Grads) -> StorageRoles:
    """What each memory is to the call; `results` includes what its history has saved."""
    capture = run.capture
    argument = {x._storage: i for i, x in enumerate(run.args)}
    roots = capture.alive()
    kept = {g._storage for _, g in grads.stay}
    kept |= {s for s, _ in capture.replaced()} - argument.keys()
    fresh = ({x._storage for x in results} | argument.keys()) & set(roots)
    return StorageRoles(argument, fresh - kept, roots)


def _first_run(run: CapturedRun, roles: StorageRoles) -> tuple[list[Executable], RuntimeAsserts]:
    """The executables of the call, one for each device, and what they check. Each runs once."""
    capture = run.capture
    if any(shares and i in capture.written for i, (_, _, shares) in capture.reread.items()):
        raise _executable.SpecializedNumberError("an array that is written to: it needs")
    argument_of: dict[Node, tuple[int, bool]] = {}  # an argument, and whether it is its storage's
    for i, (own, whole) in enumerate(run.before):
        if own.data is not None:
            argument_of[own] = i, False
        argument_of[whole] = i, True
    of = Counter([x._storage for x in run.args])
    capture.apart = {
        x._storage
        for x, (own, whole) in zip(run.args, run.before, strict=True)
        if own is whole and of[x._storage] == 1 and not is_symbolic(whole.shape)
    }
    flag = None if capture.checks is None else capture.checks.flag._storage
    groups: dict[Any, list[Storage]] = {}  # what is computed together
    for s in roles.roots:
        early = s is flag and _is_small(s.node)
        groups.setdefault("checks" if early else s.node.device, []).append(s)
    if len(groups.keys() - {"checks"}) > 1:  # one may read what another has written over
        capture.apart = set()
    checked = capture.checks if any(s is flag for s in roles.roots) else None
    checks = RuntimeAsserts(checked, "checks" in groups)
    executables: list[Executable] = []
    for _, group in sorted(groups.items(), key=lambda item: item[0] != "checks"):
        for executable in _executables(capture, group, argument_of, roles.fresh):
            run.started = True
            executable.settle(executable.run(run.before))
            executables.append(executable)
        if checks.early:
            checks.look()
    checks.look()
    return executables, checks


def _executables(
    capture: Capture, roots: list[Storage], argument_of: Any, fresh: set[Storage]
) -> Iterator[Any]:
    """The Executables and HostSteps of one device in their order. Each has to be run and settled
    before the next is asked for."""
    works = hosted([s.node for s in roots])
    if works:
        capture.apart = set()
        from pyframe.capture.stages import split_at_host_ops  # what only several processes need

        yield from split_at_host_ops(capture, roots, works, argument_of, fresh)
        return
    kind: type[Executable] = DeviceExecutable
    if roots[0].node.device.kind == "cpu":
        kind = HostExecutable
    yield kind(capture, roots, argument_of, fresh)


def _is_small(n: Node) -> bool:
    """Whether `n` takes little to compute apart from all else."""
    order = toposort([n])
    return len(order) < 100 and not any(
        m.data is None and m.op is not CONST and m.op.kind == _op.EXTERN  # type: ignore[union-attr]
        for m in order
    )


def _writes(capture: Capture, s: Storage) -> int:
    """How many writes to memory from outside autograd minds."""
    return s.version - capture.versions.get(id(s), s.version)


def _written(
    capture: Capture, roles: StorageRoles, stay: list[Tensor]
) -> list[tuple[Storage, int]]:
    """The memory from outside that each call writes to."""
    out = {s: _writes(capture, s) for s, _ in capture.replaced() if s not in roles.argument}
    for g in stay:  # made anew in the same memory, of which a view may know the old value
        if g._view_chain:
            out.setdefault(g._storage, 1)
    return list(out.items())


def _guard(run: CapturedRun, executables: list[Executable], given: set[int]) -> GuardSet:
    """What the call relies on, besides the tensors with the ids `given`, its arguments. The capture
    lets go of what it has seen, as some tensors were only handles of the run."""
    capture = run.capture
    seen = [weakref.ref(x) for x, _, _ in capture.tensors.values() if id(x) not in given]
    leaves = [g for i, g in capture.grads.items() if i not in capture.born and i not in given]
    read = {st.node for e in executables for st in e.states}
    before = dict(capture.written.values())
    capture.tensors.clear()
    capture.viewed.clear()
    capture.grads.clear()
    alive = [x for x in (ref() for ref in seen) if x is not None]
    guard = run.observer.guard(alive, given)
    for leaf, old, was_read in leaves:
        if was_read:  # whether it had a .grad decides what runs; which one, where it was added to
            used = old is not None and not read.isdisjoint(
                {before.get(old._storage, old._storage.node), old._node}
            )
            guard.watch_grad(leaf, old, used)
    for answer in capture.asked:
        guard.ask(*answer)
    return guard
