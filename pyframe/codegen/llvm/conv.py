"""Convolutions of float32 or float64 in LLVM IR as products (convolution.py), and their gradients.

A unit takes some images, of small ones several at once. Of each block of their positions it writes
the columns as panels, straight from the images, and multiplies with them while they are in cache.
Taps that read nothing but padding are left out.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from pyframe.codegen import convolution
from pyframe.codegen.convolution import Products
from pyframe.codegen.cpu import gemm as shared
from pyframe.codegen.cpu.gemm import Tile
from pyframe.codegen.cpu.routines import names_of
from pyframe.codegen.lanes.compiler import ScratchArg
from pyframe.codegen.llvm import after as following, direct, gemm, winograd
from pyframe.codegen.llvm.after import CompiledEpilogue
from pyframe.codegen.llvm.assembler import LlvmAssembler, LlvmValue, Operand, cut, launched, module
from pyframe.codegen.llvm.routines import CpuTarget, Launches
from pyframe.codegen.numpy.memory import address_arg

BLOCK = 1 << 19  # bytes of columns that are made at once
PADDED = 1 << 21  # bytes of images that are padded at once
MOVED = 12  # taps of a result that take about as long as to move it
FEW_POSITIONS = 1 << 12  # positions of a block of which no columns are made
IN_PLACE = 64  # rows of a unit up to which columns are read where they lie
# Positions of images from which on no tap reads padding alone, or it is no matter
LARGE_IMAGE = 1 << 12

# What a launch reads: how many units; the memory of units, its bytes for each, and what of these
# are before the columns, the gradient of several images, and what is written elsewhere; the
# result, the weight (the gradient, for that of a weight) and the images; the fields of Products,
# tables as addresses; how many taps, blocks; bytes between positions (0: they stand in a table) and
# between the results' (likewise); of a row of what is written elsewhere, whether there is some,
# whether whole panels are read in place, whether an image's last position is a column of its own;
# bytes of a panel, and between the rows of one in place; the pieces by which a weight's gradient is
# written elsewhere; how many images are taken at once, into how many chunks they are cut, and into
# how many parts these, the blocks, the rows and the taps; how many positions an image has; what
# follows (after.py).
WORDS = (
    "units @memory unit_bytes columns gradient apart @c @a @x images groups m c_group c_row "
    "a_group a_row image group channel channels @taps_at c_image a_image padded padded_channel "
    "rows row_bytes @rows_at @pieces_at @blocks_at @sources @places taps depth blocks step c_step "
    "pitch elsewhere in_place alone panel b_step @puts_at puts @put_places put_step together "
    f"chunks image_parts block_parts row_parts tap_parts positions {following.WORDS}"
)
TAKE = "units @to @source @at n"  # the words of `take`
TRANSPOSE_ARGS = "units @to @source @at rows columns source_row"  # and of `turn`

# The words of a piece: where it is read, where it lies in panels, in a row of what is written
# elsewhere, and in the result, or where that stands in a table; its elements.
PIECE = 5


def _plan(
    planned: Any, m: CpuTarget, inputs: Sequence[np.ndarray], attrs: tuple[Any, ...],
    out: np.ndarray,
    after: Callable[[], CompiledEpilogue] | None = None,
) -> Launches | None:  # fmt: skip
    """Of a convolution; None if it has no routine for these arrays, or none that does as well what
    `after` gives."""
    t = m.tiles.get(out.dtype)
    if t is None or any(x.dtype != out.dtype for x in inputs):
        return None
    of_weight = planned is convolution.conv_weight
    if not of_weight:
        of_input = planned is convolution.conv_input
        if not of_input and out.shape[2:].count(1) == out.ndim - 2 and _is_product(inputs, attrs):
            x, w = (y.reshape(len(y), -1) for y in inputs)
            product = gemm.matmul(m, (x, w.T), (), out.reshape(out.shape[:2]))
            if product is not None:
                return None if after else product
        few = direct.launches(t, of_input, inputs, attrs, out, m.threads, after)
        if few is None and not of_input:
            few = direct.few_positions(t, inputs, attrs, out, m.threads)
            if few and after:
                return None
        if few is not None:
            return [(f"conv.{name}.{out.dtype.name}", words) for name, words in few]
    a, x = inputs if of_weight else inputs[::-1]
    products = [_live(p, t.size) for p in planned(inputs, attrs, out) or ()]
    if not products:
        return None
    if not of_weight and len(products) == 1:
        fewer = winograd.launches(
            t, products[0], address_arg(a), address_arg(x), address_arg(out), m.threads
        )
        if fewer is not None:
            return (
                None
                if after
                else [(f"conv.{name}.{out.dtype.name}", words) for name, words in fewer]
            )
    if after and (len(products) > 1 or products[0].m == 1):
        return None
    launches, left = _matrices(t, products, a)
    for p, matrix in zip(products, left, strict=True):
        words = _words(t, p, of_weight, matrix, x, out, m.threads, after)
        if words is None:
            return None
        launches.append(("row" * (p.m == 1) + ("weight" if of_weight else "conv"), words))
    return [(f"conv.{name}.{out.dtype.name}", words) for name, words in launches]


# Images need rows that lie in line if they are padded; the positions of a gradient lie in line.
conv = functools.partial(_plan, convolution.conv)
conv_input = functools.partial(_plan, convolution.conv_input)
conv_weight = functools.partial(_plan, convolution.conv_weight)


def _is_product(inputs: Sequence[np.ndarray], attrs: tuple[Any, ...]) -> bool:
    """Whether a convolution with one position sums all elements of an image, as they lie."""
    (x, w), (_, padding, _, groups) = inputs, attrs
    lie = x.flags.c_contiguous and w.flags.c_contiguous
    return lie and x.shape[1:] == w.shape[1:] and groups == 1 and not any(padding)


def _live(p: Products, size: int) -> Products:
    """Without the taps that read nothing but padding at all positions; of a weight's gradient at
    least one is left."""
    if p.rows_at is None or not len(p.taps_at) or len(p.positions_at) > LARGE_IMAGE:
        return p
    inside = np.zeros(p.padded_channel // size, bool)
    inside[np.add.outer(p.rows_at[:, 0] // size, np.arange(p.row_bytes // size))] = True
    places, of = np.unique(p.taps_at % p.padded_channel, return_inverse=True)
    step = len(p.positions_at) // 16 | 1
    for positions in (p.positions_at[step // 2 :: step], p.positions_at):  # a few mostly tell
        live = inside[np.add.outer(places, positions) // size].any(1)[of]
        if live.all():
            return p
    if p.a_at is None:
        live[0] |= not live.any()
        return p._replace(taps_at=p.taps_at[live], c_at=np.flatnonzero(live) * size)
    return p._replace(taps_at=p.taps_at[live], a_at=p.a_at[live])


def _matrices(
    t: Tile, products: Sequence[Products], a: np.ndarray
) -> tuple[Launches, list[tuple[int | np.ndarray, int, int]]]:
    """The left matrix of each product, whose rows lie in line: what makes it; where it lies, and
    the strides of groups and rows."""
    launches: Launches = []
    found: list[tuple[int | np.ndarray, int, int]] = []
    left, o = address_arg(a), len(a)
    if a.flags.c_contiguous and all(
        p.a_at is not None and p.groups == 1 and p.channels == o > 1
        and (np.diff(p.a_at.reshape(-1, o)) == a.strides[0]).all()
        for p in products
    ):  # fmt: skip
        # the weight turned: of each of its columns a row, but of those that no product has
        sizes = [p.m * len(p.taps_at) for p in products]
        held = np.empty(sum(sizes) + o, a.dtype)
        to = np.full(-(-a[0].size // t.lanes) * t.lanes, sum(sizes) * t.size)
        start = 0
        for p, size in zip(products, sizes, strict=True):
            assert p.a_at is not None
            at = np.add.outer(np.arange(p.m) * p.a_row, p.a_at[::o]).reshape(-1) // t.size
            to[at] = (start + np.arange(len(at)) * o) * t.size
            found.append((held[start:], 0, len(p.taps_at) * t.size))
            start += size
        words = [-(-len(to) // TURNED), held, left, to, o, a[0].size, a.strides[0]]
        return [("turn", words)], found
    for p in products:
        found.append((left, p.a_group, p.a_row))
        if p.a_at is not None and (p.a_at != np.arange(len(p.a_at)) * t.size).any():
            rows = np.add.outer(np.arange(p.groups) * p.a_group, np.arange(p.m) * p.a_row)
            at = np.add.outer(rows.reshape(-1), p.a_at).reshape(-1)
            held, row = np.empty(at.size, a.dtype), len(p.a_at) * t.size
            launches.append(("take", [-(-at.size // TAKEN), held, left, at, at.size]))
            found[-1] = held, p.m * row, row
    return launches, found


def _words(
    t: Tile, p: Products, of_weight: bool, a: tuple[int | np.ndarray, int, int], x: np.ndarray,
    c: np.ndarray, threads: int, after: Callable[[], CompiledEpilogue] | None,
) -> Any:  # fmt: skip
    """Of a launch of `conv` or `conv_weight`; None if images are too large for its tables."""
    taps, positions = len(p.taps_at), len(p.positions_at)
    depth = min(max(taps, 1), t.depth)
    one = p.m == 1  # its results are summed where they are read
    # positions of a block
    reach = t.depth if of_weight else min(BLOCK // (depth * t.size), t.width)
    reach = FEW_POSITIONS if one else reach
    together = max(1, min(p.images, reach // positions, PADDED // (p.padded or 1)))
    share = -(-p.images // threads)
    # an image's last position, for which a tile would have a vector of its own
    alone = not of_weight and not one and positions > 2 * t.lanes and positions % t.lanes == 1
    if alone:
        together = 1
    elif not of_weight:
        if 2 * share * positions >= reach:
            together = min(together, share)
        # what several images save is columns of panels; it costs that results are moved
        if positions >= 4 * t.columns and -positions % t.columns * taps <= MOVED * positions:
            together = 1
    chunks = -(-p.images // together)
    # all positions of the images of a chunk, and where these are in the result (in the gradient)
    images = np.arange(together)
    at = np.add.outer(images * (p.padded or p.image), p.positions_at).reshape(-1)
    inner = np.arange(positions) * t.size if of_weight or p.c_at is None else p.c_at
    places = np.add.outer(images * (p.a_image if of_weight else p.c_image), inner).reshape(-1)
    if max(at[-1], places[-1]) + p.taps_at.max(initial=0) >= 1 << 31:
        return None
    step, c_step = _step(at, t.size, 2 * t.size), _step(places, t.size)
    grain = t.lanes if of_weight else t.columns
    count = -(-len(at) // max(reach, grain))  # of blocks, which are about equal
    total = p.groups * (1 if of_weight else chunks)
    most = max(1, min(threads, p.images * taps * positions * p.m // gemm.MIN_UNIT_WORK))
    shared_out = not of_weight and together == 1 and total < 2 * threads and total % most
    # as many as threads can share evenly
    counts = range(count, 2 * count) if shared_out and count >= most else (count,)
    widths = [-(-len(at) // (n * grain)) * grain for n in counts]
    width = min(widths, key=lambda n: -(-len(at) // (n * most)) * n)
    width = min(width, len(at))
    cuts = [(i, min(i + width, len(at))) for i in range(0, len(at), width)]
    if together > 1:  # the last chunk may have less
        cuts = [(0, len(at)), (0, ((p.images - 1) % together + 1) * positions)]
        width = len(at)
    panel = (width if of_weight else depth) * t.columns * t.size
    puts, put_at = np.zeros((0, PIECE), np.int64), np.zeros(0, np.int64)
    elsewhere = p.c_at is not None or together > 1
    if of_weight or one:
        elsewhere = p.c_at is not None and of_weight
    if of_weight and p.c_at is not None:
        put_at = p.c_at
        puts, _ = _pieces(t, put_at, put_at, 0, _step(put_at, t.size), 0, [(0, taps)])

    parts = [min(total, 2 * threads), 1, 1, 1]
    rows, panels = -(-p.m // t.rows), -(-taps // t.columns)
    if of_weight and not elsewhere:
        parts[3] = -(-taps * width * t.size // BLOCK)
        if total < threads and panels >= 2 * most:
            parts[3] = min(-(-parts[3] // most) * most, panels)
    if total * parts[3] < 2 * threads and total * parts[3] % most:
        if len(cuts) >= most and together == 1 and not of_weight:
            parts[1] = most
        else:
            parts[2] = min(most, rows)
    # few rows read columns where they lie, but those after the last whole panel
    in_place = not (of_weight or elsewhere) and 1 < p.m <= IN_PLACE * parts[2] and (
        not p.padded and (at == np.arange(len(at)) * t.size).all()
        and (p.taps_at == np.arange(taps) * p.channel).all()
    )  # fmt: skip
    pieces, blocks = _pieces(t, at, places, step, c_step, 0 if of_weight else panel, cuts)
    if in_place:
        for block in blocks:
            first, count, _, n = block
            left = (pieces[first : first + count, 1] >= n // t.columns * panel).sum()
            block[:2] = first + count - left, left
    columns = -(-p.padded * together // 64) * 64 + t.k_bytes * alone
    some = min(taps, (-(-panels // parts[3])) * t.columns) if of_weight else width
    gradient = columns + (-(-some // t.columns)) * panel + t.lanes * t.columns * t.size
    pitch = -(-width * t.size // 64) * 64
    apart = gradient + (p.m * pitch if of_weight and together > 1 else 0)
    if one:
        apart = columns + (some * t.bytes if of_weight else 0)
    unit_bytes = apart
    if elsewhere:
        unit_bytes += -(-p.m * (taps * t.size if of_weight else pitch) // 64) * 64
    units = parts[0] * parts[1] * parts[2] * parts[3]
    fields: dict[str, Any] = p._asdict() | {
        "units": units, "memory": ScratchArg(units * unit_bytes), "unit_bytes": unit_bytes,
        "columns": columns, "gradient": gradient, "apart": apart, "c": address_arg(c), "a": a[0],
        "a_group": a[1], "a_row": a[2], "x": address_arg(x), "pieces_at": pieces,
        "taps_at": np.append(p.taps_at, [p.taps_at[-1] if taps else 0] * t.lanes),
        "blocks_at": blocks, "sources": _offsets(t, at), "places": _offsets(t, places),
        "taps": taps, "depth": depth, "blocks": 1 if together > 1 else len(blocks), "step": step,
        "c_step": c_step, "pitch": pitch, "elsewhere": int(elsewhere), "in_place": int(in_place),
        "alone": int(alone),
        "panel": panel, "b_step": p.channel, "puts_at": puts,
        "puts": len(puts), "put_places": _offsets(t, put_at), "put_step": _step(put_at, t.size),
        "together": together, "chunks": chunks, "image_parts": parts[0], "block_parts": parts[1],
        "row_parts": parts[2], "tap_parts": parts[3], "positions": positions,
        **(following.NONE if after is None else after().words),
    }  # fmt: skip
    return [0 if fields[name] is None else fields[name] for name in names_of(WORDS)]


def _step(at: np.ndarray, *steps: int) -> int:
    """By how many bytes, of these, most offsets follow each other in rows; 0: by none."""
    apart = np.diff(at)
    return next((s for s in steps if 4 * np.count_nonzero(apart != s) <= len(at)), 0)


def _offsets(t: Tile, at: np.ndarray) -> np.ndarray:
    """A table that is read by vectors."""
    return np.append(at, [0] * t.lanes).astype(np.int32)


def _pieces(
    t: Tile, at: np.ndarray, places: np.ndarray, step: int, c_step: int, panel: int,
    cuts: Sequence[tuple[int, int]],
) -> tuple[np.ndarray, np.ndarray]:  # fmt: skip
    """The pieces of blocks, and of each block its first piece, its pieces, its first position and
    its positions. Panels of columns are so many bytes; 0: positions stand below each other."""
    at_of = np.concatenate([np.arange(first, last) for first, last in cuts])
    begins = np.cumsum([0] + [last - first for first, last in cuts])
    n = np.arange(len(at_of)) - np.repeat(begins[:-1], np.diff(begins))  # in its block
    ends = n % t.columns == 0 if panel else n == 0
    for offsets, apart in ((at, step), (places, c_step)):
        if apart:
            ends[1:] |= np.diff(offsets[at_of]) != apart
    every = np.arange(len(n))
    i = np.flatnonzero((every - np.maximum.accumulate(every * ends)) % t.lanes == 0)
    sizes, here, n = np.diff(np.append(i, len(n))), at_of[i], n[i]
    to = n // t.columns * panel + n % t.columns * t.size if panel else n * t.columns * t.size
    source, place = at[here] if step else 4 * here, places[here] if c_step else 4 * here
    pieces = np.stack([source, to, n * t.size, place, sizes], 1).astype(np.int64)
    first, count = np.searchsorted(i, begins[:-1]), np.diff(np.searchsorted(i, begins))
    return pieces, np.stack([first, count, [a for a, _ in cuts], np.diff(begins)], 1)


# --- text

TAKEN = 1 << 12  # elements of a unit of `take`
TURNED = 128  # rows that a unit of `turn` writes


def text(m: CpuTarget, name: str, dtype: np.dtype) -> str:
    """The module of a routine: `take`, `turn`, and of rows or single ones `conv` and `weight`; of
    winograd.py `filters` and `tiles`."""
    t = m.tiles[dtype]
    if name in ("take", "turn"):
        return module([_take(t) if name == "take" else _turn(t)], m.bits)
    if name.startswith("direct"):
        return module([direct.direct(t, name)], m.bits)
    if name.startswith("few"):
        return module([direct.few(t, name)], m.bits)
    if name == "filters":
        return module([winograd.filters(t)], m.bits)
    tile, fetching, column = gemm.build(t)[0], gemm.fetching(t), direct.column(t)
    if name == "tiles":
        parts = [_pad(t), _multiply(t, tile, fetching, column)]
        return module([tile, fetching, column, *parts, *winograd.tiles(t, *parts)], m.bits)
    of_weight = name.endswith("weight")
    parts = [_pad(t), _rows_of_pieces(t, "put")]
    if name.startswith("row"):
        parts += [_row_of_weight(t) if of_weight else _row(t)]
    else:
        parts += [tile, fetching, column, _multiply(t, tile, fetching, column)]
        parts += [_columns(t, of_weight), _rows_of_pieces(t, "get")]
    return module([*parts, _conv(t, of_weight, {f.name: f for f in parts})], m.bits)


def _take(t: Tile) -> LlvmAssembler:
    """The elements at a table of offsets, after one another."""
    f, w, begin, end = launched(TAKE)
    with f.count(begin * TAKEN, (end * TAKEN).min(w["n"])) as i:
        value = f.load(t.real, w["source"] + f.load("i64", w["at"] + i * 8))
        f.store(w["to"] + i * t.size, value)
    return f


def _turn(t: Tile) -> LlvmAssembler:
    """A matrix turned: each of its columns to the place that a table names."""
    f, w, begin, end = launched(TRANSPOSE_ARGS)
    with f.count(0, w["rows"], t.lanes) as o:
        inside = f.lanes_below(w["rows"] - o, t.lanes)
        with f.count(begin * TURNED, (end * TURNED).min(w["columns"]), t.lanes) as x:
            some = f.lanes_below(w["columns"] - x, t.lanes)
            source, rows = w["source"] + x * t.size, []
            for i in range(t.lanes):
                row = (o + i).min(w["rows"] - 1)
                rows.append(f.load_some(t.vector, source + row * w["source_row"], some, t.size))
            for i, row in enumerate(f.transposed(rows)):
                to = w["to"] + f.load("i64", w["at"] + (x + i) * 8)
                f.store_some(to + o * t.size, row, inside, t.size)
    return f


def _pad(t: Tile) -> LlvmAssembler:
    """The rows of an image's channels, each to its place."""
    f = LlvmAssembler("pad", "ptr ptr i64 i64 i64 i64 i64 ptr")
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


class _Piece:
    """A piece in a function that reads images at the offset of a tap: `@image`, `@taps` and
    `sources` are its params."""

    def __init__(self, f: LlvmAssembler, t: Tile, at: LlvmValue) -> None:
        self.f, self.t = f, t
        self.source, self.to, self.line, self.place, self.count = (
            f.load("i64", at + 8 * i) for i in range(PIECE)
        )
        self.some = f.lanes_below(self.count, t.lanes)

    def each(
        self, step: LlvmValue, image: LlvmValue, taps: LlvmValue, sources: LlvmValue,
        write: Callable[[Callable[[LlvmValue], LlvmValue]], None],
    ) -> None:  # fmt: skip
        """Write what reads a tap's positions, for each way in which these may lie: in line, with
        one between them, anyhow."""
        f, t = self.f, self.t

        def here(tap: LlvmValue) -> LlvmValue:
            return image + f.load("i64", taps + tap * 8)

        with f.when(step.equals(t.size)):
            write(lambda tap: self.load(here(tap) + self.source))
        with f.when(step.equals(2 * t.size)):
            halves = [f.lanes_below(self.count * 2 - 1 - v * t.lanes, t.lanes) for v in range(2)]

            def every_other(tap: LlvmValue) -> LlvmValue:
                at = here(tap) + self.source
                a, b = (
                    f.load_some(t.vector, at + v * t.bytes, half, t.size)
                    for v, half in enumerate(halves)
                )
                return a.shuffle(range(0, 2 * t.lanes, 2), b)

            write(every_other)
        with f.when(step.equals(0)):
            places = f.load(f"i32x{t.lanes}", sources + self.source)
            write(lambda tap: self.gather(here(tap), places))

    def load(self, at: LlvmValue) -> LlvmValue:
        """Its elements, which lie in line."""
        return self.f.load_some(self.t.vector, at, self.some, self.t.size)

    def gather(self, at: LlvmValue, places: LlvmValue) -> LlvmValue:
        """Its elements, which lie anyhow."""
        f, t = self.f, self.t
        return f.gather(t.vector, f.element("i8", at, places), self.some, t.size)

    def put(self, far: LlvmValue, places: LlvmValue, step: LlvmValue, x: LlvmValue) -> None:
        """Write its elements to their places."""
        f, t = self.f, self.t
        with f.when(step.differs(0)):
            f.store_some(far + self.place, x, self.some, t.size)
            f.otherwise()
            at = f.element("i8", far, f.load(f"i32x{t.lanes}", places + self.place))
            f.scatter(at, x, self.some, t.size)

    def get(self, far: LlvmValue, places: LlvmValue, step: LlvmValue) -> LlvmValue:
        """Its elements, from there."""
        f, t = self.f, self.t
        x = f.local(type=t.vector)
        with f.when(step.differs(0)):
            x.set(self.load(far + self.place))
            f.otherwise()
            x.set(self.gather(far, f.load(f"i32x{t.lanes}", places + self.place)))
        return x.now()


def _columns(t: Tile, turned: bool) -> LlvmAssembler:
    """Panels of columns: of each tap a row of positions; turned, of each position one of taps."""
    f = LlvmAssembler("columns", "ptr ptr ptr i64 ptr i64 i64 ptr i64")
    to, image, taps, k, pieces, n, step, sources, panel = f.params
    row = t.columns * t.size
    with f.count(0, k if turned else 1, t.lanes) as j, f.count(0, n) as p:
        piece = _Piece(f, t, pieces + p * (8 * PIECE))
        first = j.now()
        into = to + piece.to
        if turned:
            into = into + first // t.columns * panel + first % t.columns * t.size

        def write(read: Callable[[LlvmValue], LlvmValue]) -> None:
            if turned:
                rows = [read(first + i) for i in range(t.lanes)]
                for i, x in enumerate(f.transposed(rows)):
                    f.store(into, x, i * row, align=t.bytes)
                return
            at = f.local(into)
            with f.count(0, k) as tap:
                f.store_some(at, read(tap), piece.some, t.size)
                at.add(row)

        piece.each(step, image, taps, sources, write)
    # Zeros after the last: what lay there may be slow to multiply, as subnormals are
    if not turned:
        piece = _Piece(f, t, pieces + (n - 1) * (8 * PIECE))
        begin = piece.to - piece.to % panel
        with f.count(piece.to % panel + piece.count * t.size, row, t.bytes) as at:
            rest = f.lanes_below((f.value(row, "i64") - at) // t.size, t.lanes)
            with f.count(0, k) as tap:
                zeros = f.value(0, t.vector)
                f.store_some(to + begin + tap * row + at, zeros, rest, t.size)
    return f


def _row(t: Tile) -> LlvmAssembler:
    """A row of the result, the sums of taps times a row of the weight."""
    f = LlvmAssembler("row", "ptr ptr ptr i64 ptr i64 i64 ptr ptr ptr i64")
    c, image, taps, k, pieces, n, step, sources, a, places, c_step = f.params
    total = f.local(type=t.vector)
    with f.count(0, n) as p:
        piece = _Piece(f, t, pieces + p * (8 * PIECE))
        total.set(f.value(0, t.vector))

        def add(read: Callable[[LlvmValue], LlvmValue]) -> None:
            with f.count(0, k) as tap:
                factor = f.load(t.real, a + tap * t.size).splat(t.lanes)
                total.set(read(tap).fma(factor, total))

        piece.each(step, image, taps, sources, add)
        piece.put(c, places, c_step, total)
    return f


def _row_of_weight(t: Tile) -> LlvmAssembler:
    """The gradient of a row of a weight: a vector for each tap, in each lane a sum."""
    f = LlvmAssembler("row", "ptr ptr ptr i64 ptr i64 i64 ptr ptr ptr i64")
    sums, image, taps, k, pieces, n, step, sources, a, places, c_step = f.params
    with f.count(0, n) as p:
        piece = _Piece(f, t, pieces + p * (8 * PIECE))
        g = piece.get(a, places, c_step)

        def add(read: Callable[[LlvmValue], LlvmValue]) -> None:
            with f.count(0, k) as tap:
                at = sums + tap * t.bytes
                f.store(at, read(tap).fma(g, f.load(t.vector, at)))

        piece.each(step, image, taps, sources, add)
    return f


def _rows_of_pieces(t: Tile, name: str) -> LlvmAssembler:
    """`put` rows of pieces to their places, or `get` them from there."""
    f = LlvmAssembler(name, "ptr i64 ptr i64 i64 ptr i64 ptr i64")
    line, line_row, far, far_row, rows, pieces, n, places, step = f.params
    with f.count(0, rows) as r, f.count(0, n) as p:
        piece = _Piece(f, t, pieces + p * (8 * PIECE))
        near, there = line + r * line_row + piece.line, far + r * far_row
        if name == "put":
            piece.put(there, places, step, piece.load(near))
        else:
            f.store_some(near, piece.get(there, places, step), piece.some, t.size)
    return f


def _multiply(
    t: Tile, tile: LlvmAssembler, fetching: LlvmAssembler, column: LlvmAssembler
) -> LlvmAssembler:
    """c = or, if it adds, += a, whose rows lie in line, times panels, and times a column after
    these that lies in line, if there is one."""
    f = LlvmAssembler("multiply", "ptr i64 ptr i64 ptr i64 i64 i64 i64 i64 i1 ptr")
    c, c_row, a, a_row, b, panel, step, m, n, k, adds, last = f.params

    def multiply(i: LlvmValue, tile: LlvmAssembler) -> None:
        shared.tiles(
            f, t, lambda f, *arguments: f.call(tile, *arguments[:-1]), c + c_row * i, c_row,
            a + a_row * i, a_row * t.rows, a_row, t.size, b, panel, step, (m - i).min(t.height),
            n, k, adds, None,
        )  # fmt: skip

    with f.count(0, m, t.height) as i:
        at = i.now()
        with f.when(n > 2 * t.columns):
            multiply(at, tile)
            f.otherwise()
            multiply(at, fetching)
        with f.when(last.differs(0)):
            f.call(
                column, c + c_row * at + n * t.size, c_row, a + a_row * at, a_row, last,
                (m - at).min(t.height), k, adds,
            )  # fmt: skip
    return f


def _conv(t: Tile, of_weight: bool, of: dict[str, LlvmAssembler]) -> LlvmAssembler:
    """The products of some images; of the gradient of a weight, of all, for some of its rows and
    taps."""
    f, w, begin, end = launched(WORDS)
    with f.count(begin, end) as u:
        memory = w["memory"] + w["unit_bytes"] * u
        block_columns, gradient, apart = (memory + w[x] for x in ("columns", "gradient", "apart"))
        rest = f.local(u // w["image_parts"])
        first, last = cut(
            w["groups"] * (1 if of_weight else w["chunks"]), u % w["image_parts"], w["image_parts"]
        )
        low, high = cut(w["blocks"], rest % w["block_parts"], w["block_parts"])
        rest.set(rest // w["block_parts"])
        top, bottom = cut(w["m"], rest % w["row_parts"], w["row_parts"], t.rows)
        left, right = cut(w["taps"], rest // w["row_parts"], w["tap_parts"], t.columns)
        f.fill(memory, w["padded"] * w["together"])
        rows = bottom - top

        def of_chunk(g: LlvmValue, chunk: LlvmValue) -> None:
            i = chunk * w["together"]
            count = (w["images"] - i).min(w["together"])
            image = f.local(w["x"] + i * w["image"] + g * w["group"])
            with f.when(w["padded"] > 0):
                begins, ends = f.value(0, "i64"), w["channels"]
                if of_weight:  # of the channels only those that its taps read
                    begins = left * ends // w["taps"]
                    ends = (right * ends + (w["taps"] - 1)) // w["taps"]
                with f.count(0, count) as z:
                    f.call(
                        of["pad"], memory + z * w["padded"] + begins * w["padded_channel"],
                        image + z * w["image"] + begins * w["channel"], ends - begins,
                        w["padded_channel"], w["channel"], w["rows"], w["row_bytes"], w["rows_at"],
                    )  # fmt: skip
                image.set(memory)
            a = w["a"] + i * w["a_image"] + g * w["a_group"] + top * w["a_row"]
            c = w["c"] + i * w["c_image"] + g * w["c_group"] + top * w["c_row"]
            short = f.value(1, "i64").where(count < w["together"], 0)
            with f.count(low + short, high + short) as b:
                piece, pieces, at, width = (
                    f.load("i64", w["blocks_at"] + b * 32 + 8 * n) for n in range(4)
                )
                piece = w["pieces_at"] + piece * (8 * PIECE)

                def made(first: LlvmValue, taps: LlvmValue) -> None:
                    f.call(
                        of["columns"], block_columns, image, w["taps_at"] + first * 8, taps, piece,
                        pieces, w["step"], w["sources"], w["panel"],
                    )  # fmt: skip

                if "row" in of:
                    f.call(
                        of["row"], block_columns if of_weight else c, image,
                        w["taps_at"] + left * 8, right - left, piece, pieces, w["step"],
                        w["sources"], a, w["places"], w["c_step"],
                    )  # fmt: skip
                    return
                if of_weight:
                    several = w["together"] > 1
                    with f.when(several):
                        f.call(
                            of["get"], gradient, w["pitch"], a, w["a_row"], rows, piece, pieces,
                            w["places"], w["c_step"],
                        )  # fmt: skip
                    made(left, right - left)
                    row, elsewhere = w["taps"] * t.size, w["elsewhere"] > 0
                    f.call(
                        of["multiply"], apart.where(elsewhere, c + left * t.size),
                        row.where(elsewhere, w["c_row"]), gradient.where(several, a + at * t.size),
                        w["pitch"].where(several, w["a_row"]), block_columns, w["panel"],
                        t.columns * t.size, rows, right - left, width, i + b > 0, 0,
                    )  # fmt: skip
                    return
                elsewhere, tile_row = w["elsewhere"] > 0, t.columns * t.size
                to_row = w["pitch"].where(elsewhere, w["c_row"])
                with f.count(0, w["taps"].where(w["taps"] > 0, 1), w["depth"]) as k:
                    depth = (w["taps"] - k).min(w["depth"])
                    whole = (width - width % t.columns).where(w["in_place"] > 0, 0)
                    to = apart.where(elsewhere, c + at * t.size)

                    def multiply(
                        first: Operand, n: LlvmValue, *b: Operand, last: Operand = 0
                    ) -> None:
                        f.call(
                            of["multiply"], to + first * t.size, to_row, a + k * t.size,
                            w["a_row"], *b, rows, n, depth, k > 0, last,
                        )  # fmt: skip

                    with f.when(whole > 0):
                        source = image + at * t.size + k * w["b_step"]
                        multiply(f.value(0, "i64"), whole, source, tile_row, w["b_step"])
                    with f.when(whole < width):
                        made(k, depth)
                        source = block_columns + whole // t.columns * w["panel"]
                        n = width - whole
                        alone = (w["alone"] > 0) & (n % t.lanes).equals(1)
                        last = memory + (w["columns"] - t.k_bytes)
                        with f.when(alone):
                            n = n - 1
                            here = n // t.columns * w["panel"] + n % t.columns * t.size
                            into, here = f.local(last), f.local(source + here)
                            with f.count(0, depth):
                                f.store(into, f.load(t.real, here))
                                into.add(t.size)
                                here.add(tile_row)
                            multiply(whole, n, source, w["panel"], tile_row, last=last)
                            f.otherwise()
                            multiply(whole, width - whole, source, w["panel"], tile_row)
                first_row = g * w["m"] + top
                with f.when(w["elsewhere"].equals(0)):
                    following.call(f, w, first_row, c + at * t.size, w["c_row"], rows, width)
                with f.when(elsewhere):
                    f.call(
                        of["put"], apart, w["pitch"], c, w["c_row"], rows, piece, pieces,
                        w["places"], w["c_step"],
                    )  # fmt: skip
                    with f.count(0, count) as z:
                        following.call(
                            f, w, first_row, c + z * w["c_image"], w["c_row"], rows, w["positions"]
                        )

        with f.count(first, last) as z:
            if not of_weight:
                of_chunk(z // w["chunks"], z % w["chunks"])
            else:
                if "row" in of:
                    f.fill(block_columns, (right - left) * t.bytes)
                with f.count(0, w["chunks"]) as chunk:
                    of_chunk(z, chunk)
                c = w["c"] + z * w["c_group"] + top * w["c_row"]
                if "row" in of:
                    into = apart.where(w["elsewhere"] > 0, c + left * t.size)
                    with f.count(0, right - left) as tap:
                        total = f.load(t.vector, block_columns + tap * t.bytes)
                        f.store(into + tap * t.size, total.total())
                with f.when(w["elsewhere"] > 0):
                    f.fill(c, rows * w["c_row"])
                    f.call(
                        of["put"], apart, w["taps"] * t.size, c, w["c_row"], rows, w["puts_at"],
                        w["puts"], w["put_places"], w["put_step"],
                    )  # fmt: skip
    return f
