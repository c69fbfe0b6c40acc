"""The contract of tests/contract.py, and what only the native GPU can show."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from contract import CHECKS

import pyframe as pf
from pyframe.backend.interpreter import HostBackend


@pytest.fixture(params=["host", "native"])
def backend(request: pytest.FixtureRequest) -> Any:
    if request.param == "host":
        return HostBackend()
    request.getfixturevalue("gpu")
    return pf.device("gpu").backend


@pytest.mark.parametrize("check", CHECKS, ids=lambda c: c.__name__)
def test_contract(check: Any, backend: Any) -> None:
    assert asyncio.run(check(backend)) is None


def test_freed_buffers_are_used_again(gpu: str) -> None:
    pool = pf.device(gpu).executor
    pool.free(pool.alloc(5000))
    before = pool.stats.buffers
    live = pool.stats.bytes_live
    one = pool.alloc(5000)
    del one
    two = pool.alloc(4900)
    assert pool.stats.buffers == before
    assert pool.stats.bytes_live == live + two.nbytes
    part = pool.slice(two, 256, 8)
    del two
    assert pool.stats.bytes_live > live  # a part holds the buffer that it is a part of
    del part
    assert pool.stats.bytes_live == live
    with pytest.raises(MemoryError, match="too large for this GPU"):
        pool.alloc(1 << 60)
