"""Python objects from inside: attributes, slots, and references that keep nothing alive."""

from __future__ import annotations

import threading
import types
import weakref
from collections.abc import Callable
from typing import Any


def reference(x: Any) -> Callable[[], Any]:
    """A function that gives `x` without keeping it alive, if it can do without."""
    try:
        return weakref.ref(x)
    except TypeError:
        return lambda: x


def attributes(x: Any) -> Any:
    """The dict of an object, whatever its class makes of reading an attribute; a new one
    without."""
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
    """Whether an object is all told by its attributes, or is a dict."""
    return isinstance(x, dict) or (hasattr(x, "__dict__") and not isinstance(x, type))


def slots_of(x: Any) -> list[str]:
    """The names of the slots of an object that hold something."""
    names = [n for c in type(x).__mro__ for n, f in c.__dict__.items()
             if isinstance(f, types.MemberDescriptorType) and is_python(c)]  # fmt: skip
    return [n for n in names if hasattr(x, n)]
