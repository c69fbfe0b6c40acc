"""Model.fit in several processes, as `mpiexec -n 4 python train.py` starts them.

All go through the same data in the same order, and each computes its rows of every batch: what
`fit` gives is what one process would. The gradients are averaged before an update, losses are
summed up where they are read, and metrics get the outputs of all. Callbacks and files are the first
process's; whether to stop is decided by all.
"""

from __future__ import annotations

import contextlib
import random
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

import pyframe as pf
from pyframe.core.devices import GPU_ALIASES
from pyframe.nn.modules.module import Evaluation
from pyframe.nn.parameter import is_lazy
from pyframe.tensor import gather_async
from pyframe.train import check, data, losses
from pyframe.train.recovery import generators
from pyframe.train.words import name_of

if TYPE_CHECKING:
    from pyframe.train.model import Model
    from pyframe.train.steps import StepOptions


def shared(net: Any) -> Processes | None:
    """The processes that train a net together; None where there is one, or where the net says
    itself how it is shared (DistributedDataParallel)."""
    from pyframe import distributed as dist
    from pyframe.nn.distributed import DistributedDataParallel

    found = dist.launched()
    if found is None or any(isinstance(m, DistributedDataParallel) for m in net.modules()):
        return None
    if not dist.is_initialized():
        dist.init_process_group()
    return Processes() if dist.get_world_size() > 1 else None


def replicas(net: Any) -> Replicas | None:
    """Those of the first DistributedDataParallel of a net that is not alone."""
    from pyframe.nn.distributed import DistributedDataParallel

    for m in net.modules():
        if isinstance(m, DistributedDataParallel) and not m._alone:
            return Replicas(m.process_group)
    return None


class Replicas:
    """Processes with batches of their own, whose gradients DistributedDataParallel averages."""

    def __init__(self, group: Any = None) -> None:
        from pyframe import distributed as dist

        self.dist, self.group = dist, group
        self.rank, self.size = dist.get_rank(group), dist.get_world_size(group)

    def __eq__(self, other: object) -> bool:
        return type(other) is type(self) and other.group is self.group

    __hash__ = object.__hash__

    def mean(self, number: Any, like: pf.Tensor) -> pf.Tensor:
        """The mean over all processes of a number."""
        with pf.no_grad():
            out = pf.zeros((), device=like.device) + number
            self.dist.all_reduce(out, self.dist.ReduceOp.AVG, self.group)
            return out

    def weighed(self, loss: pf.Tensor, by: Any) -> tuple[pf.Tensor, Any]:
        """A loss with the mean of all divisors in place of its own, so that the mean of all such
        is the loss of all batches; and that divisor."""
        if by is None:
            return loss * self.size, None
        mean = self.mean(by, loss)
        return loss * (by / mean.where(mean != 0, 1)), mean


class Processes(Replicas):
    """The processes that train a model together."""

    def device(self, wanted: Any) -> pf.device:
        """The device that is meant; 'gpu' is another GPU for each process of a machine, unless the
        program has said which."""
        if str(wanted) in ("auto", *GPU_ALIASES) and not pf.gpu.current_device():
            count = pf.gpu.device_count()
            if count > 1:
                pf.gpu.set_device(self.dist.get_node_local_rank() % count)
        return pf.device(wanted)

    @contextlib.contextmanager
    def drawing(self) -> Iterator[None]:
        """Within it each process draws other numbers on its device: masks for rows of its own."""
        pf.default_generator.apart = self.rank
        try:
            yield
        finally:
            pf.default_generator.apart = 0

    def rows(self, size: int, rank: int | None = None) -> range:
        """Which rows of a batch are this process's, or another's."""
        at = self.rank if rank is None else rank
        return range(size * at // self.size, size * (at + 1) // self.size)

    def share(self, batch: Any, size: int) -> tuple[Any, int | None]:
        """This process's rows, and how many the batch has. Of a batch with too few all take the
        whole, which (None) is the first process's to count and (0) not the others'."""
        if size < self.size:
            return batch, None if self.rank == 0 else 0
        mine = self.rows(size)

        def cut(x: Any) -> Any:
            return x[mine.start : mine.stop] if isinstance(x, pf.Tensor) and x.ndim else x

        return data.map_tree(cut, batch), size

    def whole(self, x: Any, size: int) -> Any:
        """The rows of all processes, one's after the other's, of a result for a share of `size`."""
        mine = len(self.rows(size))
        if not isinstance(x, pf.Tensor) or not x.ndim or x.shape[0] % mine:
            return x
        each, most = x.shape[0] // mine, -(-size // self.size)
        x = x.detach()
        if mine < most:
            x = pf.cat([x, x.new_zeros((most - mine) * each, *x.shape[1:])])
        out = x.new_zeros(self.size, *x.shape)
        self.dist.all_gather_into_tensor(out, x)
        counts = [len(self.rows(size, r)) for r in range(self.size)]
        return pf.cat([out[r, : n * each] for r, n in enumerate(counts)])

    def average(self, parameters: Iterable[Any], divisor: pf.Tensor) -> pf.Tensor:
        """Let gradients, and what they are to be divided by, be the means over all processes."""
        from pyframe.nn.distributed import average

        (mean,) = average([p for p in parameters if p.grad is not None], None, more=[divisor])
        return mean

    def part(self, loss: pf.Tensor, by: Any, count: int, whole: int) -> pf.Tensor:
        """`weighed` for one of several losses of `count` of the `whole` samples of a batch: what
        follows from these alone is not asked for."""
        if isinstance(by, pf.Tensor) or by is None:
            return self.weighed(loss, by)[0]
        return loss * (count * self.size / whole)

    def sums(self, tensors: Sequence[pf.Tensor]) -> list[pf.Tensor]:
        """The sums over all processes of numbers."""
        if not tensors:
            return []
        out = pf.stack(list(tensors))
        self.dist.all_reduce(out)
        return list(out.unbind())

    def any(self, *flags: bool) -> list[bool]:
        """Which of these are true on some process."""
        found = pf.tensor([float(flag) for flag in flags])
        self.dist.all_reduce(found, self.dist.ReduceOp.MAX)
        return [bool(x) for x in found.tolist()]

    def begin(self, modules: Iterable[Any], loader: Any) -> None:
        """Let weights and random numbers be those of the first process."""
        self.broadcast(x for m in modules for x in (*m.parameters(), *m.buffers()))
        streams = generators(loader)
        states = [
            [g.get_state().tolist() for g in streams],
            random.getstate(),
            np.random.get_state(),
        ]
        self.dist.broadcast_object_list(states, 0)
        ours, python, numpy = states
        for generator, state in zip(streams, ours, strict=True):
            generator.set_state(pf.tensor(state, dtype=generator.get_state().dtype))
        random.setstate(python)
        np.random.set_state(numpy)

    def broadcast(self, tensors: Iterable[pf.Tensor]) -> None:
        """Let tensors be those of the first process."""
        from pyframe.nn.distributed import broadcast

        broadcast([x for x in tensors if not is_lazy(x)], None, 0)


# --- what several batches can't make up


async def look_at_losses(model: Model, options: StepOptions, batch: Any, size: int) -> None:
    """Warn of losses of which several batches can't make one, as far as a batch shows."""
    groups = options.processes or options.replicas
    mixed = options.accumulate > 1 and isinstance(model.loss, Mapping | list | tuple)

    def look() -> tuple[bool, list[tuple[str, pf.Tensor, pf.Tensor]]]:
        x, y, _ = data.split("fit", batch)
        return _looked_at(model.loss, data.call(model.net, x), y, size)

    try:
        with pf.random.fork_rng():
            differ, found = Evaluation(model.net)(look)
            numbers = iter(await gather_async([x for _, *both in found for x in both]))
    except Exception:  # the step meets it too, and tells it better
        return
    if groups is not None and groups.rank > 0:
        return
    if mixed and differ:
        check.warn(
            f"fit: the losses are divided by numbers that differ from batch to batch (such as "
            f"of tokens that count), so with accumulate={options.accumulate} each batch counts "
            "by its samples; one loss that gives (sum, divisor) is exact"
        )
    for name, *_ in found:
        whole, halves = float(next(numbers)), float(next(numbers))
        if abs(whole - halves) > 1e-3 * max(abs(whole), abs(halves)) + 1e-6:
            count = "" if groups is None else f" and {groups.size} processes"
            check.warn(
                f"fit: the loss {name} is no mean over samples: a batch has {whole:.4g}, its "
                f"halves have {halves:.4g} in the mean. So accumulate={options.accumulate}"
                f"{count} train otherwise than one large batch would; let it return (sum, "
                "divisor), such as the sum over all that counts and its number. A loss that "
                "compares samples with each other needs them in one batch"
            )


def _looked_at(
    loss: Any, output: Any, target: Any, size: int
) -> tuple[bool, list[tuple[str, pf.Tensor, pf.Tensor]]]:
    """Whether any loss has a divisor that differs from batch to batch. And of those that don't tell
    theirs the name, the value for a batch of `size` samples, and the mean of those of its halves:
    another one if samples are not what divides it."""
    differ, found = False, list[tuple[str, pf.Tensor, pf.Tensor]]()
    several = isinstance(loss, Mapping | list | tuple)
    keys: Any = loss if isinstance(loss, Mapping) else range(len(loss)) if several else [None]
    for key in keys:
        one, out, y = (x[key] if several else x for x in (loss, output, target))
        by = losses.divided(one, out, y)[1]
        differ = differ or by is None or isinstance(by, pf.Tensor)
        n = losses.rows(out, y) // size  # of each sample
        cut, end = size // 2 * n, size * n
        if not cut or losses.telling(one) is not None or isinstance(whole := one(out, y), tuple):
            continue

        halves: Any = 0.0
        for start, stop in ((0, cut), (cut, end)):
            parts = [data.map_tree(lambda x, i=start, j=stop: x[i:j], t) for t in (out, y)]
            halves = halves + one(*parts) * ((stop - start) / end)
        found.append((name_of(one), whole, halves))
    return differ, found
