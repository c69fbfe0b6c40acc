"""torch.cuda: the GPU, whatever its maker."""

from __future__ import annotations

import os
from typing import Any

import pyframe as pf
from pyframe.torch.amp import GradScaler as GradScaler


def is_available() -> bool:
    """Whether there is a real GPU, or a software adapter that PYFRAME_ADAPTER=software asks for."""
    return pf.is_available() or os.environ.get("PYFRAME_ADAPTER") == "software"


def device_count() -> int:
    """1 or 0."""
    return int(is_available())


def current_device() -> int:
    """0, the GPU that 'cuda' means."""
    return 0


def set_device(device: Any) -> None:
    """RuntimeError for a GPU that there is not."""
    index = device if isinstance(device, int) else pf.device(device).index
    if index >= max(device_count(), 1):
        raise RuntimeError(f"cuda.set_device: there is no GPU {index}; there are {device_count()}")


def get_device_name(device: Any = None) -> str:
    """The adapter, for people."""
    return pf.device_name("gpu")


def synchronize(device: Any = None) -> None:
    """Wait until the GPU has done all that was given to it."""
    if is_available():
        pf.ones((), device="gpu").item()  # work runs in the order in which it was given


def empty_cache() -> None:
    """Give pooled memory back."""
    if is_available():
        pf.device("gpu").backend.trim()


def memory_allocated(device: Any = None) -> int:
    """Bytes in use."""
    return int(pf.device("gpu").backend.stats.bytes_live) if is_available() else 0


def memory_reserved(device: Any = None) -> int:
    """Bytes in use and in the pool."""
    if not is_available():
        return 0
    return memory_allocated() + int(pf.device("gpu").backend.stats.bytes_pooled)


def manual_seed(seed: int) -> None:
    """`torch.manual_seed`: one seed is for all devices."""
    pf.manual_seed(seed)


manual_seed_all = manual_seed


def is_bf16_supported() -> bool:
    """False: bfloat16 is stored, and computed in float32."""
    return False
