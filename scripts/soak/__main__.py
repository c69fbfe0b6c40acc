"""Attacks pyframe for minutes or hours: python scripts/soak --help."""

from __future__ import annotations

import argparse
import contextlib
import faulthandler
import os
import sys
import threading
import time
import traceback
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))  # this checkout's pyframe
os.environ.setdefault("PYFRAME_ADAPTER", "software")  # as the tests; empty for the real GPU
os.environ.setdefault("XDG_RUNTIME_DIR", os.devnull)

from attacks import ATTACKS, one_try
from jobs import text_of

HANG = 300  # seconds after which a try counts as stuck
SHOWN = 20  # failures of an attack that are printed as they come


@dataclass
class Row:
    """What came of one attack on one device."""

    name: str
    device: str
    seed: int  # of the next try
    tries: int = 0
    failed: int = 0
    seconds: float = 0.0
    first: str = ""

    def attack(self, verbose: bool) -> None:
        """One try."""
        start = time.monotonic()
        try:
            one_try(self.name, self.device, self.seed)
        except (Exception, SystemExit) as error:
            self.fail(text_of(error))
            if verbose:
                traceback.print_exc()
        self.tries += 1
        self.seed += 1
        self.seconds += time.monotonic() - start

    def fail(self, text: str) -> None:
        """Note a failure, and tell how to have it again."""
        self.failed += 1
        again = f"--only {self.name} --device {self.device} --seed {self.seed} --tries 1"
        self.first = self.first or f"{again}: {text}"
        if self.failed <= SHOWN:
            print(f"{again}\n  {text[:2000]}", file=sys.stderr, flush=True)


def arguments(argv: Sequence[str] | None) -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser("scripts/soak", description=__doc__)
    parser.add_argument("--minutes", type=float, default=1, help="shared by all attacks (1)")
    parser.add_argument("--seed", type=int, default=0, help="of the first try of each (0)")
    parser.add_argument("--tries", type=int, help="of each attack, in the place of --minutes")
    parser.add_argument("--only", type=lambda s: s.split(","), metavar="NAME", default=[*ATTACKS],
                        help=f"some of {', '.join(ATTACKS)}")  # fmt: skip
    parser.add_argument("--device", type=lambda s: s.split(","), default=["cpu", "gpu"],
                        metavar="cpu,gpu")  # fmt: skip
    parser.add_argument("--verbose", action="store_true", help="the traceback of each failure")
    args = parser.parse_args(argv)
    unknown = {*args.only} - {*ATTACKS} | {*args.device} - {"cpu", "gpu"}
    if unknown:
        parser.error(f"unknown: {', '.join(sorted(unknown))}")
    if not any({*args.device} & {*ATTACKS[n].devices} for n in args.only):
        parser.error("nothing to do: none of these attacks is for that device")
    return args


def table(rows: Sequence[Row]) -> str:
    """The rows as Markdown."""
    lines = ["| attack | device | tries | held | failed | first failure |", "|" + " --- |" * 6]
    lines += [
        f"| {r.name} | {r.device} | {r.tries} | {r.tries - r.failed} | {r.failed} | "
        f"{r.first[:300].replace('|', '/')} |"
        for r in rows
    ]
    return "\n".join(lines)


@contextlib.contextmanager
def watchdog(row: Row, rows: Sequence[Row]) -> Iterator[None]:
    """Ends the process with the table where a try never ends."""

    def stuck() -> None:
        faulthandler.dump_traceback(all_threads=True)
        row.tries += 1
        row.fail(f"stuck after {HANG} s")
        print(table(rows), flush=True)
        os._exit(1)

    timer = threading.Timer(HANG, stuck)
    timer.daemon = True
    timer.start()
    try:
        yield
    finally:
        timer.cancel()


def main(argv: Sequence[str] | None = None) -> int:
    """Attack in turns until time or tries are used up; 1 if anything failed."""
    args = arguments(argv)
    rows = [Row(n, d, args.seed) for n in args.only for d in ATTACKS[n].devices if d in args.device]
    end = time.monotonic() + 60 * args.minutes
    left = list(rows)
    with contextlib.suppress(KeyboardInterrupt):
        while left:
            row = min(left, key=lambda r: r.seconds)
            with watchdog(row, rows):
                row.attack(args.verbose)
            left = [r for r in rows if args.tries is None or r.tries < args.tries]
            if args.tries is None and time.monotonic() > end:
                break
    print(table(rows))
    return int(any(r.failed for r in rows))


if __name__ == "__main__":
    sys.exit(main())
