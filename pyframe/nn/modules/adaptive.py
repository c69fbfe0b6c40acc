"""Softmax over very many classes, as torch.nn.modules.adaptive."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import pyframe as pf
from pyframe.nn import functional as F
from pyframe.nn.modules.container import ModuleList, Sequential
from pyframe.nn.modules.linear import Linear
from pyframe.nn.modules.module import Module
from pyframe.ops.api import check
from pyframe.tensor import Tensor

__all__ = ["AdaptiveLogSoftmaxWithLoss"]


class _ASMoutput(NamedTuple):
    """The log-probability of each target, and minus their mean."""

    output: Tensor
    loss: Tensor


class AdaptiveLogSoftmaxWithLoss(Module):
    """The log-softmax of very many classes, sorted by how frequent they are (arXiv 1609.04309).

    The head knows the classes below cutoffs[0] and one class for each cluster of rarer ones; the
    i-th cluster sees in_features / div_value^(i + 1) features. Every cluster is computed for every
    row: which rows need it is known on the device alone.

    Called as layer(input, target) of (N, in_features) and ints (N,), or both without N, it gives
    (output, loss): the log-probability of each target, and minus their mean. `log_prob` gives those
    of all classes, `predict` the most probable one.

    Args:
        in_features: the number of features of the input.
        n_classes: how many classes there are; 0 is the most frequent one.
        cutoffs: where clusters begin: rising ints from 1 to n_classes - 1.
        div_value: by what the features of a cluster are divided, for each cluster before it too.
        head_bias: whether the head has a bias.

    Attributes:
        head: a Linear of cutoffs[0] + len(cutoffs) outputs.
        tail: two Linear layers for each cluster.

    Raises:
        ValueError: `cutoffs` are not as above.
        RuntimeError: when called with a target out of range; on a GPU when a value is next read.

    >>> layer = nn.AdaptiveLogSoftmaxWithLoss(16, 1000, cutoffs=[10, 100])
    >>> layer(pf.randn(4, 16), pf.tensor([0, 7, 50, 999])).output.shape
    pyframe.Size([4])
    """

    def __init__(
        self, in_features: int, n_classes: int, cutoffs: Sequence[int], div_value: float = 4.0,
        head_bias: bool = False, device: Any = None, dtype: Any = None,
    ) -> None:  # fmt: skip
        super().__init__()
        cutoffs = list(cutoffs)
        if not cutoffs:
            raise ValueError(
                "AdaptiveLogSoftmaxWithLoss: cutoffs should be a sequence of length larger than 0"
            )
        rising = all(a < b for a, b in zip([0, *cutoffs], [*cutoffs, n_classes], strict=True))
        if not rising or any(int(c) != c for c in cutoffs):
            raise ValueError(
                "AdaptiveLogSoftmaxWithLoss: cutoffs should be a sequence of unique, positive "
                "integers sorted in an increasing order, where each value is between 1 and "
                f"n_classes-1, got {cutoffs} for {n_classes} classes"
            )
        self.in_features, self.n_classes = in_features, n_classes
        self.cutoffs = [*cutoffs, n_classes]
        self.div_value, self.head_bias = div_value, head_bias
        self.shortlist_size, self.n_clusters = cutoffs[0], len(cutoffs)
        self.head_size = self.shortlist_size + self.n_clusters
        kw = {"device": device, "dtype": dtype}
        self.head = Linear(in_features, self.head_size, bias=head_bias, **kw)
        self.tail = ModuleList()
        for i in range(self.n_clusters):
            width = int(in_features // div_value ** (i + 1))
            classes = self.cutoffs[i + 1] - self.cutoffs[i]
            self.tail.append(
                Sequential(
                    Linear(in_features, width, bias=False, **kw),
                    Linear(width, classes, bias=False, **kw),
                )
            )

    def reset_parameters(self) -> None:
        """As Linear's."""
        self.head.reset_parameters()
        for down, up in self.tail:
            down.reset_parameters()
            up.reset_parameters()

    def forward(self, input_: Tensor, target_: Tensor) -> _ASMoutput:
        """(N, in_features) and ints (N,), or both without N: (output (N,), loss). RuntimeError for
        other shapes, and for a target outside 0..n_classes-1; on the GPU when a value is next
        read.

        Args:
            input_: float (N, in_features) or (in_features,).
            target_: ints (N,) or (): the classes.
        """
        name = type(self).__name__
        if target_.ndim > 1 or input_.ndim != target_.ndim + 1:
            raise RuntimeError(
                f"{name}: expected input (N, {self.in_features}) and target (N,), or both without "
                f"N, got {list(input_.shape)} and {list(target_.shape)}"
            )
        if target_.ndim and len(input_) != len(target_):
            raise RuntimeError(
                f"{name}: Input and target should have the same size in the batch dimension, got "
                f"{len(input_)} and {len(target_)}"
            )
        outside = (target_ < 0) | (target_ >= self.n_classes)
        check.assert_not(outside, f"{name}: Target values should be in [0, {self.n_classes - 1}]")
        target = target_.reshape(-1, 1).clamp(0, self.n_classes - 1)
        x = input_.reshape(-1, input_.shape[-1])
        head = F.log_softmax(self.head(x), 1)
        column = target  # in the head
        output: Any = 0.0
        for i, tail in enumerate(self.tail):
            low, high = self.cutoffs[i], self.cutoffs[i + 1]
            inside = (target >= low) & (target < high)
            column = pf.where(inside, self.shortlist_size + i, column)
            mine = F.log_softmax(tail(x), 1).gather(1, (target - low).clamp(0, high - low - 1))
            output = output + pf.where(inside, mine, 0.0)
        output = (output + head.gather(1, column)).reshape(target_.shape)
        return _ASMoutput(output, -output.mean())

    def log_prob(self, input: Tensor) -> Tensor:
        """(N, in_features) -> the log-probabilities of all classes, (N, n_classes)."""
        head = F.log_softmax(self.head(input), 1)
        n = self.shortlist_size
        tails = [
            F.log_softmax(tail(input), 1) + head[:, n + i : n + i + 1]
            for i, tail in enumerate(self.tail)
        ]
        return pf.cat([head[:, :n], *tails], 1)

    def predict(self, input: Tensor) -> Tensor:
        """(N, in_features) -> the most probable class of each row, int64 (N,)."""
        return self.log_prob(input).argmax(1)
