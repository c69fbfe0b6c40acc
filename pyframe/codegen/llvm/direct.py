"""Convolutions that are no products of large matrices, in LLVM IR.

Those with few rows in a group, such as depthwise ones, are sums over the taps of a few rows of the
result at once, which stay in registers, read where the images lie; of a few channels of pictures
several planes of the result are made from what is read. There is a function for each
kernel and stride, in which all taps are written out: what several rows of the result read is read
once. What lies outside of an image is left out by masks, and whole rows are read from a row of
zeros instead.

Those of few positions are sums along the rows of the weight, each times a position's window.
"""

from __future__ import annotations

import functools
import itertools
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from pyframe.codegen.cpu.gemm import Tile
from pyframe.codegen.cpu.routines import names_of
from pyframe.codegen.lanes.compiler import ScratchArg
from pyframe.codegen.llvm import after as following
from pyframe.codegen.llvm.after import CompiledEpilogue
from pyframe.codegen.llvm.assembler import LlvmAssembler, LlvmValue, cut, launched
from pyframe.codegen.llvm.gemm import dots
from pyframe.codegen.numpy.memory import address_arg

MAX_UNROLLED_TAPS = 49  # taps that are written out
MIN_UNIT_WORK = 1 << 16  # multiplications that are worth a unit of their own
VECTORS = 4  # of a block of the result: one of so many rows, or more of a single one
ROWS_OF_32_REGISTERS = 7  # rows of one, where there are 32 registers
CHANNELS, TAPS, ROWS = 4, 9, 32  # up to which columns take longer to write than to multiply
WIDE_ROW_VECTORS = 4  # vectors of a row, from which on few of their lanes are empty

# What a launch reads: how many units; the result, the images, the weight, a row of zeros; how many
# planes the result has, or sets of them made at once, how many planes a group has, and groups;
# strides in bytes of the result, the images and the weight; the sizes of images and of the result,
# and how much of an image its first results leave out; into how many parts the rows of a plane are
# cut; what follows (after.py).
WORDS = (
    "units @c @x @a @zeros planes m groups c_image c_row image group channel channels line "
    f"a_group a_row a_channel a_y a_x height width rows columns up left bands {following.WORDS}"
)

POSITIONS = 4  # that are few

# What a launch of `few` reads: how many units; their memory and its bytes for each; the result, the
# images, the weight; a table of what the windows read, and where each position's result lies; rows
# of the result and elements of a window; bytes of a window in memory, and from row to row of the
# weight and of the result.
FEW_POSITIONS_ARGS = "units @memory unit_bytes @c @x @a @at @places m k line a_row c_row"


def launches(
    t: Tile, of_input: bool, inputs: Sequence[np.ndarray], attrs: tuple[Any, ...], out: np.ndarray,
    threads: int, after: Callable[[], CompiledEpilogue] | None = None,
) -> list[tuple[str, list[Any]]] | None:  # fmt: skip
    """Of `conv` or `conv_input`; None where it has another form, or products are faster."""
    x, w = inputs
    stride, padding, dilation, groups = attrs[-4:]
    dims, size = len(stride), t.size
    m = w.shape[1] if of_input else w.shape[0] // groups
    if dims > 2 or not x.size or not w.size or (of_input and max(stride) > 1):
        return None
    outs = 1 if 2 * m <= t.rows else _together(t, of_input, w, m, out.shape[-1])
    if not outs:
        return None
    if x.shape[-1] > 1 and x.strides[-1] != size:
        return None
    kernel, by = w.shape[2:], w.strides[2:]
    at = address_arg(w)
    a_channel, a_row = w.strides[1], w.strides[0]
    if of_input:  # the weight turned, and of each dim all that its first and last taps reach
        a_channel, a_row = a_row, a_channel
        at += sum((k - 1) * s for k, s in zip(kernel, by, strict=True))
        by = [-s for s in by]
        padding = [d * (k - 1) - p for d, k, p in zip(dilation, kernel, padding, strict=True)]
    two = (1,) * (2 - dims)
    (kh, kw), (sy, sx), (dy, dx) = (two + tuple(s) for s in (kernel, stride, dilation))
    if kh * kw > MAX_UNROLLED_TAPS or kh * kw == 1 < m or max(sy, sx) > 2:
        return None
    channels, planes = x.shape[1] // groups, out.shape[0] * out.shape[1] // outs
    height, width = two + x.shape[2:]
    rows, columns = two + out.shape[2:]
    high = min(rows, VECTORS if outs == 1 else 2)
    if (
        t.rows >= 8
        and channels == outs == 1
        and rows in (ROWS_OF_32_REGISTERS, 2 * ROWS_OF_32_REGISTERS)
    ):
        high = ROWS_OF_32_REGISTERS  # no block overlaps another
    wide = max(VECTORS // high, 1) if columns > t.lanes and outs == 1 else 1
    most = min(threads, out.size * channels * kh * kw // MIN_UNIT_WORK)
    bands = -(-most // planes) if most > planes else 1
    if after and rows % high:  # the last rows would be computed after what follows on them
        bands = 1
    fields: dict[str, Any] = {
        "units": max(1, min(planes * bands, 4 * most if most > 1 else 1)), "c": address_arg(out),
        "x": address_arg(x), "a": at, "zeros": np.zeros(width, out.dtype), "planes": planes, "m": m,
        "groups": groups, "c_image": out.strides[0], "c_row": out.strides[1],
        "image": x.strides[0], "group": channels * x.strides[1], "channel": x.strides[1],
        "channels": channels, "line": x.strides[-2] if dims > 1 else 0,
        "a_group": w.shape[0] // groups * w.strides[0], "a_row": a_row, "a_channel": a_channel,
        "a_y": by[-2] if dims > 1 else 0, "a_x": by[-1], "height": height, "width": width,
        "rows": rows, "columns": columns, "up": padding[-2] if dims > 1 else 0,
        "left": padding[-1], "bands": bands,
        **(following.NONE if after is None else after().words),
    }  # fmt: skip
    words = [fields[name] & (2**64 - 1) if type(fields[name]) is int else fields[name]
             for name in names_of(WORDS)]  # fmt: skip
    shape = (kh, kw, sy, sx, dy, dx, high, wide, int(channels == 1 == outs), outs)
    return [("direct_" + "_".join(map(str, shape)), words)]


def _together(t: Tile, of_input: bool, w: np.ndarray, m: int, columns: int) -> int:
    """How many planes of the result are made at once that read few channels; 0: products are
    faster, or much of vectors were empty."""
    some = 8 if t.rows >= 8 else 4
    few = w.shape[1] <= CHANNELS and 1 < w[0, 0].size <= TAPS and m <= ROWS and m % some == 0
    return some if few and not of_input and columns >= WIDE_ROW_VECTORS * t.lanes else 0


def direct(t: Tile, name: str) -> LlvmAssembler:
    """The function of this name."""
    kh, kw, sy, sx, dy, dx, high, wide, single, outs = map(int, name.split("_")[1:])
    f, w, begin, end = launched(WORDS)
    columns32, width32 = (w[x].cast("i32").splat(t.lanes) for x in ("columns", "width"))
    lanes = f.numbers(range(t.lanes), "i32")

    def factors(a: LlvmValue) -> Callable[[int, int, int], LlvmValue]:
        @functools.cache
        def factor(o: int, ky: int, kx: int) -> LlvmValue:
            at = a + w["a_row"] * o + w["a_y"] * ky + w["a_x"] * kx
            return f.load_fixed(t.real, at).splat(t.lanes)

        if outs == 1:  # before all else
            for ky, kx in itertools.product(range(kh), range(kw)):
                factor(0, ky, kx)
        return factor

    with f.count(begin, end) as u:
        first, last = cut(w["planes"] * w["bands"], u, w["units"])
        with f.count(first, last) as z:
            plane, band = z // w["bands"], z % w["bands"]
            outputs = w["groups"] * w["m"] // outs
            image, o = plane // outputs, plane % outputs * outs
            group = o // w["m"]
            x = w["x"] + image * w["image"] + group * w["group"]
            a = w["a"] + group * w["a_group"] + (o % w["m"]) * w["a_row"]
            c = w["c"] + image * w["c_image"] + o * w["c_row"]
            fixed = factors(a) if single else None
            top, bottom = cut(w["rows"], band, w["bands"], high)
            with f.count(top, bottom, high) as at, f.count(0, w["columns"], wide * t.lanes) as j:
                y = at.min(w["rows"] - high)  # the last rows may be computed twice
                begins, source = y * sy - w["up"], j * sx - w["left"]
                place = source.cast("i32").splat(t.lanes) + lanes
                each = [*itertools.product(range(outs), range(high), range(wide))]
                sums = {place: f.local(f.value(0, t.vector)) for place in each}

                @functools.cache
                def inside(offset: int) -> LlvmValue:
                    return (place + f.value(offset, place.type)).op("lt_u", width32)

                # of the rows that are read, the taps and rows of the result that they are for
                reads: dict[int, list[tuple[int, int]]] = {}
                for r, ky in itertools.product(range(high), range(kh)):
                    reads.setdefault(r * sy + ky * dy, []).append((r, ky))
                # of what is read for a tap, where: of two vectors each other element, if they are
                at_tap = {}
                for v, kx in itertools.product(range(wide), range(kw)):
                    odd = kx * dx % sx
                    offsets = [v * t.lanes * sx + kx * dx - odd + i * t.lanes for i in range(sx)]
                    at_tap[v, kx] = odd, offsets
                    for offset in offsets:
                        inside(offset)  # which the loop over channels shares

                def of_channel(x: LlvmValue, factor: Callable[[int, int, int], LlvmValue]) -> None:
                    lines = {}
                    for i in sorted(reads):
                        row = begins + i
                        line = (x + row * w["line"]).where(row.op("lt_u", w["height"]), w["zeros"])
                        lines[i] = line + source * t.size

                    @functools.cache
                    def read(i: int, offset: int) -> LlvmValue:
                        at = lines[i] + offset * t.size
                        return f.load_some(t.vector, at, inside(offset), t.size)

                    def value(i: int, v: int, kx: int) -> LlvmValue:
                        odd, offsets = at_tap[v, kx]
                        x, *more = (read(i, offset) for offset in offsets)
                        return x.shuffle(range(odd, 2 * t.lanes, 2), *more) if more else x

                    if outs == 1:
                        for i, readers in sorted(reads.items()):
                            for v, kx in at_tap:
                                x = value(i, v, kx)
                                for r, ky in readers:
                                    total = sums[0, r, v]
                                    total.set(x.fma(factor(0, ky, kx), total))
                        return
                    for v, kx in at_tap:
                        values = {i: value(i, v, kx) for i in lines}
                        for ky, o in itertools.product(range(kh), range(outs)):
                            one = factor(o, ky, kx)
                            for r in range(high):
                                total = sums[o, r, v]
                                total.set(values[r * sy + ky * dy].fma(one, total))

                if fixed:
                    of_channel(x, fixed)
                else:
                    with f.count(0, w["channels"]) as n:
                        of_channel(x + n * w["channel"], factors(a + n * w["a_channel"]))
                for (n, r, v), total in sums.items():
                    to = j + v * t.lanes
                    some = (to.cast("i32").splat(t.lanes) + lanes) < columns32
                    into = c + w["c_row"] * n + ((y + r) * w["columns"] + to) * t.size
                    f.store_some(into, total, some, t.size)
            size = (bottom - top) * w["columns"]
            at = c + top * w["columns"] * t.size
            following.call(f, w, o, at, w["c_row"], f.value(outs, "i64"), size)
    return f


def few_positions(
    t: Tile, inputs: Sequence[np.ndarray], attrs: tuple[Any, ...], out: np.ndarray, threads: int
) -> list[tuple[str, list[Any]]] | None:
    """Of a `conv`; None where it has more positions or another form."""
    x, w = inputs
    stride, padding, dilation, groups = attrs
    dims, size = len(stride), t.size
    n, m, k = out.size // out.shape[1], len(w), w[:1].size
    if n > POSITIONS or groups > 1 or k < t.lanes or not x.size or not w.flags.c_contiguous:
        return None

    def along(offsets: np.ndarray, dim: int) -> np.ndarray:
        return offsets.reshape([-1 if d == dim else 1 for d in range(2 * dims + 2)])

    # of each image, position, channel and tap
    at = along(np.arange(len(x)) * x.strides[0], 0)
    at = at + along(np.arange(x.shape[1]) * x.strides[1], dims + 1)
    inside = np.ones(at.shape, bool)
    for d in range(dims):
        places = along(np.arange(out.shape[d + 2]) * stride[d] - padding[d], d + 1)
        places = places + along(np.arange(w.shape[d + 2]) * dilation[d], dims + d + 2)
        at = at + places * x.strides[d + 2]
        inside = inside & (places >= 0) & (places < x.shape[d + 2])
    if at.max() >= 1 << 31:
        return None
    line = -(-k // t.lanes) * t.lanes
    table = np.full((n, line), -1, np.int32)
    table[:, :k] = np.where(inside, at, -1).reshape(n, k)
    results = np.arange(len(out))[:, None] * out.strides[0] + np.arange(n // len(out)) * size
    units = max(1, min(threads, 4 * m * n * k // MIN_UNIT_WORK))  # each is read once
    nbytes = -(-n * line * size // 64) * 64
    return [(f"few_{n}", [
        units, ScratchArg(units * nbytes), nbytes, address_arg(out), address_arg(x),
        address_arg(w), table,
        results.reshape(-1).astype(np.int64), m, k, line * size, w.strides[0], out.strides[1],
    ])]  # fmt: skip


def few(t: Tile, name: str) -> LlvmAssembler:
    """The function of so many positions."""
    n, high = int(name.split("_")[1]), t.rows // 2
    f, w, begin, end = launched(FEW_POSITIONS_ARGS)
    with f.count(begin, end) as u:
        windows = w["memory"] + w["unit_bytes"] * u
        with f.count(0, w["line"] * n // t.size, t.lanes) as i:
            places = f.load(f"i32x{t.lanes}", w["at"] + i * 4)
            some = places.op("ge", 0)
            value = f.gather(t.vector, f.element("i8", w["x"], places), some, t.size)
            f.store(windows + i * t.size, value)
        first, last = cut(w["m"], u, w["units"], high)
        with f.count(first, last, high) as o:
            rows = [w["a"] + w["a_row"] * (o + r).min(w["m"] - 1) for r in range(high)]
            sums = dots(f, t, rows, [windows + w["line"] * p for p in range(n)], w["k"])
            for r, totals in enumerate(sums):
                with f.when(last - o > r):
                    for p, total in enumerate(totals):
                        place = f.load("i64", w["places"] + p * 8) + (o + r) * w["c_row"]
                        f.store(w["c"] + place, total.now().total())
    return f


def column(t: Tile) -> LlvmAssembler:
    """A column of the result of a product, c = or, if it adds, += a, whose rows lie in line, times
    a column that lies in line."""
    f = LlvmAssembler("column", "ptr i64 ptr i64 ptr i64 i64 i1")
    c, c_row, a, a_row, b, m, k, adds = f.params
    with f.count(0, m, t.rows) as i:
        sums = dots(f, t, [a + a_row * (i + r).min(m - 1) for r in range(t.rows)], [b], k)
        for r, (total,) in enumerate(sums):
            with f.when(m - i > r):
                place, x = c + c_row * (i + r), f.local(total.now().total())
                with f.when(adds):
                    x.set(x + f.load(t.real, place))
                f.store(place, x)
    return f
