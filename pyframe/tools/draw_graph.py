"""Pictures of a graph: its ops, the kernels that they are fused into, and the buffers between.

`show` records a function without computing it, plans it as its device would, and draws the plan:
DOT for Graphviz, and SVG by a layered layout of its own (`picture.py`, `layout.py`).
"""

from __future__ import annotations

import gc
import inspect
import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from pyframe.capture import capture as capturing, compile as compiling
from pyframe.core import dtypes as dt
from pyframe.core.devices import device as Device, flush
from pyframe.core.dtypes import dtype as DType
from pyframe.core.limits import Limits
from pyframe.core.modes import mode
from pyframe.core.node import Node, toposort
from pyframe.core.op import CONST, EXTERN, REDUCTION
from pyframe.graph.fuse import FusionPlanner, IndexedGraph
from pyframe.graph.lower import lower
from pyframe.graph.program import Program
from pyframe.graph.schedule import schedule
from pyframe.io.files import replacing
from pyframe.tensor import Tensor
from pyframe.tools.cost import KernelCost, si, table
from pyframe.tools.picture import LINE, PAD, Box, BoxGroup, BoxLayers, Link, page, wide

# --- what became of a graph


@dataclass
class _Kernel:
    """A kernel and the ops that run in it; one that several kernels need is in each of them."""

    ops: list[Node]
    stores: list[Node]  # those whose values it writes to buffers
    row: KernelCost

    def __post_init__(self) -> None:
        self.here = {id(n) for n in self.ops}

    @property
    def kind(self) -> str:
        kinds = {n.op.kind for n in self.ops if n.op is not None}
        return EXTERN if EXTERN in kinds else REDUCTION if REDUCTION in kinds else "map"

    def reads(self, n: Node) -> Iterator[tuple[Node, bool]]:
        """The operands of `n` that are tensors, and whether they are computed here too."""
        for i in {id(i): i for i in n.inputs}.values():
            if i.op is not CONST:
                yield i, id(i) in self.here


@dataclass
class _Drawn:
    kernels: list[_Kernel] = field(default_factory=list)
    roots: list[Node] = field(default_factory=list)
    names: dict[int, str] = field(default_factory=dict)  # of values, by id
    programs: list[tuple[Device, Program]] = field(default_factory=list)

    def add(self, roots: Sequence[Node], limits: Limits) -> None:
        """Plan what one device computes for `roots`."""
        _, lowered = lower(toposort(roots), roots, limits)
        for n, new in zip(roots, lowered, strict=True):
            if id(n) in self.names:
                self.names[id(new)] = self.names[id(n)]
        roots = lowered
        program, _, _ = schedule(toposort(roots), roots, limits)
        self.programs.append((roots[0].device, program))
        order = toposort(roots)  # with what the scheduler has put between
        grouping = FusionPlanner(IndexedGraph(order, roots), limits)
        stored = {id(order[k]) for k in grouping.home}
        rows = table(program)
        members = [[order[k] for k in g.fusion.members] for g in grouping.ordered()]
        position = {id(n): i for i, n in enumerate(order)}
        inside = [_inside(some, stored) for some in members]
        kept = {id(n) for n in roots}
        for ops in inside:  # what another kernel reads
            kept |= {id(i) for n in ops for i in n.inputs} - {id(n) for n in ops}
        for some, ops, row in zip(members, inside, rows, strict=True):
            ops.sort(key=lambda n: position[id(n)])
            self.kernels.append(_Kernel(ops, [n for n in some if id(n) in kept], row))
        self.roots += roots


def _inside(members: Sequence[Node], stored: set[int]) -> list[Node]:
    """The members of a kernel and what is computed on the way to them."""
    found = {id(n): n for n in members}
    stack = list(members)
    while stack:
        for i in stack.pop().inputs:
            if i.data is None and i.op is not CONST and id(i) not in stored and id(i) not in found:
                found[id(i)] = i
                stack.append(i)
    return list(found.values())


def text(roots: Sequence[Node], limits: Limits) -> str:
    """The nodes that `roots` need, one a line, and which kernel each joined (see PYFRAME_DEBUG)."""
    drawn, copies = _Drawn(), _copied(roots)
    roots = [copies[id(n)] for n in roots]
    drawn.add(roots, limits)
    roots = drawn.roots
    homes: dict[int, list[int]] = {}
    for k, kernel in enumerate(drawn.kernels):
        for n in kernel.ops:
            homes.setdefault(id(n), []).append(k)
    order = toposort(roots)
    number = {id(n): i for i, n in enumerate(order)}
    wanted = {id(n) for n in roots}
    lines = [f"pyframe: {len(order)} nodes, {len(drawn.kernels)} kernels"]
    for i, n in enumerate(order):
        if n.op is CONST or n.data is not None:
            what, where = f"const {n.attrs[0]!r}" if n.op is CONST else "input", ""
        else:
            operands = ", ".join(f"%{number[id(x)]}" for x in n.inputs)
            what = f"{_name(n)}({operands}) {_attrs(n)}".rstrip()
            where = "kernel " + ", ".join(map(str, homes.get(id(n), ())))
            where += " (result)" if id(n) in wanted else ""
        lines.append(f"  %{i:<4}{_type(n):<16}{what:<44}{where}".rstrip())
    return "\n".join(lines)


def _name(n: Node) -> str:
    return n.op.name if n.op is not None else "value"


def _type(n: Node) -> str:
    """Dtype and shape, as 'f32 64×128'."""
    d: DType = n.dtype
    name = "bool" if d is dt.bool_ else f"{d.name[0]}{8 * d.itemsize}"
    return f"{name} {'×'.join(map(str, n.shape))}".rstrip()


def _attrs(n: Node, most: int = 26) -> str:
    """What an op is given besides tensors, short."""
    if n.op is None:
        return ""
    numbers = [f"{i.attrs[0]:g}" if isinstance(i.attrs[0], float) else str(i.attrs[0])
               for i in n.inputs if i.op is CONST]  # fmt: skip
    names = n.op.attrs
    if n.op is not CONST and len(names) == len(n.attrs):
        numbers += [f"{k}={v}" for k, v in zip(names, n.attrs, strict=True)]
    else:
        numbers += [str(a) for a in n.attrs]
    out = " ".join(numbers).replace("pyframe.", "")
    return out if len(out) <= most else out[: most - 1] + "…"


def _size(n: Node) -> str:
    each = n.dtype.itemsize if n.device.kind == "cpu" else n.dtype.device_itemsize
    return si(math.prod(n.shape) * each, "B")


# --- recording a function


class _Recording(capturing.Capture):
    """A capture that is thrown away afterwards."""

    what = "graph.show"  # who asks for it

    def graph_break(self, why: str) -> None:
        raise RuntimeError(
            f"{self.what}: {capturing.user_line()} {why}, and nothing is computed here; "
            "give it a function that ends before it"
        )

    def undo(self) -> None:
        """Let everything be as if the function had not run."""
        for storage, before in self.written.values():
            storage.node = before
            storage.wrote()  # views that were cut meanwhile look again
        self.written.clear()
        for leaf, grad, _ in self.grads.values():
            capturing.GRAD.__set__(leaf, grad)
        capturing.run_eagerly(self)  # what outlives the function, if anything, gets its value


def programs(what: str, fn: Callable[..., Any], args: Any, kwargs: Any) -> Any:
    """The Programs that `fn(*args, **kwargs)` would become, each with its device; `what` is the
    function that asks. RuntimeError if `fn` reads a value on the way."""
    return _recorded(fn, args, kwargs, what).programs


def _recorded(fn: Callable[..., Any], args: Any, kwargs: Any, what: str = "") -> _Drawn:
    if isinstance(fn, compiling.CompiledFunction):
        fn = fn.fn
    flush()
    drawn, capture = _Drawn(), _Recording()
    capture.what = what or capture.what
    seen = [(k, x, x._node, x._storage.node) for k, x in _tensors(fn, args, kwargs)]
    with capture:
        mode.capture = capture
        try:
            _record(fn, args, kwargs, capture, drawn, seen)
        finally:
            mode.capture = None
            capture.undo()
    return drawn


def _record(
    fn: Callable[..., Any], args: Any, kwargs: Any, capture: _Recording, drawn: _Drawn, seen: Any
) -> None:
    """Run `fn` and plan what it leaves. Once this returns nothing holds it, else it is computed."""
    result = fn(*args, **kwargs)
    gc.collect()  # what only a cycle of dead objects holds would be drawn
    storages = capture.alive()
    mode.capture = None
    names: dict[int, str] = {}
    for k, x, *before in seen:
        for n in before:
            names.setdefault(id(n), k)
        if x.grad is not None:
            names.setdefault(id(x.grad._storage.node), f"{k}.grad")
    for k, x in _tensors(fn, args, kwargs):  # an optimizer's state may have been made since
        names.setdefault(id(capture.written.get(id(x._storage), (0, x._node))[1]), k)
    for s, n in capture.written.values():
        if id(n) in names:
            names[id(s.node)] = f"{names[id(n)]} (new)"
    for k, x in _named("result", result):
        names.setdefault(id(x._storage.node), k)
    copies = _copied([s.node for s in storages])
    drawn.names = {id(copies[i]): k for i, k in names.items() if i in copies}
    for d in {s.node.device: 0 for s in storages}:
        limits = d.backend.limits
        drawn.add([copies[id(s.node)] for s in storages if s.node.device is d], limits)


def _copied(roots: Sequence[Node]) -> dict[int, Node]:
    """A copy of each node, as the scheduler may put others between."""
    copies: dict[int, Node] = {}
    for n in toposort(roots):
        inputs = tuple(copies[id(i)] for i in n.inputs) if n.data is None else ()
        copies[id(n)] = Node(n.op, inputs, n.attrs, n.shape, n.dtype, n.device, n.data)
    return copies


def _tensors(fn: Any, args: Any, kwargs: Any) -> Iterator[tuple[str, Tensor]]:
    """The tensors that a function can see, with names for people; those nearest to it first."""
    fn = getattr(fn, "__wrapped__", fn)
    try:
        given = inspect.signature(getattr(fn, "forward", fn)).bind(*args, **kwargs).arguments
    except (TypeError, ValueError):
        given = {f"arg{i}": a for i, a in enumerate(args)}
    seen = list(given.items())
    if inspect.isfunction(fn):
        found = inspect.getclosurevars(fn)
        seen += [*found.nonlocals.items(), *found.globals.items()]
    else:
        seen.append(("", getattr(fn, "__self__", fn)))
    names: dict[int, str] = {}
    for k, value in seen:
        for name, x in _named(k, value):
            yield name, x
            names.setdefault(id(x), name)
    for k, value in seen:  # the state of optimizers, by the names of their parameters
        if hasattr(value, "param_groups"):
            for p, state in value.state.items():
                yield from _named(f"{names.get(id(p), k)}.{{}}", state)


def _named(name: str, value: Any) -> Iterator[tuple[str, Tensor]]:
    if isinstance(value, Tensor):
        yield name, value
    elif isinstance(value, dict):
        for k, v in value.items():
            yield from _named(name.format(k) if "{}" in name else f"{name}[{k!r}]", v)
    elif isinstance(value, (list, tuple)):
        for i, v in enumerate(value):
            yield from _named(f"{name}[{i}]", v)
    elif isinstance(value, type):
        return
    elif hasattr(value, "named_parameters"):
        dot = f"{name}." if name else ""
        for k, v in [*value.named_parameters(), *value.named_buffers()]:
            yield dot + k, v


# --- the drawing


class GraphDrawing:
    """A graph of ops, kernels and buffers, as `dot` and as `svg`; notebooks show the picture."""

    def __init__(self, drawn: _Drawn, format: str = "svg") -> None:
        self.dot = _dot(drawn)
        self.svg = _svg(drawn)
        self.format = format

    def _repr_svg_(self) -> str:
        return self.svg

    def __str__(self) -> str:
        return self.dot if self.format == "dot" else self.svg

    def save(self, path: Any) -> None:
        """Write the file: by its suffix .svg, .dot or .gv, else in the format asked for."""
        kind = {".svg": "svg", ".dot": "dot", ".gv": "dot"}.get(Path(path).suffix, self.format)
        with replacing(path) as file:
            file.write((self.dot if kind == "dot" else self.svg).encode())


def show(
    fn_or_tensor: Any, *args: Any, format: str = "svg", path: Any = None, **kwargs: Any
) -> GraphDrawing:
    """Draw the ops of `fn(*args, **kwargs)`, which is recorded and not computed, and the kernels
    that they are fused into; or those that a tensor on the GPU still waits for.

    `path` is where the drawing goes, as SVG or DOT. RuntimeError if the function reads a value on
    the way; ValueError for a tensor that has its value, and for an unknown format.
    """
    if format not in ("svg", "dot"):
        raise ValueError(f"graph.show: unknown format {format!r}; expected 'svg' or 'dot'")
    if isinstance(fn_or_tensor, Tensor):
        node = fn_or_tensor._value()
        if node.data is not None:
            raise ValueError(
                "graph.show: this tensor has its value and forgot where it came from; "
                "give show() the function that computes it"
            )
        drawn = _Drawn()
        root = _copied([node])[id(node)]
        drawn.names = {id(root): "result"}
        drawn.add([root], node.device.backend.limits)
    elif callable(fn_or_tensor):
        drawn = _recorded(fn_or_tensor, args, kwargs)
    else:
        raise TypeError(
            f"graph.show: expected a function or a Tensor, got {type(fn_or_tensor).__name__}"
        )
    drawing = GraphDrawing(drawn, format)
    if path is not None:
        drawing.save(path)
    return drawing


class _Buffers:
    """The buffers of a plan, as vertices: inputs once for each kernel that reads them, so that no
    line goes all the way through the picture."""

    def __init__(self, drawn: _Drawn) -> None:
        self.drawn = drawn
        self.found: dict[tuple[int, int], tuple[Node, str]] = {}
        self.edges: list[tuple[Any, Any]] = []  # (buffer, (kernel, op)) or the other way round
        self.numbers: dict[int, int] = {}
        results = {id(n) for n in drawn.roots}
        for k, kernel in enumerate(drawn.kernels):
            for n in kernel.ops:
                for i, here in kernel.reads(n):
                    if here:
                        continue
                    key = (id(i), k if i.data is not None else -1)
                    self.found.setdefault(key, (i, "input" if i.data is not None else "temp"))
                    self.edges.append((key, (k, id(n))))
            for n in kernel.stores:
                key = (id(n), -1)
                self.found[key] = n, "result" if id(n) in results else "temp"
                self.edges.append(((k, id(n)), key))

    def lines(self, key: tuple[int, int]) -> list[str]:
        """What is written on a buffer."""
        n, kind = self.found[key]
        name = self.drawn.names.get(id(n))
        if name is None and kind == "input":
            name = f"input {self.numbers.setdefault(id(n), len(self.numbers))}"
        return [*([name] if name else []), f"{_type(n)} · {_size(n)}"]


def _notes(kernel: _Kernel) -> list[str]:
    row = kernel.row
    grid = [f"{'×'.join(map(str, row.grid))} workgroups"] if row.grid else []
    return [*grid, f"{si(row.bytes, 'B')} moved", f"{si(row.flops)} FLOPs"]


def _dot(drawn: _Drawn) -> str:
    buffers = _Buffers(drawn)
    out = [
        "digraph pyframe {",
        '  node [shape=box, style="rounded,filled", fillcolor=white, fontname=Helvetica];',
        "  edge [fontname=Helvetica, fontsize=9, color=gray40];",
    ]
    names: dict[Any, str] = {}
    for k, kernel in enumerate(drawn.kernels):
        label = "\\n".join([_quoted(f"{k}: {kernel.row.kernel}"), *_notes(kernel)])
        fill, line = COLORS[kernel.kind]
        out.append(f"  subgraph cluster_{k} {{")
        out.append(f'    label="{label}"; style="rounded,filled"; fontname=Helvetica;')
        out.append(f'    fillcolor="{fill}"; color="{line}";')
        for j, n in enumerate(kernel.ops):
            names[k, id(n)] = f"op{k}_{j}"
            label = "\\n".join(_quoted(x) for x in (_name(n), _attrs(n)) if x)
            out.append(f'    op{k}_{j} [label="{label}"];')
        for n in kernel.ops:
            for i, here in kernel.reads(n):
                if here:
                    edge = f"{names[k, id(i)]} -> {names[k, id(n)]}"
                    out.append(f'    {edge} [label="{_type(i)}"];')
        out.append("  }")
    for j, (key, (_, kind)) in enumerate(buffers.found.items()):
        names[key] = f"buffer{j}"
        label = "\\n".join(map(_quoted, buffers.lines(key)))
        fill = {"input": "gray90", "result": "gray75", "temp": "white"}[kind]
        out.append(f'  buffer{j} [label="{label}", shape=cylinder, fillcolor={fill}];')
    for a, b in buffers.edges:
        n = buffers.found[a if a in buffers.found else b][0]
        out.append(f'  {names[a]} -> {names[b]} [label="{_type(n)}"];')
    return "\n".join([*out, "}"]) + "\n"


def _quoted(s: str) -> str:
    return s.replace("\\", "\\\\").replace('"', '\\"')


COLORS = {EXTERN: ("#fff3e0", "#e09b3d"), REDUCTION: ("#e8f5ea", "#58a066"),
          "map": ("#e8f1fc", "#5b8ecf")}  # fmt: skip


def _svg(drawn: _Drawn) -> str:
    buffers = _Buffers(drawn)
    boxes: dict[Any, Any] = {k: _group(drawn, k, buffers) for k in range(len(drawn.kernels))}
    for key, (_, kind) in buffers.found.items():
        text = buffers.lines(key)
        size = max(map(wide, text)) + 2 * PAD, LINE * len(text) + 10.0
        mark = "w" if kind == "result" else ""
        boxes[key] = Box(text, kind, size, min(size[1] / 2, 12), mark)
    read = dict.fromkeys((a, b[0]) for a, b in buffers.edges if a in buffers.found)
    links = [Link(key, k, key) for key, k in read]
    links += [Link(a[0], b, b) for a, b in buffers.edges if b in buffers.found]
    whole = BoxLayers(boxes, links, gap=(26, 34), framed=False)
    return page(whole.width, whole.height, whole.svg(0, 0, (0, whole.height)))


def _group(drawn: _Drawn, number: int, buffers: _Buffers) -> BoxGroup:
    """A kernel's part of the picture: on the left what it is, on the right its ops."""
    kernel = drawn.kernels[number]
    boxes = {}
    for n in kernel.ops:
        size = max(wide(_name(n), 13), wide(_attrs(n), 10), 34) + PAD
        text = [_name(n), *([_attrs(n)] if _attrs(n) else [])]
        boxes[id(n)] = Box(text, "o", (size, LINE * len(text) + 8.0))
    read = dict.fromkeys((a, b[1]) for a, b in buffers.edges
                         if a in buffers.found and b[0] == number)  # fmt: skip
    links = [Link(None, n, a) for a, n in read]
    for n in kernel.ops:
        for i, here in kernel.reads(n):
            if here:
                links.append(Link(id(i), id(n), id(i), _type(i)))
    links += [Link(a[1], None, b) for a, b in buffers.edges
              if b in buffers.found and a[0] == number]  # fmt: skip
    title = [f"{number} · {kernel.row.kernel}", *_notes(kernel)]
    return BoxGroup(BoxLayers(boxes, links, gap=(16, 32)), title, COLORS[kernel.kind], beside=True)
