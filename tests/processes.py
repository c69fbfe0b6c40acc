"""Programs in a Python of their own, and the files that one of them gets."""

from __future__ import annotations

import functools
import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent


def python(*argv: object, folder: Path | None = None, status: int = 0, **env: str) -> list[str]:
    """What `python *argv` says, [stdout, stderr], in a folder and with more in its environment."""
    done = subprocess.run(
        [sys.executable, *map(str, argv)], cwd=folder, capture_output=True, text=True, timeout=300,
        env={**os.environ, "PYTHONPATH": str(ROOT), **env},
    )  # fmt: skip
    assert done.returncode == status, done.stdout + done.stderr
    return [done.stdout, done.stderr]


@functools.cache
def published(models: str) -> Path:
    """The folder of models that scripts/get_models gets; skips where they can't be had."""
    script = [sys.executable, str(ROOT / "scripts" / "get_models"), models]
    found = subprocess.run(script, capture_output=True, text=True, check=False)
    if found.returncode:
        pytest.skip(f"the models can't be had here: {found.stderr.strip()[-200:]}")
    return ROOT / "build" / models
