"""The same program in four frameworks: what the documentation says of it."""

from __future__ import annotations

import functools
import importlib.util
import re
import runpy
from pathlib import Path

import pytest
from processes import python

import pyframe as pf
from pyframe.train import callbacks

ROOT = Path(__file__).parent.parent
FOLDER = ROOT / "scripts" / "compare"
SIDE = runpy.run_path(str(FOLDER / "side_by_side.py"))
NEEDS = {
    "pyframe": ["matplotlib"],
    "torchkeras": ["torchkeras", "torchmetrics"],
    "keras": ["keras", "pandas", "matplotlib"],
    "lightning": ["lightning", "pandas", "matplotlib"],
}


def test_lines_are_counted() -> None:
    text = (ROOT / "docs" / "from-keras.md").read_text()
    told = re.findall(r"^\| \[\w+\]\(../scripts/compare/with_(\w+)\.py\) \| (\d+) \|", text, re.M)
    assert {name: int(n) for name, n in told} == {n: SIDE["lines"](n) for n in SIDE["NAMES"]}
    assert (FOLDER / "README.md").read_text() == SIDE["page"]()


def test_the_guide_names_all_that_there_is() -> None:
    section = (ROOT / "docs" / "training.md").read_text()
    metrics = [cls.__name__ for cls in pf.metrics.known().values()]
    for name in (*metrics, *callbacks.LATE, "Callback", "EarlyStopping", "LambdaCallback"):
        assert f"`{name}`" in section or name == "ProgressBar", name
    for path in re.findall(r"`pf\.([\w.]+)", section):
        if "tensorboard" not in path or importlib.util.find_spec("tensorboardX"):
            assert functools.reduce(getattr, path.split("."), pf), path
    table = (
        (ROOT / "docs" / "from-keras.md").read_text().partition("What a user of dense models")[2]
    )
    rows = [line for line in table.splitlines() if line.startswith("| ")]
    assert {line.count(" |") for line in rows} == {2, 5}
    assert len(rows) > 45


@pytest.mark.parametrize("name", NEEDS)
def test_it_learns(name: str, tmp_path: Path) -> None:
    for module in NEEDS[name]:
        if importlib.util.find_spec(module) is None:
            pytest.skip(f"{module} is not installed")
    env = {"MPLBACKEND": "agg", "PYFRAME_DEVICE": "cpu"}
    out, _ = python(SIDE["path"](name), folder=tmp_path, **env)
    (found,) = re.findall(r"^\{.*'(?:val_)?accuracy': ([\d.]+)", out, re.M)
    assert 0.95 < float(found) < 1
    read, labels = re.findall(r"\[([\d, ]+)\]", out.splitlines()[-1])
    assert sum(a == b for a, b in zip(read.split(), labels.split(), strict=True)) >= 8
    assert (tmp_path / f"{name}.png").read_bytes().startswith(b"\x89PNG")
