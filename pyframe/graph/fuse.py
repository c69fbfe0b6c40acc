"""What fuses: which values get a buffer at all, and which of them share a kernel.

Elementwise chains and movement join the kernel that consumes them. A value gets a buffer if a live
tensor needs it, if it is the result of a reduction or routine, or if computing it again would cost
more than storing it (`MaterializationPlan`). Such values are then gathered into groups over one
index space (`FusionPlanner`): softmax is a group with two reductions, a product takes its bias and
activation along.
"""

from __future__ import annotations

import copy
import heapq
import itertools
import math
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from pyframe.core import sizes, view as views
from pyframe.core.dtypes import dtype as DType, float32
from pyframe.core.limits import Limits
from pyframe.core.node import Node
from pyframe.core.op import CONST, ELEMENTWISE, EXTERN, MOVEMENT, REDUCTION, REGISTRY, Op, const
from pyframe.core.sizes import is_symbolic, is_symbolic_size, size_hint
from pyframe.graph import program as _program, scalar
from pyframe.graph.program import (
    Apply,
    Expr,
    ExternResult,
    InBounds,
    Load,
    Reduce,
    RowSum,
    ScalarParam,
    Shape,
)

MAX_CODE = 200  # instructions in one expression: beyond it a value is stored instead
RECOMPUTE = 4  # instructions that it is cheaper to run again than to store a value
GPU_RECOMPUTE_LIMIT = 16  # the same on a GPU, whose memory is slower than it computes,
PRIMITIVES = 80  # and the primitives that these may be,
RECOMPUTE_MIN_ELEMENTS = 1 << 16  # of values of more elements
# Elements from which on a value is not kept for long where it can be made again
REMATERIALIZE_MIN_ELEMENTS = 1 << 22
MAX_REDUCTION = 100  # instructions and views in a kernel that reduces: long loops compile slowly
LOOP_ORDER_MIN_ELEMENTS = 1 << 12  # elements of which it does not matter how they are walked
TILE = 64  # rows and columns of a product that read an operand's element once
ONE_WORKGROUP_ELEMENTS = 1 << 17  # elements that one workgroup may reduce to a scalar by itself
LOOPED = 1 << 10  # elements a result: in a longer reduction no op with a loop of its own
EXPENSIVE_PRIMITIVES = 500  # primitives of an op, as random bits take
# Groups that read a buffer already, the latest ones, which are asked to take a reader
MAX_READER_CANDIDATES = 4


def graph_key(order: Sequence[Node], roots: Sequence[Node]) -> tuple[Any, ...]:
    """What decides the Program: ops, attributes, shapes, dtypes and links, but no values."""
    number = {id(n): i for i, n in enumerate(order)}
    nodes = tuple(
        (n.shape, n.dtype)
        if n.data is not None and n.op is not CONST
        else (CONST, n.dtype)
        if n.op is CONST
        else (n.op, n.attrs, n.shape, n.dtype, *[number[id(i)] for i in n.inputs])
        for n in order
    )
    return nodes, tuple(number[id(n)] for n in roots)


class IndexedGraph:
    """The nodes of a graph, operands first. Where kernels are planned, a node is its number."""

    def __init__(
        self,
        nodes: Sequence[Node],
        roots: Sequence[Node],
        instead: Mapping[int, Node] | None = None,
    ) -> None:
        """`instead` gives by id what is computed for a node."""
        self.nodes = [instead.get(id(n), n) for n in nodes] if instead else nodes
        self.number = {id(n): k for k, n in enumerate(nodes)}
        self.roots = [self.number[id(n)] for n in roots]
        self.inputs: list[tuple[int, ...]] = []
        self.kinds: list[str | None] = []  # of the ops that are still to be computed
        for n in self.nodes:
            op = n.op if n.data is None else None
            self.kinds.append(None if op is None else op.kind)
            self.inputs.append(() if op is None else tuple(self.number[id(i)] for i in n.inputs))

    def computed(self, k: int) -> bool:
        """Whether node `k` is the result of an op that is still to run, and no constant."""
        return self.kinds[k] is not None and self.nodes[k].op is not CONST

    def computed_base(self, k: int) -> int | None:
        """The value that movement shows, if it is still to be computed."""
        while self.kinds[k] == MOVEMENT:
            k = self.inputs[k][0]
        return k if self.computed(k) else None


def row_sums(order: Sequence[Node], limits: Limits) -> dict[int, Node]:
    """By the id of each sum of columns, as the gradient of a bias is, the product that reads the
    same: a weight's gradient, whose kernel makes the sum of what it has at hand. Not on a CPU,
    where memory is near and a product is busy."""
    if limits.host or limits.alone:
        return {}
    products: dict[int, Node] = {}  # by what has the columns of a large product as its rows
    sums = []
    for n in order:
        op = n.op
        if n.data is not None or op is None or n.dtype is not float32:
            continue
        product = op.kernel == "product"
        if not (product or op.name == "sum") or is_symbolic((n.shape, n.inputs[0].shape)):
            continue
        if product:
            batch, m, k = n.inputs[0].shape
            if batch == 1 and min(n.shape[1:]) > TILE and m * k > RECOMPUTE_MIN_ELEMENTS:
                base, at = resolve_view(n.inputs[0])
                if _is_turned(at, m, k):
                    products[id(base)] = n
        elif n.attrs[0] == tuple(range(len(n.inputs[0].shape) - 1)):
            sums.append(n)
    out: dict[int, Node] = {}
    for n in sums:
        x, (base, at) = n.inputs[0], resolve_view(n.inputs[0])
        found = products.get(id(base))
        if found is not None and found.inputs[0].dtype is x.dtype and views.is_contiguous(at):
            _, m, k = found.inputs[0].shape
            if m == x.shape[-1] and m * k == math.prod(x.shape):
                out[id(n)] = found
    return out


def resolve_view(n: Node) -> tuple[Node, views.IndexMap]:
    """What movement shows as `n`, and where it lies there."""
    chain: Chain = None
    while n.data is None and n.op is not None and n.op.kind == MOVEMENT:
        assert n.op.view is not None
        chain, n = ViewStep(n.op.view, n.attrs, chain), n.inputs[0]
    return n, index_map(n.shape, chain)


def _is_turned(at: views.IndexMap, m: int, k: int) -> bool:
    """Whether (1, m, k) is a matrix (k, m) the other way round."""
    (v, *more), turned = at, views.View((1, m, k), (0, 1, m))
    return not more and v.mask is None and same_positions(at, (turned,))


# --- views between a kernel's index space and the values that it computes


class ViewStep(NamedTuple):
    """A movement, and those that follow on it towards the index space of the kernel."""

    view: Callable[..., views.IndexMap]
    attrs: tuple[Any, ...]
    then: Chain


Chain = ViewStep | None  # a view chain


def index_map(shape: Shape, chain: Chain) -> views.IndexMap:
    """Where a value of `shape`, as the chain shows it, has the element of an index."""
    found = views.contiguous(shape)
    while chain is not None:
        found = chain.view(found, *chain.attrs)
        chain = chain.then
    return found


def same_positions(a: views.IndexMap, b: views.IndexMap) -> bool:
    """Whether two index maps over one space send each index to the same position."""
    if len(a) > 1 or len(b) > 1:
        return sizes.same(a, b)
    (x,), (y,) = a, b
    return sizes.same((x.mask, x.offset, x.shape), (y.mask, y.offset, y.shape)) and all(
        s is t or sizes.same(s, t) or n == 1
        for n, s, t in zip(x.shape, x.strides, y.strides, strict=True)
    )


def _fill(movement: Node) -> Any:
    """What is at the positions that a movement adds around its operand; None if it adds none."""
    op = movement.op
    assert op is not None
    return movement.attrs[op.attrs.index("value")] if "value" in op.attrs else None


def _loops(op: Op, operands: Iterable[DType], dtype: DType) -> bool:
    """Whether the GPU computes an op of these dtypes with a loop."""
    if op.scalar is None:
        return False
    types = tuple([d.compute or "f32" for d in operands])
    return scalar.loops(op.scalar, types, dtype.compute or "f32")


def _is_long(shape: Sequence[int], result: Sequence[int]) -> bool:
    """Whether a reduction of `shape` to `result` is too long for loops within its loop: Mesa's
    software driver counts the rounds of all of them (see ROUNDS in codegen/wgsl/reduction.py)."""
    return size_hint(math.prod(shape)) > LOOPED * size_hint(math.prod(result))


# --- kernels in the making


class _FusionError(Exception):
    """A node cannot join a kernel."""


class KernelBuilder:
    """What a kernel in the making computes, whichever nodes these are: they have numbers of its own
    here, in the order in which they came, so that equal layers come to the same forms.

    `axes` are reduced inside it; `rest`, if given, are the others, reduced to scalars on a second
    level. A member varies over all axes, over those that are left, or over none.
    """

    def __init__(self, space: Shape) -> None:
        self.space, self.size = space, math.prod(space)
        # the axes of more than one element
        self.long_axes = tuple(d for d, n in enumerate(space) if type(n) is not int or n != 1)
        self.axes: tuple[int, ...] = ()
        self.rest: tuple[int, ...] = ()
        self.routine: Node | None = None  # one that says what it is
        self.operands: tuple[Expr, ...] = ()  # of the routine
        self.code: list[Any] = []
        self.emitted: dict[Any, int] = {}  # where an instruction stands in `code`
        self.values: dict[int, tuple[int, views.IndexMap]] = {}  # of the members
        self.chains: dict[int, Chain] = {}  # that show members over the space
        self.buffers: dict[int, int] = {}  # the binding of each node that it loads
        self.words: dict[Any, Node | None] = {}  # its scalars, and those that are no nodes' own
        self.next: dict[Any, KernelBuilder | None] = {}  # by what joins; None: that can't
        self.fits: bool | None = None  # whether the device takes the code; None: nobody has asked
        self.kernels: dict[Any, Any] = {}  # made of it

    def copy(self) -> KernelBuilder:
        """One to compute more in."""
        out = copy.copy(self)
        out.code, out.emitted, out.values = self.code[:], self.emitted.copy(), self.values.copy()
        out.chains, out.buffers = self.chains.copy(), self.buffers.copy()
        out.words, out.next, out.fits, out.kernels = self.words.copy(), {}, None, {}
        return out

    @property
    def kept(self) -> tuple[int, ...]:
        """The axes that are not reduced on the first level."""
        return tuple(d for d in self.long_axes if d not in self.axes)

    def domain(self, size: int) -> tuple[int, ...]:
        """The axes over which a value of `size` elements varies here."""
        for axes in (self.long_axes, self.kept, ()):
            apart = math.prod(self.space[d] for d in axes) - size
            if type(apart) is int and not apart:
                return axes
        raise _FusionError

    def over_space(self, shape: Shape, domain: tuple[int, ...]) -> Chain:
        """The chain that shows a value of `shape`, which varies over `domain`, over the space."""
        kept = tuple(n if d in domain else 1 for d, n in enumerate(self.space))
        chain = None if kept == self.space else ViewStep(views.expand, (self.space,), None)
        return chain if sizes.same(kept, tuple(shape)) else ViewStep(views.reshape, (kept,), chain)

    def reduce(self, n: Node, domain: tuple[int, ...]) -> tuple[int, ...]:
        """The axes of the space that reduction `n` of a value over `domain` reduces."""
        shape, named = n.inputs[0].shape, n.attrs[0]
        there = [d for d, size in enumerate(shape) if type(size) is not int or size != 1]
        if not sizes.same([self.space[d] for d in domain], [shape[d] for d in there]):
            raise _FusionError
        axes = tuple(h for h, t in zip(domain, there, strict=True) if t in named)
        if not axes:
            return ()
        if domain == self.long_axes:
            if self.axes and self.axes != axes:
                raise _FusionError
            self.axes = axes
        elif axes != domain:
            raise _FusionError  # a second level ends in a scalar
        else:
            self.rest = axes
        return axes

    def emit(self, instruction: Any) -> int:
        """Where the instruction stands in the code; equal ones stand there once."""
        found = self.emitted.get(instruction)
        if found is None:
            found = self.emitted[instruction] = len(self.code)
            self.code.append(instruction)
        return found


class FusionGroup:
    """A kernel in the making: nodes computed side by side over one index space. It is a form with
    the nodes that have its numbers."""

    def __init__(self, stored: MaterializationPlan, form: KernelBuilder) -> None:
        self.stored, self.order, self.form = stored, stored.order, form
        self.own: dict[int, int] = {}  # the form's numbers of nodes, in their order
        self.shown: dict[tuple[int, Chain], int] = {}  # a value as a chain shows it

    def copy(self) -> FusionGroup:
        """A fusion to try something on."""
        out = FusionGroup(self.stored, self.form)
        out.own = self.own.copy()
        return out

    @property
    def members(self) -> list[int]:
        """What it computes, as it came."""
        nodes = [*self.own]
        return [nodes[i] for i in self.form.values]

    @property
    def buffers(self) -> dict[int, int]:
        """The binding of each node that it loads."""
        nodes = [*self.own]
        return {nodes[i]: b for i, b in self.form.buffers.items()}

    @property
    def scalars(self) -> list[Node]:
        """What fills its words."""
        return [self.scalar(key) if n is None else n for key, n in self.form.words.items()]

    def scalar(self, key: Any) -> Node:
        """The constant of a word, or the part of a complex one."""
        if type(key) is int:
            return self.order.nodes[[*self.own][key]]
        n = self.scalar(key[0])
        return const(n.attrs[0], n.dtype, n.device).inputs[key[1]]

    def binding(self, k: int) -> int:
        """That of node `k`; -1: it isn't loaded."""
        return self.form.buffers.get(self.own.get(k, -1), -1)

    def value_of(self, k: int) -> tuple[int, views.IndexMap]:
        """The instruction that gives member `k`, and where its elements are."""
        return self.form.values[self.own[k]]

    def add(self, k: int) -> None:
        """Compute node `k` here too. Raises _FusionError, and leaves half of the work behind. What
        comes of it was found out before if an equal node joined the same form."""
        way, leaves = self.stored.members[k]
        form, own = self.form, self.own
        key = (way, own.get(k, -1), *[own.get(x, -1) for x in leaves])
        for x in (*leaves, k):
            own.setdefault(x, len(own))
        if key not in form.next:
            form.next[key] = None
            self.form, self.shown = form.copy(), {}
            self.compute_member(k)
            form.next[key] = self.form
        found = form.next[key]
        if found is None:
            raise _FusionError
        self.form = found

    def compute_member(self, k: int) -> None:
        """Have the form compute node `k` too."""
        n, kind, form = self.order.nodes[k], self.order.kinds[k], self.form
        chain: Chain = None
        if kind == EXTERN:
            if form.values:
                raise _FusionError
            form.routine = n
            form.operands = tuple(self.operand(i) for i in self.order.inputs[k])
            at = form.emit(ExternResult(n.dtype))
        elif kind == REDUCTION and form.routine is not None:
            at = form.emit(RowSum(0, n.dtype))
            chain = form.over_space(n.shape, (1,))
        elif kind == REDUCTION:
            assert n.op is not None
            shape = n.inputs[0].shape
            domain = form.domain(math.prod(shape))
            at = self.value(self.order.inputs[k][0], form.over_space(shape, domain))
            axes = form.reduce(n, domain)
            at = form.emit(Reduce(n.op.name, at, axes, n.dtype))
            chain = form.over_space(n.shape, tuple(d for d in domain if d not in axes))
        else:
            chain = form.over_space(n.shape, form.domain(math.prod(n.shape)))
            if form.routine is not None:
                chain = self.turned(k, chain)
            at = self.value(k, chain, to_store=True)
        own = self.own[k]
        form.chains[own], form.values[own] = chain, (at, index_map(n.shape, chain))
        if len(form.code) > 2 * MAX_CODE:
            raise _FusionError

    def turned(self, k: int, chain: Chain) -> Chain:
        """Of a node `k` that is made of a member by elementwise ops, permutations and reshapes, the
        chain that shows it where that member has its elements; else `chain`. So a product stores
        what follows on it in another order."""
        todo: list[tuple[int, tuple[ViewStep, ...]]] = [(k, ())]
        seen: set[int] = set()
        for j, back in todo:
            if self.own.get(j) in self.form.chains:
                found = self.form.chains[self.own[j]]
                for move in back[::-1]:
                    found = move._replace(then=found)
                shape = self.order.nodes[k].shape
                same = same_positions(index_map(shape, found), index_map(shape, chain))
                return chain if same else found
            n, op = self.order.nodes[j], self.order.nodes[j].op
            if j in seen or not self.order.computed(j) or (j in self.stored.nodes and j != k):
                continue
            seen.add(j)
            for i, x in zip(self.order.inputs[j], n.inputs, strict=True):
                if op is not None and op.kind == MOVEMENT and op.undo is not None:
                    assert op.view is not None
                    todo.append((i, (*back, ViewStep(op.view, op.undo(x, *n.attrs), None))))
                elif op is not None and op.kind == ELEMENTWISE and sizes.same(x.shape, n.shape):
                    todo.append((i, back))
        return chain

    def operand(self, k: int) -> Expr:
        """The code of a routine's operand, over its own index."""
        x = self.order.nodes[k]
        inner, code = copy.copy(self), list[Any]()
        inner.form, inner.shown = copy.copy(self.form), {}
        inner.form.code, inner.form.emitted = code, {}  # all else is the same, not a copy
        last = inner.value(k, None)
        if last != len(code) - 1:  # the value must be the last instruction
            code.append(Apply("copy", (last,), (), x.dtype))
        return Expr(x.shape, tuple(code), x.dtype)

    def value(self, k: int, chain: Chain, to_store: bool = False) -> int:
        """The instruction that gives node `k` as the chain shows it over the space."""
        found = self.shown.get((k, chain))
        if found is None:
            found = self.shown[k, chain] = self.compute(k, chain, to_store)
        return found

    def compute(self, k: int, chain: Chain, to_store: bool) -> int:
        """The instructions for `value`, which keeps what this gives: a load where the node has a
        buffer, unless it is computed here `to_store` it."""
        n, op = self.order.nodes[k], self.order.nodes[k].op
        if op is CONST:
            return self.param(self.own[k], n)
        own = self.own.get(k, -1)
        if own in self.form.values:
            at, where = self.form.values[own]
            if not same_positions(index_map(n.shape, chain), where):
                raise _FusionError
            return at
        if n.data is not None or (k in self.stored.nodes and not to_store):
            binding = self.form.buffers.setdefault(own, len(self.form.buffers))
            return self.form.emit(Load(binding, index_map(n.shape, chain), n.dtype))
        assert op is not None
        inputs = self.order.inputs[k]
        if op.kind == MOVEMENT:
            assert op.view is not None
            inside = ViewStep(op.view, n.attrs, chain)
            inner, fill = self.value(inputs[0], inside), _fill(n)
            if fill is None or (fill == 0 and isinstance(self.form.code[inner], Load)):
                return inner  # where it is not valid, a Load gives 0
            valid = self.form.emit(InBounds(index_map(n.inputs[0].shape, inside)))
            node = Node(CONST, (), (fill,), (), n.dtype, n.device)
            other = self.param((fill, n.dtype), node, node)
            return self.form.emit(Apply("where", (valid, inner, other), (), n.dtype))
        args = []
        for i, x in zip(inputs, n.inputs, strict=True):
            same = sizes.same(x.shape, n.shape)
            args.append(self.value(i, chain if same else ViewStep(views.expand, (n.shape,), chain)))
        index = index_map(n.shape, chain) if getattr(op, "uses_index", False) else None
        attrs = () if index is not None else n.attrs
        return self.form.emit(Apply(op.name, tuple(args), attrs, n.dtype, index))

    def param(self, key: Any, n: Node, own: Node | None = None) -> int:
        """The instruction that gives scalar `n`; equal keys are the same scalar, and it is the
        form's `own`, or a node's. A complex one is two."""
        if n.dtype.is_complex:
            pair = const(n.attrs[0], n.dtype, n.device)
            parts = [self.param((key, i), x, own and x) for i, x in enumerate(pair.inputs)]
            return self.form.emit(Apply("complex", tuple(parts), (), n.dtype))
        words = self.form.words
        if key not in words:
            words[key] = own
        return self.form.emit(ScalarParam([*words].index(key), n.dtype))


# --- which values get a buffer


@dataclass(eq=False, slots=True)
class InlineCost:
    """How a node is computed, or where a consumer has it from, down to buffers and constants,
    whichever these are."""

    cost: int  # instructions that it takes inside a consumer
    work: int  # the same in primitives, which it is for GPUs
    loops: bool  # whether it has a loop in it then


class MaterializationPlan:
    """Which nodes get a buffer (`nodes`), rather than being computed where they are used."""

    def __init__(self, order: IndexedGraph, limits: Limits) -> None:
        self.order, self.limits = order, limits
        count = len(order.nodes)
        self.nodes = {k for k in order.roots if order.nodes[k].data is None}
        self.known: dict[Any, InlineCost] = {}  # each way once
        self.ways: list[InlineCost] = []  # of each node, in which a consumer has it
        self.leaves: list[tuple[int, ...]] = []  # what that begins at: buffers and constants
        self.changing = sizes.current_shape_guards() is not None  # whether lengths may
        self.drawn: set[int] = set()  # what no walk over an axis is to compute again
        users = [0] * count
        for inputs in order.inputs:
            for i in inputs:
                users[i] += 1
        heavy = {k for k, kind in enumerate(order.kinds) if kind in (REDUCTION, EXTERN)}
        for k in range(count):
            if order.computed(k):
                self.bound(k)
                if k in heavy:
                    self.store_operands(k, heavy)
                    self.nodes.add(k)
            way, leaves = self.way(k)
            self.ways.append(way)
            self.leaves.append(leaves)
            if order.kinds[k] == ELEMENTWISE and self.pays(k, users[k]):
                self.nodes.add(k)
                self.note(k)
        self.members = {k: self.made(k) for k in sorted(self.nodes)}  # how each is computed

    def pays(self, k: int, users: int) -> bool:
        """Whether elementwise node `k` is better stored: several read it and computing it anew
        costs more than reading it, or its expression is too long for one kernel."""
        if self.changing and self.is_drawn(k):
            self.drawn.add(k)
            return True
        cost, limits = self.ways[k].cost, self.limits
        if users < 2 or cost < 2:
            return cost > MAX_CODE
        return cost > (1 if limits.calls else RECOMPUTE if limits.host else self.again(k))

    def again(self, k: int) -> int:
        """How many instructions a GPU runs again rather than store node `k`: many if it is large,
        and they are cheap and load one large buffer, so that each user loads no more than if it is
        stored."""
        size = size_hint(math.prod(self.order.nodes[k].shape))
        if size <= RECOMPUTE_MIN_ELEMENTS or self.ways[k].work > PRIMITIVES:
            return RECOMPUTE
        read = [size_hint(math.prod(self.order.nodes[i].shape)) for i in self.loads(k)]
        return GPU_RECOMPUTE_LIMIT if sum(2 * n >= size for n in read) <= 1 else RECOMPUTE

    def is_drawn(self, k: int) -> bool:
        """Whether it is of a length that changes, and of very many primitives, as random bits are:
        a walk over such an axis keeps nothing in registers for the next one."""
        return is_symbolic(self.order.nodes[k].shape) and self.primitives(k) > EXPENSIVE_PRIMITIVES

    def primitives(self, k: int) -> int:
        """How many it takes for an element, beside those of its operands."""
        n, op = self.order.nodes[k], self.order.nodes[k].op
        if op is None or op.scalar is None:
            return 0
        types = tuple([x.dtype.compute or "f32" for x in n.inputs])
        return scalar.primitives(op.scalar, types, n.dtype.compute or "f32")

    def store_operands(self, k: int, heavy: set[int]) -> None:
        """Store what reduction or routine `k` should not compute for itself: an operand with a
        loop in it, where this gives a loop in a long loop; and what a routine reads often, if it
        is more than a step away from a buffer of another one (on the CPU all of it). Of a copy it
        is what is copied: the windows of a convolution are much more than the image. A product
        of several tiles loads each element several times: from one buffer."""
        n, routine = self.order.nodes[k], self.order.kinds[k] == EXTERN
        if not routine and not _is_long(n.inputs[0].shape, n.shape):
            return
        host, printed = self.limits.host, n.op is not None and isinstance(n.op.kernel, str)
        for i in self.order.inputs[k]:
            base = self.order.computed_base(i)
            while base is not None and base not in self.nodes and self.copies(base) and not host:
                base = self.order.computed_base(self.order.inputs[base][0])
            if base is None or base in self.nodes:
                continue
            loads, way = self.loads(base), self.ways[base]
            often = way.cost > 2 and not heavy.isdisjoint(loads)
            if printed:
                mine, other = n.shape[-2:] if i == self.order.inputs[k][0] else n.shape[:-3:-1]
                large = size_hint(math.prod(self.order.nodes[base].shape)) > RECOMPUTE_MIN_ELEMENTS
                often = often or (len(loads) > 1 and large and size_hint(other) > TILE)
                few = TILE * size_hint(mine) <= size_hint(other)
            else:
                few = n.op is not None and (n.op.write_slice is not None or self.is_few(k, base))
            if few and not (host or self.limits.alone) and self.follows(base, heavy):
                often = False
            if (way.loops and not host) or (routine and (host or often)):
                self.store(base, k)

    def is_few(self, k: int, base: int) -> bool:
        """Whether a kernel may make operand `base` as often as it reads it, beside much more."""
        n, size = self.order.nodes[k], math.prod(self.order.nodes[base].shape)
        largest = max([size_hint(math.prod(x.shape)) for x in n.inputs])
        return n.op is not None and n.op.recomputes_operands and TILE * size_hint(size) <= largest

    def follows(self, k: int, heavy: set[int]) -> bool:
        """Whether node `k` is made of results of routines, and in none of their kernels."""
        read, nodes = heavy.intersection(self.loads(k)), self.order.nodes
        size = math.prod(nodes[k].shape)
        return not any(
            self.order.kinds[i] == REDUCTION or sizes.same(math.prod(nodes[i].shape), size)
            for i in read
        )

    def copies(self, k: int) -> bool:
        """Whether node `k` is another value in another layout."""
        op = self.order.nodes[k].op
        return op is not None and op.name == "copy"

    def note(self, k: int) -> None:
        """Note how a consumer has node `k`."""
        self.ways[k], self.leaves[k] = self.way(k)

    def way(self, k: int) -> tuple[InlineCost, tuple[int, ...]]:
        """How a consumer has node `k`, and what that begins at."""
        n = self.order.nodes[k]
        if self.order.computed(k) and k not in self.nodes:
            return self.made(k)
        key = n.op is CONST, n.shape, n.dtype
        found = self.known.get(key)
        if found is None:
            found = self.known[key] = InlineCost(1, 1, False)
        return found, (k,)

    def made(self, k: int) -> tuple[InlineCost, tuple[int, ...]]:
        """How node `k` is computed, and what that begins at."""
        n, op, inputs = self.order.nodes[k], self.order.nodes[k].op, self.order.inputs[k]
        if op is CONST:
            return self.way(k)
        assert op is not None
        ways = [self.ways[i] for i in inputs]
        if len(inputs) == 1:
            leaves, places = self.leaves[inputs[0]], None
        else:
            every = [x for i in inputs for x in self.leaves[i]]
            leaves = tuple(dict.fromkeys(every))
            places = None if len(leaves) == len(every) else tuple(map(leaves.index, every))
        fill = _fill(n) if op.kind == MOVEMENT else None
        key = (op, n.attrs, str(fill), n.shape, n.dtype, places, *ways)  # -0.0 is another
        found = self.known.get(key)
        if found is None:
            step = 1 if op.kind != MOVEMENT else 0 if fill is None else 3
            cost = min(step + sum(w.cost for w in ways), 10**6)
            work = min(self.primitives(k) + sum(w.work for w in ways), 10**6)
            dtypes = [x.dtype for x in n.inputs]
            loops = _loops(op, dtypes, n.dtype) or any(w.loops for w in ways)
            found = self.known[key] = InlineCost(cost, work, loops)
        return found, leaves

    def loads(self, k: int) -> list[int]:
        """The buffers that a consumer of node `k` loads for it."""
        return self.buffers(self.leaves[k])

    def buffers(self, leaves: Iterable[int]) -> list[int]:
        """Those of them that are no constants."""
        nodes = self.order.nodes
        return [i for i in leaves if nodes[i].op is not CONST]

    def bound(self, k: int) -> None:
        """Store some of what `k` is computed from, until a kernel for it alone binds no more
        buffers than the device takes: first the operand that reads most."""
        inputs, most = self.order.inputs[k], self.limits.storage_buffers - 1
        if sum([len(self.leaves[i]) for i in inputs]) <= most:
            return
        while len(self.buffers(self.made(k)[1])) > most:
            for i in sorted(inputs, key=lambda i: -len(self.loads(i))):
                base = self.order.computed_base(i)
                if base is not None and base not in self.nodes:
                    self.store(base, k)
                    break
            else:
                return

    def store(self, base: int, until: int) -> None:
        """Store `base`, and note again what is computed from it before node `until`."""
        self.nodes.add(base)
        self.note(base)
        changed = {base}
        for k in range(base + 1, until):
            if not changed.isdisjoint(self.order.inputs[k]) and k not in self.nodes:
                self.note(k)
                changed.add(k)


# --- which values share a kernel


@dataclass(eq=False)
class KernelGroup:
    """The members of one kernel, and what it waits for."""

    number: int
    fusion: FusionGroup
    before: int = 0  # bits of the groups that must run earlier


class FusionPlanner:
    """Gathers the stored nodes into groups, each as it comes into one that makes what it reads, or
    reads the same; else it begins a group of its own."""

    def __init__(
        self, order: IndexedGraph, limits: Limits, replacing: Collection[int] = ()
    ) -> None:
        """`replacing` are the roots that may be written over an old value."""
        self.order, self.limits = order, limits
        self.stored = MaterializationPlan(order, limits)
        self.forms: dict[Shape, KernelBuilder] = {}  # those without members, by their spaces
        self.roots = set(order.roots)
        self.replacing = set(replacing)
        self.groups: list[KernelGroup | None] = []
        self.home: dict[int, KernelGroup] = {}  # of each stored node
        # Of each buffer, by number, latest last
        self.readers: dict[int, dict[int, KernelGroup]] = {}
        self.users: dict[int, set[int]] = {}  # of each buffer: the stored nodes that read it
        self.waited = 0  # bits of the groups that others wait for
        # of each sum of columns: what makes it
        sums = row_sums(order.nodes, limits)
        self.product_of = {order.number[k]: order.number[id(n)] for k, n in sums.items()}
        self.reads = {}  # of each stored node the buffers
        for k, (_, leaves) in self.stored.members.items():
            self.reads[k] = sorted(self.stored.buffers(leaves))
            for buffer in self.reads[k]:
                self.users.setdefault(buffer, set()).add(k)
        self.waiting: dict[int, list[int]] = {}  # for each product: the sums that it is to make
        for k in self.stored.members:
            self.place(k)
            for of_rows in self.waiting.pop(k, ()):
                self.place(of_rows)

    def place(self, k: int) -> None:
        """Put node `k` into the first group that suits; then unite those that make what it reads,
        so that none of this passes through memory twice."""
        n, kind = self.order.nodes[k], self.order.kinds[k]
        if k in self.product_of:
            product = self.product_of[k]
            if product not in self.home and min(self.users.get(k, ()), default=product) >= product:
                self.waiting.setdefault(product, []).append(k)
                return
            if product in self.home and self.try_add(self.home[product], k):
                return
        buffers = self.reads[k]
        homes = {self.home[b].number: self.home[b] for b in buffers if b in self.home}
        makers = [homes[number] for number in sorted(homes, reverse=True)]
        latest = [[*itertools.islice(reversed(self.readers.get(b, {}).values()),
        MAX_READER_CANDIDATES)]
                  for b in buffers]  # fmt: skip
        near = {g.number: g for some in latest for g in some[::-1]
                if g not in makers and self.groups[g.number] is g}  # fmt: skip
        others = list(near.values())
        if kind == REDUCTION:  # what ends two sums that one kernel has begun
            twins = [r for g in makers for b in g.fusion.members for r in self.readers_of(b)]
            others += [
                r for r in twins
                if r.fusion.form.kept and sizes.same(r.fusion.form.space, n.inputs[0].shape)
            ]  # fmt: skip
        if sizes.same(math.prod(n.shape), 1) and kind == ELEMENTWISE:  # scalars share a kernel
            others += [
                g for g in self.groups if g is not None and sizes.same(g.fusion.form.size, 1)
            ][-1:]
        for g in [*makers, *others]:
            if self.suits(g.fusion, k, g in makers) and self.try_add(g, k):
                for other in makers:
                    now = self.groups[g.number]  # a union puts another group in its place
                    if other is not g and self.groups[other.number] is other and now is not None:
                        self.try_union(now, other)
                return
        space = n.inputs[0].shape if kind == REDUCTION else n.shape
        group = KernelGroup(len(self.groups), self.fusion(space))
        self.groups.append(group)
        group.fusion.add(k)
        self.settle(group)

    def fusion(self, space: Shape) -> FusionGroup:
        """One that computes nothing yet."""
        form = self.forms.get(space)
        if form is None:
            form = self.forms[space] = KernelBuilder(space)
        return FusionGroup(self.stored, form)

    # --- the rules

    def suits(self, fusion: FusionGroup, k: int, made_here: bool) -> bool:
        """Whether computing node `k` in a kernel too is worth it; `made_here`: it computes some of
        what `k` reads."""
        kind = self.order.kinds[k]
        # An empty space, over which nothing may be computed
        if not is_symbolic_size(fusion.form.size) and not fusion.form.size:
            return False
        if kind == EXTERN:  # begins a kernel
            return False
        if fusion.form.routine is not None and fusion.form.routine.op.write_slice is not None:  # type: ignore[union-attr]
            return False
        drawn = self.stored.drawn
        if (
            drawn
            and not drawn.isdisjoint((k, *fusion.members))
            and (fusion.form.axes or kind == REDUCTION)
        ):
            return False
        if k in self.replacing and (fusion.form.axes or fusion.form.routine is not None):
            return False  # such a kernel reads what is to be replaced after it has written some
        if kind == REDUCTION:
            return self.suits_reduction(fusion, self.order.nodes[k])
        return self.suits_map(fusion, math.prod(self.order.nodes[k].shape), made_here)

    def suits_reduction(self, fusion: FusionGroup, n: Node) -> bool:
        """A reduction joins no routine. A map takes it if both have one space and the map can be
        walked that way; a reduction takes it if it reduces as many elements, or what is left to a
        scalar, which one workgroup must be able to do."""
        shape = n.inputs[0].shape
        if fusion.form.routine is not None:
            return False
        if not sizes.same(math.prod(shape), fusion.form.size):
            return bool(fusion.form.axes) and size_hint(fusion.form.size) <= ONE_WORKGROUP_ELEMENTS
        if fusion.form.axes:
            return True
        axes = tuple(d for d, _ in enumerate(shape) if d in n.attrs[0])
        return sizes.same(shape, fusion.form.space) and self.balanced(fusion.form.space, axes)

    def suits_map(self, fusion: FusionGroup, size: int, made_here: bool) -> bool:
        """A map of `size` elements joins a routine as its epilogue, and a map of its own size. It
        joins a reduction over as many elements if they can be walked that way, and with little
        lost if it only reads the same. What it reads from a kernel it may follow there, smaller."""
        if fusion.form.routine is not None:
            return made_here and sizes.same(size, fusion.form.size)
        if fusion.form.axes and sizes.same(size, fusion.form.size):
            return self.balanced(fusion.form.space, fusion.form.axes) and (
                made_here or size_hint(fusion.form.size) <= ONE_WORKGROUP_ELEMENTS
            )
        return sizes.same(size, fusion.form.size) or made_here

    def balanced(self, space: Shape, axes: tuple[int, ...]) -> bool:
        """Whether a map over `space` loses little when it is walked as a reduction over `axes` is:
        on the CPU if these are the last in memory, on the GPU if there are also many results."""
        long = [d for d, n in enumerate(space) if type(n) is not int or n != 1]
        last = bool(long) and long[-1] in axes
        if self.limits.host:
            return last
        results = math.prod(n for d, n in enumerate(space) if d not in axes)
        return size_hint(math.prod(space)) <= LOOP_ORDER_MIN_ELEMENTS or (
            last and size_hint(results) >= 64
        )

    def suits_union(self, a: FusionGroup, b: FusionGroup) -> bool:
        """Two groups over as many elements may be one, unless one is a routine, or one reduces and
        the other can't be walked that way or writes over an input."""
        x, y = a.form, b.form
        if x.routine or y.routine or not sizes.same(x.size, y.size):
            return False
        if not x.axes and not y.axes:
            return True
        members = {*a.members, *b.members}
        if not self.stored.drawn.isdisjoint(members):
            return False
        return self.balanced(x.space, x.axes or y.axes) and not self.replacing & members

    def check(self, fusion: FusionGroup, own: int) -> None:
        """Raises _FusionError if a kernel is too much for the device, or if the groups `own` (bits)
        as one would run both before and after another."""
        form = fusion.form
        if self.bindings(fusion) > self.limits.storage_buffers:
            raise _FusionError
        if form.fits is None:
            form.fits = not self.too_long(form) and (form.routine is None or self.stores(form))
        if not form.fits:
            raise _FusionError
        for buffer in fusion.buffers:
            home = self.home.get(buffer)
            if home is not None and not own >> home.number & 1 and home.before & own:
                raise _FusionError

    def bindings(self, fusion: FusionGroup) -> int:
        """The buffers that it binds, at most: a member is written if a root, or if others read
        it."""
        form = fusion.form
        written = max(len(form.values), 1)
        if len(form.buffers) + written > self.limits.storage_buffers:
            inside = set(fusion.members)
            written = sum(k in self.roots or not self.users.get(k, set()) <= inside for k in inside)
        return len(form.buffers) + max(written, 1)

    def stores(self, form: KernelBuilder) -> bool:
        """Whether a routine's kernel can store its members where they are."""
        return all(
            not any(v.mask for v in where) and (not self.limits.host or views.is_contiguous(where))
            for _, where in form.values.values()
        )

    def too_long(self, form: KernelBuilder) -> bool:
        """Whether a reduction with other work would be too long for the GPU's compilers, or have
        loops in a long loop."""
        if not form.axes or len(form.values) == 1 or self.limits.host:
            return False
        code = form.code
        maps = [m for m in map(_program.index_map_of, code) if m]
        if len(code) + sum(map(len, maps)) > MAX_REDUCTION:
            return True
        return _is_long(form.space, [form.space[d] for d in form.kept]) and any(
            isinstance(i, Apply)
            and _loops(REGISTRY[i.op], [_program.dtype_of(code[a]) for a in i.args], i.dtype)
            for i in code
        )

    # --- what changes groups

    def try_add(self, g: KernelGroup, k: int) -> bool:
        """Compute node `k` in the group too, if the device takes the kernel that this makes."""
        fusion = g.fusion.copy()
        try:
            fusion.add(k)
            self.check(fusion, 1 << g.number)
        except _FusionError:
            return False
        large = (
            not self.limits.host
            and size_hint(fusion.form.size) >= REMATERIALIZE_MIN_ELEMENTS
            and k not in self.roots
        )
        values = [*fusion.form.values.values()]
        if large and values.count(values[-1]) > 1:
            return False  # it is made again so that it needn't be kept since then
        g.fusion = fusion
        self.settle(g)
        return True

    def try_union(self, a: KernelGroup, b: KernelGroup) -> bool:
        """Make one group of two, in the place of `a`."""
        if not self.suits_union(a.fusion, b.fusion):
            return False
        space = (a if a.fusion.form.axes else b).fusion.form.space
        merged = KernelGroup(a.number, self.fusion(space))
        bits = (1 << a.number) | (1 << b.number)
        try:
            for k in sorted([*a.fusion.members, *b.fusion.members]):
                merged.fusion.add(k)
            self.check(merged.fusion, bits)
        except _FusionError:
            return False
        self.groups[b.number] = None
        self.let_wait(bits, bits)
        self.settle(merged, a, b)
        return True

    def settle(self, g: KernelGroup, *replaced: KernelGroup) -> None:
        """Note what `g` now computes, reads and must wait for."""
        self.groups[g.number] = g
        for k in g.fusion.members:
            self.home[k] = g
        g.before = 0
        for buffer in g.fusion.buffers:
            home = self.home.get(buffer)
            if home is not None:
                g.before |= 1 << home.number | home.before
            readers = self.readers.setdefault(buffer, {})
            for r in (*replaced, g):
                readers.pop(r.number, None)
            readers[g.number] = g
        self.let_wait(1 << g.number, g.before)

    def readers_of(self, buffer: int) -> list[KernelGroup]:
        """The groups that read a buffer, as the program was written."""
        found = [g for g in self.readers.get(buffer, {}).values() if self.groups[g.number] is g]
        return sorted(found, key=lambda g: g.number)

    def let_wait(self, groups: int, before: int) -> None:
        """Let what waits for one of these groups wait for others too (both as bits)."""
        self.waited |= before
        if not groups & self.waited:
            return
        for g in self.groups:
            if g is not None and g.before & groups:
                g.before |= before

    def after(self, first: KernelGroup, then: KernelGroup) -> bool:
        """Have `then` run after `first`, if nothing forbids it."""
        if first is then:
            return True
        if first.before >> then.number & 1:
            return False
        then.before |= 1 << first.number | first.before
        self.let_wait(1 << then.number, then.before)
        return True

    def join(self, same: list[KernelGroup]) -> None:
        """Let the first of the groups do the work of all; none of them waits for another."""
        first, *others = same
        bits = sum(1 << g.number for g in same)
        for g in others:
            first.before |= g.before
            self.groups[g.number] = None
        self.let_wait(bits, bits | first.before)

    def ordered(self) -> list[KernelGroup]:
        """The groups, each after what it must wait for, otherwise as the program was written; on a
        GPU first those after which less memory is held. So a parameter's gradient is made when what
        it is made of is there, which then needn't be kept."""
        groups = {g.number: g for g in self.groups if g is not None}
        left = list(groups.values())
        first = {g.number: min(g.fusion.members) for g in left}
        temporary = set() if self.limits.host else self.home.keys() - self.roots
        reads = {g.number: temporary & g.fusion.buffers.keys() for g in left}
        readers: dict[int, list[KernelGroup]] = {}
        for g in left:
            for b in reads[g.number]:
                readers.setdefault(b, []).append(g)
        waiting = {b: len(some) for b, some in readers.items()}
        size = {b: size_hint(math.prod(self.order.nodes[b].shape)) for b in waiting}
        made = {g.number: sum(size.get(k, 0) for k in g.fusion.members) for g in left}

        def grows(g: KernelGroup) -> bool:
            """Whether more is held after a group, which frees its share of what others read."""
            return made[g.number] > sum(size[b] / waiting[b] for b in reads[g.number])

        done, out = 0, []
        alive = sum(1 << g.number for g in left)
        at_once: list[tuple[int, int]] = []  # those that are ready, first what the program does
        growing: list[tuple[int, int]] = []  # those of them after which more is held
        later: dict[int, list[KernelGroup]] = {}  # by one of the groups that they wait for

        def look(some: Iterable[KernelGroup]) -> None:
            for g in some:
                last = (g.before & alive & ~done).bit_length() - 1
                if last < 0:
                    heapq.heappush(growing if grows(g) else at_once, (first[g.number], g.number))
                else:
                    later.setdefault(last, []).append(g)

        look(left)
        while at_once or growing:
            _, k = heapq.heappop(at_once or growing)
            if done >> k & 1:  # it was in both
                continue
            out.append(groups[k])
            done |= 1 << k
            for b in reads[k]:
                waiting[b] -= 1
            look(later.pop(k, ()))
            for h in {h.number: h for b in reads[k] for h in readers[b]}.values():
                if not (done >> h.number & 1 or h.before & alive & ~done or grows(h)):
                    heapq.heappush(at_once, (first[h.number], h.number))
        assert len(out) == len(left), "kernels wait for one another"
        return out
