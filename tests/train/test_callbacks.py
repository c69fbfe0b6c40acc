"""Callbacks: when a fit stops, what it writes, and what it shows."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import pyframe as pf
from pyframe import nn, optim
from pyframe.train import Callback
from pyframe.train.callbacks import EarlyStopping, LambdaCallback
from pyframe.train.callbacks.stopping import higher_is_better

NAN = float("nan")


def task(n: int = 32) -> tuple[np.ndarray, np.ndarray]:
    x = np.random.default_rng(3).normal(size=(n, 2)).astype(np.float32)
    return x, x @ np.array([[1], [-2]], np.float32)


def make(lr: float = 0.1) -> pf.Model:
    pf.manual_seed(1)
    net = nn.Sequential(nn.Linear(2, 3), nn.BatchNorm1d(3), nn.Linear(3, 1))
    return pf.Model(net, nn.MSELoss(), optim.Adam(net.parameters(), lr=lr))


def fit(*callbacks: Callback, model: pf.Model | None = None, **options: Any) -> pf.train.History:
    settings: Any = {"epochs": 3, "batch_size": 16, "device": "cpu", "verbose": 0, **options}
    return (model or make()).fit(task(), callbacks=callbacks, **settings)


class Says(Callback):
    """Lets the epochs have the values that it is given, and keeps the weights of each."""

    def __init__(self, name: str, *values: float | None) -> None:
        self.name, self.values = name, values
        self.weights: list[list[np.ndarray]] = []

    def on_epoch(self, model: pf.Model, epoch: int, logs: dict[str, float]) -> None:
        value = self.values[epoch]
        logs.pop(self.name, None)
        if value is not None:
            logs[self.name] = value
        self.weights.append(weights(model))


def weights(model: pf.Model) -> list[np.ndarray]:
    return [x.numpy().copy() for x in model.net.state_dict().values()]


# --- EarlyStopping

# (values that the epochs have, options, epochs that run, the best one)
STOPS: list[tuple[list[float | None], dict[str, Any], int, int]] = [
    ([3, 2, 1, 1, 1, 1], {"patience": 2}, 5, 2),
    ([3, 2, 2.5, 1, 1.5, 1.5, 9], {"patience": 2}, 6, 3),
    ([3, 2, 1.9, 1.8, 1.5], {"patience": 2, "min_delta": 0.3}, 4, 1),
    ([1, 2, 3, 3, 3, 3], {"patience": 2, "mode": "max"}, 5, 2),
    ([NAN, 2, NAN, NAN, 1], {"patience": 2}, 4, 1),
    ([3, None, 4, None, 5, 6], {"patience": 2}, 5, 0),  # epochs without a value are not counted
    ([5, 4, 3, 1], {"patience": 2, "baseline": 2}, 2, 1),
    ([5, 1, 3, 1], {"patience": 2, "baseline": 2}, 4, 1),
]


@pytest.mark.parametrize(("values", "options", "epochs", "best"), STOPS)
def test_stops_when_it_gets_no_better(
    values: list[float | None], options: dict[str, Any], epochs: int, best: int
) -> None:
    says, stop, model = Says("loss", *values), EarlyStopping("loss", **options), make()
    history = fit(says, stop, model=model, epochs=len(values))
    assert len(history.epoch) == epochs
    assert stop.best_epoch == best
    assert stop.best == values[best]
    assert stop.stopped_epoch == (epochs - 1 if epochs < len(values) or best < epochs - 2 else None)
    for found, kept in zip(weights(model), says.weights[best], strict=True):
        np.testing.assert_array_equal(found, kept)


def test_the_last_weights_stay_where_the_best_are_not_wanted() -> None:
    says, model = Says("loss", 1, 2, 3), make()
    fit(says, EarlyStopping("loss", restore_best=False), model=model)
    for found, kept in zip(weights(model), says.weights[2], strict=True):
        np.testing.assert_array_equal(found, kept)


def test_the_best_weights_are_there_after_an_error() -> None:
    def fail(model: pf.Model, epoch: int, logs: dict[str, float]) -> None:
        if epoch == 2:
            raise KeyboardInterrupt

    says, model = Says("loss", 2, 1, 3), make()
    with pytest.raises(KeyboardInterrupt):
        fit(says, EarlyStopping("loss"), LambdaCallback(on_epoch=fail), model=model)
    np.testing.assert_array_equal(weights(model)[0], says.weights[1][0])


def test_restoring_lets_the_compiled_step_be(gpu: str) -> None:
    """Weights are written back in place, and copied on the device: no value is read for it."""
    model, stats = make(), pf.device(gpu).backend.stats
    says = LambdaCallback(on_epoch=lambda m, epoch, logs: logs.update(loss=float(epoch)))
    for number in range(2):
        if number:
            stats.reset()
        fit(says, EarlyStopping("loss", 5), model=model, device=gpu, read_every=1000, epochs=2)
    assert stats.pipelines == 0
    assert stats.reads <= 4  # two an epoch: of its first step and at its end


def test_what_is_monitored() -> None:
    stop = EarlyStopping()
    fit(stop)
    assert stop.monitor.name == "loss"
    fit(stop, validation_data=task())
    assert stop.monitor.name == "val_loss"
    with pytest.raises(
        ValueError, match="no 'val_los' to monitor.*'val_loss', 'lr'.*you mean 'val_l"
    ):
        fit(EarlyStopping("val_los"), validation_data=task())
    with pytest.raises(ValueError, match="there is no 'accuracy' to monitor; .*'loss', 'lr'"):
        fit(EarlyStopping("accuracy"))


@pytest.mark.parametrize(
    ("names", "higher"),
    [
        ("accuracy val_acc top5_accuracy val_AUROC f1 MacroF1 r2 average_precision mean_iou", True),
        ("cosine_similarity", True),
        ("loss val_loss mae rmse perplexity lr face_error", False),
    ],
)
def test_whether_more_is_better(names: str, higher: bool) -> None:
    assert {name: higher_is_better(name) for name in names.split()} == dict.fromkeys(
        names.split(), higher
    )


BAD: list[tuple[Any, type[Exception], str]] = [
    (lambda: EarlyStopping(3), TypeError, "monitor must be a name such as 'val_loss', got 3"),
    (lambda: EarlyStopping(mode="up"), ValueError, "mode must be 'auto', 'min' or 'max', got 'up'"),
    (lambda: EarlyStopping(patience=0), ValueError, "patience must be at least 1, got 0"),
    (lambda: LambdaCallback(on_batch=print), TypeError, "'on_batch'; expected on_fit_begin, on_"),
    (lambda: LambdaCallback(on_step=3), TypeError, "on_step must be a function, got 3"),
]


@pytest.mark.parametrize(("make_it", "error", "text"), BAD)
def test_bad_settings(make_it: Any, error: type[Exception], text: str) -> None:
    with pytest.raises(error, match=text):
        make_it()


def test_stopping_goes_on_from_its_state() -> None:
    """A fit that is taken up again stops where one that runs through does, with its weights."""
    values: list[float | None] = [2, 1, 3, 3, 3, 3]
    whole, model = EarlyStopping("loss", 3), make()
    fit(Says("loss", *values), whole, model=model, epochs=6)
    assert whole.stopped_epoch == 4
    first, again = EarlyStopping("loss", 3), EarlyStopping("loss", 3)
    states: list[dict[str, Any]] = []
    keep = LambdaCallback(on_epoch=lambda *_: states.append(first.state_dict()))
    fit(Says("loss", *values[:3]), first, keep, epochs=3)
    again.load_state_dict(states[-1])
    other = make()
    fit(Says("loss", *values[3:]), again, model=other, epochs=3)
    assert (again.best, again.best_epoch, again.stopped_epoch) == (1, 1, 1)
    for found, kept in zip(weights(other), weights(model), strict=True):
        np.testing.assert_array_equal(found, kept)
