"""What a training step does on the GPU, whichever it is: counts that no clock is needed for."""

from __future__ import annotations

import math
import os
import time
from argparse import Namespace
from typing import Any, NamedTuple

import pyframe as pf
from pyframe.graph.program import INPUT, Load, Program
from pyframe.tools.bench.measure import about, table
from pyframe.tools.bench.workloads import BATCHES, CASES, Case, wait

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


def least_bytes(program: Program) -> int:
    """Each input read once, each result written once."""
    inputs = sum(s.nbytes for s in program.slots if s.kind == INPUT)
    return inputs + sum(program.slots[i].nbytes for i in program.outputs)


def moved_bytes(program: Program) -> int:
    """What the kernels read and write, each element of a buffer counted once a kernel."""
    total = 0
    for step in program.steps:
        kernel = program.kernels[step.kernel]
        operands = kernel.routine.operands if kernel.routine else ()
        loads = [i for code in (kernel.code, *(e.code for e in operands)) for i in code]
        for accesses in ([i for i in loads if isinstance(i, Load)], kernel.stores):
            touched: dict[int, int] = {}
            for a in accesses:
                view = a.index_map[0]
                elements = math.prod(n for n, s in zip(view.shape, view.strides, strict=True) if s)
                nbytes = elements * a.dtype.device_itemsize
                touched[a.binding] = touched.get(a.binding, 0) + nbytes
            total += sum(min(n, program.slots[step.slots[b]].nbytes) for b, n in touched.items())
    return total


HEAD = [
    "step", "dispatches", "target", "met", "submits", "pipelines / bind groups / buffers made",
    "bytes uploaded", "bytes moved / least", "host µs a dispatch", "peak MiB",
]  # fmt: skip


def row(case: Case, mode: str, counts: Counts, programs: list[Program]) -> list[Any]:
    """A line of the table."""
    goal = case.dispatches if mode == "compiled" else None
    moved, least, peak = (
        sum(map(f, programs)) for f in (moved_bytes, least_bytes, lambda p: p.peak_bytes)
    )
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
        f"{peak / 2**20:.3g}" if programs else "",
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
