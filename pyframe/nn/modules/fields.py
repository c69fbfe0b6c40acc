"""Layers that say what they are: their fields, which `__init__` takes, and their function."""

from __future__ import annotations

import sys
from collections.abc import Callable
from inspect import unwrap
from itertools import takewhile
from types import CodeType, FunctionType
from typing import Any, ClassVar, TypeVar, dataclass_transform

from pyframe.nn import functional
from pyframe.nn.modules.module import Module
from pyframe.nn.modules.utils import shown

C = TypeVar("C", bound=type)


class Kind(Module):
    """A module of which there are several kinds: `class Conv2d(_Conv, k=2, function=F.conv2d)`."""

    _k: ClassVar[Any] = None  # the number of spatial dims
    _function: ClassVar[Any]

    def __init_subclass__(cls, k: int | None = None, function: Any = None, **others: Any) -> None:
        super().__init_subclass__(**others)
        if k is not None:
            cls._k = k
        if function is not None:
            cls._function = staticmethod(function)


class Layer(Module):
    """A module whose class says by `@layer` what it is."""

    __fields__: ClassVar[dict[str, str]] = {}  # the arguments of `__init__`, with their annotations
    __defaults__: ClassVar[dict[str, Any]] = {}
    __shown__: ClassVar[tuple[str, ...] | None] = None  # the fields in its repr, if not all

    def _set_fields(self, given: dict[str, Any]) -> None:
        """What `__init__` does with its arguments."""
        super().__init__()
        for name, annotation in self.__fields__.items():
            if annotation == "Tensor | None":
                self.register_buffer(name, given[name])
            else:
                setattr(self, name, given[name])
        self._check_fields()

    def _check_fields(self) -> None:
        """Bring the fields into their form; errors for what they can't be."""

    def extra_repr(self) -> str:
        return shown(self, *(self.__fields__ if self.__shown__ is None else self.__shown__))


@dataclass_transform(eq_default=False)
def layer(function: Callable[..., Any] | None = None) -> Callable[[C], C]:
    """Make `__init__` of a class's fields: the annotated names in its body, behind those of its
    bases. `forward` gives `function` its input, and what the layer has by its parameters' names.

        @layer(F.softplus)
        class Softplus(Layer):
            beta: float = 1.0
            threshold: float = 20.0

    The fields are attributes of a layer, not of its class, and buffers where they are tensors or
    None. A subclass without `@layer` is as any other.
    """

    def finish(cls: Any) -> Any:
        body = vars(cls)
        if "__annotations__" in body:
            own = [k for k, v in cls.__annotations__.items() if not v.startswith("ClassVar")]
            cls.__fields__ = cls.__fields__ | {k: cls.__annotations__[k] for k in own}
            cls.__defaults__ = cls.__defaults__ | {k: body[k] for k in own if k in body}
            for name in own:
                if name in body:
                    delattr(cls, name)
            if own and "__init__" not in body:
                cls.__init__ = _init(cls)
        if function is not None:
            cls.forward = _forward(cls, function)
        return cls

    return finish


# --- methods of given names, made of the code of others: nothing is compiled


def _method(cls: Any, name: str, code: CodeType, **changes: Any) -> FunctionType:
    code = code.replace(co_name=name, co_qualname=f"{cls.__qualname__}.{name}", **changes)
    return FunctionType(code, vars(sys.modules[cls.__module__]), name)


def _init(cls: Any) -> FunctionType:
    """`__init__` with the fields as parameters."""
    names, defaults = ("self", *cls.__fields__), cls.__defaults__
    init = _method(
        cls, "__init__", _set.__code__,
        co_varnames=names, co_nlocals=len(names), co_argcount=len(names),
    )  # fmt: skip
    init.__annotations__ = {**cls.__fields__, "return": "None"}
    init.__defaults__ = tuple(defaults[name] for name in names if name in defaults)
    return init


def _set(self: Any) -> None:
    self._set_fields(locals())


def _forward(cls: Any, function: Any) -> FunctionType:
    """`forward`, as a base of the class has it, that calls the function."""
    code = getattr(unwrap(function), "__code__", None)  # an op has none
    names = tuple(takewhile(
        lambda name: name in cls.__fields__ or hasattr(cls, name),
        code.co_varnames[1 : code.co_argcount] if code else (),
    ))  # fmt: skip
    assert cls.__fields__.keys() <= {*names}, f"{cls.__name__}: the function takes {names} alone"
    # looked up at each call, so that a function in place of PyTorch's is heard of here too
    assert getattr(F, function.__name__) is function, f"{cls.__name__}: {function} is none of F's"
    code = _CALLS[len(names)].__code__
    forward = _method(cls, "forward", code, co_names=("F", function.__name__, *names))
    forward.__doc__, forward.__annotations__ = cls.forward.__doc__, cls.forward.__annotations__
    return forward


F: Any = functional
# Calls of a function with the input and 0, 1, 2, … attributes.
_CALLS: tuple[Any, ...] = (
    lambda self, input: F.function(input),
    lambda self, input: F.function(input, self.a),
    lambda self, input: F.function(input, self.a, self.b),
    lambda self, input: F.function(input, self.a, self.b, self.c),
    lambda self, input: F.function(input, self.a, self.b, self.c, self.d),
    lambda self, input: F.function(input, self.a, self.b, self.c, self.d, self.e),
    lambda self, input: F.function(input, self.a, self.b, self.c, self.d, self.e, self.f),
)
