"""torch.fx: nothing is traced; what marks functions for tracing leaves them as they are."""

from __future__ import annotations

from typing import Any


def wrap(fn_or_name: Any) -> Any:
    """`fn_or_name` itself."""
    return fn_or_name
