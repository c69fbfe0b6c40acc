"""Reverse-mode differentiation, as torch.autograd."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pyframe.autograd import function as function, graph as graph
from pyframe.autograd.function import Function
from pyframe.autograd.graph import GradientEdge as GradientEdge
from pyframe.autograd.walk import backward, grad
from pyframe.core.grad_node import RemovableHandle
from pyframe.core.modes import enable_grad, inference_mode, no_grad, set_grad_enabled

__all__ = [
    "Function", "RemovableHandle", "backward", "detect_anomaly", "enable_grad", "grad", "gradcheck",
    "gradgradcheck", "inference_mode", "no_grad", "set_detect_anomaly", "set_grad_enabled",
]  # fmt: skip

if TYPE_CHECKING:
    from pyframe.autograd import anomaly_mode as anomaly_mode, functional as functional
    from pyframe.autograd.anomaly_mode import detect_anomaly, set_detect_anomaly
    from pyframe.autograd.differences import gradcheck, gradgradcheck
else:
    _LATE = {
        "gradcheck": "differences", "gradgradcheck": "differences",
        "detect_anomaly": "anomaly_mode", "set_detect_anomaly": "anomaly_mode",
    }  # fmt: skip

    def __getattr__(name: str) -> Any:
        """Load what few programs need when it is first used."""
        import importlib

        if name in ("functional", "anomaly_mode"):
            return importlib.import_module(f"pyframe.autograd.{name}")
        last = _LATE.get(name)
        if last:
            return getattr(importlib.import_module(f"pyframe.autograd.{last}"), name)
        raise AttributeError(f"module 'pyframe.autograd' has no attribute {name!r}")
