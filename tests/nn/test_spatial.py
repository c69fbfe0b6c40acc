"""Special cases of convolution, pooling and resampling; values are in samples/."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import pyframe as pf
import pyframe.nn.functional as F

nan, inf = float("nan"), float("inf")


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
