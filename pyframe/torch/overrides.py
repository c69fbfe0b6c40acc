"""torch.overrides: which functions can be taken over, besides how (pyframe.overrides)."""

from __future__ import annotations

import contextlib
import functools
import inspect
from collections.abc import Callable
from typing import Any

from pyframe.jit.calls import functions
from pyframe.overrides import handle_torch_function, has_torch_function
from pyframe.tensor import Tensor


def get_overridable_functions() -> dict[Any, list[Callable[..., Any]]]:
    """The functions of each module, and the methods of Tensor, whose calls classes take over."""
    import sys

    found: dict[Any, list[Callable[..., Any]]] = {}
    for name, fn in functions().items():
        space, _, _ = f"torch.{name}".rpartition(".")
        of = Tensor if space == "torch.Tensor" else sys.modules.get(space)
        if of is not None:
            found.setdefault(of, []).append(fn)
    return found


def get_testing_overrides() -> dict[Callable[..., Any], Callable[..., Any]]:
    """For each of these functions one with its arguments that gives -1."""
    return {fn: _dummy(fn) for some in get_overridable_functions().values() for fn in some}


def _dummy(fn: Any) -> Callable[..., Any]:
    def run(*args: Any, **kwargs: Any) -> int:
        return -1

    with contextlib.suppress(TypeError, ValueError):
        run.__signature__ = inspect.signature(fn)  # type: ignore[attr-defined]
    return run


def wrap_torch_function(dispatcher: Callable[..., Any]) -> Any:
    """A decorator: classes of what dispatcher(*args, **kwargs) gives may take the function over."""

    def decorate(func: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(func)
        def wrapped(*args: Any, **kwargs: Any) -> Any:
            relevant = dispatcher(*args, **kwargs)
            if has_torch_function(relevant):
                return handle_torch_function(wrapped, relevant, *args, **kwargs)
            return func(*args, **kwargs)

        return wrapped

    return decorate


@functools.cache
def _methods() -> set[Any]:
    return {fn for fn in vars(Tensor).values() if callable(fn) and fn.__hash__}


def is_tensor_method_or_property(func: Callable[..., Any]) -> bool:
    """Whether it is a method of Tensor, or reads a property."""
    return getattr(func, "__name__", "") == "__get__" or func in _methods()
