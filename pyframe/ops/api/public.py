"""Which functions of a family PyTorch has, and where: each family publishes its own at its end."""

from __future__ import annotations

import functools
import inspect
import types
from collections.abc import Callable
from typing import Any

from pyframe.core.modes import mode
from pyframe.ops.api import autocast, layouts
from pyframe.ops.api.arguments import Arguments, signature_of
from pyframe.ops.api.layouts import texts
from pyframe.tensor import Tensor

Functions = dict[str, Callable[..., Any]]


METHODS: Functions = {}  # functions of pyframe whose first argument is a tensor: methods too
ONLY_METHODS: Functions = {}  # methods that are no functions of pyframe
FUNCTIONS: Functions = {}  # functions that are no methods
INPLACE: Functions = {}  # those of METHODS that have an in-place variant, `name_`: a method
INPLACE_FUNCTIONS: Functions = {}  # those whose in-place variant is a function of pyframe too
OVERRIDES: list[Any] = []  # who asks for __torch_function__, if there is one: see overrides.py
NOBODY = object()  # takes a call over
INSTEAD: list[Any] = []  # what makes something of a call that failed, if it is one that it knows
TRACERS: list[Any] = []  # who records calls now, in all threads: see jit/record.py
INPLACE_VIEW_OPS: Functions = {}  # those whose in-place variant makes the tensor itself the view
_OUT_OF_RANGE = "for an index out of range; on the GPU when a value is next read."


def public(
    scope: dict[str, Any], both: str = "", inplace: str = "", inplace_functions: str = "",
    rebind: str = "", methods: str = "", functions: str = "", out_exact: str = "",
    out_apart: str = "", rows: str = "", like: str = "", columns: str = "",
    out_of_range: str = "", **casts: str,
) -> None:  # fmt: skip
    """Publish functions of a family: names separated by spaces, each in one of the first six lists;
    `name=other` publishes a function of another name. The first four make functions of pyframe that
    are methods too, and all but `both` their in-place variants. The `out=` of functions in
    `out_exact` must have the result's dtype (the others convert). That of functions in `out_apart`
    must not be what they read: they may have read only a part of it by then. How results lie in
    memory (`rows`, `like`, `columns`) and mixed precision (`casts`: `lower`, `gpu_float32`, …) are
    told by rules of layouts.py and autocast.py, each with the functions that it holds for. The
    docstrings of those in `out_of_range` say what an index out of range raises: an IndexError, or
    the error behind the `=`."""

    def find(names: str) -> Functions:
        pairs = [token.partition("=") for token in names.split()]
        found = {name: scope[other or name] for name, _, other in pairs}
        return {name: getattr(fn, "public", fn) for name, fn in found.items()}

    METHODS.update(find(f"{both} {inplace} {inplace_functions} {rebind}"))
    ONLY_METHODS.update(find(methods))
    FUNCTIONS.update(find(functions))
    INPLACE.update(find(f"{inplace} {inplace_functions}"))
    INPLACE_FUNCTIONS.update(find(inplace_functions))
    INPLACE_VIEW_OPS.update(find(rebind))
    layouts.EXACT_DTYPE_OUT.update(out_exact.split())
    layouts.NO_ALIAS_OUT.update(out_apart.split())
    layouts.declare_layout(scope, rows=rows, like=like, columns=columns)
    autocast.autocast(scope, **casts)
    for token in out_of_range.split():
        name, _, error = token.partition("=")
        text = inspect.cleandoc(scope[name].__doc__ or "")
        scope[name].__doc__ = f"{text}\n\n{error or 'IndexError'} {_OUT_OF_RANGE}"


def as_functions(functions: dict[str, Callable[..., Any]]) -> dict[str, Callable[..., Any]]:
    """Public functions of a namespace: each takes `out=` too, where its results are to go."""
    return {
        name: layouts.with_out(name, as_public(name, fn), signature_of(fn))
        for name, fn in functions.items()
    }


def as_public(name: str, fn: Callable[..., Any]) -> Callable[..., Any]:
    """`fn` as users call it: its arguments are looked at, may have NumPy's names, and `dtype=` may
    be float, int, …; autocast's rule for it is applied; an error tells the call (see arguments.py).
    A warning that `fn` gives has the stacklevel 3: one more than without this wrapper."""
    if not isinstance(fn, types.FunctionType):
        if texts:
            fn.__doc__ = vars(fn).get("__doc__") or texts.complete(fn, name)
        return fn
    takes = Arguments(name, fn)
    fine: set[tuple[Any, ...]] = set()  # the types of arguments that were looked at
    checked = True  # until the first call shows that there is nothing to look at
    rules = None if name.endswith("_") else getattr(fn, "autocast", None)
    lies = None if name.endswith("_") else getattr(fn, "lies", None)

    @functools.wraps(fn)
    def run(*args: Any, **kwargs: Any) -> Any:
        nonlocal checked
        if TRACERS and mode.tracer is not None:
            return mode.tracer.call(run, args, kwargs)
        if OVERRIDES and (taken := OVERRIDES[0](run, args, kwargs)) is not NOBODY:
            return taken
        try:
            if kwargs:
                kwargs = takes.named(kwargs)
            if checked:
                key: tuple[Any, ...] = tuple(map(type, args))
                if kwargs:
                    key += (*kwargs, *map(type, kwargs.values()))
                if key not in fine:
                    if takes.look(args, kwargs):
                        fine.add(key)
                    checked = bool(takes.kinds)
            if rules is not None and mode.autocast is not None:
                cast = autocast.casted(rules, args, kwargs)
                if cast is not None:
                    args, kwargs = cast
                    # what the function is made of computes in these dtypes
                    casting, mode.autocast = mode.autocast, None
                    try:
                        out = fn(*args, **kwargs)
                        return (
                            out if lies is None else layouts.apply_layout(out, lies, args, kwargs)
                        )
                    finally:
                        mode.autocast = casting
            out = fn(*args, **kwargs)
            return out if lies is None else layouts.apply_layout(out, lies, args, kwargs)
        except Exception as error:
            if isinstance(error, TypeError) and (
                name.startswith(_NUMBER_FIRST) or any(map(may_take, (*args, *kwargs.values())))
            ):
                taken = INSTEAD[0](run, name, args, kwargs)
                if taken is not NOBODY:
                    return taken
            better = takes.annotated(error, args, kwargs)
            if better is error:
                raise
            raise better from error

    if texts:
        run.__doc__ = texts.complete(fn, name)
    return run


_NUMBER_FIRST = ("add", "sub", "badd")  # what took numbers before tensors until PyTorch 1.5


def may_take(x: Any) -> bool:
    """Whether an argument that is no tensor may take a call over that failed."""
    if isinstance(x, (list, tuple)):
        return any(map(may_take, x))
    return not isinstance(x, Tensor) and hasattr(type(x), "__torch_function__")


def publish(scope: dict[str, Any], names: list[str], out: str = "") -> None:
    """`as_public` of the functions of a namespace, in place, where pickle finds them by name.
    Those named in `out` take `out=` too."""
    for name in names:
        fn = as_public(name, scope[name])
        if name in out.split():
            fn = layouts.with_out(name, fn, signature_of(scope[name]))
        if fn is not scope[name]:
            fn.__module__, fn.__qualname__ = scope["__name__"], name
            scope[name] = fn
