"""What networks would move and hold on a large GPU, which nobody needs to have: the most it may be.

Who lowers a count lowers its bound. `scripts/bench/run.py --planned` prints all of them.
"""

from __future__ import annotations

import pytest

from pyframe.tools.bench.plans import PLANS, Plan

# dispatches, MB moved, GFLOPs, MB at once, texts, thousands of letters
BOUNDS = {
    "ResNet-18, 32 images, trained": (195, 6760, 359, 1230, 110, 297),
    "ResNet-18, 32 images, called": (23, 852, 119, 224, 20, 76.3),
    "MobileNet v2, 32 images, trained": (401, 14370, 66.5, 2780, 229, 572),
    "MobileNet v2, 32 images, called": (54, 1800, 25.3, 286, 32, 107),
    "autoencoder, 64 digits, trained": (39, 29.3, 0.28, 6.97, 33, 94.2),
    "autoencoder, 400 digits, called": (8, 29.8, 0.64, 9.77, 8, 28.5),
    "UNet, 8 images of 128 x 128, trained": (201, 7160, 588, 1490, 119, 299),
    "convolution 512 -> 512 of 7 x 7, batch 64, trained": (7, 110, 30, 48.3, 7, 12),
    "LSTM, 2 layers of 512, 32 x 64": (557, 3590, 119, 567, 351, 1070),
    "GPT-2 small, 2 layers, 4 x 1024": (89, 17600, 1390, 4400, 52, 126),
}


@pytest.mark.parametrize("plan", PLANS[:-1], ids=lambda plan: plan.name)
def test_plans(plan: Plan) -> None:
    t = plan.totals()
    counts = (t.dispatches, t.bytes_moved / 1e6, t.flops / 1e9, t.peak_bytes / 1e6, t.texts,
              t.letters / 1e3)  # fmt: skip
    assert all(n <= most for n, most in zip(counts, BOUNDS[plan.name], strict=True)), counts
    assert t.workgroups >= t.dispatches
