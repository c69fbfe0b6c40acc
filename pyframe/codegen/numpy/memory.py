"""Where the arrays of a plan lie: memory, and the parts of it that loads and stores show."""

from __future__ import annotations

import ctypes
import math
from collections.abc import Iterable
from types import SimpleNamespace
from typing import Any, NamedTuple, TypeAlias

import numpy as np

from pyframe.core import view as views
from pyframe.core.host_memory import aligned

Array: TypeAlias = np.ndarray
Shape = tuple[int, ...]
Ranges = tuple[slice, ...]
MIN_SCRATCH_BYTES = 1 << 18  # bytes of scratch memory, so that it rarely grows


class SymbolicArrayRef(NamedTuple):
    """How an array will lie, of sizes that change: `offset` bytes behind where a binding does."""

    shape: Shape
    strides: Shape  # in bytes
    dtype: np.dtype
    binding: int
    offset: Any

    def at(self, start: int) -> Array:
        """The array, where the binding lies there."""
        shown = {"shape": self.shape, "strides": self.strides, "typestr": self.dtype.str}
        shown |= {"data": (start + self.offset, False), "version": 3}
        return np.asarray(SimpleNamespace(__array_interface__=shown))

    @property
    def itemsize(self) -> int:
        return self.dtype.itemsize

    @property
    def size(self) -> int:
        return math.prod(self.shape)

    def swapaxes(self, *_: int) -> SymbolicArrayRef:
        """With the last two dims the other way round."""
        (*n, rows, columns), (*steps, row, column) = self.shape, self.strides
        return self._replace(shape=(*n, columns, rows), strides=(*steps, column, row))


def address(array: Any) -> Any:
    """Where its first element lies; of one that lies nowhere yet, itself."""
    if type(array) is SymbolicArrayRef:
        return array
    try:
        return ctypes.addressof(ctypes.c_char.from_buffer(array))
    except (BufferError, TypeError, ValueError):  # slower, but of what is read-only or in no line
        return int(array.__array_interface__["data"][0])


class SlotArray(np.ndarray):
    """An array that lies in a slot of a plan, as do its views."""

    slot = -1

    def __array_finalize__(self, of: Any) -> None:
        self.slot = getattr(of, "slot", -1)


class SlotAddress(int):
    """An address in a slot, which may move, as a word of a routine."""

    slot: int

    def __add__(self, nbytes: int) -> SlotAddress:
        out = SlotAddress(int(self) + nbytes)
        out.slot = self.slot
        return out


def address_arg(array: Any) -> Any:
    """`address`, as a word of a routine."""
    at = address(array)
    if type(array) is SlotArray:
        at = SlotAddress(at)
        at.slot = array.slot
    return at


def slots_of(arrays: Iterable[Array]) -> set[int]:
    """The slots that these lie in."""
    return {x.slot for x in arrays if type(x) is SlotArray}


class ScratchPool:
    """Scratch memory: numbered pieces for each worker, which every kernel finds all free."""

    def __init__(self, memory: dict[tuple[int, int], Array] | None = None) -> None:
        """`memory` is what plans share that do not run at the same time."""
        self.memory = {} if memory is None else memory
        self.views: dict[tuple[int, int, Shape, np.dtype], Array] = {}

    def get(self, worker: int, index: int, shape: Shape, dtype: np.dtype) -> Array:
        """Piece `index` of a worker, as an array."""
        key = worker, index, shape, dtype
        found = self.views.get(key)
        if found is None:
            n = math.prod(shape) * dtype.itemsize
            memory = self.memory.get((worker, index))
            if memory is None or memory.size < n:
                memory = self.memory[worker, index] = aligned(max(n, MIN_SCRATCH_BYTES))
            found = self.views[key] = memory[:n].view(dtype).reshape(shape)
        return found


class LoadView:
    """What a Load shows: `array` where it is valid, over a space of `shape` (1: no variation)."""

    def __init__(self, flat: Array, view: views.View) -> None:
        mask = view.mask or tuple((0, n) for n in view.shape)
        full = tuple(m == (0, n) for m, n in zip(mask, view.shape, strict=True))
        varies = [bool(s) or not f for s, f in zip(view.strides, full, strict=True)]
        self.shape = tuple(n if v else 1 for n, v in zip(view.shape, varies, strict=True))
        self.mask = None
        if all(full):
            lo, sizes = (0,) * len(mask), self.shape
        else:
            self.mask = tuple(m if v else (0, 1) for m, v in zip(mask, varies, strict=True))
            lo = tuple(a for a, _ in self.mask)
            sizes = tuple(max(b - a, 0) for a, b in self.mask)
        offset = view.offset + sum(a * s for a, s in zip(lo, view.strides, strict=True))
        if 0 in sizes:
            self.array = np.empty(sizes, flat.dtype)
        else:
            strides = tuple(s * flat.itemsize for s in view.strides)
            self.array = np.ndarray(sizes, flat.dtype, flat, offset * flat.itemsize, strides)

    def cut(self, ranges: Ranges) -> tuple[Array, Ranges | None, Shape]:
        """The valid part of a block, where it lies in the block (None: everywhere), its shape."""
        at = within(self.shape, ranges)
        shape = tuple(r.stop - r.start for r in at)
        if self.mask is None:
            return self.array[(..., *at)], None, shape  # ...: never a scalar
        both = [
            (max(r.start, lo), max(min(r.stop, hi), r.start, lo))
            for r, (lo, hi) in zip(at, self.mask, strict=True)
        ]
        part = self.array[
            tuple(slice(a - lo, b - lo) for (a, b), (lo, _) in zip(both, self.mask, strict=True))
        ]
        if part.shape == shape:
            return part, None, shape
        inside = tuple(slice(a - r.start, b - r.start) for (a, b), r in zip(both, at, strict=True))
        return part, inside, shape


def within(shape: Shape, ranges: Ranges) -> Ranges:
    """The ranges of a block in an array that is 1 where it does not vary."""
    return tuple(slice(0, 1) if n == 1 else r for n, r in zip(shape, ranges, strict=True))


def extent(v: views.View) -> int:
    return v.offset + sum((m - 1) * s for m, s in zip(v.shape, v.strides, strict=True)) + 1


def valid(index_map: views.IndexMap) -> LoadView:
    """Where an index map has an element, as bools; they do not vary along axes without a mask."""
    v = index_map[0]
    if len(index_map) > 1:
        ones = np.ones(max(math.prod(v.shape), extent(v), 1), np.bool_)
        found = np.ascontiguousarray(views.read(ones, index_map))
        return LoadView(found.reshape(-1), views.contiguous(found.shape)[0])
    masks = v.mask or tuple((0, n) for n in v.shape)
    full = [m == (0, n) for m, n in zip(masks, v.shape, strict=True)]
    found = np.zeros([1 if f else n for f, n in zip(full, v.shape, strict=True)], np.bool_)
    found[tuple(slice(None) if f else slice(*m) for f, m in zip(full, masks, strict=True))] = True
    strides = tuple(0 if f else s for f, s in zip(full, found.strides, strict=True))
    return LoadView(found.reshape(-1), views.View(v.shape, strides))
