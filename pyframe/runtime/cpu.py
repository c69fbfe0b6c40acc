"""What compiles the CPU's work: nothing, where NumPy does it all."""

from __future__ import annotations

from pyframe.codegen.lanes.compiler import Compiler


def compiler() -> Compiler | None:
    """Who makes lane programs run here."""
    return None
