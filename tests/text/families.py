"""Small models: of each family, as Hugging Face's transformers makes and saves them; and ours."""

from __future__ import annotations

from typing import Any

import pyframe as pf
from pyframe.text import CausalLM, Config

BASE: dict[str, Any] = {
    "vocab_size": 97, "hidden_size": 32, "intermediate_size": 56, "num_hidden_layers": 3,
    "num_attention_heads": 4, "num_key_value_heads": 2, "max_position_embeddings": 64,
}  # fmt: skip


def rope(kind: str, **more: Any) -> dict[str, Any]:
    """A configuration's rotary parameters."""
    return {"rope_parameters": {"rope_type": kind, "rope_theta": 1e4, **more}}


LONG = [1.0 + 0.1 * i for i in range(4)], [2.0 + 0.3 * i for i in range(4)]
# by name: a class of transformers' configurations, and what differs from BASE
FAMILIES: dict[str, tuple[str, dict[str, Any]]] = {
    "gpt2": ("GPT2Config", {}),
    "llama": ("LlamaConfig", {}),
    "llama, biased and tied": ("LlamaConfig", {
        "tie_word_embeddings": True, "attention_bias": True, "head_dim": 10, "mlp_bias": True}),
    "llama 3": ("LlamaConfig", rope(
        "llama3", factor=8.0, low_freq_factor=1.0, high_freq_factor=4.0,
        original_max_position_embeddings=16)),
    "linear": ("LlamaConfig", rope("linear", factor=4.0)),
    "dynamic": ("LlamaConfig", {"max_position_embeddings": 8, **rope("dynamic", factor=4.0)}),
    "yarn": ("LlamaConfig", rope("yarn", factor=4.0, original_max_position_embeddings=16)),
    "mistral": ("MistralConfig", {"sliding_window": 5}),
    "mistral, no window": ("MistralConfig", {"sliding_window": None}),
    "qwen2": ("Qwen2Config", {}),
    "qwen2, a window": ("Qwen2Config", {
        "use_sliding_window": True, "sliding_window": 4, "max_window_layers": 1}),
    "qwen3": ("Qwen3Config", {"head_dim": 12}),
    "gemma": ("GemmaConfig", {"head_dim": 12}),
    "gemma2": ("Gemma2Config", {"head_dim": 12, "sliding_window": 5}),
    "gemma3": ("Gemma3TextConfig", {
        "num_hidden_layers": 7, "head_dim": 8, "sliding_window": 3}),
    "phi3": ("Phi3Config", {"pad_token_id": 0}),
    "longrope": ("Phi3Config", {
        "pad_token_id": 0, "original_max_position_embeddings": 8,
        **rope("longrope", short_factor=LONG[0], long_factor=LONG[1],
               original_max_position_embeddings=8)}),
    "partial": ("Phi3Config", {
        "pad_token_id": 0, **rope("default", partial_rotary_factor=0.5)}),
}  # fmt: skip
GPT2 = {"vocab_size": 97, "n_embd": 32, "n_layer": 3, "n_head": 4, "n_positions": 64}


def made(transformers: Any, torch: Any, name: str) -> Any:
    """A model of transformers' with random weights."""
    cls, more = FAMILIES[name]
    config = getattr(transformers, cls)(**(GPT2 if name == "gpt2" else {**BASE, **more}))
    torch.manual_seed(0)
    model = transformers.AutoModelForCausalLM.from_config(config, attn_implementation="eager")
    for p in model.parameters():
        torch.nn.init.normal_(p, mean=float(p.ndim == 1), std=0.3)
    return model.eval()


LLAMA = {"model_type": "llama", **BASE, "rms_norm_eps": 1e-6}


def small(**more: Any) -> CausalLM:
    """A Llama of pyframe's with random weights."""
    pf.manual_seed(0)
    model = CausalLM(Config.from_dict({**LLAMA, **more})).eval()
    with pf.no_grad():
        for p in model.parameters():
            pf.nn.init.normal_(p, float(p.ndim == 1), 0.3)
    return model
