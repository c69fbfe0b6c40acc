"""torch.distributed.tensor: how tensors lie over processes, which libraries describe when they are
imported. Here each process has all of a tensor."""

from __future__ import annotations

from dataclasses import dataclass


class Placement:
    """How a tensor lies over the processes along a dim of their mesh."""


@dataclass(frozen=True)
class Replicate(Placement):
    """Each has all of it."""


@dataclass(frozen=True)
class Shard(Placement):
    """Each has a part along `dim`."""

    dim: int


@dataclass(frozen=True)
class Partial(Placement):
    """It is what all have together, by `reduce_op`."""

    reduce_op: str = "sum"
