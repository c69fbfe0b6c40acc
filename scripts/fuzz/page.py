"""Programs in a page: Pyodide in headless Chromium, on WebAssembly or on the page's WebGPU."""

from __future__ import annotations

import atexit
import json
import shutil
import sys
import threading
from pathlib import Path

from pyframe import serve

from .program import Outcome, Program, unpacked

RUN = """
import json
import pyframe as pf
from fuzz.program import from_data, outcome, packed
json.dumps(packed(outcome(pf, from_data(json.loads({text!r})), {device!r}, pf.compile)))
"""


class Page:
    """A browser, a server, and a page with Python in it, until the process ends."""

    def __init__(self) -> None:
        sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "tests"))
        try:
            from playwright.sync_api import sync_playwright
            from web.conftest import CHROMIUM, FLAGS, PythonPage, Tab
        finally:
            del sys.path[0]
        path = next(filter(None, map(shutil.which, CHROMIUM)), None)
        if path is None or serve.pyodide_folder() is None:
            raise SystemExit("the page needs Chromium, and Pyodide from scripts/get_pyodide")
        server = serve.Server("127.0.0.1", 0)
        threading.Thread(target=server.serve_forever, daemon=True).start()
        playwright = sync_playwright().start()
        browser = playwright.chromium.launch(executable_path=path, args=FLAGS)
        for end in (server.shutdown, playwright.stop, browser.close):  # the last is called first
            atexit.register(end)
        self.page = PythonPage(Tab(browser, server))
        for name in ("__init__", "nets", "program"):
            file = Path(__file__).parent / f"{name}.py"
            self.page.put(f"fuzz/{name}.py", file.read_text("utf-8"))

    def run(self, program: Program, device: str) -> Outcome:
        """What a program gives there."""
        text = RUN.format(text=json.dumps(program.as_data()), device=device)
        return unpacked(json.loads(self.page.run(text)))
