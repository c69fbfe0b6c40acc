"""Model.fit in several processes is what it is in one, of the same program."""

from __future__ import annotations

import json
import signal
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest

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


def test_all_stop_when_one_wants_to_and_begin_alike() -> None:
    epochs, all_ = told(2, "", "5", "compiled", "here")
    assert epochs == 2
    assert [len(one["history"]["loss"]) for one in all_] == [2, 2]
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
