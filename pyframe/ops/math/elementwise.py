"""Elementwise ops: one line each, with NumPy, the meaning and the gradient side by side."""

from __future__ import annotations

import builtins
import math
import numbers
from collections.abc import Callable
from typing import Any, overload

import numpy as np

from pyframe.codegen.numpy import elementwise as lowering
from pyframe.core import dispatch as _dispatch, dtypes as dt
from pyframe.core.dispatch import apply, install_callbacks, is_materialized
from pyframe.core.modes import mode
from pyframe.core.op import ELEMENTWISE, Op, const, no_flops
from pyframe.graph import complexes, functions as f, mathematics as m, scalar as s
from pyframe.ops.api import check
from pyframe.ops.api.public import public
from pyframe.ops.math import mathfn
from pyframe.ops.math.promotion import (
    ALL,
    BITS,
    COUNT,
    FLOAT,
    NONE,
    NUMBER,
    SAME,
    SECOND,
    TO_BOOL,
    Elementwise,
    device_of,
    op,
    operand_as,
    own_type,
    result_type,
)
from pyframe.tensor import Tensor
from pyframe.tensor.memory_format import order_of, preserve_format


def _no_zero(op: Elementwise, a: Any, b: Any) -> None:
    """RuntimeError where an int is divided by 0; on the GPU by a tensor's when it is next read."""
    message = f"{op.name}: ZeroDivisionError: integer division by zero"
    if not isinstance(b, Tensor):
        if b == 0:
            raise RuntimeError(message)
    elif not is_materialized(b):  # else NumPy looks
        check.assert_not(eq(b, 0), message)


def _no_negative_power(op: Elementwise, a: Any, b: Any) -> None:
    """RuntimeError of an int to a negative power."""
    if not isinstance(b, Tensor) and b < 0:
        raise RuntimeError(
            "pow: Integers to negative integer powers are not allowed; use .float() first"
        )


def _no_wrapping(op: Elementwise, *operands: Any) -> None:
    """RuntimeError of a number that the ints' dtype does not hold."""
    operands = operands[op.promoted_from :]
    dtype = result_type(*operands)
    for x in operands:
        if type(x) is int:
            dt.convert_scalar(x, dtype)


def _zeros(g: Tensor) -> Tensor:
    """The gradient of steps: 0, where what comes back is infinite or NaN too."""
    return g.new_zeros(g.shape)


# --- the complex conjugate, which gradients multiply with (see complex.py)

conj_op = Op(
    "conj", ELEMENTWISE, "x", infer=lambda x: (x.shape, x.dtype), numpy=np.conjugate,
    scalar=complexes.conj, x=lambda g: conj(g),
)  # fmt: skip


@overload
def conj(input: Tensor) -> Tensor: ...
@overload
def conj(input: complex) -> complex: ...
def conj(input: Any) -> Any:
    """The complex conjugate, computed at once; a real tensor itself."""
    if isinstance(input, Tensor):
        return apply(conj_op, (input,)) if input.dtype.category == dt.COMPLEX else input
    if not isinstance(input, numbers.Number):
        check.tensors("conj", input)
    return input.conjugate()


# --- arithmetic

add = op("add", "a b", np.add, lambda a, b: a + b, numbers=ALL, a=lambda g: g, b=lambda g: g)
sub = op(
    "sub", "a b", np.subtract, lambda a, b: a - b, NUMBER, numbers=ALL, refuses_bool=RuntimeError,
    no_bool="sub: the `-` operator, with a bool tensor is not supported; use ~ or logical_not to "
    "invert a mask, ^ for the difference of two",
    a=lambda g: g, b=lambda g: -g,
)  # fmt: skip
mul = op(
    "mul", "a b", np.multiply, lambda a, b: a * b, numbers=ALL,
    a=lambda g, b: g * conj(b), b=lambda g, a: g * conj(a),
)  # fmt: skip
true_divide = op(
    "div", "a b", np.true_divide, lambda a, b: a / b, FLOAT, numbers=ALL,
    a=lambda g, b: g / conj(b), b=lambda g, a, b: -g * conj(a / b) / conj(b),
)  # fmt: skip
floor_divide = op(
    "floor_divide", "a b", mathfn.floor_divide, f.floor_divide, NUMBER, numbers=ALL,
    real=True, of_ints=_no_zero, a=_zeros, b=_zeros,
)  # fmt: skip
remainder = op(
    "remainder", "a b", mathfn.remainder, f.remainder, NUMBER, real=True,
    of_ints=_no_zero, a=lambda g: g, b=lambda g, a, b: -g * floor_divide(a, b),
)  # fmt: skip
fmod = op(
    "fmod", "a b", mathfn.fmod, f.fmod, NUMBER, real=True, of_ints=_no_zero,
    numbers=SECOND, a=lambda g: g, b=lambda g, a, b: -g * trunc(a / b),
)  # fmt: skip
# A float to the power of these numbers, as PyTorch takes them: a kernel that reads its numbers from
# memory could not tell them from others.
_POWERS: dict[float, Elementwise] = {
    2: op("pow:2", "x", np.square, lambda x: x * x, FLOAT, x=lambda g, x: g * (x * 2.0)),
    3: op(
        "pow:3", "x", lambda x: x * x * x, lambda x: x * x * x, FLOAT, lower=lowering.cube,
        x=lambda g, x: g * (x * x * 3.0),
    ),
    0.5: op("pow:0.5", "x", np.sqrt, s.sqrt, FLOAT, x=lambda g, y: g / (y * 2.0)),
    -0.5: op(
        "pow:-0.5", "x", lambda x: 1 / np.sqrt(x), f.rsqrt, FLOAT, lower=lowering.rsqrt,
        x=lambda g, x, y: g * (y / x * -0.5),
    ),
    -1: op("pow:-1", "x", np.reciprocal, lambda x: 1.0 / x, FLOAT, x=lambda g, y: -g * (y * y)),
}  # fmt: skip


class _Power(Elementwise):
    def __call__(self, *operands: Any, **named: Any) -> Tensor:
        if len(operands) == 2 and type(operands[1]) in (int, float) and mode.autocast is None:
            x, known = operands[0], _POWERS.get(operands[1])
            if known and isinstance(x, Tensor) and x.dtype.category == dt.FLOAT:
                return apply(known, (x,))
        return super().__call__(*operands, **named)


pow = _Power(
    "pow", "a b", mathfn.power, f.power, SAME, lower=lowering.power,
    names="input exponent", of_ints=_no_negative_power,
    a=lambda g, a, b: _pow_base_grad(g, a, b), b=lambda g, y, a: _pow_exponent_grad(g, y, a),
)  # fmt: skip


def _pow_base_grad(g: Tensor, a: Tensor, b: Any) -> Tensor:
    slope = g * conj(b) * conj(pow(a, b - 1))
    if isinstance(b, Tensor):
        return where(eq(b, 0), 0.0, slope)
    return slope if b != 0 else _zeros(g)


def _pow_exponent_grad(g: Tensor, y: Tensor, a: Any) -> Tensor:
    if isinstance(a, Tensor):
        return where(logical_and(eq(a, 0), ne(y, math.inf)), 0.0, g * conj(y) * conj(log(a)))
    with np.errstate(all="ignore"):
        slope = np.log(a).conjugate().item()
    return g * conj(y) * slope if a != 0 else where(ne(y, math.inf), 0.0, g * slope)


neg = op(
    "neg", "x", np.negative, lambda x: -x, NUMBER,
    refuses_bool=RuntimeError, x=lambda g: -g,
)  # fmt: skip
abs = op(
    "abs", "x", np.abs, s.abs, NUMBER, infer=lambda x: (x.shape, x.dtype.to_real()),
    x=lambda g, x: g * sgn(x),
)  # fmt: skip
sign = op("sign", "x", mathfn.sign, f.sign, real=True, x=_zeros)
square = op("square", "x", np.square, lambda x: x * x, COUNT, x=lambda g, x: 2.0 * g * conj(x))
reciprocal = op(
    "reciprocal", "x", np.reciprocal, lambda x: 1.0 / x, FLOAT,
    x=lambda g, y: -g * conj(y) * conj(y),
)  # fmt: skip
maximum = op(
    "maximum", "a b", lowering.at_least, s.maximum, numbers=NONE, real=True,
    lower=lowering.as_one(lowering.at_least),
    a=lambda g, a, b: _won(g, a, b, lt), b=lambda g, a, b: _won(g, a, b, gt),
)  # fmt: skip
minimum = op(
    "minimum", "a b", lowering.at_most, s.minimum, numbers=NONE, real=True,
    lower=lowering.as_one(lowering.at_most),
    a=lambda g, a, b: _won(g, a, b, gt), b=lambda g, a, b: _won(g, a, b, lt),
)  # fmt: skip
clamp_min = op(  # as maximum, but at a tie all of the gradient is the input's
    "clamp_min", "a b", lowering.at_least, s.maximum, numbers=SECOND, real=True,
    lower=lowering.as_one(lowering.at_least), of_ints=_no_wrapping,
    names="input min", a=lambda g, a, b: where(ge(a, b), g, 0.0),
    b=lambda g, a, b: where(lt(a, b), g, 0.0),
)  # fmt: skip
clamp_max = op(
    "clamp_max", "a b", lowering.at_most, s.minimum, numbers=SECOND, real=True,
    lower=lowering.as_one(lowering.at_most), of_ints=_no_wrapping,
    names="input max", a=lambda g, a, b: where(le(a, b), g, 0.0),
    b=lambda g, a, b: where(gt(a, b), g, 0.0),
)  # fmt: skip


def _won(g: Tensor, a: Any, b: Any, loses: Any) -> Tensor:
    """0 where a loses to b, also of an infinite g; g / 2 at a tie (PyTorch's subgradient)."""
    return where(loses(a, b), 0.0, where(eq(a, b), g * 0.5, g))


def sgn(input: Tensor) -> Tensor:
    """x / |x|, 0 for 0: the sign of a real number, the direction of a complex one."""
    if input.dtype.category != dt.COMPLEX:
        return sign(input)
    size = abs(input)
    zero = eq(size, 0)
    return where(zero, 0.0, input / where(zero, 1.0, size))


# --- powers, exponentials, trigonometry

sqrt = op("sqrt", "x", np.sqrt, s.sqrt, FLOAT, x=lambda g, y: g / (2.0 * conj(y)))
rsqrt = op(
    "rsqrt", "x", lambda x: 1 / np.sqrt(x), f.rsqrt, FLOAT, lower=lowering.rsqrt,
    x=lambda g, y: -0.5 * g * conj(y) * conj(y) * conj(y),
)  # fmt: skip
exp = op("exp", "x", np.exp, m.exp, FLOAT, x=lambda g, y: g * conj(y))
exp2 = op("exp2", "x", np.exp2, m.exp2, FLOAT, x=lambda g, y: g * conj(y) * math.log(2))
expm1 = op(  # of y + 1 nothing is left where x is far below 0
    "expm1", "x", np.expm1, m.expm1, FLOAT, x=lambda g, x: g * conj(exp(x))
)
log = op("log", "x", np.log, m.log, FLOAT, x=lambda g, x: g / conj(x))
log2 = op("log2", "x", np.log2, m.log2, FLOAT, x=lambda g, x: g / (conj(x) * math.log(2)))
log10 = op("log10", "x", mathfn.log10, m.log10, FLOAT, x=lambda g, x: g / (conj(x) * math.log(10)))
log1p = op("log1p", "x", np.log1p, m.log1p, FLOAT, x=lambda g, x: g / (conj(x) + 1.0))
sin = op("sin", "x", np.sin, m.sin, FLOAT, x=lambda g, x: g * conj(cos(x)))
cos = op("cos", "x", np.cos, m.cos, FLOAT, x=lambda g, x: -g * conj(sin(x)))
tan = op("tan", "x", np.tan, m.tan, FLOAT, x=lambda g, y: g * conj(y * y + 1.0))
asin = op("asin", "x", np.arcsin, m.asin, FLOAT, x=lambda g, x: g * conj(rsqrt(1.0 - x * x)))
acos = op("acos", "x", np.arccos, m.acos, FLOAT, x=lambda g, x: -g * conj(rsqrt(1.0 - x * x)))
atan = op("atan", "x", np.arctan, m.atan, FLOAT, x=lambda g, x: g / conj(x * x + 1.0))
sinh = op("sinh", "x", np.sinh, m.sinh, FLOAT, x=lambda g, x: g * conj(cosh(x)))
cosh = op("cosh", "x", np.cosh, m.cosh, FLOAT, x=lambda g, x: g * conj(sinh(x)))
tanh = op("tanh", "x", np.tanh, m.tanh, FLOAT, x=lambda g, y: g * conj(1.0 - y * y))
asinh = op("asinh", "x", np.arcsinh, m.asinh, FLOAT, x=lambda g, x: g * conj(rsqrt(x * x + 1.0)))
acosh = op(
    "acosh", "x", np.arccosh, m.acosh, FLOAT,
    x=lambda g, x: g * conj(rsqrt(x - 1.0) * rsqrt(x + 1.0)),
)  # fmt: skip
atanh = op("atanh", "x", np.arctanh, m.atanh, FLOAT, x=lambda g, x: g / conj(1.0 - x * x))
atan2 = op(
    "atan2", "a b", np.arctan2, m.atan2, FLOAT, numbers=NONE, real=True,
    a=lambda g, a, b: g * _over_square(b, a), b=lambda g, a, b: g * -_over_square(a, b),
)  # fmt: skip
hypot = op(
    "hypot", "a b", np.hypot, m.hypot, numbers=NONE, real=True,
    a=lambda g, y, a: g * (a / y), b=lambda g, y, b: g * (b / y),
)  # fmt: skip
sigmoid = op(
    "sigmoid", "x", mathfn.sigmoid, lambda x: 1.0 / (1.0 + m.exp(-x)), FLOAT,
    lower=lowering.sigmoid, x=lambda g, y: g * conj(y) * conj(1.0 - y),
)  # fmt: skip
erf = op(
    "erf", "x", mathfn.erf, m.erf, FLOAT, lower=lowering.erf, real=True,
    x=lambda g, x: g * (2.0 / math.sqrt(math.pi)) * exp(-x * x),
)  # fmt: skip


def _over_square(a: Tensor, b: Tensor) -> Tensor:
    """a / (a^2 + b^2), 0 where both are 0."""
    size = a * a + b * b
    return a / where(eq(size, 0), 1.0, size)


# --- rounding and the parts of a number


def _rounding(name: str, numpy: np.ufunc, scalar: Any) -> Elementwise:
    """A whole number near each one; ints stay as they are."""
    return op(
        name, "x", mathfn.keep_int(numpy), scalar, NUMBER, real=True,
        lower=lowering.of_floats(numpy), x=_zeros,
    )  # fmt: skip


floor = _rounding("floor", np.floor, s.floor)
ceil = _rounding("ceil", np.ceil, s.ceil)
trunc = _rounding("trunc", np.trunc, s.trunc)
round_ = _rounding("round", np.rint, s.round)
signbit = op("signbit", "x", mathfn.signbit, f.signbit, TO_BOOL, real=True)
nextafter = op(
    "nextafter", "a b", np.nextafter, f.nextafter, numbers=NONE, real=True,
    a=lambda g, a, b: where(ne(a, b), g, 0.0), b=_zeros,
)  # fmt: skip
copysign = op(
    "copysign", "a b", np.copysign, f.copysign, FLOAT, numbers=SECOND, real=True,
    a=lambda g, y, a: g * (sign(a) * sign(y)), b=_zeros,
)  # fmt: skip
exponent_of = op(  # e of x = m * 2^e, 0.5 <= |m| < 1
    "exponent_of", "x", lambda x: np.frexp(x)[1], f.exponent, real=True,
    infer=lambda x: (x.shape, dt.int32),
)  # fmt: skip

# --- activations that a composition would make slower

relu = op("relu", "x", lambda x: lowering.at_least(x, x.dtype.type(0)),
          lambda x: s.maximum(x, 0), NUMBER, lower=lowering.relu,
          real=True, refuses_bool=RuntimeError, x=lambda g, y: where(ne(y, 0), g, 0.0))  # fmt: skip

# --- comparison and logic


def _comparison(name: str, numpy: Any, scalar: Any, **kw: Any) -> Elementwise:
    """Two numbers compared."""
    return op(name, "a b", numpy, scalar, TO_BOOL, numbers=SECOND, **kw)


eq = _comparison("eq", np.equal, s.eq)
ne = _comparison("ne", np.not_equal, s.ne)
lt = _comparison("lt", np.less, lambda a, b: a < b, real=True)
le = _comparison("le", np.less_equal, lambda a, b: a <= b, real=True)
gt = _comparison("gt", np.greater, lambda a, b: a > b, real=True)
ge = _comparison("ge", np.greater_equal, lambda a, b: a >= b, real=True)
isnan = op("isnan", "x", mathfn.isnan, f.isnan, TO_BOOL, lower=lowering.of_floats(np.isnan))
isinf = op("isinf", "x", mathfn.isinf, f.isinf, TO_BOOL, lower=lowering.of_floats(np.isinf))
logical_and = op(
    "logical_and", "a b", np.logical_and, lambda a, b: s.cast(a, "bool") & s.cast(b, "bool"),
    TO_BOOL, numbers=NONE,
)  # fmt: skip
logical_or = op(
    "logical_or", "a b", np.logical_or, lambda a, b: s.cast(a, "bool") | s.cast(b, "bool"),
    TO_BOOL, numbers=NONE,
)  # fmt: skip
logical_not = op("logical_not", "x", np.logical_not, lambda x: ~s.cast(x, "bool"), TO_BOOL)
bitwise_and = op("bitwise_and", "a b", np.bitwise_and, lambda a, b: a & b, BITS)
bitwise_or = op("bitwise_or", "a b", np.bitwise_or, lambda a, b: a | b, BITS)
bitwise_xor = op("bitwise_xor", "a b", np.bitwise_xor, lambda a, b: a ^ b, BITS)
bitwise_not = op("bitwise_not", "x", np.invert, lambda x: ~x, BITS)
bitwise_left_shift = op("bitwise_left_shift", "a b", mathfn.left_shift, f.shift_left, BITS)
bitwise_right_shift = op("bitwise_right_shift", "a b", mathfn.right_shift, f.shift_right, BITS)
gcd = op("gcd", "a b", np.gcd, f.gcd, BITS, numbers=NONE)
where3 = op(
    "where", "condition a b", mathfn.where, s.select, promoted_from=1, lower=lowering.where,
    of_ints=_no_wrapping,
    a=lambda g, condition: where(condition, g, 0.0),
    b=lambda g, condition: where(condition, 0.0, g),
)  # fmt: skip
limit = op(  # a gradient goes to what was returned; at a tie to the input
    "clamp", "x low high", np.clip, f.clamp, real=True, names="input min max",
    lower=lowering.as_one(np.clip), of_ints=_no_wrapping,
    x=lambda g, x, low, high: where(logical_and(ge(x, low), le(x, high)), g, 0.0),
    low=lambda g, x, low, high: where(logical_and(lt(x, low), lt(low, high)), g, 0.0),
    high=lambda g, x, low, high: where(logical_or(gt(x, high), lt(high, low)), g, 0.0),
)  # fmt: skip
hardtanh = op(  # as clamp, but with no gradient at the ends themselves
    "hardtanh", "x low high", np.clip, f.clamp, real=True,
    lower=lowering.as_one(np.clip), of_ints=_no_wrapping,
    x=lambda g, x, low, high: where(logical_or(le(x, low), ge(x, high)), 0.0, g),
)  # fmt: skip
over_six = op(  # PyTorch's slope of hardsigmoid: a sixth in float32, whatever the dtype
    "over_six", "x", lambda x: x / 6.0, lambda x: x / 6.0, FLOAT, real=True,
    x=lambda g: g * float(np.float32(1 / 6)),
)  # fmt: skip


@overload
def where(condition: Tensor) -> tuple[Tensor, ...]: ...
@overload
def where(condition: Tensor, input: Any, other: Any) -> Tensor: ...
def where(condition: Any, input: Any = None, other: Any = None) -> Any:
    """`input` where `condition` (bool) holds, else `other`, broadcast; torch.where."""
    if not isinstance(condition, Tensor):
        raise TypeError(f"where(): condition must be a Tensor, got {type(condition).__name__}")
    if input is None and other is None:
        return condition.nonzero(as_tuple=True)
    if condition.dtype is dt.uint8:
        condition = cast(condition, dt.bool_)
    if condition.dtype is not dt.bool_:
        raise RuntimeError(
            f"where: expected condition to be a bool tensor, but got {condition.dtype.name}; "
            "compare first, such as with x != 0"
        )
    if not isinstance(input, Tensor) and not isinstance(other, Tensor):
        common = result_type(input, other)
        input = const(input, common, condition.device)
        other = const(other, common, condition.device)
        return apply(where3, (condition, input, other))
    return where3(condition, input, other)


def where_method(self: Tensor, condition: Tensor, other: Any) -> Tensor:
    """This tensor's elements where `condition` holds, else those of `other`."""
    return where(condition, self, other)


# --- dtype


def np_cast(x: np.ndarray, dtype: dt.dtype) -> np.ndarray:
    """A host array as `dtype`: floats wrap to ints, complex numbers lose their imaginary part."""
    if x.dtype.kind == "c" and dtype.category != dt.COMPLEX:
        x = x != 0 if dtype is dt.bool_ else x.real
    if dtype.category == dt.INTEGER and x.dtype.kind == "f":
        if dt.SATURATES:
            x = np.where(np.ldexp(x, -63) < 1, x, -np.inf)  # what has no int64 is the least one
        return x.astype(np.int64).astype(dtype.numpy)  # wraps, as C does in PyTorch
    return x.astype(dtype.numpy if dtype.narrow is None else np.float32)  # `computed` narrows it


class _Cast(Elementwise):
    def __call__(self, x: Tensor, dtype: dt.dtype) -> Tensor:
        return apply(self, (x,), (dtype,))


cast_op = _Cast(
    "cast", "x", np_cast, lambda x, out: s.cast(x, out), SAME, attrs="dtype",
    lower=lowering.cast, flops=no_flops,
    x=lambda g, x_spec: g.to(x_spec.dtype),
)  # fmt: skip
cast_op.infer = lambda x, dtype: (x.shape, dtype)


def cast(x: Tensor, dtype: dt.dtype) -> Tensor:
    """`x` converted to `dtype` (a new tensor)."""
    return cast_op(x, dtype)


install_callbacks(CAST=cast)

copy = op(
    "copy", "x", lambda x: np.array(x, order="C"), lambda x: x, lower=lowering.copy,
    flops=no_flops, x=lambda g: g, preserves_order=False,
)  # fmt: skip


def clone(input: Tensor, *, memory_format: Any = None) -> Tensor:
    """A copy with its own memory, in which the dims keep their order; gradients flow through."""
    return ordered(input, memory_format, "clone")


def ordered(x: Tensor, format: Any, name: str) -> Tensor:
    """`x` copied into the memory order of `format`."""
    return _dispatch.copy_to_order(order_for(x, format, name), x)


def order_for(x: Tensor, format: Any, name: str) -> tuple[int, ...] | None:
    """The order of the dims in memory of what is made like `x` in `format`; None for row-major."""
    if format in (None, preserve_format):
        return _dispatch.order_of(x)
    order = order_of(format)
    if order and x.ndim != len(order):
        raise RuntimeError(
            f"{name}: required rank {len(order)} tensor to use {format._name} format, got "
            f"{x.ndim} dims"
        )
    return order or None


# --- generators of values from the element's index


def _index_op(name: str, inputs: str, attrs: str, numpy: Any, scalar: Any, dtype: dt.dtype) -> Op:
    out = Elementwise(name, inputs, numpy, scalar, SAME, attrs=attrs, uses_index=True)
    out.infer = lambda *args: (args[-1], dtype)
    return out


iota_op = _index_op(
    "iota", "x", "shape",
    lambda x, shape: np.arange(math.prod(shape), dtype=np.int32).reshape(shape),
    lambda x, i, out: s.cast(i, out), dt.int32,
)  # fmt: skip
random_bits_op = _index_op(
    "random_bits", "k0 k1 draw", "shape", mathfn.philox_bits,
    lambda k0, k1, draw, i: f.philox(k0, k1, draw, i), dt.uint32,
)  # fmt: skip
uniform_from_bits = op(
    "uniform_from_bits", "bits", lambda b: (b >> 8).astype(np.float32) * np.float32(2**-24),
    lambda bits: s.cast(bits >> 8, "f32") * 2.0**-24, infer=lambda x: (x.shape, dt.float32),
)  # fmt: skip
normal_from_bits = op(
    "normal_from_bits", "bits", mathfn.normal_from_bits, f.normal,
    infer=lambda x: (x.shape, dt.float32),
)  # fmt: skip
# bfloat16 as it lies in 16 bits of memory, for what computes with 32 of them
bfloat16_from_bits = op(
    "bfloat16_from_bits", "bits", lambda b: dt.from_storage(b, dt.bfloat16),
    lambda bits: s.bitcast(s.cast(bits, "u32") << 16, "f32"),
    infer=lambda x: (x.shape, dt.bfloat16),
)  # fmt: skip
bits_from_bfloat16 = op(
    "bits_from_bfloat16", "x", lambda x: dt.to_storage(x, dt.bfloat16),
    lambda x, out: s.cast((s.bitcast(x, "u32") >> 16) | (s.cast(f.isnan(x), "u32") << 6), out),
    infer=lambda x: (x.shape, dt.uint16),
)  # fmt: skip


def iota(shape: tuple[int, ...], device: Any) -> Tensor:
    """int32 flat indices of `shape`, on `device`."""
    return apply(iota_op, (const(0, dt.int32, device),), (shape,))


def dim_indices(n: int, after: int, device: Any) -> Tensor:
    """int32 0 to n - 1 along a dim that `after` others follow: (n, 1, …)."""
    return iota((n,) + (1,) * after, device)


# --- helpers of functions that compose


def floated(x: Tensor) -> Tensor:
    """A tensor of ints or bools in the default float dtype, any other as it is."""
    return cast(x, dt.get_default_dtype()) if x.dtype.category < dt.FLOAT else x


def as_float(name: str, x: Any) -> Tensor:
    """`floated`; TypeError unless `x` is a tensor, RuntimeError if it is complex."""
    check.real(name, x)
    return floated(x)


def as_floats(name: str, *xs: Any) -> list[Tensor]:
    """Tensors and numbers as tensors (or numbers) of their common real float dtype and device."""
    if not any(isinstance(x, Tensor) for x in xs):
        raise TypeError(f"{name}(): expected a Tensor; make one with pf.tensor")
    common = result_type(*xs)
    if common.category == dt.COMPLEX:
        raise RuntimeError(f"{name}: not implemented for {common.name}")
    if common.category < dt.FLOAT:
        common = dt.get_default_dtype()
    device = device_of(name, xs)
    return [operand_as(name, x, common, device) for x in xs]


def new_like(x: Tensor, value: Any) -> Tensor:
    """A number as a 0-d tensor beside `x`, of the dtype of an operation on both."""
    return _dispatch.tensor_from_node(const(value, result_type(x, value), x.device))


# --- PyTorch's names with options


def div(input: Any, other: Any, *, rounding_mode: str | None = None) -> Tensor:
    """input / other, rounded as `rounding_mode` says: None, 'floor' or 'trunc'."""
    if rounding_mode is None:
        return true_divide(input, other)
    if rounding_mode == "floor":
        return floor_divide(input, other)
    if rounding_mode == "trunc":
        out_type = result_type(input, other)
        if out_type.category == dt.FLOAT:
            return trunc(true_divide(input, other))
        if not isinstance(input, Tensor) and not isinstance(other, Tensor):
            input = add(input, 0)
        rest = fmod(input, other)
        return floor_divide(sub(input, rest), other)
    raise RuntimeError(
        "div expected rounding_mode to be one of None, 'trunc', or 'floor' but found "
        f"{rounding_mode!r}"
    )


def check_factor(name: str, what: str, factor: Any, *tensors: Any) -> None:
    """RuntimeError where a factor is of a higher kind than what it multiplies."""
    kind = max((own_type(x).category for x in tensors), default=dt.FLOAT)
    own = own_type(factor).category
    if own == dt.BOOL:
        if kind != dt.BOOL:
            raise RuntimeError(f"{name}: Boolean {what} only supported for Boolean results.")
    elif own == dt.FLOAT and kind < dt.FLOAT:
        raise RuntimeError(
            f"{name}: For integral input tensors, argument {what} must not be a floating point "
            "number."
        )
    elif own == dt.COMPLEX and kind < dt.COMPLEX:
        raise RuntimeError(
            f"{name}: For non-complex input tensors, argument {what} must not be a complex number."
        )


def fitted(value: Any, dtype: dt.dtype) -> Any:
    """A number as a tensor of `dtype` takes it, cut to an int or a bool. RuntimeError beyond that.
    One of the same kind that changes from call to call stays that, and so does a 0-d tensor."""
    if isinstance(value, Tensor):
        if value.ndim:
            raise TypeError("a factor must be a number or a 0-d tensor")
        if value.is_complex() and dtype.category < dt.COMPLEX:
            raise RuntimeError(f"a complex factor cannot be converted to {dtype.name}")
        return value.detach().to(dtype)
    if type(value) is int and dtype.category == dt.INTEGER:
        return dt.convert_scalar(value, dtype).item()
    if dt.of_scalar(value).category > dtype.category:
        return dt.convert_scalar(value, dtype).item()
    return value


def is_one(factor: Any) -> bool:
    """Whether a factor changes nothing; a tensor's value is not looked at."""
    return not isinstance(factor, Tensor) and bool(factor == 1)


def scaled(fn: Elementwise) -> Callable[..., Tensor]:
    """The function fn(input, alpha * other) of `add` and `sub`."""

    def run(input: Any, other: Any, *, alpha: Any = 1) -> Tensor:
        if type(alpha) is int and alpha == 1:
            return fn(input, other)
        check_factor(fn.name, "alpha", alpha, input, other)
        dtype = result_type(input, other)
        if fn.no_bool and any(own_type(x) is dt.bool_ for x in (input, other)):
            raise RuntimeError(fn.no_bool)
        if dtype is dt.bool_:
            return fn(input, other & bool(alpha))
        alpha = fitted(alpha, dtype)
        if isinstance(other, Tensor) and isinstance(input, Tensor):  # the result may be wider
            other = other.to(dtype)
        return fn(input, other * alpha)

    run.__name__ = fn.name
    return run


add_scaled, sub_scaled = scaled(add), scaled(sub)


def clamp(input: Tensor, min: Any = None, max: Any = None) -> Tensor:
    """`input` limited to [min, max]; each a number, a tensor or None (not both). NaN stays.

    RuntimeError of a number that the ints' dtype does not hold.
    """
    if min is None and max is None:
        raise RuntimeError("clamp: At least one of 'min' or 'max' must not be None")
    if isinstance(max, Tensor) and not isinstance(min, Tensor | None):
        raise TypeError("clamp: min and max must both be numbers or both be tensors")
    if min is None or max is None:
        return clamp_max(input, max) if min is None else clamp_min(input, min)
    return limit(input, min, max)


def addcmul(input: Tensor, tensor1: Tensor, tensor2: Tensor, *, value: Any = 1) -> Tensor:
    """input + value * tensor1 * tensor2; for ints `value` is cut to an int."""
    dtype = result_type(input, tensor1, tensor2)
    if dtype is dt.bool_:
        raise NotImplementedError("addcmul: not implemented for bool; use & and | instead")
    value = fitted(value, dtype)
    product = tensor1 * tensor2
    return input + (product if is_one(value) else product.to(dtype) * value)


def addcdiv(input: Tensor, tensor1: Tensor, tensor2: Tensor, *, value: Any = 1) -> Tensor:
    """input + value * tensor1 / tensor2. RuntimeError for two ints."""
    if tensor1.dtype.category < dt.FLOAT and tensor2.dtype.category < dt.FLOAT:
        raise RuntimeError(
            "addcdiv: Integer division with addcdiv is no longer supported; use "
            "input + value * pf.trunc(tensor1 / tensor2), or true division with .float()"
        )
    return input + (tensor1 if is_one(value) else tensor1 * value) / tensor2


def lerp(input: Tensor, end: Tensor, weight: Any) -> Tensor:
    """input + weight * (end - input), of one dtype; `weight` is a number or a tensor. At a weight
    of 1 it is exactly `end`."""
    for name, x in (("end", end), ("weight", weight)):
        if isinstance(x, Tensor) and x.dtype is not input.dtype:
            raise RuntimeError(
                f"lerp: expected dtype {input.dtype.name} for `{name}` but got dtype {x.dtype.name}"
            )
    check.floats_or_complex("lerp", input)
    apart, many = end - input, isinstance(weight, Tensor)
    near: Any = lt(abs(weight), 0.5) if many else bool(builtins.abs(weight) < 0.5)
    if near is True:
        return input + apart * weight
    far = end - apart * (1 - weight)
    return where(near, input + apart * weight, far) if many else far


def silu(input: Tensor) -> Tensor:
    """x * sigmoid(x)."""
    return input * sigmoid(input)


def gelu(input: Tensor, approximate: str = "none") -> Tensor:
    """x * Phi(x) (https://arxiv.org/abs/1606.08415); approximate='tanh' for its approximation."""
    if approximate == "none":
        return input * (erf(input * math.sqrt(0.5)) + 1.0) * 0.5
    if approximate != "tanh":
        raise RuntimeError(f"gelu: approximate must be 'none' or 'tanh', got {approximate!r}")
    inner = (input + input * input * input * 0.044715) * math.sqrt(2 / math.pi)
    return input * (tanh(inner) + 1.0) * 0.5


def isfinite(input: Tensor) -> Tensor:
    """Whether each element is neither infinite nor NaN."""
    return logical_not(logical_or(isnan(input), isinf(input)))


def logical_xor(input: Tensor, other: Tensor) -> Tensor:
    """Whether exactly one of both is nonzero."""
    return ne(ne(input, 0), ne(other, 0))


def softplus(input: Tensor) -> Tensor:
    """log(1 + exp(x)), without overflow."""
    return maximum(input, 0.0) + log1p(exp(-abs(input)))


public(
    globals(), both="maximum minimum signbit isnan isinf isfinite clone gelu",
    inplace="""add=add_scaled sub=sub_scaled mul div subtract=sub_scaled multiply=mul divide=div
    true_divide floor_divide remainder fmod pow absolute=abs sign sgn atan2 arctan2=atan2 hypot
    copysign nextafter addcmul addcdiv lerp eq ne lt le gt ge greater=gt less=lt greater_equal=ge
    less_equal=le not_equal=ne logical_and logical_or logical_not logical_xor bitwise_and
    bitwise_or bitwise_xor bitwise_not bitwise_left_shift bitwise_right_shift""",
    inplace_functions="""neg negative=neg abs square reciprocal clamp_min clamp_max sqrt rsqrt
    exp exp2 expm1 log log2 log10 log1p sin cos tan asin acos atan sinh cosh tanh asinh acosh
    atanh arcsin=asin arccos=acos arctan=atan arcsinh=asinh arccosh=acosh arctanh=atanh sigmoid
    erf floor ceil trunc fix=trunc relu clamp clip=clamp gcd""", methods="where=where_method",
    functions="where", out_exact="abs ceil floor lerp neg sgn sign signbit trunc where",
    gpu_float32="""acos asin cosh exp expm1 log log10 log1p log2 pow reciprocal rsqrt sinh tan""",
    gpu_widest="addcdiv addcmul",
)  # fmt: skip
