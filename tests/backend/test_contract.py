"""The contract of tests/contract.py, and what only the native GPU can show."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from contract import CHECKS

import pyframe as pf
from pyframe.backend.host import NumpyBackend


@pytest.fixture(params=["numpy", "native"])
def backend(request: pytest.FixtureRequest) -> Any:
    if request.param == "numpy":
        return NumpyBackend()
    request.getfixturevalue("gpu")
    return pf.device("gpu").backend


@pytest.mark.parametrize("check", CHECKS, ids=lambda c: c.__name__)
def test_contract(check: Any, backend: Any) -> None:
    assert asyncio.run(check(backend)) is None


def test_freed_buffers_are_used_again(gpu: str) -> None:
    backend = pf.device(gpu).backend
    backend.free(backend.alloc(5000))
    before = backend.stats.buffers
    live = backend.stats.bytes_live
    one = backend.alloc(5000)
    del one
    two = backend.alloc(4900)
    assert backend.stats.buffers == before
    assert backend.stats.bytes_live == live + two.nbytes
    with pytest.raises(MemoryError, match="too large for this GPU"):
        backend.alloc(1 << 60)


def test_a_broken_kernel_names_itself(gpu: str) -> None:
    backend = pf.device(gpu).backend
    with pytest.raises(RuntimeError, match="kernel broken"):
        backend._pipeline("@compute @workgroup_size(1) fn main() { let x = y; }", "broken")
