"""Programs in a Python of their own."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parent.parent


def python(*argv: object, folder: Path | None = None, status: int = 0, **env: str) -> list[str]:
    """What `python *argv` says, [stdout, stderr], in a folder and with more in its environment."""
    done = subprocess.run(
        [sys.executable, *map(str, argv)], cwd=folder, capture_output=True, text=True, timeout=300,
        env={**os.environ, "PYTHONPATH": str(ROOT), **env},
    )  # fmt: skip
    assert done.returncode == status, done.stdout + done.stderr
    return [done.stdout, done.stderr]
