"""The seam between pyframe and the hardware: everything a device must be able to do."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol

from pyframe.core.limits import Limits

if TYPE_CHECKING:
    from pyframe.graph.program import Kernel, Program


@dataclass
class Stats:
    """Counters of what a backend did since it was made (or since `reset`)."""

    dispatches: int = 0
    submits: int = 0
    pipelines: int = 0
    bind_groups: int = 0
    buffers: int = 0
    reads: int = 0
    bytes_uploaded: int = 0
    bytes_live: int = field(default=0)  # bytes of the buffers in use
    bytes_pooled: int = field(default=0)  # bytes kept for reuse
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


class Backend(Protocol):
    """A device. Work runs in the order in which it was given. One that is gone raises
    DeviceLostError, one that is full OutOfMemoryError.

    `Buffer` is any object with `nbytes`; it returns to the backend's pool when its last
    reference dies, so `free` is needed only to return it early.
    """

    name: str  # 'numpy', 'native' or 'browser'
    adapter: str  # the hardware, for people
    software: bool  # True for a CPU that plays a GPU
    limits: Limits
    stats: Stats

    def alloc(self, nbytes: int) -> Any:
        """A buffer of at least `nbytes` bytes with undefined content."""
        ...

    def free(self, buffer: Any) -> None:
        """Give `buffer` back to the pool; work already queued may still use it."""
        ...

    def slice(self, buffer: Any, offset: int, nbytes: int) -> Any:
        """A part of `buffer`, which it holds, as a buffer; `offset` is a multiple of 256."""
        ...

    def copy(self, target: Any, source: Any, nbytes: int) -> None:
        """Copy the first bytes of one buffer to the start of another."""
        ...

    def write(self, buffer: Any, data: Any) -> None:
        """Copy `data` (a C-contiguous array or bytes) to the start of `buffer`."""
        ...

    def read(self, buffers: Sequence[tuple[Any, int]]) -> list[bytes]:
        """The first n bytes of each (buffer, n), after all work queued so far: one stall."""
        ...

    async def read_async(self, buffers: Sequence[tuple[Any, int]]) -> list[bytes]:
        """`read` that gives the thread back while it waits."""
        ...

    def prepare(self, kernel: Kernel) -> Any:
        """What `run` needs for `kernel`, made once and cached by the kernel's value."""
        ...

    def run(self, program: Program, buffers: Sequence[Any], params: bytes) -> None:
        """Run the steps of `program` with `buffers[slot]` for its slots.

        `params` holds the scalars that the program was recorded with (see `Program.params`).
        """
        ...
