"""`same`: one program on both frameworks, with equal values or errors of one type."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import pytest
from compared import alike, plain

import pyframe as pf


def outcome(program: Callable[..., Any], t: Any, device: str) -> Any:
    try:
        return plain(program(t, device))
    except (RuntimeError, TypeError, ValueError, NotImplementedError, AttributeError) as e:
        return type(e) if type(e) in (TypeError, ValueError, NotImplementedError) else RuntimeError


@pytest.fixture
def same(device: str, torch: Any) -> Callable[[Callable[..., Any]], None]:
    """`same(program)` compares program(pf, device) with program(torch, "cpu")."""
    import torch.func
    import torch.utils.checkpoint

    def run(program: Callable[..., Any]) -> None:
        with warnings.catch_warnings(action="ignore"):
            want = outcome(program, torch, "cpu")
        alike(outcome(program, pf, device), want, 2e-5, 1e-5)

    return run
