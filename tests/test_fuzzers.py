"""scripts/fuzz, a share of it: some programs of each family on each back end, the same in every
run. `python scripts/fuzz` tries as many as you like."""

from __future__ import annotations

import importlib
import sys
from pathlib import Path
from typing import Any

import pytest

torch: Any = pytest.importorskip("torch", reason="PyTorch is the oracle")

SCRIPTS = Path(__file__).parent.parent / "scripts"
sys.path.insert(0, str(SCRIPTS))
try:
    from fuzz import backends, check, families, known

    main = importlib.import_module("fuzz.__main__").main
finally:
    sys.path.remove(str(SCRIPTS))

# Back ends that try the same programs one after the other, so that PyTorch's results are computed
# once: of each family so many, and of those that take long to compile
CASES = {
    "cpu": {"llvm": (5, 2), "numpy": (4, 1), "recorded": (4, 1), "wasm": (4, 1), "meta": (5, 2)},
    "gpu": {"wgsl": (2, 1)},
    "export": {"export": (3, 1)},
    "onnx": {"onnx": (3, 1), "onnx-read": (3, 1), "onnx-sizes": (2, 1)},
}
# tests/io/test_fuzz.py has the share of files
LONG = ("attention", "nets", "optimizers", "recurrent", "texts")
MORE = {"programs": 3, "database": 3, "moments": 3}  # they take little
# What is no program for a back end: so many of each, as they take little
ALONE = [("pictures", "eager", 400), ("onnx_nodes", "eager", 600), ("onnx_nodes", "numpy", 40),
         ("rules", "eager", 60), ("scripts", "eager", 90)]  # fmt: skip
NAMES = [
    n
    for n, f in families.families().items()
    if not f.__module__.endswith("files") and n not in {name for name, *_ in ALONE}
]
NEEDED = {"cpu": ("llvmlite", "wasmtime"), "export": ("wasmtime",), "onnx": ("onnxruntime",),
          "onnx_nodes": ("onnxruntime",), "rules": ("transformers",)}  # fmt: skip


@pytest.mark.filterwarnings("ignore")  # PyTorch's, and what both say of such programs
@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("group", CASES)
def test_programs(group: str, name: str, request: pytest.FixtureRequest) -> None:
    if group == "gpu":
        request.getfixturevalue("gpu")
    for needed in NEEDED.get(group, ()):
        pytest.importorskip(needed)
    counts = {b: count[name in LONG] * MORE.get(name, 1) for b, count in CASES[group].items()}
    for seed in range(max(counts.values())):
        for backend in [b for b, count in counts.items() if seed < count]:
            found = check.failure(families.case(name, seed), backends.BACKENDS[backend])
            again = ["--only", name, "--backend", backend, "--seed", str(seed), "--cases", "1"]
            if isinstance(found, str) and not (backend == "wgsl" and known.of_the_driver(again)):
                pytest.fail(f"python scripts/fuzz {' '.join(again)}\n{found}")


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize(("name", "backend", "count"), ALONE)
def test_what_needs_no_program(name: str, backend: str, count: int) -> None:
    for needed in NEEDED.get(name, ()):
        pytest.importorskip(needed)
    held = 0
    for seed in range(count):
        found = check.failure(families.case(name, seed), backends.BACKENDS[backend])
        assert isinstance(found, bool), found
        held += found
    assert held > count / 2


def test_what_fails_is_reduced_and_told(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def exponentials(d: Any) -> None:
        x, w = d.arg("x", (4, 3)), d.arg("w", (3,))
        d.line(f"z = {w} * 2")
        d.line(f"y = {x}.exp()")
        d.results("y, z")

    def doubled(step: Any) -> Any:
        return lambda *args: [step(*args)[0] * 2, *step(*args)[1:]]

    odd = backends.Backend("odd", "cpu", wrap=doubled)
    monkeypatch.setitem(backends.BACKENDS, "odd", odd)
    monkeypatch.setitem(families.FAMILIES, "exponentials", exponentials)
    assert main(["--only=exponentials", "--backend=numpy", "--cases=1"]) == 0
    capsys.readouterr()
    assert main(["--only=exponentials", "--backend=odd", "--cases=1"]) == 1
    out = capsys.readouterr().out
    assert out.startswith("--only exponentials --backend odd --seed 0 --cases 1\n    wrong: resul")
    assert "| exponentials | odd | 1 | 0 | 0 | 0 | 1 |" in out
    start = out.index("    import numpy")
    shown = "\n".join(line[4:] for line in out[start : out.index("\n\n|")].splitlines())
    assert "def step(x):\n        y = x.exp()\n        return [y]\n" in shown
    exec(shown, {"__name__": "shown"})  # it is a whole script
    assert capsys.readouterr().out.startswith("torch 0 [")
