"""pyframe in notebooks: Jupyter, and a Pyodide kernel that has the package and nothing else."""

from __future__ import annotations

import asyncio
import html
import re
import urllib.request
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

import pyframe as pf
from pyframe import serve
from pyframe.web import notebook

from . import wasm_modules
from .conftest import BLANK, Tab, files

POINTS = '''"""Two classes of points."""
import pyframe as pf
from pyframe import nn
from pyframe.web import Demo, Plane, Points

def make_model():
    net = nn.Sequential(nn.Linear(2, 8), nn.Tanh(), nn.Linear(8, 2))
    return pf.Model(net, nn.CrossEntropyLoss(), pf.optim.Adam(net.parameters(), lr=0.05))

def load_data():
    x = pf.rand(32, 2) * 2 - 1
    return x, (x[:, 0] > 0).long()

demo = Demo(make_model, Points(classes=2), Plane(), data=load_data, title="Points </script>")
'''

# As JupyterLite's kernel: a worker with a Pyodide of its own that runs cells by their text.
KERNEL = """
let python;
self.onmessage = async ({ data: { url, cell } }) => {
  try {
    if (url) {
      const { loadPyodide } = await import(`${url}pyodide/pyodide.mjs`);
      python = await loadPyodide({ indexURL: `${url}pyodide/` });
      await python.loadPackage("pyframe", { messageCallback: () => {} });
    }
    const value = await python.runPythonAsync(cell);
    self.postMessage({ value: value?.toJs?.({ dict_converter: Object.fromEntries }) ?? value });
  } catch (error) {
    self.postMessage({ error: error.message });
  }
};
"""


class Kernel:
    """A page with such a worker."""

    def __init__(self, tab: Tab) -> None:
        tab.page.route(
            "**/kernel.js",
            lambda route: route.fulfill(body=KERNEL, content_type="text/javascript"),
        )
        self.page = tab.open("blank")
        self.page.evaluate("""() => { self.kernel = new Worker("kernel.js"); }""")
        self._send(url=tab.url, cell="None")

    def run(self, cell: str) -> Any:
        """Run a cell; its last line's value."""
        return self._send(cell=cell)

    def _send(self, **message: str) -> Any:
        return self.page.evaluate(
            """message => new Promise((resolve, reject) => {
                kernel.onmessage = ({ data: { value, error } }) => {
                    error ? reject(new Error(error)) : resolve(value);
                };
                kernel.postMessage(message);
            })""",
            message,
        )


@pytest.fixture(scope="module")
def kernel(browser: Any, server: serve.Server, pyodide_files: None) -> Iterator[Kernel]:
    tab = Tab(browser, server)
    kernel = Kernel(tab)
    kernel.run("import pyframe as pf\nfrom pyframe import nn")
    with pytest.raises(
        Exception, match=r"not opened its GPU.*await pf\.web\.notebook\.connect\(\)"
    ):
        kernel.run("pf.ones(2, device='gpu')")
    yield kernel
    tab.close()


def test_a_kernel_gets_the_gpu(kernel: Kernel) -> None:
    auto = kernel.run("await pf.web.notebook.connect()")
    software = kernel.run("pf.device('gpu').backend.software")
    assert auto == ("cpu" if software else "gpu")
    kernel.run("import js\nruntime = js.pyframeRuntime")
    assert kernel.run("await pf.web.notebook.connect()\nruntime.stats().buffers > 0") is False
    assert kernel.run("(pf.arange(4, device='gpu') + 1).tolist()") == [1, 2, 3, 4]


def test_a_kernel_trains(kernel: Kernel) -> None:
    kernel.run(
        "await pf.web.notebook.connect()\n"
        "pf.manual_seed(0)\n"
        "x = pf.randn(128, 2)\n"
        "y = (x[:, 0] > x[:, 1]).long()\n"
        "net = nn.Sequential(nn.Linear(2, 8), nn.Tanh(), nn.Linear(8, 2))\n"
        "model = pf.Model(net, nn.CrossEntropyLoss(), pf.optim.Adam(net.parameters(), lr=0.05))"
    )
    first = kernel.run("h = await model.fit_async(x, y, epochs=4, device='gpu'); h.history['loss']")
    later = kernel.run("model.fit(x, y, epochs=4, device='gpu').history['loss']")
    assert first[0] > first[-1] > later[-1]
    assert kernel.run("pf.web.notebook.run(pf.ones(2, device='gpu').tolist_async())") == [1, 1]


def test_webassembly_finds_the_memory_of_a_kernel(kernel: Kernel) -> None:
    """Of a Pyodide that a page has loaded itself."""
    source = Path(wasm_modules.__file__).read_text()
    kernel.run(f"open('wasm_modules.py', 'w').write({source!r})")
    assert kernel.run("import wasm_modules; wasm_modules.in_place()") == "changed"


def test_a_cell_shows_a_program(kernel: Kernel, tab: Tab) -> None:
    """A program that is written in the kernel, in the element of the folder the wheel lies in."""
    kernel.run(f"open('points.py', 'w').write({POINTS!r})")
    shown = kernel.run(
        "pf.web.notebook.frame('points.py', device='cpu', loading='eager')._repr_html_()"
    )
    page = tab.open("blank")
    page.evaluate("text => document.body.insertAdjacentHTML('beforeend', text)", shown)
    frame = page.frame_locator("iframe").locator("py-frame")
    loss = frame.evaluate("async (el) => (await el.train({ steps: 2 })).loss", timeout=120_000)
    assert loss > 0
    assert frame.evaluate("el => el.source") == POINTS
    assert frame.evaluate("el => el.spec.title") == "Points </script>"
    kernel.run(  # as micropip does
        "from importlib import metadata\n"
        "path = metadata.distribution('pyframe-webgpu')._path\n"
        "path.joinpath('PYODIDE_URL').write_text('https://a.org/wheels/pyframe.whl')"
    )
    assert "https://a.org/wheels/pyframe.js" in kernel.run(
        "pf.web.notebook.frame('points.py').page"
    )
    kernel.run("for name in 'URL', 'SOURCE': path.joinpath(f'PYODIDE_{name}').unlink()")
    with pytest.raises(Exception, match="frame: expected base=, the address of the folder that"):
        kernel.run("pf.web.notebook.frame('points.py')")


def test_jupyter_serves_a_program(
    tab: Tab, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without base= the program's own page is served by this process, once; notebooks of this
    computer show it, and no page shows what `pyframe serve` serves."""
    monkeypatch.chdir(tmp_path)
    Path("points.py").write_text(POINTS)
    shown = notebook.frame("points.py", height=500)
    assert notebook.frame(Path("points.py")).url == shown.url
    style = r'style="[^"]*height: 500px[^"]*"'
    text = rf'<iframe title="points.py" {style} src="http[^"]+"></iframe>'
    assert re.fullmatch(text, shown._repr_html_())
    with urllib.request.urlopen(f"{shown.url}program/points.py") as answer:
        assert answer.read().decode() == POINTS
    assert repr(shown) == f"<py-frame of points.py at {shown.url}>"

    found = []
    (tmp_path / "index.html").write_text(BLANK)  # the page of a notebook
    with files(tmp_path) as url:
        for host in ("127.0.0.1", "localhost"):
            tab.page.goto(url.replace("127.0.0.1", host))
            for src in (f"{shown.url}style.css", f"{tab.url}style.css"):
                frame = tab.page.evaluate_handle(
                    """(src) => new Promise((resolve) => {
                        const frame = Object.assign(document.createElement("iframe"), { src });
                        frame.onload = () => resolve(frame);
                        document.body.append(frame);
                    })""",
                    src,
                )
                found.append(frame.as_element().content_frame().url == src)
    assert found == [True, False, True, False]
    assert all("frame-ancestors" in text for text in tab.errors)
    assert len(tab.errors) == 2
    tab.errors.clear()


def test_a_frame_from_elsewhere() -> None:
    shown = notebook.frame(
        "a&b.py", base="https://example.org/pf", data="digits", weights="w.safetensors",
        files="one.py two.py", epochs=3, autotrain=True, loading=None,
    )  # fmt: skip
    text = shown._repr_html_()
    page = html.unescape(re.fullmatch(r'<iframe .*srcdoc="([^"]*)"></iframe>', text)[1])
    assert page == shown.page
    assert 'import "https://example.org/pf/pyframe.js";' in page
    for name, value in {
        "src": "https://example.org/pf/a&b.py", "data": "digits",
        "weights": "https://example.org/pf/w.safetensors", "epochs": "3", "autotrain": "",
        "files": "https://example.org/pf/one.py https://example.org/pf/two.py",
    }.items():  # fmt: skip
        assert f'"{name}": "{value}"' in page
    assert "loading" not in page
    with pytest.raises(ValueError, match="frame: epochs need base=, the address of the folder"):
        notebook.frame("a.py", epochs=3)
    with pytest.raises(ValueError, match=r"there is no file a\.py"):
        notebook.frame("a.py")


def test_run_is_await() -> None:
    """In a script it has a loop of its own; in Jupyter, whose loop runs, pyframe needs none."""

    async def later() -> list[float]:
        await asyncio.sleep(0)
        await asyncio.to_thread(int)
        return await pf.ones(2).tolist_async()

    async def jupyter() -> list[float]:
        with pytest.raises(RuntimeError, match=r"event loop: use `await later\(…\)`"):
            notebook.run(later())
        return notebook.run(pf.zeros(2).tolist_async())

    with ThreadPoolExecutor(1) as thread:  # this one has Playwright's loop
        assert thread.submit(notebook.run, later()).result() == [1, 1]
        assert thread.submit(asyncio.run, jupyter()).result() == [0, 0]
        assert thread.submit(asyncio.run, notebook.connect()).result() == str(pf.device("auto"))
