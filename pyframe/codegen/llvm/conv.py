"""Convolutions of float32 or float64 in LLVM IR as products (convolution.py), and their gradients.

A unit takes some images. Of each it writes the columns of a block of positions, pieces of rows that
lie in line after one another, and multiplies with them (gemm.py) while they are in cache.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from pyframe.codegen import convolution
from pyframe.codegen.convolution import Products
from pyframe.codegen.cpu.gemm import Tile
from pyframe.codegen.cpu.routines import names_of
from pyframe.codegen.lanes.compiler import Memory
from pyframe.codegen.llvm import gemm
from pyframe.codegen.llvm.assembler import Assembler, Value, cut, launched, module
from pyframe.codegen.llvm.routines import Launches, Machine
from pyframe.codegen.numpy.memory import address

BLOCK = 1 << 19  # bytes of columns that are made at once
PIECE = 3  # words of a piece: where it is read and written, and its elements

# What a launch reads: how many units; the memory of units, its bytes for each, and what of these
# are before the columns, the products that are written elsewhere, and what gemm takes; the
# result, the weight (the gradient, for that of a weight) and the images; the fields of Products,
# tables as addresses (0: there is none); how many taps, positions, blocks of positions; bytes
# between positions and of a row of columns; into how many parts all images, the blocks, the rows
# and the taps are cut.
WORDS = (
    "units @memory unit_bytes columns apart rest @c @a @x images groups m c_group c_row a_group "
    "a_row image group channel channels @taps_at c_image a_image padded padded_channel rows "
    "row_bytes @rows_at @c_at @pieces_at @blocks_at taps blocks step pitch image_parts block_parts "
    "row_parts tap_parts"
)
TAKE = "units @to @source @at n"  # the words of `take`


class _Blocks(NamedTuple):
    """Positions in blocks."""

    pieces: np.ndarray  # of PIECE words each
    blocks: np.ndarray  # of each its first piece, its pieces, its first position and its positions
    step: int  # bytes between positions in line
    width: int  # positions of the largest block


def _plan(
    planned: Any, m: Machine, inputs: Sequence[np.ndarray], attrs: tuple[Any, ...], out: np.ndarray
) -> Launches | None:
    """Of a convolution; None if it has no routine for these arrays."""
    tile = m.tiles.get(out.dtype)
    if tile is None or any(x.dtype != out.dtype for x in inputs):
        return None
    of_weight = planned is convolution.conv_weight
    a, x = inputs if of_weight else inputs[::-1]
    return [
        (f"conv.{name}.{out.dtype.name}", words)
        for p in planned(inputs, attrs, out) or ()
        for name, words in _launches(tile, p, of_weight, a, x, out, m.threads)
    ] or None


# Images need rows that lie in line if they are padded; the positions of a gradient lie in line.
conv = functools.partial(_plan, convolution.conv)
conv_input = functools.partial(_plan, convolution.conv_input)
conv_weight = functools.partial(_plan, convolution.conv_weight)


def _launches(
    t: Tile, p: Products, of_weight: bool, a: np.ndarray, x: np.ndarray, c: np.ndarray,
    threads: int,
) -> Launches:  # fmt: skip
    """Of some products, by the names of their routines here."""
    launches: Launches = []
    taps, left, a_group, a_row = len(p.taps_at), address(a), p.a_group, p.a_row
    held: int | np.ndarray = left
    if p.a_at is not None and (p.a_at != np.arange(taps) * t.size).any():
        # the weight as a matrix whose rows lie in line, from their first element on
        rows = np.add.outer(np.arange(p.groups) * a_group, np.arange(p.m) * a_row)
        at = np.add.outer(rows.reshape(-1), p.a_at).reshape(-1)
        held = np.empty(at.size, c.dtype)
        launches.append(("take", [-(-at.size // _TAKEN), held, left, at, at.size]))
        a_row = taps * t.size
        a_group = p.m * a_row
    blocks = _blocks(t, p)
    pitch = (blocks.width + t.lanes) * t.size  # a piece may be written with what follows it
    total, count = p.groups * (1 if of_weight else p.images), len(blocks.blocks)
    parts = [min(total, 2 * threads), 1, 1, 1]
    if total < threads:  # some of them share the work on an image
        work = p.images * taps * len(p.positions_at) * p.m // gemm.LEAST
        most = max(1, min(threads, work) // total)
        if of_weight:
            parts[2] = min(most, -(-p.m // t.rows))
            parts[3] = min(max(1, most // parts[2]), -(-taps // t.columns))
        else:
            parts[1] = min(most, count)
    n, k = (taps, blocks.width) if of_weight else (blocks.width, taps)
    columns = -(-p.padded // 64) * 64
    apart = columns + -(-(pitch * taps + t.lanes * t.size) // 64) * 64
    rest = apart + (0 if p.c_at is None else p.m * pitch)
    rest = -(-rest // 64) * 64
    unit_bytes = rest + t.scratch(p.m, n, k)
    units = parts[0] * parts[1] * parts[2] * parts[3]
    fields: dict[str, Any] = p._asdict() | {
        "units": units, "memory": Memory(units * unit_bytes), "unit_bytes": unit_bytes,
        "columns": columns, "apart": apart, "rest": rest, "c": address(c), "a": held,
        "x": address(x), "a_group": a_group, "a_row": a_row, "pieces_at": blocks.pieces,
        "blocks_at": blocks.blocks, "taps": taps, "blocks": count, "step": blocks.step,
        "pitch": pitch, "image_parts": parts[0], "block_parts": parts[1], "row_parts": parts[2],
        "tap_parts": parts[3],
    }  # fmt: skip
    launches.append(
        (
            "conv_weight" if of_weight else "conv",
            [_table(fields[name]) for name in names_of(WORDS)],
        )
    )
    return launches


def _table(value: Any) -> int | np.ndarray | Memory:
    if isinstance(value, np.ndarray) and value.dtype == np.int64:
        return np.ascontiguousarray(value)
    return 0 if value is None else value


def _blocks(t: Tile, p: Products) -> _Blocks:
    at = p.positions_at
    width = BLOCK // (t.size * max(len(p.taps_at), 1)) // t.columns * t.columns
    count = -(-len(at) // max(width, t.columns))  # of blocks, which are about equal
    width = min(-(-len(at) // (count * t.columns)) * t.columns, len(at))
    step = int(at[1] - at[0]) if len(at) > 1 else t.size
    ends = np.append(np.flatnonzero(np.diff(at) != step) + 1, len(at)).tolist()
    pieces: list[tuple[int, int, int]] = []
    blocks: list[tuple[int, int, int, int]] = []
    start, row = 0, 0
    for first in range(0, len(at), width):
        last, before = min(first + width, len(at)), len(pieces)
        while start < last:
            end = min(ends[row], last, start + t.lanes)
            pieces.append((int(at[start]), (start - first) * t.size, end - start))
            start = end
            row += end == ends[row]
        blocks.append((before, len(pieces) - before, first, last - first))
    return _Blocks(np.array(pieces, np.int64), np.array(blocks, np.int64), step, width)


# --- text

_TAKEN = 1 << 12  # elements of a unit of `take`


def text(m: Machine, name: str, dtype: np.dtype) -> str:
    """The module of a routine: `take`, `conv` or `conv_weight`."""
    t = m.tiles[dtype]
    if name == "take":
        return module([_take(t)], m.bits)
    *parts, product = gemm.build(t)
    pad, columns = _pad(t), _columns(t)
    kernel = _conv(t, product, pad, columns, name == "conv_weight")
    return module([*parts, product, pad, columns, kernel], m.bits)


def _take(t: Tile) -> Assembler:
    """The elements at a table of offsets, after one another."""
    f, w, begin, end = launched(TAKE)
    with f.count(begin * _TAKEN, (end * _TAKEN).min(w["n"])) as i:
        value = f.load(t.real, w["source"] + f.load("i64", w["at"] + i * 8))
        f.store(w["to"] + i * t.size, value)
    return f


def _pad(t: Tile) -> Assembler:
    """The rows of an image's channels, each to its place."""
    f = Assembler("pad", "ptr ptr i64 i64 i64 i64 i64 ptr")
    to, source, channels, to_channel, channel, rows, nbytes, table = f.params
    elements = nbytes // t.size
    whole = elements - elements % t.lanes
    tail = f.lanes_below(elements - whole, t.lanes)
    with f.count(0, channels) as i, f.count(0, rows) as r:
        row = table + r * 16
        into = f.local(to + i * to_channel + f.load("i64", row))
        here = f.local(source + i * channel + f.load("i64", row + 8))
        with f.count(0, whole, t.lanes):
            f.store(into, f.load(t.vector, here))
            into.set(into + t.lanes * t.size)
            here.set(here + t.lanes * t.size)
        with f.when(whole < elements):
            f.store_some(into, f.load_some(t.vector, here, tail, t.size), tail, t.size)
    return f


def _columns(t: Tile) -> Assembler:
    """Rows of columns, `pitch` bytes apart: of each tap the positions of some pieces."""
    f = Assembler("columns", "ptr ptr ptr i64 ptr i64 i64 i64")
    to, image, taps, k, pieces, n, step, pitch = f.params
    apart = f.numbers(range(t.lanes)) * step.splat(t.lanes)
    with f.count(0, n) as p:
        piece = pieces + p * (8 * PIECE)
        source = image + f.load("i64", piece)
        into = f.local(to + f.load("i64", piece + 8))
        some = f.lanes_below(f.load("i64", piece + 16), t.lanes)
        with f.when(step.equals(t.size)), f.count(0, k) as i:
            here = source + f.load("i64", taps + i * 8)
            f.store(into, f.load_some(t.vector, here, some, t.size))
            into.set(into + pitch)
        with f.when(step.differs(t.size)), f.count(0, k) as i:
            here = source + f.load("i64", taps + i * 8)
            places = f.element("i8", here, apart)
            f.store(into, f.gather(t.vector, places, some, t.size))
            into.set(into + pitch)
    return f


def _conv(
    t: Tile, product: Assembler, pad: Assembler, columns: Assembler, of_weight: bool
) -> Assembler:
    """The products of some images; of the gradient of a weight, of all, for some of its rows and
    taps."""
    f, w, begin, end = launched(WORDS)
    with f.count(begin, end) as u:
        memory = w["memory"] + w["unit_bytes"] * u
        block_columns, apart = memory + w["columns"], memory + w["apart"]
        rest = f.local(u // w["image_parts"])
        first, last = cut(
            w["groups"] * (1 if of_weight else w["images"]), u % w["image_parts"], w["image_parts"]
        )
        low, high = cut(w["blocks"], rest % w["block_parts"], w["block_parts"])
        rest.set(rest // w["block_parts"])
        top, bottom = cut(w["m"], rest % w["row_parts"], w["row_parts"], t.rows)
        left, right = cut(w["taps"], rest // w["row_parts"], w["tap_parts"], t.columns)
        f.fill(memory, w["padded"])

        def of_image(g: Value, i: Value) -> None:
            image = f.local(w["x"] + i * w["image"] + g * w["group"])
            with f.when(w["padded"] > 0):
                f.call(
                    pad, memory, image, w["channels"], w["padded_channel"], w["channel"],
                    w["rows"], w["row_bytes"], w["rows_at"],
                )  # fmt: skip
                image.set(memory)
            a = w["a"] + i * w["a_image"] + g * w["a_group"] + top * w["a_row"]
            c = w["c"] + i * w["c_image"] + g * w["c_group"] + top * w["c_row"]
            with f.count(low, high) as b:
                piece, pieces, at, width = (
                    f.load("i64", w["blocks_at"] + b * 32 + 8 * n) for n in range(4)
                )
                f.call(
                    columns, block_columns, image, w["taps_at"] + left * 8, right - left,
                    w["pieces_at"] + piece * (8 * PIECE), pieces, w["step"], w["pitch"],
                )  # fmt: skip
                if of_weight:
                    f.call(
                        product, memory + w["rest"], c + left * t.size, a + at * t.size,
                        block_columns, bottom - top, right - left, width, w["c_row"], w["a_row"],
                        t.size, t.size, w["pitch"], i + b > 0,
                    )  # fmt: skip
                else:
                    elsewhere = w["c_at"].differs(0)
                    into = apart.where(elsewhere, c + at * t.size)
                    f.call(
                        product, memory + w["rest"], into, a, block_columns, bottom - top, width,
                        w["taps"], w["pitch"].where(elsewhere, w["c_row"]), w["a_row"], t.size,
                        w["pitch"], t.size, 0,
                    )  # fmt: skip
                    with f.when(elsewhere), f.count(0, w["m"]) as r, f.count(0, width) as x:
                        place = f.load("i64", w["c_at"] + (at + x) * 8)
                        value = f.load(t.real, apart + r * w["pitch"] + x * t.size)
                        f.store(c + r * w["c_row"] + place, value)

        with f.count(first, last) as z:
            if of_weight:
                with f.count(0, w["images"]) as i:
                    of_image(z, i)
            else:
                of_image(z // w["images"], z % w["images"])
    return f
