"""Serves the browser demo: the pages, Python for the browser, pyframe itself, and the digits."""

from __future__ import annotations

import http.server
import io
import json
import os
import sys
import webbrowser
import zipfile
from pathlib import Path
from typing import Any, BinaryIO

PYODIDE_VERSION = "0.27.7"
PYODIDE_CDN = f"https://cdn.jsdelivr.net/pyodide/v{PYODIDE_VERSION}/full/"
DATA = "data/mnist10k"

PACKAGE = Path(__file__).parent
# A wheel carries web/, shaders/ and examples/ inside the package; a checkout has them beside it.
ROOT = PACKAGE if (PACKAGE / "web").is_dir() else PACKAGE.parent


def find(*candidates: str) -> Path | None:
    """The first of these paths that exists below the checkout or the current folder."""
    paths = (base / name for name in candidates for base in (ROOT, Path.cwd()))
    return next((path for path in paths if path.exists()), None)


def pyodide_folder() -> Path | None:
    """The local Pyodide that scripts/get_pyodide makes; None when it is not there."""
    path = find("build/pyodide/pyodide.mjs")
    return path.parent if path else None


def data_folder() -> Path | None:
    """The folder of the digits in MNIST's files; None when it is not there."""
    return find(f"examples/{DATA}", DATA)


def config(weights: Path | None = None) -> dict[str, Any]:
    """What the page asks for first: where its parts are, and what is missing, with the fix."""
    data, missing = data_folder(), []
    if data is None:
        missing.append(
            "The digits are not here. They come with pyframe's repository, not with its wheel: "
            f"start the server in a checkout, or put MNIST's four .gz files in ./{DATA}."
        )
    return {
        "pyodide": "pyodide/" if pyodide_folder() else PYODIDE_CDN,
        "package": "pyframe.zip",
        "source": "digits.py",
        "data": sorted(f"{DATA}/{path.name}" for path in data.glob("*.gz")) if data else None,
        "weights": "digits.safetensors" if weights and weights.is_file() else None,
        "missing": missing,
    }


def package_zip() -> bytes:
    """The installed pyframe as a zip archive that unpacks into a site-packages folder."""
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED) as archive:
        for path in sorted(PACKAGE.rglob("*.py")):
            name = path.relative_to(PACKAGE)
            if name.parts[0] not in ("web", "examples"):
                archive.write(path, Path("pyframe", name))
        for path in sorted((ROOT / "shaders").rglob("*.wgsl")):
            archive.write(path, Path("pyframe", path.relative_to(ROOT)))
    return out.getvalue()


# What the standard library's table lacks, or takes from the system; browsers insist on these.
TYPES = {
    ".css": "text/css; charset=utf-8",
    ".html": "text/html; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".json": "application/json",
    ".mjs": "text/javascript; charset=utf-8",
    ".py": "text/plain; charset=utf-8",
    ".wasm": "application/wasm",
    ".zip": "application/zip",
}


class Handler(http.server.SimpleHTTPRequestHandler):
    """Files of web/, and the few that are made up or lie elsewhere."""

    protocol_version = "HTTP/1.1"
    server: Server

    def __init__(self, *args: Any) -> None:
        super().__init__(*args, directory=str(ROOT / "web"))

    def _route(self) -> str:
        return Path(super().translate_path(self.path)).relative_to(ROOT / "web").as_posix()

    def translate_path(self, path: str) -> str:
        """The file behind a URL's path; `super` has taken out every '..' already."""
        route = self._route()
        elsewhere = {
            "digits.py": ROOT / "examples" / "digits.py",
            "digits.safetensors": self.server.weights,
        }
        if route in elsewhere:
            return str(elsewhere[route])
        for prefix, folder in (("pyodide/", pyodide_folder()), (f"{DATA}/", data_folder())):
            if route.startswith(prefix) and folder:
                return str(folder / route.removeprefix(prefix))
        return super().translate_path(path)

    def send_head(self) -> io.BytesIO | BinaryIO | None:
        """The headers, then the body to send."""
        if self._route() == "config.json":
            return self._made(json.dumps(config(self.server.weights)).encode(), ".json")
        if self._route() == "pyframe.zip":
            return self._made(package_zip(), ".zip")
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

    def list_directory(self, path: Any) -> None:
        """Folders have no listing."""
        self.send_error(404, "File not found")

    def end_headers(self) -> None:
        """Files may change while the server runs: the browser is to ask each time."""
        self.send_header("Cache-Control", "no-cache")
        super().end_headers()

    def log_request(self, code: Any = "-", size: Any = "-") -> None:
        """Only errors are worth a line."""


class Server(http.server.ThreadingHTTPServer):
    """The demo's server; `weights` may come to exist while it runs."""

    allow_reuse_address = os.name != "nt"  # there it would let two servers share a port
    daemon_threads = True

    def __init__(self, host: str, port: int, weights: Path) -> None:
        self.weights = weights
        super().__init__((host, port), Handler)

    @property
    def url(self) -> str:
        """The address to open; it names this computer when every interface is served."""
        host, port = str(self.server_address[0]), self.server_address[1]
        return f"http://{'127.0.0.1' if host == '0.0.0.0' else host}:{port}/"

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A browser that leaves in the middle is no error."""
        if not isinstance(sys.exception(), ConnectionError):
            super().handle_error(request, client_address)


def serve(host: str, port: int, weights: Path, *, open_browser: bool = False) -> int:
    """Serve until Ctrl+C; gives the exit status: 1 when the address can't be had."""
    try:
        server = Server(host, port, weights)
    except OSError as error:
        reason = error.strerror or error
        print(
            f"pyframe serve: can't listen on {host} port {port}: {reason}. "
            f"Try another port, as in --port {port + 1 if port else 8000}; "
            "--port 0 takes any free one.",
            file=sys.stderr,
        )
        return 1
    parts = config(weights)
    print(f"pyframe's demo is at {server.url} (Ctrl+C stops it)")
    if parts["pyodide"] == PYODIDE_CDN:
        print(f"  Python comes from {PYODIDE_CDN}; scripts/get_pyodide makes a local copy")
    if parts["weights"]:
        print(f"  the page can start from the weights in {weights}")
    for text in parts["missing"]:
        print(f"  {text}")
    sys.stdout.flush()
    if open_browser:
        webbrowser.open(server.url)
    with server:
        try:
            server.serve_forever()
        except KeyboardInterrupt:
            print()
    return 0
