"""Transforms of functions, as torch.func: each takes a function and gives a function."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

from pyframe.autograd.functional import fresh, jacobian_of, pulled, push
from pyframe.core.grad_node import GradNode
from pyframe.core.modes import enable_grad, mode
from pyframe.ops.api.vmap import vmap
from pyframe.ops.random.creation import ones_like
from pyframe.ops.shape.join import stack
from pyframe.tensor import Tensor
from pyframe.tensor.tree import leaves, tree_map, unflatten

__all__ = [
    "functional_call", "grad", "grad_and_value", "hessian", "jacfwd", "jacrev", "jvp", "linearize",
    "stack_module_state", "value_and_grad", "vjp", "vmap",
]  # fmt: skip


class _GradLevel:
    """A differentiation under way: its variables, and what depends on others than them.

    A level may lie in another's function, or among tensors that require grad: what depends on
    those keeps its history, and what depends on this level's variables alone has none outside.
    """

    def __init__(self, inputs: Any) -> None:
        self.outer = mode.grad
        self.own: set[int] = set()
        self.over = [False]  # this level's variables are no one's any more
        self.inputs = tree_map(inputs, self._variable)
        self.xs = tuple(leaves(self.inputs))

    def _variable(self, x: Tensor) -> Tensor:
        out = fresh(x, self.outer)
        if out.is_leaf:
            self.own.add(id(out))
            out.__dict__["_level_over"] = self.over
        return out

    def follows(self, *ys: Tensor) -> bool:
        """Whether derivatives of `ys` are to be differentiable in their turn."""
        return self.outer and any(self._others(y) for y in ys)

    def out(self, tree: Any) -> Any:
        """A result without this level's part of its history."""
        self.over[0] = True
        return tree_map(tree, lambda y: y if self.outer and self._others(y) else y.detach())

    def _others(self, y: Tensor) -> bool:
        stack: list[Any] = [y.grad_fn or y] if y.requires_grad else []
        seen: set[int] = set()
        while stack:
            e = stack.pop()
            if id(e) in seen:
                continue
            seen.add(id(e))
            if isinstance(e, GradNode):
                stack.extend(n for n in e.edges if n is not None)
            elif id(e) not in self.own and not e.__dict__.get("_level_over", (False,))[0]:
                return True
        return False


def _chosen(args: tuple[Any, ...], argnums: Any) -> Any:
    """The arguments at `argnums`: one, or a tuple of them."""
    many = (argnums,) if isinstance(argnums, int) else tuple(argnums)
    for i in many:
        if not isinstance(i, int) or not -len(args) <= i < len(args):
            raise RuntimeError(f"Got argnum={i}, but only {len(args)} positional inputs")
    if len({i % len(args) for i in many}) < len(many):
        raise RuntimeError(f"argnums elements must be unique, got {argnums}")
    return args[argnums] if isinstance(argnums, int) else tuple([args[i] for i in many])


def _replaced(args: tuple[Any, ...], argnums: Any, values: Any) -> list[Any]:
    out = list(args)
    if isinstance(argnums, int):
        out[argnums] = values
    else:
        for i, value in zip(argnums, values, strict=True):
            out[i] = value
    return out


def _split(found: Any, has_aux: bool, name: str) -> tuple[Any, Any]:
    if not has_aux:
        return found, None
    if not isinstance(found, tuple) or len(found) != 2:
        raise RuntimeError(
            f"{name}: output of function f should be a tuple: (output, aux) if has_aux is True"
        )
    return found


def grad_and_value(
    func: Callable[..., Any], argnums: Any = 0, has_aux: bool = False
) -> Callable[..., Any]:
    """A function that gives the gradient of `func`, whose result is a 0-d tensor, by its arguments
    at `argnums` (which may be nested lists, tuples and dicts of tensors), and the result itself;
    with `has_aux`, where `func` gives (result, aux): (gradient, (result, aux)).

    >>> pf.func.grad_and_value(lambda x: x * x)(pf.tensor(3.0))
    (tensor(6.), tensor(9.))
    """

    @functools.wraps(func)
    def wrapped(*args: Any, **kwargs: Any) -> Any:
        level = _GradLevel(_chosen(args, argnums))
        with enable_grad():
            found = func(*_replaced(args, argnums, level.inputs), **kwargs)
            y, aux = _split(found, has_aux, "grad_and_value(f)(*args)")
            if not isinstance(y, Tensor):
                raise RuntimeError(
                    "grad_and_value(f)(*args): Expected f(*args) to return a single tensor, got "
                    f"{type(y).__name__}"
                )
            if y.ndim:
                raise RuntimeError(
                    "grad_and_value(f)(*args): Expected f(*args) to return a scalar tensor, got "
                    f"tensor with {y.ndim} dims. Maybe you wanted to use the vjp or jacrev APIs"
                )
            grads = pulled((y,), level.xs, (ones_like(y).detach(),), level.follows(y))
        found = unflatten(grads, level.inputs)
        if has_aux:
            return level.out(found), (level.out(y), level.out(aux))
        return level.out(found), level.out(y)

    return wrapped


def value_and_grad(
    func: Callable[..., Any], argnums: Any = 0, has_aux: bool = False
) -> Callable[..., Any]:
    """`grad_and_value` with the value first, as JAX has it.

    Args:
        func, argnums, has_aux: As of `grad_and_value`.

    >>> pf.func.value_and_grad(lambda x: x * x)(pf.tensor(3.0))
    (tensor(9.), tensor(6.))
    """
    both = grad_and_value(func, argnums, has_aux)

    @functools.wraps(func)
    def wrapped(*args: Any, **kwargs: Any) -> Any:
        return both(*args, **kwargs)[::-1]

    return wrapped


def grad(func: Callable[..., Any], argnums: Any = 0, has_aux: bool = False) -> Callable[..., Any]:
    """A function that gives the gradient of `func`, whose result is a 0-d tensor, by its arguments
    at `argnums`; with `has_aux`, where `func` gives (result, aux): (gradient, aux).

    >>> pf.func.grad(lambda x: x * x)(pf.tensor(3.0))
    tensor(6.)
    """
    both = grad_and_value(func, argnums, has_aux)

    @functools.wraps(func)
    def wrapped(*args: Any, **kwargs: Any) -> Any:
        found, value = both(*args, **kwargs)
        return (found, value[1]) if has_aux else found

    return wrapped


def vjp(func: Callable[..., Any], *primals: Any, has_aux: bool = False) -> Any:
    """`func(*primals)` and a function that gives, for cotangents (of the result's structure), their
    products with the Jacobian, a tuple; with `has_aux` aux too.

    Args:
        primals: The arguments, tensors or containers of them.

    >>> y, pull = pf.func.vjp(pf.sin, pf.tensor([0.0]))
    >>> pull(pf.tensor([2.0]))
    (tensor([2.]),)
    """
    level = _GradLevel(primals)
    with enable_grad():
        out, aux = _split(func(*level.inputs), has_aux, "vjp(f, *primals)")
    ys = leaves(out)
    if not ys:
        raise RuntimeError("vjp(f, *primals): Expected f to return tensors, got none")

    def pull(cotangents: Any, retain_graph: bool = True, create_graph: bool | None = None) -> Any:
        vs = leaves(cotangents)
        if len(vs) != len(ys):
            raise RuntimeError(
                f"vjp: expected cotangents of the result's structure ({len(ys)} tensors), got "
                f"{len(vs)}"
            )
        # of what the caller's own level or graph has made, the result is a part
        further = mode.grad and (level.follows(*ys) or any(v.requires_grad for v in vs))
        with enable_grad():
            found = pulled(ys, level.xs, vs, further)
        return unflatten(level.out(found), level.inputs)

    results = (level.out(out), pull)
    return (*results, level.out(aux)) if has_aux else results


def jvp(
    func: Callable[..., Any], primals: Any, tangents: Any, *, strict: bool = False,
    has_aux: bool = False,
) -> Any:  # fmt: skip
    """`func(*primals)` and the product of its Jacobian with `tangents`; with `has_aux` aux too.
    It is computed by two backward passes: pyframe has no forward mode.

    Args:
        func: A function of tensors.
        primals, tangents: Tuples: its arguments, and a direction for each.
        strict: Allowed, and not needed.

    >>> pf.func.jvp(pf.sin, (pf.tensor([0.0]),), (pf.tensor([2.0]),))[1]
    tensor([2.])
    """
    if not isinstance(primals, tuple) or not primals:
        raise RuntimeError("jvp(f, primals, tangents): Expected primals to be a tuple, not empty")
    out, push_, aux = _linear(func, primals, has_aux, "jvp")
    found = push_(tangents)
    return (out, found, aux) if has_aux else (out, found)


def linearize(func: Callable[..., Any], *primals: Any) -> tuple[Any, Callable[..., Any]]:
    """`func(*primals)` and a function that multiplies tangents with the Jacobian there.

    Args:
        func: A function of tensors.
        primals: Its arguments.

    >>> y, push = pf.func.linearize(pf.sin, pf.tensor([0.0]))
    >>> push(pf.tensor([2.0]))
    tensor([2.])
    """
    out, push_, _ = _linear(func, primals, False, "linearize")
    return out, lambda *tangents: push_(tangents)


def _linear(func: Any, primals: tuple[Any, ...], has_aux: bool, name: str) -> Any:
    level = _GradLevel(primals)
    with enable_grad():
        out, aux = _split(func(*level.inputs), has_aux, f"{name}(f, primals, tangents)")
    ys = tuple(leaves(out))

    def push_(tangents: Any) -> Any:
        vs = tuple(leaves(tangents))
        if [v.shape for v in vs] != [x.shape for x in level.xs]:
            raise RuntimeError(
                f"{name}: expected tangents of the primals' shapes "
                f"{[list(x.shape) for x in level.xs]}, got {[list(v.shape) for v in vs]}"
            )
        further = mode.grad and (level.follows(*ys) or any(v.requires_grad for v in vs))
        with enable_grad():
            return unflatten(level.out(push(ys, level.xs, vs, further)), out)

    return level.out(out), push_, level.out(aux)


def jacrev(
    func: Callable[..., Any], argnums: Any = 0, *, has_aux: bool = False,
    chunk_size: int | None = None, _preallocate_and_copy: bool = False,
) -> Callable[..., Any]:  # fmt: skip
    """A function that gives the derivatives of each tensor of the result by the arguments at
    `argnums`, of shape result.shape + argument.shape: one backward pass for all elements, or for
    each `chunk_size` of them.

    Args:
        func: A function of tensors.
        has_aux: Whether it gives (result, aux).
        _preallocate_and_copy: Allowed, and not needed.

    >>> pf.func.jacrev(lambda x: x * x)(pf.tensor([1.0, 2.0]))
    tensor([[2., 0.],
            [0., 4.]])
    """

    @functools.wraps(func)
    def wrapped(*args: Any, **kwargs: Any) -> Any:
        level = _GradLevel(_chosen(args, argnums))
        with enable_grad():
            found = func(*_replaced(args, argnums, level.inputs), **kwargs)
            out, aux = _split(found, has_aux, "jacrev(f)(*args)")

            def rows(y: Tensor) -> Any:
                found = jacobian_of(y, level.xs, level.follows(y), chunk=chunk_size)
                return unflatten(found, level.inputs)

            result = level.out(tree_map(out, rows))
        return (result, level.out(aux)) if has_aux else result

    return wrapped


def jacfwd(
    func: Callable[..., Any], argnums: Any = 0, has_aux: bool = False, *, randomness: str = "error"
) -> Callable[..., Any]:
    """The same as `jacrev`: pyframe has no forward mode.

    Args:
        func, argnums, has_aux: As of `jacrev`.
        randomness: Allowed, and not needed.

    >>> pf.func.jacfwd(lambda x: x * x)(pf.tensor([1.0, 2.0]))
    tensor([[2., 0.],
            [0., 4.]])
    """
    return jacrev(func, argnums, has_aux=has_aux)


def hessian(func: Callable[..., Any], argnums: Any = 0) -> Callable[..., Any]:
    """A function that gives the second derivatives of `func` by its arguments at `argnums`.

    >>> pf.func.hessian(lambda x: (x**3).sum())(pf.tensor([1.0, 2.0]))
    tensor([[ 6.,  0.],
            [ 0., 12.]])
    """
    return jacrev(jacrev(func, argnums), argnums)


# --- modules as functions


def functional_call(
    module: Any, parameter_and_buffer_dicts: Any, args: Any = None, kwargs: Any = None, *,
    tie_weights: bool = True, strict: bool = False,
) -> Any:  # fmt: skip
    """`module(*args, **kwargs)` with other tensors in the place of its parameters and buffers, by
    their names, for this call; with `tie_weights` also under the other names of the same tensor.

    RuntimeError with `strict` for missing or unknown names; ValueError unless it is a dict.

    Args:
        parameter_and_buffer_dicts: A dict of tensors by name, or several.
        args, kwargs: What the module is called with.

    >>> net = nn.Linear(2, 1, bias=False)
    >>> pf.func.functional_call(net, {"weight": pf.ones(1, 2)}, pf.tensor([3.0, 4.0]))
    tensor([7.])
    """
    given: dict[str, Any] = {}
    dicts = parameter_and_buffer_dicts
    for one in dicts if isinstance(dicts, (list, tuple)) else [dicts]:
        if not isinstance(one, dict):
            raise ValueError(
                "Expected parameter_and_buffer_dicts to be a dict, or a list/tuple of dicts, but "
                f"got {type(one)}"
            )
        if given.keys() & one.keys():
            raise ValueError(f"{sorted(given.keys() & one.keys())} appear in multiple dictionaries")
        given.update(one)
    if args is None:
        args = ()
    elif not isinstance(args, tuple):
        args = (args,)
    owners: dict[str, tuple[dict[str, Any], str]] = {}
    for prefix, owner in module.named_modules(remove_duplicate=False):
        for fields in (owner._parameters, owner._buffers):
            for name in fields:
                owners[f"{prefix}.{name}" if prefix else name] = fields, name
    unknown = given.keys() - owners.keys()
    missing = {k for k, (f, n) in owners.items() if f[n] is not None} - given.keys()
    if strict and (unknown or missing):
        raise RuntimeError(
            f"Error(s) in loading state_dict for {type(module).__name__}: unexpected key(s) "
            f"{sorted(unknown)}, missing key(s) {sorted(missing)}"
        )
    if unknown:
        raise AttributeError(f"functional_call: {type(module).__name__} has no {sorted(unknown)}")
    if tie_weights:
        by_id = {id(owners[k][0][owners[k][1]]): v for k, v in given.items()}
        for k in missing:
            fields, name = owners[k]
            if id(fields[name]) in by_id:
                given[k] = by_id[id(fields[name])]
    before = [(fields, name, fields[name]) for fields, name in (owners[k] for k in given)]
    try:
        for k, value in given.items():
            fields, name = owners[k]
            fields[name] = value
        return module(*args, **(kwargs or {}))
    finally:
        for fields, name, value in before:
            fields[name] = value


def stack_module_state(models: Any) -> tuple[dict[str, Any], dict[str, Any]]:
    """The parameters and the buffers of models of one kind, stacked along a new first dim.

    Args:
        models: Modules.

    >>> weights, buffers = pf.func.stack_module_state([nn.Linear(2, 3) for _ in range(4)])
    >>> weights["weight"].shape
    pyframe.Size([4, 3, 2])
    """
    models = list(models)
    if not models:
        raise RuntimeError("stack_module_state: Expected at least one model, got 0.")
    if any(type(m) is not type(models[0]) for m in models):
        raise RuntimeError(
            "stack_module_state: Expected all models to be of the same class, got "
            f"{sorted({type(m).__name__ for m in models})}"
        )
    params = [dict(m.named_parameters()) for m in models]
    buffers = [dict(m.named_buffers()) for m in models]

    def one(name: str, dicts: list[dict[str, Any]]) -> Any:
        values = [d[name] for d in dicts]
        out = stack([v.detach() for v in values])
        return out.requires_grad_() if values[0].requires_grad else out

    return {k: one(k, params) for k in params[0]}, {k: one(k, buffers) for k in buffers[0]}
