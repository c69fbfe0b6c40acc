"""Helpers around training, as torch.utils."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from pyframe.utils import data as data

if TYPE_CHECKING:
    from pyframe.utils import checkpoint as checkpoint, dlpack as dlpack, tensorboard as tensorboard

__all__ = ["checkpoint", "data"]


if not TYPE_CHECKING:  # a name that is not there is an error for type checkers

    def __getattr__(name: str) -> Any:
        if name in ("checkpoint", "dlpack", "tensorboard"):  # few programs need them
            return importlib.import_module(f"pyframe.utils.{name}")
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
