"""From recorded nodes to a Program: kernels in their order, in planned buffers.

`fuse` says which values share a kernel. What only its own kernel reads is never written to memory;
a value may be written over the one that it replaces, and temporaries take turns in buffers.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from pyframe.core import view as views
from pyframe.core.dtypes import dtype as DType
from pyframe.core.limits import Limits
from pyframe.core.node import Node, toposort
from pyframe.core.op import CONST, REDUCTION, REGISTRY
from pyframe.graph.fuse import (
    Group,
    Grouping,
    Values,
    index_map_of,
    same_places,
    structure as structure,
)
from pyframe.graph.program import (
    INPUT,
    OUTPUT,
    TEMP,
    Apply,
    Kernel,
    Load,
    Param,
    Program,
    Reduce,
    Routine,
    Slot,
    Step,
    Store,
    Valid,
)  # fmt: skip

PARAM_ALIGN = 256  # the offset alignment that every WebGPU device allows, of uniforms and slices
SPLIT = 1 << 15  # elements a result: a longer reduction to few results is done in two kernels


# --- from groups to kernels


class _Work:
    """A kernel with what it runs on: a node for each binding, and its scalars."""

    def __init__(
        self, g: Group, kept: Iterable[int], in_place: Mapping[int, Node], changing: set[int]
    ) -> None:
        """`kept` are the members that are written, `in_place` the inputs that some replace,
        `changing` the constants whose value is asked for again in every run."""
        self.changing = changing
        replaced = {id(r): donor for donor, r in in_place.items()}
        self.group = g
        self.scalars = list(g.scalars.values())
        self.nodes = list(g.buffers.values())  # of each binding, what lies there
        stores = []
        for n in g.members:
            if id(n) in kept:
                at = len(self.nodes)
                if replaced.get(id(n)) in g.buffers:
                    at = list(g.buffers).index(replaced[id(n)])
                else:
                    self.nodes.append(n)
                value, index_map = g.values[id(n)]
                stores.append(Store(at, value, index_map, n.dtype))
        routine = None
        space, code = g.space, tuple(g.code)
        if g.routine is not None:
            op = g.routine.op
            assert op is not None
            routine = Routine(op.name, g.routine.attrs, g.operands, g.routine.dtype)
        else:
            kinds = [1 if d in g.axes else 2 if d in g.rest else 0 for d in range(len(space))]
            space, code, stores = _collapsed(g, space, code, stores, kinds)
        self.kernel = Kernel(
            space, code, tuple(stores), len(self.nodes), len(self.scalars), routine
        )


def _collapsed(
    g: Group, space: tuple[int, ...], code: tuple[Any, ...], stores: list[Store], kinds: list[int]
) -> tuple[tuple[int, ...], tuple[Any, ...], list[Store]]:
    """The same over as few axes as the index maps allow, so that indices are cheap."""
    moved = [i for i in code if index_map_of(i) is not None]
    index_maps = [index_map_of(i) for i in moved] + [s.index_map for s in stores]
    new, space, kinds = views.collapse(index_maps, space, kinds)
    it = iter(new)
    out: list[Any] = []
    for i in code:
        if isinstance(i, (Load, Valid)):
            out.append(i._replace(index_map=next(it)))
        elif isinstance(i, Apply) and i.index is not None:
            out.append(i._replace(index=next(it)))
        elif isinstance(i, Reduce):
            level = 1 if i.axes == g.axes else 2
            axes = tuple(d for d, kind in enumerate(kinds) if kind == level) if i.axes else ()
            out.append(i._replace(axes=axes))
        else:
            out.append(i)
    return space, tuple(out), [s._replace(index_map=next(it)) for s in stores]


def _writes_in_place(grouping: Grouping, donor: int, n: Node) -> bool:
    """Whether `n` may be written over input `donor`: nothing reads the old value afterwards, and
    each element is read, if at all, only by what writes it. Makes the readers run first."""
    home = grouping.home[id(n)]
    for i in home.code:
        reads_it = isinstance(i, Load) and list(home.buffers)[i.binding] == donor
        if reads_it and not same_places(i.index_map, home.values[id(n)][1]):
            return False
    if donor in home.buffers and (home.axes or home.routine is not None):
        return False
    return all(
        grouping.after(g, home)
        for g in grouping.groups
        if g is not None and g is not home and donor in g.buffers
    )


# --- many small tensors as one


class _Pack(NamedTuple):
    """Maps that do the same to tensors of different sizes, done as one map over tensors that lie
    one after the other."""

    works: list[_Work]
    rows: list[tuple[int, ...]]  # for each binding with a tensor a work: the ids of those
    offsets: list[int]
    nbytes: int


def _signature(w: _Work) -> Any:
    """Equal for kernels that do the same to each element of buffers of some size; else None."""
    k = w.kernel
    if k.routine or len(k.space) != 1 or not k.space[0]:
        return None
    out: list[Any] = []
    for i in k.code:
        if isinstance(i, Load):
            full = views.is_contiguous(i.index_map)
            if not full and math.prod(w.nodes[i.binding].shape) != 1:
                return None
            out.append((i.binding, i.dtype, full or id(w.nodes[i.binding])))
        elif isinstance(i, Param):
            n = w.scalars[i.word]
            out.append((n.attrs if id(n) not in w.changing else id(n), i.dtype))
        elif isinstance(i, Apply) and i.index is None:
            out.append(i)
        else:
            return None
    if any(s.dtype.itemsize != 4 or not views.is_contiguous(s.index_map) for s in k.stores):
        return None
    return tuple(out), tuple(s[:2] for s in k.stores), k.bindings


def _full(w: _Work) -> list[int]:
    """The bindings that `w` goes through element by element; others hold a single value."""
    loads = {i.binding for i in w.kernel.code if isinstance(i, Load) and i.index_map[0].strides[0]}
    return sorted(loads | w.kernel.written)


def _packs(
    works: list[_Work], grouping: Grouping, movable: set[int], replaces: dict[int, int]
) -> list[_Pack]:
    """What can be packed: buffers that may lie anywhere, each in one place of one region.

    `replaces` gives the input that a node is written over: both are one buffer."""
    found: dict[Any, list[_Work]] = {}
    for w in works:
        key = _signature(w)
        if key is not None:
            found.setdefault(key, []).append(w)
    out = []
    place: dict[int, tuple[int, ...]] = {}  # of each buffer: the row of buffers it lies in
    for same in found.values():
        bits = sum(1 << w.group.number for w in same)
        columns = [[w.nodes[b] for w in same] for b in _full(same[0])]
        rows = [tuple(replaces.get(id(n), id(n)) for n in nodes) for nodes in columns]
        packable = all(
            n.dtype.itemsize == 4 and (n.data is None or id(n) in movable)
            for nodes in columns
            for n in nodes
        )
        if (
            len(same) < 2
            or any(w.group.before & bits for w in same)
            or len({i for row in rows for i in row}) < sum(map(len, rows))
            or any(place.get(i, row) != row for row in rows for i in row)
            or not packable
            or any(_mixes(w, row, replaces) for row in rows for w in works if w not in same)
        ):
            continue
        place.update((i, row) for row in rows for i in row)
        offsets, at = [], 0
        for w in same:
            offsets.append(at)
            at += -(-4 * w.kernel.space[0] // PARAM_ALIGN) * PARAM_ALIGN
        out.append(_Pack(same, rows, offsets, at))
        grouping.join([w.group for w in same])
    return out


def _mixes(w: _Work, row: tuple[int, ...], replaces: dict[int, int]) -> bool:
    """Whether `w` writes some of the buffers and only reads others: not allowed in one buffer."""
    touched = {b for b, n in enumerate(w.nodes) if replaces.get(id(n), id(n)) in row}
    written = touched & w.kernel.written
    return bool(written) and written != touched


def _resized(kernel: Kernel, size: int) -> Kernel:
    """The same map over `size` elements."""

    def wider(t: views.IndexMap) -> views.IndexMap:
        return (views.View((size,), t[0].strides, t[0].offset),)

    code = tuple(i._replace(index_map=wider(i.index_map)) if isinstance(i, Load) else i
                 for i in kernel.code)  # fmt: skip
    stores = tuple(s._replace(index_map=wider(s.index_map)) for s in kernel.stores)
    return Kernel((size,), code, stores, kernel.bindings, kernel.params)


# --- the whole


def schedule(
    order: Sequence[Node],
    roots: Sequence[Node],
    limits: Limits,
    in_place: Mapping[int, Node] | None = None,
    movable: Iterable[int] | None = None,
    changing: Iterable[int] = (),
) -> tuple[Program, list[Node], list[Node]]:
    """(Program, the nodes of its inputs, the constants that fill its params, in order).

    `in_place` says which root may be written over which input (by id), `movable` which inputs may
    be asked for in a region beside others; with it, equal maps over many tensors become one.
    `changing` are the constants that have other values in other runs.
    """
    inputs = [n for n in order if n.data is not None and n.op is not CONST]
    outputs = [n for n in roots if n.data is None or n.op is CONST]
    if not limits.host:
        order = _split_reductions(order, roots)
    grouping = Grouping(Values(order, roots, limits), roots, limits, in_place or {})
    kept = {id(n) for n in outputs}.union(*[g.buffers for g in grouping.groups if g is not None])
    given = {id(n) for n in inputs}
    written = {
        donor: n
        for donor, n in (in_place or {}).items()
        if donor in given and _writes_in_place(grouping, donor, n)
    }
    works = {
        g.number: _Work(g, kept, written, set(changing)) for g in grouping.groups if g is not None
    }
    replaces = {id(n): donor for donor, n in written.items()}
    packs = []
    if movable is not None:
        packs = _packs(list(works.values()), grouping, set(movable), replaces)
    packed = {pack.works[0].group.number: pack for pack in packs}
    planner = _Planner(inputs, outputs, replaces, limits.host)
    for pack in packs:
        planner.pack(pack)
    for g in grouping.ordered():
        planner.step(works[g.number], packed.get(g.number))
    return planner.program(), inputs, planner.constants


class _Planner:
    """Gives every value its slot, and every step its place."""

    def __init__(
        self, inputs: list[Node], outputs: list[Node], replaces: dict[int, int], host: bool
    ) -> None:
        self.host = host
        self.slots: list[Slot] = []
        self.slot_of: dict[int, int] = {}
        self.regions: list[int] = []
        self.kernels: dict[Kernel, int] = {}
        self.steps: list[Step] = []
        self.params: list[tuple[int, DType]] = []
        self.constants: list[Node] = []
        self.param_bytes = 0
        self.rows: dict[tuple[int, ...], int] = {}  # of tensors in one region: its slot
        self.whole: dict[tuple[int, int], int] = {}  # the same, by a pack's first work and binding
        for n in inputs:
            self.new(n, INPUT)
        for n in outputs:
            if id(n) in replaces:
                self.slot_of[id(n)] = self.slot_of[replaces[id(n)]]
            else:
                self.new(n, OUTPUT)
        self.outputs = [self.slot_of[id(n)] for n in outputs]

    def new(self, n: Node, kind: str) -> int:
        self.slot_of[id(n)] = len(self.slots)
        self.slots.append(Slot(_nbytes(n, self.host), kind))
        return len(self.slots) - 1

    def slot(self, n: Node) -> int:
        found = self.slot_of.get(id(n))
        return self.new(n, TEMP) if found is None else found

    def pack(self, pack: _Pack) -> None:
        """Lay the buffers of `pack` beside each other, those of each binding in one region."""
        first = pack.works[0]
        for b, row in zip(_full(first), pack.rows, strict=True):
            if row not in self.rows:
                kinds = set()
                for w, offset in zip(pack.works, pack.offsets, strict=True):
                    at = self.slot(w.nodes[b])
                    kinds.add(self.slots[at].kind)
                    self.slots[at] = self.slots[at]._replace(
                        region=len(self.regions), offset=offset
                    )
                kind = INPUT if INPUT in kinds else OUTPUT if OUTPUT in kinds else TEMP
                self.rows[row] = len(self.slots)
                self.slots.append(Slot(pack.nbytes, kind, len(self.regions)))
                self.regions.append(pack.nbytes)
            self.whole[id(first), b] = self.rows[row]

    def step(self, w: _Work, pack: _Pack | None) -> None:
        kernel = w.kernel
        slots = [self.slot(n) for n in w.nodes]
        if pack is not None:
            kernel = _resized(kernel, pack.nbytes // 4)
            slots = [self.whole.get((id(w), b), s) for b, s in enumerate(slots)]
        offset = -1
        if w.scalars:
            offset = self.param_bytes
            self.params.extend((offset + 4 * i, s.dtype) for i, s in enumerate(w.scalars))
            self.constants.extend(w.scalars)
            self.param_bytes += -(-4 * len(w.scalars) // PARAM_ALIGN) * PARAM_ALIGN
        number = self.kernels.setdefault(kernel, len(self.kernels))
        self.steps.append(Step(number, tuple(slots), offset))

    def program(self) -> Program:
        renumbered = self.shared()
        order = sorted(range(len(self.slots)), key=lambda s: _KINDS.index(self.slots[s].kind))
        order = [s for s in order if renumbered[s] == s]
        place = {s: i for i, s in enumerate(order)}
        steps = [s._replace(slots=tuple(place[renumbered[b]] for b in s.slots)) for s in self.steps]
        return Program(
            list(self.kernels), steps, [self.slots[s] for s in order], self.regions,
            [place[s] for s in self.outputs], self.params, self.param_bytes, host=self.host,
        )  # fmt: skip

    def shared(self) -> list[int]:
        """For each slot the one whose buffer it takes: temporaries that are not alive at the same
        time share one, the largest first."""
        spans: dict[int, tuple[int, int]] = {}
        for at, step in enumerate(self.steps):
            for s in step.slots:
                spans[s] = (spans.get(s, (at, at))[0], at)
        out = list(range(len(self.slots)))
        owners: list[tuple[int, list[tuple[int, int]]]] = []
        temps = [s for s in spans if self.slots[s].kind == TEMP and self.slots[s].region < 0]
        for s in sorted(temps, key=lambda s: -self.slots[s].nbytes):
            a, b = spans[s]
            for owner, taken in owners:
                if all(b < c or d < a for c, d in taken):
                    taken.append((a, b))
                    out[s] = owner
                    break
            else:
                owners.append((s, [(a, b)]))
        return out


_KINDS = (INPUT, OUTPUT, TEMP)


def _nbytes(n: Node, host: bool) -> int:
    size = n.dtype.numpy.itemsize if host else n.dtype.device_itemsize
    return max(-(-math.prod(n.shape) * size // 4) * 4, size, 4)


def _split_reductions(order: Sequence[Node], roots: Sequence[Node]) -> Sequence[Node]:
    """A long reduction to few results, as one to some more results and one of those: else a few
    workgroups would do all of the work."""
    reshape = REGISTRY["reshape"]
    changed = False
    for n in order:
        if n.data is not None or n.op is None or n.op.kind != REDUCTION:
            continue
        if n.op.combine is None or n.op.combine.arg:  # the parts know no index in the whole
            continue
        x, (axes, _) = n.inputs[0], n.attrs
        results = math.prod(n.shape)
        if not results or results > 64 or math.prod(x.shape) // results < SPLIT:
            continue
        most = min(math.prod(x.shape) // results // 2048, 256)
        parts, a = max((_divisor(x.shape[d], most), -d) for d in axes)
        a = -a
        if parts < 2:
            continue
        shape = (*x.shape[:a], parts, x.shape[a] // parts, *x.shape[a + 1 :])
        inner = tuple(d + (d >= a) for d in axes)
        kept = tuple(1 if d in inner else m for d, m in enumerate(shape))
        cut = Node(reshape, (x,), (shape,), shape, x.dtype, x.device)
        part = Node(n.op, (cut,), (inner, True), kept, n.dtype, n.device)
        shape = (*kept[: a + 1], *kept[a + 2 :])
        n.inputs = (Node(reshape, (part,), (shape,), shape, n.dtype, n.device),)
        changed = True
    return toposort(roots) if changed else order


def _divisor(n: int, most: int) -> int:
    """The largest divisor of n that is at most `most`."""
    return max(d for d in range(1, max(min(n, most), 1) + 1) if n % d == 0)
