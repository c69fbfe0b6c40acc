"""From recorded nodes to a Program: what fuses, in which order, in which buffers.

Elementwise chains and movement join the kernel that consumes them; a reduction or routine computes
its operands as it loads them. A value gets a buffer of its own if a live tensor needs it, if it is
the result of a reduction or routine, or if recomputing it would cost more than storing it.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from pyframe.dtypes import dtype as DType
from pyframe.graph import view as views
from pyframe.graph.node import Node
from pyframe.graph.program import Apply, Expr, Kernel, Load, Param, Program, Step, Valid
from pyframe.ops.op import CONST, ELEMENTWISE, MOVEMENT, REDUCTION, ROUTINE, Op

PARAM_ALIGN = 256  # the offset alignment that every WebGPU device allows for a uniform binding
MAX_CODE = 200  # instructions in one expression: beyond it a value is stored instead


def toposort(roots: Sequence[Node]) -> list[Node]:
    """The nodes that must be computed for `roots`, each after its inputs."""
    order: list[Node] = []
    seen: set[int] = set()
    stack: list[tuple[Node, bool]] = [(n, False) for n in reversed(roots)]
    while stack:
        node, done = stack.pop()
        if done:
            order.append(node)
        elif id(node) not in seen:
            seen.add(id(node))
            stack.append((node, True))
            if node.data is None:
                stack.extend((i, False) for i in reversed(node.inputs) if id(i) not in seen)
    return order


def structure(order: Sequence[Node], roots: Sequence[Node]) -> tuple[Any, ...]:
    """What decides the Program: ops, attributes, shapes, dtypes and links, but no values."""
    number = {id(n): i for i, n in enumerate(order)}
    nodes = tuple(
        (n.shape, n.dtype)
        if n.data is not None
        else (CONST, n.dtype)
        if n.op is CONST
        else (n.op, n.attrs, n.shape, n.dtype, *[number[id(i)] for i in n.inputs])
        for n in order
    )
    return nodes, tuple(number[id(n)] for n in roots)


class _Builder:
    """Builds the instructions of one kernel's operands."""

    def __init__(self, stored: set[int]) -> None:
        self.stored = stored
        self.bindings: list[Node] = []
        self.binding_of: dict[int, int] = {}
        self.scalars: list[Node] = []

    def operand(self, node: Node, root: bool) -> Expr:
        """The value of `node` at each of its indices; a root is computed, others may be loaded."""
        code: list[Any] = []
        memo: dict[Any, int] = {}

        def emit(instruction: Any) -> int:
            if instruction not in memo:
                memo[instruction] = len(code)
                code.append(instruction)
            return memo[instruction]

        def value(n: Node, moves: Any, top: bool = False) -> int:
            key = (id(n), moves)
            found = memo.get(key)
            if found is None:
                found = memo[key] = compute(n, moves, top)
            return found

        def compute(n: Node, moves: Any, top: bool) -> int:
            if n.op is CONST:
                return emit(Param(self._scalar(n), n.dtype))
            if n.data is not None or (id(n) in self.stored and not top):
                return emit(Load(self._bind(n), track(n.shape, moves), n.dtype))
            op = n.op
            assert op is not None
            if op.kind == MOVEMENT:
                inner = value(n.inputs[0], ((op, n.attrs), moves))
                if op.name == "pad" and not _reads_zero(n, code[inner]):
                    valid = emit(Valid(track(n.inputs[0].shape, ((op, n.attrs), moves))))
                    fill = emit(Param(self._scalar_value(n.attrs[1], n), n.dtype))
                    return emit(Apply("where", (valid, inner, fill), (), n.dtype))
                return inner
            args = tuple(value(i, _broadcast(i, n, moves)) for i in n.inputs)
            index = track(n.shape, moves) if getattr(op, "uses_index", False) else None
            attrs = () if index is not None else n.attrs
            return emit(Apply(op.name, args, attrs, n.dtype, index))

        last = value(node, None, root)
        if last != len(code) - 1:  # the value must be the last instruction
            code.append(Apply("copy", (last,), (), node.dtype))
        return Expr(node.shape, tuple(code), node.dtype)

    def _bind(self, n: Node) -> int:
        b = self.binding_of.get(id(n))
        if b is None:
            b = self.binding_of[id(n)] = len(self.bindings)
            self.bindings.append(n)
        return b

    def _scalar(self, n: Node) -> int:
        for i, s in enumerate(self.scalars):
            if s is n:
                return i
        self.scalars.append(n)
        return len(self.scalars) - 1

    def _scalar_value(self, v: Any, like: Node) -> int:
        return self._scalar(Node(CONST, (), (v,), (), like.dtype, like.device))


def track(shape: tuple[int, ...], moves: Any) -> views.Tracker:
    """The tracker of a value of `shape` after `moves`, innermost first."""
    t = views.contiguous(shape)
    while moves is not None:
        (op, attrs), moves = moves
        t = op.view(t, *attrs)
    return t


def _broadcast(i: Node, n: Node, moves: Any) -> Any:
    from pyframe.ops.movement import expand_op

    return moves if i.shape == n.shape else ((expand_op, (n.shape,)), moves)


def _reads_zero(pad: Node, inner: Any) -> bool:
    return pad.attrs[1] == 0 and isinstance(inner, Load)


def _cost(n: Node, cost: dict[int, int], stored: set[int]) -> int:
    """Instructions that computing `n` inside a consumer takes."""
    if n.data is not None or id(n) in stored or n.op is CONST:
        return 1
    own = 3 if n.op is not None and n.op.name == "pad" else 1
    return min(own + sum(cost[id(i)] for i in n.inputs), 10**6)


def _choose_stored(order: Sequence[Node], roots: Sequence[Node], max_inputs: int) -> set[int]:
    """ids of the nodes that get a buffer."""
    stored = {id(n) for n in roots if n.data is None}
    users: dict[int, int] = {}
    for n in order:
        if n.data is None:
            for i in n.inputs:
                users[id(i)] = users.get(id(i), 0) + 1
    cost: dict[int, int] = {}
    leaves: dict[int, frozenset[int]] = {}
    for n in order:
        own = frozenset((id(n),))
        if n.data is not None:
            cost[id(n)], leaves[id(n)] = 1, own
            continue
        assert n.op is not None
        if n.op is CONST:
            cost[id(n)], leaves[id(n)] = 1, frozenset()
            continue
        reads: frozenset[int] = frozenset().union(*[leaves[id(i)] for i in n.inputs])
        if len(reads) > max_inputs:
            for i in sorted(n.inputs, key=lambda i: -len(leaves[id(i)])):
                base = _computed_base(i)
                if base is None or id(base) in stored:
                    continue
                stored.add(id(base))
                cost[id(base)], leaves[id(base)] = 1, frozenset((id(base),))
                _refresh(order, stored, cost, leaves, n)
                reads = frozenset().union(*[leaves[id(i)] for i in n.inputs])
                if len(reads) <= max_inputs:
                    break
        c = _cost(n, cost, stored)
        if n.op.kind in (REDUCTION, ROUTINE) or (
            n.op.kind == ELEMENTWISE and ((users.get(id(n), 0) > 1 and c > 4) or c > MAX_CODE)
        ):
            stored.add(id(n))
        if id(n) in stored:
            cost[id(n)], leaves[id(n)] = 1, own
        else:
            cost[id(n)], leaves[id(n)] = c, reads
    return stored


def _computed_base(n: Node) -> Node | None:
    """The value that movement shows, if it is still to be computed."""
    while n.data is None and n.op is not None and n.op.kind == MOVEMENT:
        n = n.inputs[0]
    return None if n.data is not None or n.op is CONST else n


def _refresh(
    order: Sequence[Node], stored: set[int], cost: dict[int, int],
    leaves: dict[int, frozenset[int]], until: Node,
) -> None:  # fmt: skip
    for n in order:
        if n is until:
            return
        if n.data is None and n.op is not CONST and id(n) not in stored:
            leaves[id(n)] = frozenset().union(*[leaves[id(i)] for i in n.inputs])
            cost[id(n)] = _cost(n, cost, stored)


def schedule(
    order: Sequence[Node], roots: Sequence[Node], storage_buffers: int
) -> tuple[Program, list[Node], list[Node]]:
    """(Program, the nodes of its inputs, the constants that fill its params, in order)."""
    stored = _choose_stored(order, roots, storage_buffers - 1)
    inputs = [n for n in order if n.data is not None]
    slot_of = {id(n): i for i, n in enumerate(inputs)}
    slot_bytes = [_nbytes(n) for n in inputs]
    outputs = [n for n in roots if n.data is None]
    for n in outputs:
        slot_of[id(n)] = len(slot_bytes)
        slot_bytes.append(_nbytes(n))

    planned: list[tuple[Kernel, list[Node], Node, list[Node]]] = []
    for n in order:
        if id(n) not in stored:
            continue
        builder = _Builder(stored)
        op: Op = n.op  # type: ignore[assignment]
        body, attrs = op.name, n.attrs
        operands: tuple[Expr, ...]
        if op.kind == ROUTINE:
            operands = tuple(builder.operand(i, False) for i in n.inputs)
        elif op.kind == REDUCTION:
            shape = n.inputs[0].shape
            kinds = [int(d in n.attrs[0]) for d in range(len(shape))]
            operand, kinds = _collapsed(builder.operand(n.inputs[0], False), kinds)
            operands = (operand,)
            attrs = (tuple(d for d, k in enumerate(kinds) if k), False)
        else:
            body, attrs = "map", ()
            operands = (_collapsed(builder.operand(n, True))[0],)
        kernel = Kernel(
            body, operands, attrs, n.shape, n.dtype, len(builder.bindings), len(builder.scalars)
        )
        planned.append((kernel, builder.bindings, n, builder.scalars))

    last_use = {id(b): at for at, (_, reads, _, _) in enumerate(planned) for b in reads}
    kernels: list[Kernel] = []
    kernel_of: dict[Kernel, int] = {}
    steps: list[Step] = []
    params: list[tuple[int, DType]] = []
    constants: list[Node] = []
    param_bytes = 0
    free: dict[int, list[int]] = {}
    temporary: set[int] = set()
    for at, (kernel, reads, node, scalars) in enumerate(planned):
        if id(node) not in slot_of:
            size = _nbytes(node)
            spare = free.get(size)
            if spare:
                slot_of[id(node)] = spare.pop()
            else:
                slot_of[id(node)] = len(slot_bytes)
                slot_bytes.append(size)
            temporary.add(id(node))
        if kernel not in kernel_of:
            kernel_of[kernel] = len(kernels)
            kernels.append(kernel)
        offset = -1
        if scalars:
            offset = param_bytes
            params.extend((offset + 4 * w, s.dtype) for w, s in enumerate(scalars))
            constants.extend(scalars)
            param_bytes += -(-4 * len(scalars) // PARAM_ALIGN) * PARAM_ALIGN
        slots = (*[slot_of[id(b)] for b in reads], slot_of[id(node)])
        steps.append(Step(kernel_of[kernel], slots, offset))
        for b in reads:  # a temporary may be reused once its last reader has run
            if id(b) in temporary and last_use[id(b)] == at:
                temporary.discard(id(b))
                free.setdefault(_nbytes(b), []).append(slot_of[id(b)])
    program = Program(kernels, steps, slot_bytes, len(inputs), len(outputs), params, param_bytes)
    return program, inputs, constants


def _nbytes(n: Node) -> int:
    return max(-(-math.prod(n.shape) * n.dtype.device_itemsize // 4) * 4, 4)


def _collapsed(e: Expr, kinds: Sequence[int] | None = None) -> tuple[Expr, list[int]]:
    """The same map over as few dims as its trackers allow, so that indices are cheap."""
    where = [i for i in e.code if not isinstance(i, Param) and _tracker(i)]
    new, shape, kinds = views.collapse([_tracker(i) for i in where], e.shape, kinds)
    it = iter(new)
    code: list[Any] = []
    for i in e.code:
        if isinstance(i, (Load, Valid)):
            code.append(i._replace(tracker=next(it)))
        elif isinstance(i, Apply) and i.index:
            code.append(i._replace(index=next(it)))
        else:
            code.append(i)
    return Expr(shape, tuple(code), e.dtype), kinds


def _tracker(i: Any) -> Any:
    return i.index if isinstance(i, Apply) else i.tracker
