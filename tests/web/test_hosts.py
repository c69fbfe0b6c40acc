"""pyframe as a package of somebody else's Pyodide: PyScript in a page, and Node."""

from __future__ import annotations

import json
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from pyframe.web import site as sites

from .conftest import Tab, files

# The newest that runs on Pyodide 0.27: later ones import `jsnull`, which Pyodide 0.28 brought.
PYSCRIPT = "@pyscript/core@0.6.66"
PROGRAM = """
import pyframe as pf
from pyframe import nn

pf.manual_seed(0)
x = pf.randn(128, 2)
y = (x[:, 0] > x[:, 1]).long()
net = nn.Sequential(nn.Linear(2, 8), nn.Tanh(), nn.Linear(8, 2))
model = pf.Model(net, nn.CrossEntropyLoss(), pf.optim.Adam(net.parameters(), lr=0.05))
"""
PAGE = """<!doctype html>
<meta charset="utf-8">
<link rel="icon" href="data:,">
<script type="module" src="pyscript/core.js"></script>
<output></output>
<script type="py" config='{"interpreter": "/pyodide/pyodide.mjs", "packages": ["pyframe"]}'>
import json
from pyscript import document
%s
await pf.web.notebook.connect()
losses = [(await model.fit_async(x, y, epochs=3, device=d)).history["loss"] for d in ("cpu", "gpu")]
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
    (site / "index.html").write_text(PAGE % PROGRAM)
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
