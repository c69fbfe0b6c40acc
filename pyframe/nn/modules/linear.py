"""Linear maps, and tables of vectors."""

from __future__ import annotations

import math
from typing import Any, Self

from pyframe.core.modes import no_grad
from pyframe.nn import functional as F, init
from pyframe.nn.modules.module import Module
from pyframe.nn.modules.utils import (
    LazyLayer,
    Weighted,
    add_parameters,
    check_sizes,
    shown,
    unusual,
)
from pyframe.nn.parameter import Parameter
from pyframe.ops.random.creation import empty
from pyframe.tensor import Tensor

__all__ = ["Bilinear", "Embedding", "EmbeddingBag", "Identity", "LazyLinear", "Linear"]


class Identity(Module):
    """Its input, unchanged. It takes any arguments, and so can stand in for any layer.

    Args:
        args, kwargs: anything; nothing is done with it.

    >>> nn.Identity(54, unused=True)(pf.tensor([1.0, 2.0]))
    tensor([1., 2.])
    """

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__()

    def forward(self, input: Tensor) -> Tensor:
        """The input."""
        return input


class Linear(Weighted):
    """A linear map of the last dim: y = x @ weight.T + bias, (*, in_features) -> (*, out_features).

    Args:
        in_features, out_features: how many features the input and the output have.
        bias: whether a vector is added.

    Attributes:
        weight: (out_features, in_features), at first from U(-k, k) with k = 1 / √in_features.
        bias: (out_features,), at first from there too; None without one.

    Raises:
        RuntimeError: when called with another last dim.

    >>> nn.Linear(20, 30)(pf.randn(128, 20)).shape
    pyframe.Size([128, 30])
    """

    def __init__(
        self, in_features: int, out_features: int, bias: bool = True, device: Any = None,
        dtype: Any = None,
    ) -> None:  # fmt: skip
        super().__init__()
        dtype = check_sizes(self, dtype, in_features=in_features, out_features=out_features)
        self.in_features, self.out_features = in_features, out_features
        rows = out_features if bias else None
        add_parameters(self, device, dtype, weight=(out_features, in_features), bias=rows)
        self.reset_parameters()

    def forward(self, input: Tensor) -> Tensor:
        """(*, in_features) -> (*, out_features)."""
        return F.linear(input, self.weight, self.bias)

    def extra_repr(self) -> str:
        return shown(self, "in_features", "out_features", "bias")


class NonDynamicallyQuantizableLinear(Linear):
    """A Linear under the name that attention's projection has in PyTorch's reprs."""


class LazyLinear(LazyLayer, Linear):
    """A Linear that learns in_features from its first input, and is a Linear from then on. Until it
    was called its parameters have no shape. Arguments are Linear's, without `in_features`.

    >>> layer = nn.LazyLinear(30)
    >>> layer(pf.randn(128, 20)).shape, layer
    (pyframe.Size([128, 30]), Linear(in_features=20, out_features=30, bias=True))
    """

    cls_to_become, _learned = Linear, "in_features"

    def __init__(
        self, out_features: int, bias: bool = True, device: Any = None, dtype: Any = None
    ) -> None:
        super().__init__(0, 0, False)
        dtype = check_sizes(self, dtype, out_features=out_features)
        self.out_features = out_features
        self._wait(device, dtype, bias)

    def initialize_parameters(self, input: Tensor) -> None:
        """Shapes for inputs (*, in_features)."""
        if self.has_uninitialized_params():
            self.in_features = input.shape[-1]
            self._materialize((self.out_features, self.in_features), self.out_features)
        if self.in_features == 0:  # the weight was loaded
            expected, self.in_features = self.weight.shape[-1], input.shape[-1]
            if self.in_features != expected:
                raise AssertionError(
                    f"LazyLinear: the in_features inferred from input: {self.in_features} is not "
                    f"equal to in_features from self.weight: {expected}"
                )


class Bilinear(Weighted):
    """A bilinear map of two inputs: y[o] = x1ᵀ weight[o] x2 + bias[o] for each output o,
    (*, in1_features) and (*, in2_features) -> (*, out_features).

    Args:
        in1_features, in2_features, out_features: how many features the two inputs and the output
            have.
        bias: whether a vector is added.

    Attributes:
        weight: (out_features, in1_features, in2_features), at first from U(-k, k) with k = 1 /
            √in1_features.
        bias: (out_features,), at first from there too; None without one.

    >>> nn.Bilinear(20, 30, 40)(pf.randn(128, 20), pf.randn(128, 30)).shape
    pyframe.Size([128, 40])
    """

    def __init__(
        self, in1_features: int, in2_features: int, out_features: int, bias: bool = True,
        device: Any = None, dtype: Any = None,
    ) -> None:  # fmt: skip
        super().__init__()
        dtype = check_sizes(
            self, dtype, in1_features=in1_features, in2_features=in2_features,
            out_features=out_features,
        )  # fmt: skip
        self.in1_features, self.in2_features = in1_features, in2_features
        self.out_features = out_features
        shape = (out_features, in1_features, in2_features)
        add_parameters(self, device, dtype, weight=shape, bias=out_features if bias else None)
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """U(-1/sqrt(in1_features), 1/sqrt(in1_features)) for both. ValueError without features."""
        if self.in1_features <= 0:
            raise ValueError(f"Bilinear: in1_features must be > 0, got {self.in1_features}")
        bound = 1 / math.sqrt(self.weight.shape[1])
        init.uniform_(self.weight, -bound, bound)
        if self.bias is not None:
            init.uniform_(self.bias, -bound, bound)

    def forward(self, input1: Tensor, input2: Tensor) -> Tensor:
        """(*, in1_features), (*, in2_features) -> (*, out_features).

        Args:
            input1, input2: the two.
        """
        return F.bilinear(input1, input2, self.weight, self.bias)

    def extra_repr(self) -> str:
        return shown(self, "in1_features", "in2_features", "out_features", "bias")


class _Table(Module):
    """A table of vectors: (num_embeddings, embedding_dim)."""

    def _fill(
        self, num_embeddings: int, embedding_dim: int, padding_idx: int | None,
        weight: Tensor | None, device: Any, dtype: Any,
    ) -> None:  # fmt: skip
        """The fields that all tables have. AssertionError for a padding_idx outside the table and
        for a given weight of another shape."""
        name = type(self).__name__
        dtype = check_sizes(self, dtype, num_embeddings=num_embeddings, embedding_dim=embedding_dim)
        self.num_embeddings, self.embedding_dim = num_embeddings, embedding_dim
        if padding_idx is not None:
            if padding_idx and not -num_embeddings <= padding_idx < num_embeddings:
                raise AssertionError(
                    f"{name}: Padding_idx must be within num_embeddings: got {padding_idx} for "
                    f"{num_embeddings}"
                )
            if padding_idx < 0:
                padding_idx += num_embeddings
        self.padding_idx = padding_idx
        if weight is None:
            made = empty(num_embeddings, embedding_dim, device=device, dtype=dtype)
            self.weight = Parameter(made)
            self.reset_parameters()
            return
        if tuple(weight.shape) != (num_embeddings, embedding_dim):
            raise AssertionError(
                f"{name}: Shape of weight does not match num_embeddings and embedding_dim: got "
                f"{list(weight.shape)} for [{num_embeddings}, {embedding_dim}]"
            )
        self.weight = Parameter(weight)

    def reset_parameters(self) -> None:
        """N(0, 1), zeros at padding_idx."""
        init.normal_(self.weight)
        self._fill_padding_idx_with_zero()

    def _fill_padding_idx_with_zero(self) -> None:
        if self.padding_idx is not None:
            with no_grad():
                self.weight[self.padding_idx].fill_(0)

    @staticmethod
    def _sizes(embeddings: Tensor) -> tuple[int, ...]:
        if embeddings.ndim != 2:
            raise AssertionError(
                f"Embeddings parameter is expected to be 2-dimensional, got {embeddings.ndim}-d"
            )
        return tuple(embeddings.shape)


class Embedding(_Table):
    """A table of vectors, one for each int: ints (*) -> (*, embedding_dim).

    Args:
        num_embeddings: the number of rows; ints are from 0 to num_embeddings - 1.
        embedding_dim: the length of each row.
        padding_idx: a row that begins as zeros and gets no gradient.
        _freeze: whether the table gets no gradient.

    Attributes:
        weight: (num_embeddings, embedding_dim), at first from N(0, 1).

    Raises:
        IndexError: when called with an int that is no row; on a GPU when a value is next read.

    >>> nn.Embedding(10, 3)(pf.tensor([[1, 2], [9, 1]])).shape
    pyframe.Size([2, 2, 3])
    """

    def __init__(
        self, num_embeddings: int, embedding_dim: int, padding_idx: int | None = None,
        max_norm: float | None = None, norm_type: float = 2.0, scale_grad_by_freq: bool = False,
        sparse: bool = False, _weight: Tensor | None = None, _freeze: bool = False,
        device: Any = None, dtype: Any = None,
    ) -> None:  # fmt: skip
        super().__init__()
        self._fill(num_embeddings, embedding_dim, padding_idx, _weight, device, dtype)
        self.weight.requires_grad_(not _freeze)
        self.max_norm, self.norm_type = max_norm, norm_type
        self.scale_grad_by_freq, self.sparse = scale_grad_by_freq, sparse

    def forward(self, input: Tensor) -> Tensor:
        """ints (*) -> (*, embedding_dim). IndexError for one outside the table; on the GPU when a
        value is next read."""
        return F.embedding(
            input, self.weight, self.padding_idx, self.max_norm, self.norm_type,
            self.scale_grad_by_freq, self.sparse,
        )  # fmt: skip

    def extra_repr(self) -> str:
        return f"{self.num_embeddings}, {self.embedding_dim}" + unusual(
            self, padding_idx=None, max_norm=None, norm_type=2, scale_grad_by_freq=False,
            sparse=False,
        )  # fmt: skip

    @classmethod
    def from_pretrained(
        cls, embeddings: Tensor, freeze: bool = True, padding_idx: int | None = None,
        max_norm: float | None = None, norm_type: float = 2.0, scale_grad_by_freq: bool = False,
        sparse: bool = False,
    ) -> Self:  # fmt: skip
        """One whose table is `embeddings` (V, D); unless `freeze` it is trained."""
        rows, width = cls._sizes(embeddings)
        return cls(
            rows, width, padding_idx, max_norm, norm_type, scale_grad_by_freq, sparse,
            _weight=embeddings, _freeze=freeze,
        )  # fmt: skip


class EmbeddingBag(_Table):
    """Rows of a table, summed up or averaged for each bag of ints: (B, L) -> (B, embedding_dim), or
    ints (n,) with `offsets` (B,), where in them each bag starts.

    Called as layer(input, offsets, per_sample_weights); those weights, of input's shape, multiply
    rows before they are summed up.

    Args:
        mode: 'mean', 'sum' or 'max'. Weights are for 'sum'.
        include_last_offset: whether `offsets` ends with n, where the last bag ends.
        padding_idx: a row that no bag counts, and that gets no gradient.

    Attributes:
        weight: (num_embeddings, embedding_dim), at first from N(0, 1).

    >>> nn.EmbeddingBag(10, 3)(pf.tensor([1, 2, 4, 5]), pf.tensor([0, 3])).shape
    pyframe.Size([2, 3])
    """

    def __init__(
        self, num_embeddings: int, embedding_dim: int, max_norm: float | None = None,
        norm_type: float = 2.0, scale_grad_by_freq: bool = False, mode: str = "mean",
        sparse: bool = False, _weight: Tensor | None = None, include_last_offset: bool = False,
        padding_idx: int | None = None, device: Any = None, dtype: Any = None,
    ) -> None:  # fmt: skip
        super().__init__()
        self._fill(num_embeddings, embedding_dim, padding_idx, _weight, device, dtype)
        self.max_norm, self.norm_type = max_norm, norm_type
        self.scale_grad_by_freq, self.mode, self.sparse = scale_grad_by_freq, mode, sparse
        self.include_last_offset = include_last_offset

    def forward(
        self, input: Tensor, offsets: Tensor | None = None, per_sample_weights: Tensor | None = None
    ) -> Tensor:
        """(B, embedding_dim); `per_sample_weights`, of input's shape, multiply in mode 'sum'."""
        return F.embedding_bag(
            input, self.weight, offsets, self.max_norm, self.norm_type, self.scale_grad_by_freq,
            self.mode, self.sparse, per_sample_weights, self.include_last_offset, self.padding_idx,
        )  # fmt: skip

    def extra_repr(self) -> str:
        text = f"{self.num_embeddings}, {self.embedding_dim}"
        usual = {"max_norm": None, "norm_type": 2, "scale_grad_by_freq": False, "mode": "",
                 "padding_idx": None}  # fmt: skip
        other = {k: getattr(self, k) for k, v in usual.items() if getattr(self, k) != v}
        return ", ".join([text, *(f"{k}={v!r}" for k, v in other.items())])

    @classmethod
    def from_pretrained(
        cls, embeddings: Tensor, freeze: bool = True, max_norm: float | None = None,
        norm_type: float = 2.0, scale_grad_by_freq: bool = False, mode: str = "mean",
        sparse: bool = False, include_last_offset: bool = False, padding_idx: int | None = None,
    ) -> Self:  # fmt: skip
        """One whose table is `embeddings` (V, D); unless `freeze` it is trained."""
        rows, width = cls._sizes(embeddings)
        out = cls(
            rows, width, max_norm, norm_type, scale_grad_by_freq, mode, sparse, embeddings,
            include_last_offset, padding_idx,
        )  # fmt: skip
        out.weight.requires_grad_(not freeze)
        return out
