"""gradcheck, anomaly mode, captures with hooks and Functions, threads in inference mode."""

from __future__ import annotations

import contextlib
from typing import Any

import pytest
from together import Thread

import pyframe as pf
from pyframe.autograd import Function, gradcheck, gradgradcheck
from pyframe.autograd.differences import GradcheckError


class Scale(Function):
    """x * k with a gradient that `wrong` spoils."""

    wrong: Any = staticmethod(lambda g: g)

    @staticmethod
    def forward(ctx: Any, x: Any, k: float) -> Any:
        ctx.k = k
        return x * k

    @classmethod
    def backward(cls, ctx: Any, g: Any) -> Any:  # type: ignore[override]
        return cls.wrong(g * ctx.k), None


class TooMany(Scale):
    @staticmethod
    def backward(ctx: Any, g: Any) -> Any:
        return g, g, g


def double(*values: float) -> pf.Tensor:
    return pf.tensor(list(values), dtype=pf.float64).requires_grad_()


def test_gradcheck_of_several_inputs_and_results() -> None:
    x, w, n = double(0.3, -0.8), double(1.5, 0.2), pf.tensor([2, 3])

    def f(a: Any, b: Any, k: Any) -> Any:
        return a * b, (a.exp() * k).sum(), k + 1, "text"

    assert gradcheck(f, (x, w, n))
    assert gradgradcheck(f, (x, w, n))
    assert gradcheck(lambda a, b: [a * b, a], (x, w), fast_mode=True)
    assert gradcheck(lambda a, b: b.detach() * 2, (x, w.detach()))
    with pytest.raises(GradcheckError, match="output 1 with respect to input 0"):
        gradcheck(lambda a: (a, a + a.detach()), (x,))
    with pytest.raises(GradcheckError, match="Jacobian mismatch for output 0"):
        gradcheck(lambda a: a.detach() * 2, (x,))
    with pytest.raises(ValueError, match="expected float64"):
        gradcheck(pf.exp, (x.detach().float().requires_grad_(),))
    with pytest.raises(ValueError, match="at least one input"):
        gradcheck(pf.exp, (x.detach(),))
    with pytest.raises(RuntimeError, match="incorrect number of gradients"):
        TooMany.apply(x, 1.0).sum().backward()


def test_gradcheck_of_complex_numbers() -> None:
    z = pf.tensor([0.3 + 0.4j, -1.2 + 0.1j], dtype=pf.complex128).requires_grad_()
    assert gradcheck(lambda v: v * v.conj(), (z,))
    assert gradcheck(lambda v: v.abs(), (z,))
    assert gradcheck(lambda v: (v.real * v.imag, v * (2 - 1j)), (z,))
    assert gradgradcheck(lambda v: v * v, (z,))
    assert not gradcheck(lambda v: v * v.detach(), (z,), raise_exception=False)


def test_gradcheck_sees_what_changes_from_run_to_run() -> None:
    calls = [0]

    class Drifts(Scale):
        @staticmethod
        def backward(ctx: Any, g: Any) -> Any:
            calls[0] += 1
            return g * ctx.k + calls[0] * 1e-8, None

    x = double(0.3, -0.8)
    with pytest.raises(GradcheckError, match="not reentrant"):
        gradcheck(lambda a: Drifts.apply(a, 2.0), (x,))
    assert gradcheck(lambda a: Drifts.apply(a, 2.0), (x,), nondet_tol=1e-6)


def test_gradgradcheck_sees_a_constant_backward() -> None:
    class Once(Scale):
        wrong = staticmethod(lambda g: g.detach())

    x = double(0.3, -0.8)
    assert gradcheck(lambda a: Once.apply(a, 2.0), (x,))
    with pytest.raises(RuntimeError):
        gradgradcheck(lambda a: Once.apply(a, 2.0), (x,))
    seeds = double(1.0, 2.0)
    assert gradgradcheck(lambda a: Scale.apply(a, 2.0), (x,), (seeds,))


class Fails(Scale):
    @staticmethod
    def backward(ctx: Any, g: Any) -> Any:
        raise KeyError("not here")


def warned(message: str, error: Any) -> Any:
    """Both a warning and an error."""
    stack = contextlib.ExitStack()
    stack.enter_context(pytest.warns(UserWarning, match=message))
    stack.enter_context(error)
    return stack


def test_anomaly_mode_names_the_line(device: str) -> None:
    x = pf.zeros(2, device=device).requires_grad_()
    with pytest.warns(UserWarning, match="Anomaly Detection has been enabled"):
        mode = pf.autograd.detect_anomaly()
    nan = pytest.raises(RuntimeError, match="'SqrtBackward0' returned nan values in its 0")
    with mode:
        y = (x.sqrt() * 0).sum()  # the line
        with warned(r"(?s)Error detected in SqrtBackward0.*# the line", nan):
            y.backward()
    assert not pf.is_anomaly_enabled()
    with pf.autograd.set_detect_anomaly(True):
        y = Fails.apply(x, 1.0).sum()  # another
        with warned(r"(?s)Error detected in FailsBackward.*# another", pytest.raises(KeyError)):
            y.backward()
    y = Fails.apply(x, 1.0).sum()
    unknown = warned("No forward pass information available", pytest.raises(KeyError))
    with pf.autograd.set_detect_anomaly(True), unknown:
        y.backward()
    with pytest.raises(KeyError):
        Fails.apply(x, 1.0).sum().backward()


def test_a_function_in_a_captured_step(device: str) -> None:
    w = pf.ones(3, device=device).requires_grad_()

    class Doubled(Scale):
        wrong = staticmethod(lambda g: g * 2)

    @pf.compile
    def step(x: pf.Tensor) -> pf.Tensor:
        w.grad = None
        y = (Doubled.apply(w, 3.0) * x).sum()
        y.backward()
        return y.detach()

    for k in (1.0, 2.0, 3.0):
        assert step(pf.full((3,), k, device=device)).item() == 9 * k
        assert w.grad.tolist() == [6 * k] * 3
    assert not step.eager


def test_a_capture_that_returns_a_functions_result_runs_eagerly(device: str) -> None:
    f = pf.compile(lambda x: Scale.apply(x * x, 3.0).sum())
    x = pf.ones(2, device=device).requires_grad_()
    with pytest.warns(RuntimeWarning, match="returns a result of ScaleBackward"):
        f(x).backward()
    x2 = pf.full((2,), 2.0, device=device).requires_grad_()
    f(x2).backward()
    assert (x.grad.tolist(), x2.grad.tolist()) == ([6, 6], [12, 12])


def test_inference_mode_is_a_threads_own(device: str) -> None:
    with pf.inference_mode():
        assert pf.ones(1, device=device).is_inference()
        assert not Thread(lambda: pf.ones(1, device=device).is_inference()).result()


def test_inference_mode_with_state_that_is_made_in_it(device: str) -> None:
    """What pyframe makes when it is first needed is no inference tensor: it is used later too."""
    g = pf.Generator()
    with pf.inference_mode():
        pf.rand(2, device=device, generator=g)
        drop = pf.nn.functional.dropout(pf.ones(8, device=device))
        norm = pf.nn.Linear(3, 3).to(device)
    pf.rand(2, device=device, generator=g)
    assert drop.is_inference()
    assert norm.weight.is_inference()
    layer = pf.nn.Linear(3, 3).to(device)
    with pf.inference_mode():
        layer(pf.rand(4, 3, device=device))
    layer(pf.rand(4, 3, device=device)).sum().backward()
    compiled = pf.compile(lambda x: x * 2)
    with pf.inference_mode():
        assert all(compiled(pf.ones(2, device=device)).is_inference() for _ in range(2))
    assert not compiled(pf.ones(2, device=device)).is_inference()
