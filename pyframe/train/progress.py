"""What shows how far a fit has come: a bar in a terminal, a live plot in a notebook."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

from pyframe.train.callbacks.base import Callback, Logs

if TYPE_CHECKING:
    from pyframe.train.model import Model


class ProgressBar(Callback):
    """A tqdm bar for each epoch."""

    def __init__(self, epochs: int, steps: int | None) -> None:
        self.epochs, self.steps = epochs, steps
        self.bar: Any = None
        self.done = 0

    def on_fit_begin(self, model: Model) -> None:
        """Name the device and open the first bar."""
        print(f"Training on {model.device_name}", file=sys.stderr)
        self._open(0)

    def _open(self, epoch: int) -> None:
        from tqdm import tqdm

        self.bar = tqdm(total=self.steps, desc=f"epoch {epoch + 1}/{self.epochs}", unit="step",
                        dynamic_ncols=True)  # fmt: skip

    def on_step(self, model: Model, step: int, logs: Logs) -> None:
        """Move the bar."""
        self.bar.update(step - self.done)
        self.done = step
        self.bar.set_postfix({k: f"{v:.4f}" for k, v in logs.items()})

    def on_epoch(self, model: Model, epoch: int, logs: Logs) -> None:
        """Show the epoch's numbers and close its bar."""
        shown = {k: f"{v:.4g}" if k == "lr" else f"{v:.4f}" for k, v in logs.items()}
        self.bar.set_postfix(shown)
        self.bar.close()
        if epoch + 1 < self.epochs and not model.stop_training:
            self._open(epoch + 1)

    def on_fit_end(self, model: Model) -> None:
        """Close the bar of an epoch that was cut short."""
        self.bar.close()
