"""pf.draw: a net's layers as an SVG picture, with the data that flows between them."""

from __future__ import annotations

import os
from collections.abc import Sequence
from html import escape
from itertools import pairwise
from pathlib import Path
from typing import Any

from pyframe.core import module_of
from pyframe.core.words import plural
from pyframe.io.files import replacing
from pyframe.nn.modules.module import Module
from pyframe.tools.flow import INPUT, MODULE, OP, OUTPUT, CallTreeNode, net_of, trace
from pyframe.tools.picture import LINE, PAD, Box, BoxGroup, BoxLayers, Link, page, rect, text, wide

__all__ = ["ModelDrawing", "draw"]

# families by the file of torch.nn.modules that a layer is in, as modules with parameters are blue
FAMILIES = {
    "batchnorm": "norm", "instancenorm": "norm", "normalization": "norm",
    "activation": "activation", "pooling": "pooling",
}  # fmt: skip
STYLE = (
    ".weights{fill:#e8f1fc;stroke:#5b8ecf}.norm{fill:#e8f5ea;stroke:#58a066}"
    ".activation{fill:#fff3e0;stroke:#e09b3d}.pooling{fill:#f4eafa;stroke:#a077c4}"
    ".plain{fill:#fff;stroke:#9aa5b1}.function{fill:#fff;stroke:#9aa5b1;stroke-dasharray:4 3}"
    ".r{text-anchor:end}"
)
FRAMES = (("#fafbfc", "#c3cbd6"), ("#f1f4f7", "#b3bdca"))  # of groups, in turns
SIGNS = {"add": "+", "mul": "×", "sub": "−", "div": "÷", "truediv": "÷", "matmul": "@"}
BOLD = 13  # as wide as texts of this size are bold ones of 12
MAX_NAMES = 6  # names of functions in a box
MAX_BOXES = 120  # boxes of a picture
GAP = 24, 30


class ModelDrawing:
    """A picture of a net's layers; notebooks show it."""

    def __init__(self, svg: str, of: str) -> None:
        self.svg, self.of = svg, of

    def _repr_svg_(self) -> str:
        return self.svg

    def __str__(self) -> str:
        return self.svg

    def __repr__(self) -> str:
        return f"<Drawing of {self.of}>"

    def save(self, path: Any) -> None:
        """Write the SVG file."""
        with replacing(path) as file:
            file.write(self.svg.encode())


def draw(net: Any, x: Any = None, path: Any = None, *, depth: int | None = None) -> ModelDrawing:
    """The layers of a Module or a Model, as an SVG picture.

    With `x`, a tensor, a tuple or dict of inputs, or the shape of one sample, the net runs once (in
    evaluation mode, without gradients) and the lines are what flows: shapes where values begin,
    modules as frames around what they call, functions between as dashed boxes, equal modules one
    after the other as one with their number. Without it, all modules with their parameters.
    Modules more than `depth` levels down are not opened; by default those of large nets, so that
    there are at most 120 boxes. `path` is where the picture goes.

    Args:
        net: The Module or the Model.

    >>> str(pf.draw(nn.Linear(2, 1), pf.zeros(4, 2)))[:4]
    '<svg'
    """
    if path is not None and not isinstance(path, str | os.PathLike):
        raise TypeError(f"draw: expected a path such as 'net.svg', got {type(path).__name__}")
    if path is not None and Path(path).suffix not in (".svg", ""):
        raise ValueError(f"draw: the picture is an SVG file, got the path {os.fspath(path)!r}")
    found = net_of("draw", net)
    if x is None:
        svg = _tree(found, depth)
    else:
        whole = trace(net, x, "draw")
        _fold(whole)
        _close(whole, _levels(whole) if depth is None else depth)
        svg = _flow(whole)
    drawing = ModelDrawing(svg, type(found).__name__)
    if path is not None:
        drawing.save(path)
    return drawing


def _counted(n: int) -> str:
    return f"{n:,} {plural(n, 'parameter')}"


def _family(module: Module) -> str:
    file = module_of(type(module)).rpartition(".")[2]
    if FAMILIES.get(file) == "norm":
        return "norm"
    if next(module.parameters(), None) is not None:
        return "weights"
    return FAMILIES.get(file, "plain")


def _note(module: Module) -> str:
    """What is shown to who points at a box."""
    text = repr(module)
    return text if len(text) < 2000 else f"{text[:2000]}…"


# --- with data: less of the trace


def _close(call: CallTreeNode, depth: int) -> None:
    """Make boxes of the modules that lie more than `depth` levels down."""
    for c in call.calls:
        if c.calls and depth > 0:
            _close(c, depth - 1)
        elif c.calls:
            inner = list(c.boxes())
            for b in inner:
                b.inside = c
            for b in inner:
                for s in b.sources:
                    c.take(s)
            c.calls.clear()
    if call.parent is None:
        for b in call.boxes():
            sources, b.sources = b.sources, []
            for s in sources:
                b.take(s)


def _levels(call: CallTreeNode) -> int:
    """How many levels to open by default: all, unless that makes more than LARGE boxes."""
    depth, shown = 0, call.calls
    while any(c.calls for c in shown):
        shown = [inner for c in shown for inner in c.calls or (c,)]
        if len(shown) > MAX_BOXES:
            break
        depth += 1
    return depth


class _Form:
    """What a call looks like from outside: equal forms do the same on data of the same shape."""

    def __init__(self, call: CallTreeNode) -> None:
        self.boxes = list(call.boxes()) or [call]
        index = {b: i for i, b in enumerate(self.boxes)}
        self.outer: dict[CallTreeNode, int] = {}  # what it takes from outside, in order
        parts: list[Any] = []
        for b in self.boxes:
            takes = [index[s] if s in index else -1 - self.outer.setdefault(s, len(self.outer))
                     for s in b.sources]  # fmt: skip
            parts.append((b.type, "" if b.module is None else repr(b.module), b.shapes, takes))
        self.key = (_nesting(call), parts)


def _nesting(call: CallTreeNode) -> Any:
    return call.type, call.count, [_nesting(c) for c in call.calls]


def _fold(call: CallTreeNode) -> None:
    """Let equal modules that follow each other be one, with their number."""
    for c in call.calls:
        _fold(c)
    forms = {c: _Form(c) for c in call.calls if c.kind == MODULE}
    whole = call
    while whole.parent is not None:
        whole = whole.parent
    users = whole.users()
    i = 0
    while i < len(call.calls):
        run = [call.calls[i]]
        while i + len(run) < len(call.calls) and _follows(
            run, call.calls[i + len(run)], forms, users
        ):
            run.append(call.calls[i + len(run)])
        first, last = run[0], run[-1]
        if len(run) > (1 if first.calls else 2):
            first.count, first.last = len(run), last.name
            kept = dict(zip(forms[last].boxes, forms[first].boxes, strict=True))
            for b in {u: 0 for old in kept for u in users.get(old, ())}:
                b.sources = [kept.get(s, s) for s in b.sources]
            del call.calls[i + 1 : i + len(run)]
        i += 1


def _follows(
    run: list[CallTreeNode], c: CallTreeNode, forms: dict[CallTreeNode, _Form], users: Any
) -> bool:
    """Whether `c` goes on with what the last of the run gives, as that does with the one before."""
    last = run[-1]
    if last not in forms or c not in forms or forms[last].key != forms[c].key:
        return False
    a, b = forms[last], forms[c]
    own = set(b.boxes)
    if any(u not in own and u not in a.boxes for s in a.boxes for u in users.get(s, ())):
        return False
    chained = [a.boxes.index(s) if s in a.boxes else None for s in b.outer]
    if all(p is None for p in chained):
        return False
    if any(p is None and s is not t for p, s, t in zip(chained, b.outer, a.outer, strict=True)):
        return False
    if len(run) == 1:
        return True
    before = forms[run[-2]]
    return chained == [before.boxes.index(s) if s in before.boxes else None for s in a.outer]


# --- with data: the picture


def _flow(whole: CallTreeNode) -> str:
    links: dict[CallTreeNode, dict[Link, None]] = {}
    for box in whole.boxes():
        for source in box.sources:
            _link(source, box, links)
    nest = _nest(whole, links, 0)
    title = whole.type, _counted(whole.parameters)
    top = LINE * len(title) + PAD
    out = [f'<text x="0" y="{LINE - 2}" class="b">{escape(title[0])}</text>',
           f'<text x="0" y="{2 * LINE - 2}" class="s">{title[1]}</text>']  # fmt: skip
    width = max(nest.width, *(wide(t, BOLD) for t in title))
    left = (width - nest.width) / 2
    out.append(nest.svg(left, top, (top, top + nest.height)))
    return page(width, top + nest.height, "\n".join(out), STYLE)


def _link(
    source: CallTreeNode, target: CallTreeNode, links: dict[CallTreeNode, dict[Link, None]]
) -> None:
    """Lead a value out of all groups that its source lies in and into those of its target."""
    label = ", ".join("×".join(map(str, s)) or "1" for s in source.shapes[:2])
    label += ", …" if len(source.shapes) > 2 else ""
    ups, downs = [source, *_parents(source)], [target, *_parents(target)]
    common = next(p for p in ups if p in downs)
    for child, group in pairwise(ups):
        if group is common:
            break
        text = label if child is source else ""
        links.setdefault(group, {})[Link(child, None, source, text)] = None
    for child, group in pairwise(downs):
        if group is common:
            break
        links.setdefault(group, {})[Link(None, child, source)] = None
    a, b = (some[some.index(common) - 1] for some in (ups, downs))
    links.setdefault(common, {})[Link(a, b, source, label if a is source else "")] = None


def _parents(call: CallTreeNode) -> list[CallTreeNode]:
    return [] if call.parent is None else [call.parent, *_parents(call.parent)]


def _nest(call: CallTreeNode, links: dict[CallTreeNode, dict[Link, None]], level: int) -> BoxLayers:
    boxes = {c: _group(c, links, level) if c.calls else _box(c) for c in call.calls}
    return BoxLayers(boxes, list(links.get(call, ())), GAP, framed=level > 0)


def _name(call: CallTreeNode) -> str:
    """The name of a module from where it is called, of several with the last one's."""
    prefix = f"{call.parent.name}." if call.parent is not None and call.parent.name else ""
    name = call.name.removeprefix(prefix)
    if call.count == 1:
        return name
    last = call.last.rpartition(".")[2]
    return name if call.last == call.name else f"{name}–{last}"


def _type(type_: str, count: int) -> str:
    return type_ if count == 1 else f"{type_} × {count}"


def _group(call: CallTreeNode, links: dict[CallTreeNode, dict[Link, None]], level: int) -> BoxGroup:
    nest = _nest(call, links, level + 1)
    title = [
        f"{_name(call)}: {_type(call.type, call.count)}",
        _counted(call.parameters) + _each(call),
    ]
    return BoxGroup(nest, title, FRAMES[level % 2], note=_note(call.module))


def _each(call: CallTreeNode) -> str:
    return " each" if call.count > 1 else ""


def _box(call: CallTreeNode) -> Box:
    if call.kind in (INPUT, OUTPUT):
        text = [call.name]
        size = max(wide(call.name, BOLD) + 2 * PAD, 44), 26.0
        result = call.kind == OUTPUT
        return Box(text, "result" if result else "input", size, 13, "w" if result else "")
    if call.kind == OP:
        names = call.name.split(", ")
        if len(names) > MAX_NAMES:
            names = [*names[: MAX_NAMES - 2], f"… {len(names) - MAX_NAMES + 1} more …", names[-1]]
        names = [SIGNS.get(n, n) for n in names]
        joined = ", ".join(names)
        text = [joined] if len(joined) < 30 else names
        size = max(wide(max(text, key=len), BOLD) + PAD, 36), LINE * len(text) + 10.0
        return Box(text, "function", size, min(size[1] / 2, 13))
    type_, small = _type(call.type, call.count), _name(call)
    if call.parameters:
        small += f" · {_counted(call.parameters)}{_each(call)}"
    size = max(wide(type_, BOLD), wide(small, 10), 40) + PAD, 2 * LINE + 10.0
    return Box([type_, small], _family(call.module), size, note=_note(call.module))


# --- without data: the tree


def _tree(net: Module, depth: int | None) -> str:
    """All modules, one a line, those within others further in."""
    rows: list[tuple[int, str, Module, int]] = []  # level, name, module, number of equal ones

    def add(name: str, module: Module, level: int, count: int) -> None:
        rows.append((level, name, module, count))
        if depth is not None and level >= depth:
            return
        children = list(module.named_children())
        i = 0
        while i < len(children):
            first, child = children[i]
            n, text = 1, repr(child)
            while i + n < len(children) and repr(children[i + n][1]) == text:
                n += 1
            n = n if n > 2 or (n == 2 and next(child.children(), None) is not None) else 1
            last = children[i + n - 1][0]
            add(first if n == 1 else f"{first}–{last}", child, level + 1, n)
            i += n

    add("", net, 0, 1)
    height, step = 24.0, 20.0
    texts: list[tuple[float, str, str, str]] = []
    for level, name, module, count in rows:
        type_ = _type(type(module).__name__, count)
        head = f"{name}: {type_}" if name else type_
        extra = " ".join(module.extra_repr().split())
        number = sum(p.numel() for p in module.parameters())
        right = _counted(number) + (" each" if count > 1 else "") if number else ""
        texts.append((level * step, head, extra if len(extra) < 70 else f"{extra[:69]}…", right))
    left = max(x + wide(head, BOLD) + wide(extra, 10) + 3 * PAD for x, head, extra, _ in texts)
    width = left + max(wide(right, 10) for *_, right in texts) + PAD
    out = []
    above: Sequence[float] = ()
    for i, ((level, _, module, _), (x, head, extra, right)) in enumerate(
        zip(rows, texts, strict=True)
    ):
        y = i * height
        middle = y + height / 2
        above = [*above[:level], middle]
        if level:  # down from the module that it lies in
            corner = x - step / 2
            out.append(
                f'<path d="M{corner:.1f} {above[level - 1] + 9:.1f}V{middle:.1f}H{x:.1f}" '
                'class="e"/>'
            )
        body = [
            rect(x, y + 2, wide(head, BOLD) + PAD, height - 4, _family(module), 6),
            text(x + PAD / 2, middle + 4, "b", head),
        ]
        if extra:
            body.append(text(x + wide(head, BOLD) + 2 * PAD, middle + 4, "s", extra))
        if right:
            body.append(text(width, middle + 4, "s r", right))
        out.append("\n".join(["<g>", f"<title>{escape(_note(module))}</title>", *body, "</g>"]))
    return page(width, height * len(rows), "\n".join(out), STYLE)
