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
2,-1,-2; 0,(1,2); t([-1,0]); :,1:3,::3; [1],...,[2]; t([0,1]),None,t([1,2])"""


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
