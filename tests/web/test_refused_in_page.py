"""A page whose browser or driver refuses kernels, which it tells late: other variants take their
places, and what is computed is right."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import pytest

from pyframe import serve

from .conftest import PythonPage, Tab

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


@pytest.fixture(scope="module")
def whole(visited: Any, server: serve.Server, pyodide_files: None) -> Iterator[PythonPage]:
    tab = Tab(visited, server)
    refusing(tab)
    yield PythonPage(tab)
    tab.close()


@pytest.fixture
def page(whole: PythonPage) -> PythonPage:
    """A page whose GPU is new, and refuses what a test names."""
    whole.run(START)
    return whole


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


def test_a_refused_variant(page: PythonPage) -> None:
    """It is replaced, with a warning for each, in all that waits for it: what is computed in place,
    and read between, is as it would have been."""
    seen, after, told, later, refused = page.run(
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


def test_kernels_of_one_text(page: PythonPage) -> None:
    """Those that share a refused one get texts of their own, with the same parameters."""
    found, sizes, codes, told = page.run(
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


def test_all_variants_are_refused(page: PythonPage) -> None:
    """The error names the kernel and says what is lost; what stands behind it is done."""
    page.run("refuse('fn four_a')\nw = x @ y\npf.flush()\nv = (x + 1) * 2\npf.flush()")
    told = r"RefusedError: WGSL kernel 'matmul\[1x300x500\]': too much: .* to compute is lost"
    with pytest.raises(Exception, match=told):
        page.run("w.sum().item()")
    assert page.run("v.mean().item()") == 4
    assert page.run("refuse()\n(x @ y).sum().item()") == ONE


def test_subgroups_are_refused(page: PythonPage) -> None:
    found, told, has = page.run(
        "gpu.backend.limits = dataclasses.replace(gpu.backend.limits, subgroups=True)\n"
        "refuse('subgroup')\n"
        "found = [x.sum(-1).mean().item(), x.softmax(-1).sum().item()]\n"
        "[found, told, gpu.backend.limits.subgroups]"
    )
    assert found == pytest.approx([40, 300])
    assert has is False
    (text,) = told
    assert "in the variant 'subgroups' (too much): 'workgroup memory' takes its place" in text


def test_autotune(page: PythonPage) -> None:
    """A variant that is refused is no winner."""
    times, taken, value = page.run(
        "refuse('@workgroup_size(64)')\n"
        "(row,) = pf.autotune(lambda: x @ y)\n"
        "gpu.backend.remember('')\n"  # other pages share what the origin keeps
        "[row.times, row.times[row.winner], (x @ y).sum().item()]"
    )
    assert None in times.values()
    assert taken > 0
    assert value == ONE


def test_sizes_that_change(page: PythonPage) -> None:
    """The workgroups that a run was given are for the refused text: the error says what is lost."""
    page.run(
        "run = pf.compile(lambda x: (x @ x.T).sum())\n"
        "values = [run(pf.ones(n, 16, device='gpu')).item() for n in (20, 30)]\n"
        "refuse('params')\n"
        "last = run(pf.ones(40, 16, device='gpu'))"
    )
    told = r"RefusedError: WGSL kernel '(matmul|sum).*n.*': too much.* to compute is lost"
    with pytest.raises(Exception, match=told):
        page.run("last.item()")
    assert page.run("[values, (x @ y).sum().item()]") == [[16 * 400, 16 * 900], ONE]
