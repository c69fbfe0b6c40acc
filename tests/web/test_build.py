"""scripts/build_web: the static site, behind the standard library's plain server."""

from __future__ import annotations

import functools
import hashlib
import http.server
import json
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import pytest

from pyframe import serve

BUILD = [sys.executable, str(serve.ROOT / "scripts" / "build_web")]


class Quiet(http.server.SimpleHTTPRequestHandler):
    def log_message(self, format: str, *args: Any) -> None:
        pass


@pytest.fixture(params=["plain", "compiled"])
def site(request: pytest.FixtureRequest, tmp_path: Path, pyodide_files: None) -> Path:
    out = tmp_path / "web"
    command = [*BUILD, f"--out={out}"]
    if request.param == "plain":
        pytest.importorskip("hatchling", reason="hatchling, which builds the wheel, is missing")
        command.append("--plain")
    elif not (serve.ROOT / "build" / "pyodide-tools" / "requirements.txt").is_file():
        pytest.skip("pyodide-build is not set up: run scripts/build_web once")
    subprocess.run(command, check=True, capture_output=True)
    return out


def test_the_site_trains(site: Path, tab: Any) -> None:
    config = json.loads((site / "config.json").read_text())
    if "lock" in config:
        entry = json.loads((site / config["lock"]).read_text())["packages"]["pyframe"]
        wheel = (site / entry["file_name"]).read_bytes()
        assert entry["sha256"] == hashlib.sha256(wheel).hexdigest()
        assert entry["depends"] == ["numpy"]
        assert "-cp312-" in entry["file_name"]  # byte-compiled
    handler = functools.partial(Quiet, directory=str(site))
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            tab.url = f"http://127.0.0.1:{server.server_port}/"
            page = tab.open("?epochs=1&limit=64&device=cpu")
            page.wait_for_selector("#train:enabled")
            page.click("#train")
            page.wait_for_function(
                "() => /^Done after 1 step/.test(document.querySelector('#status').textContent)"
            )
        finally:
            server.shutdown()
            thread.join()


def test_another_folder_is_not_replaced(tmp_path: Path) -> None:
    (tmp_path / "thesis.tex").write_text("x")
    result = subprocess.run([*BUILD, f"--out={tmp_path}"], capture_output=True, text=True)
    assert result.returncode == 1
    assert "holds something else" in result.stderr
    assert (tmp_path / "thesis.tex").exists()


def test_weights_that_are_not_there(tmp_path: Path) -> None:
    missing = tmp_path / "no.safetensors"
    result = subprocess.run([*BUILD, f"--weights={missing}"], capture_output=True, text=True)
    assert result.returncode == 1
    assert result.stderr == f"build_web: there are no weights in {missing}\n"
