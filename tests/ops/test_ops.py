"""Every row of tests/samples: values, dtypes and gradients against PyTorch, on each device."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest
from samples import APART, ROWS, Row, to_add

import pyframe as pf
import pyframe.nn.functional as F
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


# Their results' shapes hang on values.
OF_VALUES = ("argwhere", "bincount", "embedding_bag:max", "index:mask", "nonzero", "put_rows:many",
             "repeat_interleave:each", "unique", "unique:rows", "unique_consecutive")  # fmt: skip


def test_rows_on_meta() -> None:
    """Shapes and dtypes of values and gradients without memory, but of what looks at values."""
    for row in ROWS:
        if row.scipy:
            continue
        wanted, refused = row.results(pf, *row.tensors(pf)), False
        try:
            found = row.results(pf, *row.tensors(pf, "meta"), seed=wanted[0].to("meta"))
        except NotImplementedError as error:
            refused = str(error).startswith("Cannot copy out of meta tensor; no data!")
        assert refused == (row.name in OF_VALUES), row.name
        for got, want in () if refused else zip(found, wanted, strict=True):
            assert (got is None) == (want is None), row.name
            if got is not None:
                is_like = got.is_meta, got.shape, got.dtype, got._storage.node.data.nbytes
                assert is_like == (True, want.shape, want.dtype, 0), row.name


# differences are for float64
CHECKED = [r for r in ROWS if r.grad and r.size <= 400 and r.name != "cast:half"]


def check_slope(fn: Any, xs: list[Any], rng: np.random.Generator, eps: float = 1e-6) -> None:
    """Along a random direction a weighted sum of the results grows as its gradient says."""

    def total(xs: Any) -> Any:
        return sum((y * w).sum() for y, w in zip(fn(*xs), weights, strict=True))

    weights = [pf.from_numpy(np.cos(np.arange(y.numel())).reshape(y.shape)) for y in fn(*xs)]
    ways = [pf.from_numpy(rng.standard_normal(x.shape)) if x.requires_grad else 0 for x in xs]
    ahead, behind = (
        total([(x + way * d).detach().requires_grad_() if x.requires_grad else x
               for x, way in zip(xs, ways, strict=True)]).item() for d in (eps, -eps)
    )  # fmt: skip
    wanted = [x for x in xs if x.requires_grad]
    here = total(xs)
    found = pf.autograd.grad(here, wanted, allow_unused=True) if here.requires_grad else []
    moved = [way for way, x in zip(ways, xs, strict=True) if x.requires_grad]
    parts = [g * way for g, way in zip(found, moved, strict=False) if g is not None]
    slope = sum(p.sum().item() for p in parts)
    size = sum(p.abs().sum().item() for p in parts)
    assert abs((ahead - behind) / (2 * eps) - slope) <= 1e-5 * size + 1e-6


@pytest.mark.parametrize("row", CHECKED, ids=lambda r: r.name)
def test_gradients_are_slopes(row: Row) -> None:
    """And gradients of gradients are theirs; PyTorch's first gradients are compared one by one."""
    if row.scipy:
        pytest.importorskip("scipy", reason="SciPy is missing (the extra `special`)")
    xs, rng = row.tensors(pf, dtype=np.float64), np.random.default_rng(0)
    wanted = [i for i, x in enumerate(xs) if x.requires_grad]

    def value(*args: Any) -> list[Any]:
        return [row.call(pf, F, *args)]

    def gradients(seed: Any, *args: Any) -> list[Any]:
        found = pf.autograd.grad(value(*args), [args[i] for i in wanted], seed,
                                 create_graph=True, allow_unused=True)  # fmt: skip
        return [g for g in found if g is not None]

    check_slope(value, xs, rng)
    if row.second:
        y = value(*xs)[0]
        seed = pf.from_numpy(rng.standard_normal(y.shape)).to(y.dtype).requires_grad_()
        check_slope(gradients, [seed, *xs], rng)


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
