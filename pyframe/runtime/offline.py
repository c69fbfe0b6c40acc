"""An offline GPU: it has limits and no hardware, so Programs are planned for it and never run."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from pyframe.backend.interpreter import HostBackend
from pyframe.core.devices import device as Device
from pyframe.core.limits import Limits
from pyframe.graph.program import OUTPUT, Program
from pyframe.runtime.buffers import PooledBuffer
from pyframe.runtime.code import program_code
from pyframe.runtime.executor import Executor

INDEX = 1 << 20  # of its device; no computer has as many GPUs


class OfflineBackend(HostBackend):
    """The host's memory in the place of a GPU's. To run a Program is to note that what it gives is
    unknown from then on; the host can `compute` it."""

    name, language = "offline", "wgsl"  # what is planned is for GPUs; the host's own is "kernels"

    def __init__(self, limits: Limits) -> None:
        super().__init__(limits)
        self.adapter = "the limits that WebGPU promises everywhere"
        self._unknown: set[int] = set()

    def destroy(self, handle: int) -> None:
        super().destroy(handle)
        self._unknown.discard(handle)

    def write(self, handle: int, data: memoryview) -> None:
        super().write(handle, data)
        self._unknown.discard(handle)

    def copy(self, target: int, source: int, nbytes: int) -> None:
        if source not in self._unknown:
            super().copy(target, source, nbytes)
            self._unknown.discard(target)

    def run(
        self, loaded: Any, handles: Sequence[int], params: bytes, grids: Sequence[int] = ()
    ) -> None:
        self._unknown.update(_results(loaded, handles))

    def compute(self, program: Program, handles: Sequence[int], params: bytes) -> None:
        """What `run` is on a device that exists."""
        super().run(program_code(program, HostBackend.language, self.limits), handles, params)
        self._unknown.difference_update(_results(program, handles))


def _results(program: Program, handles: Sequence[int]) -> list[int]:
    return [h for slot, h in zip(program.slots, handles, strict=True) if slot.kind == OUTPUT]


class OfflineExecutor(Executor):
    """Plans as for a GPU of these limits; WebGPU promises the default ones anywhere.

    What is captured is only planned: its results stay unknown, and state that it writes as it was.
    All else, such as the zeros that an optimizer begins with, NumPy computes at once."""

    backend: OfflineBackend

    def __init__(self, limits: Limits | None = None) -> None:
        super().__init__(OfflineBackend(limits or Limits()))
        self.fixed: set[int] = set()

    def loaded(self, program: Program) -> Program:
        """See Executor: here the Program itself."""
        return program.loaded.setdefault(self.backend.name, program)

    def _resized(self, order: Any, roots: Any) -> None:
        """Nothing is compiled."""

    def run(
        self,
        program: Program,
        buffers: Sequence[PooledBuffer],
        params: bytes,
        grids: Sequence[int] = (),
    ) -> None:
        """Run recorded work with NumPy."""
        self.backend.compute(program, [b.handle for b in buffers], params)


@contextmanager
def offline_device(limits: Limits | None = None) -> Iterator[Device]:
    """Within it there is a device that is a OfflineExecutor's."""
    d = Device("gpu", INDEX)
    d.attach(OfflineExecutor(limits))
    try:
        yield d
    finally:
        d.detach()
        Device._known.pop(("gpu", INDEX), None)
