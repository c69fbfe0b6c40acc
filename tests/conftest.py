"""What the whole suite shares: the devices, the oracle, and a fixed start for every test."""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import gc
import importlib.util
import os
import random
import signal
import sys
import tracemalloc
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

# Before anything opens a GPU: tests run on Mesa's software Vulkan, the same everywhere (on your own
# GPU: PYFRAME_ADAPTER= bash scripts/test), and without a folder for it Mesa complains on stderr.
os.environ.setdefault("PYFRAME_ADAPTER", "software")
os.environ.setdefault("XDG_RUNTIME_DIR", os.devnull)
# Most of what a test takes there is Mesa compiling small kernels: a quarter less without optimizing
# them.
os.environ.setdefault("GALLIVM_PERF", "nopt")
# What tests compile is kept beside the checkout, not among what the user's own programs did.
os.environ.setdefault("PYFRAME_CACHE", str(Path(__file__).parents[1] / "build" / "cache"))

import numpy as np
import pytest

import pyframe as pf
from tests.compared import import_torchvision

TESTS = Path(__file__).parent
# What tests write need not outlive a power cut; an export alone would wait 18 times for the disk.
pytest.MonkeyPatch().setattr(os, "fsync", lambda fd: None)

# A command that a shell starts in the background ignores interrupts, and some tests send one.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.fixture(autouse=True, scope="module")
def programs_of_a_file_go() -> Iterator[None]:
    """What the CPU compiled for recorded work: no other file's tests use it."""
    yield
    executor = pf.device("cpu").opened
    if executor is not None:
        executor.forget_programs()


@pytest.hookimpl(tryfirst=True)  # before pytest-xdist reads the groups
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """One worker of pytest-xdist runs all tests of a file that share a page; each has a browser.
    So it is with those of the wheels, and with the attacks: these begin, so that no worker is left
    alone with long ones. The others go out by hundreds: each unit of work costs the scheduler as
    much as there were units before it, which for 20,000 was a minute."""
    if os.environ["PYFRAME_ADAPTER"] == "software" and "PYFRAME_STALE" not in os.environ:
        left = _left_to_real_gpus(items)
        config.hook.pytest_deselected(items=[*left])
        items[:] = [item for item in items if item not in left]
    alone: list[pytest.Item] = []
    others: list[pytest.Item] = []
    for item in items:
        group = item.path.stem
        if item.path.is_relative_to(TESTS / "web") or group in ("test_soak", "test_release"):
            alone.append(item)
        else:
            group = f"{group}-{len(others) // 100}"
            others.append(item)
        item.add_marker(pytest.mark.xdist_group(group))
    items[:] = alone + others


def pytest_make_parametrize_id(val: object, argname: str) -> str | None:
    """Files among the parameters, some of megabytes, are not part of a test's name."""
    return argname if isinstance(val, bytes) and len(val) > 40 else None


def _left_to_real_gpus(items: list[pytest.Item]) -> set[pytest.Item]:
    """What `sampled(n)` spares a software driver, which compiles a kernel in 80 ms: of the cases of
    a test that run on the GPU all but each nth."""
    left: set[pytest.Item] = set()
    met: Counter[str] = Counter()
    for item in items:
        mark = item.get_closest_marker("sampled")
        case: Any = getattr(item, "callspec", None)
        if mark is not None and (case is None or case.params.get("device", "gpu") == "gpu"):
            test = item.nodeid.partition("[")[0]
            if met[test] % mark.args[0]:
                left.add(item)
            met[test] += 1
    return left


def pytest_collection_finish() -> None:
    """What is there now, PyTorch above all, stays: each capture collects garbage, and need not look
    at a million objects for it. And where others use the cores too, PyTorch's threads wait for each
    other longer than they work."""
    if "torch" in sys.modules:
        sys.modules["torch"].set_num_threads(1)
    gc.collect()
    gc.freeze()
    gc.set_threshold(*gc.get_threshold()[:2], 100)  # all of it again only now and then


@functools.cache
def no_gpu() -> str | None:
    """Why the tests on 'gpu' cannot run here; None where they can."""
    try:
        import wgpu
    except ImportError as error:
        return f"wgpu cannot be imported: {error}"
    adapters = [adapter.info for adapter in wgpu.gpu.enumerate_adapters_sync()]
    kinds = {a["adapter_type"] for a in adapters if a["backend_type"] != "OpenGL"}
    if not kinds:
        return "wgpu finds no adapter, not even Mesa's software Vulkan (mesa-vulkan-drivers)"
    if os.environ["PYFRAME_ADAPTER"] == "software" and "CPU" not in kinds:
        return "no software adapter here; PYFRAME_ADAPTER= in the environment takes the real GPU"
    return None


@pytest.fixture(params=["cpu", "gpu"])
def device(request: pytest.FixtureRequest) -> str:
    """The test runs once on each device."""
    if request.param == "gpu":
        request.getfixturevalue("gpu")
    return str(request.param)


@pytest.fixture
def gpu(request: pytest.FixtureRequest) -> str:
    """For a test that is about the GPU alone. A module with REAL_KERNELS has on a software adapter
    too those that real GPUs run, which it takes four times as long for."""
    reason = no_gpu()
    if reason:
        pytest.skip(reason)
    with contextlib.suppress(pf.DeviceLostError):
        pf.flush()  # what other tests have left is not counted as this one's
    executor = pf.device("gpu").executor
    backend = executor.backend
    real = getattr(request.module, "REAL_KERNELS", not backend.software)
    kind = "" if real else "software"
    if backend.limits.kind != kind:
        executor.forget_programs()
        backend.limits = dataclasses.replace(backend.limits, kind=kind)
    return "gpu"


@pytest.fixture
def steady(gpu: str) -> Any:
    """`steady(step, n)` is what the GPU does in n calls of a step, once it is captured."""
    stats = pf.device(gpu).backend.stats

    def run(step: Any, n: int = 4) -> Any:
        for _ in range(3):
            step()
        pf.flush()
        stats.reset()
        for _ in range(n):
            step()
        pf.flush()
        return stats

    return run


@pytest.fixture
def by_numpy(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """NumPy runs what the CPU captures: LLVM takes longer to compile a step than all the rest."""
    monkeypatch.setattr("pyframe.runtime.cpu.compiler", lambda: None)
    limits = importlib.import_module("pyframe.backend.interpreter").HOST
    monkeypatch.setattr(pf.device("cpu").backend, "limits", limits)
    pf.device("cpu").executor.forget_programs()
    yield
    pf.device("cpu").executor.forget_programs()


@pytest.fixture
def lazy() -> Iterator[Any]:
    """A device that only records, whose schedules can be looked at."""
    d = pf.device("gpu:77")
    d.attach(importlib.import_module("tests.graph.plans").Recorder())
    yield d
    d.detach()


@pytest.fixture(scope="session")
def torch() -> Any:
    """The oracle."""
    return pytest.importorskip("torch", reason="PyTorch, the oracle, is missing (scripts/test)")


@pytest.fixture(scope="session")
def torchvision(torch: Any) -> Any:
    """The oracle for images."""
    try:
        return import_torchvision()
    except ImportError:
        pytest.skip("torchvision, the oracle for images, is missing (scripts/test)")


@pytest.fixture(autouse=True)
def fixed_start() -> Iterator[None]:
    """Every test begins with the same random state, and leaves no default behind and no lock."""
    random.seed(0)
    np.random.seed(0)
    pf.manual_seed(0)
    if "torch" in sys.modules:
        sys.modules["torch"].default_generator.manual_seed(0)
    yield
    pf.set_default_device(None)
    pf.set_default_dtype(pf.float32)
    pf.set_grad_enabled(True)
    locks: Any = (
        importlib.import_module("pyframe.ops.random.draws")._DRAWING,
        importlib.import_module("pyframe.capture.compile")._CAPTURING,
    )
    assert not any(lock._is_owned() for lock in locks)


@pytest.fixture
def traced() -> Any:
    """Calls a function and gives what it gave, and the most bytes that were allocated meanwhile."""

    def run(call: Any, *args: Any, **options: Any) -> tuple[Any, int]:
        tracemalloc.start()
        try:
            found = call(*args, **options)
            return found, tracemalloc.get_traced_memory()[1]
        finally:
            tracemalloc.stop()

    return run
