"""One row per op, a file per family: see `row.py`."""

from . import (
    complex,
    core,
    indexing,
    pointwise,
    sorting,
)
from .row import Row as Row, make as make

FAMILIES = (
    core,
    complex,
    indexing,
    pointwise,
    sorting,
)
ROWS: tuple[Row, ...] = sum((family.ROWS for family in FAMILIES), ())
