"""What the processes of a job do: the checks that are asked for, one after the other. To start a
job takes as long as most of them take."""

from __future__ import annotations

import sys
from typing import Any

import numpy as np

import pyframe as pf
from pyframe import distributed as dist, nn, optim
from tests.distributed import collectives, means, training


class Differs(pf.metrics.Metric):
    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("total", pf.zeros(()))

    def update(self, output: pf.Tensor, target: pf.Tensor) -> None:  # of both processes
        half = len(output) // 2
        self.total += (output[:half] - output[half:]).abs().sum()

    def compute(self) -> Any:
        return self.total


def drops(how: str) -> None:
    """Processes drop values of their own."""
    pf.manual_seed(0)
    net = nn.Sequential(nn.Dropout(), nn.Linear(6, 2))
    optimizer = optim.SGD(net.parameters(), lr=0.1)
    history = pf.Model(net, nn.MSELoss(), optimizer, {"differ": Differs()}).fit(
        (pf.ones(32, 6), pf.zeros(32, 2)), epochs=2, batch_size=8, device="cpu", verbose=0,
        compile=how == "compiled",
    )  # fmt: skip
    assert np.min(history["differ"]) > 1, history["differ"]


CHECKS = {
    "collectives": collectives.check, "means": means.check, "training": training.check,
    "more": training.check_more, "zero": training.check_zero, "captured": training.check_captured,
    "drops": drops,
}  # fmt: skip


def main(asked: list[str]) -> None:
    dist.init_process_group("mpi")
    for what in asked:
        name, *given = what.split(":")
        CHECKS[name](*given)
        print(f"rank {dist.get_rank()} of {dist.get_world_size()} has checked {what}", flush=True)
    dist.destroy_process_group()


if __name__ == "__main__":
    main(sys.argv[1:])
