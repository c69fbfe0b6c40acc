"""pf.gpu: which GPUs there are, what they hold, how long they take, and their random numbers."""

from __future__ import annotations

import asyncio
import dataclasses
import math
import os
import pickle
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from processes import python
from refused import calls, check_refused, rows
from steps import training_step

import pyframe as pf
from pyframe.backend import native, vulkan
from pyframe.core import devices
from tests.backend.cases import limited

LIMITS = {
    "max-storage-buffers-per-shader-stage": 500000, "max-storage-buffer-binding-size": 1 << 31,
    "max-buffer-size": 1 << 32, "max-compute-invocations-per-workgroup": 1024,
    "max-compute-workgroup-storage-size": 49152, "max-compute-workgroup-size-x": 1024,
}  # fmt: skip
MAKERS = {"NVIDIA": 0x10DE, "Intel": 0x8086, "AMD": 0x1002, "llvmpipe": 0x10005, "": 0}
Settings = Callable[..., None]


def adapter(
    name: str, vendor: str, kind: str = "DiscreteGPU", api: str = "Vulkan", number: int = 1,
    driver: str = "1.0", features: tuple[str, ...] = ("shader-f16",),
) -> Any:  # fmt: skip
    """An adapter as wgpu lists it."""
    info = {
        "device": name, "vendor": vendor, "description": driver, "adapter_type": kind,
        "backend_type": api, "vendor_id": MAKERS[vendor], "device_id": number,
    }  # fmt: skip
    return SimpleNamespace(info=info, limits=LIMITS, features=set(features))


PIPE = adapter("llvmpipe", "llvmpipe", "CPU")
ARC = adapter("Arc", "Intel")
IRIS = adapter("Iris", "Intel", "IntegratedGPU", number=2)
RTX = adapter("RTX", "NVIDIA")
M1 = adapter("M1", "", "IntegratedGPU", "Metal", 0)


def through(one: Any, api: str, driver: str = "1.0") -> Any:
    """The same GPU through another API or driver."""
    return SimpleNamespace(
        info={**one.info, "backend_type": api, "description": driver}, limits=LIMITS, features=()
    )


@pytest.fixture
def there(monkeypatch: pytest.MonkeyPatch) -> Iterator[Settings]:
    """Lets wgpu list these adapters, the best first."""

    def settings(*adapters: Any, wanted: str = "") -> None:
        monkeypatch.setattr(native, "_adapters", lambda: list(adapters))
        monkeypatch.setenv("PYFRAME_ADAPTER", wanted)
        pf.gpu._described.cache_clear()

    yield settings
    pf.gpu._described.cache_clear()
    devices.device.current = 0


# --- which there are


def test_metal_has_room_for_what_is_bound_beside_storage() -> None:
    """Of 31 buffers: the params, and the lengths that wgpu gives to a kernel."""
    assert native._limits(M1).storage_buffers == 29
    assert native._limits(RTX).storage_buffers == 32


def test_the_largest_buffer_is_of_whole_words() -> None:
    """That of D3D12 and of many a Vulkan driver would have 2^31 - 1 bytes, which can't be bound."""
    odd = dict.fromkeys(("max-buffer-size", "max-storage-buffer-binding-size"), (1 << 31) - 1)
    limits = native._limits(SimpleNamespace(**{**vars(RTX), "limits": LIMITS | odd}))
    assert limits.binding_bytes == limits.buffer_bytes == (1 << 31) - 4


@pytest.mark.parametrize(
    ("adapters", "wanted", "count", "names"),
    [
        ([], "", 0, ""),
        ([], "software", 0, ""),
        ([PIPE], "", 0, "llvmpipe"),  # which is opened with a warning
        ([PIPE], "software", 1, "llvmpipe"),
        ([RTX, PIPE], "", 1, "RTX"),
        ([RTX, PIPE], "software", 1, "llvmpipe"),
        ([RTX, IRIS, PIPE], "", 2, "RTX Iris"),
        ([RTX, RTX], "", 2, "RTX RTX"),
        ([RTX, RTX, through(RTX, "D3D12"), through(RTX, "D3D12")], "", 2, "RTX RTX"),
        ([RTX, through(RTX, "Vulkan", "another")], "", 1, "RTX"),
        ([RTX, through(ARC, "D3D12")], "", 2, "RTX Arc"),
        ([M1, M1], "", 2, "M1 M1"),
    ],
)
def test_the_gpus_are_numbered(
    adapters: list[Any], wanted: str, count: int, names: str, there: Settings
) -> None:
    """Each real GPU once, whatever APIs it is to be had through; a CPU only where it is asked for,
    or nothing else could be opened."""
    there(*adapters, wanted=wanted)
    assert (pf.gpu.device_count(), pf.gpu.is_available()) == (count, count > 0)
    found = names.split()
    assert [pf.gpu.get_device_name(i) for i in range(len(found))] == found
    with pytest.raises(RuntimeError, match="no such GPU") as seen:
        pf.gpu.get_device_properties(len(found))
    for i, name in enumerate(found):
        assert f"'gpu:{i}' ({name} through " in str(seen.value)
    if not found:
        assert "Install the GPU's driver" in str(seen.value)
    with pytest.raises(RuntimeError) as opened:
        native.NativeGPU(len(found), wanted)
    assert str(opened.value) == str(seen.value)


def test_properties(there: Settings) -> None:
    there(adapter("RTX", "NVIDIA", driver="550.54", features=("shader-f16", "subgroup")), PIPE)
    about = pf.gpu.get_device_properties("cuda:0")
    found = about.name, about.vendor, about.type, about.api, about.driver
    assert found == ("RTX", "NVIDIA", "discrete", "Vulkan", "NVIDIA 550.54")
    assert (about.float16, about.subgroups, about.timestamps, about.software) == (1, 1, 0, 0)
    assert about.limits.buffer_bytes == 1 << 32
    assert "workgroup_memory=49152" in repr(about)
    assert "buffer='4096 MiB'" in repr(about)


def test_properties_of_the_real_one(gpu: str) -> None:
    about, backend = pf.gpu.get_device_properties(), pf.device(gpu).backend
    assert about.adapter == backend.adapter == pf.device_name(gpu)
    learnt = {name: getattr(about.limits, name) for name in ("refused", "tuned")}  # by other tests
    assert about.limits == dataclasses.replace(backend.limits, **learnt)
    assert about.software == backend.software
    assert pf.gpu.get_device_name(gpu) == about.name
    assert pf.gpu.is_initialized()
    assert vulkan.memory((1, 2)) is None
    memory = vulkan.memory(about.ids)
    assert about.total_memory == (memory and memory[0])
    if about.api == "Vulkan":
        assert about.total_memory is not None
        assert about.total_memory > 1 << 20
        assert vulkan.memory(about.ids, 64) is None
    if memory is None or memory[1] is None:
        with pytest.raises(RuntimeError, match="mem_get_info: .* does not tell what is free"):
            pf.gpu.mem_get_info()
    else:
        assert 0 < pf.gpu.mem_get_info()[0] <= pf.gpu.mem_get_info()[1]


NO_GPU = """
import sys
sys.modules["wgpu"] = None
import pyframe as pf
g = pf.gpu
assert not g.is_available() and g.device_count() == 0 and not g.is_initialized()
assert g.memory_allocated() == g.max_memory_reserved() == 0 == g.memory_stats("cuda:3")[
    "reserved_bytes.all.peak"]
assert g.current_device() == 0 and g.memory_summary() == "gpu: not used yet"
g.synchronize()
g.empty_cache()
g.reset_peak_memory_stats()
g.set_device(0)
g.manual_seed_all(3)
assert g.initial_seed() == 3 and g.get_rng_state_all() == [] and not g.is_bf16_supported()
for ask in (g.get_device_name, g.get_device_properties, g.mem_get_info, g.Event().record, g.init):
    try:
        ask()
    except RuntimeError as error:
        assert "pip install wgpu" in str(error), error
    else:
        raise AssertionError(ask)
print("done")
"""


def test_without_a_gpu() -> None:
    assert python("-W", "error", "-c", NO_GPU) == ["done\n", ""]


NO_GPUS = """
memory_allocated("cpu") -> ValueError: memory_allocated: expected a GPU, as in 'gpu'
synchronize(-2) -> ValueError: synchronize: expected the number of a GPU, got -2
Stream("cpu") -> ValueError: Stream: expected a GPU
Event(interprocess=True) -> RuntimeError: interprocess can't be
set_rng_state(pf.ones(3)) -> TypeError: the uint8 tensor
"""


@pytest.mark.parametrize(("call", "text"), rows(NO_GPUS))
def test_refused(call: str, text: str) -> None:
    check_refused(f"pf.gpu.{call}", text, lambda lib: {"pf": pf})


# --- the current one, and several


def test_the_current_gpu(there: Settings) -> None:
    there(RTX, IRIS)
    assert pf.device("gpu") is pf.device("gpu:0") is pf.device("cuda", 0)
    with pf.gpu.device(1):
        assert pf.gpu.current_device() == 1
        assert pf.device("gpu") is pf.device("cuda") is pf.device("gpu:1")
        for d in (pf.device("gpu", 0), pf.device("gpu:1"), pf.device("cpu")):
            assert pf.device(str(d)) is d
            assert pickle.loads(pickle.dumps(d)) is d
        with pf.gpu.device(None), pf.gpu.device(-1), pf.gpu.device_of(pf.ones(1)):
            assert pf.gpu.current_device() == 1
        with pf.gpu.device("gpu:0"):
            assert pf.device("gpu").index == 0
    assert pf.gpu.current_device() == 0
    pf.gpu.set_device(-1)
    pf.gpu.set_device("gpu:1")
    assert pf.gpu.current_device() == 1
    with pytest.raises(RuntimeError, match=r"there are 'gpu:0' \(RTX .*'gpu:1' \(Iris"):
        pf.gpu.set_device(2)
    assert pf.gpu.current_device() == 1


@pytest.fixture
def two(gpu: str, monkeypatch: pytest.MonkeyPatch, there: Settings) -> Iterator[None]:
    """Two GPUs: the one that is here, twice."""
    (first, *_) = native._choose(os.environ["PYFRAME_ADAPTER"] == "software")
    there(first, first, wanted=os.environ["PYFRAME_ADAPTER"])
    yield
    if pf.device("gpu:1").opened is not None:
        devices._forget(pf.device("gpu:1"))


def test_each_number_is_its_own_gpu(two: None) -> None:
    assert pf.gpu.device_count() == 2
    x, y = pf.arange(3.0, device="gpu:0"), pf.arange(3.0, device="gpu:1")
    assert pf.device("gpu:0").backend is not pf.device("gpu:1").backend
    assert (y * 2).tolist() == x.to("gpu:1").mul(2).tolist() == [0, 2, 4]
    with pytest.raises(RuntimeError, match="gpu:1"):
        x + y
    before = pf.gpu.memory_allocated(0)
    big = pf.ones(1000, device="gpu:1")
    pf.gpu.synchronize(1)
    assert pf.gpu.memory_allocated(0) == before
    assert pf.gpu.memory_allocated(1) > big.numel() * 4
    assert [len(s) for s in pf.gpu.get_rng_state_all()] == [16, 16]
    with pytest.raises(RuntimeError, match="'gpu:2': no such GPU; there are 'gpu:0'"):
        pf.ones(1, device="gpu:2").tolist()


NUMBERED = """
pf.device(1) | pf.device(type="cuda", index=1) | pf.ones(2, device=1).device
pf.ones(2).to(1, non_blocking=True).device | pf.ones(2).cuda(1, non_blocking=True).device
pf.ones(2).cuda(device="cuda:1").device | pf.nn.Linear(2, 2).to(1).weight.device
pf.nn.Linear(2, 2).cuda(1).weight.device
"""


def test_a_number_names_a_gpu(two: None) -> None:
    for call in calls(NUMBERED):
        assert eval(call) is pf.device("gpu:1"), call
    assert pf.ones(2).to(pf.float32, True).device is pf.device("cpu")
    with pytest.raises(RuntimeError, match="device: unknown device -1; expected 'cpu'"):
        pf.device(-1)


def test_a_compiled_function_asks_for_the_current_gpu(two: None) -> None:
    f = pf.compile(lambda n: pf.ones(n, device="gpu") + 1)
    for _ in range(2):
        for index in (0, 1):
            with pf.gpu.device(index):
                for _ in range(2):
                    out = f(2)
                    assert out.device is pf.device("gpu", index)
                    assert out.tolist() == [2, 2]


# --- memory


def test_memory_and_its_peaks(gpu: str) -> None:
    size = 1 << 16
    x = pf.zeros(size, device=gpu)
    pf.gpu.synchronize()
    before = pf.gpu.memory_allocated()
    pf.gpu.reset_peak_memory_stats()
    assert pf.gpu.max_memory_allocated() == before
    y = x + 1
    pf.gpu.synchronize()
    assert pf.gpu.memory_allocated() >= before + size * 4
    del y
    most, reserved = pf.gpu.max_memory_allocated(), pf.gpu.memory_reserved()
    assert most >= before + size * 4
    assert pf.gpu.memory_allocated() < most <= pf.gpu.max_memory_reserved()
    assert pf.gpu.memory_stats(gpu) == {
        "allocated_bytes.all.current": pf.gpu.memory_allocated(),
        "allocated_bytes.all.peak": most,
        "reserved_bytes.all.current": reserved,
        "reserved_bytes.all.peak": pf.gpu.max_memory_reserved(),
    }
    pf.gpu.empty_cache()
    assert pf.gpu.memory_reserved() == pf.gpu.memory_allocated() < reserved
    pf.gpu.reset_peak_memory_stats()
    assert pf.gpu.max_memory_allocated() == pf.gpu.memory_allocated() < most
    assert pf.gpu.max_memory_reserved() == pf.gpu.memory_reserved()
    reused = pf.device(gpu).backend.stats
    reused.reset()
    assert reused.peak_live > 0, "counters start over, peaks by themselves"


@pytest.fixture
def small(gpu: str) -> Iterator[Any]:
    """The GPU, with room for 4096 bytes in a binding."""
    d = pf.device(gpu)
    with limited(dataclasses.replace(d.backend.limits, binding_bytes=4096)):
        yield d


TOO_LARGE = (
    "a tensor of {} bytes is too large for this GPU .*: its largest buffer is {} bytes; split the "
    "tensor or use device='cpu'"
)


def test_what_is_larger_than_a_binding(small: Any) -> None:
    """An argument, a result, a temporary, compiled and not: the numbers are told, and what fits
    goes on."""
    with pytest.raises(pf.OutOfMemoryError, match=TOO_LARGE.format(4100, 4096)):
        pf.zeros(1025).to(small)
    x = pf.ones(1024).to(small)
    assert x.sum().item() == 1024
    row, column = x[:40].reshape(1, 40), x[:40].reshape(40, 1)
    for run in (lambda a, b: b @ a, lambda a, b: (b @ a).softmax(1) @ b):
        for call in (run, pf.compile(run)):
            with pytest.raises(pf.OutOfMemoryError, match=TOO_LARGE.format(6400, 4096)):
                call(row, column).cpu()
            assert call(row[:, :32], column[:32]).shape[0] == 32
    assert (x + 1).sum().item() == 2048


def test_a_size_class_is_no_larger_than_a_binding(small: Any) -> None:
    """What has just room is not refused because its size class has none."""
    small.backend.limits = dataclasses.replace(small.backend.limits, binding_bytes=4100)
    x, w = pf.ones(1025, 1).to(small), pf.full((1, 1), 2.0, device=small)
    for run in (lambda x: (x @ w) @ w, pf.compile(lambda x: (x @ w) @ w)):
        assert run(x).sum().item() == 4100


def test_parameters_are_merged_as_far_as_a_binding_goes(small: Any) -> None:
    """An optimizer's update of many tensors is one kernel for each set of them that has room."""
    losses, kernels = {}, {}
    for most in (4096, 1 << 20):
        small.backend.limits = dataclasses.replace(small.backend.limits, binding_bytes=most)
        pf.manual_seed(2)
        net = pf.nn.Sequential(*[pf.nn.Linear(16, 16) for _ in range(8)]).to(small)
        optimizer = pf.optim.Adam(net.parameters())
        x = pf.ones(2, 16).to(small)
        step = pf.compile(training_step(optimizer, lambda: net(x).square().sum()))  # noqa: B023
        losses[most] = [step().item() for _ in range(4)]
        (program,) = step.programs
        assert max(program.regions) <= most
        assert all(s.nbytes <= most for s in program.slots)
        kernels[most] = len(program.steps)
    assert losses[4096] == losses[1 << 20]
    assert 0 < kernels[4096] - kernels[1 << 20] <= 3  # 8.7 KiB in sets of 4 KiB


def test_what_is_used_again_raises_the_peak_too(gpu: str) -> None:
    executor, backend = pf.device(gpu).executor, pf.device(gpu).backend
    first = executor.alloc(1 << 18)
    del first
    backend.stats.reset_peaks()
    live, reserved = backend.stats.bytes_live, backend.stats.bytes_reserved
    again = executor.alloc(1 << 18)
    assert again.nbytes == 1 << 18
    assert backend.stats.peak_live == live + (1 << 18)
    assert backend.stats.peak_reserved == reserved == backend.stats.bytes_reserved


def test_memory_summary(gpu: str) -> None:
    x = pf.ones(1 << 18, device=gpu)
    pf.gpu.synchronize()
    text = pf.gpu.memory_summary()
    assert text.startswith(f"gpu: {pf.device_name(gpu)}")
    now, most = pf.gpu.memory_allocated() / 2**20, pf.gpu.max_memory_allocated() / 2**20
    assert x.numel() * 4 <= now * 2**20
    assert re.search(rf"\nin use +{now:.1f} MiB +{most:.1f} MiB\n", text)
    rows = [line.split("  ")[0] for line in pf.gpu.memory_summary(abbreviated=True).splitlines()]
    assert rows[2:] == ["in use", "reserved"]
    assert len(text.splitlines()) == 7


# --- waiting, and time


def test_synchronize_runs_and_waits(gpu: str) -> None:
    stats = pf.device(gpu).backend.stats
    for wait in (pf.gpu.synchronize, lambda: asyncio.run(pf.gpu.synchronize_async())):
        x = pf.ones(3, device=gpu) + 1
        stats.reset()
        wait()
        assert (stats.dispatches, stats.reads) == (1, 1)
        assert x.tolist() == [2, 2, 2]


def test_synchronize_raises_what_a_check_found(gpu: str) -> None:
    bad = pf.nn.functional.embedding(pf.tensor([7], device=gpu), pf.ones(3, 2, device=gpu))
    with pytest.raises(IndexError):
        pf.gpu.synchronize()
    del bad


@pytest.mark.parametrize("clock", ["gpu", "host"])
def test_events(gpu: str, clock: str, monkeypatch: pytest.MonkeyPatch) -> None:
    backend = pf.device(gpu).backend
    if clock == "host":
        monkeypatch.setattr(backend, "_timestamps", False)
    elif not backend._timestamps:
        pytest.skip("this GPU has no timestamp-query")
    start, middle, end = (pf.gpu.Event(enable_timing=True) for _ in range(3))
    start.record()
    x = pf.randn(64, 64, device=gpu)
    asyncio.run(middle.record_async(pf.gpu.current_stream()))
    y = x @ x
    end.record()
    assert start.clock == middle.clock == end.clock == clock
    assert end.query()
    parts = start.elapsed_time(middle), middle.elapsed_time(end)
    assert all(0 <= part < 600_000 for part in parts)
    assert sum(parts) == pytest.approx(start.elapsed_time(end))
    assert end.elapsed_time(start) == -start.elapsed_time(end)
    assert asyncio.run(start.elapsed_time_async(end)) == start.elapsed_time(end)
    assert repr(end) == f"<Event on gpu, by the {clock}'s clock>"
    assert y.shape == (64, 64)


def test_an_event_runs_what_was_recorded_before_it(gpu: str) -> None:
    stats = pf.device(gpu).backend.stats
    pf.flush()  # what other tests have left
    x = pf.ones(3, device=gpu) + 1
    stats.reset()
    event = pf.gpu.Event()
    event.record()
    assert (stats.dispatches, stats.reads) == (1, 0)
    event.synchronize()
    assert stats.reads == 1
    assert x.tolist() == [2, 2, 2]


def test_events_without_a_time(gpu: str) -> None:
    timed, plain, new = pf.gpu.Event(True), pf.gpu.Event(), pf.gpu.Event(enable_timing=True)
    timed.record()
    plain.record()
    with pytest.raises(RuntimeError, match="both events must be created with enable_timing=True"):
        timed.elapsed_time(plain)
    with pytest.raises(RuntimeError, match="both events must be recorded before"):
        timed.elapsed_time(new)
    assert new.query()
    assert repr(new) == "<Event not recorded>"


@pytest.mark.parametrize(
    ("ask", "why"),
    [
        (lambda: pf.gpu.synchronize(), "waits for a GPU"),
        (lambda: pf.gpu.Event().record(), "records an event"),
        (lambda: pf.gpu.memory_allocated(), "asks for the memory of a GPU"),
    ],
)
def test_a_capture_ends_there(ask: Callable[[], Any], why: str, gpu: str) -> None:
    """What is asked for once would be stale in a replay."""
    asked = []

    @pf.compile
    def f(x: pf.Tensor) -> pf.Tensor:
        y = x + 1
        asked.append(ask())
        return y * 2

    x = pf.ones(2, device=gpu)
    with pytest.warns(RuntimeWarning, match=why):
        assert f(x).tolist() == [4, 4]
    assert f(x).tolist() == [4, 4]
    assert len(asked) == 2


# --- random numbers


def test_random_numbers_of_a_gpu(gpu: str) -> None:
    def draw(device: str = gpu) -> Any:
        return pf.rand(4, device=device).tolist()

    pf.manual_seed(1)
    common, host = draw(), draw("cpu")
    pf.manual_seed(1)
    pf.gpu.manual_seed(2)
    assert (pf.gpu.initial_seed(), pf.initial_seed()) == (2, 1)
    own = draw()
    assert own != common
    assert draw("cpu") == host, "the CPU's numbers are as they were"
    state = pf.gpu.get_rng_state()
    second = draw()
    pf.gpu.manual_seed_all(2)
    assert [draw(), draw()] == [own, second]
    pf.gpu.manual_seed(9)
    with pf.random.fork_rng():
        pf.gpu.seed_all()
        draw()
    assert pf.gpu.initial_seed() == 9
    pf.gpu.set_rng_state(state)
    assert pf.gpu.initial_seed() == 2
    assert draw() == second
    pf.gpu.set_rng_state_all(pf.gpu.get_rng_state_all())
    pf.gpu.seed()
    assert pf.gpu.initial_seed() != 2
    pf.manual_seed(1)
    assert (draw(), pf.gpu.initial_seed()) == (common, 1)


def test_the_state_of_a_stream_not_begun(gpu: str) -> None:
    pf.default_generator._states.pop(pf.device(gpu), None)
    pf.manual_seed(7)
    state = pf.gpu.get_rng_state()
    assert np.frombuffer(state.numpy().tobytes(), np.uint64).tolist() == [7, 0]
    x = pf.rand(3, device=gpu).tolist()
    pf.gpu.set_rng_state(state)
    assert pf.rand(3, device=gpu).tolist() == x


def test_a_replay_draws_from_the_new_seed(gpu: str) -> None:
    f = pf.compile(lambda n: pf.rand(n, device=gpu))
    seen = []
    for _ in range(4):
        pf.gpu.manual_seed(5)
        seen.append(f(3).tolist())
    assert seen == seen[:1] * 4


# --- as torch.cuda

CUDA = """
import torch
assert torch.cuda.is_available() and torch.cuda.device_count() == 1
device = torch.device("cuda", torch.cuda.current_device())
assert torch.cuda.get_device_name(0) == torch.cuda.get_device_properties(device).name
torch.cuda.manual_seed_all(0)
torch.cuda.reset_peak_memory_stats()
start, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
with torch.cuda.device(0), torch.cuda.stream(torch.cuda.Stream()):
    start.record()
    x = torch.randn(8, 8, device="cuda") @ torch.ones(8, 8, device=device)
    end.record()
torch.cuda.synchronize()
assert start.elapsed_time(end) >= 0
assert 0 < torch.cuda.memory_allocated() <= torch.cuda.max_memory_allocated()
assert torch.cuda.memory_reserved(device) <= torch.cuda.max_memory_reserved()
torch.cuda.empty_cache()
torch.cuda.ipc_collect()
assert isinstance(torch.cuda.memory_summary(), str) and torch.cuda.is_bf16_supported()
assert not torch.cuda.is_bf16_supported(including_emulation=False)
assert torch.cuda.OutOfMemoryError is torch.OutOfMemoryError
assert len(torch.cuda.get_rng_state()) == 16
assert torch.accelerator.current_accelerator().type == "cuda"
assert torch.accelerator.memory_allocated() == torch.cuda.memory_allocated()
torch.accelerator.synchronize()
assert torch.mps.is_available() is torch.backends.mps.is_available()
assert torch.mps.current_allocated_memory() == torch.cuda.memory_allocated()
x = torch.cuda.FloatTensor([1, 2])
assert isinstance(x, torch.cuda.FloatTensor) and not isinstance(x, torch.FloatTensor)
assert x.type() == "torch.cuda.FloatTensor" == torch.ones(2).type("torch.cuda.FloatTensor").type()
assert x.type(torch.cuda.LongTensor).tolist() == [1, 2] and x.type(torch.LongTensor).is_cpu
torch.set_default_tensor_type("torch.cuda.FloatTensor")
assert torch.ones(2).is_cuda
assert torch.cuda.get_device_capability() == (0, 0)  # of no NVIDIA card
print("done")
"""


def test_torch_cuda(gpu: str, tmp_path: Path) -> None:
    (tmp_path / "program.py").write_text(CUDA)
    assert python("-m", "pyframe.torch", "program.py", folder=tmp_path) == ["done\n", ""]


def test_zeros_are_a_new_buffer_or_computed(gpu: str) -> None:
    """A buffer that is made holds zeros, one that was used does not."""
    executor = pf.device(gpu).executor
    executor.trim()
    stats = executor.backend.stats
    stats.reset()
    for n in (5, 5, 7):
        x = pf.zeros(1000, n, device=gpu)
        pf.flush()
        assert not x.count_nonzero()
    assert stats.dispatches == 3 + 1  # the second one takes the first one's buffer
    for value in (-0.0, 1.0):
        x = pf.full((3,), value, device=gpu)
        assert math.copysign(1, x[0].item()) == (1 if value else -1)
    x = pf.zeros(3, device=gpu)
    assert x.tolist() == x.clone().tolist() == x.expand(2, 3).clone()[1].tolist() == [0, 0, 0]
