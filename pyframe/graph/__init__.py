"""The graph of recorded ops and the Programs it becomes; `pyframe.graph.show` draws both, and
`pyframe.graph.table(program)` says what each kernel costs."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pyframe.tools.cost import table as table
    from pyframe.tools.draw_graph import show as show
else:

    def __getattr__(name: str) -> Any:
        """`show` and `table`, loaded when first used: they are of a higher layer."""
        if name == "show":
            from pyframe.tools.draw_graph import show

            return show
        if name == "table":
            from pyframe.tools.cost import table

            return table
        raise AttributeError(f"module 'pyframe.graph' has no attribute {name!r}")
