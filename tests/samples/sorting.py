"""Rows of sorting, scans, reductions and masked."""

from __future__ import annotations

import math

from .row import Row, bools, distinct, given, indices, ints, normal, positive, value

ALONG = ((normal(2, 9, 3),), ())  # of a scan's kernel


def on(t, x, *values):
    """The vector of some numbers where x lives."""
    return t.tensor(values).to(x.device, x.dtype)


ROWS: tuple[Row, ...] = (
    # sorting
    Row("reorder", lambda t, F, x: x.sort(1).values * 2, (distinct(3, 257),), second=False),
    Row("reorder:outer", lambda t, F, x: t.sort(x, 0, True).values.exp(), (distinct(5, 3),)),
    value("reorder:half", lambda t, F, x: x.half().msort().float(), ints(-40, 40, 5, 3)),
    value("argsort", lambda t, F, x: t.argsort(x, stable=True), ints(0, 9, 2, 3, 50)),
    value("argsort:down", lambda t, F, x: x.argsort(dim=0, descending=True, stable=True),
        ints(0, 5, 255, 2, dtype="uint8")),
    value("argsort:bool", lambda t, F, x: t.argsort(x, stable=True), bools(40)),
    Row("kth_index", lambda t, F, x: t.kthvalue(x, 20, 0).values, (distinct(40, 3),)),
    value("sort_key", lambda t, F, x: t.argsort(t.log(x).floor() * 0.0, stable=True),
        normal(4, 60)),
    value("sort_runs", lambda t, F, x: x.sort(stable=True, descending=True).indices,
        ints(0, 300, 2, 1025), kernel=((indices(5, 3, 8),), ())),
    value("sort_runs:whole", lambda t, F, x: x.sort(stable=True).indices, ints(0, 99, 2048)),
    *[value(f"sort_runs:{n}", lambda t, F, x: x.sort(stable=True).indices, ints(-20, 20, 2, n))
      for n in (0, 1, 257, 2049)],
    value("merge_runs", lambda t, F, x: x.sort(stable=True).indices, ints(0, 999, 2, 5000),
        kernel=((given([[0, 2, 4, 7, 1, 2, 2, 9], [3, 3, 8, 8, 0, 5, 6, 8]]),
                             given([[*range(8)]] * 2)), ())),
    Row("topk", lambda t, F, x: x.topk(3, 1).values, (distinct(4, 9),)),
    value("topk:of_many", lambda t, F, x: x.topk(5, 1).indices, distinct(2, 3001)),
    value("topk:many", lambda t, F, x: x.topk(900, 1).indices, distinct(2, 3001)),
    value("topk:least", lambda t, F, x: x.topk(2, 0, largest=False).indices, distinct(7, 3)),
    Row("kthvalue", lambda t, F, x: x.kthvalue(2, 1).values, (distinct(4, 5),)),
    value("kthvalue:index", lambda t, F, x: t.kthvalue(x, 3, 0, True).indices, distinct(4, 5)),
    Row("median", lambda t, F, x: x.median(1).values * x.median(), (distinct(4, 6),)),
    value("median:nan", lambda t, F, x: t.median(x.log(), 1).indices, normal(3, 4)),
    value("nanmedian", lambda t, F, x: x.log().nanmedian(1, keepdim=True).values, normal(4, 9)),
    value("mode", lambda t, F, x: x.mode(1).values, ints(0, 4, 5, 30)),
    Row("quantile", lambda t, F, x: t.quantile(x, on(t, x, 0.1, 0.5, 0.8), 1), (distinct(4, 7),)),
    Row("quantile:midpoint", lambda t, F, x: x.quantile(0.3, interpolation="midpoint"),
        (distinct(4, 7),)),
    value("quantile:nan", lambda t, F, x: x.log().quantile(0.4, 0), normal(3, 30)),
    value("unique", lambda t, F, x: t.unique(x, return_inverse=True)[1], ints(0, 5, 4, 9)),
    value("unique:rows", lambda t, F, x: x.unique(dim=0), ints(0, 2, 9, 3)),
    value("unique_consecutive", lambda t, F, x: t.unique_consecutive(x, return_counts=True)[1],
        ints(0, 2, 20)),
    value("searchsorted", lambda t, F, s, x: t.searchsorted(s.msort(), x), normal(256),
        normal(2, 5), kernel=((given([[0, 1, 4, 4], [2, 3, 3, 8]]), indices(9, 2, 5)), ())),
    value("searchsorted:right", lambda t, F, s, x: t.searchsorted(s.sort(1).values, x, right=True),
        ints(0, 20, 3, 33), ints(-1, 22, 3, 40)),
    value("bucketize", lambda t, F, s, x: t.bucketize(x, s.msort(), out_int32=True), normal(6),
        normal(4, 5)),
    value("isin", lambda t, F, x, y: t.isin(x, y), ints(0, 9, 4, 5), ints(0, 9, 3)),
    value("bincount", lambda t, F, x: t.bincount(x, minlength=9), ints(0, 6, 300)),
    value("histc", lambda t, F, x: t.histc(x, 5, -1, 1), normal(300)),
    value("histogram", lambda t, F, x: t.cat(t.histogram(x, 7)), normal(60)),
    # scans
    Row("cumsum", lambda t, F, x: x.cumsum(1), (normal(3, 4, 2),), kernel=ALONG),
    Row("cumsum:long", lambda t, F, x: t.cumsum(x * 0.1, 0), (normal(1025, 2),), second=False,
        tol=30),
    *[value(f"cumsum:{n}", lambda t, F, x: x.cumsum(1), ints(-9, 9, 2, n, dtype="int32"))
      for n in (0, 1, 255, 256, 257, 3000)],
    Row("cumprod", lambda t, F, x: x.cumprod(0), (normal(5, 3),), kernel=ALONG),
    Row("cumprod:zeros", lambda t, F, x, z: (x * z).cumprod(1), (positive(6, 5), ints(0, 3, 6, 5))),
    Row("cumprod:long", lambda t, F, x: (1 + x * 0.01).cumprod(1), (normal(2, 1500),),
        second=False, tol=30),
    Row("cummax", lambda t, F, x: x.cummax(1).values, (distinct(4, 9),), kernel=ALONG),
    value("cummax:index", lambda t, F, x: t.cummax(x.log().floor(), 0).indices, positive(300, 2)),
    Row("cummin", lambda t, F, x: x.cummin(0)[0], (distinct(9, 4),)),
    value("cummin:nan", lambda t, F, x: x.log().cummin(1).indices, normal(4, 9)),
    Row("logcumsumexp", lambda t, F, x: t.logcumsumexp(x * 3, 1), (normal(3, 9),), tol=5,
        kernel=ALONG),
    Row("diff", lambda t, F, x, y: t.diff(x, 2, 1, append=y), (normal(3, 6), normal(3, 1))),
    Row("trapezoid", lambda t, F, y, x: t.trapezoid(y, x), (normal(3, 6), normal(6))),
    Row("cumulative_trapezoid", lambda t, F, y: t.cumulative_trapezoid(y, dx=0.5, dim=0),
        (normal(5, 3),)),
    value("trapezoid:int8", lambda t, F, y: t.trapezoid(F.pad(y, (1, 1))),
        ints(70, 127, 3, 6, dtype="int8")),
    Row("gradient", lambda t, F, x: t.gradient(x, spacing=0.5, dim=1, edge_order=2)[0],
        (normal(3, 5),)),
    # reductions
    value("sum:nansum", lambda t, F, x: t.nansum(x.log(), 1)),
    value("mean:nanmean", lambda t, F, x: x.log().nanmean(0), normal(9, 3)),
    value("sum:count_nonzero", lambda t, F, x: t.count_nonzero(x, 0), bools(4, 5)),
    Row("amax:aminmax", lambda t, F, x: x.aminmax(dim=1).min * t.aminmax(x).max, (distinct(4, 5),)),
    value("any:uint8", lambda t, F, x: x.any((0, 2)), ints(0, 2, 2, 3, 2, dtype="uint8")),
    Row("var:var_mean", lambda t, F, x: t.add(*t.var_mean(x, (0, 1), correction=2)),
        (normal(4, 5, 2),)),
    Row("std:std_mean", lambda t, F, x: t.mul(*t.std_mean(x, 0, keepdim=True))),
    Row("std:zero", lambda t, F, x: (x * 0).std(1), (normal(2, 3),), second=False),
    *[Row(f"norm:{p}", lambda t, F, x, p=p: t.norm(x, p, 1),
          (distinct(4, 5) if p == math.inf else normal(4, 5),), grad=p > 0,
          second=p > 2) for p in (0, 0.5, 1, 1.5, 3, math.inf)],
    Row("norm:zero", lambda t, F, x: t.norm(x * 0, 3) + t.norm(x * 0), (normal(2, 3),),
        second=False),
    Row("matmul:cov_weights", lambda t, F, x, f: t.cov(x, fweights=f, aweights=on(t, x, 0.5, 1, 2)),
        (normal(4, 3), ints(1, 4, 3))),
    *[Row(f"norm:except_{d}", lambda t, F, x, d=d: t.norm_except_dim(x, 2, d), (normal(3, 4, 2),))
      for d in (-1, 1)],
    *[Row(f"reduce_along:segment_{n}_{i}", lambda t, F, x, n=n, i=i: t.segment_reduce(
          x, n, lengths=t.tensor([2, 1, 3], device=x.device), initial=i), (distinct(6, 2),),
          second=False)
      for n, i in (("sum", 0.1), ("mean", None), ("prod", 0.1), ("max", None), ("min", 0.1))],
    Row("reduce_along:segment_offsets", lambda t, F, x: t.segment_reduce(x, "sum", axis=1,
        offsets=t.tensor([[0, 1, 5], [0, 0, 5]], device=x.device)), (normal(2, 5, 3),)),
    # masked: the first of what reduces, and of what keeps the shape
    Row("sum:masked", lambda t, F, x, m: t.masked.amax(x, 1, mask=m) + t.masked.mean(x, 1, mask=m),
        (distinct(5, 6), bools(5, 6)), second=False),
    Row("cumsum:masked", lambda t, F, x, m: t.where(m, t.masked.softmax(x, 1, mask=m), 0.0),
        (normal(5, 6), bools(5, 6)), second=False),
    value("argmax:masked", lambda t, F, x, m: t.masked.median(x, 1, mask=m), distinct(5, 6),
        bools(5, 6)),
)  # fmt: skip

REFUSED = r"""
t.ones(2, 3).sort(2) -> Dimension out of range
t.ones(2).sort(True) -> stable=
t.ones(2, dtype=t.complex64).max() -> has no order
t.ones(3).topk(4) -> out of range: k=4 of 3
t.ones(0).kthvalue(1) -> non-zero size
t.ones(0, 2).mode(0) -> non-zero size
t.ones(0).max() -> non-zero size
t.max(2, t.ones(2)) -> must be Tensor, not int
t.ones(2).quantile(1.5) -> \[0, 1\] but got 1.5
t.ones(2).quantile(0.5, interpolation="cubic") -> cubic
t.ones(2).half().quantile(0.5) -> float or double
t.bincount(t.tensor([-1])) -> non-negative
t.histc(t.ones(2), 0) -> bins must be > 0
t.histc(t.ones(2), 3, 2, 1) -> larger than min
t.histogram(t.tensor([INF]), 3) -> not finite
t.searchsorted(t.ones(2, 3), t.ones(3, 2)) -> must match
t.searchsorted(t.ones(2), 1.0, side="left", right=True) -> opposites
t.isin(1, 2) -> Tensor
t.unique(t.zeros(2, 0), dim=0) -> 0 sized
t.ones(2).cumsum(1.0) -> 'dim' must be int
t.ones(2).int().logcumsumexp(0) -> use .float
t.tensor(1.0).diff() -> at least one-dimensional
t.ones(2, 2).diff(prepend=t.ones(1)) -> expects prepend
t.trapezoid(t.ones(3), t.ones(2)) -> one `x` value
t.ones(2, 2).sum((0, 0)) -> multiple times
t.ones(2, 2).prod((0, 1)) -> must be int
t.ones(2).norm("max") -> 'max'
t.ones(0).norm(INF) -> non-zero size
t.ones(2, 2).renorm(-1, 0, 1) -> positive
t.masked.mean(t.ones(2).int()) -> int32
C < C -> complex64
C.ceil() -> complex64
"""
