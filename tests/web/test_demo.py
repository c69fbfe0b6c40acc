"""The demo page, as a visitor uses it: train, stop, draw, save, start again."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import pyframe as pf
from pyframe import io, serve

from .conftest import Tab

# Two epochs of 8 steps; the software adapter takes some ten seconds for them.
SHORT = "?epochs=2&limit=512"
TRAINING_ENDS = 180_000  # ms
IDLE = "() => document.querySelector('#train').textContent === 'Train'"


@pytest.fixture(scope="module")
def demo_tab(browser: Any, server: serve.Server, pyodide_files: None) -> Iterator[Tab]:
    tab = Tab(browser, server)
    open_demo(tab, SHORT)
    yield tab
    tab.close()


@pytest.fixture
def demo(demo_tab: Tab) -> Any:
    """The page, ready and with an untrained network."""
    page = demo_tab.page
    if page.is_enabled("#reset"):
        page.click("#reset")
        page.wait_for_function("() => document.querySelector('#step').textContent === '–'")
        page.wait_for_selector("#train:enabled")
    page.click("#clear")
    return page


def open_demo(tab: Tab, query: str = "") -> Any:
    page = tab.open(query)
    page.wait_for_function(
        "() => /^Ready|could not/.test(document.querySelector('#status').textContent)"
    )
    return page


def train(page: Any, device: str) -> None:
    page.check(f"input[name=device][value={device}]", force=True)
    page.wait_for_selector("#train:enabled")
    page.click("#train")
    page.wait_for_function(IDLE, timeout=TRAINING_ENDS)


def draw(page: Any, *points: tuple[int, int]) -> None:
    """A stroke through points of the pad's 280 by 280."""
    page.locator("#pad").scroll_into_view_if_needed()
    box = page.locator("#pad").bounding_box()
    at = [
        (box["x"] + x * box["width"] / 280, box["y"] + y * box["height"] / 280) for x, y in points
    ]
    page.mouse.move(*at[0])
    page.mouse.down()
    for x, y in at[1:]:
        page.mouse.move(x, y, steps=5)
    page.mouse.up()


def wait_for_best(page: Any, digit: str = "[0-9]") -> None:
    """Until the longest bar is that of `digit` (answers to parts of a stroke come before)."""
    best = "document.querySelector('#bars .best > :first-child')?.textContent"
    page.wait_for_function(f"() => /^{digit}$/.test({best})")


@pytest.mark.parametrize(("device", "name"), [("cpu", "NumPy"), ("gpu", "WebGPU")])
def test_training_learns(demo: Any, device: str, name: str) -> None:
    train(demo, device)
    assert re.match(r"Done after 16 steps in .* reads [\d.]+ % ", demo.inner_text("#status"))
    assert name in demo.inner_text("#device-name")
    rows = demo.locator("#epochs tbody tr").all_inner_texts()
    (_, loss, learning, unseen), (_, later_loss, later_learning, later_unseen) = (
        [float(cell.strip(" %")) for cell in row.split("\t")] for row in rows
    )
    assert later_loss < loss < 2.4
    assert later_learning > learning
    assert later_unseen > unseen
    assert float(demo.inner_text("#loss")) < 2
    label = demo.get_attribute("#chart", "aria-label")
    assert re.fullmatch(r"Loss curve: from 2\.\d\d to [01]\.\d\d in 16 steps", label)
    marks = demo.locator("#samples span").all_inner_texts()
    assert len(marks) == 21
    assert sum("✓" in mark for mark in marks) > 7


def test_the_page_starts_with_guesses(demo: Any) -> None:
    draw(demo, (140, 50), (140, 230))
    wait_for_best(demo)
    demo.wait_for_function("() => /not learnt/.test(document.querySelector('#answer').textContent)")


def test_a_drawing_is_read(demo: Any) -> None:
    for _ in range(3):
        train(demo, "cpu")
    assert demo.locator("#bars .best").count() == 0
    draw(demo, (140, 50), (140, 230))
    wait_for_best(demo, "1")
    assert demo.inner_text("#answer").startswith("It sees a 1")
    demo.click("#clear")
    assert demo.locator("#bars .best").count() == 0


def test_a_sample_on_the_pad_is_read_as_before(demo: Any) -> None:
    """What the pad makes of a digit of MNIST is the digit again: scaled and centred alike."""
    train(demo, "cpu")
    for i in range(3):
        mark = demo.locator("#samples span").nth(i).inner_text()
        demo.click("#clear")
        demo.locator("#samples button").nth(i).click()
        wait_for_best(demo, mark[0])


def test_the_pad_works_with_the_keyboard(demo: Any) -> None:
    demo.focus("#pad")
    demo.keyboard.press("ArrowDown")  # the pen is up
    assert demo.locator("#bars .best").count() == 0
    demo.keyboard.press("Space")
    for _ in range(12):
        demo.keyboard.press("ArrowDown")
    wait_for_best(demo)


def test_stop_and_go_on(demo: Any) -> None:
    demo.click("#train")
    demo.wait_for_function("() => Number(document.querySelector('#step').textContent) > 0")
    assert demo.inner_text("#train") == "Stop"
    demo.click("#train")
    demo.wait_for_function(IDLE)
    stopped = re.match(r"Stopped after (\d+) steps", demo.inner_text("#status"))
    assert stopped
    assert int(stopped[1]) < 16
    train(demo, "cpu")
    assert int(demo.inner_text("#step")) == int(stopped[1]) + 16


def test_saved_weights_are_the_networks(demo: Any, tmp_path: Path) -> None:
    with demo.expect_download() as download:
        demo.click("#save")
    assert download.value.suggested_filename == "digits.safetensors"
    download.value.save_as(tmp_path / "weights")
    saved = io.load(tmp_path / "weights")
    wanted = native_digits().make_model().net.state_dict()
    assert sorted(saved) == sorted(wanted)
    for name, tensor in wanted.items():
        assert saved[name].numpy().tobytes() == tensor.numpy().tobytes()  # an untrained start


def test_without_webgpu_and_without_digits(
    tab: Tab, server: serve.Server, weights: Path, pyodide_files: None
) -> None:
    """The page says so, and can still read a drawing with saved weights, if they fit."""
    config = {**serve.config(), "data": None, "missing": ["No digits."]}
    config["weights"] = "digits.safetensors"
    io.save({"other": pf.zeros(2)}, weights)
    tab.page.route("**/config.json", lambda route: route.fulfill(json=config))
    tab.add_to_worker("Object.defineProperty(navigator, 'gpu', { value: undefined });")
    try:
        page = open_demo(tab)
        notices = page.inner_text("#notices")
        assert "No digits." in notices
        assert "offers no WebGPU, so NumPy does the arithmetic" in notices
        assert page.is_disabled("#train")
        assert page.is_disabled("input[value=gpu]")
        page.click("#load")
        page.wait_for_selector("#status.error")
        said = page.inner_text("#status")
        assert said.startswith("Loading the saved weights: RuntimeError: ")
        assert 'Unexpected key(s) in state_dict: "other"' in said
        tab.errors.clear()  # the whole traceback is in the console
        native_digits().make_model().save(weights)
        page.click("#load")
        page.wait_for_function("() => /saved weights now/.test(document.body.innerText)")
        draw(page, (140, 50), (140, 230))
        wait_for_best(page)
        assert page.inner_text("#answer").startswith("It sees a")
    finally:
        weights.unlink()


def test_no_python(tab: Tab) -> None:
    config = {**serve.config(), "pyodide": "nowhere/"}
    tab.page.route("**/config.json", lambda route: route.fulfill(json=config))
    page = open_demo(tab)
    said = page.inner_text("#status")
    assert "The page could not start: Python can't be had from http://127.0.0.1" in said
    assert "scripts/get_pyodide" in said
    assert page.is_disabled("#train")
    tab.errors.clear()


def native_digits() -> Any:
    """examples/digits.py as a module."""
    import importlib.util

    spec = importlib.util.spec_from_file_location("digits", serve.ROOT / "examples" / "digits.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module
