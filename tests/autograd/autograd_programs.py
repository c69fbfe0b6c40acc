"""Programs that run on both frameworks, on a device `d`: equal values, or errors of one type."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import pytest
from beside import programs, run
from compared import alike, plain

import pyframe as pf


def leaf(t: Any, d: str, *values: float) -> Any:
    return t.tensor(list(values or (0.5, -1.0, 2.0)), device=d).requires_grad_()


def attempt(fn: Callable[[], Any]) -> Any:
    """The result, or the type of the error."""
    try:
        return fn()
    except (RuntimeError, TypeError, ValueError, AssertionError) as e:
        return next(k.__name__ for k in type(e).__mro__ if k.__module__ == "builtins")


def in_both(table: str, given: Any = lambda t, d: {}) -> Any:
    """The test that runs each program of a table, which knows the library `t` and the device `d`,
    the leaves `x`, `w` and `unused`, the list `seen`, and what is given for these two."""
    table_of = programs(table)

    def told(name: str, t: Any, d: str) -> list[Any]:
        names = {k: leaf(t, d) for k in ("x", "w", "unused")}
        names |= {"t": t, "d": d, "seen": [], "leaf": leaf, "attempt": attempt, **given(t, d)}
        return run(table_of[name], names, plain)

    @pytest.mark.sampled(5)  # what is recorded does not depend on the device
    @pytest.mark.parametrize("name", table_of)
    def test_both(name: str, device: str, torch: Any) -> None:
        with warnings.catch_warnings(action="ignore"):
            want = told(name, torch, "cpu")
        alike(told(name, pf, device), want, 2e-5, 1e-5)

    return test_both
