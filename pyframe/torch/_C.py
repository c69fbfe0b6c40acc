# ruff: noqa: N999  (PyTorch's name)
"""torch._C: of PyTorch's compiled half, what libraries written in Python ask."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

from pyframe.core.devices import device as Device
from pyframe.core.dtypes import dtype as DType
from pyframe.jit import ScriptModule as ScriptModule
from pyframe.overrides import (
    DisableTorchFunction as DisableTorchFunction,
    DisableTorchFunctionSubclass as DisableTorchFunctionSubclass,
    disabled as _disabled_torch_function_impl,
)
from pyframe.tensor import Tensor

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


def _parse_to(
    *args: Any, device: Any = None, dtype: Any = None, non_blocking: bool = False,
    copy: bool = False, memory_format: Any = None,
) -> tuple[Any, Any, bool, Any]:  # fmt: skip
    """(device, dtype, non_blocking, memory_format) of the arguments of a module's `to`."""
    for a in args:
        if isinstance(a, Tensor):
            device, dtype = a.device, a.dtype
        elif isinstance(a, DType):
            dtype = a
        elif isinstance(a, bool):
            non_blocking = a
        elif a is not None:
            device = a
    return None if device is None else Device(device), dtype, non_blocking, memory_format


_nn = SimpleNamespace(_parse_to=_parse_to)
