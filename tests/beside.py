"""Programs as rows of text, which run with PyTorch and with pyframe.

`== a title` begins one, of Python that knows what `run` is given. `? a, b` tells what it sees
there; `! a | b` what each call gives, or the type of its error, and `!! a` the error's text too.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

from refused import calls


def programs(table: str) -> dict[str, str]:
    """The programs of a table by their titles, as Python."""
    parts = table.strip().removeprefix("== ").split("\n== ")
    return {name: _code(text) for name, text in (part.split("\n", 1) for part in parts)}


def run(program: str, names: dict[str, Any], plain: Callable[[Any], Any]) -> list[Any]:
    """What a program tells, each as `plain` has it at that time."""
    seen: list[Any] = []

    def raised(table: str, told: bool) -> None:
        for call in calls(table):
            try:
                seen.append(str(plain(eval(call, names))))
            except Exception as e:
                text = f": {e}".replace("pyframe", "torch") if told else ""
                seen.append(f"{type(e).__name__}{text}")

    names |= {"tell": lambda *found: seen.append(plain(found)), "raised": raised}
    exec(compile(program, "<program>", "exec"), names)
    return seen


def _code(program: str) -> str:
    program = re.sub(r"(?m)^( *)\? (.*(?:\n\1  \S.*)*)", r"\1tell(\2)", program)
    return re.sub(
        r"(?m)^( *)(!+) (.*)",
        lambda found: f"{found[1]}raised({found[3]!r}, {found[2] == '!!'})", program,
    )  # fmt: skip
