"""How a refusal is worded: what was expected, what was seen in its place, and the nearest fix."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

import pyframe as pf
from pyframe.core.extras import is_pil
from pyframe.core.words import join_parts


def is_pandas(value: Any) -> bool:
    """Whether `value` is a DataFrame, a Series or an Index; pandas is not imported for it."""
    return type(value).__module__.partition(".")[0] == "pandas" and hasattr(value, "to_numpy")


def is_array(value: Any) -> bool:
    """Whether `value` is a tensor, or something that NumPy takes as an array."""
    return isinstance(value, pf.Tensor) or (
        hasattr(value, "__array__") and not is_pil(value) and not isinstance(value, type)
    )


def seen(value: Any) -> str:
    """A value in an error's text."""
    kind = type(value).__name__
    if isinstance(value, pf.Tensor | np.ndarray) or is_pandas(value):
        return f"{kind} of shape {list(value.shape)}"
    if isinstance(value, list | tuple | set | dict):
        keys = f" with the keys {list(value)}" if isinstance(value, dict) and len(value) < 9 else ""
        return f"{kind} of {len(value)}{keys}"
    if isinstance(value, type | str | bytes | int | float | complex | np.generic) or value is None:
        text = repr(value)
        return text if len(text) < 80 else f"{text[:70]}…"
    name = getattr(value, "__name__", "")
    return f"{kind} {name}" if name else kind


def listed(given: Any) -> list[Any]:
    """What is given as one thing, a dict or a list, as a list."""
    if given is None:
        return []
    if isinstance(given, Mapping):
        return list(given.values())
    return list(given) if isinstance(given, list | tuple) else [given]


def name_of(fn: Any) -> str:
    """What a function, or the type of an object that can be called, is called."""
    return str(getattr(fn, "__name__", type(fn).__name__))


def made(value: Any, otherwise: str = "") -> str:
    """The fix where a class stands in the place of an object."""
    return f"make one: {value.__name__}(…)" if isinstance(value, type) else otherwise


def must(
    what: str, rule: str, value: Any, *fixes: str, error: type[Exception] = TypeError
) -> Exception:
    """The error of what must be or give something else."""
    return error(join_parts(f"{what} must {rule}, got {seen(value)}", *fixes))


def expected(
    what: str, rule: str, value: Any, *fixes: str, error: type[Exception] = TypeError
) -> Exception:
    """The error of a value in the place of another one."""
    return error(join_parts(f"{what}: expected {rule}, got {seen(value)}", *fixes))
