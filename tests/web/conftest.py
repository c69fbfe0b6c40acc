"""A server, a browser, and a page with Python in it, each made once for all tests here; and what
several files need: servers of folders, and pages that leave no error."""

from __future__ import annotations

import collections
import contextlib
import functools
import http.server
import json
import os
import re
import shutil
import threading
import weakref
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from pyframe import serve

CHROMIUM = ("chromium", "chromium-browser", "google-chrome", "chrome")
FIREFOX = ("firefox-esr", "firefox")
PREFERENCES = json.loads(os.environ.get("PYFRAME_PREFERENCES", "{}"))  # of Firefox
FLAGS = (
    "--no-sandbox --enable-unsafe-webgpu --disable-quic --no-first-run "
    "--disable-background-networking --disable-component-update --disable-sync"
).split()
# With which of the engines the tests are run; scripts/test_elsewhere names others.
ENGINE = os.environ.get("PYFRAME_BROWSER", "chromium")
LONG = 240_000  # ms; a busy machine takes its time
LONGEST = 900_000  # for a whole computation
SIZE = {"width": 1200, "height": 1000}
# From `fill()` on the browser has no memory for the next buffer of values.
FULL = """
self.fill = () => {
  const { createBuffer, popErrorScope } = GPUDevice.prototype;
  GPUDevice.prototype.createBuffer = function (descriptor) {
    if (descriptor.usage & GPUBufferUsage.UNIFORM) return createBuffer.call(this, descriptor);
    GPUDevice.prototype.createBuffer = createBuffer;
    GPUDevice.prototype.popErrorScope = async function () {
      GPUDevice.prototype.popErrorScope = popErrorScope;
      await popErrorScope.call(this);
      return new GPUOutOfMemoryError("full");
    };
    return createBuffer.call(this, descriptor);
  };
};
"""
LACKS = {  # by what an error says
    "offers no WebGPU": f"{ENGINE} offers no WebGPU here",
    "WebDriver has no": "the test asks for more than WebDriver has",
    "only available in Chromium": "the test speaks Chromium's own protocol",
    "Worker.evaluate: Target page": "WebDriver BiDi does not reach a frame's worker",
}
CLEAR = """async () => {
    localStorage.clear();
    for (const { name } of await indexedDB.databases()) indexedDB.deleteDatabase(name);
}"""
BLANK = '<!doctype html><title>test</title><link rel="icon" href="data:,">'
# Playwright waits for ever for what a function gives.
BOUNDED = f"""async (given) => {{
    const made = (%s
    );
    let timer;
    const late = new Promise((_, reject) => {{
        timer = setTimeout(() => reject(new Error("it never answers")), {LONGEST});
    }});
    return Promise.race([made(given), late]).finally(() => clearTimeout(timer));
}}"""
OPEN: weakref.WeakSet[Tab] = weakref.WeakSet()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item, call: pytest.CallInfo[Any]) -> Any:
    """A failure shows what the open pages have said. What an engine, or the way to drive it, says
    that it lacks is no failure there."""
    report = yield
    if report.failed:
        report.sections += [(f"page {tab.url}", tab.told()) for tab in OPEN]
    if ENGINE != "chromium" and report.failed and call.excinfo is not None:
        lack = next((why for text, why in LACKS.items() if text in str(call.excinfo.value)), None)
        if lack is not None:
            report.outcome, path = "skipped", str(item.path)
            report.longrepr = (path, item.location[1] or 0, f"Skipped: {lack}")
    return report


@contextlib.contextmanager
def running(server: Any) -> Iterator[Any]:
    """The server, answering; it looks at its connections all the time."""
    with server:
        thread = threading.Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        try:
            yield server
        finally:
            server.shutdown()
            thread.join()


@contextlib.contextmanager
def files(
    folder: Path, headers: Callable[[str], dict[str, str]] = lambda path: {}
) -> Iterator[str]:
    """The address of a plain server of a folder, whose files have these headers by their path."""

    class Plain(http.server.SimpleHTTPRequestHandler):
        def end_headers(self) -> None:
            for name, value in headers(self.path).items():
                self.send_header(name, value)
            super().end_headers()

        def log_message(self, *_: Any) -> None:
            pass

    handler = functools.partial(Plain, directory=str(folder))
    with running(http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler)) as server:
        yield f"http://127.0.0.1:{server.server_port}/"


@pytest.fixture(scope="package")
def server() -> Iterator[serve.Server]:
    """The demos' server on a free port."""
    with running(serve.Server("127.0.0.1", 0)) as server:
        yield server


@pytest.fixture(scope="package")
def browser() -> Iterator[Any]:
    """The system's Chromium, or another engine that is named, without a window; WebGPU runs on its
    software adapter."""
    api = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
    if ENGINE == "webkit":
        from .webdriver import webkit

        with webkit() as browser:
            yield browser
        return
    names = FIREFOX if ENGINE == "firefox" else CHROMIUM
    path = next(filter(None, map(shutil.which, names)), None)
    if path is None:
        pytest.skip(f"no browser: none of {', '.join(names)} is installed")
    with api.sync_playwright() as playwright:
        if ENGINE == "firefox":  # by WebDriver BiDi, which every Firefox speaks
            browser = playwright.firefox.launch(
                executable_path=path, channel="moz-firefox", firefox_user_prefs=PREFERENCES
            )
        else:
            browser = playwright.chromium.launch(executable_path=path, args=FLAGS)
        yield browser
        browser.close()


@pytest.fixture(scope="package")
def pyodide_files() -> None:
    """Skips where the local Pyodide is missing: tests use no internet."""
    if serve.pyodide_folder() is None:
        pytest.skip("build/pyodide is missing: run scripts/get_pyodide")


class Tab:
    """A page, and what went wrong in it."""

    def __init__(self, browser: Any, server: Any, **context: Any) -> None:
        """In a context of its own with these options, or in one that stands for the browser."""
        self.url = server.url
        self.errors: list[str] = []
        self.said: collections.deque[str] = collections.deque(maxlen=30)
        self.own = hasattr(browser, "new_context")
        self.context = browser
        if self.own:
            self.context = browser.new_context(**{"viewport": SIZE, **context})
        self.page = self.context.new_page()
        self.page.set_default_timeout(LONG)
        for wait in ("evaluate", "wait_for_function"):
            setattr(self.page, wait, self._patient(getattr(self.page, wait)))
        self.page.on("console", self._console)
        self.page.on("console", lambda message: self.said.append(f"{message.type}: {message.text}"))
        self.page.on("pageerror", lambda error: self.errors.append(str(error)))
        OPEN.add(self)
        self.page.route(
            "**/blank", lambda route: route.fulfill(body=BLANK, content_type="text/html")
        )

    def _console(self, message: Any) -> None:
        if message.type == "error":
            self.errors.append(f"{message.text} ({message.location})")

    def _patient(self, wait: Callable[..., Any]) -> Callable[..., Any]:
        """A method of the page that always ends, and then tells what it waited for."""
        bounds = wait.__name__ == "evaluate" and ENGINE != "webkit"

        def run(code: str, *args: Any, **options: Any) -> Any:
            is_function = re.match(r"\s*(async\b|\w+ =>|\([^()]*\) =>)", code)
            try:
                bounded = bounds and is_function
                return wait(BOUNDED % code.rstrip("; \n") if bounded else code, *args, **options)
            except Exception as error:
                limit = {"it never answers": LONGEST, f"Timeout {LONG}ms": LONG}
                for text, time in limit.items():
                    if text in str(error):
                        pytest.fail(f"In {time // 1000} s {self.url} gave nothing for\n{code}")
                raise

        return run

    def told(self) -> str:
        """What the page has said of late, and who runs in it."""
        lines = [*self.said, *(f"an error: {text}" for text in self.errors)]
        with contextlib.suppress(Exception):  # it may be closed
            lines += [f"a worker: {worker.url}" for worker in self.page.workers]
        return "\n".join(lines)

    def open(self, path: str) -> Any:
        """Go to a page of the server; "blank" is an empty one, with the server as its origin."""
        self.page.goto(self.url + path)
        return self.page

    def needs_gpu(self) -> None:
        """For a test that is about WebGPU: skips where the browser has none."""
        if not self.page.evaluate("async () => Boolean(await navigator.gpu?.requestAdapter())"):
            pytest.skip(LACKS["offers no WebGPU"])

    def download(self) -> Any:
        """What the browser saves within; skips where its driver says nothing of that."""
        if ENGINE != "chromium":
            pytest.skip(f"the driver of {ENGINE} hears of no downloads")
        return self.page.expect_download()

    def add_to_worker(self, code: str) -> None:
        """Let worker.js run `code`, too, before it is asked for anything: a poorer browser."""
        source = (serve.WEB / "worker.js").read_text() + code
        self.page.route(
            "**/worker.js", lambda route: route.fulfill(body=source, content_type="text/javascript")
        )

    def _leave(self) -> None:
        self.page.unroute_all(behavior="ignoreErrors")
        self.page.close()

    def close(self) -> None:
        """Close the page; whatever it complained about fails the test."""
        OPEN.discard(self)
        if self.own:
            self.context.close()
        elif ENGINE == "chromium":
            where = {"origin": self.url.rstrip("/"), "storageTypes": "local_storage,indexeddb"}
            self.context.new_cdp_session(self.page).send("Storage.clearDataForOrigin", where)
            self._leave()
        else:
            self.page.evaluate(CLEAR)
            self._leave()
        assert self.errors == []


@pytest.fixture(scope="package")
def visited(browser: Any) -> Iterator[Any]:
    """A context that keeps what pages give it: Python starts from its snapshot, in a third of the
    time. The first start is for tests of its own."""
    context = browser.new_context(viewport=SIZE)
    yield context
    context.close()


@pytest.fixture
def tab(visited: Any, server: serve.Server) -> Iterator[Tab]:
    """A fresh page that must leave no error in the console."""
    tab = Tab(visited, server)
    yield tab
    tab.close()


# Starts a worker, which then answers `ask(call, args)`.
WORKER = """(name) => {
    const worker = new Worker(name, { type: "module" });
    const waiting = new Map();
    let asked = 0;
    worker.onmessage = ({ data }) => {
        if (data.event) return;
        const [resolve, reject] = waiting.get(data.id);
        "error" in data ? reject(new Error(data.error)) : resolve(data.result);
    };
    worker.onerror = ({ message }) => waiting.forEach(([_, reject]) => reject(new Error(message)));
    self.ask = (call, args) => new Promise((resolve, reject) => {
        waiting.set(++asked, [resolve, reject]);
        worker.postMessage({ id: asked, call, args });
    });
}"""


class PythonPage:
    """A blank page with the worker of programs, booted: `run` runs Python text in it."""

    def __init__(self, tab: Tab) -> None:
        self.page, self.given = tab.open("blank"), set[str]()
        self.page.evaluate(WORKER, "worker.js")
        self.page.evaluate(
            """async () => {
                const config = await (await fetch("config.json")).json();
                const files = config.datasets.digits.map((path) => [path, path]);
                files.push(["digits.py", "examples/digits.py"]);
                await ask("boot", { config, base: location.href, files });
            }"""
        )

    def run(self, code: str) -> Any:
        """Run Python text (`await` is allowed at its top); the last line's value, as JSON data."""
        return self.page.evaluate("code => ask('python', { code })", code)

    def put(self, name: str, text: str) -> None:
        """Write a file into the page's Python: `name` in its working directory."""
        self.run(
            f"import pathlib; path = pathlib.Path({name!r})\n"
            f"path.parent.mkdir(exist_ok=True); path.write_text({text!r})"
        )

    def give(self, *modules: Any) -> None:
        """Let the page import modules that lie here beside the tests."""
        for path in {Path(module.__file__) for module in modules}:
            if path.name not in self.given:
                self.put(path.name, path.read_text())
                self.given.add(path.name)
        self.run("import sys; '' in sys.path or sys.path.insert(0, '')")


@pytest.fixture(scope="package")
def python_page(visited: Any, server: serve.Server, pyodide_files: None) -> Iterator[PythonPage]:
    """Python with pyframe in a page, once for all tests; both devices are there."""
    tab = Tab(visited, server)
    yield PythonPage(tab)
    tab.close()
