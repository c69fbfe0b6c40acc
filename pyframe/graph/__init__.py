"""The graph of recorded ops and the Programs it becomes; `pyframe.graph.show` draws both."""

from __future__ import annotations

from typing import Any


def __getattr__(name: str) -> Any:
    """`show`, loaded when it is first used: it is of a higher layer than what else is here."""
    if name == "show":
        from pyframe.tools.draw_graph import show

        return show
    raise AttributeError(f"module 'pyframe.graph' has no attribute {name!r}")
