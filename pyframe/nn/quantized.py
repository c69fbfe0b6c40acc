"""Weights of 8 or 4 bits for inference: `quantize_` packs those of a model's layers where they are.

A weight's first dim are rows; each row is cut into groups that have a scale, and, if they are not
symmetric, an offset: weight = q * scale + offset. A word of 32 bits has four ints of 8 bits in its
bytes, from the lowest on, or eight of 4 bits: the first four in the lower halves of its bytes, the
others in the upper ones. So four neighbours are the bytes of a word in either case, and a word is
of one group. Words are unpacked within the kernel that multiplies.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, TypeVar

import numpy as np

import pyframe as pf
from pyframe import nn
from pyframe.core.dispatch import apply
from pyframe.core.modes import mode
from pyframe.core.op import EXTERN, Op
from pyframe.core.sizes import size_hint
from pyframe.nn import functional as F
from pyframe.tensor import Tensor

__all__ = ["quantize_"]

M = TypeVar("M", bound=nn.Module)
BITS = {"int8": 8, "int4": 4}
BLOCK = 1 << 18  # weights that are packed at once


def quantize_(
    model: M, mode: str = "int8", group: int = 64, symmetric: bool = True,
    only: Callable[[str, nn.Module], bool] | None = None, activations: str | None = None,
) -> M:  # fmt: skip
    """Hold the weights of a model's Linear, Conv and Embedding layers as ints of 8 or 4 bits.

    The model is changed, and returned. A layer stays of its class; its state_dict has `packed`,
    `scale` and `offset` in the place of `weight`, which is unpacked when it is asked for and can't
    be trained. Weights that layers share stay shared. Subclasses, recurrent layers and attention's
    own projections are left as they are. ValueError for weights that are not finite, and where no
    layer fits.

    Args:
        model: The Module or the Model; it is changed in place.
        mode: "int8" or "int4".
        group: how many elements of a row share a scale; a multiple of 32.
        symmetric: False gives each group an offset, too.
        only: a function of (name, layer) that says which layers are packed; all by default.
        activations: "int8" has a Linear layer round each row of its input to 8 bits, by a scale of
            its own, and sum products of ints. A single row, and an input that has a gradient, are
            multiplied as they are.

    >>> pf.quantize_(nn.Linear(64, 2)).packed.dtype
    pyframe.int32
    """
    if mode not in BITS:
        raise ValueError(f"quantize_: mode is 'int8' or 'int4', got {mode!r}")
    if not isinstance(group, int) or group < 32 or group % 32:
        raise ValueError(
            f"quantize_: group is a multiple of 32, such as 32, 64 or 128, got {group}"
        )
    if activations not in (None, "int8"):
        raise ValueError(f"quantize_: activations is None or 'int8', got {activations!r}")
    done: dict[int, tuple[Tensor, ...]] = {}
    found = False
    for name, layer in model.named_modules():
        kind, weight = KINDS.get(type(layer)), layer._parameters.get("weight")
        if kind is None or weight is None or getattr(layer, "max_norm", None) is not None:
            continue
        if only is not None and not only(name, layer):
            continue
        if id(weight) not in done:
            done[id(weight)] = (weight, *_pack(name, weight, BITS[mode], group, symmetric))
        _, packed, scale, *offset = done[id(weight)]
        found = True
        hold(layer, BITS[mode], packed, scale, offset[0] if offset else None, activations)
    if not found:
        names = ", ".join(cls.__name__ for cls in KINDS)
        raise ValueError(f"quantize_: no layer to quantize; it takes {names}")
    return model


def hold(
    layer: nn.Module, bits: int, packed: Tensor, scale: Tensor, offset: Tensor | None,
    activations: str | None,
) -> None:  # fmt: skip
    """Let a layer have what `_pack` gives in the place of its weight."""
    shape = tuple(layer.weight.shape)
    del layer.weight
    layer.__class__ = KINDS[type(layer)]
    assert isinstance(layer, _Packed)
    layer.bits, layer.weight_shape, layer.activations = bits, shape, activations
    layer.register_buffer("packed", packed)
    layer.register_buffer("scale", scale)
    layer.register_buffer("offset", offset)


def _pack(name: str, weight: Tensor, bits: int, group: int, symmetric: bool) -> list[Tensor]:
    """Words (rows, groups, words of a group), and scales (rows, groups), and offsets if not
    symmetric: see above. Groups are smaller where that leaves less of a row empty."""
    flat = weight.detach().cpu().reshape(weight.shape[0], -1)
    width = flat.shape[1]
    groups = max(-(-width // group), 1)
    group = max(-(-width // (groups * 32)), 1) * 32
    some = max(BLOCK // (groups * group), 1)  # rows at once: making words takes ten times theirs
    parts = []
    for at in range(0, max(len(flat), 1), some):
        rows = flat[at : at + some].float().numpy()
        if not np.isfinite(rows).all():
            raise ValueError(f"quantize_: the weight of {name or 'the model'} is not finite")
        # what fills a row up has no part in the range that an offset stands for
        how = "constant" if symmetric or not width else "edge"
        rows = np.pad(rows, ((0, 0), (0, groups * group - width)), how)
        parts.append(_pack_rows(rows.reshape(len(rows), groups, group), bits, symmetric))
    packed, *floats = (np.concatenate(p) for p in zip(*parts, strict=True))
    made = [pf.tensor(a).to(weight.device, weight.dtype) for a in floats]
    return [pf.tensor(packed).to(weight.device), *made]


def _pack_rows(rows: np.ndarray, bits: int, symmetric: bool) -> list[np.ndarray]:
    """The words of rows (rows, groups, group), and their scales and offsets."""
    most = 2 ** (bits - 1)
    if symmetric:
        scale, offset = np.abs(rows).max(-1) / (most - 1), None
        centered = rows
    else:
        low, high = rows.min(-1), rows.max(-1)
        scale = (high - low) / (2 * most - 1)
        offset = low + most * scale
        centered = rows - offset[..., None]
    steps = np.where(scale == 0, 1, scale)[..., None]
    q = np.clip(np.rint(centered / steps), -most, most - 1).astype(np.int64) & (2 * most - 1)
    downs = (32 - bits - _ups(bits)).astype(np.int64)
    words = (q.reshape(*rows.shape[:2], -1, 32 // bits) << downs).sum(3)
    packed = words.astype(np.uint32).view(np.int32)
    return [packed, *(a.astype(np.float32) for a in (scale, offset) if a is not None)]


def _ups(bits: int) -> np.ndarray:
    """By how much to shift a word up for each of its ints, so that its sign comes first."""
    halves, bytes = np.ogrid[: 8 // bits, :4]
    return (32 - bits - bits * halves - 8 * bytes).reshape(-1).astype(np.int32)


def _ints(packed: np.ndarray, bits: int) -> np.ndarray:
    """(rows, groups, ints of a group) of packed rows."""
    return (packed[..., None] << _ups(bits) >> (32 - bits)).reshape(*packed.shape[:2], -1)


def _floats(packed: Tensor, scale: Tensor, offset: Tensor | None, bits: int) -> Tensor:
    """(rows, width) of packed rows."""
    ups = pf.tensor(_ups(bits)).to(packed.device)
    q = packed.unsqueeze(3) << ups >> (32 - bits)
    values = q.to(scale.dtype) * scale[:, :, None, None]
    if offset is not None:
        values = values + offset[:, :, None, None]
    return values.flatten(1)


def _rounded(x: Tensor) -> tuple[Tensor, Tensor]:
    """Rows as ints of 8 bits, and the steps that these count."""
    step = x.abs().amax(-1, keepdim=True) / 127
    steps = step.where(step > 0, 1.0)
    return (x / steps).round().clamp(-127, 127).to(pf.int8), step


@functools.lru_cache(maxsize=1024)
def _compiled(fn: Callable[..., Any], sizes: tuple[int, ...]) -> Callable[..., Any]:
    """`fn` for operands whose sizes but the first are these."""
    return pf.compile(fn)


def _at_once(fn: Callable[..., Any], x: Tensor, *args: Any) -> Any:
    """A function's result; on the CPU, which computes int ops one by one, of one kernel."""
    return (fn if x.device.is_lazy else _compiled(fn, tuple(x.shape[1:])))(x, *args)


def _unpacked(packed: Any, scale: Any, offset: Any, bits: int, symmetric: bool) -> Tensor:
    found: Tensor = _at_once(_floats, packed, scale, None if symmetric else offset, bits)
    return found


def _numpy(x: Any, packed: Any, scale: Any, offset: Any, bits: int, symmetric: bool) -> np.ndarray:
    q, wide = _ints(packed, bits), np.promote_types(scale.dtype, np.float32)
    out = np.zeros((1, x.shape[1], len(packed)), wide)
    for g, columns in enumerate(np.split(x, q.shape[1], 2)):
        # sums of ints are exact in float64
        exact = np.float64 if x.dtype == np.int8 else wide
        rows = columns.astype(exact)
        out += rows @ q[:, g].T.astype(exact) * scale[:, g].astype(wide)
        if not symmetric:
            out += rows.sum(2, keepdims=True) * offset[:, g].astype(wide)
    return out.astype(scale.dtype)


# (1, n, width) with packed rows: (1, n, rows). Of int8 the products of a group are summed as ints.
# Nothing keeps the weight as floats: where x has a gradient, it is unpacked once more.
packed_linear = Op(
    "packed_linear", EXTERN, "x packed scale offset", "bits symmetric", numpy=_numpy,
    infer=lambda x, packed, scale, *_: ((1, x.shape[1], packed.shape[0]), scale.dtype),
    routine="packed.product", kernel="packed",
    fallback=lambda x, packed, scale, offset, bits, symmetric: F.linear(
        x.to(scale.dtype), _unpacked(packed, scale, offset, bits, symmetric)
    ),
    x=lambda g, packed, scale, offset, bits, symmetric: g
    @ _unpacked(packed, scale, offset, bits, symmetric),
    flops=lambda shapes, out: 2 * out[1] * out[2] * shapes[0][2],
)  # fmt: skip


class _Packed(nn.Module):
    """What a layer has for its weight."""

    bits: int
    weight_shape: tuple[int, ...]
    activations: str | None
    packed: Tensor
    scale: Tensor
    offset: Tensor | None

    @property
    def weight(self) -> Tensor:
        """The weight as floats."""
        rows = _at_once(_floats, self.packed, self.scale, self.offset, self.bits)
        width = int(np.prod(self.weight_shape[1:]))
        return rows[:, :width].reshape(self.weight_shape)

    @property
    def group(self) -> int:
        """How many elements share a scale."""
        return self.packed.shape[2] * 32 // self.bits

    def extra_repr(self) -> str:
        kind = "" if self.offset is None else ", symmetric=False"
        if self.activations is not None:
            kind += f", activations={self.activations!r}"
        return f"{super().extra_repr()}, int{self.bits}, group={self.group}{kind}"


class QuantizedLinear(_Packed, nn.Linear):  # type: ignore[misc]  # its weight is read only
    """A Linear with a packed weight."""

    def forward(self, input: Tensor, rows: slice = slice(None)) -> Tensor:
        """(*, in_features) -> (*, out_features), or those of some rows of the weight."""
        fits = input.shape[-1:] == (self.in_features,) and input.dtype is self.scale.dtype
        cast = mode.autocast is not None and mode.autocast.dtype_on(input.device)
        if not fits or not input.numel() or cast:
            bias = None if self.bias is None else self.bias[rows]
            return F.linear(input, self.weight[rows], bias)
        width = self.packed.shape[1] * self.group
        more = width - self.in_features
        x, step = (F.pad(input, (0, more)) if more else input).reshape(-1, width), None
        # a row alone waits for the weight: to round it takes longer than it saves
        rounds = self.activations is not None and size_hint(x.shape[0]) > 1
        if rounds and not (pf.is_grad_enabled() and x.requires_grad):
            x, step = _at_once(_rounded, x)
        offset = self.scale if self.offset is None else self.offset
        own = (self.packed, self.scale, offset)
        if rows != slice(None):
            own = (self.packed[rows], self.scale[rows], offset[rows])
        operands = x.unsqueeze(0), *own
        out = apply(packed_linear, operands, (self.bits, self.offset is None))
        out = out if step is None else out * step
        out = out.reshape(*input.shape[:-1], own[0].shape[0])
        return out if self.bias is None else out + self.bias[rows]


class QuantizedEmbedding(_Packed, nn.Embedding):  # type: ignore[misc]
    """An Embedding with a packed table, of which the rows that are asked for are unpacked."""

    def forward(self, input: Tensor) -> Tensor:
        """ints (*) -> (*, embedding_dim)."""
        at = input.reshape(-1)
        offset = None if self.offset is None else self.offset.index_select(0, at)
        packed, scale = self.packed.index_select(0, at), self.scale.index_select(0, at)
        rows = _floats(packed, scale, offset, self.bits)
        return rows[:, : self.embedding_dim].reshape(*input.shape, self.embedding_dim)


def _made(base: type[Any]) -> type[Any]:
    name = f"Quantized{base.__name__}"
    made = type(name, (_Packed, base), {"__module__": __name__, "__doc__": base.__doc__})
    globals()[name] = made  # where pickles look for it
    return made


KINDS: dict[type, type] = {
    nn.Linear: QuantizedLinear,
    nn.Embedding: QuantizedEmbedding,
    **{
        base: _made(base)
        for base in (
            nn.Conv1d, nn.Conv2d, nn.Conv3d,
            nn.ConvTranspose1d, nn.ConvTranspose2d, nn.ConvTranspose3d,
        )
    },
}  # fmt: skip
