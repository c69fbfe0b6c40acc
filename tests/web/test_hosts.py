"""pyframe as a package of somebody else's Pyodide: PyScript in a page, JupyterLite, and Node."""

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
from pyframe.__main__ import main
from pyframe.web import site as sites

from .conftest import Tab, files

# The newest that runs on Pyodide 0.27: later ones import `jsnull`, which Pyodide 0.28 brought.
PYSCRIPT = "@pyscript/core@0.6.66"
JUPYTERLITE = ("jupyterlite-core==0.6.4", "jupyterlite-pyodide-kernel==0.6.1")
KERNEL = ("ipython", "jedi", "ssl", "sqlite3")  # what its kernel takes of Pyodide's packages
PROGRAM = """
import pyframe as pf
from pyframe import nn

pf.manual_seed(0)
x = pf.randn(128, 2)
y = (x[:, 0] > x[:, 1]).long()
net = nn.Sequential(nn.Linear(2, 8), nn.Tanh(), nn.Linear(8, 2))
model = pf.Model(net, nn.CrossEntropyLoss(), pf.optim.Adam(net.parameters(), lr=0.05))
"""
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


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory, pyodide_files: None) -> Path:
    return sites.embed(tmp_path_factory.mktemp("hosts") / "site").parent


@pytest.fixture
def pyscript(site: Path, tmp_path: Path) -> Iterator[str]:
    """The address of a page of PyScript's beside the site."""
    if not any((site / "pyodide").glob("micropip*")):
        pytest.skip("micropip is missing beside Pyodide: scripts/get_pyodide gets it from PyPI")
    npm = shutil.which("npm")
    pack = [npm or "npm", "pack", "--silent", PYSCRIPT]
    if npm is None or subprocess.run(pack, cwd=tmp_path, capture_output=True).returncode:
        pytest.skip(f"npm has no {PYSCRIPT} here")
    (archive,) = tmp_path.glob("*.tgz")
    shutil.unpack_archive(archive, tmp_path, "gztar", filter="data")
    (tmp_path / "package" / "dist").rename(site / "pyscript")
    (site / "index.html").write_text(PAGE % (PROGRAM + TRAIN % ["cpu", "gpu"]))
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
    cell = f"{PROGRAM}{TRAIN % ['cpu']}print(json.dumps(losses))\n{SHOW}"
    page = tab.open(f"repl/index.html?kernel=python&code={quote(cell)}")
    told = page.locator(".jp-OutputArea-output pre").first.text_content(timeout=240_000)
    for found in json.loads(told):
        assert found[0] > found[-1]
    shown = page.locator("iframe[title='points.py']").get_attribute("srcdoc", timeout=20_000)
    assert f"{jupyterlite}pyframe/pyframe.js" in shown
    tab.close()


CDN = """<!doctype html>
<meta charset="utf-8">
<link rel="icon" href="data:,">
<output></output>
<script type="module">
import { loadPyodide } from "%spyodide.mjs";

const python = await loadPyodide({ lockFileURL: "pyframe/pyodide/pyodide-lock.json" });
await python.loadPackage(["pyframe", "micropip"]);
const code = `%s
import json, micropip
json.dumps([model.fit(x, y, epochs=3, verbose=0).history["loss"], micropip.__version__])`;
document.querySelector("output").textContent = python.runPython(code);
</script>
"""


def test_pyodide_of_the_cdn_takes_the_package(
    tmp_path: Path, visited: Any, server: Any, pyodide_files: None
) -> None:
    """By a lock file that names NumPy there and pyframe here."""
    folder = serve.pyodide_folder()
    assert folder is not None
    if not serve.installers(folder):
        pytest.skip("micropip is missing beside Pyodide: scripts/get_pyodide gets it from PyPI")
    (tmp_path / "index.html").write_text(CDN % (serve.PYODIDE_CDN, PROGRAM))
    tab, asked = Tab(visited, server), list[str]()

    def answer(route: Any) -> None:
        asked.append(route.request.url.rsplit("/", 1)[-1])
        route.fulfill(path=folder / asked[-1], headers={"Access-Control-Allow-Origin": "*"})

    tab.page.route(f"{serve.PYODIDE_CDN}*", answer)
    with files(tmp_path) as url:
        command = ["export", "--python", "--cdn", f"--url={url}pyframe"]
        assert main([*command, "--to", str(tmp_path / "pyframe")]) == 0
        tab.url = url
        page = tab.open("index.html")
        text = "() => document.querySelector('output').textContent"
        losses, _ = json.loads(page.wait_for_function(text, timeout=240_000).json_value())
        assert losses[0] > losses[-1]
        tab.close()
    parts = {"pyodide.mjs", "pyodide.asm.js", "pyodide.asm.wasm", "python_stdlib.zip"}
    assert {name for name in asked if not name.startswith("numpy-")} == parts
    assert len(asked) == len(parts) + 1


def test_node_takes_the_package(site: Path) -> None:
    node = shutil.which("node")
    if node is None:
        pytest.skip("node is not installed")
    command = [node, "--input-type=module", "--eval", NODE % PROGRAM, str(site / "pyodide")]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    losses, cpu = json.loads(done.stdout.splitlines()[-1])
    assert losses[0] > losses[-1]
    assert "WebAssembly" in cpu
