"""Index maps: where in the buffer behind it the elements of a tensor lie.

An index map sends the index of an element to a flat position. It is data alone: kernels compute it,
NumPy shows it by strides. Not to be confused with a view chain (tensor/view_chain.py), which
says by which ops a view was cut from its base; each op's `view` says what it does to an index map.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from pyframe.core import sizes

Shape = tuple[int, ...]


class View(NamedTuple):
    """Index i (of `shape`) -> offset + sum(i * strides), valid where lo <= i < hi of `mask`."""

    shape: Shape
    strides: Shape
    offset: int = 0
    mask: tuple[tuple[int, int], ...] | None = None


# Views applied one after the other: the last one takes the tensor's index, and each one's flat
# position is unravelled over the shape of the one before it; the first points into the buffer. Most
# have one View; a reshape that no strides can say adds another.
IndexMap = tuple[View, ...]


@functools.lru_cache(4096)
def row_major_strides(shape: Shape) -> Shape:
    """The strides of elements that lie one after the other, the last dim's as neighbours."""
    strides = [1]
    for size in shape[:0:-1]:
        strides.append(strides[-1] * size)
    return tuple(strides[::-1]) if shape else ()


def contiguous(shape: Shape) -> IndexMap:
    """The index map of a tensor that fills its buffer in row-major order."""
    return (View(shape, row_major_strides(shape)),)


def is_contiguous(index_map: IndexMap) -> bool:
    """Whether the tensor lies in its buffer in row-major order from position 0."""
    if len(index_map) > 1:
        return False
    shape, strides, offset, mask = index_map[0]
    if offset or mask:
        return False
    expected = row_major_strides(shape)
    return (
        all(s == e or n == 1 for s, e, n in zip(strides, expected, shape, strict=True))
        or 0 in shape
    )


@functools.lru_cache(4096)
def stride_order(shape: Shape, operands: tuple[tuple[Shape, Shape], ...]) -> Shape | None:
    """The order in which the dims of an elementwise result of `shape` lie in memory, the longest
    stride first; None for row-major. `operands` are (shape, strides), and may be broadcast.

    It is that of the first operand that has an opinion on two dims (PyTorch's TensorIterator).
    Dims of size 1 have no place in memory, so they alone don't count.
    """
    if 0 in shape:
        return None
    layouts = []
    for own, strides in operands:
        new = len(shape) - len(own)
        repeats = [n == 1 != m for n, m in zip(own, shape[new:], strict=True)]
        steps = [0 if r else abs(s) for r, s in zip(repeats, strides, strict=True)]
        layouts.append([0] * new + steps)
    inner = list(range(len(shape)))[::-1]  # the dims, the shortest stride first
    for i in range(1, len(inner)):  # sorted by swaps, as a comparison may have no answer
        at = i
        for before in range(i - 1, -1, -1):
            swaps = _swaps(inner[before], inner[at], shape, layouts)
            if swaps:
                inner[before], inner[at] = inner[at], inner[before]
                at = before
            elif swaps is False:
                break
    kept = [d for d in reversed(inner) if shape[d] > 1]
    return tuple(reversed(inner)) if kept != sorted(kept) else None


def _swaps(a: int, b: int, shape: Shape, layouts: list[list[int]]) -> bool | None:
    """Whether dim `a`, which is within `b` so far, has the longer stride; None if none says so."""
    for strides in layouts:
        if strides[a] and strides[b]:
            if strides[a] != strides[b]:
                return strides[a] > strides[b]
            if shape[a] > shape[b]:
                return True
    return None


@functools.lru_cache(4096)
def inverse_order(dims: Shape) -> Shape:
    """The order of dims that undoes `dims`."""
    out = [0] * len(dims)
    for i, d in enumerate(dims):
        out[d] = i
    return tuple(out)


def permute(t: IndexMap, dims: Shape) -> IndexMap:
    """The dims in another order: dim i is dim `dims[i]` of before."""
    v = t[-1]
    mask = v.mask and tuple(v.mask[d] for d in dims)
    shape, strides = tuple(v.shape[d] for d in dims), tuple(v.strides[d] for d in dims)
    return (*t[:-1], View(shape, strides, v.offset, mask))


def expand(t: IndexMap, shape: Shape) -> IndexMap:
    """Broadcast to `shape`: new dims come first, and one element shows all along its dim."""
    v = t[-1]
    new = len(shape) - len(v.shape)
    strides = [0] * len(shape)
    mask = [(0, n) for n in shape]
    for d, (n, s, wide) in enumerate(zip(v.shape, v.strides, shape[new:], strict=True)):
        same = n is wide or (type(n) is not int and sizes.same(n, wide)) or n != 1 or wide == 1
        strides[new + d] = s if same else 0
        if v.mask:
            full = v.mask[d] == (0, n)
            mask[new + d] = v.mask[d] if same else (0, wide) if full else (0, 0)
    return (*t[:-1], View(shape, tuple(strides), v.offset, tuple(mask) if v.mask else None))


def slice_(t: IndexMap, starts: Shape, sizes: Shape, steps: Shape) -> IndexMap:
    """Index i reads starts + i * steps; a step may be negative."""
    v = t[-1]
    offset = v.offset + sum(a * s for a, s in zip(starts, v.strides, strict=True))
    strides = tuple(s * k for s, k in zip(v.strides, steps, strict=True))
    mask = None
    if v.mask:
        bounds = []
        for (lo, hi), a, n, k in zip(v.mask, starts, sizes, steps, strict=True):
            if k > 0:
                first, last = -((a - lo) // k), -((a - hi) // k)
            else:
                first, last = -((hi - 1 - a) // -k), -((lo - 1 - a) // -k)
            bounds.append((min(max(first, 0), n), min(max(last, 0), n)))
        mask = tuple(bounds)
    return (*t[:-1], View(sizes, strides, offset, mask))


def pad(t: IndexMap, widths: tuple[tuple[int, int], ...]) -> IndexMap:
    """Add `widths` (before, after) invalid positions to each dim."""
    v = t[-1]
    shape = tuple(n + a + b for n, (a, b) in zip(v.shape, widths, strict=True))
    offset = v.offset - sum(a * s for (a, _), s in zip(widths, v.strides, strict=True))
    old = v.mask or tuple((0, n) for n in v.shape)
    mask = tuple((lo + a, hi + a) for (lo, hi), (a, _) in zip(old, widths, strict=True))
    return (*t[:-1], View(shape, v.strides, offset, mask))


def sliding_windows(t: IndexMap, size: Shape, stride: Shape, dilation: Shape) -> IndexMap:
    """Sliding windows over the last dims: (..., *spatial) -> (..., *positions, *size)."""
    v = t[-1]
    k = len(size)
    if v.mask:  # a window reads both sides of a mask's edge, so the mask needs a view of its own
        return sliding_windows(
            (*t, View(v.shape, row_major_strides(v.shape))), size, stride, dilation
        )
    lead, spatial, s = v.shape[:-k], v.shape[-k:], v.strides[-k:]
    count = window_count(spatial, size, stride, dilation)
    strides = (
        *v.strides[:-k],
        *(a * b for a, b in zip(s, stride, strict=True)),
        *(a * b for a, b in zip(s, dilation, strict=True)),
    )
    return (*t[:-1], View((*lead, *count, *size), strides, v.offset))


def window_count(spatial: Shape, size: Shape, stride: Shape, dilation: Shape) -> Shape:
    """How many positions a sliding window has along each dim."""
    return tuple(
        (n - d * (k - 1) - 1) // s + 1
        for n, k, s, d in zip(spatial, size, stride, dilation, strict=True)
    )


def diagonal(t: IndexMap, offset: int, dim1: int, dim2: int) -> IndexMap:
    """The diagonal of two dims as the last dim."""
    v = t[-1]
    if v.mask:  # of two dims at once, so it needs a view of its own
        return diagonal((*t, View(v.shape, row_major_strides(v.shape))), offset, dim1, dim2)
    start = diagonal_start(v.shape, offset, dim1, dim2)
    at = v.offset + sum((c.start or 0) * s for c, s in zip(start, v.strides, strict=True))
    shape = diagonal_shape(v.shape, offset, dim1, dim2)
    return (*t[:-1], View(shape, diagonal_strides(v.strides, dim1, dim2), at))


def diagonal_shape(shape: Shape, offset: int, dim1: int, dim2: int) -> Shape:
    """The shape of a diagonal of dims `dim1` and `dim2`, which comes last."""
    rows, columns = shape[dim1] + min(offset, 0), shape[dim2] - max(offset, 0)
    rest = tuple(n for d, n in enumerate(shape) if d not in (dim1, dim2))
    return (*rest, max(min(rows, columns), 0))


def diagonal_strides(strides: Shape, dim1: int, dim2: int) -> Shape:
    """The strides of a diagonal: a step along it is one along both of its dims."""
    rest = tuple(s for d, s in enumerate(strides) if d not in (dim1, dim2))
    return (*rest, strides[dim1] + strides[dim2])


def diagonal_start(shape: Shape, offset: int, dim1: int, dim2: int) -> tuple[slice, ...]:
    """Where a diagonal starts, as slices (clipped where it is empty)."""
    first = {dim1: max(-offset, 0), dim2: max(offset, 0)}
    return tuple(slice(min(first.get(d, 0), n), None) for d, n in enumerate(shape))


def as_strided(t: IndexMap, shape: Shape, strides: Shape, offset: int, *_: object) -> IndexMap:
    """Any strides over the flat positions of all that `t` shows, in row-major order."""
    v = t[-1]
    rest = (
        t[:-1] if v.mask is None and not v.offset and v.strides == row_major_strides(v.shape) else t
    )
    return (*rest, View(shape, strides, offset))


def reshape(t: IndexMap, shape: Shape) -> IndexMap:
    """The same elements in row-major order with another shape; by strides where they can say it."""
    v = t[-1]
    if sizes.same(v.shape, shape):
        return t
    if len(t) > 1 and _is_reshape(v, t[-2].shape):
        return reshape(t[:-1], shape)
    if v.mask is None:
        strides = _merged_strides(v, shape)
        if strides is not None:
            return (*t[:-1], View(shape, strides, v.offset))
    elif [n for n in v.shape if n != 1] == [n for n in shape if n != 1]:
        kept = [d for d, n in enumerate(v.shape) if n != 1]
        if all(v.mask[d] == (0, 1) for d, n in enumerate(v.shape) if n == 1):
            it = iter(kept)
            from_ = [next(it) if n != 1 else None for n in shape]
            strides = tuple(0 if d is None else v.strides[d] for d in from_)
            mask = tuple((0, 1) if d is None else v.mask[d] for d in from_)
            return (*t[:-1], View(shape, strides, v.offset, mask))
    return (*t, View(shape, row_major_strides(shape)))


def joined(t: IndexMap) -> IndexMap:
    """The same elements by fewer views, now that sizes are numbers: one that shows all that lies
    behind it in row-major order is the start of the next."""
    out = t[:1]
    for v in t[1:]:
        a = out[-1]
        if a.mask is None and is_contiguous((a._replace(offset=0),)):
            out = (*out[:-1], v._replace(offset=v.offset + a.offset))
        else:
            out = (*out, v)
    return out


def _is_reshape(v: View, shape: Shape) -> bool:
    """Whether all that lies behind a tensor of `shape` shows in `v`, in row-major order."""
    return (
        v.mask is None
        and sizes.same((v.offset, v.strides), (0, row_major_strides(v.shape)))
        and sizes.same(math.prod(v.shape), math.prod(shape))
    )


def _merged_strides(v: View, shape: Shape) -> Shape | None:
    """Strides of `v` seen with `shape`, or None where no strides can say it, or none for all sizes
    that a size which changes may be."""
    if 0 in v.shape:
        return row_major_strides(shape)
    groups: list[list[int]] = []  # [size, stride of its last dim], joined where memory is
    for n, s in zip(v.shape, v.strides, strict=True):
        if type(n) is int and n == 1:  # of one that changes nobody asks
            continue
        if groups and type(apart := groups[-1][1] - s * n) is int and not apart:
            groups[-1] = [groups[-1][0] * n, s]
        else:
            groups.append([n, s])
    strides = [0] * len(shape)
    d = len(shape) - 1
    for size, stride in reversed(groups):
        done = 1
        while type(left := size - done) is not int or left:
            while d >= 0 and type(shape[d]) is int and shape[d] == 1:
                d -= 1
            if d < 0 or type(rest := size % (done * shape[d])) is not int or rest:
                return None
            strides[d] = stride * done
            done *= shape[d]
            d -= 1
    return tuple(strides)


class Term(NamedTuple):
    """(index[dim] // div % mod) * factor; mod 0 means none is needed."""

    dim: int
    div: int
    mod: int
    factor: int


def unravel(v: View, shape: Shape) -> list[tuple[int, list[Term]]] | None:
    """The index over `shape` of `v`'s flat position, each dim as offset + sum of terms.

    None where only the flat position itself can be unravelled, as it may be where it can't be told
    for all sizes. Reshapes and windows mostly can be said dim by dim, which takes few divisions or
    none.
    """
    inner = row_major_strides(shape)
    rest, offsets = v.offset, []
    for n, stride in zip(shape, inner, strict=True):
        digit = rest // stride if sizes.is_symbolic_size(n) or n > 1 else 0
        offsets.append(digit)
        rest -= digit * stride
    if rest:
        return None
    terms: list[list[Term]] = [[] for _ in shape]
    low, high = list(offsets), list(offsets)
    for d, (n, s) in enumerate(zip(v.shape, v.strides, strict=True)):
        if (type(n) is int and n == 1) or s == 0:
            continue
        e = next((e for e,
        r in enumerate(inner) if (sizes.is_symbolic_size(shape[e]) or shape[e] > 1)
                  and sizes.statically_divides(r, abs(s))), None)  # fmt: skip
        if e is None:
            return None
        factor = s // inner[e] if s > 0 else -(-s // inner[e])
        done = 1  # elements of index d that the dims so far take in
        while True:
            left = n // done
            fits = left * abs(factor) <= shape[e] or e == 0
            take = left if fits else shape[e]
            if not fits and (abs(factor) != 1 or left % shape[e]):
                return None
            terms[e].append(Term(d, done, 0 if fits else shape[e], factor))
            end = high if factor > 0 else low
            end[e] += factor * (take - 1)
            done *= take
            if fits:
                break
            e -= 1
            while e > 0 and type(shape[e]) is int and shape[e] == 1:
                e -= 1
    if any(a < 0 or b >= n for a, b, n in zip(low, high, shape, strict=True)):
        return None
    return list(zip(offsets, terms, strict=True))


def collapse(
    index_maps: list[IndexMap], shape: Shape, kinds: Sequence[int] | None = None
) -> tuple[list[IndexMap], Shape, list[int]]:
    """The same index maps over fewer dims: neighbours that every top view walks as one merge.

    Only dims of equal kind merge; the kinds of the new dims are returned too.
    """
    kinds = kinds or (0,) * len(shape)
    for t in index_maps:
        v = t[-1]
        if v.mask and any(v.mask[d] != (0, 1) for d, n in enumerate(shape) if n == 1):
            return index_maps, shape, list(kinds)  # nothing is valid: keep the dim that says so
    groups: list[list[int]] = []
    for d, n in enumerate(shape):
        if type(n) is int and n == 1:  # of one that changes nobody asks
            continue
        last = groups[-1][-1] if groups else d
        if (
            groups
            and kinds[last] == kinds[d]
            and all(
                t[-1].mask is None
                and type(apart := t[-1].strides[last] - t[-1].strides[d] * n) is int
                and not apart
                for t in index_maps
            )
        ):
            groups[-1].append(d)
        else:
            groups.append([d])
    new_shape = tuple(math.prod(shape[d] for d in g) for g in groups)
    out: list[IndexMap] = []
    for t in index_maps:
        v = t[-1]
        mask = v.mask and tuple(v.mask[g[0]] for g in groups)
        strides = tuple(v.strides[g[-1]] for g in groups)
        out.append((*t[:-1], View(new_shape, strides, v.offset, mask)))
    return out, new_shape, [kinds[g[0]] for g in groups]


def read(flat: np.ndarray, index_map: IndexMap) -> np.ndarray:
    """The tensor that `index_map` shows of the 1-d array `flat`; invalid positions read 0."""
    for v in index_map:
        flat = _read_view(flat.reshape(-1), v)
    return flat


def _read_view(flat: np.ndarray, v: View) -> np.ndarray:
    """What one View shows of the 1-d array `flat`, with zeros where its mask says so."""
    size = flat.itemsize
    if v.mask is None:
        return np.lib.stride_tricks.as_strided(
            flat[v.offset :], v.shape, tuple(s * size for s in v.strides), writeable=False
        )
    out = np.zeros(v.shape, flat.dtype)
    if any(lo >= hi for lo, hi in v.mask):
        return out
    start = v.offset + sum(lo * s for (lo, _), s in zip(v.mask, v.strides, strict=True))
    shape = tuple(hi - lo for lo, hi in v.mask)
    inner = np.lib.stride_tricks.as_strided(
        flat[start:], shape, tuple(s * size for s in v.strides), writeable=False
    )
    out[tuple(slice(lo, hi) for lo, hi in v.mask)] = inner
    return out
