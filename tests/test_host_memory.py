"""Memory that is used again: never while anything still shows it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from together import together

import pyframe as pf
from pyframe.core import host_memory

N = host_memory.MIN_POOLED_BYTES // 4
FLOAT = np.dtype(np.float32)
HOLDERS: dict[str, Callable[[Any], Any]] = {
    "a view": lambda t: t.view(2, N // 2)[1:, ::2].T,
    "a detached tensor": lambda t: t.detach(),
    "an array": lambda t: t.numpy(),
    "an array's view": lambda t: t.numpy()[5:].view(np.int32),
    "a buffer": lambda t: memoryview(t.numpy()),
    "what NumPy says owns it": lambda t: t.numpy().base.base,
    "what it was saved for": lambda t: (t * pf.ones(N, requires_grad=True)).grad_fn,
}


def make(kind: str) -> Callable[[float], Any]:
    """A function whose every result is large: N times a number."""
    ones = pf.ones(N)
    add = (lambda x, y: x + y) if kind == "eager" else pf.compile(lambda x, y: x + y)
    return lambda value: add(ones, pf.full((N,), value - 1))


def address(t: Any) -> int:
    return int(t.numpy().__array_interface__["data"][0])


@pytest.mark.parametrize("kind", ["eager", "compiled"])
@pytest.mark.parametrize("holder", HOLDERS)
def test_no_result_changes_while_it_is_held(kind: str, holder: str) -> None:
    f = make(kind)
    f(0.0), f(0.0)
    t = f(7.0)
    place, held = address(t), HOLDERS[holder](t)
    del t
    later = [f(float(i)) for i in range(4)]
    assert place not in [address(u) for u in later]
    assert [float(u[N // 2].item()) for u in later] == [0.0, 1.0, 2.0, 3.0]
    del held


@pytest.mark.parametrize("kind", ["eager", "compiled"])
def test_memory_comes_back(kind: str) -> None:
    f = make(kind)
    places = set()
    result = None
    for i in range(12):
        result = f(float(i))
        places.add(address(result))
        assert float(result.sum().item()) == i * N
    assert len(places) < 6


def test_what_is_kept_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(host_memory, "MAX_POOLED_BYTES", 3 * host_memory.MIN_POOLED_BYTES)
    some = [host_memory.empty((N + 4 * i,), FLOAT) for i in range(8)]
    del some
    assert (
        sum(n * len(idle) for n, idle in host_memory._idle.items()) <= host_memory.MAX_POOLED_BYTES
    )


def test_threads_get_memory_of_their_own() -> None:
    def work(number: int) -> None:
        for _ in range(40):
            mine = host_memory.empty((N,), FLOAT)
            mine[:] = number
            assert (mine == number).all()

    together(work, 6)


def test_small_results_are_made_by_numpy() -> None:
    assert host_memory.empty((3,), FLOAT).base is None
