"""LruCache: what was made of work that may come again, up to a budget."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable
from typing import Any, TypeVar

K = TypeVar("K")
V = TypeVar("V")


class LruCache(OrderedDict[K, V]):
    """A dict that `put` keeps small: the least recently used goes first. Who takes an entry calls
    `move_to_end`, so that a lookup runs no Python."""

    def __init__(
        self, most: int, budget: float = 0, cost: Callable[[V], float] | None = None,
        evicted: Callable[[V], Any] = lambda value: None,
    ) -> None:  # fmt: skip
        """At most `most` entries, which together `cost` no more than `budget` unless there is but
        one. `evicted` is told of each value that goes."""
        super().__init__()
        self.most, self.budget, self.cost, self.evicted = most, budget, cost, evicted

    def put(self, key: K, value: V) -> None:
        """Keep a value as the one used last."""
        self[key] = value
        self.move_to_end(key)
        self.shrink(self.most)

    def shrink(self, most: int) -> None:
        """Let go of the least recently used, until there are so few and the budget holds."""
        while len(self) > most or (self.cost and len(self) > 1 and self.total() > self.budget):
            self.evicted(self.popitem(last=False)[1])

    def total(self) -> float:
        """What all entries cost now."""
        return 0 if self.cost is None else sum(map(self.cost, self.values()))
