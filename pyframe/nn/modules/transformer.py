"""Transformers (arXiv 1706.03762), as torch.nn.modules.transformer."""

from __future__ import annotations

import copy
import math
from collections.abc import Callable
from typing import Any

from pyframe.core.modes import is_grad_enabled
from pyframe.nn import functional as F, init
from pyframe.nn.modules.activation import GELU, Dropout, MultiheadAttention, ReLU
from pyframe.nn.modules.container import ModuleList
from pyframe.nn.modules.linear import Linear
from pyframe.nn.modules.module import Module
from pyframe.nn.modules.normalization import LayerNorm
from pyframe.ops.index.masks import triu
from pyframe.ops.math import elementwise as el
from pyframe.ops.random.creation import full
from pyframe.ops.reduce import reductions as rd
from pyframe.ops.shape import movement as mv
from pyframe.tensor import Tensor

__all__ = [
    "Transformer", "TransformerDecoder", "TransformerDecoderLayer", "TransformerEncoder",
    "TransformerEncoderLayer",
]  # fmt: skip

_Activation = str | Callable[[Tensor], Tensor]


def _activation(given: _Activation) -> Callable[[Tensor], Tensor]:
    if not isinstance(given, str):
        return given
    if given not in ("relu", "gelu"):
        raise RuntimeError(f"activation should be relu/gelu, not {given}")
    return F.relu if given == "relu" else F.gelu


class _TransformerLayer(Module):
    """What both layers have: attention on the sequence itself and two linear maps, each with its
    dropout and its norm, which stands before it (`norm_first`) or behind the sum."""

    def __init__(
        self, d_model: int, nhead: int, dim_feedforward: int = 2048, dropout: float = 0.1,
        activation: _Activation = F.relu, layer_norm_eps: float = 1e-5, batch_first: bool = False,
        norm_first: bool = False, bias: bool = True, device: Any = None, dtype: Any = None,
    ) -> None:  # fmt: skip
        super().__init__()
        kw: dict[str, Any] = {"bias": bias, "device": device, "dtype": dtype}
        blocks = self._attentions
        for name in blocks:
            attention = MultiheadAttention(d_model, nhead, dropout, batch_first=batch_first, **kw)
            setattr(self, name, attention)
        self.linear1 = Linear(d_model, dim_feedforward, **kw)
        self.dropout = Dropout(dropout)
        self.linear2 = Linear(dim_feedforward, d_model, **kw)
        self.norm_first = norm_first
        numbers = range(1, len(blocks) + 2)
        for i in numbers:
            setattr(self, f"norm{i}", LayerNorm(d_model, layer_norm_eps, **kw))
        for i in numbers:
            setattr(self, f"dropout{i}", Dropout(dropout))
        self.activation = _activation(activation)
        relu = self.activation is F.relu or isinstance(self.activation, ReLU)
        gelu = self.activation is F.gelu or isinstance(self.activation, GELU)
        self.activation_relu_or_gelu = 1 if relu else 2 if gelu else 0

    _attentions: tuple[str, ...]

    def _around(self, x: Tensor, norm: Module, block: Callable[[Tensor], Tensor]) -> Tensor:
        return x + block(norm(x)) if self.norm_first else norm(x + block(x))

    def _sa_block(
        self, x: Tensor, attn_mask: Tensor | None, key_padding_mask: Tensor | None,
        is_causal: bool = False,
    ) -> Tensor:  # fmt: skip
        """Attention on the sequence itself."""
        found = self.self_attn(x, x, x, key_padding_mask, False, attn_mask, is_causal=is_causal)
        return self.dropout1(found[0])

    def _ff_block(self, x: Tensor) -> Tensor:
        """The two linear maps."""
        x = self.linear2(self.dropout(self.activation(self.linear1(x))))
        last = self.dropout2 if len(self._attentions) == 1 else self.dropout3
        return last(x)


class TransformerEncoderLayer(_TransformerLayer):
    """Attention of a sequence on itself, then two linear maps, each added to what it began with and
    normalized (arXiv 1706.03762): x = norm1(x + attention(x)), x = norm2(x +
    linear2(relu(linear1(x)))).

    Called as layer(src, src_mask, src_key_padding_mask) with src (S, N, d_model) or (S, d_model);
    the shape stays. Masks are MultiheadAttention's.

    Args:
        d_model: the width of the sequence.
        nhead: the number of heads, which divides d_model.
        dim_feedforward: the width between the two linear maps.
        dropout: the probability of every dropout: of the weights of attention, within and behind
            the linear maps, and behind attention.
        activation: 'relu', 'gelu' or a function of a tensor.
        layer_norm_eps: the eps of the LayerNorms.
        batch_first: whether src is (N, S, d_model).
        norm_first: whether each norm stands before its block: x = x + attention(norm1(x)).
        bias: whether linear maps and norms have one.

    Attributes:
        self_attn, linear1, linear2, norm1, norm2: the layers.

    >>> nn.TransformerEncoderLayer(8, 2, 32)(pf.randn(10, 3, 8)).shape
    pyframe.Size([10, 3, 8])
    """

    _attentions = ("self_attn",)

    def forward(
        self, src: Tensor, src_mask: Tensor | None = None,
        src_key_padding_mask: Tensor | None = None, is_causal: bool = False,
    ) -> Tensor:  # fmt: skip
        """(S, N, E), or (N, S, E) with `batch_first`, or (S, E); masks as in MultiheadAttention.

        Args:
            src: the sequence.
            src_mask: (S, S), or (N * nhead, S, S).
            src_key_padding_mask: (N, S).
            is_causal: whether `src_mask` is the causal one.
        """
        x = self._around(
            src, self.norm1,
            lambda x: self._sa_block(x, src_mask, src_key_padding_mask, is_causal),
        )  # fmt: skip
        return self._around(x, self.norm2, self._ff_block)


class TransformerDecoderLayer(_TransformerLayer):
    """Attention of a sequence on itself, then on an encoder's result, then two linear maps, each
    added to what it began with and normalized (arXiv 1706.03762).

    Called as layer(tgt, memory, tgt_mask, memory_mask, …) with tgt (T, N, d_model) and memory
    (S, N, d_model), or both without N; tgt's shape stays. Arguments are TransformerEncoderLayer's.

    Attributes:
        self_attn, multihead_attn, linear1, linear2, norm1, norm2, norm3: the layers.

    >>> nn.TransformerDecoderLayer(8, 2, 32)(pf.randn(4, 3, 8), pf.randn(10, 3, 8)).shape
    pyframe.Size([4, 3, 8])
    """

    _attentions = ("self_attn", "multihead_attn")

    def forward(
        self, tgt: Tensor, memory: Tensor, tgt_mask: Tensor | None = None,
        memory_mask: Tensor | None = None, tgt_key_padding_mask: Tensor | None = None,
        memory_key_padding_mask: Tensor | None = None, tgt_is_causal: bool = False,
        memory_is_causal: bool = False,
    ) -> Tensor:  # fmt: skip
        """tgt (T, N, E) and memory (S, N, E), or (N, T, E), … with `batch_first`, or without N.

        Args:
            tgt, memory: the sequence, and what an encoder gave.
            tgt_mask, memory_mask: (T, T) and (T, S), or such of each head, as of
                MultiheadAttention.
            tgt_key_padding_mask, memory_key_padding_mask: (N, T) and (N, S).
            tgt_is_causal, memory_is_causal: whether these masks are causal ones.
        """
        x = self._around(
            tgt, self.norm1,
            lambda x: self._sa_block(x, tgt_mask, tgt_key_padding_mask, tgt_is_causal),
        )  # fmt: skip
        x = self._around(
            x, self.norm2,
            lambda x: self._mha_block(
                x, memory, memory_mask, memory_key_padding_mask, memory_is_causal
            ),
        )  # fmt: skip
        return self._around(x, self.norm3, self._ff_block)

    def _mha_block(
        self, x: Tensor, mem: Tensor, attn_mask: Tensor | None, key_padding_mask: Tensor | None,
        is_causal: bool = False,
    ) -> Tensor:  # fmt: skip
        """Attention on the encoder's result."""
        found = self.multihead_attn(
            x, mem, mem, key_padding_mask, False, attn_mask, is_causal=is_causal
        )
        return self.dropout2(found[0])


def _clones(layer: Module, n: int) -> ModuleList:
    return ModuleList([copy.deepcopy(layer) for _ in range(n)])


class TransformerEncoder(Module):
    """`num_layers` copies of a layer, one after the other, and a norm. The shape stays.

    Where PyTorch leaves out what is padded (`use_nested_tensor`; in evaluation, without gradients,
    with src_key_padding_mask alone, True at the ends), its result is 0 there before the norm: here
    too.

    Args:
        encoder_layer: the layer to copy. Copies begin with its weights, all the same.
        norm: a module behind the last one; None for none.
        enable_nested_tensor: whether what is padded is 0, as above.
        mask_check: it changes nothing.

    >>> encoder = nn.TransformerEncoder(nn.TransformerEncoderLayer(8, 2, 32), 2)
    >>> encoder(pf.randn(10, 3, 8)).shape, len(encoder.layers)
    (pyframe.Size([10, 3, 8]), 2)
    """

    def __init__(
        self, encoder_layer: Any, num_layers: int, norm: Module | None = None,
        enable_nested_tensor: bool = True, mask_check: bool = True,
    ) -> None:  # fmt: skip
        super().__init__()
        self.layers = _clones(encoder_layer, num_layers)
        self.num_layers, self.norm = num_layers, norm
        self.enable_nested_tensor, self.mask_check = enable_nested_tensor, mask_check
        self.use_nested_tensor = enable_nested_tensor and _may_leave_out(encoder_layer)

    def forward(
        self, src: Tensor, mask: Tensor | None = None, src_key_padding_mask: Tensor | None = None,
        is_causal: bool | None = None,
    ) -> Tensor:  # fmt: skip
        """(S, N, E), or (N, S, E) with layers of `batch_first`, or (S, E).

        `is_causal` says that the mask is the causal one; it makes no difference to the result.

        Args:
            src: the sequence.
            mask: (S, S), or (N * nhead, S, S).
            src_key_padding_mask: (N, S): what counts not.
        """
        padding = src_key_padding_mask
        x = src
        for layer in self.layers:
            x = layer(x, src_mask=mask, is_causal=bool(is_causal), src_key_padding_mask=padding)
        if padding is not None and mask is None and src.ndim == 3 and self._leaves_out(src):
            out = el.ne(padding, 0)
            at_end = rd.all(el.ge(out[:, 1:], out[:, :-1]))
            x = el.where(mv.unsqueeze(el.logical_and(out, at_end), -1), 0.0, x)
        return x if self.norm is None else self.norm(x)

    def _leaves_out(self, src: Tensor) -> bool:
        first = self.layers[0]
        if not self.use_nested_tensor or first.training:
            return False
        return not is_grad_enabled() or not any(x.requires_grad for x in (src, *first.parameters()))


def _may_leave_out(layer: Any) -> bool:
    """Whether PyTorch's fast path takes such layers."""
    return (
        isinstance(layer, TransformerEncoderLayer)
        and not layer.norm_first
        and layer.self_attn.batch_first
        and layer.self_attn._qkv_same_embed_dim
        and layer.self_attn.in_proj_bias is not None
        and layer.activation_relu_or_gelu != 0
        and layer.norm1.eps == layer.norm2.eps
        and layer.self_attn.num_heads % 2 == 0
    )


class TransformerDecoder(Module):
    """`num_layers` copies of a layer, one after the other, and a norm. tgt's shape stays.

    Args:
        decoder_layer: the layer to copy. Copies begin with its weights, all the same.
        norm: a module behind the last one; None for none.

    >>> decoder = nn.TransformerDecoder(nn.TransformerDecoderLayer(8, 2, 32), 2)
    >>> decoder(pf.randn(4, 3, 8), pf.randn(10, 3, 8)).shape
    pyframe.Size([4, 3, 8])
    """

    def __init__(self, decoder_layer: Any, num_layers: int, norm: Module | None = None) -> None:
        super().__init__()
        self.layers = _clones(decoder_layer, num_layers)
        self.num_layers, self.norm = num_layers, norm

    def forward(
        self, tgt: Tensor, memory: Tensor, tgt_mask: Tensor | None = None,
        memory_mask: Tensor | None = None, tgt_key_padding_mask: Tensor | None = None,
        memory_key_padding_mask: Tensor | None = None, tgt_is_causal: bool | None = None,
        memory_is_causal: bool = False,
    ) -> Tensor:  # fmt: skip
        """tgt (T, N, E) and memory (S, N, E), or (N, T, E), … with layers of `batch_first`.

        Args:
            tgt, memory: the sequence, and what an encoder gave.
            tgt_mask, memory_mask: (T, T) and (T, S), or such of each head, as of
                MultiheadAttention.
            tgt_key_padding_mask, memory_key_padding_mask: (N, T) and (N, S).
            tgt_is_causal, memory_is_causal: whether these masks are causal ones.
        """
        x = tgt
        for layer in self.layers:
            x = layer(
                x, memory, tgt_mask=tgt_mask, memory_mask=memory_mask,
                tgt_key_padding_mask=tgt_key_padding_mask,
                memory_key_padding_mask=memory_key_padding_mask,
                tgt_is_causal=bool(tgt_is_causal), memory_is_causal=memory_is_causal,
            )  # fmt: skip
        return x if self.norm is None else self.norm(x)


class Transformer(Module):
    """An encoder of a source sequence, and a decoder of a target sequence that looks at it
    (arXiv 1706.03762). Embeddings, positions and a last linear map are not in it.

    Called as net(src, tgt, tgt_mask=…) with src (S, N, d_model) and tgt (T, N, d_model), or both
    without N; tgt's shape stays. `generate_square_subsequent_mask(T)` is the mask of a target that
    is not to be looked at ahead. Arguments are TransformerEncoderLayer's, and those of both parts.

    Args:
        num_encoder_layers, num_decoder_layers: how many layers each has.
        custom_encoder, custom_decoder: modules instead of them.

    Raises:
        RuntimeError: when called with another width, or batches of two sizes.

    >>> net = nn.Transformer(8, 2, 1, 1, dim_feedforward=32)
    >>> net(pf.randn(10, 3, 8), pf.randn(4, 3, 8)).shape
    pyframe.Size([4, 3, 8])
    """

    def __init__(
        self, d_model: int = 512, nhead: int = 8, num_encoder_layers: int = 6,
        num_decoder_layers: int = 6, dim_feedforward: int = 2048, dropout: float = 0.1,
        activation: _Activation = F.relu, custom_encoder: Any = None, custom_decoder: Any = None,
        layer_norm_eps: float = 1e-5, batch_first: bool = False, norm_first: bool = False,
        bias: bool = True, device: Any = None, dtype: Any = None,
    ) -> None:  # fmt: skip
        super().__init__()
        kw: dict[str, Any] = {"bias": bias, "device": device, "dtype": dtype}
        for name, custom, net, layer, n in [
            ("encoder", custom_encoder, TransformerEncoder, TransformerEncoderLayer,
             num_encoder_layers),
            ("decoder", custom_decoder, TransformerDecoder, TransformerDecoderLayer,
             num_decoder_layers),
        ]:  # fmt: skip
            if custom is None:
                one = layer(
                    d_model, nhead, dim_feedforward, dropout, activation, layer_norm_eps,
                    batch_first, norm_first, **kw,
                )  # fmt: skip
                custom = net(one, n, LayerNorm(d_model, layer_norm_eps, **kw))
            setattr(self, name, custom)
        self.d_model, self.nhead, self.batch_first = d_model, nhead, batch_first
        self._reset_parameters()

    def _reset_parameters(self) -> None:
        """Weights as Glorot's; biases and norms stay as their layers made them."""
        for p in self.parameters():
            if p.ndim > 1:
                init.xavier_uniform_(p)

    def forward(
        self, src: Tensor, tgt: Tensor, src_mask: Tensor | None = None,
        tgt_mask: Tensor | None = None, memory_mask: Tensor | None = None,
        src_key_padding_mask: Tensor | None = None, tgt_key_padding_mask: Tensor | None = None,
        memory_key_padding_mask: Tensor | None = None, src_is_causal: bool | None = None,
        tgt_is_causal: bool | None = None, memory_is_causal: bool = False,
    ) -> Tensor:  # fmt: skip
        """src (S, N, E) and tgt (T, N, E), or (N, S, E), … with `batch_first`, or without N.

        Args:
            src, tgt: the two sequences.
            src_mask, tgt_mask, memory_mask: (S, S), (T, T) and (T, S), as of MultiheadAttention.
            src_key_padding_mask, tgt_key_padding_mask, memory_key_padding_mask: (N, S), (N, T), (N,
                S).
            src_is_causal, tgt_is_causal, memory_is_causal: whether these masks are causal ones.
        """
        dim = 0 if self.batch_first else 1
        if src.ndim == 3 and src.shape[dim] != tgt.shape[dim]:
            raise RuntimeError(
                "the batch number of src and tgt must be equal, got shapes "
                f"{list(src.shape)} and {list(tgt.shape)} with batch_first={self.batch_first}"
            )
        if src.shape[-1] != self.d_model or tgt.shape[-1] != self.d_model:
            raise RuntimeError(
                "the feature number of src and tgt must be equal to d_model, got "
                f"{src.shape[-1]} and {tgt.shape[-1]} for d_model={self.d_model}"
            )
        memory = self.encoder(
            src, mask=src_mask, src_key_padding_mask=src_key_padding_mask, is_causal=src_is_causal
        )
        return self.decoder(
            tgt, memory, tgt_mask=tgt_mask, memory_mask=memory_mask,
            tgt_key_padding_mask=tgt_key_padding_mask,
            memory_key_padding_mask=memory_key_padding_mask, tgt_is_causal=tgt_is_causal,
            memory_is_causal=memory_is_causal,
        )  # fmt: skip

    @staticmethod
    def generate_square_subsequent_mask(sz: int, device: Any = None, dtype: Any = None) -> Tensor:
        """(sz, sz): 0 on and below the diagonal, -inf above it.

        Args:
            sz: the length T of the target.
        """
        return triu(full((sz, sz), -math.inf, device=device, dtype=dtype), 1)
