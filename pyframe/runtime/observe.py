"""What the Python code of a captured function reads and changes outside, besides tensors.

While a capture runs, each frame of a user's code is looked at as it starts: its globals and cells
are Places from then on. Whatever lies there is *outside*: containers are watched by what they hold,
and the classes of other objects tell of each attribute that is read or set (`_hook`), whoever reads
it. So what is known is what was read in this run, and no more, but for containers.
"""

from __future__ import annotations

import array
import collections
import contextlib
import contextvars
import enum
import functools
import gc
import io
import os
import pickle
import random
import sys
import threading
import types
import weakref
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import numpy as np

from pyframe.core import dtypes as dt
from pyframe.core.devices import device as Device
from pyframe.core.modes import mode
from pyframe.core.symbolic import SymbolicArray, SymbolicScalar
from pyframe.runtime.frames import (
    DEPENDENCIES,
    FILES,
    OURS,
    line_of,
    nested,
    scan,
    shown_to,
    spot,
)
from pyframe.runtime.guards import Guard
from pyframe.runtime.known import (
    FORWARD,
    HOOKS,
    HOOKS_ON_ALL,
    MEMBERS,
    NOT_OPTIMIZERS,
    OBJECTS,
    OPTIMIZERS,
    OPTIMIZERS_CODE,
    PROGRAMS,
    USER,
    WRAPPERS,
    InDict,
)
from pyframe.runtime.places import (
    ATTR,
    BOXES,
    CELL,
    GLOBAL,
    ITEM,
    MISSING,
    SLOT,
    VAR,
    Place,
    attributes,
    contents,
    entries,
    is_python,
    item_name,
    item_of,
    key_at,
    same,
)
from pyframe.tensor import Tensor

MOST = 20_000  # values that a replay may look at
SMALL = 1 << 16  # bytes of an array that a replay may compare

# --- what is where

_OBJECTS = tuple(f"pyframe.{name}." for name in OBJECTS)
_ATOMS = (
    int, float, complex, str, bytes, type(None), type(Ellipsis), slice, range, np.generic, np.dtype,
    np.ufunc, dt.dtype, Device, types.CodeType, enum.Enum, property,
)  # fmt: skip
_WHOLE = {"__dict__", "__reduce_ex__", "__reduce__", "__getstate__"}
_HOOKS = {"__getattribute__", "__setattr__", "__delattr__"}
_RANDOM = (np.random.Generator, np.random.RandomState, random.Random)
_SILENT = {  # modules of the standard library whose objects don't matter to numbers
    "logging", "io", "typing", "abc", "contextlib", "enum", "warnings", "functools", "_io",
    "asyncio", "unittest", "inspect", "ast", "traceback", "importlib",
}  # fmt: skip


class _Entry:
    """A Place, what lay there before, and whether that was read (or just written over)."""

    __slots__ = ("before", "place", "read")

    def __init__(self, place: Place, before: Any, read: bool) -> None:
        self.place, self.before, self.read = place, before, read


class StandIn(NamedTuple):
    """What stands for a value that is fed while a function is captured."""

    place: Place
    given: Any  # the value itself, where it is a tensor
    value: Any


class Found(NamedTuple):
    """What a run did outside."""

    refused: str  # why no replay may follow it
    changed: list[tuple[Place, Any, Any]]  # places that it read and changed: before, after
    effects: list[tuple[Place, Any]]  # places that it wrote to, and what lies there now


class Observer:
    """Sees one run of a function."""

    def __init__(self, fn: Callable[..., Any], fed: dict[Any, StandIn]) -> None:
        """`fed`: what stands in this run for values that each replay is given, by their places'
        ids."""
        self.fn, self.fed = fn, fed
        self.numbered = False  # whether numbers among the arguments are fed
        self.called = False  # while the arguments are looked at
        self.tensors: dict[int, Tensor] = {}  # that were found elsewhere
        self.thread = threading.get_ident()
        self.entries: dict[Any, _Entry] = {}
        self.steady: list[_Entry] = []  # at the end: those that were read and are as they were
        self.dicts: dict[int, tuple[Any, dict[str, Any]]] = {}  # of objects, as they were
        self.set_elsewhere: set[tuple[int, str]] = set()  # (object, name) by other threads
        self.outside: dict[int, Any] = {}
        self.names: dict[int, str] = {}
        self.lines: dict[int, Any] = {}  # of containers among the arguments
        self.boxes: dict[int, tuple[Any, tuple[Any, ...], Place | None]] = {}
        self.arrays: dict[int, tuple[np.ndarray, bytes | None, Place]] = {}
        self.optimizers: list[Any] = []
        self.spaces: list[Any] = []  # modules, classes, functions: their attributes by name
        self.attribute_names: set[str] = set()
        self.maybe: set[str] = set()
        self.codes: dict[tuple[int, int], types.CodeType] = {}  # and with which globals they ran
        self.ran: set[int] = set()  # code with free variables that ran
        self.inner: set[int] = set()  # code within functions that ran
        self.functions: dict[int, list[Any]] = {}  # by code
        self.seen: set[Any] = set()  # (object, name) that were looked up already
        self.strangers: dict[int, tuple[Any, dict[str, bool]]] = {}  # not known to be outside
        self.hooked: dict[type, dict[str, Any]] = {}
        self.plain: set[type] = set()  # of those, what reads attributes as `object` does
        self.random: list[tuple[Callable[[], Any], bytes, str, Any]] = []
        self.drawn_at: Any = None  # where `random` is first named
        self.iterators: list[tuple[str, Any]] = []
        self.asked: list[tuple[Callable[[], Any], Any, str]] = []
        self.refused = ""
        self.asks = ""  # where code asks for types: what stands for a number has another one
        self.line: Any = None
        self.count = 0
        self.busy = False
        self.collected = False  # garbage, in this run
        self.drawn_from(random.getstate, "random")
        self.drawn_from(lambda: np.random.get_state(legacy=False), "np.random")
        with self._looking("the function"):
            self.discover(fn, getattr(fn, "__name__", "the function"))

    def discover_arguments(self, args: Any, kwargs: Any) -> None:
        """What the function is called with, besides tensors and numbers, lies outside."""
        code = getattr(getattr(self.fn, "__func__", self.fn), "__code__", None)
        names = code.co_varnames[: code.co_argcount] if code else ()
        self.called = True
        with self._looking("the arguments"):
            self.line = code and (code.co_filename, code.co_firstlineno)
            for i, x in enumerate(args):
                self.discover(x, names[i] if i < len(names) else f"argument {i}")
            for name, x in kwargs.items():
                self.discover(x, name)
        self.called = False

    def give(self) -> None:
        """Let what is fed stand where the values lie; attributes are answered by their classes."""
        for place, given, before in self.fed.values():
            if given is not before and not self._answers(place):
                place.put(given)

    def _answers(self, place: Place) -> bool:
        """Whether the class of an object gives what stands for an attribute."""
        if place.how not in (ATTR, SLOT) or not self._hook(kind := type(place.held())):
            return False
        return any(c in self.plain for c in kind.__mro__)

    def take_back(self) -> None:
        """Let the values lie where they lay, but for what the run has put there."""
        for place, given, before in self.fed.values():
            if given is not before and place.get() is given:
                place.put(before)

    def restore(self) -> None:
        """Let what is fed be as before the run: the first run of the Program asks for it."""
        for place, _, before in self.fed.values():
            place.put(before)

    def undo(self) -> None:
        """Let the places that were seen hold what they held before the run."""
        for e in self.entries.values():
            if e.place.get() is not e.before and e.place.is_writable():
                e.place.put(e.before)

    def settle(self, effects: list[tuple[Place, Any]]) -> None:
        """Put where it belongs what the run has put there, and nothing symbolic."""
        for place, value in effects:
            plain = self.without_numbers(value)
            if plain is not value or place.id() in self.fed:
                place.put(plain)

    def without_numbers(self, x: Any, around: tuple[int, ...] = ()) -> Any:
        """What the run has made, with what is symbolic in it replaced by its value, in place.
        There is nothing symbolic in what lies outside."""
        if type(x) is SymbolicScalar:
            return x._hint
        if type(x) is SymbolicArray:
            return x.array
        if (not self.fed and not self.numbered) or id(x) in around:
            return x
        if isinstance(x, (Tensor, type, types.FunctionType, *_ATOMS)) or self.is_outside(x):
            return x
        inner = (*around, id(x))
        if isinstance(x, tuple):
            parts = [self.without_numbers(v, inner) for v in x]
            if all(a is b for a, b in zip(parts, x, strict=True)):
                return x
            return type(x)(*parts) if hasattr(x, "_fields") else type(x)(parts)
        if isinstance(x, (list, collections.deque)):
            for i, v in enumerate(x):
                x[i] = self.without_numbers(v, inner)
        own = x if isinstance(x, dict) else _fields(x)
        for k, v in list(own.items()):
            own[k] = self.without_numbers(v, inner)
        return x

    def is_outside(self, x: Any) -> bool:
        """Whether `x` was there before the run."""
        return id(x) in self.outside and not isinstance(x, (tuple, frozenset))

    @staticmethod
    def is_constant(x: Any) -> bool:
        """Whether each call would give `x` itself, or what can't be told from it."""
        if isinstance(x, types.FunctionType):
            return not x.__closure__ and not x.__defaults__
        return x is MISSING or isinstance(
            x, (*_ATOMS, types.ModuleType, type, types.BuiltinFunctionType)
        )

    @staticmethod
    def reference(x: Any) -> Callable[[], Any]:
        """A function that gives `x` without keeping it alive, if it can do without."""
        try:
            return weakref.ref(x)
        except TypeError:
            return lambda: x

    def refuse(self, why: str) -> None:
        """No replay may follow."""
        if not self.refused:
            self.refused = f"{spot(self.line)}{why}"

    # --- frames

    def enter(self, frame: types.FrameType) -> None:
        """A frame of a user's code starts."""
        code = frame.f_code
        key = id(code), id(frame.f_globals)
        if key in self.codes or self.busy:
            return
        if code.co_filename.startswith("<"):  # of dataclasses and named tuples: whose is it?
            module = frame.f_globals.get("__name__", "")
            if module.startswith("namedtuple_") or _is_library(module):
                return
        if _imports(frame):
            return
        self.codes[key] = code
        with self._looking(code.co_name):
            self._enter(frame, code)

    @contextlib.contextmanager
    def _looking(self, name: str) -> Iterator[None]:
        """Within it, what is read is not the function's; nor are errors, which users' classes may
        raise."""
        self.busy, before = True, self.line
        try:
            yield
        except Exception as e:
            self.refuse(f"reads {name}, which can't be followed ({type(e).__name__}: {e})")
        finally:
            self.busy, self.line = False, before

    def _enter(self, frame: types.FrameType, code: types.CodeType) -> None:
        found = scan(code)
        file = code.co_filename
        self.inner.update(map(id, nested(code)))
        if not found.names <= self.attribute_names or not found.maybe <= self.maybe:
            fresh = found.names - self.attribute_names, found.maybe - self.maybe
            self.attribute_names |= found.names
            self.maybe |= found.maybe
            for x in self.spaces:
                self._names_of(x, *fresh)
        if found.random and self.drawn_at is None:
            self.drawn_at = file, found.random
        names = frame.f_globals
        for name, line in found.globals.items():
            self.line = file, line
            value = self.touch(GLOBAL, names, name, name)
            if name == "type" and value is MISSING and not self.asks:
                self.asks = f"{file}:{line} asks for types, which Numbers have not:"
            if name == "globals" and value is MISSING:
                self.asked.append((lambda: len(names), len(names), "globals()"))
                for k in list(names):
                    self.touch(GLOBAL, names, k, k)
            if isinstance(value, types.ModuleType) and _is_library(value.__name__):
                self._of_library(value, found.names)
        for name, line in found.stored.items():
            self.line = file, line
            self.touch(GLOBAL, names, name, name, read=False)
        for name in found.imports:
            if isinstance(module := sys.modules.get(name), types.ModuleType):
                self.discover(module, name)
        self.line = file, code.co_firstlineno
        if code.co_freevars:
            self._cells(code)
        if code.co_argcount:
            self._method(frame.f_locals.get(code.co_varnames[0]), code)

    def _cells(self, code: types.CodeType) -> None:
        self.ran.add(id(code))
        functions = self.functions.get(id(code), [])
        if not functions and id(code) not in self.inner:  # it came in a way that was not seen
            if not self.collected and len(_functions_of(code)) > 1:
                self.collected = True
                gc.collect()  # else the end of one that is dead already would end the replay
            functions = _functions_of(code)
        for f in functions:
            self._cells_of(f)

    def _cells_of(self, f: types.FunctionType) -> None:
        code = f.__code__
        cells = scan(code).cells
        for i, name in enumerate(code.co_freevars):
            self.line = code.co_filename, cells.get(name, code.co_firstlineno)
            self.touch(CELL, f, i, name, name in cells)

    def _method(self, owner: Any, code: types.CodeType) -> None:
        """A method is looked up in its class, by special names too."""
        kind = owner if isinstance(owner, type) else type(owner)
        for c in kind.__mro__:
            found = c.__dict__.get(code.co_name) if code.co_name not in _HOOKS else None
            if getattr(getattr(found, "fget", found), "__code__", None) is code:
                self.touch(ATTR, c, code.co_name, f"{c.__name__}.{code.co_name}")
                break

    def impure(self, name: str, frame: types.FrameType) -> None:
        """What is called there gives something else at each call."""
        if not self.busy and not _imports(frame):
            self.line = line_of(frame)
            self.refuse(f"calls {name}, which no replay does")

    def _of_library(self, module: types.ModuleType, names: frozenset[str]) -> None:
        for n in names & vars(module).keys():
            value = vars(module)[n]
            if value is os.getenv:
                self.discover(os.environ, "os.environ")
            fixed = isinstance(value, (types.ModuleType, type, types.FunctionType, *_ATOMS))
            fixed = fixed or isinstance(getattr(value, "__self__", None), types.ModuleType)
            if not fixed and value is not sys.modules and _top(module.__name__) != "pyframe":
                self.touch(ATTR, module, n, f"{module.__name__}.{n}")

    # --- places

    def touch(self, how: str, holder: Any, key: Any, name: str, read: bool = True) -> Any:
        """What lies at a place, which is known from now on: as it is read, or written to."""
        held = id(holder.__closure__[key]) if how == CELL else id(holder)
        number = held, how, None if how == CELL else key
        entry = self.entries.get(number)
        place = entry.place if entry else Place(how, holder, key, name, self.line)
        value = place.get()
        if entry is None:
            if number in self.fed:
                return value
            entry = self.entries[number] = _Entry(place, value, read)
            self.count += 1
        elif read and not entry.read and how in (GLOBAL, CELL):  # in which order is not known
            entry.read = True
        if read and entry is not None and entry.read and entry.before is value:
            self.discover(value, name, place)
        return value

    def discover(self, x: Any, name: str, place: Place | None = None) -> None:
        """Something lies outside, at a place: see what is read of it from now on."""
        if isinstance(x, _ATOMS) or x is MISSING or type(x) is SymbolicScalar:
            return
        if place is not None and place.id() in self.fed:
            return
        if isinstance(x, Tensor) and not self.called:
            self.tensors[id(x)] = x
        if id(x) in self.outside:
            return
        self.outside[id(x)] = x
        self.names[id(x)] = name
        if isinstance(x, BOXES):
            self._box(x, name, place)
            if type(x).__module__ in ("builtins", "collections"):
                return
        if isinstance(x, Tensor):
            if x.__dict__:
                self._space(x)
        elif isinstance(x, (types.FunctionType, types.ModuleType, type)):
            self._named(x, name)
        elif isinstance(x, types.MethodType):
            self.discover(x.__func__, name)
            self.discover(x.__self__, f"{name}.__self__")
        elif isinstance(x, types.BuiltinFunctionType):
            if not isinstance(x.__self__, (types.ModuleType, type, type(None))):
                self.discover(x.__self__, f"{name}.__self__")
        elif isinstance(x, functools.partial):
            self.discover(x.func, name)
            self.touch(SLOT, x, "args", f"{name}.args")
            self.touch(SLOT, x, "keywords", f"{name}.keywords")
        elif isinstance(x, weakref.ref):
            self.discover(x(), f"{name}()")
            self.asked.append((lambda: x() is None, x() is None, f"whether {name}() is None"))
        elif isinstance(x, contextvars.ContextVar):
            self.touch(VAR, x, None, f"{name}.get()")
        elif isinstance(x, np.ndarray):
            small = x.nbytes <= SMALL and not x.dtype.hasobject
            place = place or Place(GLOBAL, {}, None, name, self.line)
            self.arrays[id(x)] = x, x.tobytes() if small else None, place
        elif isinstance(x, _RANDOM):
            self.line = place.line if place else self.line
            self.drawn_from(functools.partial(_random_state, x), name)
        elif isinstance(x, functools._lru_cache_wrapper):
            self.discover(x.__wrapped__, name)
            known, ref = x.cache_info().misses, weakref.ref(x)  # fewer where it was cleared
            kept = f"the cache of {name}"
            self.asked.append((lambda: ref().cache_info().misses >= known, True, kept))  # type: ignore[union-attr]
        elif isinstance(x, (bytearray, array.array, memoryview)):
            self.asked.append((functools.partial(bytes, x), bytes(x), name))
        elif isinstance(x, types.MappingProxyType):
            self.discover(dict(x), name)
            self.asked.append((lambda: [*map(id, contents({**x}))], [*map(id, contents({**x}))],
                               name))  # fmt: skip
        elif isinstance(x, io.IOBase):  # to read from it is a call that is refused, but for `for`
            if x.readable() and x is not sys.stdin:
                self.iterators.append((name, place.line if place else self.line))
        elif type(x) in WRAPPERS:
            self.discover(x.fn, name)
        elif isinstance(x, Iterator) and not is_python(type(x)):
            self.iterators.append((name, place.line if place else self.line))
        else:
            self._object(x, name)

    def _box(self, x: Any, name: str, place: Place | None) -> None:
        """A container: its contents are known from now on."""
        inside = contents(x)
        self.boxes[id(x)] = x, inside, place
        self.lines[id(x)] = self.line
        self.count += len(inside)
        if self.count > MOST:
            self.refuse(f"reads {name}, in which too much lies to look at before each replay")
            return
        for i, v in enumerate(inside):
            if not isinstance(v, _ATOMS):
                key = key_at(x, i, len(inside))
                self.discover(v, item_name(name, key), item_of(place, key) if place else None)

    def _named(self, x: Any, name: str) -> None:
        """A function, class or module: what code that ran names of it."""
        if isinstance(x, types.FunctionType):
            users = FILES[x.__code__.co_filename] == USER
            self.functions.setdefault(id(x.__code__), []).append(x)
            if users:
                self.touch(SLOT, x, "__code__", f"{name}.__code__")
                self.touch(SLOT, x, "__defaults__", f"{name}'s defaults")
                self.touch(SLOT, x, "__kwdefaults__", f"{name}'s defaults")
            for i, (n, cell) in enumerate(zip(x.__code__.co_freevars, x.__closure__ or (),
                                              strict=True)):  # fmt: skip
                with contextlib.suppress(ValueError):
                    if users or _is_callable(cell.cell_contents):  # a decorator's, say
                        line = x.__code__.co_filename, scan(x.__code__).cells.get(n, 0)
                        self.discover(cell.cell_contents, n, Place(CELL, x, i, n, line))
            if id(x.__code__) in self.ran:
                self._cells_of(x)
            if users or "__wrapped__" in x.__dict__:
                self._space(x)
        elif isinstance(x, type):
            for c in x.__mro__:
                if not _is_library(c.__module__) and all(c is not s for s in self.spaces):
                    self.outside[id(c)] = c
                    self.names.setdefault(id(c), c.__name__)
                    self._space(c)
        elif not _is_library(x.__name__):
            self._space(x)

    def _space(self, x: Any) -> None:
        self.spaces.append(x)
        self._names_of(x, self.attribute_names, self.maybe)

    def _names_of(self, x: Any, names: Any, maybe: Any) -> None:
        own = attributes(x)
        hidden: set[str] = set()  # that the bases of a class have, and that it may come to have
        for c in x.__mro__[1:] if isinstance(x, type) else ():
            if not _is_library(c.__module__):
                hidden |= names & c.__dict__.keys()
        for n in ((names & own.keys()) | maybe | hidden) - _HOOKS:
            if n in own or n in hidden or not isinstance(x, (type, Tensor)):
                self.touch(ATTR, x, n, f"{self.names.get(id(x), type(x).__name__)}.{n}")

    def _object(self, x: Any, name: str) -> None:
        """Any other object: its class tells what is read of it."""
        kind = type(x)
        if _is_silent(kind):
            return
        self.touch(SLOT, x, "__class__", f"{name}.__class__")
        if not self._hook(kind):  # made in C: what it has by name may be read unseen
            own = attributes(x)
            if isinstance(own, dict) and own:
                self._box(own, name, Place(SLOT, x, "__dict__", name, self.line))
                self.touch(SLOT, x, "__dict__", name)
            return
        self.dicts[id(x)] = x, dict(attributes(x))
        self._named(kind, kind.__name__)
        if isinstance(x, tuple(OPTIMIZERS)):
            self.optimizers.append(x)
        if id(x) in self.strangers:  # read before it was known to lie outside
            for n, read in self.strangers.pop(id(x))[1].items():
                self._attribute(x, n, read)

    def drawn_from(self, state: Callable[[], Any], name: str) -> None:
        """A generator of random numbers lies outside."""
        self.random.append((state, pickle.dumps(state()), name, self.line))

    # --- attributes

    def _hook(self, kind: type) -> bool:
        """Let a class tell which attributes of its objects are read and set; False if it can't."""
        if any(c in self.hooked for c in kind.__mro__):
            return True
        own = [c for c in kind.__mro__ if is_python(c) and not _is_standard(c)]
        c = own[-1] if own else kind
        get: Any = c.__getattribute__
        set_: Any = c.__setattr__
        delete: Any = c.__delattr__
        seen, me, fed = self.seen, self.thread, self.fed
        plain = get is object.__getattribute__  # else what it makes of the value may be another
        if plain:
            self.plain.add(c)

        def __getattribute__(x: Any, name: str) -> Any:  # noqa: N807
            if threading.get_ident() == me and not self.busy:
                if (id(x), name) not in seen:
                    self.attribute(x, name, True)
                if fed and plain:
                    for how in (ATTR, SLOT):
                        given = fed.get((id(x), how, name))
                        if given is not None and given.place.get() is given.value:
                            return given.given
            return get(x, name)

        def __setattr__(x: Any, name: str, value: Any) -> None:  # noqa: N807
            if threading.get_ident() != me:
                self.set_elsewhere.add((id(x), name))
            elif not self.busy:
                self.attribute(x, name, False)
            set_(x, name, value)

        def __delattr__(x: Any, name: str) -> None:  # noqa: N807
            if threading.get_ident() == me and not self.busy:
                self.attribute(x, name, False)
            delete(x, name)

        hooks = (__getattribute__, __setattr__, __delattr__)
        before = {f.__name__: c.__dict__.get(f.__name__) for f in hooks}
        try:
            type.__setattr__(c, "__getattribute__", __getattribute__)
        except TypeError:
            return False
        type.__setattr__(c, "__setattr__", __setattr__)
        type.__setattr__(c, "__delattr__", __delattr__)
        self.hooked[c] = before
        return True

    def unhook(self) -> None:
        """Let all classes be as they were."""
        for c, before in self.hooked.items():
            for name, f in before.items():
                if f is None:
                    type.__delattr__(c, name)
                else:
                    type.__setattr__(c, name, f)
        self.hooked.clear()

    def attribute(self, x: Any, name: str, read: bool) -> None:
        """An attribute is about to be read, or set."""
        frame = sys._getframe(2)
        file = frame.f_code.co_filename
        ours = file.startswith(OURS) and FILES[file] != USER
        if ours and (name == "__dict__" or _tells(file)):  # in other ways
            return
        self.seen.add((id(x), name))
        if id(x) in self.outside:
            self.busy, before = True, self.line  # as `_looking`, which takes longer
            try:
                self.line = line_of(frame)
                self._attribute(x, name, read)
            except Exception as e:
                self.refuse(f"reads {name}, which can't be followed ({type(e).__name__}: {e})")
            finally:
                self.busy, self.line = False, before
            return
        known = self.strangers.get(id(x))
        if known is None or known[0]() is None:
            with contextlib.suppress(TypeError):
                known = self.strangers[id(x)] = weakref.ref(x), {}
        if known is not None:
            known[1].setdefault(name, read)

    def _attribute(self, x: Any, name: str, read: bool) -> None:
        label = f"{self.names.get(id(x), type(x).__name__)}.{name}"
        if name in _WHOLE:
            own = attributes(x)
            if isinstance(own, dict):
                self.touch(SLOT, x, "__dict__", label)
            return
        if name == "__class__":
            self.touch(SLOT, x, name, label, read)
            return
        found, where = MISSING, None
        for c in type(x).__mro__:
            if name in c.__dict__:
                found, where = c.__dict__[name], c
                break
        if isinstance(found, types.MemberDescriptorType):
            self.touch(SLOT, x, name, label, read)
            return
        own = attributes(x)
        if name == FORWARD and HOOKS[0] in own:  # a Module is called
            for n in HOOKS:
                self.touch(ATTR, x, n, f"{self.names.get(id(x), type(x).__name__)}.{n}")
            for names, n in HOOKS_ON_ALL:
                self.touch(GLOBAL, names, n, "the hooks on all modules")
        if where is not None and hasattr(type(found), "__set__"):  # a property
            if read:
                self._of_class(where, name)
            if type(found) is not InDict:
                return
            if mode.training is not None and (read or id(x) in mode.training):
                return  # the mode of a module, which itself tells of it in an evaluation
        if isinstance(own, dict):
            for kind in MEMBERS:  # of a Module
                if name in own.get(kind, ()) and name not in own:
                    self.touch(kind, x, name, label, read)
                    return
            if self.touch(ATTR, x, name, label, read) is not MISSING:
                return
        if not read:
            return
        for c in type(x).__mro__:
            if c is where:
                self._of_class(c, name)
                break
            if not _is_library(c.__module__):  # where one may come and hide it
                self.touch(ATTR, c, name, f"{c.__name__}.{name}")

    def _of_class(self, c: type, name: str) -> None:
        if not _is_library(c.__module__) or name == FORWARD:
            self.touch(ATTR, c, name, f"{c.__name__}.{name}")

    # --- the end

    def finish(self, result: Any) -> Found:
        """What the run did outside, once `result` and the capture alone hold what it made."""
        found = Found("", [], [])
        with self._looking("what the run has changed"):
            found = self._finish(result)
        return found._replace(refused=self.refused)

    def _finish(self, result: Any) -> Found:
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
        large: list[tuple[Place, Any, Any]] = []  # arrays that are too large to compare
        for a, held, at in self.arrays.values():
            if held is None:
                large.append((at, a, a))
            elif a.tobytes() != held:
                self.refuse(f"changes the array {at}, as no replay would")
        changed = large
        effects: list[tuple[Place, Any]] = []
        for place, given, before in self.fed.values():
            after = place.get()
            if after is not before and after is not given:
                effects.append((place, after))
        known = set(self.entries)
        for e in self.entries.values():
            after = e.place.get()
            if not e.read:
                effects.append((e.place, after))
            elif same(e.before, after):
                self.steady.append(e)
            else:
                changed.append((e.place, e.before, after))
        for x, own in self.dicts.values():  # what was set without its class being told
            after = attributes(x)
            for n in own.keys() | after.keys():
                if (id(x), n) in self.set_elsewhere:
                    continue
                place = Place(ATTR, x, n, f"{self.names[id(x)]}.{n}")
                value = after.get(n, MISSING)
                if value is not own.get(n, MISSING) and place.id() not in known | self.fed.keys():
                    effects.append((place, value))
        for x in [*self.spaces, *[x for x in self.outside.values() if isinstance(x, Tensor)]]:
            own = attributes(x)  # names that the run has added
            for n in (self.attribute_names & own.keys()) - _HOOKS:
                if (id(x), ATTR, n) not in known and (id(x), ATTR, n) not in self.fed:
                    label = f"{self.names.get(id(x), type(x).__name__)}.{n}"
                    changed.append((Place(ATTR, x, n, label), MISSING, own[n]))
        for box, old, of in self.boxes.values():
            new = contents(box)
            if len(new) == len(old) and all(map(same, old, new)):
                continue
            keys = len(old) // 2 if isinstance(box, dict) else 0
            where = of or Place(GLOBAL, {}, None, self.names[id(box)], self.lines.get(id(box)))
            if len(new) != len(old) or not all(map(same, old[:keys], new[:keys])) or of is None:
                changed.append((where, entries(len(old)), entries(len(new))))
                continue
            for i, (x, y) in enumerate(zip(old, new, strict=True)):
                if not same(x, y):
                    item = item_of(of, key_at(box, i, len(new)))
                    if item.id() not in self.fed:
                        changed.append((item, x, y))
        steady = len(self.entries)
        self._meet_strangers(result, [v for _, v in effects])
        self.steady += list(self.entries.values())[steady:]
        return Found(self.refused, changed, effects)

    def _meet_strangers(self, result: Any, effects: list[Any]) -> None:
        """Objects that were read, are alive, and were not made by the run: they lie outside too."""
        own: set[int] = set()
        todo = [result, effects]
        while todo:
            x = todo.pop()
            if id(x) in own or isinstance(x, (Tensor, *_ATOMS)) or id(x) in self.outside:
                continue
            own.add(id(x))
            todo += contents(x) if isinstance(x, BOXES) else list(_fields(x).values())
        for ref, names in list(self.strangers.values()):
            x = ref()
            if x is None or id(x) in own:
                continue
            self.outside[id(x)] = x
            self.names[id(x)] = type(x).__name__
            for n, read in names.items():
                if read:
                    self._attribute(x, n, True)
                else:
                    self.refuse(f"sets {type(x).__name__}.{n}, as no replay would")
            x = None

    def guard(self, tensors: list[Tensor], args: set[int]) -> Guard:
        """What has to hold before each replay, of `tensors` and of those that were seen; those
        with the ids `args` are given to each replay."""
        found: list[tuple[Place, Any]] = []
        opened = set()  # containers of what is fed
        for p, *_ in self.fed.values():
            while p.how == ITEM:
                p = p.holder
                opened.add(p.id())
        out = Guard()
        ran = {id(c) for c in self.codes.values()}
        for e in self.steady:
            if not isinstance(e.place.holder, types.FunctionType) or (
                id(e.place.holder.__code__) in ran  # only then it matters what is in its cells
            ):
                found += self._within(e.place, e.before, opened, out)
        for o in self.optimizers:  # as they are after the first step
            out.watch_optimizer(o, self.names[id(o)])
        out.asked += self.asked
        out.arrays = [(weakref.ref(x), b, p) for x, b, p in self.arrays.values() if b is not None]
        told = {id(x) for o in self.optimizers for s in o.state.values() for x in s.values()}
        known = {id(x): x for x in tensors if id(x) not in told}
        known |= {i: x for i, x in self.outside.items() if isinstance(x, Tensor) and i not in args
                  and x._grad_fn is None and not x._view_chain}  # fmt: skip
        out.watch(found)
        out.watch_tensors(known.values(), "the memory or requires_grad of a tensor")
        out.settle()
        return out

    def _within(self, place: Place, value: Any, opened: set[Any], out: Guard) -> Any:
        """A value to be compared; of containers in which something is fed, all else in them."""
        if place.id() not in opened:
            yield place, value
            return
        place.let_go()
        out.asked.append((lambda: len(place.get()), len(value), place.name))
        for key in value if isinstance(value, dict) else range(len(value)):
            item = item_of(place, key)
            if item.id() not in self.fed:
                yield from self._within(item, item.get(), opened, out)


@contextlib.contextmanager
def observed(o: Observer) -> Iterator[None]:
    """Within it, what this thread runs is shown to `o`."""
    try:
        with shown_to(o):
            yield
    finally:
        o.unhook()


_OPTIM = os.path.join(OURS, *OPTIMIZERS_CODE.split("/"))


def _tells(file: str) -> bool:
    """Whether it is of an optimizer, which tells a capture what a replay relies on."""
    return file.startswith(_OPTIM) and not file.endswith(NOT_OPTIMIZERS)


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


def _random_state(g: Any) -> Any:
    if isinstance(g, random.Random):
        return g.getstate()
    return (g.bit_generator if isinstance(g, np.random.Generator) else g._bit_generator).state


def _top(module: str) -> str:
    return module.partition(".")[0]


def _is_library(module: str | None) -> bool:
    top = _top(module or "")
    return top in DEPENDENCIES or top in sys.stdlib_module_names or (
        top == "pyframe" and not (module or "").startswith(PROGRAMS)
    )  # fmt: skip


def _is_ours(kind: type) -> bool:
    return _top(kind.__module__ or "") == "pyframe"


def _is_standard(kind: type) -> bool:
    return _top(kind.__module__ or "") in sys.stdlib_module_names


def _is_silent(kind: type) -> bool:
    """Whether what is read of such objects makes no difference, or is told in other ways."""
    module = kind.__module__ or ""
    if _is_ours(kind):
        return not f"{module}.".startswith(_OBJECTS)
    return _top(module) in _SILENT or _top(module) in DEPENDENCIES


def _is_callable(x: Any) -> bool:
    return isinstance(x, (types.FunctionType, types.MethodType, functools.partial))
