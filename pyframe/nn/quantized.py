"""Weights of 8 or 4 bits for inference: `quantize_` packs those of a model's layers where they are.

A weight's first dim are rows; each row is cut into groups that have a scale, and, if they are not
symmetric, an offset: weight = q * scale + offset. Four or eight ints lie in a word of 32 bits, the
j-th of word i being element j * words + i of the row, so that neighbours are read as neighbours.
Words are unpacked where they are read: within a product's sum for a row or two, which takes
the time of reading the words; on the CPU by LLVM's routine, panel by panel, for more of them; else
within what makes a product's or a convolution's operand.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any, TypeVar

import numpy as np

import pyframe as pf
from pyframe import nn
from pyframe.core.dispatch import apply, by_fallback
from pyframe.core.modes import mode
from pyframe.core.op import ROUTINE, Op
from pyframe.nn import functional as F
from pyframe.tensor import Tensor

__all__ = ["quantize_"]

M = TypeVar("M", bound=nn.Module)
BITS = {"int8": 8, "int4": 4}
FEW = 4  # rows of an input up to which each unpacks the weight for itself, without panels
IN_PAGE = sys.platform == "emscripten"


def quantize_(
    model: M, mode: str = "int8", group: int = 64, symmetric: bool = True,
    only: Callable[[str, nn.Module], bool] | None = None,
) -> M:  # fmt: skip
    """Hold the weights of Linear, Conv and Embedding layers as ints of 8 or 4 bits; the model.

    `group` elements of a row share a scale, and unless `symmetric` an offset; `only(name, layer)`
    says which layers. A layer stays what it is, with `packed`, `scale` and `offset` in its
    state_dict for `weight`, which is made anew when it is asked for and can't be trained. Weights
    that layers share stay shared. ValueError for weights that are not finite, and where no layer
    fits: subclasses, recurrent layers and attention's own projections are left as they are.
    """
    if mode not in BITS:
        raise ValueError(f"quantize_: mode is 'int8' or 'int4', got {mode!r}")
    if not isinstance(group, int) or group < 8 or group % 8:
        raise ValueError(f"quantize_: group is a multiple of 8, such as 32, 64 or 128, got {group}")
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
        del layer.weight
        layer.__class__ = kind
        assert isinstance(layer, _Packed)
        layer.bits, layer.weight_shape = BITS[mode], tuple(weight.shape)
        layer.register_buffer("packed", packed)
        layer.register_buffer("scale", scale)
        layer.register_buffer("offset", offset[0] if offset else None)
    if not found:
        names = ", ".join(cls.__name__ for cls in KINDS)
        raise ValueError(f"quantize_: no layer to quantize; it takes {names}")
    return model


def _pack(name: str, weight: Tensor, bits: int, group: int, symmetric: bool) -> list[Tensor]:
    """Words (rows, runs, group), and for each int in a word scales (rows, ints, runs), and offsets
    if not symmetric: see above. Groups are smaller where that leaves less of a row empty."""
    rows = np.array(weight.detach().cpu().float().numpy()).reshape(weight.shape[0], -1)
    if not np.isfinite(rows).all():
        raise ValueError(f"quantize_: the weight of {name or 'the model'} is not finite")
    count, width = 32 // bits, rows.shape[1]
    runs = -(-width // (count * group))
    group = -(-width // (count * runs * 8)) * 8
    rows = np.pad(rows, ((0, 0), (0, count * runs * group - width)))
    rows = rows.reshape(len(rows), count, runs, group)
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
    words = np.zeros((len(q), runs, group), np.int64)
    for j in range(count):
        words |= q[:, j] << (bits * j)
    packed = words.astype(np.uint32).view(np.int32)
    floats = [a.astype(np.float32) for a in (scale, offset) if a is not None]
    parts = [pf.tensor(a).to(weight.device, weight.dtype) for a in floats]
    return [pf.tensor(packed).to(weight.device), *parts]


def _floats(packed: Tensor, scale: Tensor, offset: Tensor | None) -> Tensor:
    """(rows, width) of packed rows."""
    bits = 32 // scale.shape[1]
    up = pf.arange(32 - bits, -1, -bits, dtype=pf.int32, device=packed.device)
    q = packed.unsqueeze(1) << up[:, None, None] >> (32 - bits)
    values = q.to(scale.dtype) * scale.unsqueeze(3)
    if offset is not None:
        values = values + offset.unsqueeze(3)
    return values.flatten(1)


def _product(x: Tensor, packed: Tensor, scale: Tensor, offset: Tensor | None) -> Tensor:
    """(*, width) with packed rows: (*, rows). One sum, in which words are unpacked."""
    count, (_, runs, group) = scale.shape[1], packed.shape
    x = F.pad(x, (0, count * runs * group - x.shape[-1]))
    x = x.reshape(*x.shape[:-1], 1, count, runs, group)
    bits = 32 // count
    total: Any = 0.0
    for j in range(count):
        up = 32 - bits * (j + 1)
        q = (packed << up if up else packed) >> (32 - bits)
        weight = q.to(x.dtype) * scale[:, j].unsqueeze(2)
        if offset is not None:
            weight = weight + offset[:, j].unsqueeze(2)
        total = total + weight * x[..., j, :, :]
    return total.sum((-2, -1))


_COMPILED = {fn: pf.compile(fn) for fn in (_floats, _product)}


def _at_once(fn: Callable[..., Tensor], *args: Any) -> Tensor:
    """A function's result; on the CPU, which computes int ops one by one, of one kernel."""
    return (fn if args[0].device.always_lazy else _COMPILED[fn])(*args)


def _unpacked(packed: Any, scale: Any, offset: Any, symmetric: bool, width: int) -> Tensor:
    return _at_once(_floats, packed, scale, None if symmetric else offset)[:, :width]


def _numpy(x: Any, packed: Any, scale: Any, offset: Any, symmetric: bool) -> np.ndarray:
    bits = 32 // scale.shape[1]
    up = np.arange(32 - bits, -1, -bits, dtype=np.int32)[:, None, None]
    rows = (packed[:, None] << up >> np.int32(32 - bits)).astype(scale.dtype) * scale[..., None]
    if not symmetric:
        rows += offset[..., None]
    rows = rows.reshape(len(rows), -1)[:, : x.shape[-1]]
    wide = np.promote_types(x.dtype, np.float32)
    out: np.ndarray = (x.astype(wide) @ rows.astype(wide).T).astype(x.dtype)
    return out


# (n, width) with packed rows: (n, rows). Nothing keeps the weight as floats: where x has a
# gradient, it is unpacked once more.
packed_linear = Op(
    "packed_linear", ROUTINE, "x packed scale offset", "symmetric", numpy=_numpy,
    infer=lambda x, packed, *_: ((x.shape[0], packed.shape[0]), x.dtype), routine="gemm.packed",
    fallback=lambda x, packed, scale, offset, symmetric: F.linear(
        x, _unpacked(packed, scale, offset, symmetric, x.shape[-1])
    ),
    x=lambda g, x_spec, packed, scale, offset, symmetric: g
    @ _unpacked(packed, scale, offset, symmetric, x_spec.shape[-1]),
    flops=lambda shapes, out: 2 * out[0] * out[1] * shapes[0][1],
)  # fmt: skip


class _Packed(nn.Module):
    """What a layer has for its weight."""

    bits: int
    weight_shape: tuple[int, ...]
    packed: Tensor
    scale: Tensor
    offset: Tensor | None

    @property
    def weight(self) -> Tensor:
        """The weight as floats."""
        rows = _at_once(_floats, self.packed, self.scale, self.offset)
        width = int(np.prod(self.weight_shape[1:]))
        return rows[:, :width].reshape(self.weight_shape)

    def extra_repr(self) -> str:
        kind = "" if self.offset is None else ", symmetric=False"
        return f"{super().extra_repr()}, int{self.bits}, group={self.packed.shape[2]}{kind}"


class QuantizedLinear(_Packed, nn.Linear):  # type: ignore[misc]  # its weight is read only
    """A Linear with a packed weight."""

    def forward(self, input: Tensor) -> Tensor:
        """(*, in_features) -> (*, out_features)."""
        fits = input.shape[-1:] == (self.in_features,) and input.dtype is self.scale.dtype
        cast = mode.autocast is not None and mode.autocast.dtype_on(input.device)
        if not fits or not input.numel() or cast:
            return F.linear(input, self.weight, self.bias)
        grad = pf.is_grad_enabled() and input.requires_grad
        # what LLVM's routine takes; a page has none
        panels = input.device.type == "cpu" and not self.packed.shape[2] % 16 and not IN_PAGE
        if input.numel() <= (2 if panels else FEW) * self.in_features and not grad:
            out = _at_once(_product, input, self.packed, self.scale, self.offset)
        else:
            offset = self.scale if self.offset is None else self.offset
            operands = input.reshape(-1, self.in_features), self.packed, self.scale, offset
            out = (apply if panels else by_fallback)(
                packed_linear, operands, (self.offset is None,)
            )
            out = out.reshape(*input.shape[:-1], self.out_features)
        return out if self.bias is None else out + self.bias


class QuantizedEmbedding(_Packed, nn.Embedding):  # type: ignore[misc]
    """An Embedding with a packed table, of which the rows that are asked for are unpacked."""

    def forward(self, input: Tensor) -> Tensor:
        """ints (*) -> (*, embedding_dim)."""
        at = input.reshape(-1)
        offset = None if self.offset is None else self.offset.index_select(0, at)
        rows = _floats(self.packed.index_select(0, at), self.scale.index_select(0, at), offset)
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
