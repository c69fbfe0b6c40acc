"""A page whose GPU is lost, or full: what Python is told, and how it goes on."""

from __future__ import annotations

import re
import shutil
from collections.abc import Iterator
from typing import Any

import pytest

from pyframe import serve

from .conftest import CHROMIUM, FLAGS, FULL, PythonPage, Tab

LOST = "DeviceLostError: the GPU .* was lost: Device was destroyed"


def test_a_browser_whose_gpu_process_ends(browser: Any, server: serve.Server) -> None:
    """The read under way tells the loss in plain words, and the GPU is opened again."""
    path = next(filter(None, map(shutil.which, CHROMIUM)))
    own = browser.browser_type.launch(executable_path=path, args=FLAGS)
    try:
        tab = Tab(own, server)
        page = tab.open("blank")
        seen = page.evaluate(
            """async () => {
                const { createRuntime } = await import("./runtime.js");
                self.rt = await createRuntime();
                self.id = rt.alloc(16);
                self.ask = async () => {
                    try {
                        for (;;) await rt.read([id], [16]);
                    } catch ({ name, message }) {
                        return [name, message, rt.lost];
                    }
                };
                self.told = ask();
                return rt.lost;
            }"""
        )
        assert seen is None
        own.new_browser_cdp_session().send("Browser.crashGpuProcess")
        name, message, why = page.evaluate("() => told")
        assert name == "DeviceLostError"
        assert message == f"the GPU device was lost: {why}"
        assert why.startswith("the browser or the graphics driver stopped it")
        again = page.evaluate(
            """async () => {
                const next = await rt.reopen();
                return [...await next.read([next.alloc(4)], [4])];
            }"""
        )
        assert again == [0, 0, 0, 0]
        tab.context.close()
    finally:
        own.close()


@pytest.fixture(scope="module")
def page(visited: Any, server: serve.Server, pyodide_files: None) -> Iterator[PythonPage]:
    """A page whose GPU can be lost, and can be full."""
    tab = Tab(visited, server)
    tab.add_to_worker(FULL)
    page = PythonPage(tab)
    page.run(TRAIN)
    yield page
    tab.close()


def lose(page: PythonPage) -> None:
    """What was on the GPU is gone, and said to be; what is made then is there."""
    page.run("x = pf.arange(4.0, device='gpu')\ny = x + 1\npf.flush()")
    page.run("js.pyframeRuntime.destroy()")
    with pytest.raises(Exception, match=LOST):
        page.run("y.tolist()")
    for use in ("x.tolist()", "await x.tolist_async()", "x.to('cpu')", "(x + 1).sum().item()"):
        with pytest.raises(Exception, match="DeviceLostError: a value is needed that is gone"):
            page.run(use)
    assert page.run("(pf.arange(4.0, device='gpu') * 2).tolist()") == [0, 2, 4, 6]


DROPPED = """
class Dropped:
    def __init__(self, js):
        self.js = js

    def __getattr__(self, name):
        return getattr(self.js, name)

    def run(self, *args):
        try:
            return self.js.run(*args)
        except Exception:
            raise SystemError("error return without exception set") from None

backend = pf.device("gpu").backend
backend._js = Dropped(backend._js)
"""


def test_no_memory_left(page: PythonPage) -> None:
    """The read after it tells; what had no memory is not used again, and the rest goes on."""
    page.run("x = pf.arange(4.0, device='gpu')\npf.flush()\njs.fill()")
    page.run("big = pf.full((3 << 18,), 2.0, device='gpu')\npf.flush()")
    told = r"OutOfMemoryError: the GPU .* has no memory for 3.0 MiB more: .*smaller batch"
    for _ in range(2):
        with pytest.raises(Exception, match=told):
            page.run("big.sum().item()")
    page.run(DROPPED)  # and where the error is lost on its way to Python
    with pytest.raises(Exception, match=told):
        page.run("big.sum().item()")
    page.run("backend._js = backend._js.js")
    assert page.run("(x + 1).tolist()") == [1, 2, 3, 4]
    failed = "js.pyframeRuntime.failed().length"
    assert page.run(failed) == 1
    page.run("import gc, sys\nsys.last_exc = sys.last_value = sys.last_traceback = None\ndel big")
    assert page.run(f"gc.collect()\n{failed}") == 0
    assert page.run("pf.full((3 << 18,), 2.0, device='gpu').sum().item()") == 6 << 18


TRAIN = """
import asyncio, js, warnings
import numpy as np
import pyframe as pf
from pyframe import nn
from pyframe.data import DataLoader, Dataset
from pyframe.train import recovery

recovery.SHARE = 1e9  # a copy with each loss that is read

class Noisy(Dataset):
    def __init__(self, lost_at):
        rng = np.random.default_rng(0)
        self.x, self.y = rng.normal(size=(64, 6)).astype(np.float32), rng.integers(0, 3, 64)
        self.lost_at, self.made = lost_at, 0

    def __len__(self):
        return 64

    def __getitem__(self, i):
        self.made += 1
        if self.made in self.lost_at:
            runtime = js.pyframeRuntime
            while runtime.next:
                runtime = runtime.next
            runtime.destroy()
        return self.x[i] + np.float32(0.1 * np.random.normal()), self.y[i]

async def train(*lost_at):
    pf.manual_seed(1)
    np.random.seed(2)
    net = nn.Sequential(nn.Linear(6, 8), nn.ReLU(), nn.Dropout(0.3), nn.Linear(8, 3))
    optimizer = pf.optim.Adam(net.parameters(), lr=0.05)
    model = pf.Model(net, nn.CrossEntropyLoss(), optimizer, ["accuracy"])
    data = DataLoader(Noisy(lost_at), 8, shuffle=True)
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        history = await model.fit_async(data, 3, device="gpu", read_every=4)
    weights = [(await x.numpy_async()).tolist() for x in net.state_dict().values()]
    return [weights, history.history, str(model.device)], [str(w.message) for w in told]
"""


def goes_on(page: PythonPage, *losses: tuple[int, ...]) -> None:
    """A fit that loses its GPU when these samples are made learns what it learns without."""
    want, told = page.run("await train()")
    assert not told
    for lost_at in losses:
        seen, told = page.run(f"await train(*{lost_at})")
        assert seen == want
        assert len(told) == len(lost_at)
        for text in told:
            assert re.match(r"fit: the GPU .+ was lost: .+ goes on .+ device 'gpu'$", text)


def test_fit_goes_on(page: PythonPage) -> None:
    """Lost before its first step, within an epoch, and twice."""
    goes_on(page, (1,), (100,), (30, 150))


def test_a_lost_device_is_named_and_opened_again(page: PythonPage) -> None:
    lose(page)
    assert page.run("pf.nn.Linear(2, 3).to('gpu')(pf.ones(1, 2, device='gpu')).numel()") == 3
    page.run("js.pyframeRuntime.destroy()")  # and once more
    with pytest.raises(Exception, match=LOST):
        page.run("pf.ones(2, device='gpu').tolist()")
    assert page.run("pf.ones(2, device='gpu').tolist()") == [1, 1]
