"""Layers whose initial values don't matter, as torch.nn.utils.init."""

from __future__ import annotations

import inspect
from typing import Any

import pyframe as pf
from pyframe.nn import init
from pyframe.nn.modules.module import Module

__all__ = ["skip_init"]


def skip_init(module_cls: type[Module], *args: Any, **kwargs: Any) -> Module:
    """`module_cls(*args, **kwargs)` without uniform or normal values in its parameters, which hold
    whatever they do; no generator goes on. RuntimeError for a class that takes no `device`."""
    if not issubclass(module_cls, Module):
        raise RuntimeError(f"skip_init: expected a Module's class, got {module_cls.__name__}")
    if "device" not in inspect.signature(module_cls).parameters:
        raise RuntimeError(
            f"skip_init: {module_cls.__name__} must support a 'device' arg to skip initialization"
        )
    before, init.values.skipped = init.values.skipped, True
    try:
        with pf.random.fork_rng():  # what it draws in other ways
            return module_cls(*args, **kwargs)
    finally:
        init.values.skipped = before
