"""x[...]: basic indices are views, tensors and masks gather and scatter rows of what they leave."""

from __future__ import annotations

import math
import operator
from types import EllipsisType
from typing import Any

import numpy as np

from pyframe.core import dtypes as dt
from pyframe.core.dispatch import apply, can_read_value
from pyframe.core.modes import mode
from pyframe.core.op import PermutedLayout
from pyframe.core.sizes import indices
from pyframe.core.symbolic import SymbolicScalar
from pyframe.core.view import row_major_strides, stride_order
from pyframe.ops.api import check, inplace
from pyframe.ops.api.layouts import ensure_order
from pyframe.ops.api.public import public
from pyframe.ops.index.masks import bool_mask, nonzero
from pyframe.ops.index.rows import (
    added,
    checked_index,
    goes_over,
    put_at,
    put_in_block,
    put_rows,
    take_rows,
)
from pyframe.ops.math import elementwise as el, promotion
from pyframe.ops.shape import movement as mv
from pyframe.tensor import Tensor, normalize_dim, tensor, upload


def masked_select(input: Tensor, mask: Tensor) -> Tensor:
    """The elements where `mask` holds, as a vector. Reads the mask."""
    bool_mask("masked_select", mask)
    input, mask = mv.broadcast_tensors(input, mask)
    return getitem(input, mask)


def _parse(
    x: Tensor, key: Any, moving: dict[int, tuple[Any, bool]] | None = None, views: bool = True
) -> tuple[Tensor, dict[int, Tensor]]:
    """Apply the basic part of an index as views; return it and the tensors left, by dim. Ints that
    change from call to call go into `moving`, by dim, where it is given, and whether the dim stays:
    where a slice of one element begins. Without `views` 0-d tensors are left, too."""
    cuts: list[tuple[int, int, int]] = []  # start, size and step for each dim of x
    shape: list[int] = []  # of the view
    tensors: dict[int, Tensor] = {}
    items = _masks_as_indices(x, _items(x, key, moving is not None, views))
    ints = [at for at, i in enumerate(items) if type(i) is int]
    # a GPU's Program for a place that is written is that for all places
    by_place = moving is not None and x.device.is_lazy and mode.capture is None and not mode.grad
    last = ints[-1] if ints and by_place and not any(isinstance(i, Tensor) for i in items) else -1
    for at, i in enumerate(items):
        if i is None or isinstance(i, np.ndarray):
            if i is not None:
                tensors[len(shape)] = upload(i, x.device)
            shape.append(1)
            continue
        d = len(cuts)
        n = x.shape[d]
        if isinstance(i, slice) and moving is not None and _moves(i, n):
            moving[len(shape)] = i.start, True
            cuts.append((0, n, 1))
        elif isinstance(i, slice):
            a, b, k = _slice(i, n)
            cuts.append((a, max(-((a - b) // k), 0), k))
        elif isinstance(i, Tensor):
            tensors[len(shape)] = i
            cuts.append((0, n, 1))
        elif -n <= i < n:
            if moving is None or (type(i) is not SymbolicScalar and at != last):
                cuts.append((i + n if i < 0 else i, 1, 1))
                continue
            moving[len(shape)] = operator.mod(i, n), False
            cuts.append((0, n, 1))
        else:
            raise IndexError(
                f"index {i} is out of bounds for dimension {d} with size {n}; "
                f"expected {-n} to {n - 1}"
            )
        shape.append(cuts[-1][1])
    if any(c != (0, n, 1) for c, n in zip(cuts, x.shape, strict=True)):
        starts, sizes, steps = zip(*cuts, strict=True)
        x = mv.slice_(x, starts, sizes, steps)
    if tuple(shape) != x.shape:  # dims of size 1 come and go, which is a view always
        x = apply(mv.reshape_op, (x,), (tuple(shape),))
    return x, tensors


def _moves(s: slice, n: int) -> bool:
    """Whether it is a slice of one element of n, at a place that changes from call to call."""
    moves = SymbolicScalar is type(s.start) is type(s.stop) and s.step is None
    return moves and 0 <= s.start < s.stop <= n and s.stop - s.start == 1


_PARTS = (Tensor, slice, list, tuple, EllipsisType, type(None))


def _items(x: Tensor, key: Any, moving: bool = False, views: bool = True) -> list[Any]:
    """The parts of an index in their normal form, `...` written out as slices."""
    if isinstance(key, list) and len(key) < 32 and any(isinstance(i, _PARTS) for i in key):
        key = tuple(key)  # PyTorch reads x[[[0, 1], [1, 2]]] as x[[0, 1], [1, 2]]
    items = [
        i
        if moving and type(i.start if type(i) is slice else i) is SymbolicScalar
        else _normalize(i, x, views)
        for i in (key if isinstance(key, tuple) else (key,))
    ]
    used = 0
    for i in items:
        if isinstance(i, Tensor) and i.dtype is dt.bool_:
            used += i.ndim
        elif i is not None and i is not Ellipsis and not isinstance(i, bool):
            used += 1
    if used > x.ndim:
        raise IndexError(
            f"too many indices for tensor of dimension {x.ndim}: got {used} for shape "
            f"{list(x.shape)}"
        )
    if _count(items, Ellipsis) > 1:
        raise IndexError("an index can only have a single ellipsis ('...')")
    if not _count(items, Ellipsis):
        items.append(Ellipsis)
    at = next(i for i, v in enumerate(items) if v is Ellipsis)
    items[at : at + 1] = [slice(None)] * (x.ndim - used)
    return items


def _masks_as_indices(x: Tensor, items: list[Any]) -> list[Any]:
    """Each mask as the positions where it holds, one tensor a dim. A bool by itself covers no dim:
    it becomes an array that picks all or nothing of a new dim."""
    out: list[Any] = []
    d = 0
    for i in items:
        if isinstance(i, bool) or (isinstance(i, Tensor) and i.dtype is dt.bool_ and not i.ndim):
            out.append(np.zeros(int(bool(i)), np.int64))
        elif isinstance(i, Tensor) and i.dtype is dt.bool_:
            covered = x.shape[d : d + i.ndim]
            if i.shape != covered:
                raise IndexError(
                    f"The shape of the mask {list(i.shape)} does not match the shape "
                    f"{list(covered)} of the dims that it indexes, in a tensor of shape "
                    f"{list(x.shape)}"
                )
            out += [part.to(x.device) for part in nonzero(i, as_tuple=True)]
            d += i.ndim
        else:
            out.append(i)
            d += i is not None
    return out


def _count(items: list[Any], what: Any) -> int:
    return len([i for i in items if i is what])


def _slice(s: slice, n: int) -> tuple[int, int, int]:
    if s.step is not None and operator.index(s.step) <= 0:
        raise ValueError("step must be greater than zero; use flip to reverse")
    return indices(s, n)


def _normalize(i: Any, x: Tensor, views: bool) -> Any:
    if i is None or isinstance(i, (bool, EllipsisType)):
        return i
    if isinstance(i, np.bool_):
        return bool(i)
    if isinstance(i, slice):
        return slice(*[v.item() if isinstance(v, Tensor) else v for v in (i.start, i.stop, i.step)])
    if isinstance(i, Tensor):
        if i.dtype is dt.uint8:
            i = i.to(dt.bool_)
        if i.dtype not in (dt.int64, dt.int32, dt.bool_):
            raise IndexError(
                "tensors used as indices must be long, int, byte or bool tensors, got "
                f"{i.dtype.name}"
            )
        if i.ndim == 0 and views and i.dtype is not dt.bool_ and can_read_value(i):
            return int(i.item())
        return i if i.device is x.device else i.to(x.device)
    if isinstance(i, (list, tuple, range, np.ndarray)):
        index = tensor(list(i) if isinstance(i, range) else i, device=x.device)
        return index if index.numel() else index.to(dt.int64)
    try:
        return i.__index__()
    except AttributeError:
        raise IndexError(
            f"only integers, slices (`:`), ellipsis (`...`), None and long or bool tensors are "
            f"valid indices (got {type(i).__name__})"
        ) from None


def _rows(x: Tensor, tensors: dict[int, Tensor]) -> tuple[Any, ...]:
    """(x with the indexed dims first, flat row index, its shape, where the result's dims go)."""
    dims = list(tensors)
    sizes = [x.shape[d] for d in dims]
    checked = [checked_index("index", i, n) for i, n in zip(tensors.values(), sizes, strict=True)]
    try:
        shape = promotion.broadcast("shape mismatch: indexing tensors", *[i.shape for i in checked])
    except RuntimeError as e:
        raise IndexError(str(e)) from None
    flat = None
    for i, n in zip(checked, sizes, strict=True):
        flat = i if flat is None else flat * n + i
    assert flat is not None
    flat = mv.expand(flat, shape)
    rest = [d for d in range(x.ndim) if d not in dims]
    adjacent = dims == list(range(dims[0], dims[-1] + 1))
    dim = dims[0] if adjacent else 0
    moved = mv.permute(x, (*dims, *rest)) if dims + rest != list(range(x.ndim)) else x
    flat = mv.in_shape(flat, (math.prod(shape),))
    return moved, flat, shape, dim, dims + rest, math.prod(sizes)


def getitem(x: Tensor, key: Any) -> Tensor:
    """x[key]: ints, slices, None and ... give views; tensors, lists and masks give copies."""
    shape = x.shape
    if type(key) is int and shape and -shape[0] <= key < shape[0]:
        return mv.select(x, 0, key)
    if isinstance(key, Tensor) and key.dtype is dt.bool_ and key.ndim:
        covered, rest = shape[: key.ndim], shape[key.ndim :]
        if key.shape == covered:  # the places of a mask are in range
            n = math.prod(covered)
            found = nonzero(mv.reshape(key, (n,)), as_tuple=True)[0].to(x.device)
            rows = apply(take_rows, (mv.reshape(x, (n, math.prod(rest))), found))
            return mv.reshape(rows, (found.shape[0], *rest))
    whole = x
    x, tensors = _parse(x, key)
    if not tensors:
        return mv.apply(mv.reshape_op, (x,), (x.shape,)) if x is whole else x
    moved, flat, shape, dim, _, rows = _rows(x, tensors)
    rest = moved.shape[len(tensors) :]
    flat_rows = mv.in_shape(moved, (rows, math.prod(rest)))
    out = mv.in_shape(apply(take_rows, (flat_rows, flat)), (*shape, *rest))
    if dim:
        out = mv.movedim(out, list(range(len(shape))), list(range(dim, dim + len(shape))))
    if not dim and type(x._view_chain) is not PermutedLayout:
        return out
    steps = [s for d, s in enumerate(x.stride()) if d not in tensors]
    steps[dim:dim] = [0] * len(shape)  # it lies as what is indexed does, then as the indices
    after = len(rest) - dim
    index = ((*shape, *(1,) * after), (*row_major_strides(shape), *(0,) * after))
    order = stride_order(out.shape, ((out.shape, tuple(steps)), index))
    return ensure_order(out, order)


def setitem(x: Tensor, key: Any, value: Any) -> None:
    """x[key] = value, in place, seen by all that share the memory."""
    if (
        isinstance(key, Tensor)
        and key.dtype is dt.bool_
        and key.shape == x.shape[: key.ndim]
        and (not isinstance(value, Tensor) or value.numel() == 1)
    ):  # x[mask] = number needs no positions
        mask = key.to(x.device).reshape((*key.shape, *(1,) * (x.ndim - key.ndim)))
        if isinstance(value, Tensor):
            value = value.to(x.device, x.dtype).reshape(())
        x._overwrite(el.where(mask, value, x).to(x.dtype))
        return
    moving: dict[int, tuple[Any, bool]] = {}
    part, tensors = _parse(x, key, moving)
    of = value if isinstance(value, Tensor) else x
    within = of is value and of._storage is x._storage  # as a view that `x[key] += 1` has changed
    over = of.dtype is x.dtype and goes_over(x, of) and not within
    if over and all(not i.ndim for i in tensors.values()):
        for d, i in tensors.items():
            moving[d] = checked_index("index", i, part.shape[d]), False
        tensors = {}
    elif moving and (tensors or within):
        part, tensors = _parse(x, key)
        moving.clear()
    if isinstance(value, (bool, int, float, complex)):
        value = dt.convert_scalar(value, x.dtype)  # RuntimeError where it does not fit
    if not isinstance(value, Tensor):
        value = tensor(value, dtype=x.dtype, device=x.device)
    value = value.to(x.device)
    if not tensors:
        ndim = part.ndim - len([d for d, (_, stays) in moving.items() if not stays])
        if value.ndim > ndim:  # leading dims of size 1 don't count
            shape = value.shape
            ones = next((d for d, n in enumerate(shape) if n != 1), len(shape))
            value = mv.reshape(value, shape[min(ones, len(shape) - ndim) :])
        check.no_overlap("setitem", part, value)
        if not moving:
            part._overwrite(value.to(x.dtype))
            return
        value = _at_moving(part, moving, value)
        if len(moving) == 1 and goes_over(x, value) and not x._view_chain and part.is_contiguous():
            ((d, (i, _)),) = moving.items()
            x._overwrite(put_in_block(x, part.storage_offset(), part.shape, d, i, value))
        else:
            part._overwrite(put_at(part, {d: i for d, (i, _) in moving.items()}, value))
        return
    if value.dtype is not x.dtype:
        raise RuntimeError(
            "Index put requires the source and destination dtypes match, got "
            f"{x.dtype.name} for the destination and {value.dtype.name} for the source; convert "
            f"the source with .to({x.dtype})"
        )
    check.no_overlap("setitem", part, value)
    part._overwrite(_with_rows(part, tensors, value, accumulate=False))


def _at_moving(part: Tensor, moving: dict[int, tuple[Any, bool]], value: Tensor) -> Tensor:
    """The value as it is to lie in `part`, of size 1 along the dims of ints that change."""
    gone = sorted([d for d, (_, stays) in moving.items() if not stays])
    rest = tuple([1 if d in moving else n for d, n in enumerate(part.shape) if d not in gone])
    value = _filling(value.to(part.dtype), rest)
    for d in gone:
        value = mv.unsqueeze(value, d)
    return value


def _filling(value: Tensor, shape: tuple[int, ...]) -> Tensor:
    """The value as what is written, of the shape that is indexed."""
    try:
        return mv.expand(value, shape)
    except RuntimeError:
        raise RuntimeError(
            f"shape mismatch: value tensor of shape {list(value.shape)} cannot be broadcast to "
            f"indexing result of shape {list(shape)}"
        ) from None


def _with_rows(part: Tensor, tensors: dict[int, Tensor], value: Tensor, accumulate: bool) -> Tensor:
    moved, flat, shape, dim, order, rows = _rows(part, tensors)
    rest = moved.shape[len(tensors) :]
    whole = (*rest[:dim], *shape, *rest[dim:])
    while value.ndim > len(whole) and value.shape[0] == 1:
        value = mv.squeeze(value, 0)
    value = _filling(value, whole)
    if dim:
        value = mv.movedim(value, list(range(dim, dim + len(shape))), list(range(len(shape))))
    source = value.reshape(math.prod(shape), math.prod(rest))
    base = moved.reshape(rows, math.prod(rest))
    if accumulate:
        out = base + added(flat, source, rows)
    else:
        out = apply(put_rows, (base, flat, source))
    out = out.reshape(moved.shape)
    turned = order != list(range(len(order)))
    return mv.permute(out, mv.inverse_order(tuple(order))) if turned else out


def index_put(input: Tensor, indices: Any, values: Tensor, accumulate: bool = False) -> Tensor:
    """A copy of `input` with `values` at `indices` (added to what is there if `accumulate`)."""
    if values.dtype is not input.dtype:
        raise RuntimeError(
            "Index put requires the source and destination dtypes match, got "
            f"{input.dtype.name} for the destination and {values.dtype.name} for the source."
        )
    key = tuple(slice(None) if i is None else i for i in indices)
    part, tensors = _parse(input, key, views=False)
    if not tensors:
        raise RuntimeError("index_put: at least one index is required")
    out = _with_rows(part, tensors, values.to(input.device), accumulate)
    return out if out.shape == input.shape else mv.reshape(out, input.shape)  # of 0-d masks


def _with_view(name: str, input: Tensor, src: Tensor, part: Tensor) -> Tensor:
    """A copy of `input` with `src` where its view `part` is."""
    if src.shape != part.shape:
        raise RuntimeError(
            f"{name}: expected src to have a size equal to the slice of self, {list(part.shape)}, "
            f"got {list(src.shape)}"
        )
    steps = tuple(part._view_chain[len(input._view_chain) :])
    return apply(inplace.put_op, (input, src.to(input.dtype)), (steps,))


def diagonal_scatter(
    input: Tensor, src: Tensor, offset: int = 0, dim1: int = 0, dim2: int = 1
) -> Tensor:
    """A copy of `input` with `src` as that diagonal."""
    part = mv.diagonal(input.detach(), offset, dim1, dim2)
    return _with_view("diagonal_scatter", input, src, part)


def select_scatter(input: Tensor, src: Tensor, dim: int, index: int) -> Tensor:
    """A copy of `input` with `src` at `index` of a dim."""
    return _with_view("select_scatter", input, src, mv.select(input.detach(), dim, index))


def slice_scatter(
    input: Tensor, src: Tensor, dim: int = 0, start: int | None = None, end: int | None = None,
    step: int = 1,
) -> Tensor:  # fmt: skip
    """A copy of `input` with `src` at start:end:step of a dim."""
    d = normalize_dim(dim, input.ndim)
    if not input.ndim:
        raise IndexError("slice_scatter(): a 0-dim tensor has no dim to slice")
    part = getitem(input.detach(), (*(slice(None),) * d, slice(start, end, step)))
    return _with_view("slice_scatter", input, src, part)


public(
    globals(), both="masked_select diagonal_scatter select_scatter slice_scatter",
    inplace_functions="index_put", out_exact="masked_select slice_scatter",
    out_apart="masked_select", like="index_put diagonal_scatter select_scatter slice_scatter",
    gpu_widest="index_put", out_of_range="getitem setitem index_put",
)  # fmt: skip
