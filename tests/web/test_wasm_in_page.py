"""WebAssembly modules in a page: on the memory of whichever Python the page has."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from . import wasm_modules
from .conftest import PythonPage, Tab
from .test_python_page import CNN

SOURCE = Path(wasm_modules.__file__).read_text()


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


def test_a_python_of_the_pages_own(tab: Tab, pyodide_files: None) -> None:
    """A page that loads Pyodide itself asks it for the package `pyframe`, and for nothing else."""
    page = tab.open("blank")
    found = page.evaluate(
        """async (source) => {
            const config = await (await fetch("config.json")).json();
            const indexURL = new URL(config.pyodide, location.href).href;
            const { loadPyodide } = await import(`${indexURL}pyodide.mjs`);
            const python = await loadPyodide({ indexURL });
            await python.loadPackage("pyframe", { messageCallback() {} });
            python.FS.writeFile("wasm_modules.py", source);
            return python.runPython("import wasm_modules; wasm_modules.in_place()");
        }""",
        SOURCE,
    )
    assert found == "changed"


BOTH = (
    CNN
    + """
import os
from pyframe.backend import wasm
from pyframe.runtime import cpu

launches = []
load = wasm.Compiler.load
def counted(self, functions, some):
    launches.append(len(some))
    return load(self, functions, some)

wasm.Compiler.load = counted
found = losses("cpu")
os.environ["PYFRAME_CPU"] = "numpy"
cpu.compiler.cache_clear()
by_numpy = losses("cpu")
del os.environ["PYFRAME_CPU"]
cpu.compiler.cache_clear()
wasm.Compiler.load = load
[found, by_numpy, launches]
"""
)


LENGTHS = """
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


def test_one_capture_is_for_all_lengths(without_gpu: PythonPage) -> None:
    captured, off, unsupported = without_gpu.run(LENGTHS)
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
from pyframe.core.trace import recording
from pyframe.runtime import cpu

least, recording.least = recording.least, float("inf")  # as PYFRAME_EAGER=1 says
cpu._done[0] = 0  # other tests have worked in this page
computed = []
compute = wasm.Compiler.compute
def counted(self, op, *args):
    computed.append(op.name)
    return compute(self, op, *args)

wasm.Compiler.compute = counted
a, b = np.random.default_rng(0).standard_normal((2, 200, 200), np.float32)
for _ in range(9):
    y = pf.from_numpy(a) @ pf.from_numpy(b).T
off = np.abs(y.numpy() - a.astype("f8") @ b.T.astype("f8"))
recording.least = least
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
