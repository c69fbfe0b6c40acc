"""Metrics: streaming, on the device, right over batches of any size.

Each has `update(output, target)`, which takes a batch in, `compute()`, the value so far, and
`reset()`. `update` and `compute` are device operations alone, so `pf.compile` captures them.
"""

from __future__ import annotations

from typing import Any

from pyframe.core.words import did_you_mean as _near, join_parts as _told
from pyframe.metrics.base import Mean as Mean, Metric as Metric
from pyframe.metrics.classification import (
    F1 as F1,
    Accuracy as Accuracy,
    ConfusionMatrix as ConfusionMatrix,
    IoU as IoU,
    Perplexity as Perplexity,
    Precision as Precision,
    Recall as Recall,
)
from pyframe.metrics.ranking import AUROC as AUROC, AveragePrecision as AveragePrecision
from pyframe.metrics.regression import (
    MAE as MAE,
    MSE as MSE,
    R2 as R2,
    RMSE as RMSE,
    CosineSimilarity as CosineSimilarity,
)
from pyframe.ops.api.layouts import texts as _texts

_CLASSES: tuple[type[Metric], ...] = (
    Accuracy, Precision, Recall, F1, AUROC, AveragePrecision, ConfusionMatrix, MAE, MSE, RMSE, R2,
    Perplexity, IoU, CosineSimilarity,
)  # fmt: skip
if _texts:
    _texts.complete_docstrings(globals())


def known() -> dict[str, type[Metric]]:
    """The metrics that have names, by these.

    >>> list(pf.metrics.known())[:3]
    ['accuracy', 'precision', 'recall']
    """
    return {cls().name: cls for cls in _CLASSES}


def get(metric: Any) -> Metric:
    """A Metric for its name ("accuracy", "f1", …), for a function of (output, target) that gives a
    number for a batch (see Mean), or for a Metric, which is given back.

    Args:
        metric: The name, the function or the Metric.

    Raises:
        ValueError: the name is unknown; the text has those that there are.
        TypeError: it is anything else.

    >>> pf.metrics.get("f1").name, pf.metrics.get(F.mse_loss).name
    ('f1', 'mse_loss')
    """
    if isinstance(metric, Metric):
        return metric
    names = known()
    if isinstance(metric, str):
        if metric not in names:
            there = f"expected {', '.join(map(repr, names))}, a Metric or a function of"
            wrong = f"unknown metric {metric!r}; {there} (output, target)"
            raise ValueError(_told(wrong, _near(metric, names, 0.5)))
        return names[metric]()
    if isinstance(metric, type) or not callable(metric):
        made = f"the class {metric.__name__}" if isinstance(metric, type) else repr(metric)
        hint = f"; make one: {metric.__name__}(…)" if isinstance(metric, type) else ""
        raise TypeError(
            "a metric must be a name such as 'accuracy', a Metric or a function of (output, "
            f"target), got {made}{hint}"
        )
    return Mean(metric)
