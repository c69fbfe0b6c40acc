"""What torch.multiprocessing adds to Python's multiprocessing."""

from __future__ import annotations

import multiprocessing
from typing import Any


def set_sharing_strategy(new_strategy: str) -> None:
    """Accepted: batches go through shared memory in one way."""


def get_all_sharing_strategies() -> set[str]:
    """PyTorch's names."""
    return {"file_descriptor", "file_system"}


def spawn(
    fn: Any, args: tuple[Any, ...] = (), nprocs: int = 1, join: bool = True, daemon: bool = False,
    start_method: str = "spawn",
) -> None:  # fmt: skip
    """fn(i, *args) in `nprocs` processes. RuntimeError if one of them fails."""
    context: Any = multiprocessing.get_context(start_method)
    all_ = [context.Process(target=fn, args=(i, *args), daemon=daemon) for i in range(nprocs)]
    for process in all_:
        process.start()
    for i, process in enumerate(all_):
        process.join()
        if process.exitcode:
            raise RuntimeError(f"multiprocessing.spawn: process {i} ended with {process.exitcode}")
