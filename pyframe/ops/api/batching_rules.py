"""Batching rules: how an op runs over a first dim more, so that `vmap` runs once for all examples.

An op names its rule as `batch=`. Elementwise ops, reductions and views need none: `batched` knows
what each of these kinds does. Any other op without a rule runs for each example by itself, and the
results are stacked.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, NamedTuple

from pyframe.core.dispatch import apply
from pyframe.core.node import Node
from pyframe.core.op import ELEMENTWISE, MOVEMENT, REDUCTION, Op
from pyframe.ops.shape import join, movement as mv
from pyframe.tensor import Tensor

Shape = tuple[int, ...]


class BatchedCall(NamedTuple):
    """A call of `op` of which some inputs are batches and the others are shared by all examples."""

    op: Op
    xs: list[Any]
    flags: list[bool]  # which of `xs` are batches
    attrs: tuple[Any, ...]
    nodes: Any  # the inputs of one example
    shape: Shape  # of an example's result
    size: int  # how many examples

    def all(self) -> list[Tensor]:
        """The inputs with a first dim each."""
        return [
            x if f else mv.expand(x, (self.size, *x.shape))
            for x, f in zip(self.xs, self.flags, strict=True)
        ]

    def with_rank(self, i: int, rank: int) -> Tensor:
        """Input `i`; of a batch the examples get `rank` dims, by dims of 1 before theirs."""
        x: Tensor = self.xs[i]
        if not self.flags[i]:
            return x
        size, *shape = x.shape
        if len(shape) == rank:
            return x
        return mv.reshape(x, (size, *(1,) * (rank - len(shape)), *shape))

    def aligned(self) -> tuple[Tensor, ...]:
        """The inputs, of batches the examples' dims aligned at the end, as in broadcasting."""
        rank = max(len(n.shape) for n in self.nodes)
        return tuple([self.with_rank(i, rank) for i in range(len(self.xs))])

    def movement_attrs(self) -> tuple[Any, ...]:
        """The attributes with which a movement does the same to each example."""
        return _batched_attrs(self.op, self.attrs, self.nodes[0].shape, self.size)


def batched(
    op: Op, xs: list[Any], flags: list[bool], attrs: tuple[Any, ...], nodes: Any, shape: Shape
) -> Tensor:
    """`op` on batches (those whose flag is set) and what all examples share: a batch of results.
    `nodes` and `shape` are those of an example."""
    size = next(x for x, f in zip(xs, flags, strict=True) if f).shape[0]
    c = BatchedCall(op, xs, flags, attrs, nodes, shape, size)
    if op.batch is not None:
        return op.batch(c)
    if op.kind == ELEMENTWISE:
        return aligned(c)
    if op.kind == REDUCTION:
        return along_dims(c)
    if op.kind == MOVEMENT:
        return apply(op, (xs[0],), c.movement_attrs())
    return loop_fallback(c)


def aligned(c: BatchedCall) -> Tensor:
    """Ops whose inputs broadcast, or whose first dims are a batch anyway."""
    return apply(c.op, c.aligned(), c.attrs)


def fold_batch_dim(c: BatchedCall) -> Tensor:
    """Ops on rows of their own: those of all examples, one after the other."""
    xs = [mv.flatten(x, 0, 1) for x in c.all()]
    return mv.reshape(apply(c.op, tuple(xs), c.attrs), (c.size, *c.shape))


def along_dim(c: BatchedCall) -> Tensor:
    """Ops along a dim, their first attribute (0-d examples have none)."""
    if not all(n.shape for n in c.nodes):
        return loop_fallback(c)
    return apply(c.op, tuple(c.all()), (c.attrs[0] + 1, *c.attrs[1:]))


def along_dims(c: BatchedCall) -> Tensor:
    """Ops of one input along dims, their first attribute."""
    return apply(c.op, (c.xs[0],), (_next(c.attrs[0]), *c.attrs[1:]))


def loop_fallback(c: BatchedCall) -> Tensor:
    """Any op: one example after the other."""
    return join.stack([
        apply(c.op, tuple([x[i] if f else x for x, f in zip(c.xs, c.flags, strict=True)]), c.attrs)
        for i in range(c.size)
    ])  # fmt: skip


def batched_chain(chain: Any, node: Any, size: int) -> tuple[Any, ...]:
    """The view chain (see Tensor) of `node`, for a batch of it."""
    out, n = [], node
    for op, attrs in chain:
        out.append((op, _batched_attrs(op, attrs, n.shape, size)))
        shape, d = op.infer(n, *attrs)
        n = Node(None, (), (), shape, d, node.device)
    return tuple(out)


def _batched_attrs(op: Op, attrs: tuple[Any, ...], shape: Shape, size: int) -> tuple[Any, ...]:
    assert isinstance(op, mv.Movement)
    return attrs if op.batch_attrs is None else op.batch_attrs(attrs, shape, size)


def _next(dims: Iterable[int]) -> Shape:
    return tuple([d + 1 for d in dims])


def into_dim(x: Tensor, dim: int) -> Tensor:
    """A batch, (batch, ..., n, ...) as (..., batch * n, ...), n being `dim` of an example."""
    x = mv.movedim(x, 0, dim)
    shape = x.shape
    return mv.reshape(x, (*shape[:dim], -1, *shape[dim + 2 :]))


def out_of_dim(x: Tensor, dim: int, size: int) -> Tensor:
    """What `into_dim` undoes: (..., batch * n, ...) as (batch, ..., n, ...)."""
    shape = x.shape
    return mv.movedim(mv.reshape(x, (*shape[:dim], size, -1, *shape[dim + 1 :])), dim, 0)
