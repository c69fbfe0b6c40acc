"""What a program gives with PyTorch and with pyframe, as plain data, and whether both are alike."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest


def plain(x: Any) -> Any:
    """A picture of a result, taken at once. Of a tensor: its dtype, whether it requires a gradient
    and its values; bfloat16, which NumPy lacks, as float32."""
    if hasattr(x, "requires_grad") and hasattr(x, "shape"):
        dtype = str(x.dtype).rpartition(".")[2]
        values = x.detach().cpu()
        values = values.float() if dtype == "bfloat16" else values
        values = values.resolve_conj() if hasattr(values, "resolve_conj") else values
        return "tensor", dtype, x.requires_grad, values.numpy().copy()
    if isinstance(x, (tuple, list)):
        return [plain(v) for v in x]
    return {k: plain(v) for k, v in x.items()} if isinstance(x, dict) else x


def check(got: Any, want: Any, path: str = "result", rtol: float = 2e-5) -> None:
    """AssertionError, which names the part, unless two pictures are alike."""
    assert type(got) is type(want), f"{path}: {got} instead of {want}"
    if isinstance(want, np.ndarray):
        np.testing.assert_allclose(got, want, rtol=rtol, atol=rtol / 2, err_msg=path)
    elif isinstance(want, (tuple, list)):
        assert len(got) == len(want), f"{path}: {got} instead of {want}"
        for i, (a, b) in enumerate(zip(got, want, strict=True)):
            check(a, b, f"{path}[{i}]", rtol)
    elif isinstance(want, dict):
        assert got.keys() == want.keys(), f"{path}: {got} instead of {want}"
        for k in want:
            check(got[k], want[k], f"{path}[{k!r}]", rtol)
    elif isinstance(want, float):
        assert got == pytest.approx(want, rel=rtol, abs=rtol / 2, nan_ok=True), (
            f"{path}: {got} instead of {want}"
        )
    else:
        assert got == want, f"{path}: {got} instead of {want}"
