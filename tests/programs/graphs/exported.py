"""torch.export: named sizes with bounds, modules, saved programs, what a graph says."""

import io

import torch
from torch import nn
from torch.export import Dim, ExportedProgram, export


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.branch1 = nn.Sequential(nn.Linear(16, 8), nn.ReLU())
        self.branch2 = nn.Sequential(nn.Linear(32, 16), nn.ReLU())
        self.register_buffer("buffer", torch.ones(8))
        self.scale = nn.Parameter(torch.full((16,), 0.5))

    def forward(self, x1, x2, *, bias: float = 0.0):
        out1 = self.branch1(x1)
        out2 = self.branch2(x2) * self.scale
        return out1 + self.buffer + bias, out2, {"n": x1.shape[0] * 2}


def wave(*shape):
    n = torch.Size(shape).numel()
    return torch.sin(torch.arange(n, dtype=torch.float32) * 0.37).reshape(shape)


model = Model().eval()
with torch.no_grad():
    for p in model.parameters():
        p.copy_(wave(*p.shape) * 0.5)
batch = Dim("batch", min=2, max=64)
args = (wave(4, 16), wave(4, 32))
program = export(model, args, dynamic_shapes={"x1": {0: batch}, "x2": {0: batch}, "bias": None},
                 kwargs={"bias": 0.25})  # fmt: skip
print(isinstance(program, ExportedProgram))
print(program.graph_signature.user_inputs[:2], len(program.graph_signature.parameters))
print(program.graph_signature.buffers, sorted(program.state_dict))
placeholders = [n.name for n in program.graph.nodes if n.op == "placeholder"]
print(
    [n for n in placeholders if n in ("x1", "x2")],
    len([n for n in program.graph.nodes if n.op == "output"]),
)
targets = [str(n.target) for n in program.graph.nodes if n.op == "call_function"]
print(sum("linear" in t for t in targets), sum("relu" in t for t in targets))
(bounds,) = program.range_constraints.values()
print(bounds.lower, bounds.upper)
print("linear" in str(program.graph), "ExportedProgram" in str(program), "batch" in repr(batch))
print("def forward" in program.graph_module.code)
module = program.module()
for n in (2, 7, 64):
    given = wave(n, 16), wave(n, 32)
    ours, theirs = module(*given, bias=0.25), model(*given, bias=0.25)
    print(all(torch.allclose(a, b, atol=1e-6) for a, b in zip(ours[:2], theirs)), ours[2])
for given in ((wave(3, 16), wave(4, 32)), (wave(4, 16), wave(4, 31))):
    try:
        module(*given, bias=0.25)
        print("no error")
    except (RuntimeError, AssertionError) as error:
        print(type(error).__name__ in ("RuntimeError", "AssertionError"))
file = io.BytesIO()
torch.export.save(program, file)
file.seek(0)
again = torch.export.load(file)
print(torch.allclose(again.module()(*args, bias=0.25)[1], model(*args)[1], atol=1e-6))
torch.export.save(program, "model.pt2")
again = torch.export.load("model.pt2").run_decompositions()
print(torch.allclose(again.module()(*args, bias=0.25)[0], model(*args, bias=0.25)[0], atol=1e-6))


class Looks(nn.Module):
    def forward(self, x):
        if x.sum() > 0:
            return x.sin()
        return x.cos()


try:
    export(Looks(), (torch.ones(3),))
    print("no error")
except Exception as error:
    print("data" in str(error) or "value" in str(error))


class Static(nn.Module):
    def forward(self, x):
        return x.reshape(4, -1) * 2 if x.shape[0] == 4 else x


try:
    export(Static(), (torch.ones(4, 2),), dynamic_shapes=({0: Dim("n")},))
    print("no error")
except Exception as error:
    print("Constraints violated" in str(error) and "n" in str(error))
print(export(Static(), (torch.ones(4, 2),)).module()(torch.ones(4, 2)).shape)
print(export(Static(), (torch.ones(4, 2),), dynamic_shapes=((Dim.AUTO, 2),)).range_constraints)


class Pair(nn.Module):
    def forward(self, x, y):
        return x + y[1:], x.shape[0] + 1


n = Dim("n", min=3, max=20)
program = export(Pair(), (wave(5), wave(6)), dynamic_shapes=({0: n}, {0: n + 1}))
print(program.module()(wave(9), wave(10))[0].tolist())
try:
    program.module()(wave(9), wave(12))
    print("no error")
except (RuntimeError, AssertionError):
    print("refused")
