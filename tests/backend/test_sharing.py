"""Kernels whose texts differ in whole numbers alone share one text, and compute what they did."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import pyframe as pf
import pyframe.nn.functional as F
from pyframe.core.limits import Limits
from pyframe.runtime.offline import offline_device
from pyframe.tools.bench.plans import GPT2, LARGE_GPU, BenchModel, Tagger

REAL_KERNELS = True

SIZES = (40, 56, 72)

# Results of one Program, and in how many texts they are computed; 0: in fewer than kernels
SHARED: dict[str, tuple[Callable[[Any, Any], list[Any]], int]] = {
    "products of rows": (lambda x, i: [x[n : n + 8, :24] @ x[:24, :16] for n in SIZES], 1),
    "longer products": (lambda x, i: [x[:8, :n] @ x[:n, :16] for n in SIZES], 1),
    "more rows of products": (lambda x, i: [x[:n, :24] @ x[:24, :16] for n in SIZES], 1),
    "sums of columns": (lambda x, i: [x[:64, : 4 * n].contiguous().sum(0) for n in (4, 5)], 1),
    "maps of more rows": (lambda x, i: [x[:n].exp() for n in SIZES], 1),
    "maps elsewhere": (lambda x, i: [x[n : n + 8].exp() for n in SIZES], 1),
    "padded": (lambda x, i: [F.pad(x[:8, :8], (0, 0, n, 100 - n)) * 2 for n in SIZES], 1),
    "rows by index": (lambda x, i: [x[:n].index_select(0, i[: n // 2]) for n in SIZES], 0),
    "rows put": (lambda x, i: [x[:n].index_copy(0, i[:n], x[80 : 80 + n]) for n in SIZES], 0),
    "rows added": (lambda x, i: [x[:n].index_add(0, i[:n], x[80 : 80 + n]) for n in SIZES], 0),
    "divided otherwise": (lambda x, i: [x[:, :n].reshape(-1, 32).T.exp() for n in (32, 64)], 2),
    "sorted": (lambda x, i: [x[:n, :40].sort(-1)[0] for n in SIZES], 0),
    "searched": (
        lambda x, i: [pf.searchsorted(x[0, :n].cumsum(0), x[1, :n].contiguous()) for n in SIZES], 0
    ),
    "summed up": (lambda x, i: [x[:n, :n].cumsum(-1) for n in SIZES], 0),
}  # fmt: skip


@pytest.mark.parametrize("name", SHARED)
def test_what_shares_a_text_computes_what_it_did(gpu: str, name: str) -> None:
    make, texts = SHARED[name]
    x = np.random.default_rng(0).random((160, 96), np.float32)
    index = np.arange(96) % 37
    found = []
    for device in ("cpu", gpu):
        step = pf.compile(make)
        args = pf.tensor(x, device=device), pf.tensor(index, device=device)
        found.append([y.cpu().numpy() for y in step(*args)])
    for got, want in zip(*found, strict=True):
        np.testing.assert_allclose(want, got, 1e-4, 1e-5)
    made = [s.code for p in step.programs for s in p.texts["wgsl"]]
    assert len(set(made)) == texts or (not texts and len(set(made)) < len(made))


def _texts(plan: BenchModel, limits: Limits) -> set[str]:
    """The texts of a training step."""
    with offline_device(limits) as device:
        net = plan.net().to(device)
        x = pf.zeros(plan.shape, dtype=pf.int64, device=device)
        step: Any = pf.compile(plan.training(net))
        step(x, x.flatten())
        return {s.code for p in step.programs for s in p.texts["wgsl"]}


def test_a_recurrent_net_has_as_many_texts_for_any_number_of_steps() -> None:
    counts = []
    for steps in (8, 20):
        plan = BenchModel("", lambda: Tagger(50, 64, 1, 50), (16, steps), text=True)
        counts.append(len(_texts(plan, LARGE_GPU)))
    assert max(counts) <= 32
    assert max(counts) - min(counts) <= 2  # joining many gradients takes a first and a last kernel


def test_a_small_gpt_has_few_texts() -> None:
    for layers in (2, 4):
        plan = BenchModel("", lambda n=layers: GPT2(65, 64, 64, n, 4), (8, 64), text=True)
        texts = _texts(plan, LARGE_GPU)
        assert len(texts) <= 35
        assert sum(map(len, texts)) <= 124e3
