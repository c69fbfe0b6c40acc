"""Sorting, scans, reductions and masked: special values, results in form, and what is refused."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import pyframe as pf

NAN = math.nan


def on(device: str, data: Any, dtype: Any = None) -> pf.Tensor:
    return pf.tensor(data, dtype=dtype).to(device)


def same(x: pf.Tensor, want: Any) -> None:
    np.testing.assert_array_equal(x.detach().cpu().numpy(), np.asarray(want))


def test_nan_is_largest_and_zeros_are_equal(device: str) -> None:
    x = on(device, [0.0, NAN, -0.0, -math.inf, math.inf, NAN])
    same(x.argsort(stable=True), [3, 0, 2, 4, 1, 5])
    same(x.argsort(descending=True, stable=True), [1, 5, 4, 0, 2, 3])
    same(x.topk(2).values, [NAN, NAN])
    same(x.topk(2, largest=False).indices, [3, 0])
    same(x.median(), NAN)
    same(x.nanmedian(), 0.0)
    same(pf.nanquantile(on(device, [NAN, 1.0, 3.0]), 0.5), 2.0)
    same(pf.quantile(on(device, [[NAN, 1.0], [1.0, 3.0]]), 0.5, 1), [NAN, 2.0])


@pytest.mark.parametrize("n", [0, 1, 2, 255, 256, 257, 1025, 2049])
def test_rows_of_any_length(device: str, n: int) -> None:
    rng = np.random.default_rng(n)
    x = rng.integers(-20, 20, (2, n)).astype(np.int32)
    t = on(device, x)
    values, indices = t.sort(stable=True)
    order = np.argsort(x, axis=1, kind="stable")
    same(indices, order)
    same(values, np.take_along_axis(x, order, 1))
    same(t.cumsum(1), np.cumsum(x, 1))
    if n:
        best = t.cummax(1)
        same(best.values, np.maximum.accumulate(x, 1))
        same(best.values, t.gather(1, best.indices).cpu().numpy())


def test_median_shares_its_gradient(device: str) -> None:
    x = on(device, [2.0, 1.0, 2.0, 5.0]).requires_grad_()
    x.median().backward()
    same(x.grad, [0.5, 0, 0.5, 0])


def test_norms_at_zero_have_gradient_zero(device: str) -> None:
    for p in (1, 2, 3, 0.5, math.inf):
        x = pf.zeros(3, device=device, requires_grad=True)
        pf.norm(x, p).backward()
        same(x.grad, [0, 0, 0])
    x = pf.ones(3, device=device, requires_grad=True)
    x.std().backward()
    same(x.grad, [0, 0, 0])


def test_product_with_zeros(device: str) -> None:
    """d/dx_i of sum(cumprod(x)): the product of all others, whatever is 0."""
    x = on(device, [2.0, 0.0, 3.0, 0.0, 5.0]).requires_grad_()
    x.cumprod(0).sum().backward()
    same(x.grad, [1, 2 + 6, 0, 0, 0])


def test_empty(device: str) -> None:
    x = pf.zeros(0, 3, device=device)
    assert x.sort(0).values.shape == (0, 3)
    assert x.cumsum(0).shape == (0, 3)
    assert x.topk(0, 0).values.shape == (0, 3)
    same(x.logsumexp(0), [-math.inf] * 3)
    same(x.var(0), [NAN] * 3)
    same(pf.isin(on(device, [1, 2]), on(device, [], pf.int64)), [False, False])
    same(pf.searchsorted(on(device, [], pf.float32), on(device, [1.0])), [0])
    same(pf.bincount(on(device, [], pf.int64), minlength=2), [0, 0])
    assert pf.unique(x.reshape(-1), return_counts=True)[1].shape == (0,)


def test_unique_of_all_kinds(device: str) -> None:
    x = on(device, [3, 1, 3, 1, 2])
    values, inverse, counts = x.unique(return_inverse=True, return_counts=True)
    same(values, [1, 2, 3])
    same(inverse, [2, 0, 2, 0, 1])
    same(counts, [2, 1, 2])
    rows = on(device, [[1, 2], [0, 5], [1, 2]])
    same(rows.unique(dim=0), [[0, 5], [1, 2]])
    same(rows.unique_consecutive(dim=1, return_counts=True)[1], [1, 1])
    same(pf.unique(on(device, [True, False, True])), [False, True])


def test_searching_beyond_the_ends(device: str) -> None:
    edges = on(device, [1.0, 2.0, 2.0, 3.0])
    x = on(device, [0.0, 2.0, 9.0, NAN])
    same(pf.searchsorted(edges, x), [0, 1, 4, 4])
    same(pf.searchsorted(edges, x, side="right"), [0, 3, 4, 4])
    same(pf.bucketize(2.0, edges, right=True), 3)
    unsorted = on(device, [3.0, 1.0, 2.0])
    same(pf.searchsorted(unsorted, on(device, [2.5]), sorter=unsorted.argsort()), [2])


def test_histograms(device: str) -> None:
    x = on(device, [0.0, 1.0, 1.0, 4.0, NAN, 9.0])
    same(pf.histc(x, 4, 0, 4), [1, 2, 0, 1])
    same(pf.histogram(x[:4], 2).hist, [3, 1])
    same(pf.histogram(x[:4], on(device, [0.0, 1.0, 4.0]), density=True).hist, [0.25, 0.25])
    same(pf.histc(on(device, [2.0, 2.0]), 2), [0, 2])
    weights = on(device, [0.5, 2.0])
    same(pf.bincount(on(device, [1, 1]), weights), [0, 2.5])
    hist, edges = pf.histogramdd(on(device, [[0.0, 0.0], [1.0, 3.0]]), [2, 3])
    same(hist, [[1, 0, 0], [0, 0, 1]])
    same(edges[1], [0, 1, 2, 3])


def test_hash_is_of_bits() -> None:
    assert pf.hash_tensor(pf.tensor([3, 5])).item() == 6
    assert pf.hash_tensor(pf.tensor([[1.5, 2.0]]), 0).shape == (2,)
    with pytest.raises(RuntimeError, match="mode"):
        pf.hash_tensor(pf.ones(2), mode=1)


def test_masks(device: str) -> None:
    x, mask = on(device, [[1.0, 2.0], [3.0, 4.0]]), on(device, [[True, False], [False, False]])
    same(pf.masked.sum(x, 1, mask=mask), [1, 0])
    same(pf.masked.amax(x, 1, mask=mask), [1, -math.inf])
    same(pf.masked.mean(x, 1, mask=mask), [1, NAN])
    same(pf.masked.median(x, 1, mask=mask), [1, NAN])
    same(pf.masked.softmax(x, 1, mask=on(device, [True, False])), [[1, 0], [1, 0]])
    same(pf.masked.amin(x.int(), 0, mask=mask), [1, 2**31 - 1])
    with pytest.raises(ValueError, match="fully masked"):
        pf.masked.median(x.int(), 1, mask=mask)
    with pytest.raises(IndexError, match="mask"):
        pf.masked.sum(x, mask=mask.unsqueeze(0))


def test_negative_weights_show_when_read(device: str) -> None:
    with pytest.raises(RuntimeError, match="cannot be negative"):
        pf.cov(pf.ones(2, 2, device=device), aweights=on(device, [1.0, -1.0])).cpu()
    with pytest.raises(RuntimeError, match=r"range \[0, 1\]"):
        pf.quantile(pf.ones(2, device=device), on(device, [1.5])).cpu()


BAD: list[tuple[Callable[[], Any], type[Exception], str]] = [
    (lambda: pf.ones(2, 3).sort(2), IndexError, "Dimension out of range"),
    (lambda: pf.ones(2).sort(True), TypeError, "stable="),
    (lambda: pf.ones(2, dtype=pf.complex64).sort(), RuntimeError, "has no order"),
    (lambda: pf.ones(2, dtype=pf.complex64).max(), RuntimeError, "has no order"),
    (lambda: pf.ones(3).topk(4), RuntimeError, "out of range: k=4 of 3"),
    (lambda: pf.ones(3).kthvalue(0), RuntimeError, "out of range"),
    (lambda: pf.ones(0).kthvalue(1), IndexError, "non-zero size"),
    (lambda: pf.ones(0, 2).mode(0), IndexError, "non-zero size"),
    (lambda: pf.ones(0).max(), RuntimeError, "non-zero size"),
    (lambda: pf.max(2, pf.ones(2)), TypeError, "must be Tensor, not int"),  # type: ignore
    (lambda: pf.ones(2).quantile(1.5), RuntimeError, r"\[0, 1\] but got 1.5"),
    (lambda: pf.ones(2).quantile(0.5, interpolation="cubic"), RuntimeError, "cubic"),
    (lambda: pf.ones(2).half().quantile(0.5), RuntimeError, "float or double"),
    (lambda: pf.bincount(pf.tensor([-1])), RuntimeError, "non-negative"),
    (lambda: pf.bincount(pf.ones(2)), RuntimeError, "float32"),
    (lambda: pf.histc(pf.ones(2), 0), RuntimeError, "bins must be > 0"),
    (lambda: pf.histc(pf.ones(2), 3, 2, 1), RuntimeError, "larger than min"),
    (lambda: pf.histogram(pf.tensor([math.inf]), 3), RuntimeError, "not finite"),
    (lambda: pf.searchsorted(pf.ones(2), pf.ones(2).int()), RuntimeError, "same dtype"),
    (lambda: pf.searchsorted(pf.ones(2, 3), pf.ones(3, 2)), RuntimeError, "must match"),
    (lambda: pf.searchsorted(pf.ones(2), 1.0, side="left", right=True), RuntimeError, "opposites"),
    (lambda: pf.bucketize(1.0, pf.ones(2, 2)), RuntimeError, "1 dimension"),
    (lambda: pf.isin(1, 2), TypeError, "Tensor"),  # type: ignore[arg-type]
    (lambda: pf.unique(pf.zeros(2, 0), dim=0), RuntimeError, "0 sized"),
    (lambda: pf.ones(2).cumsum(1.0), TypeError, "'dim' must be int"),  # type: ignore[arg-type]
    (lambda: pf.ones(2).int().logcumsumexp(0), NotImplementedError, "use .float"),
    (lambda: pf.tensor(1.0).diff(), RuntimeError, "at least one-dimensional"),
    (lambda: pf.ones(2, 2).diff(prepend=pf.ones(1)), RuntimeError, "expects prepend"),
    (lambda: pf.trapezoid(pf.ones(3), pf.ones(2)), RuntimeError, "one `x` value"),
    (lambda: pf.gradient(pf.ones(1)), RuntimeError, "at least edge_order"),
    (lambda: pf.ones(2, 2).sum((0, 0)), RuntimeError, "multiple times"),
    (lambda: pf.ones(2, 2).prod((0, 1)), TypeError, "must be int"),  # type: ignore[arg-type]
    (lambda: pf.ones(2).int().var(), RuntimeError, "floating point"),
    (lambda: pf.ones(2).int().norm(), RuntimeError, "floating point"),
    (lambda: pf.ones(2).norm("max"), RuntimeError, "'max'"),
    (lambda: pf.ones(0).norm(math.inf), RuntimeError, "non-zero size"),
    (lambda: pf.cov(pf.ones(2, 2, 2)), RuntimeError, "two or fewer"),
    (lambda: pf.cov(pf.ones(2, 3), fweights=pf.ones(3)), RuntimeError, "integral"),
    (lambda: pf.ones(2, 2).renorm(-1, 0, 1), RuntimeError, "positive"),
    (lambda: pf.ones(2).renorm(2, 0, 1), RuntimeError, "at least 2"),
    (lambda: pf.ones(2, dtype=pf.complex64).nansum(), RuntimeError, "complex"),
    (lambda: pf.masked.mean(pf.ones(2).int()), ValueError, "int32"),
    (lambda: pf.masked.var(pf.ones(2), 0, True, correction=1), ValueError, "only one"),
]


@pytest.mark.parametrize(("call", "kind", "message"), BAD)
def test_bad_input(call: Any, kind: Any, message: str) -> None:
    with pytest.raises(kind, match=message):
        call()
