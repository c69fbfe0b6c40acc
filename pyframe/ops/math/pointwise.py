"""Pointwise functions that are compositions, and questions about tensors and dtypes."""

from __future__ import annotations

import builtins
import math
from typing import Any

from pyframe.core import dtypes as dt
from pyframe.core.dispatch import apply
from pyframe.ops.api import check
from pyframe.ops.api.public import public
from pyframe.ops.api.results import FrexpResult
from pyframe.ops.math import complex as cx, elementwise as el, promotion
from pyframe.ops.math.elementwise import abs, eq, ge, gt, le, logical_and, logical_or, lt, where
from pyframe.ops.random.creation import full_like
from pyframe.ops.shape import movement as mv
from pyframe.tensor import Tensor

# --- scaling and rounding


def deg2rad(input: Tensor) -> Tensor:
    """Degrees as radians."""
    check.real("deg2rad", input)
    return input * (math.pi / 180)


def rad2deg(input: Tensor) -> Tensor:
    """Radians as degrees."""
    check.real("rad2deg", input)
    return input * (180 / math.pi)


def frac(input: Tensor) -> Tensor:
    """The part after the point, with the sign of the number."""
    check.floats("frac", input)
    return input - el.trunc(input)


def round(input: Tensor, *, decimals: int = 0) -> Tensor:
    """The nearest number with `decimals` digits after the point (before it if negative)."""
    if decimals == 0:
        return el.round_(input)
    check.floats(f"round(decimals={decimals})", input)
    scale = 10.0 ** builtins.abs(decimals)
    if decimals > 0:
        return el.round_(input * scale) / scale
    return el.round_(input / scale) * scale


def frexp(input: Tensor) -> FrexpResult:
    """(mantissa, exponent) of x = mantissa * 2**exponent, 0.5 <= |mantissa| < 1; ints are int32."""
    check.floats("frexp", input)
    exponent = el.exponent_of(input)
    half = el.bitwise_right_shift(exponent, 1)  # 2**-e itself may be too large
    scale = el.exp2((-half).to(input.dtype)), el.exp2((half - exponent).to(input.dtype))
    return FrexpResult(input * scale[0] * scale[1], exponent)


def ldexp(input: Tensor, other: Tensor) -> Tensor:
    """input * 2**other; of floats and ints it has the dtype of `input`, and no power overflows."""
    if input.dtype.category != dt.FLOAT or other.dtype.category != dt.INTEGER:
        return input * el.pow(2.0, other)
    out = input if input.dtype is dt.float64 else input.to(dt.float32)
    most = 3 * (1022 if input.dtype is dt.float64 else 126)
    exponent = el.clamp(other.to(out.dtype), -most, most)
    for k in range(3):  # floor((n + k) / 3) of 0, 1, 2 sum to n
        out = out * el.pow(2.0, el.floor((exponent + k) / 3))
    return out.to(input.dtype)


def nan_to_num(
    input: Tensor, nan: float | None = None, posinf: float | None = None,
    neginf: float | None = None,
) -> Tensor:  # fmt: skip
    """NaN and infinities replaced: by 0 and the largest and lowest finite number by default."""
    if input.dtype.category < dt.FLOAT:
        return input.clone()
    if input.dtype.category == dt.COMPLEX:
        return cx.complex(
            nan_to_num(input.real, nan, posinf, neginf), nan_to_num(input.imag, nan, posinf, neginf)
        )
    most = dt.finfo(input.dtype).max
    if posinf is None and neginf is None:
        return where(el.isnan(input), nan or 0.0, el.clamp(input, -most, most))
    out = where(el.isnan(input), nan or 0.0, input)
    out = where(isposinf(input), most if posinf is None else posinf, out)
    return where(isneginf(input), -most if neginf is None else neginf, out)


# --- signs and comparisons


def heaviside(input: Tensor, values: Tensor) -> Tensor:
    """0 below 0, `values` at 0, 1 above."""
    check.same_dtype("heaviside", input, values)
    check.real("heaviside", input)
    return where(eq(input, 0), values.detach(), gt(input, 0).to(input.dtype))


def fmax(input: Tensor, other: Tensor) -> Tensor:
    """The larger of both; of a NaN and a number, the number."""
    return where(logical_or(ge(input, other), el.isnan(other)), input, other)


def fmin(input: Tensor, other: Tensor) -> Tensor:
    """The smaller of both; of a NaN and a number, the number."""
    return where(logical_or(le(input, other), el.isnan(other)), input, other)


def isposinf(input: Tensor) -> Tensor:
    """Whether each element is +inf."""
    check.real("isposinf", input)
    return logical_and(el.isinf(input), gt(input, 0))


def isneginf(input: Tensor) -> Tensor:
    """Whether each element is -inf."""
    check.real("isneginf", input)
    return logical_and(el.isinf(input), lt(input, 0))


def isreal(input: Tensor) -> Tensor:
    """Whether each element has no imaginary part."""
    return eq(input.imag, 0) if input.is_complex() else full_like(input, True, dtype=dt.bool_)


def angle(input: Tensor) -> Tensor:
    """The angle of a complex number; of a real one 0, or pi where it is negative."""
    if input.dtype.category == dt.COMPLEX:
        return el.atan2(input.imag, input.real)
    input = el.floated(input)
    return where(el.isnan(input), input, where(lt(input, 0), el.new_like(input, math.pi), 0.0))


def isclose(
    input: Tensor, other: Tensor, rtol: float = 1e-05, atol: float = 1e-08, equal_nan: bool = False
) -> Tensor:
    """Whether |input - other| <= atol + rtol * |other|; of one dtype."""
    check.same_dtype("isclose", input, other)
    if rtol < 0 or atol < 0:
        raise RuntimeError(f"isclose: rtol and atol must be at least 0, got {rtol} and {atol}")
    close = eq(input, other)
    if equal_nan and input.dtype.category >= dt.FLOAT:
        close = logical_or(close, logical_and(el.isnan(input), el.isnan(other)))
    if rtol == 0 and atol == 0:
        return close
    if input.dtype.category < dt.FLOAT:  # in the widest float, as ints have more digits
        wide = dt.float64 if input.device.wide else dt.float32
        input, other = input.to(wide), other.to(wide)
    apart = abs(input - other)
    near = logical_and(el.isfinite(apart), le(apart, atol + abs(rtol * other)))
    return logical_or(close, near)


def allclose(
    input: Tensor, other: Tensor, rtol: float = 1e-05, atol: float = 1e-08, equal_nan: bool = False
) -> bool:
    """Whether all elements are close (see `isclose`), as a bool: reads the values."""
    return bool(isclose(input, other, rtol, atol, equal_nan).all().item())


def equal(input: Tensor, other: Tensor) -> bool:
    """Whether both have one shape and equal elements, as a bool: reads the values."""
    check.same_dtype("equal", input, other)
    if input.device is not other.device:
        raise RuntimeError(f"equal: expected one device, got {input.device} and {other.device}")
    return input.shape == other.shape and bool(eq(input, other).all().item())


# --- activations that are methods of Tensor too; the others stand in nn.functional


def hardshrink(input: Tensor, lambd: Any = 0.5) -> Tensor:
    """0 where |x| <= lambd, else x."""
    check.floats("hardshrink", input)
    small = el.logical_and(el.ge(input, -lambd), el.le(input, lambd))
    return el.where(small, 0.0, input)


def prelu(input: Tensor, weight: Tensor) -> Tensor:
    """x where x > 0, else weight * x; `weight` () or (1,), or (C,) for the channels of dim 1
    (arXiv 1502.01852). RuntimeError for other sizes or dtypes."""
    check.floats("prelu", input, weight)
    check.same_dtype("prelu", input, weight)
    if weight.ndim > 1:
        raise RuntimeError(
            f"prelu: Expected `weight` to be a scalar or 1D tensor, but got {weight.ndim}-d"
        )
    n = weight.numel()
    if n == 1:
        slope = mv.reshape(weight, ())
    else:
        channels = input.shape[1] if input.ndim > 1 else 1
        if input.ndim == 0 or n != channels:
            raise RuntimeError(
                f"prelu: Mismatch of parameter numbers and input channel size. Found parameter "
                f"numbers = {n} and channel size = {channels}; use one parameter, or one a channel"
            )
        slope = mv.reshape(weight, (n, *(1,) * (input.ndim - 2)))
    return el.where(el.gt(input, 0), input, slope * input)


# --- arithmetic


def rsub(input: Tensor, other: Any, *, alpha: Any = 1) -> Tensor:
    """other - alpha * input."""
    if not isinstance(other, Tensor):
        other = el.new_like(input, other) if input.dtype is not dt.bool_ else other
    return el.sub_scaled(other, input, alpha=alpha)


def lcm(input: Tensor, other: Tensor) -> Tensor:
    """The least common multiple of ints."""
    common = el.gcd.public(input, other)
    divisor = where(eq(common, 0), 1, common).to(common.dtype)  # never 0: no check is needed
    wide = dt.int32 if common.itemsize < 4 else common.dtype  # the sign goes before the high bits
    part = apply(el.floor_divide, (input.to(common.dtype), divisor)).to(wide)
    return abs(part * other.to(wide)).to(common.dtype)


def float_power(input: Any, exponent: Any) -> Tensor:
    """input ** exponent in float64 (complex128 for complex), so on the CPU; either is a tensor."""
    kind = promotion.result_type(input, exponent)
    wide = dt.complex128 if kind.category == dt.COMPLEX else dt.float64
    a, b = (x.to(wide) if isinstance(x, Tensor) else x for x in (input, exponent))
    return el.pow(a, b)


# --- questions


def is_floating_point(input: Tensor) -> bool:
    """Whether the dtype is a float."""
    return input.is_floating_point()


def is_complex(input: Tensor) -> bool:
    """Whether the dtype is complex."""
    return input.is_complex()


def is_signed(input: Tensor) -> bool:
    """Whether the dtype has negative numbers."""
    return input.dtype.is_signed


def is_nonzero(input: Tensor) -> bool:
    """Whether the one element is not 0: reads it. RuntimeError for none, or several."""
    if input.numel() != 1:
        raise RuntimeError(
            f"Boolean value of Tensor with {input.numel() or 'no'} values is ambiguous; "
            "use .any() or .all()"
        )
    return bool(input.item())


def is_same_size(input: Tensor, other: Tensor) -> bool:
    """Whether both have one shape."""
    return input.shape == other.shape


public(
    globals(), both="""frexp fmax fmin isposinf isneginf isreal angle isclose allclose equal
    is_signed is_nonzero is_same_size hardshrink prelu""", inplace="heaviside float_power",
    inplace_functions="deg2rad rad2deg frac round ldexp nan_to_num lcm",
    functions="rsub is_floating_point is_complex",
    out_exact="frac frexp heaviside isneginf isposinf nan_to_num round", lower="prelu",
)  # fmt: skip
