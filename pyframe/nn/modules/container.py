"""Modules that hold modules or parameters, as torch.nn's."""

from __future__ import annotations

import itertools
import operator
from collections import OrderedDict
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Self

from pyframe.nn.modules.module import Module, type_name
from pyframe.nn.parameter import Parameter
from pyframe.tensor import Tensor

__all__ = ["ModuleDict", "ModuleList", "ParameterList", "Sequential"]


class _Chain(Module):
    """What Sequential and ModuleList share: modules in order, named by their numbers."""

    def __len__(self) -> int:
        return len(self._modules)

    def __iter__(self) -> Iterator[Any]:
        return iter(self._modules.values())

    def _key(self, index: Any) -> str:
        i, n = operator.index(index), len(self)
        if not -n <= i < n:
            raise IndexError(f"index {i} is out of range for {n} modules")
        return list(self._modules)[i]

    def _renumber(self, modules: Iterable[Any]) -> None:
        found = list(modules)
        self._modules.clear()
        self.extend(found)

    def __getitem__(self, index: int | slice) -> Any:
        if isinstance(index, slice):
            return type(self)(list(self)[index])  # type: ignore[call-arg]
        return self._modules[self._key(index)]

    def __setitem__(self, index: int, module: Module) -> None:
        setattr(self, self._key(index), module)

    def __delitem__(self, index: int | slice) -> None:
        gone = list(self._modules)[index] if isinstance(index, slice) else [self._key(index)]
        self._renumber(m for name, m in self._modules.items() if name not in gone)

    def __add__(self, other: Iterable[Module]) -> Self:
        return type(self)().extend(self).extend(other)

    def __iadd__(self, other: Iterable[Module]) -> Self:
        return self.extend(other)

    def append(self, module: Module) -> Self:
        """Add a module at the end."""
        self.add_module(str(len(self)), module)
        return self

    def extend(self, modules: Iterable[Module]) -> Self:
        """Add modules at the end."""
        if not isinstance(modules, Iterable):
            raise TypeError(
                f"{self._get_name()}: expected an iterable of modules, but got "
                f"{type_name(modules)}; put it into a list"
            )
        for m in list(modules):
            self.append(m)
        return self

    def insert(self, index: int, module: Module) -> Self:
        """Put a module before position `index`."""
        found = list(self)
        found.insert(index, module)
        self._renumber(found)
        return self

    def pop(self, index: int = -1) -> Any:
        """Remove and return a module."""
        found = self[index]
        del self[index]
        return found


class Sequential(_Chain):
    """Modules one after the other: given in order, or as an OrderedDict of names."""

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

    def forward(self, input: Any) -> Any:
        """Each module on the result of the one before."""
        for m in self:
            input = m(input)
        return input


class ModuleList(_Chain):
    """A list of modules."""

    def __init__(self, modules: Iterable[Module] | None = None) -> None:
        super().__init__()
        self.extend(modules or ())

    def __repr__(self) -> str:
        """As PyTorch's: neighbours that print alike are counted, not repeated."""
        lines = []
        start = 0
        for text, same in itertools.groupby(map(repr, self)):
            n = len(list(same))
            text = text.replace("\n", "\n  ")
            count = f"({start}): " if n == 1 else f"({start}-{start + n - 1}): {n} x "
            lines.append(f"\n  {count}{text}")
            start += n
        return f"{self._get_name()}({''.join(lines)}" + ("\n)" if lines else ")")


class ModuleDict(Module):
    """A dict of modules."""

    def __init__(
        self, modules: Mapping[str, Module] | Iterable[tuple[str, Module]] | None = None
    ) -> None:
        super().__init__()
        self.update(modules or {})

    def __len__(self) -> int:
        return len(self._modules)

    def __iter__(self) -> Iterator[str]:
        return iter(self._modules)

    def __contains__(self, key: str) -> bool:
        return key in self._modules

    def __getitem__(self, key: str) -> Any:
        return self._modules[key]

    def __setitem__(self, key: str, module: Module) -> None:
        self.add_module(key, module)

    def __delitem__(self, key: str) -> None:
        del self._modules[key]

    def update(self, modules: Mapping[str, Module] | Iterable[tuple[str, Module]]) -> None:
        """Add or replace modules by name."""
        items: Any = list(modules.items() if hasattr(modules, "items") else modules)
        for pair in items:
            if not isinstance(pair, (tuple, list)) or len(pair) != 2:
                raise TypeError(
                    "ModuleDict: expected a dict of modules or pairs (name, module), but got "
                    f"{type_name(pair)}"
                )
            self[pair[0]] = pair[1]

    def pop(self, key: str) -> Any:
        """Remove and return a module."""
        return self._modules.pop(key)

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


class ParameterList(Module):
    """A list of parameters."""

    def __init__(self, values: Iterable[Any] | None = None) -> None:
        super().__init__()
        self.extend(values or ())

    def __len__(self) -> int:
        return len(self._parameters)

    def __iter__(self) -> Iterator[Any]:
        return iter(self._parameters.values())

    def __getitem__(self, index: int | slice) -> Any:
        found = list(self)[index]
        return type(self)(found) if isinstance(index, slice) else found

    def __setitem__(self, index: int, value: Tensor) -> None:
        setattr(self, list(self._parameters)[index], _as_parameter(value))

    def append(self, value: Tensor) -> Self:
        """Add a parameter (a plain tensor becomes one) at the end."""
        self.register_parameter(str(len(self)), _as_parameter(value))
        return self

    def extend(self, values: Iterable[Tensor]) -> Self:
        """Add parameters at the end."""
        for v in values:
            self.append(v)
        return self

    def extra_repr(self) -> str:
        return "\n".join(
            f"  ({name}): Parameter containing: [{p.dtype} of size {'x'.join(map(str, p.shape))}]"
            for name, p in self._parameters.items()
            if p is not None
        )


def _as_parameter(value: Tensor) -> Parameter:
    return value if isinstance(value, Parameter) else Parameter(value)
