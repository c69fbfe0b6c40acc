"""Device 'meta': its tensors have a shape, a dtype and strides, and no memory. What is recorded
there counts as computed at once, so no Program is planned and no history of values is kept."""

from __future__ import annotations

import weakref
from collections.abc import Iterable, Sequence
from types import SimpleNamespace
from typing import Any, NoReturn

from pyframe.core import locks
from pyframe.core.limits import Limits
from pyframe.core.node import Node, Storage


class NoMemory:
    """The value of every meta tensor."""

    nbytes = 0

    def __repr__(self) -> str:
        return "no memory"


NO_MEMORY = NoMemory()


class _Computed(list[Any]):
    """What has to be computed: it is, when it is noted."""

    def append(self, ref: weakref.ref[Storage]) -> None:
        storage = ref()
        if storage is not None:
            _compute([storage.node])


def _compute(nodes: Iterable[Node]) -> None:
    for n in nodes:
        if n.data is None:
            n.data, n.inputs = NO_MEMORY, ()


class Meta:
    """What takes the place of an Executor, see executor.py. Reads raise NotImplementedError."""

    def __init__(self) -> None:
        limits = Limits(float16=True, storage_buffers=1 << 10, buffer_bytes=1 << 62)
        self.backend = SimpleNamespace(
            limits=limits, name="meta", adapter="no memory", language="", software=False, lost=""
        )
        self.pending = _Computed()
        self.local = SimpleNamespace(checks=None)
        self.errors: list[tuple[type[Exception], str]] = []
        self.lock = locks.lock()

    def flush(self, extra: Sequence[Node] = ()) -> None:
        _compute(extra)

    def replaces(self, storage: Storage, old: Node) -> None:
        pass

    def upload(self, host: Any, d: Any) -> NoMemory:
        return NO_MEMORY

    def fetch(self, tensors: Sequence[Any]) -> NoReturn:
        raise NotImplementedError(
            "Cannot copy out of meta tensor; no data! A tensor of device 'meta' has a shape and no "
            "values; make it on another device, or a module there with to_empty(device=…)"
        )

    fetch_begin = fetch

    async def fetch_async(self, tensors: Sequence[Any]) -> NoReturn:
        self.fetch(tensors)
