"""Serves pages: the gallery or one program, Python for the browser, pyframe itself, and data."""

from __future__ import annotations

import base64
import contextlib
import gzip
import hashlib
import http.server
import io
import ipaddress
import json
import os
import re
import socket
import sys
import tarfile
import threading
import time
import webbrowser
import zipfile
from collections.abc import Iterable, Mapping
from importlib.metadata import PackageNotFoundError, distribution
from pathlib import Path
from typing import Any, BinaryIO
from urllib.parse import quote, unquote

import pyframe
from pyframe.core.extras import DISTRIBUTION, install
from pyframe.web.late import is_late
from pyframe.web.source import PageProgram

PYODIDE_VERSION = "0.27.7"
PYODIDE_CDN = f"https://cdn.jsdelivr.net/pyodide/v{PYODIDE_VERSION}/full/"
DATA = "data/mnist10k"
DATASETS = {  # what a page may ask for by name, and what to do where it is missing
    "digits": DATA,
    "names": "data/names.txt",
    "tinyshakespeare": "data/tinyshakespeare.txt.gz",
}
EARLY, LATE = "pyframe.tar.gz", "pyframe-late.tar.gz"  # of the package: see `archive`
# For a Pyodide that is not the page's: it stands beside NumPy in Pyodide's folder, and in its lock.
_NAMED = f"{DISTRIBUTION.replace('-', '_')}-{pyframe.__version__}"
WHEEL, LOCK = f"pyodide/{_NAMED}-py3-none-any.whl", "pyodide/pyodide-lock.json"
ARCHIVES = (EARLY, LATE, WHEEL)
# What sites have as files of their own, or, as texts for help(), not at all.
OF_SITES = ("pyframe/web/static/", "pyframe/examples/", "pyframe/ops/api/texts.py")

CONNECTIONS = 64  # that are open at the same time; more wait in the system's queue
HEAD = 10  # seconds for the head of a request; an idle connection has as long
CROWDED = 1  # seconds for it while as many are open as can be
STALL = 30  # seconds in which nothing is taken of an answer
ANSWER = 300  # seconds for all of it

# What a page may load and run: what is served here, and Pyodide.
POLICY = "; ".join([
    "default-src 'self'",
    f"script-src 'self' 'wasm-unsafe-eval' {PYODIDE_CDN}",
    f"connect-src 'self' {PYODIDE_CDN}",
    "img-src 'self' data:",
    "object-src 'none'",
    "base-uri 'none'",
    "form-action 'none'",
])  # fmt: skip
TOKENIZERS = "tokenizers.js"
# Who may show a notebook's programs: notebooks on this computer, those of VS Code among them.
NOTEBOOKS = (
    "'self' http://localhost:* http://127.0.0.1:* https://localhost:* https://127.0.0.1:* "
    "vscode-webview: vscode-file:"
)

PACKAGE = Path(__file__).parent
# A wheel carries shaders/, examples/ and the page's files inside the package; a checkout has them
# beside it.
ROOT = PACKAGE if (PACKAGE / "shaders").is_dir() else PACKAGE.parent
WEB = PACKAGE / "web" / "static" if ROOT == PACKAGE else ROOT / "web"


def find(*candidates: str) -> Path | None:
    """The first of these paths that exists below the checkout or the current folder."""
    paths = (base / name for name in candidates for base in (ROOT, Path.cwd()))
    return next((path for path in paths if path.exists()), None)


def pyodide_folder() -> Path | None:
    """The local Pyodide that scripts/get_pyodide makes; None when it is not there."""
    path = find("build/pyodide/pyodide.mjs")
    return path.parent if path else None


def editor_folder() -> Path | None:
    """Where scripts/get_editor puts the editor of programs; None when it is not there."""
    path = find("build/editor/codemirror.js")
    return path.parent if path else None


def tokenizers() -> Path | None:
    """What makes tokens of texts in a page; None without the extra `text`."""
    path = PACKAGE / "text" / TOKENIZERS
    return path if path.is_file() else None


def photo_folder() -> Path | None:
    """The classifier of photos that scripts/get_photo exports; None when it is not there."""
    path = find("build/photo/site/program.json")
    return path.parent if path else None


def examples() -> dict[str, Path]:
    """The programs that come with pyframe, by name: a checkout has them beside the package, a wheel
    in it. Each finds its data and weights in `data` beside itself, also when it is run from there.
    """
    return {path.stem: path for path in sorted((ROOT / "examples").glob("*.py"))}


def datasets() -> dict[str, dict[str, Path]]:
    """The files of each data set that is here, by their names beside a program and in a page. They
    come with the examples, or lie in ./data where a distribution leaves those out."""
    found = {}
    for name, file in DATASETS.items():
        path = find(f"examples/{file}", file)
        if path and path.is_dir():
            found[name] = {f"{file}/{p.name}": p for p in sorted(path.glob("*.gz"))}
        elif path:
            found[name] = {file: path}
    return found


def config(program: PageProgram | None = None) -> dict[str, Any]:
    """What a page asks for first: where its parts are."""
    return {
        "pyodide": "pyodide/" if pyodide_folder() else PYODIDE_CDN,
        "early": EARLY,
        "late": LATE,
        "datasets": {name: list(files) for name, files in datasets().items()},
        "editor": "editor/codemirror.js" if editor_folder() else None,
        "tokenizers": TOKENIZERS if tokenizers() else None,
        "program": program and describe(program),
    }


def describe(program: PageProgram) -> dict[str, Any]:
    """A program as a page finds it: the URLs of its parts, below "program/"."""
    name = program.path.name
    return {
        "name": name,
        "src": f"program/{quote(name)}",
        "files": [f"program/{quote(file)}" for file in program.files()],
        "data": program.datasets,
        "weights": f"program/{quote(program.weights.name)}" if program.weights else None,
    }


def file_in(folder: Path, names: Iterable[str]) -> Path | None:
    """The file at `names` below `folder`; None too for one that a link has outside of it.

    Only names that their folder lists are asked for: systems have more, such as devices and '..'.
    """
    path = folder
    for name in names:
        try:
            if name not in os.listdir(path):
                return None
        except OSError:  # no folder
            return None
        path /= name
    inside = Path(os.path.realpath(path)).is_relative_to(os.path.realpath(folder))
    return path if inside and path.is_file() else None


def sources() -> dict[str, Path]:
    """The files of the package as a wheel has it, by their names in a site-packages folder; but for
    stubs."""
    within = PACKAGE / "web" / "static", PACKAGE / "examples"  # a wheel has the rest there
    found = {
        f"pyframe/{path.relative_to(PACKAGE).as_posix()}": path
        for path in (*PACKAGE.rglob("*.py"), *PACKAGE.glob("torch/*.txt"))
        if not any(path.is_relative_to(folder) for folder in within)
    }
    for name, folder in {"shaders": ROOT / "shaders", "web/static": WEB}.items():
        for path in folder.rglob("*.*"):
            if path.suffix != ".webp":  # pictures of the gallery
                found[f"pyframe/{name}/{path.relative_to(folder).as_posix()}"] = path
    found |= {f"pyframe/examples/{path.name}": path for path in examples().values()}
    return dict(sorted(found.items()))


def archive(name: str, files: Mapping[str, bytes]) -> bytes:
    """One of ARCHIVES, with a package's files. EARLY has what every page loads and LATE the rest
    (`web.late`), each compressed as one piece, without what a site has as files of its own. WHEEL
    has all."""
    out = io.BytesIO()
    if name == WHEEL:
        with zipfile.ZipFile(out, "w") as zipped:
            for file, data in {**files, **_about(files)}.items():
                zipped.writestr(zipfile.ZipInfo(file), data, zipfile.ZIP_DEFLATED, 9)
        return out.getvalue()
    with tarfile.open(fileobj=out, mode="w", format=tarfile.USTAR_FORMAT) as tar:
        for file, data in sorted(files.items()):
            module = file.removesuffix(".py").removesuffix("/__init__").replace("/", ".")
            if not file.startswith(OF_SITES) and is_late(module) == (name == LATE):
                head = tarfile.TarInfo(file)
                head.size = len(data)
                tar.addfile(head, io.BytesIO(data))
    return gzip.compress(out.getvalue(), 9, mtime=0)


def _about(files: Mapping[str, bytes]) -> dict[str, bytes]:
    """What a wheel says of itself (packaging.python.org, "Binary distribution format")."""
    kind = "Wheel-Version: 1.0\nGenerator: pyframe\nRoot-Is-Purelib: true\nTag: py3-none-any\n"
    named = f"Metadata-Version: 2.1\nName: {DISTRIBUTION}\nVersion: {pyframe.__version__}\n"
    about = {"WHEEL": kind, "METADATA": named}  # if it was not installed, but put on Python's path
    with contextlib.suppress(PackageNotFoundError):
        installed = distribution(DISTRIBUTION)
        if installed.version == pyframe.__version__:  # else a checkout went on since
            texts = {n: installed.read_text(n) for n in ("METADATA", "licenses/LICENSE")}
            about |= {name: text for name, text in texts.items() if text}
    made = {f"{_NAMED}.dist-info/{name}": text.encode() for name, text in about.items()}
    rows = []
    for name, data in {**files, **made}.items():
        digest = base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b"=").decode()
        rows.append(f"{name},sha256={digest},{len(data)}\n")
    record = f"{_NAMED}.dist-info/RECORD"
    return made | {record: "".join([*rows, f"{record},,\n"]).encode()}


def lock(folder: Path, wheel: bytes, url: str = "") -> bytes:
    """The pyodide-lock.json of a folder with Pyodide, in which pyframe stands too, by the name that
    programs import and by its distribution's. With `url`, where pyframe's wheel and `installers`
    will lie, it is for Pyodide's CDN, where all other packages are."""
    found = json.loads((folder / "pyodide-lock.json").read_bytes())
    own = {**installers(folder), Path(WHEEL).name: wheel}
    entry = {
        "name": DISTRIBUTION, "version": pyframe.__version__, "file_name": Path(WHEEL).name,
        "install_dir": "site", "package_type": "package", "imports": ["pyframe"],
        "depends": ["numpy"], "unvendored_tests": False,
    }  # fmt: skip
    found["packages"] |= {"pyframe": entry, DISTRIBUTION: {**entry}}
    for each in found["packages"].values():
        name = each["file_name"]
        if name in own:
            each["sha256"] = hashlib.sha256(own[name]).hexdigest()
        if url:
            each["file_name"] = f"{url if name in own else PYODIDE_CDN}{name}"
    return json.dumps(found, sort_keys=True).encode()


def installers(folder: Path) -> dict[str, bytes]:
    """The wheels in a folder with Pyodide that scripts/get_pyodide has from PyPI: micropip and what
    it needs. Pyodide's CDN has others of these names."""
    wheels = (path for path in folder.glob("*.whl") if not path.name.startswith("numpy-"))
    return {path.name: path.read_bytes() for path in wheels}


class Package:
    """The installed pyframe as archives that unpack into a site-packages folder.

    They are made anew when a source has changed, by one thread for all that ask meanwhile.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._looked = float("-inf")  # when the sources were last looked at
        self._sources: dict[str, tuple[Path, int, int]] = {}
        self._files: dict[str, bytes] = {}
        self._made: dict[str, bytes] = {}

    def archive(self, name: str) -> bytes:
        """One of ARCHIVES, of the sources as they are at the call, or later."""
        asked = time.monotonic()
        with self._lock:
            if self._looked <= asked:
                self._looked = time.monotonic()
                sources = self._look()
                if sources != self._sources:
                    self._files, self._sources, self._made = self._read(sources), sources, {}
            if name not in self._made:
                self._made[name] = archive(name, self._files)
            return self._made[name]

    def _look(self) -> dict[str, tuple[Path, int, int]]:
        """Each file's name in the archive, its path, and what changes when it does."""
        found = {}
        for name, path in sources().items():
            with contextlib.suppress(FileNotFoundError):  # an editor may just replace it
                status = path.stat()
                found[name] = path, status.st_mtime_ns, status.st_size
        return found

    def _read(self, sources: dict[str, tuple[Path, int, int]]) -> dict[str, bytes]:
        files = {}
        for name, (path, _, _) in sources.items():
            with contextlib.suppress(FileNotFoundError):
                files[name] = path.read_bytes()
        return files


# What the standard library's table lacks, or takes from the system; browsers insist on these.
TYPES = {
    ".css": "text/css; charset=utf-8",
    ".gz": "application/gzip",
    ".html": "text/html; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".json": "application/json",
    ".mjs": "text/javascript; charset=utf-8",
    ".py": "text/plain; charset=utf-8",
    ".wasm": "application/wasm",
    ".whl": "application/zip",
}


class Handler(http.server.SimpleHTTPRequestHandler):
    """Files of web/, and the few that are made up or lie elsewhere."""

    protocol_version = "HTTP/1.1"
    timeout = STALL
    server: Server

    def handle_one_request(self) -> None:
        """Answer a request; each has its time for the head, and for the rest."""
        self.server.allow(self.connection, HEAD)
        super().handle_one_request()

    def parse_request(self) -> bool:
        """Read the head; whether the request is one for this server, or has had its answer."""
        if not super().parse_request():
            return False
        self.server.allow(self.connection, ANSWER)
        if self.headers.get("Content-Length", "0") != "0" or "Transfer-Encoding" in self.headers:
            self.close_connection = True  # else the body would pass for the next request
        hosts = self.headers.get_all("Host", [])
        scheme, _, rest = self.path.partition("://")
        if scheme.lower() == "http":  # a proxy's form: it names the host too
            host, _, path = rest.partition("/")
            hosts, self.path = [host], f"/{path.lstrip('/')}"
        if not self.path.startswith("/"):
            self.send_error(400, explain="Expected a path, as in GET / HTTP/1.1.")
        elif len(hosts) != 1:
            self.send_error(400, explain=f"Expected one Host header, got {len(hosts)}.")
        elif not self.server.answers_to(hosts[0]):
            self.send_error(403, explain=self.server.refusal(hosts[0]))
        else:
            return True
        return False

    def _route(self) -> str:
        return unquote(re.split("[?#]", self.path, maxsplit=1)[0], errors="replace")[1:]

    def translate_path(self, _: str) -> str:
        """The file behind the URL's path, or "" where there is none to serve."""
        route, program = self._route(), self.server.program
        if not route:
            route = "program.html" if program else "index.html"
        if program and route.startswith("program/"):
            return str(program.all_files().get(route.removeprefix("program/"), ""))
        if route.startswith("data/"):
            path = {k: v for files in datasets().values() for k, v in files.items()}.get(route)
            return str(file_in(path.parent, [path.name]) or "") if path else ""
        if route == TOKENIZERS:
            return str(tokenizers() or "")
        folders = {
            "pyodide/": pyodide_folder(), "editor/": editor_folder(),
            "examples/": ROOT / "examples", "photo/": photo_folder(), "": WEB,
        }  # fmt: skip
        for prefix, folder in folders.items():
            if folder and route.startswith(prefix):
                return str(file_in(folder, route.removeprefix(prefix).split("/")) or "")
        return ""

    def send_head(self) -> io.BytesIO | BinaryIO | None:
        """The headers, then the body to send."""
        route = self._route()
        if route == "config.json":
            return self._made(json.dumps(config(self.server.program)).encode(), ".json")
        if route in ARCHIVES:
            return self._made(self.server.package.archive(route), Path(route).suffix)
        if route == LOCK and (folder := pyodide_folder()):
            return self._made(lock(folder, self.server.package.archive(WHEEL)), ".json")
        return super().send_head()

    def _made(self, body: bytes, kind: str) -> io.BytesIO:
        self.send_response(200)
        self.send_header("Content-Type", TYPES[kind])
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        return io.BytesIO(body)

    def guess_type(self, path: Any) -> str:
        """The Content-Type of a file."""
        return TYPES.get(Path(path).suffix) or super().guess_type(path)

    def end_headers(self) -> None:
        """Files may change while the server runs: the browser is to ask each time."""
        self.send_header("Cache-Control", "no-cache")
        framed = f"frame-ancestors {self.server.framed_by}"
        self.send_header("Content-Security-Policy", f"{POLICY}; {framed}")
        self.send_header("X-Content-Type-Options", "nosniff")
        super().end_headers()

    def send_response_only(self, code: int, message: str | None = None) -> None:
        """Begin an answer; one in HTTP/0.9 would have no headers."""
        if self.request_version == "HTTP/0.9":
            self.request_version = "HTTP/1.0"
        super().send_response_only(code, message)

    def send_error(self, code: int, message: str | None = None, explain: str | None = None) -> None:
        """Say what is wrong; of a request's own words only as much as fits a line."""
        super().send_error(code, message and message[:200], explain)

    def log_request(self, code: Any = "-", size: Any = "-") -> None:
        """Only errors are worth a line."""


def host_name(host: str) -> str:
    """The name in a Host header, without its port; '?' for what can't be one."""
    found = re.fullmatch(r"(?:\[([^][]+)\]|([^][:]+))(?::\d*)?", host.strip().lower())
    return found[1] or found[2] if found else "?"


def is_address(name: str) -> bool:
    """Whether `name` is an IP address: nobody can lead that elsewhere."""
    try:
        ipaddress.ip_address(name)
    except ValueError:
        return False
    return True


class Server(http.server.ThreadingHTTPServer):
    """The server of the gallery, or of a program's page.

    It answers to the names that lead to it and to those of `allow`, and to no other: a page from
    elsewhere may have the browser take its own name for this computer's (DNS rebinding). Nor do
    pages from elsewhere show it in a frame, below what a visitor would think to click on.
    """

    allow_reuse_address = os.name != "nt"  # there it would let two servers share a port
    daemon_threads = True
    request_queue_size = 1024

    def __init__(
        self, host: str, port: int, program: PageProgram | None = None, allow: Iterable[str] = (),
        framed_by: str = "'self'",
    ) -> None:  # fmt: skip
        self.program = program
        self.framed_by = framed_by  # the pages that may show these in a frame
        self.package = Package()
        self._open: dict[socket.socket, tuple[float, float]] = {}  # since when, and how long it may
        self._closed = threading.Condition()
        self.address_family = socket.AF_INET6 if ":" in host else socket.AF_INET
        super().__init__((host, port), Handler)
        bound = str(self.server_address[0])
        self._everywhere = bound in ("0.0.0.0", "::")
        self.names = {"localhost", "127.0.0.1", "::1", bound, host.lower()}
        if self._everywhere:
            own = socket.gethostname().lower()
            self.names |= {own, f"{own}.local", self.server_name.lower()}
        self.names |= {host_name(name) for name in allow}
        self.names -= {"", "?"}

    def server_bind(self) -> None:
        """Take the address; '::' stands for IPv4's addresses too."""
        if self.address_family == socket.AF_INET6:
            with contextlib.suppress(OSError, AttributeError):
                self.socket.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 0)
        super().server_bind()

    @property
    def url(self) -> str:
        """The address to open; it names this computer when every interface is served."""
        host, port = str(self.server_address[0]), self.server_address[1]
        host = {"0.0.0.0": "127.0.0.1", "::": "::1"}.get(host, host)
        return f"http://{f'[{host}]' if ':' in host else host}:{port}/"

    def answers_to(self, host: str) -> bool:
        """Whether a Host header, which may have a port, names this server."""
        name = host_name(host)
        return name in self.names or (self._everywhere and is_address(name))

    def refusal(self, host: str) -> str:
        """What to say to the others."""
        shown = host if len(host) <= 80 else f"{host[:77]}..."
        return (
            f"This server answers to {', '.join(sorted(self.names))}, not to {shown!r}. If that is "
            "a name of this computer, start it with --allow and that name."
        )

    # --- connections

    def get_request(self) -> tuple[socket.socket, Any]:
        """The next connection, once there is room for it."""
        with self._closed:
            if not self._closed.wait_for(lambda: len(self._open) < CONNECTIONS, 0.1):
                raise BlockingIOError  # serve_forever tries again
        return super().get_request()

    def process_request(self, request: Any, client_address: Any) -> None:
        """Answer a connection's requests in a thread."""
        with self._closed:
            self._open[request] = time.monotonic(), HEAD
        super().process_request(request, client_address)

    def shutdown_request(self, request: Any) -> None:
        """Close a connection."""
        with self._closed:
            self._open.pop(request, None)
            self._closed.notify()
        super().shutdown_request(request)

    def allow(self, connection: socket.socket, seconds: float) -> None:
        """Give a connection so much time from now on."""
        with self._closed:
            self._open[connection] = time.monotonic(), seconds

    def service_actions(self) -> None:
        """End the connections whose time is up; serve_forever does this again and again."""
        now = time.monotonic()
        with self._closed:
            short = CROWDED if len(self._open) >= CONNECTIONS else HEAD
            for connection, (since, seconds) in self._open.items():
                if now - since > (short if seconds == HEAD else seconds):
                    with contextlib.suppress(OSError):  # its thread sees that it has ended
                        connection.shutdown(socket.SHUT_RDWR)

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A browser that leaves in the middle is no error."""
        if not isinstance(sys.exception(), ConnectionError):
            super().handle_error(request, client_address)


def serve(
    host: str, port: int, program: PageProgram | None = None, *, allow: Iterable[str] = (),
    open_browser: bool = False,
) -> int:  # fmt: skip
    """Serve until Ctrl+C; gives the exit status: 1 when the address can't be had."""
    try:
        server = Server(host, port, program, allow)
    except OSError as error:
        reason = error.strerror or error
        print(
            f"pyframe serve: can't listen on {host} port {port}: {reason}. "
            f"Try another port, as in --port {port + 1 if port else 8000}; "
            "--port 0 takes any free one.",
            file=sys.stderr,
        )
        return 1
    what = f"{program.path.name} is" if program else "pyframe's demos are"
    print(f"{what} at {server.url} (Ctrl+C stops it)")
    if pyodide_folder() is None:
        print(f"  Python comes from {PYODIDE_CDN}; scripts/get_pyodide makes a local copy")
    for name, file in DATASETS.items():
        if name not in datasets() and (program is None or name in program.datasets):
            what = " (MNIST's four .gz files)" if name == "digits" else ""
            print(f"  The {name} are not here: this pyframe came without its examples' data.")
            print(f"  {install('examples')} brings them, or put them in ./{file}{what}.")
    sys.stdout.flush()
    if open_browser:
        webbrowser.open(server.url)
    with server:
        try:
            server.serve_forever()
        except KeyboardInterrupt:
            print()
    return 0
