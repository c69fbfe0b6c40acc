"""torch.cuda.amp: the names of pf.amp as PyTorch had them before they took a device."""

from __future__ import annotations

from typing import Any

import pyframe as pf
from pyframe.amp import custom_bwd as _custom_bwd, custom_fwd as _custom_fwd

__all__ = ["GradScaler", "autocast", "custom_bwd", "custom_fwd"]


class autocast(pf.autocast):  # noqa: N801  (PyTorch's name)
    """`pf.autocast("gpu")`."""

    def __init__(
        self, enabled: bool = True, dtype: Any = pf.float16, cache_enabled: bool = True
    ) -> None:
        super().__init__("gpu", dtype, enabled, cache_enabled)


class GradScaler(pf.GradScaler):
    """`pf.GradScaler` without a device as its first argument."""

    def __init__(
        self, init_scale: float = 2.0**16, growth_factor: float = 2.0, backoff_factor: float = 0.5,
        growth_interval: int = 2000, enabled: bool = True,
    ) -> None:  # fmt: skip
        super().__init__("gpu", init_scale, growth_factor, backoff_factor, growth_interval, enabled)


def custom_fwd(fwd: Any = None, *, cast_inputs: Any = None) -> Any:
    """`pf.amp.custom_fwd` for the GPU."""
    return _custom_fwd(fwd, device_type="gpu", cast_inputs=cast_inputs)


def custom_bwd(bwd: Any) -> Any:
    """`pf.amp.custom_bwd` for the GPU."""
    return _custom_bwd(bwd, device_type="gpu")
