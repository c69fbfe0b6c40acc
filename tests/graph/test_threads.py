"""Several threads at once: what one does is not seen by another, which waits only if it must."""

from __future__ import annotations

import threading
from typing import Any

import pytest
from together import SOON, Thread

import pyframe as pf
from pyframe.nn import functional as F


def test_a_flush_waits_for_what_another_thread_runs(
    gpu: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    x = pf.ones(4, device=gpu)
    x.numpy(force=True)
    executor = pf.device(gpu).executor
    execute, order, other = executor._execute, [], []

    def slow(*roots: Any) -> None:
        if not other:
            other.append(Thread(lambda: (executor.flush(), order.append("flushed"))))
            other[0].thread.join(0.2)  # time to go on, if it does not wait
        execute(*roots)
        order.append("ran")

    monkeypatch.setattr(executor, "_execute", slow)
    y = x + 1
    executor.flush()
    other[0].result()
    assert order == ["ran", "flushed"]
    assert y.tolist() == [2, 2, 2, 2]


def test_what_runs_into_a_function_that_another_thread_captures(device: str) -> None:
    x = pf.ones(3, device=device)
    waits, asked = threading.Event(), threading.Event()
    f = pf.compile(lambda x: x * 2)
    key = f._key

    def ask(*args: Any) -> Any:
        if threading.current_thread() is other.thread:
            asked.set()  # from here on it goes for what a capture needs
        return key(*args)

    f._key = ask

    @pf.compile
    def g(x: Any) -> Any:
        waits.set()
        asked.wait(SOON)
        return f(x * x.sum().item())

    def call() -> Any:
        waits.wait(SOON)
        return f(x).tolist()

    other = Thread(call)
    with pytest.warns(RuntimeWarning, match="reads the value"):
        assert Thread(lambda: g(x).tolist()).result() == [6, 6, 6]
    assert other.result() == [2, 2, 2]


def test_what_goes_on_eagerly_may_wait_for_other_threads(device: str) -> None:
    x = pf.ones(3, device=device)
    f = pf.compile(lambda x: x * 3)
    found = []

    @pf.compile
    def g(x: Any) -> Any:
        total = x.sum().item()
        found.append(Thread(lambda: (f(x).tolist(), f(x).tolist(), f.replayed)).result())
        return x * total

    with pytest.warns(RuntimeWarning, match="reads the value"):
        assert g(x).tolist() == [3, 3, 3]
    assert found == [([3, 3, 3], [3, 3, 3], 1)]


def is_wrong_in_another_thread(f: Any, device: str, right: float) -> None:
    """A call with a bad index, which is read in its thread after a good one was in this."""
    good, bad = (pf.tensor(i, device=device) for i in ([0, 2], [0, 5]))
    assert f(good).item() == f(good).item() == right
    made, read = threading.Event(), threading.Event()

    def wrong() -> None:
        if device == "cpu":  # it raises at once
            made.set()
            read.wait(SOON)
        y = f(bad)
        made.set()
        read.wait(SOON)
        y.item()

    other = Thread(wrong)
    made.wait(SOON)
    assert f(good).item() == right
    read.set()
    with pytest.raises(IndexError, match="out of range"):
        other.result()
    assert f(good).item() == right


def test_an_index_error_is_raised_in_the_thread_that_made_it(gpu: str) -> None:
    x = pf.arange(6.0, device=gpu).reshape(3, 2)
    is_wrong_in_another_thread(lambda i: x[i].sum(), gpu, 10)


def test_an_index_error_in_a_replay_is_of_the_thread_that_calls(device: str) -> None:
    x = pf.arange(6.0, device=device).reshape(3, 2)
    f = pf.compile(lambda i: x[i].sum() + F.one_hot(i, 6).sum())
    is_wrong_in_another_thread(f, device, 12)
    assert f.captured == 1


def test_eager_work_of_another_thread_within_a_capture(device: str) -> None:
    x = pf.arange(6.0, device=device).reshape(3, 2)
    i = pf.tensor([0, 2], device=device)
    w = pf.ones(2, device=device, requires_grad=True)

    def beside() -> Any:
        y = pf.relu(x[i] - 1)
        return (y @ w.detach()).tolist()

    def step(x: Any) -> Any:
        a = x[i] * w
        seen.append(Thread(beside).result())
        b = x[i + 0] * w
        (a.sum() + b.sum()).backward()
        return a.sum()

    seen: list[Any] = []
    f = pf.compile(step)
    with pytest.warns(RuntimeWarning):  # for the list, and for the thread
        assert [f(x).item() for _ in range(4)] == [10] * 4
    assert w.grad is not None
    assert w.grad.tolist() == [32, 48]
    assert seen == [[0, 7]] * len(seen)


def test_draws_of_another_thread_within_a_capture(device: str) -> None:
    pf.manual_seed(0)
    x = pf.ones(64, device=device)
    started, others = threading.Event(), []

    def beside() -> Any:
        started.set()
        return F.dropout(x).tolist()

    @pf.compile
    def f(x: Any) -> Any:
        a = F.dropout(x)
        if not others:
            others.append(Thread(beside))
            started.wait(SOON)
        return a + F.dropout(x) * 100

    with pytest.warns(RuntimeWarning):  # for the thread
        mine = f(x).tolist()
    other = others[0].result()
    pf.manual_seed(0)
    a, b, c = (F.dropout(x) for _ in range(3))
    assert mine == (a + b * 100).tolist()
    assert other == c.tolist()


def test_threads_that_draw_get_different_numbers(device: str) -> None:
    pf.manual_seed(0)
    want = [pf.rand(16, device=device).tolist() for _ in range(40)]
    pf.manual_seed(0)
    threads = [
        Thread(lambda: [pf.rand(16, device=device).tolist() for _ in range(10)]) for _ in range(4)
    ]
    assert sorted(r for t in threads for r in t.result()) == sorted(want)
