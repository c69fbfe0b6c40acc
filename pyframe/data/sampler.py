"""Samplers: in which order a data set is gone through."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator, Sized
from typing import Any, Generic, TypeVar

import numpy as np

from pyframe import random
from pyframe.random import Generator

T_co = TypeVar("T_co", covariant=True)


def size_of(data: Any, who: str) -> int:
    """len(data); TypeError that says what data needs."""
    if not hasattr(type(data), "__len__"):
        of = f"the class {data.__name__}" if isinstance(data, type) else type(data).__name__
        raise TypeError(
            f"{who}: {of} has no __len__: a data set has __getitem__(index) and __len__(); without "
            "it, a DataLoader needs a sampler"
        )
    return len(data)


class Sampler(Generic[T_co]):
    """An iterable of indices, or of lists of them: a subclass has `__iter__()` and `__len__()`."""

    def __iter__(self) -> Iterator[T_co]:
        raise NotImplementedError(f"{type(self).__name__} needs an __iter__()")


class SequentialSampler(Sampler[int]):
    """0, 1, 2, ..."""

    def __init__(self, data_source: Sized) -> None:
        self.data_source = data_source

    def __iter__(self) -> Iterator[int]:
        return iter(range(len(self)))

    def __len__(self) -> int:
        return size_of(self.data_source, "SequentialSampler")


class RandomSampler(Sampler[int]):
    """All indices in random order, another each time; or `num_samples` draws with replacement.

    Drawn on the host, so that a seed gives the same order on every device and in a page.
    """

    def __init__(
        self,
        data_source: Sized,
        replacement: bool = False,
        num_samples: int | None = None,
        generator: Generator | None = None,
    ) -> None:
        if generator is not None and not isinstance(generator, Generator):
            raise TypeError(
                "RandomSampler: generator must be a pf.Generator (pf.Generator().manual_seed(0)), "
                f"got {generator!r}"
            )
        self.data_source = data_source
        self.replacement = replacement
        self._num_samples = num_samples
        self.generator = generator
        if not _is_count(self.num_samples):
            raise ValueError(
                "num_samples should be a positive integer value, but got num_samples="
                f"{self.num_samples}" + ("; the data set is empty" if num_samples is None else "")
            )

    @property
    def num_samples(self) -> int:
        if self._num_samples is None:
            return size_of(self.data_source, "RandomSampler")
        return self._num_samples

    def __iter__(self) -> Iterator[int]:
        n, left = len(self.data_source), self.num_samples
        if self.replacement:
            bits = (self.generator or random.default_generator).host_bits(2 * left)
            high, low = bits.astype(np.uint64).reshape(2, left)
            yield from ((high << np.uint64(32) | low) % np.uint64(n)).tolist()
            return
        while left > 0:
            yield from random.permutation(n, self.generator)[:left].tolist()
            left -= n

    def __len__(self) -> int:
        return self.num_samples


class BatchSampler(Sampler[list[int]]):
    """Lists of `batch_size` indices of another sampler; the last may be shorter or is dropped."""

    def __init__(self, sampler: Iterable[int], batch_size: int, drop_last: bool) -> None:
        if not _is_count(batch_size):
            raise ValueError(
                f"batch_size should be a positive integer value, but got batch_size={batch_size!r}"
            )
        if not isinstance(drop_last, bool):
            raise ValueError(
                f"drop_last should be a boolean value, but got drop_last={drop_last!r}"
            )
        self.sampler: Any = sampler
        self.batch_size = batch_size
        self.drop_last = drop_last

    def __iter__(self) -> Iterator[list[int]]:
        indices = iter(self.sampler)
        while batch := list(itertools.islice(indices, self.batch_size)):
            if len(batch) == self.batch_size or not self.drop_last:
                yield batch

    def __len__(self) -> int:
        n = len(self.sampler)
        return n // self.batch_size if self.drop_last else -(-n // self.batch_size)


def _is_count(n: Any) -> bool:
    return isinstance(n, int) and not isinstance(n, bool) and n > 0
