"""Layers and losses: what PyTorch's own table of modules draws, and the rows of layers.py.

Ours is made with the same arguments as PyTorch's and loads its state_dict; then reprs, fields,
outputs, gradients and buffers are alike, copies do the same, and so does a compiled step.
`-k nn.LSTM` runs what is of one layer.
"""

from __future__ import annotations

import contextlib
import importlib
import inspect
import typing
import warnings
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from compared import alike
from refused import calls, check_refused, rows

import pyframe as pf
from pyframe import Tensor, nn
from pyframe.nn import functional as F
from pyframe.nn.modules.fields import FieldModule, layer
from tests.nn.cases import Case, check_errors, database, drawn, first_of, of_row
from tests.nn.layers import REFUSED, Row, advice, layers, names, row_of, rows_of


@contextlib.contextmanager
def quietly() -> Iterator[None]:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # both warn of what is deprecated
        yield


# --- from the table

NAMES = pytest.mark.parametrize("name", layers(), ids=lambda name: f"nn.{name}")


@NAMES
def test_layer(name: str, by_numpy: None) -> None:
    with quietly():
        check_layer(name, layers())


def check_layer(name: str, kinds: dict[str, type]) -> None:
    info, some = database().get(name), rows_of(name)
    if info is None and not some:
        pytest.fail(advice(name, kinds))
    for i, row in enumerate(some):
        check_row(row, first=i == 0, compiled=info is None and i == 0)
    for training in (True, False) if info is not None and info.train_and_eval_differ else (True,):
        for i, made in enumerate(drawn(name, training)):
            case = Case(made, training=training)
            case.compare()
            if i == 0:
                case.check_copies()
                case.check_compiled()
    check_errors(name)


def check_row(row: Row, first: bool = True, compiled: bool = True) -> None:
    try:
        case = Case(of_row(row))
        case.compare()
        case.compare()  # from what the first step has left
        if first:
            case.check_copies()
        if compiled:
            case.check_compiled()
        case.train(False)
        case.compare()
    except BaseException as error:
        error.add_note(row.text)
        raise


class Snake(nn.Module):
    """A layer that PyTorch lacks."""

    def __init__(self, alpha: float) -> None:
        super().__init__()
        self.alpha = nn.Parameter(pf.tensor(alpha))

    def forward(self, input: pf.Tensor) -> pf.Tensor:
        return input + (input * self.alpha).sin() ** 2 / self.alpha


def test_a_layer_without_a_row(monkeypatch: pytest.MonkeyPatch, by_numpy: None) -> None:
    said = "no row in tests/nn/layers.py for nn.Snake: add one beside nn."
    with pytest.raises(pytest.fail.Exception, match=said):
        check_layer("Snake", {**layers(), "Snake": Snake})
    monkeypatch.setattr(nn, "Snake", Snake, raising=False)
    check_row(row_of("nn.Snake(2.0)(R(3, 4)) == x + (alpha * x).sin() ** 2 / alpha"))
    with pytest.raises(AssertionError, match="result"):
        check_row(row_of("nn.Snake(2.0)(R(3, 4)) == x + (alpha * x).cos() ** 2 / alpha"))


def test_pytorchs_table_has_no_other_layers() -> None:
    assert {*database()} <= {*layers()}


@pytest.mark.parametrize(("call", "text"), rows("\n".join(REFUSED)))
def test_refused(call: str, text: str, torch: Any) -> None:
    check_refused(call, text, names, torch)


@pytest.mark.sampled(4)
@NAMES
def test_layer_on_gpu(name: str, gpu: str) -> None:
    with quietly():
        first_of(name, gpu).compare()


def signature(method: Any) -> list[Any]:
    return [
        (p.name, p.kind, getattr(p.default, "__name__", p.default))
        for p in inspect.signature(method).parameters.values()
    ]


def test_signatures(torch: Any) -> None:
    """Arguments in the same order with the same defaults, and the versions of states; the file of
    a layer has PyTorch's name too."""
    for name, kind in layers().items():
        theirs = getattr(torch.nn, name, kind)
        for method in ("__init__", "forward", "from_pretrained", "reset_parameters"):
            if hasattr(theirs, method):
                got, want = (signature(getattr(k, method)) for k in (kind, theirs))
                assert got == want, f"{name}.{method}"
        assert kind._version == theirs._version, name
        file = importlib.import_module(theirs.__module__.replace("torch", "pyframe"))
        assert getattr(file, name) is kind


MADE = """
nn.Linear(3, 2) nn.Bilinear(2, 3, 2) nn.Conv1d(2, 2, 1) nn.Conv2d(2, 2, 1) nn.Conv3d(2, 2, 1)
nn.ConvTranspose1d(2, 2, 1) nn.ConvTranspose2d(2, 2, 1) nn.ConvTranspose3d(2, 2, 1) nn.PReLU(2)
nn.BatchNorm1d(2) nn.BatchNorm2d(2) nn.BatchNorm3d(2) nn.SyncBatchNorm(2) nn.RMSNorm(2)
nn.InstanceNorm1d(2, 1e-5, 0.1, True, True) nn.GroupNorm(1, 2) nn.LayerNorm(2) nn.Embedding(3, 2)
nn.EmbeddingBag(3, 2) nn.AdaptiveLogSoftmaxWithLoss(4, 4, [2], 2.0) nn.LinearCrossEntropyLoss(3, 2)
nn.LazyLinear(2) nn.LazyConv1d(2, 1) nn.LazyConvTranspose2d(2, 1) nn.LazyInstanceNorm1d(affine=True)
nn.LazyBatchNorm1d() nn.LSTM(2, 3) nn.GRUCell(2, 3) nn.MultiheadAttention(4, 2)
nn.TransformerEncoderLayer(4, 2) nn.Transformer(4, 2, 1, 1)
"""


@pytest.mark.filterwarnings("ignore:enable_nested_tensor")  # PyTorch's
@pytest.mark.parametrize("text", MADE.strip().replace(" nn", "\nnn").split("\n"))
def test_where_and_of_what_a_layer_is_made(text: str, gpu: str, torch: Any) -> None:
    def made(lib: Any, more: str, **given: Any) -> dict[str, Any]:
        with quietly():  # of what makes PyTorch's slow
            layer = eval(f"{text[:-1]}, {more})".replace("(,", "("), {"nn": lib.nn, **given})
        return dict(layer.state_dict(keep_vars=True))

    for kind in ("float16", "float64"):
        ours, theirs = (made(t, "dtype=d", d=getattr(t, kind)) for t in (pf, torch))
        assert {k: f"torch.{v.dtype.name}" for k, v in ours.items()} == {
            k: str(v.dtype) for k, v in theirs.items()
        }
    assert {x.device.type for x in made(pf, "device=d", d=gpu).values()} == {"gpu"}
    with pytest.raises(TypeError, match="dtype"):
        made(pf, "dtype='float32'")


def test_sizes_repeated() -> None:
    utils = importlib.import_module("pyframe.nn.modules.utils")
    assert (utils._single(1), utils._pair(2), utils._triple(3)) == ((1,), (2, 2), (3, 3, 3))
    assert utils._quadruple([1, 2]) == utils._ntuple(7)((1, 2)) == (1, 2)


# --- how layers begin

FIRST = """
nn.Linear(400, 50) | nn.Conv2d(16, 32, 5) | nn.Embedding(300, 40) | nn.Conv1d(64, 64, 5, groups=4)
nn.ConvTranspose2d(24, 32, 5) | nn.ConvTranspose1d(64, 48, 5, groups=2) | nn.Bilinear(30, 20, 40)
nn.EmbeddingBag(300, 40) | nn.AdaptiveLogSoftmaxWithLoss(90, 300, [120]) | nn.LSTM(30, 64, 2)
nn.GRUCell(30, 64) | nn.RNN(30, 64)
"""


@pytest.mark.parametrize("text", calls(FIRST))
def test_first_weights_are_distributed_as_pytorchs(text: str, torch: Any) -> None:
    ours, theirs = (eval(text, names(lib)).parameters() for lib in (pf, torch))
    for p, q in zip(ours, theirs, strict=True):
        a, b = p.detach().numpy(), q.detach().numpy()
        few = 5 / np.sqrt(a.size)
        assert a.std() == pytest.approx(b.std(), rel=0.05 + few)
        assert abs(a.mean()) < 5 * a.std() / np.sqrt(a.size)
        if b.max() < 3 * b.std():  # uniform: the bounds are known
            assert np.abs(a).max() == pytest.approx(np.abs(b).max(), rel=0.02 + few)


@pytest.mark.parametrize("shape", [(2, 4, 0), (0, 4, 5), (2, 0, 3), (1, 4, 1), (1, 0, 1)])
@pytest.mark.parametrize("name", ["BatchNorm1d", "InstanceNorm1d"])
def test_norms_without_elements(name: str, shape: Any, torch: Any) -> None:
    """Gradients are zeros, statistics stay, and the batch counts; or PyTorch's error."""

    def trained(lib: Any, more: dict[str, bool]) -> Any:
        layer = getattr(lib.nn, name)(shape[1], **more)
        x = lib.ones(shape).requires_grad_()
        try:
            y = layer(x)
        except ValueError as error:
            return str(error).split(",")[0].split(": ")[-1]
        y.sum().backward()
        grads = [p.grad.tolist() for p in (x, *layer.parameters())]
        return y.shape, grads, [b.tolist() for b in layer.buffers()]

    for more in ({}, {"affine": False}, {"track_running_stats": False}):
        with contextlib.suppress(IndexError):  # PyTorch's, of no channels
            assert trained(pf, more) == trained(torch, more)


# --- what changes in training


def test_sync_batchnorm_takes_the_place_of_others() -> None:
    net = nn.Sequential(nn.Linear(3, 2), nn.Sequential(nn.BatchNorm1d(2, 1e-3, None, bias=False)))
    old = net[1][0].eval()
    out = nn.SyncBatchNorm.convert_sync_batchnorm(net)
    new = out[1][0]
    assert out is net
    assert type(new) is nn.SyncBatchNorm
    assert (new.eps, new.momentum, new.training, new.bias) == (1e-3, None, False, None)
    assert new.weight is old.weight
    assert new.running_var is old.running_var
    x = pf.randn(4, 2)
    assert new(x).tolist() == old(x).tolist()
    assert type(nn.SyncBatchNorm.convert_sync_batchnorm(nn.BatchNorm2d(1))) is nn.SyncBatchNorm


def test_a_state_of_before_batches_were_counted(torch: Any) -> None:
    """State dicts without metadata, of version 1, lack num_batches_tracked."""
    net = nn.BatchNorm1d(2)
    net(pf.randn(3, 2))
    state = {k: v for k, v in nn.BatchNorm1d(2).state_dict().items() if "batches" not in k}
    assert "<All keys matched" in str(net.load_state_dict(state))
    assert net.num_batches_tracked.item() == 1
    assert net.running_mean.tolist() == [0, 0]


DROPOUTS = [
    ("Dropout", (40, 5, 4), ()),
    ("Dropout1d", (40, 9, 4), (2,)),
    ("Dropout2d", (40, 9, 2, 2), (2, 3)),
    ("Dropout3d", (40, 9, 2, 1, 2), (2, 3, 4)),
    ("AlphaDropout", (40, 5, 4), ()),
    ("FeatureAlphaDropout", (40, 9, 2, 2), (2, 3)),
]


@pytest.mark.sampled(3)
@pytest.mark.parametrize(("name", "shape", "together"), DROPOUTS, ids=[r[0] for r in DROPOUTS])
def test_dropouts(
    name: str, shape: tuple[int, ...], together: tuple[int, ...], device: str
) -> None:
    """Elements, or whole channels, take the one value of what is dropped, as often as p says; the
    same on each device."""
    results = []
    for place in {"cpu", device}:
        pf.manual_seed(5)
        layer = getattr(nn, name)(0.25)
        x = pf.ones(shape, device=place).requires_grad_()
        y = layer(x)
        y.sum().backward()
        values = sorted(set(y.detach().flatten().tolist()))
        assert len(values) == 2
        assert "Alpha" in name or values == [0, pytest.approx(1 / 0.75)]
        low = (y.detach() == values[0]).float()
        assert low.mean().item() == pytest.approx(0.25, abs=0.09)
        assert ((x.grad == 0).float() == low).all().item()
        if together:
            assert set(low.mean(together).flatten().tolist()) == {0.0, 1.0}
        assert layer.eval()(x) is x
        if "Alpha" not in name:
            assert getattr(nn, name)(1.0)(x).abs().sum().item() == 0
        results.append(y.tolist())
    np.testing.assert_allclose(results[0], results[-1], rtol=1e-6)


# --- older arguments, tables that are given


def test_adaptive_softmax_tells_all_classes(torch: Any) -> None:
    ours, theirs = [n.AdaptiveLogSoftmaxWithLoss(8, 12, [3, 7], 2.0) for n in (nn, torch.nn)]
    ours.load_state_dict({k: pf.from_numpy(v.numpy()) for k, v in theirs.state_dict().items()})
    x = np.random.default_rng(2).standard_normal((20, 8)).astype(np.float32) * 4
    alike(ours.log_prob(pf.from_numpy(x)), theirs.log_prob(torch.from_numpy(x)))
    got = ours.predict(pf.from_numpy(x)).tolist()
    assert got == theirs.predict(torch.from_numpy(x)).tolist()
    assert max(got) >= 3, "some of the rare classes"


# --- layers made of fields: they are plain classes to those who build on them


class _Elementwise(FieldModule):
    def forward(self, input: Tensor) -> Tensor:
        """Elementwise."""
        raise NotImplementedError


@layer(F.leaky_relu)
class Leaky(_Elementwise):
    """Of a negative slope."""

    negative_slope: float = 0.5
    inplace: bool = False


def test_arguments() -> None:
    """A layer has a plain `__init__`, with Python's own errors."""
    assert str(inspect.signature(Leaky)) == (
        "(negative_slope: 'float' = 0.5, inplace: 'bool' = False) -> 'None'"
    )
    assert typing.get_type_hints(nn.CrossEntropyLoss.__init__)["weight"] == Tensor | None
    assert not hasattr(Leaky, "inplace")
    assert inspect.getdoc(Leaky.forward) == "Elementwise."
    x = pf.tensor([-2.0, 2.0])
    assert Leaky(0.25, inplace=True)(input=x) is x
    assert x.tolist() == [-0.5, 2]
    bad: Any = Leaky
    for call, said in (
        (lambda: bad(1, False, 2), r"Leaky.__init__\(\) takes from 1 to 3 positional arguments"),
        (lambda: bad(slope=1), r"Leaky.__init__\(\) got an unexpected keyword argument 'slope'"),
        (lambda: bad(1, negative_slope=1), "multiple values for argument 'negative_slope'"),
        (lambda: nn.Threshold(), r"Threshold.__init__\(\) missing 2 required positional arguments"),
        (lambda: bad()(), r"Leaky.forward\(\) missing 1 required positional argument: 'input'"),
    ):
        with pytest.raises(TypeError, match=said):
            call()


def test_subclasses() -> None:
    """What a subclass annotates is its own affair."""

    class Named(nn.LeakyReLU):
        name: str

        def called(self, name: str) -> Named:
            self.name = name
            return self

    class Twice(nn.MaxPool1d):
        times = 2

        def __init__(self, size: int) -> None:
            super().__init__(size, stride=1)
            self.size = size

        def forward(self, input: Tensor) -> Tensor:
            return super().forward(input) * self.times

    assert inspect.signature(Named) == inspect.signature(nn.LeakyReLU)
    assert repr(Named(0.5).called("x")) == "Named(negative_slope=0.5)"
    assert Twice(2)(pf.tensor([[1.0, 3.0, 2.0]])).tolist() == [[6, 6]]
    assert Twice(2).size == 2
    assert list(inspect.signature(Twice).parameters) == ["size"]


def test_all_fields_are_given() -> None:
    """A function that does not take all fields is refused when the class is made."""
    with pytest.raises(AssertionError, match=r"Odd: the function takes \('negative_slope',\)"):

        @layer(F.leaky_relu)
        class Odd(_Elementwise):
            negative_slope: float
            other: int = 0
