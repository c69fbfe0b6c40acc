"""One row per op, a file per family: see `row.py`."""

from . import complex, core, extremes, functional, indexing, linalg, pointwise, sorting, spatial
from .row import Row as Row, make as make

FAMILIES = (core, complex, extremes, functional, indexing, linalg, pointwise, sorting, spatial)
ROWS: tuple[Row, ...] = sum((family.ROWS for family in FAMILIES), ())
