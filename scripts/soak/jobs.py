"""What is done under attack: small pieces of work that give the same numbers each time."""

from __future__ import annotations

import functools
import sys
import tempfile
import threading
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import numpy as np

import pyframe as pf
from pyframe import nn
from pyframe.capture.capture import GRAD
from pyframe.core import devices, locks
from pyframe.train.callbacks import GradientWatch

SOON = 240  # seconds after which a thread counts as stuck; other work may have all processors
STEPS = 5


class Thread(threading.Thread):
    """Runs `work`; `result()` is what it gives, or raises."""

    def __init__(self, work: Callable[[], Any]) -> None:
        super().__init__(daemon=True)
        self.work, self.out, self.error = work, None, None
        self.start()

    def run(self) -> None:
        try:
            self.out = self.work()
        except BaseException as error:
            self.error = error

    def result(self) -> Any:
        self.join(SOON)
        assert not self.is_alive(), f"a thread is stuck after {SOON} s in {self.work}"
        if self.error is not None:
            raise self.error
        return self.out


class Trap:
    """Does `then` when it is stepped on for the n-th time, and never again."""

    def __init__(self, where: str, n: int, then: Callable[[], Any]) -> None:
        self.where, self.left, self.then = where, n, then

    def __call__(self, where: str) -> None:
        if where == self.where:
            self.left -= 1
            if self.left == 0:
                self.then()


class Net(nn.Module):
    """Two layers, and a running mean that each training pass changes."""

    def __init__(self, rng: np.random.Generator) -> None:
        super().__init__()
        self.first, self.last = nn.Linear(6, 8), nn.Linear(8, 3)
        self.register_buffer("mean", pf.zeros(8))
        for p in self.parameters():
            p.data.copy_(pf.from_numpy(rng.normal(0, 0.5, p.shape).astype(np.float32)))
        self.trap: Any = None

    def forward(self, x: pf.Tensor) -> pf.Tensor:
        h = self.first(x)
        if self.training:
            with pf.no_grad():
                self.mean.mul_(0.9).add_(h.mean(0), alpha=0.1)
        if self.trap is not None:
            self.trap("forward")
            if h.requires_grad:
                h.register_hook(lambda g: self.trap("backward"))
        return self.last((h - self.mean).tanh())


class Samples(pf.data.Dataset[Any]):
    """Pairs, and a place for a trap."""

    def __init__(self, x: pf.Tensor, y: pf.Tensor) -> None:
        self.x, self.y, self.trap = x, y, None

    def __getitem__(self, i: int) -> Any:
        if self.trap is not None:
            self.trap("item")
        return self.x[i], self.y[i]

    def __len__(self) -> int:
        return len(self.x)


class Steps(pf.train.callbacks.Callback):
    """A callback with a place for a trap."""

    trap: Any = None

    def on_step(self, model: pf.Model, step: int, logs: dict[str, float]) -> None:
        if self.trap is not None:
            self.trap("callback")


def flat(tensors: Iterable[pf.Tensor]) -> list[float]:
    """All numbers of some tensors."""
    return [v for t in tensors for v in t.detach().cpu().reshape(-1).tolist()]


class Work:
    """A network, its data and its optimizer. Each method named in JOBS starts over and gives
    numbers; what it was kept from before must not show in them."""

    def __init__(self, device: str, seed: int) -> None:
        rng = np.random.default_rng(seed)
        self.device = device
        self.net = Net(rng)
        self.start = {k: v.detach().clone() for k, v in self.net.state_dict().items()}
        self.net.to(device)
        self.optimizer = pf.optim.SGD(self.net.parameters(), lr=0.1, momentum=0.9)
        x = pf.from_numpy(rng.standard_normal((4 * STEPS, 6)).astype(np.float32))
        self.data = Samples(x, pf.from_numpy(rng.integers(0, 3, 4 * STEPS)))
        self.watch, self.trap = Steps(), None
        self.model = pf.Model(self.net, self.loss, self.optimizer, [self.metric])
        self.schedule = pf.optim.lr_scheduler.StepLR(self.optimizer, 2, 0.5)
        self.first, self.gradients = self.schedule.state_dict(), GradientWatch()
        self.other = pf.Model(
            self.net, nn.CrossEntropyLoss(), self.optimizer, ["accuracy", "f1"], self.schedule,
            lr_interval="step",
        )  # fmt: skip
        self.compiled, self.index = pf.compile(self.train), rng.integers(-20, 20, 7)

    def set(self, trap: Any) -> None:
        """Put a trap everywhere, or take it away."""
        self.trap = self.net.trap = self.data.trap = self.watch.trap = trap

    def loss(self, output: pf.Tensor, target: pf.Tensor) -> pf.Tensor:
        if self.trap is not None:
            self.trap("loss")
        return nn.functional.cross_entropy(output, target)

    def metric(self, output: pf.Tensor, target: pf.Tensor) -> pf.Tensor:
        if self.trap is not None:
            self.trap("metric")
        return output.abs().mean()

    def restart(self) -> None:
        """As at first; what was on a device that is gone lives again."""
        self.net.load_state_dict(self.start)
        self.optimizer.state.clear()
        self.optimizer.param_groups[0]["lr"] = 0.1
        self.optimizer.zero_grad()
        self.net.train()

    def train(self, x: pf.Tensor, y: pf.Tensor) -> pf.Tensor:
        self.optimizer.zero_grad()
        loss = self.loss(self.net(x), y)
        loss.backward()
        self.optimizer.step()
        return loss.detach()

    def batch(self, k: int) -> list[pf.Tensor]:
        rows = slice(4 * k, 4 * k + 4)
        return [t[rows].to(self.device) for t in (self.data.x, self.data.y)]

    def state(self) -> list[float]:
        """All that training changes."""
        tensors = [*self.net.state_dict().values()]
        tensors += [s["momentum_buffer"] for s in self.optimizer.state.values()]
        return flat(tensors)

    def walk(self, step: Callable[..., Any]) -> list[float]:
        losses = []
        for k in range(STEPS):
            self.optimizer.param_groups[0]["lr"] = 0.1 / (k + 1)
            losses.append(step(*self.batch(k)))
        return [float(v) for v in losses] + self.state()

    # --- the jobs

    def fit(self) -> list[float]:
        self.restart()
        history = self.model.fit(
            self.data, epochs=2, batch_size=4, shuffle=False, verbose=0, device=self.device,
            read_every=2, callbacks=[self.watch], validation_data=self.data,
        ).history  # fmt: skip
        return history["loss"] + history["val_loss"] + history["metric"] + self.state()

    def options(self) -> list[float]:
        """A fit with most of its options."""
        self.restart()
        return self.go_on(epochs=2)

    def resumed(self) -> list[float]:
        """One that goes on from a folder, and from a file."""
        self.restart()
        with tempfile.TemporaryDirectory() as folder:
            self.go_on(epochs=1, resume=folder)
            self.restart()
            self.go_on(epochs=2, resume=folder)
            path = Path(folder) / "file.pt"
            self.other.save_checkpoint(path)
            self.restart()
            return self.go_on(epochs=3, resume=path)

    def go_on(self, **options: Any) -> list[float]:
        self.schedule.load_state_dict(dict(self.first))
        history = self.other.fit(
            self.data, batch_size=4, shuffle=False, verbose=0, device=self.device, read_every=2,
            callbacks=[self.watch, self.gradients], validation_data=self.data, accumulate=2,
            clip_norm=1.0, class_weight=[1.0, 2.0, 0.5], **options,
        ).history  # fmt: skip
        return history["loss"] + history["val_f1"] + history["lr"] + self.state()

    def steps(self) -> list[float]:
        self.restart()
        return self.walk(self.compiled)

    def eager(self) -> list[float]:
        self.restart()
        return self.walk(self.train)

    def predict(self) -> list[float]:
        self.restart()
        found = self.model.evaluate(self.data, batch_size=5)
        return [
            *found.values(),
            *self.model.predict(self.data.x, batch_size=7).reshape(-1).tolist(),
        ]

    def indices(self) -> list[float]:
        """Good indices, and bad ones whose error is this caller's alone."""
        self.restart()
        x, got = self.data.x.to(self.device), []
        for bad in (20, -21, 1 << 20):
            got += x[pf.tensor(self.index, device=self.device)].sum(0).tolist()
            try:
                x[pf.tensor([0, bad], device=self.device)].sum().item()
            except IndexError:
                continue
            raise AssertionError(f"index {bad} of 20 rows raised nothing")
        return got

    def files(self) -> list[float]:
        self.restart()
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "net.safetensors"
            self.model.save(path)
            with pf.no_grad():
                for p in self.net.parameters():
                    p.fill_(7.0)
            self.model.load(path)
            assert [p.name for p in path.parent.iterdir()] == [path.name]
        return self.state()


JOBS = ("fit", "options", "resumed", "steps", "eager", "predict", "indices", "files")


@functools.cache
def alone(job: str, device: str, seed: int) -> list[float]:
    """What a job gives undisturbed."""
    found: list[float] = getattr(Work(device, seed), job)()
    return found


def must(holds: Any, text: str) -> None:
    """Raise AssertionError unless it holds."""
    if not holds:
        raise AssertionError(text)


def same(got: Any, want: Any, what: str, tolerance: float = 1e-4) -> None:
    """Raise AssertionError unless all numbers are close to those wanted, NaN to NaN."""
    np.testing.assert_allclose(
        np.asarray(got, np.float64),
        np.asarray(want, np.float64),
        tolerance,
        tolerance,
        err_msg=what,
    )


HOOKS = dict(vars(Net))


_stuck: set[int] = set()  # locks that were told of


def _held() -> list[Any]:
    """The locks that this thread cannot have."""
    found = []
    for lock in [k for k in list(locks.made) if id(k) not in _stuck]:
        if lock.acquire(timeout=5):
            lock.release()
        else:
            _stuck.add(id(lock))
            found.append(lock)
    return found


def whole(device: str) -> None:
    """Raise AssertionError unless modes, hooks and locks are as ever and all work goes well, here
    and in another thread."""
    mode = devices.mode
    assert mode.grad, "grad mode stayed off"
    assert not mode.inference, "inference mode stayed on"
    assert mode.capture is None, "a capture stayed on"
    assert mode.training is None, "evaluation mode stayed on"
    assert not mode.saved_hooks, "hooks of saved tensors stayed on"
    assert pf.Tensor.__dict__["grad"] is GRAD, "Tensor.grad stayed observed"
    assert dict(vars(Net)) == HOOKS, "the hooks of a class stayed"
    assert sys.getprofile() is None, "a profile function stayed on"
    held = Thread(_held).result()
    assert not held, f"locks stayed held: {held}"
    same(Thread(Work(device, 1).steps).result(), alone("steps", device, 1), "steps of a thread")
    same(Work(device, 2).eager(), alone("eager", device, 2), "eager work afterwards")


def text_of(error: BaseException) -> str:
    """An error and its notes in one line."""
    text = " ".join([str(error), *getattr(error, "__notes__", ())])
    return f"{type(error).__name__}: {' '.join(text.split())}"
