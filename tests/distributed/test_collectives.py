"""pyframe.distributed in jobs of two and three processes: collectives against NumPy, training
against one process, and how jobs end in which something goes wrong."""

from __future__ import annotations

import os
import re
import socket
import subprocess
from types import SimpleNamespace

import pytest

import pyframe as pf
from pyframe import distributed as dist
from pyframe.distributed.world import JobWatch, start_watch
from tests.distributed import checks
from tests.distributed.jobs import done, job, mpiexec

# Processes of a job, and what they check one after the other; a start takes as long as most checks
JOBS = [
    (2, ("collectives drops:compiled drops:eager training:cpu:eager:mlp:cnn "
        "training:cpu:compiled:mlp:cnn means:cpu")),
    (3, "collectives more zero captured means:cpu:ignored:weighted:own:statistics"),
]  # fmt: skip


@pytest.mark.parametrize(("n", "checks"), JOBS, ids=[f"{n}" for n, _ in JOBS])
def test_checks_by_several_processes(n: int, checks: str) -> None:
    check_by(n, checks)


def test_checks_by_processes_with_a_gpu(gpu: str) -> None:
    check_by(2, "collectives:gpu training:gpu:compiled:cnn captured:gpu "
                "means:gpu:ignored")  # fmt: skip


def check_by(n: int, checks: str) -> None:
    mpiexec()
    text = done(n, "checks.py", *checks.split())  # whose lines may mix
    for rank in range(n):
        for what in checks.split():
            assert f"rank {rank} of {n} has checked {what}" in text


def test_collectives_of_one_process_that_nobody_started() -> None:
    checks.main(["collectives"])


def begun(then: str) -> str:
    return f"""
import os, signal, sys, time
import pyframe as pf
from pyframe import distributed as dist
dist.init_process_group("mpi")
rank = dist.get_rank()
dist.barrier()
{then}
"""


HANGS = """
if rank == 0: signal.pause()
dist.barrier()
"""
ENDS = """
from pyframe.distributed import world
if rank == 1: world.world.tell([0, 2], world._ENDED, world.world)
dist.barrier()
if rank == 1: signal.pause()
dist.all_reduce(pf.ones(3), async_op=True).wait(0.2)
"""
FAULTS = {  # what happens in a job of so many, and what it says
    "raises": (3, "if rank == 1: raise ValueError('no more data')\ndist.barrier()",
               "rank 1 of 3 ended the job with ValueError: no more data"),
    "is killed": (2, "if rank == 1: os.kill(os.getpid(), 9)\ndist.all_reduce(pf.ones(3))",
                  "rank 1 ended the job: it was killed"),
    "exits": (2, "if rank == 1: sys.exit(3)\ndist.all_reduce(pf.ones(3))",
              r"all_reduce: rank \d waits for rank 1, which ended"),
    "ends just before the time is over": (3, ENDS, r"rank \d waits for rank 1, which ended"),
    "hangs": (2, HANGS, r"barrier: rank \d waited .* for rank 0, which did not come"),
    "is missed": (2, "if rank == 1: signal.pause()\ndist.monitored_barrier(timeout=1)",
                  r"\[Rank 0\]: Rank 1 failed to pass monitoredBarrier in 1000 ms"),
}  # fmt: skip


@pytest.mark.parametrize("what", FAULTS)
def test_a_process_that_fails_ends_the_job(what: str) -> None:
    n, then, said = FAULTS[what]
    patience = "1" if what == "hangs" else "60"  # the others end by themselves
    ran = job(n, begun(then), env={"PYFRAME_DISTRIBUTED_TIMEOUT": patience})
    assert ran.returncode != 0
    assert re.search(said, ran.stderr), ran.stderr
    left = subprocess.run(["ps", "-eo", "args"], capture_output=True, text=True, check=True).stdout
    assert then not in left


@pytest.mark.skipif(not hasattr(os, "pidfd_open"), reason="Linux alone has the watcher's socket")
def test_the_watcher_hears_its_own_user_alone(capfd: pytest.CaptureFixture[str]) -> None:
    def come(word: bytes) -> socket.socket:
        end = socket.socket(socket.AF_UNIX)
        end.settimeout(60)
        end.connect(name)
        end.send(word)
        return end

    name = f"\0pyframe-test-{os.urandom(8).hex()}"
    start_watch(name)
    silent = socket.socket(socket.AF_UNIX)
    with come(b"0") as good, come(b"1") as bad, come(b"x") as noise, silent:
        silent.connect(name)
        assert good.recv(16) == bad.recv(16) == b"seen"
        assert noise.recv(16) == b""
        if not os.getuid():  # another user is let in by nobody, and holds up none
            says = f"import socket\nend = socket.socket(1)\nend.connect({name!r})\nend.recv(9)"
            subprocess.run(["/usr/bin/env", "python3", "-c", says], user="nobody", check=False,
                           capture_output=True, timeout=60)  # fmt: skip
        bad.close()
        good.send(b"raised")
        assert good.recv(16) == b"late"
    assert capfd.readouterr().err == (
        "pyframe.distributed: rank 1 ended the job: it was killed (by a signal, or for want of "
        "memory)\n"
    )


@pytest.mark.skipif(not hasattr(os, "pidfd_open"), reason="Linux alone has the watcher's socket")
@pytest.mark.parametrize("what", ["silent", "another user's", "not there"])
def test_a_job_goes_on_without_a_watcher(what: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("pyframe.distributed.world._WATCHED_SECONDS", 0.01)
    if what == "another user's":
        monkeypatch.setattr(os, "geteuid", lambda: 12345)
    joined = SimpleNamespace(Test=lambda: True)
    comm = SimpleNamespace(
        rank=0, Ibarrier=lambda: joined, Ibcast=lambda secret, _: secret.fill(0) or joined
    )
    alone = SimpleNamespace(comm=comm, rank=0, timeout=1)
    with socket.socket(socket.AF_UNIX) as door:
        if what != "not there":
            door.bind(f"\0pyframe-{'00' * 16}-{os.getppid()}")
            door.listen()
        watch = JobWatch(alone)  # type: ignore[arg-type]
        assert watch.end is None
        assert watch.say(b"raised")


def test_what_was_started_alone_is_a_world_of_one() -> None:
    dist.init_process_group("nccl")
    try:
        assert (dist.get_rank(), dist.get_world_size(), dist.get_backend()) == (0, 1, "mpi")
        x = pf.ones(3)
        dist.all_reduce(x)
        assert x.tolist() == [1, 1, 1]
        group = dist.new_group([0])
        dist.broadcast(x, 0, group=group)
        with pytest.raises(ValueError, match="twice"):
            dist.init_process_group()
        with pytest.raises(ValueError, match="Cannot use ReduceOp.BAND with float32"):
            dist.all_reduce(x, dist.ReduceOp.BAND)
        with pytest.raises(TypeError, match="Expected parameter of type torch.Tensor"):
            dist.all_reduce([x])  # type: ignore[arg-type]
        with pytest.raises(ValueError, match=r"makes one of \[1, 3\] or \[3\], got \[2\]"):
            dist.all_gather_into_tensor(pf.ones(2), x)
    finally:
        dist.destroy_process_group()
    with pytest.raises(ValueError, match="has not been initialized"):
        dist.get_rank()
    with pytest.raises(ValueError, match="unknown backend 'smoke'"):
        dist.init_process_group("smoke")


def test_processes_that_no_mpiexec_started(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(RuntimeError, match="python -m pyframe launch -n 2"):
        dist.init_process_group("gloo", rank=0, world_size=2)
    monkeypatch.setenv("WORLD_SIZE", "4")
    with pytest.raises(RuntimeError, match="4 processes are asked for"):
        dist.init_process_group()


def test_a_job_without_mpi4py_says_what_to_install() -> None:
    program = """
import sys
sys.modules["mpi4py"] = None
from pyframe import distributed
distributed.init_process_group()
"""
    ran = job(0, program, env={"PMI_RANK": "0", "PMI_SIZE": "2"})
    (line,) = [x for x in ran.stderr.split("\n") if x.startswith("RuntimeError")]
    assert 'needs mpi4py and an MPI: pip install -e ".[mpi]", which brings both' in line
