"""WebKitGTK by WebDriver, as much as tests ask of Playwright. A context is a MiniBrowser,
whose requests pass a proxy so that `route` answers some. Tests that ask for more are skipped."""

from __future__ import annotations

import base64
import contextlib
import http.client
import http.server
import json
import math
import os
import re
import shutil
import socket
import subprocess
import tempfile
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest
from playwright.sync_api import Error

DRIVER = "WebKitWebDriver"
SHOWN = {"width": 1280, "height": 720}
KEYS = {
    "Backspace": "\ue003", "Tab": "\ue004", "Enter": "\ue007", "Shift": "\ue008",
    "Control": "\ue009", "Alt": "\ue00a", "Escape": "\ue00c", "Space": " ", "PageUp": "\ue00e",
    "PageDown": "\ue00f", "End": "\ue010", "Home": "\ue011", "ArrowLeft": "\ue012",
    "ArrowUp": "\ue013", "ArrowRight": "\ue014", "ArrowDown": "\ue015", "Delete": "\ue017",
}  # fmt: skip
# Runs text as Playwright does, an expression or a function. It gives JSON, which lacks some
# numbers, and what was said meanwhile.
EVALUATE = """
const done = arguments[arguments.length - 1];
const show = (key, value) => typeof value === "number" && !Number.isFinite(value)
    ? { "a number": String(value) } : value;
const work = async (arg) => {
    %s
    );
    return typeof made === "function" ? await made(arg) : await made;
};
work(arguments[0]).then(
    (value) => [value ?? null],
    (error) => [null, `${error?.name}: ${error?.message ?? error}`],
).then((found) => done(JSON.stringify([(self["what was told"] ?? []).splice(0), ...found], show)));
"""
# What the page says and what goes wrong, and the same of workers, which tell it by a channel.
LISTEN = """{
    const told = (self["what was told"] = []);
    for (const kind of ["error", "warn", "log"]) {
        const was = console[kind];
        console[kind] = (...given) => (told.push([kind, given.join(" ")]), was(...given));
    }
    addEventListener("error", (event) => {
        if (event instanceof ErrorEvent) told.push(["error", event.message]);
    });
    new BroadcastChannel("what workers say").onmessage = ({ data }) => told.push(data);
    addEventListener("unhandledrejection", ({ reason }) => told.push(["error", String(reason)]));
}"""
IN_WORKER = b"""
for (const kind of ["error", "warn", "log"]) {
    const was = console[kind];
    console[kind] = (...given) => {
        was(...given);
        new BroadcastChannel("what workers say").postMessage([kind, given.join(" ")]);
    };
}
"""
FIRST = "what-comes-first.js"
# The elements that the steps of a locator lead to, through shadow roots.
FIND = """(steps) => {
    const inside = (node) => [...(node.shadowRoot?.children ?? []), ...node.children]
        .flatMap((child) => [child, ...inside(child)]);
    const shown = (el) => el.checkVisibility({ visibilityProperty: true })
        && el.getBoundingClientRect().width > 0;
    const roles = {
        button: "button, input[type=button], summary", radio: "input[type=radio]",
        textbox: "textarea, input:not([type]), input[type=text]", heading: "h1, h2, h3, h4",
    };
    const named = (el) => el.ariaLabel ?? ((el.getAttribute("aria-labelledby") ?? "").split(" ")
        .map((id) => id && el.getRootNode().getElementById(id)?.textContent).join(" ").trim()
        || [...(el.labels ?? [])].map((label) => label.textContent).join(" ")
        || (el.matches("output") ? "" : el.textContent) || el.title);
    const holds = (text, part, exact) => {
        if (part.pattern) return new RegExp(part.pattern, part.flags).test(text.trim());
        const [a, b] = [text, part].map((t) => t.replace(/\\s+/g, " ").trim().toLowerCase());
        return exact ? a === b : a.includes(b);
    };
    let here = [document.documentElement];
    const below = () => [...new Set(here.flatMap(inside))];
    for (const [kind, ...given] of steps) {
        if (kind === "css") {
            const visible = given[0].endsWith(":visible");
            const css = given[0].replace(/:visible$/, "") || "*";
            here = below().filter((el) => el.matches(css) && (!visible || shown(el)));
        } else if (kind === "role") {
            const [role, name, exact] = given;
            const has = (el) => el.getAttribute("role") ?? (el.matches(roles[role] ?? "_") && role);
            here = below().filter((el) => has(el) === role && shown(el)
                && (name === null || holds(named(el), name, exact)));
        } else if (kind === "text") {
            here = below().filter((el) => holds(el.textContent, given[0], given[1])
                && !inside(el).some((child) => holds(child.textContent, given[0], given[1])));
        } else if (kind === "has") here = here.filter((el) => holds(el.textContent, given[0]));
        else here = here.slice(given[0]).slice(0, 1);
    }
    return here;
}"""
FILL = """(el, text) => {
    el.focus();
    const { set } = Object.getOwnPropertyDescriptor(Object.getPrototypeOf(el), "value");
    set.call(el, text);
    el.dispatchEvent(new Event("input", { bubbles: true, composed: true }));
    el.dispatchEvent(new Event("change", { bubbles: true }));
}"""
OPTION = """(el, label) => [...el.options].find((option) => option.label === label).value"""
GIVE = """(el, files) => {
    const all = new DataTransfer();
    for (const [name, type, text] of files) {
        const bytes = Uint8Array.from(atob(text), (letter) => letter.charCodeAt(0));
        all.items.add(new File([bytes], name, { type }));
    }
    el.files = all.files;
    el.dispatchEvent(new Event("input", { bubbles: true, composed: true }));
    el.dispatchEvent(new Event("change", { bubbles: true }));
}"""


class Rest:
    """What is not here WebDriver can't do, or no test needed."""

    def __getattr__(self, name: str) -> Any:
        raise AttributeError(f"WebDriver has no counterpart of {type(self).__name__}.{name}")


def free_port() -> int:
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return int(found.getsockname()[1])


def numbers(found: dict[str, Any]) -> Any:
    return float(found["a number"]) if "a number" in found else found


def pattern(text: Any) -> Any:
    """A regular expression as JavaScript has it."""
    if not isinstance(text, re.Pattern):
        return text
    flags = {re.IGNORECASE: "i", re.MULTILINE: "m", re.DOTALL: "s"}
    return {
        "pattern": text.pattern,
        "flags": "".join(v for k, v in flags.items() if text.flags & k),
    }


class Route:
    """A request that a test answers, or lets pass."""

    def __init__(self, url: str, method: str) -> None:
        self.request = type("Request", (), {"url": url, "method": method})()
        self.answer: tuple[int, dict[str, str], bytes] | None = None
        self.aborted = False

    def fulfill(
        self, *, status: int = 200, headers: dict[str, str] | None = None, body: Any = "",
        json: Any = None, path: Any = None, content_type: str | None = None,
    ) -> None:  # fmt: skip
        kind = content_type
        if json is not None:
            body, kind = globals()["json"].dumps(json), kind or "application/json"
        elif path is not None:
            body = Path(path).read_bytes()
            guess = http.server.SimpleHTTPRequestHandler.extensions_map
            known = {".js": "text/javascript", ".mjs": "text/javascript",
                     ".wasm": "application/wasm", ".html": "text/html", **guess}  # fmt: skip
            kind = kind or known.get(Path(path).suffix, "application/octet-stream")
        body = body.encode() if isinstance(body, str) else body
        self.answer = status, {**(headers or {}), **({"content-type": kind} if kind else {})}, body

    def abort(self, *_: Any) -> None:
        self.aborted = True


class Proxy(http.server.ThreadingHTTPServer):
    """Passes requests on to servers of this computer."""

    daemon_threads = True
    # The newest is asked first.
    routes: list[tuple[str, Callable[[Route], None]]]

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Forward)
        self.routes, self.scripts = [], [LISTEN]


class Forward(http.server.BaseHTTPRequestHandler):
    server: Proxy

    def log_message(self, *_: Any) -> None:
        pass

    def _pass(self) -> None:
        route = Route(self.path, self.command)
        length = int(self.headers.get("content-length") or 0)
        sent = self.rfile.read(length) if length else None
        found = (h for pattern, h in self.server.routes if matches(pattern, self.path))
        handle = next(found, None)
        if handle is not None:
            handle(route)
        if route.aborted:
            self.close_connection = True
            return
        elif self.path.endswith(FIRST):
            route.fulfill(body="\n".join(self.server.scripts), content_type="text/javascript")
        status, headers, body = route.answer or self._ask(sent)
        kind = next((v for k, v in headers.items() if k.lower() == "content-type"), "")
        if kind.startswith("text/html") and status == 200:
            body = re.sub(rb"(?i)^\s*<!doctype html>", rb"\g<0><script src=/%s></script>"
                          % FIRST.encode(), body)  # fmt: skip
        if urlsplit(self.path).path.endswith("/worker.js"):
            body = IN_WORKER + body
        self.send_response(status)
        for name, value in headers.items():
            self.send_header(name, value)
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)

    def _ask(self, sent: bytes | None) -> tuple[int, dict[str, str], bytes]:
        at = urlsplit(self.path)
        path = at.path + (f"?{at.query}" if at.query else "")
        if at.hostname not in ("127.0.0.1", "localhost"):
            return 502, {}, b"tests use no internet"
        connection = http.client.HTTPConnection(at.hostname, at.port, timeout=240)
        headers = {k: v for k, v in self.headers.items() if "connection" not in k.lower()}
        try:
            connection.request(self.command, path, sent, headers)
            found = connection.getresponse()
            ours = ("connection", "keep-alive", "transfer-encoding", "content-length")
            kept = {k: v for k, v in found.getheaders() if k.lower() not in ours}
            return found.status, kept, found.read()
        except OSError as error:
            return 502, {}, str(error).encode()
        finally:
            connection.close()

    do_GET = do_HEAD = do_POST = do_PUT = do_DELETE = do_OPTIONS = _pass  # noqa: N815


def matches(pattern: Any, url: str) -> bool:
    """Whether a pattern of Playwright's fits an address."""
    if not isinstance(pattern, str):
        return bool(pattern(url) if callable(pattern) else pattern.search(url))
    parts = (".*" if part == "**" else "[^/]*" if part == "*" else re.escape(part)
             for part in re.split(r"(\*\*|\*)", pattern))  # fmt: skip
    return re.fullmatch("".join(parts), url) is not None


class Browser(Rest):
    """Starts what contexts need; the display that they are shown on is of all."""

    def __init__(self, display: str, folder: Path) -> None:
        self.environment = {**os.environ, "DISPLAY": display, "XDG_RUNTIME_DIR": str(folder),
                            "WEBKIT_DISABLE_SANDBOX_THIS_IS_DANGEROUS": "1"}  # fmt: skip
        self.contexts: list[Context] = []

    def new_context(self, viewport: dict[str, int] | None = None, **options: Any) -> Context:
        if options:
            pytest.skip(f"WebDriver has no contexts with {', '.join(options)}")
        self.contexts.append(Context(self, viewport or SHOWN))
        return self.contexts[-1]

    def close(self) -> None:
        for context in self.contexts:
            context.close()

    @property
    def version(self) -> str:
        context = self.new_context()
        context.new_page()
        found = str(context.capabilities["browserVersion"])
        context.close()
        return found


class Context(Rest):
    def __init__(self, browser: Browser, size: dict[str, int]) -> None:
        self.browser, self.size, self.process = browser, size, None
        self.page: Page | None = None
        self.capabilities: dict[str, Any] = {}

    def _start(self) -> None:
        self.proxy = Proxy()
        threading.Thread(target=self.proxy.serve_forever, args=(0.01,), daemon=True).start()
        port = free_port()
        self.url = f"http://127.0.0.1:{port}/session"
        self.process = subprocess.Popen(
            [DRIVER, f"--port={port}"], env=self.browser.environment,
            stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
        )  # fmt: skip
        deadline = time.monotonic() + 60
        while time.monotonic() < deadline:
            with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), 1):
                break
            time.sleep(0.02)
        through = {"proxyType": "manual", "httpProxy": f"127.0.0.1:{self.proxy.server_port}"}
        wanted = {"proxy": through, "timeouts": {"script": 600_000, "pageLoad": 240_000}}
        made = self.ask("POST", "", {"capabilities": {"alwaysMatch": wanted}})
        self.url += f"/{made['sessionId']}"
        self.capabilities = made["capabilities"]

    def ask(self, method: str, path: str, body: Any = None) -> Any:
        data = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(
            self.url + path, data, {"content-type": "application/json"}, method=method
        )
        try:
            with urllib.request.urlopen(request, timeout=600) as answer:
                return json.load(answer)["value"]
        except urllib.error.HTTPError as error:
            told = json.load(error)["value"]
            raise Error(f"{told['error']}: {told['message']}") from None

    def new_page(self) -> Page:
        if self.process is None:
            self._start()
            handle = self.ask("GET", "/window")
        else:
            handle = self.ask("POST", "/window/new", {"type": "window"})["handle"]
        return Page(self, handle)

    def show(self, handle: str) -> None:
        self.ask("POST", "/window", {"handle": handle})

    def close(self) -> None:
        if self.process is not None:
            with contextlib.suppress(Error, OSError):
                self.ask("DELETE", "")
            self.process.terminate()
            self.process.wait()
            self.process = None
            self.proxy.shutdown()
            self.proxy.server_close()


class Message:
    location = ""

    def __init__(self, kind: str, text: str) -> None:
        self.type, self.text = {"warn": "warning"}.get(kind, kind), text


class Finds(Rest):
    """What finds elements: the page, and elements, in themselves."""

    page: Page
    steps: list[list[Any]]

    def _then(self, *step: Any) -> Locator:
        return Locator(self.page, [*self.steps, list(step)])

    def locator(self, selector: str, *, has_text: Any = None) -> Locator:
        parts = re.findall(r"(?:\[[^\]]*\]|\s*>\s*|[^\s\[])+", selector)
        found = Locator(self.page, self.steps)
        for part in parts:
            found = found._then("css", part)
        return found if has_text is None else found.filter(has_text=has_text)

    def get_by_role(self, role: str, *, name: Any = None, exact: bool = False) -> Locator:
        return self._then("role", role, pattern(name), exact)

    def get_by_text(self, text: Any, *, exact: bool = False) -> Locator:
        return self._then("text", pattern(text), exact)


class Page(Finds):
    def __init__(self, context: Context, handle: str) -> None:
        self.page, self.steps = self, []
        self.context, self.handle, self.timeout = context, handle, 30.0
        del context.proxy.scripts[1:]
        self.handlers: list[tuple[str, Callable[[Any], None]]] = []
        self.mouse, self.keyboard = Mouse(self), Keyboard(self)
        self.set_viewport_size(context.size)

    def ask(self, method: str, path: str, body: Any = None) -> Any:
        self.context.show(self.handle)
        return self.context.ask(method, path, body)

    def set_default_timeout(self, timeout: float) -> None:
        self.timeout = timeout / 1000

    def set_viewport_size(self, size: dict[str, int]) -> None:
        around = [0, 0]
        for _ in range(2):
            width, height = size["width"] + around[0], size["height"] + around[1]
            self.ask("POST", "/window/rect", {"x": 0, "y": 0, "width": width, "height": height})
            seen = self.evaluate("[innerWidth, innerHeight]")
            around = [width - seen[0], height - seen[1]]
        if seen != [size["width"], size["height"]]:
            raise Error(f"WebDriver has no window of {size}, it is {seen}")

    def on(self, event: str, handle: Callable[[Any], None]) -> None:
        self.handlers.append((event, handle))

    def add_init_script(self, script: str) -> None:
        self.context.proxy.scripts.append(script)

    def goto(self, url: str, **_: Any) -> None:
        self.evaluate("null")  # what the last page said
        self.ask("POST", "/url", {"url": url})

    @property
    def url(self) -> str:
        return str(self.ask("GET", "/url"))

    def evaluate(self, code: str, arg: Any = None) -> Any:
        code = code.strip().rstrip(";")
        try:
            told = self._run(f"const made = ({code}", arg)
        except Error as error:
            if "Unexpected" not in str(error):
                raise
            before, _, last = code.rpartition(";")  # statements, of which the last gives the value
            if "}" in last:
                before, last = code, "null"
            told = self._run(f"{before}\n; const made = ({last}", arg)
        said, found, *wrong = json.loads(told, object_hook=numbers)
        for message in said:
            for event, handle in self.handlers:
                if event == "console":
                    handle(Message(*message))
        if wrong:
            raise Error(f"Page.evaluate: {wrong[0]}")
        return found

    def _run(self, code: str, arg: Any) -> str:
        body = {"script": EVALUATE % code, "args": [arg]}
        return str(self.ask("POST", "/execute/async", body))

    def wait_for_function(self, code: str, *, arg: Any = None, timeout: float = 0) -> Any:
        def look() -> Any:
            return self.evaluate(code, arg)

        found = self.until(look, code, timeout)
        return type("Handle", (), {"json_value": lambda _: found})()

    def until(self, look: Callable[[], Any], what: str, timeout: float = 0) -> Any:
        deadline = time.monotonic() + (timeout / 1000 or self.timeout)
        while not (found := look()):
            if time.monotonic() > deadline:
                raise Error(f"It takes too long until {what}")
            time.sleep(0.02)
        return found

    def route(self, pattern: Any, handle: Callable[[Route], None], **_: Any) -> None:
        self.context.proxy.routes.insert(0, (pattern, handle))

    def unroute(self, pattern: Any, *_: Any) -> None:
        routes = self.context.proxy.routes
        routes[:] = [one for one in routes if one[0] != pattern]

    def unroute_all(self, **_: Any) -> None:
        self.context.proxy.routes.clear()

    def inner_text(self, selector: str) -> str:
        return self.locator(selector).inner_text()

    def close(self) -> None:
        self.evaluate("null")
        if len(self.context.ask("GET", "/window/handles")) > 1:
            self.ask("DELETE", "/window")
        else:  # a session ends with its last window
            self.ask("POST", "/url", {"url": "about:blank"})


class Mouse(Rest):
    def __init__(self, page: Page) -> None:
        self.page, self.at = page, (0.0, 0.0)

    def do(self, *actions: dict[str, Any]) -> None:
        source = {"type": "pointer", "id": "mouse", "parameters": {"pointerType": "mouse"}}
        self.page.ask("POST", "/actions", {"actions": [{**source, "actions": list(actions)}]})

    def move(self, x: float, y: float, *, steps: int = 1) -> None:
        (a, b), self.at = self.at, (x, y)
        ways = [i / steps for i in range(1, steps + 1)]
        for t in ways:
            to = {"x": a + t * (x - a), "y": b + t * (y - b)}
            self.do({"type": "pointerMove", "duration": 0, "origin": "viewport", **to})

    def down(self) -> None:
        self.do({"type": "pointerDown", "button": 0})

    def up(self) -> None:
        self.do({"type": "pointerUp", "button": 0})

    def click(self, x: float, y: float) -> None:
        self.move(x, y)
        self.do({"type": "pointerDown", "button": 0}, {"type": "pointerUp", "button": 0})


class Keyboard(Rest):
    def __init__(self, page: Page) -> None:
        self.page = page

    def press(self, keys: str) -> None:
        held = keys.split("+") if len(keys) > 1 else [keys]
        values = [KEYS.get(key, key) for key in held]
        actions = [{"type": "keyDown", "value": value} for value in values]
        actions += [{"type": "keyUp", "value": value} for value in reversed(values)]
        source = {"type": "key", "id": "keys", "actions": actions}
        self.page.ask("POST", "/actions", {"actions": [source]})


class Locator(Finds):
    """Elements by how they are found; they are looked for anew each time."""

    def __init__(self, page: Page, steps: list[list[Any]]) -> None:
        self.page, self.steps = page, steps

    def filter(self, *, has_text: Any) -> Locator:
        return self._then("has", pattern(has_text))

    def nth(self, i: int) -> Locator:
        return self._then("nth", i)

    @property
    def first(self) -> Locator:
        return self.nth(0)

    def all(self) -> list[Locator]:
        return [self.nth(i) for i in range(self.count())]

    def _each(self, code: str) -> Any:
        return self.page.evaluate(f"(steps) => ({FIND})(steps).map({code})", self.steps)

    def count(self) -> int:
        return len(self._each("() => 1"))

    def evaluate(self, code: str, arg: Any = None) -> Any:
        """What a function gives for the one element, once it is there."""
        self.page.until(self.count, f"there is {self.steps}")
        run = f"([steps, arg]) => {{ const [el] = ({FIND})(steps); return ({code})(el, arg); }}"
        return self.page.evaluate(run, [self.steps, arg])

    def all_inner_texts(self) -> list[str]:
        return list(self._each("(el) => el.innerText"))

    def inner_text(self) -> str:
        return str(self.evaluate("(el) => el.innerText"))

    def input_value(self) -> str:
        return str(self.evaluate("(el) => el.value"))

    def get_attribute(self, name: str, **_: Any) -> Any:
        return self.evaluate("(el, name) => el.getAttribute(name)", name)

    def is_visible(self) -> bool:
        code = "(el) => el.checkVisibility({ visibilityProperty: true })"
        return any(self._each(f"(el) => ({code})(el) && el.getBoundingClientRect().width > 0"))

    def is_hidden(self) -> bool:
        return not self.is_visible()

    def wait_for(self, *, state: str = "visible", **_: Any) -> None:
        look = {"visible": self.is_visible, "hidden": self.is_hidden, "attached": self.count}
        self.page.until(look[state], f"{self.steps} is {state}")

    def scroll_into_view_if_needed(self) -> None:
        self.evaluate("(el) => el.scrollIntoView({ block: 'nearest', behavior: 'instant' })")

    def bounding_box(self) -> dict[str, float]:
        return dict(self.evaluate("(el) => el.getBoundingClientRect().toJSON()"))

    def click(self, *, position: dict[str, float] | None = None, **_: Any) -> None:
        self.wait_for()
        self.scroll_into_view_if_needed()
        box = self.bounding_box()
        at = position or {"x": box["width"] / 2, "y": box["height"] / 2}
        self.page.mouse.click(box["x"] + math.floor(at["x"]), box["y"] + math.floor(at["y"]))

    def check(self, **_: Any) -> None:
        self.evaluate("(el) => el.checked || el.click()")

    def focus(self) -> None:
        self.evaluate("(el) => el.focus()")

    def blur(self) -> None:
        self.evaluate("(el) => el.blur()")

    def press(self, keys: str) -> None:
        self.focus()
        self.page.keyboard.press(keys)

    def fill(self, text: str) -> None:
        self.evaluate(FILL, text)

    def select_option(self, label: str) -> None:
        self.evaluate(f"(el, label) => ({FILL})(el, ({OPTION})(el, label))", label)

    def set_input_files(self, files: Any) -> None:
        given = files if isinstance(files, list) else [files]
        self.evaluate(GIVE, [[f["name"], f["mimeType"], base64.b64encode(f["buffer"]).decode()]
                             for f in given])  # fmt: skip


@contextlib.contextmanager
def webkit() -> Iterator[Browser]:
    """WebKitGTK on a display that nobody sees."""
    for name in (DRIVER, "Xvfb"):
        if shutil.which(name) is None:
            pytest.skip(f"{name} is not installed: apt-get install webkit2gtk-driver xvfb")
    with tempfile.TemporaryDirectory() as folder:
        reading, writing = os.pipe()
        screen = ["Xvfb", "-displayfd", str(writing), "-screen", "0", "1920x1600x24"]
        shown = subprocess.Popen(screen, pass_fds=[writing], stderr=subprocess.DEVNULL)
        os.close(writing)
        with os.fdopen(reading) as told:
            display = f":{told.readline().strip()}"
        browser = Browser(display, Path(folder))
        try:
            yield browser
        finally:
            browser.close()
            shown.terminate()
            shown.wait()
