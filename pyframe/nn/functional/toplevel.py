"""The functions of neural networks that PyTorch has at its top level: `pf.conv2d`, `pf.lstm`, ….

FUNCTIONS has all of them; `pyframe.__getattr__` looks here for a name that it finds nowhere else.
Most are those of nn.functional, whose modules list them as TOPLEVEL, and the recurrent networks.
What stands here takes other arguments than the function of the same name in nn.functional.
"""

from __future__ import annotations

from typing import Any

from pyframe.core import dtypes as dt
from pyframe.nn import functional
from pyframe.nn.functional import dropouts, linear_maps, normalization, recurrent
from pyframe.nn.functional.normalization import (
    native_batch_norm as native_batch_norm,
    native_group_norm as native_group_norm,
    native_layer_norm as native_layer_norm,
)
from pyframe.ops.api.autocast import autocast
from pyframe.ops.api.public import publish
from pyframe.ops.math import elementwise as el
from pyframe.ops.random.draws import fractions
from pyframe.tensor import Tensor


def _dropout(name: str, doc: str, inplace: bool, **how: bool) -> Any:
    def run(input: Tensor, p: float, train: bool) -> Tensor:
        return dropouts.dropped(name, input, p, train, inplace, **how)

    run.__name__ = run.__qualname__ = name + "_" * inplace
    run.__doc__ = doc
    return run


_DROPOUTS: dict[str, tuple[dict[str, bool], str]] = {
    "dropout": (
        {},
        "Zero elements with the probability `p` if `train`, and scale the others by 1 / (1 - p).",
    ),
    "alpha_dropout": (
        {"alpha": True}, "Dropout that keeps mean and variance of what SELU gives, if `train`."
    ),
    "feature_dropout": ({"features": True}, "Dropout of whole channels of (N, C, *), if `train`."),
    "feature_alpha_dropout": (
        {"alpha": True, "features": True}, "`alpha_dropout` of whole channels of (N, C, *)."
    ),
}  # fmt: skip
for _name, (_how, _doc) in _DROPOUTS.items():
    _in_place = f"`{_name}` that writes to its input; returns it."
    globals()[_name] = _dropout(_name, _doc, False, **_how)
    globals()[f"{_name}_"] = _dropout(_name, _in_place, True, **_how)


def native_dropout(input: Tensor, p: float, train: bool | None) -> tuple[Tensor, Tensor]:
    """(dropout, the bool mask of what was kept)."""
    if train is False:
        return input.clone(), el.eq(el.iota(input.shape, input.device), -1).logical_not()
    keep = el.ge(fractions(input, None, True), p)
    return el.where(keep, input * (1 / (1 - p) if p < 1 else 0.0), 0.0), keep


def embedding(
    weight: Tensor, indices: Tensor, padding_idx: int = -1, scale_grad_by_freq: bool = False,
    sparse: bool = False,
) -> Tensor:  # fmt: skip
    """The rows of the table `weight` that `indices` name. The row `padding_idx` gets no gradient,
    if it is not -1."""
    return linear_maps.embedding(
        indices, weight, None if padding_idx < 0 else padding_idx, None, 2.0, scale_grad_by_freq,
        sparse,
    )  # fmt: skip


def embedding_renorm_(input: Tensor, indices: Tensor, max_norm: float, norm_type: float) -> Tensor:
    """Shorten the rows of `input` that `indices` name to the norm `max_norm`, in place."""
    if indices.dtype.category != dt.INTEGER:
        raise RuntimeError(f"embedding_renorm_: indices must be ints, got {indices.dtype.name}")
    linear_maps.renorm_rows(
        input, linear_maps.checked_rows("embedding_renorm_", indices, input), max_norm, norm_type
    )
    return input


def layer_norm(
    input: Tensor, normalized_shape: Any, weight: Tensor | None = None, bias: Tensor | None = None,
    eps: float = 1e-5, cudnn_enable: bool = True,
) -> Tensor:  # fmt: skip
    """Normalize over the last dims, `normalized_shape`; see nn.functional.layer_norm."""
    return normalization.layer_norm(input, normalized_shape, weight, bias, eps)


def group_norm(
    input: Tensor, num_groups: int, weight: Tensor | None = None, bias: Tensor | None = None,
    eps: float = 1e-5, cudnn_enabled: bool = True,
) -> Tensor:  # fmt: skip
    """Normalize over groups of channels; see nn.functional.group_norm."""
    return normalization.group_norm(input, num_groups, weight, bias, eps)


def batch_norm(
    input: Tensor, weight: Tensor | None, bias: Tensor | None, running_mean: Tensor | None,
    running_var: Tensor | None, training: bool, momentum: float, eps: float, cudnn_enabled: bool,
) -> Tensor:  # fmt: skip
    """Normalize each channel over the batch; see nn.functional.batch_norm."""
    return native_batch_norm(
        input, weight, bias, running_mean, running_var, training, momentum, eps
    )[0]


def instance_norm(
    input: Tensor, weight: Tensor | None, bias: Tensor | None, running_mean: Tensor | None,
    running_var: Tensor | None, use_input_stats: bool, momentum: float, eps: float,
    cudnn_enabled: bool,
) -> Tensor:  # fmt: skip
    """Normalize each channel of each example; see nn.functional.instance_norm."""
    return normalization.instance_norm(
        input, running_mean, running_var, weight, bias, use_input_stats, momentum, eps
    )


autocast(globals(), gpu_float32="layer_norm group_norm")
_HERE = """alpha_dropout alpha_dropout_ batch_norm dropout dropout_ embedding embedding_renorm_
feature_alpha_dropout feature_alpha_dropout_ feature_dropout feature_dropout_ group_norm
instance_norm layer_norm native_batch_norm native_dropout native_group_norm native_layer_norm"""
publish(globals(), _HERE.split(), "native_batch_norm")


def _functions() -> dict[str, Any]:
    found = {name: globals()[name] for name in _HERE.split()}
    found.update({name: getattr(recurrent, name) for name in recurrent.__all__})
    for file in ("activation", "linear_maps", "normalization", "spatial"):
        words = getattr(functional, file).TOPLEVEL.split()
        for name, _, other in (word.partition("=") for word in words):
            found[name] = getattr(functional, other or name)  # as it is published there
    return found


FUNCTIONS = _functions()
