"""The batches of a DataLoader that worker processes make."""

from __future__ import annotations

import contextlib
import itertools
import multiprocessing
import os
import pickle
import signal
import threading
import time
import warnings
import weakref
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from multiprocessing.connection import wait
from typing import Any

from pyframe.core import dtypes as dt
from pyframe.data import worker as of_worker
from pyframe.data.fetch import Fetching, LoaderIterator
from pyframe.data.share import Receiver
from pyframe.data.worker import Ended, Raised, ends, work
from pyframe.ops.random.creation import empty


@dataclass(eq=False)
class Worker:
    """A process as the main process sees it."""

    id: int
    process: Any
    conn: Any
    box: Receiver
    tasks: int = 0  # how many it has to do


class ProcessIterator(LoaderIterator):
    """Hands out what to fetch in turns, some batches ahead, and gives the batches in that order.

    Each worker has a pipe of its own, on which no other process can leave a lock. A message has a
    number; those below `first` are of an epoch that was abandoned.
    """

    def __init__(self, loader: Any, fetching: Fetching) -> None:
        super().__init__(loader)
        if loader.prefetch_factor < 1:
            raise AssertionError(
                f"DataLoader: prefetch_factor={loader.prefetch_factor}, but workers need at least "
                "1 batch to make"
            )
        self.seed = _seed(loader)
        self.iterable = fetching.iterable
        self.timeout, self.in_order = loader.timeout, loader.in_order
        self.persistent = loader.persistent_workers
        self.ahead = loader.prefetch_factor
        self.workers: list[Worker] = []
        self.close = weakref.finalize(self, _shut_down, self.workers, os.getpid())
        context = loader.multiprocessing_context or multiprocessing.get_context()
        try:
            for i in range(loader.num_workers):
                self._start(context, fetching, loader.worker_init_fn, i, loader.num_workers)
        except BaseException:
            self.close()
            raise
        self.next = self.first = 0
        self._begin()

    @property
    def _workers(self) -> list[Any]:  # their processes; loaders that end them ask for this
        return [w.process for w in self.workers]

    def _shutdown_workers(self) -> None:
        self.close()

    def _start(self, context: Any, fetching: Any, init: Any, i: int, workers: int) -> None:
        ours, theirs = context.Pipe()
        args = theirs, fetching, init, self.seed, i, workers, self.ahead
        process = context.Process(target=work, args=args, daemon=True)
        ends.add(ours)
        with theirs, _uninterrupted(), warnings.catch_warnings():
            # Python 3.12 warns of locks that threads hold while they fork; pyframe's are freed.
            warnings.filterwarnings("ignore", ".*use of fork", DeprecationWarning)
            try:
                process.start()
            except (TypeError, AttributeError, pickle.PicklingError) as error:
                ours.close()
                error.add_note(
                    "DataLoader: what workers need is pickled where the start method is "
                    f"{context.get_start_method()!r}: define the data set's class and functions at "
                    "the top of a module, or pass multiprocessing_context='fork' where there is "
                    "one, or num_workers=0"
                )
                raise
            self.workers.append(Worker(i, process, ours, Receiver(ours)))

    def again(self, loader: Any) -> None:
        """Begin another epoch with the same workers; what is left of the last is not waited for.

        They are seeded as new ones would be, so that a fit which goes on from a file, where they
        are new, has the same numbers."""
        self._rewind(loader)
        self.seed = _seed(loader)
        self.first = self.next
        for w in self.workers:
            self._send(w, self.seed)
        self._begin()

    def _begin(self) -> None:
        self.due: deque[Any] = deque()  # whose batches come next, or an error of the sampler
        self.active = set(self.workers)  # without those whose samples have ended
        self.turns = itertools.cycle(self.workers)
        for w in self.workers:
            w.tasks = 0
        for _ in range(self.ahead * len(self.workers)):
            self._assign()

    def _assign(self, to: Worker | None = None) -> None:
        """Let a worker make the next batch, by default the one whose turn it is."""
        if not self.active:
            return
        try:
            index = next(self._indices)
        except StopIteration:
            return
        except Exception as error:  # raised in its turn, as it would be without workers
            self.due.append(error)
            return
        if to is None:
            to = next(w for w in self.turns if w in self.active)
        self._send(to, pickle.dumps(index, 5))
        to.tasks += 1
        self.next += 1
        self.due.append(to)

    def _send(self, w: Worker, index: bytes | int) -> None:
        """What to fetch, or the seed of an epoch that begins."""
        message = pickle.dumps((self.first, self.next, w.box.take_freed(), index), 5)
        with contextlib.suppress(OSError):  # a worker that died is reported in its turn
            w.conn.send_bytes(message)

    def _next(self) -> Any:
        try:
            return self._take()
        except Exception:
            raise
        except BaseException:  # an interrupt: who has which task is not certain any more
            self.close()
            raise

    def _take(self) -> Any:
        while self.due and self.close.alive:
            w = self.due[0]
            if isinstance(w, Exception):
                self.due.popleft()
                raise w
            if w not in self.active:  # it has no more samples
                self.due.popleft()
                continue
            w, found = self._receive([w] if self.in_order else [w for w in self.active if w.tasks])
            self.due.remove(w)
            w.tasks -= 1
            if isinstance(found, Ended):
                self.active.remove(w)
                self._assign()
                continue
            self._assign(None if self.in_order else w)
            if isinstance(found, Raised):
                raise found.again()
            return w.box.unpack(found)
        if not self.persistent:
            self.close()
        raise StopIteration

    def _receive(self, of: Sequence[Worker]) -> tuple[Worker, Any]:
        """The next message of this epoch of one of the workers."""
        limit = time.monotonic() + self.timeout
        while True:
            left = max(limit - time.monotonic(), 0) if self.timeout else None
            dead = None
            try:
                ready = wait([x for w in of for x in (w.conn, w.process.sentinel)], left)
                for w in of:
                    if w.conn in ready or (w.process.sentinel in ready and w.conn.poll()):
                        number, found = w.box.receive()
                        if number >= self.first:
                            return w, found
                        w.box.ignore(found)
                        break
                    if w.process.sentinel in ready:
                        raise EOFError
            except (EOFError, ConnectionError):
                dead = w
            except BaseException:  # of a signal's handler, perhaps amid a message
                self.close()
                raise
            if dead is not None:
                self._died(dead)
            if not ready:
                raise RuntimeError(
                    f"DataLoader timed out after {self.timeout} seconds: waited for worker process "
                    + ", ".join(f"{w.id} (pid {w.process.pid})" for w in of)
                )

    def _died(self, w: Worker) -> None:
        w.process.join(of_worker.GRACE)
        code, pid = w.process.exitcode, w.process.pid
        self.due.clear()
        self.close()
        how, why = f"exited with status {code}", "its own output may say why"
        if code is not None and code < 0:
            names = {s.value: s.name for s in signal.Signals}
            how = f"was killed by {names.get(-code, f'signal {-code}')}"
            why = "num_workers=0 makes batches in this process, where a debugger sees them"
            if -code == getattr(signal, "SIGKILL", 0):
                why = "the system does that where memory is short"
        raise RuntimeError(f"DataLoader: worker process {w.id} (pid {pid}) {how}; {why}")


def _seed(loader: Any) -> int:
    """What the workers' streams of an epoch begin with."""
    draw = empty((), dtype=dt.int64, device="cpu").random_(generator=loader.generator)
    return int(draw.item())


@contextlib.contextmanager
def _uninterrupted() -> Iterator[None]:
    """An interrupt waits for the end of this: it would leave a process that nobody knows of."""
    before = signal.getsignal(signal.SIGINT)
    if threading.current_thread() is not threading.main_thread() or not callable(before):
        yield
        return
    held: list[Any] = []
    signal.signal(signal.SIGINT, lambda *args: held.append(args))
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)
        if held:
            before(*held[0])


def _shut_down(workers: Iterable[Worker], owner: int) -> None:
    """End the processes: by themselves if they do so soon."""
    if os.getpid() != owner:  # a forked process has a copy of the iterator; they are not its own
        return
    limit = time.monotonic() + of_worker.GRACE
    try:
        for w in workers:
            w.conn.close()
        for w in workers:
            w.process.join(max(limit - time.monotonic(), 0))
    finally:
        for w in workers:
            if w.process.is_alive():
                w.process.kill()
                w.process.join()
            w.process.close()
