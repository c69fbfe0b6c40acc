"""pyframe in notebooks: the same file in Jupyter and in JupyterLite's Pyodide kernel.

    import pyframe as pf
    await pf.web.notebook.connect()          # in a page: gives Python the GPU; natively nothing
    pf.web.notebook.frame("points.py")       # a cell that shows <py-frame>

In JupyterLite `%pip install <address of pyframe's wheel>` comes first, unless pyframe stands in the
lock file of its Pyodide.
"""

from __future__ import annotations

import asyncio
import html
import json
import re
import threading
from collections.abc import Coroutine, Sequence
from importlib import metadata
from pathlib import Path
from typing import Any
from urllib.parse import urljoin

from pyframe.core import devices
from pyframe.core.extras import DISTRIBUTION

__all__ = ["Frame", "connect", "frame", "run"]

STATIC = Path(__file__).parent / "static"  # of a wheel

PAGE = """<!doctype html>
<meta charset="utf-8">
<meta name="color-scheme" content="light dark">
<body style="margin: 0">
<script type="module">
import {script};
const frame = document.createElement("py-frame");
for (const [name, value] of Object.entries({attributes})) frame.setAttribute(name, value);
const source = {source};
if (source !== null) frame.source = source;
document.body.append(frame);
</script>
"""

_servers: dict[tuple[Any, ...], str] = {}  # what is served -> its URL


async def connect() -> str:
    """Give this Python the page's GPU, where it runs in a page that has not done so: the name of
    the device that "auto" then is. Natively there is nothing to do.

    A page without a GPU leaves pyframe on the CPU; use of device 'gpu' says why.
    """
    if devices.in_browser():
        import js

        if getattr(js, "pyframeRuntime", None) is None and STATIC.is_dir():
            await _load_runtime()
            devices._auto.cache_clear()
    return str(devices.device("auto"))


async def _load_runtime() -> None:
    """Make js.pyframeRuntime with the runtime.js and remote.js that the wheel carries."""
    import js
    from pyodide.code import run_js
    from pyodide.ffi import to_js

    def url(text: str) -> str:
        options = to_js({"type": "text/javascript"}, dict_converter=js.Object.fromEntries)
        return str(js.URL.createObjectURL(js.Blob.new(to_js([text]), options)))

    runtime = url((STATIC / "runtime.js").read_text(encoding="utf-8"))
    remote = (STATIC / "remote.js").read_text(encoding="utf-8")
    whole = remote.replace('"./runtime.js"', json.dumps(runtime))  # a blob lies in no folder
    module = await run_js("(url) => import(url)")(url(whole))
    js.pyframeRuntime = await module.createRuntimeFor()


def run(coroutine: Coroutine[Any, Any, Any]) -> Any:
    """What `await coroutine` gives, where Python takes no `await`: in a function, or in a cell that
    became a line of a script. Raises RuntimeError where the page can't wait inside Python."""
    twin = f"{getattr(coroutine, '__name__', 'run')}(…)"
    if devices.in_browser():
        return devices.wait(coroutine, devices.device("gpu"), twin)
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return asyncio.run(coroutine)
    return devices.run_sync(coroutine, twin)  # within Jupyter's own loop


class Frame:
    """What a cell shows as a <py-frame>: `url` is its page's, or `page` the page itself."""

    def __init__(self, title: str, height: int, url: str = "", page: str = "") -> None:
        self.title, self.height, self.url, self.page = title, height, url, page

    def _repr_html_(self) -> str:
        name, text = ("src", self.url) if self.url else ("srcdoc", self.page)
        style = f"width: 100%; height: {self.height}px; border: 0; color-scheme: light dark"
        title = html.escape(self.title)
        return f'<iframe title="{title}" style="{style}" {name}="{html.escape(text)}"></iframe>'

    def __repr__(self) -> str:
        return f"<py-frame of {self.title}{f' at {self.url}' if self.url else ''}>"


def frame(
    program: str | Path, *, base: str | None = None, data: str | Sequence[str] = (),
    weights: str | Path | None = None, height: int = 680, **attributes: Any,
) -> Frame:  # fmt: skip
    """A cell that shows a program as <py-frame>.

    `base` is the address of the folder that pyframe.js lies in (what `scripts/build_web` writes).
    `program`, `weights` and the names of `files` are relative to it; a `program` that is a file
    here is taken from here. Without `base` Jupyter serves the program itself, on this computer;
    JupyterLite takes the folder that pyframe's wheel came from. The other attributes are
    <py-frame>'s: `epochs=5`, `autotrain=True`.

    Raises ValueError where there is no base to be found, and ProgramError, a ValueError, for a file
    that is no program.
    """
    names = [data] if isinstance(data, str) else [*data]
    if base is None and not devices.in_browser():
        if attributes:
            raise ValueError(
                f"frame: {', '.join(attributes)} need base=, the address of the folder that "
                "pyframe.js lies in; without it the program is served with its own page"
            )
        url = _served(Path(program), names, Path(weights) if weights else None)
        return Frame(Path(program).name, height, url=url)
    if base is None:
        base = _origin()
    base = base if base.endswith("/") else f"{base}/"
    given = {"data": names, "weights": str(weights) if weights else None, **attributes}
    path = Path(program)
    source = path.read_text(encoding="utf-8") if path.is_file() else None
    return Frame(path.name, height, page=_page(base, str(program), source, given))


def _page(base: str, program: str, source: str | None, given: dict[str, Any]) -> str:
    """The text of a page with the element; a text of the program stands for the file at its URL."""
    attributes = {"src": urljoin(base, Path(program).name if source is not None else program)}
    for name, value in given.items():
        if value is None or value is False or value == []:
            continue
        words = [value] if isinstance(value, str) or not isinstance(value, Sequence) else value
        if name in ("weights", "files"):
            words = [urljoin(base, word) for word in " ".join(words).split()]
        attributes[name] = "" if value is True else " ".join(map(str, words))
    values = {"script": f"{base}pyframe.js", "attributes": attributes, "source": source}
    text = {name: json.dumps(value).replace("<", "\\u003c") for name, value in values.items()}
    return re.sub(r"\{(script|attributes|source)\}", lambda found: text[found[1]], PAGE)


def _served(path: Path, data: list[str], weights: Path | None) -> str:
    """The address of the page of a program, which a thread of this process serves."""
    from pyframe import serve
    from pyframe.web.source import PageProgram

    program = PageProgram(path, data, weights, serve.DATASETS)
    key = path.resolve(), tuple(data), weights
    if key not in _servers:
        server = serve.Server("127.0.0.1", 0, program, framed_by=serve.NOTEBOOKS)
        threading.Thread(target=server.serve_forever, daemon=True).start()
        _servers[key] = server.url
    return _servers[key]


def _origin() -> str:
    """The folder of the site that pyframe's wheel was installed from, in which it lies beside
    NumPy."""
    try:
        package = metadata.distribution(DISTRIBUTION)
    except metadata.PackageNotFoundError:
        url = None
    else:
        url = package.read_text("PYODIDE_URL")  # micropip's
        if not url and package.read_text("PYODIDE_SOURCE") == "pyodide":  # by Pyodide's lock file
            import pyodide_js

            url = str(pyodide_js._api.config.indexURL)
    if not url:
        raise ValueError(
            "frame: expected base=, the address of the folder that pyframe.js lies in, such as "
            "base='https://example.org/pyframe/'"
        )
    folder = urljoin(url.strip(), ".")
    return urljoin(folder, "..") if folder.endswith("/pyodide/") else folder
