"""Products of float32 or float64 matrices in LLVM IR: register tiles over blocks that stay in
cache.

A tile of the result, some rows of two vectors each, lives in registers while k passes. b is packed
into panels as wide as a tile, k after k; a is read where it lies if the elements of its rows follow
each other, else packed into panels as high as a tile. Each result is a sum over k in blocks of
`KC`, one after the other within a block: its bits depend on the shapes alone, not on how many units
a product is cut into.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from pyframe.codegen.lanes.compiler import Memory
from pyframe.codegen.llvm import blas
from pyframe.codegen.llvm.assembler import Assembler, Value, cut, module
from pyframe.codegen.llvm.routines import Launches, Machine, Tile, Words, in_two_dims
from pyframe.codegen.numpy.memory import address

# What is packed at once: columns of b and rows of a, of k so many bytes.
KC, MC, NC = 1024, 64, 512
LEAST = 1 << 18  # multiplications that are worth a unit of their own

# What a launch of products reads: how many units; the memory of units, and its bytes for each; the
# matrices a, b and c; m, n and k; strides in bytes of rows and columns, then of the outer and of
# the inner batch; how many products the inner batch has, and both; how many units share a batch,
# and into how many parts rows and columns are cut.
WORDS = (
    "units memory unit_bytes a b c m n k a_row a_column b_row b_column c_row "
    "a_outer b_outer c_outer a_inner b_inner c_inner inner batch groups row_parts column_parts"
).split()
_ADDRESSES = ("memory", "a", "b", "c")


def matmul(
    m: Machine, inputs: Sequence[np.ndarray], attrs: tuple[Any, ...], out: np.ndarray
) -> Launches | None:
    """Of `matmul`, of matrices of any strides; BLAS's where a tile would be wider or higher than
    the result, or the processor has none."""
    a, b = inputs
    if not a.dtype == b.dtype == out.dtype or not a.shape[-1]:
        return None
    tile = m.tiles.get(out.dtype)
    if tile is not None and min(out.shape[-2:]) >= tile.rows:
        kind, words = "gemm", _words(tile, a, b, out, m.threads)
    else:
        kind, words = "blas", blas.words(m, a, b, out)
    return None if words is None else [(f"{kind}.matmul.{out.dtype.name}", words)]


def _words(t: Tile, a: np.ndarray, b: np.ndarray, c: np.ndarray, threads: int) -> Words | None:
    """Of the product c = a @ b; None where batches have more than two dims in memory."""
    (m, n), k = c.shape[-2:], a.shape[-1]
    found = in_two_dims(a, b, c)
    if found is None:
        return None
    (outer, inner), steps = found
    # as many parts as threads, of an even shape; each packs the columns of b that it reads
    most = threads if outer * inner < 2 * threads else 1
    rows = columns = 1
    while rows * columns < most and outer * inner * m * n * k >= 2 * rows * columns * LEAST:
        if m // rows >= n // columns and m > t.rows * rows:
            rows *= 2
        elif n > t.columns * columns:
            columns *= 2
        else:
            break
    groups = max(1, min(outer * inner, outer * inner * m * n * k // LEAST, 8 * threads))
    units = groups * rows * columns
    nbytes = scratch(t, m, n, k)
    return [
        units, Memory(units * nbytes), nbytes, address(a), address(b), address(c), m, n, k,
        *a.strides[-2:], *b.strides[-2:], c.strides[-2], *steps, inner, outer * inner, groups,
        rows, columns,
    ]  # fmt: skip


def _depth(t: Tile) -> int:
    """Of a block: elements of k."""
    return KC // t.size


def _height(t: Tile) -> int:
    """Of a block of a: whole tiles."""
    return MC // t.rows * t.rows


def scratch(t: Tile, m: int, n: int, k: int) -> int:
    """Bytes of memory that a unit needs."""
    packed = min(-(-n // t.columns) * t.columns, NC) + min(-(-m // t.rows) * t.rows, _height(t))
    return -(-t.size * min(k, _depth(t)) * packed // 64) * 64


def text(m: Machine, name: str, dtype: np.dtype) -> str:
    """The module of the routine."""
    tile = m.tiles[dtype]
    *functions, gemm = build(tile)
    return module([*functions, gemm, _units(tile, gemm)], m.bits)


def build(t: Tile) -> list[Assembler]:
    """The functions of a product, of which the last is it: see `_gemm`."""
    kernel, pack_a, pack_b = _tile(t), _pack_a(t), _pack_b(t)
    return [kernel, pack_a, pack_b, _gemm(t, kernel, pack_a, pack_b)]


def _tile(t: Tile) -> Assembler:
    """c (rows x columns) = or += a (rows x k) times b (k x columns)."""
    f = Assembler("tile", "ptr i64 ptr i64 i64 ptr i64 i64 i64 i1")
    c, c_row, a, a_row, a_step, b, k, rows, columns, adds = f.params
    full = columns.equals(t.columns)
    edge = [f.lanes_below(columns - t.lanes * v, t.lanes) for v in range(2)]
    sums = [[f.local(type=t.vector) for _ in range(2)] for _ in range(t.rows)]
    pointers = [a]
    for r in range(1, t.rows):
        # a row that is missing is another one, whose results are not written
        pointers.append(a + a_row * (rows - 1).min(r))
    places = [[c + c_row * r + t.size * t.lanes * v for v in range(2)] for r in range(t.rows)]
    for pair, row in zip(sums, places, strict=True):
        for total, place in zip(pair, row, strict=True):
            total.set(f.zero(t.vector))
            f.prefetch(place)
    at, here, left = f.local(0), f.local(b), f.local(k)

    def multiply(vectors: int) -> None:
        with f.during(lambda: left > 0):
            right = [
                f.load(t.vector, here + t.size * t.lanes * v, align=t.size * t.lanes)
                for v in range(vectors)
            ]
            for pair, pointer in zip(sums, pointers, strict=True):
                x = f.load(t.real, pointer + at).splat(t.lanes)
                for total, y in zip(pair, right, strict=False):
                    total.set(x.fma(y, total))
            at.add(a_step)
            here.set(here + 2 * t.size * t.lanes)
            left.add(-1)

    with f.when(columns > t.lanes):
        multiply(2)
    multiply(1)  # nothing is left of k, or the second vector has no columns
    for r, (pair, row) in enumerate(zip(sums, places, strict=True)):
        with f.when(rows > r):
            with f.when(full):
                for total, place in zip(pair, row, strict=True):
                    with f.when(adds):
                        total.set(total + f.load(t.vector, place))
                    f.store(place, total)
            with f.when(columns < t.columns):
                for total, place, some in zip(pair, row, edge, strict=True):
                    with f.when(adds):
                        total.set(total + f.load_some(t.vector, place, some, t.size))
                    f.store_some(place, total, some, t.size)
    return f


def _pack_a(t: Tile) -> Assembler:
    """Panels of a's rows, k after k, of an a whose columns' elements follow each other, or don't.
    What a last panel lacks stays as it was: no result of it is written."""
    f = Assembler("pack_a", "ptr ptr i64 i64 i64 i64")
    to, a, m, k, row, column = f.params
    panel = f.value(t.rows * t.size, "i64") * k
    height = f"<{t.rows} x {t.real}>"
    with f.count(0, k) as p:
        into, source = f.local(to + p * (t.rows * t.size)), f.local(a + column * p)
        i = f.local(0)
        with f.when(row.equals(t.size)), f.during(lambda: i < m - (t.rows - 1)):
            f.store(into, f.load(height, source))
            into.set(into + panel)
            source.set(source + t.rows * t.size)
            i.add(t.rows)
        with f.during(lambda: i < m):
            with f.count(0, (m - i).min(t.rows)) as r:
                f.store(into + r * t.size, f.load(t.real, source))
                source.set(source + row)
            into.set(into + panel)
            i.add(t.rows)
    return f


def _pack_b(t: Tile) -> Assembler:
    """Panels of b's columns, k after k; columns that are missing in the last are 0."""
    f = Assembler("pack_b", "ptr ptr i64 i64 i64 i64")
    to, b, n, k, row, column = f.params
    width = t.columns * t.size
    panel = k * width
    whole = n - n % t.columns
    with f.when(column.equals(t.size)), f.count(0, k) as p:
        into, source = f.local(to + p * width), f.local(b + row * p)
        with f.count(0, whole, t.columns):
            for v in range(2):
                part = f.load(t.vector, source + v * t.lanes * t.size)
                f.store(into + v * t.lanes * t.size, part, align=t.lanes * t.size)
            into.set(into + panel)
            source.set(source + width)
    first = f.local(0)  # the k from which on what follows packs
    with f.when(row.equals(t.size)):
        first.set(k - k % t.lanes)
        with f.count(0, whole, t.columns) as j:
            for v in range(2):
                source = f.local(b + column * (j + t.lanes * v))
                into = f.local(to + panel * (j // t.columns) + v * t.lanes * t.size)
                with f.count(0, first, t.lanes):
                    columns = [f.load(t.vector, source + column * x) for x in range(t.lanes)]
                    for x, values in enumerate(_transposed(columns)):
                        f.store(into + x * width, values, align=t.lanes * t.size)
                    source.set(source + t.lanes * t.size)
                    into.set(into + width * t.lanes)
    with f.when(column.equals(t.size)):
        first.set(k)
    # what is left of whole panels, then the last panel
    with f.count(first, k) as p, f.count(0, whole) as j:
        at = to + panel * (j // t.columns) + p * width + j % t.columns * t.size
        f.store(at, f.load(t.real, b + row * p + column * j))
    with f.when(whole < n), f.count(0, k) as p:
        into = f.local(to + panel * (whole // t.columns) + p * width)
        for v in range(2):
            f.store(into + v * t.lanes * t.size, f.zero(t.vector), align=t.lanes * t.size)
        with f.count(whole, n) as j:
            f.store(into, f.load(t.real, b + row * p + column * j))
            into.set(into + t.size)
    return f


def _transposed(rows: list[Value]) -> list[Value]:
    """The columns of as many vectors as each has lanes."""
    lanes, apart = len(rows), 1
    while apart < lanes:
        low = [x if not x & apart else lanes + x - apart for x in range(lanes)]
        high = [x + apart if not x & apart else lanes + x for x in range(lanes)]
        for i in range(lanes):
            if not i & apart:
                a, b = rows[i], rows[i + apart]
                rows[i], rows[i + apart] = a.shuffle(b, low), a.shuffle(b, high)
        apart *= 2
    return rows


def _gemm(t: Tile, kernel: Assembler, pack_a: Assembler, pack_b: Assembler) -> Assembler:
    """c = or, if it adds, += a times b, in blocks; `memory` is a unit's."""
    f = Assembler("gemm", "ptr ptr ptr ptr i64 i64 i64 i64 i64 i64 i64 i64 i1")
    memory, c, a, b, m, n, k, c_row, a_row, a_column, b_row, b_column, more = f.params
    in_place = a_column.equals(t.size)
    with f.count(0, k.where(k > 0, 1), _depth(t)) as p:
        depth = f.local((k - p).min(_depth(t)))
        adds = (p > 0) | more
        with f.count(0, n, NC) as j:
            width = f.local((n - j).min(NC))
            f.call(pack_b, memory, b + b_row * p + b_column * j, width, depth, b_row, b_column)
            panels = f.local(
                memory + depth * ((width + (t.columns - 1)) // t.columns * (t.columns * t.size))
            )
            with f.count(0, m, _height(t)) as i:
                height = f.local((m - i).min(_height(t)))
                source = f.local(a + a_row * i + a_column * p)
                panel, row, step = f.local(a_row * t.rows), f.local(a_row), f.local(a_column)
                with f.when(in_place.equals(0)):
                    f.call(pack_a, panels, source, height, depth, a_row, a_column)
                    source.set(panels)
                    panel.set(depth * (t.rows * t.size))
                    row.set(t.size)
                    step.set(t.rows * t.size)
                with f.count(0, width, t.columns) as jj:
                    columns = f.local((width - jj).min(t.columns))
                    at, right = f.local(source), memory + depth * jj * t.size
                    into = f.local(c + c_row * i + (j + jj) * t.size)
                    with f.count(0, height, t.rows) as ii:
                        f.call(
                            kernel,
                            into,
                            c_row,
                            at,
                            row,
                            step,
                            right,
                            depth,
                            height - ii,
                            columns,
                            adds,
                        )
                        at.set(at + panel)
                        into.set(into + c_row * t.rows)
    return f


def _units(t: Tile, gemm: Assembler) -> Assembler:
    """What is launched."""
    f = Assembler("kernel", "ptr ptr i64 i64", linkage="")
    words, _, begin, end = f.params
    w = f.load_words(words, WORDS, _ADDRESSES)

    with f.count(begin, end) as u:
        part, group = u // w["groups"], u % w["groups"]
        top, bottom = cut(w["m"], part % w["row_parts"], w["row_parts"], t.rows)
        left, right = cut(w["n"], part // w["row_parts"], w["column_parts"], t.columns)
        first, last = cut(w["batch"], group, w["groups"])
        memory = w["memory"] + w["unit_bytes"] * u
        with f.count(first, last) as z:
            inner, outer = z % w["inner"], z // w["inner"]
            a, b, c = (w[x] + w[f"{x}_inner"] * inner + w[f"{x}_outer"] * outer for x in "abc")
            f.call(
                gemm, memory, c + w["c_row"] * top + left * t.size, a + w["a_row"] * top,
                b + w["b_column"] * left, bottom - top, right - left, w["k"], w["c_row"],
                w["a_row"], w["a_column"], w["b_row"], w["b_column"], 0,
            )  # fmt: skip
    return f
