"""The host as a device: memory is NumPy's, and kernels are interpreted, for the scheduler's tests,
for exports, and as the oracle of the other backends."""

from __future__ import annotations

import itertools
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from pyframe.backend.base import Backend, ProgramCode, Stats, dispatches
from pyframe.core.limits import Limits

# What the CPU plans for: kernels that work on the tensors' own memory, compiled or NumPy calls.
COMPILED_LIMITS = Limits(
    storage_buffers=1 << 20, binding_bytes=1 << 62, buffer_bytes=1 << 62, float16=True, host=True
)
HOST = replace(COMPILED_LIMITS, calls=True)
EXPORTED_LIMITS = replace(COMPILED_LIMITS, portable=True)  # a page's CPU, with a GPU's dtypes


class HostBackend(Backend):
    """Buffers are byte arrays; `load` takes kernels as they were scheduled."""

    name = "host"
    language = "kernels"

    def __init__(self, limits: Limits = HOST, adapter: str = "NumPy") -> None:
        self.limits = limits
        self.stats = Stats()
        self._memory: dict[int, np.ndarray] = {}
        self._handles = itertools.count(1)
        self.adapter = adapter

    def create(self, nbytes: int) -> int:
        return self._number(np.zeros(nbytes, np.uint8))

    def _number(self, array: np.ndarray) -> int:
        handle = next(self._handles)
        self._memory[handle] = array
        return handle

    def slice(self, handle: int, offset: int, nbytes: int) -> int:
        return self._number(self._memory[handle][offset : offset + -(-nbytes // 4) * 4])

    def destroy(self, handle: int) -> None:
        self._memory.pop(handle, None)

    def write(self, handle: int, data: memoryview) -> None:
        self._memory[handle][: len(data)] = np.frombuffer(data, np.uint8)

    def copy(self, target: int, source: int, nbytes: int) -> None:
        size = -(-nbytes // 4) * 4
        self._memory[target][:size] = self._memory[source][:size].copy()
        self.stats.submits += 1

    def read(self, items: Sequence[tuple[int, int]]) -> list[bytes]:
        return [self._memory[handle][:n].tobytes() for handle, n in items]

    def read_begin(self, items: Sequence[tuple[int, int]]) -> Callable[[], Awaitable[list[bytes]]]:
        found = self.read(items)

        async def finish() -> list[bytes]:
            return found

        return finish

    def load(self, code: ProgramCode) -> ProgramCode:
        return code

    def unload(self, loaded: ProgramCode) -> None:
        """There is nothing to let go of."""

    def run(
        self, loaded: ProgramCode, handles: Sequence[int], params: bytes, grids: Sequence[int] = ()
    ) -> None:
        from pyframe.graph.interpret import run_kernel  # late: no page needs it at first

        arrays = [self._memory[h] for h in handles]
        for kernel, _, _, _, begin, _, _, *slots in dispatches(loaded.steps):
            run_kernel(loaded.codes[kernel], [arrays[s] for s in slots], params, begin)
            self.stats.dispatches += 1
        self.stats.submits += 1

    def profile(
        self, loaded: Any, handles: Sequence[int], params: bytes, grids: Sequence[int] = ()
    ) -> None:
        return None

    def mark(self, handle: int) -> bool:
        return False

    def trim(self) -> None:
        """NumPy frees by itself."""
