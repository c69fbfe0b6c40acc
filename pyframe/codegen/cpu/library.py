"""The library of all extern kernels of this package."""

from __future__ import annotations

from pyframe.codegen.cpu import index, join, scan, sort
from pyframe.codegen.cpu.routines import Plan

BODIES = index.BODIES | join.BODIES | scan.BODIES | sort.BODIES
_MODULES = {"index": index, "join": join, "scan": scan, "sort": sort}


def planner(name: str) -> Plan | None:
    """Who plans the routine that an op names; None if it is another package's."""
    module, _, function = name.partition(".")
    found: Plan | None = getattr(_MODULES.get(module), function, None)
    return found
