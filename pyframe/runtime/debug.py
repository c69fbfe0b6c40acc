"""What PYFRAME_DEBUG=graph,kernels,wgsl prints of each new Program."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable, Sequence

from pyframe.backend.base import ProgramCode
from pyframe.core.limits import Limits
from pyframe.core.node import Node
from pyframe.graph.program import Program


def graph(roots: Sequence[Node], limits: Limits) -> None:
    """The nodes, and the kernels that they are joined into."""
    if _asked("graph"):
        from pyframe.tools.draw_graph import text

        _tell(text(list(roots), limits))


def kernels(program: Program) -> None:
    """The table of kernels."""
    if _asked("kernels"):
        from pyframe.tools.cost import table

        _tell(f"pyframe:\n{table(program)}")


def uncompiled(reasons: Iterable[str]) -> None:
    """Why NumPy runs what the CPU's compiler was asked to take."""
    if _asked("kernels"):
        for reason in dict.fromkeys(reasons):
            _tell(f"pyframe: NumPy runs a kernel: {reason}")


def unsized(why: BaseException) -> None:
    """Why no Program is for many graphs that differ in sizes."""
    if _asked("kernels"):
        _tell(f"pyframe: recorded work is planned for each size: {type(why).__name__}: {why}")


def code(made: ProgramCode) -> None:
    """The kernels' text."""
    if _asked("wgsl"):
        for label, text in zip(made.labels, made.codes, strict=True):
            _tell(f"// {label}\n{text}")


def _asked(what: str) -> bool:
    return what in os.environ.get("PYFRAME_DEBUG", "").split(",")


def _tell(text: str) -> None:
    print(text, file=sys.stderr)
