"""Tensors in memory that processes share: what each of them writes the others see, and it goes with
the last of them."""

from __future__ import annotations

import gc
import multiprocessing
import os
import signal
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from processes import python
from steps import training_step

import pyframe as pf
import pyframe.multiprocessing as mp
from pyframe import nn, optim
from pyframe.tensor.sharing import segment_of

PROGRAM = str(Path(__file__).parent / "programs" / "shared.py")


def test_a_program_for_pytorch_runs_as_it_is() -> None:
    # PyTorch's threads that a fork loses are waited for now and then: it has one here
    theirs = python(PROGRAM, "fork", OMP_NUM_THREADS="1", MKL_NUM_THREADS="1")[0]
    assert python("-m", "pyframe.torch", PROGRAM, "fork")[0] == theirs
    # what a process is started with moves to shared memory where it is pickled for that
    for before, after in (("[1., 1., 1.], dtype", "[2., 2., 2.], dtype"), ("r(7)", "r(14)")):
        theirs = theirs.replace(before, after)
    assert theirs.startswith(found := python("-m", "pyframe.torch", PROGRAM, "spawn")[0])
    assert found


def in_another(fn: Callable[..., Any], *args: Any) -> None:
    """Call a function in another process."""
    process = multiprocessing.get_context("fork").Process(target=fn, args=args)
    process.start()
    process.join()
    assert process.exitcode == 0


def through_a_pipe(x: Any) -> Any:
    one, other = multiprocessing.get_context("fork").Pipe()
    one.send(x)
    return other.recv()


@pytest.fixture(autouse=True)
def _nothing_is_left() -> Iterator[None]:
    yield
    assert not pf.multiprocessing.active_children()


N = 300  # rows and columns of what eager ops record


def add_late(x: pf.Tensor) -> None:
    with pf.no_grad():
        x += 1
        x.mul_(2)


def write_parts(x: pf.Tensor) -> None:
    x[3:5] = 7
    x.T[1].zero_()
    x[x > 100] = -1
    x.view(-1)[-1] = 3
    x.data.add_(0.5)


def replay(x: pf.Tensor) -> None:
    step = pf.compile(lambda: x.mul_(3).add_(1))
    for _ in range(3):
        step()


def by_numpy(x: pf.Tensor) -> None:
    x.numpy()[2] = 5


@pytest.mark.parametrize("write", [add_late, write_parts, replay, by_numpy])
@pytest.mark.parametrize("n", [3, N])
def test_a_write_in_another_process_is_seen(write: Callable[[pf.Tensor], None], n: int) -> None:
    start = pf.arange(float(n * n + 2 * n)).reshape(n + 2, n)
    mine, theirs, alone = start.clone(), start.clone().share_memory_(), start.clone()
    total = theirs.sum()  # recorded, of what is there before
    write(mine)
    in_another(write, theirs)
    in_another(write, alone)
    assert theirs.tolist() == mine.tolist() != alone.tolist() == start.tolist()
    assert total.item() == start.sum().item()


def test_all_that_shows_a_memory_moves_with_it() -> None:
    x = pf.ones(N, N)
    x += 1  # recorded
    turned, part, alias = x.T, x[2, 3:], x.detach()
    weight = nn.Parameter(x)
    late = x * 2  # reads it later
    picked = turned[::2]
    assert part.share_memory_() is part
    assert all(y.is_shared() for y in (x, turned, part, alias, weight, picked))
    x.fill_(4)
    shown = (turned[5, 7], part[0], alias[9, 9], weight[1, 2], picked[1, 1], picked.sum() / N / N)
    assert [y.item() for y in shown] == [4, 4, 4, 4, 4, 2]
    assert late.sum().item() == 4 * N * N
    assert not late.is_shared()
    assert pf.zeros(0, 3).share_memory_().is_shared()
    with pytest.raises(RuntimeError, match="storage that is not resizable: processes share it"):
        alias.resize_(N, N + 1)
    before = segment_of(x._storage.node.data)
    assert segment_of(alias.share_memory_()._storage.node.data) is before


def test_a_step_that_was_captured_before_goes_on_in_shared_memory() -> None:
    net = nn.Linear(3, 1)
    optimizer = optim.SGD(net.parameters(), lr=0.1, momentum=0.9)
    step = pf.compile(training_step(optimizer, lambda x: net(x).square().sum()))
    x = pf.ones(2, 3)
    for _ in range(3):
        step(x)
    net.share_memory()
    start = [p.tolist() for p in net.parameters()]

    def run() -> None:
        for _ in range(3):
            step(x)

    in_another(run)
    assert [p.tolist() for p in net.parameters()] != start
    in_another(lambda: [net.weight.data.fill_(0.25), net.bias.data.zero_()])
    assert step(x).item() == pytest.approx(2 * 0.75**2)


@pytest.mark.parametrize("dtype", ["float64", "bfloat16", "float16", "complex64", "int8", "bool"])
def test_dtypes_and_shapes_through_a_pipe(dtype: str) -> None:
    base = pf.arange(24).reshape(2, 3, 4).to(getattr(pf, dtype))
    for x in (base, base[1, 1, 1], base.permute(2, 0, 1), base[:, ::2], base[:, 3:]):
        y = through_a_pipe(x)
        assert (y.dtype, y.shape, y.stride()) == (x.dtype, x.shape, x.stride())
        assert y.is_shared()
        assert y.tolist() == x.tolist()
        y.zero_()
        assert not x.any()


def test_a_gpus_tensor_goes_through_the_hosts_memory(gpu: str) -> None:
    x = nn.Parameter(pf.ones(5, device=gpu))
    y = through_a_pipe(x)
    assert (y.device, type(y), y.requires_grad, y.tolist()) == (
        x.device,
        nn.Parameter,
        True,
        [1] * 5,
    )
    y.data.zero_()
    assert x.sum().item() == 5
    with pytest.raises(RuntimeError, match=r"belongs to one process; share x.cpu\(\)"):
        x.share_memory_()
    with pytest.raises(RuntimeError, match="belongs to one process"):
        nn.Linear(2, 2).to(gpu).share_memory()


def test_a_modules_tensors_share_one_file() -> None:
    before = len(os.listdir("/proc/self/fd"))
    net = nn.Sequential(*[nn.Linear(3, 3) for _ in range(50)]).share_memory()
    assert len(os.listdir("/proc/self/fd")) - before <= 2
    with pytest.raises(RuntimeError, match="Call `forward` to initialize the parameters before"):
        nn.LazyLinear(2).share_memory()
    segments = {id(segment_of(p._storage.node.data)) for p in net.parameters()}
    assert len(segments) == 1


def share_many() -> None:
    import resource  # which Windows lacks

    gc.freeze()  # to look for referrers in all that the tests before made takes long
    free = os.dup(0)
    os.close(free)
    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (free + 5, hard))
    kept = [pf.ones(1) for _ in range(9)]
    with pytest.raises(OSError, match="Too many open files") as caught:
        [x.share_memory_() for x in kept]
    assert "set_sharing_strategy('file_system')" in caught.value.__notes__[0]
    mp.set_sharing_strategy("file_system")
    assert all(x.share_memory_().is_shared() for x in kept)


def test_many_shared_tensors_need_many_open_files() -> None:
    in_another(share_many)


def test_open_files_have_a_limit_on_macos(monkeypatch: pytest.MonkeyPatch) -> None:
    """Which calls it infinite, and takes no infinite one."""
    resource = pytest.importorskip("resource")
    endless, asked = resource.RLIM_INFINITY, []

    def limit(what: int, how: tuple[int, int]) -> None:
        asked.append(how)
        if how[0] == endless:
            raise ValueError("current limit exceeds maximum limit")

    monkeypatch.setattr(resource, "getrlimit", lambda what: (256, endless))
    monkeypatch.setattr(resource, "setrlimit", limit)
    monkeypatch.setattr(mp, "_strategy", "file_descriptor")
    mp.set_sharing_strategy("file_system")
    assert asked == [(endless, endless), (10240, endless)]


def files() -> int:
    """How many shared files this process has open or mapped."""
    mapped = Path("/proc/self/maps").read_text().count("pyframe-shared")
    opened = [os.readlink(f.path) for f in os.scandir("/proc/self/fd") if f.is_symlink()]
    return mapped + sum("pyframe-shared" in name for name in opened)


def give_and_wait(x: pf.Tensor, conn: Any) -> None:
    conn.send((pf.full((1000,), 3.0), x))
    signal.pause()


def test_memory_goes_with_its_last_user_also_after_a_kill() -> None:
    if not Path("/proc/self/maps").exists():
        pytest.skip("needs Linux's /proc")
    gc.collect()
    before = files()
    x = pf.zeros(1000).share_memory_()
    one, other = mp.get_context("fork").Pipe()
    process = mp.get_context("fork").Process(target=give_and_wait, args=(x, other))
    process.start()
    made, same = one.recv()
    assert same.data_ptr() == x.data_ptr()
    other.close()
    os.kill(process.pid, signal.SIGKILL)
    process.join()
    made += 1  # its maker is gone
    assert made.sum().item() == 4000
    assert files() > before
    del made, same, x
    assert files() == before


def test_a_tensor_whose_sender_has_ended_is_an_error_that_says_so() -> None:
    queue = mp.get_context("fork").SimpleQueue()
    in_another(lambda: queue.put(pf.ones(3)))
    with pytest.raises(RuntimeError, match="the process that sent this tensor has ended before"):
        queue.get()


def test_processes_inherit_what_is_recorded_and_compiled() -> None:
    x, y = pf.ones(N, N), pf.zeros(1).share_memory_()
    step = pf.compile(lambda x: (x @ x).sum())
    for _ in range(3):
        step(x)
    late = x.add(1).mul(2)

    def read() -> None:
        y[0] = (late + step(x) * 0).sum() + step(pf.ones(N, N)) - N**3

    in_another(read)
    assert y.item() == late.sum().item() == 4 * N * N
