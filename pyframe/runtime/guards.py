"""Where values lie outside a captured function, and whether they are what they were.

A guard keeps nothing alive: it knows objects by weak references and values by their ids, which no
other object can take before the guard has heard of the death of the first.
"""

from __future__ import annotations

import contextlib
import threading
import types
import weakref
from collections import deque
from collections.abc import Callable, Iterable
from functools import partial
from itertools import chain, compress, repeat
from operator import attrgetter, call, contains, is_, itemgetter, ne
from types import FunctionType
from typing import Any

import numpy as np

from pyframe.runtime.known import HOOKS, MEMBERS, SHAPELESS
from pyframe.tensor import Tensor

MISSING: Any = type("missing", (), {"__repr__": lambda self: "missing"})()

ATTR, SLOT, GLOBAL, CELL, ITEM, VAR = "attribute", "slot", "global", "cell", "item", "context"

BOXES = (dict, list, tuple, set, frozenset, deque)  # what is watched by its contents


class Place:
    """Where a value lies: an attribute of `holder`, a cell of it (a function), an item of what
    lies at it (a Place), a name in it (a dict of globals); `line` is the one that reads it."""

    __slots__ = ("holder", "how", "key", "line", "name")

    def __init__(self, how: str, holder: Any, key: Any, name: str, line: Any = None) -> None:
        self.how, self.holder, self.key, self.name, self.line = how, holder, key, name, line

    def __str__(self) -> str:
        if self.line is None:
            return f"`{self.name}`"
        file, line = self.line
        return f"`{self.name}` ({file.replace(chr(92), '/').rpartition('/')[2]}:{line})"

    def id(self) -> Any:
        """A key that two Places share if they are the same."""
        if self.how == ITEM:
            return self.holder.id(), ITEM, self.key
        x = self.held()
        if x is None:
            return self
        if self.how == CELL:
            return id(x.__closure__[self.key]), CELL, None
        return id(x), self.how, self.key

    def is_writable(self) -> bool:
        """Whether something else can be put there."""
        return self.how != ITEM or isinstance(self.holder.get(), (dict, list))

    def held(self) -> Any:
        return self.holder() if type(self.holder) is weakref.ref else self.holder

    def let_go(self) -> Place:
        """From now on, keep nothing alive."""
        if self.how == ITEM:
            self.holder.let_go()
        elif type(self.holder) is not weakref.ref:
            with contextlib.suppress(TypeError):
                self.holder = weakref.ref(self.holder)
        return self

    def get(self) -> Any:
        """What lies there now, or MISSING."""
        x, key = self.held(), self.key
        if self.how == ITEM:
            x = x.get()
            try:
                return dict.get(x, key, MISSING) if isinstance(x, dict) else x[key]
            except (TypeError, IndexError, KeyError):
                return MISSING
        if self.how == GLOBAL:
            return x.get(key, MISSING)
        if self.how == ATTR:
            return attributes(x).get(key, MISSING)
        if self.how == VAR:
            return x.get(MISSING)
        if self.how in MEMBERS:
            return attributes(x).get(self.how, {}).get(key, MISSING)
        try:
            if self.how == CELL:
                return x.__closure__[key].cell_contents
            return attributes(x) if key == "__dict__" else object.__getattribute__(x, key)
        except (AttributeError, ValueError):
            return MISSING

    def put(self, value: Any) -> None:
        """Let `value` lie there."""
        x, key = self.held(), self.key
        if self.how == ITEM:
            x = x.get()
            (dict if isinstance(x, dict) else list).__setitem__(x, key, value)
        elif self.how == CELL:
            x.__closure__[key].cell_contents = value
        elif self.how == VAR:
            x.set(value)
        elif isinstance(x, type):
            if value is MISSING:
                type.__delattr__(x, key)
            else:
                type.__setattr__(x, key, value)
        elif self.how == SLOT:
            if value is MISSING:
                object.__delattr__(x, key)
            else:
                object.__setattr__(x, key, value)
        else:
            names = x if self.how == GLOBAL else attributes(x)
            names = names[self.how] if self.how in MEMBERS else names
            if value is MISSING:
                names.pop(key, None)
            else:
                names[key] = value


def attributes(x: Any) -> Any:
    """The dict of an object, whatever its class makes of reading an attribute; {} without one."""
    try:
        if is_python(type(x)) and not isinstance(x, threading.local):
            return object.__getattribute__(x, "__dict__")
        return x.__dict__
    except AttributeError:
        return {}


def is_python(kind: type) -> bool:
    """Whether a class may have been made by a class statement: on the heap, and not immutable."""
    return kind.__flags__ & 0b11 << 8 == 1 << 9


def is_plain(x: Any) -> bool:
    """Whether all of an object is what its attributes hold, or what a dict holds."""
    return isinstance(x, dict) or (hasattr(x, "__dict__") and not isinstance(x, type))


def slots_of(x: Any) -> list[str]:
    """The names of the slots of an object that hold something."""
    names = [n for c in type(x).__mro__ for n, f in c.__dict__.items()
             if isinstance(f, types.MemberDescriptorType) and is_python(c)]  # fmt: skip
    return [n for n in names if hasattr(x, n)]


def item_of(of: Place, key: Any) -> Place:
    """The place of an item of what lies at another."""
    return Place(ITEM, of, key, item_name(of.name, key), of.line)


def item_name(name: str, key: Any) -> str:
    """How people write an item."""
    return f"{name}[{key!r}]" if isinstance(key, (int, str)) else f"{name}[{shown(key)}]"


def contents(x: Any) -> tuple[Any, ...]:
    """What a container holds: of a dict its keys and then its values."""
    return (*x, *dict.values(x)) if isinstance(x, dict) else tuple(x)


def key_at(x: Any, i: int, n: int) -> Any:
    """The key under which the i-th of the `n` entries of `contents(x)` lies."""
    if isinstance(x, dict):
        return next(k for j, k in enumerate(x) if j == i % (n // 2))
    return i


def same(a: Any, b: Any) -> bool:
    """Whether code can't tell two values apart, as far as a cheap look can say."""
    if a is b:
        return True
    kind = type(a)
    if kind is not type(b):
        return False
    if kind is float:
        return bool(a.hex() == b.hex())
    if kind in (int, str, bytes, slice, range):
        return bool(a == b)
    if kind is tuple:
        return len(a) == len(b) and all(map(same, a, b))
    if kind is complex or isinstance(a, np.generic):
        return bool(np.asarray(a).tobytes() == np.asarray(b).tobytes())
    parts = _parts(a)
    return parts is not None and _describe(parts) == _describe(_parts(b))


def _parts(x: Any) -> tuple[Any, ...] | None:
    """What makes a view or a bound method what it is; None of all else."""
    if type(x) is types.MethodType:
        return x.__self__, x.__func__
    if isinstance(x, Tensor) and x._view_chain:
        return x._storage, x._base, x._grad_fn, x._needs_grad, x._view_chain
    return None


def _describe(parts: Any) -> Any:
    return parts and [p if isinstance(p, (bool, tuple)) else id(p) for p in parts]


class Words(str):
    """What is said of a value, in the place of the value."""

    __slots__ = ()


def entries(n: int) -> Words:
    """How much a container holds."""
    return Words(f"{n} {'entry' if n == 1 else 'entries'}")


def shown(x: Any) -> str:
    """A value in a message."""
    if isinstance(x, Words):
        return str(x)
    if isinstance(x, Tensor):
        known = not hasattr(type(x), SHAPELESS)
        return f"a tensor of shape {list(x.shape)}" if known else "a tensor without a shape yet"
    if isinstance(x, (int, float, complex, str, bytes, type(None), np.generic)) or x is MISSING:
        text = repr(x)
        return text if len(text) <= 60 else f"{text[:57]}..."
    if isinstance(x, BOXES):
        return f"a {type(x).__name__} of {len(x)}"
    return getattr(x, "__qualname__", None) or f"a {type(x).__name__}"


ABSENT, EMPTY = "absent", "empty"  # of places, beside how they are read


class _Kept:
    """Stands where a weak reference would, of what takes none."""

    __slots__ = ("value",)

    def __init__(self, value: Any) -> None:
        self.value = value

    def __call__(self) -> Any:
        return self.value


class _Kind(_Kept):
    """Of a container its type alone: what it holds is compared next."""

    __slots__ = ()


class _Alike:
    """A view of some memory, or a bound method: it may die, as one that is equal may come."""

    def __init__(self, value: Any, keep: Callable[[Any], Any]) -> None:
        parts = _parts(value)
        self.known, self.parts = _describe(parts), [keep(p) for p in parts or ()]
        self.level: _Level | None = None
        self.number = 0
        self.ref = weakref.ref(value, self._forget)

    def _forget(self, _: Any) -> None:
        if self.level is not None:
            self.level.ids[self.number] = -1  # another object may take its id

    def __call__(self) -> Any:
        return self.ref()


class _Level:
    """Values that are compared at once, and which of them are containers to be looked into."""

    __slots__ = ("ids", "keys", "lengths", "maps", "odd", "places", "rest", "want")

    def __init__(self) -> None:
        self.places: list[Any] = []  # Places, or pairs (of the container, number)
        self.want: list[Any] = []  # weak references where there can be some
        self.ids: list[int] = []
        self.maps: Callable[[Any], Any] = _nothing  # picks the dicts whose keys are names
        self.odd: Callable[[Any], Any] = _nothing  # the other dicts
        self.rest: Callable[[Any], Any] = _nothing  # and the other containers
        self.keys: list[Any] = []  # of the first
        self.lengths: list[int] = []  # of them all

    def know(self, now: list[Any]) -> None:
        """From now on these very values are expected."""
        self.ids = list(map(id, now))
        for i, w in enumerate(self.want):
            if type(w) is _Alike:
                w.level, w.number = self, i

    def boxes(self, now: Any) -> tuple[Any, Any, Any]:
        """The containers among values (or their numbers, in a range)."""
        return self.maps(now), self.odd(now), self.rest(now)

    def into(self, now: list[Any]) -> list[Any]:
        """What the containers among the values hold; raises if they have other keys or lengths."""
        maps, inside = self.maps(now), chain.from_iterable
        lengths, out = list(map(len, maps)), list(inside(map(dict.values, maps)))
        if self.odd is not _nothing:
            odd = self.odd(now)
            lengths += map(len, odd)
            out += chain(inside(odd), inside(map(dict.values, odd)))
        if self.rest is not _nothing:
            rest = self.rest(now)
            lengths += map(len, rest)
            out += inside(rest)
        if lengths != self.lengths or list(inside(maps)) != self.keys:
            raise ValueError
        return out


def _is_simple(entries: list[tuple[Place, Any]]) -> bool:
    """Whether what lies in the dict of an object (or class) is what reading it gives."""
    x = entries[0][0].holder
    read: Any = type(x).__getattribute__
    if isinstance(x, type):
        return read is type.__getattribute__ and all(type(v) is FunctionType for _, v in entries)
    hidden = (c.__dict__.get(p.key) for c in type(x).__mro__ for p, _ in entries)
    return read is object.__getattribute__ and not any(hasattr(h, "__set__") for h in hidden)


def _nothing(*_: Any) -> Any:
    return ()


def _is_named(box: Any) -> bool:
    return all(type(k) in (str, int) for k in box)


def _picker(numbers: list[int]) -> Callable[[Any], Any]:
    if len(numbers) == 1:
        return itemgetter(slice(numbers[0], numbers[0] + 1))
    return itemgetter(*numbers) if numbers else _nothing


class Guard:
    """Places and the values that a capture found there.

    `holds()` is nearly always one pass without Python code over the objects' ids.
    """

    def __init__(self) -> None:
        self.alive = True
        self.died: Callable[[], None] = _nothing  # called when what is looked at is gone for good
        self.missed: list[tuple[Place, Any, Any]] = []  # at the last look: place, before, now
        self.why = ""  # in words
        self.gets: list[Callable[[], Iterable[Any]]] = []  # each gives what some places hold now
        self.levels = [_Level()]  # these values, what the containers among them hold, and so on
        # (get, values): what Programs use anyway, and flags
        self.firm: list[tuple[Callable[[], Iterable[Any]], list[Any], Place]] = []
        self.empty: list[tuple[Callable[[], Iterable[Any]], Place]] = []  # that hold nothing
        self.steady: list[Callable[[], Iterable[Any]]] = []  # the gets of `firm`
        self.values: list[Any] = []  # and their values, in one list
        self.nothing: list[Callable[[], Iterable[Any]]] = []  # the gets of `empty`
        self.absent: list[Place] = []  # where nothing lies
        self.asked: list[tuple[Callable[[], Any], Any, str]] = []  # get, its answer, line
        self.arrays: list[tuple[weakref.ref[Any], bytes, Place]] = []
        self.no_grads: list[Any] = []  # leaves (weak) that had no .grad
        self.grads: list[Any] = []  # leaves (weak) that had one

    @property
    def count(self) -> int:
        """How many values are looked at."""
        values = sum(len(level.ids) + len(level.keys) for level in self.levels)
        values += sum(len(list(get())) for get, _ in self.empty)
        values += sum(len(values) for _, values, _ in self.firm) + len(self.absent)
        values += len(self.asked) + len(self.arrays)
        return values + len(self.no_grads) + len(self.grads)

    def _ref(self, x: Any) -> Any:
        """A weak reference whose death ends the guard; of what takes none, one that is strong."""

        guard = weakref.ref(self)

        def gone(_: Any) -> None:
            g = guard()
            if g is not None and g.alive:
                g.alive, g.firm, g.values = False, [], []
                g.died()

        try:
            return weakref.ref(x, gone)
        except TypeError:
            return _Kept(x)

    def _add(self, get: Callable[[], Iterable[Any]], entries: Iterable[Any]) -> None:
        self.gets.append(get)
        for place, value in entries:
            self.levels[0].places.append(place)
            self.levels[0].want.append(value)

    def watch(self, found: Iterable[tuple[Place, Any]]) -> None:
        """Take the values that lie at some places."""
        groups: dict[Any, list[tuple[Place, Any]]] = {}  # by kind and holder
        for place, value in found:
            how: Any = place.how
            x = place.holder
            if value is MISSING and how in (ATTR, GLOBAL):
                how, x = ABSENT, None
            elif how == ATTR and place.key in HOOKS and not value:
                how = EMPTY
            elif how in (VAR, ITEM) or value is MISSING:
                how, x = ITEM, None
            groups.setdefault((how, id(x)), []).append((place, value))
        for (how, i), entries in list(groups.items()):
            if how == ATTR and len(entries) < 3 and _is_simple(entries):
                del groups[how, i]  # few are read straight from the object
                groups.setdefault((SLOT, i), []).extend(entries)
        for kind, by, make in (
            (ATTR, attrgetter("__dict__"), itemgetter), (SLOT, None, attrgetter),
            (CELL, attrgetter("__closure__"), itemgetter), (GLOBAL, None, itemgetter),
            (EMPTY, attrgetter("__dict__"), itemgetter),
            *[(kind, attrgetter(kind), itemgetter) for kind in MEMBERS],
        ):  # fmt: skip
            some = [g * 2 if len(g) == 1 else g for (how, _), g in groups.items() if how == kind]
            if not some:
                continue
            getters = [make(*[p.key for p, _ in g]) for g in some]
            holders = [g[0][0].holder for g in some]
            refs = [_Kept(x) if kind == GLOBAL else self._ref(x) for x in holders]
            get: Any = partial(_each, getters, refs, by)
            if kind == EMPTY:
                self.empty.append((get, Place(GLOBAL, {}, None, "the hooks of a module")))
            else:
                self._add(partial(_contents, get) if kind == CELL else get, chain(*some))
        rest = groups.get((ITEM, id(None)), [])
        if rest:
            places = [p for p, _ in rest]
            self._add(lambda: [p.get() for p in places], rest)
        self._watch_absent([p for p, _ in groups.get((ABSENT, id(None)), [])])

    def _watch_absent(self, places: list[Place]) -> None:
        self.absent = places
        inner = [p for p in places if p.how == ATTR]
        refs, keys = [self._ref(p.holder) for p in inner], [p.key for p in inner]
        spaces = [p.holder for p in places if p.how == GLOBAL]
        names = [p.key for p in places if p.how == GLOBAL]
        dicts = attrgetter("__dict__")
        self.appeared: Callable[[], bool] = lambda: (
            any(map(contains, map(dicts, map(call, refs)), keys))
            or (bool(names) and any(map(contains, spaces, names)))
        )

    def watch_tensors(self, tensors: Iterable[Tensor], name: str) -> None:
        """The memory of tensors, and whether they need gradients."""
        refs = [self._ref(x) for x in tensors]
        flags = attrgetter("_storage", "_needs_grad")
        if refs:
            self._hold(lambda: chain.from_iterable(map(flags, map(call, refs))), name)

    def watch_optimizer(self, optimizer: Any, name: str) -> None:
        """The parameters of its groups, and the memory in which the tensors of its state lie."""
        me, params, memory = self._ref(optimizer), itemgetter("params"), attrgetter("_storage")
        state = list(optimizer.state.values())
        keys = [[k for k, v in s.items() if isinstance(v, Tensor)] for s in state]
        getters: Any = repeat(dict.values)
        if any(len(k) < len(s) for k, s in zip(keys, state, strict=True)):
            getters = [itemgetter(*k, *k[: len(k) == 1]) if k else _nothing for k in keys]

        def tensors() -> Iterable[Any]:
            some = map(call, getters, me().state.values())
            return map(memory, chain.from_iterable(some))

        groups = Place(ATTR, optimizer, "param_groups", f"{name}.param_groups").let_go()
        lists = [(item_of(item_of(groups, i), "params"), g["params"])
                 for i, g in enumerate(optimizer.param_groups)]  # fmt: skip
        self._add(lambda: map(params, me().param_groups), lists)
        self._hold(tensors, f"{name}.state")

    def _hold(self, get: Callable[[], Iterable[Any]], name: str) -> None:
        self.firm.append((get, list(get()), Place(GLOBAL, {}, None, name)))

    def watch_grad(self, leaf: Tensor, grad: Tensor | None, used: bool) -> None:
        """Whether `leaf.grad` is None is relied on; if it is `used`, what it is too."""
        (self.no_grads if grad is None else self.grads).append(self._ref(leaf))
        if used:
            ref, known = self._ref(leaf), self._ref(grad)
            self.asked.append((lambda: ref().grad is known(), True, "a .grad"))

    def settle(self) -> None:
        """Look into the containers among the values; nothing is kept alive from now on."""
        level = self.levels[0]
        above: list[frozenset[int]] = [frozenset()] * len(level.want)  # containers around a value
        while True:
            values = level.want
            found: tuple[list[int], list[int], list[int]] = [], [], []  # named, odd, rest
            for i, v in enumerate(values):
                if isinstance(v, BOXES) and id(v) not in above[i]:
                    found[2 if not isinstance(v, dict) else 0 if _is_named(v) else 1].append(i)
            named, odd, rest = found
            level.maps, level.odd, level.rest = map(_picker, found)
            level.lengths = [len(values[i]) for some in found for i in some]
            level.keys = [k for i in named for k in values[i]]
            below, around = _Level(), []
            for numbers, inside in ((named, dict.values), (odd, iter), (odd, dict.values),
                                    (rest, iter)):  # fmt: skip
                for i in numbers:
                    below.want += inside(values[i])
                    keys = values[i] if isinstance(values[i], dict) else range(len(values[i]))
                    below.places += [(level.places[i], k) for k in keys]
                    around += [above[i] | {id(values[i])}] * len(values[i])
            level.want = [self._known(v) for v in values]
            level.know(values)
            for p in level.places:
                if isinstance(p, Place):
                    p.let_go()
            if not level.lengths:
                break
            self.levels.append(below)
            level, above = below, around
        for p in self.absent:
            p.let_go()
        self.nothing = [get for get, _ in self.empty]
        self.steady = [get for get, _, _ in self.firm]
        self.values = [v for _, values, _ in self.firm for v in values]

    def _known(self, value: Any) -> Any:
        """A value as it is kept: an atom itself, of a container its kind alone."""
        if isinstance(value, BOXES):
            return _Kind(type(value))
        if isinstance(value, np.generic):
            return _Kept(value)
        return self._ref(value) if _parts(value) is None else _Alike(value, self._ref)

    # --- looking

    def holds(self) -> bool:
        """Whether all is as it was."""
        self.missed, self.why = [], ""
        if not self.alive:
            if self._look():
                self.why = "something that it used is gone"
            return False
        try:
            now = list(chain.from_iterable(map(call, self.gets)))
            inside = chain.from_iterable
            fine = not self.appeared() and not any(inside(map(call, self.nothing)))
            fine = fine and list(inside(map(call, self.steady))) == self.values
            for level in self.levels if fine else ():
                fine = list(map(id, now)) == level.ids
                if not fine or not level.lengths:
                    break
                now = level.into(now)
        except Exception:  # something is gone, or another thread is at it
            fine = False
        return (fine or self._look()) and self._answers_hold()

    def _answers_hold(self) -> bool:
        """Whether what is no place is as it was."""
        for ref, before, place in self.arrays:
            array = ref()
            if array is None or array.tobytes() != before:
                self.missed.append((place, array, array))
        for get, before, line in self.asked:
            try:
                answer = get()
            except Exception:
                answer = MISSING
            if answer != before:
                self.missed.append(
                    (Place(GLOBAL, {}, None, f"an answer in {line}"), before, answer)
                )
        if self.no_grads or self.grads:
            grad = attrgetter("grad")
            try:
                fine = all(map(is_, map(grad, map(call, self.no_grads)), repeat(None)))
                fine = fine and not any(map(is_, map(grad, map(call, self.grads)), repeat(None)))
            except AttributeError:
                fine = False
            if not fine:
                place = Place(GLOBAL, {}, None, "whether a .grad is None")
                self.missed.append((place, not fine, fine))
        return not self.missed or self._tell()

    def _look(self) -> bool:
        """The same with equal numbers, one by one; notes what is another."""
        for p in self.absent:
            value = p.get()
            if value is not MISSING:
                self.missed.append((p, MISSING, value))
        for get, want, p in [*self.firm, *[(get, None, p) for get, p in self.empty]]:
            with contextlib.suppress(Exception):
                if not any(get()) if want is None else list(get()) == want:
                    continue
            self.missed.append((p, Words("as it was"), Words("another")))
        try:
            now = list(chain.from_iterable(map(call, self.gets)))
        except Exception:
            now = [p.get() for p in self.levels[0].places]
        whole, found = True, []
        for level in self.levels:
            want = [w() for w in level.want]
            found.append(now)
            for i in compress(range(len(now)), map(ne, map(id, now), level.ids)):
                if type(level.want[i]) is _Kind:
                    fine = whole = whole and type(now[i]) is want[i]
                elif type(level.want[i]) is _Alike:
                    fine = level.want[i].known == _describe(_parts(now[i]))
                else:
                    fine = same(want[i], now[i])
                if not fine:
                    self.missed.append((_place(level.places[i]), want[i], now[i]))
            if not whole or not level.lengths:
                break
            try:
                now = level.into(now)
            except Exception:
                self._miss_lengths(level, now)
                break
        if self.missed:
            return self._tell()
        for level, now in zip(self.levels, found, strict=True):  # all is equal: know it by its ids
            for i in compress(range(len(now)), map(ne, map(id, now), level.ids)):
                if type(level.want[i]) is not _Kind:
                    level.want[i] = self._known(now[i])
            level.know(now)
        return True

    def _miss_lengths(self, level: _Level, now: list[Any]) -> None:
        for i, n in zip(chain(*level.boxes(range(len(now)))), level.lengths, strict=True):
            try:
                size = len(now[i])
            except TypeError:
                size = -1
            if size != n:
                self.missed.append((_place(level.places[i]), entries(n), entries(size)))
        if not self.missed:
            now_keys = chain.from_iterable(level.maps(now))
            old, new = next(p for p in zip(level.keys, now_keys, strict=True) if p[0] != p[1])
            place = _place(level.places[level.maps(range(len(now)))[0]])
            self.missed.append((place, Words(f"with {old!r}"), Words(f"with {new!r}")))

    def _tell(self) -> bool:
        place, before, now = self.missed[0]
        self.why = f"{place} was {shown(before)} and is {shown(now)}"
        return False

    def lines(self) -> list[str]:
        """What is looked at, for people."""
        found = []
        for level in self.levels:
            for p, w in zip(level.places, level.want, strict=True):
                found.append(f"{_place(p)} is {shown(w())}")
        found += [f"{p} is as it was" for _, _, p in self.firm]
        found += [f"{p} is missing" for p in self.absent]
        found += [f"{p}: {len(before)} bytes" for _, before, p in self.arrays]
        found += [f"an answer in {line} is {value!r}" for _, value, line in self.asked]
        return list(dict.fromkeys(found))


def _each(getters: list[Any], refs: list[Any], by: Any) -> Iterable[Any]:
    """What each getter gives of the object that its reference leads to, or of a part of it."""
    alive = map(call, refs)
    return chain.from_iterable(map(call, getters, alive if by is None else map(by, alive)))


def _contents(get: Callable[[], Iterable[Any]]) -> Iterable[Any]:
    return map(_CELL, get())


_CELL = attrgetter("cell_contents")


def _place(p: Any) -> Place:
    """A Place, from a pair of a container's and a key."""
    if isinstance(p, Place):
        return p
    of = _place(p[0])
    return item_of(of, p[1])
