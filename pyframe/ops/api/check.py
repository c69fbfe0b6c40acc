"""What the families refuse: each thing that may be wrong with arguments is checked in one place."""

from __future__ import annotations

from typing import Any

import numpy as np

from pyframe.core import dtypes as dt
from pyframe.core.dispatch import can_read_value
from pyframe.core.modes import mode
from pyframe.ops.api import deferred
from pyframe.ops.api.arguments import no_tensor
from pyframe.tensor import Tensor


def tensors(name: str, *xs: Any) -> None:
    """TypeError unless all are tensors."""
    for x in xs:
        if not isinstance(x, Tensor):
            raise TypeError(f"{name}(): expected a Tensor, got {type(x).__name__}{no_tensor(x)}")


def real(name: str, x: Any) -> None:
    """TypeError unless `x` is a tensor, NotImplementedError if it is complex."""
    tensors(name, x)
    if x.dtype.category == dt.COMPLEX:
        raise NotImplementedError(
            f"{name}: not implemented for {x.dtype.name}, which has no order; use .abs() or .real"
        )


def numbers(name: str, x: Any) -> None:
    """`real`, and NotImplementedError for bools."""
    real(name, x)
    if x.dtype is dt.bool_:
        raise NotImplementedError(f"{name}: not implemented for bool; use .int() first")


def floats(name: str, *xs: Tensor | None) -> None:
    """NotImplementedError where a tensor is not of a (real) float dtype."""
    for x in xs:
        if x is not None and x.dtype.category != dt.FLOAT:
            raise NotImplementedError(
                f"{name}: not implemented for {x.dtype.name}; expected a float dtype, "
                + ("such as that of x.real" if x.is_complex() else "use .float() first")
            )


def floats_or_complex(name: str, *xs: Tensor) -> None:
    """NotImplementedError where a tensor is of ints or bools."""
    for x in xs:
        if x.dtype.category < dt.FLOAT:
            raise NotImplementedError(
                f"{name}: not implemented for {x.dtype.name}; expected a floating point or complex "
                "dtype, use .float() first"
            )


def same_dtype(name: str, *xs: Any) -> None:
    """TypeError unless all are tensors, RuntimeError unless they are of one dtype."""
    tensors(name, *xs)
    for x in xs[1:]:
        if x.dtype is not xs[0].dtype:
            raise RuntimeError(
                f"{name}: expected tensors of the same dtype, but got {xs[0].dtype.name} and "
                f"{x.dtype.name}; convert one with .to(dtype)"
            )


def params_like(name: str, input: Tensor, **params: Tensor | None) -> None:
    """RuntimeError unless parameters are of the input's dtype, or float32 beside a half one."""
    for what, x in params.items():
        mixed = input.dtype in (dt.float16, dt.bfloat16) and x is not None and x.dtype is dt.float32
        if x is not None and x.dtype is not input.dtype and not mixed:
            raise RuntimeError(
                f"{name}: expected {what} of the input's dtype {input.dtype.name}, but got "
                f"{x.dtype.name}; convert it with .to(input.dtype)"
            )


def weight_dtype(name: str, input: Tensor, weight: Tensor, bias: Tensor | None) -> None:
    """RuntimeError unless the input, the weight and the bias of a layer are of one dtype."""
    if input.dtype is not weight.dtype:
        network = f" (or the network with .to(pf.{input.dtype.name}))"
        network = "" if input.dtype.category < dt.FLOAT else network
        raise RuntimeError(
            f"{name}: Input type ({input.dtype.name}) and weight type ({weight.dtype.name}) should "
            f"be the same; convert the input with .to(pf.{weight.dtype.name}){network}"
        )
    if bias is not None and bias.dtype is not weight.dtype:
        raise RuntimeError(
            f"{name}: expected a bias of the weight's dtype {weight.dtype.name}, but got "
            f"{bias.dtype.name}; convert the bias with .to(pf.{weight.dtype.name})"
        )


def one_value(name: str, value: Any, dtype: dt.dtype | None = None) -> None:
    """RuntimeError for a tensor with dims where a number or a 0-d tensor is expected, and for a
    number that `dtype` cannot hold; TypeError for anything else."""
    if not isinstance(value, (Tensor, bool, int, float, complex, np.number, np.bool_)):
        raise TypeError(f"{name}: expected a number or a 0-d tensor, got {type(value).__name__}")
    if dtype is not None and dtype is not dt.bool_ and not isinstance(value, Tensor):
        dt.convert_scalar(value, dtype)
    if isinstance(value, Tensor) and value.ndim:
        raise RuntimeError(
            f"{name} only supports a number or a 0-dimensional value tensor, but got one with "
            f"{value.ndim} dimension(s)"
        )


def _places(x: Tensor) -> Any:
    """Where `x` lies in its storage: offset, sizes and strides that matter, in bytes."""
    k = x.itemsize
    steps = [(n, s * k) for n, s in zip(x.shape, x.stride(), strict=True) if n > 1]
    return x.storage_offset() * k, steps, k


def no_overlap(name: str, written: Tensor, *read: Any, same: bool = True) -> None:
    """RuntimeError where `written` shares a part of its memory with one of `read` (all of it is
    fine, if `same`). Only tensors without gaps are looked at, as in PyTorch's MemoryOverlap.h."""
    for x in read:
        if not isinstance(x, Tensor) or x._storage is not written._storage:
            continue
        a, b = _places(written), _places(x)
        if same and (a == b or not written.numel() or not x.numel()):
            continue
        ends = [(o, o + k + sum((n - 1) * s for n, s in steps)) for o, steps, k in (a, b)]
        full = all(hi - lo == t.nbytes for t, (lo, hi) in zip((written, x), ends, strict=True))
        if a == b or (full and ends[0][0] < ends[1][1] and ends[1][0] < ends[0][1]):
            raise RuntimeError(
                f"{name}: unsupported operation: some elements of the input tensor and the "
                "written-to tensor refer to a single memory location. Please clone() the tensor "
                "before performing the operation."
            )


# --- what only the values show


def defer_assert(
    bad: Tensor, message: str, error: type[Exception], values: Tensor | None = None
) -> None:
    """On a lazy device: raise error(message) at the next read if any of `bad` is true. With
    `values`, ints, the message ends with the one at which it is, where the device can keep it."""
    if not bad.numel():
        return
    if mode.capture is not None:
        mode.capture.check(bad, message, error, values)
    elif not can_read_value(bad):
        deferred.on(bad.device).check(bad, message, error, values)


def is_new(x: Tensor, *what: Any) -> bool:
    """Whether this is the first check of its kind of a value: the others in a capture would find
    the same."""
    return mode.capture is None or mode.capture.is_first((x._value(), *what))


def assert_not(bad: Tensor, message: str, error: type[Exception] = RuntimeError) -> None:
    """error(message) if any of `bad` is true: at once on the CPU, else at the next read."""
    if not can_read_value(bad):
        defer_assert(bad, message, error)
    elif bad._node.data.any():
        raise error(message)
