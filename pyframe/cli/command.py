"""What the commands share: how one is declared, how it says that it can't, how it writes."""

from __future__ import annotations

import argparse
import contextlib
import math
import textwrap
from collections.abc import Callable, Iterator
from typing import Any

WIDTH = 80  # of the texts of --help


class CommandError(Exception):
    """What the user is to know, in a line: printed without a traceback."""


@contextlib.contextmanager
def telling(*kinds: type[Exception]) -> Iterator[None]:
    """Within it, errors of these kinds are CommandErrors."""
    try:
        yield
    except kinds as error:
        raise CommandError(str(error)) from error


class Formatter(argparse.RawDescriptionHelpFormatter):
    """Keeps the lines of descriptions and of examples, and lets options have their room."""

    def __init__(self, prog: str, **options: Any) -> None:
        super().__init__(prog, max_help_position=28, **options)


def add_command(
    commands: Any, name: str, run: Callable[[argparse.Namespace], int], *, help: str,
    description: str, examples: dict[str, str], arguments: dict[str, dict[str, Any]],
) -> None:  # fmt: skip
    """Declare a command: `examples` are command lines and what each does, `arguments` what it
    takes, by name."""
    longest = max(map(len, examples))
    lines = [f"  {line:<{longest}}  {what}".rstrip() for line, what in examples.items()]
    parser = commands.add_parser(
        name, help=help, formatter_class=Formatter,
        description="\n\n".join(textwrap.fill(p, WIDTH) for p in description.split("\n\n")),
        epilog="\n".join(["examples:", *lines]),
    )  # fmt: skip
    parser.set_defaults(run=run)
    for argument, options in arguments.items():
        parser.add_argument(argument, **options)


def option(help: str, **options: Any) -> dict[str, Any]:
    """An argument of a command, with the options of argparse's `add_argument`."""
    return {"help": help, **options}


def switch(help: str) -> dict[str, Any]:
    """An argument that is given or not."""
    return option(help, action="store_true")


def positive(text: str) -> int:
    """A whole number from 1 on."""
    if not text.isdecimal() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"{text!r} is no number from 1 on")
    return int(text)


def size_text(nbytes: float) -> str:
    """Bytes for people: 512 B, 1.5 kB, 20 MB; a kB is 1000 bytes."""
    if nbytes < 1000:
        return f"{nbytes:.0f} B"
    power = min(int(math.log10(nbytes * 1.0005)) // 3, 4)  # 999.9 kB is 1 MB
    return f"{nbytes / 1000**power:.3g} {' kMGT'[power]}B"
