"""Averaged weights: beside PyTorch's, their state, and what an update costs."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from compared import alike, array

import pyframe as pf
from pyframe import nn, optim

HOW: dict[str, Callable[[Any], dict[str, Any]]] = {
    "swa": lambda u: {},
    "swa, buffers": lambda u: {"use_buffers": True},
    "ema": lambda u: {"multi_avg_fn": u.get_ema_multi_avg_fn(0.9)},
    "ema, buffers": lambda u: {"multi_avg_fn": u.get_ema_multi_avg_fn(0.75), "use_buffers": True},
    "ema, one by one": lambda u: {"avg_fn": u.get_ema_avg_fn(0.6)},
    "swa in place": lambda u: {"multi_avg_fn": u.get_swa_multi_avg_fn()},
    "swa, one by one": lambda u: {"avg_fn": u.get_swa_avg_fn()},
    "a user's": lambda u: {"avg_fn": lambda a, p, n: 0.1 * a + 0.9 * p + n * 0.01},
}


def net_of(lib: Any) -> Any:
    """Layers with parameters, buffers and running statistics."""
    return lib.nn.Sequential(lib.nn.Linear(3, 4), lib.nn.BatchNorm1d(4), lib.nn.Linear(4, 2))


def change(lib: Any, net: Any, i: int) -> None:
    rng = np.random.default_rng(i)
    with lib.no_grad():
        for x in (*net.parameters(), *net.buffers()):
            if x.ndim:
                x.copy_(lib.from_numpy(rng.standard_normal(tuple(x.shape)).astype(np.float32)))
            else:
                x.fill_(3 * i)


def arrays(state: Any) -> dict[str, Any]:
    return {k: array(v) for k, v in state.items()}


def agree(ours: Any, theirs: Any) -> None:
    alike(ours.state_dict(), theirs.state_dict(), 1e-5, 1e-6)


@pytest.mark.parametrize("key", HOW)
def test_averages(torch: Any, key: str) -> None:
    made = []
    for lib in (pf, torch):
        utils = lib.optim.swa_utils
        net = net_of(lib)
        change(lib, net, 0)
        averaged = utils.AveragedModel(net, **HOW[key](utils))
        made.append((averaged, net))
    (ours, a), (theirs, b) = made
    agree(ours, theirs)
    for i in range(1, 6):
        change(pf, a, i)
        change(torch, b, i)
        ours.update_parameters(a)
        theirs.update_parameters(b)
        agree(ours, theirs)
    assert repr(ours) == repr(theirs)
    assert ours.n_averaged.item() == 5
    assert {n for n, _ in ours.named_parameters()} == {n for n, _ in theirs.named_parameters()}
    x = np.ones((2, 3), np.float32)
    alike(ours.eval()(pf.from_numpy(x)), theirs.eval()(torch.from_numpy(x)))


def test_what_is_not_finite_is_no_part_of_the_first_average() -> None:
    net = nn.Linear(2, 2)
    averaged = optim.swa_utils.AveragedModel(net)
    with pf.no_grad():
        averaged.module.weight.fill_(float("nan"))
    averaged.update_parameters(net)
    assert averaged.module.weight.tolist() == net.weight.tolist()


def test_averages_on_another_device(gpu: str) -> None:
    net = net_of(pf)
    averaged = optim.swa_utils.AveragedModel(net, device=gpu)
    change(pf, net, 1)
    averaged.update_parameters(net)
    change(pf, net, 2)
    averaged.update_parameters(net)
    assert {str(x.device) for x in averaged.state_dict().values()} == {gpu}
    plain = optim.swa_utils.AveragedModel(net)
    for i in (1, 2):
        change(pf, net, i)
        plain.update_parameters(net)
    agree(averaged, plain)


def test_statistics_are_updated(torch: Any) -> None:
    made = []
    for lib in (pf, torch):
        net = lib.nn.Sequential(net_of(lib), lib.nn.BatchNorm1d(2, momentum=0.3))
        rng = np.random.default_rng(4)
        with lib.no_grad():
            for p in net.parameters():
                p.copy_(lib.from_numpy(rng.standard_normal(tuple(p.shape)).astype(np.float32)))
        batches = [lib.from_numpy(rng.standard_normal((5, 3)).astype(np.float32)) for _ in range(4)]
        net.eval()
        lib.optim.swa_utils.update_bn([batches[0], [batches[1], 3], (batches[2],)], net)
        assert not net.training
        assert [m.momentum for m in net.modules() if hasattr(m, "momentum")] == [0.1, 0.3]
        lib.optim.swa_utils.update_bn(iter(batches), net.train(), device="cpu")
        assert net.training
        lib.optim.swa_utils.update_bn([], lib.nn.Linear(1, 1))
        made.append(net)
    agree(*made)


def test_an_update_is_few_kernels(gpu: str, steady: Any) -> None:
    net = nn.Sequential(*[nn.Linear(4, 4) for _ in range(6)]).to(gpu)
    averaged = optim.swa_utils.AveragedModel(
        net, multi_avg_fn=optim.swa_utils.get_ema_multi_avg_fn()
    )
    update = pf.compile(lambda: averaged.update_parameters(net))
    stats = steady(update)
    assert update.captured == 1
    assert stats.dispatches / 4 <= 4, "of twelve parameters"
    assert stats.bytes_uploaded == 0
