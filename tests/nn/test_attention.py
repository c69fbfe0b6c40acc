"""Attention by kernels, against the composition that the CPU computes: each variant on odd shapes,
hard numbers, small devices; what it costs, without a device."""

from __future__ import annotations

import dataclasses
import itertools
import math
from collections.abc import Iterator
from typing import Any, cast

import numpy as np
import pytest

import pyframe as pf
from pyframe.core.limits import Limits
from pyframe.core.op import KernelSpec
from pyframe.nn import functional as F
from pyframe.ops.linalg import attention as fused
from pyframe.ops.random.draws import default_generator
from tests.backend.cases import limited
from tests.graph.plans import bodies, plan, value

Given = list[Any]

REAL_KERNELS = True


def given(b: int, h: int, g: int, t: int, s: int, d: int, e: int) -> Given:
    """Queries, keys, values, and the gradient of the result."""
    rng = np.random.default_rng(b + h + t + s + d)
    shapes = (b, h, t, d), (b, g, s, d), (b, g, s, e), (b, h, t, e)
    return [rng.standard_normal(x).astype(np.float32) for x in shapes]


def results(arrays: Given, device: str, mask: Any = None, dtype: Any = None, **kw: Any) -> Given:
    """The result and the gradients of queries, keys and values."""
    *qkv, g = [pf.tensor(a, device=device, dtype=dtype or pf.float32) for a in arrays]
    for x in qkv:
        x.requires_grad_()
    mask = None if mask is None else pf.tensor(mask, device=device)
    q, k, _ = qkv
    y = F.scaled_dot_product_attention(*qkv, mask, enable_gqa=q.shape[1] != k.shape[1], **kw)
    grads = pf.autograd.grad(y, qkv, g)
    return [x.detach().cpu().float().numpy() for x in (y, *grads)]


def compare(arrays: Given, device: str, rtol: float = 1e-4, atol: float = 1e-5, **kw: Any) -> None:
    mine = results(arrays, device, **kw)
    kw.pop("dtype", None)
    for got, want in zip(mine, results(arrays, "cpu", **kw), strict=True):
        np.testing.assert_allclose(got, want, rtol, atol)


SHAPES = {
    "one number": (1, 1, 1, 1, 1, 1, 1), "one tile": (1, 2, 2, 4, 8, 16, 16),
    "odd": (2, 1, 1, 5, 9, 7, 5), "several tiles": (1, 2, 2, 131, 70, 32, 32),
    "grouped heads": (2, 6, 2, 33, 40, 40, 24), "one head for all": (1, 3, 1, 18, 21, 12, 12),
    "wide": (1, 1, 1, 20, 30, 300, 16), "wider values": (1, 1, 1, 9, 10, 20, 140),
    "few queries": (2, 2, 2, 3, 70, 17, 33), "a query": (1, 4, 2, 1, 1037, 64, 64),
    "more queries than keys": (1, 1, 1, 70, 5, 64, 64),
}  # fmt: skip


@pytest.mark.sampled(2)  # of the shapes, whose number is odd, each in one way
@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("causal", [True, False])
def test_shapes(gpu: str, causal: bool, shape: str) -> None:
    compare(given(*SHAPES[shape]), gpu, is_causal=causal)


def allowed(t: int, s: int) -> Any:
    """A bool mask of which row 0 allows nothing."""
    mask = np.random.default_rng(0).random((t, s)) > 0.3
    mask[0] = False
    return mask


MASKS = {
    "bool": lambda b, h, t, s: allowed(t, s),
    "float": lambda b, h, t, s: np.random.default_rng(1).standard_normal((b, h, t, s), np.float32),
    "infinite": lambda b, h, t, s: np.where(allowed(t, s), 0, -np.inf).astype(np.float32),
    "of keys": lambda b, h, t, s: np.arange(s) < np.arange(1, b + 1)[:, None, None, None] * s // b,
}


@pytest.mark.sampled(2)
@pytest.mark.parametrize(("mask", "shape"), [
    ("bool", "grouped heads"), ("bool", "few queries"), ("float", "a query"),
    ("float", "grouped heads"), ("infinite", "grouped heads"), ("infinite", "few queries"),
    ("of keys", "a query"), ("of keys", "grouped heads"),
])  # fmt: skip
def test_masks(gpu: str, mask: str, shape: str) -> None:
    b, h, _, t, s, *_ = sizes = SHAPES[shape]
    compare(given(*sizes), gpu, mask=MASKS[mask](b, h, t, s))


@pytest.mark.parametrize("scale", [1e4, -1e4, 0.0])
def test_hard_numbers(gpu: str, scale: float) -> None:
    compare(given(*SHAPES["odd"]), gpu, scale=scale, atol=1e-2 * max(abs(scale) / 1e4, 1e-3))


def test_a_row_of_nan_stays_a_row(gpu: str) -> None:
    q, k, v, g = given(1, 1, 1, 6, 5, 4, 4)
    q[0, 0, 2] = np.nan
    y, *_ = results([q, k, v, g], gpu)
    assert np.isnan(y[0, 0, 2]).all()
    assert np.isfinite(np.delete(y, 2, 2)).all()


@pytest.mark.parametrize("dtype", [pf.float16, pf.bfloat16])
def test_half_the_width_is_summed_in_float32(gpu: str, dtype: pf.dtype) -> None:
    if dtype is pf.float16 and not pf.device(gpu).backend.limits.float16:
        pytest.skip("this GPU has no float16")
    arrays = [pf.tensor(a).to(dtype).float().numpy() for a in given(*SHAPES["several tiles"])]
    step = 2.0**-10 if dtype is pf.float16 else 2.0**-7
    compare(arrays, gpu, step, step, dtype=dtype, is_causal=True)


@pytest.mark.parametrize("zero", range(7))
def test_zero_sizes(device: str, zero: int) -> None:
    sizes = [2, 2, 2, 3, 4, 5, 6]
    sizes[zero] = 0
    if zero in (1, 2):
        sizes[1] = sizes[2] = 0
    compare(given(*sizes), device)


def test_dims_and_broadcasting(gpu: str) -> None:
    rng = np.random.default_rng(0)
    for q, k, v, m in (
        ((3, 4), (5, 4), (5, 2), (3, 5)), ((2, 3, 4), (5, 4), (2, 5, 2), (5,)),
        ((2, 1, 2, 3, 4), (2, 2, 1, 5, 4), (2, 2, 2, 5, 4), (1, 2, 3, 5)),
    ):  # fmt: skip
        arrays = [rng.standard_normal(x).astype(np.float32) for x in (q, k, v)]
        mask = rng.random(m) > 0.3
        got, want = [
            F.scaled_dot_product_attention(
                *[pf.tensor(a, device=d) for a in arrays], pf.tensor(mask, device=d)
            ).cpu().numpy()
            for d in (gpu, "cpu")
        ]  # fmt: skip
        np.testing.assert_allclose(got, want, 1e-4, 1e-5)


def test_dropout(gpu: str) -> None:
    """As many weights go as asked, others grow; a gradient meets the same ones, in a replay too."""
    q = pf.zeros(2, 2, 40, 8, device=gpu, requires_grad=True)
    v = pf.eye(64, device=gpu).expand(2, 2, 64, 64).clone().requires_grad_()
    k = pf.zeros(2, 2, 64, 8, device=gpu)

    def step() -> tuple[pf.Tensor, pf.Tensor]:
        y = F.scaled_dot_product_attention(q, k, v, dropout_p=0.25)
        return y.detach(), *pf.autograd.grad(y.sum(), [v])

    seen = []
    for run in (step, compiled := pf.compile(step), compiled, compiled):
        y, g = run()
        weights = y.cpu().numpy() * 64
        assert {*np.unique(weights.round(3))} == {0.0, np.float32(1.333)}
        assert abs((weights == 0).mean() - 0.25) < 0.03
        rows = weights.sum(2) / 64  # each key's weights, which the gradient of its value is
        np.testing.assert_allclose(g.cpu().numpy(), np.repeat(rows[..., None], 64, 3), 1e-5)
        seen.append(weights)
    assert all((a != b).any() for n, a in enumerate(seen) for b in seen[:n])


def test_gradients_of_gradients(gpu: str) -> None:
    arrays = given(2, 2, 2, 5, 6, 3, 4)

    def second(device: str) -> Given:
        q, k, v, g = [pf.tensor(a, device=device).requires_grad_() for a in arrays]
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        first = pf.autograd.grad(y, (q, k, v), g, create_graph=True)
        total = sum(((x * x).sum() for x in first), y.square().sum())
        return [x.cpu().numpy() for x in pf.autograd.grad(total, (q, k, v, g))]

    for got, want in zip(second(gpu), second("cpu"), strict=True):
        np.testing.assert_allclose(got, want, 1e-3, 1e-4)


@pytest.mark.parametrize("p", [0.0, 0.5])
def test_a_replay_is_gone_back_through(gpu: str, p: float) -> None:
    """What the kernels for the gradients need of a compiled function's call is there after it."""
    *arrays, g = given(2, 2, 1, 5, 9, 8, 8)
    attend = pf.compile(
        lambda q, k, v, m: F.scaled_dot_product_attention(q, k, v, m, p, enable_gqa=True)
    )
    m = pf.tensor(allowed(5, 9), device=gpu)
    for scale in (1.0, 2.0, 3.0):
        q, k, v = [pf.tensor(a * scale, device=gpu).requires_grad_() for a in arrays]
        y = attend(q, k, v, m)
        pf.flush()
        grads = pf.autograd.grad(y, (q, k, v), pf.tensor(g, device=gpu))
        if not p:
            wants = results([a * np.float32(scale) for a in arrays] + [g], "cpu", allowed(5, 9))
            for got, want in zip((y, *grads), wants, strict=True):
                np.testing.assert_allclose(got.detach().cpu().numpy(), want, 1e-4, 1e-5)
        assert all(x.isfinite().all() for x in grads)


NAMES = [f"{threads} threads, {keys} keys" for threads in (64, 128, 32) for keys in (8, 4)]
FORCED: dict[str, dict[str, Any]] = {  # a shape, and what else the call is given
    "odd": {"scale": 1e4, "atol": 1e-2}, "several tiles": {"is_causal": True},
    "grouped heads": {"mask": "infinite"},
    "wider values": {}, "a query": {}, "few queries": {"mask": "bool"},
}  # fmt: skip


@pytest.fixture(params=NAMES)
def forced(request: Any, gpu: str) -> Iterator[str]:
    """A variant that the kernels of a GPU with no more than WebGPU promises have alone."""
    ops, float16 = ("attention", "attention_grad"), pf.device(gpu).backend.limits.float16
    others = {(op, name) for op in ops for name in NAMES if name != request.param}
    with limited(Limits(float16=float16, refused=frozenset(others))):
        yield request.param


def test_variants(forced: str, gpu: str) -> None:
    """Each one's results and gradients are those of the composition on the CPU; a third of the
    table for each, so that each row is tried with two."""
    for i, (shape, given_) in enumerate(FORCED.items()):
        if (i + NAMES.index(forced)) % 3:
            continue
        b, h, _, t, s, *_ = sizes = SHAPES[shape]
        options = dict(given_)
        if "mask" in options:
            options["mask"] = MASKS[options["mask"]](b, h, t, s)
        compare(given(*sizes), gpu, **options)
    if NAMES.index(forced) % 2:
        test_half_the_width_is_summed_in_float32(gpu, pf.float16)


def test_the_names_are_all_variants() -> None:
    q = (1, 2, 65, 16)
    attrs = {"causal": True, "masked": False, "drops": False}
    call = KernelSpec((), (q, q, q), pf.float32, (), (q, q[:3]), attrs, Limits())
    for op in (fused.attention_op, fused.grad_op):
        found: Any = op.kernel
        assert [*found.variants(call)] == NAMES
        plans = [found.plan(call._replace(variant=v)) for v in found.variants(call).values()]
        assert plans[0] == found.plan(call)
        assert len({str(p) for p in plans}) >= 4


def test_more_workgroups_than_a_dim_has(gpu: str) -> None:
    arrays = given(70_001, 1, 1, 1, 2, 1, 1)[:3]
    got, want = [
        F.scaled_dot_product_attention(*[pf.tensor(a, device=d) for a in arrays]).cpu().numpy()
        for d in (gpu, "cpu")
    ]
    np.testing.assert_allclose(got, want, 1e-4, 1e-5)


# --- without a device


@pytest.mark.parametrize("t", [1, 5, 200])
@pytest.mark.parametrize("width", [1, 16, 33, 64, 128, 256, 1000, 1024])
def test_small_devices_take_it(t: int, width: int) -> None:
    """Workgroup memory and threads, as both texts declare them."""
    least = Limits()
    q, k = (1, 2, t, width), (1, 2, 300, width)
    attrs = {"causal": True, "masked": False, "drops": False}
    call = KernelSpec((), (q, k, k), pf.float32, (), (q, q[:3]), attrs, least)
    cases = ((fused.attention_op, (q, k, k)), (fused.grad_op, (q, k, k, q)))
    for (op, operands), i in itertools.product(cases, range(len(NAMES))):
        given_, how = call._replace(operands=operands), cast("Any", op.kernel)
        plan_ = how.plan(given_._replace(variant=[*how.variants(given_).values()][i]))
        c: Any = plan_[0]
        groups = c.get("FOURS", c.get("PAIRS"))
        threads, parts = c["L"] * groups, c.get("PARTS", 1)
        held = max(c["EACH"] * threads, 18 * threads // parts if parts > 1 else 0)
        assert 16 * (8 * c["EACH"] * parts * c["L"] + held) <= least.workgroup_bytes
        assert threads <= least.workgroup_size
        assert c["L"] * fused.WIDTH >= width
        rows = 4 * groups // parts if op is fused.attention_op else 2 * groups
        others = 300 if op is fused.grad_op else 0
        assert math.prod(plan_[1]) >= 2 * -(-t // rows) + 2 * -(-others // rows)


def test_memory_grows_with_the_length(lazy: Any) -> None:
    """A training step is a kernel for the result and one for the gradients, with one for what that
    knows of each query; none of them has the scores, nor has it with a mask and dropout."""
    peaks = []
    for t in (512, 1024):
        q, k, v = [value(lazy, 1, 4, t, 64).requires_grad_() for _ in range(3)]
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        y.square().sum().backward()
        program = plan(y, q.grad, k.grad, v.grad)[0]
        found = bodies(program)
        assert sorted(x for x in found if "attention" in x) == [
            "attention", "attention_grad"
        ]  # fmt: skip
        assert len(found) <= 6
        peaks.append(program.peak_bytes)
    assert peaks[1] < 2.1 * peaks[0]
    assert peaks[1] < 12 * 4 * 4 * 1024 * 64 + (1 << 20)  # 12 times as much as the queries


def test_dropout_and_masks_fit_eight_buffers(lazy: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    state = value(lazy, 3, dtype=pf.uint32)
    monkeypatch.setitem(default_generator._states, lazy, state)
    q, k, v = [value(lazy, 1, 2, 256, 8).requires_grad_() for _ in range(3)]
    mask = value(lazy, 1, 1, 256, 256)
    y = F.scaled_dot_product_attention(q, k, v, mask, 0.1)
    y.square().sum().backward()
    program = plan(y, q.grad, k.grad, v.grad)[0]
    assert max(k.bindings for k in program.kernels) <= 8
    assert all(
        math.prod(s.shape) * 4 < 2 * 256 * 256 for kernel in program.kernels for s in kernel.stores
    )


def test_forms_for_other_devices(lazy: Any) -> None:
    """Where a CPU plays the GPU, or is to run the same Program, products and a softmax do it."""
    q = value(lazy, 1, 2, 16, 8)
    for limits in (Limits(kind="software"), Limits(portable=True)):
        lazy.backend.limits = dataclasses.replace(limits)
        assert "attention" not in bodies(plan(F.scaled_dot_product_attention(q, q, q))[0])
