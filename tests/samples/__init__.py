"""One row per op, a file per family: see `row.py`. Ops that have none are in `apart.py`."""

from __future__ import annotations

import difflib
from typing import Any

from . import complex, core, extremes, functional, indexing, linalg, pointwise, sorting, spatial
from .apart import APART as APART, KERNELS
from .row import Row as Row, make as make

FAMILIES = (core, complex, extremes, functional, indexing, linalg, pointwise, sorting, spatial)
ROWS: tuple[Row, ...] = sum((family.ROWS for family in FAMILIES), ())
KERNELS |= {row.name: row.kernel for row in ROWS if row.kernel}
REFUSED = "".join(getattr(family, "REFUSED", "") for family in FAMILIES)


def to_add(op: Any, registry: dict[str, Any]) -> str:
    """What to do for an op without a row: its own can stand beside that of an op of its kind with
    as many operands whose name is the most like its name."""

    def likeness(name: str) -> tuple[bool, bool, float]:
        other, spelled = registry[name], difflib.SequenceMatcher(None, op.name, name)
        return other.kind == op.kind, len(other.inputs) == len(op.inputs), spelled.ratio()

    known = {r.name: family for family in FAMILIES for r in family.ROWS if r.name in registry}
    nearest = max(known, key=likeness)
    kernel = ", with kernel= as take_rows has it" if op.kernel is not None else ""
    return (
        f"no row in tests/samples for {op.name}: add one beside {nearest}'s in "
        f"{known[nearest].__name__.replace('.', '/')}.py{kernel}, or say in samples/apart.py why "
        "there is none"
    )
