"""A program as PyTorch's tutorial has it: the processes are spawned, each joins the group."""

import os

import torch
import torch.distributed as dist
import torch.multiprocessing as mp
from torch.nn.parallel import DistributedDataParallel as DDP  # noqa: N817


def work(rank: int, world_size: int, start: float, seen: torch.Tensor) -> None:
    os.environ["MASTER_ADDR"], os.environ["MASTER_PORT"] = "localhost", "12355"
    dist.init_process_group("gloo", rank=rank, world_size=world_size)
    net = DDP(torch.nn.Linear(1, 1, bias=False))
    with torch.no_grad():
        net.module.weight.fill_(start)
    net(torch.full((1, 1), rank + 1.0)).sum().backward()
    seen[rank] = rank
    if rank == 0:
        print(net.module.weight.item(), net.module.weight.grad.item())
    dist.destroy_process_group()


def fail(rank: int, word: str) -> None:
    dist.init_process_group()
    if rank:
        raise ValueError(word)
    dist.barrier()


if __name__ == "__main__":
    seen = torch.full((3,), -1.0)
    mp.spawn(work, args=(3, 2.0, seen), nprocs=3, join=True)
    print("joined", seen.tolist())
    try:
        mp.spawn(fail, args=("no more data",), nprocs=2)
    except mp.ProcessRaisedException as error:
        print(error.error_index, str(error).splitlines()[-1])
