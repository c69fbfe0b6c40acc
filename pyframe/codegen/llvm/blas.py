"""Products of matrices by BLAS in LLVM IR: a function that calls it for each unit.

BLAS's address is in the words of a launch. Each unit is one product of a batch, or some of its rows
or columns.
"""

from __future__ import annotations

import numpy as np

from pyframe.codegen.llvm.assembler import cut, launched, module
from pyframe.codegen.llvm.routines import CpuTarget, Words, in_two_dims
from pyframe.codegen.numpy.memory import address_arg

# Multiplications from which a product is cut into 2 parts, 4, 8, … Each part packs what it reads.
DOT_CHUNKS = (1 << 20, 1 << 28, 1 << 31, 1 << 34)
# Elements of two vectors whose product NumPy adds in more parts than BLAS's gemm
LONG_DOT = 1 << 12

# Words of a product: how many units; BLAS's function; the matrices a, b and out; m, n, k; whether a
# and b are transposed, and the elements from row to row of each and of out; how many products the
# inner batch has, and the elements from one to the next of each, outer and inner; into how many
# parts the rows and the columns of a product are cut.
PRODUCT = (
    "units @blas @a @b @out m n k a_trans b_trans a_row b_row out_row inner a_outer b_outer "
    "out_outer a_inner b_inner out_inner row_parts column_parts"
)


def words(machine: CpuTarget, a: np.ndarray, b: np.ndarray, out: np.ndarray) -> Words | None:
    """Of the product out = a @ b; None where BLAS can't take the matrices as they lie."""
    (m, n), k, size = out.shape[-2:], a.shape[-1], out.itemsize
    found = machine.blas.get(out.dtype)
    if found is None or (m == n == 1 and k > LONG_DOT):
        return None
    layouts = [_rows_of(x, size) for x in (a, b, out)]
    batch = in_two_dims(a, b, out)
    if None in layouts or batch is None or layouts[2][0]:  # type: ignore[index]
        return None
    (a_trans, a_row), (b_trans, b_row), (_, out_row) = layouts  # type: ignore[misc]
    rows = columns = 1
    for least in DOT_CHUNKS:
        if m * n * k < least:
            break
        rows, columns = (2 * rows, columns) if m // rows >= n // columns else (rows, 2 * columns)
    (outer, inner), steps = batch
    steps = [s // size for s in steps]
    return [
        outer * inner * rows * columns, found.address, address_arg(a), address_arg(b),
        address_arg(out),
        m, n, k, a_trans, b_trans, a_row, b_row, out_row, inner, *steps, rows, columns,
    ]  # fmt: skip


def _rows_of(x: np.ndarray, size: int) -> tuple[int, int] | None:
    """(whether a matrix is transposed in memory, the elements from row to row there)."""
    (m, n), (row, column) = x.shape[-2:], x.strides[-2:]
    if row % size or column % size:
        return None
    row, column = row // size, column // size
    if (column == 1 or n == 1) and (row >= n or m == 1):
        return 0, max(row, n)
    if (row == 1 or m == 1) and (column >= m or n == 1):
        return 1, max(column, m)
    return None


def text(machine: CpuTarget, name: str, dtype: np.dtype) -> str:
    """The module of the routine."""
    _, real, bits = machine.blas[dtype]
    size = 4 if real == "float" else 8
    f, w, begin, end = launched(PRODUCT)
    turned = {x: w[f"{x}_trans"].differs(0) for x in "ab"}
    orders = [f.value(112, "i32").where(turned[x], 111).name for x in "ab"]
    with f.count(begin, end) as u:
        part, batch = (u.op(op, w["row_parts"] * w["column_parts"]) for op in ("rem", "div"))
        top, bottom = cut(w["m"], part % w["row_parts"], w["row_parts"])
        left, right = cut(w["n"], part // w["row_parts"], w["column_parts"])
        starts = {
            "a": top * f.value(1, "i64").where(turned["a"], w["a_row"]),
            "b": left * w["b_row"].where(turned["b"], 1),
            "out": top * w["out_row"] + left,
        }
        for x, start in starts.items():
            outer, inner = batch // w["inner"], batch % w["inner"]
            start = start + outer * w[f"{x}_outer"] + inner * w[f"{x}_inner"]
            starts[x] = w[x] + start * size
        sizes = [bottom - top, right - left, w["k"], w["a_row"], w["b_row"], w["out_row"]]
        m, n, k, *rows = [f"i{bits} {x.cast(f'i{bits}').name}" for x in sizes]
        a, b, out = [f"ptr {starts[x].name}, {row}" for x, row in zip(starts, rows, strict=True)]
        f.line(
            f"call void {w['blas'].name}(i32 101, i32 {orders[0]}, i32 {orders[1]}, {m}, {n}, {k}, "
            f"{real} 1.0, {a}, {b}, {real} 0.0, {out})"
        )
    return module([f], machine.bits)
