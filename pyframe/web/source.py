"""A program that a page is to run: its file, the modules beside it that it imports, its data."""

from __future__ import annotations

import ast
import os
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from pyframe.web.demo import no_model

FOUND = ("demo", "make_model", "model")  # one of these names a program defines; see Demo.of
PROVIDED = ("numpy", "pyframe", "torch", "torchvision")  # modules that the page has itself


class ProgramError(ValueError):
    """A program that no page can run; the text says why, for who named the file."""


class PageProgram:
    """The program in the file `path`, with the data that `data` names: data sets of `datasets`
    (the page has those) or files and folders, and the weights that it may start from.

    Raises ProgramError if the file is missing, is not a program, or has no model.
    """

    def __init__(
        self, path: Path, data: Sequence[str] = (), weights: Path | None = None,
        datasets: Mapping[str, object] | None = None,
    ) -> None:  # fmt: skip
        self.path, self.weights = path, weights
        self.datasets = [name for name in data if datasets and name in datasets]
        self._data = [Path(name) for name in data if name not in self.datasets]
        if path.suffix != ".py" or path.is_dir():
            raise ProgramError(f"{path} is no Python file; expected a program such as my_model.py")
        if not path.is_file():
            raise ProgramError(f"there is no file {path}")
        for name in self._data:
            if not name.exists():
                known = f", or one of {', '.join(datasets)}" if datasets else ""
                raise ProgramError(f"--data {name}: expected a file or folder that exists{known}")
        if weights and not weights.is_file():
            raise ProgramError(f"there are no weights in {weights}")
        names = set(_defined(_parse(path).body))
        if not names & {*FOUND, "*"}:
            raise ProgramError(no_model(str(path)))

    @property
    def folder(self) -> Path:
        """Where the names of `files` begin."""
        return self.path.parent

    def files(self) -> dict[str, Path]:
        """All files but the program itself, by their names beside it: "helper.py", "data/a.csv"."""
        found = _imported(self.path, self.folder)
        for given in self._data:
            inside = Path(os.path.abspath(given)).is_relative_to(os.path.abspath(self.folder))
            top = os.path.relpath(given, self.folder) if inside else Path(given).resolve().name
            for path in sorted(given.rglob("*")) if given.is_dir() else [given]:
                parts = path.relative_to(given).parts
                if path.is_file() and not any(part.startswith(".") for part in parts) and (
                    given.is_file() or path.resolve().is_relative_to(given.resolve())
                ):  # fmt: skip
                    found[Path(top, *parts).as_posix()] = path
        found.pop(self.path.name, None)
        return found

    def all_files(self) -> dict[str, Path]:
        """`files`, the program and its weights."""
        weights = {self.weights.name: self.weights} if self.weights else {}
        return {**self.files(), **weights, self.path.name: self.path}


def _parse(path: Path) -> ast.Module:
    try:
        return ast.parse(path.read_bytes(), str(path))
    except SyntaxError as error:
        where = f"{path}, line {error.lineno}"
        raise ProgramError(f"{where}: {error.msg}: {(error.text or '').strip()}") from None
    except ValueError as error:  # null bytes
        raise ProgramError(f"{path} is no Python: {error}") from None


def _defined(body: Sequence[ast.AST]) -> Iterator[str]:
    """The names that statements define, those in `if` and `try` too; "*" stands for any."""
    for node in body:
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
            yield node.name
        elif isinstance(node, (ast.Import, ast.ImportFrom)):
            yield from (alias.asname or alias.name for alias in node.names)
        else:
            for child in ast.walk(node):
                if isinstance(child, ast.Name) and isinstance(child.ctx, ast.Store):
                    yield child.id
                elif isinstance(child, (ast.FunctionDef, ast.ImportFrom)):
                    yield from _defined([child])


def _imported(program: Path, folder: Path) -> dict[str, Path]:
    """The modules of `folder` that the program imports, and theirs; packages come whole."""
    found: dict[str, Path] = {}
    waiting = [program]
    while waiting:
        try:
            tree = _parse(waiting.pop())
        except (OSError, ProgramError):  # it is just being edited: the page will say so
            continue
        for node in ast.walk(tree):
            if isinstance(node, ast.Import):
                names = [alias.name for alias in node.names]
            elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
                names = [node.module]
            else:  # `from . import` stays within a package, which comes whole
                continue
            for name in (name.split(".")[0] for name in names):
                if name in PROVIDED:
                    continue
                package = folder / name
                if (package / "__init__.py").is_file():
                    paths = [p for p in package.rglob("*.py") if p.is_file()]
                else:
                    paths = [p for p in (folder / f"{name}.py",) if p.is_file()]
                for new in paths:
                    if not new.resolve().is_relative_to(folder.resolve()):
                        continue  # a link that leads outside
                    key = new.relative_to(folder).as_posix()
                    if key not in found:
                        found[key] = new
                        waiting.append(new)
    return dict(sorted(found.items()))
