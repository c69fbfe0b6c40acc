"""A residual net is traced, frozen, made ready for inference, saved, and compared."""

import copy

import torch
from torch import nn


class Block(nn.Module):
    def __init__(self, inside, out, stride=1):
        super().__init__()
        self.conv1 = nn.Conv2d(inside, out, 3, stride, 1, bias=False)
        self.bn1 = nn.BatchNorm2d(out)
        self.relu = nn.ReLU(inplace=True)
        self.conv2 = nn.Conv2d(out, out, 3, 1, 1, bias=False)
        self.bn2 = nn.BatchNorm2d(out)
        self.downsample = None
        if stride != 1 or inside != out:
            self.downsample = nn.Sequential(
                nn.Conv2d(inside, out, 1, stride, bias=False), nn.BatchNorm2d(out)
            )

    def forward(self, x):
        identity = x if self.downsample is None else self.downsample(x)
        out = self.relu(self.bn1(self.conv1(x)))
        out = self.bn2(self.conv2(out))
        out += identity
        return self.relu(out)


class ResNet(nn.Module):
    def __init__(self, classes=5):
        super().__init__()
        self.stem = nn.Sequential(
            nn.Conv2d(3, 8, 7, 2, 3, bias=False),
            nn.BatchNorm2d(8),
            nn.ReLU(True),
            nn.MaxPool2d(3, 2, 1),
        )
        self.layer1 = nn.Sequential(Block(8, 8), Block(8, 8))
        self.layer2 = nn.Sequential(Block(8, 16, 2), Block(16, 16))
        self.avgpool = nn.AdaptiveAvgPool2d((1, 1))
        self.drop = nn.Dropout(0.5)
        self.fc = nn.Linear(16, classes)

    def forward(self, x):
        x = self.layer2(self.layer1(self.stem(x)))
        x = torch.flatten(self.avgpool(x), 1)
        return self.fc(self.drop(x))


def wave(*shape, step=0.37):
    n = torch.Size(shape).numel()
    return torch.sin(torch.arange(n, dtype=torch.float32) * step).reshape(shape)


net = ResNet()
with torch.no_grad():
    for name, p in net.named_parameters():
        p.copy_(wave(*p.shape) * (0.3 if p.dim() > 1 else 0.1) + (1.0 if "bn" in name else 0.0))
net(wave(4, 3, 32, 32))  # of the norms' running statistics
net.eval()
example, other = wave(1, 3, 32, 32), wave(3, 3, 48, 40, step=0.21)
with torch.no_grad():
    traced = torch.jit.trace(net, example)
print(traced.original_name, traced.training)
with torch.no_grad():
    print(torch.allclose(traced(example), net(example), atol=1e-5))
    print(torch.allclose(traced(other), net(other), atol=1e-5))
    print(traced(other).tolist())
print(len(list(traced.parameters())), sum(p.numel() for p in traced.parameters()))
print([n for n, _ in traced.named_modules()][:6], getattr(traced.layer1, "0").conv1.weight.shape)
print("aten::_convolution" in str(traced.inlined_graph) or "conv2d" in str(traced.inlined_graph))
print(isinstance(traced.code, str) and "def forward" in traced.code)
frozen = torch.jit.freeze(traced)
print(list(frozen.named_parameters()))
with torch.no_grad():
    print(torch.allclose(frozen(other), net(other), atol=1e-4))
ready = torch.jit.optimize_for_inference(torch.jit.freeze(torch.jit.trace(net, example)))
with torch.inference_mode():
    print(torch.allclose(ready(example), net(example), atol=1e-4))
    for _ in range(2):
        print(ready(example).argmax(1).tolist())
torch.jit.save(frozen, "frozen.pt")
again = torch.jit.load("frozen.pt", "cpu").eval()
print(torch.allclose(again(other), frozen(other)))
try:
    torch.jit.freeze(torch.jit.script(copy.deepcopy(net).train()))
except RuntimeError as error:
    print(str(error).partition(".")[0])
scripted = torch.jit.script(net)
print(torch.allclose(scripted(other), net(other), atol=1e-5))
traced.load_state_dict(net.state_dict())
half = copy.deepcopy(traced).double()
print(half(example.double()).dtype, traced(example).dtype)
