"""Compares random programs in pyframe with PyTorch in float64: python scripts/fuzz --help."""

from __future__ import annotations

import argparse
import contextlib
import faulthandler
import gc
import os
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT), str(ROOT / "scripts")]  # this checkout's pyframe
os.environ.setdefault("PYFRAME_ADAPTER", "software")  # as the tests; empty for the real GPU
os.environ.setdefault("XDG_RUNTIME_DIR", tempfile.gettempdir())
os.environ.setdefault("PYFRAME_CACHE", str(ROOT / "build" / "cache"))

import torch  # noqa: E402

from fuzz import known  # noqa: E402
from fuzz.backends import BACKENDS, Backend  # noqa: E402
from fuzz.check import failure  # noqa: E402
from fuzz.families import case, families  # noqa: E402

# A trace runs the step once to make itself and holds tensors from outside as constants: what these
# write there is not PyTorch's eagerly.
UNTRACED = {"programs"}


@dataclass
class Row:
    """What came of one family on one back end."""

    name: str
    backend: Backend
    tried: int = 0
    empty: int = 0  # refused by both, or as is documented
    failed: int = 0
    driver: int = 0  # Mesa's mistakes
    seconds: float = 0.0

    def attempt(self, seed: int, plain: bool) -> None:
        """One case. What fails is told, reduced unless `plain`."""
        start = time.monotonic()
        self.tried += 1
        again = ["--only", self.name, "--backend", self.backend.name, "--seed", str(seed),
                 "--cases", "1"]  # fmt: skip
        found = failure(case(self.name, seed), self.backend, plain)
        if isinstance(found, bool):
            self.empty += not found
        elif self.backend.name in ("wgsl", "lazy") and known.of_the_driver(again):
            self.driver += 1
        else:
            self.failed += 1
            text = found.replace("\n", "\n    ")
            print(f"{' '.join(again)}\n    {text[:6000]}\n", flush=True)
        self.seconds += time.monotonic() - start


def arguments(argv: Sequence[str] | None) -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser("scripts/fuzz", description=__doc__)
    names = [*families()]
    parser.add_argument("--only", type=lambda s: s.split(","), metavar="NAME", default=names,
                        help=f"some of {', '.join(names)}")  # fmt: skip
    parser.add_argument("--backend", type=lambda s: s.split(","), metavar="NAME", default=["llvm"],
                        help=f"some of {', '.join(BACKENDS)} (llvm)")  # fmt: skip
    parser.add_argument("--seed", type=int, default=0, help="of the first case of each (0)")
    parser.add_argument("--cases", type=int, default=100, help="of all families together (100)")
    parser.add_argument("--minutes", type=float, default=1e9, help="an end before that")
    parser.add_argument("--plain", action="store_true", help="reduce nothing")
    args = parser.parse_args(argv)
    unknown = {*args.only} - {*names} | {*args.backend} - {*BACKENDS}
    if unknown:
        parser.error(f"unknown: {', '.join(sorted(unknown))}")
    if args.backend == ["traced"] and {*args.only} <= UNTRACED:
        parser.error("such programs write outside the step, which no trace follows")
    return args


def table(rows: Sequence[Row]) -> str:
    """The rows as Markdown."""
    head = "family | back end | tried | held | refused | the driver's | failed | seconds"
    lines = [f"| {head} |", "|" + " --- |" * 8]
    for r in rows:
        held = r.tried - r.empty - r.driver - r.failed
        lines.append(f"| {r.name} | {r.backend.name} | {r.tried} | {held} | {r.empty} | {r.driver} "
                     f"| {r.failed} | {r.seconds:.0f} |")  # fmt: skip
    return "\n".join(lines)


def main(argv: Sequence[str] | None = None) -> int:
    """Try the cases of each family in turns; 1 if anything failed."""
    args = arguments(argv)
    torch.set_num_threads(1)  # which wait for each other longer than they work
    gc.collect()
    gc.freeze()  # each capture collects garbage, and need not look at all of PyTorch
    rows = [Row(n, BACKENDS[b]) for b in args.backend for n in args.only
            if b != "traced" or n not in UNTRACED]  # fmt: skip
    end = time.monotonic() + 60 * args.minutes
    with contextlib.suppress(KeyboardInterrupt):
        for k in range(args.cases * len(args.backend)):
            row = rows[k % len(rows)]
            row.attempt(args.seed + k // len(rows), args.plain)
            if time.monotonic() > end:
                break
    print(table(rows))
    if known.UNWRITTEN:
        print("\n".join(f"{n} not written: {why}" for why, n in known.UNWRITTEN.most_common()))
    return int(any(r.failed for r in rows))


if __name__ == "__main__":
    faulthandler.enable()
    sys.exit(main())
