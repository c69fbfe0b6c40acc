"""Tensors: making, dtypes and promotion, printing, moving between devices."""

from __future__ import annotations

import asyncio
from typing import Any

import numpy as np
import pytest

import pyframe as pf
from pyframe.core import dtypes
from pyframe.ops.shape import join


def test_default_device_and_dtype(gpu: str) -> None:
    pf.set_default_device(gpu)
    assert str(pf.ones(2).device) == "gpu"
    assert str((pf.rand(2) + 1).device) == "gpu"
    pf.set_default_device(None)
    pf.set_default_dtype(pf.float64)
    assert pf.tensor(1.5).dtype is pf.float64
    assert (pf.ones(2, dtype=pf.int64) / 2).dtype is pf.float64


PRINTED = [
    "t.arange(4)", "t.ones(2, 3)", "t.tensor([1.5, -2.25, 1e6])", "t.tensor([1e-5, 1.0])",
    "t.tensor(3.0)", "t.tensor([True, False])", "t.zeros(0)", "t.zeros(2, 0)",
    "t.tensor([1, -100])",
    "t.tensor([1.0, float('nan'), float('inf')])", "t.ones(2, dtype=t.float64)",
    "t.ones(2, requires_grad=True)", "t.arange(3, dtype=t.int32)",
    "t.tensor(1j)", "t.tensor([1 + 2j, 3.5])", "t.tensor([1.25 - 2j, 1000, float('nan')])",
    "t.zeros(2, dtype=t.complex128)", "t.arange(2000.)", "t.arange(3000).view(50, 60)",
    "t.zeros(90)", "t.tensor([1e8])", "t.tensor([True, True])", "t.arange(24.).view(2, 3, 4) / 3",
    "t.zeros(3, 3, 600)", "t.full((10,), 1 / 3, dtype=t.float64, requires_grad=True)",
    "t.tensor([5000.0, 1.0])", "t.tensor([-1 - 1j] * 9)",
]  # fmt: skip


@pytest.mark.parametrize("text", PRINTED)
def test_printing(text: str, torch: Any) -> None:
    want = repr(eval(text, {"t": torch})).replace("torch.", "pyframe.")
    assert repr(eval(text, {"t": pf})) == want


def test_printing_shows_device_and_history(device: str) -> None:
    x = pf.ones(2, device=device).requires_grad_()
    shown = repr(x * 2)
    assert "grad_fn=<MulBackward0>" in shown
    assert ("device='gpu'" in shown) == (device == "gpu")
    assert "..." in repr(pf.ones(2000, device=device))


@pytest.mark.parametrize("join", [pf.cat, pf.stack])
def test_many_tensors_are_joined(join: Any, device: str) -> None:
    rows = [pf.full((2, 3), float(i), device=device, requires_grad=True) for i in range(150)]
    whole = join(rows, 1)
    parts = [r.detach().cpu().numpy() for r in rows]
    assert np.array_equal(whole.detach().cpu().numpy(), getattr(np, {pf.cat: "concatenate",
                          pf.stack: "stack"}[join])(parts, 1))  # fmt: skip
    weights = pf.arange(float(whole.numel()), device=device).reshape(whole.shape)
    (whole * weights).sum().backward()
    wanted = weights.cpu().numpy().reshape(2, 150, 3)[:, 149]
    assert np.array_equal(rows[149].grad.cpu().numpy(), wanted)


def test_many_tensors_need_no_op_of_their_number() -> None:
    before = join._cat_op.cache_info().currsize
    for n in (1000, 1001, 1002):
        pf.cat([pf.ones(1)] * n)
    assert join._cat_op.cache_info().currsize - before <= 8


def test_reading(device: str) -> None:
    x = pf.arange(6.0, device=device).reshape(2, 3)

    async def twins() -> Any:
        return [await x.tolist_async(), await x[0, 1].item_async(), await x.T.numpy_async()]

    lists, one, array = asyncio.run(twins())
    assert lists == x.tolist() == [[0, 1, 2], [3, 4, 5]]
    assert one == 1
    assert array.tolist() == [[0, 3], [1, 4], [2, 5]]
    assert f"{x[1, 0]:.2f}" == "3.00"
    assert int(x[1, 2]) == 5
    assert [row.tolist() for row in x] == x.tolist()
    assert len(x) == 2
    assert x.shape.numel() == 6


def test_dtype_repr_and_lookup() -> None:
    assert repr(pf.float32) == "pyframe.float32"
    assert dtypes.dtype.from_numpy(np.int8) is pf.int8
    with pytest.raises(TypeError, match="convert it with .astype first"):
        pf.from_numpy(np.ones(2, np.longdouble))


def test_steps_find_their_bind_groups_again(gpu: str) -> None:
    """After a few steps, batches and all, a step makes nothing: its buffers come round."""
    from pyframe import nn, optim

    net = nn.Sequential(nn.Linear(20, 16), nn.ReLU(), nn.Linear(16, 4)).to(gpu)
    optimizer = optim.Adam(net.parameters())
    stats = pf.device(gpu).backend.stats
    rng = np.random.default_rng(0)
    live: set[int] = set()
    for i in range(15):
        if i == 8:
            stats.reset()
            live.clear()
        if i == 14:  # another rate is another number, not another kernel
            optimizer.param_groups[0]["lr"] = 0.03
        x = pf.from_numpy(rng.random((8, 20), np.float32)).to(gpu)
        y = pf.from_numpy(rng.integers(0, 4, 8)).to(gpu)
        optimizer.zero_grad()
        nn.functional.cross_entropy(net(x), y).backward()
        optimizer.step()
        live.add(stats.bytes_live)
    assert (stats.pipelines, stats.bind_groups, stats.buffers, stats.submits) == (0, 0, 0, 7)
    assert len(live) == 1
