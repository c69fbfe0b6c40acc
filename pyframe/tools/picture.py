"""SVG pictures of boxes and the lines between them; boxes may hold boxes (see `BoxLayers`)."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from html import escape
from typing import Any, NamedTuple

from pyframe.tools.layout import Point, arrange

PAD, LINE = 12, 14  # pixels
STYLE = (
    "text{font-family:Helvetica,Arial,sans-serif;fill:#1f2933;font-size:12px}"
    ".b{font-weight:600}.s{font-size:10px;fill:#52606d}.m{text-anchor:middle}"
    ".e{fill:none;stroke:#7b8794;stroke-width:1.2}"
    ".k{stroke-width:1.2}.o{fill:#fff;stroke:#9aa5b1}"
    ".input{fill:#eef0f3;stroke:#9aa5b1}.temp{fill:#fff;stroke:#9aa5b1;stroke-dasharray:4 3}"
    ".result{fill:#3e4c59;stroke:#3e4c59}.w{fill:#fff}"
)


class Link(NamedTuple):
    """A line for a value from one box to another; None is outside of the nest."""

    source: Any
    target: Any
    value: Any  # lines of one value go through a border at one place
    label: str = ""  # where it begins, once for a value


class Box:
    """A rounded rectangle with centred lines: the first large, the others small."""

    def __init__(
        self, lines: Sequence[str], kind: str, size: tuple[float, float], radius: float = 6,
        text: str = "", note: str = "",
    ) -> None:  # fmt: skip
        self.lines, self.kind, self.radius, self.text, self.note = lines, kind, radius, text, note
        self.width, self.height = size

    def port(self, value: Any, entering: bool) -> float:
        """How far from the middle of the box the line of a value goes through its border."""
        return 0.0

    def svg(self, x: float, y: float) -> str:
        """The box with its top left corner at a place; `note` is shown to who points at it."""
        out = [rect(x, y, self.width, self.height, self.kind, self.radius)]
        out += texts(x + self.width / 2, y + self.height / 2, self.lines, self.text)
        if self.note:
            out = ["<g>", f"<title>{escape(self.note)}</title>", *out, "</g>"]
        return "\n".join(out)


class BoxLayers:
    """Boxes in layers with the lines between them, and from and to what is outside."""

    def __init__(
        self, boxes: Mapping[Any, Any], links: Sequence[Link], gap: tuple[float, float],
        framed: bool = True,
    ) -> None:  # fmt: skip
        self.boxes, self.links = boxes, links
        ins: list[Any] = list(dict.fromkeys(k.value for k in links if k.source is None))
        outs: list[Any] = list(dict.fromkeys(k.value for k in links if k.target is None))
        if framed:  # the frame keeps its distance where no line goes through it, too
            ins, outs = ins or [None], outs or [None]
        keys = [*[("in", v) for v in ins], *boxes, *[("out", v) for v in outs]]
        self.index = index = {key: i for i, key in enumerate(keys)}
        sizes = [(10.0, 0.0)] * len(ins)
        sizes += [(b.width, b.height) for b in boxes.values()]
        sizes += [(10.0, 0.0)] * len(outs)
        edges = []
        for source, target, value, _ in links:
            inside, beyond = source is not None, target is not None
            edges.append((
                index[source if inside else ("in", value)],
                index[target if beyond else ("out", value)],
                boxes[source].port(value, False) if inside else 0.0,
                boxes[target].port(value, True) if beyond else 0.0,
            ))  # fmt: skip
        first, last = set(range(len(ins))), set(range(len(keys) - len(outs), len(keys)))
        self.layout = arrange(sizes, edges, gap=gap, first=first, last=last)
        self.width, self.height = self.layout.width, self.layout.height

    def port(self, value: Any, entering: bool) -> float:
        """How far from the left the line of a value comes in or leaves."""
        return self.layout.centres[self.index["in" if entering else "out", value]][0]

    def svg(self, left: float, top: float, ends: tuple[float, float], fill: str = "#fff") -> str:
        """The picture at a place, its lines from and to outside drawn on to the heights `ends`."""
        out = []
        for link, route in zip(self.links, self.layout.routes, strict=True):
            whole = [(left + a, top + b) for a, b in route]
            if link.source is None:
                whole.insert(0, (whole[0][0], ends[0]))
            if link.target is None:
                whole.append((whole[-1][0], ends[1]))
            goes_on = getattr(self.boxes.get(link.target), "holds", False)  # its tip is within
            out.append(lines(whole, tip=link.target is not None and not goes_on))
        seen = set()
        for link, route in zip(self.links, self.layout.routes, strict=True):
            if link.label and link.value not in seen:
                seen.add(link.value)
                a, b = route[0]
                out.append(text(left + a, top + b + 15, "s m", link.label, halo(fill)))
        for key, box in self.boxes.items():
            x, y = self.layout.centres[self.index[key]]
            out.append(box.svg(left + x - box.width / 2, top + y - box.height / 2))
        return "\n".join(out)


class BoxGroup:
    """A frame around a nest, with a title on its left or on top: the first line of it is bold."""

    holds = True

    def __init__(
        self, nest: BoxLayers, title: Sequence[str], colors: tuple[str, str], beside: bool = False,
        radius: float = 10, note: str = "",
    ) -> None:  # fmt: skip
        self.nest, self.title, self.colors = nest, title, colors
        self.radius, self.note = radius, note
        written = max(wide(t, 13 if i == 0 else 10) for i, t in enumerate(title)) + 2 * PAD
        tall = LINE * len(title)
        if beside:
            self.left, self.top = written, 0.0
            self.width = self.left + nest.width + 2 * PAD
            self.height = max(nest.height, tall + PAD)
        else:
            self.top = tall + 2.0
            self.width = max(nest.width + 2 * PAD, written)
            self.left = (self.width - nest.width) / 2
            self.height = self.top + nest.height

    def port(self, value: Any, entering: bool) -> float:
        """As of a Box."""
        return self.left + self.nest.port(value, entering) - self.width / 2

    def svg(self, x: float, y: float) -> str:
        """As of a Box."""
        fill, line = self.colors
        style = f' fill="{fill}" stroke="{line}"'
        out = [rect(x, y, self.width, self.height, "k", self.radius, style)]
        if self.note:
            out = ["<g>", f"<title>{escape(self.note)}</title>", *out, "</g>"]
        top = y + self.top + (self.height - self.top - self.nest.height) / 2
        out.append(self.nest.svg(x + self.left, top, (y, y + self.height), fill))
        for i, t in enumerate(self.title):
            at = y + LINE * (i + 1) + 4
            out.append(text(x + PAD, at, "s" if i else "b", t, halo(fill)))
        return "\n".join(out)


def page(width: float, height: float, content: str, style: str = "") -> str:
    """A whole SVG file, with PAD around what is drawn; it needs nothing from elsewhere."""
    width, height = width + 2 * PAD, height + 2 * PAD
    # a notebook may put it into its own page, whose other elements it must leave as they are
    style = re.sub(r"([^{}]+){", r".pyframe \1{", STYLE + style)
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{width:.0f}" height="{height:.0f}" '
        f'viewBox="{-PAD} {-PAD} {width:.0f} {height:.0f}" class="pyframe">\n'
        f"<style>{style}</style>\n"
        '<defs><marker id="tip" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="7" '
        'markerHeight="7" orient="auto"><path d="M0 0.5 8 4 0 7.5z" fill="#7b8794"/></marker>'
        f'</defs>\n<rect x="{-PAD}" y="{-PAD}" width="100%" height="100%" fill="#fff"/>\n'
        f"{content}\n</svg>\n"
    )


def wide(s: str, size: int = 12) -> float:
    """About how wide a text is."""
    return 0.6 * size * len(s)


def rect(x: float, y: float, w: float, h: float, kind: str, r: float, style: str = "") -> str:
    """A rounded rectangle of a class of STYLE."""
    return (
        f'<rect x="{x:.1f}" y="{y:.1f}" width="{w:.1f}" height="{h:.1f}" rx="{r:g}" '
        f'class="{kind}"{style}/>'
    )


def text(x: float, y: float, kind: str, s: str, style: str = "") -> str:
    """A text of classes of STYLE."""
    return f'<text x="{x:.1f}" y="{y:.1f}" class="{kind}"{style}>{escape(s)}</text>'


def halo(fill: str) -> str:
    """The style of a text that lines may lie behind."""
    return f' style="paint-order:stroke;stroke:{fill};stroke-width:4px"'


def texts(x: float, y: float, lines: Sequence[str], style: str = "") -> list[str]:
    """Centred lines: the first large, the others small; a single one is small if a type."""
    y -= LINE * (len(lines) - 1) / 2 - 4
    mark = ' style="fill:#fff"' if style else ""
    return [
        text(x, y + LINE * i, f"{'s' if i or '·' in t else 'b'} m", t, mark)
        for i, t in enumerate(lines)
    ]


def lines(points: Sequence[Point], tip: bool = True) -> str:
    """A smooth line through the points, downwards at each."""
    (x, y), *rest = points
    d = [f"M{x:.1f} {y:.1f}"]
    for a, b in rest:
        middle = (y + b) / 2
        curve = f"C{x:.1f} {middle:.1f} {a:.1f} {middle:.1f} {a:.1f} {b:.1f}"
        d.append(f"L{a:.1f} {b:.1f}" if abs(a - x) < 0.1 else curve)
        x, y = a, b
    end = ' marker-end="url(#tip)"' if tip else ""
    return f'<path d="{" ".join(d)}" class="e"{end}/>'
