"""Rewrites of graphs with several matrix products: sibling products as one, rematerialization."""

from __future__ import annotations

import functools
import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from pyframe.core import op as ops
from pyframe.core.limits import Limits
from pyframe.core.node import Node, toposort
from pyframe.core.op import CONST, ELEMENTWISE, EXTERN, MOVEMENT, REGISTRY, Op
from pyframe.core.sizes import is_symbolic
from pyframe.graph.fuse import GPU_RECOMPUTE_LIMIT, REMATERIALIZE_MIN_ELEMENTS, resolve_view

COLUMNS = {"product": 2, "packed": 0}  # by the kernel: the dim of weights that columns come of


@functools.cache
def concat_gemm_op(name: str, n: int) -> Op:
    """Op `name` of an operand and of `n` weights, whose columns stand beside each other."""
    one = REGISTRY[name]
    first, *weight = one.inputs

    def each(args: Sequence[Any]) -> list[tuple[Any, ...]]:
        rest = args[1 : 1 + n * len(weight)]
        return [(args[0], *rest[i::n], *args[1 + len(rest) :]) for i in range(n)]

    def infer(*args: Any) -> Any:
        found = [one.infer(*a) for a in each(args)]  # type: ignore[misc]
        (shape, dtype), *_ = found
        return (*shape[:2], sum(shape[2] for shape, _ in found)), dtype

    def by_one(*args: Any) -> Any:
        inputs = 1 + len(weight)
        return ops.CAT([Op.run(one, a[:inputs], a[inputs:]) for a in each(args)], 2)

    return Op(
        f"{name}{n}", EXTERN, " ".join([first, *[f"{w}{i}" for w in weight for i in range(n)]]),
        " ".join(one.attrs), infer=infer, kernel=one.kernel, routine=f"beside.{name}",
        flops=one.flops,
        numpy=lambda *args: np.concatenate([one.numpy(*a) for a in each(args)], 2),  # type: ignore[misc]
        fallback=by_one,
    )  # fmt: skip


def fuse_sibling_gemms(
    order: Sequence[Node],
    roots: Sequence[Node],
    limits: Limits,
    few: int,
    changing: set[int] | None,
) -> Sequence[Node]:
    """The graph with products of one operand, of `few` rows at most, as one, where what follows on
    them is computed by kernels that come anyway: a result that is asked for would need one of its
    own. `changing` are the constants that have other values in other runs; None: all."""
    users: dict[int, list[Node]] = {}
    asked = {id(n) for n in roots}
    found: dict[Any, list[Node]] = {}
    same: dict[int, int] = {}  # for each node the first that is computed alike
    first: dict[Any, int] = {}
    for n in order:
        fixed = changing is not None and id(n) not in changing
        if n.op is None or (not fixed if n.op is CONST else n.data is not None):
            same[id(n)] = id(n)
            continue
        alike = (n.op, str(n.attrs), n.shape, n.dtype, *[same[id(i)] for i in n.inputs])
        same[id(n)] = first.setdefault(alike, id(n))
        for i in n.inputs:
            users.setdefault(id(i), []).append(n)
        if _is_few(n, few) and not (limits.portable and n.shape[1] > 1):
            x, *weight = n.inputs
            (base, at), d = resolve_view(x), COLUMNS[str(n.op.kernel)]
            sides = [(*w.shape[:d], *w.shape[d + 1 :]) for w in weight]
            key = (n.op, n.attrs, n.dtype, same[id(base)], at, *sides)
            found.setdefault(key, []).append(n)
    changed = False
    for some in found.values():
        ends = [n for n in some if id(n) not in asked and asked.isdisjoint(_after(n, users, True))]
        while len(ends) > 1:
            fit = _that_fit(ends, limits.storage_buffers)
            ends = ends[len(fit) :]
            if len(fit) > 1:
                _join(fit)
                changed = True
    return toposort(roots) if changed else order


def _is_few(n: Node, few: int) -> bool:
    """Whether a node is a product of few rows with weights that are there."""
    return (
        n.data is None
        and n.op is not None
        and n.op.kernel in COLUMNS
        and n.op.name[-1:].isalpha()
        and not is_symbolic(n.shape)
        and n.shape[0] == 1
        and n.shape[1] <= few
        and all(resolve_view(w)[0].data is not None for w in n.inputs[1:])
    )


def _that_fit(some: Sequence[Node], most: int) -> Sequence[Node]:
    """The first of the products, whose weights one kernel can bind beside the rest."""
    bound: set[int] = set()
    for k, n in enumerate(some):
        bound |= {id(resolve_view(w)[0]) for w in n.inputs[1:]}
        if len(bound) + 2 > most:
            return some[: max(k, 1)]
    return some


def _join(some: Sequence[Node]) -> None:
    """Make one product of these, of which each then is a part."""
    one, sizes = some[0], [n.shape[2] for n in some]
    assert one.op is not None
    weights = [w for each in zip(*[n.inputs[1:] for n in some], strict=True) for w in each]
    shape = (1, one.shape[1], sum(sizes))
    op = concat_gemm_op(one.op.name, len(some))
    joint = Node(op, (one.inputs[0], *weights), one.attrs, shape, one.dtype, one.device)
    part = REGISTRY["slice"]
    for n, at in zip(some, np.cumsum([0, *sizes]).tolist(), strict=False):
        n.op, n.attrs, n.inputs = part, ((0, 0, at), n.shape, (1, 1, 1)), (joint,)


# --- what is made a second time


def rematerialize(order: Sequence[Node], roots: Sequence[Node]) -> Sequence[Node]:
    """Rematerialization: compute an activation again for the gradient of a weight, from the
    product's result that is kept anyway, so that it need not live from forward to backward."""
    users: dict[int, list[Node]] = {}
    for n in order:
        for i in n.inputs if n.data is None else ():
            users.setdefault(id(i), []).append(n)
    read: dict[int, list[Node]] = {}  # by what large matrices show: the products that read it
    value: dict[int, Node] = {}
    asked = {id(n) for n in roots}
    for n in order:
        if n.data is None and n.op is not None and n.op.kernel == "product":
            for x in n.inputs:
                base = resolve_view(x)[0]
                made = base.data is None and base.op is not None and base.op.kind == ELEMENTWISE
                large = (
                    not is_symbolic(x.shape)
                    and x.shape[0] == 1
                    and math.prod(x.shape) >= REMATERIALIZE_MIN_ELEMENTS
                )
                if made and large and math.prod(base.shape) == math.prod(x.shape):
                    read.setdefault(id(base), []).append(n)
                    value[id(base)] = base
    changed = False
    for k, products in read.items():
        base, (first, *more) = value[k], products
        inside, sources = _between(base)
        of = [s for s in sources if 2 * math.prod(s.shape) > math.prod(base.shape)]
        if not more or k in asked or len(inside) > 2 * GPU_RECOMPUTE_LIMIT or len(of) != 1:
            continue
        later = _after(first, users, False)
        if not all(id(n) in later for n in more) or later.isdisjoint(
            _after(of[0], users, maps=True)
        ):
            continue
        copies: dict[int, Node] = {}
        for n in more:
            n.inputs = tuple(
                [_copied(i, copies) if resolve_view(i)[0] is base else i for i in n.inputs]
            )
        changed = True
    return toposort(roots) if changed else order


def _between(n: Node) -> tuple[set[int], list[Node]]:
    """The nodes that `n` is computed of by maps and movement alone, and where these begin."""
    inside: set[int] = set()
    sources: dict[int, Node] = {}
    todo = [n]
    while todo:
        n = todo.pop()
        if _is_map(n):
            inside.add(id(n))
            todo += [i for i in n.inputs if id(i) not in inside]
        else:
            sources[id(n)] = n
    return inside, [*sources.values()]


def _is_map(n: Node) -> bool:
    """Whether a node is computed by an elementwise op, or by movement."""
    op = n.op
    return (
        n.data is None and op is not None and op.kind in (ELEMENTWISE, MOVEMENT) and op is not CONST
    )


def _after(n: Node, users: Mapping[int, list[Node]], maps: bool) -> set[int]:
    """The ids of what is computed of `n`, by `maps` alone or by anything."""
    found: set[int] = set()
    todo = [n]
    while todo:
        for u in users.get(id(todo.pop()), ()):
            if id(u) not in found and (_is_map(u) or not maps):
                found.add(id(u))
                todo.append(u)
    return found


def _copied(n: Node, copies: dict[int, Node]) -> Node:
    """A node that is computed as `n` is, of the same values."""
    if not _is_map(n):
        return n
    if id(n) not in copies:
        inputs = tuple([_copied(i, copies) for i in n.inputs])
        copies[id(n)] = Node(n.op, inputs, n.attrs, n.shape, n.dtype, n.device)
    return copies[id(n)]
