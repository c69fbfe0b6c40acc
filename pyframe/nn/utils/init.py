"""Layers whose initial values don't matter, as torch.nn.utils.init."""

from __future__ import annotations

import inspect
from typing import Any

import pyframe as pf
from pyframe.nn.modules.module import Module

__all__ = ["skip_init"]


def skip_init(module_cls: type[Module], *args: Any, **kwargs: Any) -> Module:
    """`module_cls(*args, **kwargs)` that draws no random numbers from the generators: what its
    parameters hold is not to be used. RuntimeError for a class that takes no `device`."""
    if not issubclass(module_cls, Module):
        raise RuntimeError(f"skip_init: expected a Module's class, got {module_cls.__name__}")
    if "device" not in inspect.signature(module_cls).parameters:
        raise RuntimeError(
            f"skip_init: {module_cls.__name__} must support a 'device' arg to skip initialization"
        )
    with pf.random.fork_rng():
        return module_cls(*args, **kwargs)
