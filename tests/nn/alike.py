"""What pyframe gives beside what PyTorch gives: trees of tensors and plain values, compared."""

from __future__ import annotations

import re
from typing import Any

import numpy as np

CLOSE = {"float64": (1e-7, 1e-9), "float32": (1e-4, 1e-5)}  # (rtol, atol)


def array(x: Any) -> Any:
    """The values of a tensor of either library."""
    return x.detach().cpu().numpy() if hasattr(x, "detach") else x


def alike(
    got: Any, want: Any, rtol: float | None = None, atol: float | None = None, where: str = ""
) -> None:
    """The same structure, keys, dtypes, shapes, texts and numbers; tensors within a tolerance."""
    if isinstance(want, dict):
        assert list(got) == list(want), where
        for key, value in want.items():
            alike(got[key], value, rtol, atol, f"{where}[{key!r}]")
    elif isinstance(want, (list, tuple)):
        assert len(got) == len(want), where
        for i, (a, b) in enumerate(zip(got, want, strict=True)):
            alike(a, b, rtol, atol, f"{where}[{i}]")
    elif hasattr(want, "dtype"):
        a, b = array(got), array(want)
        assert (a.dtype, a.shape) == (b.dtype, b.shape), where
        close = CLOSE.get(str(a.dtype), (1e-4, 1e-5))
        rtol, atol = (close[0] if rtol is None else rtol), (close[1] if atol is None else atol)
        np.testing.assert_allclose(a, b, rtol, atol, err_msg=where)
    elif isinstance(want, str):
        assert re.sub(r"\bpyframe\b", "torch", got) == want, where
    else:
        assert got == want, where
