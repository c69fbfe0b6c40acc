"""Expressions of numbers at hand that give in PyTorch what they give here, on each device: the same
values, shapes and dtypes. `t` is either module."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from refused import calls

import pyframe as pf

MADE = """
t.tensor([[1, 2], [3, 4]]) | t.tensor([1, 2.5]) | t.tensor(True) | t.tensor(np.float32(2))
t.tensor([t.tensor(1), t.tensor(2)]) | t.zeros(0, 3) | t.vander(X, 3, True) | t.spmm(M, M)
t.native_channel_shuffle(t.arange(4.0).reshape(1, 4, 1, 1), 2)
t.nn.functional.affine_grid(t.ones(1, 3, 4), (1, 1, 2, 3, 1), False)
t.max_pool1d_with_indices(t.tensor([[[1.0, 3, 2, 5]]]), 2)
"""
POINTWISE = """
I << 2 | t.square(I > 0) | t.erfc(X.half()).dtype | t.float_power(X.half().cpu(), 2)
t.frexp(X.half()).exponent | t.where(I > 0, 1, 2.5) | t.abs(t.tensor([3 + 4j], device="cpu"))
t.copysign(I, -1.0) | t.ones(1).addbmm_(t.ones(2, 3, 4), t.ones(2, 4, 5))
t.linalg.solve_triangular(t.tensor([[1.0, 0], [1, 0]]), t.ones(2, 1), upper=False).isfinite()
I.to(t.int8) >> 9 | 2 << I.abs() | I.to(t.int8).__ilshift__(1) | t.sqrt(input=X)
t.add(input=X, other=1, alpha=2) | t.pow(X, exponent=2) | X.pow(exponent=2) | X.eq(other=1)
t.clamp_min(X, min=2) | t.allclose(N, N + 1e-9, equal_nan=True) | t.allclose(N, N)
t.equal(I, I[:1]) | t.is_nonzero(I[:1]) | t.result_type(X, 1)
t.add(X.cpu(), 1, out=X.cpu().double())
t.distributions.Normal(0.0, -1.0, validate_args=False).scale
"""
ORDER = """
E.sort(0).values | E.topk(0, 0).values | E.logsumexp(0) | t.isin(I, I[:0])
t.bincount(I[:0], minlength=2) | t.unique(E.reshape(-1), return_counts=True)
t.searchsorted(t.tensor([1.0, 2, 2, 3]), t.tensor([0.0, 2, 9, NAN]))
t.searchsorted(t.tensor([1.0, 2, 2, 3]), t.tensor([0.0, 2, 9, NAN]), side="right")
t.bucketize(2.0, t.tensor([1.0, 2, 2, 3]), right=True)
t.searchsorted(t.tensor([3.0, 1, 2]), t.tensor([2.5]), sorter=t.tensor([1, 2, 0]))
t.histc(t.tensor([0.0, 1, 1, 4, NAN, 9]), 4, 0, 4)
t.histogram(t.tensor([0.0, 1, 1, 4]), t.tensor([0.0, 1, 4]), density=True).hist
t.histogramdd(t.tensor([[0.0, 0], [1, 3]]), [2, 3])
t.autograd.grad((x := t.tensor([2.0, 1, 2, 5], requires_grad=True)).median(), x) | t.hash_tensor(I)
t.hash_tensor(M, 0)
"""
MASKED = """
t.masked.median(M, 1, mask=K) | t.masked.softmax(M, 1, mask=K[0])
t.masked.amin(M.int(), 0, mask=K)
"""


def value(expression: str, t: Any) -> Any:
    names = {
        "t": t, "np": np, "NAN": math.nan, "I": t.tensor([3, -2]), "X": t.tensor([1.0, 4.0]),
        "N": t.tensor([1.0, math.nan]), "E": t.zeros(0, 3), "M": t.tensor([[1.0, 2.0], [3.0, 4.0]]),
        "K": t.tensor([[True, False], [False, False]]),
    }  # fmt: skip
    return plain(eval(expression, names))


def plain(y: Any) -> Any:
    """Words for a result, in which NaN is itself."""
    if isinstance(y, (tuple, list)):
        return [plain(z) for z in y]
    if hasattr(y, "tolist"):
        return plain(y.dtype), tuple(y.shape), str(y.tolist())
    return str(y).rpartition(".")[2]


@pytest.mark.filterwarnings("ignore")  # PyTorch's
@pytest.mark.parametrize(
    "expression",
    [e for table in (MADE, POINTWISE, ORDER, MASKED) for e in calls(table)],
)
def test_same_as_pytorch(expression: str, device: str, torch: Any) -> None:
    want = value(expression, torch)
    pf.set_default_device(device)
    assert value(expression, pf) == want
