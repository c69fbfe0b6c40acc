"""The order of int keys: a radix sort, and search in what is sorted."""

from __future__ import annotations

from typing import Any

import numpy as np

from pyframe.codegen.cpu.assembler import I32, I64, PTR, WORD, Assembler
from pyframe.codegen.cpu.routines import (
    SCRATCH,
    Addr,
    Arrays,
    KernelBody,
    KernelInvocation,
    LibraryCall,
    parts,
)

TYPES = {"i4": I32, "i8": I64}
BINS = 256
PAIR = 16  # bytes of a key and its index


def _argsort(type: str) -> KernelBody:
    """Of each row the indices from number `begin` to `end` in the stable order of the keys.

    Pairs of a key (its sign turned, so that it is unsigned) and its index go from one list into
    another, sorted by 8 bits at a time; those that are equal in all keys are left out.
    """
    digits = 4 if type == I32 else 8
    top = -(2**31) if type == I32 else -(2**63)

    def write(f: Assembler, w: Any, begin: Any, end: Any, part: Any) -> None:
        n = w["n"]
        counts = f.local(w["memory"] + part * w["room"])
        first, second, swap = (f.local(type=PTR) for _ in range(3))
        bits, at, bin_ = f.local(type=type), f.local(type=PTR), f.local(type=PTR)
        here, total, number = f.local(type=PTR), f.local(type=WORD), f.local(type=WORD)

        def bin_of(key: Any, digit: int) -> Any:
            low = key.op("shr_u", 8 * digit) & (BINS - 1)
            return counts + low.cast(WORD) * 4 + 4 * BINS * digit

        def taken(place: Any) -> Any:
            """The number in a bin, which is counted on."""
            number.set(f.load(I32, place).cast(WORD))
            f.store(place, (number + 1).cast(I32))
            return number

        with f.count(begin, end) as row:
            first.set(counts + 4 * BINS * digits)
            second.set(first + n * PAIR)
            f.fill(counts, 4 * BINS * digits)
            at.set(w["keys"] + row * w["key_row"])
            here.set(first)
            with f.count(0, n) as i:
                bits.set(f.load(type, at).op("xor", top))
                f.store(here, bits)
                f.store(here, i, 8)
                for digit in range(digits):
                    bin_.set(bin_of(bits, digit))
                    taken(bin_)
                at.add(w["key_step"])
                here.add(PAIR)
            for digit in range(digits):
                bits.set(f.load(type, first))
                of_first = f.load(I32, bin_of(bits, digit)).cast(WORD)
                with f.when((n > 0) & of_first.differs(n)):
                    total.set(0)
                    table = f.local(counts + 4 * BINS * digit)
                    with f.count(0, 4 * BINS, 4) as x:
                        bin_.set(table + x)
                        number.set(f.load(I32, bin_).cast(WORD))
                        f.store(bin_, total.cast(I32))
                        total.add(number)
                    here.set(first)
                    with f.count(0, n):
                        bits.set(f.load(type, here))
                        bin_.set(bin_of(bits, digit))
                        at.set(second + taken(bin_) * PAIR)
                        f.store(at, f.load("i32x4", here))
                        here.add(PAIR)
                    swap.set(first)
                    first.set(second)
                    second.set(swap)
            at.set(w["to"] + row * (w["end"] - w["begin"]) * 8)
            with f.count(w["begin"], w["end"]) as i:
                f.store(at, f.load(WORD, first + i * PAIR, 8).cast(I64))
                at.add(8)

    return KernelBody("@to @keys rows n begin end key_row key_step @memory room", "rows", write)


def _search(type: str) -> KernelBody:
    """How many keys of a row in order are less than each of another row's."""
    size = 4 if type == I32 else 8

    def write(f: Assembler, w: Any, first: Any, last: Any, part: Any) -> None:
        low, left, half = (f.local(type=WORD) for _ in range(3))
        with f.count(0, w["rows"]) as row, f.count(first, last) as i:
            keys = f.local(w["keys"] + row * w["key_row"])
            value = f.local(f.load(type, w["values"] + row * w["value_row"] + i * size), type)
            low.set(0)
            left.set(w["n"])
            with f.during(lambda: left > 0):
                half.set(left.op("shr_u", 1))
                with f.when(f.load(type, keys + (low + half) * w["key_step"]) < value):
                    low.set(low + half + 1)
                    left.set(left - half - 1)
                    f.otherwise()
                    left.set(half)
            f.store(w["to"] + (row * w["m"] + i) * 8, low.cast(I64))

    return KernelBody("@to @keys @values rows n m key_row value_row key_step", "m", write)


def _merge(type: str) -> KernelBody:
    """Of rows of indices those in the order of their keys, if those of each half are in order; a
    row of keys belongs to `each` of them."""

    def write(f: Assembler, w: Any, first: Any, last: Any, part: Any) -> None:
        half = w["half"]
        left, right, takes_left = (f.local(type=WORD) for _ in range(3))
        at, middle = f.local(type=PTR), f.local(type=PTR)

        with f.count(first, last) as row:
            begin = f.local(w["order"] + row * half * 16)
            keys = f.local(w["keys"] + row // w["each"] * w["key_row"])

            def key(index: Any) -> Any:
                return f.load(type, keys + f.load(I64, index).cast(WORD) * w["key_step"])

            middle.set(begin + half * 8)
            at.set(w["to"] + row * half * 16)
            left.set(0)
            right.set(0)
            with f.count(0, half * 2):
                takes_left.set(1)
                with f.when(right < half):
                    takes_left.set(0)
                    with (
                        f.when(left < half),
                        f.when(key(begin + left * 8) <= key(middle + right * 8)),
                    ):
                        takes_left.set(1)
                with f.when(takes_left.differs(0)):
                    f.store(at, f.load(I64, begin + left * 8))
                    left.add(1)
                    f.otherwise()
                    f.store(at, f.load(I64, middle + right * 8))
                    right.add(1)
                at.add(8)

    return KernelBody("@to @keys @order rows half each key_row key_step", "rows", write)


BODIES = {f"argsort_{kind}": _argsort(type) for kind, type in TYPES.items()}
BODIES |= {f"search_{kind}": _search(type) for kind, type in TYPES.items()}
BODIES |= {f"merge_{kind}": _merge(type) for kind, type in TYPES.items()}


def _order(key: np.ndarray, begin: int, end: int) -> LibraryCall | None:
    kind = key.dtype.str[1:]
    if kind not in TYPES:
        return None
    rows, n = key.shape
    room = key.itemsize * 4 * BINS + 2 * PAIR * n
    words = (Addr(1), Addr(0), rows, n, begin, end, *key.strides, Addr(SCRATCH), room)
    return LibraryCall((KernelInvocation(f"argsort_{kind}", words, parts(rows, key.size)),), room)


def argsort(inputs: Arrays, attrs: tuple[Any, ...], out: np.ndarray) -> LibraryCall | None:
    """The routine of `argsort`, of keys of any strides."""
    return _order(inputs[0], 0, attrs[0])


def sort_runs(inputs: Arrays, attrs: tuple[Any, ...], out: np.ndarray) -> LibraryCall | None:
    """The routine of `sort_runs`; exports run the Programs of GPUs, which sort so."""
    return _order(inputs[0], 0, inputs[0].shape[1])


def merge_runs(inputs: Arrays, attrs: tuple[Any, ...], out: np.ndarray) -> LibraryCall | None:
    """The routine of `merge_runs`, of keys of any strides."""
    keys, order = inputs
    kind = keys.dtype.str[1:]
    if kind not in TYPES or order.dtype != np.int64 or not order.flags.c_contiguous:
        return None
    rows, n = order.shape
    words = (Addr(2), Addr(0), Addr(1), rows, n // 2, rows // keys.shape[0], *keys.strides)
    return LibraryCall((KernelInvocation(f"merge_{kind}", words, parts(rows, order.size)),))


def kth_index(inputs: Arrays, attrs: tuple[Any, ...], out: np.ndarray) -> LibraryCall | None:
    """The routine of `kth_index`, of keys of any strides."""
    return _order(inputs[0], attrs[0] - 1, attrs[0])


def searchsorted(inputs: Arrays, attrs: tuple[Any, ...], out: np.ndarray) -> LibraryCall | None:
    """The routine of `searchsorted`, of values whose rows lie in line each."""
    keys, values = inputs
    kind = keys.dtype.str[1:]
    in_line = values.shape[1] == 1 or values.strides[1] == values.itemsize
    if kind not in TYPES or values.dtype != keys.dtype or not in_line:
        return None
    (rows, n), m = keys.shape, values.shape[1]
    steps = keys.strides[0], values.strides[0], keys.strides[1]
    words = Addr(2), Addr(0), Addr(1), rows, n, m, *steps
    return LibraryCall((KernelInvocation(f"search_{kind}", words, parts(m, values.size)),))
