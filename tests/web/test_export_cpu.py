"""Exported programs in a browser without WebGPU: WebAssembly runs them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import exported
import numpy as np
import pytest
from exported import batches, by_python, rate

import pyframe as pf
from pyframe import nn, optim
from pyframe.web import Bars, Demo, Pad, Slider

from .conftest import SIZE, Tab, files
from .test_export import DEMO, Site, policy

BATCHES = batches((8, 1, 12, 12), 10)
STEPS = 12
WITHOUT = "Object.defineProperty(Navigator.prototype, 'gpu', { value: undefined });"
BEGIN = """async (url) => {
    Object.assign(self, await import(new URL("points/player.js", url)));
    document.head.append(Object.assign(document.createElement("base"), { href: url }));
    self.message = (work) => work().then(() => null, (error) => error.message);
    self.heard = [];
    self.hear = (event, detail) => heard.push([event, detail]);
}"""
SAID = """self.said = (work) =>
    work().then(() => "", ({ name, message }) => `${name}: ${message}`);"""


class Gamma(nn.Linear):
    """Computes with what only WGSL has a form of."""

    def forward(self, x: pf.Tensor) -> pf.Tensor:
        return super().forward(x).exp().lgamma()


def classifier() -> pf.Model:
    pf.manual_seed(0)
    net = nn.Sequential(nn.Flatten(), nn.Linear(64, 3))
    return pf.Model(net, nn.CrossEntropyLoss(), optim.SGD(net.parameters(), lr=0.1), ["accuracy"])


def pictures() -> tuple[pf.Tensor, pf.Tensor]:
    pf.manual_seed(1)
    return pf.rand(32, 1, 8, 8), pf.arange(32) % 3


PADS = Demo(classifier, Pad(8, 8), Bars("abc"), data=pictures, epochs=2, batch_size=8,
            controls=(Slider("lr", 1e-4, 1.0, 0.1, log=True),), title="Pads")  # fmt: skip


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    folder = tmp_path_factory.mktemp("site")
    done = pf.web.export(exported.classic(), BATCHES[0], to=folder / "classic", element=False)
    assert done.left_out == []
    pf.web.export(DEMO, to=folder / "points")
    pf.web.export(DEMO, to=folder / "strict")
    classifier().save(folder / "weights")
    pf.web.export(PADS, to=folder / "pads", weights=folder / "weights")
    pf.manual_seed(0)
    with pytest.warns(UserWarning, match="the page needs WebGPU, as program 'predict.1' can't run"):
        done = pf.web.export(Gamma(2, 2), pf.ones(1, 2), to=folder / "gamma", element=False)
    assert "lgamma" in done.left_out[0]
    assert "cpu.wasm" not in done.files
    with files(folder, policy) as url:
        yield Site(folder, url)


@pytest.fixture(scope="module")
def plain(browser: Any, site: Site) -> Iterator[Tab]:
    """A page without WebGPU that has the player."""
    tab = Tab(browser, site)
    tab.page.add_init_script(WITHOUT + SAID)
    tab.open("blank").evaluate(BEGIN, site.url)
    yield tab
    tab.close()


@pytest.fixture(scope="module")
def framed(browser: Any, site: Site) -> Iterator[Tab]:
    """A page without WebGPU that has an element, which tests may set anew."""
    tab = Tab(browser, site)
    tab.page.add_init_script(WITHOUT + SAID)
    tab.open("pads/").evaluate(
        """async () => {
            await customElements.whenDefined("py-frame");
            self.el = document.querySelector("py-frame");
            self.$ = (part) => el.shadowRoot.querySelector(`[part~="${part}"]`);
            self.frame = () => new Promise((done) => requestAnimationFrame(() => setTimeout(done)));
            self.fresh = async (program) => {
                el.remove();
                self.el = document.createElement("py-frame");
                el.program = new URL(`../${program}/`, location.href).href;
                document.querySelector("main").append(el);
                return el.load();
            };
        }"""
    )
    yield tab
    tab.close()


def test_losses_are_those_of_python(plain: Tab) -> None:
    """Those of language models: natively, and by test_writing.py."""
    rates = [rate(i) / 5 for i in range(STEPS)]
    xs, ys = ([d[i].reshape(-1).tolist() for d in BATCHES] for i in (0, 1))
    found = plain.page.evaluate(
        """async ({ xs, ys, rates }) => {
            const player = await Player.open("classic/");
            const program = player.programs.findLast((name) => name.startsWith("predict."));
            player.run(program, xs[0]);
            const { y } = await player.results(program);
            const [losses, sums] = [[], ["metric:train.loss", "metric:train.divisor:loss"]];
            for (const [i, lr] of rates.entries()) {
                player.set("lr", lr);
                player.run("train", xs[i % xs.length], ys[i % ys.length]);
                const [[sum], [by]] = await player.tensors(sums);
                losses.push(sum / by);
                for (const name of sums) player.write(name, [0]);
            }
            const { device, devices } = player;
            player.close();
            return { y: Array.from(y.data), losses, device, devices };
        }""",
        {"xs": xs, "ys": ys, "rates": rates},
    )
    assert (found["device"], found["devices"]) == ("cpu", ["cpu"])
    model, x = exported.classic(), BATCHES[0][0]
    expected = model.predict(pf.from_numpy(x)).numpy()
    np.testing.assert_allclose(found["y"], expected.reshape(-1), atol=1e-5)
    losses = np.array(found["losses"])
    np.testing.assert_allclose(losses, by_python(model, BATCHES, "cpu", STEPS, rates), atol=1e-4)


def test_devices(browser: Any, site: Site) -> None:
    """From the GPU to WebAssembly and back, also while it trains: it is the same network."""
    tab = Tab(browser, site)
    tab.open("blank").evaluate(BEGIN, site.url)
    found = tab.page.evaluate(
        """async () => {
            const run = async (moves) => {
                const engine = await open({ program: "points/", device: "cpu" }, hear);
                const kinds = [engine.spec.device.kind];
                for (const device of moves) {
                    const training = engine.train({ steps: 3 });
                    kinds.push((await engine.move(device)).device.kind);
                    await training;
                }
                const [weight] = await engine.player.tensors(["0.weight"]);
                const step = (await engine.move("cpu")).step;
                await engine.close();
                return { kinds, saved: Array.from(weight), step };
            };
            return [await run(["gpu", "cpu"]), await run(["cpu", "cpu"])];
        }"""
    )  # fmt: skip
    moved, still = found
    assert moved["kinds"] == ["cpu", "gpu", "cpu"]
    assert moved["step"] == still["step"] == 6
    np.testing.assert_allclose(moved["saved"], still["saved"], atol=1e-4)
    tab.close()


def test_what_a_browser_lacks(plain: Tab) -> None:
    told = plain.page.evaluate(
        """async () => {
            const { validate } = WebAssembly;
            WebAssembly.validate = () => false;
            const simd = await message(() => open({ program: "points/" }));
            WebAssembly.validate = validate;
            const { Worker } = self;
            delete self.Worker;
            const player = await Player.open("points/");
            player.run("predict.1", [0, 0]);
            const { y } = await player.results("predict.1");
            player.close();
            self.Worker = Worker;
            return {
                simd, sum: y.data[0] + y.data[1],
                gpu: await message(() => open({ program: "points/", device: "gpu" })),
                gamma: await message(() => Player.open("gamma/")),
                alone: await message(() => Player.open("gamma/", { device: "cpu" })),
            };
        }"""
    )
    assert told["simd"].startswith("This browser has neither WebGPU nor SIMD in WebAssembly")
    assert told["sum"] == pytest.approx(1)  # in the page itself
    assert told["gpu"].startswith("This browser offers no WebGPU")
    assert told["gamma"] == told["gpu"]
    assert "exported for WebGPU alone" in told["alone"]


def test_a_strict_policy(browser: Any, site: Site) -> None:
    tab = Tab(browser, site)
    tab.page.add_init_script(WITHOUT)
    tab.open("strict/")
    told = tab.page.evaluate(
        """async () => {
            await customElements.whenDefined("py-frame");
            const element = document.querySelector("py-frame");
            return element.load().then(() => null, ({ message }) => message);
        }"""
    )
    assert "a policy of the page must have script-src 'wasm-unsafe-eval'" in told
    tab.errors.clear()  # the browser's own words
    tab.close()


def test_start_over_and_a_loss_that_is_no_number(framed: Tab) -> None:
    """The page says what the network is now."""
    found = framed.page.evaluate(
        """async () => {
            const { device } = await fresh("points");
            const shown = async () => {
                await frame();
                const cells = $("chart").shadowRoot.querySelectorAll(".cell:not([hidden]) dd");
                const values = [...cells].map((cell) => cell.textContent).slice(0, 2).join();
                const texts = ["status", "notices"].map((part) => $(part).textContent);
                return [values, ...texts, el.history.length];
            };
            await el.train({ epochs: 2 });
            const found = [[device, $("numbers").innerText], await shown()];
            await el.reset();
            found.push(await shown());
            await fresh("pads");
            await el.train({ steps: 8, x: Array(64).fill(Infinity), y: [0] });
            found.push(await shown());
            await el.reset();
            found.push(await shown());
            return found;
        }"""
    )
    (device, numbers), learnt, fresh, odd, again = found
    where = {"name": "WebAssembly on 1 core", "software": False, "choices": ["cpu"]}
    assert device == {"kind": "cpu", **where}
    assert where["name"] in numbers
    assert learnt[0].startswith("8,0.")
    assert learnt[1].startswith("Done after 8 steps")
    assert fresh == ["–,–", "A new network, which knows nothing yet.", "", 0]
    assert odd[0] == "8,NaN"
    assert odd[1].startswith("The loss is no number after 8 steps")
    assert odd[2].startswith("The loss became NaN by step ")
    assert again[0] == "–,–"
    assert again[1].startswith("Ready: the network has saved weights.")
    assert again[2:] == ["", 0]


def test_what_is_no_number_is_refused(framed: Tab) -> None:
    calls = {
        "train({ epoch: 3 })": "train: there is no option epoch; there are epochs, steps, limit,",
        "train({ steps: '3' })": 'train: expected steps, a whole number above 0, got "3".',
        "set('lr', -1)": "lr: expected a number from 0.0001 to 0.5, got -1.",
        "train({ x: [0, 1], y: [0.5] })": "train: y[0] is 0.5, expected a whole number (int64).",
        "train({ x: [0, {}], y: [1] })": "train: x[1] is {}, expected a number.",
        "predict([1, undefined])": "predict: value[1] is undefined, expected a number.",
        "predict(new ImageData(2, 2))": "Pictures are for programs whose input is a Pad or an",
        "engine.player.set('lr', -1)": "lr: expected a number, 0 or more, got -1",
        "engine.player.run('predict.1', [1, 'a'])": 'predict.1: x[1] is "a", expected a number.',
        "engine.train({ points: [0, 0, 1], fast: 1 })": "train: unknown option fast; it takes",
        "engine.train({ steps: -1 })": "train: expected steps, a whole number above 0, got -1.",
    }
    told = framed.page.evaluate(
        """async (calls) => {
            await fresh("points");
            const told = [];
            for (const call of calls) {
                told.push(await said(async () => new Function(`return el.${call}`)()));
            }
            return told;
        }""",
        list(calls),
    )
    for (call, why), saw in zip(calls.items(), told, strict=True):
        assert saw.startswith(f"TypeError: {why}"), call
    # and what numbers may be given as
    found = framed.page.evaluate(
        """async () => {
            const { data } = await el.predict([[0.5, -0.5], Float32Array.of(0.25, 0)]);
            const same = await el.predict(Float64Array.of(0.5, -0.5, 0.25, 0));
            const { steps } = await el.train({ steps: 1, x: [[0, 1], [1, 0]], y: [1n, true] });
            return [String(data) === String(same.data), data.length, steps];
        }"""
    )
    assert found == [True, 4, 1]


def test_pictures_are_predicted_and_learnt(framed: Tab) -> None:
    """Each kind that browsers have gives the same; what can't be read is told."""
    found = framed.page.evaluate(
        """async () => {
            await fresh("pads");
            const canvas = document.createElement("canvas");
            Object.assign(canvas, { width: 16, height: 16 });
            const context = canvas.getContext("2d", { willReadFrequently: true });
            context.fillStyle = "#fff"; // on nothing, as on a pad's paper
            context.fillRect(4, 0, 8, 16);
            const image = new Image();
            image.src = canvas.toDataURL();
            const kinds = {
                canvas, image, data: context.getImageData(0, 0, 16, 16),
                bitmap: await createImageBitmap(canvas),
                file: await new Promise((done) => canvas.toBlob(done)),
            };
            if (self.VideoFrame) kinds.frame = new VideoFrame(canvas, { timestamp: 0 });
            if (self.OffscreenCanvas) {
                kinds.offscreen = new OffscreenCanvas(16, 16);
                kinds.offscreen.getContext("2d").drawImage(canvas, 0, 0);
            }
            const whole = Array.from({ length: 64 }, (_, i) => Number(i % 8 > 1 && i % 8 < 6));
            const { data } = await el.predict(whole);
            const off = [];
            for (const [name, picture] of Object.entries(kinds)) {
                const found = await el.predict(picture);
                off.push([name, Math.max(...found.data.map((p, i) => Math.abs(p - data[i])))]);
            }
            const drawn = [...$("input").value].slice(0, 8);
            kinds.frame?.close();
            const { shape } = await el.predict([canvas, image]);
            const { steps } = await el.train({ steps: 1, x: [canvas, kinds.data], y: [0, 2] });
            const bad = [];
            for (const each of [new Blob(["no"]), document.createElement("video")]) {
                bad.push(await said(() => el.predict(each)));
            }
            return { off, drawn, shape, steps, bad, sum: data.reduce((a, b) => a + b) };
        }"""
    )
    for name, off in found["off"]:
        assert off < 0.02, name
    assert found["drawn"] == pytest.approx([0, 0, 1, 1, 1, 1, 0, 0], abs=0.01)
    assert (found["shape"], found["steps"]) == ([2, 3], 1)
    for told in found["bad"]:
        assert told.startswith("TypeError: This picture can't be read: expected one that has been")
    assert found["sum"] == pytest.approx(1)  # probabilities, as Bars shows them


def test_another_program_and_a_removed_element(framed: Tab) -> None:
    """load() and ready are of what the attributes say now; what is gone is told."""
    found = framed.page.evaluate(
        """async () => {
            await fresh("pads");
            el.program = "../points/";
            const { kind } = (await el.ready).input;
            const once = { once: true };
            const begun = () => new Promise((done) => el.addEventListener("step", done, once));
            let going = said(() => el.train({ epochs: 10_000 }));
            await begun();
            el.program = "../pads/";
            const ends = [await going];
            going = said(() => el.train({ epochs: 10_000 }));
            await begun();
            const parent = el.parentNode;
            el.remove();
            ends.push(await going);
            parent.append(el);
            await el.load();
            const notice = $("notices").textContent;
            const train = () => said(() => el.train({ steps: 1 }));
            const [, twice] = await Promise.all([train(), train()]);
            await el.reset();
            el.remove();
            await frame();
            parent.append(el); // which had learnt nothing
            await el.load();
            return { kind, ends, notice, twice, later: $("notices").textContent };
        }"""
    )
    assert found["kind"] == "points"
    assert found["ends"] == ["AbortError: The program was closed."] * 2
    assert found["notice"].startswith("The network begins anew: what it had learnt went")
    already = "Error: train: it is being trained already."
    assert (found["twice"], found["later"]) == (already, "")


def test_weights_are_a_file_of_their_kind(framed: Tab) -> None:
    framed.page.evaluate("fresh('pads')")
    names = {"mine": "mine.safetensors", "a.bin": "a.bin", "": "pads.safetensors"}
    for name, file in names.items():
        with framed.download() as download:
            framed.page.evaluate("(name) => { el.exportWeights(name ? { name } : {}); }", name)
        assert download.value.suggested_filename == file


def test_buttons_stand_above_the_samples(framed: Tab) -> None:
    """Also on a phone where a network is tried first; elsewhere these are below its input."""
    tops = """async () => {
        await frame();
        return ["input", "train", "samples"].map((part) => $(part).getBoundingClientRect())
            .map(({ top, left }) => [top, left]);
    }"""
    framed.page.evaluate("fresh('pads')")
    try:
        framed.page.set_viewport_size({"width": 390, "height": 844})
        field, train, samples = framed.page.evaluate(tops)
        assert field[0] < train[0] < samples[0]
    finally:
        framed.page.set_viewport_size(SIZE)
    field, train, samples = framed.page.evaluate(tops)
    assert samples[1] < train[1]
    assert field[0] < samples[0]


def test_a_player_that_is_closed(plain: Tab) -> None:
    told = plain.page.evaluate(
        """async () => {
            const player = await Player.open("points/");
            player.run("predict.1", [0, 0]);
            const told = [player.results("predict.1"), player.save()].map((it) => said(() => it));
            player.close();
            player.close();
            const each = (of, calls) => told.push(...calls.map(
                ([name, ...given]) => said(async () => of[name](...given))));
            each(player, [
                ["compile"], ["save"], ["keep"], ["reopen"], ["results", "predict.1"],
                ["tensors", ["0.weight"]], ["move", "cpu"], ["run", "predict.1", [0, 0]],
                ["write", "metric:train.loss", [0]], ["restore", ""], ["set", "lr", 1], ["reset"],
                ["load", new Uint8Array(9)],
            ]);
            const engine = await open({ program: "points/" }, hear);
            told.push(said(() => engine.train({ epochs: 10_000 })));
            await engine.close();
            each(engine, [["train"], ["evaluate"], ["reset"], ["save"], ["predict", [0, 0]]]);
            return Promise.all(told);
        }"""
    )
    assert len(told) == 21
    assert set(told) == {"AbortError: The program was closed."}


def test_a_browser_that_never_says_what_gpu_it_has(browser: Any, site: Site) -> None:
    tab = Tab(browser, site)
    tab.page.add_init_script(
        """self.asked = Promise.withResolvers();
        const requestAdapter = () => { asked.resolve(); return new Promise(() => {}); };
        Object.defineProperty(Navigator.prototype, "gpu", { value: { requestAdapter } });"""
    )
    tab.page.clock.install()
    tab.open("pads/").evaluate("async () => { await asked.promise; }")
    tab.page.clock.fast_forward(11_000)
    kind = tab.page.evaluate(
        "document.querySelector('py-frame').load().then((spec) => spec.device.kind)"
    )
    assert kind == "cpu"
    tab.close()


def test_a_widget_that_is_a_web_page(browser: Any, site: Site) -> None:
    """As some servers answer with where a file is missing: the page says so."""
    tab = Tab(browser, site)
    html = "<!doctype html><title>An app</title>"
    tab.page.route("**/toggle.js", lambda route: route.fulfill(body=html, content_type="text/html"))
    tab.open("pads/")
    said = tab.page.locator("py-frame")
    said.filter(has_text="(widgets/toggle.js is a web page there, no script)").wait_for()
    tab.page.unroute("**/toggle.js")
    tab.page.route("**/runtime.js", lambda route: route.fulfill(status=404))
    tab.open("pads/")
    said = tab.page.locator("py-frame [part=error-message]")
    said.filter(has_text="(for runtime.js the server says 404)").wait_for()
    tab.errors.clear()  # the browser's own words
    tab.close()
