"""Sorting, scans, reductions and masked: special values, results in form, and what is refused."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

import pyframe as pf

NAN = math.nan


def on(device: str, data: Any, dtype: Any = None) -> pf.Tensor:
    return pf.tensor(data, dtype=dtype).to(device)


def same(x: pf.Tensor, want: Any) -> None:
    np.testing.assert_array_equal(x.detach().cpu().numpy(), np.asarray(want))


def test_median_shares_its_gradient(device: str) -> None:
    x = on(device, [2.0, 1.0, 2.0, 5.0]).requires_grad_()
    x.median().backward()
    same(x.grad, [0.5, 0, 0.5, 0])


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
