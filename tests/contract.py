"""What every backend must do, through the seam alone; the page's backend runs this text too."""

from __future__ import annotations

from typing import Any

import numpy as np

from pyframe.dtypes import float32
from pyframe.graph.interpret import pack_params
from pyframe.graph.program import Apply, Expr, Kernel, Load, Param, Program, Step
from pyframe.graph.view import contiguous


def scale_and_add() -> Program:
    """out = (a * s + b) summed over its rows, in two kernels."""
    t = contiguous((2, 3))
    code = (
        Load(0, t, float32), Param(0, float32), Apply("mul", (0, 1), (), float32),
        Load(1, t, float32), Apply("add", (2, 3), (), float32),
    )  # fmt: skip
    first = Kernel("map", (Expr((2, 3), code, float32),), (), (2, 3), float32, 2, 1)
    rows = Expr((2, 3), (Load(0, t, float32),), float32)
    second = Kernel("sum", (rows,), ((1,), False), (2,), float32, 1, 0)
    steps = [Step(0, (0, 1, 3), 0), Step(1, (3, 2), -1)]
    return Program([first, second], steps, [24, 24, 8, 24], 2, 1, [(0, float32)], 256)


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


async def run(backend: Any) -> None:
    program = scale_and_add()
    buffers = [backend.alloc(n) for n in program.slot_bytes]
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
    buffers = [backend.alloc(n) for n in program.slot_bytes]
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


CHECKS = (write_and_read, run, a_second_run_makes_nothing_new, equal_programs_give_equal_shaders)
