"""`pyframe launch`: a program in several processes, by the mpiexec that there is."""

from __future__ import annotations

import argparse
import subprocess
import sys
from typing import Any

from pyframe.cli.command import CommandError, add_command, option, positive
from pyframe.core.extras import install
from pyframe.distributed import mpiexec


def add(commands: Any) -> None:
    """Declare the command."""
    add_command(
        commands, "launch", run,
        help="run a program in several processes",
        description="Run a program in several processes that train together: a thin call of "
        "mpiexec. Model.fit shares each batch among them, with the numbers of one process; other "
        "programs use pf.distributed.",
        examples={
            "pyframe launch -n 4 train.py": "four processes on this computer",
            "pyframe launch -n 8 --hosts a,b train.py --lr 0.1": "four on each of two",
            "pyframe launch -n 2 -m pyframe.torch train.py": "a program for PyTorch",
        },
        arguments={
            "-n": option(
                "how many processes (default: 2)", type=positive, default=2, metavar="N"
            ),
            "--hosts": option("on these computers, by name (default: this one)", metavar="A,B"),
            "-m": option("run a module (default: a file)", metavar="MODULE"),
            "program": option(
                "the program, and its arguments", nargs=argparse.REMAINDER, metavar="..."
            ),
        },
    )  # fmt: skip


def run(args: argparse.Namespace) -> int:
    """Run it; the status is mpiexec's."""
    program = args.program if args.m is None else ["-m", args.m, *args.program]
    if not program:
        raise CommandError("which program? pyframe launch -n 4 train.py")
    found = mpiexec()
    if found is None:
        raise CommandError(f"there is no mpiexec: {install('mpi')} brings one")
    hosts = [] if args.hosts is None else ["-host", args.hosts]
    command = [found, "-n", str(args.n), *hosts, sys.executable, *program]
    return subprocess.run(command, check=False).returncode
