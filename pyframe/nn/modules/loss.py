"""Losses, and distances.

`size_average` and `reduce` are deprecated names of what `reduction` says: 'mean', 'sum' or 'none'.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable
from typing import Any

from pyframe.nn import functional as F
from pyframe.nn.functional.loss import LinearCrossEntropyOptions, reduction_of
from pyframe.nn.modules.fields import FieldModule, layer
from pyframe.nn.modules.linear import Linear
from pyframe.nn.modules.module import Module
from pyframe.tensor import Tensor

__all__ = [
    "BCELoss", "BCEWithLogitsLoss", "CTCLoss", "CosineEmbeddingLoss", "CosineSimilarity",
    "CrossEntropyLoss", "GaussianNLLLoss", "HingeEmbeddingLoss", "HuberLoss", "KLDivLoss", "L1Loss",
    "LinearCrossEntropyLoss", "LinearCrossEntropyOptions", "MSELoss", "MarginRankingLoss",
    "MultiLabelMarginLoss", "MultiLabelSoftMarginLoss", "MultiMarginLoss", "NLLLoss", "NLLLoss2d",
    "PairwiseDistance", "PoissonNLLLoss", "SmoothL1Loss", "SoftMarginLoss", "TripletMarginLoss",
    "TripletMarginWithDistanceLoss",
]  # fmt: skip


class PairwiseDistance(Module):
    """The distance of vectors in a p-norm: (Σ |x1 - x2 + eps|^p)^(1/p) over the last dim.

    Two tensors (*, D) that broadcast give (*).

    Args:
        p: the norm's exponent, also negative or inf.
        eps: added to each difference, so that the gradient at equal vectors is finite.
        keepdim: whether the last dim stays, with size 1.

    >>> nn.PairwiseDistance()(pf.tensor([[0.0, 0.0]]), pf.tensor([[3.0, 4.0]]))
    tensor([5.0000])
    """

    def __init__(self, p: float = 2.0, eps: float = 1e-6, keepdim: bool = False) -> None:
        super().__init__()
        self.norm, self.eps, self.keepdim = p, eps, keepdim

    def forward(self, x1: Tensor, x2: Tensor) -> Tensor:
        """(*, D) and (*, D) -> (*), or (*, 1) with keepdim.

        Args:
            x1, x2: the vectors.
        """
        return F.pairwise_distance(x1, x2, self.norm, self.eps, self.keepdim)


@layer()
class CosineSimilarity(FieldModule):
    """The cosine of the angle between vectors: x1 · x2 / (max(‖x1‖, eps) · max(‖x2‖, eps)).

    Tensors whose shapes broadcast give that shape without `dim`.

    Args:
        dim: the dim that a vector lies in.
        eps: the least norm that is divided by.

    >>> nn.CosineSimilarity()(pf.tensor([[1.0, 0.0]]), pf.tensor([[1.0, 1.0]]))
    tensor([0.7071])
    """

    dim: int = 1
    eps: float = 1e-8
    __shown__ = ()

    def forward(self, x1: Tensor, x2: Tensor) -> Tensor:
        """Shapes that broadcast, D in `dim` -> their shape without it.

        Args:
            x1, x2: the vectors.
        """
        return F.cosine_similarity(x1, x2, self.dim, self.eps)


_OLD = "elementwise_mean"  # what nn.functional still takes, with a warning


class _Loss(FieldModule):
    """What all losses share. ValueError for an unknown reduction."""

    reduction: str
    _reductions: tuple[str, ...] = ("mean", "sum", "none")
    __passing__ = ("size_average", "reduce")
    __shown__ = ()

    def __init__(
        self, size_average: Any = None, reduce: Any = None, reduction: str = "mean"
    ) -> None:
        self._set_fields(locals())

    def _set_fields(self, given: dict[str, Any]) -> None:
        name, reduction = type(self).__name__, given["reduction"]
        size_average, reduce = map(given.get, self.__passing__)
        wrong = [x for x in (size_average, reduce) if isinstance(x, str) or hasattr(x, "__array__")]
        if wrong:
            raise TypeError(
                f"{name}: got {len(wrong)} positional argument{'s' if len(wrong) > 1 else ''}, "
                "expected its options by their names (reduction='sum'); the loss of a prediction "
                f"is nn.{name}()(input, target)"
            )
        old = reduction_of(size_average, reduce, 3)
        if old is None and reduction not in (*self._reductions, _OLD):
            *names, last = map(repr, self._reductions)
            raise ValueError(
                f"{name}: {reduction} is not a valid value for reduction; use "
                f"{', '.join(names)} or {last}"
            )
        super()._set_fields(given)
        self.reduction = old or reduction

    def divisor(self, input: Tensor, target: Tensor) -> Tensor | int | None:
        """What the sum over a batch is divided by, so that of the losses of several batches that of
        all can be made: a number or a tensor (); None where `reduction` is 'sum'.

        Args:
            input, target: as of a call.

        >>> nn.CrossEntropyLoss().divisor(pf.zeros(3, 2), pf.tensor([1, -100, 0]))
        tensor(2.)
        """
        return None if self.reduction == "sum" else self._count(input, target)

    def _count(self, input: Tensor, target: Tensor) -> Tensor | int:
        """How many numbers there are to take the mean of."""
        return max(input.numel(), target.numel())  # one may broadcast


class _OfTarget(_Loss):
    """A loss of an input and a target."""

    def forward(self, input: Tensor, target: Tensor) -> Tensor:
        """`target` of the input's shape -> a scalar, or that shape for reduction='none'."""
        raise NotImplementedError


@layer()
class _Plain(_OfTarget):
    """A loss without a weight, whose options begin with those of all."""

    size_average: Any = None
    reduce: Any = None
    reduction: str = "mean"
    __init__ = _Loss.__init__


@layer()
class _WeightedLoss(_OfTarget):
    """A loss with a weight for each class or element: a buffer."""

    weight: Tensor | None = None
    size_average: Any = None
    reduce: Any = None
    reduction: str = "mean"


class _OfRows(_Loss):
    """A loss with one number for each sample, whose numbers lie in the last dim of the input."""

    def _count(self, input: Tensor, target: Tensor) -> Tensor | int:
        return math.prod(input.shape[:-1])


class _OfClasses(_WeightedLoss):
    """A loss of class numbers, which may be ignored."""

    ignore_index: int | None

    def _count(self, input: Tensor, target: Tensor) -> Tensor | int:
        if target.is_floating_point():
            return target.numel() // target.shape[1 if target.ndim > 1 else 0]
        ignored = -100 if self.ignore_index is None else self.ignore_index
        target = target.long()
        kept = target != ignored
        if self.weight is None:
            return kept.float().sum()
        return (self.weight[target.where(kept, 0)] * kept).sum()


# --- numbers


@layer(F.l1_loss)
class L1Loss(_Plain):
    """The mean absolute error: the mean of |input - target|, tensors of one shape.

    >>> nn.L1Loss()(pf.tensor([1.0, 2.0]), pf.tensor([1.0, 5.0]))
    tensor(1.5000)
    """


@layer(F.mse_loss)
class MSELoss(_Plain):
    """The mean squared error: the mean of (input - target)², tensors of one shape.

    >>> nn.MSELoss()(pf.tensor([1.0, 2.0]), pf.tensor([1.0, 5.0]))
    tensor(4.5000)
    """


@layer(F.smooth_l1_loss)
class SmoothL1Loss(_Plain):
    """Squares near 0, and lines beyond: with d = |input - target|, the mean of d² / (2 beta) where
    d < beta, else of d - beta / 2 (arXiv 1504.08083).

    Args:
        beta: where the line begins, at least 0; at 0 this is L1Loss.

    Raises:
        RuntimeError: `beta` is negative.

    >>> nn.SmoothL1Loss(reduction="none")(pf.tensor([0.5, 3.0]), pf.zeros(2))
    tensor([0.1250, 2.5000])
    """

    beta: float = 1.0


@layer(F.huber_loss)
class HuberLoss(_Plain):
    """Squares near 0, and lines beyond: with d = |input - target|, the mean of d² / 2 where d <=
    delta, else of delta (d - delta / 2). It is `delta` times SmoothL1Loss with that beta.

    Args:
        delta: where the line begins, above 0.

    Raises:
        TypeError, RuntimeError: `delta` is no number, or not above 0.

    >>> nn.HuberLoss(reduction="none", delta=2.0)(pf.tensor([0.5, 3.0]), pf.zeros(2))
    tensor([0.1250, 4.0000])
    """

    delta: float = 1.0

    def __init__(self, reduction: str = "mean", delta: float = 1.0) -> None:
        if not isinstance(delta, (float, int)):
            raise TypeError(f"HuberLoss: delta must be a float or int, got {type(delta).__name__}")
        self._set_fields(locals())


@layer(F.kl_div)
class KLDivLoss(_Plain):
    """The Kullback-Leibler divergence: target * (log(target) - input), `input` being
    log-probabilities.

    Both have one shape. The mean over all elements is not the divergence: that is
    `reduction="batchmean"`.

    Args:
        reduction: 'mean', 'sum', 'batchmean' for the sum divided by the size of dim 0, or 'none'
            for each element.
        log_target: whether `target` is given as its logarithm.

    >>> logp = pf.tensor([[0.5, 0.5]]).log()
    >>> nn.KLDivLoss(reduction="batchmean")(logp, pf.tensor([[1.0, 0.0]]))
    tensor(0.6931)
    """

    log_target: bool = False
    _reductions = ("mean", "batchmean", "sum", "none")

    def _count(self, input: Tensor, target: Tensor) -> Tensor | int:
        rows = self.reduction == "batchmean" and input.ndim > 0
        return input.shape[0] if rows else super()._count(input, target)


class PoissonNLLLoss(_Loss):
    """-log of the probability of counts under a Poisson distribution: the mean of exp(input) -
    target * input, without the term of the target alone.

    Args:
        log_input: whether `input` is the logarithm of the rate. Else it is the rate itself, and the
            loss is input - target * log(input + eps).
        full: whether to add Stirling's approximation of log(target!), where target > 1.
        eps: what keeps the logarithm finite.

    >>> nn.PoissonNLLLoss()(pf.tensor([0.0, 1.0]), pf.tensor([1.0, 3.0]))
    tensor(0.3591)
    """

    def __init__(
        self, log_input: bool = True, full: bool = False, size_average: Any = None,
        eps: float = 1e-8, reduce: Any = None, reduction: str = "mean",
    ) -> None:  # fmt: skip
        super().__init__(size_average, reduce, reduction)
        self.log_input, self.full, self.eps = log_input, full, eps

    def forward(self, log_input: Tensor, target: Tensor) -> Tensor:
        """Equal shapes -> a scalar, or the same shape for reduction='none'.

        Args:
            target: the counts.
        """
        return F.poisson_nll_loss(
            log_input, target, log_input=self.log_input, full=self.full, eps=self.eps,
            reduction=self.reduction,
        )  # fmt: skip


class GaussianNLLLoss(_Loss):
    """-log of the density of `target` under normal distributions of mean `input` and variance
    `var`: the mean of (log(var) + (input - target)² / var) / 2.

    Called as loss(input, target, var). `input` and `target` have one shape, `var` that one too, or
    1 in its last dim, or without it; a number is for all.

    Args:
        full: whether to add the constant log(2 π) / 2.
        eps: the least variance; smaller ones count as this one.

    Raises:
        ValueError: a variance is negative, or its shape doesn't fit.

    >>> nn.GaussianNLLLoss()(pf.tensor([1.0, 2.0]), pf.tensor([1.0, 4.0]), pf.ones(2))
    tensor(1.)
    """

    def __init__(self, *, full: bool = False, eps: float = 1e-6, reduction: str = "mean") -> None:
        super().__init__(reduction=reduction)
        self.full, self.eps = full, eps

    def forward(self, input: Tensor, target: Tensor, var: Tensor | float) -> Tensor:
        """Equal shapes (var may have 1 in the last dim, or lack it) -> a scalar, or that shape."""
        return F.gaussian_nll_loss(
            input, target, var, full=self.full, eps=self.eps, reduction=self.reduction
        )


# --- two classes


@layer(
    F.binary_cross_entropy,
    "Equal shapes, from 0 to 1 -> a scalar, or the same shape for reduction='none'.",
)
class BCELoss(_WeightedLoss):
    """The cross-entropy of two classes: the mean of -(y log(p) + (1 - y) log(1 - p)) for
    probabilities p = `input` and targets y, tensors of one shape with values from 0 to 1.

    Logarithms are never less than -100, so that p = 0 and p = 1 have a finite loss. Where p is
    sigmoid(x), BCEWithLogitsLoss of x is exact for all x.

    Args:
        weight: a tensor that the losses are multiplied by; its shape broadcasts to theirs.

    Raises:
        ValueError: when called with two shapes.
        RuntimeError: when called with values outside 0 to 1; on a GPU when a value is next read.

    >>> nn.BCELoss()(pf.tensor([0.5, 0.75]), pf.tensor([1.0, 0.0]))
    tensor(1.0397)
    """


@layer(F.binary_cross_entropy_with_logits)
class BCEWithLogitsLoss(_WeightedLoss):
    """The cross-entropy of two classes, from scores: BCELoss of sigmoid(input), without overflow.

    `input` is any real number for each element, `target` from 0 to 1, both of one shape.

    Args:
        weight: a tensor that the losses are multiplied by; its shape broadcasts to theirs.
        pos_weight: a tensor that multiplies what the targets of 1 add, (C,) for (N, C): above 1 for
            classes that are rare and shall be found more often.

    >>> nn.BCEWithLogitsLoss()(pf.tensor([0.0, 2.0]), pf.tensor([1.0, 1.0]))
    tensor(0.4100)
    """

    pos_weight: Tensor | None = None


@layer(F.soft_margin_loss)
class SoftMarginLoss(_Plain):
    """The mean of log(1 + exp(-target * input)) over tensors of one shape; targets are 1 or -1.

    >>> nn.SoftMarginLoss()(pf.tensor([0.0, 2.0]), pf.tensor([1.0, -1.0]))
    tensor(1.4100)
    """


@layer()
class _Margin(_Loss):
    margin: float = 0.0
    size_average: Any = None
    reduce: Any = None
    reduction: str = "mean"


@layer(F.hinge_embedding_loss)
class HingeEmbeddingLoss(_Margin, _OfTarget):
    """The mean of a distance, `input`, of what belongs together (target 1), and of
    max(0, margin - input) of what doesn't (target -1).

    Args:
        margin: from which distance on what doesn't belong together costs nothing.

    >>> nn.HingeEmbeddingLoss()(pf.tensor([0.5, 0.25]), pf.tensor([1, -1]))
    tensor(0.6250)
    """

    margin: float = 1.0


class CosineEmbeddingLoss(_Margin):
    """The mean of 1 - cos(x1, x2) of what belongs together (target 1), and of max(0, cos - margin)
    of what doesn't (target -1).

    Called as loss(x1, x2, target), of shapes (N, D), (N, D) and (N,), or all without N.

    Args:
        margin: up to which cosine what doesn't belong together costs nothing, from -1 to 1.

    >>> a, b = pf.tensor([[1.0, 0.0]]), pf.tensor([[0.0, 1.0]])
    >>> nn.CosineEmbeddingLoss()(a, b, pf.tensor([1]))
    tensor(1.)
    """

    def forward(self, input1: Tensor, input2: Tensor, target: Tensor) -> Tensor:
        """(N, D), (N, D) and (N,), or all without N -> a scalar, or (N,).

        Args:
            input1, input2: what is compared.
            target: 1 or -1, as the class says.
        """
        return F.cosine_embedding_loss(
            input1, input2, target, margin=self.margin, reduction=self.reduction
        )


class MarginRankingLoss(_Margin):
    """Which of two scores is larger: the mean of max(0, -target * (input1 - input2) + margin).

    Called as loss(input1, input2, target), tensors of one shape. Target 1 says that the first score
    shall be larger, -1 that the second one shall.

    Args:
        margin: by how much the scores have to differ so as to cost nothing.

    >>> nn.MarginRankingLoss()(pf.tensor([1.0, 1.0]), pf.tensor([3.0, 0.0]), pf.tensor([1, 1]))
    tensor(1.)
    """

    def forward(self, input1: Tensor, input2: Tensor, target: Tensor) -> Tensor:
        """Equal shapes -> a scalar, or the same shape for reduction='none'.

        Args:
            input1, input2: what is compared.
            target: 1 or -1, as the class says.
        """
        return F.margin_ranking_loss(
            input1, input2, target, margin=self.margin, reduction=self.reduction
        )


class TripletMarginLoss(_Loss):
    """An anchor shall be nearer to a positive than to a negative example: the mean of max(0,
    d(anchor, positive) - d(anchor, negative) + margin), d the p-norm of the difference.

    Called as loss(anchor, positive, negative), each (N, D) or (D,).

    Args:
        margin: how much nearer it has to be so as to cost nothing, above 0.
        p: the norm's exponent.
        eps: added to each difference, so that the gradient at equal vectors is finite.
        swap: whether d(positive, negative) is taken where it is the smaller of the two distances.

    Raises:
        ValueError: `margin` is not above 0.

    >>> a, near, far = pf.zeros(1, 2), pf.tensor([[0.0, 1.0]]), pf.tensor([[1.5, 0.0]])
    >>> nn.TripletMarginLoss()(a, near, far)
    tensor(0.5000)
    """

    def __init__(
        self, margin: float = 1.0, p: float = 2.0, eps: float = 1e-6, swap: bool = False,
        size_average: Any = None, reduce: Any = None, reduction: str = "mean",
    ) -> None:  # fmt: skip
        super().__init__(size_average, reduce, reduction)
        _positive(self, margin)
        self.margin, self.p, self.eps, self.swap = margin, p, eps, swap

    def forward(self, anchor: Tensor, positive: Tensor, negative: Tensor) -> Tensor:
        """Three of (N, D) or (D,) -> a scalar, or (N,) for reduction='none'.

        Args:
            anchor, positive, negative: what is to be near the second and far from the third.
        """
        return F.triplet_margin_loss(
            anchor, positive, negative, margin=self.margin, p=self.p, eps=self.eps,
            swap=self.swap, reduction=self.reduction,
        )  # fmt: skip


class TripletMarginWithDistanceLoss(_Loss):
    """TripletMarginLoss of any distance: the mean of max(0, d(anchor, positive) -
    d(anchor, negative) + margin).

    Called as loss(anchor, positive, negative), three tensors that the distance takes.

    Args:
        distance_function: a function of two tensors that gives a distance for each sample; None is
            PairwiseDistance().
        margin: how much nearer the positive has to be so as to cost nothing, above 0.
        swap: whether d(positive, negative) is taken where it is the smaller of the two distances.
        reduction: 'mean', 'sum', or 'none' for each sample's own loss.

    >>> city = lambda x, y: (x - y).abs().sum(-1)
    >>> loss = nn.TripletMarginWithDistanceLoss(distance_function=city)
    >>> loss(pf.zeros(1, 2), pf.tensor([[1.0, 1.0]]), pf.tensor([[0.5, 2.0]]))
    tensor(0.5000)
    """

    def __init__(
        self, *, distance_function: Callable[[Tensor, Tensor], Tensor] | None = None,
        margin: float = 1.0, swap: bool = False, reduction: str = "mean",
    ) -> None:  # fmt: skip
        super().__init__(reduction=reduction)
        _positive(self, margin)
        given = distance_function
        self.distance_function: Any = PairwiseDistance() if given is None else given
        self.margin, self.swap = margin, swap

    def forward(self, anchor: Tensor, positive: Tensor, negative: Tensor) -> Tensor:
        """Three equal shapes -> a scalar, or the distances' shape for reduction='none'.

        Args:
            anchor, positive, negative: what is to be near the second and far from the third.
        """
        return F.triplet_margin_with_distance_loss(
            anchor, positive, negative, distance_function=self.distance_function,
            margin=self.margin, swap=self.swap, reduction=self.reduction,
        )  # fmt: skip


def _positive(loss: Module, margin: float) -> None:
    if margin <= 0:
        raise ValueError(
            f"{type(loss).__name__}: expected margin to be greater than 0, got {margin} instead"
        )


# --- many classes


@layer(F.nll_loss, "A scalar, or (N, *) for reduction='none'.")
class NLLLoss(_OfClasses):
    """The negative log-likelihood: the mean of -input[target] over samples.

    `input` is log-probabilities (N, C, *) or (C,), as LogSoftmax gives them; `target` is ints
    (N, *) or (), from 0 to C - 1.

    Args:
        weight: a weight (C,) for each class. The mean is then Σ w[target] loss / Σ w[target].
        ignore_index: a target that costs nothing and isn't counted.

    Raises:
        IndexError: a target is out of range; on a GPU when a value is next read.

    >>> logp = pf.tensor([[0.5, 0.5], [0.25, 0.75]]).log()
    >>> nn.NLLLoss(reduction="none")(logp, pf.tensor([0, 1]))
    tensor([0.6931, 0.2877])
    """

    ignore_index: int = -100

    def __init__(
        self, weight: Tensor | None = None, size_average: Any = None, ignore_index: int = -100,
        reduce: Any = None, reduction: str = "mean",
    ) -> None:  # fmt: skip
        self._set_fields(locals())


class NLLLoss2d(NLLLoss):
    """An older name of NLLLoss, which takes input of any number of dims. It gives a FutureWarning.

    >>> issubclass(nn.NLLLoss2d, nn.NLLLoss)
    True
    """

    def __init__(
        self, weight: Tensor | None = None, size_average: Any = None, ignore_index: int = -100,
        reduce: Any = None, reduction: str = "mean",
    ) -> None:  # fmt: skip
        warnings.warn(
            "`NLLLoss2d` has been deprecated. Please use `NLLLoss` instead, which takes the same "
            "arguments.",
            FutureWarning,
            stacklevel=2,
        )
        super().__init__(weight, size_average, ignore_index, reduce, reduction)


@layer(F.cross_entropy, "A scalar, or (N, *) for reduction='none'.")
class CrossEntropyLoss(_OfClasses):
    """The cross-entropy of classes, from scores: the mean of -log(softmax(input))[target].

    `input` is any scores (N, C, *) or (C,). `target` is the ints of the classes, (N, *) or (), or
    floats of input's shape, a probability for each class; then the loss is -Σ target *
    log(softmax(input)) over the classes.

    Args:
        weight: a weight (C,) for each class. With ints the mean is Σ w[target] loss / Σ w[target].
        ignore_index: a target that costs nothing and isn't counted; for ints alone.
        label_smoothing: the share, from 0 to 1, of the target that is spread over all classes
            evenly (arXiv 1512.00567).

    Raises:
        IndexError: an int is out of range; on a GPU when a value is next read.
        RuntimeError, ValueError: shapes don't fit.

    >>> scores = pf.tensor([[2.0, 0.0], [0.0, 0.0]])
    >>> nn.CrossEntropyLoss()(scores, pf.tensor([0, 1]))
    tensor(0.4100)
    """

    ignore_index: int = -100
    label_smoothing: float = 0.0

    def __init__(
        self, weight: Tensor | None = None, size_average: Any = None, ignore_index: int = -100,
        reduce: Any = None, reduction: str = "mean", label_smoothing: float = 0.0,
    ) -> None:  # fmt: skip
        self._set_fields(locals())


class LinearCrossEntropyLoss(_OfClasses):
    """CrossEntropyLoss of a linear layer of its own, the last one of a net.

    `input` is (N, in_features) or (in_features,); scores are (N, num_classes, *out_features).
    `target` is ints (N, *out_features) or probabilities of the scores' shape.

    Args:
        in_features: the number of features of the input.
        num_classes: the number C of classes.
        out_features: further dims, where each sample has a class for each of several places.
        bias: whether the layer has one.
        reduction: 'mean', 'sum', or 'none' for each target's own loss.
        weight: a weight (num_classes,) for each class.
        ignore_index: a target that costs nothing; None for -100, as it must be with probabilities.
        label_smoothing: the share, from 0 to 1, of the target that is spread over all classes.
        options: a hint on memory; it changes nothing.

    Attributes:
        linear: the Linear layer, whose weight has num_classes * prod(out_features) rows.

    >>> loss = nn.LinearCrossEntropyLoss(8, 10)
    >>> loss(pf.randn(4, 8), pf.tensor([1, 0, 9, 3])).shape, loss.linear.weight.shape
    (pyframe.Size([]), pyframe.Size([10, 8]))
    """

    def __init__(
        self, in_features: int, num_classes: int, *, out_features: tuple[int, ...] = (),
        bias: bool = False, device: Any = None, dtype: Any = None, reduction: str = "mean",
        weight: Tensor | None = None, ignore_index: int | None = None,
        label_smoothing: float = 0.0, options: LinearCrossEntropyOptions | None = None,
    ) -> None:  # fmt: skip
        if weight is not None and tuple(weight.shape) != (num_classes,):
            raise RuntimeError(
                f"LinearCrossEntropyLoss: expected weight shape to be {(num_classes,)}, got "
                f"{tuple(weight.shape)}"
            )
        if not 0 <= label_smoothing <= 1:
            raise RuntimeError(
                "LinearCrossEntropyLoss: expected label_smoothing to be in range [0, 1], got "
                f"{label_smoothing}"
            )
        super().__init__(weight, reduction=reduction)
        self.num_classes, self.out_features = num_classes, out_features
        self.ignore_index, self.label_smoothing = ignore_index, label_smoothing
        rows = math.prod(out_features, start=num_classes)
        self.linear = Linear(in_features, rows, bias, device, dtype)
        self.options = options

    def forward(self, input: Tensor, target: Tensor) -> Tensor:
        """input (N, in_features) or (in_features,), target class ints (N, *out_features) or
        probabilities (N, num_classes, *out_features) -> a scalar, or the shape of the ints."""
        rows = (self.num_classes, *self.out_features)
        weight, bias = self.linear.weight, self.linear.bias
        return F.linear_cross_entropy(
            input, weight.reshape((*rows, self.linear.in_features)), target,
            linear_bias=None if bias is None else bias.reshape(rows), weight=self.weight,
            reduction=self.reduction, ignore_index=self.ignore_index,
            label_smoothing=self.label_smoothing, options=self.options,
        )  # fmt: skip

    def extra_repr(self) -> str:
        names = ("num_classes", "out_features", "bias", "reduction", "ignore_index",
                 "label_smoothing", "options")  # fmt: skip
        fields = {**vars(self), "bias": self.linear.bias is not None}
        text = ", ".join(f"{name}={fields[name]}" for name in names)
        return f"in_features={self.linear.in_features}, {text}"


@layer(F.multi_margin_loss, "(N, C) or (C,), ints (N,) or () -> a scalar, or target's shape.")
class MultiMarginLoss(_OfRows, _WeightedLoss):
    """The right class shall lead the others by a margin: for each sample Σ over i != y of
    max(0, margin - x[y] + x[i])^p / C.

    `input` x is (N, C) or (C,), `target` y is ints (N,) or ().

    Args:
        p: 1 or 2.
        margin: by how much it has to lead so as to cost nothing.
        weight: a weight (C,) for each class; a sample's loss is multiplied by that of its target.

    Raises:
        ValueError: `p` is neither 1 nor 2.

    >>> nn.MultiMarginLoss()(pf.tensor([[0.0, 0.5, 2.0]]), pf.tensor([1]))
    tensor(1.)
    """

    p: int = 1
    margin: float = 1.0

    def __init__(
        self, p: int = 1, margin: float = 1.0, weight: Tensor | None = None,
        size_average: Any = None, reduce: Any = None, reduction: str = "mean",
    ) -> None:  # fmt: skip
        self._set_fields(locals())

    def _check_fields(self) -> None:
        if self.p not in (1, 2):
            raise ValueError(f"MultiMarginLoss: only p == 1 and p == 2 supported, got {self.p}")
        if self.weight is not None and self.weight.ndim != 1:
            raise ValueError(
                "MultiMarginLoss: expected weight to be None or 1D tensor, got "
                f"{self.weight.ndim}D instead"
            )


@layer(F.multilabel_margin_loss, "(N, C) or (C,), ints of that shape -> a scalar, or (N,).")
class MultiLabelMarginLoss(_OfRows, _Plain):
    """Each class of a sample shall lead all others by 1: for each sample the sum over classes j
    that it has, and i that it hasn't, of max(0, 1 - x[j] + x[i]) / C.

    `input` x is (N, C) or (C,). `target` is ints of that shape, a row of which lists the classes of
    a sample and ends at the first -1.

    >>> x = pf.tensor([[0.0, 0.5, 2.0]])
    >>> nn.MultiLabelMarginLoss()(x, pf.tensor([[2, 1, -1]]))
    tensor(0.1667)
    """


@layer(F.multilabel_soft_margin_loss, "(N, C), targets of that shape, 0 or 1 -> a scalar, or (N,).")
class MultiLabelSoftMarginLoss(_OfRows, _WeightedLoss):
    """Any number of classes for a sample: BCEWithLogitsLoss, the mean of which over the C classes
    is a sample's loss. `input` and `target`, 0 or 1, are (N, C).

    Args:
        weight: a weight (C,) for each class.

    >>> nn.MultiLabelSoftMarginLoss()(pf.zeros(1, 3), pf.tensor([[1.0, 0.0, 1.0]]))
    tensor(0.6931)
    """


class CTCLoss(_Loss):
    """Connectionist temporal classification: -log of the probability of a sequence of labels, added
    up over all ways to align it with a longer input (Graves et al. 2006).

    Called as loss(log_probs, targets, input_lengths, target_lengths): log-probabilities (T, N, C)
    of each class at each time, ints (N, S) without blanks or all of them in one row, and lengths
    (N,). Or (T, C), (S,) and two numbers for one sequence. Its gradient is right for
    log-probabilities that log_softmax gives.

    Args:
        blank: the class that stands for no label.
        reduction: 'sum', 'none' for each sequence's own loss, or 'mean', which divides each by its
            target's length first.
        zero_infinity: whether a target too long for its input counts 0 instead of inf.

    >>> logp = pf.full((2, 1, 2), 0.5).log()
    >>> nn.CTCLoss()(logp, pf.tensor([[1]]), pf.tensor([2]), pf.tensor([1]))
    tensor(0.2877)
    """

    def __init__(
        self, blank: int = 0, reduction: str = "mean", zero_infinity: bool = False
    ) -> None:
        super().__init__(reduction=reduction)
        self.blank, self.zero_infinity = blank, zero_infinity

    def forward(
        self, log_probs: Tensor, targets: Tensor, input_lengths: Any, target_lengths: Any
    ) -> Tensor:
        """log_probs (T, N, C), ints targets (N, S) or all in one, lengths (N,) -> a scalar, or
        (N,). 'mean' divides each loss by its target's length first.

        Args:
            log_probs, targets: log-probabilities, and classes.
            input_lengths, target_lengths: how much of T, and of S, counts: ints (N,).
        """
        return F.ctc_loss(
            log_probs, targets, input_lengths, target_lengths, self.blank, self.reduction,
            self.zero_infinity,
        )  # fmt: skip
