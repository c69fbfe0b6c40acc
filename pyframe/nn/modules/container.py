"""Modules that hold modules or parameters, as torch.nn's."""

from __future__ import annotations

import itertools
import operator
from collections import OrderedDict
from collections.abc import Iterable, Iterator, Mapping, Sized
from typing import Any, Self

from pyframe.nn.modules.module import Module, indented, type_name
from pyframe.nn.parameter import Parameter
from pyframe.tensor import Tensor

__all__ = ["ModuleDict", "ModuleList", "ParameterDict", "ParameterList", "Sequential"]


def _at(index: Any, n: int, what: str) -> int:
    """An index counted from the front. IndexError where it is out of range."""
    i = operator.index(index)
    if not -n <= i < n:
        raise IndexError(f"index {i} is out of range for {n} {what}")
    return i % n


def _check_iterable(owner: Module, what: str, given: Any) -> None:
    if not isinstance(given, Iterable) or isinstance(given, Tensor):
        raise TypeError(
            f"{owner._get_name()}: expected an iterable of {what}, but got {type_name(given)}; put "
            "it into a list"
        )


def _pairs(owner: Module, what: str, given: Any) -> list[tuple[str, Any]]:
    """The items of a mapping, or of an iterable of pairs."""
    if hasattr(given, "items"):
        return list(given.items())
    _check_iterable(owner, f"pairs (name, {what})", given)
    found = list(given)
    for pair in found:
        said = f"{owner._get_name()}: expected a dict of {what}s or pairs (name, {what}), but got "
        if not isinstance(pair, Iterable) or not isinstance(pair, Sized):
            raise TypeError(said + type_name(pair))
        if len(pair) != 2:
            raise ValueError(f"{said}{len(pair)} values for a pair")
    return [tuple(pair) for pair in found]


class _IndexedModules(Module):
    """What Sequential and ModuleList share: modules in order, named by their numbers."""

    def __len__(self) -> int:
        return len(self._modules)

    def __iter__(self) -> Iterator[Any]:
        return iter(self._modules.values())

    def _key(self, index: Any) -> str:
        return list(self._modules)[_at(index, len(self), "modules")]

    def _renumber(self, modules: Iterable[Any]) -> None:
        found = list(modules)
        self._modules.clear()
        self.extend(found)

    def __getitem__(self, index: int | slice) -> Any:
        if isinstance(index, slice):
            return type(self)(list(self)[index])
        return self._modules[self._key(index)]

    def __setitem__(self, index: int, module: Module) -> None:
        setattr(self, self._key(index), module)

    def __delitem__(self, index: int | slice) -> None:
        gone = list(self._modules)[index] if isinstance(index, slice) else [self._key(index)]
        self._renumber(m for name, m in self._modules.items() if name not in gone)

    def append(self, module: Module) -> Self:
        """Add a module at the end."""
        self.add_module(str(len(self)), module)
        return self

    def extend(self, modules: Iterable[Module]) -> Self:
        """Add modules at the end."""
        _check_iterable(self, "modules", modules)
        for m in list(modules):
            self.append(m)
        return self

    def _insert(self, index: int, module: Module) -> None:
        found = list(self)
        found.insert(index, module)
        self._renumber(found)

    def pop(self, key: int | slice) -> Any:
        """Remove and return a module, or several."""
        found = self[key]
        del self[key]
        return found


class Sequential(_IndexedModules):
    """Modules one after the other: each is called with the result of the one before.

    They are given in order, or as an OrderedDict of names. `net[i]` is a module, `net[a:b]` a
    Sequential of several; `append`, `extend`, `insert`, `pop`, + and * work as a list's.

    Args:
        args: the modules, or one OrderedDict of them.

    >>> net = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 2))
    >>> net(pf.randn(3, 4)).shape, net[1]
    (pyframe.Size([3, 2]), ReLU())
    """

    _takes_children = True

    def __init__(self, *args: Any) -> None:
        super().__init__()
        if len(args) == 1 and isinstance(args[0], OrderedDict):
            for name, m in args[0].items():
                self.add_module(name, m)
        else:
            self.extend(args)

    def __getitem__(self, index: int | slice) -> Any:
        if isinstance(index, slice):  # the modules keep their names
            return type(self)(OrderedDict(list(self._modules.items())[index]))
        return super().__getitem__(index)

    def insert(self, index: int, module: Module) -> Self:
        """Put a module before position `index`.

        Args:
            module: what is put there.
        """
        if not isinstance(module, Module):
            raise AssertionError(
                f"{self._get_name()}.insert: module should be a Module, got {type_name(module)}"
            )
        if not -len(self) <= index <= len(self):
            raise IndexError(f"Index out of range: {index} for {len(self)} modules")
        self._insert(index, module)
        return self

    def _check_other(self, other: Any) -> None:
        if not isinstance(other, Sequential):
            raise ValueError(
                "add operator supports only objects of Sequential class, but "
                f"{type_name(other)} is given; give it to extend()"
            )

    def __add__(self, other: Sequential) -> Sequential:
        self._check_other(other)
        return Sequential(*self, *other)

    def __iadd__(self, other: Sequential) -> Self:
        self._check_other(other)
        return self.extend(other)

    def _check_times(self, n: Any) -> None:
        if not isinstance(n, int):
            raise TypeError(
                f"unsupported operand type(s) for *: {type_name(self)} and {type_name(n)}"
            )
        if n <= 0:
            raise ValueError(f"Non-positive multiplication factor {n} for {type_name(self)}")

    def __mul__(self, n: int) -> Sequential:
        """`n` times the same modules."""
        self._check_times(n)
        return Sequential(*list(self) * n)

    __rmul__ = __mul__

    def __imul__(self, n: int) -> Self:
        self._check_times(n)
        return self.extend(list(self) * (n - 1))

    def forward(self, input: Any) -> Tensor:
        """Each module on the result of the one before."""
        for m in self:
            input = m(input)
        return input  # a Tensor as a rule: the last module says what it gives


class ModuleList(_IndexedModules):
    """A list of modules, whose parameters are those of the module that it is an attribute of. It
    can't be called: `forward` goes through it.

    Args:
        modules: those that it begins with; None for none.

    >>> layers = nn.ModuleList(nn.Linear(10, 10) for _ in range(3))
    >>> len(layers), len(list(layers.parameters()))
    (3, 6)
    """

    def __init__(self, modules: Iterable[Module] | None = None) -> None:
        super().__init__()
        if modules is not None:
            self.extend(modules)

    def insert(self, index: int, module: Module) -> None:
        """Put a module before position `index`.

        Args:
            module: what is put there.
        """
        self._insert(index, module)

    def __add__(self, other: Iterable[Module]) -> ModuleList:
        return ModuleList().extend(self).extend(other)

    def __iadd__(self, modules: Iterable[Module]) -> Self:
        return self.extend(modules)

    def __repr__(self) -> str:
        """As PyTorch's: neighbours that print alike are counted, not repeated."""
        lines = []
        start = 0
        for text, same in itertools.groupby(map(repr, self)):
            n = len(list(same))
            count = f"({start}): " if n == 1 else f"({start}-{start + n - 1}): {n} x "
            lines.append(f"\n  {count}{indented(text)}")
            start += n
        return f"{self._get_name()}({''.join(lines)}" + ("\n)" if lines else ")")


class ModuleDict(Module):
    """A dict of modules by names, whose parameters are those of the module that it is an attribute
    of.

    Args:
        modules: a dict, or pairs (name, module).

    >>> heads = nn.ModuleDict({"class": nn.Linear(8, 10), "box": nn.Linear(8, 4)})
    >>> heads["box"](pf.randn(3, 8)).shape
    pyframe.Size([3, 4])
    """

    def __init__(
        self, modules: Mapping[str, Module] | Iterable[tuple[str, Module]] | None = None
    ) -> None:
        super().__init__()
        if modules is not None:
            self.update(modules)

    def __len__(self) -> int:
        return len(self._modules)

    def __iter__(self) -> Iterator[str]:
        return iter(self._modules)

    def __contains__(self, key: object) -> bool:
        return key in self._modules

    def __getitem__(self, key: str) -> Any:
        return self._modules[key]

    def __setitem__(self, key: str, module: Module) -> None:
        self.add_module(key, module)

    def __delitem__(self, key: str) -> None:
        del self._modules[key]

    def update(self, modules: Mapping[str, Module] | Iterable[tuple[str, Module]]) -> None:
        """Add or replace modules by name."""
        for name, m in _pairs(self, "module", modules):
            self[name] = m

    def pop(self, key: str) -> Any:
        """Remove and return a module.

        Args:
            key: its name.
        """
        found = self[key]
        del self[key]
        return found

    def clear(self) -> None:
        """Remove all modules."""
        self._modules.clear()

    def keys(self) -> Iterable[str]:
        """The names."""
        return self._modules.keys()

    def values(self) -> Iterable[Any]:
        """The modules."""
        return self._modules.values()

    def items(self) -> Iterable[tuple[str, Any]]:
        """(name, module)."""
        return self._modules.items()


class _ParameterContainer(Module):
    """What ParameterList and ParameterDict share: any values, as attributes; tensors among them
    become parameters."""

    def _put(self, name: str, value: Any) -> None:
        if isinstance(value, Tensor) and not isinstance(value, Parameter):
            value = Parameter(value)
        setattr(self, name, value)

    def _line(self, name: Any, value: Any, kind: Any) -> str:
        if not isinstance(value, Tensor):
            return f"  ({name}): Object of type: {type(value).__name__}"
        size = "x".join(map(str, value.shape))
        device = "" if value.device.type == "cpu" else f" ({value.device})"
        what = "Parameter" if isinstance(value, Parameter) else "Tensor"
        return f"  ({name}): {what} containing: [{kind(value)} of size {size}{device}]"

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        raise RuntimeError(f"{self._get_name()} should not be called.")


class ParameterList(_ParameterContainer):
    """A list of parameters, which are those of the module that it is an attribute of.

    Args:
        values: tensors, which become parameters; anything else stays as it is.

    >>> weights = nn.ParameterList(pf.zeros(2, 2) for _ in range(3))
    >>> len(weights), weights[0].requires_grad
    (3, True)
    """

    def __init__(self, values: Iterable[Any] | None = None) -> None:
        super().__init__()
        self._size = 0
        if values is not None:
            self.extend(values)

    def __len__(self) -> int:
        return self._size

    def __iter__(self) -> Iterator[Any]:
        return iter([self[i] for i in range(len(self))])

    def __getitem__(self, index: int | slice) -> Any:
        if isinstance(index, slice):
            return type(self)(list(self)[index])
        return getattr(self, str(_at(index, len(self), "values")))

    def __setitem__(self, index: int, value: Any) -> None:
        self._put(str(_at(index, len(self), "values")), value)

    def __iadd__(self, values: Iterable[Any]) -> Self:
        return self.extend(values)

    def append(self, value: Any) -> Self:
        """Add a value at the end; a plain tensor becomes a parameter.

        Args:
            value: what becomes the last one.
        """
        self._put(str(self._size), value)
        self._size += 1
        return self

    def extend(self, values: Iterable[Any]) -> Self:
        """Add values at the end."""
        _check_iterable(self, "values", values)
        for v in list(values):
            self.append(v)
        return self

    def extra_repr(self) -> str:
        return "\n".join(self._line(i, v, lambda p: p.dtype) for i, v in enumerate(self))


class ParameterDict(_ParameterContainer):
    """A dict of parameters by names, which are those of the module that it is an attribute of.

    Args:
        parameters: a dict or pairs (name, tensor). Tensors become parameters; anything else stays
            as it is.

    >>> weights = nn.ParameterDict({"scale": pf.ones(3), "shift": pf.zeros(3)})
    >>> weights["scale"].shape, list(weights)
    (pyframe.Size([3]), ['scale', 'shift'])
    """

    def __init__(self, parameters: Any = None) -> None:
        super().__init__()
        self._keys: dict[str, None] = {}
        if parameters is not None:
            self.update(parameters)

    def __len__(self) -> int:
        return len(self._keys)

    def __iter__(self) -> Iterator[str]:
        return iter(self._keys)

    def __reversed__(self) -> Iterator[str]:
        return reversed(self._keys)

    def __contains__(self, key: object) -> bool:
        return key in self._keys

    def _check_key(self, key: Any) -> None:
        if not isinstance(key, str):
            raise TypeError(
                f"{self._get_name()}: a key must be a string, got {key!r} ({type_name(key)}); use "
                f"{str(key)!r}"
            )

    def __getitem__(self, key: str) -> Any:
        self._check_key(key)
        return getattr(self, key)

    def __setitem__(self, key: str, value: Any) -> None:
        self._check_key(key)
        self._put(key, value)
        self._keys[key] = None

    def __delitem__(self, key: str) -> None:
        del self._keys[key]
        delattr(self, key)

    def update(self, parameters: Any) -> None:
        """Add or replace values by name; those of a plain dict by their names' order."""
        found = _pairs(self, "parameter", parameters)
        plain = not isinstance(parameters, (OrderedDict, ParameterDict))
        if plain and isinstance(parameters, Mapping):
            found.sort(key=operator.itemgetter(0))
        for key, value in found:
            self[key] = value

    def copy(self) -> ParameterDict:
        """Another one with the same values."""
        return ParameterDict(self)

    def get(self, key: str, default: Any = None) -> Any:
        """A value, or `default` where there is none.

        Args:
            key: its name.
        """
        return self[key] if key in self else default  # noqa: SIM401

    def setdefault(self, key: str, default: Any = None) -> Any:
        """A value, which is `default` from now on where there was none.

        Args:
            key: its name.
        """
        if key not in self:
            self[key] = default
        return self[key]

    def pop(self, key: str) -> Any:
        """Remove and return a value.

        Args:
            key: its name.
        """
        found = self[key]
        del self[key]
        return found

    def popitem(self) -> tuple[str, Any]:
        """Remove and return the last (name, value). KeyError if there is none."""
        if not self._keys:
            raise KeyError(f"popitem(): {self._get_name()} is empty")
        key = next(reversed(self))
        return key, self.pop(key)

    def clear(self) -> None:
        """Remove all values."""
        for key in list(self):
            del self[key]

    def fromkeys(self, keys: Iterable[str], default: Any = None) -> ParameterDict:
        """A new one, in which each of the keys has the value `default`.

        Args:
            keys: the names.
        """
        return ParameterDict([(key, default) for key in keys])

    def keys(self) -> Iterable[str]:
        """The names."""
        return self._keys.keys()

    def values(self) -> Iterable[Any]:
        """The values."""
        return (self[key] for key in self._keys)

    def items(self) -> Iterable[tuple[str, Any]]:
        """(name, value)."""
        return ((key, self[key]) for key in self._keys)

    def __or__(self, other: Any) -> ParameterDict:
        found = self.copy()
        found.update(other)
        return found

    def __ror__(self, other: Any) -> Any:
        found = other.copy()
        found.update(self)
        return found

    def __ior__(self, other: Any) -> Self:
        self.update(other)
        return self

    def extra_repr(self) -> str:
        return "\n".join(self._line(key, v, lambda p: p.type()) for key, v in self.items())
