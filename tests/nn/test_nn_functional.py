"""nn.functional: bad inputs, arguments and effects that a row of the op suite does not show."""

from __future__ import annotations

import inspect
import math
import warnings
from typing import Any

import numpy as np
import pytest

import pyframe as pf
import pyframe.nn.functional as F


def rng() -> np.random.Generator:
    return np.random.default_rng(0)


def same(got: Any, want: Any, tol: float = 1e-5) -> None:
    np.testing.assert_allclose(
        got.detach().cpu().numpy(), want.detach().numpy(), rtol=tol, atol=tol / 5
    )


# --- losses

LOSSES = {
    "mse_loss": ((3, 4), (3, 4)),
    "l1_loss": ((3, 4), (3, 4)),
    "smooth_l1_loss": ((3, 4), (3, 4)),
    "huber_loss": ((3, 4), (3, 4)),
    "soft_margin_loss": ((3, 4), (3, 4)),
    "hinge_embedding_loss": ((3, 4), (3, 4)),
    "binary_cross_entropy_with_logits": ((3, 4), (3, 4)),
    "multilabel_soft_margin_loss": ((3, 4), (3, 4)),
    "margin_ranking_loss": ((3,), (3,), (3,)),
    "triplet_margin_loss": ((3, 4), (3, 4), (3, 4)),
    "poisson_nll_loss": ((3, 4), (3, 4)),
}


@pytest.mark.parametrize("name", LOSSES)
def test_reductions(name: str, torch: Any) -> None:
    arrays = [rng().standard_normal(s).astype(np.float32) for s in LOSSES[name]]
    ours = [pf.from_numpy(a) for a in arrays]
    theirs = [torch.from_numpy(a) for a in arrays]
    for reduction in ("none", "mean", "sum"):
        want = getattr(torch.nn.functional, name)(*theirs, reduction=reduction)
        same(getattr(F, name)(*ours, reduction=reduction), want)
    with pytest.raises(ValueError, match="not a valid value for reduction"):
        getattr(F, name)(*ours, reduction="median")


@pytest.mark.parametrize(
    ("size_average", "reduce", "reduction"),
    [(None, True, "mean"), (False, None, "sum"), (True, False, "none"), (False, True, "sum")],
)
def test_deprecated_reductions(size_average: Any, reduce: Any, reduction: str) -> None:
    x, y = pf.randn(3, 4), pf.randn(3, 4)
    with pytest.warns(UserWarning, match=f"reduction='{reduction}'"):
        got = F.mse_loss(x, y, size_average=size_average, reduce=reduce)
    assert got.tolist() == F.mse_loss(x, y, reduction=reduction).tolist()


WARN = {
    "reduce": lambda x: F.mse_loss(x, x, reduce=True),
    "elementwise_mean": lambda x: F.l1_loss(x, x, reduction="elementwise_mean"),
    "shapes": lambda x: F.mse_loss(x, x[:1]),
    "kl_div": lambda x: F.kl_div(x, x),
    "dropout2d": lambda x: F.dropout2d(x),
    "dropout3d": lambda x: F.dropout3d(x[0]),
    "eps": lambda x: F.gumbel_softmax(x, eps=1.0),
    "softmax": lambda x: F.softmax(x),
    "Softmax": lambda x: pf.nn.Softmax()(x),
    "out": lambda x: pf.exp(x, out=pf.empty(3)),
    "several out": lambda x: pf.sort(x, out=(pf.empty(3), pf.empty(3, dtype=pf.int64))),
}


@pytest.mark.parametrize("what", WARN)
def test_warnings_point_at_the_line_of_the_call(what: str) -> None:
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        WARN[what](pf.rand(2, 3, 4))
    assert {w.filename for w in told} == {__file__}


def test_a_warning_from_within_a_layer_points_at_the_layer() -> None:
    with pytest.warns(UserWarning, match="target size") as told:
        pf.nn.MSELoss()(pf.ones(2), pf.ones(1))
    assert told[0].filename == inspect.getfile(pf.nn.MSELoss)


def test_kl_div_says_what_its_mean_is() -> None:
    x = pf.full((2, 3), math.log(0.5))
    with pytest.warns(UserWarning, match="batchmean"):
        F.kl_div(x, pf.ones(2, 3))


def test_binary_cross_entropy_at_0_and_1(torch: Any) -> None:
    arrays = [np.array(a, np.float32) for a in ([0, 1, 0, 1, 0.5], [0, 1, 1, 0, 0.25])]
    ours = [pf.from_numpy(a).requires_grad_() for a in arrays]
    theirs = [torch.from_numpy(a).requires_grad_() for a in arrays]
    got = F.binary_cross_entropy(*ours)
    want = torch.nn.functional.binary_cross_entropy(*theirs)
    same(got, want)
    got.backward()
    want.backward()
    for x, y in zip(ours, theirs, strict=True):
        same(x.grad, y.grad)


def test_gaussian_nll_passes_the_gradient_of_small_variances(torch: Any) -> None:
    arrays = [np.array(a, np.float32) for a in ([1, 2], [1.5, 1], [1e-9, 2])]
    ours = [pf.from_numpy(a).requires_grad_() for a in arrays]
    theirs = [torch.from_numpy(a).requires_grad_() for a in arrays]
    F.gaussian_nll_loss(*ours, eps=0.1).backward()
    torch.nn.functional.gaussian_nll_loss(*theirs, eps=0.1).backward()
    for x, y in zip(ours, theirs, strict=True):
        same(x.grad, y.grad)


def ctc_case(torch: Any, t: int, s: int, **kw: Any) -> None:
    lp = rng().standard_normal((t, 3, 6)).astype(np.float32)
    y = rng().integers(1, 6, (3, s))
    lengths = (t, t - 1, 2), (s, 1, 2)
    ours = pf.from_numpy(lp).requires_grad_()
    theirs = torch.from_numpy(lp).requires_grad_()
    got = F.ctc_loss(F.log_softmax(ours, 2), pf.from_numpy(y), *lengths, **kw)
    want = torch.nn.functional.ctc_loss(
        torch.log_softmax(theirs, 2), torch.from_numpy(y), *lengths, **kw
    )
    same(got, want)
    got.sum().backward()
    want.sum().backward()
    same(ours.grad, theirs.grad)


def test_ctc_of_targets_that_do_not_fit(torch: Any) -> None:
    ctc_case(torch, 5, 4, zero_infinity=True, reduction="none")
    lp = pf.log_softmax(pf.randn(2, 1, 3), 2)
    assert F.ctc_loss(lp, pf.tensor([[1, 1]]), (2,), (2,)).item() == math.inf


def test_ctc_of_no_labels_and_of_no_time(torch: Any) -> None:
    lp = rng().standard_normal((4, 2, 3)).astype(np.float32)
    for lengths in (((4, 2), (0, 0)), ((0, 3), (0, 1))):
        y = np.ones((2, 1), np.int64)
        got = F.ctc_loss(pf.from_numpy(lp), pf.from_numpy(y), *lengths, reduction="none")
        want = torch.nn.functional.ctc_loss(
            torch.from_numpy(lp), torch.from_numpy(y), *lengths, reduction="none"
        )
        same(got, want)


def test_ctc_at_length(torch: Any) -> None:
    ctc_case(torch, 40, 12)


def test_soft_targets_and_class_indices(torch: Any) -> None:
    x, p = pf.randn(4, 3), pf.softmax(pf.randn(4, 3), 1)
    with pytest.raises(RuntimeError, match="Expected floating point type"):
        F.cross_entropy(x, pf.zeros(4, 3, dtype=pf.int64))
    with pytest.raises(RuntimeError, match="ignore_index"):
        F.cross_entropy(x, p, ignore_index=1)
    with pytest.raises(RuntimeError, match="label_smoothing"):
        F.cross_entropy(x, p, label_smoothing=1.5)


# --- activations


def test_inplace_twins_write_their_input(torch: Any) -> None:
    a = rng().standard_normal((3, 4)).astype(np.float32)
    for name in "relu_ elu_ selu_ celu_ leaky_relu_ hardtanh_ rrelu_".split():
        x, y = pf.from_numpy(a.copy()), torch.from_numpy(a.copy())
        assert getattr(F, name)(x) is x
        getattr(torch.nn.functional, name)(y)
        same(x, y)
    x = pf.from_numpy(a.copy())
    assert pf.threshold_(x, 0.5, 1.0) is x
    assert F.mish(x, inplace=True) is x
    with pytest.raises(RuntimeError, match="leaf"):
        F.silu(pf.ones(2, requires_grad=True), inplace=True)


def test_rrelu_draws_slopes_between_its_bounds(device: str) -> None:
    x = pf.full((1000,), -1.0, device=device)
    slopes = -F.rrelu(x, 0.2, 0.4, training=True).cpu().numpy()
    assert 0.2 <= slopes.min() < 0.22 < 0.38 < slopes.max() <= 0.4
    assert abs(slopes.mean() - 0.3) < 0.01


def test_gumbel_softmax(device: str) -> None:
    logits = pf.tensor([math.log(0.7), math.log(0.3)], device=device).expand(2000, 2).clone()
    logits.requires_grad_()
    hard = F.gumbel_softmax(logits, hard=True)
    assert sorted(set(hard.detach().cpu().numpy().round(6).ravel().tolist())) == [0, 1]
    assert abs(hard.mean(0)[0].item() - 0.7) < 0.05
    hard[:, 0].sum().backward()
    assert logits.grad is not None
    assert logits.grad.abs().sum().item() > 0


@pytest.mark.parametrize(
    ("error", "call"),
    [
        (NotImplementedError, lambda x: F.elu(x.long())),
        (NotImplementedError, lambda x: F.gelu(x.long())),
        (RuntimeError, lambda x: F.relu(x.bool())),
        (ValueError, lambda x: F.hardtanh(x, 2, 1)),
        (RuntimeError, lambda x: F.celu(x, 0)),
        (RuntimeError, lambda x: F.softshrink(x, -1)),
        (RuntimeError, lambda x: F.rrelu(x, 0.5, 0.3)),
        (RuntimeError, lambda x: F.prelu(x, pf.ones(4).double())),
    ],
)
def test_activations_refuse(error: type[Exception], call: Any) -> None:
    with pytest.raises(error):
        call(pf.randn(3, 4))


def test_a_dim_that_is_not_given() -> None:
    with pytest.warns(UserWarning, match="Implicit dimension choice for softmin"):
        assert F.softmin(pf.zeros(2, 4)).tolist() == [[0.25] * 4] * 2


# --- normalization


def test_running_statistics(device: str, torch: Any) -> None:
    x = rng().standard_normal((4, 3, 5)).astype(np.float32)
    for name in ("batch_norm", "instance_norm"):
        ours = [pf.zeros(3, device=device), pf.ones(3, device=device)]
        theirs = [torch.zeros(3), torch.ones(3)]
        if name == "batch_norm":
            kw: dict[str, Any] = {"training": True, "momentum": 0.3}
        else:
            kw = {"use_input_stats": True, "momentum": 0.3}
        got = getattr(F, name)(pf.from_numpy(x).to(device), *ours, **kw)
        same(got, getattr(torch.nn.functional, name)(torch.from_numpy(x), *theirs, **kw), 1e-4)
        for a, b in zip(ours, theirs, strict=True):
            same(a, b)
    fixed = F.batch_norm(pf.from_numpy(x).to(device), *ours)
    same(fixed, torch.nn.functional.batch_norm(torch.from_numpy(x), *theirs), 1e-4)


def test_running_statistics_under_compile() -> None:
    mean, var = pf.zeros(3), pf.ones(3)
    step = pf.compile(lambda x: F.batch_norm(x, mean, var, training=True))
    x = pf.randn(8, 3) + 2
    for _ in range(3):
        step(x)
    eager = pf.zeros(3), pf.ones(3)
    for _ in range(3):
        F.batch_norm(x, *eager, training=True)
    np.testing.assert_allclose(mean.numpy(), eager[0].numpy(), rtol=1e-5)
    np.testing.assert_allclose(var.numpy(), eager[1].numpy(), rtol=1e-5)


@pytest.mark.parametrize(
    ("error", "call"),
    [
        (ValueError, lambda x: F.batch_norm(x[:1, :, :1], None, None, training=True)),
        (RuntimeError, lambda x: F.batch_norm(x, None, None)),
        (RuntimeError, lambda x: F.batch_norm(x, pf.zeros(3), pf.ones(3))),
        (RuntimeError, lambda x: F.group_norm(x, 3)),
        (RuntimeError, lambda x: F.rms_norm(x, (4,))),
        (RuntimeError, lambda x: F.layer_norm(x, ())),
    ],
)
def test_norms_refuse(error: type[Exception], call: Any) -> None:
    with pytest.raises(error):
        call(pf.randn(2, 4, 3))


def test_native_norms_give_their_statistics(torch: Any) -> None:
    a = rng().standard_normal((2, 4, 3)).astype(np.float32)
    x, y = pf.from_numpy(a), torch.from_numpy(a)
    none = (None, None)
    for name, args in {
        "native_layer_norm": ((3,), *none, 1e-5),
        "native_group_norm": (*none, 2, 4, 3, 2, 1e-5),
        "native_batch_norm": (*none, *none, True, 0.1, 1e-5),
    }.items():
        pairs = zip(getattr(pf, name)(x, *args), getattr(torch, name)(y, *args), strict=True)
        for got, want in pairs:
            assert tuple(got.shape) == tuple(want.shape)
            same(got, want)


# by default that of what halves are computed in, which the oracle's float64 has to be told
EPS_OF_FLOAT32 = {"pyframe": None, "torch": 2**-23}
# of float16 and bfloat16 in float32: squares are more than float16 has
HALF: dict[str, Any] = {
    "layer_norm": lambda t, f, x, w: f.layer_norm(x * 256, (6,), w, w),
    "group_norm": lambda t, f, x, w: f.group_norm(x * 256, 2),
    "instance_norm": lambda t, f, x, w: f.instance_norm(x * 256),
    "batch_norm": lambda t, f, x, w: f.batch_norm(x * 256, None, None, training=True),
    "batch_norm_fixed": lambda t, f, x, w: f.batch_norm(x, w[:4] * 3, w[:4].abs(), w[:4], w[:4]),
    "rms_norm": lambda t, f, x, w: f.rms_norm(x * 256, (6,), w),
    "rms_norm_small": lambda t, f, x, w: f.rms_norm(x / 256, (6,), w, EPS_OF_FLOAT32[t.__name__]),
    "softmax": lambda t, f, x, w: f.softmax(x * 8, 1),
    "log_softmax": lambda t, f, x, w: f.log_softmax(x * 8, -1),
    "cross_entropy": lambda t, f, x, w: f.cross_entropy(x.reshape(8, 18), t.arange(8)),
}


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
@pytest.mark.parametrize("name", HALF)
def test_half_precision_is_rounded_once(name: str, dtype: str, torch: Any) -> None:
    ours, theirs = getattr(pf, dtype), getattr(torch, dtype)
    rounded = [torch.from_numpy(rng().integers(-9, 9, s) / 8).to(theirs) for s in ((2, 4, 3, 6), 6)]
    got = HALF[name](pf, F, *(pf.from_numpy(a.float().numpy()).to(ours) for a in rounded))
    want = HALF[name](torch, torch.nn.functional, *(a.double() for a in rounded)).to(theirs)
    assert got.dtype is ours
    digit = torch.finfo(theirs).eps  # as much as two roundings may differ by, at the most
    np.testing.assert_allclose(got.float().numpy(), want.float().numpy(), digit, digit / 100)


def test_statistics_of_half_precision_have_the_parameters_dtype() -> None:
    x, w = pf.ones(2, 4, 3, dtype=pf.float16), pf.ones(4)
    for params, kept in ((None, pf.float16), (w.half(), pf.float16), (w, pf.float32)):
        for found in (
            pf.native_batch_norm(x, params, params, None, None, True, 0.1, 1e-5),
            pf.native_group_norm(x, params, params, 2, 4, 3, 2, 1e-5),
            pf.native_layer_norm(x.mT, (4,), params, params, 1e-5),
        ):
            assert [v.dtype for v in found] == [pf.float16, kept, kept]


# --- dropout


def test_dropouts(device: str) -> None:
    x = pf.ones(40, 50, 4, 4, device=device)
    for fn in (F.dropout, F.dropout2d):
        y = fn(x, 0.25).cpu().numpy()
        assert sorted(set(y.round(4).ravel().tolist())) == [0, pytest.approx(1.3333)]
        assert abs((y == 0).mean() - 0.25) < 0.03
    whole = F.dropout2d(x, 0.5).cpu().numpy().reshape(2000, 16)
    assert (whole == whole[:, :1]).all()
    z = pf.randn(100000, device=device)
    y = F.alpha_dropout(z, 0.3, training=True).cpu().numpy()
    assert abs(y.mean()) < 0.02
    assert abs(y.std() - 1) < 0.02
    assert F.alpha_dropout(z) is z
    assert F.feature_alpha_dropout(x, 1.0, training=True).sum().item() == 0
    assert F.dropout(z, 0.5, inplace=True) is z


def test_dropouts_refuse() -> None:
    with pytest.raises(ValueError, match="between 0 and 1"):
        F.alpha_dropout(pf.ones(3), 1.5)
    with pytest.raises(RuntimeError, match="2D or 3D"):
        F.dropout1d(pf.ones(3))
    with pytest.warns(UserWarning, match="dropout3d"), pytest.raises(RuntimeError):
        F.dropout3d(pf.ones(()), 0.5).unsqueeze(3)
    with warnings.catch_warnings(record=True):
        warnings.simplefilter("always")
        assert F.dropout2d(pf.ones(2, 3, 4), 0.0).sum().item() == 24


def test_dropout_at_the_top_level() -> None:
    x = pf.ones(50, 4, 9)
    dropped = pf.feature_dropout(x, 0.5, True).numpy()
    assert (dropped == dropped[..., :1]).all()
    assert pf.dropout(x, 0.5, train=False) is x
    out, kept = pf.native_dropout(x, 0.5, True)
    assert ((out.numpy() == 2) == kept.numpy()).all()
    assert pf.native_dropout(x, 0.5, False)[1].all().item()


# --- embedding


def embedding_both(torch: Any, device: str, ids: Any, **kw: Any) -> None:
    table = rng().standard_normal((5, 3)).astype(np.float32) * 2
    ours = pf.from_numpy(table.copy()).to(device).requires_grad_()
    theirs = torch.from_numpy(table.copy()).requires_grad_()
    got = F.embedding(pf.tensor(ids).to(device), ours, **kw)
    want = torch.nn.functional.embedding(torch.tensor(ids), theirs, **kw)
    same(got, want)
    (got * got).sum().backward()
    (want * want).sum().backward()
    same(ours, theirs)
    same(ours.grad, theirs.grad)


def test_embedding_options(device: str, torch: Any) -> None:
    ids = [[0, 2, 2], [4, 2, 0]]
    embedding_both(torch, device, ids, padding_idx=-3)
    embedding_both(torch, device, ids, scale_grad_by_freq=True)
    embedding_both(torch, device, ids, max_norm=1.5)
    embedding_both(torch, device, ids, max_norm=1.0, norm_type=1.0)


def test_embedding_refuses(device: str) -> None:
    table = pf.ones(4, 2, device=device)
    with pytest.raises(RuntimeError, match="int64 or int32"):
        F.embedding(pf.tensor([0.0], device=device), table)


def test_embedding_bag_with_the_last_offset(torch: Any) -> None:
    table = rng().standard_normal((5, 3)).astype(np.float32)
    ids, offsets = [1, 2, 4, 1, 0], [0, 2, 2, 5]
    for mode in ("sum", "mean", "max"):
        for padding in (None, 1):
            kw: Any = {"mode": mode, "include_last_offset": True, "padding_idx": padding}
            got = F.embedding_bag(pf.tensor(ids), pf.from_numpy(table), pf.tensor(offsets), **kw)
            want = torch.nn.functional.embedding_bag(
                torch.tensor(ids), torch.from_numpy(table), torch.tensor(offsets), **kw
            )
            same(got, want)


def test_embedding_bag_refuses() -> None:
    table, ids = pf.ones(4, 2), pf.tensor([0, 1, 2])
    zero = pf.tensor([0])
    with pytest.raises(ValueError, match="offsets has to be a 1D"):
        F.embedding_bag(ids, table)
    with pytest.raises(ValueError, match="has to be None"):
        F.embedding_bag(ids.unsqueeze(0), table, zero)
    with pytest.raises(ValueError, match="one of sum, mean or max"):
        F.embedding_bag(ids, table, zero, mode="min")
    with pytest.raises(NotImplementedError, match="mode='sum'"):
        F.embedding_bag(ids, table, zero, per_sample_weights=pf.ones(3))
    with pytest.raises(RuntimeError, match=r"offsets\[0\]"):
        F.embedding_bag(ids, table, pf.tensor([1]))
    with pytest.raises(RuntimeError, match="greater"):
        F.embedding_bag(ids, table, pf.tensor([0, 4]))


def test_one_hot_refuses(device: str) -> None:
    with pytest.raises(RuntimeError, match="Class values"):
        F.one_hot(pf.tensor([0, 5], device=device), 4).sum().item()
    with pytest.raises(RuntimeError, match="Class values"):
        F.one_hot(pf.tensor([0, -1], device=device), 4).sum().item()


# --- attention


def test_attention_of_nothing_is_0(device: str) -> None:
    q = pf.randn(2, 3, 4, device=device, requires_grad=True)
    mask = pf.tensor([[True, False, True], [False] * 3, [True] * 3], device=device)
    out = F.scaled_dot_product_attention(q, q, q, mask)
    assert out[:, 1].abs().sum().item() == 0
    out.sum().backward()
    assert q.grad is not None
    assert math.isfinite(q.grad.sum().item())


def test_attention_refuses() -> None:
    q = pf.randn(2, 4, 3, 4)
    with pytest.raises(RuntimeError, match="is_causal"):
        F.scaled_dot_product_attention(q, q, q, pf.ones(3, 3), is_causal=True)
    with pytest.raises(RuntimeError, match="same dtype"):
        F.scaled_dot_product_attention(q, q, q.double())
    with pytest.raises(RuntimeError, match="attn_mask dtype"):
        F.scaled_dot_product_attention(q, q, q, pf.ones(3, 3, dtype=pf.int64))
    with pytest.raises(RuntimeError, match="multiple"):
        F.scaled_dot_product_attention(q, q[:, :3], q[:, :3], enable_gqa=True)
    with pytest.raises(RuntimeError, match="2 dimensional"):
        F.scaled_dot_product_attention(q[0, 0, 0], q, q)


def test_multi_head_attention_weights(torch: Any) -> None:
    x = rng().standard_normal((4, 2, 6)).astype(np.float32)
    w = rng().standard_normal((18, 6)).astype(np.float32)
    o = rng().standard_normal((6, 6)).astype(np.float32)
    k = rng().standard_normal((1, 1, 6)).astype(np.float32)
    pad = np.array([[False, True, False, False], [False] * 4])

    def run(t: Any, f: Any, make: Any, **kw: Any) -> Any:
        a = make(x)
        return f.multi_head_attention_forward(
            a, a, a, 6, 3, make(w), None, make(k), make(k), True, 0.0, make(o), None,
            key_padding_mask=make(pad), attn_mask=t.ones(4, 4).triu(1).bool(), **kw,
        )  # fmt: skip

    for kw in ({}, {"average_attn_weights": False}, {"need_weights": False}):
        got, want = (
            run(pf, F, pf.from_numpy, **kw),
            run(torch, torch.nn.functional, torch.from_numpy, **kw),
        )
        same(got[0], want[0], 1e-4)
        assert (got[1] is None) == (want[1] is None)
        if got[1] is not None:
            same(got[1], want[1])
    a = pf.from_numpy(x)
    with pytest.raises(AssertionError, match="not divisible"):
        F.multi_head_attention_forward(
            a, a, a, 6, 4, pf.from_numpy(w), None, None, None, False, 0.0, pf.from_numpy(o), None
        )
    with pytest.raises(RuntimeError, match="attn_mask"):
        F.multi_head_attention_forward(
            a, a, a, 6, 3, pf.from_numpy(w), None, None, None, False, 0.0, pf.from_numpy(o), None,
            is_causal=True,
        )  # fmt: skip


# --- distances


def test_distances_of_equal_points_have_gradients() -> None:
    for fn in (F.pdist, lambda x: F.pairwise_distance(x, x, eps=0.0), F.normalize):
        x = pf.zeros(3, 2, requires_grad=True)
        fn(x).sum().backward()
        assert x.grad is not None
        assert np.isfinite(x.grad.numpy()).all()


def test_distances_refuse() -> None:
    with pytest.raises(RuntimeError, match="2D"):
        F.pdist(pf.ones(3))
    with pytest.raises(RuntimeError, match="non-negative"):
        F.pdist(pf.ones(3, 2), -1)
    with pytest.raises(RuntimeError, match="floating point"):
        F.cosine_similarity(pf.tensor([1]), pf.tensor([1]), 0)
    with pytest.raises(RuntimeError, match="batch dimensions"):
        F.bilinear(pf.ones(2, 3), pf.ones(3, 3), pf.ones(4, 3, 3))
    out = pf.zeros(2, 2)
    assert F.normalize(pf.eye(2) * 3, out=out) is out
    assert out.tolist() == [[1, 0], [0, 1]]


WITH_OUT: dict[str, Any] = {
    "avg_pool2d": lambda F, x, out: F.avg_pool2d(x, 2, out=out),
    "avg_pool3d": lambda F, x, out: F.avg_pool3d(x, 1, out=out),
    "gelu": lambda F, x, out: F.gelu(x, out=out),
    "hardshrink": lambda F, x, out: F.hardshrink(x, out=out),
    "linear": lambda F, x, out: F.linear(x, x[0, 0], out=out),
    "logsigmoid": lambda F, x, out: F.logsigmoid(x, out=out),
    "softplus": lambda F, x, out: F.softplus(x, out=out),
    "softshrink": lambda F, x, out: F.softshrink(x, out=out),
}


@pytest.mark.parametrize("name", WITH_OUT)
def test_results_go_to_out(name: str, device: str, torch: Any) -> None:
    call, x = WITH_OUT[name], np.linspace(-2, 2, 32, dtype=np.float32).reshape(2, 1, 4, 4)
    want = call(torch.nn.functional, torch.from_numpy(x), None)
    out = pf.zeros(*want.shape[::-1], device=device).permute(3, 2, 1, 0)
    assert call(F, pf.from_numpy(x).to(device), out) is out
    np.testing.assert_allclose(out.cpu().numpy(), want.numpy(), rtol=1e-5, atol=1e-6)
    with pytest.raises(RuntimeError, match=f"{name}.* don't support automatic differentiation"):
        call(F, pf.from_numpy(x).to(device).requires_grad_(), out)
