"""The notebook in examples/ runs, and shows what it says that it shows."""

from __future__ import annotations

import re
import runpy
from pathlib import Path
from typing import Any

import pytest

import pyframe as pf
from pyframe import nn, optim

ROOT = Path(__file__).parent.parent
TOUR = ROOT / "examples" / "tour.ipynb"
NUMBER = re.compile(r"-?\d+(?:\.\d*)?(?:e[+-]?\d+)?")
MISSING = "{} is missing (scripts/test)"


def outputs(notebook: Any) -> list[Any]:
    return [output for cell in notebook.cells for output in cell.get("outputs", [])]


@pytest.fixture(scope="module")
def stored() -> Any:
    nbformat = pytest.importorskip("nbformat", reason=MISSING.format("nbformat"))
    notebook = nbformat.read(TOUR, as_version=4)
    nbformat.validate(notebook)
    return notebook


def test_what_is_stored(stored: Any) -> None:
    """Every cell was run, in order, and shows something; no editor left its marks."""
    code = [cell for cell in stored.cells if cell.cell_type == "code"]
    assert [cell.execution_count for cell in code] == list(range(1, len(code) + 1))
    assert all(len(cell.outputs) == 1 for cell in code)
    assert all(not cell.metadata for cell in stored.cells)
    assert set(stored.metadata) == {"kernelspec", "language_info"}
    assert TOUR.stat().st_size < 400_000
    kinds = [kind for output in outputs(stored) for kind in output.get("data", {})]
    assert kinds.count("image/png") >= 6
    assert {"image/svg+xml", "text/html"} <= set(kinds)
    texts = [cell.source for cell in stored.cells] + [str(o) for o in outputs(stored)]
    assert not [t for t in texts if re.search(r"(/home|/tmp|/usr|0x[0-9a-f]{6})", t)]


def test_it_runs_and_shows_what_is_stored(stored: Any) -> None:
    """Texts are the same but for numbers, which hang on how a CPU adds up."""
    for name in ("nbclient", "ipykernel", "matplotlib"):
        pytest.importorskip(name, reason=MISSING.format(name))
    ran = runpy.run_path(str(ROOT / "scripts" / "run_notebook"))["execute"](TOUR)
    for then, now in zip(outputs(stored), outputs(ran), strict=True):
        assert now.output_type == then.output_type, now
        assert set(now.get("data", {})) == set(then.get("data", {}))
        before, after = (o.get("text") or o.data["text/plain"] for o in (then, now))
        if "no GPU here" in before or "display.HTML" in before:
            continue  # which GPU there is, and how long it took, is another's
        assert NUMBER.sub("#", after) == NUMBER.sub("#", before)
        numbers = [[float(n) for n in NUMBER.findall(text)] for text in (after, before)]
        assert numbers[0] == pytest.approx(numbers[1], rel=0.3, abs=0.03), after


def test_a_model_shows_what_it_is_made_of() -> None:
    net = nn.Sequential(nn.Linear(2, 3), nn.ReLU())
    adam = optim.Adam(net.parameters())
    model = pf.Model(net, nn.functional.mse_loss, {"all": adam}, ["mae"])
    text = repr(model)
    assert text.splitlines()[1:4] == [
        "  net: Sequential(",
        "    (0): Linear(in_features=2, out_features=3, bias=True)",
        "    (1): ReLU()",
    ]
    assert "loss: mse_loss\n  optimizer: all: Adam\n  metrics: mae\n  device: cpu\n)" in text
    page = model._repr_html_()
    assert "<b>all: Adam</b>" in page
    assert page.count("parameters</small>") == 3
    assert repr(pf.Model(nn.ReLU())) == "Model(\n  net: ReLU()\n  device: cpu\n)"
