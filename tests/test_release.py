"""A release as a dry run: what scripts/release makes, what the wheels hold and do alone, and how
they are installed where there is nothing."""

from __future__ import annotations

import ast
import hashlib
import json
import os
import re
import runpy
import subprocess
import sys
import tarfile
import venv
import zipfile
from pathlib import Path

import pytest
from processes import python

import pyframe as pf
from pyframe import serve
from pyframe.core import extras

ROOT = Path(__file__).parent.parent
STEM = f"pyframe_webgpu-{pf.__version__}"
WHEELS = {  # by the extras that install them
    extra: STEM.replace("webgpu", f"webgpu_{extra}" if extra else "webgpu") + "-py3-none-any.whl"
    for extra in ("", "examples", "onnx", "text", "torch")
}
TRAIN = """
import pyframe as pf
from pyframe import serve
assert pf.__version__ == %r, pf.__version__
print(sorted(serve.datasets()), pf.ones(2, 3).sum().item())
"""


@pytest.fixture(scope="module")
def release(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """One build for all tests, without zopfli, which takes a minute."""
    for name in ("hatchling", "cyclonedx"):
        pytest.importorskip(name)
    out = tmp_path_factory.mktemp("release") / "out"
    command = [sys.executable, ROOT / "scripts" / "release", "--no-site", "--out", out]
    env = {**os.environ, "PYFRAME_RELEASE": ""}
    subprocess.run(command, check=True, capture_output=True, env=env)
    return out


@pytest.fixture(scope="module")
def wheels(release: Path) -> dict[str, Path]:
    """All distributions, by the extras that install them; the main one is ""."""
    return {extra: release / name for extra, name in WHEELS.items()}


def unpack(wheel: Path, folder: Path) -> None:
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(folder)


def test_the_files_are_named_and_summed(release: Path) -> None:
    sums = dict(line.split()[::-1] for line in (release / "SHA256SUMS").read_text().splitlines())
    assert sums.keys() == {f"{STEM}.tar.gz", "sbom.cdx.json", *WHEELS.values()}
    for name, digest in sums.items():
        assert hashlib.sha256((release / name).read_bytes()).hexdigest() == digest
    with tarfile.open(release / f"{STEM}.tar.gz") as tar:
        kept = {name.partition("/")[2] for name in tar.getnames()}
    assert {"LICENSE", "scripts/test", "tests/conftest.py", "examples/data/names.txt"} <= kept
    with zipfile.ZipFile(release / WHEELS[""]) as archive:
        metadata = archive.read(f"{STEM}.dist-info/METADATA").decode()
    assert f"\nVersion: {pf.__version__}\n" in metadata
    assert "\nLicense-Expression: Apache-2.0\n" in metadata


def test_a_wheel_is_small(release: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """At most 1.75 MB are published: zopfli makes 3.3 % less of it than zlib, whatever it packs."""
    assert (release / WHEELS[""]).stat().st_size < 1.75e6 / 0.967
    pytest.importorskip("zopfli")
    finalize = runpy.run_path(str(ROOT / "scripts" / "build_hook.py"))["BuildHook"].finalize
    name = "pyframe/serve.py"
    sizes = []
    for asked in ("", "1"):
        monkeypatch.setenv("PYFRAME_RELEASE", asked)
        path = tmp_path / f"small{asked}.whl"
        with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
            archive.write(ROOT / name, name)
            archive.writestr("small.dist-info/RECORD", f"{name},sha256=x,1\n")
        finalize(None, "standard", {}, str(path))
        with zipfile.ZipFile(path) as archive:
            assert archive.testzip() is None
            assert compile(archive.read(name), name, "exec")
            sizes.append(archive.getinfo(name).compress_size)
    assert sizes[1] < 0.98 * sizes[0]


def test_wheels_hold_the_package_and_its_parts(wheels: dict[str, Path]) -> None:
    held = {extra: zipfile.ZipFile(path).namelist() for extra, path in wheels.items()}
    names = set(held[""])
    everything = [name for some in held.values() for name in some]
    places = {
        "pyframe": "pyframe", "shaders": "pyframe/shaders", "web": "pyframe/web/static",
        "examples": "pyframe/examples",
    }  # fmt: skip
    npm = ("react.jsx", "vue.js", "npm.js", "widgets.d.ts")  # of its package
    there = {
        f"{place}/{path.relative_to(ROOT / folder).as_posix()}"
        for folder, place in places.items()
        for path in (ROOT / folder).rglob("*")
        if path.is_file()
        and not {"__pycache__", "pyproject.toml", *npm} & set(path.relative_to(ROOT).parts)
    }
    assert there | {"pyframe/py.typed"} <= set(everything)
    assert [n for n in everything if not n.startswith(("pyframe/", "pyframe_webgpu"))] == []
    assert not {n for n in names if n.endswith(".pyc")}, "caches stay out"
    assert len(everything) == len(set(everything)), "each file is in one of them"
    for module, extra in extras.BESIDE.items():
        start = module.replace(".", "/")
        files = {n for n in everything if n.startswith((f"{start}/", f"{start}.py"))}
        assert files
        assert files <= set(held[extra])
    assert {n for n in names if n.startswith("pyframe/examples/")} == {
        f"pyframe/examples/{name}.py" for name in serve.examples()
    }


def test_wheel_holds_fresh_stubs(wheels: dict[str, Path]) -> None:
    """What git does not keep is made for it."""
    made = runpy.run_path(str(ROOT / "scripts" / "make_stubs"))["stubs"]()
    with zipfile.ZipFile(wheels[""]) as archive:
        names = [n for n in archive.namelist() if n.startswith("pyframe/_stubs/")]
        held = {ROOT / name: archive.read(name).decode() for name in names}
    assert held == made


SAID = """
import importlib, inspect, json, pkgutil, pyframe
def said(x, within=True):
    yield inspect.getdoc(x)
    if within and str(getattr(x, "__module__", "")).startswith("pyframe"):
        for name in dir(x):
            if name[0] != "_":
                yield from said(inspect.getattr_static(x, name), False)
names = [m.name for m in pkgutil.iter_modules(pyframe.__path__, "pyframe.") if m.name[8] != "_"]
for name in ["pyframe", "pyframe.nn.functional", *names]:
    module = importlib.import_module(name)
    found = {n: [*said(getattr(module, n))] for n in dir(module) if n[0] != "_"}
    print(json.dumps([name, found]))
"""


def test_wheel_without_comments_has_the_same_code(wheels: dict[str, Path], tmp_path: Path) -> None:
    """In the same lines, without private docstrings; all that is public says the same."""
    private = runpy.run_path(str(ROOT / "scripts" / "build_hook.py"))["private_docstrings"]
    saved = 0
    with zipfile.ZipFile(wheels[""]) as archive:
        for name in archive.namelist():
            if re.match(r"pyframe/(?!examples/).*\.py$", name):
                found, kept = archive.read(name), (ROOT / name).read_bytes()
                tree = ast.parse(kept)
                docs = [*private(tree)]
                for node in ast.walk(tree):
                    body = getattr(node, "body", None)
                    if isinstance(body, list) and body and body[0] in docs:
                        del body[0]
                assert compile(found, name, "exec") == compile(tree, name, "exec"), name
                saved += len(kept) - len(found)
    assert saved
    for wheel in wheels.values():
        unpack(wheel, tmp_path)
    out = [python("-c", SAID, PYTHONPATH=str(path))[0] for path in (tmp_path, ROOT)]
    for there, here in zip(*map(str.splitlines, out), strict=True):
        assert json.loads(there) == json.loads(here)


def test_wheel_runs_alone(wheels: dict[str, Path], tmp_path: Path) -> None:
    unpack(wheels[""], tmp_path)
    code = (
        "import pyframe as pf; from pyframe import serve; print(pf.ones(2, 3).sum().item());"
        "print(pf.__file__); print((serve.WEB / 'runtime.js').is_file());"
        "print(*serve.examples()); pf.gpu.synchronize();"
        "print(pf.gpu.is_available() is (pf.gpu.device_count() > 0));"
        "from pyframe.core.extras import install; print(install('jit'))\n"
        "there = (pf, 'onnx'), (pf, 'text'), (pf, 'lora'), (pf, 'torch'), (pf.web, 'OnnxFile')\n"
        "for module, name in there:\n"
        "    try: getattr(module, name)\n"
        "    except ModuleNotFoundError as error: print(error)"
    )
    out = python("-c", code, folder=tmp_path)[0].splitlines()
    there = " ".join(sorted(path.stem for path in (ROOT / "examples").glob("*.py")))
    missing = {name: name for name in ("onnx", "text", "lora", "torch")}
    missing |= {"lora": "text", "web.onnx_file": "onnx"}
    assert out == ["6.0", str(tmp_path / "pyframe" / "__init__.py"), "True", there, "True",
                   'pip install "pyframe-webgpu[jit]"',
                   *(f'pf.{module} is an extra: pip install "pyframe-webgpu[{extra}]"'
                     for module, extra in missing.items())]  # fmt: skip
    _, err = python("-m", "pyframe", "train", "gpt", "--device", "cpu", folder=tmp_path, status=1)
    assert "tinyshakespeare.txt.gz" in err
    assert err.endswith('an extra: pip install "pyframe-webgpu[examples]"\n')


def test_installed_wheels_serve_and_export(wheels: dict[str, Path], tmp_path: Path) -> None:
    installed = tmp_path / "installed"
    for path in wheels.values():
        unpack(path, installed)
    code = """
import http.client, json, runpy, sys, threading
sys.path.insert(0, "installed")
from pathlib import Path
from pyframe import __main__, serve
assert Path(serve.__file__).is_relative_to(Path.cwd() / "installed")
server = serve.Server("127.0.0.1", 0)
threading.Thread(target=server.serve_forever, daemon=True).start()
for path in ("", "pyframe.js", "widgets/pad.js", "worker.js", "style.css", "demos/digits.html",
             "demos/pictures/gpt.webp", "examples/digits.py", *serve.ARCHIVES,
             "examples/data/gpt.safetensors", "data/names.txt"):
    connection = http.client.HTTPConnection(*server.server_address[:2])
    connection.request("GET", f"/{path}")
    assert connection.getresponse().status == 200, path
    connection.close()
assert {name: len(files) for name, files in serve.datasets().items()} == {
    "digits": 4, "names": 1, "tinyshakespeare": 1}
programs = [runpy.run_path(str(path)) for path in serve.examples().values()]
assert all(len(p["load_data"]()) == 2 for p in programs if "load_data" in p)
Path("mine.py").write_text("def make_model(): ...")
print(__main__.main(["export", "mine.py", "--python", "--cdn", "--to", "site"]))
"""
    assert python("-c", code, folder=tmp_path)[0].splitlines()[-1] == "0"
    (folder,) = (tmp_path / "site").glob("pyframe-*")
    assert {"pyframe.js", "pyframe.tar.gz", "config.json"} <= {
        path.name for path in folder.iterdir()
    }


def test_every_part_has_its_licence(release: Path) -> None:
    bom = json.loads((release / "sbom.cdx.json").read_text())
    parts = {part["name"]: part["licenses"] for part in bom["components"]}
    names = "numpy wgpu tqdm llvmlite tokenizers gguf onnx".split()
    names += [f"pyframe-webgpu-{extra}" for extra in ("examples", "onnx", "text", "torch")]
    assert set(names) <= parts.keys()
    assert all(parts.values())
    assert len(bom["dependencies"][-1]) > 0


def test_a_version_that_differs_is_named(tmp_path: Path) -> None:
    """In a copy whose changelog is behind."""
    pytest.importorskip("cyclonedx")
    versions = runpy.run_path(str(ROOT / "scripts" / "release"))["versions"]
    (tmp_path / "page.md").write_text("pyframe_webgpu-0.0.2-py3-none-any.whl")
    project = (ROOT / "pyproject.toml").read_text()
    (tmp_path / "pyproject.toml").write_text(project.replace("examples==", "examples==9."))
    (tmp_path / "CHANGELOG.md").write_text("## [0.0.1]\n")
    assert list(versions()) == []
    versions.__globals__["ROOT"] = tmp_path
    assert [line.partition(";")[0] for line in versions()] == [
        f"pyproject.toml's extra `examples` is 9.{pf.__version__}",
        "the newest entry of CHANGELOG.md is 0.0.1",
        "the wheel that page.md names is 0.0.2",
    ]


def test_pip_installs(release: Path, tmp_path: Path) -> None:
    """The source distribution, and a wheel that it needs, into an environment that has nothing."""
    venv.create(tmp_path / "env")
    python = tmp_path / "env" / ("Scripts" if sys.platform == "win32" else "bin") / "python"

    def pip(*what: str | Path) -> None:
        command = [sys.executable, "-m", "pip", "--python", python, "--quiet", "install"]
        done = subprocess.run([*command, "--no-compile", *what], capture_output=True, text=True)
        if "No matching distribution found for numpy" in done.stderr:
            pytest.skip("PyPI can't be had here")
        assert done.returncode == 0, done.stderr

    def prints(version: str) -> str:
        done = subprocess.run(  # -I: without PYTHONPATH
            [python, "-I", "-c", TRAIN % version], capture_output=True, text=True, cwd=tmp_path
        )
        assert done.returncode == 0, done.stderr
        return done.stdout.strip()

    (source,) = release.glob("*.tar.gz")
    pip(f"{source}[examples]", f"--find-links={release}")
    assert prints(pf.__version__) == "['digits', 'names', 'tinyshakespeare'] 6.0"
