"""A page whose GPU is lost, or full: what Python is told, and how it goes on."""

from __future__ import annotations

import pytest

from .conftest import PythonPage, Tab

LOST = "DeviceLostError: the GPU .* was lost: Device was destroyed"

# From `js.fill()` on the browser has no memory for the buffer that is made next.
FULL = """
self.fill = () => {
  const { popErrorScope } = GPUDevice.prototype;
  GPUDevice.prototype.popErrorScope = async function () {
    GPUDevice.prototype.popErrorScope = popErrorScope;
    await popErrorScope.call(this);
    return new GPUOutOfMemoryError("full");
  };
};
"""


@pytest.fixture
def page(tab: Tab, pyodide_files: None) -> PythonPage:
    """A page of its own, whose GPU can be lost."""
    tab.add_to_worker(FULL)
    page = PythonPage(tab)
    page.run("import js\nimport pyframe as pf\nx = pf.arange(4.0, device='gpu')\npf.flush()")
    return page


def test_a_lost_device_is_named_and_opened_again(page: PythonPage) -> None:
    page.run("y = x + 1\npf.flush()\njs.pyframeRuntime.destroy()")
    with pytest.raises(Exception, match=LOST):
        page.run("y.tolist()")
    for use in ("x.tolist()", "await x.tolist_async()", "x.to('cpu')", "(x + 1).sum().item()"):
        with pytest.raises(Exception, match="DeviceLostError: a value is needed that is gone"):
            page.run(use)
    assert page.run("(pf.arange(4.0, device='gpu') * 2).tolist()") == [0, 2, 4, 6]
    assert page.run("pf.nn.Linear(2, 3).to('gpu')(pf.ones(1, 2, device='gpu')).numel()") == 3
    page.run("js.pyframeRuntime.destroy()")  # and once more
    with pytest.raises(Exception, match=LOST):
        page.run("pf.ones(2, device='gpu').tolist()")
    assert page.run("pf.ones(2, device='gpu').tolist()") == [1, 1]


def test_a_page_that_cannot_wait(tab: Tab, pyodide_files: None) -> None:
    """Without JSPI the GPU is there again after an await."""
    tab.add_to_worker("delete WebAssembly.Suspending; delete WebAssembly.promising;")
    page = PythonPage(tab)
    page.run("import asyncio, js\nimport pyframe as pf\nx = pf.ones(4, device='gpu').sum()")
    page.run("js.pyframeRuntime.destroy()")
    with pytest.raises(Exception, match=LOST):
        page.run("await x.item_async()")
    assert page.run(
        "told = None\n"
        "while True:\n"
        "    try:\n"
        "        y = pf.ones(4, device='gpu').sum()\n"
        "        break\n"
        "    except RuntimeError as error:\n"
        "        told = str(error)\n"
        "        await asyncio.sleep(0)\n"
        "[await y.item_async(), told is None or 'try again after' in told]"
    ) == [4, True]


def test_no_memory_left(page: PythonPage) -> None:
    """The read after it tells; what had no memory is not used again, and the rest goes on."""
    page.run("js.fill()\nbig = pf.full((3 << 18,), 2.0, device='gpu')\npf.flush()")
    told = r"OutOfMemoryError: the GPU .* has no memory for 3.0 MiB more: .*smaller batch"
    for _ in range(2):
        with pytest.raises(Exception, match=told):
            page.run("big.sum().item()")
    assert page.run("(x + 1).tolist()") == [1, 2, 3, 4]
    failed = "js.pyframeRuntime.failed().length"
    assert page.run(failed) == 1
    page.run("import gc, sys\nsys.last_exc = sys.last_value = sys.last_traceback = None\ndel big")
    assert page.run(f"gc.collect()\n{failed}") == 0
    assert page.run("pf.full((3 << 18,), 2.0, device='gpu').sum().item()") == 6 << 18
