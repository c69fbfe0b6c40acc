"""What it costs that a compiled step is never stale: how much is looked at before each replay, how
long that takes, and how long a capture takes beside the step without pf.compile."""

from __future__ import annotations

import statistics
import time
from argparse import Namespace
from typing import Any

import pyframe as pf
from pyframe.tools.bench.measure import about, digits, seconds, table
from pyframe.tools.bench.workloads import CASES

HEAD = ["step", "values", "check (µs)", "target", "of a replay", "capture (ms)", "eager step (ms)"]
TARGETS = {"W1": 15, "W3": 60}  # microseconds


def check_seconds(guard: Any, count: int) -> float:
    """Of one look at what a replay relies on."""
    start = time.perf_counter()
    for _ in range(count):
        assert guard.holds(), guard.why
    return (time.perf_counter() - start) / count


def row(case: Any, args: Namespace) -> list[Any]:
    """A line of the table: medians of rounds."""
    sizes = case.quick if args.quick else case.sizes
    eager = case.make(pf, args.device, lambda f: f, **sizes)
    run = case.make(pf, args.device, pf.compile, **sizes)
    captures, checks, replays, steps = [], [], [], []
    for _ in range(2 if args.quick else args.repeats):
        run.step.replays.clear()
        captures.append(seconds(run, 1))
        seconds(run, 3)
        replay = next(reversed(run.step.replays.values()))[0]  # the latest capture
        checks.append(check_seconds(replay.guard, 10 if args.quick else 500))
        replays.append(seconds(run, 3 if args.quick else 20))
        steps.append(seconds(eager, 3))
    capture, check, step, slow = map(statistics.median, (captures, checks, replays, steps))
    return [
        f"{case.key} {case.name}", replay.guard.count, digits(check * 1e6),
        f"≤ {TARGETS[case.key]}" if case.key in TARGETS else "", f"{check / step:.1%}",
        digits(capture * 1e3), digits(slow * 1e3),
    ]  # fmt: skip


def report(args: Namespace) -> list[str]:
    """The costs of guards, as Markdown."""
    cases = [c for c in CASES if c.dispatches is not None and (not args.only or c.key in args.only)]
    head = ["# What guards cost", "", *about(args.threads, [args.device]), ""]
    return [*head, *table(HEAD, [row(c, args) for c in cases])]
