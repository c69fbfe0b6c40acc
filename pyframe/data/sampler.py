"""Samplers: in which order a data set is gone through, by one process or by several."""

from __future__ import annotations

import itertools
import math
import sys
from collections.abc import Iterable, Iterator, Sequence, Sized
from typing import Any, Generic, TypeVar

import numpy as np

from pyframe.core import dtypes as dt
from pyframe.ops.random import draws as random
from pyframe.ops.random.draws import Generator, permutation
from pyframe.tensor import as_tensor

T_co = TypeVar("T_co", covariant=True)
_AT_ONCE = 4096  # draws with replacement: programs ask for 1e10 and stop when they have enough


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
    """An iterable of indices, or of lists of them: a subclass has `__iter__()` and `__len__()`.

    >>> class Backwards(pf.data.Sampler):
    ...     def __iter__(self):
    ...         return iter([2, 1, 0])
    >>> list(Backwards())
    [2, 1, 0]
    """

    def __iter__(self) -> Iterator[T_co]:
        raise NotImplementedError(f"{type(self).__name__} needs an __iter__()")


class SequentialSampler(Sampler[int]):
    """0, 1, 2, ...

    Args:
        data_source: What has a length.

    >>> list(pf.data.SequentialSampler("abc"))
    [0, 1, 2]
    """

    def __init__(self, data_source: Sized) -> None:
        self.data_source = data_source

    def __iter__(self) -> Iterator[int]:
        return iter(range(len(self)))

    def __len__(self) -> int:
        return size_of(self.data_source, "SequentialSampler")


class RandomSampler(Sampler[int]):
    """All indices in random order, another each time; or `num_samples` draws with replacement.

    Drawn on the host, so that a seed gives the same order on every device and in a page.

    Args:
        data_source: What has a length.
        replacement: Whether an index may be drawn again.
        num_samples: How many are drawn; all by default.
        generator: The `Generator` to draw from; the default one by default.

    >>> sorted(pf.data.RandomSampler("abc"))
    [0, 1, 2]
    """

    def __init__(
        self, data_source: Sized, replacement: bool = False, num_samples: int | None = None,
        generator: Generator | None = None,
    ) -> None:  # fmt: skip
        self.data_source = data_source
        self.replacement = replacement
        self._num_samples = num_samples
        self.generator = _generator("RandomSampler", generator)
        _check_flag("replacement", replacement, TypeError)
        why = "; the data set is empty" if num_samples is None else ""
        _check_count("num_samples", self.num_samples, why)

    @property
    def num_samples(self) -> int:
        """How many indices it gives."""
        if self._num_samples is None:
            return size_of(self.data_source, "RandomSampler")
        return self._num_samples

    def __iter__(self) -> Iterator[int]:
        n, left, given = len(self.data_source), self.num_samples, self.generator
        how = n, left, self.replacement, given
        if (found := random.drawn(given, "order", None, *how)) is not None:
            yield from found
            return
        if self.replacement:
            # one number of the generator seeds them all: others may draw from it meanwhile
            own = Generator().manual_seed(int(_bits(1, self.generator)[0]))
            while left > 0:
                yield from (_bits(min(left, _AT_ONCE), own) % np.uint64(n)).tolist()
                left -= _AT_ONCE
            return
        while left > 0:
            yield from random.permutation(n, self.generator)[:left].tolist()
            left -= n

    def __len__(self) -> int:
        return self.num_samples


class SubsetRandomSampler(Sampler[int]):
    """The given indices in random order, another each time.

    Args:
        indices: A list of them.
        generator: The `Generator` to draw from; the default one by default.

    >>> sorted(pf.data.SubsetRandomSampler([3, 5]))
    [3, 5]
    """

    def __init__(self, indices: Sequence[int], generator: Generator | None = None) -> None:
        self.indices = indices
        self.generator = _generator("SubsetRandomSampler", generator)

    def __iter__(self) -> Iterator[int]:
        for i in random.permutation(len(self.indices), self.generator).tolist():
            yield self.indices[i]

    def __len__(self) -> int:
        return len(self.indices)


class WeightedRandomSampler(Sampler[int]):
    """`num_samples` draws of the indices of `weights`, each as probable as its weight says.

    The weights need not add up to 1. Drawn on the host in float64. RuntimeError, when it is gone
    through, for weights that are negative or not finite, or too few of them for the draws.

    Args:
        replacement: Whether an index may be drawn again.
        generator: The `Generator` to draw from; the default one by default.

    >>> list(pf.data.WeightedRandomSampler([0.0, 1.0], 3))
    [1, 1, 1]
    """

    def __init__(
        self, weights: Sequence[float], num_samples: int, replacement: bool = True,
        generator: Generator | None = None,
    ) -> None:  # fmt: skip
        _check_count("num_samples", num_samples)
        _check_flag("replacement", replacement)
        self.weights = as_tensor(weights, dtype=dt.float64, device="cpu")
        if self.weights.ndim != 1:
            raise ValueError(
                "weights should be a 1d sequence but given weights have shape "
                f"{tuple(self.weights.shape)}"
            )
        self.num_samples = num_samples
        self.replacement = replacement
        self.generator = _generator("WeightedRandomSampler", generator)

    def __iter__(self) -> Iterator[int]:
        weights, k = self.weights.detach().numpy(), self.num_samples
        wrong = ~(np.isfinite(weights) & (weights >= 0))
        if wrong.any():
            at = int(wrong.argmax())
            raise RuntimeError(
                "WeightedRandomSampler: expected finite weights that are not negative, got "
                f"{weights[at]} at index {at}"
            )
        some = int(np.count_nonzero(weights))
        if some < (1 if self.replacement else k):
            raise RuntimeError(
                f"WeightedRandomSampler: {some} of {len(weights)} weights are positive, too few "
                f"for num_samples={k} with replacement={self.replacement}"
            )
        how = self.weights, k, self.replacement
        if (found := random.drawn(self.generator, "multinomial", None, *how)) is not None:
            yield from found.tolist()
        elif self.replacement:
            ends = np.cumsum(weights)
            at = np.searchsorted(ends, _uniform(k, self.generator) * ends[-1], side="right")
            yield from np.minimum(at, weights.nonzero()[0][-1]).tolist()
        else:  # the first to ring of clocks at these rates (Efraimidis and Spirakis, 2006)
            clocks = -np.log1p(-_uniform(len(weights), self.generator))
            with np.errstate(divide="ignore", invalid="ignore"):
                rings = np.where(weights > 0, clocks / weights, np.inf)
            yield from np.argsort(rings, kind="stable")[:k].tolist()

    def __len__(self) -> int:
        return self.num_samples


class BatchSampler(Sampler[list[int]]):
    """Lists of `batch_size` indices of another sampler; the last may be shorter or is dropped.

    Args:
        sampler: An iterable of indices.
        drop_last: Whether a last shorter one is left out.

    >>> list(pf.data.BatchSampler(range(5), 2, drop_last=False))
    [[0, 1], [2, 3], [4]]
    """

    def __init__(self, sampler: Iterable[int], batch_size: int, drop_last: bool) -> None:
        _check_count("batch_size", batch_size)
        _check_flag("drop_last", drop_last)
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


def _check_count(name: str, n: Any, why: str = "") -> None:
    if not isinstance(n, int) or isinstance(n, bool) or n <= 0:
        raise ValueError(f"{name} should be a positive integer value, but got {name}={n!r}{why}")


def _check_flag(name: str, value: Any, error: type[Exception] = ValueError) -> None:
    if not isinstance(value, bool):
        raise error(f"{name} should be a boolean value, but got {name}={value!r}")


def _generator(who: str, generator: Any) -> Generator | None:
    if generator is not None and not isinstance(generator, Generator):
        raise TypeError(
            f"{who}: generator must be a pf.Generator (pf.Generator().manual_seed(0)), got "
            f"{generator!r}"
        )
    return generator


def _bits(n: int, generator: Generator | None) -> np.ndarray:
    """uint64 (n,) random bits."""
    bits = (generator or random.default_generator).host_bits(2 * n)
    high, low = bits.astype(np.uint64).reshape(2, n)
    return high << np.uint64(32) | low


def _uniform(n: int, generator: Generator | None) -> np.ndarray:
    """float64 (n,) uniform in [0, 1)."""
    return (_bits(n, generator) >> np.uint64(11)).astype(np.float64) * 2.0**-53


class DistributedSampler(Sampler[int]):
    """Every `num_replicas`-th index from `rank` on, of one order that all processes share.

    Without them they are those of `pf.distributed`, or 1 and 0 where it has not begun. The order is
    drawn from seed + epoch: call `set_epoch` before each epoch, or it stays the same. The first
    indices come again where the data set can't be divided evenly, or with `drop_last` its tail is
    left out. ValueError for a rank outside [0, num_replicas).

    Args:
        dataset: What has a length.
        shuffle: Whether the order is random, by `seed` and the epoch.
        drop_last: Whether indices that not all get are left out, else some come twice.

    >>> list(pf.data.DistributedSampler("abcd", num_replicas=2, rank=1, shuffle=False))
    [1, 3]
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
            own = type(random.default_generator)().manual_seed(self.seed + self.epoch)
            order = permutation(n, own).tolist()
        else:
            order = list(range(n))
        if len(order) < self.total_size:
            order *= math.ceil(self.total_size / n)
        return iter(order[self.rank : self.total_size : self.num_replicas])

    def __len__(self) -> int:
        return self.num_samples

    def set_epoch(self, epoch: int) -> None:
        """Let the next order be that of another epoch.

        Args:
            epoch: its number.
        """
        self.epoch = epoch
