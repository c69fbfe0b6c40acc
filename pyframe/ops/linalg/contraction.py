"""Products of several tensors, summed over the dims that they share: einsum, tensordot, chains."""

from __future__ import annotations

import functools
import itertools
import math
import re
from collections.abc import Sequence
from typing import Any

from pyframe.ops.api import check
from pyframe.ops.api.public import public
from pyframe.ops.linalg.matmul import expect_ndims, matmul, shapes_text, sum_over
from pyframe.ops.math.elementwise import mul
from pyframe.ops.reduce.reductions import wide
from pyframe.ops.shape import movement as mv
from pyframe.tensor import Tensor, normalize_dim


def multi_dot(tensors: Sequence[Tensor]) -> Tensor:
    """The product of matrices (the first and the last may be vectors) in the order with the fewest
    multiplications (Cormen et al., Introduction to Algorithms, 15.2)."""
    xs = list(tensors)
    if len(xs) < 2:
        raise RuntimeError(f"multi_dot(): expected at least 2 tensors but got {len(xs)}")
    check.same_dtype("multi_dot", *xs)
    for i, x in enumerate(xs):
        ends = (1, 2) if i in (0, len(xs) - 1) else (2,)
        if x.ndim not in ends:
            raise RuntimeError(
                f"multi_dot(): tensor {i} must be "
                f"{'1D or 2D' if 1 in ends else '2D'} but got {x.ndim}D"
            )
    drop = [d for d, x in ((0, xs[0]), (-1, xs[-1])) if x.ndim == 1]
    xs[0] = mv.unsqueeze(xs[0], 0) if xs[0].ndim == 1 else xs[0]
    xs[-1] = mv.unsqueeze(xs[-1], 1) if xs[-1].ndim == 1 else xs[-1]
    for a, b in itertools.pairwise(xs):
        if a.shape[1] != b.shape[0]:
            raise RuntimeError(
                f"multi_dot(): tensors with shapes {shapes_text(a, b)} cannot be multiplied"
            )
    out = _best_product(xs)
    return mv.squeeze(out, drop) if drop else out


def _best_product(xs: list[Tensor]) -> Tensor:
    sizes = [x.shape[0] for x in xs] + [xs[-1].shape[1]]

    @functools.cache
    def best(i: int, j: int) -> tuple[int, int]:
        """The fewest multiplications for xs[i] @ … @ xs[j], and the last of its left factors."""
        if i == j:
            return 0, i
        return min(
            (best(i, k)[0] + best(k + 1, j)[0] + sizes[i] * sizes[k + 1] * sizes[j + 1], k)
            for k in range(i, j)
        )

    def product(i: int, j: int) -> Tensor:
        _, k = best(i, j)
        return xs[i] if i == j else matmul(product(i, k), product(k + 1, j))

    return product(0, len(xs) - 1)


def chain_matmul(*matrices: Tensor) -> Tensor:
    """`linalg.multi_dot` of matrices given one by one."""
    xs = list(matrices)
    if not xs:
        raise RuntimeError("chain_matmul(): Expected one or more matrices")
    for x in xs:
        expect_ndims("chain_matmul", "2D matrices", (x, 2))
    return xs[0].clone() if len(xs) == 1 else multi_dot(xs)


def tensordot(a: Tensor, b: Tensor, dims: Any = 2) -> Tensor:
    """The products summed over pairs of dims: `dims` counts the last of `a` and first of `b`, or
    names them in two lists."""
    check.same_dtype("tensordot", a, b)
    dims = dims.tolist() if isinstance(dims, Tensor) else dims
    if isinstance(dims, int):
        if dims < 0 or dims > min(a.ndim, b.ndim):
            raise RuntimeError(
                f"tensordot expects dims to be between 0 and {min(a.ndim, b.ndim)} for shapes "
                f"{shapes_text(a, b)}, but got dims={dims}"
            )
        dims = (list(range(a.ndim - dims, a.ndim)), list(range(dims)))
    over_a, over_b = ([d] if isinstance(d, int) else list(d) for d in dims)
    over_a = [normalize_dim(d, a.ndim) for d in over_a]
    over_b = [normalize_dim(d, b.ndim) for d in over_b]
    if len(over_a) != len(over_b):
        raise RuntimeError(
            f"both dimension lists should have same length, got {len(over_a)} and {len(over_b)}"
        )
    if len(set(over_a)) < len(over_a) or len(set(over_b)) < len(over_b):
        raise RuntimeError(f"tensordot: a dim appears more than once in {dims}")
    for i, j in zip(over_a, over_b, strict=True):
        if a.shape[i] != b.shape[j] and 1 not in (a.shape[i], b.shape[j]):
            raise RuntimeError(
                f"contracted dimensions need to match, but first has size {a.shape[i]} in dim {i} "
                f"and second has size {b.shape[j]} in dim {j}"
            )
    names_a = list(range(a.ndim))
    names_b = [a.ndim + j for j in range(b.ndim)]
    for i, j in zip(over_a, over_b, strict=True):
        names_b[j] = names_a[i]
    kept = [n for n in names_a if n not in over_a] + [n for n in names_b if n >= a.ndim]
    out, names = _contract(a, names_a, b, names_b, kept)
    return _in_order(out, names, kept)


def _in_order(x: Tensor, names: list[int], wanted: list[int]) -> Tensor:
    return x if names == wanted else mv.permute(x, *(names.index(n) for n in wanted))


def _contract(
    a: Tensor, names_a: list[int], b: Tensor, names_b: list[int], kept: Sequence[int]
) -> tuple[Tensor, list[int]]:
    """a * b summed over the named dims that are not in `kept`, through one batched product; and
    the names of the result's dims. A dim of size 1 stands for one of any size."""
    size_a = dict(zip(names_a, a.shape, strict=True))
    size_b = dict(zip(names_b, b.shape, strict=True))
    alone_a = [n for n in names_a if n in size_b and size_a[n] == 1 != size_b[n]]
    alone_b = [n for n in names_b if n in size_a and size_b[n] == 1 != size_a[n]]
    a, names_a = _without(a, names_a, alone_a)
    b, names_b = _without(b, names_b, alone_b)
    a, names_a = _without(a, names_a, [n for n in names_a if n not in names_b and n not in kept])
    b, names_b = _without(b, names_b, [n for n in names_b if n not in names_a and n not in kept])
    both = [n for n in names_a if n in names_b]
    batch, over = [n for n in both if n in kept], [n for n in both if n not in kept]
    rows = [n for n in names_a if n not in both]
    columns = [n for n in names_b if n not in both]
    out_names = batch + rows + columns
    a, b = _in_order(a, names_a, batch + rows + over), _in_order(b, names_b, batch + over + columns)
    sizes = {**dict(zip(batch + rows + over, a.shape, strict=True)),
             **dict(zip(batch + over + columns, b.shape, strict=True))}  # fmt: skip
    shape = tuple(sizes[n] for n in out_names)
    nb, nr, nk, nc = (math.prod(sizes[n] for n in part) for part in (batch, rows, over, columns))
    if not over:  # nothing is summed
        return mul(a.reshape(nb, nr, 1), b.reshape(nb, 1, nc)).reshape(shape), out_names
    left, right = ((nb, nr, nk), (nb, nk, nc)) if batch else ((nr, nk), (nk, nc))
    return matmul(a.reshape(left), b.reshape(right)).reshape(shape), out_names


def _without(x: Tensor, names: list[int], drop: list[int]) -> tuple[Tensor, list[int]]:
    """`x` summed over the dims called `drop`."""
    if not drop:
        return x, names
    return sum_over(x, *(names.index(n) for n in drop)), [n for n in names if n not in drop]


def einsum(*args: Any) -> Tensor:
    """Sums of products in Einstein's notation: einsum("bij,bjk->bik", x, y), or with a list of
    dims behind each operand; torch.einsum. Operands are joined from left to right."""
    operands, inputs, output = _einsum_args(args)
    names: list[list[int]] = []
    sizes: dict[int, int] = {}
    for i, (x, term) in enumerate(zip(operands, inputs, strict=True)):
        operands[i], own = _named_dims(i, x, term)
        names.append(own)
        for n, size in zip(own, operands[i].shape, strict=True):
            if sizes.get(n, 1) != 1 and size not in (1, sizes[n]):
                raise RuntimeError(
                    f"einsum(): operands do not broadcast with remapped shapes: subscript "
                    f"{_letter(n)!r} has size {size} in operand {i}, but an earlier one {sizes[n]}"
                )
            sizes[n] = max(sizes.get(n, 1), size) if size else 0
    dots = sorted(n for n in sizes if n < 0)
    if output is None:
        flat = [n for term in inputs for n in term if n is not Ellipsis]
        wanted = dots + sorted(n for n in set(flat) if flat.count(n) == 1)
    else:
        if output.count(Ellipsis) > 1:
            raise RuntimeError(
                "einsum(): found '...' for output but an ellipsis is only valid once"
            )
        wanted = [m for n in output for m in (dots if n is Ellipsis else [n])]
        for n in wanted:
            if n not in sizes:
                raise RuntimeError(
                    f"einsum(): output subscript {_letter(n)} does not appear in the equation for "
                    "any input operand"
                )
            if wanted.count(n) > 1:
                raise RuntimeError(
                    f"einsum(): output subscript {_letter(n)} appears more than once in the output"
                )
    out, own = operands[0], names[0]
    for i in range(1, len(operands)):
        later = {n for term in names[i + 1 :] for n in term} | set(wanted)
        out, own = _contract(out, own, operands[i], names[i], list(later))
    summed = [n for n in own if n not in wanted]
    if summed and len(operands) == 1:  # where PyTorch's ints become int64, which products keep
        out = out.to(wide(out))
    out, own = _without(out, own, summed)
    out = _in_order(out, own, wanted)
    if any(out is x for x in operands):  # a result is never one of the operands
        out = out.reshape(out.shape)
    return out


def _letter(n: int) -> str:
    return _LETTERS[n] if n >= 0 else "..."


def _einsum_args(args: Any) -> tuple[list[Tensor], list[list[Any]], list[Any] | None]:
    """The operands, the dims of each as numbers (or ...), and those of the result if given."""
    if not args:
        raise ValueError("einsum(): must specify the equation string and at least one operand")
    if isinstance(args[0], str):
        equation, operands = args[0], list(args[1:])
        if len(operands) == 1 and isinstance(operands[0], (list, tuple)):
            operands = list(operands[0])
        left, arrow, right = equation.partition("->")
        inputs = [_einsum_term(t) for t in left.split(",")]
        output = _einsum_term(right) if arrow else None
    else:
        args = list(args)
        output = _einsum_list(args.pop()) if len(args) % 2 else None
        operands, inputs = args[::2], [_einsum_list(t) for t in args[1::2]]
    if not operands:
        raise ValueError("einsum(): must provide at least one operand")
    check.tensors("einsum", *operands)
    if len(operands) != len(inputs):
        fewer = "fewer" if len(operands) > len(inputs) else "more"
        raise RuntimeError(
            f"einsum(): {fewer} operands were provided than specified in the equation: "
            f"{len(operands)} for {len(inputs)} terms"
        )
    return operands, inputs, output


def _einsum_term(text: str) -> list[Any]:
    out: list[Any] = []
    for c in re.findall(r"\.\.\.|[^ ]", text):
        if c not in (*_LETTERS, "..."):
            raise RuntimeError(
                f"einsum(): invalid subscript given in {text!r}: {c!r}; subscripts must be in "
                "[a-zA-Z], and '...' may stand once in each operand"
            )
        out.append(Ellipsis if c == "..." else _LETTERS.index(c))
    return out


def _einsum_list(items: Any) -> list[Any]:
    for n in items:
        if n is not Ellipsis and not 0 <= n < 52:
            raise ValueError(f"einsum(): subscript {n} is not within the valid range [0, 52)")
    return list(items)


def _named_dims(i: int, x: Tensor, term: list[Any]) -> tuple[Tensor, list[int]]:
    """`x` with a name for each dim: repeated names become their diagonal, the dims of an ellipsis
    are -1, -2, … from the last."""
    if term.count(Ellipsis) > 1:
        raise RuntimeError(f"einsum(): found more than one '...' for operand {i}")
    extra = x.ndim - (len(term) - term.count(Ellipsis))
    if extra < 0 or (extra and Ellipsis not in term):
        raise RuntimeError(
            f"einsum(): the number of subscripts in the equation ({len(term)}) does not match the "
            f"number of dimensions ({x.ndim}) for operand {i}"
            + ("" if Ellipsis in term else " and no ellipsis was given")
        )
    names: list[int] = []
    for n in term:
        names += range(-extra, 0) if n is Ellipsis else [n]
    for n in sorted(set(names)):
        while names.count(n) > 1:
            a = names.index(n)
            b = names.index(n, a + 1)
            if x.shape[a] != x.shape[b]:
                raise RuntimeError(
                    f"einsum(): subscript {_letter(n)} is repeated for operand {i} but the sizes "
                    f"don't match, {x.shape[b]} != {x.shape[a]}"
                )
            x = mv.diagonal(x, 0, a, b)
            names = [m for m in names if m != n] + [n] * (names.count(n) - 1)
    return x, names


def inner(input: Tensor, other: Tensor) -> Tensor:
    """The products over the last dim of both: (*a, n) and (*b, n) -> (*a, *b)."""
    check.same_dtype("inner", input, other)
    if input.ndim == 0 or other.ndim == 0:
        return mul(input, other)
    if input.shape[-1] != other.shape[-1]:
        raise RuntimeError(
            "inner() the last dimension must match on both input tensors but got shapes "
            f"{shapes_text(input, other)}"
        )
    return tensordot(input, other, ([-1], [-1]))


_LETTERS = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"

public(
    globals(), both="inner", functions="tensordot einsum chain_matmul", out_exact="tensordot",
    lower="chain_matmul multi_dot einsum", cpu_lower="inner tensordot",
    gpu_widest="inner tensordot",
)  # fmt: skip
