"""A user's program. tests/test_stubs.py runs mypy on it and compares what it says with comments:
the type of each `reveal_type`, and `error: CODE` where a use is wrong."""

from collections import OrderedDict
from typing import reveal_type

import pyframe as pf
from pyframe import Tensor, nn
from pyframe.data import DataLoader, TensorDataset
from pyframe.nn import functional as F

# --- functions of pf, methods and operators of Tensor

x, y = pf.randn(3, 4), pf.zeros(3, 4, dtype=pf.float32, device="cpu")
reveal_type(x)  # Tensor
reveal_type(pf.einsum("ij,kj->ik", x, y))  # Tensor
reveal_type(x.softmax(1))  # Tensor
reveal_type(x.add_(1))  # Tensor
reveal_type(x.float().T)  # Tensor
reveal_type(2 * x**2 - x @ y.T / 3)  # Tensor
reveal_type((x > 0) & (x == y))  # Tensor
reveal_type(-x[0, 1:])  # Tensor
reveal_type(x.shape)  # Size
reveal_type(x.size(0))  # int
reveal_type(x.shape[0])  # int
reveal_type(x.shape[1:])  # Size
reveal_type(x.device)  # device
reveal_type(x.dtype)  # dtype
reveal_type(x.grad)  # Tensor | None
reveal_type(x.detach().numpy())  # ndarray[tuple[Any, ...], dtype[Any]]
reveal_type(pf.is_complex(x))  # bool
reveal_type(pf.autotune(lambda: x @ y.T)[0].winner)  # str
reveal_type(pf.bool)  # dtype
reveal_type(pf.FloatTensor([1, 2]))  # FloatTensor

# --- several results

reveal_type(pf.max(x))  # Tensor
reveal_type(pf.max(x, 1))  # MaxResult
reveal_type(pf.max(x, 1).values)  # Tensor
reveal_type(x.topk(2).indices)  # Tensor
reveal_type(x.median(dim=0))  # MedianResult
reveal_type(x.unique(return_counts=True))  # tuple[Tensor, Tensor]
reveal_type(x.split(2))  # tuple[Tensor, ...]
reveal_type(pf.where(x > 0))  # tuple[Tensor, ...]
reveal_type(pf.where(x > 0, x, 0.0))  # Tensor
reveal_type(pf.linalg.svd(x).S)  # Tensor
reveal_type(pf.fft.rfft(x))  # Tensor
reveal_type(pf.special.entr(x))  # Tensor
reveal_type(pf.conv1d(x, y))  # Tensor

# --- layers


class Net(nn.Module):
    """A subclass: a call takes what its forward takes, and has its type."""

    def __init__(self) -> None:
        super().__init__()
        self.body = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 3))
        self.cell = nn.LSTM(3, 3)

    def forward(self, x: Tensor, scale: float = 1.0) -> Tensor:
        """(N, 4) -> (N, 3)."""
        h = self.body(x)
        reveal_type(h)  # Tensor
        reveal_type(self.cell(h)[0])  # Tensor
        return scale * h


net = Net()
reveal_type(net(x, scale=2))  # Tensor
reveal_type(nn.Linear(4, 3)(x))  # Tensor
reveal_type(nn.Sequential(OrderedDict(a=nn.ReLU()))(x))  # Tensor
reveal_type(nn.LSTM(4, 3)(x))  # tuple[Tensor, tuple[Tensor, Tensor]]
reveal_type(nn.GRU(4, 3)(x)[1])  # Tensor
reveal_type(nn.MultiheadAttention(4, 2)(x, x, x))  # tuple[Tensor, Tensor | None]
reveal_type(nn.CrossEntropyLoss()(x, y))  # Tensor
reveal_type(net.body.state_dict())  # dict[str, Any]
reveal_type(nn.Linear(4, 3).weight)  # Parameter
reveal_type(nn.LeakyReLU(0.1).negative_slope)  # float
reveal_type(nn.MaxPool2d(2, stride=1)(x))  # Tensor
reveal_type(F.cross_entropy(x, y))  # Tensor
reveal_type(F.max_pool2d(x, 2))  # Tensor
reveal_type(F.max_pool2d(x, 2, return_indices=True))  # tuple[Tensor, Tensor]
reveal_type(pf.vision.models.resnet18())  # ResNet

# --- training

optimizer = pf.optim.AdamW(net.parameters(), lr=1e-3)
optimizer.zero_grad()
F.cross_entropy(net(x), y).backward()
reveal_type(optimizer)  # AdamW
reveal_type(pf.autograd.grad(net(x).sum(), [x]))  # tuple[Tensor, ...]
loader = DataLoader(TensorDataset(x, y), batch_size=2, shuffle=True)
reveal_type(loader)  # DataLoader[tuple[Tensor, ...]]
model = pf.Model(net, loss=nn.CrossEntropyLoss(), optimizer=optimizer)
reveal_type(model)  # Model
reveal_type(model.fit(loader, epochs=2).history)  # dict[str, list[float]]
reveal_type(model.fit(x, y, epochs=2, clip_norm=1.0))  # History
reveal_type(model.evaluate(loader))  # dict[str, float]
pf.save(net.state_dict(), "net.pt")
reveal_type(pf.load("net.pt"))  # Any
with pf.no_grad(), pf.autocast("gpu"):
    reveal_type(net(x))  # Tensor


@pf.compile
def step(x: Tensor) -> Tensor:
    """A captured function keeps its type."""
    return net(x).sum()


@pf.no_grad()
def scaled(x: Tensor, by: float) -> Tensor:
    """So does one in a mode."""
    return x * by


reveal_type(step(x))  # Tensor
reveal_type(step.explain())  # str
reveal_type(pf.compile(net, dynamic=True)(x))  # Tensor
reveal_type(pf.vmap(net)(x))  # Tensor
reveal_type(scaled(x, 2))  # Tensor

# --- what is wrong is said

x.sofmax(1)  # error: attr-defined
pf.einsom("ij->i", x)  # error: attr-defined
pf.nn.Liner(1, 2)  # error: attr-defined
x.softmax(dimm=1)  # error: call-arg
x.softmax("1")  # error: arg-type
pf.zeros(3, dtpye=pf.float32)  # error: call-arg
x + "1"  # error: operator
x.add_()  # error: call-arg
net(x, scale="2")  # error: arg-type
net(x, 1, 2)  # error: call-arg
step(1)  # error: arg-type
scaled(x)  # error: call-arg
pf.io.lod("net.pt")  # error: attr-defined
nn.Linear(4, 3, biass=True)  # error: call-arg
nn.ReLU(inplac=True)  # error: call-arg
nn.MaxPool2d()  # error: call-arg
nn.Threshold("0", 1)  # error: arg-type
pf.max(x, 1).value  # error: attr-defined
model.fit(loader, epoch=2)  # error: call-overload
