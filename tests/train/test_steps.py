"""What fit does with a batch: steps of one's own, several losses and optimizers, accumulation,
clipping, weights, schedulers and mixed precision; compiled as eager, and with few kernels."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from exported import gan
from fits import Sides
from steps import training_step

import pyframe as pf
from pyframe import nn, optim
from pyframe.nn import functional as F
from pyframe.optim import lr_scheduler

N = 70
RNG = np.random.default_rng(5)
Y = RNG.integers(0, 4, N)
CORNERS = np.array([[1, 1], [1, -1], [-1, 1], [-1, -1]])
X = (CORNERS[Y] + RNG.normal(0, 0.3, (N, 2))).astype(np.float32)
REAL, NOISE = (RNG.normal(size=(N, n)).astype(np.float32) for n in (1, 3))


def make(lr: float = 0.1, **parts: Any) -> pf.Model:
    pf.manual_seed(1)
    net = nn.Sequential(nn.Linear(2, 16), nn.ReLU(), nn.Linear(16, 4))
    return pf.Model(net, nn.CrossEntropyLoss(), optim.SGD(net.parameters(), lr=lr), **parts)


def fit(model: pf.Model, data: Any = (X, Y), **options: Any) -> dict[str, list[float]]:
    given = {"device": "cpu", "verbose": 0, "shuffle": False, "batch_size": 32, "epochs": 2}
    return model.fit(data, **{**given, **options}).history


def weights(model: pf.Model) -> np.ndarray:
    return np.concatenate([p.detach().cpu().numpy().ravel() for p in model.net.parameters()])


@functools.cache
def by_hand() -> tuple[list[float], np.ndarray]:
    """What exported.Gan does, as PyTorch's users write it: the losses of the judge, and weights."""
    model = gan()
    make, judge, optimizers = model.net["make"], model.net["judge"], model.optimizer
    sums = []
    for _ in range(2):
        total = 0.0
        for start in range(0, N, 32):
            real, noise = (pf.from_numpy(x[start : start + 32]) for x in (NOISE, X))
            fake = make(noise)
            optimizers["judge"].zero_grad()
            loss = F.softplus(-judge(real)).mean() + F.softplus(judge(fake.detach())).mean()
            loss.backward()
            optimizers["judge"].step()
            optimizers["make"].zero_grad()
            F.softplus(-judge(fake)).mean().backward()
            optimizers["make"].step()
            total += loss.item() * len(real)
        sums.append(total / N)
    return sums, weights(model)


@pytest.mark.sampled(2)
@pytest.mark.parametrize("compile", [True, False])
def test_two_networks_against_each_other(compile: bool, device: str) -> None:
    model = gan()
    found = fit(model, (NOISE, X), compile=compile, device=device)
    losses, want = by_hand()
    assert list(found) == ["judge_loss", "make_loss", "lr_make", "lr_judge"]
    close = 1e-5 if device == "cpu" else 1e-3
    np.testing.assert_allclose(found["judge_loss"], losses, rtol=close)
    np.testing.assert_allclose(weights(model), want, rtol=10 * close, atol=1e-6)
    if compile:
        (steps,) = model._free["train"]
        assert steps.compiled.captured == 2  # batches of 32 and of 6 samples
        assert not steps.compiled.eager


class Twice(pf.Model):
    """Two updates of one optimizer in a step."""

    def training_step(self, batch: Any) -> Any:
        x, y = batch
        for _ in range(2):
            loss = F.cross_entropy(self.net(x), y)
            self.minimize(loss)
        return loss


@pytest.mark.parametrize("precision", [None, "float16"])
def test_two_updates_of_an_optimizer_in_a_step(precision: str | None) -> None:
    plain = make()
    model = Twice(plain.net, None, plain.optimizer)
    fit(model, mixed_precision=precision, epochs=1)
    other = make()
    for i in range(0, N, 32):
        for _ in range(2):
            other.train_on_batch((X[i : i + 32], Y[i : i + 32]))
    np.testing.assert_allclose(weights(model), weights(other), rtol=2e-2, atol=2e-3)
    with pytest.raises(RuntimeError, match="minimize was called twice .* accumulate=2 makes one"):
        fit(model, mixed_precision=precision, accumulate=2)
    for _ in range(2):  # by hand too
        model.training_step((pf.tensor(X), pf.tensor(Y)))


class Returning(pf.Model):
    """A step that gives the loss, which fit then minimizes, and one that looks at more."""

    def training_step(self, batch: Any) -> Any:
        x, y = batch
        return F.cross_entropy(self.net(x), y)

    def validation_step(self, batch: Any) -> Any:
        x, y = batch
        out = self.net(x)
        return {"loss": F.cross_entropy(out, y), "largest": out.max()}


def test_a_step_that_returns_the_loss() -> None:
    plain, other = make(), make()
    own = Returning(other.net, optimizer=other.optimizer, metrics=["accuracy"])
    assert fit(own, validation_data=(X, Y))["loss"] == pytest.approx(fit(plain)["loss"], rel=1e-6)
    np.testing.assert_allclose(weights(own), weights(plain), atol=1e-6)
    # the steps leave the metric out: it saw nothing, and is in no logs
    assert list(own.history) == ["loss", "val_loss", "val_largest", "lr"]
    assert own.evaluate((X, Y))["loss"] == pytest.approx(own.history["val_loss"][-1])


def test_a_step_may_name_what_it_gives_of_validation() -> None:
    class Named(Returning):
        def validation_step(self, batch: Any) -> Any:
            return {f"val_{name}": v for name, v in super().validation_step(batch).items()}

    plain = make()
    model = Named(plain.net, optimizer=plain.optimizer)
    assert list(fit(model, validation_data=(X, Y))) == ["loss", "val_loss", "val_largest", "lr"]
    assert model.evaluate((X, Y)).keys() == {"val_loss", "val_largest"}


def test_a_rate_is_found_before_metrics_saw_anything() -> None:
    model = make(metrics=["accuracy", "f1"])
    assert pf.train.LearningRateFinder(low=1e-4, steps=5).find(model, (X, Y)).rates
    assert len(fit(model)["f1"]) == len(model.history.epoch)


def test_several_losses() -> None:
    pf.manual_seed(0)
    net = Sides(2, 4, 3)
    model = pf.Model(
        net, {"kind": nn.CrossEntropyLoss(), "size": nn.MSELoss()}, optim.Adam(net.parameters()),
        {"kind": ["accuracy"], "size": "mae"}, loss_weights={"kind": 1.0, "size": 0.5},
    )  # fmt: skip
    inputs = {"wide": X, "narrow": np.random.normal(size=(N, 3)).astype(np.float32)}
    targets = {"kind": Y, "size": REAL}
    model.fit((inputs, targets), epochs=2, validation_data=(inputs, targets), verbose=0)
    own = ["loss", "kind_loss", "size_loss", "kind_accuracy", "size_mae"]
    assert list(model.history) == [*own, *[f"val_{n}" for n in own], "lr"]
    found, out = model.evaluate((inputs, targets)), model.predict(inputs, batch_size=32)
    kind = F.cross_entropy(out["kind"], pf.from_numpy(Y)).item()
    size = F.mse_loss(out["size"], pf.from_numpy(REAL)).item()
    assert found["kind_loss"] == pytest.approx(kind, rel=1e-5)
    assert found["loss"] == pytest.approx(kind + 0.5 * size, rel=1e-5)
    assert found["size_mae"] == pytest.approx(np.abs(out["size"].numpy() - REAL).mean(), rel=1e-5)
    assert model.history["val_loss"][-1] == pytest.approx(found["loss"], rel=1e-5)


def test_losses_in_a_list() -> None:
    class Pair(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.a, self.b = nn.Linear(2, 4), nn.Linear(2, 1)

        def forward(self, x: pf.Tensor) -> tuple[pf.Tensor, pf.Tensor]:
            return self.a(x), self.b(x)

    net = Pair()
    losses = [nn.CrossEntropyLoss(), nn.MSELoss()]
    model = pf.Model(net, losses, optim.SGD(net.parameters(), lr=0.1), loss_weights=[1, 2])
    found = fit(model, (X, (Y, REAL)))
    assert list(found) == ["loss", "loss_0", "loss_1", "lr"]
    total = np.add(found["loss_0"], np.multiply(2, found["loss_1"]))
    np.testing.assert_allclose(found["loss"], total, rtol=1e-5)
    assert [o.shape for o in model.predict(X)] == [(N, 4), (N, 1)]


def test_a_group_of_eager_steps_runs_one_by_one(gpu: str) -> None:
    """Else what is recorded, and the time to plan it, would grow with the group."""
    stats, model = pf.device(gpu).backend.stats, make()
    stats.reset()
    fit(model, epochs=1, batch_size=7, accumulate=10, device=gpu, compile=False, read_every=100)
    assert stats.submits >= 10


def test_gradients_are_clipped() -> None:
    """A step of SGD moves the weights by lr times the clipped gradient."""
    before = weights(make())
    for options, size in (({"clip_norm": 0.01}, np.linalg.norm), ({"clip_value": 0.01}, np.max)):
        model = make()
        fit(model, epochs=1, batch_size=N, **options)
        assert size(np.abs(weights(model) - before)) == pytest.approx(0.001, rel=1e-3)


def test_weights_of_samples_and_classes() -> None:
    """Factors of each sample's loss; a class's weight is that of its samples."""
    by_class = np.array([1.0, 2.0, 0.0, 4.0], np.float32)
    a, b, c = make(), make(), make()
    fit(a, class_weight={0: 1, 1: 2, 2: 0, 3: 4})
    fit(b, sample_weight=by_class[Y])
    fit(c, (X, Y, by_class[Y]))
    assert a.history["loss"] == pytest.approx(b.history["loss"], rel=1e-5)
    assert np.array_equal(weights(b), weights(c))
    fit(a, class_weight=[1, 2, 0, 4], validation_data=(X, Y))
    assert a.history["val_loss"][-1] == pytest.approx(a.evaluate((X, Y))["loss"], rel=1e-5)


SCHEDULES: dict[str, tuple[Callable[[Any], Any], dict[str, Any], str]] = {
    "by epoch": (lambda o: lr_scheduler.StepLR(o, 1, 0.5), {}, "epoch"),
    "by step, of itself": (lambda o: lr_scheduler.OneCycleLR(o, 1.0, total_steps=6), {}, "step"),
    "by step, as asked": (
        lambda o: lr_scheduler.LinearLR(o, total_iters=6), {"lr_interval": "step"}, "step"),
    "by the loss": (lambda o: lr_scheduler.ReduceLROnPlateau(o, patience=0, threshold=9), {}, ""),
}  # fmt: skip


@pytest.mark.parametrize("name", SCHEDULES)
def test_schedulers(name: str) -> None:
    """Rates are those of a loop by hand, and never captured anew."""
    schedule, options, when = SCHEDULES[name]
    model = make(**options)
    model.lr_scheduler = schedule(model.optimizer)
    found = fit(model, epochs=3, batch_size=35)["lr"]
    twin = optim.SGD([pf.zeros(1, requires_grad=True)], lr=0.1)
    by_hand, rates = schedule(twin), []
    for epoch in range(3):
        for _ in range(2):
            twin.step()
            if when == "step":
                by_hand.step()
        rates.append(twin.param_groups[0]["lr"])
        if when == "epoch":
            by_hand.step()
        elif not when:
            by_hand.step(model.history["loss"][epoch])
    assert found == pytest.approx(rates)
    assert len({*found}) == 3
    assert model._free["train"][0].compiled.captured == 1


@pytest.mark.parametrize("dtype", ["bfloat16", "float16"])
def test_mixed_precision(dtype: str) -> None:
    """It learns as in float32, parameters stay float32, and the step is one Program."""
    model, plain = make(), make()
    found = fit(model, epochs=5, mixed_precision=dtype, batch_size=35)
    want = fit(plain, epochs=5, batch_size=35)
    np.testing.assert_allclose(found["loss"], want["loss"], rtol=0.02)
    assert {p.dtype for p in model.net.parameters()} == {pf.float32}
    assert (model.scaler is not None) is (dtype == "float16")
    (steps,) = model._free["train"]
    assert steps.compiled.captured == 1
    assert not steps.compiled.eager


@pytest.mark.parametrize("first", ["cpu", "gpu"])
def test_the_scale_moves_with_the_model(gpu: str, first: str) -> None:
    """Else each step would wait for what lies on the other device."""
    model = make()
    for device in (first, {"cpu": gpu, gpu: "cpu"}[first]):
        fit(model, epochs=1, batch_size=35, mixed_precision="float16", device=device)
        assert not model._free["train"][-1].compiled.eager
        assert model.scaler.get_scale() == 2.0**16


def test_an_overflow_is_skipped() -> None:
    model = make()
    fit(model, epochs=1, mixed_precision="float16")
    before, scale = weights(model), model.scaler.get_scale()
    fit(model, (X * 1e4, Y), epochs=1, batch_size=N, mixed_precision="float16")
    assert model.scaler.get_scale() == scale / 2
    assert np.array_equal(weights(model), before)


def written_by_hand(device: str) -> Any:
    """A compiled step as users write it, after two runs."""
    net = make().net.to(device)
    sgd = optim.SGD(net.parameters(), lr=0.1)
    step = pf.compile(training_step(sgd, lambda x, y: F.cross_entropy(net(x), y)))
    for _ in range(2):
        step(pf.from_numpy(X[:35]).to(device), pf.from_numpy(Y[:35]).to(device))
    return step


def test_metrics_and_callbacks_add_one_kernel_at_most(gpu: str) -> None:
    """Of a step on a GPU: the mean of the loss and any of the usual metrics are fused."""
    counts = []
    for metrics in ([], ["accuracy"], ["accuracy", "f1"]):
        model = make(metrics=metrics)
        fit(model, epochs=2, batch_size=35, device=gpu)
        counts.append(len(model._free["train"][0].compiled.programs[-1].steps))
    assert max(counts) - counts[0] <= 1, counts
    assert counts[0] <= len(written_by_hand(gpu).programs[-1].steps) + 1


def test_a_step_of_fit_costs_little_more_than_one_by_hand() -> None:
    """On the CPU: what a replay looks at before, and the calls of NumPy that it makes."""

    def cost(compiled: Any) -> np.ndarray:
        ((replay,),) = compiled.replays.values()
        return np.array([replay.guard.count, sum(len(p.plan.calls) for p in replay.executables)])

    bare, more = cost(written_by_hand("cpu")), [[60, 10], [100, 20], [130, 35]]
    for metrics, most in zip([[], ["accuracy"], ["accuracy", "f1"]], more, strict=True):
        model = make(metrics=metrics)
        fit(model, batch_size=35)
        found = cost(model._free["train"][0].compiled) - bare
        assert (found <= most).all(), (metrics, found)


def test_one_batch() -> None:
    model, loop = make(metrics=["accuracy"]), make()
    logs = [model.train_on_batch(X, Y) for _ in range(3)]
    assert logs[-1]["loss"] < logs[0]["loss"]
    assert set(logs[0]) == {"loss", "accuracy"}
    fit(loop, epochs=3, batch_size=N)
    np.testing.assert_allclose(weights(model), weights(loop), atol=1e-6)
