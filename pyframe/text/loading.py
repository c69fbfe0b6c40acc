"""Models in Hugging Face's folders: read, and written so that others read them."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any, TypeVar

import pyframe as pf
from pyframe import nn
from pyframe.io import safetensors
from pyframe.tensor import Tensor
from pyframe.text.config import Config
from pyframe.text.names import TURNED, is_surplus, ours, theirs

M = TypeVar("M", bound=nn.Module)
MOST = 10  # names in a message


def weights_of(folder: Path) -> Path:
    """The file of a folder that holds its weights, or names the files that do."""
    for name in ("model.safetensors", "model.safetensors.index.json", "pytorch_model.bin"):
        if (folder / name).is_file():
            return folder / name
    raise FileNotFoundError(
        f"from_pretrained: {folder} holds none of model.safetensors, "
        "model.safetensors.index.json, pytorch_model.bin"
    )


def load_weights(model: M, config: Config, tensors: Mapping[str, Tensor]) -> M:
    """Put a file's tensors into a model, by the names of its family.

    ValueError for those that are missing, superfluous or of other shapes, of which ten are named.
    """
    kind = config.model_type
    found: dict[str, Tensor] = {}
    for name, value in tensors.items():
        if is_surplus(name, config):
            continue
        mine = ours(name, kind)
        if mine.endswith(".weight") and mine.split(".")[-2] in TURNED.get(kind, ()):
            value = value.t()
        found[mine] = value
    own: dict[str, Tensor] = dict(model.named_parameters())  # those that are tied once
    missing = [theirs(n, kind) for n in own if n not in found]
    left = [theirs(n, kind) for n in found if n not in own]
    other = [
        f"{theirs(n, kind)} {list(v.shape)} for {list(own[n].shape)}"
        for n, v in found.items()
        if n in own and v.shape != own[n].shape
    ]
    wrong = [
        f"{what} {', '.join(names[:MOST])}{more(names)}"
        for what, names in {
            "missing": missing, "superfluous": left, "of another shape": other
        }.items()
        if names
    ]  # fmt: skip
    if wrong:
        raise ValueError(f"from_pretrained: the weights are not this model's: {'; '.join(wrong)}")
    with pf.no_grad():
        for name, value in found.items():
            own[name].copy_(value)
    return model


def more(names: list[str]) -> str:
    """How many a message leaves out."""
    return f" and {len(names) - MOST} more" if len(names) > MOST else ""


def from_pretrained(
    cls: type[M], source: str | os.PathLike[str], device: Any = None, dtype: Any = None
) -> M:
    """The model of a folder in Hugging Face's layout; see `CausalLM.from_pretrained`."""
    folder = Path(source)
    config = Config.from_file(folder)
    path = weights_of(folder)
    tensors = pf.load(path) if path.suffix == ".bin" else safetensors.load_file(path)
    model: Any = cls(config)
    first = next(iter(tensors.values()))
    model = model.to(device=device, dtype=dtype or first.dtype)
    return load_weights(model, config, tensors).eval()
