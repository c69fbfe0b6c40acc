#!/usr/bin/env python3
"""Writes down what a change of the inside must keep. Before the change and after it:

    .venv/bin/python scripts/freeze.py before [--names]
    .venv/bin/python scripts/freeze.py after [--names]
    diff -ru build/frozen/before build/frozen/after

names.txt has the signature of each public function and class, and the digest of the stubs;
calls.txt how many calls of Python's, and in how many files, a step takes; refusals.txt each error
that the tests provoke, with its type. `--names` leaves that out, which runs the tests.
"""

from __future__ import annotations

import argparse
import contextlib
import hashlib
import importlib
import inspect
import os
import re
import runpy
import subprocess
import sys
import tempfile
import types
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
FROZEN = ROOT / "build" / "frozen"
# Their inputs are drawn, or come from elsewhere.
LEFT_OUT = ("test_fuzzers.py", "test_soak.py", "test_conformance.py", "io/test_fuzz.py", "web")
CHANGING = {  # of a message, from run to run
    r"0x[0-9a-f]{4,}": "0x…",
    r"(/\w+)*/pytest-of-\w+/pytest-\d+/(popen-gw\d+/)?": "/tmp/",
    re.escape(str(ROOT)): "…",
    r"(/\w+)*/tmp\w{8}": "/tmp/…",
    r"127\.0\.0\.1:\d+": "127.0.0.1:…",
    r"\b(process|pid|buffer|function) \d+": r"\1 …",
}
NAME = "PYFRAME_REFUSALS"  # the folder that the tests' processes write to


def names() -> Iterator[str]:
    """A line for each public name."""
    sys.path.insert(0, str(ROOT))
    stubs = runpy.run_path(str(ROOT / "scripts" / "make_stubs"))["stubs"]()
    text = "\0".join(text for _, text in sorted(stubs.items()))
    yield f"stubs {hashlib.sha256(text.encode()).hexdigest()}"
    public = runpy.run_path(str(ROOT / "docs" / "reference.py"))["NAMESPACES"]
    for name in public:
        if name == "pyframe.Tensor":
            continue  # below
        module = importlib.import_module(name)
        for key in sorted(getattr(module, "__all__", None) or _own(module)):
            yield f"{name}.{key}{_signature(getattr(module, key))}"
    for key in sorted(vars(importlib.import_module("pyframe").Tensor)):
        if not key.startswith("_"):
            yield f"Tensor.{key}"


def _own(module: types.ModuleType) -> list[str]:
    """The public names that a module without `__all__` defines."""
    return [
        n for n, value in vars(module).items()
        if not n.startswith("_") and str(getattr(value, "__module__", "")).startswith("pyframe")
    ]  # fmt: skip


def _signature(value: Any) -> str:
    """With the forward of a layer."""
    try:
        found = str(inspect.signature(value))
    except (TypeError, ValueError):
        return ""
    forward = getattr(value, "forward", None) if isinstance(value, type) else None
    if forward is not None:
        found += f" .forward{inspect.signature(forward)}"
    return re.sub(r"0x[0-9a-f]+", "0x…", found)


def calls() -> Iterator[str]:
    """How many functions of pyframe Python calls for what is done all the time, and of how many
    files: a sum, and a training step of the smallest workload, captured and replayed."""
    import pyframe as pf
    from pyframe.tools.bench.workloads import CASES

    def counted(what: str, run: Callable[[], Any]) -> str:
        files: Counter[str] = Counter()

        def see(frame: types.FrameType, event: str, _: Any) -> None:
            if event == "call" and "pyframe/" in frame.f_code.co_filename:
                files[frame.f_code.co_filename] += 1

        sys.setprofile(see)
        try:
            run()
        finally:
            sys.setprofile(None)
        return f"{what}: {files.total()} calls in {len(files)} files"

    x = pf.ones(3)
    step, compiled = (
        CASES[0].make(pf, "cpu", w, **CASES[0].sizes) for w in (lambda f: f, pf.compile)
    )
    CASES[0].make(pf, "cpu", pf.compile, **CASES[0].sizes)()  # imports what captures need
    for _ in range(8):
        step()
    yield counted("eager a + b", lambda: x + x)
    yield counted("eager step", step)
    yield counted("capture", compiled)
    for _ in range(8):
        compiled()
    yield counted("replay", compiled)


def refusals() -> list[str]:
    """The errors that `pytest.raises` saw, each once."""
    with tempfile.TemporaryDirectory() as folder:
        path = os.pathsep.join([str(Path(__file__).parent), os.environ.get("PYTHONPATH", "")])
        options = "-q -p freeze --numprocesses 2 --dist loadgroup".split()
        ignored = [f"--ignore={ROOT / 'tests' / name}" for name in LEFT_OUT]
        env = os.environ | {NAME: folder, "PYTHONPATH": path}
        command = [sys.executable, "-m", "pytest", *options, *ignored]
        subprocess.run(command, cwd=ROOT, env=env, check=False)
        found = [path.read_text("utf-8").splitlines() for path in Path(folder).iterdir()]
        return sorted({line for lines in found for line in lines})


def pytest_configure() -> None:
    """In each process of the tests: has `pytest.raises` write down what it saw."""
    from _pytest.raises import RaisesExc

    leave = RaisesExc.__exit__
    seen: set[str] = set()
    path = Path(os.environ[NAME], str(os.getpid()))

    def leave_and_note(self: Any, kind: Any, error: Any, trace: Any) -> bool:
        held = leave(self, kind, error, trace)
        line = f"{kind.__name__}: {error}".replace("\\", "\\\\").replace("\n", "\\n")
        for pattern, word in CHANGING.items():
            line = re.sub(pattern, word, line)
        if line not in seen:
            seen.add(line)
            with contextlib.suppress(PermissionError), path.open("a", encoding="utf-8") as file:
                file.write(line + "\n")
        return held

    RaisesExc.__exit__ = leave_and_note  # type: ignore[method-assign]


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("name", help="of the folder in build/frozen")
    parser.add_argument("--names", action="store_true", help="names and calls, without the tests")
    args = parser.parse_args()
    folder = FROZEN / args.name
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "names.txt").write_text("\n".join(names()) + "\n", encoding="utf-8")
    (folder / "calls.txt").write_text("\n".join(calls()) + "\n", encoding="utf-8")
    if not args.names:
        (folder / "refusals.txt").write_text("\n".join(refusals()) + "\n", encoding="utf-8")
