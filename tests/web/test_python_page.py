"""Python in the page: what holds for every program that runs there."""

from __future__ import annotations

import pytest

from .conftest import PythonPage, Tab


def test_auto_is_never_a_software_gpu(python_page: PythonPage) -> None:
    software, auto = python_page.run(
        "import pyframe as pf\n[pf.device('gpu').backend.software, str(pf.device('auto'))]"
    )
    assert auto == ("cpu" if software else "gpu")


def test_one_call_replays_a_recorded_step(python_page: PythonPage) -> None:
    """From the second time on, nothing is made anew: no pipeline, no buffer, no bind group."""
    before, after = python_page.run(
        "import dataclasses\n"
        "import pyframe as pf\n"
        "stats = pf.device('gpu').backend.stats\n"
        "x = pf.ones(64, 64, device='gpu')\n"
        "async def step():\n"
        "    return await ((x @ x).relu().sum() + 1).item_async()\n"
        "for _ in range(8):\n"
        "    await step()\n"
        "before = dataclasses.asdict(stats)\n"
        "assert await step() == 64 ** 3 + 1\n"
        "[before, dataclasses.asdict(stats)]"
    )
    for made in ("pipelines", "buffers", "bind_groups"):
        assert after[made] == before[made]
    assert after["submits"] == before["submits"] + 1
    assert after["dispatches"] > before["dispatches"]


def test_a_page_without_webgpu(tab: Tab, pyodide_files: None) -> None:
    tab.add_to_worker("Object.defineProperty(navigator, 'gpu', { value: undefined });")
    page = PythonPage(tab)
    assert page.run("import pyframe as pf; str(pf.device('auto'))") == "cpu"
    with pytest.raises(Exception, match="device .gpu.: .* no GPU: this browser has no WebGPU"):
        page.run("pf.ones(2, device='gpu').sum().item()")
