"""What writes down how a fit goes, CSVLogger and TensorBoard, and Timer, which measures it."""

from __future__ import annotations

import csv
import io
import os
import time
from pathlib import Path
from typing import Any

from pyframe.io.files import replacing
from pyframe.tensor import gather_async
from pyframe.train import check
from pyframe.train.callbacks.base import Callback, Logs, Model


class CSVLogger(Callback):
    """Writes comma-separated values: a head of names, and a row an epoch, from 1, when it ends.

    A fit that is resumed goes on with the file from its epoch on, and one that does an epoch again
    writes its row anew.

    Args:
        path: the file.
        append: whether the rows that the file has are kept.

    >>> import tempfile
    >>> x, net = pf.randn(32, 2), nn.Linear(2, 1)
    >>> model = pf.Model(net, nn.MSELoss(), optim.SGD(net.parameters(), lr=0.1))
    >>> log = pf.train.CSVLogger(tempfile.mkdtemp() + "/log.csv")
    >>> history = model.fit((x, x[:, :1]), epochs=2, callbacks=[log], verbose=0)
    >>> [line.split(",")[0] for line in log.path.read_text().splitlines()]
    ['epoch', '1', '2']
    """

    def __init__(self, path: str | os.PathLike[str], append: bool = False) -> None:
        self.path = Path(check.path("CSVLogger", path))
        self.append = append
        self._resumed = False

    def on_fit_begin(self, model: Model) -> None:
        """Begin the file, or read what it has."""
        self._kept: list[dict[str, Any]] = []
        self._rows: dict[int, dict[str, Any]] = {}
        self._head: list[str] = ["epoch"]
        self._whole = True  # whether the file must be written anew
        if (self.append or self._resumed) and self.path.exists():
            with open(self.path, newline="", encoding="utf-8") as file:
                reader = csv.DictReader(file)
                self._kept, self._head = list(reader), list(reader.fieldnames or self._head)
            if any(row.get("epoch") == "0" for row in self._kept):  # files once counted from 0
                self._kept = [row | {"epoch": int(row["epoch"]) + 1} for row in self._kept]
        else:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            self._write()

    def on_epoch(self, model: Model, epoch: int, logs: Logs) -> None:
        """Write the epoch's row."""
        if self._resumed:  # rows that were written after the checkpoint
            self._kept = [row for row in self._kept if int(row["epoch"]) < epoch]
            self._resumed = False
        new = [name for name in logs if name not in self._head]
        self._head += new
        self._whole = self._whole or bool(new) or epoch in self._rows
        self._rows[epoch] = {"epoch": epoch, **logs}
        if self._whole:
            self._write()
        else:
            with open(self.path, "a", newline="", encoding="utf-8") as file:
                csv.DictWriter(file, self._head).writerow(self._rows[epoch])
        self._whole = False

    def _write(self) -> None:
        text = io.StringIO(newline="")
        writer = csv.DictWriter(text, self._head)
        writer.writeheader()
        writer.writerows([*self._kept, *self._rows.values()])
        with replacing(self.path) as file:
            file.write(text.getvalue().encode())

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Go on with the file."""
        self._resumed = True

    def state_dict(self) -> dict[str, Any]:
        """Which file it is."""
        return {"path": str(self.path)}


class TensorBoard(Callback):
    """Writes a fit for TensorBoard: needs the extra `tensorboard`.

    Each quantity is a chart: "loss/train" and "loss/val" by epochs and "loss/steps" by steps, and
    "lr". The net is written as text. At the end the hyperparameters, with the best values, are a
    row of the table of runs.

    Args:
        log_dir: the folder; None is "runs/<time>_<host>".
        histograms_every: after how many epochs the histograms of parameters are written; 0 for
            never.
        graph: an example of the net's input, of which its graph is made; None for no graph.

    >>> pf.train.TensorBoard("runs/first", histograms_every=5).log_dir
    'runs/first'
    """

    def __init__(
        self, log_dir: str | os.PathLike[str] | None = None, *, histograms_every: int = 0,
        graph: Any = None,
    ) -> None:  # fmt: skip
        self.log_dir = None if log_dir is None else str(check.path("TensorBoard", log_dir))
        self.histograms_every = check.count("TensorBoard", "histograms_every", histograms_every, 0)
        self.graph = graph
        self.writer: Any = None

    def on_fit_begin(self, model: Model) -> None:
        """Open the file."""
        from pyframe.utils.tensorboard import SummaryWriter

        self.writer = SummaryWriter(self.log_dir)
        self.log_dir = self.writer.log_dir
        self.writer.add_text("model", f"```\n{model.net}\n```")
        if self.graph is not None:
            self.writer.add_graph(model.net, self.graph)

    def on_step(self, model: Model, step: int, logs: Logs) -> None:
        """Write the epoch's means so far."""
        for name, value in logs.items():
            self.writer.add_scalar(f"{name}/steps", value, step)

    async def on_epoch(self, model: Model, epoch: int, logs: Logs) -> None:
        """Write the epoch's numbers and histograms."""
        for name, value in logs.items():
            of, kind = (name[4:], "/val") if name.startswith("val_") else (name, "/train")
            kind = "" if name.startswith("lr") else kind
            self.writer.add_scalar(of + kind, value, epoch)
        if self.histograms_every and epoch % self.histograms_every == 0:
            named = dict(model.net.named_parameters())
            arrays = await gather_async([p.detach() for p in named.values()])
            for name, values in zip(named, arrays, strict=True):
                self.writer.add_histogram(name, values, epoch)
        self.writer.flush()

    def on_fit_end(self, model: Model) -> None:
        """Write the hyperparameters and close the file."""
        if self.writer is None:
            return
        results = _best(model)
        if results:
            self.writer.add_hparams(_settings(model), results, run_name="hparams")
        self.writer.close()
        self.writer = None

    def state_dict(self) -> dict[str, Any]:
        """The folder, so that a fit that is resumed goes on there."""
        return {"log_dir": self.log_dir}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Go on in the folder."""
        self.log_dir = self.log_dir or state["log_dir"]


def _settings(model: Model) -> dict[str, Any]:
    """What a model was trained with: the kinds of its parts, and its optimizers' numbers."""
    given = model.optimizer
    named = given if isinstance(given, dict) else dict(enumerate(model.optimizers))
    out: dict[str, Any] = {"net": type(model.net).__name__}
    for key, optimizer in named.items():
        before = f"{key}." if len(named) > 1 else ""
        out[f"{before}optimizer"] = type(optimizer).__name__
        for name, value in optimizer.defaults.items():
            if isinstance(value, bool | int | float | str):
                out[before + name] = value
    return out


def _best(model: Model) -> dict[str, float]:
    """The best value of each quantity but the learning rates."""
    history = model.history
    names = [n for n in history if not n.startswith("lr")]
    finite = [n for n in names if any(v == v for v in history[n])]
    return {f"best/{n}": history.best(n).value for n in finite}


class Timer(Callback):
    """Measures how long epochs take: "seconds", with the validation, and "steps_per_second" and
    "samples_per_second" of the training, the first steps and their compilation included.

    They are added to the History and to the logs that callbacks after it get. It reads nothing.

    Attributes:
        total: how many seconds the fit took.

    >>> x, net = pf.randn(32, 2), nn.Linear(2, 1)
    >>> model = pf.Model(net, nn.MSELoss(), optim.SGD(net.parameters(), lr=0.1))
    >>> timer = pf.train.Timer()
    >>> history = model.fit((x, x[:, :1]), callbacks=[timer], verbose=0)
    >>> list(history)
    ['loss', 'lr', 'seconds', 'steps_per_second', 'samples_per_second']
    """

    total = 0.0

    def on_fit_begin(self, model: Model) -> None:
        """The clock starts."""
        self._began = time.perf_counter()
        self.on_epoch_begin(model, model.epoch)  # which a fit resumed within an epoch is not told

    def on_epoch_begin(self, model: Model, epoch: int) -> None:
        """The epoch's clock starts."""
        self._epoch = self._trained = time.perf_counter()
        self._steps, self._samples = model.step, model.samples

    def on_step(self, model: Model, step: int, logs: Logs) -> None:
        """Training has come to here: the device too, as losses were read."""
        self._trained = time.perf_counter()

    def on_epoch(self, model: Model, epoch: int, logs: Logs) -> None:
        """Add what was measured."""
        seconds = max(self._trained - self._epoch, 1e-9)
        found = {
            "seconds": time.perf_counter() - self._epoch,
            "steps_per_second": (model.step - self._steps) / seconds,
            "samples_per_second": (model.samples - self._samples) / seconds,
        }
        logs.update(found)
        model.history.add(epoch, found)

    def on_fit_end(self, model: Model) -> None:
        """The clock stops."""
        self.total = time.perf_counter() - self._began
