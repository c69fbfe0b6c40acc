"""The native replayer alone: tiny programs by hand, as web/runtime.js has them in its own tests."""

from __future__ import annotations

import os
import re
import threading
from array import array
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from processes import python
from steps import training_step

import pyframe as pf
from pyframe import nn
from pyframe.backend import native
from pyframe.backend.base import ProgramCode
from tests.backend.cases import SCALE

# c = a + b, and a counter that goes up in place: two buffers are written.
ADD = """
@group(0) @binding(0) var<storage, read> a: array<f32>;
@group(0) @binding(1) var<storage, read> b: array<f32>;
@group(0) @binding(2) var<storage, read_write> c: array<f32>;
@group(0) @binding(3) var<storage, read_write> count: array<f32>;
@compute @workgroup_size(4) fn main(@builtin(global_invocation_id) id: vec3u) {
  c[id.x] = a[id.x] + b[id.x];
  count[id.x] += 1.0;
}
"""


@pytest.fixture(params=["raw", "public"])
def replayer(request: pytest.FixtureRequest, gpu: str) -> native.NativeGPU:
    """A GPU of its own, once with each way to submit."""
    made = native.NativeGPU(kind=os.environ["PYFRAME_ADAPTER"])
    assert isinstance(made._submitter, native._Raw)
    if request.param == "public":
        made._submitter = native._Public(made._device)
    return made


def buffer(gpu: native.NativeGPU, *values: float) -> int:
    handle = gpu.create(256)
    gpu.write(handle, memoryview(np.asarray(values, np.float32)).cast("B"))
    return handle


def floats(gpu: native.NativeGPU, handle: int, n: int) -> list[float]:
    return list(np.frombuffer(gpu.read([(handle, 4 * n)])[0], np.float32))


def scale(*steps: tuple[int, int], slots: int = 0) -> ProgramCode:
    """A program of steps y = scale * x, given as pairs of slots."""
    flat = [n for pair in steps for n in (0, 1, 1, 1, 0, 8, 2, *pair)]
    slots = slots or 1 + max(map(max, steps))
    return ProgramCode([SCALE], ["scale"], array("i", flat), slots, 256)


def params(factor: float, n: int = 1) -> bytes:
    return np.float32(factor).tobytes() + np.uint32(n).tobytes() + bytes(248)


def test_a_run_with_the_same_buffers_builds_nothing(replayer: native.NativeGPU) -> None:
    loaded = replayer.load(scale((0, 1), (1, 2)))
    handles = [buffer(replayer, 1, 2), replayer.create(256), replayer.create(256)]
    seen = []
    for factor in (3, 3, 4):
        replayer.run(loaded, handles, params(factor, 2))
        s = replayer.stats
        seen.append((s.bind_groups, s.bytes_uploaded, s.dispatches, s.submits))
        assert floats(replayer, handles[2], 2) == [factor**2, 2 * factor**2]
    assert seen == [(2, 256, 2, 1), (2, 256, 4, 2), (2, 512, 6, 3)]


def test_only_the_steps_of_a_changed_slot_get_new_bind_groups(replayer: native.NativeGPU) -> None:
    loaded = replayer.load(scale((0, 1), (1, 2), (2, 3)))
    first = [buffer(replayer, 1), *(replayer.create(256) for _ in range(3))]
    other = [buffer(replayer, 10), *first[1:]]  # the first step's
    last = [*first[:3], replayer.create(256)]  # the third one's
    seen = []
    for handles in (first, other, first, last, other):
        replayer.run(loaded, handles, params(2))
        seen.append((replayer.stats.bind_groups, *floats(replayer, handles[3], 1)))
    assert seen == [(3, 8), (4, 80), (4, 8), (5, 8), (5, 80)]


def test_a_step_keeps_a_few_bind_groups(replayer: native.NativeGPU) -> None:
    """The 17th set of buffers pushes out the one that was used least recently."""
    loaded = replayer.load(scale((0, 1)))
    sets = [[buffer(replayer, i), replayer.create(256)] for i in range(17)]
    seen = []
    for i in (*range(17), 16, 1, 0, 2):
        replayer.run(loaded, sets[i], params(2))
        assert floats(replayer, sets[i][1], 1) == [2 * i]
        seen.append(replayer.stats.bind_groups)
    assert seen == [*range(1, 18), 17, 17, 18, 19]


def test_a_step_may_write_to_several_buffers_and_in_place(replayer: native.NativeGPU) -> None:
    wire = ProgramCode([ADD], ["add"], array("i", [0, 1, 1, 1, -1, 0, 4, 0, 1, 2, 3]), 4, 0)
    loaded = replayer.load(wire)
    handles = [buffer(replayer, 1, 2, 3, 4), buffer(replayer, 5, 6, 7, 8)]
    handles += [replayer.create(256), buffer(replayer, 0, 0, 0, 0)]
    for _ in range(3):
        replayer.run(loaded, handles, b"")
    assert floats(replayer, handles[2], 4) == [6, 8, 10, 12]
    assert floats(replayer, handles[3], 4) == [3, 3, 3, 3]


def test_parts_of_a_buffer_stand_where_buffers_do(replayer: native.NativeGPU) -> None:
    """Two parts of one buffer are read, and one part of another is written."""
    whole, out = replayer.create(1024), replayer.create(1024)
    a, b = replayer.slice(whole, 256, 256), replayer.slice(whole, 512, 512)
    c = replayer.slice(replayer.slice(out, 256, 768), 256, 14)  # 16 bytes: a part of a part
    for handle, values in ((whole, [0] * 256), (a, [1, 2, 3, 4]), (b, [10, 20, 30, 40])):
        replayer.write(handle, memoryview(np.asarray(values, np.float32)).cast("B"))
    replayer.write(out, memoryview(bytes(1024)))
    count = buffer(replayer, 0, 0, 0, 0)
    wire = ProgramCode([ADD], ["add"], array("i", [0, 1, 1, 1, -1, 0, 4, 0, 1, 2, 3]), 4, 0)
    replayer.run(replayer.load(wire), [a, b, c, count], b"")
    assert floats(replayer, c, 4) == [11, 22, 33, 44]
    assert floats(replayer, out, 256)[128:] == [11, 22, 33, 44] + [0] * 124
    assert floats(replayer, whole, 256)[60:70] == [0, 0, 0, 0, 1, 2, 3, 4, 0, 0]


def test_the_end_of_a_part_does_not_end_its_buffer(replayer: native.NativeGPU) -> None:
    whole = replayer.create(512)
    part = replayer.slice(whole, 256, 256)
    replayer.write(part, memoryview(np.float32([5])).cast("B"))
    replayer.destroy(part)
    assert floats(replayer, whole, 65)[64] == 5
    with pytest.raises(RuntimeError, match=f"buffer {part} does not exist, or was freed"):
        replayer.read([(part, 4)])
    other = replayer.slice(whole, 256, 256)
    replayer.destroy(whole)
    with pytest.raises(RuntimeError, match=f"buffer {other} does not exist, or was freed"):
        replayer.read([(other, 4)])
    replayer.destroy(other)  # in either order


def test_nothing_leaves_a_part(replayer: native.NativeGPU) -> None:
    part = replayer.slice(replayer.create(1024), 256, 256)
    for reach in (
        lambda: replayer.slice(part, 256, 4),
        lambda: replayer.write(part, memoryview(bytes(260))),
        lambda: replayer.read([(part, 260)]),
        lambda: replayer.copy(part, replayer.create(512), 260),
    ):
        with pytest.raises(RuntimeError, match=f"buffer {part} has 256 bytes, fewer than 260"):
            reach()


def test_copies_are_in_order_with_the_runs(replayer: native.NativeGPU) -> None:
    """x is copied before a step changes what it was copied to; then within one buffer."""
    loaded = replayer.load(scale((0, 1)))
    x, y, z = buffer(replayer, 1, 2), replayer.create(256), replayer.create(512)
    replayer.run(loaded, [x, y], params(3, 2))
    replayer.copy(z, y, 8)
    replayer.run(loaded, [x, y], params(5, 2))
    upper = replayer.slice(z, 256, 256)
    replayer.copy(upper, z, 8)
    replayer.write(z, memoryview(bytes(8)))
    assert [floats(replayer, h, 2) for h in (y, upper, z)] == [[5, 10], [3, 6], [0, 0]]


def test_a_destroyed_buffer_takes_its_bind_groups_along(replayer: native.NativeGPU) -> None:
    loaded = replayer.load(scale((0, 1)))
    x, y = buffer(replayer, 1), replayer.create(256)
    replayer.run(loaded, [x, y], params(2))
    replayer.destroy(x)
    with pytest.raises(RuntimeError, match=f"buffer {x} does not exist, or was freed"):
        replayer.run(loaded, [x, y], params(2))
    assert floats(replayer, y, 1) == [2]  # the work before was done
    assert not replayer._buffers[y].dispatches
    replayer.run(loaded, [buffer(replayer, 7), y], params(2))
    assert floats(replayer, y, 1) == [14]


@pytest.mark.parametrize(("n", "submits"), [(1, 1), (32, 1), (33, 4), (200, 6), (1000, 8)])
def test_a_long_run_is_a_few_submits(replayer: native.NativeGPU, n: int, submits: int) -> None:
    loaded = replayer.load(scale(*((i % 2, 1 - i % 2) for i in range(n)), slots=2))
    handles = [buffer(replayer, 3), buffer(replayer, 0)]
    replayer.run(loaded, handles, params(-1))
    assert (replayer.stats.dispatches, replayer.stats.submits) == (n, submits)
    assert floats(replayer, handles[n % 2], 1) == [3 * (-1) ** n]


def test_the_pieces_of_a_run() -> None:
    for n in (33, 64, 100, 257, 3000):
        cuts = native.pieces(n)
        assert 4 <= len(cuts) <= 8
        assert [i for a, b in cuts for i in range(a, b)] == list(range(n))
        sizes = [b - a for a, b in cuts]
        assert max(sizes[1:]) - min(sizes[1:]) <= 1
        assert 0 < sizes[0] <= sizes[1]


def test_another_pipeline_is_set_for_its_steps(replayer: native.NativeGPU) -> None:
    """x doubles and triples by turns, over several submits."""
    codes = [SCALE.replace("p.scale", f"p.scale * {k}.0") for k in (2, 3)]
    flat = [v for i in range(40) for v in (i // 2 % 2, 1, 1, 1, 0, 8, 2, i % 2, 1 - i % 2)]
    loaded = replayer.load(ProgramCode(codes, ["two", "three"], array("i", flat), 2, 256))
    handles = [buffer(replayer, 1), buffer(replayer, 0)]
    replayer.run(loaded, handles, params(0.5))
    assert floats(replayer, handles[0], 1) == [1.5**20]


def test_a_profile_has_the_time_of_each_step(replayer: native.NativeGPU) -> None:
    loaded = replayer.load(scale((0, 1), (1, 2), (2, 0)))
    handles = [buffer(replayer, 2), replayer.create(256), replayer.create(256)]
    times = replayer.profile(loaded, handles, params(3))
    if times is None:
        pytest.skip("this adapter has no timestamp-query")
    assert len(times) == 3
    assert all(0 < t < 10**9 for t in times)
    assert floats(replayer, handles[0], 1) == [54]  # it ran, once
    count = len(replayer._buffers)
    replayer.profile(loaded, handles, params(3))
    assert len(replayer._buffers) == count


def test_a_long_profile_takes_several_query_sets(
    replayer: native.NativeGPU, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(native, "QUERIES", 4)
    loaded = replayer.load(scale(*((i % 2, 1 - i % 2) for i in range(5)), slots=2))
    times = replayer.profile(loaded, [buffer(replayer, 2), buffer(replayer, 0)], params(3))
    assert times is None or len(times) == 5


def test_an_unloaded_program_leaves_nothing_behind(replayer: native.NativeGPU) -> None:
    loaded, kept = replayer.load(scale((0, 1))), replayer.load(scale((0, 1)))
    handles = [buffer(replayer, 1), replayer.create(256)]
    for program in (loaded, kept):
        replayer.run(program, handles, params(2))
    replayer.unload(loaded)
    assert replayer._buffers[handles[0]].dispatches == set(kept.dispatches)
    replayer.run(kept, handles, params(4))
    assert floats(replayer, handles[1], 1) == [4]
    assert (replayer.stats.pipelines, replayer.stats.bind_groups) == (1, 2)


def test_a_wrong_shader_is_named_with_its_line(replayer: native.NativeGPU) -> None:
    code = "@compute @workgroup_size(1) fn main() {\n  let a: f32 = 1u;\n}"
    steps = array("i", [0, 1, 1, 1, -1, 0, 0])
    with pytest.raises(RuntimeError, match=r"(?s)kernel half a kernel: .*let a: f32 = 1u;"):
        replayer.load(ProgramCode([code], ["half a kernel"], steps, 0, 0))


def test_invalid_work_raises_and_the_next_run_goes_well(replayer: native.NativeGPU) -> None:
    """One buffer can't be read and written in one step."""
    import wgpu

    loaded = replayer.load(scale((0, 1)))
    x, y = buffer(replayer, 1), replayer.create(256)
    with pytest.raises(wgpu.GPUError, match="conflicting usages"):
        replayer.run(loaded, [x, x], params(2))
    replayer.run(loaded, [x, y], params(2))
    assert floats(replayer, y, 1) == [2]


def test_other_names_under_wgpu_mean_its_public_api(
    gpu: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    from wgpu.backends.wgpu_native import _api

    made: Any = native.NativeGPU(kind=os.environ["PYFRAME_ADAPTER"])
    assert isinstance(native._submitter(made._device), native._Raw)
    monkeypatch.setattr(_api, "lib", object())
    assert isinstance(native._submitter(made._device), native._Public)
    assert native._period(made._queue) == 1.0


# --- a device that is lost


def lose(told_by: pf.Tensor | None = None) -> None:
    """What a driver does that gives up on its GPU; a value that is asked for tells of it."""
    pf.device("gpu").backend._device.destroy()
    if told_by is not None:
        with pytest.raises(pf.DeviceLostError):
            told_by.tolist()


def test_a_lost_device_is_named_and_opened_again(gpu: str) -> None:
    from wgpu.backends.wgpu_native import _api

    x = pf.arange(4.0, device=gpu)
    y, old = x + 1, pf.device(gpu).backend
    _api.error_handler._get_proxy_stack()  # wgpu-py tells a text once: other tests lost theirs
    _api.error_handler._per_thread_data.error_message_counts.clear()
    lose()
    with pytest.raises(pf.DeviceLostError, match=r"the GPU \(.+\) was lost: .+Device lost"):
        y.tolist()
    assert pf.device(gpu).backend is not old
    for use in (x.tolist, y.tolist, (x * 2).sum().item, lambda: x.to("cpu"), x.clone().tolist):
        with pytest.raises(pf.DeviceLostError, match="value is needed that is gone: the GPU"):
            use()
    assert (pf.arange(4.0, device=gpu) * 2).tolist() == [0, 2, 4, 6]
    assert pf.tensor([3.0], device=gpu).to("cpu").tolist() == [3]
    assert nn.Linear(2, 3).to(gpu)(pf.ones(1, 2, device=gpu)).shape == (1, 3)


def test_fresh_work_does_not_wait_for_what_is_lost(gpu: str) -> None:
    """An op on a lost value is recorded like any other, and asked for along with others."""
    x = pf.ones(3, device=gpu)
    pf.flush()
    lose(x)
    held = x * 2
    assert (pf.ones(3, device=gpu) + 1).tolist() == [2, 2, 2]
    with pytest.raises(pf.DeviceLostError):
        held.tolist()


def test_a_handle_of_a_lost_device_is_no_other_ones(gpu: str) -> None:
    """Old buffers die, and come back to their pool, while new ones are made."""
    xs = [pf.full((64,), float(i), device=gpu) for i in range(8)]
    pf.flush()
    lose(xs[0])
    ys = [pf.full((64,), 10.0 * i, device=gpu) for i in range(8)]
    pf.flush()
    del xs[4:]
    assert [y[0].item() for y in ys] == [10.0 * i for i in range(8)]
    with pytest.raises(pf.DeviceLostError):
        pf.cat([ys[0], xs[0]]).tolist()


def test_a_net_and_its_optimizer_live_again(gpu: str) -> None:
    """A state dict revives what replays update in place; captures are made anew."""
    net = nn.Sequential(nn.Linear(4, 8), nn.Dropout(0.5), nn.Linear(8, 1)).to(gpu)
    optimizer = pf.optim.Adam(net.parameters(), lr=0.1)
    step = pf.compile(training_step(optimizer, lambda x: net(x).square().mean()))

    def keep(d: Any) -> Any:
        if isinstance(d, dict):
            return {k: keep(v) for k, v in d.items()}
        return d.detach().cpu() if isinstance(d, pf.Tensor) else d

    x = pf.ones(2, 4)
    for _ in range(3):
        step(x.to(gpu))
    weights, moments = keep(net.state_dict()), keep(optimizer.state_dict())
    pf.manual_seed(7)
    want = [step(x.to(gpu)).item() for _ in range(3)]
    lose()
    for _ in range(3):
        with pytest.raises(pf.DeviceLostError):
            step(x.to(gpu)).item()
    captured = step.captured
    assert not step.programs  # none holds buffers of the lost device
    net.load_state_dict(weights)
    optimizer.load_state_dict(moments)
    pf.manual_seed(7)
    assert [step(x.to(gpu)).item() for _ in range(3)] == want
    assert step.captured == captured + 1


def test_what_a_device_has_besides_tensors_is_made_anew(gpu: str) -> None:
    """The stream of random numbers starts over; what checks found before is forgotten."""
    pf.manual_seed(5)
    first = pf.rand(4, device=gpu).tolist()
    bad = pf.ones(3, device=gpu)[pf.tensor([7], device=gpu)]
    lose(bad)
    assert pf.rand(4, device=gpu).tolist() == first
    with pytest.raises(IndexError):
        pf.ones(3, device=gpu)[pf.tensor([7], device=gpu)].tolist()
    stats = pf.device(gpu).backend.stats
    assert stats.bytes_live + stats.bytes_pooled < 1 << 20


def test_each_thread_gets_the_error_or_the_fresh_device(gpu: str) -> None:
    outcomes: list[Any] = []
    ready = threading.Barrier(5)

    def work() -> None:
        x = pf.ones(64, device=gpu)
        pf.flush()
        ready.wait()
        for _ in range(200):
            try:
                outcomes.append((x + 1).sum().item())
            except pf.DeviceLostError as error:
                outcomes.append(type(error))
                x = pf.ones(64, device=gpu)
            except Exception as error:
                outcomes.append(error)

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    ready.wait()
    for _ in range(3):
        executor = pf.device(gpu).executor  # and its own backend: another thread may open a new one
        with executor.lock:  # wgpu ends the process where a device goes within a submit
            executor.backend._device.destroy()
    for thread in threads:
        thread.join(120)
        assert not thread.is_alive()
    assert set(outcomes) <= {128.0, pf.DeviceLostError}
    assert pf.DeviceLostError in outcomes
    assert outcomes.count(128.0) > 400


def test_a_gpu_that_cannot_be_opened_again(gpu: str, monkeypatch: pytest.MonkeyPatch) -> None:
    x = pf.ones(2, device=gpu)
    pf.flush()
    lose(x)
    monkeypatch.setattr(native, "_adapters", list)
    with pytest.raises(pf.DeviceLostError, match=r"lost: .* it can't be opened again \(.*no such"):
        pf.ones(2, device=gpu).tolist()
    monkeypatch.undo()
    assert pf.ones(2, device=gpu).tolist() == [1, 1]


# --- a process that is forked

FORK = """
import gc, os, sys, threading
import pyframe as pf
from pyframe.ops.random.draws import _DRAWING as drawing
pf.set_default_device("cpu")
x = pf.ones(4, device="gpu")
twice = pf.compile(lambda x: x * 2)
here = pf.compile(lambda x: (x * 3).sum())
assert twice(x).tolist() == twice(x).tolist() == [2] * 4
assert here(pf.ones(4)).item() == here(pf.ones(4)).item() == 12
NativeGPU = type(pf.device("gpu").backend)
available, NativeGPU.available = NativeGPU.available, staticmethod(lambda: True)
assert str(pf.device("auto")) == "gpu"
NativeGPU.available = staticmethod(available)
part = pf.device("gpu").executor.slice(x._node.data, 0, 8)
waiting, held = threading.Event(), threading.Event()

@pf.compile
def hold(x):
    with twice.lock, here.lock, drawing, pf.device("gpu").executor.lock:
        held.set()
        waiting.wait()
    return x + 1

thread = threading.Thread(target=hold, args=(pf.ones(2),))
thread.start()
held.wait()
pid = os.fork()
if pid:
    waiting.set()
    thread.join()
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 3
    assert twice(x).tolist() == [2] * 4
else:
    for use in (x.tolist, lambda: pf.ones(2, device="gpu"), lambda: x + 1, lambda: twice(x),
                lambda: x.to("cpu"), lambda: pf.device("gpu").backend):
        try:
            use()
        except RuntimeError as error:
            assert "set_start_method('spawn')" in str(error), error
        else:
            raise AssertionError("no error")
    assert gc.isenabled()  # as it is not while the other thread captures
    pf.manual_seed(3)
    assert here(pf.ones(4)).item() == 12
    assert pf.compile(lambda x: x.exp().sum())(pf.zeros(9)).item() == 9
    assert str(pf.device("auto")) == "cpu"  # also where it was the GPU for the parent
    del part, x
    sys.exit(3)
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system does not fork")
def test_a_forked_process_is_told_and_goes_on_on_the_cpu(gpu: str) -> None:
    """Whichever locks another thread held; and its end waits for nobody either."""
    assert python("-W", "ignore", "-c", FORK)[1] == ""


def test_every_lock_is_free_after_a_fork() -> None:
    """They come from `core.locks`; threads.py and cpu.py make their threads anew, a server does not
    fork."""
    package = Path(pf.__file__).parent
    made = {p.name for p in package.rglob("*.py") if re.search(r"\bR?Lock\(", p.read_text())}
    assert made == {"locks.py", "threads.py", "cpu.py", "serve.py"}


# --- no memory left


def test_no_memory_left(gpu: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """What is kept for reuse goes back first, also what only dead cycles hold; then it is said how
    much was asked for. What lives is as it was, and goes on."""
    backend = pf.device(gpu).backend
    x = pf.ones(1 << 18, device=gpu)
    pf.flush()
    pf.device(gpu).executor.trim()
    room = backend.stats.bytes_live + (5 << 20)
    create, made = backend.create, []

    def limited(nbytes: int, *usage: int) -> int:
        made.append(nbytes)
        if sum(r.nbytes for r in backend._buffers.values()) + nbytes > room:
            raise MemoryError("no more")
        return create(nbytes, *usage)

    monkeypatch.setattr(backend, "create", limited)
    cycle: list[Any] = [pf.ones(1 << 19, device=gpu)]
    cycle.append(cycle)
    kept = [pf.ones(1 << 18, device=gpu) for _ in range(2)]
    pf.flush()
    live = backend.stats.bytes_live
    del kept, cycle
    y = pf.full((3 << 18,), 2.0, device=gpu)
    assert y.sum().item() == 6 << 18
    assert backend.stats.bytes_live < live
    buffers, made[:] = backend.stats.buffers, []
    with pytest.raises(pf.OutOfMemoryError, match=r"has no memory for 3.0 MiB more: 4.\d MiB are"):
        (y + 1).tolist()
    assert made == [3 << 20, 3 << 20]
    assert backend.stats.buffers == buffers
    with pytest.raises(MemoryError, match=r"smaller batch.* device='cpu'"):
        (y + 1).tolist()
    assert (x + 1).sum().item() == 2 << 18
    del y
    assert pf.full((3 << 18,), 2.0, device=gpu).sum().item() == 6 << 18
    assert issubclass(pf.OutOfMemoryError, RuntimeError)  # as torch's


FULL = """
import resource
import pyframe as pf
x = pf.arange(4.0, device="gpu")
assert (x + 1).tolist() == [1, 2, 3, 4]
size = next(int(line.split()[1]) for line in open("/proc/self/status") if "VmSize" in line)
resource.setrlimit(resource.RLIMIT_AS, (size * 1024 + (1 << 29), -1))
for n in (12 << 20, 14 << 20):  # the buffers of the first size are all in the pool then
    held = []
    try:
        while len(held) < 100:
            held.append(pf.full((n,), 1.0, device="gpu"))
            pf.flush()
    except pf.OutOfMemoryError as error:
        assert "has no memory for" in str(error), error
    print(2 < len(held) < 100)
    assert held[-2][-3:].tolist() == [1, 1, 1]
    del held
assert (x + 1).tolist() == [1, 2, 3, 4]
"""


def test_a_device_that_is_full(gpu: str) -> None:
    """The software driver's memory is the process's, which can be limited."""
    if not os.path.exists("/proc/self/status") or os.environ["PYFRAME_ADAPTER"] != "software":
        pytest.skip("needs Linux and the software adapter")
    assert python("-c", FULL) == ["True\nTrue\n", ""]


def test_a_program_may_end_while_the_gpu_works(gpu: str) -> None:
    code = """
import pyframe as pf
from pyframe import nn, optim
net = nn.Linear(3, 4).to("gpu")
optimizer = optim.SGD(net.parameters(), lr=0.1)
net(pf.ones(2, 3, device="gpu")).sum().backward()
optimizer.step()
"""
    python("-c", code)  # the driver's threads are still compiling


def test_a_type_is_parsed_alone(gpu: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """cffi is given the typedefs that a name needs, of WebGPU's thousands of letters."""
    cparser = pytest.importorskip("cffi.cparser")
    from wgpu.backends.wgpu_native._api import ffi

    texts, before = [], cparser._get_parser()

    class Parser:
        def parse(self, text: str) -> Any:
            texts.append(text)
            return before.parse(text)

    monkeypatch.setattr(cparser, "_get_parser", Parser)
    ffi._parsed_types.pop("WGPUBuffer[7]", None)
    assert ffi.sizeof(ffi.typeof("WGPUBuffer[7]")) == 7 * ffi.sizeof("void *")
    assert "typedef int WGPUBuffer;" in texts[0]
    assert len(texts[0]) < 300
    with pytest.raises(pytest.importorskip("cffi").CDefError, match="WGPUNothing"):
        ffi.typeof("WGPUNothing *")
