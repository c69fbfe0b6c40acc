"""Elementwise ops: one line each, with NumPy, WGSL and the gradient side by side."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from typing import Any

import numpy as np

from pyframe import dtypes as dt
from pyframe.devices import get_default_device, mode
from pyframe.ops import bound, mathfn, op as _op
from pyframe.ops.op import ELEMENTWISE, Op, apply, const, const_for_ufunc, record
from pyframe.ops.public import public
from pyframe.tensor import Tensor

# What an op does to the promoted dtype of its operands
SAME, FLOAT, TO_BOOL, BITS, NUMBER = "same", "float", "to_bool", "bits", "number"


class Elementwise(Op):
    """An op on each element: operands are promoted to one dtype and broadcast to one shape."""

    def __init__(self, name: str, inputs: str, numpy: Any, wgsl: Any, rule: str, **kw: Any) -> None:
        self.rule = rule
        self.promoted_from = kw.pop("promoted_from", 0)
        self.uses_index = kw.pop("uses_index", False)  # {i} is the element's flat index
        self.takes_bool = kw.pop("takes_bool", False)  # WGSL has it for bool as it is written
        self.plain = frozenset(d for d in dt.ALL if _is_plain(d, rule))  # operands stay as they are
        super().__init__(
            name, ELEMENTWISE, inputs, kw.pop("attrs", ""), infer=self._infer, numpy=numpy,
            wgsl=wgsl, **kw,
        )  # fmt: skip

    def _infer(self, *nodes: Any) -> tuple[tuple[int, ...], dt.dtype]:
        shape = nodes[0].shape
        for n in nodes:
            if n.shape != shape:
                shape = broadcast(self.name, *[n.shape for n in nodes])
                break
        return shape, dt.bool_ if self.rule is TO_BOOL else nodes[-1].dtype

    def __call__(self, *operands: Any) -> Tensor:
        if len(operands) == 2 == len(self.inputs):
            return binary(self, *operands)
        if len(operands) == 1 == len(self.inputs):
            x = operands[0]
            if isinstance(x, Tensor) and x._node.dtype in self.plain:
                return apply(self, operands)
        return self.promoted(*operands)

    def promoted(self, *operands: Any) -> Tensor:
        """Call it on operands that may need another dtype or device."""
        xs = list(operands)
        if len(xs) != len(self.inputs):
            raise TypeError(f"{self.name}() takes {len(self.inputs)} operands, got {len(xs)}")
        start = self.promoted_from
        common, device, same = None, None, True
        for x in xs[start:]:
            if isinstance(x, Tensor):
                n = x._node
                if common is None:
                    common, device = n.dtype, n.device
                elif n.dtype is not common or n.device is not device:
                    same = False
            else:
                same = False
        if not same or common is None:
            device = _device_of(self.name, xs)
            common = result_type(*xs[start:])
        if self.rule is FLOAT and common.category < dt.FLOAT:
            common = dt.get_default_dtype()
            same = False
        elif common.category >= dt.FLOAT:
            if self.rule is BITS:
                raise RuntimeError(
                    f"{self.name}: not implemented for {common.name}; use ints or bool"
                )
        elif self.rule is NUMBER and common is dt.bool_:
            raise RuntimeError(
                f"{self.name}: not supported for bool tensors; use ~, ^ or logical_* instead"
            )
        if not same:
            for i in range(start, len(xs)):
                xs[i] = _operand(self.name, xs[i], common, device)
        for i in range(start):
            xs[i] = _operand(self.name, xs[i], _own_type(xs[i]), device)
        return apply(self, tuple(xs))


def _is_plain(d: dt.dtype, rule: str) -> bool:
    if rule is FLOAT:
        return d.category >= dt.FLOAT
    return not ((rule is BITS and d.category >= dt.FLOAT) or (rule is NUMBER and d is dt.bool_))


def binary(op: Elementwise, a: Any, b: Any) -> Tensor:
    """op(a, b): the short way where neither operand needs another dtype or device."""
    x = a if isinstance(a, Tensor) else b
    if not isinstance(x, Tensor):
        return op.promoted(a, b)
    m = x._node
    dtype, device = m.dtype, m.device
    if dtype not in op.plain:
        return op.promoted(a, b)
    lazy = device.always_lazy or mode.capture is not None
    y = b if x is a else a
    if isinstance(y, Tensor):
        n = y._node
        if n.dtype is not dtype or n.device is not device:
            return op.promoted(a, b)
        if lazy:
            m, n = x._value(), y._value()
        shape = m.shape if m.shape == n.shape else broadcast(op.name, m.shape, n.shape)
    else:
        kind = type(y)
        if kind is int:
            fits = dtype.category != dt.BOOL
        else:
            fits = kind is float and dtype.category == dt.FLOAT
        if not fits:
            return op.promoted(a, b)
        if lazy:
            m = x._value()
        y = n = const_for_ufunc(y, dtype, device)
        shape = m.shape
        if x is b:
            a, m, n = n, n, m
        else:
            b = n
    if op.rule is TO_BOOL:
        dtype = dt.bool_
    return record(op, (a, b), (), (m, n), shape, dtype, device)


def _own_type(x: Any) -> dt.dtype:
    return x._node.dtype if isinstance(x, Tensor) else dt.of_scalar(x)


def _operand(name: str, x: Any, dtype: dt.dtype, device: Any) -> Any:
    if isinstance(x, Tensor):
        if x.dtype is not dtype:
            x = cast(x, dtype)
        if x.device is not device and x.ndim == 0 and not x.device.always_lazy:
            x = x.to(device)
        return x
    return const(x, dtype, device)


def _device_of(name: str, xs: Any) -> Any:
    """The device of the operands: a 0-d CPU tensor goes wherever the others are."""
    found = None
    for x in xs:
        if isinstance(x, Tensor):
            if (
                found is None
                or (found.ndim == 0 and x.ndim > 0)
                or (found.ndim == x.ndim == 0 and x.device.always_lazy)
            ):
                found = x
        elif not isinstance(x, (bool, int, float, complex, np.generic)):
            raise TypeError(
                f"{name}: expected a Tensor or a number, got {type(x).__name__}; "
                "make it a tensor with pf.tensor"
            )
    return found.device if found is not None else get_default_device()


def result_type(*operands: Any) -> dt.dtype:
    """The dtype of an operation on tensors and numbers, as torch.result_type."""
    best: list[dt.dtype | None] = [None, None, None]  # of tensors, 0-d tensors, Python numbers
    for x in operands:
        if isinstance(x, Tensor):
            level, d = (0 if x._node.shape else 1), x._node.dtype
        else:
            level, d = 2, dt.of_scalar(x)
        old = best[level]
        best[level] = d if old is None else dt.promote_types(old, d)
    if best[2] is not None and best[2].category >= dt.FLOAT:  # Python floats have no precision
        default = dt.get_default_dtype()
        best[2] = default if best[2].category == dt.FLOAT else default.to_complex()
    return _higher(best[0], _higher(best[1], best[2]))  # type: ignore[return-value]


def _higher(a: dt.dtype | None, b: dt.dtype | None) -> dt.dtype | None:
    """`a`, unless `b` is of a higher category (see c10's combine_categories)."""
    if a is None or b is None:
        return a or b
    if b.category <= a.category:
        return a
    return a.to_complex() if a.category == dt.FLOAT else b


@functools.lru_cache(4096)
def broadcast(name: str, *shapes: tuple[int, ...]) -> tuple[int, ...]:
    """The common shape; RuntimeError that names `name` where there is none."""
    ndim = max(len(s) for s in shapes)
    out = [1] * ndim
    for s in shapes:
        for d, n in enumerate(s, ndim - len(s)):
            if n != 1:
                if out[d] not in (1, n):
                    sizes = " and ".join(str(list(s)) for s in shapes)
                    raise RuntimeError(
                        f"{name}: shapes {sizes} don't broadcast: sizes {out[d]} and {n} differ at "
                        f"dim {d}; expected equal sizes or 1"
                    )
                out[d] = n
    return tuple(out)


def op(name: str, inputs: str, numpy: Any, wgsl: Any, rule: str = SAME, **kw: Any) -> Elementwise:
    return Elementwise(name, inputs, numpy, wgsl, rule, **kw)


# --- arithmetic

add = op("add", "a b", np.add, "{a} + {b}", a=lambda g: g, b=lambda g: g)
sub = op("sub", "a b", np.subtract, "{a} - {b}", NUMBER, a=lambda g: g, b=lambda g: -g)
mul = op("mul", "a b", np.multiply, "{a} * {b}", a=lambda g, b: g * b, b=lambda g, a: g * a)
true_divide = op(
    "div", "a b", np.true_divide, "{a} / {b}", FLOAT,
    a=lambda g, b: g / b, b=lambda g, y, b: -g * y / b,
)  # fmt: skip
floor_divide = op("floor_divide", "a b", mathfn.floor_divide, "pf_floordiv_{t}({a}, {b})", NUMBER)
remainder = op(
    "remainder", "a b", mathfn.remainder, "pf_mod_{t}({a}, {b})", NUMBER,
    a=lambda g: g, b=lambda g, a, b: -g * floor_divide(a, b),
)  # fmt: skip
fmod = op(
    "fmod", "a b", mathfn.fmod, "pf_fmod_{t}({a}, {b})", NUMBER,
    a=lambda g: g, b=lambda g, a, b: -g * trunc(a / b),
)  # fmt: skip
pow = op(
    "pow", "a b", mathfn.power, "pf_pow_{t}({a}, {b})", calls=bound.power,
    a=lambda g, a, b: where(eq(b, 0), 0.0, g * b * pow(a, b - 1)),
    b=lambda g, y, a: where(logical_and(eq(a, 0), ne(y, math.inf)), 0.0, g * y * log(a)),
)  # fmt: skip
neg = op("neg", "x", np.negative, "{t}(0) - {x}", NUMBER, x=lambda g: -g)
abs = op("abs", "x", np.abs, "abs({x})", x=lambda g, x: g * sign(x))
sign = op("sign", "x", np.sign, "pf_sign_{t}({x})", x=lambda g: g * 0.0)
square = op("square", "x", np.square, "{x} * {x}", x=lambda g, x: 2.0 * g * x)
reciprocal = op("reciprocal", "x", np.reciprocal, "1.0 / {x}", FLOAT, x=lambda g, y: -g * y * y)
maximum = op(
    "maximum", "a b", np.maximum, "pf_max_{t}({a}, {b})",
    a=lambda g, a, b: g * _share(a, b, gt), b=lambda g, a, b: g * _share(a, b, lt),
)  # fmt: skip
minimum = op(
    "minimum", "a b", np.minimum, "pf_min_{t}({a}, {b})",
    a=lambda g, a, b: g * _share(a, b, lt), b=lambda g, a, b: g * _share(a, b, gt),
)  # fmt: skip


def _share(a: Any, b: Any, wins: Any) -> Tensor:
    """1 where a wins over b, 1/2 at a tie (PyTorch's subgradient), else 0."""
    return where(wins(a, b), 1.0, where(eq(a, b), 0.5, 0.0))


# --- powers, exponentials, trigonometry

sqrt = op("sqrt", "x", np.sqrt, "sqrt({x})", FLOAT, x=lambda g, y: g / (2.0 * y))
rsqrt = op(
    "rsqrt", "x", lambda x: 1 / np.sqrt(x), "inverseSqrt({x})", FLOAT, calls=bound.rsqrt,
    x=lambda g, y: -0.5 * g * y * y * y,
)  # fmt: skip
exp = op("exp", "x", np.exp, "exp({x})", FLOAT, x=lambda g, y: g * y)
exp2 = op("exp2", "x", np.exp2, "exp2({x})", FLOAT, x=lambda g, y: g * y * math.log(2))
expm1 = op("expm1", "x", np.expm1, "pf_expm1({x})", FLOAT, x=lambda g, y: g * (y + 1.0))
log = op("log", "x", np.log, "pf_log({x})", FLOAT, x=lambda g, x: g / x)
log2 = op("log2", "x", np.log2, "pf_log2({x})", FLOAT, x=lambda g, x: g / (x * math.log(2)))
log10 = op(
    "log10", "x", np.log10, "(pf_log({x}) * 0.4342944819032518)", FLOAT,
    x=lambda g, x: g / (x * math.log(10)),
)  # fmt: skip
log1p = op("log1p", "x", np.log1p, "pf_log1p({x})", FLOAT, x=lambda g, x: g / (x + 1.0))
sin = op("sin", "x", np.sin, "pf_sin({x})", FLOAT, x=lambda g, x: g * cos(x))
cos = op("cos", "x", np.cos, "pf_cos({x})", FLOAT, x=lambda g, x: -g * sin(x))
tan = op("tan", "x", np.tan, "pf_tan({x})", FLOAT, x=lambda g, y: g * (y * y + 1.0))
atan = op("atan", "x", np.arctan, "atan({x})", FLOAT, x=lambda g, x: g / (x * x + 1.0))
tanh = op("tanh", "x", np.tanh, "pf_tanh({x})", FLOAT, x=lambda g, y: g * (1.0 - y * y))
sigmoid = op(
    "sigmoid", "x", mathfn.sigmoid, "1.0 / (1.0 + exp(-({x})))", FLOAT, calls=bound.sigmoid,
    x=lambda g, y: g * y * (1.0 - y),
)  # fmt: skip
erf = op(
    "erf", "x", mathfn.erf, "pf_erf({x})", FLOAT, calls=bound.erf,
    x=lambda g, x: g * (2.0 / math.sqrt(math.pi)) * exp(-x * x),
)  # fmt: skip

# --- rounding

floor = op("floor", "x", mathfn.keep_int(np.floor), "pf_floor_{t}({x})", x=lambda g: g * 0.0)
ceil = op("ceil", "x", mathfn.keep_int(np.ceil), "pf_ceil_{t}({x})", x=lambda g: g * 0.0)
trunc = op("trunc", "x", mathfn.keep_int(np.trunc), "pf_trunc_{t}({x})", x=lambda g: g * 0.0)
round_ = op("round", "x", mathfn.keep_int(np.rint), "pf_round_{t}({x})", x=lambda g: g * 0.0)

# --- activations that a composition would make slower

relu = op("relu", "x", lambda x: np.maximum(x, 0), "pf_max_{t}({x}, {t}(0))", calls=bound.relu,
          x=lambda g, y: where(gt(y, 0), g, 0.0))  # fmt: skip

# --- comparison and logic

eq = op("eq", "a b", np.equal, "{a} == {b}", TO_BOOL, takes_bool=True)
ne = op("ne", "a b", np.not_equal, "{a} != {b}", TO_BOOL, takes_bool=True)
lt = op("lt", "a b", np.less, "{a} < {b}", TO_BOOL)
le = op("le", "a b", np.less_equal, "{a} <= {b}", TO_BOOL)
gt = op("gt", "a b", np.greater, "{a} > {b}", TO_BOOL)
ge = op("ge", "a b", np.greater_equal, "{a} >= {b}", TO_BOOL)
isnan = op("isnan", "x", mathfn.isnan, "pf_isnan_{t}({x})", TO_BOOL)
isinf = op("isinf", "x", mathfn.isinf, "pf_isinf_{t}({x})", TO_BOOL)
logical_and = op(
    "logical_and", "a b", np.logical_and, "bool({a}) && bool({b})", TO_BOOL, takes_bool=True
)
logical_or = op(
    "logical_or", "a b", np.logical_or, "bool({a}) || bool({b})", TO_BOOL, takes_bool=True
)
logical_not = op("logical_not", "x", np.logical_not, "!bool({x})", TO_BOOL, takes_bool=True)
bitwise_and = op("bitwise_and", "a b", np.bitwise_and, "{a} & {b}", BITS, takes_bool=True)
bitwise_or = op("bitwise_or", "a b", np.bitwise_or, "{a} | {b}", BITS, takes_bool=True)
bitwise_xor = op(
    "bitwise_xor", "a b", np.bitwise_xor,
    lambda a, b, t: f"{a} != {b}" if t == "bool" else f"{a} ^ {b}", BITS,
    takes_bool=True,
)  # fmt: skip
bitwise_not = op(
    "bitwise_not",
    "x",
    np.invert,
    lambda x, t: f"!({x})" if t == "bool" else f"~({x})",
    BITS,
    takes_bool=True,
)
where3 = op(
    "where", "condition a b", np.where, "select({b}, {a}, {condition})", promoted_from=1,
    takes_bool=True, calls=bound.where,
    a=lambda g, condition: where(condition, g, 0.0),
    b=lambda g, condition: where(condition, 0.0, g),
)  # fmt: skip


def where(condition: Any, input: Any = None, other: Any = None) -> Any:
    """`input` where `condition` holds, else `other`, broadcast; torch.where."""
    if input is None and other is None:
        return condition.nonzero(as_tuple=True)
    if not isinstance(condition, Tensor) or condition.dtype is not dt.bool_:
        seen = condition.dtype.name if isinstance(condition, Tensor) else type(condition).__name__
        raise RuntimeError(f"where: expected condition to be a bool tensor, but got {seen}")
    if not isinstance(input, Tensor) and not isinstance(other, Tensor):
        common = result_type(input, other)
        input = const(input, common, condition.device)
        other = const(other, common, condition.device)
        return apply(where3, (condition, input, other))
    return where3(condition, input, other)


# --- dtype


def _cast_numpy(x: np.ndarray, dtype: dt.dtype) -> np.ndarray:
    if x.dtype.kind == "c" and dtype.category != dt.COMPLEX:
        x = x != 0 if dtype is dt.bool_ else x.real
    if dtype.category == dt.INTEGER and x.dtype.kind == "f":
        return x.astype(np.int64).astype(dtype.numpy)  # wraps, as C does in PyTorch
    return x.astype(dtype.numpy if dtype.narrow is None else np.float32)  # record narrows it


def _cast_infer(x: Any, dtype: dt.dtype) -> tuple[tuple[int, ...], dt.dtype]:
    return x.shape, dtype


class _Cast(Elementwise):
    def __call__(self, x: Tensor, dtype: dt.dtype) -> Tensor:
        return apply(self, (x,), (dtype,))


cast_op = _Cast(
    "cast", "x", _cast_numpy, lambda x, t: f"{t}({x})", SAME, attrs="dtype",
    takes_bool=True, calls=bound.cast,
    x=lambda g, x_spec: g.to(x_spec.dtype),
)  # fmt: skip
cast_op.infer = _cast_infer


def cast(x: Tensor, dtype: dt.dtype) -> Tensor:
    """`x` converted to `dtype` (a new tensor)."""
    return cast_op(x, dtype)


_op.CAST = cast

copy = op(
    "copy", "x", lambda x: np.array(x, order="C"), "{x}", takes_bool=True, calls=bound.copy,
    x=lambda g: g,
)  # fmt: skip


def clone(input: Tensor, *, memory_format: Any = None) -> Tensor:
    """A copy with its own memory; gradients flow through."""
    return copy(input)


# --- generators of values from the element's index


def _index_op(name: str, inputs: str, attrs: str, numpy: Any, wgsl: str, dtype: dt.dtype) -> Op:
    out = Elementwise(name, inputs, numpy, wgsl, SAME, attrs=attrs, uses_index=True)
    out.infer = lambda *args: (args[-1], dtype)
    return out


iota_op = _index_op(
    "iota", "x", "shape",
    lambda x, shape: np.arange(math.prod(shape), dtype=np.int32).reshape(shape),
    "i32({i})", dt.int32,
)  # fmt: skip
random_bits_op = _index_op(
    "random_bits", "k0 k1 draw", "shape", mathfn.philox_bits,
    "pf_philox({k0}, {k1}, {draw}, {i})", dt.uint32,
)  # fmt: skip
uniform_from_bits = op(
    "uniform_from_bits", "bits", lambda b: (b >> 8).astype(np.float32) * np.float32(2**-24),
    "f32({bits} >> 8u) * 5.9604644775390625e-8",
)  # fmt: skip
uniform_from_bits.infer = lambda x: (x.shape, dt.float32)
normal_from_bits = op("normal_from_bits", "bits", mathfn.normal_from_bits, "pf_normal({bits})")
normal_from_bits.infer = lambda x: (x.shape, dt.float32)


def iota(shape: tuple[int, ...], device: Any) -> Tensor:
    """int32 flat indices of `shape`, on `device`."""
    return apply(iota_op, (const(0, dt.int32, device),), (shape,))


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
        rest = fmod(input, other)
        return floor_divide(sub(input, rest), other)
    raise RuntimeError(
        "div expected rounding_mode to be one of None, 'trunc', or 'floor' but found "
        f"{rounding_mode!r}"
    )


def scaled(fn: Elementwise) -> Callable[..., Tensor]:
    def run(input: Any, other: Any, *, alpha: Any = 1) -> Tensor:
        return fn(input, other if isinstance(alpha, int) and alpha == 1 else mul(other, alpha))

    run.__name__ = fn.name
    run.__doc__ = f"{fn.name}(input, alpha * other), broadcast."
    return run


add_scaled, sub_scaled = scaled(add), scaled(sub)


def clamp(input: Tensor, min: Any = None, max: Any = None) -> Tensor:
    """`input` limited to [min, max]; each a number, a tensor or None (not both)."""
    if min is None and max is None:
        raise RuntimeError("clamp: At least one of 'min' or 'max' must not be None")
    out = input
    if min is not None and max is not None and not isinstance(min, Tensor | None.__class__):
        inside = logical_and(ge(input, min), le(input, max))
        return where(logical_or(inside, isnan(input)), input, where(lt(input, min), min, max))
    if min is not None:
        out = where(lt(out, min), min, out)
    if max is not None:
        out = where(gt(out, max), max, out)
    return out


def addcmul(input: Tensor, tensor1: Tensor, tensor2: Tensor, *, value: Any = 1) -> Tensor:
    """input + value * tensor1 * tensor2."""
    product = tensor1 * tensor2
    return input + (product if value == 1 else product * value)


def addcdiv(input: Tensor, tensor1: Tensor, tensor2: Tensor, *, value: Any = 1) -> Tensor:
    """input + value * tensor1 / tensor2."""
    return input + (tensor1 if value == 1 else tensor1 * value) / tensor2


def lerp(input: Tensor, end: Tensor, weight: Any) -> Tensor:
    """input + weight * (end - input)."""
    return input + (end - input) * weight


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


PUBLIC = public(
    globals(),
    both="""neg abs sign square reciprocal maximum minimum sqrt rsqrt exp exp2 expm1 log log2 log10
    log1p sin cos tan atan tanh sigmoid erf floor ceil trunc round=round_ relu eq ne lt le gt ge
    isnan isinf logical_and logical_or logical_not bitwise_and bitwise_or bitwise_xor bitwise_not
    remainder fmod pow mul floor_divide add=add_scaled sub=sub_scaled div true_divide
    subtract=sub_scaled multiply=mul divide=div negative=neg greater=gt less=lt absolute=abs
    clip=clamp clamp addcmul addcdiv lerp isfinite logical_xor clone gelu""",
    functions="where result_type",
    inplace="""add sub mul div subtract multiply divide true_divide floor_divide remainder fmod pow
    neg abs sign square reciprocal sqrt rsqrt exp exp2 expm1 log log2 log10 log1p sin cos tan atan
    tanh sigmoid erf floor ceil trunc round relu clamp clip addcmul addcdiv lerp eq ne lt le gt ge
    logical_and logical_or logical_not logical_xor bitwise_and bitwise_or bitwise_xor
    bitwise_not""",
)
