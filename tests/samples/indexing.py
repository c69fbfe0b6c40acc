"""Rows of movement, indexing, creation and random numbers."""

from __future__ import annotations

from typing import Any

from .row import Row, bools, distinct, ints, normal, positive, value

X = normal(3, 4)


def move(name: str, call: Any, *shape: int, **kw: Any) -> Row:
    """A movement of one tensor, doubled so that a view is not all there is to compute."""
    return Row(name, lambda t, F, x: call(t, x) * 2, (normal(*(shape or (3, 4))),), **kw)


def parts(name: str, call: Any, *shape: int) -> Row:
    """Several parts of a tensor, told apart by their weights."""

    def run(t: Any, F: Any, x: Any) -> Any:
        return t.cat([p.reshape(-1) * (i + 1) for i, p in enumerate(call(t, x))])

    return Row(name, run, (normal(*shape),))


MOVEMENT = (
    move("diagonal", lambda t, x: t.diagonal(x, 1, 0, 2).exp(), 3, 2, 4),
    move("diagonal:below", lambda t, x: x.diagonal(-1, -1, 0)),
    move("diagonal:pad", lambda t, x: t.nn.functional.pad(x.exp(), (1, 2, 0, 1)).diagonal()),
    value("view_dtype", lambda t, F, x: x.view(t.int32) // 2, X, cpu=True),
    value("view_dtype:wider", lambda t, F, x: x.view(t.int64) // 2, X, cpu=True),
    value("view_dtype:bytes", lambda t, F, x: x.view(t.uint8), X, cpu=True),
    move("diag", lambda t, x: t.diag(t.diag(x, 1), -2)),
    move("unfold", lambda t, x: x.unfold(0, 3, 2).exp(), 6, 2),
    move("roll", lambda t, x: t.roll(x, (2, -1), (0, 1)) + x.roll(5)),
    move("repeat_interleave", lambda t, x: x.repeat_interleave(2, 1)),
    move("repeat_interleave:each",
         lambda t, x: t.repeat_interleave(x, t.tensor([2, 0, 3]).to(x.device), 0)),
    move("moveaxis", lambda t, x: t.moveaxis(x, (0, 1), (-1, 0)).swapdims(0, 1).swapaxes(1, 2),
         2, 3, 4),
    move("ravel", lambda t, x: t.ravel(x).reshape_as(x).view_as(x.T)),
    move("copies", lambda t, x: t.t_copy(x) + t.permute_copy(x, (1, 0)) + t.view_copy(x, (4, 3))
         + t.view_copy(x.mT, (4, 3))),
    move("copies:more",
         lambda t, x: t.expand_copy(t.unsqueeze_copy(t.diagonal_copy(x), 1), (3, 3))
         + t.squeeze_copy(t.narrow_copy(x, 1, 1, 1), 1) + t.transpose_copy(x, 0, 1)[:3]),
    parts("tensor_split", lambda t, x: t.tensor_split(x, 4, 1) + x.tensor_split((1, 4), 1), 2, 6),
    parts("unbind", lambda t, x: x.unbind(1) + t.unbind_copy(x), 2, 3),
)  # fmt: skip


def at(t: Any, x: Any, *index: Any) -> Any:
    return t.tensor(index).to(x.device)


def scattered(how: str, include: bool = True) -> Row:
    """A reduction into places that several sources name, and others none."""
    return Row(
        f"reduce_along:{how}{'' if include else ':alone'}",
        lambda t, F, x, i, s: x.scatter_reduce(1, i, s, how, include_self=include),
        (distinct(3, 5), ints(0, 5, 3, 7), distinct(3, 7)),
    )


INDEXING = (
    Row("take_along", lambda t, F, x, i: t.take_along_dim(x, i, 1) * 2,
        (normal(3, 5), ints(-5, 5, 1, 4))),
    Row("take_along:flat", lambda t, F, x, i: t.take_along_dim(x, i),
        (normal(3, 5), ints(0, 9, 4))),
    Row("take_along:less", lambda t, F, x, i: t.gather(x, 0, i), (normal(3, 5), ints(0, 3, 6, 2))),
    Row("put_along", lambda t, F, x, s: x.scatter(0, at(t, x, [3, 0], [1, 4]), s) * x,
        (normal(5, 4), normal(2, 2))),
    Row("put_along:number", lambda t, F, x, i: t.scatter(x, 1, i, 2.5) * x,
        (normal(3, 5), ints(0, 5, 3, 2))),
    value("put_along:twice", lambda t, F, x, i, s: x.scatter(1, i, s), normal(3, 2),
        ints(0, 2, 3, 6), normal(3, 6)),
    Row("reduce_along", lambda t, F, x, i, s: x.scatter_reduce(0, i, s, "sum") * x,
        (normal(4, 3), ints(0, 4, 6, 2), normal(6, 2))),
    Row("reduce_along:prod", lambda t, F, x, i, s: t.scatter_reduce(x, 1, i, s, "prod"),
        (positive(3, 5), ints(0, 5, 3, 7), positive(3, 7)), tol=5),
    Row("reduce_along:zero", lambda t, F, x, i, z, s: t.scatter_reduce(x, 1, i, s * z, "prod"),
        (positive(3, 5), ints(0, 5, 3, 7), ints(0, 2, 3, 7), positive(3, 7)), second=False, tol=5),
    scattered("mean"), scattered("amax"), scattered("amin"),
    *[scattered(how, False) for how in ("sum", "mean", "amax", "amin")],
    *[Row(f"{name}:of_none", lambda t, F, x, s, fn=fn: fn(x, x[:0].long(), s),
          (X, normal(2, 4)), second=False) for name, fn in {
        "put_along": lambda x, i, s: x.scatter(0, i, s[:0]),
        "add_along": lambda x, i, s: x.scatter_add(0, i, s[:0]),
        "reduce_along": lambda x, i, s: x.scatter_reduce(0, i, s[:0], "amax")}.items()],
    value("reduce_along:ties", lambda t, F, x, i, s: t.scatter_reduce(
        x.floor() + x.sum() * 0, 1, i, s.floor() + s.sum(), "amax"),
        normal(3, 4), ints(0, 4, 3, 9), normal(3, 9), second=False),
    value("reduce_along:int", lambda t, F, x, i, s: t.scatter_reduce(x, 1, i, s, "mean"),
        ints(-9, 9, 3, 4), ints(0, 4, 3, 9), ints(-9, 9, 3, 9)),
    Row("index_copy", lambda t, F, x, s: x.index_copy(1, at(t, x, 3, 0), s) * x,
        (normal(3, 4), normal(3, 2))),
    Row("index_fill", lambda t, F, x: x.index_fill(1, at(t, x, -1, 0), 2.5) * x, (normal(3, 4),)),
    value("index_add:bool", lambda t, F, x, i: (x > 0).index_add(1, i, x[:, i] < 0), normal(4, 5),
        ints(0, 5, 3)),
    Row("index_add:alpha", lambda t, F, x, i, s: t.index_add(x, 1, i, s, alpha=-2),
        (normal(3, 4), ints(0, 4, 6), normal(3, 6))),
    Row("take", lambda t, F, x, i: t.take(x, i) * 2, (normal(3, 4), ints(-12, 12, 2, 3))),
    Row("put", lambda t, F, x, s: t.Tensor.put(x, at(t, x, 3, -1, 0), s) * x,
        (normal(3, 4), normal(3))),
    Row("put:add", lambda t, F, x, s: t.Tensor.put(x, at(t, x, 3, 3, 0), s, True) * x,
        (normal(3, 4), normal(3))),
    Row("masked_scatter", lambda t, F, x, m, s: x.masked_scatter(m, s) * x,
        (normal(3, 4), bools(4), normal(12))),
    Row("masked_scatter:none", lambda t, F, x, s: x.masked_scatter(x > 99, s[:0]) * x,
        (normal(3, 4), normal(5))),
    Row("masked_fill:tensor", lambda t, F, x, m, v: x.masked_fill(m, v.sum()),
        (normal(3, 4), bools(3, 1), normal(2))),
    Row("index_put:add", lambda t, F, x, s: x.index_put((at(t, x, 3, 3, 0),), s, accumulate=True),
        (normal(4, 2), normal(3, 2))),
    Row("index_put:one", lambda t, F, x, s: x.index_put((at(t, x, 1).sum(),), s[0])
        + x.index_put((at(t, x, -2).sum(), at(t, x, 1).sum()), s[0, 0], accumulate=True),
        (normal(4, 2), normal(3, 2))),
    Row("index_put:mixed", lambda t, F, x, s: x.index_put((at(t, x, 1).sum(), at(t, x, 1, 0, 1)), s,
        accumulate=True), (normal(4, 2, 3), normal(3, 3))),
    value("argwhere", lambda t, F, m: t.argwhere(m), bools(3, 4)),
    value("nonzero_static", lambda t, F, m: t.nonzero_static(m, size=9, fill_value=-2),
        bools(3, 4)),
    value("unravel_index", lambda t, F, i: t.stack(t.unravel_index(i, (2, 3, 4))), ints(0, 24, 7)),
    value("unravel_index:uint8", lambda t, F, i: t.stack(t.unravel_index(i, (2, 300))),
        ints(0, 256, 7, dtype="uint8")),
    value("tril_indices",
        lambda t, F, x: t.cat([t.tril_indices(3, 4, 1), t.triu_indices(4, 3)], 1) .to(x.device), X),
    Row("diagonal_scatter", lambda t, F, x, s: t.diagonal_scatter(x, s, 1) * x, (X, normal(3))),
    Row("select_scatter", lambda t, F, x, s: t.select_scatter(x, s, 1, -1) * x, (X, normal(3))),
    Row("slice_scatter", lambda t, F, x, s: t.slice_scatter(x, s, 1, 1, None, 2) * x,
        (X, normal(3, 2))),
    move("as_strided", lambda t, x: t.as_strided(x, (2, 3), (1, 2), 1).exp()),
    move("as_strided:view", lambda t, x: (x * 3)[1:, ::2].T.as_strided((2, 2), (4, 2))),
    value("as_strided_scatter",
        lambda t, F, x, s: t.as_strided_scatter(x, s, (2, 2), (2, 5), 1) * x, X, normal(2, 2)),
    move("as_strided:set_", lambda t, x: x.new(2).set_(x.detach() * 1, 1, (2, 3), (1, 2)) * x[0, 0],
         grad=False),
    move("as_strided_copy", lambda t, x: t.as_strided_copy(x, (3, 3), (4, 1))),
)  # fmt: skip


def made(name: str, call: Any) -> Row:
    """Tensors made on the device, joined into one."""

    def run(t: Any, F: Any, x: Any) -> Any:
        return t.cat([y.reshape(-1).to(x.dtype) for y in call(t, x.device)])

    return value(name, run, normal(1))


CREATION = (
    made("full", lambda t, d: (
        t.full((2, 3), 2, device=d), t.full((2,), t.tensor(1.5), device=d), t.ones(size=(2, 1),
        device=d), t.zeros(0, 3, device=d), t.scalar_tensor(3, device=d), t.eye(2, 3, device=d))),
    made("like", lambda t, d: (
        t.ones(2, device=d).new_full((3,), 4), t.ones(2, device=d).new_zeros(2, 2),
        t.full_like(t.ones(2, device=d), 7, dtype=t.int32), t.fill(t.ones(2, device=d), 3),
        t.zeros_like(t.ones(2, device=d)), t.ones(3, dtype=t.int32, device=d).new_ones(size=(1,)))),
    made("arange", lambda t, d: (
        t.arange(5, device=d), t.arange(1, 2, 0.3, device=d), t.arange(3, -4, -2, device=d))),
    made("linspace", lambda t, d: (
        t.linspace(-1, 2, 7, device=d), t.linspace(3, 10, 4, dtype=t.int64, device=d),
        t.logspace(0, 2, 4, 2.0, device=d), t.linspace(2, 5, 1, device=d))),
    value("empty_strided",
        lambda t, F, x: t.empty_strided((2, 3), (1, 2), device=x.device) .copy_(x[:2, :3]) * 2, X),
    value("empty_permuted",
        lambda t, F, x: t.empty_permuted((3, 4), (1, 0), device=x.device) .copy_(x) * 2, X),
)  # fmt: skip

ROWS: tuple[Row, ...] = (*MOVEMENT, *INDEXING, *CREATION)

REFUSED = r"""
X.index_select(0, t.ones(1, 1, dtype=t.int64)) -> vector
X.gather(0, X) -> int32/int64
X.scatter(0, I[None], 1.0, reduce="max") -> add or multiply
X.index_fill(0, I, X) -> 0-dimensional value
X.masked_fill(X, 1) -> boolean masks
X.masked_scatter(X > 0, X[0]) -> at least 12 elements
X.index_put((), X) -> at least one index
X.index_put((I,), I) -> dtypes match
X.select_scatter(X, 0, 1) -> size equal to the slice
X.as_strided((3, 3), (4, 2), 1) -> out of bounds for storage of 12
X.as_strided((3, 3), (4,)) -> mismatch in length
X.as_strided((3,), (-1,)) -> Negative
X.clone().requires_grad_().resize_(2) -> require grad
X.unfold(1, 5, 1) -> maximum size for tensor at dimension 1 is 4
X.unfold(1, 2, 0) -> step is 0
X[:, :3].contiguous().view(t.float64) -> divisible by 2
t.ones(4, 4).T.view(t.float64) -> stride\(-1\) must be 1
X.hsplit(3) -> not divisible by the split_size 3
X.split([1, 2], 1) -> sum exactly to 4
X.chunk(0) -> greater than 0
X.tensor_split(0) -> larger than 0
t.stack(X) -> expected a list or tuple
t.stack([X, X[0]]) -> equal size
X.repeat(-1, 1) -> negative dimension
X.repeat_interleave(-1) -> can not be negative
X.repeat_interleave(t.tensor([1, 2]), 0) -> same size as input
t.meshgrid(X[0], indexing="no") -> 'xy' or 'ij'
X.unflatten(1, (3, 2)) -> multiply up
t.positive(X > 0) -> bool tensor
t.broadcast_shapes((3,), (2,)) -> sizes 3 and 2 differ
t.empty(-1) -> negative dimension
t.full((2,), 1e+99, dtype=t.int32) -> without overflow
t.zeros(2, colour=1) -> unexpected arguments
t.zeros(2.5) -> expected ints
t.zeros(2, layout=t.sparse_coo) -> strided layout
X.clone().exponential_(0) -> lambda > 0
X.clone().geometric_(1) -> p to be in \(0, 1\)
X.clone().cauchy_(0, 0) -> sigma > 0
t.randint(3, 3, (2,)) -> 'from' to be less
t.randint(3, 4) -> missing size
t.randint(size=(2,)) -> missing high
t.poisson(-X) -> rate
t.segment_reduce(X, "sum") -> Either lengths or offsets
t.segment_reduce(X, "median", lengths=I) -> 'median'
t.segment_reduce(X, "sum", indices=I) -> not supported yet
t.segment_reduce(X, "sum", lengths=I) -> to sum to 3
t.segment_reduce(X, "sum", lengths=t.tensor([4, -1])) -> negative
t.segment_reduce(X, "sum", lengths=I, axis=1) -> last dimension
t.norm_except_dim(X[0, 0]) -> no dimensions
X.clone().set_(I) -> Could not set tensor of type int64
X.clone().set_(3) -> expected a Tensor or a storage, got int
X.clone().requires_grad_().apply_(abs) -> Can't call apply_\(\)
X.clone().map_(I, max) -> expected a tensor of float32, got int64
"""
