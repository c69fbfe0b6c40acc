"""Observer: finds what one run of a function reads and changes outside, besides tensors.

While a capture runs, each frame of a user's code is looked at as it starts: its globals and cells
are Sources from then on, and what lies there is outside (tracked.py). When the run is over, what it
has changed is found: a replay puts it there again, or can't follow. What it has read and left as it
was becomes part of a GuardSet.
"""

from __future__ import annotations

import builtins
import collections
import contextlib
import gc
import os
import pickle
import random
import sys
import types
import weakref
from collections.abc import Callable, Iterable, Iterator
from typing import Any, NamedTuple

import numpy as np

from pyframe.core.objects import attributes
from pyframe.core.packages import FORWARD
from pyframe.core.sizes import SymbolicSize, size_hint
from pyframe.core.symbolic import SymbolicArray, SymbolicScalar
from pyframe.tensor import Tensor
from pyframe.watch import sources as _sources
from pyframe.watch.frames import nested, observe_frames, scan
from pyframe.watch.guards import GuardSet
from pyframe.watch.origin import is_library, is_ours, line_of
from pyframe.watch.sources import ATTR, GLOBAL, MISSING, Source, contents, same
from pyframe.watch.tracked import (
    ATOMIC_TYPES,
    OVERRIDES,
    ExternalState,
    InputPlaceholder,
    StateAccess,
)

Effect = tuple[Source, Any]  # where, and what the run has put there


class Change(NamedTuple):
    """What the run has changed: where, what lay there before it, and what lies there now."""

    source: Source
    before: Any
    after: Any

    def __str__(self) -> str:
        return f"{self.source} from {_sources.shown(self.before)} to {_sources.shown(self.after)}"


class SideEffects(NamedTuple):
    """What a run did outside."""

    refused: str  # why no replay may follow it
    changed: list[Change]  # sources that it read and changed
    effects: list[Effect]  # sources that it wrote to
    disturbed: bool = False  # whether another thread has set a dynamic input


class Observer(ExternalState):
    """Sees one run of a function."""

    def __init__(self, fn: Callable[..., Any], stand_ins: dict[Any, InputPlaceholder]) -> None:
        """`stand_ins`: what stands in this run for the dynamic inputs, by their sources'
        ids."""
        super().__init__(stand_ins)
        self.fn = fn
        self.numbered = False  # whether numbers among the arguments are dynamic
        self.codes: dict[tuple[int, int], types.CodeType] = {}  # and with which globals they ran
        self.inner: set[int] = set()  # the ids of code within functions that ran
        self.collected = False  # garbage, in this run
        self.drawn_at: Any = None  # where `random` is first named
        self.asks = ""  # where code asks for types: what stands for a number has another one
        self.after: dict[Any, Any] = {}  # at the end of the run: the values of the dynamic inputs
        self.steady: list[StateAccess] = []  # at the end: those that were read and are as they were
        self.drawn_from(random.getstate, "random")
        self.drawn_from(lambda: np.random.get_state(legacy=False), "np.random")
        with self.look_at("the function"):
            self.discover(fn, getattr(fn, "__name__", "the function"))

    def discover_arguments(self, args: Any, kwargs: Any) -> None:
        """What the function is called with, besides tensors and numbers, lies outside."""
        code = getattr(getattr(self.fn, "__func__", self.fn), "__code__", None)
        names = code.co_varnames[: code.co_argcount] if code else ()
        self.in_arguments = True
        with self.look_at("the arguments"):
            self.line = code and (code.co_filename, code.co_firstlineno)
            for i, x in enumerate(args):
                self.discover(x, names[i] if i < len(names) else f"argument {i}")
            for name, x in kwargs.items():
                self.discover(x, name)
        self.in_arguments = False

    # --- dynamic inputs, before and after the run

    def give(self) -> None:
        """Let the stand-ins lie where the values do; attributes are answered by their classes."""
        for source, given, before in self.stand_ins.values():
            if given is not before and not self.answers(source):
                source.put(given)
            elif source.how == ATTR and source.get() is not before:  # since it was asked for
                self.set_elsewhere.add((id(source.held()), source.key))

    def take_back(self) -> None:
        """Let the values lie where they lay, but for what the run has put there."""
        for source, given, before in self.stand_ins.values():
            if given is not before and source.get() is given:
                source.put(before)

    def restore(self) -> None:
        """Let dynamic inputs be as before the run: the first run of the Program asks for it. What
        another thread has set since the run stays."""
        for i, (source, _, before) in self.stand_ins.items():
            if source.get() is self.after.get(i, before):
                source.put(before)

    def close(self) -> None:
        """The function has returned: what is set from here on, another thread sets."""
        self.after = {i: source.get() for i, (source, _, _) in self.stand_ins.items()}
        self.unhook()

    def undo(self) -> None:
        """Let the sources that were seen hold what they held before the run."""
        for e in self.entries.values():
            if e.source.get() is not e.before and e.source.is_writable():
                e.source.put(e.before)

    def settle(self, effects: list[Effect]) -> None:
        """Put where it belongs what the run has put there, and nothing symbolic."""
        for source, value in effects:
            plain = self.without_symbols(value)
            if plain is not value or source.id() in self.stand_ins:
                source.put(plain)

    def without_symbols(self, x: Any, around: tuple[int, ...] = ()) -> Any:
        """What the run has made, with what is symbolic in it replaced by its value, in place.
        There is nothing symbolic in what lies outside."""
        if type(x) is SymbolicScalar:
            return x._hint
        if type(x) is SymbolicSize:
            return size_hint(x)
        if type(x) is SymbolicArray:
            return x.array
        if (not self.stand_ins and not self.numbered) or id(x) in around:
            return x
        if isinstance(x, (Tensor, type, types.FunctionType, *ATOMIC_TYPES)) or self.has(x):
            return x
        inner = (*around, id(x))
        if isinstance(x, tuple):
            parts = [self.without_symbols(v, inner) for v in x]
            if all(a is b for a, b in zip(parts, x, strict=True)):
                return x
            return type(x)(*parts) if hasattr(x, "_fields") else type(x)(parts)
        if isinstance(x, (list, collections.deque)):
            for i, v in enumerate(x):
                x[i] = self.without_symbols(v, inner)
        own = x if isinstance(x, dict) else _fields(x)
        for k, v in list(own.items()):
            own[k] = self.without_symbols(v, inner)
        return x

    # --- frames, as they start

    @contextlib.contextmanager
    def watching(self) -> Iterator[None]:
        """Within it, the observer sees what this thread runs."""
        try:
            with observe_frames(self):
                yield
        finally:
            self.close()

    def enter(self, frame: types.FrameType) -> None:
        """A frame of a user's code starts."""
        code = frame.f_code
        key = id(code), id(frame.f_globals)
        if key in self.codes or self.looking:
            return
        if code.co_filename.startswith("<"):  # of dataclasses and named tuples: whose is it?
            module = frame.f_globals.get("__name__", "")
            if module.startswith("namedtuple_") or is_library(module):
                return
        if _imports(frame):
            return
        self.codes[key] = code
        with self.look_at(code.co_name):
            self._enter(frame, code)

    def _enter(self, frame: types.FrameType, code: types.CodeType) -> None:
        found, file = scan(code), code.co_filename
        self.inner.update(map(id, nested(code)))
        self.add_names(found.names, found.maybe, found.catches, found.whole)
        if found.random and self.drawn_at is None:
            self.drawn_at = file, found.random
        names = frame.f_globals
        for name, line in found.globals.items():
            self.line = file, line
            self._global(names, name, found.names)
        for name, line in found.stored.items():
            self.line = file, line
            self.touch(GLOBAL, names, name, name, read=False)
        for name in found.imports:
            module = self.touch(GLOBAL, sys.modules, name, name)
            if isinstance(module, types.ModuleType) and is_library(module.__name__):
                self._of_library(module, found.names)
        self.line = file, code.co_firstlineno
        if code.co_freevars:
            self._cells(code)
        if code.co_argcount:
            self._method(frame.f_locals.get(code.co_varnames[0]), code)

    def _global(self, names: dict[str, Any], name: str, attribute_names: frozenset[str]) -> None:
        """Code reads a global, or a builtin where there is none."""
        value = self.touch(GLOBAL, names, name, name)
        if value is MISSING:
            self.touch(GLOBAL, vars(builtins), name, name)
        if name == "type" and value is MISSING and not self.asks:
            file, line = self.line
            self.asks = f"{file}:{line} asks for types, which a number that changes has not:"
        if name == "globals" and value is MISSING:
            self.asked.append((lambda: len(names), len(names), "globals()"))
            for k in list(names):
                self.touch(GLOBAL, names, k, k)
        if isinstance(value, types.ModuleType) and is_library(value.__name__):
            self._of_library(value, attribute_names)

    def _of_library(self, module: types.ModuleType, names: frozenset[str]) -> None:
        """Code names attributes of a library's module, which a program may replace."""
        _, known = self.libraries.setdefault(id(module), (module, set()))
        fresh = {n for n in names - known if n[:2] != "__"}
        known |= fresh
        for n in fresh & vars(module).keys():
            value = vars(module)[n]
            if value is os.getenv:
                self.discover(os.environ, "os.environ")
            self.answer(value, f"{module.__name__}.{n}")  # also of a class
            if isinstance(value, types.ModuleType):
                if is_library(value.__name__):
                    self._of_library(value, names)
            elif value is not sys.modules and not is_ours(module.__name__):
                self.touch(ATTR, module, n, f"{module.__name__}.{n}")

    def _look_at_libraries(self) -> None:
        """What was read of the modules of libraries lies there in each replay; of ours some is
        there since it was read first. So it is with the functions that layers call."""
        for module, names in self.libraries.values():
            some = names & vars(module).keys()
            for n in some | self.maybe_names:
                value = self.touch(ATTR, module, n, f"{module.__name__}.{n}")
                for c in getattr(value, "__mro__", ()) if is_ours(module.__name__) else ():
                    if FORWARD in c.__dict__:  # of a layer that the run makes
                        self._touch_in_class(c, FORWARD)
                        break
        for n in self.attribute_names & vars(Tensor).keys():
            if n[:2] != "__":
                self.touch(ATTR, Tensor, n, f"Tensor.{n}")
        for c in self.overridden:
            self.touch(ATTR, c, "__getattribute__", f"{c.__name__}.__getattribute__")
        for f in self.layers:
            found = scan(f.__code__)
            for name in found.globals:
                module = f.__globals__.get(name)
                if isinstance(module, types.ModuleType):
                    for n in found.names & vars(module).keys():
                        self.touch(ATTR, module, n, f"{module.__name__}.{n}")

    def _cells(self, code: types.CodeType) -> None:
        """Code with free variables runs. The function that it is of is not told: what is in the
        cells of each function of this code is known from now on."""
        self.ran.add(id(code))
        functions = self.functions.get(id(code), [])
        if not functions and id(code) not in self.inner:  # it came in a way that was not seen
            if not self.collected and len(_functions_of(code)) > 1:
                self.collected = True
                gc.collect()  # else the end of one that is dead already would end the replay
            functions = _functions_of(code)
        for f in functions:
            self.touch_cells(f)

    def _method(self, owner: Any, code: types.CodeType) -> None:
        """A method is looked up in its class, by special names too."""
        kinds = type(owner).__mro__
        for c in (*owner.__mro__, *kinds) if isinstance(owner, type) else kinds:
            found = c.__dict__.get(code.co_name) if code.co_name not in OVERRIDES else None
            if getattr(getattr(found, "fget", found), "__code__", None) is code:
                self.touch(ATTR, c, code.co_name, f"{c.__name__}.{code.co_name}")
                break

    def impure(self, name: str, frame: types.FrameType) -> None:
        """What is called there gives something else at each call."""
        if not self.looking and not _imports(frame):
            self.line = line_of(frame)
            self.refuse(f"calls {name}, which no replay does")

    # --- the end: what the run has changed

    def finish(self, result: Any) -> SideEffects:
        """What the run did outside, once `result` and the capture alone hold what it made."""
        found = SideEffects("", [], [])
        with self.look_at("what the run has changed"):
            found = self._finish(result)
        return found._replace(refused=self.refused)

    def _finish(self, result: Any) -> SideEffects:
        self._refuse_drawn()
        self._look_at_libraries()
        changed = self._changed_arrays()
        effects, disturbed = [], False
        for i, (source, given, before) in self.stand_ins.items():
            after = self.after[i]
            if after is not before and after is not given:
                effects.append((source, after))
                disturbed |= (id(source.held()), source.key) in self.set_elsewhere
        known = self.entries.keys() | self.stand_ins.keys()
        for e in self.entries.values():
            after = e.source.get()
            if not e.read:
                effects.append((e.source, after))
            elif same(e.before, after):
                self.steady.append(e)
            else:
                changed.append(Change(e.source, e.before, after))
        effects += self._set_unseen(known)
        changed += self._added_names(known)
        changed += self.changed_boxes()
        count = len(self.entries)
        self._meet_strangers(result, [v for _, v in effects])
        self.steady += list(self.entries.values())[count:]
        return SideEffects(self.refused, changed, effects, disturbed)

    def _refuse_drawn(self) -> None:
        """Refuse what was drawn, or read to its end, or has another answer now."""
        for state, drawn, name, line in self.random:
            if pickle.dumps(state()) != drawn:
                self.line = line or self.drawn_at
                self.refuse(f"draws from {name}, as no replay would")
        for name, line in self.iterators:
            self.line = line
            self.refuse(f"draws from {name}, as no replay would")
        for get, answer, name in self.asked:
            if get() != answer:
                self.refuse(f"changes {name}, as no replay would")

    def _changed_arrays(self) -> list[Change]:
        """The arrays that are too large to compare; others must be as they were."""
        large: list[Change] = []
        for x, before, source in self.arrays.values():
            if before is None:
                large.append(Change(source, x, x))
            elif x.tobytes() != before:
                self.refuse(f"changes the array {source}, as no replay would")
        return large

    def _set_unseen(self, known: set[Any]) -> Iterator[Effect]:
        """Attributes that were set without the class being told."""
        for x, before in self.attributes_before.values():
            after = attributes(x)
            for n in before.keys() | after.keys():
                if (id(x), n) in self.set_elsewhere:
                    continue
                source = Source(ATTR, x, n, f"{self.names[id(x)]}.{n}")
                value = after.get(n, MISSING)
                if value is not before.get(n, MISSING) and source.id() not in known:
                    yield source, value

    def _added_names(self, known: set[Any]) -> Iterator[Change]:
        """Names that the run has added to modules, classes, functions and tensors."""
        for x in [*self.spaces, *[x for x in self.objects.values() if isinstance(x, Tensor)]]:
            own = attributes(x)
            for n in (self.attribute_names & own.keys()) - OVERRIDES:
                if (id(x), ATTR, n) not in known:
                    yield Change(Source(ATTR, x, n, f"{self.name_of(x)}.{n}"), MISSING, own[n])

    def changed_boxes(self) -> Iterator[Change]:
        """Items that were replaced, and containers that were changed otherwise."""
        for box, old, of, line in self.boxes.values():
            new = contents(box)
            if len(new) == len(old) and all(map(same, old, new)):
                continue
            keys = len(old) // 2 if isinstance(box, dict) else 0
            where = of or Source(GLOBAL, {}, None, self.names[id(box)], line)
            if len(new) != len(old) or not all(map(same, old[:keys], new[:keys])) or of is None:
                yield Change(where, _sources.entries(len(old)), _sources.entries(len(new)))
                continue
            for i, (x, y) in enumerate(zip(old, new, strict=True)):
                if not same(x, y):
                    item = _sources.item_of(of, _sources.key_at(box, i, len(new)))
                    if item.id() not in self.stand_ins:
                        yield Change(item, x, y)

    def _meet_strangers(self, result: Any, effects: list[Any]) -> None:
        """Objects that were read, are alive, and were not made by the run: they lie outside too."""
        own: set[int] = set()
        todo = [result, effects]
        while todo:
            x = todo.pop()
            if id(x) in own or isinstance(x, (Tensor, *ATOMIC_TYPES)) or id(x) in self.objects:
                continue
            own.add(id(x))
            todo += (
                contents(x)
                if isinstance(x, _sources.CONTAINER_TYPES)
                else list(_fields(x).values())
            )
        for ref, names in list(self.strangers.values()):
            x = ref()
            if x is None or id(x) in own:
                continue
            self.objects[id(x)] = x
            self.names[id(x)] = type(x).__name__
            for n, read in names.items():
                if read:
                    self.touch_attribute(x, n, True)
                else:
                    self.refuse(f"sets {type(x).__name__}.{n}, as no replay would")
            x = None

    # --- the end: what a replay can do with its results

    @staticmethod
    def is_constant(x: Any) -> bool:
        """Whether each call would give `x` itself, or what can't be told from it."""
        if isinstance(x, types.FunctionType):
            return not x.__closure__ and not x.__defaults__
        return x is MISSING or isinstance(
            x, (*ATOMIC_TYPES, types.ModuleType, type, types.BuiltinFunctionType)
        )

    # --- the end: what a replay relies on

    def guard(self, tensors: list[Tensor], args: set[int]) -> GuardSet:
        """What has to hold before each replay, of `tensors` and of those that were seen; those
        with the ids `args` are given to each replay."""
        opened = set()  # containers of dynamic inputs
        for source, *_ in self.stand_ins.values():
            while source.how == _sources.ITEM:
                source = source.holder
                opened.add(source.id())
        out = GuardSet()
        ran = {id(c) for c in self.codes.values()}
        found: list[tuple[Source, Any]] = []
        for e in self.steady:
            holder = e.source.holder
            is_function = isinstance(holder, types.FunctionType) and e.source.how != ATTR
            if not is_function or id(holder.__code__) in ran:  # else its cells don't matter
                found += self._within(e.source, e.before, opened, out)
        for o in self.optimizers:  # as they are after the first step
            out.watch_optimizer(o, self.names[id(o)])
        for answer in self.asked:
            out.ask(*answer)
        out.watch_sizes([x for x in self.spaces if isinstance(x, type) or self.whole])
        out.arrays = [(weakref.ref(x), b, p) for x, b, p in self.arrays.values() if b is not None]
        states = {id(x) for o in self.optimizers for s in o.state.values() for x in s.values()}
        known = {id(x): x for x in tensors if id(x) not in states}
        known |= {i: x for i, x in self.objects.items() if isinstance(x, Tensor) and i not in args
                  and x._grad_fn is None and not x._view_chain}  # fmt: skip
        out.watch(found)
        out.watch_tensors(known.values(), "the memory or requires_grad of a tensor")
        out.settle()
        return out

    def _within(
        self, source: Source, value: Any, opened: set[Any], out: GuardSet
    ) -> Iterable[tuple[Source, Any]]:
        """A value to be compared; of containers that hold a dynamic input, all else in them."""
        if source.id() not in opened:
            yield source, value
            return
        source.let_go()
        out.ask(lambda: len(source.get()), len(value), source.name)
        for key in value if isinstance(value, dict) else range(len(value)):
            item = _sources.item_of(source, key)
            if item.id() not in self.stand_ins:
                yield from self._within(item, item.get(), opened, out)


def _functions_of(code: types.CodeType) -> list[types.FunctionType]:
    return [f for f in gc.get_referrers(code) if type(f) is types.FunctionType]


def _imports(frame: types.FrameType) -> bool:
    """Whether it runs for an import: what a hook of imports does is not the function's own."""
    caller = frame.f_back
    while caller is not None:
        if caller.f_code.co_filename.startswith("<frozen importlib"):
            return True
        caller = caller.f_back
    return False


def _fields(x: Any) -> dict[str, Any]:
    own = attributes(x)
    return own if isinstance(own, dict) and not isinstance(x, types.FunctionType) else {}
