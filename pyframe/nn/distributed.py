"""Modules of several processes: DistributedDataParallel, and the statistics of SyncBatchNorm."""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from pyframe import distributed as dist
from pyframe.autograd.graph import BackwardTask
from pyframe.core.dispatch import suspend_capture
from pyframe.core.modes import mode, no_grad
from pyframe.distributed.collectives import group_of, summed
from pyframe.nn.modules.module import Module
from pyframe.ops.random.creation import zeros, zeros_like
from pyframe.ops.shape.join import cat
from pyframe.tensor import Tensor

BUCKET = 25.0  # MB of gradients that are averaged at once, as in PyTorch


class DistributedDataParallel(Module):
    """A module whose copies on the processes of a group stay alike: each computes gradients of its
    own share of a batch, and has the mean of all when `backward` is over.

    Weights and buffers are those of rank 0 at first; its buffers are in each forward
    (`broadcast_buffers`). Within `pf.compile` all gradients of a dtype are averaged as one vector,
    else `bucket_cap_mb` MB at a time. Each parameter has to get a gradient, unless
    `find_unused_parameters`. The other options are accepted. RuntimeError for modules that differ
    between processes, and without a parameter that requires grad.
    """

    def __init__(
        self, module: Module, device_ids: Any = None, output_device: Any = None, dim: int = 0,
        broadcast_buffers: bool = True, init_sync: bool = True, process_group: Any = None,
        bucket_cap_mb: float | None = None, find_unused_parameters: bool = False,
        check_reduction: bool = False, gradient_as_bucket_view: bool = False,
        static_graph: bool = False, **options: Any,
    ) -> None:  # fmt: skip
        super().__init__()
        self.module, self.device_ids, self.dim = module, device_ids, dim
        self.process_group = group_of(process_group)
        self.broadcast_buffers = broadcast_buffers
        self.find_unused_parameters = find_unused_parameters
        self.static_graph, self.gradient_as_bucket_view = static_graph, gradient_as_bucket_view
        self.require_backward_grad_sync = True
        self._bucket = int((bucket_cap_mb or BUCKET) * 2**20)
        self._joins = False  # whether forward says that it is still at work
        self._learned = [p for p in module.parameters() if p.requires_grad]
        self._alone = self.process_group is None or self.process_group.size() == 1
        if not self._learned:
            raise RuntimeError(
                "DistributedDataParallel is not needed when a module doesn't have any parameters "
                "that require a gradient."
            )
        if self._alone:
            return
        if init_sync:
            _check_alike(module, self.process_group)
            self._broadcast([*module.parameters(), *module.buffers()], 0)
        for p in self._learned:
            p.register_post_accumulate_grad_hook(self._got)

    def forward(self, *inputs: Any, **kwargs: Any) -> Any:
        """What the module gives."""
        if not self._alone:
            if self._joins:
                dist.all_reduce(zeros(1) + 1, group=self.process_group)
            if self.broadcast_buffers and self.require_backward_grad_sync:
                self._broadcast([*self.module.buffers()], 0)
        return self.module(*inputs, **kwargs)

    def _broadcast(self, tensors: Sequence[Tensor], root: int) -> None:
        broadcast(tensors, self.process_group, root)

    # --- gradients

    def _got(self, p: Tensor) -> None:
        """A parameter has its gradient; when the backward pass is over all are averaged."""
        if not self.require_backward_grad_sync:
            return
        walk = BackwardTask.latest()
        if walk is None:  # of backward(inputs=…)
            self._average([p])
        else:
            walk.after.setdefault(self._average_all, []).append(p)

    def _average_all(self, got: Sequence[Tensor]) -> None:
        """Average the gradients of the parameters that have got one on some process."""
        known = {id(p) for p in got}
        here = [id(p) in known for p in self._learned]
        if self.find_unused_parameters:
            all_: list[Any] = [None] * dist.get_world_size(self.process_group)
            with suspend_capture():
                dist.all_gather_object(all_, here, self.process_group)
            here = [any(column) for column in zip(*all_, strict=True)]
        elif not all(here):
            names = [n for n, p in self.module.named_parameters() if p.requires_grad]
            unused = [n for n, found in zip(names, here, strict=True) if not found]
            raise RuntimeError(
                "DistributedDataParallel: Expected to have finished reduction, but no gradient has "
                f"come to {', '.join(unused)}; pass find_unused_parameters=True, or let all "
                "outputs of forward take part in the loss"
            )
        self._average([p for p, found in zip(self._learned, here, strict=True) if found])

    def _average(self, some: Sequence[Tensor]) -> None:
        average(some, self.process_group, self._bucket)

    @contextlib.contextmanager
    def no_sync(self) -> Iterator[None]:
        """Within it gradients add up on each process; the next backward averages the sums."""
        before, self.require_backward_grad_sync = self.require_backward_grad_sync, False
        try:
            yield
        finally:
            self.require_backward_grad_sync = before

    @contextlib.contextmanager
    def join(
        self, divide_by_initial_world_size: bool = True, enable: bool = True,
        throw_on_early_termination: bool = False,
    ) -> Iterator[None]:  # fmt: skip
        """Around a loop over data of which processes have more or less: who is through gives
        gradients of zero until all are, and has the weights of who was the last."""
        if self._alone or not enable:
            yield
            return
        steps = 0

        def count(*_: Any) -> None:
            nonlocal steps
            steps += 1

        handle = self.register_forward_pre_hook(count)
        self._joins = True
        try:
            yield
        finally:
            self._joins = False
            handle.remove()
        while self._others_work():
            if throw_on_early_termination:
                raise RuntimeError("Detected at least one rank that exhausted inputs.")
            if self.broadcast_buffers:
                self._broadcast([*self.module.buffers()], 0)
            for p in self._learned:
                p.grad = None
            if self.find_unused_parameters:
                self._average_all([])
            else:
                self._average(self._learned)
        all_: list[Any] = [None] * dist.get_world_size(self.process_group)
        dist.all_gather_object(all_, steps, self.process_group)
        self._broadcast([*self.module.parameters(), *self.module.buffers()], all_.index(max(all_)))

    def _others_work(self) -> bool:
        left = zeros(1)
        dist.all_reduce(left, group=self.process_group)
        return bool(left.item())


def broadcast(tensors: Sequence[Tensor], group: Any, root: int) -> None:
    """Let tensors be those of one process of a group."""
    with no_grad():
        for some in _alike(tensors):
            flat = cat([x.detach().reshape(-1) for x in some])
            dist.broadcast(flat, group=group, group_src=root)
            for x, part in zip(some, flat.split([x.numel() for x in some]), strict=True):
                x.copy_(part.reshape(x.shape))


def average(
    parameters: Sequence[Tensor], group: Any, most: int = int(BUCKET * 2**20),
    more: Sequence[Tensor] = (),
) -> list[Tensor]:  # fmt: skip
    """Let gradients be the means over all processes: up to `most` bytes at a time, within a capture
    all at once. Those of `more` tensors go along, and are what it gives."""
    most = most if mode.capture is None else 1 << 62
    works: list[Any] = []
    found: dict[int, Tensor] = {}
    with no_grad():
        grads = [zeros_like(p) if p.grad is None else p.grad for p in parameters]
        for bucket in _alike([*grads, *more], most):
            flat = cat([x.reshape(-1) for x in bucket])
            works.append(
                (dist.all_reduce(flat, dist.ReduceOp.AVG, group, async_op=True), flat, bucket)
            )
        for work, flat, bucket in works:
            work.wait()
            parts = flat.split([x.numel() for x in bucket])
            for x, part in zip(bucket, parts, strict=True):
                found[id(x)] = part.reshape(x.shape).detach()
        for p, grad in zip(parameters, grads, strict=True):
            p.grad = found[id(grad)]
    return [found[id(x)] for x in more]


def _check_alike(module: Module, group: Any) -> None:
    """RuntimeError that says where the module of another process differs."""
    state = {**dict(module.named_parameters()), **dict(module.named_buffers())}
    mine = [f"{name}: {x.dtype.name} {list(x.shape)}" for name, x in state.items()]
    all_: list[Any] = [None] * dist.get_world_size(group)
    dist.all_gather_object(all_, mine, group)
    for rank, theirs in zip(dist.get_process_group_ranks(group), all_, strict=True):
        if theirs != all_[0]:
            n = max(len(theirs), len(all_[0]))
            pairs = zip(
                *[[*x, *["nothing"] * (n - len(x))] for x in (all_[0], theirs)], strict=True
            )
            first, other = next((a, b) for a, b in pairs if a != b)
            raise RuntimeError(
                f"DistributedDataParallel: rank {rank} has another model than rank "
                f"{dist.get_process_group_ranks(group)[0]}: {other} instead of {first}"
            )


def _alike(tensors: Iterable[Tensor], most: int = 1 << 62) -> list[list[Tensor]]:
    """Tensors of one dtype and device, of up to `most` bytes together unless one has more."""
    out: dict[Any, list[list[Tensor]]] = {}
    sizes: dict[Any, int] = {}
    for x in tensors:
        key, n = (x.dtype, x.device), x.numel() * x.dtype.itemsize
        if key not in out or sizes[key] + n > most:
            out.setdefault(key, []).append([])
            sizes[key] = 0
        out[key][-1].append(x)
        sizes[key] += n
    return [bucket for some in out.values() for bucket in some]


def batch_statistics(input: Tensor, group: Any) -> tuple[Tensor, Tensor, Tensor]:
    """Mean and variance of each channel of (N, C, *) over the batches of all processes, and how
    many values that are. In two rounds: the difference of two large sums would be of no use."""
    dims = [0, *range(2, input.ndim)]
    x = input.float() if input.dtype.itemsize < 4 else input
    n = zeros(1, dtype=x.dtype, device=x.device) + x.numel() / x.shape[1]
    sums = summed(cat([x.sum(dims), n]), group)
    count = sums[-1:].detach()
    mean = sums[:-1] / count
    row = (1, -1, *[1] * (x.ndim - 2))
    var = summed((x - mean.reshape(row)).square().sum(dims), group) / count
    return mean, var, count
