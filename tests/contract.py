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
    Dispatch,
    Kernel,
    Load,
    Program,
    Reduce,
    ScalarParam,
    Slot,
    Store,
)
from pyframe.runtime.code import encode_params, program_code


def scale_and_add() -> Program:
    """out = (a * s + b) summed over its rows, in two kernels."""
    t = contiguous((2, 3))
    code = (
        Load(0, t, float32), ScalarParam(0, float32), Apply("mul", (0, 1), (), float32),
        Load(1, t, float32), Apply("add", (2, 3), (), float32),
    )  # fmt: skip
    first = Kernel((2, 3), code, (Store(2, 4, t, float32),), 3, 1)
    rows = (Load(0, t, float32), Reduce("sum", 0, (1,), float32))
    sums = (View((2, 3), (1, 0)),)
    second = Kernel((2, 3), rows, (Store(1, 1, sums, float32),), 2, 0)
    steps = [Dispatch(0, (0, 1, 3), 0), Dispatch(1, (3, 2), -1)]
    slots = [Slot(24, INPUT), Slot(24, INPUT), Slot(8, OUTPUT), Slot(24, TEMP)]
    return Program([first, second], steps, slots, [], [2], [(0, float32)], 256)


def put(backend: Any, handle: int, *values: float) -> None:
    backend.write(handle, memoryview(np.array(values, np.float32)).cast("B"))


def floats(raw: bytes) -> list[float]:
    return list(np.frombuffer(raw, np.float32).tolist())


def loaded(backend: Any, program: Program) -> Any:
    return backend.load(program_code(program, backend.language, backend.limits))


async def write_and_read(backend: Any) -> None:
    a, b = backend.create(24), backend.create(256)
    assert floats(backend.read([(b, 256)])[0]) == [0] * 64
    put(backend, a, *range(6))
    put(backend, b, 0, 1)
    first, second = backend.read([(a, 24), (b, 8)])
    assert floats(first) == [0, 1, 2, 3, 4, 5]
    assert floats(second) == [0, 1]
    finish = backend.read_begin([(b, 4), (a, 8), (b, 8)])
    put(backend, a, 7, 7)  # which comes after what was begun
    assert list(map(floats, await finish())) == [[0], [0, 1], [0, 1]]
    assert floats(backend.read([(a, 8)])[0]) == [7, 7]


async def slices_and_copies(backend: Any) -> None:
    whole, other = backend.create(512), backend.create(8)
    part = backend.slice(whole, 256, 8)
    put(backend, whole, *[0] * 128)
    put(backend, part, 1, 2)
    backend.copy(other, part, 8)
    (raw,) = backend.read([(whole, 512)])
    assert np.flatnonzero(floats(raw)).tolist() == [64, 65]
    (raw,) = await backend.read_begin([(other, 8)])()
    assert floats(raw) == [1, 2]
    backend.copy(whole, part, 8)  # within one buffer
    assert floats(backend.read([(whole, 8)])[0]) == [1, 2]
    backend.destroy(part)
    assert floats(backend.read([(whole, 8)])[0]) == [1, 2]


async def run(backend: Any) -> None:
    program = scale_and_add()
    code = loaded(backend, program)
    handles = [backend.create(s.nbytes) for s in program.slots]
    a, b = np.arange(6, dtype=np.float32), np.ones(6, np.float32)
    put(backend, handles[0], *a)
    put(backend, handles[1], *b)
    for scale in (2.0, -3.0):  # the second run differs in its params alone
        params = encode_params(program.params, [scale], program.param_bytes)
        backend.run(code, handles, params)
        (raw,) = await backend.read_begin([(handles[2], 8)])()
        assert floats(raw) == (a * scale + b).reshape(2, 3).sum(1).tolist()
    backend.unload(code)


async def a_second_run_makes_nothing_new(backend: Any) -> None:
    program = scale_and_add()
    code = loaded(backend, program)
    handles = [backend.create(s.nbytes) for s in program.slots]
    params = encode_params(program.params, [1.5], program.param_bytes)
    backend.run(code, handles, params)
    backend.stats.reset()
    backend.run(code, handles, params)
    s = backend.stats
    assert (s.dispatches, s.submits) == (2, 1)
    assert (s.pipelines, s.bind_groups, s.buffers, s.bytes_uploaded) == (0, 0, 0, 0)


async def a_clock_or_none(backend: Any) -> None:
    program = scale_and_add()
    code = loaded(backend, program)
    handles = [backend.create(max(s.nbytes, 8)) for s in program.slots]
    params = encode_params(program.params, [1.5], program.param_bytes)
    times = backend.profile(code, handles, params)
    assert times is None or len(times) == 2
    assert backend.mark(handles[0]) is (times is not None)
    assert backend.period > 0


async def equal_programs_give_equal_code(backend: Any) -> None:
    first, second = scale_and_add(), scale_and_add()
    assert first.kernels == second.kernels
    language, limits = backend.language, backend.limits
    assert program_code(first, language, limits) == program_code(second, language, limits)


CHECKS = (
    write_and_read, slices_and_copies, run, a_second_run_makes_nothing_new, a_clock_or_none,
    equal_programs_give_equal_code,
)  # fmt: skip
