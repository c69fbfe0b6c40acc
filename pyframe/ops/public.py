"""Which functions of a family PyTorch has, and where: each family lists its own at its end."""

from __future__ import annotations

import functools
import inspect
import sys
import traceback
import types
import warnings
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from pyframe.core import dtypes as dt
from pyframe.core.modes import mode
from pyframe.ops import autocast, check
from pyframe.tensor import Tensor

Functions = dict[str, Callable[..., Any]]


class Public(NamedTuple):
    """Public names and what they call."""

    both: Functions  # functions of pyframe that are methods of Tensor too
    methods: Functions  # methods only
    functions: Functions  # functions only
    inplace: Functions  # those of `both` and `methods` that have an in-place variant, `name_`
    rebind: Functions  # those whose in-place variant makes the tensor itself the view
    inplace_functions: list[str]  # those whose in-place variant is a function of pyframe too


def public(
    scope: dict[str, Any], both: str = "", methods: str = "", functions: str = "",
    inplace: str = "", rebind: str = "", inplace_functions: str = "",
    out_exact: str = "", out_apart: str = "",
) -> Public:  # fmt: skip
    """Names separated by spaces; `name=other` publishes a function of another name. The `out=` of
    functions in `out_exact` must have the result's dtype (the others convert). That of functions in
    `out_apart` must not be what they read: they may have read only a part of it by then."""

    def find(names: str) -> Functions:
        pairs = [token.partition("=") for token in names.split()]
        found = {name: scope[other or name] for name, _, other in pairs}
        return {name: getattr(fn, "public", fn) for name, fn in found.items()}

    kept = {**find(both), **find(methods)}
    variants, views = ({n: kept[n] for n in names.split()} for names in (inplace, rebind))
    _OUT_EXACT.update(out_exact.split())
    _OUT_APART.update(out_apart.split())
    return Public(
        find(both), find(methods), find(functions), variants, views, inplace_functions.split()
    )


_OUT_EXACT: set[str] = set()
_OUT_APART: set[str] = set()


def as_functions(functions: dict[str, Callable[..., Any]]) -> dict[str, Callable[..., Any]]:
    """Public functions of a namespace: each takes `out=` too, where its results are to go."""
    return {name: _with_out(name, fn) for name, fn in functions.items()}


@functools.cache
def _signature(fn: Callable[..., Any]) -> inspect.Signature:
    """The signature of a function, which most publish twice: as a method and as a function."""
    return inspect.signature(fn)


_NUMPY_NAMES = {"axis": "dim", "keepdims": "keepdim", "x": "input", "a": "input", "x2": "other"}


def as_public(name: str, fn: Callable[..., Any]) -> Callable[..., Any]:
    """`fn` with NumPy's names of its arguments too, and float, int, … as `dtype=`, as PyTorch;
    what it raises names the function and the argument to blame (see `_blame`). A warning that `fn`
    gives has the stacklevel 3: one more than without this wrapper."""
    if not isinstance(fn, types.FunctionType):
        return fn
    known = {} if hasattr(fn, "op") else _signature(fn).parameters  # an op checks its operands
    renamed = {a: b for a, b in _NUMPY_NAMES.items() if b in known and a not in known}
    checked = any(_kinds(p.annotation) for p in known.values())
    good: set[tuple[Any, ...]] = set()  # the types of arguments that were looked at
    rules = None if name.endswith("_") else getattr(fn, "autocast", None)

    @functools.wraps(fn)
    def run(*args: Any, **kwargs: Any) -> Any:
        try:
            if kwargs:
                kwargs = {renamed.get(k, k): v for k, v in kwargs.items()}
                if "dtype" in kwargs:
                    kwargs["dtype"] = dt.of_argument(name, kwargs["dtype"])
            if checked:
                key: tuple[Any, ...] = tuple(map(type, args))
                if kwargs:
                    key += (*kwargs, *map(type, kwargs.values()))
                if key not in good and _check(name, fn, args, kwargs):
                    good.add(key)
            if rules is not None and mode.autocast is not None:
                cast = autocast.casted(rules, args, kwargs)
                if cast is not None:
                    args, kwargs = cast
                    # what the function is made of computes in these dtypes
                    casting, mode.autocast = mode.autocast, None
                    try:
                        return fn(*args, **kwargs)
                    finally:
                        mode.autocast = casting
            return fn(*args, **kwargs)
        except Exception as e:
            better = _blame(name, fn, args, kwargs, e)
            if better is e:
                raise
            raise better from e

    return run


def publish(scope: dict[str, Any], names: list[str]) -> None:
    """`as_public` of the functions of a namespace, in place, where pickle finds them by name."""
    for name in names:
        fn = as_public(name, scope[name])
        if fn is not scope[name]:
            fn.__module__, fn.__qualname__ = scope["__name__"], name
            scope[name] = fn


_NAMED = (RuntimeError, IndexError, TypeError, ValueError, NotImplementedError)
_INSTEAD = {  # of what Python or NumPy raises within, what the function does
    AttributeError: TypeError, KeyError: ValueError, ZeroDivisionError: RuntimeError,
    MemoryError: RuntimeError, OverflowError: RuntimeError,
}  # fmt: skip
_TOO_LARGE = ("array is too big", "Maximum allowed", "Unable to allocate")


def _kinds(annotation: Any) -> set[str]:
    """The types that an annotation names if they are checked, else none."""
    kinds = set(str(annotation).split(" | "))
    return kinds if kinds <= {"Tensor", "int", "float", "bool", "None"} else set()


def _check(name: str, fn: Callable[..., Any], args: Any, kwargs: Any) -> bool:
    """TypeError where an argument is not what its annotation says; whether types alone tell."""
    try:
        given = inspect.signature(fn).bind(*args, **kwargs)
    except TypeError:
        return False  # Python's own words on missing and unknown arguments follow
    types_tell = True
    for key, value in given.arguments.items():
        parameter = given.signature.parameters[key]
        kinds = _kinds(parameter.annotation)
        if not kinds or parameter.kind in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD):
            continue
        number = bool(kinds & {"int", "float", "bool"})
        if isinstance(value, Tensor) and "Tensor" not in kinds:
            types_tell, fits = False, number and value.numel() == 1
        elif isinstance(value, Tensor) or value is None:
            fits = value is not None or "None" in kinds
        elif isinstance(value, complex) and "float" in kinds:
            types_tell = False
            fits = any(isinstance(x, Tensor) and x.is_complex() for x in given.arguments.values())
        else:
            fits = number and (isinstance(value, np.bool_) or hasattr(value, "__index__"))
            fits = fits or ("float" in kinds and isinstance(value, (float, np.floating)))
        if not fits:
            hint = "; make it one with pf.tensor" if "Tensor" in kinds else ""
            if value is None and hint:
                hint = "; None is what a function or a forward without `return` gives"
            expected = parameter.annotation.replace(" | ", " or ")
            raise TypeError(
                f"{name}(): argument '{key}' must be {expected}, not {type(value).__name__}{hint}"
            )
    return types_tell


def _blame(
    name: str, fn: Callable[..., Any], args: Any, kwargs: Any, error: Exception
) -> Exception:
    """What to raise for the `error` of fn(*args, **kwargs): TypeError where an argument is not what
    its annotation says, else the same (see `_INSTEAD`), with the function's name and what it got if
    the text has no name. Nothing of this is paid for before something has gone wrong."""
    if type(error) not in _NAMED and not isinstance(error, tuple(_INSTEAD)):
        return error  # not about arguments: a way to stop
    if _from_elsewhere(error):
        return error
    try:
        given = inspect.signature(fn).bind(*args, **kwargs)
        _check(name, fn, args, kwargs)
    except TypeError as e:
        return e if "must be" in str(e) else error
    text = getattr(error, "said", str(error))  # without the name of a function within this one
    if name.rstrip("_") in text or text.startswith("device "):
        said = text
    else:
        empty = not text and isinstance(error, MemoryError)
        if empty or any(words in text for words in _TOO_LARGE):
            text, error = "can't allocate memory for a result so large", MemoryError()
        seen = ", ".join(f"{key}={_shown(value)}" for key, value in given.arguments.items())
        said = f"{name}: {text}" + ("" if "; got " in text else f"; got {seen}")
    if type(error) in _NAMED or "32 bits" in text:
        error.args = (said, *error.args[1:])
    else:
        error = next(new for old, new in _INSTEAD.items() if isinstance(error, old))(said)
    error.said = text  # type: ignore[attr-defined]
    return error


def _from_elsewhere(error: Exception) -> bool:
    """Whether the caller's own code raised it: a hook's, or a function's among the arguments."""
    ours = {"pyframe", "numpy", "scipy"} | sys.stdlib_module_names
    return any(
        frame.f_globals.get("__name__", "").partition(".")[0] not in ours - {"__main__"}
        for frame, _ in traceback.walk_tb(error.__traceback__)
    )


def _shown(value: Any) -> str:
    """An argument in an error's text."""
    if isinstance(value, Tensor):
        return f"{value.dtype.name}{list(value.shape)}"
    if isinstance(value, (list, tuple)) and len(value) < 9:
        return f"[{', '.join(map(_shown, value))}]"
    text = f"{value:.6g}" if isinstance(value, float) else repr(value)
    return text if len(text) < 60 else f"a {type(value).__name__}"


def _with_out(name: str, fn: Callable[..., Any]) -> Callable[..., Any]:
    inner, fn = fn, as_public(name, fn)

    def run(*args: Any, out: Any = None, **kwargs: Any) -> Any:
        if out is None:
            return fn(*args, **kwargs)
        casting, mode.autocast = mode.autocast, None  # what is written keeps its dtype
        try:
            result = fn(*args, **kwargs)
        finally:
            mode.autocast = casting
        return _store(name, result, out, [*args, *kwargs.values()], 3)

    functools.update_wrapper(run, fn, assigned=("__doc__",), updated=())
    run.__name__ = run.__qualname__ = name
    run.__module__ = "pyframe"
    run.__signature__ = _showing_out(_signature(inner))  # type: ignore[attr-defined]
    return run


def _showing_out(known: inspect.Signature) -> inspect.Signature:
    """A signature with `out=`, if there is something to put there."""
    result, parameters = known.return_annotation, list(known.parameters.values())
    if not parameters or result in ("bool", "None", "Size", "dt.dtype"):
        return known
    last = parameters[-1:] if parameters[-1].kind is inspect.Parameter.VAR_KEYWORD else []
    parameters[len(parameters) - len(last) :] = [_OUT if result == "Tensor" else _OUTS, *last]
    return inspect.Signature(parameters, return_annotation=result, __validate_parameters__=False)


_OUT, _OUTS = (
    inspect.Parameter("out", inspect.Parameter.KEYWORD_ONLY, default=None, annotation=kind)
    for kind in ("Tensor | None", "Any")
)


def _store(name: str, result: Any, out: Any, read: Any, stacklevel: int) -> Any:
    """Put a result (or several) into the tensors given as `out=`, resized where they don't fit."""
    if isinstance(result, tuple):
        if not isinstance(out, (tuple, list)) or len(out) != len(result):
            raise TypeError(f"{name}: out= must be a tuple of {len(result)} tensors")
        stored = []
        for r, o in zip(result, out, strict=True):  # no comprehension: it may be a frame
            stored.append(_store(name, r, o, read, stacklevel + 1))
        return type(result)(*stored) if hasattr(result, "_fields") else tuple(stored)
    if not isinstance(out, Tensor):
        raise TypeError(f"{name}: out= must be a Tensor, got {type(out).__name__}")
    if mode.grad and (result.requires_grad or out.requires_grad):
        raise RuntimeError(
            f"{name}(): functions with out=... arguments don't support automatic differentiation, "
            "but one of the arguments requires grad."
        )
    if out.device is not result.device:
        raise RuntimeError(f"{name}: expected out= on {result.device}, got {out.device}")
    if out.dtype is not result.dtype and name in _OUT_EXACT:
        raise RuntimeError(
            f"{name}: Expected out tensor to have dtype {result.dtype.name}, but got "
            f"{out.dtype.name} instead"
        )
    check.no_overlap(name, out, *_tensors(read), same=name not in _OUT_APART)
    if out._node.shape != result._node.shape:
        if out.numel():
            warnings.warn(
                f"An output with one or more elements was resized since it had shape "
                f"{list(out.shape)}, which does not match the required output shape "
                f"{list(result.shape)}. Pass a tensor of that shape, or out.resize_(0).",
                stacklevel=stacklevel,
            )
        out.data = out.new_empty(result._node.shape)
    return out._write(result)


def _tensors(given: Any) -> list[Tensor]:
    if isinstance(given, (list, tuple)):
        return [x for part in given for x in _tensors(part)]
    return [given] if isinstance(given, Tensor) else []
