"""Products of float32 matrices in WebAssembly (codegen/cpu/gemm.py): their tiles.

A tile of 6 x 8 results lives in 12 vectors, which with two of b and one of a is what 16 registers
hold. A single row or column reads the other matrix once, and has functions of its own.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from pyframe.codegen.cpu import gemm as shared
from pyframe.codegen.cpu.assembler import F32, Operand
from pyframe.codegen.cpu.routines import SCRATCH, TABLES, Addr, KernelInvocation, LibraryCall
from pyframe.codegen.wasm.assembler import F32X4, WasmAssembler, WasmValue, as_value
from pyframe.codegen.wasm.encoder import WasmModule

ROWS, COLUMNS = 6, 8  # of a tile
KC = 384  # elements of k of a block: a panel of b lies in the L1 cache
# `memory` is a tile through which the edge of a matrix is written.
TILE = shared.Tile(F32, 4, ROWS, 4 * KC, 96, 1024, memory=4 * ROWS * COLUMNS)


def matmul(
    inputs: Sequence[np.ndarray], attrs: tuple[Any, ...], out: np.ndarray
) -> LibraryCall | None:
    """The routine of `matmul`: float32 operands of any strides."""
    if any(x.dtype != np.float32 for x in (*inputs, out)):
        return None
    a, b = (np.broadcast_to(x, (*out.shape[:-2], *x.shape[-2:])) for x in inputs)
    (m, n), k = out.shape[-2:], a.shape[-1]
    once = math.prod(out.shape[:-2]) == 1
    if once and m == 1 and a.strides[-1] == 4 and (found := _vector(Addr(0), Addr(1), b)):
        return found
    if (
        once
        and n == 1
        and b.strides[-2] == 4
        and (found := _vector(Addr(1), Addr(0), a.swapaxes(-1, -2)))
    ):
        return found
    arguments = (Addr(SCRATCH), Addr(2), Addr(0), Addr(1),
    m, n, k, out.strides[-2], *a.strides[-2:],
                 *b.strides[-2:], 0)  # fmt: skip
    memory = TILE.scratch(m, n, k)
    if once:
        return LibraryCall((KernelInvocation("gemm", arguments),), memory)
    table = np.stack([_offsets(a), _offsets(b)], 1).astype(np.int32)
    batched = KernelInvocation("batched_gemm", (*arguments, len(table), 4 * m * n, Addr(TABLES)))
    return LibraryCall((batched,), memory, table)


def _vector(vector: Addr, matrix: Addr, x: np.ndarray) -> LibraryCall | None:
    """A row that lies in line times a matrix x, if rows of this or columns do."""
    (k, n), (row, column) = x.shape[-2:], x.strides[-2:]
    if n < 4 or 4 not in (row, column):
        return None
    name, step = ("times_columns", row) if column == 4 else ("times_rows", column)
    return LibraryCall((KernelInvocation(name, (Addr(2), vector, matrix, step, n, k)),))


def _offsets(x: np.ndarray) -> np.ndarray:
    """Where each matrix of a batch begins, in bytes."""
    at = np.zeros(x.shape[:-2], np.int64)
    for d, (size, stride) in enumerate(zip(at.shape, x.strides, strict=False)):
        at += (np.arange(size) * stride).reshape([-1 if e == d else 1 for e in range(at.ndim)])
    return at.reshape(-1)


def build(module: WasmModule, relaxed: bool) -> None:
    """Add the functions to a module; `relaxed`: they multiply and add in one instruction."""
    kernels = [
        _kernel(module, rows, in_line, relaxed)
        for in_line in (True, False)
        for rows in range(1, ROWS + 1)
    ]
    for kernel in kernels:
        module.table_slot(kernel.function.index)
    gemm = shared.gemm(functools.partial(_made, module), TILE, write_tile)
    _batched(module, gemm)
    _times_columns(module, relaxed)
    _times_rows(module, relaxed)


def tiles(f: WasmAssembler, *arguments: Operand) -> None:
    """The code of all tiles of a block: see `shared.tiles`."""
    shared.tiles(f, TILE, write_tile, *arguments)


def _made(module: WasmModule, name: str, params: str) -> WasmAssembler:
    return WasmAssembler(module, name, params, export=name == "gemm")


def _multiply_add(x: WasmValue, y: WasmValue, total: WasmValue, relaxed: bool) -> WasmValue:
    return x.op("relaxed_madd", y, total) if relaxed else total + x * y


_KERNEL = "i32 i32 i32 i32 i32 i32 i32 i32"


def _kernel(module: WasmModule, rows: int, in_line: bool, relaxed: bool) -> WasmAssembler:
    """A tile: c (rows x 8) = or += a (rows x k) times b (k x 8). With `in_line` the elements of a
    row of a follow each other and rows are `step` apart, else those of a column."""
    f = WasmAssembler(module, f"tile_{rows}_{'rows' if in_line else 'columns'}", _KERNEL)
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


def write_tile(
    f: WasmAssembler, c: WasmValue, c_row: WasmValue, a: WasmValue, a_row: WasmValue,
    a_step: WasmValue, b: WasmValue,
    b_step: WasmValue, k: WasmValue, rows: WasmValue, columns: WasmValue, adds: WasmValue,
    memory: WasmValue,
) -> None:  # fmt: skip
    """A call of the kernel for so many rows; fewer columns are written through a tile in memory."""
    kernel, step = f.module.type(_KERNEL), a_step.where(a_step.differs(4), a_row)
    some = f.local(rows.min(ROWS))
    slot = some - 1 + a_step.differs(4) * ROWS
    with f.when(columns.equals(COLUMNS)):
        f.call_slot(kernel, slot, c, c_row, a, step, b, b_step, k, adds)
        f.otherwise()
        f.call_slot(kernel, slot, memory, 4 * COLUMNS, a, step, b, b_step, k, 0)
        to, end = f.local(c), f.local(memory + some * (4 * COLUMNS))
        with f.count(memory, end, 4 * COLUMNS) as source:
            with f.count(0, columns * 4, 4) as x:
                value = f.load(F32, source + x)
                with f.when(adds):
                    f.store(to + x, f.load(F32, to + x) + value)
                    f.otherwise()
                    f.store(to + x, value)
            to.add(c_row)


def _batched(module: WasmModule, gemm: WasmAssembler) -> WasmAssembler:
    """`gemm` of many: their results follow each other, where operands lie stands in a table."""
    f = WasmAssembler(module, "batched_gemm", "i32 " * 16, export=True)
    memory, c, a, b, *rest, times, size, table = f.params
    with f.count(0, times):
        left, right = f.load("i32", table), f.load("i32", table, 4)
        f.call(gemm, memory, c, a + left, b + right, *rest)
        c.add(size)
        table.add(8)
    return f


_WIDE = 8  # vectors of columns that are added up side by side


def _times_columns(module: WasmModule, relaxed: bool) -> None:
    """c (n) = v (k) times a matrix whose rows lie in line, `step` bytes apart."""
    f = WasmAssembler(module, "times_columns", "i32 " * 6, export=True)
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


def _times_rows(module: WasmModule, relaxed: bool) -> None:
    """c (n) = v (k) times a matrix whose columns lie in line, `step` bytes apart: four at a time;
    the last four of n may be some of those before too."""
    f = WasmAssembler(module, "times_rows", "i32 " * 6, export=True)
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
            a, b_, d, e = f.transposed(sums)
            result.set(result + ((a + b_) + (d + e)))
        with f.during(lambda: i < k * 4):
            x.set(f.load(F32X4, rows[0] + i, how="v128.load32_zero"))
            for lane, row in enumerate(rows[1:], 1):
                x.set(f.load_lane(x, row + i, lane))
            result.set(result + x * f.load(F32X4, v + i, how="v128.load32_splat"))
            i.add(4)
        f.store(c + j * 4, result)
        j.add(4)
