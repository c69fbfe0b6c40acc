"""torch.jit: what is only accepted, besides what pyframe.jit has."""

from __future__ import annotations

from contextlib import nullcontext
from typing import Any, Final as Final

from pyframe.jit import export
from pyframe.torch.kit import (
    _overload as _overload,
    _overload_method as _overload_method,
    isinstance_,
)

isinstance = isinstance_


class ScriptWarning(Warning):
    """None is given."""


class Error(RuntimeError):
    """None is raised."""


def interface(cls: Any) -> Any:
    """`cls` itself: which methods a submodule has is seen when it is called."""
    return cls


script_method = export


def set_fusion_strategy(strategy: Any) -> None:
    """For PyTorch's code: what is computed together is decided by the device."""


def enable_onednn_fusion(enabled: bool) -> None:
    """The same."""


def optimized_execution(should_optimize: bool) -> Any:
    """The same, within a `with`."""
    return nullcontext()
