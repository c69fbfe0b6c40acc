"""What a function reads and changes outside: an Observer sees one run, and a GuardSet tells before
each replay whether all that the run has read lies as it was at its Sources."""

from pyframe.watch.frames import gc_paused
from pyframe.watch.guards import GuardSet
from pyframe.watch.observe import Observer, SideEffects
from pyframe.watch.origin import line_of
from pyframe.watch.sources import MISSING, Source
from pyframe.watch.tracked import InputPlaceholder

__all__ = [
    "MISSING", "GuardSet", "InputPlaceholder", "Observer", "SideEffects", "Source", "gc_paused",
    "line_of",
]  # fmt: skip
