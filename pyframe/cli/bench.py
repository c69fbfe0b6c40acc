"""`pyframe bench`: what this computer can do, and how fast networks train on it."""

from __future__ import annotations

import argparse
import statistics
import sys
import warnings
from pathlib import Path
from typing import Any

from pyframe.cli.command import CommandError, add_command, option, positive, switch, telling
from pyframe.core.words import plural

SAMPLE = 0.1  # seconds of a side's turn


def add(commands: Any) -> None:
    """Declare the command."""
    add_command(
        commands, "bench", run,
        help="measure this computer: its limits, and training steps on each device",
        description="Measure each device: its limits (memory bandwidth, float32 arithmetic, what "
        "giving out work and reading a result costs), and a training step of three networks, eager "
        "and compiled: W1 an MLP (784-256-128-10, batch 64), W2 a CNN (28 x 28 images, batch 64), "
        "W3 a GPT (4 layers, width 128, 16 x 64 tokens). All of them compute the same loss, which "
        "is checked, and have their turns in one run, so that their ratios can be trusted even "
        "where the times can't. Prints Markdown; a minute or two.",
        examples={
            "pyframe bench": "the CPU and every real GPU",
            "pyframe bench --device gpu": "the GPU alone, be it a software adapter",
            "pyframe bench --only W1,W3 --out bench.md": "two of the networks; keep the tables",
        },
        arguments={
            "--device": option("which to measure (default: the CPU and every real GPU)",
                               type=lambda text: text.split(","), metavar="cpu,gpu,gpu:1"),
            "--only": option("which networks (default: W1,W2,W3)",
                             type=lambda text: text.upper().split(","), metavar="W1,W3"),
            "--repeats": option("rounds; the medians of them are told (default: %(default)s)",
                                type=positive, default=5, metavar="N"),
            "--quick": switch("tiny networks, only to see whether it works (default: full size)"),
            "--out": option("write the tables there too (default: no)",
                            type=Path, metavar="FILE.md"),
        },
    )  # fmt: skip


def run(args: argparse.Namespace) -> int:
    """Measure and print."""
    from pyframe.io.files import replacing

    with telling(RuntimeError):  # no such device, or one that computes something else
        lines = report(args)
    text = "\n".join(lines) + "\n"
    print(text, end="")
    if args.out:
        with replacing(args.out) as file:
            file.write(text.encode())
    return 0


def report(args: argparse.Namespace) -> list[str]:
    """The tables, as Markdown."""
    import pyframe as pf
    from pyframe.codegen.numpy.threads import default_threads
    from pyframe.tools.bench import roofline
    from pyframe.tools.bench.measure import about, digits, table
    from pyframe.tools.bench.workloads import CASES

    steps = [case for case in CASES if case.key in ("W1", "W2", "W3")]
    keys = [case.key for case in steps]
    for key in args.only or ():
        if key not in keys:
            raise CommandError(f"--only {key}: expected some of {', '.join(keys)}")
    with warnings.catch_warnings():  # that a software adapter is slow is what will be seen
        warnings.simplefilter("ignore", UserWarning)
        devices = [str(pf.device(name)) for name in args.device or available()]
        devices = list(dict.fromkeys(devices))
        machine = about(default_threads(), devices)
    roofs, rows = [], []
    for name in devices:
        say(f"{name}: its limits")
        roof = roofline(name)
        rates = (digits(x / 1e9) for x in (roof.copy_bandwidth, roof.fma_rate))
        roofs.append([name, *rates, *(digits(1e6 * x) for x in roof[3:])])
    for case in steps:
        if not args.only or case.key in args.only:
            say(f"{case.key} {case.name}")
            rows += measure(case, devices, args.repeats, args.quick)
    first = f"over {devices[0]}"
    head = ["device", "copy, GB/s", "multiply-add, GFLOP/s", "dispatch, µs", "read-back, µs"]
    lines = ["# pyframe on this computer", "", *machine]
    rounds = f"{args.repeats} {plural(args.repeats, 'round')}"
    lines += [f"- {rounds}; times are medians of a training step", ""]
    lines += [*table(head, roofs), ""]
    lines += table(
        ["step", "device", "eager, ms", "compiled, ms", "speedup", "steps/s", first], rows
    )
    told = f"{first}: compiled there over compiled here, so above 1 is faster."
    lines += ["", f"speedup: eager over compiled. steps/s: compiled. {told}"]
    if args.quick:
        lines += ["", "With --quick the networks are tiny and the numbers mean nothing."]
    return lines


def available() -> list[str]:
    """The CPU, and every GPU."""
    from pyframe import gpu

    return ["cpu", *(f"gpu:{i}" for i in range(gpu.device_count()))]


def measure(case: Any, devices: list[str], repeats: int, quick: bool) -> list[list[str]]:
    """The lines of a network: one for each device."""
    import pyframe as pf
    from pyframe.tools.bench.measure import Side, agree, digits, in_turns

    modes = {"eager": lambda f: f, "compiled": pf.compile}
    sizes = case.quick if quick else case.sizes
    sides = [
        Side(f"{device} {mode}", case.make(pf, device, wrap, **sizes))
        for device in devices
        for mode, wrap in modes.items()
    ]
    agree(case.name, sides)
    times = {
        name: statistics.median(found)
        for name, found in in_turns(sides, repeats, 0.0 if quick else SAMPLE).items()
    }
    rows = []
    for device in devices:
        eager, compiled = (times[f"{device} {mode}"] for mode in modes)
        rows.append([
            f"{case.key} {case.name}", device, digits(1e3 * eager), digits(1e3 * compiled),
            f"{eager / compiled:.2f}", digits(1 / compiled),
            f"{times[f'{devices[0]} compiled'] / compiled:.2f}",
        ])  # fmt: skip
    return rows


def say(what: str) -> None:
    """What is being done, beside the tables."""
    print(f"measuring {what} ...", file=sys.stderr, flush=True)
