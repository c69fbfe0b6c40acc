"""What whole networks would move and hold on a large GPU, planned without one."""

from __future__ import annotations

from argparse import Namespace

from pyframe.tools.bench.measure import table
from pyframe.tools.bench.plans import PLANS
from pyframe.tools.cost import si

HEAD = ["step", "dispatches", "workgroups", "bytes moved", "FLOPs", "at once", "texts", "letters"]


def report(args: Namespace) -> list[str]:
    """The counts of each plan, as Markdown."""
    rows = []
    for plan in PLANS[:-1] if args.quick else PLANS:  # the last one takes gigabytes
        t = plan.totals()
        rows.append([plan.name, t.dispatches, si(t.workgroups), si(t.bytes_moved, "B"), si(t.flops),
                     si(t.peak_bytes, "B"), t.texts, si(t.letters)])  # fmt: skip
    return ["# What a step would do on a large GPU", "", *table(HEAD, rows)]
