"""Products of float32 or float64 matrices in LLVM IR (codegen/cpu/gemm.py): their tiles, and how
they are shared out."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from pyframe.codegen.cpu import gemm as shared
from pyframe.codegen.cpu.gemm import Tile
from pyframe.codegen.lanes.compiler import ScratchArg
from pyframe.codegen.llvm import blas
from pyframe.codegen.llvm.assembler import LlvmAssembler, cut, launched, module
from pyframe.codegen.llvm.routines import CpuTarget, Launches, Words, in_two_dims
from pyframe.codegen.numpy.memory import address_arg
from pyframe.core.sizes import statically_equal

MIN_UNIT_WORK = 1 << 18  # multiplications that are worth a unit of their own
FEW_ROWS = 4  # rows of a that are multiplied by b as it lies, which is read from memory once
SIDE = 4  # rows of a transposed b that are walked together then

# What a launch of products reads: how many units; the memory of units, and its bytes for each; the
# matrices a, b and c; m, n and k; strides in bytes of rows and columns, then of the outer and of
# the inner batch; how many products the inner batch has, and both; how many units share a batch,
# and into how many parts rows and columns are cut.
WORDS = (
    "units @memory unit_bytes @a @b @c m n k a_row a_column b_row b_column c_row "
    "a_outer b_outer c_outer a_inner b_inner c_inner inner batch groups row_parts column_parts"
)


def matmul(
    m: CpuTarget, inputs: Sequence[np.ndarray], attrs: tuple[Any, ...], out: np.ndarray
) -> Launches | None:
    """Of `matmul`, of matrices of any strides; BLAS's where a tile would be wider than the
    result, where few rows are multiplied by what lies in no pieces, and on ARM, of which BLAS may
    know vectors that LLVM's text does not name."""
    a, b = inputs
    if not a.dtype == b.dtype == out.dtype or not a.shape[-1]:
        return None
    if out.shape[-1] == 1 < out.shape[-2]:  # a matrix times a vector
        a, b, out = (x.swapaxes(-1, -2) for x in (b, a, out))
    tile, (rows, columns) = m.tiles.get(out.dtype) if m.bits > 128 else None, out.shape[-2:]
    kind = "blas.matmul"
    if tile is not None and columns >= tile.rows:
        if rows > FEW_ROWS:
            kind = "gemm.matmul"
        elif all(
            any(statically_equal(s, tile.size) for s in x) for x in (a.strides[-1:], b.strides[-2:])
        ):
            kind = "gemm.few"
    words = (
        _words(tile, a, b, out, m.threads)
        if tile is not None and kind != "blas.matmul"
        else blas.words(m, a, b, out)
    )
    return None if words is None else [(f"{kind}.{out.dtype.name}", words)]


def worth(rows: int) -> int:
    """How many multiplications are worth a unit: fewer where these wait for memory."""
    return MIN_UNIT_WORK if rows > FEW_ROWS else MIN_UNIT_WORK // 8


def _words(t: Tile, a: np.ndarray, b: np.ndarray, c: np.ndarray, threads: int) -> Words | None:
    """Of the product c = a @ b; None where batches have more than two dims in memory."""
    (m, n), k = c.shape[-2:], a.shape[-1]
    found = in_two_dims(a, b, c)
    if found is None:
        return None
    (outer, inner), steps = found
    # as many parts as threads, of an even shape; each packs the columns of b that it reads
    most = threads if outer * inner < 2 * threads else 1
    least = worth(m)
    rows = columns = 1
    while rows * columns < most and outer * inner * m * n * k >= 2 * rows * columns * least:
        if m // rows >= n // columns and m > t.rows * rows:
            rows *= 2
        elif n > t.columns * columns:
            columns *= 2
        else:
            break
    groups = max(1, min(outer * inner, outer * inner * m * n * k // least, 8 * threads))
    units = groups * rows * columns
    nbytes = t.scratch(m, n, k)
    return [
        units, ScratchArg(units * nbytes), nbytes, address_arg(a), address_arg(b), address_arg(c),
        m, n, k,
        *a.strides[-2:], *b.strides[-2:], c.strides[-2], *steps, inner, outer * inner, groups,
        rows, columns,
    ]  # fmt: skip


def text(m: CpuTarget, name: str, dtype: np.dtype) -> str:
    """The module of the routine."""
    tile = m.tiles[dtype]
    functions = build(tile, name == "few")
    return module([*functions, _units(tile, functions[-1])], m.bits)


def build(t: Tile, few: bool = False) -> list[LlvmAssembler]:
    """The functions of a product, of which the last is `shared.gemm`, or the like for few rows."""
    made: list[LlvmAssembler] = []

    def make(name: str, params: str) -> LlvmAssembler:
        made.append(LlvmAssembler(name, params))
        return made[-1]

    if few:
        _few(make, t)
        return made
    tile = tile_of(make, t)
    shared.gemm(make, t, lambda f, *arguments: f.call(tile, *arguments[:-1]))
    return made


def _few(make: Callable[[str, str], LlvmAssembler], t: Tile) -> None:
    """c = a times b for a few rows of a, which stay in cache while b passes by once; an element
    of c is a sum of as many as a vector has lanes, or over k one after the other."""
    functions = [(rows, _dots(make, t, rows), _sums(make, t, rows)) for rows in (4, 2, 1)]
    f = make("few", shared.PARAMS)
    _, c, a, b, m, n, k, c_row, a_row, _, b_row, b_column, _ = f.params
    i = f.local(0)
    for rows, dots, sums in functions:
        with f.during(lambda rows=rows: i <= m - rows):  # type: ignore[misc]
            to, x = c + c_row * i, a + a_row * i
            with f.when(b_row.equals(t.size)):
                f.call(dots, to, c_row, x, a_row, b, b_column, n, k)
                f.otherwise()
                f.call(sums, to, c_row, x, a_row, b, b_row, n, k)
            i.add(rows)


def dots(
    f: LlvmAssembler, t: Tile, rows: Sequence[Any], columns: Sequence[Any], k: Any,
    ahead: Any = None,
) -> list[list[Any]]:  # fmt: skip
    """Of each row and each column, which lie in line, the sums of products in vectors. Columns may
    be too short for the processor to see that it is to fetch what lies so far `ahead` of them."""
    sums = [[f.local(f.value(0, t.vector)) for _ in columns] for _ in rows]
    whole = k - k % t.lanes
    rest = f.lanes_below(k - whole, t.lanes)

    def add(at: Any, read: Callable[[Any], Any]) -> None:
        right = [read(column + at) for column in columns]
        for row, totals in zip(rows, sums, strict=True):
            left = read(row + at)
            for x, total in zip(right, totals, strict=True):
                total.set(left.fma(x, total))

    with f.count(0, whole * t.size, t.bytes) as at:
        for column in columns if ahead is not None else ():
            f.prefetch(column + ahead + at, 0)
        add(at, lambda place: f.load(t.vector, place))
    with f.when(whole < k):
        add(whole * t.size, lambda place: f.load_some(t.vector, place, rest, t.size))
    return sums


def _dots(make: Callable[[str, str], LlvmAssembler], t: Tile, rows: int) -> LlvmAssembler:
    """Of columns of b that are each in one piece."""
    f = make(f"dots{rows}", "ptr word ptr word ptr word word word")
    c, c_row, a, a_row, b, b_column, n, k = f.params
    with f.count(0, n, SIDE) as j:
        sides = [f.local((j + s).min(n - 1)) for s in range(SIDE)]
        columns = [b + b_column * side for side in sides]
        sums = dots(f, t, [a + a_row * r for r in range(rows)], columns, k, b_column * SIDE)
        for r, row in enumerate(sums):
            for side, total in zip(sides, row, strict=True):
                f.store(c + c_row * r + side * t.size, total.now().total())
    return f


def _sums(make: Callable[[str, str], LlvmAssembler], t: Tile, rows: int) -> LlvmAssembler:
    """Of rows of b that are each in one piece."""
    vectors = 8 if rows == 1 else 4
    f = make(f"sums{rows}", "ptr word ptr word ptr word word word")
    c, c_row, a, a_row, b, b_row, n, k = f.params
    totals = [[f.local(type=t.vector) for _ in range(vectors)] for _ in range(rows)]
    xs, right, at = [f.local(a) for _ in range(rows)], f.local(b), f.local(0)

    def columns(count: int, some: Any = None) -> None:
        """So many vectors of columns, of the last one's `some`."""
        places = [v * t.bytes for v in range(count)]
        for r, row in enumerate(totals):
            xs[r].set(a + a_row * r)
            for total in row[:count]:
                total.set(f.value(0, t.vector))
        right.set(b + at * t.size)
        with f.count(0, k):
            loaded = [f.load(t.vector, right, place) for place in places[: count - bool(some)]]
            if some is not None:
                loaded.append(f.load_some(t.vector, right + places[-1], some, t.size))
            for x, row in zip(xs, totals, strict=True):
                value = f.load(t.real, x).splat(t.lanes)
                x.add(t.size)
                for total, y in zip(row, loaded, strict=False):
                    total.set(value.fma(y, total))
            right.add(b_row)
        for r, row in enumerate(totals):
            into = c + c_row * r + at * t.size
            for total, place in zip(row, places, strict=False):
                if some is not None:
                    f.store_some(into + place, total, some, t.size)
                else:
                    f.store(into, total, place)

    for count in (vectors, 1):
        with f.during(lambda count=count: at <= n - count * t.lanes):  # type: ignore[misc]
            columns(count)
            at.add(count * t.lanes)
    with f.when(at < n):
        columns(1, f.lanes_below(n - at, t.lanes))
    return f


def tile_of(
    make: Callable[[str, str], LlvmAssembler], t: Tile, name: str = "tile", fetch: bool = False
) -> LlvmAssembler:
    """c (rows x columns) = or += a (rows x k) times b (k x columns); it may fetch the rows of a
    below, which come from far away where few columns read them."""
    f = make(name, "ptr word ptr word word ptr word word word word bool")
    c, c_row, a, a_row, a_step, b, b_step, k, rows, columns, adds = f.params
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
            total.set(f.value(0, t.vector))
            f.prefetch(place)
    at, here, left = f.local(0), f.local(b), f.local(k)
    below, gone = f.local(a + a_row * t.rows), f.local(0)

    def multiply(vectors: int) -> None:
        with f.during(lambda: left > 0):
            right = [f.load(t.vector, here + t.size * t.lanes * v) for v in range(vectors)]
            for pair, pointer in zip(sums, pointers, strict=True):
                x = f.load(t.real, pointer + at).splat(t.lanes)
                for total, y in zip(pair, right, strict=False):
                    total.set(x.fma(y, total))
            if fetch:  # a part of a row as long as each k's share
                f.prefetch(below, 0)
                gone.add(t.rows * t.size)
                over = gone >= k * t.size
                below.add((a_row - k * t.size).where(over, 0) + t.rows * t.size)
                gone.set(f.value(0, "i64").where(over, gone))
            at.add(a_step)
            here.set(here + b_step)
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


def fetching(t: Tile) -> LlvmAssembler:
    """A tile that fetches the rows of a below it."""
    return tile_of(LlvmAssembler, t, "fetching", fetch=True)


def _units(t: Tile, gemm: LlvmAssembler) -> LlvmAssembler:
    """What is launched."""
    f, w, begin, end = launched(WORDS)

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
