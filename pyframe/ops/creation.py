"""Tensors made from nothing: constants, ranges, random numbers."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from pyframe import dtypes as dt
from pyframe.devices import device as Device, get_default_device
from pyframe.ops import elementwise as el, movement as mv
from pyframe.ops.op import check_dtype, const, new
from pyframe.ops.public import public
from pyframe.tensor import Tensor, upload


def _sizes(name: str, size: Any) -> tuple[int, ...]:
    shape = mv._ints(name, size)
    if any(n < 0 for n in shape):
        raise RuntimeError(
            f"{name}: Trying to create tensor with negative dimension in {list(shape)}"
        )
    return shape


def _finish(x: Tensor, requires_grad: bool) -> Tensor:
    return x.requires_grad_() if requires_grad else x


def full(
    size: Any, fill_value: Any, *, dtype: dt.dtype | None = None, device: Any = None,
    requires_grad: bool = False,
) -> Tensor:  # fmt: skip
    """A tensor of `size` filled with one number."""
    shape = _sizes("full", (size,))
    if isinstance(fill_value, Tensor):
        fill_value = fill_value.item()
    d = dtype or dt.of_scalar(fill_value)
    target = Device(device) if device is not None else get_default_device()
    check_dtype("full", d, target)
    if target.lazy:
        with_grad = new(const(fill_value, d, target))
        return _finish(mv.expand(with_grad, shape).clone(), requires_grad)
    data = np.full(shape, dt.convert_scalar(fill_value, d), d.numpy)
    return _finish(upload_owned(data), requires_grad)


def upload_owned(data: np.ndarray) -> Tensor:
    from pyframe.tensor import from_numpy

    return from_numpy(data)


def zeros(*size: Any, dtype: dt.dtype | None = None, device: Any = None,
          requires_grad: bool = False) -> Tensor:  # fmt: skip
    """A tensor of zeros."""
    return full(_sizes("zeros", size), 0, dtype=dtype or dt.get_default_dtype(), device=device,
                requires_grad=requires_grad)  # fmt: skip


def ones(*size: Any, dtype: dt.dtype | None = None, device: Any = None,
         requires_grad: bool = False) -> Tensor:  # fmt: skip
    """A tensor of ones."""
    return full(_sizes("ones", size), 1, dtype=dtype or dt.get_default_dtype(), device=device,
                requires_grad=requires_grad)  # fmt: skip


empty = zeros  # nothing is gained by leaving memory undefined: zeros cost the same


def _like(input: Tensor, kw: dict[str, Any]) -> dict[str, Any]:
    kw.pop("memory_format", None)
    kw["dtype"] = kw.get("dtype") or input.dtype
    kw["device"] = kw.get("device") or input.device
    return kw


def zeros_like(input: Tensor, **kw: Any) -> Tensor:
    """Zeros of the shape, dtype and device of `input`."""
    return full(input._node.shape, 0, **_like(input, kw))


def ones_like(input: Tensor, **kw: Any) -> Tensor:
    """Ones of the shape, dtype and device of `input`."""
    return full(input._node.shape, 1, **_like(input, kw))


def full_like(input: Tensor, fill_value: Any, **kw: Any) -> Tensor:
    """One number in the shape, dtype and device of `input`."""
    return full(input._node.shape, fill_value, **_like(input, kw))


empty_like = zeros_like


def arange(
    start: Any, end: Any = None, step: Any = 1, *, dtype: dt.dtype | None = None,
    device: Any = None, requires_grad: bool = False,
) -> Tensor:  # fmt: skip
    """start, start + step, … below end; int64 unless a float is given."""
    if end is None:
        start, end = 0, start
    if step == 0 or (end - start) * step < 0:
        raise RuntimeError(
            f"arange: upper bound and lower bound inconsistent with step sign: {start} to {end} "
            f"by {step}"
        )
    floats = any(isinstance(v, float) for v in (start, end, step))
    d = dtype or (dt.get_default_dtype() if floats else dt.int64)
    n = math.ceil((end - start) / step)
    data = (np.arange(n) * step + start).astype(d.numpy)
    return _finish(upload(data, _target(device)), requires_grad)


def linspace(start: float, end: float, steps: int, *, dtype: dt.dtype | None = None,
             device: Any = None, requires_grad: bool = False) -> Tensor:  # fmt: skip
    """`steps` numbers from start to end, both included, evenly spaced."""
    if steps < 0:
        raise RuntimeError(f"linspace: number of steps must be non-negative, got {steps}")
    data = np.linspace(start, end, steps).astype((dtype or dt.get_default_dtype()).numpy)
    return _finish(upload(data, _target(device)), requires_grad)


def eye(n: int, m: int | None = None, *, dtype: dt.dtype | None = None, device: Any = None,
        requires_grad: bool = False) -> Tensor:  # fmt: skip
    """The identity matrix (n, m)."""
    data = np.eye(n, m, dtype=(dtype or dt.get_default_dtype()).numpy)
    return _finish(upload(data, _target(device)), requires_grad)


def _target(device: Any) -> Device:
    return Device(device) if device is not None else get_default_device()


def _random(name: str, size: Any, kw: dict[str, Any], from_bits: Any) -> Tensor:
    from pyframe.random import uniform_bits

    shape = _sizes(name, size)
    bits = uniform_bits(shape, _target(kw.pop("device", None)), kw.pop("generator", None))
    dtype, requires_grad = kw.pop("dtype", None), kw.pop("requires_grad", False)
    if kw:
        raise TypeError(f"{name}() got unexpected arguments {sorted(kw)}")
    dtype = dtype or dt.get_default_dtype()
    if dtype.category != dt.FLOAT:
        raise RuntimeError(f"{name}: expected a float dtype, got {dtype.name}; see randint")
    return _finish(el.apply(from_bits, (bits,)).to(dtype), requires_grad)


def rand(*size: Any, **kw: Any) -> Tensor:
    """Uniform random numbers in [0, 1)."""
    return _random("rand", size, kw, el.uniform_from_bits)


def randn(*size: Any, **kw: Any) -> Tensor:
    """Standard normal random numbers."""
    return _random("randn", size, kw, el.normal_from_bits)


def rand_like(input: Tensor, **kw: Any) -> Tensor:
    """`rand` of the shape, dtype and device of `input`."""
    return rand(input._node.shape, **_like(input, kw))


def randn_like(input: Tensor, **kw: Any) -> Tensor:
    """`randn` of the shape, dtype and device of `input`."""
    return randn(input._node.shape, **_like(input, kw))


def randint(low: int, high: Any = None, size: Any = None, *, dtype: dt.dtype | None = None,
            **kw: Any) -> Tensor:  # fmt: skip
    """Random ints in [low, high), int64 by default; randint(high, size) starts at 0."""
    if size is None:
        low, high, size = 0, low, high
    if high <= low:
        raise RuntimeError(f"random_ expects 'from' to be less than 'to', but got {low} >= {high}")
    u = rand(size, **kw)
    out = el.floor(u * float(high - low)).to(dt.int64)
    return el.clamp(out, 0, high - low - 1).add(low).to(dtype or dt.int64)


def randperm(n: int, *, generator: Any = None, dtype: dt.dtype | None = None, device: Any = None,
             requires_grad: bool = False) -> Tensor:  # fmt: skip
    """0..n-1 in random order (drawn on the host)."""
    from pyframe.random import permutation

    data = permutation(n, generator).astype((dtype or dt.int64).numpy)
    return upload(data, _target(device))


def bernoulli(input: Tensor, *, generator: Any = None) -> Tensor:
    """1 with the probability that each element gives, else 0."""
    u = rand(input._node.shape, device=input.device, generator=generator)
    return el.lt(u, input.detach()).to(input.dtype)


def _of(x: Tensor, kw: dict[str, Any]) -> dict[str, Any]:
    return {"dtype": x.dtype, "device": x.device, **kw}


def new_zeros(self: Tensor, *size: Any, **kw: Any) -> Tensor:
    """Zeros of a size, with the dtype and device of `self`."""
    return zeros(*size, **_of(self, kw))


def new_ones(self: Tensor, *size: Any, **kw: Any) -> Tensor:
    """Ones of a size, with the dtype and device of `self`."""
    return ones(*size, **_of(self, kw))


def new_full(self: Tensor, size: Any, fill_value: Any, **kw: Any) -> Tensor:
    """One number in a size, with the dtype and device of `self`."""
    return full(size, fill_value, **_of(self, kw))


PUBLIC = public(
    globals(),
    both="bernoulli",
    methods="new_zeros new_ones new_full",
    functions="""full zeros ones empty zeros_like ones_like full_like empty_like arange linspace eye
    rand randn rand_like randn_like randint randperm""",
    inplace="bernoulli",
)
