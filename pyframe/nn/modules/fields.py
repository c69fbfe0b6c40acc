"""Layers that say what they are: their fields, which `__init__` takes, and their function."""

from __future__ import annotations

import sys
from collections.abc import Callable
from inspect import unwrap
from itertools import takewhile
from types import CodeType, FrameType, FunctionType
from typing import Any, ClassVar, TypeVar, dataclass_transform

from pyframe.nn import functional
from pyframe.nn.modules.module import Module
from pyframe.nn.modules.utils import shown
from pyframe.tensor import Tensor

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


class FieldModule(Module):
    """A module whose class says by `@layer` what it is."""

    __fields__: ClassVar[dict[str, str]] = {}  # the arguments of `__init__`, with their annotations
    __defaults__: ClassVar[dict[str, Any]] = {}
    __passing__: ClassVar[tuple[str, ...]] = ()  # those that are no attributes
    __shown__: ClassVar[tuple[str, ...] | None] = None  # the fields in its repr, if not all

    def _set_fields(self, given: dict[str, Any]) -> None:
        """What `__init__` does with its arguments."""
        super().__init__()
        for name, annotation in self.__fields__.items():
            if name in self.__passing__:
                continue
            if annotation == "Tensor | None":
                self.register_buffer(name, given[name])
            else:
                setattr(self, name, given[name])
        self._check_fields()

    def _check_fields(self) -> None:
        """Bring the fields into their form; errors for what they can't be."""

    def extra_repr(self) -> str:
        return shown(self, *(self.__fields__ if self.__shown__ is None else self.__shown__))


class OneInput(FieldModule):
    """A layer that takes a tensor."""

    def forward(self, input: Tensor) -> Tensor:
        """The same shape."""
        raise NotImplementedError


@dataclass_transform(eq_default=False)
def layer(function: Callable[..., Any] | None = None, result: str = "") -> Callable[[C], C]:
    """Make `__init__` of a class's fields: the annotated names in its body, behind those of its
    bases. `forward` gives `function` its input, and what the layer has by its parameters' names.
    `result` is the docstring of `forward`, if not that of its base's.

        @layer(F.softplus)
        class Softplus(Layer):
            beta: float = 1.0
            threshold: float = 20.0

    The fields are attributes of a layer, not of its class, and buffers where they are tensors or
    None. A subclass without `@layer` is as any other.
    """

    frame = sys._getframe(1)

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
            cls.forward = _forward(cls, function, frame)
            cls.forward.__doc__ = result or cls.forward.__doc__
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


def _forward(cls: Any, function: Any, frame: FrameType) -> FunctionType:
    """`forward`, as a base of the class has it, that calls the function."""
    count = cls.forward.__code__.co_argcount  # with self
    code = getattr(unwrap(function), "__code__", None)  # an op has none
    options = code.co_varnames[count - 1 : code.co_argcount] if code else ()
    fields = cls.__fields__
    changes: dict[str, Any] = {}
    if count == 2:
        names = tuple(takewhile(lambda name: name in fields or hasattr(cls, name), options))
        code = _CALLS[len(names)].__code__
    else:
        names = tuple(name for name in options if name in fields and name not in cls.__passing__)
        code = _CALLS_OF_TWO[len(names)].__code__
        # a warning about a loss's inputs points at the loss
        changes["co_filename"], changes["co_firstlineno"] = frame.f_code.co_filename, frame.f_lineno
        changes["co_varnames"] = cls.forward.__code__.co_varnames[:count]
        changes["co_consts"] = tuple(names if isinstance(c, tuple) else c for c in code.co_consts)
    assert fields.keys() <= {*names, *cls.__passing__}, (
        f"{cls.__name__}: the function takes {names} alone"
    )
    # looked up at each call, so that a function in place of PyTorch's is heard of here too
    assert getattr(F, function.__name__) is function, f"{cls.__name__}: {function} is none of F's"
    names = ("F", function.__name__, *names)
    forward = _method(cls, "forward", code, co_names=names, **changes)
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
# With two inputs, as losses take them, and attributes by their names.
_CALLS_OF_TWO: tuple[Any, ...] = (
    lambda self, x, y: F.function(x, y),
    lambda self, x, y: F.function(x, y, a=self.a),
    lambda self, x, y: F.function(x, y, a=self.a, b=self.b),
    lambda self, x, y: F.function(x, y, a=self.a, b=self.b, c=self.c),
    lambda self, x, y: F.function(x, y, a=self.a, b=self.b, c=self.c, d=self.d),
)
