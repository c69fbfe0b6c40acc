"""Python in the page: what holds for every program there, and that it does what it does here: the
backend's contract, data loaders, the same start, fits, steps that are never stale, a profile, and
modules of WebAssembly."""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import contract
import exported
import fits
import numpy as np
import pytest
import same_start
from same_start import digits

import pyframe as pf

sys.path.insert(0, str(Path(__file__).parent.parent / "graph"))

import forms
import length_patterns
import stale_patterns

from tests.backend.cases import SCALE

from . import wasm_modules
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


KEPT = """() => new Promise((resolve) => {
    const opening = indexedDB.open("pyframe");
    opening.onsuccess = () => {
        const store = opening.result.transaction("tuned").objectStore("tuned");
        store.getAll().onsuccess = ({ target }) => resolve(target.result);
    };
})"""


def test_autotune_keeps_its_winners_in_the_page(python_page: PythonPage) -> None:
    key, winner, kept_in, taken, again = python_page.run(
        "import pyframe as pf\n"
        "from pyframe.runtime import tuned\n"
        "backend = pf.device('gpu').backend\n"
        "limits = backend.limits\n"
        "x = pf.ones(20, 40, device='gpu')\n"
        "(row,) = found = pf.autotune(lambda: x @ x.T)\n"
        "((key, name),) = backend.limits.tuned\n"
        "assert (await (x @ x.T).sum().item_async()) == 20 * 20 * 40\n"
        "again = tuned.kept(backend)[key] == row\n"
        "[key, row.winner, found.kept_in, name, again]"
    )
    assert winner == taken
    assert again
    assert kept_in == "the page's IndexedDB 'pyframe'"
    (text,) = python_page.page.evaluate(KEPT)
    assert key in json.loads(text)["kernels"]
    python_page.run("backend.limits = limits\nbackend.remember('')")  # others share the origin


LENGTHS = """
import forms, length_patterns, pyframe as pf
program, stats, made = length_patterns.PATTERNS[{name!r}], pf.device("gpu").backend.stats, []
want = [forms.plain(v) for v in program(forms.once, forms.tensor("cpu"))]
got = program(lambda f: made.append(pf.compile(f)) or made[-1], forms.tensor("gpu"))
for k, (a, b) in enumerate(zip(want, got, strict=True)):
    forms.same(a, forms.plain(b), rtol=1e-4, atol=1e-4)
    if k == 4:
        before = stats.pipelines
made[0].captured, stats.pipelines - before
"""


@pytest.mark.parametrize("name", ["joined", "causal_attention"])
def test_lengths_that_change(python_page: PythonPage, name: str) -> None:
    """A capture for all of them, which compiles no kernel for a new one."""
    python_page.give(forms, length_patterns)
    assert python_page.run(LENGTHS.format(name=name)) == [3, 0]


# --- Model, and what a compiled step relies on


def same(found: fits.Found, want: fits.Found) -> None:
    assert found.keys() == want.keys()
    for name, values in want.items():
        np.testing.assert_allclose(found[name], values, atol=1e-4, err_msg=name)


@pytest.mark.parametrize(
    ("device", "name"),  # another on a GPU: test_a_fit_that_only_awaits
    [*(("cpu", name) for name in fits.FITS), ("gpu", "options")],
)
def test_fits_are_as_natively(python_page: PythonPage, device: str, name: str) -> None:
    python_page.give(exported, fits)
    with ThreadPoolExecutor(1) as thread:  # in this one runs Playwright's loop
        want = thread.submit(asyncio.run, fits.FITS[name]("cpu")).result()
    same(python_page.run(f"import fits\nawait fits.FITS[{name!r}]({device!r})"), want)


HALF = """
import fits, warnings
import pyframe as pf
async def half(dtype, device):
    x, y = fits.data(32)
    model = fits.classifier(lr=0.1)
    model = pf.Model(model.net, model.loss, model.optimizer)
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        history = await model.fit_async(
            x, y, epochs=3, batch_size=16, device=device, mixed_precision=dtype, clip_norm=1.0)
    return [history["loss"], [str(w.message) for w in told]]
"""


def test_mixed_precision(python_page: PythonPage) -> None:
    """In float16 where the adapter has it; one that has not takes bfloat16 and says so."""
    python_page.give(exported, fits)
    python_page.run(HALF)
    exact, _ = python_page.run("await half(None, 'gpu')")
    for dtype in ("bfloat16", "float16"):
        losses, told = python_page.run(f"await half({dtype!r}, 'gpu')")
        np.testing.assert_allclose(losses, exact, rtol=0.05)
        assert losses != exact
        if dtype == "bfloat16" or python_page.run("pf.device('gpu').backend.limits.float16"):
            assert told == []
        else:
            assert len(told) == 1
            assert "bfloat16" in told[0]


STALE = sorted(stale_patterns.PATTERNS)
# Python there is another than here, and tells in another way which code runs.
WRONG = """
import forms
import stale_patterns

def wrong(names, device):
    found = {}
    for name in names:
        try:
            forms.run(stale_patterns.PATTERNS[name], device)
        except Exception as error:
            found[name] = f"{type(error).__name__}: {error}"
    return found
"""


@pytest.mark.parametrize(("device", "names"), [("cpu", STALE), ("gpu", STALE[::11])])
def test_a_compiled_step_is_never_stale(
    python_page: PythonPage, device: str, names: list[str]
) -> None:
    python_page.give(forms, stale_patterns)
    python_page.run(WRONG)
    for i in range(0, len(names), 30):  # so that the page answers now and then
        assert python_page.run(f"wrong({names[i : i + 30]!r}, {device!r})") == {}


# --- the backend


def test_contract_in_the_page(python_page: PythonPage) -> None:
    """It keeps the contract that the host's and the native one keep."""
    python_page.give(contract)
    kept = python_page.run(
        "import contract, pyframe as pf\n"
        "backend = pf.device('gpu').backend\n"
        "for check in contract.CHECKS:\n"
        "    await check(backend)\n"
        "backend.name"
    )
    assert kept == "browser"


# What the program of the test uses; SCALE comes before it.
PRELUDE = """
from array import array
import numpy as np
import pyframe as pf
from pyframe.backend.base import ProgramCode

gpu = pf.device("gpu").backend
params = lambda factor: np.float32(factor).tobytes() + np.uint32(2).tobytes() + bytes(248)
steps = [v for i in range(40) for v in (0, 1, 1, 1, 0, 8, 2, i % 2, 1 - i % 2)]
loaded = gpu.load(ProgramCode([SCALE], ["scale"], array("i", steps), 2, 256))
whole = gpu.create(512)
x, y = gpu.slice(whole, 0, 256), gpu.create(256)
"""


def test_what_is_asked_of_the_runtime(python_page: PythonPage) -> None:
    """backend/browser.py alone, in what the contract leaves open: submits of so many dispatches,
    bind groups, and errors."""
    counted, gone, small = python_page.run(
        f"SCALE = '''{SCALE}'''\n{PRELUDE}\n"
        """
gpu.stats.reset()
gpu.run(loaded, [x, y], params(-1))
gpu.run(loaded, [x, y], params(-1))
s = gpu.stats
counted = [s.dispatches, s.submits, s.bind_groups, s.bytes_uploaded]
gpu.unload(loaded)
try:
    gpu.run(loaded, [x, y], params(1))
except RuntimeError as error:
    gone = str(error)
try:
    gpu.slice(x, 0, 260)
except RuntimeError as error:
    small = str(error)
[counted, gone, small]
"""
    )
    assert counted == [80, 8, 40, 256]
    assert "is not loaded" in gone
    assert "fewer than 260" in small


# --- loaders, training, profiles

PROGRAM = """
import json, warnings
import pyframe as pf
from pyframe.utils.data import DataLoader, RandomSampler, StackDataset, get_worker_info

pf.manual_seed(5)
data = StackDataset(range(6), pf.arange(6) * 2)
loader = DataLoader(data, 4, shuffle=True, num_workers=2, persistent_workers=True, timeout=3)
with warnings.catch_warnings(record=True) as told:
    warnings.simplefilter("always")
    epochs = [[[part.tolist() for part in batch] for batch in loader] for _ in range(2)]
json.dumps([epochs, [str(w.message) for w in told], get_worker_info()])
"""


def test_loaders_in_the_page(python_page: PythonPage) -> None:
    """There are no worker processes in it."""
    page = json.loads(python_page.run(PROGRAM))
    here: dict[str, Any] = {}
    exec(PROGRAM.replace("num_workers=2, persistent_workers=True, timeout=3", ""), here)
    assert page[0] == here["epochs"], "the same order as here"
    assert len(page[1]) == 1
    assert "a web page has no worker processes" in page[1][0]
    assert page[2] is None


def test_a_page_starts_no_processes(python_page: PythonPage) -> None:
    out = python_page.run("""
import pyframe.multiprocessing as mp, pyframe as pf
said = []
for start in (
    mp.Process(target=print).start, lambda: mp.spawn(print), pf.ones(2).share_memory_,
):
    try:
        start()
    except RuntimeError as error:
        said.append(str(error).partition(";")[0])
said
""")
    assert out[0] == out[1] == "multiprocessing: a page has no processes to start"
    assert out[2].startswith("share_memory_: tensors can't share memory between processes on")


def test_same_start_in_the_page(python_page: PythonPage) -> None:
    """The page starts from the same bits as a program here, and loses as much in its steps."""
    python_page.give(same_start)
    weights, losses = json.loads(same_start.weights_and_losses(digits(), "cpu"))
    page_weights, page_losses = json.loads(
        python_page.run("import digits, same_start\nsame_start.weights_and_losses(digits, 'cpu')")
    )
    assert page_weights == weights
    np.testing.assert_allclose(page_losses, losses, rtol=1e-4)


CNN = """
import pyframe as pf
from pyframe import nn, optim
from pyframe.nn import functional as F

def losses(device, steps=3):
    pf.manual_seed(0)
    net = nn.Sequential(
        nn.Conv2d(1, 4, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2),
        nn.Conv2d(4, 8, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2),
        nn.Flatten(), nn.Linear(8 * 7 * 7, 16), nn.ReLU(), nn.Linear(16, 10),
    ).to(device)
    opt = optim.Adam(net.parameters(), lr=1e-2)

    @pf.compile
    def step(x, y):
        opt.zero_grad()
        loss = F.cross_entropy(net(x), y)
        loss.backward()
        opt.step()
        return loss.detach()

    x, y = pf.rand(4, 1, 28, 28).to(device), pf.arange(4).to(device)
    return [step(x, y).item() for _ in range(steps)]
"""


def test_a_convolutional_network_learns_in_the_page(python_page: PythonPage) -> None:
    """On the GPU; below is the CPU. Its backward pass has kernels with 65
    conditions in a loop, on which Chromium's software adapter was lost while each was a branch."""
    here: dict[str, Any] = {"pf": pf}
    exec(CNN, here)
    found = python_page.run(CNN + "losses('gpu')")
    assert found[-1] < found[0]
    np.testing.assert_allclose(found, here["losses"]("cpu"), rtol=1e-4)


def test_a_profile(python_page: PythonPage) -> None:
    """Kernels by the browser's clock, or Programs where it has none."""
    same, kinds, spans, table, drawn = python_page.run(
        """
import json
import pyframe as pf

work = lambda: (pf.ones(3, 4, device="gpu") @ pf.ones(4, 5, device="gpu")).relu().tolist()
want = work()
with pf.profiler.profile() as prof:
    got = work()
prof.export_chrome_trace("/tmp/trace.json")
spans = [e for e in json.load(open("/tmp/trace.json"))["traceEvents"] if e["ph"] == "X"]
svg = pf.graph.show(lambda x: x.exp(), pf.ones(3, device="gpu")).svg
[got == want, [e.kind for e in prof.events], len(spans), str(prof), "exp" in svg]
"""
    )
    assert same
    assert set(kinds) in ({"kernel"}, {"program"})
    assert spans == len(kinds)
    assert "matmul" in table
    assert drawn


def test_a_page_asks_for_its_gpu(python_page: PythonPage) -> None:
    """pf.gpu in a page, where only what waits has a twin."""
    took, missing, facts, grown, report = python_page.run(
        """
import pyframe as pf

about = pf.gpu.get_device_properties()
start, end = pf.gpu.Event(enable_timing=True), pf.gpu.Event(enable_timing=True)
await start.record_async()
x = pf.ones(1 << 16, device="gpu")
pf.gpu.synchronize()
before = pf.gpu.memory_allocated()
y = x + 1
await pf.gpu.synchronize_async()
grown = pf.gpu.memory_allocated() - before
await end.record_async()
took = await start.elapsed_time_async(end)
try:
    pf.ones(1, device="gpu:1")
except RuntimeError as error:
    missing = str(error)
facts = [
    start.clock == ("gpu" if about.timestamps else "host"), about.total_memory is None,
    about.adapter == pf.device_name("gpu"), pf.gpu.get_device_name("gpu") != "",
    pf.gpu.device_count() == int(not about.software), "in use" in pf.gpu.memory_summary(),
]
[took, missing, facts, grown, pf.gpu.memory_summary("gpu")]
"""
    )
    assert took >= 0
    assert "'gpu:1': no such GPU; there is 'gpu:0' (" in missing
    assert facts == [True] * 6
    assert grown >= 4 << 16
    assert "MiB" in report or "KiB" in report


# --- WebAssembly modules, on the memory of whichever Python the page has


def test_modules_work_on_arrays_in_place(python_page: PythonPage) -> None:
    python_page.give(wasm_modules)
    assert python_page.run("import wasm_modules; wasm_modules.in_place()") == "changed"
    cut, other = python_page.run("wasm_modules.refused()")
    assert cut.startswith("the browser refuses its module: CompileError")
    assert other.startswith("the browser refuses its module: LinkError")


def test_a_browser_without_simd_and_a_python_without_memory(python_page: PythonPage) -> None:
    python_page.give(wasm_modules)
    simd, memory = python_page.run("import wasm_modules; wasm_modules.poorer()")
    assert len(simd) == 1
    assert "no SIMD in WebAssembly" in simd[0]
    assert memory == []


BOTH = (
    CNN
    + """
import os
from pyframe.backend import wasm
from pyframe.runtime import cpu

launches = []
load = wasm.WasmCompiler.load
def counted(self, functions, some):
    launches.append(len(some))
    return load(self, functions, some)

wasm.WasmCompiler.load = counted
found = losses("cpu")
os.environ["PYFRAME_CPU"] = "numpy"
cpu.compiler.cache_clear()
by_numpy = losses("cpu")
del os.environ["PYFRAME_CPU"]
cpu.compiler.cache_clear()
wasm.WasmCompiler.load = load
[found, by_numpy, launches]
"""
)


ALL_LENGTHS = """
import numpy as np
import pyframe as pf
from pyframe import nn

net = nn.Sequential(nn.Linear(6, 16), nn.TransformerEncoderLayer(16, 2, 32, 0.0, batch_first=True))
opt = pf.optim.SGD(net.parameters(), lr=0.1)

def loss(x):
    return net(x).square().mean() + pf.arange(x.shape[1]).sum() / x.shape[1]

@pf.compile
def step(x):
    found = loss(x)
    opt.zero_grad()
    found.backward()
    opt.step()
    return found.detach()

off, unsupported = 0.0, []
for n in (4, 6, 9, 5, 17, 30, 12, 33):
    x = pf.randn(2, n, 6)
    wanted = loss(x).item()
    off = max(off, abs(step(x).item() - wanted) / wanted)
for some in step.replays.values():
    unsupported += [why for r in some for e in r.executables for why in e.plan.unsupported.values()]
[step.captured, off, unsupported]
"""


@pytest.fixture(scope="module")
def without_gpu(visited: Any, server: Any, pyodide_files: None) -> Iterator[PythonPage]:
    """Python in a browser without WebGPU."""
    tab = Tab(visited, server)
    tab.add_to_worker("Object.defineProperty(navigator, 'gpu', { value: undefined });")
    yield PythonPage(tab)
    tab.close()


def test_a_page_without_webgpu(without_gpu: PythonPage) -> None:
    assert without_gpu.run("import pyframe as pf; str(pf.device('auto'))") == "cpu"
    with pytest.raises(Exception, match="device .gpu.: .* no GPU: this browser has no WebGPU"):
        without_gpu.run("pf.ones(2, device='gpu').sum().item()")


def test_one_capture_is_for_all_lengths(without_gpu: PythonPage) -> None:
    captured, off, unsupported = without_gpu.run(ALL_LENGTHS)
    assert captured == 3
    assert off < 1e-5
    assert unsupported == []


def test_a_page_without_webgpu_trains_on_modules(without_gpu: PythonPage) -> None:
    """A network's step is launches in one module, and its losses are those of NumPy."""
    compiled, numpy, launches = without_gpu.run(BOTH)
    np.testing.assert_allclose(compiled, numpy, rtol=1e-4)
    assert max(launches) > 20


EAGER = """
import numpy as np
import pyframe as pf
from pyframe.backend import wasm
from pyframe.core.trace import lazy_policy
from pyframe.runtime import cpu

least, lazy_policy.least = lazy_policy.least, float("inf")  # as PYFRAME_EAGER=1 says
cpu._done[0] = 0  # other tests have worked in this page
computed = []
compute = wasm.WasmCompiler.compute
def counted(self, op, *args):
    computed.append(op.name)
    return compute(self, op, *args)

wasm.WasmCompiler.compute = counted
a, b = np.random.default_rng(0).standard_normal((2, 200, 200), np.float32)
for _ in range(9):
    y = pf.from_numpy(a) @ pf.from_numpy(b).T
off = np.abs(y.numpy() - a.astype("f8") @ b.T.astype("f8"))
lazy_policy.least = least
[computed, float(off.max())]
"""

RECORDED = """
import numpy as np
import pyframe as pf

net = pf.nn.Sequential(pf.nn.Linear(200, 100), pf.nn.ReLU(), pf.nn.Linear(100, 3))
opt = pf.optim.SGD(net.parameters(), lr=0.1)
x, y = pf.randn(128, 200), pf.arange(128) % 3
before = len(pf.device("cpu").executor._kept)
losses = []
for _ in range(6):
    opt.zero_grad()
    loss = pf.nn.functional.cross_entropy(net(x), y)
    loss.backward()
    opt.step()
    losses.append(loss.item())
[len(pf.device("cpu").executor._kept) - before, losses]
"""


def test_products_of_a_page_that_compiles_nothing(python_page: PythonPage) -> None:
    computed, off = python_page.run(EAGER)
    assert computed == ["matmul"]  # from when its work is worth loading the routines
    assert off < 1e-4


def test_a_loop_that_compiles_nothing_is_recorded(python_page: PythonPage) -> None:
    programs, losses = python_page.run(RECORDED)
    assert programs == 1
    assert sorted(losses, reverse=True) == list(losses)
