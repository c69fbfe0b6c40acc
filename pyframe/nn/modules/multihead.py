"""Attention with several heads, which PyTorch has in torch.nn.modules.activation."""

from __future__ import annotations

from typing import Any

from pyframe.nn import functional as F, init
from pyframe.nn.modules.linear import NonDynamicallyQuantizableLinear
from pyframe.nn.modules.module import Module
from pyframe.nn.modules.utils import add_parameters, check_sizes
from pyframe.tensor import Tensor

__all__ = ["MultiheadAttention"]


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
