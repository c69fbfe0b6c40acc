"""Indexing: every form is row gather and row scatter after some movement."""

from __future__ import annotations

import math
from types import EllipsisType
from typing import Any

import numpy as np

from pyframe import dtypes as dt
from pyframe.graph import guard as guards
from pyframe.ops import elementwise as el, movement as mv
from pyframe.ops.op import ROUTINE, Op, Shader, apply
from pyframe.ops.public import public
from pyframe.ops.reduce import sum as sum_
from pyframe.tensor import Tensor, from_numpy, normalize_dim, tensor


def _take_numpy(x: np.ndarray, index: np.ndarray) -> np.ndarray:
    return x[_checked(index, x.shape[0])]


def _checked(index: np.ndarray, rows: int) -> np.ndarray:
    if index.size and (index.min() < 0 or index.max() >= rows):
        bad = index[(index < 0) | (index >= rows)][0]
        raise IndexError(f"index {bad} is out of bounds for size {rows}; expected 0 to {rows - 1}")
    return index


def _add_rows_numpy(index: np.ndarray, source: np.ndarray, rows: int) -> np.ndarray:
    """Row sums in index order, deterministic: of one column as NumPy counts (floats in float64), of
    several in sorted segments, which there beats np.add.at."""
    out = np.zeros((rows, source.shape[1]), source.dtype)
    if index.size:
        _checked(index, rows)
        if source.shape[1] == 1 and source.dtype.kind == "f":
            return np.bincount(index, source[:, 0], rows).astype(source.dtype)[:, None]
        if source.shape[1] == 1:
            np.add.at(out[:, 0], index, source[:, 0])
            return out
        order = np.argsort(index, kind="stable")
        ordered = index[order]
        starts = np.flatnonzero(np.r_[True, ordered[1:] != ordered[:-1]])
        out[ordered[starts]] = np.add.reduceat(source[order], starts, axis=0)
    return out


def _put_rows_numpy(base: np.ndarray, index: np.ndarray, source: np.ndarray) -> np.ndarray:
    out = np.array(base)
    out[_checked(index, base.shape[0])] = source
    return out


def _plan(out: tuple[int, ...], shapes: Any) -> tuple[dict[str, int], tuple[int, int, int]]:
    """One thread for each element of the result (D, B)."""
    groups = -(-math.prod(out) // 256)
    rows = shapes[0][0]  # of x, of index or of base
    count = shapes[1][0]  # of index or of source
    consts = {"D": rows, "B": out[1], "COUNT": count, "SIZE": math.prod(out)}
    return consts, (min(groups, 65535), -(-groups // 65535), 1)


take_rows = Op(  # x (D, B), index (n,) -> (n, B)
    "take_rows", ROUTINE, "x index",
    infer=lambda x, index: ((index.shape[0], x.shape[1]), x.dtype),
    numpy=_take_numpy, kernel=Shader("take_rows.wgsl", _plan),
    x=lambda g, index, x_spec: apply(add_rows, (index, g), (x_spec.shape[0],)),
)  # fmt: skip
add_rows = Op(  # index (n,), source (n, B) -> (rows, B): row d is the sum of sources with index d
    "add_rows", ROUTINE, "index source", "rows",
    infer=lambda index, source, rows: ((rows, source.shape[1]), source.dtype),
    numpy=_add_rows_numpy, kernel=Shader("add_rows.wgsl", _plan),
    source=lambda g, index: apply(take_rows, (g, index)),
)  # fmt: skip
put_rows = Op(  # base (D, B), index (n,), source (n, B): a copy of base, the last of equals wins
    "put_rows", ROUTINE, "base index source",
    infer=lambda base, index, source: (base.shape, base.dtype),
    numpy=_put_rows_numpy, kernel=Shader("put_rows.wgsl", _plan),
    base=lambda g, index: apply(put_rows, (g, index, _zero_rows(g, index))),
    source=lambda g, index: apply(take_rows, (g, index)),
)  # fmt: skip


def _zero_rows(g: Tensor, index: Tensor) -> Tensor:
    from pyframe.ops.creation import zeros

    return zeros((index._node.shape[0], g._node.shape[1]), dtype=g.dtype, device=g.device)


def guard(bad: Tensor, message: str) -> None:
    """On a lazy device: raise IndexError(message) at the next read if any of `bad` is true."""
    if bad.device.lazy:
        guards.of(bad.device).check(bad, message)


def _check_index(name: str, index: Tensor, rows: int) -> Tensor:
    """`index` with negatives counted from the end; out of range is an error (when it is known)."""
    if index.dtype.category != dt.INTEGER:
        raise IndexError(
            f"{name}: expected an integer index (int32 or int64), got {index.dtype.name}"
        )
    if index.device.lazy:
        guard(
            el.logical_or(el.lt(index, -rows), el.ge(index, rows)),
            f"{name}: index out of range for size {rows}; expected {-rows} to {rows - 1}",
        )
        return el.where(el.lt(index, 0), index + rows, index)
    data = index._node.data
    if data.size:
        low, high = data.min(), data.max()
        if low < -rows or high >= rows:
            bad = low if low < -rows else high
            raise IndexError(
                f"{name}: index {bad} is out of range for size {rows}; "
                f"expected {-rows} to {rows - 1}"
            )
        if low < 0:
            return el.where(el.lt(index, 0), index + rows, index)
    return index


def checked_classes(what: str, index: Tensor, n: int, ignore: int | None = None) -> Tensor:
    """`index` itself; IndexError where an element is outside 0..n-1 (and not `ignore`)."""
    message = f"{what} out of range: expected 0 to {n - 1}"
    if index.device.lazy:
        bad = el.logical_or(el.lt(index, 0), el.ge(index, n))
        if ignore is not None and not 0 <= ignore < n:
            bad = el.logical_and(bad, el.ne(index, ignore))
        guard(bad, message)
        return index
    data = index._node.data
    if ignore is not None:
        data = data[data != ignore]
    if data.size and (data.min() < 0 or data.max() >= n):
        seen = data.min() if data.min() < 0 else data.max()
        raise IndexError(f"{message}, got {seen}")
    return index


def index_select(input: Tensor, dim: int, index: Tensor) -> Tensor:
    """The slices of a dim that the 1-d `index` names, in its order."""
    if index.ndim > 1:
        raise IndexError(f"index_select(): Index is supposed to be a vector, got {index.ndim}-d")
    d = normalize_dim(dim, input.ndim)
    source = mv.movedim(input, d, 0) if d else input
    shape = source._node.shape or (1,)
    index = _check_index("index_select", index.reshape(-1), shape[0])
    rows = source.reshape(shape[0], math.prod(shape[1:]))
    out = apply(take_rows, (rows, index)).reshape((index.numel(), *shape[1:]))
    out = mv.movedim(out, 0, d) if d else out
    return out if input.ndim else out.reshape(())


def gather(input: Tensor, dim: int, index: Tensor, *, sparse_grad: bool = False) -> Tensor:
    """out[i][j] = input[index[i][j]][j] for dim 0, and so on; torch.gather."""
    if index.dtype.category != dt.INTEGER:
        raise RuntimeError(f"gather(): Expected dtype int64 for index, got {index.dtype.name}")
    if input.ndim == 0 and index.ndim == 0:
        return input.clone()
    d = normalize_dim(dim, max(input.ndim, 1))
    if input.ndim != index.ndim:
        raise RuntimeError(
            "gather(): Index tensor must have the same number of dimensions as input tensor: got "
            f"index {list(index.shape)}, input {list(input.shape)}"
        )
    shape, ishape = input._node.shape, index._node.shape
    for i, (n, m) in enumerate(zip(shape, ishape, strict=True)):
        if i != d and m > n:
            raise RuntimeError(
                f"gather(): Size does not match at dimension {i} expected index {list(ishape)} to "
                f"be no larger than self {list(shape)} apart from dimension {d}"
            )
    index = _check_index("gather", index, shape[d])
    if 0 in ishape:
        return input.reshape(-1)[:0].reshape(ishape)
    if input.device.lazy and ishape[d] == 1:
        cut = tuple(shape[i] if i == d else m for i, m in enumerate(ishape))
        part = mv.slice_(input, (0,) * len(shape), cut)
        return sum_(el.where(_one_hot_along(index, d, shape[d]), part, 0), d, True)
    flat = apply(take_rows, (input.reshape(-1, 1), _flat_index(index, d, shape).reshape(-1)))
    return flat.reshape(ishape)


def _one_hot_along(index: Tensor, d: int, size: int) -> Tensor:
    shape = (size,) + (1,) * (index.ndim - 1 - d)
    return el.eq(index, el.iota(shape, index.device))


def _flat_index(index: Tensor, d: int, shape: tuple[int, ...]) -> Tensor:
    """Flat positions in `shape` of the elements that `index` along `d` names."""
    out = index * math.prod(shape[d + 1 :])
    for i, m in enumerate(index._node.shape):
        if i != d and m > 1:
            place = el.iota((m,) + (1,) * (index.ndim - 1 - i), index.device)
            out = out + place * math.prod(shape[i + 1 :])
    return out


def scatter_add(input: Tensor, dim: int, index: Tensor, src: Tensor) -> Tensor:
    """`input` with src[i][j] added at [index[i][j]][j] (dim 0), and so on; deterministic."""
    d = normalize_dim(dim, input.ndim)
    shape = input._node.shape
    index = _check_index("scatter_add", index, shape[d])
    src = mv.slice_(src, (0,) * src.ndim, index._node.shape)
    flat = _flat_index(index, d, shape).reshape(-1)
    total = apply(add_rows, (flat, src.reshape(-1, 1)), (math.prod(shape),))
    return input + total.reshape(shape)


def index_add(input: Tensor, dim: int, index: Tensor, source: Tensor, *, alpha: Any = 1) -> Tensor:
    """`input` with alpha * source's slices added at the places that `index` names."""
    d = normalize_dim(dim, input.ndim)
    rows = input._node.shape[d]
    index = _check_index("index_add", index, rows)
    moved = mv.movedim(source, d, 0)
    flat = moved.reshape(moved._node.shape[0], -1)
    total = apply(add_rows, (index, flat), (rows,)).reshape((rows, *moved._node.shape[1:]))
    return input + mv.movedim(total, 0, d) * alpha


def one_hot(input: Tensor, num_classes: int = -1) -> Tensor:
    """int64 (*, num_classes) with a 1 at each class."""
    if num_classes == -1:
        num_classes = int(input.max().item()) + 1
    index = _check_index("one_hot", input, num_classes)
    hot = el.eq(index.unsqueeze(-1), el.iota((num_classes,), input.device))
    return hot.to(dt.int64)


def nonzero(input: Tensor, *, as_tuple: bool = False) -> Any:
    """The indices of nonzero elements: int64 (n, ndim), or one tensor a dim. Reads the values."""
    found = np.nonzero(np.atleast_1d(input._host()))
    parts = [from_numpy(i.astype(np.int64)).to(input.device) for i in found]
    if as_tuple:
        return tuple(parts)
    if input.ndim == 0:
        return from_numpy(np.zeros((len(found[0]), 0), np.int64)).to(input.device)
    return mv.stack(parts, 1)


def masked_fill(input: Tensor, mask: Tensor, value: Any) -> Tensor:
    """`input` with `value` where the bool `mask` holds."""
    if mask.dtype is not dt.bool_:
        raise RuntimeError(f"masked_fill only supports boolean masks, but got {mask.dtype.name}")
    if isinstance(value, Tensor):
        value = value.to(input.dtype)
    elif input.dtype.category < dt.of_scalar(value).category:
        raise RuntimeError(
            f"value cannot be converted to type {input.dtype.name} without overflow: {value}"
        )
    return el.where(mask, value, input)


def masked_select(input: Tensor, mask: Tensor) -> Tensor:
    """The elements where `mask` holds, as a vector. Reads the mask."""
    input, mask = mv.broadcast_tensors(input, mask)
    return getitem(input, mask)


def tril_mask(shape: tuple[int, ...], diagonal: int, device: Any) -> Tensor:
    """Which elements of (..., rows, columns) lie on or below a diagonal."""
    rows, columns = shape[-2:]
    return el.le(el.iota((columns,), device), el.iota((rows, 1), device) + diagonal)


def tril(input: Tensor, diagonal: int = 0) -> Tensor:
    """The lower triangle of matrices; zeros above `diagonal`."""
    return el.where(tril_mask(input._node.shape, diagonal, input.device), input, 0)


def triu(input: Tensor, diagonal: int = 0) -> Tensor:
    """The upper triangle of matrices; zeros below `diagonal`."""
    return el.where(tril_mask(input._node.shape, diagonal - 1, input.device), 0, input)


# --- x[...]


def _parse(x: Tensor, key: Any) -> tuple[Tensor, dict[int, Tensor]]:
    """Apply the basic part of an index as views; return it and the tensors left, by dim."""
    cuts: list[tuple[int, int, int]] = []  # start, size and step for each dim of x
    shape: list[int] = []  # of the view
    tensors: dict[int, Tensor] = {}
    for i in _masks_as_indices(x, _items(x, key)):
        if i is None or isinstance(i, np.ndarray):
            if i is not None:
                tensors[len(shape)] = from_numpy(i).to(x.device)
            shape.append(1)
            continue
        d = len(cuts)
        n = x._node.shape[d]
        if isinstance(i, slice):
            a, b, k = _slice(i, n)
            cuts.append((a, max(-((a - b) // k), 0), k))
        elif isinstance(i, Tensor):
            tensors[len(shape)] = i
            cuts.append((0, n, 1))
        elif -n <= i < n:
            cuts.append((i % n, 1, 1))
            continue
        else:
            raise IndexError(
                f"index {i} is out of bounds for dimension {d} with size {n}; "
                f"expected {-n} to {n - 1}"
            )
        shape.append(cuts[-1][1])
    if any(c != (0, n, 1) for c, n in zip(cuts, x._node.shape, strict=True)):
        starts, sizes, steps = zip(*cuts, strict=True)
        x = mv.slice_(x, starts, sizes, steps)
    if tuple(shape) != x._node.shape:
        x = mv.reshape(x, tuple(shape))
    return x, tensors


def _items(x: Tensor, key: Any) -> list[Any]:
    """The parts of an index in their normal form, `...` written out as slices."""
    items = [_normalize(i, x) for i in (key if isinstance(key, tuple) else (key,))]
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
            covered = x._node.shape[d : d + i.ndim]
            if i._node.shape != covered:
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
    if s.step is not None and s.step.__index__() <= 0:
        raise ValueError("step must be greater than zero; use flip to reverse")
    return s.indices(n)


def _normalize(i: Any, x: Tensor) -> Any:
    if i is None or isinstance(i, (bool, EllipsisType)):
        return i
    if isinstance(i, slice):
        return slice(*[v.item() if isinstance(v, Tensor) else v for v in (i.start, i.stop, i.step)])
    if isinstance(i, Tensor):
        if i.dtype is dt.uint8:
            i = i.to(dt.bool_)
        if i.dtype.category == dt.FLOAT:
            raise IndexError(
                "tensors used as indices must be long, int, byte or bool tensors, got "
                f"{i.dtype.name}"
            )
        if i.ndim == 0 and i.dtype is not dt.bool_ and not i.device.lazy:
            return int(i.item())
        return i if i.device is x.device else i.to(x.device)
    if isinstance(i, (list, range, np.ndarray)):
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
    sizes = [x._node.shape[d] for d in dims]
    checked = [_check_index("index", i, n) for i, n in zip(tensors.values(), sizes, strict=True)]
    shape = el.broadcast("shape mismatch: indexing tensors", *[i._node.shape for i in checked])
    flat = None
    for i, n in zip(checked, sizes, strict=True):
        flat = i if flat is None else flat * n + i
    assert flat is not None
    flat = mv.expand(flat, shape)
    rest = [d for d in range(x.ndim) if d not in dims]
    adjacent = dims == list(range(dims[0], dims[-1] + 1))
    place = dims[0] if adjacent else 0
    moved = mv.permute(x, (*dims, *rest)) if dims + rest != list(range(x.ndim)) else x
    return moved, flat.reshape(-1), shape, place, dims + rest, math.prod(sizes)


def getitem(x: Tensor, key: Any) -> Tensor:
    """x[key]: ints, slices, None and ... give views; tensors, lists and masks give copies."""
    x, tensors = _parse(x, key)
    if not tensors:
        return mv.apply(mv.reshape_op, (x,), (x._node.shape,)) if key is Ellipsis else x
    moved, flat, shape, place, _, rows = _rows(x, tensors)
    rest = moved._node.shape[len(tensors) :]
    flat_rows = moved.reshape(rows, math.prod(rest))
    out = apply(take_rows, (flat_rows, flat)).reshape((*shape, *rest))
    if place:
        out = mv.movedim(out, list(range(len(shape))), list(range(place, place + len(shape))))
    return out


def setitem(x: Tensor, key: Any, value: Any) -> None:
    """x[key] = value, in place, seen by all that share the memory."""
    if (
        isinstance(key, Tensor)
        and key.dtype is dt.bool_
        and key._node.shape == x._node.shape[: key.ndim]
        and (not isinstance(value, Tensor) or value.numel() == 1)
    ):  # x[mask] = number needs no positions
        mask = key.to(x.device).reshape((*key.shape, *(1,) * (x.ndim - key.ndim)))
        if isinstance(value, Tensor):
            value = value.to(x.device, x.dtype).reshape(())
        x._overwrite(el.where(mask, value, x).to(x.dtype))
        return
    part, tensors = _parse(x, key)
    if not isinstance(value, Tensor):
        value = tensor(value, dtype=x.dtype, device=x.device)
    value = value.to(x.device).to(x.dtype)
    if not tensors:
        part._overwrite(value)
        return
    part._overwrite(_with_rows(part, tensors, value, accumulate=False))


def _with_rows(part: Tensor, tensors: dict[int, Tensor], value: Tensor, accumulate: bool) -> Tensor:
    moved, flat, shape, place, order, rows = _rows(part, tensors)
    rest = moved._node.shape[len(tensors) :]
    whole = (*rest[:place], *shape, *rest[place:])
    while value.ndim > len(whole) and value._node.shape[0] == 1:
        value = mv.squeeze(value, 0)
    try:
        value = mv.expand(value, whole)
    except RuntimeError:
        raise RuntimeError(
            f"shape mismatch: value tensor of shape {list(value.shape)} cannot be broadcast to "
            f"indexing result of shape {list(whole)}"
        ) from None
    if place:
        value = mv.movedim(value, list(range(place, place + len(shape))), list(range(len(shape))))
    source = value.reshape(math.prod(shape), math.prod(rest))
    base = moved.reshape(rows, math.prod(rest))
    if accumulate:
        out = base + apply(add_rows, (flat, source), (rows,))
    else:
        out = apply(put_rows, (base, flat, source))
    out = out.reshape(moved._node.shape)
    return mv.permute(out, mv._invert(tuple(order))) if order != list(range(len(order))) else out


def index_put(input: Tensor, indices: Any, values: Tensor, accumulate: bool = False) -> Tensor:
    """A copy of `input` with `values` at `indices` (added to what is there if `accumulate`)."""
    part, tensors = _parse(input, tuple(indices))
    return _with_rows(part, tensors, values.to(input.dtype), accumulate)


PUBLIC = public(
    globals(),
    both="""index_select gather scatter_add index_add nonzero masked_fill masked_select tril triu
    index_put""",
    inplace="masked_fill tril triu scatter_add index_add index_put",
)
