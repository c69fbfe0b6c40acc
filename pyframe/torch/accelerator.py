"""torch.accelerator: the GPU, if there is one."""

from __future__ import annotations

from typing import Any

import pyframe as pf
from pyframe.torch.cuda import (
    current_device as current_device_index,
    device_count as device_count,
    empty_cache as empty_cache,
    is_available as is_available,
    memory_allocated as memory_allocated,
    memory_reserved as memory_reserved,
    set_device as set_device_index,
    synchronize as synchronize,
)

__all__ = [
    "current_accelerator", "current_device_index", "device_count", "empty_cache", "is_available",
    "memory_allocated", "memory_reserved", "set_device_index", "synchronize",
]  # fmt: skip


def current_accelerator(check_available: bool = False) -> Any:
    """The GPU as a device, or None."""
    return pf.device("gpu") if is_available() else None
