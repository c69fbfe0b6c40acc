"""GGUF files, llama.cpp's: a model's weights of few bits, its sizes and its tokens in one file.

    "GGUF" | version | numbers of tensors and of fields | fields | tensors' names, shapes, types and
    places | the data, aligned: https://github.com/ggml-org/ggml/blob/master/docs/gguf.md

The header is read here, where nothing is believed; what a block of bits is worth is computed by the
package gguf, but for floats and what stays packed: a page does without it.
"""

from __future__ import annotations

import contextlib
import math
import os
import re
import struct
import warnings
from collections.abc import Callable, Iterator, Mapping
from typing import Any, NamedTuple

import numpy as np

from pyframe.core import dtypes as dt
from pyframe.io import raw
from pyframe.io.files import opened
from pyframe.io.kinds import mistaken
from pyframe.tensor import Tensor, from_host
from pyframe.text.config import FAMILIES, LAYERS, Config, told_by

__all__ = ["GGUF"]

_NUMBERS = {  # of a field's types
    0: "<u1", 1: "<i1", 2: "<u2", 3: "<i2", 4: "<u4", 5: "<i4", 6: "<f4", 7: "<u1", 10: "<u8",
    11: "<i8", 12: "<f8",
}  # fmt: skip
_BOOL, _TEXT, _LIST = 7, 8, 9
_DEEPEST = 4  # lists in lists
_BLOCKS = {  # of tensors' types: elements that are packed together, and their bytes
    0: (1, 4), 1: (1, 2), 2: (32, 18), 3: (32, 20), 6: (32, 22), 7: (32, 24), 8: (32, 34),
    9: (32, 40), 10: (256, 84), 11: (256, 110), 12: (256, 144), 13: (256, 176), 14: (256, 210),
    15: (256, 292), 16: (256, 66), 17: (256, 74), 18: (256, 98), 19: (256, 50), 20: (32, 18),
    21: (256, 110), 22: (256, 82), 23: (256, 136), 24: (1, 1), 25: (1, 2), 26: (1, 4), 27: (1, 8),
    28: (1, 8), 29: (256, 56), 30: (1, 2), 34: (256, 54), 35: (256, 66), 39: (32, 17),
    40: (64, 36), 41: (128, 18),
}  # fmt: skip
_FLOATS = {0: "<f4", 1: "<f2"}
_PACKED = {8: 8, 2: 4}  # bits of Q8_0 and Q4_0
# architectures whose files say "llama", with rows of queries and keys in another order
_PAIRED = ("llama",)
# of models whose scale of scores is not told: the layers of that whose heads are narrower
_WIDE = {"gemma2": 46, "gemma3_text": 62}
_PLUS_ONE = ("gemma", "gemma2", "gemma3_text")  # norms hold 1 + weight
# our fields, by the file's keys after the name of the architecture
_FIELDS = {
    "context_length": "max_position_embeddings", "embedding_length": "hidden_size",
    "block_count": "num_hidden_layers", "feed_forward_length": "intermediate_size",
    "attention.head_count": "num_attention_heads",
    "attention.head_count_kv": "num_key_value_heads", "attention.key_length": "head_dim",
    "attention.layer_norm_rms_epsilon": "norm_eps", "attention.layer_norm_epsilon": "norm_eps",
    "attention.sliding_window": "sliding_window", "rope.freq_base": "rope_theta",
    "attn_logit_softcapping": "scores_cap", "final_logit_softcapping": "logits_cap",
}  # fmt: skip
# those that say what isn't done here, but for values with which it is nothing
_PLAIN: dict[str, tuple[Any, ...]] = {
    **dict.fromkeys(("expert_count", "expert_used_count", "attention.max_alibi_bias",
                     "attention.clamp_kqv", "use_parallel_residual", "nextn_predict_layers",
                     "swin_norm", "attention.shared_kv_layers"), (0,)),
    **dict.fromkeys(("logit_scale", "embedding_scale", "residual_scale", "attention.causal",
                     "rope.scaling.yarn_ext_factor", "attention.output_scale",
                     "rope.scaling.yarn_attn_factor", "rope.scaling.alpha"), (1,)),
}  # fmt: skip
# those that are looked at one by one, and those that say nothing of what is computed
_KNOWN_FIELDS = {
    *_FIELDS, "attention.value_length", "attention.scale", "attention.sliding_window_pattern",
    "rope.dimension_count", "rope.scale_linear", "rope.freq_base_swa", "rope.scaling.type",
    "rope.scaling.factor", "rope.scaling.original_context_length", "rope.scaling.attn_factor",
    "rope.scaling.yarn_beta_fast", "rope.scaling.yarn_beta_slow", "rope.scaling.finetuned",
    "vocab_size", "tensor_data_layout", "embedding_length_out", "pooling_type",
}  # fmt: skip
_NAMES = {
    "token_embd": "model.embed_tokens", "position_embd": "model.embed_positions",
    "output_norm": "model.norm", "output": "lm_head", "attn_norm": "input_layernorm",
    "attn_q": "self_attn.q_proj", "attn_k": "self_attn.k_proj", "attn_v": "self_attn.v_proj",
    "attn_qkv": "self_attn.qkv_proj", "attn_output": "self_attn.o_proj",
    "attn_q_norm": "self_attn.q_norm", "attn_k_norm": "self_attn.k_norm",
    "ffn_norm": "post_attention_layernorm", "ffn_gate": "mlp.gate_proj", "ffn_up": "mlp.up_proj",
    "ffn_down": "mlp.down_proj",
}  # fmt: skip
_SANDWICH = {
    "post_attention_norm": "post_attention_layernorm", "ffn_norm": "pre_feedforward_layernorm",
    "post_ffw_norm": "post_feedforward_layernorm",
}  # fmt: skip


class TensorEntry(NamedTuple):
    """Where a tensor lies."""

    kind: int
    shape: tuple[int, ...]
    begin: int
    end: int


class PackedWeight(NamedTuple):
    """A weight as layers that pf.quantize_ packs have it, in groups of 32."""

    bits: int
    words: Tensor  # (rows, groups, bits)
    scale: Tensor  # (rows, groups)

    @property
    def shape(self) -> tuple[int, int]:
        """Of the weight."""
        return self.scale.shape[0], self.scale.shape[1] * 32

    @property
    def dtype(self) -> Any:
        """Of the weight."""
        return self.scale.dtype


class GGUF:
    """A file: `metadata` by name, and tensors.

    ValueError for a file that is cut off or damaged, before anything of its size is made.
    """

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.path, self._at = os.fspath(path), 0
        with opened(path) as file:
            empty = file.seek(0, os.SEEK_END) == 0
            self._data = np.empty(0, np.uint8) if empty else raw.pages(file)
        if self._take(4).tobytes() != b"GGUF":
            raise self._bad(mistaken(self._data[:100].tobytes()) or "it begins with other bytes")
        version = self._number("<u4")
        if version in (2 << 24, 3 << 24):
            raise ValueError(
                f"{self.path}: this GGUF file is big-endian; turn a copy by `gguf-convert-endian "
                "FILE little`, which comes with the package gguf"
            )
        if version not in (2, 3):
            raise self._bad(f"versions 2 and 3 are known, this is {version}")
        tensors, fields = self._number("<u8"), self._number("<u8")
        self.metadata: dict[str, Any] = {}
        for _ in range(self._fits(fields, 13)):
            name = self._text()
            self.metadata[name] = self._value(self._number("<u4"))
        places = []
        for _ in range(self._fits(tensors, 24)):
            name, dims = self._text(), self._number("<u4")
            if dims > 4:
                raise self._bad(f"{name!r} has {dims} dims, 4 at most")
            shape = tuple(self._number("<u8") for _ in range(dims))[::-1]
            places.append((name, shape, self._number("<u4"), self._number("<u8")))
        align = self.metadata.get("general.alignment", 32)
        if not isinstance(align, int) or align < 1 or align & (align - 1):
            raise self._bad(f"data are aligned to a power of two, not {align}")
        start = -(-self._at // align) * align
        self.tensors: dict[str, TensorEntry] = {}
        for name, shape, kind, place in places:
            if kind not in _BLOCKS:
                raise self._bad(f"{name!r} is of type {kind}, which is unknown")
            block, size = _BLOCKS[kind]
            if any(n > max(self._data.size, 1) * 32 for n in shape):
                raise self._bad(f"{name!r:.80} is {list(shape)}, more than the file holds")
            if (shape[-1] if shape else 1) % block:
                raise self._bad(f"rows of {name!r} {list(shape)} are no blocks of {block}")
            begin = start + place
            end = begin + math.prod(shape) // block * size
            if name in self.tensors:
                raise self._bad(f"{name!r} is there twice")
            if end > self._data.size:
                raise self._bad(f"{name!r} ends at byte {end} of {self._data.size}")
            self.tensors[name] = TensorEntry(kind, shape, begin, end)

    def tensor(self, name: str) -> Tensor:
        """One of the tensors, in float32. ImportError where that needs the package gguf."""
        entry = self.tensors[name]
        part = self._data[entry.begin : entry.end]
        with np.errstate(all="ignore"):  # what a damaged file's bits are worth, it is worth
            if entry.kind in _FLOATS:
                found = part.view(_FLOATS[entry.kind])
            else:
                found = self._unpacked(name, part.reshape(-1, _BLOCKS[entry.kind][1]))
        return from_host(np.ascontiguousarray(found, np.float32).reshape(entry.shape), dt.float32)

    def _unpacked(self, name: str, blocks: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
        try:
            from gguf import GGMLQuantizationType, quants

            found: np.ndarray[Any, Any] = quants.dequantize(
                blocks, GGMLQuantizationType(self.tensors[name].kind)
            )
        except ImportError:
            raise ImportError(
                f"{self.path}: to unpack {name!r} needs the package gguf: pip install "
                "'pyframe-webgpu[text]', in a page packages=\"gguf\"; packed=True keeps Q8_0 and "
                "Q4_0 as they are"
            ) from None
        except (NotImplementedError, ValueError) as error:
            raise self._bad(f"{name!r}: {error}") from None
        return found

    def packed(self, name: str) -> PackedWeight | None:
        """One that is packed as ours are, without its floats; None if it is not."""
        kind, shape, begin, end = self.tensors[name]
        bits = _PACKED.get(kind)
        if bits is None or len(shape) != 2:
            return None
        # of each block a scale of 16 bits; then its ints, or those of 4 bits and 8 more in bytes
        # that have one of the first half in their lower bits, one of the others in their upper
        blocks = self._data[begin:end].reshape(-1, 2 + 4 * bits)
        ints = blocks[:, 2:]
        if bits == 4:
            halves = ints.reshape(-1, 4, 4)
            words = np.empty((len(ints), 4, 4), np.uint8)
            for half, some in enumerate((halves & 15, halves >> 4)):
                words[:, 2 * half : 2 * half + 2] = some[:, ::2] | some[:, 1::2] << 4
            ints = words.reshape(ints.shape) ^ 0x88
        scale = np.ascontiguousarray(blocks[:, :2]).view("<f2").astype(np.float32)
        groups = shape[0], shape[1] // 32
        return PackedWeight(
            bits,
            from_host(np.ascontiguousarray(ints).view(np.int32).reshape(*groups, bits), dt.int32),
            from_host(scale.reshape(groups), dt.float32),
        )

    def config(self) -> Config:
        """What the model is made of. ValueError for an architecture that is unknown, and for what
        its file says and is not done here, by name."""
        kind = self.metadata.get("general.architecture")
        said = {
            key.removeprefix(f"{kind}."): self._one(key, value)
            for key, value in self.metadata.items()
            if key.startswith(f"{kind}.")
        }
        kind = {"gemma3": "gemma3_text"}.get(str(kind), kind)
        names = FAMILIES.get(str(kind), ({}, {}))[0]
        data: dict[str, Any] = {"model_type": kind}
        data |= {names.get(field, field): said[key] for key, field in _FIELDS.items()
                 if key in said}  # fmt: skip
        self._see_the_rest(str(kind), said)
        embedded = self.tensors.get("token_embd.weight")
        if embedded is not None and embedded.shape:
            data["vocab_size"] = embedded.shape[0]
        if kind in ("llama", "qwen2", "qwen3", "phi3"):
            data["tie_word_embeddings"] = "output.weight" not in self.tensors
        if kind == "llama":
            data["attention_bias"] = "blk.0.attn_q.bias" in self.tensors
            data["mlp_bias"] = "blk.0.ffn_up.bias" in self.tensors
        for name, key in (("bos", "bos"), ("eos", "eos"), ("pad", "padding")):
            data[f"{name}_token_id"] = self.metadata.get(f"tokenizer.ggml.{key}_token_id")
        turns = [
            e for n in ("eot", "eom")
            if isinstance(e := self.metadata.get(f"tokenizer.ggml.{n}_token_id"), int)
            and 0 <= e < data.get("vocab_size", 0)
        ]  # fmt: skip
        if turns and data["eos_token_id"] is not None:  # of a chat's turns
            data["eos_token_id"] = [*dict.fromkeys([data["eos_token_id"], *turns])]
        with told_by(self.path):
            self._places(str(kind), said, data)
        wide = data.get("num_hidden_layers", 0) == _WIDE.get(str(kind))
        if wide and "query_pre_attn_scalar" not in data:  # as llama.cpp tells it
            with contextlib.suppress(LookupError, TypeError, ArithmeticError):  # told of below
                data["query_pre_attn_scalar"] = data["hidden_size"] / data["num_attention_heads"]
        with told_by(self.path):
            config = Config.from_dict(data)
        c, width = config, config.num_attention_heads * config.head_dim
        for name, shape in {  # before anything of these sizes is made
            "token_embd": (c.vocab_size, c.hidden_size),
            "position_embd": (c.max_position_embeddings, c.hidden_size),
            "blk.0.attn_output": (c.hidden_size, width),
            "blk.0.ffn_down": (c.hidden_size, c.intermediate_size),
            f"blk.{c.num_hidden_layers - 1}.ffn_down": (c.hidden_size, c.intermediate_size),
        }.items():
            found = self.tensors.get(f"{name}.weight")
            if found is None and name == "position_embd" and not c.learned_positions:
                continue
            if found is None or found.shape != shape:
                seen = "is missing" if found is None else f"is {list(found.shape)}"
                raise self._bad(f"{name}.weight {seen}; by its sizes it is {list(shape)}")
        return config

    def _one(self, key: str, value: Any) -> Any:
        """A field's value; of a list with one for each layer, the one that they all have."""
        each = key.endswith(("head_count", "head_count_kv", "feed_forward_length"))
        same = isinstance(value, list) and value and all(v == value[0] for v in value)
        return value[0] if each and same else value

    def _see_the_rest(self, kind: str, said: Mapping[str, Any]) -> None:
        """See that what a file says, and is not done here, is nothing. ValueError."""
        if self.metadata.get("split.count", 1) not in (0, 1):
            raise ValueError(
                f"{self.path}: this is one of {self.metadata['split.count']} parts of a model; "
                "join them by `llama-gguf-split --merge`"
            )
        dim = _head(said)
        same = {"attention.value_length": dim}
        if kind in _PAIRED:  # where a part of a head has the pairs in another order
            same["rope.dimension_count"] = dim
        if not kind.startswith("gemma3"):
            same["rope.freq_base_swa"] = said.get("rope.freq_base", 1e4)
        wrong = [n for n, x in same.items() if x is not None and said.get(n, x) != x]
        for name in sorted(said.keys() - _KNOWN_FIELDS):
            plain = _PLAIN.get(name, ())
            if not (isinstance(said[name], (int, float)) and said[name] in plain):
                wrong.append(name)
        bites = [n for n in wrong if n in _PLAIN or n.startswith(("rope.", "attention.", "expert"))]
        if bites:
            told = ", ".join(f"{n:.60} {said[n]!r:.40}" for n in bites[:10])
            raise ValueError(f"{self.path}: a {kind} file that says {told} is not known here")
        if wrong:
            told = ", ".join(f"{n!r:.60}" for n in wrong[:10])
            warnings.warn(
                f"{self.path} says {told}, which is not known here: the model may compute "
                "something else",
                stacklevel=3,
            )

    def _places(self, kind: str, said: Mapping[str, Any], data: dict[str, Any]) -> None:
        """Of what layers see, and of rotary positions and how these are stretched."""
        pattern = said.get("attention.sliding_window_pattern")
        if isinstance(pattern, list):
            data["layer_types"] = [LAYERS[bool(p)] for p in pattern]
        elif pattern is not None:
            data["full_every"] = pattern
        if (scale := said.get("attention.scale")) is not None:
            if not isinstance(scale, float) or not 1e-9 < scale < 1e9:
                raise ValueError(f"GGUF: attention.scale is a number above 0, got {scale!r:.80}")
            data["query_pre_attn_scalar"] = scale**-2
        if kind.startswith("gemma3") and "rope.freq_base_swa" in said:
            data["rope_local_base_freq"] = said["rope.freq_base_swa"]
        turned, dim = said.get("rope.dimension_count"), _head(said)
        if isinstance(turned, int) and dim and 0 < turned < dim:
            part = turned / dim
            data["partial_rotary_factor"] = (
                part if part * dim >= turned else math.nextafter(part, 1)
            )
        # as llama.cpp has it: without a type it is linear, by a factor that older files call so
        factor = said.get("rope.scaling.factor", said.get("rope.scale_linear"))
        how, attention = (
            said.get("rope.scaling.type", "linear"),
            said.get("rope.scaling.attn_factor"),
        )
        first = said.get("rope.scaling.original_context_length")
        scaling = {"rope_type": how, "factor": factor, "original_max_position_embeddings": first}
        if "rope_factors_short.weight" in self.tensors:
            short, long = (
                self.tensor(f"rope_factors_{n}.weight").tolist()
                if f"rope_factors_{n}.weight" in self.tensors
                else None
                for n in ("short", "long")
            )
            scaling |= {"rope_type": "longrope", "short_factor": short, "long_factor": long,
                        "attention_factor": 1.0 if attention is None else attention}  # fmt: skip
        elif how == "none" or (how == "linear" and factor in (None, 0)):
            return
        elif how == "yarn":
            scaling |= {
                f"beta_{n}": said.get(f"rope.scaling.yarn_beta_{n}") for n in ("fast", "slow")
            }
            if attention not in (None, 1):
                raise ValueError(
                    f"GGUF: yarn with an attn_factor of {attention!r:.40} is not known"
                )
        elif attention not in (None, 1):
            raise ValueError(f"GGUF: {how!r:.40} with an attn_factor of {attention!r:.40}")
        data["rope_scaling"] = {n: v for n, v in scaling.items() if v is not None}

    def weights(
        self, config: Config, packed: bool = False
    ) -> Iterator[tuple[str, str, Tensor | PackedWeight]]:
        """What each tensor is called in the file and in a model of ours, and its values; `packed`
        where they are."""
        names = {**_NAMES, **(_SANDWICH if config.sandwich else {})}
        if config.fused and config.gated:
            names["ffn_up"] = "mlp.gate_up_proj"
        tied = config.tie_word_embeddings
        for name in self.tensors:
            if name.startswith("rope_") or (tied and name.startswith("output.")):
                continue
            parts = re.fullmatch(r"(?:blk\.(\d+)\.)?(\w+)\.(weight|bias)", name)
            mine = name
            if parts and parts[2] in names:
                layer = "" if parts[1] is None else f"model.layers.{int(parts[1])}."
                mine = f"{layer}{names[parts[2]]}.{parts[3]}"
            paired = config.model_type in _PAIRED and parts and parts[2] in ("attn_q", "attn_k")
            if packed and (kept := self.packed(name)) is not None:
                if paired:
                    both = [_halves(x, config.head_dim) for x in kept[1:]]
                    kept = PackedWeight(kept.bits, *both)
                yield name, mine, kept
                continue
            value = self.tensor(name)
            if paired:
                value = _halves(value, config.head_dim)
            if config.model_type in _PLUS_ONE and mine.endswith("norm.weight"):
                value = value - 1
            yield name, mine, value

    def stretch(self) -> Tensor | None:
        """What divides the angles of rotary positions, where the file has it (Llama 3.1)."""
        name = "rope_freqs.weight"
        return self.tensor(name) if name in self.tensors else None

    # --- bytes

    def _bad(self, why: str) -> ValueError:
        return ValueError(f"{self.path}: this is no whole GGUF file: {why}")

    def _take(self, count: int) -> np.ndarray[Any, Any]:
        left = self._data.size - self._at
        if count > left:
            raise self._bad(f"{count} bytes are told of at byte {self._at}, {left} are left")
        self._at += count
        return self._data[self._at - count : self._at]

    def _fits(self, count: int, least: int) -> int:
        """A number of things of so many bytes at least."""
        left = self._data.size - self._at
        if count > left // least:
            raise self._bad(f"{count} entries are told of at byte {self._at}, {left} are left")
        return count

    def _number(self, kind: str) -> Any:
        size = int(kind[2])
        code = {"u": "BHIQ", "i": "bhiq", "f": "  fd"}[kind[1]][size.bit_length() - 1]
        return struct.unpack(f"<{code}", self._take(size))[0]

    def _text(self) -> str:
        return self._take(self._number("<u8")).tobytes().decode("utf-8", "replace")

    def _value(self, kind: int, depth: int = 0) -> Any:
        if kind in _NUMBERS:
            value = self._number(_NUMBERS[kind])
            return bool(value) if kind == _BOOL else value
        if kind == _TEXT:
            return self._text()
        if kind != _LIST or depth == _DEEPEST:
            raise self._bad(f"a field of type {kind} at byte {self._at}, {depth} lists deep")
        inner, count = self._number("<u4"), self._number("<u8")
        if inner in _NUMBERS:
            size = int(_NUMBERS[inner][2])
            return self._take(self._fits(count, size) * size).view(_NUMBERS[inner]).tolist()
        return [self._value(inner, depth + 1) for _ in range(self._fits(count, 8))]


def _head(said: Mapping[str, Any]) -> int | None:
    """How many numbers a head has, by a file's fields; None where they don't say it."""
    dim = said.get("attention.key_length")
    if dim is None:
        width, heads = said.get("embedding_length"), said.get("attention.head_count")
        if isinstance(width, int) and isinstance(heads, int) and heads:
            return width // heads
    return dim if isinstance(dim, int) else None


def _halves(x: Tensor, head_dim: int) -> Tensor:
    """Rows of queries or keys: here the first half of a head is turned with the second, there each
    row with the next."""
    if not x.ndim or not math.prod(x.shape) or x.shape[0] % head_dim or head_dim % 2:
        return x  # of another shape than a model's
    heads = x.shape[0] // head_dim
    return x.reshape(heads, head_dim // 2, 2, -1).transpose(1, 2).reshape(x.shape)


# --- tokens

_WORDS = (
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}%s| ?[^\s\p{L}\p{N}]+[\r\n]*"
    r"|\s*[\r\n]+|\s+(?!\S)|\s+"
)
# how texts are cut into words, before pairs of bytes are joined: a pattern, or GPT-2's own
_CUTS = {
    "gpt-2": None, "default": None, "llama-bpe": _WORDS % "{1,3}", "llama3": _WORDS % "{1,3}",
    "qwen2": _WORDS % "", "smollm": r"\p{N}",
}  # fmt: skip


_LONGEST = 1024  # characters of a token: all its parts are looked up


def _texts(x: Any) -> bool:
    return isinstance(x, list) and all(isinstance(t, str) and len(t) <= _LONGEST for t in x)


def _numbers(x: Any) -> bool:
    return isinstance(x, list) and all(isinstance(n, (int, float)) for n in x)


# what a file says of its tokenizer: whether it fits, and what it is
_TOLD: dict[str, tuple[Callable[[Any], bool], str]] = {
    "tokens": (_texts, f"a list of texts of {_LONGEST} characters at most"),
    "merges": (lambda x: _texts(x) and all(" " in t for t in x), "a list of two texts each"),
    "scores": (_numbers, "a list of numbers"), "token_type": (_numbers, "a list of numbers"),
    "pre": (lambda x: isinstance(x, str), "a text"),
    "unknown_token_id": (lambda x: isinstance(x, int), "a token's number"),
}  # fmt: skip


def tokenizer(
    metadata: Mapping[str, Any],
) -> tuple[dict[str, Any], dict[str, str], str | None]:
    """What a `tokenizer.json` says of a file's tokenizer, its special tokens, and its chats'
    template.

    ValueError for a kind of tokenizer, or a way to cut texts, that is not known.
    """
    said = {k.removeprefix("tokenizer.ggml."): v for k, v in metadata.items()}
    tokens, kind = said.get("tokens", []), said.get("model")
    if kind not in ("gpt2", "llama"):
        raise ValueError(
            f"GGUF: a tokenizer of kind {kind!r:.80} is not known; give the model's tokenizer.json"
        )
    for name, (fits, what) in _TOLD.items():
        if name in said and not fits(said[name]):
            raise ValueError(f"GGUF: tokenizer.ggml.{name} is {what}, got {said[name]!r:.80}")
    if not tokens or any(len(said.get(n, tokens)) != len(tokens) for n in ("scores", "token_type")):
        raise ValueError(
            f"GGUF: {len(tokens)} tokens have a score and a type each, or none is told"
        )
    ids = {t: i for i, t in enumerate(tokens)}
    made = _by_bytes(said, ids) if kind == "gpt2" else _by_scores(said, tokens, ids)
    types = said.get("token_type", [1] * len(tokens))
    flags = dict.fromkeys(("single_word", "lstrip", "rstrip", "normalized"), False)
    made["added_tokens"] = [
        {"id": i, "content": t, **flags, "special": n == 3}
        for i, (t, n) in enumerate(zip(tokens, types, strict=True))
        if n in (3, 4) and t and ids[t] == i
    ]
    names = {"bos": "bos", "eos": "eos", "unk": "unknown", "pad": "padding"}
    special = {
        f"{name}_token": tokens[i]
        for name, key in names.items()
        if isinstance(i := said.get(f"{key}_token_id"), int) and 0 <= i < len(tokens)
    }
    around = [
        special.get(f"{n}_token") if said.get(f"add_{n}_token", n == "bos" and kind == "llama")
        else None for n in ("bos", "eos")
    ]  # fmt: skip
    if any(around):
        one, two = (
            [{what: {"id": x, "type_id": i}}
             for what, x in (("SpecialToken", around[0]), ("Sequence", n),
                             ("SpecialToken", around[1])) if x]
            for n, i in (("A", 0), ("B", 1))
        )  # fmt: skip
        template = {
            "type": "TemplateProcessing", "single": one, "pair": one + two,
            "special_tokens": {t: {"id": t, "ids": [ids[t]], "tokens": [t]} for t in around if t},
        }  # fmt: skip
        before = made["post_processor"]
        both = {"type": "Sequence", "processors": [before, template]}
        made["post_processor"] = both if before else template
    chats = metadata.get("tokenizer.chat_template")
    return made, special, chats if isinstance(chats, str) else None


def _file(
    model: Mapping[str, Any], normalizer: Any, cut: Any, after: Any, decoder: Any
) -> dict[str, Any]:
    whole = {"dropout": None, "unk_token": None, "continuing_subword_prefix": None,
             "end_of_word_suffix": None, "fuse_unk": False, "byte_fallback": False,
             "ignore_merges": False}  # fmt: skip
    return {
        "version": "1.0", "truncation": None, "padding": None, "added_tokens": [],
        "normalizer": normalizer, "pre_tokenizer": cut, "post_processor": after,
        "decoder": decoder, "model": {"type": "BPE", **whole, **model},
    }  # fmt: skip


def _by_bytes(said: Mapping[str, Any], ids: Mapping[str, int]) -> dict[str, Any]:
    """As GPT-2's: pairs of bytes are joined in an order that the file has."""
    cut = said.get("pre", "default")
    if cut not in _CUTS:
        raise ValueError(
            f"GGUF: texts cut as {cut!r:.80} are not known; give the model's tokenizer.json"
        )
    pattern, parts = _CUTS[cut], list[Any]()
    if pattern is not None:
        parts.append({"type": "Split", "pattern": {"Regex": pattern}, "behavior": "Isolated",
                      "invert": False})  # fmt: skip
    level = {"type": "ByteLevel", "add_prefix_space": True, "trim_offsets": True, "use_regex": True}
    whole = pattern is None or cut == "smollm"
    parts.append({**level, "add_prefix_space": False, "use_regex": whole})
    return _file(
        {"vocab": ids, "merges": [pair.split(" ", 1) for pair in said.get("merges", [])]},
        {"type": "NFC"} if cut == "qwen2" else None,
        {"type": "Sequence", "pretokenizers": parts}, {**level, "trim_offsets": False}, level,
    )  # fmt: skip


def _by_scores(
    said: Mapping[str, Any], tokens: list[str], ids: Mapping[str, int]
) -> dict[str, Any]:  # fmt: skip
    """As SentencePiece's: of all pieces that two others make the best is joined first."""
    scores = said.get("scores", [0.0] * len(tokens))
    pairs = [
        (-scores[i], ids[x[:cut]], ids[x[cut:]], x[:cut], x[cut:])
        for x, i in ids.items()
        for cut in range(1, len(x))
        if x[:cut] in ids and x[cut:] in ids
    ]
    unknown = said.get("unknown_token_id", 0)
    first = said.get("add_space_prefix", True)
    normalizers: list[Any] = [{"type": "Replace", "pattern": {"String": " "}, "content": "▁"}]
    decoders: list[Any] = [
        {"type": "Replace", "pattern": {"String": "▁"}, "content": " "},
        {"type": "ByteFallback"}, {"type": "Fuse"},
    ]  # fmt: skip
    if first:
        normalizers.insert(0, {"type": "Prepend", "prepend": "▁"})
        decoders.append({"type": "Strip", "content": " ", "start": 1, "stop": 0})
    return _file(
        {"vocab": ids, "merges": [[a, b] for *_, a, b in sorted(pairs)], "fuse_unk": True,
         "unk_token": tokens[unknown if 0 <= unknown < len(tokens) else 0],
         "byte_fallback": "<0x00>" in ids},
        {"type": "Sequence", "normalizers": normalizers}, None, None,
        {"type": "Sequence", "decoders": decoders},
    )  # fmt: skip
