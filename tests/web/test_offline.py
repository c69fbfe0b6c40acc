"""Exported pages that were visited, without a network."""

from __future__ import annotations

import os
import re
import time
from pathlib import Path
from typing import Any

import pytest

from pyframe.cli import main

from .conftest import Tab, files

PROGRAM = '''"""Halves of a square."""
import pyframe as pf
from pyframe import nn
from pyframe.web import Demo, Points, Values

def make_model():
    net = nn.Linear(2, 2)
    return pf.Model(net, nn.CrossEntropyLoss(), pf.optim.SGD(net.parameters(), lr=0.1))

def load_data():
    x = pf.rand(16, 2)
    return x, (x[:, 0] > 0.5).long()

demo = Demo(make_model, Points(2), Values(["left", "right"]), data=load_data, title="Halves")
'''
# Until one version is kept, and another one than before if there was one.
KEPT = """async (before) => {
    for (;;) {
        const kept = (await caches.keys()).filter((name) => name.startsWith("pyframe-offline"));
        const { active, installing } = await navigator.serviceWorker.ready;
        if (!installing && active.state === "activated" && kept.length === 1 && kept[0] !== before)
            return kept[0];
        await new Promise((resolve) => setTimeout(resolve, 20));
    }
}"""
STEP = """async (el) => {
    await customElements.whenDefined("py-frame");
    await el.ready;
    return (await el.train({ steps: 1 })).loss;
}"""


GONE = re.compile("ERR_(CONNECTION_(REFUSED|RESET|CLOSED|ABORTED)|EMPTY_RESPONSE)")


@pytest.fixture
def program(tmp_path: Path) -> Path:
    (tmp_path / "halves.py").write_text(PROGRAM)
    return tmp_path / "halves.py"


@pytest.mark.parametrize("options", [[], ["--python"]], ids=["exported", "python"])
def test_a_visited_page_works_without_its_server(
    options: list[str], program: Path, browser: Any, server: Any, request: pytest.FixtureRequest
) -> None:
    if options:
        request.getfixturevalue("pyodide_files")
    site = program.parent / "site"
    assert main(["export", str(program), "--to", str(site), "--offline", *options]) == 0
    tab = Tab(browser, server)
    with files(site) as tab.url:
        page = tab.open("")
        page.evaluate(KEPT)
        manifest = page.evaluate("async () => (await fetch('manifest.webmanifest')).json()")
        assert manifest["name"] in ("Halves", "Halves of a square")
        assert manifest["display"] == "standalone"
    page.reload()  # nobody answers any more
    assert page.eval_on_selector("py-frame", STEP) > 0
    # a new version, asked for where nobody answers, or no more
    assert [e for e in tab.errors if not GONE.search(e)] == []
    tab.errors.clear()
    tab.close()


def test_another_version_replaces_the_first(program: Path, tab: Tab, tmp_path: Path) -> None:
    site = tmp_path / "site"
    export = ["export", str(program), "--to", str(site), "--offline", "--no-train"]
    assert main(export) == 0
    with files(site) as tab.url:
        page = tab.open("")
        first = page.evaluate(KEPT)
        program.write_text(PROGRAM.replace('title="Halves"', 'title="Two halves"'))
        assert main(export) == 0
        for path in site.glob("*.*"):  # a server tells times of files by the second
            os.utime(path, (time.time() + 60, time.time() + 60))
        page.evaluate("async () => (await navigator.serviceWorker.ready).update()")
        page.evaluate(KEPT, first)
        page.reload()
        assert page.title() == "Two halves"
        page.wait_for_selector("py-frame[aria-label='Two halves']")


def test_what_can_not_be_kept_is_refused(program: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for words, why in {
        f"{program} --single": "--offline is for a folder on a server; one file needs no network",
        f"{program} --python --cdn": "--offline keeps an exported program; it can't keep Pyodide",
        "--python": "it can't keep pages of your own",
    }.items():
        assert main(["export", "--to", "site", "--offline", *words.split()]) == 1
        assert why in capsys.readouterr().err
