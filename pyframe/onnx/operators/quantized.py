"""Integers with a scale and a zero point.

Sums of products of eight bits are exact in float32 up to 2^24 and in float64 beyond; where a device
has no float64, longer ones are added in parts.
"""

from __future__ import annotations

import math
from functools import reduce
from typing import Any

import numpy as np

import pyframe as pf
from pyframe.onnx import values
from pyframe.onnx.operators.elementwise import cast_array
from pyframe.onnx.operators.spatial import conv
from pyframe.onnx.table import op
from pyframe.tensor import Tensor

EXACT = 1 << 24  # up to there float32 has all ints
_NIBBLES = {"uint4": (0, 15), "int4": (-8, 7), "uint2": (0, 3), "int2": (-2, 1)}


def _spread(v: Any, like: Any, axis: int, block: int) -> Any:
    """A scale or zero point for each element: one for all, for each of an axis, or for blocks."""
    if v is None or v.ndim == 0 or math.prod(v.shape) == 1:
        return v if v is None or v.ndim == 0 else v.reshape(())
    if v.ndim == 1 and not block:
        return v.reshape([-1 if i == axis % like.ndim else 1 for i in range(like.ndim)])
    if not block and tuple(v.shape) != tuple(like.shape):
        block = -(-like.shape[axis] // v.shape[axis])
    if block:
        v = v.repeat_interleave(block, axis).narrow(axis, 0, like.shape[axis])
    return v


def _ints(x: Any, run_device: Any) -> Tensor:
    """Ints, which may be of a dtype that only the host has, as float32."""
    return x.float() if isinstance(x, Tensor) else values.tensor(x.astype(np.float32), run_device)


@op("DequantizeLinear", "")
@op("DequantizeLinear", "com.microsoft")
def dequantize(
    x: Any, scale: Any, zero: Any = None, *, axis: int = 1, block_size: int = 0,
    output_dtype: int = 0, run: Any,
) -> Tensor:  # fmt: skip
    """(x - zero) * scale, in the scale's dtype."""
    if isinstance(x, np.ndarray) and run.device is None and isinstance(scale, Tensor):
        run.device = scale.device
    scale = run.tensor(scale) if values.has_dtype(scale) else _ints(scale, run.device)
    kind = values.DTYPES[output_dtype] if output_dtype else scale.dtype
    wide = isinstance(x, Tensor) and x.dtype is pf.int32
    x = x if wide else _ints(x, run.device)
    if zero is not None:
        zero = _spread(
            zero if isinstance(zero, Tensor) and wide else _ints(zero, run.device),
            x,
            axis,
            block_size,
        )
        x = x - zero
    return (x.float() * _spread(scale.float(), x, axis, block_size)).to(kind)


def quantized(x: Tensor, scale: Tensor, zero: Tensor | None, kind: pf.dtype) -> Tensor:
    """Rounded to even and held within the dtype."""
    info = pf.iinfo(kind)
    found = pf.round(x / scale)
    if zero is not None:
        found = found + zero.to(found.dtype)
    return found.clamp(info.min, info.max).to(kind)


@op("QuantizeLinear", "")
@op("QuantizeLinear", "com.microsoft")
def quantize(
    x: Tensor, scale: Any, zero: Any = None, *, axis: int = 1, block_size: int = 0,
    output_dtype: int = 0, precision: int = 0, saturate: int = 1, run: Any,
) -> Any:  # fmt: skip
    number = values.type_of(zero) if zero is not None else output_dtype or 2
    scale = run.tensor(scale) if values.has_dtype(scale) else _ints(scale, run.device)
    kind = values.DTYPES[precision] if precision else pf.promote_types(x.dtype, scale.dtype)
    kind = kind if kind.is_floating_point else scale.dtype
    scale = _spread(scale.to(kind), x, axis, block_size)
    shift = None
    if zero is not None:
        shift = _spread(_ints(zero, run.device), x, axis, block_size)
    if number in values.DTYPES:
        return quantized(x.to(kind), scale, shift, values.DTYPES[number])
    dtype = values.numpy_dtype(number)
    y = x.to(kind) / scale
    if dtype.name in _NIBBLES:
        y = pf.round(y)
        y = y if shift is None else y + shift
        return values.array(y.clamp(*_NIBBLES[dtype.name]).float()).astype(dtype)
    return cast_array(values.array((y if shift is None else y + shift).float()), number, saturate)


def _centred(x: Tensor, zero: Tensor | None, rows: bool) -> Tensor:
    """Ints less their zero point; one for each row (or column) where it has one dim."""
    x = x.float()
    if zero is None:
        return x
    if rows and zero.ndim == 1 and zero.shape[0] > 1:
        zero = zero[:, None]
    return x - zero.float()


def _wide(length: int, a: Tensor, b: Tensor) -> tuple[Tensor, Tensor]:
    """Where sums of so many products may not fit float32, and the device has float64, in that."""
    if length * 255 * 255 > EXACT and a.device.type == "cpu":
        return a.double(), b.double()
    return a, b


def int_product(a: Tensor, b: Tensor) -> Tensor:
    """A product of whole numbers, exact."""
    n, part = a.shape[-1], EXACT // (255 * 255)
    a, b = _wide(n, a, b)
    if a.dtype is pf.float64 or n <= part:
        return (a @ b).to(pf.int32)
    parts = [a[..., i : i + part] @ b[..., i : i + part, :] for i in range(0, n, part)]
    return reduce(pf.add, [p.to(pf.int32) for p in parts])


@op("MatMulInteger")
def mat_mul_integer(
    a: Tensor, b: Tensor, a_zero: Tensor | None = None, b_zero: Tensor | None = None
) -> Tensor:
    return int_product(_centred(a, a_zero, True), _centred(b, b_zero, False))


def _rescaled(total: Tensor, scale: Tensor, y_scale: Tensor, y_zero: Tensor) -> Tensor:
    return quantized(total.float() * (scale / y_scale), pf.ones_like(y_scale), y_zero, y_zero.dtype)


@op("QLinearMatMul")
def qlinear_mat_mul(
    a: Tensor, a_scale: Tensor, a_zero: Tensor, b: Tensor, b_scale: Tensor, b_zero: Tensor,
    y_scale: Tensor, y_zero: Tensor,
) -> Tensor:  # fmt: skip
    total = int_product(_centred(a, a_zero, True), _centred(b, b_zero, False))
    if a_scale.ndim == 1 and a_scale.shape[0] > 1:
        a_scale = a_scale[:, None]
    return _rescaled(total, a_scale.float() * b_scale.float(), y_scale.float(), y_zero)


def _int_conv(x: Tensor, w: Tensor, **how: Any) -> Tensor:
    x, w = _wide(math.prod(w.shape[1:]), x, w)
    return pf.round(conv(x, w, **how)).to(pf.int32)


def _channels(v: Tensor | None, ndim: int) -> Tensor | None:
    """One for each output channel."""
    if v is None or v.ndim == 0:
        return v
    return v.reshape(-1, *[1] * (ndim - 1))


@op("ConvInteger")
def conv_integer(
    x: Tensor, w: Tensor, x_zero: Tensor | None = None, w_zero: Tensor | None = None, *,
    auto_pad: str, group: int, pads: Any = None, strides: Any = None, dilations: Any = None,
    kernel_shape: Any = None,
) -> Tensor:  # fmt: skip
    how = {"auto_pad": auto_pad, "group": group, "pads": pads, "strides": strides}
    w = _centred(w, _channels(w_zero, w.ndim), False)
    return _int_conv(_centred(x, x_zero, False), w, dilations=dilations, **how)


@op("QLinearConv")
def qlinear_conv(
    x: Tensor, x_scale: Tensor, x_zero: Tensor, w: Tensor, w_scale: Tensor, w_zero: Tensor,
    y_scale: Tensor, y_zero: Tensor, b: Tensor | None = None, *, auto_pad: str, group: int,
    pads: Any = None, strides: Any = None, dilations: Any = None, kernel_shape: Any = None,
) -> Tensor:  # fmt: skip
    how = {"auto_pad": auto_pad, "group": group, "pads": pads, "strides": strides}
    w = _centred(w, _channels(w_zero, w.ndim), False)
    total = _int_conv(_centred(x, x_zero, False), w, dilations=dilations, **how)
    if b is not None:
        total = total + b.reshape(-1, *[1] * (x.ndim - 2))
    scale = x_scale * (w_scale if w_scale.ndim == 0 else _channels(w_scale, x.ndim - 1))
    return _rescaled(total, scale, y_scale, y_zero)
