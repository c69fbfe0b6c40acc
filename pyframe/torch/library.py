"""torch.library: ops that a program declares, which are functions of other ops here."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pyframe as pf

namespaces: dict[str, SimpleNamespace] = {}  # what torch.ops has


class CustomOpDef:
    """A function that torch.ops names, differentiated by its registered gradient if it has one."""

    def __init__(self, name: str, fn: Callable[..., Any]) -> None:
        self._name, self._fn, self._gradient = name, fn, None
        space, _, last = name.partition("::")
        setattr(namespaces.setdefault(space, SimpleNamespace()), last, self)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """The function, or its autograd.Function."""
        if self._gradient is None:
            return self._fn(*args, **kwargs)
        if kwargs:  # which an autograd.Function does not take
            given = inspect.signature(self._fn).bind(*args, **kwargs)
            given.apply_defaults()
            args = tuple(given.arguments.values())
        return self._gradient(*args)

    def register_fake(self, fn: Any) -> Any:
        """Accepted: shapes follow from the ops."""
        return fn

    def register_kernel(self, device_types: Any, func: Any = None) -> Any:
        """Accepted: the first function runs on each device."""
        return func or (lambda f: f)

    def register_autograd(self, backward: Any, *, setup_context: Any = None) -> None:
        """Have `backward(ctx, *gradients)` be the gradient."""
        fn = self._fn

        def forward(*args: Any) -> Any:
            return fn(*args)

        def keep(ctx: Any, inputs: Any, output: Any) -> None:
            if setup_context is not None:
                setup_context(ctx, inputs, output)

        ways = {"forward": forward, "setup_context": keep, "backward": backward}
        ways = {name: staticmethod(way) for name, way in ways.items()}
        made: Any = type(self._name, (pf.autograd.Function,), ways)
        self._gradient = made.apply


def custom_op(name: str, fn: Any = None, /, *, mutates_args: Any = (), **kwargs: Any) -> Any:
    """`fn` as the op "namespace::name"; without one, a decorator."""
    return (lambda f: CustomOpDef(name, f)) if fn is None else CustomOpDef(name, fn)


def _registered(op: Any) -> CustomOpDef:
    space, _, last = op.partition("::") if isinstance(op, str) else ("", "", "")
    found: CustomOpDef = getattr(namespaces.get(space), last) if space else op
    return found


def define(qualname: str, schema: str, *, lib: Any = None, tags: Any = ()) -> None:
    """Accepted: an op's arguments are those of its function."""


def impl(qualname: Any, types: Any, func: Any = None, *, lib: Any = None) -> Any:
    """Have a function be the op "namespace::name" (on each device); without one, a decorator. Of a
    Library (`impl(lib, name, key)`) it is the op of that name."""
    if isinstance(qualname, Library):
        qualname = f"{qualname.ns}::{types}"
    return (lambda f: CustomOpDef(qualname, f)._fn) if func is None else CustomOpDef(qualname, func)


class Library:
    """A namespace of torch.ops that a program fills."""

    def __init__(self, ns: str, kind: str, dispatch_key: str = "") -> None:
        self.ns, self.kind = ns, kind

    def define(self, schema: str, alias_analysis: str = "", *, tags: Any = ()) -> str:
        """The name in a schema; arguments are those of the function."""
        return schema.partition("(")[0].strip()

    def impl(self, op_name: Any, fn: Any, dispatch_key: str = "", **kwargs: Any) -> None:
        """Have `fn` be the op. That of a key of gradients or of shapes is not needed."""
        if not dispatch_key.startswith(("Autograd", "Meta")):
            CustomOpDef(f"{self.ns}::{op_name.rpartition('::')[2]}", fn)


def triton_op(name: str, fn: Any = None, /, *, mutates_args: Any = (), **kwargs: Any) -> Any:
    """`custom_op`; the kernels that it calls are Triton's, which pyframe has not."""
    return custom_op(name, fn, mutates_args=mutates_args)


def register_kernel(op: Any, device_types: Any, func: Any = None, /, **kwargs: Any) -> Any:
    """`register_kernel` of an op."""
    return func or (lambda f: f)


def register_fake(op: Any, func: Any = None, /, **kwargs: Any) -> Any:
    """`register_fake` of an op."""
    return func or (lambda f: f)


def register_autograd(op: Any, backward: Any, /, *, setup_context: Any = None, **kw: Any) -> None:
    """`register_autograd` of an op."""
    _registered(op).register_autograd(backward, setup_context=setup_context)


impl_abstract = register_fake
