"""web/boot.js: how Python gets into a page, the first time and the next, and what may be amiss."""

from __future__ import annotations

import hashlib
import json
import re
import shutil
import subprocess
import zipfile
from collections.abc import Iterator
from io import BytesIO
from pathlib import Path
from typing import Any

import pytest

from pyframe import serve
from pyframe.web.late import integrity

from .conftest import BLANK, WORKER, Tab

# A worker that boots Python, and does what these tests ask of it.
CALLED = """
import { boot, prepare, remember } from "./boot.js";
const told = [];
const timer = self.setTimeout;
let python, report, hurry = false;
self.setTimeout = (done, time) => timer(done, hurry && time === 30_000 ? 100 : time);
const calls = {
  async boot(options) {
    const hear = (event, { text, fraction }) => told.push([text, fraction]);
    ({ python, report } = await boot(options, hear));
    return { ...report, stored: await report.stored, told: told.splice(0) };
  },
  python: (code) => python.runPythonAsync(code),
  hurry: (now) => { hurry = now; }, // half a minute, for who waits for it
  remember, prepare,
  compiled: () => self.pyframeRuntime.stats().compiled,
  async missing() { // why no kernels may be found
    const urls = (await (await caches.open("pyframe-1")).keys()).map(({ url }) => url);
    const { lost = null } = self.pyframeRuntime ?? {};
    return { gpu: self.pyframeNoGPU, lost, urls, snapshot: report?.snapshot };
  },
};
self.onmessage = async ({ data: { id, call, args } }) => {
  try {
    self.postMessage({ id, result: await calls[call](args) });
  } catch (error) {
    self.postMessage({ id, error: error.message });
  }
};
"""
BOOT = "(config) => ask('boot', { config, base: location.href })"
WORKS = (
    "import numpy as np, pyframe as pf\n"
    "from pyframe import nn\n"
    "import numpy.fft, numpy.polynomial\n"  # which nobody has imported: the files are there
    "x = pf.ones(2, 4)\n"
    "y = nn.Linear(4, 3)(x).sum()\n"
    "y.backward()\n"
    "assert np.allclose(np.linalg.inv(np.eye(3) * 2), np.eye(3) / 2)\n"
    "assert abs(np.fft.rfft(np.ones(8))[0] - 8) < 1e-6\n"
    "gpu = pf.ones(8, 8, device='gpu')\n"
    "assert (gpu @ gpu).sum().item() == 512\n"
    "import random\n"
    "repr([random.random(), float(np.random.rand()), pf.rand(1).item(), pf.initial_seed()])"
)
WASM = Path(__file__).parent / "wasm_modules.py"
PYODIDE = {"pyodide.asm.wasm", "python_stdlib.zip", "pyodide-lock.json"}


def names(urls: list[str]) -> set[str]:
    return {url.rsplit("/", 1)[-1].split("-2.0")[0] for url in urls}


def little(**more: bytes) -> bytes:
    """A package in pyframe's place: what a start imports, with nothing in it."""
    names = "nn optim data vision web/worker codegen/wgsl/sharing runtime/host".split()
    stubs = {f"pyframe/{name}.py": b"" for name in names}  # in folders that need no __init__.py
    return serve.archive(serve.EARLY, {**stubs, "pyframe/__init__.py": b"seed = int", **more})


def in_place_of_numpy(lock: dict[str, Any], code: str) -> bytes:
    """A wheel with that code, and its digest in the lock file."""
    with zipfile.ZipFile(wheel := BytesIO(), "w") as zipped:
        zipped.writestr("numpy/__init__.py", code)
    lock["packages"]["numpy"]["sha256"] = hashlib.sha256(wheel.getvalue()).hexdigest()
    return wheel.getvalue()


class Visitor:
    """Someone whose browser keeps what pages give it; each visit is a page of its own."""

    def __init__(self, browser: Any, server: serve.Server, package: bytes = b"") -> None:
        self.tab = Tab(browser, server)
        self.tab.page.close()
        self.config = serve.config()
        # The same at each visit, even if somebody changes a source meanwhile.
        get = self.tab.context.request.get
        self.package = package or get(self.tab.url + "pyframe.tar.gz").body()
        self.page: Any = None
        self.parts: dict[str, bytes | str] = {}

    def visit(self, code: str = "", policy: str | None = None) -> Any:
        """A new page with a worker, which runs `code` first; nothing is loaded yet."""
        if self.page is not None:
            self.page.close()
        page = self.page = self.tab.context.new_page()
        headers = {"Content-Type": "text/javascript"}
        if policy:
            headers["Content-Security-Policy"] = policy
        page.route("**/blank", lambda r: r.fulfill(body=BLANK, content_type="text/html"))
        page.route("**/pyframe.tar.gz", lambda r: r.fulfill(body=self.package))
        for name, part in self.parts.items():
            page.route(f"**/{name}", lambda route, _, part=part: route.fulfill(body=part))
        page.route("**/boot-test.js", lambda r: r.fulfill(body=CALLED + code, headers=headers))
        page.goto(self.tab.url + "blank")
        page.evaluate(WORKER, "boot-test.js")
        return page

    def boot(self) -> Any:
        """The report of a visit."""
        return self.visit().evaluate(BOOT, self.config)

    def python(self, code: str) -> Any:
        return self.page.evaluate("(code) => ask('python', code)", code)

    def change(self, code: str) -> Any:
        """Run JavaScript with `cache`, and `found`, which is what is kept of the snapshot."""
        return self.page.evaluate(
            """async (code) => {
                const cache = await caches.open("pyframe-1");
                const [found] = (await cache.keys()).filter(({ url }) => url.includes("snapshot"));
                const work = Object.getPrototypeOf(async () => {}).constructor;
                return await new work("cache", "found", code)(cache, found);
            }""",
            code,
        )


@pytest.fixture(scope="module")
def visitor(browser: Any, server: serve.Server, pyodide_files: None) -> Iterator[Visitor]:
    visitor = Visitor(browser, server)
    yield visitor
    visitor.tab.context.close()


@pytest.fixture(scope="module")
def light(browser: Any, server: serve.Server, pyodide_files: None) -> Iterator[Visitor]:
    """One whose starts without a snapshot take half the time, and who has started once."""
    visitor = Visitor(browser, server, little())
    visitor.config["late"] = None
    lock = json.loads((Path(str(serve.pyodide_folder())) / "pyodide-lock.json").read_text())
    wheel = in_place_of_numpy(lock, "class random:\n    seed = staticmethod(int)")
    visitor.parts = {"pyodide-lock.json": json.dumps(lock), "numpy*": wheel}
    assert visitor.boot()["stored"]
    yield visitor
    visitor.tab.context.close()


@pytest.fixture(scope="module")
def first(visitor: Visitor) -> dict[str, Any]:
    """The report of the first visit, what its Python drew, and how many kernels it has kept."""
    report = visitor.boot()
    drawn = visitor.python(WORKS)
    made = visitor.page.evaluate("ask('compiled')")
    assert visitor.page.evaluate("(url) => ask('remember', url)", visitor.tab.url + "model.py")
    return {**report, "drawn": drawn, "made": made}


def test_the_first_start(first: dict[str, Any]) -> None:
    assert names(first["network"]) == {*PYODIDE, "numpy", "pyframe.tar.gz"}
    assert first["kept"] == []
    assert first["snapshot"] == "made"
    assert first["stored"]
    stages = list(dict.fromkeys(text.split(",")[0] for text, _ in first["told"]))
    assert stages == ["Loading Python", "Starting Python", "Starting pyframe", "Looking for a GPU"]
    texts = [text for text, _ in first["told"]]
    assert "Loading Python, 16 MB" in texts  # all the bytes there are
    fractions = [f for text, f in first["told"] if f is not None]
    assert fractions[0] == 0
    assert fractions[-1] == 1
    assert first["made"] > 0


def test_the_next_start_takes_what_is_kept(visitor: Visitor, first: dict[str, Any]) -> None:
    """The snapshot, and the program's kernels, which are compiled before they are asked for."""
    page = visitor.visit()
    booted = f"Promise.all([({BOOT})(config), ask('prepare', program)])"
    given = [visitor.config, visitor.tab.url + "model.py"]
    report, prepared = page.evaluate(f"([config, program]) => {booted}", given)
    assert report["snapshot"] == "used"
    assert names(report["network"]) == {"pyframe.tar.gz"}  # of which no digest is known before
    assert names(report["kept"]) == PYODIDE
    assert "Starting pyframe" not in [text for text, _ in report["told"]]
    imported = visitor.python("import sys; 'pyframe.web.worker' in sys.modules")
    assert imported
    assert prepared == first["made"], page.evaluate("ask('missing')")
    assert page.evaluate("ask('compiled')") == prepared
    drawn = visitor.python(WORKS)
    assert page.evaluate("ask('compiled')") == prepared  # there was nothing left to do
    for was, now in zip(json.loads(first["drawn"]), json.loads(drawn), strict=True):
        assert was != now  # no visit's numbers are another's
    put = f"import pathlib; pathlib.Path('wasm_modules.py').write_text({WASM.read_text()!r})"
    assert visitor.python(f"{put}\nimport wasm_modules; wasm_modules.in_place()") == "changed"


def test_a_damaged_snapshot(light: Visitor) -> None:
    """Another takes its place; that of pages where Python waits in another way stays."""
    light.change(
        "const bytes = new Uint8Array(await (await cache.match(found)).arrayBuffer());"
        "bytes[bytes.length >> 1] ^= 1;"
        "await cache.put(found, new Response(bytes));"
        "await cache.put(found.url.replace('auto-true', 'auto-false'), new Response('others'));"
    )
    report = light.boot()
    assert report["snapshot"].startswith("damaged: ")
    assert names(report["kept"]) == {*PYODIDE, "numpy"}
    assert report["stored"]  # a new one
    others = light.change(
        "const keys = (await cache.keys()).filter(({ url }) => url.includes('auto-false'));"
        "const texts = await Promise.all(keys.map(async (key) => (await cache.match(key)).text()));"
        "await Promise.all(keys.map((key) => cache.delete(key)));"
        "return texts;"
    )
    assert others == ["others"]


def test_a_snapshot_that_fails(light: Visitor) -> None:
    """It can be read, but is none of Python's memory."""
    light.change(
        "const head = JSON.stringify("
        "  { libs: [], table: 0, slots: [], folders: [], files: [], memory: 16 });"
        "const body = new Blob([Uint32Array.of(head.length), head, new Uint8Array(16)]);"
        "const digest = await crypto.subtle.digest('SHA-256', await body.arrayBuffer());"
        "const text = `sha256-${btoa(String.fromCharCode(...new Uint8Array(digest)))} `;"
        "await cache.put(found, new Response(new Blob([text, body])));"
    )
    report = light.boot()
    assert report["snapshot"].startswith("failed: ")
    assert names(report["network"]) == {"pyframe.tar.gz"}
    assert report["stored"]


def test_a_known_digest_needs_no_network(light: Visitor) -> None:
    """Nor does a file that is another one than its digest says get anywhere."""
    page = light.visit()
    digest = page.evaluate(
        """async () => {
            const bytes = await (await fetch("pyframe.tar.gz")).arrayBuffer();
            const digest = new Uint8Array(await crypto.subtle.digest("SHA-256", bytes));
            return `sha256-${btoa(String.fromCharCode(...digest))}`;
        }"""
    )
    wrong = {**light.config, "integrity": {"pyframe.tar.gz": f"sha256-{'A' * 43}="}}
    with pytest.raises(Exception, match=r"pyframe\.tar\.gz is not the file that was exported"):
        page.evaluate(BOOT, wrong)
    right = {**light.config, "integrity": {"pyframe.tar.gz": digest}}
    assert page.evaluate(BOOT, right)["snapshot"] == "used"
    report = light.visit().evaluate(BOOT, right)
    assert report["network"] == []
    assert names(report["kept"]) == {*PYODIDE, "pyframe.tar.gz"}
    assert report["snapshot"] == "used"


def test_a_start_that_did_not_end(light: Visitor) -> None:
    """As when the browser crashes over a snapshot: the next start makes another."""
    light.change("await cache.put(found.url.replace('snapshot', 'trial'), new Response())")
    assert light.boot()["snapshot"].startswith("skipped: ")


def test_another_version_and_a_damaged_file(light: Visitor) -> None:
    """The snapshot is dropped, and a kept file that is not Pyodide's code is fetched."""
    newer = little(**{"pyframe/newer.py": b"answer = 42"})
    light.visit()
    light.page.route("**/pyframe.tar.gz", lambda r: r.fulfill(body=newer))
    before = light.change(
        "const [wasm] = (await cache.keys()).filter(({ url }) => url.includes('.wasm'));"
        "await cache.put(wasm, new Response(Uint8Array.of(0, 97, 115, 109)));"
        "return found.url"
    )
    report = light.page.evaluate(BOOT, light.config)
    assert report["snapshot"].startswith("failed: ")
    assert "pyodide.asm.wasm" in names(report["network"])
    assert report["stored"]
    assert light.python("from pyframe import newer; newer.answer") == 42
    snapshots = light.change(
        "const urls = (await cache.keys()).map(({ url }) => url);"
        "return urls.filter((url) => url.includes('snapshot'));"
    )
    assert len(snapshots) == 1
    assert snapshots != [before]


def test_no_storage_and_a_file_that_comes_at_the_second_try(light: Visitor) -> None:
    """As in a frame whose origin is opaque, or with cookies forbidden."""
    page = light.visit(
        "Object.defineProperty(self, 'caches',"
        " { get() { throw new DOMException('no', 'SecurityError'); } });"
    )
    page.route("**/pyodide.mjs", lambda route: route.abort(), times=1)
    with pytest.raises(Exception, match=r"Python can't be had from .*scripts/get_pyodide"):
        page.evaluate(BOOT, light.config)
    page.route("**/*.wasm", lambda route: route.abort(), times=1)
    with pytest.raises(Exception, match=r"pyodide\.asm\.wasm can't be had from .*Try again\."):
        page.evaluate(BOOT, light.config)
    page.route("**/python_stdlib.zip", lambda route: None, times=1)  # never answered
    page.evaluate("ask('hurry', true)")
    with pytest.raises(Exception, match=r"nothing has come of it for 30 seconds\. Try again\."):
        page.evaluate(BOOT, light.config)
    page.evaluate("ask('hurry', false)")
    page.route("**/numpy*", lambda route: route.fulfill(status=404), times=1)
    with pytest.raises(Exception, match=r"numpy.* can't be had from .*the server says 404"):
        page.evaluate(BOOT, light.config)
    report = page.evaluate(BOOT, light.config)
    assert report["snapshot"] == "this page can't keep anything"
    assert report["kept"] == []
    assert light.python("import pyframe; pyframe.seed()") == 0


@pytest.mark.parametrize("version", ["0.28.3", "314.0.7"])
def test_another_pyodide(visitor: Visitor, version: str) -> None:
    """One that lacks what this one has says which it is: from 314 on a script is a module."""
    folder = serve.pyodide_folder()
    assert folder is not None
    script = (folder / "pyodide.mjs").read_text().replace(serve.PYODIDE_VERSION, version)
    page = visitor.visit()
    kind = "text/javascript"
    page.route("**/pyodide.mjs", lambda r: r.fulfill(body=script, content_type=kind))
    page.route("**/pyodide.asm.js", lambda r: r.fulfill(status=404))
    name = "pyodide.asm.mjs" if version > "3" else "pyodide.asm.js"
    with pytest.raises(Exception, match=rf"{re.escape(name)} is missing.*{made_for(version)}"):
        page.evaluate(BOOT, visitor.config)


def made_for(version: str) -> str:
    """What is said of a Pyodide of that version, as a pattern."""
    own = re.escape(serve.PYODIDE_VERSION)
    return f"made for Pyodide {own}, and what lies there is {re.escape(version)}"


LOCK = json.dumps({"info": {"version": serve.PYODIDE_VERSION}, "packages": {}})
OTHER = LOCK.replace(serve.PYODIDE_VERSION, "0.26.4")
HTML = "<!doctype html>"  # of some servers, where a file is missing
NO_CODE = b"\0asm\1\0\0\0"  # WebAssembly that is compiled at once, for what fails before it runs
BROKEN = [  # what is read before Python starts, and then: a file, what it has, and what is said
    ("pyodide-lock.json", HTML, r"pyodide-lock\.json in .* is damaged.*scripts/get_pyodide"),
    ("pyodide-lock.json", LOCK, r"pyodide-lock\.json in .* \(it names no NumPy\)"),
    ("pyodide-lock.json", OTHER, r"of another Pyodide \(it is of 0\.26\.4\)\. All files there are"),
    ("numpy*", HTML, r"numpy-.*\.whl is not the file that belongs here.*Put the right one there"),
], [
    ("python_stdlib.zip", HTML, r"Python's code in .* is damaged, or of another Pyodide \(.*exit"),
    ("pyodide.asm.wasm", HTML, r"pyodide\.asm\.wasm in .* is damaged.* scripts/get_pyodide"),
    ("pyframe.tar.gz", HTML, "pyframe's package is damaged, or a web page in its place: export"),
]  # fmt: skip


def test_broken_files(light: Visitor) -> None:
    """What a server gives in the place of a file is told in a sentence; the next start has
    forgotten it, as the one with a damaged file above."""
    for rows, others in zip(BROKEN, ({"*.wasm": NO_CODE}, {}), strict=True):
        for file, text, said in rows:
            page = light.visit()
            light.change("for (const key of await cache.keys()) await cache.delete(key);")
            for name, body in {**others, file: text}.items():
                fulfill = {"body": body, "content_type": "application/wasm"}
                page.route(f"**/{name}", lambda route, _, how=fulfill: route.fulfill(**how))
            with pytest.raises(Exception, match=said):
                page.evaluate(BOOT, light.config)


def other_pyodide(version: str, folder: Path) -> Path:
    """Another version's files, which npm has and build/ keeps, with a package in NumPy's place that
    tells for which Python it was asked: npm has no NumPy."""
    kept = serve.ROOT / "build" / f"pyodide-{version}.tgz"
    if not kept.is_file():
        pack = [shutil.which("npm") or "npm", "pack", "--silent", f"pyodide@{version}"]
        if (
            not shutil.which("npm")
            or subprocess.run(pack, cwd=folder, capture_output=True).returncode
        ):
            pytest.skip(f"npm has no pyodide@{version} here")
        shutil.move(folder / kept.name, kept)
    shutil.unpack_archive(kept, folder, "gztar", filter="data")
    folder = folder / "package"
    lock = json.loads((folder / "pyodide-lock.json").read_text())
    wheel = in_place_of_numpy(lock, "import sys; raise ImportError(f'for {sys.version}')")
    (folder / "pyodide-lock.json").write_text(json.dumps(lock))
    (folder / lock["packages"]["numpy"]["file_name"]).write_bytes(wheel)
    return folder


# The oldest: hosts.py
@pytest.mark.parametrize("version", ["314.0.7"])
def test_other_pyodides_start(
    version: str, browser: Any, server: serve.Server, tmp_path: Path
) -> None:
    """One whose script is a module runs Python up to NumPy."""
    folder = other_pyodide(version, tmp_path)
    visitor, asked = Visitor(browser, server, little()), list[str]()
    config = {**visitor.config, "pyodide": "pyodide/"}
    python = json.loads((folder / "pyodide-lock.json").read_text())["info"]["python"]
    visitor.tab.context.on("request", lambda request: asked.append(request.url))

    def answer(route: Any) -> None:
        path = folder / route.request.url.rsplit("/", 1)[-1]
        route.fulfill(path=path) if path.is_file() else route.fulfill(status=404)

    visitor.tab.context.route("**/pyodide/*", answer)
    try:
        said = rf"(?s)ImportError: for {re.escape(python)} .*{made_for(version)}"
        with pytest.raises(Exception, match=said):
            visitor.visit().evaluate(BOOT, config)
        if version > "3":  # a site that says what it has is not asked for anything else
            asked.clear()
            known = integrity((folder / "pyodide.asm.mjs").read_bytes())
            config["integrity"] = {"pyodide/pyodide.asm.mjs": known}
            (folder / "pyodide-lock.json").write_text(HTML)
            (folder / "pyodide.asm.wasm").write_bytes(NO_CODE)  # which fails before it runs
            visitor.visit()
            visitor.change("for (const key of await cache.keys()) await cache.delete(key);")
            with pytest.raises(Exception, match="pyodide-lock.json in .* is damaged"):
                visitor.page.evaluate(BOOT, config)
            assert {"pyodide.mjs", "pyodide-lock.json"} <= names(asked)
            assert "pyodide.asm.js" not in names(asked)
    finally:
        visitor.tab.context.close()


def test_a_policy_without_wasm(visitor: Visitor) -> None:
    page = visitor.visit(policy="script-src 'self'; connect-src 'self'")
    with pytest.raises(Exception, match="add 'wasm-unsafe-eval' to script-src"):
        page.evaluate(BOOT, visitor.config)


def test_what_a_page_costs(browser: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """scripts/bench/page.py with the page that needs no Python, visited once and once more."""
    monkeypatch.syspath_prepend(serve.ROOT / "scripts" / "bench")
    import page

    lines = page.report(browser, 1, [], True, first=False).splitlines()
    cold, warm = ([cell.strip() for cell in line.split("|")[1:-1]] for line in lines[2:4])
    assert [cold[1], warm[1]] == ["cold", "warm"]
    assert float(cold[2]) > float(warm[2])  # megabytes
    assert 0 < float(cold[6]) <= float(cold[7])  # ready, and the first step after that


def test_in_the_page_itself(visitor: Visitor) -> None:
    """Without a worker, where a page may not ask for bytes while Python waits."""
    found = visitor.visit().evaluate(
        """async (config) => {
            const { boot } = await import(new URL("boot.js", location.href));
            const { python } = await boot({ config, base: location.href });
            return python.runPythonAsync(`
import sys, pyframe as pf
late = "pyframe.signal" in sys.modules
import pyframe.signal
[late, pf.signal.windows.hann(4, sym=False).tolist()]`).then((found) => found.toJs());
        }""",
        visitor.config,
    )
    assert found == [False, pytest.approx([0, 0.5, 1, 0.5])]
