"""Measures pyframe against PyTorch, side by side: python scripts/bench/run.py --help."""

from __future__ import annotations

import argparse
import os
import statistics
import sys
from collections.abc import Sequence
from pathlib import Path
from types import ModuleType
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))  # this checkout's pyframe


def arguments(argv: Sequence[str] | None) -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(
        description="Time pyframe and PyTorch in turns, or look at pyframe alone.",
    )
    parser.add_argument("--only", type=lambda text: text.upper().split(","), metavar="W1,W3")
    parser.add_argument("--device", choices=["cpu", "gpu"], default="cpu")
    parser.add_argument("--repeats", type=int, default=9, help="rounds (9)")
    parser.add_argument("--threads", type=int, default=cpus(), help="of both (the process's CPUs)")
    parser.add_argument("--quick", action="store_true", help="tiny sizes: only whether it works")
    parser.add_argument("--counters", action="store_true", help="what a step does on the GPU")
    parser.add_argument("--planned", action="store_true", help="what networks do on a large GPU")
    parser.add_argument("--growth", action="store_true", help="how cost grows with the work")
    parser.add_argument("--guards", action="store_true", help="what looking before a replay costs")
    parser.add_argument("--products", action="store_true", help="a GPU's variants on paper")
    parser.add_argument("--fit", action="store_true", help="Model.fit beside a loop by hand")
    parser.add_argument("--nets", action="store_true", help="nine nets, torch.compile beside them")
    parser.add_argument("--ops", action="store_true", help="one op at a time, worst first")
    parser.add_argument("--out", type=Path, metavar="FILE.md", help="(growth: with FILE.svg)")
    return parser.parse_args(argv)


def cpus() -> int:
    """The CPUs that this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def set_environment(threads: int) -> None:
    """Equal threads for everyone: before NumPy and PyTorch are imported, which look only once."""
    os.environ.pop("OPENBLAS_CORETYPE", None)  # a wrong one slows NumPy down
    for name in ("OMP", "OPENBLAS", "MKL"):
        os.environ[f"{name}_NUM_THREADS"] = str(threads)
    os.environ["PYFRAME_THREADS"] = str(threads)


def import_torch(threads: int) -> ModuleType:
    """PyTorch, which only this comparison needs."""
    try:
        import torch
    except ImportError:
        raise SystemExit(
            "The comparison needs PyTorch, which pyframe does not: bash scripts/test installs it "
            "in .venv, or pip install torch. Without it: --counters, --fit, --growth, --guards."
        ) from None
    torch.set_num_threads(threads)
    return torch


def make_sides(case: Any, device: str, torch: Any, quick: bool, both: bool = False) -> list[Any]:
    """PyTorch, and pyframe both ways; PyTorch both ways too if `both`."""
    import pyframe as pf
    from pyframe.tools.bench.measure import Side

    sizes = case.quick if quick else case.sizes
    there = "cuda" if device == "gpu" and torch.cuda.is_available() else "cpu"
    sides = [
        Side("PyTorch", case.make(torch, there, lambda f: f, **sizes)),
        Side("eager", case.make(pf, device, lambda f: f, **sizes)),
        Side("compiled", case.make(pf, device, pf.compile, **sizes)),
    ]
    if both:
        torch._dynamo.reset()
        sides.append(Side("torch.compile", case.make(torch, there, torch.compile, **sizes)))
    return sides


def agreed(case: Any, sides: Sequence[Any], runs: int = 3) -> str:
    """What the last of so many runs gives on each side; SystemExit where it differs."""
    from pyframe.tools.bench.measure import agree

    try:
        results = agree(case.name, sides, runs)
    except RuntimeError as error:
        raise SystemExit(str(error)) from None
    if results["PyTorch"].ndim:
        return ""
    losses = ", ".join(f"{name} {float(result):.5f}" for name, result in results.items())
    return f"- {case.name}, loss of step {runs}: {losses}"


HEAD = [
    "", "mode", "ms: min / median / max", "PyTorch, ms: min / median / max", "ratio",
    "target", "met", "of the roof",
]  # fmt: skip


def compare(args: argparse.Namespace) -> list[str]:
    """The comparison with PyTorch, as Markdown."""
    torch = import_torch(args.threads)
    from pyframe.tools.bench import roofline
    from pyframe.tools.bench.measure import about, in_turns, table

    if args.nets:
        from nets import CASES
    else:
        from pyframe.tools.bench.workloads import CASES
    out = ["# pyframe and PyTorch", "", *about(args.threads, [args.device], torch)]
    roof = roofline(args.device)
    results, checks = [], []
    for case in CASES:
        if args.only and case.key not in args.only:
            continue
        sides = make_sides(case, args.device, torch, args.quick, args.nets)
        checks.append(agreed(case, sides, 1 if args.nets else 3))
        times = in_turns(sides, args.repeats, 0.0 if args.quick else 0.1)
        work = case.work(case.quick if args.quick else case.sizes) if case.work else 0.0
        results += [(case, s.name, times[s.name], times["PyTorch"], work) for s in sides[1:]]
    roof = roof.best(roofline(args.device))  # in case something else ran for a while
    out += [f"- {roof}", f"- {args.repeats} rounds; ratio: the median over PyTorch's", ""]
    return [*out, *table(HEAD, [row(*r, roof) for r in results]), "", *filter(None, checks)]


def row(
    case: Any, mode: str, ours: list[float], theirs: list[float], work: float, roof: Any
) -> list[str]:
    """A line of the table."""
    from pyframe.tools.bench.measure import digits

    ratio = statistics.median(ours) / statistics.median(theirs)
    target = case.target if mode == "compiled" else None
    share = work / statistics.median(ours) / getattr(roof, case.roof) if work else None
    return [
        f"{case.key} {case.name}",
        mode,
        *(
            " / ".join(digits(1e3 * x) for x in (min(t), statistics.median(t), max(t)))
            for t in (ours, theirs)
        ),
        f"{ratio:.2f}",
        "" if target is None else f"≤ {target}",
        "" if target is None else "yes" if ratio <= target else "no",
        "" if share is None else f"{share:.0%}",
    ]


def main(argv: Sequence[str] | None = None) -> int:
    """Run it; gives the exit status."""
    args = arguments(argv)
    set_environment(args.threads)
    if args.counters:
        from counters import report
    elif args.planned:
        from planned import report
    elif args.growth:
        from growth import report
    elif args.guards:
        from guards import report
    elif args.fit:
        from fit import report
    elif args.products:
        from products import report
    elif args.ops:
        from ops import report
    else:
        report = compare
    lines = report(args)
    if args.quick:
        lines += ["", "With --quick the sizes are tiny and the numbers mean nothing."]
    text = "\n".join(lines) + "\n"
    print(text)
    if args.out:
        args.out.write_text(text, encoding="utf-8")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
