"""How Python in a page waits for values: JSPI, shared memory, or `await`; each way forced."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any

import contract
import exported
import fits
import pytest

from pyframe import serve

from . import test_lost_in_page as losing
from .conftest import BLANK, PythonPage, Tab, running
from .test_python_page import same

ISOLATED = {
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Embedder-Policy": "require-corp",
}
WAYS = "import js\n[js.crossOriginIsolated, hasattr(js.WebAssembly, 'Suspending'), "
WAYS += "hasattr(js.pyframeRuntime, 'finish')]"

COUNT = """
self.messages = self.blocks = 0;
const { postMessage } = Worker.prototype;
Worker.prototype.postMessage = function (...all) {
  self.messages++;
  return postMessage.apply(this, all);
};
const { wait } = Atomics;
Atomics.wait = (...all) => {
  self.blocks++;
  return wait(...all);
};
"""


class Isolated(serve.Handler):
    """Sends the headers that give a page shared memory."""

    def end_headers(self) -> None:
        for name, value in ISOLATED.items():
            self.send_header(name, value)
        super().end_headers()


@pytest.fixture(scope="module")
def isolated() -> Iterator[serve.Server]:
    """A server whose pages have shared memory."""
    with running(serve.Server("127.0.0.1", 0)) as server:
        server.RequestHandlerClass = Isolated
        yield server


def forced(tab: Tab, reading: str, headers: dict[str, str]) -> PythonPage:
    """Python in a page whose config.json says how it reads."""

    def config(route: Any) -> None:
        route.fulfill(json={**json.loads(route.fetch().text()), "reading": reading})

    def blank(route: Any) -> None:
        route.fulfill(body=BLANK, content_type="text/html", headers=headers)

    tab.page.route("**/config.json", config)
    tab.page.route("**/blank", blank)
    return PythonPage(tab)


@pytest.fixture(scope="module")
def shared(browser: Any, isolated: serve.Server, pyodide_files: None) -> Iterator[PythonPage]:
    """Python that can't wait for promises, and a GPU that answers in shared memory."""
    tab = Tab(browser, isolated)
    worker = (serve.ROOT / "web" / "worker.js").read_text() + COUNT
    tab.page.route("**/worker.js", lambda route: route.fulfill(
        body=worker, content_type="text/javascript", headers=ISOLATED))  # fmt: skip
    page = forced(tab, "shared", ISOLATED)
    page.give(contract)
    page.run("import asyncio, js\nimport pyframe as pf")
    yield page
    tab.close()


@pytest.fixture(scope="module")
def awaiting(visited: Any, server: serve.Server, pyodide_files: None) -> Iterator[PythonPage]:
    """Python that can't wait at all, with a GPU that can be lost and may refuse kernels."""
    tab = Tab(visited, server)
    losing.refusing(tab)
    page = forced(tab, "await", {})
    page.run("import asyncio, js\nimport pyframe as pf")
    yield page
    tab.close()


TRAIN = """
from pyframe import nn

def make(device):
    pf.manual_seed(1)
    net = nn.Sequential(nn.Linear(6, 8), nn.ReLU(), nn.Dropout(0.3), nn.Linear(8, 3)).to(device)
    optimizer = pf.optim.Adam(net.parameters(), lr=0.05)
    return pf.Model(net, nn.CrossEntropyLoss(), optimizer, ["accuracy"])

x, y = pf.randn(64, 6, generator=pf.Generator().manual_seed(3)), pf.arange(64) % 3
"""

FIT = """
m = make('gpu')
h = m.fit(x, y, epochs=3, batch_size=16, device='gpu')
[h.history['loss'], m.evaluate(x, y), list(m.predict(x).shape), str(m.device)]
"""


def test_jspi_is_the_first_way(python_page: PythonPage) -> None:
    """Without headers, and where Python was entered so that it may wait."""
    assert python_page.run(WAYS) == [False, True, False]
    python_page.run("import pyodide_js\nimport pyframe as pf\nx = pf.arange(4, device='gpu').sum()")
    assert python_page.run("x.item()") == 6
    with pytest.raises(Exception, match="Python was entered without it.*use the await twin"):
        python_page.run("pyodide_js.runPython('x.item()')")


def test_shared_memory_is_the_second(shared: PythonPage) -> None:
    assert shared.run(WAYS) == [True, False, True]
    shared.run("x = pf.arange(4.0, device='gpu') * 2")
    assert shared.run("(x + 1).cpu().numpy().tolist()") == [1, 3, 5, 7]
    assert shared.run("x.sum().item()") == 12
    assert shared.run("f'{x.cpu()} {x}'") == (
        "tensor([0., 2., 4., 6.]) tensor([0., 2., 4., 6.], device='gpu')"
    )
    assert shared.run("await x.tolist_async()") == [0, 2, 4, 6]
    big = "pf.arange(1 << 16, device='gpu')"  # more than is kept for answers
    assert shared.run(f"int({big}.cpu().numpy().sum())") == (1 << 15) * ((1 << 16) - 1)
    assert shared.run("asyncio.iscoroutinefunction(pf.Tensor.item_async)")
    two = "asyncio.gather(x.max().item_async(), (x + 1).tolist_async())"
    assert shared.run(f"both = {two}\nnow = x.min().item()\n[*await both, now]") == [
        6, [1, 3, 5, 7], 0,
    ]  # fmt: skip


def test_contract_through_shared_memory(shared: PythonPage) -> None:
    checks = "for check in contract.CHECKS:\n    await check(pf.device('gpu').backend)"
    assert shared.run(f"import contract\n{checks}\n'kept'") == "kept"


def test_a_step_is_one_message(shared: PythonPage) -> None:
    """A batch goes with the step that takes it, and nothing waits before a value is read."""
    messages, blocks, value = shared.run(
        "w = pf.ones(4, 4, device='gpu')\n"
        "@pf.compile\n"
        "def step(x):\n"
        "    w.add_((x @ w).mean())\n"
        "    return w.sum()\n"
        "for i in range(8):\n"
        "    total = step(pf.full((4, 4), float(i)).to('gpu'))\n"
        "total.item()\n"
        "before = js.messages, js.blocks\n"
        "for i in range(8):\n"
        "    total = step(pf.zeros(4, 4).to('gpu'))\n"
        "after = js.messages, js.blocks\n"
        "[after[0] - before[0], after[1] - before[1], total.item() == w.sum().item()]"
    )
    assert (messages, blocks, value) == (8, 0, True)


def test_what_is_wrong_is_told_through_shared_memory(shared: PythonPage) -> None:
    shared.run("x = pf.arange(4.0, device='gpu') * 2")
    with pytest.raises(Exception, match="RuntimeError: buffer 12345678 does not exist"):
        shared.run(
            "backend = pf.device('gpu').backend\n"
            "backend._js.copy(12345678, 12345678, 4)\n"
            "pf.ones(2, device='gpu').tolist()"
        )
    assert shared.run("pf.ones(2, device='gpu').tolist()") == [1, 1]
    bad = (
        "import array\nfrom pyframe.backend.base import ProgramCode\n"
        "code = ProgramCode(['@compute @workgroup_size(1) fn main() { nonsense; }'], ['bad'], "
        "array.array('i', [0, 1, 1, 1, -1, 0, 0]), 0, 0)\n"
        "loaded = backend.load(code)\n"
    )
    with pytest.raises(Exception, match="(?s)WGSL kernel 'bad': .*nonsense"):
        shared.run(f"{bad}backend.run(loaded, [], b'')\nx.tolist()")
    shared.run("backend.unload(loaded)\ntry:\n    x.tolist()\nexcept RuntimeError:\n    pass")
    assert shared.run("x.tolist()") == [0, 2, 4, 6]


def test_kernels_are_made_and_timed_through_shared_memory(shared: PythonPage) -> None:
    """The rest of what a Runtime does: pipelines before they are needed, with progress; clocks."""
    before, after, told, kinds, took = shared.run(
        "from pyodide.ffi import create_proxy\n"
        "runtime = js.pyframeRuntime\n"
        "z = pf.arange(6.0, device='gpu').sum()\n"
        "z.item()\n"
        "made = runtime.codes()\n"
        "before, told = runtime.stats().pipelines, []\n"
        "hear = create_proxy(lambda progress: told.append([progress.done, progress.total]))\n"
        "runtime.oncompile = hear\n"
        "await runtime.compile(made.codes, made.labels)\n"
        "after = runtime.stats().pipelines\n"
        "code = '@compute @workgroup_size(1) fn main() {}'\n"
        "from pyodide.ffi import to_js\n"
        "await runtime.compile(to_js([code]), to_js(['empty']))\n"
        "runtime.oncompile = None\n"
        "hear.destroy()\n"
        "with pf.profiler.profile() as prof:\n"
        "    z = (pf.arange(6.0, device='gpu') * 3).sum().item()\n"
        "start, end = pf.gpu.Event(enable_timing=True), pf.gpu.Event(enable_timing=True)\n"
        "start.record()\n"
        "z = (pf.arange(6.0, device='gpu') * 4).sum().item()\n"
        "end.record()\n"
        "[before, after, told[-1], [e.kind for e in prof.events], start.elapsed_time(end)]"
    )
    assert before == after
    assert told[0] == told[1] > 0
    assert set(kinds) in ({"kernel"}, {"program"})
    assert took >= 0


def test_fit_through_shared_memory(shared: PythonPage, python_page: PythonPage) -> None:
    """A blocking `fit` learns what it learns elsewhere, also where a GPU that is lost in the middle
    is opened again while Python waits."""
    want = shared.run(TRAIN + FIT)
    assert want == python_page.run(f"import pyframe as pf\n{TRAIN}{FIT}")
    told, seen = shared.run(
        "import warnings\n"
        "from pyframe.train import Callback\n"
        "class Lose(Callback):\n"
        "    lost = False\n"
        "    def on_epoch(self, model, epoch, logs):\n"
        "        if not self.lost:\n"
        "            self.lost = True\n"
        "            js.pyframeRuntime.destroy()\n"
        "with warnings.catch_warnings(record=True) as told:\n"
        "    warnings.simplefilter('always')\n"
        "    m = make('gpu')\n"
        "    h = m.fit(x, y, epochs=3, batch_size=16, device='gpu', callbacks=[Lose()])\n"
        "[[str(w.message) for w in told],\n"
        " [h.history['loss'], m.evaluate(x, y), list(m.predict(x).shape), str(m.device)]]"
    )
    assert seen == want
    assert len(told) == 1
    assert "was lost" in told[0]


def test_a_loss_is_told_through_shared_memory(shared: PythonPage) -> None:
    losing.lose(shared)


def test_refused_kernels_through_shared_memory(shared: PythonPage, isolated: serve.Server) -> None:
    """The GPU is in a worker of its own, which refuses them from the start."""
    tab = Tab(shared.page.context, isolated)
    losing.refusing(tab, "'@workgroup_size(64)'")
    page = forced(tab, "shared", ISOLATED)
    asked = f"[[first.item(), *{losing.ASKED}, step(1).item()], len(told)]"
    found, told = page.run(f"{losing.START}{losing.STEPS}{asked}")
    assert [x / losing.ONE for x in found] == [1, 1, 3, 6, 10, 11]
    assert told
    tab.close()


def test_await_is_the_last_way(awaiting: PythonPage) -> None:
    """Where nothing can wait, the error names the twin, and the twin works."""
    assert awaiting.run(WAYS) == [False, False, False]
    awaiting.run("x = pf.arange(4, device='gpu').sum()")
    for read in ("x.item()", "x.cpu()", "print(x)", "x.tolist()"):
        with pytest.raises(Exception, match=r"use the await twin, as in `await t\.item_async\(\)`"):
            awaiting.run(read)
    assert awaiting.run("await x.item_async()") == 6


def test_fit_without_waiting(awaiting: PythonPage, python_page: PythonPage) -> None:
    """On the GPU the error names the twin, before anything is learned; the CPU needs no wait."""
    awaiting.run(TRAIN)
    python_page.run(f"import pyframe as pf\n{TRAIN}")
    awaiting.run("m = make('gpu')")
    for call, twin in (
        ("fit(x, y, device='gpu')", "fit_async"),
        ("evaluate(x, y)", "evaluate_async"),
        ("predict(x)", "predict_async"),
    ):
        with pytest.raises(Exception, match=f"can't wait .*use `await model.{twin}"):
            awaiting.run(f"m.{call}")
    twins = re.sub(r"m\.(fit|evaluate|predict)(\(.*?\))(?=[,.\n])", r"(await m.\1_async\2)", FIT)
    assert awaiting.run(twins) == python_page.run(FIT)
    cpu = FIT.replace("'gpu'", "'cpu'")
    assert awaiting.run(cpu) == python_page.run(cpu)


def test_a_fit_that_only_awaits(awaiting: PythonPage, python_page: PythonPage) -> None:
    for page in (awaiting, python_page):
        page.give(exported, fits)
        page.run("import fits")
    same(awaiting.run("await fits.resumed('gpu')"), python_page.run("await fits.resumed('cpu')"))


def test_a_lost_gpu_is_there_again_after_an_await(awaiting: PythonPage) -> None:
    awaiting.run("x = pf.ones(4, device='gpu').sum()\njs.pyframeRuntime.destroy()")
    with pytest.raises(Exception, match=losing.LOST):
        awaiting.run("await x.item_async()")
    assert awaiting.run(
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


def test_fit_goes_on_where_it_cannot_wait(awaiting: PythonPage) -> None:
    awaiting.run(losing.TRAIN)
    losing.goes_on(awaiting, (100,))


def test_refused_kernels_where_python_cannot_wait(awaiting: PythonPage) -> None:
    found, told = awaiting.run(
        f"{losing.START}refuse('@workgroup_size(64)')\n{losing.STEPS}"
        f"[[await first.item_async(), *{losing.ASKED}], len(told)]"
    )
    assert [x / losing.ONE for x in found] == [1, 1, 3, 6, 10]
    assert told
    awaiting.run("refuse()\nawait renew()")


def test_why_there_is_no_gpu(tab: Tab) -> None:
    """What a visitor reads of a browser without WebGPU, without an adapter, or that refuses it."""
    tell = """async (gpu) => {
        const { createRuntimeFor } = await import("./remote.js");
        const adapter = { limits: {}, features: new Set(), info: {}, requestDevice: () => {
            throw new Error("too many devices");
        } };
        const found = { missing: undefined, none: { requestAdapter: async () => null },
            refused: { requestAdapter: async () => adapter } }[gpu];
        Object.defineProperty(navigator, "gpu", { value: found, configurable: true });
        return [await createRuntimeFor(), self.pyframeNoGPU];
    }"""
    page = tab.open("blank")
    for gpu, why in (
        ("missing", "this browser has no WebGPU; "),
        ("none", "the browser offers no GPU: it may be switched off in its settings"),
        ("refused", "the browser refuses its GPU (too many devices); reload the page"),
    ):
        runtime, told = page.evaluate(tell, gpu)
        assert runtime is None
        assert told.startswith(why)
