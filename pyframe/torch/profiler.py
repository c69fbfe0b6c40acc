"""torch.profiler: when a schedule profiles, and where traces go."""

from __future__ import annotations

import enum
import os
import socket
import time
from collections.abc import Callable
from typing import Any


class ProfilerAction(enum.Enum):
    """What is done in a step."""

    NONE, WARMUP, RECORD, RECORD_AND_SAVE = range(4)


def schedule(
    *, wait: int, warmup: int, active: int, repeat: int = 0, skip_first: int = 0,
    skip_first_wait: int = 0,
) -> Callable[[int], ProfilerAction]:  # fmt: skip
    """What is done in a step, by its number: nothing in some, then to get warm, then to record."""

    def action(step: int) -> ProfilerAction:
        step -= skip_first
        if step >= 0 and skip_first_wait:
            step += wait
        cycle, at = divmod(step, wait + warmup + active)
        if step < 0 or (repeat and cycle >= repeat) or at < wait:
            return ProfilerAction.NONE
        if at < wait + warmup:
            return ProfilerAction.WARMUP
        last = at == wait + warmup + active - 1
        return ProfilerAction.RECORD_AND_SAVE if last else ProfilerAction.RECORD

    return action


def _default_schedule_fn(_: int) -> ProfilerAction:
    return ProfilerAction.RECORD


def tensorboard_trace_handler(
    dir_name: str, worker_name: str | None = None, use_gzip: bool = False
) -> Callable[[Any], None]:
    """A function that writes a profile's trace into a folder, for on_trace_ready."""

    def write(prof: Any) -> None:
        os.makedirs(dir_name, exist_ok=True)
        worker = worker_name or f"{socket.gethostname()}_{os.getpid()}"
        prof.export_chrome_trace(os.path.join(dir_name, f"{worker}.{time.time_ns()}.pt.trace.json"))

    return write
