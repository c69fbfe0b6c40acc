"""The command line: a module for each command, which says what it takes and runs it."""

from __future__ import annotations

import argparse
import contextlib
import io
import os
import sys
from collections.abc import Sequence

import pyframe
from pyframe.cli import bench, convert, info, launch, pages, summary, train
from pyframe.cli.command import CommandError, Formatter

INTERRUPTED, PIPE_CLOSED = 130, 141  # 128 and the signal's number, as shells have it

EXAMPLES = """examples:
  pyframe info                          what this computer computes on
  pyframe train digits                  train an example
  pyframe serve                         the demos, in the browser
  pyframe summary digits.safetensors    what a file of weights holds
  pyframe COMMAND --help                what a command takes"""


def main(argv: Sequence[str] | None = None) -> int:
    """Run a command; gives the exit status: 1 after an error, which is one line on stderr.

    SystemExit with 2 for a wrong command line, with 0 for --help and --version.
    """
    parser = argparse.ArgumentParser(
        prog="pyframe", formatter_class=Formatter, epilog=EXAMPLES,
        description="Deep learning with PyTorch's API on any GPU, on the CPU, and in the browser.",
    )  # fmt: skip
    parser.add_argument(
        "--version", action="version", version=f"pyframe {pyframe.__version__}",
        help="print the version and exit",
    )  # fmt: skip
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")
    for module in (info, train, launch, pages, summary, convert, bench):
        module.add(commands)
    command = "pyframe"
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):  # it may lack a letter, as Windows' pipes do
            stream.reconfigure(errors="replace")
    try:
        try:
            args = parser.parse_args(argv)
            command = f"pyframe {args.command}"
            return int(args.run(args))
        finally:
            sys.stdout.flush()  # here a closed pipe is found, not when Python ends
    except BrokenPipeError:  # whoever read, as `head`, has enough
        with contextlib.suppress(OSError, ValueError):
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return PIPE_CLOSED
    except KeyboardInterrupt:
        return INTERRUPTED
    except OSError as error:
        named = error.filename is not None and error.strerror
        return failed(command, f"{error.filename}: {error.strerror}" if named else str(error))
    except CommandError as error:
        return failed(command, str(error))


def failed(command: str, why: str) -> int:
    """Say why a command can't be done."""
    print(f"{command}: {why}", file=sys.stderr)
    return 1
