"""The scheduler: from recorded nodes to a Program, its kernels in order, its buffers planned.

`fuse` says which values share a kernel. A value that only its own kernel reads never gets a buffer;
a result may take the buffer of a donor, and temporaries with disjoint lifetimes share one.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from pyframe.core import sizes, view as views
from pyframe.core.dtypes import dtype as DType
from pyframe.core.limits import Limits
from pyframe.core.node import Node, toposort
from pyframe.core.op import CONST, EXTERN, REDUCTION, REGISTRY
from pyframe.core.sizes import is_symbolic, is_symbolic_size, size_hint, sym_max
from pyframe.graph import program as _program
from pyframe.graph.fuse import (
    ONE_WORKGROUP_ELEMENTS,
    REMATERIALIZE_MIN_ELEMENTS,
    FusionGroup,
    FusionPlanner,
    IndexedGraph,
    KernelGroup,
    graph_key as graph_key,
    resolve_view,
    row_sums,
    same_positions,
)
from pyframe.graph.lower import lower
from pyframe.graph.program import (
    INPUT,
    OUTPUT,
    TEMP,
    ExternKernel,
    Kernel,
    Load,
    Program,
    Reduce,
    Store,
)

PARAM_ALIGN = 256  # the offset alignment that every WebGPU device allows, of uniforms and slices
# Rows of which columns are summed: so many are split among more workgroups
TALL_COLUMN_ROWS = 1 << 12
COLUMNS, COLUMN_GROUPS = 16, 256  # that a workgroup has then, and how many workgroups there are
PRODUCTS = "product", "packed"  # kernels
FEW_PRODUCT_ROWS = 8  # rows of a product: one of more has work enough for a GPU
# Elements a result: a longer reduction to few results is done in two kernels
SPLIT_REDUCTION_MIN = 1 << 15


# --- from groups to kernels


class _KernelInstance:
    """A kernel with what it runs on: a node for each binding, and its scalars."""

    def __init__(self, g: KernelGroup, kept: set[int], donors: Mapping[int, int]) -> None:
        """`kept` are the nodes that are written, `donors` gives the input that a node is written
        over."""
        fusion = g.fusion
        self.group = g
        self.scalars = fusion.scalars
        self.nodes = list(fusion.buffers)  # of each binding, what lies there
        stored: list[tuple[int, int]] = []  # members, and their bindings
        for k in fusion.members:
            if k in kept:
                binding = fusion.binding(donors.get(k, -1))
                if binding < 0:
                    binding = len(self.nodes)
                    self.nodes.append(k)
                stored.append((k, binding))
        key, known = tuple([(fusion.own[k], b) for k, b in stored]), fusion.form.kernels
        if key not in known:
            known[key] = _kernel(fusion, stored, len(self.nodes))
        self.kernel: Kernel = known[key]

    @property
    def mapped(self) -> list[int]:
        """The bindings that it goes through element by element; others hold a single value."""
        loads = {
            i.binding for i in self.kernel.code if isinstance(i, Load) and i.index_map[0].strides[0]
        }
        return sorted(loads | self.kernel.written)


def _kernel(fusion: FusionGroup, stored: Sequence[tuple[int, int]], bindings: int) -> Kernel:
    """The kernel that stores these members at these bindings."""
    form, nodes = fusion.form, fusion.order.nodes
    stores = [Store(b, *fusion.value_of(k), nodes[k].dtype) for k, b in stored]
    n, code, space = form.routine, form.code, form.space
    if n is None:
        code, space, stores = _program.collapsed(code, space, stores)
    routine = None
    if n is not None and n.op is not None:
        routine = ExternKernel(n.op.name, n.attrs, form.operands, n.dtype)
    return Kernel(space, tuple(code), tuple(stores), bindings, len(form.words), routine)


def _can_donate(grouping: FusionPlanner, donor: int, k: int) -> bool:
    """Whether node `k` may be written over input `donor`: nothing reads the old value afterwards,
    and each element is read, if at all, only by what writes it. Makes the readers run first."""
    home = grouping.home[k]
    fusion = home.fusion
    if fusion.binding(donor) >= 0 and (
        fusion.form.axes
        or not _read_where(fusion, donor, fusion.value_of(k)[1])
        or (fusion.form.routine is not None and not _read_after(fusion, donor))
    ):
        return False
    return all(grouping.after(g, home) for g in grouping.readers_of(donor) if g is not home)


def _written_in_part(
    in_place: Mapping[int, Node], without: set[int], roots: Sequence[Node]
) -> dict[int, list[Node]]:
    """By the id of an input what is written to parts of it, one after the other (see `Op.over`);
    of those in `without` nothing is."""
    out: dict[int, list[Node]] = {}
    results = set(map(id, roots))
    for donor, n in in_place.items():
        chain: list[Node] = []
        while n.data is None and n.op is not None and n.op.over is not None:
            chain.insert(0, n)
            n, at = resolve_view(n.inputs[0])
            whole = views.is_contiguous(at) and math.prod(at[0].shape) == math.prod(n.shape)
            if id(n) == donor and whole and donor not in without:
                out[donor] = chain
            if not whole or id(n) in results:
                break
    return out


def _can_chain_inplace(grouping: FusionPlanner, donor: int, chain: list[int]) -> bool:
    """Whether each of the nodes may be written over the one before: nothing reads that later, nor
    in the same kernel. Makes the readers run first."""
    for old, k in itertools.pairwise([donor, *chain]):
        home = grouping.home[k]
        first = [*grouping.readers_of(old), *([grouping.home[old]] if old != donor else [])]
        if home.fusion.binding(old) >= 0 or not all(grouping.after(g, home) for g in first):
            return False
    return True


def _reuse_dying_temporaries(
    order: IndexedGraph, ordered: Sequence[Sequence[KernelGroup]], kept: set[int], fixed: set[int]
) -> dict[int, int]:
    """For values that kernels write the temporary that each may be written over: of its size, read
    there for the last time, and each element only by the thread that writes it. `ordered` are the
    groups, those that are done as one together; `fixed` the nodes that are no such temporaries."""
    last = {b: at for at, some in enumerate(ordered) for g in some for b in g.fusion.buffers}
    free = {b for b in last if b not in fixed}
    out: dict[int, int] = {}
    for at, (g, *more) in enumerate(ordered):
        fusion = g.fusion
        if more or fusion.form.routine is not None or fusion.form.rest:
            continue
        walks = _walks(fusion.form.code)
        for k in fusion.members:
            value, where = fusion.value_of(k)
            n = order.nodes[k]
            if k not in kept or k in fixed or walks[value] < max(walks):
                continue
            for b in fusion.buffers:
                x = order.nodes[b]
                same = sizes.same((math.prod(x.shape), fusion.form.size), (math.prod(n.shape),) * 2)
                dies = b in free and last[b] == at
                if dies and same and x.dtype is n.dtype and _read_where(fusion, b, where):
                    out[k] = b
                    free.remove(b)
                    break
    return out


def _walks(code: Sequence[Any]) -> list[int]:
    """In which walk over what is reduced each instruction is computed, a reduction in its own."""
    out: list[int] = []
    for i in code:
        made = [out[a] + isinstance(code[a], Reduce) for a in _program.operands(i)]
        out.append(max(made, default=0))
    return out


def _read_where(fusion: FusionGroup, node: int, where: views.IndexMap) -> bool:
    """Whether a kernel reads `node` only at the position at which it has what lies there."""
    binding = fusion.binding(node)
    return all(
        same_positions(i.index_map, where)
        for i in fusion.form.code
        if isinstance(i, Load) and i.binding == binding
    )


def _read_after(fusion: FusionGroup, node: int) -> bool:
    """Whether a kernel has computed a result of its routine before it reads `node` for it: in what
    follows a product, and not as an operand."""
    assert fusion.form.routine is not None
    loads = [i for e in fusion.form.operands for i in e.code if isinstance(i, Load)]
    apart = all(i.binding != fusion.binding(node) for i in loads)
    return apart and fusion.form.routine.op.kernel == "product"  # type: ignore[union-attr]


# --- horizontal fusion: many small tensors as one


class _Merged(NamedTuple):
    """Maps that do the same to tensors of different sizes, done as one map over tensors that lie
    one after the other."""

    works: list[_KernelInstance]
    columns: list[tuple[int, ...]]  # for each binding with a tensor a work: these buffers
    offsets: list[int]  # of each work, in bytes
    nbytes: int


class _Horizontal:
    """Finds maps that can be merged: their buffers may lie anywhere, each in one place of one
    region. `donors` gives the input that a node is written over: both are one buffer."""

    def __init__(
        self, order: IndexedGraph, works: list[_KernelInstance], movable: set[int],
        donors: Mapping[int, int],
        changing: set[int], limits: Limits,
    ) -> None:  # fmt: skip
        self.host, self.most = limits.host, min(limits.binding_bytes, limits.buffer_bytes)
        self.order, self.works, self.movable, self.donors = order, works, movable, donors
        self.changing = changing  # ids of the constants that have other values in other runs
        self.column_of: dict[int, tuple[int, ...]] = {}  # the column that a buffer lies in
        self.columns: dict[tuple[int, ...], tuple[int, ...]] = {}  # equal ones are the same one
        self.touching: dict[int, list[_KernelInstance]] = {}  # for each buffer the works on it
        for w in works:
            for k in {self.buffer(k) for k in w.nodes}:
                self.touching.setdefault(k, []).append(w)

    def found(self, grouping: FusionPlanner) -> list[_Merged]:
        """The maps that are merged from now on; `grouping` is told that each set is one group."""
        same: dict[Any, list[_KernelInstance]] = {}
        for w in self.works:
            key = self.signature(w)
            if key is not None:
                same.setdefault(key, []).append(w)
        out = []
        for works in [fit for some in same.values() for fit in self.fitting(some)]:
            columns = [tuple(self.buffer(w.nodes[b]) for w in works) for b in works[0].mapped]
            columns = [self.columns.setdefault(c, c) for c in columns]
            if not self.may_merge(works, columns):
                continue
            self.column_of.update((i, column) for column in columns for i in column)
            offsets, at = [], 0
            for w in works:
                offsets.append(at)
                at += _room(w)
            out.append(_Merged(works, columns, offsets, at))
            grouping.join([w.group for w in works])
        return out

    def fitting(self, works: list[_KernelInstance]) -> Iterator[list[_KernelInstance]]:
        """The works in sets of which each has room in one binding."""
        some: list[_KernelInstance] = []
        room = 0
        for w in works:
            if some and not self.host and room + _room(w) > self.most:
                yield some
                some, room = [], 0
            some.append(w)
            room += _room(w)
        yield some

    def buffer(self, k: int) -> int:
        """The node whose buffer node `k` lies in."""
        return self.donors.get(k, k)

    def signature(self, w: _KernelInstance) -> Any:
        """Equal for kernels that do the same to each element of buffers of some size; else None."""
        k = w.kernel
        if k.routine or len(k.space) != 1 or not k.space[0]:
            return None
        if is_symbolic_size(k.space[0]) and not self.host:
            return None  # a GPU's regions stay as they are
        out: list[Any] = []
        for i in k.code:
            if isinstance(i, Load):
                full = views.is_contiguous(i.index_map)
                if not full and math.prod(self.order.nodes[w.nodes[i.binding]].shape) != 1:
                    return None
                out.append((i.binding, i.dtype, full or ("of", w.nodes[i.binding])))
            elif isinstance(i, _program.ScalarParam):
                n = w.scalars[i.word]
                out.append((n.attrs if id(n) not in self.changing else id(n), i.dtype))
            elif isinstance(i, _program.Apply) and i.index is None:
                out.append(i)
            else:
                return None
        if any(s.dtype.itemsize != 4 or not views.is_contiguous(s.index_map) for s in k.stores):
            return None
        return tuple(out), tuple(s[:2] for s in k.stores), k.bindings

    def may_merge(self, works: list[_KernelInstance], columns: list[tuple[int, ...]]) -> bool:
        """Several works of which none waits for another, on buffers that are theirs alone, can be
        moved, and lie in no other region; nothing else writes some and reads others of a column."""
        if len(works) < 2:
            return False
        bits = sum(1 << w.group.number for w in works)
        own = {w.group.number for w in works}
        near = {k: [w for w in self.touching[k] if w.group.number not in own]
                for column in columns for k in column}  # fmt: skip
        return (
            not any(w.group.before & bits for w in works)
            and len({i for column in columns for i in column}) == sum(map(len, columns))
            and all(self.column_of.get(i, column) is column for column in columns for i in column)
            and all(self.can_move(w.nodes[b]) for b in works[0].mapped for w in works)
            and not any(
                self.mixes(w, set(column)) for column in columns for k in column for w in near[k]
            )
        )

    def can_move(self, k: int) -> bool:
        n = self.order.nodes[k]
        return n.dtype.itemsize == 4 and (n.data is None or k in self.movable)

    def mixes(self, w: _KernelInstance, column: set[int]) -> bool:
        """Whether `w` writes some of the buffers and only reads others: not allowed in one
        buffer."""
        touched = {b for b, k in enumerate(w.nodes) if self.buffer(k) in column}
        written = touched & w.kernel.written
        return bool(written) and written != touched


def _room(w: _KernelInstance) -> Any:
    """The bytes of one of its buffers, up to where the next one may begin."""
    return -(-4 * w.kernel.space[0] // PARAM_ALIGN) * PARAM_ALIGN


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
    order, lowered = lower(order, roots, limits)
    now = dict(zip(map(id, roots), lowered, strict=True))
    in_place = {i: now[id(n)] for i, n in (in_place or {}).items()}
    roots = lowered
    inputs = [n for n in order if n.data is not None and n.op is not CONST]
    outputs = [n for n in roots if n.data is None or n.op is CONST]
    if not limits.calls:
        order = _split_reductions(order, roots, limits)
    if not limits.host:
        order = _fold_padded_adds(_eliminate_common(order, roots), roots)
        of = [n.inputs for n in order if n.data is None and n.op and n.op.kernel in PRODUCTS]
        few = [x for x, *_ in of if size_hint(x.shape[1]) <= FEW_PRODUCT_ROWS]
        alike = len({x.dtype.itemsize > 1 and id(resolve_view(x)[0]) for x in few}) < len(few)
        if alike or any(
            size_hint(math.prod(x.shape)) >= REMATERIALIZE_MIN_ELEMENTS for some in of for x in some
        ):
            from pyframe.graph import products  # which few programs need

            order = products.rematerialize(order, roots)
            if not limits.alone:
                fixed = None if movable is None else set(changing)
                order = products.fuse_sibling_gemms(order, roots, limits, FEW_PRODUCT_ROWS, fixed)
    refused: set[int] = set()
    while True:
        parts = _written_in_part(in_place, refused, roots)
        instead = {
            id(n): Node(n.op.over, n.inputs[1:], n.attrs, n.shape, n.dtype, n.device)  # type: ignore[union-attr]
            for chain in parts.values()
            for n in chain
        }
        nodes = IndexedGraph(order, roots, instead)
        at = nodes.number
        given = [at[id(n)] for n in inputs]
        wanted = [at[id(n)] for n in outputs]
        over = {at[id(n)]: at[i] for i, n in in_place.items() if i in at}
        # where equal maps become one, what replaces a value is left to them
        apart = limits.host or movable is not None
        grouping = FusionPlanner(nodes, limits, over if apart else ())
        in_parts = {at[i]: [at[id(n)] for n in chain] for i, chain in parts.items()}
        fits = {i: _can_chain_inplace(grouping, donor, chain)
                for i, (donor, chain) in zip(parts, in_parts.items(), strict=True)}  # fmt: skip
        if all(fits.values()):
            break
        refused |= {i for i, fit in fits.items() if not fit}
    kept = set(wanted).union(*[g.fusion.buffers for g in grouping.groups if g is not None])
    donors = {k: donor for donor, chain in in_parts.items() for k in chain}
    kept |= donors.keys()
    donors |= {
        k: donor
        for k, donor in over.items()
        if k not in donors
        and donor in given and k in grouping.home and _can_donate(grouping, donor, k)
    }  # fmt: skip
    works = {g.number: _KernelInstance(g, kept, donors) for g in grouping.groups if g is not None}
    merged = []
    if movable is not None:
        numbers = {at[i] for i in movable if i in at}
        some = [*works.values()]
        horizontal = _Horizontal(nodes, some, numbers, donors, set(changing), limits)
        merged = horizontal.found(grouping)
    heads = {m.works[0].group.number: m for m in merged}
    ordered = grouping.ordered()
    if not limits.host:
        together = [
            [w.group for w in heads[g.number].works] if g.number in heads else [g] for g in ordered
        ]
        columns = {k for m in merged for w in m.works for k in w.nodes}
        fixed = {*given, *wanted, *columns, *donors}
        over_temps = _reuse_dying_temporaries(nodes, together, kept, fixed)
        donors |= over_temps
        for g in {grouping.home[k].number: grouping.home[k] for k in over_temps}.values():
            works[g.number] = _KernelInstance(g, kept, donors)
    planner = _Planner(nodes, given, wanted, donors, limits.host and not limits.portable)
    for m in merged:
        planner.lay_out(m)
    for g in ordered:
        planner.step(works[g.number], heads.get(g.number))
    return planner.program(), inputs, planner.constants


class _Planner:
    """Gives every value its slot, and every step its place."""

    def __init__(
        self, order: IndexedGraph, inputs: list[int], outputs: list[int], donors: Mapping[int, int],
        host: bool,
    ) -> None:  # fmt: skip
        self.order, self.donors, self.host = order, donors, host
        self.slots: list[_program.Slot] = []
        self.slot_of: dict[int, int] = {}
        self.regions: list[int] = []
        self.kernels: dict[Kernel, int] = {}
        self.steps: list[_program.Dispatch] = []
        self.params: list[tuple[int, DType]] = []
        self.constants: list[Node] = []
        self.param_bytes = 0
        self.columns: dict[tuple[int, ...], int] = {}  # of buffers in one region: its slot
        for k in inputs:
            self.new(k, INPUT)
        for k in outputs:
            if k in donors:
                self.slot_of[k] = self.slot_of[donors[k]]
            else:
                self.new(k, OUTPUT)
        self.outputs = [self.slot_of[k] for k in outputs]

    def new(self, k: int, kind: str) -> int:
        self.slot_of[k] = len(self.slots)
        self.slots.append(_program.Slot(_nbytes(self.order.nodes[k], self.host), kind))
        return len(self.slots) - 1

    def slot(self, k: int) -> int:
        found = self.slot_of.get(k)
        if found is None and k in self.donors:
            found = self.slot_of[k] = self.slot(self.donors[k])
        return self.new(k, TEMP) if found is None else found

    def lay_out(self, merged: _Merged) -> None:
        """Lay the buffers of a merged map beside each other, each column in one region."""
        for b, column in zip(merged.works[0].mapped, merged.columns, strict=True):
            if column in self.columns:
                continue
            kinds = set()
            for w, offset in zip(merged.works, merged.offsets, strict=True):
                at = self.slot(w.nodes[b])
                kinds.add(self.slots[at].kind)
                self.slots[at] = self.slots[at]._replace(region=len(self.regions), offset=offset)
            kind = INPUT if INPUT in kinds else OUTPUT if OUTPUT in kinds else TEMP
            self.columns[column] = len(self.slots)
            self.slots.append(_program.Slot(merged.nbytes, kind, len(self.regions)))
            self.regions.append(merged.nbytes)

    def step(self, w: _KernelInstance, merged: _Merged | None) -> None:
        """The next step: a kernel, or the merged map that it is the first of."""
        kernel = w.kernel
        slots = [self.slot(k) for k in w.nodes]
        if merged is not None:
            kernel = _resized(kernel, merged.nbytes // 4)
            for b, column in zip(w.mapped, merged.columns, strict=True):
                slots[b] = self.columns[column]
        offset = -1
        if w.scalars:
            offset = self.param_bytes
            self.params.extend((offset + 4 * i, s.dtype) for i, s in enumerate(w.scalars))
            self.constants.extend(w.scalars)
            self.param_bytes += -(-4 * len(w.scalars) // PARAM_ALIGN) * PARAM_ALIGN
        number = self.kernels.setdefault(kernel, len(self.kernels))
        self.steps.append(_program.Dispatch(number, tuple(slots), offset))

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
        owners: list[int] = []
        taken = _LifetimeTree(len(self.steps))
        temps = [s for s in spans if self.slots[s].kind == TEMP and self.slots[s].region < 0]
        for s in sorted(temps, key=lambda s: -size_hint(self.slots[s].nbytes)):
            k = taken.first(*spans[s])
            if k == len(owners):
                owners.append(s)
                continue
            out[s] = owner = owners[k]
            both = sym_max(self.slots[owner].nbytes, self.slots[s].nbytes)
            self.slots[owner] = self.slots[owner]._replace(nbytes=both)
        return out


class _LifetimeTree:
    """Which of some buffers, as bits, are taken from one step to another: a tree over the steps."""

    def __init__(self, steps: int) -> None:
        self.depth = steps.bit_length() + 1
        self.leaves = 1 << steps.bit_length()
        self.whole = [0] * 2 * self.leaves  # taken for all steps below
        self.some = [0] * 2 * self.leaves  # taken for any of them

    def first(self, a: int, b: int) -> int:
        """The first buffer that is free from step `a` to `b`; it is taken from now on."""
        low, high = a + self.leaves, b + self.leaves
        inside, above = [], [leaf >> k for leaf in (low, high) for k in range(1, self.depth)]
        high += 1
        while low < high:
            if low & 1:
                inside.append(low)
            if high & 1:
                inside.append(high - 1)
            low, high = (low + 1) >> 1, high >> 1
        taken = 0
        for i in inside:
            taken |= self.some[i]
        for i in above:
            taken |= self.whole[i]
        bit = ~taken & (taken + 1)
        for i in inside:
            self.whole[i] |= bit
            self.some[i] |= bit
        for i in above:
            self.some[i] |= bit
        return bit.bit_length() - 1


_KINDS = (INPUT, OUTPUT, TEMP)


def _nbytes(n: Node, host: bool) -> int:
    size = n.dtype.numpy.itemsize if host else n.dtype.device_itemsize
    return sym_max(-(-math.prod(n.shape) * size // 4) * 4, max(size, 4))


def _fold_padded_adds(order: Sequence[Node], roots: Sequence[Node]) -> Sequence[Node]:
    """Replace a sum of zero-padded slices that together cover a value by a view of that value, as
    in the backward pass of `split`."""
    asked = {id(n) for n in roots}
    parts: dict[int, tuple[Node, views.View]] = {}  # what is part of a value, and 0 elsewhere
    changed = False
    for n in order:
        if n.data is not None or n.op is None:
            continue
        if n.op.name == "pad" and n.attrs[1] == 0 and not is_symbolic(n.shape):
            base, at = resolve_view(n)
            if len(at) == 1 and at[0].mask is not None:
                parts[id(n)] = base, at[0]
        elif n.op.name == "add" and all(id(i) in parts for i in n.inputs):
            (base, a), (other, b) = [parts[id(i)] for i in n.inputs]
            mask = _joined(a, b) if base is other else None
            if mask is None:
                continue
            parts[id(n)] = base, a._replace(mask=mask)
            whole = a._replace(mask=None)
            full = mask == tuple([(0, m) for m in n.shape])
            if full and id(n) not in asked and views.is_contiguous((whole,)):
                n.op, n.attrs, n.inputs, changed = REGISTRY["reshape"], (n.shape,), (base,), True
    return toposort(roots) if changed else order


def _joined(a: views.View, b: views.View) -> Any:
    """The mask of two views that are one view but for their masks, which lie side by side."""
    if a._replace(mask=None) != b._replace(mask=None):
        return None
    assert a.mask is not None
    assert b.mask is not None
    apart = [d for d, (x, y) in enumerate(zip(a.mask, b.mask, strict=True)) if x != y]
    if len(apart) != 1:
        return None
    (lo, end), (start, hi) = sorted((a.mask[apart[0]], b.mask[apart[0]]))
    whole = (*a.mask[: apart[0]], (lo, hi), *a.mask[apart[0] + 1 :])
    return whole if end == start else None


def _eliminate_common(order: Sequence[Node], roots: Sequence[Node]) -> Sequence[Node]:
    """Common subexpression elimination of reductions and extern kernels, as gradients of several
    inputs may ask for the same one; duplicates that must exist are copies. Elementwise duplicates
    stay: they are cheap, and sharing them may cost memory."""
    asked = {id(n) for n in roots}
    first: dict[Any, Node] = {}
    same: dict[int, Node] = {}  # for each node the first that has its value
    instead: dict[int, Node] = {}
    for n in order:
        same[id(n)] = n
        if n.data is not None or n.op is None or n.op is CONST:
            continue
        key = (n.op, n.attrs, n.dtype, *[id(same[id(i)]) for i in n.inputs])
        same[id(n)] = one = first.setdefault(key, n)
        n.inputs = tuple([instead.get(id(i), i) for i in n.inputs])
        if one is not n and n.op.kind in (REDUCTION, EXTERN):
            if id(n) in asked:
                n.op, n.attrs, n.inputs = REGISTRY["copy"], (), (one,)
            instead[id(n)] = one
    return toposort(roots) if instead else order


def _split_reductions(
    order: Sequence[Node], roots: Sequence[Node], limits: Limits
) -> Sequence[Node]:
    """A long reduction to few results, as one to some more results and one of those: else a few
    workgroups would do all of the work."""
    reshape = REGISTRY["reshape"]
    changed = False
    made = row_sums(order, limits)  # by the products that read the same
    for n in order:
        if n.data is not None or n.op is None or n.op.kind != REDUCTION or id(n) in made:
            continue
        if n.op.combine is None or n.op.combine.arg:  # the parts know no index in the whole
            continue
        x, (axes, _) = n.inputs[0], n.attrs
        if is_symbolic(x.shape):
            continue  # no number of parts divides all lengths
        results = math.prod(n.shape)
        most = _parts(x.shape, axes, results, limits) if results else 1
        if most < 2:
            continue
        parts, a = max((_divisor(x.shape[d], most), -d) for d in axes)
        a = -a
        if parts < max(most // 4, 2):  # filled up with what changes nothing, which is not read
            a = max(axes, key=lambda d: x.shape[d])
            parts = min(most, x.shape[a])
            widths = tuple((0, -m % parts if d == a else 0) for d, m in enumerate(x.shape))
            shape = tuple(m + w for m, (_, w) in zip(x.shape, widths, strict=True))
            fill = n.op.combine.start(x.dtype.compute or "f32")
            x = Node(REGISTRY["pad"], (x,), (widths, fill), shape, x.dtype, x.device)
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


def _parts(shape: Sequence[int], axes: Sequence[int], results: int, limits: Limits) -> int:
    """Into how many parts at most a reduction is split; below 2 it is done in one kernel."""
    each = math.prod(shape) // results
    if results <= 64:
        least = ONE_WORKGROUP_ELEMENTS if results == 1 else SPLIT_REDUCTION_MIN
        return min(each // 2048, 256) if each >= least else 1
    last = max(d for d, m in enumerate(shape) if m > 1)
    if last in axes or limits.host or limits.alone or each < TALL_COLUMN_ROWS:
        return 1
    return min(COLUMN_GROUPS // -(-results // COLUMNS), each // (TALL_COLUMN_ROWS // 4))


def _divisor(n: int, most: int) -> int:
    """The largest divisor of n that is at most `most`."""
    return max(d for d in range(1, max(min(n, most), 1) + 1) if n % d == 0)
