"""What the programs that run on both frameworks begin with."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest


def leaf(t: Any, d: str, *values: float) -> Any:
    return t.tensor(list(values or (0.5, -1.0, 2.0)), device=d).requires_grad_()


def attempt(fn: Callable[[], Any]) -> Any:
    """The result, or the type of the error."""
    try:
        return fn()
    except (RuntimeError, TypeError, ValueError, AssertionError) as e:
        return next(k.__name__ for k in type(e).__mro__ if k.__module__ == "builtins")


def programs() -> tuple[Any, Any]:
    """A decorator that gathers programs, and the test that runs each on both frameworks."""
    gathered: list[Callable[..., Any]] = []

    def program(fn: Callable[..., Any]) -> Callable[..., Any]:
        gathered.append(fn)
        return fn

    @pytest.mark.sampled(5)  # what is recorded does not depend on the device
    @pytest.mark.parametrize("fn", gathered, ids=lambda f: f.__name__)
    def test_both(fn: Any, same: Any) -> None:
        same(fn)

    return program, test_both
