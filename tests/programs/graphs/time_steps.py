"""Recurrent cells of one's own: a script with a loop over time steps, futures, annotations."""

import warnings
from typing import List, NamedTuple, Tuple

import torch
import torch.jit as jit
from torch import Tensor, nn


class State(NamedTuple):
    hx: Tensor
    cx: Tensor


def wave(*shape: int) -> Tensor:
    n = torch.Size(shape).numel()
    return torch.sin(torch.arange(n, dtype=torch.float32) * 0.37).reshape(shape)


class Cell(jit.ScriptModule):
    def __init__(self, input_size: int, hidden_size: int):
        super().__init__()
        self.weight_ih = nn.Parameter(wave(4 * hidden_size, input_size))
        self.weight_hh = nn.Parameter(wave(4 * hidden_size, hidden_size) * 0.5)
        self.bias = nn.Parameter(wave(4 * hidden_size))

    @jit.script_method
    def forward(
        self, input: Tensor, state: Tuple[Tensor, Tensor]
    ) -> Tuple[Tensor, Tuple[Tensor, Tensor]]:
        hx, cx = state
        gates = torch.mm(input, self.weight_ih.t()) + self.bias + torch.mm(hx, self.weight_hh.t())
        ingate, forgetgate, cellgate, outgate = gates.chunk(4, 1)
        ingate, forgetgate = torch.sigmoid(ingate), torch.sigmoid(forgetgate)
        cy = (forgetgate * cx) + (ingate * torch.tanh(cellgate))
        hy = torch.sigmoid(outgate) * torch.tanh(cy)
        return hy, (hy, cy)


class Layer(jit.ScriptModule):
    def __init__(self, *cell_args):
        super().__init__()
        self.cell = Cell(*cell_args)

    @jit.script_method
    def forward(
        self, input: Tensor, state: Tuple[Tensor, Tensor]
    ) -> Tuple[Tensor, Tuple[Tensor, Tensor]]:
        inputs = input.unbind(0)
        outputs = torch.jit.annotate(List[Tensor], [])
        for i in range(len(inputs)):
            out, state = self.cell(inputs[i], state)
            outputs += [out]
        return torch.stack(outputs), state


layer = Layer(3, 4)
start = (torch.zeros(2, 4), torch.zeros(2, 4))
for length in (5, 1, 8):
    out, (h, c) = layer(wave(length, 2, 3), start)
    print(tuple(out.shape), h[0].tolist(), f"{c.sum().item():.4f}")
out.sum().backward()
print(layer.cell.bias.grad[:4].tolist())
print([name for name, _ in layer.named_parameters()])


@torch.jit.script
def rnn_loop(x: Tensor, h: Tensor, w: Tensor, stop: float = 10.0) -> Tuple[Tensor, int]:
    taken = 0
    for t in range(x.size(0)):
        h = torch.tanh(x[t] @ w + h)
        if float(h.abs().sum()) > stop:
            break
        taken += 1
    return h, taken


print([rnn_loop(wave(6, 3) * s, torch.zeros(3), wave(3, 3))[1] for s in (0.1, 5.0)])
print(rnn_loop(wave(6, 3), torch.zeros(3), wave(3, 3), 1.0)[0].tolist())
print(rnn_loop.name, "prim::Loop" in str(rnn_loop.graph) or "loop" in str(rnn_loop.graph))


def heavy(x: Tensor, n: int) -> Tensor:
    for _ in range(n):
        x = x.cos()
    return x


@torch.jit.script
def forked(x: Tensor) -> Tensor:
    futures: List[torch.jit.Future[Tensor]] = []
    for i in range(3):
        futures.append(torch.jit.fork(heavy, x, i))
    results: List[Tensor] = []
    for future in futures:
        results.append(torch.jit.wait(future))
    return torch.sum(torch.stack(results), 0)


print(forked(wave(4)).tolist())
future = torch.jit.fork(heavy, wave(2), 2)
print(torch.jit.wait(future).tolist())


class Ensemble(nn.Module):
    scale: torch.jit.Final[float]

    def __init__(self, width: int):
        super().__init__()
        self.models = nn.ModuleList([nn.LSTM(width, width) for _ in range(2)])
        self.scale = 0.5

    def forward(self, x: Tensor) -> Tensor:
        if torch.jit.is_scripting():
            x = x * self.scale
        else:
            x = self.in_python(x)
        parts: List[torch.jit.Future[Tuple[Tensor, Tuple[Tensor, Tensor]]]] = []
        for model in self.models:
            parts.append(torch.jit.fork(model, x))
        outs = [torch.jit.wait(part)[0] for part in parts]
        return outs[0] + outs[1]

    @torch.jit.unused
    def in_python(self, x: Tensor) -> Tensor:
        with warnings.catch_warnings():
            return x * self.scale


ensemble = Ensemble(3)
with torch.no_grad():
    for p in ensemble.parameters():
        p.copy_(wave(*p.shape))
scripted = torch.jit.script(ensemble)
print(torch.allclose(scripted(wave(4, 2, 3)), ensemble(wave(4, 2, 3))), scripted.scale)
print(scripted(wave(4, 2, 3))[-1].tolist())


@torch.jit.script
def split(state: State, k: int) -> State:
    return State(state.hx * k, state.cx + k)


print(split(State(wave(2), wave(2)), 3).cx.tolist())
