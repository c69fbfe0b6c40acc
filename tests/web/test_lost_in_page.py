"""A page whose GPU is lost, full, or refuses kernels, which it tells late: what Python is told, and
how it goes on. Other variants take the places of those that are refused."""

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
    """A page whose GPU can be lost, can be full, and can refuse kernels."""
    tab = Tab(visited, server)
    tab.add_to_worker(FULL)
    refusing(tab)
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
    """Lost before its first step, and twice; test_reading.py has it within an epoch."""
    goes_on(page, (1,), (30, 150))


def test_a_lost_device_is_named_and_opened_again(page: PythonPage) -> None:
    lose(page)
    assert page.run("pf.nn.Linear(2, 3).to('gpu')(pf.ones(1, 2, device='gpu')).numel()") == 3
    page.run("js.pyframeRuntime.destroy()")  # and once more
    with pytest.raises(Exception, match=LOST):
        page.run("pf.ones(2, device='gpu').tolist()")
    assert page.run("pf.ones(2, device='gpu').tolist()") == [1, 1]


# --- kernels that are refused

# From now on no pipeline is made of a text that has one of the words in `refusing`.
REFUSING = """
self.refusing = [];
const { createShaderModule, createComputePipelineAsync } = GPUDevice.prototype;
GPUDevice.prototype.createShaderModule = function (descriptor) {
  return Object.assign(createShaderModule.call(this, descriptor), { text: descriptor.code });
};
GPUDevice.prototype.createComputePipelineAsync = async function (descriptor) {
  const has = (word) => descriptor.compute.module.text.includes(word);
  if (self.refusing.some(has)) throw new GPUPipelineError("too much", { reason: "internal" });
  return createComputePipelineAsync.call(this, descriptor);
};
"""
START = """
import dataclasses
import warnings
import js
import numpy as np
import pyframe as pf
from pyframe.core import devices

gpu = pf.device("gpu")

async def renew():  # the GPU, so that it has compiled nothing and was refused nothing
    try:
        gpu.backend._js.destroy()
        await pf.ones(1, device="gpu").sum().item_async()
    except pf.DeviceLostError:
        await devices.reopen(gpu)

await renew()
gpu.backend.limits = dataclasses.replace(gpu.backend.limits, kind="")  # as a real one's
told = []
warnings.simplefilter("always")
warnings.showwarning = lambda message, *_: told.append(str(message))
a, b = np.ones((300, 40), np.float32), np.ones((40, 500), np.float32)
x, y = pf.tensor(a, device="gpu"), pf.tensor(b, device="gpu")
pf.flush()

def refuse(*words):
    js.refusing.splice(0, js.refusing.length, *words)
"""


def refusing(tab: Tab, words: str = "") -> None:
    """Let the browser's GPU refuse some texts, wherever it is."""
    source = (serve.WEB / "runtime.js").read_text() + REFUSING + f"refusing.push({words});"
    tab.page.route(
        "**/runtime.js", lambda route: route.fulfill(body=source, content_type="text/javascript")
    )


@pytest.fixture
def renewed(page: PythonPage) -> PythonPage:
    """A page whose GPU is new, and refuses what a test names."""
    page.run(START)
    return page


ONE = 40 * 300 * 500
STEPS = """
total = pf.zeros(300, 500, device="gpu")

@pf.compile
def step(k):
    total.add_(x @ y * k)
    return total.sum()

first = (x @ y).sum()
begun = [gpu.executor.fetch_begin([step(k)]) for k in (1, 2, 3, 4)]
"""
ASKED = "[float(a[0]) for a in [await b() for b in begun]]"


def test_a_refused_variant(renewed: PythonPage) -> None:
    """It is replaced, with a warning for each, in all that waits for it: what is computed in place,
    and read between, is as it would have been."""
    seen, after, told, later, refused = renewed.run(
        f"refuse('@workgroup_size(64)')\n{STEPS}seen = {ASKED}\n"
        "n = len(told)\n"
        "after = [first.item(), pf.relu(x @ y - 30).mean().item(), step(1).item()]\n"
        "[seen, after, told[:n], told[n:], [*{n for n, _ in gpu.backend.limits.refused}]]"
    )
    assert seen == [ONE, 3 * ONE, 6 * ONE, 10 * ONE]
    assert after == [ONE, 10, 11 * ONE]
    assert told
    assert len(told) == len(set(told))
    for text in told:
        assert "refuses kernel matmul[1x300x500]" in text
        assert re.search("in the variant 'tiles .* .too much.: '.*' takes its place from", text)
    assert (later, refused) == ([], ["matmul"])


def test_kernels_of_one_text(renewed: PythonPage) -> None:
    """Those that share a refused one get texts of their own, with the same parameters."""
    found, sizes, codes, told = renewed.run(
        "drawn = pf.randn(64, 32), *[pf.randn(n, m) for n, m in [(32, 64), (64, 96), (96, 128)]]\n"
        "def total(k, h, *weights):\n"
        "    for w in weights:\n"
        "        h = (h @ w).relu()\n"
        "    return (h * k).mean()\n"
        "right = total(3, *drawn).item()\n"
        "given = [t.to('gpu') for t in drawn]\n"
        "pf.flush()\n"
        "refuse('@workgroup_size(16)', '@workgroup_size(64)')\n"
        "run = pf.compile(total)\n"
        "found = [run(3, *given)]\n"
        "program = [p for p in gpu.executor.programs.values() if len(p.kernels) == 4][-1]\n"
        "made = program.texts['wgsl']\n"
        "codes = [len({s.code for s in made})]\n"
        "found += [run(3, *given), total(3, *given)]\n"
        "found = [r.item() / right for r in found]\n"
        "[found, [len(s.sizes) for s in made], codes + [len({s.code for s in made})], len(told)]"
    )
    assert found == pytest.approx([1] * 3, rel=1e-4)
    assert sizes == [0, 2, 2, 0]
    assert codes == [3, 4]
    assert told


def test_all_variants_are_refused(renewed: PythonPage) -> None:
    """The error names the kernel and says what is lost; what stands behind it is done."""
    renewed.run("refuse('fn four_a')\nw = x @ y\npf.flush()\nv = (x + 1) * 2\npf.flush()")
    told = r"RefusedError: WGSL kernel 'matmul\[1x300x500\]': too much: .* to compute is lost"
    with pytest.raises(Exception, match=told):
        renewed.run("w.sum().item()")
    assert renewed.run("v.mean().item()") == 4
    assert renewed.run("refuse()\n(x @ y).sum().item()") == ONE


def test_subgroups_are_refused(renewed: PythonPage) -> None:
    found, told, has = renewed.run(
        "gpu.backend.limits = dataclasses.replace(gpu.backend.limits, subgroups=True)\n"
        "refuse('subgroup')\n"
        "found = [x.sum(-1).mean().item(), x.softmax(-1).sum().item()]\n"
        "[found, told, gpu.backend.limits.subgroups]"
    )
    assert found == pytest.approx([40, 300])
    assert has is False
    (text,) = told
    assert "in the variant 'subgroups' (too much): 'workgroup memory' takes its place" in text


def test_autotune(renewed: PythonPage) -> None:
    """A variant that is refused is no winner."""
    times, taken, value = renewed.run(
        "refuse('@workgroup_size(64)')\n"
        "(row,) = pf.autotune(lambda: x @ y)\n"
        "gpu.backend.remember('')\n"  # other pages share what the origin keeps
        "[row.times, row.times[row.winner], (x @ y).sum().item()]"
    )
    assert None in times.values()
    assert taken > 0
    assert value == ONE


def test_sizes_that_change(renewed: PythonPage) -> None:
    """The workgroups that a run was given are for the refused text: the error says what is lost."""
    renewed.run(
        "run = pf.compile(lambda x: (x @ x.T).sum())\n"
        "values = [run(pf.ones(n, 16, device='gpu')).item() for n in (20, 30)]\n"
        "refuse('params')\n"
        "last = run(pf.ones(40, 16, device='gpu'))"
    )
    told = r"RefusedError: WGSL kernel '(matmul|sum).*n.*': too much.* to compute is lost"
    with pytest.raises(Exception, match=told):
        renewed.run("last.item()")
    assert renewed.run("[values, (x @ y).sum().item()]") == [[16 * 400, 16 * 900], ONE]
