"""Models in Hugging Face's layout: found, read, and what their files call things."""

from __future__ import annotations

import itertools
import json
import os
import re
import shutil
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any, Self, TypeVar

import pyframe as pf
from pyframe import hub, nn
from pyframe.io import safetensors
from pyframe.io.files import head, replacing
from pyframe.io.kinds import mistaken
from pyframe.nn import init
from pyframe.tensor import Tensor
from pyframe.text.config import Config, told_by
from pyframe.text.gguf import GGUF, PackedWeight
from pyframe.text.tokenizer import Tokenizer

M = TypeVar("M", bound="Pretrained")
NAMES_SHOWN = 10  # names in a message
FEW_ELEMENTS, FEW_LAYERS = 1 << 22, 256  # what may be made before the files are looked at
FILES = (
    "model.safetensors", "model.safetensors.index.json", "pytorch_model.bin",
    "pytorch_model.bin.index.json",
)  # fmt: skip

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

# what lies beside a model's weights and is not changed by training
BESIDE = (
    "tokenizer.json", "tokenizer_config.json", "special_tokens_map.json", "added_tokens.json",
    "chat_template.jinja", "vocab.json", "merges.txt", "vocab.txt", "tokenizer.model",
    "sentencepiece.bpe.model", "modules.json", "sentence_bert_config.json", "1_Pooling/config.json",
)  # fmt: skip

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


class Pretrained(nn.Module):
    """A model that is read from published files."""

    config: Config
    place: Path | None = None  # of its files
    stretched = False  # its rotary positions, by a table of a GGUF file

    @classmethod
    def from_pretrained(
        cls, source: str | os.PathLike[str], device: Any = None, dtype: Any = None,
        revision: str = "main", packed: bool = False,
    ) -> Self:  # fmt: skip
        """The model of a folder in Hugging Face's layout, or of a GGUF file.

        Args:
            source: a folder with `config.json` and weights in safetensors or in `pytorch_model.bin`
                (one file, or several with an index); a GGUF file (with the extra `text`); or the
                name of either on the hub, or a URL: see `pf.hub.model`.
            device, dtype: where and of what type its parameters are (of that of the file).
            revision: a branch, tag or commit of the hub.
            packed: whether weights that a GGUF file has as Q8_0 or Q4_0 stay of 8 or 4 bits, as
                `pf.quantize_` makes them, with scales of groups of 32.

        FileNotFoundError where one of these is missing; ValueError for an unknown family, for
        tensors that are missing, superfluous or of another shape, and for a folder with `packed`.
        """
        return from_pretrained(cls, source, device, dtype, revision, packed)

    def save_pretrained(
        self, folder: str | os.PathLike[str], max_shard_size: int | str = "5GB"
    ) -> None:
        """Write it in Hugging Face's layout, which `from_pretrained` and their packages read.

        Args:
            folder: where; it is made if it isn't there. `model.safetensors` and `config.json`,
                and copies of its tokenizer's files if it was read from files.
            max_shard_size: of a file of weights, in bytes or as "2GB": of more, several are made.

        ValueError for a model that has an adapter, weights packed by `pf.quantize_`, or rotary
        positions that a GGUF file stretches by a table: a `config.json` can't say these.
        """
        kind, own = self.config.model_type, dict(self.named_parameters())
        if adapter := [n for n in own if ".lora_" in n]:
            raise ValueError(
                f"save_pretrained: the model has an adapter ({adapter[0]} …); pf.lora.save writes "
                "that, or call pf.lora.merge(model) and pf.lora.remove(model) first"
            )
        if packed := [n for n, part in self.named_modules() if hasattr(part, "packed")]:
            raise ValueError(
                f"save_pretrained: {packed[0]} holds its weight as ints, which this layout has no "
                "form for; save before quantize_, or pf.save(model.state_dict(), ...)"
            )
        if self.stretched:
            raise ValueError(
                "save_pretrained: the GGUF file stretches rotary positions by a table, which "
                "config.json has no form for; pf.save(model.state_dict(), ...)"
            )
        place, weights = Path(folder), {}
        for name, value in own.items():
            turned = name.endswith(".weight") and name.split(".")[-2] in self.turned
            weights[theirs(name, kind)] = value.detach().t() if turned else value.detach()
        place.mkdir(parents=True, exist_ok=True)
        file = place / FILES[0]
        safetensors.save_file(weights, file, {"format": "pt"}, max_shard_size)
        if self.place is not None and self.place.is_dir():
            for name in BESIDE if place.resolve() != self.place.resolve() else ():
                if (self.place / name).is_file():
                    (place / name).parent.mkdir(exist_ok=True)
                    shutil.copyfile(self.place / name, place / name)
        elif self.place is not None and "tokenizer.ggml.tokens" in GGUF(self.place).metadata:
            self.tokenizer.save_pretrained(place)
        dtype = next(iter(own.values())).dtype.name
        said = {"generation_config.json": self.config.generation,
                "config.json": {**self.config.to_dict(), "torch_dtype": dtype}}  # fmt: skip
        for name, data in said.items():
            with replacing(place / name) as out:
                out.write((json.dumps(data, indent=2) + "\n").encode())

    @property
    def turned(self) -> tuple[str, ...]:
        """The layers whose weights lie as (inputs, outputs) in files."""
        return TURNED.get(self.config.model_type, ())

    def name_in_file(self, name: str) -> str:
        """What a layer is called in files."""
        return theirs(f"{name}.", self.config.model_type).removesuffix(".")

    def name_here(self, name: str) -> str:
        """What a layer of a file is called here."""
        return ours(f"{name}.", self.config.model_type).removesuffix(".")

    @property
    def tokenizer(self) -> Tokenizer:
        """That of its files."""
        if "_tokenizer" not in self.__dict__:
            if self.place is None:
                raise RuntimeError("tokenizer: this model was not read from files")
            self.__dict__["_tokenizer"] = Tokenizer.from_pretrained(self.place)
        found: Tokenizer = self.__dict__["_tokenizer"]
        return found


def from_pretrained(
    make: Callable[[Config], M], source: str | os.PathLike[str], device: Any = None,
    dtype: Any = None, revision: str = "main", packed: bool = False,
) -> M:  # fmt: skip
    """What `make` makes of a configuration, with the weights beside it; see `Pretrained`."""
    place = hub.model(source, revision)
    if packed and place.is_dir():
        raise ValueError(
            f"from_pretrained: packed=True keeps what a GGUF file has packed, and {place} is a "
            "folder; pf.quantize_(model) packs its weights"
        )
    tensors: Iterator[tuple[str, str, Tensor | PackedWeight]]
    if place.is_dir():
        config, stretch = Config.from_file(place), None
        tensors = _in_folder(place, config)
    else:
        file = GGUF(place)
        config, stretch = file.config(), file.stretch()
        tensors = file.weights(config, packed)
    _see_that_it_fits(config, place)
    first = next(tensors, None)
    before, init.values.skipped = init.values.skipped, True
    try:
        of_file = first[2].dtype if first and first[2].dtype.is_floating_point else None
        with told_by(place):
            made = make(config)
        model: Any = made.to(device=device, dtype=dtype or of_file)
    finally:
        init.values.skipped = before
    _fill(model, itertools.chain([] if first is None else [first], tensors))
    if stretch is not None:
        for part in model.model.rotary.values():
            part.inverse.div_(stretch.to(part.inverse))
        model.stretched = True
    model.place = place
    return model.eval()


def _see_that_it_fits(config: Config, place: Path) -> None:
    """See that the model is no larger than its files tell of, before anything of its size is made.

    A parameter takes 2 bits at least, a layer its tensors' names.
    """
    whole = place if place.is_file() else _weights(place)
    files = _parts(whole) if whole.suffix == ".json" else [whole]
    size = sum(p.stat().st_size for p in files if p.is_file())
    few = config.least_parameters <= max(4 * size, FEW_ELEMENTS)
    if not few or config.num_hidden_layers > max(size // 64, FEW_LAYERS):
        raise ValueError(
            f"from_pretrained: {place}: by its sizes the model has {config.least_parameters:,} "
            f"parameters in {config.num_hidden_layers:,} layers, its files have {size:,} bytes"
        )


def _weights(folder: Path) -> Path:
    """A folder's file of weights, or the index of several."""
    found = next((folder / n for n in FILES if (folder / n).is_file()), None)
    if found is None:
        raise FileNotFoundError(f"from_pretrained: {folder} holds none of {', '.join(FILES)}")
    return found


def _in_folder(folder: Path, config: Config) -> Iterator[tuple[str, str, Tensor | PackedWeight]]:
    """What each tensor of a folder is called there and in a model of ours, and its values."""
    for name, value in _tensors(_weights(folder)):
        if not is_surplus(name, config):
            mine = ours(name, config.model_type)
            turned = mine.endswith(".weight") and mine.split(".")[-2] in TURNED.get(
                config.model_type, ()
            )
            yield name, mine, value.t() if turned else value


def _tensors(path: Path) -> Iterator[tuple[str, Tensor]]:
    if ".bin" in path.suffixes:
        for part in _parts(path) if path.suffix == ".json" else [path]:
            found = pf.load(part)
            if not isinstance(found, dict):
                kind = type(found).__name__
                raise ValueError(f"from_pretrained: {part} holds a {kind}, not tensors by name")
            for name, value in found.items():
                if not isinstance(name, str) or not isinstance(value, Tensor):
                    kind = type(value).__name__
                    raise ValueError(
                        f"from_pretrained: {part} holds {name!r:.80} of type {kind}, not tensors "
                        "by name"
                    )
                yield name, value
        return
    with safetensors.safe_open(path, mmap=True) as file:
        for name in file.offset_keys():
            yield name, file.get_tensor(name)


def _parts(index: Path) -> list[Path]:
    """The files that an index names. ValueError for one that is none, or leads elsewhere."""
    try:
        names = set(json.loads(index.read_text("utf-8"))["weight_map"].values())
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        why = mistaken(head(index)) or f"no index of weights: {error}"
        raise ValueError(f"from_pretrained: {index} is {why}") from None
    if not all(isinstance(n, str) and n and Path(n).name == n for n in names):
        raise ValueError(f"from_pretrained: {index} names files that don't lie beside it")
    return [index.with_name(n) for n in sorted(names)]


def _fill(model: Pretrained, tensors: Iterable[tuple[str, str, Tensor | PackedWeight]]) -> None:
    """Put a file's tensors into a model.

    ValueError for those that are missing, superfluous or of other shapes, of which ten are named.
    """
    own: dict[str, Tensor] = dict(model.named_parameters())  # those that are tied once
    missing = dict.fromkeys(own)
    wrong: dict[str, list[str]] = {"missing": [], "superfluous": [], "of another shape": []}
    with pf.no_grad():
        for name, mine, value in tensors:
            if mine not in own:
                wrong["superfluous"].append(name)
                continue
            missing.pop(mine, None)
            weight = own[mine]
            if value.shape == weight.shape and isinstance(value, PackedWeight):
                from pyframe.nn.quantized import hold

                both = value.words.to(weight.device), value.scale.to(weight.device, weight.dtype)
                for layer in model.modules():
                    if layer._parameters.get("weight") is weight:
                        hold(layer, value.bits, *both, None, None)
            elif value.shape == weight.shape and isinstance(value, Tensor):
                weight.copy_(value)
            else:
                wrong["of another shape"].append(
                    f"{name} {list(value.shape)} for {list(own[mine].shape)}"
                )
    wrong["missing"] = [theirs(n, model.config.model_type) for n in missing]
    if any(wrong.values()):
        parts = (
            f"{what} {', '.join(names[:NAMES_SHOWN])}"
            + (f" and {len(names) - NAMES_SHOWN} more" if len(names) > NAMES_SHOWN else "")
            for what, names in wrong.items()
            if names
        )
        raise ValueError(f"from_pretrained: the weights are not this model's: {'; '.join(parts)}")
