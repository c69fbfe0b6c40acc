"""Text from a language model: a prompt is read in one step, then each token in one of its own.

What a step computes on is memory of one size: the cache, and where in it the next token goes. So
all steps of a text are one compiled Program, and prompts are a few, by powers of two. How many
slots attention looks at is a size that changes, for which the Program is bound anew.
"""

from __future__ import annotations

import contextlib
import copy
import dataclasses
import difflib
import math
import operator
from collections.abc import (
    AsyncIterator,
    Callable,
    Generator,
    Iterable,
    Iterator,
    Mapping,
    Sequence,
)  # fmt: skip
from typing import TYPE_CHECKING, Any

import numpy as np

import pyframe as pf
from pyframe.core.packages import HOOKS_ON_ALL
from pyframe.tensor import Tensor
from pyframe.text.config import MOST_TOKENS, Config, Sampling, changes_nothing

if TYPE_CHECKING:
    from pyframe.capture.compile import CompiledFunction
    from pyframe.text.decoder import CausalLM

__all__ = ["Cache", "Sampling", "Stream", "Writer"]

NEW = 20  # tokens, unless more are asked for
MIN_PROMPT_SLOTS = 16  # tokens that a prompt is filled up to, and so on by powers of two
BLOCK = 64  # slots of which a cache has a multiple
SPAN = 128  # and of which attention looks at a multiple on the CPU: of a quarter, beyond four


class Cache:
    """The keys and values of each layer, beside each other in one tensor (2, B, heads, length,
    head_dim), of which tokens take slots.

    Args:
        config: of the model.
        batch: texts.
        length: slots.
        device, dtype: where it lies and of which dtype; None is the default.
    """

    def __init__(
        self, config: Config, batch: int, length: int, device: Any = None, dtype: Any = None
    ) -> None:
        shape = 2, batch, config.num_key_value_heads, length, config.head_dim
        self.length = length
        self.layers = [
            pf.zeros(shape, device=device, dtype=dtype) for _ in range(config.num_hidden_layers)
        ]

    def first(self, length: int) -> Cache:
        """The first slots alone, in the same memory.

        Args:
            length: how many.
        """
        part = copy.copy(self)
        part.length = length
        return part

    def put(self, layer: int, slots: Tensor, k: Tensor, v: Tensor) -> tuple[Tensor, Tensor]:
        """Put keys and values (B, heads, T, head_dim) into slots (T,); all of the layer's.

        Args:
            layer: its number, from 0.
            slots: ints, which slots.
            k, v: the keys and the values.
        """
        both = self.layers[layer]
        both.index_copy_(3, slots, pf.stack([k, v]))
        keys, values = both.narrow(3, 0, self.length)
        return keys, values


def filtered(
    scores: Tensor, temperature: float, top_k: int | None, top_p: float | None,
    min_p: float | None, banned: Tensor | None = None,
) -> Tensor:  # fmt: skip
    """(B, vocabulary) scores, those that are not to be drawn as low as can be."""
    scores = scores / temperature
    low = pf.finfo(scores.dtype).min
    if banned is not None:
        scores = scores.masked_fill(banned, low)
    if top_k is not None and top_k < scores.shape[-1]:
        least = scores.topk(top_k, -1).values[:, -1:]
        scores = scores.masked_fill(scores < least, low)
    if top_p is not None and top_p < 1:
        ordered, order = scores.sort(-1, descending=True)
        chances = ordered.softmax(-1)
        # what comes before them is enough
        beyond = chances.cumsum(-1) - chances >= max(top_p, 1e-30)
        scores = scores.masked_fill(pf.zeros_like(beyond).scatter(1, order, beyond), low)
    if min_p:
        least = scores.amax(-1, keepdim=True) + math.log(max(min_p, 1e-30))
        scores = scores.masked_fill(scores < least, low)
    return scores


class Writer:
    """The steps of a model for so many texts of some length, compiled when they are first needed.

    Args:
        model: what writes.
        batch, length: how many texts, and the most tokens of each.

    Attributes:
        cache: of the tokens so far.
        slot: (1,) the place of the next one.
        valid: (B, length) of 1, and 0 for what fills up prompts that are shorter than others.
        seen: (B, vocabulary) whether a token came before, for penalties.
        banned: (B, vocabulary) whether a token may not come next.
        ids: the tokens in the cache, of a single text: a stream that is given this writer reads
            what follows those that it has in common with them, and no more. Another stream of
            this writer, which was not done, ends.
    """

    def __init__(self, model: CausalLM, batch: int, length: int) -> None:
        weight, self.model = model.model.norm.weight, model
        self.device = weight.device
        self.cache = Cache(model.config, batch, length, self.device, weight.dtype)
        self.slot = pf.zeros(1, dtype=pf.int64, device=self.device)
        self.valid = pf.ones(batch, length, dtype=pf.int64, device=self.device)
        self.seen, self.banned = (
            pf.zeros(batch, model.config.vocab_size, dtype=pf.bool, device=self.device)
            for _ in range(2)
        )
        self.ids: list[int] = []
        self.reads: dict[int, CompiledFunction[..., tuple[Tensor, Tensor | None]]] = {}
        self.write = self._compiled(self._write)
        self.spans: dict[int, Tensor] = {}
        # A capture for many sizes is undone where a hook reads a value; what others did is not.
        hooked = any(names[n] for names, n in HOOKS_ON_ALL) or any(
            m._forward_hooks or m._forward_pre_hooks for m in model.modules()
        )
        self.changes = length > SPAN and self.device.type == "cpu" and not hooked

    def _compiled(self, step: Callable[..., Any]) -> CompiledFunction[..., Any]:
        compiled = pf.compile(step)
        compiled.proven = True  # spans are symbols in the first capture
        return compiled

    def span(self, count: int) -> Tensor:
        """Has as many elements as attention looks at slots, where `count` of them are needed."""
        length = self.cache.length
        if self.changes:
            step = max(SPAN, (1 << (count - 1).bit_length()) // 4)
            length = min(-(-count // step) * step, length)
        if length not in self.spans:
            self.spans[length] = pf.empty(length, device=self.device)
            if self.changes:
                pf.mark_dynamic(self.spans[length], 0)
        return self.spans[length]

    def read(
        self, ids: Tensor, span: Tensor, start: Tensor, count: Tensor, padded: bool,
        how: tuple[Any, ...],
    ) -> tuple[Tensor, Tensor | None]:  # fmt: skip
        """(B, T) tokens of a prompt, of which `count` (1,) are there, into the slots from `start`
        (1,) on; the token after them, as `_chosen` gives it.

        Args:
            ids, start, count: as said.
            span: what `span` gives for so many slots.
            padded: whether `valid` has zeros.
            how: of `Sampling`, in order, then the generator, whether scores are wanted, and whether
                tokens are banned.
        """
        if ids.shape[1] not in self.reads:  # a size that stays in each of them
            self.reads[ids.shape[1]] = self._compiled(self._read)
        return self.reads[ids.shape[1]](ids, span, start, count, padded, how)

    def _read(
        self, ids: Tensor, span: Tensor, start: Tensor, count: Tensor, padded: bool,
        how: tuple[Any, ...],
    ) -> tuple[Tensor, Tensor | None]:  # fmt: skip
        x = self._features(ids, span, padded, start + pf.arange(ids.shape[1], device=ids.device))
        self.slot.copy_(start + count)
        return self._chosen(x.index_select(1, count - 1), how)

    def _write(
        self, token: Tensor, span: Tensor, padded: bool, how: tuple[Any, ...]
    ) -> tuple[Tensor, Tensor | None]:
        """(B,) tokens into the next slot; those after them, as `_chosen` gives them."""
        x = self._features(token.unsqueeze(1), span, padded, self.slot)
        self.slot.add_(1)
        return self._chosen(x, how)

    def _features(self, ids: Tensor, span: Tensor, padded: bool, slots: Tensor) -> Tensor:
        length = span.shape[0]
        valid = self.valid.narrow(1, 0, length) if padded else None
        return self.model.model(ids, valid, self.cache.first(length), slots)

    def _chosen(self, x: Tensor, how: tuple[Any, ...]) -> tuple[Tensor, Tensor | None]:
        """(B,) tokens for features (B, 1, width), and if asked for (B, vocabulary) scores."""
        do_sample, temperature, top_k, top_p, min_p, penalty, generator, scored, bans = how
        banned = self.banned if bans else None
        scores = self.model.scores(x[:, 0]).float()
        if penalty is not None:
            less = pf.where(scores > 0, scores / penalty, scores * penalty)
            scores = pf.where(self.seen, less, scores)
        if do_sample:
            scores = filtered(scores, temperature, top_k, top_p, min_p, banned)
        elif banned is not None:
            scores = scores.masked_fill(banned, pf.finfo(scores.dtype).min)
        told = scores if scored else None
        if do_sample:
            chance = pf.rand(scores.shape, generator=generator, device=scores.device)
            scores = scores - (-chance.clamp(min=1e-20).log()).log()  # Gumbel's way to draw
        token = scores.argmax(-1)
        if penalty is not None:
            self.seen.scatter_(1, token.unsqueeze(1), True)
        return token, told


def common(a: Sequence[int], b: Sequence[int]) -> int:
    """How many tokens are the same at the begin of both."""
    return next(
        (n for n, (x, y) in enumerate(zip(a, b, strict=False)) if x != y), min(len(a), len(b))
    )


class Bans:
    """Which tokens may not come next in each of some texts.

    Args:
        sampling: what says so.
        texts: the tokens of each so far, with those that fill it up.
        ends: the tokens that end a text.
        vocabulary: how many tokens there are.
    """

    def __init__(
        self, sampling: Sampling, texts: list[list[int]], ends: Sequence[int], vocabulary: int
    ) -> None:
        s, self.shape = sampling, (len(texts), vocabulary)
        self.texts = [[*text] for text in texts]
        words = s.bad_words_ids or []
        if strange := [t for w in words for t in w if t >= vocabulary]:
            raise ValueError(
                f"generate: bad_words_ids are tokens from 0 to {vocabulary - 1}, got {strange[0]}"
            )
        alone = [w[0] for w in words if len(w) == 1 and w[0] not in ends]
        self.always = _known([*(s.suppress_tokens or ()), *alone], vocabulary)
        self.first = _known(s.begin_suppress_tokens or (), vocabulary)
        self.ends = _known(ends, vocabulary)
        least = s.min_new_tokens
        self.least = (s.min_length or 0) - len(texts[0]) if least is None else least
        self.after: dict[tuple[int, ...], list[int]] = {}  # the last tokens of words, by the others
        for word in words:
            if len(word) > 1:
                self.after.setdefault(tuple(word[:-1]), []).append(word[-1])
        self.lengths = {*map(len, self.after)}
        self.size = s.no_repeat_ngram_size or 0
        self.followed = [dict[tuple[int, ...], list[int]]() for _ in texts]
        for n, text in enumerate(texts if self.size else []):
            for end in range(self.size, len(text) + 1):
                self._note(n, end)

    def _note(self, n: int, end: int) -> None:
        """Note which token came after those before it."""
        *before, token = self.texts[n][end - self.size : end]
        self.followed[n].setdefault(tuple(before), []).append(token)

    def add(self, tokens: Sequence[int]) -> None:
        """One to each text."""
        for n, (text, token) in enumerate(zip(self.texts, tokens, strict=True)):
            text.append(token)
            if 0 < self.size <= len(text):
                self._note(n, len(text))

    def next(self, count: int, done: Sequence[bool]) -> np.ndarray[Any, Any]:
        """(texts, vocabulary) of bools, after `count` new tokens. ValueError where a text that is
        not `done` has none left."""
        found = np.zeros(self.shape, bool)
        some = [*self.always, *(self.first if count == 0 else ())]
        found[:, [*some, *(self.ends if count < self.least else ())]] = True
        for row, text, followed in zip(found, self.texts, self.followed, strict=True):
            for length in self.lengths:
                row[self.after.get(tuple(text[-length:]), [])] = True
            if 0 < self.size <= len(text) + 1:
                row[followed.get(tuple(text[len(text) + 1 - self.size :]), [])] = True
        if (found.all(1) & ~np.asarray(done)).any():
            raise ValueError(
                f"generate: after {count} new tokens suppress_tokens, bad_words_ids and "
                f"no_repeat_ngram_size leave none of {self.shape[1]} tokens to come next"
            )
        return found


def _known(tokens: Iterable[int], vocabulary: int) -> list[int]:
    return [t for t in tokens if 0 <= t < vocabulary]


class Stream:
    """The tokens of texts, as they are written: `for` and `async for` give a list of one for each
    text, those of texts that have ended as `pad`.

    Args:
        steps: makes the generator that gives them.
        prompt: (texts, tokens) what they come after.
    """

    def __init__(
        self, steps: Callable[[], Generator[Tensor, list[int], None]], prompt: Tensor
    ) -> None:
        self._steps, self._prompt = steps, prompt

    def whole(self, rows: list[list[int]]) -> Tensor:
        """(texts, tokens) of the prompt and what came after it.

        Args:
            rows: what this gave.
        """
        ids = self._prompt
        new = pf.tensor(rows, device=ids.device, dtype=ids.dtype).t() if rows else ids[:, :0]
        return pf.cat([ids, new], 1)

    def __iter__(self) -> Iterator[list[int]]:
        steps = self._steps()
        try:
            token = next(steps)
            while True:
                ids = token.tolist()
                yield ids
                token = steps.send(ids)
        except StopIteration:
            return

    async def __aiter__(self) -> AsyncIterator[list[int]]:
        steps = self._steps()
        try:
            token = next(steps)
            while True:
                ids = await token.tolist_async()
                yield ids
                token = steps.send(ids)
        except StopIteration:
            return


# what is called otherwise elsewhere, or is not there
_ELSEWHERE = {
    "num_beams": "beam search is not here; do_sample=True draws tokens, seed= makes them the same",
    "inputs": "input_ids", "streamer": "model.stream(input_ids) gives tokens as they come",
    "stop_strings": "tokenizer.stream(model.stream(input_ids), stop=...)",
    "stop": "tokenizer.stream(model.stream(input_ids), stop=...)",
    "stopping_criteria": "leave the loop `for tokens in model.stream(input_ids)`",
    "max_time": "leave the loop `for tokens in model.stream(input_ids)`",
    "generation_config": "its values, by their names",
    "logits_processor": "of its rules those of pf.text.Sampling, by their names",
    "output_scores": "scores=[], a list that takes them", "generator": "seed=",
    "max_tokens": "max_new_tokens=",
    "token_type_ids": "decoders have none; leave it out", "cache": "writer=",
    "past_key_values": "writer=", "tokenizer": "tokenizer.stream(model.stream(input_ids))",
    "return_dict_in_generate": "scores=[], a list that takes them",
}  # fmt: skip


_ASKS = "return_dict_in_generate", "output_scores", "output_logits"  # for what isn't given


def sampling_of(config: Config, how: dict[str, Any]) -> Sampling:
    """As a model's file says, unless a call says otherwise: None is as if neither did."""
    known = {f.name: None for f in dataclasses.fields(Sampling)}
    plain = [n for n, v in how.items() if n not in _ASKS and (v is None or changes_nothing(n, v))]
    how = {n: v for n, v in how.items() if n in known or n not in plain}
    for name in how:
        if name not in known:
            near = difflib.get_close_matches(name, known, 1)
            there = _ELSEWHERE.get(name) or (f"do you mean {near[0]}?" if near else None)
            raise TypeError(
                f"generate: there is no argument {name!r}"
                + (f": {there}" if there else f"; of how it chooses it takes {', '.join(known)}")
            )
    said = {n: v for n, v in config.generation.items() if n in known}
    if said.get("temperature") == 0:  # the likeliest token, unless it is to be drawn
        said |= {"temperature": 1.0, "do_sample": False}
    if how.get("min_length") is not None:  # which the file's min_new_tokens went before
        said.pop("min_new_tokens", None)
    return Sampling(**{n: v for n, v in {**said, **how}.items() if v is not None})


def _tokens(input_ids: Any, vocabulary: int) -> tuple[Tensor, list[list[int]]]:
    """(texts, tokens), and the same as lists. Errors for what are no tokens of a model."""
    if isinstance(input_ids, (str, bytes)):
        raise TypeError(
            f"generate: input_ids are tokens, got a {type(input_ids).__name__}; "
            "tokenizer.encode(text) makes them"
        )
    if isinstance(input_ids, Mapping):
        raise TypeError('generate: input_ids are tokens, got a dict; give its "input_ids"')
    try:
        ids = input_ids if isinstance(input_ids, Tensor) else pf.tensor(input_ids)
    except (TypeError, ValueError, OverflowError, RuntimeError) as error:
        raise ValueError(
            "generate: input_ids are ints (texts, tokens); fill up shorter texts on their left, "
            f"and say so by attention_mask: {error}"
        ) from None
    ids = ids.unsqueeze(0) if ids.ndim == 1 else ids
    if ids.ndim != 2 or not ids.shape[0] or not ids.shape[1]:
        raise ValueError(
            f"generate: input_ids are (texts, tokens) with a token at least, got {list(ids.shape)}"
        )
    if ids.dtype.is_floating_point or ids.dtype.is_complex or ids.dtype is pf.bool:
        raise TypeError(f"generate: input_ids are ints, got {ids.dtype.name}")
    if ids.dtype not in (pf.int32, pf.int64):
        ids = ids.to(pf.int64)
    rows = ids.tolist()
    for row in rows:
        for token in row:
            if not 0 <= token < vocabulary:
                raise ValueError(
                    f"generate: the model's tokens are from 0 to {vocabulary - 1}, got {token}"
                )
    return ids, rows


def _count(name: str, x: Any, least: int = 0) -> int:
    if isinstance(x, bool) or not hasattr(x, "__index__"):
        raise TypeError(f"generate: {name} is an int, got {x!r:.80}")
    if (found := operator.index(x)) < least:
        raise ValueError(f"generate: {name} is {least} or more, got {found}")
    return found


def _most(
    config: Config, count: int, slots: int, max_new_tokens: Any, max_length: Any
) -> int:  # fmt: skip
    """How many new tokens: as is asked for, else as the model's file says and there is room for."""
    if max_new_tokens is not None and max_length is not None:
        raise TypeError(
            "generate: max_length is max_new_tokens with the prompt's tokens; give one of them"
        )
    if max_new_tokens is not None:
        return _count("max_new_tokens", max_new_tokens)
    if max_length is not None:
        most = _count("max_length", max_length)
        if most <= count:
            raise ValueError(
                f"generate: the prompt has {count} tokens, max_length={most} leaves none"
            )
        return most - count
    said = config.generation
    most = said.get("max_new_tokens") or max((said.get("max_length") or 0) - count, 0)
    return min(most, max(slots - count, 1)) if most else NEW


def stream(
    model: CausalLM, input_ids: Tensor | Sequence[Any], max_new_tokens: int | None = None,
    attention_mask: Tensor | Sequence[Any] | None = None,
    eos_token_id: int | Sequence[int] | None = None, seed: int | None = None,
    num_return_sequences: int = 1, writer: Writer | None = None,
    scores: list[Tensor] | None = None, max_length: int | None = None,
    pad_token_id: int | None = None, **how: Any,
) -> Stream:  # fmt: skip
    """See `CausalLM.generate`; `scores` is a list that takes those of each token."""
    config, device = model.config, model.model.norm.weight.device
    sampling = sampling_of(config, how)
    ids, texts = _tokens(input_ids, config.vocab_size)
    given = config.ends if eos_token_id is None else eos_token_id
    ends = [
        _count("eos_token_id", e, -MOST_TOKENS)
        for e in (given.reshape(-1).tolist() if isinstance(given, Tensor)
                  else given if isinstance(given, Iterable) else [given])
    ]  # fmt: skip
    pad = config.generation.get("pad_token_id", config.pad_token_id)
    pad = pad if pad_token_id is None else _count("pad_token_id", pad_token_id, -MOST_TOKENS)
    pad = next(iter(ends), 0) if pad is None else pad
    seed = None if seed is None else _count("seed", seed, -(1 << 64))
    times = _count("num_return_sequences", num_return_sequences, 1)
    ids = ids.repeat_interleave(times, 0)
    texts = [row for row in texts for _ in range(times)]
    batch, count = ids.shape
    longest = config.max_position_embeddings
    slots = longest if writer is None else min(writer.cache.length, longest)
    max_new = _most(config, count, slots, max_new_tokens, max_length)
    if count + max_new > longest:
        raise ValueError(
            f"generate: {count} tokens and {max_new} new ones are more than the "
            f"{longest} that this model was made for; shorten the prompt"
        )
    length = min(-(-(count + max_new) // BLOCK) * BLOCK, max(longest, count))
    if writer is not None:
        length = writer.cache.length
        if batch != 1 or len(writer.valid) != 1:
            raise ValueError(f"generate: a writer goes on with one text, got {batch}")
        if count + max_new > length:
            raise ValueError(
                f"generate: {count} tokens and {max_new} new ones are more than the "
                f"writer's {length} slots; make one of more, or shorten the prompt"
            )
    there = _there(attention_mask, batch // times, count).repeat(times, 0)
    mask = None if there.all() else pf.tensor(there.astype(np.int64), device=device)
    bans = Bans(sampling, texts, ends, config.vocab_size) if sampling.bans else None

    def steps() -> Generator[Tensor, list[int], None]:
        generator = None if seed is None else pf.Generator(device).manual_seed(seed)
        settings = (
            sampling.do_sample, sampling.temperature, sampling.top_k, sampling.top_p,
            sampling.min_p, sampling.repetition_penalty if sampling.penalizes else None, generator,
            scores is not None, bans is not None,
        )  # fmt: skip
        own = model.writer(batch, length) if writer is None else contextlib.nullcontext(writer)
        with own as w:
            yield from written(w, settings)

    def written(w: Writer, settings: tuple[Any, ...]) -> Generator[Tensor, list[int], None]:
        tokens = texts[0][:] if batch == 1 else []
        start = 0 if writer is None else common(w.ids[: count - 1], tokens)
        filled = min(max(MIN_PROMPT_SLOTS, 1 << (count - start - 1).bit_length()), length)
        start = min(start, length - filled)
        w.ids = tokens[:start]
        done = [False] * batch
        rules = copy.deepcopy(bans)  # of this text: a stream may be walked through again
        banned = None
        with pf.no_grad():
            prompt = pf.zeros(batch, filled, dtype=pf.int64)
            prompt[:, : count - start] = ids[:, start:].cpu()
            prompt = prompt.to(device)
            if mask is not None:
                w.valid.fill_(1)
                w.valid[:, :count] = mask
            if sampling.penalizes:
                seen = np.zeros((batch, config.vocab_size), bool)
                for row, text, known in zip(seen, texts, there, strict=True):
                    row[np.asarray(text)[known]] = True
                w.seen.copy_(pf.tensor(seen))
            if rules is not None:
                banned = rules.next(0, done)
                w.banned.copy_(pf.tensor(banned))
            first, many = (pf.tensor([n], device=device) for n in (start, count - start))
            span = w.span(start + filled)
            token, told = w.read(prompt, span, first, many, mask is not None, settings)
        w.ids = tokens
        for n in range(max_new):
            if scores is not None:
                scores.append(told)  # type: ignore[arg-type]
            found = yield token
            if w.ids is not tokens:  # another stream writes on
                return
            for i, t in enumerate(found):
                if done[i]:
                    found[i] = pad
                done[i] |= t in ends
            if all(done) or n + 1 == max_new:
                return
            with pf.no_grad():
                if rules is not None:
                    rules.add(found)
                    if not np.array_equal(more := rules.next(n + 1, done), banned):
                        w.banned.copy_(pf.tensor(banned := more))
                span, write = w.span(count + n + 1), w.write.again if n else w.write
                token, told = write(token, span, mask is not None, settings)
            w.ids += found[:1]

    return Stream(steps, ids)


def _there(attention_mask: Any, batch: int, count: int) -> np.ndarray[Any, Any]:
    """(batch, count) of bools: what of prompts are tokens."""
    if attention_mask is None:
        return np.ones((batch, count), bool)
    mask = pf.tensor(attention_mask) if not isinstance(attention_mask, Tensor) else attention_mask
    found = np.asarray(mask.tolist()) != 0
    found = found[None] if found.ndim == 1 else found
    if found.shape != (batch, count):
        raise ValueError(
            f"generate: attention_mask is of input_ids' shape {[batch, count]}, got "
            f"{list(found.shape)}"
        )
    if not found[:, -1].all():
        raise ValueError("generate: fill up shorter prompts on their left")
    return found
