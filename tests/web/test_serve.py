"""`pyframe serve`: what it serves, and what it says when it can't."""

from __future__ import annotations

import http.client
import io
import json
import re
import subprocess
import sys
import zipfile
from pathlib import Path
from typing import Any

import pytest

from pyframe import serve
from pyframe.__main__ import main


def get(server: serve.Server, path: str) -> http.client.HTTPResponse:
    """GET a path as it is (a client such as urllib would tidy it up first)."""
    connection = http.client.HTTPConnection(*server.server_address[:2])
    connection.request("GET", path, headers={"Connection": "close"})
    response = connection.getresponse()
    response.body = response.read()  # type: ignore[attr-defined]
    connection.close()
    return response


def body(server: serve.Server, path: str) -> bytes:
    response: Any = get(server, path)
    assert response.status == 200, path
    return response.body


def test_everything_that_the_config_names_is_there(server: serve.Server) -> None:
    config = json.loads(body(server, "/config.json"))
    assert config["missing"] == []
    assert len(config["data"]) == 4
    for path in [config["source"], *config["data"]]:
        assert body(server, f"/{path}") == (serve.ROOT / "examples" / path).read_bytes()
    if not config["pyodide"].startswith("https:"):
        assert get(server, f"/{config['pyodide']}pyodide.mjs").status == 200


def test_one_version_of_pyodide() -> None:
    """scripts/get_pyodide, which needs nothing installed, and the server name the same."""
    script = (serve.ROOT / "scripts" / "get_pyodide").read_text()
    assert f'\nVERSION = "{serve.PYODIDE_VERSION}"\n' in script


def test_the_package_zip_is_what_is_installed(server: serve.Server) -> None:
    archive = zipfile.ZipFile(io.BytesIO(body(server, "/pyframe.zip")))
    names = archive.namelist()
    assert archive.read("pyframe/tensor.py") == (serve.PACKAGE / "tensor.py").read_bytes()
    assert "pyframe/backend/browser.py" in names
    assert any(re.fullmatch(r"pyframe/shaders/.*\.wgsl", name) for name in names)
    assert not any("__pycache__" in name or name.startswith("pyframe/web") for name in names)


@pytest.mark.parametrize(
    ("path", "kind"),
    [
        ("/", "text/html; charset=utf-8"),
        ("/pyodide/pyodide.mjs", "text/javascript; charset=utf-8"),
        ("/pyodide/pyodide.asm.wasm", "application/wasm"),
        ("/app.js", "text/javascript; charset=utf-8"),
        ("/worker.js", "text/javascript; charset=utf-8"),
        ("/style.css", "text/css; charset=utf-8"),
        ("/digits.py", "text/plain; charset=utf-8"),
        ("/config.json", "application/json"),
        ("/pyframe.zip", "application/zip"),
        ("/data/mnist10k/t10k-labels-idx1-ubyte.gz", "application/gzip"),
    ],
)
def test_types(server: serve.Server, path: str, kind: str, request: pytest.FixtureRequest) -> None:
    if "pyodide" in path:
        request.getfixturevalue("pyodide_files")
    response = get(server, path)
    assert response.getheader("Content-Type") == kind
    assert response.getheader("Content-Encoding") is None  # a .gz file is to arrive as it is


@pytest.mark.parametrize(
    "path",
    [
        "/nothing",
        "/data/",
        "/../pyproject.toml",
        "/%2e%2e/pyproject.toml",
        "/data/mnist10k/../../x",
    ],
)
def test_the_rest_is_not_found(
    server: serve.Server, path: str, capfd: pytest.CaptureFixture[str]
) -> None:
    assert get(server, path).status == 404


def test_weights_appear_when_they_are_saved(server: serve.Server, weights: Path) -> None:
    assert json.loads(body(server, "/config.json"))["weights"] is None
    weights.write_bytes(b"weights")
    try:
        path = json.loads(body(server, "/config.json"))["weights"]
        assert body(server, f"/{path}") == b"weights"
    finally:
        weights.unlink()


def test_missing_parts_are_named_with_the_fix(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Away from a checkout there are no digits and no local Pyodide."""
    monkeypatch.setattr(serve, "ROOT", tmp_path)
    monkeypatch.chdir(tmp_path)
    config = serve.config()
    assert config["pyodide"] == serve.PYODIDE_CDN
    assert config["data"] is None
    assert "start the server in a checkout" in config["missing"][0]


def test_a_port_in_use(server: serve.Server, capsys: pytest.CaptureFixture[str]) -> None:
    port = server.server_address[1]
    assert main(["serve", "--port", str(port)]) == 1
    said = capsys.readouterr().err
    assert f"can't listen on 127.0.0.1 port {port}" in said
    assert f"--port {port + 1}" in said


@pytest.mark.parametrize("port", ["http", "-1", "65536"])
def test_a_wrong_port(port: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as stop:
        main(["serve", f"--port={port}"])
    assert stop.value.code == 2
    assert f"'{port}' is no port; expected 0 to 65535" in capsys.readouterr().err


def test_the_command_says_where_the_page_is(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "pyframe", "serve", "--port", "0"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, cwd=serve.ROOT) as process:
        try:
            assert process.stdout is not None
            line = process.stdout.readline()
            found = re.fullmatch(
                r"pyframe's demo is at http://127\.0\.0\.1:(\d+)/ \(Ctrl\+C stops it\)\n", line
            )
            assert found, line
            connection = http.client.HTTPConnection("127.0.0.1", int(found[1]))
            connection.request("GET", "/")
            assert b"<h1>" in connection.getresponse().read()
            connection.close()
        finally:
            process.terminate()
