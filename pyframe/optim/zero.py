"""ZeroRedundancyOptimizer: each of several processes keeps the moments of a part of the parameters,
as torch.distributed.optim (arXiv 1910.02054, stage 1)."""

from __future__ import annotations

from typing import Any

from pyframe import distributed as dist
from pyframe.distributed.collectives import group_of
from pyframe.nn.distributed import broadcast
from pyframe.optim.optimizer import Optimizer


class ZeroRedundancyOptimizer:
    """An optimizer of `optimizer_class` of which each process updates some of the parameters, with
    state for these alone, and gets the others from those that do.

    Gradients have to be the same on all processes, as DistributedDataParallel makes them. It is an
    instance of a subclass of `optimizer_class`. The parameters are dealt out by size. Before
    `state_dict`, which is that of all, `consolidate_state_dict(to)` brings the states to a process.
    """

    def __new__(
        cls, params: Any, optimizer_class: type[Optimizer], process_group: Any = None,
        parameters_as_bucket_view: bool = False, overlap_with_ddp: bool = False, **defaults: Any,
    ) -> Any:  # fmt: skip
        """The optimizer."""
        name = f"ZeroRedundancy{optimizer_class.__name__}"
        made = type(name, (_ShardedStep, optimizer_class), {})(params, **defaults)
        made._deal(group_of(process_group))
        return made


class _ShardedStep:
    """What such an optimizer does otherwise."""

    def _deal(self: Any, group: Any) -> None:
        """Give each parameter to the process that has the least so far."""
        self._group, n = group, dist.get_world_size(group)
        self._parts: list[list[Any]] = [[] for _ in range(n)]
        loads = [0] * n
        every = [p for g in self.param_groups for p in g["params"]]
        for p in sorted(every, key=lambda p: -p.numel()):
            at = loads.index(min(loads))
            self._parts[at].append(p)
            loads[at] += p.numel()
        self._states: list[Any] | None = None

    def step(self: Any, closure: Any = None) -> Any:
        """A step of the parameters that are this process's; then all have them."""
        mine = dist.get_rank(self._group)
        others = [p for r, part in enumerate(self._parts) if r != mine for p in part]
        grads = [p.grad for p in others]
        for p in others:
            p.grad = None
        out = super().step(closure)  # type: ignore[misc]
        for p, grad in zip(others, grads, strict=True):
            p.grad = grad
        for r, part in enumerate(self._parts):
            if part and len(self._parts) > 1:
                broadcast(part, self._group, r)
        return out

    def consolidate_state_dict(self: Any, to: int = 0) -> None:
        """Bring the states of all processes to the process `to`. All call it."""
        found: list[Any] = [None] * len(self._parts)
        dist.all_gather_object(found, super().state_dict()["state"], self._group)  # type: ignore[misc]
        self._states = found if dist.get_rank(self._group) == to else None

    def state_dict(self: Any) -> Any:
        """The state of all parameters. RuntimeError unless it was brought here."""
        if self._states is None and len(self._parts) > 1:
            raise RuntimeError(
                "ZeroRedundancyOptimizer: the states lie on several processes; call "
                "consolidate_state_dict(to=rank) on all of them first"
            )
        out = super().state_dict()  # type: ignore[misc]
        for state in self._states or ():
            out["state"].update(state)
        return out
