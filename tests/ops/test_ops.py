"""Every row of tests/samples: values, dtypes and gradients against PyTorch, on each device."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest
from samples import ROWS, Row

import pyframe as pf
import pyframe.nn.functional as F
from pyframe.core.dispatch import apply
from pyframe.core.op import REGISTRY, Op

# What no row can call by itself
INTERNAL = set(
    """const put to_device iota random_bits uniform_from_bits normal_from_bits
    bfloat16_from_bits bits_from_bfloat16 attention_grad put_row put_row_over
    packed_linear""".split()
)
# On a software GPU each second one of an op's further rows.
SPARED = {r.name: [pytest.mark.sampled(2)] for r in ROWS if ":" in r.name}


@pytest.mark.parametrize(
    "row", [pytest.param(r, id=r.name, marks=SPARED.get(r.name, ())) for r in ROWS]
)
def test_against_pytorch(row: Row, device: str, torch: Any) -> None:
    if row.cpu and device != "cpu":
        pytest.skip("the GPU has no such dtype")
    if row.scipy:
        pytest.importorskip("scipy", reason="SciPy is missing (the extra `special`)")
    found = row.results(pf, *row.tensors(pf, device))
    wanted = row.results(torch, *row.tensors(torch))
    for n, (got, want) in enumerate(zip(found, wanted, strict=True)):
        assert (got is None) == (want is None)
        if got is not None:
            assert str(got.device) == device
            assert got.dtype.name == str(want.dtype).removeprefix("torch.")
            assert tuple(got.shape) == tuple(want.shape)
            tol = row.tol * (5 if n else 1)
            values = got.detach().cpu().numpy(), want.detach().resolve_neg().numpy()
            np.testing.assert_allclose(*values, rtol=1e-5 * tol, atol=2e-6 * tol)


def test_memory_is_shared_where_pytorch_shares_it(device: str, torch: Any) -> None:
    """A result is a view of an argument, or has memory of its own."""

    def shared(t: Any, storage: Any, row: Row, arrays: list[np.ndarray], device: str) -> Any:
        xs = [t.from_numpy(a.copy()).to(device) for a in arrays]
        y = row.call(t, t.nn.functional, *xs)
        return [storage(y) == storage(x) and y.numel() > 0 for x in xs]

    for row in ROWS:
        if not row.scipy and not (row.cpu and device != "cpu"):
            arrays = row.arrays()
            want = shared(torch, lambda y: y.untyped_storage().data_ptr(), row, arrays, "cpu")
            assert shared(pf, lambda y: id(y._storage), row, arrays, device) == want, row.name


# finite differences are for float64, and take a run for each element
CHECKED = [r for r in ROWS if r.grad and r.size <= 400 and r.name != "cast:half"]


@pytest.mark.parametrize("row", CHECKED, ids=lambda r: r.name)
def test_gradcheck(row: Row) -> None:
    if row.scipy:
        pytest.importorskip("scipy", reason="SciPy is missing (the extra `special`)")
    xs = row.tensors(pf, dtype=np.float64)

    def fn(*args: Any) -> Any:
        return row.call(pf, F, *args)

    assert pf.autograd.gradcheck(fn, tuple(xs), eps=1e-6, atol=1e-4)
    if row.second:
        assert pf.autograd.gradgradcheck(fn, tuple(xs), eps=1e-6, atol=1e-4)


def test_a_gradient_goes_back_to_the_device(gpu: str) -> None:
    for here, there in ((gpu, "cpu"), ("cpu", gpu)):
        x = pf.tensor([1.0, -2.0], device=here, requires_grad=True)
        x.to(there).square().sum().backward()
        assert x.grad.device == x.device
        assert x.grad.tolist() == [2.0, -4.0]


def test_every_op_has_a_row() -> None:
    rows = {r.name.partition(":")[0] for r in ROWS}
    # collectives have tests of their own, in jobs of several processes
    made = r"(cat|matmul|packed_linear)\d+|collective"
    ops = {n.partition(":")[0] for n in REGISTRY if not re.fullmatch(made, n)}
    assert ops - rows - INTERNAL == set()


def test_an_op_without_a_gradient_of_its_own_has_that_of_its_fallback(device: str) -> None:
    scan = REGISTRY["cumsum"]
    op = Op(
        "scan_for_a_test", scan.kind, "x", infer=scan.infer, numpy=scan.numpy, kernel=scan.kernel,
        fallback=lambda x: pf.ones(3, 3, device=x.device).tril() @ x,
    )  # fmt: skip
    try:
        x = pf.tensor([[[1.0], [2.0], [3.0]]], device=device, requires_grad=True)
        y = apply(op, (x,))
        assert y.flatten().tolist() == [1, 3, 6]
        assert y.requires_grad
        y.sum().backward()
        assert x.grad.flatten().tolist() == [3, 2, 1]
        with pf.no_grad():
            assert apply(op, (x,)).flatten().tolist() == [1, 3, 6]
    finally:
        del REGISTRY[op.name]
