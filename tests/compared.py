"""What programs give with PyTorch and with pyframe: trees of tensors and plain values, compared."""

from __future__ import annotations

import importlib
import importlib.util
import re
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

CLOSE = {"float64": (1e-7, 1e-9)}  # (rtol, atol) of a dtype; of the others 1e-4 and 1e-5


def import_torchvision() -> Any:
    """Its compiled half may not fit a CPU build of PyTorch: then the operators that it would
    register are declared, so that the rest can be imported. ImportError where it is missing."""
    import torch

    found = importlib.util.find_spec("torchvision")
    try:
        return importlib.import_module("torchvision")
    except RuntimeError:
        for name in [n for n in sys.modules if n.partition(".")[0] == "torchvision"]:
            del sys.modules[name]
    source = (Path(str(found and found.origin)).parent / "_meta_registrations.py").read_text()
    library = torch.library.Library("torchvision", "DEF")
    torch._torchvision_operators = library  # type: ignore[attr-defined]  # lives as long as torch
    for name in {"nms", "qnms", *re.findall(r'register_meta\("(\w+)"', source)}:
        library.define(f"{name}(Tensor a) -> Tensor")
    return importlib.import_module("torchvision")


def array(x: Any) -> Any:
    """The values of a tensor of either library."""
    return x.detach().cpu().numpy() if hasattr(x, "detach") else x


def plain(x: Any) -> Any:
    """A picture of a result, taken at once. Of a tensor: its dtype, whether it requires a gradient
    and its values; bfloat16, which NumPy lacks, as float32."""
    if hasattr(x, "requires_grad") and hasattr(x, "shape"):
        dtype = plain(x.dtype)
        values = x.detach().cpu()
        values = values.float() if dtype == "bfloat16" else values
        values = values.resolve_conj() if hasattr(values, "resolve_conj") else values
        return "tensor", dtype, x.requires_grad, values.numpy().copy()
    if isinstance(x, (tuple, list)):
        return [plain(v) for v in x]
    if isinstance(x, dict):
        return {k: plain(v) for k, v in x.items()}
    return str(x).rpartition(".")[2] if type(x).__name__ == "dtype" else x


def alike(
    got: Any, want: Any, rtol: float | None = None, atol: float | None = None, where: str = "it"
) -> None:
    """The same structure, keys, dtypes, shapes, texts and numbers; floats within a tolerance."""
    if isinstance(want, dict):
        assert list(got) == list(want), f"{where}: {got} instead of {want}"
        for key, value in want.items():
            alike(got[key], value, rtol, atol, f"{where}[{key!r}]")
    elif isinstance(want, (list, tuple)):
        assert len(got) == len(want), f"{where}: {got} instead of {want}"
        for i, (a, b) in enumerate(zip(got, want, strict=True)):
            alike(a, b, rtol, atol, f"{where}[{i}]")
    elif hasattr(want, "dtype"):
        a, b = array(got), array(want)
        assert (a.dtype, a.shape) == (b.dtype, b.shape), where
        close = CLOSE.get(str(a.dtype), (1e-4, 1e-5))
        rtol, atol = (close[0] if rtol is None else rtol), (close[1] if atol is None else atol)
        np.testing.assert_allclose(a, b, rtol, atol, err_msg=where)
    else:
        said = f"{where}: {got} instead of {want}"
        if type(want).__module__ == "builtins":  # of the others each library has its own
            assert type(got) is type(want), said
        if isinstance(want, str):
            got = re.sub(r"\bpyframe\b", "torch", got)
        if isinstance(want, float):
            want = pytest.approx(want, rel=rtol or 1e-9, abs=atol or 1e-12, nan_ok=True)
        assert got == want, said


def same_bits(found: Any, expected: Any) -> None:
    """Of dicts of arrays or tensors."""
    assert set(found) == set(expected)
    for name, value in expected.items():
        a, b = np.asarray(found[name]), np.asarray(value)
        assert (a.dtype, a.shape) == (b.dtype, b.shape), name
        assert a.tobytes() == b.tobytes(), name
