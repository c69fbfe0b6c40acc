"""Static sites: a program and its Python by `pyframe export --python`, whose files are checked, and
all demos by scripts/build_web."""

from __future__ import annotations

import base64
import gzip
import hashlib
import io
import json
import re
import shutil
import subprocess
import sys
import tarfile
import zipfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from pyframe import serve
from pyframe.__main__ import main
from pyframe.web import late, site as sites

from .conftest import Tab, files

PROGRAM = '''"""Numbers to learn."""

import gzip
from pathlib import Path

import pyframe as pf
from helper import WIDTH
from pyframe import nn, optim


def make_model():
    net = nn.Sequential(nn.Linear(2, WIDTH), nn.ReLU(), nn.Linear(WIDTH, 1))
    return pf.Model(net, nn.MSELoss(), optim.SGD(net.parameters(), lr=0.01))


def load_data():
    from pyframe.distributions import Normal  # which is late

    count = int(gzip.open(Path(__file__).parent / "numbers.txt.gz").read())
    x = Normal(pf.zeros(count, 2), pf.ones(count, 2)).sample()
    return x, x.sum(1, keepdim=True)
'''


@pytest.fixture(scope="module")
def exported(tmp_path_factory: pytest.TempPathFactory, pyodide_files: None) -> Path:
    """A site, with weights and data."""
    folder = tmp_path_factory.mktemp("exported")
    (folder / "my_model.py").write_text(PROGRAM)
    (folder / "helper.py").write_text("WIDTH = 4\n")
    (folder / "numbers.txt.gz").write_bytes(gzip.compress(b"64"))
    arguments = f"--to {folder / 'site'} --data {folder / 'numbers.txt.gz'}".split()
    assert main(["export", str(folder / "my_model.py"), "--python", *arguments]) == 0
    return folder / "site"


KEPT = """async () => {
    const keys = await (await caches.open("pyframe-1")).keys();
    return keys.some(({ url }) => url.includes("snapshot") && url.startsWith(location.href));
}"""
POLICY = (  # the least that a site needs
    "default-src 'none'; script-src 'self' 'wasm-unsafe-eval'; worker-src 'self'; "
    "connect-src 'self'; style-src 'self'; img-src 'self'"
)


@pytest.fixture(scope="module")
def host(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Path, str]]:
    """A folder behind a plain server with a strict policy, and its address."""
    folder = tmp_path_factory.mktemp("host")

    def headers(path: str) -> dict[str, str]:
        unpacks = path.startswith("/unpacked") and path.endswith(".gz")
        packed = {"Content-Encoding": "gzip"} if unpacks else {}  # as Vite says of them
        return {"Content-Security-Policy": POLICY, **packed}

    with files(folder, headers) as url:
        yield folder, url


@pytest.fixture
def place(exported: Path, host: tuple[Path, str]) -> Callable[..., str]:
    """Puts a copy of the site behind the server, with a file that is changed or gone."""

    def make(name: str, damaged: str = "", gone: bool = False) -> str:
        folder, url = host
        shutil.copytree(exported, folder / name, copy_function=shutil.copy)
        (code,) = (folder / name).glob("pyframe-*")
        if gone:
            (code / damaged).unlink()
        elif damaged:
            (code / damaged).write_bytes((code / damaged).read_bytes() + b"\n")
        return f"{url}{name}/"

    return make


def test_a_site_names_the_licence_of_all_that_it_ships(exported: Path) -> None:
    said = (exported / sites.LICENSES).read_text().partition("Apache License")[0]
    told = dict(re.findall(r"^(\S+) [\d.]+: ([^,]+), ", said, re.MULTILINE))
    wheels = {path.name.partition("-")[0] for path in exported.rglob("*.whl")}
    assert told.keys() == {"pyframe", "pyodide", "python", *wheels}
    assert {name: told[name] for name in wheels} == {n: sites.SHIPPED[n][0] for n in wheels}


def refused(tab: Tab, said: str) -> None:
    """The element says why a program can't be loaded, and by its event."""
    tab.page.wait_for_function("() => customElements.get('py-frame')")
    load = "document.querySelector('py-frame').load().then(() => '', (e) => e.message)"
    assert said in tab.page.evaluate(load)
    assert said in tab.page.locator("py-frame [part=error-message]").inner_text()
    tab.errors.clear()


def test_a_site_trains(place: Any, host: tuple[Path, str], tab: Tab) -> None:
    """From a server that has the browser unpack .gz files (test_offline.py has a plain one), all
    from its own folders; and no more once the archive that Python asks for late is another."""
    url = place("unpacked")
    asked: list[str] = []
    tab.page.on("request", lambda request: asked.append(request.url))
    tab.page.goto(url)
    assert tab.page.title() == "Numbers to learn"
    tab.page.wait_for_function("() => customElements.get('py-frame')")
    done = tab.page.evaluate("() => document.querySelector('py-frame').train({ steps: 2 })")
    assert done["steps"] == 2
    assert tab.page.locator("#checking").count() == 0
    named = re.compile(rf"{url}(py(frame|odide)-[0-9a-f]{{16}}/[^#]+)?")
    assert [url for url in asked if not named.fullmatch(url)] == []
    assert any(url.endswith("pyframe-late.tar.gz") for url in asked)
    tab.page.wait_for_function(KEPT)  # so that Python starts from its snapshot
    (late,) = (host[0] / "unpacked").glob("*/pyframe-late.tar.gz")
    late.write_bytes(gzip.compress(b"another"))
    tab.page.goto(url)
    refused(tab, "pyframe-late.tar.gz is not the file that was exported")


def test_a_page_of_ones_own(
    host: tuple[Path, str], tab: Tab, pyodide_files: None, capsys: pytest.CaptureFixture[str]
) -> None:
    """The README's program and its two lines of HTML, beside a folder that is written once."""
    folder, url = host
    own = folder / "own"
    own.mkdir()
    for _ in range(2):  # it may be replaced
        assert main(["export", "--python", "--to", str(own / "pyframe")]) == 0
    assert '<script type="module" src="pyframe/pyframe.js"></script>' in capsys.readouterr().out
    blocks = re.findall(r"```(\w+)\n(.*?)```", (serve.ROOT / "README.md").read_text(), re.DOTALL)
    (program,) = (text for kind, text in blocks if kind == "python" and "demo = Demo(" in text)
    (tags,) = (text for kind, text in blocks if kind == "html" and "moons.py" in text)
    (own / "moons.py").write_text(program)
    (own / "index.html").write_text(
        f'<!doctype html><link rel="icon" href="pyframe/icon.svg">{tags}'
    )
    tab.page.goto(f"{url}own/")
    found = tab.page.evaluate(
        """async () => {
            const el = document.querySelector("py-frame");
            const { input, output, parameters } = await el.load();
            const { steps } = await el.train({ steps: 3 });
            const { data, shape } = await el.predict(Float32Array.of(0.5, -0.2));
            const sum = data[0] + data[1];
            return { input: input.kind, output: output.kind, parameters, steps, shape, sum };
        }"""
    )
    assert found.pop("sum") == pytest.approx(1)
    wanted = {"input": "points", "output": "plane", "parameters": 1218, "steps": 3, "shape": [1, 2]}
    assert found == wanted


@pytest.mark.parametrize(("name", "gone", "said"), [
    ("start.js", False, "start.js, is missing or was changed; export the page again"),
    ("config.json", False, "config.json is missing or not the file that was exported"),
    ("widgets.js", False, "widgets.js is not the file that was exported: its SHA-256 is another"),
    ("widgets/pad.js", True, "pad.js is missing: for http"),
    ("program/my_model.py", False, "my_model.py is not the file that was exported"),
    ("program/helper.py", True, "helper.py can't be had from http"),
    ("pyframe.tar.gz", False, "pyframe.tar.gz"),
])  # fmt: skip
def test_other_files_are_refused(place: Any, tab: Tab, name: str, gone: bool, said: str) -> None:
    """Code of the page in its text; other parts in the element, and by its event."""
    if name.startswith("program/"):  # which is told before Python is there
        tab.page.route("**/pyodide.asm.wasm", lambda route: None)
    tab.page.goto(place(name.replace("/", "-"), name, gone))
    if name.endswith((".js", ".json")):
        tab.page.wait_for_function("said => document.body.innerText.includes(said)", arg=said)
        assert not tab.page.evaluate("() => Boolean(customElements.get('py-frame'))")
    else:
        refused(tab, said)
    tab.errors.clear()


def test_names_tell_what_is_in_them(exported: Path, tmp_path: Path) -> None:
    """Each file has its digest; another program gives another folder, and Python's stays."""
    (code,), (python,) = exported.glob("pyframe-*"), exported.glob("pyodide-*")
    digests = json.loads((code / "config.json").read_text())["integrity"]
    for path in (path for folder in (code, python) for path in folder.rglob("*")):
        if path.is_file() and path.name != "config.json":
            inside = path.is_relative_to(code)
            name = path.relative_to(code) if inside else f"../{python.name}/{path.name}"
            assert digests[str(name)].split()[0] == sites.integrity(path.read_bytes())
    (tmp_path / "other.py").write_text("def make_model(): ...")
    assert main(["export", f"{tmp_path}/other.py", "--python", "--to", f"{tmp_path}/site"]) == 0
    (other,), (same,) = (tmp_path / "site").glob("pyframe-*"), (tmp_path / "site").glob("pyodide-*")
    assert other.name != code.name
    assert same.name == python.name


def test_from_the_cdn(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    pyodide_files: None,
) -> None:
    """Files from there are checked too, where a local Pyodide tells what they are."""
    folder = serve.pyodide_folder()
    assert folder is not None
    wanted = sites.integrity((folder / "pyodide.asm.wasm").read_bytes())
    (tmp_path / "a.py").write_text("def make_model(): ...")
    command = ["export", f"{tmp_path}/a.py", "--python", "--to", f"{tmp_path}/site"]

    def config() -> dict[str, Any]:
        assert main([*command, "--cdn"]) == 0
        (code,) = (tmp_path / "site").glob("py*-*")
        return json.loads((code / "config.json").read_text())

    digests = config()["integrity"]
    assert digests[f"{serve.PYODIDE_CDN}pyodide.asm.wasm"] == wanted
    # of the CDN's own files: the lock file as npm has it, and none of what PyPI has instead
    known = re.search(r'^LOCK = "(\w+)"', (serve.ROOT / "scripts/get_pyodide").read_text(), re.M)
    assert known is not None
    locked = base64.b64encode(bytes.fromhex(known[1])).decode()
    assert digests[f"{serve.PYODIDE_CDN}pyodide-lock.json"] == f"sha256-{locked}"
    assert not any("micropip" in name for name in digests)

    monkeypatch.setattr(serve, "pyodide_folder", lambda: None)
    assert main(command) == 1
    assert "there is no local Pyodide to put into the site" in capsys.readouterr().err
    assert config()["pyodide"] == serve.PYODIDE_CDN


POINTS = """
import pyframe as pf
from pyframe import nn

pf.manual_seed(0)
x = pf.randn(128, 2)
y = (x[:, 0] > x[:, 1]).long()
net = nn.Sequential(nn.Linear(2, 8), nn.Tanh(), nn.Linear(8, 2))
model = pf.Model(net, nn.CrossEntropyLoss(), pf.optim.Adam(net.parameters(), lr=0.05))
"""
CDN = """<!doctype html>
<meta charset="utf-8">
<link rel="icon" href="data:,">
<output></output>
<script type="module">
import { loadPyodide } from "%spyodide.mjs";

const python = await loadPyodide({ lockFileURL: "pyframe/pyodide/pyodide-lock.json" });
await python.loadPackage(["pyframe", "micropip"]);
const code = `%s
import json, micropip
json.dumps([model.fit(x, y, epochs=3, verbose=0).history["loss"], micropip.__version__])`;
document.querySelector("output").textContent = python.runPython(code);
</script>
"""


def test_pyodide_of_the_cdn_takes_the_package(
    tmp_path: Path, visited: Any, server: Any, pyodide_files: None
) -> None:
    """By a lock file that names NumPy there and pyframe here."""
    folder = serve.pyodide_folder()
    assert folder is not None
    if not serve.installers(folder):
        pytest.skip("micropip is missing beside Pyodide: scripts/get_pyodide gets it from PyPI")
    (tmp_path / "index.html").write_text(CDN % (serve.PYODIDE_CDN, POINTS))
    tab, asked = Tab(visited, server), list[str]()

    def answer(route: Any) -> None:
        asked.append(route.request.url.rsplit("/", 1)[-1])
        route.fulfill(path=folder / asked[-1], headers={"Access-Control-Allow-Origin": "*"})

    tab.page.route(f"{serve.PYODIDE_CDN}*", answer)
    with files(tmp_path) as url:
        command = ["export", "--python", "--cdn", f"--url={url}pyframe"]
        assert main([*command, "--to", str(tmp_path / "pyframe")]) == 0
        tab.url = url
        page = tab.open("index.html")
        text = "() => document.querySelector('output').textContent"
        losses, _ = json.loads(page.wait_for_function(text, timeout=240_000).json_value())
        assert losses[0] > losses[-1]
        tab.close()
    parts = {"pyodide.mjs", "pyodide.asm.js", "pyodide.asm.wasm", "python_stdlib.zip"}
    assert {name for name in asked if not name.startswith("numpy-")} == parts
    assert len(asked) == len(parts) + 1


def test_what_makes_tokens_comes_where_it_is_named(tmp_path: Path) -> None:
    for name, more in {"plain": "", "tokens": "Tokenizer = pf.text.Tokenizer\n"}.items():
        program = tmp_path / f"{name}.py"
        program.write_text(PROGRAM.replace("from helper import WIDTH", "WIDTH = 4") + more)
        site = tmp_path / name
        assert main(["export", str(program), "--python", "--cdn", "--to", str(site)]) == 0
        (folder,) = site.glob("pyframe-*")
        config = json.loads((folder / "config.json").read_text())
        assert config["tokenizers"] == ("tokenizers.js" if more else None)
        assert (folder / "tokenizers.js").is_file() == ("tokenizers.js" in config["integrity"])
        assert ("tokenizers.js" in config["integrity"]) == bool(more)


def test_what_can_not_be_exported(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    program, to = tmp_path / "a.py", f"--to={tmp_path / 'site'}"
    program.write_text("def make_model(): ...")
    for words, why in {
        f"{program} --python --to={tmp_path}": "holds something else; name a folder that may be",
        f"{program} --python --single {to}": "--single is for an export without --python",
        to: "expected a program, as in pyframe export my_model.py",
        f"--python --data digits {to}": "--data is for a program",
        f"{program} --cdn {to}": "--cdn is for --python",
        f"{program} --url=https://a.b/ {to}": "--url is for --python",
        f"{program} --python --cdn --url=https://a.b/ {to}": "is for --cdn without a program",
        f"--python --cdn --url=a.b {to}": "--url is 'a.b'; expected as in --url https://my.site/",
    }.items():
        assert main(["export", *words.split()]) == 1
        assert why in capsys.readouterr().err
    assert not (tmp_path / "site").exists()


# --- the package's two archives


def test_what_is_late_exists_and_is_in_one_archive() -> None:
    names = {name.removesuffix(".py").removesuffix("/__init__").replace("/", ".")
             for name in serve.sources()}  # fmt: skip
    assert not [module for module in late.MODULES if module not in names]
    assert not late.is_late("pyframe.web.late")
    assert late.is_late("pyframe.torch.names")
    assert not late.is_late("pyframe.torchlike")


def test_plain_text_keeps_code_and_lines() -> None:
    text = '''"""Doc
of two lines."""
import x  # why


class A:
    """Only this."""


def f(a="# no comment"):
    """What
    it does."""
    # a comment
    return a, """no docstring"""  # é


def g(): "in its line"


def _h(é: str, *b: int, c: "x" = 1) -> None:
    é: str = é; d: dict[str, int]
    class B:
        e: int = 1
if texts:
    f.__doc__ = texts.complete(f)
from pyframe.ops.api.layouts import texts as _texts
if _texts:
    _texts.fill(globals())
'''
    wanted = '''

import x


class A:
    pass


def f(a="# no comment"):



    return a, """no docstring"""


def g(): "in its line"


def _h(é, *b, c = 1) -> None:
    é = é; pass
    class B:
        e: int = 1





'''
    assert sites.plain(text.encode()).decode() == wanted


# --- scripts/build_web: the site of the demos, behind the plain server

BUILD = [sys.executable, str(serve.ROOT / "scripts" / "build_web")]


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory, pyodide_files: None) -> Path:
    out = tmp_path_factory.mktemp("site") / "web"
    subprocess.run([*BUILD, f"--out={out}"], check=True, capture_output=True)
    return out


def test_what_every_page_loads_is_small(built: Path) -> None:
    config = json.loads((built / "config.json").read_text())
    parts = []
    for name in ("early", "late"):
        with tarfile.open(built / config[name]) as tar:
            parts += tar.getnames()
    assert (built / config["early"]).stat().st_size <= 600_000
    names = [n for n in serve.sources() if not n.startswith(serve.OF_SITES)]
    assert sorted(parts) == names


def test_pyframe_stands_beside_numpy(built: Path) -> None:
    """In Pyodide's folder, in a lock file as Pyodide's own tool wants it."""
    lock = pytest.importorskip("pyodide_lock").PyodideLockSpec.from_json(built / serve.LOCK)
    lock.check_wheel_filenames()
    for name in ("pyframe", "pyframe-webgpu"):
        found = lock.packages[name]
        assert (found.depends, found.imports) == (["numpy"], ["pyframe"])
        data = (built / "pyodide" / found.file_name).read_bytes()
        assert hashlib.sha256(data).hexdigest() == found.sha256
    with zipfile.ZipFile(io.BytesIO(data)) as wheel:
        (record,) = (n for n in wheel.namelist() if n.endswith(".dist-info/RECORD"))
        rows = dict(line.split(",", 1) for line in wheel.read(record).decode().splitlines())
        assert sorted(rows) == sorted(wheel.namelist())


def test_all_that_a_start_of_python_asks_for_is_there(built: Path, tab: Any) -> None:
    """Up to NumPy; those above, of the same files by other names, train."""
    seen: dict[str, int] = {}
    tab.page.on("response", lambda found: seen.update({found.url: found.status}))
    tab.page.route("**/pyodide.asm.wasm", lambda route: None)
    with files(built) as tab.url:
        numpy = tab.page.expect_event("response", lambda found: "/numpy-" in found.url)
        with numpy:
            tab.open("demos/playground.html")
        tab.page.goto("about:blank")
    asked = {url.partition(tab.url)[2]: status for url, status in seen.items()}
    assert {serve.EARLY, "worker.js", "config.json", "examples/playground.py"} <= asked.keys()
    assert set(asked.values()) == {200}


def test_another_folder_is_not_replaced(tmp_path: Path) -> None:
    (tmp_path / "thesis.tex").write_text("x")
    result = subprocess.run([*BUILD, f"--out={tmp_path}"], capture_output=True, text=True)
    assert result.returncode == 1
    assert "holds something else" in result.stderr
    assert (tmp_path / "thesis.tex").exists()
