"""Tensors of modules that are computed from others, as torch.nn.utils.parametrize.

A parametrized tensor is a property of a class made for its module: it computes the tensor whenever
it is read. What it is computed from lies in `module.parametrizations[name]`.
"""

from __future__ import annotations

import contextlib
import copyreg
import threading
from collections.abc import Iterator, Sequence
from copy import deepcopy
from typing import Any

from pyframe.core import module_of
from pyframe.core.modes import mode, no_grad
from pyframe.nn.modules.container import ModuleDict, ModuleList
from pyframe.nn.modules.module import Module
from pyframe.nn.parameter import Parameter
from pyframe.tensor import Tensor

__all__ = [
    "ParametrizationList", "cached", "is_parametrized", "register_parametrization",
    "remove_parametrizations", "transfer_parametrizations_and_params",
    "type_before_parametrizations",
]  # fmt: skip


class _Cache(threading.local):
    depth = 0
    within: Any = None  # the capture in which caching began: no other may meet its tensors

    def __init__(self) -> None:
        self.found: dict[tuple[int, str], Tensor] = {}


_cache = _Cache()


@contextlib.contextmanager
def cached() -> Iterator[None]:
    """Within it each parametrized tensor is computed once, when it is first read."""
    if not _cache.depth:
        _cache.within = mode.capture
    _cache.depth += 1
    try:
        yield
    finally:
        _cache.depth -= 1
        if not _cache.depth:
            _cache.found.clear()
            _cache.within = None


def _register(module: Module, name: str, x: Tensor) -> None:
    if isinstance(x, Parameter):
        module.register_parameter(name, x)
    else:
        module.register_buffer(name, x)


def _refuse(what: str, seen: str, expected: str) -> ValueError:
    return ValueError(f"parametrize: {what}: got {seen}; expected {expected}")


def _check(what: str, x: Any, like: Tensor, shape: bool = True) -> None:
    """ValueError unless `x` is a tensor that can stand for `like`."""
    if not isinstance(x, Tensor):
        raise _refuse(f"{what} must return a tensor", type(x).__name__, "a Tensor")
    hint = ", or unsafe=True" if shape else ""
    if x.dtype != like.dtype:
        raise _refuse(f"{what} may not change the dtype", f"{x.dtype}", f"{like.dtype}{hint}")
    if shape and x.shape != like.shape:
        seen, expected = list(x.shape), list(like.shape)
        raise _refuse(f"{what} may not change the shape", f"{seen}", f"{expected}{hint}")


class ParametrizationList(ModuleList):
    """The parametrizations of one tensor, in order, and what the first of them takes: `original`,
    or `original0`, `original1`, …. ValueError for what can't stand for the tensor.

    Args:
        modules: the parametrizations, at least one.
        original: the tensor.
        unsafe: whether they may change its shape or dtype, which is not checked then.
    """

    def __init__(self, modules: Sequence[Module], original: Tensor, unsafe: bool = False) -> None:
        if not len(modules):
            raise _refuse("ParametrizationList", "no modules", "one or more")
        super().__init__(modules)
        self.unsafe = unsafe
        like = original.detach()
        new: Any = original
        with no_grad():
            for m in reversed(list(self)):
                if hasattr(m, "right_inverse"):
                    with contextlib.suppress(NotImplementedError):  # it starts as it is
                        new = m.right_inverse(new)
        self.is_tensor = isinstance(new, Tensor)
        if not self.is_tensor and not isinstance(new, Sequence):
            seen = type(new).__name__
            raise _refuse("'right_inverse' must return", seen, "a Tensor or a sequence of them")
        self.ntensors = 1 if self.is_tensor else len(new)
        if self.is_tensor:
            _check("one tensor that 'right_inverse' gives", new, original, shape=False)
            if new.device != original.device:
                raise _refuse(
                    "one tensor that 'right_inverse' gives may not change the device",
                    f"{new.device}",
                    f"{original.device}",
                )
            original.data = new.detach()
            _register(self, "original", original)
        for i, part in enumerate(() if self.is_tensor else new):
            if not isinstance(part, Tensor):
                seen = f"{type(part).__name__} at {i}"
                raise _refuse("'right_inverse' must return a sequence of tensors", seen, "a Tensor")
            if isinstance(original, Parameter):
                part = Parameter(part, original.requires_grad)
            part.requires_grad_(original.requires_grad)
            _register(self, f"original{i}", part)
        if not unsafe:
            _check("a parametrization", self(), like)

    def _originals(self) -> list[Tensor]:
        names = ["original"] if self.is_tensor else [f"original{i}" for i in range(self.ntensors)]
        return [getattr(self, name) for name in names]

    @no_grad()
    def right_inverse(self, value: Tensor) -> None:
        """Set what the tensor is computed from, so that it becomes `value`. RuntimeError where a
        parametrization has no `right_inverse`, ValueError where it gives something else."""
        new: Any = value
        for m in reversed(list(self)):
            if not hasattr(m, "right_inverse"):
                raise RuntimeError(
                    f"parametrization {type(m).__name__} does not implement right_inverse, which "
                    "setting the tensor needs"
                )
            new = m.right_inverse(new)
        if not self.is_tensor and not isinstance(new, Sequence):
            seen = type(new).__name__
            raise _refuse("'right_inverse' must return a sequence of tensors", seen, "a sequence")
        parts = [new] if self.is_tensor else list(new)
        if len(parts) != self.ntensors:
            seen, expected = f"{len(parts)}", f"{self.ntensors}"
            raise _refuse("'right_inverse' must return as many tensors", seen, expected)
        for own, part in zip(self._originals(), parts, strict=True):
            _check("'right_inverse'", part, own, shape=False)
            own.data = part.detach()

    def forward(self) -> Tensor:
        """The tensor."""
        first, *rest = self
        x = first(*self._originals())
        for m in rest:
            x = m(x)
        return x


def _deepcopy(self: Module, memo: dict[int, Any]) -> Module:
    """A copy, with a class of its own too: the properties of one are not those of the other."""
    if id(self) in memo:
        return memo[id(self)]
    kind = type(self)
    twin: Any = kind.__new__(type(kind.__name__, kind.__bases__, dict(vars(kind))))
    memo[id(self)] = twin
    twin.__dict__.update(deepcopy(self.__dict__, memo))
    for slot in copyreg._slotnames(kind):  # type: ignore[attr-defined]
        if hasattr(self, slot):
            setattr(twin, slot, deepcopy(getattr(self, slot), memo))
    return twin


def _getstate(self: Module) -> Any:
    raise RuntimeError(
        f"{type(self).__name__}: parametrized modules can't be pickled; save their state_dict(), "
        "or call remove_parametrizations first"
    )


def _own_class(module: Module) -> None:
    """Give a module a class of its own, for its properties."""
    kind = type(module)
    fields: dict[str, Any] = {"__getstate__": _getstate, "__module__": module_of(kind)}
    if not hasattr(kind, "__deepcopy__"):
        fields["__deepcopy__"] = _deepcopy
    module.__class__ = type(f"Parametrized{kind.__name__}", (kind,), fields)


def _property(name: str) -> property:
    def get(self: Any) -> Tensor:
        compute = self.parametrizations[name]
        if not _cache.depth or mode.capture is not _cache.within:
            return compute()
        key = id(self), name
        if key not in _cache.found:
            _cache.found[key] = compute()
        return _cache.found[key]

    def set_(self: Any, value: Tensor) -> None:
        self.parametrizations[name].right_inverse(value)

    return property(get, set_)


def register_parametrization(
    module: Module, tensor_name: str, parametrization: Module, *, unsafe: bool = False
) -> Module:
    """Let a parameter or buffer be what `parametrization(original)` gives, whenever it is read.

    Its `right_inverse(tensor)`, if it has one, tells the original, or several; it is called when
    the tensor is set, too. Unless `unsafe`, dtype and shape stay as they are, else ValueError.

    Args:
        module: The module that has the tensor.
        tensor_name: The tensor's name in it.
        parametrization: A module: its `forward` computes the tensor.
        unsafe: Whether dtype and shape may change.
    """
    parametrization.train(module.training)
    if is_parametrized(module, tensor_name):
        if not unsafe:
            before = getattr(module, tensor_name)
            after = parametrization(before)
            _check("a parametrization", after, before)
            if hasattr(parametrization, "right_inverse"):
                with contextlib.suppress(NotImplementedError):
                    back: Any = parametrization.right_inverse(after)
                    _check("'right_inverse'", back, before)
        found: Any = module.parametrizations[tensor_name]
        found.append(parametrization)
        found.unsafe |= unsafe
    elif tensor_name in module._parameters or tensor_name in module._buffers:
        original = getattr(module, tensor_name)
        several = ParametrizationList([parametrization], original, unsafe)
        delattr(module, tensor_name)
        if not is_parametrized(module):
            _own_class(module)
            module.parametrizations = ModuleDict()
        setattr(type(module), tensor_name, _property(tensor_name))
        module.parametrizations[tensor_name] = several
    else:
        raise ValueError(
            f"register_parametrization: {type(module).__name__} has no parameter, buffer or "
            f"parametrized tensor named {tensor_name!r}"
        )
    return module


def is_parametrized(module: Module, tensor_name: str | None = None) -> bool:
    """Whether a module has a parametrized tensor, of that name if one is given.

    Args:
        module: The module.
        tensor_name: The tensor's name; any tensor if None.
    """
    found = getattr(module, "parametrizations", None)
    if not isinstance(found, ModuleDict):
        return False
    return bool(len(found)) if tensor_name is None else tensor_name in found


def remove_parametrizations(
    module: Module, tensor_name: str, leave_parametrized: bool = True
) -> Module:
    """Make a tensor a parameter or buffer again, with its value now or, unless
    `leave_parametrized`, its original. ValueError if it is not parametrized, or has several.

    Args:
        module: The module that has the tensor.
        tensor_name: The tensor's name in it.
    """
    if not is_parametrized(module, tensor_name):
        raise ValueError(
            f"remove_parametrizations: {type(module).__name__} has no parametrization on "
            f"{tensor_name!r}"
        )
    several = module.parametrizations[tensor_name]
    if several.is_tensor:
        original = several.original
        if leave_parametrized:
            with no_grad():
                original.data = getattr(module, tensor_name)
    elif leave_parametrized:
        value = getattr(module, tensor_name)
        original = Parameter(value) if value.requires_grad else value
    else:
        raise ValueError(
            "remove_parametrizations: a tensor that is computed from several cannot be left "
            "unparametrized (`leave_parametrized=False`)"
        )
    delattr(type(module), tensor_name)
    del module.parametrizations[tensor_name]
    _register(module, tensor_name, original)
    if not is_parametrized(module):
        del module.parametrizations
        module.__class__ = type(module).__bases__[0]
    return module


def type_before_parametrizations(module: Module) -> type:
    """The class of a module without its parametrizations.

    Args:
        module: The module.
    """
    return type(module).__bases__[0] if is_parametrized(module) else type(module)


def transfer_parametrizations_and_params(
    from_module: Module, to_module: Module, tensor_name: str | None = None
) -> Module:
    """Parametrize another module's tensors (or one of them) alike, with the same originals.

    Args:
        from_module: The module that has the parametrizations.
        to_module: The one that gets them.
        tensor_name: The name of one tensor; all if None.
    """
    if not is_parametrized(from_module):
        return to_module
    names = list(from_module.parametrizations) if tensor_name is None else [tensor_name]
    for name in names:
        several = from_module.parametrizations[name]
        if not hasattr(to_module, name):
            setattr(to_module, name, Parameter(getattr(from_module, name)))
        for m in several:
            register_parametrization(to_module, name, m)
        own = to_module.parametrizations[name]
        for key, x in [*several._parameters.items(), *several._buffers.items()]:
            setattr(own, key, x)
    return to_module
