"""DistributedSampler: the share of a data set that one of several processes goes through."""

from __future__ import annotations

import math
import sys
from collections.abc import Iterator
from typing import Any

from pyframe.data.sampler import Sampler, size_of
from pyframe.ops.random.draws import Generator, permutation


class DistributedSampler(Sampler[int]):
    """Every `num_replicas`-th index from `rank` on, of one order that all processes share.

    Without them they are those of `pf.distributed`, or 1 and 0 where it has not begun. The order is
    drawn from seed + epoch: call `set_epoch` before each epoch, or it stays the same. The first
    indices come again where the data set can't be divided evenly, or with `drop_last` its tail is
    left out. ValueError for a rank outside [0, num_replicas).
    """

    def __init__(
        self, dataset: Any, num_replicas: int | None = None, rank: int | None = None,
        shuffle: bool = True, seed: int = 0, drop_last: bool = False,
    ) -> None:  # fmt: skip
        found = sys.modules.get("pyframe.distributed")  # which is not loaded where there is one
        begun = found is not None and found.is_initialized()
        if num_replicas is None:
            num_replicas = found.get_world_size() if begun else 1  # type: ignore[union-attr]
        if rank is None:
            rank = found.get_rank() if begun else 0  # type: ignore[union-attr]
        if not 0 <= rank < num_replicas:
            raise ValueError(
                f"DistributedSampler: Invalid rank {rank}, rank should be in the interval [0, "
                f"{num_replicas - 1}]"
            )
        self.dataset = dataset
        self.num_replicas = num_replicas
        self.rank = rank
        self.epoch = 0
        self.drop_last = drop_last
        n = size_of(dataset, "DistributedSampler")
        self.num_samples = n // num_replicas if drop_last else math.ceil(n / num_replicas)
        self.total_size = self.num_samples * num_replicas
        self.shuffle = shuffle
        self.seed = seed

    def __iter__(self) -> Iterator[int]:
        n = len(self.dataset)
        if self.shuffle:
            order = permutation(n, Generator().manual_seed(self.seed + self.epoch)).tolist()
        else:
            order = list(range(n))
        if len(order) < self.total_size:
            order *= math.ceil(self.total_size / n)
        return iter(order[self.rank : self.total_size : self.num_replicas])

    def __len__(self) -> int:
        return self.num_samples

    def set_epoch(self, epoch: int) -> None:
        """Let the next order be that of another epoch."""
        self.epoch = epoch
