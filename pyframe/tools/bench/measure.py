"""Timing in turns, and how it is told: tables in Markdown, and what the numbers depend on."""

from __future__ import annotations

import gc
import math
import os
import platform
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from types import ModuleType
from typing import Any, NamedTuple

import numpy as np

from pyframe.core.devices import device_name
from pyframe.tools.bench.workloads import value, wait

TOLERANCE = 1e-3


class Side(NamedTuple):
    """One of those that are compared."""

    name: str
    run: Any  # a workloads.Run


def seconds(run: Callable[[], Any], count: int) -> float:
    """Of one of `count` runs, to the end of the last."""
    start = time.perf_counter()
    for _ in range(count):
        out = run()
    wait(out)
    return (time.perf_counter() - start) / count


def in_turns(sides: Sequence[Side], repeats: int, sample: float) -> dict[str, list[float]]:
    """Seconds of a run of each side: rounds in which everyone has a turn of `sample` seconds."""
    counts = {}
    for side in sides:
        seconds(side.run, 2)
        counts[side.name] = max(1, round(sample / seconds(side.run, 2)))
    times: dict[str, list[float]] = {side.name: [] for side in sides}
    for turn in range(repeats):
        first = turn % len(sides)
        for side in (*sides[first:], *sides[:first]):
            if sample:
                gc.collect()
            count = counts[side.name]
            seconds(side.run, -(-count // 5))  # caches, and threads of the side before, settle
            times[side.name].append(seconds(side.run, count))
    return times


def agree(what: str, sides: Sequence[Side], runs: int = 3) -> dict[str, np.ndarray]:
    """What the last of so many runs gives on each side. RuntimeError where one differs from the
    first."""
    results: dict[str, np.ndarray] = {}
    for side in sides:
        for _ in range(runs):
            out = side.run()
        results[side.name] = value(out)
    first = results[sides[0].name]
    for name, result in results.items():
        off = float(np.abs(result - first).max())
        if not off <= TOLERANCE * max(1.0, float(np.abs(first).max())):
            raise RuntimeError(
                f"{what}: {name} differs from {sides[0].name} by {off} after {runs} runs"
            )
    return results


def about(threads: int, devices: Sequence[str], torch: ModuleType | None = None) -> list[str]:
    """What the numbers depend on, as the items of a list."""
    import pyframe as pf

    versions = [f"pyframe {pf.__version__}", f"NumPy {np.__version__}", blas()]
    if torch is not None:
        versions.insert(1, f"PyTorch {torch.__version__}")
    load = os.getloadavg()[0] if hasattr(os, "getloadavg") else math.nan
    busy = " (others are at work here: mistrust the numbers)" if load > 0.5 else ""
    return [
        f"- {cpu_model()}, {threads} thread{'s' * (threads > 1)}; load average {load:.2f}{busy}",
        f"- {', '.join(versions)}; Python {platform.python_version()}",
        *(f"- device {name}: {device_name(name)}" for name in devices),
    ]


def cpu_model() -> str:
    """The CPU's name."""
    info = Path("/proc/cpuinfo")
    lines = info.read_text("utf-8").splitlines() if info.exists() else []
    names = [line.split(":", 1)[1].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else platform.processor() or platform.machine()


def blas() -> str:
    """The library that multiplies NumPy's matrices, and its version."""
    found = np.show_config(mode="dicts")["Build Dependencies"]["blas"]
    return f"{found['name']} {found['version']}"


def table(head: Sequence[str], rows: Sequence[Sequence[Any]]) -> list[str]:
    """The lines of a Markdown table."""
    lines = [head, ["---"] * len(head), *rows]
    return ["| " + " | ".join(map(str, line)) + " |" for line in lines]


def digits(x: float, n: int = 3) -> str:
    """A number with n significant digits, without an exponent."""
    x = float(f"{x:.{n}g}")
    return f"{x:.{max(n - 1 - math.floor(math.log10(x)), 0)}f}" if x > 0 else "0"
