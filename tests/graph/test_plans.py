"""What networks would move and hold on a large GPU, which nobody needs to have: the most it may be.

Who lowers a count lowers its bound. `scripts/bench/run.py --planned` prints all of them.
"""

from __future__ import annotations

from typing import Any

import pytest

import pyframe as pf
import pyframe.nn.functional as F
from pyframe import nn
from pyframe.codegen.wgsl import generate
from pyframe.runtime.offline import offline_device
from pyframe.tools.bench.plans import GPT2, LARGE_GPU, PLANS, BenchBlock, BenchModel
from pyframe.tools.cost import totals
from pyframe.utils.checkpoint import checkpoint
from pyframe.vision.transforms.v2 import functional as v2

# dispatches, MB moved, GFLOPs, MB at once, texts, thousands of letters
BOUNDS = {
    "ResNet-18, 32 images, trained": (184, 5500, 354, 785, 99, 408),
    "ResNet-18, 32 images, called": (23, 856, 120, 224, 20, 112),
    "MobileNet v2, 32 images, trained": (378, 11460, 66.5, 1760, 162, 642),
    "MobileNet v2, 32 images, called": (54, 1780, 25.0, 282, 30, 215),
    "autoencoder, 64 digits, trained": (39, 28.9, 0.272, 6.9, 30, 98.5),
    "autoencoder, 400 digits, called": (8, 29.9, 0.64, 9.82, 8, 31.7),
    "UNet, 8 images of 128 x 128, trained": (193, 6140, 580, 1140, 94, 371),
    "convolution 512 -> 512 of 7 x 7, batch 64, trained": (7, 105, 30.2, 48.6, 7, 18),
    "LSTM, 2 layers of 512, 32 x 64": (552, 3200, 118, 423, 44, 175),
    "GPT-2 small, 2 layers, 4 x 1024": (75, 10100, 1430, 2230, 42, 155),
}


@pytest.fixture(autouse=True)
def values_that_do_not_matter(monkeypatch: pytest.MonkeyPatch) -> None:
    """Half of the time would go into drawing weights, with which nothing is computed."""
    monkeypatch.setattr(nn.init.values, "skipped", True)


@pytest.mark.parametrize("plan", PLANS[:-1], ids=lambda plan: plan.name)
def test_plans(plan: BenchModel) -> None:
    t = plan.totals()
    counts = (t.dispatches, t.bytes_moved / 1e6, t.flops / 1e9, t.peak_bytes / 1e6, t.texts,
              t.letters / 1e3)  # fmt: skip
    assert all(n <= most for n, most in zip(counts, BOUNDS[plan.name], strict=True)), counts
    assert t.workgroups >= t.dispatches


@pytest.mark.parametrize("reentrant", [False, True])
def test_checkpoints_lower_what_is_held(reentrant: bool) -> None:
    """A step keeps each block's input, not what is between: that isn't found to be there."""

    class Again(BenchBlock):
        def forward(self, x: pf.Tensor) -> pf.Tensor:
            return checkpoint(super().forward, x, use_reentrant=reentrant)

    def peak(kind: type[BenchBlock], layers: int) -> int:
        def made() -> nn.Module:
            blocks = [kind(256, 4) for _ in range(layers)]
            return nn.Sequential(nn.Embedding(64, 256), *blocks, nn.Linear(256, 64))

        def loss(y: pf.Tensor, of: pf.Tensor) -> pf.Tensor:
            return F.cross_entropy(y.flatten(0, 1), of)

        return BenchModel("", made, (4, 512), text=True, loss=loss).totals().peak_bytes

    kept, again = (peak(kind, 3) - peak(kind, 1) for kind in (BenchBlock, Again))
    weights = 2 * 12 * 256**2 * 4 * 4  # of two layers, with gradients and moments
    values = 2 * 4 * 512 * 256 * 4  # what comes into the layers
    most = 3.1 if reentrant else 1.1
    assert again < weights + most * values < weights + 12 * values < kept


def gpt_in_bfloat16(device: Any) -> Any:
    net = GPT2(50257, 1024, 768, 1, 12).to(device)
    optimizer = pf.optim.AdamW(net.parameters(), lr=1e-3)

    def step(x: pf.Tensor) -> pf.Tensor:
        optimizer.zero_grad()
        with pf.autocast(device.type, dtype=pf.bfloat16):
            loss = F.cross_entropy(net(x), x.flatten())
        loss.backward()
        optimizer.step()
        return loss.detach()

    return step, pf.zeros(4, 1024, dtype=pf.int64, device=device)


def images(device: Any) -> Any:
    def step(x: pf.Tensor) -> Any:
        y = v2.resize(x[pf.tensor([1, 0, 2], device=device)], [112, 112], antialias=True)
        padded = v2.pad(v2.center_crop(v2.adjust_brightness(y, 1.2), [99, 101]), [2, 1])
        gray = v2.rgb_to_grayscale(v2.gaussian_blur(v2.horizontal_flip(y), [3, 3]))
        return padded, gray, y.amax((2, 3)), y.amax(1), y.float().mean((2, 3)).to(pf.uint8)

    return step, pf.zeros(8, 3, 224, 200, dtype=pf.uint8, device=device)


def masks(device: Any) -> Any:
    def step(x: pf.Tensor) -> Any:
        m = (x > 0) & (x.T < 1)
        found = (
            pf.isin((x * 9).int(), (x[0] * 9).int()),
            (x @ x.T) > 0,
            m[pf.tensor([1, 5], device=device)],
        )
        return found, m.any(1), m.all(0), m.cumsum(-1) > 3, x.softmax(-1) > 0.1, pf.tril(m)

    return step, pf.zeros(128, 128, device=device)


# how many kernels share words by atomics, at most: those whose rows begin within words, and one
# that has a workgroup for each result
SHARED = {"GPT": (gpt_in_bfloat16, 2), "images": (images, 1), "masks": (masks, 0)}


@pytest.mark.parametrize("name", SHARED)
def test_few_kernels_share_words(name: str) -> None:
    make, most = SHARED[name]
    with offline_device(LARGE_GPU) as device:
        fn, x = make(device)
        step = pf.compile(fn)
        step(x)
        kernels = [k for p in step.programs for k in p.kernels]
        packed = [k for k in kernels if any(s.dtype.packed > 1 for s in k.stores)]
        atomic = [k for k in packed if "atomicXor" in generate(k, LARGE_GPU).code]
    assert len(packed) >= 5
    assert len(atomic) <= most, [generate(k, LARGE_GPU).label for k in atomic]


@pytest.mark.parametrize(("rows", "width", "few"), [(50, 8, True), (50257, 768, False)])
def test_rows_are_looked_for_where_they_are_few(rows: int, width: int, few: bool) -> None:
    """Of a GPT-2's embedding each element of the gradient would look at each token."""
    with offline_device(LARGE_GPU) as device:
        index = pf.zeros(1024, dtype=pf.int64, device=device)
        source = pf.zeros(1024, width, device=device)

        @pf.compile
        def f(base: pf.Tensor) -> list[pf.Tensor]:
            return [base.index_add(0, index, source), base.index_copy(0, index, source)]

        f(pf.zeros(rows, width, device=device))
        (program,) = f.programs
    names = {k.routine.name for k in program.kernels if k.routine is not None}
    assert ({"add_few_rows", "put_few_rows"} <= names) == few
    assert ("add_segments" in names) != few


# FLOPs for each element of the input's gradient, at most: nothing is multiplied by zeros between
# windows, or compared with windows that don't reach an element
GRADIENTS = {
    "max_pool2d, 2 x 2": (lambda x: F.max_pool2d(x, 2), 3.1),
    "max_pool2d, 3 x 3 by 2": (lambda x: F.max_pool2d(x, 3, 2, 1), 25),
    "max_pool3d, 3 x 3 x 3 by 2": (lambda x: F.max_pool3d(x.reshape(4, 16, 16, 16, 16), 3, 2), 42),
    "avg_pool2d, 3 x 3 by 2": (lambda x: F.avg_pool2d(x, 3, 2, 1), 12),
    "conv2d, 3 x 3 by 2": (lambda x: conv(x, 2), 133),
    "conv2d, 3 x 3 by 2, dilated": (lambda x: conv(x, 2, 2), 75),
    "conv2d, 3 x 3 by 3, dilated by 2": (lambda x: conv(x, 3, 2), 39),
    "conv3d, 3 x 3 x 3 by 3, dilated by 2": (
        lambda x: conv(x.reshape(4, 16, 16, 16, 16), 3, 2),
        59,
    ),
}


def conv(x: pf.Tensor, stride: int, dilation: int = 1) -> pf.Tensor:
    k = x.ndim - 2
    w = pf.zeros(16, 16, *(3,) * k, device=x.device)
    return getattr(F, f"conv{k}d")(x, w, None, stride, dilation, dilation)


@pytest.mark.parametrize("name", GRADIENTS)
def test_gradients_of_windows_that_step(name: str) -> None:
    fn, most = GRADIENTS[name]
    with offline_device(LARGE_GPU) as device:

        @pf.compile
        def f(x: pf.Tensor) -> pf.Tensor:
            x = x.detach().requires_grad_()
            y = fn(x)
            return pf.autograd.grad(y, x, pf.ones_like(y))[0]

        f(pf.zeros(4, 16, 64, 64, device=device))
        found = totals(f.programs, LARGE_GPU)
    assert found.flops / (4 * 16 * 64 * 64) <= most


@pytest.mark.parametrize(("n", "passes"), [(64, 1), (256, 3), (4096, 3), (65536, 5)])
def test_passes_of_a_fourier_transform(n: int, passes: int) -> None:
    """A product for each factor of the length, which writes to where its results belong, and what
    they are multiplied with in between."""
    with offline_device(LARGE_GPU) as device:
        f = pf.compile(lambda x: pf.fft.fft(x))
        f(pf.zeros((1 << 20) // n, n, dtype=pf.complex64, device=device))
        found = totals(f.programs, LARGE_GPU)
    assert found.dispatches == passes
    assert found.bytes_moved <= passes * 1.03 * (1 << 24)
