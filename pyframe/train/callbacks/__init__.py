"""What looks on while a Model trains: Callback, and those that come with pyframe."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from pyframe.train.callbacks.base import (
    Callback as Callback,
    LambdaCallback as LambdaCallback,
    Logs as Logs,
)

from pyframe.train.callbacks.stopping import EarlyStopping as EarlyStopping  # isort: skip
from pyframe.train.history import History as History

if TYPE_CHECKING:
    from pyframe.train.progress import ProgressBar as ProgressBar

# What few programs need is loaded when it is asked for.
LATE = {
    "ProgressBar": "pyframe.train.progress",
}


def __getattr__(name: str) -> Any:
    if name in LATE:
        return getattr(importlib.import_module(LATE[name]), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
