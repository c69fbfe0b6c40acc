"""Writes or reads what PyTorch and pyframe pickle: they print the same of each other's files."""

import pickle
import sys
from pathlib import Path

import torch
from torch import nn

file = Path(sys.argv[2])
if sys.argv[1] == "write":
    net = nn.Sequential(nn.Conv2d(1, 4, 3), nn.BatchNorm2d(4), nn.Dropout(), nn.LSTM(4, 4))
    layer = nn.TransformerEncoderLayer(4, 2, 8, activation="gelu")
    x, optimizer = torch.arange(6.0).reshape(2, 3), torch.optim.SGD(layer.parameters(), 0.1, 0.9)
    layer(torch.ones(2, 3, 4))[..., 0].sum().backward()
    optimizer.step()
    made = [net, layer.eval(), optimizer, x, x[1], x.t().half(), nn.Parameter(x.bfloat16()), x > 2]
    made += [x.to(torch.complex64), torch.Generator().manual_seed(5), torch.float32, torch.bool]
    torch.save([*made, torch.Size([1, 2]), torch.device("cuda", 0)], file)
    file.with_suffix(".pickle").write_bytes(pickle.dumps(torch.load(file, weights_only=False)))
plain = pickle.loads(file.with_suffix(".pickle").read_bytes())
for found in (torch.load(file, weights_only=False), plain):
    net, layer, optimizer, *xs, generator, d, b, size, device = found
    layer(torch.arange(24.0).reshape(2, 3, 4))[..., 0].sum().backward()
    optimizer.step()
    y = net[3](net[:2](torch.ones(1, 1, 5, 5)).flatten(2)[0].T)[0]
    print(net, layer.activation.__name__, type(optimizer), d, b, size, device)
    print(layer(torch.ones(2, 3, 4)).tolist(), y.tolist(), torch.rand(3, generator=generator))
    print(*[(type(x), x.dtype, x.stride(), x.requires_grad, x.tolist()) for x in xs])
