# ruff: noqa: N999  (PyTorch's name)
"""torch._C: of PyTorch's compiled half, what libraries written in Python ask."""

from __future__ import annotations

from typing import Any

from pyframe.jit import ScriptModule as ScriptModule
from pyframe.overrides import (
    DisableTorchFunction as DisableTorchFunction,
    DisableTorchFunctionSubclass as DisableTorchFunctionSubclass,
    disabled as _disabled_torch_function_impl,
)

__all__ = ["DisableTorchFunction", "DisableTorchFunctionSubclass", "ScriptModule"]
_disabled_torch_function_impl = _disabled_torch_function_impl


def _log_api_usage_once(event: str) -> None:
    """Accepted: nothing is logged."""


def _get_tracing_state() -> None:
    """None: torch.jit.is_tracing() says whether there is a trace."""


def _jit_set_profiling_mode(enabled: bool) -> bool:
    """False, as it was: there is no such executor."""
    return False


_jit_set_profiling_executor = _jit_set_texpr_fuser_enabled = _jit_set_profiling_mode
_jit_override_can_fuse_on_cpu = _jit_override_can_fuse_on_gpu = _jit_set_profiling_mode
_jit_set_nvfuser_enabled = _jit_set_nvfuser_guard_mode = _jit_set_profiling_mode


def _jit_can_fuse_on_cpu() -> bool:
    """False."""
    return False


_jit_can_fuse_on_gpu = _are_functorch_transforms_active = _jit_can_fuse_on_cpu


def _set_math_sdp_allow_fp16_bf16_reduction(enabled: Any) -> None:
    """Accepted: sums are float32."""
