"""torch.jit: functions and modules are Python already; they are given back as they are."""

from __future__ import annotations

from typing import Any


def script(obj: Any, *args: Any, **kwargs: Any) -> Any:
    """`obj` itself; `torch.compile` makes it fast."""
    return obj


def trace(func: Any, example_inputs: Any = None, *args: Any, **kwargs: Any) -> Any:
    """`func` itself."""
    return func


export = ignore = unused = script_method = script


def is_scripting() -> bool:
    """False."""
    return False


is_tracing = is_scripting
