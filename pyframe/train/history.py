"""History: what `fit` returns, a table of an epoch's numbers."""

from __future__ import annotations

import html
from collections.abc import Iterable, Iterator, KeysView, Sequence
from typing import Any, NamedTuple

from pyframe.core.words import columns, plural
from pyframe.train.callbacks.base import Callback, Logs, Model

ROWS = 10  # of a table that is shown; of more, the first and the last ones
NAN = float("nan")


class Best(NamedTuple):
    """The best value of a quantity, and the epoch that had it."""

    epoch: int
    value: float


class History(Callback):
    """The numbers of each epoch, as `fit` returns them: `history["loss"]` is a list, with one
    number an epoch. A quantity that an epoch did not have, as without validation, is nan there.

    Attributes:
        history: the dict of these lists.
        epoch: the list of the epochs' numbers, from 1, as everywhere: the first epoch is number 1.
        interrupted: whether Ctrl-C ended the fit.

    Raises:
        KeyError: there is no quantity of a name; the text lists those that there are.

    >>> x, net = pf.randn(32, 2), nn.Linear(2, 1)
    >>> model = pf.Model(net, nn.MSELoss(), optim.SGD(net.parameters(), lr=0.1))
    >>> history = model.fit((x, x[:, :1]), epochs=2, verbose=0)
    >>> list(history), history.epoch, len(history["loss"])
    (['loss', 'lr'], [1, 2], 2)
    """

    def __init__(self) -> None:
        self.history: dict[str, list[float]] = {}
        self.epoch: list[int] = []
        self.interrupted = False

    def on_epoch(self, model: Model, epoch: int, logs: Logs) -> None:
        """Keep the epoch's numbers; of one that was cut short and is gone on with, the new ones."""
        if self.epoch[-1:] == [epoch]:
            lists: list[list[Any]] = [self.epoch, *self.history.values()]
            for values in lists:
                del values[-1]
        before = len(self.epoch)
        self.epoch.append(epoch)
        for name, value in logs.items():
            self.history.setdefault(name, [NAN] * before).append(value)
        for numbers in self.history.values():
            if len(numbers) == before:
                numbers.append(NAN)

    def add(self, epoch: int, numbers: Logs) -> None:
        """More numbers of the latest epoch, from a callback; before it is over, nothing.

        Args:
            numbers: by name.
        """
        if self.epoch[-1:] == [epoch]:
            for name, value in numbers.items():
                self.history.setdefault(name, [NAN] * len(self.epoch))[-1] = value

    # --- as a table

    def __getitem__(self, name: str) -> list[float]:
        """A quantity's numbers; KeyError lists the known."""
        try:
            return self.history[name]
        except KeyError:
            known = ", ".join(map(repr, self.history)) or "nothing yet"
            raise KeyError(f"History has no {name!r}; it has {known}") from None

    def __contains__(self, name: object) -> bool:
        return name in self.history

    def __iter__(self) -> Iterator[str]:
        return iter(self.history)

    def keys(self) -> KeysView[str]:
        """The names of the quantities, so that dict(history) is the dict of lists."""
        return self.history.keys()

    def best(self, name: str, mode: str = "auto") -> Best:
        """(epoch, value) of a quantity where it was best: lowest, or highest for what is better
        the higher it is ("max"; "auto" tells by the name).

        KeyError for a quantity that there is not, ValueError where it has no number at all.

        Args:
            name: a key.
            mode: "min", "max" or "auto".
        """
        from pyframe.train.callbacks.stopping import Monitor

        monitor = Monitor("History.best", name, mode)
        values = self[name]
        monitor.choose(None, self.history)
        found: Best | None = None
        for epoch, value in zip(self.epoch, values, strict=True):
            if monitor.better(value, None if found is None else found.value):
                found = Best(epoch, value)
        if found is None:
            raise ValueError(f"History.best: {name!r} has no number that is not nan: {values}")
        return found

    def to_pandas(self) -> Any:
        """A DataFrame with a column a quantity and a row an epoch. ImportError without pandas."""
        try:
            import pandas  # type: ignore[import-untyped, unused-ignore]
        except ImportError:
            raise ImportError(
                "History.to_pandas needs pandas: pip install pandas; history.history is the same "
                "as a dict of lists"
            ) from None
        return pandas.DataFrame(self.history, index=pandas.Index(self.epoch, name="epoch"))

    def plot(self, ax: Any = None) -> Any:
        """Draw the curves: `pf.plot.history(self, ax)`.

        Args:
            ax: Axes of matplotlib; None makes a figure.
        """
        from pyframe import plot

        return plot.history(self, ax)

    def state_dict(self) -> dict[str, Any]:
        """The whole table."""
        lists = {name: list(values) for name, values in self.history.items()}
        return {"history": lists, "epoch": list(self.epoch)}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Go on from a `state_dict()`."""
        self.history = {name: list(values) for name, values in state["history"].items()}
        self.epoch = list(state["epoch"])

    # --- for people

    def _rows(self) -> tuple[list[str], list[list[str]]]:
        """The texts of a table, its head and its rows."""
        names = list(self.history)
        shown = list(range(len(self.epoch)))
        if len(shown) > ROWS:
            shown[ROWS // 2 : -ROWS // 2] = [-1]
        rows = [
            ["…"] * (len(names) + 1)
            if i < 0
            else [str(self.epoch[i]), *[number(self.history[n][i]) for n in names]]
            for i in shown
        ]
        return ["epoch", *names], rows

    def __repr__(self) -> str:
        head, rows = self._rows()
        count = len(self.epoch)
        first = f"History of {count} {plural(count, 'epoch')}"
        first += " (interrupted)" if self.interrupted else ""
        return f"{first}:\n{columns([head, *rows], left=0)}" if rows else first

    def _repr_html_(self) -> str:
        head, rows = self._rows()
        return table(head, rows)


def number(value: float) -> str:
    """A number in a table."""
    if 1000 <= abs(value) < 1e7:
        return f"{value:.1f}"
    return f"{value:.4f}" if 0.01 <= abs(value) < 1000 or not value else f"{value:.3g}"


def table(head: Sequence[str], rows: Iterable[Sequence[str]], sides: Sequence[str] = ()) -> str:
    """A table in HTML; `sides` are those that its columns lie to, "left" or "right"."""
    styles = [f' style="text-align:{side}"' for side in sides] or [""] * len(head)

    def row(cells: Sequence[str], tag: str) -> str:
        shown = zip(cells, styles, strict=False)
        inner = "".join(f"<{tag}{style}>{html.escape(text)}</{tag}>" for text, style in shown)
        return f"<tr>{inner}</tr>"

    body = "".join(row(cells, "td") for cells in rows)
    return f"<table><thead>{row(head, 'th')}</thead><tbody>{body}</tbody></table>"
