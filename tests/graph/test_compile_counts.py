"""What a compiled step costs once it is captured: objects made, dispatches, bytes, memory."""

from __future__ import annotations

import dataclasses
import gc
import importlib
import math
import re
import weakref
from collections import deque
from typing import Any

import numpy as np
import pytest
from steps import training_step

import pyframe as pf
from pyframe import nn, optim
from pyframe.codegen.wgsl import generate, library
from pyframe.core.limits import Limits
from pyframe.nn import functional as F
from pyframe.runtime.offline import offline_device
from pyframe.tools.bench.workloads import CASES


@pytest.fixture(scope="module")
def cases() -> dict[str, Any]:
    """The training steps that the benchmarks measure, in small."""
    return {case.key: case for case in CASES if case.dispatches is not None}


@pytest.mark.parametrize("key", ["W1", "W2", "W3"])
def test_a_step_makes_nothing_and_uploads_nothing(gpu: str, cases: Any, key: str) -> None:
    case = cases[key]
    run = case.make(pf, gpu, pf.compile, **case.quick)
    kept = [run() for _ in range(3)]
    kept[-1].item()
    stats = pf.device(gpu).backend.stats
    for _ in range(8):  # the buffers of results take turns
        run()
    stats.reset()
    steps = 4
    for _ in range(steps):
        run()
    assert (stats.pipelines, stats.bind_groups, stats.buffers) == (0, 0, 0)
    assert stats.bytes_uploaded == 0, "the batches lie on the device"
    assert stats.dispatches / steps <= case.dispatches
    assert stats.submits / steps <= max(8, 1 + case.dispatches // 16)


@pytest.mark.parametrize(("key", "most"), [("W1", 15), ("W2", 26), ("W3", 146)])
def test_steps_of_browsers_are_short(
    gpu: str, cases: Any, key: str, most: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With ten storage buffers a kernel, as Chromium has them; planned, not run."""
    backend = pf.device(gpu).backend
    monkeypatch.setattr(backend, "limits", dataclasses.replace(backend.limits, storage_buffers=10))
    monkeypatch.setattr(type(backend), "run", lambda *_: None)
    before = set(pf.device(gpu).executor.programs)
    run = cases[key].make(pf, gpu, pf.compile, **cases[key].sizes)
    run()
    new = [p for k, p in pf.device(gpu).executor.programs.items() if k not in before]
    assert len(new[-1].steps) <= most


@pytest.mark.parametrize("key", ["W1", "W2", "W3"])
def test_no_condition_of_a_step_is_a_branch(gpu: str, cases: Any, key: str) -> None:
    """Of a loop with 65 `&&` in W2 Chromium's software adapter made so many paths that it died."""
    case = cases[key]
    gc.collect()  # Programs of steps that other tests left
    run = case.make(pf, gpu, pf.compile, **case.quick)
    before = set(pf.device(gpu).executor.programs)
    for _ in range(2):
        run()
    new = [p for k, p in pf.device(gpu).executor.programs.items() if k not in before]
    codes = [generate(k).code for p in new for k in p.kernels]
    assert any(" & (" in code for code in codes), "conditions are in these kernels"
    assert not [code for code in codes if "&&" in code or "||" in code]
    if key == "W1":  # a software adapter takes ten times as long to compile what has barriers
        assert any("Barrier" in code for code in codes)
        software = dataclasses.replace(pf.device(gpu).backend.limits, kind="software")
        alone = [generate(k, software).code for p in new for k in p.kernels]
        assert not [code for code in alone if "Barrier" in code]


def test_no_condition_of_a_shader_is_a_branch() -> None:
    for path in library.folder().rglob("*.wgsl"):
        assert not re.search(r"&&|\|\|", library.source(path.relative_to(library.folder())))


def test_only_the_batch_is_uploaded(gpu: str, steady: Any) -> None:
    net = nn.Linear(4, 3).to(gpu)
    opt = optim.Adam(net.parameters())
    step = pf.compile(training_step(opt, lambda x, y: F.cross_entropy(net(x), y)))

    def batch() -> tuple[Any, Any]:
        return pf.randn(8, 4).to(gpu), pf.arange(8).remainder(3).to(gpu)

    stats = steady(lambda: step(*batch()), 3)
    assert stats.bytes_uploaded == 3 * (8 * 4 + 8) * 4
    assert (stats.pipelines, stats.bind_groups, stats.buffers) == (0, 0, 0)


def test_a_new_learning_rate_uploads_a_little(gpu: str, steady: Any) -> None:
    w = nn.Parameter(pf.ones(3, device=gpu))
    opt = optim.SGD([w], lr=0.1)

    @pf.compile
    def step(g: Any) -> None:
        w.grad = g
        opt.step()

    g = pf.ones(3, device=gpu)
    stats = steady(lambda: step(g), 1)
    assert stats.bytes_uploaded == 0
    opt.param_groups[0]["lr"] = 0.5
    step(g)
    assert 0 < stats.bytes_uploaded <= 1024
    np.testing.assert_allclose(w.detach().cpu().numpy(), np.full(3, 1 - 0.4 - 0.5), rtol=1e-5)


def tiny(device: str) -> Any:
    net = nn.Sequential(nn.Linear(2, 2), nn.Dropout(0.1)).to(device)
    opt = optim.SGD(net.parameters(), lr=0.01, momentum=0.9)
    step = pf.compile(training_step(opt, lambda x: net(x).square().mean()))
    x = pf.ones(1, 2, device=device)
    return lambda: step(x)


def objects() -> int:
    gc.collect()
    return len(gc.get_objects())


def test_memory_stays_flat_on_the_cpu() -> None:
    step = tiny("cpu")
    for _ in range(100):
        step()
    before = objects()
    for _ in range(500):
        step()
    assert objects() <= before + 20


def test_memory_stays_flat_on_the_gpu(gpu: str) -> None:
    step = tiny(gpu)
    backend = pf.device(gpu).backend

    def look() -> tuple[int, int]:
        gc.collect()
        stats = backend.stats
        return stats.bytes_live + stats.bytes_pooled, len(backend._buffers)

    loss = step()
    for _ in range(60):
        loss = step()
    loss.item()
    before, count = look(), objects()
    for i in range(500):
        loss = step()
        if i % 100 == 0:
            loss.item()
    assert look() == before
    assert objects() <= count + 20


@pytest.mark.parametrize(("key", "most"), [("W1", 150), ("W3", 800)])
def test_few_values_are_looked_at_before_a_replay(cases: Any, key: str, most: int) -> None:
    run = cases[key].make(pf, "cpu", pf.compile, **{**cases[key].sizes, "batch": 1})
    run(), run()
    replay = next(reversed(run.step.replays.values()))[0]
    assert replay.hits
    assert 50 < replay.guard.count <= most


def test_nothing_but_tensors_is_read(device: str) -> None:
    """A function of its arguments alone costs next to nothing."""
    f = pf.compile(lambda x, y: (x @ y).relu())
    x = pf.ones(3, 3, device=device)
    f(x, x), f(x, x)
    replay = next(reversed(f.replays.values()))[0]
    assert replay.guard.count <= 4  # its own code and defaults, and what `Tensor.relu` is


def test_captures_of_many_shapes_are_forgotten(device: str) -> None:
    f = pf.compile(lambda x: (x * 2).sum(), dynamic=False)
    for _ in range(2):
        for n in range(1, 14):
            assert f(pf.ones(n, device=device)).item() == 2 * n
    assert sum(map(len, f.replays.values())) <= 8


def test_what_is_bound_to_many_sizes_is_forgotten() -> None:
    f = pf.compile(lambda x: (x * 2).sum())
    for n in range(2, 90):
        assert f(pf.ones(n)).item() == 2 * n
    assert f.captured == 3
    kept = [r for some in f.replays.values() for r in some]
    assert len(kept) == 2 + 64
    memory = {id(m) for r in kept[2:] for e in r.executables for m in e.formulas.rooms.values()}
    assert len(memory) <= 4  # they share it


def test_what_is_dropped_before_the_flush_costs_nothing(gpu: str) -> None:
    x = pf.ones(8, device=gpu)
    x.cpu()
    stats = pf.device(gpu).backend.stats
    stats.reset()
    y = (x * 2).exp().sum()
    z = y + 1
    del y, z
    pf.flush()
    assert stats.dispatches == stats.submits == 0


def test_what_is_dropped_within_a_capture_costs_nothing(gpu: str, steady: Any) -> None:
    @pf.compile
    def f(x: Any) -> Any:
        unused = x @ x
        unused = unused.exp().sum()
        return x + 1

    x = pf.ones(8, 8, device=gpu)
    assert steady(lambda: f(x), 1).dispatches == 1
    assert (f(x).cpu().numpy() == 2).all()


@pytest.mark.parametrize("width", [3, 5])  # 3: slices begin at no multiple of what can be copied
def test_slices_as_arguments_share_one_capture(device: str, width: int) -> None:
    x = pf.arange(600.0, device=device).reshape(-1, width)
    y = pf.arange(len(x), device=device) % 4
    net = nn.Linear(width, 4).to(device)
    opt = optim.SGD(net.parameters(), lr=1e-9)
    step = pf.compile(training_step(opt, lambda x, y: F.cross_entropy(net(x / 600), y)))
    stats = pf.device(device).backend.stats
    made = []
    for i in range(20):
        step(x[i : i + 10], y[i : i + 10]).item()
        step(x[i : i + 20 : 2], y[i : i + 20 : 2]).item()
        made.append((stats.pipelines, stats.bind_groups))
    assert (step.captured, step.replayed) == (2, 38)
    assert made[8] == made[-1]


def test_slices_that_move_share_pipelines(gpu: str) -> None:
    host = pf.arange(600.0).reshape(100, 6)
    x, stats = host.to(gpu), pf.device(gpu).backend.stats
    made = []
    for i in range(10):
        for cut in (slice(i, i + 10), slice(i, i + 10, 3), i):
            assert (x[cut] * 2 + 1).tolist() == (host[cut] * 2 + 1).tolist()
            assert (x[:, 2:4][cut].t() * 3).tolist() == (host[:, 2:4][cut].t() * 3).tolist()
            assert x[:, 2][cut].tolist() == host[:, 2][cut].tolist()
        made.append(stats.pipelines)
    assert made[4] == made[-1]


def test_reading_rows_runs_nothing(gpu: str) -> None:
    x, stats = pf.arange(60.0, device=gpu).reshape(10, 6), pf.device(gpu).backend.stats
    x.tolist()
    stats.reset()
    for i in range(10):
        assert x[i].tolist() == [*range(6 * i, 6 * i + 6)]
        assert x[i, 3].item() == 6 * i + 3
    assert (stats.dispatches, stats.pipelines, stats.reads) == (0, 0, 20)


def test_a_kind_that_was_forgotten_is_planned_again(
    gpu: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Work that a Program for many sizes did is recorded again after that has gone."""
    executor = pf.device(gpu).executor
    executor.forget_programs()

    def total(n: int) -> float:
        return (pf.full((n,), 2.0, device=gpu).softmax(0) * n).sum().item()

    for n in (2000, 3000, 4500, 6000):
        assert total(n) == pytest.approx(n)
    assert any(kind.patterns for kind in executor._kinds.known.values())
    monkeypatch.setattr(executor._kinds.known, "most", 1)
    assert (pf.ones(4, device=gpu) - 2).cos().tolist() == pytest.approx([math.cos(1)] * 4)
    assert not any(kind.patterns for kind in executor._kinds.known.values())
    assert total(6000) == pytest.approx(6000)


def test_pipelines_go_with_their_programs(gpu: str, monkeypatch: pytest.MonkeyPatch) -> None:
    backend, executor = pf.device(gpu).backend, pf.device(gpu).executor
    for cache in (executor._programs, executor._kinds.known):
        monkeypatch.setattr(cache, "budget", 20)
    executor.forget_programs()
    monkeypatch.setattr(backend, "_latest", deque(maxlen=5))
    for n in range(2, 14):  # three kernels each
        x = pf.ones(n, n + 1, device=gpu)
        (x.relu() @ x.t()).softmax(1).sum().item()
    gc.collect()
    plans = [c.plan for c in executor._programs.values()]
    kept = sum(len(p.program.kernels) for p in plans if not p.grids)
    assert kept == executor._programs.total() <= 20
    assert executor._kinds.known.total() <= 20
    pf.compile(lambda x: x.cos())(x)  # what is gone is unloaded with the next that is loaded
    before = len(backend._pipelines)
    replays = [pf.compile(lambda x: x.exp().sum(0)) for _ in range(20)]
    for n, f in enumerate(replays):
        f(pf.ones(7, 61 + n, device=gpu))
    assert len(backend._pipelines) > before + 10
    del f, replays
    gc.collect()
    pf.compile(lambda x: x.sin())(x)
    assert len(backend._pipelines) <= before + 6


def test_an_executor_goes_with_its_device() -> None:
    gc.disable()  # so that nothing that holds itself goes
    try:
        with offline_device(Limits()) as device:
            executor = weakref.ref(device.executor)
            (pf.ones(4, device=device) * 2).exp()
            pf.flush()
        del device
        assert executor() is None
    finally:
        gc.enable()


def test_no_garbage_is_collected_while_a_replay_is_made(monkeypatch: pytest.MonkeyPatch) -> None:
    # what is planned stays: each collection would go through all of it for nothing
    made, collects = importlib.import_module("pyframe.capture.compile"), []
    replay_of = made.replay_of

    def asked(run: Any) -> Any:
        collects.append(gc.isenabled())
        return replay_of(run)

    monkeypatch.setattr(made, "replay_of", asked)
    step, x = pf.compile(lambda x: x * 2 + 1), pf.ones(3)
    assert step(x).tolist() == [3, 3, 3]
    assert collects == [False]
    assert gc.isenabled()
