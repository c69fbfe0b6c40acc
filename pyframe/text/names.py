"""What published files call the parameters of a model, and what they are called here."""

from __future__ import annotations

import re
from collections.abc import Iterable

from pyframe.text.config import Config

_GPT2 = {
    "transformer.wte": "model.embed_tokens", "transformer.wpe": "model.embed_positions",
    "transformer.ln_f": "model.norm", "transformer.h": "model.layers",
    "attn.c_attn": "self_attn.qkv_proj", "attn.c_proj": "self_attn.o_proj",
    "mlp.c_fc": "mlp.up_proj", "mlp.c_proj": "mlp.down_proj", "ln_1": "input_layernorm",
    "ln_2": "post_attention_layernorm",
}  # fmt: skip
_BERT = {
    "embeddings.LayerNorm": "embeddings.norm", "encoder.layer": "layers",
    "attention.self.query": "self_attn.q_proj", "attention.self.key": "self_attn.k_proj",
    "attention.self.value": "self_attn.v_proj", "attention.output.dense": "self_attn.o_proj",
    "attention.output.LayerNorm": "attention_norm", "intermediate.dense": "mlp.up_proj",
    "output.dense": "mlp.down_proj", "output.LayerNorm": "mlp_norm",
}  # fmt: skip
_DISTILBERT = {
    "embeddings.LayerNorm": "embeddings.norm", "transformer.layer": "layers",
    "attention.q_lin": "self_attn.q_proj", "attention.k_lin": "self_attn.k_proj",
    "attention.v_lin": "self_attn.v_proj", "attention.out_lin": "self_attn.o_proj",
    "sa_layer_norm": "attention_norm", "ffn.lin1": "mlp.up_proj", "ffn.lin2": "mlp.down_proj",
    "output_layer_norm": "mlp_norm",
}  # fmt: skip
NAMES: dict[str, dict[str, str]] = {
    "gpt2": _GPT2, "bert": _BERT, "roberta": _BERT, "xlm-roberta": _BERT, "distilbert": _DISTILBERT,
}  # fmt: skip
# what stands before the names of a model within another one
PREFIXES = {
    "gpt2": ("", "transformer."), "bert": ("bert.", ""), "roberta": ("roberta.", ""),
    "xlm-roberta": ("roberta.", ""), "distilbert": ("distilbert.", ""),
    "gemma3_text": ("language_model.", ""),
}  # fmt: skip
TURNED = {"gpt2": ("qkv_proj", "o_proj", "up_proj", "down_proj")}  # weights (inputs, outputs)

# buffers that older files hold, and what a model without their heads has no use for
_SURPLUS = re.compile(
    r"(\.attn\.(bias|masked_bias)|rotary_emb\.inv_freq|position_ids)$|^(pooler|cls|lm_head|"
    r"vocab_\w+|qa_outputs|classifier)\."
)


def is_surplus(name: str, config: Config) -> bool:
    """Whether a file's tensor is left where it is."""
    if name.startswith("lm_head.") and not (config.encoder or config.tie_word_embeddings):
        return False
    return _SURPLUS.search(name) is not None


def ours(name: str, kind: str) -> str:
    """What a file's parameter is called here."""
    old, new = PREFIXES.get(kind, ("", ""))
    if kind == "gpt2":
        name = name if name.startswith((new, "lm_head.")) else new + name
    else:
        name = name.removeprefix(old)
    return _replaced(name, NAMES.get(kind, {}).items())


def theirs(name: str, kind: str) -> str:
    """What a parameter is called in a file."""
    return _replaced(name, [(b, a) for a, b in NAMES.get(kind, {}).items()])


def _replaced(name: str, pairs: Iterable[tuple[str, str]]) -> str:
    """With the first part that is to be replaced at each place, the longest first."""
    table = dict(pairs)
    some = "|".join(map(re.escape, sorted(table, key=len, reverse=True)))
    return re.sub(rf"(?<![^.])({some})(?=\.)", lambda m: table[m[1]], name) if some else name
