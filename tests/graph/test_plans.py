"""What networks would move and hold on a large GPU, which nobody needs to have: the most it may be.

Who lowers a count lowers its bound. `scripts/bench/run.py --planned` prints all of them.
"""

from __future__ import annotations

import pytest

from pyframe.tools.bench.plans import PLANS, Plan

# dispatches, MB moved, GFLOPs, MB at once, texts, thousands of letters
BOUNDS = {
    "ResNet-18, 32 images, trained": (196, 10600, 382, 1640, 113, 310),
    "ResNet-18, 32 images, called": (32, 3050, 119, 363, 26, 83),
    "MobileNet v2, 32 images, trained": (419, 14700, 67, 2780, 227, 630),
    "MobileNet v2, 32 images, called": (71, 7080, 26, 725, 42, 143),
    "autoencoder, 64 digits, trained": (42, 172, 0.45, 62, 37, 105),
    "autoencoder, 400 digits, called": (11, 875, 1.6, 330, 11, 34),
    "UNet, 8 images of 128 x 128, trained": (205, 9460, 606, 1860, 123, 310),
    "convolution 512 -> 512 of 7 x 7, batch 64, trained": (7, 1320, 30, 645, 7, 12),
    "LSTM, 2 layers of 512, 32 x 64": (557, 3590, 119, 567, 351, 1110),
    "GPT-2 small, 2 layers, 4 x 1024": (89, 17600, 1390, 4320, 52, 130),
}


@pytest.mark.parametrize("plan", PLANS[:-1], ids=lambda plan: plan.name)
def test_plans(plan: Plan) -> None:
    t = plan.totals()
    counts = (t.dispatches, t.bytes_moved / 1e6, t.flops / 1e9, t.peak_bytes / 1e6, t.texts,
              t.letters / 1e3)  # fmt: skip
    assert all(n <= most for n, most in zip(counts, BOUNDS[plan.name], strict=True)), counts
    assert t.workgroups >= t.dispatches
