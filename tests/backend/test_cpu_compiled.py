"""Plans whose kernels are compiled: here lane programs are interpreted, so that what the plan does
around them is tested on every machine."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from steps import training_step

import pyframe as pf
from pyframe.codegen.numpy.plan import CpuPlan
from pyframe.core import host_memory
from pyframe.runtime import cpu
from tests.interpreted import Interpreted

F = pf.nn.functional


@pytest.fixture(params=[(4, 1), (8, 3)], ids=["4 lanes", "8 lanes in turns"])
def compiler(request: Any, monkeypatch: pytest.MonkeyPatch) -> Interpreted:
    found = Interpreted(*request.param)
    monkeypatch.setattr(cpu, "compiler", lambda: found)
    return found


def plan_of(f: Any) -> CpuPlan:
    """The plan of a compiled function that was called once."""
    (replay,) = [r for some in f.replays.values() for r in some]
    found: CpuPlan = max((e.plan for e in replay.executables), key=lambda p: len(p.program.steps))
    return found


def tensor(*shape: int) -> pf.Tensor:
    return pf.from_numpy(np.random.standard_normal(shape).astype(np.float32))


def test_what_numpy_runs_is_told_to_who_asks(
    compiler: Interpreted, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    f = pf.compile(lambda x: x.lgamma() + 1)
    monkeypatch.setenv("PYFRAME_DEBUG", "kernels")
    f(tensor(3))
    assert "NumPy runs a kernel: lgamma of f32" in capsys.readouterr().err
    assert plan_of(f).unsupported


def test_a_step_is_one_call(compiler: Interpreted) -> None:
    f = pf.compile(lambda x, y: ((x * y + 1.5).exp().sum(0), (x - y).relu()))
    x, y = tensor(7, 33), tensor(33)
    for _ in range(3):
        sums, kept = f(x, y)
        a, b = x.numpy(), y.numpy()
        np.testing.assert_allclose(sums.numpy(), np.exp(a * b + 1.5).sum(0), 1e-4)
        np.testing.assert_array_equal(kept.numpy(), np.maximum(a - b, 0))
    plan = plan_of(f)
    assert not plan.unsupported
    assert len(plan.calls) == 1
    assert compiler.launches >= 3 * len(plan.program.steps)


def test_numpy_and_compiled_steps_in_turns(compiler: Interpreted) -> None:
    """exp of float64 has no form: what comes before and after it has."""
    f = pf.compile(lambda x, w: ((x * 2) @ (w.double().exp().float() @ w) - 1).relu().sum(0))
    x, w = tensor(5, 8), tensor(8, 8)
    a, b = x.numpy(), w.numpy()
    for _ in range(2):
        want = np.maximum(a * 2 @ (np.exp(b) @ b) - 1, 0).sum(0)
        np.testing.assert_allclose(f(x, w).numpy(), want, 1e-3)
    plan = plan_of(f)
    assert plan.code is not None
    assert ["exp of f64" in why for why in plan.unsupported.values()] == [True]


def train(steps: int, wrap: Any) -> tuple[list[float], list[np.ndarray]]:
    pf.manual_seed(0)
    net = pf.nn.Sequential(
        pf.nn.Conv2d(1, 3, 3, padding=1), pf.nn.ReLU(), pf.nn.MaxPool2d(2), pf.nn.Flatten(),
        pf.nn.Linear(27, 8), pf.nn.LayerNorm(8), pf.nn.GELU(), pf.nn.Linear(8, 4),
    )  # fmt: skip
    opt = pf.optim.AdamW(net.parameters(), lr=1e-2)
    step = wrap(training_step(opt, lambda x, y: F.cross_entropy(net(x), y)))
    source = np.random.default_rng(1)
    losses = []
    for _ in range(steps):
        x = pf.from_numpy(source.standard_normal((5, 1, 6, 6), np.float32))
        losses.append(float(step(x, pf.from_numpy(source.integers(0, 4, 5))).item()))
    return losses, [p.detach().numpy().copy() for p in net.parameters()]


def test_arguments_are_read_where_they_lie(compiler: Interpreted) -> None:
    f = pf.compile(lambda x, y: x * 2 + y)
    arrays = [np.random.standard_normal((40, 30)).astype(np.float32) for _ in range(4)]
    odd = np.empty(4 * 1200 + 1, np.uint8)[1:].view(np.float32).reshape(40, 30)
    odd[:] = arrays[0]
    others = [arrays[1].T.copy().T, odd, arrays[2][::-1][::-1]]
    first = None
    for a in [*arrays, *others]:
        for b in (arrays[0], a):
            out = f(pf.from_numpy(a), pf.from_numpy(b))
            np.testing.assert_array_equal(out.numpy(), a * 2 + b)
        plan = plan_of(f) if len(f.replays) == 1 else None
        first = first or plan
    assert first is not None
    assert first.bound == set()


def test_large_results_are_not_copied(
    compiler: Interpreted, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(host_memory, "MIN_POOLED_BYTES", 64)
    copies = []
    copy = host_memory.copy
    monkeypatch.setattr(host_memory, "copy", lambda a: copies.append(a.shape) or copy(a))
    f = pf.compile(lambda x: (x + 1, (x * 2).sum()))
    xs = [tensor(30) for _ in range(5)]
    outs = [f(x) for x in xs]
    for x, (y, total) in zip(xs, outs, strict=True):
        np.testing.assert_array_equal(y.numpy(), x.numpy() + 1)
        np.testing.assert_allclose(total.item(), 2 * x.numpy().sum(), 1e-4, 1e-4)
    assert set(copies) == {()}


def test_a_routine_that_fails_says_what_is_wrong(monkeypatch: pytest.MonkeyPatch) -> None:
    """The library's routines only stop where an index is out of range."""
    index = pf.tensor([0, 3])

    class Stops(Interpreted):
        def routine(self, op: Any, inputs: Any, attrs: Any, out: Any) -> Any:
            return [("stop", [])] if op.name == "take_rows" else None

        def load(self, functions: Any, launches: Any) -> Any:
            code = super().load(functions, [x for x in launches if x.function >= 0])
            starts = iter(code.starts)
            code.starts = [next(starts) if x.function >= 0 else 0 for x in launches]
            stops = any(x.routine for x in launches)
            run = code.run

            def run_or_stop(first: int, last: int) -> None:
                if stops and index.numpy().max() > 3:
                    raise RuntimeError("unreachable executed")
                if not stops:
                    run(first, last)

            code.run = run_or_stop  # type: ignore[method-assign]
            return code

    monkeypatch.setattr(cpu, "compiler", Stops)
    f = pf.compile(lambda x, i: F.embedding(i, x) * 2)
    f(tensor(4, 3), index)
    index[1] = 7
    with pytest.raises(IndexError, match="7"):
        f(tensor(4, 3), index)
