"""What looks on while a Model trains: Callback, and those that come with pyframe."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from pyframe.train.callbacks.base import (
    Callback as Callback,
    LambdaCallback as LambdaCallback,
    Logs as Logs,
)
from pyframe.train.history import History as History
from pyframe.train.interrupts import interrupts as interrupts

if TYPE_CHECKING:
    from pyframe.train.callbacks.checkpoints import ModelCheckpoint as ModelCheckpoint
    from pyframe.train.callbacks.gradients import GradientWatch as GradientWatch
    from pyframe.train.callbacks.loggers import (
        CSVLogger as CSVLogger,
        TensorBoard as TensorBoard,
        Timer as Timer,
    )
    from pyframe.train.callbacks.stopping import EarlyStopping as EarlyStopping
    from pyframe.train.lr_finder import LearningRateFinder as LearningRateFinder
    from pyframe.train.progress import ProgressBar as ProgressBar

# What few programs need is loaded when it is asked for.
LATE = {
    "CSVLogger": "callbacks.loggers",
    "EarlyStopping": "callbacks.stopping",
    "GradientWatch": "callbacks.gradients",
    "LearningRateFinder": "lr_finder",
    "ModelCheckpoint": "callbacks.checkpoints",
    "ProgressBar": "progress",
    "TensorBoard": "callbacks.loggers",
    "Timer": "callbacks.loggers",
}


if not TYPE_CHECKING:  # a name that is not there is an error for type checkers

    def __getattr__(name: str) -> Any:
        if name in LATE:
            return getattr(importlib.import_module(f"pyframe.train.{LATE[name]}"), name)
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
