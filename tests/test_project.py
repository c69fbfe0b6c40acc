"""The project itself: what the wheel holds, what an import costs, and what the texts promise."""

from __future__ import annotations

import doctest
import hashlib
import importlib
import inspect
import json
import os
import re
import runpy
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest
from processes import python

import pyframe as pf
from pyframe import serve
from pyframe.core import extras
from pyframe.ops.api import texts

ROOT = Path(__file__).parent.parent
MADE = {"build", "dist", "data"}  # folders of the root that are no source
PYTHON_BLOCK = re.compile(
    r"^(?:```python|:::\{demo\} \w+)\n(.*?)^(?:```|:::)$", re.MULTILINE | re.DOTALL
)


def sources() -> list[Path]:
    """Every text of the repository, the few dot-files that belong to it included."""
    found = [ROOT / ".gitattributes", ROOT / ".gitignore", ROOT / ".ci" / "run"]
    for path in ROOT.rglob("*"):
        parts = path.relative_to(ROOT).parts
        made = parts[0] in MADE or any(part.startswith((".", "__pycache__")) for part in parts)
        if path.is_file() and not made:
            found.append(path)
    return found


def readme_blocks() -> list[str]:
    texts = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
    return [block for path in texts for block in PYTHON_BLOCK.findall(path.read_text())]


def test_workers_take_groups(request: pytest.FixtureRequest) -> None:
    """pytest-xdist puts the group that conftest.py names into a test's name; where it can't, what
    tests share is made by each worker."""
    if not getattr(request.config.option, "loadgroup", False):
        pytest.skip("it runs in one process")
    assert "@test_project" in request.node.nodeid


def test_no_text_installs_the_other_pyframe() -> None:
    """That of PyPI. Extras are named by what knows how this one was installed."""
    assert extras.install("jit") == 'pip install -e ".[jit]"'
    for extra in extras.BESIDE.values():
        folder = extras.install(extra).removeprefix("pip install -e . ")
        assert (ROOT / folder / "pyproject.toml").is_file()
    other = re.compile(r"pip install (-\S+ )*['\"]?pyframe\b(?!-)|\bpyframe\[[a-z]+\]")
    assert other.search("pip install -U " + "pyframe")
    for path in sources():
        text = "" if path.name == "CHANGELOG.md" else path.read_text("utf-8", "ignore")
        assert not other.search(text), path


@pytest.mark.parametrize("module", ["pyframe", "pyframe.vision.transforms"])
def test_import_loads_only_what_is_needed(module: str) -> None:
    """And what of it is asked for then is there; the CPU needs no GPU's library."""
    code = (
        f"import sys, {module}, pyframe as pf; print(*sys.modules); sys.modules['wgpu'] = None;"
        "print(pf.graph.show.__name__, pf.graph.table.__name__);"
        "x = pf.ones(3, requires_grad=True); (x * x).sum().backward(); print(x.grad.tolist())"
    )
    modules, *said = python("-c", code)[0].splitlines()
    assert "numpy" in modules.split()
    late = {"wgpu", "tqdm", "matplotlib", "cffi", "torch", "llvmlite", "PIL"}
    assert not late & set(modules.split())
    assert said == ["show table", "[2.0, 2.0, 2.0]"]


@pytest.mark.parametrize("number", range(len(readme_blocks())))
def test_readme_block_runs(number: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    exec(compile(readme_blocks()[number], f"README.md block {number}", "exec"), {})


def test_the_guide_of_exports_runs(tmp_path: Path) -> None:
    """Its commands, on the program that it shows."""
    text = (ROOT / "docs" / "exports.md").read_text("utf-8")
    (tmp_path / "signs.py").write_text(PYTHON_BLOCK.findall(text)[0], "utf-8")
    python("signs.py", folder=tmp_path, PYFRAME_DEVICE="cpu")
    commands = re.findall(r"^python (-m pyframe export signs\.py .*?)  ", text, re.MULTILINE)
    assert len(commands) == 6
    commands = [c for c in commands if not c.endswith("--python") or serve.pyodide_folder()]
    main = "import sys; from pyframe.__main__ import main\nfor c in sys.argv[1:]:\n"
    main += "    if main(c.split()[2:]): sys.exit(c)"
    python("-c", main, *commands, folder=tmp_path)
    for command in commands:
        assert (tmp_path / command.split("--to ")[1].split()[0]).exists()


def reference() -> ModuleType:
    """What writes the reference."""
    sys.path.insert(0, str(ROOT / "docs"))
    try:
        return importlib.import_module("reference")
    finally:
        del sys.path[0]


def test_reference_tells_of_every_name() -> None:
    """All that a public name leads to has a text, and each its place in one page."""
    told = reference()
    home = told.homes()
    bare = [
        f"{namespace}.{name}"
        for namespace in told.NAMESPACES
        for name, value in told.public(namespace).items()
        if callable(value)
        and home.get(id(value)) == f"{namespace}.{name}"
        and not value.__doc__
        and not value.__module__.startswith("multiprocessing")  # Python's own
    ]
    assert bare == []
    text = "\n".join(told.page(name, home) for name in told.NAMESPACES)
    for line in (
        "{py:class} Conv2d(in_channels: int,",
        "{py:method} Tensor.cumsum(",
        "{py:function} einsum(",
    ):
        assert line in text
    assert text.count("```{py:module}") == len(told.NAMESPACES) - 1
    assert "<pyframe" not in re.sub(r"`\w+ <pyframe[\w.]*>`", "", text), "an object's address"


SHOWN = """nn nn.functional nn.init optim optim.lr_scheduler optim.swa_utils metrics
train Tensor amp autograd data distributions fft func linalg masked random signal.windows
special"""


def told(namespace: str) -> Iterator[tuple[str, Any, str]]:
    """The public names of a namespace with what they are called by, and their texts."""
    for name, value in reference().public(namespace).items():
        if isinstance(value, staticmethod | classmethod):
            value = value.__func__
        if callable(value) or isinstance(value, property):
            yield name, value, inspect.cleandoc(value.__doc__ or "")


@pytest.fixture
def shown(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., list[str]]:
    """`shown(name, text)` is what is wrong with the examples of a text, each a report."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    runner = doctest.DocTestRunner(verbose=False, optionflags=doctest.NORMALIZE_WHITESPACE)

    def run(name: str, text: str, needed: bool = False) -> list[str]:
        known = {"pf": pf, "nn": pf.nn, "F": pf.nn.functional, "optim": pf.optim}
        example = doctest.DocTestParser().get_doctest(text, known, name, None, None)
        wrong = [] if example.examples or not needed else [f"{name} has no example"]
        pf.manual_seed(0)
        runner.run(example, out=wrong.append)
        return wrong

    return run


@pytest.mark.parametrize("namespace", ["", *SHOWN.split()])
def test_docstring_shows_what_it_tells(namespace: str, shown: Callable[..., list[str]]) -> None:
    """Each name's text begins with a sentence and has an example below, which gives what it shows:
    a plain one, so that help() and the page of the name are enough to begin with."""
    wrong: list[str] = []
    for name, _, text in told(f"pyframe.{namespace}".rstrip(".")):
        begins = text.partition("\n\n")[0]
        if ">>>" in begins or not re.search(r"\w.*\.(\s|$)", begins):
            wrong.append(f"{name} does not begin with a sentence")
        wrong += shown(name, text, needed=True)
    assert not wrong, "\n".join(wrong)


# What a text need not tell of: operands, which all functions of tensors have.
OPERANDS = {"self", "input", "other"}


def taken(value: Any) -> set[str]:
    """The arguments of a function, or of what makes instances of a class, unless that is another's
    or each Module's."""
    if inspect.isclass(value):
        made = value.__new__ if value.__init__ is object.__init__ else value.__init__
        theirs = not str(getattr(made, "__module__", "")).startswith("pyframe")
        if theirs or made is pf.nn.Module.__init__:
            return set()
    return {*inspect.signature(value).parameters} - OPERANDS


@pytest.mark.parametrize("namespace", reference().NAMESPACES)
def test_docstring_tells_of_each_argument(namespace: str) -> None:
    """As an entry of a list, or in backticks; of a method in its own text or that of its class, of
    a base's, or of its twin that waits (`fit_async` of `fit`)."""
    missing = []
    for name, value, text in told(namespace):
        if isinstance(value, property) or not str(value.__module__).startswith("pyframe"):
            continue
        kinds = value.__mro__[:-1] if inspect.isclass(value) else ()
        whole = {"": [text]}
        for method in vars(value) if kinds else ():
            if not method.startswith("_") and callable(getattr(value, method)):
                twins = method, f"{method}_async", method.removesuffix("_async")
                whole[f".{method}"] = [
                    inspect.cleandoc(x.__doc__ or "")
                    for k in kinds
                    for x in (k, *(getattr(k, n, None) for n in twins))
                ]
        for part, all_ in whole.items():
            seen = set().union(*(texts.told(t.partition("\n>>> ")[0]) for t in all_))
            takes = taken(getattr(value, part[1:]) if part else value)
            missing += [f"{name}{part}: {n}" for n in sorted(takes - seen)]
    assert missing == []


@pytest.mark.parametrize("namespace", ["data", "distributions", "train"])
def test_methods_have_texts(namespace: str, shown: Callable[..., list[str]]) -> None:
    """Of their own or of a base's, or of their twin that waits (`fit_async` of `fit`); what these
    show, they give."""
    wrong: list[str] = []
    kinds = [kind for _, kind, _ in told(f"pyframe.{namespace}") if inspect.isclass(kind)]
    for kind in kinds if namespace != "train" else [pf.Model]:
        for name, value in vars(kind).items():
            if name.startswith("_") or not (callable(value) or isinstance(value, property)):
                continue
            alike = {name: 1, f"{name}_async": 1, name.removesuffix("_async"): 1}
            texts = [getattr(b, n, None).__doc__ or "" for n in alike for b in kind.__mro__]
            if not any(text.strip() for text in texts):
                wrong.append(f"{kind.__name__}.{name} has no text")
            wrong += shown(name, inspect.cleandoc(texts[0]))
    assert not wrong, "\n".join(wrong)


def test_readme_starts_with_the_commands() -> None:
    readme = (ROOT / "README.md").read_text()
    assert readme_blocks()
    before_the_first_title = readme.split("\n## ", 1)[0]
    for command in ("bash scripts/quickstart", "python -m pyframe serve", "bash scripts/test"):
        assert command in before_the_first_title


def test_texts_name_no_folder_of_a_developer() -> None:
    private = re.compile(rb"(?<![\w.])/(work|root|Users)/")
    found = [
        f"{path.relative_to(ROOT)}: {match[0].decode()}"
        for path in sources()
        if path.suffix != ".gz" and (match := private.search(path.read_bytes()))
    ]
    assert found == []


def test_administrators_are_told_of_every_variable() -> None:
    asked = {
        name
        for path in (ROOT / "pyframe").rglob("*.py")
        for name in re.findall(r"""["'](PYFRAME_[A-Z_]+)["']""", path.read_text("utf-8"))
    }
    text = (ROOT / "docs" / "administration.md").read_text("utf-8")
    told = set(re.findall(r"^\| `(PYFRAME_\w+)`", text, re.MULTILINE))
    assert told == asked - {"PYFRAME_TORCH_PROGRAM"}  # for processes of its own


def test_links_in_texts_lead_somewhere() -> None:
    for text in (*ROOT.glob("*.md"), *(ROOT / "docs").glob("*.md")):
        for target in re.findall(r"\]\((?!https?:|#)([^)#]+)", text.read_text()):
            assert (text.parent / target).exists(), f"{text.name} links to {target}"


def test_tables_have_a_header_for_each_column() -> None:
    """Which a screen reader says with a cell."""
    bare = [
        f"{path.name}: {header}"
        for path in (*ROOT.glob("*.md"), *(ROOT / "docs").glob("*.md"))
        for header in re.findall(r"^(\|.*\|)\n\| ?:?-", path.read_text("utf-8"), re.MULTILINE)
        if re.search(r"\|\s*\|", header)
    ]
    assert bare == []


@pytest.mark.skipif(os.name == "nt", reason="there a shell script is no program")
@pytest.mark.parametrize(("system", "folder"), [("linux-gnu", "bin"), ("msys", "Scripts")])
def test_scripts_know_where_windows_keeps_programs(
    system: str, folder: str, tmp_path: Path
) -> None:
    python = tmp_path / ".venv" / folder / "python"
    python.parent.mkdir(parents=True)
    python.write_text("#!/bin/sh\necho $0 $*\n")
    python.chmod(0o755)
    script = f"source {ROOT / 'scripts' / 'venv.sh'}; make_stubs() {{ :; }}; install_pyframe"
    (tmp_path / "pyproject.toml").touch()
    done = subprocess.run(
        ["bash", "-euc", script], cwd=tmp_path, env={**os.environ, "OSTYPE": system},
        capture_output=True, text=True, check=True,
    )  # fmt: skip
    assert f".venv/{folder}/python -m pip install" in done.stdout


@pytest.mark.skipif(os.name == "nt", reason="the scripts are for a Unix shell")
@pytest.mark.parametrize(("python", "said"), {
    'case "$*" in *platform*) echo " 3.9.2";; *) exit 1;; esac':
        "needs Python 3.11 or newer; found 3.9.2.*PYTHON=",
    'case "$*" in *ensurepip*) exit 1;; *-venv*) echo python3.11-venv;; esac':
        "apt-get install python3.11-venv",
}.items())  # fmt: skip
def test_quickstart_names_what_python_lacks(python: str, said: str, tmp_path: Path) -> None:
    """On a machine whose only Python is this shell script."""
    checkout, bin_folder = tmp_path / "checkout", tmp_path / "bin"
    shutil.copytree(ROOT / "scripts", checkout / "scripts")
    shutil.copy(ROOT / "pyproject.toml", checkout)
    bin_folder.mkdir()
    for tool in ("bash", "cat", "dirname"):
        (bin_folder / tool).symlink_to(str(shutil.which(tool)))
    (bin_folder / "python3").write_text(f"#!{shutil.which('bash')}\n{python}\n")
    (bin_folder / "python3").chmod(0o755)
    done = subprocess.run(
        [bin_folder / "bash", checkout / "scripts" / "quickstart"],
        env={"PATH": str(bin_folder)}, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 1
    assert not (checkout / ".venv").exists()
    assert re.search(said, done.stderr, re.DOTALL)


@pytest.fixture
def get_pyodide(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> SimpleNamespace:
    """scripts/get_pyodide, without internet, with a folder of wheels and a lock file that knows
    three packages, all of the content b"the wheel"."""
    module = runpy.run_path(str(ROOT / "scripts" / "get_pyodide"))
    script = module["get_packages"].__globals__

    def refuse(_: str) -> bytes:
        raise OSError("no internet in a test")

    monkeypatch.setitem(script, "download", refuse)
    monkeypatch.setitem(script, "carried", refuse)
    monkeypatch.setenv("PYFRAME_WHEELS", str(tmp_path / "wheels"))
    (tmp_path / "wheels").mkdir()
    (tmp_path / "parts").mkdir()
    digest = hashlib.sha256(b"the wheel").hexdigest()
    packages = {
        name: {"file_name": f"{name}.whl", "sha256": digest, "depends": depends}
        for name, depends in {"numpy": [], "stack-data": ["Pure_Eval"], "pure-eval": []}.items()
    }
    text = json.dumps({"info": {"version": serve.PYODIDE_VERSION}, "packages": packages})
    (tmp_path / "parts" / "pyodide-lock.json").write_text(text)
    return SimpleNamespace(
        script=script, wheels=tmp_path / "wheels", parts=tmp_path / "parts",
        get=lambda *names: script["get_packages"](tmp_path / "parts", [*names]),
        complete=lambda: script["complete"](tmp_path / "parts"),
    )  # fmt: skip


def test_get_pyodide_takes_the_wheel_that_the_lock_names(
    get_pyodide: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of the version that pages name; until all of it is there it is not complete."""
    script, parts = get_pyodide.script, get_pyodide.parts
    assert (script["VERSION"], script["CDN"]) == (serve.PYODIDE_VERSION, serve.PYODIDE_CDN)
    (get_pyodide.wheels / "numpy.whl").write_bytes(b"the wheel")
    get_pyodide.get("numpy")
    assert (parts / "numpy.whl").read_bytes() == b"the wheel"
    assert not get_pyodide.complete(), "the runtime's own files are still missing"
    for name in script["RUNTIME"]:
        (parts / name).touch()
    assert not get_pyodide.complete(), "the lock file is another than that of npm"
    lock = (parts / "pyodide-lock.json").read_bytes()
    monkeypatch.setitem(script, "LOCK", hashlib.sha256(lock).hexdigest())
    assert get_pyodide.complete()
    (parts / "numpy.whl").write_bytes(b"half the whe")
    assert not get_pyodide.complete()


def test_get_pyodide_takes_what_a_package_depends_on(get_pyodide: Any) -> None:
    for name in ("stack-data.whl", "pure-eval.whl"):
        (get_pyodide.wheels / name).write_bytes(b"the wheel")
    get_pyodide.get("stack_data")
    shutil.rmtree(get_pyodide.wheels)
    get_pyodide.get("stack_data")  # they are there
    there = {path.name for path in get_pyodide.parts.glob("*.whl")}
    assert there == {"stack-data.whl", "pure-eval.whl"}
    with pytest.raises(SystemExit, match=r"Pyodide 0\.27\.7 has no package nothing"):
        get_pyodide.get("nothing")


def test_get_pyodide_refuses_a_wheel_with_another_hash(
    get_pyodide: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    (get_pyodide.wheels / "numpy.whl").write_bytes(b"another file")
    with pytest.raises(SystemExit, match="no source has numpy.whl"):
        get_pyodide.get("numpy")
    assert "refused from" in capsys.readouterr().err
    assert not (get_pyodide.parts / "numpy.whl").exists()
