"""Tensors in nested lists, tuples and dicts."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from pyframe.tensor.tensor import Tensor


def tree_map(value: Any, make: Callable[[Tensor], Any]) -> Any:
    """`value` with each of its tensors replaced by what `make` gives."""
    return map_parts(value, lambda x: make(x) if isinstance(x, Tensor) else x)


def map_parts(value: Any, make: Callable[[Any], Any]) -> Any:
    """`value` with each part that is no list, tuple or dict replaced by what `make` gives."""
    if isinstance(value, tuple) and hasattr(value, "_fields"):
        return type(value)(*[map_parts(v, make) for v in value])
    if isinstance(value, (list, tuple)):
        return type(value)(map_parts(v, make) for v in value)
    if isinstance(value, dict):
        out = copy.copy(value)
        out.update({k: map_parts(v, make) for k, v in value.items()})
        return out
    return make(value)


def leaves(tree: Any) -> list[Tensor]:
    """The tensors in nested lists, tuples and dicts."""
    found: list[Tensor] = []
    tree_map(tree, lambda x: found.append(x) or x)  # type: ignore[func-returns-value]
    return found


def unflatten(values: Sequence[Any], tree: Any) -> Any:
    """`tree` with its tensors replaced by `values`, in order."""
    rest = iter(values)
    return tree_map(tree, lambda _: next(rest))


def named(tree: Any, name: str = "") -> Iterator[tuple[str, Any]]:
    """What nested lists, tuples and dicts hold, with the way there: ("layers.0.weight", x)."""
    keys: Any = tree if isinstance(tree, dict) else ()
    if isinstance(tree, (list, tuple)):
        keys = getattr(tree, "_fields", range(len(tree)))
    if not keys:
        yield name, tree
        return
    parts = tree.values() if isinstance(tree, dict) else tree
    for key, part in zip(keys, parts, strict=True):
        yield from named(part, f"{name}.{key}" if name else str(key))
