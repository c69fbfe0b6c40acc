"""A part of the op suite inside Pyodide, on NumPy and on WebGPU, against NumPy here."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from samples import ROWS, extremes

from pyframe.core.op import REGISTRY

# numbers at the edges, and the first row of each primitive, of which all others are composed
NAMES = [
    r.name for r in ROWS if r in extremes.ROWS or (r.name in REGISTRY and not r.cpu and not r.scipy)
]

RUN = """
import json
import pyframe as pf
from samples import ROWS

def results(row, device, whole):
    xs = row.tensors(pf, device)
    out = row.results(pf, *xs) if whole else [row.call(pf, pf.nn.functional, *xs)]
    out = [t for t in out if t is not None]
    assert all(str(t.device) == device for t in out)
    return [t.detach().cpu().numpy().astype(float).ravel().tolist() for t in out]
"""


@pytest.fixture(scope="package")
def page_with_samples(python_page: Any) -> Any:
    for file in (Path(__file__).parent.parent / "samples").glob("*.py"):
        python_page.put(f"samples/{file.name}", file.read_text())
    python_page.run(RUN)
    return python_page


@pytest.mark.parametrize("device", ["cpu", "gpu"])
def test_ops_in_the_page(page_with_samples: Any, device: str) -> None:
    """With gradients on the CPU alone: they are of the same primitives, and a CPU that plays a GPU
    takes long to make each kernel."""
    whole = device == "cpu"
    found: dict[str, Any] = {}
    for i in range(0, len(NAMES), 40):  # so that the page answers now and then
        some = f"r for r in ROWS if r.name in {NAMES[i : i + 40]!r}"
        run = f"json.dumps({{r.name: results(r, {device!r}, {whole}) for r in [{some}]}})"
        found |= json.loads(page_with_samples.run(run))
    assert list(found) == NAMES
    scope: dict[str, Any] = {}
    exec(RUN, scope)
    wrong = []
    for row in ROWS:
        if row.name in found:
            for got, want in zip(found[row.name], scope["results"](row, "cpu", whole), strict=True):
                if not np.allclose(got, want, rtol=2e-4, atol=2e-5, equal_nan=True):
                    wrong.append(f"{row.name}: got {got}, not {want}")
    assert wrong == []


def test_a_read_in_the_page_can_be_awaited(page_with_samples: Any) -> None:
    value = page_with_samples.run(
        "x = pf.arange(4.0, device='gpu') * 2\n"
        "[await x.sum().item_async(), await x.tolist_async(), x.sum().item()]"
    )
    assert list(value) == [12, [0, 2, 4, 6], 12]


def test_an_index_out_of_range_raises_in_the_page(page_with_samples: Any) -> None:
    message = page_with_samples.run(
        "x = pf.ones(3, 2, device='gpu')\n"
        "try:\n"
        "    pf.nn.functional.embedding(pf.tensor([0, 3], device='gpu'), x).sum().item()\n"
        "    message = 'nothing'\n"
        "except IndexError as error:\n"
        "    message = str(error)\n"
        "message"
    )
    assert message == "embedding: index out of range: expected 0 to 2; got 3"


REAL = """
import dataclasses, json
import js
import pyframe as pf
from pyframe.codegen.wgsl import generate, printer

F = pf.nn.functional
CASES = {
    "softmax": lambda q, k, v, m: (q * 9).softmax(-1),
    "columns": lambda q, k, v, m: q.sum((0, 1, 2)),
    "map": lambda q, k, v, m: (q * 2 + k[:, :1].exp()) * (q > 0),
    "scan": lambda q, k, v, m: q.cumsum(2),
    "order": lambda q, k, v, m: q.flatten().topk(5).values,
    "place": lambda q, k, v, m: odd(q).argmax(-1) + q.amax(-1) + odd(q).amax(-1).isnan() * 0.5,
    "attention masked": lambda q, k, v, m: F.scaled_dot_product_attention(
        q, k, v, m, enable_gqa=True),
}

def odd(q):  # with equal ones and with what is no number
    return q.clamp(max=0.5).where(q > -2, float("nan"))

def found(device):
    pf.manual_seed(0)
    q, k, v = [pf.randn(2, h, 37, 20).to(device).requires_grad_() for h in (4, 2, 2)]
    mask = (pf.rand(37, 37) > 0.3).to(device)
    out = {}
    for name, f in CASES.items():
        y = f(q, k, v, mask)
        grads = pf.autograd.grad((y * y).sum(), (q, k, v), allow_unused=True)
        parts = [x.detach().cpu().numpy().ravel() for x in (y, *grads) if x is not None]
        out[name] = [x.tolist() for x in parts]
    return out

backend = pf.device("gpu").backend
before = backend.limits, printer.VEC4_MIN_ELEMENTS
printer.VEC4_MIN_ELEMENTS = 0
generate.cache_clear()
backend.limits = dataclasses.replace(before[0], kind="")
pf.device("gpu").executor.forget_programs()
try:
    assert backend.limits.subgroups
    both = found("cpu"), found("gpu")
    assert any("subgroupShuffleXor" in code for code in js.pyframeRuntime.codes().codes)
finally:
    backend.limits, printer.VEC4_MIN_ELEMENTS = before
    generate.cache_clear()
    pf.device("gpu").executor.forget_programs()
json.dumps(both)
"""


def test_kernels_for_real_gpus_in_the_page(python_page: Any) -> None:
    """The page's software adapter has forms of its own; these compile and compute here too. Tint
    takes the texts with subgroups, of which that adapter's are of 4. test_runtime.py has texts of
    more."""
    want, got = json.loads(python_page.run(REAL))
    for name, parts in want.items():
        for a, b in zip(got[name], parts, strict=True):
            np.testing.assert_allclose(a, b, 1e-4, 1e-5, err_msg=name)
