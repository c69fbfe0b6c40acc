"""What fit, evaluate and predict take: all kinds of data give the losses of plain tensors."""

from __future__ import annotations

import functools
from collections import namedtuple
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

import pyframe as pf
from pyframe import nn, optim
from pyframe.data import DataLoader, IterableDataset, TensorDataset
from pyframe.train import data as train_data

N = 40
Two = namedtuple("Two", ["a", "b"])


def xy() -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(3)
    x = rng.integers(0, 9, (N, 3)).astype(np.float32)
    return x, (x.sum(1) > 12).astype(np.int64)


def made(net: nn.Module | None = None, loss: Any = None, **options: Any) -> pf.Model:
    pf.manual_seed(1)
    net = net or nn.Sequential(nn.Flatten(), nn.Linear(3, 2))
    for p in net.parameters():
        nn.init.normal_(p)
    loss = loss or nn.CrossEntropyLoss()
    return pf.Model(net, loss, optim.SGD(net.parameters(), lr=0.01), **options)


QUIET: dict[str, Any] = {
    "device": "cpu", "verbose": 0, "shuffle": False, "batch_size": 16, "compile": False,
}  # fmt: skip


def losses(data: Any, model: pf.Model | None = None, **options: Any) -> list[float]:
    """Of an epoch and an evaluation. Batches that come to a step are tensors, whatever was given:
    eager steps show all that differs."""
    model = model or made()
    fitted = model.fit(data, **{**QUIET, **options}).history["loss"]
    return [*fitted, model.evaluate(data, compile=False)["loss"]]


@functools.cache
def wanted(inputs: int = 1) -> list[float]:
    """The losses of plain tensors."""
    x, y = map(pf.tensor, xy())
    return losses((x, y)) if inputs == 1 else losses(((x, x[:, :1] / 3), y), made(Sum()))


class Samples:
    """A data set without a base class: what `make` gives for each sample."""

    def __init__(self, make: Callable[[int], Any]) -> None:
        self.make = make

    def __getitem__(self, i: int) -> Any:
        assert 0 <= i < N  # its length is asked for
        return self.make(i)

    def __len__(self) -> int:
        return N


class Stream(IterableDataset[Any]):
    def __iter__(self) -> Iterator[Any]:
        x, y = xy()
        return iter([(x[i], y[i]) for i in range(N)])


def frames(x: np.ndarray, y: np.ndarray) -> Any:
    pandas = pytest.importorskip("pandas")
    table = pandas.DataFrame({"a": x[:, 0], "b": x[:, 1].astype(int), "c": x[:, 2]})
    return table, pandas.Series(y, name="class")


def batches(x: Any, y: Any) -> list[Any]:
    return [(x[i : i + 16], y[i : i + 16]) for i in range(0, N, 16)]


KINDS: dict[str, Callable[[np.ndarray, np.ndarray], Any]] = {
    "arrays": lambda x, y: (x, y),
    "float64": lambda x, y: (x.astype(np.float64), y),
    "labels of uint8": lambda x, y: (x, y.astype(np.uint8)),
    "numbers": lambda x, y: (x.tolist(), y.tolist()),
    "a list of arrays": lambda x, y: (list(x), list(y)),
    "a list of tensors": lambda x, y: (list(pf.tensor(x)), list(pf.tensor(y))),
    "tables": frames,
    "a table of labels": lambda x, y: (x, frames(x, y)[1].to_frame()["class"]),
    "a TensorDataset": lambda x, y: TensorDataset(pf.tensor(x), pf.tensor(y)),
    "a DataLoader": lambda x, y: DataLoader(TensorDataset(pf.tensor(x), pf.tensor(y)), 16),
    "samples": lambda x, y: Samples(lambda i: (x[i], y[i])),
    "a stream": lambda x, y: Stream(),
    "batches": batches,
    "batches of lists": lambda x, y: [[a.tolist(), b.tolist()] for a, b in batches(x, y)],
    "equal weights": lambda x, y: (x, y, np.ones(N)),
    "batches with weights": lambda x, y: [(a, b, np.ones(len(a), "f")) for a, b in batches(x, y)],
}


@pytest.mark.parametrize("kind", KINDS)
def test_kinds_of_data(kind: str) -> None:
    assert losses(KINDS[kind](*xy())) == pytest.approx(wanted(), rel=1e-5)


def test_a_share_is_kept_for_validation() -> None:
    """The last samples, as in Keras: of arrays with their weights, and of a Dataset."""
    x, y = xy()
    w = np.linspace(0.5, 1.5, N).astype(np.float32)
    own = made().fit((x[:30], y[:30], w[:30]), validation_data=(x[30:], y[30:], w[30:]), **QUIET)
    found = made().fit(x, y, sample_weight=w, validation_split=0.25, **QUIET)
    assert found.history == own.history
    assert len(found["val_loss"]) == 1
    rows = TensorDataset(pf.from_numpy(x), pf.from_numpy(y))
    found = made().fit(rows, validation_split=0.25, **QUIET)
    own = made().fit((x[:30], y[:30]), validation_data=(x[30:], y[30:]), **QUIET)
    assert found.history == own.history


def test_a_generator_is_gone_through_once() -> None:
    found = made().fit((b for b in batches(*xy())), device="cpu", verbose=0)
    assert found["loss"][0] == pytest.approx(wanted()[0], rel=1e-5), "captured as well"


class Sum(nn.Module):
    """A network of two inputs, by place or by name."""

    def __init__(self) -> None:
        super().__init__()
        self.one, self.two = nn.Linear(3, 2), nn.Linear(1, 2)

    def forward(self, a: pf.Tensor, b: pf.Tensor) -> pf.Tensor:
        return self.one(a) + self.two(b)


NESTED: dict[str, Callable[[Any, Any, Any], Any]] = {
    "a list": lambda a, b, y: ([a, b], y),
    "a dict": lambda a, b, y: ({"b": b, "a": a}, y),
    "a named tuple": lambda a, b, y: (Two(a, b), y),
    "samples of tuples": lambda a, b, y: Samples(lambda i: ((a[i], b[i]), y[i])),
    "samples of dicts": lambda a, b, y: Samples(lambda i: ({"a": a[i], "b": b[i]}, y[i])),
    "samples of named tuples": lambda a, b, y: Samples(lambda i: (Two(a[i], b[i]), y[i])),
    "batches": lambda a, b, y: [
        ((a[i : i + 16], b[i : i + 16]), y[i : i + 16]) for i in range(0, N, 16)
    ],
}


@pytest.mark.parametrize("kind", NESTED)
def test_nested_inputs(kind: str) -> None:
    x, y = xy()
    data = NESTED[kind](x, x[:, :1] / 3, y)
    assert losses(data, made(Sum())) == pytest.approx(wanted(2), rel=1e-5)


class Copies(pf.Model):
    """One with a step of its own, that needs no targets."""

    def training_step(self, batch: Any) -> pf.Tensor:
        while not isinstance(batch, pf.Tensor):
            batch = batch["x"] if isinstance(batch, dict) else batch[0]
        return (self.net(batch) - batch).square().mean()


def test_a_step_of_ones_own_takes_data_without_targets() -> None:
    x, y = xy()
    whole = pf.tensor(x)
    found = []
    for data in (
        whole, x, x.tolist(), {"x": x}, (x,), (x, y), frames(x, y)[0], TensorDataset(whole),
        [(x[:16],), (x[16:32],), (x[32:],)], DataLoader(x, 16),
    ):  # fmt: skip
        pf.manual_seed(1)
        net = nn.Linear(3, 3)
        model = Copies(net, optimizer=optim.SGD(net.parameters(), lr=0.001))
        found += model.fit(data, **QUIET).history["loss"]
    assert found == pytest.approx([found[0]] * len(found), rel=1e-5)


def test_nested_targets() -> None:
    """A loss of one's own gets them as they are."""
    x, y = xy()
    ce = nn.CrossEntropyLoss()
    half = x.sum(1) / 9

    def loss(output: pf.Tensor, target: Any) -> pf.Tensor:
        return ce(output, target["class"]) + (output[:, 0] - target["more"][0]).square().mean()

    data = (x, {"class": y, "more": (half,)})
    want = losses(data, made(loss=loss))
    assert want[0] > wanted()[0]


def test_predictions_take_the_same() -> None:
    x, y = xy()
    b = x[:, :1]
    model, two = made(), made(Sum())
    rows = TensorDataset(pf.tensor(x), pf.tensor(y))  # of which what stands first is predicted
    want, both = model.predict(x).numpy(), two.predict((x, b)).numpy()
    for data in (
        pf.tensor(x), x.tolist(), list(x), x.astype(np.float64), frames(x, y)[0],
        (c for c, _ in batches(x, y)), iter(batches(x, y)), Samples(lambda i: (x[i], y[i])),
        rows, TensorDataset(pf.tensor(x)), DataLoader(rows, 10), DataLoader([*pf.tensor(x)], 10),
        DataLoader(TensorDataset(pf.tensor(x)), 10),
    ):  # fmt: skip
        np.testing.assert_allclose(model.predict(data, batch_size=16), want, rtol=1e-5)
    for nested in (
        {"a": x, "b": b}, Two(x, b), Samples(lambda i: ((x[i], b[i]), y[i])),
        iter([((x, b), y)]), Samples(lambda i: {"a": x[i], "b": b[i]}),
    ):  # fmt: skip
        np.testing.assert_allclose(two.predict(nested, batch_size=16), both, rtol=1e-5)


def test_images(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    """Pictures in a list are uint8 with channels first; bytes become floats, which is said."""
    image = pytest.importorskip("PIL.Image")
    pixels = np.random.default_rng(0).integers(0, 255, (N, 4, 5, 3), dtype=np.uint8)
    y = (pixels.mean((1, 2, 3)) > 127).astype(np.int64)

    def model() -> pf.Model:
        return made(nn.Sequential(nn.Conv2d(3, 2, 3), nn.Flatten(), nn.Linear(12, 2)))

    floats = pixels.transpose(0, 3, 1, 2).astype(np.float32)
    want = losses((floats, y), model())
    monkeypatch.setattr(train_data, "_said", set())
    pictures = [image.fromarray(p) for p in pixels]
    assert losses((pictures, y), model()) == pytest.approx(want, rel=1e-4)
    assert "uint8" not in capsys.readouterr().err  # verbose=0
    for _ in range(2):
        assert losses((pictures, y), model(), verbose=1) == pytest.approx(want, rel=1e-4)
    said = capsys.readouterr().err
    assert said.count("fit: inputs is uint8 and becomes float32 from 0 to 255") == 1
    assert losses((floats.astype(np.float64), y), model(), verbose=1) is not None
    assert "fit: inputs is float64 and becomes float32" in capsys.readouterr().err
    grey = [p.convert("L") for p in pictures]
    x = train_data.tree("fit", "inputs", grey)
    assert (x.shape, x.dtype) == ((N, 1, 4, 5), pf.uint8)


def test_integer_inputs_stay() -> None:
    """For embeddings; bytes of less than three dims too."""
    moved = train_data.to_device("fit", {"a": np.ones((2, 3), np.uint8)}, "cpu", pf.float32)
    assert moved["a"].dtype is pf.uint8
    ids, y = xy()
    ids = ids.astype(np.int64)
    net = nn.Sequential(nn.Embedding(9, 2), nn.Flatten(), nn.Linear(6, 2))
    found = losses((ids, y), made(net))
    assert found[1] < found[0]


def test_rows_of_a_tree_are_gathered_leaf_by_leaf() -> None:
    x, y = xy()
    tree: Any = ({"a": x, "b": [x, x]}, (y,))
    loader = train_data.as_loader("fit", tree, batch_size=16, shuffle=True, sample_weight=y + 1)
    inputs, targets, weights = train_data.split("fit", next(iter(loader)))
    np.testing.assert_array_equal(inputs["a"], inputs["b"][1])
    np.testing.assert_array_equal(weights, targets[0] + 1)
    assert loader.dataset[5][0]["b"][0].tolist() == x[5].tolist()


class Any_(nn.Module):  # noqa: N801
    def forward(self, *args: Any, **kwargs: Any) -> Any:
        return len(args), list(kwargs)


class Optional(nn.Module):
    def forward(self, a: Any, b: Any = 0, *, c: Any = 0) -> Any:
        return a, b, c


CALLED: list[tuple[nn.Module, Any, Any]] = [
    (Optional(), {"a": 1}, (1, 0, 0)), (Optional(), {"c": 3, "a": 1}, (1, 0, 3)),
    (Optional(), (1, 2), (1, 2, 0)), (Optional(), [1], (1, 0, 0)),
    (Optional(), {"x": 1}, ({"x": 1}, 0, 0)), (Any_(), (1, 2, 3), (3, [])),
    (Any_(), {"q": 1}, (0, ["q"])), (nn.Identity(), (1,), 1),
    (nn.Sequential(nn.Identity()), [1], 1), (nn.Sequential(Optional()), (1, 2), ((1, 2), 0, 0)),
]  # fmt: skip


@pytest.mark.parametrize(("net", "inputs", "want"), CALLED, ids=str)
def test_a_network_is_called_as_its_forward_says(net: nn.Module, inputs: Any, want: Any) -> None:
    for _ in range(2):  # what was decided is kept
        assert train_data.call(net, inputs) == want
