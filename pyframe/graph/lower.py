"""From what was called to what a device runs: the one place where an op becomes others.

A Node says what was called, a convolution or a pooling, through recording and capture. When its
graph is scheduled, what the target has no kernel for is computed by the op's decomposition, whose
ops are traced as they are called, but in Nodes alone: without gradients, and nothing waits for
them.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from pyframe.core import dispatch as _dispatch, dtypes as dt, sizes
from pyframe.core.devices import device as Device
from pyframe.core.dispatch import lowers, run_decomposition
from pyframe.core.limits import Limits
from pyframe.core.modes import mode
from pyframe.core.node import Node, toposort
from pyframe.core.op import MOVEMENT, REGISTRY, Op


class _Lowering:
    """An Interceptor of ops that are called while a graph is lowered for these limits."""

    replays = orders = False

    def __init__(self, limits: Limits) -> None:
        self.limits = limits
        self.within: Op | None = None

    def run(
        self, op: Op, inputs: tuple[Any, ...], attrs: tuple[Any, ...], nodes: tuple[Node, ...],
        shape: tuple[int, ...], dtype: dt.dtype, device: Device,
    ) -> Any:  # fmt: skip
        """A Node, or where there is no kernel for it those of its decomposition."""
        out = self.lowered(op, inputs, attrs, nodes, dtype)
        if out is None:
            out = _dispatch.tensor_from_node(Node(op, nodes, attrs, shape, dtype, device))
            if op.alias:
                out._share(inputs[0], op, attrs)
        return out

    def lowered(
        self, op: Op, inputs: tuple[Any, ...], attrs: tuple[Any, ...], nodes: tuple[Node, ...],
        dtype: dt.dtype,
    ) -> Any:  # fmt: skip
        """What an op becomes; None where it stays what it is."""
        if lowers(op, nodes, attrs, dtype, self.limits):
            return run_decomposition(op, inputs, attrs)
        if op.lowering is None or self.limits.host or op is self.within:
            return None
        before, self.within = self.within, op  # whose rule asks for its kernel
        try:
            return op.lowering(self.limits, *inputs, *attrs)
        finally:
            self.within = before

    def _ignore(self, *what: Any) -> None:
        """Nothing waits for what is made here."""

    on_operand = on_alias_changed = on_grad_access = due = made = placed = _ignore

    def __enter__(self) -> _Lowering:
        """The thread has no other modes meanwhile than those that it began with."""
        self.before = vars(mode).copy()
        vars(mode).clear()
        mode.grad, mode.records, mode.capture = False, False, self  # type: ignore[assignment]
        return self

    def __exit__(self, *exc: object) -> None:
        vars(mode).clear()
        vars(mode).update(self.before)


def lower(
    order: Sequence[Node], roots: Sequence[Node], limits: Limits
) -> tuple[Sequence[Node], Sequence[Node]]:
    """The graph in ops that the target has kernels for: its nodes and roots. In the place of a root
    that shows all of another value stands that value, of another shape."""
    if limits.host and not limits.portable:  # its ops are decomposed when they are called
        return order, roots
    some = [
        n for n in order if (op := n.op) is not None
        and ((op.fallback and lowers(op, n.inputs, n.attrs, n.dtype, limits))
             or (op.lowering and not limits.host))
        and n.data is None
    ]  # fmt: skip
    if not some:
        return order, roots
    instead: dict[int, Node] = {}
    changed = False
    asked = {id(n) for n in roots}
    with _Lowering(limits) as lowering:
        for n in some:
            inputs = tuple(map(_dispatch.tensor_from_node, n.inputs))
            out = lowering.lowered(n.op, inputs, n.attrs, n.inputs, n.dtype)  # type: ignore[arg-type]
            if out is None:
                continue
            made, changed = out._value(), True
            if id(n) in asked:
                base = made
                while _shows_all(base):
                    (base,) = base.inputs
                if base.op is not None and base.op.kind == MOVEMENT:
                    made = Node(REGISTRY["copy"], (made,), (), n.shape, n.dtype, n.device)
                elif base is not made:
                    instead[id(n)] = base
            n.op, n.attrs, n.inputs = made.op, made.attrs, made.inputs
    if not changed:
        return order, roots
    roots = [instead.get(id(n), n) for n in roots]
    return toposort(roots), roots


def _shows_all(n: Node) -> bool:
    """Whether a node is all of another value, in its order."""
    name = n.op and n.op.name
    return name == "reshape" or (name == "slice" and sizes.same(n.shape, n.inputs[0].shape))
