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
from pyframe.nn.modules.fields import Layer, layer
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
    """||x1 - x2 + eps||_p over the last dim."""

    def __init__(self, p: float = 2.0, eps: float = 1e-6, keepdim: bool = False) -> None:
        super().__init__()
        self.norm, self.eps, self.keepdim = p, eps, keepdim

    def forward(self, x1: Tensor, x2: Tensor) -> Tensor:
        """(*, D) and (*, D) -> (*), or (*, 1) with keepdim."""
        return F.pairwise_distance(x1, x2, self.norm, self.eps, self.keepdim)


@layer()
class CosineSimilarity(Layer):
    """The cosine of the angle between two tensors over a dim, norms no less than eps."""

    dim: int = 1
    eps: float = 1e-8
    __shown__ = ()

    def forward(self, x1: Tensor, x2: Tensor) -> Tensor:
        """Shapes that broadcast, D in `dim` -> their shape without it."""
        return F.cosine_similarity(x1, x2, self.dim, self.eps)


_OLD = "elementwise_mean"  # what nn.functional still takes, with a warning


class _Loss(Layer):
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


class _OfTarget(_Loss):
    """A loss of an input and a target."""

    def forward(self, input: Tensor, target: Tensor) -> Tensor:
        """Equal shapes -> a scalar, or the same shape for reduction='none'."""
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


# --- numbers


@layer(F.l1_loss)
class L1Loss(_Plain):
    """The mean of |input - target|."""


@layer(F.mse_loss)
class MSELoss(_Plain):
    """The mean of (input - target)^2."""


@layer(F.smooth_l1_loss)
class SmoothL1Loss(_Plain):
    """The mean of d^2 / (2 beta) where d = |input - target| < beta, else of d - beta / 2."""

    beta: float = 1.0


@layer(F.huber_loss)
class HuberLoss(_Plain):
    """The mean of d^2 / 2 where d = |input - target| <= delta, else of delta (d - delta / 2)."""

    delta: float = 1.0

    def __init__(self, reduction: str = "mean", delta: float = 1.0) -> None:
        if not isinstance(delta, (float, int)):
            raise TypeError(f"HuberLoss: delta must be a float or int, got {type(delta).__name__}")
        self._set_fields(locals())


@layer(F.kl_div)
class KLDivLoss(_Plain):
    """The mean of target * (log(target) - input), of log-probabilities `input`; with `log_target`
    target is given as its logarithm. reduction 'batchmean' divides the sum by N."""

    log_target: bool = False
    _reductions = ("mean", "batchmean", "sum", "none")


class PoissonNLLLoss(_Loss):
    """The mean of exp(input) - target * input; without `log_input` of input - target *
    log(input + eps). `full` adds Stirling's approximation of log(target!)."""

    def __init__(
        self, log_input: bool = True, full: bool = False, size_average: Any = None,
        eps: float = 1e-8, reduce: Any = None, reduction: str = "mean",
    ) -> None:  # fmt: skip
        super().__init__(size_average, reduce, reduction)
        self.log_input, self.full, self.eps = log_input, full, eps

    def forward(self, log_input: Tensor, target: Tensor) -> Tensor:
        """Equal shapes -> a scalar, or the same shape for reduction='none'."""
        return F.poisson_nll_loss(
            log_input, target, log_input=self.log_input, full=self.full, eps=self.eps,
            reduction=self.reduction,
        )  # fmt: skip


class GaussianNLLLoss(_Loss):
    """The mean of (log(var) + (input - target)^2 / var) / 2, var no less than eps; `full` adds
    log(2 pi) / 2."""

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
    """The mean of -(target * log(input) + (1 - target) * log(1 - input)), times the weight."""


@layer(F.binary_cross_entropy_with_logits)
class BCEWithLogitsLoss(_WeightedLoss):
    """BCELoss of sigmoid(input), without overflow; `pos_weight` multiplies what target = 1 adds."""

    pos_weight: Tensor | None = None


@layer(F.soft_margin_loss)
class SoftMarginLoss(_Plain):
    """The mean of log(1 + exp(-target * input)), targets 1 or -1."""


@layer()
class _Margin(_Loss):
    margin: float = 0.0
    size_average: Any = None
    reduce: Any = None
    reduction: str = "mean"


@layer(F.hinge_embedding_loss)
class HingeEmbeddingLoss(_Margin, _OfTarget):
    """The mean of input where target is 1, of max(0, margin - input) where it is -1."""

    margin: float = 1.0


class CosineEmbeddingLoss(_Margin):
    """The mean of 1 - cos(x1, x2) where target is 1, of max(0, cos - margin) where it is -1."""

    def forward(self, input1: Tensor, input2: Tensor, target: Tensor) -> Tensor:
        """(N, D), (N, D) and (N,), or all without N -> a scalar, or (N,)."""
        return F.cosine_embedding_loss(
            input1, input2, target, margin=self.margin, reduction=self.reduction
        )


class MarginRankingLoss(_Margin):
    """The mean of max(0, -target * (input1 - input2) + margin), targets 1 or -1."""

    def forward(self, input1: Tensor, input2: Tensor, target: Tensor) -> Tensor:
        """Equal shapes -> a scalar, or the same shape for reduction='none'."""
        return F.margin_ranking_loss(
            input1, input2, target, margin=self.margin, reduction=self.reduction
        )


class TripletMarginLoss(_Loss):
    """The mean of max(0, |anchor - positive|_p - |anchor - negative|_p + margin); `swap` takes
    |positive - negative| where it is less."""

    def __init__(
        self, margin: float = 1.0, p: float = 2.0, eps: float = 1e-6, swap: bool = False,
        size_average: Any = None, reduce: Any = None, reduction: str = "mean",
    ) -> None:  # fmt: skip
        super().__init__(size_average, reduce, reduction)
        _positive(self, margin)
        self.margin, self.p, self.eps, self.swap = margin, p, eps, swap

    def forward(self, anchor: Tensor, positive: Tensor, negative: Tensor) -> Tensor:
        """Three of (N, D) or (D,) -> a scalar, or (N,) for reduction='none'."""
        return F.triplet_margin_loss(
            anchor, positive, negative, margin=self.margin, p=self.p, eps=self.eps,
            swap=self.swap, reduction=self.reduction,
        )  # fmt: skip


class TripletMarginWithDistanceLoss(_Loss):
    """TripletMarginLoss with any distance of two tensors, PairwiseDistance() by default."""

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
        """Three equal shapes -> a scalar, or the distances' shape for reduction='none'."""
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
class NLLLoss(_WeightedLoss):
    """The mean of -input[target] over samples: log-probabilities (N, C, *), ints (N, *)."""

    ignore_index: int = -100

    def __init__(
        self, weight: Tensor | None = None, size_average: Any = None, ignore_index: int = -100,
        reduce: Any = None, reduction: str = "mean",
    ) -> None:  # fmt: skip
        self._set_fields(locals())


class NLLLoss2d(NLLLoss):
    """An older name of NLLLoss."""

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
class CrossEntropyLoss(_WeightedLoss):
    """-log_softmax(input)[target]: (N, C, *) with class ints (N, *) or probabilities (N, C, *)."""

    ignore_index: int = -100
    label_smoothing: float = 0.0

    def __init__(
        self, weight: Tensor | None = None, size_average: Any = None, ignore_index: int = -100,
        reduce: Any = None, reduction: str = "mean", label_smoothing: float = 0.0,
    ) -> None:  # fmt: skip
        self._set_fields(locals())


class LinearCrossEntropyLoss(_WeightedLoss):
    """CrossEntropyLoss of a Linear layer of its own: (N, in_features) to (num_classes,
    *out_features) for each sample. `options` is a hint on memory; it changes nothing."""

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
class MultiMarginLoss(_WeightedLoss):
    """The mean over samples of the sum over i != y of max(0, margin - x[y] + x[i])^p / C, times
    weight[y]: (N, C), ints (N,)."""

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
class MultiLabelMarginLoss(_Plain):
    """The mean over samples of the sum over classes j in the target, i not in it, of
    max(0, 1 - x[j] + x[i]) / C; a target lists its classes and ends at the first -1."""


@layer(F.multilabel_soft_margin_loss, "(N, C), targets of that shape, 0 or 1 -> a scalar, or (N,).")
class MultiLabelSoftMarginLoss(_WeightedLoss):
    """The mean over samples and classes of BCEWithLogitsLoss, times a weight for each class."""


class CTCLoss(_Loss):
    """-log of the probability of a target, added up over all ways to align it with the times of
    the input (Graves et al. 2006); class `blank` stands between labels. With `zero_infinity` what
    can't be aligned counts 0."""

    def __init__(
        self, blank: int = 0, reduction: str = "mean", zero_infinity: bool = False
    ) -> None:
        super().__init__(reduction=reduction)
        self.blank, self.zero_infinity = blank, zero_infinity

    def forward(
        self, log_probs: Tensor, targets: Tensor, input_lengths: Any, target_lengths: Any
    ) -> Tensor:
        """log_probs (T, N, C), ints targets (N, S) or all in one, lengths (N,) -> a scalar, or
        (N,). 'mean' divides each loss by its target's length first."""
        return F.ctc_loss(
            log_probs, targets, input_lengths, target_lengths, self.blank, self.reduction,
            self.zero_infinity,
        )  # fmt: skip
