"""Every row of tests/samples, compiled for the CPU by each code generator: values and gradients
against PyTorch, or NumPy where that is missing; the same bits in each run."""

from __future__ import annotations

import functools
import importlib.util
import re
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from interpreted import Interpreted
from samples import ROWS, Row
from samples.row import weights

import pyframe as pf
import pyframe.nn.functional as F
from pyframe.codegen.numpy import plan
from pyframe.core.op import REGISTRY
from pyframe.graph.scalar import FUNCTIONS
from pyframe.runtime import cpu

Compiler = Any


def _numpy(monkeypatch: pytest.MonkeyPatch) -> None:
    return None


def _interpreted(monkeypatch: pytest.MonkeyPatch) -> Compiler:
    return Interpreted()


def _wasm(monkeypatch: pytest.MonkeyPatch) -> Compiler:
    pytest.importorskip("wasmtime")
    from natively import Natively

    made = Natively(relaxed=True)
    monkeypatch.setattr(plan, "address", made.address)
    return made


def _llvm(monkeypatch: pytest.MonkeyPatch) -> Compiler:
    pytest.importorskip("llvmlite", reason="llvmlite is missing (the extra `jit`)")
    from pyframe.backend.cpu import compiler

    return compiler()


GENERATORS: dict[str, Callable[[pytest.MonkeyPatch], Compiler]] = {
    "numpy": _numpy,
    "interpreted": _interpreted,
    "wasm": _wasm,
    "llvm": _llvm,
}


@pytest.fixture(params=GENERATORS)
def generator(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """What compiles for the CPU."""
    made = GENERATORS[request.param](monkeypatch)
    monkeypatch.setattr(cpu, "compiler", lambda: made)
    return str(request.param)


@functools.cache
def expected(row: Row) -> tuple[Any, ...]:
    """The oracle's value of a row, and its gradients."""
    t = importlib.import_module("torch" if importlib.util.find_spec("torch") else "pyframe")
    found = row.results(t, *row.tensors(t))
    return tuple(None if t is None else t.detach().resolve_neg().numpy() for t in found)


def computed(row: Row, seed: Any, *xs: Any) -> tuple[Any, ...]:
    return row.results(pf, *xs, seed=seed)


# Of an op's further rows LLVM has two of three, by turns, WebAssembly one. The others are captured
# in ops/test_compiled_rows.py: first rows of ops there by LLVM, further ones by NumPy. What the
# interpreter gives the printers are compared with, too: it has a spread of rows.
FURTHER = [row.name for row in ROWS if ":" in row.name]
USUAL = {row.name for row in ROWS if not row.edges}
FIRST = USUAL & REGISTRY.keys()
LEFT = {"llvm": FIRST | {*FURTHER[::3]}, "numpy": USUAL - FIRST}
LEFT["wasm"] = {*FURTHER} - {*FURTHER[1::3]}
CASES = [
    (g, row) for g in GENERATORS
    for row in ROWS[:: 8 if g == "interpreted" else 1] if row.name not in LEFT.get(g, ())
]  # fmt: skip


@pytest.mark.parametrize(
    ("generator", "row"), CASES, indirect=["generator"], ids=lambda v: getattr(v, "name", v)
)
def test_row(row: Row, generator: str) -> None:
    if row.scipy:
        pytest.importorskip("scipy", reason="SciPy is missing (the extra `special`)")
    want = expected(row)
    step = pf.compile(functools.partial(computed, row))
    runs = []
    for _ in range(2):
        seed = weights(pf, pf.from_numpy(want[0].copy()))
        with warnings.catch_warnings(action="ignore", category=RuntimeWarning):  # of captures
            got = step(seed, *row.tensors(pf))
        runs.append([None if t is None else t.detach().numpy() for t in got])
    for n, (first, second, right) in enumerate(zip(*runs, want, strict=True)):
        tol = row.tol * (5 if n else 1)
        assert (first is None) == (right is None)
        if right is not None:
            np.testing.assert_array_equal(first, second)
            np.testing.assert_allclose(first, right, rtol=1e-5 * tol, atol=2e-6 * tol)
    replays = [r for some in step.replays.values() for r in some]
    reasons = {why for r in replays for e in r.executables for why in e.plan.unsupported.values()}
    names = {re.sub(r"^(\w+) of \w+ has no form.*", r"\1", why) for why in reasons}
    assert names <= {name for name, known in FUNCTIONS.items() if known.definition is None}


def test_an_epilogue_reads_through_two_views(generator: str) -> None:
    def step(x: Any, w: Any, y: Any) -> Any:
        turned = y.reshape(2, 6, 2, 4, 2, 4).permute(0, 1, 3, 2, 5, 4)
        return F.conv2d(x, w) + turned.reshape(2, 6, 8, 8)

    xs = [pf.from_numpy(np.cos(np.arange(8.0 * n, dtype=np.float32))) for n in (128, 6, 96)]
    shapes = (2, 8, 8, 8), (6, 8, 1, 1), (2, 6, 8, 8)
    xs = [x.view(shape) for x, shape in zip(xs, shapes, strict=True)]
    np.testing.assert_allclose(pf.compile(step)(*xs).numpy(), step(*xs).numpy(), 1e-4, 1e-5)


def test_what_has_a_form_is_one_call(generator: str) -> None:
    step = pf.compile(lambda x, y: (F.gelu(x * y + 1.5).sum(0), (x - y).relu() @ y.T))
    x, y = pf.randn(7, 33), pf.randn(7, 33)
    for _ in range(2):
        step(x, y)
    (replay,) = [r for some in step.replays.values() for r in some]
    (executable,) = replay.executables
    assert executable.plan.unsupported == {}
    products = generator == "interpreted"  # which the interpreter leaves to NumPy
    assert generator == "numpy" or len(executable.plan.calls) == 1 + products
