"""How often classes are right: counts of classes, on the device."""

from __future__ import annotations

import math
from typing import Any

import pyframe as pf
from pyframe.metrics.base import RunningMean, Streaming, check_choice, check_tensors, ratio
from pyframe.nn import functional as F
from pyframe.nn.parameter import is_lazy
from pyframe.ops.api import check
from pyframe.ops.index.rows import checked_classes
from pyframe.tensor import Tensor


def task_of(name: str, output: Any, target: Any, task: str | None = None) -> str:
    """Whether outputs and targets are "binary" or "multiclass". ValueError for what is neither."""
    check_tensors(name, output, target)
    shape, labels = tuple(output.shape), tuple(target.shape)
    classes = shape[1] if len(shape) > 1 else 1
    if task != "binary" and classes > 1 and labels == (*shape[:1], *shape[2:]):
        return "multiclass"
    one = _without_one(shape) == _without_one(labels)
    if one and (task == "binary" or (task is None and classes == 1 and shape)):
        return "binary"
    if task == "binary":
        raise ValueError(
            f"{name}: expected a score and a target of 0 or 1 for each sample, both of one shape, "
            f"got outputs {[*shape]} and targets {[*labels]}; of two outputs for each sample "
            'give the second less the first, or leave task="binary" out'
        )
    hint = "for other tasks pass a function of (output, target)"
    if classes > 1:
        if labels == shape:
            hint = "of one-hot targets make class numbers, by .argmax(1)"
            if task is None:
                hint += '; of several yes-or-no answers for each sample say task="binary"'
        elif len(shape) == 3 and labels == shape[:2]:
            hint = "where the classes are the last dim, as in language models, pass output.mT"
        else:
            hint = "of another shape make class numbers, by .argmax(1) or .squeeze(1)"
    raise ValueError(
        f"{name}: expected outputs (N, C, *) for C > 1 classes and class numbers (N, *), or scores "
        f"(N,) or (N, 1) and targets of 0 or 1, got outputs {[*shape]} and targets {[*labels]}; "
        f"{hint}"
    )


def _without_one(shape: tuple[int, ...]) -> tuple[int, ...]:
    return (*shape[:1], *shape[2:]) if len(shape) > 1 and shape[1] == 1 else shape


def class_numbers(
    name: str, target: Tensor, classes: int, ignore_index: int | None
) -> tuple[Tensor, Tensor]:
    """The targets as int64, and which of them count. IndexError for class numbers that the outputs
    don't have."""
    hint = f" classes of the outputs; of targets that shall not count say {name}'s ignore_index"
    target = checked_classes(f"{name}: target", target.long(), classes, ignore_index, of=hint)
    return target, _kept(target, ignore_index)


def truths(
    name: str, output: Tensor, target: Tensor, ignore_index: int | None
) -> tuple[Tensor, Tensor]:
    """Which targets are 1, and which count, both (N * …,). ValueError for other values than 0, 1
    and `ignore_index`."""
    said = f"got others for outputs {[*output.shape]} and targets {[*target.shape]}"
    target = target.reshape(-1)
    if not target.is_floating_point():
        target = target.long()
    kept = _kept(target, ignore_index)
    check.assert_not(
        kept & (target != 0) & (target != 1),
        f"{name}: expected targets that are 0 or 1, {said}; numbers are measured by 'mae', 'mse' "
        "or 'r2', for other tasks pass a function of (output, target)",
        ValueError,
    )
    return kept & (target != 0), kept


def _kept(target: Tensor, ignore_index: int | None) -> Tensor:
    if ignore_index is None:
        return pf.ones_like(target, dtype=pf.bool)
    return target != ignore_index


class Classifying(Streaming):
    """What metrics of classes share: what their outputs mean.

    Multiclass: outputs (N, C, *), class numbers (N, *). The largest output counts, so that logits,
    probabilities and their logarithms do. Binary: scores (N,), (N, 1) or (N, 1, *) and as many
    targets of 0 or 1. Scores are logits if `probabilities` is False and probabilities if it is
    True; by default they are taken for probabilities if all that were seen since `reset` lie within
    0 and 1 (both ways are counted until the value is asked for). A score counts as "yes" above
    `threshold`, a probability; the logit of 0.5 is 0. `task` ("binary", "multiclass") says which it
    is where shapes leave it open: of outputs and targets that are both (N, L) for L yes-or-no
    answers. Targets that equal `ignore_index` count nowhere; it begins as nn.CrossEntropyLoss's.
    """

    higher_is_better: bool | None = True

    def __init__(
        self, *, task: str | None = None, threshold: float = 0.5,
        probabilities: bool | None = None, ignore_index: int | None = -100,
    ) -> None:  # fmt: skip
        super().__init__()
        check_choice(self.name, "task", task, "binary", "multiclass", None)
        if not 0 < threshold < 1:
            raise ValueError(
                f"{self.name}: threshold must be a probability between 0 and 1, got {threshold!r}"
            )
        self.task, self.probabilities, self.ignore_index = task, probabilities, ignore_index
        logit = math.log(threshold / (1 - threshold))
        # what scores must exceed; of two the first holds if all are probabilities
        both = {None: (threshold, logit), True: (threshold,), False: (logit,)}
        self.threshold, self._limits = threshold, both[probabilities]

    def _ignores(self, classes: int) -> bool:
        """Whether the targets that do not count are one of the classes."""
        return self.ignore_index is not None and 0 <= self.ignore_index < classes


class _Counts(Classifying):
    """Counts of binary answers, or for each of C classes: how often it was predicted and is the
    target (true positives), was predicted, is the target."""

    counts: Tensor

    def __init__(self, **options: Any) -> None:
        super().__init__(**options)
        self.later_counts("counts")

    def update(self, output: Tensor, target: Tensor) -> None:
        """Take outputs and targets in: see Classifying."""
        if task_of(self.name, output, target, self.task) == "binary":
            self.binary(output, target)
        else:
            self.multiclass(output, target)

    def binary(self, output: Tensor, target: Tensor) -> None:
        """Count actual, all, those outside 0 and 1, and for each limit true positives and
        predicted."""
        actual, kept = truths(self.name, output, target, self.ignore_index)
        output = output.reshape(-1)
        rows = [actual, kept, kept & ((output < 0) | (output > 1))]
        for limit in self._limits:
            yes = kept & (output > limit)
            rows += [yes & actual, yes]
        self.count_each("counts", pf.stack(rows))

    def multiclass(self, output: Tensor, target: Tensor) -> None:
        """Count for each class true positives, predicted and actual, of scores `output` and classes
        `target`."""
        n = output.shape[1]
        target, kept = class_numbers(self.name, target, n, self.ignore_index)
        if self._ignores(n):
            target = target.where(kept, -1)
        predicted = output.argmax(1).where(kept, -1).reshape(-1)
        target = target.reshape(-1)
        hits = target.where(predicted == target, -1)
        self.count_bins("counts", pf.stack([hits, predicted, target]), n)

    @property
    def is_binary(self) -> bool:
        """Whether what was seen are binary answers."""
        return self.seen("counts").ndim == 2

    def answers(self, counts: Tensor) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        """True positives, predicted, actual and all, each (), of binary counts."""
        actual, every, outside = counts[:3]
        tp, predicted = counts[-2:].where(outside > 0, counts[3:5])
        return tp, predicted, actual, every


class Accuracy(_Counts):
    """The share of targets that the outputs name.

    Of several classes outputs are (N, C, *) and targets class numbers (N, *). The largest output
    counts, so that logits, probabilities and their logarithms do. Of two, outputs are scores (N,),
    (N, 1) or (N, 1, *), and targets as many of 0 or 1.

    Args:
        top_k: a class counts as named if it is among the k largest outputs; of equal ones the first
            are.
        task: "binary" or "multiclass", where shapes leave it open: of outputs and targets that are
            both (N, L) for L yes-or-no answers. None goes by the shapes.
        threshold: the probability above which a score counts as "yes"; the logit of 0.5 is 0.
        probabilities: whether scores are probabilities, True, or logits, False. None takes them for
            probabilities if all that were seen since `reset` lie within 0 and 1.
        ignore_index: targets of this value count nowhere; None for none.

    Raises:
        ValueError: an option or the shapes of a batch don't fit.
        IndexError: a class number is out of range; on a GPU when a value is next read.

    >>> metric = pf.metrics.Accuracy()
    >>> metric.update(pf.tensor([0.9, 0.8, 0.7, 0.2]), pf.tensor([1, 0, 1, 0]))
    >>> metric.compute()
    tensor(0.7500)
    """

    def __init__(self, top_k: int = 1, **options: Any) -> None:
        if isinstance(top_k, bool) or not isinstance(top_k, int) or top_k < 1:
            raise ValueError(f"accuracy: top_k must be a positive int, got {top_k!r}")
        super().__init__(**options)
        self.top_k = top_k
        if top_k > 1:
            self.name = f"top{top_k}_accuracy"
        self.later_counts("hits", "hits_high", "targets", "targets_high")

    def multiclass(self, output: Tensor, target: Tensor) -> None:
        """Count hits and all of scores `output` and classes `target`."""
        target, kept = class_numbers(self.name, target, output.shape[1], self.ignore_index)
        if self.top_k == 1:
            hits = output.argmax(1) == target
        else:
            hits = self._among(output, target.unsqueeze(1))
        if self._ignores(output.shape[1]):
            hits = hits & kept
        self.count("hits", hits.sum(), output)
        self.count("targets", kept.sum(), output)

    def _among(self, output: Tensor, target: Tensor) -> Tensor:
        """Whether fewer than k others stand before the target's output; nan never is."""
        shape = (-1, *(1,) * (output.ndim - 2))
        classes = pf.arange(output.shape[1], device=output.device).reshape(shape)
        own = output.masked_fill(classes != target, -math.inf).amax(1, keepdim=True)
        after = (output < own) | ((output == own) & (classes >= target))
        return (~after).sum(1) < self.top_k

    def compute(self) -> Tensor:
        """(): nan where nothing was seen."""
        if is_lazy(self.counts):
            return self.total("hits") / self.total("targets")
        tp, predicted, actual, every = self.answers(self.total("counts"))
        return (every - predicted - actual + 2 * tp) / every


class _Averaged(_Counts):
    """A quotient of counts; of classes the average."""

    def __init__(self, average: str | None = "macro", **options: Any) -> None:
        super().__init__(**options)
        check_choice(self.name, "average", average, "macro", "micro", "weighted", None)
        self.average = average

    def of(self, tp: Tensor, predicted: Tensor, actual: Tensor) -> Tensor:
        """The quotient of counts (C,): of hits `tp`, of `predicted` and of `actual` ones."""
        raise NotImplementedError

    def compute(self) -> Tensor:
        """(), or (C,) for average=None; 0 where it would be 0 / 0."""
        counts = self.total("counts")
        if self.is_binary:
            return self.of(*self.answers(counts)[:3])
        tp, predicted, actual = counts
        if self.average == "micro":
            return self.of(tp.sum(), predicted.sum(), actual.sum())
        found = self.of(tp, predicted, actual)
        if self.average is None:
            return found
        weights = actual if self.average == "weighted" else (predicted + actual > 0).float()
        return ratio((found * weights).sum(), weights.sum())


class Precision(_Averaged):
    """True positives / predicted positives, 0 where there are none. As scikit-learn's. Outputs and
    targets are Accuracy's.

    >>> metric = pf.metrics.Precision()
    >>> metric.update(pf.tensor([0.9, 0.8, 0.7, 0.2]), pf.tensor([1, 0, 1, 0]))
    >>> metric.compute()
    tensor(0.6667)
    """

    def of(self, tp: Tensor, predicted: Tensor, actual: Tensor) -> Tensor:
        """See the class."""
        return ratio(tp, predicted)


class Recall(_Averaged):
    """True positives / actual positives, 0 where there are none. Outputs and targets are
    Accuracy's.

    >>> metric = pf.metrics.Recall()
    >>> metric.update(pf.tensor([0.9, 0.8, 0.7, 0.2]), pf.tensor([1, 0, 1, 0]))
    >>> metric.compute()
    tensor(1.)
    """

    def of(self, tp: Tensor, predicted: Tensor, actual: Tensor) -> Tensor:
        """See the class."""
        return ratio(tp, actual)


class F1(_Averaged):
    """2 · true positives / (predicted + actual positives), the harmonic mean of precision and
    recall. Outputs and targets are Accuracy's.

    >>> metric = pf.metrics.F1()
    >>> metric.update(pf.tensor([0.9, 0.8, 0.7, 0.2]), pf.tensor([1, 0, 1, 0]))
    >>> metric.compute()
    tensor(0.8000)
    """

    def of(self, tp: Tensor, predicted: Tensor, actual: Tensor) -> Tensor:
        """See the class."""
        return ratio(2 * tp, predicted + actual)


class IoU(_Averaged):
    """Intersection over union, true positives / (predicted or actual), also called the Jaccard
    index: of masks, with outputs (N, C, H, W) and class numbers (N, H, W), or (N, 1, H, W) and
    masks of 0 and 1.

    >>> metric = pf.metrics.IoU()
    >>> metric.update(pf.tensor([0.9, 0.8, 0.7, 0.2]), pf.tensor([1, 0, 1, 0]))
    >>> metric.compute()
    tensor(0.6667)
    """

    def of(self, tp: Tensor, predicted: Tensor, actual: Tensor) -> Tensor:
        """See the class."""
        return ratio(tp, predicted + actual - tp)


class ConfusionMatrix(_Counts):
    """How often each class (row) was taken for each (column): (C, C), or (2, 2) if binary. Outputs
    and targets are Accuracy's.

    Args:
        normalize: "true" makes each row shares of its targets, "pred" each column shares of the
            predictions, "all" all of them shares; None leaves counts, int64.

    >>> metric = pf.metrics.ConfusionMatrix()
    >>> metric.update(pf.tensor([0.9, 0.8, 0.7, 0.2]), pf.tensor([1, 0, 1, 0]))
    >>> metric.compute().tolist()
    [[1, 1], [0, 2]]
    """

    higher_is_better = None

    def __init__(self, normalize: str | None = None, **options: Any) -> None:
        super().__init__(**options)
        check_choice(self.name, "normalize", normalize, "true", "pred", "all", None)
        self.normalize = normalize

    def multiclass(self, output: Tensor, target: Tensor) -> None:
        """Count (C, C), of scores `output` and classes `target`."""
        n = output.shape[1]
        target, kept = class_numbers(self.name, target, n, self.ignore_index)
        cell = (target * n + output.argmax(1)).where(kept, -1)
        self.count_bins("counts", cell.reshape(1, -1), n * n)

    def compute(self) -> Tensor:
        """(C, C)."""
        if self.normalize is None:
            return self._whole()
        counts = self._whole().float()
        dims = {"true": (1,), "pred": (0,), "all": (0, 1)}[self.normalize]
        return ratio(counts, counts.sum(dims, keepdim=True))

    def _whole(self) -> Tensor:
        counts = self.total("counts", pf.int64)
        if not self.is_binary:
            n = math.isqrt(counts.shape[1])
            return counts.reshape(n, n)
        tp, predicted, actual, every = self.answers(counts)
        no = every - predicted - actual + tp
        return pf.stack([no, predicted - tp, actual - tp, tp]).reshape(2, 2)


class Perplexity(RunningMean):
    """exp of the mean cross-entropy: outputs (N, C, *), logits, and class numbers (N, *). C is what
    choosing among all classes at random gives.

    Args:
        ignore_index: targets of this value count nowhere.

    >>> metric = pf.metrics.Perplexity()
    >>> metric.update(pf.zeros(3, 8), pf.tensor([0, 5, 7]))
    >>> metric.compute()
    tensor(8.)
    """

    higher_is_better = False
    counted = "targets"

    def __init__(self, ignore_index: int = -100) -> None:
        super().__init__()
        self.ignore_index = ignore_index

    def update(self, output: Tensor, target: Tensor) -> None:
        """Take logits and class numbers in."""
        task_of(self.name, output, target, "multiclass")
        found = F.cross_entropy(
            output.float(), target, ignore_index=self.ignore_index, reduction="sum"
        )
        self.add(found, (target != self.ignore_index).sum(), output)

    def compute(self) -> Tensor:
        """(): nan where nothing was seen."""
        return super().compute().exp()
