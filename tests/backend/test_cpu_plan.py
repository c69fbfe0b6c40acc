"""Compiled plans against the interpreter: what a kernel means, however it is cut and shared out."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

import pyframe as pf
from pyframe.backend.interpreter import HOST
from pyframe.codegen.numpy import blocks, instructions, routines
from pyframe.codegen.numpy.plan import CpuPlan
from pyframe.core import dtypes as dt, view as views
from pyframe.core.devices import device
from pyframe.core.dtypes import from_storage, storage_dtype, to_storage
from pyframe.core.op import REGISTRY
from pyframe.core.view import View, contiguous
from pyframe.graph.interpret import run_kernel
from pyframe.graph.program import (
    INPUT,
    OUTPUT,
    TEMP,
    Apply,
    Dispatch,
    Expr,
    ExternKernel,
    ExternResult,
    Kernel,
    Load,
    Program,
    Reduce,
    ScalarParam,
    Slot,
    Store,
)
from pyframe.runtime import cpu
from pyframe.runtime.code import encode_params
from tests.backend.test_lanes import CASES, kernels, memory

F = dt.float32


@pytest.fixture(params=[1, 2, 3])
def threads(request: Any, monkeypatch: Any) -> int:
    """How many threads, of which even small kernels take all."""
    monkeypatch.setattr(blocks, "BLOCK", 1 << 7)
    monkeypatch.setattr(blocks, "MIN_PARALLEL_WORK", 1)
    monkeypatch.setattr(routines, "THREADS_MIN_ELEMENTS", 1)
    monkeypatch.setattr(routines, "PRODUCT", 1)
    return int(request.param)


def random(*shape: int, dtype: dt.dtype = F) -> np.ndarray:
    """Numbers between about -12 and 12."""
    if dtype is dt.bool_:
        return np.random.random(shape) < 0.5
    return np.asarray(np.random.standard_normal(shape) * 4, dtype.numpy)


def check(
    kernel: Kernel, arrays: list[np.ndarray], threads: int, values: tuple[Any, ...] = (),
    params: tuple[dt.dtype, ...] = (), tolerance: float = 1e-5,
) -> CpuPlan:  # fmt: skip
    """One kernel on these buffers, twice, gives what the interpreter gives."""
    slots = [Slot(a.nbytes, OUTPUT if i in kernel.written else INPUT) for i, a in enumerate(arrays)]
    step = Dispatch(0, tuple(range(len(arrays))), 0 if params else -1)
    packed = [(4 * i, d) for i, d in enumerate(params)]
    program = Program([kernel], [step], slots, [], [], packed, 4 * len(params))
    operands = kernel.routine.operands if kernel.routine else ()
    codes = [kernel.code, *[e.code for e in operands]]
    known = {i.binding: i.dtype for code in codes for i in code if isinstance(i, Load)}
    known |= {s.binding: s.dtype for s in kernel.stores}
    dtypes = [known.get(i, dt.dtype.from_numpy(a.dtype)) for i, a in enumerate(arrays)]
    buffers = [
        np.ascontiguousarray(to_storage(a, d)).reshape(-1).view(np.uint8).copy()
        for a, d in zip(arrays, dtypes, strict=True)
    ]
    run_kernel(kernel, buffers, encode_params(packed, values, 4 * len(params)))
    plan = CpuPlan(program, threads)
    bound = [np.array(a) for a in arrays]
    plan.bind(bound)
    seen = []
    for _ in range(2):
        for b, a in zip(bound, arrays, strict=True):
            b[...] = a
        plan.run(list(values))
        seen.append([np.array(b) for b in bound])
    for a, b, want, d in zip(*seen, buffers, dtypes, strict=True):
        np.testing.assert_array_equal(a, b)  # the same bits in every run
        want = from_storage(want.view(storage_dtype(d)), d).reshape(a.shape)
        np.testing.assert_allclose(a, want.astype(a.dtype), tolerance, tolerance)
    return plan


def rows(shape: tuple[int, ...], axes: tuple[int, ...]) -> views.IndexMap:
    """Where a value reduced over `axes` is stored."""
    strides, n = [], 1
    for d in reversed(range(len(shape))):
        strides.append(0 if d in axes else n)
        n *= 1 if d in axes else shape[d]
    return (View(shape, tuple(reversed(strides))),)


def zeros(*shape: int, dtype: dt.dtype = F) -> np.ndarray:
    return np.zeros(shape, dtype.numpy)


@pytest.mark.parametrize("name", CASES)
def test_kernels(name: str, lazy: Any, threads: int) -> None:
    """Each kind of loop, as the scheduler makes it."""
    for kernel in kernels(name, lazy):
        arrays, _ = memory(kernel)
        dtypes = {i.word: i.dtype for i in kernel.code if isinstance(i, ScalarParam)}
        params = tuple(dtypes.get(word, F) for word in range(kernel.params))
        check(kernel, arrays, threads, tuple(range(2, 2 + kernel.params)), params, 1e-4)


@pytest.mark.parametrize("n", [5, 1000])
def test_in_place_updates_read_the_old_value(n: int, threads: int) -> None:
    t = contiguous((n,))
    code = (
        Load(0, t, F), Load(1, t, F), ScalarParam(0, F), Apply("mul", (1, 2), (), F),
        Apply("sub", (0, 3), (), F), Apply("mul", (4, 1), (), F), Apply("add", (5, 0), (), F),
    )  # fmt: skip
    stores = (Store(0, 4, t, F), Store(1, 6, t, F))
    check(Kernel((n,), code, stores, 2, 1), [random(n), random(n)], threads, (0.5,), (F,))


def test_two_buffers_change_places(threads: int) -> None:
    t = contiguous((500,))
    kernel = Kernel((500,), (Load(0, t, F), Load(1, t, F)), (Store(0, 1, t, F), Store(1, 0, t, F)),
                    2, 0)  # fmt: skip
    slots = [Slot(2000, INPUT)] * 2
    plan = CpuPlan(Program([kernel], [Dispatch(0, (0, 1), -1)], slots, [], [], [], 0), threads)
    arrays = [random(500), random(500)]
    bound = [a.copy() for a in arrays]
    plan.bind(bound)
    plan.run()
    np.testing.assert_array_equal(bound, arrays[::-1])


def test_what_a_select_reads_may_be_its_target(threads: int) -> None:
    t = contiguous((500,))
    code = (Load(0, t, F), Load(1, t, F), Apply("gt", (0, 1), (), dt.bool_),
            Apply("where", (2, 0, 1), (), F))  # fmt: skip
    kernel = Kernel((500,), code, (Store(1, 3, t, F),), 2, 0)
    check(kernel, [random(500), random(500)], threads)


def test_random_bits_of_a_counter_that_is_loaded(threads: int) -> None:
    u32, one, t = dt.uint32, (View((40, 25), (0, 0)),), contiguous((40, 25))
    code = (
        Load(0, one, u32), ScalarParam(0, u32), Apply("add", (0, 1), (), u32),
        Apply("random_bits", (0, 1, 2), (), u32, t),
    )  # fmt: skip
    kernel = Kernel((40, 25), code, (Store(1, 3, t, u32),), 2, 1)
    arrays = [np.array(5, np.uint32), zeros(40, 25, dtype=u32)]
    check(kernel, arrays, threads, (3,), (u32,))


@pytest.mark.parametrize("dtype", [d for d in dt.ALL if d.cpu_compilable], ids=str)
def test_every_dtype(dtype: dt.dtype, threads: int) -> None:
    t = contiguous((30, 20))
    total = "amax" if dtype is dt.bool_ else "sum"
    x = np.abs(random(30, 20, dtype=dtype)) if dtype.numpy.kind == "u" else random(
        30, 20, dtype=dtype
    )  # fmt: skip
    x = x if dtype.narrow is None else dtype.narrow(x)
    code = (
        Load(0, t, dtype), Load(1, t, dtype), Apply("mul", (0, 1), (), dtype),
        Reduce(total, 2, (1,), dtype), Apply("cast", (2,), (F,), F),
        Apply("lt", (0, 1), (), dt.bool_), Apply("where", (5, 0, 2), (), dtype),
    )  # fmt: skip
    stores = (Store(2, 2, t, dtype), Store(3, 3, rows((30, 20), (1,)), dtype), Store(4, 4, t, F),
              Store(5, 6, t, dtype))  # fmt: skip
    want = x * x[::-1]
    arrays = [x, np.ascontiguousarray(x[::-1]), zeros(30, 20, dtype=dtype),
              zeros(30, dtype=dtype), zeros(30, 20), zeros(30, 20, dtype=dtype)]  # fmt: skip
    if dtype.device_itemsize < dtype.itemsize or dtype.numpy.itemsize > 4:
        slots = [Slot(a.nbytes, INPUT) for a in arrays]
        kernel = Kernel((30, 20), code, stores, 6, 0)
        plan = CpuPlan(
            Program([kernel], [Dispatch(0, tuple(range(6)), -1)], slots, [], [], [], 0), threads
        )
        plan.bind(arrays)
        plan.run()
        np.testing.assert_array_equal(arrays[2], want)
        # The order of a sum is the plan's own: its error is a share of all that it adds.
        off = np.abs(arrays[3] - want.sum(1))
        assert (off <= 1e-14 * np.abs(want).sum(1) * (dtype.numpy.kind in "fc")).all()
    else:
        tolerance = 2e-2 if dtype in (dt.float16, dt.bfloat16) else 1e-5
        check(Kernel((30, 20), code, stores, 6, 0), arrays, threads, tolerance=tolerance)


@pytest.mark.parametrize("value", [3e9, -7.9, 300.0, -1.0])
def test_casts_of_floats_wrap(value: float, threads: int) -> None:
    t = contiguous((300,))
    ints = (dt.uint8, dt.int8, dt.int16, dt.int32, dt.uint32)
    code = (Load(0, t, F), *[Apply("cast", (0,), (d,), d) for d in ints])
    stores = tuple(Store(1 + i, 1 + i, t, d) for i, d in enumerate(ints))
    arrays = [np.full(300, value, np.float32), *[zeros(300, dtype=d) for d in ints]]
    check(Kernel((300,), code, stores, 6, 0), arrays, threads)


# --- routines


def operand(binding: int, shape: tuple[int, ...], strides: tuple[int, ...] | None = None) -> Expr:
    view = View(shape, strides or views.row_major_strides(shape))
    return Expr(shape, (Load(binding, (view,), F),), F)


@pytest.mark.parametrize("m", [1, 5, 70])
@pytest.mark.parametrize("stores", [1, 2])
def test_matmul_with_its_epilogue(m: int, stores: int, threads: int) -> None:
    k, n = 12, 40
    routine = ExternKernel("matmul", (), (operand(0, (m, k)), operand(1, (k, n), (1, k))), F)
    t = contiguous((m, n))
    code = (
        ExternResult(F), Load(2, (View((m, n), (0, 1)),), F), Apply("add", (0, 1), (), F),
        Apply("relu", (2,), (), F), Apply("erf", (2,), (), F),
    )  # fmt: skip
    kept = (Store(3, 3, t, F), Store(4, 0, t, F), Store(5, 4, t, F))[: 2 * stores - 1]
    kernel = Kernel((m, n), code, kept, 3 + len(kept), 0, routine)
    arrays = [random(m, k), random(n, k), random(n), *[zeros(m, n) for _ in kept]]
    check(kernel, arrays, threads, tolerance=1e-4)


def routine(name: str, attrs: tuple[Any, ...], xs: list[np.ndarray], threads: int) -> None:
    """The op's calls against its NumPy function."""
    want = REGISTRY[name].numpy(*xs, *attrs)  # type: ignore[misc]
    code, stores = (ExternResult(F),), (Store(len(xs), 0, contiguous(want.shape), F),)
    operands = tuple(operand(i, x.shape) for i, x in enumerate(xs))
    kernel = Kernel(
        want.shape, code, stores, len(xs) + 1, 0, ExternKernel(name, attrs, operands, F)
    )
    check(kernel, [*xs, np.full_like(want, np.nan)], threads, tolerance=2e-4)


@pytest.mark.parametrize(
    "attrs",  # stride, padding, dilation, groups
    [
        ((1, 1), (0, 0), (1, 1), 1), ((2, 1), (1, 2), (2, 1), 2), ((3, 3), (1, 2), (1, 1), 1),
        ((3, 3), (0, 0), (2, 1), 2), ((1, 1), (1, 2), (1, 1), 2),
    ],
)  # fmt: skip
def test_convolution(attrs: Any, threads: int) -> None:
    x, w = random(5, 4, 9, 8), random(6, 4 // attrs[-1], 3, 2)
    g = random(*REGISTRY["conv"].numpy(x, w, *attrs).shape)  # type: ignore[misc]
    routine("conv", attrs, [x, w], threads)
    routine("conv_input", ((9, 8), *attrs), [g, w], threads)
    routine("conv_weight", ((3, 2), *attrs), [g, x], threads)


def test_pooling_and_softmax(threads: int) -> None:
    x = np.random.randint(0, 4, (3, 4, 9, 8)).astype(np.float32)  # with equals
    for attrs in (((2, 2), (2, 2), (1, 1)), ((3, 1), (3, 1), (1, 1)), ((3, 3), (4, 3), (1, 1))):
        y = REGISTRY["max_pool"].numpy(x, *attrs)  # type: ignore[misc]
        routine("max_pool", attrs, [x], threads)
        routine("max_pool_input", attrs, [random(*y.shape), x, y], threads)
    for name, dim in (("softmax", 0), ("softmax", -1), ("log_softmax", 1)):
        routine(name, (dim,), [random(20, 3, 40)], threads)


def test_erf_is_near_float32_precision() -> None:
    from math import erf

    x = np.concatenate([np.linspace(-6, 6, 20001), [0, 1e-30, -1e30]]).astype(np.float32)
    out = np.empty_like(x)
    i = Apply("erf", (0,), (), F)
    with np.errstate(all="ignore"):
        for f, args in instructions.op_calls(i, [x], out, np.empty):
            f(*args)
    want = np.array([erf(v) for v in x.tolist()])
    assert np.max(np.abs(out - want) / np.spacing(np.abs(want).astype(np.float32))) < 6


# --- plans


def test_a_plan_takes_new_inputs_and_scalars_and_makes_no_arrays() -> None:
    t = contiguous((3000,))
    code = (
        Load(0, t, F),
        ScalarParam(0, F),
        Apply("mul", (0, 1), (), F),
        Apply("exp", (2,), (), F),
    )
    square = (Load(0, t, F), Apply("mul", (0, 0), (), F))
    kernels = [Kernel((3000,), code, (Store(1, 3, t, F),), 2, 1),
               Kernel((3000,), square, (Store(1, 1, t, F),), 2, 0)]  # fmt: skip
    slots = [Slot(12000, INPUT), Slot(12000, OUTPUT), Slot(12000, TEMP)]
    steps = [Dispatch(0, (0, 2), 256), Dispatch(1, (2, 1), -1)]
    plan = CpuPlan(Program(kernels, steps, slots, [], [1], [(256, F)], 512), 2)
    plan.bind([None, None, None])
    before = {id(a) for a in plan.arrays}
    for rate in (0.5, 0.5, 0.25):
        x = random(3000)
        plan.arrays[0].view(np.float32)[:] = x
        calls = plan.calls
        plan.run([rate])
        want = np.exp(x * np.float32(rate)) ** 2
        np.testing.assert_allclose(plan.arrays[1].view(np.float32), want, 1e-5)
        assert plan.calls is calls
        assert {id(a) for a in plan.arrays} == before


def test_an_error_in_a_worker_is_raised(threads: int) -> None:
    t = contiguous((600,))
    i32 = dt.int32
    code = (Load(0, t, i32), Load(1, t, i32), Apply("floor_divide", (0, 1), (), i32))
    kernel = Kernel((600,), code, (Store(2, 2, t, i32),), 3, 0)
    slots = [Slot(2400, INPUT)] * 3
    plan = CpuPlan(Program([kernel], [Dispatch(0, (0, 1, 2), -1)], slots, [], [], [], 0), threads)
    divisor = np.ones(600, np.int32)
    divisor[-1] = 0
    plan.bind([np.ones(600, np.int32), divisor, None])
    with pytest.raises(RuntimeError, match="division by zero"):
        plan.run()
    divisor[-1] = 1
    plan.run()
    assert plan.arrays[2].view(np.int32).tolist() == [1] * 600


def test_slots_of_a_region_share_memory() -> None:
    slots = [Slot(40, TEMP, 0, 0), Slot(40, TEMP, 0, 64), Slot(128, TEMP, 0, 0)]
    plan = CpuPlan(Program([], [], slots, [128], [], [], 0))
    plan.bind([None] * 3)
    plan.arrays[1][0] = 7
    assert plan.arrays[2][64] == 7


@settings(max_examples=60, deadline=None)
@given(st.data())
def test_random_maps_and_folds(data: Any) -> None:
    """Kernels of random ops on random views, with reductions and several stores."""
    shape = tuple(data.draw(st.lists(st.integers(1, 12), min_size=1, max_size=3)))
    code: list[Any] = []
    axes = tuple(d for d in range(len(shape)) if data.draw(st.booleans()) and shape[d] > 1)
    for b in range(2):
        dims = [data.draw(st.booleans()) for _ in shape]
        strides = tuple(s * k for s, k in zip(views.row_major_strides(shape), dims, strict=True))
        code.append(Load(b, (View(shape, strides),), F))
    code += [Load(0, contiguous(shape), F), ScalarParam(0, F)]
    reduced = set()
    for _ in range(data.draw(st.integers(1, 8))):
        pick = st.integers(0, len(code) - 1)
        kind = data.draw(st.sampled_from(["add", "mul", "maximum", "relu", "where", "reduce"]))
        n = len(code)
        a, b = data.draw(pick), data.draw(pick)
        if kind == "reduce" and axes:
            code.append(Reduce(data.draw(st.sampled_from(["sum", "amax"])), a, axes, F))
            reduced.add(n)
        elif kind == "where":
            code.append(Apply("lt", (a, b), (), dt.bool_))
            code[-1] = Apply("maximum", (a, b), (), F)
        elif kind == "relu":
            code.append(Apply("relu", (a,), (), F))
        else:
            code.append(Apply("add" if kind == "reduce" else kind, (a, b), (), F))
    last = len(code) - 1
    index_map = rows(shape, axes) if last in reduced else contiguous(shape)
    stores = (Store(2, last, index_map, F), Store(3, last - 1, contiguous(shape), F))
    block, split = data.draw(st.sampled_from([(1 << 20, 1 << 40), (16, 1), (5, 1)]))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(blocks, "BLOCK", block)
        patch.setattr(blocks, "MIN_PARALLEL_WORK", split)
        arrays = [random(*shape) / 8, random(*shape) / 8, zeros(*shape), zeros(*shape)]
        check(Kernel(shape, tuple(code), stores, 4, 1), arrays, data.draw(st.integers(1, 3)),
              (0.5,), (F,), 1e-3)  # fmt: skip


def test_a_plan_has_a_bounded_number_of_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cpu, "compiler", lambda: None)
    monkeypatch.setattr(device("cpu").backend, "limits", HOST)
    monkeypatch.setattr(blocks, "BLOCK", 64)
    monkeypatch.setattr(blocks, "MAX_BLOCKS", 100)
    monkeypatch.setattr(blocks, "MIN_PARALLEL_WORK", 1 << 40)
    calls = []
    for n in (1 << 12, 1 << 14, 1 << 20):
        x = pf.full((n,), 0.5)
        f = pf.compile(lambda x: (x.exp() * 2).log().sum())
        np.testing.assert_allclose(f(x).item(), n * (0.5 + np.log(2)), 1e-5)
        (replay,) = [r for some in f.replays.values() for r in some]
        calls.append(len(replay.executables[0].plan.calls))
    assert calls[0] < calls[1] <= calls[2] < 2 * calls[1]
