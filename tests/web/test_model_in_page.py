"""What Model does natively it does in the page."""

from __future__ import annotations

import asyncio
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import exported
import fits
import numpy as np
import pytest
from fits import FITS

from .conftest import PythonPage

FILES = [Path(module.__file__) for module in (exported, fits)]


def with_fits(page: PythonPage) -> PythonPage:
    for path in FILES:
        page.put(path.name, path.read_text())
    page.run("import sys; sys.path.insert(0, '')\nimport asyncio, fits\nimport pyframe as pf")
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
