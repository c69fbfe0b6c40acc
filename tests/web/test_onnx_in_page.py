"""ONNX files as pages without Python: they give what onnxruntime gives, and learn as in Python."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from onnx_models import by_runtime, made
from processes import published

import pyframe as pf
from pyframe import nn
from pyframe.cli import main
from pyframe.web import ExportError, OnnxFile

from .conftest import Tab, files
from .test_export import Site

FLOAT, INT64, STRING, DOUBLE = 1, 7, 8, 11
RANDOM = np.random.default_rng(0)


def floats(*shape: int, scale: float = 1.0) -> np.ndarray:
    return (scale * RANDOM.standard_normal(shape)).astype(np.float32)


class Softmaxed(nn.Sequential):
    """A classifier as many files have it: what it gives are probabilities."""

    def forward(self, x: Any) -> Any:
        return super().forward(x).softmax(1)


def cnn(kind: type[nn.Sequential] = Softmaxed) -> nn.Module:
    pf.manual_seed(0)
    return kind(
        nn.Conv2d(1, 4, 3, padding=1, bias=False), nn.BatchNorm2d(4), nn.Tanh(), nn.AvgPool2d(2),
        nn.Flatten(), nn.Linear(64, 3),
    )  # fmt: skip


class Recurrent(nn.Module):
    """An LSTM whose state the page keeps."""

    def __init__(self) -> None:
        super().__init__()
        self.lstm, self.end = nn.LSTM(5, 8, batch_first=True), nn.Linear(8, 2)

    def forward(self, x: Any, h: Any, c: Any) -> Any:
        y, (h, c) = self.lstm(x, (h, c))
        return self.end(y), h, c


def recurrent() -> nn.Module:
    pf.manual_seed(0)
    return Recurrent()


STATE = [floats(2, 4, 5), floats(1, 2, 8), floats(1, 2, 8)]
NAMES = {"input_names": ["x", "h", "c"], "output_names": ["y", "hn", "cn"]}


def write(net: nn.Module, path: Path, args: list[np.ndarray], **options: Any) -> Path:
    net.eval()
    pf.onnx.export(net, tuple(map(pf.from_numpy, args)), path, **options)
    return path


@pytest.fixture(scope="module")
def nets(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    folder = tmp_path_factory.mktemp("nets")
    batch = {"input_names": ["x"], "output_names": ["y"], "dynamic_axes": {"x": {0: "batch"}}}
    return {
        "cnn": write(cnn(), folder / "cnn.onnx", [floats(2, 1, 8, 8)], **batch),
        "scores": write(cnn(nn.Sequential), folder / "scores.onnx", [floats(2, 1, 8, 8)], **batch),
        "recurrent": write(recurrent(), folder / "recurrent.onnx", STATE, **NAMES),
    }


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory, nets: dict[str, Path]) -> Iterator[Site]:
    folder = tmp_path_factory.mktemp("site")
    labels = folder / "labels.txt"
    labels.write_text("cat\ndog\nowl\n")
    np.savez(folder / "data.npz", x=XS, y=YS)
    for name, options in {
        "cnn": ["--train", "--batch-size", "4", "--labels", str(labels), "--lr", "0.01"],
        "scores": ["--train", "--batch-size", "4", "--optimizer", "sgd", "--lr", "0.1", "--data",
                   str(folder / "data.npz")],
        "recurrent": [],
    }.items():  # fmt: skip
        assert main(["export", str(nets[name]), "--to", str(folder / name), *options]) == 0
    any_size = ["--shape", "2*x1x8x8", "--to", str(folder / "any")]
    assert main(["export", str(nets["scores"]), *any_size]) == 0
    with files(folder) as url:
        yield Site(folder, url)


XS, YS = floats(4, 1, 8, 8), np.array([0, 2, 1, 2])
RUN = """async ({ url, device, name, inputs }) => {
    const { open } = await import(new URL(`${name}/player.js`, url));
    const engine = await open({ program: new URL(`${name}/`, url), device });
    const found = await engine.predict(inputs);
    const kind = engine.player.device;
    await engine.close();
    const plain = (batch) => ({ data: Array.from(batch.data), shape: batch.shape });
    return { kind, found: found.shape ? plain(found)
        : Object.fromEntries(Object.entries(found).map(([name, batch]) => [name, plain(batch)])) };
}"""
TRAIN = """async ({ x, y }) => {
    await customElements.whenDefined("py-frame");
    const element = document.querySelector("py-frame");
    element.loading = "eager";
    const spec = await element.ready;
    const done = await element.train({ x, y, steps: 1 });
    const again = await element.train({ steps: 2 });
    const message = (work) => work().then(() => null, (error) => error.message);
    return {
        loss: done.loss, again: again.loss, saved: Array.from(await element.save()), spec,
        odd: await message(() => element.engine.train({ x: [1], y })),
        uneven: await message(() => element.engine.train({ x, y: [...y, 1] })),
    };
}"""


def in_page(tab: Tab, name: str, inputs: Any, device: str = "cpu") -> Any:
    """What the page's program gives, by names where there are several outputs."""
    given = {"url": tab.url, "device": device, "name": name, "inputs": inputs}
    found = tab.page.evaluate(RUN, given)
    assert found["kind"] == device

    def array(batch: Any) -> np.ndarray:
        return np.array(batch["data"], np.float32).reshape(batch["shape"])

    found = found["found"]
    return array(found) if "shape" in found else {k: array(v) for k, v in found.items()}


@pytest.fixture
def tab(browser: Any, site: Site) -> Iterator[Tab]:
    tab = Tab(browser, site)
    tab.open("blank")
    yield tab
    tab.close()


@pytest.mark.parametrize("device", ["cpu", "gpu"])
def test_small_models(device: str, tab: Tab) -> None:
    """On a GPU that of the fewer kernels, as test_any_batch plays the other."""
    with pf.no_grad():
        expected = cnn().eval()(pf.from_numpy(XS)).numpy()
        states = recurrent().eval()(*map(pf.from_numpy, STATE))
    inputs = {n: a.ravel().tolist() for n, a in zip(NAMES["input_names"], STATE, strict=True)}
    found = in_page(tab, "recurrent", inputs, device)
    for name, want in zip(NAMES["output_names"], states, strict=True):
        np.testing.assert_allclose(found[name], want.numpy(), atol=1e-5)
    if device == "gpu":
        return
    found = in_page(tab, "cnn", XS.ravel().tolist())
    np.testing.assert_allclose(found, expected, atol=1e-5)
    for odd in ({"x": [1]}, {**inputs, "z": [1]}):
        with pytest.raises(Exception, match=r"expected the inputs \{ x, h, c \}: [hz] is"):
            in_page(tab, "recurrent", odd)


def test_any_batch_on_a_gpu(tab: Tab, site: Site) -> None:
    assert not (site.folder / "any" / "cpu.wasm").exists()
    with pf.no_grad():
        expected = cnn(nn.Sequential).eval()(pf.from_numpy(XS)).numpy()
    for n in (3, 1):
        found = in_page(tab, "any", XS[:n].ravel().tolist(), "gpu")
        np.testing.assert_allclose(found, expected[:n], atol=1e-5)


@pytest.mark.parametrize("name", ["cnn", "scores"])
def test_a_page_trains(name: str, tab: Tab, nets: dict[str, Path], tmp_path: Path) -> None:
    """As the same network does in Python: cross-entropy of scores is that of their softmax."""
    tab.open(f"{name}/")
    given = {"x": XS.ravel().tolist(), "y": YS.tolist()}
    found = tab.page.evaluate(TRAIN, given)
    net = pf.onnx.load(nets["scores"])
    made = {"cnn": lambda p: pf.optim.AdamW(p, 0.01), "scores": lambda p: pf.optim.SGD(p, 0.1, 0.9)}
    optimizer: Any = made[name](net.parameters())
    x, y = pf.from_numpy(XS), pf.from_numpy(YS)
    losses = []
    for _ in range(3):
        optimizer.zero_grad()
        loss = nn.functional.cross_entropy(net(x), y)
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    assert found["loss"] == pytest.approx(losses[0], abs=1e-4)
    assert found["again"] == pytest.approx(losses[2], abs=1e-4)  # of the last epoch
    path = tmp_path / "w.safetensors"
    path.write_bytes(bytes(found["saved"]))
    trained = pf.onnx.load(nets[name])
    trained.load_state_dict(pf.load(path))
    want = net(x)
    want = want.softmax(1) if name == "cnn" else want
    np.testing.assert_allclose(trained(x).detach().numpy(), want.detach().numpy(), atol=1e-3)
    spec = found["spec"]
    assert (spec["title"], spec["trains"], spec["input"]["kind"]) == (name, True, "pad")
    names = ["cat", "dog", "owl"] if name == "cnn" else ["0", "1", "2"]
    assert spec["output"]["names"] == names
    assert spec["output"]["scores"] == (name == "scores")
    assert "expected 64 numbers a sample in x" in found["odd"]
    assert "got 4 samples and 5 targets" in found["uneven"]


def test_the_page_has_data_to_learn_from(tab: Tab, nets: dict[str, Path], site: Site) -> None:
    """As without any it says what to give it; and it begins with the weights of a file."""
    tab.open("scores/")
    train = """async (options) => {
        await customElements.whenDefined("py-frame");
        const element = document.querySelector("py-frame");
        element.loading = "eager";
        await element.ready;
        return element.train(options).then(({ loss }) => loss, ({ message }) => message);
    }"""
    net = pf.onnx.load(nets["scores"])
    loss = nn.functional.cross_entropy(net(pf.from_numpy(XS)), pf.from_numpy(YS))
    assert tab.page.evaluate(train, {"steps": 1}) == pytest.approx(loss.item(), abs=1e-4)
    tab.open("cnn/")
    assert "give it some, as train({ x, y }) does" in tab.page.evaluate(train, {"steps": 1})
    with pf.no_grad():
        for p in net.parameters():
            p.mul_(0.5)
        expected = net(pf.from_numpy(XS)).numpy()
    pf.save(net.state_dict(), site.folder / "half.safetensors")
    options = [
        "--weights",
        str(site.folder / "half.safetensors"),
        "--to",
        str(site.folder / "half"),
    ]
    assert main(["export", str(nets["scores"]), *options]) == 0
    found = in_page(tab, "half", XS.ravel().tolist())
    np.testing.assert_allclose(found, expected, atol=1e-5)


# --- what is refused


EYE = {"w": np.eye(4, dtype=np.float32)}
PRODUCT = made("[last] y = MatMul(x, w)", EYE)
WEIGHTS = {"q": np.ones((4, 4), np.int8), "s": np.float32(0.1)}
ONES = {"w": np.ones((1, 1), np.float32), "one": [1]}
# a model, options of the command, and what it says
REFUSED = {
    "no file of a model": (b"what is this, then", "", "no ONNX model"),
    "an unknown operator": (made("[odd] y = Frobnicate(x)", {}), "",
        "node 'odd' (Frobnicate): no operator Frobnicate of ai.onnx 18 here"),
    "an open size": (made("y = Relu(x)", {}, ("n", "width")), "", "as --shape x=1x? with numbers"),
    "a size that it asks for": (
        made("""s = Shape(x); i = Cast<to=1>(s); third = Div(i, three); f = Mul(third, three);
                l = Cast<to=7>(f); y = Reshape(x, l)""", {"three": np.float32(3)}),
        "--shape 2*x4", "asks for its number; export it for known sizes",
    ),
    "a size that does not fit": (PRODUCT, "--shape 1x3", "expected 2 sizes, as in"),
    "sizes that its nodes refuse": (
        made("[last] y = MatMul(x, w)", EYE, ("n", "width")), "--shape 1x3",
        "in node 'last' (MatMul) of the ONNX"),
    "a value that is waited for": (
        made("[find] y = NonZero(x)", {}), "", "node 'find' (NonZero) reads the value of a tensor"),
    "float64": (made("y = MatMul(x, w)", {"w": np.eye(4)}, kind=DOUBLE), "",
        "the input 'x' is float64; a page's programs take float32"),
    "strings": (made("y = Identity(x)", {}, kind=STRING), "", "the input 'x' is of strings"),
    "an input that decides": (made("y = Expand(w, x)", EYE, (2,), INT64), "",
        "the input 'x' decides what is computed, which a page's program can't ask: give its value"),
    "ints to learn": (made("w = DequantizeLinear(q, s); y = MatMul(x, w)", WEIGHTS), "--train",
        "its weights are int8"),
    "nothing to learn": (made("y = Relu(x)", {}), "--train", "it has no weights to"),
    "no classes": (
        made("r = ReduceSum(x, one); y = MatMul(r, w)", ONES), "--train --loss cross-entropy",
        "no classes for cross-entropy: expected --loss bce or mse"),
    "an unknown output": (PRODUCT, "--output z", "'z' is no output; it has y"),
    "an unknown input": (PRODUCT, "--value z=1", "'z' is no input; it has x"),
    "no value": (PRODUCT, "--value x=high", "--value x=high: expected a number"),
    "Python": (PRODUCT, "--python --train", "--train is for a model.onnx"),
    "data for predictions": (PRODUCT, "--data x.npz", "No such file"),
    "options of other programs": (None, "--lr 0.1", "--lr is for a model.onnx"),
}  # fmt: skip


@pytest.mark.parametrize("case", REFUSED)
def test_refused(case: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """In a line that says what to do, with nothing written."""
    model, options, words = REFUSED[case]
    path, to = tmp_path / ("net.onnx" if model else "my_model.py"), tmp_path / "site"
    if model:
        path.write_bytes(model if isinstance(model, bytes) else model.SerializeToString())
    assert main(["export", str(path), "--to", str(to), *options.split()]) == 1
    said = capsys.readouterr().err
    assert words in said
    assert len(said.splitlines()) == 1
    assert not to.exists()


def test_several_inputs_do_not_train(nets: dict[str, Path], tmp_path: Path) -> None:
    with pytest.raises(ExportError, match="it has the inputs x, h, c: give all but one by --value"):
        pf.web.export(OnnxFile(nets["recurrent"]), to=tmp_path / "site")
    given = {"h": STATE[1].tolist(), "c": STATE[2].tolist()}
    with pytest.raises(ExportError, match="the outputs y, hn, cn: pick one by --output"):
        pf.web.export(OnnxFile(nets["recurrent"], values=given), to=tmp_path / "site")


# --- models of others

SOUND = floats(1, 576, scale=0.1), floats(2, 1, 128, scale=0.1)
MODELS: dict[str, tuple[dict[str, np.ndarray], dict[str, str]]] = {
    "silero_vad": ({"input": SOUND[0], "state": SOUND[1]}, {"input": "1x576", "state": "2x1x128"}),
    "magika": ({"bytes": RANDOM.integers(0, 256, (1, 2048)).astype(np.int32)}, {}),
    "ocr_direction": ({"x": floats(1, 3, 48, 192)}, {"": "1x3x48x192"}),
}
RATE = {"sr": 16000}


@pytest.mark.parametrize("name", MODELS)
def test_real_models(name: str, tab: Tab, site: Site) -> None:
    path, (inputs, shapes) = published("onnx") / f"{name}.onnx", MODELS[name]
    values = RATE if name == "silero_vad" else {}
    program = OnnxFile(path, shapes, values)
    done = pf.web.export(program, to=site.folder / name, train=False, element=False)
    assert done.left_out == []
    want = by_runtime(path, {**inputs, **{k: np.array(v) for k, v in values.items()}})
    given: Any = {k: v.ravel().tolist() for k, v in inputs.items()}
    given = given if len(want) > 1 else next(iter(given.values()))
    found = in_page(tab, name, given)
    found = list(found.values()) if len(want) > 1 else [found]
    for one, other in zip(found, want, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-3, atol=1e-3)
