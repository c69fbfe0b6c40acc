"""EarlyStopping: the end of training when a quantity gets no better.

Monitor says which of the numbers that training gives is followed, and when it is better.
"""

from __future__ import annotations

import math
import re
import sys
from typing import Any

import pyframe as pf
from pyframe.core.words import did_you_mean
from pyframe.metrics import ConfusionMatrix
from pyframe.tensor import gather_async
from pyframe.train import check
from pyframe.train.callbacks.base import Callback, Logs, Model

# Words in the names of quantities that are better the higher they are, and the lower.
_HIGHER = re.compile(
    r"(acc\d*|accuracy|auc|auroc|ap|map|precision|recall|f1|f\d?beta|r2|iou|miou|jaccard|dice"
    r"|scores?|similarity|correlation|specificity|sensitivity|mcc|kappa|bleu|rouge|psnr|ssim|top\d+"
    r"|likelihood|elbo|reward|return)(\d|$)"
)
_LOWER = re.compile(
    r"(loss|losses|cost|errors?|mae|mse|rmse|mape|msle|rmsle|nll|bce|ce|crossentropy|entropy"
    r"|perplexity|ppl|kl|kld|divergence|distance|hinge|huber|l1|l2|ece|brier|wer|cer|eer|fid|lpips"
    r"|penalty|lr|time|seconds)(\d|$)"
)
_CASE = re.compile(r"(?<=[a-z\d])(?=[A-Z])")


def higher_is_better(name: str, model: Model | None = None) -> bool | None:
    """Whether more of a quantity is better: as its metric says, else as the last word in its name
    that tells it, as in "dice_loss". None where none does."""
    name = name.removeprefix("val_")
    metric = None if model is None else model.metrics.get(name)
    says = getattr(metric, "higher_is_better", None)
    if says is not None:
        return bool(says)
    for known in (name, str(getattr(metric, "name", ""))):
        for word in reversed(_CASE.sub("_", known).lower().split("_")):
            if _HIGHER.match(word) or _LOWER.match(word):
                return _HIGHER.match(word) is not None
    return None


class Monitor:
    """The quantity in the logs that says how good an epoch was.

    `name` None is "val_loss" where there is validation, else "loss". `mode` is "min", "max" or
    "auto", as the metric or the name tells. ValueError for another mode; where "auto" can't know;
    where the name is not among the logs, one that lists them.
    """

    def __init__(self, who: str, name: str | None, mode: str = "auto") -> None:
        check.quantity(who, name, mode)
        self.who, self.mode = who, mode
        self.given = self.name = name
        self.higher = mode == "max"
        self._seen = False

    def begin(self, model: Model) -> None:
        """Before a fit."""
        self.name, self._seen = self.given, False
        if known := getattr(model, "log_names", ()):
            self.choose(model, known)
        else:  # a custom step decides on the names
            self._direct(model)

    def choose(self, model: Model | None, known: Any) -> None:
        """Find the quantity among the `known` ones."""
        if self.name is None:
            self.name = "val_loss" if "val_loss" in known else "loss"
        if self.name not in known:
            fix, trained = did_you_mean(self.name, known, 0.5), self.name.removeprefix("val_")
            if trained != self.name and trained in known:
                fix = f"without validation_data there is only {trained!r}"
            raise check.no_quantity(self.who, self.name, known, fix)
        self._seen = True
        self._direct(model)

    def _direct(self, model: Model | None) -> None:
        """Find out what is better."""
        name = "" if self.name is None else self.name.removeprefix("val_")
        metric = None if model is None else model.metrics.get(name)
        several = isinstance(metric, ConfusionMatrix)  # numbers, as `value` tells
        if self.mode == "auto" and self.name is not None and not several:
            self.higher = check.direction(self.who, self.name, higher_is_better(self.name, model))

    def value(self, model: Model, logs: Logs) -> float | None:
        """The quantity; None in an epoch that does not have it."""
        if model.cut_short:
            return None  # its numbers are of a part of it, and it may be gone on with
        if not self._seen:
            self.choose(model, list(logs))
        assert self.name is not None
        found = logs.get(self.name)
        is_metric = self.name.removeprefix("val_") in model.metrics
        if found is None and is_metric and self.name in model.log_names and not model.stop_training:
            raise ValueError(
                f"{self.who}: {self.name!r} is no single number, so that no epoch is better by it; "
                f"expected one of {', '.join(map(repr, logs))}"
            )
        return None if found is None else float(found)

    def better(self, value: float, than: float | None, by: float = 0.0) -> bool:
        """Whether a value is better than another, or than none; NaN never is."""
        if than is None or math.isnan(value):
            return not math.isnan(value)
        return value > than + by if self.higher else value < than - by


class EarlyStopping(Callback):
    """Stops a fit when a quantity was not better than its best one for `patience` epochs.

    Args:
        monitor: the quantity that says how good an epoch was; None is "val_loss" where there is
            validation, else "loss".
        mode: "min", "max", or "auto": as the metric or its name tells; ValueError where neither
            does.
        patience: how many epochs without progress end the fit, at least 1.
        min_delta: what is better by no more than this is not counted as better.
        baseline: nor is what is not better than this; None for no such number.
        restore_best: whether the weights of the best epoch are kept, on their device, and given to
            the net at the end of the fit, however it ends.
        verbose: whether it says that it stopped, as `fit(patience=…)` does.

    Attributes:
        best, best_epoch: the best value, and the epoch that had it; None before.
        stopped_epoch: the epoch that it stopped in, or None.

    Raises:
        ValueError: an option is out of range, or the fit has no such quantity; the text lists them.

    >>> x, net = pf.randn(32, 2), nn.Linear(2, 1)
    >>> model = pf.Model(net, nn.MSELoss(), optim.SGD(net.parameters(), lr=0.1))
    >>> stop = pf.train.EarlyStopping(patience=2, min_delta=1e9)
    >>> history = model.fit((x, x[:, :1]), epochs=50, callbacks=[stop], verbose=0)
    >>> stop.best_epoch, stop.stopped_epoch
    (1, 3)
    """

    def __init__(
        self, monitor: str | None = None, patience: int = 5, mode: str = "auto", *,
        min_delta: float = 0.0, baseline: float | None = None, restore_best: bool = True,
        verbose: bool = False,
    ) -> None:  # fmt: skip
        self.monitor = Monitor("EarlyStopping", monitor, mode)
        self.patience = check.count("EarlyStopping", "patience", patience, 1)
        self.min_delta, self.baseline, self.restore_best = abs(min_delta), baseline, restore_best
        self.verbose = verbose
        self._resumed = False
        self._reset()

    def _reset(self) -> None:
        self.best: float | None = None
        self.best_epoch: int | None = None
        self.stopped_epoch: int | None = None
        self.since: set[int] = set()  # epochs without progress; one that is told of again is one
        self.weights: dict[str, pf.Tensor] = {}

    def on_fit_begin(self, model: Model) -> None:
        """Forget the fit before."""
        if not self._resumed:
            self._reset()
        elif len(self.since) >= self.patience:  # the fit was stopped already
            self.stopped_epoch, model.stop_training = max(self.since), True
        self.monitor.begin(model)

    def on_epoch(self, model: Model, epoch: int, logs: Logs) -> None:
        """Keep the weights of the best epoch, or count one that was none."""
        value = self.monitor.value(model, logs)
        if value is None:
            return
        self.since.add(epoch)
        if self.monitor.better(value, self.best, self.min_delta):
            self.best, self.best_epoch = value, epoch
            if self.restore_best:
                state = model.net.state_dict()
                self.weights = {name: x.detach().clone() for name, x in state.items()}
            if self.baseline is None or self.monitor.better(value, self.baseline):
                self.since = set()
        if len(self.since) >= self.patience:
            self.stopped_epoch, model.stop_training = epoch, True

    async def on_fit_end(self, model: Model) -> None:
        """Give the net its best weights."""
        self._resumed = False
        weights, self.weights = self.weights, {}
        restored = bool(weights) and await self._restore(model, weights)
        if self.verbose and self.stopped_epoch is not None and self.best_epoch is not None:
            print(
                f"Stopped in epoch {self.stopped_epoch}: {self.monitor.name} was best in epoch "
                f"{self.best_epoch}, {self.best:.4g}"
                + (", and the net has its weights" if restored else ""),
                file=sys.stderr,
            )

    async def _restore(self, model: Model, weights: dict[str, pf.Tensor]) -> bool:
        """Whether they were there still."""
        assert self.best_epoch is not None
        try:  # the smallest one tells whether they are still there
            await gather_async([min(weights.values(), key=lambda x: x.nbytes)])
        except pf.DeviceLostError:
            check.warn(
                f"EarlyStopping: the weights of epoch {self.best_epoch}, the best one, were "
                "lost with the GPU; the net has its last ones"
            )
            return False
        with pf.no_grad():  # in their places, so that steps which are compiled stay so
            for name, x in model.net.state_dict().items():
                x.copy_(weights[name])
        pf.flush()
        return True

    def state_dict(self) -> dict[str, Any]:
        """The best value, when it was, and its weights."""
        return {
            "best": self.best,
            "best_epoch": self.best_epoch,
            "since": sorted(self.since),
            "weights": dict(self.weights),
        }

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Go on from a `state_dict()`."""
        self.best, self.best_epoch = state["best"], state["best_epoch"]
        self.since, self.weights = set(state["since"]), dict(state["weights"])
        self._resumed = True
