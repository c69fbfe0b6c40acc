"""GuardSet: the conditions on external state that a replay relies on, checked before each one.

A guard keeps nothing alive: it knows objects by weak references and values by their ids, which no
other object can take before the guard has heard of the death of the first.

The check is fast, as nearly all of it runs in C. For each holder of values there is a getter that
reads all of them at once (`itemgetter("weight", "bias")` of the dict of an object, say); what the
getters give is put into one list, and the list of its ids is compared with that of the capture.
What the containers among the values hold is compared in the same way: those are the levels. Only
where ids differ are values compared one by one, as equal numbers need not be the same object.
"""

from __future__ import annotations

import contextlib
import sys
import weakref
from collections.abc import Callable, Iterable
from functools import partial
from itertools import chain, compress, repeat
from operator import attrgetter, call, contains, is_, itemgetter, ne
from types import FunctionType
from typing import Any

import numpy as np

from pyframe.core.objects import attributes
from pyframe.core.packages import HOOKS, MEMBERS
from pyframe.tensor import Tensor
from pyframe.watch import sources as _sources
from pyframe.watch.sources import (
    ATTR,
    CELL,
    GLOBAL,
    MISSING,
    SLOT,
    Source,
    ValueDescription,
    entries,
    same,
)

Getter = Callable[[], Iterable[Any]]  # what some values are now
Reading = tuple[Source, Any]  # a source, and what lies there

_NO_HOOKS = "no hooks"  # an attribute that is an empty dict of hooks: it is enough that it is

# For each kind of source: what of its holder has the values, and what makes a getter of their keys.
_READERS: tuple[tuple[str, Any, Any], ...] = (
    (ATTR, attrgetter("__dict__"), itemgetter), (SLOT, None, attrgetter),
    (CELL, attrgetter("__closure__"), itemgetter), (GLOBAL, None, itemgetter),
    (_NO_HOOKS, attrgetter("__dict__"), itemgetter),
    *[(kind, attrgetter(kind), itemgetter) for kind in MEMBERS],
)  # fmt: skip


def _nothing(*_: Any) -> Any:
    return ()


# --- what is known of a value: something to be called, which gives it, or None where it has died


class _Strong:
    """Of a value that takes no weak reference: it is kept."""

    __slots__ = ("value",)

    def __init__(self, value: Any) -> None:
        self.value = value

    def __call__(self) -> Any:
        return self.value


class _Type(_Strong):
    """The expected type of a container, whose items are guarded on the next level."""

    __slots__ = ()


class _StructuralRef:
    """Of a view, or a bound method, what it is made of: it may die, as one of the same parts is as
    good. Of that, if not of it, the guard wants to hear the death."""

    def __init__(self, value: Any, refer: Callable[[Any], Any]) -> None:
        parts = _sources.identity_parts(value)
        self.described, self.parts = _sources.described(parts), [refer(p) for p in parts or ()]
        self.level: _GuardLevel | None = None
        self.number = 0  # in the level
        self.ref = weakref.ref(value, self._forget)

    def _forget(self, _: Any) -> None:
        if self.level is not None:
            self.level.ids[self.number] = -1  # another object may take its id

    def __call__(self) -> Any:
        return self.ref()


class _GuardLevel:
    """The values that lie at the sources, or what the containers of the level above hold."""

    __slots__ = (
        "expected", "ids", "keys", "lengths", "others", "others_dicts", "plain_dicts", "sources",
    )  # fmt: skip

    def __init__(self) -> None:
        # Sources, or pairs (that of the container, key) to make them of
        self.sources: list[Any] = []
        self.expected: list[Any] = []  # what is known of each value
        self.ids: list[int] = []  # of the values
        # each picks containers of one kind from a list of values
        self.plain_dicts: Callable[[Any], Any] = _nothing  # whose keys are strings and ints
        self.others_dicts: Callable[[Any], Any] = _nothing  # with keys that are compared by ids
        self.others: Callable[[Any], Any] = _nothing  # lists and their like
        self.keys: list[Any] = []  # of the plain dicts, one after the other
        self.lengths: list[int] = []  # of the containers

    def find_containers(self, values: list[Any], above: list[frozenset[int]]) -> list[list[int]]:
        """Make the pickers: the numbers of the plain dicts, the other dicts, the others among
        `values`. One that lies in itself, as `above` tells of each value, is not looked into."""
        found: list[list[int]] = [[], [], []]
        for i, v in enumerate(values):
            if isinstance(v, _sources.CONTAINER_TYPES) and id(v) not in above[i]:
                found[2 if not isinstance(v, dict) else 0 if _has_plain_keys(v) else 1].append(i)
        self.plain_dicts, self.others_dicts, self.others = map(_picker, found)
        self.lengths = [len(values[i]) for some in found for i in some]
        self.keys = [k for i in found[0] for k in values[i]]
        return found

    def know(self, now: list[Any]) -> None:
        """From now on these very values are expected."""
        self.ids = list(map(id, now))
        for i, known in enumerate(self.expected):
            if type(known) is _StructuralRef:
                known.level, known.number = self, i

    def containers(self, now: Any) -> chain[Any]:
        """The containers among values (or their numbers, of a range), as in `lengths`."""
        return chain(self.plain_dicts(now), self.others_dicts(now), self.others(now))

    def inside(self, now: list[Any]) -> list[Any]:
        """What the containers among the values hold, which is the next level. ValueError if they
        have other keys or lengths."""
        plain, flat = self.plain_dicts(now), chain.from_iterable
        lengths, out = list(map(len, plain)), list(flat(map(dict.values, plain)))
        if self.others_dicts is not _nothing:
            dicts = self.others_dicts(now)
            lengths += map(len, dicts)
            out += chain(flat(dicts), flat(map(dict.values, dicts)))
        if self.others is not _nothing:
            others = self.others(now)
            lengths += map(len, others)
            out += flat(others)
        if lengths != self.lengths or list(flat(plain)) != self.keys:
            raise ValueError
        return out


def _has_plain_keys(box: Any) -> bool:
    return all(type(k) in (str, int) for k in box)


def _picker(numbers: list[int]) -> Callable[[Any], Any]:
    if len(numbers) == 1:
        return itemgetter(slice(numbers[0], numbers[0] + 1))
    return itemgetter(*numbers) if numbers else _nothing


class GuardSet:
    """What a capture relies on; `holds()` says whether it is so."""

    def __init__(self) -> None:
        self.alive = True  # until something that is looked at dies
        self.died: Callable[[], None] = _nothing  # called then

        # what the last look has found
        self.missed: list[tuple[Source, Any, Any]] = []  # where another value lies: before, now
        self.why = ""  # in words

        # values that are known by their ids
        self.getters: list[Getter] = []  # what they give together is the first level
        self.levels = [_GuardLevel()]

        # values that have to be equal: the memory of tensors, whether they need gradients, and
        # dicts of hooks, which are empty
        self.equal: list[tuple[Getter, list[Any], Source]] = []
        self.absent: list[Source] = []  # where nothing may lie
        self.appeared: Callable[[], bool] = lambda: False  # whether something lies there now

        # how many attributes classes have; and how many of those are not a capture's
        self.spaces: list[Any] = []
        self.sizes: Callable[[], list[int]] = list
        self.known_sizes: list[int] = []
        self.own_sizes: list[int] = []

        # what is read otherwise than from a source
        self.asked: list[tuple[Callable[[], Any], Any, str]] = []  # get, its answer, the line
        self.arrays: list[tuple[weakref.ref[Any], bytes, Source]] = []  # and what they hold
        self.no_grads: list[Any] = []  # weak references to leaves whose .grad was None
        self.grads: list[Any] = []  # and to those whose was not

        # for the fast look: the getters of `equal`, and what they give together; those of `asked`
        self.equal_getters: list[Getter] = []
        self.equal_values: list[Any] = []
        self.asked_getters: list[Callable[[], Any]] = []
        self.asked_values: list[Any] = []

    @property
    def count(self) -> int:
        """How many values are looked at."""
        # a getter of one key has it twice
        values = sum(len({*map(id, level.sources)}) + len(level.keys) for level in self.levels)
        values += sum(len(values) for _, values, _ in self.equal) + len(self.absent)
        values += len(self.asked) + len(self.arrays) + len(self.spaces)
        return values + len(self.no_grads) + len(self.grads)

    # --- what to look at

    def watch(self, found: Iterable[Reading]) -> None:
        """Rely on the values that lie at some sources."""
        groups: dict[tuple[str, int], list[Reading]] = {}  # by kind and holder
        single: list[Reading] = []  # that are read one by one
        absent: list[Source] = []
        for source, value in found:
            how = source.how
            if value is MISSING and how in (ATTR, GLOBAL, *MEMBERS):
                absent.append(source)
            elif value is MISSING or how in (_sources.VAR, _sources.ITEM):
                single.append((source, value))
            else:
                kind = _NO_HOOKS if how == ATTR and source.key in HOOKS and not value else how
                groups.setdefault((kind, id(source.holder)), []).append((source, value))
        for (how, i), group in list(groups.items()):
            if how == ATTR and len(group) < 3 and _is_read_as_it_lies(group):
                del groups[how, i]  # few are read straight from the object
                groups.setdefault((SLOT, i), []).extend(group)
        for kind, part, make in _READERS:
            self._watch_kind(kind, part, make, [g for (how, _), g in groups.items() if how == kind])
        if single:
            sources = [p for p, _ in single]
            self._expect(lambda: [p.get() for p in sources], single)
        self._watch_absent(absent)

    def _watch_kind(self, kind: str, part: Any, make: Any, groups: list[list[Reading]]) -> None:
        """Rely on sources of one kind; each group has one holder."""
        if not groups:
            return
        groups = [g * 2 if len(g) == 1 else g for g in groups]  # a getter of one key gives no tuple
        getters = [make(*[p.key for p, _ in g]) for g in groups]
        holders = [g[0][0].holder for g in groups]
        refs = [_Strong(x) if kind == GLOBAL else self._refer(x) for x in holders]
        get: Getter = partial(_read, getters, refs, part)
        if kind == _NO_HOOKS:
            empty: list[Any] = [{} for group in groups for _ in group]
            self.equal.append((get, empty, _named("the hooks of a module")))
        else:
            self._expect(partial(_contents, get) if kind == CELL else get, chain(*groups))

    def _expect(self, get: Getter, found: Iterable[Reading]) -> None:
        """What `get` gives is, in this order, what was found."""
        self.getters.append(get)
        for source, value in found:
            self.levels[0].sources.append(source)
            self.levels[0].expected.append(value)

    def _watch_absent(self, sources: list[Source]) -> None:
        self.absent = sources
        inner = [p for p in sources if p.how != GLOBAL]
        parts = [attrgetter("__dict__" if p.how == ATTR else p.how) for p in inner]
        refs, keys = [self._refer(p.holder) for p in inner], [p.key for p in inner]
        spaces = [p.holder for p in sources if p.how == GLOBAL]
        names = [p.key for p in sources if p.how == GLOBAL]
        self.appeared = lambda: (
            any(map(contains, map(call, parts, map(call, refs)), keys))
            or (bool(names) and any(map(contains, spaces, names)))
        )

    def watch_sizes(self, spaces: list[Any]) -> None:
        """Rely on it that classes and their like come to have nothing more: a special method, say,
        which no code names."""
        if not spaces:
            return
        refs, dicts = [self._refer(x) for x in spaces], attrgetter("__dict__")
        self.sizes = lambda: list(map(len, map(dicts, map(call, refs))))
        self.known_sizes, self.own_sizes = self.sizes(), [_own_size(x) for x in spaces]
        self.spaces = refs

    def watch_tensors(self, tensors: Iterable[Tensor], name: str) -> None:
        """Rely on the memory of tensors, and on whether they need gradients."""
        refs = [self._refer(x) for x in tensors]
        flags = attrgetter("_storage", "_needs_grad")
        if refs:
            self._equal(lambda: chain.from_iterable(map(flags, map(call, refs))), name)

    def watch_optimizer(self, optimizer: Any, name: str) -> None:
        """Rely on the parameters of its groups, and on the memory of the tensors of its state."""
        me, params, memory = self._refer(optimizer), itemgetter("params"), attrgetter("_storage")
        state = list(optimizer.state.values())
        keys = [[k for k, v in s.items() if isinstance(v, Tensor)] for s in state]
        getters: Any = repeat(dict.values)
        if any(len(k) < len(s) for k, s in zip(keys, state, strict=True)):
            getters = [itemgetter(*k, *k[: len(k) == 1]) if k else _nothing for k in keys]

        def tensors() -> Iterable[Any]:
            some = map(call, getters, me().state.values())
            return map(memory, chain.from_iterable(some))

        groups = Source(ATTR, optimizer, "param_groups", f"{name}.param_groups").let_go()
        lists = [(_sources.item_of(_sources.item_of(groups, i), "params"), g["params"])
                 for i, g in enumerate(optimizer.param_groups)]  # fmt: skip
        self._expect(lambda: map(params, me().param_groups), lists)
        self._equal(tensors, f"{name}.state")

    def _equal(self, get: Getter, name: str) -> None:
        self.equal.append((get, list(get()), _named(name)))

    def watch_grad(self, leaf: Tensor, grad: Tensor | None, used: bool) -> None:
        """Rely on whether `leaf.grad` is None; if it is `used`, on what it is."""
        (self.no_grads if grad is None else self.grads).append(self._refer(leaf))
        if used:
            ref, known = self._refer(leaf), self._refer(grad)
            self.ask(lambda: ref().grad is known(), True, "a .grad")

    def ask(self, get: Callable[[], Any], answer: Any, line: str) -> None:
        """Rely on an answer, which is asked again; `line` says where, or what was asked."""
        self.asked.append((get, answer, line))
        self.asked_getters.append(get)
        self.asked_values.append(answer)

    def settle(self) -> None:
        """Look into the containers among the values, level by level. The guard is complete, and
        keeps nothing alive from now on."""
        level = self.levels[0]
        above: list[frozenset[int]] = [frozenset()] * len(level.expected)  # what a value lies in
        while True:
            values = level.expected
            plain, dicts, others = level.find_containers(values, above)
            below, around = _GuardLevel(), []
            for numbers, inside in ((plain, dict.values), (dicts, iter), (dicts, dict.values),
                                    (others, iter)):  # fmt: skip
                for i in numbers:
                    below.expected += inside(values[i])
                    keys = values[i] if isinstance(values[i], dict) else range(len(values[i]))
                    below.sources += [(level.sources[i], k) for k in keys]
                    around += [above[i] | {id(values[i])}] * len(values[i])
            level.expected = [self._known(v) for v in values]
            level.know(values)
            for p in level.sources:
                if isinstance(p, Source):
                    p.let_go()
            if not level.lengths:
                break
            self.levels.append(below)
            level, above = below, around
        for p in self.absent:
            p.let_go()
        self.equal_getters = [get for get, _, _ in self.equal]
        self.equal_values = [v for _, values, _ in self.equal for v in values]

    def _known(self, value: Any) -> Any:
        """What is known of a value, which is not kept alive if it can be done without."""
        if isinstance(value, _sources.CONTAINER_TYPES):
            return _Type(type(value))
        if isinstance(value, np.generic):
            return _Strong(value)
        is_made_anew = _sources.identity_parts(value) is not None
        return _StructuralRef(value, self._refer) if is_made_anew else self._refer(value)

    def _refer(self, x: Any) -> Any:
        """A weak reference; the death of `x` ends the guard. What takes none is kept."""
        guard = weakref.ref(self)

        def gone(_: Any, ending: Callable[[], bool] = sys.is_finalizing) -> None:
            g = guard()
            if g is not None and g.alive and not ending():
                g.alive, g.equal, g.equal_values = False, [], []
                g.died()

        try:
            return weakref.ref(x, gone)
        except TypeError:
            return _Strong(x)

    # --- looking

    def holds(self) -> bool:
        """Whether all is as it was; `missed` and `why` say what is not."""
        self.missed, self.why = [], ""
        if not self.alive:
            if self._compare():
                self.why = "something that it used is gone"
            return False
        try:
            now = list(chain.from_iterable(map(call, self.getters)))
            flat = chain.from_iterable
            fine = self.sizes() == self.known_sizes and not self.appeared()
            fine = fine and list(flat(map(call, self.equal_getters))) == self.equal_values
            for level in self.levels if fine else ():
                fine = list(map(id, now)) == level.ids
                if not fine or not level.lengths:
                    break
                now = level.inside(now)
        except Exception:  # something is gone, or another thread is at it
            fine = False
        return (fine or self._compare()) and self._answers_hold()

    def _answers_hold(self) -> bool:
        """Whether what was read otherwise than from a source is as it was."""
        for ref, before, source in self.arrays:
            array = ref()
            if array is None or array.tobytes() != before:
                self.missed.append((source, array, array))
        try:
            fine = list(map(call, self.asked_getters)) == self.asked_values
        except Exception:  # see which
            fine = False
        for get, before, line in () if fine else self.asked:
            try:
                answer = get()
            except Exception:
                answer = MISSING
            if answer != before:
                self.missed.append((_named(f"an answer in {line}"), before, answer))
        if self.no_grads or self.grads:
            grad = attrgetter("grad")
            try:
                fine = all(map(is_, map(grad, map(call, self.no_grads)), repeat(None)))
                fine = fine and not any(map(is_, map(grad, map(call, self.grads)), repeat(None)))
            except AttributeError:
                fine = False
            if not fine:
                self.missed.append((_named("whether a .grad is None"), not fine, fine))
        return not self.missed or self._tell()

    def _compare(self) -> bool:
        """Whether all is as it was, where equal numbers are as good: one by one, noting what is
        another."""
        for p in self.absent:
            value = p.get()
            if value is not MISSING:
                self.missed.append((p, MISSING, value))
        for ref, n in zip(self.spaces, self.own_sizes, strict=True):
            size = _own_size(ref())
            if size != n:
                name = _named(f"the attributes of {_sources.shown(ref())}")
                self.missed.append((name, entries(n), entries(size)))
        for get, expected, p in self.equal:
            with contextlib.suppress(Exception):
                if list(get()) == expected:
                    continue
            self.missed.append((p, ValueDescription("as it was"), ValueDescription("another")))
        found = self._compare_levels()
        if self.missed:
            return self._tell()
        for level, now in zip(self.levels, found, strict=True):  # all is equal: know it by its ids
            for i in _differ(level, now):
                if type(level.expected[i]) is not _Type:
                    level.expected[i] = self._known(now[i])
            level.know(now)
        return True

    def _compare_levels(self) -> list[list[Any]]:
        """The values now, level by level; to the level in which something is of another type, or
        of another length."""
        try:
            now = list(chain.from_iterable(map(call, self.getters)))
        except Exception:
            now = [p.get() for p in self.levels[0].sources]
        found: list[list[Any]] = []
        for level in self.levels:
            expected = [known() for known in level.expected]
            found.append(now)
            same_types = True
            for i in _differ(level, now):
                if type(level.expected[i]) is _Type:
                    fine = same_types = same_types and type(now[i]) is expected[i]
                elif type(level.expected[i]) is _StructuralRef:
                    parts = _sources.identity_parts(now[i])
                    fine = level.expected[i].described == _sources.described(parts)
                else:
                    fine = same(expected[i], now[i])
                if not fine:
                    self.missed.append((_source(level.sources[i]), expected[i], now[i]))
            if not same_types or not level.lengths:
                break
            try:
                now = level.inside(now)
            except Exception:
                self._miss_lengths(level, now)
                break
        return found

    def _miss_lengths(self, level: _GuardLevel, now: list[Any]) -> None:
        """Note which container has another length, or other keys."""
        for i, n in zip(level.containers(range(len(now))), level.lengths, strict=True):
            try:
                size = len(now[i])
            except TypeError:
                size = -1
            if size != n:
                self.missed.append((_source(level.sources[i]), entries(n), entries(size)))
        if not self.missed:
            now_keys = chain.from_iterable(level.plain_dicts(now))
            old, new = next(p for p in zip(level.keys, now_keys, strict=True) if p[0] != p[1])
            source = _source(level.sources[level.plain_dicts(range(len(now)))[0]])
            self.missed.append(
                (source, ValueDescription(f"with {old!r}"), ValueDescription(f"with {new!r}"))
            )

    def _tell(self) -> bool:
        source, before, now = self.missed[0]
        self.why = f"{source} was {_sources.shown(before)} and is {_sources.shown(now)}"
        return False

    def lines(self) -> list[str]:
        """What is looked at, for people."""
        found = []
        for level in self.levels:
            for p, known in zip(level.sources, level.expected, strict=True):
                found.append(f"{_source(p)} is {_sources.shown(known())}")
        found += [f"{p} is as it was" for _, _, p in self.equal]
        found += [f"{p} is missing" for p in self.absent]
        found += [f"{p}: {len(before)} bytes" for _, before, p in self.arrays]
        found += [f"an answer in {line} is {value!r}" for _, value, line in self.asked]
        return list(dict.fromkeys(found))


# --- reading


def _own_size(x: Any) -> int:
    """How many attributes a class has, but for those by which a capture of another thread sees what
    is read of its objects."""
    return sum(getattr(f, "__module__", "") != _HOOKS_OF for f in attributes(x).values())


_HOOKS_OF = "pyframe.watch.tracked"  # the module of such functions


def _read(getters: list[Any], refs: list[Any], part: Any) -> Iterable[Any]:
    """What each getter gives of the object that its reference leads to, or of a part of it."""
    alive = map(call, refs)
    return chain.from_iterable(map(call, getters, alive if part is None else map(part, alive)))


def _contents(cells: Getter) -> Iterable[Any]:
    return map(_CELL, cells())


_CELL = attrgetter("cell_contents")


def _is_read_as_it_lies(group: list[Reading]) -> bool:
    """Whether what lies in the dict of an object (or class) is what reading it gives."""
    x = group[0][0].holder
    read: Any = type(x).__getattribute__
    if isinstance(x, type):
        return read is type.__getattribute__ and all(type(v) is FunctionType for _, v in group)
    hidden = (c.__dict__.get(p.key) for c in type(x).__mro__ for p, _ in group)
    return read is object.__getattribute__ and not any(hasattr(h, "__set__") for h in hidden)


def _differ(level: _GuardLevel, now: list[Any]) -> Iterable[int]:
    """The numbers of the values that are other objects."""
    return compress(range(len(now)), map(ne, map(id, now), level.ids))


def _named(name: str) -> Source:
    """In the place of a Source, what people call it."""
    return Source(GLOBAL, {}, None, name)


def _source(p: Any) -> Source:
    """A Source, of a pair of a container's and a key."""
    if isinstance(p, Source):
        return p
    of = _source(p[0])
    return _sources.item_of(of, p[1])
