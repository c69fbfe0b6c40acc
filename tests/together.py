"""Threads whose results, and errors, are the test's."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

SOON = 60  # seconds after which a thread counts as stuck


class Thread:
    """Runs `work` in a thread; `result()` is what it gives, or raises."""

    def __init__(self, work: Callable[[], Any]) -> None:
        self.out: Any = None
        self.error: BaseException | None = None
        self.work = work
        self.thread = threading.Thread(target=self.run, daemon=True)
        self.thread.start()

    def run(self) -> None:
        try:
            self.out = self.work()
        except BaseException as e:
            self.error = e

    def result(self, seconds: float = SOON) -> Any:
        self.thread.join(seconds)
        assert not self.thread.is_alive(), f"a thread is stuck after {seconds} s in {self.work}"
        if self.error is not None:
            raise self.error
        return self.out


def together(work: Callable[[int], Any], n: int = 2) -> list[Any]:
    """What `work(0)` .. `work(n - 1)` give, in threads that begin at the same time."""
    start = threading.Barrier(n)

    def run(i: int) -> Any:
        start.wait()
        return work(i)

    threads = [Thread(lambda i=i: run(i)) for i in range(n)]  # type: ignore[misc]
    return [thread.result(10 * SOON) for thread in threads]
