"""Numbers and arrays from outside that each replay asks for anew, as a capture knows them."""

from __future__ import annotations

import functools
import math
import operator
from collections.abc import Callable
from typing import Any

import numpy as np

from pyframe.core.modes import mode


def is_number(x: Any) -> bool:
    """Whether `x` is an int or a float, of Python's or NumPy's."""
    return type(x) in (int, float) or isinstance(x, (np.integer, np.floating))


class Number:
    """Stands for an int or a float while a function is captured.

    What is calculated with it is a Number too. A comparison is one that a replay relies on:
    another answer means another capture. Code that wants the number itself ends the capture.
    """

    __slots__ = ("_args", "_fn", "_seen", "_source")
    __array_ufunc__ = None  # operators of NumPy's numbers leave it to this one

    def __init__(self, fn: Callable[..., Any], *args: Any, source: Any = None) -> None:
        """`fn(*args)`; where it depends on nothing else that is fed, `source` tells what it is."""
        self._fn, self._args, self._source = fn, args, source
        self._seen = fn(*map(seen, args))

    @property  # type: ignore[misc]
    def __class__(self) -> type:
        return type(self._seen)

    def _end(self) -> Any:
        """The number itself: what depends on it is not seen from here on."""
        capture = recording()
        if capture is not None:
            capture.give_up(f"needs the value of a number that changes, now {self._seen!r}")
        return self._seen

    def _ask(self, fn: Callable[..., Any], *args: Any) -> Any:
        """An answer that a replay relies on."""
        capture = recording()
        answer = fn(self._seen, *map(seen, args))
        if capture is None:
            return answer
        if not self._args and type(args[0] if args else None) is not Number:
            get: Any = lambda get=self._fn: fn(get(), *args)  # noqa: E731
        else:
            get = lambda: fn(now(self), *map(now, args))  # noqa: E731
        get.question = fn, self, *args  # the same as data, for `formula`
        return capture.watch(get, answer)

    def __float__(self) -> float:
        return float(self._end())

    def __complex__(self) -> complex:
        return complex(self._end())

    def __int__(self) -> int:
        return int(self._ask(int))

    def __index__(self) -> int:
        return int(self._ask(operator.index))

    def __bool__(self) -> bool:
        return bool(self._ask(bool))

    def __hash__(self) -> int:
        return int(self._ask(hash))

    def __repr__(self) -> str:
        return repr(self._end())

    def __str__(self) -> str:
        return str(self._end())

    def __format__(self, spec: str) -> str:
        return format(self._end(), spec)

    def __array__(self, *args: Any, **kwargs: Any) -> Any:
        return np.asarray(self._end(), *args)

    def __reduce__(self) -> Any:
        return type(self._seen), (self._end(),)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._seen if name == "dtype" else self._end(), name)

    def conjugate(self) -> Any:
        return self

    def __round__(self, digits: Any = None) -> Any:
        return _made(round, self, digits)

    def __floor__(self) -> Any:
        return _made(math.floor, self)

    def __ceil__(self) -> Any:
        return _made(math.ceil, self)

    def __trunc__(self) -> Any:
        return _made(math.trunc, self)

    def __divmod__(self, other: Any) -> Any:
        return self // other, self % other

    def __rdivmod__(self, other: Any) -> Any:
        return other // self, other % self


def recording() -> Any:
    """The capture that runs in this thread, also around a `vmap`."""
    capture = mode.capture
    while capture is not None and capture.batches:
        capture = capture.outer
    return capture


def seen(x: Any) -> Any:
    """The value of a Number (or of a number) in the capture."""
    return x._seen if type(x) is Number else x


def now(x: Any) -> Any:
    """The value of a Number (or of a number) now."""
    return x._fn(*map(now, x._args)) if type(x) is Number else x


def apply(fn: Callable[..., Any], *args: Any) -> Any:
    """`fn` of numbers, asked for again at each replay where one of them is."""
    return Number(fn, *args) if any(type(a) is Number for a in args) else fn(*args)


def log(x: float) -> float:
    """The natural logarithm, also of 0."""
    return math.log(x) if x else -math.inf


# What a formula may be made of: its words mean the same to web/player.js.
WORDS: dict[Any, str] = {
    operator.add: "+", operator.sub: "-", operator.mul: "*", operator.truediv: "/",
    operator.pow: "**", operator.neg: "neg", operator.pos: "+", operator.abs: "abs", max: "max",
    min: "min", log: "log", operator.eq: "==", operator.ne: "!=", operator.lt: "<",
    operator.le: "<=", operator.gt: ">", operator.ge: ">=", bool: "bool",
}  # fmt: skip


def formula(x: Any, name: Callable[[Any], str]) -> Any:
    """A Number as data: a number, a name (of its source), or [word, argument, …]. The `question` of
    a comparison has one too. ValueError where there are no words for it."""
    if type(x) is tuple:
        fn, args = x[0], x[1:]
    elif type(x) is not Number:
        return x
    elif x._source is not None:
        return name(x._source)
    else:
        fn, args = x._fn, x._args
    if fn not in WORDS or not args:
        raise ValueError(f"no words for {getattr(fn, '__name__', fn)!r} of a number that changes")
    return [WORDS[fn], *[formula(a, name) for a in args]]


def _made(fn: Callable[..., Any], *args: Any) -> Any:
    if not all(a is None or is_number(seen(a)) for a in args):
        return NotImplemented
    if recording() is None:  # another thread has come upon it
        return fn(*map(seen, args))
    out = Number(fn, *args)
    return out if is_number(out._seen) else out._end()


def _calculated(self: Number, fn: Callable[..., Any]) -> Any:
    return _made(fn, self)


def _operator(name: str, fn: Callable[..., Any]) -> None:
    setattr(Number, f"__{name}__", lambda self, other: _made(fn, self, other))
    setattr(Number, f"__r{name}__", lambda self, other: _made(fn, other, self))


def _comparison(name: str, fn: Callable[..., Any]) -> None:
    def compare(self: Any, other: Any) -> Any:
        if isinstance(other, (int, float, type(None), str, np.generic)):
            return self._ask(fn, other)
        return NotImplemented

    setattr(Number, f"__{name}__", compare)


for _name in ("add", "sub", "mul", "truediv", "floordiv", "mod", "pow", "lshift", "rshift"):
    _operator(_name, getattr(operator, _name))
for _name in ("and", "or", "xor"):
    _operator(_name, getattr(operator, f"__{_name}__"))
for _name in ("lt", "le", "gt", "ge", "eq", "ne"):
    _comparison(_name, getattr(operator, _name))
for _name in ("neg", "pos", "abs", "invert"):
    setattr(Number, f"__{_name}__", functools.partialmethod(_calculated, getattr(operator, _name)))


class Array:
    """Stands for an array while a function is captured: it, and parts of it, may become tensors,
    which each replay fills again. Whoever wants its numbers ends the capture: it is no array, so
    that NumPy and what is written in C have to ask for one."""

    __slots__ = ("array", "source")

    def __init__(self, source: Callable[[], np.ndarray], array: np.ndarray) -> None:
        """`source` gives the array that lies there now, `array` is the one in the capture."""
        self.source, self.array = source, array

    @property  # type: ignore[misc]
    def __class__(self) -> type:
        return np.ndarray

    def _end(self) -> np.ndarray:
        """The array itself: what depends on it is not seen from here on."""
        capture = recording()
        if capture is not None:
            capture.give_up("looks at the numbers of an array that changes")
        return self.array

    def __getattr__(self, name: str) -> Any:
        return getattr(self.array if name in _SHAPELY else self._end(), name)

    def __len__(self) -> int:
        return len(self.array)

    def __getitem__(self, key: Any) -> Any:
        part = self.array[key]
        if isinstance(part, np.ndarray) and np.may_share_memory(part, self.array):
            source = self.source
            return Array(lambda: source()[key], part)
        return self._end()[key]

    def __array_ufunc__(self, ufunc: Any, method: str, *xs: Any, **kwargs: Any) -> Any:
        return getattr(ufunc, method)(*map(_bare, xs), **{k: _bare(v) for k, v in kwargs.items()})

    def __array_function__(self, fn: Any, kinds: Any, args: Any, kwargs: Any) -> Any:
        return fn(*map(_bare, args), **{k: _bare(v) for k, v in kwargs.items()})


_SHAPELY = {"shape", "dtype", "ndim", "size", "nbytes", "itemsize", "strides", "flags"}


def _bare(x: Any) -> Any:
    if type(x) is Array:
        return x._end()
    return type(x)(map(_bare, x)) if type(x) in (tuple, list) else x


def _reading(name: str) -> None:
    def read(self: Array, *args: Any, **kwargs: Any) -> Any:
        return getattr(self._end(), name)(*map(_bare, args), **kwargs)

    setattr(Array, name, read)


_KEPT = {*vars(Array), "__new__", "__init__", "__array_finalize__"}
for _name, _method in vars(np.ndarray).items():  # operators, conversions and their like
    if _name.startswith("__") and callable(_method) and _name not in _KEPT:
        _reading(_name)
