"""Model.fit in several processes is what it is in one, of the same program."""

from __future__ import annotations

import json
import signal
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import pyframe as pf
from pyframe import distributed as dist
from pyframe.train.processes import Processes
from tests.distributed.jobs import done, job, mpiexec


def told(n: int, *args: str, **more: Any) -> tuple[int, list[dict[str, Any]]]:
    """How often a callback is told of an epoch, and what each process has in the end."""
    with tempfile.TemporaryDirectory() as folder:
        text = done(n, "fitting.py", *args, env={"OUT": folder}, **more)
        found = [json.loads(path.read_text()) for path in Path(folder).iterdir()]
    return text.count("told of"), found


@pytest.fixture(scope="module")
def alone() -> dict[str, Any]:
    return told(0, "", "6", "compiled", "no")[1][0]


@pytest.mark.parametrize(("n", "how"), [(2, "compiled"), (4, "compiled"), (3, "eager")])
def test_losses_metrics_and_weights_are_those_of_one_process(
    n: int, how: str, alone: dict[str, Any]
) -> None:
    epochs, all_ = told(n, "", "6", how, "no")
    assert epochs == 6
    assert len(all_) == n
    for one in all_:
        assert one["bits"] == all_[0]["bits"]
        assert one["history"] == all_[0]["history"]
    assert all_[0]["history"].keys() == alone["history"].keys()
    for name, values in alone["history"].items():
        np.testing.assert_allclose(all_[0]["history"][name], values, rtol=1e-3, err_msg=name)
    for name, values in alone["weights"].items():
        np.testing.assert_allclose(all_[0]["weights"][name], values, rtol=1e-3, atol=1e-4)


@pytest.mark.parametrize("n", [2, 3])
def test_losses_that_are_no_mean_over_rows(n: int) -> None:
    """By ignored targets, weights, sums, several of them; statistics of batch norm; replicas."""
    assert done(n, "means.py", "cpu", "").count("done") == n


def test_they_are_the_same_on_a_gpu(gpu: str) -> None:
    assert done(2, "means.py", "gpu", "ignored,statistics").count("done") == 2


def test_all_stop_when_one_wants_to_and_begin_alike() -> None:
    epochs, all_ = told(2, "", "5", "compiled", "here")
    assert epochs == 2
    assert [len(one["history"]["loss"]) for one in all_] == [2, 2]
    _, all_ = told(2, "", "5", "compiled", "interrupted")  # one of them, by Ctrl-C
    first, second = (one["history"]["loss"] for one in all_)
    assert first == second
    assert 2 <= len(first) < 5
    _, all_ = told(2, "", "2", "compiled", "unseeded")
    assert all_[0]["bits"] == all_[1]["bits"]


def test_a_job_that_was_killed_goes_on_with_the_same_bits(tmp_path: Path) -> None:
    _, whole = told(2, str(tmp_path / "a"), "5", "compiled", "no")
    ran = job(2, "fitting.py", str(tmp_path / "b"), "5", "compiled", "killed")
    assert ran.returncode in (signal.SIGKILL, 128 + signal.SIGKILL)
    assert "rank 0 ended the job: it was killed" in ran.stderr
    epochs, rest = told(2, str(tmp_path / "b"), "5", "compiled", "no")
    assert epochs == 3  # the third was not written down before the kill
    assert [one["bits"] for one in rest] == [one["bits"] for one in whole]


DROPS = """
import sys
import pyframe as pf
from pyframe import nn, optim

class Differs(pf.metrics.Metric):
    def __init__(self):
        super().__init__()
        self.register_buffer("total", pf.zeros(()))

    def update(self, output, target):  # rows of one input, of both processes
        half = len(output) // 2
        self.total += (output[:half] - output[half:]).abs().sum()

    def compute(self):
        return self.total

pf.manual_seed(0)
net = nn.Sequential(nn.Dropout(), nn.Linear(6, 2))
model = pf.Model(net, nn.MSELoss(), optim.SGD(net.parameters(), lr=0.1), {"differ": Differs()})
history = model.fit(
    (pf.ones(32, 6), pf.zeros(32, 2)), epochs=2, batch_size=8, device="cpu", verbose=0,
    compile=sys.argv[1] == "compiled",
)
assert min(history["differ"]) > 1, history["differ"]
print("differ")
"""


@pytest.mark.parametrize("how", ["compiled", "eager"])
def test_processes_drop_values_of_their_own(how: str) -> None:
    assert done(2, DROPS, how).count("differ") == 2


def test_each_process_of_a_machine_has_a_gpu_of_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    chosen: list[int] = []
    monkeypatch.setattr(pf.gpu, "device_count", lambda: 2)
    monkeypatch.setattr(pf.gpu, "set_device", chosen.append)
    monkeypatch.setenv("LOCAL_RANK", "3")
    dist.init_process_group()
    try:
        job = Processes()
        assert job.device("cpu") is pf.device("cpu")
        assert chosen == []
        job.device("gpu")
        monkeypatch.setattr(pf.gpu, "current_device", lambda: 1)  # by the program
        job.device("gpu")
        assert chosen == [1]
    finally:
        dist.destroy_process_group()


def test_the_command_line_starts_processes() -> None:
    mpiexec()
    command = ("-m", "pyframe", "launch", "-n", "2")
    epochs, all_ = told(0, "", "1", "eager", "no", before=command)
    assert (epochs, len(all_)) == (1, 2)
    ran = job(0, "fitting.py", before=(*command, "-m", "pyframe.torch"))
    assert ran.returncode == 1
    assert "not enough values to unpack" in ran.stderr  # it has no arguments
    ran = job(0, "fitting.py", before=("-m", "pyframe", "launch", "-n", "0"))
    assert ran.returncode == 2
    assert "'0' is no number from 1 on" in ran.stderr
