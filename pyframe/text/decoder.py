"""Decoders: language models that say which token comes next."""

from __future__ import annotations

import contextlib
import math
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import pyframe as pf
from pyframe import nn
from pyframe.core.sizes import size_hint
from pyframe.nn import functional as F
from pyframe.nn.quantized import QuantizedLinear
from pyframe.ops.index.rows import checked_classes
from pyframe.tensor import Tensor
from pyframe.text.config import Config
from pyframe.text.generate import Cache, Stream, Writer, stream
from pyframe.text.loading import Pretrained
from pyframe.text.rotary import Rotary, turned
from pyframe.text.training import IGNORED
from pyframe.utils.checkpoint import checkpoint

__all__ = ["CausalLM"]

WRITERS = 4  # that a model keeps
SCORES = 1 << 21  # that a loss has at once
VOCABULARY_PARTS = 16  # of the vocabulary at most, of which each is a product
ACTIVATIONS: dict[str, Callable[[Tensor], Tensor]] = {
    "silu": F.silu, "swish": F.silu, "gelu": F.gelu, "relu": F.relu,
    "gelu_new": lambda x: F.gelu(x, approximate="tanh"),
    "gelu_pytorch_tanh": lambda x: F.gelu(x, approximate="tanh"),
}  # fmt: skip


class RMSNorm(nn.RMSNorm):
    """x / rms(x) * weight, computed in float32 (arXiv 1910.07467); with `plus_one` * (1 + weight),
    as Gemma has it."""

    def __init__(self, size: int, eps: float, plus_one: bool = False) -> None:
        super().__init__(size, eps=eps)
        self.plus_one = plus_one
        if plus_one:
            nn.init.zeros_(self.weight)

    def forward(self, x: Tensor) -> Tensor:
        """(..., size) -> the same."""
        wide = F.rms_norm(x.float(), self.normalized_shape, None, self.eps)
        if self.plus_one:
            return (wide * (1 + self.weight.float())).to(x.dtype)
        return self.weight * wide.to(x.dtype)


def norm(c: Config, size: int | None = None) -> nn.Module:
    """The norm that a model has, over its width or another size."""
    size = size or c.hidden_size
    if c.norm == "layer":
        return nn.LayerNorm(size, eps=c.norm_eps)
    return RMSNorm(size, c.norm_eps, c.norm == "rms+1")


class Attention(nn.Module):
    """Attention to the tokens before, of which several heads may share keys and values."""

    def __init__(self, c: Config, layer: int) -> None:
        super().__init__()
        self.layer, self.head_dim, self.scale = layer, c.head_dim, c.scale
        self.cap, self.dropout, self.causal = c.scores_cap, c.attention_dropout, not c.encoder
        self.heads = [c.num_attention_heads, c.num_key_value_heads, c.num_key_value_heads]
        widths = [n * c.head_dim for n in self.heads]
        self.fused = c.fused
        if c.fused:
            self.qkv_proj = nn.Linear(c.hidden_size, sum(widths), bias=c.qkv_bias)
        else:
            self.q_proj, self.k_proj, self.v_proj = (
                nn.Linear(c.hidden_size, n, bias=c.qkv_bias) for n in widths
            )
        self.o_proj = nn.Linear(widths[0], c.hidden_size, bias=c.output_bias)
        self.q_norm = norm(c, c.head_dim) if c.qk_norm else None
        self.k_norm = norm(c, c.head_dim) if c.qk_norm else None

    def forward(
        self, x: Tensor, rotary: tuple[Tensor, Tensor] | None, mask: Tensor | None,
        cache: Cache | None, slots: Tensor | None,
    ) -> Tensor:  # fmt: skip
        """(B, T, width) -> the same; `slots` (T,) are where a cache takes the new tokens, `mask`
        (1 or B, 1, T, S) says which of its S they see. None: each sees itself and those before, in
        an encoder all."""
        b, t, _ = x.shape
        if self.fused:
            parts = self.qkv_proj(x).split([n * self.head_dim for n in self.heads], -1)
        else:
            parts = (self.q_proj(x), self.k_proj(x), self.v_proj(x))
        q, k, v = (
            part.view(b, t, n, self.head_dim) for part, n in zip(parts, self.heads, strict=True)
        )
        if self.q_norm is not None and self.k_norm is not None:
            q, k = self.q_norm(q), self.k_norm(k)
        q, k, v = q.transpose(1, 2), k.transpose(1, 2), v.transpose(1, 2)
        if rotary is not None:
            q, k = turned(q, *rotary), turned(k, *rotary)
        if cache is not None and slots is not None:
            k, v = cache.put(self.layer, slots, k, v)
        out = self.attend(q, k, v, mask)
        return self.o_proj(out.transpose(1, 2).reshape(b, t, self.heads[0] * self.head_dim))

    def attend(self, q: Tensor, k: Tensor, v: Tensor, mask: Tensor | None) -> Tensor:
        """(B, heads, T, head_dim), of keys and values (B, key heads, S, head_dim)."""
        dropout = self.dropout if self.training else 0.0
        grouped = self.heads[0] != self.heads[1]
        if self.cap is None:
            return F.scaled_dot_product_attention(
                q, k, v, mask, dropout, self.causal and mask is None, self.scale, enable_gqa=grouped
            )
        if grouped:
            times = self.heads[0] // self.heads[1]
            k, v = k.repeat_interleave(times, 1), v.repeat_interleave(times, 1)
        scores = q @ k.transpose(2, 3) * self.scale
        scores = self.cap * (scores / self.cap).tanh()
        if mask is None:
            t = q.shape[2]
            mask = pf.ones(t, t, dtype=pf.bool, device=q.device).tril()
        scores = (
            scores.masked_fill(~mask, pf.finfo(scores.dtype).min)
            .softmax(-1, dtype=pf.float32)
            .to(q.dtype)
        )
        return F.dropout(scores, dropout) @ v


class GatedMLP(nn.Module):
    """down(act(gate(x)) * up(x)) (arXiv 2002.05202), or down(act(up(x)))."""

    def __init__(self, c: Config) -> None:
        super().__init__()
        if c.hidden_act not in ACTIVATIONS:
            names = ", ".join(ACTIVATIONS)
            raise ValueError(f"MLP: hidden_act is one of {names}, got {c.hidden_act!r}")
        self.activation = ACTIVATIONS[c.hidden_act]
        self.gated, self.fused = c.gated, c.gated and c.fused
        width, inner, bias = c.hidden_size, c.intermediate_size, c.mlp_bias
        if self.fused:
            self.gate_up_proj = nn.Linear(width, 2 * inner, bias=bias)
        else:
            if c.gated:
                self.gate_proj = nn.Linear(width, inner, bias=bias)
            self.up_proj = nn.Linear(width, inner, bias=bias)
        self.down_proj = nn.Linear(inner, width, bias=bias)

    def forward(self, x: Tensor) -> Tensor:
        """(..., width) -> the same."""
        if not self.gated:
            return self.down_proj(self.activation(self.up_proj(x)))
        gate, up = (
            self.gate_up_proj(x).chunk(2, -1)
            if self.fused
            else (self.gate_proj(x), self.up_proj(x))
        )
        return self.down_proj(self.activation(gate) * up)


class DecoderLayer(nn.Module):
    """Attention, then the MLP; each adds to its input what it makes of that, normed."""

    def __init__(self, c: Config, layer: int) -> None:
        super().__init__()
        self.self_attn, self.mlp = Attention(c, layer), GatedMLP(c)
        self.input_layernorm, self.post_attention_layernorm = norm(c), norm(c)
        self.dropout = nn.Dropout(c.hidden_dropout)
        self.sandwich = c.sandwich
        if c.sandwich:
            self.pre_feedforward_layernorm, self.post_feedforward_layernorm = norm(c), norm(c)

    def forward(self, x: Tensor, *how: Any) -> Tensor:
        """(B, T, width) -> the same; `how` is for `Attention`."""
        seen = self.self_attn(self.input_layernorm(x), *how)
        if self.sandwich:
            x = x + self.post_attention_layernorm(seen)
            made = self.mlp(self.pre_feedforward_layernorm(x))
            return x + self.post_feedforward_layernorm(made)
        x = x + self.dropout(seen)
        return x + self.dropout(self.mlp(self.post_attention_layernorm(x)))


class Decoder(nn.Module):
    """Tokens to the features from which the next ones are told.

    Attributes:
        gradient_checkpointing: whether layers are computed again for their gradients, so that of
            each its input alone is kept (False).
    """

    gradient_checkpointing = False

    def __init__(self, c: Config) -> None:
        super().__init__()
        self.config = c
        self.embed_tokens = nn.Embedding(c.vocab_size, c.hidden_size)
        if c.learned_positions:
            self.embed_positions = nn.Embedding(c.max_position_embeddings, c.hidden_size)
        else:
            self.rotary = nn.ModuleDict(
                {kind: Rotary(p, c.head_dim, c.max_position_embeddings)
                 for kind, p in c.rotary.items()}
            )  # fmt: skip
        self.dropout = nn.Dropout(c.embedding_dropout)
        self.layers = nn.ModuleList([DecoderLayer(c, i) for i in range(c.num_hidden_layers)])
        self.norm = norm(c)

    def forward(
        self, input_ids: Tensor, attention_mask: Tensor | None = None, cache: Cache | None = None,
        slots: Tensor | None = None, hidden_states: list[Tensor] | None = None,
        segments: Tensor | None = None,
    ) -> Tensor:  # fmt: skip
        """(B, T) tokens -> (B, T, width).

        Args:
            attention_mask: (B, S) of 1 and 0: which tokens count; positions count those before.
            cache: the keys and values of tokens before, where these are put, too.
            slots: (T,) where in the cache; from 0 on if not given.
            hidden_states: a list that takes the input of each layer, and the result.
            segments: (B, T) numbers of the texts that lie side by side, which don't see each other.
        """
        if input_ids.ndim != 2:
            raise ValueError(
                f"{type(self).__name__}: input_ids are ints (texts, tokens), got "
                f"{list(input_ids.shape)}{'; unsqueeze(0) makes a row' * (input_ids.ndim == 1)}"
            )
        c, (_, t) = self.config, input_ids.shape
        if cache is not None and slots is None:
            slots = pf.arange(t, device=input_ids.device)
        own = None if segments is None else segments[:, :, None] == segments[:, None]
        if own is None:
            positions = self.positions(attention_mask, slots, t, input_ids.device)
        else:  # how many of its text come before each
            positions = own.tril(-1).sum(-1)
        x = self.embed_tokens(input_ids)
        if c.scale_embeddings:
            x = x * pf.tensor(c.hidden_size**0.5).to(x.dtype).item()
        if c.learned_positions:
            x = x + self.embed_positions(positions)
            rotary: dict[str, Any] = {}
        else:
            rotary = {kind: part(positions, x.dtype) for kind, part in self.rotary.items()}
        x = self.dropout(x)
        masks = {w: self.mask(w, attention_mask, cache, slots, t, x.device, own)
                 for w in dict.fromkeys(map(c.window, range(c.num_hidden_layers)))}  # fmt: skip
        for i, layer in enumerate(self.layers):
            if hidden_states is not None:
                hidden_states.append(x)
            how = rotary.get(c.layer_types[i]), masks[c.window(i)], cache, slots
            if self.gradient_checkpointing and pf.is_grad_enabled():
                x = checkpoint(layer, x, *how, use_reentrant=False)
            else:
                x = layer(x, *how)
        x = self.norm(x)
        if hidden_states is not None:
            hidden_states.append(x)
        return x

    def positions(
        self, attention_mask: Tensor | None, slots: Tensor | None, t: int, device: Any
    ) -> Tensor:
        """(1 or B, T): how many tokens come before each in its text."""
        if attention_mask is None:
            return (pf.arange(t, device=device) if slots is None else slots).unsqueeze(0)
        before = (attention_mask.to(pf.int64).cumsum(1) - 1).clamp(min=0)
        return before[:, -t:] if slots is None else before[:, slots]

    def mask(
        self, window: int | None, attention_mask: Tensor | None, cache: Cache | None,
        slots: Tensor | None, t: int, device: Any, own: Tensor | None = None,
    ) -> Tensor | None:  # fmt: skip
        """(1 or B, 1, T, S): what each token sees, of `window` tokens at most, and of its `own`
        text (B, T, S)."""
        length = t if cache is None else cache.length
        if (
            cache is None and attention_mask is None and own is None
            and (window is None or t <= window)
        ):  # fmt: skip
            return None
        keys = pf.arange(length, device=device)
        queries = (keys if slots is None else slots).unsqueeze(1)
        seen = keys <= queries
        if window is not None:
            seen = seen & (keys > queries - window)
        seen = seen[None, None] if own is None else seen & own.unsqueeze(1)
        return seen if attention_mask is None else seen & attention_mask.bool()[:, None, None]


class CausalLM(Pretrained):
    """A language model: tokens to the scores of each next token.

    Args:
        config: of a decoder; ValueError for an encoder's.

    >>> config = pf.text.Config.from_dict({"model_type": "llama", "vocab_size": 100, ...})
    >>> model = pf.text.CausalLM(config)
    >>> model(pf.tensor([[1, 2, 3]])).shape
    pyframe.Size([1, 3, 100])
    """

    def __init__(self, config: Config) -> None:
        super().__init__()
        if config.encoder:
            raise ValueError(f"CausalLM: {config.model_type} is an encoder; use TextEncoder")
        self.config = config
        self.model = Decoder(config)
        self.lm_head = nn.Linear(config.hidden_size, config.vocab_size, bias=False)
        std = config.extra.get("initializer_range", 0.02)  # as those that publish models begin
        for layer in self.modules():
            if isinstance(layer, (nn.Linear, nn.Embedding)):
                nn.init.normal_(layer.weight, std=std)
                if getattr(layer, "bias", None) is not None:
                    nn.init.zeros_(layer.bias)
        if config.tie_word_embeddings:
            self.lm_head.weight = self.model.embed_tokens.weight

    def forward(
        self, input_ids: Tensor, attention_mask: Tensor | None = None, cache: Cache | None = None,
        slots: Tensor | None = None, segments: Tensor | None = None,
        labels: Tensor | None = None, reduction: str = "mean",
    ) -> Tensor:  # fmt: skip
        """(B, T) tokens -> (B, T, vocab_size); see `Decoder.forward`.

        With `labels` (B, T) it is (), the loss: how unlikely each next token is, on the mean of
        those whose label is not -100; nan if there is none. Where the head doesn't learn, no more
        than a part of the scores is there at a time.

        Args:
            input_ids: ints (B, T).
            attention_mask, cache, slots, segments: as there.
            labels: the tokens, of which -100 counts not: input_ids themselves, or some of them.
            reduction: of the loss: "mean", or "none" for (B, T - 1), each token's own, 0 at -100.

        >>> model(ids, labels=ids)
        tensor(4.6052)
        """
        x = self.model(input_ids, attention_mask, cache, slots, None, segments)
        if labels is None:
            return self.scores(x)
        if reduction not in ("mean", "none"):
            raise ValueError(f"CausalLM: reduction is 'mean' or 'none', got {reduction!r:.80}")
        if labels.shape != input_ids.shape:
            raise ValueError(
                f"CausalLM: labels are of input_ids' shape {list(input_ids.shape)}, got "
                f"{list(labels.shape)}"
            )
        each = self.losses(x, labels)
        if reduction == "none":
            return each
        count = (labels[:, 1:] != IGNORED).sum()
        mean = each.sum() / count.where(count != 0, 1)  # of none the gradient is 0
        return mean.where(count != 0, math.nan)

    def losses(self, x: Tensor, labels: Tensor) -> Tensor:
        """(B, T, width) features, (B, T) tokens -> (B, T - 1); see `forward`.

        Args:
            x: the features.
            labels: the tokens, of which -100 counts not.
        """
        x, ids, head = x[:, :-1].flatten(0, 1), labels[:, 1:].flatten(), self.lm_head
        ids = checked_classes("CausalLM: labels", ids, head.out_features, IGNORED)
        fixed = isinstance(head, QuantizedLinear) or not head.weight.requires_grad
        whole = type(head) not in (nn.Linear, QuantizedLinear) or not fixed
        some = (
            1
            if whole
            else min(size_hint(len(x)) * head.out_features // SCORES + 1, VOCABULARY_PARTS)
        )
        size = -(-head.out_features // some)
        rows = [slice(a, min(a + size, head.out_features))
                for a in range(0, head.out_features, size)]  # fmt: skip
        if len(rows) == 1:
            found = [self._part(x, ids, slice(None))]
        else:  # scores are made again where their gradient is wanted
            found = [checkpoint(self._part, x, ids, r, use_reentrant=False) for r in rows]
        totals, own = (pf.stack(part) for part in zip(*found, strict=True))
        loss = totals.logsumexp(0) - own.sum(0)
        return loss.where(ids != IGNORED, 0.0).view(labels.shape[0], -1)

    def _part(self, x: Tensor, ids: Tensor, rows: slice) -> tuple[Tensor, Tensor]:
        """Of some rows of the head: the logarithm of the sum of chances (N,), and the score of the
        token that came (N,), 0 where it is not of them."""
        scores = self.scores(x, rows).float()
        tokens = pf.arange(rows.start or 0, rows.stop or scores.shape[1], device=x.device)
        return scores.logsumexp(1), scores.where(ids.unsqueeze(1) == tokens, 0.0).sum(1)

    def scores(self, x: Tensor, rows: slice = slice(None)) -> Tensor:
        """(..., width) features -> (..., vocab_size), or of some rows of the head.

        Args:
            x: the features.
            rows: a slice of tokens; all by default.
        """
        head = self.lm_head
        if rows == slice(None):
            scores = head(x)
        elif isinstance(head, QuantizedLinear):
            scores = head(x, rows)
        else:
            scores = F.linear(x, head.weight[rows])
        if self.config.logits_cap is None:
            return scores
        return self.config.logits_cap * (scores / self.config.logits_cap).tanh()

    @contextlib.contextmanager
    def writer(self, batch: int, length: int) -> Iterator[Writer]:
        """The compiled steps for so many texts of up to `length` tokens, for one stream: they are
        kept for the next one.

        Args:
            batch: how many texts.
        """
        weight = self.model.norm.weight
        key = batch, length, weight.device, weight.dtype
        kept = self.__dict__.setdefault("_writers", {})
        writer = kept.pop(key, None) or Writer(self, batch, length)
        try:
            yield writer
        finally:
            kept[key] = writer
            while len(kept) > WRITERS:
                del kept[next(iter(kept))]

    def stream(
        self, input_ids: Tensor | Sequence[Any], max_new_tokens: int | None = None, **how: Any
    ) -> Stream:
        """`generate`, token by token: `for` and `async for` give a list of one for each text. From
        the second token on the model is taken to stay as it is, but for the values of tensors.

        Args:
            input_ids, max_new_tokens, how: as `generate` takes them.
        """
        return stream(self, input_ids, max_new_tokens, **how)

    def generate(
        self, input_ids: Tensor | Sequence[Any], max_new_tokens: int | None = None, **how: Any
    ) -> Tensor:
        """(texts, tokens) with up to `max_new_tokens` more, chosen one after the other.

        Args:
            input_ids: (texts, tokens), or the tokens of one text.
            max_new_tokens: new ones of each text (as `generation_config.json` says, or 20).
            max_length: the same, with the prompt's tokens.
            attention_mask: the same shape, 0 for what fills up shorter texts on their left.
            eos_token_id: a token that ends a text, or several (those of the model).
            pad_token_id: what fills up texts that end before others (that of the model, or the
                first of `eos_token_id`).
            seed: of what is drawn (goes on with the default generator).
            num_return_sequences: how often each text is written.
            writer: a `Writer(model, 1, slots)` that goes on with the text that it has read.
            scores: a list that takes, for each new token, the (texts, vocab_size) scores of which
                it was chosen, after penalties, temperature and what is not to be drawn.
            do_sample, temperature, top_k, top_p, min_p, repetition_penalty, no_repeat_ngram_size,
                bad_words_ids, suppress_tokens, begin_suppress_tokens, min_new_tokens, min_length:
                see `Sampling`; unless given they are as `generation_config.json` says.
            how: these by name.

        ValueError or TypeError for what are no tokens of the model, and for other arguments.
        """
        stream = self.stream(input_ids, max_new_tokens, **how)
        return stream.whole(list(stream))

    async def generate_async(
        self, input_ids: Tensor | Sequence[Any], max_new_tokens: int | None = None, **how: Any
    ) -> Tensor:
        """`generate` that gives the thread back while it waits for the GPU."""
        stream = self.stream(input_ids, max_new_tokens, **how)
        return stream.whole([row async for row in stream])
