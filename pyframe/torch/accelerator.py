"""torch.accelerator: the GPU, if there is one."""

from __future__ import annotations

from typing import Any

import pyframe as pf
from pyframe.gpu import (
    current_device as current_device_index,
    current_stream as current_stream,
    device as device_index,
    device_count as device_count,
    empty_cache as empty_cache,
    is_available as is_available,
    max_memory_allocated as max_memory_allocated,
    max_memory_reserved as max_memory_reserved,
    mem_get_info as get_memory_info,
    memory_allocated as memory_allocated,
    memory_reserved as memory_reserved,
    memory_stats as memory_stats,
    reset_peak_memory_stats as reset_peak_memory_stats,
    set_device as set_device_index,
    set_stream as set_stream,
    synchronize as synchronize,
)

__all__ = [
    "current_accelerator", "current_device_index", "current_stream", "device_count", "device_index",
    "empty_cache", "get_memory_info", "is_available", "max_memory_allocated", "max_memory_reserved",
    "memory_allocated", "memory_reserved", "memory_stats", "reset_peak_memory_stats",
    "set_device_index", "set_stream", "synchronize",
]  # fmt: skip


def current_accelerator(check_available: bool = False) -> Any:
    """The GPU as a device, or None."""
    return pf.device("gpu") if is_available() else None
