"""LoRA (arXiv 2106.09685): a model learns by small matrices beside its weights, which stay.

>>> pf.lora.apply(model, rank=8, targets=["q_proj", "v_proj"])
>>> optimizer = pf.optim.AdamW([p for p in model.parameters() if p.requires_grad])
>>> pf.lora.save(model, "adapter")  # as the package peft has it

The layers may be those of `pf.quantize_`: their ints stay, and gradients go through them.
"""

from __future__ import annotations

import json
import math
import os
import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, TypeVar

import pyframe as pf
from pyframe import hub, nn
from pyframe.io import safetensors
from pyframe.io.files import head, replacing
from pyframe.io.kinds import mistaken
from pyframe.nn import functional as F
from pyframe.nn.quantized import QuantizedLinear
from pyframe.tensor import Tensor

__all__ = ["apply", "load", "merge", "remove", "save", "unmerge"]

M = TypeVar("M", bound=nn.Module)
FILES = "adapter_config.json", "adapter_model.safetensors"
_BEFORE = "base_model.model."  # of names in peft's files
# what peft has and this does not, unless it says nothing
_UNKNOWN = (
    "rank_pattern", "alpha_pattern", "modules_to_save", "lora_bias",
    "layer_replication", "trainable_token_indices", "target_parameters",
)  # fmt: skip


class _Adapted(nn.Module):
    """What a layer has beside its weight: small matrices A and B, of which B A, scaled, is added
    to it. With a magnitude it is of that length then, each output by itself (DoRA, arXiv
    2402.09353)."""

    lora_dropout: nn.Dropout
    lora_magnitude_vector: nn.Parameter | None
    lora_scale: float
    lora_alpha: float
    lora_merged: bool
    lora_lengths: Tensor | None  # of what was merged
    weight: Any
    places: dict[str, str]  # what A and B are called here and in files

    def matrix(self, which: str) -> Tensor:
        """A (rank, inputs) or B (outputs, rank)."""
        found: Any = self
        for part in self.places[which].split("."):
            found = getattr(found, part)
        return found

    def parts(self) -> dict[str, Tensor]:
        """What learns, by its name in files."""
        found = {self.places[m]: self.matrix(m) for m in "AB"}
        if self.lora_magnitude_vector is not None:
            found["lora_magnitude_vector"] = self.lora_magnitude_vector
        return found

    def change(self) -> Tensor:
        """What is added to the weight."""
        return self.matrix("B") @ self.matrix("A") * self.lora_scale

    def lengths(self) -> Tensor:
        """(outputs,) of the sum's rows, which DoRA takes for constants."""
        with pf.no_grad():
            return (self.weight + self.change()).norm(dim=1)

    def extra_repr(self) -> str:
        dora = "" if self.lora_magnitude_vector is None else ", dora=True"
        return f"{super().extra_repr()}, rank={self.matrix('A').shape[0]}{dora}"


class _AdaptedLinear(_Adapted):
    places = {"A": "lora_A.weight", "B": "lora_B.weight"}  # noqa: RUF012
    lora_A: nn.Linear  # noqa: N815  (peft's names)
    lora_B: nn.Linear  # noqa: N815
    bias: Any

    def forward(self, input: Tensor) -> Tensor:
        """(*, in_features) -> (*, out_features)."""
        out = super().forward(input)
        if self.lora_merged:
            return out
        dropped = self.lora_dropout(input)
        more = self.lora_B(self.lora_A(dropped)) * self.lora_scale
        if self.lora_magnitude_vector is None:
            return out + more
        factor = self.lora_magnitude_vector / self.lengths()
        if self.training and self.lora_dropout.p:
            base = F.linear(dropped, self.weight)
        else:
            base = out if self.bias is None else out - self.bias
        return out + (factor - 1) * base + factor * more


class AdaptedLinear(_AdaptedLinear, nn.Linear):
    """A Linear with small matrices beside its weight."""


class AdaptedQuantizedLinear(_AdaptedLinear, QuantizedLinear):  # type: ignore[misc]  # as below it
    """A packed Linear with small matrices beside its weight."""


class AdaptedEmbedding(_Adapted, nn.Embedding):
    """An Embedding with small matrices beside its table."""

    places = {"A": "lora_embedding_A", "B": "lora_embedding_B"}  # noqa: RUF012
    lora_embedding_A: nn.Parameter  # noqa: N815
    lora_embedding_B: nn.Parameter  # noqa: N815

    def forward(self, input: Tensor) -> Tensor:
        """ints (*) -> (*, embedding_dim)."""
        out = super().forward(input)
        if self.lora_merged:
            return out
        more = F.linear(F.embedding(input, self.lora_embedding_A.t()), self.lora_embedding_B)
        more = more * self.lora_scale
        if self.lora_magnitude_vector is None:
            return out + more
        return (out + more) * (self.lora_magnitude_vector / self.lengths())

    def change(self) -> Tensor:
        return super().change().t()

    def lengths(self) -> Tensor:
        with pf.no_grad():
            return (self.weight + self.change()).norm(dim=0)


KINDS: dict[type, type] = {
    nn.Linear: AdaptedLinear, QuantizedLinear: AdaptedQuantizedLinear,
    nn.Embedding: AdaptedEmbedding,
}  # fmt: skip
_PLAIN = {adapted: plain for plain, adapted in KINDS.items()}


def apply(
    model: M, rank: int = 8, targets: str | Sequence[str] = ("q_proj", "v_proj"),
    alpha: float = 16.0, dropout: float = 0.0, rslora: bool = False, dora: bool = False,
) -> M:  # fmt: skip
    """Freeze a model, and give the Linear and Embedding layers that `targets` names small matrices
    of `rank`, which learn in the place of their weights. The model is changed, and returned.

    The matrices begin as a change of zero, so that the model's outputs stay what they were.
    ValueError where `targets` names no layer.

    Args:
        model: The model.
        rank: how many rows the matrix A and columns the matrix B of a layer have.
        targets: how the layers' names end ("q_proj"), or "all-linear": all Linear layers but one
            called "lm_head"; or a pattern for whole names.
        alpha: the sum's factor is alpha / rank, or with `rslora` alpha / sqrt(rank) (arXiv
            2312.03732), with which large ranks learn more.
        dropout: of the matrices' input in training (not of an Embedding's ints).
        dora: whether the lengths of the weights' rows learn by themselves (arXiv 2402.09353).
    """
    if rank < 1:
        raise ValueError(f"lora.apply: rank is 1 or more, got {rank}")
    names = [n for n, layer in model.named_modules() if type(layer) in KINDS and
             _meant(n, targets, layer)]  # fmt: skip
    if not names:
        raise ValueError(f"lora.apply: no Linear layer is meant by targets={targets!r}")
    model.requires_grad_(False)
    scale = alpha / (math.sqrt(rank) if rslora else rank)
    for name in names:
        _adapt(model.get_submodule(name), rank, alpha, dropout, scale, dora)
    return model


def _meant(name: str, targets: str | Sequence[str], layer: nn.Module) -> bool:
    if targets == "all-linear":
        return name.rpartition(".")[2] != "lm_head" and not isinstance(layer, nn.Embedding)
    if isinstance(targets, str):
        return re.fullmatch(targets, name) is not None
    return any(name == t or name.endswith(f".{t}") for t in targets)


def _adapt(
    layer: Any, rank: int, alpha: float, dropout: float, scale: float, dora: bool = False
) -> None:
    """Make of a layer one with matrices; of one that has them, one with others."""
    if type(layer) in _PLAIN:
        _restore(layer)
    like = layer.scale if isinstance(layer, QuantizedLinear) else layer.weight
    layer.__class__ = KINDS[type(layer)]
    how: dict[str, Any] = {"device": like.device, "dtype": like.dtype}
    if isinstance(layer, nn.Embedding):
        layer.lora_embedding_A = nn.Parameter(pf.zeros(rank, layer.num_embeddings, **how))
        layer.lora_embedding_B = nn.Parameter(pf.randn(layer.embedding_dim, rank, **how))
    else:
        layer.lora_A = nn.Linear(layer.in_features, rank, bias=False, **how)
        layer.lora_B = nn.Linear(rank, layer.out_features, bias=False, **how)
        nn.init.zeros_(layer.lora_B.weight)
    layer.lora_dropout = nn.Dropout(dropout)
    layer.lora_dropout.train(layer.training)
    layer.lora_scale, layer.lora_alpha, layer.lora_merged = scale, alpha, False
    layer.lora_lengths = layer.lora_magnitude_vector = None
    if dora:
        layer.lora_magnitude_vector = nn.Parameter(layer.lengths())


_OWN = (
    "lora_A", "lora_B", "lora_embedding_A", "lora_embedding_B", "lora_dropout", "lora_scale",
    "lora_alpha", "lora_merged", "lora_lengths", "lora_magnitude_vector",
)  # fmt: skip


def _restore(layer: Any) -> None:
    for name in _OWN:
        if hasattr(layer, name):
            delattr(layer, name)
    layer.__class__ = _PLAIN[type(layer)]


def _layers(model: nn.Module, what: str) -> list[tuple[str, Any]]:
    found = [(n, layer) for n, layer in model.named_modules() if isinstance(layer, _Adapted)]
    if not found:
        raise ValueError(f"lora.{what}: the model has no adapter; see lora.apply")
    return found


def _add(model: nn.Module, what: str, merged: bool) -> None:
    layers = [(n, layer) for n, layer in _layers(model, what) if layer.lora_merged is not merged]
    users = [id(m._parameters.get("weight")) for m in model.modules()]
    for name, layer in layers:
        if isinstance(layer, nn.Embedding) and users.count(id(layer.weight)) > 1:
            raise ValueError(
                f"lora.{what}: the table of {name} is another layer's weight, too, which the sum "
                "would change; keep the adapter beside it"
            )
        if isinstance(layer, QuantizedLinear):
            raise ValueError(
                f"lora.{what}: {name} holds its weight as ints, which can't take the sum; keep the "
                "adapter beside it, or merge before quantize_"
            )
    with pf.no_grad():
        for _, layer in layers:
            rows = layer.lengths() if merged else layer.lora_lengths
            factor: Any = 1
            if layer.lora_magnitude_vector is not None:
                factor = layer.lora_magnitude_vector / rows
                factor = factor if isinstance(layer, nn.Embedding) else factor.unsqueeze(1)
            if merged:
                layer.weight.add_(layer.change()).mul_(factor)
            else:
                layer.weight.div_(factor).sub_(layer.change())
            layer.lora_lengths = rows if merged else None
            layer.lora_merged = merged


def merge(model: M) -> M:
    """Add what the matrices make to the weights, for which a forward pass then takes no more time.

    ValueError for weights that are ints.

    Args:
        model: The model with adapters.
    """
    _add(model, "merge", True)
    return model


def unmerge(model: M) -> M:
    """Take from the weights again what `merge` added.

    Args:
        model: The model with adapters.
    """
    _add(model, "unmerge", False)
    return model


def remove(model: M) -> M:
    """Make of a model one without an adapter; what was merged stays in its weights.

    Args:
        model: The model.
    """
    for _, layer in _layers(model, "remove"):
        _restore(layer)
    return model


def save(model: nn.Module, folder: str | os.PathLike[str], base: str | None = None) -> None:
    """Write a model's adapter, without the weights that it changes, as the package peft does.

    Args:
        model: The model.
        folder: Where to write; it is made if it isn't there.
        base: The name of the model that the adapter is for, which the files then say.
    """
    layers, place = _layers(model, "save"), Path(folder)
    place.mkdir(parents=True, exist_ok=True)
    kinds = {
        (a.matrix("A").shape[0], a.lora_alpha, a.lora_scale, a.lora_dropout.p,
         a.lora_magnitude_vector is not None) for _, a in layers
    }  # fmt: skip
    if len(kinds) > 1:
        raise ValueError(f"lora.save: its layers have several ranks or factors: {sorted(kinds)}")
    ((rank, alpha, scale, dropout, dora),) = kinds
    names = {f"{_named(model, n)}.{part}": value
             for n, layer in layers for part, value in layer.parts().items()}  # fmt: skip
    ends = {_named(model, n).rpartition(".")[2] for n, _ in layers}
    every = {
        n for n, layer in model.named_modules() if type(layer) in KINDS or type(layer) in _PLAIN
    }
    few = any(_named(model, n).rpartition(".")[2] in ends for n in every - {n for n, _ in layers})
    config = {
        "peft_type": "LORA", "task_type": "CAUSAL_LM" if hasattr(model, "lm_head") else None,
        "base_model_name_or_path": base, "bias": "none", "inference_mode": True, "r": rank,
        "lora_alpha": alpha, "lora_dropout": dropout, "use_rslora": scale != alpha / rank,
        "use_dora": dora,
        "fan_in_fan_out": bool(getattr(model, "turned", ())),
        "target_modules": sorted(_named(model, n) for n, _ in layers) if few else sorted(ends),
    }  # fmt: skip
    weights = {_BEFORE + n: value for n, value in names.items()}
    safetensors.save_file(weights, place / FILES[1], {"format": "pt"})
    with replacing(place / FILES[0]) as file:
        file.write((json.dumps(config, indent=2) + "\n").encode())


def _named(model: nn.Module, name: str, back: bool = False) -> str:
    """What a layer is called in files, where a model says it; `back` is the other way."""
    say = getattr(model, "name_here" if back else "name_in_file", None)
    return str(say(name)) if say else name


def load(model: M, source: str | os.PathLike[str], revision: str = "main") -> M:
    """Freeze a model, and give it the adapter that `save` or the package peft wrote.

    ValueError for an adapter of another kind, and for one whose matrices are not this model's.

    Args:
        model: The model that the adapter is for.
        source: A folder, or its name on Hugging Face's hub.
        revision: The commit, branch or tag on the hub.
    """
    folder = Path(source)
    if not folder.is_dir():
        folder = hub.snapshot(os.fspath(source), FILES, revision)
    missing = [n for n in FILES if not (folder / n).is_file()]
    if missing:
        raise FileNotFoundError(f"lora.load: {folder} holds no {' and no '.join(missing)}")
    config = _config(folder / FILES[0])
    unknown = [n for n in _UNKNOWN if config.get(n)]
    if config.get("peft_type") != "LORA" or unknown or config.get("bias", "none") != "none":
        what = ", ".join(unknown) or f"{config.get('peft_type')}, bias={config.get('bias')!r}"
        raise ValueError(f"lora.load: {folder} is an adapter of a kind that is unknown: {what}")
    dora = bool(config.get("use_dora"))
    found: dict[str, dict[str, Tensor]] = {}
    for name, part, value in _matrices(model, safetensors.load_file(folder / FILES[1])):
        found.setdefault(name, {})[part] = value
    modules, wrong = dict(model.named_modules()), []
    for name, parts in found.items():
        layer: Any = modules.get(name)
        if type(layer) not in {**KINDS, **_PLAIN} or "A" not in parts or parts["A"].ndim != 2:
            wrong.append(name)
            continue
        table, rank = isinstance(layer, nn.Embedding), parts["A"].shape[0]
        rows, columns = (
            (layer.embedding_dim, layer.num_embeddings)
            if table
            else (layer.out_features, layer.in_features)
        )
        fits: dict[str, tuple[int, ...]] = {"A": (rank, columns), "B": (rows, rank)}
        fits |= {"magnitude": (rows,)} if dora else {}
        base = {"base"} if table else set()  # which peft writes of tables beside their matrices
        if parts.keys() - base != fits.keys():
            wrong.append(name)
            continue
        fits |= {"base": (columns, rows)}
        wrong += [f"{name} {m} {list(v.shape)}" for m, v in parts.items() if v.shape != fits[m]]
    if wrong or not found:
        some = ", ".join(wrong[:10]) or "there are none"
        raise ValueError(f"lora.load: the matrices are not this model's: {some}")
    model.requires_grad_(False)
    alpha, dropout = float(config["lora_alpha"]), float(config["lora_dropout"])
    for name, parts in found.items():
        layer, rank = modules[name], parts["A"].shape[0]
        root = math.sqrt(rank) if config.get("use_rslora") else rank
        _adapt(layer, rank, alpha, dropout, alpha / root, dora)
        with pf.no_grad():
            for m in "AB":
                layer.matrix(m).copy_(parts[m])
            if dora:
                layer.lora_magnitude_vector.copy_(parts["magnitude"])
            if "base" in parts:
                layer.weight.copy_(parts["base"])
    return model


def _config(path: Path) -> dict[str, Any]:
    """What an adapter's file says. ValueError for one that says it otherwise than peft."""
    try:
        found = json.loads(path.read_text("utf-8"))
    except (ValueError, RecursionError) as error:
        raise ValueError(
            f"lora.load: {path} is {mistaken(head(path)) or f'no JSON: {error}'}"
        ) from None
    if not isinstance(found, dict):
        raise ValueError(f"lora.load: {path} holds a {type(found).__name__}, not fields by name")
    found = {"lora_dropout": 0.0, **found}
    for name, most in (("lora_alpha", 1e9), ("lora_dropout", 1.0)):
        x: Any = found.get(name)
        if type(x) not in (int, float) or not 0 <= x <= most:
            raise ValueError(
                f"lora.load: {path} says {name} is {x!r:.80}, not a number to {most:g}"
            )
    return found


_PART = re.compile(
    rf"{re.escape(_BEFORE)}(.+)\.(?:lora_(?:embedding_)?([AB])(?:\.default)?(?:\.weight)?"
    r"|lora_(magnitude)_vector(?:\.default)?(?:\.weight)?|(base)_layer\.weight)"
)


def _matrices(model: nn.Module, tensors: dict[str, Tensor]) -> Iterator[tuple[str, str, Tensor]]:
    """A file's tensors by the names of their layers here, and "A", "B", "magnitude" or "base"."""
    for name, value in tensors.items():
        parts = _PART.fullmatch(name)
        if parts is None:
            raise ValueError(f"lora.load: {name!r:.200} is no matrix of a Linear layer or a table")
        layer, *which = parts.groups()
        yield _named(model, layer, back=True), next(filter(None, which)), value
