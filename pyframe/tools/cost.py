"""What a Program costs: bytes moved and arithmetic done, counted from its data alone."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

from pyframe.core.dtypes import dtype as DType
from pyframe.core.limits import WEBGPU_LIMITS, Limits
from pyframe.core.op import ELEMENTWISE, REDUCTION, REGISTRY, Op
from pyframe.core.view import IndexMap, View
from pyframe.core.words import columns, plural
from pyframe.graph.program import (
    INPUT,
    OUTPUT,
    Apply,
    ExternResult,
    InBounds,
    Kernel,
    Load,
    Program,
    Reduce,
    RowSum,
)

Shape = tuple[int, ...]


class KernelCost(NamedTuple):
    """A step of a Program: its kernel's name, workgroups (None on the CPU), bytes and FLOPs."""

    kernel: str
    grid: tuple[int, int, int] | None
    bytes: int
    flops: int


class Table(list[KernelCost]):
    """The steps of a Program, in order; str() is for people."""

    def __init__(self, rows: Iterator[KernelCost], least_bytes: int) -> None:
        super().__init__(rows)
        self.least_bytes = least_bytes

    @property
    def bytes_moved(self) -> int:
        return sum(r.bytes for r in self)

    @property
    def flops(self) -> int:
        return sum(r.flops for r in self)

    def __str__(self) -> str:
        lines = [("kernel", "grid", "bytes", "FLOPs")]
        for r in self:
            grid = "x".join(map(str, r.grid)) if r.grid else "-"
            lines.append((r.kernel, grid, si(r.bytes, "B"), si(r.flops)))
        count = f"{len(self)} {plural(len(self), 'kernel')}"
        lines.append((count, "", si(self.bytes_moved, "B"), si(self.flops)))
        lines.append(("each input and output once", "", si(self.least_bytes, "B"), ""))
        return columns(lines, rules=(1, len(self) + 1))


def si(n: float, unit: str = "") -> str:
    """12345 as '12.3 k', with a unit."""
    prefix = ""
    for prefix in ("", "k", "M", "G", "T", "P"):
        if abs(n) < 999.5 or prefix == "P":
            break
        n /= 1000
    number = f"{n:.0f}" if n == int(n) else f"{n:#.3g}".rstrip(".")
    return f"{number} {prefix}{unit}".rstrip()


def op_flops(op: Op, operands: Sequence[Shape], out: Shape) -> int:
    """The FLOPs of one op by itself: what it says, else one for each element of the result of an
    elementwise op and of the operand of a reduction; of other ops none count."""
    if op.flops is not None:
        return op.flops(operands, out)
    if op.kind == ELEMENTWISE:
        return math.prod(out)
    return math.prod(operands[0]) if op.kind == REDUCTION else 0


def kernel_flops(kernel: Kernel) -> int:
    """An elementwise instruction counts once at each index that its value varies over, a reduction
    once for each element."""
    total = _code_flops(kernel.code, kernel.space)
    routine = kernel.routine
    if routine is not None:
        total += sum(_code_flops(e.code, e.shape) for e in routine.operands)
        shapes = [e.shape for e in routine.operands]
        total += op_flops(REGISTRY[routine.name], shapes, kernel.space)
        total += sum(math.prod(shapes[0]) for i in kernel.code if isinstance(i, RowSum))
    return total


def _code_flops(code: Sequence[Any], space: Shape) -> int:
    total = 0
    varies: list[set[int]] = []  # the axes that each value varies over
    for i in code:
        axes: set[int] = set()
        if isinstance(i, (Load, InBounds)):
            axes = _axes(i.index_map[-1])
        elif isinstance(i, ExternResult):
            axes = set(range(len(space)))
        elif isinstance(i, Apply):
            axes = set().union(*[varies[a] for a in i.args])
            if i.index is not None:
                axes |= _axes(i.index[-1])
            shape = tuple(space[d] for d in sorted(axes))
            total += op_flops(REGISTRY[i.op], [shape] * len(i.args), shape)
        elif isinstance(i, Reduce):
            axes = varies[i.arg] | set(i.axes)
            total += math.prod(space[d] for d in axes)
            axes = axes - set(i.axes)
        varies.append(axes)
    return total


def _axes(v: View) -> set[int]:
    return {
        d
        for d, n in enumerate(v.shape)
        if v.strides[d] or (v.mask is not None and v.mask[d] != (0, n))
    }


def distinct(index_map: IndexMap) -> int:
    """How many elements of its buffer an index map reads: never fewer than it does, and exactly
    where it is one view whose elements do not overlap."""
    return min(map(_distinct, index_map))


def _distinct(v: View) -> int:
    sizes = [max(hi - lo, 0) for lo, hi in v.mask] if v.mask else list(v.shape)
    if 0 in sizes:
        return 0
    moving = [(n, abs(s)) for n, s in zip(sizes, v.strides, strict=True) if s]
    return min(math.prod(n for n, _ in moving), 1 + sum((n - 1) * s for n, s in moving))


def traffic(program: Program) -> Iterator[tuple[dict[int, int], dict[int, int]]]:
    """For each step the bytes read and the bytes written, by slot."""
    for step in program.steps:
        kernel = program.kernels[step.kernel]
        loads: dict[tuple[int, IndexMap], int] = {}
        for i in kernel.code:
            if isinstance(i, Load):
                loads[i.binding, i.index_map] = distinct(i.index_map) * _size(program, i.dtype)
        routine = kernel.routine
        taken = None  # how many elements of each operand a routine reads, where it says so
        if routine is not None and (reads := REGISTRY[routine.name].reads) is not None:
            taken = reads([e.shape for e in routine.operands], kernel.space)
        for at, e in enumerate(routine.operands if routine else ()):
            for i in e.code:
                if isinstance(i, Load):
                    n = distinct(i.index_map)
                    if taken is not None:
                        n = min(n, taken[at])
                    loads[i.binding, i.index_map] = n * _size(program, i.dtype)
        read: dict[int, int] = {}
        written: dict[int, int] = {}
        for (binding, _), n in loads.items():
            _add(program, read, step.slots[binding], n)
        for s in kernel.stores:
            n = distinct(s.index_map) * _size(program, s.dtype)
            if routine is not None and REGISTRY[routine.name].write_slice is not None:
                n = math.prod(routine.operands[-1].shape) * _size(program, s.dtype)
            _add(program, written, step.slots[s.binding], n)
        yield read, written


def _add(program: Program, to: dict[int, int], slot: int, n: int) -> None:
    to[slot] = min(to.get(slot, 0) + n, program.slots[slot].nbytes)


def _size(program: Program, d: DType) -> int:
    return d.itemsize if program.host else d.device_itemsize


def least_bytes(program: Program) -> int:
    """What any way of running it must move: each input that is read, and each result, once."""
    read: dict[int, int] = {}
    written: dict[int, int] = {}
    for loads, stores in traffic(program):
        for s, n in loads.items():
            if program.slots[s].kind == INPUT and s not in written:
                _add(program, read, s, n)
        for s, n in stores.items():
            if program.slots[s].kind in (INPUT, OUTPUT):
                _add(program, written, s, n)
    return _apart(program, read) + _apart(program, written)


def _apart(program: Program, moved: dict[int, int]) -> int:
    """The bytes of these slots, where several lie over each other counted once."""
    total, ends = 0, dict.fromkeys(range(len(program.regions)), 0)
    for s, n in sorted(moved.items(), key=lambda item: program.slots[item[0]].offset):
        slot = program.slots[s]
        if slot.region < 0:
            total += n
        else:
            end = slot.offset + n
            total += max(end - max(ends[slot.region], slot.offset), 0)
            ends[slot.region] = max(ends[slot.region], end)
    return total


class Totals(NamedTuple):
    """What Programs cost together on a GPU; of buffers the most that one of them holds."""

    dispatches: int
    workgroups: int
    bytes_moved: int
    flops: int
    peak_bytes: int
    texts: int  # different ones
    letters: int  # of these texts

    def __str__(self) -> str:
        return (
            f"{self.dispatches} dispatches of {si(self.workgroups)} workgroups, "
            f"{si(self.bytes_moved, 'B')} moved, {si(self.flops)} FLOPs, "
            f"{si(self.peak_bytes, 'B')} at once, {self.texts} texts of {si(self.letters)} letters"
        )


def totals(programs: Sequence[Program], limits: Limits = WEBGPU_LIMITS) -> Totals:
    """The sums over Programs for GPUs of these limits."""
    from pyframe.codegen.wgsl.printer import generate

    steps = [p.kernels[s.kernel] for p in programs for s in p.steps]
    moved = [sum(loads.values()) + sum(stores.values())
             for p in programs for loads, stores in traffic(p)]  # fmt: skip
    made = [p.texts.get("wgsl") or [generate(k, limits) for k in p.kernels] for p in programs]
    texts = {s.code for some in made for s in some}
    grids = [some[s.kernel].grid for p, some in zip(programs, made, strict=True) for s in p.steps]
    return Totals(
        len(steps), sum(map(math.prod, grids)), sum(moved),
        sum(map(kernel_flops, steps)), max((p.peak_bytes for p in programs), default=0),
        len(texts), sum(map(len, texts)),
    )  # fmt: skip


def table(program: Program) -> Table:
    """Rows of (kernel, grid, bytes, FLOPs), one for each step; str() is for people."""
    from pyframe.codegen.wgsl.printer import generate, label

    def rows() -> Iterator[KernelCost]:
        for step, (read, written) in zip(program.steps, traffic(program), strict=True):
            kernel = program.kernels[step.kernel]
            grid = None if program.host else generate(kernel).grid
            moved = sum(read.values()) + sum(written.values())
            yield KernelCost(label(kernel), grid, moved, kernel_flops(kernel))

    return Table(rows(), least_bytes(program))
