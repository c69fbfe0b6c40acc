"""Locks that a forked process finds free."""

from __future__ import annotations

import threading
import weakref
from typing import Any

made: weakref.WeakSet[Any] = weakref.WeakSet()


def lock() -> Any:
    """A lock as threading.RLock. In a forked process it is free, whichever thread of the parent
    held it: that thread does not exist there."""
    new = threading.RLock()
    made.add(new)
    return new
