"""What a declaration with a hand-written kernel promises: a slow definition, gradients on every
path, several results, and a plan that sees attributes, dtypes and limits."""

from __future__ import annotations

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
from pyframe.core.op import EXTERN, REGISTRY, KernelSpec, Op, ShaderTemplate, grid_1d
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


def _product_plan(call: KernelSpec) -> Any:
    return {"N": call.shape[0]}, grid_1d(-(-call.shape[0] // 64))


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
        "scratch_product", EXTERN, "x w", infer=lambda x, w: (x.shape, x.dtype),
        kernel=ShaderTemplate(str(file), _product_plan) if kernel else None,
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
        "scratch_constant", EXTERN, "x w", infer=lambda x, w: (x.shape, x.dtype),
        fallback=lambda x, w: x * w, x=None, w=lambda g, x: g * x,
    )  # fmt: skip
    x = pf.tensor([1.0, 2.0], device=device, requires_grad=True)
    w = pf.tensor([3.0, 4.0], device=device, requires_grad=True)
    apply(op, (x, w)).sum().backward()
    assert x.grad is None
    assert w.grad.tolist() == [1.0, 2.0]


def test_a_kernel_has_a_slow_definition(declare: Declare) -> None:
    kernel = ShaderTemplate("scan.wgsl", _product_plan)
    with pytest.raises(TypeError, match="op scratch: a kernel carries its fallback"):
        declare("scratch", EXTERN, "x", infer=lambda x: (x.shape, x.dtype), kernel=kernel)
    assert "scratch" not in REGISTRY
    with pytest.raises(TypeError, match=r"gradients for unknown inputs \['z'\]"):
        declare("scratch", EXTERN, "x", infer=lambda x: (x.shape, x.dtype), z=lambda g: g)


def test_without_numpy_the_oracle_takes_the_slow_definition(declare: Declare) -> None:
    """What has a kernel and a fallback alone is computed offline too, as exports ask for."""
    op = declare(
        "scratch_product", EXTERN, "x w", infer=lambda x, w: (x.shape, x.dtype),
        kernel=ShaderTemplate("scan.wgsl", _product_plan), fallback=lambda x, w: x * w,
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


# --- several results: a softmax of scaled scores with the logarithms of the sums of exponentials

SOFTMAX = """
const LOG = false;
const N = 1;
const ROWS = 1;

fn score(i: i32, j: i32) -> Acc { return load_x(i, j) * load_w(i, j); }

@compute @workgroup_size(64)
fn main(@builtin(global_invocation_id) id: vec3<u32>) {
  let i = i32(id.x);
  if (i >= ROWS) { return; }
  var most = score(i, 0);
  for (var j = 1; j < N; j++) { most = max(most, score(i, j)); }
  var total = Acc(0);
  for (var j = 0; j < N; j++) { total += exp(score(i, j) - most); }
  for (var j = 0; j < N; j++) {
    let y = score(i, j) - most - log(total);
    store(i * N + j, select(exp(y), y, LOG));
  }
  store(ROWS * N + i, most + log(total));
}
"""

calls: list[KernelSpec] = []


def _softmax_plan(call: KernelSpec) -> Any:
    calls.append(call)
    (rows, n), _ = call.results
    return {"LOG": call.attrs["log"], "N": n, "ROWS": rows}, grid_1d(-(-rows // 64))


def _by_ops(x: Any, w: Any, log: bool) -> Any:
    lse = (x * w).logsumexp(-1)
    y = x * w - lse.unsqueeze(-1)
    return y if log else y.exp(), lse


def _score_grad(g: Any, y: Any, log: bool) -> Any:
    p = y[0].exp() if log else y[0]
    back = g[0] if log else g[0] * p
    return back + p * (g[1] - back.sum(-1)).unsqueeze(-1)


GRADIENTS: dict[str, Any] = {
    "x": lambda g, y, w, log: _score_grad(g, y, log) * w,
    "w": lambda g, y, x, log: _score_grad(g, y, log) * x,
}


@pytest.mark.sampled(3)
@pytest.mark.parametrize("rules", [{}, GRADIENTS], ids=["of the fallback", "declared"])
@pytest.mark.parametrize("log", [False, True])
def test_an_op_with_two_results(
    declare: Declare, device: str, tmp_path: Path, log: bool, rules: dict[str, Any]
) -> None:
    file = tmp_path / "softmax.wgsl"
    file.write_text(SOFTMAX)
    op = declare(
        "scratch_softmax", EXTERN, "x w", "log", results=lambda x, w, log: (x, x[:-1]),
        fallback=_by_ops, kernel=ShaderTemplate(str(file), _softmax_plan), **rules,
    )  # fmt: skip
    arrays, seed = (_floats(2, 5, 4), _floats(5, 4))

    def given() -> list[pf.Tensor]:
        return [pf.tensor(a, device=device, requires_grad=True) for a in arrays]

    def step(xs: Any, found: Any) -> Any:
        y, lse = found
        loss = (y * pf.tensor(seed, device=device)).sum() + (lse * lse).sum()
        return [y, lse, *pf.autograd.grad(loss, xs)]

    def close(found: Any, wanted: Any) -> None:
        for x, w in zip(found, wanted, strict=True):
            np.testing.assert_allclose(x.detach().cpu(), w.detach().cpu(), 1e-4, 1e-5)

    def run(*xs: pf.Tensor) -> Any:
        return step(xs, results_of(op, xs, (log,)))

    wanted = step(xs := given(), _by_ops(*xs, log))
    for call in (run, compiled := pf.compile(run), compiled):
        close(call(*given()), wanted)
    calls.clear()
    with pf.no_grad():  # the kernel itself, where there is one
        close(results_of(op, tuple(given()), (log,)), wanted[:2])
    if calls:  # else the text was made for the gradient already
        used = calls[-1]
        assert (used.attrs, used.shape, used.dtypes) == ({"log": log}, (25,), (pf.float32,) * 2)
        assert used.results == ((5, 4), (5,))
        assert used.limits.workgroup_size >= 128
    many = pf.tensor(np.stack([arrays, arrays]).reshape(4, 5, 4), device=device)
    each = pf.func.vmap(lambda x: results_of(op, (x, x), (log,)))(many)
    for i, x in enumerate(many):
        close([y[i] for y in each], _by_ops(x, x, log))
