"""Convolutions in a Program that was planned for GPUs, for a CPU that has routines for them.

A GPU's product reads the windows of an image through views, and what has few channels is added up
from such windows. On a CPU that writes out the windows, each element as often as there are taps,
and computes what comes before the convolution as often; as an op it reads an image, once.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

from pyframe.core import view as views
from pyframe.core.dtypes import float32
from pyframe.core.view import View
from pyframe.graph.program import (
    TEMP,
    Apply,
    Dispatch,
    Expr,
    ExternKernel,
    ExternResult,
    InBounds,
    Kernel,
    Load,
    Program,
    Reduce,
    ScalarParam,
    Store,
    index_map_of,
    operands,
)

Shape = tuple[int, ...]


class _Axis(NamedTuple):
    """An axis of all products of an element and a weight: its size, the steps of both along it, and
    whether products are added up along it."""

    size: int
    image: int
    weight: int
    summed: bool


def with_convolutions(program: Program, zeros: Collection[int] = ()) -> Program:
    """The same by the op `conv`, where that is what kernels compute. Windows that one writes out
    for convolutions alone are images then. `zeros` says at which bytes of the params a 0 stands."""
    kernels, steps = list(program.kernels), list(program.steps)

    def words(step: Dispatch) -> frozenset[int]:
        return frozenset([(at - step.param_offset) // 4 for at in zeros])

    def put(n: int, k: Kernel) -> None:
        steps[n] = steps[n]._replace(kernel=len(kernels))
        kernels.append(k)

    for n, step in enumerate(steps):
        k, slot = kernels[step.kernel], step.slots[kernels[step.kernel].stores[0].binding]
        plain = k.routine is None and len(k.stores) == 1 and program.slots[slot].kind == TEMP
        store = k.stores[0]
        if not plain or store.value + 1 < len(k.code) or step.slots.count(slot) > 1:
            continue
        found = _image(k.code, k.space, words(step))
        if found is None or found.repeated or not views.is_contiguous(store.index_map):
            continue
        if math.prod(k.space) < math.prod(found.inner):
            continue
        users = _users(kernels, steps, n, slot)
        made = [_of_image(kernels[steps[m].kernel], steps[m], slot, found) for m in users]
        convolutions = [k for k in made if k is not None]
        if len(convolutions) < len(users):
            continue
        place = views.contiguous(found.inner)
        store = Store(store.binding, len(found.code) - 1, place, store.dtype)
        put(n, replace(k, space=found.inner, code=found.code, stores=(store,)))
        for m, new in zip(users, convolutions, strict=True):
            put(m, new)
    for n, step in enumerate(steps):
        convolution = _convolution_of(kernels[step.kernel], words(step))
        if convolution is not None:
            put(n, convolution)
    return replace(program, kernels=kernels, steps=steps)


def _users(kernels: Sequence[Kernel], steps: Sequence[Dispatch], n: int, slot: int) -> list[int]:
    """Which steps take what step `n` writes to a slot, before another writes all of it."""
    users = []
    for m, step in enumerate(steps[n + 1 :], n + 1):
        if slot in step.slots:
            k, binding = kernels[step.kernel], step.slots.index(slot)
            read = [i for e in (k.routine.operands if k.routine else ()) for i in e.code]
            reads = any(isinstance(i, Load) and i.binding == binding for i in (*k.code, *read))
            whole = [s for s in k.stores if s.binding == binding]
            if not reads and whole and views.is_contiguous(whole[0].index_map):
                break
            users.append(m)
    return users


def _of_image(k: Kernel, step: Dispatch, slot: int, image: _Image) -> Kernel | None:
    """A convolution whose windows lie in a slot, of an image that does."""
    widths = [(0, 0), (0, 0), *[(p, p) for p in image.padding]]
    before = (*views.pad(views.contiguous(image.inner), tuple(widths)), image.windows)
    if not any(image.padding):
        before = (*views.contiguous(image.shape), image.windows)
    binding = step.slots.index(slot)

    def reads(i: Any) -> Any:
        if not isinstance(i, Load) or i.binding != binding:
            return i
        same = i.index_map == views.contiguous(image.windows.shape)
        return i._replace(index_map=before if same else (*before, *i.index_map))

    if binding in k.written or step.slots.count(slot) > 1:
        return None
    made = k.routine
    if made is not None:
        parts = [e._replace(code=tuple(map(reads, e.code))) for e in made.operands]
        made = made._replace(operands=tuple(parts))
    return _convolution_of(replace(k, code=tuple(map(reads, k.code)), routine=made))


def _convolution_of(k: Kernel, zeros: Collection[int] = ()) -> Kernel | None:
    """The kernel by the op `conv`, if that is what it computes. Of its params the words `zeros` are
    0."""
    return _of_sum(k, zeros) if k.routine is None else _of_product(k, zeros)


def _of_product(k: Kernel, zeros: Collection[int]) -> Kernel | None:
    """A product with the columns of windows."""
    assert k.routine is not None
    if k.routine.name != "matmul" or k.routine.dtype is not float32:
        return None
    a, b = k.routine.operands
    weight = _plain(a.code)
    if weight is None or len(a.shape) != 3:
        return None
    batch, row, step = weight.index_map[0].strides
    found = _image(b.code, b.shape, zeros)
    if found is None:
        return None
    axes = _axes(found, b.shape, (batch if b.shape[0] > 1 else 0, step, 0), (1,))
    if axes is None:
        return None
    rows = _Axis(int(a.shape[1]), 0, row, False)
    first = sum(x.image != 0 and x.weight != 0 and not x.summed for x in axes)
    first += sum(x.weight == 0 and x.image == found.steps[0] and found.shape[0] > 1 for x in axes)
    axes.insert(first, rows)
    routine = _convolution(found, axes, weight)
    return routine and replace(k, routine=routine)


def _of_sum(k: Kernel, zeros: Collection[int]) -> Kernel | None:
    """A sum of products of weights and windows, and what follows."""
    sums = [n for n, i in enumerate(k.code) if isinstance(i, Reduce)]
    if len(sums) != 1 or (total := k.code[sums[0]]).op != "sum" or total.dtype is not float32:  # type: ignore[union-attr]
        return None
    product = k.code[total.arg]  # type: ignore[union-attr]
    if not isinstance(product, Apply) or product.op != "mul":
        return None
    for one, other in (product.args, product.args[::-1]):
        weight = _plain([k.code[one]])
        found = weight and _image(_subtree(k.code, [other])[0], k.space, zeros)
        if found is None or weight is None:
            continue
        axes = _axes(found, k.space, weight.index_map[0].strides, total.axes)  # type: ignore[union-attr]
        routine = None if axes is None else _convolution(found, axes, weight)
        if routine is None:
            return None
        kept = [d for d in range(len(k.space)) if d not in total.axes]  # type: ignore[union-attr]
        code, at = _subtree(k.code, [s.value for s in k.stores], sums[0])
        maps = [i for i in (*code, *k.stores) if index_map_of(i) is not None]
        if any(not _is_over(index_map_of(i), kept) or isinstance(i, Apply) for i in maps):
            return None
        code = [_over(i, kept) for i in code]
        stores = [_over(s, kept)._replace(value=v) for s, v in zip(k.stores, at, strict=True)]
        space = tuple(k.space[d] for d in kept)
        return replace(k, space=space, code=tuple(code), stores=tuple(stores), routine=routine)
    return None


def _plain(code: Sequence[Any]) -> Load | None:
    """A value that is only read."""
    (i, *more) = code
    plain = not more and isinstance(i, Load) and i.dtype is float32 and len(i.index_map) == 1
    return i if plain and i.index_map[0].mask is None else None


def _subtree(
    code: Sequence[Any], values: Iterable[int], result: int = -1
) -> tuple[list[Any], list[int]]:
    """What values need, and where they stand in it; number `result` is a routine's result."""
    out: list[Any] = []
    at: dict[int, int] = {}

    def need(n: int) -> int:
        if n not in at:
            i = code[n]
            if n == result:
                i = ExternResult(i.dtype)
            elif isinstance(i, Apply):
                i = i._replace(args=tuple([need(a) for a in i.args]))
            elif operands(i):
                i = i._replace(arg=need(i.arg))
            out.append(i)
            at[n] = len(out) - 1
        return at[n]

    if result >= 0:
        need(result)  # it comes first
    return out, [need(n) for n in values]


def _is_over(index_map: Any, kept: Sequence[int]) -> bool:
    """Whether an index map depends on these dims alone."""
    (v, *more) = index_map
    rest = [s for d, s in enumerate(v.strides) if d not in kept]
    return not more and v.mask is None and not any(rest)


def _over(i: Any, kept: Sequence[int]) -> Any:
    """An instruction or a store over these dims alone."""
    if (index_map := index_map_of(i)) is None:
        return i
    (v,) = index_map
    shape, strides = (tuple([x[d] for d in kept]) for x in (v.shape, v.strides))
    return i._replace(index_map=(View(shape, strides, v.offset),))


class _Image(NamedTuple):
    """Images (N, C, *spatial) that windows are taken of: how these lie in them, and along which
    dims of the space all are the same; what the images are without a padding of zeros, and how wide
    that is around each spatial dim."""

    shape: Shape
    windows: View
    repeated: Shape
    inner: Shape
    code: tuple[Any, ...]
    padding: Shape

    @property
    def steps(self) -> Shape:
        """From element to element along each dim."""
        return views.row_major_strides(self.shape)


def _image(code: Sequence[Any], space: Sequence[int], zeros: Collection[int]) -> _Image | None:
    """Where all that code reads is windows of images of one shape: these."""
    maps = [m for i in code if (m := index_map_of(i)) is not None]
    several = [m for m in maps if len(m) > 1]
    if (
        not several
        or not math.prod(space)
        or any(isinstance(i, Apply) and i.index is not None for i in code)
    ):
        return None
    for length in (2, 1):
        tail = several[0][-length:]
        if len(several[0]) <= length or any(v.mask is not None or v.offset for v in tail):
            continue
        shape = several[0][-length - 1].shape
        alike = [m[-length:] == tail and m[-length - 1 :][0].shape == shape for m in several]
        if not all(len(m) > length for m in several) or not all(alike):
            continue
        repeated = tuple([d for d, s in enumerate(tail[-1].strides) if length == 2 and not s])
        if length == 2 and not _is_in_line(tail[1], repeated):
            continue
        out = []
        for i in code:
            m = index_map_of(i)
            if m is not None and len(m) > 1:
                i = i._replace(index_map=m[:-length])
            elif m is not None:
                if m[0].mask is not None or any(m[0].strides):
                    return None
                i = i._replace(index_map=(View(shape, (0,) * len(shape), m[0].offset),))
            out.append(i)
        whole = tuple(map(int, shape))
        bare = _without_padding(whole, out, zeros) or (whole, tuple(out), (0,) * (len(whole) - 2))
        return _Image(whole, tail[0], repeated, *bare)
    return None


def _without_padding(
    shape: Shape, code: Sequence[Any], zeros: Collection[int]
) -> tuple[Shape, tuple[Any, ...], Shape] | None:
    """The shape of images without the zeros around them, their code and how many these are before
    and after each spatial dim; None where something else is added to them."""
    masks = {m[-1].mask for i in code if (m := index_map_of(i)) is not None} - {None}
    if len(masks) != 1:
        return None
    bounds = [(int(low), int(high)) for low, high in masks.pop()]
    if any(low != n - high for (low, high), n in zip(bounds, shape, strict=True)) or any(
        low for low, _ in bounds[:2]
    ):
        return None
    inner = tuple([high - low for low, high in bounds])
    n = len(code) - 1
    while isinstance(code[n], Apply) and code[n].op == "copy":
        (n,) = code[n].args
    if isinstance(code[n], Apply) and code[n].op == "where":
        there, n, else_ = code[n].args
        other = code[else_]
        if not isinstance(code[there], InBounds) or not isinstance(other, ScalarParam):
            return None
        if other.word not in zeros:
            return None
    elif not isinstance(code[n], Load):
        return None
    out = []
    for i in _subtree(code, [n])[0]:
        if isinstance(i, InBounds):
            return None
        if (m := index_map_of(i)) is not None:
            v = m[-1]
            if v.mask is None and any(v.strides):
                return None
            first = sum(low * s for (low, _), s in zip(bounds, v.strides, strict=True))
            i = i._replace(index_map=(*m[:-1], View(inner, v.strides, v.offset + first)))
        out.append(i)
    return inner, tuple(out), tuple([low for low, _ in bounds[2:]])


def _is_in_line(v: View, apart: Sequence[int]) -> bool:
    """Whether the elements of a view follow each other, but for these dims."""
    kept = [d for d in range(len(v.shape)) if d not in apart]
    shape, strides = (tuple([x[d] for d in kept]) for x in (v.shape, v.strides))
    return views.is_contiguous((View(shape, strides),))


def _axes(
    image: _Image, space: Sequence[int], weight: Sequence[int], summed: Sequence[int]
) -> list[_Axis] | None:
    """The axes of windows, which `space` joins some of; of each of its dims the weight's step, and
    which of them are added up."""
    axes: list[_Axis] = []
    parts = list(zip(image.windows.shape, image.windows.strides, strict=True))[::-1]
    for d, size in reversed(list(enumerate(space))):
        left, step = int(size), weight[d]
        if d in image.repeated:
            axes += [_Axis(left, 0, step, d in summed)] if left > 1 else []
            continue
        while left > 1:
            if not parts:
                return None
            n, apart = parts.pop(0)
            if left % n:
                return None
            if n > 1:
                axes.append(_Axis(int(n), apart, step, d in summed))
            left, step = left // n, step * n
    return axes[::-1]


def _convolution(image: _Image, axes: Sequence[_Axis], weight: Load) -> ExternKernel | None:
    """The op over these axes; None if they are others, or have another order."""
    (batch, channels, *spatial), dims = image.shape[:2] + image.shape[2:], len(image.shape) - 2
    if dims < 1:
        return None
    steps = image.steps
    group = out = within = _Axis(1, 0, 0, False)
    kernel, dilation, strides = [1] * dims, [1] * dims, [0] * dims
    count, by = [1] * dims, [0] * dims
    order = []  # of the axes of the result
    for x in axes:
        if x.weight == 0 == x.image or (x.summed and not (x.weight and x.image)):
            return None
        if not x.summed and x.image == 0:
            out = x
            order.append((2, 0))
        elif not x.summed and not x.weight and batch > 1 and x.image == steps[0]:
            if x.size != batch:
                return None
            order.append((0, 0))
        elif x.weight and channels > 1 and x.image % steps[1] == 0:
            if x.summed:
                within = x
            else:
                group = x
                order.append((1, 0))
        else:
            found = [d for d in range(dims) if spatial[d] > 1 and x.image % steps[2 + d] == 0]
            if not found or (x.weight and not x.summed):
                return None
            d, step = found[0], x.image // steps[2 + found[0]]
            if x.summed:
                if kernel[d] > 1:
                    return None
                kernel[d], dilation[d], by[d] = x.size, step, x.weight
            else:
                if count[d] > 1:
                    return None
                count[d], strides[d] = x.size, step
                order.append((3, d))
    if order != sorted(set(order)) or (batch > 1 and (0, 0) not in order):
        return None
    each = channels // group.size
    if within.size != each or (within.size > 1 and within.image != steps[1]):
        return None
    if group.size > 1 and (group.image != each * steps[1] or channels != group.size * each):
        return None
    if group.size > 1 < out.size and group.weight != out.size * out.weight:
        return None
    strides = [s or n for s, n in zip(strides, spatial, strict=True)]
    if tuple(count) != views.window_count(tuple(spatial), tuple(kernel), tuple(strides),
                                          tuple(dilation)):  # fmt: skip
        return None
    row = out.weight if out.size > 1 else group.weight
    shape = (group.size * out.size, each, *kernel)
    place = View(shape, (row, within.weight, *by), weight.index_map[0].offset)
    attrs = (tuple(strides), image.padding, tuple(dilation), group.size)
    read = Expr(shape, (weight._replace(index_map=(place,)),), float32)
    return ExternKernel("conv", attrs, (Expr(image.inner, image.code, float32), read), float32)
