"""pf.compile: a function runs once with lazy ops (capture); later calls run the compiled result.

A call goes this way (`CompiledFunction.__call__`):

1. Its arguments give the key of its kind (arguments.py). Among the captures of that kind one is
   looked for whose guard holds (watch/guards.py): it is replayed, and no Python code runs.
2. Else the call is captured, and noted why: a value that keeps changing is a dynamic
   input from then on, which each replay is given (dynamic.py).
3. The function runs once with its ops only recorded (capture.py), while an observer sees what its
   Python code reads and changes outside (watch/observe.py).
4. What was recorded is planned as executables, which compute it for the first time: that is the
   replay (replay.py), and it is kept for the next calls.
5. Where no replay could follow, or captures never help, the function runs eagerly from then on, and
   a warning names the reason and the line.

On the CPU ops are recorded too. What a capture reads is found by storage: the tensors among the
arguments, and the function's state (parameters, moments, counters), which a replay updates where it
lies.
"""

from __future__ import annotations

import contextlib
import functools
import gc
import os
import sys
import warnings
import weakref
from collections import OrderedDict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import Any, Generic, ParamSpec, TypeVar, overload

from pyframe.capture import arguments
from pyframe.capture.arguments import CallSignature
from pyframe.capture.capture import Capture, grads_seen, user_line
from pyframe.capture.dynamic import MAX_CAPTURES, DynamicInputs, NumberArgument, UnstableInputError
from pyframe.capture.executable import SpecializedNumberError
from pyframe.capture.lengths import DimRef, ShapeFamily, SymbolicArguments, can_change, marked
from pyframe.capture.rebuild import HistoryError
from pyframe.capture.replay import (
    BadIndexError,
    CapturedRun,
    Replay,
    finish,
    operand,
    replay_of,
    settle_sizes,
)
from pyframe.core.devices import cpu, device as Device, flush, gone
from pyframe.core.locks import lock
from pyframe.core.lru import LruCache
from pyframe.core.modes import mode
from pyframe.core.packages import WRAPPERS
from pyframe.core.sizes import DynamicShapeError, size_hints
from pyframe.core.trace import flush_cpu, lazy_policy
from pyframe.core.words import plural
from pyframe.graph.program import Program
from pyframe.tensor import Tensor
from pyframe.watch import GuardSet, Observer, SideEffects, gc_paused

_CAPTURING = lock()
_alive: weakref.WeakSet[CompiledFunction] = weakref.WeakSet()

CACHE_MISS, _EAGERLY = object(), object()  # no replay fits a call, or none could

MAX_UNREADY = 4  # captures in a row that no replay could follow
MAX_SIZES = 64  # for which captures for many sizes stay bound
MAX_FAMILIES = 64  # kinds of calls, but for their sizes, of which is known which ones change
MAX_MISSES = 32  # captures in a row that were never replayed, before a function runs eagerly


class _InvalidatedReplay:
    """In the place of a replay whose guard failed as an object died; it keeps the reason."""

    hits, executables, locks, sizes = 0, (), (), None

    def __init__(self, guard: GuardSet) -> None:
        self.guard = guard

    def ready(self, args: list[Tensor], trusted: GuardSet | None) -> bool:
        return self.guard.holds()


P = ParamSpec("P")
R = TypeVar("R")


class CompiledFunction(Generic[P, R]):
    """A function whose calls are captured once and then replayed; see `compile`."""

    def __init__(self, fn: Callable[P, R], dynamic: bool | None = None) -> None:
        self.fn = fn
        # The latest used last
        self.replays: OrderedDict[CallSignature, list[Replay]] = OrderedDict()
        self.eager = ""  # why it always runs eagerly
        self.why = ""  # the latest capture was made
        self.captured = self.replayed = 0  # calls
        self.misses = 0  # captures in a row that were never replayed
        self.unready = 0  # captures in a row that no replay could follow
        self.dynamic = DynamicInputs(self._forget)
        self.proven = False  # whether a replay could follow some capture
        self.varies = dynamic  # whether sizes may be symbols: None from the third capture on
        # calls that differ in sizes alone
        self.families: LruCache[CallSignature, ShapeFamily] = LruCache(MAX_FAMILIES)
        self.offsets_matter = False  # whether views that begin elsewhere are of another kind
        self.on_device = False  # whether replays run on a GPU
        self.trusted: GuardSet | None = None  # held in the latest replay
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
        if name in ("_orig_mod", "dynamo_ctx") and hasattr(self.fn, "_modules"):
            return self.fn if name == "_orig_mod" else compile  # as libraries unwrap a module
        return getattr(self.fn, name)  # of a compiled module: parameters, train, …

    @property
    def programs(self) -> list[Program]:
        """The Programs of all captures, the latest used last."""
        all_ = [e for some in self.replays.values() for r in some for e in r.executables]
        return [e.program for e in all_ if e.program is not None]

    def explain(self) -> str:
        """Print and return what a replay relies on, why the latest capture was made, and what runs
        eagerly and why."""
        captures, replays = plural(self.captured, "capture"), plural(self.replayed, "replay")
        lines = [f"{self!r}: {self.captured} {captures}, {self.replayed} {replays}"]
        if self.eager:
            lines.append(f"runs eagerly: {self.eager}")
        if self.why:
            lines.append(f"latest capture: {self.why}")
        for source in self.dynamic.sources:
            lines.append(f"given to each replay: {source}")
        for some in self.replays.values():
            for r in some:
                lines.append(f"a capture, replayed {r.hits} {plural(r.hits, 'time')}, relies on")
                lines += [f"  {line}" for line in r.guard.lines()]
        for family in self.families.values():
            lines += family.lines()
        text = "\n".join(lines)
        print(text)
        return text

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> R:
        """Replay the call; or capture it, if none of its captures holds; or run it eagerly."""
        return self._call(args, kwargs, None)

    def again(self, *args: P.args, **kwargs: P.kwargs) -> R:
        """Replay without checking the guard again: the caller promises that nothing outside has
        changed since the last call but what tensors hold."""
        return self._call(args, kwargs, self.trusted)

    def _call(self, args: Any, kwargs: Any, trusted: GuardSet | None) -> Any:
        if self.eager or mode.capture is not None:
            return self.fn(*args, **kwargs)
        if lazy_policy.open:
            flush_cpu()
        # A replay on a GPU, and every capture, changes state that all threads share. That lock
        # comes first: what is captured may call a function that another thread replays.
        with _CAPTURING if self.on_device else self.lock, self.lock:
            out, _ = self._replay(args, kwargs, trusted)
        if out is CACHE_MISS:
            with _CAPTURING, self.lock:
                out, some = self._replay(args, kwargs, None)  # another thread may have captured it
                if out is CACHE_MISS:
                    out = self._capture(some, args, kwargs)
        return self.fn(*args, **kwargs) if out is _EAGERLY else out

    # --- 1. a replay that holds

    def _replay(
        self, args: Any, kwargs: Any, trusted: GuardSet | None
    ) -> tuple[Any, Sequence[Replay]]:
        """What a call gives, if there is a replay for it: else CACHE_MISS, and the captures of its
        kind; _EAGERLY if the function is to run as it is."""
        tensors: list[Tensor] = []
        try:
            key = self._key(args, kwargs, tensors)
        except TypeError as e:
            self._give_up(f"{e}")
            return _EAGERLY, ()
        some: Sequence[Replay] = self.replays.get(key, ())
        if not some and self.families:
            some = self._other_sizes(key, tensors)
        if some:
            flush()
            for replay in tuple(some):
                for lock in replay.locks:
                    lock.acquire()
                try:
                    if replay.ready(tensors, trusted):
                        self.replayed, self.trusted = self.replayed + 1, replay.guard
                        return replay(tensors), ()
                except BadIndexError:
                    return _EAGERLY, ()  # it says what is wrong, and where
                finally:
                    for lock in replay.locks:
                        lock.release()
        return CACHE_MISS, some

    def _other_sizes(self, key: CallSignature, tensors: list[Tensor]) -> Sequence[Replay]:
        """A capture for many sizes, bound to those of a call."""
        family = self.families.get(_loose(key))
        if family is None or not can_change(tensors):
            return ()
        shapes = [x.shape for x in tensors]
        family.patterns = [p for p in family.patterns if p.replay.guard.alive]
        views = {i for i, x in enumerate(tensors) if x._view_chain}
        found = [(p, now) for p in family.patterns if (now := p.match(shapes)) is not None
                 and not (p.replay.overwritten and views - p.views)]  # fmt: skip
        if not found:
            return ()
        fitting = [(p, now) for p, now in found if p.replay.guard.holds()]
        pattern, now = [*fitting, *found][0]
        self._keep(key, pattern.replay.at(now, views, pattern.views), bound=True)
        return self.replays[key]

    def _forget(self) -> None:
        """Drop all captures."""
        self.replays.clear()
        self.families.clear()

    def _key(self, args: Any, kwargs: Any, tensors: list[Tensor]) -> CallSignature:
        """The kind of a call. Collects its tensors, and its numbers for `dynamic`."""
        numbers: list[Any] = []
        picture = [arguments.flatten_argument(a, tensors, numbers) for a in args]
        if kwargs:
            picture += [
                (k, arguments.flatten_argument(v, tensors, numbers)) for k, v in kwargs.items()
            ]
        if self.dynamic.sources:
            picture += self.dynamic.describe(tensors)
        if self.offsets_matter:
            picture += [arguments.part_of_memory(x) for x in tensors if x._view_chain]
        if len(tensors) > 1:
            picture += arguments.shared_memory(tensors)
        kind = *arguments.modes(), *picture
        self.dynamic.present = numbers
        given = self.dynamic.numbers.get(kind, ())
        exact = [None if i in given else arguments.exact(n) for i, n in enumerate(numbers)]
        return CallSignature(kind, tuple(exact))

    # --- 2. what another capture is for

    def _capture(self, some: Sequence[Replay], args: Any, kwargs: Any) -> Any:
        """Capture a call that none of `some`, the captures of its kind, fits."""
        tensors: list[Tensor] = []
        key = self._key(args, kwargs, tensors)
        if self._decide(key, some):
            key = self._key(args, kwargs, tensors := [])
        if self.eager:
            return _EAGERLY
        family, symbolic = self._symbolic(key, tensors)
        if family.eager and not some:
            return _EAGERLY
        if symbolic is not None:
            try:
                with self._copied(tensors), Capture() as capture, symbolic.given():
                    return self._record(capture, key, tensors, args, kwargs, symbolic)
            except DynamicShapeError as e:
                family.refused = str(e)
            except BaseException:
                settle_sizes(capture)
                raise
        with self._copied(tensors), Capture() as capture:
            try:
                return self._record(capture, key, tensors, args, kwargs)
            except BaseException:
                if not capture.settled:  # an interrupt came when the function was over
                    capture.finish()
                raise

    def _family(self, key: CallSignature) -> ShapeFamily:
        """What is known of the calls that differ from one in sizes alone."""
        loose = _loose(key)
        family = self.families.get(loose) or ShapeFamily()
        self.families.put(loose, family)
        return family

    def _symbolic(
        self, key: CallSignature, tensors: list[Tensor]
    ) -> tuple[ShapeFamily, SymbolicArguments | None]:
        """What the calls that differ from one in sizes alone are known by; and symbols for those
        sizes that change, if it is time for some."""
        family = self._family(key)
        named = marked(tensors)
        self.why = family.note([x.shape for x in tensors], named) or self.why
        places: set[DimRef] = set()
        family.refused = family.refused or self.dynamic.asks_types
        parts = self.offsets_matter and any(map(arguments.is_copied, tensors))  # in their memory
        if self.varies is not False and self.proven and can_change(tensors) and not parts:
            places = family.symbols(named, self.varies is True)
        return family, SymbolicArguments(tensors, places) if places else None

    def _decide(self, key: CallSignature, some: Sequence[Replay]) -> bool:
        """Note why the call is captured, and decide what is dynamic from then on. True if it has
        another key then."""
        missed: Sequence[Any]
        if some:
            missed, hits = some[0].guard.missed, some[0].hits
            self.why = some[0].guard.why or "its memory is used in another way"
        else:
            missed, hits = self._other_numbers(key)
            self.why = f"{missed[0][0]} is another" if missed else "first call of its kind"
        if "guards" in os.environ.get("PYFRAME_DEBUG", "").split(","):
            print(f"pyframe: {self!r} is captured: {self.why}", file=sys.stderr)
        try:
            return self.dynamic.decide(missed, hits)
        except UnstableInputError:
            self._give_up(f"{self.why}: it is another in every call")
            return False

    def _other_numbers(self, key: CallSignature) -> tuple[list[Any], int]:
        """The numbers among the arguments that are others than in the latest capture, and how often
        that was replayed."""
        last = next(reversed(self.replays), None)
        if last is None or last.picture != key.picture or len(last.numbers) != len(key.numbers):
            return [], 0
        pairs = enumerate(zip(key.numbers, last.numbers, strict=True))
        differ = [NumberArgument(key.picture, i) for i, (new, old) in pairs if new != old]
        return [(at, 0, 0) for at in differ], sum(r.hits for r in self.replays[last])

    @contextlib.contextmanager
    def _copied(self, tensors: list[Tensor]) -> Iterator[None]:
        """Within it views among the arguments are operands with memory of their own, as what they
        show lies elsewhere in each call."""
        views = [] if self.offsets_matter else [x for x in tensors if arguments.is_copied(x)]
        flush()
        nodes = [x._value() for x in views]
        for x, node in zip(views, nodes, strict=True):
            node.data = x.device.executor.apart(x)
        try:
            yield
        finally:
            for node in nodes:
                node.data = None

    # --- 3. the function runs, recorded and observed

    def _record(
        self, capture: Capture, key: CallSignature, tensors: list[Tensor], args: Any, kwargs: Any,
        symbolic: SymbolicArguments | None = None,
    ) -> Any:  # fmt: skip
        """Run the function with its ops only recorded, and keep a replay if there can be one."""
        self.captured += 1
        cpu.executor  # noqa: B018  (opening a device sets much, and nothing that a function does)
        if any(x.device is cpu for x in tensors):
            cpu.backend.limits  # noqa: B018  (nor does finding a compiler)
        flush()
        before = list(map(operand, tensors))
        chains = [(x._storage, x._view_chain, x._needs_grad) for x in tensors]
        observer = Observer(self.fn, self.dynamic.stand_ins())
        inputs = self.dynamic.inputs_of(observer.stand_ins, key.picture)
        refused, error = "", None  # why the dynamic inputs were of no use
        capture.sizes = None if symbolic is None else symbolic.sizes
        with self._recording(capture, observer, shares=not inputs):
            try:
                observer.discover_arguments(args, kwargs)
                used = self.dynamic.with_symbols(key.picture, args, kwargs)
                observer.numbered = symbolic is not None or key.picture in self.dynamic.numbers
                observer.give()
                with capture.watching:
                    capture.watching.enter_context(observer.watching())
                    capture.watching.enter_context(grads_seen())
                    result = self.fn(*used[0], **used[1])
            except BaseException as e:
                sized = symbolic is not None and isinstance(e, (Exception, DynamicShapeError))
                if not sized and (capture.broken or not inputs or not isinstance(e, Exception)):
                    if not capture.broken:
                        capture.finish()
                    raise
                error = e
                what = f"a {'size' if sized else 'number'} that changes ({type(e).__name__}: {e})"
                refused = f"{user_line(e)} can't take {what}"
                if isinstance(e, DynamicShapeError):
                    refused = str(e)
            else:
                self.dynamic.asks_types = self.dynamic.asks_types or observer.asks
                given = bool(inputs) or symbolic is not None
                refused = observer.asks if given and not capture.broken else ""
        if symbolic is not None and refused:  # it is captured again for this size alone
            if error is not None:
                error.__traceback__ = None  # what its frames hold would be outside
            boxes = (f"it has changed {source}" for source, *_ in observer.changed_boxes())
            lasting = observer.finish(None).refused or next(boxes, "")
            self._undo(capture, observer)
            if lasting:
                raise RuntimeError(
                    f"{self!r} can't be captured for many sizes: {refused}; and it is not run "
                    f"again, as {lasting}: compile it with dynamic=False"
                ) from error
            raise DynamicShapeError(refused)
        if refused:  # all is as it was before the run; what is wrong may be the function's own
            self._undo(capture, observer)
            result = self.fn(*args, **kwargs)
            self._broken(refused, inputs, key)
            return result
        if capture.broken:
            if inputs:  # which the run may have put where it stays
                observer.settle(observer.finish(result).effects)
            self._broken(capture.broken, inputs, key)
            return observer.without_symbols(result)
        gc.collect(1)  # what only a cycle of dead objects of the run holds would be computed
        found = observer.finish(result)
        sizes = None if symbolic is None else symbolic.sizes
        run = CapturedRun(capture, observer, tensors, before, chains, result, found.effects, sizes)
        if symbolic is not None and symbolic.writes_a_view(capture.written.keys()):
            self._family(key).refused = "it writes to an argument that is a view"
            finish(run)
            observer.settle(found.effects)
        elif found.refused or found.changed:
            finish(run)
            self._refused(found)
            observer.settle(found.effects)
        elif found.disturbed:  # the next call is captured
            finish(run)
        else:
            self.unready = 0
            observer.restore()
            if not self._plan(run, key, inputs, args, kwargs, symbolic):
                return _EAGERLY
        return observer.without_symbols(result)

    def _undo(self, capture: Capture, observer: Observer) -> None:
        capture.undo()
        if capture.sizes is not None:
            settle_sizes(capture)
        observer.undo()
        observer.restore()

    @contextlib.contextmanager
    def _recording(self, capture: Capture, observer: Observer, shares: bool) -> Iterator[None]:
        """Within it ops are recorded. Where the capture ends early, the rest of the function may
        wait for other threads: if it `shares` its values it runs without a lock."""
        locked = True

        def go_on() -> None:
            nonlocal locked
            if shares:
                capture.watching.close()
                locked = False
                self.lock.release()
                _CAPTURING.release()

        mode.capture, capture.go_on = capture, go_on
        try:
            yield
        finally:
            mode.capture = None
            if not locked:
                _CAPTURING.acquire()
                self.lock.acquire()
            observer.take_back()

    # --- 4. the replay

    def _plan(
        self, run: CapturedRun, key: CallSignature, inputs: list[Any], args: Any, kwargs: Any,
        symbolic: SymbolicArguments | None,
    ) -> bool:  # fmt: skip
        """Compute what was recorded, by a replay that is kept if there can be one; False if the
        call is to run eagerly from its beginning."""
        capture, observer = run.capture, run.observer
        try:
            with gc_paused():  # it makes much that stays, among which there is little garbage
                replay = replay_of(run)
        except BadIndexError:
            capture.undo()
            observer.undo()
            run.effects.clear()
            return False
        except DynamicShapeError:
            self._undo(capture, observer)
            raise
        except (HistoryError, RecursionError, SpecializedNumberError) as e:
            finish(run)
            if isinstance(e, SpecializedNumberError):
                if symbolic is None:
                    self._broken(f"{e} the value of a number that changes", inputs, key)
                else:
                    self._family(key).refused = f"{e} a size that changes"
                return True
            known = isinstance(e, HistoryError)
            what = str(e) if known else "returns or keeps an object that holds itself"
            self._give_up(f"{_defined(self.fn)} {what}")
            return True
        except BaseException as e:
            if symbolic is not None and isinstance(e, Exception) and not run.started:
                finish(run)  # each size is captured from now on
                self._family(key).refused = f"{type(e).__name__}: {e}"
                return True
            capture.undo()
            if isinstance(e, IndexError) and capture.checks is not None:  # see `Replay._compute`
                capture.checks.look(int(capture.checks.flag._storage.node.data))
            raise
        finally:
            observer.settle(run.effects)
        capture.settled = True
        if replay.offsets_matter and not self.offsets_matter:
            self.offsets_matter = True
            key = size_hints(self._key(args, kwargs, []))
        if symbolic is not None:
            replay = self._keep_pattern(key, replay, symbolic)
        self._keep(key, replay)
        return True

    def _keep_pattern(
        self, key: CallSignature, replay: Replay, symbolic: SymbolicArguments
    ) -> Replay:
        """Remember a capture for many sizes; what it is for those of the call at hand."""
        family = self._family(key)
        pinned = symbolic.pinned()
        family.fixed |= pinned
        if len(pinned) < len(symbolic.places) and not replay.offsets_matter:
            family.patterns.insert(0, symbolic.pattern(replay))
        return replace(replay, specs=size_hints(replay.specs), now=symbolic.sizes.now)

    def _keep(self, key: CallSignature, replay: Replay, bound: bool = False) -> None:
        """Remember a capture, or one that is `bound` to other sizes, and forget the oldest ones."""
        self.on_device = self.on_device or replay.on_device
        some = self.replays.setdefault(key, [])
        self.replays.move_to_end(key)
        self.proven = True
        if not bound:
            self.misses = 0 if any(r.hits for r in some) else self.misses + 1
        some[:] = [r for r in some if not isinstance(r, _InvalidatedReplay)]
        some.insert(0, replay)
        ref = weakref.ref(replay)

        def died() -> None:
            r = ref()
            if r is not None and r in some:
                some[some.index(r)] = _InvalidatedReplay(r.guard)  # type: ignore[call-overload]

        replay.guard.died = died
        for sized, most in ((False, MAX_CAPTURES), (True, MAX_SIZES)):
            known = [(k, r) for k, some in self.replays.items() for r in reversed(some)
                     if (r.sizes is not None) == sized]  # fmt: skip
            for k, r in known[: max(len(known) - most, 0)]:
                self.replays[k].remove(r)
                if not self.replays[k]:
                    del self.replays[k]
        family = self.families.get(_loose(key))
        if self.misses > MAX_MISSES and family is not None and family.changing:
            family.eager, self.misses = True, 0
            self._warn(
                f"runs eagerly for sizes that were not captured: {family.why_eager()}; to keep it "
                "fast, pad it to one of a few sizes, take x.shape[0] for len(x), or leave what "
                "depends on it to tensors (a cache that grows by cat can have its whole length "
                "from the start and be written by cache.index_copy_(1, position, new), where the "
                "position is a tensor)"
            )
        elif self.misses > MAX_MISSES:
            self._give_up(
                f"of the last {MAX_MISSES} captures none could be replayed: its arguments that "
                "are no tensors, or what it reads from outside, change with every call"
            )

    # --- 5. why it runs eagerly

    def _broken(self, why: str, inputs: list[Any], key: CallSignature) -> None:
        """A run went on eagerly from some line on."""
        if not self.dynamic.withdraw(inputs, key.picture):
            self._give_up(f"{why}: {' or '.join(map(str, inputs))}" if inputs else why)

    def _refused(self, found: SideEffects) -> None:
        """No replay can follow a run: make what it changed dynamic, or run eagerly."""
        if found.refused:
            self._give_up(found.refused)
            return
        known = {p.id() for p in self.dynamic.sources}
        sources = [p for p, old, new in found.changed
                  if self.dynamic.can_be_dynamic(p, old, new) and p.id() not in known]  # fmt: skip
        for p in sources:
            self.dynamic.make_dynamic(p)
        self.unready += 1  # what is made once is there the second time
        rest = [c for c in found.changed if c[0] not in sources]
        if self.unready > (1 if rest else MAX_UNREADY):
            self._give_up(f"it changes {(rest or found.changed)[0]}, as no replay would")

    def _give_up(self, why: str) -> None:
        """Run eagerly from now on, and warn the line that calls the function."""
        self.eager = why
        self._forget()
        self._warn(
            f"runs eagerly: {why}; to keep it fast, pass what changes as an argument or a tensor"
        )

    def _warn(self, why: str) -> None:
        """Warn the line that calls the function."""
        level, frame = 2, sys._getframe(1)
        while (
            frame.f_back is not None
            and frame.f_code.co_filename == CompiledFunction._warn.__code__.co_filename
        ):
            level, frame = level + 1, frame.f_back
        warnings.warn(f"pf.compile: {self!r} {why}", RuntimeWarning, stacklevel=level)


WRAPPERS.append(CompiledFunction)


def _forget(d: Device) -> None:
    """Drop the captures that run on a device whose memory is gone."""
    for compiled in list(_alive):
        for key, some in list(compiled.replays.items()):
            some[:] = [r for r in some if all(e.device is not d for e in r.executables)]
            if not some:
                compiled.replays.pop(key, None)


gone.append(_forget)


def _loose(key: CallSignature) -> CallSignature:
    return CallSignature(arguments.erase_sizes(key.picture), key.numbers)


def _defined(fn: Any) -> str:
    """Where a function is defined."""
    code = getattr(getattr(fn, "__func__", fn), "__code__", None)
    return f"{code.co_filename}:{code.co_firstlineno}" if code else "it"


@overload
def compile(
    fn: Callable[P, R], *, fullgraph: bool = False, dynamic: bool | None = None,
    backend: Any = None, mode: str | None = None, options: Any = None, disable: bool = False,
) -> CompiledFunction[P, R]: ...  # fmt: skip
@overload
def compile(
    fn: None = None, *, fullgraph: bool = False, dynamic: bool | None = None,
    backend: Any = None, mode: str | None = None, options: Any = None, disable: bool = False,
) -> Callable[[Callable[P, R]], CompiledFunction[P, R]]: ...  # fmt: skip
def compile(
    fn: Callable[..., Any] | None = None, *, fullgraph: bool = False, dynamic: bool | None = None,
    backend: Any = None, mode: str | None = None, options: Any = None, disable: bool = False,
) -> Any:  # fmt: skip
    """`fn` captured at its first call and replayed at the next ones, which run no Python.

    It may be a whole training step, with backward() and optimizer.step(). Arguments may be tensors
    (in lists, tuples and dicts too): calls with other shapes, dtypes or devices, or other Python
    arguments are captured apart. What the Python code reads from outside (globals, attributes,
    containers, modules) is looked at before each replay: where it is another it is captured again,
    and a number or a tensor that keeps changing is given to each replay. What it writes outside is
    written by each replay. Where that is impossible (a tensor's value is read in the middle, a list
    grows, random numbers are drawn on the host) it runs eagerly, and a RuntimeWarning names the
    line. `explain()` tells of all this.

    Sizes that were two others before are symbols in the third capture, which then is for all sizes
    for which its comparisons of sizes give the same answers (also on a GPU, and in a page).
    With `dynamic=True` all are, and those that `mark_dynamic` names, as soon as one call has shown
    that replays can follow; with False none is. A number that Python itself wants of a size, as
    `range()` and `len()` do, is captured for each size. TypeError for another `dynamic`. PyTorch's
    other options are accepted; of them `disable` alone has an effect.

    Args:
        fn: A function or a Module; None for a decorator.
        fullgraph, backend, mode, options: Those other options.

    >>> @pf.compile
    ... def double(x):
    ...     return x * 2
    >>> double(pf.tensor([1.0, 2.0]))
    tensor([2., 4.])
    """
    if dynamic is not None and type(dynamic) is not bool:
        raise TypeError(f"compile: expected True, False or None for dynamic, got {dynamic!r}")
    if fn is None:
        return functools.partial(compile, disable=disable, dynamic=dynamic)
    return fn if disable else CompiledFunction(fn, dynamic)
