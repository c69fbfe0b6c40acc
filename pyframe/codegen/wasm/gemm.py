"""Products of float32 matrices in WebAssembly: register tiles over blocks that stay in cache.

A tile of 6 x 8 results lives in 12 vectors, which with two of b and one of a is what 16 registers
hold. Blocks of a and b are packed into panels (6 rows of a, 8 columns of b, k after k) where that
pays: an operand that is used by few tiles, and whose rows or columns lie in line, is read in place.
Each result is a sum over k in blocks of at most `KC`, one after the other within a block: its bits
depend on the shapes alone. A single row or column reads the other matrix once, and has functions of
its own.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from pyframe.codegen.cpu.routines import SCRATCH, TABLES, At, Call, Routine
from pyframe.codegen.wasm.assembler import (
    F32,
    F32X4,
    Assembler,
    Value,
    Variable,
    as_value,
    transposed,
)
from pyframe.codegen.wasm.encoder import Module

ROWS, COLUMNS = 6, 8  # of a tile
TILE = 4 * ROWS * COLUMNS  # bytes of the tile through which the edge of a matrix is written
KC, MC, NC = 384, 96, 1024  # what is packed at once: a's MC x KC lies in L2, b's KC x 8 in L1
_FEW = 24  # rows (of columns) that are too few for packing b (a), which lies well


class Gemm(NamedTuple):
    """Functions of a module for other routines. Strides are bytes."""

    # c, its stride of rows; a, its stride of panels, its step, whether its rows' elements follow
    # each other (then the step is that of rows, else that of k, and rows follow); b, its stride of
    # panels and of k; m, n, k; whether it adds to c; memory for a tile
    block: Assembler
    pack_a: Assembler  # panels, a, m, k, strides of rows and of k
    pack_b: Assembler  # panels, b, n, k, strides of k and of columns
    gemm: Assembler  # c, a, b, m, n, k, strides of c (rows), a and b (rows, columns), scratch


def scratch(m: int, n: int, k: int) -> int:
    """Bytes that `gemm` needs."""
    a = min(-(-m // ROWS) * ROWS, MC) * min(k, KC)
    b = min(-(-n // COLUMNS) * COLUMNS, NC) * min(k, KC)
    return TILE + 4 * (a + b)


def matmul(inputs: Sequence[np.ndarray], attrs: tuple[Any, ...], out: np.ndarray) -> Routine | None:
    """The routine of `matmul`: float32 operands of any strides."""
    if any(x.dtype != np.float32 for x in (*inputs, out)):
        return None
    a, b = (np.broadcast_to(x, (*out.shape[:-2], *x.shape[-2:])) for x in inputs)
    (m, n), k = out.shape[-2:], a.shape[-1]
    once = math.prod(out.shape[:-2]) == 1
    if once and m == 1 and a.strides[-1] == 4 and (found := _vector(At(0), At(1), b)):
        return found
    if (
        once
        and n == 1
        and b.strides[-2] == 4
        and (found := _vector(At(1), At(0), a.swapaxes(-1, -2)))
    ):
        return found
    arguments = (At(2), At(0), At(1), m, n, k, out.strides[-2], *a.strides[-2:], *b.strides[-2:],
                 At(SCRATCH))  # fmt: skip
    memory = scratch(m, n, k)
    if once:
        return Routine((Call("gemm", arguments),), memory)
    table = np.stack([_offsets(a), _offsets(b)], 1).astype(np.int32)
    batched = Call("batched_gemm", (*arguments, len(table), 4 * m * n, At(TABLES)))
    return Routine((batched,), memory, table)


def _vector(vector: At, matrix: At, x: np.ndarray) -> Routine | None:
    """A row that lies in line times a matrix x, if rows of this or columns do."""
    (k, n), (row, column) = x.shape[-2:], x.strides[-2:]
    if n >= 4 and column == 4:
        return Routine((Call("times_columns", (At(2), vector, matrix, row, n, k)),))
    if n >= 4 and row == 4:
        return Routine((Call("times_rows", (At(2), vector, matrix, column, n, k)),))
    return None


def _offsets(x: np.ndarray) -> np.ndarray:
    """Where each matrix of a batch begins, in bytes."""
    at = np.zeros(x.shape[:-2], np.int64)
    for d, (size, stride) in enumerate(zip(at.shape, x.strides, strict=False)):
        at += (np.arange(size) * stride).reshape([-1 if e == d else 1 for e in range(at.ndim)])
    return at.reshape(-1)


def build(module: Module, relaxed: bool) -> Gemm:
    """The functions in a module; `relaxed`: they multiply and add in one instruction."""
    kernels = [_kernel(module, rows, True, relaxed) for rows in range(1, ROWS + 1)]
    kernels += [_kernel(module, rows, False, relaxed) for rows in range(1, ROWS + 1)]
    for kernel in kernels:
        module.table_slot(kernel.function.index)
    block = _block(module)
    pack_a, pack_b = _pack_a(module), _pack_b(module)
    gemm = _gemm(module, block, pack_a, pack_b)
    _batched(module, gemm)
    _times_columns(module, relaxed)
    _times_rows(module, relaxed)
    return Gemm(block, pack_a, pack_b, gemm)


def _multiply_add(x: Value, y: Value, total: Value, relaxed: bool) -> Value:
    return x.op("relaxed_madd", y, total) if relaxed else total + x * y


_KERNEL = "i32 i32 i32 i32 i32 i32 i32 i32"


def _kernel(module: Module, rows: int, in_line: bool, relaxed: bool) -> Assembler:
    """A tile: c (rows x 8) = or += a (rows x k) times b (k x 8). With `in_line` the elements of a
    row of a follow each other and rows are `step` apart, else those of a column."""
    f = Assembler(module, f"tile_{rows}_{'rows' if in_line else 'columns'}", _KERNEL)
    c, stride, a, step, b, b_step, k, adds = f.params
    zero = [f.local(type=F32X4) for _ in range(2 * rows)]
    sums = [zero[2 * r : 2 * r + 2] for r in range(rows)]
    left, right, x = f.local(type=F32X4), f.local(type=F32X4), f.local(type=F32X4)
    of_row = [a]
    for _ in range(rows - 1 if in_line else 0):
        of_row.append(f.local(of_row[-1] + step))
    row = f.local()
    with f.when(adds):
        row.set(c)
        for pair in sums:
            for j, value in enumerate(pair):
                value.set(f.load(F32X4, row, 16 * j))
            row.add(stride)

    def multiply(at: int) -> None:
        left.set(f.load(F32X4, b))
        right.set(f.load(F32X4, b, 16))
        b.add(b_step)
        for r, pair in enumerate(sums):
            place, offset = (of_row[r], 4 * at) if in_line else (a, 4 * r)
            x.set(f.load(F32X4, place, offset, "v128.load32_splat"))
            for total, y in zip(pair, (left, right), strict=True):
                total.set(_multiply_add(x, y, total, relaxed))
        if not in_line:
            a.add(step)

    def advance(by: int) -> None:
        for pointer in of_row if in_line else ():
            pointer.add(4 * by)
        k.add(-by)

    with f.during(lambda: k >= 4):
        for at in range(4):
            multiply(at)
        advance(4)
    with f.during(lambda: k > 0):
        multiply(0)
        advance(1)
    row.set(c)
    for pair in sums:
        for j, value in enumerate(pair):
            f.store(row, value, 16 * j)
        row.add(stride)
    return f


def _block(module: Module) -> Assembler:
    """All tiles of a block; a panel of b stays in L1 while those of a pass by."""
    f = Assembler(module, "block", "i32 " * 14)
    c, stride, a, a_panel, step, in_line, b, b_panel, b_step, m, n, k, adds, tile = f.params
    kernel = module.type(_KERNEL)
    with f.count(0, n, COLUMNS) as j:
        at, panel = f.local(c + j * 4), f.local(a)
        columns = f.local((n - j).min(COLUMNS))
        with f.count(0, m, ROWS) as i:
            rows = f.local((m - i).min(ROWS))
            slot = rows - 1 + in_line.op("eqz") * ROWS
            with f.when(columns.equals(COLUMNS)):
                f.call_slot(kernel, slot, at, stride, panel, step, b, b_step, k, adds)
                f.otherwise()
                f.call_slot(kernel, slot, tile, 4 * COLUMNS, panel, step, b, b_step, k, 0)
                to, end = f.local(at), f.local(tile + rows * (4 * COLUMNS))
                with f.count(tile, end, 4 * COLUMNS) as source:
                    with f.count(0, columns * 4, 4) as x:
                        value = f.load(F32, source + x)
                        with f.when(adds):
                            f.store(to + x, f.load(F32, to + x) + value)
                            f.otherwise()
                            f.store(to + x, value)
                    to.add(stride)
            at.add(stride * ROWS)
            panel.add(a_panel)
        b.add(b_panel)
    return f


def _pack_a(module: Module) -> Assembler:
    """Panels of 6 rows, k after k; the last has as many rows as are left, in the same places."""
    f = Assembler(module, "pack_a", "i32 " * 6)
    to, a, m, k, row, column = f.params
    vectors = [f.local(type=F32X4) for _ in range(ROWS)]
    with f.count(0, m, ROWS) as i:
        rows = f.local((m - i).min(ROWS))
        done, at = f.local(0), f.local(a)
        with f.when(rows.equals(ROWS) & row.equals(4)):
            with f.during(lambda: done < k):
                f.store(to, f.load(F32X4, at))
                f.store(to, f.load("i64", at, 16), 16)
                _next(done, at, column, to)
            f.otherwise()
            with f.when(rows.equals(ROWS) & column.equals(4)):
                pointers = [at, *[f.local(at + row * r) for r in range(1, ROWS)]]
                with f.during(lambda: done + 4 <= k):
                    for vector, pointer in zip(vectors, pointers, strict=True):
                        vector.set(f.load(F32X4, pointer))
                        pointer.add(16)
                    for x, value in enumerate(transposed(vectors[:4])):
                        f.store(to, value, 24 * x)
                    e, g = vectors[4:]
                    for x in range(4):
                        pair = e.shuffle(g, x, 4 + x, x, 4 + x)
                        f.store_half(to, pair, 0, 24 * x + 16)
                    done.add(4)
                    to.add(4 * 24)
        with f.during(lambda: done < k):
            for r in range(ROWS):
                with f.when(rows > r):
                    f.store(to, f.load(F32, at + row * r), 4 * r)
            _next(done, at, column, to)
        a.add(row * ROWS)
    return f


def _next(done: Variable, at: Variable, column: Value, to: Variable) -> None:
    done.add(1)
    at.add(column)
    to.add(4 * ROWS)


def _pack_b(module: Module) -> Assembler:
    """Panels of 8 columns, k after k; columns that are missing in the last are 0."""
    f = Assembler(module, "pack_b", "i32 " * 6)
    to, b, n, k, row, column = f.params
    vectors = [f.local(type=F32X4) for _ in range(4)]
    with f.count(0, n, COLUMNS) as j:
        columns = f.local((n - j).min(COLUMNS))
        done, at = f.local(0), f.local(b)
        with f.when(columns.equals(COLUMNS) & column.equals(4)):
            with f.during(lambda: done < k):
                f.store(to, f.load(F32X4, at))
                f.store(to, f.load(F32X4, at, 16), 16)
                done.add(1)
                at.add(row)
                to.add(4 * COLUMNS)
            f.otherwise()
            with f.when(columns.equals(COLUMNS) & row.equals(4)):
                pointers = [at, *[f.local(at + column * x) for x in range(1, COLUMNS)]]
                with f.during(lambda: done + 4 <= k):
                    for half in range(2):
                        for vector, pointer in zip(
                            vectors, pointers[4 * half : 4 * half + 4], strict=True
                        ):
                            vector.set(f.load(F32X4, pointer))
                            pointer.add(16)
                        for x, value in enumerate(transposed(vectors)):
                            f.store(to, value, 4 * COLUMNS * x + 16 * half)
                    done.add(4)
                    to.add(4 * 4 * COLUMNS)
        with f.during(lambda: done < k):
            for x in range(COLUMNS):
                with f.when(columns > x):
                    f.store(to, f.load(F32, at + column * x), 4 * x)
                    f.otherwise()
                    f.store(to, as_value(0.0, F32), 4 * x)
            done.add(1)
            at.add(row)
            to.add(4 * COLUMNS)
        b.add(column * COLUMNS)
    return f


def _gemm(module: Module, block: Assembler, pack_a: Assembler, pack_b: Assembler) -> Assembler:
    f = Assembler(module, "gemm", "i32 " * 12, export=True)
    c, a, b, m, n, k, c_row, a_row, a_column, b_row, b_column, tile = f.params
    size = f.local((k + KC - 1) // KC)
    size.set((k + size - 1) // size.where(size > 0, 1))
    in_line = f.local(a_column.equals(4))
    packs_a = f.local(n.op("gt", _FEW) | (in_line | a_row.equals(4)).op("eqz"))
    packs_b = f.local((m > _FEW) | b_column.differs(4) | (n % COLUMNS).differs(0))
    a_panels, b_panels = f.local(), f.local(tile + TILE)
    a_panels.set(b_panels + (n + COLUMNS - 1).min(NC) // COLUMNS * (4 * COLUMNS) * size)
    source, panel, step = f.local(), f.local(a_row * ROWS), f.local(a_column)
    with f.when(in_line):
        step.set(a_row)
    with f.when(packs_a):
        step.set(4 * ROWS)
        in_line.set(0)
    columns, b_panel, b_step = f.local(), f.local(4 * COLUMNS), f.local(b_row)
    with f.count(0, k.where(k > 0, 1), size.where(size > 0, 1)) as p:
        depth = f.local((k - p).min(size))
        with f.count(0, n, NC) as j:
            width = f.local((n - j).min(NC))
            columns.set(b + p * b_row + j * b_column)
            with f.when(packs_b):
                f.call(pack_b.function, b_panels, columns, width, depth, b_row, b_column)
                columns.set(b_panels)
                b_panel.set(depth * (4 * COLUMNS))
                b_step.set(4 * COLUMNS)
            with f.count(0, m, MC) as i:
                height = f.local((m - i).min(MC))
                source.set(a + i * a_row + p * a_column)
                with f.when(packs_a):
                    f.call(pack_a.function, a_panels, source, height, depth, a_row, a_column)
                    source.set(a_panels)
                    panel.set(depth * (4 * ROWS))
                f.call(
                    block.function, c + i * c_row + j * 4, c_row, source, panel, step, in_line,
                    columns, b_panel, b_step, height, width, depth, p > 0, tile,
                )  # fmt: skip
    return f


def _batched(module: Module, gemm: Assembler) -> Assembler:
    """`gemm` of many: their results follow each other, where operands lie stands in a table."""
    f = Assembler(module, "batched_gemm", "i32 " * 15, export=True)
    c, a, b, *rest, times, size, table = f.params
    with f.count(0, times):
        left, right = f.load("i32", table), f.load("i32", table, 4)
        f.call(gemm.function, c, a + left, b + right, *rest)
        c.add(size)
        table.add(8)
    return f


_WIDE = 8  # vectors of columns that are added up side by side


def _times_columns(module: Module, relaxed: bool) -> None:
    """c (n) = v (k) times a matrix whose rows lie in line, `step` bytes apart."""
    f = Assembler(module, "times_columns", "i32 " * 6, export=True)
    c, v, b, step, n, k = f.params
    sums, x, at = [f.local(type=F32X4) for _ in range(_WIDE)], f.local(type=F32X4), f.local()
    end = f.local()
    with f.count(0, k.where(k > 0, 1), KC) as p:
        end.set(v + (k - p).min(KC) * 4)
        j = f.local(0)
        for vectors in (_WIDE, 1):
            with f.during(functools.partial((n - j).op, "ge", 4 * vectors)):
                into = f.local(c + j * 4)
                for i, total in enumerate(sums[:vectors]):
                    total.set(f.load(F32X4, into, 16 * i))
                    with f.when(p.equals(0)):
                        total.set(as_value(0.0, F32X4))
                at.set(b + j * 4)
                with f.count(v, end, 4) as place:
                    x.set(f.load(F32X4, place, how="v128.load32_splat"))
                    for i, total in enumerate(sums[:vectors]):
                        total.set(_multiply_add(x, f.load(F32X4, at, 16 * i), total, relaxed))
                    at.add(step)
                for i, total in enumerate(sums[:vectors]):
                    f.store(into, total, 16 * i)
                j.add(4 * vectors)
        with f.during(lambda: j < n):
            total, into = f.local(as_value(0.0, F32), F32), f.local(c + j * 4)
            with f.when(p > 0):
                total.set(f.load(F32, into))
            at.set(b + j * 4)
            with f.count(v, end, 4) as place:
                total.set(total + f.load(F32, place) * f.load(F32, at))
                at.add(step)
            f.store(into, total)
            j.add(1)
        b.add(step * KC)
        v.add(4 * KC)


def _times_rows(module: Module, relaxed: bool) -> None:
    """c (n) = v (k) times a matrix whose columns lie in line, `step` bytes apart: four at a time;
    the last four of n may be some of those before too."""
    f = Assembler(module, "times_rows", "i32 " * 6, export=True)
    c, v, b, step, n, k = f.params
    sums, x, whole = [f.local(type=F32X4) for _ in range(4)], f.local(type=F32X4), f.local()
    result, i, j = f.local(type=F32X4), f.local(), f.local(0)
    with f.during(lambda: j < n):
        with f.when(j > n - 4):
            j.set(n - 4)
        rows = [f.local(b + j * step)]
        for _ in range(3):
            rows.append(f.local(rows[-1] + step))
        result.set(as_value(0.0, F32X4))
        i.set(0)
        with f.during(lambda: i < (k & -4) * 4):
            for total in sums:
                total.set(as_value(0.0, F32X4))
            whole.set(i + 16 * KC)
            whole.set(whole.min((k & -4) * 4))
            with f.during(lambda: i < whole):
                x.set(f.load(F32X4, v + i))
                for row, total in zip(rows, sums, strict=True):
                    total.set(_multiply_add(x, f.load(F32X4, row + i), total, relaxed))
                i.add(16)
            a, b_, d, e = transposed(sums)
            result.set(result + ((a + b_) + (d + e)))
        with f.during(lambda: i < k * 4):
            x.set(f.load(F32X4, rows[0] + i, how="v128.load32_zero"))
            for lane, row in enumerate(rows[1:], 1):
                x.set(f.load_lane(x, row + i, lane))
            result.set(result + x * f.load(F32X4, v + i, how="v128.load32_splat"))
            i.add(4)
        f.store(c + j * 4, result)
        j.add(4)
