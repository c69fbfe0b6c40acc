"""How well scores order samples: areas under curves, from counts in bins of scores."""

from __future__ import annotations

import math
from typing import NamedTuple

import pyframe as pf
from pyframe.core.modes import mode
from pyframe.metrics.base import Streaming, check_choice, ratio
from pyframe.metrics.classification import class_numbers, task_of, truths
from pyframe.nn import functional as F
from pyframe.tensor import Tensor


def spread(scores: Tensor) -> Tensor:
    """Scores of any scale, in their order, over 0 to 1: those between 0 and 1, which may be
    probabilities, have the middle half, most of it where they are near 0 or 1. nan goes to 0."""
    scores = scores.nan_to_num(-1e30, 1e30, -1e30)
    inside = scores.clamp(0, 1)
    far = scores - inside
    size = (1 + far.abs()).log()
    yes, no = inside.sqrt().sqrt(), (1 - inside).sqrt().sqrt()
    return 0.25 + 0.5 * yes / (yes + no) + 0.25 * far.sign() * size / (2 + size)


class _Ranking(Streaming):
    """Scores of the samples that are "yes" and of those that are "no": counts of both in bins."""

    higher_is_better = True

    counts: Tensor

    def __init__(
        self, thresholds: int | None = 2048, average: str | None = "macro", *,
        task: str | None = None, ignore_index: int | None = -100,
    ) -> None:  # fmt: skip
        super().__init__()
        if thresholds is not None and (not isinstance(thresholds, int) or thresholds < 2):
            raise ValueError(
                f"{self.name}: thresholds must be an int of at least 2, or None, which keeps every "
                f"score, got {thresholds!r}"
            )
        check_choice(self.name, "average", average, "macro", "weighted", None)
        self.thresholds, self.average = thresholds, average
        self.task, self.ignore_index = task, ignore_index
        self._scores: list[tuple[Tensor, Tensor, Tensor]] = []  # all of them, where they are kept
        self.later_counts("counts")

    def reset(self) -> None:
        """Forget what was seen."""
        super().reset()
        self._scores.clear()

    def update(self, output: Tensor, target: Tensor) -> None:
        """Take outputs and targets in. RuntimeError in a compiled step if all scores are kept."""
        if task_of(self.name, output, target, self.task) == "binary":
            scores = output.reshape(-1, 1).float()
            yes, kept = truths(self.name, output, target, self.ignore_index)
            yes, kept = yes.unsqueeze(1), kept.unsqueeze(1)
        else:
            n = output.shape[1]
            scores = _shares(output.float())
            classes = pf.arange(n, device=output.device)
            target, kept = class_numbers(self.name, target.unsqueeze(1), n, self.ignore_index)
            yes = kept & (target == classes.reshape(-1, *(1,) * (output.ndim - 2)))
        if self.thresholds is None:
            self._keep(*map(_by_class, (scores, yes, ~yes & kept)))
        else:
            bins = self.thresholds
            index = (spread(scores) * bins).long().clamp(max=bins - 1)
            index = (index + yes.long() * bins).where(kept, -1)
            self.count_bins("counts", _by_class(index), 2 * bins)

    def _keep(self, scores: Tensor, yes: Tensor, no: Tensor) -> None:
        if mode.capture is not None:
            raise RuntimeError(
                f"{self.name}: thresholds=None keeps every score, which a compiled step can't; "
                "leave it out (the error is small), or run without compiling: compile=False"
            )
        if self._scores and len(self._scores[0][0]) != len(scores):
            raise ValueError(
                f"{self.name}: got {len(scores)} classes after {len(self._scores[0][0])} before"
            )
        self._scores.append((scores.detach().clone(), yes.float(), no.float()))

    def of(self, found: _Groups) -> Tensor:
        """The area (C,), of the counts `found` at each score."""
        raise NotImplementedError

    def compute(self) -> Tensor:
        """(), or (C,) for average=None; nan where no "yes" or no "no" was seen."""
        groups = self._sorted() if self.thresholds is None else self._binned(self.thresholds)
        found = self.of(groups)
        if self.average is None:
            return found.squeeze(0) if len(found) == 1 else found
        known = ~found.isnan()
        weights = known.float() * (groups.yes.sum(1) if self.average == "weighted" else 1.0)
        return ratio((found.masked_fill(~known, 0) * weights).sum(), weights.sum(), math.nan)

    def _binned(self, bins: int) -> _Groups:
        no, yes = self.total("counts").split(bins, 1)
        above_yes, above_no = (x.flip(1).cumsum(1).flip(1) for x in (yes, no))
        return _Groups(yes, above_yes, above_no, no)

    def _sorted(self) -> _Groups:
        """Each sample is a group, which counts all that have its score."""
        if not self._scores:
            raise RuntimeError(f"{self.name}: there is no value before the first update")
        parts = zip(*self._scores, strict=True)
        scores, yes, no = (pf.cat(p, 1) for p in parts)
        scores, order = scores.sort(1)
        yes, no = yes.gather(1, order), no.gather(1, order)
        below_yes, below_no = (F.pad(x.cumsum(1), (1, 0)) for x in (yes, no))
        first, end = (pf.searchsorted(scores, scores, right=right) for right in (False, True))
        same_no = below_no.gather(1, end) - below_no.gather(1, first)
        above_yes, above_no = (x[:, -1:] - x.gather(1, first) for x in (below_yes, below_no))
        return _Groups(yes, above_yes, above_no, same_no)


class _Groups(NamedTuple):
    """Of groups of scores (C, B): how many are "yes", how many of each kind have these scores or
    higher ones, and how many "no" have just these."""

    yes: Tensor
    above_yes: Tensor
    above_no: Tensor
    same_no: Tensor


class AUROC(_Ranking):
    """The area under the ROC curve: how likely a "yes" has a higher score than a "no".

    Binary: scores (N,), (N, 1) or (N, 1, *) of any scale, as only their order matters, and targets
    of 0 or 1. Multiclass: logits or probabilities (N, C, *) and class numbers (N, *), each class
    against the others. It is nan where no "yes" or no "no" was seen.

    Scores are counted in `thresholds` bins, half of them for scores within 0 and 1. Those of a bin
    count as equal, so that the value is off by at most half the sum over bins of
    (share of "yes" in it) · (share of "no" in it): 1 / 2000 where scores fill 1000 bins evenly, and
    in practice far less.

    Args:
        thresholds: the number of bins, at least 2. None keeps every score and is exact; memory
            grows then, and it can't run in a compiled step.
        average: "macro" is the mean over the classes, "weighted" that weighted by how often they
            are targets, None gives all, (C,).
        task: "binary" or "multiclass", where shapes leave it open; None goes by the shapes.
        ignore_index: targets of this value count nowhere; None for none.

    >>> metric = pf.metrics.AUROC()
    >>> metric.update(pf.tensor([0.9, 0.8, 0.7, 0.2]), pf.tensor([1, 0, 1, 0]))
    >>> metric.compute()
    tensor(0.7500)
    """

    def of(self, found: _Groups) -> Tensor:
        """The share of pairs in order, half of those that are equal."""
        yes, no = found.above_yes.amax(1), found.above_no.amax(1)
        below = no.unsqueeze(1) - found.above_no + 0.5 * found.same_no
        below = ratio(below, no.unsqueeze(1), math.nan)
        return ratio((found.yes * below).sum(1), yes, math.nan)


class AveragePrecision(_Ranking):
    """The mean precision at the scores of all "yes", a summary of the precision-recall curve.

    As scikit-learn's average_precision_score: Σ (recall - recall before) · precision. Outputs,
    targets and options are AUROC's.

    >>> metric = pf.metrics.AveragePrecision()
    >>> metric.update(pf.tensor([0.9, 0.8, 0.7, 0.2]), pf.tensor([1, 0, 1, 0]))
    >>> metric.compute()
    tensor(0.8333)
    """

    def of(self, found: _Groups) -> Tensor:
        """The mean over "yes" of the precision at its score."""
        precision = ratio(found.above_yes, found.above_yes + found.above_no)
        return ratio((found.yes * precision).sum(1), found.yes.sum(1), math.nan)


def _by_class(x: Tensor) -> Tensor:
    """(N, C, *) -> (C, M)."""
    return x.transpose(0, 1).reshape(x.shape[1], -1)


def _shares(output: Tensor) -> Tensor:
    """Probabilities (N, C, *) of logits; rows that are probabilities already stay."""
    sums = output.sum(1, keepdim=True)
    shares = (output.amin(1, keepdim=True) >= 0) & ((sums - 1).abs() < 1e-3)
    return output.where(shares, output.softmax(1))
