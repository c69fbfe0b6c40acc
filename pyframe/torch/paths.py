"""Names that programs look for at other paths than pyframe has them, and names that it lacks."""

from __future__ import annotations

from abc import ABCMeta
from pathlib import Path
from typing import Any, NoReturn


def _read(text: str) -> dict[str, dict[str, tuple[str, str] | None]]:
    """The table that scripts/torch_paths writes. A line is a module and its names; those behind
    "home:" are that module's, under a name behind = if it is another, and those before any are
    missing."""
    table: dict[str, dict[str, tuple[str, str] | None]] = {}
    for line in text.splitlines():
        module, *words = line.split()
        names, home = table.setdefault(module, {}), ""
        for word in words:
            name, _, other = word.partition("=")
            if word.endswith(":"):
                home = word[:-1]
            else:
                names[name] = (home, other or name) if home else None
    return table


TABLE = _read(Path(__file__).with_suffix(".txt").read_text("utf-8"))


class Absent(ABCMeta):
    """The class of a name that pyframe lacks: types, bases and tests name it, and it raises when it
    is used. Nothing is an instance of it."""

    said: str

    def __call__(cls, *args: Any, **kwargs: Any) -> NoReturn:
        raise RuntimeError(cls.said)

    def __getattr__(cls, name: str) -> NoReturn:
        # what Python itself asks of any class is asked without a need for a reason
        raise AttributeError(name if name.startswith("__") else f"{cls.said} (.{name})")

    def __getitem__(cls, item: Any) -> Absent:
        return cls  # of annotations

    def __bool__(cls) -> NoReturn:
        raise RuntimeError(cls.said)

    def __iter__(cls) -> NoReturn:
        raise RuntimeError(cls.said)
