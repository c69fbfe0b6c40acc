"""The pages of demos, as a visitor finds them: each is trained or tried, and one is edited. The
digits' is also opened without WebGPU and without its data. test_access.py looks at each page."""

from __future__ import annotations

import gzip
import re
import runpy
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import pyframe as pf
from pyframe import serve

from .conftest import Tab

EXAMPLES = serve.ROOT / "examples"


def opened(tab: Tab, name: str) -> Any:
    """The page of a demo, once its program is there."""
    page = tab.open(f"demos/{name}.html")
    page.evaluate("() => customElements.whenDefined('py-frame')")
    page.evaluate("() => document.querySelector('py-frame').ready.then(() => {})")
    return page


@pytest.fixture(scope="module")
def pages(visited: Any, server: serve.Server, pyodide_files: None) -> Iterator[Any]:
    """Opens a demo's page, or lets the one that is open have another's element, as Python then has
    no need to start anew; all of them must leave no error in the console."""
    tab = Tab(visited, server)

    def show(name: str, whole: bool = True) -> Any:
        if whole or "demos/" not in tab.page.url:
            return opened(tab, name)
        tab.page.evaluate(
            """async (url) => {
                const text = await (await fetch(url)).text();
                const other = new DOMParser().parseFromString(text, "text/html");
                const frame = document.importNode(other.querySelector("py-frame"), true);
                document.querySelector("py-frame").replaceWith(frame);
                await frame.load();
            }""",
            f"{name}.html",
        )
        return tab.page

    show.page = tab.page  # type: ignore[attr-defined]
    yield show
    tab.close()


def call(page: Any, method: str, *arguments: Any) -> Any:
    """What a method of the page's element gives."""
    return page.evaluate(
        "([method, given]) => document.querySelector('py-frame')[method](...given)",
        [method, arguments],
    )


def predict(page: Any, values: np.ndarray) -> np.ndarray:
    """What the element makes of samples."""
    data, shape = page.evaluate(
        """async (values) => {
            const element = document.querySelector("py-frame");
            const { data, shape } = await element.predict(Float32Array.from(values));
            return [[...data], shape];
        }""",
        values.reshape(-1).tolist(),
    )
    return np.array(data, np.float32).reshape(shape)


def wait_for_best(page: Any, name: str) -> None:
    """Until the longest bar is that of `name`."""
    page.wait_for_function(
        """(name) => {
            const { shadowRoot } = document.querySelector("py-frame");
            const inside = shadowRoot.querySelector("pf-bars").shadowRoot;
            return inside.querySelector("[part~=best] [part=name]")?.textContent === name;
        }""",
        arg=name,
    )


def example(name: str) -> dict[str, Any]:
    return runpy.run_path(str(EXAMPLES / f"{name}.py"))


def test_digits_are_read(pages: Any) -> None:
    """After two short epochs: one that is drawn, and what the pad makes of samples, which are
    scaled and centred alike."""
    page = pages("digits")
    program = page.evaluate("() => document.querySelector('py-editor').text")
    assert program == (EXAMPLES / "digits.py").read_text()
    call(page, "move", "cpu")
    logs = call(page, "train", {"epochs": 2, "limit": 2048})
    assert logs["steps"] == 64
    assert logs["val_accuracy"] >= 0.85
    page.locator("pf-pad").scroll_into_view_if_needed()
    box = page.locator("pf-pad canvas").first.bounding_box()
    page.mouse.move(box["x"] + 0.55 * box["width"], box["y"] + 0.2 * box["height"])
    page.mouse.down()
    page.mouse.move(box["x"] + 0.48 * box["width"], box["y"] + 0.8 * box["height"], steps=8)
    page.mouse.up()
    wait_for_best(page, "1")
    marks = page.locator("pf-samples button").all_inner_texts()
    assert len(marks) == 21
    for i, mark in enumerate(marks[:3]):
        page.locator("pf-samples button").nth(i).click()
        wait_for_best(page, mark.split()[0])


def test_without_webgpu_and_without_digits(
    tab: Tab, server: serve.Server, pyodide_files: None
) -> None:
    """The page says so, and its network still predicts."""
    config = {**serve.config(), "datasets": {"digits": []}}
    tab.page.route("**/config.json", lambda route: route.fulfill(json=config))
    tab.add_to_worker("Object.defineProperty(navigator, 'gpu', { value: undefined });")
    page = opened(tab, "digits")
    said = page.locator("py-frame [part=notices]").inner_text()
    assert "There is nothing to learn from" in said
    assert predict(page, np.zeros(784)).shape == (1, 10)
    assert "WebAssembly" in page.locator("py-frame [part=device-name]").inner_text()


def test_the_playground_is_trained_and_edited(pages: Any) -> None:
    page = pages("playground")
    before = page.evaluate("() => [...document.querySelector('py-frame').spec.points]")
    call(page, "set", "shape", "blobs")
    call(page, "set", "layers", 2)
    spec = page.evaluate(
        "() => { const { parameters, points } = document.querySelector('py-frame').spec;"
        " return { parameters, points: [...points] }; }"
    )
    assert spec["parameters"] == 354  # of two layers
    assert spec["points"] != before
    logs = call(page, "train", {"epochs": 12})
    assert logs["val_accuracy"] > 0.95
    corners = predict(page, np.array([[0.5, 0.5], [-0.5, -0.5]]))
    assert corners.argmax(1).tolist() == [1, 0]

    page.evaluate(
        """async () => {
            const editor = document.querySelector("py-editor");
            editor.text = editor.text.replace("EPOCHS = 60", "EPOCHS = 7");
            const frame = document.querySelector("py-frame");
            const ready = new Promise((resolve) => frame.addEventListener("ready", resolve));
            editor.run();
            await ready;
        }"""
    )
    assert page.evaluate("() => document.querySelector('py-frame').spec.epochs") == 7
    page.evaluate("() => document.querySelector('py-editor').revert()")


STOP = """(count) => {
    const frame = document.querySelector("py-frame");
    frame.addEventListener("prediction", ({ detail: { text } }) => {
        if ([text].flat()[0].length === count) frame.engine.stop();
    });
}"""


def test_the_gpt_writes(pages: Any) -> None:
    """Most of its words are Shakespeare's; who stops it has what is written."""
    page = pages("gpt", whole=False)
    call(page, "move", "cpu")
    page.evaluate(STOP, 50)
    written = call(page, "predict", "ROMEO:")
    assert 50 <= len(written) < 400
    gpt = example("gpt")
    assert set(written) <= set(gpt["LETTERS"])
    known = set(re.findall(r"\w+", gzip.decompress(gpt["TEXT"].read_bytes()).decode()))
    words = re.findall(r"\w+", written)[:-1]  # the last one may be cut
    assert sum(word in known for word in words) > len(words) / 2


def test_the_writer_becomes_the_visitors(pages: Any) -> None:
    """It learns from the text in the page; what it was stays what it was."""
    page = pages("writer", whole=False)
    call(page, "move", "cpu")
    call(page, "set", "text", "Rain falls on the hills, and the river rises. " * 6)
    call(page, "set", "temperature", 0.2)
    call(page, "set", "lr", 0.005)
    done = call(page, "train", {"epochs": 4})
    assert done["loss"] < 0.5
    assert page.evaluate("() => document.querySelector('py-frame').history[0].loss") > 1
    page.evaluate(STOP, 36)
    was, now = call(page, "predict", "Rain falls on ")
    assert now.startswith("Rain falls on the hills, and the")
    assert was.startswith("Rain falls on ")
    assert "the hills, and the" not in was
    page.evaluate("() => new Promise((go) => requestAnimationFrame(() => setTimeout(go)))")
    shown = page.locator("py-frame [part=output] output").all_inner_texts()
    assert [text.strip() for text in shown] == [was.strip(), now.strip()]
    call(page, "reset")
    assert "knows what it was made with" in page.locator("py-frame [part=status]").inner_text()


def test_the_plane_of_digits_is_drawn(pages: Any) -> None:
    """As the same weights draw it natively, and where the mouse goes."""
    page = pages("vae", whole=False)
    page.wait_for_function(  # ink, before anything was moved
        """() => {
            const inside = document.querySelector("py-frame").shadowRoot;
            const canvas = inside.querySelector("pf-picture").shadowRoot.querySelector("canvas");
            const { width, height } = canvas;
            const { data } = canvas.getContext("2d").getImageData(0, 0, width, height);
            return data.some((value, i) => i % 4 === 0 && value > 128);
        }"""
    )
    call(page, "move", "cpu")
    places = np.array([[0, 0], [-1.5, -1.5], [1.5, 0.5]], np.float32)
    drawn = predict(page, places)
    vae = example("vae")
    model = vae["make_model"]().load(EXAMPLES / "data" / "vae.safetensors")
    with pf.no_grad():
        wanted = vae["draw"](model, pf.from_numpy(places)).numpy()
    assert drawn.shape == (3, 1, 28, 28)
    np.testing.assert_allclose(drawn, wanted, atol=1e-4)
    page.evaluate(
        """() => document.querySelector("py-frame").addEventListener("prediction",
            ({ detail }) => { self.seen = [...detail.value]; })"""
    )
    page.locator("pf-position").scroll_into_view_if_needed()
    box = page.locator("pf-position").bounding_box()
    page.mouse.move(box["x"] + 0.8 * box["width"], box["y"] + 0.2 * box["height"], steps=4)
    page.wait_for_function("() => self.seen?.[0] > 0.5 && self.seen[1] > 0.5")


def test_a_photo_is_named_without_python(pages: Any, tmp_path: Path) -> None:
    weights = serve.find("build/photo/photo.safetensors")
    if weights is None:
        pytest.skip("the weights of photo.py are missing: run scripts/get_photo")
    photo = example("photo")
    pf.web.export(photo["demo"], to=tmp_path, weights=weights, train=False, element=False)
    asked = []

    def answer(route: Any) -> None:
        name = route.request.url.rpartition("/")[2]
        asked.append(name)
        route.fulfill(path=tmp_path / name)

    pages.page.route("**/photo/*", answer)
    page = pages("photo")
    page.locator(".photos button").nth(1).click()
    wait_for_best(page, "espresso")
    assert {"program.json", "state.safetensors"} <= set(asked)
    assert not page.evaluate(
        "() => performance.getEntriesByType('resource').some(({ name }) => /pyodide/.test(name))"
    )
    assert "class Block" in page.inner_text("pre")
