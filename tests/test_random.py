"""Random numbers: Philox's own test vectors, the same bits everywhere, sound statistics."""

from __future__ import annotations

import copy
import statistics
import warnings
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


def test_draws(device: str) -> None:
    """Means and deviations within five standard errors."""
    n = 40_000
    pf.manual_seed(0)

    def near(x: Any, mean: float, std: float) -> np.ndarray:
        v = x.cpu().double().numpy()
        assert abs(v.mean() - mean) < 5 * std / n**0.5
        assert abs(v.std() / std - 1) < 0.06
        return v

    u = near(pf.rand(n, device=device), 0.5, 12**-0.5)
    assert u.min() >= 0
    assert u.max() < 1
    assert abs(np.corrcoef(u[:-1], u[1:])[0, 1]) < 0.02
    z = near(pf.randn(n, device=device), 0, 1)
    assert (z**4).mean() == pytest.approx(3, abs=0.15)
    x = pf.empty(n, device=device)
    assert abs(near(x.uniform_(-2, 2), 0, 4 / 12**0.5)).max() <= 2
    near(x.normal_(5, 0.1), 5, 0.1)
    near(x.exponential_(2), 0.5, 0.5)
    near(x.geometric_(0.25), 4, 12**0.5)
    near(x.log_normal_(0, 0.5), np.exp(0.125), (np.expm1(0.25) * np.exp(0.25)) ** 0.5)
    near(x.cauchy_(3).atan(), np.arctan(1.5), 0.747)
    near(x.random_(2, 8), 4.5, (35 / 12) ** 0.5)
    near(x.bernoulli_(0.3), 0.3, 0.21**0.5)
    near(pf.normal(x.fill_(2), 3.0), 2, 3)
    near(pf.poisson(x), 2, 2**0.5)
    near(pf.binomial(x.fill_(8), pf.full_like(x, 0.5)), 4, 2**0.5)
    w = pf.tensor([1.0, 0, 3]).to(device)
    near(w.multinomial(n, replacement=True), 1.5, 0.75**0.5)
    near(w.expand(n, 3).multinomial(2)[:, 1], 0.5, 0.75**0.5)
    assert {tuple(r) for r in w.expand(50, 3).multinomial(2).tolist()} == {(0, 2), (2, 0)}
    many = w.repeat(20_000).expand(2, -1).multinomial(100, replacement=True)
    assert (many % 3 != 1).all()


def test_ints(device: str) -> None:
    x = pf.randint(3, 9, (1000,), device=device)
    assert x.dtype is pf.int64
    assert (x.min().item(), x.max().item()) == (3, 8)
    for y in (pf.randint(2, size=(1000,)), pf.randint(high=2, size=(1000,)), pf.randint(2, (9, 9))):
        assert (y.min().item(), y.max().item()) == (0, 1)
    assert sorted(pf.randperm(10, device=device).tolist()) == list(range(10))


def test_streams_go_on(device: str) -> None:
    pf.manual_seed(3)
    pf.rand(2, device=device)
    state = pf.get_rng_state()
    with pf.fork_rng():
        pf.manual_seed(9)
        first = pf.rand(4, device=device).tolist(), pf.randperm(5).tolist()
    rest = pf.rand(4, device=device).tolist(), pf.randperm(5).tolist()
    assert rest != first
    pf.set_rng_state(state)
    assert (pf.rand(4, device=device).tolist(), pf.randperm(5).tolist()) == rest
    g = pf.Generator()
    g.manual_seed(3)
    pf.rand(2, device=device, generator=g)
    assert pf.rand(4, device=device, generator=g).tolist() == rest[0]


@pytest.mark.parametrize("seed", [5, -1, 2**33 + 7])
def test_the_state_of_a_generator(device: str, seed: int) -> None:
    """Also where the stream of a device begins, or has a seed of its own, after it was read."""

    def draw(g: pf.Generator) -> Any:
        drawn = pf.rand(3, device=device, generator=g).tolist(), pf.randint(9, (5,), generator=g)
        return *drawn[0], *drawn[1].tolist(), *random.permutation(9, g).tolist()

    g = pf.Generator(device=device).manual_seed(seed)
    assert g.initial_seed() == seed % 2**64
    for _ in range(2):
        state = g.get_state()
        others = [g.clone_state(), pf.Generator().set_state(state), copy.deepcopy(g)]
        first = draw(g), draw(g)
        g.manual_seed(seed + 1)
        assert draw(g) != first[0]
        g.set_state(state)
        assert [(draw(x), draw(x)) for x in (g, *others)] == [first] * 4
        assert g.initial_seed() == seed % 2**64
        if device == "gpu":
            g.seed_device(seed - 3, pf.device(device))
    for wrong in (state.float(), state[:23], state[:0], 3):
        with pytest.raises(TypeError, match="set_state"):
            g.set_state(wrong)  # type: ignore[arg-type]


@pytest.mark.parametrize("how", ["seeds", "forks", "seeds a fork", "goes back"])
def test_streams_that_begin_in_a_capture(device: str, how: str) -> None:
    def forks() -> Any:
        with pf.random.fork_rng():
            if "seeds" in how:
                pf.manual_seed(3)
            return pf.rand(2, device=device)

    def seeds() -> Any:
        if how == "seeds":
            pf.manual_seed(3)
        state = pf.get_rng_state()
        x = pf.rand(2, device=device)
        pf.set_rng_state(state)
        return x

    drawn = []
    for f in (function := forks if "fork" in how else seeds, pf.compile(function)):
        pf.default_generator._states.clear()
        pf.manual_seed(5)
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", "(?s).*runs eagerly")
            numbers = [(f().tolist(), pf.rand(1, device=device).item()) for _ in range(4)]
        drawn.append((numbers, pf.randperm(5).tolist()))
    assert drawn[0] == drawn[1]


def test_what_is_drawn_like_a_tensor_lies_as_it_does(device: str, torch: Any) -> None:
    def strides(t: Any, on: str) -> list[Any]:
        turned = t.zeros(3, 5, device=on).t()
        images = t.zeros(2, 3, 4, 5, device=on).to(memory_format=t.channels_last)
        fns = t.rand_like, t.randn_like, lambda x, **kw: t.randint_like(x, 9, **kw)
        some = {}, {"memory_format": t.contiguous_format}, {"dtype": t.float16}
        return [f(x, **kw).stride() for f in fns for x in (turned, images) for kw in some]

    if device == "gpu" and not pf.device("gpu").backend.limits.float16:
        pytest.skip("this GPU has no float16")
    assert strides(pf, device) == strides(torch, "cpu")
