"""Activations, dropout, and attention with several heads."""

from __future__ import annotations

import warnings
from typing import Any

from pyframe.nn import functional as F, init, init as _init
from pyframe.nn.modules.fields import FieldModule, OneInput, layer
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
    """Attention in several heads: softmax(q kᵀ / √(embed_dim / num_heads)) v for each, where q, k
    and v are linear maps of query, key and value, and a linear map of what all heads found
    (arXiv 1706.03762).

    Called as layer(query, key, value) of shapes (L, N, embed_dim), (S, N, kdim), (S, N, vdim), or
    all without N. It gives (output (L, N, embed_dim), weights); `forward` tells of masks and
    weights.

    Args:
        embed_dim: the width of the query and of the output; `num_heads` divides it.
        dropout: the probability with which weights are dropped in training.
        add_bias_kv: whether a learnt key and value stand behind those given.
        add_zero_attn: whether a key and value of zeros do.
        kdim: the width of the keys; None is embed_dim.
        vdim: the width of the values; None is embed_dim.
        batch_first: whether the three and the output are (N, L, embed_dim), ….

    Attributes:
        in_proj_weight: (3 * embed_dim, embed_dim), those of q, k and v in a row; None where kdim or
            vdim is another width, which have q_proj_weight, k_proj_weight and v_proj_weight.
        in_proj_bias: (3 * embed_dim,), None without `bias`.
        out_proj: the last Linear.

    Raises:
        AssertionError: `num_heads` doesn't divide `embed_dim`.

    >>> x = pf.randn(5, 2, 8)
    >>> out, weights = nn.MultiheadAttention(8, 2)(x, x, x)
    >>> out.shape, weights.shape
    (pyframe.Size([5, 2, 8]), pyframe.Size([2, 5, 5]))
    """

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

        Args:
            query, key, value: the three.
            need_weights: whether weights are returned; None else.
            key_padding_mask, attn_mask: as said; None for no mask.
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


class _Elementwise(FieldModule):
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
    """The rectifier: max(x, 0) for each element.

    >>> nn.ReLU()(pf.tensor([-1.0, 2.0]))
    tensor([0., 2.])
    """


@layer(F.leaky_relu)
class LeakyReLU(_Elementwise):
    """A rectifier that leaks: x where x > 0, else negative_slope * x, for each element.

    Args:
        negative_slope: the slope below 0.

    >>> nn.LeakyReLU(0.25)(pf.tensor([-1.0, 2.0]))
    tensor([-0.2500,  2.0000])
    """

    negative_slope: float = 1e-2
    inplace: bool = False


@layer(F.rrelu)
class RReLU(_Elementwise):
    """A LeakyReLU of random slopes: each element below 0 draws its own from [lower, upper) in
    training, and is multiplied by their mean in evaluation (arXiv 1505.00853).

    Args:
        lower, upper: the bounds of the slopes.

    Raises:
        RuntimeError: when called, unless lower <= upper, both finite.

    >>> nn.RReLU(0.25, 0.75).eval()(pf.tensor([-1.0, 2.0]))
    tensor([-0.5000,  2.0000])
    """

    lower: float = 1 / 8
    upper: float = 1 / 3
    inplace: bool = False


class PReLU(Module):
    """A LeakyReLU whose slope is learnt: x where x > 0, else weight * x (arXiv 1502.01852).

    Args:
        num_parameters: 1 for one slope, or the number of channels, the size of dim 1, for one each.
        init: the slope to begin with.

    Attributes:
        weight: the slopes, (num_parameters,). Weight decay would draw them to 0.

    >>> nn.PReLU()(pf.tensor([[-1.0, 2.0]])).tolist()
    [[-0.25, 2.0]]
    """

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
    """x where x > threshold, else `value`, for each element.

    Args:
        threshold: the bound.
        value: what replaces elements that are not above it.

    >>> nn.Threshold(0.5, -1.0)(pf.tensor([0.25, 2.0]))
    tensor([-1.,  2.])
    """

    threshold: float
    value: float
    inplace: bool = False


@layer(F.hardtanh)
class Hardtanh(_Elementwise):
    """Each element limited to [min_val, max_val]: min(max(x, min_val), max_val).

    Args:
        min_val, max_val: the least and the largest result.
        min_value, max_value: deprecated names of min_val and max_val.

    Raises:
        AssertionError: unless min_val < max_val.

    >>> nn.Hardtanh()(pf.tensor([-3.0, 0.5, 3.0]))
    tensor([-1.0000,  0.5000,  1.0000])
    """

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
    """A rectifier with an upper limit: min(max(x, 0), 6) for each element.

    >>> nn.ReLU6()(pf.tensor([-1.0, 2.0, 9.0]))
    tensor([0., 2., 6.])
    """

    __shown__ = ("inplace",)

    def __init__(self, inplace: bool = False) -> None:
        super().__init__(0.0, 6.0, inplace)


@layer(F.hardsigmoid)
class Hardsigmoid(_InPlace):
    """A sigmoid of three lines: min(max(x + 3, 0), 6) / 6 for each element (arXiv 1905.02244).

    >>> nn.Hardsigmoid()(pf.tensor([-3.0, 0.0, 1.5]))
    tensor([0.0000, 0.5000, 0.7500])
    """

    __shown__ = ()


@layer(F.hardswish)
class Hardswish(_InPlace):
    """A SiLU of two lines and a parabola: x * min(max(x + 3, 0), 6) / 6 for each element
    (arXiv 1905.02244).

    >>> nn.Hardswish()(pf.tensor([-1.0, 1.0, 4.0]))
    tensor([-0.3333,  0.6667,  4.0000])
    """

    __shown__ = ()


@layer()
class _Shrink(_Elementwise):
    lambd: float = 0.5

    def extra_repr(self) -> str:
        return str(self.lambd)


@layer(F.hardshrink)
class Hardshrink(_Shrink):
    """x where |x| > lambd, else 0, for each element.

    Args:
        lambd: the bound, a number.

    >>> nn.Hardshrink(1.0)(pf.tensor([-2.0, 0.5, 2.0]))
    tensor([-2.,  0.,  2.])
    """


@layer(F.softshrink)
class Softshrink(_Shrink):
    """Each element brought nearer to 0 by lambd, and to 0 where |x| <= lambd: sign(x) *
    max(|x| - lambd, 0).

    Args:
        lambd: how far each moves, at least 0.

    Raises:
        RuntimeError: when called, if lambd is negative or infinite.

    >>> nn.Softshrink(1.0)(pf.tensor([-2.5, 0.5, 2.0]))
    tensor([-1.5000,  0.0000,  1.0000])
    """


@layer(F.softsign)
class Softsign(_Elementwise):
    """x / (1 + |x|) for each element, which stays between -1 and 1.

    >>> nn.Softsign()(pf.tensor([-1.0, 3.0]))
    tensor([-0.5000,  0.7500])
    """


# --- exponentials


@layer()
class _Alpha(_Elementwise):
    alpha: float = 1.0
    inplace: bool = False


@layer(F.elu)
class ELU(_Alpha):
    """The exponential linear unit: x where x > 0, else alpha * (exp(x) - 1), for each element
    (arXiv 1511.07289).

    Args:
        alpha: what it comes near to, negated, far below 0.

    >>> nn.ELU()(pf.tensor([-1.0, 2.0]))
    tensor([-0.6321,  2.0000])
    """


@layer(F.celu)
class CELU(_Alpha):
    """An ELU that is smooth for each alpha: x where x > 0, else alpha * (exp(x / alpha) - 1), for
    each element (arXiv 1704.07483).

    Args:
        alpha: what it comes near to, negated, far below 0.

    Raises:
        RuntimeError: when called, if alpha is 0.

    >>> nn.CELU(2.0)(pf.tensor([-1.0, 2.0]))
    tensor([-0.7869,  2.0000])
    """


@layer(F.selu)
class SELU(_InPlace):
    """A scaled ELU: scale * (x where x > 0, else alpha * (exp(x) - 1)), with alpha = 1.67326… and
    scale = 1.0507…, which keep the mean 0 and the variance 1 from layer to layer
    (arXiv 1706.02515).

    >>> nn.SELU()(pf.tensor([-1.0, 2.0]))
    tensor([-1.1113,  2.1014])
    """


@layer(F.gelu)
class GELU(_Elementwise):
    """The Gaussian error linear unit: x * Φ(x) for each element, Φ the distribution function of the
    standard normal distribution (arXiv 1606.08415).

    Args:
        approximate: 'none', or 'tanh' for x / 2 * (1 + tanh(√(2 / π) * (x + 0.044715 x³))).

    >>> nn.GELU()(pf.tensor([-1.0, 2.0]))
    tensor([-0.1587,  1.9545])
    """

    approximate: str = "none"

    def extra_repr(self) -> str:
        return f"approximate={self.approximate!r}"


@layer(F.silu)
class SiLU(_InPlace):
    """The sigmoid linear unit, or swish: x / (1 + exp(-x)) for each element (arXiv 1606.08415).

    >>> nn.SiLU()(pf.tensor([-1.0, 2.0]))
    tensor([-0.2689,  1.7616])
    """


@layer(F.mish)
class Mish(_InPlace):
    """x * tanh(log(1 + exp(x))) for each element (arXiv 1908.08681).

    >>> nn.Mish()(pf.tensor([-1.0, 2.0]))
    tensor([-0.3034,  1.9440])
    """


@layer(F.softplus)
class Softplus(_Elementwise):
    """A smooth rectifier: log(1 + exp(beta * x)) / beta for each element.

    Args:
        beta: how sharply it bends.
        threshold: x itself is the result where beta * x is above this.

    >>> nn.Softplus()(pf.tensor([-1.0, 2.0]))
    tensor([0.3133, 2.1269])
    """

    beta: float = 1.0
    threshold: float = 20.0


@layer(F.tanh)
class Tanh(_Elementwise):
    """The hyperbolic tangent of each element: (exp(x) - exp(-x)) / (exp(x) + exp(-x)).

    >>> nn.Tanh()(pf.tensor([-1.0, 2.0]))
    tensor([-0.7616,  0.9640])
    """


@layer(F.tanhshrink)
class Tanhshrink(_Elementwise):
    """x - tanh(x) for each element.

    >>> nn.Tanhshrink()(pf.tensor([-1.0, 2.0]))
    tensor([-0.2384,  1.0360])
    """


@layer(F.sigmoid)
class Sigmoid(_Elementwise):
    """The logistic function of each element: 1 / (1 + exp(-x)), between 0 and 1.

    >>> nn.Sigmoid()(pf.tensor([-1.0, 2.0]))
    tensor([0.2689, 0.8808])
    """


@layer(F.logsigmoid)
class LogSigmoid(_Elementwise):
    """The logarithm of the sigmoid of each element: -log(1 + exp(-x)), without overflow.

    >>> nn.LogSigmoid()(pf.tensor([-1.0, 2.0]))
    tensor([-1.3133, -0.1269])
    """


# --- over a dim


@layer(F.glu, "Half the size in `dim`.")
class GLU(OneInput):
    """A gated linear unit: a * sigmoid(b), a and b being the halves of a dim (arXiv 1612.08083).
    That dim is half as large in the result.

    Raises:
        RuntimeError: when called, if the size of `dim` is odd.

    >>> nn.GLU()(pf.tensor([1.0, 2.0, 0.0, 0.0]))
    tensor([0.5000, 1.0000])
    """

    dim: int = -1


@layer()
class _OverDim(OneInput):
    """A function over one dim."""

    dim: int | None = None
    _stacklevel = 5  # a warning about an implicit dim points to the user's line


@layer(F.softmax)
class Softmax(_OverDim):
    """Scores as probabilities: exp(x) / Σ exp(x) over a dim, without overflow. The shape stays.

    Args:
        dim: the dim that the probabilities add up to 1 over. None, which is deprecated, is 0 for
            tensors of 0, 1 or 3 dims and else 1.

    >>> nn.Softmax(dim=-1)(pf.tensor([0.0, 0.0, 1.0]))
    tensor([0.2119, 0.2119, 0.5761])
    """


@layer(F.softmin)
class Softmin(_OverDim):
    """Softmax of what is negated: exp(-x) / Σ exp(-x) over a dim. The shape stays.

    Args:
        dim: as of Softmax.

    >>> nn.Softmin(dim=-1)(pf.tensor([0.0, 0.0, 1.0]))
    tensor([0.4223, 0.4223, 0.1554])
    """


@layer(F.log_softmax)
class LogSoftmax(_OverDim):
    """The logarithms of probabilities: x - log(Σ exp(x)) over a dim, without overflow. The shape
    stays.

    Args:
        dim: as of Softmax.

    >>> nn.LogSoftmax(dim=-1)(pf.tensor([0.0, 0.0, 1.0]))
    tensor([-1.5514, -1.5514, -0.5514])
    """


class Softmax2d(Module):
    """Softmax over the channels of each pixel of (N, C, H, W) or (C, H, W). The shape stays.

    Raises:
        ValueError: when called with another number of dims.

    >>> nn.Softmax2d()(pf.zeros(1, 4, 2, 2))[0, :, 0, 0]
    tensor([0.2500, 0.2500, 0.2500, 0.2500])
    """

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
    """In training each element becomes 0 with probability p, and the others are multiplied by 1 /
    (1 - p), so that the mean stays (arXiv 1207.0580). In evaluation nothing changes.

    Args:
        p: the probability, from 0 to 1.

    Raises:
        ValueError: `p` is not from 0 to 1.

    >>> layer = nn.Dropout(0.5)
    >>> sorted(set(layer(pf.ones(100)).tolist())), layer.eval()(pf.ones(2)).tolist()
    ([0.0, 2.0], [1.0, 1.0])
    """


@layer(F.dropout1d)
class Dropout1d(_DropoutNd):
    """Dropout of whole channels of (N, C, L) or (C, L): each is zeros with probability p, else
    multiplied by 1 / (1 - p) (arXiv 1411.4280). Arguments are Dropout's.

    >>> x = nn.Dropout1d(0.5)(pf.ones(1, 4, 3))
    >>> bool((x == x[:, :, :1]).all())
    True
    """


@layer(F.dropout2d)
class Dropout2d(_DropoutNd):
    """Dropout of whole channels of (N, C, H, W): each is zeros with probability p, else multiplied
    by 1 / (1 - p) (arXiv 1411.4280). Arguments are Dropout's.

    >>> x = nn.Dropout2d(0.5)(pf.ones(1, 4, 3, 3))
    >>> bool((x == x[:, :, :1, :1]).all())
    True
    """


@layer(F.dropout3d)
class Dropout3d(_DropoutNd):
    """Dropout of whole channels of (N, C, D, H, W) or (C, D, H, W): each is zeros with probability
    p, else multiplied by 1 / (1 - p) (arXiv 1411.4280). Arguments are Dropout's.

    >>> x = nn.Dropout3d(0.5)(pf.ones(1, 4, 2, 2, 2))
    >>> bool((x == x[:, :, :1, :1, :1]).all())
    True
    """


class AlphaDropout(_DropoutNd):
    """Dropout behind SELU: in training each element becomes SELU's limit, about -1.758, with
    probability p, and a linear map brings all of them back to mean 0 and variance 1
    (arXiv 1706.02515).

    Args:
        p: the probability, from 0 to 1.
        inplace: it changes nothing.

    >>> nn.AlphaDropout(0.1)(pf.randn(4, 8)).shape
    pyframe.Size([4, 8])
    """

    def forward(self, input: Tensor) -> Tensor:
        """The same shape; never in place, as in PyTorch."""
        return F.alpha_dropout(input, self.p, self.training)


class FeatureAlphaDropout(_DropoutNd):
    """AlphaDropout of whole channels of (N, C, *): all elements of a channel are dropped, or none.
    Arguments are AlphaDropout's.

    >>> nn.FeatureAlphaDropout(0.1)(pf.randn(4, 8, 5)).shape
    pyframe.Size([4, 8, 5])
    """

    def forward(self, input: Tensor) -> Tensor:
        """The same shape; never in place, as in PyTorch."""
        return F.feature_alpha_dropout(input, self.p, self.training)
