"""torch.cuda: the GPU, whatever its maker."""

from __future__ import annotations

from typing import Any

from pyframe.gpu import *  # noqa: F403
from pyframe.gpu import (
    Stream,
    get_device_properties,
    max_memory_reserved as max_memory_cached,  # noqa: F401
    memory_reserved as memory_cached,  # noqa: F401
    reset_peak_memory_stats as reset_max_memory_allocated,
)
from pyframe.ops.shape.conversion import GPU_TYPES
from pyframe.torch.amp import GradScaler as GradScaler

globals().update(GPU_TYPES)
reset_max_memory_cached = reset_max_memory_allocated


def ipc_collect() -> None:
    """Accepted: no other process has memory of this one's GPU."""


class CUDAGraph:
    """What no program needs here: what is compiled is replayed."""

    def __init__(self, *args: object) -> None:
        raise RuntimeError("torch.cuda.CUDAGraph: use torch.compile, whose functions are replayed")


graph = CUDAGraph
StreamContext = Stream


def is_current_stream_capturing() -> bool:
    """False."""
    return False


def get_arch_list() -> list[str]:
    """[]: kernels are compiled for the GPU at hand."""
    return []


def get_device_capability(device: Any = None) -> tuple[int, int]:
    """(0, 0): no GPU has one of NVIDIA's numbers here. RuntimeError where there is no GPU."""
    get_device_properties(device)
    return 0, 0
