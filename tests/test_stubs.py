"""What type checkers and editors know: the stubs that scripts/make_stubs writes, and signatures."""

from __future__ import annotations

import importlib
import inspect
import re
import runpy
import subprocess
import sys
import types
import typing
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import pyframe as pf
from pyframe.nn.functional import toplevel

ROOT = Path(__file__).resolve().parent.parent
PROGRAM = ROOT / "tests" / "typed" / "program.py"
MODULES = """amp autograd data fft func io linalg masked metrics nn nn.functional nn.init nn.utils
optim profiler random signal.windows special train vision vision.models""".split()


def test_stubs_are_fresh() -> None:
    """This checkout has what make_stubs makes, and no stub of a module that has none any more."""
    made = runpy.run_path(str(ROOT / "scripts" / "make_stubs"))
    texts = made["stubs"]()
    there = {path: path.read_text("utf-8") for path in made["STUBS"].glob("*")}
    stale = sorted(p.name for p in {*texts, *there} if texts.get(p) != there.get(p))
    assert not stale, f"{', '.join(stale)}: run .venv/bin/python scripts/make_stubs"


def _names(module: types.ModuleType) -> list[str]:
    """The public names of a module, without what it imports for itself."""
    late = [*pf._MODULES, *pf._ELSEWHERE, *toplevel.FUNCTIONS] if module is pf else []
    own = getattr(module, "__all__", None) or [
        n for n, v in vars(module).items()
        if not n.startswith("_") and n != "TYPE_CHECKING" and not isinstance(v, types.ModuleType)
        and str(getattr(v, "__module__", "pyframe")).startswith("pyframe")
    ]  # fmt: skip
    return sorted({*own, *late})


def _every_name() -> Iterator[str]:
    """A program that asks for every public name."""
    yield "import pyframe as pf"
    for name in ("", *MODULES):
        module = importlib.import_module(f"pyframe.{name}".rstrip("."))
        if name:
            yield f"import pyframe.{name}"
        yield from (f"{module.__name__.replace('pyframe', 'pf', 1)}.{n}" for n in _names(module))
    yield "x = pf.zeros(1)"
    yield from (f"x.{n}" for n in dir(pf.Tensor) if not n.startswith("_"))


@pytest.fixture(scope="module")
def said(tmp_path_factory: pytest.TempPathFactory) -> dict[str, list[tuple[int, str]]]:
    """What mypy says of a user's programs: (line, text) by file."""
    folder = tmp_path_factory.mktemp("mypy")
    (folder / "names.py").write_text("\n".join(_every_name()))
    done = subprocess.run(
        [
            sys.executable, "-m", "mypy", "--strict", "--follow-imports=silent", "--config-file=",
            f"--cache-dir={folder / 'cache'}", str(PROGRAM), str(folder / "names.py"),
        ],
        capture_output=True, text=True, cwd=ROOT, check=False,
    )  # fmt: skip
    assert not done.stderr, done.stderr
    found: dict[str, list[tuple[int, str]]] = {}
    for line in done.stdout.splitlines():
        match = re.match(r"(.*?):(\d+): (note|error): (.*)", line)
        if match:
            found.setdefault(Path(match[1]).name, []).append((int(match[2]), match[4]))
    return found


def test_types_of_a_program(said: dict[str, list[tuple[int, str]]]) -> None:
    """Each result has its type, and each wrong use is told."""
    seen = {}
    for number, text in said["program.py"]:
        revealed = re.match(r'Revealed type is "(.*)"', text)
        if revealed:
            named = re.sub(r"tuple\[.*, fallback=([\w.]+)\]", r"\1", revealed[1])
            seen[number] = re.sub(r"(?:\w+\.)+(?=\w)", "", named)
        elif re.search(r"\[[a-z-]+\]$", text):
            seen[number] = f"error: {text.rpartition('[')[2][:-1]}"
    lines = PROGRAM.read_text().splitlines()
    wanted = {
        i: line.partition("  # ")[2]
        for i, line in enumerate(lines, 1)
        if line.strip().startswith("reveal_type(") or "  # error: " in line
    }
    assert seen == wanted


def test_every_public_name_is_visible(said: dict[str, list[tuple[int, str]]]) -> None:
    """No public name is unknown to mypy, late ones included."""
    lines = list(_every_name())
    assert not [(lines[n - 1], text) for n, text in said.get("names.py", ())]


def _overloads(fn: Any) -> list[Any]:
    """What stubs have in place of a function's own signature."""
    code = inspect.unwrap(fn).__code__
    written = types.SimpleNamespace(__module__=fn.__module__, __qualname__=code.co_qualname)
    return typing.get_overloads(written)  # type: ignore[arg-type]


def _public_functions() -> Iterator[tuple[str, Any]]:
    for name in ("", *MODULES):
        module = importlib.import_module(f"pyframe.{name}".rstrip("."))
        for n in _names(module):
            value = getattr(module, n)
            if inspect.isroutine(value):
                yield f"{module.__name__}.{n}", value
    for n, value in inspect.getmembers(pf.Tensor):
        if not n.startswith("_") and callable(value):
            yield f"Tensor.{n}", value


def test_every_function_has_a_signature() -> None:
    """And annotations, and a docstring: help() and editors show them."""
    lacking = []
    for name, fn in _public_functions():
        parameters = list(inspect.signature(fn).parameters.values())
        kinds = [p.kind for p in parameters]
        anything = kinds == [inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD]
        if anything and not _overloads(fn):
            lacking.append(f"{name}: its parameters")
        lacking += [
            f"{name}: the type of {p.name}"
            for p in parameters
            if p.annotation is p.empty and p.name not in ("self", "cls")
        ]
        if inspect.signature(fn).return_annotation is inspect.Signature.empty:
            lacking.append(f"{name}: the type of its result")
        if not inspect.getdoc(fn):
            lacking.append(f"{name}: a docstring")
    assert not lacking


def test_out_is_shown() -> None:
    """Functions of pf show out=, in-place variants what the function takes."""
    assert list(inspect.signature(pf.sum).parameters) == ["input", "dim", "keepdim", "dtype", "out"]
    assert list(inspect.signature(pf.atan2).parameters) == ["input", "other", "out"]
    assert list(inspect.signature(pf.zeros(1).add_).parameters) == ["other", "alpha"]
    assert "out" not in inspect.signature(pf.is_complex).parameters
