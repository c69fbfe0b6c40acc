"""Every row of tests/samples: values, dtypes and gradients against PyTorch, on each device."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest
from samples import APART, ROWS, Row, to_add

import pyframe as pf
import pyframe.nn.functional as F
from pyframe.core.dispatch import apply
from pyframe.core.op import REGISTRY, Op

# A software GPU has the first row of each registered op, and each fourth of the others, which are
# made of the same kernels.
SPARED = {r.name: [pytest.mark.sampled(4)] for r in ROWS if r.name not in REGISTRY}
# What is at the edges has tests of its own on each device.
USUAL = [pytest.param(r, id=r.name, marks=SPARED.get(r.name, ())) for r in ROWS if not r.edges]


@pytest.mark.parametrize("row", USUAL)
def test_against_pytorch(row: Row, device: str, torch: Any) -> None:
    """Values, dtypes, gradients, and whether the result is a view of an argument."""
    if row.cpu and device != "cpu":
        pytest.skip("the GPU has no such dtype")
    if row.scipy:
        pytest.importorskip("scipy", reason="SciPy is missing (the extra `special`)")
    given, theirs = row.tensors(pf, device), row.tensors(torch)
    found, wanted = row.results(pf, *given), row.results(torch, *theirs)
    views = [found[0]._storage is x._storage for x in given]
    memory = [x.untyped_storage().data_ptr() for x in (wanted[0], *theirs)]
    assert views == [p == memory[0] for p in memory[1:]] or not wanted[0].numel()
    for n, (got, want) in enumerate(zip(found, wanted, strict=True)):
        assert (got is None) == (want is None)
        if got is not None:
            assert str(got.device) == device
            assert got.dtype.name == str(want.dtype).removeprefix("torch.")
            assert tuple(got.shape) == tuple(want.shape)
            tol = row.tol * (5 if n else 1)
            values = got.detach().cpu().numpy(), want.detach().resolve_neg().numpy()
            np.testing.assert_allclose(*values, rtol=1e-5 * tol, atol=2e-6 * tol)


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


def without_rows() -> list[str]:
    rows = {r.name.partition(":")[0] for r in ROWS} | set(APART)
    made = r"(cat|matmul|packed_linear)\d+"
    ops = {n.partition(":")[0]: op for n, op in REGISTRY.items() if not re.fullmatch(made, n)}
    return [to_add(op, REGISTRY) for name, op in ops.items() if name not in rows]


def test_every_op_has_a_row() -> None:
    assert without_rows() == []


def test_an_op_without_a_row_is_told_where_to_add_one() -> None:
    tanh = REGISTRY["tanh"]
    Op("snake", tanh.kind, "x", infer=tanh.infer, numpy=np.sin, scalar=tanh.scalar)
    try:
        (told,) = without_rows()
        assert told.startswith("no row in tests/samples for snake: add one beside ")
        assert "samples/core.py, or say in samples/apart.py" in told
    finally:
        del REGISTRY["snake"]


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
