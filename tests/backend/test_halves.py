"""float16, which kernels compute in float32: on the CPU as LLVM compiles it, and as WGSL's text."""

from __future__ import annotations

import importlib
import re
from typing import Any

import numpy as np
import pytest

import pyframe as pf
from pyframe.codegen.wgsl import generate
from pyframe.core.limits import Limits
from pyframe.runtime import cpu
from pyframe.runtime.offline import offline_device
from tests.backend.test_cpu_compiled import plan_of

HALVES = np.arange(1 << 16, dtype=np.uint16).view(np.float16)  # each that there is
NUMBERS = HALVES[np.isfinite(HALVES)][:63_488].reshape(-1, 62)


def steps(x: Any, y: Any) -> tuple[Any, ...]:
    """The value of each op is rounded, a sum once."""
    return (
        x * 1.5 + y, x.float() * 3, (x.float() * 1.0009766 + 1e-8).half(), x > y, -x,
        pf.where(x < y, x, y), (x * 0.01).sum(-1), x.amax(-1), x.argmin(-1),
    )  # fmt: skip


def expected(x: np.ndarray, y: np.ndarray) -> tuple[np.ndarray, ...]:
    a, one = x.astype(np.float32), np.float32(1.0009766)
    with np.errstate(over="ignore"):
        return (
            (a * np.float32(1.5)).astype(np.float16) + y, a * 3,
            (a * one + np.float32(1e-8)).astype(np.float16), x > y, -x, np.where(x < y, x, y),
            (a * np.float32(0.01)).astype(np.float16).sum(-1, np.float64).astype(np.float16),
            x.max(-1), x.argmin(-1),
        )  # fmt: skip


def test_every_half_on_the_compiled_cpu(monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("llvmlite", reason="llvmlite is missing (the extra `jit`)")
    compiler = importlib.import_module("pyframe.backend.cpu").compiler()
    monkeypatch.setattr(cpu, "compiler", lambda: compiler)
    same = pf.compile(lambda x: (x.float(), x.float().half(), x.isnan()))
    wide, back, none = (t.numpy() for t in same(pf.from_numpy(HALVES)))
    np.testing.assert_array_equal(wide, HALVES.astype(np.float32))
    np.testing.assert_array_equal(back, HALVES)
    np.testing.assert_array_equal(none, np.isnan(HALVES))
    run, other = pf.compile(steps), NUMBERS[::-1].copy()
    for _ in range(2):
        found = run(pf.from_numpy(NUMBERS), pf.from_numpy(other))
    for n, (got, want) in enumerate(zip(found, expected(NUMBERS, other), strict=True)):
        assert got.numpy().dtype == want.dtype
        close = 1e-3 if n in (2, 6) else 0  # another order, or a fused product: a last bit
        np.testing.assert_allclose(got.numpy(), want, close, 1e-7 if close else 0, err_msg=str(n))
    assert plan_of(run).unsupported == {}


def test_halves_as_text() -> None:
    """Buffers hold f16, arithmetic is f32's, and what is stored is rounded once."""
    limits = Limits(float16=True, kind="software")  # where tiles of products hold no halves
    with offline_device(limits) as device:
        given = [pf.zeros(8, 256, device=device, dtype=pf.float16) for _ in range(2)]
        for make, bindings in (
            (lambda x, y: x * 1.5 + y, "f16 f16 f16"), (lambda x, y: x.float() * 3, "f16 f32"),
            (lambda x, y: x.sum(-1), "f16 f16"), (lambda x, y: x @ y.T, "f16 f16 f16"),
            (lambda x, y: (x.float() * 3).int(), "f16 i32"),
        ):  # fmt: skip
            run = pf.compile(make)
            run(*given)
            (kernel,) = (k for p in run.programs for k in p.kernels)
            text = generate(kernel, limits).code
            assert text.startswith("enable f16;\n")
            held = re.findall(r"var<storage, \w+> b\d: array<(?:vec4<)?(\w+)>", text)
            assert " ".join(held) == bindings
            body = re.sub(r"(?m)^@group.*\n|^enable f16;\n|array<vec4<f16>, \d+>", "", text)
            rounded = re.findall(r"= f16\(|vec4<f16>\(", body)
            assert len(rounded) == bindings.endswith("f16"), text
            assert not re.search(r"\bvar \w+: f16|: f16\b", body), text
