"""What a training step does on the GPU, whichever it is: counts that no clock is needed for."""

from __future__ import annotations

import os
import time
from argparse import Namespace
from typing import Any, NamedTuple

import pyframe as pf
from pyframe.graph.program import Program
from pyframe.tools.bench.measure import about, table
from pyframe.tools.bench.workloads import BATCHES, CASES, Case, wait
from pyframe.tools.cost import least_bytes, totals

WARM_UP = 2 * BATCHES
STEPS = BATCHES


class Counts(NamedTuple):
    """A step's share of what was counted over some of them."""

    dispatches: float
    submits: float
    objects: tuple[float, float, float]  # pipelines, bind groups and buffers made
    uploaded: float  # bytes
    host: float  # seconds of Python for a step, without waiting for the device (the least)


def count(run: Any, device: str) -> Counts:
    """Count a few runs after others that built what is built once."""
    for _ in range(WARM_UP):
        out = run()
    wait(out)
    stats = pf.device(device).backend.stats
    stats.reset()
    host = []
    for _ in range(STEPS):
        start = time.thread_time()  # of this thread alone: a software adapter computes on others
        out = run()
        host.append(time.thread_time() - start)
    made = (stats.pipelines, stats.bind_groups, stats.buffers)
    counts = Counts(
        stats.dispatches / STEPS, stats.submits / STEPS, tuple(n / STEPS for n in made),
        stats.bytes_uploaded / STEPS, min(host),
    )  # fmt: skip
    wait(out)
    return counts


HEAD = [
    "step", "dispatches", "target", "met", "submits", "pipelines / bind groups / buffers made",
    "bytes uploaded", "bytes moved / least", "host µs a dispatch", "peak MiB",
]  # fmt: skip


def row(case: Case, mode: str, counts: Counts, programs: list[Program]) -> list[Any]:
    """A line of the table."""
    goal = case.dispatches if mode == "compiled" else None
    t = totals(programs)
    moved, least = t.bytes_moved, sum(map(least_bytes, programs))
    return [
        f"{case.key} {case.name}, {mode}",
        f"{counts.dispatches:g}",
        "" if goal is None else f"≤ {goal}",
        "" if goal is None else "yes" if counts.dispatches <= goal else "no",
        f"{counts.submits:g}",
        " / ".join(f"{n:g}" for n in counts.objects),
        f"{counts.uploaded:g}",
        f"{moved / 2**20:.3g} MiB / {least / 2**20:.3g} MiB = {moved / least:.2f}" if least else "",
        f"{1e6 * counts.host / max(counts.dispatches, 1):.1f}",
        f"{t.peak_bytes / 2**20:.3g}" if programs else "",
    ]


def report(args: Namespace) -> list[str]:
    """The counters of the training steps, as Markdown."""
    os.environ.setdefault("PYFRAME_ADAPTER", "software")
    rows = []
    for case in CASES:
        if case.dispatches is None or (args.only and case.key not in args.only):
            continue
        sizes = case.quick if args.quick else case.sizes
        for mode, wrap in (("eager", lambda f: f), ("compiled", pf.compile)):
            run = case.make(pf, "gpu", wrap, **sizes)
            counts = count(run, "gpu")
            rows.append(row(case, mode, counts, getattr(run.step, "programs", [])))
    head = ["# What a step does on the GPU", "", *about(args.threads, ["gpu"]), ""]
    return [*head, *table(HEAD, rows)]
