"""How a DataLoader makes batches: one of them, here and in a worker, and one way through all."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from pyframe.data.collate import is_default
from pyframe.data.dataset import get_batch, get_samples
from pyframe.ops.random.draws import drawn


@dataclass(frozen=True)
class WorkerInfo:
    """What a worker knows of itself: the data set is its own copy."""

    id: int
    num_workers: int
    seed: int
    dataset: Any


info: WorkerInfo | None = None  # of this process


def get_worker_info() -> WorkerInfo | None:
    """In a worker process of a DataLoader: its id, num_workers, seed and dataset; else None.

    >>> pf.data.get_worker_info() is None
    True
    """
    return info


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


class LoaderIterator(Iterator[Any]):
    """The batches in the order of the sampler; `_next` of a subclass gives one."""

    def __init__(self, loader: Any) -> None:
        self._sampler = loader._index_sampler
        self._dataset = loader.dataset
        self._count = loader.num_workers
        self._rewind(loader)

    def _rewind(self, loader: Any) -> None:
        """Begin with the first batch."""
        self._indices = iter(self._sampler)
        self._declared = loader._declared  # samples that a stream said to have
        self._given = 0

    def _next(self) -> Any:
        raise NotImplementedError

    def __next__(self) -> Any:
        batch = self._next()
        if self._declared is not None:
            self._given += 1
            if self._given > self._declared:
                self._warn()
        return batch

    def __len__(self) -> int:
        return len(self._sampler)

    def __getstate__(self) -> Any:
        raise NotImplementedError(f"{type(self).__name__} cannot be pickled")

    def _warn(self) -> None:
        shares = (
            "; with worker processes each goes through its whole copy: let __iter__ give a share, "
            "by get_worker_info()"
        )
        warnings.warn(
            f"Length of IterableDataset {type(self._dataset).__name__} was reported to be "
            f"{self._declared} (when accessing len(dataloader)), but {self._given} samples have "
            f"been fetched{shares if self._count else ''}",
            stacklevel=3,
        )


class SingleIterator(LoaderIterator):
    """Batches made in this process, each when it is asked for."""

    def __init__(self, loader: Any, fetching: Fetching) -> None:
        super().__init__(loader)
        drawn(loader.generator, "epoch", None)
        self._fetch = fetching.begin()

    def _next(self) -> Any:
        return self._fetch(next(self._indices))
