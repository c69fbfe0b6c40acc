"""Extern kernels of the CPU: hand-written functions that loops can't say, and how ops call them.

An op names its own in its declaration (`routine="scan.cumsum"`: a function of a module of this
package, or of that of a code generator). It is planned from the operands' shapes, strides and
dtypes, as `lower_extern` is, and gives calls with fixed arguments.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, TypeAlias

import numpy as np

SCRATCH, TABLES = -1, -2

Arrays: TypeAlias = Sequence[np.ndarray]  # of which shapes, strides and dtypes count


class Addr(NamedTuple):
    """An address that is known when a call is bound: `offset` bytes past operand number `of` (the
    result comes after the inputs), the routine's SCRATCH memory, or its TABLES."""

    of: int
    offset: int = 0


class KernelInvocation(NamedTuple):
    """A call of a function, which gives nothing. It may be done in so many parts, by several
    threads; each part has scratch memory of its own."""

    function: str
    arguments: tuple[int | Addr, ...]
    parts: int = 1


class LibraryCall(NamedTuple):
    """What computes an op: calls, one after the other, with `scratch` bytes of memory, which hold
    nothing between calls, and `tables`, which stay as they are; both at a multiple of 16 bytes.
    What the op's NumPy function raises an error for (an index out of range) is a fault."""

    calls: tuple[KernelInvocation, ...]
    scratch: int = 0
    tables: np.ndarray | None = None  # int32


Plan: TypeAlias = Callable[[Arrays, tuple[Any, ...], np.ndarray], "LibraryCall | None"]


class KernelBody(NamedTuple):
    """A function that code generators make. `write(f, w, first, last, part)` writes it: `w` are its
    `words` by their names, those with an @ addresses. Of as many things as the word `shared` says
    it does those from `first` to `last`, multiples of `grain` but for the end; `part` is the number
    of this part of the work."""

    words: str
    shared: str
    write: Callable[..., None]
    grain: int = 1


def names_of(words: str) -> list[str]:
    """The names of the words of a call, of which those that are addresses have an @."""
    return words.replace("@", "").split()


MIN_CHUNK_ELEMENTS = 1 << 14  # elements that are worth a part of their own
MAX_CHUNKS = 16  # parts


def parts(count: int, work: int) -> int:
    """How many parallel parts `count` items make that have `work` elements together."""
    return max(1, min(count, work // MIN_CHUNK_ELEMENTS, MAX_CHUNKS))
