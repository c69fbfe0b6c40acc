"""What torch.multiprocessing adds to Python's multiprocessing."""

from __future__ import annotations

import importlib.util
import multiprocessing
import os
import pickle
import subprocess
import sys
import tempfile
from multiprocessing import process, spawn as _spawn
from typing import Any


def set_sharing_strategy(new_strategy: str) -> None:
    """Accepted: batches go through shared memory in one way."""


def get_all_sharing_strategies() -> set[str]:
    """PyTorch's names."""
    return {"file_descriptor", "file_system"}


def spawn(
    fn: Any, args: tuple[Any, ...] = (), nprocs: int = 1, join: bool = True, daemon: bool = False,
    start_method: str = "spawn",
) -> None:  # fmt: skip
    """fn(i, *args) in `nprocs` processes. RuntimeError if one of them fails.

    Where there is an mpiexec it starts them, so that they can call init_process_group; but not for
    arguments that only a process's own children may have, such as queues."""
    from pyframe.distributed import launched, mpiexec

    found = importlib.util.find_spec("mpi4py") and launched() is None and mpiexec()
    if found and join and nprocs > 1 and start_method == "spawn":
        try:
            work = pickle.dumps((fn, args))
        except (pickle.PicklingError, RuntimeError, TypeError, AttributeError):
            pass
        else:
            _by_mpi(found, work, nprocs)
            return
    context: Any = multiprocessing.get_context(start_method)
    all_ = [context.Process(target=fn, args=(i, *args), daemon=daemon) for i in range(nprocs)]
    for one in all_:
        one.start()
    for i, one in enumerate(all_):
        one.join()
        if one.exitcode:
            raise RuntimeError(f"multiprocessing.spawn: process {i} ended with {one.exitcode}")


def _by_mpi(mpiexec: str, work: bytes, n: int) -> None:
    """Have mpiexec start the processes, which import the program as multiprocessing's own do."""
    data: dict[str, Any] = _spawn.get_preparation_data("spawned")
    data["authkey"] = bytes(process.current_process().authkey)
    run = "import sys; from pyframe.torch.processes import begin; begin(sys.argv[1])"
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "work")
        with open(path, "wb") as file:
            pickle.dump((data, work), file)
        command = [mpiexec, "-n", str(n), sys.executable, "-c", run, path]
        ended = subprocess.run(command, check=False).returncode
    if ended:
        raise RuntimeError(f"multiprocessing.spawn: the processes ended with {ended}")


def begin(path: str) -> None:
    """What such a process does."""
    from pyframe.distributed import environ, launched

    with open(path, "rb") as file:
        data, work = pickle.load(file)
    _spawn.prepare(data)
    environ()
    fn, args = pickle.loads(work)
    rank = launched()
    assert rank is not None
    fn(rank["RANK"], *args)
