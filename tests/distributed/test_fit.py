"""Model.fit in several processes is what it is in one, of the same program."""

from __future__ import annotations

import json
import signal
import tempfile
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest

import pyframe as pf
from pyframe import distributed as dist
from pyframe.train.processes import Processes
from tests.distributed.jobs import done, job, mpiexec


class Fit(NamedTuple):
    epochs: int  # how often a callback is told of one
    ends: list[dict[str, Any]]  # what each process has in the end


def fits(n: int, *asked: str) -> list[Fit]:
    """Fits of fitting.py, one after the other in a job of `n` processes."""
    with tempfile.TemporaryDirectory() as folder:
        text = done(n, "fitting.py", *asked, env={"OUT": folder})
        found = [
            [json.loads(path.read_text()) for path in sorted(Path(folder).glob(f"{k}-*"))]
            for k in range(len(asked))
        ]
    assert [len(ends) for ends in found] == [max(n, 1)] * len(asked)
    return [Fit(text.count(f"fit {k} is told of"), ends) for k, ends in enumerate(found)]


@pytest.fixture(scope="module")
def by_two(tmp_path_factory: pytest.TempPathFactory) -> Any:
    """By name what two processes fit, after a job that was killed."""
    mpiexec()
    folder = tmp_path_factory.mktemp("fits")
    ran = job(2, "fitting.py", f"{folder}/b,5,compiled,killed", env={"OUT": str(folder)})
    assert ran.returncode in (signal.SIGKILL, 128 + signal.SIGKILL)
    assert "rank 0 ended the job: it was killed" in ran.stderr
    asked = {
        "unseeded": ",2,eager,unseeded", "stopped": ",5,eager,here",
        "interrupted": ",5,compiled,interrupted",
        "whole": f"{folder}/a,5,compiled,no", "resumed": f"{folder}/b,5,compiled,no",
    }  # fmt: skip
    return dict(zip(asked, fits(2, *asked.values()), strict=True))


@pytest.fixture(scope="module")
def alone() -> dict[str, Any]:
    return fits(0, ",5,compiled,no")[0].ends[0]


def test_losses_metrics_and_weights_are_those_of_one_process(
    by_two: Any, alone: dict[str, Any]
) -> None:
    for epochs, ends in (by_two["whole"], fits(3, ",5,eager,no")[0]):
        assert epochs == 5
        for one in ends:
            assert one["bits"] == ends[0]["bits"]
            assert one["history"] == ends[0]["history"]
        assert ends[0]["history"].keys() == alone["history"].keys()
        for name, values in alone["history"].items():
            np.testing.assert_allclose(ends[0]["history"][name], values, rtol=1e-3, err_msg=name)
        for name, values in alone["weights"].items():
            np.testing.assert_allclose(ends[0]["weights"][name], values, rtol=1e-3, atol=1e-4)


def test_all_stop_when_one_wants_to_and_begin_alike(by_two: Any) -> None:
    epochs, ends = by_two["stopped"]
    assert epochs == 2
    assert [len(one["history"]["loss"]) for one in ends] == [2, 2]
    first, second = (one["history"]["loss"] for one in by_two["interrupted"].ends)  # by Ctrl-C
    assert first == second
    assert 2 <= len(first) < 5
    first, second = (one["bits"] for one in by_two["unseeded"].ends)
    assert first == second


def test_a_job_that_was_killed_goes_on_with_the_same_bits(by_two: Any) -> None:
    assert by_two["resumed"].epochs == 3  # the third was not written down before the kill
    whole, resumed = ([one["bits"] for one in by_two[k].ends] for k in ("whole", "resumed"))
    assert whole == resumed


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
