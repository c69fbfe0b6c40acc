"""Downloads from a server of our own: whole and checked, or not there."""

from __future__ import annotations

import hashlib
import http.server
import importlib
import socket
import threading
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from pyframe.io import download

CONTENT = bytes(range(256)) * 1000
MD5 = hashlib.md5(CONTENT).hexdigest()


class Handler(http.server.BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        if self.path == "/missing":
            self.send_error(404)
            return
        if self.path == "/nonsense":
            self.wfile.write(b"HTTP/1.1 nonsense\r\n\r\n")
            return
        self.send_response(200)
        if self.path == "/odd-length":
            self.send_header("Content-Length", "-3")
        elif not self.path.startswith("/no-length"):
            self.send_header("Content-Length", str(len(CONTENT)))
        self.end_headers()
        body = {"/truncated": CONTENT[:-1000], "/wrong": CONTENT[::-1]}
        self.wfile.write(body.get(self.path, CONTENT))

    def log_message(self, format: str, *args: Any) -> None:
        pass


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    monkeypatch.setenv("no_proxy", "127.0.0.1")
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        yield f"http://127.0.0.1:{server.server_address[1]}"
        server.shutdown()
        thread.join()


@pytest.fixture
def unreachable() -> str:
    with socket.socket() as free:  # the port of a server that is gone
        free.bind(("127.0.0.1", 0))
        return f"http://127.0.0.1:{free.getsockname()[1]}/file"


@pytest.mark.parametrize("name", ["good", "no-length", "odd-length"])
def test_download(server: str, tmp_path: Path, name: str, capfd: Any) -> None:
    path = tmp_path / "new" / "folder" / "file.gz"
    download([f"{server}/{name}"], path, MD5)
    assert path.read_bytes() == CONTENT
    assert list(path.parent.iterdir()) == [path]
    assert "file.gz" in capfd.readouterr().err, "the progress bar"


def test_progress_bar_switched_off(
    server: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import tqdm.auto

    class Silent(tqdm.auto.tqdm):
        def __init__(self, *args: Any, **kwargs: Any) -> None:
            super().__init__(*args, **{**kwargs, "disable": True})

    monkeypatch.setattr(tqdm.auto, "tqdm", Silent)
    download([f"{server}/good"], tmp_path / "file", MD5)
    assert (tmp_path / "file").read_bytes() == CONTENT


@pytest.mark.parametrize(
    ("name", "message"),
    [
        (
            "wrong",
            f"checksum mismatch: MD5 {hashlib.md5(CONTENT[::-1]).hexdigest()} of 256000 bytes",
        ),
        ("truncated", "the transfer stopped after 255000 of 256000 bytes"),
        ("missing", "HTTP Error 404"),
        ("nonsense", "the server's answer is broken: BadStatusLine"),
    ],
)
def test_bad_answer(server: str, tmp_path: Path, name: str, message: str) -> None:
    path = tmp_path / "file.gz"
    with pytest.raises(RuntimeError, match=message) as caught:
        download([f"{server}/{name}"], path, MD5)
    text = str(caught.value)
    assert text.startswith("download: no address has a good file.gz:")
    assert f"{server}/{name}" in text
    assert f"put the file into {tmp_path} yourself" in text
    assert list(tmp_path.iterdir()) == [], "no partial file is left"


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("good", "256000 bytes are announced, expected at most 255999"),
        ("no-length", "the transfer goes on after 255999 bytes"),
    ],
)
def test_too_long(
    server: str, tmp_path: Path, name: str, message: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A server that never stops sending fills no disk."""
    module = importlib.import_module("pyframe.io.transfer")
    monkeypatch.setattr(module, "_LARGEST", len(CONTENT) - 1)
    with pytest.raises(RuntimeError, match=message):
        download([f"{server}/{name}"], tmp_path / "file", MD5)
    assert list(tmp_path.iterdir()) == []
    monkeypatch.setattr(module, "_LARGEST", len(CONTENT))
    download([f"{server}/{name}"], tmp_path / "file", MD5)


def test_a_server_that_drips(server: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A minute in which less than a kilobyte comes, or in which no answer begins, is the last."""
    module = importlib.import_module("pyframe.io.transfer")
    with monkeypatch.context() as patch:
        patch.setattr(module, "_SLOWEST", (1 << 30, -1))
        with pytest.raises(RuntimeError, match=r"it sent \d+ bytes in 0 s, expected at least"):
            download([f"{server}/good"], tmp_path / "file", MD5)
        request = urllib.request.Request(f"{server}/good")
        with pytest.raises(RuntimeError, match="of 256000 bytes came, which are kept: it sent"):
            module.resumed(request, tmp_path / "file", len(CONTENT), "0" * 64, False)
    monkeypatch.setattr(module, "_HEADERS", 0.01)
    with socket.socket() as silent:
        silent.bind(("127.0.0.1", 0))
        silent.listen()
        with pytest.raises(RuntimeError, match=r"no whole answer began in 0\.01 s"):
            download([f"http://127.0.0.1:{silent.getsockname()[1]}/"], tmp_path / "file", MD5)


def test_next_address_is_tried(server: str, unreachable: str, tmp_path: Path) -> None:
    bad = [f"{server}/{name}" for name in ("missing", "truncated", "wrong")]
    download([unreachable, *bad, f"{server}/good"], tmp_path / "file", MD5)
    assert (tmp_path / "file").read_bytes() == CONTENT
    with pytest.raises(RuntimeError) as caught:
        download([unreachable, *bad], tmp_path / "other", MD5)
    for url in (unreachable, *bad):
        assert f"{url}: " in str(caught.value), "each address with its reason"


def test_interrupted(server: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import tqdm.auto

    def interrupt(*_: Any) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(tqdm.auto.tqdm, "update", interrupt)
    with pytest.raises(KeyboardInterrupt):
        download([f"{server}/good"], tmp_path / "file", MD5)
    assert list(tmp_path.iterdir()) == []


def test_old_file_stays_when_the_new_one_is_bad(server: str, tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_bytes(b"old")
    with pytest.raises(RuntimeError):
        download([f"{server}/wrong"], path, MD5)
    assert path.read_bytes() == b"old"


def test_in_a_page(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.platform", "emscripten")
    with pytest.raises(RuntimeError, match=r"a web page can't open https://x/file.*pyfetch"):
        download(["https://x/file"], tmp_path / "file", MD5)
