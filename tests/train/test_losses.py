"""The loss of several batches is that of one large batch, whatever it is divided by: over an epoch,
in groups of batches, with weights, compiled or not; PyTorch in float64 says what it is."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import pyframe as pf
import pyframe.nn.functional as F
from pyframe import nn, optim
from pyframe.text import NextToken
from pyframe.train import recovery

torch = pytest.importorskip("torch", reason="PyTorch, the oracle, is missing (scripts/test)")
tnn = torch.nn
N, T, C = 12, 4, 3
RNG = np.random.default_rng(7)
X = RNG.normal(size=(N, 2)).astype("f4")
REAL = RNG.normal(size=(N, T * C)).astype("f4")
CLASSES = RNG.integers(0, C, (N, T))
SOME = CLASSES.copy()  # the second batch of 4 has nothing to learn, the others have some
SOME[4:8] = SOME[9] = SOME[0, 1:] = -100
NONE = np.full_like(SOME, -100)
WEIGHT = np.array([1.0, 5.0, 0.25], "f4")
SEEN = RNG.random((N, T * C)) < 0.4
SEEN[4:8] = False
GAPS = np.where(SEEN, REAL, np.nan).astype("f4")
ONES, FACTORS = np.ones(N, "f4"), RNG.random(N).astype("f4")


def masked(output: pf.Tensor, target: pf.Tensor) -> Any:
    """A user's own: the squares of what was seen, and how many there are."""
    seen = ~target.isnan()
    return (output - target.where(seen, 0)).square().where(seen, 0).sum(), seen.sum()


def masked_of(output: pf.Tensor, target: pf.Tensor, reduction: str = "mean") -> Any:
    """One that weights of samples go with."""
    seen = ~target.isnan()
    each = (output - target.where(seen, 0)).square().where(seen, 0)
    return (each if reduction == "none" else each.sum()), seen.sum()


def torch_masked(output: torch.Tensor, target: torch.Tensor, reduction: str = "mean") -> Any:
    seen = ~target.isnan()
    each = torch.where(seen, (output - torch.where(seen, target, 0)) ** 2, 0.0)
    return each if reduction == "none" else each.sum() / seen.sum()


def of_next(output: torch.Tensor, target: torch.Tensor, reduction: str = "mean") -> torch.Tensor:
    return tnn.functional.cross_entropy(output[..., :-1], target[:, 1:], reduction=reduction)


Loss = Callable[..., Any]
# name -> (loss, PyTorch's, targets, how the net's (N, T * C) outputs are seen, ignored ones)
CASES: dict[str, tuple[Any, Loss, np.ndarray, str, Any]] = {
    "plain": (nn.CrossEntropyLoss(), tnn.CrossEntropyLoss(), CLASSES, "NCT", None),
    "rows": (nn.CrossEntropyLoss(), tnn.CrossEntropyLoss(), SOME[:, 0], "NC", NONE[:, 0]),
    "ignored": (nn.CrossEntropyLoss(), tnn.CrossEntropyLoss(), SOME, "NCT", NONE),
    "weighted": (
        nn.CrossEntropyLoss(weight=pf.tensor(WEIGHT), label_smoothing=0.1),
        tnn.CrossEntropyLoss(weight=torch.tensor(WEIGHT).double(), label_smoothing=0.1),
        SOME, "NCT", NONE),
    "function": (
        functools.partial(F.cross_entropy, ignore_index=1),
        functools.partial(tnn.functional.cross_entropy, ignore_index=1), CLASSES, "NCT",
        np.ones_like(CLASSES)),
    "sum": (nn.CrossEntropyLoss(reduction="sum"), tnn.CrossEntropyLoss(reduction="sum"), SOME,
            "NCT", NONE),
    "squares": (nn.MSELoss(), tnn.MSELoss(), REAL, "N", None),
    "log-likelihood": (nn.NLLLoss(), tnn.NLLLoss(), SOME, "NCT", NONE),
    "divergence": (
        nn.KLDivLoss(reduction="batchmean"), tnn.KLDivLoss(reduction="batchmean"), abs(REAL), "N",
        None),
    "margins": (nn.MultiMarginLoss(), tnn.MultiMarginLoss(), CLASSES[:, 0], "NC", None),
    "two classes": (
        nn.BCEWithLogitsLoss(pos_weight=pf.tensor(3.0)),
        tnn.BCEWithLogitsLoss(pos_weight=torch.tensor(3.0)), (REAL > 0).astype("f4"), "N", None),
    "next token": (NextToken(), of_next, SOME, "NTC", NONE),
    "own": (masked, torch_masked, GAPS, "N", np.full_like(GAPS, np.nan)),
    "own, each": (masked_of, torch_masked, GAPS, "N", np.full_like(GAPS, np.nan)),
}  # fmt: skip


class Net(nn.Module):
    def __init__(self, seen: str) -> None:
        super().__init__()
        pf.manual_seed(1)
        self.seen, self.linear = seen, nn.Linear(2, T * C)

    def forward(self, x: pf.Tensor) -> pf.Tensor:
        out = self.linear(x)
        if self.seen == "NC":
            return out[:, :C]
        return out.reshape(-1, *{"N": (T * C,), "NCT": (C, T), "NTC": (T, C)}[self.seen])


def torch_step(
    net: Net, loss: Loss, y: np.ndarray, weights: Any = None, of_classes: Any = None
) -> tuple[float, np.ndarray]:
    """The loss of all samples at once, and the gradient of the net's weight."""
    w = torch.tensor(net.linear.weight.numpy(force=True)).double().requires_grad_()
    out = torch.tensor(X).double() @ w.T + torch.tensor(net.linear.bias.numpy(force=True)).double()
    if net.seen == "NC":
        out = out[:, :C]
    elif net.seen != "N":
        out = out.reshape(-1, C, T) if net.seen == "NCT" else out.reshape(-1, T, C).mT
    target = torch.tensor(y)
    target = target.double() if target.is_floating_point() else target
    value = loss(out, target)
    if weights is not None or of_classes is not None:
        if isinstance(loss, tnn.Module):
            kind = loss.reduction
            loss.reduction = "none"
            each = loss(out, target)
            loss.reduction = kind
        else:
            each = loss(out, target, reduction="none")
        by = each.detach().sum() / value.detach()
        if of_classes is not None:
            each = each * torch.tensor(of_classes)[target.clamp(min=0)]
        if weights is not None:
            each = each * torch.tensor(weights).double().reshape(-1, *[1] * (each.ndim - 1))
        value = each.sum() / by
    (grad,) = torch.autograd.grad(value, w)
    return value.item(), grad.numpy()


def fitted(
    case: str, y: Any = None, batch_size: int = 4, of: Any = pf.Model, **options: Any
) -> Any:
    """The epoch's loss, the gradient that its one update had, and the model."""
    loss, _, targets, seen, _ = CASES[case]
    net = Net(seen)
    model = of(net, loss, optim.SGD(net.parameters(), lr=1.0))
    before = net.linear.weight.numpy(force=True).copy()
    history = model.fit(
        X, targets if y is None else y, batch_size=batch_size, accumulate=-(-N // batch_size),
        shuffle=False, verbose=0, device="cpu", **options,
    )  # fmt: skip
    return history["loss"][0], before - net.linear.weight.numpy(force=True), model


def same(found: Any, want: Any) -> None:
    np.testing.assert_allclose(found[0], want[0], rtol=2e-5)
    np.testing.assert_allclose(found[1], want[1], rtol=1e-4, atol=2e-6 * abs(want[1]).max())


# One of each way in which a loss tells its divisor: their steps are captured, those of others are
# eager, as a capture is not the matter.
COMPILED = ("plain", "ignored", "sum", "squares", "next token", "own", "own, each")


@pytest.mark.parametrize("case", CASES)
def test_several_batches_are_one(case: str) -> None:
    loss, oracle, y, seen, _ = CASES[case]
    want = torch_step(Net(seen), oracle, y)
    for size in (5, 1):
        same(fitted(case, batch_size=size, compile=size == 5 and case in COMPILED), want)
    model = pf.Model(Net(seen), loss)
    found = model.evaluate((X, y), batch_size=5, device="cpu", compile=case in COMPILED)
    np.testing.assert_allclose(found["loss"], want[0], rtol=2e-5)


@pytest.mark.parametrize("case", [c for c in CASES if c != "own"])
def test_weights_of_samples(case: str) -> None:
    """Those of 1 change nothing; others are factors of what is summed up, and divide nothing."""
    loss, oracle, y, seen, _ = CASES[case]
    same(fitted(case, sample_weight=ONES, compile=False), torch_step(Net(seen), oracle, y))
    want = torch_step(Net(seen), oracle, y, FACTORS)
    weighted: Any = {"batch_size": 5, "sample_weight": FACTORS, "compile": case in COMPILED}
    same(fitted(case, **weighted), want)
    found = pf.Model(Net(seen), loss).evaluate((X, y), device="cpu", **weighted)
    np.testing.assert_allclose(found["loss"], want[0], rtol=2e-5)


@pytest.mark.parametrize("case", ["plain", "rows", "ignored", "log-likelihood", "sum"])
def test_weights_of_classes(case: str) -> None:
    """Of pixels and tokens too, and beside what is ignored."""
    _, oracle, y, seen, _ = CASES[case]
    want = torch_step(Net(seen), oracle, y, None, WEIGHT)
    for size, compile in ((5, True), (4, False)):
        same(fitted(case, batch_size=size, class_weight=WEIGHT.tolist(), compile=compile), want)
    same(fitted(case, class_weight=[1.0] * C), torch_step(Net(seen), oracle, y))


@pytest.mark.parametrize("case", [c for c in CASES if CASES[c][4] is not None])
def test_nothing_to_learn(case: str) -> None:
    """Weights stay, and no nan is left or told of; there is no mean to evaluate."""
    loss, _, _, seen, ignored = CASES[case]
    for compile in {False, case in ("ignored", "own")}:
        value, step, _ = fitted(case, ignored, compile=compile)
        assert value == 0
        assert not step.any()
        model = pf.Model(Net(seen), loss)
        value = model.evaluate((X, ignored), device="cpu", compile=compile)["loss"]
        assert value == 0 if "sum" in case else np.isnan(value)


def test_validation_and_single_batches() -> None:
    """Neither is nan for the batch that has nothing to learn."""
    _, oracle, y, seen, _ = CASES["ignored"]
    net = Net(seen)
    model = pf.Model(net, CASES["ignored"][0], optim.SGD(net.parameters(), lr=0.0))
    want = torch_step(net, oracle, y)[0]
    logs: list[float] = []
    tell = pf.train.LambdaCallback(on_step=lambda model, step, found: logs.append(found["loss"]))
    history = model.fit(
        X, y, batch_size=4, validation_data=(X, y), patience=1, epochs=2, verbose=0, device="cpu",
        callbacks=[tell], read_every=1,
    )  # fmt: skip
    np.testing.assert_allclose([*history["loss"], *history["val_loss"]], want, rtol=2e-5)
    assert np.isfinite(logs).all()
    found = [model.train_on_batch((X[i : i + 4], y[i : i + 4]))["loss"] for i in range(0, N, 4)]
    counts = [(y[i : i + 4] >= 0).sum() for i in range(0, N, 4)]
    assert found[1] == 0
    np.testing.assert_allclose(np.dot(found, counts) / sum(counts), want, rtol=2e-5)


def test_on_a_gpu(gpu: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """As on the CPU, and nothing is read in a step."""
    monkeypatch.setattr(recovery, "SHARE", 1e-9)  # copies are made once, however slow it is
    for case in ("ignored", "own"):
        loss, _, y, seen, _ = CASES[case]
        net = Net(seen)
        model = pf.Model(net, loss, optim.SGD(net.parameters(), lr=0.0))
        stats = pf.device(gpu).backend.stats
        options: Any = {"batch_size": 4, "accumulate": 2, "device": gpu, "verbose": 0}
        model.fit(X, y, **options)
        stats.reset()
        model.fit(X, y, read_every=100, **options)
        assert stats.reads == 2  # after the first step and the last one
        want = torch_step(net, *CASES[case][1:3])[0]
        np.testing.assert_allclose(model.history["loss"], want, rtol=2e-5)


def test_half_precision() -> None:
    """Gradients of sums keep the size of those of means, so none overflows."""
    _, oracle, y, seen, _ = CASES["ignored"]
    _, step, model = fitted("ignored", mixed_precision="float16")
    assert model.scaler.get_scale() == 2.0**16
    want = torch_step(Net(seen), oracle, y)[1]
    np.testing.assert_allclose(step, want, rtol=0.02, atol=2e-3)


class Penalized(pf.Model):
    """A step of one's own: the loss and a penalty, which no batch divides."""

    def training_step(self, batch: Any) -> Any:
        x, y = batch
        return 2 * self.compute_loss(self.net(x), y) + self.net.linear.weight.square().sum()


@pytest.mark.parametrize(("compile", "size"), [(True, 4), (False, 4), (False, N)])
def test_a_step_of_ones_own(compile: bool, size: int) -> None:
    net = Net("NCT")
    loss, grad = torch_step(net, *CASES["ignored"][1:3])
    weight = net.linear.weight.numpy(force=True)
    found = fitted("ignored", batch_size=size, of=Penalized, compile=compile)
    same(found, (2 * loss + np.square(weight).sum(), 2 * grad + 2 * weight))


class Two(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.a, self.b = Net("NCT"), Net("N")

    def forward(self, x: pf.Tensor) -> dict[str, pf.Tensor]:
        return {"kind": self.a(x), "size": self.b(x)}


def test_several_losses_have_divisors_of_their_own() -> None:
    net, y = Two(), {"kind": SOME, "size": REAL}
    losses = {"kind": nn.CrossEntropyLoss(), "size": nn.MSELoss()}
    model = pf.Model(net, losses, loss_weights={"kind": 1.0, "size": 0.5})
    found = model.evaluate((X, y), batch_size=4, device="cpu")
    kind = torch_step(net.a, tnn.CrossEntropyLoss(), SOME)[0]
    size = torch_step(net.b, tnn.MSELoss(), REAL)[0]
    want = {"loss": kind + 0.5 * size, "kind_loss": kind, "size_loss": size}
    assert found == pytest.approx(want, rel=1e-5)
    model.optimizer = optim.SGD(net.parameters(), lr=0.0)
    history = model.fit(X, y, batch_size=4, verbose=0, device="cpu")
    assert history["loss"][0] == pytest.approx(want["loss"], rel=1e-5)
    with pytest.warns(RuntimeWarning, match="so with accumulate=3 each batch counts by its samp"):
        model.fit(X, y, batch_size=4, accumulate=3, verbose=0, device="cpu")


def contrastive(output: pf.Tensor, target: pf.Tensor) -> pf.Tensor:
    return F.cross_entropy(output @ output.T, pf.arange(len(output)))


def summed(output: pf.Tensor, target: pf.Tensor) -> pf.Tensor:
    return (output - target).square().sum()


class Focal(nn.CrossEntropyLoss):
    """A mean over samples, not over what counts."""

    def forward(self, input: pf.Tensor, target: pf.Tensor) -> pf.Tensor:
        return F.cross_entropy(input, target, reduction="none").square().mean()


@pytest.mark.parametrize(
    ("loss", "case", "warns"),
    [(contrastive, "squares", True), (summed, "squares", True),
     (lambda output, target: (output - target).square().mean(), "squares", False),
     (masked, "own", False), (Focal(), "ignored", False), (nn.MSELoss(), "squares", False)],
)  # fmt: skip
def test_what_no_batches_make_up_is_told(
    loss: Any, case: str, warns: bool, recwarn: pytest.WarningsRecorder
) -> None:
    """Of a loss that does not tell its divisor, as far as the first batch shows; nothing else is
    changed by the look."""
    found = []
    for accumulate in (1, 3):
        pf.manual_seed(3)
        net = nn.Sequential(Net(CASES[case][3]), nn.Dropout(0.5))
        model = pf.Model(net, loss, optim.SGD(net.parameters(), lr=0.1))
        model.fit(X, CASES[case][2], batch_size=4, accumulate=accumulate, verbose=0, device="cpu")
        found.append(pf.rand(1).item())
        assert len(recwarn) == (warns and accumulate > 1)
    assert found[0] == found[1]
    if warns:
        name = loss.__name__
        assert f"the loss {name} is no mean over samples" in str(recwarn[0].message)
        recwarn.clear()
