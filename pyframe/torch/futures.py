"""torch.futures: values that come later, in threads of this process."""

from __future__ import annotations

import concurrent.futures
from collections.abc import Callable, Sequence
from typing import Any, Generic, TypeVar

T = TypeVar("T")


class Future(Generic[T]):
    """A value that `set_result` gives, and for which `wait` waits."""

    def __init__(self, *, devices: Any = None) -> None:
        self._own: concurrent.futures.Future[Any] = concurrent.futures.Future()

    def done(self) -> bool:
        """Whether there is a value, or an error."""
        return self._own.done()

    def wait(self) -> Any:
        """The value, when it is there; an error is raised."""
        return self._own.result()

    def value(self) -> Any:
        """The value. RuntimeError if it is not there yet."""
        if not self.done():
            raise RuntimeError("Future.value: there is no value yet; wait() waits for it")
        return self._own.result()

    def set_result(self, result: Any) -> None:
        """Give the value."""
        self._own.set_result(result)

    def set_exception(self, result: BaseException) -> None:
        """Give an error, which `wait` raises."""
        self._own.set_exception(result)

    def add_done_callback(self, callback: Callable[[Any], Any]) -> None:
        """Call callback(self) when there is a value."""
        self._own.add_done_callback(lambda own: callback(self))

    def then(self, callback: Callable[[Any], Any]) -> Future[Any]:
        """A Future of callback(self)."""
        after: Future[Any] = Future()

        def run(own: Any) -> None:
            try:
                after.set_result(callback(self))
            except Exception as error:
                after.set_exception(error)

        self._own.add_done_callback(run)
        return after


def wait_all(futures: Sequence[Any]) -> list[Any]:
    """The values of some, when all are there."""
    return [future.wait() for future in futures]


def collect_all(futures: Sequence[Future[Any]]) -> Future[list[Any]]:
    """A Future of the list of some, when all are done."""
    both: Future[list[Any]] = Future()
    left = set(range(len(futures)))
    if not left:
        both.set_result([])

    def one(i: int) -> Callable[[Any], None]:
        def run(future: Any) -> None:
            left.discard(i)
            if not left and not both.done():
                both.set_result(list(futures))

        return run

    for i, future in enumerate(futures):
        future.add_done_callback(one(i))
    return both
