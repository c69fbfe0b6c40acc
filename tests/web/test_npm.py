"""scripts/pack_npm: what a page is that Vite has built with nothing but the package from npm."""

from __future__ import annotations

import json
import re
import runpy
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import pyframe as pf
from pyframe import nn, optim, serve
from pyframe.web import Demo, Points, Values, exporter

from .conftest import Tab, files
from .test_export import corners

OTHERS = ("vite@8", "react@19", "react-dom@19", "vue@3", "typescript@5", "@types/react@19")
TYPED = {  # with what type checkers are to take, and to refuse
    "page.tsx": """
import "pyframe";
import "pyframe/widgets";
import type { PyFrame } from "pyframe";

export const page = <py-frame src="a.py" height={300} autotrain epochs={1} className="wide"
  onstep={(event) => event.detail.loss.toFixed(3)} ontrained={(event) => event.detail.stopped}>
  <img slot="poster" alt="" /><pf-chart id="loss" metrics="accuracy" /></py-frame>;
// @ts-expect-error
export const odd = <py-frame device="tpu" />;

export async function ask(el: PyFrame, canvas: HTMLCanvasElement, file: File) {
  await el.train({ x: [canvas, file], y: [0, 1] });
  // @ts-expect-error
  await el.train({ epoch: 3 });
  return (await el.predict(canvas)).data[0] + (await el.predict([[1, 2], [3, 4]])).shape[0];
}
""",
    "plain.ts": """
import "pyframe";
document.querySelector("py-frame")!.train({ steps: 1 }).then(({ stopped }) => stopped);
""",
}
OFFLINE = "--no-audit --no-fund --ignore-scripts --prefer-offline --fetch-retries=0".split()
POLICY = (  # the README's
    "default-src 'none'; script-src 'self' 'wasm-unsafe-eval'; worker-src 'self'; "
    "style-src 'self'; connect-src 'self'; img-src 'self' data: blob:"
)
PAGE = """<!doctype html><html lang="en"><title>A page</title><link rel="icon" href="data:,">
<div id="app"></div><script type="module" src="/{script}"></script>
"""
SCRIPTS = {
    "element.js": 'import "pyframe";',
    "player.js": 'import { Player } from "pyframe/player"; globalThis.Player = Player;',
}
# A late module of pyframe, and a data set of the package.
PROGRAM = """
import gzip
from pathlib import Path

import pyframe as pf
from pyframe import nn, optim
from pyframe.distributions import Normal


def make_model():
    net = nn.Linear(2, 1)
    return pf.Model(net, nn.MSELoss(), optim.SGD(net.parameters(), lr=0.01))


def load_data():
    with gzip.open(Path(__file__).parent / "data/tinyshakespeare.txt.gz", "rt") as text:
        x = Normal(pf.zeros(len(text.read(64)), 2), 1.0).sample()
    return x, x.sum(1, keepdim=True)
"""


def lean() -> pf.Model:
    net = nn.Linear(2, 2)
    return pf.Model(net, nn.MSELoss(), optim.SGD(net.parameters(), lr=0.1))


def run(*command: str | Path, at: Path | None = None) -> subprocess.CompletedProcess[str]:
    done = subprocess.run([str(c) for c in command], cwd=at, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    return done


@pytest.fixture(scope="module")
def packed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    if shutil.which("npm") is None:
        pytest.skip("npm is not installed")
    out = tmp_path_factory.mktemp("npm")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sys, "argv", ["pack_npm", f"--out={out}"])
        runpy.run_path(str(serve.ROOT / "scripts" / "pack_npm"), run_name="__main__")
    return out / f"pyframe-{pf.__version__}.tgz"


@pytest.fixture(scope="module")
def project(packed: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the package, Vite, TypeScript, and a page for each script."""
    folder = tmp_path_factory.mktemp("project")
    (folder / "package.json").write_text('{"type": "module", "private": true}')
    command = ["npm", "install", *OFFLINE, str(packed), *OTHERS]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True)
    if done.returncode:
        pytest.skip(f"npm lacks something here: {done.stderr.splitlines()[-1:]}")
    for path in (serve.ROOT / "examples" / "web").iterdir():
        shutil.copy(path, folder)
    for script, text in SCRIPTS.items():
        (folder / script).write_text(text)
    for script in (*SCRIPTS, "react.jsx", "vue.js"):
        (folder / Path(script).with_suffix(".html")).write_text(PAGE.format(script=script))
    demo = Demo(lean, Points(2), Values(("a", "b")), data=corners, batch_size=4, title="Corners")
    exporter.export(demo, to=folder / "public" / "moons")
    (folder / "public" / "program.py").write_text(PROGRAM)
    return folder


def test_types(project: Path, tmp_path: Path) -> None:
    """Of React's TSX, and where there is no React."""
    modules = tmp_path / "node_modules"
    modules.mkdir()
    (modules / "pyframe").symlink_to(project / "node_modules" / "pyframe")
    options = "--noEmit --strict --target es2022 --module esnext --moduleResolution bundler".split()
    options += ["--jsx", "react-jsx", "--preserveSymlinks"]
    for folder, name in ((project, "page.tsx"), (tmp_path, "plain.ts")):
        (folder / name).write_text(TYPED[name])
        run(project / "node_modules/.bin/tsc", *options, name, at=folder)


def build(project: Path, *scripts: str) -> Path:
    """What Vite makes of some of the pages."""
    pages = [Path(script).with_suffix(".html").name for script in scripts]
    options = {"build": {"rollupOptions": {"input": pages}, "outDir": f"dist-{pages[0][:-5]}"}}
    (project / "vite.config.js").write_text(f"export default {json.dumps(options)};")
    run(project / "node_modules/.bin/vite", "build", at=project)
    return project / f"dist-{pages[0][:-5]}"


@pytest.fixture(scope="module")
def site(project: Path) -> Iterator[str]:
    """The built pages with the README's policy; the server does what Vite's does with .gz files."""
    built = build(project, "element.js", "react.jsx", "vue.js")
    if pyodide := serve.pyodide_folder():
        (built / "pyodide").symlink_to(pyodide)
    for name, version in {"other": "0.0.1", "workerless": pf.__version__}.items():
        (built / name).mkdir()
        (built / name / "config.json").write_text(json.dumps({"version": version}))

    def headers(path: str) -> dict[str, str]:
        packed = {"Content-Encoding": "gzip"} if path.endswith(".gz") else {}
        return {"Content-Security-Policy": POLICY, **packed}

    with files(built, headers) as url:
        yield url


def start(tab: Tab, **attributes: str) -> Any:
    """Train an element with these attributes for a step; what it says then."""
    return tab.page.evaluate(
        """async (attributes) => {
            await customElements.whenDefined("py-frame");
            const el = document.createElement("py-frame");
            for (const [name, value] of Object.entries(attributes)) el.setAttribute(name, value);
            document.body.append(el);
            const { steps, loss } = await el.train({ steps: 1 });
            const { shape } = await el.predict([0.25, 0.75]);
            return { steps, shape, finite: Number.isFinite(loss), engine: el.spec.engine };
        }""",
        attributes,
    )


def test_the_element_with_python(site: str, tab: Tab, pyodide_files: None) -> None:
    """The package's archives, a data set and the worker come from beside the bundle."""
    asked: list[str] = []
    tab.page.on("request", lambda request: asked.append(request.url.removeprefix(site)))
    tab.page.goto(f"{site}element.html")
    found = start(tab, src="program.py", data="tinyshakespeare", pyodide="/pyodide/", device="cpu")
    assert found == {"steps": 1, "shape": [1, 1], "finite": True, "engine": "python"}
    tab.page.evaluate("() => document.querySelector('py-frame').remove()")
    parts = {name.split("-")[0].split("/")[-1] for name in asked if name.startswith("assets/")}
    assert {"worker", "python", "pyframe", "tinyshakespeare.txt"} <= parts
    assert [name for name in asked if "config.json" in name] == []


@pytest.mark.parametrize(("base", "said"), {
    "workerless": "The worker could not start from {site}workerless/worker.js: is the file there",
    "missing": "There is no config.json in {site}missing/: base=",
    "other": "In {site}other/ are the files of pyframe 0.0.1, and this page has pyframe ",
}.items())  # fmt: skip
def test_a_folder_that_does_not_fit(site: str, tab: Tab, base: str, said: str) -> None:
    tab.page.goto(f"{site}element.html")
    with pytest.raises(Exception, match=re.escape(said.format(site=site))):
        start(tab, src="program.py", base=base)
    assert said.format(site=site) in tab.page.locator("py-frame [part=error-message]").inner_text()
    tab.errors.clear()


@pytest.mark.parametrize("page", ["react", "vue"])
def test_frameworks(site: str, tab: Tab, page: str) -> None:
    """The examples: an element that a framework makes, which trains without Python and is heard."""
    tab.page.goto(f"{site}{page}.html")
    tab.page.wait_for_function(
        "() => document.querySelector('output')?.innerText.startsWith('Its loss is ')"
    )
    assert tab.page.locator("py-frame [part=title]").inner_text() == "Corners"


def test_the_player_alone(project: Path, tab: Tab) -> None:
    """Nothing of the element and of Python is in its bundle; it is one script."""
    built = build(project, "player.js")
    (script,) = (path for path in (built / "assets").iterdir() if "player" in path.name)
    text = script.read_text()
    assert "pyframe-program" in text
    for word in ("pyodide", "py-frame", "worker.js", "customElements"):
        assert word not in text.lower(), word
    assert {path.suffix for path in (built / "assets").iterdir()} == {".js"}
    assert len(script.read_bytes()) < 50_000
    with files(built) as url:
        tab.page.goto(f"{url}player.html")
        found = tab.page.evaluate(
            """async () => {
                const player = await Player.open("moons/");
                player.run("predict.1", [0.25, 0.75]);
                return (await player.results("predict.1")).y.shape;
            }"""
        )
    assert found == [1, 2]


def test_what_is_in_the_package(packed: Path) -> None:
    """Types for each entry, and each data set that a bundle can have."""
    package = packed.parent / "package"
    about = json.loads((package / "package.json").read_text())
    for paths in about["exports"].values():
        for path in paths.values() if isinstance(paths, dict) else [paths]:
            assert (package / path).is_file()
    start = (package / "npm.js").read_text()
    assert f'version: "{pf.__version__}"' in start
    for known in serve.datasets().values():
        assert all(f'"./{name}' in start for name in known)
    assert "## One tag, in any page" in (package / "README.md").read_text()
