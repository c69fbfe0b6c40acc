"""What a browser has of what pyframe uses, and how the table of docs/engines.md is made of that and
of the tests that scripts/test_elsewhere ran: the suite itself does not collect this file."""

from __future__ import annotations

import xml.etree.ElementTree as ET
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyframe as pf
from pyframe import serve

ROOT = Path(__file__).parents[2]
REPORTS, PAGE = ROOT / "build" / "elsewhere", ROOT / "docs" / "engines.md"
COLUMNS = {
    "chromium": "Chromium {}",
    "firefox": "Firefox {} without WebGPU and JSPI",
    "firefox-gpu": "Firefox {} with both",
    "webkit": "WebKitGTK {}",
}
ROWS = {
    "test_widgets": "every widget, by mouse and keys",
    "test_demos": "every demo of the gallery",
    "test_element": "`<py-frame>` in a page",
    "test_export_cpu": "exports without Python, in WebAssembly",
    "test_export": "exports without Python, on WebGPU",
    "test_onnx_in_page": "ONNX files as pages",
    "test_writing": "language models as pages",
    "test_ops_in_page": "a row for each op",
}
HAS = """async () => {
    const adapter = await navigator.gpu?.requestAdapter().catch(() => null);
    return {
        webgpu: Boolean(adapter), half: Boolean(adapter?.features.has("shader-f16")),
        subgroups: Boolean(adapter?.features.has("subgroups")),
        jspi: "Suspending" in WebAssembly, shared: self.crossOriginIsolated,
    };
}"""
ISOLATED = {"Cross-Origin-Opener-Policy": "same-origin",
            "Cross-Origin-Embedder-Policy": "require-corp"}  # fmt: skip
HEAD = """# Browsers

pyframe's pages run in each of these engines, and tell the visitor what one lacks. Without
WebGPU the page computes on the CPU, in WebAssembly on one core. Without JSPI and shared memory
a program can read values of a GPU only by `await t.item_async()`. `bash scripts/test_elsewhere`
runs the tests and writes this table: "36 of 36" means that all 36 tests passed that ran. Those
in brackets were skipped, as they need a GPU, or something that the browser's test driver can't
do.

"""


def test_what_it_has(browser: Any, tmp_path: Path, record_testsuite_property: Any) -> None:
    from .conftest import BLANK, Tab, files

    (tmp_path / "index.html").write_text(BLANK)
    for name, headers in {"": {}, "isolated ": ISOLATED}.items():
        with files(tmp_path, lambda _, headers=headers: headers) as url:
            tab = Tab(browser, type("Site", (), {"url": url}))
            has = tab.open("index.html").evaluate(HAS)
            tab.close()
        for key, value in has.items():
            record_testsuite_property(name + key, "yes" if value else "no")
        assert has["shared"] == bool(name)
    record_testsuite_property("version", browser.version)


def test_what_it_lacks_is_told(browser: Any, server: serve.Server, pyodide_files: None) -> None:
    """The page says who computes, and what is missing."""
    from .conftest import Tab
    from .test_demos import call, opened

    tab = Tab(browser, server)
    page = opened(tab, "digits")
    gpu = page.evaluate("async () => Boolean(await navigator.gpu?.requestAdapter())")
    told = page.evaluate(
        """() => document.querySelector("py-frame").move("gpu").then(() => "", (e) => e.message)"""
    )
    assert gpu or told == "This browser offers no WebGPU; the CPU does the arithmetic."
    if gpu:
        done = call(page, "train", {"epochs": 1, "limit": 3 * 64})
        assert (done["steps"], done["loss"] < 2.4) == (3, True)
        assert "WebGPU" in page.locator("py-frame [part=device-name]").inner_text()
    call(page, "move", "cpu")
    assert "WebAssembly" in page.locator("py-frame [part=device-name]").inner_text()
    tab.close()


def test_a_photo_is_looked_at(browser: Any, server: serve.Server, tmp_path: Path) -> None:
    """The demo of photos, by a network that knows nothing: its weights are no part of this."""
    from .conftest import Tab
    from .test_demos import example, opened

    pf.manual_seed(0)
    pf.web.export(example("photo")["demo"], to=tmp_path, train=False, element=False)
    tab = Tab(browser, server)
    tab.page.route(
        "**/photo/*", lambda route: route.fulfill(path=tmp_path / route.request.url.split("/")[-1])
    )
    page = opened(tab, "photo")
    page.locator(".photos button").nth(1).click()
    page.wait_for_function(
        """() => {
            const { shadowRoot } = document.querySelector("py-frame");
            const bars = shadowRoot.querySelector("pf-bars").shadowRoot;
            return bars.querySelector("[part~=best]") !== null;
        }"""
    )
    tab.close()


def reports() -> dict[str, tuple[dict[str, str], Callable[[str], str]]]:
    """By the names of COLUMNS: what a browser has, and of a file how many of its tests passed."""
    found = {}
    for name in COLUMNS:
        if not (REPORTS / f"{name}.xml").is_file():
            continue
        suite = ET.parse(REPORTS / f"{name}.xml").getroot()
        has = {p.get("name", ""): p.get("value", "") for p in suite.iter("property")}
        seen: Counter[tuple[str, str]] = Counter()
        for case in suite.iter("testcase"):
            wrong = [child.tag for child in case if child.tag in ("skipped", "failure", "error")]
            kind = wrong[0] if wrong else "passed"
            seen[case.get("classname", "").rpartition(".")[2], kind] += 1

        def passed(file: str, seen: Counter[tuple[str, str]] = seen, name: str = name) -> str:
            good, left = seen[file, "passed"], seen[file, "skipped"]
            ran = good + seen[file, "failure"] + seen[file, "error"]
            if not ran + left:
                return "with the whole suite" if name == "chromium" else "–"
            return f"{good} of {ran}" + (f" ({left})" if left else "")

        found[name] = has, passed
    return found


def main() -> None:
    """Write the table."""
    found = reports()
    if missing := [name for name in COLUMNS if name not in found]:
        print(f"docs/engines.md stays: there is no run of {', '.join(missing)}")
        return

    def told(of: Callable[[dict[str, str]], str]) -> list[str]:
        return [of(has) for has, _ in found.values()]

    rows = {"what": [COLUMNS[name].format(has["version"]) for name, (has, _) in found.items()]}
    rows["WebGPU"] = told(lambda has: has["webgpu"])
    rows["`shader-f16`"] = told(lambda has: has["half"])
    rows["`subgroups`"] = told(lambda has: has["subgroups"])
    rows["JSPI"] = told(lambda has: has["jspi"])
    rows["shared memory in an isolated page"] = told(lambda has: has["isolated shared"])
    rows |= {title: [passed(file) for _, passed in found.values()] for file, title in ROWS.items()}
    lines = [f"| {' | '.join([title, *cells])} |" for title, cells in rows.items()]
    lines.insert(1, "| --- " * (len(found) + 1) + "|")
    PAGE.write_text(HEAD + "\n".join(lines) + "\n")
    print(f"Wrote {PAGE.relative_to(ROOT)}")


if __name__ == "__main__":
    main()
