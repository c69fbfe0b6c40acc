"""Convolutions of float32 in WebAssembly as products (codegen/convolution.py)."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from types import SimpleNamespace
from typing import Any

import numpy as np

from pyframe.codegen import convolution
from pyframe.codegen.cpu.routines import SCRATCH, TABLES, Addr, KernelInvocation, LibraryCall
from pyframe.codegen.wasm.assembler import F32, F32X4, I32, WasmAssembler, WasmLocal, WasmValue
from pyframe.codegen.wasm.encoder import WasmModule
from pyframe.codegen.wasm.gemm import COLUMNS, KC, ROWS, TILE, tiles

NAMES = {"conv", "conv_weight"}  # of the functions
WIDTH = 128  # positions (of the gradient of a weight: taps) whose columns are packed at once


# What a convolution's function reads at its last argument: the fields of Products, and the numbers
# of taps and positions. Of a table it has the bytes to it from there (0: there is none).
FIELDS = (*convolution.Products._fields, "taps", "positions")


def build(module: WasmModule) -> None:
    """Add the functions to a module."""
    pad, windows = _pad(module), _pack_windows(module)
    _conv(module, pad, _pack_weight(module), windows)
    _conv_weight(module, pad, _pack_taps(module))


def _setting(f: WasmAssembler, at: WasmValue) -> Any:
    return SimpleNamespace(**{x: f.local(f.load(I32, at, 4 * i)) for i, x in enumerate(FIELDS)})


def _pad(module: WasmModule) -> WasmAssembler:
    """The rows of an image's channels, each to its place."""
    f = WasmAssembler(module, "pad", "i32 " * 8)
    to, source, channels, to_channel, channel, rows, nbytes, table = f.params
    last = f.local(nbytes - 16)
    with f.count(0, channels):
        row = f.local(table)
        with f.count(0, rows):
            here, there = f.local(to + f.load(I32, row)), f.local(source + f.load(I32, row, 4))
            with f.when(last >= 0):
                with f.count(0, last, 16) as x:
                    f.store(here + x, f.load(F32X4, there + x))
                f.store(here + last, f.load(F32X4, there + last))
                f.otherwise()
                with f.count(0, nbytes, 4) as x:
                    f.store(here + x, f.load(F32, there + x))
            row.add(8)
        to.add(to_channel)
        source.add(channel)
    return f


def _pack_weight(module: WasmModule) -> WasmAssembler:
    """Panels of 6 rows, k after k; the elements of a row lie where the table says."""
    f = WasmAssembler(module, "pack_weight", "i32 " * 6)
    to, a, m, k, row, table = f.params
    with f.count(0, m, ROWS) as i:
        end = f.local(to + (m - i).min(ROWS) * 4)
        with f.count(table, table + k * 4, 4) as entry:
            at = f.local(a + f.load(I32, entry))
            with f.count(to, end, 4) as into:
                f.store(into, f.load(F32, at))
                at.add(row)
            to.add(4 * ROWS)
            end.add(4 * ROWS)
        a.add(row * ROWS)
    return f


def _in_line(f: WasmAssembler, table: WasmValue, n: int) -> WasmValue:
    """Whether n offsets of a table are those of elements that follow each other."""
    first = f.load(I32, table)
    steps = [f.load(I32, table, 4 * i).equals(first + 4 * i) for i in range(1, n)]
    return functools.reduce(WasmValue.__and__, steps)


def _pack_windows(module: WasmModule) -> WasmAssembler:
    """Panels of 8 positions, tap after tap."""
    f = WasmAssembler(module, "pack_windows", "i32 " * 6)
    to, source, taps, positions, n, k = f.params
    end = f.local(taps + k * 4)
    with f.count(0, n, COLUMNS):
        with f.when(_in_line(f, positions, COLUMNS)):
            at = f.local(source + f.load(I32, positions))
            with f.count(taps, end, 4) as tap:
                here = f.local(at + f.load(I32, tap))
                f.store(to, f.load(F32X4, here))
                f.store(to, f.load(F32X4, here, 16), 16)
                to.add(4 * COLUMNS)
            f.otherwise()
            for half in (0, 16):
                into = f.local(to + half)
                places = f.local(positions + half)
                at = f.local(source + f.load(I32, places))
                with f.when(_in_line(f, places, 4)):
                    with f.count(taps, end, 4) as tap:
                        f.store(into, f.load(F32X4, at + f.load(I32, tap)))
                        into.add(4 * COLUMNS)
                    f.otherwise()
                    each = [at]
                    for lane in range(1, 4):
                        each.append(f.local(source + f.load(I32, places, 4 * lane)))
                    with f.count(taps, end, 4) as tap:
                        offset = f.local(f.load(I32, tap))
                        x = f.load(F32X4, at + offset, how="v128.load32_zero")
                        for lane, place in enumerate(each[1:], 1):
                            x = f.load_lane(x, place + offset, lane)
                        f.store(into, x)
                        into.add(4 * COLUMNS)
            to.add(k * (4 * COLUMNS))
        positions.add(4 * COLUMNS)
    return f


def _pack_taps(module: WasmModule) -> WasmAssembler:
    """The same transposed: panels of 8 taps, position after position."""
    f = WasmAssembler(module, "pack_taps", "i32 " * 6)
    to, source, taps, positions, n, k = f.params
    vectors = [f.local(type=F32X4) for _ in range(4)]
    with f.count(0, n, COLUMNS):
        pointers = [f.local(source + f.load(I32, taps, 4 * t)) for t in range(COLUMNS)]
        left, place = f.local(k), f.local(positions)
        with f.during(lambda: left > 0):
            offset = f.local(f.load(I32, place))
            with f.when((left >= 4) & _in_line(f, place, 4)):
                for half in (0, 4):
                    for vector, pointer in zip(vectors, pointers[half:], strict=False):
                        vector.set(f.load(F32X4, pointer + offset))
                    for x, column in enumerate(f.transposed(vectors)):
                        f.store(to, column, 4 * (COLUMNS * x + half))
                to.add(4 * 4 * COLUMNS)
                place.add(16)
                left.add(-4)
                f.otherwise()
                for t, pointer in enumerate(pointers):
                    f.store(to, f.load(F32, pointer + offset), 4 * t)
                to.add(4 * COLUMNS)
                place.add(4)
                left.add(-1)
        taps.add(4 * COLUMNS)
    return f


def _image(
    f: WasmAssembler, pad: WasmAssembler, s: Any, at: WasmValue, memory: WasmValue, table: WasmValue
) -> Any:
    """A group's image at `at`, or a padded copy of it in memory whose borders are 0 already."""
    source = f.local(at)
    with f.when(s.padded):
        f.call(
            pad, memory, source, s.channels, s.padded_channel, s.channel, s.rows,
            s.row_bytes, table + s.rows_at,
        )  # fmt: skip
        source.set(memory)
    return source


def _share(f: WasmAssembler, k: WasmLocal) -> WasmLocal:
    """The size of the blocks of k: equal, at least 1 and at most KC."""
    size = f.local((k + KC - 1) // KC)
    size.set(size.where(size > 0, 1))
    size.set((k + size - 1) // size)
    size.set(size.where(size > 0, 1))
    return size


def _conv(
    module: WasmModule, pad: WasmAssembler, pack_weight: WasmAssembler, pack_windows: WasmAssembler
) -> None:
    """c (m, positions) = weight (m, taps) times the columns, of each image and group."""
    f = WasmAssembler(module, "conv", "i32 " * 5, export=True)
    c, a, source, memory, table = f.params
    s = _setting(f, table)
    image = f.local(memory + TILE.memory)
    a_panels = f.local(image + s.padded)
    b_panels = f.local(a_panels + (s.m + ROWS - 1) // ROWS * (4 * ROWS) * s.taps)
    size = _share(f, s.taps)
    apart = f.local(b_panels + size * (4 * WIDTH))
    panel, width = f.local(s.taps * (4 * ROWS)), f.local(type=I32)
    f.fill(image, s.padded)
    with f.count(0, s.groups) as g:
        f.call(pack_weight, a_panels, a + g * s.a_group, s.m, s.taps, s.a_row,
               table + s.a_at)  # fmt: skip
        with f.count(0, s.images) as i:
            at = _image(f, pad, s, source + i * s.image + g * s.group, image, table)
            result = f.local(c + i * s.c_image + g * s.c_group)
            with f.count(0, s.positions, WIDTH) as j:
                width.set((s.positions - j).min(WIDTH))
                into, row = f.local(result + j * 4), f.local(s.c_row)
                with f.when(s.c_at):
                    into.set(apart)
                    row.set(4 * WIDTH)
                with f.count(0, s.taps.where(s.taps > 0, 1), size) as p:
                    depth = f.local((s.taps - p).min(size))
                    f.call(pack_windows, b_panels, at, table + s.taps_at + p * 4,
                           table + s.positions_at + j * 4, width, depth)  # fmt: skip
                    tiles(
                        f, into, row, a_panels + p * (4 * ROWS), panel, 4, 4 * ROWS,
                        b_panels, depth * (4 * COLUMNS), 4 * COLUMNS, s.m, width, depth, p > 0,
                        memory,
                    )  # fmt: skip
                with f.when(s.c_at), f.count(0, s.m) as r:
                    places = f.local(table + s.c_at + j * 4)
                    with f.count(into, into + width * 4, 4) as x:
                        f.store(result + r * s.c_row + f.load(I32, places), f.load(F32, x))
                        places.add(4)
                    into.add(4 * WIDTH)


def _conv_weight(module: WasmModule, pad: WasmAssembler, pack_taps: WasmAssembler) -> None:
    """c (m, taps) = the sum over images of gradients (m, positions) times the columns turned."""
    f = WasmAssembler(module, "conv_weight", "i32 " * 5, export=True)
    c, a, source, memory, table = f.params
    s = _setting(f, table)
    image = f.local(memory + TILE.memory)
    b_panels = f.local(image + s.padded)
    size = _share(f, s.positions)
    f.fill(image, s.padded)
    with f.count(0, s.groups) as g, f.count(0, s.images) as i:
        at = _image(f, pad, s, source + i * s.image + g * s.group, image, table)
        with f.count(0, s.positions, size) as p:
            depth = f.local((s.positions - p).min(size))
            gradient = f.local(a + i * s.a_image + g * s.a_group + p * 4)
            with f.count(0, s.taps, WIDTH) as j:
                width = f.local((s.taps - j).min(WIDTH))
                f.call(pack_taps, b_panels, at, table + s.taps_at + j * 4,
                       table + s.positions_at + p * 4, width, depth)  # fmt: skip
                tiles(
                    f, c + g * s.c_group + j * 4, s.c_row, gradient, s.a_row * ROWS,
                    s.a_row, 4, b_panels, depth * (4 * COLUMNS), 4 * COLUMNS, s.m, width, depth,
                    i + p > 0, memory,
                )  # fmt: skip


# --- plans


def _tables(products: Sequence[convolution.Products]) -> tuple[np.ndarray, list[int]]:
    """Settings one after the other, each with its tables, and where they begin. A table ends with
    what fills a panel: its last entry again."""
    parts: list[np.ndarray] = []
    starts, end = [], 0
    for p in products:
        starts.append(end)
        header = np.zeros(len(FIELDS), np.int32)
        parts.append(header)
        end += header.nbytes
        fields = p._asdict() | {"taps": len(p.taps_at), "positions": len(p.positions_at)}
        for i, name in enumerate(FIELDS):
            value = fields[name]
            if isinstance(value, np.ndarray):
                more = -len(value) % COLUMNS if value.ndim == 1 and len(value) else 0
                table = np.concatenate([value, value[-1:].repeat(more, 0)]).astype(np.int32)
                parts.append(table.reshape(-1))
                value, end = end - starts[-1], end + table.nbytes
            header[i] = value or 0
    return np.concatenate(parts), starts


def _scratch(p: convolution.Products, of_windows: bool) -> int:
    """Bytes that a function needs."""
    k, n = len(p.taps_at), len(p.positions_at)
    columns = TILE.memory + p.padded + 4 * WIDTH * min(k if of_windows else n, KC)
    if not of_windows:
        return columns
    return columns + 4 * (p.m + ROWS) * k + (0 if p.c_at is None else 4 * WIDTH * p.m)


def _routine(
    plan: Any, inputs: Sequence[np.ndarray], attrs: tuple[Any, ...], out: np.ndarray
) -> LibraryCall | None:
    """Of a convolution; None if it has no routine for these arrays."""
    if any(x.dtype != np.float32 for x in (*inputs, out)):
        return None
    products = plan(inputs, attrs, out)
    if products is None:
        return None
    of_weight = plan is convolution.conv_weight
    function, a = ("conv_weight", 0) if of_weight else ("conv", 1)  # operand a is the left one
    tables, starts = _tables(products)
    calls = [
        KernelInvocation(
            function, (Addr(2), Addr(a), Addr(1 - a), Addr(SCRATCH), Addr(TABLES, start))
        )
        for start in starts
    ]
    return LibraryCall(tuple(calls), max(_scratch(p, not of_weight) for p in products), tables)


# Images need rows that lie in line if they are padded; the positions of a gradient lie in line.
conv = functools.partial(_routine, convolution.conv)
conv_input = functools.partial(_routine, convolution.conv_input)
conv_weight = functools.partial(_routine, convolution.conv_weight)
