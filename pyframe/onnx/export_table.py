"""What calls and ops are in ONNX: a row each.

`CALLS` are public functions that are a single operator, or few; a row may refuse arguments
(`fits`), and a function without a row is looked into. `OPS` are the ops that then remain. A row is
a function of the writer (export.py) and the arguments, in which tensors are names of values.
"""

from __future__ import annotations

import inspect
import math
from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from pyframe.core import dtypes as dt
from pyframe.core.op import REGISTRY
from pyframe.nn import functional
from pyframe.onnx.table import SAME, same


class ExportRule(NamedTuple):
    """How a call is written, from which opset on, and of which arguments."""

    write: Callable[..., Any]
    since: int = 1
    fits: Callable[[Any], bool] = lambda a: True


CALLS: dict[str, ExportRule] = {}
OPS: dict[str, Callable[..., Any]] = {}


def call(names: str, since: int = 1, fits: Callable[[Any], bool] = lambda a: True) -> Any:
    """The row of public functions, whose arguments are `a`, by their names."""

    def add(write: Callable[..., Any]) -> Any:
        CALLS.update(dict.fromkeys(names.split(), ExportRule(write, since, fits)))
        return write

    return add


def op(names: str) -> Any:
    """The row of ops: what is written is a function of the operands and the attributes."""

    def add(write: Callable[..., Any]) -> Any:
        OPS.update(dict.fromkeys(names.split(), write))
        return write

    return add


def _is_int(x: Any) -> bool:
    return isinstance(x, int)


def _each(x: Any, k: int) -> list[Any]:
    """A number for each of k dims."""
    items = list(x) if isinstance(x, (tuple, list)) else [x]
    return items * k if len(items) == 1 else items


# --- public functions

SINCE = {"Gelu": 20, "HardSwish": 14, "Mish": 18}  # from which opset on, of those of SAME


def _has_only(name: str, parameters: dict[str, str], a: Any) -> bool:
    """Whether a function's arguments are a tensor and what its operator has, besides defaults."""
    known = inspect.signature(getattr(functional, name)).parameters.values()
    others = [p for p in list(known)[1:] if p.name not in (*parameters.values(), "inplace")]
    return all(a[p.name] == p.default for p in others)


for _kind in SAME:  # those that are ops stand below
    _name, _parameters = same(_kind)
    if _name not in REGISTRY and _kind != "Celu":  # which is of float32 alone
        call(_name, SINCE.get(_kind, 1), partial(_has_only, _name, _parameters))(
            lambda w, a, kind=_kind, names=_parameters: w.op(
                kind, a["input"], **{name: a[other] for name, other in names.items()}
            )
        )


call("selu")(lambda w, a: w.op("Selu", a["input"]))
call("hardsigmoid")(lambda w, a: w.op("HardSigmoid", a["input"], alpha=1 / 6, beta=0.5))


def _along(name: str, kind: str) -> None:
    """A row of softmaxes; of one number a vector is made, as ONNX has none along no dim."""

    def write(w: Any, x: Any, dim: int) -> Any:
        if w.shape(x):
            return w.op(kind, x, axis=dim)
        return w.reshape(w.op(kind, w.reshape(x, [1]), axis=0), [])

    fits = lambda a: a["dim"] is not None and a["dtype"] is None  # noqa: E731
    call(name, fits=fits)(lambda w, a: write(w, a["input"], a["dim"]))
    op(name)(write)


_along("softmax", "Softmax")
_along("log_softmax", "LogSoftmax")


@call("linear", fits=lambda a: a["input"].ndim >= 2)
def _linear(w: Any, a: Any) -> Any:
    x, weight, bias = a["input"], a["weight"], a["bias"]
    if len(w.shape(x)) == 2 and bias is not None:
        return w.op("Gemm", x, weight, bias, transB=1)
    out = w.op("MatMul", x, w.turned(weight, (1, 0)))
    return out if bias is None else w.op("Add", out, bias)


call("matmul mm bmm __matmul__", fits=lambda a: a["input"].dtype.is_floating_point)(
    lambda w, a: w.op("MatMul", *list(a.values())[:2])
)


def _convolved(
    w: Any, kind: str, x: Any, weight: Any, bias: Any, stride: Any, padding: Any, dilation: Any,
    groups: int, **more: Any,
) -> Any:  # fmt: skip
    """A convolution; what is said of each dim may be a number for all."""
    kernel = w.shape(weight)[2:]
    k = len(kernel)
    dilation = _each(dilation, k)
    if padding == "same":
        totals = [d * (n - 1) for d, n in zip(dilation, kernel, strict=True)]
        pads = [t // 2 for t in totals] + [t - t // 2 for t in totals]
    else:
        pads = _each(0 if padding == "valid" else padding, k) * 2
    return w.op(
        kind, x, weight, bias, kernel_shape=kernel, pads=pads, strides=_each(stride, k),
        dilations=dilation, group=groups, **more,
    )  # fmt: skip


_OF_CONV = "input weight bias stride padding dilation groups".split()
call("conv1d conv2d conv3d", fits=lambda a: a["input"].ndim == a["weight"].ndim)(
    lambda w, a: _convolved(w, "Conv", *[a[name] for name in _OF_CONV])
)


def _pads_less(a: Any) -> bool:
    k = a["weight"].ndim - 2
    steps = zip(_each(a["output_padding"], k), _each(a["stride"], k), strict=True)
    return a["input"].ndim == k + 2 and all(more < stride for more, stride in steps)


@call("conv_transpose1d conv_transpose2d conv_transpose3d", fits=_pads_less)
def _conv_transpose(w: Any, a: Any) -> Any:
    more = _each(a["output_padding"], len(w.shape(a["weight"])) - 2)
    given = [a[name] for name in _OF_CONV]
    return _convolved(w, "ConvTranspose", *given, output_padding=more)


def _planes(a: Any, k: int) -> dict[str, Any]:
    """The attributes of pooling."""
    stride = a["kernel_size"] if a["stride"] in (None, [], ()) else a["stride"]
    return {
        "kernel_shape": _each(a["kernel_size"], k), "strides": _each(stride, k),
        "pads": _each(a["padding"], k) * 2, "ceil_mode": int(a["ceil_mode"]),
    }  # fmt: skip


def _rounds_down(k: int, a: Any) -> bool:
    """Whether maxima are ONNX's: no window begins behind the end, where it rounds up."""
    if a["input"].ndim != k + 2 or a["return_indices"]:
        return False
    p = _planes(a, k)
    sizes = zip(p["strides"], p["pads"], p["kernel_shape"], strict=False)
    return not a["ceil_mode"] or all(s + pad <= n for s, pad, n in sizes)


def _is_plain_mean(k: int, a: Any) -> bool:
    odd = a["ceil_mode"] or a.get("divisor_override") is not None
    return a["input"].ndim == k + 2 and not odd


def _is_of_all(k: int, a: Any) -> bool:
    return a["input"].ndim == k + 2 and set(_each(a["output_size"], k)) == {1}


for _k in (1, 2, 3):

    @call(f"max_pool{_k}d", fits=partial(_rounds_down, _k))
    def _max_pool(w: Any, a: Any, k: int = _k) -> Any:
        return w.op("MaxPool", a["input"], dilations=_each(a["dilation"], k), **_planes(a, k))

    @call(f"avg_pool{_k}d", fits=partial(_is_plain_mean, _k))
    def _avg_pool(w: Any, a: Any, k: int = _k) -> Any:
        included = int(a["count_include_pad"])
        return w.op("AveragePool", a["input"], count_include_pad=included, **_planes(a, k))

    call(f"adaptive_avg_pool{_k}d", fits=partial(_is_of_all, _k))(
        lambda w, a: w.op("GlobalAveragePool", a["input"])
    )


def _affine(w: Any, a: Any, shape: Any) -> list[Any]:
    """The scale and the shift of a norm, which are 1 and 0 where it has none."""
    kind, given = w.dtype(a["input"]), (a["weight"], a.get("bias"))
    return [
        w.like(np.full(shape, usual), kind) if x is None else x
        for x, usual in zip(given, (1.0, 0.0), strict=True)
    ]


@call("batch_norm", fits=lambda a: not a["training"] and a["running_mean"] is not None)
def _batch_norm(w: Any, a: Any) -> Any:
    scales = _affine(w, a, w.shape(a["running_mean"]))
    statistics = a["running_mean"], a["running_var"]
    return w.op("BatchNormalization", a["input"], *scales, *statistics, epsilon=a["eps"])


def _has_channels(a: Any) -> bool:
    return a.get("use_input_stats", True) and _is_int(a["input"].shape[1])


@call("instance_norm", fits=_has_channels)
def _instance_norm(w: Any, a: Any) -> Any:
    scales = _affine(w, a, w.shape(a["input"])[1])
    return w.op("InstanceNormalization", a["input"], *scales, epsilon=a["eps"])


@call("group_norm", since=21, fits=_has_channels)
def _group_norm(w: Any, a: Any) -> Any:
    scales = _affine(w, a, w.shape(a["input"])[1])
    more = {"num_groups": a["num_groups"], "epsilon": a["eps"]}
    return w.op("GroupNormalization", a["input"], *scales, **more)


def _over_last(kind: str, w: Any, a: Any) -> Any:
    """A norm over the last dims, which needs no shift."""
    shape = _each(a["normalized_shape"], 1)
    scale, _ = _affine(w, a, shape)
    inputs = [a["input"], scale, a.get("bias")]
    return w.op(kind, *inputs, axis=-len(shape), epsilon=a["eps"])


call("layer_norm", since=17)(partial(_over_last, "LayerNormalization"))
call("rms_norm", since=23, fits=lambda a: a["eps"] is not None)(
    partial(_over_last, "RMSNormalization")
)
call("embedding", fits=lambda a: a["max_norm"] is None)(
    lambda w, a: w.op("Gather", a["weight"], a["input"], axis=0)
)


@call(
    "scaled_dot_product_attention",
    since=14,
    fits=lambda a: not a["dropout_p"] and not (a["enable_gqa"] and a["query"].ndim != 4),
)
def _attention(w: Any, a: Any) -> Any:
    q, k, v, mask, scale = (a[n] for n in ("query", "key", "value", "attn_mask", "scale"))
    n = len(w.shape(q))
    if w.opset >= 23 and n == 4:
        more = {} if scale is None else {"scale": float(scale)}
        if mask is not None and w.shape(mask)[-2] == 1:  # onnxruntime wants each query's
            mask = w.op("Expand", mask, w.sizes([1, 1, w.shape(q)[2], 1]))
        return w.op("Attention", q, k, v, mask, is_causal=int(a["is_causal"]), **more)
    ends = [w.shape(q)[-2], w.shape(k)[-2]]
    if a["enable_gqa"]:
        k, v = (w.repeated(x, w.shape(q)[1] // w.shape(x)[1]) for x in (k, v))
    scale = 1 / math.sqrt(w.shape(q)[-1]) if scale is None else scale
    turned = w.turned(k, (*range(n - 2), n - 1, n - 2))
    scores = w.op("MatMul", w.op("Mul", q, _like(w, q, scale)), turned)
    if a["is_causal"]:
        ones = w.op("Expand", w.const(np.float32(1)), w.sizes(ends))
        lower = w.op("Trilu", ones, upper=0)
        mask = w.op("Cast", lower, to=w.kind(dt.bool_))
        scores = w.op("Where", mask, scores, _like(w, q, -math.inf))
    elif mask is not None and w.dtype(mask) is dt.bool_:
        scores = w.op("Where", mask, scores, _like(w, q, -math.inf))
    elif mask is not None:
        scores = w.op("Add", scores, mask)
    weights = w.op("Softmax", scores, axis=-1)
    if mask is not None:  # a query that sees nothing
        weights = w.op("Where", w.op("IsNaN", weights), _like(w, q, 0), weights)
    return w.op("MatMul", weights, v)


@call("fold", since=18, fits=lambda a: a["input"].ndim == 3)
def _fold(w: Any, a: Any) -> Any:
    size, kernel = (w.sizes(_each(a[n], 2)) for n in ("output_size", "kernel_size"))
    return w.op(
        "Col2Im", a["input"], size, kernel, dilations=_each(a["dilation"], 2),
        pads=_each(a["padding"], 2) * 2, strides=_each(a["stride"], 2),
    )  # fmt: skip


@call("einsum", fits=lambda a: isinstance(next(iter(a.values()))[0], str))
def _einsum(w: Any, a: Any) -> Any:
    equation, *xs = next(iter(a.values()))
    xs = list(xs[0]) if len(xs) == 1 and isinstance(xs[0], (list, tuple)) else xs
    return w.op("Einsum", *xs, equation=equation.replace(" ", ""))


@call("prelu", fits=lambda a: a["input"].ndim >= 2)
def _prelu(w: Any, a: Any) -> Any:
    ones = [1] * (len(w.shape(a["input"])) - 2)
    slope = w.reshape(a["weight"], [-1, *ones])
    return w.op("PRelu", a["input"], slope)


@call("topk", fits=lambda a: _is_int(a["k"]))
def _topk(w: Any, a: Any) -> Any:
    return w.op(
        "TopK", a["input"], w.sizes([a["k"]]), outputs=2, axis=a["dim"],
        largest=int(a["largest"]), sorted=int(a["sorted"]),
    )  # fmt: skip


@call("sort argsort", fits=lambda a: _is_int(a["input"].shape[a["dim"]]))
def _sort(w: Any, a: Any) -> Any:
    k = w.shape(a["input"])[a["dim"]]
    given = w.op(
        "TopK", a["input"], w.sizes([k]), outputs=2, axis=a["dim"], largest=int(a["descending"])
    )
    return given if w.results == 2 else given[1]


def _adds_up(a: Any) -> bool:
    x = a["input"]
    return a["dtype"] is None and x.dtype.is_floating_point and x.ndim > 0


call("cumsum", fits=_adds_up)(lambda w, a: w.op("CumSum", a["input"], w.const(np.int64(a["dim"]))))
for _name, _kind in (("gather", "GatherElements"), ("index_select", "Gather")):
    call(_name, fits=lambda a: a["input"].ndim > 0)(
        lambda w, a, kind=_kind: w.op(kind, a["input"], a["index"], axis=a["dim"])
    )
_RESIZE = {"nearest": "nearest", "bilinear": "linear", "linear": "linear", "bicubic": "cubic",
           "trilinear": "linear"}  # fmt: skip


@call("interpolate", fits=lambda a: a["mode"] in _RESIZE and not a["antialias"])
def _interpolate(w: Any, a: Any) -> Any:
    x, mode = a["input"], _RESIZE[a["mode"]]
    how = "align_corners" if a["align_corners"] else "half_pixel"
    how = "asymmetric" if mode == "nearest" else how
    more: dict[str, Any] = {"cubic_coeff_a": -0.75} if mode == "cubic" else {}
    if mode == "nearest":
        more["nearest_mode"] = "floor"
    k = len(w.shape(x)) - 2
    if a["size"] is None and not (a["recompute_scale_factor"] or a["align_corners"]):
        scales = w.const(np.array([1, 1, *_each(a["scale_factor"], k)], np.float32))
        inputs = [x, None, scales]
    else:
        inputs = [x, None, None, w.sizes([*w.shape(x)[:2], *w.out_shape()[2:]])]
    return w.op("Resize", *inputs, mode=mode, coordinate_transformation_mode=how, **more)


def _gates(w: Any, weight: Any, order: tuple[int, ...]) -> Any:
    """The gates of a recurrent layer in ONNX's order."""
    if len(order) == 1:
        return weight
    n = w.shape(weight)[0] // len(order)
    rows = np.concatenate([np.arange(g * n, g * n + n) for g in order])
    return w.rows(weight, rows)


def _recurrent(kind: str, order: tuple[int, ...], **more: Any) -> Callable[..., Any]:
    def write(w: Any, a: Any) -> Any:
        x, hx, params, biases, layers, _, _, both, batch_first = a["args"]
        states = list(hx) if kind == "LSTM" else [hx]
        dirs, each = 2 if both else 1, 4 if biases else 2
        hidden = w.shape(params[1])[1]
        x = w.op("Transpose", x, perm=(1, 0, 2)) if batch_first else x
        ends: list[list[Any]] = [[] for _ in states]
        for layer in range(layers):
            own = [params[(layer * dirs + d) * each :][:each] for d in range(dirs)]
            parts = [w.stacked([_gates(w, p[i], order) for p in own]) for i in range(2)]
            bias = None
            if biases:
                pairs = [w.joined([_gates(w, p[2], order), _gates(w, p[3], order)], 0) for p in own]
                bias = w.stacked(pairs)
            at = [w.sizes([layer * dirs]), w.sizes([layer * dirs + dirs]), w.sizes([0])]
            begin = [w.op("Slice", s, *at) for s in states]
            direction = "bidirectional" if both else "forward"
            given = dict(more)
            if "activations" in given:
                given["activations"] = given["activations"] * dirs
            y, *last = w.op(
                kind, x, *parts, bias, None, *begin, outputs=1 + len(states),
                hidden_size=hidden, direction=direction, **given,
            )  # fmt: skip
            x = w.op("Transpose", y, perm=(0, 2, 1, 3))
            x = w.op("Reshape", x, w.sizes([0, 0, dirs * hidden]))
            for end, value in zip(ends, last, strict=True):
                end.append(value)
        x = w.op("Transpose", x, perm=(1, 0, 2)) if batch_first else x
        return (x, *[e[0] if len(e) == 1 else w.op("Concat", *e, axis=0) for e in ends])

    return write


def _padded(a: Any) -> bool:
    """Whether a recurrent call is of padded batches, without projections."""
    args = a["args"]
    if len(args) != 9 or isinstance(args[3], (tuple, list)) or a["kwargs"]:
        return False
    each = 4 if args[3] else 2
    return len(args[2]) == args[4] * (2 if args[7] else 1) * each and not (args[5] and args[6])


for _name, _write in (
    ("lstm", _recurrent("LSTM", (0, 3, 1, 2))),
    ("gru", _recurrent("GRU", (1, 0, 2), linear_before_reset=1)),
    ("rnn_tanh", _recurrent("RNN", (0,), activations=["Tanh"])),
    ("rnn_relu", _recurrent("RNN", (0,), activations=["Relu"])),
):
    call(_name, fits=_padded)(_write)


# --- ops

for _name, _kind in {
    **{SAME[kind]: kind for kind in SAME}, "copy": "Identity", "isinf": "IsInf",
    "pow:-1": "Reciprocal", "pow:0.5": "Sqrt", "div": "Div", "pow": "Pow", "clamp_min": "Max",
    "clamp_max": "Min", "maximum": "Max", "minimum": "Min", "linalg_det": "Det",
}.items():  # fmt: skip
    op(_name)(lambda w, *xs, kind=_kind: w.op(kind, *xs))
for _name, _kind, _of_bool in (
    ("add", "Add", "Or"), ("mul", "Mul", "And"), ("bitwise_and", "BitwiseAnd", "And"),
    ("bitwise_or", "BitwiseOr", "Or"), ("bitwise_xor", "BitwiseXor", "Xor"),
):  # fmt: skip
    op(_name)(lambda w, a, b, kinds=(_kind, _of_bool): w.op(kinds[w.dtype(a) is dt.bool_], a, b))


def _like(w: Any, x: Any, value: float) -> Any:
    """A number of the dtype of `x`."""
    return w.like(value, w.dtype(x))


def _not_zero(w: Any, x: Any) -> Any:
    return x if w.dtype(x) is dt.bool_ else w.op("Cast", x, to=w.kind(dt.bool_))


op("square pow:2")(lambda w, x: w.op("Mul", x, x))
op("pow:3")(lambda w, x: w.op("Mul", w.op("Mul", x, x), x))
op("rsqrt pow:-0.5")(lambda w, x: w.op("Reciprocal", w.op("Sqrt", x)))
op("erfc")(lambda w, x: w.op("Sub", _like(w, x, 1), w.op("Erf", x)))
op("exp2")(lambda w, x: w.op("Pow", _like(w, x, 2), x))
op("expm1")(lambda w, x: w.op("Sub", w.op("Exp", x), _like(w, x, 1)))
op("log1p")(lambda w, x: w.op("Log", w.op("Add", x, _like(w, x, 1))))
op("log2")(lambda w, x: w.op("Div", w.op("Log", x), _like(w, x, math.log(2))))
op("log10")(lambda w, x: w.op("Div", w.op("Log", x), _like(w, x, math.log(10))))
op("over_six")(lambda w, x: w.op("Div", x, _like(w, x, 6)))
op("ne")(lambda w, a, b: w.op("Not", w.op("Equal", a, b)))
op("logical_not")(lambda w, x: w.op("Not", _not_zero(w, x)))
op("bitwise_not")(lambda w, x: w.op("Not" if w.dtype(x) is dt.bool_ else "BitwiseNot", x))
op("trunc")(lambda w, x: w.op("Mul", w.op("Sign", x), w.op("Floor", w.op("Abs", x))))
op("cast")(lambda w, x, dtype: w.op("Cast", x, to=w.kind(dtype)))
op("fmod")(lambda w, a, b: w.op("Mod", a, b, fmod=1))
op("conj real")(lambda w, x: x)


@op("clamp hardtanh")
def _clamp(w: Any, x: Any, low: Any, high: Any) -> Any:
    if w.shape(low) or w.shape(high):
        return w.op("Min", w.op("Max", x, low), high)
    return w.op("Clip", x, low, high)


@op("floor_divide")
def _floor_divide(w: Any, a: Any, b: Any) -> Any:
    if w.dtype(a).is_floating_point:
        return w.op("Floor", w.op("Div", a, b))
    return w.op("Div", w.op("Sub", a, w.op("Mod", a, b)), b)


@op("remainder")
def _remainder(w: Any, a: Any, b: Any) -> Any:
    if not w.dtype(a).is_floating_point:
        return w.op("Mod", a, b)
    return w.op("Sub", a, w.op("Mul", w.op("Floor", w.op("Div", a, b)), b))


@op("iota")
def _iota(w: Any, x: Any, shape: Any) -> Any:
    total = w.op("ReduceProd", w.sizes(list(shape)), keepdims=0)
    flat = w.op("Range", w.const(np.int64(0)), total, w.const(np.int64(1)))
    return w.reshape(w.op("Cast", flat, to=w.kind(dt.int32)), shape)


op("reshape")(lambda w, x, shape: w.reshape(x, shape))
op("permute")(lambda w, x, dims: w.turned(x, tuple(dims)) if dims else x)
op("expand")(lambda w, x, shape: w.op("Expand", x, w.sizes(list(shape))))
op("diagonal")(lambda w, x, *attrs: _by_places(w, x, "diagonal", attrs))


@op("slice")
def _slice(w: Any, x: Any, starts: Any, sizes: Any, steps: Any) -> Any:
    shape = w.shape(x)
    axes, begin, end = [], [], []
    for d, (start, size, step) in enumerate(zip(starts, sizes, steps, strict=True)):
        if start == 0 and step == 1 and size == shape[d]:
            continue
        axes.append(d)
        begin.append(start)
        last = w.sum(start, size, step)
        end.append(last if step > 0 else w.sum(last, shape[d], -1))  # -1 is before the first
    if not axes:
        return x
    return w.op(
        "Slice", x, w.sizes(begin), w.sizes(end), w.sizes(axes),
        w.sizes([steps[d] for d in axes]),
    )  # fmt: skip


@op("pad")
def _pad(w: Any, x: Any, widths: Any, value: Any) -> Any:
    pads = [p[0] for p in widths] + [p[1] for p in widths]
    kind = w.dtype(x)
    if kind is dt.bool_:
        eight = w.op("Cast", x, to=w.kind(dt.uint8))
        eight = w.op("Pad", eight, w.sizes(pads), w.const(np.uint8(bool(value))))
        return w.op("Cast", eight, to=w.kind(dt.bool_))
    return w.op("Pad", x, w.sizes(pads), _like(w, x, value))


@op("as_strided")
def _as_strided(w: Any, x: Any, *attrs: Any) -> Any:
    if x in w.strided:
        raise w.no(f"it reads the memory of {x}, which lies in another order than ONNX has")
    return _by_places(w, x, "as_strided", attrs)


@op("sliding_windows")
def _windows(w: Any, x: Any, size: Any, stride: Any, dilation: Any) -> Any:
    k = len(size)
    lead = len(w.shape(x)) - k
    for i, n in enumerate(w.shape(x)[lead:]):
        if not _is_int(n):
            raise w.no("windows along a size that changes")
        count = (n - dilation[i] * (size[i] - 1) - 1) // stride[i] + 1
        places = np.arange(count)[:, None] * stride[i] + np.arange(size[i]) * dilation[i]
        x = w.op("Gather", x, w.const(places), axis=lead + 2 * i)
    pairs = range(lead, lead + 2 * k, 2)
    return w.op("Transpose", x, perm=(*range(lead), *pairs, *[d + 1 for d in pairs]))


for _name, _kind in (("randn_like", "RandomNormalLike"), ("rand_like", "RandomUniformLike")):
    call(_name)(lambda w, a, kind=_kind: w.op(kind, a["input"]))
for _name, _kind in (("randn", "RandomNormal"), ("rand", "RandomUniform")):
    call(_name, fits=lambda a: all(map(_is_int, _each(a["sizes"], 1))))(
        lambda w, a, kind=_kind: w.op(kind, shape=w.out_shape(), dtype=1)
    )


def _places(w: Any, shape: Any, chain: Any) -> Any:
    """Where in its memory a view of a tensor of this shape lies."""
    if not all(map(_is_int, shape)):
        raise w.no("a view of a size that changes")
    found = np.arange(math.prod(shape)).reshape(shape)
    for name, attrs in chain:
        found = REGISTRY[name].numpy(found, *attrs)  # type: ignore[misc]
    return found


def _by_places(w: Any, x: Any, name: str, attrs: Any) -> Any:
    found = _places(w, w.shape(x), [(name, attrs)])
    return w.op("Gather", w.reshape(x, [-1]), w.const(found), axis=0)


@op("put")
def _put(w: Any, base: Any, value: Any, chain: Any) -> Any:
    shape = w.shape(base)
    found = _places(w, shape, [(o.name if hasattr(o, "name") else o, a) for o, a in chain])
    flat = w.reshape(base, [-1])
    value = w.op("Expand", value, w.sizes(list(found.shape)))
    value = w.reshape(value, [-1])
    out = w.op("ScatterElements", flat, w.const(found.reshape(-1)), value, axis=0)
    return w.reshape(out, shape)


def _reduction(name: str, kind: str, axes_since: int) -> None:
    def write(w: Any, x: Any, axes: Any, keepdim: Any) -> Any:
        flags = {"keepdims": int(keepdim)}
        if not axes:
            return x
        if w.opset >= axes_since:
            return w.op(kind, x, w.sizes(list(axes)), **flags)
        return w.op(kind, x, axes=list(axes), **flags)

    op(name)(write)


for _name, _kind, _since in (
    ("sum", "ReduceSum", 13), ("amax", "ReduceMax", 18), ("amin", "ReduceMin", 18),
    ("max", "ReduceMax", 18), ("min", "ReduceMin", 18), ("prod", "ReduceProd", 18),
    ("max_number", "ReduceMax", 18),
):  # fmt: skip
    _reduction(_name, _kind, _since)


@op("argmax")
def _argmax(w: Any, x: Any, axes: Any, keepdim: Any, kind: str = "ArgMax") -> Any:
    if len(axes) != 1:
        if len(axes) != len(w.shape(x)) or keepdim:
            raise w.no("it is over several dims")
        x, axes = w.reshape(x, [-1]), (0,)
    return w.op(kind, x, axis=axes[0], keepdims=int(keepdim))


op("argmin")(lambda w, x, axes, keepdim: _argmax(w, x, axes, keepdim, "ArgMin"))
op("linear")(lambda w, x, weight: w.op("MatMul", x, w.turned(weight, (1, 0))))
op("cumsum")(lambda w, x: w.op("CumSum", x, w.const(np.int64(1))))
op("take_rows")(lambda w, x, index: w.op("Gather", x, index, axis=0))
op("take_along")(lambda w, x, index, dim: w.op("GatherElements", x, index, axis=dim))
op("reorder")(lambda w, x, index: w.op("GatherElements", x, index, axis=-1))


@op("put_along add_along reduce_along")
def _put_along(w: Any, base: Any, index: Any, source: Any, dim: int, how: str = "") -> Any:
    how = how or {"op.add_along": "sum"}.get(w.node.function, "")
    if how in ("amax", "amin") and w.opset < 18:
        raise w.no(f"ScatterElements of opset {w.opset} has no {how}")
    kinds = {"sum": "add", "prod": "mul", "amax": "max", "amin": "min"}
    more = {"reduction": kinds[how]} if how else {}
    return w.op("ScatterElements", base, index, source, axis=dim, **more)


@op("put_rows")
def _put_rows(w: Any, base: Any, index: Any, source: Any, **more: Any) -> Any:
    places = w.op("Cast", w.op("Unsqueeze", index, w.sizes([1])), to=w.kind(dt.int64))
    return w.op("ScatterND", base, places, source, **more)


@op("add_rows")
def _add_rows(w: Any, index: Any, source: Any, rows: Any) -> Any:
    zeros = w.op("Expand", _like(w, source, 0), w.sizes(w.out_shape()))
    return _put_rows(w, zeros, index, source, reduction="add")


# The keys of an order are the elements themselves, where they are floats too.
op("sort_key")(lambda w, x: w.unlike(w.op("Identity", x)))


def _smallest(w: Any, key: Any, n: Any) -> Any:
    """Where the n smallest elements of rows are, in order."""
    return w.op("TopK", key, w.sizes([n]), outputs=2, axis=-1, largest=0)[1]


op("argsort")(_smallest)
op("kth_index")(
    lambda w, key, k: w.op("Slice", _smallest(w, key, k), w.sizes([-1]), w.sizes([k]), w.sizes([1]))
)


@op("atan2")
def _atan2(w: Any, y: Any, x: Any) -> Any:
    zero, pi = _like(w, x, 0), _like(w, x, math.pi)
    angle = w.op("Atan", w.op("Div", y, x))
    turn = w.op("Where", w.op("Less", y, zero), w.op("Neg", pi), pi)
    angle = w.op("Add", angle, w.op("Where", w.op("Less", x, zero), turn, zero))
    nowhere = w.op("And", w.op("Equal", x, zero), w.op("Equal", y, zero))
    return w.op("Where", nowhere, zero, angle)


op("conv")(lambda w, x, weight, *how: _convolved(w, "Conv", x, weight, None, *how))


@op("conv_input")
def _conv_input(
    w: Any, g: Any, weight: Any, size: Any, stride: Any, padding: Any, dilation: Any, groups: Any
) -> Any:
    sizes, more = zip(w.shape(g)[2:], size, w.shape(weight)[2:], strict=True), []
    for (n, out, k), s, p, d in zip(sizes, stride, padding, dilation, strict=True):
        if not (_is_int(n) and _is_int(out)):
            raise w.no("images of a size that changes")
        more.append(out - ((n - 1) * s - 2 * p + d * (k - 1) + 1))
    if any(m >= s for m, s in zip(more, stride, strict=True)):
        raise w.no(f"output_padding is {more}")
    how = stride, padding, dilation, groups
    return _convolved(w, "ConvTranspose", g, weight, None, *how, output_padding=more)


@op("max_pool")
def _max_pool_op(w: Any, x: Any, kernel: Any, stride: Any, dilation: Any) -> Any:
    k = len(kernel)
    lead = len(w.shape(x)) - k
    flat = w.reshape(x, [-1, 1, *w.shape(x)[lead:]])
    out = w.op(
        "MaxPool", flat, kernel_shape=list(kernel), strides=list(stride), dilations=list(dilation)
    )
    return w.reshape(out, w.out_shape())


def row_of(name: str) -> Callable[..., Any] | None:
    """The row of an op."""
    if name.startswith("cat") and name[3:].isdigit():
        return _joined
    return OPS.get(name)


def _joined(w: Any, *args: Any) -> Any:
    *xs, dim, starts = args
    if starts:
        return w.joined(xs, dim)
    shape = list(w.shape(xs[0]))
    one = [w.reshape(x, [*shape[:dim], 1, *shape[dim:]]) for x in xs]
    return w.joined(one, dim)
