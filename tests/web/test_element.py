"""<py-frame>, as pages of a plain static server use it: a strict policy, frames, two at once."""

from __future__ import annotations

import hashlib
import json
import re
import shutil
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import exported
import pytest

import pyframe as pf
from pyframe import io, serve

from .conftest import Tab, files

POLICY = (
    "default-src 'none'; script-src 'self' 'wasm-unsafe-eval'; worker-src 'self'; "
    "style-src 'self'; connect-src 'self'; img-src 'self' data: blob:"
)

HEAD = """<!doctype html><html lang="en"><meta charset="utf-8"><title>A page</title>
<meta name="viewport" content="width=device-width"><link rel="icon" href="data:,">
<link rel="stylesheet" href="page.css"><script type="module" src="pyframe/pyframe.js"></script>
"""
CSS = ":root { color-scheme: light dark; } body { margin: 8px; font-family: sans-serif; }"

# The programs, each after its name and that of a program that it begins with.
PROGRAMS = '''
--- points.py
"""Points of two colours."""
import pyframe as pf
from pyframe import nn, optim
from pyframe.web import Choice, Demo, Plane, Points, Slider
from helper import SIZE

print("from the program")

def make_model(width=8):
    pf.manual_seed(0)
    net = nn.Sequential(nn.Linear(2, width), nn.Tanh(), nn.Linear(width, 2))
    return pf.Model(net, nn.CrossEntropyLoss(), optim.Adam(net.parameters(), lr=0.05), ["accuracy"])

def load_data(n=64):
    pf.manual_seed(1)
    x = pf.rand(n + 32, 2) * 2 - 1
    y = (x[:, 0] > x[:, 1]).long()
    return (x[:n], y[:n]), (x[n:], y[n:])

demo = Demo(make_model, Points(2), Plane(size=SIZE), data=load_data, epochs=5, batch_size=16,
            title="Two colours", description="A line parts them.",
            controls=(Slider("lr", 1e-4, 0.2, 0.05, log=True), Choice("width", (4, 8, 16), 8),
                      Slider("n", 32, 96, 64, step=32)))
--- helper.py
SIZE = 10
--- gan.py
# Two networks, each with its optimizer, and a step without a loss of that name.
import pyframe as pf
from exported import gan
from pyframe.web import Demo, Numbers, Slider, Values

def load_data():
    pf.manual_seed(1)
    return (pf.randn(24, 3), pf.randn(24, 2)), (pf.randn(8, 3), pf.randn(8, 2))

demo = Demo(gan, Numbers([Slider(n, -1, 1) for n in "abc"]), Values(("real",)), data=load_data,
            batch_size=8, controls=(Slider("lr", 1e-4, 0.5, 0.02),))
--- pictures.py
# No demo: what the page shows is found from the data.
import pyframe as pf
from pyframe import nn, optim
from helper import LOSE
import helper

EPOCHS, BATCH_SIZE = 2, 8

def make_model():
    pf.manual_seed(0)
    net = nn.Sequential(nn.Flatten(), nn.Linear(36, 3))
    return pf.Model(net, nn.CrossEntropyLoss(), optim.SGD(net.parameters(), lr=0.1), ["accuracy"])

class Data(pf.data.Dataset):
    classes = ["red", "green", "blue"]

    def __len__(self):
        return 48

    def __getitem__(self, i):
        helper.made += 1
        if helper.made == LOSE:
            import js
            js.pyframeRuntime.destroy()
        return pf.full((1, 6, 6), i % 3 / 2), i % 3

def load_data():
    return Data()
--- b/helper.py
LOSE = made = 0
--- lost/helper.py
LOSE, made = 60, 0
--- lost/destroy.py
import js
js.pyframeRuntime.destroy()
--- text.py
import asyncio
import pyframe as pf
from pyframe import nn
from pyframe.web import Demo, Text

def make_model():
    return pf.Model(nn.Linear(1, 1))

async def write(model, text):
    for letter in text:
        yield letter.upper()
        if letter == "!":
            await asyncio.sleep(3600)
        y = model.net(pf.ones(1, 1, device=model.device))
        assert await y.item_async() == y.item()  # the page may wait, where the browser can

demo = Demo(make_model, Text(), Text(), predict=write)
--- chat.py
from pyframe.web import Chat, Demo, Slider

def answer(text, history, times=2):
    if "!" in text:
        raise ValueError(f"{text} is too loud")
    try:
        if text == "endless":
            yield "it begins"
        while text == "endless":
            pass
        for turn in range(10**6 if text == "on" else int(times)):
            yield f"{text}{len(history)} "
    finally:
        print("closed")

demo = Demo(answer, Chat(most=50), controls=[Slider("times", 1, 9, 2, step=1)])
--- object.py
from pyframe.web import Chat, Demo

class Parrot:
    def __init__(self):
        self.said = []

    def say(self, text):
        self.said.append(text)
        return " ".join(self.said)

    def clear(self):
        self.said = []

demo = Demo(Parrot().say, Chat())
--- pairs.py
import pyframe as pf
from pyframe import nn, optim
from pyframe.web import Demo, Text

def make_model():
    net = nn.Linear(1, 1)
    net.bias.requires_grad_(False)
    return pf.Model(net, nn.MSELoss(), optim.SGD([net.weight], lr=0.1))

def load_data(text="abcdef"):
    if len(text) < 3:
        raise ValueError(f"Give it 3 letters, not {len(text)}.")
    x = pf.tensor([[float(ord(letter))] for letter in text]) / 100
    return x, x

def write(model, begin):
    for letter in begin:
        yield (letter, letter.upper()) if letter != "!" else letter

demo = Demo(make_model, Text(), Text(names=["As it is", "Loud"]), data=load_data, predict=write,
            controls=[Text(name="text", value="abcdef", most=9)], epochs=1)
--- count.py
# What is held by a page's Python, for who comes and is removed.
import gc, os, sys, js
import pyframe as pf
from pyframe.web import Demo

def make_model():
    return pf.Model(pf.nn.Linear(1, 1))

def count(model, x):
    gc.collect()
    stats = js.pyframeRuntime.stats()
    modules = [n for n in sys.modules if n.startswith("pyframe_page.")]
    tensors = sum(isinstance(o, pf.Tensor) for o in gc.get_objects())
    apps = os.listdir("/home/pyodide/apps")
    return pf.tensor([[stats.buffers, len(modules), len(apps), tensors]])

demo = Demo(make_model, data=lambda: (pf.ones(2, 1), pf.ones(2, 1)), predict=count)
--- model.py
import pyframe as pf
from pyframe import nn, optim

LOSS, INPUTS = nn.CrossEntropyLoss(), 2

def make_model():
    net = nn.Sequential(nn.Flatten(), nn.Linear(INPUTS, 2))
    return pf.Model(net, LOSS, optim.SGD(net.parameters(), lr=0.1))

def load_data():
    return pf.ones(8, 2), pf.zeros(8, 2)
--- parts.py: model.py
# A loader's points to learn from, and some samples of the same data set to test with.
def load_data():
    whole = pf.data.TensorDataset(pf.linspace(-1, 1, 120).reshape(60, 2), pf.arange(60) % 2)
    return pf.data.DataLoader(whole, 10), pf.data.Subset(whole, range(50, 60))
--- bad/syntax.py
import pyframe
def make_model(:
--- bad/scipy_too.py
import scipy.signal
--- bad/net.py
from pyframe import nn
def make_model():
    return nn.Linear(2, 2)
--- bad/raises.py
import pyframe as pf
def make_model():
    return pf.ones(2).softmax(5)
make_model()
--- bad/control.py: model.py
from pyframe.web import Demo, Slider
demo = Demo(make_model, controls=[Slider('depth', 0, 1)])
--- bad/shape.py: model.py
INPUTS = 3
--- bad/memory.py: model.py
BATCH_SIZE = 32

def LOSS(output, target):
    raise MemoryError('no room')
'''
FILES: dict[str, str] = {}
for text in PROGRAMS.split("\n--- ")[1:]:
    head, text = text.split("\n", 1)
    name, _, base = head.partition(": ")
    FILES[name] = FILES.get(base, "") + text.rstrip() + "\n"
PICTURES = FILES.pop("pictures.py")
FILES |= {
    "b/pictures.py": PICTURES,
    "lost/pictures.py": PICTURES,
    "package.py": FILES["points.py"].replace("from helper", "from tiny"),
    "library.py": FILES["points.py"]
    .replace("from helper", "from torchy")
    .replace(
        "import pyframe as pf\nfrom pyframe import nn, optim",
        "import pyframe as pf\nimport torch\nfrom torch import nn, optim",
    ),
    "pads.py": FILES["parts.py"].replace("(60, 2)", "(60, 1, 1, 2)"),
    "exported.py": Path(exported.__file__).read_text(),
    "page.css": CSS,
    "page.html": f"{HEAD}<main></main>",
}
POINTS_ON_CPU = 'src="points.py" files="helper.py" device="cpu"'
GAN_ON_CPU = 'src="gan.py" files="exported.py" device="cpu"'


class Site:
    """A folder that a plain server serves under one policy; pyframe lies in a folder of it."""

    def __init__(self, root: Path) -> None:
        self.root, self.url = root, ""

    def headers(self, path: str) -> dict[str, str]:
        """As a server with a strict policy has them."""
        policy = {} if "loose" in path else {"Content-Security-Policy": POLICY}
        return {**policy, "Access-Control-Allow-Origin": "*"}

    def write(self, files: dict[str, str]) -> None:
        """Files by their names."""
        for name, text in files.items():
            path = self.root / name
            path.parent.mkdir(exist_ok=True)
            path.write_text(text)


def make_wheel(folder: Path, name: str, code: str, wants: str = "") -> Path:
    wheel = folder / f"{name}-1-py3-none-any.whl"
    about = f"Metadata-Version: 2.1\nName: {name}\nVersion: 1\n{wants}"
    with zipfile.ZipFile(wheel, "w") as archive:
        archive.writestr(f"{name}.py", code)
        archive.writestr(f"{name}-1.dist-info/METADATA", about)
        archive.writestr(f"{name}-1.dist-info/WHEEL", "Wheel-Version: 1.0\nTag: py3-none-any\n")
        archive.writestr(f"{name}-1.dist-info/RECORD", "")
    return wheel


LIBRARY = """import importlib.metadata
import torch
import torch.nn.functional as F
assert F.relu(torch.tensor([-1.0, 2.0])).tolist() == [0, 2]
SIZE = len(importlib.metadata.requires("torchy")) + 3
"""


def add_package(folder: Path) -> None:
    """A package `tiny` more than Pyodide has."""
    wheel = make_wheel(folder, "tiny", "SIZE = 3")
    path = folder / "pyodide-lock.json"
    lock = json.loads(serve.lock(folder, b""))
    digest = hashlib.sha256(wheel.read_bytes()).hexdigest()
    lock["packages"]["tiny"] = {**lock["packages"]["packaging"], "name": "tiny", "version": "1",
                                "file_name": wheel.name, "imports": ["tiny"],
                                "sha256": digest}  # fmt: skip
    path.unlink()
    path.write_text(json.dumps(lock))


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory, pyodide_files: None) -> Iterator[Site]:
    root = tmp_path_factory.mktemp("site")
    shutil.copytree(serve.WEB, root / "pyframe")
    folder = serve.pyodide_folder()
    assert folder is not None
    (root / "pyframe" / "pyodide").mkdir()
    for path in folder.iterdir():
        (root / "pyframe" / "pyodide" / path.name).symlink_to(path)
    add_package(root / "pyframe" / "pyodide")
    package = serve.Package()
    for name in (serve.EARLY, serve.LATE):
        (root / "pyframe" / name).write_bytes(package.archive(name))
    config = {"pyodide": "pyodide/", "early": serve.EARLY, "late": serve.LATE,
              "datasets": {"points": ["data/points.csv"]}}  # fmt: skip
    (root / "pyframe" / "config.json").write_text(json.dumps(config))
    made = Site(root)
    with files(root, made.headers) as made.url:
        made.write(FILES)
        make_wheel(root, "torchy", LIBRARY, "Requires-Dist: torch>=2.1\nRequires-Dist: tiny\n")
        yield made


# What writes the snapshot begins once a page says so.
HELD = """
const channel = new BroadcastChannel("keeper");
self.Worker = class extends self.Worker {
  postMessage(...given) {
    channel.onmessage = () => {
      channel.onmessage = null;
      super.postMessage(...given);
    };
  }
};
"""


# Puts one more element into the page.
ANOTHER = """const another = (given) => {
    const made = document.createElement("py-frame");
    Object.assign(made, { device: "cpu", loading: "eager", ...given });
    document.querySelector("main").append(made);
    return made;
};"""


class Page(Tab):
    """A page with elements in it, and what went wrong: warnings too."""

    def __init__(self, browser: Any, site: Site) -> None:
        self.site, self.printed = site, []
        super().__init__(browser, site)

    def _console(self, message: Any) -> None:
        if message.type == "error":
            super()._console(message)
        else:
            (self.errors if message.type == "warning" else self.printed).append(message.text)

    def open(self, path: str = "page.html") -> Page:
        """Go to a page of the site."""
        super().open(path)
        return self

    def add(self, attributes: str, inside: str = "", *, wait: bool = True) -> Any:
        """A new element in place of all others, once it is ready or has failed."""
        if 'device="gpu"' in attributes:
            self.needs_gpu()
        self.page.evaluate(
            """async ([attributes, inside, wait]) => {
                const main = document.querySelector("main");
                main.innerHTML = `<py-frame ${attributes}>${inside}</py-frame>`;
                await customElements.whenDefined("py-frame");
                const el = main.firstChild;
                el.errors = [];
                el.addEventListener("error", ({ detail }) => {
                    el.errors.push(detail.message);
                    console.log(detail.traceback);
                });
                if (wait) await el.load().catch(() => {});
            }""",
            [attributes, inside, wait],
        )
        return self.page.locator("py-frame")

    def run(self, code: str, argument: Any = None) -> Any:
        """What JavaScript gives; `el` is the element."""
        found = "const el = document.querySelector('py-frame');"
        return self.page.evaluate(f"async (arg) => {{ {found} {ANOTHER} {code} }}", argument)

    def refused(self, call: str) -> str:
        """What a call of the element is refused with."""
        return str(self.run(f"return el.{call}.catch(({{ message }}) => message)"))

    def until(self, code: str) -> None:
        """Until JavaScript gives true; `el` is the element."""
        start = "const el = document.querySelector('py-frame');"
        self.page.wait_for_function(f"() => {{ {start} return {code}; }}")

    def workers(self) -> int:
        """How many run programs."""
        return sum(w.url.endswith("/worker.js") for w in self.page.workers)


@pytest.fixture(scope="module")
def shared(browser: Any, site: Site) -> Iterator[Page]:
    """One page for most tests, whose first try to load Python failed: it was started by Retry."""
    page = Page(browser, site)
    page.page.route("**/pyodide.mjs", lambda route: route.abort())
    page.add_to_worker(HELD)
    page.open()
    frame = page.add(POINTS_ON_CPU)
    page.failed = page.run("return el.errors")  # type: ignore[attr-defined]
    page.page.unroute("**/pyodide.mjs")
    page.errors.clear()
    page.run(
        """self.channel = new BroadcastChannel("keeper");
        el.addEventListener("progress", ({ detail: { text } }) => {
            if (text.startsWith("Keeping")) channel.postMessage("go");
        });"""
    )
    frame.get_by_role("button", name="Retry").click()
    page.title, page.kept = page.run(  # type: ignore[attr-defined]
        """const { title } = await el.ready;
        const keys = await (await caches.open("pyframe-1")).keys();
        channel.postMessage("go");
        return [title, keys.map(({ url }) => url.replace(/.*[/]|[?].*/g, ""))];"""
    )
    assert page.page.locator("py-frame [part=error]").is_hidden()
    page.page.unroute("**/worker.js")
    yield page
    page.close()


@pytest.fixture
def page(shared: Page) -> Iterator[Page]:
    """The page that most tests share; each leaves no error in the console."""
    yield shared
    seen, shared.errors = shared.errors, []
    assert seen == []


def test_retry(page: Page) -> None:
    """Python that did not come is told, and asked for again. Who leaves as soon as the program is
    there has the snapshot at the next visit."""
    (told,) = page.failed  # type: ignore[attr-defined]
    assert "Python can't be had from" in told
    assert page.title == "Two colours"  # type: ignore[attr-defined]
    assert any(name.startswith("pyframe-snapshot") for name in page.kept)  # type: ignore[attr-defined]


def test_a_program_trains_and_predicts(page: Page) -> None:
    frame = page.add('src="points.py" files="helper.py" device="cpu" epochs="4"')
    spec = page.run("return { ...await el.ready, points: el.spec.points.length }")
    told = {"output": {"kind": "plane", "size": 10}, "parameters": 2 * 8 + 8 + 8 * 2 + 2,
            "steps_per_epoch": 4, "points": 3 * 64, "source": FILES["points.py"]}  # fmt: skip
    assert {name: spec[name] for name in told} == told
    assert (spec["input"]["kind"], spec["device"]["kind"]) == ("points", "cpu")
    assert "from the program" in page.printed
    assert frame.get_attribute("role") == "group"
    assert frame.get_attribute("aria-label") == "Two colours"
    heard = page.run(
        """const heard = {};
        for (const name of ["step", "epoch", "trained", "prediction"]) {
            document.addEventListener(name, ({ detail }) => (heard[name] ??= []).push(detail));
        }
        const before = await el.evaluate();
        heard.result = await el.train();
        heard.better = (await el.evaluate()).loss < before.loss;
        const { data, shape } = await el.predict([[0.9, -0.9], [-0.9, 0.9]]);
        return { ...heard, data: [...data], shape };"""
    )
    assert (heard["result"]["steps"], heard["result"]["stopped"]) == (16, False)
    assert heard["better"]
    assert [e["epoch"] for e in heard["epoch"]] == [1, 2, 3, 4]
    assert set(heard["epoch"][0]) >= {"loss", "accuracy", "val_loss", "val_accuracy", "lr"}
    assert heard["step"][-1]["step"] == heard["step"][-1]["steps"] == 16
    assert "accuracy" in heard["step"][0]["metrics"]
    assert len(heard["trained"]) == 1
    assert heard["shape"] == [2, 2]
    assert heard["data"][0] < heard["data"][1]
    assert heard["data"][2] > heard["data"][3]
    assert "Done after 16 steps" in frame.locator("[part=status]").inner_text()


def test_two_at_once(page: Page) -> None:
    """One on the GPU, one on the CPU, in one worker; modules of the same name keep apart."""
    page.add('src="points.py" files="helper.py" device="gpu"')
    seen = page.run(
        """const other = another({ src: "b/pictures.py", files: "b/helper.py" });
        await Promise.all([el.ready, other.ready]);
        const order = [], told = [];
        el.addEventListener("progress", ({ detail }) => told.push(detail.text));
        el.addEventListener("step", () => order.push("gpu"));
        other.addEventListener("step", () => order.push("cpu"));
        const going = other.train({ epochs: 10000 });
        await el.train({ epochs: 6 });
        await other.pause();
        await going;
        const spec = { ...other.spec, samples: other.spec.samples.map(({ label }) => label) };
        const shown = [el, other].map(({ shadowRoot }) =>
            shadowRoot.querySelector("[part=device-name]").innerText);
        const found = await other.predict(other.spec.samples[1].data);
        return { order, told, spec, shown, best: found.data.indexOf(Math.max(...found.data)) };"""
    )
    first = seen["order"].index("gpu")
    assert "cpu" in seen["order"][first:]  # they took turns
    assert any(re.fullmatch(r"Compiling kernels: \d+ of \d+", text) for text in seen["told"])
    assert "WebGPU" in seen["shown"][0]
    assert "WebAssembly" in seen["shown"][1]
    spec = seen["spec"]
    assert spec["output"]["names"] == ["red", "green", "blue"]
    assert spec["samples"] == [i * 48 // 21 % 3 for i in range(21)]  # of all data
    assert seen["best"] == spec["samples"][1]
    assert page.workers() == 1


def test_a_lost_device(page: Page) -> None:
    """The visitor is told, what is asked next opens it again, and training goes on."""
    frame = page.add('src="lost/pictures.py" files="lost/helper.py" device="gpu"')
    lost = page.run(
        """const lost = [];
        el.addEventListener("devicelost", ({ detail }) => lost.push(detail.text));
        const ask = async () => [...(await el.predict(el.spec.samples[0].data)).data];
        const before = await ask();
        const other = another({ src: "lost/destroy.py" });
        await other.load().catch(() => {});
        other.remove();
        const after = await ask();
        const { steps, loss } = await el.train({ epochs: 4 });
        return { lost, before, after, steps, loss, epochs: el.history.length };"""
    )
    assert lost["after"] == pytest.approx(lost["before"])
    put_back, told = lost["lost"]
    assert "took the GPU away; the network is put back" in put_back
    assert "took the GPU away; training goes on" in told
    assert (lost["steps"], lost["epochs"]) == (24, 4)
    assert lost["loss"] < 1
    notices = frame.locator("[part=notice]").all_inner_texts()
    assert told in notices
    assert any(re.match(r"fit: .*the GPU .* was lost: .* It goes on", t) for t in notices), notices


def test_controls(page: Page) -> None:
    """Options of the optimizer, arguments of the model and of the data; while training too."""
    page.add(POINTS_ON_CPU)
    seen = page.run(
        """await el.set("lr", 0.1);
        const first = await el.train({ epochs: 1 });
        await el.set("n", 32);
        const fewer = el.spec.steps_per_epoch, kept = el.spec.trained;
        const going = el.train({ epochs: 40 });
        await new Promise((done) => el.addEventListener("step", done, { once: true }));
        await el.set("width", 16);
        await el.set("lr", 0.02);
        const last = await going;
        return { first: first.lr, fewer, kept, parameters: el.spec.parameters, last: last.lr,
                 shown: el.shadowRoot.querySelector("pf-slider").value };"""
    )
    assert seen["first"] == pytest.approx(0.1)
    assert (seen["fewer"], seen["kept"]) == (2, True)
    assert seen["parameters"] == 2 * 16 + 16 + 16 * 2 + 2
    assert seen["last"] == pytest.approx(0.02)
    assert seen["shown"] == pytest.approx(0.02)


def test_pause_step_reset(page: Page) -> None:
    """By the keyboard: Train, Pause, Train goes on; Step; slowly; start over."""
    frame = page.add('src="points.py" files="helper.py" device="cpu" epochs="400"')
    train = frame.locator("[part=train]")
    train.focus()
    page.page.keyboard.press("Enter")
    page.until("el.history.length > 1")
    assert train.inner_text() == "Pause"
    page.page.keyboard.press("Enter")
    page.until("!el.training")
    assert frame.locator("[part=status]").inner_text().startswith("Paused after ")
    assert page.run("return el.history.length") < 400
    steps = page.run(
        """const steps = [];
        el.addEventListener("step", ({ detail }) => steps.push(detail.step));
        await el.step();
        const chooser = el.shadowRoot.querySelector("[part=speed]");
        chooser.value = "10 a second";
        await el.train({ steps: 3 });
        chooser.value = "Full speed";
        return steps;"""
    )
    assert steps == list(range(steps[0], steps[0] + 4))
    frame.get_by_role("button", name="Start over").click()
    page.until("!el.spec.trained")
    assert page.run("return [el.history.length, el.spec.step]") == [0, 0]


def test_writing_is_stopped(page: Page) -> None:
    """By its button, or by the next text, whose answer alone is then shown as it comes."""
    frame = page.add('src="text.py" device="gpu"')
    assert frame.locator("[part=train]").is_hidden()
    page.run(
        """self.pieces = [];
        const hear = ({ detail: { text, done } }) => pieces.push([text, done]);
        el.addEventListener("prediction", hear);"""
    )
    frame.locator("textarea").first.fill("ab")
    frame.get_by_role("button", name="Write").click()
    page.until("pieces.at(-1)?.[1]")
    assert page.run("return pieces") == [["A", False], ["AB", False], ["AB", True]]
    said = frame.locator("[part=status]")
    before = said.inner_text()
    frame.locator("textarea").first.fill("to be or not to be " * 100)
    button = frame.locator("pf-text[part=input] [part=submit]")
    page.run("self.first = el.predict('a'.repeat(20000)); await null;")
    frame.get_by_role("button", name="Stop").wait_for()
    assert said.inner_text() == "Writing"
    page.run("self.second = el.predict('b'.repeat(20000)); await self.first;")
    frame.get_by_text("BBB").wait_for()
    button.click()
    written = page.run("return [await self.first, await self.second]")
    assert 0 < len(written[0]) < 20_000
    assert 2 < len(written[1]) < 20_000
    assert [set(text) for text in written] == [{"A"}, {"B"}]
    assert button.inner_text() == "Write"
    assert said.inner_text() == before
    # it is painted with the next frame
    frame.locator("[part=output] output").filter(has_text=re.compile(f"^{written[1]}$")).wait_for()


def test_a_conversation(page: Page) -> None:
    """A generator answers with what was said before; what failed was never said."""
    frame = page.add('src="chat.py" device="auto"')
    assert frame.locator("[part=devices]").is_hidden()  # it has no network
    area, bubbles = frame.locator("textarea"), frame.locator("[part=log] p")
    area.fill("a")
    area.press("Enter")
    bubbles.filter(has_text="a0 a0 ").wait_for()
    page.run("await el.set('times', 1)")
    assert page.run("return el.predict('b')") == "b2 "
    area.fill("c!")
    area.press("Enter")
    wrong = frame.locator("[part=error-message]:visible")
    wrong.filter(has_text="c! is too loud").wait_for()
    assert "chat.py, line" in page.run("return el.errors.at(-1)")
    assert area.input_value() == "c!"
    assert page.run("return el.predict('d')") == "d4 "
    assert wrong.count() == 0
    bubbles.filter(has_text="d4 ").wait_for()  # it is drawn with the next frame
    said = bubbles.all_text_contents()
    assert [text.strip() for text in said] == ["You: a", "Answer: a0 a0", "You: b", "Answer: b2",
                                               "You: d", "Answer: d4"]  # fmt: skip
    frame.get_by_role("button", name="Clear").click()
    assert bubbles.count() == 0
    assert page.run("return el.predict('e')") == "e0 "


def test_an_answer_is_stopped(page: Page) -> None:
    """The rest of it is never asked for, and what came of it was said."""
    frame = page.add('src="chat.py" device="cpu"')
    page.printed.clear()
    area = frame.locator("textarea")
    area.fill("on")
    area.press("Enter")
    frame.locator(".writing").filter(has_text="on0 on0 ").wait_for()
    frame.get_by_role("button", name="Stop").press("Enter")  # it moves while the answer grows
    frame.get_by_role("button", name="Send").wait_for()
    assert page.run("return el.predict('then')") == "then2 then2 "
    assert page.printed.count("closed") == 2
    page.run("self.on = el.predict('on')")
    frame.locator(".writing").filter(has_text="on4 on4 ").wait_for()
    page.run("await el.clear()")
    assert page.run("return (await self.on).startsWith('on4 on4 ')")
    assert frame.locator("[part=log] p").count() == 0
    assert page.run("return el.predict('anew')") == "anew0 anew0 "


def test_several_texts(page: Page) -> None:
    frame = page.add('src="pairs.py" device="cpu"')
    assert page.run("return el.predict('abc')") == ["abc", "ABC"]
    frame.get_by_role("group", name="Loud").filter(has_text="ABC").wait_for()
    told = "pairs.py: expected pieces of 2 texts in a tuple, got '!'."
    assert page.refused("predict('a!')") == told


def test_a_text_of_the_visitor_is_learnt(page: Page) -> None:
    """One that is too short or too long is told, and stays for him to mend it."""
    frame = page.add('src="pairs.py" device="cpu"')
    assert "knows what it was made with" in frame.locator("[part=status]").inner_text()
    area = frame.get_by_role("textbox", name="text", exact=True)
    area.fill("")
    area.press_sequentially("ab")  # what fill puts there is no change of the visitor's in Firefox
    area.blur()
    wrong = frame.locator("[part=error-message]")
    wrong.filter(has_text=re.compile("^Give it 3 letters, not 2.$")).wait_for()
    assert area.input_value() == "ab"
    assert page.refused("train()") == "Give it 3 letters, not 2."
    area.fill("")
    area.press_sequentially("abcdefghijkl")
    assert area.input_value() == "abcdefghi"
    area.blur()
    assert page.run("return (await el.train()).steps") == 1
    told = "text: expected a text of 9 characters at most, got 10 of them."
    assert page.refused("set('text', 'a'.repeat(10))") == told


def test_weights(page: Page, tmp_path: Path) -> None:
    """Saved, given back, and those of another model refused."""
    frame = page.add(POINTS_ON_CPU)
    with page.download() as download:
        frame.get_by_role("button", name="Save weights").click()
    assert download.value.suggested_filename == "points.safetensors"
    download.value.save_as(tmp_path / "weights")
    saved = io.load(tmp_path / "weights")
    pf.manual_seed(0)
    assert saved["0.weight"].tolist() == pf.nn.Linear(2, 8).weight.tolist()  # an untrained start
    io.save({"0.weight": pf.zeros(3)}, page.site.root / "other.safetensors")
    io.save({k: pf.zeros_like(v) for k, v in saved.items()}, page.site.root / "none.safetensors")
    page.add('src="points.py" files="helper.py" weights="none.safetensors" device="cpu"')
    kept = page.run("return [el.spec.trained, (await el.predict([1, 2])).data[0], el.errors]")
    assert kept == [True, 0.5, []]
    frame = page.add('src="points.py" files="helper.py" weights="other.safetensors" device="cpu"')
    (told,) = page.run("return el.errors")
    assert "other.safetensors holds the weights of another model than points.py makes" in told
    assert "0.bias" in told
    assert frame.locator("[part=error-message]").inner_text() == told
    page.add(POINTS_ON_CPU)
    same = page.run(
        """const bytes = await el.save();
        await el.train({ epochs: 1 });
        await el.load(bytes);
        const now = await el.save();
        return bytes.length === now.length && bytes.every((byte, i) => byte === now[i]);"""
    )
    assert same
    assert "can't be read as weights" in page.refused("load(new Uint8Array(9))")


def test_weights_of_other_names(page: Page) -> None:
    pf.manual_seed(0)
    net = pf.nn.Sequential(pf.nn.Linear(2, 8), pf.nn.Tanh(), pf.nn.Linear(8, 2))
    given = {f"net.{k}": pf.zeros_like(v) for k, v in net.state_dict().items()}
    io.save({**given, "more": pf.zeros(1)}, page.site.root / "renamed.safetensors")
    names = """weights="renamed.safetensors" rename='{"net.": ""}'"""
    page.add(f'src="points.py" files="helper.py" device="cpu" strict="false" {names}')
    assert page.run("return [el.errors, (await el.predict([1, 2])).data[0]]") == [[], 0.5]
    assert "unexpected: more" in page.refused("load('renamed.safetensors', { strict: true })")


@pytest.mark.parametrize("loading", ["click", "eager"])
def test_removed_before_it_is_ready(page: Page, loading: str) -> None:
    """Who waits for it is told; put back, it loads as if it were new."""
    page.add(f'{POINTS_ON_CPU} loading="{loading}"', wait=False)
    told = page.run(
        """const told = el.ready.catch(({ name, message }) => [name, message]);
        const parent = el.parentNode;
        el.remove();
        await new Promise(requestAnimationFrame);
        parent.append(el);
        return [...await told, (await el.load()).title];"""
    )
    wanted = "The element was removed before its program was ready."
    assert told == ["AbortError", wanted, "Two colours"]


def test_a_height_is_reserved(page: Page) -> None:
    """What stands below an element stays where it is; sliders stand above the chart."""
    frame = page.add(GAN_ON_CPU)
    inputs, chart = (frame.locator(p).bounding_box() for p in ("pf-numbers", "pf-chart"))
    assert inputs["y"] + inputs["height"] <= chart["y"]

    def tall() -> float:
        return round(page.page.locator("py-frame").bounding_box()["height"])

    page.add('src="points.py" files="helper.py" device="cpu" loading="click"', wait=False)
    assert tall() == 24 * 16
    waiting = []
    for attribute, variable in (('height="900"', ""), ("", "56.25rem")):
        page.run("el.parentNode.style.setProperty('--pf-height', arg)", variable)
        page.add(f'src="points.py" files="helper.py" device="cpu" {attribute}', wait=False)
        waiting.append(tall())
        page.run("await el.load()")
        waiting.append(tall())
    page.run("el.parentNode.style.removeProperty('--pf-height')")
    assert waiting == [900, 900, 900, 900]


def test_a_heading_for_who_cannot_see(page: Page) -> None:
    """Of a program without a title; nobody else gets it."""
    frame = page.add('src="b/pictures.py" files="b/helper.py" device="cpu"')
    assert frame.get_by_role("heading", name="Program pictures.py").count() == 1
    assert frame.locator("[part=head]").bounding_box()["height"] == 0


BAD = {
    "missing": ('src="nowhere.py"', r"nowhere.py can't be had from http.*: the server says 404"),
    "syntax": ('src="bad/syntax.py"', r"syntax.py, line 2: .*\n    def make_model\(:"),
    "model": ('src="helper.py"', "^helper.py defines no model: expected `demo = pyframe.web"),
    "scipy": ('src="bad/scipy_too.py"', "_too.py, line 1 imports 'scipy', .* packages=.scipy. to"),
    "file": ('src="points.py"', "points.py, line 5 imports 'helper', .* name it: files=.helper.py"),
    "net": ('src="bad/net.py"', r"net.py: make_model\(\) gave Linear, expected a pf.Model \("),
    "raises": ('src="bad/raises.py"', r"raises.py, line 3: IndexError: Dim.*\nsoftmax got .*dim=5"),
    "control": ('src="bad/control.py"', "the control 'depth' sets nothing: .* momentum"),
    "package": ('src="package.py"', "line 5 imports 'tiny', .* add packages=.tiny. to"),
    "page": ('src="page.html"', "page.html is a web page, not a Python program"),
    "nothing": ("", "<py-frame> has nothing to run"),
    "both": ('src="a.py" program="b/"', "<py-frame> has src and program"),
    "device": ('src="a.py" device="tpu"', '<py-frame device="tpu">: expected auto, gpu or cpu.'),
    "loading": ('src="a.py" loading="soon"', 'loading="soon">: expected lazy, eager or click'),
    "epochs": ('src="a.py" epochs="many"', 'epochs="many">: expected a whole number above 0'),
    "height": ('src="a.py" height="tall"', 'height="tall">: expected pixels or a length such as'),
    "strict": ('src="a.py" strict="no"', "true or false"),
    "rename": ('src="a.py" rename="net"', 'JSON such as {"old.":'),
    "data": ('src="points.py" data="birds"', 'data="birds": there is no such data set .* points'),
    "packages": ('src="text.py" packages="no-1-py3-none-any.whl"', "no-1.*whl can't be .*404"),
}  # fmt: skip


@pytest.mark.parametrize("case", BAD)
def test_bad_input_is_told(page: Page, case: str) -> None:
    """A clear message in the element, an event, a traceback where Python has one, and Retry."""
    attributes, expected = BAD[case]
    frame = page.add(attributes)
    (told,) = page.run("return el.errors")
    assert re.search(expected, told, re.DOTALL), told
    assert frame.locator("[part=error-message]").inner_text().strip() == told.strip()
    assert frame.get_by_role("button", name="Retry").is_visible()
    if case in ("syntax", "model", "scipy", "raises"):
        frame.locator("summary", has_text="Traceback").click()
        trace = frame.locator("[part=traceback-text]").inner_text()
        assert "Error" in trace
        assert "worker.py" not in trace
        assert "importlib" not in trace
        assert "/home/pyodide" not in trace
    page.errors[:] = [e for e in page.errors if "Failed to load resource" not in e]


# What an element is asked, and what its program then says.
ASKED = {
    "a package of Pyodide that it names": (
        'src="package.py" packages="tiny" device="cpu"', "return el.spec.output.size", 3,
    ),
    "a library of PyTorch's, by its wheel": (
        'src="library.py" packages="torchy-1-py3-none-any.whl" device="cpu"',
        "return el.spec.output.size", 5,
    ),
    "an object keeps a conversation": ('src="object.py" device="cpu"', """
        const said = [await el.predict("a"), await el.predict("b")];
        await el.clear();
        return [...said, await el.predict("c")];
        """, ["a", "a b", "c"]),
    "points of a loader": ('src="parts.py" device="cpu"', """
        const { input: { kind, low, high }, points } = el.spec;
        return [kind, low, high, points.length];
        """, ["points", -1, 1, 3 * 60]),
    "samples of a subset": (
        'src="pads.py" device="cpu"', "return el.spec.samples.map(({ data }) => data[1])",
        pytest.approx([-1 + (2 * i + 1) * 2 / 119 for i in range(50, 60)]),
    ),
    "attributes that change": (POINTS_ON_CPU, """
        const moved = [];
        el.setAttribute("device", "gpu");
        await el.set("lr", 0.05); // after it
        moved.push(el.spec.device.kind);
        el.setAttribute("device", "tpu");
        moved.push(el.errors.length, el.spec.device.kind);
        el.errors.length = 0;
        Object.assign(el, { src: "b/pictures.py", files: "b/helper.py", device: "cpu" });
        return [...moved, (await el.ready).input.kind];
        """, ["gpu", 1, "gpu", "pad"]),
    # without asking for it once more
    "the input shows what a script asks": (GAN_ON_CPU, """
        await new Promise(requestAnimationFrame);
        const input = el.shadowRoot.querySelector("pf-numbers");
        const heard = [];
        el.addEventListener("prediction", ({ detail }) => heard.push(detail.data[0]));
        const { data } = await el.predict([[0.5, -0.5, 0.25]]);
        const one = [...input.value];
        await el.predict([[0, 0, 0], [1, 1, 1]]);
        return [one, [...input.value], heard.length, heard[0] === data[0]];
        """, [[0.5, -0.5, 0.25], [0.5, -0.5, 0.25], 2, True]),
    "points of the visitor are learnt": (POINTS_ON_CPU, """
        const widget = el.shadowRoot.querySelector("pf-points");
        widget.points = Float32Array.of(-0.8, 0.8, 1, 0.8, -0.8, 1, -0.8, -0.8, 0, 0.8, 0.8, 0);
        widget.dispatchEvent(new CustomEvent("points"));
        await el.train({ epochs: 60 });
        const { data } = await el.predict([[-0.8, 0.8], [0.8, -0.8], [-0.8, -0.8], [0.8, 0.8]]);
        return [data[1], data[3], data[5], data[7]].map((p) => p > 0.5);
        """, [True, True, False, False]),
    # Without a loss of that name the first number is drawn; a control is of both optimizers
    "a step of one's own": (GAN_ON_CPU, """
        const steps = [];
        el.addEventListener("step", ({ detail }) => steps.push(detail));
        const before = await el.evaluate();
        await el.set("lr", 0.05);
        const done = await el.train({ epochs: 2 });
        const [{ loss, metrics }] = steps;
        const learnt = done.val_score !== before.score;
        const drawn = [metrics.judge_loss === loss, metrics.make_loss > 0];
        return [Object.keys(before), done.steps, done.lr_make, done.lr_judge, learnt, ...drawn];
        """, [["score"], 6, 0.05, 0.05, True, True, True]),
    # Training goes on, and nothing is asked of the network for the screen
    "a hidden tab": (POINTS_ON_CPU, """
        let looks = 0;
        const { predict } = el.engine;
        el.engine.predict = function (value) { looks++; return predict.call(this, value); };
        await el.train({ epochs: 1 });
        await new Promise(requestAnimationFrame);
        const seen = looks;
        const hide = { get: () => "hidden", configurable: true };
        Object.defineProperty(document, "visibilityState", hide);
        document.dispatchEvent(new Event("visibilitychange"));
        looks = 0;
        await el.train({ epochs: 40 });
        const hidden = looks;
        delete document.visibilityState;
        const looked = new Promise((done) => {
            el.engine.predict = function (value) { done(1); return predict.call(this, value); };
        });
        document.dispatchEvent(new Event("visibilitychange"));
        return [seen > 0, hidden, await looked, el.history.length];
        """, [True, 0, 1, 41]),
    "a plane shows it, too": (POINTS_ON_CPU, """
        await el.predict([0.5, -0.25]);
        return [...el.shadowRoot.querySelector("pf-points").value];
        """, [0.5, -0.25]),
}  # fmt: skip


@pytest.mark.parametrize("case", ASKED)
def test_what_is_asked(page: Page, case: str) -> None:
    attributes, code, expected = ASKED[case]
    if '"gpu"' in code:
        page.needs_gpu()
    page.add(attributes)
    assert page.run(code) == expected
    assert page.run("return el.errors") == []


def test_mistakes_that_training_finds(page: Page) -> None:
    """Data of the wrong shape, samples of the wrong size, options that are none."""
    lacks = "no memory left to train with batches of 32 samples: no room. Try batch_size=8"
    for name, why in (("shape", "[8, 2]"), ("memory", lacks)):
        page.add(f'src="bad/{name}.py" device="cpu"')
        told = page.refused("train()")
        assert why in told.replace("(8, 2)", "[8, 2]")
        assert page.run("return el.errors") == [told]
    page.add(POINTS_ON_CPU)
    for call, why in (
        ("predict([1, null])", "predict: value[1] is null, expected a number."),
        ("set('depth', 3)", "There is no control 'depth'; points.py has 'lr', 'width', 'n'."),
        (
            "train({ x: [1, 2] })",
            "train: x and y are for exported programs; this one's data come from load_data().",
        ),
        ("set('lr', true)", "lr: expected a number from 0.0001 to 0.2, got True."),
        ("predict([1, 2, 3])", "predict: expected 2 numbers a sample, of shape [2], got 3."),
        ("predict('word')", "predict: expected numbers of shape [2], got a text."),
    ):
        assert page.refused(call) == why
    assert len(page.run("return el.errors")) == 6


def test_light_until_seen_or_clicked(page: Page) -> None:
    poster = '<img slot="poster" alt="A preview" src="data:image/gif;base64,R0lGODlhAQABAAAAACw=">'
    frame = page.add('src="points.py" files="helper.py" loading="click"', poster, wait=False)
    assert frame.locator("[part=play]").is_visible()
    assert page.run("return [el.spec, el.engine]") == [None, None]
    frame.get_by_role("button", name="Run this program").press("Enter")
    page.until("el.spec")
    assert frame.locator("[part=play]").is_hidden()
    assert page.run("return el.shadowRoot.activeElement.part.value") == "train"
    page.page.evaluate("document.querySelector('main').style.paddingTop = '300vh'")
    page.add('src="points.py" files="helper.py"', poster, wait=False)
    assert page.run("await new Promise(requestAnimationFrame); return el.spec") is None
    page.page.locator("py-frame").scroll_into_view_if_needed()
    page.until("el.spec")
    page.page.evaluate("document.querySelector('main').style.paddingTop = ''")


def test_slots(page: Page) -> None:
    """A page's own parts in place of the element's."""
    page.add(
        'src="points.py" files="helper.py" device="cpu"',
        '<p slot="before">Read this first</p><button slot="controls">Go</button>'
        '<p slot="status">Hm</p>',
    )
    frame = page.page.locator("py-frame")
    assert frame.get_by_text("Read this first").is_visible()
    assert frame.get_by_role("button", name="Go").is_visible()
    assert frame.locator("[part=train]").is_hidden()


def test_elements_that_come_and_go(page: Page) -> None:
    """Made, shown and removed again and again: no worker, buffer, module or file stays."""
    page.add('src="points.py" files="helper.py" device="gpu"')
    grown = page.run(
        """const stats = async () => {
            const probe = another({ src: "count.py" });
            await probe.ready;
            const found = await probe.predict([0]);
            probe.remove();
            return [...found.data];
        };
        const settled = async () => {  // what was under way when training ended has gone
            for (let last = ""; ; ) {
                const now = await stats();
                if (last === (last = String(now.slice(1)))) return now;
            }
        };
        await el.train({ epochs: 1 });
        el.remove();
        const one = async (waits = true) => {
            const made = another({ src: "points.py", files: "helper.py", device: "gpu" });
            if (waits) await made.ready;
            if (waits) await made.step();
            made.remove();
        };
        await one();
        const before = await settled();
        for (let i = 0; i < 12; i++) await one(i % 4);
        return [before, await settled()];"""
    )
    assert grown[0][1:] == grown[1][1:]
    assert grown[1][0] < grown[0][0] + 10  # buffers: a few come and go with what runs just then
    assert page.workers() == 1


# What stands for Python's worker where Python is not the matter: it knows what programs are, and
# does at once what it is asked.
STAND_IN = """
const SPECS = %s;
self.onmessage = ({ data: { id, app, call, args } }) => {
  if (call === "close") return;
  if (call === "open") self.postMessage({ event: "progress", app, text: "Starting", fraction: 1 });
  else self.postMessage({ event: "begun", id });
  if (args.value === "endless") {
    self.postMessage({ event: "prediction", app, text: "it begins", done: false });
    for (;;);
  }
  const n = args.value?.length;
  self.postMessage({ id, result: {
    open: { json: SPECS[args.file], source: "", points: new Float32Array() },
    train: { steps: 4, seconds: 1, stopped: false, loss: 0.5 },
    predict: { data: new Float32Array(n), shape: [n / 2, 2] },
  }[call] });
};
"""


def stand_in(page: Page, *names: str) -> str:
    """The text of such a worker, which knows some programs."""
    specs = {}
    for name in names:
        page.add(f'src="{name}" files="helper.py" device="cpu"')
        specs[name] = page.run("return JSON.stringify({ ...await el.ready, points: null });")
    return STAND_IN % json.dumps(specs)


def test_workers_that_fall_over_and_that_never_end(browser: Any, site: Site, page: Page) -> None:
    """One that falls over is started again; one with a program that never ends takes no other
    along; when its elements are gone for a while, it ends."""
    text = stand_in(page, "points.py", "chat.py")
    page = Page(browser, site)
    page.page.route(
        "**/worker.js", lambda route: route.fulfill(body=text, content_type="text/javascript")
    )
    page.open().page.clock.install()
    element = page.add(f"{POINTS_ON_CPU} autotrain")
    (worker,) = page.page.workers
    worker.evaluate("() => setTimeout(() => { throw new Error('it fell over'); })")
    said = "The page's worker stopped: Uncaught Error: it fell over"
    element.get_by_text(said, exact=True).wait_for()  # it is told to screen readers, too
    element.get_by_role("button", name="Retry").click()
    page.run("await el.ready;")
    assert page.workers() == 1
    # a program that never ends: who comes later has a worker of his own, and once it is removed the
    # others go on
    page.run(
        """self.endless = another({ src: "chat.py", files: "helper.py" });
        await endless.load();
        const said = new Promise((done) => endless.addEventListener("prediction", done));
        self.ends = endless.predict("endless").catch(({ name, message }) => [name, message]);
        await said;
        self.later = another({ src: "points.py", files: "helper.py" });
        self.notices = (el) => el.shadowRoot.querySelector("[part=notices]").textContent;"""
    )
    for _ in range(2):
        page.page.clock.fast_forward(6_500)
    busy = "Another program of this page keeps Python busy, so this one has a Python of its own."
    assert page.run("return later.load().then(() => notices(later));") == busy
    assert page.workers() == 2
    busy_one, _ = page.page.workers
    assert page.run("endless.remove(); return ends;") == ["AbortError", "The program was closed."]
    with busy_one.expect_event("close"):
        for _ in range(2):
            page.page.clock.fast_forward(6_500)
    again = page.run(
        """await el.load();
        await Promise.all([el, later].map((each) => each.predict([0, 0])));
        return [notices(el), notices(later)];"""
    )
    assert again[0].startswith("A program that was closed did not end, so Python was started again")
    assert again[0].endswith("What this network had learnt is gone.")
    assert again[1] == busy
    (worker,) = page.page.workers
    with worker.expect_event("close"):
        page.run("el.parentNode.replaceChildren();")
        page.page.clock.fast_forward(60_000)
    page.close()


@pytest.mark.parametrize("sandbox", ["", 'sandbox="allow-scripts"'])
def test_from_another_site(browser: Any, site: Site, page: Page, sandbox: str) -> None:
    """pyframe.js of another origin, in a frame; in one without an origin there is no WebGPU. Only
    this one has Python: each such page starts it anew."""
    code = "pyframe" if sandbox else "quick"
    if not sandbox:
        shutil.copytree(serve.WEB, site.root / code)
        shutil.copy(site.root / "pyframe" / "config.json", site.root / code)
        (site.root / code / "worker.js").write_text(stand_in(page, "points.py"))
    other = site.url.replace("127.0.0.1", "localhost")
    inner = HEAD.replace('"pyframe/pyframe.js"', f'"{site.url}{code}/pyframe.js"')
    outer = f'<link rel="icon" href="data:,"><iframe {sandbox} src="inner_loose.html"></iframe>'
    site.write({"inner_loose.html": inner, "outer_loose.html": f"<!doctype html>{outer}"})
    page = Page(browser, site)
    page.page.goto(f"{other}outer_loose.html")
    kind, notices, steps = page.page.frames[1].evaluate(
        """async () => {
            document.body.innerHTML =
                '<py-frame src="points.py" files="helper.py"></py-frame>';
            await customElements.whenDefined("py-frame");
            const el = document.querySelector("py-frame");
            const notices = [];
            el.addEventListener("notice", ({ detail }) => notices.push(detail.text));
            await el.load();
            const { steps } = await el.train({ steps: 1 });
            return [el.spec.device.kind, notices, steps];
        }"""
    )
    assert (kind, steps) == ("cpu", 1 if sandbox else 4)
    assert any("its origin is opaque" in text for text in notices) == bool(sandbox)
    page.close()
