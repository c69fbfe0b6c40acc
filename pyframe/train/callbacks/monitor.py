"""Monitor: which of the numbers that training gives is followed, and when it is better."""

from __future__ import annotations

import math
import re
from typing import Any

from pyframe.core.words import near
from pyframe.train import check
from pyframe.train.callbacks.base import Logs, Model

# Words in the names of quantities that are better the higher they are; all others are losses.
_HIGHER = re.compile(
    r"(^|_)(acc\d*|accuracy|auc|auroc|ap|map|precision|recall|f1|f\d?beta|r2|iou|miou|jaccard|dice"
    r"|score|similarity|correlation|specificity|sensitivity|mcc|kappa|bleu|rouge|psnr|ssim|top\d+)"
    r"(_|\d|$)"
)
_CASE = re.compile(r"(?<=[a-z\d])(?=[A-Z])")


def higher_is_better(name: str, model: Model | None = None) -> bool:
    """Whether more of a quantity is better: as its metric says, else as its name tells."""
    name = name.removeprefix("val_")
    metric = None if model is None else model.metrics.get(name)
    says = getattr(metric, "higher_is_better", None)
    if says is not None:
        return bool(says)
    names = [name] if metric is None else [name, str(getattr(metric, "name", ""))]
    return any(_HIGHER.search(_CASE.sub("_", n).lower()) for n in names)


class Monitor:
    """The quantity in the logs that says how good an epoch was.

    `name` None is "val_loss" where there is validation, else "loss". `mode` is "min", "max" or
    "auto": "max" for what is better the higher it is. ValueError for another mode; where the name
    is not among the logs, one that lists them.
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

    def choose(self, model: Model | None, known: Any) -> None:
        """Find the quantity among the `known` ones."""
        if self.name is None:
            self.name = "val_loss" if "val_loss" in known else "loss"
        if self.name not in known:
            fix, trained = near(self.name, known, 0.5), self.name.removeprefix("val_")
            if trained != self.name and trained in known:
                fix = f"without validation_data there is only {trained!r}"
            raise check.no_quantity(self.who, self.name, known, fix)
        self._seen = True
        if self.mode == "auto":
            self.higher = higher_is_better(self.name, model)

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
