"""Data sets: samples by index, and sets made of other sets."""

from __future__ import annotations

import bisect
import itertools
import math
import warnings
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Generic, TypeVar

import numpy as np

from pyframe.data.sampler import size_of
from pyframe.ops.random.draws import Generator, permutation
from pyframe.tensor import Tensor

T = TypeVar("T")
T_co = TypeVar("T_co", covariant=True)
_FETCHES = ("__getitem__", "__getitems__", "__getbatch__")


class Dataset(Generic[T_co]):
    """A map from indices to samples: a subclass has `__getitem__(index)` and `__len__()`.

    Two faster ways to fetch a batch are its own choice. `__getitems__(indices)` gives the list of
    samples, as in PyTorch. `__getbatch__(indices)` gives at once what `default_collate` would make
    of them, or NotImplemented; a DataLoader asks for it unless it has a collate_fn of its own.

    >>> class Squares(pf.data.Dataset):
    ...     def __getitem__(self, index):
    ...         return index, index**2
    ...     def __len__(self):
    ...         return 4
    >>> next(iter(pf.data.DataLoader(Squares(), batch_size=3)))
    [tensor([0, 1, 2]), tensor([0, 1, 4])]
    """

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        # A base class's faster fetches would bypass a new __getitem__: switch them off.
        own = [name in vars(cls) for name in _FETCHES]
        for i, name in enumerate(_FETCHES):
            if any(own[:i]) and not own[i]:
                setattr(cls, name, None)

    def __getitem__(self, index: Any) -> T_co:
        raise NotImplementedError(f"{type(self).__name__} needs a __getitem__(index)")

    def __add__(self, other: Dataset[T_co]) -> ConcatDataset[T_co]:
        return ConcatDataset([self, other])


def get_samples(dataset: Any, indices: Sequence[int]) -> list[Any]:
    """The samples at `indices`, in one call where the data set can."""
    fetch = getattr(dataset, "__getitems__", None)
    return [dataset[i] for i in indices] if fetch is None else fetch(indices)


def get_batch(dataset: Any, indices: Sequence[int]) -> Any:
    """The collated batch of `indices`, or NotImplemented where the data set can't make it."""
    fetch = getattr(dataset, "__getbatch__", None)
    return NotImplemented if fetch is None else fetch(indices)


class TensorDataset(Dataset[tuple[Tensor, ...]]):
    """Samples are tuples of the rows of `tensors`, which all have as many.

    >>> pf.data.TensorDataset(pf.zeros(4, 2), pf.arange(4))[3]
    (tensor([0., 0.]), tensor(3))
    """

    def __init__(self, *tensors: Tensor) -> None:
        wrong = [type(t).__name__ for t in tensors if not isinstance(t, Tensor)]
        if wrong or not tensors:
            raise TypeError(
                f"TensorDataset: expected tensors, got {wrong or 'none'}; arrays become tensors by "
                "pf.from_numpy"
            )
        if not all(t.ndim for t in tensors):
            raise IndexError(
                "TensorDataset: a tensor without dims has no rows; expected one row for each sample"
            )
        if len({t.size(0) for t in tensors}) > 1:
            shapes = ", ".join(str(list(t.shape)) for t in tensors)
            raise AssertionError(
                "TensorDataset: Size mismatch between tensors: expected the same first size, got "
                + shapes
            )
        self.tensors = tensors

    def __getitem__(self, index: Any) -> tuple[Tensor, ...]:
        return tuple(t[index] for t in self.tensors)

    def __getbatch__(self, indices: Sequence[int]) -> list[Tensor]:
        rows = np.asarray(indices, np.int64)
        return [t[rows] for t in self.tensors]

    def __len__(self) -> int:
        return len(self.tensors[0])


class IterableDataset(Dataset[T_co], Iterable[T_co]):
    """A stream of samples: a subclass has `__iter__()`, and `__len__()` if it knows its length.

    With worker processes each has a copy of it and goes through all of it: let `__iter__` give the
    share of `get_worker_info().id`.

    >>> class Count(pf.data.IterableDataset):
    ...     def __iter__(self):
    ...         return iter(range(3))
    >>> list(pf.data.DataLoader(Count(), batch_size=2))
    [tensor([0, 1]), tensor([2])]
    """

    def __add__(self, other: Dataset[T_co]) -> ChainDataset[T_co]:  # type: ignore[override]
        return ChainDataset([self, other])


class StackDataset(Dataset[Any]):
    """Samples are tuples, or dicts by the keywords' names, of the samples of several data sets.

    Args:
        args, kwargs: Data sets of one length, by position or by name.

    >>> pf.data.StackDataset(x=[1, 2], y=[3, 4])[1]
    {'x': 2, 'y': 4}
    """

    def __init__(self, *args: Dataset[Any], **kwargs: Dataset[Any]) -> None:
        if args and kwargs:
            raise ValueError(
                "StackDataset: expected data sets by position (samples are tuples) or by name "
                "(samples are dicts), got both"
            )
        if not args and not kwargs:
            raise ValueError("StackDataset: At least one dataset should be passed")
        self.datasets: Any = args or kwargs
        sizes = [size_of(d, "StackDataset") for d in self._parts()]
        if len(set(sizes)) > 1:
            raise ValueError(
                "StackDataset: Size mismatch between datasets: expected as many samples in each, "
                f"got {sizes}"
            )
        self._length = sizes[0]

    def _parts(self) -> Iterable[Any]:
        return self.datasets.values() if isinstance(self.datasets, dict) else self.datasets

    def _join(self, parts: Iterable[Any]) -> Any:
        if isinstance(self.datasets, dict):
            return dict(zip(self.datasets, parts, strict=True))
        return tuple(parts)

    def __getitem__(self, index: Any) -> Any:
        return self._join(d[index] for d in self._parts())

    def __getitems__(self, indices: Sequence[int]) -> list[Any]:
        columns = [get_samples(d, indices) for d in self._parts()]
        for column in columns:
            if len(column) != len(indices):
                raise ValueError(
                    "StackDataset: Nested dataset's output size mismatch. Expected "
                    f"{len(indices)}, got {len(column)}"
                )
        return [self._join(row) for row in zip(*columns, strict=True)]

    def __getbatch__(self, indices: Sequence[int]) -> Any:
        parts = []
        for d in self._parts():
            batch = get_batch(d, indices)
            if batch is NotImplemented:
                return NotImplemented
            parts.append(batch)
        joined = self._join(parts)
        return joined if isinstance(joined, dict) else parts

    def __len__(self) -> int:
        return self._length


class Subset(Dataset[T_co]):
    """The samples of `dataset` at `indices`.

    >>> list(pf.data.Subset([10, 20, 30], [0, 2]))
    [10, 30]
    """

    def __init__(self, dataset: Dataset[T_co], indices: Sequence[int]) -> None:
        self.dataset = dataset
        self.indices = indices

    def __getitem__(self, index: Any) -> T_co:
        if isinstance(index, list):
            return self.dataset[[self.indices[i] for i in index]]
        return self.dataset[self.indices[index]]

    def __getitems__(self, indices: Sequence[int]) -> list[T_co]:
        return get_samples(self.dataset, [self.indices[i] for i in indices])

    def __getbatch__(self, indices: Sequence[int]) -> Any:
        return get_batch(self.dataset, [self.indices[i] for i in indices])

    def __len__(self) -> int:
        return len(self.indices)


class ConcatDataset(Dataset[T_co]):
    """The samples of several data sets, one after the other.

    Args:
        datasets: What has `__getitem__` and `__len__`, each.

    >>> pf.data.ConcatDataset([[1, 2], [3]])[2]
    3
    """

    def __init__(self, datasets: Iterable[Dataset[T_co]]) -> None:
        if not isinstance(datasets, Iterable):
            raise TypeError(
                f"ConcatDataset: expected a list of data sets, got {type(datasets).__name__}"
            )
        self.datasets: list[Any] = list(datasets)
        if not self.datasets:
            raise AssertionError("ConcatDataset: datasets should not be an empty iterable")
        if any(isinstance(d, IterableDataset) for d in self.datasets):
            raise AssertionError(
                "ConcatDataset does not support IterableDataset; + or ChainDataset chains them"
            )
        self.cumulative_sizes = list(
            itertools.accumulate(size_of(d, "ConcatDataset") for d in self.datasets)
        )

    def __getitem__(self, index: int) -> T_co:
        n = len(self)
        if not -n <= index < n:
            kind = ValueError if index < 0 else IndexError  # PyTorch's
            raise kind(f"ConcatDataset: index {index} is out of range for {n} samples")
        index %= n
        which = bisect.bisect_right(self.cumulative_sizes, index)
        before = self.cumulative_sizes[which - 1] if which else 0
        return self.datasets[which][index - before]

    def __len__(self) -> int:
        return self.cumulative_sizes[-1]


class ChainDataset(IterableDataset[T_co]):
    """The samples of several IterableDatasets, one after the other.

    Args:
        datasets: Some of them.

    >>> class Count(pf.data.IterableDataset):
    ...     def __iter__(self):
    ...         return iter(range(2))
    >>> list(pf.data.ChainDataset([Count(), Count()]))
    [0, 1, 0, 1]
    """

    def __init__(self, datasets: Iterable[Dataset[T_co]]) -> None:
        self.datasets = datasets

    def _streams(self) -> Iterator[Any]:
        for d in self.datasets:
            if not isinstance(d, IterableDataset):
                raise AssertionError(
                    "ChainDataset only supports IterableDataset, got a "
                    f"{type(d).__name__}; ConcatDataset joins those with __getitem__"
                )
            yield d

    def __iter__(self) -> Iterator[T_co]:
        for d in self._streams():
            yield from d

    def __len__(self) -> int:
        return sum(size_of(d, "ChainDataset") for d in self._streams())


def random_split(
    dataset: Dataset[T], lengths: Sequence[float], generator: Generator | None = None
) -> list[Subset[T]]:
    """Disjoint random subsets of the given lengths, or of fractions that add up to 1.

    What fractions leave over goes to the subsets in turn. ValueError for lengths that don't add up.

    Args:
        dataset: What is split.
        lengths: Ints, or floats.
        generator: The `Generator` to draw from; the default one by default.

    >>> [len(part) for part in pf.data.random_split(range(10), [0.8, 0.2])]
    [8, 2]
    """
    n = size_of(dataset, "random_split")
    sizes: list[Any] = list(lengths) if isinstance(lengths, Iterable) else [None]
    if not all(hasattr(k, "__float__") for k in sizes):
        raise TypeError(
            "random_split: expected a list of lengths, or of fractions that add up to 1, got "
            f"{lengths!r}"
        )
    total = sum(sizes)
    if math.isclose(total, 1) and total <= 1:
        for i, fraction in enumerate(sizes):
            if not 0 <= fraction <= 1:
                raise ValueError(
                    f"random_split: Fraction at index {i} is not between 0 and 1: {fraction}"
                )
        sizes = [math.floor(n * fraction) for fraction in sizes]
        for i in range(n - sum(sizes)):
            sizes[i % len(sizes)] += 1
        for i, size in enumerate(sizes):
            if size == 0:
                warnings.warn(
                    f"random_split: Length of split at index {i} is 0. This might result in an "
                    "empty dataset.",
                    stacklevel=2,
                )
    if sum(sizes) != n:
        raise ValueError(
            "random_split: Sum of input lengths does not equal the length of the input dataset! "
            f"{sizes} add up to {sum(sizes)}, expected {n} (or fractions that add up to 1)"
        )
    indices = permutation(n, generator).tolist()
    ends = itertools.accumulate(sizes)
    return [
        Subset(dataset, indices[end - size : end]) for end, size in zip(ends, sizes, strict=True)
    ]
