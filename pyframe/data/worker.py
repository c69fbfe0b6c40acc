"""What a worker process of a DataLoader does."""

from __future__ import annotations

import os
import pickle
import queue
import random
import signal
import threading
import time
import traceback
import weakref
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from pyframe.data import fetch as of_fetch
from pyframe.data.fetch import Fetching
from pyframe.ops.random.draws import manual_seed

GRACE = 5.0  # seconds that a worker has to end by itself
LOOK = 5.0  # seconds between looks whether the main process is there, where no pipe tells

ends: weakref.WeakSet[Any] = weakref.WeakSet()  # the main process's ends of all pipes to workers


@dataclass
class Ended:
    """A stream has no more samples for this worker."""


class _PlainRepr(str):
    """A message whose repr is itself: KeyError shows that."""

    __repr__ = str.__str__


@dataclass
class Raised:
    """An error on its way to the main process, which can't have its traceback."""

    kind: type[Exception] | None
    text: str

    @staticmethod
    def of(error: Exception, worker: int) -> Raised:
        kind: type[Exception] | None = type(error)
        text = "".join(traceback.format_exception(error))
        try:
            pickle.dumps(kind)
        except Exception:  # a class of a function's, as it may be
            kind = None
        name = type(error).__name__
        return Raised(kind, f"Caught {name} in DataLoader worker process {worker}.\n{text}")

    def again(self) -> Exception:
        """An error of the same type, or RuntimeError for one that is not made of a text."""
        try:
            made = self.kind(_PlainRepr(self.text)) if self.kind else None
        except Exception:
            made = None
        return made or RuntimeError(self.text)


def work(
    conn: Any, fetching: Fetching, init: Callable[[int], Any] | None, base_seed: int, worker: int,
    workers: int, ahead: int,
) -> None:  # fmt: skip
    """Make batches until the main process has closed its end of the pipe."""
    from pyframe.data.share import Sender

    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the main process says when to end
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    for end in list(ends):  # in a forked process: or the pipes to others would never be closed
        end.close()
    _one_thread()
    seed(base_seed, worker)
    of_fetch.info = of_fetch.WorkerInfo(worker, workers, base_seed + worker, fetching.dataset)
    inbox = Inbox(conn)
    sender = Sender(conn, ahead)
    failed = None
    try:
        if init is not None:
            init(worker)
    except Exception as error:
        failed = Raised.of(error, worker)
    fetch, epoch = None, -1
    while (task := inbox.tasks.get()) is not None:
        first, number, freed, index = task
        sender.release(freed)
        if isinstance(index, int):
            if init is None:  # which may have seeded them itself
                seed(index, worker)
                of_fetch.info = of_fetch.WorkerInfo(
                    worker, workers, index + worker, fetching.dataset
                )
            continue
        if number < inbox.first:
            continue  # nobody waits for it any more
        reply: Any = failed
        file = None
        try:
            if failed is None:
                if fetch is None or epoch != first:
                    fetch, epoch = fetching.begin(), first
                reply, file = sender.pack(fetch(pickle.loads(index)))
        except Exception as error:
            stops = fetching.iterable and isinstance(error, StopIteration)
            reply = Ended() if stops else Raised.of(error, worker)
        try:
            sender.send(number, reply, file)
        except OSError:  # the main process is not there any more
            return


class Inbox:
    """Takes tasks from the pipe as they come, so that the main process never waits for a worker,
    and notices when it is gone, also while the worker is busy."""

    def __init__(self, conn: Any) -> None:
        self.conn = conn
        self.tasks: queue.SimpleQueue[Any] = queue.SimpleQueue()
        self.first = 0  # number of the first task of the epoch
        self.parent = os.getppid()
        threading.Thread(target=self.listen, daemon=True).start()

    def listen(self) -> None:
        try:
            while True:
                while not self.conn.poll(LOOK):
                    if os.getppid() != self.parent:
                        os._exit(1)
                task = pickle.loads(self.conn.recv_bytes())
                self.first = task[0]
                self.tasks.put(task)
        except (EOFError, OSError):
            self.tasks.put(None)
        time.sleep(GRACE)  # the process has ended long before, unless it is busy or stuck
        os._exit(1)


def seed(base_seed: int, worker: int) -> None:
    """Seed what a data set may draw from: `random` and pyframe with base_seed + worker, NumPy with
    words made of both, as equal seeds would give it and `random` the same numbers."""
    random.seed(base_seed + worker)
    manual_seed(base_seed + worker)
    mixed = np.random.SeedSequence([worker, base_seed & 0xFFFFFFFF, base_seed >> 32, 0])
    np.random.seed(mixed.generate_state(4))


def _one_thread() -> None:
    """Workers share the processors: one thread of NumPy's for each."""
    try:
        from threadpoolctl import threadpool_limits  # type: ignore[import-untyped]
    except ImportError:
        return
    threadpool_limits(1, "blas")
