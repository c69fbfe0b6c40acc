"""Exported programs in a browser without WebGPU: WebAssembly runs them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import exported
import numpy as np
import pytest
from exported import batches, by_python, letters, rate

import pyframe as pf
from pyframe import nn, optim

from .conftest import BLANK, LONG, Tab, files
from .test_export import DEMO, STRICT, Site, make_model, points

NETS: dict[str, tuple[Callable[[], pf.Model], list[Any]]] = {
    "mlp": (lambda: exported.mlp(optim.Adam), batches((16, 20), 5)),
    "convolutional": (exported.convolutional, batches((16, 1, 12, 12), 10)),
    "classic": (exported.classic, batches((8, 1, 12, 12), 10)),
    "gpt": (exported.gpt, letters()),
}
STEPS = 20
WITHOUT = "Object.defineProperty(Navigator.prototype, 'gpu', { value: undefined });"
BEGIN = """async (url) => {
    Object.assign(self, await import(new URL("points/player.js", url)));
    document.head.append(Object.assign(document.createElement("base"), { href: url }));
    self.message = (work) => work().then(() => null, (error) => error.message);
    self.heard = [];
    self.hear = (event, detail) => heard.push([event, detail]);
}"""
RUN = """async ({ name, xs, ys, rates }) => {
    const player = await Player.open(`${name}/`);
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
    const saved = Array.from(await player.save());
    const { device, devices } = player;
    player.close();
    return { y: Array.from(y.data), losses, saved, device, devices };
}"""


class Gamma(nn.Linear):
    """Computes with what only WGSL has a form of."""

    def forward(self, x: pf.Tensor) -> pf.Tensor:
        return super().forward(x).exp().lgamma()


def policy(path: str) -> dict[str, str]:
    return {"Content-Security-Policy": STRICT} if path.startswith("/strict") else {}


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    folder = tmp_path_factory.mktemp("site")
    for name, (make, data) in NETS.items():
        done = pf.web.export(make(), data[0], to=folder / name, element=False,
                             sizes=[len(data[0][0])])  # fmt: skip
        assert done.left_out == []
    pf.web.export(DEMO, to=folder / "points")
    pf.web.export(DEMO, to=folder / "strict")
    pf.web.export(DEMO, to=folder / "one.html", single=True)
    pf.manual_seed(0)
    with pytest.warns(UserWarning, match="the page needs WebGPU, as program 'predict.1' can't run"):
        done = pf.web.export(Gamma(2, 2), pf.ones(1, 2), to=folder / "gamma", element=False)
    assert "lgamma" in done.left_out[0]
    assert "cpu.wasm" not in done.files
    (folder / "blank").mkdir()
    (folder / "blank" / "index.html").write_text(BLANK)
    with files(folder, policy) as url:
        yield Site(folder, url)


@pytest.fixture(scope="module")
def plain(browser: Any, site: Site) -> Iterator[Tab]:
    """A page without WebGPU that has the player."""
    tab = Tab(browser, site)
    tab.page.set_default_timeout(LONG)
    tab.page.add_init_script(WITHOUT)
    tab.open("blank/").evaluate(BEGIN, site.url)
    yield tab
    tab.close()


@pytest.mark.parametrize("name", NETS)
def test_losses_are_those_of_python(name: str, plain: Tab, tmp_path: Path) -> None:
    make, data = NETS[name]
    rates = [rate(i) / 5 for i in range(STEPS)]
    xs, ys = ([d[i].reshape(-1).tolist() for d in data] for i in (0, 1))
    found = plain.page.evaluate(RUN, {"name": name, "xs": xs, "ys": ys, "rates": rates})
    assert (found["device"], found["devices"]) == ("cpu", ["cpu"])
    model, x = make(), data[0][0]
    expected = model.predict(pf.from_numpy(x)).numpy()
    np.testing.assert_allclose(found["y"], expected.reshape(-1), atol=1e-5)
    losses = np.array(found["losses"])
    np.testing.assert_allclose(losses, by_python(model, data, "cpu", STEPS, rates), atol=1e-4)
    path = tmp_path / "w.safetensors"
    path.write_bytes(bytes(found["saved"]))
    trained = make().load(path).predict(pf.from_numpy(x)).numpy()
    np.testing.assert_allclose(trained, model.predict(pf.from_numpy(x)).numpy(), atol=1e-3)


ELEMENT = """async (device) => {
    await customElements.whenDefined("py-frame");
    const element = document.querySelector("py-frame");
    element.loading = "eager";
    await element.ready;
    if (device !== "auto") await element.move(device);
    const done = await element.train({ steps: 5 });
    const shown = (part) => element.shadowRoot.querySelector(`[part~="${part}"]`)?.innerText ?? "";
    return { loss: done.loss, device: element.spec.device, text: shown("numbers") };
}"""


def test_the_element_says_where_it_runs(browser: Any, site: Site) -> None:
    """A folder and one file train alike, and are the same as with WebGPU. An adapter that is a CPU
    is no GPU to them."""
    found = {}
    for name, url, script in (
        ("folder", f"{site.url}points/", WITHOUT),
        ("file", (site.folder / "one.html").as_uri(), WITHOUT),
        ("gpu", f"{site.url}points/", ""),
        ("software", f"{site.url}points/", ""),
    ):
        tab = Tab(browser, site)
        tab.page.set_default_timeout(LONG)
        tab.page.add_init_script(script)
        tab.page.goto(url)
        found[name] = tab.page.evaluate(ELEMENT, "gpu" if name == "gpu" else "auto")
        tab.close()
    cpu = {"kind": "cpu", "name": "WebAssembly on 1 core", "software": False, "choices": ["cpu"]}
    for name in ("folder", "file"):
        assert found[name]["device"] == cpu
        assert "WebAssembly on 1 core" in found[name]["text"]
        assert found[name]["loss"] == pytest.approx(found["gpu"]["loss"], abs=1e-4)
    assert found["software"]["device"] == {**cpu, "choices": ["cpu", "gpu"]}
    assert found["gpu"]["device"]["kind"] == "gpu"
    assert found["gpu"]["device"]["choices"] == ["cpu", "gpu"]


def test_the_engine_trains(plain: Tab, tmp_path: Path) -> None:
    found = plain.page.evaluate(
        """async () => {
            const engine = await open({ program: "points/" }, hear);
            const first = await engine.evaluate();
            const done = await engine.train({ epochs: 30 });
            const saved = Array.from(await engine.save());
            await engine.reset();
            const again = await engine.evaluate();
            await engine.close();
            return { first, done, saved, again };
        }"""
    )
    done = found["done"]
    assert found["again"] == found["first"]
    assert done["val_loss"] < found["first"]["loss"]
    path = tmp_path / "w.safetensors"
    path.write_bytes(bytes(found["saved"]))
    expected = make_model().load(path).evaluate(points()[1])
    for name in ("loss", "accuracy", "f1"):
        assert expected[name] == pytest.approx(done[f"val_{name}"], abs=1e-5)


def test_devices(browser: Any, site: Site) -> None:
    """From the GPU to WebAssembly and back, also while it trains: it is the same network."""
    tab = Tab(browser, site)
    tab.page.set_default_timeout(LONG)
    tab.open("blank/").evaluate(BEGIN, site.url)
    found = tab.page.evaluate(
        """async () => {
            const run = async (moves) => {
                const engine = await open({ program: "points/", device: "cpu" }, hear);
                const kinds = [engine.spec.device.kind];
                for (const device of moves) {
                    const training = engine.train({ steps: 6 });
                    kinds.push((await engine.move(device)).device.kind);
                    await training;
                }
                const [weight] = await engine.player.tensors(["0.weight"]);
                const step = (await engine.move("cpu")).step;
                await engine.close();
                return { kinds, saved: Array.from(weight), step };
            };
            return [await run(["gpu", "cpu", "gpu"]), await run(["cpu", "cpu", "cpu"])];
        }"""
    )  # fmt: skip
    moved, still = found
    assert moved["kinds"] == ["cpu", "gpu", "cpu", "gpu"]
    assert moved["step"] == still["step"] == 18
    np.testing.assert_allclose(moved["saved"], still["saved"], atol=1e-4)
    # what has no form in WebAssembly still plays on WebGPU
    told = tab.page.evaluate(
        """async () => {
            const player = await Player.open("gamma/");  // with device "auto"
            player.run("predict.1", [1, 1]);
            const { y } = await player.results("predict.1");
            const refused = await message(() => Player.open("gamma/", { device: "cpu" }));
            return { y: Array.from(y.data), devices: player.devices, refused };
        }"""
    )
    pf.manual_seed(0)
    expected = Gamma(2, 2)(pf.ones(1, 2)).detach().numpy()[0]
    np.testing.assert_allclose(told["y"], expected, atol=1e-4)
    assert told["devices"] == ["gpu"]
    assert "exported for WebGPU alone" in told["refused"]
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
            };
        }"""
    )
    assert told["simd"].startswith("This browser has neither WebGPU nor SIMD in WebAssembly")
    assert told["sum"] == pytest.approx(1)  # in the page itself
    assert told["gpu"].startswith("This browser offers no WebGPU")
    assert told["gamma"] == told["gpu"]


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


def test_an_index_out_of_range(plain: Tab) -> None:
    told = plain.page.evaluate(
        """async () => {
            const player = await Player.open("gpt/");
            const x = new Int32Array(48).fill(99);
            return message(async () => {
                player.run("train", x, x);
                await player.tensors(["metric:train.loss"]);
            });
        }"""
    )
    assert "out of range" in told
