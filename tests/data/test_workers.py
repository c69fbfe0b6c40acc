"""Worker processes of a DataLoader: their batches, their errors, and how they end."""

from __future__ import annotations

import faulthandler
import gc
import json
import multiprocessing
import os
import random
import signal
import threading
from collections import namedtuple
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from processes import python

import pyframe as pf
from pyframe.data import (
    DataLoader,
    Dataset,
    IterableDataset,
    dataloader,
    get_worker_info,
    share,
    worker as of_worker,
)
from pyframe.data.worker import seed

pytestmark = [
    pytest.mark.filterwarnings("ignore:This DataLoader will create"),
    pytest.mark.skipif(not hasattr(os, "fork"), reason="these data sets are not pickled: no fork"),
]


Pair = namedtuple("Pair", ["x", "y"])


class Images(Dataset[Any]):
    """Samples with all that a batch may hold; `shape` says whether it needs a block."""

    def __init__(self, n: int, shape: tuple[int, ...]) -> None:
        self.n, self.shape = n, shape

    def __getitem__(self, i: int) -> Any:
        return {
            "image": np.full(self.shape, i, np.float32),
            "pair": Pair(pf.full((2,), i, dtype=pf.bfloat16), str(i)),
            "empty": np.zeros((0, 3)),
            "label": i,
            "worker": -1 if (info := get_worker_info()) is None else info.id,
        }

    def __len__(self) -> int:
        return self.n


class Do(Dataset[int]):
    """Calls a function of the index in the worker."""

    def __init__(self, fn: Any, n: int = 8) -> None:
        self.fn, self.n = fn, n

    def __getitem__(self, i: int) -> Any:
        found = self.fn(i)
        return i if found is None else found

    def __len__(self) -> int:
        return self.n


class Key:
    """An index that a worker can't read."""

    def __reduce__(self) -> Any:
        return divmod, (1, 0)


class Shares(IterableDataset[int]):
    """Each worker has a share of another size."""

    def __iter__(self) -> Iterator[int]:
        info = get_worker_info()
        assert info is not None
        yield from range(100 * info.id, 100 * info.id + 3 + 4 * info.id)


@pytest.fixture(autouse=True)
def by_fork() -> Iterator[None]:
    """As up to Python 3.13 by default: what is not pickled can be a data set."""
    before = multiprocessing.get_start_method(allow_none=True)
    multiprocessing.set_start_method("fork", force=True)
    yield
    multiprocessing.set_start_method(before, force=True)


@pytest.fixture(autouse=True)
def no_process_is_left(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setattr(of_worker, "GRACE", 10.0)
    yield
    gc.collect()
    assert not multiprocessing.active_children()
    assert "pyframe-batch" not in maps()


def maps() -> str:
    """The memory of this process, where the system shows it."""
    path = Path("/proc/self/maps")
    return path.read_text() if path.exists() else ""


def numbers(i: int) -> float:
    """Of every stream of a worker."""
    return i + random.random() + float(np.random.random()) + pf.rand(1).item()


def plain(value: Any) -> Any:
    if isinstance(value, pf.Tensor):
        return str(value.dtype), value.shape, value.tolist()
    if isinstance(value, dict):
        return {k: plain(v) for k, v in value.items() if k != "worker"}
    return type(value), [plain(v) for v in value] if isinstance(value, (list, tuple)) else value


@pytest.mark.parametrize("shape", [(3,), (3, 40, 40)], ids=["inline", "block"])
def test_batches_are_those_without_workers(shape: tuple[int, ...]) -> None:
    data = Images(23, shape)
    expected = plain(list(DataLoader(data, 5)))
    kept = list(DataLoader(data, 5, num_workers=2, prefetch_factor=1))
    assert plain(kept) == expected, "memory of batches that are kept is not used again"
    assert [b["worker"].tolist()[0] for b in kept] == [0, 1, 0, 1, 0]
    kept[0]["image"] += 1  # it is the program's own
    if maps():
        assert ("pyframe-batch" in maps()) == (shape == (3, 40, 40))
    order = [b["label"].tolist() for b in DataLoader(data, 5, num_workers=2, batch_sampler=None)]
    pf.manual_seed(3)
    shuffled = [b["label"].tolist() for b in DataLoader(data, 5, True, num_workers=2)]
    pf.manual_seed(3)
    assert shuffled == [b["label"].tolist() for b in DataLoader(data, 5, True)] != order


def test_blocks_are_used_again_and_few(monkeypatch: pytest.MonkeyPatch) -> None:
    data = Images(60, (3, 40, 40))
    loader = DataLoader(data, 5, num_workers=1, persistent_workers=True)
    made = set()
    for _ in range(3):
        for batch in loader:
            made |= set(loader._iterator.workers[0].box.blocks)
            del batch
    assert len(made) < 10, "of 36 batches"
    monkeypatch.setattr(share, "MAX_BLOCKS", 2)
    loader = DataLoader(data, 5, num_workers=1, persistent_workers=True)
    assert plain(list(loader)) == plain(list(DataLoader(data, 5)))
    assert len(loader._iterator.workers[0].box.blocks) == (2 if maps() else 0)


def test_epochs_with_workers_that_persist() -> None:
    def pid(i: int) -> int:
        return os.getpid()

    def pids(loader: DataLoader[Any]) -> list[set[int]]:
        return [{p for b in loader for p in b.tolist()} for _ in range(2)]

    first, second = pids(DataLoader(Do(pid), 2, num_workers=2))
    assert len(first | second) == 4
    loader = DataLoader(Do(pid), 2, num_workers=2, persistent_workers=True)
    first, second = pids(loader)
    assert first == second
    assert len(first) == 2
    loader = DataLoader(range(20), 2, num_workers=2, persistent_workers=True)
    for wanted in (3, 1, 10):  # what is left of an epoch does not show in the next
        found = [b.tolist() for b, _ in zip(loader, range(wanted), strict=False)]
        assert found == [[2 * i, 2 * i + 1] for i in range(wanted)]


def test_persistent_workers_draw_as_new_ones() -> None:
    """An epoch's numbers do not depend on how old its workers are, nor does what is drawn here."""
    found = []
    for persistent in (True, False):
        pf.manual_seed(3)
        loader = DataLoader(Do(numbers), 3, True, num_workers=2, persistent_workers=persistent)
        found.append([*[[b.tolist() for b in loader] for _ in range(2)], pf.rand(2).tolist()])
    assert found[0] == found[1]
    assert found[0][0] != found[0][1]


@pytest.mark.parametrize("persistent", [False, True])
def test_streams(persistent: bool) -> None:
    loader = DataLoader(Shares(), 2, num_workers=2, persistent_workers=persistent)
    expected = [[0, 1], [100, 101], [2], [102, 103], [104, 105], [106]]
    for _ in range(3 if persistent else 1):
        assert [b.tolist() for b, _ in zip(loader, range(2), strict=False)] == expected[:2]
        assert [b.tolist() for b in loader] == expected, "after an epoch that was left early"
    loader = DataLoader(Shares(), None, num_workers=2, persistent_workers=persistent)
    assert list(loader) == [0, 100, 1, 101, 2, 102, 103, 104, 105, 106]


def test_seeds(torch: Any) -> None:
    def init(i: int) -> None:
        info = get_worker_info()
        assert info is not None
        info.dataset.fn = draw

    def draw(i: int) -> list[Any]:
        info = get_worker_info()
        assert info is not None
        assert info.dataset.fn is draw
        assert info.num_workers == 2
        return [info.seed - info.id, info.id, random.random(), np.random.rand(), pf.rand(1).item()]

    def epoch(loader: DataLoader[Any]) -> list[Any]:
        return [b.tolist() if isinstance(b, pf.Tensor) else b for b in loader]

    loader = DataLoader(Do(print), None, num_workers=2, generator=pf.Generator().manual_seed(4),
                        worker_init_fn=init)  # fmt: skip
    one, two = epoch(loader), epoch(loader)
    assert get_worker_info() is None
    assert len({row[0] for row in one}) == 1, "seeds are base_seed + id"
    assert len({x for row in one + two for x in row[2:]}) == 2 * 8 * 3, "no number comes twice"
    generator = pf.Generator().manual_seed(4)
    assert epoch(DataLoader(Do(draw), None, num_workers=2, generator=generator)) == one
    before = random.getstate(), np.random.get_state(), pf.get_rng_state()
    base = 2**40 + 5
    seed(base, 3)
    words = torch.utils.data._utils.worker._generate_state(base, 3)
    assert np.random.get_state()[1].tolist() == np.random.RandomState(words).get_state()[1].tolist()
    assert random.random() == random.Random(base + 3).random()
    assert pf.initial_seed() == base + 3
    random.setstate(before[0])
    np.random.set_state(before[1])
    pf.set_rng_state(before[2])


def test_out_of_order() -> None:
    later = multiprocessing.get_context("fork").Event()

    def wait(i: int) -> None:
        if i == 0:
            assert later.wait(300), "no other batch has come within 300 s"

    found = []
    for i in DataLoader(Do(wait), None, num_workers=2, in_order=False):
        found.append(i)
        later.set()
    assert found[0] == 1
    assert sorted(found) == list(range(8))


@pytest.mark.parametrize("how", ["spawn", "forkserver"])
def test_another_start_method(how: str) -> None:
    loader = DataLoader(Images(4, (3, 80, 80)), 2, num_workers=1, multiprocessing_context=how)
    assert [b["image"].shape for b in loader] == [(2, 3, 80, 80)] * 2
    loader = DataLoader(Do(lambda i: i), 2, num_workers=1, multiprocessing_context=how)
    with pytest.raises((AttributeError, TypeError, Exception), match="pickle") as caught:
        iter(loader)
    assert "pass multiprocessing_context='fork'" in caught.value.__notes__[-1]


# --- errors


class OddError(Exception):
    def __init__(self, one: int, two: int) -> None:
        super().__init__(one, two)


def test_errors_of_workers() -> None:
    class LocalError(ValueError):
        pass

    def fail(i: int) -> Any:
        if i == 1:
            raise KeyError("no such key")
        if i == 2:
            raise OddError(1, 2)
        if i == 3:
            raise LocalError("of a function")
        return [i, i, i, i, threading.Lock(), i, x, 2 * x][i]  # no history leaves a worker

    x = pf.ones(2, requires_grad=True)
    batches = iter(DataLoader(Do(fail), None, num_workers=2))
    assert next(batches) == 0
    text = (
        r"(?s)Caught KeyError in DataLoader worker process 1.\nTraceback.*raise KeyError\(.no such"
    )
    for error, why in (
        (KeyError, text), (RuntimeError, "Caught OddError in"),
        (RuntimeError, "Caught LocalError in"), (TypeError, "cannot pickle"),
    ):  # fmt: skip
        with pytest.raises(error, match=why):
            next(batches)
    assert next(batches) == 5, "it goes on after an error"
    leaf = next(batches)
    assert (leaf.requires_grad, leaf.tolist()) == (True, [1, 1])
    with pytest.raises(RuntimeError, match="detach"):
        next(batches)
    with pytest.raises(StopIteration):
        next(batches)


def test_errors_of_init_and_of_samplers() -> None:
    def init(i: int) -> None:
        raise ZeroDivisionError("at the start")

    for _ in range(2):
        with pytest.raises(ZeroDivisionError, match="at the start"):
            next(iter(DataLoader(range(4), num_workers=2, worker_init_fn=init)))

    def indices() -> Iterator[Any]:
        yield from (0, 9, Key(), 1)
        raise OSError("in the sampler")

    batches = iter(DataLoader(range(4), None, sampler=indices(), num_workers=1))
    assert next(batches) == 0, "each is raised in its turn"
    with pytest.raises(IndexError, match="gave index 9, which is beyond the 4 samples of ran"):
        next(batches)
    with pytest.raises(ZeroDivisionError, match="Caught .* worker process 0"):
        next(batches)
    assert next(batches) == 1
    with pytest.raises(OSError, match="in the sampler"):
        next(batches)


@pytest.mark.parametrize(
    ("end", "how"),
    [
        (lambda: os._exit(3), "exited with status 3"),
        (lambda: os.kill(os.getpid(), signal.SIGKILL),
         "was killed by SIGKILL; the system does that"),
        (lambda: (faulthandler.disable(), os.kill(os.getpid(), signal.SIGSEGV)),
         "was killed by SIGSEGV"),
    ],
    ids=["exit", "killed", "segfault"],
)  # fmt: skip
def test_death_of_a_worker(end: Any, how: str) -> None:
    batches = iter(DataLoader(Do(lambda i: end() if i == 2 else i), None, num_workers=2))
    assert [next(batches), next(batches)] == [0, 1]
    pid = batches.workers[0].process.pid  # type: ignore[attr-defined]
    with pytest.raises(RuntimeError, match=rf"worker process 0 \(pid {pid}\) {how}"):
        next(batches)
    assert not multiprocessing.active_children(), "the other one ends as well"
    with pytest.raises(StopIteration):
        next(batches)


def never(i: int) -> None:
    threading.Event().wait()


def test_timeout(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(of_worker, "GRACE", 0.05)  # a worker that is stuck is killed
    batches = iter(DataLoader(Do(never), 2, num_workers=1, timeout=0.05))
    with pytest.raises(RuntimeError, match=r"timed out after 0.05 seconds: .* 0 \(pid \d+\)"):
        next(batches)


def test_a_loop_that_is_left() -> None:
    for batch in DataLoader(Do(lambda i: np.zeros(40_000) + i), 1, num_workers=2):
        if batch[0, 0] == 2:
            break


def test_a_loop_that_is_interrupted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(of_worker, "GRACE", 0.05)
    parent = os.getpid()

    def interrupt(i: int) -> Any:
        if i == 3:
            os.kill(parent, signal.SIGINT)  # while the parent waits for this batch
            never(i)
        return np.zeros(40_000) + i

    def loop() -> None:
        for _batch in DataLoader(Do(interrupt), 1, num_workers=2):
            pass

    with pytest.raises(KeyboardInterrupt):
        loop()
    assert not multiprocessing.active_children(), "though the traceback keeps the loop's frame"


def test_an_interrupt_at_the_start(monkeypatch: pytest.MonkeyPatch) -> None:
    real = multiprocessing.process.BaseProcess.start

    def start(process: Any) -> None:
        real(process)
        signal.raise_signal(signal.SIGINT)

    monkeypatch.setattr(multiprocessing.process.BaseProcess, "start", start)
    with pytest.raises(KeyboardInterrupt):
        iter(DataLoader(range(4), num_workers=2))
    assert not multiprocessing.active_children()
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


SCRIPT = """
import json, os, signal, sys, threading
from pyframe.data import DataLoader, Dataset, worker

worker.GRACE, worker.LOOK = 0.2, 0.1

def kill():
    os.kill(os.getpid(), signal.SIGKILL)

def leave():
    if os.fork() == 0:  # a process that has the pipes too, until it is told to go
        os.close(1), os.close(2), os.close(stay), os.read(go, 1), os._exit(0)
    kill()

class Data(Dataset):
    def __getitem__(self, i):
        if i == 3 and case == "killed":
            threading.Event().wait()
        return i

    def __len__(self):
        return 100

ENDS = {"end": int, "killed": kill, "killed beside another": leave, "killed, spawn": kill,
        "interrupted": lambda: os.killpg(0, signal.SIGINT)}  # Ctrl-C
case = None
if __name__ == "__main__":
    go, stay = os.pipe()
    for case, end in ENDS.items():
        reading, writing = os.pipe()
        if not (program := os.fork()):
            os.setsid(), os.dup2(writing, 1), os.dup2(writing, 2), os.close(writing)
            spawns = "spawn" in case
            batches = iter(DataLoader(Data(), 1, num_workers=1 if spawns else 2,
                multiprocessing_context="spawn" if spawns else "fork"))
            assert [next(batches).tolist(), next(batches).tolist()] == [[0], [1]]
            end()
            break
        os.close(writing)
        with open(reading) as pipe:  # which ends when the last worker has
            said = pipe.read()
        print(json.dumps([case, os.waitstatus_to_exitcode(os.waitpid(program, 0)[1]), said]))
"""


def test_workers_end_with_the_program(tmp_path: Path) -> None:
    """Whichever way it ends; each program here is a fork of one, which waits for its workers."""
    (tmp_path / "script.py").write_text(SCRIPT)
    output, errors = python("-W", "error", tmp_path / "script.py")
    assert errors == ""
    found = {case: (status, said) for case, status, said in map(json.loads, output.splitlines())}
    status, said = found.pop("interrupted")
    assert status == -signal.SIGINT
    assert said.count("Traceback") == said.count("KeyboardInterrupt") == 1, said
    killed = (-signal.SIGKILL, "")
    assert found == {"end": (0, ""), "killed": killed, "killed beside another": killed,
                     "killed, spawn": killed}  # fmt: skip


def test_beside_a_gpu(gpu: str) -> None:
    x = pf.ones(3, device=gpu)
    assert (x + 1).tolist() == [2.0] * 3
    loader = DataLoader(Do(lambda i: pf.full((3,), i) * 2), 2, num_workers=1)
    assert [b[:, 0].tolist() for b in loader] == [[0, 2], [4, 6], [8, 10], [12, 14]]
    with pytest.raises(RuntimeError, match="spawn"):
        next(iter(DataLoader(Do(lambda i: x + i), 2, num_workers=1)))
    assert (x + 1).tolist() == [2.0] * 3, "the parent's is as it was"


def test_a_page_has_no_workers(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(dataloader, "in_browser", lambda: True)
    monkeypatch.setattr(dataloader, "_told", [])
    loader = DataLoader(range(4), 2, num_workers=8, timeout=3, persistent_workers=True)
    with pytest.warns(UserWarning, match="a web page has no worker processes"):
        assert [b.tolist() for b in loader] == [[0, 1], [2, 3]]
    assert [b.tolist() for b in loader] == [[0, 1], [2, 3]], "it says so once"
