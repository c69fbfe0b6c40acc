"""torch.jit: functions and modules are Python here, and are given back as they are."""

from __future__ import annotations

import warnings
from typing import Any, Final as Final

_SAID = (
    "pyframe makes no TorchScript, and gives back the function or module itself, which runs as "
    "Python; torch.compile makes it fast, torch.save(module.state_dict(), path) keeps its weights"
)
_said: set[str] = set()  # of which function


class ScriptModule:
    """What no module is: programs ask isinstance."""


ScriptFunction = RecursiveScriptModule = ScriptModule


def _say(name: str) -> None:
    if name not in _said:
        _said.add(name)
        warnings.warn(f"torch.jit.{name}: {_SAID}", stacklevel=3)


def script(obj: Any = None, *args: Any, **kwargs: Any) -> Any:
    """`obj` itself; the first time a warning says so."""
    _say("script")
    return obj


def trace(func: Any, example_inputs: Any = None, *args: Any, **kwargs: Any) -> Any:
    """`func` itself; the first time a warning says so."""
    _say("trace")
    return func


def ignore(drop: Any = False, **kwargs: Any) -> Any:
    """A function itself; with a flag, a decorator."""
    return drop if callable(drop) else lambda fn: fn


def export(fn: Any) -> Any:
    """`fn` itself."""
    return fn


interface = unused = script_method = export


def save(m: Any, f: Any, _extra_files: Any = None) -> None:
    """RuntimeError: there is no TorchScript to save."""
    raise RuntimeError(
        "torch.jit.save: pyframe makes no TorchScript; save the weights with "
        "torch.save(module.state_dict(), path)"
    )


def load(f: Any, *args: Any, **kwargs: Any) -> None:
    """RuntimeError: TorchScript is not read."""
    raise RuntimeError(
        "torch.jit.load: pyframe runs no TorchScript; save the module's state_dict with PyTorch, "
        "and load it into the module's class"
    )


def is_scripting() -> bool:
    """False."""
    return False


is_tracing = is_scripting
