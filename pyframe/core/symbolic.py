"""Symbolic values: they stand in a capture for numbers and arrays that change from call to call.

A value that `pf.compile` gives to each replay (a learning rate, an argument that is a number, an
array that a loader fills) must not be baked into a captured Program. In the capture a
SymbolicScalar or a SymbolicArray stands in its place: it has the value of the present call, its
*hint*, and knows how to ask for the value of a later one, by `evaluate`.
"""

from __future__ import annotations

import functools
import math
import operator
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from pyframe.core.modes import mark_uncacheable, mode
from pyframe.core.sizes import SymbolicSize, is_symbolic_size


def is_number(x: Any) -> bool:
    """Whether `x` is an int or a float, of Python's or NumPy's."""
    return type(x) in (int, float) or isinstance(x, (np.integer, np.floating))


class SymbolicScalar:
    """Stands for an int or a float while a function is captured.

    What is calculated with it is a SymbolicScalar too: an expression that each replay evaluates
    again. The answer to a comparison is guarded: a replay relies on it, and another answer leads to
    another capture. Code that needs the number itself ends the capture.
    """

    __slots__ = ("_args", "_fn", "_hint", "_source")
    __array_ufunc__ = None  # operators of NumPy's numbers leave it to this class

    def __init__(self, fn: Callable[..., Any], *args: Any, source: Any = None) -> None:
        """The value is `fn(*args)`. A leaf of an expression has no arguments; its `source` says
        which option of which optimizer it is, where it is one."""
        self._fn, self._args, self._source = fn, args, source
        self._hint = fn(*map(hint, args))

    @property  # type: ignore[misc]
    def __class__(self) -> type:
        return type(self._hint)

    def _concrete(self) -> Any:
        """The number itself, which ends the capture: what code does with it is not seen."""
        if mode.capture is not None:
            mode.capture.graph_break(
                f"needs the value of a number that changes, now {self._hint!r}"
            )
        mark_uncacheable()
        return self._hint

    def _guarded(self, fn: Callable[..., Any], *args: Any) -> Any:
        """The answer of `fn` about this number, on which a replay relies from now on."""
        # The capture is for this size
        args = tuple([int(a) if is_symbolic_size(a) else a for a in args])
        answer = fn(self._hint, *map(hint, args))
        recorder = mode.capture or mode.subgraph_recorder
        if recorder is None:
            return answer
        if not self._args and type(args[0] if args else None) is not SymbolicScalar:
            get: Any = lambda get=self._fn: fn(get(), *args)  # noqa: E731
        else:
            get = lambda: fn(evaluate(self), *map(evaluate, args))  # noqa: E731
        get.question = fn, self, *args  # the same as data, for `formula`
        return recorder.watch(get, answer)

    def __format__(self, spec: str) -> str:
        return format(self._concrete(), spec)

    def __array__(self, *args: Any, **kwargs: Any) -> Any:
        return np.asarray(self._concrete(), *args)

    def __reduce__(self) -> Any:
        return type(self._hint), (self._concrete(),)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._hint if name == "dtype" else self._concrete(), name)

    def conjugate(self) -> Any:
        return self

    def __round__(self, digits: Any = None) -> Any:
        return _made(round, self, digits)

    def __divmod__(self, other: Any) -> Any:
        return self // other, self % other

    def __rdivmod__(self, other: Any) -> Any:
        return other // self, other % self


def hint(x: Any) -> Any:
    """The value that a symbolic scalar has in the captured call; a plain number is its own."""
    return x._hint if type(x) is SymbolicScalar else x


def evaluate(x: Any) -> Any:
    """The value that a symbolic scalar has in the present call; a plain number is its own."""
    return x._fn(*map(evaluate, x._args)) if type(x) is SymbolicScalar else x


def leaves(x: Any) -> list[Callable[[], Any]]:
    """What gives the numbers that a symbolic scalar is calculated from."""
    if type(x) is not SymbolicScalar:
        return []
    return [fn for a in x._args for fn in leaves(a)] if x._args else [x._fn]


def apply_symbolic(fn: Callable[..., Any], *args: Any) -> Any:
    """`fn(*args)`, which is symbolic where one of the arguments is."""
    return SymbolicScalar(fn, *args) if any(type(a) is SymbolicScalar for a in args) else fn(*args)


def log(x: float) -> float:
    """The natural logarithm, also of 0."""
    return math.log(x) if x else -math.inf


# The functions that a formula may be made of; each word means the same to web/player.js.
WORDS: dict[Any, str] = {
    operator.add: "+", operator.sub: "-", operator.mul: "*", operator.truediv: "/",
    operator.pow: "**", operator.neg: "neg", operator.pos: "+", operator.abs: "abs", max: "max",
    min: "min", log: "log", operator.eq: "==", operator.ne: "!=", operator.lt: "<",
    operator.le: "<=", operator.gt: ">", operator.ge: ">=", bool: "bool",
}  # fmt: skip


class NoWordError(ValueError):
    """A function that no formula is made of."""

    def __init__(self, fn: Any) -> None:
        self.name = getattr(fn, "__name__", fn)
        super().__init__(f"no words for {self.name!r} of a number that changes")


def formula(x: Any, name: Callable[[Any], Any], words: Mapping[Any, str] = WORDS) -> Any:
    """A number that changes as data: a number, the name that `name` gives to its source or to the
    place of a size, or a tuple of a word and its operands. A question, which is a function and its
    arguments, is written likewise. NoWordError where `words` has none for a function."""
    if type(x) is SymbolicSize:
        terms = []
        for atoms, n in x.terms.items():
            parts: list[Any] = [n] if n != 1 or not atoms else []
            for k in atoms:
                fn, args, _ = x.sizes.atoms[k]
                parts.append(name(k) if fn is None else formula((fn, *args), name, words))
            terms.append(functools.reduce(lambda a, b: ("*", a, b), parts))
        return functools.reduce(lambda a, b: ("+", a, b), terms) if terms else 0
    if type(x) is tuple:
        fn, args = x[0], x[1:]
    elif type(x) is not SymbolicScalar:
        return x
    elif x._source is not None:
        return name(x._source)
    else:
        fn, args = x._fn, x._args
    if fn not in words or not args:
        raise NoWordError(fn)
    return (words[fn], *[formula(a, name, words) for a in args])


def _made(fn: Callable[..., Any], *args: Any) -> Any:
    """What an operator gives, or NotImplemented for operands that are no numbers."""
    if not all(a is None or is_number(hint(a)) for a in args):
        return NotImplemented
    recorder = mode.capture or mode.subgraph_recorder
    if recorder is None or not recorder.replays:  # another thread has come upon it
        return fn(*map(hint, args))
    out = SymbolicScalar(fn, *args)
    return out if is_number(out._hint) else out._concrete()


def _calculated(self: SymbolicScalar, fn: Callable[..., Any]) -> Any:
    return _made(fn, self)


def _operator(name: str, fn: Callable[..., Any]) -> None:
    setattr(SymbolicScalar, f"__{name}__", lambda self, other: _made(fn, self, other))
    setattr(SymbolicScalar, f"__r{name}__", lambda self, other: _made(fn, other, self))


def _comparison(name: str, fn: Callable[..., Any]) -> None:
    def compare(self: Any, other: Any) -> Any:
        if isinstance(other, (int, float, type(None), str, np.generic)):
            return self._guarded(fn, other)
        return NotImplemented

    setattr(SymbolicScalar, f"__{name}__", compare)


for _name in ("add", "sub", "mul", "truediv", "floordiv", "mod", "pow", "lshift", "rshift"):
    _operator(_name, getattr(operator, _name))
for _name in ("and", "or", "xor"):
    _operator(_name, getattr(operator, f"__{_name}__"))
for _name in ("lt", "le", "gt", "ge", "eq", "ne"):
    _comparison(_name, getattr(operator, _name))
_fn: Any
for _fn in (operator.neg, operator.pos, operator.abs, operator.invert, math.floor, math.ceil,
            math.trunc):  # fmt: skip
    _unary = functools.partialmethod(_calculated, _fn)
    setattr(SymbolicScalar, f"__{_fn.__name__}__", _unary)
for _fn in (int, bool, hash, operator.index):  # an answer that is relied on
    setattr(SymbolicScalar, f"__{_fn.__name__}__", lambda self, fn=_fn: self._guarded(fn))
for _fn in (float, complex, str, repr):  # the number itself
    setattr(SymbolicScalar, f"__{_fn.__name__}__", lambda self, fn=_fn: fn(self._concrete()))


class SymbolicArray:
    """Stands for a NumPy array while a function is captured.

    The array, or a part of it, may become a tensor, which each replay fills again. Code that looks
    at its numbers ends the capture. It is not an ndarray, so that NumPy and whatever is written in
    C have to ask it for one.
    """

    __slots__ = ("array", "source")

    def __init__(self, source: Callable[[], np.ndarray], array: np.ndarray) -> None:
        """`array` is the one of the call that is captured; `source()` gives that of a later one."""
        self.source, self.array = source, array

    @property  # type: ignore[misc]
    def __class__(self) -> type:
        return np.ndarray

    def _concrete(self) -> np.ndarray:
        """The array itself, which ends the capture: what code does with it is not seen."""
        if mode.capture is not None:
            mode.capture.graph_break("looks at the numbers of an array that changes")
        return self.array

    def __getattr__(self, name: str) -> Any:
        return getattr(self.array if name in _METADATA else self._concrete(), name)

    def __len__(self) -> int:
        return len(self.array)

    def __getitem__(self, key: Any) -> Any:
        part = self.array[key]
        if isinstance(part, np.ndarray) and np.may_share_memory(part, self.array):
            source = self.source
            return SymbolicArray(lambda: source()[key], part)
        return self._concrete()[key]

    def __array_ufunc__(self, ufunc: Any, method: str, *xs: Any, **kwargs: Any) -> Any:
        return getattr(ufunc, method)(*map(_bare, xs), **{k: _bare(v) for k, v in kwargs.items()})

    def __array_function__(self, fn: Any, kinds: Any, args: Any, kwargs: Any) -> Any:
        return fn(*map(_bare, args), **{k: _bare(v) for k, v in kwargs.items()})


# what may be asked of an array without looking at its numbers
_METADATA = {"shape", "dtype", "ndim", "size", "nbytes", "itemsize", "strides", "flags"}


def _bare(x: Any) -> Any:
    """An argument of a function of NumPy's, without symbolic arrays; they end the capture."""
    if type(x) is SymbolicArray:
        return x._concrete()
    return type(x)(map(_bare, x)) if type(x) in (tuple, list) else x


def _reading(name: str) -> None:
    def read(self: SymbolicArray, *args: Any, **kwargs: Any) -> Any:
        return getattr(self._concrete(), name)(*map(_bare, args), **kwargs)

    setattr(SymbolicArray, name, read)


_OWN = {*vars(SymbolicArray), "__new__", "__init__", "__array_finalize__"}
for _name, _method in vars(np.ndarray).items():  # operators, conversions and their like
    if _name.startswith("__") and callable(_method) and _name not in _OWN:
        _reading(_name)
