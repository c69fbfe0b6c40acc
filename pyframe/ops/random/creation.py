"""Tensors made from nothing: constants and ranges. Random numbers are in random.py."""

from __future__ import annotations

import math
from typing import Any, TypedDict, Unpack

import numpy as np

from pyframe.core import dispatch as _dispatch, dtypes as dt
from pyframe.core.devices import device as Device, resolve
from pyframe.core.dispatch import can_read_value, check_dtype, is_eager
from pyframe.core.modes import mode
from pyframe.core.node import Node
from pyframe.core.op import const
from pyframe.core.sizes import SymbolicSize, is_symbolic, size_hint
from pyframe.core.symbolic import hint
from pyframe.ops.api import check
from pyframe.ops.api.public import public
from pyframe.ops.math import elementwise as el
from pyframe.ops.math.elementwise import np_cast
from pyframe.ops.shape import movement as mv
from pyframe.tensor import Tensor, no_more_dims, tensor as new_tensor, upload


class FactoryOptions(TypedDict, total=False):
    """What most functions here take by name."""

    dtype: dt.dtype | type | None
    layout: Any
    device: Device | str | None
    requires_grad: bool
    pin_memory: bool | None
    memory_format: Any


def sizes_of(name: str, size: Any, named: Any = None) -> tuple[int, ...]:
    shape = mv.as_sizes(name, size, named)
    if any(n < 0 for n in shape):
        raise RuntimeError(
            f"{name}: Trying to create tensor with negative dimension in {list(shape)}"
        )
    return shape


def finish(x: Tensor, requires_grad: bool) -> Tensor:
    return x.requires_grad_() if requires_grad else x


def options_of(name: str, kw: Any) -> Any:
    """dtype, device and requires_grad; what only names the usual layout is left out."""
    layout, format = kw.pop("layout", None), kw.pop("memory_format", None)
    kw.pop("pin_memory", None)
    for value in (layout, format):
        if value is not None and getattr(value, "_name", "") not in _USUAL:
            raise RuntimeError(f"{name}: {value} is not supported; expected the strided layout")
    unknown = set(kw) - {"dtype", "device", "requires_grad"}
    if unknown:
        raise TypeError(f"{name}() got unexpected arguments {sorted(unknown)}")
    return kw


_USUAL = ("strided", "contiguous_format", "preserve_format", "channels_last", "channels_last_3d")


def full(size: Any, fill_value: Any, **kw: Unpack[FactoryOptions]) -> Tensor:
    """A tensor of `size` filled with one number; options as of `empty`."""
    return _filled("full", sizes_of("full", (size,)), fill_value, **options_of("full", kw))


def _filled(
    name: str, shape: tuple[int, ...], value: Any, dtype: dt.dtype | None = None,
    device: Any = None, requires_grad: bool = False,
) -> Tensor:  # fmt: skip
    target = resolve(device)
    check.one_value(name, value)
    if isinstance(value, Tensor):
        if not can_read_value(value):  # is not read
            value = value.detach().to(target, dtype or value.dtype)
            return finish(mv.expand(value, shape).clone(), requires_grad)
        value = value.item()
    d = dtype or dt.of_scalar(value)
    check_dtype(name, d, target)
    shown = hint(size_hint(value) if d.itemsize >= 4 else value)  # a size fits into these
    one = dt.convert_scalar(shown, d)
    if not is_eager(target):
        if d.category == dt.INTEGER and shown is value:
            value = one  # wrapped, as -5 is to 251
        with_grad = _dispatch.tensor_from_node(const(value, d, target))
        return finish(mv.expand(with_grad, shape).clone(), requires_grad)
    dt.check_room(*shape, itemsize=d.itemsize)
    if type(value) is int and value == 0:
        data = np.zeros(shape, d.numpy)  # its memory is not touched before it is used
    else:
        data = np.full(shape, one if d.narrow is None else d.narrow(np.asarray(one)), d.numpy)
    return finish(
        _dispatch.tensor_from_node(Node(None, (), (), shape, d, target, data)), requires_grad
    )


def _maker(name: str, value: int) -> Any:
    def run(*sizes: Any, size: Any = None, **kw: Unpack[FactoryOptions]) -> Tensor:
        options = options_of(name, kw)
        options["dtype"] = options.get("dtype") or dt.get_default_dtype()
        return _filled(name, sizes_of(name, sizes, size), value, **options)

    run.__name__ = run.__qualname__ = name
    return run


zeros, ones = _maker("zeros", 0), _maker("ones", 1)
empty = zeros  # nothing is gained by leaving memory undefined: zeros are made as fast


def like_options(input: Tensor, kw: Any) -> Any:
    """Options whose dtype and device are those of `input` where none are given."""
    kw["dtype"] = kw.get("dtype") or input.dtype
    kw["device"] = kw.get("device") or input.device
    return kw


def zeros_like(input: Tensor, **kw: Unpack[FactoryOptions]) -> Tensor:
    """Zeros of the shape, dtype and device of `input`."""
    return full_like(input, 0, **kw)


def ones_like(input: Tensor, **kw: Unpack[FactoryOptions]) -> Tensor:
    """Ones of the shape, dtype and device of `input`."""
    return full_like(input, 1, **kw)


def full_like(input: Tensor, fill_value: Any, **kw: Unpack[FactoryOptions]) -> Tensor:
    """One number in the shape, dtype and device of `input`, laid out as `clone` would."""
    return made_like(full, "full_like", input, kw, fill_value)


def made_like(make: Any, name: str, input: Tensor, kw: Any, *args: Any) -> Tensor:
    """make(shape, *args, **options) of the shape, dtype and device of `input`, laid out as `clone`
    would."""
    order = el.order_for(input, kw.pop("memory_format", None), name)
    options = like_options(input, kw)
    if order is None:
        return make(input.shape, *args, **options)
    needs = options.pop("requires_grad", False)
    out = make(tuple([input.shape[d] for d in order]), *args, **options)
    return _dispatch.view_in_order(out, order).requires_grad_(needs)


empty_like = zeros_like


def fill(input: Tensor, value: Any) -> Tensor:
    """One number (or a 0-d tensor, with its gradient) in the shape and dtype of `input`."""
    check.one_value("fill", value)
    if isinstance(value, Tensor):
        return mv.expand(value.to(input.device, input.dtype), input.shape).clone()
    return without_gradient(full_like(input, value), input)


def fill_(input: Tensor, value: Any) -> Tensor:
    """Fill with one number (or a 0-d tensor), in place."""
    check.one_value("fill_", value)
    if isinstance(value, Tensor):
        return input._overwrite(value.to(input.device))
    return input._overwrite(full((), value, dtype=input.dtype, device=input.device))


def zero_(input: Tensor) -> Tensor:
    """Fill with zeros, in place."""
    return fill_(input, 0)


def copy_(self: Tensor, src: Any, non_blocking: bool = False) -> Tensor:
    """Fill with the elements of `src`, broadcast and converted, in place."""
    if isinstance(src, (bool, int, float, complex)):
        src = full((), src, device=self.device)
    check.tensors("copy_", src)
    check.no_overlap("copy_", self, src)
    no_more_dims(src, self.shape)
    return self._overwrite(src if src.device is self.device else src.to(self.device))


def _mapped(name: str, self: Tensor, *others: Tensor, callable: Any) -> Tensor:
    for x in (self, *others):
        if x.requires_grad:
            raise RuntimeError(
                f"Can't call {name}() on Variable that requires grad. Use "
                f"var.detach().{name}() instead."
            )
        if x.device.kind != "cpu":
            raise TypeError(f"{name} is only implemented on CPU tensors; move them with .cpu()")
        if x.dtype is not self.dtype:
            raise TypeError(f"{name}: expected a tensor of {self.dtype.name}, got {x.dtype.name}")
    shape = self.shape
    columns = [mv.reshape(mv.expand(x, shape), (-1,)).tolist() for x in (self, *others)]
    values = [callable(*row) for row in zip(*columns, strict=True)]
    return self._overwrite(mv.reshape(new_tensor(values, dtype=self.dtype), shape))


def apply_(self: Tensor, callable: Any) -> Tensor:
    """Each element replaced by callable(element), in place; CPU tensors only, and slow."""
    return _mapped("apply_", self, callable=callable)


def map_(self: Tensor, tensor: Tensor, callable: Any) -> Tensor:
    """Each element replaced by callable(element, element of `tensor`); CPU tensors only."""
    return _mapped("map_", self, tensor, callable=callable)


def map2_(self: Tensor, x: Tensor, y: Tensor, callable: Any) -> Tensor:
    """`map_` with two other tensors."""
    return _mapped("map2_", self, x, y, callable=callable)


def scalar_tensor(s: Any, **kw: Unpack[FactoryOptions]) -> Tensor:
    """A 0-d tensor of a number, of the default dtype."""
    options = options_of("scalar_tensor", kw)
    options["dtype"] = options.get("dtype") or dt.get_default_dtype()
    return _filled("scalar_tensor", (), s, **options)


# --- ranges: NumPy computes them in float64 and int64


def numbers(name: str, **values: Any) -> list[Any]:
    """Python numbers of numbers and 0-d tensors."""
    out = []
    for key, v in values.items():
        if isinstance(v, Tensor):
            if v.ndim:
                raise RuntimeError(
                    f"{name} only supports 0-dimensional start and end tensors, but got {key} with "
                    f"{v.ndim} dimension(s)."
                )
            v = v.item()
        elif isinstance(v, np.generic):
            v = v.item()
        if not isinstance(v, (bool, int, float, complex)):
            raise TypeError(f"{name}(): {key} must be a number, not {type(v).__name__}")
        out.append(v)
    return out


def made(data: np.ndarray, kw: Any, default: dt.dtype) -> Tensor:
    """`data` with the dtype (or the default), device and requires_grad of the options."""
    d, target = kw.get("dtype") or default, resolve(kw.get("device"))
    check_dtype("creation", d, target)
    data = np_cast(data, d)
    out = upload(data if d.narrow is None else d.narrow(data), target, d)
    return finish(out, kw.get("requires_grad", False))


def arange(start: Any = 0, end: Any = None, step: Any = 1, **kw: Unpack[FactoryOptions]) -> Tensor:
    """start, start + step, … below end; int64 unless a float is given."""
    options = options_of("arange", kw)
    if end is None:
        start, end = 0, start
    start, end, step = numbers("arange", start=start, end=end, step=1 if step is None else step)
    if any(isinstance(v, complex) for v in (start, end, step)):
        raise RuntimeError("arange: expected real numbers, got a complex one")
    floats = any(isinstance(v, float) for v in (start, end, step))
    d = options.get("dtype") or (dt.get_default_dtype() if floats else dt.int64)
    if any(type(v) is SymbolicSize for v in (start, end, step)) and not floats:
        return _range_of_sizes(start, end, step, d, options)
    if not (math.isfinite(start) and math.isfinite(end)) or step != step:
        raise RuntimeError(f"arange: unsupported range: {start} -> {end} by {step}")
    if step == 0 or (end - start) * step < 0:
        raise RuntimeError(
            f"arange: upper bound and lower bound inconsistent with step sign: {start} to {end} "
            f"by {step}; step must be nonzero"
        )
    if d.category < dt.FLOAT:  # PyTorch converts what it is given first
        start, end, step = int(start), int(end), int(step)
        if step == 0:
            raise RuntimeError(f"arange: step must be nonzero, but is 0 as {d.name}")
    n = max(math.ceil((end - start) / step), 0)
    dt.check_room(n)
    values = np.arange(n) * step + start
    return made(values, options, d)


def _range_of_sizes(start: Any, end: Any, step: Any, d: dt.dtype, options: Any) -> Tensor:
    """`arange` of ints of which some are sizes that change: it is computed, not made on the host.
    A step that does not lead to the end is refused as any other one."""
    if not (end - start) * step >= 0 or step == 0:
        return arange(*map(int, (start, end, step)), **options)
    target = resolve(options.get("device"))
    check_dtype("creation", d, target)
    places = el.cast(el.iota((-((start - end) // step),), target), dt.int64)
    return finish(el.cast(places * step + start, d), options.get("requires_grad", False))


def _steps_of_sizes(start: Any, end: Any, steps: Any, d: dt.dtype, options: Any) -> Tensor:
    """`linspace` of so many steps as a size that changes says: as below, but computed."""
    target = resolve(options.get("device"))
    check_dtype("creation", d, target)
    i = el.cast(el.iota((steps,), target), dt.float64 if target.wide else dt.float32)
    step = (end - start) / (steps - 1)
    early = el.lt(i, steps // 2)
    data = el.where(early, i * step + start, (i - (steps - 1)) * step + end)
    return finish(el.cast(data, d), options.get("requires_grad", False))


def _spaced(name: str, start: Any, end: Any, steps: Any, kw: Any, base: Any) -> Tensor:
    options = options_of(name, kw)
    if steps is None:
        raise TypeError(f"{name}(): missing the number of steps")
    steps = numbers(name, steps=steps)[0]
    if not isinstance(steps, int):
        raise TypeError(f"{name}(): steps must be an int, got {steps!r}")
    start, end = numbers(name, start=start, end=end)
    if steps < 0:
        raise RuntimeError(f"{name}: number of steps must be non-negative, got {steps}")
    complexes = any(isinstance(v, complex) for v in (start, end))
    default = dt.get_default_dtype()
    d = options.get("dtype") or (default.to_complex() if complexes else default)
    if d.category < dt.COMPLEX and complexes:
        raise RuntimeError(f"{name}: complex start or end need a complex dtype, got {d.name}")
    if d.category < dt.FLOAT:
        start, end = int(start), int(end)
    if is_symbolic(steps) and base is None and not complexes:
        return _steps_of_sizes(start, end, steps, d, options)
    dt.check_room(steps)
    i, step = np.arange(steps), (end - start) / max(steps - 1, 1)
    if steps > 1:  # from both ends, as PyTorch
        data = np.where(i < steps // 2, start + step * i, end - step * (steps - 1 - i))
    else:
        data = np.full(steps, start)
    if base is not None:
        with np.errstate(all="ignore"):
            data = np.power(float(base), data)
    return made(data, options, d)


def linspace(start: Any, end: Any, steps: Any = None, **kw: Unpack[FactoryOptions]) -> Tensor:
    """`steps` numbers from start to end, both included, evenly spaced."""
    return _spaced("linspace", start, end, steps, kw, None)


def logspace(
    start: Any, end: Any, steps: Any = None, base: float = 10.0, **kw: Unpack[FactoryOptions]
) -> Tensor:
    """base ** x for `steps` evenly spaced x from start to end, both included."""
    return _spaced("logspace", start, end, steps, kw, base)


def range_(start: Any = 0, end: Any = None, step: Any = 1, **kw: Unpack[FactoryOptions]) -> Tensor:
    """start, start + step, … up to end, which is included (PyTorch's old `range`)."""
    if end is None:
        start, end = 0, start
    n = math.floor((end - start) / step) + 1
    dt.check_room(n)
    return made(np.arange(n) * step + start, kw, dt.get_default_dtype())


def eye(n: int, m: int | None = None, **kw: Unpack[FactoryOptions]) -> Tensor:
    """The identity matrix (n, m)."""
    options = options_of("eye", kw)
    if n < 0 or (m is not None and m < 0):
        raise RuntimeError(f"eye: n and m must be greater or equal to 0, got {n} and {m}")
    if is_symbolic((n, m)):
        target = resolve(options.get("device"))
        hot = el.eq(el.iota((n, 1), target), el.iota((n if m is None else m,), target))
        out = el.cast(hot, options.get("dtype") or dt.get_default_dtype())
        return finish(out, options.get("requires_grad", False))
    dt.check_room(n, n if m is None else m, itemsize=1)
    data = np.eye(n, m, dtype=np.bool_)
    return made(data, options, dt.get_default_dtype())


def without_gradient(draw: Tensor, *inputs: Any) -> Tensor:
    """`draw` with a history that gives the inputs a gradient of 0, as PyTorch's draws."""
    for x in inputs:
        if isinstance(x, Tensor) and mode.grad and x.requires_grad:
            never = mv.expand(full((), False, device=draw.device), draw.shape)
            draw = el.where(never, x, draw)
    return draw


def _newly(name: str, value: int) -> Any:
    def run(self: Tensor, *sizes: Any, size: Any = None, **kw: Unpack[FactoryOptions]) -> Tensor:
        options = options_of(name, kw)
        return _filled(name, sizes_of(name, sizes, size), value, **like_options(self, options))

    run.__name__ = run.__qualname__ = name
    return run


new_zeros, new_ones = _newly("new_zeros", 0), _newly("new_ones", 1)
new_empty = _newly("new_empty", 0)


def new_full(self: Tensor, size: Any, fill_value: Any, **kw: Unpack[FactoryOptions]) -> Tensor:
    """One number in a size, with the dtype and device of `self`."""
    return full(size, fill_value, **like_options(self, kw))


public(
    globals(), both="fill fill_ zero_",
    methods="copy_ apply_ map_ map2_ new_zeros new_ones new_full new_empty",
    functions="""full zeros ones empty zeros_like ones_like full_like empty_like arange range=range_
    linspace logspace eye scalar_tensor""",
)  # fmt: skip
