"""Pointwise ops: what they refuse, where numbers may stand, edge values, windows."""

from __future__ import annotations

import itertools
import math
from typing import Any

import numpy as np
import pytest

import pyframe as pf

nan, inf = math.nan, math.inf

EITHER = "add sub mul div floor_divide remainder pow bitwise_and bitwise_left_shift xlogy".split()
SECOND = "eq ne lt le gt ge fmod copysign rsub clamp_min clamp_max".split()
NEITHER = """maximum minimum fmax fmin logical_and logical_or logical_xor atan2 hypot nextafter
logaddexp ldexp heaviside gcd lcm igamma isclose""".split()


def refused(fn: Any, *args: Any) -> bool:
    try:
        fn(*args)
    except TypeError:
        return True
    except RuntimeError:  # of the dtype: another matter
        return False
    return False


@pytest.mark.parametrize("name", [*EITHER, *SECOND, *NEITHER])
def test_where_a_number_may_stand(name: str, torch: Any) -> None:
    ours, theirs = getattr(pf, name), getattr(torch, name)
    for values in ([1.5, 2.5], [1, 2]):
        x, y = pf.tensor(values), torch.tensor(values)
        assert refused(ours, 2, x) == refused(theirs, 2, y)
        assert refused(ours, x, 2) == refused(theirs, y, 2)
    assert refused(ours, 2, 3) == refused(theirs, 2, 3)


NUMBERS = {  # what takes a number beside a tensor, whatever the kinds of both
    "add": lambda t, x, y, v: t.add(x, y, alpha=v),
    "sub": lambda t, x, y, v: t.sub(x, y, alpha=v),
    "add a number": lambda t, x, y, v: t.add(x, True, alpha=v),
    "addcmul": lambda t, x, y, v: t.addcmul(x, y, y, value=v),
    "scatter": lambda t, x, y, v: x.scatter(0, t.tensor([0, 0]).to(x.device), v),
    "scatter add": lambda t, x, y, v: x.scatter(0, t.tensor([0, 0]).to(x.device), v, reduce="add"),
    "threshold": lambda t, x, y, v: t.nn.functional.threshold(x, 0.5, v),
    "at a threshold": lambda t, x, y, v: t.nn.functional.threshold(x, v, 2),
    "index_fill": lambda t, x, y, v: x.index_fill(0, t.tensor([0]).to(x.device), v),
    "masked_fill": lambda t, x, y, v: x.masked_fill(x == 0, v),
    "fill_": lambda t, x, y, v: x.fill_(v),
    "pad": lambda t, x, y, v: t.nn.functional.pad(x, (1, 0), value=v),
    "where": lambda t, x, y, v: t.where(x == 0, x, v),
}


@pytest.mark.parametrize("name", NUMBERS)
def test_numbers_of_each_kind(name: str, device: str, torch: Any) -> None:
    def outcome(t: Any, device: str, dtypes: tuple[str, str], v: Any) -> Any:
        x, y = (t.tensor(values, dtype=getattr(t, d), device=device)
                for values, d in zip(([0, 1, 1], [1, 0, 1]), dtypes, strict=True))  # fmt: skip
        try:
            found = NUMBERS[name](t, x, y, v)
        except RuntimeError as error:
            return type(error).__name__
        return str(found.dtype).rpartition(".")[2], str(found.tolist())

    kinds = "bool uint8 int8 int64 float32".split()
    both = name in ("add", "sub", "addcmul")
    for pair in itertools.product(kinds, kinds) if both else zip(kinds, kinds, strict=True):
        for v in (True, 0, 2, -1, 300, 0.5, 1.5, nan):
            want = outcome(torch, "cpu", pair, v)
            assert outcome(pf, device, pair, v) == want, (pair, v)


@pytest.mark.parametrize("name", "gamma erf bessel".split())
def test_accuracy_in_float64(name: str) -> None:
    """Against SciPy, over a wide range."""
    sp = pytest.importorskip("scipy.special")
    x = np.linspace(-20, 40, 2001) + 1e-4
    pairs = {
        "gamma": [(pf.lgamma, sp.gammaln), (pf.digamma, sp.digamma)],
        "erf": [(pf.erfc, sp.erfc), (pf.special.erfcx, sp.erfcx)],
        "bessel": [(pf.special.i0e, sp.i0e), (pf.special.i1e, sp.i1e)],
    }[name]
    for ours, theirs in pairs:
        with np.errstate(all="ignore"):
            want = theirs(x)
        np.testing.assert_allclose(ours(pf.from_numpy(x)).numpy(), want, rtol=1e-10, atol=1e-13)


def test_lgamma_near_its_zeros(torch: Any, device: str) -> None:
    """It keeps its digits, and is 0 at 1 and 2."""
    kinds = (pf.float32, pf.float64) if device == "cpu" else (pf.float32,)
    near = 0.5 ** np.arange(2, 50, 0.25)
    x = np.concatenate([[1, 2, 0.5, 1.5, 2.5], 1 + near, 1 - near, 2 + near, 2 - near, near * 40])
    for kind in kinds:
        xs = pf.tensor(x, dtype=kind)
        got = xs.to(device).lgamma().cpu().double().numpy()
        assert got[:2].tolist() == [0, 0]
        want = torch.lgamma(torch.from_numpy(xs.double().numpy())).numpy()
        eps = np.finfo(kind.numpy).eps * (4 if device == "cpu" else 64)
        np.testing.assert_allclose(got, want, rtol=eps)


@pytest.mark.parametrize("compiled", [False, True])
def test_what_has_no_error(compiled: bool, device: str) -> None:
    """Logarithms of powers of 10, and zeros that have no sign."""
    whole = list(range(-37, 39))
    powers = pf.tensor([float(f"1e{k}") for k in whole], device=device)
    zeros = pf.tensor([0.0, -0.0], device=device)
    fn: Any = lambda x, z: (pf.log10(x), pf.signbit(pf.special.entr(z)))  # noqa: E731
    logs, signs = (pf.compile(fn) if compiled else fn)(powers, zeros)
    assert logs.tolist() == whole
    assert signs.tolist() == [False, False]


def test_incomplete_gamma(torch: Any) -> None:
    """Small, middle and large a, near x and far from it, and the ends."""
    a = np.array([0, 1e-3, 0.3, 1, 2.5, 10, 60, 199, 3e3, 2.1e4, 1e5, np.inf])[:, None, None]
    spread = np.array([-5, -1, -0.1, 0, 0.1, 1, 5])[:, None]
    finite = np.where(np.isinf(a), 1.0, a)
    x = np.abs(finite + spread * np.sqrt(np.maximum(finite, 1)) + np.array([0, 0.3]))
    x = np.concatenate([x.reshape(12, -1), np.full((12, 3), [0, 0.5, np.inf])], 1)
    for name in ("igamma", "igammac"):
        want = getattr(torch, name)(torch.from_numpy(a[:, 0]), torch.from_numpy(x)).numpy()
        got = getattr(pf, name)(pf.from_numpy(a[:, 0]), pf.from_numpy(x)).numpy()
        np.testing.assert_allclose(got, want, rtol=1e-8)  # PyTorch's are off by 3e-10


def test_clamp_sees_what_is_written_past_autograd() -> None:
    x = pf.tensor([0.5, 3.0], requires_grad=True)
    y = x * 1
    z = y.clamp(-1, 2)
    y.data.copy_(pf.tensor([3.0, 0.5]))
    z.sum().backward()
    assert x.grad.tolist() == [0, 1]


def test_in_place_twins() -> None:
    x = pf.tensor([0.25, 0.5])
    assert pf.sqrt_(x) is x
    assert x.acos_().cos_().hypot_(x * 0).clamp_(max=0.6).tolist() == pytest.approx([0.5, 0.6])


@pytest.mark.parametrize("periodic", [True, False])
@pytest.mark.parametrize("name", "hann hamming blackman bartlett kaiser".split())
def test_windows_by_their_older_names(name: str, periodic: bool, torch: Any) -> None:
    for length in (0, 1, 2, 7):
        got = getattr(pf, f"{name}_window")(length, periodic).numpy()
        want = getattr(torch, f"{name}_window")(length, periodic).numpy()
        np.testing.assert_allclose(got, want, rtol=1e-5, atol=1e-6)
    with pytest.raises(RuntimeError, match="negative"):
        getattr(pf, f"{name}_window")(-1)


def test_special_needs_scipy(monkeypatch: pytest.MonkeyPatch) -> None:
    import sys

    monkeypatch.setitem(sys.modules, "scipy", None)
    monkeypatch.setitem(sys.modules, "scipy.special", None)
    assert pf.special.i0e(pf.tensor([0.0])).item() == 1
    with pytest.raises(RuntimeError, match=r'pip install .*\[special\]"'):
        pf.special.bessel_j0(pf.tensor([1.0]))
