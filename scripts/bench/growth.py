"""How a compiled step of the MLP grows with batch, width and depth, and a plot of it."""

from __future__ import annotations

import itertools
import math
from argparse import Namespace
from typing import Any, NamedTuple
from xml.sax.saxutils import escape

import numpy as np

import pyframe as pf
from pyframe.tools.bench.measure import Side, about, digits, in_turns, table
from pyframe.tools.bench.workloads import mlp

BASE = {"batch": 64, "width": 256, "depth": 4}
SWEEPS = {
    "batch": [16, 32, 64, 128, 256, 512, 1024],
    "width": [32, 64, 128, 256, 512, 1024],
    "depth": [1, 2, 4, 8, 16, 32],
}
QUICK = {"batch": [2, 4, 8], "width": [4, 8, 16], "depth": [1, 2, 3]}
TAIL = 3  # points; small sizes show what a step costs without any work
LINEAR = 1.1  # an exponent up to this counts as linear: clocks are not exact


class Point(NamedTuple):
    """One measured size."""

    size: int
    flops: float  # of the multiplications of matrices
    seconds: float
    peak: int  # bytes
    kernels: int


def measure(batch: int, width: int, depth: int, repeats: int, quick: bool) -> Point:
    """One MLP with `depth` square layers."""
    run = mlp(pf, "cpu", pf.compile, batch, (width,) * (depth + 1))
    side = Side("compiled", run)
    times = in_turns([side], repeats, 0.0 if quick else 0.05)[side.name]
    programs = run.step.programs
    return Point(
        0,
        2 * batch * width**2 * (3 * depth - 1),  # the data needs no gradient
        min(times),  # what else runs here only adds to it
        sum(p.peak_bytes for p in programs),
        sum(len(p.steps) for p in programs),
    )


def exponent(points: list[Point], field: str) -> float:
    """p of the power law field ~ flops ** p that fits best."""
    x, y = (np.log([getattr(p, f) for p in points]) for f in ("flops", field))
    return float(np.polyfit(x, y, 1)[0])


def report(args: Namespace) -> list[str]:
    """The sweeps and their exponents, as Markdown; the plot goes beside `--out`."""
    lines = ["# How the cost of a step grows", "", *about(args.threads, ["cpu"]), ""]
    base = dict.fromkeys(BASE, 4) if args.quick else BASE
    found: dict[str, list[Point]] = {}
    for name, sizes in (QUICK if args.quick else SWEEPS).items():
        found[name] = [
            measure(**{**base, name: n}, repeats=args.repeats, quick=args.quick)._replace(size=n)
            for n in sizes
        ]
        rows = [
            (p.size, f"{p.flops:.3g}", digits(1e3 * p.seconds), digits(p.peak / 2**20), p.kernels)
            for p in found[name]
        ]
        lines += [*table([name, "flops", "ms", "peak MiB", "kernels"], rows), ""]
    rows, worse = [], []
    for name, points in found.items():
        tail = points[-TAIL:]
        fits = [exponent(p, f) for f in ("seconds", "peak") for p in (points, tail)]
        rows.append([name, *(f"{e:.2f}" for e in fits)])
        worse += [
            f"{what} against {name} (exponent {e:.2f})"
            for what, e in (("time", fits[1]), ("memory", fits[3]))
            if e > LINEAR
        ]
    head = ["exponent in flops", "time", "its end", "memory", "its end"]
    lines += [*table(head, rows), ""]
    verdict = "; ".join(worse) if worse else "nothing"
    lines.append(f"Worse than linear in the work, over the last {TAIL} sizes: {verdict}.")
    if args.out:
        args.out.with_suffix(".svg").write_text(plot(found), encoding="utf-8")
    return lines


def plot(found: dict[str, list[Point]]) -> str:
    """Time and memory against flops: an SVG."""
    panels = [
        svg_panel(
            x0, title, "flops of a step", {n: [get(p) for p in found[n]] for n in found}
        )
        for x0, title, get in (
            (0, "time of a step, ms", lambda p: (p.flops, 1e3 * p.seconds)),
            (WIDTH, "memory, MiB", lambda p: (p.flops, p.peak / 2**20)),
        )
    ]  # fmt: skip
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {2 * WIDTH} {HEIGHT}" '
        f'font-family="sans-serif" font-size="12">\n<rect width="100%" height="100%" fill="#fff"/>'
        f"\n{''.join(panels)}</svg>\n"
    )


WIDTH, HEIGHT = 420, 340  # of a panel
LEFT, RIGHT, TOP, BOTTOM = 58, 20, 34, 46
COLOURS = ("#0072b2", "#d55e00", "#009e73", "#cc79a7")


def svg_panel(
    x0: float, title: str, x_title: str, series: dict[str, list[tuple[float, float]]]
) -> str:
    """Lines over logarithmic axes, with a dashed one where y is proportional to x."""
    points = list(itertools.chain(*series.values()))
    (xa, xb), (ya, yb) = (_range([p[i] for p in points]) for i in (0, 1))

    def at(x: float, y: float) -> tuple[float, float]:
        across = (math.log10(x) - xa) / (xb - xa)
        up = (math.log10(y) - ya) / (yb - ya)
        return (
            x0 + LEFT + across * (WIDTH - LEFT - RIGHT),
            HEIGHT - BOTTOM - up * (HEIGHT - TOP - BOTTOM),
        )

    left, bottom = at(10**xa, 10**ya)
    right, top = at(10**xb, 10**yb)
    out = [_text((left + right) / 2, 20, title, "middle", "font-weight='bold'")]
    out.append(_text((left + right) / 2, HEIGHT - 10, x_title, "middle"))
    for tick in _ticks(xa, xb):
        x, _ = at(tick, 10**ya)
        out += [_line([(x, bottom), (x, top)], "#ddd"), _text(x, bottom + 16, _si(tick), "middle")]
    for tick in _ticks(ya, yb):
        _, y = at(10**xa, tick)
        out += [_line([(left, y), (right, y)], "#ddd"), _text(left - 6, y + 4, _si(tick), "end")]
    out.append(_line([(left, top), (left, bottom), (right, bottom)], "#333"))
    x, y = max(points)
    low = max(10**xa, x * 10**ya / y)  # where it leaves the panel on its way down
    out.append(_line([at(low, y * low / x), at(x, y)], "#999", "stroke-dasharray='5 4'"))
    legend = [*zip(series, COLOURS, strict=False), ("linear", "#999")]
    for i, (name, colour) in enumerate(legend):
        y = top + 14 + 16 * i
        dash = "stroke-dasharray='5 4'" if name == "linear" else ""
        out += [
            _line([(left + 10, y), (left + 32, y)], colour, dash),
            _text(left + 38, y + 4, name),
        ]
    for (_, line), colour in zip(series.items(), COLOURS, strict=False):
        out.append(_line([at(*p) for p in line], colour, "stroke-width='2'"))
        for p in line:
            x, y = at(*p)
            out.append(f"<circle cx='{x:.1f}' cy='{y:.1f}' r='3' fill='{colour}'/>\n")
    return "".join(out)


def _range(values: list[float]) -> tuple[float, float]:
    """log10 of what an axis shows: the values and a margin."""
    low, high = math.log10(min(values)), math.log10(max(values))
    margin = 0.05 * (high - low) + 0.05
    return low - margin, high + margin


def _ticks(low: float, high: float) -> list[float]:
    """Powers of ten between two exponents; with few of them, 2 and 5 times as well."""
    steps = (1,) if high - low > 2.5 else (1, 2, 5)
    all_ = [s * 10.0**e for e in range(math.floor(low), math.ceil(high) + 1) for s in steps]
    return [t for t in all_ if low <= math.log10(t) <= high]


def _si(x: float) -> str:
    """A tick's label: 20M, 0.5."""
    for factor, letter in ((1e12, "T"), (1e9, "G"), (1e6, "M"), (1e3, "k")):
        if x >= factor:
            return f"{x / factor:g}{letter}"
    return f"{x:g}"


def _line(points: list[tuple[float, float]], colour: str, more: str = "") -> str:
    path = " ".join(f"{x:.1f},{y:.1f}" for x, y in points)
    return f"<polyline points='{path}' fill='none' stroke='{colour}' {more}/>\n"


def _text(x: float, y: float, text: Any, anchor: str = "start", more: str = "") -> str:
    return (
        f"<text x='{x:.1f}' y='{y:.1f}' text-anchor='{anchor}' {more}>{escape(str(text))}</text>\n"
    )
