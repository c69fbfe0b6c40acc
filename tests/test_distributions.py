"""Distributions have PyTorch's densities, entropies, divergences and gradients."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import pyframe as pf
from pyframe import distributions as D

A, B = np.random.default_rng(0).random((2, 3, 4)) * 0.8 + 0.1
VALUE = (A > 0.4).astype(float)
CASES = [  # name, how it is made, a value
    ("Normal", lambda d, a, b: d.Normal(a, b), B),
    ("Uniform", lambda d, a, b: d.Uniform(a, a + b), A + 0.05),
    ("Bernoulli", lambda d, a, b: d.Bernoulli(a), VALUE),
    ("Bernoulli logits", lambda d, a, b: d.Bernoulli(logits=a), VALUE),
    ("Categorical", lambda d, a, b: d.Categorical(a), np.array([3.0, 0.0, 1.0])),
    ("Categorical logits", lambda d, a, b: d.Categorical(logits=a), np.array([[2], [0]])),
    ("Independent", lambda d, a, b: d.Independent(d.Normal(a, b), 1), B),
]


@pytest.mark.parametrize(("name", "make", "value"), CASES)
def test_as_pytorch(name: str, make: Any, value: Any, torch: Any) -> None:
    out = []
    for t, d in ((pf, D), (torch, torch.distributions)):
        a, b = (t.tensor(x.tolist(), dtype=t.float64).requires_grad_() for x in (A, B))
        p, q = make(d, a, b), make(d, a * 0.9, b * 1.1)
        given = t.tensor(value.tolist(), dtype=t.float64)
        parts = [p.log_prob(given), p.entropy()]
        if name != "Uniform":
            parts.append(d.kl_divergence(p, q))
        if "Categorical" not in name:
            parts += [p.mean, p.variance, p.stddev]
        grads = t.autograd.grad(sum((x * x).sum() for x in parts), (a, b), allow_unused=True)
        sizes = [tuple(x) for x in (p.batch_shape, p.event_shape, p.sample((5,)).shape)]
        out.append(([x.tolist() for x in (*parts, *grads) if x is not None], sizes))
    (got, sizes), (want, as_sizes) = out
    assert sizes == as_sizes
    assert len(got) == len(want)
    for x, y in zip(got, want, strict=True):
        np.testing.assert_allclose(x, y, rtol=1e-6, atol=1e-9)


def test_samples(device: str) -> None:
    n = (4000,)
    loc = pf.tensor([1.0, -2.0], device=device).requires_grad_()
    x = D.Normal(loc, 0.5).rsample(n)
    assert x.mean(0).tolist() == pytest.approx([1, -2], abs=0.05)
    assert pf.autograd.grad(x.sum(), loc)[0].tolist() == [4000, 4000]
    assert not D.Normal(loc, 0.5).sample().requires_grad
    u = D.Uniform(0.0, pf.full((), 2.0, device=device)).sample(n)
    assert 0.9 < u.mean().item() < 1.1
    assert D.Bernoulli(pf.tensor([0.2, 0.7], device=device)).sample(n).mean(0).tolist() == (
        pytest.approx([0.2, 0.7], abs=0.05)
    )
    c = D.Categorical(pf.tensor([[1.0, 0, 3], [0, 1, 0]], device=device)).sample(n)
    assert c.float().mean(0).tolist() == pytest.approx([1.5, 1], abs=0.1)
