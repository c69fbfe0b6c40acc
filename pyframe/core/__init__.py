"""The base of all packages: dtypes, devices, modes, nodes, views, and ops with their dispatch."""

from __future__ import annotations

import sys
from typing import Any

# Modules that classes and functions are of, by their ids, where `pyframe.torch` says another.
moved: dict[int, str] = {}


def module_of(found: Any) -> str:
    """The module of pyframe's, or of a program's, that a class or function is of."""
    return moved.get(id(found), getattr(found, "__module__", ""))


def also_named(package: str, module: str, names: str) -> None:
    """Let a module of a package be found under names that modules of PyTorch's have, too."""
    found = sys.modules[f"{package}.{module}"]
    for name in names.split():
        sys.modules[f"{package}.{name}"] = found
        vars(sys.modules[package]).setdefault(name, found)
