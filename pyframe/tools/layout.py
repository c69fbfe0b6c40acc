"""A layered layout of a directed acyclic graph: where its boxes and the lines between them go.

Graphviz would do it too, and `pf.graph.show` writes its DOT. But Graphviz is a program to install,
which pip does not, and there is none in a page or a notebook: a picture must need nothing else.
"""

from __future__ import annotations

from bisect import bisect_right, insort
from collections.abc import Collection, Sequence
from typing import NamedTuple

Point = tuple[float, float]
Edge = tuple[int, int, float, float]  # from, to, and how far from their middles the line ends

SWEEPS = 12
THIN = 10.0  # pixels that a line takes where it passes a layer


class GraphLayout(NamedTuple):
    """The middle of each box, and the points of each edge, downwards."""

    centres: list[Point]
    routes: list[list[Point]]
    width: float
    height: float


def arrange(
    sizes: Sequence[tuple[float, float]], edges: Sequence[Edge], gap: tuple[float, float],
    first: Collection[int] = (), last: Collection[int] = (),
) -> GraphLayout:  # fmt: skip
    """Boxes of `sizes` in layers by their longest path, `gap` apart; those of `first` and `last`
    are kept at the top and at the bottom."""
    if not sizes:
        return GraphLayout([], [], 0, 0)
    return _Arranged(sizes, edges, gap, first, last).layout()


class _Arranged:
    """Vertices beyond the boxes stand for lines that pass a layer."""

    def __init__(
        self, sizes: Sequence[tuple[float, float]], edges: Sequence[Edge], gap: tuple[float, float],
        first: Collection[int], last: Collection[int],
    ) -> None:  # fmt: skip
        self.gap = gap
        self.boxes = len(sizes)
        self.sizes = list(sizes)
        self.layer = _layers(len(sizes), edges, first, last)
        self.above: list[list[tuple[int, float]]] = [[] for _ in sizes]  # (vertex, offset)
        self.below: list[list[tuple[int, float]]] = [[] for _ in sizes]
        self.chains: list[list[int]] = []
        self.ends = [(e[2], e[3]) for e in edges]
        passes: dict[tuple[int, float, int], int] = {}  # lines that begin as one stay together
        for u, v, du, dv in edges:
            chain, start = [u], du
            for layer in range(self.layer[u] + 1, self.layer[v]):
                w = passes.setdefault((u, du, layer), len(self.sizes))
                if w == len(self.sizes):
                    self.sizes.append((THIN, 0))
                    self.layer.append(layer)
                    self.above.append([])
                    self.below.append([])
                    self.join(chain[-1], w, start)
                chain.append(w)
                start = 0
            self.join(chain[-1], v, start - dv)
            self.chains.append([*chain, v])
        self.rows: list[list[int]] = [[] for _ in range(max(self.layer) + 1)]
        for v, n in enumerate(self.layer):
            self.rows[n].append(v)
        self.x = [0.0] * len(self.sizes)

    def join(self, a: int, b: int, shift: float) -> None:
        self.below[a].append((b, -shift))
        self.above[b].append((a, shift))

    def layout(self) -> GraphLayout:
        self.order()
        self.align()
        y, at = 0.0, []
        for row in self.rows:
            height = max(self.sizes[v][1] for v in row)
            at.append((y, y + height))
            y += height + self.gap[1]
        left = min(x - w / 2 for x, (w, _) in zip(self.x, self.sizes, strict=True))
        right = max(x + w / 2 for x, (w, _) in zip(self.x, self.sizes, strict=True))
        x = [v - left for v in self.x]
        middle = [(at[n][0] + at[n][1]) / 2 for n in self.layer]
        routes = []
        for chain, (du, dv) in zip(self.chains, self.ends, strict=True):
            u, v = chain[0], chain[-1]
            out, into = x[u] + du, x[v] + dv
            ends = middle[u] + self.sizes[u][1] / 2, middle[v] - self.sizes[v][1] / 2
            points = [(out, ends[0])]
            if at[self.layer[u]][1] > ends[0]:  # straight on beside higher boxes
                points.append((out, at[self.layer[u]][1]))
            for w in chain[1:-1]:
                points += [(x[w], edge) for edge in at[self.layer[w]]]
            if at[self.layer[v]][0] < ends[1]:
                points.append((into, at[self.layer[v]][0]))
            points.append((into, ends[1]))
            routes.append(points)
        centres = list(zip(x[: self.boxes], middle[: self.boxes], strict=True))
        return GraphLayout(centres, routes, right - left, at[-1][1])

    def order(self) -> None:
        """Order each layer by the mean place of its neighbours, up and down; the best wins."""
        best, fewest = [row[:] for row in self.rows], -1
        for sweep in range(SWEEPS):
            for row in self.rows:
                self.line_up(row)
            crossings = sum(self.crossings(row) for row in self.rows)
            if fewest < 0 or crossings < fewest:
                best, fewest = [row[:] for row in self.rows], crossings
            down = sweep % 2 == 0
            for row in self.rows[1:] if down else self.rows[-2::-1]:
                near = self.above if down else self.below
                row.sort(key=lambda v: self.wanted(v, near))
                self.line_up(row)
        self.rows = best

    def line_up(self, row: list[int]) -> None:
        """Side by side, around 0."""
        at = -sum(self.sizes[v][0] + self.gap[0] for v in row) / 2
        for v in row:
            self.x[v] = at + self.sizes[v][0] / 2
            at += self.sizes[v][0] + self.gap[0]

    def wanted(self, v: int, *near: list[list[tuple[int, float]]]) -> float:
        """Where `v` would lie below or above its neighbours."""
        places = [self.x[u] + shift for some in near for u, shift in some[v]]
        return sum(places) / len(places) if places else self.x[v]

    def crossings(self, row: list[int]) -> int:
        """How many lines into this layer cross."""
        ends = sorted((self.x[u] + shift, self.x[v]) for v in row for u, shift in self.above[v])
        seen: list[float] = []
        total = 0
        for _, end in ends:
            total += len(seen) - bisect_right(seen, end)
            insort(seen, end)
        return total

    def align(self) -> None:
        """Move the boxes of each layer below and above their neighbours, in their order."""
        for row in self.rows:
            self.line_up(row)
        for sweep in range(SWEEPS):
            down = sweep % 2 == 0
            near = [self.above] if down else [self.below]
            if sweep >= SWEEPS - 4:
                near = [self.above, self.below]
            for row in self.rows if down else self.rows[::-1]:
                wanted = [self.wanted(v, *near) for v in row]
                weights = [4.0 if v >= self.boxes else 1.0 for v in row]  # straight lines
                widths = [self.sizes[v][0] + self.gap[0] for v in row]
                for v, x in zip(row, _spread(wanted, weights, widths), strict=True):
                    self.x[v] = x


def _layers(
    n: int, edges: Sequence[Edge], first: Collection[int], last: Collection[int]
) -> list[int]:
    below: list[list[int]] = [[] for _ in range(n)]
    waits = [0] * n
    for u, v, *_ in edges:
        below[u].append(v)
        waits[v] += 1
    sources = [v for v in range(n) if not waits[v]]
    order, layer = sources[:], [int(bool(first) and v not in first) for v in range(n)]
    for u in order:
        for v in below[u]:
            layer[v] = max(layer[v], layer[u] + 1)
            waits[v] -= 1
            if not waits[v]:
                order.append(v)
    for v in sources:
        if v not in first:
            layer[v] = min([layer[w] - 1 for w in below[v]], default=layer[v])
    bottom = max([layer[v] for v in range(n)], default=0)
    if last and any(layer[v] == bottom for v in range(n) if v not in last):
        bottom += 1
    for v in last:
        layer[v] = bottom
    return layer


def _spread(wanted: list[float], weights: list[float], widths: list[float]) -> list[float]:
    """The places nearest to the wanted ones (in least squares) at which boxes do not overlap."""
    shifts, at = [], 0.0
    for i, width in enumerate(widths):
        at += width / 2 + (widths[i - 1] / 2 if i else 0)
        shifts.append(at)
    blocks: list[list[float]] = []  # [sum of weights, weighted sum, boxes]: they move as one
    for want, weight, shift in zip(wanted, weights, shifts, strict=True):
        blocks.append([weight, weight * (want - shift), 1])
        while len(blocks) > 1 and blocks[-2][1] / blocks[-2][0] > blocks[-1][1] / blocks[-1][0]:
            w, s, k = blocks.pop()
            blocks[-1] = [blocks[-1][0] + w, blocks[-1][1] + s, blocks[-1][2] + k]
    places = [s / w for w, s, k in blocks for _ in range(int(k))]
    return [p + shift for p, shift in zip(places, shifts, strict=True)]
