"""torch.distributed: pyframe trains in one process; programs ask here whether there are more."""

from __future__ import annotations

from typing import Any, NoReturn


def is_available() -> bool:
    """False."""
    return False


is_initialized = is_torchelastic_launched = is_available


def init_process_group(*args: Any, **kwargs: Any) -> NoReturn:
    """RuntimeError: there is one process."""
    raise RuntimeError(
        "distributed.init_process_group: pyframe trains in one process, on one device; start the "
        "program without torchrun (RANK and WORLD_SIZE unset)"
    )


def get_rank(group: Any = None) -> int:
    """ValueError, as where PyTorch has no process group."""
    raise ValueError("Default process group has not been initialized: pyframe has one process")


get_world_size = get_rank
