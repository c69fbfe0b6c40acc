"""Convolutions by 3 x 3 taps with fewer multiplications: Winograd's F(2 x 2, 3 x 3), Lavin and
Gray, arXiv 1509.09308.

Of each tile of 4 x 4 elements of the images, 2 apart, and of each filter 16 sums are made. Of each
kind of them a product of matrices sums over channels, and sums of the 16 products are the tile's
2 x 2 results: 16 multiplications instead of 36. What is read where comes as Products.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from pyframe.codegen.convolution import Products
from pyframe.codegen.cpu.gemm import Tile
from pyframe.codegen.cpu.routines import names_of
from pyframe.codegen.lanes.compiler import ScratchArg
from pyframe.codegen.llvm.assembler import LlvmAssembler, LlvmValue, cut, launched

WINOGRAD_MIN_SIZE = 16  # rows and channels of a product that it pays for
GAIN = 800  # multiplications that are saved for each filter, at least
SUMS = 1 << 20  # bytes of sums of tiles that are made at once
HEIGHT = 32  # rows of the result whose products are made at once

WEIGHT = "units @to @source groups m channels a_group a_row a_step @taps"  # of a launch of `weight`

# Of a launch of `tiles`: how many units; their memory, its bytes for each, and what of these are
# before the sums and the products; the result, the sums of the weight, the images; the fields of
# Products; bytes between rows of an image and of the result; the pieces, the blocks of them; of a
# block's sums of one kind, of a panel, and of a row of products; the images of a chunk, the chunks,
# the blocks of one and of the last; into how many parts chunks, blocks and rows are cut.
WORDS = (
    "units @memory unit_bytes sums products @c @a @x images groups m c_group c_row image group "
    "channel channels c_image padded padded_channel rows row_bytes @rows_at row c_line @pieces_at "
    "@blocks_at kind panel pitch depth together chunks blocks last_blocks image_parts block_parts "
    "row_parts"
)

# The words of a piece, tiles in a row: where they are read, where their sums stand in panels and
# in a row of products, where the results begin; how many tiles, columns of results, and rows.
PIECE = 7


def launches(
    t: Tile, p: Products, a: int, x: int, c: int, threads: int
) -> list[tuple[str, list[Any]]] | None:
    """Of a convolution or its input's gradient; None where it has another form, or it would not
    pay."""
    n, at = p.channels, p.positions_at
    if (
        t.size != 4
        or min(p.m, n) < WINOGRAD_MIN_SIZE
        or not p.padded
        or p.a_at is None
        or p.c_at is not None
    ):
        return None
    if len(p.taps_at) != 9 * n or len(at) < 2:
        return None
    ends = np.flatnonzero(np.diff(at) != t.size) + 1
    width = int(ends[0]) if len(ends) else len(at)
    height = len(at) // width
    row = int(at[width] - at[0]) if height > 1 else 0
    grid = np.add.outer(np.arange(3) * row, np.arange(3) * t.size).reshape(-1)
    if height < 2 or width < 2 or at[0] or len(at) != height * width or (
        np.add.outer(np.arange(height) * row, np.arange(width) * t.size).reshape(-1) != at
    ).any():  # fmt: skip
        return None
    # taps stand by channels, or channels by taps
    shape = (n, 9) if p.taps_at[1] - p.taps_at[0] != p.padded_channel else (9, n)
    taps, places = (y.reshape(shape) for y in (p.taps_at, p.a_at))
    if shape[0] == 9:
        taps, places = taps.T, places.T
    order = np.argsort(taps[0])
    if (taps[:, order] != np.add.outer(np.arange(n) * p.padded_channel, grid)).any():
        return None
    down, across = -(-height // 2), -(-width // 2)
    if 9 * len(at) * p.images - 16 * down * across * p.images < GAIN:
        return None
    step = int(places[1, 0] - places[0, 0])
    held = np.empty(16 * p.groups * p.m * n, np.float32)
    offsets = np.ascontiguousarray(places[0, order])
    units = -(-p.groups * p.m // 8)
    weight = [units, held, a, p.groups, p.m, n, p.a_group, p.a_row, step, offsets]

    most = max(1, min(256, SUMS // (16 * t.size * n) // t.columns * t.columns))
    each = down * across
    together = min(-(-p.images // threads), max(1, 2 * most // each))
    chunks = -(-p.images // together)
    panel = n * t.columns * t.size
    cuts: list[tuple[int, int]] = []  # of tiles, into blocks
    counts = []
    for images in (together, (p.images - 1) % together + 1):
        count = -(-images * each // most)
        size = -(-images * each // (count * t.columns)) * t.columns
        starts = range(0, images * each, size)
        counts.append(len(starts))
        cuts += [(start, min(start + size, images * each)) for start in starts]
    pieces, blocks = _pieces(t, p, cuts, panel, row, height, width)
    widest = int(blocks[:, 2].max())
    total = p.groups * chunks
    parts = [min(total, 2 * threads), 1, 1]
    if total < 2 * threads and total % threads:
        parts[1:] = [threads, 1] if min(counts) >= threads else [1, min(threads, -(-p.m // t.rows))]
    sums = -(-(p.padded * together + 256) // 64) * 64
    kind = -(-widest // t.columns) * panel
    products = sums + 16 * kind
    pitch = -(-widest // t.lanes) * t.bytes
    unit_bytes = products + 16 * HEIGHT * pitch + 64
    units = parts[0] * parts[1] * parts[2]
    fields: dict[str, Any] = p._asdict() | {
        "units": units, "memory": ScratchArg(units * unit_bytes), "unit_bytes": unit_bytes,
        "sums": sums, "products": products, "c": c, "a": held, "x": x, "row": row,
        "c_line": width * t.size, "pieces_at": pieces, "blocks_at": blocks,
        "kind": kind, "panel": panel, "pitch": pitch,
        "depth": t.depth, "together": together, "chunks": chunks, "blocks": counts[0],
        "last_blocks": counts[1], "image_parts": parts[0], "block_parts": parts[1],
        "row_parts": parts[2],
    }  # fmt: skip
    return [
        ("filters", weight),
        ("tiles", [0 if fields[name] is None else fields[name] for name in names_of(WORDS)]),
    ]


def _pieces(
    t: Tile, p: Products, cuts: Sequence[tuple[int, int]], panel: int, row: int, height: int,
    width: int,
) -> tuple[np.ndarray, np.ndarray]:  # fmt: skip
    """The pieces of blocks of tiles, and of each block its first piece, its pieces, its tiles."""
    q = np.concatenate([np.arange(first, last) for first, last in cuts])
    begins = np.cumsum([0] + [last - first for first, last in cuts])
    n = np.arange(len(q)) - np.repeat(begins[:-1], np.diff(begins))  # in its block
    down, across = -(-height // 2), -(-width // 2)
    every = np.arange(len(q))
    ends = (n % t.columns == 0) | (q % across == 0)
    i = np.flatnonzero((every - np.maximum.accumulate(every * ends)) % t.lanes == 0)
    count, q, n = np.diff(np.append(i, len(q))), q[i], n[i]
    image, y, x = q // (down * across), q // across % down, q % across
    pieces = np.stack([
        image * p.padded + 2 * y * row + 2 * x * t.size,
        n // t.columns * panel + n % t.columns * t.size, n * t.size,
        image * p.c_image + (2 * y * width + 2 * x) * t.size, count,
        np.minimum(2 * count, width - 2 * x), np.minimum(2, height - 2 * y),
    ], 1).astype(np.int64)  # fmt: skip
    places = np.searchsorted(i, begins)
    return pieces, np.stack([places[:-1], np.diff(places), np.diff(begins)], 1)


# --- text


def _words(f: LlvmAssembler, table: LlvmValue, i: LlvmValue, count: int = PIECE) -> list[LlvmValue]:
    """The words of an entry of a table."""
    return [f.load("i64", table + i * (8 * count) + 8 * k) for k in range(count)]


def _of_filter(a: LlvmValue, b: LlvmValue, c: LlvmValue) -> list[LlvmValue]:
    half = a.f.value(0.5, a.type)
    outer, middle = (a + c) * half, b * half
    return [a, outer + middle, outer - middle, c]


def _of_tile(a: LlvmValue, b: LlvmValue, c: LlvmValue, d: LlvmValue) -> list[LlvmValue]:
    return [a - c, b + c, c - b, b - d]


def _of_products(a: LlvmValue, b: LlvmValue, c: LlvmValue, d: LlvmValue) -> list[LlvmValue]:
    return [a + b + c, b - c - d]


def _both_ways(sums: Any, rows: Sequence[Sequence[LlvmValue]]) -> list[LlvmValue]:
    """Sums of each column, then of each row of these, a row after the other."""
    columns = [sums(*column) for column in zip(*rows, strict=True)]
    return [x for row in zip(*columns, strict=True) for x in sums(*row)]


def filters(t: Tile) -> LlvmAssembler:
    """The 16 matrices of a weight, of 8 rows a unit."""
    f, w, begin, end = launched(WEIGHT)
    n, step = w["channels"], w["a_step"]
    apart = f.numbers(range(t.lanes)) * step.splat(t.lanes)
    with f.count(begin * 8, (end * 8).min(w["groups"] * w["m"])) as r:
        g, i = r // w["m"], r % w["m"]
        source = w["source"] + g * w["a_group"] + i * w["a_row"]
        to = w["to"] + (g * w["m"] * 16 + i) * n * t.size
        taps = [source + f.load("i64", w["taps"] + 8 * k) for k in range(9)]
        with f.count(0, n, t.lanes) as c:
            some = f.lanes_below(n - c, t.lanes)

            def write(read: Any, c: LlvmValue = c, some: LlvmValue = some) -> None:
                rows = [[read(at) for at in taps[k : k + 3]] for k in (0, 3, 6)]
                for k, x in enumerate(_both_ways(_of_filter, rows)):
                    f.store_some(to + w["m"] * n * (k * t.size) + c * t.size, x, some, t.size)

            with f.when(step.equals(t.size)):
                write(lambda at: f.load_some(t.vector, at + c * t.size, some, t.size))
                f.otherwise()
                write(
                    lambda at: f.gather(
                        t.vector, f.element("i8", at + c * step, apart), some, t.size
                    )
                )
    return f


def _tile_sums(t: Tile) -> LlvmAssembler:
    """The sums of tiles, as panels for each of the 16 kinds."""
    f = LlvmAssembler("tile_sums", "ptr ptr i64 i64 ptr i64 i64 i64")
    to, image, channels, channel, pieces, n, row, kind = f.params
    with f.count(0, n) as p:
        source, into, _, _, count = (
            f.load("i64", pieces + p * (8 * PIECE) + 8 * i) for i in range(5)
        )
        some = f.lanes_below(count, t.lanes)
        with f.count(0, channels) as c:
            at, here = image + source + c * channel, to + into + c * (t.columns * t.size)
            rows = []
            for r in range(4):
                line = at + row * r
                found: list[LlvmValue] = []
                for first in (0, 2):
                    a, b = (f.load(t.vector, line, first * t.size + v * t.bytes) for v in range(2))
                    found += [a.shuffle(range(s, 2 * t.lanes, 2), b) for s in range(2)]
                rows.append(found)
            for k, x in enumerate(_both_ways(_of_tile, rows)):
                f.store_some(here + kind * k, x, some, t.size)
    return f


def _results(t: Tile) -> LlvmAssembler:
    """The results of tiles, from rows of the 16 products."""
    f = LlvmAssembler("results", "ptr i64 i64 ptr i64 i64 ptr i64")
    c, c_row, c_line, products, pitch, rows, pieces, n = f.params
    lanes = t.lanes
    mixed = [[half + i // 2 + i % 2 * lanes for i in range(lanes)] for half in (0, lanes // 2)]
    with f.count(0, rows) as r, f.count(0, n) as p:
        _, _, line, place, _, columns, height = _words(f, pieces, p)
        at = products + r * pitch + line
        kinds = [f.load(t.vector, at + pitch * (HEIGHT * k)) for k in range(16)]
        to = c + r * c_row + place
        some = [f.lanes_below(columns - v * lanes, lanes) for v in range(2)]
        ways = _both_ways(_of_products, [kinds[k : k + 4] for k in range(0, 16, 4)])
        for y, (even, odd) in enumerate((ways[:2], ways[2:])):
            with f.when(height > y):
                for v in range(2):
                    x = even.shuffle(mixed[v], odd)
                    f.store_some(to + c_line * y + v * t.bytes, x, some[v], t.size)
    return f


def tiles(t: Tile, pad: LlvmAssembler, multiply: LlvmAssembler) -> list[LlvmAssembler]:
    """What is launched, after what it calls."""
    tile_sums, results = _tile_sums(t), _results(t)
    f, w, begin, end = launched(WORDS)
    n = w["channels"]
    with f.count(begin, end) as u:
        memory = w["memory"] + w["unit_bytes"] * u
        sums, products = memory + w["sums"], memory + w["products"]
        rest = f.local(u // w["image_parts"])
        part, parts = u % w["image_parts"], w["image_parts"]
        first, last = cut(w["groups"] * w["chunks"], part, parts)
        top, bottom = cut(w["m"], rest // w["block_parts"], w["row_parts"], t.rows)
        f.fill(memory, w["padded"] * w["together"])
        with f.count(first, last) as z:
            g, chunk = z // w["chunks"], z % w["chunks"]
            i = chunk * w["together"]
            image = w["x"] + i * w["image"] + g * w["group"]
            with f.count(0, (w["images"] - i).min(w["together"])) as k:
                f.call(
                    pad, memory + k * w["padded"], image + k * w["image"], n, w["padded_channel"],
                    w["channel"], w["rows"], w["row_bytes"], w["rows_at"],
                )  # fmt: skip
            at_end = (chunk + 1).equals(w["chunks"])
            before = w["blocks"].where(at_end, 0)
            low, high = cut(
                w["last_blocks"].where(at_end, w["blocks"]), rest % w["block_parts"],
                w["block_parts"],
            )  # fmt: skip
            with f.count(low + before, high + before) as b:
                piece, pieces, width = (
                    f.load("i64", w["blocks_at"] + b * 24 + 8 * k) for k in range(3)
                )
                piece = w["pieces_at"] + piece * (8 * PIECE)
                f.call(
                    tile_sums, sums, memory, n, w["padded_channel"], piece, pieces, w["row"],
                    w["kind"],
                )  # fmt: skip
                with f.count(top, bottom, HEIGHT) as r:
                    rows = (bottom - r).min(HEIGHT)
                    with f.count(0, 16) as k, f.count(0, n, w["depth"]) as d:
                        a = w["a"] + (((g * 16 + k) * w["m"] + r) * n + d) * t.size
                        f.call(
                            multiply, products + w["pitch"] * HEIGHT * k, w["pitch"], a,
                            n * t.size, sums + w["kind"] * k + d * (t.columns * t.size),
                            w["panel"], t.columns * t.size, rows, width, (n - d).min(w["depth"]),
                            d > 0, 0,
                        )  # fmt: skip
                    c = w["c"] + i * w["c_image"] + g * w["c_group"] + r * w["c_row"]
                    f.call(
                        results, c, w["c_row"], w["c_line"], products, w["pitch"], rows, piece,
                        pieces,
                    )  # fmt: skip
    return [tile_sums, results, f]
