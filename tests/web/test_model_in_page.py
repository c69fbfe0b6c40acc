"""What Model does natively it does in the page."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import exported
import fits
import numpy as np
import pytest
from fits import FITS

from pyframe import serve

from .conftest import PythonPage, Tab
from .test_reading import forced


def with_fits(page: PythonPage) -> PythonPage:
    """The page, which can import the fits."""
    page.give(exported, fits)
    page.run("import asyncio, fits\nimport pyframe as pf")
    return page


@pytest.fixture(scope="module")
def page(python_page: PythonPage) -> PythonPage:
    return with_fits(python_page)


@pytest.fixture(scope="module")
def natively() -> dict[str, fits.Found]:
    """What the fits give here, on the CPU."""
    with ThreadPoolExecutor(1) as thread:  # in this one runs Playwright's loop
        run = thread.submit
        return {name: run(asyncio.run, fit("cpu")).result() for name, fit in FITS.items()}


@pytest.fixture(scope="module")
def awaiting(visited: Any, server: serve.Server, pyodide_files: None) -> Iterator[PythonPage]:
    """Python that can't wait for a GPU."""
    tab = Tab(visited, server)
    yield with_fits(forced(tab, "await", {}))
    tab.close()


def same(found: fits.Found, want: fits.Found) -> None:
    assert found.keys() == want.keys()
    for name, values in want.items():
        np.testing.assert_allclose(found[name], values, atol=1e-4, err_msg=name)


@pytest.mark.parametrize("name", FITS)
@pytest.mark.parametrize("device", ["cpu", "gpu"])
def test_fits_are_as_natively(
    page: PythonPage, natively: dict[str, fits.Found], name: str, device: str
) -> None:
    same(page.run(f"await fits.FITS[{name!r}]({device!r})"), natively[name])


@pytest.mark.parametrize("name", ["two_optimizers", "resumed"])
def test_fits_that_only_await(
    awaiting: PythonPage, natively: dict[str, fits.Found], name: str
) -> None:
    same(awaiting.run(f"await fits.FITS[{name!r}]('gpu')"), natively[name])


HALF = """
import warnings
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


def test_mixed_precision(page: PythonPage) -> None:
    """In float16 where the adapter has it; one that has not takes bfloat16 and says so."""
    page.run(HALF)
    exact, _ = page.run("await half(None, 'gpu')")
    for dtype in ("bfloat16", "float16"):
        losses, told = page.run(f"await half({dtype!r}, 'gpu')")
        np.testing.assert_allclose(losses, exact, rtol=0.05)
        assert losses != exact
        if dtype == "bfloat16" or page.run("pf.device('gpu').backend.limits.float16"):
            assert told == []
        else:
            assert len(told) == 1
            assert "bfloat16" in told[0]


def test_what_is_shown_and_what_a_gpu_says(page: PythonPage) -> None:
    shown = page.run(
        "model = fits.classifier()\n"
        "history = await model.fit_async(*fits.data(16), batch_size=8, epochs=2)\n"
        "[str(model.summary((4,))), history._repr_html_(), repr(model), model._repr_html_()]"
    )
    summary, table, text, html = shown
    assert "67" in summary  # parameters
    assert table.count("<tr>") == 3
    assert "metrics: accuracy, f1, auroc" in text
    assert "metrics: <b>accuracy, f1, auroc</b>" in html
    names, before, after, report = page.run(
        "x = pf.ones(1 << 16, device='gpu')\n"
        "pf.gpu.synchronize()\n"
        "before = pf.gpu.memory_allocated('gpu')\n"
        "y = x + 1\n"
        "await pf.gpu.synchronize_async()\n"
        "after = pf.gpu.memory_allocated('gpu')\n"
        "[[pf.gpu.get_device_name('gpu'), pf.device_name('gpu')], before, after,\n"
        " pf.gpu.memory_summary('gpu')]"
    )
    assert names[0]
    assert after - before >= 4 << 16
    assert "MiB" in report or "KiB" in report
