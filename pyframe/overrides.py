"""Calls of public functions that tensors of a class of one's own, or a mode, take over, under the
names of torch.overrides.

A class derived from Tensor gets methods that ask its `__torch_function__`; functions ask once there
is such a class. Plain tensors' methods are as they were.
"""

from __future__ import annotations

import functools
import warnings
from collections.abc import Callable, Iterable, Sequence
from types import FunctionType
from typing import Any

from pyframe.core.locks import lock
from pyframe.core.modes import mode, no_grad
from pyframe.ops.api import public
from pyframe.ops.api.public import NOBODY
from pyframe.ops.math.promotion import Elementwise
from pyframe.tensor import Tensor

__all__ = [
    "DisableTorchFunction", "DisableTorchFunctionSubclass", "TorchFunctionMode",
    "get_default_nowrap_functions", "handle_torch_function", "has_torch_function",
    "is_tensor_like", "resolve_name",
]  # fmt: skip


class DisableTorchFunctionSubclass:
    """Within it classes take nothing over; modes do.

    >>> with pf.overrides.DisableTorchFunctionSubclass():
    ...     pass
    """

    _modes = False

    def __enter__(self) -> None:
        self._outer = mode.overrides_off, mode.function_modes
        mode.overrides_off = True
        if self._modes:
            mode.function_modes = ()

    def __exit__(self, *exc: object) -> None:
        mode.overrides_off, mode.function_modes = self._outer


class DisableTorchFunction(DisableTorchFunctionSubclass):
    """Within it neither classes nor modes take anything over.

    >>> with pf.overrides.DisableTorchFunction():
    ...     pass
    """

    _modes = True


# --- who takes a call over


def _asks(kind: type) -> bool:
    """Whether objects of a class take calls over."""
    found = getattr(kind, "__torch_function__", None)
    return found is not None and getattr(found, "__func__", found) not in (disabled, plain)


def plain(cls: Any, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
    """Tensor's own: what the function gives, as tensors of the class."""
    kwargs = kwargs or {}
    if not all(issubclass(cls, t) for t in types):
        return NotImplemented
    with DisableTorchFunctionSubclass():
        result = func(*args, **kwargs)
    if cls is Tensor or func in get_default_nowrap_functions():
        return result
    return _of_class(result, cls, args, kwargs)


def _of_class(result: Any, cls: Any, args: Any, kwargs: Any) -> Any:
    if isinstance(result, Tensor):
        if isinstance(result, cls):
            return result
        given = any(x is result for x in (*args, *kwargs.values()))
        return as_subclass(result, cls) if given else _become(result, cls)
    if isinstance(result, (tuple, list)):
        parts = [_of_class(r, cls, args, kwargs) for r in result]
        return type(result)(*parts) if hasattr(result, "_fields") else type(result)(parts)
    return result


def _overloaded(values: Iterable[Any]) -> list[Any]:
    """The first of each class that takes calls over, those of subclasses before their bases'."""
    found: list[Any] = []
    for x in values:
        kind = type(x)
        if kind is Tensor or any(kind is type(y) for y in found):
            continue
        if kind in (list, tuple):
            for y in _overloaded(x):
                _insert(found, y)
        elif (isinstance(x, Tensor) and kind in OVERRIDING) or (
            not isinstance(x, (Tensor, type)) and _asks(kind)
        ):
            _insert(found, x)
    return found


def _insert(found: list[Any], x: Any) -> None:
    if any(type(x) is type(y) for y in found):
        return
    at = next((i for i, y in enumerate(found) if issubclass(type(x), type(y))), len(found))
    found.insert(at, x)


def taken_over(func: Any, args: Any, kwargs: Any) -> Any:
    """What a mode or an argument's class makes of a call; NOBODY where nobody takes it over."""
    if mode.function_modes:
        *outer, own = mode.function_modes
        known = () if mode.overrides_off else _overloaded((*args, *kwargs.values()))
        before, mode.function_modes = mode.function_modes, tuple(outer)
        try:
            found = own.__torch_function__(public_of(func), tuple(map(type, known)), args, kwargs)
        finally:
            mode.function_modes = before
        if found is not NotImplemented:
            return found
        raise TypeError(_nobody(func, [own]))
    if mode.overrides_off:
        return NOBODY
    known = _overloaded((*args, *kwargs.values()))
    return _ask(func, known, args, kwargs) if known else NOBODY


def _ask(func: Any, known: Sequence[Any], args: Any, kwargs: Any) -> Any:
    func, types = public_of(func), tuple(map(type, known))
    for x in known:
        found = x.__torch_function__(func, types, args, kwargs)
        if found is not NotImplemented:
            return found
    raise TypeError(_nobody(func, known))


def _nobody(func: Any, known: Sequence[Any]) -> str:
    return (
        f"no implementation found for '{resolve_name(func) or func}' on types that implement "
        f"__torch_function__: {[type(x) for x in known]}"
    )


@functools.cache
def _names() -> dict[Any, tuple[str, Any]]:
    """By function its name and what is public of it: a function with `out=` is around another."""
    from pyframe.jit.calls import functions

    found: dict[Any, tuple[str, Any]] = {}
    for name, fn in functions().items():
        full = f"torch.{name}"
        found.setdefault(fn, (full, fn))
        inner = getattr(fn, "__wrapped__", None)
        if inner is not None:
            found.setdefault(inner, (full, fn))
    for name, fn in vars(Tensor).items():
        if callable(fn) and not isinstance(fn, type):
            found.setdefault(fn, (f"torch.Tensor.{name}", fn))
    return found


def public_of(func: Any) -> Any:
    """The function that users call, of one that it is made of."""
    return _names().get(func, ("", func))[1]


# --- what takes part


_GETTER = type(property().__get__)
# As what PyTorch passes operators on; those that are not here under their own names.
_OPERATORS = {
    **{f"__{name}__": f"__{name}__" for name in ("getitem", "setitem", "deepcopy")},
    **{f"__{side}{name}__": method for side in ("", "i", "r") for name, method in {
        "add": "add", "sub": "sub", "mul": "mul", "truediv": "div", "pow": "pow",
        "floordiv": "floor_divide", "mod": "remainder", "matmul": "matmul",
    }.items()},
    **{f"__{name}__": name for name in "neg abs lt le gt ge ne".split()},
}  # fmt: skip
for _name, _method_name in list(_OPERATORS.items()):
    if _name.startswith("__i"):
        _OPERATORS[_name] += "_"
    elif _name in (
        "__rsub__",
        "__rtruediv__",
        "__rpow__",
        "__rfloordiv__",
        "__rmod__",
        "__floordiv__",
    ):
        del _OPERATORS[_name]


def _method(name: str, fn: Any, members: Any) -> Any:
    """A method of Tensor as it is for classes that take calls over."""
    told = members.get(_OPERATORS.get(name, name), fn) if not isinstance(fn, _GETTER) else fn

    @functools.wraps(fn)
    def run(*args: Any, **kwargs: Any) -> Any:
        if mode.function_modes or (not mode.overrides_off and OVERRIDING):
            found = taken_over(told, args, kwargs)
            if found is not NOBODY:
                return found
        return fn(*args, **kwargs)

    return run


_OWN = ("__init__", "__hash__", "__reduce_ex__", "as_subclass")  # which nobody takes over


def install(kind: Any, before: dict[str, Any] | None = None) -> None:
    """Give a class the methods of Tensor that ask who takes them over; `before` notes its own."""
    for name in """__getitem__ __setitem__ __deepcopy__ __rsub__ __rpow__ __rfloordiv__ __rmod__
            __floordiv__ __eq__""".split():  # which a __torch_function__ may look at
        vars(Tensor)[name].__name__ = name
    _names()  # of the methods as they are
    members = dict(vars(Tensor))
    for name, member in members.items():
        if name in _OWN or (name.startswith("_") and not name.startswith("__")):
            continue
        if isinstance(member, property):
            get = _method(name, member.__get__, members)
            made: Any = property(get, member.fset, member.fdel, member.__doc__)
        elif isinstance(member, FunctionType | Elementwise) and member.__module__.startswith(
            "pyframe"  # another is a program's own
        ):
            made = _method(name, member, members)
        else:
            continue
        if before is not None:
            before[name] = member
        setattr(kind, name, made)
    _begin()


_lock = lock()


def _begin() -> None:
    """From now on functions ask."""
    from pyframe.jit import record

    with record.lock_of_hooks:
        if public.OVERRIDES:
            return
        plain_call = record.below[0]

        def call(self: Elementwise, *args: Any, **kwargs: Any) -> Any:
            found = taken_over(self, args, kwargs)
            return plain_call(self, *args, **kwargs) if found is NOBODY else found

        public.OVERRIDES.append(taken_over)
        record.below[0] = call
        if not public.TRACERS:
            Elementwise.__call__ = call  # type: ignore[method-assign]


def foreign(func: Any, args: Any, kwargs: Any) -> Any:
    """`taken_over` for a call that failed: an argument that is no tensor may take it over."""
    known = [] if mode.overrides_off else _overloaded((*args, *kwargs.values()))
    return _ask(func, known, args, kwargs) if known else NOBODY


_FACTORS = {"add": "alpha", "sub": "alpha", "addcmul": "value", "addcdiv": "value"}
_PRODUCTS = ("addmm", "addmv", "addr", "addbmm", "baddbmm")


def _number_first(name: str, args: Any, kwargs: Any) -> tuple[Any, Any] | None:
    """The arguments of a call as PyTorch took them before 1.5, with factors before tensors, such as
    `x.add_(0.5, y)`, as they are given now; None for any other call."""
    base = name.rstrip("_")
    tensors = [a for a in args if isinstance(a, Tensor)]
    factors = [a for a in args if isinstance(a, (int, float, complex))]
    if base in _FACTORS:
        fits = len(factors) == 1 and len(tensors) == (2 if _FACTORS[base] == "alpha" else 3)
        keys = [_FACTORS[base]]
    else:
        fits = base in _PRODUCTS and len(factors) in (1, 2) and len(tensors) == 3
        keys = ["beta", "alpha"]
    if not fits or len(tensors) + len(factors) != len(args) or args[1] is tensors[1]:
        return None
    named = dict(zip(keys, factors, strict=False))
    warnings.warn(
        f"This overload of {name} is deprecated: give the tensors first, then "
        f"{', '.join(f'{k}={v}' for k, v in named.items())}",
        UserWarning,
        stacklevel=5,
    )
    return tuple(tensors), {**named, **kwargs}


def instead(func: Any, name: str, args: Any, kwargs: Any) -> Any:
    """For a call that failed: what an argument that is no tensor makes of it, or what it gives with
    its factors behind its tensors; else NOBODY."""
    older = _number_first(name, args, kwargs)
    if older is not None:
        return func(*older[0], **older[1])
    return foreign(func, args, kwargs)


# --- derived classes

OVERRIDING: set[type] = set()  # those whose __torch_function__ is asked


def disabled(cls: Any, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
    """The `__torch_function__` of a class that takes nothing over."""
    return NotImplemented


def begin(cls: Any) -> None:
    """A class was derived from Tensor."""
    found = cls.__torch_function__
    if cls.__dict__.get("_takes_over") is False or getattr(found, "__func__", found) is disabled:
        return
    if not OVERRIDING:
        install(_Taken)
    cls._takes_over = True
    OVERRIDING.add(cls)
    if not issubclass(cls, _Taken):
        bases = tuple(_Taken if base is Tensor else base for base in cls.__bases__)
        cls.__bases__ = bases if _Taken in bases else (*bases, _Taken)  # derived from Parameter


class _Taken(Tensor):
    """The methods of Tensor as they are for classes that take calls over: it stands between them
    and Tensor, so that `super()` finds them."""

    _takes_over = False


def _become(x: Tensor, cls: Any) -> Any:
    """The tensor itself, of another class from now on."""
    x.__class__ = cls
    return x


def as_subclass(self: Tensor, cls: Any) -> Any:
    """A tensor of another class with this one's memory and history.

    Args:
        cls: A class derived from Tensor; TypeError for another.
    """
    if not isinstance(cls, type) or not issubclass(cls, Tensor):
        raise TypeError(f"as_subclass: expected a class derived from Tensor, got {cls!r}")
    plain = Tensor.view_as(self, self) if type(self) is Tensor else _unwrapped(self)
    return _become(plain, cls)


def _unwrapped(x: Tensor) -> Any:
    with DisableTorchFunctionSubclass():
        return _become(x.view_as(x), Tensor)


def make_subclass(cls: Any, data: Tensor, require_grad: bool = False) -> Any:
    """A leaf of a class on the memory of a tensor: `torch.Tensor._make_subclass(cls, data)`.

    Args:
        cls: A class derived from Tensor; TypeError for another.
        data: The tensor.
        require_grad: Whether gradients are computed for it.
    """
    if not isinstance(data, Tensor):
        raise TypeError(f"_make_subclass: expected a Tensor, got {type(data).__name__}")
    with no_grad():
        plain = _unwrapped(data)
    leaf = plain._alias()
    leaf._needs_grad = require_grad
    return _become(leaf, cls)


# --- modes


class TorchFunctionMode:
    """Within it, in this thread, its `__torch_function__` takes over each call of a public function
    or method; within that the next outer mode does.

    >>> class Count(pf.overrides.TorchFunctionMode):
    ...     calls = 0
    ...     def __torch_function__(self, func, types, args=(), kwargs=None):
    ...         self.calls += 1
    ...         return func(*args, **(kwargs or {}))
    >>> with Count() as count:
    ...     x = pf.ones(2).exp() + 1
    >>> count.calls
    3
    """

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        """Take a call over.

        Args:
            func: What was called.
            types: The classes of the arguments that take calls over themselves.
            args, kwargs: What it was called with.
        """
        raise NotImplementedError(f"{type(self).__name__}.__torch_function__")

    def __enter__(self) -> TorchFunctionMode:
        _hook()
        mode.function_modes = (*mode.function_modes, self)
        return self

    def __exit__(self, *exc: object) -> None:
        mode.function_modes = mode.function_modes[:-1]
        _unhook()


_before: dict[str, Any] = {}
_entered = [0]


def _hook() -> None:
    """While a mode is entered, in any thread, plain tensors' methods ask, too."""
    with _lock:
        _entered[0] += 1
        if _entered[0] == 1:
            install(Tensor, _before)


def _unhook() -> None:
    with _lock:
        _entered[0] -= 1
        if not _entered[0]:
            for name, member in _before.items():
                setattr(Tensor, name, member)
            _before.clear()


BaseTorchFunctionMode = TorchFunctionMode


# --- what programs ask


def has_torch_function(relevant_args: Iterable[Any]) -> bool:
    """Whether one of the arguments takes calls over.

    Args:
        relevant_args: The arguments.

    >>> pf.overrides.has_torch_function((pf.ones(1),))
    False
    """
    return bool(mode.function_modes) or (
        not mode.overrides_off and bool(_overloaded(relevant_args))
    )


def has_torch_function_unary(x: Any) -> bool:
    """`has_torch_function` of one."""
    return has_torch_function((x,))


def handle_torch_function(
    public_api: Callable[..., Any], relevant_args: Iterable[Any], *args: Any, **kwargs: Any
) -> Any:
    """What those who take calls over make of one. TypeError where all give NotImplemented.

    Args:
        public_api: What is called.
        relevant_args: The arguments that may take it over.
        args, kwargs: With which it is called.

    >>> class Duck:
    ...     __torch_function__ = classmethod(lambda cls, *call: "duck")
    >>> pf.overrides.handle_torch_function(pf.add, (Duck(),), Duck(), 1)
    'duck'
    """
    if mode.function_modes:
        return taken_over(public_api, args, kwargs)
    return _ask(public_api, _overloaded(relevant_args), args, kwargs)


def is_tensor_like(inp: Any) -> bool:
    """Whether something is a tensor, or takes calls over.

    Args:
        inp: Anything.

    >>> pf.overrides.is_tensor_like(pf.ones(1)), pf.overrides.is_tensor_like(1)
    (True, False)
    """
    return isinstance(inp, Tensor) or hasattr(type(inp), "__torch_function__")


@functools.cache
def get_default_nowrap_functions() -> set[Any]:
    """What gives no tensor of the class: the getters of `grad` and of what a view is of.

    >>> pf.Tensor.grad.__get__ in pf.overrides.get_default_nowrap_functions()
    True
    """
    names = ("grad", "_base", "grad_fn", "shape", "dtype", "device")
    return {vars(Tensor)[name].__get__ for name in names if name in vars(Tensor)}


def resolve_name(f: Any) -> str | None:
    """The name of a public function, such as 'torch.exp', or None.

    Args:
        f: A function.

    >>> pf.overrides.resolve_name(pf.exp)
    'torch.exp'
    """
    found = _names().get(f)
    return found[0] if found else None
