"""Products with packed weights (nn/quantized.py lays them out), of floats and of ints of 8 bits.

Words of as many rows of the weight as a vector has lanes are turned, so that a lane has a row. For
floats they become panels as codegen/cpu/gemm.py has them, which its tile multiplies; a row or two
of x is multiplied by words as they lie, with lanes along k. For ints a panel has words of ints,
and the sums of a group are ints before its scale is taken. `factors` of an encoding says how a
word becomes operands of its `dot`, and `bias` what that adds to weights.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any

from pyframe.codegen.cpu.gemm import Make, Tile, WriteTile, tiles

PANELS = 4  # unpacked at once, so that rows of x which lie far apart are walked less often
FEW_ROWS = 8  # rows of x that are multiplied by words as they lie
SIDE = 4  # rows of the weight that are walked together then
BLOCK = 32  # of k: no group is a part of one
ROWS = 256  # of x that are summed, and made factors, at once
# c, x, the words, scales, offsets; the rows of the weight that are asked for, all of them, and of
# x; k; bytes from row to row of x; the elements of a group
PARAMS = "ptr ptr ptr ptr ptr ptr word word word word word word word"


def scratch(t: Tile, m: int, k: int, groups: int, ints: bool) -> int:
    """Bytes of memory that a product needs."""
    scales = 2 * groups * t.columns * t.size
    if not ints:
        return PANELS * (t.depth * t.columns * t.size + t.memory + scales)
    rows = min(m, ROWS)
    return 2 * k * t.columns + scales + rows * (4 * groups + 2 * (k + 64)) + 64 + _edge(t)


def _edge(t: Tile) -> int:
    return t.rows * t.columns * 4


def floats(make: Make, t: Tile, tile: WriteTile, bits: int, symmetric: bool) -> Any:
    """c (m x n) = x (m x k) times the weight's rows from `first` to `last`."""
    dots = [(rows, _dots(make, t, bits, symmetric, rows)) for rows in (4, 2, 1)]
    f = make(name("floats", bits, symmetric), PARAMS)
    memory, c, x, words, scale, offset, first, last, n, m, k, x_row, group = f.params
    groups = f.local(k // group)
    with f.when(m <= FEW_ROWS):
        i = f.local(0)
        for rows, function in dots:
            with f.during(lambda rows=rows: i <= m - rows):
                at = c + n * i * t.size
                f.call(function, at, x + x_row * i, words, scale, offset, first, last, n, k, x_row,
                       group)  # fmt: skip
                i.add(rows)
    with f.when(m > FEW_ROWS):
        row, size = t.columns * t.size, t.depth * t.columns * t.size
        scales = f.local(memory + PANELS * (size + t.memory))
        width, depth = f.local(0), f.local(0)
        with f.count(first, last, PANELS * t.columns) as j:
            width.set((last - j).min(PANELS * t.columns))
            with f.count(0, width, t.lanes) as some:
                to = scales + groups * some * t.size
                _turned(f, t, to, scale, j + some, n, groups)
                if not symmetric:
                    to = to + groups * (PANELS * row)
                    _turned(f, t, to, offset, j + some, n, groups)
            with f.count(0, k, t.depth) as p:
                depth.set((k - p).min(t.depth))
                with f.count(0, width, t.lanes) as some:
                    into = f.local(memory + some // t.columns * size + some % t.columns * t.size)
                    of = f.local(scales + groups * some * t.size)
                    _panel(f, t, bits, symmetric, into, words, j + some, n, p, depth, k,
                           of, groups * (PANELS * row), group)  # fmt: skip
                with f.count(0, m, t.height) as i:
                    tiles(
                        f, t, tile, c + (n * i + j) * t.size, n * t.size,
                        x + x_row * i + p * t.size, x_row * t.rows, x_row,
                        f.value(t.size, "word"), memory, size, row, (m - i).min(t.height), width,
                        depth, p > 0, memory + PANELS * size,
                    )  # fmt: skip
    return f


def name(what: str, bits: int, symmetric: bool) -> str:
    """A function's name: what it computes, and of which weights."""
    return f"packed_{what}{bits}" + ("" if symmetric else "_offset")


NAMES = {name(*what): what for what in itertools.product(("floats", "ints"), (8, 4), (True, False))}


def _turned(f: Any, t: Tile, to: Any, source: Any, first: Any, n: Any, groups: Any) -> None:
    """What groups of as many rows as a vector has lanes have, as a vector for each group. A row
    that is missing is the last."""
    at, row = f.local(to), f.local(0)
    for r in range(t.lanes):
        row.set((first + r).min(n - 1))
        at.set(source + groups * row * t.size)
        with f.count(0, groups) as g:
            f.store(to + g * t.bytes + r * t.size, f.load(t.real, at))
            at.add(t.size)


def _walk(
    f: Any, t: Tile, bits: int, words: Any, first: Any, n: Any, start: Any, count: Any, k: Any,
    write: Callable[[Any, int, list[Any]], None],
) -> None:  # fmt: skip
    """`write(word, at, vectors)` for vectors of words of as many rows as a vector has lanes, those
    numbered from `word + at` on; they stay within a block of k."""
    rows = []
    for r in range(t.lanes):
        row = f.local((first + r).min(n - 1))
        rows.append(f.local(words + row * (k * bits // 8) + start * 4))
    each = min(bits, t.lanes)
    with f.count(0, count, t.lanes) as q:
        left = f.local(count - q)
        turned = f.transposed(
            [f.local(f.load_first(f"i32x{t.lanes}", row + q * 4, left)) for row in rows]
        )
        turned = [f.local(x) for x in turned]
        for at in range(0, t.lanes, each):
            with f.when(left > at):
                write(q, at, turned[at : at + each])


def _panel(
    f: Any, t: Tile, bits: int, symmetric: bool, to: Any, words: Any, first: Any, n: Any,
    start: Any, depth: Any, k: Any, scales: Any, offsets: Any, group: Any,
) -> None:  # fmt: skip
    """Floats of as many rows as a vector has lanes, `depth` of each, as columns of a panel."""
    ints, row = 32 // bits, t.columns * t.size

    def write(q: Any, at: int, vectors: list[Any]) -> None:
        base = f.local((q + at) * ints)
        place = f.local(scales + (start + base) // group * t.bytes)
        scale = f.local(f.load(t.vector, place))
        offset = None if symmetric else f.local(f.load(t.vector, place + offsets))
        place.set(to + base * row)
        for i, x in enumerate(vectors):
            for half in range(8 // bits):
                for byte in range(4):
                    up = 32 - bits - bits * half - 8 * byte
                    q = x.op("shl", up) if up else x
                    value = f.floats(q.op("shr_s", 32 - bits), t.real)
                    value = (
                        value * scale if offset is None else f.multiply_add(value, scale, offset)
                    )
                    f.store(place, value, ((i * 8 // bits + half) * 4 + byte) * row)

    _walk(f, t, bits, words, first, n, start * bits // 32, depth * bits // 32, k, write)


def _dots(make: Make, t: Tile, bits: int, symmetric: bool, rows: int) -> Any:
    """Of few rows: lanes are along k, and are added up at the end."""
    f = make(name(f"dots{rows}_", bits, symmetric), "ptr ptr ptr ptr ptr " + "word " * 6)
    c, x, words, scale, offset, first, last, n, k, x_row, group = f.params
    groups, each = f.local(k // group), t.lanes
    zero = f.value(0, t.vector)
    totals = [[f.local(type=t.vector) for _ in range(SIDE)] for _ in range(rows)]
    parts = [[f.local(type=t.vector) for _ in range(SIDE)] for _ in range(rows)]
    sums = [f.local(type=t.vector) for _ in range(rows)]
    xs = [f.local(x + x_row * r) for r in range(rows)]
    ahead = f.local(k * bits // 8 * SIDE)
    with f.count(first, last, SIDE) as j:
        sides = [f.local((j + s).min(last - 1)) for s in range(SIDE)]
        places = [f.local(words + side * (k * bits // 8)) for side in sides]
        of_groups = [f.local(groups * side * t.size) for side in sides]
        for total in itertools.chain(*totals):
            total.set(zero)
        here = [f.local(y) for y in xs]
        with f.count(0, groups):
            for part in itertools.chain(*parts, sums):
                part.set(zero)
            with f.count(0, group, BLOCK):
                for byte in range(0, 4 * bits, each):
                    at = [(byte * 8 // bits + h * each) * t.size for h in range(8 // bits)]
                    given = [[f.local(f.load(t.vector, y, h)) for h in at] for y in here]
                    if bits == 4 and each > 4:
                        given = [
                            [f.local(x) for x in _halves(low, high, each)] for low, high in given
                        ]
                    for s, place in enumerate(places):
                        whole = f.local(f.bytes_at(place, t.lanes, byte))
                        ints = [whole]
                        if bits == 4:
                            low = whole.op("shl", 28).op("shr_s", 28)
                            ints = [low, whole.op("shr_s", 4)]
                        for h, q in enumerate(ints):
                            value = f.local(f.floats(q, t.real))
                            for part, some in zip(parts, given, strict=True):
                                part[s].set(f.multiply_add(value, some[h], part[s]))
                    for total, some in zip(sums, given, strict=True):
                        for y in () if symmetric else some:
                            total.set(total + y)
                for place in places:  # rows are too short for the processor to see what comes next
                    f.prefetch(place + ahead, 0)
                    place.add(4 * bits)
                for y in here:
                    y.add(BLOCK * t.size)
            for s, of in enumerate(of_groups):
                factor = f.local(f.splat_at(t.vector, scale + of))
                for total, part in zip(totals, parts, strict=True):
                    total[s].set(f.multiply_add(part[s], factor, total[s]))
                if not symmetric:
                    factor.set(f.splat_at(t.vector, offset + of))
                    for total, some in zip(totals, sums, strict=True):
                        total[s].set(f.multiply_add(some, factor, total[s]))
                of.add(t.size)
        for r, row in enumerate(totals):
            for side, total in zip(sides, row, strict=True):
                f.store(c + (n * r + side) * t.size, total.total())
    return f


def _halves(low: Any, high: Any, lanes: int) -> list[Any]:
    """Of each eight elements the first four and the others."""
    fours = [range(x, x + 4) for x in range(0, 2 * lanes, 4)]
    return [low.shuffle([i for four in fours[h::2] for i in four], high) for h in (0, 1)]


def ints(make: Make, t: Tile, bits: int, symmetric: bool) -> Any:
    """`floats` of an x of ints of 8 bits, whose groups' sums are ints."""
    tile = _int_tile(make, t, bits, symmetric)
    f = make(name("ints", bits, symmetric), PARAMS)
    memory, c, x, words, scale, offset, first, last, n, m, k, x_row, group = f.params
    groups, row = f.local(k // group), t.columns * 4 * f.parts
    panel = f.local(memory + _edge(t))
    scales = f.local(panel + k // 4 * row)
    sums = f.local(scales + groups * (2 * t.columns * 4))
    factors, stride = f.local(x), f.local(x_row)
    height = f.local(0)
    with f.count(0, m, ROWS) as i:
        height.set((m - i).min(ROWS))
        if f.bias or not symmetric:
            _sums(f, t, sums, x + x_row * i, x_row, height, groups, group)
        factors.set(x + x_row * i)
        if f.parts > 1:
            factors.set(sums + groups * height * 4)
            stride.set((k + 64) * f.parts)
            _factors(f, t, factors, x + x_row * i, x_row, height, k)
        with f.count(first, last, t.columns) as j:
            for v in range(2):
                at = f.local(j + v * t.lanes)
                to = f.local(scales + groups * (v * t.bytes))
                _turned(f, t, to, scale, at, n, groups)
                if not symmetric:
                    to.add(groups * (2 * t.bytes))
                    _turned(f, t, to, offset, at, n, groups)
                _int_panel(f, t, bits, panel + v * t.bytes, words, at, n, k, row)
            with f.count(0, height, t.rows) as r:
                f.call(
                    tile, c + (n * (i + r) + j) * 4, n * 4, factors + stride * r, stride, panel,
                    scales, sums + groups * r * 4, k, group, (height - r).min(t.rows),
                    (last - j).min(t.columns), memory,
                )  # fmt: skip
    return f


def _sums(f: Any, t: Tile, to: Any, x: Any, x_row: Any, m: Any, groups: Any, group: Any) -> None:
    """Of each group of each row of x."""
    vector = f"i32x{t.lanes}"
    at, here, total = f.local(to), f.local(x), f.local(type=vector)
    with f.count(0, m) as i:
        here.set(x + x_row * i)
        with f.count(0, groups):
            total.set(f.value(0, vector))
            with f.count(0, group, t.lanes):
                total.set(total + f.bytes_at(here, t.lanes))
                here.add(t.lanes)
            f.store(at, total.total())
            at.add(4)


def _factors(f: Any, t: Tile, to: Any, x: Any, x_row: Any, m: Any, k: Any) -> None:
    """Rows of x as operands of `dot`, each part of them after the other."""
    left = f.local(0)
    with f.count(0, m) as i, f.count(0, k, 4 * t.lanes) as at:
        left.set((k - at).op("shr_u", 2))
        word = f.local(f.load_first(f"i32x{t.lanes}", x + x_row * i + at, left))
        for part, value in enumerate(f.factors(word)):
            f.store(to + ((k + 64) * (i * f.parts + part) + at), value)


def _int_panel(
    f: Any, t: Tile, bits: int, to: Any, words: Any, first: Any, n: Any, k: Any, row: int
) -> None:
    """Ints of as many rows as a vector has lanes, a word of four of them after the other. Those of
    4 bits are the upper half of bytes, as 16 times what they are."""

    def write(q: Any, at: int, vectors: list[Any]) -> None:
        place = f.local(to + (q + at) * (8 // bits * row))
        for i, x in enumerate(vectors):
            found = [x] if bits == 8 else [x.op("shl", 4), x]
            for half, word in enumerate(found):
                if bits == 4:
                    word = f.local(word & -0x0F0F0F10)
                for part, value in enumerate(f.factors(word, f.bias)):
                    f.store(place, value, (i * 8 // bits + half) * row + part * t.columns * 4)

    _walk(f, t, bits, words, first, n, f.value(0, "word"), k * bits // 32, k, write)


def _int_tile(make: Make, t: Tile, bits: int, symmetric: bool) -> Any:
    """Some rows of two vectors: sums of ints within a group, of floats over groups."""
    f = make(
        name("int_tile", bits, symmetric), "ptr word ptr word ptr ptr ptr " + "word " * 4 + "ptr"
    )
    c, c_row, x, x_row, panel, scales, sums, k, group, rows, columns, edge = f.params
    kind, pairs = f"i32x{t.lanes}", [(r, v) for r in range(t.rows) for v in range(2)]
    totals = {at: f.local(f.value(0.0, t.vector), t.vector) for at in pairs}
    parts = {at: f.local(type=kind) for at in pairs}
    groups, right, right_scale = f.local(k // group), f.local(panel), f.local(scales)
    # a row that is missing is another one, whose results are not written
    missing = [f.local((rows - 1).min(f.value(r, "word"))) for r in range(t.rows)]
    left = [f.local(x + x_row * r) for r in missing]
    of_sums = [f.local(sums + groups * r * 4) for r in missing]
    weights = [f.local(type=kind) for _ in range(2)]
    with f.count(0, groups):
        for (r, _), part in parts.items():
            some = f.value(0, kind)
            if f.bias:
                some = some - f.splat_at(kind, of_sums[r]) * f.bias
            part.set(some)
        with f.count(0, group, 4):
            for part in range(f.parts):
                for v, weight in enumerate(weights):
                    weight.set(f.load(kind, right, (part * 2 + v) * t.bytes))
                for r, at in enumerate(left):
                    value = f.local(f.splat_at(kind, at + (k + 64) * part if part else at))
                    for v, weight in enumerate(weights):
                        parts[r, v].set(f.dot(parts[r, v], weight, value))
            right.add(f.parts * 2 * t.bytes)
            for at in left:
                at.add(4)
        for v in range(2):
            # of a vector's columns the scales of all groups follow each other, then offsets
            place = f.local(right_scale + groups * (v * t.bytes))
            factor = f.local(f.load(t.vector, place))
            if bits == 4:
                factor.set(factor * f.value(1 / 16, t.vector))
            for r in range(t.rows):
                value = f.floats(parts[r, v], t.real)
                totals[r, v].set(f.multiply_add(value, factor, totals[r, v]))
            if not symmetric:
                factor.set(f.load(t.vector, place + groups * (2 * t.bytes)))
                for r in range(t.rows):
                    value = f.floats(f.splat_at(kind, of_sums[r]), t.real)
                    totals[r, v].set(f.multiply_add(value, factor, totals[r, v]))
        right_scale.add(t.bytes)
        for at in of_sums:
            at.add(4)
    whole = columns.equals(t.columns)
    with f.when(whole):
        for (r, v), total in totals.items():
            with f.when(rows > r):
                f.store(c + c_row * r, total, v * t.bytes)
        f.otherwise()
        for (r, v), total in totals.items():
            f.store(edge, total, (r * 2 + v) * t.bytes)
        with f.count(0, rows) as r, f.count(0, columns) as at:
            value = f.load(t.real, edge + (r * t.columns + at) * 4)
            f.store(c + c_row * r + at * 4, value)
    return f
