"""A GPU that is lost while fit runs: training goes on, and ends where it would have ended."""

from __future__ import annotations

import contextlib
import functools
import itertools
import random
import re
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from compared import alike

import pyframe as pf
from pyframe import nn
from pyframe.backend import native
from pyframe.data import DataLoader, Dataset
from pyframe.train import Callback, LambdaCallback, recovery

N, BATCH, EPOCHS = 80, 8, 3  # 10 steps an epoch


def lose() -> None:
    """What a driver does that gives up on its GPU."""
    d = pf.device("gpu")
    with d.executor.lock:
        d.backend._device.destroy()


@pytest.fixture(autouse=True)
def fresh() -> Iterator[None]:
    """A test leaves no lost GPU behind that nobody has noticed."""
    yield
    with contextlib.suppress(pf.DeviceLostError):
        pf.ones(1, device="gpu").item()


class Noisy(Dataset):
    """Samples with noise of every kind of stream; the GPU is lost as some of them are made."""

    def __init__(self, lost_at: tuple[int, ...] = (), pyframe: bool = True, n: int = N) -> None:
        self.pyframe = pyframe
        rng = np.random.default_rng(0)
        self.x, self.y = rng.normal(size=(n, 6)).astype(np.float32), rng.integers(0, 3, n)
        self.lost_at, self.made = set(lost_at), 0

    def __len__(self) -> int:
        return len(self.x)

    def __getitem__(self, i: int) -> Any:
        self.made += 1
        if self.made in self.lost_at:
            lose()
        noise = np.random.normal() + random.random() + (self.pyframe and pf.rand(1).item())
        return self.x[i] + np.float32(0.1 * noise), self.y[i]


class Centre(nn.Module):
    """Takes off a running mean; it makes a new one at every step."""

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("mean", pf.zeros(8))

    def forward(self, x: pf.Tensor) -> pf.Tensor:
        if self.training:
            self.mean = self.mean * 0.9 + x.detach().mean(0) * 0.1
        return x - self.mean


class Decay(Callback):
    """Lowers the learning rate with each loss that is told, and after each epoch."""

    def on_step(self, model: pf.Model, step: int, logs: dict[str, float]) -> None:
        self.lower(model, 0.98)

    def on_epoch(self, model: pf.Model, epoch: int, logs: dict[str, float]) -> None:
        self.lower(model, 0.5)

    def lower(self, model: pf.Model, by: float) -> None:
        assert model.optimizer is not None
        model.optimizer.param_groups[0]["lr"] *= by


def make() -> pf.Model:
    pf.manual_seed(1)
    np.random.seed(2)
    random.seed(3)
    net = nn.Sequential(nn.Linear(6, 8), Centre(), nn.ReLU(), nn.Dropout(0.3), nn.Linear(8, 3))
    optimizer = pf.optim.Adam(net.parameters(), lr=0.05)
    return pf.Model(net, nn.CrossEntropyLoss(), optimizer, ["accuracy"])


def train(data: Any, model: pf.Model | None = None, **options: Any) -> Any:
    """Everything that training leaves behind, and the messages of the warnings."""
    model = model or make()
    data = DataLoader(data, BATCH, shuffle=True) if isinstance(data, Dataset) else data
    options = {"device": "gpu", "epochs": EPOCHS, "read_every": 4, "verbose": 0, **options}
    options.setdefault("callbacks", [Decay()])
    with warnings.catch_warnings(record=True, action="always") as told:
        history = model.fit(data, **options).history
    weights = {k: v.cpu().numpy() for k, v in model.net.state_dict().items()}
    assert model.optimizer is not None
    moments = [x.cpu().numpy() for s in model.optimizer.state.values() for x in s.values()]
    numbers = np.random.normal(), random.random(), pf.rand(2).tolist(), pf.randperm(9).tolist()
    numbers += (pf.rand(3, device=model.device).tolist(),)
    return weights, moments, history, numbers, [str(w.message) for w in told]


def same(again: Any, want: Any) -> None:
    """The weights, the optimizer's state and the history of two fits."""
    alike(again[:3], want[:3], 1e-5, 1e-6)


@functools.cache
def undisturbed(compile: bool = True) -> Any:
    """What a fit leaves behind whose GPU stays."""
    found = train(Noisy(), compile=compile)
    assert not found[4]
    return found


@functools.cache
def losses() -> Any:
    """The same without pyframe's random numbers and without callbacks."""
    return train(Noisy(pyframe=False), callbacks=[])[2]["loss"]


@pytest.fixture(params=["at each look", "at the first look"])
def copies(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """When copies are made."""
    each = request.param == "at each look"
    monkeypatch.setattr(recovery, "SHARE", 1e9 if each else 1e-9)
    return str(request.param)


def accumulated(lost_at: tuple[int, ...] = ()) -> Any:
    """A fit of four batches an update, from a model that lies on the GPU already."""
    model = make()
    model.metrics["f1"] = pf.metrics.F1()
    model.fit((Noisy().x, Noisy().y), verbose=0, device="gpu")
    return train(Noisy(lost_at), model, accumulate=4, class_weight=[1.0, 2.0, 0.5], read_every=1)


undisturbed_and_accumulated = functools.cache(accumulated)


@pytest.mark.sampled(6)
@pytest.mark.parametrize("lost_at", [(12,), (36,), (44, 120)], ids=str)
def test_batches_that_wait_for_their_update(gpu: str, copies: str, lost_at: Any) -> None:
    """Gradients that are not used yet, weights of classes and the state of metrics come back."""
    want, again = undisturbed_and_accumulated(), accumulated(lost_at)
    assert (len(want[4]), len(again[4])) == (0, len(lost_at))
    same(again, want)


@pytest.mark.sampled(7)
@pytest.mark.parametrize("compile", [True, False], ids=["compiled", "eager"])
@pytest.mark.parametrize(
    ("lost_at", "step"),  # as which samples are made, and the step of the last copy then
    [((3,), 0), ((20,), 1), ((75,), 4), ((81,), 10), ((155,), 12), ((10, 60, 150), 1)],
    ids=lambda value: "-".join(map(str, value)) if isinstance(value, tuple) else "",
)  # fmt: skip
def test_it_ends_as_if_nothing_had_happened(
    gpu: str, copies: str, compile: bool, lost_at: tuple[int, ...], step: int
) -> None:
    """Lost before the first step, between two looks, at an end of an epoch, after it, and again:
    the weights, the optimizer's state, the history and all random numbers come out the same."""
    want = undisturbed(compile)
    again = train(Noisy(lost_at), compile=compile)
    same(again, want)
    assert again[3] == want[3]
    assert len(again[4]) == len(lost_at)
    said = r"fit: the GPU \(.+\) was lost: .+\. It goes on .* after step (\d+), on device 'gpu'$"
    steps = [int(re.match(said, text)[1]) for text in again[4]]  # type: ignore[index]
    assert steps[0] == min(step, 1 if copies == "at the first look" else 99)


def test_the_validation_is_gone_through_again(gpu: str) -> None:
    """Lost within `evaluate`, which is between two epochs."""

    class Quiet(Noisy):
        def __getitem__(self, i: int) -> Any:
            self.made += 1
            if self.made in self.lost_at:
                lose()
            return self.x[i], self.y[i]

    want, seen = (train(Noisy(), validation_data=Quiet(at, n=4)) for at in ((), (6,)))
    assert len(seen[4]) == 1
    for name in ("val_loss", "loss"):
        np.testing.assert_allclose(seen[2][name], want[2][name], rtol=1e-5)


def test_a_gpu_that_is_lost_again_and_again(gpu: str) -> None:
    """After the third time it goes on on the CPU, with the GPU's random numbers: no others are
    drawn there. (On the CPU callbacks are told of a loss at once.)"""
    seen = train(Noisy((20, 40, 60, 80, 100, 120), pyframe=False), callbacks=[])
    assert [text.rpartition(" ")[2] for text in seen[4]] == ["'gpu'", "'gpu'", "'gpu'", "'cpu'"]
    np.testing.assert_allclose(seen[2]["loss"], losses(), rtol=1e-3)


def test_a_gpu_that_cannot_be_opened_again(gpu: str, monkeypatch: pytest.MonkeyPatch) -> None:
    want, opened = losses(), pf.ones(1, device=gpu).item()
    monkeypatch.setattr(native, "_adapters", list)
    seen = train(Noisy((50,), pyframe=False), callbacks=[])
    monkeypatch.undo()
    assert opened == 1
    assert [text.rpartition(" ")[2] for text in seen[4]] == ["'cpu'"]
    np.testing.assert_allclose(seen[2]["loss"], want, rtol=1e-3)


def test_data_that_can_be_gone_through_only_once(gpu: str) -> None:
    """What came since the copy is left out; it neither ends early nor starts over."""
    seen: list[int] = []

    def batches() -> Iterator[Any]:
        for i in range(20):
            seen.append(i)
            if i == 7:
                lose()
            yield np.full((4, 6), i, np.float32), np.zeros(4, np.int64)

    told = train(batches(), epochs=1)[4]
    assert seen == list(range(20))
    assert len(told) == 1


def test_what_is_no_part_of_the_copy_is_not_tried_forever(gpu: str) -> None:
    """Data on the GPU is lost with it."""
    data = Noisy()
    x, y = pf.from_numpy(data.x).to(gpu), pf.from_numpy(data.y).to(gpu)

    losing = LambdaCallback(on_step=lambda model, step, logs: lose() if step == 4 else None)
    options: Any = {"batch_size": BATCH, "read_every": 2, "callbacks": [losing], "verbose": 0}
    model = make()
    with (
        warnings.catch_warnings(record=True, action="always") as told,
        pytest.raises(pf.DeviceLostError, match="a value is needed that is gone"),
    ):
        model.fit((x, y), 2, device=gpu, **options)
    assert len(told) == 1


def test_after_a_fit_the_model_is_put_back(
    gpu: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The error says so, and from which step; the next call finds the model there."""
    monkeypatch.setattr(recovery, "SHARE", 1e9)
    x = Noisy().x
    for use in ("save", "predict", "evaluate"):
        model = make()
        model.fit(Noisy(), 1, batch_size=BATCH, device=gpu, verbose=0, read_every=5)
        want, lr = model.predict(x).numpy(), 0.02
        assert model.optimizer is not None
        model.optimizer.param_groups[0]["lr"] = lr
        arguments: dict[str, Any] = {
            "save": tmp_path / "w.safetensors", "predict": x, "evaluate": (x, Noisy().y),
        }  # fmt: skip
        lose()
        with pytest.raises(pf.DeviceLostError, match=rf"made after step 10, .* call {use}"):
            getattr(model, use)(arguments[use])
        getattr(model, use)(arguments[use])
        np.testing.assert_allclose(model.predict(x).numpy(), want, rtol=1e-6)
    model.save(tmp_path / "w.safetensors")
    lose()
    other = make().load(tmp_path / "w.safetensors")
    np.testing.assert_allclose(other.predict(x).numpy(), want, rtol=1e-5)
    with pytest.raises(pf.DeviceLostError, match="load_state_dict"):
        pf.ones(1, device=gpu).item()
    model.load(tmp_path / "w.safetensors")  # it revives the network, and copies are obsolete
    np.testing.assert_allclose(model.predict(x).numpy(), want, rtol=1e-6)
    lose()
    with pytest.raises(pf.DeviceLostError, match=r"load_state_dict\); Model.fit"):
        model.predict(x)


def test_a_loss_between_two_fits(gpu: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The second one begins with the weights and moments that the first one ended with."""
    monkeypatch.setattr(recovery, "SHARE", 1e9)
    results = []
    for happens in (pf.flush, lose):
        model = make()
        assert train(Noisy(), model, epochs=1)[4] == []
        pf.manual_seed(11)
        happens()
        results.append(train(Noisy(), model, epochs=2))
    told = results[1][4]
    assert [("made after step 10 of the fit before" in text) for text in told] == [True]
    same(results[1], results[0])


def test_a_loss_that_nobody_has_noticed_yet(gpu: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A new network takes the GPU opened again; one that was there goes on on the CPU, too."""
    monkeypatch.setattr(recovery, "SHARE", 1e9)
    want, model = undisturbed(), make()
    lose()
    seen = train(Noisy(), model)
    assert not seen[4]
    same(seen, want)
    lose()
    told = train(Noisy(), model, device="cpu", epochs=1)[4]
    assert [("made after step 30" in text) for text in told] == [True]


def test_another_value_that_is_lost_leaves_the_model_alone(gpu: str) -> None:
    """An input of the user's on the GPU before, and weights that were loaded since."""
    model = make()
    model.fit(Noisy(), 1, batch_size=BATCH, device=gpu, verbose=0)
    x = pf.ones(4, 6, device=gpu)
    pf.flush()
    weights = {k: v.cpu() * 2 for k, v in model.net.state_dict().items()}
    lose()
    with pytest.raises(pf.DeviceLostError):
        x.tolist()
    model.net.load_state_dict(weights)
    with pytest.raises(pf.DeviceLostError, match="a value is needed that is gone"):
        model.predict(x)
    for name, w in model.net.state_dict().items():
        assert w.tolist() == weights[name].tolist()


def test_copies_take_a_small_share_of_the_time(gpu: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of a clock that goes a second a step: they come with the losses, in no read of their own,
    and the more bytes there are, the less often."""
    clock = [0.0]
    monkeypatch.setattr(recovery.time, "monotonic", lambda: clock[0])
    made: list[float] = []
    init = recovery._Copy.__init__

    def counting(self: Any, *args: Any) -> None:
        made.append(clock[0])
        init(self, *args)

    monkeypatch.setattr(recovery._Copy, "__init__", counting)

    class Tick(Noisy):
        def __getitem__(self, i: int) -> Any:
            clock[0] += 1 / BATCH
            return super().__getitem__(i)

    model = make()
    model.to(gpu)
    stats = pf.device(gpu).backend.stats
    for seconds in (0.03, 0.09, 0.3):
        monkeypatch.setattr(recovery, "_seconds", lambda *sizes, seconds=seconds: seconds)
        clock[0] = 0.0
        made.clear()
        stats.reset()
        model.fit(Tick(), 4, batch_size=BATCH, device=None, verbose=0, read_every=2)
        assert stats.reads == 4 * 5 + 1  # every other step and the first
        gap = seconds / recovery.SHARE
        copied = [t for t in made[-len(made) :] if t]
        assert copied[0] == 1
        assert all(b - a >= gap for a, b in itertools.pairwise(copied))
        assert len(copied) >= 40 / (gap + 2)
    assert recovery.SHARE <= 0.01


def test_on_the_cpu_nothing_is_copied(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(recovery, "_Copy", None)
    make().fit(Noisy(), 1, batch_size=BATCH, device="cpu", verbose=0)


def test_large_states_are_read_in_parts(gpu: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(recovery, "CHUNK", 100)
    monkeypatch.setattr(recovery, "SHARE", 1e9)
    seen = train(Noisy((150,)))
    assert len(seen[4]) == 1
    same(seen, undisturbed())
