"""The benchmark's pieces with tiny sizes: nothing here looks at how long anything took."""

from __future__ import annotations

import importlib
import math
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any
from xml.etree import ElementTree

import pytest

import pyframe as pf
from pyframe.tools.bench import roofline
from pyframe.tools.bench.measure import Side
from pyframe.tools.bench.workloads import CASES, Workload


@pytest.fixture
def bench(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """scripts/bench/run.py, which leaves the threads of this process alone."""
    monkeypatch.syspath_prepend(Path(__file__).parent.parent / "scripts" / "bench")
    import run

    monkeypatch.setattr(run, "set_environment", lambda threads: None)
    return run


def tables(text: str) -> Iterator[list[list[str]]]:
    """The cells of the body of each table, which has as many in every line."""
    for block in re.findall(r"(?:^\|.*\|\n)+", text, re.MULTILINE):
        rows = [[cell.strip() for cell in line[1:-1].split("|")] for line in block.splitlines()]
        assert len({len(row) for row in rows}) == 1
        assert set(rows[1]) == {"---"}
        yield rows[2:]


def test_comparison(bench: ModuleType, torch: Any, tmp_path: Path) -> None:
    out = tmp_path / "out.md"
    threads = str(torch.get_num_threads())
    assert bench.main(["--quick", "--repeats=1", f"--threads={threads}", f"--out={out}"]) == 0
    text = out.read_text()
    (rows,) = tables(text)
    names = [f"{case.key} {case.name}" for case in CASES]
    assert [row[0] for row in rows] == [name for name in names for _ in range(2)]
    assert [row[1] for row in rows] == ["eager", "compiled"] * len(CASES)
    for row in rows:
        assert re.fullmatch(r"[\d.]+ / [\d.]+ / [\d.]+", row[2]), row
        assert float(row[4]) >= 0
        assert row[6] in ("yes", "no") if row[5] else not row[6]
    losses = re.findall(r"PyTorch ([\d.]+), eager ([\d.]+), compiled ([\d.]+)", text)
    assert len(losses) == 3
    for theirs, *ours in losses:
        assert [float(x) for x in ours] == pytest.approx([float(theirs)] * 2, abs=1e-3)


def test_guards(bench: ModuleType, tmp_path: Path) -> None:
    out = tmp_path / "out.md"
    assert bench.main(["--guards", "--quick", f"--out={out}"]) == 0
    (rows,) = tables(out.read_text())
    assert [row[0].split()[0] for row in rows] == ["W1", "W2", "W3"]
    for row in rows:
        assert int(row[1]) > 20
        assert all(float(row[i].rstrip("%")) >= 0 for i in (2, 4, 5, 6))


def test_fit(bench: ModuleType, tmp_path: Path) -> None:
    out = tmp_path / "out.md"
    assert bench.main(["--fit", "--quick", f"--out={out}"]) == 0
    ((hand, *rows),) = tables(out.read_text())
    assert hand[2:5] == ["1.000", "", ""]
    assert [row[0] for row in rows] == [
        "fit", "fit, accuracy", "fit, accuracy and f1", "fit, accuracy, callbacks"
    ]  # fmt: skip
    for row in rows:
        assert row[4] == ("yes" if float(row[2]) <= 1.05 else "no")


def test_ops_one_by_one(bench: ModuleType, torch: Any, tmp_path: Path) -> None:
    out = tmp_path / "out.md"
    threads = f"--threads={torch.get_num_threads()}"
    args = ["--ops", "--quick", "--repeats=1", "--only=amax,argmax rows", threads, f"--out={out}"]
    assert bench.main(args) == 0
    (rows,) = tables(out.read_text())
    assert {"amax all", "amax columns", "argmax rows"} < {row[0] for row in rows}
    worst = [max(float(r) for r in (row[3], row[6]) if r) for row in rows]
    assert worst == sorted(worst, reverse=True)


def test_skipped_work_is_found(bench: ModuleType) -> None:
    honest, lazy = (Side(n, Workload(pf, f, [(pf.ones(3),)]))
                    for n, f in (("PyTorch", lambda x: x * 2), ("eager", lambda x: x)))  # fmt: skip
    case = type("Case", (), {"name": "twice"})
    assert bench.agreed(case, [honest, honest]) == ""
    with pytest.raises(SystemExit, match="twice: eager differs from PyTorch by 1"):
        bench.agreed(case, [honest, lazy])


def test_products(bench: ModuleType, capsys: pytest.CaptureFixture[str]) -> None:
    """The model is what the table reckons with."""
    assert bench.main(["--products", "--quick"]) == 0
    variants, shapes = tables(capsys.readouterr().out)
    for _, _, threads, _, *shares, _, rate in variants:
        assert int(threads) <= 256
        assert float(rate) * 100 == pytest.approx(max(int(x[:-1]) for x in shares), abs=0.01)
    assert [row[3] for row in shapes] == ["1094"]


def test_counters(bench: ModuleType, gpu: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert bench.main(["--counters", "--quick", "--only=W1"]) == 0
    ((eager, compiled),) = tables(capsys.readouterr().out)
    assert eager[0] == "W1 mlp, eager"
    assert int(eager[1]) > 0
    assert int(compiled[1]) > 0
    assert compiled[5] == "0 / 0 / 0", "everything is made once"
    assert float(compiled[7].rpartition("= ")[2]) > 0
    assert float(compiled[9]) > 0


def test_planned(
    bench: ModuleType, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    plans = importlib.import_module("planned")
    called = next(p for p in plans.PLANS if p.name == "autoencoder, 400 digits, called")
    monkeypatch.setattr(plans, "PLANS", [called])
    assert bench.main(["--planned"]) == 0
    ((row,),) = tables(capsys.readouterr().out)
    assert row[0] == called.name
    assert int(row[1]) > 0
    assert row[3].endswith("B")


def test_growth(bench: ModuleType, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = tmp_path / "growth.md"
    assert bench.main(["--growth", "--quick", "--repeats=1", f"--out={out}"]) == 0
    assert out.read_text() == capsys.readouterr().out.rstrip("\n") + "\n"
    batch, *_, exponents = tables(out.read_text())
    assert [row[0] for row in batch] == ["2", "4", "8"]
    assert [row[0] for row in exponents] == ["batch", "width", "depth"]
    svg = ElementTree.parse(out.with_suffix(".svg")).getroot()
    assert svg.tag.endswith("svg")


def test_roofline(device: str) -> None:
    roof = roofline(device)
    assert all(x > 0 and math.isfinite(x) for x in roof[1:4])
    assert roof.read_latency == 0 if device == "cpu" else 0 < roof.read_latency < math.inf
    assert roof.adapter in repr(roof)
    assert "GFLOP/s" in repr(roof)


def test_nets(bench: ModuleType, torchvision: Any, tmp_path: Path) -> None:
    """They are alike in PyTorch and in pyframe: half of them are tried here."""
    import nets
    from run import agreed, make_sides

    different = {(case.make, str(case.quick)): case for case in nets.CASES}
    assert (len(nets.CASES), len(different)) == (9, 8)
    for case in [*different.values()][::2]:
        sides = make_sides(case, "cpu", sys.modules["torch"], True)
        assert [side.name for side in sides] == ["PyTorch", "eager", "compiled"]
        assert "loss of step 1" in agreed(case, sides, 1)
