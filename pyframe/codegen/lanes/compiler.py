"""The interface of the CPU's compilers of lane programs: LLVM natively, WebAssembly in a page."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple, Protocol

import numpy as np

from pyframe.graph.program import Kernel


class Launch(NamedTuple):
    """A step of compiled work: a function by its number, or a routine of the compiler's own library
    by its name, with how many words it takes. `units` of a function whose sizes change are a
    formula."""

    function: int = -1
    routine: str = ""
    words: int = 0
    units: Any = 0


class ScratchArg(NamedTuple):
    """A word that is the address of so many bytes, which hold nothing between launches."""

    nbytes: int


class ErrorFlagArg(NamedTuple):
    """A word that is the address of an i64, which a routine sets where the op's NumPy function
    raises an error."""


class Launches(Protocol):
    """Launches, ready to run. Where they work stands in `table`, in words as wide as an address: of
    launch k from `starts[k]` on the addresses of its function's bindings, then that of its params;
    or what its routine takes. Who runs it writes there."""

    @property
    def table(self) -> np.ndarray:
        """The words, of an unsigned int type."""

    @property
    def starts(self) -> Sequence[int]:
        """Where the words of each launch begin."""

    def run(self, first: int, last: int) -> None:
        """Run the launches from `first` on, before `last`."""

    def again(self, units: np.ndarray, words: np.ndarray) -> Launches:
        """The same launches with other words in their table, those of functions whose sizes change
        of so many units. Both are ints of 64 bits."""


class CpuCompiler(Protocol):
    """Makes lane programs run on the CPU at hand."""

    name: str
    adapter: str  # what computes, for people
    alone: bool  # whether there is no NumPy beside it

    def routine(
        self, op: Any, inputs: Sequence[np.ndarray], attrs: tuple[Any, ...], out: np.ndarray
    ) -> Sequence[tuple[str, Sequence[int | np.ndarray | ScratchArg | ErrorFlagArg]]] | None:
        """The routines of the library, with their words, that compute `op` on these arrays as they
        lie in memory; None if it has none. An array among the words stands for its address, and is
        to be kept."""

    def printed(self, kernel: Kernel) -> Any:
        """What `load` takes of a kernel without a routine; it says its `units` and `sizes`, which
        are formulas where sizes change. UnsupportedKernelError if it has no form here."""

    def load(self, functions: Sequence[Any], launches: Sequence[Launch]) -> Launches:
        """Compile; `functions` are what `printed` gave."""
