"""Products of float32 or float64 matrices in LLVM IR (codegen/cpu/gemm.py): their tiles, and how
they are shared out."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from pyframe.codegen.cpu import gemm as shared
from pyframe.codegen.cpu.gemm import Tile
from pyframe.codegen.lanes.compiler import Memory
from pyframe.codegen.llvm import blas
from pyframe.codegen.llvm.assembler import Assembler, cut, launched, module
from pyframe.codegen.llvm.routines import Launches, Machine, Words, in_two_dims
from pyframe.codegen.numpy.memory import address

LEAST = 1 << 18  # multiplications that are worth a unit of their own

# What a launch of products reads: how many units; the memory of units, and its bytes for each; the
# matrices a, b and c; m, n and k; strides in bytes of rows and columns, then of the outer and of
# the inner batch; how many products the inner batch has, and both; how many units share a batch,
# and into how many parts rows and columns are cut.
WORDS = (
    "units @memory unit_bytes @a @b @c m n k a_row a_column b_row b_column c_row "
    "a_outer b_outer c_outer a_inner b_inner c_inner inner batch groups row_parts column_parts"
)


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
    nbytes = t.scratch(m, n, k)
    return [
        units, Memory(units * nbytes), nbytes, address(a), address(b), address(c), m, n, k,
        *a.strides[-2:], *b.strides[-2:], c.strides[-2], *steps, inner, outer * inner, groups,
        rows, columns,
    ]  # fmt: skip


def text(m: Machine, name: str, dtype: np.dtype) -> str:
    """The module of the routine."""
    tile = m.tiles[dtype]
    *functions, gemm = build(tile)
    return module([*functions, gemm, _units(tile, gemm)], m.bits)


def build(t: Tile) -> list[Assembler]:
    """The functions of a product, of which the last is `shared.gemm`."""
    made: list[Assembler] = []

    def make(name: str, params: str) -> Assembler:
        made.append(Assembler(name, params))
        return made[-1]

    tile = tile_of(make, t)
    shared.gemm(make, t, lambda f, *arguments: f.call(tile, *arguments[:-1]))
    return made


def tile_of(
    make: Callable[[str, str], Assembler], t: Tile, name: str = "tile", fetch: bool = False
) -> Assembler:
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


def fetching(t: Tile) -> Assembler:
    """A tile that fetches the rows of a below it."""
    return tile_of(Assembler, t, "fetching", fetch=True)


def _units(t: Tile, gemm: Assembler) -> Assembler:
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
