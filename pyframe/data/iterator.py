"""One way through the batches of a DataLoader."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from typing import Any

from pyframe.data.fetch import Fetching


class LoaderIterator(Iterator[Any]):
    """The batches in the order of the sampler; `_next` of a subclass gives one."""

    def __init__(self, loader: Any) -> None:
        self._sampler = loader._index_sampler
        self._dataset = loader.dataset
        self._workers = loader.num_workers
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
            f"been fetched{shares if self._workers else ''}",
            stacklevel=3,
        )


class SingleIterator(LoaderIterator):
    """Batches made in this process, each when it is asked for."""

    def __init__(self, loader: Any, fetching: Fetching) -> None:
        super().__init__(loader)
        self._fetch = fetching.begin()

    def _next(self) -> Any:
        return self._fetch(next(self._indices))
