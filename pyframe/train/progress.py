"""What shows how far a fit has come: a bar in a terminal, a live plot in a notebook."""

from __future__ import annotations

import html
import importlib
import math
import sys
import time
from collections.abc import Sequence
from typing import Any

from pyframe.core.devices import in_browser
from pyframe.core.words import plural
from pyframe.train.callbacks.base import Callback, Logs, Model
from pyframe.train.history import History, number

PAUSE = 0.2  # seconds between two pictures of a notebook, but at the ends of epochs
COLORS = ("#3b82f6", "#f97316")  # of training and validation, to be seen on white and on black


def progress(verbose: int = 1, given: Sequence[Callback] = ()) -> list[Callback]:
    """What shows a fit here: for `verbose` 1 a live plot in a notebook and a bar in a terminal, for
    2 a line an epoch, for 0 nothing, as in a page, which has its own, or where one is `given`."""
    if not verbose or any(isinstance(c, ProgressBar) for c in given):
        return []
    if in_notebook() and verbose == 1:
        return [NotebookProgress()]
    if in_browser():
        return []
    return [ProgressBar() if verbose == 1 else EpochLines()]


def in_notebook() -> bool:
    """Whether this runs in a kernel of Jupyter, which shows HTML. Loads nothing for it."""
    ipython = sys.modules.get("IPython")
    shell = None if ipython is None else ipython.get_ipython()
    return getattr(shell, "kernel", None) is not None


class ProgressBar(Callback):
    """A tqdm bar for each epoch, on stderr, with its numbers so far. `fit` shows one by itself in a
    terminal; given among the callbacks it is shown everywhere.

    >>> isinstance(pf.train.ProgressBar(), pf.train.Callback)
    True
    """

    bar: Any = None

    def on_fit_begin(self, model: Model) -> None:
        """Name the device."""
        print(f"Training on {model.device_name}", file=sys.stderr)
        self.bar, self.done = None, model.step

    def on_epoch_begin(self, model: Model, epoch: int) -> None:
        """Open the epoch's bar."""
        from tqdm import tqdm

        self.bar = tqdm(total=model.steps_per_epoch, desc=f"epoch {epoch}/{model.epochs}",
                        unit="step", dynamic_ncols=True)  # fmt: skip

    def on_step(self, model: Model, step: int, logs: Logs) -> None:
        """Move the bar."""
        self._show(model, logs)
        self.bar.update(step - self.done)
        self.done = step

    def on_epoch(self, model: Model, epoch: int, logs: Logs) -> None:
        """Show the epoch's numbers and close its bar."""
        self._show(model, logs)
        self.bar.dynamic_ncols = self.bar.ncols = None  # nothing is cut off: a long line wraps
        self.bar.close()

    def _show(self, model: Model, logs: Logs) -> None:
        if self.bar is None:  # of a fit that is resumed within an epoch, or at its end
            self.on_epoch_begin(model, model.epoch)
        # What is drawn is drawn by update, and only where some time has passed since.
        self.bar.set_postfix({name: number(v) for name, v in logs.items()}, refresh=False)

    def on_fit_end(self, model: Model) -> None:
        """Close the bar of an epoch that was cut short."""
        if self.bar is not None:
            self.bar.close()


class EpochLines(Callback):
    """A line for each epoch: "epoch 1/5 - 2.1 s - loss: 0.1234 - val_loss: 0.2345"."""

    def on_fit_begin(self, model: Model) -> None:
        """Name the device."""
        print(f"Training on {model.device_name}", file=sys.stderr)
        self.began = time.monotonic()  # for a fit that is resumed within an epoch

    def on_epoch_begin(self, model: Model, epoch: int) -> None:
        """The clock starts."""
        self.began = time.monotonic()

    def on_epoch(self, model: Model, epoch: int, logs: Logs) -> None:
        """Print the epoch's numbers."""
        seconds = time.monotonic() - self.began
        parts = [f"epoch {epoch}/{model.epochs}", f"{seconds:.1f} s"]
        parts += [f"{name}: {number(v)}" for name, v in logs.items()]
        print(" - ".join(parts), file=sys.stderr, flush=True)


class NotebookProgress(Callback):
    """A bar, curves of the loss and of the first metric, and a table, in a cell's output; they are
    drawn anew in their place as training goes on."""

    handle: Any = None

    def on_fit_begin(self, model: Model) -> None:
        """Begin with an empty picture."""
        self.table = History()
        self.table.load_state_dict(model.history.state_dict())  # of a fit that is resumed
        self.handle = None
        self.began = time.perf_counter()  # Windows' monotonic clock stands still for 16 ms
        self.first_step = self.epoch_step = model.step
        self.due = 0.0

    def on_epoch_begin(self, model: Model, epoch: int) -> None:
        """Show the bar of the epoch."""
        self.epoch_step = model.step
        self._show(self._bar(model, model.step, {}))

    def on_step(self, model: Model, step: int, logs: Logs) -> None:
        """Move the bar."""
        if time.monotonic() >= self.due:
            self._show(self._bar(model, step, logs))

    def on_epoch(self, model: Model, epoch: int, logs: Logs) -> None:
        """Go on with the curves and the table."""
        self.table.on_epoch(model, epoch, logs)
        self._show(self._bar(model, model.step, {}))

    def on_fit_end(self, model: Model) -> None:
        """Say how long it took."""
        if self.handle is None:
            return
        done, seconds = len(self.table.epoch), time.perf_counter() - self.began
        text = f"{done} of {model.epochs}" if done < model.epochs else str(done)
        text += f" {plural(model.epochs, 'epoch')}"
        self._show(f"<div>{text} in {clock(seconds)} on {html.escape(model.device_name)}</div>")

    def _bar(self, model: Model, step: int, logs: Logs) -> str:
        """A bar for the whole fit, and the numbers of the epoch so far."""
        inside, steps = step - self.epoch_step, model.steps_per_epoch
        over = model.epoch - 1
        share = over + (min(inside / steps, 1) if steps else 0)
        parts = [f"epoch {model.epoch}/{model.epochs}"]
        parts.append(f"step {inside}/{steps}" if steps else f"step {inside}")
        trained, seconds = step - self.first_step, time.perf_counter() - self.began
        if trained:
            parts.append(f"{trained / seconds:.3g} steps/s")
            if steps:
                left = ((model.epochs - over) * steps - inside) / trained * seconds
                parts.append(f"{clock(left)} left")
        parts += [f"{name} {number(v)}" for name, v in logs.items()]
        return (
            f'<div><progress max="{model.epochs}" value="{share:.4f}" style="width: 16em">'
            f"</progress> {html.escape(' · '.join(parts))}</div>"
        )

    def _show(self, first: str) -> None:
        """Draw it all anew."""
        shows: Any = importlib.import_module("IPython.display")
        text = f"{first}{charts(self.table)}{self.table._repr_html_() if self.table.epoch else ''}"
        if self.handle is None:
            self.handle = shows.display(shows.HTML(text), display_id=True)
        else:
            self.handle.update(shows.HTML(text))
        self.due = time.monotonic() + PAUSE


def clock(seconds: float) -> str:
    """0:07, 12:34 or 1:02:03."""
    minutes, s = divmod(round(seconds), 60)
    hours, m = divmod(minutes, 60)
    return f"{hours}:{m:02}:{s:02}" if hours else f"{m}:{s:02}"


def charts(history: History) -> str:
    """Curves of the loss and of the first metric, each with its twin of the validation."""
    names = [n for n in history if not n.startswith("val_") and n != "lr"]
    drawn = [
        chart(name, history.epoch, {n: history[n] for n in (name, f"val_{name}") if n in history})
        for name in names[:2]
    ]
    return f'<div style="display: flex; flex-wrap: wrap; gap: 1em">{"".join(drawn)}</div>'


def chart(title: str, epochs: Sequence[int], lines: dict[str, list[float]]) -> str:
    """An SVG of some quantities over the epochs, with a line for each one that has a number."""
    width, height, left, top, bottom = 320, 190, 48, 22, 20
    finite = [v for values in lines.values() for v in values if math.isfinite(v)]
    if not finite:
        return ""
    low, high = min(finite), max(finite)
    if low == high:
        low, high = low - 0.5, high + 0.5
    first, last = epochs[0], max(epochs[-1], epochs[0] + 1)

    def at(epoch: int, value: float) -> tuple[float, float]:
        x = left + (epoch - first) / (last - first) * (width - left - 8)
        return x, top + (high - value) / (high - low) * (height - top - bottom)

    parts = []
    for value in (low, (low + high) / 2, high):
        y = at(first, value)[1]
        parts.append(
            f'<path d="M{left} {y:.1f}H{width - 8}" stroke="currentColor" stroke-opacity=".15"/>'
            f'<text x="{left - 4}" y="{y + 3:.1f}" text-anchor="end">{number(value)}</text>'
        )
    for epoch, anchor in ((first, "start"), (last, "end")):
        x = at(epoch, low)[0]
        parts.append(f'<text x="{x:.1f}" y="{height - 6}" text-anchor="{anchor}">{epoch}</text>')
    indent = left
    for (name, values), color in zip(lines.items(), COLORS, strict=False):
        points = [at(e, v) for e, v in zip(epochs, values, strict=True) if math.isfinite(v)]
        if not points:
            continue
        path = " ".join(f"{x:.1f},{y:.1f}" for x, y in points)
        x, y = points[-1]
        parts.append(f'<polyline points="{path}" fill="none" stroke="{color}" stroke-width="2"/>')
        parts.append(f'<circle cx="{x:.1f}" cy="{y:.1f}" r="3" fill="{color}"/>')
        parts.append(f'<text x="{indent}" y="12" fill="{color}">{html.escape(name)}</text>')
        indent += 7 * len(name) + 16
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}" role="img" '
        f'viewBox="0 0 {width} {height}" font-family="sans-serif" font-size="11" '
        f'fill="currentColor"><title>{html.escape(title)}</title>{"".join(parts)}</svg>'
    )
