"""Text from a language model: a prompt is read in one step, then each token in one of its own.

What a step computes on is memory of one size: the cache, and where in it the next token goes. So
all steps of a text are one compiled Program, and prompts are a few, by powers of two. How many
slots attention looks at is a size that changes, for which the Program is bound anew.
"""

from __future__ import annotations

import contextlib
import copy
import dataclasses
import math
from collections.abc import AsyncIterator, Callable, Generator, Iterator, Sequence
from typing import TYPE_CHECKING, Any

import pyframe as pf
from pyframe.capture.packages import HOOKS_ON_ALL
from pyframe.tensor import Tensor
from pyframe.text.config import Config

if TYPE_CHECKING:
    from pyframe.capture.compile import CompiledFunction
    from pyframe.text.decoder import CausalLM

__all__ = ["Cache", "Sampling", "Stream", "Writer"]

LEAST = 16  # tokens that a prompt is filled up to, and so on by powers of two
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


@dataclasses.dataclass
class Sampling:
    """How the next token is chosen.

    Args:
        do_sample: draw it; else it is the likeliest one.
        temperature: divides the scores; lower is more certain.
        top_k: of so many likeliest tokens alone.
        top_p: of the likeliest ones that have this probability together.
        min_p: of those that have this part of the likeliest one's probability.
        repetition_penalty: divides positive scores of tokens that came before, and multiplies
            negative ones (arXiv 1909.05858).

    ValueError for values outside their ranges.
    """

    do_sample: bool = False
    temperature: float = 1.0
    top_k: int | None = None
    top_p: float | None = None
    min_p: float | None = None
    repetition_penalty: float = 1.0

    def __post_init__(self) -> None:
        for name, fits, want in (
            ("temperature", self.temperature > 0, "more than 0; do_sample=False is its limit at 0"),
            ("top_k", self.top_k is None or self.top_k > 0, "1 or more"),
            ("top_p", self.top_p is None or 0 < self.top_p <= 1, "more than 0, and 1 at most"),
            ("min_p", self.min_p is None or 0 <= self.min_p <= 1, "from 0 to 1"),
            ("repetition_penalty", self.repetition_penalty > 0, "more than 0"),
        ):
            if not fits:
                raise ValueError(f"generate: {name} is {want}, got {getattr(self, name)}")

    @property
    def penalizes(self) -> bool:
        """Whether it minds which tokens came before."""
        return self.repetition_penalty != 1


def filtered(
    scores: Tensor, temperature: float, top_k: int | None, top_p: float | None, min_p: float | None
) -> Tensor:
    """(B, vocabulary) scores, those that are not to be drawn as low as can be."""
    scores = scores / temperature
    low = pf.finfo(scores.dtype).min
    if top_k is not None and top_k < scores.shape[-1]:
        least = scores.topk(top_k, -1).values[:, -1:]
        scores = scores.masked_fill(scores < least, low)
    if top_p is not None and top_p < 1:
        ordered, order = scores.sort(-1, descending=True)
        chances = ordered.softmax(-1)
        beyond = chances.cumsum(-1) - chances >= top_p  # what comes before them is enough
        scores = scores.masked_fill(pf.zeros_like(beyond).scatter(1, order, beyond), low)
    if min_p is not None:
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
        self.seen = pf.zeros(batch, model.config.vocab_size, dtype=pf.bool, device=self.device)
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
            how: of `Sampling`, in order, then the generator and whether scores are wanted.
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
        do_sample, temperature, top_k, top_p, min_p, penalty, generator, scored = how
        scores = self.model.scores(x[:, 0]).float()
        if penalty is not None:
            less = pf.where(scores > 0, scores / penalty, scores * penalty)
            scores = pf.where(self.seen, less, scores)
        if do_sample:
            scores = filtered(scores, temperature, top_k, top_p, min_p)
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


class Stream:
    """The tokens of texts, as they are written: `for` and `async for` give a list of one for each
    text, those of texts that have ended as `pad`.

    Args:
        steps: makes the generator that gives them.
    """

    def __init__(self, steps: Callable[[], Generator[Tensor, list[int], None]]) -> None:
        self._steps = steps

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


def stream(
    model: CausalLM, input_ids: Tensor | Sequence[Any], max_new_tokens: int = 20,
    attention_mask: Tensor | None = None, eos_token_id: int | Sequence[int] | None = None,
    seed: int | None = None, num_return_sequences: int = 1, writer: Writer | None = None,
    scores: list[Tensor] | None = None, **how: Any,
) -> Stream:  # fmt: skip
    """See `CausalLM.generate`; `scores` is a list that takes those of each token."""
    config, device = model.config, model.model.norm.weight.device
    names = {f.name for f in dataclasses.fields(Sampling)}
    said = {n: v for n, v in config.generation.items() if n in names}
    sampling = Sampling(**{**said, **how})
    ids = input_ids if isinstance(input_ids, Tensor) else pf.tensor(input_ids)
    ids = ids.unsqueeze(0) if ids.ndim == 1 else ids
    if ids.ndim != 2 or not ids.shape[1]:
        raise ValueError(
            f"generate: input_ids are (texts, tokens) with a token at least, got {list(ids.shape)}"
        )
    given = config.ends if eos_token_id is None else eos_token_id
    ends = {given} if isinstance(given, int) else set(given)
    pad = config.generation.get("pad_token_id", config.pad_token_id)
    pad = next(iter(ends), 0) if pad is None else pad
    ids = ids.repeat_interleave(num_return_sequences, 0)
    batch, count = ids.shape
    if count + max_new_tokens > config.max_position_embeddings:
        raise ValueError(
            f"generate: {count} tokens and {max_new_tokens} new ones are more than the "
            f"{config.max_position_embeddings} that this model was made for; shorten the prompt"
        )
    length = min(
        -(-(count + max_new_tokens) // BLOCK) * BLOCK, max(config.max_position_embeddings, count)
    )
    if writer is not None:
        length = writer.cache.length
        if batch != 1 or len(writer.valid) != 1:
            raise ValueError(f"generate: a writer goes on with one text, got {batch}")
        if count + max_new_tokens > length:
            raise ValueError(
                f"generate: {count} tokens and {max_new_tokens} new ones are more than the "
                f"writer's {length} slots; make one of more, or shorten the prompt"
            )
    mask = None
    if attention_mask is not None and not bool(attention_mask.bool().all()):
        mask = attention_mask.repeat_interleave(num_return_sequences, 0).to(device, pf.int64)
        if not bool(mask[:, -1].bool().all()):
            raise ValueError("generate: fill up shorter prompts on their left")

    def steps() -> Generator[Tensor, list[int], None]:
        generator = None if seed is None else pf.Generator(device).manual_seed(seed)
        settings = (
            sampling.do_sample, sampling.temperature, sampling.top_k, sampling.top_p,
            sampling.min_p, sampling.repetition_penalty if sampling.penalizes else None, generator,
            scores is not None,
        )  # fmt: skip
        own = model.writer(batch, length) if writer is None else contextlib.nullcontext(writer)
        with own as w:
            yield from written(w, settings)

    def written(w: Writer, settings: tuple[Any, ...]) -> Generator[Tensor, list[int], None]:
        tokens = ids[0].tolist() if batch == 1 else []
        start = 0 if writer is None else common(w.ids[: count - 1], tokens)
        filled = min(max(LEAST, 1 << (count - start - 1).bit_length()), length)
        start = min(start, length - filled)
        w.ids = tokens[:start]
        with pf.no_grad():
            prompt = pf.full((batch, filled), pad, dtype=pf.int64)
            prompt[:, : count - start] = ids[:, start:].cpu()
            prompt = prompt.to(device)
            if mask is not None:
                w.valid.fill_(1)
                w.valid[:, :count] = mask
            if sampling.penalizes:
                w.seen.fill_(False)
                there = ids.to(device) if mask is None else ids.to(device) * mask + pad * (1 - mask)
                w.seen.scatter_(1, there, True)
            first, many = (pf.tensor([n], device=device) for n in (start, count - start))
            span = w.span(start + filled)
            token, told = w.read(prompt, span, first, many, mask is not None, settings)
        w.ids = tokens
        done = [False] * batch
        for n in range(max_new_tokens):
            if scores is not None:
                scores.append(told)  # type: ignore[arg-type]
            found = yield token
            if w.ids is not tokens:  # another stream writes on
                return
            for i, t in enumerate(found):
                if done[i]:
                    found[i] = pad
                done[i] |= t in ends
            if all(done) or n + 1 == max_new_tokens:
                return
            with pf.no_grad():
                span, write = w.span(count + n + 1), w.write.again if n else w.write
                token, told = write(token, span, mask is not None, settings)
            w.ids += found[:1]

    return Stream(steps)
