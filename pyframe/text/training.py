"""What a language model learns from: texts side by side, and what of them counts."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeAlias

import pyframe as pf
from pyframe import nn
from pyframe.nn import functional as F
from pyframe.tensor import Tensor

__all__ = ["NextToken", "pack"]

IGNORED = -100  # the label of a token that doesn't count
Text: TypeAlias = Sequence[int] | tuple[Sequence[int], Sequence[int]]


def pack(texts: Sequence[Text], length: int, pad: int = 0) -> dict[str, Tensor]:
    """Texts in rows of `length` tokens, as many beside each other as fit, each in the first row
    that has room; longer ones are cut into several.

    Args:
        texts: tokens, or (prompt, answer), of which the answer alone is learnt.
        pad: what fills up rows.

    "input_ids", "segments" (which text a token is of, 0 for fill) and "labels", of shape (rows,
    length), for a CausalLM and the loss `NextToken`. ValueError for a text of no tokens.
    """
    rows: list[list[tuple[int, int, int]]] = []  # of (token, segment, label)
    for text in texts:
        prompt, answer = text if isinstance(text, tuple) else ([], text)
        tokens = [*prompt, *answer]
        if not tokens:
            raise ValueError("pack: there is a text of no tokens")
        labels = [IGNORED] * len(prompt) + list(answer)
        labels[0] = IGNORED  # nothing of its text comes before
        for start in range(0, len(tokens), length):
            part = list(
                zip(tokens[start : start + length], labels[start : start + length], strict=True)
            )
            row = next((r for r in rows if len(r) + len(part) <= length), None)
            if row is None:
                rows.append(row := [])
            number = row[-1][1] + 1 if row else 1
            row += [(t, number, IGNORED if i == 0 else label) for i, (t, label) in enumerate(part)]
    filled = [row + [(pad, 0, IGNORED)] * (length - len(row)) for row in rows]
    columns = pf.tensor(filled, dtype=pf.int64).reshape(-1, length, 3)
    return {n: columns[..., i].clone() for i, n in enumerate(("input_ids", "segments", "labels"))}


class NextToken(nn.Module):
    """The loss of a language model: how unlikely it finds each next token that counts.

    Args:
        reduction: 'mean' over those tokens, 'sum', or 'none' for each token's own, 0 of others.
    """

    def __init__(self, reduction: str = "mean") -> None:
        super().__init__()
        if reduction not in ("mean", "sum", "none"):
            raise ValueError(
                f"NextToken: reduction must be 'mean', 'sum' or 'none', got {reduction!r}"
            )
        self.reduction = reduction

    def forward(self, scores: Tensor, labels: Tensor) -> Tensor:
        """(B, T, vocabulary) scores and (B, T) tokens, of which -100 counts not -> (): the mean.
        Scores may be what a CausalLM makes of the same `labels` instead, () or (B, T - 1).

        Args:
            scores: those of each next token.
            labels: the tokens.
        """
        if scores.ndim == 0:  # that mean, of which the sum is made again
            count = self._count(labels)
            scores = scores.float().where(count != 0, 0.0) * count
        elif scores.ndim != 2:
            wanted = labels[:, 1:].flatten()
            each = F.cross_entropy(
                scores[:, :-1].flatten(0, 1), wanted, ignore_index=IGNORED, reduction="none"
            )
            scores = each.reshape(labels[:, 1:].shape)
        if self.reduction == "none":
            return scores
        by = self.divisor(scores, labels)
        return scores.sum() if by is None else scores.sum() / by

    def divisor(self, scores: Tensor, labels: Tensor) -> Tensor | None:
        """How many tokens count, (); None where `reduction` is 'sum'.

        Args:
            scores, labels: as of a call.
        """
        return None if self.reduction == "sum" else self._count(labels)

    def _count(self, labels: Tensor) -> Tensor:
        return (labels[:, 1:] != IGNORED).float().sum()
