"""Convolution and pooling in any number of spatial dims.

The three products of a convolution (its result, the gradients of its input and its weight) are
ops of their own, each linear in both operands, so that their gradients are one another.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from pyframe import dtypes as dt
from pyframe.graph.view import window_count
from pyframe.ops import bound_routines, elementwise as el, movement as mv
from pyframe.ops.matmul import matmul
from pyframe.ops.op import ROUTINE, Op, apply
from pyframe.ops.reduce import argmax, sum as sum_
from pyframe.tensor import Tensor

Shape = tuple[int, ...]


def _pad_np(x: np.ndarray, padding: Shape, value: float = 0) -> np.ndarray:
    if not any(padding):
        return x
    widths = ((0, 0),) * (x.ndim - len(padding)) + tuple((p, p) for p in padding)
    return np.pad(x, widths, constant_values=value)


def _columns(x: np.ndarray, kernel: Shape, stride: Shape, dilation: Shape, groups: int) -> Any:
    """(N, C, *spatial) -> (N, groups, C/groups * prod(kernel), prod(positions))."""
    k = len(kernel)
    n, c = x.shape[:2]
    count = window_count(x.shape[2:], kernel, stride, dilation)
    out = np.empty((n, c, *kernel, *count), x.dtype)
    for at in np.ndindex(*kernel):
        place = tuple(
            slice(i * d, i * d + (m - 1) * s + 1, s)
            for i, d, m, s in zip(at, dilation, count, stride, strict=True)
        )
        out[(slice(None), slice(None), *at)] = x[(..., *place)]
    return out.reshape(n, groups, c // groups * math.prod(out.shape[2 : 2 + k]), math.prod(count))


def _conv_np(
    x: np.ndarray, w: np.ndarray, stride: Shape, padding: Shape, dilation: Shape, groups: int
) -> np.ndarray:
    kernel = w.shape[2:]
    x = _pad_np(x, padding)
    count = window_count(x.shape[2:], kernel, stride, dilation)
    cols = _columns(x, kernel, stride, dilation, groups)
    rows = w.reshape(groups, w.shape[0] // groups, -1)
    return np.matmul(rows, cols).reshape((x.shape[0], w.shape[0], *count))


def _conv_input_np(
    g: np.ndarray, w: np.ndarray, spatial: Shape, stride: Shape, padding: Shape, dilation: Shape,
    groups: int,
) -> np.ndarray:  # fmt: skip
    kernel, count, n = w.shape[2:], g.shape[2:], g.shape[0]
    rows = w.reshape(groups, w.shape[0] // groups, -1).swapaxes(1, 2)
    cols = np.matmul(rows, g.reshape(n, groups, g.shape[1] // groups, -1))
    cols = cols.reshape(n, groups * w.shape[1], *kernel, *count)
    padded = tuple(s + 2 * p for s, p in zip(spatial, padding, strict=True))
    out = np.zeros((n, groups * w.shape[1], *padded), g.dtype)
    for at in np.ndindex(*kernel):
        place = tuple(
            slice(i * d, i * d + (m - 1) * s + 1, s)
            for i, d, m, s in zip(at, dilation, count, stride, strict=True)
        )
        out[(..., *place)] += cols[(slice(None), slice(None), *at)]
    inner = tuple(slice(p, p + s) for p, s in zip(padding, spatial, strict=True))
    return np.ascontiguousarray(out[(..., *inner)])


def _conv_weight_np(
    g: np.ndarray, x: np.ndarray, kernel: Shape, stride: Shape, padding: Shape, dilation: Shape,
    groups: int,
) -> np.ndarray:  # fmt: skip
    cols = _columns(_pad_np(x, padding), kernel, stride, dilation, groups)
    rows = g.reshape(g.shape[0], groups, g.shape[1] // groups, -1)
    out = np.matmul(rows, cols.swapaxes(2, 3)).sum(0)
    return out.reshape(g.shape[1], x.shape[1] // groups, *kernel)


def _pad(x: Tensor, padding: Shape, value: Any = 0) -> Tensor:
    return mv.pad(x, ((0, 0),) * (x.ndim - len(padding)) + tuple((p, p) for p in padding), value)


def _window_columns(
    x: Tensor, kernel: Shape, stride: Shape, padding: Shape, dilation: Shape, groups: int,
    positions_last: bool,
) -> Tensor:  # fmt: skip
    """The columns of a convolution as a view: the product's kernel reads straight through it."""
    k = len(kernel)
    win = mv.windows(_pad(x, padding), kernel, stride, dilation)  # (N, C, *positions, *kernel)
    n, c = win._node.shape[:2]
    count = win._node.shape[2 : 2 + k]
    win = mv.reshape(win, (n, groups, c // groups, *count, *kernel))
    at, ker = list(range(3, 3 + k)), list(range(3 + k, 3 + 2 * k))
    rows, p = c // groups * math.prod(kernel), math.prod(count)
    if positions_last:
        return mv.reshape(mv.permute(win, (0, 1, 2, *ker, *at)), (n, groups, rows, p))
    return mv.reshape(mv.permute(win, (0, 1, *at, 2, *ker)), (n, groups, p, rows))


def _conv_by_views(
    x: Tensor, w: Tensor, stride: Shape, padding: Shape, dilation: Shape, groups: int
) -> Tensor:
    kernel, o = w._node.shape[2:], w._node.shape[0]
    (shape, _) = _conv_infer(x._node, w._node, stride, padding, dilation, groups)
    cols = _window_columns(x, kernel, stride, padding, dilation, groups, True)
    rows = mv.reshape(w, (1, groups, o // groups, math.prod(w._node.shape[1:])))
    return matmul(rows, cols).reshape(shape)


def _conv_input_by_views(
    g: Tensor, w: Tensor, spatial: Shape, stride: Shape, padding: Shape, dilation: Shape,
    groups: int,
) -> Tensor:  # fmt: skip
    """A convolution of the dilated, padded gradient with the flipped, transposed weight."""
    o, c, *kernel = w._node.shape
    g = mv.dilate(g, stride)
    widths = []
    for n, m, k, p, d in zip(spatial, g._node.shape[2:], kernel, padding, dilation, strict=True):
        before = d * (k - 1) - p
        widths.append((before, n + d * (k - 1) - before - m))
    g = mv.pad(g, ((0, 0), (0, 0), *widths))
    last = tuple(range(2, w.ndim))
    starts = (0, 0, *(k - 1 for k in kernel))
    flipped = mv.slice_(w, starts, w._node.shape, (1, 1) + (-1,) * len(last))
    grouped = mv.reshape(flipped, (groups, o // groups, c, *kernel))
    turned = mv.transpose(grouped, 1, 2).reshape((groups * c, o // groups, *kernel))
    ones, zeros = (1,) * len(last), (0,) * len(last)
    return _conv_by_views(g, turned, ones, zeros, dilation, groups)


def _conv_weight_by_views(
    g: Tensor, x: Tensor, kernel: Shape, stride: Shape, padding: Shape, dilation: Shape,
    groups: int,
) -> Tensor:  # fmt: skip
    n, o = g._node.shape[:2]
    cols = _window_columns(x, kernel, stride, padding, dilation, groups, False)
    rows = g.reshape((n, groups, o // groups, math.prod(g._node.shape[2:])))
    return sum_(matmul(rows, cols), 0).reshape((o, x._node.shape[1] // groups, *kernel))


def _conv_infer(
    x: Any, w: Any, stride: Shape, padding: Shape, dilation: Shape, groups: int
) -> tuple[Shape, dt.dtype]:
    padded = tuple(n + 2 * p for n, p in zip(x.shape[2:], padding, strict=True))
    count = window_count(padded, w.shape[2:], stride, dilation)
    return (x.shape[0], w.shape[0], *count), x.dtype


conv_op = Op(
    "conv", ROUTINE, "x w", "stride padding dilation groups", infer=_conv_infer,
    numpy=_conv_np, fallback=_conv_by_views,
    phases=bound_routines.conv,
    x=lambda g, w, x_spec, stride, padding, dilation, groups: apply(
        conv_input_op, (g, w), (x_spec.shape[2:], stride, padding, dilation, groups)),
    w=lambda g, x, w_spec, stride, padding, dilation, groups: apply(
        conv_weight_op, (g, x), (w_spec.shape[2:], stride, padding, dilation, groups)),
)  # fmt: skip
conv_input_op = Op(
    "conv_input", ROUTINE, "g_ w", "spatial stride padding dilation groups",
    infer=lambda g, w, spatial, *a: ((g.shape[0], w.shape[1] * a[-1], *spatial), g.dtype),
    numpy=_conv_input_np, fallback=_conv_input_by_views,
    phases=bound_routines.conv_input,
    g_=lambda g, w, stride, padding, dilation, groups: apply(
        conv_op, (g, w), (stride, padding, dilation, groups)),
    w=lambda g, g_, w_spec, stride, padding, dilation, groups: apply(
        conv_weight_op, (g_, g), (w_spec.shape[2:], stride, padding, dilation, groups)),
)  # fmt: skip
conv_weight_op = Op(
    "conv_weight", ROUTINE, "g_ x", "kernel stride padding dilation groups",
    infer=lambda g, x, kernel, *a: ((g.shape[1], x.shape[1] // a[-1], *kernel), g.dtype),
    numpy=_conv_weight_np, fallback=_conv_weight_by_views,
    phases=bound_routines.conv_weight,
    g_=lambda g, x, stride, padding, dilation, groups: apply(
        conv_op, (x, g), (stride, padding, dilation, groups)),
    x=lambda g, g_, x_spec, stride, padding, dilation, groups: apply(
        conv_input_op, (g_, g), (x_spec.shape[2:], stride, padding, dilation, groups)),
)  # fmt: skip


def _each(value: Any, k: int, name: str) -> Shape:
    out = (value,) * k if isinstance(value, int) else tuple(int(v) for v in value)
    if len(out) == 1:
        out *= k
    if len(out) != k:
        raise RuntimeError(f"{name} must be an int or {k} ints, got {value!r}")
    return out


def conv(
    name: str, k: int, input: Tensor, weight: Tensor, bias: Tensor | None, stride: Any,
    padding: Any, dilation: Any, groups: int,
) -> Tensor:  # fmt: skip
    """conv1d/2d/3d with PyTorch's arguments and errors."""
    unbatched = input.ndim == k + 1
    x = mv.unsqueeze(input, 0) if unbatched else input
    if x.ndim != k + 2 or weight.ndim != k + 2:
        raise RuntimeError(
            f"{name}: expected {k + 1}D (unbatched) or {k + 2}D (batched) input and {k + 2}D "
            f"weight, but got input of size {list(input.shape)} and weight {list(weight.shape)}"
        )
    stride, dilation = _each(stride, k, f"{name}: stride"), _each(dilation, k, f"{name}: dilation")
    kernel, channels = weight._node.shape[2:], x._node.shape[1]
    if min(stride) <= 0 or min(dilation) <= 0 or groups <= 0:
        raise RuntimeError(f"{name}: non-positive stride, dilation or groups is not supported")
    if x.dtype is not weight.dtype or (bias is not None and bias.dtype is not weight.dtype):
        raise RuntimeError(
            f"{name}: Input type ({x.dtype.name}) and weight type ({weight.dtype.name}) should be "
            "the same; convert one with .to(dtype)"
        )
    if channels != weight._node.shape[1] * groups or weight._node.shape[0] % groups:
        raise RuntimeError(
            f"{name}: given groups={groups}, weight of size {list(weight.shape)}, expected "
            f"input{list(input.shape)} to have {weight._node.shape[1] * groups} channels, but got "
            f"{channels} channels instead"
        )
    if isinstance(padding, str):
        x, padding = _named_padding(name, x, padding, kernel, stride, dilation)
    padding = _each(padding, k, f"{name}: padding")
    if min(padding) < 0:
        raise RuntimeError(f"{name}: negative padding is not supported, got {list(padding)}")
    for n, p, m, d in zip(x._node.shape[2:], padding, kernel, dilation, strict=True):
        if n + 2 * p < d * (m - 1) + 1:
            raise RuntimeError(
                f"{name}: Calculated padded input size per channel: "
                f"{[a + 2 * b for a, b in zip(x._node.shape[2:], padding, strict=True)]}. Kernel "
                f"size: {list(kernel)}. Kernel size can't be greater than actual input size"
            )
    out = apply(conv_op, (x, weight), (stride, padding, dilation, groups))
    if bias is not None:
        if bias._node.shape != weight._node.shape[:1]:
            raise RuntimeError(
                f"{name}: expected bias to be 1-dimensional with {weight._node.shape[0]} elements, "
                f"but got bias of size {list(bias.shape)}"
            )
        out = out + mv.reshape(bias, (-1,) + (1,) * k)
    return mv.squeeze(out, 0) if unbatched else out


def _named_padding(
    name: str, x: Tensor, padding: str, kernel: Shape, stride: Shape, dilation: Shape
) -> tuple[Tensor, Shape]:
    k = len(kernel)
    if padding == "valid":
        return x, (0,) * k
    if padding != "same":
        raise RuntimeError(f"{name}: padding must be ints, 'valid' or 'same', got {padding!r}")
    if any(s != 1 for s in stride):
        raise RuntimeError(f"{name}: padding='same' is not supported for strided convolutions")
    total = [d * (m - 1) for d, m in zip(dilation, kernel, strict=True)]
    extra = ((0, 0), (0, 0), *((0, t % 2) for t in total))
    return mv.pad(x, extra), tuple(t // 2 for t in total)


# --- pooling


def _max_pool_np(x: np.ndarray, kernel: Shape, stride: Shape, dilation: Shape) -> np.ndarray:
    count = window_count(x.shape[-len(kernel) :], kernel, stride, dilation)
    out: Any = None
    for part in _positions(x, kernel, stride, dilation, count):
        out = np.array(part) if out is None else np.maximum(out, part, out=out)
    return out


def _positions(x: np.ndarray, kernel: Shape, stride: Shape, dilation: Shape, count: Shape) -> Any:
    for at in np.ndindex(*kernel):
        place = tuple(
            slice(i * d, i * d + (m - 1) * s + 1, s)
            for i, d, m, s in zip(at, dilation, count, stride, strict=True)
        )
        yield x[(..., *place)]


def _max_pool_input_np(
    g: np.ndarray, x: np.ndarray, y: np.ndarray, kernel: Shape, stride: Shape, dilation: Shape
) -> np.ndarray:
    """Each gradient goes to the first of the largest elements of its window."""
    count = g.shape[-len(kernel) :]
    out = np.zeros_like(x)
    left = np.ones(g.shape, bool)
    parts = _positions(x, kernel, stride, dilation, count)
    grads = _positions(out, kernel, stride, dilation, count)
    for part, grad in zip(parts, grads, strict=True):
        hit = part == y
        hit |= part != part
        hit &= left
        left ^= hit
        grad += g * hit
    return out


def _flat_windows(x: Tensor, kernel: Shape, stride: Shape, dilation: Shape) -> Tensor:
    win = mv.windows(x, kernel, stride, dilation)
    return win.reshape((*win._node.shape[: -len(kernel)], math.prod(kernel)))


def _winners(x: Tensor, kernel: Shape, stride: Shape, dilation: Shape) -> Tensor:
    win = _flat_windows(x.detach(), kernel, stride, dilation)
    return el.eq(argmax(win, -1, True), el.iota((math.prod(kernel),), x.device))


def _max_pool_input_by_ops(
    g: Tensor, x: Tensor, y: Tensor, kernel: Shape, stride: Shape, dilation: Shape
) -> Tensor:
    routed = el.where(_winners(x, kernel, stride, dilation), mv.unsqueeze(g, -1), 0.0)
    routed = routed.reshape((*g._node.shape, *kernel))
    return mv.fold(routed, x._node.shape[-len(kernel) :], stride, dilation)


def _max_pool_pick(g: Tensor, x: Tensor, kernel: Shape, stride: Shape, dilation: Shape) -> Tensor:
    win = _flat_windows(g, kernel, stride, dilation)
    return sum_(el.where(_winners(x, kernel, stride, dilation), win, 0.0), -1)


def _max_pool_by_ops(x: Tensor, kernel: Shape, stride: Shape, dilation: Shape) -> Tensor:
    return _flat_windows(x, kernel, stride, dilation).amax(-1)


max_pool_op = Op(
    "max_pool", ROUTINE, "x", "kernel stride dilation",
    infer=lambda x, kernel, stride, dilation: (
        (*x.shape[: -len(kernel)],
         *window_count(x.shape[-len(kernel):], kernel, stride, dilation)), x.dtype),
    numpy=_max_pool_np, fallback=_max_pool_by_ops,
    phases=bound_routines.max_pool,
    x=lambda g, x, y, kernel, stride, dilation: apply(
        max_pool_input_op, (g, x, y), (kernel, stride, dilation)),
)  # fmt: skip
max_pool_input_op = Op(
    "max_pool_input", ROUTINE, "g_ x y_", "kernel stride dilation",
    infer=lambda g, x, y, *a: (x.shape, x.dtype),
    numpy=_max_pool_input_np, fallback=_max_pool_input_by_ops,
    phases=bound_routines.max_pool_input,
    g_=lambda g, x, kernel, stride, dilation: _max_pool_pick(g, x, kernel, stride, dilation),
)  # fmt: skip


def _pool_setup(
    name: str, k: int, input: Tensor, kernel: Any, stride: Any, padding: Any, dilation: Any,
    ceil_mode: bool,
) -> tuple[Tensor, Shape, Shape, Shape, Shape, Shape]:  # fmt: skip
    """Checked arguments and, for ceil_mode, how much more padding there is at the end."""
    if input.ndim not in (k + 1, k + 2):
        raise RuntimeError(
            f"{name}: Expected {k + 1}D or {k + 2}D input tensor, but got {list(input.shape)}"
        )
    kernel = _each(kernel, k, f"{name}: kernel_size")
    stride = kernel if stride in (None, (), []) else _each(stride, k, f"{name}: stride")
    padding = _each(padding, k, f"{name}: padding")
    dilation = _each(dilation, k, f"{name}: dilation")
    if min(kernel) <= 0 or min(stride) <= 0 or min(dilation) <= 0:
        raise RuntimeError(f"{name}: kernel size, stride and dilation should be greater than zero")
    for p, m in zip(padding, kernel, strict=True):
        if not 0 <= p <= m // 2:
            raise RuntimeError(
                f"{name}: pad should be at least zero and at most half of kernel size, but got "
                f"pad={p} and kernel_size={m}"
            )
    after = []
    for n, m, s, p, d in zip(
        input._node.shape[-k:], kernel, stride, padding, dilation, strict=True
    ):
        span = n + 2 * p - d * (m - 1) - 1
        count = span // s + 1
        if ceil_mode and span % s and (count * s) < n + p:
            count += 1
        if count < 1:
            raise RuntimeError(
                f"{name}: given input size {list(input.shape)}, kernel {list(kernel)}: calculated "
                "output size is too small"
            )
        after.append(max((count - 1) * s + d * (m - 1) + 1 - n - p, p if not ceil_mode else 0))
    return input, kernel, stride, padding, tuple(after), dilation


def max_pool(
    name: str, k: int, input: Tensor, kernel: Any, stride: Any, padding: Any, dilation: Any,
    ceil_mode: bool,
) -> Tensor:  # fmt: skip
    """max_pool1d/2d/3d with PyTorch's arguments and errors."""
    x, kernel, stride, before, after, dilation = _pool_setup(
        name, k, input, kernel, stride, padding, dilation, ceil_mode
    )
    widths = ((0, 0),) * (x.ndim - k) + tuple(zip(before, after, strict=True))
    lowest = -math.inf if x.dtype.category == dt.FLOAT else int(np.iinfo(x.dtype.numpy).min)
    x = mv.pad(x, widths, lowest)
    return apply(max_pool_op, (x,), (kernel, stride, dilation))


def avg_pool(
    name: str, k: int, input: Tensor, kernel: Any, stride: Any, padding: Any, ceil_mode: bool,
    count_include_pad: bool, divisor_override: int | None,
) -> Tensor:  # fmt: skip
    """avg_pool1d/2d/3d with PyTorch's arguments and errors."""
    x, kernel, stride, before, after, dilation = _pool_setup(
        name, k, input, kernel, stride, padding, 1, ceil_mode
    )
    lead = ((0, 0),) * (x.ndim - k)
    widths = lead + tuple(zip(before, after, strict=True))
    dims = tuple(range(-k, 0))
    total = sum_(mv.windows(mv.pad(x, widths), kernel, stride, dilation), dims)
    if divisor_override is not None:
        if divisor_override == 0:
            raise RuntimeError(f"{name}: divisor must be not zero")
        return total / divisor_override
    if after == before and (count_include_pad or not any(before)):
        return total / math.prod(kernel)
    ones = np.ones(x._node.shape[-k:], x.dtype.numpy)
    inner = before if count_include_pad else (0,) * k
    ones = np.pad(ones, tuple((p, p) for p in inner), constant_values=1)
    rest = [(b - i, a - i) for b, a, i in zip(before, after, inner, strict=True)]
    ones = np.pad(ones, [(max(b, 0), max(a, 0)) for b, a in rest])
    counts = mv._np_windows(ones, kernel, stride, dilation).sum(axis=dims)
    from pyframe.tensor import from_numpy

    return total / from_numpy(np.ascontiguousarray(counts, x.dtype.numpy)).to(x.device)
