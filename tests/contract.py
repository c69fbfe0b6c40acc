"""What every backend must do, through the seam alone; the page's backend runs this text too."""

from __future__ import annotations

from typing import Any

import numpy as np

from pyframe.core.dtypes import float32
from pyframe.core.view import View, contiguous
from pyframe.graph.program import (
    INPUT,
    OUTPUT,
    TEMP,
    Apply,
    Kernel,
    Load,
    Param,
    Program,
    Reduce,
    Slot,
    Step,
    Store,
)
from pyframe.runtime.executor import pack_params


def scale_and_add() -> Program:
    """out = (a * s + b) summed over its rows, in two kernels."""
    t = contiguous((2, 3))
    code = (
        Load(0, t, float32), Param(0, float32), Apply("mul", (0, 1), (), float32),
        Load(1, t, float32), Apply("add", (2, 3), (), float32),
    )  # fmt: skip
    first = Kernel((2, 3), code, (Store(2, 4, t, float32),), 3, 1)
    rows = (Load(0, t, float32), Reduce("sum", 0, (1,), float32))
    sums = (View((2, 3), (1, 0)),)
    second = Kernel((2, 3), rows, (Store(1, 1, sums, float32),), 2, 0)
    steps = [Step(0, (0, 1, 3), 0), Step(1, (3, 2), -1)]
    slots = [Slot(24, INPUT), Slot(24, INPUT), Slot(8, OUTPUT), Slot(24, TEMP)]
    return Program([first, second], steps, slots, [], [2], [(0, float32)], 256)


async def write_and_read(backend: Any) -> None:
    data = np.arange(6, dtype=np.float32)
    a, b = backend.alloc(24), backend.alloc(8)
    backend.write(a, data)
    backend.write(b, data[:2].tobytes())
    assert a.nbytes >= 24
    first, second = backend.read([(a, 24), (b, 8)])
    assert np.frombuffer(first, np.float32).tolist() == data.tolist()
    assert np.frombuffer(second, np.float32).tolist() == [0, 1]
    assert await backend.read_async([(a, 8)]) == [data[:2].tobytes()]


async def slices_and_copies(backend: Any) -> None:
    whole = backend.alloc(512)
    part = backend.slice(whole, 256, 8)
    other = backend.alloc(8)
    backend.write(whole, np.zeros(128, np.float32))
    backend.write(part, np.array([1, 2], np.float32))
    backend.copy(other, part, 8)
    (raw,) = backend.read([(whole, 512)])
    assert np.flatnonzero(np.frombuffer(raw, np.float32)).tolist() == [64, 65]
    (raw,) = await backend.read_async([(other, 8)])
    assert np.frombuffer(raw, np.float32).tolist() == [1, 2]
    del whole  # a slice holds the buffer that it is a part of
    (raw,) = backend.read([(part, 8)])
    assert np.frombuffer(raw, np.float32).tolist() == [1, 2]


async def run(backend: Any) -> None:
    program = scale_and_add()
    buffers = [backend.alloc(s.nbytes) for s in program.slots]
    a, b = np.arange(6, dtype=np.float32), np.ones(6, np.float32)
    backend.write(buffers[0], a)
    backend.write(buffers[1], b)
    for scale in (2.0, -3.0):  # the second run differs in its params alone
        backend.run(program, buffers, pack_params(program.params, [scale], program.param_bytes))
        (raw,) = await backend.read_async([(buffers[2], 8)])
        got = np.frombuffer(raw, np.float32)
        assert got.tolist() == (a * scale + b).reshape(2, 3).sum(1).tolist()


async def a_second_run_makes_nothing_new(backend: Any) -> None:
    program = scale_and_add()
    buffers = [backend.alloc(s.nbytes) for s in program.slots]
    params = pack_params(program.params, [1.5], program.param_bytes)
    backend.run(program, buffers, params)
    backend.stats.reset()
    backend.run(program, buffers, params)
    s = backend.stats
    assert (s.dispatches, s.submits) == (2, 1)
    assert (s.pipelines, s.bind_groups, s.buffers, s.bytes_uploaded) == (0, 0, 0, 0)


async def equal_programs_give_equal_shaders(backend: Any) -> None:
    first, second = scale_and_add(), scale_and_add()
    assert first.kernels == second.kernels
    assert backend.prepare(first.kernels[0]) == backend.prepare(second.kernels[0])


CHECKS = (
    write_and_read, slices_and_copies, run, a_second_run_makes_nothing_new,
    equal_programs_give_equal_shaders,
)  # fmt: skip
