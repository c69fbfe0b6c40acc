"""What is on a photo: EfficientNet-Lite0 (arXiv 1905.11946), which knows 1000 kinds of things.

`scripts/get_photo` fetches its weights, and makes the web page, which needs no Python. Without a
page it is `python examples/photo.py cat.jpg`.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import pyframe as pf
from pyframe import Tensor, nn
from pyframe.vision import transforms
from pyframe.vision.io import ImageReadMode, read_image
from pyframe.web import Bars, Demo, Image

HERE = Path(__file__).parent
NAMES = (HERE / "data" / "imagenet.txt").read_text("utf-8").splitlines()
WEIGHTS = HERE.parent / "build" / "photo" / "photo.safetensors"

# The stages: channels, blocks, size of the kernel, stride of the first block, times wider within.
STAGES = [
    (16, 1, 3, 1, 1), (24, 2, 3, 2, 6), (40, 2, 5, 2, 6), (80, 3, 3, 2, 6), (112, 3, 5, 1, 6),
    (192, 4, 5, 2, 6), (320, 1, 3, 1, 6),
]  # fmt: skip


def conv(a: int, b: int, size: int = 1, stride: int = 1, groups: int = 1) -> nn.Sequential:
    """A convolution that is padded as TensorFlow does it, the odd pixel at the end."""
    pad = size - stride
    before, after = pad // 2, pad - pad // 2
    return nn.Sequential(
        nn.ZeroPad2d((before, after, before, after)),
        nn.Conv2d(a, b, size, stride, groups=groups, bias=False),
        nn.BatchNorm2d(b, eps=1e-3),
    )


class Block(nn.Module):
    """Widens, looks at each channel by itself, narrows; adds to its input where that fits."""

    def __init__(self, a: int, b: int, size: int, stride: int, times: int) -> None:
        super().__init__()
        wide = times * a
        widen = [conv(a, wide), nn.ReLU6()] if times > 1 else []
        look = [conv(wide, wide, size, stride, groups=wide), nn.ReLU6()]
        self.change = nn.Sequential(*widen, *look, conv(wide, b))
        self.adds = stride == 1 and a == b

    def forward(self, x: Tensor) -> Tensor:
        """(N, a, H, W) -> (N, b, H / stride, W / stride)."""
        return x + self.change(x) if self.adds else self.change(x)


def make_net() -> nn.Sequential:
    """4.65 million weights; from colours between 0 and 1 to the scores of 1000 things."""
    layers = [transforms.Normalize([127 / 255] * 3, [128 / 255] * 3), conv(3, 32, 3, 2), nn.ReLU6()]
    before = 32
    for channels, blocks, size, stride, times in STAGES:
        for i in range(blocks):
            layers.append(Block(before, channels, size, 1 if i else stride, times))
            before = channels
    layers += [conv(320, 1280), nn.ReLU6(), nn.AdaptiveAvgPool2d(1), nn.Flatten()]
    return nn.Sequential(*layers, nn.Linear(1280, 1000))


def make_model() -> pf.Model:
    """A network that knows nothing until it has loaded its weights."""
    return pf.Model(make_net())


demo = Demo(
    make_model,
    Image(224, 224),
    Bars(tuple(NAMES), top=5),
    title="What is on your photo?",
    description="Drop a photo: the network says which of 1000 things it sees. The photo stays on "
    "your computer.",
)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("photos", nargs="+", type=Path)
    parser.add_argument("--weights", type=Path, default=WEIGHTS)
    parser.add_argument("--device", default="auto", help="cpu, gpu or auto (default: auto)")
    args = parser.parse_args()

    if not args.weights.is_file():
        parser.error(f"{args.weights} is missing: scripts/get_photo gets it")
    model = make_model().load(args.weights).to(args.device)
    middle = transforms.Compose([transforms.Resize(224), transforms.CenterCrop(224)])
    for path in args.photos:
        photo = middle(read_image(path, ImageReadMode.RGB)) / 255  # (3, 224, 224)
        scores = model.predict(photo.unsqueeze(0))[0].softmax(0)
        best = zip(*(t.tolist() for t in scores.topk(5)), strict=True)
        print(f"{path}:", ", ".join(f"{NAMES[i]} {p:.0%}" for p, i in best))


if __name__ == "__main__":
    main()
