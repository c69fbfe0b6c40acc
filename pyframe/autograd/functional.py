"""Derivatives of functions, as torch.autograd.functional: arguments are a Tensor or a tuple."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from pyframe.autograd.walk import grad
from pyframe.core.modes import enable_grad, mode
from pyframe.ops.random.creation import eye, ones_like, zeros_like
from pyframe.ops.shape.join import cat, stack
from pyframe.ops.shape.movement import reshape, view_as
from pyframe.tensor import Tensor

__all__ = ["hessian", "hvp", "jacobian", "jvp", "vhp", "vjp"]

Tensors = tuple[Tensor, ...]


def vjp(
    func: Callable[..., Any], inputs: Any, v: Any = None, create_graph: bool = False,
    strict: bool = False,
) -> tuple[Any, Any]:  # fmt: skip
    """`func(*inputs)` and the product of `v` (of the outputs' shapes) with its Jacobian."""
    with enable_grad():
        xs = _fresh("vjp", inputs, create_graph)
        outs, ys = _called("vjp", func, xs, strict)
        vs = _like(v, ys, "vjp", "user-provided function returns")
        found = pulled(ys, xs, vs, create_graph, strict)
    return _done(outs, create_graph), _done(_as(found, inputs), create_graph)


def jvp(
    func: Callable[..., Any], inputs: Any, v: Any = None, create_graph: bool = False,
    strict: bool = False,
) -> tuple[Any, Any]:  # fmt: skip
    """`func(*inputs)` and the product of its Jacobian with `v` (of the inputs' shapes), by two
    backward passes: the vector-Jacobian product is linear in its vector, and is differentiated."""
    with enable_grad():
        xs = _fresh("jvp", inputs, create_graph)
        vs = _like(v, xs, "jvp")
        outs, ys = _called("jvp", func, xs, strict)
        found = push(ys, xs, vs, create_graph, strict)
    return _done(outs, create_graph), _done(_as(found, outs), create_graph)


def jacobian(
    func: Callable[..., Any], inputs: Any, create_graph: bool = False, strict: bool = False,
    vectorize: bool = False, strategy: str = "reverse-mode",
) -> Any:  # fmt: skip
    """The derivatives of each output by each input, of shape output.shape + input.shape: a Tensor,
    or a tuple for several inputs, in a tuple for several outputs.

    A backward pass for each element of the outputs; with `vectorize` one for all, which takes less
    time and more memory. `strategy` makes no difference: pyframe has no forward mode.
    """
    if strategy not in ("forward-mode", "reverse-mode"):
        raise AssertionError(
            f"Expected strategy to be either 'forward-mode' or 'reverse-mode', got {strategy!r}"
        )
    if strategy == "forward-mode" and not vectorize:
        raise NotImplementedError(
            "Computing Jacobian using forward-AD or forward-over-reverse Hessian is only "
            "implemented for `vectorize=True`."
        )
    if strict and vectorize:
        raise RuntimeError(
            "jacobian: `strict=True` and `vectorize=True` are not supported together; set one of "
            "them to False"
        )
    with enable_grad():
        xs = _fresh("jacobian", inputs, create_graph)
        outs, ys = _called("jacobian", func, xs, strict)
        chunk = None if vectorize else 1
        rows = [jacobian_of(y, xs, create_graph, strict and i, chunk) for i, y in enumerate(ys)]
    return _done(_as(tuple([_as(row, inputs) for row in rows]), outs), create_graph)


def hessian(
    func: Callable[..., Any], inputs: Any, create_graph: bool = False, strict: bool = False,
    vectorize: bool = False, outer_jacobian_strategy: str = "reverse-mode",
) -> Any:  # fmt: skip
    """The second derivatives of a function with one element as its result; see `jacobian`."""

    def scalar(*xs: Tensor) -> Tensor:
        return _scalar(func(*xs), "hessian")

    def first(*xs: Tensor) -> Any:
        found = jacobian(scalar, xs, create_graph=True, strict=strict)
        if strict and any(not g.requires_grad for g in found):
            raise _independent("Jacobian of the user-provided function", "any input")
        return found if isinstance(inputs, tuple) else found[0]

    return jacobian(first, inputs, create_graph=create_graph, strict=strict, vectorize=vectorize)


def vhp(
    func: Callable[..., Any], inputs: Any, v: Any = None, create_graph: bool = False,
    strict: bool = False,
) -> tuple[Any, Any]:  # fmt: skip
    """`func(*inputs)`, of one element, and the product of `v` with its Hessian."""
    return _of_hessian("vhp", pulled, func, inputs, v, create_graph, strict)


def hvp(
    func: Callable[..., Any], inputs: Any, v: Any = None, create_graph: bool = False,
    strict: bool = False,
) -> tuple[Any, Any]:  # fmt: skip
    """`func(*inputs)`, of one element, and the product of its Hessian with `v`; `vhp` takes less
    time, and is the same where second derivatives are continuous."""
    return _of_hessian("hvp", push, func, inputs, v, create_graph, strict)


def _of_hessian(
    name: str, product: Callable[..., Tensors], func: Callable[..., Any], inputs: Any, v: Any,
    create_graph: bool, strict: bool,
) -> tuple[Any, Any]:  # fmt: skip
    """`func(*inputs)`, and a product of `v` with the Jacobian of its gradient."""
    with enable_grad():
        xs = _fresh(name, inputs, create_graph)
        vs = _like(v, xs, name)
        y = _scalar(_called(name, func, xs, strict)[0], name, squeeze=False)
        slopes = pulled((y,), xs, (ones_like(y).detach(),), True, strict)
        found = product(slopes, xs, vs, create_graph, strict)
    return _done(y, create_graph), _done(_as(found, inputs), create_graph)


def push(
    ys: Tensors, xs: Tensors, vs: Tensors, create_graph: bool, strict: bool = False
) -> Tensors:
    """The product of the Jacobian of `ys` by `xs` with `vs`."""
    us = tuple([zeros_like(y).detach().requires_grad_(_smooth(y)) for y in ys])
    back = pulled(ys, xs, us, True, strict)
    return pulled(back, us, vs, create_graph)


def jacobian_of(
    y: Tensor, xs: Tensors, create_graph: bool, strict: Any = False, chunk: int | None = None
) -> Tensors:
    """The derivatives of `y` by each of `xs`, of shape y.shape + x.shape; a backward pass for each
    `chunk` elements of `y`, or one for all."""
    n = y.numel()
    found: list[Any] = []
    if n and y.requires_grad:
        seeds = reshape(eye(n, dtype=y.dtype, device=y.device), (n, *y.shape))
        chunk = chunk or n
        parts = [
            grad(
                y, xs, seeds[i] if chunk == 1 else seeds[i : i + chunk], retain_graph=True,
                create_graph=create_graph, allow_unused=True, is_grads_batched=chunk > 1,
            )
            for i in range(0, n, chunk)
        ]  # fmt: skip
        join = stack if chunk == 1 else cat
        found = [None if p[0] is None else join(p) for p in zip(*parts, strict=True)]
    out = []
    for i, (g, x) in enumerate(zip(found or [None] * len(xs), xs, strict=True)):
        if g is None:
            if strict is not False:
                raise _independent(f"Output {int(strict)} of the user-provided function", i)
            g = zeros_like(x).detach().expand(n, *x.shape).clone()
        out.append(reshape(g, (*y.shape, *x.shape)))
    return tuple(out)


def _scalar(y: Any, name: str, squeeze: bool = True) -> Tensor:
    if not isinstance(y, Tensor):
        raise RuntimeError(f"The function given to {name} should return a single Tensor")
    if y.numel() != 1:
        raise RuntimeError(
            f"The Tensor returned by the function given to {name} should contain a single element, "
            f"got shape {list(y.shape)}"
        )
    return reshape(y, ()) if squeeze else y


def _tensors(value: Any, what: str, name: str) -> Tensors:
    values = value if isinstance(value, tuple) else (value,)
    for i, x in enumerate(values):
        if not isinstance(x, Tensor):
            if isinstance(value, tuple):
                raise TypeError(
                    f"The {what} given to {name} must be either a Tensor or a tuple of Tensors but "
                    f"the value at index {i} has type {type(x)}."
                )
            raise TypeError(
                f"The {what} given to {name} must be either a Tensor or a tuple of Tensors but the "
                f"given {what} has type {type(x)}."
            )
    return values


def _fresh(name: str, inputs: Any, create_graph: bool) -> Tensors:
    """The inputs as tensors of their own, which nothing but `func` depends on."""
    return tuple([fresh(x, create_graph) for x in _tensors(inputs, "inputs", name)])


def fresh(x: Tensor, follow: bool) -> Tensor:
    """A tensor with the value of `x` to differentiate by; with `follow` it has its history."""
    if follow and x.requires_grad:
        return view_as(x, x)
    out = x.detach()
    return out.requires_grad_() if _smooth(x) else out


def _smooth(x: Tensor) -> bool:
    return x.is_floating_point() or x.is_complex()


def _called(name: str, func: Callable[..., Any], xs: Tensors, strict: bool) -> tuple[Any, Tensors]:
    outs = func(*xs)
    ys = _tensors(outs, "outputs of the user-provided function", name)
    if strict:
        for i, y in enumerate(ys):
            if not y.requires_grad:
                raise _independent(f"Output {i} of the user-provided function", "any input")
    return outs, ys


def _independent(what: str, i: Any) -> RuntimeError:
    which = f"input {i}" if isinstance(i, int) else i
    return RuntimeError(f"{what} is independent of {which}. This is not allowed in strict mode.")


def _like(
    v: Any, others: Tensors, name: str, what: str = "input to the user-provided function is"
) -> Tensors:
    """The vectors to multiply with, of the shapes of others; 1 for None and a single element."""
    if v is None:
        if len(others) != 1 or others[0].numel() != 1:
            raise RuntimeError(
                f"The vector v can only be None if the {what} a single Tensor with a single "
                f"element; {name} got {[list(x.shape) for x in others]}"
            )
        return (ones_like(others[0]).detach(),)
    vs = _tensors(v, "v", name)
    if len(vs) != len(others):
        raise RuntimeError(
            f"v is a tuple of invalid length: should be {len(others)} but got {len(vs)}."
        )
    for i, (a, b) in enumerate(zip(vs, others, strict=True)):
        if a.shape != b.shape:
            raise RuntimeError(
                f"Entry {i} in v has invalid size: should be {list(b.shape)} but got "
                f"{list(a.shape)}."
            )
    return vs


def pulled(
    ys: Sequence[Tensor], xs: Sequence[Tensor], vs: Sequence[Tensor], create_graph: bool,
    strict: bool = False,
) -> Tensors:  # fmt: skip
    """The sum of `vs` times the derivatives of `ys`; zeros where there are none."""
    pairs = [(y, v) for y, v in zip(ys, vs, strict=True) if y.requires_grad]
    wanted = [x for x in xs if x.requires_grad]
    found: Any = iter(())
    if pairs and wanted:
        roots, seeds = zip(*pairs, strict=True)
        found = iter(grad(roots, wanted, seeds, retain_graph=True, create_graph=create_graph,
                          allow_unused=True))  # fmt: skip
    out = []
    for i, x in enumerate(xs):
        g = next(found, None) if x.requires_grad else None
        if g is None and strict:
            raise _independent("The output of the user-provided function", i)
        out.append(zeros_like(x).detach() if g is None else g)
    return tuple(out)


def _as(values: tuple[Any, ...], like: Any) -> Any:
    return values if isinstance(like, tuple) else values[0]


def _done(value: Any, create_graph: bool) -> Any:
    if isinstance(value, tuple):
        return tuple([_done(v, create_graph) for v in value])
    return value if create_graph and mode.grad else value.detach()
