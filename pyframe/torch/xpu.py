"""torch.xpu and torch.mtia: kinds of devices of which there is none; a GPU is torch.cuda's."""

from __future__ import annotations

from contextlib import nullcontext
from typing import Any, NoReturn

import pyframe as pf

__all__ = [
    "current_device", "device", "device_count", "empty_cache", "get_device_capability",
    "get_device_name", "get_device_properties", "get_rng_state", "get_rng_state_all",
    "is_available", "is_bf16_supported", "is_current_stream_capturing", "is_initialized",
    "manual_seed", "manual_seed_all", "max_memory_allocated", "mem_get_info", "memory_allocated",
    "memory_reserved", "reset_peak_memory_stats", "seed", "set_device", "set_rng_state",
    "set_rng_state_all", "stream", "synchronize",
]  # fmt: skip


def is_available() -> bool:
    """False."""
    return False


is_bf16_supported = is_initialized = is_current_stream_capturing = is_available


def device_count() -> int:
    """0."""
    return 0


def empty_cache() -> None:
    """There is none."""


def manual_seed(seed: int) -> None:
    """Nothing is drawn there."""


manual_seed_all = manual_seed


def get_rng_state_all() -> list[pf.Tensor]:
    """[]."""
    return []


def set_rng_state_all(new_states: Any) -> None:
    """There is none to set."""


def stream(stream: Any) -> Any:
    """Accepted, of None."""
    return nullcontext()


def synchronize(device: Any = None) -> NoReturn:
    """RuntimeError, as of all that needs such a device."""
    raise RuntimeError(
        "there is no device of this kind: pyframe's GPUs, whoever made them, are torch.cuda's"
    )


current_device = device = get_device_capability = get_device_name = synchronize
get_device_properties = get_rng_state = max_memory_allocated = mem_get_info = synchronize
memory_allocated = memory_reserved = reset_peak_memory_stats = seed = set_device = synchronize
set_rng_state = synchronize
