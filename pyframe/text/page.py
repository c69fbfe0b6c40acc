"""A language model's steps as a page runs them without Python: what `pf.web.export` writes down of
it, and web/texts.js asks for.

Prompts are read in parts of a few sizes, and attention looks at the begin of the cache that is
used, so that both cost what is there. All that a step leaves stays on the device: the host reads
one number a token.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import pyframe as pf
from pyframe import nn
from pyframe.tensor import Tensor
from pyframe.text.chat import MAX_SLOTS
from pyframe.text.config import Sampling
from pyframe.text.decoder import CausalLM
from pyframe.text.generate import sampling_of
from pyframe.text.tokenizer import Tokenizer

__all__ = ["Texts", "texts"]

PROMPT_CHUNKS = 16, 64, 256  # tokens of a prompt that are read at once
SPAN = 256  # slots that attention looks at, and four times as many, and so on
SCRIPT = Path(__file__).with_name("tokenizers.js")  # npm's @huggingface/tokenizers


class Texts(NamedTuple):
    """What a page needs: functions by the names of their programs, and samples of their arguments;
    the state that they share; what the page is told; files for it, and its licences."""

    functions: dict[str, Callable[..., None]]
    samples: dict[str, dict[str, Tensor]]
    state: nn.Module
    plan: dict[str, Any]
    files: dict[str, bytes]
    beside: dict[str, bytes]


class _PageState(nn.Module):
    """What stays between steps.

    Attributes:
        slot: (1,) the place of the next token in the cache.
        token: (1,) the one that was chosen last.
        scores: (1, vocabulary) of the next one.
        seen: (1, vocabulary) whether a token came before, for penalties.
        banned: (1, vocabulary) whether a token may not come next.
        how: temperature, top_k, top_p, the logarithm of min_p, and the penalty.
    """

    slot: Tensor
    token: Tensor
    scores: Tensor
    seen: Tensor
    how: Tensor

    def __init__(self, model: CausalLM, length: int) -> None:
        super().__init__()
        c, dtype = model.config, model.model.norm.weight.dtype
        shape = 2, 1, c.num_key_value_heads, length, c.head_dim
        made = {f"cache_{layer}": pf.zeros(shape, dtype=dtype)
                for layer in range(c.num_hidden_layers)}  # fmt: skip
        made |= {
            "slot": pf.zeros(1, dtype=pf.int64),
            "token": pf.zeros(1, dtype=pf.int64),
            "scores": pf.zeros(1, c.vocab_size),
            "seen": pf.zeros(1, c.vocab_size, dtype=pf.bool),
            "banned": pf.zeros(1, c.vocab_size, dtype=pf.bool),
            "how": pf.zeros(5),
        }
        for name, x in made.items():
            self.register_buffer(name, x, persistent=False)


class _Span:
    """The first `length` slots of a cache; see `generate.Cache`."""

    def __init__(self, state: _PageState, length: int) -> None:
        self.state, self.length = state, length

    def put(self, layer: int, slots: Tensor, k: Tensor, v: Tensor) -> tuple[Tensor, ...]:
        """Put keys and values into slots; those of all of the span."""
        both = getattr(self.state, f"cache_{layer}")
        both.index_copy_(3, slots, pf.stack([k, v]))
        return tuple(both[:, :, :, : self.length])


def _read(model: CausalLM, state: _PageState, span: int) -> Callable[..., None]:
    """Of a prompt's part (1, T), of which `count` (1,) tokens are there, into the slots from
    `start` (1,) on."""

    def read(ids: Tensor, start: Tensor, count: Tensor) -> None:
        slots = start + pf.arange(ids.shape[1], device=ids.device)
        x = model.model(ids, None, _Span(state, span), slots)  # type: ignore[arg-type]
        state.slot.copy_(start + count)
        state.scores.copy_(model.scores(x.index_select(1, count - 1)[:, 0]).float())

    return read


def _write(model: CausalLM, state: _PageState, span: int) -> Callable[[], None]:
    """Of the token that was chosen last."""

    def write() -> None:
        cache: Any = _Span(state, span)
        x = model.model(state.token.unsqueeze(1), None, cache, state.slot)
        state.slot.add_(1)
        state.scores.copy_(model.scores(x[:, 0]).float())

    return write


def _drawn(scores: Tensor, chance: Tensor) -> Tensor:
    """Gumbel's way to draw, as in `generate`."""
    return (scores - (-chance.clamp(min=1e-20).log()).log()).argmax(-1)


def _choices(state: _PageState) -> dict[str, Callable[[], None]]:
    """The likeliest token; one that is drawn; one of those that sampling leaves."""

    def likeliest() -> None:
        state.token.copy_(state.scores.argmax(-1))

    def drawn() -> None:
        scores = state.scores / state.how[0]
        state.token.copy_(_drawn(scores, pf.rand(scores.shape, device=scores.device)))

    def filtered() -> None:
        temperature, top_k, top_p, min_p, penalty = state.how.split(1)
        scores = state.scores
        less = pf.where(scores > 0, scores / penalty, scores * penalty)
        scores = pf.where(state.seen, less, scores) / temperature
        low = pf.finfo(scores.dtype).min
        scores = scores.masked_fill(state.banned, low)
        chance = pf.rand(scores.shape, device=scores.device)
        # in their order, in which all that a filter leaves comes first
        scores, order = scores.sort(-1, descending=True)
        scores = scores.masked_fill(scores < scores.index_select(1, top_k.long() - 1), low)
        chances = scores.softmax(-1)
        beyond = chances.cumsum(-1) - chances >= top_p
        beyond = beyond | (scores < scores[:, :1] + min_p)
        place = _drawn(scores.masked_fill(beyond, low), chance.gather(1, order))
        token = order.index_select(1, place)[0]
        state.token.copy_(token)
        state.seen.scatter_(1, token.unsqueeze(1), True)

    return {"choose.likeliest": likeliest, "choose.drawn": drawn, "choose.filtered": filtered}


def _spans(length: int) -> list[int]:
    found = [SPAN]
    while found[-1] < length:
        found.append(4 * found[-1])
    return [*found[:-1], length]


def texts(model: CausalLM, tokenizer: Any = None, length: int | None = None) -> Texts:
    """What a page needs to write as `model` does.

    Args:
        tokenizer: a Tokenizer; `bytes`, whose tokens are those of UTF-8; the character of each
            token; or None: the one of the model's files, or else a page writes tokens.
        length: tokens that a prompt and what follows may have (those of the model, 4,096 at most).

    ValueError for a length that the model doesn't have.
    """
    c, most = model.config, model.config.max_position_embeddings
    length = min(most, MAX_SLOTS) if length is None else length
    if not 1 < length <= most:
        raise ValueError(f"export: length is from 2 to the model's {most} tokens, got {length}")
    if tokenizer is None and model.place is not None:
        tokenizer = model.tokenizer
    state, spans = _PageState(model, length), _spans(length)
    parts = [n for n in PROMPT_CHUNKS if n < length] or [length]
    functions: dict[str, Callable[..., None]] = {}
    samples: dict[str, dict[str, Tensor]] = {}
    for span in spans:
        functions[f"write.{span}"], samples[f"write.{span}"] = _write(model, state, span), {}
        for n in parts:
            if n <= span:
                name = f"read.{n}.{span}"
                functions[name] = _read(model, state, span)
                ids = pf.zeros(1, n, dtype=pf.int64)
                samples[name] = {"ids": ids, "start": pf.tensor([0]), "count": pf.tensor([1])}
    choices = _choices(state)
    plain, said = dataclasses.asdict(Sampling()), dataclasses.asdict(sampling_of(c, {}))
    how = {n: v for n, v in said.items() if v != plain[n]}
    how |= {n: v for n in ("max_new_tokens", "max_length") if (v := c.generation.get(n))}
    words = {n: "".join(w.title() for w in n.split("_")) for n in how}
    plan = {
        "length": length, "spans": spans, "parts": parts, "vocabulary": c.vocab_size,
        "ends": list(c.ends), "tokens": None,
        "how": {n[0].lower() + n[1:]: how[f] for f, n in words.items()},
    }  # fmt: skip
    files, beside = _tokens(tokenizer, plan)
    return Texts(
        {**functions, **choices}, {**samples, **{name: {} for name in choices}}, state, plan,
        files, beside,
    )  # fmt: skip


def _tokens(tokenizer: Any, plan: dict[str, Any]) -> tuple[dict[str, bytes], dict[str, bytes]]:
    """Tell the page how texts are tokens: the files that say so, and a script that reads them."""
    if tokenizer is None:
        return {}, {}
    if tokenizer is bytes:
        plan["tokens"] = "bytes"
        return {}, {}
    if isinstance(tokenizer, Tokenizer):
        plan["tokens"] = "tokenizer.json"
        licence = SCRIPT.with_suffix(".LICENSE")
        return tokenizer.files(), {path.name: path.read_bytes() for path in (SCRIPT, licence)}
    characters = list(tokenizer) if isinstance(tokenizer, Sequence) else None
    if not characters or not all(isinstance(x, str) and len(x) == 1 for x in characters):
        raise TypeError(
            "export: tokenizer= is a pf.text.Tokenizer, bytes, or a character for each token, got "
            f"{type(tokenizer).__name__}"
        )
    plan["tokens"] = characters
    return {}, {}
