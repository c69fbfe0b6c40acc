"""Activations, dropout, and attention with several heads."""

from __future__ import annotations

import warnings
from typing import Any

from pyframe.nn import functional as F, init, init as _init
from pyframe.nn.modules.fields import Layer, OneInput, layer
from pyframe.nn.modules.linear import NonDynamicallyQuantizableLinear
from pyframe.nn.modules.module import Module
from pyframe.nn.modules.utils import add_parameters, check_sizes, shown
from pyframe.nn.parameter import Parameter
from pyframe.tensor import Tensor

__all__ = [
    "CELU", "ELU", "GELU", "GLU", "SELU", "AlphaDropout", "Dropout", "Dropout1d", "Dropout2d",
    "Dropout3d", "FeatureAlphaDropout", "Hardshrink", "Hardsigmoid", "Hardswish", "Hardtanh",
    "LeakyReLU", "LogSigmoid", "LogSoftmax", "Mish", "MultiheadAttention", "PReLU", "RReLU",
    "ReLU", "ReLU6", "SiLU", "Sigmoid", "Softmax", "Softmax2d", "Softmin", "Softplus",
    "Softshrink", "Softsign", "Tanh", "Tanhshrink", "Threshold",
]  # fmt: skip


class MultiheadAttention(Module):
    """softmax(q k^T / sqrt(E / heads)) v for each head, on projections of query, key and value
    (arXiv 1706.03762)."""

    def __init__(
        self, embed_dim: int, num_heads: int, dropout: float = 0.0, bias: bool = True,
        add_bias_kv: bool = False, add_zero_attn: bool = False, kdim: int | None = None,
        vdim: int | None = None, batch_first: bool = False, device: Any = None, dtype: Any = None,
    ) -> None:  # fmt: skip
        if embed_dim <= 0 or num_heads <= 0:
            raise ValueError(
                "embed_dim and num_heads must be greater than 0, got "
                f"embed_dim={embed_dim} and num_heads={num_heads} instead"
            )
        super().__init__()
        self.embed_dim, self.num_heads, self.head_dim = embed_dim, num_heads, embed_dim // num_heads
        self.kdim = embed_dim if kdim is None else kdim
        self.vdim = embed_dim if vdim is None else vdim
        dtype = check_sizes(self, dtype, embed_dim=embed_dim, kdim=self.kdim, vdim=self.vdim)
        if embed_dim % num_heads:
            raise AssertionError(
                f"embed_dim must be divisible by num_heads, got {embed_dim} and {num_heads}"
            )
        self._qkv_same_embed_dim = self.kdim == embed_dim == self.vdim
        self.dropout, self.batch_first = dropout, batch_first
        self.add_zero_attn = add_zero_attn
        apart = not self._qkv_same_embed_dim
        shapes: dict[str, tuple[int, ...] | None] = {  # in the order of PyTorch's state_dict
            "q_proj_weight": (embed_dim, embed_dim) if apart else None,
            "k_proj_weight": (embed_dim, self.kdim) if apart else None,
            "v_proj_weight": (embed_dim, self.vdim) if apart else None,
            "in_proj_weight": None if apart else (3 * embed_dim, embed_dim),
            "in_proj_bias": (3 * embed_dim,) if bias else None,
            "bias_k": (1, 1, embed_dim) if add_bias_kv else None,
            "bias_v": (1, 1, embed_dim) if add_bias_kv else None,
        }
        add_parameters(self, device, dtype, **shapes)
        self.out_proj = NonDynamicallyQuantizableLinear(embed_dim, embed_dim, bias, device, dtype)
        self._reset_parameters()

    def _reset_parameters(self) -> None:
        """Weights as Glorot's, biases 0; `out_proj` has the start of a Linear."""
        for name in ("in_proj_weight", "q_proj_weight", "k_proj_weight", "v_proj_weight"):
            if getattr(self, name) is not None:
                init.xavier_uniform_(getattr(self, name))
        if self.in_proj_bias is not None:
            init.zeros_(self.in_proj_bias)
            init.zeros_(self.out_proj.bias)
        for bias in (self.bias_k, self.bias_v):
            if bias is not None:
                init.xavier_normal_(bias)

    def forward(
        self, query: Tensor, key: Tensor, value: Tensor, key_padding_mask: Tensor | None = None,
        need_weights: bool = True, attn_mask: Tensor | None = None,
        average_attn_weights: bool = True, is_causal: bool = False,
    ) -> tuple[Tensor, Tensor | None]:  # fmt: skip
        """(output, weights or None) of query (L, N, E), key (S, N, kdim) and value (S, N, vdim),
        of (N, L, E), … with `batch_first`, or without N.

        Masks are True (or -inf) where attention is forbidden: key_padding_mask (N, S), attn_mask
        (L, S) or (N * num_heads, L, S); `is_causal` says that attn_mask is the causal one. Weights
        are (N, L, S), or (N, num_heads, L, S) unless `average_attn_weights`.
        """
        turned = self.batch_first and query.ndim == 3
        if turned:
            if query is key is value:
                query = key = value = query.transpose(0, 1)
            else:
                query, key, value = [x.transpose(0, 1) for x in (query, key, value)]
        out, weights = F.multi_head_attention_forward(
            query, key, value, self.embed_dim, self.num_heads, self.in_proj_weight,
            self.in_proj_bias, self.bias_k, self.bias_v, self.add_zero_attn, self.dropout,
            self.out_proj.weight, self.out_proj.bias, self.training, key_padding_mask, need_weights,
            attn_mask, not self._qkv_same_embed_dim, self.q_proj_weight, self.k_proj_weight,
            self.v_proj_weight, None, None, average_attn_weights, is_causal,
        )  # fmt: skip
        return out.transpose(0, 1) if turned else out, weights


class _Elementwise(Layer):
    """What treats each element by itself."""

    def forward(self, input: Tensor) -> Tensor:
        """Elementwise."""
        raise NotImplementedError

    def extra_repr(self) -> str:
        names = self.__fields__ if self.__shown__ is None else self.__shown__
        return shown(self, *(n for n in names if n != "inplace" or getattr(self, n)))


@layer()
class _InPlace(_Elementwise):
    """An activation that may overwrite its input."""

    inplace: bool = False


# --- pieces of lines


@layer(F.relu)
class ReLU(_InPlace):
    """max(x, 0)."""


@layer(F.leaky_relu)
class LeakyReLU(_Elementwise):
    """x where x > 0, else negative_slope * x."""

    negative_slope: float = 1e-2
    inplace: bool = False


@layer(F.rrelu)
class RReLU(_Elementwise):
    """LeakyReLU whose slope is drawn from [lower, upper) in training, else their mean
    (arXiv 1505.00853)."""

    lower: float = 1 / 8
    upper: float = 1 / 3
    inplace: bool = False


class PReLU(Module):
    """x where x > 0, else weight * x with a learnt weight, one or one a channel
    (arXiv 1502.01852)."""

    weight: Parameter

    def __init__(
        self, num_parameters: int = 1, init: float = 0.25, device: Any = None, dtype: Any = None
    ) -> None:
        super().__init__()
        dtype = check_sizes(self, dtype, num_parameters=num_parameters)
        self.num_parameters, self.init = num_parameters, init
        add_parameters(self, device, dtype, weight=num_parameters)
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """All `init`."""
        _init.constant_(self.weight, self.init)

    def forward(self, input: Tensor) -> Tensor:
        """The same shape; channels are dim 1."""
        return F.prelu(input, self.weight)

    def extra_repr(self) -> str:
        return shown(self, "num_parameters")


@layer(F.threshold)
class Threshold(_Elementwise):
    """x where x > threshold, else value."""

    threshold: float
    value: float
    inplace: bool = False


@layer(F.hardtanh)
class Hardtanh(_Elementwise):
    """x limited to [min_val, max_val]. AssertionError unless min_val < max_val."""

    min_val: float
    max_val: float
    inplace: bool

    def __init__(
        self, min_val: float = -1.0, max_val: float = 1.0, inplace: bool = False,
        min_value: float | None = None, max_value: float | None = None,
    ) -> None:  # fmt: skip
        for old, new, given in (("min_value", "min_val", min_value),
                                ("max_value", "max_val", max_value)):  # fmt: skip
            if given is not None:
                warnings.warn(
                    f"Hardtanh: keyword argument `{old}` is deprecated and renamed to `{new}`",
                    FutureWarning,
                    stacklevel=2,
                )
        min_val = min_val if min_value is None else min_value
        max_val = max_val if max_value is None else max_value
        self._set_fields({"min_val": min_val, "max_val": max_val, "inplace": inplace})

    def _check_fields(self) -> None:
        if self.max_val <= self.min_val:
            raise AssertionError(
                f"{type(self).__name__}: max_val ({self.max_val}) must be greater than min_val "
                f"({self.min_val})"
            )


class ReLU6(Hardtanh):
    """min(max(x, 0), 6)."""

    __shown__ = ("inplace",)

    def __init__(self, inplace: bool = False) -> None:
        super().__init__(0.0, 6.0, inplace)


@layer(F.hardsigmoid)
class Hardsigmoid(_InPlace):
    """min(max(x + 3, 0), 6) / 6 (arXiv 1905.02244)."""

    __shown__ = ()


@layer(F.hardswish)
class Hardswish(_InPlace):
    """x * hardsigmoid(x) (arXiv 1905.02244)."""

    __shown__ = ()


@layer()
class _Shrink(_Elementwise):
    lambd: float = 0.5

    def extra_repr(self) -> str:
        return str(self.lambd)


@layer(F.hardshrink)
class Hardshrink(_Shrink):
    """x, or 0 where |x| <= lambd."""


@layer(F.softshrink)
class Softshrink(_Shrink):
    """x brought nearer to 0 by lambd, and 0 where |x| <= lambd."""


@layer(F.softsign)
class Softsign(_Elementwise):
    """x / (1 + |x|)."""


# --- exponentials


@layer()
class _Alpha(_Elementwise):
    alpha: float = 1.0
    inplace: bool = False


@layer(F.elu)
class ELU(_Alpha):
    """x where x > 0, else alpha * (exp(x) - 1) (arXiv 1511.07289)."""


@layer(F.celu)
class CELU(_Alpha):
    """x where x > 0, else alpha * (exp(x / alpha) - 1) (arXiv 1704.07483)."""


@layer(F.selu)
class SELU(_InPlace):
    """ELU with the constants that keep mean 0 and variance 1 (arXiv 1706.02515)."""


@layer(F.gelu)
class GELU(_Elementwise):
    """x * Phi(x) (arXiv 1606.08415)."""

    approximate: str = "none"

    def extra_repr(self) -> str:
        return f"approximate={self.approximate!r}"


@layer(F.silu)
class SiLU(_InPlace):
    """x * sigmoid(x) (arXiv 1606.08415)."""


@layer(F.mish)
class Mish(_InPlace):
    """x * tanh(softplus(x)) (arXiv 1908.08681)."""


@layer(F.softplus)
class Softplus(_Elementwise):
    """log(1 + exp(beta * x)) / beta; x itself where beta * x > threshold."""

    beta: float = 1.0
    threshold: float = 20.0


@layer(F.tanh)
class Tanh(_Elementwise):
    """tanh(x)."""


@layer(F.tanhshrink)
class Tanhshrink(_Elementwise):
    """x - tanh(x)."""


@layer(F.sigmoid)
class Sigmoid(_Elementwise):
    """1 / (1 + exp(-x))."""


@layer(F.logsigmoid)
class LogSigmoid(_Elementwise):
    """log(sigmoid(x)), without overflow."""


# --- over a dim


@layer(F.glu, "Half the size in `dim`.")
class GLU(OneInput):
    """a * sigmoid(b) of the two halves of a dim (arXiv 1612.08083)."""

    dim: int = -1


@layer()
class _OverDim(OneInput):
    """A function over one dim."""

    dim: int | None = None
    _stacklevel = 5  # a warning about an implicit dim points to the user's line


@layer(F.softmax)
class Softmax(_OverDim):
    """exp(x) / sum(exp(x)) over a dim."""


@layer(F.softmin)
class Softmin(_OverDim):
    """softmax(-x) over a dim."""


@layer(F.log_softmax)
class LogSoftmax(_OverDim):
    """log(softmax(x)) over a dim."""


class Softmax2d(Module):
    """Softmax over the channels of each pixel: (N, C, H, W) or (C, H, W)."""

    def forward(self, input: Tensor) -> Tensor:
        """The same shape. ValueError for another number of dims."""
        if input.ndim not in (3, 4):
            raise ValueError(f"Softmax2d: expected input to be 3D or 4D, got {input.ndim}D instead")
        return F.softmax(input, -3)


@layer()
class _DropoutNd(OneInput):
    """What drops with probability p in training. ValueError unless 0 <= p <= 1."""

    p: float = 0.5
    inplace: bool = False

    def _check_fields(self) -> None:
        name, p = type(self).__name__, self.p
        try:
            fits = 0 <= p <= 1
        except TypeError:
            raise TypeError(f"{name}: p must be a number from 0 to 1, got {p!r}") from None
        if not fits:
            raise ValueError(f"{name}: dropout probability has to be between 0 and 1, but got {p}")


@layer(F.dropout)
class Dropout(_DropoutNd):
    """In training, zeros each element with probability p and scales the rest by 1 / (1 - p)."""


@layer(F.dropout1d)
class Dropout1d(_DropoutNd):
    """Dropout of whole channels: (N, C, L) or (C, L) (arXiv 1411.4280)."""


@layer(F.dropout2d)
class Dropout2d(_DropoutNd):
    """Dropout of whole channels: (N, C, H, W)."""


@layer(F.dropout3d)
class Dropout3d(_DropoutNd):
    """Dropout of whole channels: (N, C, D, H, W) or (C, D, H, W)."""


class AlphaDropout(_DropoutNd):
    """Dropout to the value that SELU saturates at, keeping mean 0 and variance 1 (1706.02515)."""

    def forward(self, input: Tensor) -> Tensor:
        """The same shape; never in place, as in PyTorch."""
        return F.alpha_dropout(input, self.p, self.training)


class FeatureAlphaDropout(_DropoutNd):
    """AlphaDropout of whole channels: (N, C, *)."""

    def forward(self, input: Tensor) -> Tensor:
        """The same shape; never in place, as in PyTorch."""
        return F.feature_alpha_dropout(input, self.p, self.training)
