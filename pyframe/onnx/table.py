"""The table of operators: a row says what an operator is called and which public ops compute it.

A row's function takes the node's inputs by position and its attributes by their names. The
annotation of a parameter says how it comes: `Host` as a NumPy array, `Any` as it is, all else as a
Tensor. An input that older versions had as an attribute comes from there. The default of an
attribute is that of the operator's schema, or the parameter's own. Three more names are not
attributes: `version` (of the operator), `outputs` (how many the node names), `run` (see
`graph.Run`).

`host` rows compute the same of NumPy arrays where all inputs are known on the host; they return
NotImplemented where they leave it to the tensors.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

Function = Callable[..., Any]

TENSOR, HOST, STATE, ANY = "tensor", "host", "state", "any"
CONTRIB = "com.microsoft"
ROWS: dict[tuple[str, str], Row] = {}
ON_HOST: dict[tuple[str, str], Row] = {}

_KINDS = {"Host": HOST, "State": STATE, "Any": ANY}


class Row:
    """A function and how its parameters come."""

    def __init__(self, function: Function, kinds: list[str], rest: str, names: set[str]) -> None:
        self.function, self.kinds, self.rest = function, kinds, rest
        self.attributes = names

    def kind(self, position: int) -> str:
        """How the input at this position comes."""
        return self.kinds[position] if position < len(self.kinds) else self.rest


def _row(function: Function, plain: bool) -> Row:
    kinds: list[str] = []
    names: list[str] = []
    rest = TENSOR if plain else ""
    for p in () if plain else inspect.signature(function).parameters.values():
        text = str(p.annotation)
        kind = _KINDS.get(text.split()[0], TENSOR)
        if p.kind is p.VAR_POSITIONAL:
            rest = kind
        elif p.kind is p.KEYWORD_ONLY:
            names.append(p.name)
        else:
            kinds.append(kind)
            names.append(p.name)
    return Row(function, kinds, rest, set(names))


def add(names: str, function: Function, domain: str = "", plain: bool = True) -> None:
    """A row for operators that a public op computes as it is, of tensors alone."""
    for name in names.split():
        ROWS[domain, name] = _row(function, plain)


def op(names: str, domain: str = "") -> Callable[[Function], Function]:
    """Decorate a function that is the row of these operators."""

    def added(function: Function) -> Function:
        add(names, function, domain, plain=False)
        return function

    return added


def host(names: str, domain: str = "") -> Callable[[Function], Function]:
    """Decorate a function that computes these operators of arrays on the host."""

    def added(function: Function) -> Function:
        for name in names.split():
            ON_HOST[domain, name] = _row(function, False)
        return function

    return added
