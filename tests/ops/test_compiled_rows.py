"""Every row of tests/samples as a compiled function: a replay gives what eager code gives."""

from __future__ import annotations

import re
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from samples import ROWS, Row

import pyframe as pf
import pyframe.nn.functional as F
from pyframe.core import dispatch as _dispatch, modes as _modes
from pyframe.core.op import REGISTRY
from pyframe.runtime import cpu

# On the CPU the first row of each op, and each third of its further ones, all of which
# backend/test_generators.py captures too; the software adapter compiles shaders too slowly for more
# than a spread.
MANY = [r for r in ROWS if not r.edges]
FURTHER = [r.name for r in MANY if ":" in r.name]
LEFT = {*FURTHER} - {*FURTHER[::3]}
USUAL = [r for r in MANY if r.name not in LEFT]
CASES = [("cpu", r) for r in USUAL] + [("gpu", r) for r in MANY[::24] if not r.cpu]
MORE = ROWS[::4]  # replayed twice; without gradients, too
# Why a capture gives up: it reads values (see `reads`), or a plan has no such dtype
READS, NO_PLAN = "reads the value", r"computes \w+ of (complex|bfloat)|reads bytes as another dtype"


def forward(row: Row, *xs: Any) -> Any:
    with pf.no_grad():
        return row.call(pf, F, *xs)


def backward(row: Row, *xs: Any) -> Any:
    y = row.call(pf, F, *xs)
    count = pf.arange(y.numel(), dtype=pf.float32, device=y.device)
    seed = pf.cos(count).reshape(y.shape).to(y.dtype)
    wanted = [x for x in xs if x.requires_grad]
    return y, *pf.autograd.grad(y, wanted, seed, allow_unused=True)


@pytest.fixture
def reads(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Grows when an op reads a value: one whose shape depends on it, or that the host computes."""
    found: list[str] = []

    def spy(fn: Callable[..., Any], what: str) -> Callable[..., Any]:
        def run(*args: Any, **kwargs: Any) -> Any:
            if _modes.mode.capture is None:  # a function that changes a list is not replayed
                found.append(what)
            return fn(*args, **kwargs)

        return run

    monkeypatch.setattr(pf.Tensor, "_host", spy(pf.Tensor._host, "read"))
    monkeypatch.setattr(_dispatch, "run_on_host", spy(_dispatch.run_on_host, "on the host"))
    return found


@pytest.mark.parametrize(("device", "row"), CASES, ids=lambda v: getattr(v, "name", v))
def test_compiled(
    device: str, row: Row, reads: list[str], request: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The first row of each registered op by the compiler of the CPU; all others by plans that call
    NumPy, which are captured and replayed the same (backend/test_generators.py compiles them)."""
    if device == "gpu":
        request.getfixturevalue("gpu")
    elif row.name not in REGISTRY:
        monkeypatch.setattr(cpu, "compiler", lambda: None)
    steps = [backward] if row.grad else [forward]
    more = row in MORE
    for step in steps + [forward] * (row.grad and device == "cpu" and more):
        compiled = pf.compile(step)
        for call in range(2 + more):
            args = row.tensors(pf, device, call)
            reads.clear()
            want = step(row, *args)
            values_matter = bool(reads)
            with warnings.catch_warnings(action="ignore", category=RuntimeWarning):
                got = compiled(row, *row.tensors(pf, device, call))
            same(got, want, row.tol)
        if READS in compiled.eager:
            assert values_matter, compiled.eager
        else:
            assert not compiled.eager or re.search(NO_PLAN, compiled.eager), compiled.eager
            assert compiled.eager or any(r.hits for some in compiled.replays.values() for r in some)


def same(got: Any, want: Any, tol: float) -> None:
    if isinstance(want, tuple):
        for g, w in zip(got, want, strict=True):
            same(g, w, tol)
    elif want is None:
        assert got is None
    else:
        assert (got.dtype, got.shape, got.device) == (want.dtype, want.shape, want.device)
        assert got.requires_grad == want.requires_grad
        values = [x.detach().cpu().numpy() for x in (got, want)]
        np.testing.assert_allclose(*values, rtol=1e-5 * tol, atol=2e-6 * tol)


def test_turned_operand_of_no_plan() -> None:
    """The capture ends once, though the operand is turned over before the op that no plan has."""
    compiled = pf.compile(lambda x: x * 2 + x)
    x = pf.arange(12.0).reshape(4, 3).to(pf.complex64)[1:].T
    for _ in range(2):
        with warnings.catch_warnings(action="ignore", category=RuntimeWarning):
            y = compiled(x)
        assert y.tolist() == [[9.0 + 3 * i, 18 + 3 * i, 27 + 3 * i] for i in range(3)]
        assert y.stride() == (1, 3)
    assert re.search(NO_PLAN, compiled.eager)


@pytest.mark.parametrize("leaf", [True, False])
def test_view_of_an_argument(leaf: bool, device: str) -> None:
    """What a replay returns of an argument is a view of it, with its history."""
    compiled = pf.compile(lambda x: (x.T[1], x.detach().T))
    for _ in range(3):
        w = pf.ones(2, 3, device=device, requires_grad=True)
        x = w if leaf else w * 1
        y, cut = compiled(x)
        assert (y.requires_grad, y._base is x, cut.requires_grad) == (True, True, False)
        y.sum().backward()
        assert w.grad.tolist() == [[0, 1, 0]] * 2
        with pf.no_grad():
            cut[0] = 7
        assert x[:, 0].tolist() == [7, 7]


@pytest.mark.parametrize("fn", [lambda x: x.mul_(6), lambda x: x.T.mul_(6).sum()])
def test_write_to_an_argument_with_history(fn: Callable[..., Any], device: str) -> None:
    """No replay could change the argument's history: it runs eagerly, and says so."""
    compiled = pf.compile(fn)
    for call in range(3):
        w = pf.full((2, 2), 3.0, device=device, requires_grad=True)
        x = w * 1 if call else (w * 1)[:]
        if call:
            y = compiled(x)
        else:
            with pytest.warns(RuntimeWarning, match="writes to an argument that requires grad"):
                y = compiled(x)
        assert x.grad_fn is not None
        y.sum().backward()
        assert w.grad.tolist() == [[6, 6]] * 2
