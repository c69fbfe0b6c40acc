"""Dynamic inputs: values that change from call to call, which each replay is given as its
arguments are.

A number among the arguments, and a number, an array or a tensor that lies outside, is at first a
part of what a capture relies on. Where it was another in several captures in a row it is dynamic
from then on: something symbolic stands for it in the next capture.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable
from typing import Any, NamedTuple

import numpy as np

from pyframe.capture.arguments import flatten_argument
from pyframe.capture.sources import MISSING, VAR, Source
from pyframe.capture.tracked import InputPlaceholder
from pyframe.core.symbolic import SymbolicArray, SymbolicScalar, hint, is_number
from pyframe.tensor import Tensor

MAX_SAME = 3  # captures in a row for a number that is another each time
MAX_CAPTURES = 8  # captures in a row for another value, and captures of a function that are kept


class UnstableInputError(Exception):
    """A value that can't be dynamic is another in every call."""


class NumberArgument(NamedTuple):
    """The i-th number among the arguments of calls of one kind."""

    picture: Any
    number: int

    def id(self) -> Any:
        """A key, as of a Source."""
        return self.picture, self.number

    def __str__(self) -> str:
        return f"number {self.number + 1} of the arguments"


class DynamicInputs:
    """What the replays of one function are given."""

    def __init__(self, forget: Callable[[], None]) -> None:
        """`forget` drops the captures, when a source begins or ceases to be dynamic."""
        self.forget = forget
        self.sources: list[Source] = []
        self.numbers: dict[Any, set[int]] = {}  # among the arguments of calls with such a picture
        self.present: list[Any] = []  # the numbers among the arguments of the present call
        self.streaks: dict[Any, int] = {}  # by id: captures in a row that were made for a value
        self.rarely: dict[Any, bool] = {}  # by id: whether it changes less often than in every call
        self.unfit: set[Any] = set()  # the ids of what was dynamic, and can't be
        self.asks_types = ""  # the line where types are asked for: no number is dynamic then

    def describe(self, tensors: list[Tensor]) -> list[Any]:
        """A hashable picture of the values at the sources, of which the tensors are collected."""
        out: list[Any] = []
        for source in tuple(self.sources):
            value = source.get()
            if isinstance(value, Tensor):
                out.append(flatten_argument(value, tensors, []))
            elif type(value) is np.ndarray:
                out.append((np.ndarray, value.shape, value.dtype))
            elif is_number(value) or value is None or value is MISSING:
                out.append(type(value))
            else:  # it is of another kind now, and guarded as all else
                self.sources.remove(source)
                self.unfit.add(source.id())
                self.forget()
        return out

    # --- deciding

    def decide(self, missed: Iterable[tuple[Any, Any, Any]], hits: int) -> bool:
        """Note for which values (where it is, what it was, what it is) another capture is needed.
        Whether one of them is dynamic from now on. `hits`: how often the last capture was replayed.

        UnstableInputError where captures never help."""
        before, self.streaks = self.streaks, {}
        found = False
        for what, (at, old, new) in {m[0].id(): m for m in missed}.items():
            streak = before.get(what, 0) + 1
            if streak < MAX_SAME - 1 or what in self.unfit or not self.can_be_dynamic(at, old, new):
                often = not hits or (is_number(new) and what not in self.unfit)
                self.streaks[what] = streak if often else 0
                if self.streaks[what] >= (MAX_SAME if is_number(new) else MAX_CAPTURES):
                    raise UnstableInputError
            elif isinstance(at, Source):
                self.make_dynamic(at, rarely=bool(hits))
                found = True
            else:
                self.numbers.setdefault(at.picture, set()).add(at.number)
                self.rarely[what] = bool(hits)
                found = True
        return found

    def can_be_dynamic(self, at: Any, old: Any, new: Any) -> bool:
        """Whether a value that changes, at a source or among the arguments, can be dynamic."""
        if isinstance(at, NumberArgument):
            return not self.asks_types
        if at.how == VAR or at.key is None or not at.is_writable():
            return False
        if isinstance(new, Tensor):
            return old is None or isinstance(old, Tensor)
        if self.asks_types:  # nothing symbolic has the type of a number
            return False
        if type(new) is np.ndarray:
            return old is None or type(old) is np.ndarray
        return is_number(new) and type(old) is type(new)

    def make_dynamic(self, source: Source, rarely: bool = False) -> None:
        """From now on each replay is given the value at a source."""
        if all(source.id() != p.id() for p in self.sources):
            self.sources.append(source.let_go())
        self.rarely[source.id()] = rarely
        self.forget()

    def inputs_of(self, stand_ins: dict[Any, InputPlaceholder], picture: Any) -> list[Any]:
        """The sources and the numbers for which something symbolic stood in a capture."""
        found: list[Any] = [s.source for s in stand_ins.values() if s.given is not s.value]
        return found + [NumberArgument(picture, i) for i in self.numbers.get(picture, ())]

    def withdraw(self, inputs: list[Any], picture: Any) -> bool:
        """A function couldn't take what stood for these values. If they change rarely it is
        captured for each value, and they are not dynamic any more; else False."""
        if not inputs or not all(self.rarely[at.id()] for at in inputs):
            return False
        self.unfit.update(at.id() for at in inputs)
        self.sources = [p for p in self.sources if p.id() not in self.unfit]
        self.numbers.pop(picture, None)
        return True

    # --- what a capture is given

    def stand_ins(self) -> dict[Any, InputPlaceholder]:
        """What stands for the values at the sources, by their ids."""
        values = [(source, source.get()) for source in self.sources]
        return {
            source.id(): InputPlaceholder(source, _stand_in(source, v), v) for source, v in values
        }

    def with_symbols(self, picture: Any, args: Any, kwargs: Any) -> Any:
        """The arguments, with a symbolic scalar for each number that is dynamic."""
        dynamic = self.numbers.get(picture)
        if not dynamic:
            return args, kwargs
        number = itertools.count()

        def fill(value: Any) -> Any:
            if type(value) in (int, float):
                i = next(number)
                return SymbolicScalar(lambda: self.present[i]) if i in dynamic else value
            if isinstance(value, tuple):
                items = map(fill, value)
                return type(value)(*items) if hasattr(value, "_fields") else type(value)(items)
            return value

        return tuple(map(fill, args)), {k: fill(v) for k, v in kwargs.items()}


def _stand_in(source: Source, value: Any) -> Any:
    if type(value) is np.ndarray:
        return SymbolicArray(lambda: _array(source.get()), value)
    return SymbolicScalar(lambda: hint(source.get())) if is_number(value) else value


def _array(x: Any) -> np.ndarray:
    """The array that lies at a source, also while something symbolic stands for it."""
    return x.array if type(x) is SymbolicArray else x
