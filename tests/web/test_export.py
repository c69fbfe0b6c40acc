"""Exported programs in a browser, with no Python: web/player.js, and the element that it drives.

What a program computes is tested natively (tests/test_export.py). A CPU plays the GPU here, which
takes long to make each kernel: programs run there where a GPU is what a test is about, and all
others by WebAssembly."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest

import pyframe as pf
from pyframe import nn, optim
from pyframe.data import TensorDataset
from pyframe.web import Demo, Plane, Points, Slider, Values

from .conftest import FULL, Tab, files

STRICT = (
    "default-src 'none'; script-src 'self'; connect-src 'self'; style-src 'self'; img-src data:"
)


def points(n: int = 60) -> tuple[TensorDataset, TensorDataset]:
    pf.manual_seed(3)
    x = pf.rand(n + 22, 2) * 2 - 1
    y = (x[:, 0] * x[:, 1] > 0).long()
    return TensorDataset(x[:n], y[:n]), TensorDataset(x[n:], y[n:])


def make_model() -> pf.Model:
    pf.manual_seed(0)
    net = nn.Sequential(nn.Linear(2, 16), nn.Tanh(), nn.Dropout(0.1), nn.Linear(16, 2))
    optimizer = optim.Adam(net.parameters(), lr=0.01)
    return pf.Model(net, nn.CrossEntropyLoss(), optimizer, metrics=["accuracy", "f1"])


DEMO = Demo(make_model, Points(2), Plane(5), data=points, epochs=2, batch_size=16,
            controls=(Slider("lr", 1e-4, 0.5, 0.02, log=True),), title="Two <kinds>")  # fmt: skip


def lean() -> pf.Model:
    """Few kernels: they are made anew for each page and each device."""
    pf.manual_seed(0)
    net = nn.Linear(2, 2)
    return pf.Model(net, nn.MSELoss(), optim.SGD(net.parameters(), lr=0.1, momentum=0.5))


def corners() -> tuple[pf.Tensor, pf.Tensor]:
    x = pf.arange(40.0).reshape(20, 2) / 40
    return x, 1 - x


LEAN = Demo(lean, Points(2), Values(("a", "b")), data=corners, batch_size=4, title="Two <kinds>")


class Site(NamedTuple):
    """A folder behind a plain server; what is in strict/ has a strict policy."""

    folder: Path
    url: str


def policy(path: str) -> dict[str, str]:
    return {"Content-Security-Policy": STRICT} if path.startswith("/strict") else {}


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    """All that the tests export, served."""
    folder = tmp_path_factory.mktemp("site")
    pf.web.export(DEMO, to=folder / "points")
    pf.web.export(LEAN, to=folder / "lean")
    pf.web.export(LEAN, to=folder / "strict")
    pf.web.export(LEAN, to=folder / "one.html", single=True)
    pf.web.export(DEMO, to=folder / "predicts", train=False, element=False)
    page = folder / "strict" / "index.html"  # its policy forbids WebAssembly
    page.write_text(page.read_text().replace("<py-frame ", '<py-frame device="gpu" '))
    with files(folder, policy) as url:
        yield Site(folder, url)


@pytest.fixture(scope="module")
def watched(browser: Any, site: Site) -> Iterator[Tab]:
    """A page with the player, a GPU's Runtime, and an engine that a test may open anew."""
    found = Tab(browser, site)
    found.open("blank").evaluate(
        """async (url) => {
            const at = new URL("points/", url);
            Object.assign(self, await import(new URL("player.js", at)));
            const { createRuntime } = await import(new URL("runtime.js", at));
            self.runtime = await createRuntime();
            document.head.append(Object.assign(document.createElement("base"), { href: url }));
            self.heard = [];
            self.opened = async (options = {}) => {
                heard.length = 0;
                const engine = await open({ program: "points/", device: "cpu", ...options },
                    (event, detail) => heard.push([event, detail]));
                return (self.engine = engine);
            };
            self.message = (work) => work().then(() => null, (error) => error.message);
            self.turn = () => new Promise((done) => setTimeout(done));
        }""",
        site.url,
    )
    yield found
    found.close()


@pytest.fixture
def page(watched: Tab) -> Iterator[Any]:
    """See `watched`; engines are closed when the test is over."""
    yield watched.page
    watched.page.evaluate("async () => { await self.engine?.close(); self.engine = null; }")


def test_options_are_set(page: Any) -> None:
    """Those that a program has, to numbers that it can take."""
    page.evaluate("opened()")
    options = page.evaluate("engine.player.options")
    assert options == {
        "0.lr": 0.02, "0.eps": 1e-8, "0.betas.0": 0.9, "0.betas.1": 0.999, "0.weight_decay": 0,
    }  # fmt: skip
    tell = """([name, value]) => message(async () => engine.player.set(name, value))"""
    for name, value, why in (
        ("betas.0", 0.5, None),
        ("weight_decay", 0, None),
        ("size", 1, "no option size; it has"),
        ("weight_decay", 0.1, "weight_decay can't be 0.1 in this program"),
    ):
        told = page.evaluate(tell, [name, value])
        assert told == why or why in told
    assert page.evaluate("engine.player.options")["0.betas.0"] == 0.5


LOAD = "([raw, fit]) => message(() => engine.load(Uint8Array.from(raw), 'w', fit ?? {}))"


def load(page: Any, state: dict[str, pf.Tensor], **fit: Any) -> Any:
    """Let the engine take weights; what it says if it doesn't."""
    return page.evaluate(LOAD, [list(pf.io.safetensors.save(state)), fit])


def saved(page: Any) -> dict[str, pf.Tensor]:
    return pf.io.safetensors.load(bytes(page.evaluate("engine.save().then(Array.from)")))


# --- the engine


def test_the_engine_trains(page: Any, site: Site) -> None:
    spec = page.evaluate("opened().then((engine) => engine.spec)")
    assert spec["steps_per_epoch"] == 4
    assert (spec["device"]["kind"], spec["device"]["choices"]) == ("cpu", ["cpu", "gpu"])
    assert (spec["trained"], spec["engine"], spec["parameters"]) == (False, "program", 82)
    assert len(spec["points"]) == 3 * 60
    first = page.evaluate("engine.evaluate()")
    done = page.evaluate("engine.train({ epochs: 30 })")
    assert (done["steps"], done["stopped"]) == (120, False)
    assert done["val_loss"] < first["loss"]
    heard = page.evaluate("heard")
    epochs = [d for e, d in heard if e == "epoch"]
    assert [d["epoch"] for d in epochs] == list(range(1, 31))
    assert epochs[-1] == {k: v for k, v in {"epoch": 30, "step": 120, **done}.items()
                          if k not in ("steps", "seconds", "stopped")}  # fmt: skip
    steps = [d for e, d in heard if e == "step"]
    assert [d["step"] for d in steps] == sorted({d["step"] for d in steps})
    assert steps[-1]["step"] == steps[-1]["steps"] == 120
    assert set(steps[0]["metrics"]) == {"accuracy", "f1"}
    for name in ("accuracy", "f1"):  # of the epoch so far, which ends with the epoch's
        assert steps[-1]["metrics"][name] == done[name]
    # Python's Model takes the weights, and finds the same
    model = make_model()
    model.net.load_state_dict(saved(page))
    found = model.evaluate(points()[1])
    assert found["loss"] == pytest.approx(done["val_loss"], abs=1e-5)
    for name in ("accuracy", "f1"):  # which is no mean of the batches'
        assert found[name] == pytest.approx(done[f"val_{name}"], abs=1e-6)
    grid = np.random.default_rng(0).uniform(-1, 1, (30, 2)).astype(np.float32)
    expected = model.predict(pf.from_numpy(grid)).softmax(1).numpy()
    for n in (1, 2, 4, 25, 30):
        data, shape = page.evaluate(
            """(x) => engine.predict(Float32Array.from(x))
                .then(({ data, shape }) => [Array.from(data), shape])""",
            grid[:n].reshape(-1).tolist(),
        )
        assert shape == [n, 2]
        np.testing.assert_allclose(np.reshape(data, (n, 2)), expected[:n], atol=1e-5)
    # and the engine takes Python's
    make_model().save(site.folder / "start.safetensors")
    page.evaluate("engine.load('start.safetensors')")
    assert page.evaluate("engine.evaluate()") == pytest.approx(first)
    page.evaluate("async () => engine.load((await engine.save()).buffer)")
    assert page.evaluate("engine.evaluate()") == pytest.approx(first)


def test_steps_epochs_points_and_reset(page: Any) -> None:
    page.evaluate("opened()")
    for expected in (1, 2, 3, 4, 5):  # a step at a time goes through the data as a whole epoch does
        assert page.evaluate("engine.train({ steps: 1 })")["steps"] == 1
        heard = page.evaluate("heard")
        assert [d["step"] for e, d in heard if e == "step"][-1] == expected
    assert [d["epoch"] for e, d in heard if e == "epoch"] == [1]
    by_one = page.evaluate("engine.save().then(Array.from)")
    page.evaluate("engine.reset()")
    assert page.evaluate("engine.train({ steps: 5 })")["steps"] == 5
    assert page.evaluate("engine.save().then(Array.from)") == by_one
    assert page.evaluate("engine.train({ epochs: 1 })")["steps"] == 3  # to the end of the epoch
    # points in place of the data; a learning rate of its own, also while training
    page.evaluate("engine.reset()")
    done = page.evaluate(
        """async () => {
            const points = Float32Array.of(-0.5, 0.5, 0, 0.5, -0.5, 1, 0.5, 0.5, 1);
            const training = engine.train({ epochs: 40, points });
            await engine.set("lr", 0.05);
            return training;
        }"""
    )
    assert done["accuracy"] == 1
    assert (done["lr"], done["steps"]) == (0.05, 160)
    assert "val_loss" not in done
    (control,) = page.evaluate("engine.spec.controls")
    assert control["value"] == 0.05


def test_a_lost_device(page: Any, site: Site) -> None:
    """Training goes on from the last copy, and ends as if nothing had happened."""
    through = """async ([after, look]) => {
        const { createRuntime } = await import(new URL("points/runtime.js", document.baseURI));
        const own = await createRuntime();
        const { read } = own;
        own.read = (...all) => read.apply(own, all).catch(async (error) => {
            while (look && !own.next) await turn(); // training hears of it later
            throw error;
        });
        const engine = await opened({ runtime: own, program: "lean/" });
        const training = engine.train({ steps: 150 });
        const reached = () => heard.some(([event, { step }]) => event === "step" && step >= after);
        while (after && !reached()) await turn();
        if (look) own.read = read;
        if (after) own.destroy();
        if (look) await engine.predict(Float32Array.of(0, 0)); // which opens the device again
        const done = await training;
        const weights = Array.from(await engine.save());
        engine.player.runtime.destroy(); // once more, while nothing goes on
        if (!look) await engine.predict(Float32Array.of(0, 0));
        const again = look ? weights : Array.from(await engine.save());
        return { done, weights, again, told: heard.filter(([event]) => event === "devicelost") };
    }"""
    whole = page.evaluate(through, [0, False])
    assert len(whole["told"]) == 1
    for look in (False, True):
        broken = page.evaluate(through, [110, look])
        assert broken["done"]["steps"] == 150
        assert broken["weights"] == whole["weights"] == broken["again"]
        first, *last = (detail["text"] for _, detail in broken["told"])
        assert "goes on from its last copy, after step 1" in first
        assert look or "after step 150." in last[0]


def test_half_precision(page: Any) -> None:
    """Weights in float16 are taken with their values, also the smallest, and written again."""
    page.evaluate("opened()")
    half = np.array([1, -2.5, 65504, 6e-8, -6e-5, 0.333, np.inf, -0.0] * 4, np.float16)
    model = make_model()
    state = {k: pf.from_numpy(np.resize(half, v.shape)) for k, v in model.net.state_dict().items()}
    assert load(page, state) is None
    found = saved(page)
    for name, value in state.items():
        assert found[name].dtype is pf.float32
        np.testing.assert_array_equal(found[name].numpy(), value.numpy().astype(np.float32))


def test_bfloat16(page: Any, site: Site) -> None:
    """A net in bfloat16 predicts, learns, and gives its weights in it."""
    pf.manual_seed(0)
    x, y = pf.randn(4, 3).bfloat16(), pf.arange(4) % 2
    net = nn.Linear(3, 2).bfloat16()
    model = pf.Model(net, nn.CrossEntropyLoss(), optim.SGD(net.parameters(), lr=0.5))
    with pytest.warns(UserWarning, match="can't run on the CPU: matmul of bfloat16"):
        pf.web.export(model, (x, y), to=site.folder / "bfloat16", element=False)
    told = page.evaluate(
        """async ([x]) => {
            const engine = await opened({ program: "bfloat16/", runtime });
            const { data } = await engine.predict(Float32Array.from(x));
            await engine.train({ steps: 4 });
            return Array.from(data);
        }""",
        [x[0].tolist()],
    )
    np.testing.assert_array_equal(told, net(x[:1])[0].tolist())
    before = net.weight.detach().clone()
    for _ in range(4):
        model.train_on_batch((x, y))
    found = saved(page)["weight"]
    assert found.dtype is pf.bfloat16
    assert (before != found).any()
    np.testing.assert_allclose(found.float(), net.weight.detach().float(), atol=0.01)


# What is done with engines, and what is seen.
DONE: dict[str, tuple[str, Any]] = {
    "training is stopped": ("""
        const engine = await opened();
        const training = engine.train({ epochs: 100000 });
        while (!heard.some(([event]) => event === "epoch")) await turn();
        const other = await message(() => engine.train({}));
        await engine.predict(Float32Array.of(0, 0)); // meanwhile
        engine.stop();
        const { stopped, steps } = await training;
        return [stopped, 4 <= steps && steps < 400000, other.includes("trained already")];
        """, [True, True, True]),
    "a full device": (FULL + """
        const engine = await opened({ program: "lean/", runtime });
        fill();
        const told = await message(() => engine.train({ steps: 1 }));
        return ["no memory left to train with batches of 4 samples",
            "a smaller batch_size, such as 1"].map((text) => told.includes(text));
        """, [True, True]),
    # 400 steps make nothing new, and engines that are closed leave nothing behind
    "no leaks": ("""
        const lean = { program: "lean/", runtime };
        const engine = await opened(lean);
        const kept = () => ["buffers", "bytes", "bind_groups", "programs", "pipelines"]
            .map((kind) => runtime.stats()[kind]);
        await engine.train({ steps: 40 });
        const before = kept();
        await engine.train({ steps: 400 });
        const after = kept();
        await engine.close();
        const [buffers, bytes, , programs] = kept();
        for (let i = 0; i < 3; i++) {
            const other = await opened(lean);
            await other.train({ steps: 2 });
            await other.close();
        }
        const [more, again, , last] = kept();
        return [String(before) === String(after), buffers, bytes, programs, more, again, last];
        """, [True, *[0] * 6]),
}  # fmt: skip


@pytest.mark.parametrize("case", DONE)
def test_what_is_done_is_seen(page: Any, case: str) -> None:
    code, seen = DONE[case]
    assert page.evaluate(f"async () => {{ {code} }}") == seen


def test_inputs_of_any_size(page: Any, site: Site) -> None:
    """Programs for batches and lengths that were not exported, also of 1, with one set of kernels;
    and training with any batch. test_onnx_in_page.py has an element that predicts any batch."""
    pf.manual_seed(0)
    words, out, line = nn.Embedding(20, 8), nn.Linear(8, 3), nn.Linear(3, 1)
    optimizer = optim.Adam(line.parameters(), lr=0.05)

    def ask(ids: pf.Tensor) -> dict[str, pf.Tensor]:
        if ids.shape[1] > 64:
            return {"y": ids}
        x = words(ids)
        return {"y": out((x @ x.mT).softmax(-1) @ x).amax(1) / ids.shape[1]}

    def learn(x: pf.Tensor, y: pf.Tensor) -> pf.Tensor:
        optimizer.zero_grad()
        loss = (line(x)[:, 0] - y).square().mean()
        loss.backward()
        optimizer.step()
        return loss

    rng = np.random.default_rng(0)
    samples = [rng.integers(0, 20, shape) for shape in
               ((3, 7), (5, 9), (2, 40), (1, 4), (6, 1), (1, 1), (4, 64), (3, 7))]  # fmt: skip
    batches = [(pf.randn(n, 3), pf.randn(n)) for n in (8, 5, 8, 12, 1, 30)]
    given = pf.tensor(samples[0])
    pf.mark_dynamic(given, (0, 1))
    x, y = (v.clone() for v in batches[0])
    pf.mark_dynamic(x, 0)
    pf.mark_dynamic(y, 0)
    with pytest.warns(UserWarning, match="needs WebGPU, as program 'ask' takes inputs of any size"):
        pf.web.export({"ask": ask, "learn": learn}, {"ask": (given,), "learn": (x, y)},
                      to=site.folder / "any", state=(words, out, line, optimizer))  # fmt: skip
    asked = [[list(ids.shape), ids.reshape(-1).tolist()] for ids in samples]
    learnt = [[x.reshape(-1).tolist(), y.tolist()] for x, y in batches]
    told = page.evaluate(
        """async ([asked, learnt]) => {
          const player = await Player.open("any/", { runtime });
          const answers = [];
          for (const again of [false, true]) {
            if (again) var before = runtime.stats();
            for (const [shape, data] of asked) {
              player.run("ask", { shape, data: Int32Array.from(data) });
              const { y } = await player.results("ask");
              if (!again) answers.push([y.shape, Array.from(y.data)]);
            }
          }
          const after = runtime.stats();
          const losses = [];
          for (const [x, y] of learnt) {
            player.run("learn", x, y);
            losses.push((await player.results("learn")).output0.data[0]);
          }
          const told = await Promise.all([
            () => player.run("ask", Int32Array.from(asked[0][1])),
            () => player.run("ask", { shape: [2, 70], data: new Int32Array(140) }),
            () => player.run("learn", [1, 2, 3, 4], [0]),
          ].map((run) => message(async () => run())));
          player.close();
          const made = ["pipelines", "bind_groups", "buffers"]
            .map((kind) => after[kind] - before[kind]);
          return { answers, losses, told, made };
        }""",
        [asked, learnt],
    )
    for (shape, data), ids in zip(told["answers"], samples, strict=True):
        want = ask(pf.tensor(ids))["y"].detach().numpy()
        np.testing.assert_allclose(np.reshape(data, shape), want, 1e-4, 1e-5)
    losses = [learn(x, y).item() for x, y in batches]
    np.testing.assert_allclose(told["losses"], losses, 1e-4)
    assert told["made"] == [0, 0, 0]
    several, long, odd = told["told"]
    assert several == "ids of #0 × #1: several dims may have any size; give { data, shape }"
    assert "ask was not exported for ids of 2 × 70; it takes ids of #0 × #1, where" in long
    assert "not((#1 > 64))" in long.replace("(#1 + -64) > 0", "#1 > 64")
    assert "learn was not exported for x of 4 numbers, y of 1 numbers" in odd


# --- bad input


def test_bad_arguments(page: Any) -> None:
    page.evaluate("opened()")
    tell = "(code) => message(async () => new Function('engine', `return ${code}`)(engine))"
    for code, why in (
        ("engine.predict(Float32Array.of(1, 2, 3))", "2 numbers a sample, of shape [2], got 3"),
        ("engine.predict('hello')", "got a text"),
        ("engine.train({ points: [] })", "There are no points"),
        ("engine.player.run('train', [1])", "expected 2 inputs (x, y), got 1"),
        ("engine.player.run('train', [1], [2])", "x has 1 numbers, expected 32 (16 × 2)"),
        ("engine.player.run('fly')", "There is no program fly; there are train"),
        ("engine.player.tensors(['w'])", "no tensor w"),
        ("engine.load(new Uint8Array(3))", "no whole safetensors file: it has 3 bytes"),
        ("engine.load(new Uint8Array(40).fill(7))", "no whole safetensors file"),
        ("engine.load([1, 2])", "expected the bytes of a file"),
    ):  # fmt: skip
        assert why in (page.evaluate(tell, code) or "nothing was thrown"), code
    for other, why in (
        (nn.Linear(2, 3), "and 3 more"),
        (make_model().net[:3], "3.bias is missing"),
    ):
        told = load(page, other.state_dict())
        assert "holds the weights of another model" in told
        assert why in told
    page.evaluate(
        'void engine.player.run("train", new Float32Array(32), new Int32Array(16).fill(9))'
    )
    assert "; got 9" in page.evaluate("message(() => engine.player.tensors(['metric:train.loss']))")
    assert page.evaluate("engine.player.tensors(['guard:']).then(([[flag]]) => flag)") == 0


def test_weights_of_other_names(page: Any) -> None:
    """Renamed, and taken in part."""
    page.evaluate("opened()")
    given = {f"net.{k}": pf.full_like(v, 0.25) for k, v in make_model().net.state_dict().items()}
    given["more"] = pf.zeros(1)
    rename = {"net.": ""}
    assert "another model: more is not in it." in load(page, given, rename=rename)
    assert "it has none of its names, such as 0.weight" in load(page, given, strict=False)
    assert load(page, given, strict=False, rename=rename) is None
    assert page.evaluate("engine.player.tensors(['3.bias']).then(([[value]]) => value)") == 0.25


def test_bad_folders(page: Any, site: Site, watched: Tab) -> None:
    def edit(**new: Any) -> Callable[[bytes], bytes]:
        return lambda raw: json.dumps({**json.loads(raw), **new}).encode()

    needs = {"features": ["shader-f16", "flying"], "limits": {"maxBufferSize": 1 << 40}}
    state, program = "state.safetensors", "program.json"
    for name, file, change, why in (
        ("flipped", state, lambda raw: raw[:-1] + bytes([raw[-1] ^ 1]),
         "is not the file that was exported with program.json: its content is"),
        ("cut", state, lambda raw: b"12345", "it has 5 bytes, expected"),
        ("missing", state, None, "the server says 404"),
        ("newer", program, edit(version=99), "has format 99, and this player.js plays format 3"),
        ("other", program, edit(format="x"), "is no program that pyframe exported"),
        ("text", program, lambda raw: b"<html>", "is no program that pyframe"),
        ("large", program, edit(needs=needs), "the feature flying, maxBufferSize of 1099511627776"),
    ):  # fmt: skip
        path = shutil.copytree(site.folder / "predicts", site.folder / name) / file
        raw = path.read_bytes()
        path.unlink()
        if change is not None:
            path.write_bytes(change(raw))
        told = page.evaluate("(program) => message(() => opened({ program, runtime }))", f"{name}/")
        assert why in (told or "nothing was thrown"), name
    for code, why in (
        ("opened({ program: 'predicts/', weights: 'nowhere' })", "nowhere can't be had: the serv"),
        ("opened({ program: '#none' })", "There is no element #none"),
        ("opened({ program: 'predicts/' }).then((it) => it.train({}))", "to predict alone"),
    ):
        assert why in page.evaluate(f"message(() => {code})")
    assert page.evaluate("engine.evaluate().then((found) => [engine.spec.trains, found])") == [
        False, None,
    ]  # fmt: skip
    watched.errors[:] = [e for e in watched.errors if "404" not in e]  # the browser's own words


# --- pages of all kinds

ELEMENT = """async () => {
    const element = document.querySelector("py-frame");
    element.loading = "eager";
    await element.ready;
    const done = await element.train({ steps: 2 });
    const { title, device: { kind, choices } } = element.spec;
    return { steps: done.steps, loss: done.loss, title, device: kind, choices };
}"""


def test_pages_of_all_kinds(browser: Any, site: Site) -> None:
    """A plain server, a strict policy, one file, a sandbox, and srcdoc: all train, alike. A GPU
    that is played by a CPU is none to them, but may be chosen."""
    one = site.folder / "one.html"
    tab, found = Tab(browser, site), {}
    for name, url in (("plain", "lean/"), ("strict", "strict/"), ("file", one.as_uri())):
        tab.page.goto(url if name == "file" else site.url + url)
        found[name] = tab.page.evaluate(ELEMENT)
    tab.open("blank")
    for name, how in (
        ("sandbox", {"sandbox": "allow-scripts", "src": "one.html"}),
        ("srcdoc", {"srcdoc": one.read_text()}),
    ):
        made = tab.page.evaluate_handle(
            """(how) => document.body.appendChild(Object.assign(
                document.createElement("iframe"), how, { width: 900, height: 700 }))""", how
        )  # fmt: skip
        frame = made.as_element().content_frame()
        frame.wait_for_selector("py-frame", state="attached")
        found[name] = frame.evaluate(ELEMENT)
    tab.close()
    assert found["plain"]["choices"] == ["cpu", "gpu"]
    for name, seen in found.items():
        assert (seen["title"], seen["steps"]) == ("Two <kinds>", 2), name
        assert seen["device"] == ("gpu" if name == "strict" else "cpu"), name
        assert seen["loss"] == pytest.approx(found["plain"]["loss"], abs=1e-5), name
