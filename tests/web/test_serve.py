"""`pyframe serve`: what it serves, and what it says when it can't."""

from __future__ import annotations

import contextlib
import http.client
import io
import json
import os
import re
import socket
import subprocess
import sys
import tarfile
import threading
import zipfile
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

import pytest
from together import together

from pyframe import serve
from pyframe.__main__ import main
from pyframe.web.source import PageProgram

from .conftest import WORKER, Tab, running

WAIT = 60  # seconds for what comes at once, if it comes


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


def connect(server: serve.Server) -> socket.socket:
    return socket.create_connection(server.server_address[:2], timeout=WAIT)


def raw(server: serve.Server, request: bytes) -> bytes:
    """All that comes for these bytes and the end of the connection's way in."""
    with connect(server) as connection:
        connection.sendall(request)
        connection.shutdown(socket.SHUT_WR)
        with contextlib.suppress(ConnectionError):  # it is closed before all is read
            return b"".join(iter(lambda: connection.recv(1 << 16), b""))
    return b""


def status(answer: bytes) -> int:
    found = re.match(rb"HTTP/1\.1 (\d+) ", answer)
    return int(found[1]) if found else 0


def local(
    program: PageProgram | None = None, **options: Any
) -> AbstractContextManager[serve.Server]:
    return running(serve.Server("127.0.0.1", 0, program, **options))


def test_everything_that_the_config_names_is_there(server: serve.Server) -> None:
    config = json.loads(body(server, "/config.json"))
    assert {name: len(paths) for name, paths in config["datasets"].items()} == {
        "digits": 4, "names": 1, "tinyshakespeare": 1,
    }  # fmt: skip
    for path in (path for paths in config["datasets"].values() for path in paths):
        assert body(server, f"/{path}") == (serve.ROOT / "examples" / path).read_bytes()
    assert config["program"] is None
    if not config["pyodide"].startswith("https:"):
        assert get(server, f"/{config['pyodide']}pyodide.mjs").status == 200


def test_the_archives_are_what_is_installed(server: serve.Server) -> None:
    archive = zipfile.ZipFile(io.BytesIO(body(server, f"/{serve.WHEEL}")))
    other = (*serve.OF_SITES, "pyframe_webgpu-")
    names = [name for name in archive.namelist() if not name.startswith(other)]
    parts = {}
    for name in ("/pyframe.tar.gz", "/pyframe-late.tar.gz"):
        with tarfile.open(fileobj=io.BytesIO(body(server, name))) as tar:
            parts |= {found.name: tar.extractfile(found).read() for found in tar}
    assert parts == {name: archive.read(name) for name in names}
    assert parts["pyframe/methods.py"] == (serve.PACKAGE / "methods.py").read_bytes()
    assert "pyframe/backend/browser.py" in names
    assert any(re.fullmatch(r"pyframe/shaders/.*\.wgsl", name) for name in names)
    assert "pyframe/web/__init__.py" in names
    assert not any("__pycache__" in name for name in names)


def test_types(server: serve.Server) -> None:
    for path, kind in {
        "/": "text/html; charset=utf-8",
        "/pyodide/pyodide.asm.wasm": "application/wasm",
        "/worker.js": "text/javascript; charset=utf-8",
        "/style.css": "text/css; charset=utf-8",
        "/examples/digits.py": "text/plain; charset=utf-8",
        "/config.json": "application/json",
        f"/{serve.WHEEL}": "application/zip",
        "/data/mnist10k/t10k-labels-idx1-ubyte.gz": "application/gzip",
    }.items():
        if "pyodide" not in path or serve.pyodide_folder():
            response = get(server, path)
            assert response.getheader("Content-Type") == kind, path
            assert response.getheader("Content-Encoding") is None  # .gz is to arrive as it is


OK = b"Host: localhost\r\n"
ODD: list[tuple[bytes, int]] = [
    (b"GET / HTTP/1.1\r\n" + OK, 200),
    (b"HEAD / HTTP/1.1\r\n" + OK, 200),
    (b"GET / HTTP/1.0\r\n" + OK, 200),
    (b"GET / HTTP/0.9\r\n" + OK, 200),
    (b"GET /?a=/../b#c HTTP/1.1\r\n" + OK, 200),
    (b"GET //index.html HTTP/1.1\r\n" + OK, 200),
    (b"GET /%69ndex.html HTTP/1.1\r\n" + OK, 200),
    (b"GET http://localhost/index.html HTTP/1.1\r\n" + OK, 200),
    (b"GET http://localhost HTTP/1.1\r\nHost: evil.example\r\n", 200),
    (b"GET / HTTP/1.1\r\nRange: bytes=5-2,-\r\nIf-Modified-Since: x\r\n" + OK, 200),
    (b"GET / HTTP/1.1\r\nIf-Modified-Since: Sat, 01 Jan 9999 00:00:00 +0000\r\n" + OK, 304),
    (b"GET /nothing HTTP/1.1\r\n" + OK, 404),
    (b"GET /../pyproject.toml HTTP/1.1\r\n" + OK, 404),
    (b"GET /index.html%00 HTTP/1.1\r\n" + OK, 404),
    (b"GET /index.html::$DATA HTTP/1.1\r\n" + OK, 404),
    (b"GET /..%5cpyproject.toml HTTP/1.1\r\n" + OK, 404),
    (b"GET /data/mnist10k/%2e%2e/%2e%2e/examples/digits.py HTTP/1.1\r\n" + OK, 404),
    (b"GET /%ff%zz% HTTP/1.1\r\n" + OK, 404),
    (b"GET /a%0d%0aX:%20y HTTP/1.1\r\n" + OK, 404),
    (b"GET /" + b"a/" * 5000 + b" HTTP/1.1\r\n" + OK, 404),
    (b"GET / HTTP/1.1\r\n", 400),
    (b"GET /\r\n", 400),
    (b"GET / HTTP/1.1\r\n" + 2 * OK, 400),
    (b"GET * HTTP/1.1\r\n" + OK, 400),
    (b"GET /a b HTTP/1.1\r\n" + OK, 400),
    (b"GET http://evil.example/ HTTP/1.1\r\n" + OK, 403),
    (b"GET /" + b"a" * 70_000 + b" HTTP/1.1\r\n" + OK, 414),
    (b"GET / HTTP/1.1\r\n" + OK + b"A: " + b"a" * 70_000 + b"\r\n", 431),
    (b"GET / HTTP/1.1\r\n" + OK + b"A: a\r\n" * 200, 431),
    (b"POST / HTTP/1.1\r\n" + OK, 501),
    (b"__init__ / HTTP/1.1\r\n" + OK, 501),
    (b"PRI * HTTP/2.0\r\n", 505),
]


@pytest.mark.parametrize(("request_", "expected"), ODD, ids=[repr(r[:40]) for r, _ in ODD])
def test_odd_requests(
    server: serve.Server, request_: bytes, expected: int, capfd: pytest.CaptureFixture[str]
) -> None:
    """Each has an answer, with the headers that all have, and leaves no traceback."""
    answer = raw(server, request_ + b"\r\n")
    head, _, body = answer.partition(b"\r\n\r\n")
    assert status(answer) == expected
    assert b"\r\nX-Content-Type-Options: nosniff" in head
    assert b"\r\nContent-Security-Policy: default-src 'self'; " in head
    assert b"; frame-ancestors 'self'\r\n" in head
    assert len(head) < 2000
    assert bool(body) == (expected != 304 and not request_.startswith(b"HEAD"))
    assert "Traceback" not in capfd.readouterr().err


@pytest.mark.parametrize("length", [b"Content-Length: %d", b"Transfer-Encoding: chunked"])
def test_a_body_is_no_request(server: serve.Server, length: bytes) -> None:
    body = b"GET /nothing HTTP/1.1\r\n" + OK + b"\r\n"
    length = length % len(body) if b"%" in length else length
    answer = raw(server, b"HEAD / HTTP/1.1\r\n" + OK + length + b"\r\n\r\n" + body)
    assert answer.count(b"HTTP/1.1 ") == 1


def test_names_of_this_computer_and_others(server: serve.Server) -> None:
    """A page elsewhere may have its name lead to this computer, and would read what is here."""
    for host in ("localhost", "LocalHost:1", "127.0.0.1:8000", "[::1]", "[::1]:9"):
        assert status(raw(server, f"GET / HTTP/1.0\r\nHost: {host}\r\n\r\n".encode())) == 200, host
    others = """evil.example evil.example:8000 localhost.evil.example 127.0.0.1.evil.example
    192.168.0.1 [::2] [::1 ::1 localhost:x x@localhost localhost,evil ? \xff""".split()
    for host in (*others, "", "<" * 9000):
        request = f"GET /examples/digits.py HTTP/1.1\r\nHost: {host}\r\n\r\n"
        answer = raw(server, request.encode())
        assert status(answer) == 403, host
        assert b"answers to 127.0.0.1, ::1, localhost, not to " in answer
        assert b"start it with --allow and that name" in answer
        assert len(answer) < 2000, "a long name is cut"
    with local(allow=["Demo.Example:8000", "other", ""]) as allowing:
        assert allowing.answers_to("demo.example")
        assert allowing.answers_to("other:443")
        assert not any(map(allowing.answers_to, ("example", "", "?")))


@pytest.mark.parametrize("host", ["0.0.0.0", "", "::"])
def test_where_everybody_may_come(host: str) -> None:
    """Addresses and the computer's own name lead here, and no other name."""
    try:
        server = serve.Server(host, 0)
    except OSError as error:
        pytest.skip(f"the system can't listen on {host}: {error}")
    with running(server):
        for name in ("192.168.0.1:8000", "[fe80::1]", "localhost", socket.gethostname()):
            assert server.answers_to(name), name
        assert not server.answers_to("evil.example")
        with contextlib.closing(http.client.HTTPConnection(server.url[7:-1])) as connection:
            connection.request("GET", "/")
            assert connection.getresponse().status == 200


@pytest.fixture
def tree(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A small checkout in the place of this one."""
    root = tmp_path / "checkout"
    for name in ("web/index.html", "web/folder/a.js", "examples/digits.py", "shaders/a.wgsl",
                 "pyframe/__init__.py", "pyframe/nn/a.py", "pyframe/web/static/b.py"):  # fmt: skip
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(name)
    monkeypatch.setattr(serve, "ROOT", root)
    monkeypatch.setattr(serve, "WEB", root / "web")
    monkeypatch.setattr(serve, "PACKAGE", root / "pyframe")
    monkeypatch.chdir(tmp_path)
    return root


def link(place: Path, target: Path) -> None:
    try:
        place.symlink_to(target)
    except OSError as error:
        pytest.skip(f"this user can make no links: {error}")


def test_links_that_lead_outside(tree: Path) -> None:
    secret = tree.parent / "secret"
    secret.mkdir()
    (secret / "key").write_text("secret")
    data = tree / "examples" / "data" / "mnist10k"
    data.mkdir(parents=True)
    for place, target in {
        tree / "web" / "key": secret / "key",
        tree / "web" / "secret": secret,
        tree / "web" / "circle": tree / "web" / "circle",
        data / "key": secret / "key",
        tree / "web" / "inside.html": tree / "web" / "index.html",
        tree / "web" / "also": tree / "web" / "folder",
    }.items():
        link(place, target)
    with local() as server:
        for path in ("/key", "/secret/key", "/circle", "/secret"):
            assert get(server, path).status == 404
        assert get(server, f"/{serve.DATA}/key").status == 404
        assert body(server, "/inside.html") == b"web/index.html"
        assert body(server, "/also/a.js") == b"web/folder/a.js"
        (tree / "web").rename(tree.parent / "pages")
        link(tree / "web", tree.parent / "pages")
        assert body(server, "/folder/a.js") == b"web/folder/a.js", "the folder itself may be a link"


def names(archive: bytes) -> list[str]:
    with tarfile.open(fileobj=io.BytesIO(archive)) as tar:
        return tar.getnames()


def test_an_archive_is_made_once_for_many(tree: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    built = []
    build = serve.Package._read

    def count(self: Any, sources: Any) -> dict[str, bytes]:
        built.append(sources)
        return build(self, sources)

    monkeypatch.setattr(serve.Package, "_read", count)
    package = serve.Package()
    found = together(lambda _: package.archive(serve.EARLY), 32)
    assert len(built) == 1
    assert len(set(found)) == 1
    assert names(found[0]) == ["pyframe/__init__.py", "pyframe/nn/a.py", "pyframe/shaders/a.wgsl"]


def test_the_archives_follow_their_sources(tree: Path) -> None:
    with local() as server:
        first = body(server, "/pyframe.tar.gz")
        assert body(server, "/pyframe.tar.gz") == first
        (tree / "pyframe" / "__init__.py").write_text("something else")
        changed = body(server, f"/{serve.WHEEL}")
        with zipfile.ZipFile(io.BytesIO(changed)) as archive:
            assert archive.read("pyframe/__init__.py") == b"something else"
        (tree / "pyframe" / "nn" / "a.py").rename(tree / "pyframe" / "b.py")
        link(tree / "pyframe" / ".#b.py", Path("of-an-editor"))
        os.utime(tree / "pyframe" / "b.py", (0, 0))  # zip's time begins in 1980
        assert names(body(server, "/pyframe.tar.gz")) == [
            "pyframe/__init__.py", "pyframe/b.py", "pyframe/shaders/a.wgsl",
        ]  # fmt: skip


def everything(connection: socket.socket) -> int:
    """How many bytes come until the end."""
    with contextlib.suppress(ConnectionError):
        return sum(map(len, iter(lambda: connection.recv(1 << 20), b"")))
    return 0


@pytest.mark.parametrize("start", [b"", b"G", b"GET / HTTP/1.1\r\nHost: localhost\r\nA: "])
def test_a_request_that_never_ends(start: bytes, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(serve, "HEAD", 0)
    with local() as server, connect(server) as connection:
        connection.sendall(start)
        assert everything(connection) == 0


@pytest.fixture
def large(tmp_path: Path) -> PageProgram:
    """A program with more than the system keeps for a connection that takes nothing."""
    (tmp_path / "weights").write_bytes(bytes(1 << 26))
    (tmp_path / "program.py").write_text("def make_model(): ...")
    return PageProgram(tmp_path / "program.py", weights=tmp_path / "weights")


LARGE = b"GET /program/weights HTTP/1.0\r\n" + OK + b"\r\n"


def test_an_answer_that_is_not_taken(large: PageProgram, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(serve, "ANSWER", 0)
    ended, close = threading.Event(), serve.Server.close_request

    def closed(self: Any, request: Any) -> None:
        close(self, request)
        ended.set()

    monkeypatch.setattr(serve.Server, "close_request", closed)
    with local(large) as server, connect(server) as connection:
        connection.sendall(LARGE)
        assert ended.wait(WAIT)


def test_who_is_answered_is_not_cut_off(
    large: PageProgram, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(serve, "CONNECTIONS", 1)
    with local(large) as server, connect(server) as slow:
        slow.sendall(LARGE)
        assert slow.recv(1) == b"H"
        monkeypatch.setattr(serve, "CROWDED", 0)
        with connect(server) as other:
            other.sendall(LARGE)
            assert everything(slow) >= 1 << 26


def test_half_requests_keep_nobody_out(monkeypatch: pytest.MonkeyPatch) -> None:
    """As many connections, each with a thread, as there may be; those that wait make room first."""
    monkeypatch.setattr(serve, "CONNECTIONS", 3)
    monkeypatch.setattr(serve, "CROWDED", 0)
    with local() as server, contextlib.ExitStack() as stack:
        for _ in range(20):
            half = stack.enter_context(connect(server))
            half.sendall(b"GET / HTTP/1.1\r\nHost: local")
        answers = (raw(server, b"GET / HTTP/1.1\r\n" + OK + b"\r\n") for _ in range(100))
        assert any(status(answer) == 200 for answer in answers)
        assert len(server._open) <= 3
        threads = [t for t in threading.enumerate()
                   if getattr(t, "_target", None) == server.process_request_thread]  # fmt: skip
        ending = [t for t in threads if getattr(t, "_args", (None,))[0] not in server._open]
        for thread in ending:
            thread.join(WAIT)
        assert not any(thread.is_alive() for thread in ending)


def test_many_can_come_at_once() -> None:
    """They wait in the system's queue until the server gets to them."""
    server = serve.Server("127.0.0.1", 0)
    with contextlib.ExitStack() as stack:
        stack.callback(server.server_close)
        connections = [stack.enter_context(connect(server)) for _ in range(100)]
        for connection in connections:
            connection.sendall(b"GET / HTTP/1.0\r\n" + OK + b"\r\n")
        stack.enter_context(running(server))
        assert {status(connection.recv(100)) for connection in connections} == {200}


def test_the_policy_holds_in_a_browser(tab: Tab) -> None:
    page = tab.open("nothing")
    tab.errors.clear()
    ran = page.evaluate(
        """async () => {
            const inline = document.createElement("script");
            inline.textContent = "self.ran = ['inline']";
            document.head.append(inline);
            const sent = await fetch("https://evil.example/").then(() => ["sent"], () => []);
            return [...(self.ran ?? []), ...sent];
        }"""
    )
    assert ran == []
    assert len(tab.errors) >= 2
    assert all("Content Security Policy" in error for error in tab.errors[:2])
    tab.errors.clear()


def test_the_gallery(server: serve.Server, tab: Tab) -> None:
    """All that it links and shows is there, and can be hit; test_access.py has how it fits."""
    page = tab.open("")
    links = page.evaluate(
        """() => [...document.querySelectorAll("a")].map((a) => a.getAttribute("href")).concat(
            [...document.querySelectorAll("source")].map((s) => s.getAttribute("srcset")))"""
    )
    assert len(links) == 18
    for link in links:
        assert get(server, f"/{link}").status == 200, link
    page.wait_for_function(
        "() => [...document.images].every((image) => image.complete && image.naturalWidth === 640)"
    )
    heights = "() => [...document.querySelectorAll('.links a')].map((a) => a.offsetHeight)"
    assert min(page.evaluate(heights)) >= 44


def test_python_from_its_cdn(tab: Tab, pyodide_files: None) -> None:
    """Where there is no local copy the page's policy lets Pyodide come from elsewhere: its code
    runs, and asks for the rest."""
    folder = serve.pyodide_folder()
    assert folder is not None

    def from_here(route: Any) -> None:
        path = folder / route.request.url.removeprefix(serve.PYODIDE_CDN)
        if path.suffix != ".wasm":
            kind = serve.TYPES.get(path.suffix, "application/octet-stream")
            headers = {"Access-Control-Allow-Origin": "*", "Content-Type": kind}
            route.fulfill(path=path, headers=headers)

    tab.context.route(f"{serve.PYODIDE_CDN}**", from_here)
    page = tab.open("blank")
    page.evaluate(WORKER, "worker.js")
    boot = "(config) => { ask('boot', { config, base: location.href, files: [] }); }"
    wanted = f"{serve.PYODIDE_CDN}pyodide.asm.wasm"
    with tab.context.expect_event("request", lambda request: request.url == wanted):
        page.evaluate(boot, {**serve.config(), "pyodide": serve.PYODIDE_CDN})


def test_missing_parts_are_named_with_the_fix(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Where the examples' data was left out there are no digits; a wheel has no local Pyodide."""
    monkeypatch.setattr(serve, "ROOT", tmp_path)
    monkeypatch.chdir(tmp_path)
    config = serve.config()
    assert config["pyodide"] == serve.PYODIDE_CDN
    assert config["datasets"] == {}
    monkeypatch.setattr(serve.Server, "serve_forever", lambda self: None)
    assert main(["serve", "--port=0"]) == 0
    said = capsys.readouterr().out
    assert "The digits are not here: this pyframe came without" in said
    assert "scripts/get_pyodide makes a local copy" in said


def test_a_port_that_can_not_be_had(
    server: serve.Server, capsys: pytest.CaptureFixture[str]
) -> None:
    port = server.server_address[1]
    assert main(["serve", "--port", str(port)]) == 1
    said = capsys.readouterr().err
    assert f"can't listen on 127.0.0.1 port {port}" in said
    assert f"--port {port + 1}" in said
    for wrong in ("http", "-1", "65536"):
        with pytest.raises(SystemExit, match="2"):
            main(["serve", f"--port={wrong}"])
        assert f"'{wrong}' is no port; expected 0 to 65535" in capsys.readouterr().err


def test_the_command_says_where_the_page_is(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "pyframe", "serve", "--port", "0", "--allow", "demo.example"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, cwd=serve.ROOT) as process:
        try:
            assert process.stdout is not None
            line = process.stdout.readline()
            found = re.fullmatch(
                r"pyframe's demos are at http://127\.0\.0\.1:(\d+)/ \(Ctrl\+C stops it\)\n", line
            )
            assert found, line
            connection = http.client.HTTPConnection("127.0.0.1", int(found[1]))
            connection.request("GET", "/", headers={"Host": "demo.example"})
            assert b"<h1>" in connection.getresponse().read()
            connection.close()
        finally:
            process.terminate()
