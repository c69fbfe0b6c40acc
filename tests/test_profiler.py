"""pf.profiler, and what a Program is said to cost. Nothing here asserts a time."""

from __future__ import annotations

import functools
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from steps import training_step

import pyframe as pf
from pyframe.codegen.numpy.plan import CpuPlan
from pyframe.core import dispatch
from pyframe.core.devices import device as get_device
from pyframe.core.limits import Limits
from pyframe.core.node import toposort
from pyframe.core.view import View, contiguous, expand, pad, sliding_windows
from pyframe.graph.program import INPUT, OUTPUT, Apply, Dispatch, Kernel, Load, Program, Slot, Store
from pyframe.graph.schedule import schedule
from pyframe.ops.index.rows import take_rows
from pyframe.tools import profiler
from pyframe.tools.cost import distinct, si, table
from pyframe.tools.profiler import profile, record_function
from tests.graph.plans import value


def program_of(*outs: pf.Tensor) -> Program:
    roots = [t._storage.node for t in outs]
    return schedule(toposort(roots), roots, Limits())[0]


# --- what a Program costs


def test_a_product_with_bias_and_relu(lazy: Any) -> None:
    x, w, b = value(lazy, 6, 8), value(lazy, 8, 4), value(lazy, 4)
    program = program_of((x @ w + b).relu())
    (row,) = found = table(program)
    assert row.kernel.startswith("matmul[")
    assert row.grid == (1, 1, 1)
    assert row.bytes == 4 * (6 * 8 + 8 * 4 + 4 + 6 * 4)
    assert row.flops == 2 * 6 * 8 * 4 + 2 * 6 * 4
    assert table(program).bytes_moved == table(program).least_bytes == row.bytes
    assert table(program).flops == row.flops
    assert str(found) == str(pf.graph.table(program))
    head, _, line, _, total, least = str(found).splitlines()
    assert head.split() == ["kernel", "grid", "bytes", "FLOPs"]
    assert line.split()[1:] == ["1x1x1", "432", "B", "432"]
    assert total.split() == ["1", "kernel", "432", "B", "432"]
    assert least.split()[-2:] == ["432", "B"]


BETWEEN = 4 * 64 * 16  # a value between two kernels is written and read
COSTS: dict[str, tuple[Any, int, int, int]] = {  # FLOPs, least bytes, further bytes that are moved
    # largest, difference, exp, sum, product; of each row a quotient
    "softmax": (lambda v: v(100, 50).softmax(1), 5 * 5000 + 100, 2 * 4 * 5000, 0),
    "two products": (lambda v: v(64, 32) @ v(32, 16) @ v(16, 8),
                     2 * 64 * 32 * 16 + 2 * 64 * 16 * 8,
                     4 * (64 * 32 + 32 * 16 + 16 * 8 + 64 * 8), 2 * BETWEEN),
    "where it varies": (lambda v: v(10, 20).mean(1), 200 + 10, 4 * (200 + 10), 0),
    "to another dtype": (lambda v: v(7, dtype=pf.int64).to(pf.float32), 0, 7 * (4 + 4), 0),
    "of nothing": (lambda v: v(0, 3) + 1, 0, 0, 0),
    "rows that are taken": (lambda v: dispatch.apply(take_rows, (v(1000, 8), v(5, dtype=pf.int64))),
                            0, 4 * (5 + 2 * 5 * 8), 0),
}  # fmt: skip


@pytest.mark.parametrize("name", COSTS)
def test_what_programs_cost(name: str, lazy: Any) -> None:
    make, *costs = COSTS[name]
    found = table(program_of(make(functools.partial(value, lazy))))
    assert len(found) == (2 if name == "two products" else 1)
    assert [found.flops, found.least_bytes, found.bytes_moved - found.least_bytes] == costs


def test_elements_that_a_view_reads() -> None:
    assert distinct(contiguous((3, 4))) == 12
    assert distinct(expand(contiguous((3, 1)), (3, 100))) == 3
    assert distinct(pad(contiguous((3, 4)), ((1, 1), (0, 2)))) == 12
    assert distinct(sliding_windows(contiguous((10,)), (3,), (1,), (1,))) == 10
    assert distinct((View((5,), (-2,), 8),)) == 5
    assert distinct((*contiguous((4,)), View((2, 6), (0, 1)))) == 4


def test_buffers_that_lie_over_each_other_count_once() -> None:
    whole = contiguous((128,))
    code = (Load(0, whole, pf.float32), Apply("add", (0, 0), (), pf.float32))
    kernel = Kernel((128,), code, (Store(1, 1, whole, pf.float32),), 2, 0)
    first = Kernel(
        (8,), (Load(0, contiguous((8,)), pf.float32),),
        (Store(1, 0, contiguous((8,)), pf.float32),), 2, 0,
    )  # fmt: skip
    slots = [
        Slot(32, INPUT, 0, 256), Slot(512, INPUT, 0), Slot(512, OUTPUT, 1), Slot(32, OUTPUT),
    ]  # fmt: skip
    steps = [Dispatch(0, (1, 2), -1), Dispatch(1, (0, 3), -1)]
    program = Program([kernel, first], steps, slots, [512, 512], [2, 3], [], 0)
    assert table(program).bytes_moved == 1024 + 64
    assert table(program).least_bytes == 1024 + 32


def test_numbers_for_people() -> None:
    got = [si(0), si(999, "B"), si(999.6), si(12345, "B"), si(2.5e9), si(1e18), si(1.5)]
    assert got == ["0", "999 B", "1.00 k", "12.3 kB", "2.50 G", "1000 P", "1.50"]


DEBUG = {
    "graph": ["exp(%", "f32 1×3", "kernel 0 (result)"],
    "kernels": ["FLOPs", "bytes", "sum["],
    "wgsl": ["fn main"],
}


@pytest.mark.parametrize("what", DEBUG)
def test_debug_prints_new_programs(what: str, device: str, monkeypatch: Any, capfd: Any) -> None:
    """Of what is computed at once, and of what is compiled."""
    monkeypatch.setenv("PYFRAME_DEBUG", what)

    def work(x: Any) -> Any:
        return x.exp().sum(1) * 3.25

    x = pf.ones(1, 3, device=device)
    get_device(device).executor.forget_programs()
    for call in ([work] if device == "gpu" else []) + [pf.compile(work)]:
        call(x).cpu()
        err = capfd.readouterr().err
        if device == "gpu" or what != "wgsl":
            assert [said for said in DEBUG[what] if said not in err] == []


# --- profiles


def work(device: str) -> pf.Tensor:
    x = pf.arange(12.0, device=device).reshape(3, 4) / 7
    return (x @ x.T).relu().softmax(1).sum(0)


def patched() -> tuple[Any, ...]:
    from pyframe.backend.native import NativeGPU

    return dispatch._quiet, CpuPlan.run, NativeGPU.run


def test_a_profile_is_asked_for_as_in_pytorch() -> None:
    from pyframe.profiler import ProfilerActivity, profile

    ended: list[profile] = []
    kinds = [ProfilerActivity.CPU, ProfilerActivity.CUDA]
    with profile(activities=kinds, record_shapes=True, on_trace_ready=ended.append) as prof:
        (pf.ones(3) + 1).sum().item()
    assert ended == [prof]
    assert {e.name for e in prof.events} >= {"add", "sum"}


def test_results_are_the_same_and_nothing_stays(device: str) -> None:
    before = patched()
    want = work(device).cpu().numpy()
    with profile() as prof:
        got = work(device)
        assert patched() != before
    assert patched() == before
    assert prof.events
    assert {e.device for e in prof.events} == {device}
    count = len(prof.events)
    np.testing.assert_array_equal(got.cpu().numpy(), want)
    work(device).cpu()
    assert len(prof.events) == count


def test_ops_on_the_cpu() -> None:
    x, w = pf.ones(6, 8), pf.ones(8, 4)
    with profile() as prof:
        for _ in range(3):
            (x @ w).relu().T
    assert [e.name for e in prof.events] == ["matmul", "relu", "permute"] * 3
    assert {e.kind for e in prof.events} == {"op"}
    found = {a.key: a for a in prof.key_averages()}
    assert found["matmul"].count == 3
    assert found["matmul"].flops == 3 * 2 * 6 * 8 * 4
    assert found["matmul"].bytes == 3 * 4 * (48 + 32 + 24)
    assert found["relu"].flops == 3 * 24
    assert found["permute"].bytes == 0
    relu = found["relu"]
    assert relu.cpu_time_total == relu.time_total == pytest.approx(3 * relu.time)
    assert found["relu"].device_time_total == 0


def test_kernels_on_the_gpu(gpu: str) -> None:
    x, w = pf.ones(6, 8, device=gpu), pf.ones(8, 4, device=gpu)
    pf.flush()
    with profile() as prof:
        for _ in range(2):
            (x @ w).relu().cpu()
    averages = prof.key_averages()
    (product,) = [a for a in averages if a.key.startswith("matmul")]
    assert (product.device, product.count) == (gpu, 2)
    assert product.flops == 2 * (2 * 6 * 8 * 4 + 24)
    assert product.bytes == 2 * 4 * (48 + 32 + 24)


def test_a_device_without_a_clock(gpu: str, monkeypatch: Any) -> None:
    backend = get_device(gpu).backend
    monkeypatch.setattr(backend, "profile", lambda *args: None)
    want = work(gpu).cpu().numpy()
    with profile() as prof:
        got = work(gpu).cpu().numpy()
    np.testing.assert_array_equal(got, want)
    assert {e.kind for e in prof.events} == {"program"}


def test_compiled_steps(device: str) -> None:
    def make() -> tuple[Any, Any]:
        pf.manual_seed(1)
        net = pf.nn.Linear(5, 3).to(device)
        optimizer = pf.optim.SGD(net.parameters(), lr=0.1)
        return pf.compile(training_step(optimizer, lambda x: net(x).square().mean())), net

    x = pf.ones(4, 5, device=device)
    pf.flush()
    (plain, a), (timed, b) = make(), make()
    plain(x), timed(x)
    with profile() as prof:
        losses = [timed(x).item() for _ in range(3)]
    assert losses == [plain(x).item() for _ in range(3)]
    for p, q in zip(a.parameters(), b.parameters(), strict=True):
        np.testing.assert_array_equal(p.detach().cpu().numpy(), q.detach().cpu().numpy())
    (program,) = timed.programs
    kernels = [e.name for e in prof.events if e.kind == "kernel"]
    assert kernels == [r.kernel for r in table(program)] * 3
    timed(x)  # the plan is whole again


def test_the_table(device: str) -> None:
    with profile() as prof:
        work(device).cpu()
    lines = str(prof).splitlines()
    assert lines[0].split() == ["name", "device", "calls", "total", "mean", "share", "bytes/s",
                                "FLOP/s"]  # fmt: skip
    averages = prof.key_averages()
    assert len(lines) == len(averages) + 4
    assert str(averages) == str(prof) == prof.table()
    names = [line.split()[0] for line in prof.table("name", row_limit=-1).splitlines()[2:-2]]
    assert names == sorted(names)
    assert f"1 of {len(averages)}" in averages.table(sort_by="cuda_time_total", row_limit=1)
    with pytest.raises(ValueError, match="sort_by: unknown 'beauty'"):
        prof.table(sort_by="beauty")
    assert "0 names" in str(profile())


def test_a_trace_for_perfetto(device: str, tmp_path: Path) -> None:
    @record_function("all of it")
    def run() -> None:
        work(device).cpu()

    run()  # nothing is kept outside of a profile
    with profile() as prof:
        run()
    prof.export_chrome_trace(tmp_path / "trace.json")
    events = json.loads((tmp_path / "trace.json").read_text(encoding="utf-8"))["traceEvents"]
    spans = [e for e in events if e["ph"] == "X"]
    names = {(e["name"], e["pid"]): e["args"]["name"] for e in events if e["ph"] == "M"}
    assert len(spans) == len(prof.events)
    for e in spans:
        assert e["ts"] >= 0
        assert e["dur"] >= 0
        assert ("process_name", e["pid"]) in names
        assert ("thread_name", e["pid"]) in names
    (whole,) = [e for e in spans if e["cat"] == "user_annotation"]
    assert whole["name"] == "all of it"
    assert {e["cat"] for e in spans} >= {"kernel" if device == "gpu" else "op"}
    assert "all of it" not in str(prof)


def test_one_profile_at_a_time_and_an_error_ends_it() -> None:
    before = patched()
    with profile(), pytest.raises(RuntimeError, match="another profile is active"):
        profile().start()
    with pytest.raises(KeyError), profile():
        raise KeyError
    assert patched() == before
    prof = profile()
    prof.start()
    pf.ones(3).exp()
    prof.stop()
    prof.stop()
    assert prof.key_averages()[0].count == 1
    assert profiler.profile is pf.profiler.profile


def test_a_profiled_plan_runs_as_before() -> None:

    plans: list[CpuPlan] = []
    net = pf.nn.Linear(64, 64)
    step = pf.compile(lambda x: net(x).relu().detach())
    x = pf.randn(32, 64)
    want = step(x).tolist()
    for some in step.replays.values():
        plans += [p.plan for r in some for p in r.executables]
    before = [(p.calls, p.blas_threads) for p in plans]
    with profile() as prof:
        assert step(x).tolist() == want
    assert len(prof.events) >= sum(len(p.steps) for p in plans) > 0
    assert [(p.calls, p.blas_threads) for p in plans] == before
    assert step(x).tolist() == want
