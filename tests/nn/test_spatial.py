"""Bad inputs and special cases of convolution, pooling and resampling; values are in samples/, and
what layers pass on to these functions is refused in test_layers.py."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import pyframe as pf
import pyframe.nn.functional as F

nan, inf = float("nan"), float("inf")


def zeros(*shape: int, **kw: Any) -> Any:
    return pf.zeros(*shape, **kw)


REFUSED: list[tuple[Any, type[Exception], str]] = [
    (lambda: F.conv1d(zeros(1, 2, 5), zeros(3, 2, 2), stride=1.5), TypeError, "stride must be"),
    (lambda: F.conv2d(zeros(1, 2, 5, 5), zeros(3, 2, 2, 2), stride=(1, 2, 3)), RuntimeError, "2 i"),
    (lambda: F.conv2d(zeros(1, 2, 5, 5), zeros(3, 2, 2, 2), zeros(2)), RuntimeError, "bias"),
    (lambda: F.conv_transpose1d(zeros(1, 2, 5), zeros(3, 2, 2)), RuntimeError, "3 channels"),
    (lambda: F.conv_transpose1d(zeros(1, 2, 2), zeros(2, 3, 2), padding=3), RuntimeError,
     "Output size is too small"),
    (lambda: F.max_pool1d(zeros(1, 1, 4, dtype=pf.bool), 2), RuntimeError, "bool"),
    (lambda: F.avg_pool3d(zeros(1, 1, 4, 4, 2), 3, padding=1), RuntimeError, "the kernel's size"),
    (lambda: F.adaptive_max_pool1d(zeros(2, 4, dtype=pf.int64), 2), RuntimeError, "int64"),
    (lambda: F.fractional_max_pool2d(zeros(1, 4, 4), 2), ValueError, "requires specifying"),
    (lambda: F.fractional_max_pool2d(zeros(1, 4, 4), 2, 4), RuntimeError, "too large"),
    (lambda: F.fractional_max_pool2d(zeros(1, 4, 4), 2, 2, _random_samples=zeros(1, 1, 3)),
     RuntimeError, "_random_samples"),
    (lambda: F.max_unpool1d(zeros(1, 2), zeros(1, 2, dtype=pf.int64), 2, output_size=(9,)),
     ValueError, "invalid output_size"),
    (lambda: F.unfold(zeros(1, 2, 3, 3), 0), RuntimeError, "greater than zero"),
    (lambda: F.pad(zeros(2, 3), (1,)), RuntimeError, "divisible by 2"),
    (lambda: F.pad(zeros(2, 3), (-2, -2)), RuntimeError, "negative output size"),
    (lambda: F.pad(zeros(1, 2, 3), (4, 0), "circular"), RuntimeError, "at most 3"),
    (lambda: F.pad(zeros(1, 3), (-3, 1), "circular"), RuntimeError, "an empty dimension"),
    (lambda: F.pad(zeros(3), (1, 0), "replicate"), NotImplementedError, "last 1, 2 or 3 dims"),
    (lambda: F.pad(zeros(2, 3), (1, 0), "mirror"), NotImplementedError, "mirror"),
    (lambda: F.pad(zeros(2, 3), (1, 0), "reflect", 2.0), ValueError, "value argument"),
    (lambda: F.interpolate(zeros(1, 1, 3), 2, 2), ValueError, "only one of"),
    (lambda: F.interpolate(zeros(1, 1, 3), (2, 2)), ValueError, "same number of spatial"),
    (lambda: F.interpolate(zeros(1, 1, 3), 2.5), TypeError, "ints"),
    (lambda: F.interpolate(zeros(1, 1, 3), 2, mode="bilinear"), NotImplementedError, "4D"),
    (lambda: F.interpolate(zeros(1, 1, 3), 2, mode="sinc"), NotImplementedError, "sinc"),
    (lambda: F.interpolate(zeros(1, 1, 3), 2, align_corners=True), ValueError, "align_corners"),
    (lambda: F.interpolate(zeros(1, 1, 3), 2, antialias=True), ValueError, "Anti-alias"),
    (lambda: F.interpolate(zeros(1, 1, 3), scale_factor=0.1), RuntimeError, "greater than 0"),
    (lambda: F.interpolate(zeros(1, 1, 3, dtype=pf.int8), 2, mode="linear"), RuntimeError, "int8"),
    (lambda: F.grid_sample(zeros(1, 1, 2, 2), zeros(1, 2, 2, 3)), RuntimeError, "last of size 2"),
    (lambda: F.grid_sample(zeros(1, 1, 2, 2), zeros(2, 2, 2, 2)), RuntimeError, "batch size"),
    (lambda: F.grid_sample(zeros(1, 1, 2, 2), zeros(1, 2, 2, 2), "cubic"), ValueError, "bicubic"),
    (lambda: pf.grid_sampler_3d(zeros(1, 1, 2, 2), zeros(1, 2, 2, 2), 0, 0, True), RuntimeError,
     "5D"),
    (lambda: F.affine_grid(zeros(1, 2, 3), (1, 1, 2, 2, 2)), ValueError, "1x3x4"),
    (lambda: F.pixel_unshuffle(zeros(1, 3, 2), 2), RuntimeError, "divides height"),
]  # fmt: skip


@pytest.mark.parametrize("case", REFUSED, ids=range(len(REFUSED)))
def test_refused(case: Any) -> None:
    call, error, words = case
    with pytest.raises(error, match=words):
        call()


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


def test_unpooling_refuses_an_index_outside(gpu: str) -> None:
    out = F.max_unpool1d(pf.ones(1, 2).to(gpu), pf.tensor([[0, 4]]).to(gpu), 2)
    with pytest.raises(RuntimeError, match="expected 0 to 3"):
        out.cpu()


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


def test_random_places_differ_and_compiled_functions_agree(device: str) -> None:
    x = pf.rand(2, 3, 9, 9).to(device)
    assert F.fractional_max_pool2d(x, 2, 5).shape == (2, 3, 5, 5)

    def step(x: Any, theta: Any) -> Any:
        y = F.interpolate(F.pad(x, (1, 2, 0, 1), "reflect"), scale_factor=1.5, mode="bilinear")
        y = F.grid_sample(y, F.affine_grid(theta, (2, 3, 6, 6)))
        values, index = F.max_pool2d(y, 2, return_indices=True)
        return F.adaptive_max_pool2d(F.max_unpool2d(values, index, 2), 4)

    theta = pf.tensor([[[0.9, 0.1, 0.0], [-0.1, 0.8, 0.1]]]).expand(2, 2, 3).to(device)
    want = step(x, theta).cpu().numpy()
    compiled = pf.compile(step)
    for _ in range(3):
        np.testing.assert_allclose(compiled(x, theta).cpu().numpy(), want, 1e-5, 1e-6)
