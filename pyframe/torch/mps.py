"""torch.mps: the GPU of a Mac, as of any other computer."""

from __future__ import annotations

from pyframe.gpu import (
    Event as Event,
    device_count as device_count,
    empty_cache as empty_cache,
    get_rng_state as get_rng_state,
    manual_seed as manual_seed,
    memory_allocated as current_allocated_memory,
    memory_reserved as driver_allocated_memory,
    seed as seed,
    set_rng_state as set_rng_state,
    synchronize as synchronize,
)
from pyframe.torch.backends import mps as _backend

__all__ = [
    "Event", "current_allocated_memory", "device_count", "driver_allocated_memory", "empty_cache",
    "get_rng_state", "is_available", "manual_seed", "seed", "set_rng_state", "synchronize",
]  # fmt: skip

is_available = _backend.is_available
