"""DataLoader: a data set as batches."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

from pyframe.data.collate import default_collate, default_convert
from pyframe.data.dataset import get_batch, get_samples
from pyframe.data.sampler import BatchSampler, RandomSampler, SequentialSampler
from pyframe.random import Generator


class DataLoader:
    """The batches of a data set, as often as it is iterated over, as torch.utils.data.DataLoader.

    Args:
        dataset: has `__getitem__` and, unless a sampler says the order, `__len__`.
        batch_size: samples in a batch; None gives the samples themselves, with no batch dim.
        shuffle: another random order each time, of `generator` or of `pf.manual_seed`.
        sampler: an iterable of indices; batch_sampler: one of lists of indices.
        num_workers: 0: batches are made in this process (a web page has no other).
        collate_fn: makes a batch of a list of samples.
        pin_memory: has no effect here.
        drop_last: leave out a last batch that is smaller.

    Batches are on the CPU where the data set's samples are; `Model.fit` moves them.
    """

    def __init__(
        self,
        dataset: Any,
        batch_size: int | None = 1,
        shuffle: bool | None = None,
        sampler: Iterable[int] | None = None,
        batch_sampler: Iterable[Sequence[int]] | None = None,
        num_workers: int = 0,
        collate_fn: Callable[[list[Any]], Any] | None = None,
        pin_memory: bool = False,
        drop_last: bool = False,
        generator: Generator | None = None,
    ) -> None:
        if num_workers != 0:
            raise ValueError(
                f"DataLoader: num_workers={num_workers}, but there are no worker processes here (a "
                "web page has none); pass num_workers=0"
            )
        kind = isinstance(dataset, type)
        fetch = None if kind else getattr(dataset, "__getitems__", None)
        if fetch is None and not hasattr(type(dataset), "__getitem__"):
            loop = hasattr(dataset, "__iter__")
            of = f"the class {dataset.__name__}" if kind else type(dataset).__name__
            raise TypeError(
                f"DataLoader: expected a data set with __getitem__(index) and __len__(), got {of}; "
                + ("list(…) of it is one" if loop else "of tensors make TensorDataset(x, y)")
            )
        for what, given in (("sampler", sampler), ("batch_sampler", batch_sampler)):
            if given is not None and not hasattr(given, "__iter__"):
                raise TypeError(f"DataLoader: {what} must be an iterable of indices, got {given!r}")
        if collate_fn is not None and not callable(collate_fn):
            raise TypeError(
                "DataLoader: collate_fn must be a function of a list of samples, got "
                f"{collate_fn!r}"
            )
        if sampler is not None and shuffle:
            raise ValueError("DataLoader: sampler option is mutually exclusive with shuffle")
        if batch_sampler is not None:
            if batch_size != 1 or shuffle or sampler is not None or drop_last:
                raise ValueError(
                    "DataLoader: batch_sampler option is mutually exclusive with batch_size, "
                    "shuffle, sampler, and drop_last"
                )
            batch_size = None
        elif batch_size is None and drop_last:
            raise ValueError(
                "DataLoader: batch_size=None option disables auto-batching and is mutually "
                "exclusive with drop_last"
            )
        if sampler is None:
            sampler = RandomSampler(dataset, generator=generator) if shuffle else None
            sampler = sampler or SequentialSampler(dataset)
        if batch_sampler is None and batch_size is not None:
            batch_sampler = BatchSampler(sampler, batch_size, drop_last)
        self.dataset = dataset
        self.batch_size = batch_size
        self.sampler: Any = sampler
        self.batch_sampler: Any = batch_sampler
        self.num_workers = num_workers
        self.pin_memory = pin_memory
        self.drop_last = drop_last
        self.generator = generator
        self.collate_fn: Callable[[Any], Any] = collate_fn or (
            default_convert if batch_sampler is None else default_collate
        )

    def __iter__(self) -> Iterator[Any]:
        if self.batch_sampler is None:
            for index in self.sampler:
                yield self.collate_fn(self.dataset[index])
        else:
            for indices in self.batch_sampler:
                yield self._batch(indices)

    def _batch(self, indices: Sequence[int]) -> Any:
        batch = NotImplemented
        if self.collate_fn is default_collate:
            batch = get_batch(self.dataset, indices)
        if batch is NotImplemented:
            batch = self.collate_fn(get_samples(self.dataset, indices))
        return batch

    def __len__(self) -> int:
        return len(self.sampler if self.batch_sampler is None else self.batch_sampler)
