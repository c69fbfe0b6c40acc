"""`same`: one program on both frameworks, with equal values or errors of one type."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import pyframe as pf


def outcome(program: Callable[..., Any], t: Any, device: str) -> Any:
    try:
        return plain(program(t, device))
    except (RuntimeError, TypeError, ValueError, NotImplementedError, AttributeError) as e:
        return type(e) if type(e) in (TypeError, ValueError, NotImplementedError) else RuntimeError


def plain(x: Any) -> Any:
    """Values as both frameworks have them."""
    if hasattr(x, "requires_grad") and hasattr(x, "shape"):
        dtype = str(x.dtype).partition(".")[2]
        return ("tensor", dtype, x.requires_grad, x.detach().cpu().resolve_conj().numpy().copy()
                if hasattr(x, "resolve_conj") else x.detach().cpu().numpy().copy())  # fmt: skip
    if isinstance(x, (tuple, list)):
        return [plain(v) for v in x]
    if isinstance(x, dict):
        return {k: plain(v) for k, v in x.items()}
    return x


def check(got: Any, want: Any, path: str = "result") -> None:
    assert type(got) is type(want), f"{path}: {got} instead of {want}"
    if isinstance(want, np.ndarray):
        np.testing.assert_allclose(got, want, rtol=2e-5, atol=1e-5, err_msg=path)
    elif isinstance(want, (tuple, list)):
        assert len(got) == len(want), f"{path}: {got} instead of {want}"
        for i, (a, b) in enumerate(zip(got, want, strict=True)):
            check(a, b, f"{path}[{i}]")
    elif isinstance(want, dict):
        assert got.keys() == want.keys()
        for k in want:
            check(got[k], want[k], f"{path}[{k!r}]")
    elif isinstance(want, float):
        assert got == pytest.approx(want, rel=2e-5, abs=1e-5), path
    else:
        assert got == want, f"{path}: {got} instead of {want}"


@pytest.fixture
def same(device: str, torch: Any) -> Callable[[Callable[..., Any]], None]:
    """`same(program)` compares program(pf, device) with program(torch, "cpu")."""
    import torch.func
    import torch.utils.checkpoint

    def run(program: Callable[..., Any]) -> None:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            want = outcome(program, torch, "cpu")
        check(outcome(program, pf, device), want)

    return run
