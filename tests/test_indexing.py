"""x[...] and x[...] = v in every form, as PyTorch reads them, on each device."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import pyframe as pf

DATA = np.random.default_rng(0).standard_normal((3, 4, 5)).astype(np.float32)
KEYS = """0; -1; 1:3; ::2; ...; ...,0; None; None,1,None; True; False; [0,2]; :,[0,1],:;
[0,1],:,[2,3]; :,[0,1],[2,3]; mask; rows; rows,1; :,rows[0]; 0,[1,2]; ...,[0,1]; 1:1; t(1);
t([0,2]),1:3; t([[0],[1]]),t([1,2]); rows,None; None,rows; True,0; 0,True; [True,False,True];
2,-1,-2; t([-1,0]); :,1:3,::3; [1],...,[2]; t([0,1]),None,t([1,2])"""


def at(module: Any, x: Any, key: str, value: Any = None) -> Any:
    """x[key], or x after x[key] = value; the key's names are made with `module`."""
    names = {"x": x, "t": module.tensor, "mask": module.tensor(DATA > 0), "value": value,
             "rows": module.tensor(DATA[:, :, 0] > 0)}  # fmt: skip
    if value is None:
        return eval(f"x[{key}]", names)
    exec(f"x[{key}] = value", names)
    return x


@pytest.mark.parametrize("key", [k.strip() for k in KEYS.split(";")])
def test_get_and_set(key: str, device: str, torch: Any) -> None:
    x, y = pf.from_numpy(DATA.copy()).to(device), torch.from_numpy(DATA.copy())
    got, want = at(pf, x, key), at(torch, y, key)
    assert tuple(got.shape) == tuple(want.shape)
    np.testing.assert_array_equal(got.cpu().numpy(), want.numpy())
    values = np.random.default_rng(1).standard_normal(tuple(want.shape)).astype(np.float32)
    for value, other in ((7.0, 7.0), (pf.from_numpy(values).to(device), torch.from_numpy(values))):
        got, want = at(pf, x, key, value), at(torch, y, key, other)
        np.testing.assert_array_equal(got.cpu().numpy(), want.numpy())


def test_bad_indices(device: str) -> None:
    x = pf.from_numpy(DATA).to(device)
    for key, message in (
        (3, "index 3 is out of bounds for dimension 0 with size 3; expected -3 to 2"),
        ((0, 0, 0, 0), r"too many indices for tensor of dimension 3: got 4 for shape \[3, 4, 5\]"),
        ((..., 0, ...), "a single ellipsis"),
        ("a", r"valid indices \(got str\)"),
        (pf.tensor([True, False]), r"shape of the mask \[2\] does not match the shape \[3\]"),
        (pf.tensor([0.5]), "must be long, int, byte or bool tensors, got float32"),
    ):
        with pytest.raises(IndexError, match=message):
            x[key]
    with pytest.raises(ValueError, match="step must be greater than zero; use flip"):
        x[::-1]
    with pytest.raises(RuntimeError, match="shape mismatch"):
        x.clone()[0] = pf.ones(3, device=device)
    with pytest.raises(RuntimeError, match=r"\[3\] cannot be broadcast to indexing result"):
        x.clone()[[0, 1]] = pf.ones(3, device=device)
