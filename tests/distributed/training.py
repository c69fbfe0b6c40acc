"""Training by the processes of a job (checks.py): with the others and, for comparison, alone with
all their shares of the batch."""

from __future__ import annotations

import copy
import re
import warnings
from typing import Any

import numpy as np
import pytest

import pyframe as pf
import pyframe.nn.functional as F
from pyframe import distributed as dist, nn, optim
from pyframe.nn.parallel import DistributedDataParallel as DDP  # noqa: N817
from pyframe.optim.zero import ZeroRedundancyOptimizer

STEPS = 10


def mlp() -> Any:
    return nn.Sequential(nn.Linear(20, 32), nn.ReLU(), nn.Linear(32, 10))


def cnn() -> Any:
    layers = nn.Conv2d(1, 4, 3, bias=False), nn.BatchNorm2d(4), nn.ReLU(), nn.Flatten()
    return nn.Sequential(*layers, nn.Linear(64, 10))


# name -> (network, shape of a sample, optimizers)
NETS = {"mlp": (mlp, (20,), ("sgd", "adamw")), "cnn": (cnn, (1, 6, 6), ("sgd",))}
OPTIMIZERS: dict[str, Any] = {
    "sgd": lambda p: optim.SGD(p, lr=0.1, momentum=0.9),
    "adamw": lambda p: optim.AdamW(p, lr=1e-2, eps=1e-4),  # Adam magnifies what is rounded
}


def batches(name: str, device: str) -> list[tuple[Any, Any]]:
    rng = np.random.default_rng(1)
    shape = NETS[name][1]
    out = []
    for _ in range(STEPS):
        x, y = rng.standard_normal((12, *shape)).astype("f"), rng.integers(0, 10, 12)
        out.append((pf.tensor(x, device=device), pf.tensor(y, device=device)))
    return out


def trained(net: Any, make: Any, data: Any, compiled: bool) -> dict[str, Any]:
    optimizer = make(net.parameters())

    def step(x: Any, y: Any) -> Any:
        optimizer.zero_grad()
        loss = F.cross_entropy(net(x), y)
        loss.backward()
        optimizer.step()
        return loss

    run: Any = pf.compile(step) if compiled else step
    for x, y in data:
        run(x, y)
    if compiled:
        assert (run.eager, run.captured) == ("", 1), run.explain()
    return {k: v.cpu().numpy() for k, v in net.state_dict().items()}


def check(device: str, how: str, *names: str) -> None:
    """Processes get the weights of one."""
    compiled = how == "compiled"
    rank, n = dist.get_rank(), dist.get_world_size()
    for name in names:
        for kind in NETS[name][2]:
            make = OPTIMIZERS[kind]
            pf.manual_seed(rank)  # the weights become those of rank 0
            net = NETS[name][0]().to(device)
            whole = batches(name, device)
            share = [(x[rank::n], y[rank::n]) for x, y in whole]
            ours = DDP(nn.SyncBatchNorm.convert_sync_batchnorm(copy.deepcopy(net)))
            state = ours.state_dict()
            assert all(key.startswith("module.") for key in state)
            net.load_state_dict({key.removeprefix("module."): v for key, v in state.items()})
            dist.stats.clear()
            got = trained(ours, make, share, compiled)
            if not [*net.buffers()]:  # a step sends its gradients, and nothing else
                numbers = sum(p.numel() for p in net.parameters())
                assert dist.stats == {"all_reduce": STEPS, "bytes": STEPS * 4 * numbers}
            wanted = trained(net, make, whole, compiled)
            for key, value in wanted.items():
                np.testing.assert_allclose(
                    got[f"module.{key}"], value, rtol=1e-4, atol=1e-5,
                    err_msg=f"rank {rank}: {name} {kind} {key}",
                )  # fmt: skip


class Parts(nn.Module):
    """Uses one of three layers, or two."""

    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.ModuleList([nn.Linear(3, 1) for _ in range(3)])

    def forward(self, x: Any, which: list[int]) -> Any:
        return sum(self.layers[i](x) for i in which)


def check_more() -> None:
    """What else DistributedDataParallel does."""
    rank, n = dist.get_rank(), dist.get_world_size()
    net = DDP(nn.Linear(2, 1, bias=False), bucket_cap_mb=1e-6)
    x = pf.full((1, 2), float(rank + 1))
    mean = (n + 1) / 2
    net(x).sum().backward()
    assert net.module.weight.grad.tolist() == [[mean, mean]]
    with net.no_sync():
        net.zero_grad()
        net(x).sum().backward()
        assert net.module.weight.grad[0, 0].item() == rank + 1
    net(x).sum().backward()  # what has added up is averaged
    assert net.module.weight.grad[0, 0].item() == 2 * mean

    parts = DDP(Parts(), find_unused_parameters=True)
    parts(x.repeat(1, 2)[:, :3], [0] if rank else [0, 1]).sum().backward()
    grads = [layer.bias.grad for layer in parts.module.layers]
    assert (grads[0].item(), grads[2]) == (1, None)
    assert abs(grads[1].item() - 1 / n) < 1e-6
    strict = DDP(Parts())
    with pytest.raises(RuntimeError, match=r"no gradient has come to layers.1.weight, layers.1"):
        strict(pf.ones(1, 3), [0, 2]).sum().backward()
    with pytest.raises(RuntimeError, match="that require a gradient"):
        DDP(nn.Flatten())

    optimizer = optim.SGD(net.parameters(), lr=0.1)
    with net.join():  # rank r has r + 1 batches
        for _ in range(rank + 1):
            optimizer.zero_grad()
            net(pf.ones(1, 2)).sum().backward()
            optimizer.step()
    found: list[Any] = [None] * n
    dist.all_gather_object(found, net.module.weight.tolist())
    assert all(w == found[0] for w in found)

    with pytest.raises(RuntimeError, match=r"rank 1 has another model .*: weight: .* \[2, 3\] i"):
        DDP(nn.Linear(3, 1 + (rank == 1)))


def check_zero() -> None:
    """Each process keeps some of the moments, and all have the weights of one optimizer."""
    rank, n = dist.get_rank(), dist.get_world_size()
    for compiled in (False, True):
        pf.manual_seed(0)
        net, whole = mlp(), batches("mlp", "cpu")[:6]
        ours = DDP(copy.deepcopy(net))
        made = [ZeroRedundancyOptimizer(ours.parameters(), optim.AdamW, lr=1e-2)]
        share = [(x[rank::n], y[rank::n]) for x, y in whole]
        got = trained(ours, lambda _, made=made: made[0], share, compiled)
        wanted = trained(net, lambda p: optim.AdamW(p, lr=1e-2), whole, compiled)
        for key, value in wanted.items():
            np.testing.assert_allclose(got[f"module.{key}"], value, rtol=1e-3, atol=1e-4)
        counts: list[Any] = [None] * n
        dist.all_gather_object(counts, len(made[0].state))
        assert sum(counts) == 4
        assert max(counts) <= 2
        with pytest.raises(RuntimeError, match="call consolidate_state_dict"):
            made[0].state_dict()
        made[0].consolidate_state_dict(to=1)
        if rank == 1:
            plain = optim.AdamW(net.parameters(), lr=1e-2)
            plain.load_state_dict(made[0].state_dict())
            assert len(plain.state) == 4


def check_captured(device: str = "cpu") -> None:
    """A compiled function calls collectives in its place, whatever becomes of their results."""
    rank, n = dist.get_rank(), dist.get_world_size()
    seen = pf.zeros(3, device=device)

    @pf.compile
    def both(x: Any) -> Any:
        first, second = x * 1, x + 1
        dist.all_reduce(first)
        dist.all_reduce(second, dist.ReduceOp.MAX)
        gathered = pf.zeros(n, *x.shape, device=device)
        dist.all_gather_into_tensor(gathered, x + seen)  # as it was
        seen.copy_(x)
        return (first, gathered) if rank == 0 else None

    for i in range(5):
        out = both(pf.full((3,), float(rank + i), device=device))
        if out is not None:
            assert out[0].tolist() == [sum(range(n)) + n * i] * 3
            assert out[1][:, 0].tolist() == [r + i + (r + i - 1 if i else 0) for r in range(n)]
    assert both.captured == 1
    assert both.replayed == 4

    @pf.compile
    def with_barrier(x: Any) -> Any:
        y = x * 2
        dist.barrier()
        return y + 1

    with warnings.catch_warnings(record=True, action="always") as said:
        assert with_barrier(pf.ones(2, device=device)).tolist() == [3, 3]
    assert re.search(r"training.py:\d+ calls distributed.barrier", str(said[0].message))
