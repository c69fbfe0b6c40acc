"""Fits whose losses are no mean over rows, by the processes of a job (checks.py): together and, for
comparison, alone with all of each batch."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np

import pyframe as pf
import pyframe.nn.functional as F
from pyframe import distributed as dist, nn, optim
from pyframe.data import DataLoader, TensorDataset
from pyframe.nn.parallel import DistributedDataParallel as DDP  # noqa: N817
from pyframe.train import model as of_model, processes

N, T, C = 26, 4, 3  # the last of four batches of 8 has two rows
RNG = np.random.default_rng(7)
X = RNG.normal(size=(N, 2)).astype("f4")
REAL = RNG.normal(size=(N, T * C)).astype("f4")
CLASSES = RNG.integers(0, C, (N, T))
SOME = np.where(RNG.random((N, T)) < 0.5, CLASSES, -100)
SOME[:4] = -100  # all that the first of two processes has of the first batch
SOME[8:16] = -100  # and all of the second batch
WEIGHT = pf.tensor([1.0, 5.0, 0.25])


class Net(nn.Module):
    def __init__(self, norm: bool = False) -> None:
        super().__init__()
        self.linear = nn.Linear(2, T * C)
        self.norm = nn.BatchNorm1d(C) if norm else nn.Identity()

    def forward(self, x: pf.Tensor) -> pf.Tensor:
        return self.norm(self.linear(x).reshape(-1, C, T))


class Flat(Net):
    def forward(self, x: pf.Tensor) -> pf.Tensor:
        return super().forward(x).flatten(1)


class Three(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.a, self.b = Net(), Flat()

    def forward(self, x: pf.Tensor) -> Any:
        return self.a(x), self.b(x), self.b(x) ** 2


def masked(output: pf.Tensor, target: pf.Tensor) -> Any:
    seen = target > 0
    return (output - target).square().where(seen, 0).sum(), seen.sum()


class Penalized(pf.Model):
    def training_step(self, batch: Any) -> Any:
        x, y = batch
        squares = [p.square().sum() for p in self.net.parameters()]
        return self.compute_loss(self.net(x), y) + sum(squares)


UNTRIED = {"validation_data": None}  # other cases of these losses have some
THREE = [nn.CrossEntropyLoss(), nn.MSELoss(), nn.L1Loss(reduction="sum")]
# name -> (network, loss, targets, options)
CASES: dict[str, tuple[Any, Any, Any, dict[str, Any]]] = {
    "ignored": (Net, nn.CrossEntropyLoss(), SOME, {}),
    "eager": (Net, nn.CrossEntropyLoss(), SOME, {"compile": False}),
    "weighted": (Net, nn.CrossEntropyLoss(weight=WEIGHT), SOME, {"accumulate": 3}),
    "sum": (Flat, nn.MSELoss(reduction="sum"), REAL, {}),
    "sum in groups": (Flat, nn.MSELoss(reduction="sum"), REAL, {"accumulate": 3, **UNTRIED}),
    "own": (Flat, masked, REAL, {"accumulate": 3}),
    "of classes": (Net, nn.CrossEntropyLoss(), SOME, {"class_weight": WEIGHT, "accumulate": 4}),
    "of samples": (Net, nn.CrossEntropyLoss(), SOME, {"sample_weight": abs(X[:, 0]), **UNTRIED}),
    "half": (Net, nn.CrossEntropyLoss(), SOME, {"mixed_precision": "float16"}),
    "several": (Three, THREE, (SOME, REAL, REAL), {}),
    "statistics": (lambda: Net(True), nn.CrossEntropyLoss(), SOME, {}),
    "statistics, eager": (lambda: Net(True), nn.CrossEntropyLoss(), SOME, {"compile": False}),
    "own step": (Net, nn.CrossEntropyLoss(), SOME, {"of": Penalized, **UNTRIED}),
}  # fmt: skip


def outcome(model: pf.Model, history: Any) -> dict[str, Any]:
    own = {name.removeprefix("module."): x for name, x in model.net.state_dict().items()}
    return {**history.history, **{name: x.numpy(force=True) for name, x in own.items()}}


def fit(case: str, device: str, **more: Any) -> dict[str, Any]:
    net_of, loss, y, options = CASES[case]
    options = {"epochs": 2, "batch_size": 8, "shuffle": False, "verbose": 0, "read_every": 99,
               "validation_data": (X, y), **options, **more}  # fmt: skip
    kind = options.pop("of", pf.Model)
    pf.manual_seed(3)
    net = net_of()
    rate = 0.001 if "sum" in case or case == "several" else 0.1
    model = kind(net, loss, optim.SGD(net.parameters(), lr=rate))
    return outcome(model, model.fit((X, y), device=device, **options))


def replicas(loss: Any, y: Any, together: bool, accumulate: int, compile: bool) -> dict[str, Any]:
    """Processes with rows of their own, as DistributedSampler gives them."""
    rank, n = dist.get_rank(), dist.get_world_size()
    pf.manual_seed(3)
    net: Any = Net() if y is SOME else Flat()
    rows = range(16)
    if together:
        net = DDP(net)
        rows = [i for at in (0, 8) for i in range(at + 8 * rank // n, at + 8 * (rank + 1) // n)]
    model = pf.Model(net, loss, optim.SGD(net.parameters(), lr=0.01))
    data = DataLoader(TensorDataset(*(pf.from_numpy(t[list(rows)]) for t in (X, y))),
                      8 // n if together else 8)  # fmt: skip
    options: Any = {"epochs": 2, "verbose": 0, "device": "cpu", "compile": compile}
    return outcome(model, model.fit(data, accumulate=accumulate, **options))


def compare(case: str, together: dict[str, Any], alone: dict[str, Any], names: Any = None) -> None:
    assert together.keys() == alone.keys()
    loose = {"rtol": 2e-2, "atol": 2e-3} if case == "half" else {"rtol": 1e-4, "atol": 1e-5}
    for name in alone if names is None else names:
        np.testing.assert_allclose(
            together[name], alone[name], **loose, err_msg=f"{dist.get_rank()}: {case}: {name}"
        )


def against_one(together: dict[Any, Any], alone: Any, *names: str) -> None:
    """What each process got, against what one gets alone, which each process finds of some."""
    rank, n = dist.get_rank(), dist.get_world_size()
    everyone: list[Any] = [None] * n
    dist.all_gather_object(everyone, together)
    shared, of_model._shared = of_model._shared, lambda net: None
    for case in [*together][rank::n]:
        wanted = alone(case)
        for got in everyone:
            compare(str(case), got[case], wanted, names or None)
    of_model._shared = shared


def check(device: str, *names: str) -> None:
    with warnings.catch_warnings(action="error"):
        check_cases(device, names or (*CASES,))
        if not names:
            check_replicas()
            check_calls()
    assert processes.replicas(Net()) is None
    if names:
        return
    CASES["pairs"] = (Flat, lambda x, _: F.cross_entropy(x @ x.T, pf.arange(len(x))), REAL, {})
    with warnings.catch_warnings(record=True, action="always") as found:
        fit("pairs", "cpu", epochs=1, validation_data=None)
    texts = [str(w.message) for w in found]
    first = dist.get_rank() == 0
    assert ["no mean over samples" in t for t in texts] == [True] * first, texts


def check_cases(device: str, names: tuple[str, ...]) -> None:
    together = {case: fit(case, device) for case in names}
    against_one(together, lambda case: fit(case, device))
    if "statistics" in together:  # are others if each process counts its own rows
        apart = fit("statistics", device, sync_batch_norm=False)["norm.running_var"]
        assert abs(apart - together["statistics"]["norm.running_var"]).max() > 1e-3


def check_replicas() -> None:
    losses = {"mean": (nn.CrossEntropyLoss(), SOME), "sum": (nn.MSELoss(reduction="sum"), REAL)}
    cases = [(loss, *how) for loss in losses for how in ((1, True), (2, True), (1, False))]
    together = {case: replicas(*losses[case[0]], True, *case[1:]) for case in cases}
    against_one(together, lambda case: replicas(*losses[case[0]], False, *case[1:]),
                "linear.weight", "linear.bias")  # fmt: skip


def check_calls() -> None:
    """A step sends its gradients, and their divisor with them."""
    counts = []
    for epochs in (1, 3):
        dist.stats.clear()
        fit("ignored", "cpu", validation_data=None, epochs=epochs)
        counts.append(dist.stats["all_reduce"])
    steps, told = 4, 3  # of an epoch; three more calls agree on its end
    assert counts[1] - counts[0] == 2 * (steps + told), counts
