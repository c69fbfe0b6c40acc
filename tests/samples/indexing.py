"""Rows of movement, indexing, creation and random numbers."""

from __future__ import annotations

from typing import Any

from .row import Row, normal

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
    Row("view_dtype", lambda t, F, x: x.view(t.int32) // 2, (X,), grad=False, cpu=True),
    Row("view_dtype:wider", lambda t, F, x: x.view(t.int64) // 2, (X,), grad=False, cpu=True),
    Row("view_dtype:bytes", lambda t, F, x: x.view(t.uint8), (X,), grad=False, cpu=True),
    move("diag", lambda t, x: t.diag(t.diag(x, 1), -2)),
    move("diag_embed", lambda t, x: t.diag_embed(x, -1, 0, 2)),
    move("diagflat", lambda t, x: x.diagflat(1)),
    move("unfold", lambda t, x: x.unfold(0, 3, 2).exp(), 6, 2),
    move("roll", lambda t, x: t.roll(x, (2, -1), (0, 1)) + x.roll(5)),
    move("rot90", lambda t, x: t.rot90(x, 3).flipud() + x.rot90(1).fliplr()),
    move("tile", lambda t, x: t.tile(x, (2, 1, 2))),
    move("repeat_interleave", lambda t, x: x.repeat_interleave(2, 1)),
    move("repeat_interleave:each",
         lambda t, x: t.repeat_interleave(x, t.tensor([2, 0, 3]).to(x.device), 0)),
    move("moveaxis", lambda t, x: t.moveaxis(x, (0, 1), (-1, 0)).swapdims(0, 1).swapaxes(1, 2),
         2, 3, 4),
    move("ravel", lambda t, x: t.ravel(x).reshape_as(x).view_as(x.T)),
    move("atleast",
         lambda t, x: t.atleast_3d(x[0]) + t.atleast_2d(x[0])[..., None] + t.atleast_1d(x)[0, 0]),
    move("positive", lambda t, x: t.positive(+x)),
    move("copies", lambda t, x: t.t_copy(x) + t.permute_copy(x, (1, 0)) + t.view_copy(x, (4, 3))),
    move("copies:more",
         lambda t, x: t.expand_copy(t.unsqueeze_copy(t.diagonal_copy(x), 1), (3, 3))
         + t.squeeze_copy(t.narrow_copy(x, 1, 1, 1), 1) + t.transpose_copy(x, 0, 1)[:3]),
    parts("split_with_sizes", lambda t, x: x.split_with_sizes([1, 3, 2], 1), 2, 6),
    parts("tensor_split", lambda t, x: t.tensor_split(x, 4, 1) + x.tensor_split((1, 4), 1), 2, 6),
    parts("hsplit", lambda t, x: t.hsplit(x, 3) + x.vsplit([1]) + t.dsplit(x[..., None], 1), 2, 6),
    parts("unbind", lambda t, x: x.unbind(1) + t.unbind_copy(x), 2, 3),
    parts("chunk:unsafe", lambda t, x: t.unsafe_chunk(x, 2) + t.unsafe_split(x, 2), 3, 2),
    parts("meshgrid",
          lambda t, x: t.meshgrid(x[0], x[1], indexing="xy")
          + t.meshgrid(x[0], indexing="ij"), 2, 3),
    Row("hstack", lambda t, F, x, y: t.hstack([x, y]) + t.column_stack([x, y]), (X, X)),
    Row("vstack", lambda t, F, x, y: t.vstack([x, y]) + t.row_stack([x, y]), (X, X)),
    Row("dstack", lambda t, F, x, y: t.dstack([x, y]) + t.stack([x, y], 2), (X, X)),
)  # fmt: skip

ROWS: tuple[Row, ...] = (*MOVEMENT,)
