"""scripts/build_web: the static site, behind the standard library's plain server."""

from __future__ import annotations

import hashlib
import io
import json
import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path
from typing import Any

import pytest

from pyframe import serve

from .conftest import files

BUILD = [sys.executable, str(serve.ROOT / "scripts" / "build_web")]

TRAIN = """() => customElements.whenDefined("py-frame").then(() =>
    document.querySelector("py-frame").train({ steps: 2 }))"""


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory, pyodide_files: None) -> Path:
    out = tmp_path_factory.mktemp("site") / "web"
    subprocess.run([*BUILD, f"--out={out}"], check=True, capture_output=True)
    return out


def test_what_every_page_loads_is_small(site: Path) -> None:
    config = json.loads((site / "config.json").read_text())
    parts = []
    for name in ("early", "late"):
        with tarfile.open(site / config[name]) as tar:
            parts += tar.getnames()
    assert (site / config["early"]).stat().st_size <= 600_000
    names = [n for n in serve.sources() if not n.startswith(serve.OF_SITES)]
    assert sorted(parts) == names


def test_pyframe_stands_beside_numpy(site: Path) -> None:
    """In Pyodide's folder, in a lock file as Pyodide's own tool wants it."""
    lock = pytest.importorskip("pyodide_lock").PyodideLockSpec.from_json(site / serve.LOCK)
    lock.check_wheel_filenames()
    for name in ("pyframe", "pyframe-webgpu"):
        found = lock.packages[name]
        assert (found.depends, found.imports) == (["numpy"], ["pyframe"])
        data = (site / "pyodide" / found.file_name).read_bytes()
        assert hashlib.sha256(data).hexdigest() == found.sha256
    with zipfile.ZipFile(io.BytesIO(data)) as wheel:
        (record,) = (n for n in wheel.namelist() if n.endswith(".dist-info/RECORD"))
        rows = dict(line.split(",", 1) for line in wheel.read(record).decode().splitlines())
        assert sorted(rows) == sorted(wheel.namelist())


def test_the_site_trains(site: Path, tab: Any) -> None:
    asked: list[str] = []
    tab.page.on("request", lambda request: asked.append(request.url))
    with files(site) as tab.url:
        page = tab.open("demos/playground.html")
        assert page.evaluate(TRAIN)["steps"] == 2
    assert any(url.endswith(serve.EARLY) for url in asked)
    assert not any(url.endswith(serve.LATE) for url in asked)


def test_another_folder_is_not_replaced(tmp_path: Path) -> None:
    (tmp_path / "thesis.tex").write_text("x")
    result = subprocess.run([*BUILD, f"--out={tmp_path}"], capture_output=True, text=True)
    assert result.returncode == 1
    assert "holds something else" in result.stderr
    assert (tmp_path / "thesis.tex").exists()
