"""What people ask of a ScriptModule: its members, graphs, methods, copies."""

import copy
import os
from typing import Any, Dict, List, Optional

import torch
import torch.nn as nn
import torch.nn.functional as F


class Attention(nn.Module):
    def __init__(self, dim: int, heads: int = 2, qkv_bias: bool = False, drop: float = 0.1):
        super().__init__()
        assert dim % heads == 0, "dim should be divisible by heads"
        self.heads, self.scale = heads, (dim // heads) ** -0.5
        self.qkv = nn.Linear(dim, dim * 3, bias=qkv_bias)
        self.proj = nn.Linear(dim, dim)
        self.drop = nn.Dropout(drop) if drop > 0.0 else nn.Identity()
        self.norm: Optional[nn.Module] = None
        self.register_parameter("bias", None)

    def forward(self, x: torch.Tensor, mask: Optional[torch.Tensor] = None) -> torch.Tensor:
        B, N, C = x.shape
        qkv = self.qkv(x).reshape(B, N, 3, self.heads, C // self.heads).permute(2, 0, 3, 1, 4)
        q, k, v = qkv.unbind(0)
        attn = (q * self.scale) @ k.transpose(-2, -1)
        if mask is not None:
            assert mask.dim() == 2, f"expected 2 dims, got {mask.dim()}"
            attn = attn.masked_fill(mask[:, None, None] == 0, -1e4)
        attn = self.drop(attn.softmax(dim=-1))
        x = (attn @ v).transpose(1, 2).reshape(B, N, C)
        if self.bias is not None:
            x = x + self.bias
        return self.proj(x)


class Encoder(nn.Module):
    def __init__(self, depth: int = 2, dim: int = 8, classes: List[str] = ("a", "b", "c")):
        super().__init__()
        self.blocks = nn.ModuleList([Attention(dim) for _ in range(depth)])
        self.norms = nn.ModuleList([nn.LayerNorm(dim) for _ in range(depth)])
        self.head = nn.Linear(dim, len(classes))
        self.position = nn.Parameter(torch.zeros(1, 5, dim))
        self.classes: List[str] = list(classes)
        self.config: Dict[str, int] = {"dim": dim, "depth": depth}
        self.version = "1.2"

    def features(self, x: torch.Tensor) -> List[torch.Tensor]:
        x = x + self.position[:, : x.shape[1]]
        kept: List[torch.Tensor] = []
        for block, norm in zip(self.blocks, self.norms):
            x = x + block(norm(x))
            kept.append(x)
        for i, norm in enumerate(self.norms):
            if i == 1:
                kept[0] = norm(kept[0])
        return kept

    @torch.jit.export
    def embed(self, x: torch.Tensor, pool: str = "mean") -> torch.Tensor:
        last = self.features(x)[-1]
        if pool == "mean":
            return last.mean(1)
        elif pool == "max":
            return last.max(dim=1)[0]
        else:
            raise ValueError(f"unknown pool {pool}")

    @torch.jit.ignore
    def load_from(self, path: str) -> Any:
        return os.path.exists(path)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = self.embed(x, "mean")
        if self.training and x.size(0) > 1:
            x = F.dropout(x, 0.0, self.training)
        return self.head(x)


def wave(*shape):
    n = torch.Size(shape).numel()
    return torch.sin(torch.arange(n, dtype=torch.float32) * 0.37).reshape(shape)


net = Encoder().eval()
with torch.no_grad():
    for p in net.parameters():
        p.copy_(wave(*p.shape) * 0.5)
s = torch.jit.script(net)
x = wave(2, 4, 8)
print(torch.allclose(s(x), net(x), atol=1e-6), s(x).tolist())
print(s.embed(x, "max")[0, :3].tolist(), s.version, s.classes, s.config["dim"])
try:
    s.embed(x, "median")
except Exception as error:
    print("unknown pool median" in str(error))
print(isinstance(s.graph, object), "graph(%self" in str(s.graph), "def forward" in s.code)
print(len(list(s.graph.nodes())) > 1, any("GetAttr" in str(n) for n in s.graph.nodes()))
block = next(iter(s.blocks.children()))
print([n.kind() for n in block.graph.nodes() if "softmax" in n.kind()])
print(s.original_name, block.original_name, block.heads, block.bias)
print(s.eval() is s, s.train().training, block.training, s.eval().training)
print([n for n, _ in s.named_children()], len(list(s.modules())), len(list(s.buffers())))
print(sum(p.numel() for p in s.parameters()), s.head.weight.requires_grad)
print(hasattr(s, "embed"), hasattr(s, "nothing"), "head.weight" in s.state_dict())
for p in s.parameters():
    p.requires_grad_(False)
print(any(p.requires_grad for p in net.parameters()))
s.head.bias = nn.Parameter(torch.zeros(3))
print(s(x)[0].tolist())
net.load_state_dict(s.state_dict())
other = copy.deepcopy(s)
with torch.no_grad():
    other.head.bias.fill_(1.0)
print((other(x) - s(x))[0].tolist())
print(s.to(torch.float64)(x.double()).dtype, s.float()(x).dtype)
frozen = torch.jit.freeze(s.eval(), preserved_attrs=["embed", "version"])
print(frozen.version, torch.allclose(frozen.embed(x), s.embed(x)), list(frozen.parameters()))
print(torch.allclose(torch.jit.optimize_for_inference(s, ["embed"])(x), net(x), atol=1e-5))
s.save("encoder.pt")
again = torch.jit.load("encoder.pt")
print(again.version, again.classes, torch.allclose(again.embed(x), s.embed(x)))
with torch.jit.optimized_execution(False):
    print(torch.allclose(again(x), s(x)))


class Two(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv = nn.Conv2d(1, 1, 3)

    def forward(self, x):
        return self.conv(x)

    def weighted_kernel_sum(self, weight):
        return weight * self.conv.weight


two = Two()
inputs = {"forward": torch.rand(1, 1, 3, 3), "weighted_kernel_sum": torch.rand(1, 1, 3, 3)}
module = torch.jit.trace_module(two, inputs)
weight = torch.ones(1, 1, 3, 3)
print(torch.equal(module.weighted_kernel_sum(weight), two.conv.weight))


@torch.jit.script_if_tracing
def grows(x: torch.Tensor) -> torch.Tensor:
    for _ in range(x.size(0)):
        x = x + 1
    return x


traced = torch.jit.trace(lambda x: grows(x * 2), torch.ones(2))
print(traced(torch.ones(4)).tolist(), torch.jit.is_tracing())
print(
    torch.jit.trace(torch.add, (torch.ones(2), torch.ones(2)))(
        torch.ones(3), torch.ones(1)
    ).tolist()
)
try:
    torch.jit.script(lambda **k: k)
except Exception as error:
    print(isinstance(error, (RuntimeError, ValueError)))


class Counter(nn.Module):
    """What changes while it runs is the script's own."""

    steps: int

    def __init__(self):
        super().__init__()
        self.steps = 0
        self.register_buffer("mean", torch.zeros(2))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        self.steps += 1
        self.mean = 0.5 * self.mean + x
        return self.mean * self.steps


plain = Counter()
counter = torch.jit.script(plain)
for k in range(4):
    print(counter(torch.full((2,), float(k))).tolist(), counter.steps, counter.mean.tolist())
print(
    plain.steps,
    list(counter.state_dict()),
    type(counter).__name__,
    type(counter) is torch.jit.RecursiveScriptModule,
)
small = torch.jit.trace(nn.Sequential(nn.Linear(2, 2), nn.ReLU()), torch.ones(1, 2))
print(type(small).__name__, type(next(small.children())).__name__, small)
graph = small.inlined_graph
print([n.kind() for n in graph.nodes() if n.kind().startswith("aten")])
(linear,) = graph.findAllNodes("aten::linear")
print(linear.kind(), [v.node().kind() for v in linear.outputs()], len(list(linear.inputs())))
print([v.debugName()[:4] for v in graph.inputs()], len(list(graph.outputs())))
program = torch.export.export(nn.Sequential(nn.Linear(2, 2), nn.ReLU()), (torch.ones(1, 2),))
calls = [n for n in program.graph.nodes if n.op == "call_function"]
print([n.name for n in calls], [len(n.users) for n in calls], [u.op for u in calls[-1].users])
print(calls[1].args[0] is calls[0], calls[0].args[0].op, [n.name for n in calls[1].all_input_nodes])


@torch.jit.script
def twice(x):
    return x * 2


print(
    type(twice).__name__, twice.name, [n.kind() for n in twice.graph.nodes() if "mul" in n.kind()]
)
