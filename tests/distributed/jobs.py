"""Jobs of several processes, as mpiexec starts them."""

from __future__ import annotations

import importlib.util
import os
import shutil
import subprocess
import sys
import sysconfig
from pathlib import Path

import pytest

HERE = Path(__file__).parent
ROOT = HERE.parents[1]


def mpiexec() -> str:
    """The wheel's mpiexec, or another one."""
    scripts = sysconfig.get_path("scripts")
    found = shutil.which("mpiexec", path=f"{scripts}{os.pathsep}{os.environ.get('PATH', '')}")
    if importlib.util.find_spec("mpi4py") is None or found is None:
        pytest.skip("no mpi4py or no mpiexec: pip install mpi4py mpich")
    return found


def job(n: int, program: str | Path, *args: str, env: dict[str, str] | None = None,
        before: tuple[str, ...] = ()) -> subprocess.CompletedProcess[str]:  # fmt: skip
    """Run a program of this folder, or a source text, in `n` processes; 0 for without mpiexec."""
    start = ["-c", program] if "\n" in str(program) else [str(HERE / program)]
    command = [sys.executable, *before, *start, *args]
    if n:
        command = [mpiexec(), "-n", str(n), *command]
    more = {"PYTHONPATH": str(ROOT), "PYFRAME_THREADS": "1", **(env or {})}
    env = os.environ | more
    env.pop("PYTHONUNBUFFERED", None)  # it writes a line in two parts, which processes mix
    return subprocess.run(
        command, capture_output=True, text=True, timeout=300, env=env, check=False
    )


def done(n: int, program: str | Path, *args: str, **more: object) -> str:
    """What a job prints, that ends well."""
    ran = job(n, program, *args, **more)  # type: ignore[arg-type]
    assert ran.returncode == 0, f"{ran.stdout[-2000:]}\n{ran.stderr[-4000:]}"
    assert "Warning" not in ran.stderr, ran.stderr
    return ran.stdout
