"""The widgets: each alone in a page, by mouse, finger and keys, under a strict policy. How they are
named and told: test_access.py."""

from __future__ import annotations

import base64
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

from pyframe import serve

from .conftest import Tab

POLICY = "default-src 'none'; script-src 'self'; style-src 'self'; img-src data:"
HTML = """<!doctype html><html lang=en><meta charset=utf-8><title>widgets</title>
<meta name=viewport content="width=device-width"><meta name=color-scheme content="light dark">
<link rel=icon href="data:,"><script type=module src=widgets.js></script>"""
# All that a screen reader was told lately.
TOLD = "[...$('.said[aria-live]').children].map((said) => said.textContent)"


class Widgets(Tab):
    """A page with one widget, and what it told."""

    def __init__(self, browser: Any, server: serve.Server, **context: Any) -> None:
        super().__init__(browser, server, **context)
        self.page.route("**/widgets-page", self._serve)
        self.open("widgets-page")
        self.wait("customElements.get('pf-values')")

    def _serve(self, route: Any) -> None:
        headers = {"content-security-policy": POLICY}
        route.fulfill(body=HTML, content_type="text/html", headers=headers)

    def make(self, html: str) -> Any:
        """One widget in place of all others; its events are noted in `told`."""
        self.page.evaluate(
            """html => {
                document.body.innerHTML = html;
                self.told = [];
                self.w = document.body.firstElementChild;
                const names = ["input", "change", "points", "choose", "submit", "stop", "error",
                    "clear"];
                for (const name of names) {
                    w.addEventListener(name, (event) => told.push([name, event.detail ?? null]));
                }
                self.$ = (query) => w.shadowRoot.querySelector(query);
                self.$$ = (query) => [...w.shadowRoot.querySelectorAll(query)];
                self.frame = () => new Promise((go) => requestAnimationFrame(() => setTimeout(go)));
            }""",
            html,
        )
        self.run("frame()")
        return self.page.locator("body > :first-child")

    def run(self, code: str, argument: Any = None) -> Any:
        """What JavaScript gives; `w` is the widget and `$` finds in it."""
        return self.page.evaluate(code, argument)

    def paint(self, code: str) -> None:
        """Run JavaScript, and wait for the frame that shows what it did."""
        self.run(code)
        self.run("frame()")

    def wait(self, code: str) -> None:
        """Until JavaScript gives true; the policy forbids Playwright's own way."""
        self.run(
            f"""async (code) => {{
                const start = performance.now();
                while (!({code})) {{
                    if (performance.now() - start > 20_000)
                        throw new Error(`after 20 s it is not so: ${{code}}`);
                    await new Promise((go) => setTimeout(go));
                }}
            }}""",
            code,
        )

    def emulate(self, feature: str, **media: str) -> None:
        """A visitor who wants it so; skips where the browser can't be told."""
        self.page.emulate_media(**media)
        (wanted,) = media.values()
        if not self.run(f"matchMedia('({feature}: {wanted})').matches"):
            pytest.skip(f"WebDriver has no way to tell this browser {feature}")

    def value(self) -> Any:
        """The widget's value as an array, or None."""
        found = self.run("w.value && [...w.value]")
        return None if found is None else np.array(found, np.float32)

    def points(self) -> Any:
        """Those of the visitor: x, y and the class of each."""
        return np.array(self.run("[...w.points]")).reshape(-1, 3)

    def keys(self, *keys: str) -> None:
        """Press them one after the other, and wait for the frame that shows what they did."""
        for key in keys:
            self.page.keyboard.press(key)
        self.run("frame()")

    def told(self, name: str) -> list[Any]:
        """The details of the events of this name, the oldest first."""
        return [detail for event, detail in self.run("told") if event == name]

    def stroke(self, locator: Any, *points: tuple[float, float]) -> None:
        """Draw with the mouse through points, where 1 is the width."""
        box = locator.bounding_box()
        at = [(box["x"] + x * box["width"], box["y"] + y * box["width"]) for x, y in points]
        self.page.mouse.move(*at[0])
        self.page.mouse.down()
        for x, y in at[1:]:
            self.page.mouse.move(x, y, steps=4)
        self.page.mouse.up()


@pytest.fixture(scope="module")
def shared(browser: Any, server: serve.Server) -> Iterator[Widgets]:
    page = Widgets(browser, server)
    yield page
    page.close()


@pytest.fixture
def page(shared: Widgets) -> Widgets:
    shared.page.mouse.move(0, 0)
    return shared


def as_mnist(ink: Any) -> Any:
    """The ink of a field of 280 by 280 as MNIST's digits are made: its longer side in 20 pixels,
    the centre of mass in the middle of 28 by 28."""
    ys, xs = np.nonzero(ink)
    weights = ink[ys, xs].astype(np.float64)
    extent = max(np.ptp(xs), np.ptp(ys)) + 1
    scale = min(20 / extent, 1)
    columns = np.floor(14 + (xs - np.average(xs, weights=weights)) * scale).astype(int)
    rows = np.floor(14 + (ys - np.average(ys, weights=weights)) * scale).astype(int)
    inside = (columns >= 0) & (columns < 28) & (rows >= 0) & (rows < 28)
    field = np.zeros((28, 28))
    np.add.at(field, (rows[inside], columns[inside]), weights[inside] * scale**2)
    return np.minimum(field, 255) / 255


def test_a_drawn_digit_is_centred_as_mnist_has_them(page: Widgets) -> None:
    page.make("<pf-pad></pf-pad>")
    assert page.value() is None
    seven = [(0.2, 0.2), (0.5, 0.2), (0.3, 0.6)]  # the mouse is at whole pixels
    page.stroke(page.page.locator("canvas"), *seven)
    drawn = page.value().reshape(28, 28)
    ink = page.run(
        """() => {  // the same line without a pad
            const context = Object.assign(document.createElement("canvas"),
                { width: 280, height: 280 }).getContext("2d");
            Object.assign(context, { lineWidth: 22, lineCap: "round", lineJoin: "round" });
            context.moveTo(56, 56); context.lineTo(140, 56); context.lineTo(84, 168);
            context.stroke();
            const { data } = context.getImageData(0, 0, 280, 280);
            return Array.from({ length: 280 * 280 }, (_, i) => data[4 * i + 3]);
        }"""
    )
    expected = as_mnist(np.array(ink).reshape(280, 280))
    assert np.abs(drawn - expected).mean() < 0.005
    assert np.abs(drawn - expected).max() < 0.2  # pieces of a line join a little otherwise
    assert page.told("input")


def test_a_pad_that_does_not_centre_keeps_the_place(page: Widgets) -> None:
    page.make('<pf-pad height="20" width="40" centered="false"></pf-pad>')
    page.stroke(page.page.locator("canvas"), (0.1, 0.1), (0.4, 0.1))
    drawn = page.value().reshape(20, 40)
    assert drawn[4, 8] > 0.7
    assert drawn[10:].max() == 0
    assert drawn[:, 20:].max() == 0


def test_a_pad_is_drawn_on_by_keys(page: Widgets) -> None:
    page.make("<pf-pad></pf-pad>")
    page.page.locator("canvas").focus()
    page.keys("Space", *["ArrowDown"] * 12, "Space", *["ArrowRight"] * 5)
    drawn = page.value().reshape(28, 28)
    rows, columns = np.nonzero(drawn > 0.3)
    assert np.ptp(rows) > 2 * np.ptp(columns)  # a line from above to below; then the pen was up
    assert len(page.told("input")) == 13
    page.keys("Backspace")
    assert page.value() is None
    assert page.run("$('[part=clear]').disabled")


def test_a_pad_takes_a_picture_and_gives_it_back(page: Widgets) -> None:
    page.make("<pf-pad></pf-pad>")
    page.run("w.value = Array.from({ length: 784 }, (_, i) => (i % 28) / 27)")
    picture = page.value()
    np.testing.assert_array_equal(picture, np.tile(np.arange(28, dtype=np.float32) / 27, 28))
    page.stroke(page.page.locator("canvas"), (0.1, 0.2), (0.1, 0.8))
    assert not np.array_equal(page.value(), picture)
    page.page.locator("[part=undo]").click()
    np.testing.assert_array_equal(page.value(), picture)
    page.page.locator("[part=clear]").click()
    assert page.value() is None
    with pytest.raises(Exception, match="expected 784 values, got 3"):
        page.run("w.value = [1, 2, 3]")


def png(page: Widgets, code: str, width: int, height: int, kind: str = "png") -> bytes:
    """A picture that `code` draws with `c`, a canvas's context."""
    data = page.run(
        f"""() => {{
            const canvas = Object.assign(document.createElement("canvas"),
                {{ width: {width}, height: {height} }});
            const c = canvas.getContext("2d");
            {code};
            return canvas.toDataURL("image/{kind}", 1).split(",")[1];
        }}"""
    )
    return base64.b64decode(data)


def choose(page: Widgets, name: str, kind: str, content: bytes) -> None:
    """Choose a file as a visitor does, until the widget has told of it."""
    files = [{"name": name, "mimeType": kind, "buffer": content}]
    page.page.locator("input[type=file]").set_input_files(files)
    page.wait("told.some(([name]) => name === 'input' || name === 'error')")


def test_a_photo_s_middle_is_taken_with_all_its_pixels(page: Widgets) -> None:
    page.make('<pf-image height="8" width="8"></pf-image>')
    fill = """c.fillStyle = "#f00"; c.fillRect(0, 0, 400, 100);
        c.fillStyle = "#0f0"; c.fillRect(150, 0, 50, 100);
        c.fillStyle = "#00f"; for (let x = 200; x < 250; x += 2) c.fillRect(x, 0, 1, 100)"""
    choose(page, "wide.png", "image/png", png(page, fill, 400, 100))
    red, green, blue = page.value().reshape(3, 8, 8)
    np.testing.assert_allclose(red[:, :3], 0, atol=0.02)
    np.testing.assert_allclose(green[:, :3], 1, atol=0.02)
    np.testing.assert_allclose(blue[:, :3], 0, atol=0.02)
    np.testing.assert_allclose([red[:, 5:], blue[:, 5:]], 0.5, atol=0.06)  # a column in two
    assert page.run("$('[part=name]').textContent") == "wide.png, 400 × 100"
    page.page.locator("[part=clear]").click()
    assert page.value() is None


def test_a_photo_stands_as_the_camera_was_held(page: Widgets) -> None:
    page.make('<pf-image height="8" width="8" channels="1"></pf-image>')
    fill = "c.fillStyle = '#fff'; c.fillRect(0, 0, 64, 64); c.fillStyle = '#000'; "
    jpeg = png(page, fill + "c.fillRect(0, 0, 32, 64)", 64, 64, "jpeg")  # the left half is black
    tiff = b"MM\0*\0\0\0\x08\0\x01\x01\x12\0\x03\0\0\0\x01\0\x06\0\0\0\0\0\0"  # turn it right
    exif = b"\xff\xe1" + (8 + len(tiff)).to_bytes(2, "big") + b"Exif\0\0" + tiff
    choose(page, "turned.jpg", "image/jpeg", jpeg[:2] + exif + jpeg[2:])
    grey = page.value().reshape(8, 8)
    np.testing.assert_allclose(grey[:3], 0, atol=0.05)  # the upper half
    np.testing.assert_allclose(grey[5:], 1, atol=0.05)


def test_a_file_that_is_too_large_is_refused(page: Widgets) -> None:
    """As what is no picture, in test_access.py."""
    page.make('<pf-image height="8" width="8" most="0.001"></pf-image>')
    choose(page, "big.png", "image/png", bytes(2000))
    ((told,),) = (detail.values() for detail in page.told("error"))
    assert told.startswith("big.png has")
    assert "at most 0.001 MB" in told
    assert page.page.locator("[part=message]").inner_text() == told
    assert page.value() is None
    assert not page.told("input")


def test_a_picture_is_dropped_and_pasted(page: Widgets) -> None:
    page.make('<pf-image height="4" width="4" channels="1"></pf-image>')
    page.run(
        """async () => {
            const canvas = Object.assign(document.createElement("canvas"), { width: 9, height: 9 });
            const file = new File([await new Promise((go) => canvas.toBlob(go))], "a.png",
                { type: "image/png" });
            self.files = new DataTransfer();
            files.items.add(file);
            $("[part=drop]").dispatchEvent(new DragEvent("drop", { dataTransfer: files,
                bubbles: true, cancelable: true, composed: true }));
        }"""
    )
    page.wait("told.length === 1")
    np.testing.assert_allclose(page.value(), 1)  # what is transparent lies on white
    page.run("w.clear(); told.length = 0")
    page.run(
        """{
            const paste = new Event("paste", { bubbles: true, cancelable: true, composed: true });
            $("input").dispatchEvent(Object.assign(paste, { clipboardData: files }));
        }"""
    )
    page.wait("told.length === 1")
    assert len(page.value()) == 16


def test_points_are_put_by_mouse(page: Widgets) -> None:
    page.make('<pf-points classes="3" low="-2" high="2"></pf-points>')
    plane = page.page.locator("[part=plane]")
    page.stroke(plane, (0.25, 0.25))
    page.page.locator("input[type=radio]").nth(2).check(force=True)
    page.stroke(plane, (0.5, 0.75))
    np.testing.assert_allclose(page.points(), [[-1, 1, 0], [0, -1, 2]], atol=0.03)  # y upwards
    assert len(page.told("points")) == 2
    page.stroke(plane, (0.1, 0.9), (0.9, 0.9))  # a row of them, undone at once
    row = page.points()[2:]
    assert len(row) >= 5
    assert set(row[:, 2]) == {2}
    page.page.locator("[part=undo]").click()
    assert len(page.points()) == 2
    page.page.locator("[part=clear]").click()
    assert len(page.points()) == 0
    assert page.run("$('[part=undo]').disabled")
    page.run("told.length = 0; w.data = [0, 0, 1, .5, .5, 0]; w.points = [.25, 1, 1]")
    assert page.points().tolist() == [[0.25, 1, 1]]
    assert page.told("points") == []
    page.run("w.clear()")
    assert len(page.told("points")) == 1
    assert page.run("w.data.length") == 6


def test_points_are_put_by_keys(page: Widgets) -> None:
    page.make("<pf-points></pf-points>")
    page.page.locator("[part=plane]").focus()
    page.keys("ArrowRight", "ArrowRight", "Enter", "2", "ArrowUp", "Shift+ArrowUp", "Space")
    np.testing.assert_allclose(page.points(), [[0.1, 0, 0], [0.1, 0.055, 1]], atol=1e-6)
    np.testing.assert_allclose(page.value(), [0.1, 0.055], atol=1e-6)
    page.wait(f"{TOLD}.at(-1)?.includes('2 points')")
    page.keys("Backspace")
    assert len(page.points()) == 1
    page.keys("Delete")
    assert len(page.points()) == 0


def test_a_surface_lies_beneath_the_points(page: Widgets) -> None:
    page.make("<pf-points></pf-points>")
    grid = np.array(page.run("[...w.grid(3)]")).reshape(3, 3, 2)
    np.testing.assert_array_equal(grid[0], [[-1, 1], [0, 1], [1, 1]])
    np.testing.assert_array_equal(grid[2, 0], [-1, -1])
    colors = page.run(
        """async () => {  // the left is the first class's, the right the second's
            const size = 10, grid = w.grid(size), data = new Float32Array(2 * size * size);
            for (let i = 0; i < size * size; i++) {
                data[2 * i + 1] = 1 / (1 + Math.exp(-9 * grid[2 * i]));
                data[2 * i] = 1 - data[2 * i + 1];
            }
            w.surface({ data, shape: [size * size, 2] }, size);
            await frame();
            const canvas = $("canvas"), { width, height } = canvas;
            const at = (x, y) => [...canvas.getContext("2d")
                .getImageData(Math.floor(x * width), Math.floor(y * height), 1, 1).data];
            return [at(.1, .3), at(.9, .7), at(.5, .5)];
        }"""
    )
    left, right, border = np.array(colors)[:, :3]
    assert left[2] > left[0] + 40  # blue
    assert right[0] > right[2] + 40  # orange
    assert border.min() > 240  # the line between them
    with pytest.raises(Exception, match="expected 16 places, got 3"):
        page.run("w.surface({ data: [1, 0, 0], shape: [3, 1] }, 4)")


def test_a_position_follows_mouse_and_keys(page: Widgets) -> None:
    page.make("<pf-position></pf-position>")
    np.testing.assert_array_equal(page.value(), [0, 0])
    plane = page.page.locator("[part=plane]")
    box = plane.bounding_box()
    page.page.mouse.move(box["x"] + box["width"] / 4, box["y"] + box["height"] / 4)
    np.testing.assert_allclose(page.value(), [-1.5, 1.5], atol=0.05)
    assert page.told("input")
    plane.focus()
    page.keys("Home", "ArrowLeft", "ArrowDown", "ArrowDown")
    np.testing.assert_allclose(page.value(), [-0.15, -0.3], atol=1e-6)
    page.paint("w.surface({ data: new Float32Array(4 * 9).fill(1), shape: [4, 1, 3, 3] }, 2)")
    lit = page.run("$('canvas').getContext('2d').getImageData(9, 9, 1, 1).data[0]")
    assert lit == 255


def test_a_prompt_is_written_and_sent(page: Widgets) -> None:
    page.make('<pf-text placeholder="Once" most="20"></pf-text>')
    area = page.page.locator("textarea")
    area.press_sequentially("To be or not to be, that")
    assert page.run("w.value") == "To be or not to be, "
    assert page.run("$('#left').textContent") == "0 characters left"
    assert len(page.told("input")) == 20
    area.press("Enter")
    page.page.locator("[part=submit]").click()
    assert page.told("submit") == [{"value": "To be or not to be, "}] * 2
    area.fill("To")
    area.press("Shift+Enter")
    assert page.run("w.value") == "To\n"
    page.run("w.busy = true")
    area.press("Escape")
    assert (page.told("stop"), len(page.told("submit"))) == ([None], 2)
    page.run("w.busy = false; w.clear()")
    assert page.run("w.value") == ""
    # as a control it counts when one leaves it; Enter begins a line
    page.make('<pf-text name="own_text" value="a text" button=""></pf-text>')
    for key in ("End", "Enter"):
        area.press(key)
    area.blur()
    assert page.told("submit") == []
    assert page.told("change") == [{"name": "own_text", "value": "a text\n"}]


def test_written_texts_stream_side_by_side(page: Widgets) -> None:
    """Each with what it was begun with; who listens is told of whole sentences, once."""
    page.make('<pf-text mode="output" names="Before, After"></pf-text>')
    for texts in (["To b", "To"], ["To be, <b>or</b>", "To go"]):
        page.paint(f"w.show({texts}, false, 'To ')")
    assert page.run("$$('output').map((output) => output.textContent)") == texts
    assert page.run("$$('.given').map((start) => start.textContent)") == ["To ", "To "]
    assert page.run("$('output').ariaBusy") == "true"
    page.paint("w.show(['To be', 'To go'])")  # the page is drawn with the next frame
    assert page.run("$('output').ariaBusy") == "false"
    page.wait(f"{TOLD}.length")
    assert page.run(TOLD) == ["Before: To be\nAfter: To go"]
    assert page.run("w.value") == ["To be", "To go"]
    page.run("w.clear()")
    assert page.run("w.value") == [""]
    page.make('<pf-text mode="output"></pf-text>')
    first = "It was the best of times, it was the worst of times: so they say. "
    page.run(
        """first => {
            const text = `${first}It was the age of wisdom`;
            w.show("", false);
            for (let i = 1; i <= text.length; i++) w.show(text.slice(0, i), false);
            w.show(text);
            w.show(text);
        }""",
        first,
    )
    page.wait(f"{TOLD}.length > 1")
    assert page.run(TOLD) == [f"Written: {first.strip()}", "It was the age of wisdom"]


def test_a_conversation(page: Widgets) -> None:
    """Answers grow in bubbles of their own; test_element.py has what becomes of them."""
    page.make("<pf-chat></pf-chat>")
    area = page.page.locator("textarea")
    assert not page.page.locator("[part=log]").is_visible()
    area.press("Enter")
    area.fill("Hello <b>there</b>")
    area.press("Enter")
    assert page.told("submit") == [{"value": "Hello <b>there</b>"}]  # of nothing nothing is told
    page.run("w.begin(w.value); w.busy = true")
    page.paint("w.show('Good ', false)")
    assert page.run(TEXTS.format("[part=log] p")) == "You: Hello <b>there</b>,Answer: Good "
    assert page.run("[$$('.writing').length, $('[part=log]').ariaBusy]") == [1, "true"]
    area.fill("And")
    area.press("Enter")
    assert len(page.told("submit")) == 1  # while it is answered
    page.paint("w.busy = false; w.show('Good day!')")
    assert page.run("[$$('.writing').length, w.messages]") == [0, [
        {"role": "user", "content": "Hello <b>there</b>"},
        {"role": "assistant", "content": "Good day!"},
    ]]  # fmt: skip


TEXTS = "$$('{}').map((each) => each.textContent).join()"
BARS, CELLS = TEXTS.format("[part~=bar]"), TEXTS.format(".cell:not([hidden])")
VALUES = "[...w.value]"
AT_END = "(({ scrollHeight: all, clientHeight, scrollTop }) => all - clientHeight - scrollTop < 2)"
AT_END += "($('[part=log]'))"
CHANGED = "told.filter(([name]) => name === 'change').map(([, { name, value }]) => [name, value])"
# A widget, and what is done, what is looked at then, and what is seen.
DONE: dict[str, tuple[str, list[tuple[str, str, Any]]]] = {
    "bars have words": ("<pf-bars names='cat, dog, fox'></pf-bars>", [
        ("", BARS, "cat–,dog–,fox–"),
        ("w.show({ data: [.1, .7, .2], shape: [1, 3] })", BARS, "cat10 %,dog70 %,fox20 %"),
        ("", "$('[part~=best] [part=name]').textContent", "dog"),
        ("w.setAttribute('top', 2)", BARS, "dog70 %,fox20 %"),
        ("w.clear()", "$$('[part~=best]').length", 0),
    ]),
    "bars have the shares of scores": ("<pf-bars names='no, yes' scores></pf-bars>", [
        ("w.show({ data: [Math.log(4)], shape: [1, 1] })", BARS, "no20 %,yes80 %"),
        ("w.show({ data: [Math.log(9), 0], shape: [1, 2] })", BARS, "no90 %,yes10 %"),
    ]),
    "a picture is shown sharply": ("<pf-picture height=2 width=2 channels=3></pf-picture>", [
        ("w.show({ data: [1, 0, 0, 0, 0, 1, 0, 0, 0, 0, 1, .5], shape: [1, 3, 2, 2] })",
         "[...$('canvas').getContext('2d').getImageData(0, 0, 2, 2).data]", pytest.approx(
            [255, 0, 0, 255, 0, 255, 0, 255, 0, 0, 255, 255, 0, 0, 128, 255], abs=1)),
        ("", "getComputedStyle($('canvas')).imageRendering", "pixelated"),
    ]),
    "values have names and units": ("<pf-values names='price, area' unit=€></pf-values>", [
        ("w.show({ data: [1234567, -.031250], shape: [1, 2] })",
         TEXTS.format("dt, dd"), "price,1,234,567 €,area,−0.0313 €"),
    ]),
    "numbers are sliders": (
        """<pf-numbers><pf-slider name=age low=0 high=100 step=1></pf-slider>
        <pf-slider name=size low=1 high=100 value=10 log></pf-slider></pf-numbers>""", [
        ("", VALUES, [50, 10]),
        ("press ArrowRight", VALUES, [51, 10]),
        ("", "told.filter(([name]) => name === 'input')", [["input", None]]),
        ("w.clear()", VALUES, [50, 10]),
        ("w.spec = { sliders: [{ name: 'x', low: -1, high: 1, value: .25 }] }", VALUES, [0.25]),
        ("press End", VALUES, [1]),
    ]),
    "a slider has a log scale": (
        "<pf-slider name=lr low=0.001 high=10 value=0.0123 log></pf-slider>", [
        ("", "w.value", 0.0123),  # as it was given, though no position is there
        ("press ArrowRight", "w.value > 0.0123 && w.value < 0.0145", True),
        ("", f"JSON.stringify({CHANGED}) === JSON.stringify([['lr', w.value]])", True),
        ("", "Number($('input').ariaValueText) === w.value", True),
        ("press Home", "w.value", 0.001),
        ("press End", "w.value", 10),
        ("w.value = 100", "w.value", 10),
        ("w.spec = { name: 'n', low: 1, high: 5, value: 2, step: 2, label: 'Layers' }",
         "[w.name, w.value]", ["n", 2]),
        ("press ArrowRight", "[3, 5].includes(w.value)", True),
    ]),
    "a conversation is followed unless one reads above": ("<pf-chat></pf-chat>", [
        ("w.begin('Tell'); w.show('line\\n'.repeat(60), false)", AT_END, True),
        ("w.show('line\\n'.repeat(70), false)", AT_END, True),
        ("$('[part=log]').scrollTop = 100", AT_END, False),
        ("w.show('line\\n'.repeat(80), false)", "$('[part=log]').scrollTop", 100),
    ]),
    "a toggle is a switch": ("<pf-toggle name=noise label='With noise'></pf-toggle>", [
        ("", "w.value", False),
        ("press Space", CHANGED, [["noise", True]]),
        ("", "w.value", True),
    ]),
    "the chart survives losses that are no numbers": ("<pf-chart log></pf-chart>", [
        ("[NaN, Infinity, 0, -1, 2].forEach((loss, step) => w.add(step, { loss }))",
         CELLS, "Step4,Loss2"),
        ("", "$('svg').outerHTML.includes('NaN')", False),
        ("w.add(5, { loss: NaN, accuracy: null })", CELLS, "Step5,LossNaN"),
        ("w.clear(); w.add(1, { loss: NaN })", "$('svg').outerHTML.includes('NaN')", False),
        ("w.clear()", CELLS, "Step–,Loss–"),
    ]),
}  # fmt: skip


@pytest.mark.parametrize("case", DONE)
def test_what_is_done_is_seen(page: Widgets, case: str) -> None:
    html, steps = DONE[case]
    page.make(html)
    for code, look, seen in steps:
        if code.startswith("press "):
            page.page.locator("input:visible").first.press(code.removeprefix("press "))
        else:
            page.paint(code or "null")
        assert page.run(look) == seen, code


def test_the_chart_keeps_few_points_of_many(page: Widgets) -> None:
    page.make("<pf-chart></pf-chart>")
    drawn = page.run(
        """async () => {
            let drawn = 0;
            new MutationObserver(() => drawn++).observe($("svg"), { childList: true });
            w.planned = 100000;
            for (let step = 1; step <= 100000; step++) {
                w.add(step, { loss: 100 / step + (step === 50000 ? 7 : 0) });
                if (step % 100 === 0) w.epoch(step, { val_loss: 1 / step, val_accuracy: .5 });
            }
            await frame();
            await frame();
            return drawn;
        }"""
    )
    assert drawn == 1  # one frame, one drawing
    vertices = page.run("$('.raw').getAttribute('d').match(/[ML]/g).length")
    assert 500 <= vertices <= 2048
    assert page.run("w.shadowRoot.querySelectorAll('svg *').length") < 400
    plot = page.page.locator("[part=plot]")
    assert plot.get_attribute("aria-valuenow") == "100000"
    assert plot.get_attribute("aria-valuetext").startswith("step 100,000, loss 0.001")
    peak = page.run("Math.max(...$('.raw').getAttribute('d').match(/[\\d.]+ [\\d.]+/g)"
                    ".map((at) => at.split(' ').map(Number))"
                    ".filter(([x]) => x > 560).map(([, y]) => -y))")  # fmt: skip
    calm = page.run("-Number($('.smooth').getAttribute('d').match(/[\\d.]+$/)[0])")
    assert peak > calm + 5  # a single high loss is still seen


def test_the_chart_is_read_by_keys_and_mouse(page: Widgets) -> None:
    page.make("<pf-chart></pf-chart>")
    page.run(
        "for (let step = 1; step <= 10; step++) w.add(step, { loss: step, accuracy: step / 20 })"
    )
    page.run("w.epoch(10, { val_loss: 3, val_accuracy: .25, loss: 99 })")
    plot = page.page.locator("[part=plot]")
    plot.focus()
    page.keys("Home", "ArrowRight")
    text = plot.get_attribute("aria-valuetext")
    assert text.startswith("step 2, loss")
    assert "accuracy 10.0 %, validation accuracy 25.0 %" in text
    page.page.keyboard.press("Escape")
    box = plot.bounding_box()
    page.page.mouse.move(box["x"] + box["width"] - 11, box["y"] + 50)
    page.run("frame()")
    assert plot.get_attribute("aria-valuetext").startswith("step 10, ")
    assert page.run("$('.cursor') !== null")
    page.page.mouse.move(0, 0)
    page.run("frame()")
    assert page.run("$('.cursor') === null")
    label = "[...w.shadowRoot.querySelectorAll('svg text')].map((text) => text.textContent)"
    assert "10" in page.run(label)
    page.page.locator("[part=log]").click()
    page.run("frame()")
    assert page.run("$('[part=log]').ariaPressed") == "true"
    assert {"1", "2", "5", "10"} <= set(page.run(label))
    page.paint("w.clear()")
    assert page.run("$('.raw').getAttribute('d')") == ""


def test_a_plane_of_no_numbers_is_empty(page: Widgets) -> None:
    """Not black, or of a class."""
    for tag, shape in (("points", "4, 2"), ("position", "4, 1, 1, 2")):
        page.make(f"<pf-{tag}></pf-{tag}>")
        picture = "$('canvas').toDataURL()"
        page.paint("w.redraw()")
        before = page.run(picture)
        good = f"{{ data: Float32Array.of(0, 1, 1, 0, 0, 1, 1, 0), shape: [{shape}] }}"
        page.paint(f"w.surface({good}, 2)")
        assert page.run(picture) != before
        page.paint(f"w.surface({good.replace('(0, 1', '(NaN, 1')}, 2)")
        assert page.run(picture) == before


def test_enter_that_chooses_a_word_sends_nothing(page: Widgets) -> None:
    """Also in Safari, which says of it that nothing is composed any more."""
    for tag in ("text", "chat"):
        page.make(f"<pf-{tag}></pf-{tag}>")
        page.run(
            """() => {
                const inner = $("pf-text")?.shadowRoot ?? w.shadowRoot;
                const found = inner.querySelector("textarea");
                found.value = "にほん";
                found.dispatchEvent(new InputEvent("input", { bubbles: true }));
                for (const how of [{ keyCode: 229 }, { isComposing: true }, { keyCode: 13 }]) {
                    const init = { key: "Enter", bubbles: true, cancelable: true, composed: true };
                    found.dispatchEvent(new KeyboardEvent("keydown", { ...init, ...how }));
                    told.push(["sent", told.filter(([name]) => name === "submit").length]);
                }
            }"""
        )
        assert page.told("sent") == [0, 0, 1]


def test_samples_say_what_the_network_sees(page: Widgets) -> None:
    page.make('<pf-samples height="4" width="4" names="cat, dog"></pf-samples>')
    page.run("w.samples = [0, 1, null].map((label) => ({ data: Array(16).fill(.5), label }))")
    page.run("w.show([[.9, .1], [.8, .2], [0, 1]])")
    buttons = page.page.locator("button")
    assert [b.inner_text().strip() for b in buttons.all()] == ["cat ✓", "cat ✗", "dog"]
    assert [b.get_attribute("tabindex") for b in buttons.all()] == ["0", "-1", "-1"]
    buttons.first.focus()
    page.keys("ArrowRight", "Enter")
    assert page.told("choose") == [{"index": 1, "data": [0.5] * 16, "label": 1}]
    page.run("w.show({ data: Float32Array.of(0, 1, 0, 1, 1, 0), shape: [3, 2] })")
    assert [b.inner_text().strip() for b in buttons.all()] == ["dog ✗", "dog ✓", "cat"]
    page.paint("w.setAttribute('names', 'lying, standing')")
    guesses = "[...w.shadowRoot.querySelectorAll('[part=guess]')]"
    assert page.run(f"{guesses}[0].textContent") == "standing ✗"
    assert not page.run(f"{guesses}.some((e) => e.scrollWidth > e.clientWidth)")


def test_choices_are_words_or_a_menu(page: Widgets) -> None:
    """A menu where they are many, or have no room."""
    page.make('<pf-choice name="kind" options="tanh, ReLU, GELU, sine"></pf-choice>')
    assert page.run("w.value") == "tanh"
    radios, menu = page.page.locator("[role=radiogroup]"), page.page.locator("select")
    page.page.locator("input").first.press("ArrowRight")
    assert page.told("change") == [{"name": "kind", "value": "ReLU"}]
    page.run("w.style.width = '120px'")
    menu.wait_for()
    assert menu.input_value() == "1"
    menu.select_option("sine")
    page.run("w.style.width = '400px'")
    radios.wait_for()
    assert page.run("[w.value, $('input:checked').value]") == ["sine", "3"]
    page.run("w.spec = { name: 'width', options: [4, 8, 16, 32, 64], value: 16 }")
    assert page.run("w.value") == 16
    menu.select_option("32")
    assert page.told("change")[-1] == {"name": "width", "value": 32}
    page.run("w.value = 4")
    assert menu.input_value() == "0"
    page.run("w.spec = { name: 'width', options: [4, 8], value: 9 }")
    assert page.told("error")[-1]["message"] == "<pf-choice>: expected one of 4, 8, got 9"


@pytest.mark.parametrize(("html", "message"), [
    ("<pf-pad height=zero></pf-pad>", '<pf-pad height="zero">: expected a number'),
    ("<pf-pad height=0></pf-pad>", "<pf-pad>: expected a height and width from 1 to 512"),
    ("<pf-pad centered=maybe></pf-pad>", "expected true or false"),
    ("<pf-image channels=4></pf-image>", "expected 1 or 3 channels, got 4"),
    ("<pf-points classes=1></pf-points>", "expected 2 to 10 classes, got 1"),
    ("<pf-points low=1 high=1></pf-points>", "expected low < high, got 1 and 1"),
    ("<pf-slider low=0 high=1 log></pf-slider>", "0 < low for log"),
    ("<pf-slider low=0 high=1 value=2></pf-slider>", "expected a value from 0 to 1, got 2"),
    ("<pf-choice></pf-choice>", "expected at least one of options"),
    ("<pf-bars top=-1></pf-bars>", "expected a top from 0"),
    ("<pf-numbers sliders='[1'></pf-numbers>", "expected a list"),
    ("<pf-chat mode=output></pf-chat>", 'expected no mode, got "output"'),
    ("<pf-text mode=both></pf-text>", 'expected a mode "input" or "output", got "both"'),
])  # fmt: skip
def test_a_bad_attribute_is_told(page: Widgets, html: str, message: str) -> None:
    widget = page.make(html)
    shown = widget.locator("[part=message]").inner_text()
    assert message in shown
    page.run("w.remove(); w.setAttribute('label', 'again'); document.body.append(w)")
    assert page.told("error") == [{"message": shown}]


def test_what_was_set_before_the_definition_counts(page: Widgets) -> None:
    page.make("<p></p>")
    value = page.run(
        """async () => {
            const { Pad } = await import("./widgets.js");
            const old = document.createElement("pf-late");
            Object.assign(old, { spec: { height: 2, width: 2 }, value: [1, 0, 0, 1] });
            document.body.append(old);
            customElements.define("pf-late", class extends Pad {});
            return [...old.value];
        }"""
    )
    assert value == [1, 0, 0, 1]


def test_values_last_when_a_widget_moves(page: Widgets) -> None:
    page.make("<pf-pad></pf-pad>")
    page.stroke(page.page.locator("canvas"), (0.3, 0.2), (0.3, 0.8))
    before = page.value()
    page.run(
        "document.body.append(document.createElement('div')); document.body.lastChild.append(w)"
    )
    page.run("frame()")
    np.testing.assert_array_equal(page.value(), before)
    inked = page.run("$('canvas').getContext('2d').getImageData(0, 0, 280, 280).data.some(Boolean)")
    assert inked
    page.run("w.spec = { height: 28, width: 28, label: 'Another name' }")
    np.testing.assert_array_equal(page.value(), before)


INK = """async () => {
    await frame();
    const canvas = $("canvas"), { data } = canvas.getContext("2d")
        .getImageData(0, 0, canvas.width, canvas.height);
    let [most, red] = [0, 0];
    for (let i = 0; i < data.length; i += 4) {
        if (data[i + 3] > most) [most, red] = [data[i + 3], data[i]];
    }
    return red;
}"""


def test_light_and_dark_follow_the_page(page: Widgets) -> None:
    page.make("<pf-pad></pf-pad>")
    page.stroke(page.page.locator("canvas"), (0.3, 0.2), (0.3, 0.8))
    assert page.run(INK) < 60
    page.run("document.body.style.colorScheme = 'dark'")
    page.wait(f"await ({INK})() > 200")  # no event tells of it
    page.run("document.body.style.colorScheme = ''")
    page.wait(f"await ({INK})() < 60")
    page.emulate("prefers-color-scheme", color_scheme="dark")
    page.wait(f"await ({INK})() > 200")
    page.run("document.body.style.setProperty('--pf-text', 'rgb(9, 90, 9)')")
    page.wait(f"await ({INK})() === 9")
    page.run("document.body.removeAttribute('style')")
    page.emulate("prefers-color-scheme", color_scheme="light")


def test_widgets_that_are_removed_leave_nothing(page: Widgets) -> None:
    page.make("<p></p>")
    left = page.run(
        """async () => {
            const gone = [];
            for (let i = 0; i < 50; i++) {
                const widget = document.createElement(i % 2 ? "pf-points" : "pf-chart");
                document.body.append(widget);
                gone.push(new WeakRef(widget));
                widget.remove();
            }
            self.gone = gone;
            return await new Promise((go) => setTimeout(() => go(gone.length)));
        }"""
    )
    assert left == 50
    session = page.context.new_cdp_session(page.page)
    session.send("HeapProfiler.collectGarbage")
    page.run("frame()")
    session.send("HeapProfiler.collectGarbage")
    assert page.run("gone.filter((widget) => widget.deref()).length") <= 1
