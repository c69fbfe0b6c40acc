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

# Programs of each family on each back end, and of those that take long to compile
CASES = {
    "llvm": (12, 3), "numpy": (12, 3), "recorded": (12, 3), "wasm": (8, 2), "wgsl": (3, 1),
    "export": (5, 2), "onnx": (8, 2), "onnx-read": (5, 2), "onnx-sizes": (5, 2),
}  # fmt: skip
# Files and scripts have no back end: tests/io/test_fuzz.py has the share of files
LONG = ("attention", "nets", "optimizers", "recurrent")
MORE = {"programs": 4, "database": 3}  # they take little
NAMES = [n for n, f in families.families().items()
         if not f.__module__.endswith(("files", "scripted"))]  # fmt: skip
NEEDED = {"llvm": "llvmlite", "recorded": "llvmlite", "wasm": "wasmtime", "export": "wasmtime",
          **dict.fromkeys(("onnx", "onnx-read", "onnx-sizes"), "onnxruntime")}  # fmt: skip


@pytest.mark.filterwarnings("ignore")  # PyTorch's, and what both say of such programs
@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("backend", CASES)
def test_programs(backend: str, name: str, request: pytest.FixtureRequest) -> None:
    if backend == "wgsl":
        request.getfixturevalue("gpu")
    if backend in NEEDED:
        pytest.importorskip(NEEDED[backend])
    where = backends.BACKENDS[backend]
    for seed in range(CASES[backend][name in LONG] * MORE.get(name, 1)):
        found = check.failure(families.case(name, seed), where)
        again = ["--only", name, "--backend", backend, "--seed", str(seed), "--cases", "1"]
        if isinstance(found, str) and not (backend == "wgsl" and known.of_the_driver(again)):
            pytest.fail(f"python scripts/fuzz {' '.join(again)}\n{found}")


@pytest.mark.parametrize("seed", range(0, 60, 10))
def test_scripts(seed: int) -> None:
    for k in range(seed, seed + 10):
        found = check.failure(families.case("scripts", k), backends.BACKENDS["eager"])
        assert isinstance(found, bool), found


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
