"""torch.return_types: the classes of several results with names."""

from __future__ import annotations

import re
from typing import Any

from pyframe.ops.api import results


def __getattr__(name: str) -> Any:
    for row in re.finditer(r"^(\w+) (\w+)\(", results._TABLE, re.MULTILINE):
        if row[2] == name:
            return getattr(results, row[1])
    raise AttributeError(f"torch.return_types has no {name!r}")
