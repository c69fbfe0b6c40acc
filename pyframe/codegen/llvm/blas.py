"""Products of matrices by BLAS in LLVM IR: a function that calls it for each unit.

BLAS's address is in the words of a launch. Each unit is one product of a batch, or some of its rows
or columns.
"""

from __future__ import annotations

import numpy as np

from pyframe.codegen.llvm.routines import Machine, Words, in_two_dims
from pyframe.codegen.numpy.memory import address

# Multiplications from which a product is cut into 2 parts, 4, 8, … Each part packs what it reads.
PARTS = (1 << 20, 1 << 28, 1 << 31, 1 << 34)
LONG = 1 << 12  # elements of two vectors whose product NumPy adds in more parts than BLAS's gemm

# Words of a product: how many units; BLAS's function; the matrices a, b and out; m, n, k; whether a
# and b are transposed, and the elements from row to row of each and of out; how many products the
# inner batch has, and the elements from one to the next of each, outer and inner; into how many
# parts the rows and the columns of a product are cut.
PRODUCT = (
    "units blas a b out m n k a_trans b_trans a_row b_row out_row inner a_outer b_outer out_outer "
    "a_inner b_inner out_inner row_parts column_parts"
).split()


def words(machine: Machine, a: np.ndarray, b: np.ndarray, out: np.ndarray) -> Words | None:
    """Of the product out = a @ b; None where BLAS can't take the matrices as they lie."""
    (m, n), k, size = out.shape[-2:], a.shape[-1], out.itemsize
    found = machine.blas.get(out.dtype)
    if found is None or (m == n == 1 and k > LONG):
        return None
    layouts = [_rows_of(x, size) for x in (a, b, out)]
    batch = in_two_dims(a, b, out)
    if None in layouts or batch is None or layouts[2][0]:  # type: ignore[index]
        return None
    (a_trans, a_row), (b_trans, b_row), (_, out_row) = layouts  # type: ignore[misc]
    rows = columns = 1
    for least in PARTS:
        if m * n * k < least:
            break
        rows, columns = (2 * rows, columns) if m // rows >= n // columns else (rows, 2 * columns)
    (outer, inner), steps = batch
    steps = [s // size for s in steps]
    return [
        outer * inner * rows * columns, found.address, address(a), address(b), address(out),
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


def text(machine: Machine, name: str, dtype: np.dtype) -> str:
    """The module of the routine."""
    _, real, int_bits = machine.blas[dtype]
    size = 4 if real == "float" else 8
    lines: list[str] = []
    for n, name in enumerate(PRODUCT):
        kind = "ptr" if name in ("blas", "a", "b", "out") else "i64"
        lines += [f"%{name}.at = getelementptr i64, ptr %words, i64 {n}",
                  f"%{name} = load {kind}, ptr %{name}.at"]  # fmt: skip
    lines += [
        "%a.is = trunc i64 %a_trans to i1", "%b.is = trunc i64 %b_trans to i1",
        "%a.step = select i1 %a.is, i64 1, i64 %a_row",
        "%b.step = select i1 %b.is, i64 %b_row, i64 1",
        "%a.order = select i1 %a.is, i32 112, i32 111",
        "%b.order = select i1 %b.is, i32 112, i32 111",
        "%parts = mul i64 %row_parts, %column_parts", "%any = icmp slt i64 %begin, %end",
        "br i1 %any, label %unit, label %done", "unit:",
        "%u = phi i64 [ %begin, %entry ], [ %next, %unit ]",
        "%part = urem i64 %u, %parts", "%batch = udiv i64 %u, %parts",
        "%bi = urem i64 %batch, %inner", "%bo = udiv i64 %batch, %inner",
        "%row = urem i64 %part, %row_parts", "%column = udiv i64 %part, %row_parts",
    ]  # fmt: skip
    for cut, count, part in (("m", "row_parts", "row"), ("n", "column_parts", "column")):
        lines += [
            f"%{cut}.next = add i64 %{part}, 1",
            f"%{cut}.lo0 = mul i64 %{cut}, %{part}", f"%{cut}.lo = udiv i64 %{cut}.lo0, %{count}",
            f"%{cut}.hi0 = mul i64 %{cut}, %{cut}.next",
            f"%{cut}.hi = udiv i64 %{cut}.hi0, %{count}",
            f"%{cut}.now = sub i64 %{cut}.hi, %{cut}.lo",
        ]  # fmt: skip
    lines += [
        "%a.cut = mul i64 %m.lo, %a.step", "%b.cut = mul i64 %n.lo, %b.step",
        "%out.row = mul i64 %m.lo, %out_row", "%out.cut = add i64 %out.row, %n.lo",
    ]  # fmt: skip
    for x in ("a", "b", "out"):
        lines += [
            f"%{x}.o = mul i64 %bo, %{x}_outer", f"%{x}.i = mul i64 %bi, %{x}_inner",
            f"%{x}.oi = add i64 %{x}.o, %{x}.i", f"%{x}.off = add i64 %{x}.oi, %{x}.cut",
            f"%{x}.bytes = mul i64 %{x}.off, {size}",
            f"%{x}.now = getelementptr i8, ptr %{x}, i64 %{x}.bytes",
        ]  # fmt: skip
    sizes = ["m.now", "n.now", "k", "a_row", "b_row", "out_row"]
    if int_bits < 64:
        lines += [f"%{x}.s = trunc i64 %{x} to i{int_bits}" for x in sizes]
        sizes = [f"{x}.s" for x in sizes]
    mnk = ", ".join(f"i{int_bits} %{x}" for x in sizes[:3])
    a_row, b_row, out_row = (f"i{int_bits} %{x}" for x in sizes[3:])
    matrices = f"ptr %a.now, {a_row}, ptr %b.now, {b_row}, {real} 0.0, ptr %out.now, {out_row}"
    lines += [
        f"call void %blas(i32 101, i32 %a.order, i32 %b.order, {mnk}, {real} 1.0, {matrices})",
        "%next = add i64 %u, 1", "%on = icmp slt i64 %next, %end",
        "br i1 %on, label %unit, label %done", "done:", "ret void",
    ]  # fmt: skip
    head = "define void @kernel(ptr %words, ptr %params, i64 %begin, i64 %end) #0 {"
    return "\n".join([head, "entry:", *lines, "}", "attributes #0 = { nounwind }", ""])
