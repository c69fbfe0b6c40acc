"""A GPU on paper: one that has limits only, for which Programs are planned and never run."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np

from pyframe.core.devices import device as Device
from pyframe.core.limits import Limits
from pyframe.graph.interpret import run_step
from pyframe.graph.program import OUTPUT, Program
from pyframe.runtime.executor import Buffer, WebGPU

INDEX = 1 << 20  # of its device; no computer has as many GPUs


class PaperGPU(WebGPU):
    """A Backend that plans as for a GPU of these limits; WebGPU promises the default ones anywhere.

    What is captured is only planned: its results stay unknown, and state that it writes as it was.
    All else, such as the zeros that an optimizer begins with, NumPy computes at once."""

    name = "paper"
    adapter = "on paper, with what WebGPU promises everywhere"

    def __init__(self, limits: Limits | None = None) -> None:
        super().__init__(limits or Limits())
        self.fixed: set[int] = set()
        self._memory: dict[int, np.ndarray] = {}
        self._made = 0
        self._unknown: set[int] = set()  # what a planned Program would have written

    def content(self, handle: int) -> np.ndarray:
        """The bytes of a buffer."""
        return self._memory[handle]

    def _new(self, array: np.ndarray) -> int:
        self._made += 1
        self._memory[self._made] = array
        return self._made

    def _create(self, nbytes: int) -> int:
        return self._new(np.zeros(nbytes, np.uint8))

    def _destroy(self, handle: int) -> None:
        self._memory.pop(handle, None)
        self._unknown.discard(handle)

    def _write(self, handle: int, data: memoryview) -> None:
        self._memory[handle][: len(data)] = np.frombuffer(data, np.uint8)
        self._unknown.discard(handle)

    def _read(self, items: list[tuple[int, int]]) -> list[bytes]:
        return [self._memory[handle][:n].tobytes() for handle, n in items]

    def _begin(self, items: list[tuple[int, int]]) -> Callable[[], Awaitable[list[bytes]]]:
        found = self._read(items)

        async def finish() -> list[bytes]:
            return found

        return finish

    def _slice(self, handle: int, offset: int, nbytes: int) -> int:
        return self._new(self._memory[handle][offset : offset + -(-nbytes // 4) * 4])

    def _copy(self, target: int, source: int, nbytes: int) -> None:
        if source not in self._unknown:
            size = -(-nbytes // 4) * 4
            self._memory[target][:size] = self._memory[source][:size].copy()
            self._unknown.discard(target)

    def loaded(self, program: Program) -> Any:
        """See WebGPU: here the Program itself."""
        return program.executable.setdefault(self.name, program)

    def unload(self, program: Program) -> None:
        """See WebGPU."""
        program.executable.pop(self.name, None)

    def run(self, program: Program, buffers: Sequence[Buffer], params: bytes) -> None:
        """Run recorded work with NumPy."""
        arrays = [self._memory[b.handle] for b in buffers]
        for step in program.steps:
            run_step(program, step, arrays, params)
        self._unknown.difference_update(
            b.handle for slot, b in zip(program.slots, buffers, strict=True) if slot.kind == OUTPUT
        )

    def _run(self, program: Program, handles: list[Any], params: bytes) -> None:
        """Where a captured Program would run."""
        slots = zip(program.slots, handles, strict=True)
        self._unknown.update(handle for slot, handle in slots if slot.kind == OUTPUT)


@contextmanager
def paper_device(limits: Limits | None = None) -> Iterator[Device]:
    """Within it there is a device that is a PaperGPU."""
    d = Device("gpu", INDEX)
    d.__dict__["backend"] = PaperGPU(limits)
    try:
        yield d
    finally:
        Device._known.pop(("gpu", INDEX), None)
