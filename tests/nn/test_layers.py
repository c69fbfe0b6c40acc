"""One row a layer: its repr, state_dict, outputs and gradients are PyTorch's."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import pyframe as pf
from pyframe import nn

Make = Callable[[Any], Any]
NUMBERS = "numbers"
CLASSES = "classes"

LAYERS: list[tuple[str, Make, tuple[int, ...], str]] = [
    ("Linear", lambda n: n.Linear(5, 3), (4, 5), NUMBERS),
    ("Linear without bias", lambda n: n.Linear(5, 3, bias=False), (2, 4, 5), NUMBERS),
    ("Conv2d", lambda n: n.Conv2d(3, 4, 3, padding=1), (2, 3, 6, 5), NUMBERS),
    ("Conv2d, all options",
     lambda n: n.Conv2d(4, 6, (3, 2), stride=2, padding=(1, 0), dilation=2, groups=2, bias=False),
     (2, 4, 9, 8), NUMBERS),
    ("Conv2d same", lambda n: n.Conv2d(2, 3, 3, padding="same"), (1, 2, 5, 5), NUMBERS),
    ("MaxPool2d", lambda n: n.MaxPool2d(2), (2, 3, 6, 7), NUMBERS),
    ("MaxPool2d, all options", lambda n: n.MaxPool2d(3, 2, 1, ceil_mode=True), (1, 2, 8, 8),
     NUMBERS),
    ("AvgPool2d", lambda n: n.AvgPool2d(2), (2, 3, 6, 7), NUMBERS),
    ("AvgPool2d, all options",
     lambda n: n.AvgPool2d((3, 2), 2, (1, 0), ceil_mode=True, count_include_pad=False),
     (2, 3, 6, 7), NUMBERS),
    ("Conv2d valid, one image", lambda n: n.Conv2d(2, 3, 3, padding="valid"), (2, 5, 5), NUMBERS),
    ("ReLU", lambda n: n.ReLU(), (4, 5), NUMBERS),
    ("GELU", lambda n: n.GELU(), (4, 5), NUMBERS),
    ("GELU tanh", lambda n: n.GELU(approximate="tanh"), (4, 5), NUMBERS),
    ("SiLU", lambda n: n.SiLU(), (4, 5), NUMBERS),
    ("ReLU in place", lambda n: n.Sequential(n.Linear(5, 3), n.ReLU(inplace=True)), (4, 5),
     NUMBERS),
    ("SiLU in place", lambda n: n.Sequential(n.Linear(5, 3), n.SiLU(inplace=True)), (4, 5),
     NUMBERS),
    ("Tanh", lambda n: n.Tanh(), (4, 5), NUMBERS),
    ("Sigmoid", lambda n: n.Sigmoid(), (4, 5), NUMBERS),
    ("Softmax", lambda n: n.Softmax(dim=1), (4, 5), NUMBERS),
    ("LogSoftmax", lambda n: n.LogSoftmax(dim=-1), (4, 5), NUMBERS),
    ("Flatten", lambda n: n.Flatten(), (2, 3, 4), NUMBERS),
    ("Identity", lambda n: n.Identity(7), (2, 3), NUMBERS),
    ("Dropout", lambda n: n.Dropout(0.3).eval(), (2, 3), NUMBERS),
    ("LayerNorm", lambda n: n.LayerNorm(5), (4, 5), NUMBERS),
    ("LayerNorm without bias", lambda n: n.LayerNorm((3, 4), eps=1e-3, bias=False), (2, 3, 4),
     NUMBERS),
    ("LayerNorm, fixed", lambda n: n.LayerNorm([4], elementwise_affine=False), (2, 4), NUMBERS),
    ("Embedding", lambda n: n.Embedding(6, 3), (4, 2), CLASSES),
    ("Embedding with padding", lambda n: n.Embedding(6, 3, padding_idx=2), (4, 2), CLASSES),
    ("Embedding with padding from the end", lambda n: n.Embedding(6, 3, padding_idx=-1), (4,),
     CLASSES),
    ("Sequential", lambda n: n.Sequential(n.Linear(5, 4), n.ReLU(), n.Sequential(n.Linear(4, 2))),
     (3, 5), NUMBERS),
]  # fmt: skip

LOSSES: list[tuple[Make, str]] = [
    (lambda n: n.MSELoss(), NUMBERS),
    (lambda n: n.MSELoss(reduction="sum"), NUMBERS),
    (lambda n: n.L1Loss(reduction="none"), NUMBERS),
    (lambda n: n.L1Loss(), NUMBERS),
    (lambda n: n.NLLLoss(ignore_index=1), CLASSES),
    (lambda n: n.NLLLoss(reduction="none"), CLASSES),
    (lambda n: n.CrossEntropyLoss(), CLASSES),
    (lambda n: n.CrossEntropyLoss(label_smoothing=0.1, reduction="sum"), CLASSES),
    (lambda n: n.CrossEntropyLoss(label_smoothing=0.2, ignore_index=2), CLASSES),
    (lambda n: n.CrossEntropyLoss(reduction="none", ignore_index=0), CLASSES),
    (lambda n: n.CrossEntropyLoss(label_smoothing=0.1), NUMBERS),
]


@pytest.mark.parametrize(
    ("make", "shape", "kind"), [r[1:] for r in LAYERS], ids=[r[0] for r in LAYERS]
)
def test_layer(make: Make, shape: tuple[int, ...], kind: str, device: str, torch: Any) -> None:
    ours, theirs = make(nn), make(torch.nn)
    assert repr(ours) == repr(theirs)
    want = theirs.state_dict()
    assert {k: tuple(v.shape) for k, v in ours.state_dict().items()} == {
        k: tuple(v.shape) for k, v in want.items()
    }
    ours.load_state_dict({k: pf.from_numpy(v.numpy().copy()) for k, v in want.items()})
    ours.to(device)
    rng = np.random.default_rng(1)
    data = (
        rng.standard_normal(shape).astype(np.float32)
        if kind == NUMBERS
        else rng.integers(0, 6, shape)
    )
    x, y = pf.from_numpy(data.copy()).to(device), torch.from_numpy(data.copy())
    if kind == NUMBERS:
        x.requires_grad_()
        y.requires_grad_()
    got, wanted = ours(x), theirs(y)
    compare(got, wanted)
    got.square().sum().backward() if got.requires_grad else None
    wanted.square().sum().backward() if wanted.requires_grad else None
    if kind == NUMBERS:
        compare(x.grad, y.grad)
    for p, q in zip(ours.parameters(), theirs.parameters(), strict=True):
        compare(p.grad, q.grad)


@pytest.mark.parametrize(("make", "kind"), LOSSES)
def test_loss(make: Make, kind: str, device: str, torch: Any) -> None:
    rng = np.random.default_rng(2)
    data = rng.standard_normal((6, 4)).astype(np.float32)
    target = data[::-1].copy() if kind == NUMBERS else rng.integers(0, 4, 6)
    x, y = pf.from_numpy(data.copy()).to(device).requires_grad_(), torch.from_numpy(data.copy())
    y.requires_grad_()
    ours, theirs = make(nn), make(torch.nn)
    assert repr(ours) == repr(theirs)
    got, want = ours(x, pf.from_numpy(target).to(device)), theirs(y, torch.from_numpy(target))
    compare(got, want)
    got.sum().backward()
    want.sum().backward()
    compare(x.grad, y.grad)


def compare(got: Any, want: Any) -> None:
    np.testing.assert_allclose(
        got.detach().cpu().numpy(), want.detach().numpy(), rtol=1e-4, atol=1e-5
    )


@pytest.mark.parametrize(
    "options",
    [{}, {"reduction": "sum"}, {"ignore_index": 1}, {"label_smoothing": 0.3, "ignore_index": 0}],
    ids=str,
)
def test_weighted_cross_entropy(options: dict[str, Any], device: str, torch: Any) -> None:
    """The weight is a buffer: it is saved, and moves with the loss."""
    w = np.array([1.0, 2.0, 0.5], np.float32)
    ours = nn.CrossEntropyLoss(pf.from_numpy(w), **options).to(device)
    theirs = torch.nn.CrossEntropyLoss(torch.from_numpy(w), **options)
    assert list(ours.state_dict()) == list(theirs.state_dict()) == ["weight"]
    x, y = np.eye(3, dtype=np.float32) * 2, np.array([0, 1, 1])
    a, b = pf.from_numpy(x.copy()).to(device).requires_grad_(), torch.from_numpy(x)
    got = ours(a, pf.from_numpy(y).to(device))
    want = theirs(b.requires_grad_(), torch.from_numpy(y))
    compare(got, want)
    got.backward()
    want.backward()
    compare(a.grad, b.grad)


@pytest.mark.parametrize(
    "make",
    [lambda n: n.Linear(400, 50), lambda n: n.Conv2d(16, 32, 5), lambda n: n.Embedding(300, 40)],
)
def test_first_weights_are_distributed_as_pytorchs(make: Make, torch: Any) -> None:
    for p, q in zip(make(nn).parameters(), make(torch.nn).parameters(), strict=True):
        a, b = p.detach().numpy(), q.detach().numpy()
        few = 5 / np.sqrt(a.size)
        assert a.std() == pytest.approx(b.std(), rel=0.05 + few)
        assert abs(a.mean()) < 5 * a.std() / np.sqrt(a.size)
        if b.max() < 3 * b.std():  # uniform: the bounds are known
            assert np.abs(a).max() == pytest.approx(np.abs(b).max(), rel=0.02 + few)


def test_the_same_seed_gives_the_same_bits(gpu: str) -> None:
    def bits(device: str) -> list[Any]:
        pf.manual_seed(11)
        net = nn.Sequential(nn.Conv2d(1, 4, 3), nn.Linear(7, 3), nn.Embedding(5, 2)).to(device)
        return [p.detach().cpu().numpy().view(np.int32).tolist() for p in net.parameters()]

    assert bits("cpu") == bits("cpu") == bits(gpu)


def test_dropout(device: str) -> None:
    layer = nn.Dropout(0.25)
    x = pf.ones(100, 100, device=device).requires_grad_()
    y = layer(x)
    kept = (y != 0).float().mean().item()
    assert kept == pytest.approx(0.75, abs=0.02)
    assert y.max().item() == pytest.approx(1 / 0.75)
    y.sum().backward()
    assert x.grad is not None
    assert (x.grad == y.detach()).all().item()
    assert layer.eval()(x) is x
    assert nn.Dropout(1.0)(x).abs().sum().item() == 0


def test_dropout_is_the_same_everywhere(gpu: str) -> None:
    masks = []
    for device in ("cpu", gpu):
        pf.manual_seed(4)
        masks.append([nn.Dropout(0.5)(pf.ones(50, device=device)).tolist() for _ in range(2)])
    assert masks[0] == masks[1]
    assert masks[0][0] != masks[0][1]


INITS: list[tuple[str, dict[str, Any]]] = [
    ("uniform_", {}),
    ("uniform_", {"a": -3.0, "b": -1.0}),
    ("normal_", {}),
    ("normal_", {"mean": 2.0, "std": 0.1}),
    ("xavier_uniform_", {}),
    ("xavier_uniform_", {"gain": 4.0}),
    ("xavier_normal_", {}),
    ("kaiming_uniform_", {}),
    ("kaiming_uniform_", {"a": 5**0.5}),
    ("kaiming_uniform_", {"mode": "fan_out", "nonlinearity": "relu"}),
    ("kaiming_normal_", {}),
    ("kaiming_normal_", {"mode": "fan_out", "nonlinearity": "selu"}),
    ("constant_", {"val": 7.0}),
    ("ones_", {}),
    ("zeros_", {}),
]


@pytest.mark.parametrize(("name", "options"), INITS)
def test_init(name: str, options: dict[str, Any], torch: Any) -> None:
    """PyTorch's distribution: the same mean, spread and bounds."""
    x, y = pf.zeros(60, 50, 3).requires_grad_(), torch.zeros(60, 50, 3)
    assert getattr(nn.init, name)(x, **options) is x
    getattr(torch.nn.init, name)(y, **options)
    got, want = x.detach().numpy(), y.numpy()
    spread = float(want.std())
    assert got.std() == pytest.approx(spread, rel=0.03, abs=1e-6)
    assert got.mean() == pytest.approx(want.mean(), abs=0.05 * spread + 1e-6)
    if "normal" not in name:
        assert got.min() == pytest.approx(want.min(), abs=0.01 * spread + 1e-6)
        assert got.max() == pytest.approx(want.max(), abs=0.01 * spread + 1e-6)


def test_layers_without_elements(torch: Any) -> None:
    for lib in (pf, torch):
        with pytest.warns(UserWarning, match="zero-element tensors is a no-op"):
            layer = lib.nn.Linear(0, 3)
        assert layer(lib.zeros(2, 0)).tolist() == [layer.bias.tolist()] * 2


def test_init_errors(torch: Any) -> None:
    for name in ("linear", "conv2d", "sigmoid", "relu", "tanh", "leaky_relu", "selu"):
        assert nn.init.calculate_gain(name) == torch.nn.init.calculate_gain(name)
    assert nn.init.calculate_gain("leaky_relu", 0.3) == torch.nn.init.calculate_gain(
        "leaky_relu", 0.3
    )
    with pytest.raises(ValueError, match="negative_slope steep not a valid number"):
        nn.init.calculate_gain("leaky_relu", "steep")
    with pytest.raises(ValueError, match="Mode fan not supported"):
        nn.init.kaiming_uniform_(pf.zeros(2, 2), mode="fan")
    with pytest.raises(ValueError, match="Unsupported nonlinearity swoosh"):
        nn.init.calculate_gain("swoosh")
    with pytest.raises(ValueError, match="fewer than 2 dimensions"):
        nn.init.xavier_uniform_(pf.zeros(3))
    for bad, message in (
        (lambda: nn.Conv2d(3, 4, 3, groups=2), "in_channels must be divisible by groups"),
        (lambda: nn.Conv2d(2, 3, 3, groups=2), "out_channels must be divisible by groups"),
        (lambda: nn.Conv2d(2, 3, 3, groups=0), "groups must be a positive integer"),
        (lambda: nn.Conv2d(2, 3, 3, padding="some"), "Invalid padding string 'some'"),
        (lambda: nn.Conv2d(2, 3, 3, 2, "same"), "not supported for strided convolutions"),
        (lambda: nn.Dropout(2), "between 0 and 1, but got 2"),
        (lambda: nn.Embedding(3, 2, padding_idx=5), "Padding_idx must be within num_embeddings"),
        (lambda: nn.MSELoss(reduction="all"), "all is not a valid value for reduction"),
    ):
        with pytest.raises(ValueError, match=message):
            bad()
    with pytest.raises(NotImplementedError, match="padding_mode='reflect' is not supported"):
        nn.Conv2d(2, 3, 3, padding_mode="reflect")
    with pytest.raises(TypeError, match="positional argument"):
        nn.MSELoss("sum")  # PyTorch's first argument is another
