"""What functions draw from a seed, and what comes after: PyTorch and pyframe print the same."""

import sys

import torch
import torch.nn.functional as F
from torch import nn
from torch.utils import data
from torchvision import transforms as T

W, X = torch.arange(1.0, 11) / 20, data.TensorDataset(torch.arange(20))
D32, D64, D16, BF16 = torch.float32, torch.float64, torch.float16, torch.bfloat16


def show(name, found):
    for x in found if isinstance(found, list) else [found]:
        x = torch.view_as_real(x) if x.is_complex() else x
        floats = x.is_floating_point()
        x = x.detach().double().flatten()[-40:] if floats else x.flatten()[-40:]
        print(name, *[f"{v:.4f}" if floats else int(v) for v in x.tolist()])
    print(f"{torch.rand(1).item():.4f} {torch.randn(1).item():.4f}")


def trained():
    net = nn.TransformerEncoderLayer(8, 2, 16)
    for _ in range(5):
        loss = net(torch.ones(2, 3, 8)).square().mean()
        loss.backward()
        torch.optim.SGD(net.parameters(), 0.1).step()
    return loss


def epochs(sampler=None, **kw):
    loader = data.DataLoader(X, 6, sampler=sampler, **kw)
    return lambda: torch.cat([b[0] for _ in "ab" for b in loader])


TAKES = {  # of one word or two an element, on any processor
    **{f"{f} {d} {n}": lambda f=f, d=d, n=n: getattr(torch, f)(n, dtype=d)
       for f in ("rand", "randn") for d in (D32, D64, D16, BF16, torch.complex64)
       for n in (0, 1, 15, 16, 40)},
    "uniform": lambda: [torch.empty(30).uniform_(-0.3, 0.4), torch.empty(4, 8).t().uniform_()],
    "normal": lambda: [torch.empty(4, 8).t().normal_(), torch.normal(W, W), torch.randn(())],
    "ints": lambda: [torch.randint(-3, n, (5,)) for n in (2, 2**28 - 4, 2**28, 2**40, 2**63 - 1)],
    **{f"all of {d}": lambda d=d: torch.empty(5, dtype=d).random_()
       for d in (torch.int64, torch.int32, torch.uint8, torch.bool, D32, D64, D16)},
    "orders": lambda: [torch.randperm(n) for n in (0, 1, 2, 100)],
    "by weights": lambda: [torch.bernoulli(W), torch.bernoulli(W.double()),
                           torch.multinomial(torch.stack([W, W.flip(0)]), 20, True)],
    "initial": lambda: [f(torch.empty(7, 9)) for f in (nn.init.orthogonal_, nn.init.trunc_normal_)],
    "tail": lambda: nn.init.trunc_normal_(torch.empty(40), 0, 1, 1.5, 3.0),
    "lstm": lambda: [*nn.LSTM(4, 6, 2).parameters()],
    "attention": lambda: [*nn.Transformer(8, 2, 1, 1, 16).parameters()],
    "shuffled": epochs(shuffle=True), "in order": epochs(),
    "of its own": epochs(shuffle=True, generator=torch.Generator()),
    "again": epochs(data.RandomSampler(X, True, 45)),
    "weighted": epochs(data.WeightedRandomSampler(range(20), 30)),
    "changed": lambda: [t(torch.arange(900).view(1, 30, 30) % 251) for t in (
        T.RandomHorizontalFlip(), T.RandomCrop(20), T.RandomRotation(30))],
    "state": lambda: torch.cat([torch.randn(5), torch.get_rng_state()])[-60:],
}  # fmt: skip
MASKS = {  # Intel's processors draw these from MKL in PyTorch
    "fair": lambda: [torch.empty(4, 5).t().bernoulli_(), torch.empty(9, dtype=D64).bernoulli_(0.2)],
    "waits": lambda: [torch.empty(20).exponential_(2.0), torch.multinomial(W, 5)],
    "dropped": lambda: [f(torch.ones(3, 4, 5, 2), 0.4, True) for f in (F.dropout, F.dropout2d)],
    "others": lambda: [F.alpha_dropout(W, 0.4, True), F.gumbel_softmax(W)], "trained": trained,
}  # fmt: skip
for name, draw in (MASKS if "--masks" in sys.argv else TAKES).items():
    torch.manual_seed(7)
    show(name, draw())
