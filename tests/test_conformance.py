"""PyTorch's own operator database against pyframe, a few samples of each op.

The harness lies beside the checkout where pyframe is developed; the whole of it, with more samples:
`python ops.py --list-fail`, also with `--dtype int64`, `--dtype bool` and `--device gpu`.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

HARNESS = Path(__file__).parents[2] / "shared" / "conformance" / "ops.py"

# What cannot be here, and why; everything else must pass.
LEFT_OUT: dict[str, str] = {
    "as_strided_scatter": "PyTorch's gradient of input is that of what src replaced",
}


@pytest.mark.parametrize("dtype", ["float32", "int64", "bool"])
def test_operators_against_pytorchs_database(dtype: str, torch: Any, tmp_path: Path) -> None:
    if not HARNESS.exists():
        pytest.skip("the conformance harness is not beside this checkout")
    found = tmp_path / "found.json"
    options = ["--dtype", dtype, "--samples", "2", "--variants", "1", "--limit", "60"]
    run = subprocess.run(
        [sys.executable, str(HARNESS), *options, "--json", str(found)],
        env={**os.environ, "PYTHONPATH": str(Path(__file__).parents[1])},
        cwd=tmp_path, capture_output=True, text=True,
    )  # fmt: skip
    assert run.returncode == 0, run.stderr[-2000:]
    units = json.loads(found.read_text())["units"]
    failed = {
        name: next(c for c in unit["checks"] if len(c) > 1 and c[0] in ("sample", "grad"))
        for name, unit in units.items()
        if not unit["passed"]
        and any(len(c) > 1 and c[0] in ("sample", "grad") for c in unit["checks"])
    }
    assert {n: why for n, why in failed.items() if n not in LEFT_OUT} == {}, run.stdout[-300:]
