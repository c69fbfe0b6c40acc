"""Which axis of a kernel is vectorized, and how values vary from lane to lane along it."""

from __future__ import annotations

import math
from collections.abc import Sequence

from pyframe.core.sizes import SymbolicSize, is_symbolic_size, sym_max
from pyframe.core.view import IndexMap
from pyframe.graph.loops import LoopNest, position
from pyframe.graph.program import Apply, Load, Reduce
from pyframe.graph.scalar import Scalar

SCATTERED = 2  # times what a load costs, a store
MIN_LANES = 4  # lanes of a vector


def choose_vector_axis(nested: LoopNest, width: int) -> tuple[int, int]:
    """The axis along which lanes cost least, and how many there are; (-1, 1): none."""
    ops = sum(isinstance(i, (Apply, Reduce)) for i in nested.code)
    maps = [i.index_map for i in nested.code if isinstance(i, Load)]
    loads = [position(m, nested.space).at for m in maps]
    stores = [position(w.index_map, nested.space).at for w in nested.stores]
    maps += [w.index_map for w in nested.stores]
    best, axis, lanes = float(ops + len(maps)), -1, 1
    if width == 1 or extent(nested.space, maps) >= 2**31:  # indices in lanes are 32 bits
        return axis, lanes
    for d, n in enumerate(nested.space):
        grid = d in nested.levels[0]
        long = is_symbolic_size(n)  # it may be
        for w in [w for w in powers(width) if long or w <= n]:
            each = ops + sum(cost(at, d, w) for at in loads)
            each += sum(cost(at, d, w) * SCATTERED for at in stores)
            if long:
                all_ = each / w
            else:
                rest = n % w if not grid else min(n % w, 4)  # which take fewer lanes, see _stages
                all_ = each * (n // w + rest) / n
            if all_ < best or (all_ == best and d != axis):
                best, axis, lanes = all_, d, w
    return axis, lanes


def inner_axis(nested: LoopNest, axis: int, lanes: int) -> int | None:
    """The axis that is best walked within the loop over the lane axis, if there is one: where
    memory lies along another axis than lanes do, what the next vectors read is in cache then."""
    if axis not in nested.levels[0] or len(nested.levels) > 1:
        return None
    for i in nested.code:
        if isinstance(i, Load):
            at = position(i.index_map, nested.space).at
            if linear(at, axis, lanes) not in (0, 1):
                for d, n in enumerate(nested.space):
                    long = is_symbolic_size(n) or n >= lanes
                    if d != axis and long and linear(at, d, 1) == 1:
                        return d
    return None


def cost(at: Scalar, d: int, lanes: int) -> float:
    """What a vector along axis `d` costs to load, next to one whose elements lie side by side."""
    stride = linear(at, d, lanes)
    return lanes if stride is None else 1 if stride in (0, 1) else 0.4 * lanes


def powers(most: int) -> list[int]:
    """How many lanes vectors may have, the most first."""
    return [1 << k for k in range(most.bit_length() - 1, MIN_LANES.bit_length() - 2, -1)]


def extent(space: Sequence[int], maps: Sequence[IndexMap]) -> int:
    """More than any position that occurs."""
    out = math.prod(space)
    for m in maps:
        for v in m:
            size = sum(abs(n * stride) for n, stride in zip(v.shape, v.strides, strict=True))
            out = sym_max(out, abs(v.offset) + size)
    return out


def names(x: Scalar, d: int) -> bool:
    """Whether `x` depends on the index along axis `d`."""
    return x.value == d if x.op == "index" else any(names(a, d) for a in x.args)


def linear(x: Scalar, d: int, lanes: int) -> int | None:
    """By how much `x` grows from lane to lane of a vector along axis `d`; None if by no constant.

    A vector begins at a multiple of its lanes: where they are as many as divide the numbers that
    `x` is cut by, a quotient and a comparison are the same in all of them.
    """
    if x.op == "index":
        return int(x.value == d)
    if not names(x, d):
        return 0
    steps = [linear(y, d, lanes) for y in x.args]
    if None in steps:
        return None
    if not any(steps):
        return 0
    a, b = (steps[0] or 0), (steps[-1] or 0)
    if x.op == "add":
        return a + b
    if x.op == "mul" and x.args[1].op == "const":
        times = x.args[1].value
        return None if is_symbolic_size(times) else a * int(times)
    if x.op in ("div", "rem", "lt", "le"):
        moving, fixed = (x.args[1], x.args[0]) if x.op == "le" else x.args
        step = b if x.op == "le" else a
        span = step * lanes
        even = span > 0 and not divisor(moving, d, lanes) % span
        if even and not names(fixed, d) and not divisor(fixed, d, lanes) % span:
            return step if x.op == "rem" else 0
    return None


def divisor(x: Scalar, d: int, lanes: int) -> int:
    """A number that divides `x` in the first lane of a vector; 0 if that is 0."""
    if x.op == "const":
        size = type(x.value) is SymbolicSize
        return math.gcd(*x.value.terms.values()) if size else int(x.value)
    if x.op == "index":
        return lanes if x.value == d else 1
    if x.op == "add":
        return math.gcd(*[divisor(y, d, lanes) for y in x.args])
    if x.op == "mul":
        return math.prod([divisor(y, d, lanes) for y in x.args])
    if x.op == "rem":
        return math.gcd(*[divisor(y, d, lanes) for y in x.args])
    return 1
