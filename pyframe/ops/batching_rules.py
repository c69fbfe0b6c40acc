"""How each op runs over a first dim more, which makes `vmap` (see batching.py) one run for all.

Elementwise ops, reductions and views have one rule each; RULES has those of routines. A routine
without one runs for each example by itself, and their results are stacked.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from typing import Any, NamedTuple

from pyframe.core.dispatch import apply
from pyframe.core.node import Node
from pyframe.core.op import ELEMENTWISE, MOVEMENT, REDUCTION, Op
from pyframe.ops import elementwise as el, movement as mv
from pyframe.ops.factor import unpacked
from pyframe.ops.matmul import matmul
from pyframe.tensor import Tensor

Shape = tuple[int, ...]


def over_batch(
    op: Op, xs: list[Any], flags: list[bool], attrs: tuple[Any, ...], nodes: Any, shape: Shape
) -> Tensor:
    """`op` on batches (those whose flag is set) and what all examples share: a batch of results.
    `nodes` and `shape` are those of an example."""
    size = next(x for x, f in zip(xs, flags, strict=True) if f)._node.shape[0]
    call = _Call(op, xs, flags, attrs, nodes, shape, size)
    if op.kind == ELEMENTWISE:
        return _aligned(call)
    if op.kind == REDUCTION:
        return apply(op, (xs[0],), (_next(attrs[0]), *attrs[1:]))
    if op.kind == MOVEMENT:
        x = xs[0]
        if op.name == "expand":  # new dims come between the batch and the example's
            x = _with_rank(x, len(shape))
        elif op.name == "as_strided":
            x = x.contiguous()
        return apply(op, (x,), _movement_attrs(op, attrs, nodes[0].shape, size))
    if op.name.startswith("cat"):
        return apply(op, tuple(call.all()), (attrs[0] + 1, attrs[1]))
    return RULES.get(op.name, _packed if op.pieces else _each)(call)


class _Call(NamedTuple):
    op: Op
    xs: list[Any]
    flags: list[bool]
    attrs: tuple[Any, ...]
    nodes: Any
    shape: Shape
    size: int

    def all(self) -> list[Tensor]:
        """The inputs with a first dim each."""
        return [
            x if f else mv.expand(x, (self.size, *x._node.shape))
            for x, f in zip(self.xs, self.flags, strict=True)
        ]


def _next(dims: Iterable[int]) -> Shape:
    return tuple([d + 1 for d in dims])


def _with_rank(x: Tensor, rank: int) -> Tensor:
    """A batch whose examples have `rank` dims, by dims of 1 before theirs."""
    size, *shape = x._node.shape
    if len(shape) == rank:
        return x
    return mv.reshape(x, (size, *(1,) * (rank - len(shape)), *shape))


def _aligned(c: _Call) -> Tensor:
    """Ops whose inputs broadcast, or whose first dims are a batch anyway."""
    rank = max(len(n.shape) for n in c.nodes)
    xs = [_with_rank(x, rank) if f else x for x, f in zip(c.xs, c.flags, strict=True)]
    return apply(c.op, tuple(xs), c.attrs)


def _merged(c: _Call) -> Tensor:
    """Ops on rows of their own: those of all examples, one after the other."""
    xs = [mv.flatten(x, 0, 1) for x in c.all()]
    return mv.reshape(apply(c.op, tuple(xs), c.attrs), (c.size, *c.shape))


def _shifted(c: _Call) -> Tensor:
    """Ops along a dim, their first attribute (0-d examples have none to shift)."""
    if not all(n.shape for n in c.nodes):
        return _each(c)
    return apply(c.op, tuple(c.all()), (c.attrs[0] + 1, *c.attrs[1:]))


def _each(c: _Call) -> Tensor:
    """Any op: one example after the other."""
    return mv.stack([
        apply(c.op, tuple([x[i] if f else x for x, f in zip(c.xs, c.flags, strict=True)]), c.attrs)
        for i in range(c.size)
    ])  # fmt: skip


def _movement_attrs(op: Op, attrs: Any, shape: Shape, size: int) -> tuple[Any, ...]:
    """The attributes with which `op` cuts the same from each example of `shape`."""
    match op.name:
        case "reshape" | "expand":
            return ((size, *attrs[0]),)
        case "permute":
            return ((0, *_next(attrs[0])),)
        case "slice":
            return (0, *attrs[0]), (size, *attrs[1]), (1, *attrs[2])
        case "pad":
            return ((0, 0), *attrs[0]), attrs[1]
        case "diagonal":
            return attrs[0], *_next(attrs[1:])
        case "as_strided":
            sizes, strides, offset, (at, start) = attrs
            n = math.prod(shape)
            return (size, *sizes), (n, *strides), offset, ((n, *at), start)
    return attrs  # of the last dims, or of the elements


def _packed(c: _Call) -> Tensor:
    """Ops that pack their results, which have the batch as their first dim: each one's is wanted
    side by side with the others'."""
    rank = max(len(n.shape) for n in c.nodes)
    xs = [_with_rank(x, rank) if f else x for x, f in zip(c.xs, c.flags, strict=True)]
    parts = unpacked(c.op, tuple(xs), *c.attrs)
    return mv.cat([mv.reshape(p, (c.size, math.prod(p._node.shape[1:]))) for p in parts], 1)


def steps_over_batch(steps: Any, node: Any, size: int) -> tuple[Any, ...]:
    """The steps of a view (see Tensor) of `node`, for a batch of it."""
    out, n = [], node
    for op, attrs in steps:
        out.append((op, _movement_attrs(op, attrs, n.shape, size)))
        shape, d = op.infer(n, *attrs)
        n = Node(None, (), (), shape, d, node.device)
    return tuple(out)


def _product(c: _Call) -> Tensor:
    a, b = c.xs
    if c.op.name == "linear":
        b = mv.transpose(b, -1, -2)
    rank = max(len(n.shape) for n in c.nodes)
    if c.flags[1] or rank > 2:  # else the rows of all examples are one matrix
        a, b = (_with_rank(x, rank) if f else x for x, f in zip((a, b), c.flags, strict=True))
    return matmul(a, b)


def _into(x: Tensor, dim: int) -> Tensor:
    """A batch, (batch, ..., n, ...) as (..., batch * n, ...), n being `dim` of an example."""
    x = mv.movedim(x, 0, dim)
    shape = x._node.shape
    return mv.reshape(x, (*shape[:dim], -1, *shape[dim + 2 :]))


def _out_of(x: Tensor, dim: int, size: int) -> Tensor:
    shape = x._node.shape
    return mv.movedim(mv.reshape(x, (*shape[:dim], size, -1, *shape[dim + 1 :])), dim, 0)


def _convolution(a: int, b: int, out: int) -> Callable[[_Call], Tensor]:
    """Where each example has a weight of its own they are groups of one convolution: the batch
    goes into the dims `a`, `b` and `out` of the inputs and the result, those of channels."""

    def rule(c: _Call) -> Tensor:
        if b == 0 and not c.flags[1]:  # one weight for all: more images
            x, w = c.xs
            y = apply(c.op, (mv.reshape(x, (-1, *x._node.shape[2:])), w), c.attrs)
            return mv.reshape(y, (c.size, *c.shape))
        x, w = c.all()
        attrs = (*c.attrs[:-1], c.attrs[-1] * c.size)
        return _out_of(apply(c.op, (_into(x, a), _into(w, b)), attrs), out, c.size)

    return rule


def _apart(index: Tensor, rows: int, size: int) -> Tensor:
    """A batch of indices of rows as those of all batches' rows, in one line."""
    first = el.mul(el.iota((size, 1), index.device), rows).to(index.dtype)
    return mv.reshape(el.add(index, first), (-1,))


def _rows(c: _Call) -> Tensor:
    """Rows (dim 0 of x, base and source) by index. With one index for all, rows are longer."""
    at = c.op.inputs.index("index")
    *_, width = c.shape
    if not c.flags[at]:
        xs = [x if i == at else _into(x, 1) for i, x in enumerate(c.all())]
        xs[at] = c.xs[at]
        return _out_of(apply(c.op, tuple(xs), c.attrs), 1, c.size)
    xs = c.all()
    if c.op.name == "take_rows" and not c.flags[0]:
        index = mv.reshape(xs[1], (-1,))
        return mv.reshape(apply(c.op, (c.xs[0], index)), (c.size, *c.shape))
    rows = c.nodes[0].shape[0] if c.op.name != "add_rows" else c.attrs[0]
    merged = [_apart(x, rows, c.size) if i == at else mv.reshape(x, (-1, x._node.shape[-1]))
              for i, x in enumerate(xs)]  # fmt: skip
    attrs = (rows * c.size,) if c.op.name == "add_rows" else ()
    return mv.reshape(apply(c.op, tuple(merged), attrs), (c.size, *c.shape[:-1], width))


def _put(c: _Call) -> Tensor:
    base, value = c.all()
    return apply(
        c.op, (base.contiguous(), value), (steps_over_batch(c.attrs[0], c.nodes[0], c.size),)
    )


def _transform(c: _Call) -> Tensor:
    return apply(c.op, (c.xs[0],), (_next(c.attrs[0]), *c.attrs[1:]))


RULES: dict[str, Callable[[_Call], Tensor]] = {
    "matmul": _product, "linear": _product,
    "conv": _convolution(1, 0, 1), "conv_input": _convolution(1, 0, 1),
    "conv_weight": _convolution(1, 1, 0), "put": _put,
    **dict.fromkeys(["take_rows", "add_rows", "put_rows"], _rows),
    **dict.fromkeys(["fft_c2c", "fft_c2r", "fft_r2c"], _transform),
    **dict.fromkeys(
        ["softmax", "log_softmax", "take_along", "put_along", "reduce_along"], _shifted
    ),
    **dict.fromkeys(
        ["argsort", "cummax", "cumprod", "cumsum", "kth_place", "logcumsumexp", "max_pool",
         "max_pool_input", "reorder", "searchsorted", "sort_runs"], _merged,
    ),
    **dict.fromkeys(
        ["binary_cross_entropy", "fold", "igamma", "linalg_cofactors", "linalg_det", "matrix_exp",
         "polynomial", "scipy"], _aligned,
    ),
}  # fmt: skip
