"""A program as PyTorch's users write it: torchrun's environment, DDP, DistributedSampler."""

import os
import sys

import torch
import torch.distributed as dist
import torch.nn as nn
from torch.nn.parallel import DistributedDataParallel as DDP  # noqa: N817
from torch.utils.data import DataLoader, TensorDataset
from torch.utils.data.distributed import DistributedSampler


def main() -> None:
    ddp = int(os.environ.get("RANK", -1)) != -1
    rank = int(os.environ["RANK"]) if ddp else 0
    if ddp:
        dist.init_process_group(backend="nccl" if torch.cuda.is_available() else "gloo")
        assert dist.get_world_size() == int(os.environ["WORLD_SIZE"])
        assert int(os.environ["LOCAL_RANK"]) == rank
    torch.manual_seed(0)
    x = torch.linspace(-1, 1, 64).reshape(64, 1)
    data = TensorDataset(x, x * 3 + 1)
    sampler = DistributedSampler(data, shuffle=False) if ddp else None
    size = 8 // dist.get_world_size() if ddp else 8
    loader = DataLoader(data, batch_size=size, sampler=sampler)
    net = nn.Linear(1, 1)
    net = DDP(net) if ddp else net
    raw = net.module if ddp else net
    optimizer = torch.optim.SGD(net.parameters(), lr=0.3)
    for epoch in range(2):
        if sampler is not None:
            sampler.set_epoch(epoch)
        for a, b in loader:
            optimizer.zero_grad()
            nn.functional.mse_loss(net(a), b).backward()
            optimizer.step()
    if rank == 0:
        print(f"{raw.weight.item():.3f} {raw.bias.item():.3f}", file=sys.stdout)
    if ddp:
        dist.barrier()
        dist.destroy_process_group()


if __name__ == "__main__":
    main()
