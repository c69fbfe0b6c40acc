"""Masks: where elements are nonzero, what is put where a mask holds, and triangles of matrices."""

from __future__ import annotations

from typing import Any, Literal, overload

import numpy as np

from pyframe.core import dtypes as dt, view as views
from pyframe.core.devices import device as Device
from pyframe.core.dispatch import apply, can_read_value
from pyframe.core.node import Lasting
from pyframe.ops.api import check
from pyframe.ops.api.public import public
from pyframe.ops.index.order import search_op
from pyframe.ops.index.rows import take_rows
from pyframe.ops.math import elementwise as el
from pyframe.ops.reduce.scan import cumsum
from pyframe.ops.shape import join, movement as mv
from pyframe.tensor import Tensor, upload


@overload
def nonzero(input: Tensor, *, as_tuple: Literal[False] = False) -> Tensor: ...
@overload
def nonzero(input: Tensor, *, as_tuple: Literal[True]) -> tuple[Tensor, ...]: ...
def nonzero(input: Tensor, *, as_tuple: bool = False) -> Any:
    """The indices of nonzero elements: int64 (n, ndim), or one tensor a dim. Reads the values."""
    found = np.nonzero(np.atleast_1d(input._host()))
    parts = [upload(i.astype(np.int64, copy=False), input.device) for i in found]
    if as_tuple:
        return tuple(parts)
    if input.ndim == 0:
        return upload(np.zeros((len(found[0]), 0), np.int64), input.device)
    return join.stack(parts, 1)


def argwhere(input: Tensor) -> Tensor:
    """`nonzero` under NumPy's name."""
    return nonzero(input)


def nonzero_static(input: Tensor, *, size: int, fill_value: int = -1) -> Tensor:
    """The first `size` rows of `nonzero`, filled up with `fill_value`."""
    if size < 0:
        raise RuntimeError(f"nonzero_static: 'size' must be an non-negative integer, got {size}")
    if not input.numel() or not input.ndim:
        return input.new_full((size, input.ndim), fill_value, dtype=dt.int64)
    seen = _running_count(el.ne(mv.ravel(input), 0))
    which = el.iota((1, size), input.device) + 1
    flat = apply(search_op, (seen.reshape(1, -1), which)).reshape(-1)  # the first that has so many
    columns = []
    for step, n in zip(views.row_major_strides(input.shape), input.shape, strict=True):
        columns.append(el.remainder(el.floor_divide(flat, step), n))
    return el.where(el.le(which.reshape(-1, 1), seen[-1]), join.stack(columns, 1), fill_value)


def _running_count(mask: Tensor) -> Tensor:
    """int32: how many of a vector of bools are true, up to each."""
    return cumsum(mask, 0, dtype=dt.int32)


def bool_mask(name: str, mask: Tensor) -> Tensor:
    if mask.dtype is not dt.bool_:
        raise RuntimeError(f"{name} only supports boolean masks, but got {mask.dtype.name}")
    return mask


def masked_fill(input: Tensor, mask: Tensor, value: Any) -> Tensor:
    """`input` with `value` (a number or a 0-d tensor) where the bool `mask` holds."""
    bool_mask("masked_fill", mask)
    check.one_value("masked_fill", value, input.dtype)
    if isinstance(value, Tensor):
        if value.dtype.category > input.dtype.category and can_read_value(value):
            return masked_fill(input, mask, value.item())
        value = value.to(input.device, input.dtype)
    elif input.dtype.category < dt.of_scalar(value).category:
        value = dt.convert_scalar(value, input.dtype).item()
    return el.where(mask, value, input)


def masked_scatter(input: Tensor, mask: Tensor, source: Tensor) -> Tensor:
    """`input` with source's elements, in order, where the bool `mask` holds."""
    bool_mask("masked_scatter_", mask)
    if source.dtype is not input.dtype:
        raise RuntimeError(
            f"masked_scatter: expected self and source to have same dtypes but got "
            f"{input.dtype.name} and {source.dtype.name}"
        )
    input, mask = mv.broadcast_tensors(input, mask)
    if not input.numel():
        return input.clone()
    seen, few = _running_count(mask.reshape(-1)), source.numel()
    n = seen[-1].item() if can_read_value(mask) else "as many"
    message = f"masked_scatter: expected at least {n} elements in source, as mask has, got {few}"
    check.assert_not(el.gt(seen[-1], few), message)
    if few:
        index = el.clamp(seen - 1, 0, few - 1)
        values = apply(take_rows, (source.reshape(few, 1), index)).reshape(input.shape)
    else:  # nothing is taken of it, but it has a gradient
        values = source.sum().to(input.dtype).expand(input.shape).clone()
    return el.where(mask.contiguous(), values, input)  # row-major, as PyTorch has it


def tril_mask(shape: tuple[int, ...], diagonal: int, device: Any) -> Tensor:
    """Which elements of (..., rows, columns) lie on or below a diagonal."""
    rows, columns = shape[-2:]
    out = el.le(el.iota((columns,), device), el.iota((rows, 1), device) + diagonal)
    out._storage.__class__ = Lasting
    return out


def _matrices(name: str, x: Tensor) -> Tensor:
    if x.ndim < 2:
        raise RuntimeError(f"{name}: input tensor must have at least 2 dimensions, got {x.ndim}")
    return x


def _zero(x: Tensor) -> Any:
    return False if x.dtype is dt.bool_ else 0


def tril(input: Tensor, diagonal: int = 0) -> Tensor:
    """The lower triangle of matrices; zeros above `diagonal`."""
    shape = _matrices("tril", input).shape
    return el.where(tril_mask(shape, diagonal, input.device), input, _zero(input))


def triu(input: Tensor, diagonal: int = 0) -> Tensor:
    """The upper triangle of matrices; zeros below `diagonal`."""
    shape = _matrices("triu", input).shape
    return el.where(tril_mask(shape, diagonal - 1, input.device), _zero(input), input)


def fill_diagonal_(self: Tensor, fill_value: Any, wrap: bool = False) -> Tensor:
    """Write a number to the main diagonal of a matrix (or of equal dims) in place; `wrap` starts
    anew below the square of a tall matrix."""
    shape = self.shape
    if len(shape) < 2 or (len(shape) > 2 and len(set(shape)) > 1):
        raise RuntimeError(
            "fill_diagonal_: expected a matrix, or more dims all of equal length, got shape "
            f"{list(shape)}"
        )
    flat = el.iota(shape, self.device)
    hit = el.eq(el.remainder(flat, sum(views.row_major_strides(shape))), 0)
    if not wrap and len(shape) == 2:
        hit = el.logical_and(hit, el.lt(flat, shape[1] * shape[1]))
    return self._overwrite(masked_fill(self, hit, fill_value))


def _triangle(name: str, find: Any) -> Any:
    def run(
        row: int, col: int, offset: int = 0, *, dtype: dt.dtype = dt.int64, device: Any = "cpu",
        layout: Any = None,
    ) -> Tensor:  # fmt: skip
        if row < 0 or col < 0:
            raise RuntimeError(f"{name}: row and col must be non-negative, got {row}, {col}")
        if not isinstance(dtype, dt.dtype) or dtype not in (dt.int64, dt.int32):
            raise RuntimeError(f"{name}: not implemented for {dtype}; expected int32 or int64")
        found = np.stack(find(row, offset, col)).astype(dtype.numpy)
        return upload(found, Device(device))

    run.__name__ = run.__qualname__ = name
    return run


tril_indices = _triangle("tril_indices", np.tril_indices)
triu_indices = _triangle("triu_indices", np.triu_indices)

public(
    globals(), both="nonzero argwhere nonzero_static",
    inplace="masked_fill masked_scatter tril triu", methods="fill_diagonal_",
    functions="tril_indices triu_indices", out_exact="tril triu", rows="masked_fill",
    columns="nonzero argwhere",
)  # fmt: skip
