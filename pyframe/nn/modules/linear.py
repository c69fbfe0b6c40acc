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
    """Its input, whatever the arguments."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__()

    def forward(self, input: Tensor) -> Tensor:
        """The input."""
        return input


class Linear(Weighted):
    """x @ weight.T + bias: (*, in_features) -> (*, out_features)."""

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
    """A Linear that learns in_features from its first input."""

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
    """x1 @ weight[o] @ x2 + bias[o]: (*, in1_features), (*, in2_features) -> (*, out_features)."""

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
        """(*, in1_features), (*, in2_features) -> (*, out_features)."""
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
    """A table of vectors looked up by ints: (*) -> (*, embedding_dim).

    Rows longer than `max_norm` are shortened in the table when they are looked up; that of
    `padding_idx` gets no gradient; with `scale_grad_by_freq` gradients are divided by how often a
    row is named. `sparse` changes nothing: gradients are dense.
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
    """The 'sum', 'mean' or 'max' of bags of vectors that ints name: (B, L), or (n,) with the
    offsets (B,) where bags start -> (B, embedding_dim). Options are Embedding's."""

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
