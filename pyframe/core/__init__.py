"""What everything stands on: dtypes, devices, modes, nodes, views, ops and how they are called."""

from __future__ import annotations

import sys


def also_named(package: str, module: str, names: str) -> None:
    """Let a module of a package be found under names that modules of PyTorch's have, too."""
    found = sys.modules[f"{package}.{module}"]
    for name in names.split():
        sys.modules[f"{package}.{name}"] = found
        vars(sys.modules[package]).setdefault(name, found)
