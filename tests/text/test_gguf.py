"""GGUF files, written by the package gguf as llama.cpp converts models of transformers."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import families
import numpy as np
import pytest
import test_tokenizers

import pyframe as pf
from pyframe.text import AutoModel, CausalLM, Tokenizer
from pyframe.text.gguf import GGUF

gguf = pytest.importorskip("gguf", reason="gguf is not installed")
TEMPLATE = "{% for m in messages %}{{ m.content }}{% endfor %}"
BLOCKS = {"F32": 1, "Q4_0": 32}
IDS = np.random.default_rng(0).integers(1, 97, (2, 9))

# by family of families.py: the architecture, and what its files call layers beside what most do
ARCHITECTURES: dict[str, tuple[str, dict[str, str]]] = {
    "gpt2": ("gpt2", {"wpe": "position_embd", "attn.c_attn": "attn_qkv"}),
    "llama": ("llama", {}),
    "llama 3": ("llama", {}),
    "llama, biased and tied": ("llama", {}),
    "linear": ("llama", {}),
    "qwen2": ("qwen2", {}),
    "qwen3": ("qwen3", {}),
    "gemma": ("gemma", {}),
    "gemma2": ("gemma2", {
        "post_attention_layernorm": "post_attention_norm",
        "pre_feedforward_layernorm": "ffn_norm", "post_feedforward_layernorm": "post_ffw_norm"}),
    "gemma3": ("gemma3", {
        "post_attention_layernorm": "post_attention_norm",
        "pre_feedforward_layernorm": "ffn_norm", "post_feedforward_layernorm": "post_ffw_norm"}),
    "phi3": ("phi3", {"self_attn.qkv_proj": "attn_qkv", "mlp.gate_up_proj": "ffn_up"}),
}  # fmt: skip
PARTS = {
    "transformer.wte": "token_embd", "model.embed_tokens": "token_embd",
    "model.norm": "output_norm",
    "transformer.ln_f": "output_norm", "lm_head": "output", "input_layernorm": "attn_norm",
    "ln_1": "attn_norm", "ln_2": "ffn_norm", "post_attention_layernorm": "ffn_norm",
    "self_attn.q_proj": "attn_q", "self_attn.k_proj": "attn_k", "self_attn.v_proj": "attn_v",
    "self_attn.o_proj": "attn_output", "attn.c_proj": "attn_output", "mlp.gate_proj": "ffn_gate",
    "mlp.up_proj": "ffn_up", "mlp.down_proj": "ffn_down", "mlp.c_fc": "ffn_up",
    "mlp.c_proj": "ffn_down", "self_attn.q_norm": "attn_q_norm", "self_attn.k_norm": "attn_k_norm",
}  # fmt: skip


def converted(path: Path, theirs: Any, name: str, kind: str, **more_fields: Any) -> None:
    """Write a model as llama.cpp's convert_hf_to_gguf.py does, weights in `kind` where they fit."""
    architecture, more = ARCHITECTURES[name]
    c, writer = theirs.config, gguf.GGUFWriter(path, architecture)
    writer.add_context_length(c.max_position_embeddings)
    writer.add_embedding_length(c.hidden_size)
    writer.add_block_count(c.num_hidden_layers)
    writer.add_head_count(c.num_attention_heads)
    heads = getattr(c, "num_key_value_heads", c.num_attention_heads)
    if architecture == "gpt2":
        writer.add_layer_norm_eps(c.layer_norm_epsilon)
        writer.add_feed_forward_length(4 * c.hidden_size)
    else:
        writer.add_head_count_kv(heads)
        writer.add_layer_norm_rms_eps(c.rms_norm_eps)
        writer.add_feed_forward_length(c.intermediate_size)
        rope = c.rope_parameters
        writer.add_rope_freq_base(rope.get("full_attention", rope)["rope_theta"])
        if getattr(c, "head_dim", None):
            writer.add_key_length(c.head_dim)
    if architecture == "gemma3":
        writer.add_sliding_window(c.sliding_window)
    if architecture == "gemma2":
        writer.add_attn_logit_softcapping(c.attn_logit_softcapping)
        writer.add_final_logit_softcapping(c.final_logit_softcapping)
        writer.add_sliding_window(c.sliding_window)
    rope = getattr(c, "rope_parameters", None) or {}
    rope = {"rope_type": "default", **rope.get("full_attention", rope)}
    if rope["rope_type"] == "linear":
        writer.add_rope_scaling_type(gguf.RopeScalingType.LINEAR)
        writer.add_rope_scaling_factor(rope["factor"])
    if rope["rope_type"] == "llama3":
        dims = c.hidden_size // c.num_attention_heads
        plain = 1 / rope["rope_theta"] ** (np.arange(0, dims, 2) / dims)
        turned = theirs.model.rotary_emb.inv_freq.numpy()
        writer.add_tensor("rope_freqs.weight", (plain / turned).astype(np.float32))
    for n, p in theirs.state_dict().items():
        if "lm_head" in n and c.tie_word_embeddings:
            continue
        value = p.numpy().astype(np.float32)
        layer = re.search(r"\.(\d+)\.", n)
        table = PARTS | more
        part = next(part for part in sorted(table, key=len, reverse=True) if f"{part}." in n)
        if re.search(r"c_(attn|proj|fc)\.weight", n):
            value = value.T
        if architecture == "llama" and re.search("[qk]_proj", n):
            count = c.num_attention_heads if "q_proj" in n else heads
            paired = value.reshape(count, 2, value.shape[0] // count // 2, -1).swapaxes(1, 2)
            value = paired.reshape(value.shape)
        if architecture.startswith("gemma") and n.endswith("norm.weight"):
            value = value + 1
        new = f"blk.{layer[1]}.{table[part]}" if layer else table[part]
        value = np.ascontiguousarray(value)
        of = gguf.GGMLQuantizationType[kind]
        fits = value.ndim == 2 and value.shape[1] % BLOCKS[kind] == 0
        data = gguf.quants.quantize(value, of) if fits else value
        writer.add_tensor(f"{new}.{n.rsplit('.', 1)[1]}", data, raw_dtype=of if fits else None)
    for field, value in more_fields.items():
        if isinstance(value, np.ndarray):
            writer.add_tensor(field, value)
        else:
            of = gguf.GGUFValueType.get_type(value)
            writer.add_key_value(field.replace("ARCH", architecture), value, of)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


@pytest.mark.parametrize("name", ARCHITECTURES)
def test_a_model_is_what_was_converted(
    transformers: Any, torch: Any, tmp_path: Path, name: str
) -> None:
    """Its scores are transformers'; what bits of each kind are worth is seen in scripts/fuzz."""
    path = tmp_path / "model.gguf"
    theirs = families.made(transformers, torch, name)
    converted(path, theirs, name, "F32")
    model = AutoModel.from_pretrained(path)
    assert isinstance(model, CausalLM)
    want = theirs(torch.tensor(IDS)).logits.detach()
    with pf.no_grad():
        np.testing.assert_allclose(model(pf.tensor(IDS)), want, 1e-4, 1e-4)
    if name == "llama 3":
        with pytest.raises(ValueError, match="the GGUF file stretches rotary positions"):
            model.save_pretrained(tmp_path / "saved")
    else:
        model.save_pretrained(tmp_path / "saved")
        again = CausalLM.from_pretrained(tmp_path / "saved")
        assert again(pf.tensor(IDS)).equal(model(pf.tensor(IDS)))


YARN = {"ARCH.rope.scaling.type": "yarn", "ARCH.rope.scaling.factor": 4.0,
        "ARCH.rope.scaling.original_context_length": 16}  # fmt: skip
LONGROPE = {f"rope_factors_{n}.weight": np.float32(x)
            for n, x in zip(("short", "long"), families.LONG, strict=True)}  # fmt: skip
# fields of a file beside those of a family: the family whose scores it then has, or an error
FIELDS: list[tuple[str, dict[str, Any], str]] = [
    ("llama", {"ARCH.rope.scale_linear": 4.0}, "linear"),
    ("llama", {"ARCH.rope.scaling.factor": 4.0}, "linear"),  # whose type is linear untold
    ("llama", {"ARCH.rope.scaling.type": "linear", "ARCH.rope.scale_linear": 4.0}, "linear"),
    ("llama", {"ARCH.rope.scaling.type": "none", "ARCH.rope.scaling.factor": 4.0}, "llama"),
    ("llama", {"ARCH.rope.scaling.factor": 0.0, "ARCH.rope.scaling.attn_factor": 1.0}, "llama"),
    ("llama", YARN, "yarn"),
    ("llama", {"ARCH.attention.head_count": [4, 4, 4], "ARCH.attention.scale": 8**-0.5,
               "ARCH.rope.dimension_count": 8, "ARCH.attention.value_length": 8,
               "ARCH.expert_count": 0, "ARCH.vocab_size": 97,
               "ARCH.rope.scaling.finetuned": False}, "llama"),
    ("phi3", {**LONGROPE, "ARCH.rope.scaling.original_context_length": 8,
              "ARCH.rope.scaling.attn_factor": (1 + np.log(8) / np.log(8)) ** 0.5}, "longrope"),
    ("phi3", {"ARCH.rope.dimension_count": 4}, "partial"),
    ("llama", {"ARCH.rope.dimension_count": 4}, "says rope.dimension_count 4 is not known"),
    ("llama", {"ARCH.rope.freq_scale": 0.25}, "says rope.freq_scale 0.25 is not known"),
    ("llama", {"ARCH.attention.value_length": 16}, "says attention.value_length 16"),
    ("llama", {"ARCH.attention.causal": False}, "says attention.causal False"),
    ("llama", {"ARCH.attention.clamp_kqv": 8.0}, "says attention.clamp_kqv 8.0"),
    ("llama", {"ARCH.expert_count": 8}, "says expert_count 8"),
    ("llama", {"ARCH.logit_scale": 0.5}, "says logit_scale 0.5"),
    ("llama", {"ARCH.rope.scaling.type": "spiral", "ARCH.rope.scaling.factor": 2.0},
     "rope_type is one of default"),
    ("llama", {"ARCH.rope.scale_linear": "x"}, "factor is a number above 0, got 'x'"),
    ("llama", {**YARN, "ARCH.rope.scaling.attn_factor": 0.5}, "yarn with an attn_factor of 0.5"),
    ("llama", {"ARCH.attention.scale": 0.0}, "attention.scale is a number above 0, got 0.0"),
    ("llama", {"split.count": 3}, "one of 3 parts of a model; join them"),
]  # fmt: skip


@pytest.mark.parametrize(("name", "fields", "other"), FIELDS)
def test_what_a_file_says_is_done_or_told(
    transformers: Any, torch: Any, tmp_path: Path, name: str, fields: dict[str, Any], other: str
) -> None:
    """Older keys and those of other models, as llama.cpp reads them; none is left out silently."""
    path = tmp_path / "model.gguf"
    converted(path, families.made(transformers, torch, name), name, "F32", **fields)
    if other not in families.FAMILIES:
        with pytest.raises(ValueError, match=re.escape(other)) as found:
            CausalLM.from_pretrained(path)
        assert str(path) in str(found.value)
        return
    want = families.made(transformers, torch, other)(torch.tensor(IDS)).logits.detach()
    model = CausalLM.from_pretrained(path)
    np.testing.assert_allclose(model(pf.tensor(IDS)).detach(), want, 1e-4, 1e-4)
    model.save_pretrained(tmp_path / "saved")
    again = CausalLM.from_pretrained(tmp_path / "saved")
    assert again(pf.tensor(IDS)).equal(model(pf.tensor(IDS)))


def test_layers_that_slide_and_turns_that_end(
    transformers: Any, torch: Any, tmp_path: Path
) -> None:
    path = tmp_path / "model.gguf"
    theirs = families.made(transformers, torch, "gemma3")
    pattern = [True, False, True, True, True, True, False]
    more = {"ARCH.attention.sliding_window_pattern": pattern, "ARCH.rope.freq_base_swa": 500.0,
            "tokenizer.ggml.eos_token_id": 3, "tokenizer.ggml.eot_token_id": 5}  # fmt: skip
    converted(path, theirs, "gemma3", "F32", **more)
    config = GGUF(path).config()
    assert [t.startswith("slid") for t in config.layer_types] == pattern
    assert config.rotary["sliding_attention"]["rope_theta"] == 500
    assert config.ends == [3, 5]
    converted(path, theirs, "gemma3", "F32", **{"ARCH.odd": 7})
    with pytest.warns(UserWarning, match=r"model\.gguf says 'odd', which is not known here"):
        GGUF(path).config()
    data = bytearray(path.read_bytes())
    data[4:8] = data[7:3:-1]
    path.write_bytes(data)
    with pytest.raises(ValueError, match="this GGUF file is big-endian; turn a copy by `gguf-conv"):
        GGUF(path)


def test_the_widest_gemma_scales_otherwise(
    transformers: Any, torch: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its files don't say so, nor how one layer in six sees all, with a base of its own."""
    path = tmp_path / "model.gguf"
    converted(path, families.made(transformers, torch, "gemma3"), "gemma3", "F32")
    config = GGUF(path).config()
    assert config.query_pre_attn_scalar == 256
    assert [t.split("_")[0] for t in config.layer_types] == [*["sliding"] * 5, "full", "sliding"]
    assert [config.rotary[t]["rope_theta"] for t in config.layer_types[4:6]] == [1e4, 1e6]
    monkeypatch.setattr("pyframe.text.gguf._WIDE", {"gemma3_text": 7})
    assert GGUF(path).config().query_pre_attn_scalar == 32 / 4


@pytest.mark.parametrize("name", ["gpt2", "llama, biased and tied"])
def test_weights_stay_packed(transformers: Any, torch: Any, tmp_path: Path, name: str) -> None:
    """They are worth the same, bit for bit, as those that were read as floats."""
    path = tmp_path / "model.gguf"
    converted(path, families.made(transformers, torch, name), name, "Q4_0")
    plain, model = (AutoModel.from_pretrained(path, packed=p) for p in (False, True))
    assert isinstance(model, CausalLM)
    layers, kept = dict(plain.named_modules()), 0
    for n, layer in model.named_modules():
        if "packed" in layer._buffers:
            kept += 1
            assert not layer._parameters.keys() - {"bias"}
            assert layer.weight.numpy().tobytes() == layers[n].weight.detach().numpy().tobytes()
    assert kept > 2 * len(model.model.layers)
    with pf.no_grad():
        np.testing.assert_allclose(model(pf.tensor(IDS)), plain(pf.tensor(IDS)), 1e-4, 1e-4)
    with pytest.raises(ValueError, match=r"save_pretrained: model\.embed_tokens holds its weight"):
        model.save_pretrained(tmp_path / "saved")
    assert not (tmp_path / "saved").exists()


def written(path: Path, made: Any, kind: str, **more: Any) -> None:
    """A file of a tokenizer's tokens alone."""
    writer = gguf.GGUFWriter(path, "llama")
    tokens = [made.id_to_token(i) for i in range(made.get_vocab_size())]
    added = {token.content for token in made.get_added_tokens_decoder().values()}
    writer.add_tokenizer_model(kind)
    writer.add_token_list(tokens)
    writer.add_token_types([3 if t in added else 1 for t in tokens])
    writer.add_bos_token_id(tokens.index("<s>"))
    writer.add_eos_token_id(tokens.index("<|end|>"))
    writer.add_chat_template(TEMPLATE)
    for name, value in more.items():
        getattr(writer, f"add_{name}")(value)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.close()


def test_tokens(tmp_path: Path) -> None:
    """A file's tokenizer is the one that it was made of."""
    tokenizers, path = pytest.importorskip("tokenizers"), tmp_path / "tokens.gguf"
    made = test_tokenizers.by_pieces(tokenizers)
    scores = {"▁H": -1.0, "ll": -2.0, "ow": -3.0, "▁w": -4.0}
    tokens = [made.id_to_token(i) for i in range(made.get_vocab_size())]
    written(path, made, "llama", token_scores=[scores.get(t, -9.0) for t in tokens],
            unk_token_id=0)  # fmt: skip
    mine = Tokenizer.from_pretrained(path)
    for text in test_tokenizers.TEXTS:
        ids = made.encode(text).ids
        assert (mine.encode(text), mine.decode(ids)) == (ids, made.decode(ids, False))
    assert mine.chat([{"content": "Hello!"}]) == "Hello!"
    assert mine.special["eos_token"] == "<|end|>"

    made = test_tokenizers.byte_level(tokenizers)
    merges = [
        " ".join(m) if isinstance(m, list) else m
        for m in json.loads(made.to_str())["model"]["merges"]
    ]
    written(path, made, "gpt2", token_merges=merges, add_bos_token=True, tokenizer_pre="gpt-2")
    mine = Tokenizer.from_pretrained(path)
    for text in test_tokenizers.TEXTS:
        ids = made.encode(text).ids
        assert mine.encode(text, add_special_tokens=False) == ids
        assert mine.encode(text) == [mine.id("<s>"), *ids]
    for cut in ("llama-bpe", "qwen2", "smollm"):
        written(path, made, "gpt2", token_merges=merges, tokenizer_pre=cut)
        mine = Tokenizer.from_pretrained(path)
        for text in test_tokenizers.TEXTS[:4]:
            assert mine.decode(mine.encode(text)) == text
    for how, why in (({"tokenizer_pre": "knife"}, "texts cut as 'knife'"), ({}, "kind 'rwkv'")):
        written(path, made, "gpt2" if how else "rwkv", token_merges=merges, **how)
        with pytest.raises(ValueError, match=why):
            Tokenizer.from_pretrained(path)
