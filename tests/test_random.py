"""Random numbers: Philox's own test vectors, the same bits everywhere, sound statistics."""

from __future__ import annotations

import statistics
from typing import Any

import numpy as np
import pytest

import pyframe as pf
from pyframe.ops.math import mathfn
from pyframe.ops.random import draws as random


def test_philox_is_philox() -> None:
    """The known answer of Random123 for counter 0 and key 0."""
    words = mathfn.philox(0, 0, 0, 0, 1)[0]
    assert [hex(w) for w in words] == ["0x6627e8d5", "0xe169c58d", "0xbc57ac4c", "0x9b00dbd8"]
    for key in (0, 2**63 + 5, 2**64 - 1):
        place = key & 0xFFFFFFFF, key >> 32, 77
        assert mathfn.philox(*place, 0, 1)[0].tolist() == list(mathfn.philox_block(*place))


def test_quantiles() -> None:
    bits = np.arange(0, 2**32, 2**32 // 3000, dtype=np.uint64).astype(np.uint32)
    p = ((bits >> 9) + 0.5) / 2**23
    want = [statistics.NormalDist().inv_cdf(v) for v in p]
    np.testing.assert_allclose(mathfn.normal_from_bits(bits), want, rtol=1e-6, atol=1e-7)


def test_the_bits_are_fixed() -> None:
    """Initial weights must never change from release to release, nor from machine to machine."""
    pf.manual_seed(42)
    assert random.host_uniform(3).view(np.int32).tolist() == [1059789672, 1030027248, 1026242448]
    assert random.host_normal(3).view(np.int32).tolist() == [1035794206, -1125392562, 1061271066]
    assert random.permutation(8).tolist() == [7, 3, 5, 6, 1, 2, 0, 4]


def test_a_seed_repeats_itself(device: str) -> None:
    def draw() -> list[Any]:
        pf.manual_seed(3)
        return [pf.rand(5, device=device).tolist(), pf.randn(2, 3, device=device).tolist()]

    first = draw()
    assert draw() == first
    assert pf.rand(5, device=device).tolist() != first[0]
    generator = pf.Generator().manual_seed(3)
    assert pf.rand(5, device=device, generator=generator).tolist() == first[0]


def test_both_devices_draw_the_same(gpu: str) -> None:
    pf.manual_seed(1)
    cpu = pf.rand(1001), pf.randn(1001), pf.rand(7, 3)
    pf.manual_seed(1)
    on_gpu = pf.rand(1001, device=gpu), pf.randn(1001, device=gpu), pf.rand(7, 3, device=gpu)
    assert cpu[0].tolist() == on_gpu[0].tolist()
    np.testing.assert_allclose(cpu[1].numpy(), on_gpu[1].cpu().numpy(), rtol=2e-6, atol=1e-6)
    assert cpu[2].tolist() == on_gpu[2].tolist()


def test_a_new_seed_plans_nothing(gpu: str) -> None:
    backend = pf.device(gpu).backend
    for seed in range(4):
        pf.manual_seed(seed)
        pf.rand(64, device=gpu).sum().item()
        if seed == 2:
            backend.stats.reset()
    assert backend.stats.pipelines == backend.stats.buffers == 0


def test_statistics(device: str) -> None:
    n = 200_000
    u, z = pf.rand(n, device=device).cpu().numpy(), pf.randn(n, device=device).cpu().numpy()
    assert u.min() >= 0
    assert u.max() < 1
    np.testing.assert_allclose([u.mean(), u.std()], [0.5, 12**-0.5], atol=0.004)
    np.testing.assert_allclose([z.mean(), z.std(), (z**4).mean()], [0, 1, 3], atol=0.06)
    assert abs(np.corrcoef(u[:-1], u[1:])[0, 1]) < 0.01


def test_other_draws(device: str) -> None:
    x = pf.randint(3, 9, (1000,), device=device)
    assert x.dtype is pf.int64
    assert (x.min().item(), x.max().item()) == (3, 8)
    for y in (pf.randint(2, size=(1000,)), pf.randint(high=2, size=(1000,)), pf.randint(2, (9, 9))):
        assert (y.min().item(), y.max().item()) == (0, 1)
    assert sorted(pf.randperm(10, device=device).tolist()) == list(range(10))
    p = pf.full((1000,), 0.25, device=device).bernoulli()
    assert 180 < p.sum().item() < 320
    w = pf.zeros(1000, device=device).uniform_(-2, 2)
    assert -2 <= w.min().item() < -1.9
    v = pf.zeros(1000, device=device).normal_(5, 0.1)
    assert abs(v.mean().item() - 5) < 0.02
    with pytest.raises(RuntimeError, match="expects 'from' to be less than 'to'"):
        pf.randint(3, 3, (2,), device=device)


def test_generator_state() -> None:
    g = pf.Generator().manual_seed(5)
    random.permutation(4, g)
    state = g.get_state()
    first = random.permutation(9, g).tolist()
    g.set_state(state)
    assert random.permutation(9, g).tolist() == first
    assert g.initial_seed() == 5
