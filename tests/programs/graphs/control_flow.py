"""A module with branches and loops is scripted, saved, and run where its class is gone."""

import io
from typing import Dict, List, Optional, Tuple

import torch
import torch.nn.functional as F
from torch import nn


def wave(*shape: int) -> torch.Tensor:
    n = torch.Size(shape).numel()
    return torch.sin(torch.arange(n, dtype=torch.float32) * 0.7).reshape(shape)


class Gate(nn.Module):
    __constants__ = ["steps"]

    def __init__(self, steps: int):
        super().__init__()
        self.steps = steps

    def forward(self, x: torch.Tensor, limit: Optional[float] = None) -> torch.Tensor:
        for i in range(self.steps):
            if x.norm() > 4.0:
                x = x / 2
            elif i % 2 == 0:
                x = x * 1.5 + i
            else:
                x = -x
        if limit is not None:
            x = x.clamp(-limit, limit)
        return x


class Net(nn.Module):
    def __init__(self, depth: int = 3):
        super().__init__()
        self.gate = Gate(4)
        self.layers = nn.ModuleList([nn.Linear(6, 6) for _ in range(depth)])
        self.heads = nn.ModuleDict({"mean": nn.Linear(6, 2), "scale": nn.Linear(6, 2)})
        self.register_buffer("seen", torch.zeros(1, dtype=torch.int64))
        self.names: List[str] = ["mean", "scale"]

    def forward(
        self, x: torch.Tensor, mask: Optional[torch.Tensor] = None
    ) -> Tuple[torch.Tensor, Dict[str, torch.Tensor]]:
        kept: List[torch.Tensor] = []
        self.seen += 1
        for i, layer in enumerate(self.layers):
            x = F.relu(layer(x)) if i > 0 else torch.tanh(layer(x))
            kept.append(x.mean())
        if mask is not None:
            x = x.masked_fill(mask, 0.0)
        x = self.gate(x, limit=2.0)
        found: Dict[str, torch.Tensor] = {}
        for name, head in self.heads.items():
            found[name] = head(x)
        total = torch.stack(kept)
        count = 0
        while count < len(kept) and bool(total[count] > 0):
            count += 1
        return total * count, found

    @torch.jit.export
    def reset(self, value: int = 0) -> int:
        before = int(self.seen.item())
        self.seen.fill_(value)
        return before

    @torch.jit.ignore
    def describe(self) -> str:
        return "only Python knows"


net = Net().eval()
with torch.no_grad():
    for p in net.parameters():
        p.copy_(wave(*p.shape))
scripted = torch.jit.script(net)
print(scripted.original_name, isinstance(scripted, torch.jit.ScriptModule))
x, mask = wave(3, 6), wave(3, 6) > 0.5
for given in ((x,), (x, mask), (x * 5, None)):
    (a, b), (c, d) = net(*given), scripted(*given)
    print(torch.allclose(a, c), all(torch.allclose(b[k], d[k]) for k in b), sorted(d))
    print(c.tolist(), d["mean"].tolist())
print([name for name, _ in scripted.named_parameters()])
print([name for name, _ in scripted.named_buffers()], list(scripted.state_dict())[-3:])
print([name for name, _ in scripted.named_children()], len(scripted.layers), scripted.training)
print(scripted.seen.item(), scripted.reset(7), scripted.seen.item())

file = io.BytesIO()
extra = {"labels.txt": "mean,scale"}
torch.jit.save(scripted, file, _extra_files=extra)
scripted.save("net.pt")
del net
Net.forward = Gate.forward = None
file.seek(0)
found = {"labels.txt": ""}
again = torch.jit.load(file, map_location=torch.device("cpu"), _extra_files=found)
print(found, again.original_name, again.seen.item(), again.reset(), again.training)
print([t.tolist() for t in again(x, mask)[1].values()])
again = torch.jit.load("net.pt")
again.train()
print(again.training, getattr(again.layers, "0").training)
optimizer = torch.optim.SGD(again.parameters(), lr=0.1)
for _ in range(3):
    optimizer.zero_grad()
    total, heads = again(x)
    loss = heads["mean"].pow(2).mean() + heads["scale"].abs().mean() + total.sum()
    loss.backward()
    optimizer.step()
    print(f"{loss.item():.4f}")
