"""Libraries that are written for PyTorch, in a page: their wheels as PyPI has them, from a folder
of the site. For `bash scripts/test_elsewhere libraries`; the suite does not collect this file."""

from __future__ import annotations

import subprocess
import sys

from .test_element import FILES, Page, Site, page as page, shared as shared, site as site

# What others ask for comes before them.
NAMES = """typing_extensions setuptools einops torchinfo lightning-utilities torchmetrics
    vit-pytorch ema-pytorch rotary-embedding-torch""".split()
THEIRS = """
import torch
import torch.nn.functional as F
from einops import rearrange
from ema_pytorch import EMA
from rotary_embedding_torch import RotaryEmbedding
from torchinfo import summary
from torchmetrics.classification import MulticlassAccuracy
from vit_pytorch import ViT

net = ViT(image_size=8, patch_size=4, num_classes=3, dim=8, depth=1, heads=2, mlp_dim=16)
average, accuracy = EMA(net, beta=0.9), MulticlassAccuracy(3)
optimizer, losses = torch.optim.Adam(net.parameters(), 1e-2), []
x, y = torch.randn(6, 3, 8, 8), torch.arange(6) % 3
for _ in range(20):
    optimizer.zero_grad()
    loss = F.cross_entropy(net(x), y)
    loss.backward()
    optimizer.step()
    average.update()
    losses.append(loss.item())
accuracy.update(net(x), y)
turned = RotaryEmbedding(dim=4).rotate_queries_or_keys(torch.randn(1, 2, 5, 4))
assert losses[-1] < losses[0] and 0 <= accuracy.compute().item() <= 1
assert rearrange(turned, "b h n d -> b n (h d)").shape == (1, 5, 8)
SIZE = summary(net, verbose=0).total_params // 100
"""


def test_libraries_train_in_a_page(site: Site, page: Page) -> None:
    command = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--dest"]
    subprocess.run([*command, site.root / "wheels", *NAMES], check=True)
    wheels = [next((site.root / "wheels").glob(f"{n.replace('-', '_')}-*.whl")) for n in NAMES]
    program = FILES["points.py"].replace("from helper", "from theirs")
    site.write({"library2.py": program, "theirs.py": THEIRS})
    listed = " ".join(f"wheels/{wheel.name}" for wheel in wheels)
    page.add(f'src="library2.py" files="theirs.py" packages="{listed}" device="cpu"')
    assert page.run("return [el.errors, el.spec?.output.size]") == [[], 50]
