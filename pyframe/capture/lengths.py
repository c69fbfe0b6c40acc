"""Lengths that change: one capture for arguments of many sizes.

Calls that differ in the sizes of their tensors alone are a `ShapeFamily`. The first two sizes are
captured as they are. In the third capture a SymbolicSize stands for each dimension that was another
before: shapes are then calculated by formulas, and what was decided by comparing sizes is noted as
guards (core/sizes.py). The replay that comes of it is a `DynamicCapture`: for each new size that
its guards let pass it is bound anew, without a capture. A dimension whose number Python code wants,
as `range(x.shape[1])` does, is one of those that stay as they are: each of its sizes is captured.
"""

from __future__ import annotations

import contextlib
import weakref
from collections import deque
from collections.abc import Callable, Collection, Iterator, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from pyframe.capture.arguments import is_copied
from pyframe.core import devices
from pyframe.core.node import Node, Size
from pyframe.core.op import PermutedLayout
from pyframe.core.sizes import (
    MIN_SYMBOLIC_SIZE,
    ShapeEnv,
    ShapeGuards,
    current_shape_guards,
    size_hints,
    use_shape_guards,
)
from pyframe.tensor import Tensor

if TYPE_CHECKING:
    from pyframe.capture.replay import Replay

DimRef = tuple[int, int]  # a tensor among the arguments, and one of its dims
STATIC_CAPTURES = 2  # sizes that are captured as they are
SIZES_SHOWN = 5  # of the last sizes of a dim, in a message
MAX_PATTERNS = 8  # captures for many sizes: more of them are decided too finely


class DynamicCapture(NamedTuple):
    """A capture for many sizes."""

    replay: Replay
    sizes: ShapeEnv
    shapes: list[tuple[Any, ...]]  # of the arguments: numbers, and symbols by their numbers
    holds: Callable[..., bool]  # says for which sizes
    views: set[int]  # which of the arguments were views

    def match(self, shapes: Sequence[Any]) -> tuple[int, ...] | None:
        """The sizes of such a call; None where the capture is not for it."""
        found: dict[int, int] = {}
        for mine, given in zip(self.shapes, shapes, strict=True):
            for n, size in zip(mine, given, strict=True):
                if type(n) is int:
                    if n != size:
                        return None
                elif size < MIN_SYMBOLIC_SIZE or found.setdefault(n[0], size) != size:
                    return None
        now = tuple(found[i] for i in range(len(found)))
        try:
            return now if self.holds(*now) else None
        except ArithmeticError:
            return None


class ShapeFamily:
    """What is known of calls that differ in the sizes of their tensors alone."""

    def __init__(self) -> None:
        self.seen: list[list[Size]] = []  # shapes of the latest captures
        self.changing: dict[DimRef, deque[int]] = {}  # dims, and their last sizes
        self.marked: set[DimRef] = set()
        self.fixed: dict[DimRef, str] = {}  # dims whose number is wanted, and the lines that ask
        self.patterns: list[DynamicCapture] = []
        self.refused = ""  # why no capture may be for many sizes
        self.eager = False  # whether sizes that were not captured run eagerly

    def note(self, shapes: list[Size], marked: set[DimRef]) -> str:
        """Keep the shapes of a call that is captured. What is another than in the last one."""
        other = ""
        self.marked |= marked
        for place in marked:
            self.changing.setdefault(place, deque(maxlen=SIZES_SHOWN))
        for i, shape in enumerate(shapes):
            for d, n in enumerate(shape):
                before = [s[i][d] for s in self.seen]
                if any(m != n for m in before):
                    self.changing.setdefault((i, d), deque(before[-1:], SIZES_SHOWN))
                    if before[-1] != n:
                        other = other or f"{named((i, d))} is {n}, and was {before[-1]}"
                if (i, d) in self.changing:
                    self.changing[i, d].append(n)
        self.seen = [*[s for s in self.seen if s != shapes], shapes][-STATIC_CAPTURES - 1 :]
        return other

    def symbols(self, marked: set[DimRef], at_once: bool) -> set[DimRef]:
        """The dims that a capture of the shapes noted last is to treat as symbols."""
        if self.refused or len(self.patterns) >= MAX_PATTERNS:
            return set()
        shapes = self.seen[-1]
        found = set(self.changing)
        if at_once:
            found = {(i, d) for i, shape in enumerate(shapes) for d in range(len(shape))}
        elif len(self.seen) <= STATIC_CAPTURES:
            found = marked | self.marked
        return {(i, d) for i, d in found - self.fixed.keys() if shapes[i][d] >= MIN_SYMBOLIC_SIZE}

    def lines(self) -> list[str]:
        """For people: the captures for many sizes, and what is captured for each size."""
        out = [f"many sizes run eagerly: {self.refused}"] if self.refused and self.eager else []
        if self.refused and not self.eager:
            out.append(f"each size is captured: {self.refused}")
        out += [f"each {named(p)} is captured: {line} asks for its number"
                for p, line in self.fixed.items()]  # fmt: skip
        for p in self.patterns:
            out.append(
                f"a capture for all sizes with {', '.join(p.sizes.names)} of "
                f"{MIN_SYMBOLIC_SIZE} or more"
            )
            asked = p.sizes.guards.asked.items()
            out += [f"  {p.sizes.words(text)} ({line})" for text, (_, line) in asked]
        return out

    def why_eager(self) -> str:
        """Which sizes change, and why no captures are for them."""
        place, line = next(iter(self.fixed.items()), (next(iter(self.changing)), ""))
        sizes = ", ".join(map(str, self.changing.get(place, ())))
        why = f"{line} asks for its number" if line else self.refused
        why = why or "decisions that depend on it are too many"
        return f"{named(place)} changes with every call (it was {sizes}), and {why}"


def named(place: DimRef) -> str:
    """A dim for people."""
    return f"size {place[1]} of tensor {place[0] + 1} of the arguments"


class _SymbolicInput(Node):
    """The value of an argument in a capture: its sizes are symbols for the thread that captures,
    and numbers for all others."""

    __slots__ = ("shapes", "symbols")
    symbols: ShapeEnv
    shapes: tuple[Any, Any]  # for others, and for that thread

    @property
    def shape(self) -> Any:
        guards = current_shape_guards()
        return self.shapes[guards is not None and guards.sizes is self.symbols]

    @shape.setter
    def shape(self, shape: Any) -> None:
        self.shapes = size_hints(shape), shape


class SymbolicArguments:
    """The sizes of one capture for many sizes, while it is made."""

    def __init__(self, tensors: list[Tensor], places: set[DimRef]) -> None:
        now: dict[int, int] = {}  # equal sizes are one symbol
        self.places: dict[DimRef, int] = {}
        for i, d in sorted(places):
            n = tensors[i].shape[d]
            self.places[i, d] = now.setdefault(n, len(now))
        first = {k: place for place, k in reversed(self.places.items())}
        names = [named(first[k]) for k in range(len(now))]
        self.sizes = ShapeEnv([*now], names)
        self.tensors = tensors

    @property
    def guards(self) -> ShapeGuards:
        return self.sizes.guards

    def writes_a_view(self, written: Collection[int]) -> bool:
        """Whether an argument that is a view of changing memory is written to."""
        return any(x._view_chain and id(x._storage) in written for x in self.tensors)

    def pinned(self) -> dict[DimRef, str]:
        """The dims whose number is asked for, so that the capture is not for many sizes, and the
        lines that ask."""
        wanted = self.guards.wanted()
        return {place: wanted[k] for place, k in self.places.items() if k in wanted}

    @contextlib.contextmanager
    def given(self) -> Iterator[None]:
        """Within it the tensors have symbolic shapes, for this thread."""
        symbols, done = self.sizes.symbols(), []
        whole: dict[int, _SymbolicInput] = {}
        for i, x in enumerate(self.tensors):
            own = x._value()  # of now: a replay may have written to it
            shape: list[Any] = [symbols[self.places[i, d]] if (i, d) in self.places else n
                     for d, n in enumerate(own.shape)]  # fmt: skip
            if all(type(n) is int for n in shape):
                continue
            node = whole.get(id(own))
            if node is None:
                whole[id(own)] = node = _SymbolicInput(
                    None, (), (), Size(shape), own.dtype, own.device, own.data
                )
                node.symbols = self.sizes
            done.append((x, own, node))
            x._node = node
            if not x._view_chain:
                x._storage.node = node
        try:
            with use_shape_guards(self.guards):
                yield
        finally:
            for x, own, node in done:
                if x._node is node:
                    x._node = own
                if x._storage.node is node:
                    x._storage.node = own
                for n in (x._node, x._storage.node):
                    n.shape = size_hints(n.shape)

    def pattern(self, replay: Replay) -> DynamicCapture:
        shapes = [
            tuple((self.places[i, d],) if (i, d) in self.places else n
                  for d, n in enumerate(x.shape))
            for i, x in enumerate(self.tensors)
        ]  # fmt: skip
        views = {i for i, x in enumerate(self.tensors) if x._view_chain}
        return DynamicCapture(
            replay, self.sizes, shapes, self.sizes.holds(self.guards.asked), views
        )


def can_change(tensors: list[Tensor]) -> bool:
    """Whether sizes of such arguments may be symbols: on a GPU, or on the CPU as they lie in
    memory."""
    if any(type(x._view_chain) is PermutedLayout for x in tensors):
        return False
    if all(x.device is devices.cpu for x in tensors):
        return True
    return all(x.device.is_lazy and (not x._view_chain or is_copied(x)) for x in tensors)


def marked(tensors: list[Tensor]) -> set[DimRef]:
    """The dims that `mark_dynamic` has named."""
    found = [(i, _MARKED.get(id(x))) for i, x in enumerate(tensors)] if _MARKED else []
    return {(i, d) for i, known in found if known is not None for d in known[1]}


_MARKED: dict[int, tuple[weakref.ref[Tensor], set[int]]] = {}  # by the ids of tensors


def mark_dynamic(t: Tensor, index: int | Sequence[int]) -> None:
    """Let `pf.compile` treat these dims of `t` as sizes that change: the first capture is of them
    as they are, the second one for many sizes. Of a sample that `pf.web.export` is given they may
    have any size; dims of one size stay alike. TypeError for what is no tensor or no int,
    IndexError for a dim that it does not have.

    Args:
        index: A dim, or several.

    >>> x = pf.zeros(3, 4)
    >>> pf.mark_dynamic(x, 0)
    """
    dims = [index] if isinstance(index, int) else list(index)
    odd = [x for x, kind in ((t, Tensor), *[(d, int) for d in dims]) if not isinstance(x, kind)]
    if odd:
        raise TypeError(
            f"mark_dynamic: expected a Tensor and ints for its dims, got {type(odd[0]).__name__}"
        )
    for d in dims:
        if not -t.ndim <= d < t.ndim:
            raise IndexError(
                f"mark_dynamic: dim {d} of a tensor with {t.ndim} dims; expected "
                f"{-t.ndim} to {t.ndim - 1}"
            )
    me = id(t)
    known = _MARKED.get(me) or (weakref.ref(t, lambda _: _MARKED.pop(me, None)), set())
    known[1].update(d % t.ndim for d in dims)
    _MARKED[me] = known
