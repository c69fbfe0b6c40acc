"""Callbacks: when a fit stops, what it writes, and what it shows."""

from __future__ import annotations

import contextlib
import csv
import signal
import sys
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from compared import alike
from refused import check_refused, rows
from together import Thread
from train.test_recovery import lose

import pyframe as pf
from pyframe import nn, optim
from pyframe.train import Callback, recovery
from pyframe.train.callbacks import (
    CSVLogger,
    EarlyStopping,
    GradientWatch,
    LambdaCallback,
    LearningRateFinder,
    ModelCheckpoint,
    TensorBoard,
    Timer,
)
from pyframe.train.callbacks.stopping import higher_is_better
from pyframe.train.progress import ProgressBar, progress

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
        value = self.values[epoch - 1]
        logs.pop(self.name, None)
        if value is not None:
            logs[self.name] = value
        self.weights.append(weights(model))


def weights(model: pf.Model) -> list[np.ndarray]:
    return [x.numpy(force=True).copy() for x in model.net.state_dict().values()]


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
    ([2, 1, 3], {"restore_best": False}, 3, 1),  # whose last weights stay
]


@pytest.mark.parametrize(("values", "options", "epochs", "best"), STOPS)
def test_stops_when_it_gets_no_better(
    values: list[float | None], options: dict[str, Any], epochs: int, best: int
) -> None:
    says, stop, model = Says("loss", *values), EarlyStopping("loss", **options), make()
    history = fit(says, stop, model=model, epochs=len(values))
    assert len(history.epoch) == epochs
    assert stop.best_epoch == best + 1  # the first epoch is number 1
    assert stop.best == values[best]
    assert stop.stopped_epoch == (epochs if epochs < len(values) or best < epochs - 2 else None)
    kept = best if options.get("restore_best", True) else -1
    alike(weights(model), says.weights[kept], 0, 0)


def test_a_fit_says_that_it_stopped(capsys: pytest.CaptureFixture[str]) -> None:
    """By its patience, where it is not quiet; an EarlyStopping of one's own if it shall."""
    rising: dict[str, Any] = {"monitor": "loss", "patience": 2, "mode": "max"}  # which it does not
    for own, options, end in (
        ([], {**rising, "verbose": 2}, ", and the net has its weights\n"),
        ([EarlyStopping(**rising, restore_best=False, verbose=True)], {}, "\n"),
        ([EarlyStopping(**rising)], {}, None),
        ([], rising, None),
    ):
        loss = fit(*own, epochs=9, **options)["loss"][0]
        said = capsys.readouterr().err
        if end is None:
            assert said == ""
        else:
            assert said.endswith(f"Stopped in epoch 3: loss was best in epoch 1, {loss:.4g}{end}")


@pytest.fixture
def one_copy(gpu: str, monkeypatch: pytest.MonkeyPatch) -> str:
    """A GPU whose state is copied at the first step alone, however slow it is: counts agree."""
    monkeypatch.setattr(recovery, "SHARE", 1e-9)
    return gpu


def test_whether_more_is_better() -> None:
    for names, higher in (
        ("accuracy val_acc top5_accuracy val_AUROC f1 MacroF1 r2 average_precision mean_iou", True),
        ("cosine_similarity", True),
        ("loss val_loss mae rmse perplexity lr face_error dice_loss val_f1_loss valError", False),
        ("speed val_largest agreement surface", None),
    ):
        for name in names.split():
            assert higher_is_better(name) is higher, name


def agreement(output: pf.Tensor, target: pf.Tensor) -> pf.Tensor:
    return ((output > 0) == (target > 0)).float().mean()


def judged(*callbacks: Callback, plateau: str = "", **options: Any) -> None:
    """A fit with a metric of which nobody knows whether more of it is better."""
    plain = make()
    model = pf.Model(plain.net, plain.loss, plain.optimizer, [agreement])
    if plateau:
        model.lr_scheduler = optim.lr_scheduler.ReduceLROnPlateau(model.optimizer, plateau)
    fit(*callbacks, model=model, **options)


def test_a_direction_that_is_given(tmp_path: Path) -> None:
    own = [EarlyStopping("agreement", mode="max"), ModelCheckpoint(tmp_path, "agreement", "max")]
    judged(*own, plateau="max", mode="max", patience=2, monitor="agreement")


BAD = r"""
LambdaCallback(on_batch=print) -> TypeError: 'on_batch'; expected on_fit_begin, on_
LambdaCallback(on_step=3) -> TypeError: on_step must be a function, got 3
ModelCheckpoint(3) -> TypeError: ModelCheckpoint: expected a path
ModelCheckpoint("a.pt", top_k=2) -> ValueError: but top_k is 2; give a folder
ModelCheckpoint("a.pt", weights_only=True) -> ValueError: are written as .safetensors
ModelCheckpoint("a", every_epochs=0) -> ValueError: every_epochs must be at least 1
LearningRateFinder(low=1, high=1) -> ValueError: expected 0 < low < high, got low=1 a
LearningRateFinder(steps=1) -> ValueError: steps must be at least 2, got 1
TensorBoard(histograms_every=-1) -> ValueError: histograms_every must be at least 0
judged(EarlyStopping("agreement")) -> ValueError: 'agreement' is better .* give mode='max' or
judged(ModelCheckpoint("a", "agreement")) -> ValueError: 'agreement' is better .* give mode='max' or
judged(patience=2, monitor="agreement") -> ValueError: 'agreement' is better .* give mode='max' or
judged(plateau="min", monitor="agreement") ->
    ValueError: 'agreement' is better .* give mode='max' or
judged(plateau="min", mode="max", monitor="agreement") ->
    ValueError: has mode='min', and 'agreement' is better the higher
"""


@pytest.mark.parametrize(("call", "text"), rows(BAD))
def test_bad_settings(call: str, text: str) -> None:
    check_refused(call, text, lambda lib: globals())


# --- ModelCheckpoint


def names(folder: Path) -> list[str]:
    return sorted(p.name for p in folder.iterdir())


# (options, files after four epochs that are worth 3, 1, nan and 2)
CHECKPOINTS: list[tuple[dict[str, Any], list[str]]] = [
    ({}, ["epoch-002-loss-1.pt", "last.pt"]),
    ({"top_k": 2, "save_last": False}, ["epoch-002-loss-1.pt", "epoch-004-loss-2.pt"]),
    ({"mode": "max", "weights_only": True}, ["epoch-001-loss-3.safetensors", "last.safetensors"]),
    ({"top_k": 0}, ["last.pt"]),
    ({"top_k": 0, "every_epochs": 3}, ["last.pt"]),
    ({"every_epochs": 4}, ["epoch-004-loss-2.pt", "last.pt"]),
    ({"top_k": None, "every_steps": 3, "weights_only": True, "save_last": False}, [
        *(f"epoch-00{i}-loss-{v}.safetensors" for i, v in enumerate((3, 1, NAN, 2), 1)),
        "epoch-002-step-00000003.safetensors", "epoch-003-step-00000006.safetensors",
    ]),
]  # fmt: skip


@pytest.mark.parametrize(("options", "files"), CHECKPOINTS)
def test_checkpoints(options: dict[str, Any], files: list[str], tmp_path: Path) -> None:
    keep = ModelCheckpoint(tmp_path / "runs", "loss", **options)
    fit(Says("loss", 3, 1, NAN, 2), keep, epochs=4, read_every=1)
    assert names(tmp_path / "runs") == sorted(files)


def test_the_best_file_holds_the_best_weights(tmp_path: Path) -> None:
    says, keep, model = Says("loss", 3, 1, 2), ModelCheckpoint(tmp_path, "loss"), make()
    one = ModelCheckpoint(tmp_path / "deep" / "best.safetensors", "loss")
    fit(says, keep, one, model=model)
    assert (keep.best, keep.best_path) == (1, tmp_path / "epoch-002-loss-1.pt")
    assert names(tmp_path / "deep") == ["best.safetensors"]
    for path, epoch in ((keep.best_path, 1), (one.best_path, 1), (keep.last_path, 2)):
        other = make(lr=0.5).load(path)
        np.testing.assert_array_equal(weights(other)[0], says.weights[epoch][0])


def test_a_better_file_that_could_not_be_written_costs_no_good_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    model, keep = make(), ModelCheckpoint(tmp_path, "loss", weights_only=True, save_last=False)
    save = model.save_async

    async def full(path: Path) -> None:
        if "epoch-002" in path.name:
            raise OSError("No space left on device")
        await save(path)

    monkeypatch.setattr(model, "save_async", full)
    with pytest.raises(OSError, match="No space left"):
        fit(Says("loss", 3, 1, 2), keep, model=model)
    assert names(tmp_path) == [keep.best_path.name] == ["epoch-001-loss-3.safetensors"]


def test_a_file_that_is_open_on_windows_goes_with_the_next_epoch(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    keep = ModelCheckpoint(tmp_path, "loss", top_k=1, save_last=False)
    unlink, kept = Path.unlink, []

    def once(path: Path, missing_ok: bool = False) -> None:
        if path.suffix == ".pt" and not kept:
            kept.append(path.name)
            raise PermissionError(13, "The process cannot access the file", path)
        unlink(path, missing_ok)

    monkeypatch.setattr(Path, "unlink", once)
    fit(Says("loss", 3, 2, 1), keep, epochs=3)
    assert kept == ["epoch-001-loss-3.pt"]
    assert names(tmp_path) == ["epoch-003-loss-1.pt"]


# --- CSVLogger, TensorBoard, Timer


def table(path: Path) -> list[dict[str, str]]:
    return list(csv.DictReader(path.read_text().splitlines()))


def test_csv(tmp_path: Path) -> None:
    path = tmp_path / "new" / "log.csv"
    losses = fit(CSVLogger(path))["loss"]
    fit(CSVLogger(path, append=True), Says("late", None, 1), epochs=2, validation_data=task())
    rows = table(path)
    assert list(rows[0]) == ["epoch", "loss", "lr", "val_loss"]
    assert [row["epoch"] for row in rows] == ["1", "2", "3", "1", "2"]
    assert (float(rows[0]["loss"]), rows[0]["val_loss"]) == (losses[0], "")
    fit(Says("late", None, 1), CSVLogger(path), epochs=2)
    assert path.read_text().splitlines()[0] == "epoch,loss,lr,late"  # a name that came later


def test_csv_goes_on_where_a_fit_is_resumed(tmp_path: Path) -> None:
    """Rows of epochs after the checkpoint are written again, and no other ones."""
    path, model = tmp_path / "log.csv", make()
    fit(CSVLogger(path), model=model, epochs=3)
    again = CSVLogger(path)
    again.load_state_dict(CSVLogger(path).state_dict())
    again.on_fit_begin(model)
    again.on_epoch(model, 3, {"loss": 5.0})
    again.on_epoch(model, 4, {"loss": 6.0})
    again.on_epoch(model, 4, {"loss": 7.0})  # once more, as after a lost GPU
    rows = table(path)
    assert [(row["epoch"], row["loss"]) for row in rows[2:]] == [("3", "5.0"), ("4", "7.0")]
    assert len(rows) == 4
    path.write_text("epoch,loss\n0,5.0\n1,4.0\n")  # as files were written that counted from 0
    again = CSVLogger(path, append=True)
    again.on_fit_begin(model)
    again.on_epoch(model, 3, {"loss": 3.0})
    assert [row["epoch"] for row in table(path)] == ["1", "2", "3"]


def test_tensorboard(tmp_path: Path) -> None:
    pytest.importorskip("tensorboardX", reason="tensorboardX is missing (scripts/test)")
    reader = pytest.importorskip(
        "tensorboard.backend.event_processing.event_accumulator",
        reason="TensorBoard, the oracle, is missing (scripts/test)",
    )
    board = TensorBoard(tmp_path, histograms_every=2, graph=pf.ones(1, 2))
    history = fit(board, epochs=2, validation_data=task(), read_every=1)
    events = reader.EventAccumulator(str(tmp_path))
    events.Reload()
    tags = events.Tags()
    assert {"loss/train", "loss/val", "loss/steps", "lr"} <= set(tags["scalars"])
    assert [e.step for e in events.Scalars("loss/steps")] == [1, 2, 3, 4]
    seen = [(e.step, e.value) for e in events.Scalars("loss/val")]
    assert seen == [(1, pytest.approx(history["val_loss"][0])),
                    (2, pytest.approx(history["val_loss"][1]))]  # fmt: skip
    assert {"0.weight", "2.bias"} <= set(tags["histograms"])
    assert [e.step for e in events.Histograms("0.weight")] == [2]
    assert tags["graph"]
    below = reader.EventAccumulator(str(tmp_path / "hparams"))
    below.Reload()
    found = below.Scalars("best/loss")[0].value
    assert found == pytest.approx(history.best("loss").value)


def test_a_timer_adds_to_the_history_and_reads_nothing(one_copy: str) -> None:
    stats = pf.device(one_copy).backend.stats
    counts: dict[int, list[tuple[int, int]]] = {0: [], 1: []}
    for number in range(6):  # the first of a process, and what others have left, take more
        model, timers = make(), [Timer()] * (number % 2)
        stats.reset()
        history = fit(*timers, model=model, device=one_copy, epochs=2)
        counts[len(timers)].append((stats.reads, stats.dispatches))
    assert counts[0][-1] == counts[1][-1]
    assert list(history) == ["loss", "lr", "seconds", "steps_per_second", "samples_per_second"]
    for steps, samples in zip(*list(history.history.values())[-2:], strict=True):
        assert samples == pytest.approx(16 * steps)
    assert timers[0].total >= sum(history["seconds"]) > 0


# --- GradientWatch


def failing(what: str) -> tuple[pf.Model, tuple[np.ndarray, np.ndarray]]:
    """A model, and data, whose values are lost in the third step."""
    x, y = task(64)
    model = make(lr=0.01)
    if what == "data":
        x[40, 1] = np.nan
    elif what == "layer":
        x[40] = 1e30

        class Power(nn.Module):
            def forward(self, x: pf.Tensor) -> pf.Tensor:
                return x**3

        model.net[1] = Power()
    else:
        x[40:41] = 0
        y[40:41] = 0

        def distance(output: pf.Tensor, target: pf.Tensor) -> pf.Tensor:
            return ((output - target) * target).abs().sqrt().mean()

        model.loss = distance
    return model, (x, y)


LOST = [
    ("data", "inputs", "what net (Sequential) was given", "clean or scale the data"),
    ("layer", "output", "1 (Power)", "a lower learning rate, clip_norm=1.0"),
    ("loss", "gradient", "2.bias", "look for sqrt"),
]


@pytest.mark.sampled(3)
@pytest.mark.parametrize(("what", "kind", "name", "advice"), LOST)
def test_the_first_layer_with_nan_is_named(
    what: str, kind: str, name: str, advice: str, device: str
) -> None:
    model, data = failing(what)
    watch = GradientWatch()
    with pytest.warns(RuntimeWarning) as caught:
        model.fit(
            data, epochs=3, batch_size=16, shuffle=False, callbacks=[watch], device=device,
            verbose=0, validation_data=task(),
        )  # fmt: skip
    assert watch.found == (3, kind, name)
    text = next(str(w.message) for w in caught if "GradientWatch" in str(w.message))
    assert name in text
    assert "at step 3 " in text
    assert advice in text
    assert len(model.history.epoch) == 1
    assert not model.net[0]._forward_hooks  # it looks no more


def test_the_watch_lets_a_step_be_one_program(one_copy: str) -> None:
    """A step that is watched is captured, and has few kernels more; nothing else is read."""
    stats, counts = pf.device(one_copy).backend.stats, []
    for watches in ([], [GradientWatch()]):
        model = make()
        for epochs in (2, 1):
            stats.reset()
            fit(*watches, model=model, device=one_copy, epochs=epochs, accumulate=2)
        counts.append((stats.dispatches, stats.reads))
    more = counts[1][0] - counts[0][0]
    assert 0 < more <= 2 * 6, counts
    assert counts[1][1] <= counts[0][1] + 2
    assert not model._free["train"][0].compiled.explain().count("runs eagerly")


def test_the_watch_looks_at_steps_of_ones_own() -> None:
    """Several passes and updates a step, and a finder before, whose steps are not those of the fit:
    it goes on to where the loss diverges."""

    class Twice(pf.Model):
        def training_step(self, batch: Any) -> Any:
            x, y = batch
            self.minimize(nn.functional.mse_loss(self.net(x), y))
            loss = nn.functional.mse_loss(self.net(x * 2), y)
            self.minimize(loss)
            self.net(x)  # a pass without an update
            return {"loss": loss}

    first = make()
    model, watch = Twice(first.net, first.loss, first.optimizer), GradientWatch()
    finder = LearningRateFinder(low=1e-3, high=1e6, steps=30, diverged=np.inf)
    fit(watch, finder, model=model)
    assert finder.found is not None
    assert watch.found is None
    (x, y), late = task(), finder.found.suggestion
    assert late is not None
    x[20] = np.inf
    with pytest.warns(RuntimeWarning):
        model.fit((x, y), batch_size=16, shuffle=False, callbacks=[watch], device="cpu", verbose=0)
    assert watch.found == (3, "inputs", "what net (Sequential) was given")  # 2 updates a step


def test_callbacks_of_a_fit_that_loses_its_gpu(gpu: str) -> None:
    """The watch goes on; best weights that are gone are told of, and the last ones are whole."""
    lost: list[int] = []

    def begin(model: pf.Model, epoch: int) -> None:
        if epoch == 2 and not lost:
            lost.append(epoch)
            lose()

    says, stop, watch = Says("loss", 1, 2, 3), EarlyStopping("loss"), GradientWatch()
    with pytest.warns(RuntimeWarning) as caught:
        history = fit(says, stop, watch, LambdaCallback(on_epoch_begin=begin), device=gpu)
    texts = [str(w.message) for w in caught]
    assert [t.partition(":")[0] for t in texts] == ["fit", "EarlyStopping"], texts
    assert "weights of epoch 1, the best one, were lost with the GPU" in texts[1]
    assert len(history.epoch) == 3
    assert watch.found is None


# --- progress


def test_a_bar_and_lines_in_a_terminal(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    # a terminal that an epoch's numbers are too long for
    monkeypatch.setattr("tqdm.std._screen_shape_wrapper", lambda: lambda file: (40, 20))
    fit(verbose=1, epochs=2, validation_data=task())
    shown = capsys.readouterr().err
    assert "Training on cpu (" in shown
    assert "epoch 2/2: 100%" in shown
    assert "val_loss=" in shown
    fit(verbose=2, epochs=2)
    lines = capsys.readouterr().err.splitlines()
    assert lines[0].startswith("Training on cpu (")
    assert [line.split(" - ")[0] for line in lines[1:]] == ["epoch 1/2", "epoch 2/2"]
    assert " - loss: " in lines[1]
    fit(verbose=0)
    assert capsys.readouterr().err == ""


def test_a_live_plot_in_a_notebook(monkeypatch: pytest.MonkeyPatch) -> None:
    """It is shown once and then drawn anew in its place, without a library."""
    pages: list[str] = []

    class Handle:
        def update(self, page: str) -> None:
            pages.append(page)

    def display(page: str, display_id: bool) -> Handle:
        pages.append(page)
        return Handle()

    shell = SimpleNamespace(kernel=object())
    ipython = SimpleNamespace(get_ipython=lambda: shell)
    monkeypatch.setitem(sys.modules, "IPython", ipython)
    shows = SimpleNamespace(HTML=str, display=display)
    monkeypatch.setitem(sys.modules, "IPython.display", shows)
    monkeypatch.setattr("pyframe.train.progress.PAUSE", 0.0)
    monkeypatch.setattr("time.monotonic", lambda: 5.0)  # for 16 ms on Windows
    fit(verbose=1, epochs=2, validation_data=task(), read_every=1)
    assert '<progress max="2" value="0.5000"' in pages[1]
    assert "epoch 1/2 · step 1/2 · " in pages[1]
    assert "steps/s" in pages[1]
    assert "<polyline" in pages[-1]
    assert "val_loss</text>" in pages[-1]
    assert "<th>val_loss</th>" in pages[-1]
    assert pages[-1].count("<tr>") == 3
    assert "2 epochs in 0:0" in pages[-1]
    fit(verbose=1, epochs=1)
    assert "<div>1 epoch in 0:0" in pages[-1]
    shell.kernel = None
    assert type(progress(1)[0]).__name__ == "ProgressBar"
    assert progress(1, [ProgressBar()]) == []  # one is enough


# --- Ctrl-C


@pytest.fixture
def ctrl_c() -> Iterator[None]:
    """Python's own handler, whatever runs the tests has."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    assert signal.signal(signal.SIGINT, before) is signal.default_int_handler


class Interrupts(Callback):
    """Ctrl-C in a step of the second epoch, so many times."""

    def __init__(self, times: int) -> None:
        self.times = times

    def on_step(self, model: pf.Model, step: int, logs: dict[str, float]) -> None:
        if model.epoch == 2:
            for _ in range(self.times):
                signal.raise_signal(signal.SIGINT)


@pytest.mark.usefixtures("ctrl_c")
@pytest.mark.parametrize("times", [1, 2])
def test_ctrl_c_ends_a_fit_with_the_best_weights(
    times: int, capsys: pytest.CaptureFixture[str]
) -> None:
    """After the step that is running, of two in the second epoch; once more ends it at once."""
    model, says = make(), Says("loss", 1, 2, 3)
    with pytest.raises(KeyboardInterrupt) if times == 2 else contextlib.nullcontext():
        fit(says, EarlyStopping("loss"), Interrupts(times), model=model, read_every=1)
    assert model.history.interrupted
    if times == 1:
        assert (model.history.epoch, model.step) == ([1, 2], 3)
    shown = capsys.readouterr().err
    assert shown.count("Stopping after this step; Ctrl-C again stops at once") == 1
    np.testing.assert_array_equal(weights(model)[0], says.weights[0][0])


@pytest.mark.usefixtures("ctrl_c")
def test_a_fit_goes_on_after_ctrl_c(tmp_path: Path) -> None:
    """Within a group of batches: the rest of it is trained, as if nothing had been."""

    def train(*callbacks: Callback, **options: Any) -> pf.Model:
        model = make()
        model.lr_scheduler = optim.lr_scheduler.ReduceLROnPlateau(model.optimizer, patience=0)
        fit(
            *callbacks, model=model, epochs=3, batch_size=4, accumulate=3, read_every=1,
            validation_data=task(), **options,
        )  # fmt: skip
        return model

    whole = train()
    assert train(Interrupts(1), resume=tmp_path).history.interrupted
    again = train(resume=tmp_path)
    assert again.history.history == whole.history.history
    assert again.history.epoch == [1, 2, 3]
    alike(weights(again), weights(whole), 0, 0)


@pytest.mark.usefixtures("ctrl_c")
def test_ctrl_c_belongs_to_whoever_handles_it() -> None:
    """A program's own handler stays, and in a thread there is nothing to handle."""
    seen: list[int] = []
    before = signal.signal(signal.SIGINT, lambda number, frame: seen.append(number))
    try:
        history = fit(Interrupts(1), read_every=1)
    finally:
        signal.signal(signal.SIGINT, before)
    assert seen == [signal.SIGINT] * 2
    assert not history.interrupted
    assert len(history.epoch) == 3
    assert len(Thread(fit).result().epoch) == 3


# --- LearningRateFinder


def test_learning_rates(device: str) -> None:
    """The suggested rate is one at which the loss falls, and all is as it was before."""
    model = make(lr=0.3)
    model.to(device)
    model.net[1].register_forward_hook(lambda m, x, out: nn.functional.dropout(out, 0.1))
    model.train_on_batch((pf.from_numpy(task()[0]), pf.from_numpy(task()[1])))
    before = weights(model), model.optimizer.state_dict(), pf.random.get_rng_state()
    steps = [float(s["step"]) for s in before[1]["state"].values()]
    draw = pf.randn(3, device=device).numpy() if device == "cpu" else None
    if draw is not None:
        pf.random.set_rng_state(before[2])
    found = LearningRateFinder(steps=100, batch_size=16).find(model, task())
    assert found.rates[0] == 1e-7
    assert np.allclose(np.diff(np.log(found.rates)), np.log(10 / 1e-7) / 99)
    assert found.suggestion is not None
    assert 1e-4 < found.suggestion < 10
    assert f"{found.suggestion:.3g} is suggested, of {len(found.rates)} learning" in repr(found)
    alike(weights(model), before[0], 0, 0)
    after = model.optimizer.state_dict()
    assert after["param_groups"] == before[1]["param_groups"]
    assert [float(s["step"]) for s in after["state"].values()] == steps
    np.testing.assert_array_equal(pf.random.get_rng_state().numpy(), before[2].numpy())
    if draw is not None:
        np.testing.assert_array_equal(pf.randn(3, device=device).numpy(), draw)


def test_a_new_model_is_new_after_the_rates_were_tried() -> None:
    """A fit after the finder is the fit without it, and with an error nothing else is left."""
    wanted, tried = fit()["loss"], make()
    LearningRateFinder(steps=5).find(tried, task())
    assert not tried.optimizer.state
    with pytest.raises(ValueError, match="fit|batch"):
        LearningRateFinder(steps=5).find(tried, [task(4), task(4)[0]])
    assert not tried.optimizer.state
    assert fit(model=tried)["loss"] == wanted
    with pytest.raises(ValueError, match="gone through only once"):
        LearningRateFinder().find(tried, iter([task(4)]))


def test_a_fit_takes_the_rate_that_is_suggested() -> None:
    net = nn.Linear(2, 1)
    groups: Any = [{"params": [net.weight]}, {"params": [net.bias], "lr": 0.02}]
    optimizer = optim.SGD(groups, lr=0.01)
    scheduler = optim.lr_scheduler.StepLR(optimizer, 1, 0.1)
    model = pf.Model(net, nn.MSELoss(), optimizer, lr_scheduler=scheduler)
    finder = LearningRateFinder(steps=30)
    history = fit(finder, model=model, epochs=2)
    assert finder.found is not None
    rate = finder.found.suggestion
    assert history["lr"] == pytest.approx([rate, rate / 10])
    assert optimizer.param_groups[1]["lr"] == pytest.approx(2 * rate / 100)
