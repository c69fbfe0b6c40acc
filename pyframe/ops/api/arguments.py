"""What a public function takes, as its annotations say it, and how an error tells the call.

Annotations are read as types when a function is first called, so that `int | None`, `int|None` and
`Optional[int]` are the same. Arguments that are tensors, numbers, bools or instances of a class are
looked at here, before the function runs. What the kinds of `BY_FUNCTION` are its function looks at
itself. Any other annotation is an error: there is no argument that nobody looks at by accident.
"""

from __future__ import annotations

import collections.abc
import functools
import inspect
import sys
import traceback
import types
import typing
from collections.abc import Callable
from typing import Any

import numpy as np

from pyframe.core import dtypes as dt
from pyframe.tensor import Tensor

# What the function itself looks at, and why no type says enough.
BY_FUNCTION: dict[Any, str] = {
    Any: "takes several forms (ints or a list of them, a number or a tensor) and tells them apart",
    str: "is one of the words that the function knows; PyTorch refuses others by their value",
    dt.dtype: "may be float, int, bool or complex too, which `Arguments.named` makes a dtype of",
    collections.abc.Callable: "is called",
    collections.abc.Iterable: "is looked at element by element",
    collections.abc.Sequence: "is looked at element by element",
}
_NUMPY_NAMES = {"axis": "dim", "keepdims": "keepdim", "x": "input", "a": "input", "x2": "other"}
_NUMBERS = {bool, int, float, complex}
_ERRORS = (
    RuntimeError, TypeError, ValueError, LookupError, AttributeError, ArithmeticError, MemoryError,
    AssertionError,
)  # fmt: skip
_SEVERAL = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)


def no_tensor(value: Any) -> str:
    """What to do about a value that is given where a tensor must be."""
    if value is None:
        return "; None is what a function or a forward without `return` gives"
    if isinstance(value, tuple) and value and isinstance(value[0], Tensor):
        return (
            f"; it holds {len(value)}, as an LSTM, a GRU or attention gives its output and more: "
            "take x[0], in nn.Sequential by a module of your own whose forward does"
        )
    return "; make it one with pf.tensor"


class AcceptedTypes:
    """What one argument may be: the types that its annotation names."""

    def __init__(self, types: tuple[Any, ...]) -> None:
        self.types = types
        self.tensor, self.none = Tensor in types, type(None) in types
        self.number = not _NUMBERS.isdisjoint(types)
        self.complex = complex in types
        self.float = float in types or self.complex
        self.only_int = int in types and not self.float
        self.classes = tuple(t for t in types if t not in {Tensor, type(None), *_NUMBERS})

    def fit(self, value: Any, others: Any) -> bool:
        """Whether `value`, given beside `others`, is of these kinds. A tensor of one element is a
        number; a complex number is a float where a tensor beside it is complex."""
        if isinstance(value, Tensor):
            number = self.number and (not self.only_int or not value.is_floating_point())
            return self.tensor or (number and value.numel() == 1)
        if value is None:
            return self.none
        if self.classes and isinstance(value, self.classes):
            return True
        if isinstance(value, complex) and self.float:
            return self.complex or any(isinstance(x, Tensor) and x.is_complex() for x in others)
        if isinstance(value, (float, np.floating)):
            return self.float
        return self.number and (isinstance(value, np.bool_) or hasattr(value, "__index__"))

    def told_by_type(self, value: Any) -> bool:
        """Whether each value of the type of `value` fits as `value` does."""
        return not isinstance(value, complex) and (self.tensor or not isinstance(value, Tensor))

    def __str__(self) -> str:
        return " or ".join("None" if t is type(None) else t.__name__ for t in self.types)


def kinds_of(annotation: Any) -> AcceptedTypes | None:
    """The kinds that an annotation names, None for what the function looks at itself; TypeError for
    an annotation that has no rule."""
    union = typing.get_origin(annotation) in (typing.Union, types.UnionType)
    arms = typing.get_args(annotation) if union else (annotation,)
    origins = [typing.get_origin(arm) or arm for arm in arms]
    if any(origin in BY_FUNCTION for origin in origins):
        return None
    for origin in origins:
        if not isinstance(origin, type) or origin is inspect.Parameter.empty:
            raise TypeError(f"no rule for an argument that is annotated as {origin!r}")
    return AcceptedTypes(tuple(origins))


@functools.cache
def signature_of(fn: Callable[..., Any]) -> inspect.Signature:
    """The signature of a function, which most publish twice: as a method and as a function."""
    return inspect.signature(fn)


class Arguments:
    """The parameters of a public function, and what each takes."""

    def __init__(self, name: str, fn: Callable[..., Any]) -> None:
        self.name, self.fn = name, fn

    @property
    def signature(self) -> inspect.Signature:
        return signature_of(self.fn)

    @functools.cached_property
    def kinds(self) -> dict[str, AcceptedTypes]:
        """Those of the parameters that are looked at here; TypeError for an annotation that has no
        rule. `*args` and `**kwargs` are the function's own to look at, as are an op's operands."""
        if hasattr(self.fn, "op"):
            return {}
        found = {}
        names = getattr(inspect.unwrap(self.fn), "__globals__", self.fn.__globals__)
        for key, parameter in self.signature.parameters.items():
            if parameter.kind not in _SEVERAL:
                text = parameter.annotation
                kinds = kinds_of(eval(text, names) if isinstance(text, str) else text)
                if kinds is not None:
                    found[key] = kinds
        return found

    def named(self, kwargs: dict[str, Any]) -> dict[str, Any]:
        """Named arguments under PyTorch's names for NumPy's, and a dtype for float, int, …"""
        if not _NUMPY_NAMES.keys().isdisjoint(kwargs):
            known = self.signature.parameters
            theirs = {a: b for a, b in _NUMPY_NAMES.items() if b in known and a not in known}
            kwargs = {theirs.get(k, k): v for k, v in kwargs.items()}
        if "dtype" in kwargs:
            kwargs["dtype"] = dt.of_argument(self.name, kwargs["dtype"])
        return kwargs

    def look(self, args: Any, kwargs: Any) -> bool:
        """TypeError where an argument is not of its kinds; whether their types alone tell."""
        try:
            given = self.signature.bind(*args, **kwargs).arguments
        except TypeError:
            return False  # Python's own words on missing and unknown arguments follow
        types_tell = True
        for key, kinds in self.kinds.items():
            if key not in given:
                continue
            value = given[key]
            if not kinds.fit(value, given.values()):
                hint = no_tensor(value) if kinds.tensor else ""
                raise TypeError(
                    f"{self.name}(): argument '{key}' must be {kinds}, not {type(value).__name__}"
                    f"{hint}"
                )
            types_tell = types_tell and kinds.told_by_type(value)
        return types_tell

    def annotated(self, error: Exception, args: Any, kwargs: Any) -> Exception:
        """What to raise for an `error` in the call: the same, with the call as a note to it; a
        RuntimeError, as in PyTorch, where there is no room for a result or a number. What the
        caller's own code raised, a hook's or a function's among the arguments, stays as it is, and
        so does an exception that only stops a program."""
        if not isinstance(error, _ERRORS) or _from_elsewhere(error):
            return error
        if isinstance(error, OverflowError) and not isinstance(error, RuntimeError):
            error = RuntimeError(f"{self.name}: {error}")
        if isinstance(error, MemoryError) and not isinstance(error, RuntimeError):
            error = RuntimeError(
                f"{self.name}: can't allocate memory for a result so large: {error}".rstrip(": ")
            )
        try:
            given = self.signature.bind(*args, **kwargs).arguments
        except TypeError:
            return error  # Python has said what is missing or unknown
        for key, parameter in self.signature.parameters.items():
            if parameter.kind is parameter.VAR_KEYWORD and key in given:
                given.update(given.pop(key))
        seen = ", ".join(f"{key}={shown(value)}" for key, value in given.items())
        attributes = vars(error)
        if "call" in attributes:  # that of a function within this one
            attributes["__notes__"].remove(attributes["call"])
        attributes["call"] = f"{self.name} got {seen or 'no arguments'}"
        error.add_note(attributes["call"])
        return error


def _from_elsewhere(error: Exception) -> bool:
    """Whether the caller's own code raised it."""
    ours = {"pyframe", "numpy", "scipy"} | sys.stdlib_module_names
    return any(
        frame.f_globals.get("__name__", "").partition(".")[0] not in ours - {"__main__"}
        for frame, _ in traceback.walk_tb(error.__traceback__)
    )


def shown(value: Any) -> str:
    """An argument in an error's text."""
    if isinstance(value, Tensor):
        return f"{value.dtype.name}{list(value.shape)}"
    if isinstance(value, (list, tuple)) and len(value) < 9:
        return f"[{', '.join(map(shown, value))}]"
    text = f"{value:.6g}" if isinstance(value, float) else repr(value)
    return text if len(text) < 60 else f"a {type(value).__name__}"
