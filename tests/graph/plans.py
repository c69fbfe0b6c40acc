"""What the tests of the scheduler share: a device that only records, and ways to run a schedule."""

from __future__ import annotations

from typing import Any

import numpy as np

from pyframe.backend.interpreter import HostBackend
from pyframe.core import dispatch as _dispatch, dtypes as dt
from pyframe.core.dtypes import from_storage, storage_dtype, to_storage
from pyframe.core.limits import Limits
from pyframe.core.node import Node, toposort
from pyframe.graph.program import INPUT, OUTPUT, Load, Program, Reduce, Slot
from pyframe.graph.schedule import schedule
from pyframe.runtime.code import encode_params
from pyframe.runtime.executor import Executor
from pyframe.tensor import Tensor


class Recorder:
    """A lazy device that only records, so that schedules can be looked at: executor and backend."""

    def __init__(self) -> None:
        self.pending: list[Any] = []
        self.backend = self
        self.limits = Limits(float16=True)
        self.adapter = "a recorder"
        self.local = self.checks = self

    def flush(self) -> None:
        self.pending.clear()

    def replaces(self, storage: Any, old: Node) -> None:
        """Nothing is written over: it computes nothing."""

    def check(self, bad: Tensor, message: str, error: type[Exception], values: Any = None) -> None:
        """Of the checks: no index is bad."""


def value(lazy: Any, *shape: int, dtype: dt.dtype = dt.float32, seed: int | None = None) -> Tensor:
    n = int(np.prod(shape))
    data = np.random.default_rng(n if seed is None else seed).standard_normal(shape)
    return _dispatch.tensor_from_node(
        Node(None, (), (), shape, dtype, lazy, np.asarray(data.astype(dtype.numpy)))
    )


def plan(*outs: Tensor, buffers: int = 8) -> Any:
    roots = [t._storage.node for t in outs]
    order = toposort(roots)
    return (*schedule(order, roots, Limits(storage_buffers=buffers)), order, roots)


def run(
    *outs: Tensor, buffers: int = 8, over: dict[Tensor, Tensor] | None = None,
    movable: list[Tensor] | None = None,
) -> tuple[Program, list[np.ndarray]]:  # fmt: skip
    """Run the schedule on the host, through the seam as on a GPU.

    `over` says which of `outs` may be written over which input, `movable` which inputs may be
    moved beside each other.
    """
    roots = [t._storage.node for t in outs]
    order = toposort(roots)
    in_place = {id(old._node): new._storage.node for new, old in (over or {}).items()}
    ids = None if movable is None else {id(t._node) for t in movable}
    program, inputs, constants = schedule(
        order, roots, Limits(storage_buffers=buffers), in_place, ids
    )
    check(program)
    executor = Executor(HostBackend())
    slots = places(program, executor)
    for n, slot in zip(inputs, slots, strict=False):
        executor.write(slot, to_storage(n.data, n.dtype).tobytes())
    values = [c.attrs[0] for c in constants]
    executor.run(program, slots, encode_params(program.params, values, program.param_bytes))
    arrays = []
    computed = [(t, r) for t, r in zip(outs, roots, strict=True) if r.data is None]
    for slot, (t, n) in zip(program.outputs, computed, strict=True):
        raw = executor.read([(slots[slot], program.slots[slot].nbytes)])[0]
        flat = np.frombuffer(raw, storage_dtype(n.dtype))[: int(np.prod(n.shape))]
        array = from_storage(flat, n.dtype).reshape(n.shape)
        for op, attrs in t._view_chain:
            array = op.numpy(array, *attrs)
        arrays.append(array)
    return program, arrays


def places(program: Program, executor: Executor) -> list[Any]:
    """A buffer for each slot; those of a region are parts of it."""
    regions = [executor.alloc(n) for n in program.regions]
    return [
        executor.alloc(s.nbytes) if s.region < 0
        else executor.slice(regions[s.region], s.offset, s.nbytes)
        for s in program.slots
    ]  # fmt: skip


def check(program: Program) -> None:
    """What holds for every Program: nothing is read before it is written, no buffer is bound twice
    in a step, and regions hold their parts."""
    slots = program.slots
    ready = {place(slots, i) for i, s in enumerate(slots) if s.kind == INPUT}
    for step in program.steps:
        kernel = program.kernels[step.kernel]
        assert len(set(step.slots)) == len(step.slots) == kernel.bindings
        read = {place(slots, step.slots[b]) for b in loaded(kernel)}
        assert read <= ready, "read before it is written"
        ready |= {place(slots, step.slots[b]) for b in kernel.written}
    assert {place(slots, s) for s in program.outputs} <= ready
    for s in program.slots:
        assert s.offset % 256 == 0
        assert s.region < 0 or s.offset + s.nbytes <= program.regions[s.region]


def place(slots: list[Slot], i: int) -> tuple[int, int]:
    """Where slot `i` lies: its region, or itself."""
    return (slots[i].region, -1) if slots[i].region >= 0 else (-1, i)


def loaded(kernel: Any) -> set[int]:
    """The bindings that a kernel reads."""
    operands = kernel.routine.operands if kernel.routine else ()
    codes = [kernel.code, *[e.code for e in operands]]
    return {i.binding for code in codes for i in code if isinstance(i, Load)}


def stores(program: Program) -> int:
    """How many values all kernels write."""
    return sum(len(program.kernels[s.kernel].stores) for s in program.steps)


def made(program: Program) -> int:
    """How many buffers are results."""
    return sum(s.kind == OUTPUT for s in program.slots)


def bodies(program: Program) -> list[str]:
    return [body(program.kernels[s.kernel]) for s in program.steps]


def body(kernel: Any) -> str:
    """What a kernel is: a routine's name, the reductions in it, or 'map'."""
    if kernel.routine is not None:
        return str(kernel.routine.name)
    reductions = [i.op for i in kernel.code if isinstance(i, Reduce)]
    return "+".join(reductions) or "map"
