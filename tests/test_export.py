"""Programs that need no Python: what is exported, what is refused, and that it computes the same.

A player in a few lines of Python (played.py) runs what was exported, so that a browser is needed
only for web/player.js itself (tests/web/test_export.py).
"""

from __future__ import annotations

import json
import math
import operator
import re
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from exported import batches, by_python, convolutional, mlp, rate
from played import KINDS, Played, evaluate, written
from refused import check_refused, rows

import pyframe as pf
from pyframe import nn, optim
from pyframe.__main__ import main
from pyframe.core.devices import device as Device
from pyframe.core.limits import Limits
from pyframe.core.symbolic import SymbolicScalar, apply_symbolic, formula, log
from pyframe.data import TensorDataset
from pyframe.runtime.offline import INDEX, OfflineBackend
from pyframe.web import Choice, Demo, ExportError, Plane, Points, Slider, cpu as wasm_code
from pyframe.web.exporter import _table


def export(folder: Path, *what: Any, **options: Any) -> Any:
    """The same of a new export, without the page's element."""
    pf.web.export(*what, to=folder, element=False, **options)
    return written(folder)


NETS: dict[str, tuple[Callable[[], pf.Model], tuple[int, ...], int]] = {
    "adam": (lambda: mlp(optim.Adam), (16, 20), 5),
    "radam": (lambda: mlp(optim.RAdam, betas=(0.8, 0.95)), (16, 20), 5),
    "convolutional": (convolutional, (16, 1, 12, 12), 10),
}
PLAYED = [*((name, "wasm") for name in NETS), ("convolutional", "gpu")]


class Largest(nn.Linear):
    """Scores in order, and where they came from."""

    def forward(self, x: pf.Tensor) -> dict[str, pf.Tensor]:
        values, indices = super().forward(x).topk(3)
        return {"values": values, "indices": indices, "sorted": values.sort()[0].cumsum(1)}


@pytest.fixture(params=["gpu", "wasm"])
def played_on(request: pytest.FixtureRequest) -> str:
    """Each device that a page may have, as Played takes it."""
    if request.param == "gpu":
        request.getfixturevalue("gpu")
    else:
        pytest.importorskip("wasmtime")
    return str(request.param)


def check_played(
    fn: Any, args: Any, folder: Path, device: str = "wasm", rtol: float = 1e-5, **more: Any
) -> None:
    """A function that was exported gives what it gives in Python, in the same order."""
    if device == "wasm":
        pytest.importorskip("wasmtime")
    done = pf.web.export({"ask": fn}, {"ask": args}, to=folder, element=False, **more)
    assert done.left_out == [] or device == "gpu"
    found, want = Played(folder, device).run("ask", *[x.numpy() for x in args]), fn(*args)
    want = want.values() if isinstance(want, dict) else want
    want = [want] if isinstance(want, pf.Tensor) else want
    for got, y in zip(found, want, strict=True):
        y = pf.view_as_real(y) if y.is_complex() else y
        np.testing.assert_allclose(got, y.detach().numpy(), rtol=rtol, atol=1e-5)


def test_a_spectrogram(gpu: str, tmp_path: Path) -> None:
    """Complex numbers are pairs of floats to JavaScript, and need WebGPU."""

    def ask(x: pf.Tensor) -> tuple[pf.Tensor, ...]:
        z = pf.stft(x, 80, 20, return_complex=True)
        return z, z.abs(), pf.istft(z * x.mean(), 80, 20)

    with pytest.warns(UserWarning, match="complex64 has no form in registers"):
        check_played(ask, (pf.randn(1, 200),), tmp_path, "gpu", 1e-4)


def _summed(w: pf.Tensor, at: pf.Tensor) -> pf.Tensor:
    """The gradient of rows by index."""
    w = w.detach().requires_grad_()
    found = nn.functional.embedding(at, w)
    return pf.autograd.grad((found * found.detach().cos()).sum(), [w])[0]


CPU_ROWS: dict[str, tuple[Callable[..., pf.Tensor], tuple[Any, ...]]] = {
    "words below 0": (nn.functional.conv_transpose2d, ((2, 3, 4, 4), (3, 2, 3, 3))),
    "nothing past the end": (lambda w, at: _summed(w, at[2:]), ((2, 3), [1, 0])),
    "rows not in line": (lambda w, at: nn.functional.embedding(at, w.mT), ((3, 5), [4, 0, 4])),
    "sums of many rows": (_summed, ((9, 3), np.arange(2000) * 7 % 9)),
    "sums of many wide rows": (_summed, ((9, 40), np.arange(2000) * 7 % 9)),
    "other numbers around": (
        lambda x, w: nn.functional.conv2d(nn.functional.pad(x.relu(), [1] * 4, value=2.0), w),
        ((1, 3, 9, 8), (8, 3, 3, 3)),
    ),
    "zeros behind": (
        lambda x, w: nn.functional.conv2d(nn.functional.pad(x.exp(), (0, 1, 0, 2)), w, groups=3),
        ((1, 3, 9, 8), (3, 1, 3, 3)),
    ),
    "numbers that are True": (
        lambda x: x.masked_fill((x > 1) & pf.full_like(x, 0.5, dtype=pf.bool), 0.0),
        ((4, 5),),
    ),
    "no images": (lambda x, w: nn.functional.conv1d(x, w, padding=1), ((0, 3, 5), (9, 3, 3))),
    "no results": (nn.functional.bilinear, ((5, 4), (5, 2), (0, 4, 2))),
}


@pytest.mark.parametrize("name", CPU_ROWS)
def test_routines_without_numpy(name: str, tmp_path: Path) -> None:
    """What NumPy is asked for natively is done by the exported module as well."""
    fn, given = CPU_ROWS[name]
    args = [pf.randn(*a) if isinstance(a, tuple) else pf.tensor(a) for a in given]
    check_played(fn, tuple(args), tmp_path)


# images, weight, stride, padding, dilation, groups
CONVOLUTIONS = {
    "padded": ((1, 3, 9, 8), (8, 3, 3, 3), 2, 1, 1, 1),
    "few images": ((2, 4, 7, 9), (6, 2, 3, 3), (1, 2), (1, 2), 1, 2),
    "of each channel": ((3, 6, 9, 9), (6, 1, 5, 5), (1, 2), 2, 1, 6),
    "two of each channel": ((2, 3, 9, 9), (6, 1, 3, 3), 1, 1, 1, 3),
    "one of all channels": ((1, 5, 9, 9), (1, 5, 3, 3), 1, 1, 1, 1),
    "dilated": ((1, 4, 11, 12), (4, 1, 3, 3), 1, (2, 3), (2, 3), 4),
    "one dim": ((2, 4, 30), (5, 4, 7), 3, 3, 1, 1),
    "one dim of each channel": ((1, 4, 30), (4, 1, 7), 1, 3, 1, 4),
    "three dims": ((1, 2, 5, 6, 4), (3, 2, 3, 2, 3), 1, 1, 1, 1),
    "no padding": ((1, 3, 9, 8), (8, 3, 3, 3), 1, 0, 1, 1),
    "single taps": ((2, 4, 5, 5), (7, 4, 1, 1), 1, 0, 1, 1),
    "many images": ((5, 4, 5, 5), (7, 4, 3, 3), 1, 1, 1, 1),
}


@pytest.fixture
def routines(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """The routines that exports ask for: the op, and of a convolution its padding."""
    asked: list[Any] = []
    made = wasm_code.routine

    def noted(op: Any, inputs: Any, attrs: Any, out: Any) -> Any:
        asked.append((op.name, *attrs[1:2]))
        return made(op, inputs, attrs, out)

    monkeypatch.setattr(wasm_code, "routine", noted)
    return asked


@pytest.mark.parametrize("name", CONVOLUTIONS)
def test_convolutions(name: str, tmp_path: Path, routines: list[Any]) -> None:
    """The CPU computes them by its routine, whatever a GPU makes of them."""
    shape, weight, stride, padding, dilation, groups = CONVOLUTIONS[name]
    conv = (nn.functional.conv1d, nn.functional.conv2d, nn.functional.conv3d)[len(shape) - 3]

    def fn(x: pf.Tensor, w: pf.Tensor, b: pf.Tensor) -> pf.Tensor:
        return conv((x + 1).relu(), w, b, stride, padding, dilation, groups).sigmoid()

    check_played(fn, (pf.randn(*shape), pf.randn(*weight), pf.randn(weight[0])), tmp_path)
    around = (padding,) * (len(shape) - 2) if isinstance(padding, int) else padding
    assert routines == [("matmul",) if name == "single taps" else ("conv", around)]


@pytest.mark.parametrize("size", [9, 5000])
def test_order(size: int, played_on: str, tmp_path: Path) -> None:
    net = Largest(4, size)
    check_played(net, (pf.randn(5, 4),), tmp_path, played_on, state=[net])


@pytest.mark.parametrize(("name", "played_on"), PLAYED, indirect=["played_on"])
def test_losses_are_those_of_python(name: str, played_on: str, tmp_path: Path) -> None:
    make, shape, classes = NETS[name]
    data = batches(shape, classes)
    sample = tuple(map(pf.from_numpy, data[0]))
    assert pf.web.export(make(), sample, to=tmp_path, element=False).left_out == []
    played, exported = Played(tmp_path, played_on), []
    for i in range(30):
        played.options["0.lr"] = rate(i)
        played.run("train", *data[i % len(data)])
        exported.append(played.mean("loss"))
    np.testing.assert_allclose(exported, by_python(make(), data, "cpu", 30), atol=1e-4)


def test_an_exported_model_is_as_it_was(tmp_path: Path) -> None:
    model, (batch, *_) = mlp(optim.Adam), batches((16, 20), 5)
    x, y = map(pf.from_numpy, batch)
    model.train_on_batch((x, y))
    places = [(p, p._storage, p.grad, p.detach().numpy().copy()) for p in model.net.parameters()]
    moments = {p: dict(s) for p, s in model.optimizer.state.items()}
    drawn = pf.random.default_generator.get_state().tolist()
    pf.web.export(model, (x, y), to=tmp_path, element=False)
    assert ("gpu", INDEX) not in Device._known
    for p, storage, grad, values in places:
        assert p._storage is storage
        assert p.grad is grad
        assert p.device.type == "cpu"
        np.testing.assert_array_equal(p.detach().numpy(), values)
    for p, entries in moments.items():
        assert model.optimizer.state[p] == entries
    assert pf.random.default_generator.get_state().tolist() == drawn
    assert all(m.training for m in model.net.modules())


def test_an_export_goes_on_where_training_is(gpu: str, tmp_path: Path) -> None:
    """Moments, counters and random numbers are exported as they are."""
    data = batches((16, 20), 5)
    model, same = mlp(optim.Adam), mlp(optim.Adam)
    before = by_python(same, data, gpu, 12)
    pf.manual_seed(0)
    model.to(gpu)
    assert by_python(model, data, gpu, 5) == before[:5]
    state = pf.random.default_generator._states[Device(gpu)]
    draws = state.tolist()
    assert draws[2] == 5
    pf.web.export(model, tuple(map(pf.from_numpy, data[0])), to=tmp_path, element=False)
    played = Played(tmp_path)
    played.executor.write(played.tensors[played.places["random:"]], np.array(draws, np.uint32))
    for i in range(5, 12):
        played.options["0.lr"] = rate(i)
        played.run("train", *data[i % len(data)])
        assert played.mean("loss") == pytest.approx(before[i], abs=1e-5)


def test_the_same_twice(tmp_path: Path) -> None:
    model, (batch, *_) = mlp(optim.Adam), batches((16, 20), 5)
    for name in ("a", "b"):
        pf.web.export(model, batch, to=tmp_path / name, element=False)
    files = sorted(p.relative_to(tmp_path / "a") for p in (tmp_path / "a").rglob("*.*"))
    assert {"program.json", "state.safetensors", "player.js"} <= {str(f) for f in files}
    for file in files:
        assert (tmp_path / "a" / file).read_bytes() == (tmp_path / "b" / file).read_bytes()


def test_what_a_program_says(tmp_path: Path) -> None:
    model, (batch, *_) = mlp(optim.Adam), batches((16, 20), 5)
    document = export(tmp_path, model, batch)
    roles = {t["name"]: t["role"] for t in document["tensors"]}
    weights = {n for n, r in roles.items() if r in ("parameter", "buffer")}
    assert weights == set(document["weights"]) == set(model.net.state_dict())
    assert roles["moment:exp_avg.0.weight"] == "moment"
    assert roles["step:step.0.weight"] == "step"
    for name in ("random:", "guard:", "metric:train.loss", "metric:test.accuracy.hits"):
        assert roles[name] == name.split(":")[0]
    assert document["options"].keys() == {
        "0.lr", "0.eps", "0.betas.0", "0.betas.1", "0.weight_decay",
    }  # fmt: skip
    assert document["needs"]["features"] == []
    limits = document["needs"]["limits"]
    assert limits["maxStorageBuffersPerShaderStage"] <= Limits().storage_buffers
    assert limits["maxBufferSize"] < 1 << 20
    assert any("target out of range" in message for message in document["errors"])
    state = pf.io.safetensors.load_file(tmp_path / "state.safetensors")
    for name, value in model.net.state_dict().items():
        if value.numpy().any():
            np.testing.assert_array_equal(state[name].numpy(), value.numpy())
    assert not any(n.startswith(("moment", "step", "guard", "metric")) for n in state)  # zeros
    train = document["programs"]["train"]
    live = [p[2] for p in train["params"] if isinstance(p[2], str | list)]
    assert "0.lr" in live
    assert ["log", "0.betas.1"] in live
    assert [o["shape"] for o in document["programs"]["predict.1"]["outputs"]] == [[1, 5]]


def metric_model(outputs: int, loss: nn.Module, metrics: list[Any]) -> pf.Model:
    pf.manual_seed(0)
    net = nn.Sequential(nn.Linear(4, 8), nn.Tanh(), nn.Linear(8, outputs))
    return pf.Model(net, loss, optim.SGD(net.parameters(), lr=0.1), metrics)


class Smallest(pf.metrics.Metric):
    """One whose state begins with another number than 0."""

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("bottom", pf.tensor(7.0))

    def update(self, output: Any, target: Any) -> None:
        self.bottom.copy_(pf.minimum(self.bottom, output.min()))

    def compute(self) -> pf.Tensor:
        return self.bottom


SCORES = "accuracy", "precision", "recall", "f1", "auroc", "average_precision", "perplexity", "iou"
DISTANCES = "mae", "mse", "rmse", "r2", "cosine_similarity"


@pytest.mark.parametrize(
    ("what", "played_on"), [("scores", "wasm"), ("distances", "gpu")], indirect=["played_on"]
)
def test_metrics_are_computed_from_their_state(what: str, played_on: str, tmp_path: Path) -> None:
    """Over batches of two sizes, of which no mean would be right; one without a single number
    stays behind."""
    rng = np.random.default_rng(0)
    x = rng.normal(size=(11, 4)).astype(np.float32)
    if what == "scores":
        y: Any = rng.integers(0, 3, 11)
        model = metric_model(3, nn.CrossEntropyLoss(), [*SCORES, Smallest(), "confusion_matrix"])
    else:
        y = rng.normal(size=(11, 3)).astype(np.float32)
        model = metric_model(3, nn.MSELoss(), [*DISTANCES])
    want = model.evaluate((x, y), batch_size=4)
    if what == "scores":
        with pytest.warns(UserWarning, match="'confusion_matrix' is left out: .* one number"):
            pf.web.export(model, (x[:4], y[:4]), to=tmp_path, element=False)
        assert want.pop("confusion_matrix").shape == (3, 3)
    else:
        pf.web.export(model, (x[:4], y[:4]), to=tmp_path, element=False)
    played = Played(tmp_path, played_on)
    assert played.document["plan"]["evaluate"] == {
        "sizes": [4, 1], "metrics": ["loss"], "values": [name for name in want if name != "loss"],
    }  # fmt: skip
    for part in (slice(0, 4), slice(4, 8), slice(8, 9), slice(9, 10), slice(10, 11)):
        played.run(f"evaluate.{part.stop - part.start}", x[part], y[part])
    found = dict(zip([*want][1:], played.run("evaluate.metrics"), strict=False))
    found["loss"] = played.mean("loss", "test")
    assert {name: float(v) for name, v in found.items()} == pytest.approx(want, rel=1e-4)


def test_what_is_asked_of_fit_stays_behind(tmp_path: Path) -> None:
    """A scheduler is named; the scaler of an earlier fit scales nothing."""
    model = mlp(optim.Adam)
    batch, *_ = batches((16, 20), 5)
    pf.web.export(model, batch, to=tmp_path / "plain", element=False)
    model.lr_scheduler = optim.lr_scheduler.StepLR(model.optimizer, 1)
    model.scaler = scaler = pf.GradScaler("cpu")
    with pytest.warns(UserWarning, match="StepLR is left out, as Python steps it: learning rates"):
        done = pf.web.export(model, batch, to=tmp_path / "more", element=False)
    assert len(done.left_out) == 1
    assert model.scaler is scaler
    plain, more = (tmp_path / name / "program.json" for name in ("plain", "more"))
    assert plain.read_bytes() == more.read_bytes()


CLASSES = [c for c in vars(optim).values() if isinstance(c, type)]
EVERY = [c for c in CLASSES if issubclass(c, optim.Optimizer) and c is not optim.Optimizer]


@pytest.mark.parametrize("kind", EVERY, ids=lambda c: c.__name__)
def test_every_optimizer(kind: Any, tmp_path: Path) -> None:
    """Each is exported, or refused with a reason; each formula is the SymbolicScalar's value."""
    net = nn.Linear(4, 3)
    params = [net.weight] if kind is optim.Muon else net.parameters()
    model = pf.Model(net, nn.MSELoss(), kind(params))
    batch = np.ones((2, 4), np.float32), np.ones((2, 3), np.float32)
    if kind is optim.LBFGS:
        with pytest.raises(TypeError, match="closure"):
            pf.web.export(model, batch, to=tmp_path, element=False)
        return
    document = export(tmp_path, model, batch)
    group = model.optimizer.param_groups[0]
    for key, value in document["options"].items():
        _, name, *at = key.split(".")
        assert value == (group[name][int(at[0])] if at else group[name])
    for offset, kind_, value in document["programs"]["train"]["params"]:
        assert offset % 4 == 0
        assert kind_ in KINDS
        assert isinstance(evaluate(value, document["options"]), int | float)


def test_formulas() -> None:
    x, y = (SymbolicScalar(lambda v=v: v, source=name) for name, v in (("x", 0.25), ("y", -3.0)))
    some = {
        SymbolicScalar(operator.sub, 1, x): 0.75,
        SymbolicScalar(operator.mul, x, SymbolicScalar(operator.truediv, y, 2)): -0.375,
        SymbolicScalar(operator.pow, SymbolicScalar(operator.add, x, 1), 2): 1.5625,
        SymbolicScalar(operator.neg, y): 3.0,
        SymbolicScalar(operator.abs, y): 3.0,
        apply_symbolic(log, x): math.log(0.25),
        apply_symbolic(log, SymbolicScalar(operator.sub, x, x)): -math.inf,
        apply_symbolic(max, x, y, 1.5): 1.5,
        apply_symbolic(min, x, y): -3.0,
    }  # fmt: skip
    for number, value in some.items():
        data = json.loads(json.dumps(formula(number, str)))
        assert evaluate(data, {"x": 0.25, "y": -3.0}) == value
    for number in (SymbolicScalar(operator.floordiv, x, 2), SymbolicScalar(lambda: 1.0)):
        with pytest.raises(ValueError, match="no words for"):
            formula(number, str)


# --- what is refused


class Refused(nn.Module):
    def __init__(self, forward: Callable[[Any], Any]) -> None:
        super().__init__()
        self.line = nn.Linear(3, 3)
        self.fn = forward

    def forward(self, x: pf.Tensor) -> Any:
        return self.fn(self.line(x))


class Counting:
    calls = 0

    def __call__(self, x: pf.Tensor) -> pf.Tensor:
        self.calls += 1
        return x * self.calls


NEED_PYTHON: list[tuple[Callable[[Any], Any], str]] = [
    (lambda x: x * x.sum().item(), "reads the value of a tensor"),
    (lambda x: x if (x > 0).any() else -x, "reads the value of a tensor"),
    (lambda x: x[x[:, 0] > 0], "reads the value of a tensor"),
    (lambda x: pf.linalg.qr(x)[1], "value of a tensor for linalg_qr, which has no kernel"),
    (lambda x: x[: int(pf.randperm(2)[0]) + 1], "draws random numbers|reads the value"),
    (lambda x: str(x.shape), "gives a str"),
    (lambda x: x + pf.ones(3, device="cpu"),
     r"test_export.py:\d+: add: Expected all .* the page's GPU and cpu. What a module"),
    (lambda x: x.double(), r"test_export.py:\d+: cast: the page's GPU has no float64"),
    (lambda x: {"y": x, "h": x}, "gives 2 tensors, and a page's predict one: export a module"),
    (lambda x: x.reshape(-1), "shape"),
    (Counting(), "calls are not alike"),
]  # fmt: skip


@pytest.mark.parametrize(("fn", "why"), NEED_PYTHON)
def test_what_needs_python_is_refused(fn: Any, why: str, tmp_path: Path) -> None:
    net = Refused(fn)
    with pytest.raises((ExportError, RuntimeError), match=why) as found:
        pf.web.export(net, np.ones((2, 3), np.float32), to=tmp_path / "out")
    assert "slot" not in str(found.value)
    assert not (tmp_path / "out").exists()
    assert net.line.weight.device.type == "cpu"
    assert ("gpu", INDEX) not in Device._known


def test_a_function_that_makes_something_first(tmp_path: Path) -> None:
    """What is there from the second call on is state like any other."""

    class Lazy(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.mask: Any = None
            self.line = nn.Linear(3, 3)

        def forward(self, x: pf.Tensor) -> pf.Tensor:
            if self.mask is None:
                self.mask = pf.arange(3.0, device=x.device)
            return self.line(x) * self.mask

    document = export(tmp_path, Lazy(), np.ones((1, 3), np.float32))
    (mask,) = [t["name"] for t in document["tensors"] if t["role"] == "constant"]
    state = pf.io.safetensors.load_file(tmp_path / "state.safetensors")
    assert state[mask].tolist() == [0, 1, 2]


BAD = r"""
export(net) -> TypeError: needs sample=
export(pf.Model(net)) -> TypeError: needs sample=
export(3, None) -> TypeError: expected a Demo
export({"f": len}) -> TypeError: arguments of each function
export(net, np.float32(1)) -> ValueError: must be a batch
export(net, {"a": 1}) -> ExportError: dict of 1 inputs
export(pf.Model(net), ({"a": 1}, 2)) -> ExportError: dict of 1 in a batch
export(pf.Model(net), (1, 2, 3)) -> ExportError: is a tuple of 3; expected a batch \(x, y\)
export(Demo(lambda: pf.Model(net), pf.web.Text(), pf.web.Text(), predict=lambda m, t: t)) ->
    ExportError: writes text
export(net, np.ones((99, 2)), limits=Limits(buffer_bytes=256)) ->
    ExportError: too large for this GPU .* smaller batch_size, or export
export(net, (pf.ones(1, 2), pf.ones(1, 2))) ->
    ExportError: inputs, and a page's predict takes one tensor: exp
export(net, {"a": pf.ones(1, 2)}) -> ExportError: inputs, and a page's predict takes one tensor: exp
export(words, pf.zeros(1, 2, dtype=pf.int64), limits=pf.web.Limits(binding_bytes=1024)) ->
    ExportError: ^0\.weight of shape \(99, 4\) has 1,584 bytes, and a tensor 1,024 at most on every
    GPU; make it smaller, or export for GPUs that take it, with
    limits=pf\.web\.Limits\(binding_bytes=1584, buffer_bytes=268435456\)$
"""


def test_bad_calls(tmp_path: Path) -> None:
    words = nn.Sequential(nn.Embedding(99, 4), nn.Flatten())
    own = {"export": partial(pf.web.export, to=tmp_path), "net": nn.Linear(2, 1), "words": words}
    for call, text in rows(BAD):
        check_refused(call, text, lambda lib: globals() | own)
    assert list(tmp_path.iterdir()) == []


def test_no_page_is_asked_for_subgroups(tmp_path: Path) -> None:
    net = nn.Sequential(nn.Linear(4, 300), nn.Softmax(-1))
    pf.web.export(net, pf.ones(2, 4), to=tmp_path, limits=pf.web.Limits(subgroups=True))
    texts = [path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()]
    made = [text for text in texts if b"workgroupBarrier()" in text]
    assert made
    assert not any(b"subgroupShuffle" in text for text in texts)


class Named(nn.Module):
    """Gives its results by names."""

    def __init__(self) -> None:
        super().__init__()
        self.line = nn.Linear(4, 2)

    def forward(self, a: pf.Tensor, b: pf.Tensor | None = None) -> dict[str, pf.Tensor]:
        return {"y": self.line(a)} if b is None else {"y": self.line(a), "z": self.line(b)}


def test_results_by_names(tmp_path: Path) -> None:
    net, x = Named(), pf.randn(3, 4)
    check_played(net, (x, x + 1), tmp_path / "both", state=[net])
    outputs = written(tmp_path / "both")["programs"]["ask"]["outputs"]
    assert [o["name"] for o in outputs] == ["y", "z"]
    pf.web.export(net, x, to=tmp_path / "one", element=False)  # one of them is predicted
    (found,) = Played(tmp_path / "one", "wasm").run("predict.3", x.numpy())
    np.testing.assert_allclose(found, net(x)["y"].detach(), rtol=1e-5, atol=1e-6)


# --- what a page shows of a network without a Demo

CE, MSE, BCE = nn.CrossEntropyLoss(), nn.MSELoss(), nn.BCEWithLogitsLoss()
PICTURES = nn.Sequential(nn.Conv2d(3, 3, 1), nn.AdaptiveAvgPool2d(1), nn.Flatten())
# (net, loss, the shape of a sample or a batch, targets, the input and the output that are shown)
SHOWN: list[tuple[nn.Module, Any, Any, Any, str, str]] = [
    (nn.Sequential(nn.Flatten(), nn.Linear(64, 10)), CE, (1, 8, 8), [3, 4], "pad 1x8x8",
     "bars 10 scores"),
    (nn.Linear(64, 3), CE, (64,), None, "pad 1x8x8", "bars 3 scores"),
    (PICTURES, CE, (3, 8, 6), [0, 1], "image 3x8x6", "bars 3 scores"),
    (PICTURES, None, (3, 8, 6), None, "image 3x8x6", "values"),
    (nn.Sequential(PICTURES, nn.Linear(3, 50)), None, (3, 4, 4), None, "image 3x4x4",
     "bars 50 top 5 scores"),
    (nn.Conv2d(1, 1, 1), MSE, (1, 8, 8), None, "pad 1x8x8", "picture 1x8x8"),
    (nn.Linear(3, 1), MSE, (3,), [[0.5], [1.5]], "numbers 3", "values"),
    (nn.Linear(3, 1), BCE, (3,), [[0.0], [1.0]], "numbers 3", "bars 2 scores"),
    (nn.Linear(3, 4), BCE, (3,), [[0.0] * 4, [1.0] * 4], "numbers 3", "values"),
    (nn.Sequential(nn.Embedding(9, 2), nn.Flatten(), nn.Linear(4, 2)), CE,
     pf.tensor([[1, 2], [3, 8]]), [0, 1], "numbers 2 whole", "bars 2 scores"),
    (nn.Linear(64, 1), MSE, (64,), None, "", ""),
    (nn.Conv2d(2, 2, 1), MSE, (2, 8, 8), None, "", ""),
    (nn.Linear(3, 64), MSE, (3,), None, "", ""),
]  # fmt: skip


def said(part: dict[str, Any] | None) -> str:
    if part is None:
        return ""
    words = [part["kind"]]
    match part["kind"]:
        case "bars":
            words += [str(len(part["names"]))] + (["top", str(part["top"])] if part["top"] else [])
            words += ["scores"] if part["scores"] else []
        case "picture":
            words.append(f"{part['channels']}x{part['height']}x{part['width']}")
        case "pad" | "image":
            words.append("x".join(map(str, part["shape"])))
        case "numbers":
            words.append(str(len(part["sliders"])))
            words += ["whole"] if part["sliders"][0]["step"] == 1 else []
            assert all(s["low"] <= s["value"] <= s["high"] for s in part["sliders"])
    return " ".join(words)


@pytest.mark.parametrize(("net", "loss", "sample", "y", "inputs", "outputs"), SHOWN)
def test_a_page_without_a_demo(
    net: nn.Module, loss: Any, sample: Any, y: Any, inputs: str, outputs: str, tmp_path: Path
) -> None:
    x = pf.randn(2, *sample) if isinstance(sample, tuple) else sample
    given = net
    if loss is not None:
        given = pf.Model(net, loss, pf.optim.SGD(net.parameters(), lr=0.1))
    done = pf.web.export(given, x if y is None else (x, pf.tensor(y)), to=tmp_path)
    spec = written(tmp_path)["spec"]
    assert (said(spec["input"]), said(spec["output"])) == (inputs, outputs)
    assert spec["description"].startswith("There is no ") == (not inputs)
    assert spec["trains"] == ("data.safetensors" in done.files) == (y is not None)


# --- demos, own functions, data


def demo(**more: Any) -> Demo:
    def make_model(width: int = 8) -> pf.Model:
        pf.manual_seed(0)
        net = nn.Sequential(nn.Linear(2, width), nn.Tanh(), nn.Linear(width, 3))
        return pf.Model(net, nn.CrossEntropyLoss(), optim.SGD(net.parameters(), lr=0.1),
                        metrics=["accuracy"])  # fmt: skip

    return Demo(make_model, Points(3), Plane(5), epochs=2, batch_size=4, **more)


def points(n: int = 10) -> tuple[TensorDataset, TensorDataset]:
    x = pf.linspace(-1, 1, 2 * n).reshape(n, 2)
    return TensorDataset(x, pf.arange(n) % 3), TensorDataset(x[:7], pf.arange(7) % 3)


def test_a_demo(tmp_path: Path) -> None:
    with pytest.warns(UserWarning, match="the control 'width' is left out: it is an argument"):
        done = pf.web.export(
            demo(data=points, controls=(Choice("width", (4, 8)), Slider("lr", 1e-3, 1, 0.2),
                                        Slider("weight_decay", 0, 0.1, 0))),
            to=tmp_path,
        )  # fmt: skip
    document = written(tmp_path)
    assert document["plan"] == {
        "train": {"size": 4, "metrics": ["loss"], "values": ["accuracy"]},
        "evaluate": {"sizes": [4, 3], "metrics": ["loss"], "values": ["accuracy"]},
        "predict": {"sizes": [1, 25]},
    }
    spec = document["spec"]
    assert [c["name"] for c in spec["controls"]] == ["lr", "weight_decay"]
    assert (spec["steps_per_epoch"], spec["trains"], spec["engine"]) == (3, True, "program")
    assert document["options"]["0.lr"] == 0.2
    assert document["options"]["0.weight_decay"] == 0  # and acts, once it is set
    train = document["programs"]["train"]["params"]
    assert {"0.lr", "0.weight_decay"} <= {v for _, _, v in train if isinstance(v, str)}
    assert document["rules"] == [[["!=", "0.momentum", 0], False],
                                 [["!=", ["-", 1, "0.dampening"], 1], False]]  # fmt: skip
    tensors = {f"{name}.safetensors" for name in ("state", "data", "samples")}
    scripts = {"player.js", "runtime.js", "pyframe.js", "parts.js", "widgets.js"}
    assert {"program.json", "index.html", *tensors, *scripts} <= set(done.files)
    assert not {"python.js", "worker.js", "boot.js"} & set(done.files)
    licences = (tmp_path / "LICENSES.txt").read_text()
    assert f"\npyframe {pf.__version__}: Apache-2.0" in licences
    assert "4. Redistribution." in licences
    assert done.files == {str(p.relative_to(tmp_path)): p.stat().st_size
                          for p in tmp_path.rglob("*") if p.is_file()}  # fmt: skip
    data = pf.io.safetensors.load_file(tmp_path / "data.safetensors")
    table = data["train.x.values"].numpy()
    np.testing.assert_array_equal(table[data["train.x"].numpy()], points()[0].tensors[0].numpy())
    assert data["train.y"].dtype is pf.uint8


def test_a_demo_without_data_or_training(tmp_path: Path) -> None:
    document = export(tmp_path / "own", demo())  # the visitor's own points
    assert document["spec"]["trains"]
    assert document["data"] == {}
    document = export(tmp_path / "predicts", demo(data=points), train=False, data=False)
    assert not document["spec"]["trains"]
    assert set(document["programs"]) == {"predict.1", "predict.25"}
    assert document["options"] == {}
    assert {t["role"] for t in document["tensors"]} == {"parameter"}


def steps_of(x: pf.Tensor) -> pf.Tensor:
    return sum([x[i] for i in range(x.shape[0])], start=pf.zeros(4, device=x.device))


NO_SIZES: list[tuple[Any, tuple[int, int], int, str]] = [
    (steps_of, (3, 4), 0, "test_export.py:.* asks for its number"),
    (lambda x: x * 2, (1, 4), 0, "size 0 of tensor 1 .* is 1 in the sample, expected 2 or"),
    (lambda x: x * 2**0.5 if x.sum() > 0 else x, (3, 4), 0, "reads the value of a tensor"),
    (nn.Linear(4, 2), (3, 4), 1, "dim 1 of sample= is marked, and a page's predict takes"),
]


@pytest.mark.parametrize(("program", "shape", "dim", "why"), NO_SIZES)
def test_sizes_that_can_not_be_any(
    program: Any, shape: Any, dim: int, why: str, tmp_path: Path
) -> None:
    x = pf.ones(shape)
    pf.mark_dynamic(x, dim)
    given = (program, x) if isinstance(program, nn.Module) else ({"ask": program}, {"ask": (x,)})
    with pytest.raises(pf.web.ExportError, match=why):
        pf.web.export(*given, to=tmp_path)


def test_formulas_of_sizes(tmp_path: Path) -> None:
    """What follows from sizes is written as formulas: of results, workgroups and buffers."""
    x = pf.ones(6, 40)
    pf.mark_dynamic(x, (0, 1))

    def ask(x: pf.Tensor) -> Any:
        return x[::2].T.reshape(-1), pf.cat([x, x.flip(0)]).sum(1)

    with pytest.warns(UserWarning, match="needs WebGPU"):
        pf.web.export({"ask": ask}, {"ask": (x,)}, to=tmp_path, element=False)
    programs = written(tmp_path)["programs"]
    assert sorted(programs) == ["ask", "ask.1", "ask.2", "ask.3"]
    p = programs["ask"]
    for n, m in ((6, 40), (7, 3), (300, 1000)):
        sizes = {"#0": n, "#1": m}
        assert all(evaluate(question, sizes) for question in p["sizes"]["holds"])
        shapes = [[evaluate(n, sizes) for n in o["shape"]] for o in p["outputs"]]
        assert shapes == [[-(-n // 2) * m], [2 * n]]
        slots = [evaluate(s[1], sizes) for s in p["slots"] if s[0] == "own"]
        assert sorted(slots) == sorted([-(-n // 2) * m * 4, 2 * n * 4])
        groups = [evaluate(n, sizes) for n in p["sizes"]["grids"]]
        assert len(groups) == 6
        assert -(-(-(-n // 2) * m) // 256) in groups


def test_bytes_for_numbers() -> None:
    rng = np.random.default_rng(0)
    pixels = rng.integers(0, 256, (20, 20))
    for x in (
        (pixels / np.float32(255)).astype(np.float32),
        (pixels / 255).astype(np.float32),
        ((pixels / np.float32(255)).astype(np.float32) - np.float32(0.13)) / np.float32(0.31),
        np.array([-0.5, 2.0, np.inf], np.float32),
    ):
        table = _table(x)
        assert table is not None
        values, places = table
        assert places.dtype == np.uint8
        np.testing.assert_array_equal(values[places], x)
    for x in (rng.normal(size=1000).astype(np.float32), np.array([np.nan], np.float32)):
        assert _table(x) is None


def test_all_data_forms(tmp_path: Path) -> None:
    x, y = np.zeros((6, 2), np.float64), np.arange(6) % 3
    both = TensorDataset(pf.zeros(6, 2), pf.arange(6) % 3)
    for found in ((x, y), (pf.from_numpy(x), pf.from_numpy(y)), both, (both, both),
                  pf.data.DataLoader(both, 3), ((x, y), (x, y)), (both, None)):  # fmt: skip
        own = demo(data=lambda found=found: found)
        document = export(tmp_path, own, batch_size=5)
        two = isinstance(found, tuple) and not isinstance(found[0], np.ndarray | pf.Tensor)
        assert ("test" in document["data"]) == (two and found[1] is not None)
        assert document["plan"]["train"]["size"] == document["spec"]["batch_size"] == 5
    with pytest.raises(ExportError, match="a generator, which Python makes anew"):
        pf.web.export(demo(data=lambda: (i for i in range(3))), to=tmp_path)


def test_one_file(tmp_path: Path) -> None:
    done = pf.web.export(demo(data=points), to=tmp_path / "one.html", single=True)
    text = (tmp_path / "one.html").read_text()
    assert done.files == {"one.html": len(text.encode())}
    assert not re.search(r"^(import|export) ", text, re.M)
    assert text.count("</script>") == 2
    assert f"pyframe {pf.__version__}, under the Apache License" in text.partition("<style>")[0]


PROGRAM = """
import helper
import pyframe as pf
from pyframe import nn, optim

def make_model():
    net = nn.Sequential(nn.Flatten(), nn.Linear(6, helper.CLASSES))
    return pf.Model(net, nn.CrossEntropyLoss(), optim.Adam(net.parameters()))

def load_data():
    return pf.rand(10, 1, 3, 2), pf.arange(10) % helper.CLASSES
"""


def test_the_command(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "helper.py").write_text("CLASSES = 4\n")
    program = tmp_path / "my_program.py"
    program.write_text(PROGRAM)
    assert main(["export", str(program), "--to", str(tmp_path / "site")]) == 0
    assert "program.json" in capsys.readouterr().out
    document = written(tmp_path / "site")
    spec = document["spec"]  # found from the data
    assert spec["input"] == {"kind": "pad", "height": 3, "width": 2, "centered": True,
                             "shape": [1, 3, 2]}  # fmt: skip
    assert (spec["output"]["kind"], spec["output"]["names"]) == ("bars", ["0", "1", "2", "3"])
    assert document["plan"]["predict"]["sizes"] == [1, 10]
    assert main(["export", str(program), "--to", str(tmp_path / "a.html"), "--single"]) == 0
    weights = tmp_path / "other.safetensors"
    pf.Model(nn.Linear(2, 2)).save(weights)
    for arguments, why in (
        (["no.py"], "no.py is no Python file"),
        ([str(tmp_path / "helper.py")], "defines no model"),
        ([str(program), "--weights", str(weights)], "weights of another model"),
    ):
        assert main(["export", *arguments, "--to", str(tmp_path / "bad")]) == 1
        error = capsys.readouterr().err
        assert "Traceback" not in error
        assert why in error
    assert not (tmp_path / "bad").exists()


def test_memory_that_is_known_again() -> None:
    """What a planned Program would have written is unknown until something else is put there."""
    gpu = OfflineBackend(Limits())
    data, used, other = (gpu.create(4) for _ in range(3))
    gpu.write(data, memoryview(bytes([1, 2, 3, 4])))
    gpu._unknown.add(used)
    gpu.copy(other, used, 4)
    assert gpu.read([(other, 4)]) == [bytes(4)]
    gpu.copy(used, data, 4)
    gpu.copy(other, used, 4)
    assert gpu.read([(other, 4)]) == [bytes([1, 2, 3, 4])]
