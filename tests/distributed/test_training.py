"""Programs of several processes as users write them; what DistributedDataParallel does in them is
checked in test_collectives.py."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from pyframe import distributed as dist, nn
from pyframe.nn.parallel import DistributedDataParallel
from tests.distributed.jobs import ROOT, done, job, mpiexec


def test_one_process_has_the_module_itself() -> None:
    with pytest.raises(ValueError, match="has not been initialized"):
        DistributedDataParallel(nn.Linear(2, 1))
    dist.init_process_group()
    try:
        net = DistributedDataParallel(nn.Linear(2, 1), device_ids=[0], static_graph=True)
        assert [*net.state_dict()] == ["module.weight", "module.bias"]
        with net.join(), net.no_sync():
            pass
    finally:
        dist.destroy_process_group()


@pytest.mark.parametrize("number", [0, 1])
def test_the_programs_of_the_guide(number: int, tmp_path: Path) -> None:
    """Two processes print what one does."""
    text = (ROOT / "docs" / "machines.md").read_text("utf-8")
    program = re.findall(r"^```python\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)[number]
    said = []
    for n in (2, 0):
        folder = tmp_path / str(n)
        folder.mkdir()
        said.append(done(n, program.replace('"run', f'"{folder.as_posix()}/run')))
    two, one = (set(text.splitlines()) for text in said)
    assert two == one
    assert "0." in said[0]


def test_an_mpi_that_did_not_start_the_processes_is_named() -> None:
    """Each would train alone, and nothing would say so."""
    mpiexec()
    code = "from pyframe import distributed\ndistributed.init_process_group()"
    other = {"OMPI_COMM_WORLD_RANK": "0", "OMPI_COMM_WORLD_SIZE": "3"}
    ran = job(0, code, env=other)
    assert ran.returncode == 1
    assert "3 processes were started, of which mpi4py sees 1: it is made for" in ran.stderr


def test_a_program_for_pytorch_runs_as_it_is() -> None:
    mpiexec()
    launched = ("-m", "pyframe", "launch", "-n", "2", "-m", "pyframe.torch")
    assert done(0, "ddp.py", before=launched) == "2.918 1.075\n"  # as with PyTorch


def test_the_command_line_ends_as_its_processes_do() -> None:
    mpiexec()
    ran = job(0, "fitting.py", "one", before=("-m", "pyframe", "launch", "-n", "2"))
    assert ran.returncode == 1
    assert "not enough values to unpack" in ran.stderr  # the argument is no fit
    ran = job(0, "fitting.py", before=("-m", "pyframe", "launch", "-n", "0"))
    assert ran.returncode == 2
    assert "'0' is no number from 1 on" in ran.stderr


def test_processes_that_a_program_spawns_are_a_job() -> None:
    mpiexec()
    joined = "2.0 2.0\njoined [0.0, 1.0, 2.0]\n1 ValueError: no more data\n"
    assert done(0, "spawned.py", before=("-m", "pyframe.torch")) == joined
