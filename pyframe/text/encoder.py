"""Encoders: BERT and its kin, whose features tell what a text is about."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pyframe as pf
from pyframe import nn
from pyframe.nn import functional as F
from pyframe.tensor import Tensor
from pyframe.text.config import Config
from pyframe.text.decoder import Attention, GatedMLP, norm
from pyframe.text.loading import Pretrained

__all__ = ["TextEncoder"]


class Embeddings(nn.Module):
    """What stands for a token, its place and which text of a pair it is of."""

    def __init__(self, c: Config) -> None:
        super().__init__()
        self.word_embeddings = nn.Embedding(c.vocab_size, c.hidden_size)
        self.position_embeddings = nn.Embedding(c.max_position_embeddings, c.hidden_size)
        self.token_type_embeddings = (
            nn.Embedding(c.type_vocab_size, c.hidden_size) if c.type_vocab_size else None
        )
        self.norm = norm(c)
        self.dropout = nn.Dropout(c.hidden_dropout)
        self.first = c.pad_token_id if c.padding_positions else None

    def forward(self, input_ids: Tensor, token_type_ids: Tensor | None) -> Tensor:
        """(B, T) -> (B, T, width)."""
        if self.first is None:
            positions = pf.arange(input_ids.shape[1], device=input_ids.device).unsqueeze(0)
        else:
            there = (input_ids != self.first).to(pf.int64)
            positions = there.cumsum(1) * there + self.first
        x = self.word_embeddings(input_ids) + self.position_embeddings(positions)
        if self.token_type_embeddings is not None:
            kinds = pf.zeros_like(input_ids) if token_type_ids is None else token_type_ids
            x = x + self.token_type_embeddings(kinds)
        return self.dropout(self.norm(x))


class EncoderLayer(nn.Module):
    """Attention, then the MLP; what each adds to its input is normed with it."""

    def __init__(self, c: Config, layer: int) -> None:
        super().__init__()
        self.self_attn, self.mlp = Attention(c, layer), GatedMLP(c)
        self.attention_norm, self.mlp_norm = norm(c), norm(c)
        self.dropout = nn.Dropout(c.hidden_dropout)

    def forward(self, x: Tensor, mask: Tensor | None) -> Tensor:
        """(B, T, width) -> the same."""
        x = self.attention_norm(x + self.dropout(self.self_attn(x, None, mask, None, None)))
        return self.mlp_norm(x + self.dropout(self.mlp(x)))


class TextEncoder(Pretrained):
    """BERT, DistilBERT, RoBERTa, MiniLM: tokens to features, and texts to vectors.

    Args:
        config: of an encoder; ValueError for a decoder's.

    >>> model = pf.text.TextEncoder.from_pretrained("sentence-transformers/all-MiniLM-L6-v2")
    >>> a, b = model.embed(["It rains.", "The weather is wet."])
    >>> (a @ b).item()
    """

    def __init__(self, config: Config) -> None:
        super().__init__()
        if not config.encoder:
            raise ValueError(f"TextEncoder: {config.model_type} is a decoder; use CausalLM")
        self.config = config
        self.embeddings = Embeddings(config)
        self.layers = nn.ModuleList(
            [EncoderLayer(config, i) for i in range(config.num_hidden_layers)]
        )

    def forward(
        self, input_ids: Tensor, attention_mask: Tensor | None = None,
        token_type_ids: Tensor | None = None, hidden_states: list[Tensor] | None = None,
    ) -> Tensor:  # fmt: skip
        """(B, T) tokens -> (B, T, width).

        Args:
            input_ids: ints (B, T).
            attention_mask: (B, T) of 1, and 0 for what fills up shorter texts.
            token_type_ids: (B, T) of 0, and 1 for the second text of a pair.
            hidden_states: a list that takes the input of each layer, and the result.
        """
        x = self.embeddings(input_ids, token_type_ids)
        mask = None if attention_mask is None else attention_mask.bool()[:, None, None]
        for layer in self.layers:
            if hidden_states is not None:
                hidden_states.append(x)
            x = layer(x, mask)
        if hidden_states is not None:
            hidden_states.append(x)
        return x

    def pooled(self, features: Tensor, attention_mask: Tensor) -> Tensor:
        """(B, T, width) -> (B, width): their mean, their largest or the first ones, as the model's
        `1_Pooling/config.json` says; of length 1 where `modules.json` says so.

        Args:
            features: what `forward` gives.
            attention_mask: (B, T) of 1, and 0 for what counts not.
        """
        there = attention_mask.unsqueeze(2).to(features.dtype)
        if self.config.pooling == "cls":
            x = features[:, 0]
        elif self.config.pooling == "max":
            x = features.masked_fill(there == 0, pf.finfo(features.dtype).min).amax(1)
        else:
            x = (features * there).sum(1) / there.sum(1).clamp(min=1e-9)
        return F.normalize(x, dim=1) if self.config.normalized else x

    def embed(self, texts: str | Sequence[str], batch_size: int = 32) -> Tensor:
        """(texts, width), or (width,) of one: vectors that lie close where texts mean the same.

        Texts are cut to what the model was made for. They are computed shortest first, so that few
        tokens fill up others.

        Args:
            texts: several, or one.
            batch_size: how many are computed at once.
        """
        many = [texts] if isinstance(texts, str) else list(texts)
        c, device = self.config, self.embeddings.word_embeddings.weight.device
        longest = c.max_position_embeddings
        if c.padding_positions:
            longest -= (c.pad_token_id or 0) + 1
        longest = min(c.longest_text or longest, longest)
        order = sorted(range(len(many)), key=lambda i: len(many[i]))
        rows: list[Any] = [None] * len(many)
        with pf.no_grad():
            for start in range(0, len(many), batch_size):
                some = order[start : start + batch_size]
                batch = self.tokenizer([many[i] for i in some], max_length=longest, device=device)
                ids, mask = batch["input_ids"], batch["attention_mask"]
                found = self.pooled(self(ids, mask, batch.get("token_type_ids")), mask)
                for i, row in zip(some, found, strict=True):
                    rows[i] = row
            if not rows:
                return pf.zeros(0, c.hidden_size, device=device)
            return rows[0] if isinstance(texts, str) else pf.stack(rows)
