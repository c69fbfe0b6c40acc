"""What a language model is made of, read from Hugging Face's `config.json`.

A family is a row of FAMILIES: how it names its sizes, where it differs from Llama, and what its
files leave out. A new one that is made of the same parts is a new row.
"""

from __future__ import annotations

import contextlib
import dataclasses
import difflib
import json
import math
import os
import warnings
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

from pyframe.io.files import head
from pyframe.io.kinds import mistaken

__all__ = ["Config", "Sampling"]

_GPT2 = {
    "hidden_size": "n_embd", "num_hidden_layers": "n_layer", "num_attention_heads": "n_head",
    "intermediate_size": "n_inner", "max_position_embeddings": "n_positions",
    "hidden_act": "activation_function", "norm_eps": "layer_norm_epsilon",
    "attention_dropout": "attn_pdrop", "hidden_dropout": "resid_pdrop",
    "embedding_dropout": "embd_pdrop",
}  # fmt: skip
_LLAMA = {"norm_eps": "rms_norm_eps"}
_GEMMA = {
    **_LLAMA, "hidden_act": "hidden_activation", "scores_cap": "attn_logit_softcapping",
    "logits_cap": "final_logit_softcapping",
}  # fmt: skip
_DISTILBERT = {
    "hidden_size": "dim", "num_hidden_layers": "n_layers", "num_attention_heads": "n_heads",
    "intermediate_size": "hidden_dim", "hidden_act": "activation", "hidden_dropout": "dropout",
}  # fmt: skip
_BERT = {
    "norm_eps": "layer_norm_eps",
    "hidden_dropout": "hidden_dropout_prob",
    "attention_dropout": "attention_probs_dropout_prob",
}
_ENCODER: dict[str, Any] = {
    "encoder": True, "norm": "layer", "gated": False, "learned_positions": True, "qkv_bias": True,
    "output_bias": True, "mlp_bias": True, "hidden_act": "gelu",
}  # fmt: skip
_GEMMA_PARTS: dict[str, Any] = {
    "norm": "rms+1", "scale_embeddings": True, "tie_word_embeddings": True,
    "hidden_act": "gelu_pytorch_tanh", "head_dim": 256,
}  # fmt: skip

# model_type: (what its file calls our fields, the fields' values unless the file has them)
FAMILIES: dict[str, tuple[dict[str, str], dict[str, Any]]] = {
    "gpt2": (_GPT2, {
        "norm": "layer", "norm_eps": 1e-5, "hidden_act": "gelu_new", "gated": False, "fused": True,
        "learned_positions": True, "qkv_bias": True, "output_bias": True, "mlp_bias": True,
        "tie_word_embeddings": True,
    }),
    "llama": ({**_LLAMA, "qkv_bias": "attention_bias", "output_bias": "attention_bias"}, {}),
    "mistral": (_LLAMA, {"sliding_window": 4096}),
    "qwen2": (_LLAMA, {"qkv_bias": True}),
    "qwen3": (
        {**_LLAMA, "qkv_bias": "attention_bias", "output_bias": "attention_bias"},
        {"qk_norm": True, "head_dim": 128},
    ),
    "gemma": (_GEMMA, _GEMMA_PARTS),
    "gemma2": (_GEMMA, {
        **_GEMMA_PARTS, "sandwich": True, "scores_cap": 50.0, "logits_cap": 30.0,
        "sliding_window": 4096, "full_every": 2, "query_pre_attn_scalar": 256,
    }),
    "gemma3_text": (_GEMMA, {
        **_GEMMA_PARTS, "sandwich": True, "qk_norm": True, "sliding_window": 4096, "full_every": 6,
        "query_pre_attn_scalar": 256, "rope_theta": 1e6, "rope_local_base_freq": 1e4,
    }),
    "phi3": (_LLAMA, {"fused": True, "norm_eps": 1e-5}),
    "bert": (_BERT, {**_ENCODER, "norm_eps": 1e-12}),
    "distilbert": (_DISTILBERT, {**_ENCODER, "norm_eps": 1e-12, "type_vocab_size": 0}),
    "roberta": (_BERT, {
        **_ENCODER, "norm_eps": 1e-12, "padding_positions": True, "pad_token_id": 1,
    }),
}  # fmt: skip
FAMILIES["xlm-roberta"] = FAMILIES["roberta"]
# what transformers calls a family's class, where that isn't LlamaForCausalLM for "llama"
CLASSES = {
    "gpt2": "GPT2LMHeadModel", "gemma3_text": "Gemma3ForCausalLM", "bert": "BertModel",
    "distilbert": "DistilBertModel", "roberta": "RobertaModel", "xlm-roberta": "XLMRobertaModel",
}  # fmt: skip
LAYERS = "full_attention", "sliding_attention"
MOST_LAYERS = 1 << 14
MOST_TOKENS = 1 << 31
MOST_NAMES = 10  # that a warning has
_TYPES: dict[str, tuple[type, ...]] = {
    "int": (int,), "float": (int, float), "str": (str,), "bool": (bool,), "None": (type(None),),
    "list[int]": (list,), "list[str]": (list,), "list[list[int]]": (list,),
}  # fmt: skip
_SAID = {
    "float": "a number", "bool": "true or false", "str": "a text", "list[int]": "a list of ints",
    "list[list[int]]": "a list of lists of ints",
}  # fmt: skip


def _check(name: str, kinds: str, value: Any, least: int = 0, who: str = "Config") -> None:
    """See that a field's value is of one of some types. ValueError."""
    types = kinds.split(" | ")
    if types[0] not in _TYPES:  # what is made here
        return
    fits = isinstance(value, tuple(t for k in types for t in _TYPES[k]))
    if isinstance(value, bool) and "bool" not in types:
        fits = False
    elif isinstance(value, int) and "int" in types:
        fits = fits and least <= value < MOST_TOKENS
    elif isinstance(value, (int, float)) and fits and not isinstance(value, bool):
        fits = abs(value) < 1e30 and math.isfinite(value)
    elif isinstance(value, list) and fits:
        inner = next((k[5:-1] for k in types if k.startswith("list")), "")
        for x in value:
            _check(name, inner, x, who=who)
    if not fits:
        if types[0] == "int":
            what = f"an int from {least} to {MOST_TOKENS - 1}"
        else:
            what = _SAID.get(types[0], "a list")
        raise ValueError(f"{who}: {name} is {what}, got {value!r:.80}")


@dataclasses.dataclass
class Sampling:
    """How the next token is chosen. What is said of tokens means what it does in transformers.

    Args:
        do_sample: draw it; else it is the likeliest one.
        temperature: divides the scores; lower is more certain, and 0 is the likeliest token.
        top_k: of so many likeliest tokens alone; 0 is of all.
        top_p: of the likeliest ones that have this probability together.
        min_p: of those that have this part of the likeliest one's probability.
        repetition_penalty: divides positive scores of tokens that came before, and multiplies
            negative ones (arXiv 1909.05858).
        no_repeat_ngram_size: no so many tokens in a row are there twice; 0 for no such rule.
        bad_words_ids: lists of tokens that don't come one after the other.
        suppress_tokens: tokens that don't come.
        begin_suppress_tokens: those that don't come first.
        min_new_tokens: so many tokens come before one that ends the text.
        min_length: the same, with the prompt's tokens; `min_new_tokens` goes before it.

    ValueError for values of other types, or outside their ranges.

    >>> pf.text.Sampling(do_sample=True, top_p=0.9, suppress_tokens=[7]).bans
    True
    """

    do_sample: bool = False
    temperature: float = 1.0
    top_k: int | None = None
    top_p: float | None = None
    min_p: float | None = None
    repetition_penalty: float = 1.0
    no_repeat_ngram_size: int | None = None
    bad_words_ids: list[list[int]] | None = None
    suppress_tokens: list[int] | None = None
    begin_suppress_tokens: list[int] | None = None
    min_new_tokens: int | None = None
    min_length: int | None = None

    def __post_init__(self) -> None:
        for name in _HOW.keys() & self.__dict__.keys():
            value = getattr(self, name)
            if isinstance(value, (tuple, set, frozenset)):
                value = [list(x) if isinstance(x, tuple) else x for x in value]
                setattr(self, name, value)
            _see(name, value, "generate")
        if self.temperature == 0:
            self.do_sample, self.temperature = False, 1.0
        self.top_k = self.top_k or None

    @property
    def penalizes(self) -> bool:
        """Whether it minds which tokens came before."""
        return self.repetition_penalty != 1

    @property
    def bans(self) -> bool:
        """Whether there are tokens that may not come, at some place at least."""
        names = (
            "no_repeat_ngram_size", "bad_words_ids", "suppress_tokens", "begin_suppress_tokens",
            "min_new_tokens", "min_length",
        )  # fmt: skip
        return any(getattr(self, name) for name in names)


# what generation_config.json may say, and the types; the fields of Sampling among it
_HOW = {f.name: str(f.type) for f in dataclasses.fields(Sampling)} | {
    "pad_token_id": "int | None", "eos_token_id": "int | list[int] | None",
    "max_new_tokens": "int | None", "max_length": "int | None",
}  # fmt: skip
_DRAWS = "temperature", "top_k", "top_p", "min_p"  # what counts where a token is drawn
_RANGES: dict[str, tuple[Callable[[Any], bool], str]] = {
    "top_k": (lambda x: x >= 0, "0, which is all tokens, or more"),
    "temperature": (lambda x: x >= 0, "0, which takes the likeliest token, or more"),
    "top_p": (lambda x: 0 <= x <= 1, "from 0 to 1"),
    "min_p": (lambda x: 0 <= x <= 1, "from 0 to 1"),
    "repetition_penalty": (lambda x: x > 0, "more than 0"),
    "bad_words_ids": (all, "a list of lists that have a token each"),
}
# what it may say beside, and that changes no text: (values for which that is so), None for any
_SILENT: dict[str, tuple[Any, ...] | None] = {
    **dict.fromkeys((
        "transformers_version", "_from_model_config", "_commit_hash", "bos_token_id",
        "decoder_start_token_id", "use_cache", "cache_implementation", "cache_config",
        "max_cache_len", "output_attentions", "output_hidden_states", "output_scores",
        "output_logits", "return_dict_in_generate", "disable_compile", "compile_config",
        "renormalize_logits", "low_memory", "prefill_chunk_size", "use_mtp", "is_assistant",
        "num_assistant_tokens", "num_assistant_tokens_schedule", "assistant_confidence_threshold",
        "prompt_lookup_num_tokens", "max_matching_ngram_size", "assistant_early_exit",
        "assistant_lookbehind", "target_lookbehind", "speculation_type",
        "continuous_batching_config", "encoder_repetition_penalty",
        "encoder_no_repeat_ngram_size",
    )),
    **dict.fromkeys(("num_beams", "num_beam_groups", "num_return_sequences"), (0, 1)),
    **dict.fromkeys(("typical_p", "guidance_scale", "top_h"), (1,)),
    **dict.fromkeys((
        "epsilon_cutoff", "eta_cutoff", "diversity_penalty", "penalty_alpha", "token_healing",
        "remove_invalid_values", "assistant_ensemble_weight",
    ), (0,)),
}  # fmt: skip
_OF_BEAMS = "length_penalty", "early_stopping"


def _see(name: str, value: Any, who: str, drawn: bool = True) -> bool:
    """See that a value of `_HOW` is of its type, and in its range. ValueError; but for what counts
    only where a token is drawn, and none is, whether it is in its range."""
    _check(name, _HOW[name], value, -MOST_TOKENS if name == "top_k" else 0, who)
    fits, want = _RANGES.get(name, (lambda x: True, ""))
    if value is None or fits(value):
        return True
    if drawn or name not in _DRAWS:
        raise ValueError(f"{who}: {name} is {want}, got {value!r:.80}")
    return False


def _no_token(name: str, value: Any) -> bool:
    """Whether it is -1, which some files have for a token that there is not."""
    return name.endswith("_token_id") and type(value) is int and value == -1


def changes_nothing(name: str, value: Any) -> bool:
    """Whether a text is the same without what transformers calls so.

    Args:
        name: of an argument that isn't one here.
        value: of it.
    """
    plain = None if name in _OF_BEAMS else _SILENT.get(name, ())
    return plain is None or (isinstance(value, (int, float)) and value in plain)


def _how(said: Mapping[str, Any]) -> tuple[dict[str, Any], list[str]]:
    """What a `generation_config.json` says that is done here, and the names of what is not.

    ValueError for what is of another type, or out of the range of what is drawn.
    """
    how = {n: v for n, v in said.items() if v is not None and not _no_token(n, v)}
    beams = how.get("num_beams", 1) in (0, 1)
    left = []
    for name, value in how.items():
        if name in _HOW:
            if not _see(name, value, "Config", bool(how.get("do_sample"))):
                left.append(name)
        elif not changes_nothing(name, value) or (name in _OF_BEAMS and not beams):
            left.append(name)
    return {n: v for n, v in how.items() if n not in left or n not in _HOW}, left


@dataclasses.dataclass
class Config:
    """The sizes and parts of a model; fields are called as in Llama's files where they are there.

    Args:
        model_type: the family, a key of FAMILIES.
        vocab_size, hidden_size, intermediate_size: tokens, a token's width, the MLP's width
            (0 for four times a token's).
        num_hidden_layers, num_attention_heads, num_key_value_heads, head_dim: as they say;
            several heads of queries share one of keys and values. 0 stands for as many as
            num_attention_heads, and for hidden_size / num_attention_heads.
        hidden_act: the MLP's activation, as files call it.
        norm: "rms", "rms+1", which multiplies by 1 + weight, or "layer" for LayerNorm.
        norm_eps: what keeps norms' divisors above 0.
        gated: whether the MLP is down(act(gate(x)) * up(x)), else down(act(up(x))).
        fused: whether q, k and v have one projection, and gate and up another one.
        qkv_bias, output_bias, mlp_bias: whether these projections have a bias.
        qk_norm: whether queries and keys are normalized.
        sandwich: whether norms stand behind attention and the MLP, too.
        learned_positions: whether positions are embeddings, else they are rotary.
        padding_positions: whether they count from pad_token_id + 1, padding aside (RoBERTa).
        scale_embeddings: whether they are multiplied by the root of hidden_size.
        encoder: whether each token sees all, and norms stand behind the sums (BERT).
        type_vocab_size: how many texts an encoder tells apart.
        tie_word_embeddings: whether the head's weight is that of the embeddings.
        attention_dropout, hidden_dropout, embedding_dropout: the probability of a zero: in
            attention's weights; in what encoders' and GPT-2's layers add; in the embeddings.
        pooling: how features become a text's vector: "mean", "cls" or "max".
        normalized: whether such a vector has length 1.
        longest_text: tokens of a text that becomes one; None for max_position_embeddings.
        scores_cap, logits_cap: what attention's scores, and those of tokens, stay below, by
            cap * tanh(x / cap); None for no bound.
        max_position_embeddings: tokens of the longest text.
        layer_types: "full_attention" or "sliding_attention" for each layer.
        full_every: every how many layers one is full, where layer_types doesn't say it; 0 for
            none, or all without `sliding_window`.
        sliding_window: tokens that a sliding layer sees, the newest among them.
        query_pre_attn_scalar: attention's scores are divided by its root; None for head_dim.
        rope_theta, rope_local_base_freq: the base of rotary positions, and that of sliding layers.
        rotary: for each type of layer the parameters of its rotary positions.
        bos_token_id, eos_token_id, pad_token_id: tokens that begin, end and fill up texts.
        generation: how it writes unless told otherwise, as `generation_config.json` says.
        extra: what the file says beyond that.
    """

    model_type: str
    vocab_size: int
    hidden_size: int
    intermediate_size: int
    num_hidden_layers: int
    num_attention_heads: int
    max_position_embeddings: int
    num_key_value_heads: int = 0
    head_dim: int = 0
    hidden_act: str = "silu"
    norm: str = "rms"
    norm_eps: float = 1e-6
    gated: bool = True
    fused: bool = False
    qkv_bias: bool = False
    output_bias: bool = False
    mlp_bias: bool = False
    qk_norm: bool = False
    sandwich: bool = False
    learned_positions: bool = False
    padding_positions: bool = False
    scale_embeddings: bool = False
    encoder: bool = False
    type_vocab_size: int = 2
    tie_word_embeddings: bool = False
    attention_dropout: float = 0.0
    hidden_dropout: float = 0.0
    embedding_dropout: float = 0.0
    pooling: str = "mean"
    normalized: bool = False
    longest_text: int | None = None
    scores_cap: float | None = None
    logits_cap: float | None = None
    sliding_window: int | None = None
    full_every: int = 0
    layer_types: list[str] = dataclasses.field(default_factory=list)
    query_pre_attn_scalar: float | None = None
    rope_theta: float = 10000.0
    rope_local_base_freq: float | None = None
    rotary: dict[str, dict[str, Any]] = dataclasses.field(default_factory=dict)
    bos_token_id: int | None = None
    eos_token_id: int | list[int] | None = None
    pad_token_id: int | None = None
    generation: dict[str, Any] = dataclasses.field(default_factory=dict)
    extra: dict[str, Any] = dataclasses.field(default_factory=dict)

    def __post_init__(self) -> None:
        for f in dataclasses.fields(self):
            least = int(f.default is dataclasses.MISSING and f.name != "intermediate_size")
            _check(f.name, str(f.type), getattr(self, f.name), least)
        for name in ("query_pre_attn_scalar", "scores_cap", "logits_cap"):
            if (value := getattr(self, name)) is not None and value <= 0:
                raise ValueError(f"Config: {name} is above 0, got {value}")
        for name in ("norm_eps", "attention_dropout", "hidden_dropout", "embedding_dropout"):
            if not 0 <= (value := getattr(self, name)) <= 1:
                raise ValueError(f"Config: {name} is from 0 to 1, got {value}")
        self.num_key_value_heads = self.num_key_value_heads or self.num_attention_heads
        self.head_dim = self.head_dim or max(self.hidden_size // self.num_attention_heads, 1)
        self.intermediate_size = self.intermediate_size or 4 * self.hidden_size
        if self.num_attention_heads % self.num_key_value_heads:
            raise ValueError(
                f"Config: {self.num_attention_heads} heads can't share "
                f"{self.num_key_value_heads} heads of keys and values evenly"
            )
        if not self.layer_types:
            every = self.full_every or (0 if self.sliding_window else 1)
            if self.num_hidden_layers > MOST_LAYERS:
                raise ValueError(
                    f"Config: num_hidden_layers is {MOST_LAYERS} at most, got "
                    f"{self.num_hidden_layers}"
                )
            full = [bool(every) and (i + 1) % every == 0 for i in range(self.num_hidden_layers)]
            self.layer_types = [LAYERS[not f] for f in full]
        if len(self.layer_types) != self.num_hidden_layers:
            raise ValueError(
                f"Config: {len(self.layer_types)} layer_types for {self.num_hidden_layers} layers"
            )
        for kind in self.layer_types:
            if kind not in LAYERS:
                raise ValueError(
                    f"Config: layer_types are {' and '.join(LAYERS)}, got {kind!r:.80}"
                )

    @property
    def scale(self) -> float:
        """What attention's scores are multiplied by."""
        return float(self.query_pre_attn_scalar or self.head_dim) ** -0.5

    def window(self, layer: int) -> int | None:
        """How many tokens a layer sees; None is all.

        Args:
            layer: its number, from 0.
        """
        sliding = self.layer_types[layer] == "sliding_attention"
        return (self.sliding_window or None) if sliding else None  # 0 is none in files

    @property
    def least_parameters(self) -> int:
        """Fewer than a model of this has."""
        width, inner, heads = self.hidden_size, self.intermediate_size, self.num_attention_heads
        attention = width * self.head_dim * 2 * (heads + self.num_key_value_heads)
        layer = attention + width * inner * (2 + self.gated)
        places = self.max_position_embeddings if self.learned_positions else 0
        return self.num_hidden_layers * layer + (self.vocab_size + places) * width

    @property
    def ends(self) -> list[int]:
        """The tokens that end a text."""
        ids = self.generation.get("eos_token_id", self.eos_token_id)
        return [] if ids is None else list(ids) if isinstance(ids, list) else [ids]

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Config:
        """Of what a `config.json` holds. ValueError for an unknown family, naming those known.

        Args:
            data: the fields by name.
        """
        if data.get("model_type") == "gemma3" and isinstance(data.get("text_config"), Mapping):
            data = data["text_config"]
        kind = data.get("model_type")
        if not isinstance(kind, str) or kind not in FAMILIES:
            near = difflib.get_close_matches(str(kind)[:80], FAMILIES, 1)
            raise ValueError(
                f"Config: no family {kind!r:.80}{f' (do you mean {near[0]!r}?)' if near else ''}; "
                f"there are {', '.join(FAMILIES)}"
            )
        names, values = FAMILIES[kind]
        fields = {f.name for f in dataclasses.fields(cls)} - {"extra", "generation", "rotary"}
        told = {n: data[names.get(n, n)] for n in fields if data.get(names.get(n, n)) is not None}
        known = {n: v for n, v in told.items() if not _no_token(n, v)}
        missing = [
            names.get(f.name, f.name)
            for f in dataclasses.fields(cls)
            if f.default is dataclasses.MISSING and f.default_factory is dataclasses.MISSING
            and f.name not in known and f.name not in ("intermediate_size", "model_type")
        ]  # fmt: skip
        if missing:
            raise ValueError(f"Config: a {kind} file says its {', '.join(missing)}; this one not")
        # None means "none" where the family has a value of its own
        none = {n: None for n in ("scores_cap", "logits_cap", "sliding_window")
                if data.get(names.get(n, n), 0) is None}  # fmt: skip
        if kind == "qwen2" and not data.get("use_sliding_window", False):
            none["sliding_window"] = None
        try:
            config = cls(**{"intermediate_size": 0, **values, **known, **none})
        except ValueError as error:  # of a field, which the file calls so
            name, _, rest = str(error).removeprefix("Config: ").partition(" ")
            raise ValueError(f"Config: {names.get(name, name)} {rest}") from None
        _check("initializer_range", "float | None", std := data.get("initializer_range"))
        if (std or 0) < 0:
            raise ValueError(f"Config: initializer_range is 0 or more, got {std}")
        config.rotary = _rotary(config, data)
        config.extra = {k: v for k, v in data.items() if k not in fields}
        return config

    def to_dict(self) -> dict[str, Any]:
        """What a `config.json` says of it: `from_dict` of that is the same again."""
        names = FAMILIES[self.model_type][0]
        told = [
            f for f in dataclasses.fields(self) if f.name not in ("extra", "generation", "rotary")
        ]
        needed = {f.name for f in told if f.default is f.default_factory is dataclasses.MISSING}
        data = {**self.extra, **{names.get(n, n): getattr(self, n) for n in needed}}
        plain = Config.from_dict(data)
        for n in (f.name for f in told):
            if getattr(plain, n) != getattr(self, n):
                data[names.get(n, n)] = getattr(self, n)
        kind = self.model_type
        return {"architectures": [CLASSES.get(kind, f"{kind.title()}ForCausalLM")], **data}

    @classmethod
    def from_file(cls, path: str | Path) -> Config:
        """Of a folder's `config.json` and `generation_config.json`, or of such a file alone.

        Args:
            path: a folder or a file; FileNotFoundError where it is not.
        """
        path = Path(path)
        folder = path if path.is_dir() else None
        file = path / "config.json" if folder else path
        with told_by(file):
            config = cls.from_dict(_read(file))
        if folder and (file := folder / "generation_config.json").is_file():
            with told_by(file):
                config.generation, left = _how(_read(file))
            if left:
                warnings.warn(
                    f"{file} says {', '.join(left[:MOST_NAMES])}"
                    f"{' …' * (len(left) > MOST_NAMES)}, which generate() doesn't do: its texts "
                    "may differ from those of transformers",
                    stacklevel=2,
                )
        if folder and config.encoder:
            config._read_sentences(folder)
        return config

    def _read_sentences(self, folder: Path) -> None:
        """What files of sentence-transformers say of a text's vector."""
        pooling, modules, limit = (
            _read(folder / n) if (folder / n).is_file() else {}
            for n in ("1_Pooling/config.json", "modules.json", "sentence_bert_config.json")
        )
        for name, key in (("cls", "cls_token"), ("max", "max_tokens")):
            if pooling.get(f"pooling_mode_{key}"):
                self.pooling = name
        self.normalized = "Normalize" in json.dumps(modules)
        self.longest_text = limit.get("max_seq_length")
        with told_by(folder / "sentence_bert_config.json"):
            _check("max_seq_length", "int | None", self.longest_text)


@contextlib.contextmanager
def told_by(path: str | os.PathLike[str]) -> Iterator[None]:
    """Errors name the file that said so."""
    try:
        yield
    except ValueError as error:
        if os.fspath(path) in str(error):
            raise
        raise ValueError(f"{error} ({os.fspath(path)})") from None


def _read(path: Path) -> dict[str, Any]:
    """The fields of a JSON file."""
    try:
        data = json.loads(path.read_text("utf-8"))
    except FileNotFoundError:
        raise FileNotFoundError(
            f"Config: {path} is not there; a model's folder holds config.json beside its weights"
        ) from None
    except (UnicodeDecodeError, json.JSONDecodeError, RecursionError) as error:
        raise ValueError(
            f"Config: {path} is {mistaken(head(path)) or f'no JSON: {error}'}"
        ) from None
    if path.name == "modules.json":  # a list
        return {"modules": data}
    if not isinstance(data, dict):
        raise ValueError(f"Config: {path} holds a {type(data).__name__}, not fields by name")
    return data


def _rotary(config: Config, data: Mapping[str, Any]) -> dict[str, dict[str, Any]]:
    """The rotary parameters of each type of layer, out of any version's files."""
    given = data.get("rope_parameters") or {}
    scaling = data.get("rope_scaling") or {}
    for name, of in (("rope_parameters", given), ("rope_scaling", scaling)):
        if not isinstance(of, Mapping):
            raise ValueError(f"Config: {name} are fields by name, got {of!r:.80}")
    found = {}
    for kind in dict.fromkeys(config.layer_types):
        own = given.get(kind, given) or {}
        if not isinstance(own, Mapping):
            raise ValueError(
                f"Config: rope_parameters of {kind} are fields by name, got {own!r:.80}"
            )
        mine = dict(own)
        if not mine:
            mine = {"rope_theta": config.rope_theta, **scaling}
            if config.rope_local_base_freq and kind == "sliding_attention":
                mine = {"rope_theta": config.rope_local_base_freq}
        mine.setdefault("rope_theta", config.rope_theta)
        mine["rope_type"] = mine.get("rope_type", mine.pop("type", "default"))
        mine.setdefault("partial_rotary_factor", data.get("partial_rotary_factor", 1.0))
        mine.setdefault(
            "original_max_position_embeddings",
            data.get("original_max_position_embeddings", config.max_position_embeddings),
        )
        found[kind] = mine
    return found
