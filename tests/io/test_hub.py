"""Models of a hub and of folders behind URLs, from a server of our own."""

from __future__ import annotations

import hashlib
import http.server
import json
import re
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from pyframe import hub

COMMIT = "0123456789abcdef0123456789abcdef01234567"
WEIGHTS = bytes(range(256)) * 2000
FILES = {
    "config.json": b'{"model_type": "llama"}', "model-00001-of-00001.safetensors": WEIGHTS,
    "model.safetensors.index.json": b'{"weight_map": {"w": "model-00001-of-00001.safetensors"}}',
    "onnx/model.onnx": b"?", "README.md": b"no part", "1_Pooling/config.json": b"{}",
    "small.gguf": b"GGUF",
}  # fmt: skip


INDEXES = [b"[]", b'{"weight_map": 5}', b'{"weight_map": {"a": 5}}', b"{", b"{}", b"[" * 100_000,
           b'{"weight_map": {"a": "../x.safetensors"}}', b'{"weight_map": {"a": "nul"}}',
           b'{"weight_map": {"a": "C:x.safetensors"}}']  # fmt: skip


class Hub(http.server.ThreadingHTTPServer):
    """Files are sent from another host, at most `most` bytes at a time."""

    most = 1 << 30
    damage: bytes | None = None
    said: bytes | None = None  # in place of what the hub says
    siblings: list[dict[str, Any]]

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Answer)
        self.seen: list[tuple[str, str | None, str | None]] = []
        self.siblings = [{"rfilename": n, **digest(n, data)} for n, data in FILES.items()]


def digest(name: str, data: bytes) -> dict[str, Any]:
    """How the hub names a file's contents."""
    if name.endswith(".safetensors"):
        return {"lfs": {"sha256": hashlib.sha256(data).hexdigest(), "size": len(data)}}
    blob = b"blob %d\0%s" % (len(data), data)
    return {"blobId": hashlib.sha1(blob, usedforsecurity=False).hexdigest(), "size": len(data)}


class Answer(http.server.BaseHTTPRequestHandler):
    server: Hub

    def do_GET(self) -> None:
        asked, host = self.headers.get("Range"), self.headers["Host"].partition(":")[0]
        self.server.seen.append((host + self.path, asked, self.headers.get("Authorization")))
        if self.path == "/api/models/org/net/revision/main?blobs=true":
            said = json.dumps({"sha": COMMIT, "siblings": self.server.siblings}).encode()
            said = said if self.server.said is None else self.server.said
            return self.send(200, said, len(said))
        at = re.fullmatch(rf"/org/net/resolve/{COMMIT}/(.+)", self.path)
        if at:
            self.send_response(302)
            port = self.server.server_address[1]
            self.send_header("Location", f"http://localhost:{port}/files/{at[1]}")
            return self.end_headers()
        odd = re.match(r"/index-(\d+)/", self.path)
        if odd and self.path.endswith(".index.json"):
            return self.send(200, INDEXES[int(odd[1])], len(INDEXES[int(odd[1])]))
        name = re.sub(r"^/(files|index-\d+|x_y|x/y)/", "", self.path.partition("?")[0])
        if name not in FILES:
            return self.send(404, b"", 0)
        data = self.server.damage if name.endswith("safetensors") and self.server.damage else None
        data = FILES[name] if data is None else data
        start = int(asked.removeprefix("bytes=").rstrip("-")) if asked else 0
        rest = data[start:]
        return self.send(206 if asked else 200, rest[: self.server.most], len(rest))

    def send(self, status: int, body: bytes, length: int) -> None:
        self.send_response(status)
        self.send_header("Content-Length", str(length))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: Any) -> None:
        pass


@pytest.fixture
def site(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[Hub]:
    monkeypatch.setenv("no_proxy", "127.0.0.1,localhost")
    monkeypatch.setitem(sys.modules, "huggingface_hub", None)
    monkeypatch.setenv("HF_HUB_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("TORCH_HOME", str(tmp_path / "torch"))
    monkeypatch.setenv("HF_TOKEN", "secret")
    with Hub() as server:
        monkeypatch.setenv("HF_ENDPOINT", f"http://127.0.0.1:{server.server_address[1]}")
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        yield server
        server.shutdown()
        thread.join()


def test_a_model_of_the_hub(site: Hub, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What is fetched lies where the package huggingface_hub looks for it, and comes once."""
    folder = hub.model("org/net", progress=False)
    there = {str(p.relative_to(folder)): p.read_bytes() for p in folder.rglob("*") if p.is_file()}
    assert there == {n: FILES[n] for n in (
        "config.json", "model-00001-of-00001.safetensors", "model.safetensors.index.json",
        "1_Pooling/config.json")}  # fmt: skip
    assert {token for place, _, token in site.seen if place.startswith("localhost")} == {None}
    assert {token for place, _, token in site.seen if "/resolve/" in place} == {"Bearer secret"}
    count = len(site.seen)
    assert hub.model("https://huggingface.co/org/net/tree/main", progress=False) == folder
    assert len(site.seen) == count + 1, "what is there is not fetched again"
    monkeypatch.setenv("HF_ENDPOINT", "http://127.0.0.1:1")
    assert hub.model("org/net") == folder, "nor without a network"
    monkeypatch.delitem(sys.modules, "huggingface_hub")
    theirs = pytest.importorskip("huggingface_hub")
    cache = tmp_path / "cache"
    found = theirs.snapshot_download("org/net", cache_dir=cache, local_files_only=True)
    assert Path(found) == folder


def test_what_breaks_off_goes_on(site: Hub, tmp_path: Path) -> None:
    site.most = 200_000
    weights = hub.model("org/net", progress=False) / "model-00001-of-00001.safetensors"
    assert weights.read_bytes() == WEIGHTS
    ranges = [asked for place, asked, _ in site.seen if place.endswith("/files/" + weights.name)]
    assert ranges == ["bytes=0-", "bytes=200000-", "bytes=400000-"]
    assert not list((tmp_path / "cache").rglob("*.incomplete"))


def test_windows_has_one_process_fetch_a_file(
    site: Hub, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What locks files there is a module of its own, which gives up after ten seconds."""
    asked = []

    class Locks:
        LK_UNLCK, LK_LOCK = 0, 1

        @staticmethod
        def locking(fd: int, how: int, nbytes: int) -> None:
            asked.append(how)
            if len(asked) == 1:
                raise OSError(36, "Resource deadlock avoided")
            if len(asked) == 2:  # another process had the lock, and has fetched the file
                (blob,) = (tmp_path / "cache").rglob("*.lock")
                blob.with_suffix("").write_bytes(FILES["config.json"])

    monkeypatch.setattr(sys.modules["pyframe.io.transfer"], "fcntl", None)
    monkeypatch.setitem(sys.modules, "msvcrt", Locks)
    folder = hub.model("org/net", progress=False)
    assert (folder / "model-00001-of-00001.safetensors").read_bytes() == WEIGHTS
    assert asked[:3] == [1, 1, 0]
    assert not any(place.endswith("/files/config.json") for place, _, _ in site.seen)
    assert not list((tmp_path / "cache").rglob("*.incomplete"))


def test_what_never_comes_is_not_there(site: Hub, tmp_path: Path) -> None:
    site.most = 0
    with pytest.raises(RuntimeError, match="0 of .* bytes came, which are kept"):
        hub.model("org/net", progress=False)
    site.most, site.damage = 1 << 30, WEIGHTS[::-1]
    with pytest.raises(RuntimeError, match="checksum .*, expected "):
        hub.model("org/net", progress=False)
    whole = [p for p in (tmp_path / "cache").rglob("*") if p.is_file() and not p.suffix]
    assert not any(p.read_bytes() == site.damage for p in whole)
    assert not (tmp_path / "cache" / "models--org--net" / "refs").exists()
    site.damage = None
    assert (hub.model("org/net", progress=False) / "config.json").is_file()


@pytest.mark.parametrize(
    ("name", "how", "message"),
    [
        ("model/../../out.safetensors", {}, "lies in no folder of its own"),
        ("config.json", {"blobId": "../out", "size": 3}, "by no digests"),
        ("config.json", {"blobId": "a" * 40, "size": "3"}, "by no digests"),
        ("config.json", {"lfs": [3]}, "otherwise than by their digests"),
        ("model\\..\\out.safetensors", {}, "lies in no folder of its own"),
        ("model/nul.safetensors", {}, "lies in no folder of its own"),
        ("config.json", {"blobId": "a" * 40, "size": 1 << 60}, "are announced, and .* has room"),
    ],
)
def test_a_hub_that_lies(site: Hub, name: str, how: dict[str, Any], message: str) -> None:
    site.siblings = [{"rfilename": name, **digest(name, b""), **how}]
    with pytest.raises((ValueError, RuntimeError), match=message):
        hub.model("org/net", progress=False)


@pytest.mark.parametrize(
    ("said", "message"),
    [
        (b"[]", "answers with b'\\[\\]', expected fields by name"),
        (b"<html>", "answers with an HTML page"),
        (b"{}", "files otherwise than by their names: None"),
        (b"[" * 100_000, "answers with no JSON"),
        (b" " * 100_001, "answers with more than 100000 bytes"),
        (b'{"sha": "/elsewhere", "siblings": []}', "names no commit of org/net, but '/elsewhere'"),
        (b'{"siblings": []}', "names no commit of org/net, but None"),
        (b'{"sha": "", "siblings": [{"rfilename": 5}]}', "otherwise than by their names"),
    ],
)
def test_a_hub_that_says_nonsense(
    site: Hub, said: bytes, message: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys.modules["pyframe.io.transfer"], "_TOLD", 100_000)
    site.said = said
    with pytest.raises(ValueError, match=f"hub: http://127.*{message}"):
        hub.model("org/net", progress=False)


def test_urls(site: Hub, tmp_path: Path) -> None:
    base = f"http://127.0.0.1:{site.server_address[1]}/files"
    folder = hub.model(base + "/", progress=False)
    names = {str(p.relative_to(folder)) for p in folder.rglob("*") if p.is_file()}
    assert names == {"config.json", "model-00001-of-00001.safetensors",
                     "model.safetensors.index.json", "1_Pooling/config.json"}  # fmt: skip
    assert hub.model(base + "/small.gguf", progress=False).read_bytes() == b"GGUF"
    assert hub.model(tmp_path) == tmp_path
    assert hub.model(base + "?key=1", progress=False) != folder
    assert site.seen[-1][0].endswith("?key=1")
    base = base.removesuffix("/files")
    assert len({hub.model(base + end, progress=False) for end in ("/x_y", "/x/y")} - {folder}) == 2


def test_a_digest_in_a_url_is_checked_or_refused(site: Hub) -> None:
    base = f"http://127.0.0.1:{site.server_address[1]}/files"
    good = hashlib.sha256(FILES["small.gguf"]).hexdigest().upper()
    assert hub.model(f"{base}/small.gguf#sha256={good}", progress=False).is_file()
    for url, message in {
        "/small.gguf#sha256=00000000": "checksum mismatch", "#sha256=00000000": "is of one file",
        "/small.gguf#sha256=": "expected #sha256=", "/small.gguf#md5=00000000": "expected #sha256=",
        "#main": "expected #sha256=", "/small.gguf#sha256=nothexadecimal": "8 to 64 digits",
    }.items():  # fmt: skip
        with pytest.raises((ValueError, RuntimeError), match=message):
            hub.model(base + url, progress=False)
    for url in ("", "/..", "/a:b", "/nul.gguf"):
        with pytest.raises(ValueError, match="ends in no name of a file"):
            hub.load_state_dict_from_url(f"{base}{url or '/'}")


@pytest.mark.parametrize("i", range(len(INDEXES)))
def test_an_index_that_is_none(site: Hub, i: int, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"hub: http://127\..*is no index of weights"):
        hub.model(f"http://127.0.0.1:{site.server_address[1]}/index-{i}", progress=False)
    assert not list(tmp_path.rglob("*.index.json")), "the next try asks again"


def test_what_is_not_there(site: Hub) -> None:
    with pytest.raises(FileNotFoundError, match="there is no model 'org/other'"):
        hub.model("org/other")
    with pytest.raises(FileNotFoundError, match="no folder, no URL, and no name"):
        hub.model("./nowhere/at/all")
    with pytest.raises(FileNotFoundError, match=r"it has no config\.json"):
        hub.model(f"http://127.0.0.1:{site.server_address[1]}/elsewhere")
    for revision in ("../main", "/etc", "a/../../b", ""):
        with pytest.raises(ValueError, match="is no branch, tag or commit"):
            hub.model("org/net", revision)
