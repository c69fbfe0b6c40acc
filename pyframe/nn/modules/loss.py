"""Losses, as torch.nn.modules.loss."""

from __future__ import annotations

from typing import Any

from pyframe.nn import functional as F
from pyframe.nn.modules.module import Module
from pyframe.tensor import Tensor

__all__ = ["CrossEntropyLoss", "L1Loss", "MSELoss", "NLLLoss"]


class _Loss(Module):
    def __init__(self, *args: Any, reduction: str = "mean") -> None:
        super().__init__()
        if args:
            name = type(self).__name__
            raise TypeError(
                f"{name}: got {len(args)} positional argument{'s' if len(args) > 1 else ''}, "
                "expected its options by their names (reduction='sum'); the loss of a prediction "
                f"is nn.{name}()(input, target)"
            )
        if reduction not in ("mean", "sum", "none"):
            raise ValueError(
                f"{reduction} is not a valid value for reduction; use 'mean', 'sum' or 'none'"
            )
        self.reduction = reduction


class MSELoss(_Loss):
    """The mean of (input - target)^2."""

    def forward(self, input: Tensor, target: Tensor) -> Tensor:
        """Equal shapes -> a scalar, or the same shape for reduction='none'."""
        return F.mse_loss(input, target, reduction=self.reduction)


class L1Loss(_Loss):
    """The mean of |input - target|."""

    def forward(self, input: Tensor, target: Tensor) -> Tensor:
        """Equal shapes -> a scalar, or the same shape for reduction='none'."""
        return F.l1_loss(input, target, reduction=self.reduction)


class NLLLoss(_Loss):
    """The mean of -input[target] over samples: log-probabilities (N, C, *), ints (N, *)."""

    def __init__(
        self, weight: Tensor | None = None, *args: Any, ignore_index: int = -100,
        reduction: str = "mean",
    ) -> None:  # fmt: skip
        super().__init__(*args, reduction=reduction)
        self.register_buffer("weight", weight)
        self.ignore_index = ignore_index

    def forward(self, input: Tensor, target: Tensor) -> Tensor:
        """A scalar, or (N, *) for reduction='none'."""
        return F.nll_loss(
            input, target, self.weight, ignore_index=self.ignore_index, reduction=self.reduction
        )


class CrossEntropyLoss(_Loss):
    """-log_softmax(input)[target]: (N, C, *) with class ints (N, *) or probabilities (N, C, *)."""

    def __init__(
        self, weight: Tensor | None = None, *args: Any, ignore_index: int = -100,
        reduction: str = "mean", label_smoothing: float = 0.0,
    ) -> None:  # fmt: skip
        super().__init__(*args, reduction=reduction)
        self.register_buffer("weight", weight)
        self.ignore_index, self.label_smoothing = ignore_index, label_smoothing

    def forward(self, input: Tensor, target: Tensor) -> Tensor:
        """A scalar, or (N, *) for reduction='none'."""
        return F.cross_entropy(
            input, target, self.weight, ignore_index=self.ignore_index, reduction=self.reduction,
            label_smoothing=self.label_smoothing,
        )  # fmt: skip
