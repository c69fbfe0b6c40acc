"""Everybody can use the widgets, the element and the pages: axe-core has nothing to say, by fingers
or keys alone, on a phone, in large letters, from right to left, and a screen reader is told what
matters, once. The element's programs are played here: no Python is loaded."""

from __future__ import annotations

import itertools
import json
import runpy
from collections.abc import Iterator, Mapping
from pathlib import Path
from types import MappingProxyType, SimpleNamespace
from typing import Any, NamedTuple

import numpy as np
import pytest

import pyframe as pf
from pyframe import nn, serve, web
from pyframe.web.site import PageProgram

from .conftest import SIZE, Tab, files, running

AXE = serve.ROOT / "build" / "axe" / "axe.min.js"
PHONE = {"viewport": {"width": 390, "height": 844}, "has_touch": True, "is_mobile": True,
         "device_scale_factor": 3}  # fmt: skip
HTML = """<!doctype html><html lang=en><meta charset=utf-8><title>A page</title>
<meta name=viewport content="width=device-width"><link rel=icon href=data:,>
<meta name=color-scheme content="light dark"><style>html { background: Canvas }</style>
<script type=module src=pyframe.js></script>
<main><h1>A page</h1><h2>A part</h2><div></div></main>"""

# In place of python.js and player.js: `self.play` says what program it is, and how it does.
ENGINE = """export async function open(options, hear) {
    const { how, ...given } = self.play ?? {};
    self.hear = hear;
    const never = () => new Promise(() => {});
    if (how === "loading") return never();
    if (how === "failed") {
        const traceback = `Traceback (most recent call last):\\n  File ${"x.py, ".repeat(30)}`;
        throw Object.assign(new Error("x.py, line 4: KeyError: 'wrong'"), { traceback });
    }
    const spec = {
        title: "A title", description: "What it is.", epochs: 2, parameters: 99, step: 0,
        trains: true, trained: false, frozen: false, metrics: ["accuracy"], controls: [],
        input: null, output: null,
        device: { kind: "cpu", name: "CPU", software: false, choices: ["cpu", "gpu"] }, ...given,
    };
    const shapes = { bars: [spec.output?.names?.length], plane: [spec.input?.classes], values: [1],
        picture: [spec.output?.channels, spec.output?.height, spec.output?.width] };
    const nothing = async () => {};
    return {
        spec, close: nothing, stop: nothing, set: nothing, reset: nothing, move: nothing,
        async predict(x) {
            if (typeof x === "string") return how === "writing" ? never() : `${x} and so on.`;
            const one = (spec.input.shape ?? [2]).reduce((a, b) => a * b);
            const shape = [x.length / one, ...shapes[spec.output.kind]];
            const data = Float32Array.from({ length: shape.reduce((a, b) => a * b) },
                (_, i) => (i * 7 % 10 + 1) / 55);
            return { data, shape };
        },
        async train({ steps = 60 }) {
            if (how === "wrong") throw Object.assign(new Error("odd"), { traceback: "x.py" });
            for (let step = 1; step <= steps; step++) {
                hear("step", { loss: 1 / step, step, steps: 60, epoch: 1, epochs: 1, speed: 60,
                    metrics: { accuracy: step / 99 } });
                if (steps > 1 && step % 20 === 0) await new Promise((go) => setTimeout(go));
            }
            hear("epoch", { epoch: 1, step: 60, loss: .5, accuracy: .5, val_loss: .6,
                val_accuracy: .5 });
            if (how === "training") await new Promise((go) => { self.end = go; });
            spec.trained = true;
            return { steps, seconds: 1.2, val_accuracy: .9 };
        },
    };
}"""


class Case(NamedTuple):
    """What is shown: elements, what JavaScript does to them (`all`), and the element's program."""

    html: str
    code: str = ""
    play: Mapping[str, Any] = MappingProxyType({})


WIDGETS = {  # each in several states
    "pad": Case("<pf-pad></pf-pad>" * 2, "all[1].value = new Float32Array(784).fill(.5)"),
    "image": Case(
        "<pf-image height=32 width=32></pf-image>" * 3,
        """all[1].value = new Float32Array(3072).fill(.5);
        await all[2].open(new File(["x"], "notes.txt"))""",
    ),
    "points": Case(
        """<pf-points classes=3></pf-points>
        <pf-points classes=10 names="a, b, c, d, e, f, g, h, i, j"></pf-points>""",
        """all[1].points = [0, 0, 1, .5, .5, 2];
        all[1].data = [-.5, .5, 9, .2, .2, 9];
        const data = Float32Array.from({ length: 250 }, (_, i) => i % 10 / 45);
        all[1].surface({ data, shape: [25, 10] }, 5)""",
    ),
    "position": Case(
        "<pf-position></pf-position>" * 2,
        "all[1].surface({ data: new Float32Array(144).fill(.5), shape: [9, 1, 4, 4] }, 3)",
    ),
    "text": Case(
        """<pf-text placeholder=Once></pf-text><pf-text most=20></pf-text>
        <pf-text name=prompt label="To say"></pf-text><pf-text mode=output></pf-text>
        <pf-text mode=output names="Before, After"></pf-text>""",
        """all[1].value = "Hello there";
        all[3].show("Once upon a time", false, "Once");
        all[4].show(["Once upon a time", "Now"], true)""",
    ),
    "chat": Case(
        "<pf-chat></pf-chat><pf-chat label=Message></pf-chat>",
        """all[1].begin("Hello");
        all[1].show("Well, that is it", false);
        all[1].busy = true""",
    ),
    "numbers": Case(
        """<pf-numbers sliders='[{"name": "age", "low": 0, "high": 100, "step": 1},
            {"name": "a_long_name_of_a_slider", "low": -1, "high": 1}]'></pf-numbers>"""
    ),
    "bars": Case(
        """<pf-bars names="cat, dog"></pf-bars><pf-bars names="cat, dog, wolf"></pf-bars>
        <pf-bars top=2 names="a dog with a name of some length, cat, wolf"></pf-bars>""",
        "all.slice(1).forEach((bars) => bars.show({ data: [.7, .2, .1], shape: [1, 3] }))",
    ),
    "picture": Case(
        "<pf-picture></pf-picture>" * 2, "all[1].show({ data: new Float32Array(784).fill(.3) })"
    ),
    "values": Case(
        "<pf-values names='price, weight' unit=€></pf-values>" * 2,
        "all[1].show({ data: [12.5, -3], shape: [1, 2] })",
    ),
    "chart": Case(
        "<pf-chart metrics=accuracy></pf-chart><pf-chart log></pf-chart>",
        """for (let i = 1; i < 99; i++) all[1].add(i, { loss: 2 / i, accuracy: i / 99 });
        all[1].epoch(98, { val_loss: .5, val_accuracy: .8 })""",
    ),
    "samples": Case(
        "<pf-samples></pf-samples><pf-samples names='wolf, foxes'></pf-samples>",
        """for (const each of all) {
            each.samples = [0, 1, 0].map((label) => ({ data: Array(784).fill(.5), label }));
            each.show([[.1, .9], [.1, .9]]);
        }""",
    ),
    "slider": Case(
        """<pf-slider name=lr low=.001 high=.1 value=.01 log></pf-slider>
        <pf-slider low=wrong></pf-slider>"""
    ),
    "choice": Case(
        """<pf-choice name=data options="moons, circles"></pf-choice>
        <pf-choice name=many options="a, b, c, d, e, f"></pf-choice>"""
    ),
    "toggle": Case("<pf-toggle name=noise value=true></pf-toggle><pf-toggle name=off></pf-toggle>"),
}
CONTROLS = [control.spec() for control in (
    web.Slider("lr", 1e-4, 0.2, 0.05, log=True, label="Learning rate"),
    web.Choice("width", (4, 8, 16), 8),
    web.Choice("data", ("moons and circles", "spirals", "x", "y", "z"), "x"),
    web.Toggle("noise", True),
    web.Text(name="prompt", value="abc"),
)]  # fmt: skip
FRAME = "<py-frame src=x.py loading=eager></py-frame>"
READY = "await all[0].ready"
PAD = {"input": {**web.Pad(28, 28).spec(), "shape": [784]},
       "output": web.Bars(["cat", "dog", "fox"]).spec()}  # fmt: skip


def state(code: str = READY, html: str = FRAME, **play: Any) -> Case:
    return Case(html, code, play)


PHOTO = {**web.Image(32, 32).spec(), "shape": [3072]}
STATES = {  # of the element
    "waits": state("", FRAME.replace("eager", "click"), **PAD),
    "loads": state(
        "await until(() => self.hear); hear('progress', { text: 'Loading', fraction: .4 })",
        how="loading",
    ),
    "failed": state("await all[0].ready.catch(() => {}); $('details').open = true", how="failed"),
    "ready": state(**PAD, samples=[{"data": [0.5] * 784, "label": i % 3} for i in range(9)]),
    "trains": state(
        f"{READY}; all[0].train(); await until(() => self.end)", how="training",
        input=web.Points(3).spec(), output=web.Plane(size=5).spec(), controls=CONTROLS,
    ),
    "trained": state(
        f"""{READY}; await all[0].train();
        $("[part=epochs-details]").open = true;
        hear("notice", {{ text: "WebGPU is missing: the CPU does the arithmetic." }})""",
        input={**web.Numbers([web.Slider("age", 0, 100)]).spec(), "shape": [1]},
        output=web.Values(["price"], unit="€").spec(), controls=CONTROLS,
    ),
    "wrong": state(
        f"{READY}; await all[0].train().catch(() => {{}})",
        how="wrong", input=web.Text().spec(), output=web.Text().spec(),
    ),
    "writes": state(
        f"""{READY}; all[0].predict("Hello"); await frame();
        hear("prediction", {{ text: "Well, hello", done: false }})""",
        how="writing", trains=False, input=web.Chat().spec(),
    ),
    "looks": state(trains=False, input=PHOTO, output=PAD["output"]),
    "draws": state(trained=True, input=web.Position().spec(), output=web.Picture(8, 8).spec()),
    "two": state("for (const each of all) await each.ready", FRAME * 2, **PAD),
}  # fmt: skip
ALL = WIDGETS | STATES

TOOLS = """
self.frame = () => new Promise((go) => requestAnimationFrame(() => setTimeout(go)));
self.until = async (what) => { while (!what()) await frame(); };
self.inside = (node) => (node.localName === "slot" && node.assignedElements().length
    ? node.assignedElements() : [...(node.shadowRoot ?? node).children])
    .flatMap((each) => [each, ...inside(each)]);
self.every = (query) => inside(document).filter((each) => each.matches(query)
    && each.checkVisibility({ visibilityProperty: true }));
self.focused = () => {
    let { activeElement: at } = document;
    while (at?.shadowRoot?.activeElement) at = at.shadowRoot.activeElement;
    return at;
};
"""
FOUND = """async (only) => {
    await frame();
    const rules = { "target-size": { enabled: true } };
    const how = only ? { runOnly: only } : { rules };
    const { violations } = await axe.run(document, { resultTypes: ["violations"], ...how });
    return violations.flatMap(({ id, nodes }) => nodes.map(({ target, failureSummary }) => (
        `${id}: ${target.flat().join(" ")}: ${failureSummary}`)));
}"""


class Access(Tab):
    """A page in which axe-core looks at what is shown."""

    def __init__(self, browser: Any, server: Any, **context: Any) -> None:
        if not AXE.is_file():
            pytest.skip("build/axe is missing: run scripts/get_editor")
        super().__init__(browser, server, **context)
        for script in ({"path": AXE}, {"script": TOOLS}):
            self.context.add_init_script(**script)
        for name in ("python", "player"):
            self.page.route(f"**/{name}.js", lambda route: route.fulfill(
                body=ENGINE, content_type="text/javascript"))  # fmt: skip
        self.page.route("**/access-page", lambda route: route.fulfill(
            body=HTML, content_type="text/html"))  # fmt: skip

    def run(self, code: str, argument: Any = None) -> Any:
        return self.page.evaluate(code, argument)

    def show(self, name: str) -> None:
        """A widget in its states, or the element in one, in place of what was there."""
        case = ALL[name]
        if not self.page.url.endswith("access-page"):
            self.open("access-page")
        self.run(
            f"""async (html) => {{
                self.end = self.hear = undefined;
                self.play = {json.dumps(dict(case.play))};
                const place = document.querySelector("main > div");
                place.innerHTML = html;
                const all = [...place.children];
                const $ = (query) => all[0].shadowRoot.querySelector(query);
                {case.code};
                await frame();
                await frame();
            }}""",
            case.html,
        )

    def found(self) -> list[str]:
        """What axe-core has found, in light and in dark."""
        found = self.run(FOUND, None)
        self.page.emulate_media(color_scheme="dark")
        found += self.run(FOUND, ["color-contrast"])
        self.page.emulate_media(color_scheme="light")
        return found

    def wide(self) -> int:
        """How far what is shown overflows the screen."""
        return self.run("(({ scrollWidth, clientWidth }) => scrollWidth - clientWidth)"
                        "(document.documentElement)")  # fmt: skip

    def keys(self, *keys: str) -> None:
        for key in keys:
            self.page.keyboard.press(key)

    def stops(self) -> tuple[list[Any], list[Any]]:
        """Where the Tab key leads, and whether one sees that; and where it is to lead."""
        count = self.run(STOPS)
        self.run("focused()?.blur()")
        found = []
        for _ in range(count):
            self.keys("Tab")
            found.append(self.run(STOP))
            if self.run("focused().matches('.cm-content')"):
                self.keys("Escape")  # Tab indents there else
        return found, [[i, True] for i in range(count)]


@pytest.fixture(scope="module")
def desk(browser: Any, server: serve.Server) -> Iterator[Access]:
    page = Access(browser, server)
    yield page
    page.close()


@pytest.fixture(scope="module")
def phone(browser: Any, server: serve.Server) -> Iterator[Access]:
    page = Access(browser, server, **PHONE)
    yield page
    page.close()


# What is smaller than it must be, and what phones zoom into: of an input that its label is pressed
# for, the label counts.
SMALL = """(high) => every("a, button, input, select, textarea, summary, [tabindex]")
    .map((each) => [each.closest("label") ?? each, each])
    .filter(([part, each]) => {
        const { width, height } = part.getBoundingClientRect();
        const least = part.matches("button, select, label") ? high : 24;
        const small = Math.min(width, height) < 24 || height < least;
        return small && getComputedStyle(part).display !== "inline"
            || each.matches("textarea, select") && parseFloat(getComputedStyle(each).fontSize) < 16;
    }).map(([, each]) => each.outerHTML)"""
# All that the Tab key must reach, in the page's order: of radio buttons the one that is chosen.
STOPS = """() => (self.stops = every(
    "a[href], button, input, select, textarea, summary, [tabindex]")
    .filter((each) => each.tabIndex >= 0 && !each.disabled
        && (each.type !== "radio" || each.checked))).length"""
# Which of them has the focus, and whether one sees that.
STOP = """() => {
    const at = focused();
    const marks = [at, at.nextElementSibling, at.parentElement, at.closest("li, .place")];
    const seen = marks.filter(Boolean).some((each) => {
        const { outlineStyle, outlineWidth } = getComputedStyle(each);
        return outlineStyle !== "none" && parseFloat(outlineWidth) >= 2;
    });
    return [stops.indexOf(at), seen];
}"""


LIVE = "[role=status], [role=alert], output:not([role], [aria-hidden]), [aria-live]"
# Live regions that are shown, or live, only with their news: Firefox tells nothing of these; and
# Orca reads "statusbar" for a status, empty or not, in place of what it says.
LATE = f"""inside(document).filter((each) => each.matches("{LIVE}") && each.ariaLive !== "off"
    && each.getRootNode().host?.checkVisibility()
    && (each.role || !each.checkVisibility())).map((each) => each.outerHTML)"""
MOVING = """every("*").flatMap((each) => ["", "::before", "::after"].map((part) => {
    const { animationName, transitionDuration } = getComputedStyle(each, part || null);
    return animationName === "none" && transitionDuration.split(", ").every((x) => x === "0s")
        || each.matches(".probe") ? "" : each.outerHTML + part;
})).filter(Boolean)"""


@pytest.mark.parametrize("name", ALL)
def test_everybody_can_use(desk: Access, name: str) -> None:
    """Each widget, and the element in each state: by keys, by ear, in large letters, from right to
    left, without what moves."""
    desk.show(name)
    wrong = {"live regions that come with their news": desk.run(LATE), "axe-core": desk.found()}
    stops, wanted = desk.stops()
    wrong["where Tab leads, and whether one sees it"] = stops if stops != wanted else []
    desk.page.emulate_media(reduced_motion="reduce")
    wrong["what moves"] = desk.run(MOVING)
    desk.page.emulate_media(reduced_motion="no-preference")
    root = "document.documentElement"
    for how, width, start, end in (
        ("1280 pixels at 400 %", 320, "", ""),
        ("right to left", 320, f"{root}.dir = 'rtl'", f"{root}.dir = 'ltr'"),
        ("large letters", 390, f"{root}.style.fontSize = '200%'", f"{root}.style = ''"),
    ):
        desk.page.set_viewport_size({"width": width, "height": 640})
        desk.run(start)
        desk.run("frame()")
        wrong[f"pixels too wide, {how}"] = desk.wide()
        desk.run(end)
    desk.page.set_viewport_size(SIZE)
    assert {what: found for what, found in wrong.items() if found} == {}


@pytest.mark.parametrize("name", ALL)
def test_a_phone_has_room_and_large_targets(phone: Access, name: str) -> None:
    phone.show(name)
    assert (phone.wide(), phone.run(SMALL, 40)) == (0, [])
    if name == "pad":
        sharp = "(({ width, clientWidth }) => width / clientWidth)(every('canvas')[0])"
        assert phone.run(sharp) == pytest.approx(3, abs=0.02)


def test_buttons_keep_the_focus(desk: Access) -> None:
    """By keys alone: who trains, steps, or clears goes on from there."""
    desk.show("waits")
    desk.run(f"self.play = {json.dumps(PAD)}")
    at = "() => focused().textContent || focused().part.value"
    desk.keys("Tab", "Enter")
    desk.run("until(() => focused().part.contains('train'))")
    desk.keys("Enter")
    desk.run("until(() => every('[part=status]')[0].textContent.startsWith('Done after 60'))")
    assert desk.run(at) == "Train"
    desk.keys("Tab", "Enter")
    desk.run("until(() => every('[part=status]')[0].textContent.startsWith('Done after 1 '))")
    desk.run("frame()")
    assert desk.run(at) == "Step"
    for tip, keys in (
        (True, ["Space", "ArrowRight", "Space"]),
        (False, ["Escape"]),
        (True, ["Tab", "Tab", "Enter"]),  # the button Clear
    ):
        desk.run("every('canvas[tabindex]')[0].focus()")
        desk.keys(*keys)
        assert desk.run(at) == "pad"
        assert desk.run("every('[role=tooltip]').length") == tip


# Notes what a screen reader is told: what comes into live regions.
LISTEN = f"""() => {{
    self.heard = [];
    const look = (root) => new MutationObserver((changes) => {{
        for (const {{ target, addedNodes, type }} of changes) {{
            const region = (target.closest ? target : target.parentElement)?.closest("{LIVE}");
            const busy = region?.closest("[aria-busy=true]") ?? region?.getRootNode().host
                ?.closest("[aria-busy=true]");
            if (!region || region.ariaLive === "off" || busy) continue;
            const come = type === "childList" ? [...addedNodes] : [target];
            heard.push(...come.map((node) => node.textContent));
        }}
    }}).observe(root, {{ childList: true, characterData: true, subtree: true }});
    inside(document).forEach((each) => each.shadowRoot && look(each.shadowRoot));
}}"""


def test_a_screen_reader_hears_what_matters(browser: Any, server: serve.Server) -> None:
    """Not each step, nor each number twice; and who reads on finds none of it later."""
    page = Access(browser, server)
    page.page.clock.install()

    def wait() -> list[str]:
        """Until all that waits to be told is (after QUIET ms, then SOON): what was heard."""
        page.run("frame()")
        page.page.clock.run_for(1000)
        return page.run("self.heard")

    def heard(name: str, code: str) -> list[str]:
        page.show(name)
        wait()  # what came of showing it
        page.run(LISTEN)
        page.run(f"() => {{ {code} }}")
        return wait()

    loading = "hear('progress', { text: 'Loading NumPy', fraction: .5 }); "
    train = "document.querySelector('py-frame').train().catch(() => {})"
    show = "document.querySelector('pf-values').show({ data: [1, 2], shape: [1, 2] }); "
    for name, code, told in (
        ("loads", 2 * loading, "Loading NumPy"),
        ("draws", train, "Done after 60 steps in 1.2 s: 90.0 % of unseen data are right."),
        ("wrong", train, "Error: odd"),
        ("trains", "hear('notice', { text: 'WebGPU is missing.' })", "WebGPU is missing."),
        ("writes", "hear('prediction', { text: 'Well, hello there.', done: true })",
         "Answer: Well, hello there."),
        ("bars", "every('pf-bars')[0].show({ data: [.3, .7], shape: [1, 2] })", "dog, 70 %"),
        ("values", show, "price 1 €, weight 2 €"),
    ):  # fmt: skip
        assert heard(name, code) == [told]
    page.run(show + "undefined")
    assert len(wait()) == 1  # the same again is no news
    photo = """document.querySelector("main > div").firstChild.addEventListener("error",
        ({ detail }) => { self.told = detail.message; });
        every("pf-image")[0].open(new File(["x"], "notes.txt"))"""
    for name in ("image", "looks"):
        (refused,) = heard(name, photo)
        assert refused.startswith("Error: notes.txt can't be read as a picture: ")
        assert page.run("self.told") == refused.removeprefix("Error: ")
    page.page.clock.run_for(60_000)
    assert page.run("every('.said > p').length") == 0
    assert heard("slider", "every('input')[0].focus()") == []
    page.keys("ArrowRight")
    assert wait() == []  # the slider itself tells its value
    assert page.run("every('output')[0].textContent") == "0.0102"
    page.close()


@pytest.mark.parametrize(("name", "tree"), {
    "pad": '- slider "Drawing pad" - button "Undo" [disabled] - button "Clear" [disabled]',
    "image": '- \'button "Picture: choose a photo, or drop it here, or paste it"\' '
             '- button "Clear" [disabled]',
    "points": '- slider "Plane of points" - radiogroup "Class of the next point": '
              '- radio "Class 1" [checked] - radio "Class 2" - radio "Class 3" '
              '- button "Undo" [disabled] - button "Clear" [disabled]',
    "position": '- slider "Place in the plane"',
    "numbers": '- group "Numbers": - slider "age": "50" - slider "a long name of a slider": "100"',
    "values": "- term: price - definition: – - term: weight - definition: –",
    "samples": '- list "Samples of the data": '
               '- listitem: - \'button "Sample 1, 0: the network says 1, wrong"\': 1 ✗ '
               '- listitem: - \'button "Sample 2, 1: the network says 1, right"\': 1 ✓ '
               '- listitem: - button "Sample 3, 0"',
    "slider": '- slider "lr": "100"',
    "toggle": '- switch "noise" [checked]',
    "choice": '- radiogroup "data": - radio "moons" [checked] - text: moons '
              '- radio "circles" - text: circles',
    "bars": '- group "Probabilities": cat 70 % dog 20 % wolf 10 %',
    "chat": '- log "Conversation": - paragraph: "You: Hello" '
            '- paragraph: "Answer: Well, that is it" - textbox "Message": - /placeholder: "" '
            '- button "Clear" - button "Stop"',
    "text": '- group "What is written": Once upon a time',
    "chart": '- button "log" - \'slider "Loss by step: the arrow keys read it"\'',
}.items())  # fmt: skip
def test_each_has_a_name_and_is_told_once(desk: Access, name: str, tree: str) -> None:
    desk.show(name)
    at = {"bars": 1, "chat": 1, "text": 3}.get(name, 0)
    seen = desk.page.locator(f"pf-{name}").nth(at).aria_snapshot()
    assert " ".join(seen.split()) == tree


@pytest.mark.parametrize("name", ["pad", "points", "position"])
def test_each_arrow_tells_where_it_leads(desk: Access, name: str) -> None:
    """As a slider does: Orca says nothing of an application that takes the focus, and keeps its
    keys; and it reads a value's text where its number has changed."""
    desk.show(name)
    canvas = desk.page.locator("canvas").first
    canvas.focus()
    assert canvas.get_attribute("role") == "slider"
    seen = []
    for key in ("ArrowRight", "ArrowDown", "ArrowDown", "ArrowLeft", "ArrowUp"):
        desk.keys(key)
        seen.append([canvas.get_attribute(f"aria-value{of}") for of in ("now", "text")])
    for i in (0, 1):
        told = [each[i] for each in seen]
        assert all(a != b for a, b in itertools.pairwise(told)), told
    assert seen[0][1] == {"pad": "53 across, 25 down", "points": "0.05, 0",
                          "position": "0.15, 0"}[name]  # fmt: skip


def test_a_button_that_is_switched_off_keeps_the_focus(desk: Access) -> None:
    """Else Firefox goes to the page's begin, and a screen reader reads it."""
    desk.show("trains")
    state = "() => [focused().part.value, focused().disabled, focused().ariaDisabled]"
    desk.run("self.end()")
    desk.run("until(() => !document.querySelector('py-frame').training)")
    desk.run("() => { every('[part=step-button]')[0].focus(); self.end = undefined; }")
    desk.run("() => { self.going = document.querySelector('py-frame').train(); }")
    desk.run("until(() => self.end)")
    assert desk.run(state) == ["step-button", False, "true"]
    assert desk.run("every('[part=save]')[0].disabled")
    desk.run("() => { self.end(); return self.going; }")
    assert desk.run(state) == ["step-button", False, None]


def test_points_are_told_in_words_and_marks_have_no_sound(desk: Access) -> None:
    desk.show("failed")
    assert desk.run("getComputedStyle(every('summary')[0], '::before').content") == '"▾" / ""'
    desk.show("points")
    tree = desk.page.locator("pf-points").last
    plane = tree.locator("canvas")
    assert plane.get_attribute("aria-describedby") == "what how"
    what = tree.locator("#what").text_content()
    assert what == "Points of the data: 2 of j. Yours: 1 of b, 1 of c."
    plane.focus()
    desk.keys("ArrowLeft")
    assert plane.get_attribute("aria-valuetext") == "−0.05, 0: j, 20 %"


def test_a_picture_says_what_it_is_of(desk: Access) -> None:
    desk.show("picture")
    pictures = desk.page.get_by_role("img")
    names = [pictures.nth(i).get_attribute("aria-label") for i in range(2)]
    assert names == ["Picture: nothing yet", "Picture: 28 by 28 pixels"]
    desk.show("draws")
    desk.page.get_by_role("img", name="A title: at 0, 0", exact=True).wait_for()
    desk.page.locator("pf-position canvas").focus()
    desk.keys("ArrowRight")
    desk.page.get_by_role("img", name="A title: at 0.15, 0", exact=True).wait_for()


def test_what_is_coloured_has_borders_where_colours_are_forced(desk: Access) -> None:
    desk.page.emulate_media(forced_colors="active")
    parts = (
        "button, textarea, select, canvas[tabindex] ~ .frame, [part=pad], [part=notice], "
        "progress.on, [part=track]"
    )
    bare = f"""() => every("{parts}").filter((each) => {{
        const {{ borderTopStyle, borderTopWidth, forcedColorAdjust }} = getComputedStyle(each);
        return (borderTopStyle === "none" || parseFloat(borderTopWidth) < 1)
            && forcedColorAdjust !== "none";
    }}).map((each) => each.outerHTML)"""
    for name in ("pad", "points", "bars", "toggle", "trains", "trained"):
        desk.show(name)
        assert desk.run(bare) == [], name
    desk.page.emulate_media(forced_colors="none")


def test_what_runs_from_right_to_left(desk: Access) -> None:
    """Words do; axes and curves go as ever."""
    desk.open("access-page")
    desk.run("document.documentElement.dir = 'rtl'")
    left = "(query) => every(query).map((each) => each.getBoundingClientRect().left)"
    for name in ("points", "position"):
        desk.show(name)
        lowest, _, highest = desk.run(left, ".axis.x > span")[:3]
        assert lowest < highest
    desk.show("chart")
    texts = desk.run("every('text').map((each) => each.textContent)")
    number = desk.run(left, "text")[texts.index("100 %")]
    assert number < desk.run(left, ".grid")[0]  # the numbers of the axis stand before it
    desk.show("toggle")
    knob = desk.run("""() => every("[part=track]").map((each) =>
        getComputedStyle(each, "::before").marginRight)""")
    assert knob == ["16px", "0px"]
    desk.show("trained")
    to = "getComputedStyle(every('input[type=range]')[0]).getPropertyValue('--to')"
    assert desk.run(to) == "left"
    desk.run("document.documentElement.dir = 'ltr'")


def touch(page: Access, query: str, *points: tuple[float, float], up: bool = True) -> None:
    """Draw a finger over an element, from 0 to 1 of its sides, and lift it."""
    locator = page.page.locator(query).first
    locator.scroll_into_view_if_needed()
    box = locator.bounding_box()
    session = page.context.new_cdp_session(page.page)
    for i, (x, y) in enumerate(points):
        at = {"x": box["x"] + x * box["width"], "y": box["y"] + y * box["height"]}
        session.send("Input.dispatchTouchEvent",
                     {"type": "touchMove" if i else "touchStart", "touchPoints": [at]})  # fmt: skip
    if up:
        session.send("Input.dispatchTouchEvent", {"type": "touchEnd", "touchPoints": []})
    page.run("frame()")


def test_fingers_move_what_moves(phone: Access) -> None:
    value = "[...document.querySelector('main > div').firstChild.value]"
    phone.show("numbers")
    before = phone.run(value)
    touch(phone, "input[type=range]", (0.5, 0.5), (0.6, 0.5), (0.8, 0.5))
    after = phone.run(value)
    assert after[0] > before[0] + 20
    assert after[1] == before[1]
    phone.show("position")
    touch(phone, "canvas", (0.5, 0.5), (0.6, 0.4), (0.75, 0.25))
    assert phone.run(value) == pytest.approx([1.5, 1.5], abs=0.1)
    phone.show("pad")
    touch(phone, "canvas", (0.5, 0.2), (0.5, 0.5), (0.5, 0.8))
    rows, columns = np.nonzero(np.reshape(phone.run(value), (28, 28)) > 0.3)
    assert np.ptp(rows) > 3 * np.ptp(columns)
    phone.show("chart")
    touch(phone, "pf-chart[log] [part=plot]", (0.9, 0.5), (0.5, 0.5), up=False)
    read = phone.page.locator("pf-chart[log] [part=plot]").get_attribute("aria-valuenow")
    assert 25 < int(read) < 60


def demo(name: str) -> dict[str, Any]:
    """What a page is told of an example, but for the samples of its data."""
    spec: dict[str, Any] = runpy.run_path(str(serve.examples()[name]))["demo"].spec()
    if spec["output"]["kind"] == "picture":
        spec["trained"] = True
    return spec


@pytest.mark.parametrize("name", ["", "digits", "playground", "gpt", "writer", "vae", "photo"])
def test_pages_of_the_gallery(phone: Access, name: str) -> None:
    others = {"": {}, "photo": {**STATES["looks"].play}}
    spec = others[name] if name in others else demo(name)
    phone.page.add_init_script(f"self.play = {json.dumps(spec)}")
    phone.open(f"demos/{name}.html" if name else "")
    if name:
        phone.run(
            "customElements.whenDefined('py-frame').then(() => "
            "document.querySelector('py-frame').load()).then(() => frame())"
        )
        phone.run("until(() => !document.querySelector('py-editor') || every('.place > *').length)")
    assert (phone.wide(), phone.run(SMALL, 24)) == (0, [])
    if name in ("", "digits", "photo"):  # the others' frames are alike, and their widgets above
        assert phone.found() == []
        stops, wanted = phone.stops()
        assert stops == wanted


def test_the_page_of_a_program(browser: Any) -> None:
    program = PageProgram(serve.examples()["playground"])
    with running(serve.Server("127.0.0.1", 0, program)) as server:
        page = Access(browser, server)
        page.open("program.html")
        page.run("until(() => every('.place > *').length && every('[part=train]').length)")
        assert page.found() == []
        page.close()


def test_an_export(browser: Any, tmp_path: Path) -> None:
    """Played by the real player."""
    pf.web.export(nn.Linear(3, 2), pf.ones(4, 3), to=tmp_path)
    with files(tmp_path) as url:
        page = Access(browser, SimpleNamespace(url=url))
        page.page.unroute_all()
        page.open("")
        page.run("document.querySelector('py-frame').load().then(() => frame())")
        assert page.found() == []
        assert page.wide() <= 0
        page.close()
