"""The CPU: NumPy. Ops run as they are recorded, so this backend is the oracle of the others."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from pyframe.backend.base import Stats
from pyframe.core.limits import Limits

if TYPE_CHECKING:
    from pyframe.graph.program import Kernel, Program


class NumpyBackend:
    """Buffers are byte arrays; a scheduled kernel is interpreted, for tests of the scheduler."""

    name = "numpy"
    software = False
    limits = Limits(storage_buffers=32, binding_bytes=1 << 40, buffer_bytes=1 << 40, float16=True)

    def __init__(self) -> None:
        self.stats = Stats()
        self.errors: list[Any] = []  # of what is checked within a replay
        cores = os.cpu_count() or 1
        self.adapter = f"NumPy {np.__version__} on {cores} core{'s' * (cores > 1)}"

    def alloc(self, nbytes: int) -> np.ndarray:
        """See Backend."""
        self.stats.buffers += 1
        return np.zeros(-(-nbytes // 4) * 4, np.uint8)

    def free(self, buffer: np.ndarray) -> None:
        """See Backend: NumPy frees by itself."""

    def slice(self, buffer: np.ndarray, offset: int, nbytes: int) -> np.ndarray:
        """See Backend."""
        return buffer[offset : offset + nbytes]

    def copy(self, target: np.ndarray, source: np.ndarray, nbytes: int) -> None:
        """See Backend."""
        target[:nbytes] = source[:nbytes]

    def write(self, buffer: np.ndarray, data: Any) -> None:
        """See Backend."""
        raw = np.frombuffer(data, np.uint8)
        buffer[: raw.size] = raw
        self.stats.bytes_uploaded += raw.size

    def read(self, buffers: Sequence[tuple[np.ndarray, int]]) -> list[bytes]:
        """See Backend."""
        self.stats.reads += 1
        return [b[:n].tobytes() for b, n in buffers]

    async def read_async(self, buffers: Sequence[tuple[np.ndarray, int]]) -> list[bytes]:
        """See Backend."""
        return self.read(buffers)

    def prepare(self, kernel: Kernel) -> Any:
        """See Backend: NumPy interprets the kernel as it is."""
        return kernel

    def run(self, program: Program, buffers: Sequence[np.ndarray], params: bytes) -> None:
        """See Backend."""
        from pyframe.graph.interpret import run_step

        for step in program.steps:
            run_step(program, step, buffers, params)
            self.stats.dispatches += 1
        self.stats.submits += 1
