"""Tables of what is refused, and how a row is checked.

A row is a call, `->`, and a regular expression that the error's text has; what is too long goes on
in an indented line. A type of error and `: ` may stand before it: other rows, and those that are a
call alone, have the type that PyTorch's error has. Or the text is one to be found as it is, where
` … ` stands for any other.
"""

from __future__ import annotations

import re
import warnings
from collections.abc import Callable
from typing import Any

import pytest

import pyframe as pf


def rows(table: str) -> list[tuple[str, str]]:
    """The call and the text of each row."""
    joined = table.strip().replace("\n    ", " ")
    return [(call, words) for call, _, words in (r.partition(" -> ") for r in joined.split("\n"))]


def calls(table: str) -> list[str]:
    """Those of a table without texts, in which ` | ` parts calls in a line."""
    return [call.strip() for call in re.split(r" \| |\n", table.strip())]


def literal(table: str) -> list[tuple[str, str]]:
    """The same of a table whose texts, each after a type, are to be found as they are."""
    out = []
    for call, text in rows(table):
        kind, _, words = text.partition(": ")
        out.append((call, f"{kind}: {'.*'.join(map(re.escape, words.split(' … ')))}"))
    return out


def check_refused(
    call: str, text: str, names: Callable[[Any], dict[str, Any]], torch: Any = None
) -> None:
    """`names(lib)` is what the call speaks of, in either library; what it gives is read."""
    found = re.match(r"(\w+(?:Error|Warning)|StopIteration): (.*)", text)
    kind, words = found.groups() if found else (None, text or ".{20}")
    if kind is None:
        with warnings.catch_warnings(action="ignore"), pytest.raises(Exception) as theirs:
            _read(call, names(torch))
        kind = _name(theirs.type)
    with pytest.raises(Exception, match=f"(?s){words}") as ours:
        _read(call, names(pf))
    assert _name(ours.type) == kind


def _read(call: str, names: dict[str, Any]) -> None:
    found = eval(call, names)
    if hasattr(found, "tolist"):
        found.tolist()


def _name(error: type[BaseException]) -> str:
    return error.__name__.removeprefix("_")
