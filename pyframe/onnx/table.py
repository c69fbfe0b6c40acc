"""The table of operators: a row says what an operator is called and which public ops compute it.

A row's function takes the node's inputs by position and its attributes by their names. The
annotation of a parameter says how it comes: `Host` as a NumPy array, `Any` as it is, all else as a
Tensor. An input that older versions had as an attribute comes from there. The default of an
attribute is that of the operator's schema, or the parameter's own. Three more names are not
attributes: `version` (of the operator), `outputs` (how many the node names), `run` (see
`graph.Run`). What is made of attributes alone, a row's `prepare` makes when a model is loaded.

`host` rows compute the same of NumPy arrays where all inputs are known on the host; they return
NotImplemented where they leave it to the tensors.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

Function = Callable[..., Any]

TENSOR, HOST, STATE, ANY = "tensor", "host", "state", "any"
CONTRIB, ML = "com.microsoft", "ai.onnx.ml"
ROWS: dict[tuple[str, str], OperatorImpl] = {}
ON_HOST: dict[tuple[str, str], OperatorImpl] = {}

_KINDS = {"Host": HOST, "State": STATE, "Any": ANY}

# Operators that a public function computes as it is, of tensors and of the attributes that stand
# after its name, as it calls them; an exporter reads it the other way round.
SAME = {
    "Abs": "abs", "Acos": "acos", "Acosh": "acosh", "Add": "add", "And": "logical_and",
    "Asin": "asin", "Asinh": "asinh", "Atan": "atan", "Atanh": "atanh",
    "BitwiseAnd": "bitwise_and", "BitwiseNot": "bitwise_not", "BitwiseOr": "bitwise_or",
    "BitwiseXor": "bitwise_xor", "Ceil": "ceil", "Celu": "celu alpha", "Cos": "cos",
    "Cosh": "cosh", "Det": "det", "Elu": "elu alpha", "Equal": "eq", "Erf": "erf", "Exp": "exp",
    "Floor": "floor", "Gelu": "gelu approximate", "Greater": "gt", "GreaterOrEqual": "ge",
    "HardSwish": "hardswish", "IsNaN": "isnan", "LeakyRelu": "leaky_relu alpha=negative_slope",
    "Less": "lt", "LessOrEqual": "le", "Log": "log", "MatMul": "matmul", "Mish": "mish",
    "Mul": "mul", "Neg": "neg", "Not": "logical_not", "Or": "logical_or",
    "Reciprocal": "reciprocal", "Relu": "relu", "Round": "round", "Sigmoid": "sigmoid",
    "Sign": "sign", "Sin": "sin", "Sinh": "sinh", "Softplus": "softplus", "Softsign": "softsign",
    "Sqrt": "sqrt", "Sub": "sub", "Tan": "tan", "Tanh": "tanh", "Where": "where",
    "Xor": "logical_xor",
}  # fmt: skip


def same(name: str) -> tuple[str, dict[str, str]]:
    """The function of a row of SAME, and its parameters by the names of the attributes."""
    function, *words = SAME[name].split()
    pairs = [word.partition("=") for word in words]
    return function, {attribute: other or attribute for attribute, _, other in pairs}


class OperatorImpl:
    """A function and how its parameters come."""

    prepare: Function | None = None  # makes, at load, keywords of attributes
    prepared: set[str] = frozenset()  # type: ignore[assignment]  # which ones

    def __init__(self, function: Function, kinds: list[str], rest: str, names: set[str]) -> None:
        self.function, self.kinds, self.rest = function, kinds, rest
        self.attributes = names

    def kind(self, position: int) -> str:
        """How the input at this position comes."""
        return self.kinds[position] if position < len(self.kinds) else self.rest


def _row(function: Function) -> OperatorImpl:
    kinds: list[str] = []
    names: list[str] = []
    rest = ""
    for p in inspect.signature(function).parameters.values():
        text = str(p.annotation)
        kind = _KINDS.get(text.split()[0], TENSOR)
        if p.kind is p.VAR_POSITIONAL:
            rest = kind
        elif p.kind is p.KEYWORD_ONLY:
            names.append(p.name)
        elif p.kind is not p.VAR_KEYWORD:
            kinds.append(kind)
            names.append(p.name)
    return OperatorImpl(function, kinds, rest, set(names))


def add(name: str, function: Function, parameters: dict[str, str]) -> None:
    """The row of an operator that a public function computes of tensors and of its attributes,
    which are these parameters."""

    def row(*xs: Any, **given: Any) -> Any:
        return function(*xs, **{parameters[name]: value for name, value in given.items()})

    ROWS["", name] = OperatorImpl(row if parameters else function, [], TENSOR, set(parameters))


def op(
    names: str, domain: str = "", prepare: Function | None = None, more: str = ""
) -> Callable[[Function], Function]:
    """Decorate a function that is the row of these operators. Its keywords that are no attributes
    `prepare` gives, as a dict, of those that it takes: its own keywords, and `more`."""

    def added(function: Function) -> Function:
        _added(ROWS, names, domain)(function)
        if prepare is not None:
            for name in names.split():
                row = ROWS[domain, name]
                row.prepare, row.prepared = prepare, _row(prepare).attributes | {*more.split()}
        return function

    return added


def host(names: str, domain: str = "") -> Callable[[Function], Function]:
    """Decorate a function that computes these operators of arrays on the host."""
    return _added(ON_HOST, names, domain)


def _added(rows: dict[tuple[str, str], OperatorImpl], names: str, domain: str) -> Any:
    def added(function: Function) -> Function:
        rows.update({(domain, name): _row(function) for name in names.split()})
        return function

    return added
