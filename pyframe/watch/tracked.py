"""External state: all that lies outside of a captured function and that its run reads or sets.

Whatever the globals, cells and arguments of a user's code lead to lies outside. Containers are
known by what they hold. The classes of other objects tell of each attribute that is read or set,
whoever reads it (`ExternalState._hook`). So what is known is what was read in this run, and no
more, but for containers.
"""

from __future__ import annotations

import abc
import array
import contextlib
import contextvars
import enum
import functools
import io
import logging
import operator
import pickle
import random
import sys
import threading
import types
import weakref
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import numpy as np

from pyframe.core import dtypes as dt, module_of, packages as _packages
from pyframe.core.devices import device as Device
from pyframe.core.modes import mode
from pyframe.core.objects import attributes, is_python
from pyframe.core.sizes import SymbolicSize
from pyframe.core.symbolic import SymbolicScalar
from pyframe.tensor import Tensor
from pyframe.watch import origin, sources as _sources
from pyframe.watch.frames import scan
from pyframe.watch.origin import is_library
from pyframe.watch.sources import ATTR, CELL, GLOBAL, MISSING, SLOT, Source, contents

MAX_GUARDED_VALUES = 20_000  # values that a replay may look at
MAX_COMPARED_BYTES = 1 << 16  # bytes of an array that a replay may compare

# What does not change: it is known by its value, or as a whole.
ATOMIC_TYPES = (
    int, float, complex, str, bytes, type(None), type(Ellipsis), slice, range, np.generic, np.dtype,
    np.ufunc, dt.dtype, Device, types.CodeType, enum.Enum, property,
)  # fmt: skip
_WHOLE = {"__dict__", "__reduce_ex__", "__reduce__", "__getstate__"}  # read all attributes
OVERRIDES = {"__getattribute__", "__setattr__", "__delattr__"}  # as classes are hooked by
_GENERATORS = (np.random.Generator, np.random.RandomState, random.Random)


class StateAccess:
    """A Source, what lay there before, and whether that was read (or just written over)."""

    __slots__ = ("before", "read", "source")

    def __init__(self, source: Source, before: Any, read: bool) -> None:
        self.source, self.before, self.read = source, before, read


class InputPlaceholder(NamedTuple):
    """What stands for a dynamic input while a function is captured."""

    source: Source
    given: Any  # the value itself, where it is a tensor
    value: Any


class TrackedContainer(NamedTuple):
    """A container that lies outside."""

    box: Any
    before: tuple[Any, ...]  # its contents
    source: Source | None  # None for one among the arguments
    line: Any


class KnownArray(NamedTuple):
    """An array that lies outside."""

    array: np.ndarray
    before: bytes | None  # None if it is too large to compare
    source: Source


class KnownGenerator(NamedTuple):
    """A generator of random numbers that lies outside."""

    state: Callable[[], Any]
    before: bytes  # the state, pickled
    name: str
    line: Any


class ExternalState:
    """What is known to lie outside. Objects are known by their ids, and kept alive for the run."""

    def __init__(self, stand_ins: dict[Any, InputPlaceholder]) -> None:
        """`stand_ins`: what stands in this run for the dynamic inputs, by their sources'
        ids."""
        self.stand_ins = stand_ins
        self.thread = threading.get_ident()
        self.looking = False  # what is read meanwhile is not the function's
        self.line: Any = None  # (file, line) of the user's code that runs
        self.refused = ""  # why no replay may follow the run
        self.count = 0  # values
        # what there is
        self.objects: dict[int, Any] = {}
        self.names: dict[int, str] = {}  # of the objects, for people
        self.entries: dict[Any, StateAccess] = {}  # by the ids of sources
        self.boxes: dict[int, TrackedContainer] = {}
        self.arrays: dict[int, KnownArray] = {}
        # but for arguments: each, and how it looked when it was found
        self.tensors: dict[int, tuple[Tensor, Any, bool]] = {}
        self.in_arguments = False  # while the arguments are looked at
        self.optimizers: list[Any] = []
        self.random: list[KnownGenerator] = []
        self.iterators: list[tuple[str, Any]] = []  # and files: their names and lines
        self.asked: list[tuple[Callable[[], Any], Any, str]] = []  # get, its answer, the line
        # of modules, classes, functions and tensors attributes are known by the names in the code
        # that ran, as reading them tells nobody
        self.spaces: list[Any] = []
        self.attribute_names: set[str] = set()
        self.maybe_names: set[str] = set()  # of those, what may not be there
        self.catches = self.whole = False  # whether that is so of all names; of those not in code
        self.libraries: dict[int, tuple[Any, set[str]]] = {}  # modules, and what is read of them
        self.functions: dict[int, list[Any]] = {}  # by their code's id
        self.ran: set[int] = set()  # the ids of code with free variables that ran
        # of other objects the classes tell
        self.attributes_before: dict[int, tuple[Any, dict[str, Any]]] = {}
        self.set_elsewhere: set[tuple[int, str]] = set()  # (object, name) by other threads
        self.told: set[tuple[int, str]] = set()  # (object, name) that classes have told of
        self.strangers: dict[int, tuple[Any, dict[str, bool]]] = {}  # not known to be outside
        self.layers: set[types.FunctionType] = set()  # methods `forward` of ours that were read
        self.overridden: list[type] = []  # classes with a __getattribute__ of the user's
        self.hooked: dict[type, dict[str, Any]] = {}  # classes, and what they had before
        self.plain: set[type] = set()  # of those, what reads attributes as `object` does

    def has(self, x: Any) -> bool:
        """Whether `x` was there before the run."""
        return id(x) in self.objects and not isinstance(x, (tuple, frozenset))

    def ask(self, get: Callable[[], Any], name: str) -> None:
        """What `get` gives is relied on, and asked again before each replay."""
        if all(get is not known for known, _, _ in self.asked):
            self.asked.append((get, get(), name))

    def refuse(self, why: str) -> None:
        """No replay may follow."""
        if not self.refused:
            self.refused = f"{origin.spot(self.line)}{why}"

    @contextlib.contextmanager
    def look_at(self, name: str) -> Iterator[None]:
        """Within it, what is read is not the function's; nor are errors, which users' classes may
        raise."""
        self.looking, before = True, self.line
        try:
            yield
        except Exception as e:
            self.refuse(f"reads {name}, which can't be followed ({type(e).__name__}: {e})")
        finally:
            self.looking, self.line = False, before

    # --- sources and what lies there

    def touch(self, how: str, holder: Any, key: Any, name: str, read: bool = True) -> Any:
        """What lies at a source, which is known from now on: as it is read, or written to."""
        held = id(holder.__closure__[key]) if how == CELL else id(holder)
        number = held, how, None if how == CELL else key
        entry = self.entries.get(number)
        source = entry.source if entry else Source(how, holder, key, name, self.line)
        value = source.get()
        if entry is None:
            if number in self.stand_ins:
                return value
            entry = self.entries[number] = StateAccess(source, value, read)
            self.count += 1
        elif read and not entry.read and how in (GLOBAL, CELL):  # in which order is not known
            entry.read = True
        if read and entry is not None and entry.read and entry.before is value:
            self.discover(value, name, source)
        return value

    def discover(self, x: Any, name: str, source: Source | None = None) -> None:
        """Something lies outside, at a source: see what is read of it from now on."""
        if x is MISSING or type(x) in (SymbolicScalar, SymbolicSize):
            return
        if isinstance(x, ATOMIC_TYPES) and not (isinstance(x, enum.Enum) and is_python(type(x))):
            return
        if source is not None and source.id() in self.stand_ins:
            return
        if isinstance(x, Tensor) and not self.in_arguments:
            self.tensors.setdefault(id(x), (x, x._view_chain, x._needs_grad))
        if id(x) in self.objects:
            return
        self.objects[id(x)] = x
        self.names[id(x)] = name
        if isinstance(x, _sources.CONTAINER_TYPES):
            self._box(x, name, source)
            if type(x).__module__ in ("builtins", "collections"):
                return
        if isinstance(x, Tensor):
            if x.__dict__:
                self._space(x)
        elif isinstance(x, (types.FunctionType, types.ModuleType, type)):
            self._named(x, name)
            if isinstance(x, abc.ABCMeta):
                self.ask(abc.get_cache_token, f"what is registered with {name}")
        elif not (self._bound(x, name) or self._values(x, name, source)):
            self._object(x, name)

    def _bound(self, x: Any, name: str) -> bool:
        """Something that calls or refers to another object: discover that. Else False."""
        if type(x).__module__ == "decimal":
            self.answer(type(x), name)
        if isinstance(x, types.MethodType):
            self.discover(x.__func__, name)
            self.discover(x.__self__, f"{name}.__self__")
        elif isinstance(x, logging.Logger):
            self._logger(x, name)
        elif isinstance(x, functools.singledispatchmethod):
            self.discover(x.dispatcher, name)
        elif isinstance(x, (operator.attrgetter, operator.methodcaller)):
            words = [w for w in x.__reduce__()[1] if isinstance(w, str)]
            named = frozenset(part for w in words for part in w.split("."))
            self.add_names(named, named)
        elif isinstance(x, types.BuiltinFunctionType):
            self.answer(x, name)
            if not isinstance(x.__self__, (types.ModuleType, type, type(None))):
                self.discover(x.__self__, f"{name}.__self__")
        elif isinstance(x, functools.partial):
            self.discover(x.func, name)
            self.touch(SLOT, x, "args", f"{name}.args")
            self.touch(SLOT, x, "keywords", f"{name}.keywords")
        elif isinstance(x, weakref.ref):
            self.discover(x(), f"{name}()")
            self.ask(lambda: x() is None, f"whether {name}() is None")
        elif isinstance(x, contextvars.ContextVar):
            self.touch(_sources.VAR, x, None, f"{name}.get()")
        elif isinstance(x, functools._lru_cache_wrapper):
            self.discover(x.__wrapped__, name)
            known, ref = x.cache_info().misses, weakref.ref(x)  # fewer where it was cleared
            kept = f"the cache of {name}"
            self.asked.append((lambda: ref().cache_info().misses >= known, True, kept))  # type: ignore[union-attr]
        elif type(x) in _packages.WRAPPERS:
            self.discover(x.fn, name)
        else:
            return False
        return True

    def _logger(self, x: logging.Logger, name: str) -> None:
        """What decides on whether a logger logs; what it does then makes no difference."""
        self.touch(ATTR, x.manager, "_disable", "logging.disable")
        c: logging.Logger | None = x
        while c is not None:
            for n in ("level", "disabled", "handlers", "parent", "propagate"):
                self.touch(ATTR, c, n, f"{name}.{n}")
            c = c.parent

    def answer(self, x: Any, name: str) -> None:
        """A library's function is read: what it gives is asked again, where that may change."""
        module, own = getattr(x, "__module__", ""), getattr(x, "__name__", "")
        get = origin.ANSWERS.get(module if module == "decimal" else f"{module}.{own}")
        if get is not None:
            self.ask(get, f"{name}()")
            self.discover(get() if isinstance(get(), threading.Thread) else None, f"{name}()")

    def _values(self, x: Any, name: str, source: Source | None) -> bool:
        """Something made in C that holds values or gives them: know those. Else False."""
        line = source.line if source else self.line
        if isinstance(x, np.ndarray):
            small = x.nbytes <= MAX_COMPARED_BYTES and not x.dtype.hasobject
            source = source or Source(GLOBAL, {}, None, name, self.line)
            self.arrays[id(x)] = KnownArray(x, x.tobytes() if small else None, source)
        elif isinstance(x, _GENERATORS):
            self.line = line
            self.drawn_from(functools.partial(_state, x), name)
        elif (known := _bytes_of(x)) is not None:
            if len(known) > MAX_COMPARED_BYTES:
                self.refuse(f"reads {name}, which is too large to look at before each replay")
            self.ask(functools.partial(_bytes_of, x), name)
        elif isinstance(x, types.MappingProxyType):
            self.discover(dict(x), name)
            self.asked.append((lambda: [*map(id, contents({**x}))], [*map(id, contents({**x}))],
                               name))  # fmt: skip
        elif isinstance(x, io.IOBase):  # to read from it is a call that is refused, but for `for`
            if x.readable() and x is not sys.stdin:
                self.iterators.append((name, line))
        elif isinstance(x, Iterator) and not is_python(type(x)):
            self.iterators.append((name, line))
        else:
            return False
        return True

    def drawn_from(self, state: Callable[[], Any], name: str) -> None:
        """A generator of random numbers lies outside."""
        self.random.append(KnownGenerator(state, pickle.dumps(state()), name, self.line))

    def _box(self, x: Any, name: str, source: Source | None) -> None:
        """A container: its contents are known from now on."""
        inside = contents(x)
        self.boxes[id(x)] = TrackedContainer(x, inside, source, self.line)
        self.count += len(inside)
        if self.count > MAX_GUARDED_VALUES:
            self.refuse(f"reads {name}, in which too much lies to look at before each replay")
            return
        for i, v in enumerate(inside):
            if not isinstance(v, ATOMIC_TYPES) or isinstance(v, enum.Enum):
                key = _sources.key_at(x, i, len(inside))
                inner = _sources.item_of(source, key) if source else None
                self.discover(v, _sources.item_name(name, key), inner)

    # --- functions, classes, modules: attributes by name

    def _named(self, x: Any, name: str) -> None:
        """A function, class or module: what code that ran names of it."""
        if isinstance(x, types.FunctionType):
            self._function(x, name)
        elif isinstance(x, type):
            for c in (*x.__mro__, *type.mro(type(x))):
                if not is_library(module_of(c)) and all(c is not s for s in self.spaces):
                    self.objects[id(c)] = c
                    self.names.setdefault(id(c), c.__name__)
                    self.touch(SLOT, c, "__bases__", f"{c.__name__}.__bases__")
                    self._space(c)
            if isinstance(x, enum.EnumMeta) and not is_library(module_of(x)):
                self.touch(ATTR, x, "_member_map_", name)
        elif not is_library(x.__name__):
            self._space(x)

    def _function(self, x: types.FunctionType, name: str) -> None:
        users = origin.FILES[x.__code__.co_filename] == _packages.USER
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
                    self.discover(cell.cell_contents, n, Source(CELL, x, i, n, line))
        if id(x.__code__) in self.ran:
            self.touch_cells(x)
        if users or "__wrapped__" in x.__dict__:
            self._space(x)
        if isinstance(x.__dict__.get("registry"), types.MappingProxyType):  # of singledispatch
            self.discover(x.__dict__["registry"], f"{name}.registry")
        self.answer(x, name)

    def touch_cells(self, f: types.FunctionType) -> None:
        """The code of a function has run: what is in its cells matters."""
        code = f.__code__
        cells = scan(code).cells
        for i, name in enumerate(code.co_freevars):
            self.line = code.co_filename, cells.get(name, code.co_firstlineno)
            self.touch(CELL, f, i, name, name in cells)

    def _space(self, x: Any) -> None:
        self.spaces.append(x)
        self._names_of(x, self.attribute_names, self.maybe_names)

    def add_names(
        self, names: frozenset[str], maybe: frozenset[str], catches: bool = False,
        whole: bool = False,
    ) -> None:  # fmt: skip
        """Code runs that names these attributes; `maybe` of them may not be there: all of them
        where it `catches` the error. It may read others where it reads an object as a `whole`."""
        if (catches and not self.catches) or (whole and not self.whole):
            self.catches, self.whole = self.catches or catches, self.whole or whole
            names, maybe = names | self.attribute_names, maybe | self.maybe_names
            fresh = names, maybe
        else:
            fresh = names - self.attribute_names, maybe - self.maybe_names
        self.attribute_names |= names
        self.maybe_names |= maybe
        for x in self.spaces if any(fresh) else ():
            self._names_of(x, *fresh)

    def _names_of(self, x: Any, names: Any, maybe: Any) -> None:
        own = attributes(x)
        hidden: set[str] = set()  # that the bases of a class have, and that it may come to have
        for c in x.__mro__[1:] if isinstance(x, type) else ():
            if not is_library(module_of(c)):
                hidden |= names & c.__dict__.keys()
        wanted = (names & own.keys()) | hidden
        if not isinstance(x, (type, Tensor)):  # a class tells by its size of what it comes to have
            wanted |= names if self.catches else maybe
            if isinstance(x, types.ModuleType) and not wanted <= own.keys():
                wanted |= {"__getattr__"}
        elif isinstance(x, type):
            for n in names & {"__name__", "__qualname__"}:
                self.touch(SLOT, x, n, f"{self.name_of(x)}.{n}")
        wanted |= own.keys() - {"__builtins__"} if self.whole else set()
        for n in wanted - OVERRIDES:
            self.touch(ATTR, x, n, f"{self.name_of(x)}.{n}")

    def name_of(self, x: Any) -> str:
        """What people call an object."""
        return self.names.get(id(x), type(x).__name__)

    # --- other objects: their classes tell

    def _object(self, x: Any, name: str) -> None:
        """Any other object: its class tells what is read of it."""
        kind = type(x)
        if origin.is_silent(kind):
            return
        self.touch(SLOT, x, "__class__", f"{name}.__class__")
        if not origin.is_fixed(kind) and not isinstance(x, enum.Enum) and not origin.is_constant(x):
            self.refuse(
                f"reads {name}, a {kind.__name__}: its state, which C code keeps, can't be seen"
            )
        if not self._hook(kind):  # made in C: what it has by name may be read unseen
            own = getattr(x, "__dict__", None)
            if isinstance(own, dict):
                self._box(own, name, Source(SLOT, x, "__dict__", name, self.line))
                self.touch(SLOT, x, "__dict__", name)
            return
        own = attributes(x)
        self.attributes_before[id(x)] = x, dict(own)
        if self._reads_anyhow(kind) and own is attributes(x):
            self.touch(SLOT, x, "__dict__", name)
        self._named(kind, kind.__name__)
        if isinstance(x, tuple(_packages.OPTIMIZERS)):
            self.optimizers.append(x)
        if id(x) in self.strangers:  # read before it was known to lie outside
            for n, read in self.strangers.pop(id(x))[1].items():
                self.touch_attribute(x, n, read)

    def _reads_anyhow(self, kind: type) -> bool:
        """Whether a class has a __getattribute__ of the user's, which may read what it likes."""
        name, found = "__getattribute__", False
        for c in kind.__mro__:
            f = self.hooked[c].get(name) if c in self.hooked else c.__dict__.get(name)
            if f is not None and not is_library(module_of(c)):
                self.overridden.append(c)
                found = True
        return found

    def answers(self, source: Source) -> bool:
        """Whether the class of an object gives what stands for an attribute."""
        if source.how not in (ATTR, SLOT) or not self._hook(kind := type(source.held())):
            return False
        return any(c in self.plain for c in kind.__mro__)

    def _hook(self, kind: type) -> bool:
        """Let a class tell which attributes of its objects are read and set; False if it can't."""
        if any(c in self.hooked for c in kind.__mro__):
            return True
        own = [c for c in kind.__mro__ if is_python(c) and not origin.is_standard(c)]
        c = own[-1] if own else kind
        get: Any = c.__getattribute__
        set_: Any = c.__setattr__
        delete: Any = c.__delattr__
        told, me, stand_ins = self.told, self.thread, self.stand_ins
        here = threading.get_ident  # the module is gone when the interpreter ends
        plain = get is object.__getattribute__  # else what it makes of the value may be another
        if plain:
            self.plain.add(c)

        def __getattribute__(x: Any, name: str) -> Any:  # noqa: N807
            if here() == me and not self.looking:
                if (id(x), name) not in told:
                    self._tell(x, name, True)
                if stand_ins and plain:
                    for how in (ATTR, SLOT):
                        stand_in = stand_ins.get((id(x), how, name))
                        if stand_in is not None and stand_in.source.get() is stand_in.value:
                            return stand_in.given
            return get(x, name)

        def __setattr__(x: Any, name: str, value: Any) -> None:  # noqa: N807
            if here() != me:
                self.set_elsewhere.add((id(x), name))
            elif not self.looking:
                self._tell(x, name, False)
            set_(x, name, value)

        def __delattr__(x: Any, name: str) -> None:  # noqa: N807
            if here() == me and not self.looking:
                self._tell(x, name, False)
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

    def _tell(self, x: Any, name: str, read: bool) -> None:
        """An attribute is about to be read, or set, by the caller's caller."""
        frame = sys._getframe(2)
        file = frame.f_code.co_filename
        ours = file.startswith(origin.PACKAGE_DIR) and origin.FILES[file] != _packages.USER
        whole = name == "__dict__" and frame.f_code.co_name != "__dir__"
        if ours and (whole or origin.is_optimizers(file)):  # is told in other ways
            return
        self.told.add((id(x), name))
        if id(x) in self.objects:
            self.looking, before = True, self.line  # as `look_at`, which takes longer
            try:
                self.line = origin.line_of(frame)
                self.touch_attribute(x, name, read)
            except Exception as e:
                self.refuse(f"reads {name}, which can't be followed ({type(e).__name__}: {e})")
            finally:
                self.looking, self.line = False, before
            return
        known = self.strangers.get(id(x))
        if known is None or known[0]() is None:
            with contextlib.suppress(TypeError):
                known = self.strangers[id(x)] = weakref.ref(x), {}
        if known is not None:
            known[1].setdefault(name, read)

    def touch_attribute(self, x: Any, name: str, read: bool) -> None:
        """An attribute of an object is read or set: touch each source that decides what it is."""
        label = f"{self.name_of(x)}.{name}"
        own = attributes(x)
        if name in _WHOLE:
            if own is attributes(x):
                self.touch(SLOT, x, "__dict__", label)
            return
        if name == "__class__":
            self.touch(SLOT, x, name, label, read)
            return
        where = next((c for c in type(x).__mro__ if name in c.__dict__), None)
        found = MISSING if where is None else where.__dict__[name]
        if isinstance(found, types.MemberDescriptorType):
            self.touch(SLOT, x, name, label, read)
            return
        if name == _packages.FORWARD and _packages.HOOKS[0] in own:  # a Module is called
            for n in _packages.HOOKS:
                self.touch(ATTR, x, n, f"{self.name_of(x)}.{n}")
            for names, n in _packages.HOOKS_ON_ALL:
                self.touch(GLOBAL, names, n, "the hooks on all modules")
        if isinstance(found, types.GetSetDescriptorType) and name[:2] != "__":
            self.touch(SLOT, x, name, label, read)
            return
        if where is not None and hasattr(type(found), "__set__"):  # a property
            if read:
                self._touch_in_class(where, name)
            if type(found) is not _packages.DictBackedProperty:
                return
            if mode.training is not None and (read or id(x) in mode.training):
                return  # the mode of a module, which itself tells of it in an evaluation
        if isinstance(own, dict):
            for kind in _packages.MEMBERS:  # of a Module
                if name in own.get(kind, ()) and name not in own:
                    self.touch(kind, x, name, label, read)
                    return
            if self.touch(ATTR, x, name, label, read) is not MISSING:
                return
            for kind in _packages.MEMBERS if where is None and read else ():
                if kind in own:  # it may come there too
                    self.touch(kind, x, name, label)
        for c in type(x).__mro__ if read else ():
            if c is where:
                self._touch_in_class(c, name)
                break
            # where one may come and hide it
            if not is_library(module_of(c)) or (where is None and origin.is_ours(module_of(c))):
                self.touch(ATTR, c, name, f"{c.__name__}.{name}")

    def _touch_in_class(self, c: type, name: str) -> None:
        if not is_library(module_of(c)) or name == _packages.FORWARD:
            f = self.touch(ATTR, c, name, f"{c.__name__}.{name}")
            if isinstance(f, types.FunctionType) and is_library(module_of(c)):
                self.layers.add(f)


def _bytes_of(x: Any) -> bytes | None:
    """What an object made in C holds, if it shows that. Where it points to more, that is unseen."""
    if origin.is_fixed(type(x)) and not isinstance(x, (bytearray, array.array, memoryview)):
        return None
    if _points(type(x)):
        return None
    try:
        return memoryview(x).tobytes()
    except TypeError:
        return None


def _points(kind: Any) -> bool:
    """Whether an object of ctypes points to more than it holds."""
    inner = [f[1] for f in getattr(kind, "_fields_", ())]
    of = getattr(kind, "_type_", None)  # a letter, or the class of an array's items
    if isinstance(of, str) or any(c.__name__ == "_Pointer" for c in kind.__mro__):
        return not isinstance(of, str) or of in "zZPOX"
    return any(map(_points, [*inner, of] if of else inner))


def _state(g: Any) -> Any:
    """The state of a generator of random numbers."""
    if isinstance(g, random.Random):
        return g.getstate()
    return (g.bit_generator if isinstance(g, np.random.Generator) else g._bit_generator).state


def _is_callable(x: Any) -> bool:
    return isinstance(x, (types.FunctionType, types.MethodType, functools.partial))
