"""Texts for people: parts of messages, the name that was likely meant, plurals and tables."""

from __future__ import annotations

import difflib
from collections.abc import Collection, Iterable, Sequence


def join_parts(*parts: str) -> str:
    """Those of the parts that are not empty, with semicolons between."""
    return "; ".join(filter(None, parts))


def did_you_mean(value: object, known: Iterable[object], cutoff: float = 0.6) -> str:
    """'did you mean …?' where one of the known names is near, else ''."""
    found = difflib.get_close_matches(str(value), list(map(str, known)), 1, cutoff)
    return f"did you mean {found[0]!r}?" if found else ""


def plural(n: int, word: str) -> str:
    """The word for one of its kind, else with an s."""
    return word if n == 1 else f"{word}s"


def columns(lines: Sequence[Sequence[str]], rules: Collection[int] = (), left: int = 1) -> str:
    """Lines of cells as a table, whose first columns are to the left, the others to the right; a
    rule before lines `rules`."""
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    rule = "-" * (sum(widths) + 2 * (len(widths) - 1))
    out = []
    for i, line in enumerate(lines):
        if i in rules:
            out.append(rule)
        cells = enumerate(zip(line, widths, strict=True))
        sided = (c.ljust(w) if at < left else c.rjust(w) for at, (c, w) in cells)
        out.append("  ".join(sided).rstrip())
    return "\n".join(out + [rule] * (len(lines) in rules))
