"""nn.functional: bad inputs, arguments and effects that a row of the op suite does not show."""

from __future__ import annotations

import inspect
import math
import warnings
from typing import Any

import numpy as np
import pytest
from compared import alike
from refused import calls

import pyframe as pf
import pyframe.nn.functional as F

nan, inf = math.nan, math.inf


def rng() -> np.random.Generator:
    return np.random.default_rng(0)


def same(torch: Any, call: Any, arrays: Any, device: str = "cpu") -> None:
    """`call(F, *tensors)` gives what it gives with PyTorch's, leaves its operands alike, and has
    the same gradients."""
    ours, theirs = [
        [make(np.array(a)).requires_grad_(np.array(a).dtype.kind == "f") for a in arrays]
        for make in (lambda a: pf.from_numpy(a).to(device), torch.from_numpy)
    ]
    got, want = call(F, *ours), call(torch.nn.functional, *theirs)
    alike(got, want)
    weights = np.cos(np.arange(want.numel(), dtype=np.float32)).reshape(want.shape)
    (got * pf.from_numpy(weights).to(device)).sum().backward()
    (want * torch.from_numpy(weights)).sum().backward()
    for x, y in zip(ours, theirs, strict=True):
        alike(x, y)
        if y.grad is not None:
            alike(x.grad, y.grad)


def floats(*values: Any) -> np.ndarray:
    return np.array(values, np.float32)


def ctc(t: int, s: int, **kw: Any) -> Any:
    """A loss of t steps and up to s labels, some of which do not fit, and its arrays."""
    lengths = (t, t - 1, 2), (s, 1, 2)
    steps = rng().standard_normal((t, 3, 6)).astype(np.float32)
    return (lambda f, x, y: f.ctc_loss(f.log_softmax(x, 2), y, *lengths, **kw),
            (steps, rng().integers(1, 6, (3, s))))  # fmt: skip


# --- losses

VALUES: dict[str, Any] = {  # a call of nn.functional and the arrays that it takes
    "binary_cross_entropy at 0 and 1": (
        lambda f, x, y: f.binary_cross_entropy(x, y),
        (floats(0, 1, 0, 1, 0.5), floats(0, 1, 1, 0, 0.25))),
    "gaussian_nll_loss, whose gradient passes small variances": (
        lambda f, x, y, v: f.gaussian_nll_loss(x, y, v, eps=0.1),
        (floats(1, 2), floats(1.5, 1), floats(1e-9, 2))),
    "ctc_loss of targets that do not fit": ctc(5, 4, zero_infinity=True, reduction="none"),
    "ctc_loss at length": ctc(40, 12),
    **{f"ctc_loss of no labels or too little time, {lengths}": (
        lambda f, x, y, lengths=lengths: f.ctc_loss(x, y, *lengths, reduction="none"),
        (rng().standard_normal((4, 2, 3)).astype(np.float32), np.ones((2, 1), np.int64)))
       for lengths in (((4, 2), (0, 0)), ((0, 3), (0, 1)), ((0, 3), (1, 1)))},
}  # fmt: skip


@pytest.mark.parametrize("name", VALUES)
def test_values(name: str, torch: Any) -> None:
    same(torch, *VALUES[name])


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
    with warnings.catch_warnings(record=True, action="always") as told:
        WARN[what](pf.rand(2, 3, 4))
    assert {w.filename for w in told} == {__file__}


def test_a_warning_from_within_a_layer_points_at_the_layer() -> None:
    with pytest.warns(UserWarning, match="target size") as told:
        pf.nn.MSELoss()(pf.ones(2), pf.ones(1))
    assert told[0].filename == inspect.getfile(pf.nn.MSELoss)


# --- activations


def test_inplace_twins_write_their_input(torch: Any) -> None:
    a = rng().standard_normal((3, 4)).astype(np.float32)
    for name in "relu_ elu_ selu_ celu_ leaky_relu_ hardtanh_ rrelu_".split():
        x, y = pf.from_numpy(a.copy()), torch.from_numpy(a.copy())
        assert getattr(F, name)(x) is x
        getattr(torch.nn.functional, name)(y)
        alike(x, y)
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
    assert logits.grad.abs().sum().item() > 0


# --- normalization


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
    x = pf.ones(4, 5, 4, 4, device=device)
    z = pf.randn(100000, device=device)
    y = F.alpha_dropout(z, 0.3, training=True).cpu().numpy()
    assert abs(y.mean()) < 0.02
    assert abs(y.std() - 1) < 0.02
    assert F.alpha_dropout(z) is z
    assert F.feature_alpha_dropout(x, 1.0, training=True).sum().item() == 0
    assert F.dropout(z, 0.5, inplace=True) is z


def test_dropout_at_the_top_level() -> None:
    x = pf.ones(50, 4, 9)
    dropped = pf.feature_dropout(x, 0.5, True).numpy()
    assert (dropped == dropped[..., :1]).all()
    assert pf.dropout(x, 0.5, train=False) is x
    out, kept = pf.native_dropout(x, 0.5, True)
    assert ((out.numpy() == 2) == kept.numpy()).all()
    assert pf.native_dropout(x, 0.5, False)[1].all().item()


# --- attention


def test_attention_of_nothing_is_0(device: str) -> None:
    q = pf.randn(2, 3, 4, device=device, requires_grad=True)
    mask = pf.tensor([[True, False, True], [False] * 3, [True] * 3], device=device)
    out = F.scaled_dot_product_attention(q, q, q, mask)
    assert out[:, 1].abs().sum().item() == 0
    out.sum().backward()
    assert math.isfinite(q.grad.sum().item())


# --- distances


def test_distances_of_equal_points_have_gradients() -> None:
    for fn in (F.pdist, lambda x: F.pairwise_distance(x, x, eps=0.0), F.normalize):
        x = pf.zeros(3, 2, requires_grad=True)
        fn(x).sum().backward()
        assert np.isfinite(x.grad.numpy()).all()


WITH_OUT = """
avg_pool2d(x, 2, out=out) | avg_pool3d(x, 1, out=out) | gelu(x, out=out) | hardshrink(x, out=out)
linear(x, x[0, 0], out=out) | logsigmoid(x, out=out) | softplus(x, out=out) | softshrink(x, out=out)
"""


@pytest.mark.parametrize("row", calls(WITH_OUT))
def test_results_go_to_out(row: str, device: str, torch: Any) -> None:
    def call(f: Any, x: Any, out: Any) -> Any:
        return eval(row, {**vars(f), "x": x, "out": out})

    x, name = np.linspace(-2, 2, 32, dtype=np.float32).reshape(2, 1, 4, 4), row.partition("(")[0]
    want = call(torch.nn.functional, torch.from_numpy(x), None)
    out = pf.zeros(*want.shape[::-1], device=device).permute(3, 2, 1, 0)
    assert call(F, pf.from_numpy(x).to(device), out) is out
    np.testing.assert_allclose(out.cpu().numpy(), want.numpy(), rtol=1e-5, atol=1e-6)
    with pytest.raises(RuntimeError, match=f"{name}.* don't support automatic differentiation"):
        call(F, pf.from_numpy(x).to(device).requires_grad_(), out)


# --- convolution, pooling and resampling


def test_functions_of_pyframe() -> None:
    x, out = pf.ones(1, 4, 4, 4), pf.empty(0)
    assert pf.max_pool2d(x, 2).shape == (1, 4, 2, 2)
    assert pf.constant_pad_nd(x, (1, 1), out=out) is out
    assert out.shape == (1, 4, 4, 6)


def test_pooling_passes_nan_on_and_never_picks_padding(device: str) -> None:
    x = pf.tensor([[[1.0, nan, 3.0, -inf, -inf, -inf]]]).to(device)
    values, index = F.max_pool1d(x, 2, return_indices=True)
    np.testing.assert_array_equal(values.cpu().numpy(), [[[nan, 3, -inf]]])
    np.testing.assert_array_equal(index.cpu().numpy(), [[[1, 2, 4]]])
    values, index = F.max_pool1d(x[..., 3:], 3, 1, 1, return_indices=True)
    np.testing.assert_array_equal(index.cpu().numpy(), [[[0, 0, 1]]])


def test_unpooling_of_overlapping_windows(device: str) -> None:
    x = pf.tensor([[[0.0, 5.0, 0.0]]]).to(device)
    values, index = F.max_pool1d(x, 2, 1, return_indices=True)  # both windows have the same largest
    values.requires_grad_()
    out = F.max_unpool1d(values, index, 2, 1)
    np.testing.assert_array_equal(out.detach().cpu().numpy(), [[[0, 5, 0]]])
    out.sum().backward()
    np.testing.assert_array_equal(values.grad.cpu().numpy(), [[[1, 1]]])


def test_grid_sample_of_nan_and_far_away(device: str) -> None:
    x = pf.tensor([[[[1.0, inf], [3.0, 4.0]]]]).to(device)
    grid = pf.tensor([[[[nan, 0.0], [9.0, 9.0], [-1.0, 1.0]]]]).to(device)
    out = F.grid_sample(x, grid, align_corners=True)
    np.testing.assert_array_equal(out.cpu().numpy(), [[[[0, 0, 3]]]])


def test_half_precision_and_complex_on_the_cpu(torch: Any) -> None:
    rng = np.random.default_rng(0)
    x = rng.standard_normal((2, 4, 6, 6)).astype(np.float32)
    w = rng.standard_normal((3, 4, 3, 3)).astype(np.float32)
    for dtype in ("float16", "bfloat16"):
        for call in (
            lambda t, f, a, b: f.conv2d(a, b),
            lambda t, f, a, b: f.conv_transpose2d(a, b.transpose(0, 1)[:4]),
            lambda t, f, a, b: f.interpolate(a, (9, 4), mode="bicubic"),
            lambda t, f, a, b: f.adaptive_avg_pool2d(a, 4),
        ):
            got = call(pf, F, *(pf.tensor(v).to(getattr(pf, dtype)) for v in (x, w)))
            # PyTorch's own half precision rounds in between on some processors: this rounds once
            half = getattr(torch, dtype)
            rounded = (torch.tensor(v).to(half).double() for v in (x, w))
            want = call(torch, torch.nn.functional, *rounded).to(half)
            assert got.dtype.name == dtype
            close = {"float16": 4e-3, "bfloat16": 3e-2}[dtype]
            np.testing.assert_allclose(got.float().numpy(), want.float().numpy(), close, close)
    z, v = x + 1j * x[::-1], w + 1j * w[::-1]
    a, b = pf.tensor(z, requires_grad=True), pf.tensor(v, requires_grad=True)
    c, d = torch.tensor(z, requires_grad=True), torch.tensor(v, requires_grad=True)
    pf.view_as_real(F.conv2d(a, b, padding=1)).sum().backward()
    torch.view_as_real(torch.conv2d(c, d, padding=1)).sum().backward()
    np.testing.assert_allclose(a.grad.numpy(), c.grad.numpy(), 1e-4, 1e-4)
    np.testing.assert_allclose(b.grad.numpy(), d.grad.numpy(), 1e-4, 1e-4)


@pytest.mark.parametrize("scale", [1.1, 2.1, (1.3, 2.2), (0.7, 1.2), 3.1])
@pytest.mark.parametrize("mode", ["nearest", "nearest-exact", "bilinear", "bicubic", "antialias"])
def test_factors_that_keep_or_double_a_size(torch: Any, mode: str, scale: Any) -> None:
    """PyTorch copies what keeps its size, in the linear modes and the one of nearest pixels."""
    more = {"mode": mode} if mode != "antialias" else {"mode": "bilinear", "antialias": True}
    compiled = pf.compile(lambda x: F.interpolate(x, scale_factor=scale, **more))
    for height, width in ((3, 3), (4, 9), (5, 12), (9, 3), (3, 20)):
        x = np.random.default_rng(height).standard_normal((1, 2, height, width)).astype(np.float32)
        want = torch.nn.functional.interpolate(torch.tensor(x), scale_factor=scale, **more).numpy()
        y = pf.tensor(x, requires_grad=True)
        out = F.interpolate(y, scale_factor=scale, **more)  # a gradient is that of what is given
        got = compiled(pf.tensor(x)) if height == 4 else out.detach()
        for found in (got, out.detach()):
            np.testing.assert_allclose(found.numpy(), want, 1e-4, 1e-5)
        out.backward(got)
        assert (y * y.grad).sum().item() == pytest.approx((out * got).sum().item(), rel=1e-4)
    for k, what in ((1, "nearest"), (1, "linear"), (3, "nearest"), (3, "trilinear"), (2, "area")):
        x = np.random.default_rng(k).standard_normal((1, 2, *[5] * k)).astype(np.float32)
        a, b = (t.nn.functional.interpolate(t.tensor(x), scale_factor=1.1, mode=what).numpy()
                for t in (torch, pf))  # fmt: skip
        np.testing.assert_allclose(b, a, 1e-4, 1e-5)
