"""Ctrl-C while a Model trains."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from pyframe.core.devices import in_browser

if TYPE_CHECKING:
    from pyframe.train.model import Model


@contextlib.contextmanager
def interrupts(model: Model) -> Iterator[None]:
    """Let the first Ctrl-C within the block end the fit of `model` after the step that runs, and
    the second one raise KeyboardInterrupt at once.

    Whoever handles SIGINT already goes on to do so; in threads and in pages nothing changes.
    """
    if in_browser():
        yield
        return
    import signal
    import threading

    here = threading.current_thread() is threading.main_thread()
    if not here or signal.getsignal(signal.SIGINT) is not signal.default_int_handler:
        yield
        return

    def first(number: int, frame: Any) -> None:
        signal.signal(signal.SIGINT, signal.default_int_handler)
        model.stop_training = model.history.interrupted = True
        with contextlib.suppress(RuntimeError):  # what was interrupted may be writing there
            print("\nStopping after this step; Ctrl-C again stops at once", file=sys.stderr)

    signal.signal(signal.SIGINT, first)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, signal.default_int_handler)
