"""What looks on while a Model trains."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pyframe.train.model import Model as Model
else:
    Model = Any  # for annotations: its module imports this one

Logs = dict[str, float]


class Callback:
    """What looks on while a Model trains: override what you need; each method but `on_gradients`
    may be `async`. It is given to `model.fit(data, callbacks=[…])`.

    `model.stop_training = True` stops the fit after the step that runs.

    >>> x, net = pf.randn(32, 2), nn.Linear(2, 1)
    >>> model = pf.Model(net, nn.MSELoss(), optim.SGD(net.parameters(), lr=0.1))
    >>> class Print(pf.train.Callback):
    ...     def on_epoch(self, model, epoch, logs):
    ...         print(epoch, list(logs))
    >>> history = model.fit((x, x[:, :1]), epochs=2, callbacks=[Print()], verbose=0)
    1 ['loss', 'lr']
    2 ['loss', 'lr']
    """

    keeps = False  # whether it writes down what other callbacks hold, and is told after them

    def on_fit_begin(self, model: Model) -> Any:
        """Before the first step; `model.log_names` are known, but for those of custom steps."""

    def on_epoch_begin(self, model: Model, epoch: int) -> Any:
        """Before the first step of an epoch; the first epoch is number 1.

        Args:
            epoch: its number.
        """

    def on_gradients(self, model: Model) -> Any:
        """Within the compiled step, after the backward pass and before the optimizer's step.

        What it does with tensors is captured with the step, so it must read no value of theirs."""

    def on_step(self, model: Model, step: int, logs: Logs) -> Any:
        """After losses were read, every `read_every` steps and at the end of an epoch.

        `logs` are the epoch's means so far; `step` counts all steps."""

    def on_epoch(self, model: Model, epoch: int, logs: Logs) -> Any:
        """After an epoch and its validation; `model.history.add(epoch, {name: number})` adds to the
        History.

        Args:
            epoch: its number, from 1.
            logs: its numbers by name.
        """

    def on_fit_end(self, model: Model) -> Any:
        """After the last step, also when stopped early, by an error or by Ctrl-C."""

    def state_dict(self) -> dict[str, Any]:
        """What a fit that is resumed needs of it: numbers, texts, lists, dicts and tensors."""
        return {}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Go on from a `state_dict()`.

        Args:
            state: what it gave.
        """


class LambdaCallback(Callback):
    """A callback of functions, one an event: those are on_fit_begin, on_epoch_begin, on_gradients,
    on_step, on_epoch and on_fit_end, and take what the methods of Callback do.

    Args:
        functions: each under the name of its event.

    Raises:
        TypeError: an event does not exist, or a function can't be called.

    >>> x, net = pf.randn(32, 2), nn.Linear(2, 1)
    >>> model = pf.Model(net, nn.MSELoss(), optim.SGD(net.parameters(), lr=0.1))
    >>> tell = pf.train.LambdaCallback(on_epoch=lambda model, epoch, logs: print(epoch))
    >>> history = model.fit((x, x[:, :1]), epochs=2, callbacks=[tell], verbose=0)
    1
    2
    """

    EVENTS = ("on_fit_begin", "on_epoch_begin", "on_gradients", "on_step", "on_epoch", "on_fit_end")

    def __init__(self, **functions: Callable[..., Any]) -> None:
        for event, fn in functions.items():
            if event not in self.EVENTS:
                raise TypeError(
                    f"LambdaCallback: unknown event {event!r}; expected {', '.join(self.EVENTS)}"
                )
            if not callable(fn):
                raise TypeError(f"LambdaCallback: {event} must be a function, got {fn!r}")
            setattr(self, event, fn)
