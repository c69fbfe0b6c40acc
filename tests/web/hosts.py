"""Where others start Python: pyframe as a package in PyScript, in JupyterLite and in Node, and the
oldest Pyodide. For `bash scripts/test_elsewhere hosts`; the suite itself does not collect this
file."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
import venv
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest

from pyframe import serve
from pyframe.web import site as sites

from . import test_boot
from .conftest import Tab, files
from .test_site import POINTS

# The newest that runs on Pyodide 0.27: later ones import `jsnull`, which Pyodide 0.28 brought.
PYSCRIPT = "@pyscript/core@0.6.66"
JUPYTERLITE = ("jupyterlite-core==0.6.4", "jupyterlite-pyodide-kernel==0.6.1")
KERNEL = ("ipython", "jedi", "ssl", "sqlite3")  # what its kernel takes of Pyodide's packages
TRAIN = """
import json
await pf.web.notebook.connect()
losses = []
for device in %s:
    history = await model.fit_async(x, y, epochs=3, device=device, verbose=0)
    losses.append(history.history["loss"])
"""
SHOW = """
from pathlib import Path
Path("points.py").write_text("x = 1")
pf.web.notebook.frame("points.py")
"""
NODE = """
const { loadPyodide } = await import(process.argv[1] + "/pyodide.mjs");
const python = await loadPyodide({ indexURL: process.argv[1] });
await python.loadPackage("pyframe", { messageCallback() {} });
const code = `%s
import json
from pyframe.runtime import cpu
json.dumps([model.fit(x, y, epochs=3, verbose=0).history["loss"], cpu.adapter()])`;
console.log(python.runPython(code));
"""
PAGE = """<!doctype html>
<meta charset="utf-8">
<link rel="icon" href="data:,">
<script type="module" src="pyscript/core.js"></script>
<output></output>
<script type="py" config='{"interpreter": "/pyodide/pyodide.mjs", "packages": ["pyframe"]}'>
from pyscript import document
%s
document.querySelector("output").textContent = json.dumps(losses)
</script>
"""


@pytest.fixture
def pyscript(tmp_path: Path, pyodide_files: None) -> Iterator[str]:
    """The address of a page of PyScript's beside an exported folder."""
    site = sites.embed(tmp_path / "site").parent
    if not any((site / "pyodide").glob("micropip*")):
        pytest.skip("micropip is missing beside Pyodide: scripts/get_pyodide gets it from PyPI")
    npm = shutil.which("npm")
    pack = [npm or "npm", "pack", "--silent", PYSCRIPT]
    if npm is None or subprocess.run(pack, cwd=tmp_path, capture_output=True).returncode:
        pytest.skip(f"npm has no {PYSCRIPT} here")
    (archive,) = tmp_path.glob("*.tgz")
    shutil.unpack_archive(archive, tmp_path, "gztar", filter="data")
    (tmp_path / "package" / "dist").rename(site / "pyscript")
    (site / "index.html").write_text(PAGE % (POINTS + TRAIN % ["cpu", "gpu"]))
    with files(site) as url:
        yield url


def test_pyscript_takes_the_package(pyscript: str, visited: Any, server: Any) -> None:
    tab = Tab(visited, server)
    tab.url = pyscript
    page = tab.open("index.html")
    text = "() => document.querySelector('output').textContent"
    losses = json.loads(page.wait_for_function(text, timeout=240_000).json_value())
    for found in losses:
        assert found[0] > found[-1]
    tab.close()


def install(*commands: list[Any]) -> None:
    """Run what asks PyPI for something; skips where it has nothing."""
    for command in commands:
        done = subprocess.run(command, capture_output=True, text=True)
        if done.returncode:
            pytest.skip(f"PyPI lacks something here: {done.stderr.strip().splitlines()[-1]}")


@pytest.fixture
def jupyterlite(
    tmp_path: Path, pyodide_files: None, monkeypatch: pytest.MonkeyPatch
) -> Iterator[str]:
    """The address of a site of JupyterLite's with pyframe's export in it, as docs/page.md says."""
    text = (serve.ROOT / "docs" / "page.md").read_text()
    for command in (("pip install", *JUPYTERLITE), ("scripts/get_pyodide", *KERNEL)):
        assert " ".join(command) in text
    config = re.search(r'```json\n({"jupyter-lite.*?)```', text, re.DOTALL)
    assert config
    venv.create(tmp_path / "env")
    python, lite, site = tmp_path / "env/bin/python", tmp_path / "lite", tmp_path / "site"
    pip = [sys.executable, "-m", "pip", "--python", python, "--quiet"]
    checkout = tmp_path / "checkout"
    (checkout / "scripts").mkdir(parents=True)
    shutil.copy(serve.ROOT / "scripts" / "get_pyodide", checkout / "scripts")
    shutil.copytree(str(serve.pyodide_folder()), checkout / "build" / "pyodide")
    install(
        [*pip, "install", "--no-compile", *JUPYTERLITE],
        [*pip, "download", "--no-deps", "--dest", lite / "pypi", "comm==0.2.2"],
        [sys.executable, checkout / "scripts" / "get_pyodide", *KERNEL],
    )
    (lite / "jupyter-lite.json").write_text(config[1])
    build = [python.with_name("jupyter-lite"), "build", "--output-dir", site]
    subprocess.run(build, cwd=lite, check=True, capture_output=True)
    for name, text in {"favicon.ico": "", "api/contents/all.json": '{"content": []}'}.items():
        (site / name).parent.mkdir(parents=True, exist_ok=True)
        (site / name).write_text(text)
    monkeypatch.setattr(serve, "pyodide_folder", lambda: checkout / "build" / "pyodide")
    sites.embed(site / "pyframe")
    with files(site) as url:
        yield url


def test_jupyterlite_takes_the_package(jupyterlite: str, browser: Any, server: Any) -> None:
    """One cell, with nothing installed before: it imports, trains, and shows a program."""
    tab = Tab(browser, server)
    tab.url = jupyterlite
    cell = f"{POINTS}{TRAIN % ['cpu']}print(json.dumps(losses))\n{SHOW}"
    page = tab.open(f"repl/index.html?kernel=python&code={quote(cell)}")
    told = page.locator(".jp-OutputArea-output pre").first.text_content(timeout=240_000)
    for found in json.loads(told):
        assert found[0] > found[-1]
    shown = page.locator("iframe[title='points.py']").get_attribute("srcdoc", timeout=20_000)
    assert f"{jupyterlite}pyframe/pyframe.js" in shown
    tab.close()


def test_the_oldest_pyodide_starts(
    browser: Any, server: serve.Server, tmp_path: Path, pyodide_files: None
) -> None:
    test_boot.test_other_pyodides_start("0.26.4", browser, server, tmp_path)


def test_node_takes_the_package(tmp_path: Path, pyodide_files: None) -> None:
    node = shutil.which("node")
    if node is None:
        pytest.skip("node is not installed")
    site = sites.embed(tmp_path / "site").parent
    command = [node, "--input-type=module", "--eval", NODE % POINTS, str(site / "pyodide")]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    losses, cpu = json.loads(done.stdout.splitlines()[-1])
    assert losses[0] > losses[-1]
    assert "WebAssembly" in cpu
