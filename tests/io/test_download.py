"""Downloads from a server of our own: whole and checked, or not there."""

from __future__ import annotations

import functools
import hashlib
import http.server
import re
import socket
import threading
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import tqdm.auto

from pyframe.io import download, transfer

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
    monkeypatch.setattr(tqdm.auto, "tqdm", functools.partial(tqdm.auto.tqdm, disable=True))
    download([f"{server}/good"], tmp_path / "file", MD5)
    assert (tmp_path / "file").read_bytes() == CONTENT


WRONG = {
    "wrong": f"checksum mismatch: MD5 {hashlib.md5(CONTENT[::-1]).hexdigest()} of 256000 bytes",
    "truncated": "the transfer stopped after 255000 of 256000 bytes",
    "missing": "HTTP Error 404",
    "nonsense": "the server's answer is broken: BadStatusLine",
}


def test_bad_answers(server: str, unreachable: str, tmp_path: Path) -> None:
    """Each address is tried and told of with its reason; the old file stays."""
    path = tmp_path / "file.gz"
    path.write_bytes(b"old")
    bad = [unreachable, *(f"{server}/{name}" for name in WRONG)]
    with pytest.raises(RuntimeError) as caught:
        download(bad, path, MD5)
    text = str(caught.value)
    assert text.startswith("download: no address has a good file.gz:")
    assert f"{unreachable}: " in text
    for name, message in WRONG.items():
        assert re.search(f"{server}/{name}: .*{message}", text), text
    assert f"put the file into {tmp_path} yourself" in text
    assert path.read_bytes() == b"old"
    assert list(tmp_path.iterdir()) == [path], "no partial file is left"
    download([*bad, f"{server}/good"], path, MD5)
    assert path.read_bytes() == CONTENT


def test_too_long(server: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A server that never stops sending fills no disk."""
    for name, message in (
        ("good", "256000 bytes are announced, expected at most 255999"),
        ("no-length", "the transfer goes on after 255999 bytes"),
    ):
        monkeypatch.setattr(transfer, "_LARGEST", len(CONTENT) - 1)
        with pytest.raises(RuntimeError, match=message):
            download([f"{server}/{name}"], tmp_path / name, MD5)
        assert not (tmp_path / name).exists()
        monkeypatch.setattr(transfer, "_LARGEST", len(CONTENT))
        download([f"{server}/{name}"], tmp_path / name, MD5)


def test_a_server_that_drips(server: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A minute in which less than a kilobyte comes, or in which no answer begins, is the last."""
    with monkeypatch.context() as patch:
        patch.setattr(transfer, "_SLOWEST", (1 << 30, -1))
        with pytest.raises(RuntimeError, match=r"it sent \d+ bytes in 0 s, expected at least"):
            download([f"{server}/good"], tmp_path / "file", MD5)
        request = urllib.request.Request(f"{server}/good")
        with pytest.raises(RuntimeError, match="of 256000 bytes came, which are kept: it sent"):
            transfer.resumed(request, tmp_path / "file", len(CONTENT), "0" * 64, False)
    monkeypatch.setattr(transfer, "_HEADERS", 0.01)
    with socket.socket() as silent:
        silent.bind(("127.0.0.1", 0))
        silent.listen()
        with pytest.raises(RuntimeError, match=r"no whole answer began in 0\.01 s"):
            download([f"http://127.0.0.1:{silent.getsockname()[1]}/"], tmp_path / "file", MD5)


def test_interrupted(server: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupt(*_: Any) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(tqdm.auto.tqdm, "update", interrupt)
    with pytest.raises(KeyboardInterrupt):
        download([f"{server}/good"], tmp_path / "file", MD5)
    assert list(tmp_path.iterdir()) == []


def test_in_a_page(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.platform", "emscripten")
    with pytest.raises(RuntimeError, match=r"a web page can't open https://x/file.*pyfetch"):
        download(["https://x/file"], tmp_path / "file", MD5)
