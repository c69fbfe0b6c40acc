"""The seam between pyframe and the hardware: all that the layers above call on a backend."""

from __future__ import annotations

import functools
from array import array
from collections.abc import Awaitable, Callable, Collection, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

from pyframe.core.limits import Limits

if TYPE_CHECKING:
    from pyframe.backend.properties import DeviceProperties


class Backend(Protocol):
    """A device: memory, and Programs that run on it, one after the other in the order in which they
    were given. An executor (see runtime/executor.py) keeps what is pending, pooled or cached.

    A handle is an int that stands for a buffer, or for a part of one. Any method raises
    DeviceLostError once the device is gone, and MemoryError where it has no room.
    """

    name: str  # 'host', 'native' or 'browser'
    adapter: str  # the hardware, for people
    software: bool = False  # a CPU that plays a GPU
    language: str  # what `load` takes kernels in, a key of CODEGENS in runtime/code.py
    limits: Limits
    stats: Stats  # what is counted here: dispatches, submits, pipelines, bind groups, parameters
    lost: str = ""  # why, once the device is gone
    period: float = 1.0  # nanoseconds of a tick of the clock
    failed: Collection[int] = ()  # handles that turned out to have no memory
    # Set by the executor: gives back what is only kept for reuse, and makes the error to raise if
    # there is no room for so many bytes all the same.
    reclaim: Callable[[int], Exception] = MemoryError
    # Set by the executor: asked by a read, where a kernel turned out to be refused after it was
    # loaded, for what takes its place: for each Program that has it, what `load` made, and kernels
    # (`code`, `label` and `grid`) by their numbers. Raises the error where no variant is left.
    reprint: Callable[[RefusedError], list[tuple[Any, dict[int, Any]]]] | None = None

    def create(self, nbytes: int) -> int:
        """A buffer of `nbytes` bytes, a multiple of 4, all of them 0."""
        ...

    def slice(self, handle: int, offset: int, nbytes: int) -> int:
        """A part of a buffer, on the same memory; `offset` is a multiple of 256."""
        ...

    def destroy(self, handle: int) -> None:
        """End a buffer with all its parts, or a part alone; queued work may still use it."""
        ...

    def write(self, handle: int, data: memoryview) -> None:
        """Copy bytes, a multiple of 4 of them, to the start of a buffer."""
        ...

    def copy(self, target: int, source: int, nbytes: int) -> None:
        """Copy the first bytes of one buffer to the start of another, which may overlap."""
        ...

    def read(self, items: Sequence[tuple[int, int]]) -> list[bytes]:
        """The first n bytes of each (handle, n), after all work so far: one wait for all."""
        ...

    def read_begin(self, items: Sequence[tuple[int, int]]) -> Callable[[], Awaitable[list[bytes]]]:
        """Queue a `read` behind all work so far; what it returns waits for it by `await`."""
        ...

    def load(self, code: ProgramCode) -> Any:
        """A Program ready to run: its kernels are compiled. RefusedError names a wrong kernel; the
        next read raises it where that is known no sooner."""
        ...

    def unload(self, loaded: Any) -> None:
        """Let go of what `load` made."""
        ...

    def run(
        self, loaded: Any, handles: Sequence[int], params: bytes, grids: Sequence[int] = ()
    ) -> None:
        """Queue a Program with a handle for each slot and its parameters; it waits for nothing.
        `grids`: the workgroups of all dispatches, x, y and z of each, if its sizes change."""
        ...

    def profile(
        self, loaded: Any, handles: Sequence[int], params: bytes, grids: Sequence[int] = ()
    ) -> list[int] | None:
        """Run once: the nanoseconds of each step. Without a clock None, and nothing has run."""
        ...

    def mark(self, handle: int) -> bool:
        """Queue a look at the clock, whose ticks (uint64) go into a buffer; False without one."""
        ...

    def trim(self) -> None:
        """Give back what is kept here, and wait until buffers that were destroyed are free."""
        ...


class RefusedError(RuntimeError):
    """A driver does not take the text of a kernel."""

    def __init__(self, label: str, why: Exception, code: str) -> None:
        super().__init__(f"kernel {label}: {why}\n{code}")
        self.why, self.code = str(why), code


class GPUBackend(Backend, Protocol):
    """What a class of GPUs answers before one is opened, and what is kept for its kind."""

    none: str = ""  # what to say where there is no GPU
    kept_in: str = ""  # where `remember` puts it, for people

    def __init__(self, index: int = 0, kind: str = "") -> None:
        """Open GPU `index`; 'software' for `kind` asks for a CPU that plays one. RuntimeError where
        it is not there."""

    @staticmethod
    def available() -> bool:
        """Whether there is real hardware."""
        ...

    @staticmethod
    def adapters(software: bool) -> list[DeviceProperties]:
        """What 'gpu:0', 'gpu:1', … are. RuntimeError where they can't be had."""
        ...

    @staticmethod
    async def reopen() -> None:
        """Prepare to open one again that was lost, where that has to be awaited."""

    def recall(self) -> str:
        """What a process last asked to `remember` for this adapter and driver; "" if that is
        nothing. ValueError where it is damaged."""
        return ""

    def remember(self, text: str) -> None:
        """Keep a text for other processes, as far as that can be done."""


class ProgramCode(NamedTuple):
    """A Program as a backend loads it: the text of its kernels, and its dispatches as flat ints."""

    codes: list[Any]  # one a kernel, in the backend's language
    labels: list[str]  # their names
    # for each dispatch: kernel, workgroups x, y, z, where its parameters begin (-1: it has none),
    # how many bytes they take, the number of its slots, and these (what it reads, then its results)
    steps: array[int]
    n_slots: int
    param_bytes: int
    replaceable: bool = False  # whether other texts may take the places of refused ones


@dataclass
class Stats:
    """What a device did since it was opened, or since `reset`."""

    dispatches: int = 0
    submits: int = 0
    pipelines: int = 0
    bind_groups: int = 0
    buffers: int = 0
    reads: int = 0
    bytes_uploaded: int = 0
    bytes_live: int = 0  # bytes of the buffers in use
    bytes_pooled: int = 0  # bytes kept for reuse
    peak_live: int = 0  # the most that were in use, and
    peak_reserved: int = 0  # in use or kept, at one time

    def reset(self) -> None:
        """Set the event counters to zero; the byte gauges and their peaks stay."""
        self.dispatches = self.submits = self.pipelines = self.bind_groups = 0
        self.buffers = self.reads = self.bytes_uploaded = 0

    @property
    def bytes_reserved(self) -> int:
        """Bytes in use or kept for reuse: what the system has given."""
        return self.bytes_live + self.bytes_pooled

    def reset_peaks(self) -> None:
        """Let the peaks be what is held now."""
        self.peak_live, self.peak_reserved = self.bytes_live, self.bytes_reserved


def dispatches(steps: Sequence[int]) -> Iterator[Sequence[int]]:
    """The `steps` of a ProgramCode one by one."""
    at = 0
    while at < len(steps):
        end = at + 7 + steps[at + 6]
        yield steps[at:end]
        at = end


def retry_after_reclaim(backend: Backend, make: Callable[[int], Any], nbytes: int) -> Any:
    """`make(nbytes)`. If the device has no memory for it (MemoryError), once more when all that is
    only kept for reuse was given back."""
    try:
        return make(nbytes)
    except MemoryError:
        error = backend.reclaim(nbytes)
    try:
        return make(nbytes)
    except MemoryError as again:
        raise error from again


def translate_errors(method: Callable[..., Any]) -> Any:
    """A method of a GPU that tells a lost device and a lack of memory from the other errors of the
    library under it: what that raises (`_errors`) goes to `_fail`."""

    @functools.wraps(method)
    def told(self: Any, *args: Any) -> Any:
        try:
            return method(self, *args)
        except self._errors as error:
            self._fail(error)

    return told
