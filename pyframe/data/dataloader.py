"""DataLoader: a data set as batches."""

from __future__ import annotations

import itertools
import warnings
from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING, Any, Generic, Protocol, TypeVar, cast

from pyframe.core.devices import in_browser
from pyframe.data.collate import default_collate, default_convert
from pyframe.data.dataset import IterableDataset
from pyframe.data.fetch import Fetching, LoaderIterator, SingleIterator
from pyframe.data.sampler import BatchSampler, RandomSampler, Sampler, SequentialSampler, size_of
from pyframe.ops.random.draws import Generator

T_co = TypeVar("T_co", covariant=True)
_FIXED = {"batch_size", "batch_sampler", "sampler", "drop_last", "dataset", "persistent_workers"}
_told: list[bool] = []  # whether a page was told that it has no worker processes


class _Endless(Sampler[None]):
    """What stands for the indices of a stream."""

    def __iter__(self) -> Iterator[None]:
        return itertools.repeat(None)


if TYPE_CHECKING:

    class _Indexed(Protocol[T_co]):
        def __getitem__(self, index: Any, /) -> T_co: ...


class DataLoader(Generic[T_co]):
    """The batches of a data set, as often as it is iterated over, as torch.utils.data.DataLoader.

    Args:
        dataset: has `__getitem__` and, unless a sampler says the order, `__len__`; or it is an
            IterableDataset.
        batch_size: samples in a batch; None gives the samples themselves, with no batch dim.
        shuffle: another random order each time, of `generator` or of `pf.manual_seed`.
        sampler: an iterable of indices.
        batch_sampler: an iterable of lists of indices, in place of `batch_size`, `shuffle`,
            `sampler` and `drop_last`.
        num_workers: processes that make batches; 0: this one does. A web page has no other, and
            says so once.
        collate_fn: makes a batch of a list of samples.
        pin_memory, pin_memory_device: have no effect here.
        drop_last: leave out a last batch that is smaller.
        timeout: seconds to wait for a batch of a worker at most; 0: as long as it lives.
        worker_init_fn: called in each worker with its number, after seeding.
        multiprocessing_context: how workers are started, a name or a context. By default as Python
            does: by fork on Linux up to 3.13, where data sets and functions may be of any kind.
            Otherwise they are pickled, and a program's own file is imported again in each worker:
            it needs `if __name__ == "__main__":`.
        generator: of the random order, and of the workers' seeds.
        prefetch_factor: batches that each worker makes ahead: 2 with workers.
        persistent_workers: keep the processes from one epoch to the next.
        in_order: False gives batches as workers finish them.

    Batches are on the CPU where the data set's samples are; `Model.fit` moves them. A forked worker
    can't use a GPU. An error of a worker is raised here, with its traceback as text; one that dies
    is reported by RuntimeError.

    >>> data = pf.data.TensorDataset(pf.arange(6))
    >>> [batch[0].tolist() for batch in pf.data.DataLoader(data, batch_size=4)]
    [[0, 1, 2, 3], [4, 5]]
    """

    def __init__(
        self,
        dataset: _Indexed[T_co] | Iterable[T_co],
        batch_size: int | None = 1,
        shuffle: bool | None = None,
        sampler: Any = None,
        batch_sampler: Any = None,
        num_workers: int = 0,
        collate_fn: Callable[[Any], Any] | None = None,
        pin_memory: bool = False,
        drop_last: bool = False,
        timeout: float = 0,
        worker_init_fn: Callable[[int], Any] | None = None,
        multiprocessing_context: Any = None,
        generator: Generator | None = None,
        *,
        prefetch_factor: int | None = None,
        persistent_workers: bool = False,
        pin_memory_device: str = "",
        in_order: bool = True,
    ) -> None:
        _check_workers(num_workers, timeout, prefetch_factor, persistent_workers)
        iterable = isinstance(dataset, IterableDataset)
        _check_dataset(dataset)
        for what, given in (("sampler", sampler), ("batch_sampler", batch_sampler)):
            if given is not None and not hasattr(given, "__iter__"):
                raise TypeError(f"DataLoader: {what} must be an iterable of indices, got {given!r}")
        for what, fn in (("collate_fn", collate_fn), ("worker_init_fn", worker_init_fn)):
            if fn is not None and not callable(fn):
                of = "a list of samples" if what == "collate_fn" else "a worker's number"
                raise TypeError(f"DataLoader: {what} must be a function of {of}, got {fn!r}")
        if iterable:
            options = {"shuffle": shuffle or None, "sampler": sampler}
            for what, value in {**options, "batch_sampler": batch_sampler}.items():
                if value is not None:
                    raise ValueError(
                        f"DataLoader with IterableDataset: expected unspecified {what} option, but "
                        f"got {what}={value!r}: the data set says the order itself"
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
        self.dataset = cast(Any, dataset)
        if sampler is None:
            if iterable:
                sampler = _Endless()
            elif shuffle:
                sampler = RandomSampler(self.dataset, generator=generator)
            else:
                sampler = SequentialSampler(self.dataset)
        if batch_sampler is None and batch_size is not None:
            batch_sampler = BatchSampler(sampler, batch_size, drop_last)
        self.batch_size = batch_size
        self.sampler: Any = sampler
        self.batch_sampler: Any = batch_sampler
        self.num_workers = num_workers
        self.pin_memory = pin_memory
        self.pin_memory_device = pin_memory_device
        self.drop_last = drop_last
        self.timeout = timeout
        self.worker_init_fn = worker_init_fn
        self.multiprocessing_context = multiprocessing_context
        self.generator = generator
        self.prefetch_factor = 2 if num_workers and prefetch_factor is None else prefetch_factor
        self.persistent_workers = persistent_workers
        self.in_order = in_order
        self.collate_fn: Callable[[Any], Any] = collate_fn or (
            default_convert if batch_sampler is None else default_collate
        )
        self._declared: int | None = None  # samples of a stream, once somebody asked
        self._iterator: Any = None  # the one with workers that persist
        self._made = True

    def __setattr__(self, name: str, value: Any) -> None:
        if name in _FIXED and "_made" in self.__dict__:
            raise ValueError(
                f"{name} attribute should not be set after {type(self).__name__} is initialized: "
                "make another"
            )
        super().__setattr__(name, value)

    @property
    def multiprocessing_context(self) -> Any:
        """How worker processes are started: a context of multiprocessing, or None."""
        return self._context

    @multiprocessing_context.setter
    def multiprocessing_context(self, context: Any) -> None:
        if context is not None:
            if not self.num_workers:
                raise ValueError(
                    "multiprocessing_context can only be used with multi-process loading "
                    f"(num_workers > 0), but got num_workers={self.num_workers}"
                )
            context = _context(context)
        self._context = context

    @property
    def _index_sampler(self) -> Any:
        return self.sampler if self.batch_sampler is None else self.batch_sampler

    def __iter__(self) -> LoaderIterator:
        return self._get_iterator()

    def _get_iterator(self) -> LoaderIterator:  # which loaders derived from it call by this name
        own = self.batch_sampler is not None and type(self.batch_sampler) is not BatchSampler
        fetching = Fetching(
            self.dataset,
            self.collate_fn,
            isinstance(self.dataset, IterableDataset),
            self.batch_sampler is not None,
            self.drop_last,
            type(self.batch_sampler if own else self.sampler).__name__,
        )
        if not self.num_workers or not _has_processes():
            if self.timeout and not self.num_workers:
                raise AssertionError(
                    f"DataLoader: timeout={self.timeout} is for worker processes, and there are "
                    "none with num_workers=0"
                )
            return SingleIterator(self, fetching)
        from pyframe.data.processes import ProcessIterator

        kept = self._iterator
        if kept is not None and kept.close.alive:
            kept.again(self)
            return kept
        made = ProcessIterator(self, fetching)
        if self.persistent_workers:
            self._iterator = made
        return made

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_iterator": None}

    def __len__(self) -> int:
        if not isinstance(self.dataset, IterableDataset):
            return len(self._index_sampler)
        n = self._declared = size_of(self.dataset, "DataLoader")
        if self.batch_size is None:
            return n
        return n // self.batch_size if self.drop_last else -(-n // self.batch_size)


def _check_workers(workers: Any, timeout: Any, ahead: Any, persistent: Any) -> None:
    for name, n in (("num_workers", workers), ("prefetch_factor", 0 if ahead is None else ahead)):
        if not hasattr(n, "__index__"):
            raise TypeError(f"DataLoader: {name} must be an int, got {n!r}")
    if not isinstance(timeout, int | float):
        raise TypeError(f"DataLoader: timeout must be a number of seconds, got {timeout!r}")
    if workers < 0:
        raise ValueError(
            f"num_workers option should be non-negative, got {workers}; use num_workers=0 to "
            "disable multiprocessing"
        )
    if timeout < 0:
        raise ValueError(f"timeout option should be non-negative, got {timeout}")
    if workers == 0 and ahead is not None:
        raise ValueError(
            "prefetch_factor option could only be specified in multiprocessing: let num_workers > "
            "0, or leave prefetch_factor out"
        )
    if ahead is not None and ahead < 0:
        raise ValueError(f"prefetch_factor option should be non-negative, got {ahead}")
    if persistent and workers == 0:
        raise ValueError("persistent_workers option needs num_workers > 0")
    if not workers or in_browser():
        return
    from pyframe.core.processors import processors

    if workers > (most := processors()):
        warnings.warn(
            f"This DataLoader will create {workers} worker processes in total. Our suggested max "
            f"number of worker in current system is {most}; more of them may make it slow",
            stacklevel=3,
        )


def _check_dataset(dataset: Any) -> None:
    """TypeError for what has no samples to give."""
    kind = isinstance(dataset, type)
    fetch = None if kind else getattr(dataset, "__getitems__", None)
    if fetch is None and not hasattr(type(dataset), "__getitem__"):
        loop = hasattr(dataset, "__iter__")
        of = f"the class {dataset.__name__}" if kind else type(dataset).__name__
        raise TypeError(
            f"DataLoader: expected a data set with __getitem__(index) and __len__(), got {of}; "
            + ("list(…) of it is one" if loop else "of tensors make TensorDataset(x, y)")
        )


def _context(given: Any) -> Any:
    """A context of multiprocessing; ValueError for a name, TypeError for another object."""
    import multiprocessing
    from multiprocessing.context import BaseContext

    if isinstance(given, str):
        known = multiprocessing.get_all_start_methods()
        if given not in known:
            raise ValueError(
                f"multiprocessing_context option should specify a valid start method in {known!r}, "
                f"but got multiprocessing_context={given!r}"
            )
        return multiprocessing.get_context(given)
    if not isinstance(given, BaseContext):
        raise TypeError(
            "multiprocessing_context option should be a valid context object or a string "
            f"specifying the start method, but got multiprocessing_context={given!r}"
        )
    return given


def _has_processes() -> bool:
    """False in a page, which is told so once."""
    if in_browser() and not _told:
        _told.append(True)
        warnings.warn(
            "DataLoader: a web page has no worker processes: batches are made in this one, as with "
            "num_workers=0",
            stacklevel=3,
        )
    return not in_browser()
