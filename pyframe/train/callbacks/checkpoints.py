"""ModelCheckpoint: files of a fit's best, last and other epochs."""

from __future__ import annotations

import contextlib
import os
import re
from pathlib import Path
from typing import Any

from pyframe.io.kinds import NOT_OURS
from pyframe.train import check
from pyframe.train.callbacks.base import Callback, Logs, Model
from pyframe.train.callbacks.stopping import Monitor


class ModelCheckpoint(Callback):
    """Writes a model to files while it trains.

    Args:
        path: a folder, or the one file that holds the best.
        monitor: the quantity that says how good an epoch was; None is "val_loss" where there is
            validation, else "loss".
        mode: "min", "max", or "auto": as the metric or its name tells; ValueError where neither
            does.
        top_k: how many of the best are kept, as "epoch-003-val_loss-0.1234.pt". None: every one
            that was written; 0: none of them.
        save_last: whether "last.pt" is written too; by default in a folder.
        every_epochs: epochs from one to the next.
        every_steps: steps after which "last.pt" is written also within an epoch, and with `top_k`
            None "epoch-003-step-00001000.pt"; looked at when losses were read.
        weights_only: files of the net's weights, .safetensors, which `model.load` takes. Else they
            are checkpoints, from which `fit(resume=…)` goes on, too. By default as the file in
            `path` ends.

    Attributes:
        best_path, best: the best file and its value; None before.

    Each file is whole at all times; one that is no more among the best goes when the better one is
    written.

    >>> import tempfile
    >>> x, net = pf.randn(32, 2), nn.Linear(2, 1)
    >>> model = pf.Model(net, nn.MSELoss(), optim.SGD(net.parameters(), lr=0.1))
    >>> save = pf.train.ModelCheckpoint(tempfile.mkdtemp(), monitor="loss")
    >>> history = model.fit((x, x[:, :1]), epochs=2, callbacks=[save], verbose=0)
    >>> save.last_path.name, save.best == min(history["loss"])
    ('last.pt', True)
    """

    keeps = True

    def __init__(
        self, path: str | os.PathLike[str], monitor: str | None = None, mode: str = "auto", *,
        top_k: int | None = 1, save_last: bool | None = None, every_epochs: int = 1,
        every_steps: int | None = None, weights_only: bool | None = None,
    ) -> None:  # fmt: skip
        what = "ModelCheckpoint"
        self.path = Path(check.path(what, path))
        self.one = self.path.suffix in (".pt", ".pth", ".ckpt", ".safetensors")
        if self.path.suffix.lower() in (".npz", *NOT_OURS) or "{" in str(path):
            raise ValueError(
                f"{what}: expected a folder, whose files get names such as "
                "'epoch-003-val_loss-0.1234.pt', or one .pt or .safetensors file, got "
                f"{str(path)!r}"
            )
        self.monitor = Monitor(what, monitor, mode)
        self.top_k = None if top_k is None else check.count(what, "top_k", top_k, 0)
        if self.one and self.top_k != 1:
            raise ValueError(
                f"{what}: one file holds the best one, but top_k is {top_k}; give a folder"
            )
        self.every_epochs = check.count(what, "every_epochs", every_epochs, 1)
        if every_steps is not None:
            every_steps = check.count(what, "every_steps", every_steps, 1)
        self.every_steps = every_steps
        weights = self.path.suffix == ".safetensors"
        if self.one and weights_only is not None and weights_only != weights:
            raise ValueError(
                f"{what}: weights_only={weights_only} does not fit {self.path.name!r}: weights are "
                "written as .safetensors, checkpoints as .pt"
            )
        self.weights_only = weights if weights_only is None else weights_only
        self.save_last = not self.one if save_last is None else save_last
        self.folder = self.path.parent if self.one else self.path
        self._resumed = False
        self._reset()

    def _reset(self) -> None:
        self.files: dict[str, float] = {}  # names of the best and what they are worth
        self.step = 0  # of the last file

    @property
    def best(self) -> float | None:
        """The best value that has a file."""
        best = self._ranked()[:1]
        return self.files[best[0]] if best else None

    @property
    def best_path(self) -> Path | None:
        """The file of the best epoch."""
        best = self._ranked()[:1]
        return self.folder / best[0] if best else None

    @property
    def last_path(self) -> Path:
        """The file of the last epoch."""
        return self.folder / f"last{self._suffix}"

    @property
    def _suffix(self) -> str:
        return self.path.suffix if self.one else ".safetensors" if self.weights_only else ".pt"

    def _ranked(self) -> list[str]:
        """The files, the best first, and of equal ones the earlier."""
        sign = -1 if self.monitor.higher else 1
        return sorted(self.files, key=lambda name: sign * self.files[name])

    def on_fit_begin(self, model: Model) -> None:
        """Make the folder."""
        if not self._resumed:
            self._reset()
        self._resumed = False
        self.monitor.begin(model)
        self.folder.mkdir(parents=True, exist_ok=True)

    async def on_step(self, model: Model, step: int, logs: Logs) -> None:
        """Write within an epoch, where a number of steps was asked for."""
        every = self.every_steps
        if every is not None and step // every > self.step // every:
            self.step = step
            if self.top_k is None:
                name = f"epoch-{model.epoch:03d}-step-{model.step:08d}{self._suffix}"
                await self._write(model, self.folder / name)
            if self.save_last:
                await self._write(model, self.last_path)

    async def on_epoch(self, model: Model, epoch: int, logs: Logs) -> None:
        """Write an epoch, if it is among the best, and as the last one."""
        value = None if self.top_k == 0 else self.monitor.value(model, logs)
        if epoch % self.every_epochs:
            return
        self.step = model.step
        if value is not None and self._is_among_best(value):
            await self._keep(model, epoch, value)
        if self.save_last:
            await self._write(model, self.last_path)

    def _is_among_best(self, value: float) -> bool:
        if self.top_k is None:
            return True
        if value != value:  # nan is never good
            return False
        ranked = self._ranked()
        full = len(ranked) >= self.top_k
        return not full or self.monitor.better(value, self.files[ranked[self.top_k - 1]])

    async def _keep(self, model: Model, epoch: int, value: float) -> None:
        """Write a file, and then remove those that are among the best no more."""
        name = self.path.name
        if not self.one:
            of = re.sub(r"[^\w.-]", "_", str(self.monitor.name))
            name = f"epoch-{epoch:03d}-{of}-{value:.4g}{self._suffix}"
        before = dict(self.files)
        if self.one:
            self.files = {}
        self.files[name] = value  # first: a checkpoint holds which files there are
        try:
            await self._write(model, self.folder / name)
        except BaseException:
            self.files = before
            raise
        if self.top_k is not None:
            for old in self._ranked()[self.top_k :]:
                with contextlib.suppress(PermissionError):  # Windows keeps what is open: later
                    (self.folder / old).unlink(missing_ok=True)
                    del self.files[old]

    async def _write(self, model: Model, path: Path) -> None:
        if self.weights_only:
            await model.save_async(path)
        else:
            await model.save_checkpoint_async(path)

    def state_dict(self) -> dict[str, Any]:
        """Which files are the best."""
        return {"files": dict(self.files), "step": self.step}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Go on with those of the files that are still there."""
        self.files = {n: v for n, v in state["files"].items() if (self.folder / n).exists()}
        self.step, self._resumed = state["step"], True
