"""How many processors this process may use."""

from __future__ import annotations

import os
from pathlib import Path

# What a container is given of them: files of Linux (cgroup v2, then v1) that hold how much time of
# processors it may take in each period.
QUOTAS = (
    ("/sys/fs/cgroup/cpu.max",),
    ("/sys/fs/cgroup/cpu/cpu.cfs_quota_us", "/sys/fs/cgroup/cpu/cpu.cfs_period_us"),
)
UNLIMITED = 1 << 20


def processors() -> int:
    """Those that it may run on, or as many as its container may keep busy if they are fewer."""
    if hasattr(os, "sched_getaffinity"):
        return min(len(os.sched_getaffinity(0)), *map(_quota, QUOTAS))
    return os.cpu_count() or 1


def _quota(files: tuple[str, ...]) -> int:
    try:
        time, period = map(int, " ".join([Path(f).read_text("utf-8") for f in files]).split())
    except (OSError, ValueError):  # there are none, or it says "max"
        return UNLIMITED
    return -(-time // period) if time > 0 and period > 0 else UNLIMITED
