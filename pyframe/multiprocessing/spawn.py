"""Processes that all do one function, started at once: torch.multiprocessing.spawn."""

from __future__ import annotations

import contextlib
import ctypes
import multiprocessing
import os
import pickle
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import traceback
import weakref
from collections.abc import Callable, Sequence
from multiprocessing import process as _process, spawn as _spawn
from multiprocessing.reduction import ForkingPickler
from pathlib import Path
from types import SimpleNamespace
from typing import Any

GRACE = 30.0  # seconds that the others have to end once one has failed
_DIES_WITH_PARENT = 1  # PR_SET_PDEATHSIG


class ProcessException(Exception):  # noqa: N818  (PyTorch's names)
    """What ended one of the processes that were spawned together."""

    def __init__(self, msg: str, error_index: int, error_pid: int, *more: Any) -> None:
        super().__init__(msg, error_index, error_pid, *more)
        self.msg, self.error_index, self.error_pid = msg, error_index, error_pid

    def __str__(self) -> str:
        return self.msg


class ProcessRaisedException(ProcessException):
    """It raised an error, whose traceback the message has."""


class ProcessExitedException(ProcessException):
    """It was killed by a signal, or exited with a status that is not 0."""

    def __init__(
        self, msg: str, error_index: int, error_pid: int, exit_code: int,
        signal_name: str | None = None,
    ) -> None:  # fmt: skip
        super().__init__(msg, error_index, error_pid, exit_code, signal_name)
        self.exit_code, self.signal_name = exit_code, signal_name


def _wrap(fn: Callable[..., Any], i: int, args: tuple[Any, ...], errors: Path) -> None:
    """What a process does; its error goes to a file of its number."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_DIES_WITH_PARENT, signal.SIGINT)
    try:
        fn(i, *args)
    except KeyboardInterrupt:
        pass  # of the parent, or of whoever interrupts it
    except Exception:
        (errors / str(i)).write_text(traceback.format_exc(), "utf-8")
        sys.exit(1)


class ProcessContext:
    """The processes that `spawn(join=False)` has started."""

    def __init__(self, processes: Sequence[Any], folder: str) -> None:
        self.processes, self._folder = list(processes), folder
        weakref.finalize(self, shutil.rmtree, folder, ignore_errors=True)
        self.sentinels = {p.sentinel: i for i, p in enumerate(self.processes)}

    def pids(self) -> list[int]:
        """The ids of the processes."""
        return [p.pid for p in self.processes]

    def join(self, timeout: float | None = None, grace_period: float | None = None) -> bool:
        """Wait until one of them ends; whether all have. Where one has failed the others are
        ended, which have `grace_period` seconds before that, and it is a ProcessException."""
        from multiprocessing.connection import wait  # which a page lacks

        for sentinel in wait(list(self.sentinels), timeout) if self.sentinels else ():
            index = self.sentinels.pop(sentinel)
            self.processes[index].join()
            if self.processes[index].exitcode:
                self._end(grace_period)
                _fail(self._folder, index, self.processes[index])
        return not self.sentinels

    def _end(self, grace: float | None) -> None:
        """End all: by themselves, by SIGTERM, and at last by SIGKILL."""
        if grace is not None:
            self._await(grace)
        for p in self.processes:
            p.terminate()
        self._await(GRACE if grace is None else grace)
        for p in self.processes:
            p.kill()
            p.join()

    def _await(self, seconds: float) -> None:
        end = time.monotonic() + seconds
        for p in self.processes:
            p.join(max(end - time.monotonic(), 0))


def _fail(folder: str, index: int, process: Any) -> None:
    """Raise what ended a process."""
    said, code = Path(folder, str(index)), process.exitcode
    if said.exists():
        text = f"\n\n-- Process {index} terminated with the following error:\n"
        raise ProcessRaisedException(text + said.read_text("utf-8"), index, process.pid)
    name, how = None, f"exit code {code}"
    if code < 0:
        names = {s.value: s.name for s in signal.Signals}
        name = names.get(-code, f"<Unknown signal {-code}>")
        how = f"signal {name}"
    raise ProcessExitedException(
        f"process {index} terminated with {how}", index, process.pid, code, name
    )


def start_processes(
    fn: Callable[..., Any], args: tuple[Any, ...] = (), nprocs: int = 1, join: bool = True,
    daemon: bool = False, start_method: str = "spawn",
) -> ProcessContext | None:  # fmt: skip
    """As `spawn`, by any start method, as children of this process.

    Args:
        fn, args, nprocs, join, daemon, start_method: As of `spawn`.
    """
    folder = tempfile.mkdtemp(prefix="pyframe-spawn-")
    made: Any = multiprocessing.get_context(start_method)
    all_: list[Any] = []
    try:
        for i in range(nprocs):
            given = fn, i, args, Path(folder)
            all_.append(made.Process(target=_wrap, args=given, daemon=daemon))
            all_[-1].start()
    except BaseException:
        ProcessContext([p for p in all_ if p.pid], folder)._end(None)
        raise
    context = ProcessContext(all_, folder)
    if not join:
        return context
    while not context.join():
        pass
    return None


def spawn(
    fn: Callable[..., Any], args: tuple[Any, ...] = (), nprocs: int = 1, join: bool = True,
    daemon: bool = False, start_method: str = "spawn",
) -> ProcessContext | None:  # fmt: skip
    """Call fn(i, *args) in `nprocs` processes, and wait for them; unless `join`, give their
    ProcessContext. Where one fails the others are ended: ProcessRaisedException has its
    traceback, ProcessExitedException its signal or status.

    In a program that has imported pyframe.distributed an mpiexec starts them, if there is one, so
    that they can call init_process_group; but not for arguments that only a process's own children
    may have, such as queues.

    Args:
        fn: A function of a module, which a new process can import.
        args: What it gets behind its number, from 0.
        daemon: Whether the processes end with this one.
        start_method: "spawn", "fork" or "forkserver".
    """
    work: list[bytes] = []
    if join and nprocs > 1 and start_method == "spawn" and (found := _mpiexec()):
        with contextlib.suppress(pickle.PicklingError, RuntimeError, TypeError, AttributeError):
            # once for each: an open file that is handed on can be taken once
            work = [bytes(ForkingPickler.dumps((fn, args))) for _ in range(nprocs)]
    if not work:
        return start_processes(fn, args, nprocs, join, daemon, start_method)
    assert found is not None
    _by_mpi(found, work)
    return None


def _mpiexec() -> str | None:
    """What starts the processes of a program that uses pyframe.distributed."""
    distributed: Any = sys.modules.get("pyframe.distributed")
    if distributed is None or distributed.launched() or not distributed.is_mpi_available():
        return None
    found: str | None = distributed.mpiexec()
    return found


def _by_mpi(mpiexec: str, work: Sequence[bytes]) -> None:
    """Have mpiexec start the processes, which import the program as multiprocessing's own do."""
    data: dict[str, Any] = _spawn.get_preparation_data("spawned")
    data["authkey"] = bytes(_process.current_process().authkey)
    run = "import sys; from pyframe.multiprocessing.spawn import begin; begin(sys.argv[1])"
    with tempfile.TemporaryDirectory(prefix="pyframe-spawn-") as folder:
        Path(folder, "work").write_bytes(pickle.dumps((data, work)))
        command = [mpiexec, "-n", str(len(work)), sys.executable, "-c", run, folder]
        ended = subprocess.run(command, check=False).returncode
        if ended:
            index = next((i for i in range(len(work)) if Path(folder, str(i)).exists()), -1)
            _fail(folder, index, SimpleNamespace(pid=-1, exitcode=ended))


def begin(folder: str) -> None:
    """What such a process does."""
    from pyframe import distributed

    data, work = pickle.loads(Path(folder, "work").read_bytes())
    _spawn.prepare(data)
    distributed.environ()
    rank = int(os.environ["RANK"])
    fn, args = pickle.loads(work[rank])
    try:
        fn(rank, *args)
    except Exception:
        Path(folder, str(rank)).write_text(traceback.format_exc(), "utf-8")
        raise
