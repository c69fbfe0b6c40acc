"""Mixed precision: autocast's dtypes and GradScaler's steps, against PyTorch's."""

from __future__ import annotations

import asyncio
import dataclasses
import math
import sys
import threading
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest
from refused import check_refused, rows

import pyframe as pf
import pyframe.nn.functional as F
from pyframe import nn, optim
from pyframe.utils.checkpoint import checkpoint
from tests.optim.test_optim import RICH


@pytest.fixture(autouse=True)
def nothing_left() -> Iterator[None]:
    yield
    assert not pf.is_autocast_enabled("cpu")
    assert not pf.is_autocast_enabled("gpu")


# --- which function computes in which dtype

SHAPES = {"V": (6,), "M": (6, 6), "B": (3, 6, 6), "X1": (2, 4, 10), "X2": (2, 4, 8, 8),
          "X3": (2, 4, 6, 6, 6)}  # fmt: skip


def table(text: str) -> list[tuple[str, list[tuple[int, ...]]]]:
    """The calls of each row, parted by "; ", and the shapes of their operands a, b and c, which
    stand before them. A name alone is called with all operands."""
    found = []
    for row in text.strip().replace("\n    ", " ").split("\n"):
        names, _, calls = row.partition(" | ")
        shapes = [SHAPES.get(n) or tuple(map(int, n.split(","))) for n in names.split()]
        given = ", ".join("abc"[: len(shapes)])
        for call in calls.split("; "):
            found.append((f"{call}({given})" if call.replace(".", "").isidentifier() else call,
                          shapes))  # fmt: skip
    return found


# Calls that hold for `t` (torch or pyframe) and its `F`. The labels are `y`.
ON_CPU = table("""
V | t.fft.fft; t.quantile(a, 0.5)
M | t.exp; t.log; t.tan; t.acos; t.sinh; t.expm1; t.rsqrt; t.reciprocal; t.sqrt; t.sum; t.mean;
    t.prod; t.norm; t.var; t.median; t.trace; t.erfinv; t.cov; t.softmax(a, 1);
    t.log_softmax(a, 1); t.cumsum(a, 1); t.cumprod(a, 1); t.logsumexp(a, 1); t.linalg.inv;
    t.linalg.svdvals; t.linalg.cond; t.linalg.vector_norm; t.linalg.matrix_norm; F.relu; F.gelu;
    F.silu; F.softplus; F.sigmoid; F.tanh; F.normalize; F.cross_entropy(a, y); F.nll_loss(a, y);
    F.multi_margin_loss(a, y); a**2.5; 1 / a; t.matrix_power(a, 2); F.group_norm(a, 2);
    t.cholesky(a @ a.T + 9 * t.eye(6)); F.embedding(y, a); net(t.nn.Linear(6, 6))(a)
M M | t.matmul; t.mm; t.chain_matmul; t.inner; t.add; t.mul; t.atan2; t.kron; t.dist; t.cdist;
    t.cosine_similarity; F.mse_loss; F.l1_loss; F.smooth_l1_loss; F.huber_loss; F.kl_div;
    F.binary_cross_entropy; F.poisson_nll_loss; a @ b; t.tensordot(a, b, 1); t.linalg.vecdot;
    t.einsum('ij,jk->ik', a, b); t.linalg.solve(a + 3 * t.eye(6), b); t.cat([a, b.float()]);
    t.stack([a, b.float()]); t.index_copy(a, 0, y[:1], b[:1].float()); t.exp(t.mm(a, b));
    t.mm(a, b, out=t.empty(6, 6, dtype=a.dtype)); t.mm(a.double(), b.double());
    F.binary_cross_entropy_with_logits; F.cosine_embedding_loss(a, b, t.ones(6));
    F.multilabel_soft_margin_loss
V V | t.dot; t.vdot; t.outer; t.polar
B B | t.bmm
M V | t.mv
M 1 | t.prelu
V V V | t.addcmul
V M V | t.addmv
M M M | t.addmm; t.linalg.multi_dot([a, b, c]); a.clone().addmm_(b, c); F.triplet_margin_loss;
    t.rnn_tanh_cell(a, b, c, c)
M B B | t.addbmm
B B B | t.baddbmm
M M V | F.linear
M M 2,6,6 | F.bilinear
M M 24,6 | t.lstm_cell(a, (b, b), c, c)
M V V | F.layer_norm(a, (6,), b, c); F.batch_norm(a, None, None, b, c, training=True)
X1 | F.interpolate(a, scale_factor=2)
X2 | F.avg_pool2d(a, 2); F.max_pool2d(a, 2); F.adaptive_max_pool2d(a, 2);
    F.local_response_norm(a, 2)
X3 | F.avg_pool3d(a, 2); F.max_pool3d(a, 2); F.adaptive_avg_pool3d(a, 2)
X1 5,4,3 | F.conv1d
X2 5,4,3,3 5 | F.conv2d(a, b, c, padding=1)
X3 5,4,3,3,3 | F.conv3d
X2 4,5,3,3 | F.conv_transpose2d
X2 2,3,3,2 | F.grid_sample(a, b, align_corners=False)
2,3,5,4 2,3,5,4 2,3,5,4 | F.scaled_dot_product_attention
B | net(t.nn.MultiheadAttention(6, 2))(a, a, a); net(t.nn.LSTM(6, 4))(a)[0];
    net(t.nn.TransformerEncoderLayer(6, 2, 8, dropout=0.0))(a)
B M | net(t.nn.LSTM(6, 4))(t.nn.functional.linear(a, b))[0]
""")


def with_weights(net: Any) -> Any:
    """A net of either library with the same weights."""
    rng = np.random.default_rng(3)
    for p in net.parameters():
        t = pf if isinstance(p, pf.Tensor) else sys.modules["torch"]
        p.data = t.tensor(rng.normal(0, 0.4, tuple(p.shape)).astype(np.float32))
    return net


def leaves(out: Any) -> list[Any]:
    return [y for x in out for y in leaves(x)] if isinstance(out, (tuple, list)) else [out]


@pytest.mark.filterwarnings("ignore")  # deprecations, which both libraries tell of
def test_dtypes_are_pytorchs(torch: Any) -> None:
    wrong = []
    for code, shapes in ON_CPU:
        arrays = [np.random.rand(*s).astype(np.float32) * 0.8 + 0.1 for s in shapes]
        for dtype in ("float32", "bfloat16"):
            results = []
            for t, f in ((torch, torch.nn.functional), (pf, F)):
                a = [t.tensor(x).to(getattr(t, dtype)) for x in arrays]
                names = dict(zip("abc", a, strict=False)) | {"t": t, "F": f, "net": with_weights}
                names["y"] = t.arange(6)
                try:
                    with t.autocast("cpu"):
                        results.append([x.detach() for x in leaves(eval(code, names))])
                except (RuntimeError, NotImplementedError) as error:
                    results.append([error])
            theirs, ours = results
            if isinstance(theirs[0], Exception):  # there is no such kernel for bfloat16
                none = "create a primitive" in str(theirs[0])  # oneDNN on some processors
                assert dtype == "bfloat16" or none, (code, theirs)
                continue
            kinds = [[str(x.dtype).rpartition(".")[2] for x in r] for r in results]
            if kinds[0] != kinds[1]:
                wrong.append(f"{code} of {dtype}: {kinds[1]}, expected {kinds[0]}")
                continue
            for x, y in zip(ours, theirs, strict=True):
                y = (y if y.is_complex() else y.double()).numpy()
                x = (x if x.is_complex() else x.double()).numpy()
                np.testing.assert_allclose(x, y, rtol=0.05, atol=0.03, err_msg=code)
    assert not wrong, "\n".join(wrong)


# What CUDA's autocast gives of float16 and of float32 operands, by its op reference (no such device
# is needed to know: on a lazy one nothing is computed for a dtype).
LOWER = [row for row in ON_CPU if "F.conv" in row[0] or "t.addm" in row[0]] + table("""
M M | t.matmul; t.mm; t.chain_matmul; a @ b; t.einsum('ij,jk->ik', a, b); t.linalg.vecdot
M V | t.mv
M V V | t.addr
M 1 | t.prelu
M M V | F.linear
2,3,5,4 2,3,5,4 2,3,5,4 | F.scaled_dot_product_attention
M M 24,6 | t.lstm_cell(a, (b, b), c, c)
M M 18,6 | t.gru_cell(a, b, c, c)
B | nn.LSTM(6, 4).to('gpu')(a)[0]
""")
WIDE = table("""
M | t.acos; t.asin; t.cosh; t.exp; t.expm1; t.log; t.log10; t.log1p; t.log2; a.reciprocal();
    a.rsqrt(); a.sinh(); a.tan(); a.erfinv(); a.sum(); a.prod(); a.norm(); t.softmax(a, 1);
    t.log_softmax(a, 1); t.cumsum(a, 1); t.cumprod(a, 1); t.logsumexp(a, 1); F.softplus;
    F.normalize; F.pdist; F.cross_entropy(a, y); F.nll_loss(a, y); F.multi_margin_loss(a, y);
    F.softmin(a, 1); a**2.5; 2**a; 1 / a; t.renorm(a, 2, 0, 1.0); t.linalg.vector_norm;
    F.layer_norm(a, (6,)); nn.LayerNorm(6).to('gpu')(a); t.layer_norm(a, (6,)); F.group_norm(a, 1);
    F.rms_norm(a, (6,))
M M | t.dist; t.cdist; t.cosine_similarity; F.mse_loss; F.l1_loss; F.smooth_l1_loss; F.huber_loss;
    F.binary_cross_entropy_with_logits; t.add(a, b.float()); t.mul(a, b.float());
    t.atan2(a, b.float()); t.tensordot(a, b.float(), 1); t.cat([a, b.float()]);
    t.scatter_add(a, 0, y.reshape(1, 6), b.float())
V V | t.dot(a, b.float()); t.vdot(a, b.float())
V V V | t.addcmul(a, b.float(), c)
M M 2,6,6 | F.bilinear(a, b.float(), c)
X1 | F.interpolate(a, scale_factor=2)
X2 2,3,3,2 | F.grid_sample(a, b.float(), align_corners=False)
""")
SAME = table("""
M | t.relu; t.sigmoid; t.tanh; t.mean; t.var; t.sqrt; t.sin; t.abs; F.gelu; a.exp_();
    F.batch_norm(a, None, None, training=True); F.embedding(y, a)
M M | t.add; t.mul; t.atan2; t.maximum; t.tensordot(a, b, 1)
X2 | F.max_pool2d(a, 2)
""")
ON_GPU = [
    (kinds, code, shapes)
    for kinds, rows in (
        ((pf.float16, pf.float16), LOWER),
        ((pf.float32, pf.float32), WIDE),
        ((pf.float16, pf.float32), SAME),
    )
    for code, shapes in rows
]


def test_dtypes_on_gpu(gpu: str) -> None:
    wrong = []
    y = pf.arange(6, device=gpu)
    for kinds, code, shapes in ON_GPU:
        for given, kind in zip((pf.float16, pf.float32), kinds, strict=True):
            a = [pf.ones(s, dtype=given, device=gpu) for s in shapes]
            names = dict(zip("abc", a, strict=False)) | {"t": pf, "F": F, "nn": nn, "y": y}
            with pf.autocast("cuda"):
                found = {x.dtype for x in leaves(eval(code, names))}
            if found != {kind}:
                wrong.append(f"{code} of {given}: {found}, expected {kind}")
    assert not wrong, "\n".join(wrong)
    with pf.autocast(gpu), pytest.raises(RuntimeError, match="_with_logits"):
        F.binary_cross_entropy(a[0], a[0])
    with pf.autocast("cpu"):  # that lie elsewhere
        assert (pf.ones(2, 2, device=gpu) @ pf.ones(2, 2, device=gpu)).dtype is pf.float32


def test_contexts() -> None:
    a = pf.ones(2, 2)
    seen = []

    def kind() -> None:
        seen.append((a @ a).dtype)

    with pf.autocast(dtype=pf.float16):
        kind()
        with pf.autocast("cpu", pf.bfloat16):
            kind()
            with pf.autocast("cpu", enabled=False):
                kind()
                assert pf.is_autocast_enabled("gpu")
                assert not pf.is_autocast_enabled("cpu")
                with pf.autocast("cpu"):
                    kind()
            other = threading.Thread(target=kind)  # a thread has its own
            other.start()
            other.join()
            kind()
    kind()
    pf.autocast("cpu", pf.float16)(kind)()
    f16, bf16, f32 = pf.float16, pf.bfloat16, pf.float32
    assert seen == [f16, bf16, f32, bf16, f32, bf16, f32, f16]
    f16_around = pf.autocast("cpu", f16)
    with f16_around, pf.autocast(), pf.autocast("cpu", enabled=False), pf.autocast("cpu"):
        assert (a @ a).dtype is pf.get_autocast_dtype("cpu") is f16

    with pytest.warns(UserWarning, match="float64 is not supported"), pf.autocast("cpu", pf.double):
        assert (a @ a).dtype is pf.float32
    assert (pf.get_autocast_dtype("cuda"), pf.get_autocast_dtype("cpu")) == (f16, bf16)
    pf.set_autocast_dtype("cpu", f16)
    try:
        with pf.autocast("cpu"):
            assert (a @ a).dtype is pf.get_autocast_dtype("cpu") is f16
    finally:
        pf.set_autocast_dtype("cpu", bf16)
    assert pf.amp.is_autocast_available("cuda")
    assert not pf.amp.is_autocast_available("tpu")
    for wrong, error in (("tpu", RuntimeError), (3, ValueError)):
        with pytest.raises(error):
            pf.autocast(wrong)
    with pytest.raises(TypeError, match="expected float16 or bfloat16"):
        pf.set_autocast_dtype("cpu", f32)


def test_parameters_are_cast_once() -> None:
    net, x = nn.Linear(4, 4), pf.ones(2, 4)

    def casts(**options: Any) -> int:
        with pf.profiler.profile() as prof, pf.autocast("cpu", **options):
            for _ in range(3):
                net(x)
        return sum(e.count for e in prof.key_averages() if e.key == "cast")

    assert (casts(), casts(cache_enabled=False)) == (5, 9)  # x each time, and its parameters
    with pf.autocast("cpu"):
        first = net(x)
        with pf.no_grad():
            net.weight.add_(1.0)
        assert not (net(x) == first).any()  # which has another value now
        pf.clear_autocast_cache()
        assert pf.is_autocast_cache_enabled()
        with pf.no_grad():
            net(x)
        net(x).float().sum().backward()  # the casts of no_grad have no history
    assert net.weight.grad.dtype is pf.float32


class Doubled(pf.autograd.Function):
    """x @ x in forward, and its gradient with what backward's own product gives."""

    seen: list[Any] = []  # noqa: RUF012

    @staticmethod
    @pf.amp.custom_fwd(device_type="cpu")
    def forward(ctx: Any, x: Any) -> Any:
        ctx.save_for_backward(x)
        return x @ x

    @staticmethod
    @pf.amp.custom_bwd(device_type="cpu")
    def backward(ctx: Any, g: Any) -> Any:
        Doubled.seen.append((ctx.saved_tensors[0] @ g.float()).dtype)
        return g.float()


def test_functions_and_checkpoints() -> None:
    x = pf.ones(2, 2, requires_grad=True)
    with pf.autocast("cpu"):
        y = Doubled.apply(x)
    y.float().sum().backward()
    Doubled.apply(x).sum().backward()
    assert y.dtype is pf.bfloat16
    assert Doubled.seen == [pf.bfloat16, pf.float32]
    cast = pf.amp.custom_fwd(lambda ctx, x: x @ x, device_type="cpu", cast_inputs=pf.float32)
    with pf.autocast("cpu"):
        assert cast(nn.Module(), x.bfloat16()).dtype is pf.float32

    net = with_weights(nn.Sequential(nn.Linear(4, 8), nn.Tanh(), nn.Linear(8, 4)))
    rows = pf.randn(3, 4, requires_grad=True)
    grads = []
    for call in (net, *(lambda x, r=r: checkpoint(net, x, use_reentrant=r) for r in (True, False))):
        net.zero_grad()
        with pf.autocast("cpu"):
            loss = F.mse_loss(call(rows), rows.detach())
        loss.backward()
        grads.append([p.grad.numpy() for p in net.parameters()])
    for other in grads[1:]:
        for g, h in zip(grads[0], other, strict=True):
            np.testing.assert_array_equal(g, h)


def test_a_gpu_without_float16(gpu: str, monkeypatch: pytest.MonkeyPatch) -> None:
    backend = pf.device(gpu).backend
    monkeypatch.setattr(backend, "limits", dataclasses.replace(backend.limits, float16=False))
    a = pf.ones(2, 2, device=gpu)
    with pf.autocast(gpu), pytest.warns(UserWarning, match="has no float16; bfloat16 is used"):
        assert (a @ a).dtype is pf.bfloat16


# --- the scale of the loss


def run(
    t: Any, optimizer: Any, p: Any, scaler: Any, bad: Any, compile: bool = False,
    device: str = "cpu",
) -> list[tuple[float, list[float]]]:  # fmt: skip
    """The scale and the parameter after each step; the gradient overflows in those of `bad`."""

    def step(factor: Any) -> None:
        optimizer.zero_grad()
        loss = (p * p * factor).sum()
        scaler.scale(loss).backward()
        scaler.step(optimizer)
        scaler.update()

    if compile:
        step = pf.compile(step)
    out = []
    for i in range(6):
        factor = t.tensor([math.inf if i in bad else 1.0, 1.0, 0.5]).to(device)
        step(factor)
        out.append((scaler.get_scale(), p.detach().cpu().reshape(-1).tolist()))
    if compile:
        assert (step.captured, step.replayed) == (1, 5), step.explain()  # type: ignore[attr-defined]
    return out


# those of which PyTorch's take what is not finite
OPTIMIZERS = [*((name, kw) for name, kw in RICH.items() if name not in ("Muon", "SparseAdam"))]


@pytest.mark.parametrize("way", ["eager", "compiled", "gpu"])
def test_every_optimizer_skips(way: str, torch: Any, request: pytest.FixtureRequest) -> None:
    device = request.getfixturevalue("gpu") if way == "gpu" else "cpu"
    settings = {"init_scale": 1024.0, "growth_interval": 2}
    for name, options in OPTIMIZERS[:: 1 if way != "gpu" else 3]:
        for bad in ((0, 3), (1, 2)):
            p = torch.tensor([1.0, -2.0, 3.0], requires_grad=True)
            scaler = torch.amp.GradScaler("cpu", **settings)
            theirs = run(torch, getattr(torch.optim, name)([p], lr=0.1, **options), p, scaler, bad)
            q = pf.tensor([1.0, -2.0, 3.0], device=device, requires_grad=True)
            optimizer = getattr(optim, name)([q], lr=0.1, **options)
            ours = run(pf, optimizer, q, pf.GradScaler(**settings), bad, way != "eager", device)
            assert [s for s, _ in ours] == [s for s, _ in theirs], (name, bad)
            np.testing.assert_allclose(
                [x for _, x in ours], [x for _, x in theirs], rtol=2e-4, atol=2e-5,
                err_msg=f"{name} {options} {bad}",
            )  # fmt: skip
            steps = [s["step"] for s in optimizer.state.values() if "step" in s]
            assert all(s.item() == 4 for s in steps), name


def test_scaler_against_pytorchs(torch: Any) -> None:
    """Two optimizers with one scaler, gradients clipped between, and the state on its way."""
    sides = []
    for t in (torch, pf):
        a, b = (t.tensor(x, requires_grad=True) for x in ([1.0, 2.0], [3.0, -1.0, 0.5]))
        optimizers = t.optim.SGD([a], lr=0.5), t.optim.Adam([b], lr=0.5)
        make = t.amp.GradScaler if t is torch else pf.GradScaler
        scaler = make("cpu", init_scale=8.0, growth_interval=3, growth_factor=4.0)
        seen: list[Any] = []
        for i in range(9):
            for o in optimizers:
                o.zero_grad()
            factor = math.nan if i == 4 else 1.0
            losses = [(a * a).sum(), (b * b).sum() * factor]
            scaled = scaler.scale(losses)
            scaled[0].backward()
            scaled[1].backward()
            for o, p in zip(optimizers, (a, b), strict=True):
                scaler.unscale_(o)
                t.nn.utils.clip_grad_norm_([p], 0.5)
                scaler.step(o)
            scaler.update()
            seen.append((scaler.get_scale(), scaler.state_dict()["_growth_tracker"]))
            if i == 6:  # goes on from a file
                kept = scaler.state_dict()
                scaler = make("cpu")
                scaler.load_state_dict(kept)
        seen.append(scaler.state_dict())
        sides.append((seen, a.tolist() + b.tolist()))
    assert sides[0][0] == sides[1][0]
    np.testing.assert_allclose(sides[1][1], sides[0][1], rtol=1e-5)
    ours, theirs = pf.GradScaler(), torch.amp.GradScaler("cpu", init_scale=2.0)
    ours.load_state_dict(theirs.state_dict())
    theirs.load_state_dict(ours.state_dict())
    assert ours.state_dict() == theirs.state_dict()
    assert ours.get_scale() == 2.0


# One line after the other; those with `->` are refused, as PyTorch's.
IN_ORDER = r"""
s.unscale_(o) -> AssertionError: did not use scaler.scale
s.step(o) -> AssertionError: did not use scaler.scale
s.update() -> AssertionError: _scale is None
s.scale(3) -> ValueError: an iterable of Tensors, got int
other.scale(p.sum())
other.step(o) -> AssertionError: No inf checks were recorded for this optimizer
s.scale(p.sum()).backward()
s.step(o, closure=lambda: p.sum()) -> RuntimeError: Closure use is not currently supported
s.update() -> AssertionError: prior to update
s.unscale_(o)
s.unscale_(o) -> RuntimeError: already been called on this optimizer since the last
s.step(o)
s.unscale_(o) -> RuntimeError: called after step
s.step(o) -> RuntimeError: step\(\) has already been called
s.update()
s.unscale_(o)
s.update(3.0)
s.unscale_(half) -> ValueError: Attempting to unscale FP16 gradients
pf.GradScaler(growth_factor=1.0) -> AssertionError: factor must be
pf.GradScaler(backoff_factor=1.0) -> AssertionError: factor must be
s.load_state_dict({}) -> RuntimeError: The source state dict is empty
"""


def test_scaler_is_used_in_order() -> None:
    p, scaler = pf.ones(2, requires_grad=True), pf.GradScaler(init_scale=4.0)
    optimizer, x = optim.SGD([p], lr=0.1), pf.ones(2, dtype=pf.float16, requires_grad=True)
    x.sum().backward()
    names = {"pf": pf, "s": scaler, "o": optimizer, "p": p, "half": optim.SGD([x], lr=0.1)}
    names["other"] = pf.GradScaler()
    for call, text in rows(IN_ORDER):
        if text:
            check_refused(call, text, lambda lib: names)
        else:
            eval(call, names)
    np.testing.assert_allclose(p.tolist(), [0.9, 0.9])
    assert scaler.get_scale() == 3.0
    scaler.update(pf.tensor([5.0]))
    assert scaler.get_scale() == 5.0

    off = pf.GradScaler(enabled=False)
    loss = p.sum()
    assert off.scale(loss) is loss
    assert (off.get_scale(), off.state_dict()) == (1.0, {})
    off.unscale_(optimizer)
    off.step(optimizer)
    off.update()
    off.load_state_dict({})
    assert (off.is_enabled(), scaler.is_enabled()) == (False, True)


def test_setters_and_twins() -> None:
    scaler = pf.GradScaler(init_scale=2.0)
    scaler.set_growth_factor(3.0)
    scaler.set_backoff_factor(0.25)
    scaler.set_growth_interval(7)
    found = scaler.get_growth_factor(), scaler.get_backoff_factor(), scaler.get_growth_interval()
    assert found == (3.0, 0.25, 7)
    for _ in range(2):
        assert asyncio.run(scaler.get_scale_async()) == scaler.get_scale() == 2.0
        assert asyncio.run(scaler.state_dict_async()) == scaler.state_dict()
        scaler.scale(pf.ones(()))


class Own(optim.SGD):
    """An optimizer with a step of its own, which knows nothing of a scaler."""

    def step(self, closure: Any = None) -> Any:
        return super().step(closure)


def test_a_step_of_its_own_is_left_out(device: str) -> None:
    p = pf.ones(2, device=device, requires_grad=True)
    optimizer, scaler = Own([p], lr=0.5), pf.GradScaler(init_scale=4.0)
    for factor, expected in ((math.inf, [1.0, 1.0]), (1.0, [0.5, 0.5])):
        optimizer.zero_grad()
        scaler.scale((p * factor).sum()).backward()
        scaler.step(optimizer)
        scaler.update()
        assert p.tolist() == expected
    assert scaler.get_scale() == 2.0


# --- whole steps


def stepper(device: str, cast: Any, scaler: Any) -> Callable[..., Any]:
    first, second, last = nn.Linear(784, 256), nn.Linear(256, 128), nn.Linear(128, 10)
    net = nn.Sequential(first, nn.ReLU(), second, nn.ReLU(), last)
    net = with_weights(net).to(device)
    optimizer = optim.Adam(net.parameters())

    def step(x: Any, y: Any) -> Any:
        optimizer.zero_grad()
        with pf.autocast(device, cast, enabled=cast is not None):
            loss = F.cross_entropy(net(x), y)
        scaler.scale(loss).backward()
        scaler.step(optimizer)
        scaler.update()
        return loss

    return step


def test_a_step_is_one_program(gpu: str, steady: Any) -> None:
    """784-256-128-10, batch 64, Adam: what mixed precision adds in kernels are the sums that look
    for overflows, in each layer, and the scale."""
    x, y = pf.randn(64, 784, device=gpu), pf.randint(0, 10, (64,), device=gpu)
    counts = []
    for cast, enabled in ((None, False), (pf.float16, True)):
        scaler = pf.GradScaler(enabled=enabled)
        step = pf.compile(stepper(gpu, cast, scaler))
        stats = steady(lambda step=step: step(x, y), 1)
        counts.append((stats.dispatches, stats.submits))
        assert (step.captured, step.replayed) == (1, 3)
        assert math.isfinite(step(x, y).item())
    plain, mixed = counts
    assert plain[1] == mixed[1] == 1
    assert mixed[0] <= plain[0] + 4, counts


def test_a_replay_knows_the_context(device: str) -> None:
    net, x = with_weights(nn.Linear(4, 4)).to(device), pf.ones(2, 4, device=device)
    compiled = pf.compile(lambda x: net(x))
    for _ in range(2):
        assert compiled(x).dtype is pf.float32
        for dtype in (pf.float16, pf.bfloat16):
            with pf.autocast(dtype=dtype):
                out = compiled(x)
                assert out.dtype is dtype
                assert pf.allclose(out, net(x), rtol=0.01, atol=0.001)
    assert compiled.captured == 3
    assert compiled.replayed == 3


def test_a_replay_knows_the_scaler(device: str) -> None:
    """What is changed of it between calls holds in the next; what a call alone would leave undone
    runs eagerly."""
    p = pf.ones(2, device=device, requires_grad=True)
    good, bad = (pf.tensor([x, 1.0], device=device) for x in (1.0, math.inf))
    optimizer, scaler = optim.SGD([p], lr=0.1), pf.GradScaler(init_scale=1024.0)

    def backward(factor: Any) -> None:
        optimizer.zero_grad()
        scaler.scale((p * factor).sum()).backward()

    @pf.compile
    def step(factor: Any) -> None:
        backward(factor)
        scaler.step(optimizer)
        scaler.update()

    for factor in (good, bad):
        step(factor)
    assert (scaler.get_scale(), step.captured) == (512.0, 1)
    scaler.set_backoff_factor(0.25)
    step(bad)
    assert scaler.get_scale() == 128.0
    state = {"growth_factor": 4.0, "backoff_factor": 0.5, "growth_interval": 1}
    scaler.load_state_dict({"scale": 64.0, "_growth_tracker": 0, **state})
    step(good)
    assert scaler.get_scale() == 256.0
    scaler.update(8.0)
    step(good)
    assert (scaler.get_scale(), step.captured) == (32.0, 3)

    @pf.compile
    def without_update(factor: Any) -> None:
        backward(factor)
        scaler.step(optimizer)

    without_update(good)
    scaler.update()
    with pytest.warns(RuntimeWarning, match="it changes `scaler._seen`"):
        without_update(bad)
    for factor, expected in ((None, 64.0), (good, 256.0), (bad, 128.0)):
        if factor is not None:
            without_update(factor)
        scaler.update()
        assert scaler.get_scale() == expected


def test_contexts_within_a_capture(device: str) -> None:
    a, on = pf.full((2, 2), 3.0, device=device), True
    context = pf.autocast(device, pf.float16)

    @pf.autocast(device, pf.bfloat16)
    def decorated(x: Any) -> Any:
        return x @ x

    @pf.compile
    def both(x: Any) -> Any:
        with context:
            first = x @ x
        with pf.autocast(device, pf.float16, enabled=on):
            return first, decorated(x), x @ x

    for on in (True, True, False, False):
        kinds = [y.dtype for y in both(a)]
        assert kinds == [pf.float16, pf.bfloat16, pf.float16 if on else pf.float32]
    assert (both.captured, both.replayed) == (2, 2)


def test_sums_are_float32(device: str) -> None:
    """Of float16 numbers, of which one alone could not count beyond 2048."""
    a = pf.ones(2, 4096, dtype=pf.float16, device=device)
    w = pf.full((3, 4096), 0.75, dtype=pf.float16, device=device)
    image = pf.ones(1, 9, 16, 16, dtype=pf.float16, device=device)
    with pf.autocast(device, pf.float16):
        found = {
            "linear": F.linear(a, w), "sum": a.sum(1), "mean": a.mean(1),
            "conv": F.conv2d(image, pf.ones(1, 9, 16, 16, device=device)),
            "softmax": F.softmax(a, 1).sum(1), "norm": a.norm(dim=1) ** 2,
            "mse_loss": F.mse_loss(a[0] * 64, w[0], reduction="sum"),
            "cross_entropy": F.cross_entropy(a, pf.zeros(2, dtype=pf.int64, device=device)),
        }  # fmt: skip
        together = pf.cat([x.float().reshape(-1)[:1] for x in found.values()]).cpu().numpy()
    expected = {
        "linear": 3072, "sum": 4096, "mean": 1, "conv": 2304, "softmax": 1, "norm": 4096,
        "mse_loss": 4096 * 63.25**2, "cross_entropy": math.log(4096),
    }  # fmt: skip
    np.testing.assert_allclose(together, [expected[name] for name in found], 2e-3)
