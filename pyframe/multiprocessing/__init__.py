"""Python's multiprocessing, with tensors in memory that processes share, as torch.multiprocessing.

What a tensor of the CPU that goes through a Queue or a Pipe, or to a Process, holds is not copied:
both processes have one memory from then on, also for writes. Whoever sends it must live until it
has arrived.
"""

from __future__ import annotations

import multiprocessing
import sys
from multiprocessing import *  # noqa: F403
from multiprocessing import context as _context
from typing import Any

from pyframe.multiprocessing.reductions import init_reductions
from pyframe.multiprocessing.spawn import (
    ProcessContext as ProcessContext,
    ProcessException as ProcessException,
    ProcessExitedException as ProcessExitedException,
    ProcessRaisedException as ProcessRaisedException,
    spawn as spawn,
    start_processes as start_processes,
)

_STRATEGIES = ("file_descriptor", "file_system")
_OPEN_MAX = 10240  # open files of a process on macOS
_strategy = _STRATEGIES[0]

__all__ = [
    "get_all_sharing_strategies", "get_sharing_strategy", "set_sharing_strategy", "spawn",
    "start_processes", *multiprocessing.__all__,
]  # fmt: skip


def get_all_sharing_strategies() -> set[str]:
    """PyTorch's names. With each of them memory is handed on as an open file, of which a module has
    one; "file_system" lets this process have as many as the system allows."""
    return {*_STRATEGIES}


def get_sharing_strategy() -> str:
    """What was set."""
    return _strategy


def set_sharing_strategy(new_strategy: str) -> None:
    """One of `get_all_sharing_strategies`. AssertionError for another.

    Args:
        new_strategy: "file_descriptor" or "file_system".
    """
    global _strategy
    if new_strategy not in _STRATEGIES:
        raise AssertionError(
            f"invalid sharing strategy {new_strategy!r}, expected one of {_STRATEGIES}"
        )
    _strategy = new_strategy
    if new_strategy == "file_system" and sys.platform not in ("win32", "emscripten"):
        import resource

        hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
        try:
            resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
        except ValueError:  # macOS, where no process may have infinitely many
            resource.setrlimit(resource.RLIMIT_NOFILE, (_OPEN_MAX, hard))


def _refuse(process: Any) -> Any:
    raise RuntimeError(
        "multiprocessing: a page has no processes to start; call the function itself, or run the "
        "program natively"
    )


if sys.platform == "emscripten":
    for _kind in (_context.ForkProcess, _context.SpawnProcess, _context.ForkServerProcess):
        _kind._Popen = staticmethod(_refuse)
init_reductions()
