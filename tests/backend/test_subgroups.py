"""Reductions whose threads hand each other values within subgroups, of any size, or in none."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

import pyframe as pf
from pyframe.backend.base import RefusedError
from pyframe.codegen.wgsl import generate, reduction
from pyframe.core.limits import Limits
from tests.backend.cases import in_rows_of_three, limited

REAL_KERNELS = True

# How many threads can hand each other values; 0: some subgroup is not full. And workgroup memory.
FORMS = ["as it is", "1", "2", "4", "0", "workgroup memory"]


@pytest.fixture(params=FORMS)
def form(request: Any, gpu: str, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    has = pf.device(gpu).backend.limits
    if not has.subgroups:
        pytest.skip("this GPU has no subgroups, or its driver takes no numbers of them")
    text, most = reduction.SUBGROUPS, request.param
    if most == "0":
        text = text.replace("== {n}u", "== 1u")
    elif most.isdigit():
        text = text.replace("min(size,", f"min({most}u,")
    assert (text != reduction.SUBGROUPS) == most.isdigit()
    monkeypatch.setattr(reduction, "SUBGROUPS", text)
    with limited(Limits(float16=has.float16, subgroups=most != "workgroup memory")):
        yield most


def hard(*shape: int) -> np.ndarray:
    """Numbers with ties, infinities and nan."""
    x = np.random.default_rng(0).integers(-9, 10, shape).astype(np.float32)
    x[0, -1], x[-1, 0] = np.inf, np.nan
    x[len(x) // 2] = -np.inf
    return x


ROWS: dict[str, tuple[tuple[int, int], Callable[[Any], Any]]] = {
    "softmax": ((5, 300), lambda x: pf.softmax(pf.nan_to_num(x, 0.0, 5.0, -5.0), -1)),
    "largest": ((7, 2000), lambda x: x.amax(-1)),
    "argmax": ((6, 130), lambda x: x.argmax(-1)),
    "first of equal ones": ((9, 40), lambda x: pf.zeros_like(x).argmin(-1)),
    "all of it": ((40, 300), lambda x: pf.nan_to_num(x, 0.0, 5.0, -5.0).sum()),
    "complex": (
        (3, 100),
        lambda x: pf.complex(pf.nan_to_num(x, 0.0, 1.0, 2.0), x * 0 + 1.0)[1].sum(),
    ),
    "half": ((5, 200), lambda x: pf.nan_to_num(x, 0.0, 5.0, -5.0).half().sum(-1)),
}


@pytest.mark.parametrize("row", ROWS)
def test_reductions(form: str, gpu: str, row: str) -> None:
    shape, run = ROWS[row]
    if row == "half" and not pf.device(gpu).backend.limits.float16:
        pytest.skip("this GPU has no float16")
    x = hard(*shape)
    got, want = [run(pf.tensor(x, device=d)).cpu().numpy() for d in (gpu, "cpu")]
    np.testing.assert_allclose(got, want, 1e-5, 1e-6)


def test_texts(form: str, gpu: str) -> None:
    run = pf.compile(lambda x: x.sum(-1))
    for rows in (3, 0):
        assert run(pf.ones(rows, 100, device=gpu)).cpu().tolist() == [100] * rows
    limits = pf.device(gpu).backend.limits
    text = generate(run.programs[0].kernels[0], limits).code
    assert ("subgroupShuffleXor" in text) == limits.subgroups
    assert text.count("workgroupBarrier") == (2 if limits.subgroups else 3)
    software = dataclasses.replace(limits, kind="software")
    assert "subgroup" not in generate(run.programs[0].kernels[0], software).code


def test_more_workgroups_than_a_dim_has(
    form: str, gpu: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The last row of them is not full."""
    grids = in_rows_of_three(monkeypatch, reduction)
    x = pf.ones(53, 33, device=gpu)
    assert (x.softmax(-1) * 33).sum(-1).cpu().tolist() == pytest.approx([33] * 53)
    assert grids[0] % 3


def test_a_driver_that_refuses_them(gpu: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Workgroup memory takes their place everywhere, with one warning."""
    d = pf.device(gpu)
    make = type(d.backend)._pipeline

    def pipeline(self: Any, code: str, label: str) -> Any:
        if "subgroup" in code:
            raise RefusedError(label, ValueError("no such builtin"), code)
        return make(self, code, label)

    monkeypatch.setattr(type(d.backend), "_pipeline", pipeline)
    x = pf.ones(3, 100, device=gpu)
    told = (
        f"{re.escape(d.backend.adapter)} refuses kernel sum.* 'subgroups' .no such builtin.: 'work"
    )
    with limited(dataclasses.replace(d.backend.limits, subgroups=True)):
        with pytest.warns(RuntimeWarning, match=told):
            assert x.sum(-1).cpu().tolist() == [100] * 3
        assert x.softmax(-1).sum().item() == pytest.approx(3)
        assert not d.backend.limits.subgroups
