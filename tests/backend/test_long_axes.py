"""Axes of more than 65,535 elements: Mesa's software driver ends a thread's loops after so many
rounds of all of them, and says nothing; so no kernel may need more."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest

import pyframe as pf
from pyframe.codegen.wgsl import generate
from pyframe.core.limits import Limits
from pyframe.runtime.offline import offline_device

LOOP = re.compile(r"^  for \(var \w+ = \w+; \w+ < (\d+); \w+ \+= (\d+)\)", re.MULTILINE)


def rows_again(row: Any, scale: Any, times: int) -> Any:
    """Two walks over each row for each time: one kernel has them all."""
    x = row * scale
    for _ in range(times):
        x = x - x.amax(-1, True)
        x = x / (x.abs().amin(-1, True) + 2.0) + 0.1
    return x.amin(-1)


@pytest.mark.parametrize("times", [1, 4, 9])
@pytest.mark.parametrize("columns", [8192, 70_001])
def test_rounds_of_all_loops_of_a_thread(columns: int, times: int) -> None:
    """Told by the texts, of a device that computes nothing."""
    for kind in ("", "software"):
        limits = Limits(kind=kind)
        with offline_device(limits) as device:
            run = pf.compile(rows_again)
            run(*[pf.zeros(n, device=device) for n in ((1, columns), (300, 1))], times)
            kernels = [k for p in run.programs for k in p.kernels]
        most = 0
        for kernel in kernels:
            found = LOOP.findall(generate(kernel, limits).code)
            most = max(most, sum(-(-int(size) // int(step)) for size, step in found))
        assert (4096 if kind else 16) <= most <= 65_535


def test_many_walks_over_a_row(gpu: str) -> None:
    """Nine loops of 8192 rounds each, if nothing is done about it."""
    x, scale = np.random.default_rng(0).random((2, 8192), np.float32), np.ones((65, 1), np.float32)
    found = [
        rows_again(*[pf.tensor(v, device=d) for v in (x[:1], scale)], 4).cpu().numpy()
        for d in (gpu, "cpu")
    ]
    np.testing.assert_allclose(*found, 1e-5)


def test_columns_by_the_ten_thousands(gpu: str) -> None:
    """What each kind of kernel gives of one row: loops, scans, sorted runs that are merged."""
    n = 65_601
    x = np.random.default_rng(0).permutation(n).astype(np.float32)[None] / n
    y = pf.tensor(x, device=gpu)
    expected = {
        "sum": x.sum(-1, np.float64), "amax": x.max(-1), "argmax": x.argmax(-1),
        "argmin": x.argmin(-1), "cumsum": x.cumsum(-1, np.float64),
        "softmax": np.exp(x) / np.exp(x).sum(-1, dtype=np.float64),
        "sort": np.sort(x), "argsort": np.argsort(x, kind="stable"),
    }  # fmt: skip
    for name, want in expected.items():
        got = getattr(y, name)(-1)
        got = (got[0] if isinstance(got, tuple) else got).cpu().numpy()
        np.testing.assert_allclose(got, want, 1e-5, err_msg=name)
