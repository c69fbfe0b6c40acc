"""The processes of a job, groups of them, and how one waits for another: all calls of mpi4py.

What a group does together are `Work`s, one after the other, so that all processes do them in one
order. A Work is a generator of MPI requests. Before it sends anything all processes agree on what
it is; who waits for long asks the others where they are, and who leaves says so: a process that
raises, ends or is killed ends the job with its rank and the reason.
"""

from __future__ import annotations

import atexit
import contextlib
import functools
import hashlib
import importlib
import itertools
import os
import pickle
import socket
import struct
import sys
import time
from collections import Counter, deque
from collections.abc import Callable, Generator, Iterator, Sequence
from datetime import timedelta
from typing import Any

import numpy as np

from pyframe.core.extras import install

Steps = Generator[Any, None, Any]  # of MPI requests; what it returns is the result

# What launchers tell their processes: where the rank stands, the size, and the rank in a machine
_LAUNCHERS = (
    ("PMI_RANK", "PMI_SIZE", "MPI_LOCALRANKID"),
    ("OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_LOCAL_RANK"),
    ("MV2_COMM_WORLD_RANK", "MV2_COMM_WORLD_SIZE", "MV2_COMM_WORLD_LOCAL_RANK"),
    ("PMIX_RANK", "SLURM_NTASKS", "SLURM_LOCALID"),
)
TIMEOUT = 30 * 60.0  # seconds that a process waits for the others, as in PyTorch
_ASK, _HERE, _ENDED = range(3)  # what processes tell each other beside their work
_GRACE = 1.0  # seconds that others have to answer
_LAST_WORDS = 0.1  # seconds in which the launcher hands on what was said before a job ends
groups: dict[str, ProcessGroup] = {}  # by name; "" is that of all processes
names = itertools.count(1)  # of further groups: all processes make them in one order
stats: Counter[str] = Counter()  # calls and bytes that were given to MPI, by the name of the work


def launched() -> dict[str, int] | None:
    """RANK, WORLD_SIZE and LOCAL_RANK, if an `mpiexec` has started this process."""
    for rank, size, local in _LAUNCHERS:
        if rank in os.environ and size in os.environ:
            found = {"RANK": int(os.environ[rank]), "WORLD_SIZE": int(os.environ[size])}
            return found | {"LOCAL_RANK": int(os.environ.get(local, found["RANK"]))}
    return None


def _joined(comm: Any, request: Any, timeout: float) -> None:
    """Wait for what all processes of a communicator do when they join."""
    end = time.monotonic() + timeout
    while not request.Test():
        time.sleep(0.0002)
        if time.monotonic() > end:
            raise RuntimeError(
                f"distributed: rank {comm.rank} waited {timeout} s for others to join it"
            )


def _copy(comm: Any, timeout: float) -> Any:
    """A communicator of the same processes."""
    out, request = comm.Idup()
    _joined(comm, request, timeout)
    return out


class ProcessGroup:
    """Processes that work together; `comm` is None for a group of this process alone.

    Args:
        ranks: Its processes, counted among all.
        name: What collectives in a graph call it.
        timeout: How long its work waits for a process, in seconds.
    """

    def __init__(self, comm: Any, ranks: Sequence[int], name: str, timeout: float) -> None:
        self.comm, self.ranks, self.name, self.timeout = comm, [*ranks], name, timeout
        self.rank = 0 if comm is None else comm.rank
        self.queue: deque[Work] = deque()
        self.done = 0  # works that are over
        if comm is not None:  # sends and receives, and the sizes that go before them
            self.heads, self.mail = _copy(comm, timeout), _copy(comm, timeout)
        groups[name] = self

    def size(self) -> int:
        """The number of processes."""
        return len(self.ranks)

    def advance(self) -> None:
        """Go on with the work as far as it goes without waiting."""
        while self.queue and self.queue[0].step():
            self.queue.popleft()
            self.done += 1

    def __repr__(self) -> str:
        return f"<process group of ranks {self.ranks}>"


class Work:
    """What a group does, as torch.distributed.Work: `wait()` gives when it is over.

    Args:
        name, steps: What it is called, and the MPI requests that it waits for one by one.
        finish: What makes the result of what these give.
        peer: Whom a message goes to or comes from, as counted in the group; None for a collective.
    """

    def __init__(
        self, group: ProcessGroup, name: str, steps: Steps, finish: Callable[[Any], Any],
        peer: int | None = None,
    ) -> None:  # fmt: skip
        """`peer` is the rank in the group that a message goes to or comes from; other works are
        done by all of the group, in their order."""
        self.group, self.name, self.peer = group, name, peer
        self._steps, self._finish, self._request = steps, finish, None
        self._done, self._result = False, None
        self._error: Exception | None = None
        if peer is None:
            group.queue.append(self)
        self._advance()

    def _advance(self) -> None:
        if self.peer is None:
            self.group.advance()
        else:
            self.step()

    def step(self) -> bool:
        """Go on without waiting; whether it is over."""
        while not self._done:
            try:
                if self._request is not None and not self._request.Test():
                    return False
                self._request = next(self._steps)
            except StopIteration as end:
                self._result, self._done = self._finish(end.value), True
            except Exception as error:
                self._error, self._done = _named(error, self.name), True
        return True

    def is_completed(self) -> bool:
        """Whether it is over."""
        self._advance()
        return self._done

    def is_success(self) -> bool:
        """Whether it is over, and nothing was wrong."""
        return self.is_completed() and self._error is None

    def exception(self) -> Exception | None:
        """What was wrong."""
        return self._error

    def result(self) -> Any:
        """The tensors that hold the result. Waits."""
        self.wait()
        return self._result

    get_future = lambda self: self  # noqa: E731  (of which programs ask `value`, `done` and `wait`)
    value, done = result, is_completed

    def wait(self, timeout: timedelta | float | None = None) -> bool:
        """True once it is over. RuntimeError for what was wrong, or where others don't come.

        Args:
            timeout: Seconds, or a timedelta; by default the group's.
        """
        begun = time.monotonic()
        patience = self.group.timeout if timeout is None else seconds(timeout)
        turns = 0
        while not self.is_completed():
            turns += 1
            if turns < 100:
                os.sched_yield()  # the others may need this core
                continue
            time.sleep(min(turns * 1e-6, 0.002))
            if turns % 16 == 0 and self.group.comm is not None:
                _world().listen()
                self._look_for_ended()
                if (waited := time.monotonic() - begun) > patience:
                    self._explain(waited)
        if self._error is not None:
            raise self._error
        return True

    def _awaited(self) -> list[int]:
        """The ranks that it needs."""
        ranks, peer = self.group.ranks, self.peer
        return [r for r in ranks if r != _world().rank] if peer is None else ranks[peer:][:1]

    def _look_for_ended(self) -> None:
        """RuntimeError that names who has ended."""
        now, world = time.monotonic(), _world()
        if gone := [r for r in self._awaited() if world.has_ended(r, self, now)]:
            raise RuntimeError(
                f"{self.name}: rank {world.rank} waits for {ranked(gone)}, which ended"
            )

    def _explain(self, waited: float) -> None:
        """RuntimeError that names who has not come."""
        world, group = _world(), self.group
        others = self._awaited()
        world.answers.clear()
        world.tell(others, _ASK, group)
        end = time.monotonic() + _GRACE
        while time.monotonic() < end and not self.is_completed():
            world.listen()
            time.sleep(0.001)
        if self._done:
            return
        self._look_for_ended()  # one that ended just before the time was over
        late = [r for r in others if world.answers.get((r, group.name), -1) <= group.done]
        raise RuntimeError(
            f"{self.name}: rank {world.rank} waited {waited:.1f} s for "
            f"{ranked(late) if late else 'the others'}, which did not come to it: a process that "
            "hangs, is much slower, or took another way through the program"
        )


def ranked(ranks: Sequence[int]) -> str:
    """Ranks in words."""
    return f"rank{'s' * (len(ranks) > 1)} {', '.join(map(str, ranks))}"


def _named(error: Exception, name: str) -> Exception:
    if type(error).__module__.startswith("mpi4py"):
        return RuntimeError(f"{name}: {error}")
    return error


def seconds(timeout: timedelta | float | None) -> float:
    """A timeout as PyTorch takes it."""
    if timeout is None:
        return float(os.environ.get("PYFRAME_DISTRIBUTED_TIMEOUT", TIMEOUT))
    return timeout.total_seconds() if isinstance(timeout, timedelta) else float(timeout)


# --- all processes


class _World(ProcessGroup):
    """The group of all processes, and what they tell each other."""

    def __init__(self, mpi: Any, timeout: float) -> None:
        self.mpi = mpi
        comm = None if mpi is None else _copy(mpi.COMM_WORLD, timeout)
        super().__init__(comm, range(1 if comm is None else comm.size), "", timeout)
        self.control: Any = None if comm is None else _copy(comm, timeout)
        self.answers: dict[tuple[int, str], int] = {}  # works of a group that others have begun
        # when it was told that a rank has ended, and how many works of a group it had done
        self.ended: dict[tuple[int, str], tuple[float, int]] = {}
        self.told: list[Any] = []  # what is on its way

    def tell(self, ranks: Sequence[int], what: int, group: ProcessGroup) -> None:
        """Send a word about a group to some ranks."""
        begun = group.done + bool(group.queue)
        words = np.array([what, int(group.name or 0), begun], np.int64)
        self.told += [(words, self.control.Isend(words, r)) for r in ranks]

    def listen(self) -> None:
        """Take what others tell, and answer."""
        status = self.mpi.Status()
        self.told = [x for x in self.told if not x[1].Test()]
        while self.control.Iprobe(status=status):
            words, source = np.empty(3, np.int64), status.source
            self.control.Recv(words, source)
            what, number, begun = map(int, words)
            name = str(number or "")
            if what == _ASK and name in groups:
                self.tell([source], _HERE, groups[name])
            elif what == _HERE:
                self.answers[source, name] = begun
            elif what == _ENDED:
                self.ended[source, name] = time.monotonic(), begun

    def has_ended(self, rank: int, work: Work, now: float) -> bool:
        """Whether a process has ended that `work` waits for, so that all it sent has come."""
        told, done = self.ended.get((rank, work.group.name), (now, 0))
        return now - told > _GRACE and (work.peer is not None or done <= work.group.done)


world: _World | None = None


def _world() -> _World:
    assert world is not None
    return world


def start(timeout: timedelta | float | None) -> None:
    """Join the other processes of the job. RuntimeError where mpi4py is missing, or is made for
    another MPI than theirs."""
    global world
    found = launched()
    mpi: Any = None
    if found is not None or "PMIX_RANK" in os.environ:
        try:
            mpi = importlib.import_module("mpi4py.MPI")
        except ImportError as error:
            raise RuntimeError(
                "distributed: a job of several processes needs mpi4py and an MPI: "
                f"{install('mpi')}, which brings both ({error})"
            ) from None
    if found is not None and found["WORLD_SIZE"] != (size := mpi.COMM_WORLD.size):
        raise RuntimeError(
            f"distributed: {found['WORLD_SIZE']} processes were started, of which mpi4py sees "
            f"{size}: it is made for another MPI than the one that has started them. Take the "
            "mpiexec of its MPI, or make it for this one: pip install --force-reinstall "
            "--no-binary mpi4py mpi4py"
        )
    world = _World(mpi, seconds(timeout))
    if world.size() > 1 and not watches:
        watches.append(JobWatch(world))
        sys.excepthook = functools.partial(_raised, sys.excepthook)
        atexit.register(_leave)


def stop() -> None:
    """Let the groups go; MPI itself ends with the process."""
    global world
    groups.clear()
    world = None


watches: list[JobWatch] = []
_leaving: list[Any] = []  # what must live until MPI ends


def _leave() -> None:
    """Tell the others that this process ends: who waits for it knows."""
    if world is not None:
        for group in groups.values():
            world.tell([r for r in group.ranks if r != world.rank], _ENDED, group)
        _leaving.append(world)
    watches[0].say(b"ok")


def _raised(before: Callable[..., Any], kind: Any, error: Any, trace: Any) -> None:
    """The excepthook of a process of many: what one raises ends all."""
    if world is None:
        before(kind, error, trace)
        return
    text = "".join(str(error).splitlines()[:1])
    sys.stdout.flush()
    if watches[0].say(b"raised"):
        print(
            f"pyframe.distributed: rank {world.rank} of {world.size()} ended the job with "
            f"{kind.__name__}: {text}",
            file=sys.stderr, flush=True,
        )  # fmt: skip
    before(kind, error, trace)
    sys.stderr.flush()
    time.sleep(_LAST_WORDS)
    world.mpi.COMM_WORLD.Abort(1)


# --- who was killed

# A small process on each machine outlives those of the job. The first of these that goes without a
# word was killed, before the launcher kills the others: epoll keeps the order in which they went.
# Any user of the machine can find its socket: what comes from another user's process is closed, and
# nobody is waited for.
_WATCH = """
import os, select, socket, struct, sys
os.closerange(0, 2), os.closerange(4, 1 << 16)  # the launcher looks whether these are closed
door, events, known, over = socket.socket(fileno=3), select.epoll(), {}, False
door.setblocking(False)
events.register(door, select.EPOLLIN)
events.register(launcher := os.pidfd_open(int(sys.argv[1])), select.EPOLLIN)
def quiet(call, *args):
    try: return call(*args)
    except OSError: return None
def let_in(end):
    if struct.unpack("3i", end.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, 12))[1] \
            != os.geteuid(): return end.close()
    end.setblocking(False)
    known[end.fileno()] = [end, None]
    events.register(end, select.EPOLLIN)
while ready := events.poll(-1 if known else 10):
    before = len(known)
    for fd, _ in ready:
        if fd == launcher: sys.exit()
        if fd == door.fileno():
            if found := quiet(door.accept): let_in(found[0])
            continue
        end, rank = known[fd]
        said = quiet(end.recv, 16)
        if rank is None and said and said.isdigit():
            known[fd][1] = int(said)
            quiet(end.send, b"seen")
            continue
        if rank is not None and said == b"raised": quiet(end.send, b"late" if over else b"first")
        else:
            if rank is not None and not said and not over:
                print(f"pyframe.distributed: rank {rank} ended the job: it was killed (by a signal,"
                      " or for want of memory)", file=sys.stderr, flush=True)
            del known[fd]
            end.close()
        over = over or (rank is not None and said != b"ok")
    if before and not known: sys.exit()
"""
_WATCHED_SECONDS = 10.0  # seconds until a process goes on without being watched
_ANSWER = 16  # bytes that are read of one


def start_watch(name: str) -> None:
    """Start a watcher that is found at `name`."""
    with socket.socket(socket.AF_UNIX) as door:
        door.bind(name)
        door.listen(4096)
        os.posix_spawn(
            sys.executable, [sys.executable, "-ISc", _WATCH, str(os.getppid())], os.environ,
            file_actions=[(os.POSIX_SPAWN_DUP2, door.fileno(), 3)], setsid=True,
        )  # fmt: skip


class JobWatch:
    """What tells if this process was killed; without a word of its own where it can't be had."""

    def __init__(self, all_: _World) -> None:
        """Be watched: all processes of the job do this at once."""
        self.end: socket.socket | None = None
        # a name that nobody could have taken before
        secret = np.frombuffer(os.urandom(16), np.uint8).copy()
        _joined(all_.comm, all_.comm.Ibcast(secret, 0), all_.timeout)
        name = f"\0pyframe-{secret.tobytes().hex()}-{os.getppid()}"
        found = launched()
        watched = hasattr(os, "pidfd_open")  # on Linux, which has such names
        if watched and found is not None and not found["LOCAL_RANK"]:
            with contextlib.suppress(OSError):
                start_watch(name)
        _joined(all_.comm, all_.comm.Ibarrier(), all_.timeout)
        if watched:
            self.end = socket.socket(socket.AF_UNIX)
            self.end.settimeout(_WATCHED_SECONDS)
            with self._or_alone():
                self.end.connect(name)
                told = self.end.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, 12)
                if struct.unpack("3i", told)[1] != os.geteuid():
                    raise PermissionError("another user's process")
                self.end.send(str(all_.rank).encode())
                if self.end.recv(_ANSWER) != b"seen":  # from now on its end is seen in its turn
                    raise ConnectionError("no watcher")

    @contextlib.contextmanager
    def _or_alone(self) -> Iterator[None]:
        """The job goes on without a watcher that is gone, silent or not its own."""
        try:
            yield
        except OSError:
            assert self.end is not None
            self.end.close()
            self.end = None

    def say(self, word: bytes) -> bool:
        """Say how this process ends; whether it is the first to raise."""
        first = True
        if self.end is not None:
            with self._or_alone():
                self.end.send(word)
                if word == b"ok":
                    self.end.close()
                else:
                    first = self.end.recv(_ANSWER) != b"late"
        return first


# --- what all do together


@functools.lru_cache(1024)
def _digest(text: str) -> np.ndarray:
    code = int.from_bytes(hashlib.blake2b(text.encode(), digest_size=7).digest(), "big")
    return np.array([code, -code], np.int64)


def agree(group: ProcessGroup, text: str) -> Steps:
    """Let all processes find that they do the same; RuntimeError says what each one does."""
    mine = _digest(text)
    least = np.empty_like(mine)
    yield group.comm.Iallreduce(mine, least, _world().mpi.MIN)
    if not np.array_equal(least, mine):
        texts = yield from objects(group, text)
        odd = [r for r, said in zip(group.ranks, texts, strict=True) if said != texts[0]]
        raise RuntimeError(
            f"processes do not do the same: rank {group.ranks[0]} calls {texts[0]}, rank {odd[0]} "
            f"{texts[group.ranks.index(odd[0])]}"
        )


def objects(group: ProcessGroup, given: Any) -> Steps:
    """The objects of all processes, as a list."""
    data = np.frombuffer(pickle.dumps(given), np.uint8)
    sizes = np.empty(group.size(), np.int64)
    yield group.comm.Iallgather(np.array([data.size], np.int64), sizes)
    out = np.empty(int(sizes.sum()), np.uint8)
    yield group.comm.Iallgatherv(data, (out, sizes.tolist()))
    parts = np.split(out, np.cumsum(sizes)[:-1])
    return [pickle.loads(part.tobytes()) for part in parts]
