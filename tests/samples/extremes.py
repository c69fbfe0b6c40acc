"""Rows of numbers at the edges: NaN and infinities with one another, far angles, wide quotients.

`pairs` and `rows` compute what is as exact there as anywhere: tests/ops/test_extremes.py calls them
with all pairs of many more numbers, as it does each row that says `edges=True`.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from .row import Row, edges, ints, normal, value

nan, inf = math.nan, math.inf


def pairs(name: str, call: Callable[..., Any], word: str = "edges", **kw: Any) -> Row:
    """call(t, x, y) of all pairs; of several results one after the other."""
    return value(f"{name}:{word}", lambda t, F, x, y: together(t, call(t, x, y)),
                 edges(8, 1), edges(8), edges=True, **kw)  # fmt: skip


def rows(name: str, call: Callable[..., Any], word: str = "edges") -> Row:
    """call(t, x) of rows of two, in all pairs."""
    return value(
        f"{name}:{word}",
        lambda t, F, x, y, *more: together(
            t, call(t, t.stack(t.broadcast_tensors(x, y, *more), -1).reshape(-1, 2 + len(more)))),
        edges(8, 1), edges(8), edges=True,
    )  # fmt: skip


def together(t: Any, found: Any) -> Any:
    return t.stack(t.broadcast_tensors(*found)) if isinstance(found, list) else found


def each(names: str) -> Callable[..., Any]:
    """The functions with these names, of the same operands."""
    return lambda t, *xs: [getattr(t, name)(*xs) for name in names.split()]


def questions(t: Any, x: Any) -> Any:
    """What must hold of NaN."""
    return t.stack([x != x, x != 1, x.isnan(), x.bool(), ~(x == x), ~(x <= x), ~(x < 1), ~(x >= 1)])


def minus(t: Any, x: Any) -> Any:
    """Where the sign is set; NaN may have any."""
    return t.logical_and(t.signbit(x), x == x)


def asked(t: Any, x: Any, y: Any) -> Any:
    """Of numbers, of their sizes, and of what is not so."""
    with_itself = [x == x, x != x, x < x, x <= x, x > x, x >= x]
    with_zero = [x == 0, x != 0, x < 0, x <= 0, x > 0, x >= 0]
    with_nan = [x == nan, x != nan, x < nan, x >= nan]
    denied = [~(x < y), ~(x >= y), ~(x == y), ~(x != y)]
    sizes = [x.abs() >= 0, x * x >= 0, x.exp() >= 0, x.sqrt() >= 0]
    kinds = [x.bool(), t.logical_not(x), x.isnan(), x.isinf(), x.isfinite(), t.isreal(x)]
    signs = [t.isposinf(x), t.isneginf(x), minus(t, x), minus(t, -x), minus(t, x.abs())]
    return [*with_itself, *with_zero, *with_nan, *denied, *sizes, *kinds, *signs]


def near(t: Any, x: Any, y: Any) -> Any:
    return [t.isclose(x, y), t.isclose(x, y, equal_nan=True),
            t.isin(x, t.tensor([nan, inf, 1.0], dtype=x.dtype, device=x.device))]  # fmt: skip


def limited(t: Any, x: Any, y: Any) -> Any:
    F = t.nn.functional
    return [
        x.clamp(-0.5, 0.5), x.clamp(y, t.ones_like(y)), x.clamp(max=nan), t.relu(x), F.relu6(x),
        F.leaky_relu(x, 0.5), F.hardtanh(x), F.hardshrink(x), F.softshrink(x),
        F.threshold(x, 0.5, 9.0), F.hardsigmoid(x),
    ]  # fmt: skip


def chosen(t: Any, x: Any, y: Any) -> Any:
    return [
        t.where(x > y, x, y), t.where(x == x, x, 7.0), x.masked_fill(x != x, 5.0),
        t.nan_to_num(x, 3.0), t.nan_to_num(x, 3.0, 4.0, 5.0), t.heaviside(x, y),
        t.copysign(x, y.nan_to_num(1.0)), t.nextafter(x, y), t.angle(x), t.frac(x), t.sign(x),
        t.sgn(x), t.lerp(x, y, 0.0), t.lerp(x, y, 0.5), t.lerp(x, y, 1.0),
        t.lerp(x, y, t.where(x > y, 0.0, 1.0)),
    ]  # fmt: skip


def computed(t: Any, x: Any, y: Any) -> Any:
    return [x + y, x - y, x * y, x / y, x // y, x - x, x + (-x), x + 1 - x]


def counted(t: Any, x: Any) -> Any:
    return [x.any(1), x.all(1), x.count_nonzero(1), *(x.norm(p, 1) for p in (inf, -inf, 0)),
            *(f(1).isnan() for f in (x.logsumexp, x.nansum))]  # fmt: skip


def largest(t: Any, x: Any) -> Any:
    top, bottom = x.max(1), x.min(1)
    return [x.amax(1), x.amin(1), *x.aminmax(dim=1), x.argmax(1), x.argmin(1), top.values,
            top.indices, bottom.values, bottom.indices, x.max(), x.min()]  # fmt: skip


def scanned(t: Any, x: Any) -> Any:
    some = [*x.cummax(1), *x.cummin(1)]
    return [*some, *(f(1).isnan() for f in (x.softmax, x.cumsum, x.logcumsumexp))]


def ordered(t: Any, x: Any) -> Any:
    down = x.sort(dim=1, descending=True, stable=True).indices
    return [x.sort(1).values, x.argsort(dim=1, stable=True), down]


def picked(t: Any, x: Any) -> Any:
    k = x.shape[1]
    return [
        x.topk(k, 1).values[:, -1], x.topk(k, 1, largest=False).values[:, -1],
        x.kthvalue(k, 1).values, x.median(1).values, x.nanmedian(1).values, x.median(),
        x.nanmedian(), x[:, :1].scatter_reduce(1, x.argmax(1, True) * 0, x, "amax")[:, 0],
    ]  # fmt: skip


def placed(t: Any, x: Any) -> Any:
    places = t.tensor([-inf, -1.0, 0.0, 1.0]).to(x), t.tensor([-1.0, 0.0, 1.0, inf]).to(x)
    return [t.searchsorted(places[0], x), t.bucketize(x, places[1], right=True)]


ROWS: tuple[Row, ...] = (
    pairs("eq", each("eq ne lt le gt ge logical_and logical_or logical_xor")),
    pairs("isnan", asked), pairs("isfinite", near),
    pairs("maximum", each("maximum minimum fmax fmin")),
    pairs("clamp", limited), pairs("where", chosen), pairs("sub", computed),
    pairs("cast", lambda t, x, y: [(x + 0 * y).bool(), (x - y).bool()]),
    rows("amax", largest), rows("any", counted), rows("cummax", scanned), rows("sort_key", ordered),
    rows("kth_index", picked), rows("searchsorted", placed),
    rows("max_pool", lambda t, x: t.nn.functional.max_pool1d(x[None], 2, 1)),
    # NaN that a kernel makes itself
    value("div:nan", lambda t, F, x: questions(t, (x - x) / (x - x)), normal(4)),
    value("log:nan", lambda t, F, x: questions(t, t.log(-x.abs() - 1)), normal(4)),
    value("sqrt:nan", lambda t, F, x: questions(t, t.sqrt(-x.abs() - 1)), normal(4)),
    # far from 0, and near 1
    value("sin:far", lambda t, F, x: t.sin(x * 1e9)),
    value("cos:far", lambda t, F, x: t.cos(x * 1e30)),
    value("tan:far", lambda t, F, x: t.tan(x * 1e5)),
    value("fmod:far", lambda t, F, x: t.fmod(x * 1e4, 0.1)),
    value("remainder:far", lambda t, F, x: x * 1e4 % 0.7),
    value("floor_divide:far", lambda t, F, x: x * 10 // 0.1),
    Row("exp:far", lambda t, F, x: t.exp(x * 40) / t.exp(x * 39), tol=3),
    value("log:near", lambda t, F, x: t.log(1 + x / 2**15) * 2**15),
    value("pow:near", lambda t, F, x: (1 + x / 2**15) ** 2**15, tol=3),
    # ints near their ends
    value("floor_divide:low", lambda t, F, x, y: (x.int() - (2**31 - 9)) // y.int(), ints(0, 8, 30),
        ints(1, 9, 30)),
    value("cast:low", lambda t, F, x: (x.float() * 37).to(t.uint8), ints(-30, 30, 30)),
)  # fmt: skip
