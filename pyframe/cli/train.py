"""`pyframe train`: an example by its name, from a checkout or from a wheel."""

from __future__ import annotations

import argparse
import ast
import difflib
import sys
import types
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from pyframe import serve
from pyframe.cli.command import CommandError, add_command, option
from pyframe.core.extras import install


def add(commands: Any) -> None:
    """Declare the command."""
    add_command(
        commands, "train", run,
        help="train an example by its name",
        description="Train an example. Its data come with the extra `examples`; weights and "
        "pictures are written into the current folder. Without a name, the examples are listed.\n\n"
        "What follows the name goes to the example; --help there says what it takes.",
        examples={
            "pyframe train": "the examples, a line each",
            "pyframe train digits": "train on the GPU, or on the CPU where there is none",
            "pyframe train digits --epochs 2 --device cpu": "with options of the example",
            "pyframe train gpt --help": "what an example takes",
        },
        arguments={
            "name": option("which example (default: list them)", nargs="?", metavar="NAME"),
            "options": option("the example's own options", nargs=argparse.REMAINDER, metavar="..."),
        },
    )  # fmt: skip


def run(args: argparse.Namespace) -> int:
    """Train, or list."""
    found = examples()
    if not found:
        raise CommandError(f"the examples are missing: expected them in {serve.ROOT / 'examples'}")
    if args.name is None:
        width = max(map(len, found))
        for name, path in found.items():
            print(f"{name:<{width}}  {told(path)}")
        print("\npyframe train NAME trains one; pyframe train NAME --help says what it takes.")
        return 0
    name = args.name.removesuffix(".py")
    if name not in found:
        meant = "".join(f"did you mean {n}? " for n in difflib.get_close_matches(name, found, 1))
        raise CommandError(f"no example {args.name!r}: {meant}the examples are {', '.join(found)}")
    options = args.options[1:] if args.options[:1] == ["--"] else args.options
    try:
        execute(found[name], f"pyframe train {name}", options)
    except BrokenPipeError:
        raise
    except (OSError, RuntimeError, ValueError, ImportError) as error:
        there = (serve.ROOT / "examples" / "data").is_dir()
        hint = "" if there else f"\nThe examples' data is an extra: {install('examples')}"
        raise CommandError(f"{name}: {error}{hint}") from error
    return 0


def examples() -> dict[str, Path]:
    """The examples that train, by name: those that take how long to."""
    return {
        name: path
        for name, path in serve.examples().items()
        if any(f'"{option}"' in path.read_text("utf-8") for option in ("--epochs", "--steps"))
    }


def told(path: Path) -> str:
    """What a program says of itself in its first line."""
    text = ast.get_docstring(ast.parse(path.read_bytes())) or ""
    return text.partition("\n")[0]


def execute(path: Path, called: str, options: Sequence[str]) -> None:
    """Run a program as Python does, but for what it is called by in its --help."""
    module = types.ModuleType("__main__", told(path))
    module.__file__ = str(path)
    before = sys.modules["__main__"], sys.argv, sys.path
    sys.modules["__main__"] = module
    sys.argv, sys.path = [called, *options], [str(path.parent), *sys.path]
    try:
        exec(compile(path.read_bytes(), path, "exec"), module.__dict__)
    finally:
        sys.modules["__main__"], sys.argv, sys.path = before
