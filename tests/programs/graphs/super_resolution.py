"""A net for larger images goes to ONNX by way of a script, and its frames are put together."""

import sys

import numpy as np
import onnxruntime
import torch
import torch.nn.init as init
import torch.onnx
from torch import nn

dynamo = "--dynamo" in sys.argv


class SuperResolution(nn.Module):
    def __init__(self, factor, inplace=False):
        super().__init__()
        self.factor = factor
        self.relu = nn.ReLU(inplace=inplace)
        self.conv1 = nn.Conv2d(1, 16, (5, 5), (1, 1), (2, 2))
        self.conv2 = nn.Conv2d(16, 8, (3, 3), (1, 1), (1, 1))
        self.conv3 = nn.Conv2d(8, factor**2, (3, 3), (1, 1), (1, 1))
        self.pixel_shuffle = nn.PixelShuffle(factor)
        self._initialize_weights()

    def forward(self, x):
        y = self.relu(self.conv1(x))
        y = self.relu(self.conv2(y))
        y = self.pixel_shuffle(self.conv3(y))
        base = nn.functional.interpolate(
            x, scale_factor=self.factor, mode="bilinear", align_corners=False
        )
        return torch.clamp(base + y, 0.0, 1.0)

    def _initialize_weights(self):
        init.orthogonal_(self.conv1.weight, init.calculate_gain("relu"))
        init.orthogonal_(self.conv2.weight, init.calculate_gain("relu"))
        init.orthogonal_(self.conv3.weight)


def wave(*shape):
    n = torch.Size(shape).numel()
    return torch.sin(torch.arange(n, dtype=torch.float32) * 0.37).reshape(shape)


net = SuperResolution(factor=3)
with torch.no_grad():
    for p in net.parameters():
        p.copy_(wave(*p.shape) * 0.1)
net.train(False)
image = wave(1, 1, 12, 14).abs()
out = net(image)
print(tuple(out.shape), f"{out.mean().item():.4f}")
axes = {"image": {0: "n", 2: "height", 3: "width"}}
torch.onnx.export(
    net,
    image,
    "super.onnx",
    opset_version=14,
    input_names=["image"],
    output_names=["large"],
    dynamic_axes=axes,
    dynamo=dynamo,
)
session = onnxruntime.InferenceSession("super.onnx", providers=["CPUExecutionProvider"])
for shape in ((1, 1, 12, 14), (2, 1, 9, 7)):
    image = wave(*shape).abs()
    (large,) = session.run(["large"], {"image": image.numpy()})
    print(large.shape, np.abs(large - net(image).detach().numpy()).max() < 1e-5)

traced = torch.jit.trace(net, torch.rand(1, 1, 10, 10))
print(torch.allclose(traced(image), net(image), atol=1e-6), tuple(traced(image).shape))
torch.onnx.export(traced, (image,), "traced.onnx", dynamo=False, input_names=["image"])
(large,) = onnxruntime.InferenceSession("traced.onnx").run(None, {"image": image.numpy()})
print(np.abs(large - net(image).detach().numpy()).max() < 1e-5)
