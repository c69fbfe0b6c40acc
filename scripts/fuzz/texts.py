"""Texts of language models: the scores of which each token was chosen are those of the whole text,
read at once without a cache."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from dataclasses import dataclass, replace
from types import SimpleNamespace
from unittest import mock

import numpy as np
import torch

import pyframe as pf
from pyframe.text import CausalLM, Config, generate

from .backends import Backend, compiling
from .check import FailureError
from .families import Draw, family
from .quantized import near

KINDS = ("llama", "mistral", "gpt2", "gemma2", "gemma3_text", "qwen2", "phi3")
MOST = 128  # tokens of a text


@dataclass(frozen=True)
class Text:
    """A model with random weights, prompts, and how a writer goes on."""

    config: tuple[tuple[str, object], ...]
    batch: int
    prompt: int
    new: int
    filled: int  # tokens before the first text, which is shorter by them
    slots: int  # of a writer that is kept; none without one
    span: int  # see generate.SPAN
    seed: int

    def check(self, backend: Backend) -> bool:
        """Compare the scores, and count what is captured."""
        device = "gpu" if backend.device == "gpu" else "cpu"
        pf.manual_seed(self.seed)
        model = CausalLM(Config.from_dict(dict(self.config))).eval()
        with pf.no_grad():
            for p in model.parameters():
                pf.nn.init.normal_(p, float(p.ndim == 1), 0.4)
        model.to(device)
        many = model.config.vocab_size
        sizes = mock.patch.multiple(generate, SPAN=self.span, MIN_PROMPT_SLOTS=4, BLOCK=8)
        with compiling(backend.generator), sizes, warnings.catch_warnings():
            warnings.simplefilter("ignore")
            ids = pf.randint(0, many, (self.batch, self.prompt)).to(device)
            writer = generate.Writer(model, 1, self.slots) if self.slots else None
            text = self.compared(model, ids, self.new, writer)
            if writer is not None:  # another one, which begins as that did
                kept = text[:, : 1 + self.seed % text.shape[1]]
                other = pf.cat([kept, pf.randint(0, many, (1, 3)).to(device)], 1)[:, : MOST // 2]
                self.compared(model, other, 5, writer)
                if writer.write.captured > 1 or writer.write.eager:
                    raise FailureError("captures", f"{writer.write.captured}; {writer.write.why}")
        return True

    def compared(
        self, model: CausalLM, ids: pf.Tensor, new: int, writer: generate.Writer | None
    ) -> pf.Tensor:
        """The text that is written."""
        mask, scores = pf.ones(*ids.shape, dtype=pf.int64, device=ids.device), []  # type: ignore[var-annotated]
        mask[0, : self.filled] = 0
        text = model.generate(
            ids, new, attention_mask=mask, eos_token_id=(), scores=scores, writer=writer
        )
        with pf.no_grad():
            whole = pf.cat([mask, pf.ones_like(text[:, ids.shape[1] :])], 1)[:, :-1]
            want = model(text[:, :-1], whole if self.filled else None)[:, ids.shape[1] - 1 :]
        found = pf.stack(scores, 1).cpu().numpy()
        near(found, np.asarray(want.cpu().numpy(), np.float64), 2e-4, "a token's scores")
        return text

    def smaller(self) -> Iterator[Text]:
        for name, value in (("batch", 1), ("filled", 0), ("slots", 0), ("new", self.new // 2)):
            if (
                getattr(self, name) > value
                and (name != "batch" or not self.filled)
                and self.new > 1
            ):
                yield replace(self, **{name: value})  # type: ignore[arg-type]

    def text(self, backend: Backend) -> str:
        return f"# {self}"


@family("texts")
def texts(d: Draw) -> Text:
    """A model that nobody chose."""
    kind, heads = d.pick(*KINDS), d.pick(1, 2, 4)
    config = {
        "model_type": kind, "vocab_size": d.pick(17, 33, 64), "hidden_size": heads * 8,
        "intermediate_size": d.pick(8, 24, 40), "num_hidden_layers": d.int(1, 2),
        "num_attention_heads": heads, "num_key_value_heads": d.pick(1, heads), "head_dim": 8,
        "max_position_embeddings": MOST, "tie_word_embeddings": d.maybe(),
    }  # fmt: skip
    if kind == "gpt2":
        config = {"model_type": kind, "vocab_size": 40, "n_embd": heads * 8, "n_layer": 1,
                  "n_head": heads, "n_positions": MOST}  # fmt: skip
    if kind in ("mistral", "gemma2", "gemma3_text"):
        config["sliding_window"] = d.pick(3, 8, 20)
    batch, prompt = d.pick(1, 1, 3), d.int(1, 20)
    filled = d.int(1, prompt - 1) if batch > 1 and prompt > 1 and d.maybe(0.6) else 0
    slots = d.pick(0, 97, 120, MOST) if batch == 1 else 0
    return Text(tuple(config.items()), batch, prompt, d.int(2, 60), filled, slots,
                d.pick(8, 16, 32, MOST), d.int(0, 1000))  # fmt: skip


@dataclass(frozen=True)
class Rules:
    """Random scores, and what of them is left to be chosen beside transformers."""

    how: tuple[tuple[str, object], ...]
    texts: tuple[tuple[int, ...], ...]
    new: int  # of their tokens
    ends: tuple[int, ...]
    many: int
    seed: int

    def check(self, backend: Backend) -> bool:
        """Compare what is left, its scores, and which is the likeliest."""
        s = generate.Sampling(**dict(self.how))  # type: ignore[arg-type]
        x = np.random.default_rng(self.seed).normal(0, 3, (len(self.texts), self.many))
        x = x.astype(np.float32)
        want = self.theirs(s, x)
        fixed, texts = not np.isfinite(want).any(1).all(), [list(t) for t in self.texts]
        start = [t[: len(t) - self.new] for t in texts]
        try:
            bans = generate.Bans(s, start, self.ends, self.many)
            for n in range(self.new):
                bans.add([t[len(t) - self.new + n] for t in texts])
            banned = bans.next(self.new, [False] * len(texts))
        except ValueError as error:
            if fixed and "leave none" in str(error):
                return False
            raise
        if fixed:
            raise FailureError("values", "all tokens are banned, and no error says so")
        device = "gpu" if backend.device == "gpu" else "cpu"
        seen = np.zeros(x.shape, bool)
        for row, text in zip(seen, texts, strict=True):
            row[text] = True
        stub = SimpleNamespace(
            model=SimpleNamespace(scores=lambda x: x),
            banned=pf.tensor(banned, device=device), seen=pf.tensor(seen, device=device),
        )  # fmt: skip
        how = (s.do_sample, s.temperature, s.top_k, s.top_p, s.min_p,
               s.repetition_penalty if s.penalizes else None, None, True, True)  # fmt: skip
        with compiling(backend.generator):
            token, left = generate.Writer._chosen(stub, pf.tensor(x, device=device)[:, None], how)  # type: ignore[arg-type]
        found = left.cpu().numpy()  # type: ignore[union-attr]
        kept = np.isfinite(want)
        if not np.array_equal(kept, found > -1e30):
            raise FailureError("values", f"{(kept ^ (found > -1e30)).nonzero()} is left or not")
        near(np.where(kept, found, 0), np.where(kept, want, 0), 1e-5, "scores")
        for row, n in zip(kept, token.tolist(), strict=True):
            if not row[n]:
                raise FailureError("values", f"{n} was chosen, which may not come")
        if not s.do_sample and token.tolist() != want.argmax(1).tolist():
            raise FailureError("values", f"{token.tolist()} is not the likeliest")
        return True

    def theirs(self, s: generate.Sampling, x: np.ndarray) -> np.ndarray:  # type: ignore[type-arg]
        """What transformers' processors make of the scores, in the order of its `generate`."""
        from transformers.generation import logits_process as p

        ids, scores = torch.tensor(self.texts), torch.tensor(x)
        start, ends, some = len(self.texts[0]) - self.new, list(self.ends), []
        if s.penalizes:
            some.append(p.RepetitionPenaltyLogitsProcessor(s.repetition_penalty))
        if s.no_repeat_ngram_size:
            some.append(p.NoRepeatNGramLogitsProcessor(s.no_repeat_ngram_size))
        if [w for w in s.bad_words_ids or [] if len(w) > 1 or w[0] not in ends]:
            some.append(p.NoBadWordsLogitsProcessor(s.bad_words_ids, ends or None))
        if ends and s.min_length and s.min_new_tokens is None:
            some.append(p.MinLengthLogitsProcessor(s.min_length, ends))
        if ends and s.min_new_tokens:
            some.append(p.MinNewTokensLengthLogitsProcessor(start, s.min_new_tokens, ends))
        if s.suppress_tokens is not None:
            some.append(p.SuppressTokensLogitsProcessor(s.suppress_tokens))
        if s.begin_suppress_tokens is not None:
            some.append(p.SuppressTokensAtBeginLogitsProcessor(s.begin_suppress_tokens, start))
        if s.do_sample:
            some.append(p.TemperatureLogitsWarper(float(s.temperature)))
            if s.top_k:
                some.append(p.TopKLogitsWarper(s.top_k))
            if s.top_p is not None and s.top_p < 1:
                some.append(p.TopPLogitsWarper(s.top_p))
            if s.min_p is not None:
                some.append(p.MinPLogitsWarper(s.min_p))
        for one in some:
            scores = one(ids, scores)
        return scores.numpy()

    def smaller(self) -> Iterator[Rules]:
        for n in range(len(self.how)):
            yield replace(self, how=self.how[:n] + self.how[n + 1 :])
        if len(self.texts) > 1:
            yield replace(self, texts=self.texts[:1])

    def text(self, backend: Backend) -> str:
        return f"# {self}"


@family("rules")
def rules(d: Draw) -> Rules:
    """What may come next in texts of few tokens, so that much is there twice."""
    many, length = d.pick(3, 6, 12, 40), d.int(1, 14)

    def tokens(least: int = 0, most: int = 3) -> list[int]:
        return [d.int(0, many - 1) for _ in range(d.int(least, most))]

    texts = tuple(
        tuple(d.int(0, many - 1) for _ in range(length)) for _ in range(d.pick(1, 1, 2, 3))
    )
    drawn: dict[str, object] = {
        "do_sample": d.maybe(), "temperature": d.pick(0.1, 0.7, 1.0, 3.0),
        "top_k": d.pick(0, 1, 2, 5, 100), "top_p": d.pick(0.0, 0.3, 0.9, 1.0),
        "min_p": d.pick(0.0, 0.05, 0.5, 1.0), "repetition_penalty": d.pick(0.5, 1.0, 1.3, 4.0),
        "no_repeat_ngram_size": d.int(0, 4), "min_new_tokens": d.int(0, 9),
        "min_length": d.int(0, 16), "suppress_tokens": [*tokens(), *d.pick([], [99])],
        "begin_suppress_tokens": tokens(), "bad_words_ids": [tokens(1) for _ in range(d.int(0, 4))],
    }  # fmt: skip
    how = tuple((n, v) for n, v in drawn.items() if d.maybe(0.4))
    return Rules(how, texts, d.int(0, length - 1), tuple(tokens(0, 2)), many, d.int(0, 1 << 30))
