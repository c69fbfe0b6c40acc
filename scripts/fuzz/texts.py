"""Texts of language models: the scores of which each token was chosen are those of the whole text,
read at once without a cache."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from dataclasses import dataclass, replace
from unittest import mock

import numpy as np

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
        sizes = mock.patch.multiple(generate, SPAN=self.span, LEAST=4, BLOCK=8)
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
