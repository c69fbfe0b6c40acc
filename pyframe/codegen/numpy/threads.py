"""Threads of ours, and how many BLAS takes: bound calls shared out over a pool."""

from __future__ import annotations

import functools
import os
import sys
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from pyframe.codegen.lanes.compiler import Launch
from pyframe.codegen.numpy.elementwise import Call


class Stage(NamedTuple):
    """Calls of each worker that may run at the same time; `whole` does the same without threads
    of ours, with those of BLAS if it is a product."""

    work: list[list[Call]]
    whole: list[Call] | None = None
    product: bool = False


class CompiledStage(NamedTuple):
    """A launch of compiled work, and what it works on: slots of the plan, other arrays or sizes
    that change, and the scalars from number `params` on; of a routine its words, and the same work
    by NumPy, which says what is wrong where the routine fails: a function and its arguments."""

    launch: Launch
    buffers: tuple[int | np.ndarray | tuple[Any, ...], ...] = ()
    params: int = 0
    words: tuple[Any, ...] = ()  # numbers, arrays, ScratchArg, ErrorFlagArg, SymbolicArrayRef
    check: tuple[Callable[..., Any], Sequence[Any]] | None = None


_chosen: list[int] = []  # by the program


def default_threads() -> int:
    """As many as the process has processors, or PYFRAME_THREADS, or what the program has set."""
    if _chosen:
        return _chosen[0]
    given = os.environ.get("PYFRAME_THREADS")
    if given:
        if not given.strip().isdecimal():
            raise ValueError(f"PYFRAME_THREADS={given!r}: expected a number of threads")
        return max(int(given), 1)
    if sys.platform == "emscripten":  # Pyodide can't start any
        return 1
    from pyframe.core.processors import processors

    return processors()


def cores(n: int | None = None) -> str:
    """So many of them in words; those that are used by default."""
    n = n or default_threads()
    return f"{n} core{'s' * (n > 1)}"


@dataclass
class BlasThreading:
    """NumPy's BLAS: what sets the number of its threads, how many it has, and the library."""

    set: Callable[[int], Any]
    threads: int
    library: Any

    def take(self, threads: int) -> None:
        """Let it have so many from now on."""
        self.set(threads)
        self.threads = threads


@functools.cache
def blas() -> BlasThreading | None:
    """NumPy's BLAS, if threadpoolctl can tell."""
    try:
        from threadpoolctl import ThreadpoolController  # type: ignore[import-untyped]
    except ImportError:
        return None
    found = [c for c in ThreadpoolController().lib_controllers if c.user_api == "blas"]
    if len(found) > 1:  # SciPy's wheel, say, has one of its own
        home = Path(np.__file__).resolve().parent
        own = (home, home.with_name("numpy.libs"))
        found = [c for c in found if any(Path(c.filepath).resolve().is_relative_to(x) for x in own)]
    if len(found) != 1:
        return None
    return BlasThreading(found[0].set_num_threads, found[0].num_threads, found[0].dynlib)


def get_num_threads() -> int:
    """How many threads compute on the CPU.

    >>> pf.set_num_threads(2)
    >>> pf.get_num_threads()
    2
    """
    return default_threads()


def set_num_threads(threads: int) -> None:
    """Let so many threads compute on the CPU: in NumPy's products at once, and in compiled work if
    none has run before. PYFRAME_THREADS in the environment does the same from the start.

    Args:
        threads: At least 1; RuntimeError otherwise.

    >>> pf.set_num_threads(1)
    """
    if isinstance(threads, bool) or not isinstance(threads, int) or threads < 1:
        kind = RuntimeError if isinstance(threads, int) else TypeError
        raise kind(f"set_num_threads: expected an int of at least 1, got {threads!r}")
    _chosen[:] = [threads]
    if (found := blas()) is not None:
        found.take(threads)


class ThreadPool:
    """Threads that wait for calls. The caller is worker 0."""

    def __init__(self, threads: int) -> None:
        self.busy = threading.Lock()
        # plain locks, held while there is nothing to do: a semaphore is some Python more
        self.go = [threading.Lock() for _ in range(threads - 1)]
        self.done = [threading.Lock() for _ in range(threads - 1)]
        self.work: list[list[Call]] = []
        self.errors: list[BaseException] = []
        for i in range(threads - 1):
            self.go[i].acquire()
            self.done[i].acquire()
            threading.Thread(target=self.serve, args=(i,), daemon=True).start()

    def serve(self, i: int) -> None:
        wait, ready = self.go[i].acquire, self.done[i].release
        with np.errstate(all="ignore"):
            while True:
                wait()
                try:
                    for f, args in self.work[i + 1]:
                        f(*args)
                except BaseException as e:
                    self.errors.append(e)
                ready()

    def run(self, work: list[list[Call]]) -> None:
        """Run all calls; an error of any worker is raised when all have ended."""
        with self.busy:
            self.work = work
            n = len(work) - 1
            for go in self.go[:n]:
                go.release()
            try:
                for f, args in work[0]:
                    f(*args)
            finally:
                for done in self.done[:n]:
                    done.acquire()
            if self.errors:
                errors, self.errors = self.errors, []
                raise errors[0]


@functools.cache
def pool(threads: int) -> ThreadPool:
    return ThreadPool(threads)


def share_out(threads: int, work: list[list[Call]]) -> None:
    pool(threads).run(work)  # asked for each time: threads do not survive a fork


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=pool.cache_clear)

if os.environ.get("PYFRAME_THREADS") and sys.platform != "emscripten":
    # NumPy's own products, which nothing here plans, keep to it, too
    _own = blas()
    if _own is not None and _own.threads > default_threads():
        _own.take(default_threads())
