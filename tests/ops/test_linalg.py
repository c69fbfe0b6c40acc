"""Linear algebra: special matrices, drivers, equations of einsum, complex gradients."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import pyframe as pf

SINGULAR = np.array([[1, 2], [2, 4]], np.float32)
INDEFINITE = np.array([[1, 2], [2, 1]], np.float32)


def test_ex_functions_say_where(device: str) -> None:
    x = pf.from_numpy(np.stack([INDEFINITE, np.eye(2, dtype=np.float32)])).to(device)
    lower, info = pf.linalg.cholesky_ex(x)
    assert info.dtype is pf.int32
    assert info.tolist() == [2, 0]
    assert lower[1].tolist() == [[1, 0], [0, 1]]
    s = pf.from_numpy(SINGULAR).to(device)
    assert pf.linalg.inv_ex(s).info.item() == pf.linalg.solve_ex(s, s).info.item() == 2
    assert pf.linalg.lu_factor_ex(s).info.item() == 2
    with pytest.raises(pf.linalg.LinAlgError, match="singular"):
        pf.linalg.inv_ex(s, check_errors=True)


def test_beta_zero_ignores_nan(device: str) -> None:
    x = pf.ones(2, 2, device=device)
    nan = pf.full((2, 2), float("nan"), device=device).requires_grad_()
    y = pf.addmm(nan, x, x, beta=0)
    assert y.tolist() == [[2, 2], [2, 2]]
    y.sum().backward()
    assert nan.grad.tolist() == [[0, 0], [0, 0]]
    ints = pf.tensor([[3, 4], [5, 6]])
    assert pf.addmm(ints, ints, ints, beta=0.5, alpha=1.7).tolist() == (ints @ ints).tolist()


def test_det_of_singular_has_its_gradient() -> None:
    """The cofactors, which PyTorch gives too where it keeps the graph of the gradient."""
    x = pf.from_numpy(SINGULAR.astype(np.float64)).requires_grad_()
    pf.linalg.det(x).backward()
    np.testing.assert_allclose(x.grad.numpy(), [[4, -2], [-2, 1]], atol=1e-12)


def test_repeated_singular_values_have_a_gradient() -> None:
    x = pf.eye(3).requires_grad_()
    pf.linalg.matrix_norm(x, "nuc").backward()
    np.testing.assert_allclose(x.grad.numpy(), np.eye(3), atol=1e-6)


def test_eigenvalues_of_a_gpu(gpu: Any) -> None:
    values = pf.linalg.eigvals(pf.eye(2, device="gpu"))
    assert (values.device.type, values.tolist()) == ("gpu", [1, 1])


EQUATIONS = """ij,jk ij,kj->ik i,i-> ii->i ii ij->ji ...ij,...jk bij,bjk->bik i,j->ij ij,jk,kl->il
abc,cd,bd->a b...,b...->... ij,ij->j abcd,cdef->abef aab,b->a i,->i ij,j,i i,i,i-> ab,c->cba
...a,b...->ba... a...b->b...a""".split()


@pytest.mark.parametrize("equation", EQUATIONS)
def test_einsum(equation: str, torch: Any) -> None:
    sizes = dict(zip("abcdefijklq", [2, 3, 4, 5, 2, 3, 3, 4, 2, 5, 2], strict=True))
    terms = equation.partition("->")[0].replace("...", "qa").split(",")
    if "qa" in "".join(terms) and "a" in equation:
        terms = [t.replace("qa", "ql") for t in terms]
    arrays = [np.random.standard_normal([sizes[c] for c in t]) for t in terms]
    want = torch.einsum(equation, *map(torch.from_numpy, arrays))
    got = pf.einsum(equation, *map(pf.from_numpy, arrays))
    assert tuple(want.shape) == tuple(got.shape)
    np.testing.assert_allclose(got.numpy(), want.numpy(), rtol=1e-10, atol=1e-10)


@pytest.mark.parametrize("dtype", ["bool", "uint8", "int32", "int64", "float32"])
@pytest.mark.parametrize("equation", ["ij->j", "ij->ji", "ii->", "ij,ij->i"])
def test_einsum_of_each_dtype(equation: str, dtype: str, device: str, torch: Any) -> None:
    """A sum of one operand widens ints, as `sum` does; a product does not."""
    arrays = [(np.arange(9).reshape(3, 3) * 7 % 5).astype(dtype)] * (1 + ("," in equation))
    if dtype == "bool" and "," in equation:
        pytest.skip("PyTorch multiplies no bools there")
    want = torch.einsum(equation, *map(torch.from_numpy, arrays))
    got = pf.einsum(equation, *(pf.from_numpy(a).to(device) for a in arrays))
    assert got.dtype.name == str(want.dtype).removeprefix("torch.")
    np.testing.assert_array_equal(got.cpu().numpy(), want.numpy())


def test_batched_einsum_is_a_product() -> None:
    x, y = pf.ones(8, 64, 32), pf.ones(8, 64, 32)
    x.requires_grad_()
    names, todo = set(), [pf.einsum("bqd,bkd->bqk", x, y).grad_fn]
    while todo:
        node = todo.pop()
        names.add(type(node).__name__ if not hasattr(node, "op") else node.op.name)
        todo += [e for e in getattr(node, "edges", []) if hasattr(e, "edges")]
    assert "matmul" in names
    assert "mul" not in names


COMPLEX: dict[str, Any] = {
    "cholesky": lambda t, x, b: [t.linalg.cholesky(x @ x.mH + t.eye(4))],
    "lu": lambda t, x, b: [t.linalg.lu(x[:, :3])[1], t.linalg.lu(x[:, :, :3])[2]],
    "solve": lambda t, x, b: [t.linalg.solve(x, b)],
    "solve_triangular": lambda t, x, b: [
        t.linalg.solve_triangular(x, b.mT, upper=True, left=False)
    ],
    "lu_solve": lambda t, x, b: [t.linalg.lu_solve(*t.linalg.lu_factor(x), b, adjoint=True)],
    "det": lambda t, x, b: [t.linalg.det(x), *t.linalg.slogdet(x)],
    "qr": lambda t, x, b: [*t.linalg.qr(x[:, :, :3]), *t.linalg.qr(x[:, :3])],
    "svd": lambda t, x, b: [t.linalg.svd(x, full_matrices=False)[0].abs(), t.linalg.svdvals(x)],
    "eigh": lambda t, x, b: [t.linalg.eigh(x @ x.mH)[0], t.linalg.eigh(x @ x.mH)[1].abs()],
    "eig": lambda t, x, b: [t.linalg.eig(x)[0], t.linalg.eig(x)[1].abs()],
    "pinv": lambda t, x, b: [t.linalg.pinv(x[:, :3]), t.linalg.pinv(x @ x.mH, hermitian=True)],
    "matrix_exp": lambda t, x, b: [t.linalg.matrix_exp(x)],
    "ormqr": lambda t, x, b: [
        t.linalg.householder_product(x[:, :, :3], b[:, :3, 0]),
        t.ormqr(x[:, :, :3], b[:, :3, 0], b, transpose=True),
    ],
    "norms": lambda t, x, b: [t.linalg.matrix_norm(x, "nuc"), t.linalg.vector_norm(x, 3)],
    "einsum": lambda t, x, b: [t.einsum("bij,bjk->ik", x, b), t.linalg.vecdot(x, x.mT.clone())],
}


@pytest.mark.parametrize("name", COMPLEX)
def test_complex_gradients(name: str, torch: Any) -> None:
    r = np.random.default_rng(3)
    arrays = [r.standard_normal(s) + 1j * r.standard_normal(s) for s in ((2, 4, 4), (2, 4, 2))]
    found = []
    for module in (torch, pf):
        inputs = [module.from_numpy(a.copy()).requires_grad_() for a in arrays]
        outs = COMPLEX[name](module, *inputs)
        loss, r = 0, np.random.default_rng(4)
        for y in outs:
            w = r.standard_normal(y.shape) + 1j * r.standard_normal(y.shape)
            w = module.from_numpy(np.asarray(w if y.is_complex() else w.real))
            term = (y * w).sum()
            loss = loss + (module.real(term) if term.is_complex() else term)
        loss.backward()
        found.append([None if x.grad is None else x.grad.resolve_conj().numpy() for x in inputs])
    for want, got in zip(*found, strict=True):
        assert (want is None) == (got is None)
        if want is not None:
            np.testing.assert_allclose(got, want, rtol=1e-7, atol=1e-8)


@pytest.mark.parametrize("shape", [(0, 0), (0, 3), (3, 0), (2, 0, 0), (0, 2, 2)])
def test_empty(shape: Any, torch: Any) -> None:
    names = "svd qr lu pinv matrix_rank".split()
    if shape[-1] == shape[-2]:
        names += "cholesky inv det eigh eig lu_factor slogdet matrix_exp ldl_factor".split()
    x = np.ones(shape, np.float32)
    for name in names:
        want = getattr(torch.linalg, name)(torch.from_numpy(x.copy()))
        got = getattr(pf.linalg, name)(pf.from_numpy(x.copy()))
        pairs = zip(want, got, strict=True) if isinstance(got, tuple) else [(want, got)]
        for a, b in pairs:
            assert tuple(a.shape) == tuple(b.shape), name
            assert str(a.dtype).removeprefix("torch.") == b.dtype.name
