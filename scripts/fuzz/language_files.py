"""Language models of others: GGUF files as their own package writes them, and files and folders of
models that are wrong on purpose, read as `files.py` has files read."""

from __future__ import annotations

import functools
import json
import struct
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

import pyframe as pf
from pyframe.text import CausalLM, Config

from .check import FailureError
from .families import Draw, family
from .files import File, changes, mutated, paths, pieces, same

KINDS = ("F32", "F16", "Q8_0", "Q4_0", "Q4_K", "Q6_K")
SIZES = {
    "vocab_size": 32, "hidden_size": 16, "intermediate_size": 32, "num_hidden_layers": 1,
    "num_attention_heads": 2, "num_key_value_heads": 1, "max_position_embeddings": 16,
    "head_dim": 8,
}  # fmt: skip
GPT2 = {"vocab_size": 32, "n_embd": 16, "n_layer": 1, "n_head": 2, "n_positions": 16}
DECODERS = ("gpt2", "llama", "mistral", "qwen2", "qwen3", "gemma", "gemma2", "gemma3_text", "phi3")
# what llama.cpp's files call our layers
NAMES = {
    "model.embed_tokens": "token_embd", "model.embed_positions": "position_embd",
    "model.norm": "output_norm", "lm_head": "output", "input_layernorm": "attn_norm",
    "q_proj": "attn_q", "k_proj": "attn_k", "v_proj": "attn_v", "qkv_proj": "attn_qkv",
    "o_proj": "attn_output", "q_norm": "attn_q_norm", "k_norm": "attn_k_norm",
    "post_attention_layernorm": "ffn_norm", "gate_proj": "ffn_gate", "up_proj": "ffn_up",
    "gate_up_proj": "ffn_up", "down_proj": "ffn_down",
}  # fmt: skip
SANDWICH = {
    "post_attention_layernorm": "post_attention_norm", "pre_feedforward_layernorm": "ffn_norm",
    "post_feedforward_layernorm": "post_ffw_norm",
}  # fmt: skip


# --- what the package gguf writes


class Written:
    """A model's file, and what is told of it when it was read otherwise."""

    def __init__(self, seed: int, kind: str, quant: str, **sizes: int) -> None:
        self.seed, self.kind, self.quant, self.sizes = seed, kind, quant, sizes

    def check(self, backend: Any) -> bool:
        """See that each weight is what the file's bits are worth, bit for bit."""
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "model.gguf"
            want = self.write(path)
            for packed in (False, True):
                found = CausalLM.from_pretrained(path, packed=packed)
                modules = dict(found.named_modules())
                for name, value in want.items():
                    layer, _, last = name.rpartition(".")
                    got = getattr(modules[layer], last).detach().numpy()
                    if got.shape != value.shape or got.tobytes() != value.tobytes():
                        raise FailureError("bits", f"{name} is otherwise; packed={packed}")
        return True

    def write(self, path: Path) -> dict[str, np.ndarray[Any, Any]]:
        """As llama.cpp's convert_hf_to_gguf.py does; what each weight is then worth."""
        import gguf

        pf.manual_seed(self.seed)
        names = dict(zip(("hidden_size", "num_hidden_layers", "vocab_size"),
                         ("n_embd", "n_layer", "vocab_size"), strict=True))  # fmt: skip
        sizes = SIZES | self.sizes
        if self.kind == "gpt2":
            sizes = GPT2 | {names[n]: v for n, v in self.sizes.items() if n in names}
        model = CausalLM(Config.from_dict({"model_type": self.kind, **sizes}))
        c, of = model.config, gguf.GGMLQuantizationType[self.quant]
        architecture = {"mistral": "llama", "gemma3_text": "gemma3"}.get(self.kind, self.kind)
        writer = gguf.GGUFWriter(path, architecture)
        writer.add_context_length(c.max_position_embeddings)
        writer.add_embedding_length(c.hidden_size)
        writer.add_block_count(c.num_hidden_layers)
        writer.add_head_count(c.num_attention_heads)
        writer.add_feed_forward_length(c.intermediate_size)
        writer.add_layer_norm_rms_eps(c.norm_eps)
        writer.add_head_count_kv(c.num_key_value_heads)
        writer.add_key_length(c.head_dim)
        if architecture.startswith(("gemma2", "gemma3")):
            writer.add_sliding_window(c.sliding_window)
        want = {}
        for name, p in model.named_parameters():
            value = np.array(p.detach().numpy(), np.float32)
            layer, last = name.removeprefix("model.layers.").rsplit(".", 1)
            number = layer.split(".")[0] if name.startswith("model.layers.") else ""
            short = layer.rpartition(".")[2] if number else layer
            named = (NAMES | SANDWICH if c.sandwich else NAMES)[short]
            plus = architecture.startswith("gemma") and short.endswith("norm")
            value = value + np.float32(plus)
            paired = architecture == "llama" and short in ("q_proj", "k_proj")
            if paired:
                turned = value.reshape(-1, 2, c.head_dim // 2, value.shape[1]).swapaxes(1, 2)
                value = np.ascontiguousarray(turned.reshape(value.shape))
            block = gguf.GGML_QUANT_SIZES[of][0]
            fits = value.ndim == 2 and value.shape[1] % block == 0
            if fits and self.quant in ("Q4_K", "Q6_K"):  # which the package reads alone
                size = gguf.GGML_QUANT_SIZES[of][1]
                draws = np.random.default_rng(self.seed)
                data = draws.integers(0, 60, (len(value), value.shape[1] // block * size), np.uint8)
            else:
                data = gguf.quants.quantize(value, of) if fits else value
            kind = of if fits else None
            place = f"blk.{number}.{named}.{last}" if number else f"{named}.{last}"
            writer.add_tensor(place, data, raw_dtype=kind)
            if fits:
                with np.errstate(all="ignore"):
                    value = gguf.quants.dequantize(data, of)
            if paired:
                turned = value.reshape(-1, c.head_dim // 2, 2, value.shape[1]).swapaxes(1, 2)
                value = turned.reshape(value.shape)
            want[name] = np.ascontiguousarray(value - np.float32(plus))
        writer.write_header_to_file()
        writer.write_kv_data_to_file()
        writer.write_tensors_to_file()
        writer.close()
        return want

    def smaller(self) -> Iterator[Written]:
        """Those of plainer sizes."""
        for name in self.sizes:
            rest = {n: v for n, v in self.sizes.items() if n != name}
            yield Written(self.seed, self.kind, self.quant, **rest)

    def text(self, backend: Any) -> str:
        """How it is written again."""
        return f"Written({self.seed}, {self.kind!r}, {self.quant!r}, **{self.sizes})"


@family("gguf")
def gguf_files(d: Draw) -> Written:
    """A model of any family, of odd sizes, with bits of any kind."""
    quant, sizes = d.pick(*KINDS), {}
    if d.maybe(0.7):
        sizes["hidden_size"] = d.pick(8, 16, 32, 40, 64, 256)
    if d.maybe(0.6):
        sizes["intermediate_size"] = d.pick(1, 8, 32, 96, 256)
    if d.maybe(0.5):
        sizes["head_dim"] = d.pick(2, 4, 6, 16, 64)
    if d.maybe(0.5):
        sizes["vocab_size"] = d.pick(1, 7, 33, 300)
    if d.maybe(0.3):
        sizes["num_hidden_layers"] = d.pick(2, 7)
    return Written(d.seed, d.pick(*DECODERS), quant, **sizes)


# --- what no package writes


def encoded(value: Any, depth: int = 0) -> tuple[int, bytes]:
    """A field's type and bytes; of what has none, an int."""
    if isinstance(value, bool):
        return 7, bytes([value])
    if isinstance(value, int):
        for kind, form in ((4, "<I"), (5, "<i"), (10, "<Q"), (11, "<q")):
            try:
                return kind, struct.pack(form, value)
            except struct.error:
                pass
        return 10, b"\xff" * 8
    if isinstance(value, float):
        return 12, struct.pack("<d", value)
    if isinstance(value, str):
        data = value.encode("utf-8", "surrogatepass")
        return 8, struct.pack("<Q", len(data)) + data
    if isinstance(value, list):
        some = [encoded(v, depth + 1) for v in value]
        kind = some[0][0] if some else 4
        data = b"".join(data for k, data in some if k == kind)
        count = sum(k == kind for k, _ in some)
        return 9, struct.pack("<IQ", kind, count) + data
    return 4, bytes(4)


def header(tree: Any) -> bytes:
    """A file of what a tree has: fields and tensors, where they are such."""
    fields = tree.get("fields") if isinstance(tree, dict) else None
    tensors = tree.get("tensors") if isinstance(tree, dict) else None
    fields = fields if isinstance(fields, dict) else {}
    tensors = [t for t in tensors if isinstance(t, list) and len(t) == 4] \
        if isinstance(tensors, list) else []  # fmt: skip
    parts = [b"GGUF", struct.pack("<IQQ", 3, len(tensors), len(fields))]
    for name, value in fields.items():
        kind, data = encoded(value)
        parts += [encoded(str(name))[1], struct.pack("<I", kind), data]
    for name, dims, kind, place in tensors:
        dims = dims if isinstance(dims, list) else [dims]
        parts += [encoded(str(name))[1], struct.pack("<I", len(dims))]
        numbers = [n if isinstance(n, int) else 0 for n in (*dims, kind, place)]
        *dims, kind, place = numbers
        parts += [struct.pack("<Q", n & ((1 << 64) - 1)) for n in dims]
        parts += [struct.pack("<I", kind & 0xFFFFFFFF), struct.pack("<Q", place & ((1 << 64) - 1))]
    data = b"".join(parts)
    return data + bytes(-len(data) % 32)


TOKENS = ["<unk>", "<s>", "</s>", *"abcdefghijklmnopqrstuvwxyz", "ab", "cd", "▁"]


@functools.cache
def good_tree() -> dict[str, Any]:
    """Of a file that is read."""
    tensors, at = [], 0
    c = SIZES
    width, inner, heads = c["hidden_size"], c["intermediate_size"], 16
    shapes = {
        "token_embd": [c["vocab_size"], width], "output_norm": [width], "output": [32, width],
        "blk.0.attn_norm": [width], "blk.0.attn_q": [heads, width], "blk.0.attn_k": [8, width],
        "blk.0.attn_v": [8, width], "blk.0.attn_output": [width, heads], "blk.0.ffn_norm": [width],
        "blk.0.ffn_gate": [inner, width], "blk.0.ffn_up": [inner, width],
        "blk.0.ffn_down": [width, inner],
    }  # fmt: skip
    for name, shape in shapes.items():
        tensors.append([f"{name}.weight", shape[::-1], 0, at])
        at += 4 * int(np.prod(shape))
    fields = {
        "general.architecture": "llama", "llama.context_length": 16, "llama.embedding_length": 16,
        "llama.block_count": 1, "llama.feed_forward_length": 32, "llama.attention.head_count": 2,
        "llama.attention.head_count_kv": 1, "llama.attention.key_length": 8,
        "llama.attention.layer_norm_rms_epsilon": 1e-5, "llama.rope.freq_base": 1e4,
        "llama.rope.scaling.type": "linear", "llama.rope.scaling.factor": 2.0,
        "general.alignment": 32, "tokenizer.ggml.model": "llama", "tokenizer.ggml.tokens": TOKENS,
        "tokenizer.ggml.scores": [-float(i) for i in range(32)],
        "tokenizer.ggml.token_type": [2, 3, 3, *[1] * 29], "tokenizer.ggml.bos_token_id": 1,
        "tokenizer.ggml.eos_token_id": 2, "tokenizer.ggml.unknown_token_id": 0,
        "tokenizer.ggml.add_bos_token": True, "tokenizer.chat_template": "{{ messages }}",
    }  # fmt: skip
    return {"fields": fields, "tensors": tensors, "bytes": at}


OTHERS = [
    "rope.scale_linear", "rope.freq_scale", "rope.dimension_count", "rope.freq_base_swa",
    "rope.scaling.attn_factor", "rope.scaling.yarn_beta_fast", "rope.scaling.yarn_ext_factor",
    "rope.scaling.original_context_length", "attention.scale", "attention.value_length",
    "attention.sliding_window", "attention.sliding_window_pattern", "attention.causal",
    "expert_count", "logit_scale", "vocab_size", "odd", "attention.clamp_kqv", "block_count",
]  # fmt: skip


@family("gguf-headers")
def gguf_headers(d: Draw) -> File:
    """A GGUF file whose fields or tensors are others, or some of whose bytes are."""
    tree = json.loads(json.dumps(good_tree()))
    if d.maybe(0.3):
        tree["fields"]["tokenizer.ggml.model"] = "gpt2"
        tree["fields"]["tokenizer.ggml.pre"] = d.pick("llama-bpe", "qwen2", "gpt-2", "smollm")
        tree["fields"]["tokenizer.ggml.merges"] = ["a b", "c d"]
    if d.maybe(0.2):
        kind = d.pick("gpt2", "qwen2", "gemma2", "gemma3", "phi3", "bert", "qwen3")
        for name in [*tree["fields"]]:
            new = name.replace("llama.", f"{kind}.") if name.startswith("llama.") else name
            tree["fields"][new] = tree["fields"].pop(name)
        tree["fields"]["general.architecture"] = kind
    if d.maybe(0.4):  # what other files say, or older ones
        tree["fields"][f"{tree['fields']['general.architecture']}.{d.pick(*OTHERS)}"] = d.pick(
            0, 1, 2, 8, 1.0, 0.5, 4.0, float("nan"), 1 << 70, "yarn", "none", "", True, [1], [2, 2]
        )
    long = [n for n, v in tree["fields"].items() if isinstance(v, list) and d.maybe(0.8)]
    kept = {n: tree["fields"].pop(n) for n in long}  # of which else almost all changes are
    if d.maybe(0.9):
        tree = mutated(d, tree)
    if isinstance(tree, dict) and isinstance(tree.get("fields"), dict):
        tree["fields"] |= kept
    start = header(tree)
    rest = bytes(good_tree()["bytes"] if d.maybe(0.95) else 7)
    found = changes(d, 0.2)
    found = tuple((at % len(start), gone, come) for at, gone, come in found)
    return File("gguf", pieces(start, 64), functools.partial(filled, rest=rest), "", found)


def filled(data: bytes, rest: bytes) -> bytes:
    """A header with data behind it."""
    return data + rest


# --- folders

TOKENIZER: dict[str, Any] = {
    "version": "1.0", "truncation": None, "padding": None,
    "added_tokens": [{"id": 1, "content": "<s>", "single_word": False, "lstrip": False,
                      "rstrip": False, "normalized": False, "special": True}],
    "normalizer": {"type": "Sequence", "normalizers": [
        {"type": "Prepend", "prepend": "▁"},
        {"type": "Replace", "pattern": {"String": " "}, "content": "▁"}]},
    "pre_tokenizer": {"type": "Sequence", "pretokenizers": [
        {"type": "Split", "pattern": {"Regex": r"\p{L}+|\s+"}, "behavior": "Isolated",
         "invert": False},
        {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": False}]},
    "post_processor": {"type": "TemplateProcessing",
        "single": [{"SpecialToken": {"id": "<s>", "type_id": 0}},
                   {"Sequence": {"id": "A", "type_id": 0}}],
        "pair": [{"Sequence": {"id": "A", "type_id": 0}}, {"Sequence": {"id": "B", "type_id": 1}}],
        "special_tokens": {"<s>": {"id": "<s>", "ids": [1], "tokens": ["<s>"]}}},
    "decoder": {"type": "Sequence", "decoders": [
        {"type": "Replace", "pattern": {"String": "▁"}, "content": " "},
        {"type": "ByteFallback"}, {"type": "Fuse"},
        {"type": "Strip", "content": " ", "start": 1, "stop": 0}]},
    "model": {"type": "BPE", "dropout": None, "unk_token": "<unk>",
              "continuing_subword_prefix": None, "end_of_word_suffix": None, "fuse_unk": True,
              "byte_fallback": False, "vocab": {t: i for i, t in enumerate(TOKENS)},
              "merges": [["a", "b"], ["c", "d"]]},
}  # fmt: skip
MODELS: list[dict[str, Any]] = [
    TOKENIZER["model"],
    {"type": "WordPiece", "unk_token": "<unk>", "continuing_subword_prefix": "##",
     "max_input_chars_per_word": 100, "vocab": {t: i for i, t in enumerate(TOKENS)}},
    {"type": "Unigram", "unk_id": 0, "byte_fallback": False,
     "vocab": [[t, -float(i)] for i, t in enumerate(TOKENS)]},
    {"type": "WordLevel", "unk_token": "<unk>", "vocab": {t: i for i, t in enumerate(TOKENS)}},
]  # fmt: skip
SAYS = {"eos_token_id": [2, 3], "pad_token_id": 0, "do_sample": True, "temperature": 0.7,
        "top_p": 0.9, "top_k": 5, "max_length": 9, "repetition_penalty": 1.1, "min_p": 0.1,
        "suppress_tokens": [4, 5], "begin_suppress_tokens": [6], "min_new_tokens": 2,
        "bad_words_ids": [[7], [8, 9]], "no_repeat_ngram_size": 2, "min_length": 4,
        "max_new_tokens": 3, "num_beams": 1, "typical_p": 1.0, "forced_eos_token_id": None}  # fmt: skip
TOKENIZER_CONFIG = {
    "bos_token": "<s>", "eos_token": {"content": "</s>", "lstrip": False}, "pad_token": "<unk>",
    "chat_template": [{"name": "default", "template": "{{ messages[0].content }}"}],
}  # fmt: skip
ADAPTER = {
    "peft_type": "LORA", "task_type": "CAUSAL_LM", "bias": "none", "r": 2, "lora_alpha": 4,
    "lora_dropout": 0.1, "use_rslora": False, "target_modules": ["q_proj"],
}  # fmt: skip


@functools.cache
def good_folder() -> dict[str, bytes]:
    """The files of a model that is read."""
    pf.manual_seed(0)
    config = {"model_type": "llama", **SIZES, "rope_theta": 1e4, "hidden_act": "silu",
              "rope_scaling": {"rope_type": "linear", "factor": 2.0}, "sliding_window": 4,
              "tie_word_embeddings": False, "layer_types": ["full_attention"]}  # fmt: skip
    model = CausalLM(Config.from_dict(config))
    trees = {
        "config.json": config, "generation_config.json": SAYS, "tokenizer.json": TOKENIZER,
        "tokenizer_config.json": TOKENIZER_CONFIG,
    }  # fmt: skip
    found = {n: json.dumps(t).encode() for n, t in trees.items()}
    with tempfile.TemporaryDirectory() as folder:
        pf.save(model.state_dict(), Path(folder) / "x")
        found["pytorch_model.bin"] = (Path(folder) / "x").read_bytes()
    state = model.state_dict()
    found["model.safetensors"] = pf.io.safetensors.save(state)
    index = {"metadata": {}, "weight_map": dict.fromkeys(state, "model-1.safetensors")}
    found["model.safetensors.index.json"] = json.dumps(index).encode()
    matrices = {
        f"base_model.model.model.layers.0.self_attn.q_proj.lora_{m}.weight": pf.ones(*shape)
        for m, shape in (("A", (2, 16)), ("B", (16, 2)))
    }  # fmt: skip
    found["adapter_config.json"] = json.dumps(ADAPTER).encode()
    found["adapter_model.safetensors"] = pf.io.safetensors.save(matrices)
    return found


def good() -> dict[str, bytes]:
    """A file of each format that is read."""
    start = header(good_tree())
    files = {n: f for n, f in good_folder().items() if not n.startswith("model.safetensors.")}
    text = json.dumps({n: f.decode("latin-1") for n, f in files.items()})
    return {"gguf": start + bytes(good_tree()["bytes"]), "folder": text.encode(),
            "tokenizer": json.dumps(TOKENIZER).encode(), "template": b"{{ 1 | string }}"}  # fmt: skip


@family("model-folders")
def folders(d: Draw) -> File:
    """A folder of a model, one of whose files says something else."""
    files = dict(good_folder())
    weights = d.pick("model.safetensors", "model.safetensors.index.json", "pytorch_model.bin")
    if "index" in weights:
        files["model-1.safetensors"] = files["model.safetensors"]
    for name in ("model.safetensors", "model.safetensors.index.json", "pytorch_model.bin"):
        if name != weights:
            del files[name]
    name = d.pick("config.json", "config.json", "generation_config.json", "tokenizer_config.json",
                  weights, "adapter_config.json", "adapter_model.safetensors")  # fmt: skip
    data = files[name]
    if name.endswith(".json"):
        tree = json.loads(data)
        if name == "config.json" and d.maybe(0.4):
            tree["model_type"] = d.pick("gpt2", "bert", "gemma3_text", "phi3", "qwen2", "gemma2")
            tree |= GPT2 if tree["model_type"] == "gpt2" else {}
        data = json.dumps(mutated(d, tree)).encode()
    found = changes(d, 0.1 if name.endswith(".json") else 1)
    for at, gone, come in found:
        at %= len(data) + 1
        data = data[:at] + come + data[at + gone :]
    files[name] = data
    if d.maybe(0.05):
        del files[d.pick(*files)]
    text = json.dumps({n: f.decode("latin-1") for n, f in files.items()})
    return File("folder", (text.encode(),), same)


@family("tokenizers")
def tokenizer_files(d: Draw) -> File:
    """A tokenizer.json of which something is otherwise."""
    tree = json.loads(json.dumps(TOKENIZER))
    tree["model"] = json.loads(json.dumps(d.pick(*MODELS)))
    if d.maybe(0.3):
        tree["decoder"] = d.pick({"type": "ByteLevel"}, {"type": "WordPiece", "prefix": "##", "cleanup": True},
                                 {"type": "Metaspace", "replacement": "▁", "prepend_scheme": "always"})  # fmt: skip
    if d.maybe(0.2):
        tree["pre_tokenizer"] = d.pick({"type": "BertPreTokenizer"}, {"type": "Whitespace"}, {"type": "Metaspace",
            "replacement": "▁", "prepend_scheme": "first", "split": True})  # fmt: skip
    if d.maybe(0.3):  # something that bites where it stands
        ways = [w for w in paths(tree) if w and w[-1] in ("Regex", "String", "content", "prepend",
                "unk_token", "continuing_subword_prefix", "max_input_chars_per_word")]  # fmt: skip
        way = d.rng.choice(ways)
        node = tree
        for key in way[:-1]:
            node = node[key]
        node[way[-1]] = d.pick("(a+)+$", "(a|aa)+$", "(" * 3000, "", "a" * 3000, 1 << 60, "(?<=a*)b",
                               "[", "a{1000}{1000}{1000}", "(?:a?){40}a{40}")  # fmt: skip
    if d.maybe(0.7):
        tree = mutated(d, tree)
    text = json.dumps(tree).encode()
    if d.maybe(0.03):
        text = d.pick(
            b"[" * 100_000, b'{"model":' * 30_000, b"", b"\xff\xfe", text[: len(text) // 2]
        )
    return File("tokenizer", pieces(text, 64), same, ".json", changes(d, 0.1))


# --- templates

VALUES = ["messages", "messages[0].content", "'a'", "''", "7", "100000", "10**9", "-1", "1.5", "none", "true", "ns.x",
          "ns", "m", "m.content", "range(99999)", "[ns.x, ns.x]", "(ns.x, ns.x)", "{'a': ns.x, 'b': ns.x}", "tools",
          "'%s%s'", "'{0}{0}'", "'\\n'", "f", "loop", "self", "cycler('a')", "joiner()", "dict(a=1)", "bos_token",
          "messages | map(attribute='content')", "messages | list"]  # fmt: skip
FILTERS = ["upper", "list", "join", "join({a})", "replace({a}, {b})", "center({a})", "indent({a})", "length", "tojson",
           "tojson(indent={a})", "map('center', {a})", "map('upper')", "batch({a})", "slice({a}, {b})", "sum", "sum(start={a})",
           "string", "format({a})", "round({a})", "attr({a})", "default({a})", "sort", "unique", "first", "reverse",
           "truncate({a})", "urlencode", "escape", "wordcount", "pprint", "int", "dictsort", "items", "trim({a})",
           "groupby({a})", "select", "max", "random", "title", "striptags"]  # fmt: skip
METHODS = ["join({a})", "replace({a}, {b})", "ljust({a})", "zfill({a})", "split({a})", "format({a}, {b})", "encode()",
           "expandtabs({a})", "translate({a})", "splitlines()", "items()", "__class__", "append({a})", "to_bytes({a})",
           "format_map({a})", "next()", "content", "startswith({a})", "partition({a})", "x"]  # fmt: skip


def expression(d: Draw, deep: int = 0) -> str:
    """Something that a template may ask for."""
    if deep > 3 or d.maybe(0.25):
        return str(d.pick(*VALUES))
    a, b, c = (expression(d, deep + 1) for _ in "abc")
    match d.int(0, 5):
        case 0 | 1:
            return f"({c}) | {d.pick(*FILTERS).format(a=a, b=b)}"
        case 2:
            return f"({c}).{d.pick(*METHODS).format(a=a, b=b)}"
        case 3:
            return (
                f"({a}) {d.pick('+', '*', '~', '%', '**', '-', '//', '==', 'in', '<', 'and')} ({b})"
            )
        case 4:
            return f"({a})[{b}]"
        case _:
            return f"[{a}, {b}]" if d.maybe() else f"f({a})"


def statements(d: Draw, deep: int = 0) -> str:
    """Some lines of a template."""
    found = []
    for _ in range(d.int(1, 3)):
        e = expression(d)
        inner = statements(d, deep + 1) if deep < 3 else "x"
        found.append(d.pick(
            f"{{{{ {e} }}}}", f"{{{{ {e} }}}}", f"{{% set ns.x = {e} %}}", f"{{% set m = {e} %}}",
            f"{{% for m in {e} %}}{inner}{{% endfor %}}", f"{{% for m in range(40) %}}{inner}{{% endfor %}}",
            f"{{% if {e} %}}{inner}{{% endif %}}", f"{{% macro f(m) %}}{inner}{{% endmacro %}}",
            f"{{% set m %}}{inner}{{% endset %}}", f"{{% filter upper %}}{inner}{{% endfilter %}}",
            f"{{% for m in {e} recursive %}}{{{{ loop({e}) }}}}{inner}{{% endfor %}}", "{{ f(m) }}",
            "{% set ns.x = ns.x ~ ns.x %}", "{% set ns.x = ns.x + ns.x %}", "{% set ns.x = ns.x * 9 %}",
        ))  # fmt: skip
    return "".join(found)


@family("templates")
def templates(d: Draw) -> File:
    """A chat's template that asks for too much, or for what it is not to have."""
    start = "{% set ns = namespace(x='ab') %}{% macro f(m) %}{{ m }}{% endmacro %}"
    text = start + statements(d)
    return File("template", pieces(text.encode(), 8), same, ".jinja", changes(d, 0.1))
