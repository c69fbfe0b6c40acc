"""How far numbers are from their targets, and vectors from theirs."""

from __future__ import annotations

from typing import Any

import pyframe as pf
from pyframe.metrics.base import RunningMean, Streaming, check_tensors
from pyframe.nn import functional as F
from pyframe.tensor import Tensor


def same_shape(name: str, output: Any, target: Any) -> None:
    """Raise for what are not two tensors of one shape."""
    check_tensors(name, output, target)
    if output.shape == target.shape:
        return
    hint = "give the network as many outputs as there are numbers in a target"
    if output.numel() == target.numel():
        hint = "make them alike, for example by output.squeeze(1) or target.unsqueeze(1)"
    raise ValueError(
        f"{name}: expected outputs and targets of one shape, got outputs {[*output.shape]} and "
        f"targets {[*target.shape]}; {hint}"
    )


class _OfElements(RunningMean):
    """The mean over all elements of what `of` gives for each."""

    higher_is_better = False
    counted = "elements"

    def of(self, output: Tensor, target: Tensor) -> Tensor:
        """What is averaged of `output` and `target`."""
        raise NotImplementedError

    def update(self, output: Tensor, target: Tensor) -> None:
        """Take numbers and their targets in, both (N, *)."""
        same_shape(self.name, output, target)
        values = self.of(output.float(), target.float())
        self.add(values.sum(), values.numel(), output)


class MAE(_OfElements):
    """The mean absolute error of outputs and targets (N, *): the mean of |output - target|.

    Raises:
        ValueError: when they have two shapes.

    >>> metric = pf.metrics.MAE()
    >>> metric.update(pf.tensor([1.0, 2.0, 4.0]), pf.tensor([1.0, 3.0, 6.0]))
    >>> metric.compute()
    tensor(1.)
    """

    def of(self, output: Tensor, target: Tensor) -> Tensor:
        """|output - target|."""
        return (output - target).abs()


class MSE(_OfElements):
    """The mean squared error of outputs and targets (N, *): the mean of (output - target)².

    Raises:
        ValueError: when they have two shapes.

    >>> metric = pf.metrics.MSE()
    >>> metric.update(pf.tensor([1.0, 2.0, 4.0]), pf.tensor([1.0, 3.0, 6.0]))
    >>> metric.compute()
    tensor(1.6667)
    """

    def of(self, output: Tensor, target: Tensor) -> Tensor:
        """(output - target)²."""
        return (output - target).square()


class RMSE(MSE):
    """The root of the mean squared error of outputs and targets (N, *), in their own unit.

    Raises:
        ValueError: when they have two shapes.

    >>> metric = pf.metrics.RMSE()
    >>> metric.update(pf.tensor([1.0, 2.0, 4.0]), pf.tensor([1.0, 3.0, 6.0]))
    >>> metric.compute()
    tensor(1.2910)
    """

    def compute(self) -> Tensor:
        """(): nan where nothing was seen."""
        return super().compute().sqrt()


class CosineSimilarity(_OfElements):
    """The mean of the cosine between outputs and targets, vectors along `dim` of (N, D, *).

    >>> metric = pf.metrics.CosineSimilarity()
    >>> metric.update(pf.tensor([[1.0, 0.0]]), pf.tensor([[1.0, 1.0]]))
    >>> metric.compute()
    tensor(0.7071)
    """

    higher_is_better = True

    def __init__(self, dim: int = 1) -> None:
        super().__init__()
        self.dim = dim

    def of(self, output: Tensor, target: Tensor) -> Tensor:
        """The cosines, as F.cosine_similarity."""
        return F.cosine_similarity(output, target, dim=self.dim)


class R2(Streaming):
    """The coefficient of determination, 1 - Σ(target - output)² / Σ(target - mean)²: of (N,) or, as
    the mean over its D outputs, of (N, D).

    Deviations are taken from the mean of the batches before, so that nothing is lost where it is
    far from 0. Where targets are all the same it is 1 if the outputs are too, else 0, as
    scikit-learn's r2_score.

    >>> metric = pf.metrics.R2()
    >>> metric.update(pf.tensor([1.0, 2.0, 4.0]), pf.tensor([1.0, 3.0, 6.0]))
    >>> metric.compute()
    tensor(0.6053)
    """

    higher_is_better = True

    sums: Tensor

    def __init__(self) -> None:
        super().__init__()
        self.later_counts("samples", "samples_high")
        # (4, D): Σ(target - shift), Σ(target - shift)², Σ(target - output)², shift
        self.later("sums")

    def update(self, output: Tensor, target: Tensor) -> None:
        """Take outputs and targets (N, *) in."""
        same_shape(self.name, output, target)
        n = output.shape[0]
        output, target = (x.float().reshape(n, -1).T for x in (output, target))
        self.begin(output, sums=(4, output.shape[0]), samples=(), samples_high=())
        first, squares, residual, shift = self.sums
        before = self.total("samples")
        step = first / before.clamp(min=1)
        shift = (shift + step).where(before > 0, target[:, 0])
        apart = target - shift.unsqueeze(1)
        terms = [apart, apart.square(), (target - output).square(), pf.zeros_like(apart)]
        # what was summed is one more term, so that one kernel does all
        last = pf.stack([pf.zeros_like(shift), squares - first * step, residual, shift])
        self.sums.copy_(pf.cat([pf.stack(terms), last.unsqueeze(-1)], -1).sum(-1))
        self.count("samples", n, output)

    def compute(self) -> Tensor:
        """(): at most 1; nan where nothing was seen."""
        first, squares, residual, _ = self.seen("sums")
        samples = self.total("samples")
        deviation = squares - first.square() / samples
        exact = (residual == 0).float()
        found = 1 - residual / deviation.masked_fill(deviation == 0, 1)
        return found.where(deviation != 0, exact).mean() + 0 / samples
