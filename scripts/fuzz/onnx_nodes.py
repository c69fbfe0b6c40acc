"""ONNX graphs of random nodes with random attributes: what onnxruntime gives pyframe.onnx gives,
for inputs and for constants, and under pf.compile what it gives without."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import onnx
import onnxruntime
from onnx import helper, numpy_helper

import pyframe as pf
from pyframe.onnx.operators.recurrent import _LAYERS

from .backends import Backend, compiling
from .check import FailureError
from .families import Draw, family

ROWS: dict[str, Callable[[Any], tuple[list[Any], dict[str, Any]]]] = {}
OPSETS = 11, 13, 17, 18, 20
CHAINED = """Abs Neg Relu Sigmoid Tanh Softplus Softsign Erf Identity Floor Ceil Round Elu Selu
LeakyRelu HardSigmoid ThresholdedRelu Celu Softmax LogSoftmax Flatten Transpose Cast
Mul1 Add1 Gather0 ReduceSum1 Slice1 Unsqueeze1""".split()


@dataclass(frozen=True)
class Graph:
    """A model, its inputs, and a text of it."""

    model: Any
    given: dict[str, np.ndarray]

    def check(self, backend: Backend) -> bool:
        """Compare all outputs."""
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads, options.log_severity_level = 1, 4
        try:
            session = onnxruntime.InferenceSession(
                self.model.SerializeToString(), options, ["CPUExecutionProvider"]
            )
            want = session.run(None, self.given)
        except Exception:  # what it refuses, or has no kernel for
            return False
        device = "gpu" if backend.device == "gpu" else "cpu"
        with compiling(backend.generator), warnings.catch_warnings(), pf.no_grad():
            warnings.simplefilter("ignore")
            try:
                net = pf.onnx.load(self.model).to(device)
                step = pf.compile(net) if backend.wrap is pf.compile else net
                for _ in range(2 if step is not net else 1):
                    got = step(**{k: pf.tensor(v, device=device) for k, v in self.given.items()})
            except Exception as error:
                if device == "gpu" and "has no float64" in str(error):
                    return False
                notes = " ".join(getattr(error, "__notes__", ()))
                raise FailureError("error", f"{type(error).__name__}: {error} {notes}") from error
        for a, b in zip(want, got if isinstance(got, tuple) else (got,), strict=True):
            same(a, b)
        return True

    def smaller(self) -> Iterator[Graph]:
        """Without the last node."""
        nodes = self.model.graph.node
        if len(nodes) > 1:
            yield Graph(made([*nodes][:-1], self.model), self.given)

    def text(self, backend: Backend) -> str:
        shown = {k: v.tolist() if v.size < 99 else v.shape for k, v in self.given.items()}
        return f"{onnx.printer.to_text(self.model)}\n{shown}"


def same(want: Any, got: Any) -> None:
    """See that an output is what onnxruntime gave."""
    if isinstance(want, list):
        for a, b in zip(want, got, strict=True):
            same(a, b)
        return
    if isinstance(want, dict):
        want, got = np.array(list(want.values())), np.array(list(got.values()))
    if isinstance(got, pf.Tensor):
        got = got.detach().cpu().numpy()
    if want.shape != got.shape:
        raise FailureError("shape", f"{got.shape}, onnxruntime {want.shape}")
    if want.dtype == object:
        want = want.astype(str)
    if want.dtype != got.dtype and want.dtype.kind != "U":
        raise FailureError("dtype", f"{got.dtype}, onnxruntime {want.dtype}")
    if want.dtype.kind not in "fc":
        if (want != got).any():
            raise FailureError("value", f"{got.ravel()[:9]}, onnxruntime {want.ravel()[:9]}")
        return
    most = 1e-4 * max(float(np.abs(want[np.isfinite(want)]).max(initial=0)), 1)
    if not np.allclose(got, want, 1e-3, most, equal_nan=True):
        raise FailureError("value", f"{got.ravel()[:9]}, onnxruntime {want.ravel()[:9]}")


def made(nodes: list[Any], like: Any) -> Any:
    """A model of some nodes; what nobody reads is an output."""
    read = {name for node in nodes for name in node.input}
    outs = [n for node in nodes for n in node.output if n and n not in read]
    graph = helper.make_graph(
        nodes, "g", list(like.graph.input), [onnx.ValueInfoProto(name=n) for n in outs],
        list(like.graph.initializer),
    )  # fmt: skip
    return helper.make_model(graph, opset_imports=list(like.opset_import), ir_version=10)


def row(names: str) -> Any:
    """Declare what draws inputs and attributes of operators."""

    def declared(function: Any) -> Any:
        ROWS.update(dict.fromkeys(names.split(), function))
        return function

    return declared


def floats(d: Draw, *shape: int) -> np.ndarray:
    rng = np.random.default_rng(d.int(0, 1 << 30))
    x = rng.standard_normal(shape).astype(np.float32)
    return np.round(2 * x) / 2 if d.maybe(0.3) else x  # with ties


def ints(d: Draw, low: int, high: int, *shape: int) -> np.ndarray:
    rng = np.random.default_rng(d.int(0, 1 << 30))
    return rng.integers(low, high, shape, dtype=np.int64)


def numbers(*values: Any) -> np.ndarray:
    return np.array(values, np.int64)


def sizes(d: Draw, least: int, most: int, top: int = 5) -> list[int]:
    return [d.int(1, top) for _ in range(d.int(least, most))]


def some(d: Draw, **attributes: Any) -> dict[str, Any]:
    """Attributes, some of which are left out."""
    return {k: v for k, v in attributes.items() if v is not None and d.maybe(0.7)}


@row("""Abs Neg Relu Sigmoid Tanh Softplus Softsign Erf Identity Sign Floor Ceil Round Exp Sin Cos
Tan Sinh Cosh Asinh Atan Sqrt Log Reciprocal Acos Asin Acosh Atanh Mish IsNaN HardSwish""")
def plain(d: Draw) -> Any:
    return [floats(d, *sizes(d, 0, 4))], {}


@row("Elu LeakyRelu Celu ThresholdedRelu")
def with_alpha(d: Draw) -> Any:
    return [floats(d, *sizes(d, 1, 4))], some(d, alpha=d.pick(0.1, 0.5, 2.0))


@row("HardSigmoid")
def hard_sigmoid(d: Draw) -> Any:
    return [floats(d, *sizes(d, 1, 4))], some(d, alpha=0.3, beta=0.4)


@row("Selu")
def selu(d: Draw) -> Any:
    return [floats(d, *sizes(d, 1, 4))], some(d, alpha=1.2, gamma=0.9)


@row("Add Sub Mul Div Max Min Less Greater Equal LessOrEqual GreaterOrEqual Pow PRelu Sum Mean")
def joined(d: Draw) -> Any:
    shape = sizes(d, 1, 4)
    other = [n if d.maybe(0.7) else 1 for n in shape]
    if d.maybe(0.2):
        return [ints(d, -5, 6, *shape), ints(d, 1, 6, *other)], {}
    return [floats(d, *shape), floats(d, *other[d.int(0, len(other) - 1) :])], {}


@row("Mod")
def mod(d: Draw) -> Any:
    shape = sizes(d, 1, 3)
    if d.maybe():
        return [floats(d, *shape), floats(d, *shape) + 0.1], {"fmod": 1}
    return [ints(d, -9, 10, *shape), ints(d, 1, 5, *shape) * d.pick(1, -1)], some(d, fmod=1)


@row("And Or Xor")
def logical(d: Draw) -> Any:
    shape = sizes(d, 1, 3)
    return [ints(d, 0, 2, *shape).astype(bool), ints(d, 0, 2, *shape).astype(bool)], {}


@row("BitShift")
def bit_shift(d: Draw) -> Any:
    shape = sizes(d, 1, 3)
    kind = d.pick(np.uint8, np.uint32)
    x, y = ints(d, 0, 200, *shape).astype(kind), ints(d, 0, 7, *shape).astype(kind)
    return [x, y], {"direction": d.pick("LEFT", "RIGHT")}


@row("Where")
def where(d: Draw) -> Any:
    shape = sizes(d, 1, 3)
    return [ints(d, 0, 2, *shape).astype(bool), floats(d, *shape), floats(d, 1)], {}


@row("Clip")
def clip(d: Draw) -> Any:
    low, high = np.float32(d.pick(-1, 0)), np.float32(d.pick(0.5, 1, -2))
    return [floats(d, *sizes(d, 1, 3)), low if d.maybe() else None, high], {}


@row("Softmax LogSoftmax Hardmax")
def along(d: Draw) -> Any:
    shape = sizes(d, 1, 4)
    return [floats(d, *shape)], some(d, axis=d.int(-len(shape), len(shape) - 1))


@row("ReduceSum ReduceMean ReduceMax ReduceMin ReduceProd ReduceL1 ReduceL2 ReduceLogSum "
     "ReduceLogSumExp ReduceSumSquare")  # fmt: skip
def reduction(d: Draw) -> Any:
    shape = sizes(d, 1, 4)
    axes = d.rng.sample(range(len(shape)), d.int(1, len(shape)))
    x = ints(d, -1, 2, *shape) if d.maybe(0.2) else np.abs(floats(d, *shape)) + 0.1
    more = some(d, keepdims=d.pick(0, 1), noop_with_empty_axes=d.pick(0, 1))
    return [x, numbers(*axes) if d.maybe(0.8) else None], more


@row("ArgMax ArgMin")
def position(d: Draw) -> Any:
    shape = sizes(d, 1, 4)
    axis = d.int(-len(shape), len(shape) - 1)
    return [floats(d, *shape)], some(
        d, axis=axis, keepdims=d.pick(0, 1), select_last_index=d.pick(0, 1)
    )


@row("CumSum")
def cum_sum(d: Draw) -> Any:
    shape = sizes(d, 1, 4)
    axis = np.int64(d.int(-len(shape), len(shape) - 1))
    return [floats(d, *shape), axis], some(d, exclusive=d.pick(0, 1), reverse=d.pick(0, 1))


@row("TopK")
def top_k(d: Draw) -> Any:
    shape = sizes(d, 1, 3)
    axis = d.int(-len(shape), len(shape) - 1)
    more = {"axis": axis, **some(d, largest=d.pick(0, 1))}
    return [floats(d, *shape), numbers(d.int(1, shape[axis]))], more


@row("Slice")
def sliced(d: Draw) -> Any:
    shape = sizes(d, 1, 4)
    axes = d.rng.sample(range(len(shape)), d.int(1, len(shape)))
    ends = (-(2**31), -99, -6, -5, -4, -3, -2, -1, 0, 1, 2, 3, 4, 5, 6, 99, 2**31 - 1, 2**63 - 1)
    starts = numbers(*(d.pick(*ends) for _ in axes))
    steps = numbers(*(d.pick(1, 1, 2, 3, -1, -2, -3, 99, -99) for _ in axes))
    signed = numbers(*(a - len(shape) if d.maybe(0.3) else a for a in axes))
    stops = numbers(*(d.pick(*ends[: None if s > 0 else -2]) for s in steps))  # see the standard
    x = ints(d, 0, 99, *shape) if d.maybe(0.3) else floats(d, *shape)
    return [x, starts, stops, signed, steps], {}


@row("Gather")
def gather(d: Draw) -> Any:
    shape = sizes(d, 1, 3)
    axis = d.int(-len(shape), len(shape) - 1)
    index = ints(d, -shape[axis], shape[axis], *sizes(d, 0, 2, 4))
    return [floats(d, *shape), index], some(d, axis=axis) if axis % len(shape) == 0 else {
        "axis": axis
    }


@row("GatherElements ScatterElements")
def elements(d: Draw) -> Any:
    shape = sizes(d, 1, 3)
    axis = d.int(-len(shape), len(shape) - 1)
    index = ints(d, -shape[axis], shape[axis], *shape)
    return [floats(d, *shape), index], {"axis": axis}


@row("GatherND")
def gather_nd(d: Draw) -> Any:
    shape = sizes(d, 2, 4)
    batch = d.int(0, 1)
    k = d.int(1, len(shape) - batch)
    lead = [*shape[:batch], d.int(1, 3)]
    parts = [ints(d, -n, n, *lead) for n in shape[batch : batch + k]]
    return [floats(d, *shape), np.stack(parts, -1)], {"batch_dims": batch}


@row("ScatterND")
def scatter_nd(d: Draw) -> Any:
    shape = sizes(d, 1, 3)
    k = d.int(1, len(shape))
    at = d.rng.sample(range(int(np.prod(shape[:k]))), 1)
    index = np.stack(np.unravel_index(at, shape[:k]), -1).astype(np.int64)
    more = some(d, reduction=d.pick("none", "add", "mul", "max", "min"))
    return [floats(d, *shape), index, floats(d, 1, *shape[k:])], more


@row("OneHot")
def one_hot(d: Draw) -> Any:
    shape, depth = sizes(d, 1, 3), d.int(1, 5)
    index = ints(d, -depth - 1, depth + 1, *shape)
    more = some(d, axis=d.int(-len(shape) - 1, len(shape)))
    return [index, np.int64(depth), np.array([0.5, 2], np.float32)], more


@row("Pad")
def pad(d: Draw) -> Any:
    shape = sizes(d, 1, 4)
    mode = d.pick("constant", "constant", "reflect", "edge", "wrap")
    low = -1 if mode == "constant" else 0
    pads = [d.int(low, 2) if n > 2 else d.int(0, 1) * (n > 1) for _ in range(2) for n in shape]
    return [floats(d, *shape), numbers(*pads), np.float32(0.5)], {"mode": mode}


@row("Expand Tile Reshape")
def reshaped(d: Draw) -> Any:
    shape = sizes(d, 1, 3)
    d.kind = d.pick("Expand", "Tile", "Reshape")
    if d.kind == "Expand":
        new = [d.int(1, 4) if n == 1 else d.pick(1, n) for n in shape]
        return [floats(d, *shape), numbers(*sizes(d, 0, 2, 3), *new)], {}
    if d.kind == "Tile":
        return [floats(d, *shape), numbers(*(d.int(0, 3) for _ in shape))], {}
    return [floats(d, *shape), numbers(*d.pick([-1], [0, -1], [1, -1, shape[-1]]))], {}


@row("Transpose")
def transpose(d: Draw) -> Any:
    shape = sizes(d, 1, 4)
    return [floats(d, *shape)], some(d, perm=d.rng.sample(range(len(shape)), len(shape)))


@row("Concat")
def concat(d: Draw) -> Any:
    shape = sizes(d, 1, 3)
    axis = d.int(-len(shape), len(shape) - 1)
    parts = []
    for _ in range(d.int(1, 3)):
        shape[axis] = d.int(0, 3)
        parts.append(floats(d, *shape))
    return parts, {"axis": axis}


@row("Split")
def split(d: Draw) -> Any:
    shape = sizes(d, 1, 3)
    axis = d.int(-len(shape), len(shape) - 1)
    n = shape[axis]
    first = d.int(0, n)
    d.outputs = 2
    return [floats(d, *shape), numbers(first, n - first)], {"axis": axis}


@row("Trilu")
def trilu(d: Draw) -> Any:
    return [floats(d, *sizes(d, 2, 4)), np.int64(d.int(-4, 4))], some(d, upper=d.pick(0, 1))


@row("DepthToSpace")
def depth_to_space(d: Draw) -> Any:
    b = d.int(1, 3)
    shape = d.int(1, 2), b * b * d.int(1, 2), d.int(1, 3), d.int(1, 3)
    return [floats(d, *shape)], {"blocksize": b, **some(d, mode=d.pick("DCR", "CRD"))}


@row("SpaceToDepth")
def space_to_depth(d: Draw) -> Any:
    b = d.int(1, 3)
    return [floats(d, 1, d.int(1, 3), b * d.int(1, 3), b * d.int(1, 3))], {"blocksize": b}


@row("EyeLike")
def eye_like(d: Draw) -> Any:
    return [floats(d, *sizes(d, 2, 2))], some(d, k=d.int(-3, 3))


@row("Range")
def counted(d: Draw) -> Any:
    kind = d.pick(np.int64, np.float32, np.int32)
    return [kind(d.int(-3, 3)), kind(d.int(-9, 9)), kind(d.pick(1, 2, -1, -2))], {}


@row("MatMul")
def mat_mul(d: Draw) -> Any:
    n, k, m = sizes(d, 3, 3)
    lead = sizes(d, 0, 2, 3)
    a, b = d.pick(([*lead, n, k], [k, m]), ([*lead, n, k], [*lead, k, m]), ([k], [*lead, k, m]))
    return [floats(d, *a), floats(d, *b)], {}


@row("Gemm")
def gemm(d: Draw) -> Any:
    n, k, m = sizes(d, 3, 3)
    more = some(d, alpha=0.5, beta=2.0, transA=d.pick(0, 1), transB=d.pick(0, 1))
    a = [k, n] if more.get("transA") else [n, k]
    b = [m, k] if more.get("transB") else [k, m]
    c = d.pick(None, floats(d, m), floats(d, n, 1), floats(d, 1), floats(d, n, m))
    return [floats(d, *a), floats(d, *b), c], more


def windows(d: Draw, k: int, size: list[int]) -> tuple[list[int], dict[str, Any]]:
    """A kernel, and how it is moved."""
    kernel = [d.int(1, min(n, 3)) for n in size]
    more = some(d, strides=[d.int(1, 3) for _ in range(k)])
    if d.maybe(0.3):
        more["dilations"] = [d.int(1, 2) for _ in range(k)]
    mode = d.pick("NOTSET", "pads", "SAME_UPPER", "SAME_LOWER", "VALID")
    if mode == "pads":
        more["pads"] = [d.int(0, n // 2) for _ in range(2) for n in kernel]
    elif mode != "NOTSET":
        more["auto_pad"] = mode
    return kernel, more


@row("Conv")
def conv(d: Draw) -> Any:
    k, group = d.int(1, 3), d.pick(1, 1, 2)
    size = [d.int(3, 6) for _ in range(k)]
    kernel, more = windows(d, k, size)
    each, out = d.int(1, 2), group * d.int(1, 2)
    bias = floats(d, out) if d.maybe() else None
    x, w = floats(d, d.int(1, 2), group * each, *size), floats(d, out, each, *kernel)
    return [x, w, bias], {"group": group, **more}


@row("ConvTranspose")
def conv_transpose(d: Draw) -> Any:
    k, group = d.int(1, 2), d.pick(1, 1, 2)
    size, kernel = [d.int(1, 5) for _ in range(k)], [d.int(1, 4) for _ in range(k)]
    s, t = [d.int(1, 3) for _ in range(k)], [d.int(1, 2) for _ in range(k)]
    more: dict[str, Any] = {"group": group, "strides": s, "dilations": t}
    whole = [a * (n - 1) + (f - 1) * b + 1
             for n, f, a, b in zip(size, kernel, s, t, strict=True)]  # fmt: skip
    if d.maybe(0.3):
        more["output_padding"] = [d.int(0, max(a, b) - 1) for a, b in zip(s, t, strict=True)]
    if d.maybe(0.4):
        more["output_shape"] = [max(1, n - d.int(0, 3)) for n in whole]
        more |= some(d, auto_pad=d.pick("SAME_UPPER", "SAME_LOWER", "NOTSET"))
    else:
        more |= some(d, pads=[d.int(0, 1) for _ in range(2 * k)])
    out = d.int(1, 2)
    bias = floats(d, out * group) if d.maybe() else None
    return [floats(d, 1, 2 * group, *size), floats(d, 2 * group, out, *kernel), bias], more


@row("MaxPool AveragePool LpPool")
def pool(d: Draw) -> Any:
    k = d.int(1, 3)
    size = [d.int(3, 7) for _ in range(k)]
    kernel, more = windows(d, k, size)
    if "auto_pad" in more:  # of which onnxruntime counts no dilations here
        more.pop("dilations", None)
    if d.maybe(0.3):
        more["ceil_mode"] = 1
    if d.maybe(0.3):
        d.also["AveragePool"] = {"count_include_pad": 1}
    return [floats(d, d.int(1, 2), 2, *size)], {"kernel_shape": kernel, **more}


@row("GlobalAveragePool GlobalMaxPool GlobalLpPool")
def global_pool(d: Draw) -> Any:
    return [floats(d, *sizes(d, 3, 5))], {}


@row("Resize")
def resize(d: Draw) -> Any:
    mode = d.pick("nearest", "nearest", "linear", "cubic")
    size = [d.int(1, 7) for _ in range(2)]
    scales = [1, 1, *(d.pick(0.5, 0.6, 0.75, 1, 1.5, 2, 3, 7 / 3, 1 / 3, 1.7) for _ in size)]
    scales = [s if int(n * s) != n else 1 for s, n in zip(scales, [1, 1, *size], strict=True)]
    if d.opset < 13:
        d.opset = 10 if mode != "cubic" else 13
    if d.opset == 10:
        return [floats(d, 1, 1, *size), np.array(scales, np.float32)], {"mode": mode}
    place = d.pick("half_pixel", "pytorch_half_pixel", "asymmetric")
    more = {"mode": mode, "coordinate_transformation_mode": place}
    if mode == "nearest":
        more["nearest_mode"] = d.pick("round_prefer_floor", "round_prefer_ceil", "floor", "ceil")
    if d.maybe():
        new = [max(1, int(n * s)) for n, s in zip([1, 1, *size], scales, strict=True)]
        return [floats(d, 1, 1, *size), None, None, numbers(*new)], more
    return [floats(d, 1, 1, *size), None, np.array(scales, np.float32)], more


@row("GridSample")
def grid_sample(d: Draw) -> Any:
    x, grid = floats(d, 1, 2, d.int(1, 4), d.int(1, 4)), floats(d, 1, 3, 2, 2) * 0.97  # few ties
    mode = d.pick("linear", "nearest", "cubic") if d.opset >= 20 else d.pick("bilinear", "nearest")
    return [x, grid], {"mode": mode, **some(
        d, padding_mode=d.pick("zeros", "border", "reflection"), align_corners=d.pick(0, 1)
    )}  # fmt: skip


@row("BatchNormalization")
def batch_norm(d: Draw) -> Any:
    c = d.int(1, 4)
    x = floats(d, d.int(1, 3), c, *sizes(d, 0, 2))
    rest = [floats(d, c), floats(d, c), floats(d, c), np.abs(floats(d, c)) + 0.1]
    return [x, *rest], some(d, epsilon=0.01)


@row("InstanceNormalization")
def instance_norm(d: Draw) -> Any:
    c = d.int(1, 3)
    return [floats(d, 2, c, *sizes(d, 1, 2)), floats(d, c), floats(d, c)], some(d, epsilon=0.01)


@row("LayerNormalization")
def layer_norm(d: Draw) -> Any:
    shape = sizes(d, 2, 4)
    axis = d.int(1, len(shape) - 1)
    d.opset = max(d.opset, 17)
    rest = floats(d, *shape[axis:]), floats(d, *shape[axis:])
    return [floats(d, *shape), rest[0], rest[1] if d.maybe() else None], {"axis": axis}


@row("LRN")
def lrn(d: Draw) -> Any:
    more = some(d, alpha=0.1, beta=0.5, bias=2.0)
    return [floats(d, 1, d.int(1, 6), *sizes(d, 2, 2))], {"size": d.pick(1, 3, 5), **more}


@row("LpNormalization")
def lp_norm(d: Draw) -> Any:
    shape = sizes(d, 1, 3)
    return [floats(d, *shape)], some(d, axis=d.int(-len(shape), len(shape) - 1), p=d.pick(1, 2))


@row("RNN GRU LSTM")
def recurrent(d: Draw) -> Any:
    kind = d.kind = d.pick(*_LAYERS)
    usual = _LAYERS[kind][1]
    gates = {"RNN": 1, "GRU": 3, "LSTM": 4}[kind]
    t, b, i, h = d.pick(1, 2, 4), d.int(1, 3), d.int(1, 3), d.int(1, 3)
    direction = d.pick("forward", "reverse", "bidirectional")
    n = 1 + (direction == "bidirectional")
    more = {"hidden_size": h, "direction": direction, **some(d, clip=d.pick(0.3, 1.5))}
    if d.maybe():  # Affine is wrong in some versions of onnxruntime
        named = {"Sigmoid": 0, "Tanh": 0, "Relu": 0, "Softsign": 0, "Softplus": 0, "LeakyRelu": 1,
                 "ThresholdedRelu": 1, "Elu": 1, "ScaledTanh": 2, "HardSigmoid": 2}  # fmt: skip
        more["activations"] = chosen = [d.pick(*named) for _ in range(n * len(usual))]
        alphas = [0.1 * d.int(1, 9) for a in chosen if named[a]]
        betas = [0.1 * d.int(1, 9) for a in chosen if named[a] == 2]
        more |= {"activation_alpha": alphas} if alphas else {}
        more |= {"activation_beta": betas} if betas else {}
    if kind == "GRU":
        more |= some(d, linear_before_reset=1)
    given = [floats(d, t, b, i), floats(d, n, gates * h, i), floats(d, n, gates * h, h)]
    others = [
        floats(d, n, 2 * gates * h),
        ints(d, 1, t + 1, b).astype(np.int32),
        floats(d, n, b, h),
    ]
    if kind == "LSTM":
        others += [floats(d, n, b, h), floats(d, n, 3 * h)]
        more |= some(d, input_forget=1)
    d.outputs = 3 if kind == "LSTM" else 2
    return [*given, *(x if d.maybe() else None for x in others)], more


@row("QuantizeLinear DequantizeLinear")
def quantize(d: Draw) -> Any:
    kind = d.pick(np.uint8, np.int8)
    x, zero = floats(d, *sizes(d, 1, 3)) * 9, kind(d.int(0, 9))
    d.kind = d.pick("QuantizeLinear", "DequantizeLinear")
    if d.kind == "DequantizeLinear":
        x = x.astype(np.int8).astype(kind)
    return [x, np.float32(d.pick(0.5, 0.1)), zero], {}


@row("MatMulInteger")
def mat_mul_integer(d: Draw) -> Any:
    n, k, m = sizes(d, 3, 3)
    a, b = (ints(d, 0, 200, *s).astype(np.uint8) for s in ((n, k), (k, m)))
    return [a, b, np.uint8(d.int(0, 9)), np.uint8(d.int(0, 9))], {}


@row("Einsum")
def einsum(d: Draw) -> Any:
    n, k, m = sizes(d, 3, 3)
    text, a, b = d.pick(
        ("ij,jk->ik", [n, k], [k, m]), ("ij,ij->i", [n, k], [n, k]),
        ("bij,bjk", [2, n, k], [2, k, m]),
        ("...i,i->...", [m, n, k], [k]), ("ij,kj->", [n, k], [m, k]),
    )  # fmt: skip
    return [floats(d, *a), floats(d, *b)], {"equation": text}


@row("NonZero Shape Size Det")
def counted_of(d: Draw) -> Any:
    n = d.int(1, 3)
    return [floats(d, 2, n, n)], {}


@row("Unique")
def unique(d: Draw) -> Any:
    d.outputs = 4
    return [ints(d, 0, 4, d.int(1, 9)).astype(np.float32)], some(d, sorted=d.pick(0, 1))


@row("ReverseSequence")
def reverse_sequence(d: Draw) -> Any:
    t, b = d.int(1, 4), d.int(1, 4)
    batch = d.int(0, 1)
    shape = [t, b] if batch else [b, t]
    more = {"batch_axis": batch, "time_axis": 1 - batch}
    return [floats(d, *shape, 2), ints(d, 1, t + 1, b)], more


@row("Cast")
def cast(d: Draw) -> Any:
    to = d.pick(*(getattr(onnx.TensorProto, n) for n in ("INT32", "INT64", "DOUBLE", "BOOL")))
    return [floats(d, *sizes(d, 1, 3)) * 3], {"to": to}


@row("RoiAlign")
def roi_align(d: Draw) -> Any:
    d.opset = max(d.opset, 16)
    corner = np.abs(floats(d, 2, 2))
    rois = np.concatenate([corner, corner + np.abs(floats(d, 2, 2)) + 0.5], 1)
    place = d.pick("half_pixel", "output_half_pixel")
    more = some(
        d, sampling_ratio=d.int(0, 2), spatial_scale=0.7, coordinate_transformation_mode=place
    )
    more |= {"output_height": d.int(1, 3), "output_width": d.int(1, 3)}
    return [floats(d, 2, 2, 5, 5), rois, numbers(0, 1)], more


# --- ai.onnx.ml


@row("ml.Scaler")
def scaler(d: Draw) -> Any:
    n = d.int(1, 4)
    x = ints(d, -5, 5, 3, n) if d.maybe(0.3) else floats(d, 3, n)
    few = d.pick(1, n)
    return [x], {"offset": floats(d, few).tolist(), "scale": floats(d, few).tolist()}


@row("ml.Normalizer")
def normalizer(d: Draw) -> Any:
    return [floats(d, 3, d.int(1, 4))], {"norm": d.pick("MAX", "L1", "L2")}


def labelled(d: Draw, n: int, ints_name: str) -> dict[str, Any]:
    some_ints = [7 * i - 3 for i in range(n)]
    texts = [f"c{i}" for i in range(n)]
    return {"classlabels_strings": texts} if d.maybe(0.3) else {ints_name: some_ints}


POSTS = "NONE", "NONE", "LOGISTIC", "SOFTMAX", "SOFTMAX_ZERO"


@row("ml.LinearClassifier")
def linear_classifier(d: Draw) -> Any:
    n, k = d.int(1, 4), d.int(1, 4)
    classes = 2 if k == 1 else k
    d.outputs = 2
    return [floats(d, 3, n)], {
        "coefficients": floats(d, k * n).tolist(), "intercepts": floats(d, k).tolist(),
        "post_transform": d.pick(*POSTS), **labelled(d, classes, "classlabels_ints"),
    }  # fmt: skip


@row("ml.LinearRegressor")
def linear_regressor(d: Draw) -> Any:
    n, k = d.int(1, 4), d.int(1, 3)
    return [floats(d, 3, n)], {
        "coefficients": floats(d, k * n).tolist(), "intercepts": floats(d, k).tolist(),
        "targets": k, **some(d, post_transform=d.pick(*POSTS)),
    }  # fmt: skip


def forest(d: Draw, features: int, targets: list[int], kind: str) -> dict[str, Any]:
    """Random trees, whose leaves have weights for these targets."""
    nodes: dict[str, list[Any]] = {
        f"nodes_{name}": [] for name in (
            "treeids", "nodeids", "featureids", "values", "modes", "truenodeids", "falsenodeids",
            "missing_value_tracks_true",
        )
    }  # fmt: skip
    ends: dict[str, list[Any]] = {
        f"{kind}_{n}": [] for n in ("treeids", "nodeids", "ids", "weights")
    }
    modes = [d.pick("LEQ", "LT", "GTE", "GT", "EQ", "NEQ")] * 2 + (
        ["LEQ", "GT"] if d.maybe() else []
    )
    positive, tracks = d.maybe(), d.maybe()

    def grown(tree: int, depth: int) -> int:
        me = nodes["nodes_treeids"].count(tree)
        at = len(nodes["nodes_treeids"])
        leaf = depth == 0 or (depth < 3 and d.maybe(0.2))
        for key, value in {
            "treeids": tree, "nodeids": me, "featureids": 0 if leaf else d.int(0, features - 1),
            "values": 0.0 if leaf else d.pick(-0.5, 0.0, 0.5, 1.0),
            "modes": "LEAF" if leaf else f"BRANCH_{d.pick(*modes)}", "truenodeids": 0,
            "falsenodeids": 0, "missing_value_tracks_true": int(tracks and d.maybe()),
        }.items():  # fmt: skip
            nodes[f"nodes_{key}"].append(value)
        if leaf:
            for target in targets:
                weight = d.int(-8, 8) / 8
                for key, value in {
                    "treeids": tree, "nodeids": me, "ids": target,
                    "weights": abs(weight) if positive else weight,
                }.items():  # fmt: skip
                    ends[f"{kind}_{key}"].append(value)
        else:
            nodes["nodes_truenodeids"][at] = grown(tree, depth - 1)
            nodes["nodes_falsenodeids"][at] = grown(tree, depth - 1)
        return me

    for tree in range(d.int(1, 4)):
        grown(tree, d.int(0, 3))
    return {**nodes, **ends}


def holed(d: Draw, *shape: int) -> np.ndarray:
    """Floats, some of which are nan."""
    x = floats(d, *shape)
    if d.maybe(0.3):
        x[0, 0] = np.nan
    return x


@row("ml.TreeEnsembleRegressor")
def tree_regressor(d: Draw) -> Any:
    n, k = d.int(1, 3), d.int(1, 3)
    every = d.maybe(0.8)
    more = forest(d, n, [*range(k)] if every else [0], "target")
    how = d.pick("SUM", "AVERAGE", "MIN", "MAX")
    base = {"base_values": floats(d, k).tolist()} if every and d.maybe(0.3) else {}
    return [holed(d, 5, n)], {"n_targets": k, "aggregate_function": how, **base, **more,
                              "post_transform": d.pick(*POSTS)}  # fmt: skip


@row("ml.TreeEnsembleClassifier")
def tree_classifier(d: Draw) -> Any:
    n, k = d.int(1, 3), d.int(2, 4)
    ids = [*range(k)] if k > 2 else [0]  # of two others onnxruntime calls them 0 and 1
    base = {"base_values": floats(d, len(ids)).tolist()} if d.maybe(0.3) else {}
    d.outputs = 2
    return [holed(d, 5, n)], {
        **forest(d, n, ids, "class"), **base, "post_transform": d.pick(*POSTS),
        **labelled(d, k, "classlabels_int64s"),
    }  # fmt: skip


@row("ml.Imputer")
def imputer(d: Draw) -> Any:
    n = d.int(1, 3)
    x = holed(d, 4, n)
    old = d.pick(float("nan"), 0.5)
    return [x], {
        "imputed_value_floats": floats(d, d.pick(1, n)).tolist(),
        "replaced_value_float": old,
    }


@row("ml.Binarizer")
def binarizer(d: Draw) -> Any:
    return [floats(d, *sizes(d, 1, 3))], some(d, threshold=0.5)


@row("ml.OneHotEncoder")
def one_hot_encoder(d: Draw) -> Any:
    return [ints(d, 0, 4, *sizes(d, 1, 2))], {"cats_int64s": [0, 3, 1], "zeros": 1}


@row("ml.LabelEncoder")
def label_encoder(d: Draw) -> Any:
    to = d.pick(
        {"values_strings": ["a", "b"]}, {"values_floats": [0.5, 1]}, {"values_int64s": [8, 9]}
    )
    return [ints(d, 0, 4, *sizes(d, 1, 2))], {"keys_int64s": [1, 3], **to}


@row("ml.ArrayFeatureExtractor")
def extractor(d: Draw) -> Any:
    n = d.int(1, 4)
    return [floats(d, d.int(1, 3), n), ints(d, 0, n, 1, d.int(1, 3))], {}


@row("ml.FeatureVectorizer")
def feature_vectorizer(d: Draw) -> Any:
    widths = sizes(d, 1, 3, 3)
    return [floats(d, 2, n) for n in widths], {"inputdimensions": widths}


def after(d: Draw, name: str, at: str, k: int) -> tuple[Any, dict[str, np.ndarray]]:
    """A node that goes on from a value of any shape, and its constants."""
    constants = {
        "Mul1": np.float32(0.5), "Add1": np.float32(1), "Gather0": np.int64(d.pick(0, -1)),
        "ReduceSum1": numbers(-1), "Unsqueeze1": numbers(0),
    }  # fmt: skip
    kind = name.rstrip("01")
    more = {"Cast": {"to": d.pick(1, 11)}, "ReduceSum": {"keepdims": d.pick(0, 1)}}.get(kind, {})
    new = {f"k{k}": constants[name]} if name in constants else {}
    if kind == "Slice":
        new = {f"k{k}_{i}": numbers(v) for i, v in enumerate((d.int(-3, 3), d.int(-9, 9), 0,
                                                              d.pick(1, -1, 2)))}  # fmt: skip
    return helper.make_node(kind, [at, *new], [f"n{k}"], f"node{k}", **more), new


@family("onnx_nodes")
def onnx_nodes(d: Draw) -> Graph:
    """A node of the table, and some that go on from its outputs."""
    name = d.pick(*ROWS)
    d.opset, d.outputs, d.also, d.kind = d.pick(*OPSETS), 1, {}, None  # type: ignore[attr-defined]
    inputs, attributes = ROWS[name](d)
    name = d.kind or name
    attributes |= d.also.get(name, {})
    while inputs and inputs[-1] is None:
        inputs.pop()
    names = [f"x{i}" if x is not None else "" for i, x in enumerate(inputs)]
    arrays = {n: np.asarray(x) for n, x in zip(names, inputs, strict=True) if n}
    outs = [f"y{i}" for i in range(d.outputs)]
    domain = "ai.onnx.ml" if name.startswith("ml.") else ""
    nodes = [helper.make_node(name.removeprefix("ml."), names, outs, "first", domain=domain,
                              **attributes)]  # fmt: skip
    constants = {n: x for n, x in arrays.items() if n != "x0" and d.maybe(0.6)}
    if d.maybe(0.1):
        constants = dict(arrays)
    at = outs[-1] if domain else outs[0]
    for k in range(d.pick(0, 0, 1, 2, 4)):
        node, new = after(d, d.pick(*CHAINED), at, k)
        nodes.append(node)
        constants |= new
        at = node.output[0]
    given = {n: x for n, x in arrays.items() if n not in constants}
    graph = helper.make_graph(
        nodes, "g",
        [helper.make_tensor_value_info(n, helper.np_dtype_to_tensor_dtype(x.dtype), x.shape)
         for n, x in given.items()],
        [], [numpy_helper.from_array(x, n) for n, x in constants.items()],
    )  # fmt: skip
    sets = [helper.make_opsetid("", d.opset), helper.make_opsetid("ai.onnx.ml", 3)]
    return Graph(made(nodes, helper.make_model(graph, opset_imports=sets)), given)
