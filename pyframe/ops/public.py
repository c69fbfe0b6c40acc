"""Which functions of a family PyTorch has, and where: each family lists its own at its end."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

Functions = dict[str, Callable[..., Any]]


class Public(NamedTuple):
    """Public names and what they call."""

    both: Functions  # functions of pyframe that are methods of Tensor too
    methods: Functions  # methods only
    functions: Functions  # functions only
    inplace: Functions  # those of `both` and `methods` that have a twin `name_`


def public(
    scope: dict[str, Any], both: str = "", methods: str = "", functions: str = "", inplace: str = ""
) -> Public:
    """Names separated by spaces; `name=other` publishes a function of another name."""

    def find(names: str) -> Functions:
        pairs = [token.partition("=") for token in names.split()]
        return {name: scope[other or name] for name, _, other in pairs}

    kept = {**find(both), **find(methods)}
    return Public(find(both), find(methods), find(functions), {n: kept[n] for n in inplace.split()})
