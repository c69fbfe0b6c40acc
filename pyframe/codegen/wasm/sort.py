"""The order of int keys in WebAssembly: a radix sort, and search in what is sorted."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from pyframe.codegen.wasm.assembler import I32, I64, Assembler, Value, Variable
from pyframe.codegen.wasm.encoder import Module
from pyframe.codegen.wasm.routines import SCRATCH, At, Call, Routine

_TYPES = {"i4": I32, "i8": I64}
BINS = 256


def build(module: Module) -> None:
    """Add the functions to a module."""
    for kind, type in _TYPES.items():
        _argsort(module, f"argsort_{kind}", type)
        _search(module, f"search_{kind}", type)


def _argsort(module: Module, name: str, type: str) -> None:
    """Of each row the indices from number `begin` to `end` in the stable order of the keys.

    Pairs of a key (its sign turned, so that it is unsigned) and its index go from one list into
    another, sorted by 8 bits at a time; those that are equal in all keys are left out.
    """
    f = Assembler(module, name, "i32 " * 9, export=True)
    to, keys, rows, n, begin, end, row, step, counts = f.params
    digits = 4 if type == I32 else 8
    first, second, swap = f.local(counts + 4 * BINS * digits), f.local(), f.local()
    second.set(first + n * 16)
    bits = f.local(type=type)
    total, here, at, bin_ = f.local(), f.local(), f.local(), f.local()
    top = -(2**31) if type == I32 else -(2**63)

    def bin_of(key: Value, digit: int) -> Value:
        low = key.op("shr_u", 8 * digit) & (BINS - 1)
        low = low.to("i32.wrap_i64") if type == I64 else low
        return counts + low * 4 + 4 * BINS * digit

    def count(place: Variable) -> None:
        f.store(place, f.load(I32, place) + 1)

    with f.count(0, rows):
        f.fill(counts, 0, 4 * BINS * digits)
        at.set(keys)
        here.set(first)
        with f.count(0, n) as i:
            bits.set(f.load(type, at).op("xor", top))
            f.store(here, bits)
            f.store(here, i, 8)
            for digit in range(digits):
                bin_.set(bin_of(bits, digit))
                count(bin_)
            at.add(step)
            here.add(16)
        for digit in range(digits):
            bits.set(f.load(type, first))
            with f.when((n > 0) & f.load(I32, bin_of(bits, digit)).differs(n)):
                total.set(0)
                table = counts + 4 * BINS * digit
                with f.count(table, table + 4 * BINS, 4) as place:
                    at.set(f.load(I32, place))
                    f.store(place, total)
                    total.add(at)
                with f.count(first, first + n * 16, 16) as pair:
                    bits.set(f.load(type, pair))
                    bin_.set(bin_of(bits, digit))
                    at.set(second + f.load(I32, bin_) * 16)
                    count(bin_)
                    f.store(at, f.load("i32x4", pair))
                swap.set(first)
                first.set(second)
                second.set(swap)
        with f.count(begin, end) as i:
            f.store(to, f.load(I32, first + i * 16, 8).to("i64.extend_i32_u"))
            to.add(8)
        keys.add(row)


def _search(module: Module, name: str, type: str) -> None:
    """How many keys of a row in order are less than each of another row's."""
    f = Assembler(module, name, "i32 " * 9, export=True)
    to, keys, values, rows, n, m, key_row, value_row, key_step = f.params
    low, left, half = f.local(), f.local(), f.local()
    size = 4 if type == I32 else 8
    with f.count(0, rows):
        with f.count(0, m) as i:
            value = f.local(f.load(type, values + i * size), type)
            low.set(0)
            left.set(n)
            with f.during(left > 0):
                half.set(left.op("shr_u", 1))
                with f.when(f.load(type, keys + (low + half) * key_step) < value):
                    low.set(low + half + 1)
                    left.set(left - half - 1)
                    f.otherwise()
                    left.set(half)
            f.store(to, low.to("i64.extend_i32_u"))
            to.add(8)
        keys.add(key_row)
        values.add(value_row)


def _order(key: np.ndarray, begin: int, end: int) -> Routine | None:
    kind = key.dtype.str[1:]
    if kind not in _TYPES:
        return None
    rows, n = key.shape
    arguments = (At(1), At(0), rows, n, begin, end, *key.strides, At(SCRATCH))
    return Routine((Call(f"argsort_{kind}", arguments),), key.itemsize * 4 * BINS + 32 * n)


def argsort(
    inputs: Sequence[np.ndarray], attrs: tuple[Any, ...], out: np.ndarray
) -> Routine | None:
    """The routine of `argsort`, of keys of any strides."""
    return _order(inputs[0], 0, attrs[0])


def kth_index(
    inputs: Sequence[np.ndarray], attrs: tuple[Any, ...], out: np.ndarray
) -> Routine | None:
    """The routine of `kth_index`, of keys of any strides."""
    return _order(inputs[0], attrs[0] - 1, attrs[0])


def searchsorted(
    inputs: Sequence[np.ndarray], attrs: tuple[Any, ...], out: np.ndarray
) -> Routine | None:
    """The routine of `searchsorted`, of values whose rows lie in line each."""
    keys, values = inputs
    kind = keys.dtype.str[1:]
    in_line = values.shape[1] == 1 or values.strides[1] == values.itemsize
    if kind not in _TYPES or values.dtype != keys.dtype or not in_line:
        return None
    (rows, n), m = keys.shape, values.shape[1]
    steps = keys.strides[0], values.strides[0], keys.strides[1]
    return Routine((Call(f"search_{kind}", (At(2), At(0), At(1), rows, n, m, *steps)),))
