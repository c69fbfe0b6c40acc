"""A Program made into bound NumPy calls: the CPU's way to run the same step many times.

`Plan.bind` walks the kernels once. Each becomes calls on views that exist already (`kernels.py`),
cut into blocks that stay in cache (`blocks.py`), with temporaries in scratch memory (`memory.py`);
a run is a loop over these calls. Large kernels are shared out over a pool of threads
(`threads.py`), always in the same way.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from pyframe.codegen.numpy.elementwise import Call
from pyframe.codegen.numpy.kernels import Lowering
from pyframe.codegen.numpy.memory import Array, Registers
from pyframe.codegen.numpy.threads import Stage, blas, default_threads, share_out
from pyframe.core.pages import aligned
from pyframe.graph.program import TEMP, Program


class Plan:
    """A compiled Program. `arrays[i]` is the flat memory of slot i, once bound."""

    def __init__(self, program: Program, threads: int | None = None) -> None:
        self.program = program
        self.threads = threads or default_threads()
        self.arrays: list[Array] = []
        self.calls: list[Call] = []
        self.steps: list[list[Call]] = []  # the same, apart for each step
        self.blas = blas()
        self.blas_threads = 0  # that a run takes, if these are not as many as BLAS has
        regions = [aligned(n) for n in program.regions]
        self.own: list[Array | None] = [
            regions[s.region][s.offset : s.offset + s.nbytes]
            if s.region >= 0
            else aligned(s.nbytes) if s.kind == TEMP else None
            for s in program.slots
        ]  # fmt: skip
        self.scalars = [np.empty((), d.numpy) for _, d in program.params]
        self.by_offset = {offset: i for i, (offset, _) in enumerate(program.params)}
        self.values: list[Any] | None = None
        self.registers = Registers()

    def bind(self, arrays: Sequence[Array | None]) -> None:
        """Fix the memory of the slots: C-contiguous arrays, or None for one of the plan's own."""
        self.arrays = []
        for slot, own, given in zip(self.program.slots, self.own, arrays, strict=True):
            if given is None:
                self.arrays.append(aligned(slot.nbytes) if own is None else own)
            else:
                self.arrays.append(given.reshape(-1))
        stages: list[list[Stage]] = []
        for step in self.program.steps:
            stages.append([])
            Lowering(self, step, stages[-1]).build()
        self.steps = self._linked(stages)
        self.calls = [call for calls in self.steps for call in calls]

    def run(self, values: Sequence[Any] = ()) -> None:
        """Compute everything; `values` are the scalars in the order of `program.params`."""
        if not self.arrays and self.program.slots:
            self.bind([None] * len(self.program.slots))
        if values != self.values:
            self.values = list(values)
            for scalar, value in zip(self.scalars, self.values, strict=True):
                scalar[()] = value
        with np.errstate(all="ignore"):
            if self.blas_threads:
                self.blas.set(self.blas_threads)  # type: ignore[union-attr]
            try:
                for f, args in self.calls:
                    f(*args)
            finally:
                if self.blas_threads:
                    self.blas.set(self.blas.threads)  # type: ignore[union-attr]

    def _linked(self, steps: list[list[Stage]]) -> list[list[Call]]:
        """The stages of each step as one list.

        BLAS's own threads wait for work by spinning, which keeps ours from running: so a plan has
        one or the other. Where only products gain much from threads, BLAS's are faster.
        """
        stages = [s for step in steps for s in step]
        alone = any(s.product for s in stages) and all(
            len(s.work) == 1 or s.whole is not None for s in stages
        )
        threads = self.threads if alone else 1
        most = threads if self.blas is None else self.blas.threads
        shared = any(len(s.work) > 1 for s in stages)
        # where nothing of ours runs beside it, BLAS may stay as it is
        self.blas_threads = threads if threads != most and (shared or self.threads < most) else 0
        return [[call for s in step for call in self._calls(s, alone)] for step in steps]

    def _calls(self, stage: Stage, alone: bool) -> list[Call]:
        if alone and stage.whole is not None:
            return stage.whole
        if len(stage.work) <= 1:
            return stage.work[0] if stage.work else []
        return [(share_out, (self.threads, stage.work))]
