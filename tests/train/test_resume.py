"""A fit that was killed or stopped goes on as if nothing had happened, from a checkpoint that is
whole; what is none is refused before anything is changed."""

from __future__ import annotations

import contextlib
import errno
import functools
import io
import os
import random
import signal
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from processes import python
from train.test_recovery import Noisy

import pyframe as pf
from pyframe import nn, optim
from pyframe.data import DataLoader
from pyframe.train import Callback, checkpoint
from pyframe.train.callbacks import EarlyStopping, ModelCheckpoint

EPOCHS, N = 3, 50


class Stop(Callback):
    """Ends a fit at a step in some way."""

    def __init__(self, step: int | None = None, how: Any = None) -> None:
        self.at, self.how, self.seen = step, how, 0

    def on_step(self, model: pf.Model, step: int, logs: Any) -> None:
        self.seen += 1
        if step == self.at:
            self.how(model)

    def state_dict(self) -> dict[str, Any]:
        return {"seen": self.seen}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        self.seen = state["seen"]


def fail(model: pf.Model) -> None:
    raise KeyError("stop")


def stop(model: pf.Model) -> None:
    model.stop_training = True


def make(width: int = 8) -> pf.Model:
    pf.manual_seed(3)
    np.random.seed(1)
    random.seed(2)
    net = nn.Sequential(
        nn.Linear(6, width), nn.BatchNorm1d(width), nn.ReLU(), nn.Dropout(0.3), nn.Linear(width, 3)
    )
    adam = optim.Adam(net.parameters(), lr=0.01)
    schedule = optim.lr_scheduler.CosineAnnealingLR(adam, EPOCHS)
    return pf.Model(net, nn.CrossEntropyLoss(), adam, ["accuracy", "f1"], schedule)


def fit(model: pf.Model, resume: Any = None, *callbacks: Any, **options: Any) -> pf.Model:
    data = DataLoader(Noisy(n=N), 8, shuffle=True, generator=pf.Generator().manual_seed(5))
    model.fit(data, EPOCHS, resume=resume, callbacks=callbacks, verbose=0, device="cpu",
              read_every=3, **options)  # fmt: skip
    return model


def moments(model: pf.Model) -> list[bytes]:
    """The state of all optimizers."""
    states = [s for o in model.optimizers for s in o.state.values()]
    return [x.numpy().tobytes() for s in states for x in s.values()]


def outcome(model: pf.Model) -> Any:
    """All that training leaves behind, to the last bit."""
    tensors = [t.numpy().tobytes() for t in model.net.state_dict().values()]
    return tensors + moments(model), model.history.history, model.optimizer.param_groups[0]["lr"]


VARIANTS: dict[str, dict[str, Any]] = {
    "plain": {}, "in groups": {"accumulate": 4},
    "eager, in half precision": {"compile": False, "mixed_precision": "float16"},
}  # fmt: skip


@functools.cache
def undisturbed(variant: str = "plain") -> Any:
    """What a fit leaves that nothing stops."""
    return outcome(fit(make(), **VARIANTS[variant]))


@pytest.mark.parametrize("variant", VARIANTS)
def test_it_goes_on_from_any_step(
    variant: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Stopped by an error within an epoch, within a group, at an epoch's end, and again."""
    monkeypatch.setattr(checkpoint, "SECONDS", 0)
    options, want = VARIANTS[variant], undisturbed(variant)
    for step in (3, 6, 7, 12):
        with pytest.raises(KeyError, match="stop"):
            fit(make(), tmp_path, Stop(step, fail), **options)
    last = Stop()
    assert outcome(fit(make(), tmp_path, last, **options)) == want
    assert last.seen >= 9  # of whole epochs: the last losses are told once more
    assert len(list(tmp_path.iterdir())) == checkpoint.CHECKPOINTS_KEPT
    assert outcome(fit(make(), tmp_path, Stop(), **options)) == want  # there is nothing to do


class Own(pf.Model):
    """A step of one's own, whose sums are made when it runs first."""

    def training_step(self, batch: Any) -> Any:
        output = self.net(batch[0])
        return nn.functional.cross_entropy(output, batch[1]) + 0.01 * output.square().mean()


def test_stopped_as_an_epoch_ends(tmp_path: Path) -> None:
    """After the next one began, and before the validation: the bits are those of an epoch that
    went on, and the validation is made up for."""

    def end_by_error(model: pf.Model) -> None:
        stop(model)
        fail(model)

    data, runs = Noisy(n=N), []
    for folder, *callbacks in (
        (None,), ("asked", Stop(14, stop)), ("asked",), ("error", Stop(14, end_by_error)),
        ("error",),
    ):  # fmt: skip
        made = make()
        model = Own(made.net, made.loss, made.optimizer, (), made.lr_scheduler)
        with contextlib.suppress(KeyError):
            model.fit(DataLoader(data, 8, shuffle=True), EPOCHS, callbacks=callbacks, verbose=0,
                      resume=folder and tmp_path / folder, device="cpu", read_every=100,
                      validation_data=(data.x, data.y))  # fmt: skip
        runs.append(outcome(model))
    assert runs[0] == runs[2] == runs[4]
    assert runs[0] not in (runs[1], runs[3])


def test_a_kill_at_any_moment(tmp_path: Path) -> None:
    """SIGKILL in the middle of a checkpoint's bytes, and between two of them."""
    if not hasattr(signal, "SIGKILL"):
        pytest.skip("this system has no SIGKILL")
    code = f"""
import os, signal, sys
sys.path.insert(0, {str(Path(__file__).parents[1])!r})
import train.test_resume as t
from pyframe.train import checkpoint
checkpoint.SECONDS = 0
write, left = os.fsync, [int(sys.argv[1])]
def fsync(fd):
    left[0] -= 1
    if not left[0]:
        os.kill(os.getpid(), signal.SIGKILL)
    write(fd)
os.fsync = fsync
t.pf.use_deterministic_algorithms(True)
t.fit(t.make(), "runs")
"""
    for count, status in ((4, -signal.SIGKILL), (3, -signal.SIGKILL), (0, 0)):
        python("-c", code, count, folder=tmp_path, status=status)  # files and their folder in turns
    pf.use_deterministic_algorithms(True)  # in another process, other ops may be computed together
    try:
        assert outcome(fit(make(), tmp_path / "runs")) == outcome(fit(make()))
    finally:
        pf.use_deterministic_algorithms(False)


def test_a_damaged_checkpoint_is_passed_over(tmp_path: Path) -> None:
    """One that was cut off; a bit that flipped is seen as well."""
    fit(make(), tmp_path, Stop(10, stop))
    newest = max(tmp_path.iterdir())
    data = bytearray(newest.read_bytes())
    with zipfile.ZipFile(newest) as archive:
        entry = archive.getinfo("archive/data/0")
    data[entry.header_offset + 200] ^= 1
    newest.write_bytes(data)
    with pytest.raises(checkpoint.CheckpointError, match="damaged"):
        checkpoint.read(newest)
    for size in (newest.stat().st_size // 2, 0):
        with open(newest, "r+b") as file:
            file.truncate(size)
        with pytest.warns(RuntimeWarning, match=f"passed over: .*{newest.name} is damaged"):
            found = checkpoint.newest(tmp_path)
        assert found is not None
        assert found[0] == min(tmp_path.iterdir())
    with pytest.warns(RuntimeWarning, match="passed over"):
        model = fit(make(), tmp_path)
    assert outcome(model) == undisturbed()


def keeps(path: Path, then: Any) -> Any:
    """What saves a checkpoint and does something then."""

    def keep(model: pf.Model) -> None:
        model.save_checkpoint(path)
        then(model)

    return keep


def test_a_file_goes_on_too(tmp_path: Path) -> None:
    """One that save_checkpoint wrote; no other is written beside it, and its weights are read."""
    path = tmp_path / "middle.pt"
    fit(make(), None, Stop(9, keeps(path, stop)))
    assert outcome(fit(make(), path)) == undisturbed()
    assert [*tmp_path.iterdir()] == [path]
    model = make().load(path)
    kept = checkpoint.read(path)["net"]["0.weight"].numpy()
    np.testing.assert_array_equal(model.net[0].weight.detach().numpy(), kept)


def divided_by_samples(tree: Any) -> None:
    """Let a checkpoint be as the formats before 3 were, with the weight of each batch of a group
    and no divisors."""
    place, size = tree["place"], 8
    place["group"], place["first"] = [1.0] * place["group"], size
    place["sums"] = {k: v for k, v in place["sums"].items() if k.partition(":")[0] != "divisor"}
    if place["sums"].pop("waiting:0", None):
        assert place["sums"].pop("waiting:1").item() == size


def test_early_stopping_goes_on(tmp_path: Path) -> None:
    """It remembers the best epoch, and its weights."""
    stops = [EarlyStopping("accuracy", patience=5) for _ in range(3)]
    want = outcome(fit(make(), None, stops[0]))

    with pytest.raises(KeyError):
        fit(make(), tmp_path, stops[1], Stop(18, fail))
    (path,) = sorted(tmp_path.glob("*.pt"))[-1:]
    tree = checkpoint.read(path)  # becomes one of the format that counted epochs from 0
    tree[checkpoint.MARK], epochs = 1, tree["history"]["epoch"]
    divided_by_samples(tree)
    assert epochs == [*range(1, len(epochs) + 1)]
    tree["history"]["epoch"] = [epoch - 1 for epoch in epochs]
    (state,) = (state for name, state in tree["callbacks"] if name == "EarlyStopping")
    state.update(best_epoch=state["best_epoch"] - 1, since=[n - 1 for n in state["since"]])
    (tmp_path / "old").mkdir()
    pf.save(tree, tmp_path / "old" / path.name)
    old = EarlyStopping("accuracy", patience=5)
    assert outcome(fit(make(), tmp_path / "old", old, Stop())) == want
    assert outcome(fit(make(), tmp_path, stops[2], Stop())) == want
    assert stops[0].best_epoch == stops[2].best_epoch == old.best_epoch


def test_a_fit_that_was_stopped_early_stays_so(tmp_path: Path) -> None:
    def early() -> EarlyStopping:
        return EarlyStopping("loss", mode="max", patience=1)

    stops = [early(), early()]
    asked = Stop(3, stop)
    cut = early()
    fit(make(), tmp_path, cut, asked)
    assert cut.best is None  # the numbers of a part of an epoch don't count
    want = outcome(fit(make(), tmp_path, stops[0]))
    assert want == outcome(fit(make(), None, early()))
    assert stops[0].stopped_epoch == 2
    model = fit(make(), tmp_path, stops[1])
    assert outcome(model) == want
    assert stops[1].stopped_epoch == 2


def test_what_is_another_now_is_told(tmp_path: Path) -> None:
    """Data within an epoch, or an optimizer."""
    fit(make(), tmp_path, Stop(3, stop))
    with pytest.warns(RuntimeWarning, match="after 3 of 7 batches of an epoch, which has 5 now"):
        make().fit(DataLoader(Noisy(n=N), 10), 1, resume=tmp_path, verbose=0, device="cpu")
    model = make()
    model.optimizer = optim.SGD(model.net.parameters())
    model.lr_scheduler = optim.lr_scheduler.StepLR(model.optimizer, 1)
    with pytest.raises(checkpoint.CheckpointError, match="is of Adam, Cosine.*, the model has SGD"):
        fit(model, tmp_path)


@pytest.mark.parametrize("order", [1, -1])
def test_the_files_of_a_model_checkpoint(order: int, tmp_path: Path) -> None:
    """Whatever the order of callbacks, its files hold what all of them know after the epoch."""

    def callbacks() -> Any:
        return [EarlyStopping("loss", patience=1), ModelCheckpoint(tmp_path)][::order]

    whole = outcome(fit(make(), None, *callbacks()))
    for path in tmp_path.iterdir():
        path.unlink()

    with pytest.raises(KeyError):
        fit(make(), True, *callbacks(), Stop(9, fail))
    assert {p.name for p in tmp_path.iterdir()} >= {"last.pt"}
    assert outcome(fit(make(), True, *callbacks(), Stop())) == whole
    assert not [*tmp_path.glob("step-*")]
    with pytest.raises(ValueError, match="resume=True goes on from the folder of a ModelCheckp"):
        fit(make(), True)


def test_refused(tmp_path: Path) -> None:
    """Nothing of the model is changed."""
    fit(make(), tmp_path)
    path = max(tmp_path.iterdir())
    tree = pf.load(path)
    newer, weights, far = (tmp_path / n for n in ("newer.pt", "weights.pt", "far.pt"))
    streams = tree["random"]["now"]
    reads = {**streams, "numpy": [*streams["numpy"][:2], 10**6, *streams["numpy"][3:]]}
    pf.save({**tree, "random": {**tree["random"], "now": reads}}, far)
    pf.save({**tree, "pyframe_checkpoint": 99}, newer)
    pf.save(tree["net"], weights)
    other = make(width=9)
    before = outcome(other)[0]
    cases = [
        (other, path, RuntimeError, r"0.weight \[8, 6\], which is \[9, 6\]"),
        (make(), newer, checkpoint.CheckpointError, "of format 99, expected 3: .* newer pyframe"),
        (make(), weights, checkpoint.CheckpointError, "no checkpoint of a fit.*model.load"),
        (make(), far, checkpoint.CheckpointError, "NumPy's random stream is at no place"),
        (make(), tmp_path / "none.pt" / "x", OSError, "none.pt"),
    ]
    (tmp_path / "none.pt").write_text("text")
    for model, file, kind, words in cases:
        with pytest.raises(kind, match=words):
            fit(model, file)
    assert outcome(other)[0] == before
    model = make()
    model.lr_scheduler = None
    with pytest.raises(checkpoint.CheckpointError, match="has 1 schedulers, the model 0"):
        fit(model, path)
    (tmp_path / "format").mkdir()
    weights.rename(tmp_path / "format" / "weights.pt")
    assert checkpoint.newest(tmp_path / "format") is None


def test_optimizers_are_resumed_together_or_not_at_all(tmp_path: Path) -> None:
    """Where the second one does not fit, the first one is as before."""

    def split(at: int) -> pf.Model:
        model = make()
        model.lr_scheduler, params = None, list(model.net.parameters())
        model.optimizer = [optim.Adam(params[:2], lr=0.01), optim.Adam(params[2:at], lr=0.01)]
        return model

    fit(split(6), tmp_path)
    other = fit(split(5))
    before = moments(other)
    with pytest.raises(ValueError, match="doesn't match the size of optimizer's group"):
        fit(other, tmp_path)
    assert moments(other) == before


def test_a_full_disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The old checkpoint stays whole, and the error says what happened."""
    fit(make(), tmp_path, Stop(7, stop))
    before = {p: p.read_bytes() for p in tmp_path.iterdir()}

    class Full(io.FileIO):
        def write(self, data: Any) -> int:
            raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, "fdopen", lambda fd, mode: io.BufferedWriter(Full(fd, mode)))
    with pytest.raises(OSError, match="No space left"):
        fit(make(), tmp_path)
    assert {p: p.read_bytes() for p in tmp_path.iterdir()} == before
