"""Sums of numbers that are hard to add: errors are small beside the sum of the sizes of what is
added, along each axis, on each device, eagerly and compiled."""

from __future__ import annotations

import functools
import tracemalloc
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import pyframe as pf
import pyframe.nn.functional as F
from pyframe.codegen.numpy import sums
from pyframe.codegen.wgsl import reduction

HOW = ["eager", "compiled", "gpu"]


@functools.cache
def hard(shape: tuple[int, ...]) -> list[np.ndarray]:
    """Numbers far from 0; many after which ones are less than half of a last digit; signs that
    alternate."""
    rng = np.random.default_rng(0)
    n = int(np.prod(shape))
    far = 2000 + rng.standard_normal(n)
    large_first = np.where(np.arange(n) < n // 2, 4096.0, 1.0)
    alternating = (1 + 1e-3 * rng.standard_normal(n)) * (-1.0) ** np.arange(n)
    return [x.reshape(shape).astype(np.float32) for x in (far, large_first, alternating)]


def made_for(how: str, fn: Callable[..., Any]) -> Callable[..., Any]:
    """fn(the module, its nn.functional, tensors…) as a function of arrays."""
    call = pf.compile(lambda *xs: fn(pf, F, *xs)) if how == "compiled" else None

    def run(*arrays: np.ndarray) -> Any:
        tensors = [pf.from_numpy(a).to("gpu" if how == "gpu" else "cpu") for a in arrays]
        if call is None:
            return fn(pf, F, *tensors).cpu().numpy()
        call(*tensors)  # captured at the first time
        return call(*tensors).numpy()

    return run


@pytest.fixture(params=HOW)
def how(request: pytest.FixtureRequest) -> str:
    if request.param == "gpu":
        request.getfixturevalue("gpu")
    return str(request.param)


def gradient(fn: Callable[..., Any]) -> Callable[..., Any]:
    """The gradient of `fn` for an extra operand of ones of size `shape(x)`."""

    def run(t: Any, f: Any, x: Any, d: Any) -> Any:
        w = t.ones_like(x.select(d, 0)).requires_grad_()
        (g,) = t.autograd.grad(fn(t, f, w, x, d), w)
        return g

    return run


# fn(the module, its nn.functional, x, d) is linear in x: what it gives for |x| bounds its errors
SUMS: dict[str, Callable[..., Any]] = {
    "sum": lambda t, f, x, d: x.sum(d),
    "mean": lambda t, f, x, d: x.mean(d),
    "nansum": lambda t, f, x, d: x.nansum(d, keepdim=True),
    "sum_to_size": lambda t, f, x, d: x.sum_to_size(x.select(d, 0).unsqueeze(d).shape),
    "transposed": lambda t, f, x, d: x.transpose(0, -1).sum(-1 - d),
    "trapezoid": lambda t, f, x, d: t.trapezoid(x, dim=d),
    "cumsum": lambda t, f, x, d: x.cumsum(d),
    "broadcast": gradient(lambda t, f, w, x, d: (x * w.unsqueeze(d)).sum()),
    "loss": lambda t, f, x, d: f.mse_loss(x, t.zeros_like(x), reduction="none").mean(d),
}  # fmt: skip
PLACES = [((20000, 4), 0), ((4, 20000), 1), ((9, 300, 40), 1)]


@pytest.mark.parametrize(("shape", "d"), PLACES)
@pytest.mark.parametrize("name", SUMS)
def test_sums(name: str, shape: tuple[int, ...], d: int, how: str, torch: Any) -> None:
    run = made_for(how, lambda t, f, x: SUMS[name](t, f, x, d))
    for x in hard(shape):
        want, size = (
            SUMS[name](torch, torch.nn.functional, torch.from_numpy(a.astype(np.float64)), d)
            for a in (x, np.abs(x))
        )
        assert np.all(np.abs(run(x) - want.numpy()) <= 4e-7 * size.numpy())


@pytest.mark.parametrize("axes", [(0,), (1,), (2,), (0, 1), (0, 2), (1, 2), (0, 1, 2)])
def test_sums_over_several_dims(axes: tuple[int, ...], how: str) -> None:
    run = made_for(how, lambda t, f, x: x.sum(axes, keepdim=True))
    for x in (*hard((200, 30, 50)), *hard((900, 7, 3))):
        want, size = (a.sum(axes, np.float64, keepdims=True) for a in (x, np.abs(x)))
        assert np.all(np.abs(run(x) - want) <= 4e-7 * size)


@pytest.mark.parametrize("dtype", ["float16", "float64", "complex64", "complex128"])
@pytest.mark.parametrize(("shape", "d"), PLACES)
def test_sums_of_other_dtypes(shape: tuple[int, ...], d: int, dtype: str) -> None:
    eps = {"float16": 5e-4, "complex64": 4e-7}.get(dtype, 1e-15)
    for x in hard(shape):
        x = (x + 1j * x[::-1] if "complex" in dtype else x / 4096).astype(dtype)
        want = x.sum(d, np.clongdouble if "complex" in dtype else np.longdouble)
        size = np.abs(x).sum(d, np.longdouble)
        assert np.all(np.abs(pf.from_numpy(x).sum(d).numpy() - want) <= eps * size)
        assert np.all(np.abs(pf.from_numpy(x.T).sum(-1 - d).numpy().T - want) <= eps * size)


def test_sums_without_blas(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sums, "PRODUCTS", False)
    for shape in ((20000, 4), (4, 20000), (300, 7, 40), (70, 9000), (5000, 3, 9)):
        for x in hard(shape):
            for axes in ((0,), (1,), (len(shape) - 1,), (0, len(shape) - 1)):
                got = pf.from_numpy(x).sum(axes).numpy()
                want, size = (a.sum(axes, np.float64) for a in (x, np.abs(x)))
                assert np.all(np.abs(got - want) <= 6e-7 * size)


@pytest.mark.parametrize("rounds", [None, 64, 16])  # then the loop's body stands there n times
def test_long_columns_of_one_thread(
    rounds: int | None, gpu: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    n = 1100 + (rounds or 0)
    x = 2000 + np.random.default_rng(0).random((n, 8192), np.float32)
    if rounds:
        monkeypatch.setattr(reduction, "MAX_LOOP_TRIPS", rounds)
    want = x.sum(0, np.float64)
    np.testing.assert_allclose(pf.from_numpy(x).to(gpu).sum(0).cpu().numpy(), want, 5e-7)


def test_sums_of_repeated_and_infinite_numbers() -> None:
    x = pf.tensor([[1.5], [-2.0]])
    assert x.expand(2, 1 << 25).sum(1).tolist() == [1.5 * (1 << 25), -2.0 * (1 << 25)]
    assert x.expand(2, 300).sum((0, 1)).tolist() == -150.0
    assert x.mT.expand(1 << 12, 2).sum(0).tolist() == [6144.0, -8192.0]
    z = pf.full((300, 2), complex(np.inf, 1))
    assert z.sum(0).tolist() == [complex(np.inf, 300)] * 2


def test_long_scans_do_not_stall(how: str) -> None:
    """Behind a number beside which those to be added are less than half of a last digit."""
    x = np.ones(70_001, np.float32)
    x[0] = (1 << 24) - 40_000
    last = made_for(how, lambda t, f, x: x.cumsum(0)[-1:])(x)
    assert abs(last - ((1 << 24) + 30_000)) <= 4
    run = made_for(how, lambda t, f, x: x.logcumsumexp(0)[-1])
    for shape in ((50_000, 1), (5_000, 40)):
        x = np.concatenate([np.full((1, shape[1]), np.log(2e6), np.float32), np.zeros(shape)])
        want = np.log(np.exp(np.float64(np.float32(np.log(2e6)))) + shape[0])
        np.testing.assert_allclose(run(x.astype(np.float32)), want, 1e-6)


def moved(t: Any, f: Any, x: Any, norm: str) -> Any:
    """A running variance that becomes that of the batch."""
    c = x.shape[1]
    kept = [t.zeros(c, dtype=x.dtype, device=x.device) for _ in range(2)]
    getattr(f, norm)(x, *kept, None, None, True, 1.0)
    return kept[1]


# fn(the module, its nn.functional, x): errors are small beside the result
SHARES: dict[str, Callable[..., Any]] = {
    "logsumexp": lambda t, f, x: x.logsumexp(0),
    "softmax": lambda t, f, x: x.softmax(0),
    "log_softmax": lambda t, f, x: x.log_softmax(0),
    "norm": lambda t, f, x: t.linalg.vector_norm(x + 5, dim=0),
    "normalize": lambda t, f, x: f.normalize(x + 5, dim=0),
    "einsum": lambda t, f, x: t.einsum("ij,ij->j", x, x),
    "cross_entropy": lambda t, f, x: f.cross_entropy(x, x.argmin(1)),
    "avg_pool": lambda t, f, x: f.avg_pool2d((x + 5).reshape(1, 1, 200, -1), 200),
}
SPREADS: dict[str, Callable[..., Any]] = {
    "var_0": lambda t, f, x: x.var(0),
    "std_0": lambda t, f, x: x.std(0, keepdim=True),
    "std_mean": lambda t, f, x: t.std_mean(x, 0, correction=0)[0],
    "cov": lambda t, f, x: t.cov(x.mT),
    "batch_norm": lambda t, f, x: moved(t, f, x, "batch_norm"),
    "instance_norm": lambda t, f, x: moved(t, f, x.reshape(4, 2, -1), "instance_norm"),
}
MADE = [(name, 0.0) for name in SHARES] + [(n, far) for n in SPREADS for far in (2000.0, 1e7)]


@pytest.mark.parametrize(("name", "middle"), MADE)
def test_what_is_made_of_sums(name: str, middle: float, how: str, torch: Any) -> None:
    """Of numbers from 0 to 1; and how far those spread that are far from 0."""
    rng = np.random.default_rng(0)
    x = rng.random((20000, 4))
    rtol = 1e-5 if how == "gpu" else 1e-6
    if name in SPREADS:
        x = middle + rng.standard_normal((10000, 4)) @ np.triu(np.ones((4, 4)))
        rtol = 1e-4 if "cov" in name or middle > 1e6 else 1e-5
    fn, x = (SHARES | SPREADS)[name], x.astype(np.float32)
    want = fn(torch, torch.nn.functional, torch.from_numpy(x.astype(np.float64)))
    np.testing.assert_allclose(made_for(how, fn)(x), want.numpy(), rtol)


def test_spreads_at_the_edges(device: str) -> None:
    for value in (0.1, 1e7, 1e10, 3e15):
        x = pf.full((3, 777), value, device=device)
        assert x.var(1).tolist() == [0.0] * 3
        assert F.layer_norm(x, (777,)).isfinite().all()
        assert F.batch_norm(x.mT, None, None, training=True).isfinite().all()
    assert pf.tensor([1e30, 2e30, -1e30], device=device).var().item() == np.inf
    assert np.isnan(pf.tensor([np.inf, 1.0], device=device).var().item())
    far = (1e6 + np.random.default_rng(0).standard_normal(100000)).astype(np.float32)
    variance, middle = pf.var_mean(pf.from_numpy(far).to(device))
    np.testing.assert_allclose(middle.item(), far.mean(dtype=np.float64), 2e-7)
    np.testing.assert_allclose(variance.item(), far.astype(np.float64).var(ddof=1), 1e-6)
    x = pf.tensor([[1.0, 2.0, 4.0]], device=device, requires_grad=True)
    y = pf.full((1, 3), 7.0, device=device, requires_grad=True)
    (x.std(1) + y.std(1)).sum().backward()
    want = np.array([[-4, -1, 5]]) / 6 / np.sqrt(7 / 3)
    np.testing.assert_allclose(x.grad.cpu().numpy(), want, 1e-5)
    assert y.grad.tolist() == [[0.0, 0.0, 0.0]]


@pytest.mark.parametrize("size", [1e30, 1e20, 1e-22, 1e-30])
def test_deviations_of_huge_and_tiny_numbers(size: float, how: str, torch: Any) -> None:
    x = (np.random.default_rng(0).standard_normal((4, 6)) * size).astype(np.float32)
    x[0] /= np.float32(size)
    std = {"std": lambda t, x: t.std(x, 1), "all": lambda t, x: t.std_mean(x[1:])[0]}
    for call in std.values():
        want = call(torch, torch.from_numpy(x)).numpy()
        got = made_for(how, lambda t, f, x, call=call: call(t, x))(x)
        np.testing.assert_allclose(got, want, 1e-5)
    a = pf.from_numpy(x).requires_grad_()
    (slope,) = pf.autograd.grad(a.std(1).sum(), a)
    b = torch.from_numpy(x).requires_grad_()
    want = torch.autograd.grad(b.std(1).sum(), b)[0].numpy()
    np.testing.assert_allclose(slope.numpy(), want, 1e-4, 1e-6)


LARGE = {  # and how much memory they may take beside the result, in sizes of the operand
    "sum": (lambda x: x.sum(), 0.1),
    "sum of rows": (lambda x: x.reshape(-1, 1024).sum(1), 0.1),
    "sum of columns": (lambda x: x.reshape(1024, -1).sum(0), 0.1),
    "nansum": (lambda x: x.nansum(), 3.1),  # without NaN, of floats
    "mean": (lambda x: x.mean(dtype=pf.float32), 0.1),
    "mean of columns": (lambda x: x.reshape(64, -1).mean(0, dtype=pf.float32), 0.1),
    "prod": (lambda x: x.prod(), 0.8),
    "prod of rows": (lambda x: x.reshape(-1, 1024).prod(1), 0.8),
    "any": (lambda x: x.any(), 1.1),
    "all": (lambda x: x.all(), 1.1),
    "count_nonzero": (lambda x: x.count_nonzero(), 1.1),
    "cumsum": (lambda x: x.cumsum(0), 0.5),
    "cumprod of columns": (lambda x: x.reshape(1024, -1).cumprod(0), 0.5),
}


@pytest.mark.parametrize("dtype", ["uint8", "bool", "float16"])
@pytest.mark.parametrize("name", LARGE)
def test_reductions_copy_no_large_tensor(name: str, dtype: str) -> None:
    """In another dtype, eagerly and compiled; and small ints do not overflow."""
    f, most = LARGE[name]
    data = np.random.default_rng(0).integers(0, 100, 1 << 20).astype(dtype)
    if name.startswith(("prod", "cumprod")):
        data[data > 2] = 1
    x = pf.from_numpy(data)
    step = pf.compile(f)
    found = []
    for run in (f, step) if "cum" not in name else (f,):
        run(x)
        tracemalloc.start()
        try:
            found.append(run(x))
            peak = tracemalloc.get_traced_memory()[1]
        finally:
            tracemalloc.stop()
        assert peak < most * data.nbytes + 1.1 * found[-1].nbytes + (1 << 16), peak / data.nbytes
    wide = pf.from_numpy(data.astype(np.float64 if dtype == "float16" else np.int64))
    for out in found:
        expected = f(wide).to(out.dtype)
        assert out.dtype == f(x).dtype
        np.testing.assert_allclose(
            out.numpy(), expected.numpy(), 2e-3 if dtype == "float16" else 1e-6
        )
