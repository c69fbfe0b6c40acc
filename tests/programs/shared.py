"""A program whose processes share tensors: PyTorch and pyframe print the same."""

import os
import signal
import sys

import torch
import torch.multiprocessing as mp
import torch.nn.functional as F
from torch import nn


def work(rank, tensor, parts, queue, done):
    tensor[rank] += 10.0
    for part in parts:
        part.mul_(2)
    queue.put((rank, torch.full((2, 3), float(rank), dtype=torch.float16), parts[1].t()))
    done.wait()


def hogwild(rank, net, steps):
    torch.manual_seed(rank)
    optimizer = torch.optim.SGD(net.parameters(), lr=0.05, momentum=0.5)
    for _ in range(steps):
        x = torch.randn(32, 4)
        optimizer.zero_grad()
        F.mse_loss(net(x), x.sum(1, keepdim=True)).backward()
        optimizer.step()


def fails(rank, how):
    if rank == 1:
        if how == "raises":
            raise ValueError("no more data")
        if how == "exits":
            sys.exit(3)
        os.kill(os.getpid(), signal.SIGKILL)
    signal.pause()


def double(x):
    return 2 * x


def main(method):
    ctx = mp.get_context(method)
    x = torch.arange(6.0)
    view, flat, alias = x[2:5], x.view(2, 3), x.detach()
    print(x.is_shared(), x.share_memory_() is x, view.is_shared(), alias.is_shared())
    alias[5] = -5
    print(flat.tolist(), x.data_ptr() == alias.data_ptr())

    queue, done = ctx.Queue(), ctx.Event()
    parts = [torch.ones(3, dtype=torch.bfloat16), flat, torch.tensor(7), torch.empty(0, 2)]
    all_ = [ctx.Process(target=work, args=(i, x, parts, queue, done)) for i in range(1)]
    for p in all_:
        p.start()
    rank, made, turned = queue.get()
    turned += 1
    done.set()
    for p in all_:
        p.join()
    print(rank, made, made.is_shared(), [p.exitcode for p in all_])
    print(x.tolist(), parts, turned.stride())

    net = nn.Sequential(nn.Linear(4, 8), nn.Tanh(), nn.Linear(8, 1))
    print(net.share_memory() is net, all(p.is_shared() for p in net.parameters()))
    x = torch.randn(256, 4)
    before = F.mse_loss(net(x), x.sum(1, keepdim=True)).item()
    mp.start_processes(hogwild, args=(net, 60), nprocs=2, start_method=method)
    print(F.mse_loss(net(x), x.sum(1, keepdim=True)).item() < before / 4)

    if method == "spawn":  # the rest is the same, and takes long
        return

    with ctx.Pool(2) as pool:
        print(pool.map(double, [torch.ones(2), torch.tensor(3)]))

    for how in ("raises", "exits", "is killed"):
        try:
            mp.start_processes(fails, args=(how,), nprocs=2, start_method=method)
        except (mp.ProcessRaisedException, mp.ProcessExitedException) as error:
            lines = [line for line in str(error).splitlines() if not line.startswith("  ")]
            print(type(error).__name__, error.error_index, lines)
    context = mp.start_processes(double, nprocs=2, start_method=method, join=False)
    while not context.join():
        pass
    print(len(context.pids()), context.join())

    one, other = ctx.Pipe()
    kept = nn.Parameter(torch.ones(2))
    one.send((kept, kept))
    first, second = other.recv()
    print(type(first).__name__, first is second, first.requires_grad, first.is_leaf)
    print(first.data_ptr() == kept.data_ptr())
    try:
        one.send(kept * 2)
    except RuntimeError as error:
        print(error)
    print(sorted(mp.get_all_sharing_strategies()), mp.get_sharing_strategy())
    mp.set_sharing_strategy("file_system")
    print(mp.get_sharing_strategy())
    try:
        mp.set_sharing_strategy("carrier_pigeon")
    except AssertionError as error:
        print(str(error).partition(",")[0])


if __name__ == "__main__":
    main(sys.argv[1])
