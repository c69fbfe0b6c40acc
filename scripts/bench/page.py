#!/usr/bin/env python3
"""What a page with pyframe costs its visitor: bytes, time until it is ready, and to the first step.

    .venv/bin/python scripts/bench/page.py --out page.md
    .venv/bin/python scripts/bench/page.py --device cpu --steps 200

Each case is visited by a browser that knows nothing of it (cold), and again once that has kept what
it keeps (warm): a page with <py-frame src="digits.py">, which runs Python, on both devices, and the
same program exported, which needs none. Times are seconds since the page was asked for, the median
of the visits; they are worth what the machine's load, which stands below the table, allows. With
--steps the program is trained on, and the last column is how fast.
"""

from __future__ import annotations

import argparse
import contextlib
import gzip
import http.server
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import threading
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import urlsplit

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT))  # this checkout's pyframe
from pyframe import serve  # noqa: E402

CHROMIUM = ("chromium", "chromium-browser", "google-chrome", "chrome")
FLAGS = ("--no-sandbox", "--enable-unsafe-webgpu", "--no-first-run", "--disable-component-update")
PAGE = (
    '<!doctype html><title>pyframe</title><link rel="icon" href="data:,">'
    '<script type="module" src="pyframe.js"></script>'
    '<py-frame src="examples/digits.py" data="digits" device="{device}"></py-frame>'
)
MEASURE = """async ([first, more]) => {
    const element = document.querySelector("py-frame");
    await customElements.whenDefined("py-frame");
    await element.ready;
    const times = { ready: performance.now() / 1000 };
    if (first) await element.train({ steps: 1 });
    times.first = performance.now() / 1000;
    if (more) await element.train({ steps: more });
    times.rate = more / (performance.now() / 1000 - times.first);
    return times;
}"""
KEPT = """async (wanted) => {
    for (;;) { // a snapshot is compressed beside the training
        const cache = await caches.open("pyframe-1");
        const found = (await cache.keys()).find(({ url }) => url.includes("pyframe-snapshot"));
        if (found) return (await (await cache.match(found)).blob()).size;
        if (!wanted) return 0;
        await new Promise((resolve) => setTimeout(resolve, 100));
    }
}"""
MEASURED = "/measured"
WAIT = 600_000  # ms; only a page that does not work takes so long


class Visit(NamedTuple):
    """What was seen of one visit."""

    ready: float
    first: float
    rate: float  # steps a second, after the first
    sent: dict[str, bytearray]  # what the server has sent, by path
    kept: int  # bytes of the snapshot afterwards


def kind(path: str) -> str:
    """Whose file it is: Python's and NumPy's, the data, or pyframe's own."""
    if "pyodide" in path or "numpy" in path:
        return "Python"
    if path.startswith(("/data/", "/examples/")) or path.endswith(".safetensors"):
        return "program and data"
    return "pyframe"


def listening(handler: Any, sent: dict[str, bytearray], body: str) -> Any:
    """A server's handler that also notes the bytes that it sends, and has the page to measure.

    That is not left to playwright, whose routes have browsers forget their caches.
    """

    class Listening(handler):  # type: ignore[misc]
        def setup(self) -> None:
            super().setup()
            plain = self.wfile.write

            def write(data: Any) -> Any:
                path = urlsplit(getattr(self, "path", "")).path
                sent.setdefault(path, bytearray()).extend(data)
                return plain(data)

            self.wfile.write = write

        def do_GET(self) -> None:  # noqa: N802
            if self.path != MEASURED:
                super().do_GET()
                return
            self.send_response(200)
            self.send_header("Content-Type", "text/html")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body.encode())

        def log_message(self, *args: Any) -> None:
            """Nobody reads it."""

    return Listening


@contextlib.contextmanager
def running(server: Any, sent: dict[str, bytearray], body: str = "") -> Iterator[str]:
    """A server that answers; gives the URL of the page to measure: `body`, or the first."""
    server.RequestHandlerClass = listening(server.RequestHandlerClass, sent, body)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_address[1]}{MEASURED if body else '/'}"
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def visit(context: Any, url: str, sent: dict[str, bytearray], train: tuple[bool, int]) -> Visit:
    """Open a page, wait for it, and train: whether the first step, and how many more."""
    page = context.new_page()
    page.set_default_timeout(WAIT)
    sent.clear()
    page.goto(url)
    times = page.evaluate(MEASURE, train)
    seen = dict(sent)
    kept = page.evaluate(KEPT, url.endswith(MEASURED))
    page.close()
    return Visit(times["ready"], times["first"], times["rate"], seen, kept)


def measured(
    browser: Any, url: str, sent: dict[str, bytearray], repeats: int, train: tuple[bool, int]
) -> dict[str, list[Visit]]:
    """Cold and warm visits."""
    found: dict[str, list[Visit]] = {"cold": [], "warm": []}
    for _ in range(repeats):
        context = browser.new_context()
        for how in found:
            found[how].append(visit(context, url, sent, train))
        context.close()
    return found


def rows(name: str, visits: dict[str, list[Visit]]) -> list[str]:
    """The lines of the table for one case."""
    lines = []
    for how, each in visits.items():
        sizes, packed = Counter[str](), Counter[str]()
        for path, data in each[-1].sent.items():
            sizes[kind(path)] += len(data)
            packed[kind(path)] += len(gzip.compress(data, 6))
        total = sum(sizes.values())
        share = f"{100 * sizes['pyframe'] / total:.0f} %" if total else "-"
        cells = [
            name, how, f"{total / 1e6:.2f}", f"{sum(packed.values()) / 1e6:.2f}",
            f"{sizes['pyframe'] / 1e6:.2f} ({packed['pyframe'] / 1e6:.2f})", share,
            f"{statistics.median(v.ready for v in each):.1f}",
            f"{statistics.median(v.first for v in each):.1f}",
            f"{each[-1].kept / 1e6:.1f}", f"{statistics.median(v.rate for v in each):.1f}",
        ]  # fmt: skip
        lines.append(f"| {' | '.join(cells)} |")
    return lines


def report(
    browser: Any,
    repeats: int,
    devices: Sequence[str],
    export: bool,
    first: bool = True,
    more: int = 0,
) -> str:
    """The table, as Markdown: of pages that train their first step, or not, and so many more."""
    head = ["page", "visit", "MB sent", "as gzip", "pyframe's MB (gzip)", "share", "ready s",
            "first step s", "snapshot MB", "steps/s"]  # fmt: skip
    train = first, more
    lines = [f"| {' | '.join(head)} |", f"|{' --- |' * len(head)}"]
    sent: dict[str, bytearray] = {}
    for device in devices:
        with running(serve.Server("127.0.0.1", 0), sent, PAGE.format(device=device)) as url:
            visits = measured(browser, url, sent, repeats, train)
            lines += rows(f"`<py-frame src>`, {device}", visits)
    if export:
        with tempfile.TemporaryDirectory() as folder:
            command = [
                sys.executable,
                "-m",
                "pyframe",
                "export",
                "examples/digits.py",
                "--to",
                folder,
            ]
            subprocess.run(command, cwd=ROOT, check=True, stdout=subprocess.DEVNULL)
            Static.folder = folder
            with running(http.server.ThreadingHTTPServer(("127.0.0.1", 0), Static), sent) as url:
                visits = measured(browser, url, sent, repeats, train)
                lines += rows("exported, no Python", visits)
    load = ", ".join(f"{x:.1f}" for x in os.getloadavg())
    lines += ["", f"{os.cpu_count()} CPUs; load average {load}; {repeats} visits each."]
    return "\n".join(lines) + "\n"


class Static(http.server.SimpleHTTPRequestHandler):
    """The files of an exported page."""

    protocol_version = "HTTP/1.1"
    folder = "."

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, directory=self.folder, **kwargs)


def main(argv: Sequence[str] | None = None) -> None:
    """Measure, and print or write the table."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--repeats", type=int, default=3, help="visits of each kind (3)")
    parser.add_argument("--device", choices=["cpu", "gpu"], help="only this one")
    parser.add_argument(
        "--quick", action="store_true", help="one visit, without Python or training"
    )
    parser.add_argument("--steps", type=int, default=0, help="steps to train after the first (0)")
    parser.add_argument("--out", type=Path, metavar="FILE.md")
    args = parser.parse_args(argv)
    try:
        from playwright.sync_api import sync_playwright
    except ImportError:
        sys.exit("page.py drives a browser by playwright: pip install playwright")
    path = next(filter(None, map(shutil.which, CHROMIUM)), None)
    if path is None:
        sys.exit(f"page.py: none of {', '.join(CHROMIUM)} is installed")
    devices = [] if args.quick else [args.device] if args.device else ["cpu", "gpu"]
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=path, args=list(FLAGS))
        repeats = 1 if args.quick else args.repeats
        text = report(browser, repeats, devices, not args.device, not args.quick, args.steps)
        browser.close()
    if args.out:
        args.out.write_text(text, "utf-8")
    print(text, end="")


if __name__ == "__main__":
    main()
