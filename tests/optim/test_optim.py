"""Optimizers: ten steps beside PyTorch's, their state, and their errors."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import pyframe as pf
from pyframe import optim

ROWS: list[tuple[str, dict[str, Any]]] = [
    ("SGD", {"lr": 0.1}),
    ("SGD", {"lr": 0.05, "momentum": 0.9}),
    ("SGD", {"lr": 0.05, "momentum": 0.9, "nesterov": True, "weight_decay": 0.1}),
    ("SGD", {"lr": 0.05, "momentum": 0.5, "dampening": 0.2, "maximize": True}),
    ("Adam", {"lr": 0.05}),
    ("Adam", {"lr": 0.05, "weight_decay": 0.1, "betas": (0.8, 0.9)}),
    ("Adam", {"lr": 0.05, "amsgrad": True}),
    ("Adam", {"lr": 0.05, "maximize": True, "eps": 1e-3}),
    ("Adam", {"lr": 0.0}),
    ("AdamW", {"lr": 0.05}),
    ("AdamW", {"lr": 0.05, "weight_decay": 0.3, "amsgrad": True}),
]
START = [np.array([[1.0, -2.0], [0.5, 3.0]], np.float32), np.array([0.3, -0.1], np.float32)]


def step(t: Any, params: list[Any], optimizer: Any, i: int) -> None:
    w, b = params
    optimizer.zero_grad()
    loss = ((w @ b) ** 2).sum() + (w * w).sum() * (i % 3) + (b * (i + 1)).sum()
    loss.backward()
    optimizer.step()


def pair(name: str, kw: dict[str, Any], device: str, torch: Any) -> Any:
    ours = [pf.from_numpy(a.copy()).to(device).requires_grad_() for a in START]
    theirs = [torch.from_numpy(a.copy()).requires_grad_() for a in START]
    return ours, theirs, getattr(optim, name)(ours, **kw), getattr(torch.optim, name)(theirs, **kw)


def compare(ours: list[Any], theirs: list[Any]) -> None:
    for a, b in zip(ours, theirs, strict=True):
        np.testing.assert_allclose(
            a.detach().cpu().numpy(), b.detach().numpy(), rtol=2e-5, atol=2e-6
        )


@pytest.mark.parametrize(("name", "kw"), ROWS)
def test_ten_steps(name: str, kw: dict[str, Any], device: str, torch: Any) -> None:
    ours, theirs, a, b = pair(name, kw, device, torch)
    for i in range(10):
        step(pf, ours, a, i)
        step(torch, theirs, b, i)
    compare(ours, theirs)
    assert all(p.is_leaf for p in ours)


@pytest.mark.parametrize(("name", "kw"), ROWS)
def test_pytorchs_state_goes_on_here(name: str, kw: dict[str, Any], torch: Any) -> None:
    ours, theirs, a, b = pair(name, kw, "cpu", torch)
    for i in range(4):
        step(torch, theirs, b, i)
    saved = b.state_dict()
    state = {
        k: {n: pf.from_numpy(v.numpy().copy()) for n, v in s.items() if v is not None}
        for k, s in saved["state"].items()
    }
    with pf.no_grad():
        for p, q in zip(ours, theirs, strict=True):
            p.copy_(pf.from_numpy(q.detach().numpy().copy()))
    groups = [{k: v for k, v in g.items() if k in a.param_groups[0]} for g in saved["param_groups"]]
    a.load_state_dict({"state": state, "param_groups": groups})
    for i in range(4, 10):
        step(pf, ours, a, i)
        step(torch, theirs, b, i)
    compare(ours, theirs)
    mine = a.state_dict()["state"]
    assert {k: set(v) for k, v in mine.items()} == {
        k: {n for n, v in s.items() if v is not None} for k, s in b.state_dict()["state"].items()
    }


def test_state_round_trip(device: str) -> None:
    def make() -> Any:
        params = [pf.from_numpy(a.copy()).to(device).requires_grad_() for a in START]
        return params, optim.Adam(params, lr=0.1)

    one, first = make()
    for i in range(3):
        step(pf, one, first, i)
    two, second = make()
    with pf.no_grad():
        for p, q in zip(two, one, strict=True):
            p.copy_(q)
    second.load_state_dict(first.state_dict())
    step(pf, one, first, 3)
    step(pf, two, second, 3)
    assert [p.tolist() for p in one] == [p.tolist() for p in two]


def test_groups_and_closure() -> None:
    a, b = pf.ones(2).requires_grad_(), pf.ones(2).requires_grad_()
    optimizer = optim.SGD([{"params": [a]}, {"params": b, "lr": 1.0}], lr=0.1)
    (a * b).sum().backward()
    assert optimizer.step(lambda: 7) == 7
    assert a.tolist() == pytest.approx([0.9, 0.9])
    assert b.tolist() == [0, 0]
    optimizer.param_groups[0]["lr"] = 10.0
    optimizer.step()
    assert a.tolist() == pytest.approx([-9.1, -9.1])
    optimizer.zero_grad(set_to_none=False)
    assert a.grad is not None
    assert a.grad.tolist() == [0, 0]
    assert repr(optimizer).startswith("SGD (\nParameter Group 0\n    dampening: 0\n")


def test_errors() -> None:
    p = pf.ones(2).requires_grad_()
    for make, kind, message in (
        (lambda: optim.SGD([p], lr=-1), ValueError, "Invalid learning rate: -1"),
        (lambda: optim.SGD([p], nesterov=True), ValueError, "Nesterov momentum requires"),
        (lambda: optim.Adam([p], betas=(1.0, 0.9)), ValueError, "beta parameter at index 0: 1.0"),
        (lambda: optim.Adam([p], eps=-1), ValueError, "Invalid epsilon value: -1"),
        (lambda: optim.AdamW([p], weight_decay=-1), ValueError, "Invalid weight_decay value: -1"),
        (lambda: optim.Adam([]), ValueError, "empty parameter list"),
        (lambda: optim.Adam(p), TypeError, "iterable of Tensors or dicts"),
        (lambda: optim.Adam([3]), TypeError, "can only optimize Tensors"),
        (lambda: optim.Adam([p * 2]), ValueError, "can't optimize a non-leaf"),
        (lambda: optim.Adam([{"params": [p]}, {"params": [p]}]), ValueError, "more than one"),
    ):
        with pytest.raises(kind, match=message):
            make()
    optimizer = optim.Adam([p])
    with pytest.raises(ValueError, match="different number of parameter groups"):
        optimizer.load_state_dict({"state": {}, "param_groups": []})
    with pytest.raises(ValueError, match="doesn't match the size of optimizer's group"):
        optimizer.load_state_dict({"state": {}, "param_groups": [{"params": [0, 1]}]})
    bad = {"state": {0: {"exp_avg": pf.ones(3)}}, "param_groups": [{"params": [0]}]}
    with pytest.raises(ValueError, match=r"exp_avg of parameter 0 has shape \[3\], expected \[2\]"):
        optimizer.load_state_dict(bad)


def test_a_step_makes_nothing_new(gpu: str) -> None:
    """Steps replay one Program: no pipelines, no bind groups, no buffers, one submit."""
    params = [pf.from_numpy(a.copy()).to(gpu).requires_grad_() for a in START]
    optimizer = optim.Adam(params, lr=0.1)
    stats = pf.device(gpu).backend.stats
    for i in range(30):
        if i == 25:
            stats.reset()
        step(pf, params, optimizer, 3)
    assert (stats.pipelines, stats.bind_groups, stats.buffers) == (0, 0, 0)
    assert stats.submits == 5
    optimizer.param_groups[0]["lr"] = 0.03  # another rate is another number, not another kernel
    step(pf, params, optimizer, 3)
    assert stats.pipelines == 0
