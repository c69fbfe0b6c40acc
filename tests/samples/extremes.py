"""Rows of numbers at the edges: NaN and infinities with one another, far angles, wide quotients.

More of them, and of all ops, are in tests/ops/test_extremes.py; these run in a page as well.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from .row import Row, edges, ints, normal


def pairs(name: str, call: Callable[..., Any]) -> Row:
    """call(t, x, y) of all pairs."""
    return Row(f"{name}:edges", lambda t, F, x, y: call(t, x, y), (edges(8, 1), edges(8)),
               grad=False)  # fmt: skip


def rows(name: str, call: Callable[..., Any]) -> Row:
    """call(t, x) of rows of two, in all pairs."""
    return Row(
        f"{name}:edges",
        lambda t, F, x, y: call(t, t.stack(t.broadcast_tensors(x, y), -1).reshape(64, 2)),
        (edges(8, 1), edges(8)), grad=False,
    )  # fmt: skip


def questions(t: Any, x: Any) -> Any:
    """What must hold of NaN."""
    return t.stack([x != x, x != 1, x.isnan(), x.bool(), ~(x == x), ~(x <= x), ~(x < 1), ~(x >= 1)])


ROWS: tuple[Row, ...] = (
    *[pairs(name, lambda t, x, y, name=name: getattr(t, name)(x, y)) for name in
      "eq ne lt le gt ge logical_and logical_or logical_xor maximum minimum fmax fmin".split()],
    pairs("where", lambda t, x, y: t.where(x > y, x, y)),
    pairs("sub", lambda t, x, y: t.stack([x - y, x - x + y, x + 1 - x + y])),
    pairs("cast", lambda t, x, y: t.stack([(x + 0 * y).bool(), (x - y).bool()])),
    pairs("relu", lambda t, x, y: t.relu(x) + t.clamp(y, -1, 1)),
    *[rows(name, lambda t, x, name=name: getattr(t, name)(x, 1)) for name in
      "amax amin argmax argmin any count_nonzero".split()],
    rows("sort_key", lambda t, x: x.sort(dim=1, stable=True).indices),
    # NaN that a kernel makes itself
    Row("div:nan", lambda t, F, x: questions(t, (x - x) / (x - x)), (normal(4),), grad=False),
    Row("log:nan", lambda t, F, x: questions(t, t.log(-x.abs() - 1)), (normal(4),), grad=False),
    Row("sqrt:nan", lambda t, F, x: questions(t, t.sqrt(-x.abs() - 1)), (normal(4),), grad=False),
    # far from 0, and near 1
    Row("sin:far", lambda t, F, x: t.sin(x * 1e9), (normal(4, 5),), grad=False),
    Row("cos:far", lambda t, F, x: t.cos(x * 1e30), (normal(4, 5),), grad=False),
    Row("tan:far", lambda t, F, x: t.tan(x * 1e5), (normal(4, 5),), grad=False),
    Row("fmod:far", lambda t, F, x: t.fmod(x * 1e4, 0.1), (normal(4, 5),), grad=False),
    Row("remainder:far", lambda t, F, x: x * 1e4 % 0.7, (normal(4, 5),), grad=False),
    Row("floor_divide:far", lambda t, F, x: x * 10 // 0.1, (normal(4, 5),), grad=False),
    Row("exp:far", lambda t, F, x: t.exp(x * 40) / t.exp(x * 39), (normal(4, 5),), tol=3),
    Row("log:near", lambda t, F, x: t.log(1 + x / 2**15) * 2**15, (normal(4, 5),), grad=False),
    Row("pow:near", lambda t, F, x: (1 + x / 2**15) ** 2**15, (normal(4, 5),), grad=False, tol=3),
    # ints near their ends
    Row("floor_divide:low", lambda t, F, x, y: (x.int() - (2**31 - 9)) // y.int(),
        (ints(0, 8, 30), ints(1, 9, 30)), grad=False),
    Row("cast:low", lambda t, F, x: (x.float() * 37).to(t.uint8), (ints(-30, 30, 30),),
        grad=False),
)  # fmt: skip
