"""torch.jit: functions and modules are Python already; they are given back as they are."""

from __future__ import annotations

from typing import Any, Final as Final


class ScriptModule:
    """What no module is: programs ask isinstance."""


ScriptFunction = RecursiveScriptModule = ScriptModule


def script(obj: Any = None, *args: Any, **kwargs: Any) -> Any:
    """`obj` itself; `torch.compile` makes it fast. Without one, or with a flag, a decorator."""
    return script if obj is None or isinstance(obj, bool) else obj


def trace(func: Any, example_inputs: Any = None, *args: Any, **kwargs: Any) -> Any:
    """`func` itself."""
    return func


export = ignore = interface = unused = script_method = script


def is_scripting() -> bool:
    """False."""
    return False


is_tracing = is_scripting
