"""Attacks on fit: random networks and options, compiled and eager, stopped anywhere and resumed."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from jobs import must, same, whole

import pyframe as pf
from pyframe import nn, optim
from pyframe.nn import functional as F
from pyframe.optim import lr_scheduler
from pyframe.train import Callback, checkpoint
from pyframe.train.callbacks import EarlyStopping, GradientWatch

EPOCHS = 3
STEPS = 40  # of a fit, at most
WIDTH = 6


class StopError(Exception):
    """What ends a fit."""


# --- what is trained


class Heads(nn.Module):
    """Two outputs of one body, with their names or in a row, and a weight that is tied."""

    def __init__(self, named: bool) -> None:
        super().__init__()
        self.body, self.again = nn.Linear(WIDTH, WIDTH), nn.Linear(WIDTH, WIDTH)
        self.again.weight = self.body.weight
        self.a, self.b, self.named = nn.Linear(WIDTH, 3), nn.Linear(WIDTH, 1), named

    def forward(self, x: pf.Tensor) -> Any:
        h = F.dropout(self.again(self.body(x).tanh()).tanh(), 0.2, self.training)
        a, b = self.a(h), self.b(h)
        return {"a": a, "b": b} if self.named else (a, b)


class Two(nn.Module):
    """Two inputs, in a row or by their names."""

    def __init__(self) -> None:
        super().__init__()
        self.one, self.two = nn.Linear(WIDTH, 8), nn.Bilinear(WIDTH, 8, 3)

    def forward(self, x: pf.Tensor, y: pf.Tensor) -> pf.Tensor:
        return self.two(y, self.one(x).relu())  # type: ignore[no-any-return]


class Own(pf.Model):
    """Steps of one's own, with an update that the first optimizer makes and one of all."""

    def training_step(self, batch: Any) -> Any:
        x, y = batch
        noisy = x + 0.1 * pf.randn_like(x)
        first = F.cross_entropy(self.net(noisy), y)
        self.minimize(first, self.optimizers[0])
        loss = F.cross_entropy(self.net(x), y)
        self.minimize(loss)
        self.update_metrics(noisy[:, :3], y)
        return {"first": first, "loss": loss}


class Simple(pf.Model):
    """A step that gives the loss, which fit minimizes."""

    def training_step(self, batch: Any) -> Any:
        x, y = batch
        return F.cross_entropy(self.net(x), y) + 0.01 * self.net(x).square().mean()


class Samples(pf.data.Dataset[Any]):
    """Rows with noise of every stream of the host."""

    def __init__(self, x: np.ndarray, y: np.ndarray) -> None:
        self.x, self.y = x, y

    def __getitem__(self, i: int) -> Any:
        noise = np.random.normal() + random.random() + pf.rand(1).item()
        return self.x[i] + np.float32(0.1 * noise), self.y[i]

    def __len__(self) -> int:
        return len(self.x)


class Count(Callback):
    """Counts what it is told, and does something when a step is reached."""

    def __init__(self, at: int = -1, do: Callable[[pf.Model], Any] | None = None) -> None:
        self.at, self.do, self.ended = at, do, 0
        self.epochs: set[int] = set()

    def on_step(self, model: pf.Model, step: int, logs: Any) -> None:
        if self.do is not None and step >= self.at:
            do, self.do = self.do, None
            do(model)

    def on_epoch(self, model: pf.Model, epoch: int, logs: Any) -> None:
        self.epochs.add(epoch)

    def on_fit_end(self, model: pf.Model) -> None:
        self.ended += 1

    def state_dict(self) -> dict[str, Any]:
        return {"epochs": sorted(self.epochs)}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        self.epochs = set(state["epochs"])


def mean_size(output: Any, target: Any) -> pf.Tensor:
    """A metric that is a function."""
    return next(iter(output)).abs().mean() if isinstance(output, tuple) else output.abs().mean()


class Noise(Callback):
    """Adds noise to the gradients."""

    def on_gradients(self, model: pf.Model) -> None:
        with pf.no_grad():
            for p in model.net.parameters():
                if p.grad is not None:
                    p.grad.add_(pf.randn_like(p.grad), alpha=1e-3)


KINDS = ("classes", "classes", "images", "numbers", "named", "row", "two", "own", "simple")


class Fit:
    """A fit that is drawn at random; the same one for the same seed."""

    def __init__(self, seed: str, device: str) -> None:
        self.rng = rng = random.Random(seed)
        self.words: list[str] = []
        pf.manual_seed(rng.randrange(1 << 30))
        np.random.seed(rng.randrange(1 << 30))
        random.seed(rng.randrange(1 << 30))
        self.device, self.kind = device, self.pick("kind", KINDS)
        self.n = self.pick("samples", (18, 32, 42))
        x, y = self.arrays()
        net = self.network()
        self.loss = self.losses()
        self.optimizer = self.optimizers(net)
        self.options: dict[str, Any] = {"read_every": self.pick("read_every", (1, 2, 3, 5, 16))}
        self.options |= self.steps()
        self.size = self.pick("batch", (4, 8, 16, 32))
        self.per_epoch = -(-self.n // self.size)
        self.data = self.source(x, y)
        validates = rng.random() < 0.4
        self.options["validation_data"] = (x, y) if validates else None
        self.words += ["validation"] * validates
        self.counter = Count()
        self.callbacks: list[Any] = [self.counter, *self.others()]
        kind: Any = {"own": Own, "simple": Simple}.get(self.kind, pf.Model)
        self.intervals: tuple[Any, ...] = (None, None, "epoch", "step")
        schedules = self.schedules()
        self.model = kind(
            net, self.loss, self.optimizer, self.metrics(), schedules,
            lr_interval=self.pick("interval", self.intervals),
        )  # fmt: skip

    def pick(self, name: str, of: Any) -> Any:
        """One of some, which is noted."""
        found = self.rng.choice(of)
        self.words.append(f"{name}={getattr(found, '__name__', found)}")
        return found

    def __str__(self) -> str:
        return " ".join(self.words)

    def arrays(self) -> tuple[Any, Any]:
        """Inputs and targets."""
        data = np.random.default_rng(self.rng.randrange(1 << 30))
        shape = (1, WIDTH, WIDTH) if self.kind == "images" else (WIDTH,)
        x = data.normal(size=(self.n, *shape)).astype(np.float32)
        classes = data.integers(0, 3, self.n)
        numbers = data.normal(size=(self.n, 1)).astype(np.float32)
        match self.kind:
            case "numbers":
                return x, numbers
            case "named":
                return x, {"a": classes, "b": numbers}
            case "row":
                return x, (classes, numbers)
            case "two":
                return self.rng.choice([(x, x[::-1].copy()), {"x": x, "y": x * 0.5}]), classes
        return x, classes

    def network(self) -> nn.Module:
        """A small one of the kind."""
        width = self.rng.choice([5, 8])
        match self.kind:
            case "named" | "row":
                return Heads(self.kind == "named")
            case "two":
                return Two()
            case "images":
                return nn.Sequential(nn.Conv2d(1, 3, 3, bias=False), nn.BatchNorm2d(3), nn.ReLU(),
                                     nn.Dropout(0.2), nn.Flatten(), nn.Linear(48, 3))  # fmt: skip
        layers: list[nn.Module] = [nn.Linear(WIDTH, width), nn.Tanh()]
        more = [nn.BatchNorm1d(width), nn.Dropout(0.3)]
        layers += self.rng.sample(more, self.rng.randrange(3))
        net = nn.Sequential(*layers, nn.Linear(width, 1 if self.kind == "numbers" else 3))
        self.words.append("+".join(type(m).__name__ for m in net))
        if self.rng.random() < 0.15:
            self.words.append("frozen")
            net[0].requires_grad_(False)
        return net

    def losses(self) -> Any:
        """What is minimized."""
        if self.kind in ("own", "simple"):
            return nn.CrossEntropyLoss()
        if self.kind in ("named", "row"):
            several: Any = {"a": nn.CrossEntropyLoss(), "b": nn.MSELoss()}
            return several if self.kind == "named" else list(several.values())
        if self.kind == "numbers":
            return self.pick("loss", (nn.MSELoss, nn.L1Loss, nn.HuberLoss))()
        return self.pick("loss", (nn.CrossEntropyLoss, nn.MultiMarginLoss))()

    def optimizers(self, net: nn.Module) -> Any:
        """One of all parameters, or two of some each."""

        def one(name: str, parameters: Any) -> Any:
            kinds: dict[str, Any] = {"SGD": {"momentum": 0.9}, "AdamW": {"amsgrad": True}}
            kinds |= {k: {} for k in ("Adam", "RMSprop", "Adagrad", "NAdam", "Adadelta", "Adamax")}
            kind = self.pick(name, [*kinds])
            return getattr(optim, kind)(parameters, lr=0.02, **kinds[kind])

        parameters = list(net.parameters())
        if self.rng.random() < 0.75:
            groups = [{"params": parameters[:1], "lr": 0.01}, {"params": parameters[1:]}]
            return one("optimizer", groups if self.rng.random() < 0.3 else parameters)
        half = len(parameters) // 2
        return {"a": one("a", parameters[half:]), "b": one("b", parameters[:half])}

    def schedules(self) -> Any:
        """Schedulers of none, some or all optimizers."""
        makers: dict[str, Callable[[Any], Any]] = {
            "none": lambda o: None,
            "step": lambda o: lr_scheduler.StepLR(o, 2, 0.5),
            "cosine": lambda o: lr_scheduler.CosineAnnealingLR(o, 7),
            "cycle": lambda o: lr_scheduler.OneCycleLR(
                o, 0.1, total_steps=4 * STEPS, cycle_momentum=False
            ),
            "plateau": lambda o: lr_scheduler.ReduceLROnPlateau(o, patience=0, threshold=0.5),
            "sequence": lambda o: lr_scheduler.SequentialLR(
                o, [lr_scheduler.ConstantLR(o, 0.5, 2), lr_scheduler.ExponentialLR(o, 0.9)], [2]
            ),
        }
        several = self.optimizer if isinstance(self.optimizer, dict) else {"": self.optimizer}
        found = [makers[self.pick("scheduler", [*makers])](o) for o in several.values()]
        found = [s for s in found if s is not None]
        plateau = any(isinstance(s, lr_scheduler.ReduceLROnPlateau) for s in found)
        if plateau:  # a step has no loss that it could go by
            self.intervals = (None, "epoch")
        return None if not found else found[0] if len(found) == 1 else found

    def metrics(self) -> Any:
        """Some that go with the outputs."""
        if self.kind == "named":
            return {"a": ["accuracy"], "b": ["mae"]} if self.rng.random() < 0.5 else []
        if self.kind == "row":
            return [mean_size] if self.rng.random() < 0.5 else []
        known: list[Any] = ["accuracy", "f1", "perplexity", "confusion_matrix", "auroc", mean_size]
        known = ["mae", "r2", "mse", mean_size] if self.kind == "numbers" else known
        return self.rng.sample(known, self.rng.choice([0, 0, 1, 2, 3]))

    def steps(self) -> dict[str, Any]:
        """How a step updates."""
        rng = self.rng
        found: dict[str, Any] = {}
        if rng.random() < 0.3:
            found["clip_norm"] = self.pick("clip_norm", (0.1, 1.0))
        if rng.random() < 0.2:
            found["clip_value"] = self.pick("clip_value", (0.01, 0.1))
        if rng.random() < 0.35 and self.kind != "own":
            found["accumulate"] = self.pick("accumulate", (2, 3, 50))
        if rng.random() < 0.3 and self.kind != "two":  # bilinear takes no two dtypes
            found["mixed_precision"] = self.pick("precision", ("float16", "bfloat16"))
        plain = self.kind in ("classes", "images", "two")
        if rng.random() < 0.2 and plain:
            found["class_weight"] = {0: 1.0, 1: 0.5, 2: 2.0}
            self.words.append("class_weight")
        return found

    def source(self, x: Any, y: Any) -> Any:
        """The data in one of the ways in which it may be given."""
        self.options["batch_size"] = self.size
        weights = np.linspace(0.5, 2, self.n).astype(np.float32)
        ways = ["arrays", "arrays", "shuffled", "tensors", "batches"]
        if isinstance(x, np.ndarray) and isinstance(y, np.ndarray):
            ways += ["samples", "samples", "loader", "loader", "workers"]
        if self.kind not in ("own", "simple"):
            ways += ["weights"]
        way = self.pick("data", ways)
        self.options["shuffle"] = way in ("shuffled", "samples", "weights")
        if way in ("arrays", "shuffled"):
            return x, y
        if way == "weights":
            return (x, y, weights) if self.rng.random() < 0.5 else self.weighted(x, y, weights)
        if way == "tensors":
            return _mapped(pf.from_numpy, x), _mapped(pf.from_numpy, y)
        if way == "batches":
            cuts = range(0, self.n, self.size)
            return [tuple(_mapped(lambda a, i=i: pf.from_numpy(a[i : i + self.size]), part)
                          for part in (x, y)) for i in cuts]  # fmt: skip
        samples = Samples(x, y)
        if way == "samples":
            return samples
        own = pf.Generator().manual_seed(5) if self.rng.random() < 0.5 else None
        drop = self.rng.random() < 0.3 and self.n >= self.size
        self.per_epoch = self.n // self.size if drop else self.per_epoch
        more: dict[str, Any] = {}
        if way == "workers":
            more = {"num_workers": 2, "persistent_workers": self.rng.random() < 0.5}
        return pf.data.DataLoader(
            samples, self.size, shuffle=True, drop_last=drop, generator=own, **more
        )

    def weighted(self, x: Any, y: Any, weights: np.ndarray) -> Any:
        self.options["sample_weight"] = weights
        return x, y

    def others(self) -> list[Any]:
        """Callbacks that change or watch what is trained."""
        rng, found = self.rng, list[Any]()
        if rng.random() < 0.2:
            mode, patience = rng.choice(["min", "max"]), rng.choice([1, 5])
            found.append(EarlyStopping("loss", patience=patience, mode=mode))
        if rng.random() < 0.15 and self.kind != "row":
            found.append(GradientWatch())
        if rng.random() < 0.15:
            found.append(Noise())
        self.words += [type(c).__name__ for c in found]
        return found

    def run(self, **more: Any) -> list[Any]:
        """What the fit leaves behind."""
        options = {"epochs": EPOCHS, "verbose": 0, "device": self.device, **self.options, **more}
        callbacks = [*self.callbacks, *options.pop("extra", [])]
        self.model.fit(self.data, callbacks=callbacks, **options)
        return self.outcome()

    def outcome(self) -> list[Any]:
        """All that training leaves behind, as arrays."""
        model = self.model
        found = [x.detach().cpu().numpy().copy() for x in model.net.state_dict().values()]
        for optimizer in model.optimizers:
            for state in optimizer.state.values():
                found += [np.array(x.detach().cpu() if isinstance(x, pf.Tensor) else x)
                          for x in state.values()]  # fmt: skip
            found += [np.array(float(g["lr"])) for g in optimizer.param_groups]
        found += [np.array(v) for _, v in sorted(model.history.history.items())]
        found += [np.array(s.last_epoch) for s in model.schedulers]
        if model.scaler is not None:
            found.append(np.array(model.scaler.get_scale()))
        found.append(np.array(sorted(self.counter.epochs)))
        found += [np.random.normal(size=2), np.array([random.random()]), pf.rand(2).numpy().copy()]
        found.append(pf.rand(2, device=model.device).cpu().numpy().copy())
        return found


def _mapped(fn: Callable[[Any], Any], tree: Any) -> Any:
    if isinstance(tree, dict):
        return {k: _mapped(fn, v) for k, v in tree.items()}
    return tuple(_mapped(fn, v) for v in tree) if isinstance(tree, tuple) else fn(tree)


# --- the attacks


def fit(rng: random.Random, device: str) -> None:
    """A random fit gives compiled what it gives eagerly, and leaves nothing on."""
    seed = str(rng.random())
    first = Fit(seed, device)
    want = first.run(compile=False)
    second = Fit(seed, device)
    got = second.run()
    alike(got, want, f"{first}: compiled and eager", 2e-2 if loose(first) else 1e-3)
    whole(device)


def loose(of: Fit) -> bool:
    """Whether its numbers are of half precision."""
    return "mixed_precision" in of.options


def alike(got: list[Any], want: list[Any], what: str, tolerance: float) -> None:
    """Raise AssertionError unless all is close."""
    must(len(got) == len(want), f"{what}: {len(got)} and {len(want)} values")
    for k, (a, b) in enumerate(zip(got, want, strict=True)):
        same(a, b, f"{what}: value {k}", tolerance)


def equal(got: list[Any], want: list[Any], what: str) -> None:
    """Raise AssertionError unless all is the same to the last bit."""
    must(len(got) == len(want), f"{what}: {len(got)} and {len(want)} values")
    for k, (a, b) in enumerate(zip(got, want, strict=True)):
        same_bits = a.dtype == b.dtype and a.tobytes() == b.tobytes()
        must(same_bits, f"{what}: value {k}: {a} and {b}")


def resume(rng: random.Random, device: str) -> None:
    """A fit that is stopped, killed or whose newest file is damaged ends as if nothing had been."""
    seed = str(rng.random())
    compile = rng.random() < 0.7
    whole_one = Fit(seed, device)
    want = whole_one.run(compile=compile)
    what = f"{whole_one}, compile={compile}"
    before, checkpoint.SECONDS = checkpoint.SECONDS, 0
    try:
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "runs"
            for _ in range(rng.choice([1, 1, 2, 3])):
                at = rng.randint(1, EPOCHS * whole_one.per_epoch)
                how = rng.choice([stopped, asked, killed] if KILLS else [stopped, asked])
                what += f", {how.__name__} at {at}"
                how(Fit(seed, device), seed, at, path, compile)
                if rng.random() < 0.3:
                    what += damage(rng, path)
            again = Fit(seed, device)
            equal(again.run(resume=path, compile=compile), want, f"{what}: resumed")
            must(not again.model._loop, f"{what}: a loop is left")
    finally:
        checkpoint.SECONDS = before


KILLS = True  # whether processes are killed too, which no seed fixes


def stopped(one: Fit, seed: str, at: int, path: Path, compile: bool) -> None:
    """By an error."""

    def fail(model: pf.Model) -> None:
        raise StopError("stop")

    try:
        one.run(resume=path, compile=compile, extra=[Last(at, fail)])
    except StopError:
        must(one.counter.ended == 1, f"{one}: the end was not told")


class Last(Count):
    """A Count that has no state of its own."""

    def state_dict(self) -> dict[str, Any]:
        return {}


def asked(one: Fit, seed: str, at: int, path: Path, compile: bool) -> None:
    """By stop_training."""
    stop = Last(at, lambda model: setattr(model, "stop_training", True))
    one.run(resume=path, compile=compile, extra=[stop])


def killed(one: Fit, seed: str, at: int, path: Path, compile: bool) -> None:
    """By SIGKILL, in another process."""
    code = f"""
import os, signal, sys, warnings
sys.path.insert(0, {str(Path(__file__).parent)!r})
warnings.simplefilter("ignore")
import training
from pathlib import Path
training.checkpoint.SECONDS = 0
kill = training.Last({at}, lambda model: os.kill(os.getpid(), signal.SIGKILL))
one = training.Fit({seed!r}, {one.device!r})
one.run(resume=Path({str(path)!r}), compile={compile}, extra=[kill])
"""
    env = os.environ | {"PYTHONPATH": str(Path(__file__).resolve().parents[2])}
    done = subprocess.run([sys.executable, "-c", code], env=env, capture_output=True, check=False)
    must(done.returncode in (0, -signal.SIGKILL), done.stderr.decode()[-2000:])


def damage(rng: random.Random, path: Path) -> str:
    """Change a byte of the newest file, or cut it."""
    files = sorted(path.glob("step-*.pt")) if path.is_dir() else []
    if not files:
        return ""
    data = bytearray(files[-1].read_bytes())
    at = rng.randrange(len(data))
    if rng.random() < 0.5:
        data[at] ^= 1 << rng.randrange(8)
    else:
        del data[at:]
    files[-1].write_bytes(data)
    return f", damaged at {at} of {len(data)}"
