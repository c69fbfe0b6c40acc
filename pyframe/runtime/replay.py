"""A captured call as data: what it takes, what it computes, changes and returns, and what it relies
on. `Replay` runs it again; `replay_of` makes it of a run that was recorded."""

from __future__ import annotations

import weakref
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np

from pyframe.core import dispatch as _dispatch, op as _op
from pyframe.core.devices import cpu
from pyframe.core.node import Node, Storage, toposort
from pyframe.core.op import CONST
from pyframe.ops.deferred import Checks
from pyframe.runtime.arguments import is_copied
from pyframe.runtime.capture import Capture, renew
from pyframe.runtime.executable import (
    DeviceExecutable,
    Executable,
    FixedError,
    HostExecutable,
    State,
)
from pyframe.runtime.guards import Guard
from pyframe.runtime.observe import Observer
from pyframe.runtime.places import Place
from pyframe.runtime.rebuild import (
    Call,
    History,
    HistoryError,
    Maker,
    cleared,
    from_argument,
    from_outside,
    from_run,
    history_of,
    template,
)
from pyframe.tensor import Tensor

Operand = tuple[Node, Node]  # of an argument: its own node, and that of its storage


class BadIndexError(Exception):
    """An index is out of range, and nothing was computed yet: run eagerly, it says which one."""


class ValueChecks:
    """What checks of values on the CPU found, which a flag tells after the run."""

    def __init__(self, checks: Checks | None, early: bool) -> None:
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
    fed: list[tuple[Executable, State, Callable[[], np.ndarray]]]  # and what gives the array
    offsets_matter: bool  # whether views that begin elsewhere in their memory take another capture

    # what is computed: executables for each device, in the order in which they run
    executables: list[Executable]
    checks: ValueChecks
    specs: list[tuple[Any, Any, Any]]  # shape, dtype, device of what each run makes anew

    # what is changed, in place
    written: list[Storage]  # memory from outside
    overwritten: list[tuple[int, int]]  # pairs of a number in `specs`, and of an argument's memory
    grads: list[tuple[weakref.ref[Tensor], Tensor | None]]  # leaves from outside, and their .grad
    argument_grads: list[tuple[int, Tensor | None]]  # arguments, and their .grad

    # what is returned, and put somewhere outside
    history: list[Maker]
    result: Maker
    effects: list[tuple[Place, Maker]]

    guard: Guard  # what is relied on
    constants: dict[int, Storage]  # tensors made of the host's data, which executables read
    locks: tuple[Any, ...]  # of state that other threads write to as well, as random counters
    hits: int = 0
    on_device: bool = field(init=False)

    def __post_init__(self) -> None:
        self.on_device = any(e.device.type != "cpu" for e in self.executables)

    def ready(self, args: list[Tensor]) -> bool:
        """Whether all that the call relies on holds, so that it may run; `guard` says what not."""
        for x, before in zip(args, self.found_outside, strict=True):
            now = id(x._storage)
            if before != (now if now in self.outside else 0):
                self.guard.missed, self.guard.why = [], "it reads an argument from outside as well"
                return False
        return self.guard.holds() and all(e.ready() for e in self.executables)

    def __call__(self, args: list[Tensor]) -> Any:
        """Run the call with other arguments: compute, change what it changes, return."""
        operands = [(x._node, x._storage.node) for x in args]
        if self.copied:
            self._copy(args, operands)
        for executable, state, array in self.fed:
            executable.feed(state, array())
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
        for storage in self.written:
            storage.wrote()
        for k, i in self.overwritten:
            storage = args[i]._storage
            _put_into(storage, storage.node, data[k])
            storage.wrote()
        for ref, grad in self.grads:
            leaf = ref()
            if leaf is not None:
                leaf.grad = grad
        for i, grad in self.argument_grads:
            args[i].grad = grad

    def _results(self, args: list[Tensor], data: list[Any]) -> Any:
        """Put the effects in their places, and return the result."""
        call = Call(args, [], [])
        for (shape, dtype, device), d in zip(self.specs, data, strict=True):
            node = Node(None, (), (), shape, dtype, device, d)
            call.computed.append(_dispatch.new(node))
        for make in self.history:
            call.history.append(make(call))
        if self.effects:
            values = [make(call) for _, make in self.effects]
            for (place, _), value in zip(self.effects, values, strict=True):
                place.put(value)
        return self.result(call)


def _put_into(storage: Storage, old: Node, data: Any) -> None:
    """Let an argument's storage hold what was written to it, on the CPU in the same array."""
    if old.device.type == "cpu":
        np.copyto(old.data, data)
        data = old.data
    storage.node = Node(None, (), (), old.shape, old.dtype, old.device, data)


# --- how it is made


class Run(NamedTuple):
    """What is known of a call when its function has returned."""

    capture: Capture
    observer: Observer
    args: list[Tensor]  # the tensors among the arguments
    before: list[Operand]  # as they were before the call
    result: Any
    effects: list[tuple[Place, Any]]  # what it has put where outside


class Roles(NamedTuple):
    """What each piece of memory is to a call."""

    argument: dict[Storage, int]  # the number of the argument that it is of
    fresh: set[Storage]  # what each call makes anew, or puts into an argument
    roots: list[Storage]  # all that is computed


def replay_of(run: Run) -> Replay:
    """The call as it can be run again; its tensors are computed for the first time on the way.
    Raises HistoryError, FixedError or BadIndexError where no replay can be made."""
    capture, args = run.capture, run.args
    _refuse_new_history(run)
    returned: list[Tensor] = []
    templates = [template(v, run.observer, returned)
                 for v in (run.result, *[v for _, v in run.effects])]  # fmt: skip
    _refuse_new_tensors(capture, returned)
    history = History(history_of(returned, capture.first), args)
    saved = [e[0] for n in history.steps for e in n.saved or () if type(e) is tuple]
    _compute_constants(capture, [*returned, *[x for x in saved if id(x._storage) in capture.fed]])
    leaves = [(x, x.grad) for i, (x, _, _) in capture.grads.items() if i not in capture.born]
    outside = _outside(run)
    offsets_matter = _offsets_matter(run)
    roles = _roles(run, [*returned, *saved], leaves)
    executables, checks = _first_run(run, roles)

    made = {s: k for k, s in enumerate(s for e in executables for s, _ in e.fresh)}
    overwritten = [(k, roles.argument[s]) for s, k in made.items() if s in roles.argument]
    specs = [(s.node.shape, s.node.dtype, s.node.device) for s in made]
    for s, i in roles.argument.items():
        if s in made:
            _put_into(s, run.before[i][1], s.node.data)

    def source(x: Tensor) -> Maker:
        if x._storage in roles.argument:
            return from_argument(x, args)
        k = made.get(x._storage)
        if k is None and id(x._storage) in capture.constants:
            return lambda call: x  # which is the same in each call
        if k is None:
            return from_outside(x)
        step = history.number(x._grad_fn)
        return from_run(k, x._view_chain, step, cleared(x._grad_fn) if step is None else None)

    result, *values = [fill(source) for fill in templates]
    effects = [(place.let_go(), v) for (place, _), v in zip(run.effects, values, strict=True)]
    written = _written(capture, roles, leaves)
    makers = history.makers(source)
    given = {id(x) for x in args}
    grads = [(weakref.ref(leaf), grad) for leaf, grad in leaves if id(leaf) not in given]
    argument_grads = [(i, g) for leaf, g in leaves for i, x in enumerate(args) if x is leaf]
    guard = _guard(run, executables, given)
    fed = [
        (e, st, array)
        for e in executables
        for st in e.states
        for node, array, _ in capture.fed.values()
        if node is st.node
    ]
    read = sorted({a.argument for e in executables for a in e.arguments if not a.whole})
    renew(capture)
    return Replay(
        found_outside=[id(x._storage) if id(x._storage) in outside else 0 for x in args],
        outside=outside, copied=[i for i in read if is_copied(args[i])], fed=fed,
        offsets_matter=offsets_matter, executables=executables, checks=checks, specs=specs,
        written=written, overwritten=overwritten, grads=grads, argument_grads=argument_grads,
        history=makers, result=result, effects=effects, guard=guard, constants=capture.constants,
        locks=tuple(capture.locks),
    )  # fmt: skip


def _refuse_new_history(run: Run) -> None:
    """An argument that was written to may have a history now, which no replay could give it."""
    owners = [x if x._base is None else x._base for x in run.args]
    if any(x._grad_fn is not None and x._grad_fn.seq > run.capture.first for x in owners):
        raise HistoryError("writes to an argument that requires grad, as no replay can")


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
            capture.touched(x)


def _outside(run: Run) -> set[int]:
    """The ids of the memory that the run found outside: an argument that is also there is the same
    memory in each replay, or in none."""
    mine = {id(x._storage) for x in run.args}
    # of an argument's memory the run makes handles too: only places tell of those outside
    used = {id(s) for _, s, _ in run.capture.tensors.values()} - mine
    return used | {id(x._storage) for x in run.observer.tensors.values()}


def _offsets_matter(run: Run) -> bool:
    """Whether it matters where in their memory the views among the arguments begin."""
    views = [x for x in run.args if x._view_chain]
    written = any(id(x._storage) in run.capture.written for x in views)
    return bool(views) and (run.capture.asked_offsets or written)


def _roles(run: Run, results: list[Tensor], leaves: list[tuple[Tensor, Tensor | None]]) -> Roles:
    """What each memory is to the call; `results` includes what its history has saved."""
    capture = run.capture
    argument = {x._storage: i for i, x in enumerate(run.args)}
    roots = capture.alive()
    kept = {g._storage for _, g in leaves if g is not None}  # it stays where it is
    kept |= {s for s, _ in capture.replaced()} - argument.keys()
    fresh = ({x._storage for x in results} | argument.keys()) & set(roots)
    return Roles(argument, fresh - kept, roots)


def _first_run(run: Run, roles: Roles) -> tuple[list[Executable], ValueChecks]:
    """The executables of the call, one for each device, and what they check. Each runs once."""
    capture = run.capture
    if any(shares and i in capture.written for i, (_, _, shares) in capture.fed.items()):
        raise FixedError("an array that is written to: it needs")
    sources: dict[Node, tuple[int, bool]] = {}  # an argument, and whether it is its storage's
    for i, (own, whole) in enumerate(run.before):
        if own.data is not None:
            sources[own] = i, False
        sources[whole] = i, True
    flag = None if capture.checks is None else capture.checks.flag._storage
    groups: dict[Any, list[Storage]] = {}  # what is computed together
    for s in roles.roots:
        early = s is flag and _is_small(s.node)
        groups.setdefault("checks" if early else s.node.device, []).append(s)
    checked = capture.checks if any(s is flag for s in roles.roots) else None
    checks = ValueChecks(checked, "checks" in groups)
    executables: list[Executable] = []
    for _, group in sorted(groups.items(), key=lambda item: item[0] != "checks"):
        kind = HostExecutable if group[0].node.device is cpu else DeviceExecutable
        executable = kind(capture, group, sources, roles.fresh)
        executable.settle(executable.run(run.before))
        executables.append(executable)
        if checks.early:
            checks.look()
    checks.look()
    return executables, checks


def _is_small(n: Node) -> bool:
    """Whether `n` takes little to compute apart from all else."""
    order = toposort([n])
    return len(order) < 100 and not any(
        m.data is None and m.op is not CONST and m.op.kind == _op.ROUTINE  # type: ignore[union-attr]
        for m in order
    )


def _written(
    capture: Capture, roles: Roles, leaves: list[tuple[Tensor, Tensor | None]]
) -> list[Storage]:
    """The memory from outside that each call writes to."""
    out = [s for s, _ in capture.replaced() if s not in roles.argument]
    for _, g in leaves:  # made anew in the same memory, of which a view may know the old value
        if g is not None and g._view_chain and g._storage not in out:
            out.append(g._storage)
    return out


def _guard(run: Run, executables: list[Executable], given: set[int]) -> Guard:
    """What the call relies on, besides the tensors with the ids `given`, its arguments. The capture
    lets go of what it has seen, as some tensors were only handles of the run."""
    capture = run.capture
    seen = [weakref.ref(x) for x, _, _ in capture.tensors.values() if id(x) not in given]
    leaves = [leaf for i, leaf in capture.grads.items() if i not in capture.born]
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
    guard.asked += capture.asked
    return guard
