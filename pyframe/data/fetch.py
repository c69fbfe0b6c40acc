"""How a DataLoader makes a batch, in its own process and in a worker."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from pyframe.data.collate import is_default
from pyframe.data.dataset import get_batch, get_samples


@dataclass
class Fetching:
    """What of a DataLoader says how its batches are made: it goes to the workers."""

    dataset: Any
    collate_fn: Callable[[Any], Any]
    iterable: bool
    batched: bool
    drop_last: bool
    sampler: str  # its name, for errors

    def begin(self) -> Callable[[Any], Any]:
        """What gives the batch of an index, or of a list of them; StopIteration ends a stream."""
        if self.iterable:
            return self._of_stream(iter(self.dataset))
        return self._of_map if self.batched else self._one

    def _one(self, index: Any) -> Any:
        try:
            sample = self.dataset[index]
        except IndexError as error:
            self._explain([index], error)
            raise
        except StopIteration as error:
            raise self._no_end() from error
        return self.collate_fn(sample)

    def _of_map(self, indices: Any) -> Any:
        try:
            if is_default(self.collate_fn):
                batch = get_batch(self.dataset, indices)
                if batch is not NotImplemented:
                    return batch
            samples = get_samples(self.dataset, indices)
        except IndexError as error:
            self._explain(indices, error)
            raise
        except StopIteration as error:
            raise self._no_end() from error
        return self.collate_fn(samples)

    def _of_stream(self, stream: Iterator[Any]) -> Callable[[Any], Any]:
        ended = False

        def fetch(indices: Any) -> Any:
            nonlocal ended
            if not self.batched:
                return self.collate_fn(next(stream))
            samples: list[Any] = []
            while not ended and len(samples) < len(indices):
                try:
                    samples.append(next(stream))
                except StopIteration:
                    ended = True
            if not samples or (self.drop_last and ended):
                raise StopIteration
            return self.collate_fn(samples)

        return fetch

    def _no_end(self) -> RuntimeError:
        """Or the loop over the batches would end there, as if there were no more."""
        name = type(self.dataset).__name__
        return RuntimeError(f"DataLoader: __getitem__ of {name} raised StopIteration")

    def _explain(self, indices: Any, error: IndexError) -> None:
        """IndexError that names the sampler, if it gave an index beyond the data set."""
        n = len(self.dataset) if hasattr(type(self.dataset), "__len__") else None
        for i in indices:
            if n is not None and isinstance(i, int | np.integer) and not -n <= i < n:
                raise IndexError(
                    f"DataLoader: {self.sampler} gave index {i}, which is beyond the {n} samples "
                    f"of {type(self.dataset).__name__}"
                ) from error
