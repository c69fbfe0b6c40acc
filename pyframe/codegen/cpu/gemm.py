"""Products of matrices: register tiles over blocks that stay in cache.

A tile of the result, some rows of two vectors each, lives in registers while k passes: what
computes it is each encoding's own. b is packed into panels as wide as a tile, k after k, unless few
rows of a read it; a is read where it lies if the elements of its rows follow each other, else
packed into panels as high as a tile. Each result is a sum over k in blocks, one after the other
within a block: its bits depend on the shapes alone, not on how many units a product is cut into.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

from pyframe.codegen.cpu.assembler import F32

Make = Callable[[str, str], Any]  # a new function of a name and types of params

# of `gemm`: memory, c, a, b, m, n, k, strides of c, and of rows and columns of a and b, whether it
# adds
PARAMS = "ptr ptr ptr ptr word word word word word word word word bool"
MIN_ROWS_TO_PACK_B = 32  # rows of a that are too few for packing a b that lies well

# Writes the code of one tile, of a function's values: c, its stride of rows; a, its strides of rows
# and of k; b, its stride of k; k; how many rows and columns are left, of which it takes what it
# has; whether it adds to c; memory for it.
WriteTile = Callable[..., None]


class Tile(NamedTuple):
    """How a processor multiplies: tiles of `rows` rows of two vectors, and the blocks that are
    packed at once."""

    real: str  # F32 or F64
    lanes: int
    rows: int
    k_bytes: int = 1024  # of a block's columns of a
    most_rows: int = 64  # of a block of a
    width: int = 512  # columns of a block of b
    memory: int = 0  # bytes that a tile needs beside registers

    @property
    def size(self) -> int:
        """Bytes of an element."""
        return 4 if self.real == F32 else 8

    @property
    def vector(self) -> str:
        """The type of a vector."""
        return f"{self.real}x{self.lanes}"

    @property
    def bytes(self) -> int:
        """Of a vector."""
        return self.size * self.lanes

    @property
    def columns(self) -> int:
        """Of a tile, in two vectors."""
        return 2 * self.lanes

    @property
    def depth(self) -> int:
        """Of a block: elements of k."""
        return self.k_bytes // self.size

    @property
    def height(self) -> int:
        """Of a block of a: whole tiles."""
        return self.most_rows // self.rows * self.rows

    def scratch(self, m: int, n: int, k: int) -> int:
        """Bytes of memory that a product needs."""
        packed = min(-(-n // self.columns) * self.columns, self.width)
        packed += min(-(-m // self.rows) * self.rows, self.height)
        return self.memory + -(-self.size * min(k, self.depth) * packed // 64) * 64


def pack_a(make: Make, t: Tile) -> Any:
    """Panels of a's rows, k after k, of an a whose columns' elements follow each other, or don't.
    What a last panel lacks stays as it was: no result of it is written."""
    f = make("pack_a", "ptr ptr word word word word")
    to, a, m, k, row, column = f.params
    panel = f.local(k * (t.rows * t.size))
    with f.count(0, k) as p:
        into, source = f.local(to + p * (t.rows * t.size)), f.local(a + column * p)
        i = f.local(0)
        with f.when(row.equals(t.size)), f.during(lambda: i < m - (t.rows - 1)):
            f.move(into, source, t.real, t.rows)
            into.add(panel)
            source.add(t.rows * t.size)
            i.add(t.rows)
        with f.during(lambda: i < m):
            with f.count(0, (m - i).min(t.rows)) as r:
                f.store(into + r * t.size, f.load(t.real, source))
                source.add(row)
            into.add(panel)
            i.add(t.rows)
    return f


def pack_b(make: Make, t: Tile) -> Any:
    """Panels of b's columns, k after k; columns that are missing in the last are 0."""
    f = make("pack_b", "ptr ptr word word word word")
    to, b, n, k, row, column = f.params
    width, zero = t.columns * t.size, f.value(0, t.vector)
    panel, whole = f.local(k * width), f.local(n - n % t.columns)
    with f.when(column.equals(t.size)):
        into = f.local(to)
        with f.count(0, whole, t.columns) as j:
            source = f.local(b + j * t.size)
            with f.count(0, k):
                for at in (0, t.bytes):
                    f.store(into, f.load(t.vector, source, at), at, align=t.bytes)
                into.add(width)
                source.add(row)
    first = f.local(0)  # the k from which on what follows packs
    with f.when(row.equals(t.size)):
        first.set(k - k % t.lanes)
        with f.count(0, whole, t.columns) as j:
            source, into = f.local(b + column * j), f.local(to + panel * (j // t.columns))
            with f.count(0, first, t.lanes):
                here = f.local(source)
                for v in range(2):
                    columns = []
                    for _ in range(t.lanes):
                        columns.append(f.local(f.load(t.vector, here)))
                        here.add(column)
                    for x, values in enumerate(f.transposed(columns)):
                        f.store(into, values, x * width + v * t.bytes, align=t.bytes)
                source.add(t.bytes)
                into.add(width * t.lanes)
    with f.when(column.equals(t.size)):
        first.set(k)
    # what is left of whole panels, then the last panel
    with f.count(first, k) as p, f.count(0, whole) as j:
        at = to + panel * (j // t.columns) + p * width + j % t.columns * t.size
        f.store(at, f.load(t.real, b + row * p + column * j))
    with f.when(whole < n), f.count(0, k) as p:
        into = f.local(to + panel * (whole // t.columns) + p * width)
        for at in (0, t.bytes):
            f.store(into, zero, at, align=t.bytes)
        with f.count(whole, n) as j:
            f.store(into, f.load(t.real, b + row * p + column * j))
            into.add(t.size)
    return f


def tiles(
    f: Any, t: Tile, tile: WriteTile, c: Any, c_row: Any, a: Any, a_panel: Any, a_row: Any,
    a_step: Any, b: Any, b_panel: Any, b_step: Any, m: Any, n: Any, k: Any, adds: Any, memory: Any,
) -> None:  # fmt: skip
    """All tiles of a block; a panel of b stays in cache while those of a pass by."""
    right, a_row, a_step = f.local(b), f.local(a_row), f.local(a_step)
    with f.count(0, n, t.columns) as j:
        columns = f.local((n - j).min(t.columns))
        at, into = f.local(a), f.local(c + j * t.size)
        with f.count(0, m, t.rows) as i:
            tile(f, into, c_row, at, a_row, a_step, right, b_step, k, m - i, columns, adds, memory)
            at.add(a_panel)
            into.add(c_row * t.rows)
        right.add(b_panel)


def gemm(make: Make, t: Tile, tile: WriteTile) -> Any:
    """c = or, if it adds, += a times b, in blocks; it needs as much memory as `scratch` says."""
    pack_rows, pack_columns = pack_a(make, t), pack_b(make, t)
    f = make("gemm", PARAMS)
    memory, c, a, b, m, n, k, c_row, a_row, a_column, b_row, b_column, more = f.params
    packed = f.local(memory + t.memory)
    right, b_panel, b_step = f.local(b), f.local(0), f.local(t.columns * t.size)
    with f.count(0, k.where(k > 0, 1), t.depth) as p:
        depth = f.local((k - p).min(t.depth))
        with f.count(0, n, t.width) as j:
            width = f.local((n - j).min(t.width))
            panels = f.local(
                packed + depth * ((width + (t.columns - 1)) // t.columns * (t.columns * t.size))
            )
            right.set(b + b_row * p + b_column * j)
            worth = (m > MIN_ROWS_TO_PACK_B) | b_column.differs(t.size) | (n % t.columns).differs(0)
            b_panel.set(t.columns * t.size)
            b_step.set(b_row)
            with f.when(worth):
                f.call(pack_columns, packed, right, width, depth, b_row, b_column)
                right.set(packed)
                b_panel.set(depth * (t.columns * t.size))
                b_step.set(t.columns * t.size)
            with f.count(0, m, t.height) as i:
                height = f.local((m - i).min(t.height))
                source = f.local(a + a_row * i + a_column * p)
                panel, row, step = f.local(a_row * t.rows), f.local(a_row), f.local(a_column)
                with f.when(a_column.differs(t.size)):
                    f.call(pack_rows, panels, source, height, depth, a_row, a_column)
                    source.set(panels)
                    panel.set(depth * (t.rows * t.size))
                    row.set(t.size)
                    step.set(t.rows * t.size)
                tiles(
                    f, t, tile, c + c_row * i + j * t.size, c_row, source, panel, row, step,
                    right, b_panel, b_step, height, width, depth, (p > 0) | more, memory,
                )  # fmt: skip
    return f
