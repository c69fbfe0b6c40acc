"""What a declaration with a hand-written kernel promises: a slow definition, gradients on every
path, several results, and a plan that sees attributes, dtypes and limits."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from samples import KERNELS, make

import pyframe as pf
import pyframe.nn.quantized
import pyframe.ops.linalg.attention  # both declare ops when they are first needed
from pyframe.core.dispatch import apply, results_of
from pyframe.core.op import REGISTRY, ROUTINE, KernelCall, KernelFile, Op, in_a_line
from pyframe.runtime.offline import offline_device

REAL_KERNELS = True

Declare = Callable[..., Op]


@pytest.fixture
def declare() -> Iterator[Declare]:
    """`Op`, for ops that are gone after the test."""
    yield Op
    for name in [n for n in REGISTRY if n.startswith("scratch")]:
        del REGISTRY[name]


# --- gradients


SCALE = """
const N = 1;
@compute @workgroup_size(64)
fn main(@builtin(global_invocation_id) id: vec3<u32>) {
  let i = i32(id.x);
  if (i < N) { store(i, load_x(i) * load_w(i)); }
}
"""


def _product_plan(call: KernelCall) -> Any:
    return {"N": call.shape[0]}, in_a_line(-(-call.shape[0] // 64))


WAYS: dict[str, dict[str, Any]] = {
    "fallback": {"fallback": lambda x, w: x * w},
    "numpy and fallback": {"fallback": lambda x, w: x * w, "numpy": np.multiply},
}


@pytest.mark.parametrize("kernel", [False, True])
@pytest.mark.parametrize("declared", ["", "x", "x w"])
@pytest.mark.parametrize("way", WAYS)
def test_no_gradient_is_lost(
    declare: Declare, device: str, tmp_path: Path, way: str, declared: str, kernel: bool
) -> None:
    """An input whose gradient is not declared has that of the fallback: eagerly, recorded, in a
    captured function and in its replays."""
    file = tmp_path / "product.wgsl"
    file.write_text(SCALE)
    rules: Any = {"x": lambda g, w: g * w, "w": lambda g, x: g * x}
    op = declare(
        "scratch_product", ROUTINE, "x w", infer=lambda x, w: (x.shape, x.dtype),
        kernel=KernelFile(str(file), _product_plan) if kernel else None,
        **WAYS[way], **{i: rules[i] for i in declared.split()},
    )  # fmt: skip

    def step(x: pf.Tensor, w: pf.Tensor) -> pf.Tensor:
        return (apply(op, (x, w)) * 2.0).sum()

    for run in (step, pf.compile(step)):
        for k in range(3):  # eager; or captured, and replayed
            x = pf.tensor([1.0, 2.0, 3.0], device=device, requires_grad=True)
            w = pf.tensor([4.0, 5.0, 6.0 + k], device=device, requires_grad=True)
            loss = run(x, w)
            assert loss.item() == 2 * (4 + 10 + 3 * (6 + k))
            loss.backward()
            assert x.grad.tolist() == [8.0, 10.0, 12.0 + 2 * k]
            assert w.grad.tolist() == [2.0, 4.0, 6.0]
    w = pf.tensor([4.0, 5.0, 6.0], device=device, requires_grad=True)
    found = pf.func.vmap(lambda x: apply(op, (x, w)))(pf.ones(2, 3, device=device))
    (grad,) = pf.autograd.grad(found.sum(), w)
    assert grad.tolist() == [2.0, 2.0, 2.0]


def test_no_gradient_by_declaration(declare: Declare, device: str) -> None:
    """`x=None` says that there is none; the fallback is not asked then."""
    op = declare(
        "scratch_constant", ROUTINE, "x w", infer=lambda x, w: (x.shape, x.dtype),
        fallback=lambda x, w: x * w, x=None, w=lambda g, x: g * x,
    )  # fmt: skip
    x = pf.tensor([1.0, 2.0], device=device, requires_grad=True)
    w = pf.tensor([3.0, 4.0], device=device, requires_grad=True)
    apply(op, (x, w)).sum().backward()
    assert x.grad is None
    assert w.grad.tolist() == [1.0, 2.0]


def test_a_kernel_has_a_slow_definition(declare: Declare) -> None:
    kernel = KernelFile("scan.wgsl", _product_plan)
    with pytest.raises(TypeError, match="op scratch: a kernel carries its fallback"):
        declare("scratch", ROUTINE, "x", infer=lambda x: (x.shape, x.dtype), kernel=kernel)
    assert "scratch" not in REGISTRY
    with pytest.raises(TypeError, match=r"gradients for unknown inputs \['z'\]"):
        declare("scratch", ROUTINE, "x", infer=lambda x: (x.shape, x.dtype), z=lambda g: g)


def test_without_numpy_the_oracle_takes_the_slow_definition(declare: Declare) -> None:
    """What has a kernel and a fallback alone is computed offline too, as exports ask for."""
    op = declare(
        "scratch_product", ROUTINE, "x w", infer=lambda x, w: (x.shape, x.dtype),
        kernel=KernelFile("scan.wgsl", _product_plan), fallback=lambda x, w: x * w,
    )  # fmt: skip
    with offline_device() as device:
        x = pf.tensor([1.0, 2.0, 3.0], device=device)
        with pf.no_grad(), pf.autocast("cpu"):
            assert apply(op, (x, x + 1.0)).tolist() == [2.0, 6.0, 12.0]


def _floats(*shape: int) -> Any:
    return np.random.default_rng(1).standard_normal(shape).astype(np.float32)


@pytest.mark.parametrize("name", KERNELS)
def test_kernels_give_what_their_fallbacks_give(name: str, device: str) -> None:
    """On the CPU NumPy, on a GPU the kernel: as the composition of other ops."""
    kernels = {op.name: op.routine or "" for op in REGISTRY.values() if op.kernel is not None}
    known = {n for n, routine in kernels.items() if not routine.startswith("beside.")}
    assert set(KERNELS) == known, "kernel= of the row in tests/samples, or KERNELS in its apart.py"
    op, (specs, attrs) = REGISTRY[name], KERNELS[name]
    arrays = [make(spec, np.random.default_rng(n)) for n, spec in enumerate(specs)]
    xs = tuple([pf.tensor(a, device=device) for a in arrays])
    got = apply(op, xs, attrs)
    want: Any = op.fallback(*[pf.tensor(a) for a in arrays], *attrs)  # type: ignore[misc]
    assert got.shape == want.shape
    assert got.dtype == want.dtype
    np.testing.assert_allclose(got.cpu(), want, 1e-5, 1e-5)


def test_more_products_than_a_grid_has_places(gpu: str) -> None:
    """A dimension of a grid takes 65535 workgroups; products of a batch lie in one line."""
    a, b = _floats(70_000, 2, 3), _floats(70_000, 3, 1)
    found = (pf.tensor(a, device=gpu) @ pf.tensor(b, device=gpu)).cpu().numpy()
    np.testing.assert_allclose(found, a @ b, rtol=1e-6, atol=1e-6)


# --- several results: attention with the logarithm of the sum of exponentials of its scores

ATTENTION = """
const CAUSAL = false;
const S = 1;
const D = 1;
const ROWS = 1;
const SCALE = 1.0;

fn score(b: i32, i: i32, j: i32) -> Acc {
  var sum = Acc(0);
  for (var d = 0; d < D; d++) { sum += load_q(b, i, d) * load_k(b, j, d); }
  return sum * SCALE;
}

@compute @workgroup_size(64)
fn main(@builtin(global_invocation_id) id: vec3<u32>) {
  let row = i32(id.x);
  if (row >= ROWS) { return; }
  let b = row / S;
  let i = row % S;
  let last = select(S, i + 1, CAUSAL);
  var most = score(b, i, 0);
  for (var j = 1; j < last; j++) { most = max(most, score(b, i, j)); }
  var total = Acc(0);
  for (var j = 0; j < last; j++) { total += exp(score(b, i, j) - most); }
  for (var d = 0; d < D; d++) {
    var sum = Acc(0);
    for (var j = 0; j < last; j++) { sum += exp(score(b, i, j) - most) * load_v(b, j, d); }
    store(row * D + d, sum / total);
  }
  store(ROWS * D + row, most + log(total));
}
"""

calls: list[KernelCall] = []


def _attention_plan(call: KernelCall) -> Any:
    calls.append(call)
    (b, s, d), _ = call.results
    consts = {
        "CAUSAL": call.attrs["is_causal"], "S": s, "D": d, "ROWS": b * s,
        "SCALE": 1 / math.sqrt(d),
    }  # fmt: skip
    return consts, in_a_line(-(-b * s // 64))


def _scores(q: Any, k: Any, is_causal: bool) -> Any:
    scores = q @ k.transpose(1, 2) / math.sqrt(q.shape[-1])
    if not is_causal:
        return scores
    n = q.shape[1]
    return scores.masked_fill(pf.ones(n, n, device=q.device).triu(1).bool(), -math.inf)


def _by_ops(q: Any, k: Any, v: Any, is_causal: bool) -> Any:
    lse = _scores(q, k, is_causal).logsumexp(-1)
    return (_scores(q, k, is_causal) - lse.unsqueeze(-1)).exp() @ v, lse


def _score_grad(g: Any, y: Any, q: Any, k: Any, v: Any, is_causal: bool) -> Any:
    p = (_scores(q, k, is_causal) - y[1].unsqueeze(-1)).exp()
    along = g[1] - (g[0] * y[0]).sum(-1)
    return p * (g[0] @ v.transpose(1, 2) + along.unsqueeze(-1)) / math.sqrt(q.shape[-1])


GRADIENTS: dict[str, Any] = {
    "q": lambda g, y, q, k, v, is_causal: _score_grad(g, y, q, k, v, is_causal) @ k,
    "k": lambda g, y, q, k, v, is_causal:
        _score_grad(g, y, q, k, v, is_causal).transpose(1, 2) @ q,
    "v": lambda g, y, q, k, is_causal:
        (_scores(q, k, is_causal) - y[1].unsqueeze(-1)).exp().transpose(1, 2) @ g[0],
}  # fmt: skip


@pytest.mark.sampled(3)
@pytest.mark.parametrize("rules", [{}, GRADIENTS], ids=["of the fallback", "declared"])
@pytest.mark.parametrize("is_causal", [False, True])
def test_attention_with_two_results(
    declare: Declare, device: str, tmp_path: Path, is_causal: bool, rules: dict[str, Any]
) -> None:
    file = tmp_path / "attention.wgsl"
    file.write_text(ATTENTION)
    op = declare(
        "scratch_attention", ROUTINE, "q k v", "is_causal",
        results=lambda q, k, v, is_causal: (q, q[:-1]), fallback=_by_ops,
        kernel=KernelFile(str(file), _attention_plan), **rules,
    )  # fmt: skip
    rng = np.random.default_rng(0)
    arrays = [rng.standard_normal((2, 5, 4)).astype(np.float32) for _ in "qkv"]
    weights = rng.standard_normal((2, 5, 4)).astype(np.float32)

    def given() -> list[pf.Tensor]:
        return [pf.tensor(a, device=device, requires_grad=True) for a in arrays]

    def loss(out: Any, lse: Any) -> Any:
        return (out * pf.tensor(weights, device=device)).sum() + (lse * lse).sum()

    wanted = given()
    want = _by_ops(*wanted, is_causal)
    loss(*want).backward()

    def step(*xs: pf.Tensor) -> Any:
        out, lse = results_of(op, xs, (is_causal,))
        return out, lse, loss(out, lse)

    for run in (step, pf.compile(step)):
        for _ in range(2):
            xs = given()
            out, lse, last = run(*xs)
            last.backward()
            np.testing.assert_allclose(out.detach().cpu(), want[0].detach().cpu(), 1e-4, 1e-5)
            np.testing.assert_allclose(lse.detach().cpu(), want[1].detach().cpu(), 1e-4, 1e-5)
            for x, w in zip(xs, wanted, strict=True):
                np.testing.assert_allclose(x.grad.cpu(), w.grad.cpu(), 1e-3, 1e-4)

    calls.clear()
    with pf.no_grad():  # the kernel itself, where there is one
        out, lse = results_of(op, tuple(given()), (is_causal,))
        np.testing.assert_allclose(out.cpu(), want[0].detach().cpu(), 1e-4, 1e-5)
        np.testing.assert_allclose(lse.cpu(), want[1].detach().cpu(), 1e-4, 1e-5)
    if device == "gpu":
        used = calls[-1] if calls else None
        if used is not None:  # else the text was made for the gradient already
            assert used.attrs == {"is_causal": is_causal}
            assert used.shape == (50,)
            assert used.results == ((2, 5, 4), (2, 5))
            assert used.dtypes == (pf.float32,) * 3
            assert used.limits.workgroup_size >= 128

    each = pf.func.vmap(lambda q: results_of(op, (q, q, q), (is_causal,)))
    many = pf.tensor(np.stack(arrays), device=device)
    for i, x in enumerate(many):
        for got, one in zip(each(many), _by_ops(x, x, x, is_causal), strict=True):
            np.testing.assert_allclose(got[i].cpu(), one.cpu(), 1e-4, 1e-5)
