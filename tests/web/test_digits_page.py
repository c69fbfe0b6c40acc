"""The page of the digits, as a visitor uses it: what it learns, reads, keeps, and does without."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from pyframe import serve

from .conftest import Tab

LONG = 240_000  # ms; a busy machine takes its time


def open_demo(tab: Tab) -> Any:
    tab.page.set_default_timeout(LONG)
    page = tab.open("demos/digits.html")
    page.evaluate("() => customElements.whenDefined('py-frame')")
    page.evaluate("() => document.querySelector('py-frame').load().then(() => {})")
    return page


@pytest.fixture(scope="module")
def demo_tab(visited: Any, server: serve.Server, pyodide_files: None) -> Iterator[Tab]:
    tab = Tab(visited, server)
    open_demo(tab)
    yield tab
    tab.close()


@pytest.fixture
def demo(demo_tab: Tab) -> Any:
    """The page, with a network that knows nothing."""
    demo_tab.page.evaluate("() => document.querySelector('py-frame').reset()")
    return demo_tab.page


def train(page: Any, device: str, limit: int = 512) -> Any:
    return page.evaluate(
        """async ([device, limit]) => {
            const element = document.querySelector("py-frame");
            await element.move(device);
            const done = await element.train({ epochs: 2, limit });
            return { ...done, history: element.history };
        }""",
        [device, limit],
    )


def marks(page: Any) -> list[str]:
    """What stands below each of the unseen samples."""
    texts: list[str] = page.locator("pf-samples button").all_inner_texts()
    return texts


def test_training_learns_on_the_gpu(demo: Any) -> None:
    """A few steps, each of which takes a software GPU a second."""
    done = train(demo, "gpu", 6 * 32)
    assert done["steps"] == 6
    first, second = done["history"]
    assert second["loss"] < first["loss"] < 2.4
    assert second["val_accuracy"] > first["val_accuracy"]
    assert "WebGPU" in demo.locator("py-frame [part=device-name]").inner_text()
    assert len(marks(demo)) == 21


def test_a_sample_on_the_pad_is_read_as_before(demo: Any) -> None:
    """What the pad makes of a digit of MNIST is the digit again: scaled and centred alike."""
    train(demo, "cpu", 2048)
    best = "document.querySelector('py-frame').shadowRoot.querySelector('pf-bars')"
    for i in range(3):
        guess = marks(demo)[i].split()[0]
        demo.locator("pf-samples button").nth(i).click()
        demo.wait_for_function(
            "guess => { const rows = [...BARS.shadowRoot.querySelectorAll('[part~=best]')];"
            "return rows.length === 1 && rows[0].textContent.trim().startsWith(guess); }".replace(
                "BARS", best
            ),
            arg=guess,
        )


def test_without_webgpu_and_without_digits(
    tab: Tab, server: serve.Server, pyodide_files: None
) -> None:
    """The page says so, and its network still predicts."""
    config = serve.config()
    tab.page.route(
        "**/config.json",
        lambda route: route.fulfill(json={**config, "datasets": {"digits": []}}),
    )
    tab.add_to_worker("Object.defineProperty(navigator, 'gpu', { value: undefined });")
    page = open_demo(tab)
    said = page.locator("py-frame [part=notices]").inner_text()
    assert "There is nothing to learn from" in said
    shape = page.evaluate(
        "() => document.querySelector('py-frame').predict(new Float32Array(784)).then(y => y.shape)"
    )
    assert shape == [1, 10]
    assert "WebAssembly" in page.locator("py-frame [part=device-name]").inner_text()
