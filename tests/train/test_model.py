"""Model: fit, evaluate, predict, save and load, callbacks, and the errors for bad input."""

from __future__ import annotations

import asyncio
import copy
import pickle
import threading
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from processes import python
from together import SOON, Thread

import pyframe as pf
from pyframe import nn, optim
from pyframe.data import DataLoader, Subset, TensorDataset
from pyframe.train import Callback, recovery


def task(n: int = 256) -> tuple[np.ndarray, np.ndarray]:
    """Which of four corners a point is near."""
    rng = np.random.default_rng(5)
    y = rng.integers(0, 4, n)
    corners = np.array([[1, 1], [1, -1], [-1, 1], [-1, -1]])
    return (corners[y] + rng.normal(0, 0.3, (n, 2))).astype(np.float32), y.astype(np.int64)


def make(lr: float = 0.02, metrics: Any = ("accuracy",)) -> pf.Model:
    pf.manual_seed(1)
    net = nn.Sequential(nn.Linear(2, 16), nn.ReLU(), nn.Linear(16, 4))
    return pf.Model(net, nn.CrossEntropyLoss(), optim.Adam(net.parameters(), lr=lr), metrics)


def test_fit_learns(device: str) -> None:
    x, y = task()
    model = make()
    history = model.fit((x, y), epochs=5, batch_size=32, validation_data=(x, y), device=device)
    found = history.history
    assert list(found) == ["loss", "accuracy", "val_loss", "val_accuracy", "lr"]
    assert all(len(v) == 5 for v in found.values())
    assert found["loss"][-1] < 0.5 * found["loss"][0]
    assert found["val_accuracy"][-1] > 0.9
    assert str(model.device) == device
    result = model.evaluate((x, y))
    assert result["accuracy"] == pytest.approx(found["val_accuracy"][-1])
    assert result["loss"] == pytest.approx(found["val_loss"][-1], rel=1e-4)
    scores = model.predict(x, batch_size=100)
    assert scores.shape == (256, 4)
    assert str(scores.device) == "cpu"
    right = (scores.argmax(1).numpy() == y).mean()
    assert right == pytest.approx(result["accuracy"])


@pytest.mark.parametrize("copied", [copy.deepcopy, lambda m: pickle.loads(pickle.dumps(m))])
def test_a_copy_trains_as_the_model_would(copied: Any) -> None:
    """With an optimizer and a scheduler of its own, and metrics that have seen nothing."""
    model = make()
    model.lr_scheduler = optim.lr_scheduler.StepLR(model.optimizer, 1)
    options: Any = {"epochs": 2, "shuffle": False, "device": None, "verbose": 0}
    model.fit(task(), **options)
    twin, before = copied(model), model.net[0].weight.tolist()
    assert twin.optimizer.param_groups[0]["params"][0] is twin.net[0].weight
    found = twin.fit(task(), **options).history
    assert model.net[0].weight.tolist() == before
    assert found == model.fit(task(), **options).history


def test_losses_are_read_now_and_then(gpu: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(recovery, "SHARE", 1e-9)  # copies are made once, however slow it is
    x, y = task(40 * 8)
    model = make()
    model.fit((x, y), batch_size=8, epochs=2, device=gpu, verbose=0)  # the second begins with zeros
    stats = pf.device(gpu).backend.stats
    stats.reset()
    model.fit((x, y), batch_size=8, epochs=1, device=gpu, verbose=0, read_every=10)
    assert stats.reads == 5  # after step 1, 10, 20, 30, 40
    assert stats.pipelines == 0


def test_quiet_training_needs_no_tqdm() -> None:
    code = (
        "import sys; sys.modules['tqdm'] = None; import pyframe as pf;"
        "from pyframe import nn, optim;"
        "net = nn.Linear(2, 1); opt = optim.SGD(net.parameters(), lr=0.1);"
        "model = pf.Model(net, nn.MSELoss(), opt);"
        "print(model.fit((pf.ones(4, 2), pf.ones(4, 1)), device='cpu', verbose=0).epoch)"
    )
    assert python("-c", code) == ["[1]\n", ""]


def test_moving_takes_the_optimizer_along(gpu: str) -> None:
    """An epoch on each device is two epochs on one."""
    losses = []
    for second in ("cpu", gpu):
        model, data = make(), DataLoader(TensorDataset(*map(pf.from_numpy, task())), 32)
        first = model.fit(data, device="cpu", verbose=0).history["loss"]
        losses.append(first + model.fit(data, device=second, verbose=0).history["loss"])
        assert model.optimizer is not None
        states = model.optimizer.state.values()
        assert {str(x.device) for state in states for x in state.values()} == {second}
    np.testing.assert_allclose(losses[0], losses[1], rtol=1e-4)


def test_floats_take_the_dtype_of_the_network() -> None:
    want, model = make().evaluate(task(64)), make()
    model.net.double()
    assert model.predict(task(64)[0]).dtype is pf.float64
    assert model.evaluate(task(64)) == pytest.approx(want, rel=1e-5)


class Watching(nn.Module):
    """Notes in which modes it runs."""

    def __init__(self) -> None:
        super().__init__()
        self.seen: set[tuple[bool, bool]] = set()

    def forward(self, x: pf.Tensor) -> pf.Tensor:
        self.seen.add((self.training, pf.is_grad_enabled()))
        return x


def test_layers_that_were_set_to_evaluation_mode_stay_so() -> None:
    """In a net that is in training mode; each by itself, in every epoch, and as a callback leaves
    them. A net that is in evaluation mode is trained as a whole."""
    data, options = task(64), {"verbose": 0, "device": "cpu"}

    def frozen() -> tuple[pf.Model, nn.Module]:
        norm = nn.BatchNorm1d(8)
        net = nn.Sequential(nn.Sequential(nn.Linear(2, 8), norm.eval()), nn.Linear(8, 4))
        return pf.Model(net, nn.CrossEntropyLoss(), optim.SGD(net.parameters(), lr=0.1)), norm

    def modes(model: pf.Model) -> list[bool]:
        return [m.training for m in model.net.modules()]

    model, norm = frozen()
    model.fit(data, epochs=2, validation_data=data, **options)
    model.train_on_batch(data)
    assert modes(model) == [True, True, True, False, True]
    assert not norm.running_mean.any()

    def thaw(model: pf.Model, epoch: int, logs: Any) -> None:
        assert norm.running_mean.any().item() is (epoch > 1)
        norm.train()
        model.net.eval() if epoch == 2 else None  # and forgets it

    model, norm = frozen()
    model.fit(data, epochs=3, callbacks=[pf.train.LambdaCallback(on_epoch=thaw)], **options)
    assert modes(model) == [True] * 5
    model, _ = frozen()
    model.net.eval()
    model.fit(data, **options)
    assert modes(model) == [True] * 5


def test_a_layer_that_the_optimizer_does_not_hold_is_named() -> None:
    x, y = task(32)
    model = make()
    model.net[2] = nn.Linear(16, 4)
    with pytest.warns(UserWarning, match=r"no optimizer holds 2.weight, 2.bias of .*the new"):
        model.fit((x, y), verbose=0, device="cpu")
    body = make()
    body.optimizer = optim.SGD(body.net[2].parameters(), lr=0.1)  # on purpose: all else stays
    body.fit((x, y), verbose=0, device="cpu")
    model.net[2].requires_grad_(False)
    model.fit((x, y), verbose=0, device="cpu")


def test_predictions_between_the_steps(device: str) -> None:
    """A page trains, evaluates and predicts by turns: none puts another in its own mode. Those that
    evaluate at once have means of their own, over samples: a smaller last batch counts less."""
    x, y = task(256)

    async def program() -> Any:
        model, watch = make(), Watching()
        model.net.append(watch)
        options: Any = {"batch_size": 16, "epochs": 2, "verbose": 0, "read_every": 1}
        fit = model.fit_async((x, y), device=device, **options)
        others = [model.evaluate_async((x, y), batch_size=b) for b in (5, 40)]
        await asyncio.gather(fit, *others, model.predict_async(x, batch_size=7))
        want = await model.evaluate_async((x, y))
        some = [model.evaluate_async((x, y), batch_size=b) for b in (5, 40, 256)]
        return watch.seen, await asyncio.gather(*some), want

    seen, found, want = asyncio.run(program())
    assert seen == {(True, True), (False, False)}
    assert pf.is_grad_enabled()
    assert found == [pytest.approx(want, rel=1e-4)] * 3


class Halting(nn.Module):
    """Stops in the middle of a thread's forward until it may go on, and notes the modes there."""

    def __init__(self) -> None:
        super().__init__()
        self.within, self.go_on = threading.Event(), threading.Event()
        self.seen: dict[bool, set[Any]] = {True: set(), False: set()}

    def forward(self, x: pf.Tensor) -> pf.Tensor:
        main = threading.current_thread() is threading.main_thread()
        if not main:
            self.within.set()
            assert self.go_on.wait(SOON), f"the main thread has not ended its part in {SOON} s"
        self.seen[main].add((self.training, pf.is_grad_enabled()))
        return x


@pytest.mark.parametrize("what", ["fit", "predict", "evaluate"])
def test_threads_have_modes_of_their_own(what: str) -> None:
    """While another thread is in the middle of a prediction, this one is in the mode it needs."""
    x, y = task(64)
    halt = Halting()
    net = nn.Sequential(nn.Dropout(0.5), nn.Linear(2, 4), halt)
    model = pf.Model(net, nn.CrossEntropyLoss(), optim.SGD(net.parameters(), lr=0.01))
    net[1].eval()
    before = [m.training for m in net.modules()]
    other = Thread(lambda: model.predict(x))
    try:
        assert halt.within.wait(SOON), f"the other thread's forward has not begun in {SOON} s"
        assert [m.training for m in net.modules()] == before
        if what == "fit":
            model.fit((x, y), verbose=0, compile=False, device=None)
        elif what == "predict":
            first, second = model.predict(x), model.predict(x)
            assert first.tolist() == second.tolist()
        else:
            model.evaluate((x, y), compile=False)
    finally:
        halt.go_on.set()
    other.result()
    assert halt.seen == {True: {(what == "fit",) * 2}, False: {(False, False)}}
    assert [m.training for m in net.modules()] == before


def test_modes_after_an_error() -> None:
    class Fails(nn.Module):
        def forward(self, x: pf.Tensor) -> pf.Tensor:
            assert not self.training
            raise KeyboardInterrupt

    net = nn.Sequential(nn.Linear(2, 4), nn.Dropout(0.5), Fails())
    net[0].eval()
    model = pf.Model(net, nn.CrossEntropyLoss())
    for call in (
        lambda: model.predict(task(8)[0]), lambda: model.evaluate(task(8)),
        lambda: model.summary((2,)),
    ):  # fmt: skip
        with pytest.raises(KeyboardInterrupt):
            call()
        assert [m.training for m in net.modules()] == [True, False, True, True]
        assert pf.is_grad_enabled()


def test_modules_with_a_mode_of_their_own() -> None:
    """Own `train` and `eval` are called, and a module may be told in the middle of a forward."""

    class Frozen(nn.Sequential):
        def train(self, mode: bool = True) -> Any:
            return super().train(False)

    class Uncertain(nn.Sequential):  # drops out in evaluation too
        def train(self, mode: bool = True) -> Any:
            super().train(mode)
            self[0].train()
            return self

        def eval(self) -> Any:
            return self.train(False)

        def forward(self, x: pf.Tensor) -> pf.Tensor:
            self[1].train()
            return super().forward(x)

    frozen, uncertain = Watching(), Watching()
    net = nn.Sequential(Frozen(frozen), nn.Linear(2, 4), Uncertain(nn.Dropout(0.5), uncertain))
    model = pf.Model(net, nn.CrossEntropyLoss(), optim.SGD(net.parameters(), lr=0.01))
    x, y = task(64)
    model.fit((x, y), verbose=0, device="cpu")
    assert frozen.seen == {(False, True)}
    before = [m.training for m in net.modules()]
    assert before == [True, False, False, True, True, True, True]
    uncertain.seen.clear()
    assert model.predict(x).tolist() != model.predict(x).tolist()
    assert uncertain.seen == {(True, False)}
    assert [m.training for m in net.modules()] == before


def test_what_a_net_compiles_follows_the_mode() -> None:
    class Compiled(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.drop = nn.Dropout(0.5)
            self.run = pf.compile(lambda x: self.drop(x) * 2)

        def forward(self, x: pf.Tensor) -> pf.Tensor:
            return self.run(x)

    net = Compiled()
    model, x = pf.Model(net), pf.ones(8, 8)
    for training in (True, False, True):
        net.train(training)
        for _ in range(2):
            assert (net(x).tolist() == [[2.0] * 8] * 8) is not training
            assert pf.Model(nn.Sequential(net)).predict(x).tolist() == [[2.0] * 8] * 8
            assert model.predict(x).tolist() == [[2.0] * 8] * 8
    assert net.run.captured == 3  # trained, not trained, and evaluated as part of either net


def test_an_evaluation_is_captured_once() -> None:
    """Whatever the mode that the net is in."""
    model = make()
    model.net.append(nn.Dropout(0.5))
    for training in (True, False, True):
        model.net.train(training)
        model.evaluate(task(64))
    (steps,) = model._free["test"]
    assert (steps.compiled.captured, steps.compiled.replayed) == (1, 2)


@pytest.mark.parametrize(
    ("stop_at", "want"),
    [(None, ["begin", 1, 4, 8, "epoch 1", 12, 16, "epoch 2", "end"]),
     (4, ["begin", 1, 4, "epoch 1", "end"])],
)  # fmt: skip
def test_callbacks(stop_at: int | None, want: list[Any]) -> None:
    seen: list[Any] = []

    async def on_step(model: pf.Model, step: int, logs: dict[str, float]) -> None:
        await asyncio.sleep(0)
        seen.append(step)
        assert set(logs) == {"loss", "accuracy"}
        model.stop_training = step == stop_at

    told = pf.train.LambdaCallback(
        on_fit_begin=lambda model: seen.append("begin"), on_step=on_step,
        on_epoch=lambda model, epoch, logs: seen.append(f"epoch {epoch}"),
        on_fit_end=lambda model: seen.append("end"),
    )  # fmt: skip
    options: Any = {"batch_size": 32, "verbose": 0, "callbacks": [told], "read_every": 4}
    history = make().fit(task(), epochs=2, **options)
    assert seen == want
    assert len(history.epoch) == len([e for e in want if "epoch" in str(e)])


def test_inside_an_event_loop() -> None:
    """The await twins, and the blocking names where a loop runs already, as in a notebook."""
    x, y = task(64)

    async def program() -> Any:
        model = make()
        history = await model.fit_async(x, y, epochs=2, verbose=0)
        blocking = make().fit((x, y), epochs=2, verbose=0)
        assert history.history == blocking.history
        assert await model.evaluate_async(x, y) == model.evaluate((x, y))
        return (await model.predict_async(x)).shape

    assert asyncio.run(program()) == (64, 4)


def test_a_callback_that_waits_for_a_loop_says_so() -> None:
    class Waits(Callback):
        async def on_epoch(self, model: pf.Model, epoch: int, logs: dict[str, float]) -> None:
            await asyncio.get_running_loop().create_future()

    with pytest.raises(RuntimeError, match="no running event loop|await model.fit_async"):
        make().fit(task(8), verbose=0, callbacks=[Waits()])


def test_a_page_draws_its_own_progress(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("pyframe.train.progress.in_browser", lambda: True)
    make().fit(task(64), device="cpu")
    assert capsys.readouterr().err == ""


def test_metrics_alone_are_evaluated() -> None:
    result = pf.Model(nn.Linear(2, 4), metrics=["accuracy"]).evaluate(task(32))
    assert list(result) == ["accuracy"]


def test_save_and_load(tmp_path: Path, device: str) -> None:
    x, y = task(64)
    model = make()
    model.fit((x, y), epochs=1, device=device, verbose=0)
    model.save(tmp_path / "w.safetensors")
    other = make(lr=0.5).load(tmp_path / "w.safetensors").to(device)
    assert model.predict(x).tolist() == other.predict(x).tolist()
    weights = model.net[0].weight.tolist()
    for name, twin in (("w.pt", "v.pt"), ("w.npz", "v.npz"), ("weights", "twin"),
                       ("w.safetensors", "v.safetensors")):  # fmt: skip
        model.save(tmp_path / name)
        asyncio.run(model.save_async(tmp_path / twin))
        for path in (tmp_path / name, tmp_path / twin):
            assert make().load(path).net[0].weight.tolist() == weights
    assert zipfile.is_zipfile(tmp_path / "w.pt")  # as torch.load takes it


def test_summary(capsys: pytest.CaptureFixture[str]) -> None:
    text = make().summary((2,))
    assert capsys.readouterr().out.strip() == text
    assert "116 parameters (116 trained), 0.5 KiB" in text
    assert "[N" not in make().summary()


def test_a_loss_of_one_element() -> None:
    """Its shape may be (1,), in metrics too."""
    found, loss = [], nn.CrossEntropyLoss()
    for shape in ((), (1,), (1, 1)):
        model = make()
        model = pf.Model(model.net, lambda o, t, s=shape: loss(o, t).reshape(s), model.optimizer)
        found.append(model.fit(task(64), verbose=0, device="cpu").history["loss"])
    assert found[0] == found[1] == found[2]


def test_what_is_trained_may_be_a_part_of_the_loss() -> None:
    class Scaled(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.scale = nn.Parameter(pf.ones(()))

        def forward(self, output: pf.Tensor, target: pf.Tensor) -> pf.Tensor:
            return nn.CrossEntropyLoss()(output * self.scale, target)

    loss = Scaled()
    optimizer = optim.SGD(loss.parameters(), lr=0.1)
    pf.Model(make().net, loss, optimizer).fit(task(64), verbose=0, device="cpu")
    assert loss.scale.item() != 1


@pytest.mark.sampled(6)
@pytest.mark.parametrize(
    ("spoil", "data", "words"),
    [
        (lambda x, y: (x * np.nan, y), tuple,
         "by step 1; the inputs hold nan or inf: 70 of the 70 samples of the data, the first is n"),
        (lambda x, y: (np.where(np.arange(70)[:, None] == 68, np.inf, x), y),
         lambda d: Subset(TensorDataset(*d), range(60, 70)),
         "the inputs hold nan or inf: 1 of the 10 samples of the data, the first is number 8"),
        (lambda x, y: (x, np.where(np.arange(70)[:, None] == 3, np.nan, np.eye(4)[y])), tuple,
         "the targets hold nan or inf: 1 of the 70 samples of the data, the first is number 3"),
        (lambda x, y: (x * np.nan, y), lambda d: [d],
         "the inputs hold nan or inf: 70 of the 70 samples of the batch at hand"),
        (lambda x, y: (x * 1e38, y), tuple,
         "the data is finite: a lower learning rate or scaled inputs often help"),
        (lambda x, y: (x * 1e38, y), lambda d: [d, d],
         "the other batches were not looked at, this one is finite: a lower learning rate or"),
    ],
)  # fmt: skip
def test_a_loss_that_is_lost_says_why(spoil: Any, data: Any, words: str, device: str) -> None:
    """Once: what was in the data is told apart from what training has led to."""
    x, y = spoil(*task(70))
    pair = (pf.tensor(x).float(), pf.tensor(y) if y.ndim == 1 else pf.tensor(y).float())
    model = make(lr=1e30, metrics=())
    with pytest.warns(RuntimeWarning, match=f"the loss became (nan|inf) .*{words}") as seen:
        model.fit(data(pair), epochs=3, verbose=0, batch_size=16, shuffle=False, device=device)
    assert len(seen) == 1


def test_weights_that_are_nan_already_are_thought_of() -> None:
    model = make()
    model.net[0].weight.data.fill_(np.nan)
    with pytest.warns(RuntimeWarning, match="left nan in the weights, begin with new ones"):
        model.fit(task(64), verbose=0, device="cpu")


def test_a_fit_within_a_fit() -> None:
    """Of the same model it is refused; all callbacks are told of the end, and the model is free."""
    x, y = task(64)
    told: list[str] = []

    class Again(Callback):
        def on_epoch(self, model: pf.Model, epoch: int, logs: Any) -> None:
            make().fit(x, y, verbose=0, device="cpu")
            model.fit(x, y, verbose=0, device="cpu")

        def on_fit_end(self, model: pf.Model) -> None:
            told.append("end")
            raise ValueError("no end")

    model = make()
    with pytest.raises(ValueError, match="no end") as caught:
        model.fit(x, y, callbacks=[Again(), Again()], verbose=0, device="cpu")
    assert "in a fit already" in str(caught.value.__context__)
    assert told == ["end", "end"]
    model.fit(x, y, verbose=0, device="cpu")


def test_an_optimizer_that_needs_a_closure_is_refused() -> None:
    model = make()
    model.optimizer = optim.LBFGS(model.net.parameters())
    with pytest.raises(TypeError, match=r"fit: LBFGS .* loop of your own .*step\(closure\)"):
        model.fit(task(64))
