"""Source: where a value lies that a captured function reads from outside, and how to compare it."""

from __future__ import annotations

import contextlib
import types
import weakref
from collections import deque
from typing import Any

import numpy as np

from pyframe.core.objects import attributes
from pyframe.core.packages import MEMBERS, SHAPELESS
from pyframe.tensor import Tensor

MISSING: Any = type("missing", (), {"__repr__": lambda self: "missing"})()

# How a value is read: from the dict of an object; as `object` reads an attribute, from a slot say;
# by its name in a dict of globals; from a cell of a function; from a container that lies at another
# source; from a context variable. The dicts of a Module (MEMBERS) are read like those of objects.
ATTR, SLOT, GLOBAL, CELL, ITEM, VAR = "attribute", "slot", "global", "cell", "item", "context"

CONTAINER_TYPES = (dict, list, tuple, set, frozenset, deque)  # what is watched by its contents


class Source:
    """Where a value lies, so that it can be read, and another one put there.

    `how` it is read says what `holder` and `key` are: an object and the name of an attribute, a
    dict of globals and a name, a function and the number of a cell, a Source and the key of an item
    in what lies there, a context variable and None. `name` and `line` (the file and the line of
    code that reads it) are for people.
    """

    __slots__ = ("holder", "how", "key", "line", "name")

    def __init__(self, how: str, holder: Any, key: Any, name: str, line: Any = None) -> None:
        self.how, self.holder, self.key, self.name, self.line = how, holder, key, name, line

    def __str__(self) -> str:
        if self.line is None:
            return f"`{self.name}`"
        file, line = self.line
        return f"`{self.name}` ({file.replace(chr(92), '/').rpartition('/')[2]}:{line})"

    def id(self) -> Any:
        """A key that two Sources share if they are the same."""
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
        """The holder; None if it is gone."""
        return self.holder() if type(self.holder) is weakref.ref else self.holder

    def let_go(self) -> Source:
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
        if self.how == VAR:
            return x.get(MISSING)
        if self.how not in (CELL, SLOT):
            return self._names(x).get(key, MISSING)
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
        elif value is MISSING:
            self._names(x).pop(key, None)
        else:
            self._names(x)[key] = value

    def _names(self, x: Any) -> Any:
        """The dict in which it lies, of an object or of globals."""
        names = x if self.how == GLOBAL else attributes(x)
        return names.get(self.how, {}) if self.how in MEMBERS else names


def item_of(of: Source, key: Any) -> Source:
    """The source of an item of what lies at another."""
    return Source(ITEM, of, key, item_name(of.name, key), of.line)


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
    parts = identity_parts(a)
    return parts is not None and described(parts) == described(identity_parts(b))


def identity_parts(x: Any) -> tuple[Any, ...] | None:
    """What makes a view or a bound method what it is: one that is made anew of the same parts is
    as good. None for all else."""
    if type(x) is types.MethodType:
        return x.__self__, x.__func__
    if isinstance(x, Tensor) and x._view_chain:
        return x._storage, x._base, x._grad_fn, x._needs_grad, x._view_chain
    return None


def described(parts: Any) -> Any:
    """The parts of a view or a bound method as data, which is equal for the same parts."""
    return parts and [p if isinstance(p, (bool, tuple)) else id(p) for p in parts]


class ValueDescription(str):
    """What is said of a value, in the place of the value."""

    __slots__ = ()


def entries(n: int) -> ValueDescription:
    """How much a container holds."""
    return ValueDescription(f"{n} {'entry' if n == 1 else 'entries'}")


def shown(x: Any) -> str:
    """A value in a message."""
    if isinstance(x, ValueDescription):
        return str(x)
    if isinstance(x, Tensor):
        known = not hasattr(type(x), SHAPELESS)
        return f"a tensor of shape {list(x.shape)}" if known else "a tensor without a shape yet"
    if isinstance(x, (int, float, complex, str, bytes, type(None), np.generic)) or x is MISSING:
        text = repr(x)
        return text if len(text) <= 60 else f"{text[:57]}..."
    if isinstance(x, CONTAINER_TYPES):
        return f"a {type(x).__name__} of {len(x)}"
    return getattr(x, "__qualname__", None) or f"a {type(x).__name__}"
