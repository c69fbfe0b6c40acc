"""torch.jit: what is only accepted, besides what pyframe.jit has."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final as Final

from pyframe.jit import export


class ScriptWarning(Warning):
    """None is given."""


class Error(RuntimeError):
    """None is raised."""


def interface(cls: Any) -> Any:
    """`cls` itself: which methods a submodule has is seen when it is called."""
    return cls


script_method = export


def script_if_tracing(fn: Any) -> Any:
    """`fn` itself: a trace of it is of its calls."""
    return fn


def fork(func: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
    """What the function gives; it runs at once."""
    return func(*args, **kwargs)


def wait(future: Any) -> Any:
    """What `fork` gave."""
    return future


def set_fusion_strategy(strategy: Any) -> None:
    """For PyTorch's code: what is computed together is decided by the device."""


def enable_onednn_fusion(enabled: bool) -> None:
    """The same."""
